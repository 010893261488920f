"""How good synthetic rows are, by rows that each site has set aside and nobody else ever sees.

As a method of the contract, so that apps, secure sums, schedules, accounting and ledgers carry it
as they carry any other. What crosses the wire, once: down, a classifier that was fitted on the
synthetic rows, which are public; up, whole-number counts of the site's held-out rows with its share
of Skellam noise, hidden by the masks of a secure sum. The server sees the noisy sum over all sites
and makes of it, without further cost,

    total variation of single columns and of random pairs of columns to the synthetic rows,
    the k-marginal score of NIST (1000 (1 - mean total variation) of random marginals),
    the AUC of the classifier (train on synthetic rows, test on real ones),
    shares of values that are missing, or that the schema does not declare,

each with an interval. Unit: one row. It adds 1 to one cell of each table that is counted, and each
table has noise of its own: L2 sensitivity is the root of the number of tables.

A site may publish its own figures (`Config.published`): its counts then get a whole dose of noise,
are shown as they are and added to the sum, which costs its rows nothing more; the other sites make
their noise without it.
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
from fedsynth_lib.tables.encode import EqualWidthBins
from fedsynth_lib.tables.schema import Schema, require_columns

VERSION = 1
TRUST = "secure sum"
ADVERSARY = (
    "whoever sees the figures, and an honest-but-curious server that sees the noisy sums over all "
    "sites they are made from"
)
ROWS, ONE_WAY, PAIRS, TRIPLES, SCORES = (
    "number of held-out rows",
    "counts of single columns",
    "counts of random pairs of columns",
    "counts of random triples of columns",
    "scores of a classifier by class",
)
MIN_ROWS = 20  # of a site: below, its rows say little, and noise hides them all
SURE = ndtri(0.975)  # deviations on either side of an interval
UNDECLARED = 2  # levels beside a column's own: a value that is not declared, and none at all
OTHER_PEOPLE = (
    "held-out rows are other people than those that were learned from: each person has one row, "
    "which a keyed hash of that row alone puts on one side"
)


@dataclass(frozen=True)
class Config:
    """What is counted, and which part of the budget (in 1 / noise^2) each kind of count has; parts
    of what is not counted go to the rest in proportion.

    bins: equal-width bins of numeric columns over their declared ranges.
    pairs, triples: random marginals of two and of three columns, drawn with `workload_seed`; the
        k-marginal score is of triples, where there are any. Three columns need many rows.
    target: the categorical column that the classifier predicts; '' for none.
    score_bins: of the classifier's scores, equally full of synthetic rows.
    learn_rows: synthetic rows that it is fitted on at most.
    published: clients that show their own figures as well.
    synthetic: codes of the synthetic rows as the encoder makes them; the server alone needs them.
    """

    bins: int = 8
    pairs: int = 16
    triples: int = 0
    workload_seed: int = 123
    target: str = ""
    score_bins: int = 32
    learn_rows: int = 20_000
    rows_share: float = 0.05
    one_way_share: float = 0.2
    pairs_share: float = 0.4
    triples_share: float = 0.35
    scores_share: float = 0.35
    published: tuple[int, ...] = ()
    rounds: int = 1
    synthetic: np.ndarray | None = field(default=None, repr=False, compare=False)

    def __post_init__(self):
        shares = [getattr(self, f"{name}_share") for name in ("rows", "one_way", "pairs")]
        shares += [self.triples_share, self.scores_share]
        if min(shares) <= 0:
            raise BadInput("evaluation: a share of the budget is not above 0; give each a part.")
        if self.pairs < 0 or self.triples < 0 or self.score_bins < 2 or self.learn_rows < 1:
            raise BadInput(
                f"evaluation: pairs, triples, score_bins and learn_rows are {self.pairs}, "
                f"{self.triples}, {self.score_bins} and {self.learn_rows}; give whole numbers, of "
                "bins at least 2, of rows at least 1."
            )
        if self.rounds != 1:
            raise BadInput(f"evaluation: rounds is {self.rounds}; the rows are counted once.")


@dataclass(frozen=True)
class LevelsAndTrouble:
    """Every value as the number of its bin or category; two levels more for what a schema does not
    allow: L for a value out of range or of no declared category, L + 1 for none at all.

    So it takes any rows, and trouble is counted instead of stopping a site.
    """

    schema: Schema
    bins: int

    @cached_property
    def _inner(self) -> EqualWidthBins:
        return EqualWidthBins(self.schema, self.bins)

    @property
    def domain(self) -> Domain:
        inner = self._inner.domain
        return Domain(inner.names, tuple(level + UNDECLARED for level in inner.levels))

    def transform(self, frame: pd.DataFrame) -> np.ndarray:
        """Int32 (rows, columns); BadInput for a column that is not there."""
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
        raise BadInput("an evaluation counts rows and makes none.")


def encoder(schema: Schema, config: Config) -> LevelsAndTrouble:
    return LevelsAndTrouble(schema, config.bins)


# --- what is counted, and the noise in it ---------------------------------------------------------


class Part(NamedTuple):
    """Tables that are counted with the same noise. queries: of columns; none of the scores."""

    what: str
    queries: tuple[Query, ...]
    times: int
    share: float


def parts_of(columns: int, config: Config) -> list[Part]:
    """In the order in which their counts are sent.

    It follows from settings and the number of columns alone, so that no server has a site count
    more than its plan pays for.
    """

    def drawn(number: int, width: int) -> tuple[Query, ...]:
        if number == 0 or width > columns:
            return ()
        return random_workload(columns, size=number, width=width, seed=config.workload_seed)

    parts = [
        (ROWS, ((),), config.rows_share),  # all rows in one cell
        (ONE_WAY, tuple((column,) for column in range(columns)), config.one_way_share),
        (PAIRS, drawn(config.pairs, 2), config.pairs_share),
        (TRIPLES, drawn(config.triples, 3), config.triples_share),
    ]
    found = [Part(what, queries, len(queries), share) for what, queries, share in parts if queries]
    return found + [Part(SCORES, (), 1, config.scores_share)] * bool(config.target)


def scales_of(noise_multiplier: float, parts: Sequence[Part]) -> np.ndarray:
    """Standard deviation of the noise on a count of each part: together they cost as much as one
    count with noise `noise_multiplier`."""
    shares = np.array([part.share for part in parts])
    times = np.array([part.times for part in parts])
    return noise_multiplier * np.sqrt(times * shares.sum() / shares)


def plan(noise_multiplier: float, domain: Domain, num_rows: int, config: Config) -> list[Charge]:
    return _noisy(noise_multiplier, parts_of(len(domain.names), config))


def _charges(noise: Noise | None, parts: Sequence[Part]) -> list[Charge]:
    """What the sum costs, as planned with noise."""
    if noise is None:
        return [Charge(part.what, "unprotected") for part in parts]
    return _noisy(noise.multiplier, parts)


def _noisy(noise_multiplier: float, parts: Sequence[Part]) -> list[Charge]:
    return [
        Charge(part.what, "skellam", float(scale), times=part.times)
        for part, scale in zip(parts, scales_of(noise_multiplier, parts), strict=True)
    ]


def tables_in(levels: np.ndarray, parts: Sequence[Part]) -> Candidates:
    """The tables of columns, as places in one array; the scores come behind them."""
    return tables_of_queries(levels, tuple(query for part in parts for query in part.queries))


def cells_of(levels: np.ndarray, parts: Sequence[Part], config: Config) -> list[int]:
    """How many counts each part has."""
    return [
        sum(int(np.prod(levels[list(query)])) for query in part.queries)
        if part.what != SCORES
        else 2 * config.score_bins
        for part in parts
    ]


def counts_of(rows: np.ndarray, state: Arrays, config: Config) -> np.ndarray:
    """All counts of these rows, int64; one row more adds 1 to one cell of each table, and to at
    most one of the scores.

    That holds, and nothing fails because of a row, whatever levels and classifier a server sends.
    """
    levels, parts = state["levels"], parts_of(rows.shape[1], config)
    rows = np.minimum(rows, levels - 1)
    counts = tables_in(levels, parts).counts(rows, levels)
    if not config.target:
        return counts
    truth = rows[:, int(state["target"])]
    judged = truth < levels[int(state["target"])] - UNDECLARED
    bins = np.searchsorted(state["edges"], scores_of(rows, state), side="right")
    cells = bins + config.score_bins * (truth == int(state["positive"]))
    return np.append(counts, np.bincount(cells[judged], minlength=2 * config.score_bins))


# --- the classifier -------------------------------------------------------------------------------

TREE = ("feature", "threshold", "left", "right", "value")
TREES, DEPTH = 100, 4
NODES = 2 ** (DEPTH + 1) - 1  # of a tree at most


def fitted(rows: np.ndarray, levels: np.ndarray, target: int, config: Config, seed: int) -> Arrays:
    """Gradient boosting of one class of the target against all others, as arrays: so sites need no
    agreement on versions of scikit-learn. 100 trees of depth 4, as `utility.gradient_boosting_auc`.

    The class is the second of two, else the most frequent among synthetic rows. Synthetic rows of
    one class alone give no tree, and all rows one score.
    """
    from sklearn.ensemble import GradientBoostingClassifier  # late: no site needs it

    counts = np.bincount(rows[:, target], minlength=levels[target])
    positive = 1 if levels[target] - UNDECLARED == 2 else int(counts[:-UNDECLARED].argmax())
    rows = rows[rows[:, target] < levels[target] - UNDECLARED]
    labels, inputs = rows[:, target] == positive, np.delete(rows, target, axis=1)
    trees = []
    if labels.any() and not labels.all() and inputs.shape[1]:
        model = GradientBoostingClassifier(n_estimators=TREES, max_depth=DEPTH, random_state=seed)
        trees = [tree.tree_ for tree in model.fit(inputs, labels).estimators_[:, 0]]
    nodes = max((tree.node_count for tree in trees), default=1)
    places = np.delete(np.arange(rows.shape[1]), target)
    found = {
        "feature": np.zeros((len(trees), nodes), np.int32),
        "threshold": np.zeros((len(trees), nodes)),
        "left": np.tile(np.arange(nodes, dtype=np.int32), (len(trees), 1)),
        "right": np.tile(np.arange(nodes, dtype=np.int32), (len(trees), 1)),
        "value": np.zeros((len(trees), nodes)),
    }
    for number, tree in enumerate(trees):
        inner = np.flatnonzero(tree.children_left >= 0)  # a leaf is its own child
        found["feature"][number, inner] = places[tree.feature[inner]]
        found["threshold"][number, inner] = tree.threshold[inner]
        found["left"][number, inner] = tree.children_left[inner]
        found["right"][number, inner] = tree.children_right[inner]
        found["value"][number, : tree.node_count] = tree.value[:, 0, 0]
    state = {f"tree/{name}": values for name, values in found.items()}
    scores = scores_of(rows, state)
    edges = np.quantile(scores, np.arange(1, config.score_bins) / config.score_bins)
    return state | {"edges": edges, "positive": np.array(positive), "target": np.array(target)}


def scores_of(rows: np.ndarray, state: Arrays) -> np.ndarray:
    """The sum over all trees of the leaf that each row comes to, (rows,)."""
    feature, threshold, left, right, value = (state[f"tree/{name}"] for name in TREE)
    scores, row = np.zeros(len(rows)), np.arange(len(rows))
    for number in range(len(feature)):
        node = np.zeros(len(rows), np.intp)
        for _ in range(DEPTH):
            less = rows[row, feature[number, node]] <= threshold[number, node]
            node = np.where(less, left[number, node], right[number, node])
        scores += value[number, node]
    return scores


# --- the verbs ------------------------------------------------------------------------------------


def start(domain: Domain, config: Config, rng: np.random.Generator) -> Arrays:
    """The counts of the synthetic rows, and the classifier that they make."""
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
    parts = parts_of(len(levels), config)
    state = {
        "levels": levels,
        "synthetic rows": np.array(len(rows)),
        "synthetic": tables_in(levels, parts).counts(rows, levels),
    }
    if config.target:
        chosen = rng.permutation(len(rows))[: config.learn_rows]
        place = domain.names.index(config.target)
        state |= fitted(rows[chosen], levels, place, config, int(rng.integers(2**31)))
    return state


def broadcast(state: Arrays, config: Config) -> Arrays:
    """What sites need to count: no counts of others."""
    names = ("levels", "edges", "positive", "target", *(f"tree/{name}" for name in TREE))
    return {name: state[name] for name in names if name in state}


def check_broadcast(state: Arrays, domain: Domain, config: Config, round: int) -> None:
    """The declared levels, and a classifier whose every number is where a row can meet it."""
    expected: dict[str, np.ndarray | Values] = {"levels": np.array(domain.levels, np.int64)}
    if config.target:
        target, columns = domain.names.index(config.target), len(domain.names)
        trees, nodes = shape = state["tree/feature"].shape
        require(trees in (0, TREES) and 1 <= nodes <= NODES)
        place, number = Values(np.int32, shape, 0, nodes - 1), Values(np.float64, shape)
        expected |= {
            "tree/feature": Values(np.int32, shape, 0, columns - 1),
            "tree/threshold": number,
            "tree/left": place,
            "tree/right": place,
            "tree/value": Values(np.float64, shape, -LARGEST, LARGEST),
            "edges": Values(np.float64, (config.score_bins - 1,)),
            "positive": Values(np.int64, (), 0, domain.levels[target] - UNDECLARED - 1),
            "target": np.array(target),
        }
    check_arrays(state, expected)
    require(round == 0 and (not config.target or (np.diff(state["edges"]) >= 0).all()))


def client_step(
    state: Arrays, client: Client, config: Config, noise: Noise | None, rng: np.random.Generator
) -> Update:
    """The site's counts with its share of the noise, or with a whole dose where it shows them."""
    if client.size < MIN_ROWS:
        raise BadInput(_too_few(f"client {client.index}", client.size))
    levels = state["levels"]
    parts = parts_of(len(levels), config)
    shown = client.index in config.published
    # what is shown can be subtracted from the sum: the others make the noise without it
    shares = 1 if shown else max(1, client.shares - len(set(config.published)))
    counts = counts_of(client.rows, state, config)
    if noise is not None:
        variances = scales_of(noise.multiplier, parts) ** 2
        drawn = list(zip(variances, cells_of(levels, parts, config), strict=True))
        check_sums(drawn, 1, replace(client, shares=shares))
        counts = counts + np.concatenate(
            [skellam_share(float(v), shares, (cells,), rng=noise.rng) for v, cells in drawn]
        )
    arrays = {"doses": np.array(1 / shares)} | ({"own": counts} if shown else {})
    return Update(arrays, {"counts": counts}, summed_spent=_charges(noise, parts))


