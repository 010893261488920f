"""What the committed audit says of a method; apart from the audit itself, so that a statement can
tell it."""

from pathlib import Path
from typing import NamedTuple

import pandas as pd

from fedsynth_lib.core.store import project_root

EXCEEDED, BELOW, WEAK = "claim exceeded", "below the claim", "too weak to tell"


class Measured(NamedTuple):
    """claimed: epsilon of the audited runs. lower: what was measured of it, 95 percent. runs: of
    either kind."""

    claimed: float
    lower: float
    runs: int


def path_of_lines() -> Path:
    return project_root() / "data" / "results" / "audit.csv"


def measured(key: str, version: int | None = None) -> Measured | None:
    """Of a method in METHODS, with one client; None where no line of this version is there, or its
    control was missed.

    version: None takes any.
    """
    if not path_of_lines().is_file():
        return None
    lines = pd.read_csv(path_of_lines())
    own = lines[(lines["method"] == key) & (lines["clients"] == 1) & (lines["verdict"] != WEAK)]
    own = own if version is None else own[own["version"] == version]
    if own.empty:
        return None
    line = own.iloc[0]
    return Measured(float(line["epsilon"]), float(line["lower"]), int(line["runs"]))
