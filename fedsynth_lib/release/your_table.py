"""From someone's own file to a private synthetic table.

There are an example file, clients, settings, scores, and what is handed on. Nothing here goes to a
folder that is committed: the example is in data/cache, what is handed on is in data/results/*-own.

In a release nothing that touches rows follows from a seed that somebody knows, or from the true
number of rows: a secret key says where each row goes (`key_of`), and methods take the number that
was declared (`declared_sizes`).
"""

import re
import secrets
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pandas as pd

from fedsynth_lib.core.accounting import discrete_laplace_share, epsilon_of
from fedsynth_lib.core.contract import BadInput, Charge, Method, Privacy, Run, stream
from fedsynth_lib.core.errors import checked_epsilon, checked_rows, checked_seed
from fedsynth_lib.core.ledger import Ledger, Refused, Total, open_ledger
from fedsynth_lib.core.statement import promises, statement_text
from fedsynth_lib.core.store import (
    FOR_OWNER,
    as_path,
    check_writable,
    existing_file,
    private_folder,
    project_root,
    write_atomically,
)
from fedsynth_lib.federation.flower import Job
from fedsynth_lib.federation.settings import ROW_COUNT, as_counted, federated, job_of
from fedsynth_lib.methods import DEFAULT, METHODS, from_file
from fedsynth_lib.methods.release import DELTA, fitting, private_config
from fedsynth_lib.release import noisy_tables, open_levels, saved
from fedsynth_lib.release.ask import answered
from fedsynth_lib.release.draft import draft_path, draft_text, propose_schema
from fedsynth_lib.release.persons import for_persons, row_budget, rows_that_count, unit_of
from fedsynth_lib.release.progress import DRAWS, LEARNS, WRITES, stages
from fedsynth_lib.release.register import Begun, open_register
from fedsynth_lib.release.summary import Release, registry_entry, summary_page
from fedsynth_lib.runs.rows import folder_name
from fedsynth_lib.tables.container import InMemory, Source
from fedsynth_lib.tables.form import Form
from fedsynth_lib.tables.load import Table, load_table
from fedsynth_lib.tables.moments import TIMES
from fedsynth_lib.tables.partition import Parts, by_hash
from fedsynth_lib.tables.schema import (
    READ_FROM_ROWS,
    Column,
    Schema,
    check_clients,
    closest,
    is_text,
)

if TYPE_CHECKING:  # pictures and scores take two seconds to import: where they are made
    from matplotlib.figure import Figure

    from fedsynth_lib.figures import Saver

EXAMPLE = (
    *("Age", "Sex", "BMI", "HighBP", "HighChol", "Smoker", "Diabetes", "PhysHlth"),
    "HeartDiseaseorAttack",  # the target
)
# made-up sites of the example, and their shares of the rows
WARDS = {"north": 0.5, "south": 0.3, "west": 0.2}
REHEARSE = "make a rehearsal (release = False, no --release)"

TEST_SHARE = 0.2  # of the rows, set aside
MIN_ROWS = 20  # to set some aside, learn from the others and judge
FOUR_FIFTHS = (
    "{rows} rows come out, as many as the method learned from: four fifths of the table's, since a "
    "fifth is set aside to judge by; another number (rows=, --rows) costs nothing more"
)
OF_TABLES = (
    "the counts in {folder} are of the rows that the method learned from, about four fifths of the "
    "table's"
)
COUNT_SHARE = 0.02  # of epsilon, for the number of rows where nobody declares it


def example(rows: int, seed: int) -> Path:
    """Write a CSV file of heart patients in data/cache/own, with its schema and a draft of one.

    The rows are public, the sites are made up.
    """
    table = load_table("brfss_heart", rows=rows, seed=seed)
    site = stream(seed, "site").choice(list(WARDS), rows, p=list(WARDS.values()))
    path = project_root() / "data" / "cache" / "own" / "heart.csv"
    text = table.frame[list(EXAMPLE)].assign(site=site).to_csv(index=False)
    write_atomically(path, text.encode())
    # the file ends before
    codebook = {"BMI": Column("BMI", "numeric", 12, 99, True, source="codebook: 12 to 99")}
    columns = tuple(codebook.get(name, table.schema[name]) for name in EXAMPLE)
    wards = Column("site", "categorical", categories=tuple(WARDS), source="made up")
    schema = Schema((*columns, wards), EXAMPLE[-1])
    write_atomically(path.with_suffix(".toml"), Form.of(schema).to_toml().encode())
    drafted = draft_path(path)
    drafted.unlink(missing_ok=True)  # of other rows
    propose_schema(path, target=EXAMPLE[-1], out=drafted)
    return path


class Files(NamedTuple):
    """Where a table, its declared schema and a draft of one are, or would be.

    A table may be in memory, and a schema a text.
    """

    table: Source
    schema: Path | str
    draft: Path

    @classmethod
    def of(cls, table: str | Source, schema: str | Path | None = None) -> "Files":
        """By the paths as their user means them; without a schema, the .toml beside the table.

        Raises BadInput where a named file is not there.
        """
        path = table if isinstance(table, InMemory) else existing_file(table, "table")
        beside = Path() if isinstance(path, InMemory) else path.with_suffix(".toml")
        chosen = schema if is_text(schema) else schema and existing_file(schema, "schema")
        drafted = beside if isinstance(path, InMemory) else draft_path(path)
        return cls(path, chosen or beside, drafted)


def draft(
    files: Files,
    *,
    target: str = "",
    ignore: str | int | Sequence = (),
    keep: str | int | Sequence = (),
    out: str | Path | None = None,
) -> Path:
    """Write the draft of a schema for the eyes of its owner, or to `out`; return its path.

    keep: columns of categories, however many they have.
    """
    ignored, kept = names_of(ignore, "ignore"), names_of(keep, "keep")
    path = as_path(out) if out else None
    return propose_schema(files.table, target=target or None, ignore=ignored, keep=kept, out=path)


