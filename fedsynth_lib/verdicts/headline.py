"""The verdict on five works, from committed rows and from print: exhibits made, printed cells met,
claims that hold.

`exhibits` says what of each exhibit there is, cell by cell and point by point, `judges` which claim
is judged on which rows; here both are counted. What was made from stand-ins lies in folders of its
own and is not counted.
"""

from collections.abc import Mapping
from typing import NamedTuple

import pandas as pd

from fedsynth_lib.printed.outcomes import COUNTED, NOT_MADE, OUTCOMES, STATES
from fedsynth_lib.printed.published import WORKS, load_claims
from fedsynth_lib.runs.grid import committed_rows
from fedsynth_lib.runs.rows import FULLEST_FIRST
from fedsynth_lib.verdicts import judges
from fedsynth_lib.verdicts.exhibits import (
    Rows,
    check_methods,
    counts,
    drawn_points,
    load_exhibits,
    printed_cells,
    state_of,
)

AllRows = Mapping[str, Rows]  # work -> profile -> rows


class Verdict(NamedTuple):
    """As `exhibits_and_cells` and `claims_judged` return them. printed: every printed cell beside
    ours."""

    exhibits: pd.DataFrame
    cells: pd.DataFrame
    claims: pd.DataFrame
    printed: pd.DataFrame = pd.DataFrame()


def gathered(exhibit_map: pd.DataFrame, rows: AllRows | None = None) -> Verdict:
    """All tables by the rows given, by default by all that are committed.

    exhibit_map: of `bundle.chapters`, which notebook makes which exhibit.
    """
    rows = rows or all_rows()
    printed = all_printed(rows)
    exhibits, cells = exhibits_and_cells(exhibit_map, rows, printed)
    beside = pd.concat(
        [found for found in printed.values() if len(found) and "difference" in found]
    )
    return Verdict(exhibits, cells, claims_judged(by_profile(rows)), beside)


def all_printed(rows: AllRows) -> dict[str, pd.DataFrame]:
    """Exhibit -> its printed cells beside ours."""
    return {each.id: printed_cells(each, rows[each.work]) for each in load_exhibits()}


def all_rows() -> AllRows:
    return {
        work: {profile: committed_rows(work, profile) for profile in FULLEST_FIRST}
        for work in WORKS
    }


def exhibits_and_cells(
    exhibit_map: pd.DataFrame, rows: AllRows, printed: Mapping[str, pd.DataFrame] | None = None
) -> tuple[pd.DataFrame, pd.DataFrame]:
    """What there is of every exhibit that a run can make, and every file of printed values,
    counted.

    exhibits: work, exhibit, title, notebook, state (`exhibits.STATES`), and `missing`, in words, to
        be in full.
    cells: work, exhibit, `exhibits.COUNTED` and their sum `cells`; `excluded`, printed numbers that
        cannot serve as a reference; `words`, printed entries that are none; and why ours are
        missing where no rows are kept.
    """
    table = exhibit_map
    made_by = table[table["notebook"] != ""].groupby(["work", "exhibit"])["notebook"].agg(", ".join)
    titles = table.drop_duplicates(["work", "exhibit"]).set_index(["work", "exhibit"])
    regenerable = titles.index[titles["status"] != "illustrative"]
    exhibits, cells = [], []
    for each in load_exhibits():
        check_methods(each, rows[each.work])
        place = (each.work, each.name)
        found = printed_cells(each, rows[each.work]) if printed is None else printed[each.id]
        state, missing = state_of(each, found, drawn_points(each, rows[each.work]))
        if each.live and place not in made_by:
            state, missing = NOT_MADE, "no notebook makes it"
        if place in regenerable:
            line = {"title": titles.loc[place, "title"], "notebook": made_by.get(place, "")}
            line = {"work": each.work, "exhibit": each.name, **line}
            exhibits.append({**line, "state": state, "missing": missing})
        if (counted := counts(each, found))["cells"] or counted["excluded"]:
            line = {"work": each.work, "exhibit": each.name, **counted}
            cells.append({**line, "why ours are missing": each.live or each.without})
    order = {place: number for number, place in enumerate(regenerable)}
    exhibits.sort(key=lambda line: order[line["work"], line["exhibit"]])
    return pd.DataFrame(exhibits), pd.DataFrame(cells)


def by_profile(rows: AllRows) -> pd.DataFrame:
    """Every claim at every profile with rows: `judges.judged`, with `profile`, the fullest first,
    and `outcome`."""
    pairs = [(work, profile) for work in WORKS for profile in FULLEST_FIRST]
    judged = [
        judges.judged(work, rows[work][profile]).assign(profile=profile) for work, profile in pairs
    ]
    told = pd.concat([each for each in judged if len(each)] or judged[:1], ignore_index=True)
    return told.rename(columns={"verdict": "outcome"})


def claims_judged(told: pd.DataFrame) -> pd.DataFrame:
    """Every claim, at the fullest profile that could test it. told: what `by_profile` returns.

    Columns: work, id, claim, outcome (OUTCOMES), share (of its main conditions that hold),
    redrawn (of runs drawn anew), profile, seeds, `on print` (whether the claim holds on the printed
    values), fails (the conditions that do not hold), evidence, and `other`, the share that a shrunk
    run has, which gets no verdict.
    """
    lines = []
    for claim in load_claims().itertuples():
        known = told[told["id"] == claim.id]
        tested = known[known["outcome"] != OUTCOMES[-1]]
        # why not, of the lesser profile
        first = (tested if len(tested) else known.iloc[::-1]).head(1)
        line = {"work": claim.id.partition("/")[0], "id": claim.id, "claim": claim.claim}
        line["outcome"] = OUTCOMES[-1]
        line |= dict.fromkeys(("share", "redrawn", "profile", "seeds", "fails", "evidence"), "")
        line |= (
            {} if first.empty else first[list(told.columns.intersection(line))].iloc[0].to_dict()
        )
        line["on print"] = claim.holds_on_published_values
        rest = known.drop(first.index).dropna(subset="share")
        line["other"] = "; ".join(f"{e.profile}: {e.share:.2f}" for e in rest.itertuples())
        lines.append(line)
    table = pd.DataFrame(lines)
    table["share"] = pd.to_numeric(table["share"])
    columns = ["work", "id", "claim", "outcome", "share", "redrawn", "profile", "seeds"]
    return table[[*columns, "on print", "fails", "other", "evidence"]]


def headline(verdict: Verdict) -> pd.DataFrame:
    """One line for each work: exhibits by state, printed cells by verdict, claims by outcome, and
    how many of each."""
    lines = {}
    for work in WORKS:
        states, printed, outcomes = (table[table["work"] == work] for table in verdict[:3])
        state, judged = states["state"].value_counts(), outcomes["outcome"].value_counts()
        lines[work] = {
            **{("exhibits", name): state.get(name, 0) for name in STATES[:3]},
            ("exhibits", "of"): len(states),
            **{("printed cells", name): printed[name].sum() for name in (*COUNTED, "cells")},
            **{("claims", name): judged.get(name, 0) for name in OUTCOMES},
            ("claims", "of"): len(outcomes),
        }
    table = pd.DataFrame(lines).T.astype(int).rename_axis("work")
    return table.rename(columns={"cells": "of"}, level=1)


def as_markdown(table: pd.DataFrame) -> str:
    """The headline as a table of README.md: a column for each work, a line for each count."""
    lines = [["", *table.index], ["---"] + ["---:"] * len(table)]
    lines += [[f"{group}: {name}", *map(str, counts)] for (group, name), counts in table.items()]
    return "\n".join("| " + " | ".join(line).strip() + " |" for line in lines)
