"""Runs (see `federation.settings`) that are made once and kept, for all cells that measure them."""

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import asdict
from typing import Any

import numpy as np
import pandas as pd

from fedsynth_lib.core.contract import Privacy, Run
from fedsynth_lib.federation import settings
from fedsynth_lib.federation.memory import peak_memory
from fedsynth_lib.methods import METHODS
from fedsynth_lib.runs.grid import remember
from fedsynth_lib.tables.load import Table

FACTS = ("statement", "seconds", "bytes_up", "bytes_down")  # of a run, kept with its rows


def train_once(
    method: str,
    train: Table,
    parts: Sequence[np.ndarray],
    *,
    config: Any,
    privacy: Privacy,
    seed: int,
    draw: Callable[[Run], pd.DataFrame] | None = None,
    drawn: str = "",
    num_rows: int | None = None,
    sizes: Sequence[int] | None = None,
) -> tuple[pd.DataFrame, dict]:
    """Return the rows of a run and its facts, with peak memory in GiB as `gib`.

    A run is made once, and kept.

    method: of METHODS. draw: what is kept of the run, not its table; `drawn` is a name for that.
    """
    dealt = hashlib.sha256(b"".join(np.ascontiguousarray(part, np.int64) for part in parts))
    key = {"method": method, "version": METHODS[method].VERSION, "config": asdict(config)}
    key |= {"privacy": asdict(privacy), "train": train.digest, "seed": seed, "rows": num_rows}
    key |= {"parts": [[len(part) for part in parts], dealt.hexdigest()], "sizes": sizes}
    key |= {"drawn": drawn} if drawn else {}

    def make() -> tuple[pd.DataFrame, dict]:
        options = {"num_rows": num_rows, "sizes": sizes, "privacy": privacy, "seed": seed}
        with peak_memory() as memory:
            run = settings.federated(METHODS[method], train, parts, config=config, **options)
        facts = {name: getattr(run, name) for name in FACTS} | {"gib": memory.gib}
        return (draw(run) if draw else run.synthetic), facts

    return remember(key, make)