def server_step(
    state: Arrays,
    updates: list[Update],
    config: Config,
    noise: Noise | None,
    rng: np.random.Generator,
) -> tuple[Arrays, list[Charge]]:
    """The noisy sum; `figures` makes something of it.

    doses: how often the noise of the plan is in it, of which the honest sites make one."""
    parts = parts_of(len(state["levels"]), config)
    multiplier = noise.multiplier if noise else 0.0
    state = state | {
        "counts": secure_sum.total(updates)["counts"],
        "scales": scales_of(multiplier, parts),
        "doses": np.array(sum(float(update.arrays["doses"]) for update in updates)),
    }
    own = {f"site/{u.client}": u.arrays["own"] for u in updates if "own" in u.arrays}
    return state | own, _charges(noise, parts)


def sample(state: Arrays, num_rows: int, config: Config, rng: np.random.Generator) -> np.ndarray:
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
    """A value and its interval (95 percent at least). chance: what as many rows of the very same
    distribution would score; None where it says nothing."""

    value: float
    low: float
    high: float
    chance: float | None = None
    note: str = ""


def folded_bias(gap: np.ndarray | float) -> np.ndarray | float:
    """E|t + Z| - |t| of a standard normal Z: by how much noise of deviation 1 lengthens a gap t.

    As a function of t^2 it is convex and falls, from the root of 2 / pi at 0."""
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
    """Mean over tables of the total variation between the real shares, of which noisy counts are
    known, and the synthetic ones, which are exact.

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
        """Of these cells in groups of about the same q: how many, the sums of their noisy gaps, the
        mean squares of their gaps in noise's own, and the sums of q."""
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
    """Area under the ROC curve from noisy histograms of scores, (2, bins): of the other classes,
    and of the positive one. Rows in the same bin count half.

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


TOTAL_VARIATION_1, TOTAL_VARIATION_2, TOTAL_VARIATION_3, K_MARGINAL, AUC, VALIDITY = (
    "total variation of single columns",
    "total variation of pairs of columns",
    "total variation of triples of columns",
    "k-marginal score (NIST)",
    "AUC of a classifier trained on synthetic rows",
    "share of values that the schema declares",
)


@dataclass(frozen=True)
class Scored:
    """figures: measure -> value, low, high, chance, note (see `Figure`). Intervals say what noise
    hides of these held-out rows; that of the AUC speaks of the population that they are from.

    trouble: a line for each column and kind of it, the share of held-out rows with its interval and
    that of synthetic ones. rows: held-out rows, as counted with noise.
    """

    figures: pd.DataFrame
    trouble: pd.DataFrame
    rows: float


def figures(state: Arrays, domain: Domain, config: Config, *, client: int | None = None) -> Scored:
    """What the noisy sum of a finished run says; of one site that shows its own, `client`."""
    levels = np.array(domain.levels)
    parts = parts_of(len(levels), config)
    doses = float(state["doses"]) if client is None else 1.0
    counts = state["counts"] if client is None else state[f"site/{client}"]
    scales = dict(zip([part.what for part in parts], state["scales"] * np.sqrt(doses), strict=True))
    cut = np.cumsum(cells_of(levels, parts, config))[:-1]
    noisy = dict(zip(scales, np.split(counts, cut), strict=True))
    made = dict(zip(scales, np.split(state["synthetic"], cut), strict=False))
    tables, own = {}, {}
    for part in parts:
        ends = np.cumsum([int(np.prod(levels[list(query)])) for query in part.queries])[:-1]
        if part.what != SCORES:
            tables[part.what] = np.split(noisy[part.what], ends)
            own[part.what] = np.split(made[part.what], ends)
    rows, deviation = _rows_of(tables, scales)
    found: dict[str, Figure] = {}
    for what, measure in (
        (ONE_WAY, TOTAL_VARIATION_1),
        (PAIRS, TOTAL_VARIATION_2),
        (TRIPLES, TOTAL_VARIATION_3),
    ):
        if what in tables:
            found[measure] = k_marginal = total_variation(
                tables[what], own[what], scale=scales[what], rows=rows, rows_deviation=deviation
            )
    width = 3 if TRIPLES in tables else 2 if PAIRS in tables else 1
    found[K_MARGINAL] = Figure(
        1000 * (1 - k_marginal.value),
        1000 * (1 - k_marginal.high),
        1000 * (1 - k_marginal.low),
        1000 * (1 - k_marginal.chance),
        f"of {len(tables[(ONE_WAY, PAIRS, TRIPLES)[width - 1]])} marginals, k = {width}",
    )
    if SCORES in noisy:
        label = f"class {int(state['positive'])} of {config.target!r} against the others"
        area = auc(noisy[SCORES].reshape(2, -1), scale=scales[SCORES])
        found[AUC] = area._replace(note=area.note or label)
    trouble = _trouble(tables[ONE_WAY], own[ONE_WAY], domain, scales[ONE_WAY] / rows, rows)
    declared = 1 - trouble["held out"].to_numpy().reshape(len(levels), UNDECLARED).sum(axis=1)
    margin = SURE * scales[ONE_WAY] / rows * np.sqrt(UNDECLARED / len(levels))
    ends = np.clip(declared.mean() + np.array([0, -margin, margin]), 0, 1)
    found[VALIDITY] = Figure(*map(float, ends))
    frame = pd.DataFrame(found, index=Figure._fields).T.rename_axis("measure")
    return Scored(frame.astype(dict.fromkeys(Figure._fields[:4], float)), trouble, rows)


def _rows_of(
    tables: Mapping[str, Sequence[np.ndarray]], scales: Mapping[str, float]
) -> tuple[float, float]:
    """The number of held-out rows and its deviation: every table's cells add up to it, the more
    surely the fewer they are."""
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
    """By column: shares of values that are not declared, and of missing ones."""
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
    mask_seed: int | None = None,
    names: Sequence[str] = (),
    before: Sequence[Charge] = (),
) -> flower.Job:
    """The job of an evaluation, with noise calibrated to its budget.

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
        mask_seed,
    )


