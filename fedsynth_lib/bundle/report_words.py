"""The sentences of the report that are computed.

They say whether works, tables, figures and claims reproduce, which method leads, and what leaves a
client without noise.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from fedsynth_lib.bundle import headline
from fedsynth_lib.bundle.report_files import Table
from fedsynth_lib.core.store import project_root
from fedsynth_lib.metrics.registry import MEASURES
from fedsynth_lib.printed.entries import text_of
from fedsynth_lib.printed.layouts import MARKS_EXPLAINED
from fedsynth_lib.printed.outcomes import (
    FAILS,
    HOLDS,
    IN_FULL,
    IN_PART,
    NOT_IN_FULL,
    PARTLY,
    SHRUNK,
    SURE,
    UNDECIDED,
)
from fedsynth_lib.printed.published import JUDGED, MATCHED, MISSING, NOT_JUDGED, VERDICTS, WORKS
from fedsynth_lib.printed.readings import load_choices
from fedsynth_lib.verdicts import judges

BADGES = {IN_FULL: "complete", IN_PART: "part", SHRUNK: "small scale"}
SCALES = {
    IN_FULL: "Complete: all that it shows was made at the scale of the work",
    IN_PART: "Part of it was made at the scale of the work",
    SHRUNK: "It was made at small scale only, so that its levels say nothing",
}
NOISE = re.compile("noise weighs|[Ss]ignal-to-noise")
DIFFER = ("ordering", "different", "unstable")
JUDGED_ENTRY = re.compile(r"\)\s[=↕≠~]")  # the end of an entry of a saved table that is judged
REDRAWN = re.compile(r"(\d+) of (\d+)")  # resampled sets of runs with the same outcome, of all
# outcome -> class of a bar, counted as the columns of README.md are; any other is `rest`
CLASSES = {HOLDS: "holds", PARTLY: "partly", NOT_IN_FULL: "partly", FAILS: "fails"}
CLASSES |= {UNDECIDED: "open"}
# class -> words for one claim and for several
SAID = {
    "holds": ("holds", "hold"),
    "partly": ("does not hold in full", "do not hold in full"),
    "fails": ("does not hold", "do not hold"),
    "open": ("is undecided", "are undecided"),
    "rest": ("was not tested or cannot fail", "were not tested or cannot fail"),
}
AGREEMENT = {"within": "within error", "ordering": "order kept", "different": "different"}
AGREEMENT |= {"open": "not judged"}


class Verdict(NamedTuple):
    """The verdict as it is kept in data/results: exhibits, claims, and cells."""

    exhibits: pd.DataFrame
    claims: pd.DataFrame
    cells: pd.DataFrame

    @classmethod
    def read(cls) -> "Verdict":
        """Read the verdict as it is kept."""
        cells = headline.kept("cells.csv")
        claims = headline.claims_judged(judges.stored()).rename(
            columns={"on published values": "on_published"}
        )
        places = headline.load_claims().set_index("id")["location"]
        return cls(
            headline.kept("exhibits.csv"), claims.assign(place=claims["id"].map(places)), cells
        )

    def of(self, work: str) -> "Verdict":
        """Return the part about a work."""
        return Verdict(*(table[table["work"] == work] for table in self))

    def at(self, exhibit: str) -> "Verdict":
        """Of one table or figure; its claims are those whose place names it."""
        told = self.claims["place"].map(lambda place: exhibit in places(place)).astype(bool)
        exhibits, cells = (
            table[table["exhibit"] == exhibit] for table in (self.exhibits, self.cells)
        )
        return Verdict(exhibits, self.claims[told], cells)


def places(text: str) -> set[str]:
    """Return the tables and figures that the place of a claim names: `tab 6.1-6.3` is three."""
    number, named = r"[A-Z]?[\d.]*\d", set()
    chains = re.findall(rf"(tab|fig) ?((?:{number}[a-f]*(?:, | ?- ?| to )?(?:tab|fig)? ?)+)", text)
    for kind, chain in chains:
        ranges = rf"({number})[a-f]*(?:(?: ?- ?| to )(?:tab|fig)? ?({number}))?"
        for first, last in re.findall(ranges, chain):
            start, low = re.fullmatch(r"(.*?)(\d+)", first).groups()
            high = re.findall(r"\d+$", last or first)[0]
            named |= {f"{kind}{start}{each}" for each in range(int(low), int(high) + 1)}
    return named


def plural(number: int, noun: str) -> str:
    """`1 value`, `2 values`."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def listed(parts: Iterable[str]) -> str:
    """Write a list: `a, b and c`."""
    *first, last = parts
    return f"{', '.join(first)} and {last}" if first else last


