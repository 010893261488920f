"""Condition types of claims, which are declared in data/published/claims/<work>.toml.

A claim holds as far as its conditions do: its outcome is the mean of their shares. A condition
compares cells (`verdicts/cells.py`: the mean, spread and number of runs of one setting) in places,
one for each combination of the values of the axes in `each`. Its share is that of the places in
which it holds; where `count` or `share` says how many are wanted, it is 1 or 0.

    {value = M, ...}         the metric M lies within the bounds
    {difference = [A, B]}    A less B lies within the bounds
    {gap = [A, B]}           absolute difference of A and B
    {ratio = [A, B]}         A over B
    {cut = [A, B]}           percent by which B lies below A
    {range = [axis, ...]}    largest less smallest value over these axes
    {below = [A, B]}         A < B; with `factor` A <= factor * B, with `margin` A < B + margin
    {better = [A, B]}        A < B or A > B, whichever is better by the metric
    {ordered = [A, B, C]}    A < B < C
    {monotone = "rising"}    over the axis `across`, also "falling", or "either"; with `steps`, the
                             share of its steps
    {tested = B, outcome}    the outcome of Student's t-test of federated against B (central,
                             local): better, worse, equal; or with `score` both counts, as "+6/-0",
                             each within the `band` of what chance makes of it
    {marked = A, mark}       the mark that a work's own test makes at A: "*", "worse", "not *"
    {custom = name}          a function of `verdicts/custom/claims.py`

A, B: values of the axis `across`, `method` unless it says otherwise. Several in a list are each
compared on their own, and count as places; in `below` all of the first lie below all of the second,
or any of them if written {any = [...]}. Bounds are `over`, `under` (strict), `least` and `most`.

where       axis -> value or values; what a cell does not have (the clients of central data) does
            not keep it out. In the file, a group of claims and a claim, `where` adds up.
each        the axes that make places. `only`: a query that chooses some of them.
average     axes over which numbers are averaged before comparison.
separately  axis -> values: a condition of its own for each.
as_run      axes of which those values count that were run for any side; `needs`: axis -> values
            that must be among them. Of all other axes every value is needed.
incomplete  "skip" leaves out places that lack a side.
optional    the condition is left out, and named, where its cells are incomplete.
taken       what of the numbers over `average` is compared: their mean (the default) or `range`.
groups      {by = axes, count = [least, most]}: the places that have the same values of these axes
            count as one, in which the condition holds if it does in so many of them.
opposite    axis -> values at which `below`, or a bound, is to be the other way round.
statistic   of the runs of a cell: mean (the default), its standard error `sem`, median,
            inter-quartile range `iqr`, min, max.

Means are rounded to nine digits, since the order of a sum over seeds changes the last ones.

Conditions are about the main clauses of a claim's sentence. A clause without which the author's
sentence stays true, and which the author does not repeat in a conclusion, has none: a degree
(`more so`, `even`), a reason or a consequence (`because`, `so`), an example, or what only the check
asks for.
"""

import operator
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from itertools import chain, pairwise, product
from typing import NamedTuple

import numpy as np
import pandas as pd

from fedsynth_lib.metrics.registry import sign
from fedsynth_lib.printed.published import t_test
from fedsynth_lib.verdicts.places import (
    Condition,
    Missing,
    RanOnce,
    about,
    as_text,
    axis_name,
    flatten,
    is_resampled,
    label,
    means,
    side,
    wide,
    with_axis,
)

FEW = 4  # up to this many values are listed


class ConditionResult(NamedTuple):
    """The share of a condition that holds, its sentence, and the tables that were not run."""

    share: float
    text: str
    absent: tuple[str, ...] = ()


# --- sentences -----------------------------------------------------------------------------------


def result_of(
    c: Condition, holds: pd.Series, what: str, numbers: Iterable[str], summary: str = ""
) -> ConditionResult:
    """How often a statement holds, with the numbers of few places, or of few exceptions.

    holds: by place; numbers: in the same order; summary: of the numbers of many places.
    """
    absent = _absent(c, holds.index)
    if "groups" in c.own:
        least, most = c.own["groups"]["count"]
        groups = holds.groupby(c.own["groups"]["by"], sort=False, dropna=False)
        what, summary = f"{what} in {least} to {most} of {groups.size().max()},", ""
        numbers = (f"{number} of {size}" for number, size in groups.agg(["sum", "size"]).to_numpy())
        holds = groups.sum().between(least, most)
    if is_resampled():
        return ConditionResult(wanted_share(c, holds)[0], "", absent)
    many, texts = len(holds) > FEW, list(numbers)
    where = np.flatnonzero(~holds.to_numpy(bool)) if many else range(len(holds))
    placed = [
        f"{label(holds.index[at], holds)}: {texts[at]}" if len(holds) > 1 else texts[at]
        for at in (where if len(where) <= FEW else ())
    ]
    shown = ", ".join(placed)
    if many:
        exceptions = f"not at {shown}" if placed else ""
        shown = "; ".join(filter(None, [summary, exceptions]))
    share, wanted = wanted_share(c, holds)
    text = f"{context(c)}{what} in {int(holds.sum())} of {len(holds)}{wanted}"
    return ConditionResult(share, f"{text} ({shown})" if shown else text, absent)


