"""The claims of the works: what they come to on the published values (on committed rows:
test_verdict.py), and what their files may not say."""

import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from kept import committed_rows

from fedsynth_lib.core.contract import BadInput
from fedsynth_lib.core.store import project_root
from fedsynth_lib.figures import Saver
from fedsynth_lib.printed.outcomes import UNDECIDED, outcome
from fedsynth_lib.printed.published import UNTESTED, WORKS, claims_path, load_claims, read_claims
from fedsynth_lib.runs import names
from fedsynth_lib.tables.lock import table_rows
from fedsynth_lib.verdicts import judges
from fedsynth_lib.verdicts.cells import cells_of, measured_cells, printed_cells
from fedsynth_lib.verdicts.claim_files import parsed, written
from fedsynth_lib.verdicts.custom.claims import CUSTOM
from fedsynth_lib.verdicts.judges import (
    MOST_REDRAWS,
    REDRAWS,
    Power,
    all_ran_once,
    decided,
    digest,
    evaluate,
    evaluate_all,
    judged,
    minutes_to_run,
    powers_of,
    ran_once,
    save_claims,
    verdict_of,
)
from fedsynth_lib.verdicts.judges import stored as stored_claims
from fedsynth_lib.verdicts.places import same_layout
from fedsynth_lib.verdicts.redraws import redrawn, spread_of
from fedsynth_lib.verdicts.vocabulary import band

CLAIMS = [claim for work in WORKS for claim in written(work)]
IN_TABLES = [work for work in WORKS if work != "sattarov2024"]  # which shows results in figures
VERDICTS = {
    "yes": "holds",
    "partly": "partly",
    "no": "does not hold",
    "not testable from tables": UNTESTED,
}
# the share of each claim on the published values; on our own results: data/results/claims.csv
PINNED = pd.read_csv(Path(__file__).parent / "claims_judged.csv").set_index("id")


@pytest.fixture(scope="module")
def on_print():
    """Claim -> (outcome, evidence) on the printed cells of its work."""
    return {
        claim.id: evaluate(claim, cells)[:2]
        for work in IN_TABLES
        for cells in [printed_cells(work)]
        for claim in written(work)
    }


def stated(claim):
    """What its file says of a claim on the printed values; rounding of the figures can hide it."""
    work, number = claim.id.split("/")
    said = read_claims(work)[claim.group][number]
    return said.get("on_rounded_figures", said["holds_on_published_values"])


@pytest.mark.slow
@pytest.mark.parametrize("work", IN_TABLES)
def test_each_claim_says_of_print_what_its_file_says(on_print, work):
    for claim in written(work):
        share, evidence = on_print[claim.id]
        said = outcome(share)
        assert said == VERDICTS[stated(claim)], (claim.id, evidence)
        assert evidence and "\n" not in evidence and "nan" not in evidence, claim.id


@pytest.mark.slow
def test_each_claim_on_print_has_the_share_it_had(on_print):
    shares = {name: outcome for name, (outcome, _) in on_print.items()}
    pinned = PINNED["share"]
    assert set(shares) == set(pinned.index)
    found = pd.Series({name: float("nan") if v is None else float(v) for name, v in shares.items()})
    pd.testing.assert_series_equal(found, pinned.loc[found.index], check_names=False, rtol=1e-8)


def test_every_claim_that_is_not_tested_is_listed_with_what_it_needs():
    text = (project_root() / "data" / "published" / "untested.md").read_text(encoding="utf-8")
    listed = [
        f"{work}/{number}"
        for line in text.splitlines()
        if (found := re.match(r"\| (\w+2\d{3}) (c\d\d(?:, c\d\d)*) \|", line))
        for work, numbers in [found.groups()]
        for number in numbers.split(", ")
    ]
    assert len(listed) == len(set(listed))
    kept = stored_claims().set_index("id")["verdict"]
    tested = set(kept[kept != UNTESTED].index)
    assert set(listed) == {claim.id for claim in CLAIMS} - tested