def claims_counted(claims: pd.DataFrame) -> str:
    """How claims come out, as `2 hold, 1 is undecided`: the counts of their bar."""
    return listed(said_of(name, number) for name, number in claim_shares(claims) if number)


def said_of(name: str, number: int) -> str:
    """Count claims of a class of CLASSES in words: `2 hold`."""
    return f"{number} {SAID[name][number != 1]}"


def work_sentence(own: Verdict) -> str:
    """Whether a work, or all of them, reproduces, in one sentence."""
    full = int((own.exhibits["state"] == IN_FULL).sum())
    judged = own.cells[own.cells["by_chance"].notna()]
    said = f"Of {plural(len(own.claims), 'claim')} {claims_counted(own.claims)}; "
    said += f"{full} of {plural(len(own.exhibits), 'table')} and figures are complete"
    if len(judged):
        within, chance = int(judged["verdict"].eq("within").sum()), judged["by_chance"].sum()
        said += f"; {within:,} of {plural(len(judged), 'judged value')} agree within error "
        said += f"({chance:,.0f} would by chance)"
    return f"{said}."


def values_drawn(own: Verdict) -> str:
    """Say which values the picture of a work counts, and which of them its sentence counts."""
    drawn = own.cells["verdict"]
    drawn = drawn[drawn.isin(VERDICTS)]
    judged, chance = int(drawn.isin(JUDGED).sum()), int(own.cells["by_chance"].notna().sum())
    said = f"The picture has all {plural(len(drawn), 'published number')} of the work: "
    said += f"{drawn.eq('within').sum():,} within error, and {len(drawn) - judged:,} not judged or "
    said += "without a result of ours."
    if chance:
        those = "all" if chance == judged else f"{chance:,} of the"
        said += f" The sentence at the top counts {those} {judged:,} that are judged"
        said += "." if chance == judged else ": those that could be shuffled among experiments."
    return said


def claim_shares(claims: pd.DataFrame) -> list[tuple[str, int]]:
    """Return the bar of claims, which counts each of them once: (class of SAID, number)."""
    classes = claims["outcome"].map(CLASSES).fillna("rest")
    return [(name, int(classes.eq(name).sum())) for name in SAID]


def value_shares(cells: pd.DataFrame) -> list[tuple[str, int]]:
    """Return the bar of a table: how many values agree, keep their order, differ, or are open."""
    verdicts = cells["verdict"].where(cells["verdict"].isin(JUDGED), "open")
    return [(name, int(verdicts.eq(name).sum())) for name in (*JUDGED, "open")]


def exhibit_sentence(own: Verdict) -> str:
    """Whether a table or figure reproduces, in one sentence."""
    judged = own.cells[own.cells["verdict"].isin((*JUDGED, "unstable"))]
    said = SCALES.get(next(iter(own.exhibits["state"]), ""), SCALES[SHRUNK])
    if len(judged):
        said = by_measure(judged)
    elif unjudged := int(own.cells["verdict"].isin((NOT_JUDGED, MATCHED)).sum()):
        said = f"None of its {plural(unjudged, 'value')} is judged: runs are too small or too few"
    if len(own.claims):
        said += f"; of {plural(len(own.claims), 'claim')} about it {claims_counted(own.claims)}"
    return f"{said}."


