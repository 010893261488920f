"""Schema and reader of `<work>.toml`.

A file declares methods, schemes, kinds of cells, profiles, and the grid of each table or figure:

    [methods.<name>]   a method under the name that the work prints
    [schemes.<name>]   settings that go together, as "private end to end"
    [cells.<kind>]     what a cell of this kind may be asked for, and what it measures
    [profiles.<name>]  what `smoke`, `quick` and `paper` shrink in all grids
    [grids.<exhibit>]  the sweeps whose cells make a table or figure
    [computed]         of files of rows that no sweep makes, what computes their cells

A sweep names values of settings: a list is swept, a single value is fixed. The words in WORDS
choose among the values of a list; `tables` are those of the grid's that a sweep is of, `by_method`
says more of some methods' cells, `sized` what a kind's `complete` needs to know, `seconds` what a
cell takes on one core, where no rows tell, and `unset` takes back what a profile of the work sets.
A profile of a sweep counts before that of its grid, and that before the work's. A profile's `parts`
are what is run of the tables that they name, each with what it says, of all sweeps or of `sweeps`;
other tables are run whole. Unknown keys are refused.
"""

import importlib
import inspect
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache, cached_property, partial
from itertools import product
from pathlib import Path
from types import ModuleType
from typing import Any

import pandas as pd

from fedsynth_lib.core.errors import BadInput, checked_epsilon, checked_name
from fedsynth_lib.core.store import project_root
from fedsynth_lib.runs import names
from fedsynth_lib.runs.grid import load_rows, missing_of, run_grid
from fedsynth_lib.runs.rows import PROFILES, RESULTS, Row, params_text
from fedsynth_lib.runs.typed import check_names, read_toml, typed
from fedsynth_lib.tables import lock
from fedsynth_lib.tables.load import Table, load_table
from fedsynth_lib.tables.registry import REGISTRY
from fedsynth_lib.works.protocol import Cell

FOLDER = Path(__file__).parent
WORKS = tuple(sorted(path.stem for path in FOLDER.glob("*.toml")))
Settings = Mapping[str, Any]
WORDS = ("first", "last", "every", "at_most", "at_least", "keep")  # setting -> which of its values


@dataclass(frozen=True)
class Method:
    """A method under the name that the work prints; without a key it is known rows, not trained.

    key: in METHODS. settings: beside its defaults. setting: federated or central. private: whether
    its run has a budget. guaranteed: the key where a cell asks for an epsilon, if that is another.
    idle: settings of cells that mean nothing to it. rows: which rows are known (a field of what
    `prepare` returns, or `shuffled`). labels: columns that all its rows have.
    """

    key: str = ""
    settings: Settings = field(default_factory=dict)
    setting: str = "federated"
    private: bool = True
    guaranteed: str = ""
    idle: tuple[str, ...] = ()
    rows: str = ""
    labels: Settings = field(default_factory=dict)

    def key_of(self, cell: Settings) -> str:
        """Return the key in METHODS of what a cell trains."""
        return self.guaranteed if self.guaranteed and cell.get("epsilon") is not None else self.key


@dataclass(frozen=True)
class Scheme:
    """Settings that go together. settings: of every method; methods: of some, by name.

    keeps: which of a method's AS_PUBLISHED it takes over; `all` for all of them.
    """

    keeps: tuple[str, ...] = ()
    settings: Settings = field(default_factory=dict)
    methods: Mapping[str, Settings] = field(default_factory=dict)


