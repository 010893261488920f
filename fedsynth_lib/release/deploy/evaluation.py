"""Evaluate synthetic rows with rows that each site has set aside and nobody else ever sees.

The evaluation is a method of the contract, so the apps, secure sums, schedules, accounting and
ledgers carry it like any other. It has one round. The server sends a logistic regression, which was
fitted on the synthetic rows and is public. A site sends whole-number counts of its held-out rows
with its share of Skellam noise, under the masks of a secure sum. The server sees the noisy sum over
all sites and computes from it, without further cost:

    the total variation of single columns and of random pairs of columns to the synthetic rows;
    the k-marginal score of NIST (1000 (1 - mean total variation) of random marginals);
    the AUC of the logistic regression (train on synthetic rows, test on real ones);
    the shares of values that are missing, or that the schema does not declare;

each with an interval. The unit of privacy is one row. A row adds 1 to one cell of each table that
is counted, and each table has noise of its own, so the L2 sensitivity is the root of the number of
tables. The scores of the classifier are one such table, whatever the classifier is.

A site may publish its own figures (`Config.published`). Its counts then get the noise of a whole
plan, are shown as they are and are added to the sum, which costs its rows nothing more. The other
sites make the noise of the sum without it.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from scipy.special import ndtr, ndtri

from fedsynth_lib.core import secure_sum
from fedsynth_lib.core.accounting import check_delta, skellam_share
from fedsynth_lib.core.broadcast import LARGEST, Values, check_arrays, require
from fedsynth_lib.core.contract import (
    Arrays,
    BadInput,
    Charge,
    Client,
    Domain,
    Method,
    Noise,
    Privacy,
    Update,
)
from fedsynth_lib.core.errors import checked_seed
from fedsynth_lib.core.ledger import Total
from fedsynth_lib.core.queries import Query, random_workload
from fedsynth_lib.core.statement import DECLARED, statement
from fedsynth_lib.federation import flower
from fedsynth_lib.federation.settings import PUBLIC, noise_for
from fedsynth_lib.methods.marginals.fedpgm import check_sums, tables_of_queries
from fedsynth_lib.methods.marginals.marginals import Candidates
from fedsynth_lib.release.persons import for_persons
from fedsynth_lib.tables.encode import EqualWidthBins
from fedsynth_lib.tables.form import Form
from fedsynth_lib.tables.schema import Schema, require_columns

VERSION = 2
TRUST = "secure sum"
ADVERSARY = (
    "whoever sees the figures, and an honest-but-curious server that sees the noisy sums over all "
    "sites they are made from"
)
ROWS, ONE_WAY, PAIRS, SCORES = (
    "number of held-out rows",
    "counts of single columns",
    "counts of random pairs of columns",
    "scores of a classifier by class",
)
# the part of the budget, in 1 / noise^2, of each kind of count; what a study does not count leaves
# its part to the others
SHARES = {ROWS: 0.05, ONE_WAY: 0.2, PAIRS: 0.4, SCORES: 0.35}
BINS = 8  # of equal width, over the declared range of a numeric column
WORKLOAD = 16  # random pairs of columns
SCORE_BINS = 32  # of the classifier's scores, equally full of synthetic rows
MOST_FITTED = 20_000  # synthetic rows that the classifier is fitted on
MIN_ROWS = 20  # of a site: below, its rows say little, and noise hides them all
SURE = ndtri(0.975)  # deviations on either side of an interval
UNDECLARED = 2  # levels beside a column's own: a value that is not declared, and none at all
OTHER_PEOPLE = (
    "held-out rows are other people than those that were learned from: each person has one row, "
    "which a keyed hash of that row alone puts on one side"
)
OTHER_PERSONS = (  # where a person may have several rows
    "held-out rows are other people than those that were learned from: a keyed hash of who a row "
    "is of puts all rows of a person on one side"
)


@dataclass(frozen=True)
class Config:
    """What a study decides about its evaluation.

    target: the categorical column that the classifier predicts; '' for none.
    published: clients that show their own figures as well.
    rounds: always 1, since the rows are counted once.
    synthetic: codes of the synthetic rows as the encoder makes them; only the server needs them.
    """

    target: str = ""
    published: tuple[int, ...] = ()
    rounds: int = field(default=1, init=False)
    synthetic: np.ndarray | None = field(default=None, repr=False, compare=False)


@dataclass(frozen=True)
class LevelsAndTrouble:
    """Encode every value as the number of its bin or category, with two further levels.

    Level L is a value out of range or of no declared category, level L + 1 a missing one. So the
    encoder takes any rows, and trouble is counted instead of stopping a site.
    """

    schema: Schema

    @cached_property
    def _inner(self) -> EqualWidthBins:
        return EqualWidthBins(self.schema, BINS)

    @property
    def domain(self) -> Domain:
        """What is counted, and with how many levels."""
        inner = self._inner.domain
        return Domain(inner.names, tuple(level + UNDECLARED for level in inner.levels))

    def transform(self, frame: pd.DataFrame) -> np.ndarray:
        """Return the codes, int32 (rows, columns). Raise BadInput for a missing column."""
        require_columns(frame, self.schema.names, "held-out or synthetic rows")
        codes = np.empty((len(frame), len(self.schema.columns)), np.int32)
        levels = self._inner.domain.levels
        for place, (column, level) in enumerate(zip(self.schema.columns, levels, strict=True)):
            values = frame[column.name]
            if column.kind == "numeric":
                numbers = pd.to_numeric(values, errors="coerce").to_numpy(float, na_value=np.nan)
                known = (numbers >= column.low) & (numbers <= column.high)
                inner = self._inner.edges[column.name][1:-1]
                found = np.searchsorted(inner, numbers, side="right")
            else:
                labels = pd.Categorical(values.astype(object), categories=list(column.categories))
                found, known = labels.codes, labels.codes >= 0
            found = np.where(known, found, level)
            codes[:, place] = np.where(values.isna(), level + 1, found)
        return codes

    def inverse(self, rows: np.ndarray, rng: np.random.Generator) -> pd.DataFrame:
        """Raise BadInput: an evaluation makes no rows."""
        raise BadInput("an evaluation counts rows and makes none.")


def encoder(schema: Schema, config: Config) -> LevelsAndTrouble:
    """Return how rows are counted: by levels, and by what is wrong with them."""
    return LevelsAndTrouble(schema)


# --- what is counted, and the noise in it ---------------------------------------------------------


class Part(NamedTuple):
    """Tables that are counted with the same noise. queries: of columns; none of the scores."""

    what: str
    queries: tuple[Query, ...]
    times: int


def parts_of(columns: int, config: Config) -> list[Part]:
    """Return the parts in the order in which their counts are sent.

    They follow from the settings and the number of columns alone, so no server has a site count
    more than its plan pays for.
    """
    queries = {ROWS: ((),), ONE_WAY: tuple((column,) for column in range(columns))}
    if columns > 1:
        queries[PAIRS] = random_workload(columns, size=WORKLOAD, width=2)
    parts = [Part(what, tables, len(tables)) for what, tables in queries.items()]
    return parts + [Part(SCORES, (), 1)] * bool(config.target)


def scales_of(noise_multiplier: float, parts: Sequence[Part]) -> np.ndarray:
    """Return the standard deviation of the noise on a count of each part.

    Together the parts cost as much as one count with noise `noise_multiplier`.
    """
    shares = np.array([SHARES[part.what] for part in parts])
    times = np.array([part.times for part in parts])
    return noise_multiplier * np.sqrt(times * shares.sum() / shares)


def plan(noise_multiplier: float, domain: Domain, num_rows: int, config: Config) -> list[Charge]:
    """Return the charges of a run."""
    return _charges(noise_multiplier, parts_of(len(domain.names), config))


def _charges(noise_multiplier: float, parts: Sequence[Part]) -> list[Charge]:
    """Return what the sum costs. A multiplier of 0 is a count without noise."""
    if not noise_multiplier:
        return [Charge(part.what, "unprotected") for part in parts]
    return [
        Charge(part.what, "skellam", float(scale), times=part.times)
        for part, scale in zip(parts, scales_of(noise_multiplier, parts), strict=True)
    ]


def tables_in(levels: np.ndarray, parts: Sequence[Part]) -> Candidates:
    """Return the tables of columns as places in one array; the scores come behind them."""
    return tables_of_queries(levels, tuple(query for part in parts for query in part.queries))


def cells_of(levels: np.ndarray, parts: Sequence[Part]) -> list[int]:
    """Return the number of counts of each part."""
    return [
        sum(int(np.prod(levels[list(query)])) for query in part.queries)
        if part.queries
        else 2 * SCORE_BINS
        for part in parts
    ]


def counts_of(rows: np.ndarray, state: Arrays, config: Config) -> np.ndarray:
    """Return all counts of these rows, int64.

    One row more adds 1 to one cell of each table, and to at most one of the scores. That holds, and
    nothing fails because of a row, whatever levels and classifier a server sends.
    """
    levels, parts = state["levels"], parts_of(rows.shape[1], config)
    rows = np.minimum(rows, levels - 1)
    counts = tables_in(levels, parts).counts(rows, levels)
    if not config.target:
        return counts
    truth = rows[:, int(state["target"])]
    judged = truth < levels[int(state["target"])] - UNDECLARED
    bins = np.searchsorted(state["edges"], scores_of(rows, state), side="right")
    cells = bins + SCORE_BINS * (truth == int(state["positive"]))
    return np.append(counts, np.bincount(cells[judged], minlength=2 * SCORE_BINS))


# --- the classifier -------------------------------------------------------------------------------


def fitted(rows: np.ndarray, levels: np.ndarray, target: int) -> Arrays:
    """Fit a logistic regression of one class of the target against all others.

    Its inputs say which level each other column has, one input for each level. So a site computes
    a score by looking up one weight for each column and needs no further library. It sees no
    interaction of columns; the counts of pairs do.

    The class is the second of two, else the most frequent among the synthetic rows. Synthetic rows
    of one class alone leave all weights 0, and all rows with the same score.
    """
    from sklearn.linear_model import LogisticRegression  # late: no site needs it

    counts = np.bincount(rows[:, target], minlength=levels[target])
    positive = 1 if levels[target] - UNDECLARED == 2 else int(counts[:-UNDECLARED].argmax())
    rows = rows[rows[:, target] < levels[target] - UNDECLARED]
    labels, weights = rows[:, target] == positive, np.zeros(levels.sum())
    columns = np.repeat(np.arange(len(levels)), levels)  # of each weight
    values = np.arange(levels.sum()) - np.repeat(np.cumsum(levels) - levels, levels)
    if labels.any() and not labels.all():
        inputs = (rows[:, columns] == values) & (columns != target)
        weights = LogisticRegression(max_iter=1000).fit(inputs, labels).coef_[0]
    state = {"levels": levels, "weights": weights}
    edges = np.quantile(scores_of(rows, state), np.arange(1, SCORE_BINS) / SCORE_BINS)
    return state | {"edges": edges, "positive": np.array(positive), "target": np.array(target)}


def scores_of(rows: np.ndarray, state: Arrays) -> np.ndarray:
    """Return the sum of the weights of each row's levels, (rows,)."""
    first = np.cumsum(state["levels"]) - state["levels"]
    return state["weights"][first + rows].sum(axis=1)


