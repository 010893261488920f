"""Shadow-run attacks: statistics by brute force, toys whose truth is known, tables that must be
caught or must not."""

from itertools import product

import numpy as np
import pandas as pd
import pytest
from scipy.stats import norm

from fedsynth_lib.audit import shadow
from fedsynth_lib.core.contract import BadInput
from fedsynth_lib.figures.special import strongest_attacks
from fedsynth_lib.runs import names, trained
from fedsynth_lib.runs.rows import complete, params_text, to_frame
from fedsynth_lib.works import leaderboard, membership_study, side_by_side

SMALL = {"rows": 100, "targets": 10}


@pytest.fixture
def toy(table, home, monkeypatch):
    """The small table in an empty project, so that no earlier run is found."""
    monkeypatch.setattr(membership_study, "load_table", lambda key: table)
    membership_study.sampled.cache_clear()
    yield table
    membership_study.sampled.cache_clear()


# --- statistics ----------------------------------------------------------------------------------


def test_density_and_its_width_by_brute_force():
    rng = np.random.default_rng(0)
    points, rows = rng.normal(size=(4, 3)), rng.normal(size=(9, 3))
    far = [[np.sqrt(((p - r) ** 2).sum()) for r in rows] for p in points]
    by_hand = [np.log(np.mean([np.exp(-(d**2) / (2 * 0.7**2)) for d in each])) for each in far]
    assert shadow.density(points, rows, 0.7) == pytest.approx(by_hand)
    twice = np.vstack([rows, rows[:2]])  # equal rows are no neighbours
    near = [min(d for r in twice if (d := np.sqrt(((q - r) ** 2).sum())) > 1e-6) for q in twice]
    assert shadow.kernel_width(twice) == pytest.approx(np.median(near), rel=1e-6)


def test_counts_by_brute_force_and_as_independent_columns_expect_them():
    rng = np.random.default_rng(1)
    points, rows, queries = (
        rng.integers(0, 2, (5, 4)),
        rng.integers(0, 2, (30, 4)),
        [(0, 1, 2), (1, 2, 3)],
    )
    by_hand = [
        np.mean([np.log1p(sum(all(p[c] == r[c] for c in q) for r in rows)) for q in queries])
        for p in points
    ]
    assert shadow.counts(points, rows, queries) == pytest.approx(by_hand)
    chances = np.array([0.5, 0.2, 0.1])  # of a 1 in each column, columns being independent
    drawn = (rng.random((200_000, 3)) < chances).astype(int)
    expected = 200_000 * chances.prod()
    found = shadow.counts(np.ones((1, 3), int), drawn, [(0, 1, 2)])[0]
    assert found == pytest.approx(np.log1p(expected), abs=4 / np.sqrt(expected))


def test_worst_cases_are_the_farthest_and_then_the_rarest():
    codes = np.zeros((40, 3), int)
    points = np.arange(40, dtype=float)[:, None] / 40
    points[7] = 50.0
    codes[3], codes[7] = 1, 2
    found = shadow.worst_cases(points, codes, [(0, 1, 2)], 2)
    assert found.tolist() == [7, 3]


def test_numbers_are_scaled_by_the_reference_alone(table):
    reference, frame = table.frame.iloc[:50], table.frame.iloc[50:60]
    found = shadow.features(frame, reference, table.schema)
    age = (frame["age"] - reference["age"].mean()) / reference["age"].std(ddof=0)
    assert found[:, 0] == pytest.approx(age) and found.shape[1] == 2 + 2 + 4 + 2
    assert (found[:3] == shadow.features(frame.iloc[:3], reference, table.schema)).all()


# --- likelihood, bounds --------------------------------------------------------------------------


def test_likelihood_ratios_leave_the_scored_run_out():
    rng = np.random.default_rng(2)
    inside, values = rng.random((9, 3)) < 0.5, rng.normal(size=(9, 3))
    inside[:3] = True, False, True
    inside[3:6] = False, True, False
    found = shadow.likelihood_ratios(inside, values)
    for run, record in product(range(9), range(3)):
        rest = [r for r in range(9) if r != run]
        sides = [
            [values[r, record] for r in rest if inside[r, record] == side] for side in (True, False)
        ]
        spread = (
            np.sqrt(sum(((np.array(s) - np.mean(s)) ** 2).sum() for s in sides) / (8 - 2)) + 1e-6
        )
        logs = [norm.logpdf(values[run, record], np.mean(s), spread) for s in sides]
        assert found[run, record] == pytest.approx(logs[0] - logs[1])
    lonely = np.zeros((6, 1), bool)
    lonely[0] = True  # one run with the record says nothing about its spread
    assert (shadow.likelihood_ratios(lonely, rng.normal(size=(6, 1))) == 0).all()


