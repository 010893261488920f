"""Make the stand-in tables that the bundle carries for machines without the real ones.

    ./run_all.sh standins adult bank cardio --epsilon 3

Each is a sample of a Bayesian network learned from the real table with a private structure, so that
the file as a whole satisfies epsilon-differential privacy for adding or removing one record. The
noise comes from the operating system: running this again gives another table, and nobody can
subtract the noise. Beside data/standin/<key>.parquet lies <key>.json with the method, its settings
and the privacy statement, and data/standin/ledger.toml counts all releases about the same people,
those that were replaced included: epsilons add up.
"""

import hashlib
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from pathlib import Path

import pandas as pd

from fedsynth_lib import __version__
from fedsynth_lib.core.contract import BadInput, Privacy
from fedsynth_lib.core.store import project_root, write_atomically
from fedsynth_lib.federation import settings
from fedsynth_lib.methods.bayes import bayesian_network
from fedsynth_lib.tables.load import load_table
from fedsynth_lib.tables.registry import entry
from fedsynth_lib.tables.schema import Schema, read_toml

MAX_ROWS = 50_000  # keeps each file near a megabyte
# one budget must serve for both
SAME_PEOPLE = {"brfss_heart": ("brfss_diabetes", {"Diabetes_012": "Diabetes"})}


def make_standin(
    key: str, *, epsilon: float, rows: int = MAX_ROWS, folder: Path | None = None
) -> Path:
    """Write the stand-in of a registered table and its record; returns the parquet file's path.

    The stand-in has every declared column, as many rows as the table up to `rows`, and the declared
    ranges and categories. Raises BadInput if the real table cannot be reached.
    """
    if rows < 1:
        raise BadInput(
            f"rows is {rows}: give the most rows that the stand-in of {key} may have, at least 1."
        )
    people, folder = population_of(key), folder or _folder()
    if key in SAME_PEOPLE:
        return _renamed(key, *SAME_PEOPLE[key], folder)
    table = load_table(key, work="all")
    if table.data != "real":
        raise BadInput(
            f"{key}: a stand-in is made from the real table, which cannot be reached here."
        )
    # at this budget fewer cells beat more parents
    config = bayesian_network.Config(degree=1, private_structure=True)
    privacy = Privacy(epsilon, noise_seed=None)
    num_rows = min(len(table.frame), rows)
    run = settings.central(
        bayesian_network, table, config=config, privacy=privacy, num_rows=num_rows
    )
    if run.statement["epsilon"] is None:
        raise RuntimeError(
            f"{key}: something was released without protection; no stand-in is written"
        )
    content = short(run.synthetic, table.schema).to_parquet(index=False, compression="zstd")
    write_down(key, run.statement["epsilon"], run.statement["delta"], content, folder)
    record = {
        "table": key,
        "rows": num_rows,
        "method": f"fedbn {bayesian_network.VERSION}, central, private structure",
        "config": asdict(config),
        "fedsynth": __version__,
        "statement": run.statement,
        "population": total(people, folder),
    }
    write_atomically(folder / f"{key}.json", (json.dumps(record, indent=1) + "\n").encode())
    note_totals(folder)
    path = folder / f"{key}.parquet"
    write_atomically(path, content)
    return path


def _renamed(key: str, source: str, names: dict[str, str], folder: Path) -> Path:
    """Make the stand-in of a table whose rows are those of another one, from that one.

    A second sample would cost again.
    """
    if not (folder / f"{source}.parquet").is_file():
        raise BadInput(
            f"{key}: its rows are those of {source}; make the stand-in of {source} first."
        )
    record = json.loads((folder / f"{source}.json").read_text(encoding="utf-8")) | {
        "table": key,
        "rows_of": source,
    }
    write_atomically(folder / f"{key}.json", (json.dumps(record, indent=1) + "\n").encode())
    frame = pd.read_parquet(folder / f"{source}.parquet").rename(columns=names)[
        list(entry(key).schema.names)
    ]
    write_atomically(folder / f"{key}.parquet", frame.to_parquet(index=False, compression="zstd"))
    return folder / f"{key}.parquet"


# --- who has paid for them -----------------------------------------------------------------------


@dataclass(frozen=True)
class Population:
    """People (or things) that several tables may have rows of.

    rows: of one person in a table, where it is not one.
    """

    name: str
    tables: tuple[str, ...]
    why: str
    rows: Mapping[str, int] = field(default_factory=dict)


def populations() -> list[Population]:
    """Those that data/standin/ledger.toml knows, in its order."""
    found = read_toml(_folder() / "ledger.toml")["population"]
    return [
        Population(name, **facts | {"tables": tuple(facts["tables"])})
        for name, facts in found.items()
    ]


