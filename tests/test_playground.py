"""The playground: which rows a choice has, what is said where there are none, and its pictures; no
widgets needed."""

import re
import sys

import matplotlib
import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest

from fedsynth_lib.core.contract import BadInput
from fedsynth_lib.release import playground
from fedsynth_lib.release.playground import Choice
from fedsynth_lib.runs.grid import run_grid
from fedsynth_lib.runs.rows import cell_key, complete, params_text, save_rows, to_frame
from fedsynth_lib.tables.load import Table
from fedsynth_lib.works import side_by_side
from fedsynth_lib.works.side_by_side import DATASETS, ENTRANTS, YARDSTICKS, Prepared

matplotlib.use("agg")
AIM = Choice("adult", "iid", 3, "AIM", 1.0)


def measured(choice: Choice, value: float, seed: int = 0, **more) -> list[dict]:
    """A row for each measure that is shown, all of this value."""
    shared = choice._asdict() | {
        "data": "real",
        "seed": seed,
        "setting": "federated",
        "unprotected": 0,
    }
    shared |= {"epsilon_spent": choice.epsilon if np.isfinite(choice.epsilon) else None}
    shared |= {"profile": "smoke", "version": today(choice.method), "params": of_table("toy")}
    shared |= more
    shared["cell"] = cell_key(shared["params"], shared["version"])
    return complete([{**shared, "metric": name, "value": value} for name in playground.SHOWN], {})


def of_table(digest: str, **more) -> str:
    return params_text({"table": digest, "brief": True, **more})


def today(method: str) -> str:
    return side_by_side.version({"method": method, "brief": True})


def known(value: float = 0.5, **more) -> list[dict]:
    none = {"partition": "none", "n_clients": None, "epsilon": float("nan"), "setting": "real"}
    none |= more
    return [
        row for name in YARDSTICKS for row in measured(AIM._replace(method=name), value, **none)
    ]


@pytest.fixture(autouse=True)
def home(tmp_path, monkeypatch, table):
    """A project without results, in which every dataset is the small table."""
    monkeypatch.setenv("FEDSYNTH_HOME", str(tmp_path))
    small = Table("adult", table.frame.head(240), table.schema, data="real", digest="toy")
    monkeypatch.setattr(
        side_by_side, "prepared", lambda dataset, rows, seed: Prepared(small, small, small)
    )
    for module in (playground, side_by_side):
        monkeypatch.setattr(module, "table_digest", lambda dataset: "toy")
    monkeypatch.setattr(playground, "at_hand", lambda digest: f"{digest} standin")
    return tmp_path


def write(name: str, *parts: list[dict]) -> pd.DataFrame:
    rows = to_frame([row for part in parts for row in part])
    save_rows(rows, name=name, profile="smoke")
    return rows


def values(rows: pd.DataFrame) -> dict[str, list[float]]:
    """Method -> its values, without those of known rows."""
    others = rows[~rows["method"].isin(YARDSTICKS)]
    return {method: sorted(set(own["value"])) for method, own in others.groupby("method")}


def test_a_choice_finds_its_own_rows_those_of_other_methods_and_the_known_ones():
    other = AIM._replace(method="FedBN")
    elsewhere = [
        AIM._replace(epsilon=3.0),
        AIM._replace(n_clients=10),
        AIM._replace(partition="label_skew"),
    ]
    elsewhere += [AIM._replace(epsilon=np.inf)]
    wrong = [row for number, each in enumerate(elsewhere) for row in measured(each, 10.0 + number)]
    write("71_privacy_utility_frontier", measured(AIM, 0.1), measured(other, 0.2), wrong, known())
    rows = playground.load("adult", "smoke")
    found = playground.at(rows, AIM)
    assert values(found) == {"AIM": [0.1], "FedBN": [0.2]}
    assert set(found["method"]) == {"AIM", "FedBN", *YARDSTICKS}
    for number, each in enumerate(elsewhere):
        assert values(playground.at(rows, each)) == {"AIM": [10.0 + number]}
    # known rows alone are no answer
    assert playground.at(rows, AIM._replace(partition="by_cluster")).empty


def test_rows_of_three_files_are_taken_once_and_none_that_would_mislead():
    stale, published = "aim 9", of_table("toy", as_published=True)
    write("71_privacy_utility_frontier", measured(AIM, 0.1), known())
    write(
        "72_heterogeneity",
        measured(AIM, 0.9),  # the same measurement once more
        measured(AIM, 0.3, seed=1),
        measured(AIM._replace(dataset="bank"), 0.4),
        measured(AIM._replace(epsilon=3.0), 0.5, version=stale),
        measured(AIM._replace(method="FedBN"), 0.6),  # FedBN is as it was
    )
    write("70_side_by_side", measured(AIM, 0.7, seed=2, params=published), known(0.8))
    rows = playground.load("adult", "smoke")
    assert values(rows) == {"AIM": [0.1, 0.3], "FedBN": [0.6]}
    assert set(rows.loc[rows["method"].isin(YARDSTICKS), "value"]) == {0.5}
    assert values(playground.load("bank", "smoke")) == {"AIM": [0.4]}