def seen_with(inside, values):
    """What is seen where the count is all that a run says of a record."""
    nothing = np.ones(inside.shape)
    return shadow.Seen(
        inside, nothing, nothing, values, np.ones(inside.shape[1]), np.ones(inside.shape[1])
    )


def gaussian_epsilon(sigma, delta):
    """Of one Gaussian release of sensitivity 1 (Balle and Wang 2018, theorem 8), by a search."""
    grid = np.linspace(0, 20, 20_001)
    slack = norm.cdf(0.5 / sigma - grid * sigma) - np.exp(grid) * norm.cdf(
        -0.5 / sigma - grid * sigma
    )
    return grid[np.argmax(slack <= delta)]


@pytest.mark.parametrize("sigma", [0.4, 1.0, 3.0])
def test_a_release_with_known_noise_is_judged_as_theory_says(sigma):
    """Each run says of each record whether it is inside, plus Gaussian noise: all that is measured
    has a formula."""
    rng = np.random.default_rng(3)
    inside = rng.random((400, 20)) < 0.5
    found = shadow.judge(seen_with(inside, inside + rng.normal(0, sigma, inside.shape)), 1e-5)[
        "lira_counts"
    ]
    assert found.auc == pytest.approx(norm.cdf(1 / (sigma * np.sqrt(2))), abs=0.02)
    expected = norm.cdf(1 / sigma - norm.ppf(0.99))
    assert (
        found.tpr1 == pytest.approx(expected, abs=0.05)
        and found.tpr1_low < found.tpr1 < found.tpr1_high
    )
    true = gaussian_epsilon(sigma, 1e-5)
    assert 0.15 * true < found.bound < true


@pytest.mark.slow
def test_the_bound_holds_in_nineteen_of_twenty_audits_even_where_records_share_all_noise():
    """Randomised response at epsilon 1, and a draw that all records of a run share."""
    rng, keep = np.random.default_rng(4), np.e / (1 + np.e)
    above = []
    for _ in range(60):
        inside = rng.random((40, 10)) < 0.5
        told = (
            np.where(rng.random(inside.shape) < keep, inside, ~inside)
            + 2 * rng.random((40, 1)).round()
        )
        plan = shadow.best_plan(inside[:20], told[:20], 0.0)[1]
        above.append(shadow.plan_bound(inside[20:], told[20:], plan, 0.0) > 1)
    assert sum(above) <= 6


def test_too_few_trials_do_not_pretend_to_one_false_alarm_in_a_thousand():
    rng = np.random.default_rng(5)
    few = shadow.rates(rng.random((30, 10)) < 0.5, rng.normal(size=(30, 10)))
    many = shadow.rates(rng.random((300, 10)) < 0.5, rng.normal(size=(300, 10)))
    assert np.isnan(few[4:]).all() and not np.isnan(few[:4]).any() and not np.isnan(many).any()
    with pytest.raises(BadInput, match="at least four"):
        shadow.judge(seen_with(np.ones((3, 2), bool), np.ones((3, 2))), 0.0)


# --- runs ----------------------------------------------------------------------------------------


def test_a_coin_moves_nobody_else(toy):
    samples = membership_study.sampled("toy", seed=0, **SMALL)
    pools = [len(part) for part in samples[:3]]
    assert pools == [200, 200, 400] and len(set(samples.targets)) == 10
    runs = np.stack([membership_study.inside(samples, 100, 0, run) for run in range(200)])
    others = np.delete(runs, samples.targets, axis=1)
    assert (others.sum(axis=1) == 95).all() and 0.4 < runs[:, samples.targets].mean() < 0.6
    assert np.abs(np.corrcoef(runs[:, samples.targets].T) - np.eye(10)).max() < 0.3


