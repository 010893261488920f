"""From someone's own file to a private synthetic table: an example file, clients, settings, scores,
what is handed on.

Nothing here lands in a folder that is committed: the example in data/cache, what is handed on in
data/results/*-own.

In a release nothing that touches rows follows from a seed that somebody knows, or from the true
number of rows: a secret key says where each row goes (`key_of`), and methods take the number that
was declared (`declared_sizes`).
"""

import secrets
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from pyarrow import parquet

from fedsynth_lib.core.accounting import discrete_laplace_share
from fedsynth_lib.core.contract import BadInput, Charge, Method, Privacy, Run, stream
from fedsynth_lib.core.ledger import Ledger, open_ledger
from fedsynth_lib.core.statement import statement_text
from fedsynth_lib.core.store import project_root, write_atomically
from fedsynth_lib.core.summary import Release, registry_entry, summary_page
from fedsynth_lib.federation.settings import ROW_COUNT, federated
from fedsynth_lib.methods import METHODS, from_file
from fedsynth_lib.metrics import scores as measured
from fedsynth_lib.runs.rows import folder_name
from fedsynth_lib.tables.files import guess_separator, header
from fedsynth_lib.tables.load import Table, load_table, propose_schema
from fedsynth_lib.tables.partition import Parts, by_hash
from fedsynth_lib.tables.schema import (
    READ_FROM_ROWS,
    Column,
    Schema,
    check_clients,
    closest,
)

EXAMPLE = (
    "Age",
    "Sex",
    "BMI",
    "HighBP",
    "HighChol",
    "Smoker",
    "Diabetes",
    "PhysHlth",
    "HeartDiseaseorAttack",
)
# made-up sites of the example, and their shares of the rows
WARDS = {"north": 0.5, "south": 0.3, "west": 0.2}
TEST_SHARE = 0.2  # of the rows, set aside
COUNT_SHARE = 0.02  # of epsilon, for the number of rows where nobody declares it
# settings, where a method has them
PRIVATE = {"participation": 1.0, "private_structure": True, "degree": 1}


def example(rows: int, seed: int) -> Path:
    """A CSV file of heart patients in data/cache/own, its declared schema beside it: public rows,
    made-up sites."""
    table = load_table("brfss_heart", rows=rows, seed=seed)
    site = stream(seed, "site").choice(list(WARDS), rows, p=list(WARDS.values()))
    path = project_root() / "data" / "cache" / "own" / "heart.csv"
    write_atomically(
        path, table.frame[list(EXAMPLE)].assign(site=site).to_csv(index=False).encode()
    )
    # the file ends before
    codebook = {"BMI": Column("BMI", "numeric", 12, 99, True, source="codebook: 12 to 99")}
    columns = tuple(codebook.get(name, table.schema[name]) for name in EXAMPLE)
    schema = Schema(
        (*columns, Column("site", "categorical", categories=tuple(WARDS), source="made up")),
        EXAMPLE[-1],
    )
    write_atomically(path.with_suffix(".toml"), schema.to_toml().encode())
    path.with_suffix(".draft.toml").unlink(missing_ok=True)  # of other rows
    return path


def load(path: Path, schema: Path, draft: Path) -> Table:
    """The table with its declared schema; while there is none, a sentence about what to do with the
    draft."""
    if not schema.is_file():
        raise BadInput(
            f"{path}: there is no {schema.name}; correct {draft}, save it as {schema}, "
            "and run again."
        )
    return load_table(path, schema=schema)


def left_out(path: Path, schema: Schema) -> list[str]:
    """The columns of a file that the schema does not declare; none where its header cannot be made
    out."""
    names = (
        parquet.read_schema(path).names
        if path.suffix == ".parquet"
        else header(path, guess_separator(path))
    )
    return (
        [name for name in names if name not in schema.names]
        if set(names) & set(schema.names)
        else []
    )