def test_every_claim_stands_once_and_names_grids_of_its_work():
    assert len(CLAIMS) == 139 and len({claim.id for claim in CLAIMS}) == 139
    assert [claim.id for claim in CLAIMS] == list(load_claims()["id"])
    for claim in CLAIMS:
        assert claim.conditions and claim.grids, claim.id
        assert all(claim.id.split("/")[0] in grid for grid in claim.grids), claim.id


def test_every_custom_condition_is_asked_for():
    assert {c.of for claim in CLAIMS for c in claim.conditions if c.kind == "custom"} == set(CUSTOM)


@pytest.mark.parametrize("work", WORKS)
def test_metrics_are_known_and_axes_have_no_value_twice(work):
    axes = read_claims(work)["axes"]
    made = ["seconds", "mrr_js", "cramers_v_error", "pearson_error", "pearson_size"]  # of cells
    made += ["pearson_turned", "first_split_named"]  # the last is in no rows yet
    assert all(names.is_metric(metric) for metric in axes["metric"] if metric not in made)
    assert all(len(values) == len(set(values)) for values in axes.values())


# --- groups and readings -------------------------------------------------------------------------


@pytest.mark.slow
def test_a_group_is_judged_on_the_rows_at_hand_and_all_groups_on_their_own_grids():
    rows = committed_rows("maddock2024", "paper")
    own = rows[rows["grid"] == "41_maddock2024_feature_skew"].drop(columns="grid")
    table = judged("maddock2024", own, "feature_skew")
    told = judged("maddock2024", rows).set_index("id").loc["maddock2024/c22"]
    assert table["id"].tolist() == ["maddock2024/c22"]
    assert table.iloc[0][["verdict", "share", "evidence"]].tolist() == (
        told[["verdict", "share", "evidence"]].tolist()
    )
    assert judged("maddock2024", rows[rows["grid"] == "none"]).empty
    with pytest.raises(BadInput, match="no group of claims 'table': choose one of baselines, "):
        judged("maddock2024", own, "table")


# --- redraws -------------------------------------------------------------------------------------


def toy(means, std, n=3, metric="nll"):
    """Cells of maddock2024: methods on adult."""
    cells = printed_cells("maddock2024").iloc[: len(means)]
    return cells.assign(
        **{
            "mean": list(means.values()),
            "std": std,
            "n": n,
            "sem": std / n**0.5,
            "dataset": "adult",
        },
        **{"method": list(means), "metric": metric, "values": [(m,) * n for m in means.values()]},
    )


def drawn(work, cells, times=400, rng=0):
    """Resampled sets of cells."""
    spread, rng = spread_of(work, cells), np.random.default_rng(rng)
    return [redrawn(cells, spread, rng) for _ in range(times)]


@pytest.mark.slow
def test_resampled_means_spread_as_runs_of_unknown_deviation_do():
    cells = toy({"AIM": 10.0}, 3.0)
    means = np.array([again["mean"].item() for again in drawn("maddock2024", cells, 3_000, 1)])
    moved = np.abs(means - 10) / (3 / 3**0.5)
    for level, limit in ((0.5, 0.816), (0.9, 2.920)):  # Student's t of two degrees of freedom
        assert (moved < limit).mean() == pytest.approx(level, abs=0.03)
    (again,) = drawn("maddock2024", cells, 1)
    assert again["shift"].item() == pytest.approx(again["mean"].item() - 10)
    (alone,) = drawn("maddock2024", cells.assign(n=1), 1)
    assert alone["mean"].item() == 10


def test_more_runs_spread_less():
    cells, rng = toy({"AIM": 10.0}, 3.0, n=100), np.random.default_rng(0)
    spread = spread_of("maddock2024", cells)
    widths = {
        times: np.std([redrawn(cells, spread, rng, times)["mean"] for _ in range(500)])
        for times in (1, 4)
    }
    assert widths[1] == pytest.approx(0.3, rel=0.1) and widths[4] == pytest.approx(0.15, rel=0.1)
    assert redrawn(cells, spread, rng, 4)["n"].item() == 400