def asked(
    files: Files,
    hear: Callable[[str], str],
    say: Callable[[str], None],
    *,
    target: str = "",
    ignore: str | int | Sequence = (),
    keep: str | int | Sequence = (),
    out: str | Path | None = None,
) -> Path:
    """Write the schema of a table by a draft of it and the answers to its questions.

    The schema is written beside the table, or to `out`; its path is returned. hear, say: as in
    `answered`. target, ignore, keep: as in `draft`.

    Raises BadInput where there is a schema already.
    """
    path = as_path(out) if out else files.schema
    if path.exists():
        raise BadInput(f"{path} is there already; move it away, or give another name (--out).")
    columns = {"ignore": names_of(ignore, "ignore"), "keep": names_of(keep, "keep")}
    text = draft_text(files.table, target=target or None, **columns)
    write_atomically(path, answered(text, hear, say).encode(), private=True)
    return path


def draft_where_needed(
    files: Files, *, target: str = "", ignore: str | int | Sequence = ()
) -> None:
    """Draft a schema for a table that has neither a schema nor a draft."""
    if not (files.schema.exists() or files.draft.exists()):
        draft(files, target=target, ignore=ignore)


def questions(form: Form) -> list[str]:
    """Return what a draft asks, a line for each column and each rule."""
    asked = [f"{c.name}: {c.question}" for c in form.columns if c.name in form.questions]
    return [*asked, *(f"rule {rule}: {rule.question}" for rule in form.rules if rule.question)]


def load(
    files: Files,
    *,
    target: str = "",
    ignore: str | int | Sequence = (),
    private: bool = False,
    unit: str = "",
    most_rows: int = 0,
) -> Table:
    """Load the table; where it has no schema, write a draft and raise BadInput on what to do.

    target, ignore: of the draft. A schema that is there has the last word: BadInput for what it
    says otherwise. private, unit, most_rows: as in `load_table`.
    """
    called = "the schema"
    if isinstance(files.schema, Path):
        called = files.schema.name
        draft_where_needed(files, target=target, ignore=ignore)
        if not files.schema.is_file():
            raise BadInput(
                f"{files.table}: there is no {called}; correct {files.draft}, save it as "
                f"{files.schema}, and run again."
            )
    unit_of = {"unit": unit, "most_rows": most_rows}
    table = load_table(files.table, schema=files.schema, private=private, **unit_of)
    if target and target != table.schema.target:
        said = repr(table.schema.target) if table.schema.target else "none"
        raise BadInput(
            f"target is {target!r} and the target in {called} is {said}; change it "
            "there, or leave target out."
        )
    kept = [name for name in names_of(ignore, "ignore") if name not in left_out(table)]
    if kept:
        where = "declared in" if kept[0] in table.form.names else "no column of the file or"
        raise BadInput(
            f"ignore names {kept[0]!r}, which is {where} {called}; write ignore = true "
            "for it there, or leave it out of ignore."
        )
    return table


def own(table: str | Path) -> Table:
    """Somebody's own table for a lesson, as `load`."""
    return load(Files.of(table))


def names_of(given: str | int | Sequence, parameter: str) -> list[str]:
    """Names of columns: one, or several; a number is one that is called so."""
    many = list(given) if np.ndim(given) else [given]
    if wrong := [e for e in many if not isinstance(e, str | int) or isinstance(e, bool)]:
        raise BadInput(f"{parameter} names {wrong[0]!r}; give names of columns.")
    return [str(each) for each in many if each != ""]


def left_out(table: Table) -> list[str]:
    """Return the columns of a file that its synthetic rows will not have.

    These are undeclared columns, and those whose declaration leaves them out.
    """
    kept = set(table.form.names) - set(table.form.left_out)
    return [name for name in table.container.columns if name not in kept]


def method_of(name: str) -> Method:
    """Return a registered method by its key, or someone's own by the path of its file."""
    if not isinstance(name, str):
        raise BadInput(f"method is {name!r}: give its key, such as {DEFAULT}, or a path.")
    if name.endswith(".py"):
        return Method.of(from_file(name))
    if name not in METHODS:
        raise BadInput(
            f"method {name!r} is unknown{closest(name, METHODS)}; choose one of "
            f"{', '.join(METHODS)}."
        )
    return METHODS[name]


def key_of(seed: int, *, release: bool) -> bytes:
    """Return the key that says where each row goes.

    In a release the key is random and nobody is given it; in a rehearsal it follows from the seed.
    """
    return secrets.token_bytes(32) if release else stream(seed, "key").bytes(32)


def split(table: Table, *, key: bytes, release: bool = False) -> tuple[Table, Table]:
    """Split a table: (rows to learn from, rows set aside), TEST_SHARE of them set aside.

    Each row, or each person, is divided on its own, see `by_hash`.

    Raises BadInput for too few rows; of a release that is no matter of the true number (see
    `_check_release` and `_planned`), which one record may change.
    """
    if len(table) < MIN_ROWS and not release:
        raise BadInput(
            f"{table.key}: {len(table)} rows are too few to set some aside and judge by them; give "
            f"{MIN_ROWS} or more."
        )
    by = {"key": key, "persons": table.persons}
    aside, train = by_hash(table.content, [TEST_SHARE, 1 - TEST_SHARE], purpose="split", **by)
    if min(len(aside), len(train)) == 0 and not release:
        raise BadInput(
            f"{table.key}: all rows fell on one side of the split; give a file with more rows."
        )
    return table.take(train), table.take(aside)


