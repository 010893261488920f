"""The claims of the works: what they come to on print (on committed rows: test_verdict.py), and what
their files may not say."""

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
from fedsynth_lib.printed.outcomes import VACUOUS, outcome
from fedsynth_lib.printed.published import UNTESTED, WORKS, claims_path, load_claims, read_claims
from fedsynth_lib.runs import names
from fedsynth_lib.verdicts.cells import (
    cells_of,
    finished,
    measured_cells,
    printed_cells,
    redrawn,
)
from fedsynth_lib.verdicts.claim_files import parsed, written
from fedsynth_lib.verdicts.custom.claims import CUSTOM
from fedsynth_lib.verdicts.judges import (
    MOST_REDRAWS,
    REDRAWS,
    all_ran_once,
    judge,
    judged,
    ran_once,
    save_claims,
    settled,
    shares_anew,
)
from fedsynth_lib.verdicts.places import same_layout
from fedsynth_lib.verdicts.vocabulary import band

CLAIMS = [claim for work in WORKS for claim in written(work)]
IN_TABLES = [work for work in WORKS if work != "sattarov2024"]  # which shows results in figures
VERDICTS = {
    "yes": "holds",
    "partly": "partly",
    "no": "does not hold",
    "not testable from tables": UNTESTED,
}
# what each claim comes to, as it was before claims were data
PINNED = pd.read_csv(Path(__file__).parent / "claims_judged.csv").set_index(["on", "id"])


@pytest.fixture(scope="module")
def on_print():
    """Claim -> (outcome, evidence) on the printed cells of its work."""
    return {
        claim.id: judge(claim, cells)
        for work in IN_TABLES
        for cells in [printed_cells(work)]
        for claim in written(work)
    }


def stated(claim):
    """What its file says of a claim on the printed values; rounding of the figures can hide it."""
    work, number = claim.id.split("/")
    said = read_claims(work)[claim.group][number]
    return said.get("on_rounded_figures", said["holds_on_published_values"])


@pytest.mark.parametrize("work", IN_TABLES)
def test_each_claim_says_of_print_what_its_file_says(on_print, work):
    for claim in written(work):
        share, evidence = on_print[claim.id]
        said = UNTESTED if share is None else outcome(share, share, share)
        assert said == VERDICTS[stated(claim)], (claim.id, evidence)
        assert evidence and "\n" not in evidence and "nan" not in evidence, claim.id


def test_each_claim_on_print_has_the_share_it_had(on_print):
    shares = {name: outcome for name, (outcome, _) in on_print.items()}
    pinned = PINNED.loc["print", "share"]
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
    verdicts = PINNED.loc["paper", "verdict"]
    vacuous = set(PINNED[PINNED["verdict"] == VACUOUS].index.get_level_values("id"))
    tested = set(verdicts[verdicts != UNTESTED].index) | vacuous
    assert set(listed) == {claim.id for claim in CLAIMS} - tested


def test_every_claim_stands_once_and_names_grids_of_its_work():
    assert len(CLAIMS) == 139 and len({claim.id for claim in CLAIMS}) == 139
    assert [claim.id for claim in CLAIMS] == list(load_claims()["id"])
    for claim in CLAIMS:
        assert claim.conditions and claim.grids, claim.id
        assert all(claim.id.split("/")[0] in grid for grid in claim.grids), claim.id


def test_every_claim_has_a_main_condition():
    without = [claim.id for claim in CLAIMS if all(c.side for c in claim.conditions)]
    assert not without


def test_every_custom_condition_is_asked_for():
    assert {c.of for claim in CLAIMS for c in claim.conditions if c.kind == "custom"} == set(CUSTOM)


@pytest.mark.parametrize("work", WORKS)
def test_metrics_are_known_and_axes_have_no_value_twice(work):
    axes = read_claims(work)["axes"]
    made = ("seconds", "mrr_js")  # of cells, by `verdicts/custom/cells.py`
    assert all(names.is_metric(metric) for metric in axes["metric"] if metric not in made)
    assert all(len(values) == len(set(values)) for values in axes.values())


# --- groups and readings -------------------------------------------------------------------------


def test_a_group_is_judged_on_the_rows_at_hand_and_all_groups_on_their_own_grids():
    rows = committed_rows("maddock2024", "quick")
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


