"""One protocol for all methods: which rows meet, which runs are made, and what is measured of
tables that are known."""

from dataclasses import replace
from itertools import combinations

import numpy as np
import pandas as pd
import pytest
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.metrics import roc_auc_score
from sklearn.model_selection import StratifiedKFold

from fedsynth_lib import audit
from fedsynth_lib.core.contract import BadInput
from fedsynth_lib.federation.memory import peak_memory
from fedsynth_lib.methods import METHODS
from fedsynth_lib.metrics import utility
from fedsynth_lib.metrics.membership import membership
from fedsynth_lib.metrics.range_queries import random_queries, shares
from fedsynth_lib.runs import names
from fedsynth_lib.runs.details import with_detail
from fedsynth_lib.runs.rows import complete, params_text, to_frame
from fedsynth_lib.works import field_tables, leaderboard, side_by_side
from fedsynth_lib.works.protocol import Made

SMOKE = side_by_side.SIZES["smoke"]


def parts_of(table, size=200):
    return [table.take(np.arange(k * size, (k + 1) * size)).frame for k in range(4)]


@pytest.mark.slow
def test_a_copy_gives_its_members_away_and_a_second_sample_nobody(table):
    members, others, reference, second = parts_of(table)
    copied = membership(members, others, reference, members, table.schema, seed=0)
    for attack in copied.values():
        assert attack.auc > 0.99 and attack.caught > 0.95 and attack.advantage > 0.95
    fresh = membership(members, others, reference, second, table.schema, seed=0)
    for attack in fresh.values():
        assert attack.low <= 0.5 <= attack.high and attack.low < attack.auc < attack.high


def test_the_scores_are_distances_to_the_nearest_rows(table):
    """Against all pairwise distances on the same features."""
    from fedsynth_lib.tables.encode import standardised

    members, others, reference, made = (part.iloc[:60] for part in parts_of(table))
    found = membership(members, others, reference, made, table.schema, seed=0)
    points = standardised(
        pd.concat([members, others, reference, made], ignore_index=True), table.schema
    )
    people, known, rows = np.split(points.astype(float), [120, 180])
    near = [
        np.sqrt(((people[:, None] - each[None]) ** 2).sum(axis=2)).min(axis=1)
        for each in (rows, known)
    ]
    truth = np.arange(120) < 60
    assert found["closest"].auc == pytest.approx(roc_auc_score(truth, -near[0]), abs=2e-3)
    assert found["calibrated"].auc == pytest.approx(
        roc_auc_score(truth, np.log(near[1] / near[0])), abs=5e-3
    )


def test_a_record_in_a_dense_place_is_only_suspicious_without_calibration():
    """Members stand close together, others far apart; the synthetic rows know nobody."""
    from fedsynth_lib.tables.schema import Column, Schema

    rng = np.random.default_rng(0)
    schema = Schema(
        (Column("x", "numeric", low=-100, high=100), Column("y", "numeric", low=-100, high=100)),
        None,
    )

    def rows(*spreads, size=200):
        return pd.DataFrame(
            np.concatenate([rng.normal(0, s, (size, 2)) for s in spreads]), columns=["x", "y"]
        )

    found = membership(rows(1), rows(20), rows(1, 20), rows(1, 20), schema, seed=0)
    assert found["closest"].auc > 0.8 and abs(found["calibrated"].auc - 0.5) < 0.08


def test_an_empty_table_is_named(table):
    members, others, reference, made = parts_of(table)
    with pytest.raises(BadInput, match="the reference table has no rows"):
        membership(members, others, reference.iloc[:0], made, table.schema, seed=0)


def test_samples_are_disjoint_and_equally_large(table, monkeypatch):
    numbered = replace(
        table, frame=table.frame.assign(weight=np.arange(len(table.frame)) / 10.0 + 40)
    )
    monkeypatch.setattr(side_by_side, "load_table", lambda key: numbered)
    side_by_side.prepared.cache_clear()
    train, second, test = (
        set(part.frame["weight"]) for part in side_by_side.prepared("toy", None, 0)
    )
    assert (
        len(train) == len(second) == 480
        and len(test) == 240
        and not (train & second | train & test | second & test)
    )
    small = side_by_side.prepared("toy", 50, 0)
    assert [len(part) for part in small] == [50, 50, 25]
    side_by_side.prepared.cache_clear()


