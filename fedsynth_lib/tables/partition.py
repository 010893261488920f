"""Dividing a table among clients: even, or skewed the way the five works skew it.

Every function returns one ascending, non-empty array of row positions per client. No row is lost
or doubled, but that `by_strata` with given sizes leaves over what nobody asked for. The split is
part of an experiment's set-up, not of a method: it looks at rows freely and claims no privacy.
`by_hash` is for releases: with a secret key, one row less moves that row and no other.
"""

import hashlib
import inspect
from collections.abc import Callable, Sequence

import numpy as np
import pandas as pd

from fedsynth_lib.core.contract import BadInput, stream
from fedsynth_lib.core.errors import checked_seed
from fedsynth_lib.tables import embedding
from fedsynth_lib.tables.encode import standardised
from fedsynth_lib.tables.load import Table
from fedsynth_lib.tables.schema import check_clients

Parts = list[np.ndarray]
Rng = np.random.Generator
Values = np.ndarray | pd.Series  # of one column
MAX_DRAWS = 5_000  # redraws of Dirichlet shares; a draw that succeeds once in 500 is still found


def split_clients(table: Table, partition: str, num_clients: int, *, seed: int, **options) -> Parts:
    """Divide the rows of `table` among `num_clients` by the partition of that name.

    options: those of the partition's function below, and `column` for label_skew (default: the
        target), by_column and by_strata. `min_rows` (200 as in martinez2024) is never lowered
        silently: say so yourself for a small table.
    Raises BadInput for an unknown name, option or column, and where the split cannot be made.
    """
    if partition not in PARTITIONS:
        raise BadInput(
            f"partition {partition!r} is unknown; choose one of {', '.join(PARTITIONS)}."
        )
    check_clients(len(table.frame), num_clients, table.key)
    checked_seed(seed)
    divide = PARTITIONS[partition]
    every = inspect.signature(divide).parameters.values()
    allowed = [p.name for p in every if p.kind == p.KEYWORD_ONLY and p.name not in ("rng", "seed")]
    allowed += ["column"] * (divide in (label_skew, by_column, by_strata))
    for name in options:
        if name not in allowed:
            raise BadInput(
                f"partition {partition} has no option {name!r}; it takes "
                f"{', '.join(allowed) or 'none'}."
            )
    subject = _subject(table, divide, options.pop("column", None))
    chance = {"seed": seed}
    if divide is not cluster_skew:
        chance = {"rng": stream(seed, "partition", partition, num_clients)}
    return divide(subject, num_clients, **chance, **options)


