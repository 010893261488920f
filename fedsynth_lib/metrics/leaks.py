"""Whether synthetic rows give away the rows that they were learned from.

The measures are copies, near copies, nearest records, and rows that can be singled out.

Each measure holds training rows against rows set aside, by one argument. Where synthetic rows do
not depend on who was trained on, the two kinds of real rows are exchangeable: any other deal of
the same rows into parts of these sizes was as likely. So a sum over training rows of weights that
are computed without looking at the deal has the distribution of the sum over a simple random sample
of all real rows: a permutation test (Fisher 1935, section 21; Phipson and Smyth 2010), exact at any
number of rows, whatever the synthetic rows look like. It needs no attacks that are independent,
which those of `anonymity` are taken for. They are not: some unusual people are met by many attacks,
so that the successes of one table rise and fall together, and intervals by the number of attacks
raised an alarm for 33 to 45 percent of harmless tables.

Real rows are never drawn down where a copy is looked for, as a copy of a row that was not drawn
goes unseen.

Measured on the tests' table of five columns, at 600, 3,000 and 12,000 rows: `singled_out` raised an
alarm for 0.5, 2.5 and 2.5 percent of 200 harmless tables each, for 88 of 100, 50 of 50 and 18 of 20
tables of which a tenth was copied, and for all 110 of which half was (600 and 12,000 rows). On the
one of ten columns, where hardly a condition is met by chance, it was 0 of 400, 200 of 200 and 100
of 100 (600 and 3,000 rows); `copies` was as sure. `near_copies` and `nearest_share` raised 1 to 2.5
percent of false alarms there, and caught 89 to 100 and 11 to 49 percent of the tenths.
"""

from typing import NamedTuple

import numpy as np
import pandas as pd
from numba import njit

from fedsynth_lib.core.contract import stream
from fedsynth_lib.metrics.coding import NotMeasured, label_codes
from fedsynth_lib.tables.schema import Schema

LEVEL = 0.025  # share of harmless tables for which a measure raises an alarm, at most
DEALS = 1999  # drawn deals; with the true one LEVEL of them is a whole number
ROUNDING = 1e-9
BLOCK = 4096  # rows whose distances are added up together: they stay in a core's first cache
MOST_ROWS = 1000  # rows whose nearest record is searched, and rows that conditions are made from
NEAR = 0.05  # quantile of the distances between real rows below which rows are near copies
WIDEST = 0.1  # share of the synthetic rows within the interval of a number that is tried first


class Leak(NamedTuple):
    """A measure of training rows, what rows set aside make of it, and what chance may add.

    margin: train - aside exceeds it for at most LEVEL of harmless tables. note: what was drawn, and
        which bounds were taken.
    """

    train: float
    aside: float
    margin: float
    note: str = ""

    @property
    def alarm(self) -> bool:
        """Whether training rows score higher than chance explains."""
        return self.train - self.aside > self.margin + ROUNDING


def critical_sum(weights: np.ndarray, size: int, rng: np.random.Generator) -> float:
    """Return the sum over `size` of the rows that a random choice of them hardly ever exceeds.

    It exceeds it with chance LEVEL at most.

    weights: (rows,), at least 0. A choice is told by how many rows of each weight it takes, which
    is multivariate hypergeometric.
    """
    values, counts = np.unique(weights, return_counts=True)
    sums = rng.multivariate_hypergeometric(counts, size, DEALS, method="marginals") @ values
    return float(np.sort(sums)[-round(LEVEL * (DEALS + 1))])


def compared(weights: np.ndarray, size: int, rng: np.random.Generator, note: str = "") -> Leak:
    """Compare the mean weight of the first `size` rows with that of the others.

    The first ones were trained on.
    """
    critical = critical_sum(weights, size, rng)
    margin = critical / size - (weights.sum() - critical) / (len(weights) - size)
    return Leak(float(weights[:size].mean()), float(weights[size:].mean()), float(margin), note)


def copies(
    train: pd.DataFrame, aside: pd.DataFrame, synthetic: pd.DataFrame, schema: Schema, *, seed: int
) -> Leak:
    """Return the share of real rows that are among the synthetic rows, equal in every column."""
    real, made, _ = _coded(train, aside, synthetic, schema)
    number = identical(np.vstack([real, made]))
    known = np.zeros(number.max() + 1, bool)
    known[number[len(real) :]] = True
    weights = known[number[: len(real)]].astype(float)
    return compared(weights, len(train), stream(seed, "copies"))