@dataclass(frozen=True)
class Kind:
    """A kind of cells. Its identity holds `needs`, `settings`, and whatever else is asked for.

    function: of the work's module, where a cell is not made by the protocol.
    needs: settings that each cell names. settings: those with a default. may: those that are
    nothing unless asked for. usual: defaults that a cell's identity does not name.
    method: which setting names the method. scheme: which setting names the scheme, if any.
    measured: measures that its rows may hold; measured_by: a function that says which, where that
    depends on the cell. like: a kind before it in the file, whose keys it has unless it says
    otherwise. trains: a method that it rests on without naming one;
    version_of: a module whose VERSION counts instead.
    prepare, divide, configure, draw, measures: functions of the work's module, or, as
    `module:function`, of another one here; `draw` gives the rows of a run that are kept, in place
    of its synthetic table. complete: one that adds settings to a cell of a grid. admit: one that
    says whether there can be such a cell.
    own_ranges: whether one that learns alone cuts its numbers over the range of its own rows, which
    is then released without noise.
    keep: whether a run's rows are kept for other cells; else measures see the run itself.
    of_measurement: settings that cells of one run differ in. They are swept last, so that workers
    side by side make different runs.
    labels: columns that all its rows have. costs: whether they say what the run cost and released.
    """

    function: str = ""
    like: str = ""
    needs: tuple[str, ...] = ()
    settings: Settings = field(default_factory=dict)
    may: tuple[str, ...] = ()
    usual: Settings = field(default_factory=dict)
    method: str = "method"
    scheme: str = ""
    measured: tuple[str, ...] = ()
    measured_by: str = ""
    trains: str = ""
    version_of: str = ""
    prepare: str = "prepare"
    divide: str = "divide"
    configure: str = "configure"
    draw: str = ""
    measures: str = "measures"
    complete: str = ""
    admit: str = ""
    own_ranges: bool = False
    keep: bool = True
    of_measurement: tuple[str, ...] = ()
    labels: Settings = field(default_factory=dict)
    costs: bool = True

    @property
    def names(self) -> set[str]:
        """Settings that a cell of this kind may have."""
        return {*self.needs, *self.settings, *self.may, *self.usual, "table"}

    @property
    def of_table(self) -> bool:
        """Whether its cells name the digest of a table."""
        return not self.function or "table" in self.may

    def usually(self, name: str) -> Any:
        """Return the value of a setting in cells that do not ask for it."""
        return self.settings.get(name, self.usual.get(name))


@dataclass(frozen=True)
class Declared:
    """The grid of an exhibit as declared in the file. name: of its rows in data/results.

    methods: all of the work unless said. settings: of all its cells. like: a grid whose sweeps and
    profiles it has, too. smoke, quick, paper: what the profile shrinks.
    """

    name: str
    cells: str = "run"
    tables: tuple[str, ...] = ()
    methods: tuple[str, ...] = ()
    settings: Settings = field(default_factory=dict)
    like: str = ""
    sweeps: Mapping[str, Settings] = field(default_factory=dict)
    smoke: Settings = field(default_factory=dict)
    quick: Settings = field(default_factory=dict)
    paper: Settings = field(default_factory=dict)


@dataclass(frozen=True)
class Grid:
    """Cells to run at a profile.

    size: what the profile makes of the grid, for a notebook to show and quote. left_out: tables
    that the exhibit has and the grid has not.
    """

    work: "Work"
    kind: str
    name: str
    profile: str
    cells: list[dict]
    size: Settings
    left_out: tuple[str, ...] = ()

    def __len__(self) -> int:
        """Return the number of cells."""
        return len(self.cells)

    @property
    def tables(self) -> list[str]:
        """The tables that it is of: those that were asked for and can be had."""
        return self.size["tables"]

    @property
    def methods(self) -> list[str]:
        """The methods that it is of, as the work prints them."""
        return self.size["methods"]

    @property
    def without(self) -> str:
        """Say for captions which tables are not shown; empty if all are.

        Of a table of which some methods have committed rows all the same, these are named.
        """
        path, begun = project_root() / "data" / "results" / RESULTS / f"{self.name}.csv", {}
        if self.left_out and self.profile == RESULTS and path.is_file():
            begun = dict(iter(load_rows(path).groupby("dataset")["method"].unique().items()))
        said: dict[str, list[str]] = {"Not run": [], "Not shown": []}
        for name in self.left_out:
            run = [names.method_name(method) for method in begun.get(name, ()) if method]
            part = run and not {names.method_name(method) for method in self.methods} <= {*run}
            words = f"{name} (run: {', '.join(run)})" if part else name
            said["Not shown" if name in begun else "Not run"].append(words)
        return " ".join(f"{words}: {'; '.join(names)}." for words, names in said.items() if names)

    @property
    def seeds(self) -> int:
        """How often each cell is repeated."""
        return self.size["seeds"]

    def __add__(self, other: "Grid") -> "Grid":
        """Join the cells of both grids, whose rows are in one file."""
        return replace(self, cells=[*self.cells, *other.cells])

    def run(self, *, jobs: int = 1, save: bool = True) -> pd.DataFrame:
        """Return the result rows of all cells; only missing ones are computed (see `run_grid`)."""
        return self._with(run_grid, jobs=jobs, save=save)

    def missing(self) -> tuple[list[dict], float | None]:
        """Return the cells that `run` would compute, and the seconds of one; see `missing_of`."""
        return self._with(missing_of)

    def _with(self, function: Callable, **options: Any) -> Any:
        version = partial(self.work.version, self.kind)
        options |= {"name": self.name, "profile": self.profile, "version": version}
        return function(self.work.function(self.kind), self.cells, **options)