def clients(
    table: Table, num_clients: int, *, site: str = "", key: bytes, release: bool = False
) -> Parts:
    """Return row positions of each client.

    A client has a declared category of column `site`; without `site`, rows are dealt in about equal
    shares.

    That a site takes part is no secret: it is declared. Raises BadInput for one without rows, but
    not of a release, where one record may be all that a client has.
    """
    if not site:
        check_clients(max(num_clients, 1) if release else len(table), num_clients, table.key)
        by = {"key": key, "persons": table.persons}
        parts = by_hash(table.content, [1.0] * num_clients, purpose="deal", **by)
        if min(map(len, parts)) == 0 and not release:
            raise BadInput(
                f"{table.key}: a client of {num_clients} would have no row; take fewer clients."
            )
        return parts
    names = _sites(table, site)
    codes = table.frame[site].cat.codes.to_numpy()
    parts = [np.flatnonzero(codes == code) for code in range(len(names))]
    empty = [name for name, part in zip(names, parts, strict=True) if len(part) == 0]
    if empty and not release:
        raise BadInput(
            f"{table.key}: site {empty[0]!r} has no rows; declare the sites of "
            f"{site!r} that take part."
        )
    return parts


def _sites(table: Table, site: str) -> tuple[str, ...]:
    """Return the declared categories of the column that says which site a row is from."""
    if table.schema[site].kind != "categorical":
        raise BadInput(
            f"{table.key}: site column {site!r} is declared numeric; declare it categorical."
        )
    return table.schema[site].categories


def check_declared_rows(declared_rows: Sequence[int], num_counts: int, *, site: str = "") -> None:
    """Check that there are no declared rows, or one number of at least 1 for each count.

    Raises BadInput where that is not so.
    """
    numbers = (n for n in declared_rows if not isinstance(n, bool))
    whole = [isinstance(n, int | np.integer) and n >= 1 for n in numbers]
    whole = len(whole) == len(declared_rows) and all(whole)
    if len(declared_rows) not in (0, num_counts) or not whole:
        what = (
            f"those of each of the {num_counts} sites" if site else "one number, of the whole file"
        )
        raise BadInput(
            f"declared_rows is {list(declared_rows)}: give {what}, or nothing to have rows "
            "counted with noise."
        )


def declared_sizes(
    parts: Parts,
    *,
    site: str = "",
    declared_rows: Sequence[int] = (),
    epsilon: float,
    seed: int | None,
) -> tuple[list[int], list[Charge]]:
    """How many rows to learn from each client is taken to have, and what was released to know it.

    declared_rows: as `check_declared_rows`: the rows of the whole file as everybody knows them, say
        from a report; those of each site in declared order where there is a column `site`. Empty:
        counted, with noise that costs COUNT_SHARE of epsilon, once where rows are dealt evenly and
        at each site otherwise: a row is in one count.
    seed: of the noise; None draws it from the operating system, as a release must.
    """
    if len(declared_rows):
        counts, charges = np.array(declared_rows) * (1 - TEST_SHARE), []
    else:
        scale = 1 / (COUNT_SHARE * epsilon)
        rng = np.random.default_rng() if seed is None else stream(seed, "count")
        held = np.array([len(part) for part in parts])
        counts = held if site else held.sum(keepdims=True)
        counts = counts + discrete_laplace_share(scale, 1, counts.shape, rng=rng)
        charges = [Charge(ROW_COUNT, "laplace", scale)]
    sizes = np.maximum(counts if site else np.repeat(counts / len(parts), len(parts)), 1)
    return [int(size) for size in np.rint(sizes)], charges


def scores(train: Table, holdout: Table, synthetic: pd.DataFrame, *, seed: int) -> pd.DataFrame:
    """Score by `metrics.scores.scores`: a line for each measure.

    The scores are computed from the real rows without any noise.
    """
    from fedsynth_lib.metrics.scores import scores

    return scores(train.frame, holdout.frame, synthetic, train.schema, seed=seed)


# rows: as the file is
KINDS = {"rows": "", "statement": "_privacy.md", "page": "_privacy.html", "record": "_privacy.json"}


def places(
    table: Table, profile: str, *, release: bool, folder: Path | None = None
) -> dict[str, Path]:
    """Return where `hand_on` will write: 'rows', 'statement', 'page', 'record'.

    A release never overwrites an earlier one.

    Raises BadInput for a release with undeclared columns: known before a run, so that none is made
    in vain.
    """
    folder = folder or project_root() / "data" / "results" / folder_name(profile, "own")
    ends = KINDS | {"rows": table.container.suffix}
    if not release:
        return {kind: folder / f"{table.key}_rehearsal{end}" for kind, end in ends.items()}
    if names := ", ".join(table.form.questions):
        raise BadInput(
            f"{table.key}: the draft asks about {names}; correct each column, and delete its "
            f"question, or {REHEARSE}."
        )
    if names := ", ".join(_read_from_rows(table.form)):
        raise BadInput(f"{table.key}: {names} are {READ_FROM_ROWS}; declare them, or {REHEARSE}.")
    number = 1
    while any((folder / f"{table.key}_release{number}{end}").exists() for end in ends.values()):
        number += 1
    return {kind: folder / f"{table.key}_release{number}{end}" for kind, end in ends.items()}


def _read_from_rows(form: Form) -> list[str]:
    """Return the columns of synthetic rows about which something was read from the real ones.

    A constant column counts, too, although no method sees it.
    """
    read = [c.name for c in form.columns if c.from_rows or c.source == READ_FROM_ROWS]
    return [name for name in read if name not in form.left_out]


def run(method: Method, train: Table, parts: Parts, *, config: Any, **options: Any) -> Run:
    """Run `federation.settings.federated`, with gaps as a level where the method counts.

    The synthetic rows have the table's schema again. What is released is what the method releases:
    how gaps become levels, and levels gaps, is public.
    """
    form = train.form or Form.of(train.schema)
    schema, config, counted = as_counted(method, form, config)
    if counted is None:
        return federated(method, train, parts, config=config, **options)
    joined = replace(train, frame=counted.join(train.frame), schema=schema, digest="")
    made = federated(method, joined, parts, config=config, **options)
    rng = stream(options.get("seed", 0), "within bins")
    return replace(made, synthetic=counted.part(made.synthetic, rng))


def as_file(synthetic: pd.DataFrame, table: Table, *, seed: int | None) -> pd.DataFrame:
    """Synthetic rows in the form of the table's file.

    seed: of fresh identifiers; None draws them from the operating system.
    """
    rng = np.random.default_rng() if seed is None else stream(seed, "identifiers")
    return table.form.to_file(synthetic, rng)


