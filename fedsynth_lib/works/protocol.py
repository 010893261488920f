"""One cell of a work: prepare the table, divide it among clients, configure, train, measure.

A work says in its module what is its own, in four functions; each is given the settings that its
parameters name, and what the steps before it made:

    prepare(dataset, rows, ...)          -> a NamedTuple of tables, the first of them `train`
    divide(prepared, partition, ...)     -> rows of each client
    configure(prepared, epsilon, ...)    -> (settings beside those of method and scheme, Privacy)
    measures(prepared, made, seed, ...)  -> measure -> value; or (item, measure) -> value; or rows

Everything else is the same for all works: the table's digest is checked, a run is made once and
kept for the cells that measure it again, and rows say what they rest on.
"""

import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cache, cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pandas as pd

from fedsynth_lib.core import contract
from fedsynth_lib.core.contract import Privacy, stream
from fedsynth_lib.federation import settings
from fedsynth_lib.federation.settings import configured
from fedsynth_lib.federation.settings import guarantee as guarantee
from fedsynth_lib.methods import METHODS
from fedsynth_lib.runs.rows import Row
from fedsynth_lib.runs.trained import FACTS, train_once
from fedsynth_lib.runs.typed import check_names
from fedsynth_lib.tables.load import Table
from fedsynth_lib.tables.partition import Parts
from fedsynth_lib.tables.schema import READ_FROM_ROWS, Schema

if TYPE_CHECKING:
    from fedsynth_lib.works.declared import Method, Work

SETTINGS = ("central", "local", "federated", "real")


class Prepared(NamedTuple):
    """The tables of a cell, where a work needs no others."""

    train: Table
    test: Table


class Whole(NamedTuple):
    """A table that is not split."""

    train: Table


class Made(NamedTuple):
    """What measures look at.

    frame: synthetic rows, or known ones. facts: of the run, none of known rows. run: the run
    itself, if this kind of cells does not keep rows.
    """

    frame: pd.DataFrame
    facts: Mapping[str, Any]
    run: contract.Run | None = None


