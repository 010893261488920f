"""Result rows: their columns, declared once, and the files they live in.

One tidy row per measurement, aggregated by one `groupby`, compared with published values by one
merge. `data/results/<profile>/<name>.csv` holds the rows of one grid; what was made from stand-in
tables or from a user's own goes to `<profile>-standin` and `<profile>-own`.
"""

import json
import math
import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from fedsynth_lib.interface import BadInput

TEXT, COUNT, NUMBER = "object", "Int64", "float64"
DTYPES = {
    "paper": TEXT,
    "exhibit": TEXT,
    "dataset": TEXT,
    "data": TEXT,  # real, standin, own, or none where the row rests on no table
    "method": TEXT,
    "partition": TEXT,  # `none` where there are no clients
    "n_clients": COUNT,
    "node": TEXT,  # one client, where rows are reported per client
    "setting": TEXT,  # central, local, federated, real
    "epsilon": NUMBER,  # asked for; inf without privacy, missing where it does not apply
    "detail": TEXT,  # what else sets a row apart: rounds, participation, a variant of the method
    "metric": TEXT,
    "value": NUMBER,
    "seed": COUNT,
    "profile": TEXT,
    "seconds": NUMBER,
    "epsilon_spent": NUMBER,
    "bytes_up": COUNT,
    "bytes_down": COUNT,
    "unprotected": COUNT,  # distinct releases without noise in the run's privacy statement
    "version": TEXT,
    "cell": TEXT,  # hash of the cell's key
}
COLUMNS = list(DTYPES)
DATA = ("real", "standin", "own", "none")
PROFILES = ("smoke", "quick", "paper")
FULLEST_FIRST = ("paper", "quick")  # the profiles whose rows count in the verdict
SORTED_BY = [
    *("paper", "exhibit", "dataset", "method", "partition", "n_clients", "node"),
    *("setting", "epsilon", "detail", "seed", "metric", "cell"),
]

Row = dict[str, Any]


def project_root() -> Path:
    """The folder that holds data/ and figures/: FEDSYNTH_HOME, or the parent of this package."""
    return Path(os.environ.get("FEDSYNTH_HOME") or Path(__file__).resolve().parents[1])


def folder_name(profile: str, data: str) -> str:
    """`quick`, or `quick-standin` and `quick-own` for what must not mix with results on the real tables."""
    if profile not in PROFILES:
        raise BadInput(f"profile is {profile!r}: choose one of {', '.join(PROFILES)}.")
    if data not in DATA:
        raise BadInput(f"data is {data!r}: say what the result rests on, one of {', '.join(DATA)}.")
    return profile if data in ("real", "none") else f"{profile}-{data}"


def data_of(frame: pd.DataFrame) -> str:
    """What a result made from all these rows rests on: one row from a stand-in makes it a stand-in result."""
    present = set(frame["data"])
    return next((kind for kind in ("standin", "own", "real") if kind in present), "none")


def write_atomically(path: Path, content: bytes) -> None:
    """Put the file in place in one step, so that no reader ever sees half of it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.parent / f".{path.name}.{os.getpid()}.tmp"
    temporary.write_bytes(content)
    os.replace(temporary, path)


def log_event(event: str, **facts: Any) -> None:
    """Append one line to the runner's log (FEDSYNTH_RUN_LOG), where there is one."""
    if path := os.environ.get("FEDSYNTH_RUN_LOG"):
        with open(path, "a", encoding="utf-8") as log:
            log.write(json.dumps({"event": event, **facts}) + "\n")


def complete(output: Mapping[str, Any] | Sequence[Row], labels: Row) -> list[Row]:
    """Complete rows, as plain JSON, from what a cell returned and the labels that all its rows share."""
    if isinstance(output, Mapping):
        shared = {key: value for key, value in output.items() if key in DTYPES}
        output = [{**shared, "metric": key, "value": value} for key, value in output.items() if key not in DTYPES]
    rows = [{**labels, **row} for row in output]
    for row in rows:
        if unknown := row.keys() - DTYPES.keys():
            raise BadInput(f"run_one returned the columns {sorted(unknown)}: rows have only {', '.join(COLUMNS)}.")
        folder_name(row["profile"], row.get("data", ""))  # a row must say which data it rests on
        if row.get("epsilon", 0.0) is None:  # as in `Privacy`: no noise asked for
            row["epsilon"] = math.inf
    return [{column: _plain(column, row.get(column)) for column in COLUMNS} for row in rows]


def _plain(column: str, value: Any) -> Any:
    """One entry as plain JSON; numbers rounded so that the last bits of a platform do not show in a diff."""
    if value is None or value is pd.NA or value != value:
        return "" if DTYPES[column] == TEXT else None
    if DTYPES[column] == TEXT:
        return str(value)
    if DTYPES[column] == COUNT:
        return int(value)
    return float(f"{float(value):.{2 if column == 'seconds' else 10}g}")


def to_frame(rows: Iterable[Row]) -> pd.DataFrame:
    """Rows as a frame with COLUMNS and their types; missing text is empty, missing numbers are NA."""
    frame = pd.DataFrame(list(rows), columns=COLUMNS).astype(DTYPES)
    return frame.fillna({column: "" for column, dtype in DTYPES.items() if dtype == TEXT})


def load_rows(path: Path | str) -> pd.DataFrame:
    """Rows that `save_rows` wrote, with the same types and values."""
    text = {column: str for column, dtype in DTYPES.items() if dtype == TEXT}
    numbers = {column: [""] for column in COLUMNS if column not in text}
    frame = pd.read_csv(path, dtype=text, keep_default_na=False, na_values=numbers, float_precision="round_trip")
    if list(frame.columns) != COLUMNS:
        raise BadInput(f"{path} has other columns than a result file: remove it, the next run writes it anew.")
    return frame.astype(DTYPES)


def committed_rows(work: str, profile: str) -> pd.DataFrame:
    """All saved rows of a work at a profile, from real tables, with `grid`: the name of the result file of each."""
    folder = project_root() / "data" / "results" / profile
    parts = [load_rows(path).assign(grid=path.stem) for path in sorted(folder.glob(f"*{work}*.csv"))]
    return pd.concat(parts, ignore_index=True) if parts else to_frame([]).assign(grid=pd.Series(dtype=TEXT))


def save_rows(frame: pd.DataFrame, *, name: str, profile: str) -> Path:
    """Write rows to data/results/, sorted, so that an identical re-run changes no byte.

    For `paper`, rows of other cells of the same version stay: they are the work of longer runs.
    """
    path = project_root() / "data" / "results" / folder_name(profile, data_of(frame)) / f"{name}.csv"
    if profile == "paper" and path.exists():
        earlier = load_rows(path)
        keep = earlier["version"].isin(frame["version"]) & ~earlier["cell"].isin(frame["cell"])
        frame = pd.concat([earlier[keep], frame]) if keep.any() else frame
    write_atomically(
        path, frame.sort_values(SORTED_BY, kind="stable").to_csv(index=False, lineterminator="\n").encode()
    )
    return path
