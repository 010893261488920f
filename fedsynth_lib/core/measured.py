"""What the committed audit says of a method.

This module is apart from the audit itself, so that a statement can report what was measured. A line
is valid for the code that it was measured with: for the method's modules and all that they import,
for the code that runs and judges it, and for the settings that the method has. If any of these has
changed since, the line says nothing.
"""

from dataclasses import asdict
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

import pandas as pd

from fedsynth_lib.core import sources
from fedsynth_lib.core.contract import Method
from fedsynth_lib.core.store import CODE, project_root

COMMITTED = Path(__file__).with_name("audit.csv")  # installed with the package
EXCEEDED, BELOW, WEAK = "claim exceeded", "below the claim", "too weak to tell"
MEASURED_BY = f"{sources.PACKAGE}.audit.measure"  # of whose imports these rooms are followed:
ROOMS = tuple(f"{sources.PACKAGE}.{room}." for room in ("audit", "core", "federation"))
# no part in what is drawn, charged or judged; masks cancel, and are left out of an audit's runs
APART = tuple(
    f"{sources.PACKAGE}.{name}"
    for name in ("core.ledger", "core.measured", "core.sources", "core.statement", "core.store")
) + tuple(f"{sources.PACKAGE}.federation.{name}" for name in ("answers", "masks"))


class Measured(NamedTuple):
    """What an audit measured of a method.

    claimed: the epsilon of the audited runs.
    lower: the lower bound of epsilon that the audit proved, at 95 percent confidence.
    runs: how many runs were made with the record, and as many without it.
    """

    claimed: float
    lower: float
    runs: int


def path_of_lines() -> Path:
    """Return the file of an audit's lines: the committed one in a checkout, else the user's own."""
    home = project_root()
    return COMMITTED if home == CODE else home / "data" / "results" / COMMITTED.name


def read_lines() -> pd.DataFrame:
    """Read the user's own lines, or the committed ones while there are none."""
    path = path if (path := path_of_lines()).is_file() else COMMITTED
    return pd.read_csv(path, dtype={"digest": str, "date": str}, keep_default_na=False)


@lru_cache(maxsize=64)
def digest_of(method: Method) -> str:
    """Return a digest of the code and the settings that a line about this method rests on."""
    verbs = [part for part in vars(method).values() if callable(part) and part != method.Config]
    own = sources.closure({verb.__module__ for verb in verbs}, lambda name: name not in APART)
    judges = sources.closure(
        [MEASURED_BY], lambda name: name.startswith(ROOMS) and name not in APART
    )
    settings = repr((method.VERSION, method.TRUST, method.OWN_NOISE, asdict(method.Config())))
    return sources.digest(sorted({*own, *judges}), settings)


def measured(key: str, method: Method) -> Measured | None:
    """Return what was measured of a method in METHODS, with one client.

    The result is None if no line is of the code as it is now, or if the line is too weak because
    its control was missed.
    """
    lines = read_lines()
    own = lines[(lines["method"] == key) & (lines["clients"] == 1) & (lines["verdict"] != WEAK)]
    own = own[own["digest"] == digest_of(method)] if len(own) else own
    if own.empty:
        return None
    line = own.iloc[0]
    return Measured(float(line["epsilon"]), float(line["lower"]), int(line["runs"]))
