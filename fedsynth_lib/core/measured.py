"""What the committed audit says of a method; apart from the audit itself, so that a statement can
tell it."""

from pathlib import Path
from typing import NamedTuple

import pandas as pd

from fedsynth_lib.core.store import CODE, project_root

COMMITTED = Path(__file__).with_name("audit.csv")  # installed with the package
EXCEEDED, BELOW, WEAK = "claim exceeded", "below the claim", "too weak to tell"


class Measured(NamedTuple):
    """claimed: epsilon of the audited runs. lower: what was measured of it, 95 percent. runs: of
    either kind."""

    claimed: float
    lower: float
    runs: int


def path_of_lines() -> Path:
    """Where an audit puts its lines: the committed ones in a checkout, else the user's own."""
    home = project_root()
    return COMMITTED if home == CODE else home / "data" / "results" / COMMITTED.name


def lines_at_hand() -> Path:
    """The user's own lines, or the committed ones while there are none."""
    return path if (path := path_of_lines()).is_file() else COMMITTED


def measured(key: str, version: int | None = None) -> Measured | None:
    """Of a method in METHODS, with one client; None where no line of this version is there, or its
    control was missed.

    version: None takes any.
    """
    lines = pd.read_csv(lines_at_hand())
    own = lines[(lines["method"] == key) & (lines["clients"] == 1) & (lines["verdict"] != WEAK)]
    own = own if version is None else own[own["version"] == version]
    if own.empty:
        return None
    line = own.iloc[0]
    return Measured(float(line["epsilon"]), float(line["lower"]), int(line["runs"]))