def test_cells_leave_out_what_a_method_does_not_have():
    names = ["AIM", "FedVAE", "A copy"]
    cells = side_by_side.cells(
        SMOKE, ["adult"], names, n_clients=[3, 100], as_published=[False, True]
    )
    told = {(c["method"], c.get("n_clients", 3), c.get("as_published", False)) for c in cells}
    expected = {
        ("AIM", 3, False),
        ("AIM", 100, False),
        ("FedVAE", 3, False),
        ("FedVAE", 3, True),
        ("A copy", 3, False),
    }
    assert told == expected and len(cells) == len(expected)
    shared = (
        side_by_side.cells(SMOKE, ["adult"], ["AIM"], epsilon=[1.0]),
        side_by_side.cells(SMOKE, ["adult"], ["AIM"]),
    )
    assert shared[0] == shared[1]


def test_a_version_is_that_of_the_cells_own_method_and_of_its_measures():
    aim = f"aim {METHODS['aim'].VERSION}"
    assert side_by_side.version({"method": "AIM", "brief": True}) == aim
    assert side_by_side.version({"method": "AIM"}) == f"{aim}, js_divergence 2"
    assert side_by_side.version({"method": "A copy"}) == "1, js_divergence 2"
    assert side_by_side.version({"method": "A copy", "brief": True}) == "1"


@pytest.mark.slow
@pytest.mark.parametrize("method", ["Independent", "FedBN", "AIM", "DP-Fed-FinDiff", "DP-VAE-BGM"])
def test_every_release_of_an_entrant_is_inside_its_budget(method):
    key = side_by_side.ENTRANTS[method].key
    rows = side_by_side.measure(
        "adult",
        method,
        0,
        epsilon=2.0,
        rows=SMOKE["rows"],
        training=SMOKE["training"].get(key),
        brief=True,
    )
    assert all(row["unprotected"] == 0 and row["epsilon_spent"] <= 2.0 * (1 + 1e-9) for row in rows)
    values = {row["metric"]: row["value"] for row in rows}
    assert {
        "hellinger",
        "workload_error",
        "auc_rf_score",
        "mia_calibrated_caught",
        "peak_gib",
    } <= values.keys()
    assert {names.base(name) for name in values} == set(side_by_side.BRIEF)


def test_the_settings_of_a_work_are_an_entry_of_their_own_with_a_mark():
    entrants = {name: each for name, each in side_by_side.ENTRANTS.items() if each.published}
    for each in entrants.values():
        module = METHODS[each.key]
        assert module.Config(**each.settings) != module.Config(
            **{**each.settings, **each.published}
        )
    options = {"rows": SMOKE["rows"], "training": SMOKE["training"]["findiff"], "brief": True}
    rows = side_by_side.measure("adult", "DP-Fed-FinDiff", 0, as_published=True, **options)
    assert all(row["unprotected"] == 1 for row in rows)
    asked = {"method": "DP-Fed-FinDiff", "as_published": True, "epsilon": 1.0}
    frame = to_frame(complete(rows, {"profile": "smoke", "params": params_text(asked)}))
    assert set(with_detail(frame)["detail"]) == {"as published"}  # as the frontier tells it apart


@pytest.mark.slow
def test_measures_know_a_copy_and_a_second_sample():
    sizes = {"attacks": 20, "judged": SMOKE["judged"], "rows": SMOKE["rows"]}
    found = {}
    for method in ("A copy", "Second sample"):
        found[method] = {
            r["metric"]: r["value"] for r in side_by_side.measure("adult", method, 0, **sizes)
        }
    copy, second = found["A copy"], found["Second sample"]
    assert {*leaderboard.QUALITY, *leaderboard.RISKS} <= copy.keys()
    counted = {*side_by_side.BRIEF, *side_by_side.MORE}  # in the version; nothing was trained
    assert {names.base(name) for name in copy} == counted - {"peak_gib"}
    assert copy["hellinger"] == copy["workload_error"] == copy["jsd"] == 0 and copy["fidelity"] == 1
    assert copy["mia_closest"] > 0.99 and copy["risk"] > 0.4 and second["risk"] < 0.2
    assert second["hellinger"] < 0.3 and second["mia_calibrated"] == pytest.approx(0.5, abs=0.02)


