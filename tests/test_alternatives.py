"""Readings of an exhibit: the nearest is marked, a scale shows in the distance and not in the
order."""

import numpy as np
import pandas as pd
import pytest
from kept import committed_rows
from scipy.spatial.distance import cdist

from fedsynth_lib.core.contract import BadInput
from fedsynth_lib.figures.save import save_table
from fedsynth_lib.printed import published
from fedsynth_lib.printed.alternatives import (
    distances_by_scale,
    nearest,
    nothing_held,
    scale_table,
)
from fedsynth_lib.runs.rows import params_text, to_frame
from fedsynth_lib.tables.load import Table
from fedsynth_lib.tables.schema import Column, Schema
from fedsynth_lib.works import martinez2024_scale


@pytest.fixture(scope="module")
def readings():
    """Table 6.1 as printed, ten times as large, and 0.1 above it for log-cluster only."""
    values = published.load_values("martinez2024", "tab6.1")
    keys = values[[*published.KEYS, "paper"]].to_dict("records")

    def rows(change):
        made = zip(keys, values["mean"], strict=True)
        shared = {"seed": 0, "profile": "paper", "data": "real"}
        return to_frame([{**key, **shared, "value": change(mean)} for key, mean in made])

    shifted = rows(lambda mean: mean + 0.1)
    return {
        "exact": rows(lambda mean: mean),
        "tenfold": rows(lambda mean: 10 * mean),
        "shifted": shifted[shifted["metric"] == "log_cluster"],
    }


def test_the_nearest_reading_is_marked_and_order_ignores_scale(readings):
    table = nearest(readings, "martinez2024", ["tab6.1"]).set_index(["metric", "reading"])
    assert (table["cells"] == 57).all() and len(table) == 3 * 2 + 3
    assert table.loc[("pcd", "exact"), ["distance", "order", "nearest"]].tolist() == [0, 1, "yes"]
    printed = published.load_values("martinez2024", "tab6.1").query("metric == 'pcd'")["mean"]
    tenfold = table.loc[("pcd", "tenfold")]
    assert tenfold["distance"] == pytest.approx(9 * printed.mean()) and tenfold[
        "order"
    ] == pytest.approx(1)
    assert tenfold["nearest"] == "" and tenfold["ours"] == pytest.approx(10 * tenfold["printed"])
    assert table.loc[("log_cluster", "shifted"), "distance"] == pytest.approx(0.1)


def test_readings_of_one_percent_of_the_passes_are_held_against_each_other():
    values = published.load_values("martinez2024", "tab6.8").query("epsilon == 0.5")
    told = {"training_rounds": 9, "learning_rate": 0.01}
    shared = {"profile": "paper", "data": "real", "detail": ""}
    shared["params"] = params_text({"changes": told, "epsilon": 0.5})
    lines = values[[*published.KEYS, "paper", "mean"]].to_dict("records")

    def rows(apart):
        made = [{**line, **shared, "value": line.pop("mean") + apart} for line in map(dict, lines)]
        return to_frame([{**line, "seed": seed} for line in made for seed in (7, 8, 9)])

    near = rows(0)
    assert set(published.compare(near, "martinez2024", "tab6.8").query("n > 0")["verdict"]) == {
        published.MATCHED
    }
    table = nearest({"near": near, "far": rows(9)}, "martinez2024", ["tab6.8"], by=["exhibit"])
    found = table.set_index("reading")
    assert found.loc["near", "within"] == found.loc["near", "cells"] == len(lines)
    assert found.loc["far", "within"] == 0


@pytest.mark.filterwarnings("error")
def test_a_reading_with_one_value_everywhere_has_no_order(readings):
    flat = readings["exact"].assign(value=0.5)
    table = nearest({"flat": flat}, "martinez2024", ["tab6.1"])
    assert table["order"].isna().all() and (table["cells"] == 57).all()


def test_lines_are_made_for_each_value_of_by(readings):
    table = nearest(readings, "martinez2024", ["tab6.1"], by=["setting"])
    found = table.groupby("setting")["reading"].apply(list).to_dict()
    assert found == {
        name: ["exact", "tenfold", "shifted"] for name in ("central", "federated", "local")
    }


def test_readings_without_a_cell_of_the_exhibit_are_refused(readings):
    with pytest.raises(BadInput, match=r"no reading has a cell of tab6\.4"):
        nearest(readings, "martinez2024", ["tab6.4"])


def test_a_table_that_no_reading_has_is_saved_without_rows(readings, tmp_path):
    by = ["exhibit", "metric"]
    assert list(nothing_held(by)) == list(nearest(readings, "martinez2024", ["tab6.1"], by=by))
    for none in (
        martinez2024_scale.less_noise("quick", ["cardio"], seed=7),
        martinez2024_scale.by_degree("privacy", ["tab6.7"], "quick", ["cardio"], seed=7),
    ):
        provenance = {"profile": "quick", "data": "real"}
        saved = save_table(none, "none", caption="None", folder=tmp_path, **provenance)
        assert none.empty and len(pd.read_csv(saved.csv)) == 0