def test_rows_of_the_real_table_come_before_those_of_its_stand_in_and_of_no_other_table():
    made_up = {"data": "standin", "params": of_table("toy standin")}
    write("71_privacy_utility_frontier", measured(AIM, 0.7, params=of_table("other")))
    assert playground.load("adult", "smoke").empty
    write("72_heterogeneity", measured(AIM, 0.2, **made_up))
    assert values(playground.load("adult", "smoke")) == {"AIM": [0.2]}
    write("72_heterogeneity", measured(AIM, 0.1))
    assert values(playground.load("adult", "smoke")) == {"AIM": [0.1]}


def test_what_is_trained_on_a_stand_in_leaves_rows_of_the_real_table_out():
    real, made = (
        to_frame(measured(AIM, value, data=data))
        for value, data in ((0.1, "real"), (0.2, "standin"))
    )
    assert values(playground.joined(real, made)) == {"AIM": [0.2]}
    assert values(playground.joined(real, real.assign(seed=1, value=0.3))) == {"AIM": [0.1, 0.3]}


def test_words_state_the_promise_and_the_means():
    more = {"epsilon_spent": 0.98, "unprotected": 0}
    rows = write(
        "71_privacy_utility_frontier",
        measured(AIM, 0.1, **more),
        measured(AIM, 0.3, seed=1, **more),
    )
    promise, told = playground.words(rows, AIM, "smoke").splitlines()
    assert promise.startswith(
        "AIM on adult, 3 clients, i.i.d., ε = 1: ε = 0.98 was spent, δ = 1e-05, for each record"
    )
    assert re.findall(r"\d\.\d{3}", told) == ["0.200"] * len(playground.SHOWN) and told.endswith(
        "(seeds: 2)."
    )


def test_words_promise_nothing_where_nothing_is():
    free = AIM._replace(epsilon=np.inf)
    rows = write(
        "71_privacy_utility_frontier", measured(AIM, 0.1, unprotected=2), measured(free, 0.3)
    )
    assert "no guarantee" in playground.words(rows, AIM, "smoke").splitlines()[0]
    assert playground.words(rows, AIM, "smoke").splitlines()[0].endswith(": 2.")
    assert "no noise: no noise was added, and nothing is promised." in playground.words(
        rows, free, "smoke"
    )


def test_a_setting_without_rows_gets_one_sentence_with_a_command_that_works():
    rows = write("71_privacy_utility_frontier", measured(AIM._replace(method="FedBN"), 0.1))
    for each in (rows, to_frame([])):
        told = playground.words(each, AIM, "smoke")
        assert told.startswith(
            "No rows of AIM on adult, 3 clients, i.i.d., ε = 1 yet: press Train, or run "
        )
        assert told.endswith("./run_all.sh --profile smoke --only 70,71,72.") and "\n" not in told
    numbers = {name[:2] for name in playground.SOURCES}
    assert numbers == {"70", "71", "72"}


def test_what_can_be_chosen_is_what_takes_part():
    assert list(playground.options("paper")["dataset"]) == list(DATASETS[:2])
    assert list(playground.options("smoke")["dataset"].values()) == ["adult"]
    assert playground.options("quick")["epsilon"]["no noise"] == np.inf
    assert playground.checked(AIM, "smoke") == AIM


@pytest.mark.parametrize(
    ("change", "profile", "said"),
    [
        (
            {"dataset": "bank"},
            "smoke",
            "dataset is 'bank': with profile smoke choose one of adult.",
        ),
        (
            {"epsilon": 2.0},
            "quick",
            "epsilon is 2.0: with profile quick choose one of 0.2, 1, 3, 10, no noise.",
        ),
        ({"method": "aim"}, "quick", "method is 'aim'"),
        ({"n_clients": 4}, "quick", "choose one of 3, 10, 100."),
        (
            {"method": "FedVAE", "n_clients": 100},
            "quick",
            "FedVAE trains too long with 100 clients: choose at most 10.",
        ),
        ({}, "quik", "profile is 'quik'"),
    ],
)
def test_a_choice_that_cannot_be_run_is_told_in_one_sentence(change, profile, said):
    with pytest.raises(BadInput, match=re.escape(said)) as error:
        playground.checked(AIM._replace(**change), profile)
    assert "\n" not in str(error.value)


