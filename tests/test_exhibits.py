"""What each exhibit needs, what of it there is, and that no printed number drops out."""

import pandas as pd
import pytest
from kept import committed_rows

from fedsynth_lib.core.contract import BadInput
from fedsynth_lib.core.store import project_root
from fedsynth_lib.printed.published import WORKS, load_catalogue
from fedsynth_lib.runs.rows import to_frame
from fedsynth_lib.verdicts import exhibits
from fedsynth_lib.verdicts.exhibits import (
    IN_FULL,
    IN_PART,
    MISSING,
    NOT_JUDGED,
    NOT_MADE,
    SHRUNK,
    Exhibit,
)

METHODS = ["AIM", "DistAIM"]


def frame(rows, grid="grid"):
    detail = pd.Series([row.get("detail", "") for row in rows], dtype=object)
    return to_frame(rows).assign(detail=detail, grid=grid)


def run(seed=0, profile="paper", **labels):
    shared = {
        "paper": "maddock2024",
        "data": "real",
        "partition": "none",
        "setting": "central",
        "value": 1.0,
    }
    return {**shared, "metric": "nll", "seed": seed, "profile": profile, **labels}


def given(paper=(), quick=(), grid="grid"):
    return {"paper": frame(paper, grid), "quick": frame(quick, grid)}


# --- no number drops out -------------------------------------------------------------------------


@pytest.fixture(scope="module")
def known():
    return {each.id: each for each in exhibits.load_exhibits()}


def test_every_exhibit_that_a_run_can_make_and_every_file_of_values_has_an_entry(known):
    catalogue = load_catalogue()
    files = {
        f"{path.parent.name}/{path.stem}"
        for path in (project_root() / "data/published/values").glob("*/*.csv")
    }
    assert set(known) == set(catalogue.loc[catalogue["regenerable"] == "yes", "id"]) | files


@pytest.mark.slow
@pytest.mark.parametrize("work", WORKS)
def test_each_printed_number_is_counted_once_with_rows_and_without(work, known):
    """The totals are those of the files as they are, read here without the library."""
    none = given()
    for path in sorted((project_root() / "data/published/values" / work).glob("*.csv")):
        exhibit = known[f"{work}/{path.stem}"]
        table = pd.read_csv(path, dtype=str, keep_default_na=False)
        numbers = int(pd.to_numeric(table["mean"], errors="coerce").notna().sum())
        excluded = int(table["note"].str.startswith("EXCLUDE").sum())
        counted = exhibits.counts(exhibit, exhibits.printed_cells(exhibit, none))
        results = counted["cells"] + counted[exhibits.APART]
        assert results + counted["excluded"] == numbers and counted["excluded"] == excluded
        assert counted[MISSING] == counted["cells"] and counted["words"] == len(table) - numbers


@pytest.mark.parametrize(("name", "total"), [("tab1", 21), ("tab2", 70), ("tab3", 42)])
def test_cells_of_tables_that_were_not_run_are_missing_and_not_left_out(name, total, known):
    rows = {profile: committed_rows("maddock2024", profile) for profile in ("paper", "quick")}
    exhibit = known[f"maddock2024/{name}"]
    cells = exhibits.printed_cells(exhibit, rows)
    counted = exhibits.counts(exhibit, cells)
    assert counted["cells"] == sum(counted[verdict] for verdict in exhibits.COUNTED) == total
    # cannot be had
    assert set(cells.loc[cells["dataset"] == "credit_fraud", "verdict"]) == {MISSING}


# --- what ----------------------------------------------------------------------------------------
# is judged of a cell


NLL = {"method": "AIM", "epsilon": 5.0}  # table 1 prints 19.2, 15.57 and 40.92, and no T for AIM
TABLE = Exhibit("maddock2024", "tab1", grids=["grid"])


def aim(dataset, *values, profile="paper"):
    return [
        run(seed, profile, dataset=dataset, value=value, **NLL) for seed, value in enumerate(values)
    ]


def verdicts(rows):
    cells = exhibits.printed_cells(TABLE, rows).set_index(["method", "dataset"]).loc["AIM"]
    return cells["verdict"].to_dict(), cells["profile"].to_dict()


