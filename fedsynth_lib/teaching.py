"""The steps that every teaching notebook takes with its method: show its source, compare settings, vary the budget."""

import inspect
from collections.abc import Callable, Iterable, Mapping, Sequence
from types import ModuleType
from typing import Any

import numpy as np
import pandas as pd
from IPython.display import Markdown

from fedsynth_lib import settings
from fedsynth_lib.interface import Privacy, Relation, Run
from fedsynth_lib.metrics import fidelity, utility
from fedsynth_lib.tables import Table


def show_source(*functions: Callable) -> Markdown:
    """The functions' own source as a code block, so that a notebook holds no second copy of it."""
    return Markdown("```python\n{}```".format("\n\n".join(map(inspect.getsource, functions))))


def distances(real: Table, synthetic: pd.DataFrame) -> dict[str, float]:
    """The two measures of fidelity that take no time: of single columns and of pairs; lower is better."""
    return {
        "Hellinger": fidelity.hellinger(real.frame, synthetic, real.schema),
        "PCD": fidelity.pairwise_correlation_difference(real.frame, synthetic, real.schema),
    }


def three_settings(
    method: ModuleType, table: Table, parts: Sequence[np.ndarray], **options: Any
) -> dict[str, list[Run]]:
    """Setting -> its runs, a local one per client; all draw as many rows as `table` has. options: of `settings`."""
    options = {"num_rows": len(table), **options}
    return {
        "central": [settings.central(method, table, **options)],
        "federated": [settings.federated(method, table, parts, **options)],
        "local": settings.local(method, table, parts, **options),
    }


def settings_table(runs: Mapping[str, Sequence[Run]], table: Table) -> pd.DataFrame:
    """A line for each setting: distances from `table`, seconds and traffic in kB; means over clients when local."""
    lines = {
        setting: [
            distances(table, run.synthetic)
            | {"seconds": run.seconds, "kB up": run.bytes_up / 1e3, "kB down": run.bytes_down / 1e3}
            for run in group
        ]
        for setting, group in runs.items()
    }
    return pd.DataFrame({setting: pd.DataFrame(group).mean() for setting, group in lines.items()}).T


def sweep(
    variants: Mapping[str, tuple[ModuleType, Any]],
    train: Table,
    holdout: Table,
    parts: Sequence[np.ndarray],
    *,
    epsilons: Iterable[float | None],
    seeds: Iterable[int],
    relation: Relation = "add_remove",
    delta: float = 0.0,
    learn_from: int = 4_000,
) -> pd.DataFrame:
    """Tidy rows (variant, ε, seed, measure, value) of federated runs of every variant at every budget with every seed.

    variants: name -> method and its config (None: the default). An epsilon of None, a run without noise, becomes
    infinity. Measures: `distances`, and the AUC on `holdout` of a random forest that learned the target on the
    first `learn_from` synthetic rows (they are drawn independently, so the first are as good as any); 0 leaves it out.
    """
    budgets, seeds, rows = list(epsilons), list(seeds), []
    for name, (method, config) in variants.items():
        for epsilon in budgets:
            for seed in seeds:
                privacy = Privacy(epsilon, delta, relation)
                run = settings.federated(method, train, parts, config=config, privacy=privacy, seed=seed)
                values = distances(train, run.synthetic)
                if learn_from:
                    scores = utility.auc(run.synthetic.head(learn_from), holdout.frame, train.schema, seed)
                    values["AUC"] = scores["auc_rf_score"]
                rows += [(name, epsilon or np.inf, seed, measure, value) for measure, value in values.items()]
    return pd.DataFrame(rows, columns=["variant", "ε", "seed", "measure", "value"])