class Cell:
    """One cell, made step by step; a step that was made is not made again.

    asked: its settings by name; those that it lacks have the declared defaults.
    """

    def __init__(self, work: "Work", kind: str, /, **asked: Any):
        self.work, self.name, self.kind = work, kind, work.kind(kind)
        usual = {name: None for name in self.kind.may} | {**self.kind.usual, **self.kind.settings}
        check_names(f"{work.path.name}, cells.{kind}", "setting", asked, self.kind.names)
        self.asked = asked
        self.settings: dict[str, Any] = {"table": "", **usual, **asked}
        self.method: Method | None = None
        if self.kind.method in self.kind.needs:
            self.method = work.method(asked[self.kind.method])
            if self.method.setting == "central":
                self.settings |= {"partition": "none", "n_clients": 1}

    @property
    def setting(self) -> str:
        """The setting that the cell asks for, or else its method's: central, federated or local.

        It is real for known rows.
        """
        own = self.method.setting if self.method.key else "real"
        asked = self.settings.get("setting", own)
        check_names(self.work.path.name, "setting", [asked], SETTINGS)
        return asked

    @property
    def registered(self) -> contract.Method:
        """The method's verbs."""
        return METHODS[self.method.key_of(self.settings)]

    @cached_property
    def prepared(self) -> Any:
        """What the work's `prepare` returns, of the table that the cell names."""
        prepared = self._call(self.kind.prepare)
        prepared.train.expect(self.settings["table"])
        return prepared

    @cached_property
    def parts(self) -> Parts:
        """Rows of each client; one that has all for a central method."""
        if self.method is not None and self.setting == "central":
            return [np.arange(len(self.prepared.train))]
        return self._call(self.kind.divide)

    @cached_property
    def _configured(self) -> tuple[Mapping[str, Any], Privacy]:
        return self._call(self.kind.configure)

    @property
    def privacy(self) -> Privacy:
        """The guarantee of the run."""
        return self._configured[1]

    @cached_property
    def config(self) -> Any:
        """The method's settings: its own in this work, the scheme's, and the cell's."""
        levels = self.method.settings, self._of_scheme(), self._configured[0]
        return configured(self.registered, *levels)

    def _of_scheme(self) -> dict[str, Any]:
        """Return the settings of the method that the cell's scheme sets."""
        if not self.kind.scheme or not self.method.private:
            return {}
        name, known = self.settings[self.kind.scheme], self.work.schemes
        check_names(self.work.path.name, self.kind.scheme, [name], known)
        scheme = known[name]
        published = getattr(self.registered, "AS_PUBLISHED", {}) if scheme.keeps else {}
        kept = [each for each in published if each in scheme.keeps or "all" in scheme.keeps]
        of_method = scheme.methods.get(self.settings[self.kind.method], {})
        return {**{each: published[each] for each in kept}, **scheme.settings, **of_method}

    def made(self) -> Iterator[tuple[str, Made]]:
        """(node, rows) of each run: one, or one a client where clients are alone."""
        if self.setting == "real":
            yield "", Made(self._known_rows(), {})
        elif self.setting == "local":
            for node, part in enumerate(self.parts):
                seed, train = settings.client_seed(self.settings["seed"], node), self.prepared.train
                if self.kind.own_ranges:
                    own = over_own_ranges(train.take(part))
                    made = self._run(own, [np.arange(len(own))], seed, num_rows=len(train))
                else:
                    made = self._run(train, [part], seed, num_rows=len(train))
                yield str(node), made
        else:
            yield "", self._run(self.prepared.train, self.parts, self.settings["seed"])

    def _known_rows(self) -> pd.DataFrame:
        train, rows = self.prepared.train, self.method.rows or "train"
        if rows == "shuffled":
            return shuffled(train.frame, self.settings["seed"])
        return getattr(self.prepared, rows).frame

    def _run(self, train: Table, parts: Parts, seed: int, **more: Any) -> Made:
        options = {"config": self.config, "privacy": self.privacy, "seed": seed, **more}
        if not self.kind.keep:
            run = settings.federated(self.registered, train, parts, num_rows=1, **options)
            return Made(run.synthetic, {name: getattr(run, name) for name in FACTS}, run)
        if drawn := self.kind.draw:
            options |= {"num_rows": 1, "drawn": drawn}
            options["draw"] = lambda run: self._call(drawn, run=run)
        key = self.method.key_of(self.settings)
        return Made(*train_once(key, train, parts, **options))

    def rows(self) -> list[Row]:
        """Return the measurements as result rows."""
        found: list[Row] = []
        shared = {"paper": self.work.key, **self.kind.labels, "data": self.prepared.train.data}
        if self.method is None:
            return [{**shared, **row} for row in as_rows(self._call(self.kind.measures))]
        for node, made in self.made():
            labels = {**shared, **self._labels(made), **({"node": node} if node else {})}
            values = self._call(self.kind.measures, made=made)
            found += [{**labels, **row} for row in as_rows(values)]
        return found

    def _labels(self, made: Made) -> Row:
        """Return the labels that all rows of a run share."""
        labels: Row = {"method": self.settings[self.kind.method], "setting": self.setting}
        alone = self.setting in ("central", "real")
        labels["partition"] = "none" if alone else self.settings["partition"]
        named = self.asked.get("n_clients") if "setting" in self.asked else None
        labels["n_clients"] = named if alone else len(self.parts)
        epsilon = self.settings.get("epsilon") if self.method.private else np.inf
        labels |= self.method.labels
        if self.setting == "real":
            return labels | ({} if self.method.private else {"epsilon": epsilon})
        if not self.kind.costs:
            return labels | {"epsilon": epsilon}
        statement, finite = made.facts["statement"], epsilon is not None and np.isfinite(epsilon)
        return labels | {
            "epsilon": epsilon,
            "epsilon_spent": statement["epsilon_protected"] if finite else None,
            "unprotected": len(statement["unprotected"]),
            **{name: made.facts[name] for name in FACTS if name != "statement"},
        }

    def _call(self, function: str, **more: Any) -> Any:
        """Call a function of the work's module with what its parameters name."""
        verb = self.work.named(function)
        given = {}
        for name in _parameters(verb):
            if name in more or name in self.settings:
                given[name] = more[name] if name in more else self.settings[name]
            elif name in ("prepared", "parts", "config", "registered", "privacy"):
                given[name] = getattr(self, name)
            elif name == "cell":
                given[name] = self
        return verb(**given)


def whole(cell: Cell, dataset: str) -> Whole:
    """Load a table that is not split."""
    return Whole(cell.work.table(dataset))


@cache
def _parameters(function: Callable) -> tuple[str, ...]:
    return tuple(inspect.signature(function).parameters)


def shuffled(frame: pd.DataFrame, seed: int) -> pd.DataFrame:
    """Each column in an order of its own: distributions stay, all dependence goes."""
    rng = stream(seed, "shuffled")
    return pd.DataFrame(
        {name: column.iloc[rng.permutation(len(frame))].array for name, column in frame.items()}
    )


def over_own_ranges(table: Table) -> Table:
    """Declare the table's numbers over the range of its own rows.

    A constant column stays as it was.
    """
    columns = list(table.schema.columns)
    for place, column in enumerate(columns):
        if column.kind == "numeric":
            low, high = table.frame[column.name].agg(["min", "max"])
            if low < high:
                found = {"low": float(low), "high": float(high), "source": READ_FROM_ROWS}
                columns[place] = replace(column, **found)
    return replace(table, schema=Schema(tuple(columns), table.schema.target), digest="")


def as_rows(values: Mapping | Sequence[Row]) -> list[Row]:
    """Measurements as rows: measure -> value, (item, measure) -> value, or rows already."""
    if not isinstance(values, Mapping):
        return list(values)
    pairs = [(key if isinstance(key, tuple) else ("", key), v) for key, v in values.items()]
    return [
        {**({"item": item} if item else {}), "metric": metric, "value": value}
        for (item, metric), value in pairs
    ]
