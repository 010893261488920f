"""What part of the published signal-to-noise the private runs of a profile have: for captions.
Where print does not say what that was, it is of our runs at the published size, and says so.

By numbers of rows and settings alone, so that no table is loaded; clients are taken to be of one
size. Profiles that shrink rows lose signal in proportion, those that shrink rounds hardly any
(`core.signal`).
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from fedsynth_lib.core.composition import affordable_steps
from fedsynth_lib.core.signal import Training, in_words, signal_to_noise
from fedsynth_lib.methods import METHODS
from fedsynth_lib.methods.vae_bgm.budget import steps
from fedsynth_lib.tables.lock import table_rows
from fedsynth_lib.works import apellaniz2025, leitner2023, martinez2024
from fedsynth_lib.works.apellaniz_nodes import scaled
from fedsynth_lib.works.declared import load

TRAINED_ON = 0.8  # of the rows


def of_findiff(
    profile: str, datasets: Iterable[str], *, epsilons: Iterable[float] = (0.2, 1.0, 10.0)
) -> str:
    """sattarov2024: five clients, 100 updates a round, delta one over all training rows."""
    size, published = load("sattarov2024").size("fig5", profile), METHODS["findiff"].Config()
    changes = size.get("changes", {})
    rounds = changes.get("training_rounds", published.training_rounds)
    batch = changes.get("batch", published.batch)
    ratios = []
    for dataset in datasets:
        whole = table_rows(dataset, work="sattarov2024")
        rows = [round(TRAINED_ON * n) for n in (whole, min(whole, size.get("rows") or whole))]
        theirs, ours = (
            Training([number // 5] * 5, *asked, local_steps=published.local_updates)
            for number, asked in zip(
                rows,
                ((published.training_rounds, published.batch), (rounds, batch)),
                strict=True,
            )
        )
        ratios += [
            signal_to_noise(ours, e, 1 / rows[1]) / signal_to_noise(theirs, e, 1 / rows[0])
            for e in epsilons
        ]
    return in_words(ratios)


def of_fedvae(
    profile: str,
    datasets: Iterable[str],
    *,
    clients: Sequence[int] = (1, 3, 5, 10),
    epsilons: Iterable[float] = (0.5, 1.6),
    shorter: bool = False,
) -> str:
    """martinez2024: the settings of table 5.6 and delta 1e-5, central and over clients. Empty where
    no epsilon is finite. shorter: all tables are trained so, not only the profile's parts."""
    size = load("martinez2024").size("fedvae fidelity", profile)
    changes = size.get("by_method", {}).get("fedvae", {}).get("changes", {})
    parts = [part for part in size.get("parts", ()) if part.get("sized", {}).get("shorter")]
    delta = load("martinez2024").constants["meant"]["fedvae"]["delta"]
    ratios, passes = [], []
    for dataset in datasets:
        whole = table_rows(dataset, work="martinez2024")
        rows = [round(TRAINED_ON * n) for n in (whole, min(whole, size.get("rows") or whole))]
        published = martinez2024.tuned("fedvae", dataset, private=True)
        shrunk = published | changes
        if shorter or any(dataset in part["tables"] for part in parts):
            shrunk |= martinez2024.shorter(dataset)
            passes.append(f"{_passes(shrunk):,} for {_passes(published):,} over {dataset}")
        ratios += [
            signal_to_noise(_epochs(rows[1] // number, number, shrunk), e, delta)
            / signal_to_noise(_epochs(rows[0] // number, number, published), e, delta)
            for number in clients
            for e in epsilons
            if math.isfinite(e)
        ]
    words = [in_words(ratios)] if ratios else []
    words += [f"Their passes: {', '.join(passes)}."] if words and passes else []
    return " ".join(words)


def _passes(settings: dict) -> int:
    return settings["training_rounds"] * settings["local_epochs"]


def _epochs(rows: int, clients: int, settings: dict) -> Training:
    """Of FedVAE, whose rounds are passes over the rows."""
    steps = max(1, rows // settings["batch"]) * settings["local_epochs"]
    return Training([rows] * clients, settings["training_rounds"], settings["batch"], steps)


def of_ctgan(
    profile: str, datasets: Sequence[str], *, clients: int = 3, epsilon: float = 3.0
) -> str:
    """leitner2023: the noise is stated, and the budget says how many steps it pays for.

    Relative to profile paper, since the work states no batch size; the sentence says so.
    """
    ratios = []
    for dataset in datasets:
        sigma, delta = leitner2023.budget(dataset, "DP-Fed-CTGAN")
        theirs, ours = (
            _spent(dataset, each, clients, sigma, epsilon, delta) for each in ("paper", profile)
        )
        ratios.append(ours / theirs)
    most = max(_batch(dataset, "paper") for dataset in datasets)
    ours = f"our batches have {'up to ' * (len(datasets) > 1)}{most} rows"
    stated = f"the work states no batch size; {ours}"
    if all(math.isclose(ratio, 1) for ratio in ratios):
        return f"{stated[0].upper()}{stated[1:]}."
    return in_words(ratios, f"that of our runs at the published size ({stated})")


def _spent(
    dataset: str, profile: str, clients: int, sigma: float, epsilon: float, delta: float
) -> float:
    size = load("leitner2023").size("fig5.3", profile)
    rows = leitner2023.training_rows(dataset, size.get("rows")) // clients
    batch = min(_batch(dataset, profile), rows)
    affordable = affordable_steps(sigma, batch / rows, epsilon, delta)
    return math.sqrt(affordable) * batch / sigma


def _batch(dataset: str, profile: str) -> int:
    """Of DP-Fed-CTGAN."""
    size = load("leitner2023").size("fig5.3", profile)
    cell = {"dataset": dataset, "method": "DP-Fed-CTGAN"}
    return leitner2023.training(cell, size)["changes"]["batch"]


def of_vae_bgm(profile: str, *, epsilons: Iterable[float] = (10.0, 3.0, 1.0)) -> str:
    """apellaniz2025: a model of its own at each of three nodes, whose guarantee is ours.

    Relative to profile paper, since the work adds no noise; the sentence says so. Of gradients
    alone: mixtures and moments take the same share of the budget at every size. Rows that others
    shared are left out, which carry signal and cost no noise.
    """
    pairs = zip(_at_nodes(profile), _at_nodes("paper"), strict=True)
    delta = load("apellaniz2025").constants["delta"]
    ratios = [
        signal_to_noise(ours, e, delta) / signal_to_noise(full, e, delta)
        for ours, full in pairs
        for e in epsilons
    ]
    if all(math.isclose(ratio, 1) for ratio in ratios):
        return "The work adds no noise; the noise is ours."
    return in_words(ratios, "that of our training at the published size (the work adds no noise)")


def _at_nodes(profile: str) -> list[Training]:
    """Of DP-VAE-BGM, at the nodes of a profile; all its networks train on the same rows."""
    work = load("apellaniz2025")
    size = work.size("guarantee", profile)
    changes = size.get("changes", {})
    own = apellaniz2025.private_variant({"epsilon": 1.0, "changes": changes}, size)["variant"]
    config = replace(METHODS["dpvaebgm"].Config(), **changes | own)
    node_rows = scaled(work.kind("judge").settings["node_rows"], size.get("scale", 1.0))
    return [
        Training(
            [rows], config.training_rounds, config.batch, steps(rows, config) * config.networks
        )
        for rows in node_rows
    ]


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
    """All methods beside each other, on samples of two fifths of a table; against all of those
    rows, for methods that add noise to counts. Empty where they have them."""
    most, ratios = load("side_by_side").constants["sizes"][profile].get("rows"), {}
    for dataset in datasets:
        rows = 2 * (table_rows(dataset) // 5)
        ratios[dataset] = min(rows, most or rows) / rows
    return _fewer_rows(ratios, "table's")