def test_redrawn_means_spread_as_runs_of_unknown_deviation_do():
    cells = toy({"AIM": 10.0}, 3.0).iloc[[0] * 20_000].reset_index(drop=True)
    again = redrawn("maddock2024", cells, np.random.default_rng(0))
    moved = (again["mean"] - 10) / (3 / 3**0.5)
    # Student's t of two degrees of freedom, and chi-squared of as many
    for level, limit in ((0.5, 0.816), (0.9, 2.920)):
        assert (moved.abs() < limit).mean() == pytest.approx(level, abs=0.015)
    assert [run[0] for run in again["values"]] == again["mean"].tolist()
    alone = redrawn("maddock2024", cells.assign(n=1), np.random.default_rng(0))
    assert (alone["mean"] == 10).all()


def test_cells_of_one_run_do_not_move_what_is_drawn_for_others():
    several = toy({"AIM": 10.0, "Oracle": 11.0}, 3.0)
    single = toy({"Naive": 12.0}, 3.0).assign(n=1)
    kept = redrawn("maddock2024", several, np.random.default_rng(0))
    for order in ([single, several], [several, single]):
        both = pd.concat(order, ignore_index=True)
        again = redrawn("maddock2024", both, np.random.default_rng(0))
        assert again.loc[again["n"] == 1, "mean"].tolist() == [12.0]
        assert again.loc[again["n"] > 1, "mean"].tolist() == kept["mean"].tolist()


def test_a_claim_gets_no_verdict_from_one_run_whatever_else_ran_twice():
    claims = {claim.id: claim for claim in written("leitner2023")}
    measured = pd.DataFrame({"metric": ["jsd", "pearson"], "n": [2, 1]})
    assert all_ran_once(claims["leitner2023/c16"], measured)  # about correlations
    assert not all_ran_once(claims["leitner2023/c11"], measured)  # about columns
    # cells of a side clause decide nothing, however often they ran
    beside = [
        replace(c, side=True, where={"metric": ["jsd"]})
        for c in claims["leitner2023/c11"].conditions
    ]
    alone = claims["leitner2023/c16"]
    assert all_ran_once(replace(alone, conditions=(*alone.conditions, *beside)), measured)


def resting_on_one(work, group, **once):
    """The claims of a group that rest on a single run, where the named cells have one."""
    claims = [claim for claim in written(work) if claim.group == group]
    rows = committed_rows(work, "paper")
    measured = measured_cells(work, rows[rows["grid"].isin(claims[0].grids)])
    fewer = np.logical_and.reduce([measured[axis] == value for axis, value in once.items()])
    assert fewer.any()
    measured = measured.assign(n=measured["n"].clip(lower=2).mask(fewer, 1))
    cells = finished(work, measured)
    told = [claim for claim in claims if judge(claim, cells)[0] is not None]
    told = ran_once(work, measured, told)
    return {name.split("/")[1]: words for name, words in told.items()}


def test_a_claim_gets_no_verdict_that_rests_on_a_single_training():
    some = "one run of some"
    private = resting_on_one("maddock2024", "baselines", method="DP-CTGAN", dataset="adult")
    assert private == {"c01": some}  # central AIM beats it
    random = resting_on_one("maddock2024", "baselines", method="FLAIM (Random)", dataset="adult")
    assert random == {"c02": some, "c03": some}
    # no claim compares by a density that has no bound
    left_out = resting_on_one("maddock2024", "baselines", method="DP-CTGAN", dataset="covertype")
    assert left_out == {}


def test_a_claim_whose_tests_want_repeats_cannot_be_told_from_one_run():
    rows = committed_rows("martinez2024", "paper")
    once = rows[(rows["grid"] == "23_martinez2024_fedvae_fidelity") & (rows["seed"] == 7)]
    for known, verdict, why in (
        (once, "cannot tell", "one run of some"),
        (once[once["setting"] != "central"], UNTESTED, ""),  # a side of the test is missing
        (once.assign(profile="quick"), UNTESTED, ""),
    ):
        found = judged("martinez2024", known, "fedvae_fidelity", redraws=0).set_index("id")
        told = found.loc["martinez2024/c32"]
        assert (told["verdict"], told["redrawn"]) == (verdict, why)
    assert "2 seeds or more" in told["evidence"] and np.isnan(told["share"])


def test_real_rows_need_no_second_run_beside_trainings_that_have_one():
    assert resting_on_one("leitner2023", "utility", method="Real") == {}
    assert "c06" in resting_on_one("leitner2023", "utility", method="CTGAN", dataset="obesity")