def test_the_picture_of_measures_puts_the_chosen_method_in_front_of_a_band():
    other = AIM._replace(method="FedBN")
    rows = write("71_privacy_utility_frontier", measured(AIM, 0.1), measured(other, 0.2), known())
    fig = playground.measures_picture(rows, other)
    first = fig.axes[0]
    bold = [
        label.get_text() for label in first.get_yticklabels() if label.get_fontweight() == "bold"
    ]
    assert bold == ["FedBN"] and len(fig.axes) == len(playground.SHOWN)
    place = dict(
        zip(
            [label.get_text() for label in first.get_yticklabels()], first.get_yticks(), strict=True
        )
    )
    for ax in fig.axes:
        (band,) = ax.patches
        assert (band.get_y(), band.get_height()) == (place["FedBN"] - 0.5, 1)
    drawn = {round(float(x), 6) for line in first.lines for x in line.get_xdata() if x == x}
    assert drawn >= {0.1, 0.2}


@pytest.mark.slow
def test_training_makes_the_rows_and_the_columns_that_the_grids_make(home):
    """One run of the grid, then the playground: same values, same synthetic table, nothing trained
    twice."""
    choice = AIM._replace(method="Independent", n_clients=10)
    cells = side_by_side.cells(
        side_by_side.SIZES["smoke"], ["adult"], ["Independent"], n_clients=10, brief=True
    )
    options = {"name": "72_heterogeneity", "profile": "smoke", "version": side_by_side.version}
    made = run_grid(side_by_side.measure, cells, **options)
    kept = list((home / "data" / "cache" / "synthetic").iterdir())
    assert len(kept) == 1

    rows = playground.load("adult", "smoke")
    assert values(playground.at(rows, choice)).keys() == {"Independent"}
    ours = playground.train(choice, "smoke").set_index("metric")
    theirs = made.set_index("metric")
    assert set(playground.SHOWN) <= set(ours.index)
    same = [name for name in theirs.index if name != "peak_gib"]
    pd.testing.assert_series_equal(ours.loc[same, "value"], theirs.loc[same, "value"])
    assert values(playground.at(ours.reset_index(), choice)).keys() == {"Independent"}

    fig = playground.columns_picture(choice, "smoke")
    assert [ax.get_title() for ax in fig.axes] == ["age", "weight", "ill", "smokes", "region"]
    frame = pd.read_parquet(kept[0])
    dots = fig.axes[2].lines[0].get_xdata()  # of `ill`
    expected = 100 * frame["ill"].value_counts(normalize=True)
    assert sorted(dots) == pytest.approx(sorted(expected.reindex(["no", "yes"]).fillna(0)))
    assert list((home / "data" / "cache" / "synthetic").iterdir()) == kept


def test_without_ipywidgets_there_is_a_sentence(monkeypatch):
    monkeypatch.setitem(sys.modules, "ipywidgets", None)
    assert "requirements.lock" in playground.controls(AIM, "smoke")


@pytest.mark.slow
def test_the_controls_show_what_is_chosen_and_train_what_is_not_there(capsys, style):
    plt.close("all")  # those of other tests
    start = AIM._replace(method="Independent")
    write(
        "71_privacy_utility_frontier",
        measured(start, 0.1),
        measured(start._replace(epsilon=10.0), 0.2),
        known(),
    )

    def shown() -> tuple[str, list[int]]:
        """The words, and how many panels each picture has."""
        panels = [len(plt.figure(number).axes) for number in plt.get_fignums()]
        plt.close("all")
        return capsys.readouterr().out, panels

    page = playground.controls(start, "smoke")
    _, partition, clients, method, epsilon, button, _ = page.children
    assert list(method.options) == [(name, name) for name in ENTRANTS]
    said, panels = shown()
    assert "ε = 1 was spent" in said and " 0.100" in said and panels == [4, 5]
    epsilon.value = 10.0
    said, panels = shown()
    assert "ε = 10 was spent" in said and " 0.200" in said and panels == [4]
    partition.value = "label_skew"
    said, panels = shown()
    assert "No rows of Independent on adult, 3 clients, label skew, ε = 10 yet" in said
    assert panels == []
    button.value = True
    said, panels = shown()
    assert "ε = 10 was spent" in said and panels == [4, 5]
    button.value = False
    assert shown()[1] == [4]  # the rows that were made stay
    method.value = "FedVAE"
    shown()
    clients.value = 100
    said, panels = shown()
    assert said.endswith("FedVAE trains too long with 100 clients: choose at most 10.\n")
    assert panels == []
