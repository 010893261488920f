"""Our methods beside the field's: NIST's target by area, and Adult as HeteroFedSyn divides it.

NIST's areas are the clients. Each benchmark keeps its own protocol: rows, split, delta and
measures. Methods run with their defaults, none of which was chosen on these tables.
"""

import gzip
from collections.abc import Mapping
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from functools import lru_cache
from itertools import combinations
from multiprocessing import get_context
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from fedsynth_lib.core.contract import BadInput, Privacy, stream
from fedsynth_lib.core.queries import random_workload
from fedsynth_lib.core.store import project_root
from fedsynth_lib.federation import settings
from fedsynth_lib.federation.memory import peak_memory
from fedsynth_lib.federation.settings import as_counted
from fedsynth_lib.methods import METHODS
from fedsynth_lib.methods.release import chooses_bins, fitting
from fedsynth_lib.metrics import anonymity, k_marginal, range_queries
from fedsynth_lib.metrics.membership import membership
from fedsynth_lib.metrics.utility import boosted_trees
from fedsynth_lib.metrics.workload import workload_error
from fedsynth_lib.runs.rows import Row
from fedsynth_lib.tables import fetch, lock
from fedsynth_lib.tables.encode import EqualWidthBins
from fedsynth_lib.tables.form import Counted, Form
from fedsynth_lib.tables.kinds import GAP, FileColumn
from fedsynth_lib.tables.load import Table, load_table
from fedsynth_lib.tables.partition import Parts, split_clients
from fedsynth_lib.tables.registry import REGISTRY
from fedsynth_lib.tables.schema import Column, Schema
from fedsynth_lib.works import maddock2024
from fedsynth_lib.works.declared import load
from fedsynth_lib.works.protocol import Cell, Made, Prepared, configured

WORK = load("field")
RELEASES = ("FedPrivSyn", "AdaFedPrivSyn")  # HeteroFedSyn's; known rows, and a result of theirs
TVD_BINS = 100  # of each number, as HeteroFedSyn has it
SPLIT = "heterofedsyn_split.txt.gz"  # a letter for each row of adult.data: fit, val, test


# --- NIST ----------------------------------------------------------------------------------------


class Areas(NamedTuple):
    """The columns that are scored and the area of each row (code).

    target: the rows to score against, a gap in a number is nan. form, counted: of all columns; what
    their file has, and the way back from a method's rows, if it does not take them as they are.
    """

    train: Table
    area: np.ndarray
    target: pd.DataFrame
    form: Form | None = None
    counted: Counted | None = None

    def score(self, rows: pd.DataFrame) -> float:
        """NIST's score; with all columns of each pair within each area, as SDNist has it."""
        if self.form is None:
            return k_marginal.k_marginal(self.target, rows, self.train.schema)
        schema = self.form.schema.drop(gaps.missing.name for gaps in self.form.gaps)
        edges = {"DENSITY": np.array(WORK.constants["density_edges"])}
        *codes, levels = k_marginal.coded(self.target, rows, schema, edges)
        within = [(0, *pair) for pair in combinations(range(1, len(levels)), 2)]  # 0: the area
        return (2 - workload_error(*codes, levels, within)) * 500


@lru_cache(maxsize=2)
def areas(dataset: str, rows: int | None) -> Areas:
    """Load the ten columns of most published scores, of all rows or of a sample of that size."""
    table = some(WORK.table(dataset), rows)
    columns = WORK.constants["columns"]
    kept = table.schema.drop([name for name in table.schema.names if name not in columns])
    train = replace(table, frame=table.frame[list(kept.names)], schema=kept, digest="")
    return Areas(train, table.frame["PUMA"].cat.codes.to_numpy(), train.frame)