def test_unknown_names_are_refused():
    with pytest.raises(BadInput, match="does not take part"):
        side_by_side.synthetic("adult", "GPT", 0, rows=200)
    samples = side_by_side.prepared("adult", 200, 0)
    with pytest.raises(BadInput, match="'by_magic' does not take part"):
        side_by_side.divided(samples, "by_magic", 3, 0)


@pytest.mark.parametrize("partition", side_by_side.PARTITIONS)
def test_every_partition_deals_every_row_once(partition):
    samples = side_by_side.prepared("adult", 240, 0)
    parts = side_by_side.divided(samples, partition, 5, 0)
    assert sorted(np.concatenate(parts)) == list(range(240)) and len(parts) == 5


def test_the_peak_of_memory_is_seen():
    with peak_memory() as found:
        block = np.ones(int(0.2 * 2**30 / 8))
        block += 1
    assert 0.15 < found.gib < 0.6


def test_every_entrant_is_shown_with_what_an_audit_proves_of_it():
    entrants = {name: each.key for name, each in side_by_side.ENTRANTS.items()}
    shown = field_tables.audited(entrants)
    # of code that has changed since nothing is shown
    measured = [name for name, key in entrants.items() if audit.measured(key)]
    assert list(shown.index) == measured and "FedPGM" in measured
    assert (shown["at least"] > 0).all() and (shown["at least"] <= shown["claimed ε"]).all()
    assert shown["who adds the noise"].isin(["local noise", "secure sum", "server"]).all()


# --- whole tables ---


def brute_total_variation(real, synthetic, width):
    """Half the L1 distance of the shares of each combination of values, mean over all columns,
    pairs or triples."""
    found = []
    for columns in combinations(real.columns, width):
        shares = [t.value_counts(list(columns), normalize=True) for t in (real, synthetic)]
        both = pd.concat(shares, axis=1).fillna(0).to_numpy()
        found.append(np.abs(both[:, 0] - both[:, 1]).sum() / 2)
    return np.mean(found)


@pytest.mark.slow
def test_the_field_s_measures_are_those_counted_by_hand(table):
    samples = side_by_side.Prepared(*(table.take(np.arange(k, k + 200)) for k in (0, 200, 400)))
    made = Made(samples.second.frame, {})
    found = side_by_side.answers(samples, made, 0)
    coded = [t.frame.copy() for t in (samples.test, samples.second)]
    for frame in coded:
        for column in table.schema.columns:
            if column.kind == "numeric":
                edges = np.linspace(column.low, column.high, 101)[1:-1]
                frame[column.name] = np.searchsorted(edges, frame[column.name], side="right")
            else:
                frame[column.name] = frame[column.name].astype(str)
    for width in (1, 2, 3):
        assert found[f"tvd_{width}"] == pytest.approx(brute_total_variation(*coded, width))
        queries = random_queries(table.schema, width=width, number=1000, seed=0)
        parts = [shares(t.frame, table.schema, queries) for t in (samples.test, samples.second)]
        error = np.abs(parts[0] - parts[1]).mean()
        assert found[f"query_error_{width}"] == pytest.approx(error)
    assert set(found) == set(side_by_side.WORK.kind("whole").measured)
    same = side_by_side.answers(samples, Made(samples.test.frame, {}), 0)
    assert all(same[name] == 0 for name in same if name.startswith(("tvd", "query")))
    assert same["sdm_column_shapes"] == same["sdm_column_pair_trends"] == 1


