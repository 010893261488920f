"""The verdict: what is counted from which rows, what claims come to and why cells differ by the
committed rows, and that README.md says so."""

import pandas as pd
import pytest

from fedsynth_lib.bundle import headline
from fedsynth_lib.bundle.chapters import exhibit_map
from fedsynth_lib.bundle.facts import put_table
from fedsynth_lib.bundle.notebooks import read_notebooks
from fedsynth_lib.core.store import project_root
from fedsynth_lib.figures.special import outcomes
from fedsynth_lib.printed.outcomes import COUNTED, OUTCOMES, STATES, UNDECIDED, VACUOUS, Evidence
from fedsynth_lib.printed.published import JUDGED, KEYS, UNTESTED, WORKS, load_claims
from fedsynth_lib.runs.details import asked_by, with_detail
from fedsynth_lib.runs.rows import FULLEST_FIRST, params_text, to_frame
from fedsynth_lib.verdicts import causes, judges
from fedsynth_lib.verdicts.exhibits import APART, load_exhibits, printed_cells

NOTHING = {
    work: dict.fromkeys(FULLEST_FIRST, with_detail(to_frame([])).assign(grid="")) for work in WORKS
}
RESULTS = project_root() / "data" / "results"


@pytest.fixture(scope="module")
def rows():
    return headline.all_rows()


@pytest.fixture(scope="module")
def kept():
    return headline.gathered()


def made():
    return exhibit_map(read_notebooks(project_root() / "notebooks"))


# --- what is kept is what the rows say -----------------------------------------------------------


@pytest.mark.slow
def test_the_kept_verdict_is_that_of_the_committed_rows(rows):
    """Run `./run_all.sh judge` after results, claims or rules have changed. A claim whose cells and
    conditions are those that were resampled is not resampled again."""
    for name, again in headline.computed(rows, made()):
        assert (RESULTS / name).read_text(encoding="utf-8") == again, name


@pytest.mark.slow
def test_a_claim_that_is_resampled_again_comes_to_what_is_kept(rows, monkeypatch):
    monkeypatch.setattr(judges, "kept", lambda digests: {})
    own = rows["maddock2024"]["paper"]
    again = judges.judged("maddock2024", own, "all_tables").set_index("id")
    before = judges.stored().set_index("id").loc[again.index]
    assert again["verdict"].equals(before["verdict"])
    assert again["same"].astype(float).tolist() == before["same"].tolist()


@pytest.mark.slow
def test_a_notebook_takes_what_is_kept_of_the_same_cells_and_judges_others(rows, monkeypatch):
    own = rows["maddock2024"]["paper"]
    again = judges.judged("maddock2024", own, "all_tables", recompute=False).set_index("id")
    judged_anew = []
    monkeypatch.setattr(judges, "evaluate_all", lambda *_: judged_anew.append(1) or {})
    same = judges.judged("maddock2024", own, "all_tables", recompute=False).set_index("id")
    kept = judges.stored().set_index("id").loc[same.index, same.columns]
    pd.testing.assert_frame_equal(same, kept, check_dtype=False)
    pd.testing.assert_frame_equal(same, again)
    changed = own.assign(value=own["value"] * 1.01)
    with pytest.raises(KeyError):
        judges.judged("maddock2024", changed, "all_tables", recompute=False)
    assert judged_anew == [1]


def test_no_number_is_different_as_a_value_and_undecided_as_a_claim(kept):
    """The losses that sattarov2024 states are values of `stated` and claims c07 to c09."""
    cells = kept.cells.query("work == 'sattarov2024' and exhibit == 'stated'")
    verdicts = cells.groupby("metric")["verdict"].first()
    claims = kept.claims.set_index("id")["outcome"]
    pairs = {"privacy": "c07", "utility": "c08", "fidelity": "c09"}
    for name, number in pairs.items():
        value, claim = verdicts[f"{name}_change_percent"], claims[f"sattarov2024/{number}"]
        assert (value == "different") <= (claim in ("does not hold", "not in full"))
        assert (value == "not judged") <= (claim in ("undecided", "not tested"))


def test_each_line_of_cells_names_a_result_a_verdict_and_what_computes_it_again(kept):
    cells = kept.cells
    assert list(cells) == headline.CELL_COLUMNS and len(cells) > 4000
    assert set(cells["verdict"]) <= {*COUNTED, APART}
    assert not cells.duplicated(["work", "exhibit", *KEYS, "published"]).any()
    numbers = ["ours", "spread", "runs", "published", "published_spread", "tolerance", "by_chance"]
    assert all(pd.api.types.is_numeric_dtype(cells[name]) for name in numbers)
    commands = cells.loc[cells["verdict"].isin(JUDGED), "command"]
    assert commands.str.fullmatch(r"\./run_all\.sh --only [\d,]+ --profile paper --fresh").all()


