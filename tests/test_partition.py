"""Partitions: no row lost or doubled, the stated law of each skew, clear refusals."""

import numpy as np
import pandas as pd
import pytest

from fedsynth_lib.core.contract import BadInput, stream
from fedsynth_lib.tables import embedding, partition
from fedsynth_lib.tables.load import Table
from fedsynth_lib.tables.partition import PARTITIONS, heterogeneity, split_clients
from fedsynth_lib.tables.schema import Column, Schema

REGIONS = ("north", "east", "south", "west", "centre")


@pytest.fixture(autouse=True)
def no_umap(monkeypatch, tmp_path):
    """Seconds saved: tests/test_embedding.py has the real picture."""
    monkeypatch.setenv("FEDSYNTH_HOME", str(tmp_path))
    monkeypatch.setattr(
        embedding,
        "umap_embedding",
        lambda codes, seed: codes[:, [0, -1]] @ [[1.0, seed], [9.0, 0.0]],
    )


@pytest.fixture(scope="module")
def table() -> Table:
    rng, num_rows = stream(0), 4_000
    age = rng.integers(18, 90, num_rows)
    frame = pd.DataFrame(
        {
            "age": age,
            "gain": np.where(rng.random(num_rows) < 0.9, 0.0, rng.uniform(1, 1e4, num_rows)),
            "region": pd.Categorical(
                rng.choice(REGIONS, num_rows, p=[0.4, 0.3, 0.15, 0.1, 0.05]), categories=REGIONS
            ),
            "rich": pd.Categorical(
                np.where(rng.random(num_rows) * 120 < age, "no", "yes"), categories=["no", "yes"]
            ),
        }
    )
    columns = (
        Column("age", "numeric", low=18, high=90, integer=True),
        Column("gain", "numeric", low=0, high=1e4),
        Column("region", "categorical", categories=REGIONS),
        Column("rich", "categorical", categories=("no", "yes")),
    )
    return Table("people", frame, Schema(columns, target="rich"), "own")


CASES = [
    ("iid", {}),
    ("quantity_skew", {}),
    ("label_skew", {}),
    ("label_skew", {"balanced": True, "min_per_class": 3}),
    ("by_column", {"column": "region"}),
    ("by_cluster", {}),
    ("cluster_skew", {}),
    ("by_strata", {"column": "age"}),
    (
        "by_strata",
        {
            "column": "gain",
            "edges": [1.0],
            "proportions": [[1, 0], [0.5, 0.5], [0.9, 0.1], [0.2, 0.8]],
        },
    ),
]


@pytest.mark.parametrize(("name", "options"), CASES)
def test_no_row_is_lost_or_doubled_and_no_client_is_empty(table, name, options):
    parts = split_clients(table, name, 4, seed=1, **options)
    assert {case for case, _ in CASES} == set(PARTITIONS)
    assert len(parts) == 4 and min(map(len, parts)) > 0
    assert np.sort(np.concatenate(parts)).tolist() == list(range(4_000))
    assert all((np.diff(part) > 0).all() for part in parts)


@pytest.mark.parametrize(("name", "options"), CASES)
def test_one_client_gets_everything(table, name, options):
    if "proportions" in options:
        options = {**options, "proportions": [[0.3, 0.7]]}
    (part,) = split_clients(table, name, 1, seed=1, **options)
    assert part.tolist() == list(range(4_000))


@pytest.mark.parametrize(("name", "options"), CASES)
def test_the_seed_decides(table, name, options):
    def owners(seed):
        parts = split_clients(table, name, 4, seed=seed, **options)
        return np.concatenate([np.full(len(p), i) for i, p in enumerate(parts)])[
            np.argsort(np.concatenate(parts))
        ]

    assert (owners(5) == owners(5)).all()
    chance = name in ("iid", "quantity_skew", "label_skew") or "proportions" in options
    assert (owners(5) != owners(6)).any() or not chance


def test_iid_parts_are_equal_and_uniform():
    assert sorted(len(part) for part in partition.iid(11, 3, rng=stream(0))) == [3, 4, 4]
    rng = stream(1)
    # how often two rows share a client; expected 3 / 11 off the diagonal
    together = np.zeros((12, 12))
    for _ in range(2_000):
        for part in partition.iid(12, 3, rng=rng):
            together[np.ix_(part, part)] += 1 / 2_000
    assert np.abs(together[~np.eye(12, dtype=bool)] - 3 / 11).max() < 0.05