def test_only_two_runs_or_more_of_paper_are_judged():
    # 19.20 as printed in two runs; 15.57 in a single one; 40.92 in a shrunk one
    rows = given(
        aim("adult", 19.2, 19.2) + aim("credit_fraud", 15.57),
        aim("covertype", 40.92, 40.92, profile="quick"),
    )
    judged, profiles = verdicts(rows)
    assert judged == {"adult": "within", "credit_fraud": NOT_JUDGED, "covertype": NOT_JUDGED}
    assert profiles == {"adult": "paper", "credit_fraud": "paper", "covertype": "quick"}
    assert exhibits.state_of(TABLE, exhibits.printed_cells(TABLE, rows), [])[0] == IN_PART


def test_a_single_run_stands_on_no_side_of_an_order():
    """7 AIM, 8 the naive: above AIM as printed, but the order is nobody's while one of the two ran
    once."""
    naive = {
        "method": "NaiveFLAIM",
        "epsilon": 5.0,
        "dataset": "adult",
        "partition": "cluster_skew",
        "n_clients": 100,
    }
    naive |= {"setting": "federated", "detail": "T=10; participation 0.1"}
    rows = [run(seed, value=8.0, **naive) for seed in (0, 1)]
    both = exhibits.printed_cells(TABLE, given(rows + aim("adult", 7.0, 7.0))).set_index(
        ["method", "dataset"]
    )
    assert (
        both.loc[("AIM", "adult"), "verdict"]
        == both.loc[("NaiveFLAIM", "adult"), "verdict"]
        == "ordering"
    )
    alone = exhibits.printed_cells(TABLE, given(rows + aim("adult", 7.0))).set_index(
        ["method", "dataset"]
    )
    assert alone.loc[("NaiveFLAIM", "adult"), "verdict"] == "different"
    assert alone.loc[("AIM", "adult"), "verdict"] == NOT_JUDGED


def test_rows_of_other_grids_and_readings_do_not_count():
    rows = given(aim("adult", 19.2, 19.2), grid="another")
    assert set(verdicts(rows)[0].values()) == {MISSING}
    chosen = TABLE._replace(where={"data": ["standin"]})
    assert set(exhibits.printed_cells(chosen, given(aim("adult", 19.2, 19.2)))["verdict"]) == {
        MISSING
    }


def test_settings_and_counts_are_no_results(known):
    rows = {profile: committed_rows("maddock2024", profile) for profile in ("paper", "quick")}
    sizes = known["maddock2024/tab4"]
    counted = exhibits.counts(sizes, exhibits.printed_cells(sizes, rows))
    assert counted["cells"] == 0 and counted[exhibits.APART] == 23
    stated = known["sattarov2024/stated"]
    rows = {profile: committed_rows("sattarov2024", profile) for profile in ("paper", "quick")}
    cells = exhibits.printed_cells(stated, rows)
    results = cells[cells["verdict"] != exhibits.APART]
    assert set(results["metric"]) == set(stated.results) and len(cells) == 58


def test_a_table_in_which_levels_alone_agree_says_so():
    """Eight values on the published level: within wherever they stand, or only where they do."""
    line = {"verdict": "within", "order": "", "order_by_chance": 0.5}
    level = exhibits.against_chance(pd.DataFrame([{**line, "by_chance": 1.0}] * 8))
    assert (level["within %"], level["within by chance %"], level["informative about"]) == (
        100,
        100,
        "levels only",
    )
    places = exhibits.against_chance(pd.DataFrame([{**line, "by_chance": 0.5}] * 8))
    assert (places["within by chance %"], places["informative about"]) == (50, "scenarios")
    assert exhibits.against_chance(pd.DataFrame())["informative about"] == ""


# --- curves and their state ----------------------------------------------------------------------

SWEEP = Exhibit(
    "maddock2024",
    "fig9",
    grids=["grid"],
    points=[{"method": METHODS, "metric": ["nll"], "detail": "T={rounds}", "rounds": [2, 4, 8]}],
)


def curve(method, rounds, seeds=10, profile="paper"):
    return [
        run(seed, profile, method=method, detail=f"T={t}") for t in rounds for seed in range(seeds)
    ]


def state(paper=(), quick=()):
    return exhibits.state_of(
        SWEEP, pd.DataFrame(), exhibits.drawn_points(SWEEP, given(paper, quick))
    )