def runs_of(*runs, **names):
    """Cells of martinez2024 with these runs, three splits each, at places of their own."""
    values = [tuple(map(float, each)) for each in runs]
    base = {"metric": "pcd", "dataset": "adult", "item": "", "setting": "federated"}
    lines = [
        {**base, "method": f"m{k}", "epsilon": 1.0, "partition": "iid", "n_clients": 3.0}
        | {"mean": np.mean(v), "std": np.std(v, ddof=1), "n": 3, "values": v, "seeds": (1, 2, 3)}
        | {name: given[k] for name, given in names.items()}
        for k, v in enumerate(values)
    ]
    return pd.DataFrame(lines)


def test_cells_of_the_same_splits_move_together():
    """All methods gain or lose with a split: their differences are sure where their levels are
    not."""
    split = np.array([-1.0, 0.0, 1.0])
    noise = np.random.default_rng(1).normal(0, 0.02, (6, 3))
    cells = runs_of(*(k + split + own for k, own in enumerate(noise)))
    means = np.array([again["mean"] for again in drawn("leitner2023", cells)])
    assert means.std(axis=0).min() > 0.4
    assert np.diff(means, axis=1).std(axis=0).max() < 0.1
    apart = cells.assign(seeds=[(k, 10 + k, 20 + k) for k in range(6)])  # other splits each
    means = np.array([again["mean"] for again in drawn("leitner2023", apart)])
    assert np.diff(means, axis=1).std(axis=0).min() > 0.4


def test_resampled_cells_of_one_design_spread_as_the_observed_ones_do():
    """Nine scenarios that differ by chance alone: adding chance to them once more would spread them
    by the root of two."""
    rng, kept = np.random.default_rng(3), []
    for _ in range(20):
        cells = runs_of(*rng.normal(0, 1, (9, 3)), method=["m"] * 9, n_clients=range(9))
        again = [each["mean"].std() for each in drawn("martinez2024", cells, 20)]
        kept.append(np.mean(again) / cells["mean"].std())
    assert 0.9 < np.mean(kept) < 1.2


def test_cells_of_one_run_do_not_move_what_is_drawn_for_others():
    several = toy({"AIM": 10.0, "Oracle": 11.0}, 3.0)
    single = toy({"Naive": 12.0}, 3.0).assign(n=1)
    (kept,) = drawn("maddock2024", several, 1)
    for order in ([single, several], [several, single]):
        (again,) = drawn("maddock2024", pd.concat(order, ignore_index=True), 1)
        assert again.loc[again["n"] == 1, "mean"].tolist() == [12.0]
        assert again.loc[again["n"] > 1, "mean"].tolist() == kept["mean"].tolist()


def test_a_claim_gets_no_verdict_from_one_run_whatever_else_ran_twice():
    claims = {claim.id: claim for claim in written("leitner2023")}
    measured = pd.DataFrame({"metric": ["jsd", "auroc"], "n": [2, 1]})
    assert all_ran_once(claims["leitner2023/c07"], measured)  # about utility
    assert not all_ran_once(claims["leitner2023/c11"], measured)  # about columns


def resting_on_one(work, group, **once):
    """The claims of a group that rest on a single run, where the named cells have one."""
    claims = [claim for claim in written(work) if claim.group == group]
    rows = committed_rows(work, "paper")
    measured = measured_cells(work, rows[rows["grid"].isin(claims[0].grids)])
    fewer = np.logical_and.reduce([measured[axis] == value for axis, value in once.items()])
    assert fewer.any()
    measured = measured.assign(n=measured["n"].clip(lower=2).mask(fewer, 1))
    evaluated = evaluate_all(work, claims, measured)
    told = [claim for claim in claims if evaluated[claim.id].share is not None]
    return [name.split("/")[1] for name in ran_once(work, measured, told, evaluated)]


@pytest.mark.slow
def test_a_claim_gets_no_verdict_that_rests_on_a_single_training():
    private = resting_on_one("maddock2024", "baselines", method="DP-CTGAN", dataset="adult")
    assert private == ["c01"]  # central AIM beats it
    random = resting_on_one("maddock2024", "baselines", method="FLAIM (Random)", dataset="adult")
    assert random == ["c02", "c03"]
    # no claim compares by a density that has no bound
    left_out = resting_on_one("maddock2024", "baselines", method="DP-CTGAN", dataset="covertype")
    assert left_out == []