@pytest.mark.slow
def test_quantity_skew_has_the_dirichlets_moments_and_random_rows():
    rng, alpha, clients = stream(2), 2.0, 4
    labels = np.arange(10_000) % 2
    shares, balance = [], []
    for _ in range(1_500):
        parts = partition.quantity_skew(10_000, clients, rng=rng, alpha=alpha, min_rows=0)
        shares.append([len(part) / 10_000 for part in parts])
        balance += [labels[part].mean() for part in parts if len(part) > 1_000]
    shares = np.array(shares)
    # of Dirichlet(alpha, ..., alpha)
    variance = (1 / clients) * (1 - 1 / clients) / (clients * alpha + 1)
    assert np.allclose(shares.mean(axis=0), 1 / clients, atol=0.015)
    assert np.allclose(shares.var(axis=0), variance, rtol=0.1)
    assert abs(np.mean(balance) - 0.5) < 0.002 and np.std(balance) < 0.5 / np.sqrt(1_000)


@pytest.mark.slow
def test_label_skew_draws_shares_per_class_independently():
    rng, labels = stream(3), np.repeat(["a", "b"], [6_000, 2_000])
    shares = []
    for _ in range(1_500):
        parts = partition.label_skew(labels, 3, rng=rng, alpha=1.0, min_rows=0)
        held = np.array([[(part < 6_000).sum(), (part >= 6_000).sum()] for part in parts])
        assert held.sum(axis=0).tolist() == [6_000, 2_000]
        shares.append(held / [6_000, 2_000])
    shares = np.array(shares)  # (draws, clients, classes)
    assert np.allclose(shares.var(axis=0), (1 / 3) * (2 / 3) / 4, rtol=0.12)
    assert abs(np.corrcoef(shares[:, 0, 0], shares[:, 0, 1])[0, 1]) < 0.08


def test_small_alpha_is_skewed_and_large_alpha_is_even(table):
    labels = table.frame["rich"]
    spread = {}
    for alpha in (0.05, 0.5, 1e4):
        parts = partition.label_skew(labels, 4, rng=stream(4), alpha=alpha, min_rows=1)
        spread[alpha] = heterogeneity(table.frame[["rich"]], parts)
    assert spread[0.05] > spread[0.5] > spread[1e4] and spread[1e4] < 0.03


def test_minimum_sizes_hold_and_single_class_clients_do_occur(table):
    labels, single = table.frame["rich"], 0
    for seed in range(60):
        parts = partition.label_skew(labels, 5, rng=stream(seed), alpha=0.1, min_rows=200)
        assert min(map(len, parts)) >= 200
        single += sum(labels.iloc[part].nunique() == 1 for part in parts)
        assert min(map(len, partition.quantity_skew(4_000, 5, rng=stream(seed)))) >= 200
    assert single > 0


@pytest.mark.parametrize("alpha", [0.01, 0.99])
def test_min_per_class_leaves_no_client_without_a_class(table, alpha):
    labels = table.frame["region"]
    parts = partition.label_skew(
        labels, 20, rng=stream(0), alpha=alpha, min_rows=0, min_per_class=2
    )
    assert min(labels.iloc[part].value_counts().min() for part in parts) >= 2


def test_balanced_label_skew_gives_full_clients_nothing_more():
    labels = np.repeat([0, 1, 2], [3_000, 2_000, 1_000])

    def broken_rule(balanced):
        broken = 0
        for seed in range(40):
            parts = partition.label_skew(
                labels, 5, rng=stream(seed), min_rows=20, balanced=balanced
            )
            held = np.array([np.bincount(labels[part], minlength=3) for part in parts])
            broken += ((held.cumsum(axis=1)[:, :-1] >= 6_000 / 5) & (held[:, 1:] > 0)).sum()
        return broken

    assert broken_rule(True) == 0 and broken_rule(False) > 0


