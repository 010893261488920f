"""Comparisons in the layout of printed tables: marks, spreads, dashes; ours alone where nothing is
printed."""

import numpy as np
import pandas as pd
import pytest

from fedsynth_lib.core.contract import BadInput
from fedsynth_lib.core.store import project_root
from fedsynth_lib.printed import published, readings
from fedsynth_lib.printed.layouts import (
    ATTACKS,
    MARKS,
    MARKS_EXPLAINED,
    ORDER_EXPLAINED,
    comparison_table,
    entries_explained,
    entries_table,
    own_table,
    unprinted,
)
from fedsynth_lib.runs.names import level_name, partition_name
from fedsynth_lib.runs.rows import to_frame


def compared(exhibit, rise=0.01):
    """An exhibit with every value of ours `rise` above the printed one, in three equal splits."""
    values = published.load_values("martinez2024", exhibit)
    keys = values[[*published.KEYS, "paper"]].to_dict("records")
    rows = [
        {**key, "seed": seed, "profile": "paper", "data": "real", "value": mean + rise}
        for key, mean in zip(keys, values["mean"], strict=True)
        for seed in (0, 1, 2)
    ]
    return published.compare(to_frame(rows), "martinez2024", exhibit), to_frame(rows)


def test_what_is_not_printed_is_tabled_alone():
    _, rows = compared("tab6.6", rise=0.0)
    cells = unprinted(rows)
    assert cells["published"].isna().all() and len(cells) == 108
    table = own_table(cells)
    assert table.columns[:4].tolist() == [
        ("no DP", metric) for metric in ("dcr_min", "dcr_share", "dcr_avg_train", "dcr_avg_holdout")
    ]
    assert table.index[0] == ("i.i.d.", "3") and table.index[-1] == ("label skew", "10")
    printed = published.load_values("martinez2024", "tab6.6")
    assert str(table.loc[("i.i.d.", "3"), ("no DP", "dcr_avg_train")]) == printed["printed"].iloc[2]
    spread = own_table(cells, spread=True).iloc[0, 2]
    assert str(spread) == f"{printed['printed'].iloc[2]} ± 0.000"
    assert spread.numbers == {"ours": float(printed["printed"].iloc[2]), "ours_std": 0.0}
    with pytest.raises(BadInput, match="no federated rows of pcd"):
        unprinted(rows, ["pcd"])


def test_real_rows_are_the_first_line_of_attacks_that_are_not_printed():
    _, rows = compared("tab6.7")
    table = own_table(unprinted(rows[rows["dataset"] == "cardio"], list(ATTACKS)))
    assert table.index.tolist() == [("real rows", ""), ("i.i.d.", "10"), ("label skew", "10")]
    assert str(table.loc[("real rows", ""), ("no DP", "ad_rf")]) == "0.830"
    assert table.loc[("real rows", ""), ("ε = 0.5", "ad_rf")] == ""


def test_comparison_table_has_the_layout_of_print():
    comparison, _ = compared("tab6.1")
    table = comparison_table(comparison)
    assert table.shape == (1 + 9 * 2, 3 * 4)
    assert table.index.names == ["partition", "clients", "setting"]
    assert table.index[0] == ("", "", "central") and table.index[-1] == (
        "label skew",
        "10",
        "local",
    )
    assert table.columns[0] == ("no DP", "hellinger") and table.columns[-1] == (
        "ε = 1.6",
        "log_cluster",
    )
    assert str(table.loc[("", "", "central"), ("no DP", "hellinger")]) == "0.196 (0.186) ↕"
    assert (table != "").all(axis=None)
    wide = comparison_table(comparison.head(12), spread=True)
    assert str(wide.iloc[0, 0]) == "0.196 ± 0.000 (0.186 ± 0.000) ↕"
    numbers = {"ours": 0.196, "ours_std": 0, "published": 0.186, "published_std": 0}
    assert wide.iloc[0, 0].numbers == {**numbers, "verdict": "ordering"}


def test_ours_of_a_table_that_the_work_does_not_have_stand_alone():
    before, rows = compared("tab6.1")
    own = rows.assign(dataset="obesity", value=rows["value"] + 1)
    both = published.compare(pd.concat([rows, own]), "martinez2024", "tab6.1")
    pd.testing.assert_frame_equal(both[both["dataset"] == "adult"], before)
    alone = both[both["dataset"] == "obesity"].reset_index(drop=True)
    assert alone["ours"].tolist() == pytest.approx(before["ours"] + 1)
    assert set(alone["verdict"]) == {published.ALONE} and alone["published"].isna().all()
    assert published.summary(both)[published.VERDICTS].equals(
        published.summary(before)[published.VERDICTS]
    )
    table = comparison_table(alone)
    assert str(table.loc[("", "", "central"), ("no DP", "hellinger")]) == "1.196"
    assert table.shape == comparison_table(before).shape