@pytest.mark.slow
def test_a_claim_whose_tests_want_repeats_cannot_be_told_from_one_run():
    rows = committed_rows("martinez2024", "paper")
    once = rows[(rows["grid"] == "23_martinez2024_fedvae_fidelity") & (rows["seed"] == 7)]
    for known, verdict, why in (
        (once, UNDECIDED, "one run of some"),
        (once[once["setting"] != "central"], UNTESTED, ""),  # a side of the test is missing
        (once.assign(profile="quick"), UNTESTED, ""),
    ):
        found = judged("martinez2024", known, "fedvae_fidelity", redraws=0).set_index("id")
        told = found.loc["martinez2024/c32"]
        assert (told["verdict"], told["redrawn"]) == (verdict, why)
    assert "2 seeds or more" in told["evidence"] and np.isnan(told["share"])


def test_an_undecided_claim_names_the_runs_and_minutes_that_would_decide():
    rows = committed_rows("martinez2024", "paper")
    once = rows[(rows["grid"] == "23_martinez2024_fedvae_fidelity") & (rows["seed"] == 7)]
    found = judged("martinez2024", once, "fedvae_fidelity", redraws=0).set_index("id")
    told = found.loc["martinez2024/c32"]  # as many runs as the work made
    assert told["runs_needed"] == 3 and told["needs"].startswith("3 runs, about ")
    # ten networks of 360 to 386 seconds a run, two runs more
    assert told["minutes"] == pytest.approx(2 * 10 * 383 / 60, rel=0.03)


def test_missing_runs_cost_what_the_missing_table_takes_to_train_and_to_measure(monkeypatch):
    """Adult ran twice and Philadelphia once, each budget in 60 seconds of training; known rows of
    Adult were measured in a millisecond each, so those of Philadelphia take seven times as long."""
    claim = next(c for c in written("sattarov2024") if c.id == "sattarov2024/c07")  # at 1 and inf
    rows = committed_rows("sattarov2024", "paper").query("grid == '51_sattarov2024_budget'")
    rows = rows.query("setting == 'federated' and epsilon == 1 and metric == 'risk'")
    one = rows[(rows["dataset"] == "adult") & (rows["seed"] == 0)].head(1).assign(seconds=60.0)
    ran = [("adult", 0), ("adult", 1), ("philadelphia", 0)]
    rows = pd.concat(
        one.assign(dataset=table, seed=seed, epsilon=epsilon, cell=f"{table} {seed} {epsilon}")
        for table, seed in ran
        for epsilon in (0.2, 1.0, np.inf)
    )
    measured = table_rows("adult") / 1000
    known = {"dataset": ["adult"], "seconds": [measured], "metrics": [frozenset({"risk"})]}
    monkeypatch.setattr(judges, "_known", lambda work: pd.DataFrame(known))
    expected = 2 * (60 + table_rows("philadelphia") / 1000) / 60
    assert minutes_to_run(claim, rows, 2) == pytest.approx(expected)
    # of a table that has no runs, both runs of both budgets
    whole = expected + 4 * (60 + table_rows("bank") / 1000) / 60
    assert minutes_to_run(claim, rows, 2, ["bank"]) == pytest.approx(whole)


def test_every_undecided_claim_names_runs_and_minutes_and_a_bound_stands_in_words_alone():
    undecided = stored_claims().query("verdict == @UNDECIDED").set_index("id")
    assert undecided["needs"].str.contains(r"\d+ runs.* minutes? of one core$").all()
    bounds = undecided["needs"].str.startswith("more than")
    assert bounds.any()
    assert undecided.loc[bounds, ["runs_needed", "minutes"]].isna().all(axis=None)
    assert (undecided.loc[~bounds, "minutes"] > 0).all()


@pytest.mark.slow
def test_real_rows_need_no_second_run_beside_trainings_that_have_one():
    assert resting_on_one("leitner2023", "utility", method="Real") == []
    assert "c06" in resting_on_one("leitner2023", "utility", method="CTGAN", dataset="obesity")


