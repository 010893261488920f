"""What chance alone does to importance and correlation."""

import numpy as np
import pandas as pd
import pytest
from scipy import stats
from search_rows import GRID, full_grid, search

from fedsynth_lib.core.contract import BadInput
from fedsynth_lib.runs.details import with_detail
from fedsynth_lib.works.chance import Cell, against_chance, digest, of_settings, shuffled, table_of


def score(each):
    return 0.2 * each["aggregation_interval"] - each["selection_pressure"] ** 0.5


def scores_of(rows, metric="log_cluster"):
    """Configuration -> its scores, by split."""
    rows = with_detail(rows[rows["metric"] == metric].sort_values("seed"))
    return {detail: tuple(own) for detail, own in rows.groupby("detail")["value"]}


def test_scores_are_dealt_anew_within_a_search_and_splits_stay_together():
    one, other = (
        search("fedbn", name, full_grid(), score, lambda each: each["population_size"])
        for name in "ab"
    )
    kept = one.copy()
    rows = pd.concat([one, other])
    dealt = shuffled(rows, np.random.default_rng(0))
    for before in (one, other):
        after = dealt[dealt["dataset"] == before["dataset"].iloc[0]]
        # triples, one for each split
        assert sorted(scores_of(after).values()) == sorted(scores_of(before).values())
        assert (
            scores_of(after) != scores_of(before)
            and scores_of(after).keys() == scores_of(before).keys()
        )
        assert scores_of(after, "seconds_training") == scores_of(before, "seconds_training")
    again = search("fedbn", "a", [{**each, "draw": 1} for each in full_grid()], score)
    assert len(shuffled(pd.concat([one, again]), np.random.default_rng(0))) == len(one)
    pd.testing.assert_frame_equal(one, kept)


@pytest.mark.slow
def test_what_matters_lies_above_chance_and_what_does_not_below():
    table = against_chance(search("fedbn", "adult", full_grid(), score), shuffles=8).set_index(
        "hyperparameter"
    )
    above = table["importance"] > table["chance"]
    assert above["aggregation_interval"] and not above["population_size"] and not above["runtime"]
    leads = table["first_by_chance"]
    assert np.isnan(leads["runtime"]) and leads.drop("runtime").sum() == pytest.approx(1)
    assert ((8 * leads.dropna()) % 1 == 0).all()


@pytest.mark.slow
def test_a_parameter_with_more_candidates_leads_by_chance_more_often():
    grid = [{"many": many, "few": few} for many in range(6) for few in range(2)]
    values = dict(zip(map(str, grid), np.random.default_rng(0).random(12), strict=True))
    rows = search("fedbn", "adult", grid, lambda each: values[str(each)])
    leads = against_chance(rows, shuffles=12).set_index("hyperparameter")["first_by_chance"]
    assert leads["many"] > 0.7


def with_scores(values):
    """Rows of a search of 36 configurations with these scores, (36, splits)."""
    rows = search("fedbn", "a", full_grid(), score, lambda each: each["population_size"])
    seeds = sorted(rows["seed"].unique())[: values.shape[1]]
    rows = with_detail(rows[rows["seed"].isin(seeds)])
    details = list(rows["detail"].unique())
    places = [
        (details.index(d), seeds.index(k))
        for d, k in zip(rows["detail"], rows["seed"], strict=True)
    ]
    wanted = np.array([values[place] for place in places])
    return rows.assign(value=np.where(rows["metric"] == "log_cluster", wanted, rows["value"]))


def test_splits_that_agree_tell_that_settings_matter_and_others_do_not():
    """The F test against one over permutations: within a split scores are dealt anew."""
    rng = np.random.default_rng(3)
    matters = np.arange(36)[:, None] / 9 + rng.normal(size=(36, 3)) + [0, 5, 9]
    found = of_settings(with_scores(matters), "fedbn", "a")
    assert found["settings, p"] < 1e-3
    assert found["splits agree"] == pytest.approx(
        np.corrcoef(matters.T)[np.triu_indices(3, 1)].mean()
    )
    noise = 0.15 * np.arange(36)[:, None] / 9 + rng.normal(size=(36, 3))
    between = [rng.permuted(noise, axis=0).mean(axis=1).var() for _ in range(4000)]
    expected = np.mean(np.array(between) >= noise.mean(axis=1).var())
    found = of_settings(with_scores(noise), "fedbn", "a")["settings, p"]
    assert found == pytest.approx(expected, abs=0.03) and 0.05 < found < 0.95
    one = of_settings(with_scores(noise[:, :1]), "fedbn", "a")
    assert np.isnan(list(one.values())).all()


def test_intervals_of_correlation_are_fishers():
    inputs = pd.DataFrame(full_grid())
    values = [score(each) for each in full_grid()]
    table = against_chance(search("fedbn", "adult", full_grid(), score), shuffles=1).set_index(
        "hyperparameter"
    )
    for name in GRID:
        interval = stats.pearsonr(inputs[name], values).confidence_interval(0.95)
        assert table.loc[name, ["low", "high"]].tolist() == pytest.approx(list(interval), abs=1e-4)


def test_no_shuffles_are_refused():
    with pytest.raises(BadInput, match="shuffles is 0"):
        against_chance(search("fedbn", "adult", full_grid(), score), shuffles=0)


@pytest.mark.slow
def test_a_cell_holds_the_table_and_knows_the_scores_it_is_of():
    rows = search("fedbn", "adult", full_grid(), score)
    found = pd.DataFrame(Cell(rows)(scores=digest(rows), shuffles=3, seed=1))
    direct = against_chance(rows, shuffles=3, seed=1)
    back = table_of(found)[list(direct)]
    pd.testing.assert_frame_equal(
        back, direct.sort_values("importance", ascending=False, ignore_index=True)
    )
    other = rows.assign(value=rows["value"] + 1e-6)
    assert digest(other) != digest(rows) == digest(rows.sample(frac=1, random_state=0))
    with pytest.raises(BadInput, match="give digest"):
        Cell(other)(scores=digest(rows), shuffles=3, seed=1)
