"""The verdict: what is counted from which rows, what claims come to and why cells differ by the
committed rows, and that README.md says so."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from kept import committed_rows

from fedsynth_lib.bundle import facts
from fedsynth_lib.bundle.chapters import exhibit_map
from fedsynth_lib.bundle.facts import put_between
from fedsynth_lib.bundle.notebooks import read_notebooks
from fedsynth_lib.core.contract import BadInput
from fedsynth_lib.core.store import project_root
from fedsynth_lib.figures.special import outcomes
from fedsynth_lib.printed.outcomes import COUNTED, OUTCOMES, STATES, VACUOUS, Evidence
from fedsynth_lib.printed.published import UNTESTED, WORKS, load_claims
from fedsynth_lib.runs.details import asked_by, with_detail
from fedsynth_lib.runs.rows import FULLEST_FIRST, params_text, to_frame
from fedsynth_lib.verdicts import causes, headline, judges

NOTHING = {
    work: dict.fromkeys(FULLEST_FIRST, with_detail(to_frame([])).assign(grid="")) for work in WORKS
}


@pytest.fixture(scope="module")
def committed():
    """Every claim at every profile, and the verdict, by the committed rows."""
    rows = headline.all_rows()
    told, printed = headline.by_profile(rows), headline.all_printed(rows)
    made = exhibit_map(read_notebooks(project_root() / "notebooks"))
    exhibits, cells = headline.exhibits_and_cells(made, rows, printed)
    beside = [found for found in printed.values() if len(found) and "difference" in found]
    return told, headline.Verdict(exhibits, cells, headline.claims_judged(told), pd.concat(beside))


# --- claims --------------------------------------------------------------------------------------


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


def judged(**profiles):
    rows = NOTHING | {"maddock2024": {**NOTHING["maddock2024"], **profiles}}
    table = headline.claims_judged(headline.by_profile(rows)).set_index("id")
    assert list(table.index) == list(load_claims()["id"])
    return table.loc["maddock2024/c21"]


def test_a_claim_counts_at_the_fullest_profile_that_could_test_it():
    nothing = judged()
    assert nothing["outcome"] == "not tested" and nothing["profile"] == ""
    quick = judged(quick=skew_rows("quick", 2.0))
    assert quick[["outcome", "profile", "share"]].tolist() == ["not tested", "quick", 1.0]
    both = judged(paper=skew_rows("paper", 1.2), quick=skew_rows("quick", 2.0))
    assert both[["outcome", "profile", "other"]].tolist() == ["cannot tell", "paper", "quick: 1.00"]
    assert both["redrawn"] == "one run of each"
    assert both["share"] == pytest.approx(1 / 2)  # of two main clauses; ratios are a side clause
    assert both["fails"].startswith("label_skew, mean_heterogeneity: beta 0.8 < beta 0.1 in 0 of 2")
    lacking = skew_rows("paper", 2.0).query("dataset == 'adult' and partition == 'iid'")
    assert judged(paper=lacking, quick=skew_rows("quick", 2.0))["profile"] == "quick"


def test_evidence_keeps_what_does_not_hold():
    told = Evidence.of([(1.0, "a in 3 of 3"), (0.5, "b in 1 of 2"), (False, "c: no")])
    assert told == "a in 3 of 3; b in 1 of 2; c: no" and told.fails == "b in 1 of 2; c: no"


def test_seeds_are_the_fewest_and_the_most_behind_a_claim():
    rows = pd.concat([skew_rows("paper", 2.0).assign(seed=seed) for seed in (0, 1, 2)])
    more = rows[rows["dataset"] == "magic"].assign(seed=3)
    found = judges.judged("maddock2024", rows).set_index("id")
    assert found["seeds"].to_dict() == {"maddock2024/c21": "3"}
    found = judges.judged("maddock2024", pd.concat([rows, more])).set_index("id")
    assert found.loc["maddock2024/c21", "seeds"] == "3 to 4"


def test_what_print_says_of_its_own_claims(committed):
    said = committed[1].claims.set_index("id")["on print"]
    assert said["maddock2024/c01"] == "yes"  # table 1: 19.2 v 28.6, 15.57 v 27.6, 40.92 v 45.9
    assert said["maddock2024/c07"] == "not testable from tables"  # a figure
    assert set(said) == {"yes", "partly", "not testable from tables"}


def test_every_claim_comes_to_what_is_pinned(committed):
    """After new rows of ours: correct the lines of tests/claims_judged.csv, and say why."""
    found = committed[0].set_index(["profile", "id"])
    pinned = pd.read_csv(Path(__file__).parent / "claims_judged.csv").query("on != 'print'")
    pinned = pinned.set_index(["on", "id"])
    assert found["outcome"].to_dict() == pinned["verdict"].to_dict()
    shares = found["share"].loc[pinned.index].to_numpy(float)
    np.testing.assert_allclose(shares, pinned["share"], rtol=1e-8)


def test_a_shrunk_run_shows_numbers_and_gets_no_verdict(committed):
    quick = committed[0].query("profile == 'quick'")
    assert set(quick["outcome"]) == {UNTESTED, VACUOUS}
    shown = quick[quick["share"].notna() & (quick["outcome"] == UNTESTED)]
    assert len(shown) > 80 and shown["evidence"].str.startswith("a shrunk run, which gets no").all()
    assert shown["evidence"].str.contains("; seen: ").all()


def test_a_claim_that_cannot_fail_is_vacuous_whatever_its_rows_hold(committed):
    found = committed[0].query("outcome == @VACUOUS")
    never = {"apellaniz2025/c17", "apellaniz2025/c18", "sattarov2024/c05", "sattarov2024/c19"}
    assert set(found["id"]) == never
    assert found["evidence"].str.contains("; seen: ").all()


def test_every_claim_that_a_notebook_saved_is_counted_with_its_outcome(committed):
    """By its id, whatever the file is called: a file of claims is one with the columns id and
    verdict."""
    told, claims = committed[0], committed[1].claims
    counted, seen, own = claims.set_index("id"), set(), told.set_index(["profile", "id"])
    for profile in FULLEST_FIRST:
        for path in (project_root() / "figures" / profile).glob("[!9]*.csv"):
            table = pd.read_csv(path, keep_default_na=False)
            if not {"id", "verdict"} <= set(table):
                continue
            for line in table.itertuples():
                assert own.loc[(profile, line.id), "outcome"] == line.verdict, (path.name, line.id)
                seen.add(line.id)
                if line.verdict != UNTESTED:
                    assert counted.loc[line.id, "outcome"] == line.verdict, (path.name, line.id)
    assert {"maddock2024/c21", "apellaniz2025/c21"} <= seen and len(seen) > 100


# --- causes --------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def explained(committed):
    rows = {work: committed_rows(work, "paper") for work in WORKS}
    return causes.of_cells(committed[1].printed, rows)


def test_each_different_cell_has_a_cause_and_each_cause_a_cell(explained):
    assert len(explained) > 300 and (explained["verdict"] == "different").all()
    without = explained[explained["entry"] < 0]
    assert without.empty, without[["exhibit", "metric", "setting"]].drop_duplicates()
    known = causes.load_causes()
    idle = [known[n].said for n in range(len(known)) if n not in set(explained["entry"])]
    assert not idle, f"no different cell is left for {idle}"
    assert set(explained["cause"]) == set(causes.KINDS)


def test_the_table_counts_every_different_cell_once(explained):
    table = causes.table(explained)
    assert table["cells"].sum() == len(explained)
    assert list(dict.fromkeys(table["work"])) == [w for w in WORKS if w in set(table["work"])]


# --- the table and its picture -------------------------------------------------------------------


def test_the_headline_adds_up():
    exhibits = pd.DataFrame(
        {"work": ["maddock2024"] * 4, "state": ["in full", "in part", "shrunk", "not made"]}
    )
    numbers = dict(
        zip(
            [*COUNTED, "cells"],
            ([1, 2], [3, 4], [5, 6], [1, 0], [0, 2], [7, 8], [0, 1], [17, 23]),
            strict=True,
        )
    )
    cells = pd.DataFrame({"work": "maddock2024", "exhibit": ["a", "b"], **numbers})
    claims = pd.DataFrame(
        {"work": "maddock2024", "outcome": ["holds", "holds", "partly", "not tested"]}
    )
    counts = headline.headline(headline.Verdict(exhibits, cells, claims))
    assert list(counts.index) == list(WORKS)
    own = counts.loc["maddock2024"]
    assert own["exhibits"].to_dict() == {"in full": 1, "in part": 1, "shrunk": 1, "of": 4}
    assert own["printed cells"].tolist() == [3, 7, 11, 1, 2, 15, 1, 40]
    assert own["claims"].to_dict() == dict(
        zip([*OUTCOMES, "of"], [2, 1, 0, 0, 0, 1, 4], strict=True)
    )
    assert counts.drop("maddock2024").to_numpy().sum() == 0
    drawn = outcomes(counts)
    texts = {text.get_text() for ax in drawn.axes for text in ax.texts}
    assert {"1", "7", "11", "15", "2"} <= texts


def test_exhibits_and_cells_of_the_works_are_all_there(committed):
    exhibits, cells, claims = committed[1][:3]
    assert (
        len(exhibits) == 89
        and set(exhibits["state"]) <= set(STATES)
        and len(claims) == len(load_claims())
    )
    assert (cells[list(COUNTED)].sum(axis=1) == cells["cells"]).all()
    part = exhibits["state"] == "in part"
    assert (exhibits.loc[part, "missing"] != "").all() and (
        exhibits.loc[exhibits["state"] == "in full", "missing"] == ""
    ).all()


def test_an_exhibit_that_no_notebook_makes_is_not_made():
    exhibits, cells = headline.exhibits_and_cells(exhibit_map([]), NOTHING)
    assert set(exhibits["state"]) == {"not made"} and len(exhibits) == 89
    assert (cells["ours missing"] == cells["cells"]).all()


def test_the_table_is_put_between_its_marks_and_nowhere_else():
    text = f"before\n{facts.BEGIN}\nold\n{facts.END}\nafter\n"
    new = put_between(text, facts.BEGIN, facts.END, "| new |")
    assert new == f"before\n{facts.BEGIN}\n| new |\n{facts.END}\nafter\n"
    assert put_between(new, facts.BEGIN, facts.END, "| new |") == new
    with pytest.raises(BadInput, match="has no lines"):
        put_between("nothing here", facts.BEGIN, facts.END, "| new |")


def test_the_readme_says_what_the_committed_rows_say(committed):
    """Run `./run_all.sh facts` after results have changed."""
    said = (project_root() / "README.md").read_text(encoding="utf-8")
    assert (
        put_between(
            said, facts.BEGIN, facts.END, headline.as_markdown(headline.headline(committed[1]))
        )
        == said
    )