# --- the verbs ------------------------------------------------------------------------------------


def start(domain: Domain, config: Config, rng: np.random.Generator) -> Arrays:
    """Return the counts of the synthetic rows, and the classifier that they make."""
    if config.synthetic is None:
        raise BadInput("evaluation: there are no synthetic rows; give Config(synthetic=...).")
    levels, rows = np.array(domain.levels, np.int64), config.synthetic
    if rows.ndim != 2 or rows.shape[1] != len(levels) or len(rows) == 0:
        raise BadInput(
            f"evaluation: synthetic rows have shape {rows.shape}; give at least one row of "
            f"{len(levels)} codes."
        )
    if config.target and config.target not in domain.names:
        raise BadInput(f"evaluation: there is no target {config.target!r} among the columns.")
    state = {
        "levels": levels,
        "synthetic": tables_in(levels, parts_of(len(levels), config)).counts(rows, levels),
    }
    if config.target:
        chosen = rng.permutation(len(rows))[:MOST_FITTED]
        state |= fitted(rows[chosen], levels, domain.names.index(config.target))
    return state


def broadcast(state: Arrays, config: Config) -> Arrays:
    """Return what sites need to count: no counts of others."""
    names = ("levels", "weights", "edges", "positive", "target")
    return {name: state[name] for name in names if name in state}