@dataclass(frozen=True)
class Asked:
    """What was asked for, checked as far as it can be: no noise was drawn yet, nothing is written.

    train, holdout: rows to learn from, and rows set aside. parts: of `train`, a client each.
    promised: what was asked for; privacy: of one row, which is the same where the unit is a row.
    started: when the work on it began, in seconds as `time.time` counts them.
    paths: as `places`; none where nothing is to be written. known: by what the register knows the
    rows; '' in a rehearsal. rows, where: as in `prepare`.
    """

    table: Table
    train: Table
    holdout: Table
    parts: Parts
    method: Method
    config: Any
    promised: Privacy
    privacy: Privacy
    paths: dict[str, Path]
    site: str
    declared_rows: list[int]
    seed: int
    release: bool
    again: bool
    book: Ledger | None
    known: str
    about: Release
    started: float
    model: Path | None = None
    tables: Path | None = None
    quote_formulas: bool = False
    rows: int | None = None
    where: Mapping[str, Any] | None = None
    delta_lowered: bool = False


@dataclass(frozen=True)
class Made:
    """What came out, and where it lies.

    sizes: rows that each client was taken to have. model: what more rows can be drawn from, at no
    further cost. rows: synthetic ones as the file has them (those of the run are as methods see
    them). text: of the statement. paths: as `places`, 'model' where one was saved, and 'tables'
    where they were written.
    total: of all releases of these rows, this one included; None of a rehearsal.
    """

    asked: Asked
    sizes: list[int]
    run: Run
    model: saved.SavedModel
    rows: pd.DataFrame
    text: str
    paths: dict[str, Path]
    total: Total | None

    @property
    def table(self) -> Table:
        """The table."""
        return self.asked.table

    @property
    def train(self) -> Table:
        """The rows to learn from."""
        return self.asked.train

    @property
    def holdout(self) -> Table:
        """The rows set aside."""
        return self.asked.holdout

    @property
    def verdict(self) -> str:
        """Whether it may be handed on, in a few words."""
        if self.total is None:
            return "a rehearsal: do not hand this on"
        if not promises(self.total.epsilon):
            return (
                f"released at epsilon {self.total.epsilon:.4g}, which promises nothing useful: do "
                "not hand this on as private"
            )
        return "fit to hand on"


def prepare(
    path: str | Source,
    *,
    method: str = DEFAULT,
    epsilon: float,
    delta: float = DELTA,
    schema: str | Path | None = None,
    target: str = "",
    ignore: str | int | Sequence = (),
    site: str = "",
    num_clients: int = 0,
    declared_rows: int | Sequence[int] = (),
    unit: str = "",
    most_rows: int = 0,
    seed: int = 0,
    release: bool = False,
    again: bool = False,
    population: str = "",
    most_epsilon: float = 3.0,
    rows: int | None = None,
    where: Mapping[str, Any] | None = None,
    profile: str = "quick",
    out: str | Path | None = None,
    files: bool = True,
    save_model: str | Path | None = None,
    tables: str | Path | None = None,
    quote_formulas: bool = False,
    about: Mapping[str, str] | None = None,
) -> Asked:
    """Read the table, divide its rows, and check all that was asked for.

    Where there is no schema, a draft is written beside the table, and BadInput says what to do.
    Raises BadInput for what cannot be asked, has no effect, or does not fit the declared schema,
    and Refused for a release that the ledger of this population refuses.
    delta: the default one is lowered by `delta_for` where there are many rows: in a release, where
        many are declared.
    num_clients: to which rows are dealt where no column `site` says whose they are; 0 is one.
    schema: the path of its file, or its text.
    unit, most_rows: as in `Form`, where the schema does not say them: epsilon and delta are then
        for a person with up to so many rows. Declared numbers of rows are of those that count.
    again: release rows once more that were released before; their costs add up.
    rows: how many synthetic ones are written; by default as many as the method is taken to learn
        from, which is four fifths of the declared or noisily counted number: one fifth is set aside
        to judge by. Any other number costs nothing.
    where: column -> the value that all of these rows have, as in `SavedModel.sample`.
    files: whether rows and statement are written; not, for who takes them from `Made`.
    out: folder of the files; by default that of `profile` for results on tables of your own.
    save_model: the file that the model goes to, from which rows can be drawn later; a release
        takes no other file's place.
    tables: the folder that the noisy tables go to (`noisy_tables.py`).
    quote_formulas: as in `Container.content`.
    about: of `Release`: curator, recipients, purpose.
    """
    checked_seed(seed)
    for name, value in {"release": release, "again": again}.items():
        if not isinstance(value, bool | np.bool_):
            raise BadInput(f"{name} is {value!r}: give True or False.")
    started, source, module = time.time(), Files.of(path, schema), method_of(method)
    promised = Privacy(checked_epsilon(epsilon), delta, noise_seed=None if release else "run")
    config = private_config(module)
    if site and num_clients:
        raise BadInput(
            f"num_clients is {num_clients} and site is {site!r}, which says how many there are; "
            "give one of the two."
        )
    options = {"private": True, "unit": unit, "most_rows": most_rows}
    table = load(source, target=target, ignore=ignore, **options)
    sizes = list(np.atleast_1d(np.array(declared_rows, dtype=object)))
    check_declared_rows(sizes, len(_sites(table, site)) if site else 1, site=site)
    known_rows = sum(sizes) or (0 if release else len(table))  # those of a release are secret
    promised = replace(promised, delta=delta_for(delta, known_rows))
    if known_rows:
        _check_delta(promised, known_rows, "declared" if sizes else "counted", table.key)
    privacy = row_budget(promised, max(1, table.form.most_rows))
    several = bool(site) or num_clients not in (0, 1)
    open_levels.check(table, privacy, several=several, where=where)
    if sizes:  # else they are counted, with noise, when the run begins
        config = fitting(config, table.schema, sum(sizes) * (1 - TEST_SHARE), privacy.epsilon)
    checked_epsilon(most_epsilon, "most_epsilon")
    if not isinstance(about or {}, Mapping):
        raise BadInput(f"about is a {type(about).__name__}: give a dict, as {{'curator': '...'}}.")
    if unknown := set(about or {}) - {"curator", "recipients", "purpose"}:
        raise BadInput(
            f"about names {min(map(str, unknown))!r}: give curator, recipients, purpose."
        )
    rows = None if rows is None else saved.checked_number(rows)
    num_clients = checked_rows(num_clients, "num_clients") if num_clients else 0
    saved.Where.of(table.form, where)
    paths = places(table, profile, release=release, folder=out and as_path(out, "out"))
    model = None if save_model is None else as_path(save_model, "save_model")
    if model is not None:
        _check_model(model, module, release=release)
    folder = None if tables is None else as_path(tables, "tables")
    if folder is not None:
        noisy_tables.check(module, folder, release=release)
    if quote_formulas:
        table.container.check_quoting()
    book, known = None, ""
    if release:
        _check_release(table, sizes)
        book = open_ledger(population or table.key, most_epsilon=most_epsilon)
        book.admit(epsilon, promised.delta)
        known = _known(source.table, table, epsilon, again=again)
    key = key_of(seed, release=release)
    counted = rows_that_count(table, site=site, key=key)
    train, holdout = split(counted, key=key, release=release)
    parts = clients(train, num_clients or 1, site=site, key=key, release=release)
    said = Release(table.key, "", not release, len(parts) > 1, **about or {})
    return Asked(
        table=table,
        train=train,
        holdout=holdout,
        parts=parts,
        method=module,
        config=config,
        promised=promised,
        privacy=privacy,
        paths=paths if files else {},
        site=site,
        declared_rows=sizes,
        seed=seed,
        release=release,
        again=again,
        book=book,
        known=known,
        about=said,
        started=started,
        model=model,
        tables=folder,
        quote_formulas=quote_formulas,
        rows=rows,
        where=where,
        delta_lowered=promised.delta != delta,
    )