def context(c: Condition) -> str:
    """Return what a condition itself says about where it is, and its metrics."""
    own = {a: v for a, v in c.own["where"].items() if a not in ("metric", c.across)}
    words = [with_axis(axis, v[0]) for axis, v in own.items() if len(v) == 1 and v != [""]]
    metrics = [] if c.across == "metric" else c.where.get("metric", [])
    words += metrics if len(metrics) <= FEW else [f"{len(metrics)} metrics"]
    if "taken" in c.own:
        words.append(f"{c.own['taken']} over {', '.join(map(axis_name, c.average))}")
    return f"{', '.join(words)}: " if words else ""


def wanted_share(c: Condition, holds: pd.Series) -> tuple[float, str]:
    """Return the share of places in which a condition holds, or whether it is as many as wanted."""
    if c.count is not None:
        least, most = c.count if c.count[0] < c.count[1] else band(c.count[0], len(holds))
        words = f"{least}" if least == most else f"{least} to {most}"
        return float(least <= holds.sum() <= most), f", {words} wanted"
    if c.share is not None:
        return float(holds.mean() >= c.share), f", {100 * c.share:.0f} percent wanted"
    return float(holds.mean()), ""


def band(stated: int, places: int) -> tuple[int, int]:
    """Return the fewest and the most places that a repetition could have as well.

    The work has `stated` of so many places; the band is within two standard deviations of a
    binomial, one at least. A stated effect is met by one place at least: none at all is not what
    was stated.

    Its chance is (stated + 1) / (places + 2), so that 0 of 9 may be 1 the next time.
    """
    chance = (stated + 1) / (places + 2)
    width = max(1, round(2 * np.sqrt(places * chance * (1 - chance))))
    return max(min(stated, 1), stated - width), min(places, stated + width)


def _absent(c: Condition, index: pd.Index) -> tuple[str, ...]:
    if "dataset" not in c.as_run or "dataset" not in index.names:
        return ()
    return tuple(name for name in c.values("dataset") if name not in set(index.unique("dataset")))


def digits(number: float) -> str:
    """Write a number with four significant digits."""
    return f"{number:.4g}"


def spread(numbers: pd.Series) -> str:
    """Write the lowest and the highest of the numbers."""
    return f"{digits(numbers.min())} to {digits(numbers.max())}"


# --- kinds ---------------------------------------------------------------------------------------


BOUNDS = {
    "over": (">", operator.gt),
    "under": ("<", operator.lt),
    "least": (">=", operator.ge),
    "most": ("<=", operator.le),
}


def _bounded(
    c: Condition, numbers: pd.Series, what: str, texts: Iterable[str] | None = None
) -> ConditionResult:
    """How many of the numbers lie within the bounds of the condition."""
    numbers = numbers.round(9)
    given = [(*bound, c.own[name]) for name, bound in BOUNDS.items() if name in c.own]
    within = np.logical_and.reduce([holds(numbers, limit) for _, holds, limit in given])
    words = " and ".join(f"{sign} {limit:g}" for sign, _, limit in given)
    texts = map(digits, numbers) if texts is None else texts
    there, turned = _opposite(c, numbers.index, "not")
    holds = pd.Series(within != there, numbers.index)
    return result_of(c, holds, f"{what} {words}{turned}", texts, spread(numbers))


def _opposite(c: Condition, index: pd.Index, word: str) -> tuple[np.ndarray, str]:
    """At which places a condition is to be the other way round, and words for it."""
    said = c.own.get("opposite", {})
    there = [index.get_level_values(axis).isin(values) for axis, values in said.items()]
    found = np.logical_or.reduce([np.zeros(len(index), bool), *there])
    words = ", ".join(map(as_text, chain.from_iterable(said.values())))
    return found, f" ({word} at {words})" if found.any() else ""