def check_broadcast(state: Arrays, domain: Domain, config: Config, round: int) -> None:
    """Require the declared levels, and a classifier with a finite score for any row."""
    expected: dict[str, np.ndarray | Values] = {"levels": np.array(domain.levels, np.int64)}
    if config.target:
        target = domain.names.index(config.target)
        expected |= {
            "weights": Values(np.float64, (sum(domain.levels),), -LARGEST, LARGEST),
            "edges": Values(np.float64, (SCORE_BINS - 1,)),
            "positive": Values(np.int64, (), 0, domain.levels[target] - UNDECLARED - 1),
            "target": np.array(target),
        }
    check_arrays(state, expected)
    require(round == 0 and (not config.target or (np.diff(state["edges"]) >= 0).all()))


def client_step(
    state: Arrays, client: Client, config: Config, noise: Noise | None, rng: np.random.Generator
) -> Update:
    """Return the site's counts with its share of the noise.

    A site that shows its own counts adds all of the noise to them.
    """
    if client.size < MIN_ROWS:
        raise BadInput(_too_few(f"client {client.index}", client.size))
    levels = state["levels"]
    parts = parts_of(len(levels), config)
    shown = client.index in config.published
    # what is shown can be subtracted from the sum: the others make the noise without it
    shares = 1 if shown else max(1, client.shares - len(set(config.published)))
    counts, multiplier = counts_of(client.rows, state, config), noise.multiplier if noise else 0.0
    if noise is not None:
        variances = scales_of(multiplier, parts) ** 2
        drawn = list(zip(variances, cells_of(levels, parts), strict=True))
        check_sums(drawn, 1, replace(client, shares=shares))
        counts = counts + np.concatenate(
            [skellam_share(float(v), shares, (cells,), rng=noise.rng) for v, cells in drawn]
        )
    arrays = {"noise_ratio": np.array(1 / shares)} | ({"own": counts} if shown else {})
    return Update(arrays, {"counts": counts}, summed_spent=_charges(multiplier, parts))


