"""Searches over a grid of settings by Optuna's samplers: which configurations are tried, and their
scores as a study for Optuna's own plots.

Nothing is kept here: the n-th configuration depends on the grid, the seed and n alone, so a search
that is interrupted, made longer or moved to another machine tries the same ones, and `run_grid`
keeps what they score.
"""

import math
import warnings
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from fedsynth_lib.core.contract import BadInput, stream

if TYPE_CHECKING:
    import optuna

Value = int | float | str
Parameters = dict[str, Value]
Grid = Mapping[str, list[Value]]


def configurations(
    grid: Grid, number: int, *, seed: int, complete: bool = False
) -> list[Parameters]:
    """Return the first configurations of a search.

    Parameters
    ----------
    grid: parameter -> candidates.
    number: of configurations.
    complete: every cell of the grid once, in random order; else independent random draws.
    """
    for name, values in grid.items():
        if not values or not all(isinstance(value, Value) for value in values):
            raise BadInput(
                f"the candidates of {name!r} are {values}: give a list of numbers or texts."
            )
    size = math.prod(map(len, grid.values()))
    if not grid or number < 1 or (complete and number > size):
        limit = f", up to {size} (the grid)" * complete
        raise BadInput(f"trials is {number} of {len(grid)} parameters: give 1 or more{limit}.")
    optuna = _optuna()
    study = optuna.create_study(sampler=optuna.samplers.GridSampler(grid, seed=seed))
    for trial in range(number):
        if not complete:
            own = int(stream(seed, "trial", trial).integers(2**32))
            study.sampler = optuna.samplers.RandomSampler(seed=own)
        study.ask(_space(grid))
    return [{name: trial.params[name] for name in grid} for trial in study.trials]


def study_of(grid: Grid, scores: Iterable[tuple[Parameters, float]]) -> "optuna.Study":
    """Return a study, lowest score first, that holds the scores of configurations."""
    optuna = _optuna()
    study = optuna.create_study()
    for parameters, score in scores:
        own = {"params": parameters, "distributions": _space(grid), "value": score}
        study.add_trial(optuna.trial.create_trial(**own))
    return study


def _space(grid: Grid) -> dict[str, Any]:
    choices = _optuna().distributions.CategoricalDistribution
    return {name: choices(values) for name, values in grid.items()}


def _optuna() -> Any:
    """Return Optuna, silent but for its warnings; imported late, so that the library loads without
    it."""
    with warnings.catch_warnings():
        # tqdm misses widgets that nobody asks for
        warnings.filterwarnings("ignore", "IProgress not found")
        import optuna

    optuna.logging.set_verbosity(optuna.logging.WARNING)
    return optuna
