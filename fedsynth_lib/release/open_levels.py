"""Open columns: categories that nobody may know beforehand, selected from noisy counts.

A list of categories is a fact about the rows: somebody's rare one is in it. So a column may be
declared open, `categories = "open"`. The levels that occur are counted in the rows to learn from,
Gaussian noise is added to each count, and a level is named if its noisy count reaches a threshold
(Korolova, Kenthapadi, Mishra and Ntoulas 2009; with Gaussian noise: Desfontaines, Voss, Gipson and
Mandayam 2022, "Differentially private partition selection"). All other values become one level,
`other`, before the method sees them.

What a record pays. Let table T' have one record more than T, and k open columns.

- A level that occurs in T has a noisy count in both. The record raises at most k of them by 1, so
  these counts are a Gaussian release of L2 sensitivity sqrt(k), a `Charge` as any other.
- A level that the record alone has is never named of T. Of T' it is named with probability
  P(1 + N >= threshold), which the threshold makes so small that any of k is named with probability
  q = s / (1 + s) at most, s the share of delta that is set aside.

Unless that happens, T' is treated as T but for the Gaussian release, and noise of the count of a
level is independent of that of others. So for any set of outcomes, P' <= q + (1 - q) Q and P' >=
(1 - q) Q, where Q is what T' gives if no such level is named, and Q and the outcomes of T are
(epsilon, d)-indistinguishable by all charges together. Hence the first direction has delta d + q,
the second d + q / (1 - q) = d + s, and the run is (epsilon, d + s)-private.

A method may hold only so many levels. How many it can follows from the schema and the settings, and
is found before a count is taken; where more reach the threshold, those of the largest noisy counts
are named, which is post-processing.
"""

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd
from scipy.special import ndtri

from fedsynth_lib.core.accounting import calibrate, exceeds, gaussian_counts
from fedsynth_lib.core.contract import BadInput, Charge, Noise, Privacy
from fedsynth_lib.federation.flower import Job
from fedsynth_lib.tables.encode import NO_VALUE
from fedsynth_lib.tables.form import Form
from fedsynth_lib.tables.kinds import FileColumn
from fedsynth_lib.tables.load import Table

COUNTS = "counts of the levels of open columns, of which those above a threshold are named"
NOBODYS = "\x1f"  # ends the names of levels that stand for any: no code of a gap has it
# of the budget: of 1 / noise^2 of the Gaussian release that would spend all of it, and of delta
SHARE, DELTA_SHARE = 0.1, 0.1
# named levels of a column at most: the first number that the method can hold in every open column;
# a pair of columns with more than the first would not fit FLAIM's model at its first choice
MOST_NAMED = (500, 300, 100, 30, 10)


@dataclass(frozen=True)
class Found:
    """The levels of open columns that were selected.

    levels: column -> its named levels, in alphabetical order. counts: column -> their noisy counts,
        and that of gaps where gaps are declared; a record is in one of the counts.
    """

    levels: Mapping[str, Sequence[str]]
    counts: Mapping[str, Sequence[float]]