def own_reading(own: Verdict, table: Table | None) -> str:
    """Say how many values agree in the table that is shown, where others are counted.

    Values are counted by the reading that the published values bear out; a saved table shows our
    own. It is empty if both counts agree.
    """
    judged = own.cells[own.cells["verdict"].isin((*JUDGED, "unstable"))]
    entries = [entry for row in table.rows for entry in row] if table else []
    marks = [entry[-1] for entry in entries if JUDGED_ENTRY.search(entry)]
    counted, shown = int(judged["verdict"].eq("within").sum()), marks.count("=")
    if not marks or judged.empty or (counted, len(judged)) == (shown, len(marks)):
        return ""
    named = borne_out(judged)
    return named and (
        f"The {counted} of {len(judged)} are counted by the reading that other published values "
        f"bear out ({'; '.join(named)}). By our own reading, which the table below shows, {shown} "
        f"of {plural(len(marks), 'value')} agree within error."
    )


def borne_out(cells: pd.DataFrame) -> list[str]:
    """Return the readings by which values of a table are counted in place of our own, in words."""
    (work,), (exhibit,) = cells["work"].unique(), cells["exhibit"].unique()
    return [
        f"{choice.choice.replace(':', ',')}: {reading.name}"
        for choice in load_choices()
        if choice.work == work and exhibit in choice.exhibits
        for reading in choice.readings
        if (cells["dataset"].isin(reading.main) & cells["metric"].isin(choice.metrics)).any()
    ]


def by_measure(judged: pd.DataFrame) -> str:
    """`20 of 30 values of workload error agree within error, and 5 of 25 of AUC`."""
    groups = [
        (label(metric), int(own["verdict"].eq("within").sum()), len(own))
        for metric, own in judged.groupby("metric", sort=False)
    ]
    within, number = (sum(each[at] for each in groups) for at in (1, 2))
    said = f"{within} of {plural(number, 'value')} agree with the published ones within error"
    detail = ", ".join(f"{name} {good} of {all_}" for name, good, all_ in groups)
    return f"{said} ({detail})" if 1 < len(groups) <= 8 else said


def label(metric: str) -> str:
    """Return the label of a measure, or its name with spaces."""
    return MEASURES[metric].label if metric in MEASURES else metric.replace("_", " ")


def belief(own: Verdict, captions: Sequence[str]) -> dict[str, Any]:
    """Return what speaks for and against a table or figure, as numbers.

    These are the runs of a value (fewest and most), the scale, what the captions and the missing
    parts say of noise, how many values agree and how many would by chance, and how many are left
    out, by verdict.
    """
    cells, counts = own.cells, own.cells["verdict"].value_counts()
    beside = cells[cells["by_chance"].notna() & cells["verdict"].isin(JUDGED)]
    within, chance = beside["verdict"].eq("within"), beside["by_chance"]
    spread = np.sqrt((chance * (1 - chance)).sum())
    missing = next(iter(own.exhibits["missing"]), "")
    # the explanation of the marks has the words, too, and says nothing of this table
    said = [caption.replace(MARKS_EXPLAINED, "") for caption in captions]
    parts = [part for each in said for part in re.split(r"(?<=\.) ", each)] + missing.split("; ")
    return {
        "runs": cells.loc[cells["runs"].gt(0), "runs"].astype(int).agg(["min", "max"]).tolist()
        if cells["runs"].gt(0).any()
        else [],
        "state": next(iter(own.exhibits["state"]), ""),
        "missing": missing,
        "noise": list(dict.fromkeys(part for part in parts if NOISE.search(part))),
        "matched": counts.get(MATCHED, 0),
        "beside": len(beside),
        "within": within.mean(),
        "chance": chance.mean(),
        "more": within.sum() - chance.sum() > 1.645 * spread,
        "out": {name: counts[name] for name in (NOT_JUDGED, MISSING) if name in counts},
    }


def causes(cells: pd.DataFrame) -> list[tuple[int, str]]:
    """Why values differ: (how many, cause), the most frequent first."""
    told = cells.loc[cells["verdict"].isin(DIFFER) & cells["cause"].ne(""), "cause"]
    return [(number, cause) for cause, number in told.value_counts().items()]