def _check_release(table: Table, declared_rows: Sequence[int]) -> None:
    """Check what a release needs beyond a rehearsal, as far as it shows before noise is drawn."""
    unsaid = [name for name in left_out(table) if name not in table.form.left_out]
    if unsaid:
        raise BadInput(
            f"{table.key}: the schema does not say what {', '.join(map(repr, unsaid))} is; declare "
            f"it, or write ignore = true for it, or {REHEARSE}."
        )
    if declared_rows and sum(declared_rows) < MIN_ROWS:
        raise BadInput(
            f"{table.key}: {sum(declared_rows)} rows were declared, too few to learn from; "
            f"give a table of {MIN_ROWS} or more."
        )


def _check_model(path: Path, method: Method, *, release: bool) -> None:
    saved.key_in_files(method)
    if release and path.exists():
        raise BadInput(f"save_model: {path} is there already; a release takes no file's place.")
    check_writable(path, "save_model")


def _check_delta(privacy: Privacy, num_rows: float, known: str, name: str, spent: str = "") -> None:
    """Refuse a delta at which whole records might be published: 1 / rows or more.

    Raises Refused. In a release rows are declared or counted with noise, and never the true number.
    """
    if privacy.delta * num_rows >= 1:
        raise Refused(
            f"{name}: delta is {privacy.delta:g}, and from 1 / rows on whole records might be "
            f"published; give one far below {1 / num_rows:.2g}, as {num_rows:.0f} rows were "
            f"{known}.{spent}"
        )


def delta_for(delta: float, num_rows: int) -> float:
    """Return the delta of a run.

    The default delta is lowered to a power of ten that is at most a tenth of 1 / rows. Any other
    delta stays as it was asked for.
    """
    if delta != DELTA or num_rows * DELTA <= 0.1:
        return delta
    return float(10.0 ** np.floor(np.log10(0.1 / num_rows)))


def delta_notes(asked: Asked) -> list[str]:
    """Return a line, for the owner alone, on a delta that was lowered or is near 1 / rows.

    Where no rows are declared, the line follows from the true number of rows, which it does not
    say.
    """
    delta, rows = asked.promised.delta, sum(asked.declared_rows)
    if rows:
        said = f"the default delta, {DELTA:g}, is lowered to {delta:g}, for {rows:,} rows were"
        return [f"{said} declared"] * asked.delta_lowered
    if asked.delta_lowered:
        found = f"the default delta, {DELTA:g}, is lowered to {delta:g} in this rehearsal"
    elif delta * len(asked.table) > 0.1:
        found = f"delta {delta:g} is not far below 1 / rows, and a release is refused from there on"
    else:
        return []
    return [
        f"for you alone, as it was counted in the real rows: {found}. For a release, say how many "
        "rows there are (declared_rows, --declared-rows), or give a smaller delta (delta=, --delta)"
    ]


def rare_classes(asked: Asked) -> list[str]:
    """Return a warning, for the owner alone, of target classes too small for the budget.

    A rule of thumb: fewer than 10 standard deviations of the noise on a count, where every column
    is counted with the target once. It is counted in the real rows, without noise, so it says no
    number of them; whether there is a warning is no part of what is handed on.
    """
    train, privacy = asked.train, asked.privacy
    target, columns = train.schema.target, len(train.schema.columns)
    if target not in train.schema.categorical or target in train.form.open:
        return []
    once = np.sqrt(2 * np.log(1 / privacy.delta) * columns) if privacy.delta else 2**0.5 * columns
    few = int(np.ceil(10 * once / privacy.epsilon))
    counts = train.frame[target].value_counts()
    rare = [repr(label) for label in train.schema[target].categories if counts[label] < few]
    return [
        f"for you alone, as it was counted in the real rows: fewer than about {few} rows to learn "
        f"from have {target!r} = {' or '.join(rare)}, and at epsilon {privacy.epsilon:g} noise "
        "hides what goes along with so few. A larger epsilon, more rows or joined classes help; "
        "rows drawn given a class (where=, --where) are more, not truer"
    ] * bool(rare)