def config_for(schema: Schema, **settings: Any) -> Config:
    """The defaults, with the schema's target where a classifier can predict it."""
    target = schema.target if schema.target in schema.categorical else ""
    return Config(**{"target": target or ""} | settings)


def evaluated(
    job: flower.Job,
    outcome: flower.Outcome,
    *,
    names: Sequence[str] = (),
    trained: Total | None = None,
    other_people: bool = True,
    adversary: str = "",
) -> Evaluation:
    """What a finished run of `job` says, and what must be said of it.

    trained: what the runs that made synthetic rows cost. other_people: whether its rows were
        others than these, so that the two do not add up. adversary: where ADVERSARY does not fit.
    """
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
            *[OTHER_PEOPLE] * other_people,
        ),
        method=job.method.name,
        adversary=adversary or job.method.ADVERSARY,
        trust=job.method.TRUST,
        num_rows=sum(job.sizes),
        num_clients=job.num_clients,
    )
    text = ""
    if trained is not None and said["epsilon"] is not None:
        runs = 1 + outcome.earlier.get(job.method.name, 0)
        paid = Total(runs, runs * said["epsilon"], runs * job.privacy.delta)
        text = together(trained, paid, other_people=other_people)
    return Evaluation(figures(outcome.state, job.domain, job.config), shown, said, text, outcome)


def together(trained: Total, evaluated: Total, *, other_people: bool) -> str:
    """What all runs that made synthetic rows, and all evaluations, cost one person.

    Other people: whoever was learned from is in no count of the evaluation, which sees the
    synthetic rows alone (post-processing); whoever was held out has no part in the synthetic rows.
    So nobody pays for both (parallel composition), else everybody may.
    """
    one, other = (
        f"{each.epsilon:.4g}" + f" in {each.releases} runs" * (each.releases > 1)
        for each in (trained, evaluated)
    )
    both = trained.epsilon, evaluated.epsilon
    if other_people:
        return (
            f"A person pays epsilon {one} for the synthetic rows or {other} for their evaluation, "
            f"never both: {max(both):.4g} at most. This holds while {OTHER_PEOPLE}."
        )
    return (
        "The same people may be among the rows that were learned from and those held out, so both "
        f"costs add up: epsilon {one} and {other}, {sum(both):.4g} together."
    )