def test_each_undecided_claim_says_what_would_decide(kept):
    open_ = kept.claims[kept.claims["outcome"] == UNDECIDED]
    assert len(open_) and (open_["needs"] != "").all()
    assert (kept.claims.loc[kept.claims["outcome"] != UNDECIDED, "needs"] == "").all()


def test_evidence_keeps_what_does_not_hold():
    told = Evidence.of([(1.0, "a in 3 of 3"), (0.5, "b in 1 of 2"), (False, "c: no")])
    assert told == "a in 3 of 3; b in 1 of 2; c: no" and told.fails == "b in 1 of 2; c: no"


def skew_rows(profile, strong):
    """Two tables divided as in table 5 of maddock2024: clustering at the printed ratios, label skew
    as given."""
    kinds = {("iid", ""): 1.0, ("cluster_skew", ""): None, ("label_skew", "beta=0.1"): strong}
    kinds[("label_skew", "beta=0.8")] = 1.5
    shared = {
        "paper": "maddock2024",
        "data": "real",
        "metric": "mean_heterogeneity",
        "n_clients": 100,
    }
    shared |= {"profile": profile, "seed": 0}
    rows = [
        {
            **shared,
            "dataset": dataset,
            "partition": partition,
            "params": params_text(asked_by("maddock2024", detail)),
        }
        | {"value": value or ratio}
        for dataset, ratio in (("adult", 2.2), ("magic", 1.5))
        for (partition, detail), value in kinds.items()
    ]
    return with_detail(to_frame(rows)).assign(grid="40_maddock2024_skew")


def test_a_shrunk_run_shows_numbers_and_gets_no_verdict():
    quick = judges.judged("maddock2024", skew_rows("quick", 2.0)).set_index("id")
    told = quick.loc["maddock2024/c21"]
    assert (told["verdict"], told["share"]) == (UNTESTED, 1.0)
    assert told["evidence"].startswith("a shrunk run, which gets no verdict; seen: ")
    paper = judges.judged("maddock2024", skew_rows("paper", 1.2)).set_index("id")
    told = paper.loc["maddock2024/c21"]
    assert (told["verdict"], told["redrawn"]) == (UNDECIDED, "one run of some")
    assert told["share"] == pytest.approx(2 / 3)  # of three main clauses
    assert told["needs"].startswith("10 runs")  # as many as the work made
    assert told["fails"].startswith("label_skew, mean_heterogeneity: beta 0.8 < beta 0.1 in 0 of 2")


@pytest.mark.slow
def test_seeds_are_the_fewest_and_the_most_behind_a_claim():
    rows = pd.concat([skew_rows("paper", 2.0).assign(seed=seed) for seed in (0, 1, 2)])
    more = rows[rows["dataset"] == "magic"].assign(seed=3)
    found = judges.judged("maddock2024", rows).set_index("id")
    assert found["seeds"].to_dict() == {"maddock2024/c21": "3"}
    found = judges.judged("maddock2024", pd.concat([rows, more])).set_index("id")
    assert found.loc["maddock2024/c21", "seeds"] == "3 to 4"


def test_what_the_published_values_say_of_their_own_claims(kept):
    said = kept.claims.set_index("id")["on published values"]
    assert list(said.index) == list(load_claims()["id"])
    assert said["maddock2024/c01"] == "yes"  # table 1: 19.2 v 28.6, 15.57 v 27.6, 40.92 v 45.9
    assert said["maddock2024/c07"] == "not testable from tables"  # a figure
    assert set(said) == {"yes", "partly", "not testable from tables"}


def test_a_claim_that_cannot_fail_is_vacuous_whatever_its_rows_hold(kept):
    found = kept.claims[kept.claims["outcome"] == VACUOUS]
    never = {"apellaniz2025/c17", "apellaniz2025/c18", "sattarov2024/c05", "sattarov2024/c19"}
    assert set(found["id"]) == never
    assert found["evidence"].str.contains("; seen: ").all()