def population_of(key: str) -> Population:
    """Return the population of a table; BadInput where nobody has said whose rows these are."""
    for each in populations():
        if key in each.tables:
            return each
    raise BadInput(
        f"{key}: data/standin/ledger.toml does not say whose rows these are; add it to "
        "a [population]."
    )


def releases(folder: Path | None = None) -> list[dict]:
    """All that were ever made, also those whose file was replaced."""
    path = (folder or _folder()) / "ledger.toml"
    return read_toml(path).get("release", []) if path.is_file() else []


def total(people: Population, folder: Path | None = None) -> dict:
    """Add up what the releases cost one person at most.

    That is a row in each table, or as many as `Population.rows` says.
    """
    made = [each for each in releases(folder) if each["table"] in people.tables]
    epsilon, delta = (
        math.fsum(each[name] * people.rows.get(each["table"], 1) for each in made)
        for name in ("epsilon", "delta")
    )
    return {
        "name": people.name,
        "releases": len(made),
        "total_epsilon": epsilon,
        "total_delta": delta,
    }


def write_down(key: str, epsilon: float, delta: float, content: bytes, folder: Path) -> None:
    """Add a release at the end of the ledger, before its rows are written.

    content: of their file.
    """
    path = folder / "ledger.toml"
    before = path.read_text(encoding="utf-8") if path.is_file() else ""
    today = datetime.now(UTC).date()
    entry = (
        f'\n[[release]]\ntable = "{key}"\ndate = {today}\nepsilon = {epsilon!r}\n'
        f'delta = {delta!r}\nsha256 = "{hashlib.sha256(content).hexdigest()}"\n'
    )
    write_atomically(path, (before + entry).encode())


def note_totals(folder: Path | None = None) -> None:
    """Write the totals of populations into the records of stand-ins and the README."""
    folder = folder or _folder()
    for people in populations():
        for path in (folder / f"{key}.json" for key in people.tables):
            if path.is_file():
                record = json.loads(path.read_text(encoding="utf-8")) | {
                    "population": total(people, folder)
                }
                write_atomically(path, (json.dumps(record, indent=1) + "\n").encode())
    write_atomically(folder / "README.md", readme(folder).encode())


def readme(folder: Path | None = None) -> str:
    """Whose rows the stand-ins were made from, and what that has cost them."""
    lines = ["| rows of | tables | releases | epsilon in total | why |", "|---|---|---:|---:|---|"]
    for people in populations():
        spent = total(people, folder)
        cells = (
            people.name,
            ", ".join(people.tables),
            spent["releases"],
            f"{spent['total_epsilon']:g}",
            people.why,
        )
        lines.append("| " + " | ".join(map(str, cells)) + " |")
    return README.format(table="\n".join(lines))


README = """# Stand-ins

Small synthetic tables, for machines that cannot reach the real ones. Each was made under
differential privacy from the real rows; its `.json` has the privacy statement of that one release.
Releases about the same people add up, also those that were replaced, which are in the history of
this repository. Somebody with a row in each table has paid, at most:

{table}

Epsilon is for adding or removing a row; delta is 0 in all of them. Where one person is known to
have two rows in a table, that table counts twice. Ranges that a schema marks `from_rows` were read
from the published rows, not declared, and no epsilon covers them. `ledger.toml` has every release;
this page is made by
`./run_all.sh standins`.
"""


def _folder() -> Path:
    return project_root() / "data" / "standin"


def short(frame: pd.DataFrame, schema: Schema) -> pd.DataFrame:
    """Round continuous values to at least a thousand steps of their declared range.

    A bin's digits are drawn at random: those beyond carry nothing, and no file can compress them.
    """
    rounded = {}
    for column in (schema[name] for name in schema.numeric if not schema[name].integer):
        decimals = 3 - math.floor(math.log10(column.high - column.low))
        rounded[column.name] = frame[column.name].round(decimals).clip(column.low, column.high)
    return frame.assign(**rounded)


def main(keys: Sequence[str] = (), *, epsilon: float = 3.0, rows: int | None = None) -> list[str]:
    """Make the stand-ins of these tables; where none is named, only write the totals again.

    Returns a line for each file.
    """
    if not keys:
        note_totals()
        return ["README.md: the totals of the ledger"]
    paths = [make_standin(key, epsilon=epsilon, rows=rows or MAX_ROWS) for key in keys]
    sizes = [f"{path.stat().st_size / 1e6:.2f} MB" for path in paths]
    return [
        f"{path.name}: epsilon {epsilon:g}, {size}" for path, size in zip(paths, sizes, strict=True)
    ]
