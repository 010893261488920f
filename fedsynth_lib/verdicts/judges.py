"""The claims of the works, judged on rows: by the conditions in their files, group by group.

A notebook judges the claims of its chapter on the rows at hand, `./run_all.sh judge` all of them on
committed rows; both go through here. Resampling takes minutes, so what it says of each claim is
kept in data/results/claims.csv with a digest of the cells that the claim looks at: only a claim
whose cells or conditions have changed is resampled.
"""

import hashlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache
from itertools import product
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from fedsynth_lib.core.contract import BadInput, stream
from fedsynth_lib.core.store import project_root
from fedsynth_lib.figures import SavedTable, Saver
from fedsynth_lib.printed.chance import declared, repeats
from fedsynth_lib.printed.outcomes import (
    HOLDS,
    SURE,
    UNDECIDED,
    VACUOUS,
    Evidence,
    outcome,
    reached,
)
from fedsynth_lib.printed.published import UNTESTED, load_claims
from fedsynth_lib.runs.grid import committed_rows
from fedsynth_lib.tables.lock import table_rows
from fedsynth_lib.verdicts.cells import finished, measured_cells
from fedsynth_lib.verdicts.claim_files import Claim, written
from fedsynth_lib.verdicts.custom.claims import CUSTOM
from fedsynth_lib.verdicts.places import (
    Condition,
    Missing,
    NotAllTables,
    RanOnce,
    as_text,
    chosen,
    flatten,
    same_layout,
)
from fedsynth_lib.verdicts.redraws import Spread, redrawn, spread_of
from fedsynth_lib.verdicts.vocabulary import KINDS, ConditionResult

LEAST_RUNS = 2  # of a cell that is judged
REDRAWS = 50  # bootstrap batch; more batches follow until the verdict is stable
MOST_REDRAWS = 4 * REDRAWS
DOUBT = 2  # redraws of REDRAWS that may differ in another batch
TIMES = (2, 4, 8, 16)  # as many runs, of which the fewest that decide are named
RULES = "1"  # of judging: raise it where the same cells lead to other verdicts
ONE_RUN = "one run of some"
JUDGED_AT = ("paper", "")  # reduced profiles report numbers and get no verdict
MATCHED_NOTE = "private networks of Adult and Bank in 1 % of the passes, at matched noise"
FILE, OTHERS = "claims.csv", "claims_other_readings.csv"
# axes of claims that rows have as well
TRAINED = ("dataset", "method", "epsilon", "partition", "n_clients", "setting")
NUMBERS = ["same", "in_full", "redraws", "runs", "runs_needed", "minutes", "cells"]
COLUMNS = [
    *("id", "claim", "verdict", "share", "redrawn", "needs", "evidence", "fails"),
    *("published_holds", "seeds"),
]


class Power(NamedTuple):
    """What resampling says of a claim.

    same: how many of `redraws` reach the same outcome as our runs. in_full: how many satisfy all of
    it. runs: how many there are of a cell. runs_needed: how many would decide (0 where they do
    already, or where TIMES of them do not).
    """

    same: int
    in_full: int
    redraws: int
    runs: int
    runs_needed: int

    @classmethod
    def read(cls, line: Mapping[str, Any]) -> "Power":
        """From a line of `stored`."""
        return cls(*(int(np.nan_to_num(line[name])) for name in cls._fields))

    def verdict(self, share: float) -> str:
        """Return the outcome of a claim with this share in our own runs."""
        return outcome(share, self.same, self.in_full, self.redraws)

    def is_settled(self, share: float) -> bool:
        """Whether a few redraws more or fewer of either kind leave the verdict."""
        near = (-DOUBT, 0, DOUBT)
        others = [
            self._replace(
                same=min(self.same + same, self.redraws), in_full=max(self.in_full + full, 0)
            )
            for same, full in product(near, near)
        ]
        return len({each.verdict(share) for each in others}) == 1


