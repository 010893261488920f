"""The protocol of apellaniz2025 on a small table: rows of nodes, settings, what is remembered and
what is measured."""

from functools import partial
from inspect import signature
from itertools import pairwise

import numpy as np
import pandas as pd
import pytest
from apellaniz_toys import CELL, JUDGED, NAMES, RANGES, SCHEMA, SIZES, TABLE, in_place

from fedsynth_lib.core.contract import BadInput
from fedsynth_lib.federation import settings
from fedsynth_lib.methods import METHODS
from fedsynth_lib.methods.vae_bgm import latent_mixture, vae_bgm
from fedsynth_lib.methods.vae_bgm import training as vae_bgm_training
from fedsynth_lib.methods.variants import dp_vae_bgm
from fedsynth_lib.metrics.divergence import Sizes
from fedsynth_lib.runs.grid import Asked
from fedsynth_lib.tables.load import Table
from fedsynth_lib.works import apellaniz2025 as study
from fedsynth_lib.works import declared
from fedsynth_lib.works.apellaniz_nodes import BELOW_MEDIAN, moments_of, nodes, scaled
from fedsynth_lib.works.protocol import Cell

NODE_ROWS = tuple(study.WORK.kind("train").settings["node_rows"])
COMBINATIONS = study.WORK.swept("tabA1 and tabA2", "sizes", "node_rows")
FIXED = {name: value for name, value in study.WORK.profiles["quick"].items() if name != "seeds"}
train, judge, features, described, dealt = map(
    study.WORK.function, ("train", "judge", "features", "described", "dealt")
)


@pytest.fixture(autouse=True)
def toy(tmp_path, monkeypatch):
    yield from in_place(tmp_path, monkeypatch)


# --- nodes

# as the work's code shuffles
SHUFFLED = TABLE.frame.sample(frac=1, random_state=42).index.to_numpy()
BELOW = (TABLE.frame["BMI"] < TABLE.frame["BMI"].median()).to_numpy()


def test_identically_distributed_nodes_hold_consecutive_slices_of_the_shuffled_table():
    found = nodes(TABLE, "iid", SIZES, 100)
    assert [(len(n.training), len(n.validation)) for n in found] == [
        (60, 100),
        (80, 100),
        (100, 100),
    ]
    np.testing.assert_array_equal(
        np.concatenate([part for node in found for part in node]), SHUFFLED[:540]
    )