def near_copies(
    train: pd.DataFrame, aside: pd.DataFrame, synthetic: pd.DataFrame, schema: Schema, *, seed: int
) -> Leak:
    """Return the share of real rows that have a near copy among the synthetic rows.

    A copy counts as a near copy.

    Near: as close as a twentieth of the real rows are to their nearest other one, among those
    without an equal (the fifth percentile of the distances to the closest record, as Zhao et al.
    2021 report it). Gower's distance: the mean over columns of the difference of numbers, as a
    share of the declared range, and of 1 for other categories. Of at most MOST_ROWS training rows
    and as many set aside, each searched for among all synthetic and all real rows.
    """
    real, made, words = _coded(train, aside, synthetic, schema)
    rng = stream(seed, "near copies")
    trained = rng.permutation(len(train))[:MOST_ROWS]
    chosen = np.append(trained, len(train) + rng.permutation(len(aside))[:MOST_ROWS])
    between = nearest(real[chosen], real, words, chosen)[0]
    if not between.any():
        raise NotMeasured("no two real rows differ, or each has an equal, so nothing is near.")
    bound = np.quantile(between[between > 0], NEAR)
    close = nearest(real[chosen], made, words)[0] <= bound
    note = f"Gower distance up to {bound:.2g}{_drawn(len(chosen), len(real), 'real')}"
    return compared(close.astype(float), len(trained), rng, note)


def nearest_share(
    train: pd.DataFrame, aside: pd.DataFrame, synthetic: pd.DataFrame, schema: Schema, *, seed: int
) -> Leak:
    """Return the share of synthetic rows whose nearest real row was trained on.

    Platzer and Reutterer 2021, here among all real rows.

    Without memorisation it is the share of training rows among the real ones, `aside`; of a copy it
    is 1. Equal real rows share what is nearest to them; of others as near one is taken at random.
    Gower's distance, of at most MOST_ROWS synthetic rows.
    """
    real, made, words = _coded(train, aside, synthetic, schema)
    rng, size = stream(seed, "nearest share"), len(train)
    drawn = made[rng.permutation(len(made))[:MOST_ROWS]]
    number = identical(real)
    sizes = np.bincount(number)
    # one row for each of the different ones, in an order that does not know the deal
    order = rng.permutation(len(sizes))
    first = np.empty(len(sizes), np.intp)
    first[number] = np.arange(len(real))
    met = order[nearest(drawn, real[first[order]], words)[1]]
    weights = (np.bincount(met, minlength=len(sizes)) / sizes)[number] / len(drawn)
    expected = size / len(real)
    return Leak(
        min(float(weights[:size].sum()), 1.0),  # sums round
        expected,
        critical_sum(weights, size, rng) - expected,
        _drawn(len(drawn), len(made), "synthetic").removeprefix(", "),
    )


def singled_out(
    train: pd.DataFrame, aside: pd.DataFrame, synthetic: pd.DataFrame, schema: Schema, *, seed: int
) -> Leak:
    """Return the share of conditions from synthetic rows that fit a training row alone.

    They fit no other real row.

    Giomi et al. 2023, with conditions in all columns: the category of one synthetic row, and for a
    number an interval around its value. Of intervals that hold WIDEST of the synthetic rows, half
    as many, and so on, the first with which the conditions fit this synthetic row alone are taken
    and a quarter of them: such conditions are met by hardly anybody, which is what Cohen and Nissim
    2020 ask of singling out. `aside` is the share that fit a row set aside, as if there were as
    many of these as training rows. From at most MOST_ROWS synthetic rows.
    """
    real, made, words = _coded(train, aside, synthetic, schema)
    if len(made) < 2:
        raise NotMeasured("there is one synthetic row, which nothing has to single out.")
    rng = stream(seed, "singled out")
    drawn = made[rng.permutation(len(made))[:MOST_ROWS]]
    left, half = np.arange(len(drawn)), WIDEST / 2 * len(made)
    low, high = drawn.copy(), drawn.copy()
    ordered = np.sort(made[:, words:], axis=0)
    while True:
        boxes = _around(drawn[left], ordered, words, int(half))
        alone = _only(*boxes, made) >= 0
        low[left[alone]], high[left[alone]] = (
            side[alone] for side in _around(drawn[left], ordered, words, int(half / 4))
        )
        left = left[~alone]
        if half < 1 or not len(left):
            break
        half /= 2
    tried = np.delete(np.arange(len(drawn)), left)
    if not len(tried):
        raise NotMeasured("no condition fits one synthetic row alone.")
    met = _only(low[tried], high[tried], real)
    weights = np.bincount(met[met >= 0], minlength=len(real)) * (len(train) / len(tried))
    note = f"{len(tried):,} conditions{_drawn(len(drawn), len(made), 'synthetic')}"
    return compared(weights, len(train), rng, note)