def server_step(
    state: Arrays,
    updates: list[Update],
    config: Config,
    noise: Noise | None,
    rng: np.random.Generator,
) -> tuple[Arrays, list[Charge]]:
    """Return the noisy sum, from which `figures` computes.

    noise_ratio: the variance of its noise by that of the plan, of which the honest sites make 1.
    """
    parts = parts_of(len(state["levels"]), config)
    multiplier = noise.multiplier if noise else 0.0
    state = state | {
        "counts": secure_sum.total(updates)["counts"],
        "scales": scales_of(multiplier, parts),
        "noise_ratio": np.array(sum(float(update.arrays["noise_ratio"]) for update in updates)),
    }
    own = {f"site/{u.client}": u.arrays["own"] for u in updates if "own" in u.arrays}
    return state | own, _charges(multiplier, parts)


def sample(state: Arrays, num_rows: int, config: Config, rng: np.random.Generator) -> np.ndarray:
    """Raise BadInput: an evaluation makes no rows."""
    raise BadInput("an evaluation counts rows and makes none.")


METHOD = Method(
    "evaluation",
    *(VERSION, Config, encoder, plan, start, client_step, server_step, sample),
    broadcast=broadcast,
    check_broadcast=check_broadcast,
    TRUST=TRUST,
    ADVERSARY=ADVERSARY,
)