def carry_out(
    asked: Asked,
    say: Callable[[str], None] = lambda text: None,
    note: Callable[[str], None] | None = None,
) -> Made:
    """Run, and write at once the files that may be handed on; register a release before.

    say: is told what begins, a line each. note: is told what the owner should know, a line each;
    `say` where there is none.
    Raises Refused for a release of rows that were released before, unless asked for again, and for
    a delta that is not far below 1 over the number of rows.
    """
    note = note or say
    unsourced = ", ".join(asked.table.form.unsourced)
    if asked.release and unsourced:
        note(
            f"no source is given for {unsourced}: the release takes their ranges and categories as "
            "documented; write where, as source = ..., in the schema"
        )
    if names := asked.table.form.questions:  # of a rehearsal; `places` has refused a release
        note(
            f"the draft's questions about {', '.join(names)} are still open: correct each in the "
            "schema, and delete its question; a release refuses open questions"
        )
    for line in (*asked.table.moved, *delta_notes(asked), *rare_classes(asked)):
        note(line)
    for path in asked.paths.values():  # before noise is paid for
        check_writable(path, "out")
    begun = _begin(asked) if asked.release else None
    with telling_cost(begun, note), stages(asked.started) as begin:
        return _carried_out(asked, begun, say, note, begin)


def _carried_out(
    asked: Asked,
    begun: Begun | None,
    say: Callable[[str], None],
    note: Callable[[str], None],
    begin: Callable[[str, int], None],
) -> Made:
    epsilon, seed = asked.privacy.epsilon, None if asked.release else asked.seed
    plan = open_levels.planned(asked.table.form, asked.privacy)
    privacy, before = (plan.rest, [plan.charge]) if plan else (asked.privacy, [])
    known = {"site": asked.site, "declared_rows": asked.declared_rows}
    sizes, counted = declared_sizes(asked.parts, **known, epsilon=epsilon, seed=seed)
    config = fitting(asked.config, asked.table.schema, sum(sizes), epsilon)
    options = {"config": config, "privacy": privacy, "seed": asked.seed}
    options |= {"sizes": sizes, "before": [*counted, *before]}
    if begun or plan:
        job, plan = _planned(asked, begun, plan, **options)
    if plan:  # noise is settled beforehand, so that it does not depend on what is selected
        noise = float(np.max(job.noise_multiplier))
        options["privacy"] = replace(privacy, noise_multiplier=noise)
        asked, found = _selected(asked, plan)
    clients = "one client" if len(asked.parts) == 1 else f"{len(asked.parts)} clients"
    say(f"{asked.method.name} learns from {clients}, which may take minutes")
    if "marginals" in asked.method.client_step.__module__:  # how long a network takes is unknown
        begin("learning", LEARNS)
    made, table = run(asked.method, asked.train, asked.parts, **options), asked.table
    if plan:
        made = replace(made, statement=plan.said(made.statement, found, sum(sizes)))
    made = replace(made, statement=for_persons(made.statement, table.form, asked.promised))
    model = saved.saved(
        made,
        asked.method,
        options["config"],
        table.form,
        container=table.container,
        seed=asked.seed,
        sizes=sizes,
    )
    begin("drawing rows", DRAWS)
    drawn, given = _drawn(asked, model, made.synthetic, note)
    made = replace(made, statement=made.statement | {"together": model.together, "given": given})
    rows = as_file(drawn, table, seed=seed)
    content = b""
    begin("writing", WRITES)
    if asked.paths:
        content = table.container.content(rows, table.form, quote_formulas=asked.quote_formulas)
    handed = replace(made, synthetic=drawn)
    text, paths = hand_on(handed, content, asked.paths, asked.about, begun)
    if paths:
        say(f"rows and statement are in {paths['rows'].parent}")
    if asked.rows is None:
        most = table.form.most_rows
        beyond = f"; of each person's rows, up to {most} count" * bool(most)
        note(FOUR_FIFTHS.format(rows=len(rows)) + beyond)
    total = begun and begun.total()
    found = Made(asked, sizes, made, model, rows, text, paths, total)
    if asked.model is not None:
        with _paid_for(begun, paths):
            saved.write(model, asked.model)
        paths["model"] = asked.model
    if asked.tables is not None:
        with _paid_for(begun, paths):
            own = {"release": asked.release, "quote_formulas": asked.quote_formulas}
            noisy_tables.write(model, asked.tables, **own)
        paths["tables"] = asked.tables
        note(OF_TABLES.format(folder=asked.tables))
    return found


def _selected(asked: Asked, plan: open_levels.Plan) -> tuple[Asked, open_levels.Found]:
    """Return the tables with the levels that noisy counts select in the rows to learn from."""
    rng = np.random.default_rng() if asked.release else stream(asked.seed, "open levels")
    found = plan.select(asked.train, rng)
    tables = {"table": asked.table, "train": asked.train, "holdout": asked.holdout}
    known = {name: open_levels.with_levels(each, found.levels) for name, each in tables.items()}
    return replace(asked, **known), found


def _drawn(
    asked: Asked, model: saved.SavedModel, synthetic: pd.DataFrame, note: Callable[[str], None]
) -> tuple[pd.DataFrame, str]:
    """Return the rows that are handed on, and in words what they were drawn given.

    A run that hardly gives rows that fit `where` is paid for all the same: so what was found is
    handed on, and a draw without the condition where nothing was.
    """
    wanted = len(synthetic) if asked.rows is None else asked.rows
    if asked.where is None:
        return (synthetic if asked.rows is None else model.drawn(wanted)), ""
    found = model.drawn(wanted, where=asked.where)
    if len(found) < wanted:
        instead = "they are written" if len(found) else "rows without this condition are written"
        note(f"{saved.too_few(len(found), wanted, asked.where)} Here, {instead}.")
    return (found, saved.as_words(asked.where)) if len(found) else (synthetic, "")