@pytest.mark.parametrize("partition", BELOW_MEDIAN)
@pytest.mark.parametrize("disjoint", [False, True])
def test_skewed_nodes_hold_their_shares_and_start_where_the_docstring_says(partition, disjoint):
    """The published shares, written down again; the slices of each side of the median, one after
    the other."""
    shares = {"bmi_skew": (0.5, 0.1, 0.9), "bmi_skew_text": (0.9, 0.1, 0.5)}[partition]
    found = nodes(TABLE, partition, SIZES, 100, disjoint=disjoint)
    sides = [SHUFFLED[BELOW[SHUFFLED]], SHUFFLED[~BELOW[SHUFFLED]]]
    starts = [0, 0]
    for node, size, share in zip(found, SIZES, shares, strict=True):
        counts = [(round(size * part), round(100 * part)) for part in (share, 1 - share)]
        assert len(node.training) == size and len(node.validation) == 100
        assert (
            BELOW[node.training].sum() == counts[0][0]
            and BELOW[node.validation].sum() == counts[0][1]
        )
        for side, (own, judged) in enumerate(counts):
            end = starts[side] + own
            assert set(sides[side][starts[side] : end]) <= set(node.training)
            assert set(sides[side][end : end + judged]) <= set(node.validation)
            starts[side] = end + judged if disjoint else end
        assert BELOW[node.training[: size // 2]].sum() not in (0, size // 2)  # the sides are mixed


@pytest.mark.parametrize("partition", ["iid", *BELOW_MEDIAN])
def test_validation_rows_are_the_next_nodes_training_rows_unless_told_otherwise(partition):
    for disjoint in (False, True):
        found = nodes(TABLE, partition, SIZES, 100, disjoint=disjoint)
        rows = [[set(part) for part in node] for node in found]
        assert all(not training & validation for training, validation in rows)
        assert len(set().union(*(training for training, _ in rows))) == sum(SIZES)
        shared = [len(rows[k][1] & rows[k + 1][0]) for k in (0, 1)]
        if disjoint or partition == "iid":
            assert (
                shared == [0, 0]
                and len(set().union(*map(set.union, *zip(*rows, strict=True)))) == 540
            )
        else:  # on each side of the median as many as both have
            shares = [[share, 1 - share] for share in BELOW_MEDIAN[partition]]
            counts = [
                [(round(s * p), round(100 * p)) for p in part]
                for s, part in zip(SIZES, shares, strict=True)
            ]
            both = [zip(one, other, strict=True) for one, other in pairwise(counts)]
            assert shared == [
                sum(min(judged, own) for (_, judged), (own, _) in pair) for pair in both
            ]
            assert min(shared) > 0


def test_another_shuffle_puts_other_people_of_the_same_shares_at_a_node_that_may_be_the_only_one():
    usual = nodes(TABLE, "bmi_skew", SIZES, 100)[0]
    (alone,) = nodes(TABLE, "bmi_skew", SIZES[:1], 100)
    assert alone.training.tolist() == usual.training.tolist()
    (other,) = nodes(TABLE, "bmi_skew", SIZES[:1], 100, shuffle=3)
    assert len({*other.training} - {*usual.training}) > SIZES[0] / 2
    assert BELOW[other.training].sum() == BELOW[usual.training].sum()


def test_odd_sizes_are_dealt_out_whole():
    found = nodes(TABLE, "bmi_skew", (61, 83, 101), 101)
    assert [(len(n.training), len(n.validation)) for n in found] == [
        (61, 101),
        (83, 101),
        (101, 101),
    ]


@pytest.mark.parametrize("partition", ["iid", *BELOW_MEDIAN])
def test_too_few_rows_are_refused(partition):
    with pytest.raises(BadInput, match=r"toy: the nodes need \d+ rows of \d+"):
        nodes(TABLE, partition, (500, 600, 700), 100)
    with pytest.raises(BadInput, match="iid, bmi_skew"):
        nodes(TABLE, "skewed", SIZES, 100)


def test_moments_are_those_of_the_whole_table():
    for (mean, deviation), name in zip(moments_of(TABLE), SCHEMA.numeric, strict=True):
        low, high = RANGES[name]
        values = TABLE.frame[name]
        assert mean == pytest.approx((values.mean() - low) / (high - low))
        assert deviation == pytest.approx(values.std(ddof=0) / (high - low))
    assert scaled((100, 1000, 10_000), 0.03) == [20, 30, 300] and scaled((7, 10), 1.0) == [7, 10]


# --- settings

PUBLISHED = {  # protocol_apellaniz2025.md, sections Model, Techniques and Metrics
    **{
        "hidden": 256,
        "latent": 20,
        "dropout": 0.2,
        "learning_rate": 1e-3,
        "batch": 1024,
        "patience": 100,
    },
    **{"components": 20, "starts": 10, "most_rows": 10_000, "shared_rows": 9500, "senders": "all"},
    **{"training_rounds": 5, "local_epochs": 200, "common_start": False, "clip": None},
}


def config_of(technique, **asked):
    """The settings of a federation with the published sizes, and its privacy."""
    parts = [range(size) for size in asked.pop("node_rows", NODE_ROWS)]
    dealt = study.Dealt(TABLE, (), Sizes(**asked.pop("judged", {})))
    said = {"changes": None, "variant": None, "epsilon": None} | asked
    own, privacy = study.configure(dealt, parts, **said)
    method = study.WORK.method(technique)
    key = method.key_of({"epsilon": said["epsilon"]})
    return METHODS[key].Config(**{**method.settings, **own}), privacy


@pytest.mark.parametrize("technique", study.WORK.methods)
def test_settings_are_the_published_ones(technique):
    config, privacy = config_of(technique)
    assert {name: getattr(config, name) for name in PUBLISHED} == PUBLISHED
    assert privacy.epsilon is None
    assert config.networks == (1 if technique == "fedavg" else 3)
    assert (config.rounds, config.epochs) == ((1, 1000) if technique == "isolated" else (5, 200))
    assert config.moments == moments_of(TABLE)
    judged = {"training": 60, "evaluation": 20}
    asked = {"node_rows": COMBINATIONS[0], "judged": judged, "changes": {"networks": 2}}
    small, _ = config_of(technique, **asked)
    assert (small.most_rows, small.shared_rows, small.networks) == (500, 100, 2)


def test_a_guarantee_is_that_of_the_private_method_and_takes_no_moments_of_real_rows():
    variant = study.private_variant({"epsilon": 3.0, "changes": {"local_epochs": 5}}, {})["variant"]
    config, privacy = config_of("fedavg", variant=variant, epsilon=3.0)
    assert isinstance(config, dp_vae_bgm.Config) and config.moments is None and config.private
    assert (privacy.epsilon, privacy.delta, config.networks, config.epochs) == (3.0, 1e-5, 1, 5)


def test_other_published_numbers():
    assert NODE_ROWS == (100, 1000, 10_000) and Sizes() == Sizes(7500, 1000, 10_000, 1000)
    published = [[50, 100, 500], [50, 100, 1000], [50, 500, 1000], [100, 500, 1000]]
    assert published == COMBINATIONS
    assert vae_bgm_training.BETAS == (0.9, 0.9)
    defaults = {name: p.default for name, p in signature(latent_mixture.fit).parameters.items()}
    assert (defaults["iterations"], defaults["ridge"]) == (5000, 1e-5)
    with pytest.raises(BadInput, match="isolated, fedavg, sds"):
        train(**{**CELL, "technique": "central"})


# --- trainings


def trained(**cell):
    """The standardised rows of all nodes, and the facts of the run."""
    _, made = next(Cell(study.WORK, "train", **cell).made())
    return made.frame, made.facts


@pytest.fixture
def runs(monkeypatch):
    """The configurations that were trained."""
    seen, federated = [], settings.federated

    def counted(method, table, parts, **options):
        seen.append((options["config"], options["seed"], [part.tolist() for part in parts]))
        return federated(method, table, parts, **options)

    monkeypatch.setattr(settings, "federated", counted)
    return seen


@pytest.mark.slow
def test_a_training_is_made_once_for_all_that_measure_it(runs):
    frame, facts = trained(**CELL)
    assert frame["node"].value_counts().to_dict() == {1: 200, 2: 200, 3: 200} and list(frame)[
        :-1
    ] == list(NAMES)
    found = nodes(TABLE, "bmi_skew", SIZES, 200)
    # validation rows stay out
    assert runs[0][2] == [sorted(node.training.tolist()) for node in found]
    again, same_facts = trained(**{**CELL, "judged": {**JUDGED, "epochs": 9}})
    pd.testing.assert_frame_equal(frame, again)
    (row,) = train(**CELL)
    assert (
        len(runs) == 1
        and facts == same_facts
        and row["value"] == facts["seconds"]
        and row["unprotected"] == 2
    )
    for change in (
        {"seed": 4},
        {"technique": "isolated"},
        {"disjoint": True},
        {"redealt": True},
        {"variant": {"senders": "largest"}},
    ):
        before = len(runs)
        other, _ = trained(**{**CELL, **change})
        assert len(runs) == before + 1 and not other[list(NAMES)].equals(frame[list(NAMES)])
    assert trained(**{**CELL, "table": "toy"})[0].equals(frame)
    with pytest.raises(BadInput, match="build the grid again"):
        trained(**{**CELL, "table": "another"})


def test_rows_of_nodes_that_found_their_own_moments_are_put_on_the_scale_of_the_real_ones(
    monkeypatch,
):
    """A standardised zero is the mean of the moments that the node trained with, not that of the
    whole table."""
    seen = []
    monkeypatch.setattr(
        vae_bgm, "drawn", lambda state, node, *_: seen.append(state) or np.zeros((200, len(NAMES)))
    )
    frame, _ = trained(**{**CELL, "technique": "isolated", "variant": {"moments": None}})
    bmi = SCHEMA.numeric.index("BMI")
    for node in range(3):
        mean, (whole, deviation) = (
            seen[0][f"generator/{node}/moments"][bmi, 0],
            moments_of(TABLE)[bmi],
        )
        expected = (mean - whole) / deviation
        assert node == 0 or abs(expected) > 0.1
        np.testing.assert_allclose(
            frame.loc[frame["node"] == node + 1, "BMI"], expected, rtol=1e-3, atol=1e-4
        )


def test_a_grid_names_every_federation_and_measurement_once():
    asked = {"seed": 7, "tables": ["brfss_heart"]}
    grid = study.WORK.grid("tab2 and tab3", "quick", **asked)
    assert len(grid) == 3 * 3 * 3 and len({str(cell) for cell in grid.cells}) == len(grid)
    expected = {"dataset": "brfss_heart", "partition": "iid", "technique": "sds", "node": 3}
    assert grid.cells[-1] == {**expected, "seed": 9, "table": "toy", **FIXED}
    measured = study.WORK.grid("tab2 and tab3 cut", "quick", **asked).cells
    assert len(measured) == 3 * 3 * 2
    last = {**expected, "seed": 7, "table": "toy", **FIXED, "variant": {"steepest": 1000.0}}
    assert measured[-1] == {**last, "repeat": 1}
    private = study.WORK.grid("guarantee", "quick", **asked, epsilon=[1.0, 2.0]).cells
    assert [cell["epsilon"] for cell in private] == [1.0, 2.0, 1.0, 2.0] * 3
    assert {cell["variant"]["clip"] for cell in private} == {1.0}
    trained = ("training_rounds", "local_epochs", "networks", "batch", "clip")
    changed = {
        profile: [
            {name: ({**cell.get("changes", {}), **cell["variant"]}).get(name) for name in trained}
            for cell in study.WORK.grid("guarantee", profile, **asked, epsilon=[1.0]).cells
        ]
        for profile in ("quick", "paper")
    }
    # of the same rows: no less signal for the noise than at the published sizes
    assert changed["quick"] == changed["paper"] and "scale" not in private[0]


def test_cells_that_stand_side_by_side_are_of_different_trainings():
    for exhibit in ("tab2 and tab3", "tab2 and tab3 cut", "tabA1 and tabA2"):
        cells = study.WORK.grid(exhibit, "quick").cells
        trainings = [
            str({name: v for name, v in cell.items() if name not in ("node", "repeat")})
            for cell in cells
        ]
        number = len(set(trainings))
        assert trainings == trainings[:number] * (len(cells) // number)


def test_rows_say_whose_they_are(runs):
    (plain,), (alone,) = train(**CELL), train(**{**CELL, "technique": "isolated"})
    said = [
        plain[name] for name in ("paper", "method", "setting", "n_clients", "data", "partition")
    ]
    assert said == ["apellaniz2025", "SDS", "federated", 3, "own", "bmi_skew"]
    assert (alone["method"], alone["setting"], len(runs)) == ("Isolated", "local", 2)
    assert plain["epsilon"] is None and plain["epsilon_spent"] is None
    judged = judge(**CELL, node=1)
    assert {frozenset(row) for row in judged} == {
        frozenset({*plain} - {"seconds", "bytes_up", "bytes_down", "epsilon_spent", "unprotected"})
    }


def test_a_version_is_that_of_the_cells_own_method_and_measures():
    plain, private = f"vaebgm {vae_bgm.VERSION}", f"dpvaebgm {dp_vae_bgm.VERSION}"
    clipped = {"technique": "sds", "variant": {"clip": 1.0}, "epsilon": 1.0}
    for kind, measures in {"train": "", "features": "", "judge": ", js_divergence 2"}.items():
        for cell, method in (
            ({"technique": "sds"}, plain),
            ({"technique": "sds", "variant": {"networks": 3}}, plain),
            (clipped, private),
        ):
            assert study.WORK.version(kind, cell) == method + measures


def test_a_judged_cell_that_names_no_repeat_is_of_the_first():
    asked = Asked.of(judge, {**CELL, "node": 1}, partial(study.WORK.version, "judge"))
    assert '"repeat":0' in asked.params


# --- the tables and nodes themselves


def test_a_table_is_described_by_its_rows_classes_and_what_it_shares_with_another(monkeypatch):
    changed = TABLE.frame.assign(
        BMI=TABLE.frame["BMI"].where(np.arange(len(TABLE)) >= len(TABLE) // 4, -1)
    )
    tables = {"one": TABLE, "other": Table("other", changed, SCHEMA, "real")}
    monkeypatch.setattr(declared, "load_table", lambda name, work: tables[name])
    rows = described(dataset="one", other="other", table=TABLE.digest)
    found = {(row["metric"], row.get("item")): row["value"] for row in rows}
    assert found["n_samples", None] == len(TABLE) and found["n_features", None] == len(NAMES)
    share = (TABLE.frame[SCHEMA.target] == TABLE.frame[SCHEMA.target].iloc[0]).mean()
    assert found[
        "class_proportion_percent", str(TABLE.frame[SCHEMA.target].iloc[0])
    ] == pytest.approx(100 * share)
    assert (
        found["same_value", "BMI"] == pytest.approx(0.75)
        and found["same_value", SCHEMA.target] == 1
    )


def test_nodes_are_described_by_their_own_rows():
    asked = {"partition": "bmi_skew", "node_rows": SIZES, "judged": JUDGED, "forests": 1}
    rows = dealt(dataset=CELL["dataset"], **asked, table=TABLE.digest)
    found = {(row.get("node"), row["metric"], row.get("item")): row["value"] for row in rows}
    bmi = TABLE.frame["BMI"].to_numpy()
    assert found[None, "bmi_mean", None] == pytest.approx(bmi.mean())
    places = nodes(TABLE, "bmi_skew", SIZES, Sizes(**JUDGED).rows)
    for number, place in enumerate(places, start=1):
        own = bmi[place.training]
        assert found[str(number), "n_train", None] == len(own)
        assert found[str(number), "below_median", None] == pytest.approx(
            (own < np.median(bmi)).mean()
        )
        shares = {
            float(item): v
            for (n, m, item), v in found.items()
            if (n, m) == (str(number), "real_share")
        }
        assert sum(shares.values()) == pytest.approx(1) and set(shares) == set(own)
        later = {row for after in places[number:] for row in after.training}
        elsewhere = np.mean([row in later for row in place.validation])
        assert found[str(number), "trained_elsewhere", None] == pytest.approx(elsewhere)
    assert found["3", "trained_elsewhere", None] == 0
