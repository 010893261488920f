"""The claims of the works, judged on rows: by the conditions in their files, group by group.

A notebook judges the claims of its chapter on the rows at hand, the verdict all of them on
committed rows; both go through here, so that no claim depends on what a notebook saved.
"""

from typing import Any

import numpy as np
import pandas as pd

from fedsynth_lib.core.contract import BadInput
from fedsynth_lib.printed.outcomes import Evidence
from fedsynth_lib.printed.published import UNTESTED, load_claims
from fedsynth_lib.verdicts.cells import cells_of
from fedsynth_lib.verdicts.claim_files import Claim, written
from fedsynth_lib.verdicts.custom import CUSTOM
from fedsynth_lib.verdicts.places import Condition, Missing, chosen, flat
from fedsynth_lib.verdicts.vocabulary import KINDS, Told

Judgement = tuple[bool | float | None, str]
COLUMNS = [
    *("id", "claim", "verdict", "share", "evidence", "fails", "published_holds", "seeds"),
]


def judge(claim: Claim, cells: pd.DataFrame, profile: str = "") -> Judgement:
    """Outcome and evidence: True, False, or the mean share of the conditions if it lies between;
    None where these cells cannot tell.

    profile: of the rows behind the cells; some claims show numbers and get no verdict at others
    than their own.
    """
    parts: list[Told] = []
    try:
        for c in claim.conditions:
            if c.kind == "custom":
                parts += CUSTOM[c.of](cells, c)
            elif not c.optional or _there(cells, c):
                parts.append(KINDS[c.kind](cells, c))
    except Missing as missing:
        return None, str(missing)
    if absent := dict.fromkeys(name for part in parts for name in part.absent):
        parts[-1] = parts[-1]._replace(text=f"{parts[-1].text}; not run: {', '.join(absent)}")
    evidence = Evidence.of((part.share, part.text) for part in parts)
    if claim.only_at and profile and profile != claim.only_at:
        return None, f"no verdict, {claim.why}; seen: {evidence}"
    share = float(np.mean([part.share for part in parts]))
    return bool(share) if share in (0, 1) else share, evidence


def _there(cells: pd.DataFrame, c: Condition) -> bool:
    """Whether there is a cell of every side."""
    across = "metric" if c.kind == "value" else c.across
    rows = chosen(cells, {axis: v for axis, v in c.where.items() if axis != across})
    return set(flat(c.of)) <= set(rows[across])


def judged(work: str, rows: pd.DataFrame, group: str = "", **reading: Any) -> pd.DataFrame:
    """The claims of a group, by default of all groups that have rows, each with our verdict.

    rows: tidy rows of one profile. Where they have `grid`, as committed rows do, a group is judged
        on those of its own grids; otherwise on all.
    reading: how rows are seen where a work leaves it open (`cells`), instead of as its file says.
    Columns: id, claim, verdict, share of the conditions that hold, evidence, fails (the conditions
    that do not), published_holds (what print says of itself), seeds (of the runs behind it).
    """
    claims = [claim for claim in written(work) if group in ("", claim.group)]
    if not claims:
        groups = ", ".join(dict.fromkeys(claim.group for claim in written(work)))
        raise BadInput(f"{work} has no group of claims {group!r}: choose one of {groups}.")
    texts = load_claims(work).set_index("id")
    lines, known = [], {}
    for claim in claims:
        own = rows[rows["grid"].isin(claim.grids)] if "grid" in rows else rows
        if own.empty and not group:
            continue
        ways = {**claim.reading, **reading}
        if (key := (claim.group, *sorted(ways.items()))) not in known:
            known[key] = cells_of(work, own, **ways)
        profile = own["profile"].iloc[0] if len(own) else ""
        outcome, evidence = judge(claim, known[key], profile)
        lines.append(
            {
                "id": claim.id,
                "claim": texts.loc[claim.id, "claim"],
                "verdict": verdict(outcome),
                "share": np.nan if outcome is None else float(outcome),
                "evidence": str(evidence),
                "fails": getattr(evidence, "fails", ""),
                "published_holds": texts.loc[claim.id, "holds_on_published_values"],
                "seeds": _seeds(own, claim.datasets),
            }
        )
    return pd.DataFrame(lines, columns=COLUMNS)


def verdict(outcome: bool | float | None) -> str:
    if outcome is None:
        return UNTESTED
    return "holds" if outcome == 1 else "does not hold" if outcome == 0 else "holds partly"


def _seeds(rows: pd.DataFrame, datasets: tuple[str, ...]) -> str:
    """`3`, or `1 to 5`: the fewest and the most runs of a method on a table that a claim is
    about."""
    about = rows[rows["dataset"].isin(datasets)]
    keys = ["dataset", "method", "setting", "partition", "n_clients", "epsilon", "detail", "metric"]
    groups = (about if len(about) else rows).groupby(keys, dropna=False)
    runs = groups["seed"].nunique().clip(lower=1)
    return f"{runs.min()}" if runs.min() == runs.max() else f"{runs.min()} to {runs.max()}"