def why_open(claim: Any) -> str:
    """Say why a claim is undecided, or not in full, by its resampled sets of runs; else empty.

    claim: a line of `Verdict.claims`.
    """
    if claim.outcome not in (UNDECIDED, NOT_IN_FULL) or not claim.same_outcome:
        return ""
    said = claim.same_outcome
    if said == judges.ONE_RUN:
        said = "some of its experiments have one run, so that they cannot be resampled"
    elif counts := REDRAWN.fullmatch(said):
        same, redraws = map(int, counts.groups())
        if same >= SURE * redraws:
            return ""
        said = f"fewer than {100 * SURE:.0f} % of the resampled sets of runs reach the same outcome"
        if claim.outcome == NOT_IN_FULL:
            said += ", and hardly any of them satisfies the whole claim"
    return f"It is {claim.outcome}: {said}."


def holding(claim: Any) -> str:
    """Return the evidence of a claim without the conditions that `fails` has."""
    failing = claim.fails.split("; ")
    parts = claim.evidence.split("; ")
    return "; ".join(part for part in parts if part.removeprefix("seen: ") not in failing)


# --- which method, is it private -----------------------------------------------------------------


def leaders(table: pd.DataFrame, score: str) -> list[tuple[str, str, str]]:
    """Return (trust, method, score) of the best federated method of ours in each trust model.

    The best is first; higher scores are better.
    """
    best = _best_first(table, score).drop_duplicates("trusted")[["trusted", "method", "score"]]
    return list(best.itertuples(index=False, name=None))


def tied(table: pd.DataFrame, score: str) -> dict[str, str]:
    """Return (method -> score) of the best federated method of ours, and of those equal to it.

    Methods are equal within noise where their intervals overlap. Variants, which a comma sets
    apart, have the name of their method.
    """
    own = _best_first(table, score)
    mean, half = own[f"{score} mean"], own[f"{score} half"].fillna(0)
    near = own[mean.head(1).sum() - mean <= half.head(1).sum() + half]
    names = near["method"].str.partition(",")[0]
    return near.assign(name=names).drop_duplicates("name").set_index("name")["score"].to_dict()


def _best_first(table: pd.DataFrame, score: str) -> pd.DataFrame:
    """Return the federated lines of ours with a score, the highest first."""
    own = table[(table["group"] == "ours, federated") & table[f"{score} mean"].notna()]
    own = own.assign(score=scores(own, score))
    return own.sort_values(f"{score} mean", ascending=False, kind="stable")


def scores(table: pd.DataFrame, score: str) -> pd.Series:
    """Write a score of each line as `983.6 ± 1.0`, with as many digits as any of them has."""
    means, halves = table[f"{score} mean"], table[f"{score} half"]
    digits = means.dropna().map(lambda mean: len(f"{mean:.6g}".partition(".")[2])).max()
    texts = [text_of(*pair, digits) for pair in zip(means, halves, strict=True)]
    return pd.Series(texts, table.index)


def unprotected() -> list[dict[str, Any]]:
    """Count the kinds of release without noise of each private method of a work.

    `most` is the largest count among our runs (as published), `least` the smallest (in a variant).
    """
    folder, columns = project_root() / "data" / "results" / "paper", ["epsilon", "unprotected"]
    parts = [
        pd.read_csv(path, usecols=["method", *columns]).assign(work=work)
        for work in WORKS
        for path in folder.glob(f"*{work}*.csv")
    ]
    if not parts:  # a project without results
        return []
    rows = pd.concat(parts)
    private = rows[np.isfinite(rows["epsilon"]) & rows["unprotected"].notna()]
    groups = private.groupby(["work", "method"])["unprotected"]
    return groups.agg(most="max", least="min").astype(int).reset_index().to_dict("records")


def not_private(lines: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return the works with a private method that releases less without noise in our variant.

    The comparison is with the method as published. An oracle, which reads rows by design, has no
    variant.
    """
    more = {line["work"] for line in lines if line["most"] > line["least"]}
    return [work for work in WORKS if work in more]