def test_methods_are_judged_on_the_same_test_rows_and_pooled_deviations_are_known():
    rows = committed_rows("apellaniz2025", "paper")
    rows = rows[rows["grid"] == "61_apellaniz2025_iid"]
    cells = measured_cells("apellaniz2025", rows)
    draws = np.array([again["mean"] for again in drawn("apellaniz2025", cells)])
    accuracy = (cells["metric"].str.startswith("acc") & (cells["node"] == "1")).to_numpy()
    accuracy &= (cells["dataset"] == "brfss_heart").to_numpy()
    share = cells["mean"][accuracy].iloc[0]
    least = np.sqrt(share * (1 - share) / 1900)
    assert (draws.std(axis=0)[accuracy] > 0.9 * least).all()
    assert (np.diff(draws[:, accuracy], axis=1).std(axis=0) < 1.2 * least).all()  # not 1.4 times
    node = ((cells["metric"] == "js_divergence") & (cells["node"] == "1")).to_numpy()
    pooled = np.sqrt((cells["std"][node] ** 2).mean()) / np.sqrt(3)
    assert draws.std(axis=0)[node] == pytest.approx(np.full(node.sum(), pooled), rel=0.2)


def test_the_layout_of_cells_is_found_once_and_gives_the_same_outcome():
    rows = committed_rows("maddock2024", "paper")
    cells = cells_of("maddock2024", rows[rows["grid"] == "45_maddock2024_all_tables"])
    own = [claim for claim in written("maddock2024") if claim.group == "all_tables"]
    other = cells.assign(mean=-cells["mean"])
    with same_layout():
        found = [evaluate(claim, table).share for table in (cells, other) for claim in own]
    assert found == [evaluate(claim, table).share for table in (cells, other) for claim in own]


@pytest.mark.parametrize(
    ("share", "same", "in_full", "said"),
    [
        (1.0, 100, 100, "holds"),
        (1.0, 95, 95, "holds"),
        (1.0, 94, 94, "undecided"),
        (0.0, 95, 0, "does not hold"),
        (0.6, 100, 0, "partly"),
        (0.6, 95, 5, "partly"),
        (0.0, 60, 5, "not in full"),  # some of it holds in the others
        (0.6, 60, 0, "not in full"),
        (0.0, 60, 6, "undecided"),
        (0.6, 60, 40, "undecided"),
        (None, 0, 0, "not tested"),
    ],
)
def test_an_outcome_is_what_resampled_runs_reach_as_well(share, same, in_full, said):
    assert outcome(share, same, in_full, 100) == said
    power = Power(same, in_full, 100, 3, 0)
    assert share is None or power.verdict(share) == said


def test_without_resampled_runs_the_share_decides():
    assert [outcome(share) for share in (1.0, 0.5, 0.0)] == ["holds", "partly", "does not hold"]


@pytest.mark.parametrize(
    ("same", "enough"), [(50, True), (49, False), (46, False), (42, True), (25, True)]
)
def test_a_verdict_is_settled_where_a_few_redraws_more_or_less_leave_it(same, enough):
    assert Power(same, same, 50, 3, 0).is_settled(1.0) is enough


def test_more_runs_decide_where_nearly_all_sets_say_the_same():
    assert decided([1.0] * 48 + [0.5] * 2) and decided([0.2] * 30 + [0.0] * 20)
    assert not decided([1.0] * 30 + [0.5] * 20)


def toy_claim(name="toy"):
    claim = next(c for c in written("maddock2024") if c.id == "maddock2024/c01")
    below = claim.conditions[0]
    below = replace(
        below, kind="below", of=["AIM", "Oracle"], where={}, each=(), own={"where": {}}, only=""
    )
    return replace(claim, id=f"maddock2024/{name}", conditions=(below,))