@pytest.mark.parametrize("datasets", [["adult"], ["adult", "magic"]])
def test_a_table_has_the_rows_that_are_asked_for_also_where_they_do_not_differ(datasets):
    printed = published.load_values("maddock2024", "tab2")
    rows = printed[printed["dataset"].isin(datasets)].assign(
        value=lambda t: t["mean"], seed=0, profile="paper", data="real", params=""
    )
    cells = published.compare(rows, "maddock2024", "tab2")
    cells = cells[cells["dataset"].isin(datasets)]
    table = comparison_table(cells, rows=["dataset", "method"])
    assert table.index.names == ["dataset", "method"] and len(table) == 5 * len(datasets)
    assert str(table.loc[("adult", "AIM"), ("ε = 1", "workload_error")]) == "0.20 (0.2)"
    of_aim = comparison_table(cells[cells["method"] == "AIM"], rows=["dataset"])
    assert str(of_aim.loc["adult", ("ε = 1", "workload_error")]) == "0.20 (0.2)"


def test_a_small_live_run_shows_its_order_and_no_published_value():
    _, rows = compared("tab6.1")
    small = published.compare(rows.assign(profile="quick"), "martinez2024", "tab6.1")
    entry = comparison_table(small).loc[("i.i.d.", "3", "federated"), ("no DP", "hellinger")]
    ours, order = str(entry).split(" (order ")
    place = (small["partition"] == "iid") & (small["n_clients"] == 3)
    line = small[place & (small["setting"] == "federated") & (small["metric"] == "hellinger")]
    assert float(ours) == round(line["ours"].iloc[0], 3) and order == f"{line['order'].iloc[0]})"
    assert entries_explained(small) == f"ours alone; {ORDER_EXPLAINED}"
    assert entries_explained(small.assign(order="")) == "ours alone"
    assert entries_explained(compared("tab6.1")[0]) == MARKS_EXPLAINED


def otherwise(cells):
    numbers = pd.to_numeric(cells["epsilon"])
    return readings.is_judged_otherwise(cells.assign(paper=cells["work"], epsilon=numbers))


def test_marks_of_committed_tables_are_those_of_the_verdict():
    """A table pools the deviations that the verdict pools, so that no value has two marks."""
    texts = {"dtype": str, "keep_default_na": False}
    cells = pd.read_csv(project_root() / "data/results/cells.csv", **texts)
    cells["clients"] = cells["n_clients"].str.removesuffix(".0")
    named = cells["partition"].map(partition_name)
    cells["partition"] = named.where(~cells["partition"].isin(["", "none"]), "")
    levels = cells["epsilon"].map(lambda text: level_name(float(text)) if text else "")
    cells["in level"] = levels + " " + cells["metric"]
    cells["label"] = cells["metric"].str.upper()
    heads, keys = ["metric", "in level", "label", "method", "dataset"], [*published.KEYS, "clients"]
    other, found = [], 0
    for (work, exhibit), own in cells.groupby(["work", "exhibit"]):
        path = project_root() / "figures" / f"{work}_{exhibit}.csv"
        judged = not own["verdict"].isin(["not a result"]).all()
        ours = work == "maddock2024" or not otherwise(own)
        if not (path.is_file() and judged and ours):
            continue  # or with the values of another reading
        table = pd.read_csv(path, **texts)
        for line in table.to_dict("records"):
            place = [key for key in keys if key in line]
            here = own[(own[place] == pd.Series(line)[place]).all(axis=1)]
            for name in (name.removesuffix(" verdict") for name in line if "verdict" in name):
                cell = here[here[heads].eq(name).any(axis=1)]
                if line[f"{name} published"]:
                    verdict = cell["verdict"].item()
                    found += 1
                    if line[f"{name} verdict"] != (verdict if verdict in MARKS else ""):
                        other.append((exhibit, *(line[key] for key in place), name))
    assert found > 1000 and not other


def test_cells_without_a_run_are_a_dash():
    comparison, _ = compared("tab6.1")
    missing = comparison.assign(n=0, ours=np.nan, verdict="ours missing")
    assert str(comparison_table(missing).iloc[0, 0]) == "– (0.186)"


def test_entries_stand_beside_print_and_what_is_not_printed_comes_last():
    ours = {("bank", "n_instances"): 45211, ("bank", "target"): "subscribed"}
    ours |= {("bank", "combinations"): 331776, ("adult", "n_instances"): 32000}
    table = entries_table("martinez2024", "tab5.1", ours)
    assert list(dict.fromkeys(table.index.get_level_values("dataset"))) == ["adult", "bank"]
    assert table.loc[("adult", "n_instances"), "difference"] == -561
    bank = table.loc["bank"]
    assert bank.index[-1] == "combinations" and bank.loc["combinations", "published"] == ""
    assert bank.loc["target", ["published", "ours"]].tolist() == ["subscribed"] * 2
    assert np.isnan(bank.loc["target", "difference"]) and bank.loc["n_instances", "remark"] == ""