@pytest.mark.filterwarnings("error")  # shares of 0 / 0 would only warn
def test_tiny_alpha_still_deals_every_row():
    # shares underflow to 1, 0, 0: what is left for a class may be nothing but zeros
    labels = np.arange(3_000) % 3
    for seed in range(10):
        parts = partition.label_skew(
            labels, 3, rng=stream(seed), alpha=1e-4, min_rows=0, balanced=True
        )
        assert sum(map(len, parts)) == 3_000
        parts = partition.label_skew(labels, 2, rng=stream(seed), alpha=1e-4, min_rows=0)
        assert sorted(map(len, parts)) == [1_000, 2_000]


def test_by_column_with_a_client_per_category_keeps_declared_order(table):
    parts = split_clients(table, "by_column", 5, seed=0, column="region")
    assert [table.frame["region"].iloc[part].unique().tolist() for part in parts] == [
        [region] for region in REGIONS
    ]


def test_by_column_equals_a_slow_greedy_loop():
    rng = stream(11)
    values = rng.choice(30, size=5_000, p=rng.dirichlet(np.ones(30)))
    loads = [0] * 6
    for size in sorted(pd.Series(values).value_counts(), reverse=True):
        loads[loads.index(min(loads))] += size
    parts = partition.by_column(values, 6, rng=rng)
    assert [len(part) for part in parts] == loads
    # whole categories
    assert sum(len(np.unique(values[part])) for part in parts) == len(np.unique(values))


def test_by_column_breaks_ties_at_random():
    first = {
        tuple(partition.by_column(np.repeat(range(6), 10), 2, rng=stream(seed))[0])
        for seed in range(20)
    }
    assert len(first) > 5


def test_by_strata_gives_exact_sizes_and_mixes(table):
    mix, sizes = [[0.5, 0.5], [0.1, 0.9], [0.9, 0.1]], [100, 300, 1_000]  # apellaniz2025, state A
    parts = split_clients(table, "by_strata", 3, seed=0, column="age", proportions=mix, sizes=sizes)
    median = table.frame["age"].median()
    below = [int((table.frame["age"].iloc[part] < median).sum()) for part in parts]
    assert [len(part) for part in parts] == sizes and below == [50, 30, 900]
    assert len(np.unique(np.concatenate(parts))) == 1_400  # disjoint; the rest is left over


def test_by_strata_without_sizes_deals_every_row_in_the_given_mix():
    # equal strata and equal column sums: mixes are exact
    mix = [[0.5, 0.5], [0.1, 0.9], [0.9, 0.1]]
    parts = partition.by_strata(np.arange(3_000), 3, rng=stream(0), proportions=mix)
    assert [((part < 1_500).sum(), (part >= 1_500).sum()) for part in parts] == [
        (500, 500),
        (100, 900),
        (900, 100),
    ]


def test_by_strata_default_is_one_quantile_range_each():
    parts = partition.by_strata(np.arange(99, -1, -1), 4, rng=stream(0))
    assert [part.tolist() for part in parts] == [
        list(range(100 - 25 * i - 25, 100 - 25 * i)) for i in range(4)
    ]


def test_a_value_on_an_edge_belongs_to_the_upper_stratum():
    parts = partition.by_strata(np.array([1, 2, 2, 3]), 2, rng=stream(0), edges=[2])
    assert [part.tolist() for part in parts] == [[0], [1, 2, 3]]


def test_by_strata_of_the_target_is_the_skew_of_leitner2023(table):
    mix = [[1, 0], [0, 1], [0, 1]]
    first, second, third = split_clients(
        table, "by_strata", 3, seed=0, column="rich", proportions=mix
    )
    rich = (table.frame["rich"] == "yes").to_numpy()
    assert first.tolist() == np.flatnonzero(~rich).tolist()
    assert abs(len(second) - len(third)) <= 1 and rich[second].all() and rich[third].all()


def test_heterogeneity_equals_a_slow_count(table):
    frame = table.frame[["region", "rich"]]
    parts = split_clients(table, "label_skew", 4, seed=3)
    expected = []
    for name in frame:
        pooled = frame[name].value_counts(normalize=True)
        for part in parts:
            own = frame[name].iloc[part].value_counts(normalize=True)
            expected.append(
                sum(abs(own.get(value, 0) - pooled[value]) for value in pooled.index) / 2
            )
    assert heterogeneity(frame, parts) == pytest.approx(np.mean(expected))