@pytest.mark.slow
def test_runs_are_resampled_until_verdicts_are_settled_and_the_runs_named_that_would_decide():
    """`A below B` in one place: by 9 standard errors, by 1.3 (one in ten the other way round; four
    times the runs make that 2.6), and by none."""
    found = {}
    for gap in (9.0, 1.3, 0.0):
        cells = toy({"AIM": 0.0, "Oracle": gap * 2**0.5}, 1000**0.5, n=1000)
        asked = [(toy_claim(), 1.0)]
        found[gap] = powers_of("maddock2024", cells, asked, MOST_REDRAWS)["maddock2024/toy"]
    assert (found[9.0].same, found[9.0].redraws) == (REDRAWS, REDRAWS)
    assert found[9.0].verdict(1.0) == "holds" and found[9.0].runs_needed == 0
    assert found[1.3].same / found[1.3].redraws == pytest.approx(0.9, abs=0.12)
    assert found[1.3].verdict(1.0) == UNDECIDED and found[1.3].runs_needed in (2000, 4000)
    assert found[0.0].verdict(1.0) == UNDECIDED and found[0.0].runs_needed == 0


def test_rows_that_fall_short_may_bear_a_claim_out_and_cannot_refute_it():
    claim = replace(toy_claim(), short="a tenth of the steps", minutes=8)
    assert verdict_of(claim, 1.0, Power(50, 50, 50, 2, 0), "paper") == "holds"
    assert verdict_of(claim, 0.0, Power(50, 0, 50, 2, 0), "paper") == UNDECIDED


def test_a_claim_is_resampled_anew_where_its_cells_or_conditions_change():
    claim = toy_claim()
    same = digest("maddock2024", claim, {}, "a,b")
    assert digest("maddock2024", toy_claim(), {}, "a,b") == same
    other = replace(claim, conditions=(replace(claim.conditions[0], of=["Oracle", "AIM"]),))
    changed = {
        digest("maddock2024", other, {}, "a,b"),
        digest("maddock2024", claim, {"risk": ""}, "a,b"),
        digest("maddock2024", claim, {}, "a,c"),
    }
    assert len(changed | {same}) == 4


@pytest.mark.parametrize(
    ("stated", "places", "expected"),
    [
        *((6, 9, (3, 9)), (0, 9, (0, 2)), (9, 9, (7, 9)), (0, 36, (0, 2)), (5, 9, (2, 8))),
        *((0, 50, (0, 2)), (50, 50, (48, 50)), (25, 50, (18, 32))),
        *((3, 9, (1, 6)), (1, 1, (1, 1))),  # a stated effect is not met by none at all
    ],
)
def test_an_exact_count_is_a_band_of_what_chance_makes_of_it(stated, places, expected):
    assert band(stated, places) == expected


@pytest.mark.slow
def test_another_reading_sees_other_cells():
    rows = committed_rows("sattarov2024", "paper")
    usual, bare = (
        judged("sattarov2024", rows, "budget", redraws=0, risk=risk).set_index("id")["evidence"]
        for risk in ("", "_success")
    )
    assert usual["sattarov2024/c11"] == bare["sattarov2024/c11"]  # maps
    assert usual["sattarov2024/c06"] != bare["sattarov2024/c06"]  # risks


def test_rows_of_several_profiles_are_refused():
    rows = committed_rows("maddock2024", "paper")
    rows = rows[rows["grid"] == "40_maddock2024_skew"]
    with pytest.raises(BadInput, match="one profile at a time"):
        judged("maddock2024", pd.concat([rows, rows.assign(profile="quick")]), "skew")
    assert cells_of("maddock2024", rows.assign(paper="leitner2023")).empty


# --- what a file may not say ---------------------------------------------------------------------


def refused(change, number="c07"):
    """The message on the file of maddock2024 after a change of one claim."""
    data = read_claims("maddock2024")
    group = next(name for name, entries in data.items() if number in entries)
    claim = {**data[group][number], **change}
    broken = {**data, group: {**data[group], number: claim}}
    with pytest.raises(BadInput) as error:
        parsed("maddock2024", broken, claims_path("maddock2024").name)
    return str(error.value)