def test_accuracies_move_by_their_test_rows_and_pooled_deviations_are_known():
    rows = committed_rows("apellaniz2025", "paper")
    rows = rows[rows["grid"] == "61_apellaniz2025_iid"]
    cells = measured_cells("apellaniz2025", rows)
    rng = np.random.default_rng(0)
    draws = np.array([redrawn("apellaniz2025", cells, rng)["mean"] for _ in range(400)])
    accuracy = (cells["metric"] == "acc_real_real").to_numpy()
    share = cells["mean"][accuracy]
    least = np.sqrt(share * (1 - share) / 1900).to_numpy()
    assert (draws.std(axis=0)[accuracy] > 0.9 * least).all()
    node = ((cells["metric"] == "js_divergence") & (cells["node"] == "1")).to_numpy()
    pooled = np.sqrt((cells["std"][node] ** 2).mean()) / np.sqrt(3)
    assert draws.std(axis=0)[node] == pytest.approx(np.full(node.sum(), pooled), rel=0.15)


def test_the_layout_of_cells_is_found_once_and_gives_the_same_outcome():
    rows = committed_rows("maddock2024", "paper")
    cells = cells_of("maddock2024", rows[rows["grid"] == "45_maddock2024_all_tables"])
    own = [claim for claim in written("maddock2024") if claim.group == "all_tables"]
    other = cells.assign(mean=-cells["mean"])
    with same_layout():
        found = [judge(claim, table) for table in (cells, other) for claim in own]
    assert found == [judge(claim, table) for table in (cells, other) for claim in own]


@pytest.mark.parametrize(
    ("share", "low", "high", "said"),
    [
        (1.0, 1.0, 1.0, "holds"),
        (1.0, 0.75, 1.0, "holds"),
        (1.0, 0.5, 1.0, "cannot tell"),
        (0.0, 0.0, 0.25, "does not hold"),
        (0.0, 0.0, 0.5, "cannot tell"),
        (0.6, 0.4, 0.8, "partly"),
        (0.5, 0.0, 1.0, "cannot tell"),
        (None, 0.0, 0.0, "not tested"),
    ],
)
def test_an_outcome_is_told_by_the_range_of_redraws(share, low, high, said):
    assert outcome(share, low, high) == said


@pytest.mark.parametrize(
    ("share", "kept", "lost", "enough"),
    [
        (1, 40, 0, True),  # none in 40 lost: below 8 in 100
        (1, 37, 3, False),  # 3 in 40: as well below 5 in 100 as above
        (1, 30, 10, True),
        (1, 375, 25, False),
        (1, 392, 8, True),
        (1, 350, 50, True),
        (0, 2, 38, False),
        (0, 0, 40, True),
    ],
)
def test_a_verdict_is_settled_where_other_redraws_would_give_it_too(share, kept, lost, enough):
    assert settled(share, [1.0] * kept + [0.0] * lost) is enough


def test_runs_are_drawn_anew_until_verdicts_are_settled():
    """`A below B` in one place: by 9 standard errors, by 1.55 (6 in 100 the other way round, by
    Student's t of many runs), and by none."""
    claim = next(c for c in written("maddock2024") if c.id == "maddock2024/c01")
    below = claim.conditions[0]
    below = replace(
        below, kind="below", of=["AIM", "Oracle"], where={}, each=(), own={"where": {}}, only=""
    )
    alike = {f"by {gap}": gap for gap in (9.0, 1.55, 0.0)}
    drawn = {}
    for name, gap in alike.items():
        cells = toy({"AIM": 0.0, "Oracle": gap * 2**0.5}, 1000**0.5, n=1000)
        asked = [(replace(claim, id=name, conditions=(below,)), 1.0)]
        drawn |= shares_anew("maddock2024", cells, asked, MOST_REDRAWS)
    assert [len(drawn[name]) for name in ("by 9.0", "by 0.0")] == [REDRAWS, REDRAWS]
    assert len(drawn["by 1.55"]) > 2 * REDRAWS
    assert np.mean(drawn["by 1.55"]) == pytest.approx(0.94, abs=0.04)


def test_a_side_clause_colours_and_does_not_decide():
    claim = next(c for c in written("maddock2024") if c.id == "maddock2024/c07")
    rows = committed_rows("maddock2024", "paper")
    cells = cells_of("maddock2024", rows[rows["grid"].isin(claim.grids)])
    wrong = replace(claim.conditions[0], of=["NaiveFLAIM", "AIM"])
    both = replace(claim, conditions=(*claim.conditions, wrong))
    coloured = replace(claim, conditions=(*claim.conditions, replace(wrong, side=True)))
    assert judge(both, cells)[0] == 0.5 and judge(coloured, cells)[0] == 1
    assert "NaiveFLAIM < AIM in 0 of" in judge(coloured, cells)[1].fails