def everything(dataset: str, rows: int | None, cell: Cell) -> Areas:
    """Load all columns of the file.

    As in a table of one's own, a gap is one more category for a method that counts, and a column of
    its own for other methods.
    """
    train, form = _all_columns(dataset, rows)
    area, target, counted = train.frame["PUMA"].cat.codes, with_nan(train.frame, form), None
    if cell.method is not None and cell.method.key:
        own = bins_of_a_release(cell, train, cell.settings["epsilon"])
        config = configured(cell.registered, cell.method.settings, own)
        schema, _, counted = as_counted(cell.registered, form, config)
    if counted:
        train = replace(train, frame=counted.join(train.frame), schema=schema, digest="")
    return Areas(train, area.to_numpy(), target, form, counted)


@lru_cache(maxsize=1)
def _all_columns(dataset: str, rows: int | None) -> tuple[Table, Form]:
    """Load the table with a column beside each number that has gaps, and the form of its file.

    A stand-in has no column with gaps.
    """
    table, entry = load_table(dataset, work="all"), REGISTRY[dataset]
    paths, _ = fetch.locate(entry, entry.default.files if table.data == "real" else ())
    ranges = WORK.constants["gaps"] if paths else {}
    options = {"dtype": str, "keep_default_na": False, "usecols": list(ranges)}
    texts = [pd.read_csv(path, **options) for path in paths]  # of one file, checked with the table
    numbers = [FileColumn(n, "numeric", *ends, True, missing=("N",)) for n, ends in ranges.items()]
    form = Form((*Form.of(table.schema).columns, *numbers), table.schema.target)
    frame = form.to_model(pd.concat([table.frame, *texts], axis=1), dataset)
    # a cell names the table by its ten columns
    origin = WORK.table(dataset).origin
    whole = replace(table, frame=frame, schema=form.schema, digest="", origin=origin)
    return some(whole, rows), form


def with_nan(frame: pd.DataFrame, form: Form) -> pd.DataFrame:
    """Restore the columns of the file, with nan for a gap."""
    marks = {gaps.number.name: frame[gaps.missing.name] == GAP for gaps in form.gaps}
    return frame.assign(**{n: frame[n].mask(mark) for n, mark in marks.items()})[list(form.names)]


def some(table: Table, rows: int | None) -> Table:
    """Return the table, or a random sample of at most that many of its rows."""
    if rows is None or rows >= len(table):
        return table
    return table.take(np.sort(stream(0, "rows").choice(len(table), size=rows, replace=False)))


def by_area(prepared: Areas) -> Parts:
    """Return the rows of each area, which is one client."""
    return [np.flatnonzero(prepared.area == each) for each in np.unique(prepared.area)]


def marginal_scores(prepared: Areas, made: Made, cell: Cell) -> dict[str, float]:
    """Score the synthetic rows against all rows, and against the area with the lowest score.

    The synthetic table has no areas. The lowest score says what it is worth to the client that
    differs most.
    """
    train = prepared.train
    real, synthetic, levels = k_marginal.coded(train.frame, made.frame, train.schema)
    own = [k_marginal.score(real[part], synthetic, levels) for part in by_area(prepared)]
    whole = k_marginal.score(real, synthetic, levels)
    return {"k_marginal": whole, "k_marginal_worst": min(own), **costs(train, made, cell)}


def score_of_everything(prepared: Areas, made: Made, cell: Cell, seed: int) -> dict[str, float]:
    """Score the synthetic rows on all columns of the file, and add the run's costs."""
    frame = made.frame
    if prepared.counted:
        frame = prepared.counted.part(frame, stream(seed, "within bins"))
    value = prepared.score(with_nan(frame, prepared.form))
    return {"k_marginal": value, **costs(prepared.train, made, cell)}


def subsample(prepared: Areas, seed: int, share: float) -> list[Row]:
    """Score a random `share` of the rows against all of them. item: that share."""
    target = prepared.target
    number = max(1, round(share * len(target)))
    rows = stream(seed, "subsample").choice(len(target), size=number, replace=False)
    value = prepared.score(target.iloc[rows])
    return [{"item": f"{share:.0%}", "metric": "k_marginal", "value": value, "seed": seed}]


# --- Adult ---------------------------------------------------------------------------------------