def test_heterogeneity_worked_out_by_hand():
    frame = pd.DataFrame({"x": [0.0] * 18 + [7.0, 9.0]})
    zero, rest = np.arange(18), np.arange(18, 20)
    # The deciles are 0 (and 0.7 between 0 and 7): cells "at 0" and "above". TV 0.1 and 0.9.
    assert heterogeneity(frame, [zero, rest]) == pytest.approx(0.5)
    assert heterogeneity(frame, [np.arange(0, 20, 2), np.arange(1, 20, 2)]) == pytest.approx(
        0, abs=1e-12
    )
    # every decile is 9: cells "below" and "at 9"
    mostly_high = pd.DataFrame({"x": [9.0] * 38 + [7.0, 0.0]})
    assert heterogeneity(mostly_high, [np.arange(38), np.arange(38, 40)]) == pytest.approx(0.5)
    categories = pd.DataFrame({"c": list("aabbbbbb")})
    assert heterogeneity(categories, [np.arange(2), np.arange(2, 8)]) == pytest.approx(
        (0.75 + 0.25) / 2
    )


def test_each_skew_is_more_heterogeneous_than_iid(table):
    floor = heterogeneity(table.frame, split_clients(table, "iid", 4, seed=0))
    for name, options in CASES[2:]:
        assert (
            heterogeneity(table.frame, split_clients(table, name, 4, seed=0, **options)) > 2 * floor
        )


@pytest.mark.parametrize(
    ("name", "clients", "options", "words"),
    [
        ("random", 3, {}, "'random'.*iid, quantity_skew"),
        ("iid", 3, {"alpha": 1}, "'alpha'.*none"),
        ("label_skew", 3, {"beta": 1}, "'beta'.*alpha, min_rows"),
        ("iid", 4_001, {}, "people.*4000 rows.*4001"),
        ("iid", 0, {}, "num_clients is 0"),
        ("quantity_skew", 21, {}, "200.*min_rows"),
        ("quantity_skew", 19, {}, "none of 5000 draws.*min_rows"),
        ("label_skew", 3, {"alpha": 0}, "alpha is 0"),
        ("label_skew", 10, {"min_per_class": 400}, "min_per_class"),
        ("cluster_skew", 3, {"alpha": 1}, "'alpha'.*none"),
        ("by_column", 3, {}, "people.*by_column.*column="),
        ("by_column", 3, {"column": "regoin"}, "'regoin'.*'region'"),
        ("by_column", 6, {"column": "region"}, "'region'.*5 categories.*fewer clients"),
        ("by_strata", 3, {"column": "gain"}, "'gain'.*stratum 1.*edges"),
        (
            "by_strata",
            2,
            {"column": "age", "proportions": [[0.5, 0.4], [0.5, 0.5]]},
            "proportions.*sum to 1",
        ),
        (
            "by_strata",
            2,
            {"column": "age", "proportions": [[1, 0], [1, 0]]},
            "stratum goes to no client",
        ),
        ("by_strata", 2, {"column": "rich", "proportions": [[1], [1]]}, "'rich'.*2 strata"),
        (
            "by_strata",
            2,
            {"column": "age", "sizes": [3_000, 10]},
            "'age'.*stratum 1.*smaller sizes",
        ),
        ("by_strata", 2, {"column": "age", "sizes": [3]}, "sizes must be 2"),
    ],
)
def test_what_cannot_work_is_refused_in_one_sentence(table, name, clients, options, words):
    with pytest.raises(BadInput, match=words) as refusal:
        split_clients(table, name, clients, seed=0, **options)
    assert "\n" not in str(refusal.value)


def test_missing_values_and_too_few_distinct_points_are_refused(table):
    with pytest.raises(BadInput, match=r"column 'x'.*missing"):
        partition.by_column(pd.Series(["a", None, "b"], name="x"), 2, rng=stream(0))
    with pytest.raises(BadInput, match="missing"):
        partition.by_strata(np.array([1.0, np.nan, 2.0]), 2, rng=stream(0))
    with pytest.raises(BadInput, match="only 2 of 3 clients"):
        partition.by_cluster(np.repeat([[0.0, 0.0], [1.0, 1.0]], 10, axis=0), 3, rng=stream(0))
    with pytest.raises(BadInput, match="needs a column"):
        targetless = Table("people", table.frame, Schema(table.schema.columns), "own")
        split_clients(targetless, "label_skew", 3, seed=0)
