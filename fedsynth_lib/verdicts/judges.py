"""The claims of the works, judged on rows: by the conditions in their files, group by group.

A notebook judges the claims of its chapter on the rows at hand, the verdict all of them on
committed rows; both go through here, so that no claim depends on what a notebook saved.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from fedsynth_lib.core.contract import BadInput, stream
from fedsynth_lib.figures import SavedTable, Saver
from fedsynth_lib.printed.outcomes import UNTOLD, VACUOUS, Evidence, outcome
from fedsynth_lib.printed.published import UNTESTED, load_claims
from fedsynth_lib.verdicts.cells import finished, measured_cells, redrawn
from fedsynth_lib.verdicts.claim_files import Claim, written
from fedsynth_lib.verdicts.custom.claims import CUSTOM
from fedsynth_lib.verdicts.places import (
    Condition,
    Missing,
    RanOnce,
    chosen,
    flat,
    same_layout,
    word,
)
from fedsynth_lib.verdicts.vocabulary import KINDS, Told

REDRAWS = 40  # at least, and as many again and again while a verdict hangs on which were drawn
MOST_REDRAWS = 10 * REDRAWS
TAILS = 0.05, 0.95  # quantiles of the shares that redrawn runs have
JUDGED_AT = ("paper", "")  # rows of a shrunk profile show numbers and get no verdict
Judgement = tuple[float | None, str]
COLUMNS = [
    *("id", "claim", "verdict", "share", "redrawn", "evidence", "fails", "published_holds"),
    "seeds",
]


def judge(claim: Claim, cells: pd.DataFrame) -> Judgement:
    """Mean share of the main conditions that hold, and the evidence; None where these cells cannot
    tell. A side clause decides nothing: without its cells it alone is not tested."""
    try:
        parts, left_out = _told(claim, cells)
    except Missing as missing:
        return None, str(missing)
    if not (main := [part.share for part in parts if not part.side]):
        return None, f"not run: {', '.join(left_out)}"
    if absent := dict.fromkeys([*(name for part in parts for name in part.absent), *left_out]):
        parts[-1] = parts[-1]._replace(text=f"{parts[-1].text}; not run: {', '.join(absent)}")
    return float(np.mean(main)), Evidence.of((part.share, part.said) for part in parts)


def _told(claim: Claim, cells: pd.DataFrame) -> tuple[list[Told], list[str]]:
    """What is told of each condition, and what optional ones lack. Raises Missing where cells of a
    main condition are, or of all optional ones; RanOnce where only repeats of them are."""
    parts: list[Told] = []
    left_out: list[str] = []
    why: Missing | None = None
    once: RanOnce | None = None
    for c in claim.conditions:
        if c.optional and (lost := _lost(cells, c)):
            left_out.append(lost)
            continue
        try:
            found = CUSTOM[c.of](cells, c) if c.kind == "custom" else [KINDS[c.kind](cells, c)]
        except Missing as missing:
            if c.side:
                parts.append(Told(np.nan, str(missing), side=True))
                continue
            if not c.optional:
                if not isinstance(missing, RanOnce):
                    raise
                once = once or missing
                continue
            why = why or missing
            left_out.append(f"{_about(c) or ', '.join(map(word, flat(c.of)))} in full")
            continue
        parts += [part._replace(side=part.side or c.side) for part in found]
    if once:
        raise once
    if why and all(part.side for part in parts):
        raise why
    return parts, left_out


def _lost(cells: pd.DataFrame, c: Condition) -> str:
    """Of an optional condition a side of which has no cell: what it is about, or those sides."""
    across = {"value": "metric", "tested": "setting"}.get(c.kind, c.across)
    rows = chosen(cells, {axis: v for axis, v in c.where.items() if axis != across})
    sides = [value for value in flat(c.of) if value not in set(rows[across])]
    return (_about(c, across) or ", ".join(map(word, sides))) if sides else ""


def _about(c: Condition, across: str = "") -> str:
    """What a condition alone is of."""
    own = c.own["where"].items()
    return ", ".join(word(v[0]) for a, v in own if len(v) == 1 and a not in ("metric", across))


def judged(
    work: str, rows: pd.DataFrame, group: str = "", *, redraws: int = MOST_REDRAWS, **reading: Any
) -> pd.DataFrame:
    """The claims of a group, by default of all groups that have rows, each with our verdict.

    rows: tidy rows of one profile. Where they have `grid`, as committed rows do, a group is judged
        on those of its own grids; otherwise on all.
    redraws: how often runs are drawn anew at most; with 0 no verdict rests on them.
    reading: how rows are seen where a work leaves it open (`cells`), instead of as its file says.
    Columns: id, claim, verdict (`outcomes.OUTCOMES`), share of the main conditions that hold,
    redrawn (the shares that runs drawn anew have, in words), evidence, fails (the conditions that
    do not, those of side clauses named so), published_holds (what print says of itself), seeds (of
    the runs behind it).
    """
    claims = [claim for claim in written(work) if group in ("", claim.group)]
    if not claims:
        groups = ", ".join(dict.fromkeys(claim.group for claim in written(work)))
        raise BadInput(f"{work} has no group of claims {group!r}: choose one of {groups}.")
    texts = load_claims(work).set_index("id")
    lines, seen = {}, {}
    for claim in claims:
        own = rows[rows["grid"].isin(claim.grids)] if "grid" in rows else rows
        if len(own) or group:
            ways = {**claim.reading, **reading}
            seen.setdefault((claim.group, *sorted(ways.items())), (own, ways, []))[2].append(claim)
    for own, ways, alike in seen.values():
        profile = own["profile"].iloc[0] if len(own) else ""
        for claim, told in _on_rows(work, own, ways, alike, profile, redraws):
            lines[claim.id] = {
                "id": claim.id,
                "claim": texts.loc[claim.id, "claim"],
                **told,
                "published_holds": texts.loc[claim.id, "holds_on_published_values"],
                "seeds": _seeds(own, claim.datasets),
            }
    return pd.DataFrame([lines[c.id] for c in claims if c.id in lines], columns=COLUMNS)


def save_claims(
    save: Saver,
    work: str,
    rows: pd.DataFrame,
    group: str,
    exhibit: str,
    *,
    what: str,
    on_print: bool = False,
    beside: Mapping[str, pd.Series] | None = None,
) -> SavedTable:
    """Judge a group of claims on the rows at hand, and save what came out under `exhibit`.

    what: of the caption, as "Claims on utility". on_print: a last column says what print says of
        itself. beside: further columns, as the verdicts in another reading, by their headings.
    """
    table = judged(work, rows, group).assign(**(beside or {}))
    power = ["redrawn"] if table["redrawn"].any() else []  # a shrunk run is not drawn anew
    columns = ["id", "claim", "verdict", "share", *power, *(beside or {}), "evidence"]
    columns += ["published_holds"] if on_print else []
    caption = f"{what}, judged on our rows, profile {save.profile}"
    return save.table(table[columns], exhibit, caption=caption)


def _on_rows(
    work: str,
    rows: pd.DataFrame,
    ways: dict[str, Any],
    claims: list[Claim],
    profile: str,
    redraws: int,
) -> Iterator[tuple[Claim, dict[str, Any]]]:
    """Claims that see the same cells, each with verdict, share, redrawn, evidence and fails."""
    measured = measured_cells(work, rows, **ways)
    cells = finished(work, measured)
    found = {claim.id: judge(claim, cells) for claim in claims}
    told = [claim for claim in claims if found[claim.id][0] is not None and not claim.vacuous]
    told = told if profile in JUDGED_AT else []
    alone = ran_once(work, measured, told)
    told = [claim for claim in told if claim.id not in alone]
    alone |= {claim.id: "one run of some" for claim in claims if lacks_repeats(claim, cells)}
    anew = shares_anew(work, measured, [(claim, found[claim.id][0]) for claim in told], redraws)
    for claim in claims:
        share, evidence = found[claim.id]
        shares = anew.get(claim.id, [])
        verdict, words = verdict_of(claim, share, shares, profile, alone.get(claim.id, ""))
        line = {"verdict": verdict, "share": np.nan if share is None else share}
        line |= {"redrawn": words, "evidence": str(evidence)}
        if verdict == UNTESTED and share is not None:
            line["evidence"] = f"a shrunk run, which gets no verdict; seen: {evidence}"
        if why := claim.vacuous or (claim.untold if verdict == UNTOLD else ""):
            line["evidence"] = f"{why}; seen: {evidence}"
        yield claim, line | {"fails": getattr(evidence, "fails", "")}


def shares_anew(
    work: str, measured: pd.DataFrame, claims: list[tuple[Claim, float]], most: int
) -> dict[str, list[float]]:
    """Id -> the shares of a claim's conditions that hold in runs drawn anew: REDRAWS of them, and
    as many again while its verdict is not settled, `most` in all.

    claims: each with its share in our own runs.
    """
    rng = stream(0, "redraws", work)
    shares: dict[str, list[float]] = {claim.id: [] for claim, _ in claims}
    unsettled = claims
    with same_layout():
        for number in range(1, most + 1):
            if not unsettled:
                break
            again = finished(work, redrawn(work, measured, rng))
            for claim, _ in unsettled:
                shares[claim.id].append(judge(claim, again)[0])
            if number % REDRAWS == 0:
                unsettled = [
                    (claim, ours)
                    for claim, ours in unsettled
                    if not claim.untold and not settled(ours, shares[claim.id])
                ]
    return shares


def settled(share: float, shares: list[float]) -> bool:
    """Whether other redraws would give the same verdict: so do the TAILS of these, if each is taken
    two standard errors further out or further in."""
    doubt = 2 * np.sqrt(TAILS[0] * TAILS[1] / len(shares))
    further = np.clip([[TAILS[0] - by, TAILS[1] + by] for by in (doubt, -doubt)], 0, 1)
    return len({outcome(share, *np.quantile(shares, levels)) for levels in further}) == 1


def ran_once(work: str, measured: pd.DataFrame, claims: Sequence[Claim]) -> dict[str, str]:
    """Id -> in words, of the claims that rest on a training which ran once: it says nothing of
    another run, and redraws leave it as it is.

    claims: that these cells can tell. One rests on cells of one run if without them its main
        clauses come to anything else, evidence and all. Real rows, which nobody trains, need no
        second run beside others that have several.
    """
    of_each = {c.id: "one run of each" for c in claims if all_ran_once(c, measured)}
    rest = [claim for claim in claims if claim.id not in of_each]
    several = measured[(measured["n"] > 1) | of_real_rows(measured)]
    if not rest or len(several) == len(measured):
        return of_each
    every, fewer = (finished(work, cells) for cells in (measured, several))
    of_some = [c.id for c in rest if _main_clauses(c, every) != _main_clauses(c, fewer)]
    return of_each | dict.fromkeys(of_some, "one run of some")


def lacks_repeats(claim: Claim, cells: pd.DataFrame) -> bool:
    """Whether these cells have all that a claim speaks of, but not the repeats for its tests."""
    try:
        _told(claim, cells)
    except RanOnce:
        return True
    except Missing:
        pass
    return False


def _main_clauses(claim: Claim, cells: pd.DataFrame) -> list[Told] | str:
    """What is told of them, or why nothing can be."""
    try:
        return [part for part in _told(claim, cells)[0] if not part.side]
    except Missing as missing:
        return str(missing)


def all_ran_once(claim: Claim, measured: pd.DataFrame) -> bool:
    """Whether there is one run of each cell where a claim's main clauses look."""
    main = [c for c in claim.conditions if not c.side]
    known = [{a: v for a, v in c.where.items() if a in measured} for c in main]
    seen = pd.concat([chosen(measured, where)["n"] for where in known])
    return not (seen if len(seen) else measured["n"]).gt(1).any()


