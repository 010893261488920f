"""Make the stand-in tables that the bundle carries for machines without the real ones.

    python -m fedsynth_lib.standins adult bank cardio --epsilon 3

Each is a sample of a Bayesian network learned from the real table with a private structure, so
that the file as a whole satisfies epsilon-differential privacy for adding or removing one record. The noise comes
from the operating system: running this again gives another table, and nobody can subtract the noise.
Beside data/standin/<key>.parquet lies <key>.json with the method, its settings and the privacy statement.
"""

import argparse
import json
import math
from dataclasses import asdict
from pathlib import Path

import pandas as pd

from fedsynth_lib import __version__, settings
from fedsynth_lib.interface import BadInput, Privacy
from fedsynth_lib.methods import bayesian_network
from fedsynth_lib.registry import entry
from fedsynth_lib.rows import project_root, write_atomically
from fedsynth_lib.schema import Schema
from fedsynth_lib.tables import load_table

MAX_ROWS = 50_000  # keeps each file near a megabyte
SAME_PEOPLE = {"brfss_heart": ("brfss_diabetes", {"Diabetes_012": "Diabetes"})}  # one budget must serve for both


def make_standin(key: str, *, epsilon: float, rows: int = MAX_ROWS, folder: Path | None = None) -> Path:
    """Write the stand-in of a registered table and its record; returns the parquet file's path.

    The stand-in has every declared column, as many rows as the table up to `rows`, and the declared
    ranges and categories. Raises BadInput if the real table cannot be reached.
    """
    if rows < 1:
        raise BadInput(f"rows is {rows}: give the most rows that the stand-in of {key} may have, at least 1.")
    if key in SAME_PEOPLE:
        return _renamed(key, *SAME_PEOPLE[key], folder or _folder())
    table = load_table(key, work="all")
    if table.data != "real":
        raise BadInput(f"{key}: a stand-in is made from the real table, which cannot be reached here.")
    config = bayesian_network.Config(degree=1, private_structure=True)  # at this budget fewer cells beat more parents
    privacy = Privacy(epsilon, noise_seed=None)
    num_rows = min(len(table.frame), rows)
    run = settings.central(bayesian_network, table, config=config, privacy=privacy, num_rows=num_rows)
    if run.statement["epsilon"] is None:
        raise RuntimeError(f"{key}: something was released without protection; no stand-in is written")
    folder = folder or _folder()
    record = {
        "table": key,
        "rows": num_rows,
        "method": f"fedbn {bayesian_network.VERSION}, central, private structure",
        "config": asdict(config),
        "fedsynth": __version__,
        "statement": run.statement,
    }
    write_atomically(folder / f"{key}.json", (json.dumps(record, indent=1) + "\n").encode())
    path = folder / f"{key}.parquet"
    write_atomically(path, short(run.synthetic, table.schema).to_parquet(index=False, compression="zstd"))
    return path


def _renamed(key: str, source: str, names: dict[str, str], folder: Path) -> Path:
    """The stand-in of a table whose rows are those of another one, from that one's: a second sample would cost anew."""
    if not (folder / f"{source}.parquet").is_file():
        raise BadInput(f"{key}: its rows are those of {source}; make the stand-in of {source} first.")
    record = json.loads((folder / f"{source}.json").read_text()) | {"table": key, "rows_of": source}
    write_atomically(folder / f"{key}.json", (json.dumps(record, indent=1) + "\n").encode())
    frame = pd.read_parquet(folder / f"{source}.parquet").rename(columns=names)[list(entry(key).schema.names)]
    write_atomically(folder / f"{key}.parquet", frame.to_parquet(index=False, compression="zstd"))
    return folder / f"{key}.parquet"


def _folder() -> Path:
    return project_root() / "data" / "standin"


def short(frame: pd.DataFrame, schema: Schema) -> pd.DataFrame:
    """The frame with continuous values rounded to at least a thousand steps of their declared range.

    A bin's digits are drawn at random: those beyond carry nothing, and no file can compress them.
    """
    rounded = {}
    for column in (schema[name] for name in schema.numeric if not schema[name].integer):
        decimals = 3 - math.floor(math.log10(column.high - column.low))
        rounded[column.name] = frame[column.name].round(decimals).clip(column.low, column.high)
    return frame.assign(**rounded)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("keys", nargs="+", help="tables of the registry")
    parser.add_argument("--epsilon", type=float, default=3.0, help="budget of each table")
    parser.add_argument("--rows", type=int, default=MAX_ROWS, help="the most rows of each table")
    arguments = parser.parse_args()
    for key in arguments.keys:
        path = make_standin(key, epsilon=arguments.epsilon, rows=arguments.rows)
        print(f"{path.name}: epsilon {arguments.epsilon:g}, {path.stat().st_size / 1e6:.2f} MB")


if __name__ == "__main__":
    main()
