"""How unlike clients are: numbers by hand, pictures that show what they are given, and the claim's
three statements."""

import numpy as np
import pandas as pd
import pytest

from fedsynth_lib.core.contract import BadInput, stream
from fedsynth_lib.figures.special import squares
from fedsynth_lib.printed.published import load_values
from fedsynth_lib.tables.load import Table
from fedsynth_lib.tables.schema import Column, Schema
from fedsynth_lib.verdicts import claims_skew
from fedsynth_lib.works import declared, load, maddock2024
from fedsynth_lib.works import maddock2024_clients as skew

STUDY = load("maddock2024")


def values_of(kind, **cell):
    """The measurements of a cell."""
    return {row["metric"]: row["value"] for row in STUDY.function(kind)(**cell)}


def given(monkeypatch, table):
    """This table, whatever is asked for."""
    maddock2024._prepared.cache_clear()
    monkeypatch.setattr(declared, "load_table", lambda *_, **__: table)


def test_skew_in_content_is_told_from_skew_in_size():
    codes = np.repeat([[0, 0], [1, 1]], 50, axis=0)
    halves = [np.arange(50), np.arange(50, 100)]
    values = skew.measured(codes, halves, [2, 2], rng=stream(0))
    # each holds one of two values, in every marginal
    assert values["mean_heterogeneity"] == pytest.approx(0.5)
    assert values["by_chance"] < 0.2
    assert [values[f"{which}_client"] for which in ("smallest", "median", "largest")] == [
        50,
        50,
        50,
    ]


def test_without_skew_in_content_all_is_chance():
    codes = stream(1).integers(0, 10, (400, 3))
    parts = [np.arange(5), np.arange(5, 20), np.arange(20, 400)]
    values = skew.measured(codes, parts, [10] * 3, rng=stream(2))
    assert values["mean_heterogeneity"] == pytest.approx(values["by_chance"], abs=0.03)
    assert values["mean_heterogeneity"] > 0.4  # five rows cannot look like the whole
    assert [values[f"{which}_client"] for which in ("smallest", "median", "largest")] == [
        5,
        15,
        380,
    ]


@pytest.fixture
def stripes(monkeypatch):
    """100 rows under the name of adult, half of them `no` and `a`, half `yes` and `b`, and one
    number for each half."""
    columns = [
        Column(name, "categorical", categories=levels)
        for name, levels in (("y", ("0", "1")), ("x", ("a", "b")))
    ]
    schema = Schema((*columns, Column("age", "numeric", low=0, high=85)), target="y")
    frame = pd.DataFrame(
        {c.name: pd.Categorical(np.repeat(list(c.categories), 50), c.categories) for c in columns}
    )
    table = Table("adult", frame.assign(age=np.repeat([0.0, 80.0], 50)), schema, data="own")
    given(monkeypatch, table)
    monkeypatch.setattr(skew, "view_bins", lambda key, work: {"age": 4})
    yield table
    maddock2024._prepared.cache_clear()


def test_a_draw_measures_the_training_rows_of_the_work(stripes):
    """Where the label says it all, clients with 44 of 45 rows of a label are 44/45 - 1/2 apart in
    every marginal."""
    iid = {"dataset": "adult", "partition": "iid", "n_clients": 3}
    (about,) = {
        (row["paper"], row["exhibit"], row["data"])
        for row in STUDY.function("division")(**iid, seed=0, table=stripes.digest)
    }
    assert about == ("maddock2024", "tab5", "own")
    draws = [values_of("division", **iid, seed=seed) for seed in (*range(5), 0)]
    # of 90 rows
    assert [draws[0][f"{of}_client"] for of in ("smallest", "median", "largest")] == [30, 30, 30]
    assert draws[0]["mean_heterogeneity"] < 0.2 and draws[0] == draws[5]
    assert len({draw["mean_heterogeneity"] for draw in draws}) > 1
    skewed = {"dataset": "adult", "partition": "label_skew", "n_clients": 2, "seed": 1}
    apart, alike = (values_of("division", **skewed, beta=beta) for beta in (0.01, 1000.0))
    # no label is without a row anywhere
    assert (apart["smallest_client"], apart["largest_client"]) == (45, 45)
    assert (
        apart["mean_heterogeneity"] == pytest.approx(44 / 45 - 1 / 2)
        and alike["mean_heterogeneity"] < 0.1
    )
    with pytest.raises(
        BadInput, match="adult: the table is not the one that the grid was made for"
    ):
        values_of("division", **iid, seed=0, table="another")