class Parties(NamedTuple):
    """What HeteroFedSyn trains on, its train and val, and what it judges on."""

    train: Table
    test: Table

    @property
    def fed_privsyn(self) -> Table:
        """The synthetic rows that it released."""
        return load_table("heterofedsyn", work="fed_privsyn")

    @property
    def ada_fed_privsyn(self) -> Table:
        """Those of its adaptive method."""
        return load_table("heterofedsyn", work="ada_fed_privsyn")


@lru_cache(maxsize=2)
def parties(dataset: str, rows: int | None) -> Parties:
    """HeteroFedSyn's division of adult.data; of `rows` training rows where so many are asked for.

    Raises BadInput where the division that the bundle carries has fewer rows than the table.
    """
    table = WORK.table(dataset)
    letters = np.array(list(gzip.decompress(split_path().read_bytes()).decode().strip()))
    if len(letters) < len(table):
        raise BadInput(
            f"{split_path()} divides {len(letters)} rows and {dataset} has {len(table)}: fetch "
            "both again."
        )
    test = letters[: len(table)] == "t"  # a stand-in may have fewer rows
    return Parties(*(some(table.take(np.flatnonzero(each)), rows) for each in (~test, test)))


def can_be_had(cell: Mapping[str, Any]) -> bool:
    """Whether there can be such a cell: a table that others released may be out of reach."""
    if cell["method"] not in RELEASES:
        return True
    profile = "smoke" if "rows" in cell else "paper"
    return bool(lock.reachable(["heterofedsyn"], work="fed_privsyn", profile=profile))


def split_path() -> Path:
    """Return the file that holds HeteroFedSyn's division of Adult."""
    return project_root() / "data" / "published" / SPLIT


def dealt(prepared: Parties, n_clients: int, seed: int) -> Parts:
    """Equal random shares."""
    return split_clients(prepared.train, "iid", n_clients, seed=seed)


def answers(prepared: Parties, made: Made, cell: Cell, seed: int) -> dict[str, float]:
    """Measure what HeteroFedSyn does, against its test rows.

    Its queries are drawn by the clock; these are the same for all tables. Total variation: numbers
    in TVD_BINS equal-width bins.
    """
    train, test = prepared.train, prepared.test.frame
    bins = EqualWidthBins(train.schema, TVD_BINS)
    codes, levels = [bins.transform(each) for each in (test, made.frame)], bins.domain.levels
    values = boosted_trees(made.frame, test, train.schema, seed=seed)
    for width in (1, 2, 3):
        error = range_queries.query_error(test, made.frame, train.schema, width=width)
        values[f"query_error_{width}"] = error
    for width in (1, 2):
        queries = combinations(range(len(levels)), width)
        values[f"tvd_{width}"] = workload_error(*codes, levels, queries) / 2
    return {**values, **costs(train, made, cell)}


