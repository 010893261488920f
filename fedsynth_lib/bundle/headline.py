"""The verdict on five works, from committed rows and from what is published.

It counts tables and figures made, published values met, claims that hold.

`./run_all.sh judge` computes it and keeps it beside the rows: `data/results/cells.csv` has a line
for each published value, `claims.csv` for each claim, `exhibits.csv` for each table and figure,
`readings.csv` for each reading of what a work leaves open, `claims_other_readings.csv` for each
claim that a notebook judges in a second reading. Everything that shows a verdict (README.md,
notebook 90, the report) reads these files; tests hold them to the rows. What was made from
stand-ins is in folders of its own and is not counted.
"""

from collections.abc import Iterator, Mapping
from typing import NamedTuple

import pandas as pd

from fedsynth_lib.core.store import project_root, write_atomically
from fedsynth_lib.printed import readings
from fedsynth_lib.printed.outcomes import (
    COUNTED,
    FAILS,
    HOLDS,
    IN_FULL,
    NOT_IN_FULL,
    NOT_MADE,
    OUTCOMES,
    PARTLY,
    STATES,
    UNDECIDED,
)
from fedsynth_lib.printed.published import KEYS, UNTESTED, WORKS, load_claims
from fedsynth_lib.runs.grid import committed_rows
from fedsynth_lib.runs.rows import FULLEST_FIRST
from fedsynth_lib.verdicts import causes, judges
from fedsynth_lib.verdicts.exhibits import (
    APART,
    Rows,
    check_methods,
    counts,
    drawn_points,
    load_exhibits,
    printed_cells,
    state_of,
)

AllRows = Mapping[str, Rows]  # work -> profile -> rows
RENAMED = {"paper": "work", "ours_std": "spread", "n": "runs", "published_std": "published_spread"}
CELL_COLUMNS = [
    *("work", "exhibit", *KEYS, "ours", "spread", "runs", "published", "published_spread"),
    *("error", "tolerance", "verdict", "by_chance", "order", "order_by_chance", "cause", "command"),
]
README_COLUMNS = [
    *("work", "tables and figures complete", "values within error", "by chance"),
    *("claims", "hold", "not in full", "do not hold", "undecided"),
]


class Verdict(NamedTuple):
    """The verdict as tables.

    exhibits: each table and figure. counts: each file of published values, counted. claims: each
        claim. cells: each published value beside ours.
    """

    exhibits: pd.DataFrame
    counts: pd.DataFrame
    claims: pd.DataFrame
    cells: pd.DataFrame = pd.DataFrame()


# --- computed from rows --------------------------------------------------------------------------


def write(exhibit_map: pd.DataFrame) -> list[str]:
    """Compute the five files from the committed rows; the names of those that changed.

    exhibit_map: of `bundle.chapters`, which notebook makes which table or figure.
    """
    rows, changed = all_rows(), []
    for name, text in computed(rows, exhibit_map):
        path = project_root() / "data" / "results" / name
        if not path.is_file() or path.read_bytes() != text.encode():
            write_atomically(path, text.encode())
            changed.append(name)
    return changed


def computed(rows: AllRows, exhibit_map: pd.DataFrame) -> Iterator[tuple[str, str]]:
    """Compute what `write` writes, with the names of the files; last what takes longest."""

    def as_text(table: pd.DataFrame, digits: int = 5) -> str:
        return table.to_csv(index=False, float_format=f"%.{digits}g", lineterminator="\n")

    paper = {work: own["paper"] for work, own in rows.items()}
    choices = readings.load_choices()
    printed = {each.id: printed_cells(each, rows[each.work]) for each in load_exhibits()}
    yield "exhibits.csv", as_text(states(rows, printed, exhibit_map))
    yield "cells.csv", as_text(cells_beside(printed, paper, exhibit_map))
    yield "readings.csv", as_text(readings.score(choices, paper))
    # of claims as many digits as tables in figures/ have, which are made from these lines
    others = [each for work in WORKS for each in judges.in_other_readings(work, paper[work])]
    yield judges.OTHERS, as_text(pd.concat(others), 10)
    claims = [judges.judged(work, paper[work]) for work in WORKS]
    yield judges.FILE, as_text(pd.concat(claims), 10)


def all_rows() -> AllRows:
    """Read the rows of all works, by work and profile."""
    return {
        work: {profile: committed_rows(work, profile) for profile in FULLEST_FIRST}
        for work in WORKS
    }


def cells_beside(
    printed: Mapping[str, pd.DataFrame], rows: Mapping[str, pd.DataFrame], exhibit_map: pd.DataFrame
) -> pd.DataFrame:
    """Every published value beside ours: CELL_COLUMNS.

    error: of the difference; tolerance: how far a match may be apart. by_chance: how often it would
    be within, and order_by_chance keep its order, if ours were shuffled. cause: why it is
    different, or a reading by which it is no longer within. command: what computes it again.
    """
    cells = pd.concat([each for each in printed.values() if "published" in each and len(each)])
    cells = cells.reset_index(drop=True)
    notebooks = exhibit_map[exhibit_map["notebook"] != ""].groupby(["work", "exhibit"])["notebook"]
    numbers = notebooks.agg(lambda names: ",".join(name[:2] for name in names))
    places = pd.MultiIndex.from_frame(cells[["paper", "exhibit"]])
    only = pd.Series(numbers.reindex(places).to_numpy(), cells.index)
    cells["command"] = "./run_all.sh --only " + only + " --profile paper --fresh"
    cells["cause"] = causes.of_cells(cells, rows)
    return cells.rename(columns=RENAMED)[CELL_COLUMNS]


def with_keys(cells: pd.DataFrame) -> pd.DataFrame:
    """Lines of cells.csv as `exhibits.printed_cells` has them."""
    named = cells.rename(columns={new: old for old, new in RENAMED.items()})
    return named.assign(difference=cells["ours"] - cells["published"])