def _too_few(who: str, size: int) -> str:
    return (
        f"{who}: {size} held-out rows were declared, too few to judge by; set aside {MIN_ROWS} or "
        "more, or leave the site out."
    )


# --- from noisy sums to figures -------------------------------------------------------------------


class Figure(NamedTuple):
    """A value and its interval (95 percent at least).

    chance: what as many rows of the very same distribution would score; None where it says nothing.
    """

    value: float
    low: float
    high: float
    chance: float | None = None
    note: str = ""


def folded_bias(gap: np.ndarray | float) -> np.ndarray | float:
    """Return E|t + Z| - |t| of a standard normal Z: by how much such noise lengthens a gap t.

    As a function of t^2 it is convex and falls, from the root of 2 / pi at 0.
    """
    t = np.abs(gap)
    return np.sqrt(2 / np.pi) * np.exp(-(t**2) / 2) - 2 * t * ndtr(-t)


def total_variation(
    counts: Sequence[np.ndarray],
    synthetic: Sequence[np.ndarray],
    *,
    scale: float,
    rows: float,
    rows_deviation: float = 0.0,
) -> Figure:
    """Return the mean over tables of the total variation of real and synthetic shares.

    Of the real ones noisy counts are known; the synthetic ones are exact.

    scale: standard deviation of the noise on a count. rows: real rows, known with `rows_deviation`.

    Total variation is the sum over cells of how far the real share p stays behind the synthetic
    one, q: only cells with q > 0 count. Noise of deviation s lengthens such a gap of t s by
    s / 2 times `folded_bias(t)` on average, which is corrected by three amounts:

    for the lower end, s exp(-x^2 / 2) / sqrt(pi) at a noisy gap of x s, whose mean,
        s exp(-t^2 / 4) / sqrt(2 pi), is never below the bias, and equal to it at t = 0;
    for the upper end, the bias of gaps that are all equal, to the mean square that the noisy ones
        show: since the bias is convex in t^2, no other gaps with this mean square have less;
    for the value, that of normal gaps with this mean square.

    Mean squares are taken of cells with about the same q, whose gaps are alike. Cells whose q is
    below what noise alone adds are left out of the first two sums instead, where they count 0 at
    least and q at most. Skellam noise is taken as normal.
    """
    q = np.concatenate([table / table.sum() for table in synthetic])
    gaps, tables = np.concatenate(counts) / rows - q, len(counts)
    s = scale / rows
    drawn = 1 / rows + 1 / synthetic[0].sum()
    chance = float(np.sqrt(q * (1 - q) * drawn / (2 * np.pi)).sum() / tables)
    short = np.maximum(-gaps, 0)
    if s == 0:
        exact = float(short[q > 0].sum() / tables)
        return Figure(exact, exact, exact, chance)

    def by_size(kept: np.ndarray) -> tuple[np.ndarray, ...]:
        """Group these cells by about the same q.

        Returns for each group the number of its cells, the sum of their noisy gaps, the mean square
        of gap / noise, and the sum of q.
        """
        _, group = np.unique(np.floor(np.log2(q[kept])), return_inverse=True)
        number = np.bincount(group)
        squares = np.bincount(group, (gaps[kept] / s) ** 2) / number - 1
        sums = (np.bincount(group, each[kept]) for each in (short, q))
        return number, next(sums), np.maximum(squares, 0), next(sums)

    large = q > s / np.sqrt(2 * np.pi)
    deviation = np.hypot(s * np.sqrt(large.sum()), tables * rows_deviation / rows)
    bump = s * np.exp(-((gaps[large] / s) ** 2) / 2) / np.sqrt(np.pi)
    # the bump makes a cell vary more, by a quarter at most
    low = (short[large] - bump).sum() - SURE * 1.25 * deviation
    number, noisy, squares, _ = by_size(large)
    squares = squares + SURE * np.sqrt((2 + 4 * squares) / number)
    high = (noisy - number * s / 2 * folded_bias(np.sqrt(squares))).sum()
    high += q[~large].sum() + SURE * deviation
    number, noisy, squares, most = by_size(q > 0)
    bias = s / np.sqrt(2 * np.pi) * (np.sqrt(1 + squares) - np.sqrt(squares))
    value = np.minimum(noisy - number * bias, most).sum()
    low, high = np.clip([low / tables, high / tables], 0, 1)
    high = max(low, high)
    return Figure(float(np.clip(value / tables, low, high)), float(low), float(high), chance)