def method_of(name: str) -> Method:
    """A registered method by its key, or someone's own by the path of its file."""
    if name.endswith(".py"):
        return Method.of(from_file(name))
    if name not in METHODS:
        raise BadInput(
            f"method {name!r} is unknown{closest(name, METHODS)}; choose one of "
            f"{', '.join(METHODS)}."
        )
    return METHODS[name]


def private_config(method: Method) -> Any:
    """The method's defaults with everything it releases protected and all clients in every
    round."""
    config = method.Config()
    if not getattr(config, "private", True):
        raise BadInput(f"method {method.name} adds no noise; choose one that does, such as aim.")
    return replace(
        config, **{name: value for name, value in PRIVATE.items() if hasattr(config, name)}
    )


def key_of(seed: int, *, release: bool) -> bytes:
    """The key that says where each row goes: nobody's in a release, known with the seed in a
    rehearsal."""
    return secrets.token_bytes(32) if release else stream(seed, "key").bytes(32)


def split(table: Table, *, key: bytes) -> tuple[Table, Table]:
    """(rows to learn from, rows set aside), TEST_SHARE of them set aside: each row on its own, see
    `by_hash`."""
    measured.enough_rows(len(table), table.key)
    aside, train = by_hash(table.frame, [TEST_SHARE, 1 - TEST_SHARE], key=key, purpose="split")
    if min(len(aside), len(train)) == 0:
        raise BadInput(
            f"{table.key}: all rows fell on one side of the split; give a file with more rows."
        )
    return table.take(train), table.take(aside)


def clients(table: Table, num_clients: int, *, site: str = "", key: bytes) -> Parts:
    """Row positions of each client: of each declared category of column `site`, or dealt in about
    equal shares.

    That a site takes part is no secret: it is declared, and one without rows is refused.
    """
    if not site:
        check_clients(len(table), num_clients, table.key)
        parts = by_hash(table.frame, [1.0] * num_clients, key=key, purpose="deal")
        if min(map(len, parts)) == 0:
            raise BadInput(
                f"{table.key}: a client of {num_clients} would have no row; take fewer clients."
            )
        return parts
    if table.schema[site].kind != "categorical":
        raise BadInput(
            f"{table.key}: site column {site!r} is declared numeric; declare it categorical."
        )
    codes, names = table.frame[site].cat.codes.to_numpy(), table.schema[site].categories
    parts = [np.flatnonzero(codes == code) for code in range(len(names))]
    if empty := [name for name, part in zip(names, parts, strict=True) if len(part) == 0]:
        raise BadInput(
            f"{table.key}: site {empty[0]!r} has no rows; declare the sites of "
            f"{site!r} that take part."
        )
    return parts


def declared_sizes(
    parts: Parts,
    *,
    site: str = "",
    declared_rows: Sequence[int] = (),
    epsilon: float,
    seed: int | None,
) -> tuple[list[int], list[Charge]]:
    """How many rows to learn from each client is taken to have, and what was released to know it.

    declared_rows: the rows of the whole file as everybody knows them, say from a report; those of
        each site in declared order where there is a column `site`. Empty: counted, with noise that
        costs COUNT_SHARE of epsilon, once where rows are dealt evenly and at each site otherwise: a
        row is in one count.
    seed: of the noise; None draws it from the operating system, as a release must.
    """
    num_counts = len(parts) if site else 1
    if len(declared_rows) not in (0, num_counts) or min(declared_rows, default=1) < 1:
        what = (
            f"those of each of the {num_counts} sites" if site else "one number, of the whole file"
        )
        raise BadInput(
            f"declared_rows is {list(declared_rows)}: give {what}, or nothing to have rows "
            "counted with noise."
        )
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
    """`metrics.scores.scores`: a line for each measure, computed from the real rows without any
    noise."""
    return measured.scores(train.frame, holdout.frame, synthetic, train.schema, seed=seed)


KINDS = {
    "rows": ".csv",
    "statement": "_privacy.md",
    "page": "_privacy.html",
    "record": "_privacy.json",
}