@pytest.mark.parametrize(
    ("stated", "places", "expected"),
    [(6, 9, (3, 9)), (0, 9, (0, 2)), (9, 9, (7, 9)), (0, 36, (0, 2)), (5, 9, (2, 8))],
)
def test_an_exact_count_is_a_band_of_what_chance_makes_of_it(stated, places, expected):
    assert band(stated, places) == expected


def test_another_reading_sees_other_cells():
    rows = committed_rows("sattarov2024", "quick").assign(profile="paper")
    usual, bare = (
        judged("sattarov2024", rows, "budget", risk=risk).set_index("id")["share"]
        for risk in ("", "_success")
    )
    assert usual["sattarov2024/c08"] == bare["sattarov2024/c08"]  # utility
    assert usual["sattarov2024/c13"] != bare["sattarov2024/c13"]  # risks


def test_rows_of_several_profiles_are_refused():
    rows = committed_rows("maddock2024", "quick")
    rows = rows[rows["grid"] == "40_maddock2024_skew"]
    with pytest.raises(BadInput, match="one profile at a time"):
        judged("maddock2024", pd.concat([rows, rows.assign(profile="paper")]), "skew")
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
        ([{"belw": ["AIM", "DistAIM"]}], "is no condition: give one of value"),
        ([{"below": ["AIM", "DistAIM"], "ratio": ["AIM", "DistAIM"]}], "is no condition"),
        ([{"below": ["AIM", "DistAIM"], "wher": {}}], "unknown key 'wher': is 'where' meant?"),
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
        ([{"ratio": ["AIM", "DistAIM"], "least": 1, "statistic": "mode"}], "statistic 'mode'"),
        ([{"below": ["AIM", "DistAIM"], "incomplete": "drop"}], "incomplete 'drop'"),
        ([{"monotone": "up", "across": "epsilon"}], "monotone 'up': choose either"),
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
        ([{"custom": "penalty"}], "custom/claims.py has no 'penalty'"),
        ([{"below": ["AIM", "DistAIM"], "each": []}], "several values of epsilon: name it in each"),
    ],
)
def test_a_condition_that_nobody_knows_is_refused_with_file_claim_and_key(conditions, message):
    told = refused({"conditions": conditions})
    assert told.startswith("maddock2024.toml, claim c07: ") and message in told


def test_keys_of_claims_groups_and_files_are_checked_too():
    told = refused({"wher": {}})
    assert told == "maddock2024.toml, claim c07: unknown key 'wher': is 'where' meant?"
    data = read_claims("maddock2024")
    with pytest.raises(BadInput, match=r"toy\.toml, shared: unknown key 'grid'"):
        parsed("maddock2024", {**data, "shared": {**data["shared"], "grid": []}}, "toy.toml")
    with pytest.raises(BadInput, match=r"toy\.toml, skew: unknown key 'claims'"):
        parsed("maddock2024", {**data, "skew": {**data["skew"], "claims": []}}, "toy.toml")


def test_a_notebook_saves_the_claims_of_its_chapter_with_another_reading_beside(tmp_path):
    rows = committed_rows("maddock2024", "quick")
    own = rows[rows["grid"] == "41_maddock2024_feature_skew"]
    again = pd.Series(["as ever"])
    how = {"what": "The claim", "on_print": True, "beside": {"otherwise": again}}
    save = Saver(profile="quick", data="real", folder=tmp_path)
    saved = save_claims(save, "maddock2024", own, "feature_skew", "claims", **how)
    table = pd.read_csv(saved.csv)
    columns = ["id", "claim", "verdict", "share", "otherwise", "evidence", "published_holds"]
    assert list(table)[:7] == columns and table["otherwise"].tolist() == ["as ever"]
    assert "The claim, judged on our rows, profile quick" in saved.md.read_text(encoding="utf-8")
    rows = committed_rows("maddock2024", "paper")
    own = rows[rows["grid"] == "41_maddock2024_feature_skew"]
    save = Saver(profile="paper", data="real", folder=tmp_path)
    saved = save_claims(save, "maddock2024", own, "feature_skew", "claims", what="The claim")
    table = pd.read_csv(saved.csv)
    assert list(table)[:5] == ["id", "claim", "verdict", "share", "redrawn"]
    assert table["redrawn"].str.contains("; the same in").all()