class Evaluation(NamedTuple):
    """What the conditions of a claim come to on some cells.

    share: the mean share of the conditions that hold; None where the cells leave it open. evidence:
    what each condition says, or what is missing. missing: why it is open; RanOnce where
    they only lack repeats, NotAllTables where a mean lacks tables.
    """

    share: float | None
    evidence: str
    missing: Missing | None = None

    @classmethod
    def of(cls, parts: Sequence[ConditionResult], left_out: Sequence[str]) -> "Evaluation":
        """left_out: what optional conditions lack."""
        if not parts:
            return cls(None, f"not run: {', '.join(left_out)}")
        lost = dict.fromkeys([*(name for part in parts for name in part.absent), *left_out])
        texts = [part.text for part in parts]
        texts[-1] += f"; not run: {', '.join(lost)}" if lost else ""
        shares = [part.share for part in parts]
        return cls(float(np.mean(shares)), Evidence.of(zip(shares, texts, strict=True)))

    @property
    def lacks(self) -> str:
        """What results that are there lack to decide, in words: repeats, or tables of a mean."""
        if isinstance(self.missing, RanOnce):
            return ONE_RUN
        return self.evidence if isinstance(self.missing, NotAllTables) else ""


def evaluate(claim: Claim, cells: pd.DataFrame) -> Evaluation:
    """Evaluate each condition of a claim.

    Cells that a condition lacks are missing to the whole claim; those that an optional one lacks
    only where no other condition is left.
    """
    parts: list[ConditionResult] = []
    left_out: list[str] = []
    lacking: dict[bool, Missing] = {}  # the first by whether its condition is optional
    for c in claim.conditions:
        try:
            parts += _results(cells, c)
        except Missing as missing:
            if not (c.optional or isinstance(missing, RanOnce)):
                return Evaluation(None, str(missing), missing)
            lacking.setdefault(c.optional, missing)
            if c.optional:
                left_out.append(f"{_about(c)} in full")
    if missing := lacking.get(False) or (None if parts else lacking.get(True)):
        return Evaluation(None, str(missing), missing)
    return Evaluation.of(parts, left_out)


def _results(cells: pd.DataFrame, c: Condition) -> list[ConditionResult]:
    """Return the results of a condition.

    Raise NotAllTables where it is about a mean over tables of which some were not run: such a mean
    neither meets nor refutes a published one.
    """
    averaged = "dataset" in c.average
    if averaged:
        there = set(chosen(cells, {"metric": c.values("metric")})["dataset"])
        _all_tables(name for name in c.values("dataset") if name not in there)
    if c.kind == "custom":  # its tables that were not run are those without rows
        ran = set(cells["dataset"])
        absent = tuple(name for name in c.values("dataset") if name not in ran)
        found = [result._replace(absent=absent) for result in CUSTOM[c.of](cells, c)]
    else:
        found = [KINDS[c.kind](cells, c)]
    if averaged:
        _all_tables(name for result in found for name in result.absent)
    return found


def _all_tables(lost: Iterable[str]) -> None:
    if lost := list(lost):
        raise NotAllTables(lost)


def _about(c: Condition) -> str:
    """Name what only this condition is about, or its sides."""
    own = c.own["where"].items()
    alone = [v[0] for axis, v in own if len(v) == 1 and axis != "metric"]
    return ", ".join(map(as_text, alone or flatten(c.of)))


