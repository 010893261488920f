"""The worst tables and settings known for each private method, the cases of the audit.

Two columns of two categories. All other rows are alike, and the record stands alone in its cell of
every table that a method counts. Networks are tiny and their clip is small, so that Adam's steps
show the gradients; all rows are in every batch. FinDiff gets one number and hardly any diffusion,
so that its secret draws blur the gradient least; the CTGAN family judges without a hidden layer,
hence without dropout, for the same reason. These are settings like any other: the code that clips,
adds noise and accounts is the method's own.
"""

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from fedsynth_lib.audit import fits, scores
from fedsynth_lib.audit.fits import Fit
from fedsynth_lib.audit.scenario import Case, Scenario, Seen, Sees
from fedsynth_lib.core.contract import Arrays, BadInput, Charge, Domain, Privacy
from fedsynth_lib.methods import METHODS
from fedsynth_lib.methods.bayes import bayesian_network
from fedsynth_lib.methods.gan import budget as gan_budget
from fedsynth_lib.methods.marginals import fedpgm
from fedsynth_lib.tables.schema import Column, Schema, closest

SCHEMA = Schema(
    (
        Column("first", "categorical", categories=("no", "yes")),
        Column("second", "categorical", categories=("no", "yes")),
    ),
    target="second",
)
# with one more, the score of the pair moves by 2, which is its sensitivity
OTHERS = (("no", "no"),) * 3
TARGET = ("yes", "yes")
# for FinDiff: its ends lie farthest apart
PLACE = Schema((Column("place", "numeric", low=0.0, high=1.0),))
# for bins that follow noisy counts: a column of more levels than are kept as they are
LONG = Schema(
    (Column("first", "numeric", low=0, high=99, integer=True), SCHEMA["second"]), "second"
)
DELTA = 1e-5
FEDPGM = "fedpgm", "fedpgm_bins"

# a second round whatever the first one says
TWO_SUMS = {"sure": -1e9, "iterations": 20}
MARGINALS = {"rounds": 3, "participation": 1.0, "iterations": 2, "final_iterations": 20}
# gradients far below Adam's 1e-8, and steps that still show in single precision
TINY_CLIP, RATE = 1e-10, 1.0
STEPS = {"training_rounds": 3, "batch": 2, "clip": TINY_CLIP}
GAN = STEPS | {"local_epochs": 1, "hidden": (), "noise_width": 2, "discriminator_rate": RATE}
GAN |= {"discriminator_decay": 0.0}
SETTINGS: dict[str, dict[str, Any]] = {
    "independent": {},
    **dict.fromkeys(FEDPGM, TWO_SUMS),
    "fedbn": {"private_structure": True, "degree": 1}
    | {"population": 2, "selection": 1, "interval": 1, "generations": 1},
    **dict.fromkeys(
        ("aim", "distaim", "naiveflaim", "augflaim_private", "flaim_random", "fednaivebayes"),
        MARGINALS,
    ),
    "fedvae": STEPS
    | {
        "local_epochs": 1,
        "hidden": (4,),
        "embedding": 2,
        "weight_decay": 0.0,
        "learning_rate": RATE,
        "device": "cpu",
    },
    "findiff": STEPS
    | {
        "local_updates": 1,
        "hidden": (4,),
        "inner": 4,
        "learning_rate": RATE,
        "device": "cpu",
        "encoding": "declared",
    }
    | {"steps": 2, "first_beta": 1e-6, "last_beta": 1e-6, "rescaled": False},
    **dict.fromkeys(("dpctgan", "dpfedctgan"), GAN | {"device": "cpu"}),
    "feddpctgan": GAN | {"participation": 1.0, "device": "cpu"},
    "dpvaebgm": STEPS
    | {
        "technique": "fedavg",
        "local_epochs": 1,
        "networks": 1,
        "hidden": 4,
        "latent": 2,
        "dropout": 0.0,
    }
    | {"components": 1, "mixture_steps": 1, "moments": (), "learning_rate": RATE},
}