def _value(cells: pd.DataFrame, c: Condition) -> ConditionResult:
    c = replace(c, across="metric")
    table = means(cells, c, flatten(c.of))
    numbers = table.rename_axis(columns="metric").stack()
    return _bounded(c, numbers, ", ".join(flatten(c.of)))


def _pairs(cells: pd.DataFrame, c: Condition, number: Callable, what: str) -> ConditionResult:
    """Judge a bounded number of two sides, for each pair of a first and a second name."""
    first, second = (flatten(names) for names in c.of)
    try:
        table = means(cells, replace(c, average=()), [*first, *second])
    except Missing:
        means(cells, c, [*first, *second])  # raises as well, and knows what is averaged
        raise
    pairs = list(product(first, second))
    parts = {
        what.format(side(c, one), side(c, other)): number(table[one], table[other])
        for one, other in pairs
    }
    numbers = pd.concat(parts, names=["pair", *table.index.names])
    texts = (
        f"{digits(a)} v {digits(b)}" for pair in pairs for a, b in table[list(pair)].to_numpy()
    )
    if c.average:
        kept = [axis for axis in numbers.index.names if axis not in c.average]
        groups = numbers.groupby(kept, sort=False)
        texts = (f"mean of {', '.join(map(digits, group))}" for _, group in groups)
        numbers = groups.mean()
    shown = (f"{digits(value)}, {text}" for value, text in zip(numbers, texts, strict=True))
    found = _bounded(c, numbers, what.format(side(c, first), side(c, second)), shown)
    return found._replace(absent=_absent(c, table.index))


def _range(cells: pd.DataFrame, c: Condition) -> ConditionResult:
    over = [axis for axis in c.of if axis != "metric"]
    inner = replace(c, across="metric", each=(*c.each, *over), average=())
    table = means(cells, inner, c.values("metric")).rename_axis(columns="metric").stack()
    kept = [axis for axis in table.index.names if axis not in over]
    numbers = table.groupby(kept, sort=False).agg(np.ptp)
    return _bounded(c, numbers, f"range over {', '.join(map(axis_name, over))}")


def _below(cells: pd.DataFrame, c: Condition) -> ConditionResult:
    low, high = c.of
    table = means(cells, c, [*flatten(low), *flatten(high)])
    ran = [[name for name in flatten(names) if name in table] for names in c.of]
    lower = table[ran[0]].agg("min" if isinstance(low, Mapping) else "max", axis=1)
    upper = table[ran[1]].agg("max" if isinstance(high, Mapping) else "min", axis=1)
    factor, margin = c.own.get("factor"), c.own.get("margin", 0)
    holds, relation = (lower - upper).round(9) < margin, f"< {margin:g} +" if margin else "<"
    if factor:
        holds, relation = (lower / upper).round(9) <= factor, f"<= {factor:g} x"
    there, turned = _opposite(c, table.index, "above")
    holds = holds.where(~there, (lower - upper).round(9) > 0)
    numbers = (f"{digits(a)} v {digits(b)}" for a, b in zip(lower, upper, strict=True))
    what = f"{side(c, low)} {relation} {side(c, high)}{turned}"
    return result_of(c, holds, what, numbers, f"differences {spread(lower - upper)}")


def sign_of(table: pd.DataFrame, c: Condition) -> np.ndarray:
    """By place 1 where higher is better by its metric, -1 where lower is."""
    metrics = c.values("metric") * len(table)
    if "metric" in table.index.names:
        metrics = table.index.get_level_values("metric")
    return np.array([sign(name) for name in metrics])


def _better(cells: pd.DataFrame, c: Condition) -> ConditionResult:
    one, other = c.of
    table = means(cells, c, [one, other])
    gain = ((table[one] - table[other]) * sign_of(table, c)).round(9)
    numbers = (f"{digits(a)} v {digits(b)}" for a, b in table[[one, other]].to_numpy())
    return result_of(c, gain > 0, f"{side(c, one)} better than {side(c, other)}", numbers)


def _ordered(cells: pd.DataFrame, c: Condition) -> ConditionResult:
    table = means(cells, c, c.of)[c.of]
    steps = [table[low] < table[high] for low, high in pairwise(c.of)]
    numbers = (" ".join(map(digits, row)) for row in table.to_numpy())
    what = " < ".join(side(c, name) for name in c.of)
    return result_of(c, pd.Series(np.logical_and.reduce(steps), table.index), what, numbers)


MONOTONE = {
    "rising": "never falls",
    "falling": "never rises",
    "either": "never turns",
}