def states(
    rows: AllRows, printed: Mapping[str, pd.DataFrame], exhibit_map: pd.DataFrame
) -> pd.DataFrame:
    """Return every table and figure that a run can make, in the order of the catalogues.

    Columns: work, exhibit, title, notebook, state (`exhibits.STATES`), and `missing`, which says in
    words what it lacks to be in full.
    """
    made = exhibit_map[exhibit_map["notebook"] != ""].groupby(["work", "exhibit"])["notebook"]
    made_by = made.agg(", ".join)
    titles = exhibit_map.drop_duplicates(["work", "exhibit"]).set_index(["work", "exhibit"])
    titles = titles.loc[titles["status"] != "illustrative", "title"]
    lines = {}
    for each in load_exhibits():
        check_methods(each, rows[each.work])
        place, points = (each.work, each.name), drawn_points(each, rows[each.work])
        state, missing = state_of(each, printed[each.id], points)
        if each.live and place not in made_by:
            state, missing = NOT_MADE, "no notebook makes it"
        if place in titles:
            line = {"work": each.work, "exhibit": each.name, "title": titles[place]}
            line |= {"notebook": made_by.get(place, ""), "state": state, "missing": missing}
            lines[place] = line
    return pd.DataFrame([lines[place] for place in titles.index])


# --- read from what is kept ----------------------------------------------------------------------


def kept(name: str) -> pd.DataFrame:
    """Read a file that `write` made.

    A column of texts, such as each of KEYS, has "" where a text is missing.
    """
    table = pd.read_csv(project_root() / "data" / "results" / name, dtype=dict.fromkeys(KEYS, str))
    texts = table.select_dtypes(object)
    return table.fillna(dict.fromkeys(texts, ""))


def gathered() -> Verdict:
    """Read the verdict as it is kept."""
    cells = kept("cells.csv")
    return Verdict(kept("exhibits.csv"), counted(cells), claims_judged(judges.stored()), cells)


def counted(cells: pd.DataFrame) -> pd.DataFrame:
    """Count every file of published values.

    Columns: work, exhibit, those of `exhibits.counts`, and why ours are missing where no rows are
    kept. cells: of `cells_beside`.
    """
    groups = {place: own for place, own in cells.groupby(["work", "exhibit"])}
    lines = []
    for each in load_exhibits():
        own = groups.get((each.work, each.name), cells.head(0))
        found = counts(each, own)
        if found["cells"] or found["excluded"] or found[APART]:
            line = {"work": each.work, "exhibit": each.name, **found}
            lines.append({**line, "why ours are missing": each.apart or each.live or each.without})
    return pd.DataFrame(lines)


def claims_judged(told: pd.DataFrame) -> pd.DataFrame:
    """Every claim, with what `judges.judged` says of it by rows of profile paper, or not tested.

    Columns: work, id, claim, outcome (OUTCOMES), share (of its conditions that hold),
    same_outcome (of resampled runs), needs (what would decide), seeds, `on published values`
    (whether the claim holds on them), fails (the conditions that do not hold), evidence.
    """
    texts = load_claims().set_index("id")
    table = texts[["claim"]].join(told.drop(columns="claim").set_index("id"))
    table["outcome"] = table["verdict"].fillna(UNTESTED)
    table["on published values"] = texts["holds_on_published_values"]
    table = table.rename(columns={"redrawn": "same_outcome"}).reset_index()
    table["work"] = table["id"].str.partition("/")[0]
    columns = ["work", "id", "claim", "outcome", "share", "same_outcome", "needs", "seeds"]
    table = table[[*columns, "on published values", "fails", "evidence"]]
    return table.fillna(dict.fromkeys(["same_outcome", "needs", "seeds", "fails", "evidence"], ""))


def headline(verdict: Verdict) -> pd.DataFrame:
    """Return one line for each work.

    A line counts tables and figures by state, published values by verdict, and claims by outcome,
    and has the total of each.
    """
    lines = {}
    for work in WORKS:
        shown, values, claims = (table[table["work"] == work] for table in verdict[:3])
        state, judged = shown["state"].value_counts(), claims["outcome"].value_counts()
        lines[work] = {
            **{("tables and figures", name): state.get(name, 0) for name in STATES[:3]},
            ("tables and figures", "of"): len(shown),
            **{("published values", name): values[name].sum() for name in (*COUNTED, "cells")},
            **{("claims", name): judged.get(name, 0) for name in OUTCOMES},
            ("claims", "of"): len(claims),
        }
    table = pd.DataFrame(lines).T.astype(int).rename_axis("work")
    return table.rename(columns={"cells": "of"}, level=1)


def as_markdown(verdict: Verdict) -> str:
    """Return the headline as the table of README.md, with a line for each work.

    It counts the published values for which `by_chance` is known.
    """
    cells = verdict.cells[verdict.cells["by_chance"].notna()]
    lines = [README_COLUMNS, ["---", *["---:"] * (len(README_COLUMNS) - 1)]]
    for work, numbers in headline(verdict).iterrows():
        made, claims = numbers["tables and figures"], numbers["claims"]
        judged = cells[cells["work"] == work]
        within = f"{(judged['verdict'] == 'within').sum():,} of {len(judged):,}"
        line = [work, f"{made[IN_FULL]} of {made['of']}", within]
        line += [f"{judged['by_chance'].sum():,.0f}", claims["of"], claims[HOLDS]]
        line += [claims[PARTLY] + claims[NOT_IN_FULL], claims[FAILS], claims[UNDECIDED]]
        lines.append(line)
    return "\n".join(f"| {' | '.join(map(str, line))} |" for line in lines)