def judged(
    work: str,
    rows: pd.DataFrame,
    group: str = "",
    *,
    redraws: int = MOST_REDRAWS,
    recompute: bool = True,
    **reading: Any,
) -> pd.DataFrame:
    """Judge the claims of a group, by default of all groups that have rows.

    rows: tidy rows of one profile. Where they have `grid`, as committed rows do, a group is judged
        on those of its own grids; otherwise on all.
    redraws: how often runs are resampled at most; with 0 no verdict rests on that.
    recompute: False takes what `./run_all.sh judge` kept of claims that all rest on the same cells
        and rules now.
    reading: how rows are seen where a work leaves it open (`cells`), instead of as its file says.
    Columns: id, claim, verdict (`outcomes.OUTCOMES`), share of the conditions that hold, redrawn
    (in words, how many resampled sets reach the same outcome), needs (what would decide), evidence,
    fails (the conditions that do not hold), published_holds (what the published values say of
    themselves), seeds (of the runs behind it); and same, in_full, redraws, runs, runs_needed,
    minutes and cells (a digest), as numbers. runs_needed and minutes are empty where `needs` names
    a lower bound.
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
        for claim, told in _on_rows(work, own, ways, alike, profile, redraws, recompute):
            lines[claim.id] = {
                **told,
                "id": claim.id,
                "claim": texts.loc[claim.id, "claim"],
                "published_holds": texts.loc[claim.id, "holds_on_published_values"],
                "seeds": _seeds(own, claim.datasets),
            }
    found = [lines[c.id] for c in claims if c.id in lines]
    return pd.DataFrame(found, columns=[*COLUMNS, *NUMBERS])


def in_other_readings(work: str, rows: pd.DataFrame) -> Iterator[pd.DataFrame]:
    """Judge the claims of each group whose file has `other`, in that reading of the work.

    Its notebook shows this reading beside the main one. rows: as for `judged`, with `grid`.
    """
    groups = {claim.group: claim.other for claim in written(work) if claim.other}
    for group, other in groups.items():
        own = rows[rows["grid"].isin(other["grids"])].drop(columns="grid")
        yield judged(work, own, group, **other["reading"])


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

    what: of the caption, as "Claims on utility". on_print: a last column says what the published
        values say of themselves. beside: further columns, as the verdicts in another reading, by
        their headings.
    """
    table = judged(work, rows, group, recompute=False).assign(**(beside or {}))
    power = ["redrawn", "needs"] if table["redrawn"].any() else []  # not of a shrunk run
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
    recompute: bool,
) -> Iterator[tuple[Claim, dict[str, Any]]]:
    """Claims that see the same cells, each with what `judged` says of it."""
    measured = measured_cells(work, rows, **ways)
    text = measured.drop(columns=["values", "seeds", "shift"], errors="ignore")
    text = text.to_csv(float_format="%.9g", index=False)
    digests = {claim.id: digest(work, claim, ways, text) for claim in claims}
    same = kept(digests) if profile in JUDGED_AT else {}
    if not recompute and len(same) == len(claims):
        yield from ((claim, same[claim.id]) for claim in claims)
        return
    evaluated, lacking, powers = evaluate_all(work, claims, measured), {}, {}
    if profile in JUDGED_AT:
        told = [c for c in claims if evaluated[c.id].share is not None and not c.vacuous]
        lacking = dict.fromkeys(ran_once(work, measured, told, evaluated), ONE_RUN)
        told = [claim for claim in told if claim.id not in lacking]
        lacking |= {name: each.lacks for name, each in evaluated.items() if each.lacks}
        if redraws == MOST_REDRAWS:
            told_before = [c.id for c in told if c.id in same and same[c.id]["redraws"] > 0]
            powers = {name: Power.read(same[name]) for name in told_before}
        changed = [(c, evaluated[c.id].share) for c in told if c.id not in powers]
        powers |= powers_of(work, measured, changed, redraws) if redraws else {}
    for claim in claims:
        share, evidence, missing = evaluated[claim.id]
        power, words = powers.get(claim.id), lacking.get(claim.id, "")
        verdict = verdict_of(claim, share, power, profile, words)
        line = {"verdict": verdict, "share": np.nan if share is None else share}
        line |= {"redrawn": words, "cells": digests[claim.id], "needs": ""}
        if power:
            line |= power._asdict() | {"redrawn": f"{power.same} of {power.redraws}"}
        if verdict == UNDECIDED:
            lost = missing.tables if isinstance(missing, NotAllTables) else []
            line |= _needs(claim, rows, power, lost)
        matched = looked_at(claim, measured).get("matched", pd.Series(False)).any()
        notes = [claim.vacuous or claim.caveat, MATCHED_NOTE if matched else ""]
        if verdict == UNTESTED:
            notes = ["a shrunk run, which gets no verdict"] if share is not None else []
        why = "; ".join(filter(None, notes))
        line["evidence"] = f"{why}; seen: {evidence}" if why else str(evidence)
        yield claim, line | {"fails": getattr(evidence, "fails", "")}


def evaluate_all(
    work: str, claims: Sequence[Claim], measured: pd.DataFrame
) -> dict[str, Evaluation]:
    """Id -> what a claim comes to on measured cells, finished."""
    cells = finished(work, measured)
    with same_layout(resampled=False):
        return {claim.id: evaluate(claim, cells) for claim in claims}