def test_variance_between_clients_worked_out_by_hand():
    owner = np.array([0, 0, 1, 1])
    assert skew.variance_between([1, 1, 5, 5], owner) == pytest.approx(1)
    assert skew.variance_between([1, 5, 1, 5], owner) == pytest.approx(0)
    # 16 / 20 of the sum of squares
    assert skew.variance_between([0, 2, 4, 6], owner) == pytest.approx(4 / 5)
    shuffled = pd.Series([0, 2, 4, 6], index=[9, 8, 7, 6])  # positions count, not labels
    assert skew.variance_between(shuffled, owner) == pytest.approx(4 / 5)


def test_columns_are_measured_alone_and_variance_only_where_it_means_something(table, monkeypatch):
    """By the definitions, of the same division made again: total variation between each client's
    shares and all."""
    given(monkeypatch, table)
    iid = {"dataset": "adult", "partition": "iid", "n_clients": 5}
    rows = STUDY.function("columns")(**iid, table=table.digest)
    train, _ = maddock2024.prepare("adult")
    parts = skew.split_clients(train, "iid", 5, seed=skew.PARTITION_SEED)
    found = {(row["item"], row["metric"]): row["value"] for row in rows}
    smokes = train.frame["smokes"]
    apart = [
        smokes.iloc[part].value_counts(normalize=True) - smokes.value_counts(normalize=True)
        for part in parts
    ]
    assert found["smokes", "mean_heterogeneity"] == pytest.approx(
        np.mean([each.abs().sum() / 2 for each in apart])
    )
    groups = train.frame["age"].groupby(skew.owners(parts))
    between = sum(len(own) * (own.mean() - train.frame["age"].mean()) ** 2 for _, own in groups)
    total = ((train.frame["age"] - train.frame["age"].mean()) ** 2).sum()
    assert found["age", "variance_between"] == pytest.approx(between / total)
    assert found["age", "variance_by_chance"] != found["age", "variance_between"]
    assert ("region", "variance_between") not in found  # of categories in no order
    with pytest.raises(BadInput, match="not the one"):
        STUDY.function("columns")(**iid, table="other")


def test_a_picture_keeps_shares_means_and_the_largest_client_of_each_square(table, monkeypatch):
    """Points in place of UMAP: the first tenth of the rows in one corner of the plane, all others
    in the other."""
    given(monkeypatch, table)
    train, _ = maddock2024.prepare("adult")
    few = len(train) // 10
    points = np.where(np.arange(len(train))[:, None] < few, [0.0, 0.0], [1.0, 2.0])
    monkeypatch.setattr(skew.embedding, "embedded", lambda codes, seed: points)
    parts = [np.arange(few + 1), np.arange(few + 1, len(train))]
    monkeypatch.setattr(skew, "split_clients", lambda *_, **__: parts)
    shown = {"shown": ["age", "smokes"], "n_clients": 2}
    rows = STUDY.function("map")(dataset="adult", **shown, table=table.digest)
    found = {(row["metric"], row["item"]): row["value"] for row in rows}
    last = f"{skew.SQUARES - 1} {skew.SQUARES - 1}"
    assert len(found) == 8 and found["map_share", "0 0"] == few / len(train)
    assert (found["map_client", "0 0"], found["map_client", last]) == (0, 1)
    assert found["map_mean", "0 0 age"] == pytest.approx(train.frame["age"].iloc[:few].mean())
    assert found["map_mean", f"{last} smokes"] == pytest.approx(
        train.frame["smokes"].iloc[few:].cat.codes.mean()
    )

    drawn = squares(pd.DataFrame(rows))
    assert drawn.index.tolist() == [(0, 0), (skew.SQUARES - 1, skew.SQUARES - 1)]
    assert drawn["map_client"].tolist() == [0, 1]
    assert drawn["map_mean age"].iloc[0] == found["map_mean", "0 0 age"]