def auc(counts: np.ndarray, *, scale: float) -> Figure:
    """Return the area under the ROC curve from noisy histograms of scores, (2, bins).

    The first is of the other classes, the second of the positive one. Rows in the same bin count
    half.

    The interval is that of the area of the population: its variance is DeLong's (1988), computed
    from the histograms, and that of the noise, by the derivatives of the area and for the product
    of both noises.
    """
    others, positives = np.asarray(counts, float)
    sums, bins = np.array([others.sum(), positives.sum()]), len(others)
    if min(sums) <= max(1.0, 3 * scale * np.sqrt(bins)):
        return Figure(np.nan, 0.0, 1.0, None, "too few rows of a class for this noise")
    below = (np.cumsum(others) - others / 2) / sums[0]
    above = 1 - (np.cumsum(positives) - positives / 2) / sums[1]
    area = float(positives @ below / sums[1])
    spread = [(below - area) ** 2, (above - area) ** 2]
    sampling = max(positives @ spread[0], 0) / sums[1] ** 2
    sampling += max(others @ spread[1], 0) / sums[0] ** 2
    by_noise = scale**2 * (spread[0].sum() / sums[1] ** 2 + spread[1].sum() / sums[0] ** 2)
    by_noise += scale**4 * bins**2 / (2 * sums.prod() ** 2)
    margin = SURE * np.sqrt(sampling + by_noise)
    low, high = np.clip([area - margin, area + margin], 0, 1)
    return Figure(float(np.clip(area, 0, 1)), float(low), float(high))


TOTAL_VARIATION = {
    ONE_WAY: "total variation of single columns",
    PAIRS: "total variation of pairs of columns",
}
K_MARGINAL, AUC, VALIDITY = (
    "k-marginal score (NIST)",
    "AUC of a logistic regression trained on synthetic rows",
    "share of values that the schema declares",
)


@dataclass(frozen=True)
class Scored:
    """What held-out rows say of synthetic ones.

    figures: measure -> value, low, high, chance, note (see `Figure`). Intervals say what noise
        hides of these held-out rows; that of the AUC speaks of the population that they are from.

    trouble: a line for each column and kind of it, the share of held-out rows with its interval and
        that of synthetic ones. rows: held-out rows, as counted with noise.
    """

    figures: pd.DataFrame
    trouble: pd.DataFrame
    rows: float