def _needs(
    claim: Claim, rows: pd.DataFrame, power: Power | None, lost: Sequence[str]
) -> dict[str, Any]:
    """Return what would decide an undecided claim.

    `needs` says it in words; `runs_needed`, and the `minutes` of one core that the missing runs
    take, are numbers. Where only a lower bound is known, the words alone have it.

    lost: tables that a mean lacks.
    """
    if claim.short or lost:
        what = claim.short or ", ".join(lost)
        minutes = LEAST_RUNS * claim.minutes
        minutes = minutes or minutes_to_run(claim, rows, LEAST_RUNS, lost)
        words = f"{what}, {LEAST_RUNS} runs, about {_minutes(minutes)}"
        return {"needs": words, "minutes": round(minutes)}
    wanted = power.runs_needed if power else max(repeats(claim.id.split("/")[0]), LEAST_RUNS)
    if wanted:
        minutes = minutes_to_run(claim, rows, wanted)
        words = f"{wanted} runs, about {_minutes(minutes)}"
        return {"needs": words, "runs_needed": wanted, "minutes": round(minutes)}
    most = TIMES[-1] * power.runs
    minutes = minutes_to_run(claim, rows, most)
    words = f"more than {most} runs ({TIMES[-1]} times the {power.runs} there are)"
    return {"needs": f"{words}, more than {_minutes(minutes)}", "runs_needed": np.nan}


def _minutes(minutes: float) -> str:
    return f"{max(round(minutes), 1):,} minute{'s' * (round(minutes) > 1)} of one core"


def minutes_to_run(
    claim: Claim, rows: pd.DataFrame, wanted: int, lost: Sequence[str] = ()
) -> float:
    """Return the minutes of one core until a claim's trainings have `wanted` runs each.

    These are the trainings that its conditions look at; of the tables in `lost` also each that only
    other tables have. A training takes as long as its runs took, one that a table lacks as long as
    on the others. Rows tell the time of the training alone: measuring takes as long as that of
    known rows.
    """
    if claim.minutes:
        return claim.minutes * (wanted - rows["seed"].nunique())
    metrics = rows.groupby("cell")["metric"].agg(frozenset)
    cells = rows.drop_duplicates("cell").astype({"n_clients": float})
    cells = cells.assign(metrics=cells["cell"].map(metrics))
    keys = ["method", "setting", "partition", "n_clients", "node", "epsilon", "detail"]
    own = pd.concat([chosen(cells, where) for where in _looked(claim)])
    own = own.drop_duplicates("cell").groupby(["dataset", *keys], dropna=False)
    parts = {"seconds": ("seconds", "mean"), "metrics": ("metrics", set)}
    took = own.agg(runs=("seed", "nunique"), **parts).reset_index()
    beside = took.groupby(keys, dropna=False, as_index=False)
    beside = beside.agg(seconds=("seconds", "mean"), metrics=("metrics", "first"))
    whole = pd.concat([took, *(beside.assign(dataset=table, runs=0) for table in lost)])
    whole = whole.drop_duplicates(["dataset", *keys])
    known = _known(claim.id.split("/")[0])
    trained = whole["setting"] != "real"
    measuring = [
        _measuring(known, *each) for each in zip(whole["dataset"], whole["metrics"], strict=True)
    ]
    lacking = (wanted - whole["runs"]).clip(lower=0)
    return float((lacking * (whole["seconds"] + trained * measuring)).sum()) / 60


def _looked(claim: Claim) -> list[dict[str, list]]:
    """Where each condition of a claim looks, by the axes that trained rows have."""
    found = []
    for c in claim.conditions:
        sides = [each for each in flatten(c.of) if each in c.axes[c.across]]
        own = {**c.where, **({c.across: sides} if sides and c.kind != "marked" else {})}
        own |= {"setting": [*c.values("setting"), c.of]} if c.kind == "tested" else {}
        found.append({axis: own[axis] for axis in TRAINED if axis in own})
    return found