def test_every_claim_that_a_notebook_saved_is_counted_with_its_outcome(kept):
    """By its id, whatever the file is called: a file of claims is one with the columns id and
    verdict."""
    counted, seen = kept.claims.set_index("id")["outcome"], set()
    for path in (project_root() / "figures").glob("[!9]*.csv"):
        table = pd.read_csv(path, keep_default_na=False)
        if {"id", "verdict"} <= set(table):
            judged = table[table["verdict"] != UNTESTED]
            assert judged["verdict"].tolist() == counted[judged["id"]].tolist(), path.name
            seen |= set(judged["id"])
    assert {"maddock2024/c21", "apellaniz2025/c21"} <= seen and len(seen) > 100


# --- causes --------------------------------------------------------------------------------------


def test_each_different_value_has_a_cause(kept):
    cells = kept.cells
    assert (cells.loc[cells["verdict"] == "different", "cause"] != "").all()
    kinds = cells["cause"].str.partition(": ")
    assert set(kinds[0]) <= {"", *causes.KINDS, causes.NEARER, causes.LOST}
    assert set(cells.loc[kinds[0] == causes.LOST, "verdict"]) == {"within"}


def test_the_table_of_causes_counts_every_value_once(kept):
    table = causes.table(kept.cells)
    different = (kept.cells["verdict"] == "different").sum()
    assert table[[*causes.KINDS, causes.NEARER]].to_numpy().sum() == different
    assert list(dict.fromkeys(table["work"])) == [w for w in WORKS if w in set(table["work"])]


# --- the table and its picture -------------------------------------------------------------------


def test_the_headline_adds_up():
    exhibits = pd.DataFrame(
        {"work": ["maddock2024"] * 4, "state": ["in full", "in part", "shrunk", "not made"]}
    )
    numbers = dict(
        zip(
            [*COUNTED, "cells"],
            ([1, 2], [3, 4], [5, 6], [1, 0], [0, 2], [4, 0], [7, 8], [0, 1], [21, 23]),
            strict=True,
        )
    )
    cells = pd.DataFrame({"work": "maddock2024", "exhibit": ["a", "b"], **numbers})
    claims = pd.DataFrame(
        {"work": "maddock2024", "outcome": ["holds", "holds", "partly", "not tested"]}
    )
    judged = {"verdict": ["within"] * 3 + ["different"], "by_chance": [0.5, 0.2, None, 1]}
    values = pd.DataFrame({"work": "maddock2024", **judged})
    verdict = headline.Verdict(exhibits, cells, claims, values)
    line = "\n| maddock2024 | 1 of 4 | 2 of 3 | 2 | 4 | 2 | 1 | 0 | 0 |\n"
    assert line in headline.as_markdown(verdict)
    counts = headline.headline(verdict)
    assert list(counts.index) == list(WORKS)
    own = counts.loc["maddock2024"]
    assert own["tables and figures"].to_dict() == {"in full": 1, "in part": 1, "shrunk": 1, "of": 4}
    assert own["published values"].tolist() == [3, 7, 11, 1, 2, 4, 15, 1, 44]
    assert own["claims"].to_dict() == dict(
        zip([*OUTCOMES, "of"], [2, 1, 0, 0, 0, 0, 1, 4], strict=True)
    )
    assert counts.drop("maddock2024").to_numpy().sum() == 0
    drawn = outcomes(counts)
    texts = {text.get_text() for ax in drawn.axes for text in ax.texts}
    assert {"1", "7", "11", "15", "2"} <= texts


def test_tables_figures_and_values_of_the_works_are_all_there(kept):
    shown, values, claims = kept[:3]
    assert len(shown) == 89 and set(shown["state"]) <= set(STATES)
    assert len(claims) == len(load_claims())
    assert (values[list(COUNTED)].sum(axis=1) == values["cells"]).all()
    part = shown["state"] == "in part"
    assert (shown.loc[part, "missing"] != "").all()
    assert (shown.loc[shown["state"] == "in full", "missing"] == "").all()
    assert len(kept.cells) == values["cells"].sum() + values[APART].sum()


@pytest.mark.slow
def test_an_exhibit_that_no_notebook_makes_is_not_made():
    printed = {each.id: printed_cells(each, NOTHING[each.work]) for each in load_exhibits()}
    shown = headline.states(NOTHING, printed, exhibit_map([]))
    assert set(shown["state"]) == {"not made"} and len(shown) == 89


def test_the_readme_says_what_is_kept():
    """Run `./run_all.sh facts` after `./run_all.sh judge`."""
    said = (project_root() / "README.md").read_text(encoding="utf-8")
    assert put_table(said, headline.as_markdown(headline.gathered())) == said
