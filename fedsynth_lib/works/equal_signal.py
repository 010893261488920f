"""Captions: what part of the published signal-to-noise ratio private runs have.

They follow from numbers of rows and settings alone, so no table is loaded; clients are taken to be
of one size. Fewer rows lose signal in proportion, fewer rounds hardly any (`core.signal`). A small
live run of a method that trains networks shows no published values, and has no ratio.
"""

import math
from collections.abc import Iterable, Mapping, Sequence

from fedsynth_lib.core.signal import Training, in_words, ratio
from fedsynth_lib.methods import METHODS
from fedsynth_lib.runs.rows import RESULTS
from fedsynth_lib.tables.lock import table_rows
from fedsynth_lib.works import leitner2023, martinez2024
from fedsynth_lib.works.declared import load

TRAINED_ON = 0.8  # of the rows
LIVE = "The signal-to-noise ratio of a small live run is not compared with the published one."


def of_findiff(profile: str, datasets: Iterable[str]) -> str:
    """sattarov2024: five clients, 100 updates a round, delta one over all training rows."""
    if profile != RESULTS:
        return LIVE
    changes = load("sattarov2024").profiles[profile]["changes"]
    published, ratios = METHODS["findiff"].Config(), []
    for dataset in datasets:
        rows = round(TRAINED_ON * table_rows(dataset, work="sattarov2024"))
        theirs, ours = (
            Training([rows // 5] * 5, *asked, local_steps=published.local_updates)
            for asked in (
                (published.training_rounds, published.batch),
                (changes["training_rounds"], changes["batch"]),
            )
        )
        ratios += [ratio(ours, theirs, epsilon, 1 / rows) for epsilon in (0.2, 1.0, 10.0)]
    return in_words(ratios)


def of_fedvae(
    profile: str,
    datasets: Iterable[str],
    *,
    epsilons: Iterable[float] = (0.5, 1.6),
    shorter: bool = False,
) -> str:
    """Return the caption of martinez2024, central and federated.

    It is for the settings of table 5.6 and delta 1e-5, and empty if no epsilon is finite. shorter:
    all tables have the shorter training, not only the profile's parts.
    """
    finite = [epsilon for epsilon in epsilons if math.isfinite(epsilon)]
    if not finite:
        return ""
    if profile != RESULTS:
        return LIVE
    work, ratios, passes = load("martinez2024"), [], []
    parts = work.size("fedvae fidelity", profile)["parts"]
    less = {key for part in parts if "shorter" in part.get("sized", {}) for key in part["tables"]}
    for dataset in datasets:
        rows = round(TRAINED_ON * table_rows(dataset, work=work.key))
        published = martinez2024.tuned("fedvae", dataset, private=True)
        ours = published
        if shorter or dataset in less:
            ours = published | martinez2024.shorter(dataset)
            passes.append(f"{_passes(ours):,} for {_passes(published):,} over {dataset}")
        delta = work.constants["meant"]["fedvae"]["delta"]
        for number in (1, 3, 5, 10):
            pair = [_epochs(rows // number, number, settings) for settings in (ours, published)]
            ratios += [ratio(*pair, epsilon, delta) for epsilon in finite]
    words = in_words(ratios)
    return f"{words} Their passes: {', '.join(passes)}." if passes else words


def _passes(settings: dict) -> int:
    return settings["training_rounds"] * settings["local_epochs"]


def _epochs(rows: int, clients: int, settings: dict) -> Training:
    """Of FedVAE, whose rounds are passes over the rows."""
    steps = max(1, rows // settings["batch"]) * settings["local_epochs"]
    return Training([rows] * clients, settings["training_rounds"], settings["batch"], steps)


def of_ctgan(profile: str, datasets: Sequence[str]) -> str:
    """Return the caption of leitner2023, which does not state the size of a batch.

    Its noise is stated, and the budget determines the number of steps.
    """
    if profile != RESULTS:
        return LIVE
    size = load("leitner2023").size("fig5.3", profile)
    cells = [{"dataset": dataset, "method": "DP-Fed-CTGAN"} for dataset in datasets]
    most = max(leitner2023.training(cell, size)["changes"]["batch"] for cell in cells)
    rows = f"{'up to ' * (len(datasets) > 1)}{most} rows"
    return f"The work states no batch size; our batches have {rows}."


def of_counts(work: str, exhibit: str, profile: str, datasets: Iterable[str]) -> str:
    """Methods that add noise to counts of rows, in a grid of the work. Empty where it has all rows.

    At one budget the noise of a count is the same whatever the number of rows (one record changes a
    count by 1), and counts grow with the rows: the ratio is that of the rows.
    """
    declared, ratios = load(work), {}
    drawn, asked = declared.constants.get("subsamples", {}), declared.size(exhibit, profile)
    for dataset in datasets:
        rows = table_rows(dataset, work=work)
        theirs = drawn.get(dataset, rows)  # of which there may be fewer here
        ratios[dataset] = min(rows, theirs, asked.get("rows") or theirs) / theirs
    return _fewer_rows(ratios, "published")


def _fewer_rows(ratios: Mapping[str, float], than: str) -> str:
    """Return for a caption which tables have fewer rows; empty where none has."""
    shares = [f"{name} {100 * ratio:.0f} %" for name, ratio in ratios.items() if ratio < 1]
    words = f"Part of the {than} rows, so that noise weighs more"
    return f"{words}: {', '.join(shares)}." if shares else ""


def of_both_models(profile: str, datasets: Sequence[str], *, epsilons: Iterable[float]) -> str:
    """martinez2024, where FedBN and FedVAE stand beside each other."""
    counts = of_counts("martinez2024", "fedbn fidelity", profile, datasets)
    trained = of_fedvae(profile, datasets, epsilons=epsilons)
    return " ".join(filter(None, (counts, trained and f"FedVAE: {trained}")))


def of_samples(profile: str, datasets: Iterable[str]) -> str:
    """Return the caption of all methods side by side, on samples of two fifths of a table.

    The ratio is to all of those rows, and applies to methods that add noise to counts. It is empty
    if the samples have all rows.
    """
    most, ratios = load("side_by_side").constants["sizes"][profile].get("rows"), {}
    for dataset in datasets:
        rows = 2 * (table_rows(dataset) // 5)
        ratios[dataset] = min(rows, most or rows) / rows
    return _fewer_rows(ratios, "table's")