@dataclass(frozen=True)
class Plan:
    """How levels are selected.

    columns: name -> the category of all other values. charge: of the noisy counts.
    delta: what is set aside for levels that one record alone has. rest: the budget of all charges.
    threshold: the least noisy count of a level that is named. most: named levels of a column.
    """

    columns: Mapping[str, str]
    charge: Charge
    delta: float
    rest: Privacy
    most: int = MOST_NAMED[0]

    @property
    def threshold(self) -> int:
        """P(1 + N >= threshold) for rounded noise N is at most 1 - (1 - q)^(1 / k)."""
        rare = self.delta / (1 + self.delta)
        each = -np.expm1(np.log1p(-rare) / len(self.columns))
        return int(np.ceil(1.5 - self.charge.noise * self.charge.sensitivity * ndtri(each)))

    def noisy(self, counts: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        """Return the counts with the noise that is charged."""
        noise, sensitivity = self.charge.noise, self.charge.sensitivity
        drawn = Noise(noise, rng)
        return gaussian_counts(counts, noise, l2_sensitivity=sensitivity, noise=drawn)

    def select(self, table: Table, rng: np.random.Generator) -> Found:
        """Select the levels of the rows of a table whose noisy count reaches the threshold."""
        levels, counts = {}, {}
        for column in table.form.columns:
            if column.is_open:
                raw = table.raw[column.name]
                held = column.labels(raw).value_counts().sort_index()
                noisy = self.noisy(held.to_numpy(), rng)
                largest = np.argsort(-noisy, kind="stable")[: self.most]
                named = (noisy >= self.threshold) & np.isin(np.arange(len(noisy)), largest)
                levels[column.name] = tuple(held.index[named])
                gaps = [column.gaps(raw).sum()] if column.missing else []
                counts[column.name] = [*noisy[named], *self.noisy(np.array(gaps), rng)]
        return Found(levels, counts)

    def said(self, statement: dict, found: Found, num_rows: int) -> dict:
        """Return the statement of a run that had the rest of the budget, as one of the whole.

        num_rows: that the method was taken to learn from, as declared or counted with noise.
        """
        delta = statement["delta"] + self.delta
        columns = [
            {
                "column": name,
                "named": len(found.levels[name]),
                "other": other,
                "share": float(np.clip(1 - sum(found.counts[name]) / num_rows, 0, 1)),
            }
            for name, other in self.columns.items()
        ]
        return statement | {
            "delta": delta,
            "delta_exceeds": exceeds(delta, statement["num_rows"]),
            "epsilon_replace_one": None,
            "accountant": f"{statement['accountant']}; of delta, {self.delta:.3g} is for levels "
            "that one record alone has",
            "open_levels": {
                "columns": columns,
                "threshold": self.threshold,
                "most": self.most,
                "delta": self.delta,
            },
        }


def planned(form: Form, privacy: Privacy) -> Plan | None:
    """Plan how the levels of open columns are selected within a budget for one row.

    None where no column is open.
    """
    if not form.open:
        return None
    aside = DELTA_SHARE * privacy.delta
    rest = replace(privacy, delta=privacy.delta - aside)
    whole = calibrate(lambda noise: [Charge(COUNTS, "gaussian", noise)], rest)
    columns = {column.name: column.other for column in form.columns if column.is_open}
    noise, sensitivity = float(whole / SHARE**0.5), float(len(columns) ** 0.5)
    return Plan(columns, Charge(COUNTS, "gaussian", noise, sensitivity), aside, rest)


def check(
    table: Table, privacy: Privacy, *, several: bool, where: Mapping[str, Any] | None
) -> None:
    """Raise BadInput for what cannot be with open columns.

    several: whether rows are with several clients. where: as in `SavedModel.sample`.
    """
    if several:
        table.form.refuse_open(table.key, "several sites cannot select its categories together")
    if privacy.delta == 0:
        table.form.refuse_open(table.key, "with delta 0 no category can be selected")
    for name in table.form.open:
        if table.schema[name].categories[-1] == NO_VALUE:
            raise BadInput(
                f"{table.key}: {name!r} is open, and {NO_VALUE!r} is the last of its other values, "
                "which methods take for a gap: give `other` another name, or write another code "
                "last in `missing`."
            )
    given = map(str, where) if isinstance(where, Mapping) else ()
    if named := [name for name in given if name in table.form.open]:
        raise BadInput(
            f"where names {named[0]!r}, which is open: save the model (save_model), see which "
            "categories it has, and draw rows from it."
        )


def widest(form: Form, most: int) -> Form:
    """Return the form as if so many levels of each open column were named."""
    columns = [
        _named(column, [f"{column.other} {number}{NOBODYS}" for number in range(most)])
        if column.is_open
        else column
        for column in form.columns
    ]
    return replace(form, columns=tuple(columns))


def fitted(plan: Plan, form: Form, job: Callable[[Form], Job]) -> tuple[Job, Plan]:
    """Return the job of a run, and how levels are selected with the most that it can hold.

    job: makes it of a form; raises BadInput for one that the method cannot hold.
    """
    job(widest(form, 0))  # what else refuses the run, and so does a method that needs two levels
    *larger, least = MOST_NAMED
    for most in larger:
        with suppress(BadInput):
            return job(widest(form, most)), replace(plan, most=most)
    try:
        return job(widest(form, least)), replace(plan, most=least)
    except BadInput as error:
        raise BadInput(
            f"{error} {least} levels of each open column are planned for: open fewer columns."
        ) from error


def _named(column: FileColumn, levels: Sequence[str]) -> FileColumn:
    return replace(column, is_open=False, categories=(*levels, column.other))


def with_levels(table: Table, found: Mapping[str, Sequence[str]]) -> Table:
    """Return the table with these categories of its open columns; other values are `other`."""
    columns, frame = [], table.frame
    for column in table.form.columns:
        if column.name in found:
            column = _named(column, found[column.name])
            labels = column.parse(table.raw[column.name], table.key)[column.name]
            known = list(column.modelled.categories)
            frame = frame.assign(
                **{column.name: pd.Categorical(labels.astype(object), categories=known)}
            )
        columns.append(column)
    form = replace(table.form, columns=tuple(columns))
    return replace(table, frame=frame, schema=form.schema, form=form, raw=None, digest="")