def test_a_figure_is_in_full_with_all_its_points_and_as_many_runs_as_the_work_made():
    whole = curve("AIM", [2, 4, 8]) + curve("DistAIM", [2, 4, 8])
    assert state(whole) == (IN_FULL, "")
    assert state(whole[:-1]) == (IN_PART, "1 of 6 have fewer than 10 runs")
    smaller = SWEEP._replace(scale="a tenth of the rounds")
    points = exhibits.drawn_points(smaller, given(whole))
    assert exhibits.state_of(smaller, pd.DataFrame(), points) == (IN_PART, "a tenth of the rounds")
    assert state([], curve("AIM", [2], profile="quick")) == (
        SHRUNK,
        "profile paper has not been run",
    )
    assert state() == (NOT_MADE, "no rows")


def test_what_is_missing_is_named():
    assert state(curve("AIM", [2, 4, 8]))[1] == "DistAIM"
    assert state(curve("AIM", [2]) + curve("DistAIM", [2]))[1] == "T above 2"
    assert state(curve("AIM", [4, 8]) + curve("DistAIM", [4, 8]))[1] == "T 2"
    assert state(curve("AIM", [2, 4, 8]) + curve("DistAIM", [2]))[1] == "2 of 3 DistAIM"


def test_as_many_curves_as_the_work_draws_are_needed():
    three = SWEEP._replace(points=[{"method": ["AIM"], "metric": ["nll"], "curves": 3}])

    def state(rounds):
        return exhibits.state_of(
            three, pd.DataFrame(), exhibits.drawn_points(three, given(curve("AIM", rounds)))
        )[0]

    assert state([2, 4]) == NOT_MADE and state([2, 4, 8]) == IN_FULL


@pytest.mark.slow
def test_the_states_of_flaim_are_those_of_an_independent_reading(known):
    rows = {profile: committed_rows("maddock2024", profile) for profile in ("paper", "quick")}
    found = {
        name: exhibits.state_of(
            each, exhibits.printed_cells(each, rows), exhibits.drawn_points(each, rows)
        )
        for (work, _, name), each in ((id_.partition("/"), each) for id_, each in known.items())
        if work == "maddock2024"
    }
    full = {name for name, (state, _) in found.items() if state == IN_FULL}
    assert {"fig1", "fig3", "fig4", "fig5", "tab4", "tab5"} <= full
    # cannot be had
    assert "credit_fraud" in found["fig2"][1] and "credit_fraud" in found["tab1"][1]


# --- bad input -----------------------------------------------------------------------------------

GOOD = (project_root() / "data/published/exhibits.toml").read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        (
            "45_maddock2024_all_tables",
            "45_no_such_grid",
            "maddock2024/tab2: unknown grid '45_no_such_grid'",
        ),
        ("[maddock2024.fig4]", "[maddock2024.fig99]", "maddock2024/fig99 is in no catalogue"),
        (
            '[maddock2024.fig4]\nlive = "a made-up table, drawn in notebook 40"\n',
            "",
            "no entry for maddock2024/fig4",
        ),
        (
            'reading = "overhead"',
            'reading = "guess"',
            "unknown reading 'guess': choose one of as_they_are",
        ),
        ("rounds = [10]\nbeta", "round = [10]\nrounds = [10]\nbeta", "unknown column 'round'"),
        (
            "rounds = [10]\nbeta = [1",
            "beta = [1",
            "unknown axis 'rounds'",
        ),
        ("curves = 36", "curves = ", "exhibits.toml: not valid TOML: "),
        ("curves = 36", "curve = [36]", "unknown column 'curve'"),
        ("where = { detail", "where = { scheme", "unknown column 'scheme'"),
        ('live = "the columns of Adult', 'drawn = "the columns of Adult', "unknown key 'drawn'"),
        (
            'without = "settings',
            'grids = []\nwithout = "settings',
            "needs one of grids, live and without",
        ),
        ('method = ["fedbn", "fedvae"]', 'method = "fedbn"', "give method as a list"),
    ],
)
def test_a_wrong_name_in_the_file_is_one_sentence(tmp_path, old, new, said):
    assert old in GOOD
    path = tmp_path / "exhibits.toml"
    path.write_text(GOOD.replace(old, new, 1), encoding="utf-8")
    with pytest.raises(BadInput) as raised:
        exhibits.load_exhibits(path)
    assert said in str(raised.value) and "\n" not in str(raised.value)


def test_a_method_that_nobody_has_is_named():
    rows = given(curve("AIM", [2]))
    exhibits.check_methods(SWEEP, rows)
    wrong = SWEEP._replace(points=[{"method": ["AMI"]}])
    with pytest.raises(BadInput, match=r"fig9: unknown method 'AMI' \(did you mean 'AIM'"):
        exhibits.check_methods(wrong, rows)
