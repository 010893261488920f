"""How good a synthetic version of one table is, a line for each measure, and whether it leaks."""

import sys
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
import pandas as pd

from fedsynth_lib.core.contract import stream
from fedsynth_lib.metrics import fidelity, leaks, quality, utility
from fedsynth_lib.metrics.coding import NotMeasured
from fedsynth_lib.metrics.evaluation import check
from fedsynth_lib.tables.schema import Schema

WATCHED = 20_000  # rows from which on it says how far it is
FOREST_ROWS = 20_000  # that a forest learns from, and as many that it is examined on
LEAKS = {
    "training rows that are among the synthetic rows: share": leaks.copies,
    "training rows with a near copy among them: share": leaks.near_copies,
    "synthetic rows that are nearest to a training row: share": leaks.nearest_share,
    "attack that singles out a row: success": leaks.singled_out,
}


class Line(NamedTuple):
    """synthetic, yardstick: None where nothing is measured; `note` then says why."""

    synthetic: float | None
    yardstick: float | None
    margin: float | None
    against: str
    note: str


def scores(
    real: pd.DataFrame, aside: pd.DataFrame, synthetic: pd.DataFrame, schema: Schema, *, seed: int
) -> pd.DataFrame:
    """Measure -> synthetic, yardstick, ±, the yardstick is, note.

    ±: how far chance takes a leak beyond its yardstick in all but 2.5 percent of harmless tables,
    for each line by itself (`leaks`). A measure that has nothing to be computed from stays empty,
    and `note` says why; it also says which rows were drawn, by the seed. Utility only where the
    target is categorical. Raises BadInput, before any work, for rows that do not fit the schema.
    On one core a file of 120,000 rows and 12 columns takes 13 s and 0.6 GB, one of a million 51 s
    and 1 GB.
    """
    for name, rows in (("training", real), ("set-aside", aside), ("synthetic", synthetic)):
        check(rows, schema, name)

    def leak(measure: Callable) -> list[Line]:
        found = measure(real, aside, synthetic, schema, seed=seed)
        share = measure is leaks.nearest_share
        against = "share of training rows among the real ones" if share else "rows set aside"
        said = "more than by chance" if found.alarm else ""
        return [Line(*found[:3], against, "; ".join(filter(None, [said, found.note])))]

    def beside(measure: Callable[[pd.DataFrame], Sequence[float]], note: str = "") -> list[Line]:
        pairs = zip(measure(synthetic), measure(aside), strict=True)
        return [Line(*pair, None, "rows set aside", note) for pair in pairs]

    def forest() -> list[Line]:
        parts = [_drawn(rows, FOREST_ROWS, seed) for rows in (synthetic, real, aside)]
        learned = [
            utility.auc(rows, parts[2], schema, seed, ["rf"])["auc_rf_score"] for rows in parts[:2]
        ]
        return [Line(*learned, None, "trained on real rows", _at_most(FOREST_ROWS, real, aside))]

    steps = {(name,): lambda measure=measure: leak(measure) for name, measure in LEAKS.items()}
    steps[("single columns: Hellinger distance",)] = lambda: beside(
        lambda rows: [fidelity.hellinger(real, rows, schema)]
    )
    steps[("pairs of columns: correlation difference",)] = lambda: beside(
        lambda rows: [_pairs(real, rows, schema)]
    )
    if schema.target in schema.categorical:
        steps[(f"forest that predicts {schema.target}: AUC",)] = forest
    steps[tuple(f"SDMetrics quality: column {kind}" for kind in ("shapes", "pair trends"))] = (
        lambda: beside(
            lambda rows: list(quality.quality(real, rows, schema, seed=seed).values()),
            _at_most(quality.MOST_ROWS, real, synthetic),
        )
    )
    steps[tuple(f"SDMetrics diagnostic: data {kind}" for kind in ("validity", "structure"))] = (
        lambda: beside(lambda rows: list(quality.diagnostic(real, rows, schema).values()))
    )
    lines: dict[str, Line] = {}
    for number, (names, measure) in enumerate(steps.items(), start=1):
        if len(real) >= WATCHED:
            print(f"scores {number} of {len(steps)}: {names[0]}", file=sys.stderr, flush=True)
        try:
            found = measure()
        except NotMeasured as lacking:  # a release must not be lost because it cannot be judged
            found = [Line(None, None, None, "", f"not measured: {lacking}")] * len(names)
        lines |= {name: _said(line) for name, line in zip(names, found, strict=True)}
    columns = ["synthetic", "yardstick", "±", "the yardstick is", "note"]
    frame = pd.DataFrame(lines, index=columns).T.rename_axis("measure")
    return frame.astype(dict.fromkeys(columns[:3], float))


def _pairs(real: pd.DataFrame, rows: pd.DataFrame, schema: Schema) -> float:
    if len(schema.names) < 2:
        raise NotMeasured("there is one column only.")
    return fidelity.pairwise_correlation_difference(real, rows, schema)


def _said(line: Line) -> Line:
    """Return the line, in words where a report left its number out."""
    if line.synthetic is None or np.isfinite(line[:2]).all():
        return line
    return Line(None, None, None, "", "not measured: no column, or no pair of columns, varies.")


def _drawn(rows: pd.DataFrame, most: int, seed: int) -> pd.DataFrame:
    """At most so many of the rows, at random by the seed, in their order."""
    if len(rows) <= most:
        return rows
    return rows.iloc[np.sort(stream(seed, "scores").permutation(len(rows))[:most])]


def _at_most(most: int, *tables: pd.DataFrame) -> str:
    return f"from at most {most:,} rows of each" if max(map(len, tables)) > most else ""
