"""The rule of equal signal-to-noise, against what was measured for published FinDiff."""

import math
from dataclasses import replace
from pathlib import Path

import pytest

from fedsynth_lib.core.contract import BadInput
from fedsynth_lib.core.signal import Training, in_words, ratio, signal_to_noise
from fedsynth_lib.tables.lock import table_rows
from fedsynth_lib.works import WORKS, equal_signal, load, side_by_side

ADULT = (962, 2095, 14597, 6277, 2118)  # training rows of five clients
PUBLISHED = Training(ADULT, rounds=3000, batch=16, local_steps=100)
DELTA = 1 / sum(ADULT)


@pytest.mark.parametrize(
    ("epsilon", "low", "high"), [(0.2, 0.99, 1.01), (1.0, 1.0, 1.02), (10.0, 1.11, 1.19)]
)
def test_thirty_rounds_of_larger_batches_have_the_published_signal(epsilon, low, high):
    ours = replace(PUBLISHED, rounds=30, batch=256)
    assert ours.steps == PUBLISHED.steps / 100
    assert low <= ratio(ours, PUBLISHED, epsilon, DELTA) <= high


@pytest.mark.parametrize(("batch", "epsilon", "share"), [(64, 10, 0.585), (16, 10, 0.20)])
def test_small_batches_lose_where_the_noise_is_at_its_floor(batch, epsilon, share):
    ours = replace(PUBLISHED, rounds=30, batch=batch)
    assert ratio(ours, PUBLISHED, epsilon, DELTA) == pytest.approx(share, abs=0.01)


@pytest.mark.parametrize(("epsilon", "share"), [(0.2, 0.098), (1.0, 0.085), (10.0, 0.054)])
def test_fewer_rows_lose_nearly_all_of_it(epsilon, share):
    rows = (85, 156, 1103, 482, 174)
    quick = signal_to_noise(Training(rows, 4, 16, 100), epsilon, 1 / sum(rows))
    found = quick / signal_to_noise(PUBLISHED, epsilon, DELTA)
    assert found == pytest.approx(share, abs=0.002)


def test_what_cannot_be_is_refused():
    with pytest.raises(BadInput, match="needs clients with rows"):
        Training((), 1, 1)
    with pytest.raises(BadInput, match="a batch of 1"):
        Training((5,), 1, 0)


RATIO = "Signal-to-noise ratio of private runs: {} % of"


def test_captions_say_the_least_and_the_most():
    words = "Signal-to-noise ratio of private runs: {} % of the published one."
    assert in_words([0.05, 0.098]) == words.format("5 to 10")
    assert equal_signal.of_fedvae("paper", ["cardio"], epsilons=[math.inf]) == ""
    assert in_words([1.0]) == words.format("100")


def test_captions_say_what_print_does_not_tell():
    one = equal_signal.of_ctgan("paper", ["adult"])
    assert one == "The work states no batch size; our batches have 500 rows."
    # tables of few rows have batches of 50 and 100 at paper
    few = equal_signal.of_ctgan("paper", ["diabetes", "obesity"])
    assert "our batches have up to 100 rows" in few
    assert equal_signal.of_fedvae("paper", ["cardio"]).startswith(RATIO.format("100"))


def test_small_live_runs_of_networks_have_no_ratio():
    for words in (equal_signal.of_fedvae, equal_signal.of_ctgan, equal_signal.of_findiff):
        assert words("quick", ["adult"]) == equal_signal.LIVE


def test_a_hundredth_of_the_passes_leaves_fedvae_its_signal():
    words = equal_signal.of_fedvae("paper", ["adult", "cardio"])
    assert words == (
        "Signal-to-noise ratio of private runs: 96 to 100 % of the published one. "
        "Their passes: 60 for 6,000 over adult."
    )


def test_a_hundredth_of_the_rounds_on_all_rows_leaves_findiff_its_signal():
    words = equal_signal.of_findiff("paper", ["adult"])
    assert words.startswith(RATIO.format("100 to 112"))


@pytest.mark.parametrize(
    ("asked", "words"),
    [
        (("maddock2024", "tab1", "quick", ["adult"]), "adult 10 %"),  # 5,000 of 48,842
        (
            ("maddock2024", "tab3", "quick", ["adult", "magic"]),
            "adult 12 %, magic 32 %",
        ),  # of 19,020
        (
            ("maddock2024", "tab2", "quick", ["covertype"]),
            "covertype 4 %",
        ),  # of the 116,203 of the work
        (
            ("maddock2024", "tab2", "paper", ["covertype"]),
            "covertype 43 %",
        ),  # of which 50,000 are here
        (("martinez2024", "fedbn fidelity", "quick", ["cardio"]), "cardio 3 %"),  # 2,000 of 70,000
    ],
)
def test_counts_have_signal_in_proportion_to_the_rows(asked, words):
    expected = f"Part of the published rows, so that noise weighs more: {words}."
    assert equal_signal.of_counts(*asked) == expected


def test_nothing_is_said_where_no_rows_are_left_out():
    assert equal_signal.of_counts("maddock2024", "tab2", "paper", ["adult", "intrusion"]) == ""
    assert equal_signal.of_counts("martinez2024", "fedbn privacy", "paper", ["adult"]) == ""
    words = "Part of the table's rows, so that noise weighs more: adult 15 %."
    assert equal_signal.of_samples("paper", ["adult"]) == words  # 2,000 of 2 * (32,561 // 5)


NOTEBOOKS = Path(__file__).resolve().parents[1] / "notebooks"


def notebook(number: str) -> str:
    (path,) = NOTEBOOKS.glob(f"{number}_*.ipynb")
    return path.read_text(encoding="utf-8")


def cuts_rows(work, exhibit, profile):
    """Whether a grid has a cell with noise on fewer rows than the table has."""
    grid = work.grid(exhibit, profile)
    kind = work.kind(grid.kind)
    for cell in grid.cells:
        if kind.method not in cell or not cell.get("rows"):
            continue
        whole = table_rows(cell["dataset"], work=work.view(cell["dataset"]))
        epsilon = cell.get("epsilon", kind.usually("epsilon"))
        noisy = work.method(cell[kind.method]).private and epsilon not in (None, math.inf)
        if noisy and cell["rows"] < whole:
            return True
    return False


def cut(work: str, profile: str) -> set[str]:
    """The notebooks that show a grid whose private runs have a part of the rows."""
    declared = load(work)
    return {
        grid.name[:2]
        for exhibit, grid in declared.grids.items()
        if cuts_rows(declared, exhibit, profile)
    }


@pytest.mark.parametrize("work", WORKS)
def test_no_private_run_on_fewer_rows_is_shown_without_its_ratio(work):
    """Of results; what a small live run shows is none, and says so."""
    assert len(cut(work, "quick")) >= {"maddock2024": 5, "martinez2024": 6}.get(work, 0)
    silent = [each for each in cut(work, "paper") if "equal_signal.of_" not in notebook(each)]
    assert not silent


def test_samples_of_all_methods_are_not_shown_without_their_ratio():
    assert side_by_side.SIZES["paper"]["rows"] < 2 * table_rows("adult") // 5
    assert "equal_signal.of_samples" in notebook("70")
