"""The words of `detail`, worked out by hand for each branch, and the same as in print where print
has them."""

import numpy as np
import pandas as pd
import pytest

from fedsynth_lib.core.contract import BadInput
from fedsynth_lib.printed.published import aggregate, load_values
from fedsynth_lib.runs.details import (
    asked_by,
    configuration,
    is_redrawn,
    names_of,
    said_of,
    with_detail,
)
from fedsynth_lib.runs.rows import params_text, to_frame


def said(paper, params=None, **columns):
    """The detail of one row with these params and columns."""
    rows = to_frame([{"paper": paper, "params": params_text(params or {}), **columns}])
    return with_detail(rows)["detail"].item()


def flaim(method, params, setting="federated"):
    return said("maddock2024", params, method=method, setting=setting)


ANNEALED = {
    "rounds": "annealed",
    "participation": 0.5,
    "beta": 0.01,
    "local_steps": 4,
    "measure_share": 0.5,
}
PUBLISHED = {
    "rounds": 10,
    "participation": 0.1,
    "local_steps": 1,
    "measure_share": 0.9,
    "estimator": "published",
}


@pytest.mark.parametrize(
    ("method", "setting", "params", "words"),
    [
        ("NaiveFLAIM", "federated", PUBLISHED, "T=10; participation 0.1"),
        ("AIM", "central", PUBLISHED, "T=10"),
        ("FedNaiveBayes", "federated", PUBLISHED, "participation 0.1"),
        ("DistAIM", "federated", ANNEALED, "T=annealed; participation 0.5; beta=0.01; s=4; r=0.5"),
        ("NaiveFLAIM", "federated", {**PUBLISHED, "beta": 5.0}, "T=10; participation 0.1; beta=5"),
        ("AIM", "central", {**PUBLISHED, "estimator": "ours"}, "T=10; ours"),
        ("", "", {"beta": 0.1}, "beta=0.1"),
        ("DP-CTGAN", "central", {}, ""),
        ("DP-CTGAN", "central", {"training_rounds": 4}, "4 epochs"),
        ("Fed DP-CTGAN", "federated", {}, "50 epochs (500 rounds); participation 0.1"),
        ("Fed DP-CTGAN", "federated", {"training_rounds": 25}, "2.5 epochs (25 rounds); "
                                                               "participation 0.1"),
    ],
)  # fmt: skip
def test_words_of_maddock2024(method, setting, params, words):
    assert flaim(method, params, setting) == words


@pytest.mark.parametrize(
    ("columns", "params", "words"),
    [
        ({"partition": "iid", "setting": "federated"}, {"epsilon": 3}, ""),
        (
            {"partition": "label_skew", "setting": "federated"},
            {},
            "client 1 holds all negatives; clients 2 and 3 share the positives",
        ),
        ({"partition": "label_skew", "item": "age x sex", "setting": "federated"}, {}, "age x sex"),
        (
            {"partition": "none", "item": "age x sex", "setting": "real"},
            {"pairs": True},
            "age x sex",
        ),
        (
            {"partition": "iid", "setting": "federated"},
            {"scheme": "private training"},
            "private training",
        ),
        ({"partition": "iid", "setting": "federated"}, {"scheme": "s", "variant": "v"}, "s; v"),
    ],
)
def test_words_of_leitner2023(columns, params, words):
    assert said("leitner2023", params, **columns) == words


@pytest.mark.parametrize(
    ("setting", "params", "words"),
    [
        ("real", {"attacks": 200}, ""),
        ("federated", {}, "100 local updates; FedAvg"),
        ("federated", {"local_updates": 10, "strategy": "fedyogi"}, "10 local updates; FedYogi"),
        ("federated", {"scheme": "ours"}, "100 local updates; FedAvg; ours"),
    ],
)
def test_words_of_sattarov2024(setting, params, words):
    assert said("sattarov2024", params, setting=setting) == words


SIZES = "train rows per node 100/1000/10000"
NODES = {"node_rows": [100, 1000, 10000]}