def synthesize(
    path: str | Source, *, say: Callable[[str], None] = lambda text: None, **options: Any
) -> Made:
    """Make of a file the files that may be handed on.

    This calls `prepare`, with its options, and then `carry_out`.
    """
    say(f"reads {path}")
    with telling_cost(None, say):
        asked = prepare(path, **options)
    return carry_out(asked, say)


@contextmanager
def telling_cost(begun: Begun | None, say: Callable[[str], None]) -> Iterator[None]:
    """Tell the owner what a run counts as that was stopped.

    The owner is told the cost of a release that had begun, whatever stopped it. Before that nothing
    is spent, which is said after Ctrl-C.
    """
    try:
        yield
    except BaseException as error:
        if begun is None and isinstance(error, KeyboardInterrupt):
            say("stopped before a release had begun: no budget is spent")
        elif begun is not None:
            for line in begun.book.releases():
                stopped = line.get("settles") == begun.number and not isinstance(error, BadInput)
                if line.get("begun") == begun.number or stopped:
                    name = begun.book.population
                    say(
                        f"the release was stopped after it had begun, and counts as epsilon "
                        f"{line['epsilon']:.4g}, delta {line['delta']:.3g} of population {name!r} "
                        f"(`fedsynth ledger {name}` shows it): noise may have been drawn. To "
                        "release these rows after all adds to it, and takes again=True (--again)."
                    )
        raise


@contextmanager
def _paid_for(begun: Begun | None, paths: Mapping[str, Path]) -> Iterator[None]:
    """Add to an error after a release where its files are, and that its budget is spent.

    The message says not to run it again because of the error.
    """
    try:
        yield
    except BadInput as error:
        if begun is None:
            raise
        there = ", ".join(str(path) for path in paths.values() if path.exists()) or "none of it"
        raise BadInput(
            f"{error} The release exists and is paid for (`fedsynth ledger "
            f"{begun.book.population}` shows it): do not run it again. In place: {there}."
        ) from error


def _known(path: Source, table: Table, epsilon: float, *, again: bool) -> str:
    """Return the digest of a file's rows.

    Raises Refused where they were released before, unless `again`.
    """
    raw = table.container.raw(path, table.container.columns)
    register = open_register()
    rows = register.digest(raw)
    register.admit(rows, name=table.key, epsilon=epsilon, again=again)
    return rows


def _begin(asked: Asked) -> Begun:
    """Put the release into the register and the ledger, before any of its noise is drawn."""
    said = {"name": asked.table.key, "method": asked.method.name, "again": asked.again}
    said |= {"epsilon": asked.promised.epsilon, "delta": asked.promised.delta}
    if asked.table.form.unit:
        said["unit"] = unit_of(asked.table.form)
    return open_register().begin(asked.known, asked.book, **said)


def _planned(
    asked: Asked,
    begun: Begun | None,
    plan: open_levels.Plan | None,
    *,
    sizes: Sequence[int],
    before: Sequence[Charge],
    **options: Any,
) -> tuple[Job, open_levels.Plan | None]:
    """Return the job of a run, and how many levels of open columns its method can hold.

    Whatever else refuses the run does so here, by the number of rows that it is taken to have: so a
    setting that cannot be is found before the run has begun, and costs the count of the rows at
    most.
    """
    counts = [charge for charge in before if charge.what == ROW_COUNT]
    cost = epsilon_of(counts) * max(1, asked.table.form.most_rows) if counts else 0.0
    try:
        if begun and counts:
            spent = f" Counting the rows has cost epsilon {cost:.2g}; declared_rows would not."
            num_rows = sum(sizes) / (1 - TEST_SHARE)
            if num_rows < MIN_ROWS:
                raise BadInput(
                    f"{asked.table.key}: counted with noise, it has {num_rows:.0f} rows, give or "
                    f"take {counts[0].noise:.0f}: too few to learn from; say how many rows it has "
                    f"(declared_rows), or give a larger epsilon.{spent}"
                )
            _check_delta(asked.promised, num_rows, "counted with noise", asked.table.key, spent)
        options |= {"sizes": sizes, "before": before}

        def job(form: Form) -> Job:
            """All of the run that follows from what is public."""
            schema, config, _ = as_counted(asked.method, form, options["config"])
            return job_of(asked.method, schema, **(options | {"config": config}))[0]

        form = asked.train.form
        return open_levels.fitted(plan, form, job) if plan else (job(form), None)
    except BadInput:
        if begun:
            begun.give_up(cost, 0.0, "no rows, but their number" if counts else "nothing")
        raise


def hand_on(
    run: Run,
    rows: bytes,
    paths: Mapping[str, Path],
    about: Release,
    begun: Begun | None = None,
    same_rows: Total | None = None,
) -> tuple[str, dict[str, Path]]:
    """Write the synthetic rows, a file's content, and what must be said of them in three forms.

    Returns the statement's text, and where the files are: a release never takes another one's
    place, so where one was written since `places` looked it has the next number.

    begun: of a release. It is settled first, so that rows which left are in the ledger and in the
        register whatever happens; it refuses a run without a guarantee.
    same_rows: what all releases of the same rows cost together, where no register says it.
    """
    if begun is None:
        contents = _contents(run, rows, paths, about, same_rows=same_rows)
        for kind, path in paths.items():
            write_atomically(path, contents[kind])
        return contents["statement"].decode(), dict(paths)
    begun.end(run.statement, rows=len(run.synthetic))
    totals = begun.book.total(), begun.total()
    with begun.register.journal.locked():
        while any(path.exists() for path in paths.values()):
            paths = {kind: _next(path) for kind, path in paths.items()}
        contents = _contents(run, rows, paths, about, *totals)
        with _paid_for(begun, paths):
            _write_or_rescue({path: contents[kind] for kind, path in paths.items()})
    return contents["statement"].decode(), dict(paths)


