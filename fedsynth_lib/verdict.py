"""The verdict on the five works: exhibits made, printed cells met, claims that hold; gathered from what runs saved.

    python -m fedsynth_lib.verdict        # writes the headline table into README.md

Notebooks judge their own rows and save `<name>_claims.csv` and `<name>_verdicts.csv` (counts of printed cells, by
`published.compare`) beside their figures. Here all of these are put together, an exhibit or claim at the fullest
profile that tells anything about it. What was made from stand-ins lies in folders of its own and is not counted.
"""

import re
from collections.abc import Sequence
from pathlib import Path

import pandas as pd

from fedsynth_lib.chapters import exhibit_map
from fedsynth_lib.interface import BadInput
from fedsynth_lib.notebooks import Notebook, read_notebooks
from fedsynth_lib.published import UNTESTED, VERDICTS, WORKS, load_claims
from fedsynth_lib.rows import project_root, write_atomically

FULLEST_FIRST = ("paper", "quick")
READINGS = {"bytes": "as the work counts"}  # of cells that were compared in two readings, the one that is printed
OUTCOMES = ("holds", "holds partly", "does not hold", UNTESTED)
BEGIN, END = "<!-- verdict: made by python -m fedsynth_lib.verdict -->", "<!-- end of verdict -->"


def claims_judged(figures: Path | None = None) -> pd.DataFrame:
    """Every claim of the works: work, id, claim, verdict, profile, evidence, source, and `other`, the lesser profiles.

    A claim counts at the fullest profile that tested it. figures: the folder of the profiles' folders.
    """
    told = _exported("claims", figures)
    told = told[told["verdict"] != UNTESTED] if len(told) else told
    lines = []
    for claim in load_claims().itertuples():
        known = told[told["id"] == claim.id] if len(told) else told
        line = {"work": claim.id.partition("/")[0], "id": claim.id, "claim": claim.claim}
        if not len(known):
            lines.append(line | dict.fromkeys(("profile", "evidence", "source", "other"), "") | {"verdict": UNTESTED})
            continue
        first = known.iloc[0]
        rest = known.iloc[1:].drop_duplicates("profile")
        rest = rest[rest["profile"] != first["profile"]]
        other = "; ".join(f"{each.profile}: {each.verdict}" for each in rest.itertuples())
        lines.append(line | first[["verdict", "profile", "evidence", "source"]].to_dict() | {"other": other})
    return pd.DataFrame(lines)[["work", "id", "claim", "verdict", "profile", "evidence", "other", "source"]]


def cells_judged(figures: Path | None = None) -> pd.DataFrame:
    """Printed cells: work, exhibit, profile, VERDICTS, cells; each exhibit at the fullest profile with rows of ours."""
    told = _exported("verdicts", figures)
    for column, reading in READINGS.items():
        if column in told:
            told = told[told[column].isna() | (told[column] == reading)]
    columns = ["work", "exhibit", "profile", *VERDICTS, "cells"]
    if not len(told):
        return pd.DataFrame(columns=columns)
    counts = told.groupby(["work", "exhibit", "profile", "rank"], as_index=False)[VERDICTS].sum()
    counts["cells"] = counts[VERDICTS].sum(axis=1)
    counts = counts[counts["ours missing"] < counts["cells"]].sort_values(["work", "exhibit", "rank"])
    counts = counts.drop_duplicates(["work", "exhibit"])
    order = counts["work"].map(WORKS.index)
    return counts.assign(order=order).sort_values(["order", "exhibit"], ignore_index=True)[columns]


def exhibits_made(notebooks: Sequence[Notebook], figures: Path | None = None) -> pd.DataFrame:
    """Every exhibit that can be computed: work, exhibit, title, notebook, profile (the fullest saved, or '')."""
    table = exhibit_map(notebooks)
    table = table[table["status"] != "illustrative"]
    folder = figures or project_root() / "figures"
    saved = {p: {path.stem for path in (folder / p).glob("*") if path.suffix in (".png", ".md")} for p in FULLEST_FIRST}

    def fullest(work: str, exhibit: str) -> str:
        name = re.compile(rf"{re.escape(f'{work}_{exhibit}')}($|[_a-z])")
        return next((p for p in FULLEST_FIRST if any(name.match(stem) for stem in saved[p])), "")

    table = table.drop_duplicates(["work", "exhibit"])
    profiles = [fullest(*pair) for pair in zip(table["work"], table["exhibit"], strict=True)]
    return table.assign(profile=profiles)[["work", "exhibit", "title", "notebook", "profile"]].reset_index(drop=True)


def headline(exhibits: pd.DataFrame, cells: pd.DataFrame, claims: pd.DataFrame) -> pd.DataFrame:
    """One line for each work: exhibits made in full, shrunk, of all; printed cells by verdict; claims by outcome."""
    lines = {}
    for work in WORKS:
        made = exhibits.loc[exhibits["work"] == work, "profile"]
        printed = cells[cells["work"] == work]
        judged = claims.loc[claims["work"] == work, "verdict"].value_counts()
        lines[work] = {
            ("exhibits", "in full"): (made == "paper").sum(),
            ("exhibits", "shrunk"): (made == "quick").sum(),
            ("exhibits", "of"): len(made),
            **{("printed cells", verdict): printed[verdict].sum() for verdict in VERDICTS[:3]},
            **{("claims", outcome): judged.get(outcome, 0) for outcome in OUTCOMES},
        }
    return pd.DataFrame(lines).T.astype(int).rename_axis("work")


def as_markdown(table: pd.DataFrame) -> str:
    """The headline as a table of README.md."""
    names = ["work", *(f"{group}: {name}" for group, name in table.columns)]
    lines = [names, ["---"] + ["---:"] * len(table.columns)]
    lines += [[work, *map(str, row)] for work, row in zip(table.index, table.to_numpy(), strict=True)]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def put_into(text: str, table: str) -> str:
    """A text with the table between BEGIN and END. Raises BadInput where these lines are missing."""
    before, begin, rest = text.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not (begin and end):
        raise BadInput(f"README.md has no lines {BEGIN!r} and {END!r}: put them where the table belongs.")
    return f"{before}{BEGIN}\n{table}\n{END}{after}"


def current() -> str:
    """The headline table by what lies in figures/ now."""
    notebooks = read_notebooks(project_root() / "notebooks")
    return as_markdown(headline(exhibits_made(notebooks), cells_judged(), claims_judged()))


def _exported(kind: str, figures: Path | None) -> pd.DataFrame:
    """All `*_<kind>.csv` of the profiles, with `work`, `profile`, `rank` (0: fullest) and `source`."""
    folder, parts = figures or project_root() / "figures", []
    for rank, profile in enumerate(FULLEST_FIRST):
        for path in sorted((folder / profile).glob(f"*_{kind}.csv")):
            part = pd.read_csv(path, keep_default_na=False)
            work = next((name for name in WORKS if name in path.stem), None)
            if "id" in part:
                part["work"] = part["id"].str.partition("/")[0]
            else:
                part["work"] = work
            if "exhibit" not in part:
                part["exhibit"] = path.stem.removesuffix(f"_{kind}").removeprefix(f"{work}_")
            parts.append(part.assign(profile=profile, rank=rank, source=path.relative_to(folder).as_posix()))
    return pd.concat(parts, ignore_index=True) if parts else pd.DataFrame()


def main() -> None:
    path = project_root() / "README.md"
    write_atomically(path, put_into(path.read_text(encoding="utf-8"), current()).encode())
    print(f"{path.name}: the headline table is up to date")


if __name__ == "__main__":
    main()