@pytest.mark.slow
def test_trees_have_as_many_leaves_as_serve_the_folds_of_the_synthetic_rows_best():
    samples = side_by_side.prepared("adult", 400, 1)
    made, test, schema = samples.train.frame, samples.test.frame, samples.train.schema
    found = utility.boosted_trees(made, test, schema, seed=1, tuned=True)
    columns = [c for c in schema.columns if c.name != schema.target]

    def inputs(frame):
        codes = [
            frame[c.name]
            if c.kind == "numeric"
            else pd.Categorical(frame[c.name], c.categories).codes
            for c in columns
        ]
        return np.column_stack([np.asarray(each, float) for each in codes])

    levels = schema[schema.target].categories
    labels, truth = (pd.Categorical(f[schema.target], levels).codes for f in (made, test))
    kinds, areas = [c.kind == "categorical" for c in columns], {}
    folds = StratifiedKFold(3, shuffle=True, random_state=1)
    for leaves in (4, 8, 16):
        model = HistGradientBoostingClassifier(
            categorical_features=kinds, random_state=1, max_leaf_nodes=leaves
        )
        own = []
        for fitted, judged in folds.split(inputs(made), labels):
            model.fit(inputs(made)[fitted], labels[fitted])
            own.append(
                roc_auc_score(labels[judged], model.predict_proba(inputs(made)[judged])[:, 1])
            )
        model.fit(inputs(made), labels)
        areas[leaves] = np.mean(own), roc_auc_score(truth, model.predict_proba(inputs(test))[:, 1])
    best = max(areas, key=lambda leaves: areas[leaves][0])
    assert len({area for _, area in areas.values()}) == 3  # else the choice would not show
    assert found["auc_hgb_tuned"] == pytest.approx(areas[best][1])
    few = pd.concat([made[labels == 0], made[labels == 1][:2]])  # a class too rare for three folds
    plain, tuned = (
        utility.boosted_trees(few, test, schema, seed=1, tuned=t) for t in (False, True)
    )
    assert [*plain.values()] == [*tuned.values()]


def test_counting_methods_learn_from_all_rows_and_networks_in_a_declared_number_of_rounds():
    for exhibit in ("frontier", "divisions"):
        cells = side_by_side.WORK.grid(exhibit, "paper").cells
        assert not any("rows" in cell for cell in cells)
        assert all(("changes" in c) == (c["method"] in side_by_side.NETWORKS) for c in cells)
        assert all(c["rows"] == 240 for c in side_by_side.WORK.grid(exhibit, "smoke").cells)
    cells = side_by_side.WORK.grid("frontier", "paper").cells
    asked = {c.get("epsilon", 1.0) for c in cells if c["method"] == "FedPGM"}
    assert asked == {0.2, 1.0, 5.0, 10.0, float("inf")} and side_by_side.DELTA == 1e-5


@pytest.mark.slow
def test_what_networks_are_given_keeps_the_signal_of_their_own_settings():
    cells = side_by_side.WORK.grid("frontier", "paper").cells
    for epsilon in (0.2, 1.0):
        given = side_by_side.given(cells, epsilon)
        assert sorted(given.index) == sorted(side_by_side.NETWORKS)
        assert given["signal to noise, of full"].between(0.97, 1.03).all()  # rounds are nearly free
    # 13,024 rows among three, in batches of 200: 21 a pass, 3 passes a round
    assert given.loc["FedVAE"].tolist()[:3] == [120, 120 * 3 * 21, 200]
    entrant = side_by_side.ENTRANTS["FedVAE"]
    own = {name: getattr(entrant.config(None), name) for name in ("training_rounds", "batch")}
    whole = {"method": "FedVAE", "dataset": "adult", "changes": own}
    assert side_by_side.given([whole], 1.0)["signal to noise, of full"].item() == 1.0
    fewer = side_by_side.given([{**whole, "rows": 2400}], 1.0)
    assert fewer["steps of a client"].item() == 100 * 20 * 4  # of 800 rows


def test_marked_cells_are_the_release_of_the_work():
    marked = side_by_side.WORK.cell("FedBN", kind="whole", scheme="as published", dataset="adult")
    plain = side_by_side.WORK.cell("FedBN", kind="whole", dataset="adult")
    assert plain.config.private_structure and not marked.config.private_structure