def places(
    table: Table, profile: str, *, release: bool, folder: Path | None = None
) -> dict[str, Path]:
    """Where `hand_on` will write: 'rows', 'statement', 'page', 'record'. No release takes an
    earlier one's place.

    Raises BadInput for a release with undeclared columns: known before a run, so that none is made
    in vain.
    """
    folder = folder or project_root() / "data" / "results" / folder_name(profile, "own")
    if not release:
        return {kind: folder / f"{table.key}_rehearsal{end}" for kind, end in KINDS.items()}
    if names := ", ".join(table.schema.from_rows):
        raise BadInput(
            f"{table.key}: {names} are {READ_FROM_ROWS}; declare them, or set release = False."
        )
    number = 1
    while any((folder / f"{table.key}_release{number}{end}").exists() for end in KINDS.values()):
        number += 1
    return {kind: folder / f"{table.key}_release{number}{end}" for kind, end in KINDS.items()}


def synthesize(
    path: Path,
    *,
    method: str = "aim",
    epsilon: float,
    delta: float,
    schema: Path | None = None,
    target: str = "",
    ignore: Sequence[str] = (),
    site: str = "",
    num_clients: int = 1,
    declared_rows: Sequence[int] = (),
    seed: int = 0,
    release: bool = False,
    population: str = "",
    most_epsilon: float = 3.0,
    out: Path | None = None,
    about: Mapping[str, str] | None = None,
) -> dict[str, Path]:
    """All of notebook 81 but its scores: from a file to the files that may be handed on, `places`.

    Where there is no schema, a draft is written beside the table, and BadInput says what to do.
    Raises BadInput, before any work, for what cannot be asked, and for a release that the ledger of
    this population refuses.
    out: folder of the files; by default the one for results on tables of your own.
    about: of `Release`: curator, recipients, purpose.
    """
    declared, draft = schema or path.with_suffix(".toml"), path.with_suffix(".draft.toml")
    if not (declared.exists() or draft.exists()):
        propose_schema(path, target=target or None, ignore=list(ignore), out=draft)
    table, module = load(path, declared, draft), method_of(method)
    config = private_config(module)
    privacy = Privacy(epsilon, delta, noise_seed=None if release else "run")
    paths, book = places(table, "quick", release=release, folder=out), None
    if release:
        book = open_ledger(population or table.key, most_epsilon=most_epsilon)
        book.admit(epsilon, delta)
    key = key_of(seed, release=release)
    train, _ = split(table, key=key)
    parts = clients(train, num_clients, site=site, key=key)
    sizes, counted = declared_sizes(
        parts,
        site=site,
        declared_rows=declared_rows,
        epsilon=epsilon,
        seed=None if release else seed,
    )
    run = federated(
        module, train, parts, config=config, privacy=privacy, sizes=sizes, before=counted, seed=seed
    )
    what = f"{len(run.synthetic)} synthetic rows in {paths['rows'].name}"
    hand_on(run, paths, Release(table.key, what, not release, len(parts) > 1, **about or {}), book)
    return paths


def hand_on(run: Run, paths: Mapping[str, Path], about: Release, book: Ledger | None = None) -> str:
    """Writes the synthetic rows, and what must be said of them in three forms; gives the
    statement's text.

    book: of a release. It is written first, so that rows which left are in it whatever happens; it
        refuses what would overdraw, and a run without a guarantee.
    """
    if book is not None:
        book.add(run.statement, rows=len(run.synthetic))
    text = statement_text(
        run.statement, f"{len(run.synthetic)} synthetic rows in {paths['rows'].name}"
    )
    total = None if book is None else book.total()
    contents = {
        "rows": run.synthetic.to_csv(index=False),
        "statement": text,
        "page": summary_page(run.statement, about, total),
        "record": registry_entry(run.statement, about),
    }
    for kind, content in contents.items():
        write_atomically(paths[kind], content.encode())
    return text
