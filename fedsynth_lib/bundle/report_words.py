"""The sentences of the report that are computed: whether works, tables, figures and claims
reproduce, which method leads, and what leaves a client without noise."""

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from fedsynth_lib.bundle import headline
from fedsynth_lib.metrics.registry import MEASURES
from fedsynth_lib.printed.outcomes import (
    FAILS,
    HOLDS,
    IN_FULL,
    IN_PART,
    NOT_IN_FULL,
    OUTCOMES,
    PARTLY,
    SHRUNK,
)
from fedsynth_lib.printed.published import JUDGED, MATCHED, MISSING, NOT_JUDGED, WORKS
from fedsynth_lib.runs.grid import committed_rows
from fedsynth_lib.verdicts import judges

BADGES = {IN_FULL: "complete", IN_PART: "part", SHRUNK: "small scale"}
DIFFER = ("ordering", "different", "unstable")
AGREEMENT = {"within": "within error", "ordering": "order kept", "different": "different"}


class Verdict(NamedTuple):
    """The verdict as it is kept in data/results: exhibits, claims, and cells with `metric` and
    `method`."""

    exhibits: pd.DataFrame
    claims: pd.DataFrame
    cells: pd.DataFrame

    @classmethod
    def read(cls) -> "Verdict":
        cells = headline.kept("cells.csv")
        cells = cells.join(headline.keys_of(cells["cell"])[["metric", "method"]])
        claims = headline.claims_judged(judges.stored()).rename(
            columns={"on print": "on_published"}
        )
        places = headline.load_claims().set_index("id")["location"]
        return cls(
            headline.kept("exhibits.csv"), claims.assign(place=claims["id"].map(places)), cells
        )

    def of(self, work: str) -> "Verdict":
        return Verdict(*(table[table["work"] == work] for table in self))

    def at(self, exhibit: str) -> "Verdict":
        """Of one table or figure; its claims are those whose place names it."""
        told = self.claims["place"].map(lambda place: exhibit in places(place)).astype(bool)
        own = (table[table["exhibit"] == exhibit] for table in (self.exhibits, self.cells))
        exhibits, cells = own
        return Verdict(exhibits, self.claims[told], cells)


def places(text: str) -> set[str]:
    """The tables and figures that the place of a claim names: `tab 6.1-6.3` is three."""
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
    """`a, b and c`."""
    *first, last = parts
    return f"{', '.join(first)} and {last}" if first else last


def claims_counted(claims: pd.DataFrame) -> str:
    """How claims come out, as `2 hold, 1 is undecided`."""
    words = {HOLDS: ("holds", "hold"), FAILS: ("does not hold", "do not hold")}
    words |= {PARTLY: ("holds in part", "hold in part")}
    words |= {NOT_IN_FULL: ("does not hold in full", "do not hold in full")}
    counts = claims["outcome"].value_counts()
    said = []
    for outcome in OUTCOMES:
        if number := int(counts.get(outcome, 0)):
            one, many = words.get(outcome, (f"is {outcome}", f"are {outcome}"))
            said.append(f"{number} {one if number == 1 else many}")
    return listed(said)


def work_sentence(own: Verdict) -> str:
    """Whether a work, or all of them, reproduces, in one sentence."""
    full, claims = int((own.exhibits["state"] == IN_FULL).sum()), len(own.claims)
    judged = own.cells[own.cells["by_chance"].notna()]
    said = f"Of {plural(claims, 'claim')} {claims_counted(own.claims)}; "
    said += f"{full} of {plural(len(own.exhibits), 'table')} and figures are complete"
    if len(judged):
        within, chance = int(judged["verdict"].eq("within").sum()), judged["by_chance"].sum()
        said += f"; {within:,} of {plural(len(judged), 'value')} agree within error "
        said += f"({chance:,.0f} would by chance)"
    return f"{said}."


def claim_shares(claims: pd.DataFrame) -> list[tuple[str, int]]:
    """The bar of a card: (class, number) for claims that hold, hold in part, fail, and are open."""
    counts = claims["outcome"].value_counts()
    groups = {"holds": (HOLDS,), "partly": (PARTLY, NOT_IN_FULL), "fails": (FAILS,)}
    shares = [(name, int(sum(counts.get(one, 0) for one in ones))) for name, ones in groups.items()]
    return [*shares, ("open", len(claims) - sum(number for _, number in shares))]


def value_shares(cells: pd.DataFrame) -> list[tuple[str, int]]:
    """The bar of a table: how many of its values agree, keep their order, differ, or are open."""
    counts = cells["verdict"].value_counts()
    shares = [(name, int(counts.get(name, 0))) for name in JUDGED]
    return [*shares, ("open", len(cells) - sum(number for _, number in shares))]