@cache
def _known(work: str) -> pd.DataFrame:
    """Return the cells of known rows in a work's committed results: dataset, seconds, metrics."""
    rows = committed_rows(work, "paper").query("setting == 'real'")
    cells = rows.groupby(["dataset", "cell"], as_index=False)
    return cells.agg(seconds=("seconds", "first"), metrics=("metric", frozenset))


def _measuring(known: pd.DataFrame, table: str, measured: Iterable[frozenset]) -> float:
    """Return the seconds to measure rows of a table.

    Known rows, which are not trained, tell it: those of the table, or those of others by the number
    of rows. measured: the measures of each cell.
    """
    seconds = 0.0
    for metrics in measured:
        alike = known[known["metrics"] == metrics]
        here = alike[alike["dataset"] == table]
        if len(here):
            seconds += here["seconds"].median()
        elif len(alike):
            a_row = alike["seconds"] / alike["dataset"].map(table_rows)
            seconds += a_row.median() * table_rows(table)
    return seconds


@same_layout()
def powers_of(
    work: str, measured: pd.DataFrame, claims: list[tuple[Claim, float]], most: int
) -> dict[str, Power]:
    """Return id -> `Power` of claims, each given with its share in our own runs.

    Runs are resampled REDRAWS times, and as often again while a claim's verdict is not settled,
    `most` in all.
    """
    spread, rng = spread_of(work, measured), stream(0, "redraws", work)
    found = {claim.id: Power(0, 0, 0, _fewest(claim, measured), 0) for claim, _ in claims}
    ours = {claim.id: share for claim, share in claims}
    unsettled = [claim for claim, _ in claims]
    while unsettled and found[unsettled[0].id].redraws < most:
        drawn = shares_redrawn(work, measured, spread, unsettled, REDRAWS, rng)
        for claim in unsettled:
            own, before = [reached(each) for each in drawn[claim.id]], found[claim.id]
            found[claim.id] = before._replace(
                same=before.same + own.count(reached(ours[claim.id])),
                in_full=before.in_full + own.count(HOLDS),
                redraws=before.redraws + REDRAWS,
            )
        unsettled = [c for c in unsettled if not found[c.id].is_settled(ours[c.id])]
    open_ = [c for c, own in claims if found[c.id].verdict(own) == UNDECIDED]
    for times in reversed(TIMES):
        drawn = shares_redrawn(work, measured, spread, open_, REDRAWS, rng, times)
        open_ = [claim for claim in open_ if decided(drawn[claim.id])]
        for claim in open_:
            power = found[claim.id]
            found[claim.id] = power._replace(runs_needed=times * power.runs)
    return found


def decided(shares: list[float]) -> bool:
    """Whether resampled sets agree on an outcome."""
    said = [reached(share) for share in shares]
    most = max(said.count(each) for each in set(said))
    return most >= SURE * len(said) or said.count(HOLDS) <= (1 - SURE) * len(said)


def shares_redrawn(
    work: str,
    measured: pd.DataFrame,
    spread: Spread,
    claims: Sequence[Claim],
    redraws: int,
    rng: np.random.Generator,
    times: int = 1,
) -> dict[str, list[float]]:
    """Id -> the shares of a claim's conditions that hold in resampled runs, of `times` as many."""
    shares: dict[str, list[float]] = {claim.id: [] for claim in claims}
    for _ in range(redraws if claims else 0):
        again = finished(work, redrawn(measured, spread, rng, times))
        for claim in claims:
            shares[claim.id].append(evaluate(claim, again).share)
    return shares


def _fewest(claim: Claim, measured: pd.DataFrame) -> int:
    """Return the fewest runs of a cell that a claim looks at."""
    seen = looked_at(claim, measured)["n"]
    seen = seen if len(seen) else measured["n"]
    return int(seen[seen > 1].min() if (seen > 1).any() else seen.min())


def looked_at(claim: Claim, measured: pd.DataFrame) -> pd.DataFrame:
    """Return the cells that the conditions of a claim look at."""
    keep = np.zeros(len(measured), dtype=bool)
    for c in claim.conditions:
        where = {axis: values for axis, values in c.where.items() if axis in measured}
        keep |= measured.index.isin(chosen(measured, where).index)
    return measured[keep]


# --- what is kept --------------------------------------------------------------------------------