def _write_or_rescue(contents: Mapping[Path, bytes]) -> None:
    """Write files that nobody can make again.

    Where there is no room, the others go to a folder for temporary files, and BadInput says to
    which.
    """
    try:
        for path, content in contents.items():
            write_atomically(path, content)
    except BadInput as error:
        lacking = {path: content for path, content in contents.items() if not path.exists()}
        names = ", ".join(path.name for path in lacking)
        try:
            folder = Path(tempfile.mkdtemp(prefix="fedsynth-"))
            for path, content in lacking.items():
                write_atomically(folder / path.name, content)
        except (BadInput, OSError):
            raise BadInput(f"{error} Lost for want of room anywhere: {names}.") from error
        raise BadInput(f"{error} What had no room is in {folder}: {names}.") from error


def _contents(
    run: Run,
    rows: bytes,
    paths: Mapping[str, Path],
    about: Release,
    people: Total | None = None,
    same_rows: Total | None = None,
) -> dict[str, bytes]:
    """Kind -> the content of its file."""
    title = f"{len(run.synthetic)} synthetic rows"
    title += f" in {paths['rows'].name}" if paths else ""
    given = run.statement.get("given")
    title += f", all drawn given {given}" if given else ""
    about = replace(about, product=about.product or title)
    return {
        "rows": rows,
        "statement": statement_text(run.statement, title, same_rows).encode(),
        "page": summary_page(run.statement, about, people, same_rows).encode(),
        "record": registry_entry(run.statement, about, same_rows).encode(),
    }


def _next(path: Path) -> Path:
    """Return the path of a release with the next number."""
    *_, last = re.finditer(r"_release(\d+)", path.name)
    number = f"_release{int(last[1]) + 1}"
    return path.with_name(path.name[: last.start()] + number + path.name[last.end() :])


def measured(made: Made) -> str:
    """In a sentence, which columns were measured together, as the statement lists them."""
    together = made.run.statement["together"]
    if together is None:
        return (
            "measured together: not known; a network learns from whole rows, as far as its noise "
            "allows, and a method of your own does not say"
        )
    groups = ", ".join(" x ".join(group) for group in together) or "none"
    return f"measured together: {groups}; of other columns, only what follows from these is kept"


# --- how good it is: made with the real rows, and for their owner alone ---------------------------


def columns_drawn(made: Made) -> "Figure":
    """Each column on its own, real and synthetic."""
    from fedsynth_lib.figures.distributions import distributions

    names = _names_with_units(made.table)
    learned = {made.asked.method.name: made.run.synthetic.rename(columns=names)}
    real, schema = made.train.frame.rename(columns=names), made.table.schema.rename(names)
    return distributions(real, schema, learned, name="real rows")


def _names_with_units(table: Table) -> dict[str, str]:
    """Name -> the name with what its numbers are, of columns that are not modelled as they are."""
    units = {timedelta(days=1): "days", timedelta(minutes=1): "min", timedelta(seconds=1): "s"}
    found = {
        each.name: units[each.moments.unit] for each in table.form.columns if each.kind in TIMES
    }
    found |= {each.name: "log" for each in table.form.columns if each.scale == "log"}
    found |= {c.name: "step" for c in table.form.columns if c.steps or c.step is not None}
    found |= {name: "distance, log" for name in table.form.between.bases}
    return {name: f"{name} ({unit})" for name, unit in found.items()}


def pairs_drawn(made: Made) -> "Figure":
    """Draw the association of each pair of columns, in real and in synthetic rows."""
    from fedsynth_lib.figures import labels
    from fedsynth_lib.figures.heatmap import pair_maps

    title = f"{made.asked.method.name}, ε = {made.asked.promised.epsilon:g}"
    synthetic, schema = {title: made.run.synthetic}, made.table.schema
    fig = pair_maps(made.train.frame, schema, synthetic, name="real rows")
    longest = max(map(len, labels.shorts(schema.names, labels.BESIDE)))
    fig.set_figheight(fig.get_figheight() + 0.05 * max(0, longest - 8))  # inches, for their names
    return fig


INTERNAL = "made with the real rows, without noise: not to be handed on"


def write_scores(made: Made) -> list[Path]:
    """Scores as CSV, Markdown and LaTeX, for the eyes of their owner; their paths."""
    found = scores(made.train, made.holdout, made.run.synthetic, seed=made.asked.seed)
    for rule, share in made.table.form.rules_held(made.rows).items():
        real = made.table.held.get(rule, np.nan)
        found.loc[f"rule: {rule}, share of rows"] = [share, real, np.nan, "all real rows", ""]
    saver, stem = _internal(made)
    caption = f"Scores of {made.paths['rows'].name}, {INTERNAL}. {measured(made).capitalize()}."
    saved = saver.table(found, f"{stem}_scores", caption=caption)
    return _for_owner([saved.csv, saved.md, saved.tex])


def write_pictures(made: Made) -> list[Path]:
    """Both pictures as PNG and PDF, for the eyes of their owner; their paths."""
    from fedsynth_lib.figures import use_style

    use_style()
    saver, stem = _internal(made)
    drawn = {"columns": columns_drawn(made), "pairs": pairs_drawn(made)}
    saved = [saver.figure(fig, f"{stem}_{name}", note=INTERNAL) for name, fig in drawn.items()]
    return _for_owner([path for each in saved for path in (each.png, each.pdf)])


# what may be done with a finished run, one without the other
EVALUATIONS = {"scores": write_scores, "pictures": write_pictures}


def _internal(made: Made) -> tuple["Saver", str]:
    """Return what saves internal files into a folder of their own, and how their names begin.

    Nobody but the owner must see these files.
    """
    from fedsynth_lib.figures import Saver

    place = made.paths["rows"]
    stem = re.sub(r"[^\w.-]", "_", place.name.removesuffix(made.table.container.suffix))
    folder = private_folder(place.parent / FOR_OWNER)
    return Saver("quick", "own", folder), f"{stem}_internal"


def _for_owner(paths: list[Path]) -> list[Path]:
    for path in paths:
        path.chmod(0o600)
    return paths