def figures(state: Arrays, domain: Domain, config: Config, *, client: int | None = None) -> Scored:
    """Return what the noisy sum of a finished run says, or the counts that one client shows."""
    levels = np.array(domain.levels)
    parts = parts_of(len(levels), config)
    ratio = float(state["noise_ratio"]) if client is None else 1.0
    counts = state["counts"] if client is None else state[f"site/{client}"]
    scales = dict(zip([part.what for part in parts], state["scales"] * np.sqrt(ratio), strict=True))
    cut = np.cumsum(cells_of(levels, parts))[:-1]
    noisy = dict(zip(scales, np.split(counts, cut), strict=True))
    made = dict(zip(scales, np.split(state["synthetic"], cut), strict=False))
    tables, synthetic = {}, {}
    for part in parts:
        if part.queries:
            ends = np.cumsum([int(np.prod(levels[list(query)])) for query in part.queries])[:-1]
            tables[part.what] = np.split(noisy[part.what], ends)
            synthetic[part.what] = np.split(made[part.what], ends)
    rows, deviation = _rows_of(tables, scales)
    found: dict[str, Figure] = {}
    for width, (what, measure) in enumerate(TOTAL_VARIATION.items(), 1):
        if what in tables:
            found[measure] = tv = total_variation(
                tables[what],
                synthetic[what],
                scale=scales[what],
                rows=rows,
                rows_deviation=deviation,
            )
            score = [1000 * (1 - each) for each in (tv.value, tv.high, tv.low, tv.chance)]
            found[K_MARGINAL] = Figure(*score, f"of {len(tables[what])} marginals, k = {width}")
    found[K_MARGINAL] = found.pop(K_MARGINAL)  # of the widest tables, below all of them
    if SCORES in noisy:
        label = f"class {int(state['positive'])} of {config.target!r} against the others"
        area = auc(noisy[SCORES].reshape(2, -1), scale=scales[SCORES])
        found[AUC] = area._replace(note=area.note or label)
    trouble = _trouble(tables[ONE_WAY], synthetic[ONE_WAY], domain, scales[ONE_WAY] / rows, rows)
    declared = 1 - trouble["held out"].to_numpy().reshape(len(levels), UNDECLARED).sum(axis=1)
    margin = SURE * scales[ONE_WAY] / rows * np.sqrt(UNDECLARED / len(levels))
    ends = np.clip(declared.mean() + np.array([0, -margin, margin]), 0, 1)
    found[VALIDITY] = Figure(*map(float, ends))
    frame = pd.DataFrame(found, index=Figure._fields).T.rename_axis("measure")
    return Scored(frame.astype(dict.fromkeys(Figure._fields[:4], float)), trouble, rows)


def _rows_of(
    tables: Mapping[str, Sequence[np.ndarray]], scales: Mapping[str, float]
) -> tuple[float, float]:
    """Return the number of held-out rows and its deviation.

    The cells of every table add up to it; a table of fewer cells has less noise in its sum.
    """
    kinds = (ROWS, ONE_WAY)
    sums = np.array([table.sum() for what in kinds for table in tables[what]])
    variances = np.array([len(t) * scales[what] ** 2 for what in kinds for t in tables[what]])
    if not variances.any():
        return float(max(sums[0], 1)), 0.0
    weights = 1 / variances
    mean = float(weights @ sums / weights.sum())
    return max(mean, 1.0), float(weights.sum() ** -0.5)


def _trouble(
    counts: Sequence[np.ndarray],
    synthetic: Sequence[np.ndarray],
    domain: Domain,
    deviation: float,
    rows: float,
) -> pd.DataFrame:
    """Return the shares of values that are not declared, and of missing ones, by column."""
    lines = []
    for name, real, made in zip(domain.names, counts, synthetic, strict=True):
        for kind, place in (("not declared", -2), ("missing", -1)):
            share, margin = real[place] / rows, SURE * deviation
            low, high = np.clip([share - margin, share + margin], 0, 1)
            lines.append((name, kind, share, low, high, made[place] / made.sum()))
    columns = ["column", "trouble", "held out", "low", "high", "synthetic"]
    return pd.DataFrame(lines, columns=columns).set_index(columns[:2])


# --- the whole way --------------------------------------------------------------------------------


@dataclass(frozen=True)
class Evaluation:
    """all_sites: what the sum says. sites: name -> the same of sites that show their own.

    text: what must be said of both budgets together; '' where nothing is known of the other one.
    """

    all_sites: Scored
    sites: dict[str, Scored]
    statement: dict
    text: str
    outcome: flower.Outcome