def risks(prepared: Parties, made: Made, seed: int, attacks: int) -> dict[str, float]:
    """Measure membership, singling out, linkability and inference.

    Half of the test rows are the people who are not in the table; the other half is what an
    attacker knows of the population.
    """
    train, test = prepared.train, prepared.test.frame
    halves = test.iloc[: len(test) // 2], test.iloc[len(test) // 2 :]
    found = membership(train.frame, *halves, made.frame, train.schema, seed=seed)
    values = {f"mia_{name}": attack.auc for name, attack in found.items()}
    values |= {f"mia_{name}_caught": attack.caught for name, attack in found.items()}
    more = anonymity.risks(train.frame, test, made.frame, train.schema, seed=seed, attacks=attacks)
    return values | {name: value for name, value in more.items() if not name.endswith("_success")}


# --- FLAIM's tables, for a method of one's own ---------------------------------------------------


def of_flaim(dataset: str, epsilon: float, participation: float, cell: Cell) -> tuple:
    """Return the work's bins and chance of participation, if the method has these settings.

    The guarantee is accounted for like everything that this block shows.
    """
    own = {"by_column": tuple(maddock2024.bins_of(dataset).items()), "participation": participation}
    known = cell.registered.Config.__dataclass_fields__
    own = {name: value for name, value in own.items() if name in known}
    return own, Privacy(epsilon, maddock2024.DELTA, reproduction=True)


def error_of_triples(prepared: Prepared, made: Made, dataset: str) -> dict[str, float]:
    """Return the error of the work's random triples, in its bins, not in those of the method."""
    bins = EqualWidthBins(prepared.train.schema, by_column=maddock2024.bins_of(dataset))
    codes = [bins.transform(each) for each in (prepared.train.frame, made.frame)]
    levels = bins.domain.levels
    workload = random_workload(len(levels), width=min(3, len(levels)))
    return {"workload_error": workload_error(*codes, levels, workload)}


# --- both ----------------------------------------------------------------------------------------


def budget(
    prepared: Areas | Parties, cell: Cell, dataset: str, epsilon: float, rows: int | None = None
) -> tuple[dict[str, Any], Privacy]:
    """Return the bins of a release, and the guarantee with the benchmark's delta."""
    of_columns = isinstance(prepared, Areas) and prepared.form is not None
    table = _all_columns(dataset, rows)[0] if of_columns else prepared.train
    own = bins_of_a_release(cell, table, epsilon)
    return own, Privacy(epsilon, WORK.constants["delta"][dataset])


def bins_of_a_release(cell: Cell, table: Table, epsilon: float) -> dict[str, Any]:
    """Choose private bins if `synth` would choose them for this number of rows.

    This applies to a method whose entry names no settings. The number of rows of all clients is
    public here.
    """
    config = cell.registered.Config()
    if cell.method.settings or not chooses_bins(config):
        return {}
    chosen = fitting(config, table.schema, len(table), epsilon).bins
    return {"bins": chosen} if chosen == "private" else {}


def costs(train: Table, made: Made, cell: Cell) -> dict[str, float]:
    """Memory and rounds of a run; nothing of known rows."""
    if not made.facts:
        return {}
    method, config = cell.registered, cell.config
    rounds = method.schedule(method.encoder(train.schema, config).domain, config)
    return {"peak_gib": made.facts["gib"], "rounds": len(rounds)}


# --- size ----------------------------------------------------------------------------------------


def scale(rows: int, columns: int, n_clients: int, seed: int) -> list[Row]:
    """Measure the cost of one run of FedPGM on rows made up by `chain`, at epsilon 1.

    The run has a process of its own. peak_gib: memory above what the process held before. The
    columns of its row have the seconds of the whole run, and the bytes of all clients together.
    """
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as alone:
        return [alone.submit(_scale, rows, columns, n_clients, seed).result()]


def _scale(rows: int, columns: int, n_clients: int, seed: int) -> Row:
    table = chain(rows, columns, seed)
    parts = np.array_split(np.arange(rows), n_clients)
    options = {"privacy": Privacy(1.0, 1e-7), "seed": seed, "num_rows": 1_000}
    with peak_memory() as memory:
        run = settings.federated(METHODS["fedpgm"], table, parts, **options)
    row: Row = {"paper": WORK.key, "dataset": "chain", "data": "none", "method": "FedPGM"}
    row |= {"n_clients": n_clients, "epsilon": 1.0, "metric": "peak_gib", "value": memory.gib}
    return row | {name: getattr(run, name) for name in ("seconds", "bytes_up", "bytes_down")}


def chain(rows: int, columns: int, seed: int, levels: int = 8) -> Table:
    """Make up columns of eight categories, each of which follows its left neighbour.

    A column has its neighbour's value in four of five rows.
    """
    rng, names = stream(seed, "chain"), [str(level) for level in range(levels)]
    schema = Schema(tuple(Column(f"c{j}", "categorical", categories=names) for j in range(columns)))
    codes, frame = rng.integers(levels, size=rows), {}
    for name in schema.names:
        own = rng.integers(levels, size=rows)
        codes = np.where(rng.random(rows) < 0.8, codes, own).astype(np.int8)
        frame[name] = pd.Categorical.from_codes(codes, names)
    return Table("chain", pd.DataFrame(frame), schema, "none")