def digest(work: str, claim: Claim, ways: Mapping[str, Any], cells: str) -> str:
    """Hash everything that the verdict on a claim rests on.

    This is its conditions and what its file says of rows, the cells of its rows (as CSV) and how
    they spread.
    """
    asked = (RULES, claim.conditions, sorted(ways.items()), declared(work))
    of_rows = (claim.vacuous, claim.caveat, claim.short, claim.minutes)
    asked += of_rows if any(of_rows) else ()
    return hashlib.sha256(f"{asked!r}{cells}".encode()).hexdigest()[:12]


def kept(digests: Mapping[str, str]) -> dict[str, dict[str, Any]]:
    """Id -> the line in data/results of the claims whose digest is the same."""
    lines = pd.concat([stored(OTHERS), stored()])
    same = lines[lines["cells"] == lines["id"].map(digests)]
    return {line["id"]: line for line in same.to_dict("records")}


def stored(name: str = FILE) -> pd.DataFrame:
    """Read data/results/claims.csv: the verdict on each claim by committed rows, as `judged`.

    `OTHERS` names the file of the verdicts of `in_other_readings`.
    """
    path = project_root() / "data" / "results" / name
    if not path.is_file():
        return pd.DataFrame(columns=[*COLUMNS, *NUMBERS]).astype({"redraws": float})
    texts = dict.fromkeys([*COLUMNS, "cells"], str)
    return pd.read_csv(
        path,
        dtype=texts | {"share": float},
        keep_default_na=False,
        na_values={name: [""] for name in ("share", *NUMBERS)},
    )


def ran_once(
    work: str, measured: pd.DataFrame, claims: Sequence[Claim], evaluated: Mapping[str, Evaluation]
) -> list[str]:
    """Return the ids of the claims that rest on a training which ran once.

    One run says nothing of another, and resampling leaves it as it is.

    claims: those that these cells decide, as `evaluated`. A claim rests on cells of one run if it
    is evaluated otherwise without them, or if it looks at no others. Real rows, which nobody
    trains, need no second run beside others that have several.
    """
    several = measured[(measured["n"] > 1) | of_real_rows(measured)]
    if len(several) == len(measured):
        return [claim.id for claim in claims if all_ran_once(claim, measured)]
    fewer = evaluate_all(work, claims, several)
    return [
        claim.id
        for claim in claims
        if all_ran_once(claim, measured) or fewer[claim.id][:2] != evaluated[claim.id][:2]
    ]


def all_ran_once(claim: Claim, measured: pd.DataFrame) -> bool:
    """Whether there is one run of each cell where a claim's conditions look."""
    seen = looked_at(claim, measured)["n"]
    return not (seen if len(seen) else measured["n"]).gt(1).any()


def of_real_rows(cells: pd.DataFrame) -> pd.Series:
    """Which cells are of real data."""
    found = cells["method"] == "Real"
    return found | (cells["setting"] == "real") if "setting" in cells else found


def verdict_of(
    claim: Claim, share: float | None, power: Power | None, profile: str, lacking: str = ""
) -> str:
    """Return the outcome of a claim.

    lacking: why no share can decide, by `ran_once` and `Evaluation.lacks`.
    """
    if claim.vacuous and (lacking or share is not None):
        return VACUOUS
    if share is None:
        return UNDECIDED if lacking else UNTESTED
    if profile not in JUDGED_AT:
        return UNTESTED
    if lacking:
        return UNDECIDED
    found = power.verdict(share) if power else outcome(share)
    return UNDECIDED if claim.short and found != HOLDS else found


def _seeds(rows: pd.DataFrame, datasets: tuple[str, ...]) -> str:
    """Return the fewest and the most runs of a method on a table that a claim is about.

    The text is `3`, or `1 to 5`.
    """
    about = rows[rows["dataset"].isin(datasets)]
    keys = ["dataset", "method", "setting", "partition", "n_clients", "epsilon", "detail", "metric"]
    groups = (about if len(about) else rows).groupby(keys, dropna=False)
    runs = groups["seed"].nunique().clip(lower=1)
    return f"{runs.min()}" if runs.min() == runs.max() else f"{runs.min()} to {runs.max()}"