def test_a_run_with_a_record_and_one_without_are_neighbours(toy, monkeypatch):
    """Sizes are declared and clients dealt as if the record were in, or not, all the same."""
    samples, asked = membership_study.sampled("toy", seed=0, **SMALL), []
    monkeypatch.setattr(trained, "remember", lambda key, make: make())

    def federated(module, members, parts, *, sizes, **options):
        asked.append(([set(members.frame["weight"].iloc[part]) for part in parts], sizes))
        raise InterruptedError

    monkeypatch.setattr(trained.settings, "federated", federated)
    usual = membership_study.inside(samples, 100, 0, 5)
    for flip in (False, True):
        chosen = usual.copy()
        chosen[samples.targets[0]] ^= flip
        monkeypatch.setattr(membership_study, "inside", lambda *_, chosen=chosen: chosen)
        with pytest.raises(InterruptedError):
            membership_study.synthetic("toy", "AIM", 0, 5, **SMALL)
    (one, sizes), (other, same) = asked
    assert sizes == same == [34, 33, 33]
    assert sorted(len(a ^ b) for a, b in zip(one, other, strict=True)) == [0, 0, 1]


def bounds(method, **more):
    rows = membership_study.measure("toy", method, 0, 32, **SMALL, **more)
    return {row["item"]: row["value"] for row in rows if row["metric"] == "epsilon_bound"}


@pytest.mark.slow
def test_a_copy_is_caught_by_every_attack_that_looks_at_rows(toy):
    found = bounds("A copy")
    ceiling = membership_study.ceiling(np.zeros((32, 10), bool))
    assert found["closest"] > 3 and found["lira_density"] > 2 and max(found.values()) <= ceiling


def test_a_second_sample_shows_nothing(toy):
    assert max(bounds("Second sample").values()) < 0.3


@pytest.mark.slow
def test_a_private_method_shows_no_more_than_it_promises(toy):
    found = bounds("Independent", epsilon=1.0)
    assert set(found) == set(shadow.ATTACKS) and max(found.values()) < 1
    assert max(bounds("Independent", epsilon=0.1).values()) < 0.3


def test_unknown_methods_and_short_tables_are_refused(toy):
    with pytest.raises(BadInput, match="does not take part"):
        membership_study.synthetic("toy", "GPT", 0, 0, **SMALL)
    with pytest.raises(BadInput, match="give at most 240"):
        membership_study.sampled("toy", 300, 10, 0)


# --- rows ----------------------------------------------------------------------------------------


def test_a_method_has_a_cell_for_each_budget_and_known_rows_have_one():
    cells = membership_study.cells(
        "quick", ["adult"], [*side_by_side.ENTRANTS, *side_by_side.YARDSTICKS]
    )
    assert len(cells) == 2 * len(side_by_side.ENTRANTS) + len(side_by_side.YARDSTICKS)
    assert {c["epsilon"] for c in cells if c["method"] == "AIM"} == {1.0, 10.0}
    assert {c["runs"] for c in cells if c["method"] == "FedVAE"} == {
        membership_study.SIZES["quick"]["network_runs"]
    }
    assert membership_study.version({"method": "A copy"}) == "1"
    assert membership_study.version({"method": "AIM"}).startswith("aim ")


def rows_of(method, **cell):
    rows = membership_study.measure("toy", method, 0, 12, **SMALL, **cell)
    asked = {"method": method, **cell}
    return to_frame(complete(rows, {"profile": "smoke", "params": params_text(asked)}))


@pytest.mark.slow
def test_rows_figure_and_table(toy):
    frame = pd.concat(
        [
            rows_of("A copy"),
            rows_of("Independent", epsilon=1.0),
            rows_of("Independent", epsilon=np.inf),
        ]
    )
    assert all(names.is_metric(name) for name in frame["metric"]) and (frame["data"] == "own").all()
    table = leaderboard.summary(frame)
    assert (
        table.index.names == ["method", "claimed ε"] and table["attack"].isin(shadow.ATTACKS).all()
    )
    assert (
        table.loc[("A copy", "none"), "ε at least"] > table.loc[("Independent", "1"), "ε at least"]
    )
    fig = strongest_attacks(leaderboard.strongest(frame), names.YARDSTICKS)
    assert [t.get_text() for t in fig.axes[0].get_yticklabels()] == ["Independent", "A copy"]
    assert all(ax.get_xlabel() for ax in fig.axes)
