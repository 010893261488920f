"""Figures of FinDiff: every table and budget, numbers in squares, shares and maps."""

from itertools import product

import numpy as np
import pandas as pd
import pytest

from fedsynth_lib.figures import plots_findiff
from fedsynth_lib.figures.style import look
from fedsynth_lib.runs.details import STRATEGIES

DATASETS = ("credit_default", "adult", "philadelphia", "bank")
EPSILONS = (0.2, 1.0, 10.0, np.inf)
ATTACKS = ("singling_out", "linkability", "inference")


def test_figures_show_every_table_and_budget():
    risks = dict(zip(EPSILONS, (0.05, 0.066, 0.09, 0.1), strict=True))
    lines = [
        {"dataset": dataset, "epsilon": epsilon, "metric": attack + bound, "value": risk + shift}
        for dataset, (epsilon, risk), attack in product(DATASETS, risks.items(), ATTACKS)
        for bound, shift in (("", 0.0), ("_low", -0.01), ("_high", 0.02))
    ]
    fig = plots_findiff.risks_by_attack(pd.DataFrame(lines), epsilons=EPSILONS)
    assert [ax.get_title() for ax in fig.axes] == ["singling out", "linkability", "inference"]
    assert [t.get_text() for t in fig.axes[0].get_xticklabels()] == ["0.2", "1", "10", "∞"]
    line = fig.axes[1].containers[0]
    assert np.allclose(line.lines[0].get_ydata(), list(risks.values()))


def test_strategies_stand_side_by_side():
    names = list(STRATEGIES.values())
    lines = [
        {"dataset": dataset, "strategy": name, "metric": metric, "value": 0.5, "seed": seed}
        for dataset, name, seed in product(DATASETS, names, (0, 1))
        for metric in ("risk", "accuracy", "fidelity")
    ]
    fig = plots_findiff.strategies(pd.DataFrame(lines), {name: look(name) for name in names})
    assert len(fig.axes) == 3 and all(len(ax.containers) == 4 for ax in fig.axes)


def test_heatmaps_write_their_numbers():
    table = pd.DataFrame({"0.2": [0.1, 0.25], "real": [1.0, np.nan]}, index=["adult", "bank"])
    fig = plots_findiff.heatmaps({"risk": table}, references=1)
    assert [t.get_text() for t in fig.axes[0].texts] == ["0.10", "1.00", "0.25", "–"]


def test_shares_of_clients_are_drawn_in_percent():
    fig = plots_findiff.client_shares({"adult": {3: [0.7, 0.299, 0.001]}}, {"adult": "education"})
    assert [bar.get_height() for bar in fig.axes[0].patches] == pytest.approx([70, 29.9, 0.1])
    assert {"70", "30", "<1"} <= {t.get_text() for t in fig.axes[0].texts}


def test_a_map_draws_each_square_by_its_share_and_real_rows_behind():
    row = {"setting": "federated", "epsilon": 1.0, "item": "3 4", "value": 0.5}
    rows = pd.DataFrame(
        [row, {**row, "setting": "real", "epsilon": float("nan"), "item": "10 0", "value": 0.25}]
    )
    fig = plots_findiff.maps(rows, {1.0: "ε = 1"}, {1.0: 0.25})
    real, both = ([dots.get_offsets().tolist() for dots in ax.collections] for ax in fig.axes)
    assert real == [[[10, 0]]] and both == [[[10, 0]], [[3, 4]]]
    sizes = [dots.get_sizes()[0] for dots in fig.axes[1].collections]
    assert sizes[1] == 2 * sizes[0] and fig.axes[1].get_xlabel() == "mixing 0.25"
