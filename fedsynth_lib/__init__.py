"""Federated, differentially private synthetic tables: the library under the notebooks.

    import fedsynth_lib as fs

    chapter = fs.open_exhibit("maddock2024", "tab2")  # rows, and print beside them
    table = fs.load_table("adult", rows=5000)
    clients = fs.split_clients(table, "iid", 3, seed=0)
    run = fs.federated(fs.METHODS["fedpgm"], table, clients, privacy=fs.Privacy(1.0, 1e-5))

    synthetic, statement = fs.synthesize(df, epsilon=1)  # of a DataFrame of your own

A name is imported from its module when it is first used, so that nothing loads what it does not
need.
"""

import os
from importlib import import_module
from typing import Any

__version__ = "1.0.0"

# Both libraries report usage by default; a bundle that handles people's tables must not.
os.environ.setdefault("FLWR_TELEMETRY_ENABLED", "0")
os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")

PUBLIC = {  # name -> the module that has it, and what it is called there if otherwise
    "BadInput": "core.contract",
    "METHODS": "methods",
    "Privacy": "core.contract",
    "central": "federation.settings",
    "check": "release.frames",
    "compare": "printed.published",
    "comparison_table": "printed.layouts",
    "draft": "release.frames",
    "epsilon_of": "core.accounting",
    "evaluate": "metrics.evaluation",
    "federated": "federation.settings",
    "heterogeneity": "tables.partition",
    "load_model": "release.saved:read",
    "load_table": "tables.load",
    "load_work": "works.declared:load",
    "local": "federation.settings",
    "open_exhibit": "works.exhibit",
    "save_claims": "verdicts.judges",
    "split": "tables.load",
    "split_clients": "tables.partition",
    "statement_table": "core.statement",
    "synthesize": "release.frames",
}
__all__ = ["PUBLIC", *PUBLIC]


def __getattr__(name: str) -> Any:
    if name not in PUBLIC:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    module, _, attribute = PUBLIC[name].partition(":")
    return getattr(import_module(f"{__name__}.{module}"), attribute or name)


def __dir__() -> list[str]:
    return sorted([*globals(), *PUBLIC])
