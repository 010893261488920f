"""Every measure that result rows may carry: how it is written, its unit, and which way is better.

`measures.toml` lists them, for axes, tables, verdicts and the versions of cells. No package is
imported here, so that rows can be read without any measure.
"""

import tomllib
from pathlib import Path
from typing import Literal, NamedTuple

Better = Literal["lower", "higher", "half", "none"]


class Measure(NamedTuple):
    """How a measure is written, and where good values lie, as `measures.toml` describes it."""

    label: str
    better: Better = "none"
    work: str = ""
    unit: str = ""
    group: str = ""
    version: int = 1


MEASURES: dict[str, Measure] = {
    name: Measure(**entry)
    for name, entry in tomllib.loads(
        Path(__file__).with_name("measures.toml").read_text(encoding="utf-8")
    ).items()
}
METRICS = {name: measure for name, measure in MEASURES.items() if measure.group}
ARROWS = {"lower": " ↓", "higher": " ↑", "half": "", "none": ""}
ENDINGS = ("_low", "_high", "_success", "_advantage", "_caught")  # of an interval, and of an attack


def base(name: str) -> str:
    """Return the measure that a name belongs to: `risk` for `risk_high`."""
    ending = next((ending for ending in ENDINGS if name.endswith(ending)), "")
    return name if name in MEASURES else name.removesuffix(ending)


def axis_label(name: str) -> str:
    """Return the label of a measure for an axis, with its unit and an arrow towards better.

    The unit is in brackets. An end of a measure's interval has the label alone. A name that is no
    measure stays, with spaces.
    """
    known = base(name)
    if known not in MEASURES:
        return name.replace("_", " ")
    if known != name:
        return MEASURES[known].label + name.removeprefix(known).replace("_", ", ")
    measure = MEASURES[name]
    unit = f" ({measure.unit})" if measure.unit else ""
    return f"{measure.label}{unit}{ARROWS[measure.better]}"


def _written() -> dict[str, str]:
    """Label of each measure with a direction, with and without its unit -> label for an axis.

    A label that measures of several units share gets the arrow alone.
    """
    found: dict[str, str] = {}
    for name, measure in MEASURES.items():
        if arrow := ARROWS[measure.better]:
            whole, label = axis_label(name), measure.label
            found[whole.removesuffix(arrow)] = whole
            alike = {each.unit for each in MEASURES.values() if each.label == label}
            found[label] = whole if len(alike) == 1 else f"{label}{arrow}"
    return found


LABELS = _written()


def sign(name: str) -> int:
    """Return 1 where more is better, -1 where less is, else 0, also for an unknown name."""
    better = MEASURES[name].better if name in MEASURES else "none"
    return {"higher": 1, "lower": -1}.get(better, 0)
