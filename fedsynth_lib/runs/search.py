"""Searches over a grid of settings, kept as Optuna studies in journal files under
data/cache/studies.

A search asks for trials and is told their scores by whoever computes them, such as `run_grid`. Its
trials come back on the next call, and the n-th of them depends on the seed and on n alone, so that
a search that was interrupted, is made longer or moves to another machine has the same ones.
Optuna's plots and its dashboard read the journals.
"""

import math
import warnings
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fedsynth_lib.core.contract import BadInput, stream
from fedsynth_lib.core.store import project_root, warn_of_cache

if TYPE_CHECKING:
    import optuna

Value = int | float | str
Parameters = dict[str, Value]


@dataclass(frozen=True)
class Search:
    """What is searched, lowest score first, and where its study is kept.

    journal: name of the file; several studies share one. name: of the study.
    grid: parameter -> candidates. complete: every cell of the grid once, in random order; else
        random draws.
    """

    journal: str
    name: str
    grid: Mapping[str, list[Value]]
    seed: int
    complete: bool = False

    def __post_init__(self):
        if not self.grid:
            raise BadInput(
                f"search {self.name!r} has no parameters: give at least one, with its candidates."
            )
        for name, values in self.grid.items():
            if not values or not all(isinstance(value, Value) for value in values):
                raise BadInput(
                    f"the candidates of {name!r} are {values}: give a list of numbers or texts."
                )

    @property
    def path(self) -> Path:
        return project_root() / "data" / "cache" / "studies" / f"{self.journal}.journal"

    @property
    def size(self) -> int:
        """Cells of the grid."""
        return math.prod(map(len, self.grid.values()))


def open_study(search: Search) -> "optuna.Study":
    """The study itself, for Optuna's own plots, or to go on with another of its samplers; made
    where there is none."""
    sampler = _optuna().samplers.RandomSampler(seed=search.seed)
    options = {"sampler": sampler, "direction": "minimize", "load_if_exists": True}
    try:
        return _optuna().create_study(**_place(search), **options)
    except (ValueError, LookupError, TypeError, AssertionError):  # as Optuna reads a damaged file
        warn_of_cache(search.path)
        search.path.unlink()  # the same trials are drawn again, and told their scores again
        return _optuna().create_study(**_place(search), **options)


def ask(search: Search, trials: int) -> list[Parameters]:
    """The parameters of the first `trials` trials; those that the study does not hold yet are asked
    for now."""
    if trials < 1 or (search.complete and trials > search.size):
        raise BadInput(
            f"trials is {trials}: give 1 or "
            f"more{f', up to {search.size} (the grid)' * search.complete}."
        )
    optuna, study = _optuna(), open_study(search)
    space = {
        name: optuna.distributions.CategoricalDistribution(values)
        for name, values in search.grid.items()
    }
    # its n-th trial: cell n of the shuffled grid
    cells = optuna.samplers.GridSampler(search.grid, seed=search.seed)
    for number in range(len(study.trials), trials):
        draws = optuna.samplers.RandomSampler(
            seed=int(stream(search.seed, "trial", number).integers(2**32))
        )
        study.sampler = cells if search.complete else draws
        study.ask(space)
    return [_parameters(search, trial) for trial in study.trials[:trials]]


def tell(search: Search, scores: Iterable[tuple[Parameters, float]]) -> Parameters:
    """Tell the study the scores of trials that it asked for; returns the parameters of its best
    trial.

    A study that holds other scores for these trials, of an earlier version, is begun again with the
    same trials.
    """
    found = {_key(search, parameters): score for parameters, score in scores}
    study = open_study(search)
    asked = {trial.number: _key(search, _parameters(search, trial)) for trial in study.trials}
    if unknown := found.keys() - asked.values():
        raise BadInput(
            f"study {search.name!r} did not ask for {dict(min(unknown))}: ask for its trials first."
        )
    told = {trial.number: trial.value for trial in study.trials if trial.state.is_finished()}
    scored = {number: found[key] for number, key in asked.items() if key in found}
    if any(told.get(number, score) != score for number, score in scored.items()):
        _optuna().delete_study(**_place(search))
        ask(search, len(asked))
        study, told = open_study(search), {}
    for number in sorted(scored.keys() - told.keys()):
        study.tell(number, scored[number])
    return _parameters(search, study.best_trial)


def _parameters(search: Search, trial: Any) -> Parameters:
    return {name: trial.params[name] for name in search.grid}


def _key(search: Search, parameters: Parameters) -> tuple:
    return tuple((name, parameters.get(name)) for name in search.grid)


def _place(search: Search) -> dict[str, Any]:
    storages = _optuna().storages
    search.path.parent.mkdir(parents=True, exist_ok=True)
    journal = storages.JournalStorage(storages.journal.JournalFileBackend(str(search.path)))
    return {"study_name": search.name, "storage": journal}


def _optuna() -> Any:
    """Optuna, silent but for warnings of its own; imported late, so that the library loads without
    it."""
    with warnings.catch_warnings():
        # tqdm misses widgets that nobody asks for
        warnings.filterwarnings("ignore", "IProgress not found")
        import optuna

    optuna.logging.set_verbosity(optuna.logging.WARNING)
    return optuna