@pytest.mark.parametrize(
    ("conditions", "message"),
    [
        ([{"belw": ["AIM", "DistAIM"]}], "unknown condition {'belw'"),
        ([{"below": ["AIM", "DistAIM"], "ratio": ["AIM", "DistAIM"]}], "unknown condition"),
        ([{"below": ["AIM", "DistAIM"], "wher": {}}], "unknown key 'wher' (did you mean 'where'?)"),
        ([{"below": ["AIM", "DistAIM"], "least": 1}], "unknown key 'least'"),
        ([{"below": ["AIM", "DISTAIM"]}], "unknown method 'DISTAIM'"),
        ([{"below": ["AIM", {"any": ["x"]}]}], "unknown method 'x'"),
        ([{"below": ["AIM", "DistAIM"], "where": {"metric": "eror"}}], "unknown metric 'eror'"),
        ([{"below": ["AIM", "DistAIM"], "where": {"noise": 1}}], "unknown axis 'noise'"),
        ([{"below": ["AIM", "DistAIM"], "each": ["round"]}], "unknown axis 'round'"),
        ([{"below": [1, 4], "across": "steps"}], "unknown axis 'steps'"),
        ([{"value": "fidelty", "over": 0}], "unknown metric 'fidelty'"),
        ([{"value": "nll"}], "value needs one of least, most, over, under"),
        ([{"tested": "central"}], "tested needs one of outcome, score"),
        (
            [{"ratio": ["AIM", "DistAIM"], "least": 1, "statistic": "mode"}],
            "unknown statistic 'mode'",
        ),
        ([{"below": ["AIM", "DistAIM"], "incomplete": "drop"}], "unknown incomplete 'drop'"),
        ([{"monotone": "up", "across": "epsilon"}], "unknown monotone 'up': choose one of either"),
        ([{"monotone": "rising", "across": "rounds"}], "needs several values of rounds"),
        (
            [
                {
                    "better": ["AIM", "DistAIM"],
                    "where": {"metric": "mean_heterogeneity"},
                    "each": ["epsilon"],
                }
            ],
            "nothing says which way mean_heterogeneity is better",
        ),
        ([{"custom": "penalty"}], "unknown function of custom/claims.py 'penalty'"),
        ([{"below": ["AIM", "DistAIM"], "each": []}], "several values of epsilon: name it in each"),
    ],
)
def test_a_condition_that_nobody_knows_is_refused_with_file_claim_and_key(conditions, message):
    told = refused({"conditions": conditions})
    assert told.startswith("maddock2024.toml, claim c07: ") and message in told


def test_keys_of_claims_groups_and_files_are_checked_too():
    told = refused({"wher": {}})
    assert told == "maddock2024.toml, claim c07: unknown key 'wher' (did you mean 'where'?)."
    data = read_claims("maddock2024")
    with pytest.raises(BadInput, match=r"toy\.toml, shared: unknown key 'grid'"):
        parsed("maddock2024", {**data, "shared": {**data["shared"], "grid": []}}, "toy.toml")
    with pytest.raises(BadInput, match=r"toy\.toml, skew: unknown key 'claims'"):
        parsed("maddock2024", {**data, "skew": {**data["skew"], "claims": []}}, "toy.toml")


def test_a_notebook_saves_the_claims_of_its_chapter_with_another_reading_beside(tmp_path):
    rows = committed_rows("maddock2024", "paper")
    rows = rows[rows["grid"] == "41_maddock2024_feature_skew"]
    own = rows.assign(profile="quick")
    again = pd.Series(["as ever"])
    how = {"what": "The claim", "on_print": True, "beside": {"otherwise": again}}
    save = Saver(profile="quick", data="real", folder=tmp_path)
    saved = save_claims(save, "maddock2024", own, "feature_skew", "claims", **how)
    table = pd.read_csv(saved.csv)
    columns = ["id", "claim", "verdict", "share", "otherwise", "evidence", "published_holds"]
    assert list(table)[:7] == columns and table["otherwise"].tolist() == ["as ever"]
    assert "The claim, judged on our rows, profile quick" in saved.md.read_text(encoding="utf-8")
    save = Saver(profile="paper", data="real", folder=tmp_path)
    saved = save_claims(save, "maddock2024", rows, "feature_skew", "claims", what="The claim")
    table = pd.read_csv(saved.csv)
    assert list(table)[:6] == ["id", "claim", "verdict", "share", "redrawn", "needs"]
    assert table["redrawn"].str.fullmatch(r"\d+ of \d+").all()
