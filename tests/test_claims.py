"""The claims of the works: what they come to on print and on committed rows, and what their files
may not say."""

from pathlib import Path

import pandas as pd
import pytest

from fedsynth_lib.core.contract import BadInput
from fedsynth_lib.printed.published import UNTESTED, WORKS, claims_path, load_claims, read_claims
from fedsynth_lib.runs import names
from fedsynth_lib.runs.grid import committed_rows
from fedsynth_lib.runs.rows import FULLEST_FIRST
from fedsynth_lib.verdicts import judges
from fedsynth_lib.verdicts.cells import cells_of, printed_cells
from fedsynth_lib.verdicts.claim_files import parsed, written
from fedsynth_lib.verdicts.custom import CUSTOM
from fedsynth_lib.verdicts.judges import judge, judged, verdict

CLAIMS = [claim for work in WORKS for claim in written(work)]
IN_TABLES = [work for work in WORKS if work != "sattarov2024"]  # which shows results in figures
VERDICTS = {
    "yes": "holds",
    "partly": "holds partly",
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


@pytest.fixture(scope="module")
def committed():
    """profile -> every claim on its committed rows."""
    tables = {p: [judged(work, committed_rows(work, p)) for work in WORKS] for p in FULLEST_FIRST}
    return {p: pd.concat([table for table in own if len(table)]) for p, own in tables.items()}


def stated(claim):
    """What its file says of a claim on the printed values; rounding of the figures can hide it."""
    work, number = claim.id.split("/")
    said = read_claims(work)[claim.group][number]
    return said.get("on_rounded_figures", said["holds_on_published_values"])


@pytest.mark.parametrize("work", IN_TABLES)
def test_each_claim_says_of_print_what_its_file_says(on_print, work):
    for claim in written(work):
        outcome, evidence = on_print[claim.id]
        assert verdict(outcome) == VERDICTS[stated(claim)], (claim.id, evidence)
        assert evidence and "\n" not in evidence and "nan" not in evidence, claim.id


def test_each_claim_on_print_has_the_share_it_had(on_print):
    shares = {name: outcome for name, (outcome, _) in on_print.items()}
    pinned = PINNED.loc["print", "share"]
    assert set(shares) == set(pinned.index)
    found = pd.Series({name: float("nan") if v is None else float(v) for name, v in shares.items()})
    pd.testing.assert_series_equal(found, pinned.loc[found.index], check_names=False, rtol=1e-8)


@pytest.mark.parametrize("profile", FULLEST_FIRST)
def test_each_claim_on_committed_rows_comes_to_what_it_did(committed, profile):
    """After new rows of ours: correct the lines of tests/claims_judged.csv, and say why."""
    found, pinned = committed[profile].set_index("id"), PINNED.loc[profile]
    assert set(found.index) == set(pinned.index)
    found = found.loc[pinned.index]
    assert found["verdict"].to_dict() == pinned["verdict"].to_dict()
    pd.testing.assert_series_equal(found["share"], pinned["share"], check_names=False, rtol=1e-8)


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
    made = ("seconds", "mrr_js")  # of cells, by `verdicts/cells.py`
    assert all(names.is_metric(metric) for metric in axes["metric"] if metric not in made)
    assert all(len(values) == len(set(values)) for values in axes.values())


# --- groups and readings -------------------------------------------------------------------------


def test_a_group_is_judged_on_the_rows_at_hand_and_all_groups_on_their_own_grids(committed):
    rows = committed_rows("maddock2024", "quick")
    own = rows[rows["grid"] == "41_maddock2024_feature_skew"].drop(columns="grid")
    table = judged("maddock2024", own, "feature_skew")
    told = committed["quick"].set_index("id").loc["maddock2024/c22"]
    assert table["id"].tolist() == ["maddock2024/c22"]
    assert table.iloc[0][["verdict", "share", "evidence"]].tolist() == (
        told[["verdict", "share", "evidence"]].tolist()
    )
    assert judged("maddock2024", rows[rows["grid"] == "none"]).empty
    with pytest.raises(BadInput, match="no group of claims 'table': choose one of baselines, "):
        judged("maddock2024", own, "table")


def test_a_shrunk_run_shows_numbers_and_gets_no_verdict_where_its_file_says_so(committed):
    quick = committed["quick"].set_index("id")
    assert quick.loc["sattarov2024/c05", "verdict"] == "holds"  # a ratio of times
    others = quick.loc["sattarov2024/c06":"sattarov2024/c19"]
    assert set(others["verdict"]) == {UNTESTED}
    assert others["evidence"].str.startswith("no verdict, since private models").all()
    assert others["evidence"].str.contains("; seen: [a-z]").all()


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


def test_an_outcome_has_a_word():
    assert [verdict(outcome) for outcome in (True, 0.5, False, None)] == list(VERDICTS.values())
    assert set(judges.COLUMNS) >= {"id", "verdict", "share", "evidence", "fails", "seeds"}


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
        ([{"custom": "penalty"}], "custom.py has no 'penalty'"),
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