@dataclass(frozen=True, eq=False)
class Work:
    """A work as declared. key: of its tables' views and of `paper` in rows. path: of its file.

    tables: in the order of the work. own_views: whether it has views of tables of its own.
    constants: numbers that its functions read. computed: file of data/results that is no grid's ->
    `module:function` here that computes a cell, empty where rows of other files make them.
    """

    key: str
    path: Path
    methods: Mapping[str, Method]
    schemes: Mapping[str, Scheme]
    cells: Mapping[str, Kind]
    profiles: Mapping[str, Settings]
    grids: Mapping[str, Declared]
    tables: tuple[str, ...] = ()
    own_views: bool = True
    constants: Settings = field(default_factory=dict)
    computed: Mapping[str, str] = field(default_factory=dict)

    @cached_property
    def module(self) -> ModuleType:
        """The Python file beside the TOML file."""
        return importlib.import_module(f"{__package__}.{self.key}")

    def named(self, function: str) -> Callable:
        """Return a function of the work's module, or the function that `module:function` names."""
        module, _, name = function.rpartition(":")
        home = importlib.import_module(f"{__package__}.{module}") if module else self.module
        return getattr(home, name)

    def method(self, name: str) -> Method:
        """Return the declared method. Raises BadInput with the known names."""
        check_names(self.key, "method", [name], self.methods)
        return self.methods[name]

    def kind(self, name: str) -> Kind:
        """Return the declared kind of cells."""
        check_names(self.path.name, "kind of cells", [name], self.cells)
        return self.cells[name]

    @property
    def known_tables(self) -> list[str]:
        """The tables of the work and of its grids, each once."""
        of_grids = [name for declared in self.grids.values() for name in declared.tables]
        return list(dict.fromkeys([*self.tables, *of_grids]))

    def view(self, dataset: str) -> str | None:
        """Which view of a table this work uses; none of a table of one's own."""
        return self.key if self.own_views and dataset in REGISTRY else None

    def table(self, dataset: str, **options: Any) -> Table:
        """Load a table as this work uses it; options as for `load_table`."""
        return load_table(dataset, work=self.view(dataset), **options)

    def digest(self, dataset: str) -> str:
        """Return the digest of a table, which is not loaded if it is locked."""
        return lock.table_digest(dataset, work=self.view(dataset))

    def reachable(self, datasets: Iterable[str], *, profile: str = "paper") -> list[str]:
        """Those of the tables whose rows are committed, or can be had; see `lock.reachable`."""
        view = self.key if self.own_views else None
        return lock.reachable(_listed(datasets), work=view, profile=profile)

    def function(self, kind: str) -> Callable:
        """Return the function that `run_grid` calls for a kind of cells."""
        if name := self.kind(kind).function:
            return self.named(name)
        return Measure(self.key, kind)

    def cell(self, method: str, *, kind: str = "run", **asked: Any) -> "Cell":
        """Return a cell to be made step by step, for lessons."""
        return Cell(self, kind, **{self.kind(kind).method: method}, **asked)

    def version(self, kind: str, cell: Settings) -> str:
        """Return the versions that a cell's result rows rest on, of its method and its measures."""
        declared = self.kind(kind)
        if declared.version_of:
            module = importlib.import_module(declared.version_of)
            return f"{declared.version_of.rpartition('.')[2]} {module.VERSION}"
        name = cell[declared.method] if declared.method in declared.needs else declared.trains
        key = self.method(name).key_of(cell) if name else ""
        by = declared.measured_by
        return names.version(key, self.named(by)(cell) if by else declared.measured)

    # --- grids -----------------------------------------------------------------------------------

    def swept(
        self,
        exhibit: str,
        sweep: str,
        setting: str,
        profile: str = "",
        asked: Sequence | None = None,
    ) -> list:
        """Return the values of a setting in a sweep, as declared or as asked for instead (`grid`).

        With a profile, these are the values that it leaves.
        """
        declared = self.sweeps(exhibit)[sweep]
        size = self.size(exhibit, profile) if profile else {}
        chosen = _merged(size, declared, declared.get(profile, {}))
        return _some(list(declared[setting] if asked is None else asked), setting, chosen)

    def size(self, exhibit: str, profile: str) -> dict[str, Any]:
        """Return the settings that a profile gives to an exhibit's grid."""
        check_names(self.path.name, "profile", [profile], PROFILES)
        declared = self._declared(exhibit)
        own = self._of_profile(declared, profile)
        shared = self.profiles.get(profile, {})
        shared = {name: value for name, value in shared.items() if name not in own.get("unset", ())}
        return _merged(shared, own)

    def grid(self, exhibit: str, profile: str, **asked: Any) -> Grid:
        """Return the cells of an exhibit at a profile.

        asked: what differs from the declaration: tables, the methods to keep, `sized`, or values of
        settings. A list replaces a sweep's list, and the profile shrinks it in the same way; a
        single value applies if the setting is not swept.
        """
        declared, size = self._declared(exhibit), self.size(exhibit, profile)
        kind, cells = self.kind(declared.cells), {}
        tables, methods, sized = (asked.pop(name, None) for name in ("tables", "methods", "sized"))
        size = _merged(size, {"sized": sized or {}})
        for method in methods or ():
            self.method(method)
        usual = declared.methods or (tuple(self.methods) if kind.method in kind.needs else ())
        whole = declared.tables or self.tables
        if tables is None:
            tables = size.get("tables") or whole
        for key in _listed(tables):
            if key not in REGISTRY:  # else another work's table, which `view` speaks of
                checked_name(key, self.known_tables, f"datasets: {self.key}")
        tables = _some(_listed(tables), "dataset", size)
        if "dataset" in kind.needs and kind.of_table:
            named, tables = tables, self.reachable(tables, profile=profile)
            if named and not tables:
                self.digest(named[0])  # a table that the work cannot take: raises, and says why
        sweeps = self.sweeps(exhibit) or {"": {}}
        _check_asked(f"{self.path.name}, {exhibit}", asked, kind, [*sweeps.values()])
        for dataset in tables if "dataset" in kind.needs else [None]:
            parts = [part for part in size.get("parts", ()) if _is_of(part, dataset)]
            for (name, sweep), part in product(sweeps.items(), parts or [{}]):
                said = {**declared.settings, **sweep}
                levels = (size, said, sweep.get(profile, {}), part, _replaced(said, asked))
                chosen = _merged(*levels)
                if _is_of(sweep, dataset) and name in part.get("sweeps", sweeps):
                    own = chosen.get("methods") or usual
                    own = [name for name in own if methods is None or name in methods]
                    if not own and kind.method in kind.needs:
                        continue  # nothing of this sweep was asked for
                    for cell in self._expanded(declared.cells, dataset, own, chosen):
                        cells[params_text(cell)] = cell
        found = sorted(
            cells.values(),
            key=lambda cell: [cell.get(name, kind.usually(name)) for name in kind.of_measurement],
        )
        chosen = {"tables": [*tables], "methods": [*(methods or usual)]}
        shown = _merged({"seeds": 1}, size, chosen, _replaced({}, asked))
        without = tuple(name for name in whole if name not in tables)
        return Grid(self, declared.cells, declared.name, profile, found, shown, without)

    def _expanded(
        self, name: str, dataset: str | None, methods: Sequence[str | None], chosen: Settings
    ) -> Iterable[dict]:
        """Yield the cells of one table.

        They are all combinations of methods, chosen values and seeds.
        """
        kind = self.kind(name)
        lists = {
            setting: _some(_listed(value), setting, chosen)
            for setting, value in chosen.items()
            if setting in kind.names - {"seed"}
        }
        seeds, begin = chosen.get("seeds", 1), chosen.get("seed", 0)
        seeds = range(begin, begin + seeds) if isinstance(seeds, int) else seeds
        seeds = seeds if "seed" in kind.needs else [None]
        for method, *values, seed in product(methods or [None], *lists.values(), seeds):
            of_method = chosen.get("by_method", {}).get(method, {})
            cell = dict(zip(lists, values, strict=True)) | of_method
            cell |= {"dataset": dataset, kind.method: method, "seed": seed}
            cell = {each: value for each, value in cell.items() if value is not None}
            if kind.complete:
                cell |= self.named(kind.complete)(cell, {**chosen, **lists})
            idle = set(self.method(method).idle if method else ()) - {*chosen.get("counts", ())}
            cell = {
                each: value
                for each, value in cell.items()
                if each not in idle and (each in kind.needs or value != kind.usually(each))
            }
            if dataset and kind.of_table:
                cell["table"] = self.digest(dataset)
            if not kind.admit or self.named(kind.admit)(cell):
                yield cell

    def _declared(self, exhibit: str) -> Declared:
        check_names(self.path.name, "grid", [exhibit], self.grids)
        return self.grids[exhibit]

    def sweeps(self, exhibit: str) -> Mapping[str, Settings]:
        """Return the sweeps of an exhibit's grid by name, with those of the grid it is `like`."""
        declared = self._declared(exhibit)
        return {**(self.sweeps(declared.like) if declared.like else {}), **declared.sweeps}

    def _of_profile(self, declared: Declared, profile: str) -> dict[str, Any]:
        inherited = {}
        if declared.like:
            inherited = self._of_profile(self._declared(declared.like), profile)
        return _merged(inherited, getattr(declared, profile))


