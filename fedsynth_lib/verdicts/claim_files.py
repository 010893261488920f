"""Claims as data/published/claims/<work>.toml says them, checked before anything is judged.

A file has `axes`, the values that each axis of its cells may have; `shared`, what holds for all its
claims; and groups of claims that are judged on the rows of the same `grids`. What is said of all
claims, of a group and of a claim goes over to its conditions (see `vocabulary`); `where` and
`needs` add up, of all else the nearest counts. A claim is about the tables in its `datasets`.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import product
from typing import Any

from fedsynth_lib.core.contract import BadInput
from fedsynth_lib.metrics.registry import sign
from fedsynth_lib.printed.published import CLAIM, claims_path, read_claims
from fedsynth_lib.runs.typed import check_names
from fedsynth_lib.verdicts.custom.claims import CUSTOM
from fedsynth_lib.verdicts.places import TAKEN, Condition, flatten
from fedsynth_lib.verdicts.vocabulary import BOUNDS, KINDS, MONOTONE

ADDED = {"where", "needs"}  # of all levels together
SHARED = {*ADDED, "each", "across", "average", "as_run", "incomplete", "statistic", "separately"}
OF_ROWS = {"reading", "vacuous", "caveat", "short", "minutes"}
OF_GROUP = {"grids", "other"}
PROSE = {
    *("claim", "place", "check", "datasets", "setting"),
    *("holds_on_published_values", "published_evidence", "on_rounded_figures"),
}
OWN = {"only", "count", "share", "optional"}  # of a condition alone
OF_PLACES = {"groups", "taken"}  # likewise
BOUNDED = ("value", "difference", "gap", "ratio", "cut", "range")
OF_KIND: dict[str, set[str]] = {
    **{kind: {*BOUNDS, "opposite"} for kind in BOUNDED},
    "below": {"factor", "margin", "opposite"},
    "monotone": {"steps"},
    "tested": {"outcome", "score"},
    "marked": {"mark"},
}
REQUIRED = {*BOUNDED, "tested", "marked"}  # kinds that say nothing without one of their keys
WORDS = {  # key -> what it may be
    "incomplete": {"skip"},
    "taken": {*TAKEN},
    "statistic": {"mean", "sem", "median", "iqr", "min", "max"},
    "monotone": {*MONOTONE},
    "outcome": {"better", "worse", "equal"},
    "mark": {"*", "worse", "not *"},
}


@dataclass(frozen=True)
class Claim:
    """A claim, ready to be judged.

    reading: how rows are made into cells (see `cells`). vacuous: why it cannot fail. caveat: what
        a verdict on rows of this kind does not say. short: how far rows fall short of the work's
        scale, and what would not: they may bear the claim out, and cannot refute it. minutes: of
        one core for a run, where rows do not tell, since another grid made their trainings. other:
        of its group, `grids` and `reading` of rows that a notebook judges beside the main ones.
    """

    id: str
    group: str
    grids: tuple[str, ...]
    datasets: tuple[str, ...]
    conditions: tuple[Condition, ...]
    reading: Mapping[str, Any] = field(default_factory=dict)
    vacuous: str = ""
    caveat: str = ""
    short: str = ""
    minutes: float = 0.0
    other: Mapping[str, Any] = field(default_factory=dict)


@lru_cache
def written(work: str) -> tuple[Claim, ...]:
    """Load the claims of a work in the order of their numbers.

    Raises BadInput, naming file, claim and key, for what no condition knows.
    """
    return parsed(work, read_claims(work), claims_path(work).name)


def parsed(work: str, data: Mapping[str, Any], file: str) -> tuple[Claim, ...]:
    """Check the claims of a file that was read; `file` is its name in messages."""
    claims, shared = {}, data.get("shared", {})
    check_names(f"{file}, shared", "key", shared, SHARED | OF_ROWS)
    for group, entries in data.items():
        if group in ("axes", "shared"):
            continue
        common = {name: value for name, value in entries.items() if not CLAIM.fullmatch(name)}
        check_names(f"{file}, {group}", "key", common, SHARED | OF_ROWS | OF_GROUP)
        for number in filter(CLAIM.fullmatch, entries):
            said, where = entries[number], f"{file}, claim {number}"
            check_names(where, "key", said, SHARED | OF_ROWS | PROSE | {"conditions"})
            tables = {"where": {"dataset": said["datasets"]}} if said["datasets"] else {}
            levels = [shared, common, tables, said]
            claims[number] = Claim(
                id=f"{work}/{number}",
                group=group,
                grids=tuple(common.get("grids", ())),
                other=common.get("other", {}),
                datasets=tuple(said["datasets"]),
                conditions=tuple(
                    condition
                    for entry in said["conditions"]
                    for condition in _conditions(where, data["axes"], [*levels, entry])
                ),
                **_nearest(levels, OF_ROWS),
            )
    return tuple(claims[number] for number in sorted(claims))


def _nearest(levels: Iterable[Mapping], keys: set[str]) -> dict[str, Any]:
    return {key: value for level in levels for key, value in level.items() if key in keys}


def _conditions(where: str, axes: Mapping[str, list], levels: Sequence[Mapping]) -> list[Condition]:
    """Return a condition with what all levels say, once for each value of `separately`."""
    entry = levels[-1]
    kinds = [name for name in entry if name in KINDS or name == "custom"]
    if len(kinds) != 1:
        raise BadInput(
            f"{where}: unknown condition {dict(entry)}: give one of "
            f"{', '.join([*KINDS, 'custom'])}."
        )
    kind = kinds[0]
    check_names(where, "key", entry, SHARED | OWN | OF_PLACES | OF_KIND.get(kind, set()) | {kind})
    said = _nearest(levels, SHARED | OWN)
    for name in ADDED:
        added = [each for level in levels for each in level.get(name, {}).items()]
        said[name] = {axis: flatten(values) for axis, values in added}
    separately = {axis: flatten(v) for axis, v in said.pop("separately", {}).items()}
    own_where = {axis: flatten(v) for axis, v in entry.get("where", {}).items()}
    conditions = []
    for values in product(*separately.values()):
        here = {axis: [value] for axis, value in zip(separately, values, strict=True)}
        own = {**entry, "where": own_where | here}
        full = {**said, "where": said["where"] | here}
        conditions.append(Condition(kind=kind, of=entry[kind], axes=axes, own=own, **full))
        _check(where, conditions[-1])
    return conditions


def _check(where: str, c: Condition) -> None:
    """Refuse axes, values and words that nobody declares, and a condition that says nothing."""
    if c.kind == "custom":
        check_names(where, "function of custom/claims.py", [c.of], CUSTOM)
    if c.kind in REQUIRED and not (wanted := OF_KIND[c.kind] - {"opposite"}) & set(c.own):
        raise BadInput(f"{where}: {c.kind} needs one of {', '.join(sorted(wanted))}.")
    words = {**c.own, "incomplete": c.incomplete or "skip", "statistic": c.statistic}
    for key, allowed in WORDS.items():
        check_names(where, key, flatten(words.get(key, [])), sorted(allowed))
    over, groups = c.of if c.kind == "range" else (), c.own.get("groups", {"by": []})
    check_names(where, "key of groups", groups, {"by", "count"})
    named = [*c.each, *c.average, *c.as_run, c.across, *over, *groups["by"]]
    check_names(where, "axis", named, c.axes)
    for named in (c.where, c.needs, c.own.get("opposite", {}), _sides(c)):
        check_names(where, "axis", named, c.axes)
        for axis, values in named.items():
            check_names(where, axis, flatten(values), c.axes[axis])
    several = {axis for axis, values in c.where.items() if len(values) > 1}
    if free := several - {*c.each, c.across, "metric", *over} if c.kind != "custom" else ():
        raise BadInput(
            f"{where}: {c.kind} has several values of {', '.join(sorted(free))}: name it in each."
        )
    if c.kind in ("better", "tested"):
        for metric in c.values("metric"):
            if not sign(metric):
                raise BadInput(f"{where}: {c.kind}: nothing says which way {metric} is better.")
    if c.kind == "monotone" and c.across not in several:
        raise BadInput(f"{where}: monotone needs several values of {c.across} in where.")


def _sides(c: Condition) -> dict[str, list]:
    """Return the axis that a condition compares across, and what it names there."""
    if c.kind in ("range", "monotone", "custom"):
        return {}
    axis = {"tested": "setting", "value": "metric"}.get(c.kind, c.across)
    return {axis: flatten(c.of)}