def test_a_made_up_table_is_measured_by_the_clients_that_own_its_rows():
    alike, apart = (skew.measure_synthfs(beta, 30, 8) for beta in (5, 1))
    assert apart["mean_heterogeneity"] > apart["by_chance"] > 0 and alike["smallest_client"] == 30
    assert apart["mean_heterogeneity"] > alike["mean_heterogeneity"] and alike["data"] == "none"


def test_owners_invert_a_division():
    parts = [np.array([1, 4]), np.array([0]), np.array([2, 3])]
    assert skew.owners(parts).tolist() == [1, 0, 2, 2, 0]


def test_sample_sizes_of_maddock2024():
    table = skew.sample_sizes(["adult", "census_kdd", "magic", "covertype"])
    stages = table[["all rows", "rows taken", "90 percent of these"]]
    assert stages.loc["adult"].tolist() == [48_842, 48_842, 43_958]
    # three tenths of the rows of both files, of which the registry has one
    assert stages.loc["census_kdd"].tolist() == [299_285, 89_786, 80_807]
    assert stages.loc["magic"].tolist() == [19_020, 19_020, 17_118]
    assert stages.loc["covertype"].tolist() == [581_012, 116_202, 104_582]
    assert table["columns"].tolist()[:3] == [14, 41, 11]
    assert table["classes"].fillna(0).tolist()[:3] == [2, 2, 2]


def rows_of(means: dict, spread: float = 0.0) -> pd.DataFrame:
    """Two draws of each division of each dataset around its mean, as tidy rows, and chance below
    each."""
    rows = []
    for (dataset, partition, detail), mean in means.items():
        for seed, sign in enumerate((-1, 1)):
            place = {"dataset": dataset, "partition": partition, "detail": detail, "seed": seed}
            rows.append({**place, "metric": "mean_heterogeneity", "value": mean + sign * spread})
            rows.append({**place, "metric": "by_chance", "value": 0.2})
    return pd.DataFrame(rows)


def printed_means() -> dict:
    values = load_values("maddock2024", "tab5")
    return dict(
        zip(
            zip(*(values[name] for name in claims_skew.PLACE), strict=True),
            values["mean"],
            strict=True,
        )
    )


def test_the_claim_holds_on_the_printed_values():
    outcome, evidence = claims_skew.judge_partitions(rows_of(printed_means(), spread=0.01))
    assert outcome is True and "2.18 (adult)" in evidence and "1.47 (magic)" in evidence


def test_the_claim_can_fail_in_each_of_its_statements():
    means = printed_means()
    assert claims_skew.judge_partitions(rows_of(means | {("magic", "iid", ""): 0.7}))[
        0
    ] == pytest.approx(1 / 3)
    weak = means | {("adult", "label_skew", "beta=0.8"): 0.6}
    outcome, evidence = claims_skew.judge_partitions(rows_of(weak))
    assert outcome == pytest.approx(2 / 3) and "label skew falls with beta: no" in evidence
    assert claims_skew.judge_partitions(rows_of(means | {("adult", "cluster_skew", ""): 0.4}))[
        0
    ] == pytest.approx(2 / 3)
    assert claims_skew.judge_partitions(rows_of({key: 0.5 for key in means}))[0] is False
    del means["adult", "cluster_skew", ""]
    assert claims_skew.judge_partitions(rows_of(means))[0] is None