def _is_of(chosen: Settings, dataset: str | None) -> bool:
    """Whether a sweep or a part is of this table; a kind of cells without tables has none."""
    return dataset is None or dataset in chosen.get("tables", [dataset])


def _listed(value: Any) -> list:
    """Return a list; a text is one name, and any other single value one value."""
    several = isinstance(value, Iterable) and not isinstance(value, str | Mapping)
    return list(value) if several else [value]


def _merged(*levels: Settings) -> dict[str, Any]:
    """Merge several levels of settings, of which the later ones count first.

    Each of WORDS, `by_method` and `sized` is merged setting by setting.
    """
    merged: dict[str, Any] = {}
    for level in levels:
        parts = [word for word in (*WORDS, "by_method", "sized") if word in level]
        words = {word: {**merged.get(word, {}), **level[word]} for word in parts}
        merged |= {**level, **words}
    return merged


def _replaced(sweep: Settings, given: Settings) -> dict[str, Any]:
    """Return the settings that were asked for and that replace a sweep's own values.

    A list replaces a list; a single value applies to a setting that is not swept.
    """
    return {
        name: value
        for name, value in given.items()
        if isinstance(value, list | tuple) == isinstance(sweep.get(name), list | tuple)
    }


def _check_asked(where: str, given: Settings, kind: Kind, sweeps: Sequence[Settings]) -> None:
    check_names(where, "setting", given, kind.names)
    for name, value in given.items():
        if name == "epsilon":
            for epsilon in [each for each in _listed(value) if each is not None]:
                checked_epsilon(epsilon, f"{where}: epsilon")
        if not any(name in _replaced(sweep, given) for sweep in sweeps):
            swept = "is not swept" if isinstance(value, list | tuple) else "is swept"
            other = "a single value" if isinstance(value, list | tuple) else "a list"
            raise BadInput(f"{where}: {name} {swept}, so give {other} in place of {value!r}.")