def independent_scales(scenario: Scenario) -> Arrays:
    """Return the scales of the noise on the marginals of single columns."""
    return {"counts": np.array(scenario.job.noise_multiplier * len(scenario.job.domain.names))}


def network_releases(seen: Seen) -> Arrays:
    """Return FedBN's pair scores and the last cell of its one table.

    The record is alone in that cell, whichever of the two columns is the parent.
    """
    (table,) = (values for name, values in seen.state.items() if name.startswith("table/"))
    return scores.summed(["scores"])(seen) | {"last cell": table[-1:]}


def network_scales(scenario: Scenario) -> Arrays:
    """Return the scales of the noise on the pair scores and on the last cell."""
    tables, pairs = bayesian_network.plan(
        scenario.job.noise_multiplier, scenario.job.domain, 0, scenario.case.config
    )
    return {
        "scores": np.array(pairs.noise * pairs.sensitivity),
        "last cell": np.array(tables.noise),
    }


def histograms(scenario: Scenario, seen: Seen) -> np.ndarray:
    """Return the noisy category counts that client 0 of the CTGAN family sends.

    They are in deviations of the noise that the claim needs.
    """
    job, config, size = scenario.job, scenario.case.config, scenario.sizes[0]
    claimed, levels = job.noise_multiplier / scenario.noise, job.domain.levels
    steps = gan_budget.total_steps(claimed, levels, size, config)
    (charge,) = gan_budget.histogram_charges(claimed, levels, size, config, steps)
    return seen.wire[0]["0/counts"] / (charge.noise * charge.sensitivity)


def measured_cells(scenario: Scenario, seen: Seen) -> list[tuple[int, int, float]]:
    """Return FedPGM's noisy count of the record's cell, for each table that any round counts.

    An entry is (noisy count, by how much the record moves it, variance of its noise).

    The record is alone in its cells, or with others whom this function does not know. The first
    round is charged by kind of table. A table that the second round measures r times moves by r,
    with r times the variance. Runs of levels, if any, are those that the server formed.
    """
    job, state = scenario.job, seen.state
    long = fedpgm.long_columns({**state, "levels": np.array(job.domain.levels)})
    scales = fedpgm.Scales.of(
        job.noise_multiplier / scenario.noise,
        len(job.domain.names),
        scenario.case.config,
        len(long.queries),
    )
    target, levels = scenario.target[None], state["levels"]
    in_runs, chosen = fedpgm.in_runs(state, target), fedpgm.chosen_in(state)
    first, again = fedpgm.tables_in(levels), fedpgm.tables_of_queries(levels, chosen)
    alone, once = [len(query) == 1 for query in first.queries], np.ones(len(first.queries))
    found = []
    if long.queries:
        fine, moved = np.full(len(long.queries), scales.fine), np.ones(len(long.queries))
        found += _cells(seen, "fine", long.cells(target, job.domain.levels), moved, fine)
    kinds = np.where(alone, scales.one_way, scales.two_way)
    found += _cells(seen, "first", first.cells(in_runs, levels), once, kinds)
    repeats, scale = state["repeats"], np.full(len(chosen), scales.again)
    return found + _cells(seen, "again", again.cells(in_runs, levels), repeats, scale)


def _cells(
    seen: Seen, sent: str, cells: np.ndarray, moves: np.ndarray, scale: np.ndarray
) -> list[tuple[int, int, float]]:
    counts = next((wire[f"sum/{sent}"] for wire in seen.wire if f"sum/{sent}" in wire), None)
    if counts is None:  # of this sum nothing is seen
        return []
    own = counts[cells[:, 0]]
    return list(zip(own.tolist(), moves.tolist(), (moves * scale**2).tolist(), strict=True))