def exhibit_sentence(own: Verdict) -> str:
    """Whether a table or figure reproduces, in one sentence."""
    cells, state = own.cells, own.exhibits["state"].iloc[0] if len(own.exhibits) else ""
    judged = cells[cells["verdict"].isin((*JUDGED, "unstable"))]
    if len(judged):
        said = by_measure(judged)
    elif len(cells) and (unjudged := int(cells["verdict"].isin((NOT_JUDGED, MATCHED)).sum())):
        said = f"None of its {plural(unjudged, 'value')} is judged: runs are too small or too few"
    elif state == IN_FULL:
        said = "Complete: all that it shows was made at the scale of the work"
    elif state == IN_PART:
        said = "Part of it was made at the scale of the work"
    else:
        said = "It was made at small scale only, so that its levels say nothing"
    if len(own.claims):
        said += f"; of {plural(len(own.claims), 'claim')} about it {claims_counted(own.claims)}"
    return f"{said}."


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
    return MEASURES[metric].label if metric in MEASURES else metric.replace("_", " ")


def belief(own: Verdict, caption: str) -> list[tuple[str, str]]:
    """What speaks for and against a table or figure: (question, answer)."""
    cells, said = own.cells, []
    state, missing = own.exhibits[["state", "missing"]].iloc[0] if len(own.exhibits) else ("", "")
    runs = cells.loc[cells["runs"].gt(0), "runs"].astype(int)
    if len(runs):
        low, high = runs.min(), runs.max()
        said.append(("Runs", f"{low} of each" if low == high else f"{low} to {high} of each"))
    full = ("Scale", "as in the work") if state == IN_FULL else ("Missing", missing or "its scale")
    said.append(full)
    parts = re.split(r"(?<=\.) ", caption)
    noise = [part for part in parts if re.search("noise weighs|[Ss]ignal-to-noise", part)]
    if matched := int(cells["verdict"].eq(MATCHED).sum()):
        noise.append(
            f"{plural(matched, 'value')} come from fewer passes at the signal-to-noise ratio of "
            "the work, and are not judged."
        )
    said.append(("Noise", " ".join(noise) or "no difference to the work is known"))
    beside = cells[cells["by_chance"].notna() & cells["verdict"].isin(JUDGED)]
    if len(beside):
        within, chance = beside["verdict"].eq("within"), beside["by_chance"]
        more = within.sum() - chance.sum() > 1.645 * np.sqrt((chance * (1 - chance)).sum())
        told = "more than chance explains" if more else "no more than chance explains"
        said.append(
            (
                "By chance",
                f"{within.mean():.0%} agree and {chance.mean():.0%} would if our values "
                f"were shuffled among experiments: {told}",
            )
        )
    open_ = {name: int(cells["verdict"].eq(name).sum()) for name in (NOT_JUDGED, MISSING)}
    if any(open_.values()):
        parts = {NOT_JUDGED: "from runs that are too small or too few", MISSING: "without results"}
        counted = (f"{plural(n, 'value')} {parts[name]}" for name, n in open_.items() if n)
        said.append(("Left out", listed(counted)))
    return said


def causes(cells: pd.DataFrame) -> list[tuple[int, str]]:
    """Why values differ: (how many, cause), the most frequent first."""
    told = cells.loc[cells["verdict"].isin(DIFFER) & cells["cause"].ne(""), "cause"]
    return [(number, cause) for cause, number in told.value_counts().items()]


# --- which method, is it private -----------------------------------------------------------------


def leaders(table: pd.DataFrame, score: str) -> list[tuple[str, str, str]]:
    """(trust, method, score) of the best federated method of ours in each trust model, best first;
    scores are texts such as `983.6 ± 1.0`, more is better."""
    own = table[(table["group"] == "ours, federated") & table[score].ne("")]
    own = own.assign(number=own[score].str.split(" ").str[0].astype(float))
    best = own.sort_values("number", ascending=False, kind="stable").drop_duplicates("trusted")
    return list(best[["trusted", "method", score]].itertuples(index=False, name=None))


def unprotected() -> list[dict[str, Any]]:
    """For each private method of a work, how many kinds of release without noise a run of ours has
    at most (as published) and at least (in a variant)."""
    lines = []
    for work in WORKS:
        rows = committed_rows(work, "paper")
        private = rows[np.isfinite(rows["epsilon"].astype(float)) & rows["unprotected"].notna()]
        for method, own in private.groupby("method")["unprotected"]:
            line = {"work": work, "method": method, "most": int(own.max())}
            lines.append(line | {"least": int(own.min())})
    return lines


def not_private(lines: Sequence[Mapping[str, Any]]) -> list[str]:
    """The works with a private method that releases more without noise as published than in our
    variant; an oracle, which reads rows by design, has no variant."""
    more = {line["work"] for line in lines if line["most"] > line["least"]}
    return [work for work in WORKS if work in more]