def _monotone(cells: pd.DataFrame, c: Condition) -> ConditionResult:
    table = means(cells, c, c.values(c.across))
    steps = table.diff(axis=1).iloc[:, 1:].round(9)
    what = f"{MONOTONE[c.of]} with {axis_name(c.across)}"
    numbers = (
        ", ".join(
            f"{as_text(name)} {digits(value)}" for name, value in zip(table, row, strict=True)
        )
        for row in table.to_numpy()
    )
    if c.own.get("steps"):
        held = (steps >= 0 if c.of == "rising" else steps <= 0).to_numpy()
        text = f"{context(c)}{what} in {held.sum()} of {held.size} steps"
        return ConditionResult(float(held.mean()), f"{text} ({'; '.join(numbers)})")
    rising, falling = (steps >= 0).all(axis=1), (steps <= 0).all(axis=1)
    holds = {"rising": rising, "falling": falling, "either": rising | falling}[c.of]
    return result_of(c, holds, what, numbers)


def tests(cells: pd.DataFrame, c: Condition, against: str) -> pd.Series:
    """By place the outcome of the t-test of federated against other cells: better, worse, equal.

    The fewest repeats of any of the cells serve for all. Raises RanOnce where one has no spread.
    """
    c, sides = replace(c, across="setting"), ["federated", against]
    mean, n = (wide(cells, c, sides, name)[sides] for name in ("mean", "n"))
    std = wide(cells, c, sides, "std", gaps=True)[sides]
    if std.isna().any(axis=None):
        raise RanOnce(f"a test needs 2 seeds or more, and there are cells with one ({about(c)})")
    own, other = mean.to_numpy().T
    spread, other_spread = std.to_numpy().T
    p = t_test(own, spread, other, other_spread, n=int(n.min(axis=None)))
    gain = (own - other) * sign_of(mean, c)
    return pd.Series(np.select([p >= 0.05, gain > 0], ["equal", "better"], "worse"), mean.index)


def _tested(cells: pd.DataFrame, c: Condition) -> ConditionResult:
    c = replace(c, across="setting")
    found = tests(cells, c, c.of)
    score = f"+{(found == 'better').sum()}/-{(found == 'worse').sum()}"
    against = f"federated v {c.of}"
    if "score" in c.own:
        counts = (found == "better").sum(), (found == "worse").sum()
        stated = [int(number) for number in c.own["score"].replace("-", "").split("/")]
        bands = [band(number, len(found)) for number in stated]
        within = [low <= n <= high for n, (low, high) in zip(counts, bands, strict=True)]
        words = " and ".join(f"{low} to {high}" for low, high in bands)
        text = f"{context(c)}{against} {score} of {len(found)}, {c.own['score']} stated: {words}"
        return ConditionResult(float(all(within)), text)
    wanted = flatten(c.own["outcome"])
    holds = found.isin(wanted)
    return result_of(c, holds, f"{against} {' or '.join(wanted)}", found, score)


def _marked(cells: pd.DataFrame, c: Condition) -> ConditionResult:
    mean, other = (wide(cells, c, [c.of], name)[c.of] for name in ("mean", "mean_other"))
    p = wide(cells, c, [c.of], "p", gaps=True)[c.of]
    if p.isna().any():
        raise RanOnce(f"a test of {c.of} needs 2 seeds or more ({about(c)})")
    marks, wanted = wide(cells, c, [c.of], "mark")[c.of], c.own["mark"]
    holds = marks != "*" if wanted == "not *" else marks == wanted
    numbers = (
        f"{digits(a)} v {digits(b)}, p {min(q, 1 - q):.4f}"  # of the side it lies on
        for a, b, q in zip(mean, other, p, strict=True)
    )
    return result_of(c, holds, f"{c.of} marked {wanted}", numbers)


KINDS: dict[str, Callable[[pd.DataFrame, Condition], ConditionResult]] = {
    "value": _value,
    "difference": lambda cells, c: _pairs(cells, c, lambda a, b: a - b, "{} less {}"),
    "gap": lambda cells, c: _pairs(cells, c, lambda a, b: (a - b).abs(), "|{} less {}|"),
    "ratio": lambda cells, c: _pairs(cells, c, lambda a, b: a / b, "{} over {}"),
    "cut": lambda cells, c: _pairs(
        cells, c, lambda a, b: 100 * (1 - b / a), "percent cut from {} to {}"
    ),
    "range": _range,
    "below": _below,
    "better": _better,
    "ordered": _ordered,
    "monotone": _monotone,
    "tested": _tested,
    "marked": _marked,
}