@pytest.mark.slow
def test_both_readings_have_the_same_printed_cells_and_differ_where_print_decides():
    found = martinez2024_scale.both_readings("paper", ["bank", "cardio"], seed=7)
    keys = ["exhibit", "method", "setting", "partition", "n_clients", "epsilon", "metric"]
    ours, nearest = (
        found[found["reading"] == reading].set_index(keys)["ours"]
        for reading in (martinez2024_scale.OURS, martinez2024_scale.NEAREST)
    )
    assert ours.index.is_unique and set(ours.index) == set(nearest.index)
    assert set(found["setting"]) == {"central", "federated"}
    assert set(found["exhibit"]) == {
        "tab6.2",
        "tab6.3",
        "tab6.9",
        "tabA.2",
        "tabA.4",
        "tabA.6",
        "tabA.7",
    }
    same = ours.eq(nearest[ours.index]).groupby(["exhibit", "metric"]).all()
    moved = {"pcd": {"tab6.2"}, "pmse": {"tab6.2"}}  # degree 3, which Cardio and FedVAE do not have
    for metric in ("pcd", "pmse"):
        differ = same.xs(metric, level="metric")
        assert set(differ.index[~differ]) == moved[metric]
    assert not same.drop(index=["pcd", "pmse"], level="metric").any()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("grid", "detail", "metric", "exhibit", "printed"),
    [
        ("20_martinez2024_fedbn_variants", "k = 3", "pcd", "tab6.2", "pcd"),
        (
            "22_martinez2024_rescaled",
            "k = 3, the work's scale",
            "hellinger_fd",
            "tab6.2",
            "hellinger",
        ),
        (
            "22_martinez2024_rescaled",
            "k = 3, the work's scale",
            "dcr_share_printed",
            "tabA.2",
            "dcr_share",
        ),
        (
            "25_martinez2024_rescaled",
            "the work's scale",
            "log_cluster_base2",
            "tab6.9",
            "log_cluster",
        ),
    ],
)
def test_the_nearest_reading_is_the_mean_of_the_rows_that_follow_it(
    grid, detail, metric, exhibit, printed
):
    found = martinez2024_scale.both_readings("paper", ["bank"], seed=7)
    own = found[(found["reading"] == "nearest") & (found["exhibit"] == exhibit)]
    place = {"setting": "federated", "partition": "iid", "n_clients": 5, "epsilon": 0.5}
    own = own[(own[[*place]] == pd.Series(place)).all(axis=1) & (own["metric"] == printed)]
    rows = committed_rows("martinez2024", "paper")
    rows = rows[(rows["grid"] == grid) & (rows["dataset"] == "bank") & (rows["metric"] == metric)]
    rows = rows[(rows[[*place]] == pd.Series(place)).all(axis=1) & (rows["detail"] == detail)]
    assert len(rows) == 3 and own["ours"].item() == pytest.approx(rows["value"].mean())


def test_real_rows_are_measured_on_each_scale():
    """As many training as hold-out rows, so that all are drawn: truth by scipy."""
    rng = np.random.default_rng(3)
    schema = Schema(
        (Column("x", "numeric", low=0, high=900), Column("c", "categorical", categories=("a", "b")))
    )
    frames = [
        pd.DataFrame(
            {
                "x": rng.uniform(0, 900, 40),
                "c": pd.Categorical(rng.choice(["a", "b"], 40), ["a", "b"]),
            }
        )
        for _ in range(2)
    ]
    train, holdout = (Table("toy", frame, schema, "own", "") for frame in frames)
    found = distances_by_scale(train, holdout, seed=1, also=["x"])
    codes = [np.column_stack([frame["x"], frame["c"].cat.codes]) for frame in frames]
    z = [(table - codes[0].mean(axis=0)) / codes[0].std(axis=0) for table in codes]
    unit = [(table - codes[0].min(axis=0)) / np.ptp(codes[0], axis=0) for table in codes]
    works = [
        np.column_stack([scaled[:, 0], table[:, 1]])
        for scaled, table in zip(unit, codes, strict=True)
    ]
    # the number, too, is as it is
    as_codes = [table - [codes[0][:, 0].min(), 0] for table in codes]
    read = {"z-scores": z, "[0, 1]": unit, "the work's": works, "the work's, x as codes": as_codes}
    assert list(found) == [*read, "farthest in [0, 1]"]
    for name, (near, far) in read.items():
        assert found[name] == pytest.approx(cdist(far, near).min(axis=1).mean())
    assert found["farthest in [0, 1]"] == pytest.approx(2**0.5)


def test_the_scale_nearest_to_print_is_named_by_ratio():
    measured = {"adult": (0.5, 0.1, 3.0), "cardio": (0.2, 0.4, 2.0)}
    scales = ("z-scores", "[0, 1]", "farthest in [0, 1]")
    lines = [
        (name, *pair)
        for name, values in measured.items()
        for pair in zip(scales, values, strict=True)
    ]
    rows = pd.DataFrame(lines, columns=["dataset", "item", "value"])
    cells = pd.DataFrame(
        [("adult", np.inf, 0.2, 0.7), ("adult", 0.5, 4.0, 5.0), ("cardio", np.inf, np.nan, 1.0)],
        columns=["dataset", "epsilon", "published", "ours"],
    ).assign(metric="dcr_avg_train")
    table = scale_table(rows, cells)
    # twice and half: 0.5 is 2.5 times as large, 0.1 half
    assert table.loc["adult", "nearer"] == "[0, 1]"
    assert table.loc[
        "adult", ["printed, no noise", "printed, largest", "ours, no noise"]
    ].tolist() == [0.2, 4.0, 0.7]
    assert table.index.tolist() == ["adult", "cardio"] and pd.isna(table.loc["cardio", "nearer"])