def job_for(
    schema: Schema,
    privacy: Privacy,
    sizes: Sequence[int],
    *,
    synthetic: pd.DataFrame | None = None,
    config: Config | None = None,
    seed: int = 0,
    names: Sequence[str] = (),
    before: Sequence[Charge] = (),
) -> flower.Job:
    """Return the job of an evaluation, with noise calibrated to its budget.

    synthetic: rows of the schema; None at a site, which is sent what it needs.
    before: what held-out records have paid already, within the same budget.
    sizes: held-out rows of each site, as declared. names: of the sites, for what is said of them.
    Raises BadInput for too few held-out rows, and as `settings.planned` does.
    """
    checked_seed(seed)
    config = config_for(schema) if config is None else config
    names = names or [f"client {number}" for number in range(len(sizes))]
    for name, size in zip(names, sizes, strict=True):
        if size < MIN_ROWS:
            raise BadInput(_too_few(f"site {name}", size))
    if unknown := [k for k in config.published if not 0 <= k < len(sizes)]:
        raise BadInput(f"evaluation: published names client {unknown[0]} of {len(sizes)}.")
    check_delta(privacy, sum(sizes))
    encode = encoder(schema, config)
    if synthetic is not None:
        config = replace(config, synthetic=encode.transform(synthetic))
    multiplier = noise_for(METHOD, encode.domain, sizes, config, privacy, before)
    return flower.Job(
        *(METHOD, config, encode.domain, multiplier, seed, len(sizes), privacy),
        tuple(map(int, sizes)),
    )


def config_for(schema: Schema, **settings: Any) -> Config:
    """Return a Config with the schema's target, where a classifier can predict it."""
    return Config(schema.target if schema.target in schema.categorical else "", **settings)


def evaluated(
    job: flower.Job,
    outcome: flower.Outcome,
    *,
    names: Sequence[str] = (),
    trained: Total | None = None,
    other_people: bool = True,
    adversary: str = "",
    form: Form | None = None,
    promised: Privacy | None = None,
) -> Evaluation:
    """Return what a finished run of `job` says, and what must be said of it.

    trained: what the runs that made synthetic rows cost. other_people: whether its rows were
        others than these, so that the two do not add up. adversary: where ADVERSARY does not fit.
    form, promised: of the rows, where their unit may be a person, and what was promised to it.
    """
    of_persons = form is not None and bool(form.unit)
    others = OTHER_PERSONS if of_persons else OTHER_PEOPLE
    names = names or [f"client {number}" for number in range(job.num_clients)]
    shown = {
        names[client]: figures(outcome.state, job.domain, job.config, client=client)
        for client in job.config.published
    }
    said = statement(
        outcome.charges,
        job.privacy,
        public_inputs=(
            PUBLIC[0],
            DECLARED,
            "the synthetic rows, which were released before",
            PUBLIC[1],
            *[others] * other_people,
        ),
        method=job.method.name,
        adversary=adversary or job.method.ADVERSARY,
        trust=job.method.TRUST,
        num_rows=sum(job.sizes),
        num_clients=job.num_clients,
    )
    if of_persons:
        said = for_persons(said, form, promised, several_sites=True)
    text = ""
    if trained is not None and said["epsilon"] is not None:
        runs = 1 + outcome.earlier.get(job.method.name, 0)
        paid = Total(runs, runs * said["epsilon"], runs * said["delta"])
        text = together(trained, paid, others if other_people else "")
    return Evaluation(figures(outcome.state, job.domain, job.config), shown, said, text, outcome)


def together(trained: Total, evaluated: Total, others: str) -> str:
    """Return what all runs that made synthetic rows, and all evaluations, cost one person.

    Where they are of other people, a person who was learned from is in no count of the evaluation,
    which sees of them the synthetic rows alone (post-processing); a person who was held out has no
    part in the synthetic rows. So nobody pays for both (parallel composition). Else everybody may.
    others: why they are of other people; '' where they may be of the same.
    """
    one, other = (
        f"{each.epsilon:.4g}" + f" in {each.releases} runs" * (each.releases > 1)
        for each in (trained, evaluated)
    )
    both = trained.epsilon, evaluated.epsilon
    if others:
        return (
            f"A person pays epsilon {one} for the synthetic rows or {other} for their evaluation, "
            f"never both: {max(both):.4g} at most. This holds while {others}."
        )
    return (
        "The same people may be among the rows that were learned from and those held out, so both "
        f"costs add up: epsilon {one} and {other}, {sum(both):.4g} together."
    )