def _some(values: list, setting: str, chosen: Settings) -> list:
    """Those of a sweep's values that are left.

    at_most, at_least: limits of numbers (texts stay). every: each so many; keep: values that stay
    anyway. first, last: so many, the last of those that `first` leaves.
    """
    words = {word: chosen.get(word, {}).get(setting) for word in WORDS}
    if words["at_most"] is not None:
        values = [v for v in values if isinstance(v, str) or v <= words["at_most"]]
    if words["at_least"] is not None:
        values = [v for v in values if isinstance(v, str) or v >= words["at_least"]]
    kept = words["keep"] or ()
    values = [
        v for place, v in enumerate(values) if place % (words["every"] or 1) == 0 or v in kept
    ]
    values = values[: words["first"]]
    return values[-words["last"] :] if words["last"] else values


@dataclass(frozen=True)
class Measure:
    """A kind of cells as the function that `run_grid` takes.

    work: its key, so that it travels to other processes.
    """

    work: str
    kind: str

    def __call__(self, **asked: Any) -> list[Row]:
        """Return the result rows of one cell."""
        return Cell(load(self.work), self.kind, **asked).rows()

    @property
    def __signature__(self) -> inspect.Signature:
        """What a cell needs, and its defaults, which are part of its identity."""
        return _signature(load(self.work).kind(self.kind))