def _around(
    rows: np.ndarray, ordered: np.ndarray, words: int, half: int
) -> tuple[np.ndarray, np.ndarray]:
    """Return the ends (low and high) of boxes around rows, (rows, columns) each.

    Categories are as they are, numbers widened by `half` of the `ordered` values (values, numbers)
    to each side.
    """
    low, high = rows.copy(), rows.copy()
    for j, values in enumerate(ordered.T, start=words):
        below = np.searchsorted(values, rows[:, j], side="left") - half
        above = np.searchsorted(values, rows[:, j], side="right") - 1 + half
        low[:, j] = values[np.maximum(below, 0)]
        high[:, j] = values[np.minimum(above, len(values) - 1)]
    return low, high


def identical(rows: np.ndarray) -> np.ndarray:
    """Return a number for each row (rows, columns), from 0 without gaps, equal for equal rows."""
    number = np.zeros(len(rows), np.int64)
    for column in rows.T:
        codes, levels = pd.factorize(column + 0.0)  # so that -0 is 0
        number = pd.factorize(number * len(levels) + codes)[0]
    return number


def nearest(
    queries: np.ndarray, rows: np.ndarray, words: int, own: np.ndarray | None = None
) -> tuple[np.ndarray, np.ndarray]:
    """Return Gower's distance to the nearest row and its position, both (queries,).

    Of rows at the same distance the position is that of the first.

    queries, rows: codes in the first `words` columns, then numbers in units of their range. own:
        the position of each query among `rows`, which does not count as near itself; then there
        have to be two rows.
    """
    own = np.full(len(queries), -1) if own is None else own
    rows = np.ascontiguousarray(rows.T, np.float32)
    distances, places = _nearest(queries.astype(np.float32), rows, words, own)
    return distances / queries.shape[1], places


@njit
def _nearest(queries, rows, words, own):
    """Return the sum of differences to the nearest row, and its position, both (queries,).

    queries: (queries, columns). rows: (columns, rows), so that blocks of them add up at once.
    """
    distances = np.full(len(queries), np.inf, np.float32)
    places = np.zeros(len(queries), np.int64)
    total = np.empty(BLOCK, np.float32)
    for q in range(len(queries)):
        for start in range(0, rows.shape[1], BLOCK):
            size = min(BLOCK, rows.shape[1] - start)
            total[:size] = 0
            for j in range(len(rows)):
                value, column = queries[q, j], rows[j, start : start + size]
                if j < words:
                    for r in range(size):
                        total[r] += np.float32(column[r] != value)
                else:
                    for r in range(size):
                        total[r] += abs(column[r] - value)
            if start <= own[q] < start + size:
                total[own[q] - start] = np.inf
            place = total[:size].argmin()
            if total[place] < distances[q]:
                distances[q], places[q] = total[place], start + place
    return distances, places


@njit
def _only(low, high, rows):
    """Return the position of the only row within each box low..high (boxes, columns).

    -1 where no row is in the box, or several are.
    """
    places = np.full(len(low), -1)
    for b in range(len(low)):
        for r in range(len(rows)):
            inside = True
            for j in range(rows.shape[1] - 1, -1, -1):  # numbers first: few rows are within
                if rows[r, j] < low[b, j] or rows[r, j] > high[b, j]:
                    inside = False
                    break
            if inside:
                if places[b] >= 0:
                    places[b] = -1
                    break
                places[b] = r
    return places


def _coded(
    train: pd.DataFrame, aside: pd.DataFrame, synthetic: pd.DataFrame, schema: Schema
) -> tuple[np.ndarray, np.ndarray, int]:
    """Return real rows (those trained on first), synthetic rows, and the number of categories.

    The last says how many of the columns are categories: these come first, then the numbers in
    units of their declared range.
    """
    tables = {"training": train, "set aside": aside, "synthetic": synthetic}
    for name, frame in tables.items():
        if not len(frame):
            raise NotMeasured(f"there are no {name} rows.")
    order = np.argsort([column.kind for column in schema.columns], kind="stable")
    spans = np.array([1.0 if c.kind == "categorical" else c.high - c.low for c in schema.columns])
    rows = [
        np.ascontiguousarray((label_codes(frame, schema, name) / spans)[:, order])
        for name, frame in tables.items()
    ]
    return np.vstack(rows[:2]), rows[2], len(schema.categorical)


def _drawn(number: int, total: int, kind: str) -> str:
    return f", from {number:,} of {total:,} {kind} rows" if number < total else ""