@pytest.mark.parametrize(
    ("params", "item", "words"),
    [
        (NODES, "", SIZES),
        (NODES, "Education 4", "Education 4"),
        ({**NODES, "repeat": 0}, "", f"{SIZES}; repeat 0"),
        ({**NODES, "variant": {"networks": 1}, "repeat": 2}, "", f"{SIZES}; 1 networks; repeat 2"),
        ({**NODES, "variant": {"steepest": 1000.0}}, "", f"{SIZES}; slopes to 1000"),
        ({**NODES, "variant": {"senders": "one", "common_start": True}}, "", f"{SIZES}; senders "
                                                                             "one; common start"),
        ({**NODES, "variant": {"training_rounds": 3, "most_rows": 500}}, "", f"{SIZES}; 3 rounds; "
                                                                             "up to 500 rows"),
        ({**NODES, "variant": {"clip": 1.0, "networks": 1}}, "", f"{SIZES}; private"),
        ({**NODES, "disjoint": True, "whole": True}, "", f"{SIZES}; disjoint; whole"),
        ({}, "", ""),
    ],
)  # fmt: skip
def test_words_of_apellaniz2025(params, item, words):
    assert said("apellaniz2025", params, item=item) == words


def test_words_of_martinez2024_and_of_ours():
    assert said("martinez2024", {"epsilon": np.inf}) == ""
    assert said("martinez2024", {"variant": "k = 3", "changes": {"degree": 3}}) == "k = 3"
    assert said("martinez2024", {"variant": "k = 3"}, item="capital-loss") == "k = 3; capital-loss"
    assert said("", {"as_published": True}) == "as published"
    assert said("", {}, item="age") == "age"


def test_a_search_says_its_configuration_and_draw_as_json():
    parameters = {"loss_factor": 2, "compress_dimension": "[64, 56]", "weight_decay": 1e-5}
    once = said("martinez2024", {"parameters": parameters, "rows": 2000}, setting="tuning")
    assert once == '{"compress_dimension":"[64, 56]","loss_factor":2,"weight_decay":1e-05}'
    again = said("martinez2024", {"parameters": parameters, "draw": 0}, setting="tuning")
    assert configuration(again) == {**parameters, "draw": 0}
    assert is_redrawn(again) and not is_redrawn(once) and not is_redrawn("T=10")
    with pytest.raises(BadInput, match="detail 'T=10' is no configuration"):
        configuration("T=10")


@pytest.mark.parametrize(
    ("paper", "method", "columns", "params"),
    [
        ("leitner2023", "Fed-TGAN", {"partition": "label_skew", "setting": "federated"}, {}),
        ("maddock2024", "NaiveFLAIM", {"setting": "federated"}, PUBLISHED),
        ("maddock2024", "AIM", {"setting": "central"}, PUBLISHED),
        ("maddock2024", "FedNaiveBayes", {"setting": "federated"}, PUBLISHED),
        ("maddock2024", "Fed DP-CTGAN", {"setting": "federated"}, {}),
        ("maddock2024", "DP-CTGAN", {"setting": "central"}, {}),
        ("maddock2024", "", {"partition": "label_skew"}, {"beta": 0.8}),
        ("apellaniz2025", "SDS", {"setting": "federated"}, {"node_rows": [50, 500, 1000]}),
        ("martinez2024", "fedbn", {"setting": "federated"}, {}),
    ],
)
def test_words_are_those_of_the_printed_values(paper, method, columns, params):
    values = load_values(paper)
    printed = values[values["method"] == method]
    for column, value in columns.items():
        printed = printed[printed[column] == value]
    assert said(paper, params, method=method, **columns) in set(printed["detail"])


def test_printed_values_and_frames_without_rows_have_details_too():
    printed = load_values("maddock2024")
    assert with_detail(printed) is printed
    assert with_detail(to_frame([])).columns[-1] == "detail"
    assert aggregate(to_frame([])).empty


def test_equal_rows_have_equal_details_whatever_their_index():
    rows = to_frame(
        [
            {"paper": "apellaniz2025", "item": item, "value": value}
            for value, item in enumerate("aba")
        ]
    )
    found = with_detail(rows.set_index(pd.Index([7, 7, 3])))
    assert found["detail"].tolist() == ["a", "b", "a"] and found.index.tolist() == [7, 7, 3]


def test_printed_names_and_words_lead_back_to_settings():
    assert names_of("sattarov2024", "strategy")["fedadam"] == "FedAdam"
    assert names_of("leitner2023", "strategy") == {}
    assert asked_by("maddock2024", "T=10; participation 0.1") == {
        "rounds": 10,
        "participation": 0.1,
    }
    assert asked_by("maddock2024", "T=11") == {}


def test_a_kind_of_words_can_be_had_alone():
    params = {**NODES, "variant": {"networks": 1}, "repeat": 0}
    assert said_of("apellaniz2025", params, "sizes") == SIZES
    assert said_of("apellaniz2025", params, "variant") == "1 networks"