ADAM = {"fedvae": ("network", 0.9), "findiff": ("network", 0.9), "dpvaebgm": ("network/0", 0.0)}
DISCRIMINATOR = scores.steps("discriminator", momentum=0.5, others=histograms)
COUNTS: Mapping[str, Any] = {
    "independent": scores.counts(lambda seen: {"counts": seen.state["counts"]}, independent_scales),
    "fedbn": scores.counts(network_releases, network_scales),
    **dict.fromkeys(FEDPGM, scores.skellam(measured_cells)),
}
PURE = "independent", "fedbn"  # a claim with delta 0


def _score(key: str):
    if key in COUNTS:
        return COUNTS[key]
    if key in ADAM:
        return scores.steps(ADAM[key][0], momentum=ADAM[key][1])
    return DISCRIMINATOR if "ctgan" in key else scores.marginals


def _fit(key: str) -> Callable[[Scenario], Fit]:
    """Return the fit for what the method's score reads."""
    if key in FEDPGM:
        return skellam_fit
    return lambda scenario: fits.DEFINITION if key in PURE else fits.GAUSSIAN


def skellam_fit(scenario: Scenario) -> Fit:
    """Return the fit of FedPGM's plan: all that it releases is counts with Skellam noise."""
    job, case = scenario.job, scenario.case

    def plan(multiplier: float) -> list[Charge]:
        return case.method.plan(multiplier, job.domain, scenario.sizes[0], case.config)

    return fits.skellam(plan, job.noise_multiplier / scenario.noise)


def _sees(key: str) -> Sees:
    """Return what the method's own statement lets its adversary see."""
    if key in COUNTS:
        return "sums of all clients"
    return "what each client sends" if key in ADAM or "ctgan" in key else "the model"


def epsilon_of_family(key: str) -> float:
    """Return the epsilon of the audit, at which a few thousand runs have power."""
    if key == "fedbn":
        return 1.0
    return 10.0 if key in ADAM or "ctgan" in key else 4.0


def case_of(key: str, epsilon: float | None = None, **options: Any) -> Case:
    """Return the case of a private method.

    Raises BadInput for a method without noise, or without a case.

    options: settings beside those of the audit.
    """
    if key not in METHODS:
        raise BadInput(
            f"method {key!r} is unknown{closest(key, METHODS)}; choose one of "
            f"{', '.join(SETTINGS)}."
        )
    method = METHODS[key]
    if key not in SETTINGS:
        reason = refusal(key)
        raise BadInput(f"method {key}: {reason}; there is no claim to audit.")
    config = replace(method.Config(), **SETTINGS[key] | options)
    epsilon = epsilon_of_family(key) if epsilon is None else epsilon
    privacy = Privacy(epsilon, 0.0 if key in PURE else DELTA, noise_seed=None)
    world = (SCHEMA, OTHERS, TARGET)
    if key == "fedpgm_bins":
        world = (LONG, ((0, "no"),) * 3, (99, "yes"))
    if key in ADAM or "ctgan" in key:  # what others add to a gradient is noise as well
        world = (PLACE, ((0.0,),), (1.0,)) if key == "findiff" else (SCHEMA, OTHERS[:1], TARGET)
    return Case(key, method, config, privacy, *world, _sees(key), _fit(key), _score(key))


def refusal(key: str) -> str:
    """Return why a method makes no claim: it adds no noise, or releases something without noise.

    If neither is true, no worst-case table is known for it.
    """
    method = METHODS[key]
    try:
        charges = method.plan(1.0, Domain(("first", "second"), (2, 2)), 4, method.Config())
    except BadInput:
        return "it adds no noise"
    bare = sorted({charge.what for charge in charges if charge.mechanism == "unprotected"})
    return (
        f"it releases without noise: {', '.join(bare)}"
        if bare
        else "no worst-case table is known for it"
    )


def private_methods() -> tuple[str, ...]:
    """Return the methods whose private settings can be audited, in the order of the registry."""
    return tuple(key for key in METHODS if key in SETTINGS)