def of_real_rows(cells: pd.DataFrame) -> pd.Series:
    """Which cells are of real data."""
    found = cells["method"] == "Real"
    return found | (cells["setting"] == "real") if "setting" in cells else found


def verdict_of(
    claim: Claim, share: float | None, shares: list[float], profile: str, alone: str = ""
) -> tuple[str, str]:
    """The outcome, and in words how far redrawn runs agree: the power of the test. alone: what
    `ran_once` says of the claim, or of one whose tests want repeats."""
    if share is None:
        return (UNTOLD, alone) if alone and profile in JUDGED_AT else (UNTESTED, "")
    if claim.vacuous:
        return VACUOUS, ""
    if profile not in JUDGED_AT:
        return UNTESTED, ""
    if alone:
        return UNTOLD, alone
    if not shares:
        return outcome(share, share, share), ""
    low, high = np.quantile(shares, TAILS)
    alike = sum(abs(each - share) < 1e-9 for each in shares)
    words = f"{low:.2f} to {high:.2f}; the same in {alike} of {len(shares)} redraws"
    return UNTOLD if claim.untold else outcome(share, low, high), words


def _seeds(rows: pd.DataFrame, datasets: tuple[str, ...]) -> str:
    """`3`, or `1 to 5`: the fewest and the most runs of a method on a table that a claim is
    about."""
    about = rows[rows["dataset"].isin(datasets)]
    keys = ["dataset", "method", "setting", "partition", "n_clients", "epsilon", "detail", "metric"]
    groups = (about if len(about) else rows).groupby(keys, dropna=False)
    runs = groups["seed"].nunique().clip(lower=1)
    return f"{runs.min()}" if runs.min() == runs.max() else f"{runs.min()} to {runs.max()}"