def iid(num_rows: int, num_clients: int, *, rng: Rng) -> Parts:
    """Equal sizes (they differ by one at most), uniform random assignment."""
    check_clients(num_rows, num_clients, "iid")
    sizes = np.diff(np.arange(num_clients + 1) * num_rows // num_clients)
    return _deal(np.zeros(num_rows, dtype=int), sizes[None], rng)


def quantity_skew(
    num_rows: int, num_clients: int, *, rng: Rng, alpha: float = 0.5, min_rows: int = 200
) -> Parts:
    """Assign rows at random, with client sizes from Dirichlet(alpha).

    Sizes are redrawn until each client has `min_rows`. martinez2024 states no minimum for this
    skew; the one of its label skew is used (gap 26).
    """
    return label_skew(np.zeros(num_rows), num_clients, rng=rng, alpha=alpha, min_rows=min_rows)


def label_skew(
    labels: Values,
    num_clients: int,
    *,
    rng: Rng,
    alpha: float = 0.5,
    min_rows: int = 200,
    min_per_class: int = 0,
    balanced: bool = False,
) -> Parts:
    """Divide each class of `labels` by its own Dirichlet(alpha) shares.

    Shares are redrawn until each client has `min_rows`.

    A client may hold a single class, unless `min_per_class` rows of each class are dealt to it
    beforehand (maddock2024: 1). balanced: a client that has reached the average size gets
    nothing of the classes that follow (Yurochkin et al. 2019; FedLab, which martinez2024 used).
    """
    classes = _levels(labels)
    check_clients(len(classes), num_clients, "label_skew")
    class_sizes = np.bincount(classes)
    if not alpha > 0:
        raise BadInput(f"alpha is {alpha}; give a number above 0 (small is skewed, large is even).")
    if len(classes) < num_clients * min_rows or class_sizes.min() < num_clients * min_per_class:
        raise BadInput(
            f"{len(classes)} rows (smallest class: {class_sizes.min()}) cannot give {num_clients} "
            f"clients {min_rows} each and {min_per_class} of each class; lower min_rows or "
            "min_per_class, or take fewer clients."
        )
    for _ in range(MAX_DRAWS):
        sizes = _dirichlet_sizes(class_sizes, num_clients, alpha, min_per_class, balanced, rng)
        if sizes.sum(axis=0).min() >= max(min_rows, 1):
            return _deal(classes, sizes, rng)
    raise BadInput(
        f"none of {MAX_DRAWS} draws with alpha {alpha} gave each of {num_clients} clients "
        f"{max(min_rows, 1)} rows; lower min_rows, raise alpha, or take fewer clients."
    )


def by_column(values: Values, num_clients: int, *, rng: Rng) -> Parts:
    """Whole categories go to clients (sattarov2024's non-IID split, whose column is unnamed).

    Rule: with as many categories as clients, client i holds the i-th category that occurs, in
    declared order. With more, each category in turn, largest first, goes to the client
    that has the fewest rows so far; ties between equal categories are broken at random.
    """
    levels = _levels(values)
    check_clients(len(levels), num_clients, "by_column")
    sizes = np.bincount(levels)
    if len(sizes) < num_clients:
        raise BadInput(
            f"{_name(values)} has only {len(sizes)} categories; take another column or "
            "fewer clients."
        )
    if len(sizes) == num_clients:
        return _parts(levels, num_clients)
    owner_of, load = np.empty(len(sizes), dtype=int), np.zeros(num_clients, dtype=int)
    for level in np.lexsort((rng.random(len(sizes)), -sizes)):
        owner_of[level] = np.argmin(load)
        load[owner_of[level]] += sizes[level]
    return _parts(owner_of[levels], num_clients)


def by_cluster(features: np.ndarray, num_clients: int, *, rng: Rng) -> Parts:
    """Take clusters as clients: k-means on the first two principal components.

    features: (rows, features). It takes seconds.
    """
    check_clients(len(features), num_clients, "by_cluster")
    points = embedding.principal_components(features)
    return _parts(
        embedding.k_means(points, num_clients, state=int(rng.integers(2**31))), num_clients
    )


def cluster_skew(codes: np.ndarray, num_clients: int, *, seed: int) -> Parts:
    """Take clusters as clients, as in maddock2024: k-means on a UMAP picture.

    codes: (rows, columns); see `tables/embedding.py`.
    """
    check_clients(len(codes), num_clients, "cluster_skew")
    return _parts(embedding.clusters(codes, num_clients, seed=seed), num_clients)


def by_strata(
    values: Values,
    num_clients: int,
    *,
    rng: Rng,
    proportions: Sequence[Sequence[float]] | None = None,
    edges: Sequence[float] | None = None,
    sizes: Sequence[int] | None = None,
) -> Parts:
    """Clients that mix the strata of one column in given proportions.

    Strata of a numeric column lie between `edges`, a value on an edge belonging to the upper
    one; default: quantiles that make them equally large (two strata: below, and at or above the
    median). Strata of a categorical column are its categories.
    proportions: (clients, strata), each row sums to 1. Default: client i holds stratum i.
    sizes: rows per client. Client i gets exactly its size in exactly its mix, drawn without
        replacement, and the REST IS LEFT OVER. Without sizes every row is dealt: each stratum is
        divided in proportion to its column of `proportions`, so mixes and sizes follow from
        those, and mixes are exact where strata are equally large and columns have equal sums.
    apellaniz2025: BMI, proportions [[.5, .5], [.1, .9], [.9, .1]], sizes [100, 1000, 10000].
    leitner2023, label skew: the target, proportions [[1, 0], [0, 1], [0, 1]].
    """
    check_clients(len(values), num_clients, "by_strata")
    values = pd.Series(values)
    mix = np.eye(num_clients) if proportions is None else np.asarray(proportions, dtype=float)
    if (
        mix.ndim != 2
        or len(mix) != num_clients
        or (mix < 0).any()
        or not np.allclose(mix.sum(axis=1), 1)
    ):
        raise BadInput(
            f"proportions must be {num_clients} rows of shares that sum to 1, one row per client."
        )
    strata, held = _strata(values, mix.shape[1], edges)
    if len(held) != mix.shape[1]:
        raise BadInput(
            f"{_name(values)} has {len(held)} strata but each row of proportions "
            f"{mix.shape[1]} shares."
        )
    if sizes is None:
        if not mix.any(axis=0).all():
            raise BadInput(
                "a stratum goes to no client; give each a share in proportions, or give sizes."
            )
        return _deal(strata, _cut(mix.T, held), rng)
    if len(sizes) != num_clients or min(sizes) < 1:
        raise BadInput(f"sizes must be {num_clients} positive numbers, one per client.")
    taken = _cut(mix, np.asarray(sizes)).T  # (strata, clients)
    left = held - taken.sum(axis=1)
    if (left < 0).any():
        short = int(np.argmin(left))
        raise BadInput(
            f"{_name(values)} lacks {-left[short]} rows in stratum {short + 1}; give smaller sizes."
        )
    return _deal(strata, np.column_stack([taken, left]), rng, leave_over=True)


def by_hash(
    frame: pd.DataFrame,
    shares: Sequence[float],
    *,
    key: bytes,
    purpose: str,
    persons: np.ndarray | None = None,
) -> Parts:
    """Divide rows into piles of about these shares, each row independently of all others.

    Every row goes where `row_draws` sends it.

    A pile is in the order of its draws, so the order of the file has no part in it. With one row
    less the pile that held it is the same without it, and all others are the same: this is what a
    method's sensitivity is argued for. A deal by a permutation has no such property: one row less
    is another permutation, and rows move by the dozen.

    persons: whose each row is, as text: a person's rows go to one pile, and it is one person less
        that moves nobody else's rows.
    """
    draws = row_draws(frame, key=key, purpose=purpose, persons=persons)
    sent = draws
    if persons is not None:
        own, places = np.unique(_words(persons, key), return_inverse=True)
        sent = row_draws(pd.DataFrame({"person": own}), key=key, purpose=purpose)[places]
    ends = np.cumsum(shares)
    pile = np.searchsorted(ends[:-1] / ends[-1], sent, side="right")
    order = np.argsort(draws, kind="stable")
    return [order[pile[order] == number] for number in range(len(shares))]


def row_draws(
    frame: pd.DataFrame, *, key: bytes, purpose: str, persons: np.ndarray | None = None
) -> np.ndarray:
    """Return a number from 0 up to 1 for each row.

    It is a keyed hash (BLAKE2b) of the row's content and of the number of its equals so far.

    Equal rows are numbered in the order in which they stand, so they draw apart; which of them is
    removed makes no difference. With `persons` (as in `by_hash`) it is a row's among the equal ones
    of its person, so that no draw hangs on another person's rows.

    key: 64 bytes at most. purpose: a word of up to 16 letters; draws for different purposes are
        independent.
    """
    if persons is not None:
        whose = pd.Series(_words(persons, key), frame.index, name=0)  # names of columns are texts
        frame = pd.concat([frame, whose], axis=1)
    words = np.empty((len(frame), frame.shape[1]), dtype=np.int64)
    for j, name in enumerate(frame):
        column = frame[name]
        if isinstance(column.dtype, pd.CategoricalDtype):
            words[:, j] = column.cat.codes
        elif column.dtype.kind == "f":
            # so that -0 is 0
            words[:, j] = (column.to_numpy(dtype=np.float64) + 0.0).view(np.int64)
        elif column.dtype.kind not in "biu":  # texts of an open column
            words[:, j] = _words(column.to_numpy(object), key)
        else:
            words[:, j] = column
    content = [row.tobytes() for row in words]
    equals = pd.Series(content, dtype=object).groupby(content, sort=False).cumcount()
    keyed = hashlib.blake2b(key=key, person=purpose.encode(), digest_size=8)

    def draw(row: bytes, number: int) -> int:
        each = keyed.copy()
        each.update(row + number.to_bytes(8, "little"))
        return int.from_bytes(each.digest(), "little") >> 11

    return (
        np.array([draw(row, number) for row, number in zip(content, equals, strict=True)])
        * 2.0**-53
    )


def _words(persons: np.ndarray, key: bytes) -> np.ndarray:
    """Return a number for each row that is its person's, and another one's by a chance of 2^-64."""

    def word(text: str) -> int:
        content = text.encode("utf-8", "surrogatepass")
        found = hashlib.blake2b(content, key=key, person=b"person", digest_size=8)
        return int.from_bytes(found.digest(), "little", signed=True)

    codes, texts = pd.factorize(persons)
    return np.array([word(text) for text in texts], dtype=np.int64)[codes]


PARTITIONS: dict[str, Callable[..., Parts]] = {
    "iid": iid,
    "quantity_skew": quantity_skew,
    "label_skew": label_skew,
    "by_column": by_column,
    "by_cluster": by_cluster,
    "cluster_skew": cluster_skew,
    "by_strata": by_strata,
}


def heterogeneity(frame: pd.DataFrame, parts: Parts) -> float:
    """Return how far clients differ from the pooled rows, 0 (alike) to 1.

    A plain mean over clients and columns.

    Per column: the total-variation distance between a client's distribution and that of all parts
    together, over categories, or over the deciles of the pooled rows with a cell of its own for
    each decile value (a column which is mostly 0 is then compared at 0, too). Small clients differ
    by chance alone: compare with the figure of an iid split, not with 0.
    """
    rows, num_clients = np.concatenate(parts), len(parts)
    owner = np.repeat(np.arange(num_clients), [len(part) for part in parts])

    def distances(column: pd.Series) -> np.ndarray:
        cells = _cells(column.iloc[rows])
        width = cells.max() + 1
        counts = np.bincount(owner * width + cells, minlength=num_clients * width).reshape(
            num_clients, width
        )
        shares = counts / counts.sum(axis=1, keepdims=True)
        return np.abs(shares - counts.sum(axis=0) / len(rows)).sum(axis=1) / 2

    return float(np.mean([distances(frame[name]) for name in frame.columns]))


def _subject(table: Table, divide: Callable[..., Parts], column: str | None):
    """Return what the partition looks at: the number of rows, the features, or one column."""
    if divide in (iid, quantity_skew):
        return len(table.frame)
    if divide in (by_cluster, cluster_skew):  # the target included
        return (
            standardised(table.frame, table.schema)
            if divide is by_cluster
            else embedding.coded(table)
        )
    if column is None and divide is label_skew:
        column = table.schema.target
    if column is None:
        raise BadInput(
            f"{table.key}: {divide.__name__} needs a column to split by; give column=<name>."
        )
    return table.frame[table.schema[column].name]  # an unknown name is an error


def _name(values) -> str:
    return (
        f"column {values.name!r}"
        if getattr(values, "name", None) is not None
        else "the column to split by"
    )


def _levels(values) -> np.ndarray:
    """Codes 0, 1, ... of the values that occur, in declared order where there is one."""
    codes = pd.Categorical(values).remove_unused_categories().codes
    if (codes < 0).any():
        raise BadInput(f"{_name(values)} has a missing value; fill it in or drop the row.")
    return codes.astype(int)


def _strata(
    values, num_strata: int, edges: Sequence[float] | None
) -> tuple[np.ndarray, np.ndarray]:
    """Return the stratum of each row, and the rows that each stratum holds."""
    levels = _levels(values)
    if not pd.api.types.is_numeric_dtype(values):
        return levels, np.bincount(levels)
    if edges is None:
        edges = np.quantile(values, np.arange(1, num_strata) / num_strata)
    strata = np.searchsorted(np.sort(edges), values, side="right")
    held = np.bincount(strata, minlength=len(edges) + 1)
    if (held == 0).any():
        raise BadInput(
            f"{_name(values)} has no row in stratum {int(np.argmin(held)) + 1}; give other edges."
        )
    return strata, held


def _cells(column: pd.Series) -> np.ndarray:
    if not pd.api.types.is_numeric_dtype(column) or pd.api.types.is_bool_dtype(column):
        return _levels(column)
    values = column.to_numpy(dtype=float)
    deciles = np.unique(np.quantile(values, np.arange(1, 10) / 10))
    # Odd: exactly on a decile; even: strictly between two.
    return np.searchsorted(deciles, values, side="left") + np.searchsorted(
        deciles, values, side="right"
    )


def _dirichlet_sizes(class_sizes, num_clients, alpha, min_per_class, balanced, rng) -> np.ndarray:
    """One draw of (classes, clients) sizes."""
    shares = rng.dirichlet(np.full(num_clients, alpha), size=len(class_sizes))
    free = class_sizes - num_clients * min_per_class
    if not balanced:
        return min_per_class + _cut(shares, free)
    sizes = np.zeros_like(shares, dtype=int)
    for k in range(len(class_sizes)):
        has_room = sizes.sum(axis=0) < class_sizes.sum() / num_clients
        # + for shares that underflow
        sizes[k] = min_per_class + _cut((shares[k] + 1e-12) * has_room, free[k])
    return sizes


def _cut(shares: np.ndarray, totals: np.ndarray) -> np.ndarray:
    """Return whole numbers in the ratio of `shares` that add up to `totals` exactly.

    Along the last axis.
    """
    ends = np.cumsum(shares, axis=-1)
    cuts = np.rint(ends / ends[..., -1:] * np.asarray(totals)[..., None]).astype(int)
    return np.diff(cuts, axis=-1, prepend=0)


def _deal(groups: np.ndarray, sizes: np.ndarray, rng: Rng, leave_over: bool = False) -> Parts:
    """Deal random rows: sizes[g, i] of group g to client i.

    The last column goes to nobody if `leave_over`.
    """
    shuffled = rng.permutation(len(groups))
    by_group = shuffled[np.argsort(groups[shuffled], kind="stable")]
    num_groups, num_piles = sizes.shape
    owner = np.empty(len(groups), dtype=int)
    owner[by_group] = np.repeat(np.tile(np.arange(num_piles), num_groups), sizes.ravel())
    return _parts(owner, num_piles - leave_over)


def _parts(owner: np.ndarray, num_clients: int) -> Parts:
    """Return ascending row positions of each client.

    Every row has one owner, so none is lost or doubled.
    """
    held = np.bincount(owner, minlength=num_clients)[:num_clients]
    if (held == 0).any():
        raise BadInput(
            f"only {(held > 0).sum()} of {num_clients} clients would hold rows; take fewer clients."
        )
    order = np.argsort(owner, kind="stable")
    return np.split(order, np.cumsum(held))[:num_clients]