def _signature(kind: Kind) -> inspect.Signature:
    one = inspect.Parameter
    may = dict.fromkeys((*kind.may, "table"))
    taken = [one(name, one.KEYWORD_ONLY) for name in kind.needs]
    taken += [one(name, one.KEYWORD_ONLY, default=v) for name, v in kind.settings.items()]
    taken += [one(name, one.KEYWORD_ONLY, default=None) for name in may]
    more = [one("more", one.VAR_KEYWORD)] if kind.usual else []
    return inspect.Signature([*taken, *more])


# --- the file ------------------------------------------------------------------------------------


@cache
def load(work: str) -> Work:
    """Load the work with this key.

    Raises BadInput, naming file and key, for anything that its file may not declare.
    """
    path = FOLDER / f"{work}.toml"
    if not path.exists():
        check_names("works", "work", [work], WORKS)
    document = read_toml(path)
    parts: dict[str, Any] = {
        "methods": _tables(Method, document, "methods", path),
        "schemes": _tables(Scheme, document, "schemes", path),
        "cells": _tables(Kind, document, "cells", path),
        "profiles": document.pop("profiles", {}),
        "grids": _tables(Declared, document, "grids", path),
    }
    found = typed(Work, {"key": path.stem, "path": path, **document, **parts}, path.name)
    _check(found)
    return found


def all_grids(profile: str) -> dict[str, Grid]:
    """Return the grids of all works by the file of their rows; grids of one file are added."""
    found: dict[str, Grid] = {}
    for work in map(load, WORKS):
        for exhibit in work.grids:
            grid = work.grid(exhibit, profile)
            found[grid.name] = found[grid.name] + grid if grid.name in found else grid
    return found


def computed_by(grid: str) -> str | None:
    """Name what computes the cells in a file of data/results: `work.kind` or `module:function`.

    The name is empty if rows of other files make them, and None if no work declares the file.
    """
    for work in map(load, WORKS):
        if function := work.computed.get(grid):
            return f"{__package__}.{function}"
        kinds = {declared.name: f"{work.key}.{declared.cells}" for declared in work.grids.values()}
        if grid in kinds or grid in work.computed:
            return kinds.get(grid, "")
    return None


def _tables(kind: type, document: dict, section: str, path: Path) -> dict[str, Any]:
    entries = document.pop(section, {})
    for name, entry in entries.items():
        if kind is Kind and "like" in entry:
            check_names(f"{path.name}, {section}.{name}", "kind of cells", [entry["like"]], entries)
            entries[name] = {**entries[entry["like"]], **entry}
    return {
        name: typed(kind, entry, f"{path.name}, {section}.{name}")
        for name, entry in entries.items()
    }


def _check(work: Work) -> None:
    """Raise BadInput for a name in a profile or a grid that nothing declares."""
    file, any_setting = work.path.name, {n for kind in work.cells.values() for n in kind.names}
    check_names(f"{file}, profiles", "profile", work.profiles, PROFILES)
    for profile, entry in work.profiles.items():
        check_names(f"{file}, profiles.{profile}", "key", entry, any_setting | _SIZE)
    for name, declared in work.grids.items():
        where, settings = f"{file}, grids.{name}", work.kind(declared.cells).names
        check_names(f"{where}.settings", "setting", declared.settings, settings)
        check_names(f"{where}.methods", "method", declared.methods, work.methods)
        check_names(where, "grid", [declared.like] if declared.like else (), work.grids)
        levels = []
        for profile in PROFILES:
            entry = getattr(declared, profile)
            levels += [(f"{where}.{profile}", each) for each in (entry, *entry.get("parts", ()))]
        for sweep, entry in declared.sweeps.items():
            place = f"{where}.sweeps.{sweep}"
            levels += [(place, entry)]
            levels += [(f"{place}.{each}", entry[each]) for each in PROFILES if each in entry]
        tables, sweeps = {*work.tables, *declared.tables}, work.sweeps(name)
        for place, entry in levels:
            check_names(place, "key", entry, settings | _SIZE | {"sweeps", "counts", *PROFILES})
            check_names(place, "table", entry.get("tables", ()), tables)
            check_names(place, "method", entry.get("methods", ()), work.methods)
            check_names(place, "sweep", entry.get("sweeps", ()), sweeps)


_SIZE = {"seeds", "tables", "methods", "by_method", "sized", "unset", "seconds", "parts", *WORDS}
