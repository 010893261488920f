"""Result rows: their columns, declared once, and the files they live in.

One tidy row per measurement, aggregated by one `groupby`, compared with published values by one
merge. `data/results/<profile>/<name>.csv` holds the rows of one grid; what was made from stand-in
tables or from a user's own goes to `<profile>-standin` and `<profile>-own`.

What a cell was asked for is in its rows as `params`, a JSON object with sorted keys;
`with_params` makes columns of it. Params and version are a cell's identity: `cell` is their hash,
so that a file can be checked against itself.
"""

import hashlib
import json
import math
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from fedsynth_lib.core.contract import BadInput
from fedsynth_lib.core.store import locked, project_root, write_atomically
from fedsynth_lib.runs import names

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
    "params": TEXT,  # what the cell was asked for, a JSON object; see `params_text`
    "item": TEXT,  # what of the table is measured: a bin, a category, a column or a pair of them
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
    "cell": TEXT,  # hash of params and version
}
COLUMNS = list(DTYPES)
DATA = ("real", "standin", "own", "none")
PROFILES = ("smoke", "quick", "paper")
SUMS = "SHA256SUMS"  # the list of digests, in data/results
RESULTS = "paper"  # the profile of the results that are committed and shown
LIVE = "live"  # in figures/: what runs of other profiles make
FULLEST_FIRST = ("paper", "quick")  # the profiles whose rows count in the verdict
SORTED_BY = [
    *("paper", "exhibit", "dataset", "method", "partition", "n_clients", "node"),
    *("setting", "epsilon", "params", "item", "seed", "metric", "cell"),
]

Row = dict[str, Any]


def published_size(profile: str) -> str:
    """Return the profile of rows that are of the published size.

    It is paper, but in a smoke run its own.
    """
    return profile if profile == "smoke" else "paper"


def folder_name(profile: str, data: str) -> str:
    """Name the folder of rows in data/results: that of the profile.

    It is `quick-standin` or `quick-own` for what must not mix with results on the real tables.
    """
    if profile not in PROFILES:
        raise BadInput(f"profile is {profile!r}: choose one of {', '.join(PROFILES)}.")
    if data not in DATA:
        raise BadInput(f"data is {data!r}: say what the result rests on, one of {', '.join(DATA)}.")
    return profile if data in ("real", "none") else f"{profile}-{data}"


def figures_folder(profile: str, data: str) -> Path:
    """Return the folder of figures and tables.

    The committed results are in figures/ itself; what is computed small, on stand-ins or on a
    person's own table is in a folder of its own in figures/live.
    """
    name, folder = folder_name(profile, data), project_root() / "figures"
    return folder if name == RESULTS else folder / LIVE / name


def data_of(frame: pd.DataFrame) -> str:
    """Return what a result made from all these rows rests on.

    One row from a stand-in makes it a stand-in result.
    """
    present = set(frame["data"])
    return next((kind for kind in ("standin", "own", "real") if kind in present), "none")


def complete(output: Mapping[str, Any] | Sequence[Row], labels: Row) -> list[Row]:
    """Complete the rows of a cell, as plain JSON.

    They come from what the cell returned and the labels that all its rows share.
    """
    if isinstance(output, Mapping):
        shared = {key: value for key, value in output.items() if key in DTYPES}
        output = [
            {**shared, "metric": key, "value": value}
            for key, value in output.items()
            if key not in DTYPES
        ]
    rows = [{**labels, **row} for row in output]
    for row in rows:
        if unknown := row.keys() - DTYPES.keys():
            raise BadInput(
                f"run_one returned the columns {sorted(unknown)}: rows have only "
                f"{', '.join(COLUMNS)}."
            )
        folder_name(row["profile"], row.get("data", ""))  # a row must say which data it rests on
        if row.get("epsilon", 0.0) is None:  # as in `Privacy`: no noise asked for
            row["epsilon"] = math.inf
    return [{column: _plain(column, row.get(column)) for column in COLUMNS} for row in rows]


def _plain(column: str, value: Any) -> Any:
    """Return one entry as plain JSON.

    Numbers are rounded so that the last bits of a platform do not show in a diff.
    """
    if value is None or value is pd.NA or value != value:
        return "" if DTYPES[column] == TEXT else None
    if DTYPES[column] == TEXT:
        return str(value)
    if DTYPES[column] == COUNT:
        return int(value)
    return float(f"{float(value):.{2 if column == 'seconds' else 10}g}")


def to_frame(rows: Iterable[Row]) -> pd.DataFrame:
    """Return rows as a frame with COLUMNS and their types.

    Missing text is empty, missing numbers are NA.
    """
    frame = pd.DataFrame(list(rows), columns=COLUMNS).astype(DTYPES)
    return frame.fillna({column: "" for column, dtype in DTYPES.items() if dtype == TEXT})


def load_rows(path: Path | str) -> pd.DataFrame:
    """Rows that `save_rows` wrote, with the same types and values.

    Raises BadInput for a committed file that was edited by hand, for a damaged one, for a method or
    metric that is not listed (runs/names.py, metrics/measures.toml), and for a cell that is not the
    hash of its params and version.
    """
    path = Path(path)
    return _read_rows(path, path.stat().st_mtime_ns, path.stat().st_size).copy()


@lru_cache(maxsize=8)
def _read_rows(path: Path, changed: int, size: int) -> pd.DataFrame:
    """Read and check the rows of a file.

    The file's time and size are parts of the cache's key, so a changed file is read again.
    """
    text = {column: str for column, dtype in DTYPES.items() if dtype == TEXT}
    numbers = {column: [""] for column in COLUMNS if column not in text}
    check_digest(path)
    try:
        frame = pd.read_csv(
            path, dtype=text, keep_default_na=False, na_values=numbers, float_precision="round_trip"
        )
        frame = frame[COLUMNS].astype(DTYPES)
    except (ValueError, TypeError, LookupError, OverflowError) as error:
        raise _damaged(path) from error
    if (frame["metric"] == "").any():
        raise _damaged(path)
    _check(frame, path)
    return frame


def _damaged(path: Path) -> BadInput:
    return BadInput(
        f"{path} is not a whole result file: restore it (git checkout), or remove it and run its "
        "notebook again."
    )


def _check(frame: pd.DataFrame, path: Path) -> None:
    """Raise BadInput for a row that cannot have been written by `save_rows`.

    Names of methods and measures are known in the grids of the bundle, which begin with a
    notebook's number.
    """
    numbered = path.stem[:2].isdigit()
    for column, known, listed in (
        ("method", names.is_method, "runs/names.py"),
        ("metric", names.is_metric, "metrics/measures.toml"),
    ):
        unknown = [name for name in frame[column].unique() if numbered and not known(name)]
        if unknown:
            remedy = f"correct it, or list it in fedsynth_lib/{listed}"
            raise BadInput(f"{path}: the {column} {unknown[0]!r} is unknown: {remedy}.")
    cells = frame[["cell", "params", "version"]].drop_duplicates()
    for cell, params, version in cells.itertuples(index=False):
        if (cell or version) and cell != cell_key(params, version):  # a cut line has no cell
            raise BadInput(
                f"{path}: the cell {cell!r} is not that of its params and version: restore the "
                "file (git checkout), or delete the lines of the cell and run its notebook again."
            )


# --- params --------------------------------------------------------------------------------------


def params_text(settings: Mapping[str, Any]) -> str:
    """Write what a cell was asked for as one text for equal settings: JSON with sorted keys.

    Settings that say nothing (None, False, empty) are left out, so that a setting which is added to
    a study later, and is off by default, changes no earlier cell. 1.0 is 1, infinity "inf", numpy
    numbers are plain ones.
    """
    return canonical({name: value for name, value in settings.items() if not _says_nothing(value)})


def _says_nothing(value: Any) -> bool:
    return value is None or (
        isinstance(value, bool | np.bool_ | str | list | tuple | Mapping) and not value
    )


def read_params(text: str) -> dict[str, Any]:
    """Read the settings that `params_text` wrote."""
    return (
        {name: math.inf if value == "inf" else value for name, value in json.loads(text).items()}
        if text
        else {}
    )


def cell_key(params: str, version: str) -> str:
    """Return the identity of a cell.

    It depends on what it was asked for, and on the versions of its method and of what it measures.
    """
    return hashlib.sha256(f"{version}\n{params}".encode()).hexdigest()[:20]


def with_params(rows: pd.DataFrame, **defaults: Any) -> pd.DataFrame:
    """Add a column to the rows for each of these settings.

    Its values are what `params` says, or the default where it says nothing.
    """
    texts = rows["params"].unique()
    settings = {text: read_params(text) for text in texts}
    columns = {
        name: rows["params"].map({text: settings[text].get(name, default) for text in texts})
        for name, default in defaults.items()
    }
    return rows.assign(**columns)


def canonical(value: Any) -> str:
    """Return one text for equal values: JSON with sorted keys.

    1.0 is 1, infinity "inf", and numpy numbers are plain ones.
    """

    def plain(item: Any) -> Any:
        if isinstance(item, Mapping):
            return {str(key): plain(entry) for key, entry in item.items()}
        if isinstance(item, list | tuple):
            return [plain(entry) for entry in item]
        item = item.item() if hasattr(item, "item") else item
        if isinstance(item, float) and math.isinf(item):
            return "inf" if item > 0 else "-inf"
        return int(item) if isinstance(item, float) and item.is_integer() else item

    try:
        return json.dumps(
            plain(value), sort_keys=True, separators=(",", ":"), allow_nan=False, ensure_ascii=False
        )
    except (TypeError, ValueError) as error:
        raise BadInput(
            f"settings must be numbers, texts, lists or dicts of them, but hold {value!r}."
        ) from error


# --- digests -------------------------------------------------------------------------------------
# Of committed result files, so that an edit by hand shows at the next load, and in two places of a
# diff. `sha256sum --check` in data/results reads the same file.


def digests() -> dict[str, str]:
    """File, from data/results on -> SHA-256 of its bytes, as noted when it was written."""
    path = _results() / SUMS
    lines = path.read_text(encoding="utf-8").splitlines() if path.is_file() else []
    return {name: digest for digest, name in (line.split("  ", 1) for line in lines)}


def check_digest(path: Path) -> None:
    """Raise BadInput for a result file whose bytes are not those that were noted.

    A file that is not noted is not checked.
    """
    name = _name_in_results(path)
    noted = digests().get(name) if name else None
    if noted and noted != hashlib.sha256(path.read_bytes()).hexdigest():
        raise BadInput(
            f"{path} has changed since a run wrote it: restore it (git checkout {path.name}), or, "
            "where the change is meant, note it with ./run_all.sh digests."
        )


def note_digests(paths: Iterable[Path]) -> None:
    """Note the bytes of result files as they are now; files that are gone are forgotten."""
    with locked(project_root() / "data" / "cache" / f"{SUMS}.lock"):
        noted = {name: sha for name, sha in digests().items() if (_results() / name).is_file()}
        for path in paths:
            if name := _name_in_results(path):
                noted[name] = hashlib.sha256(path.read_bytes()).hexdigest()
        text = "".join(f"{digest}  {name}\n" for name, digest in sorted(noted.items()))
        write_atomically(_results() / SUMS, text.encode())


def committed_files() -> list[Path]:
    """Return the result files that are noted: of results that count, and of what was verified."""
    folder = _results()
    kept = [path for profile in FULLEST_FIRST for path in folder.glob(f"{profile}/*.csv")]
    return sorted([*kept, *folder.glob("verified.csv")])


def _results() -> Path:
    return project_root() / "data" / "results"


def _name_in_results(path: Path) -> str:
    """Its name in the list of digests; '' for what is not committed."""
    path, folder = path.absolute(), _results().absolute()
    kept = path.parent == folder or (
        path.parent.parent == folder and path.parent.name in FULLEST_FIRST
    )
    return path.relative_to(folder).as_posix() if kept else ""


# --- save ----------------------------------------------------------------------------------------


def save_rows(frame: pd.DataFrame, *, name: str, profile: str) -> Path:
    """Write rows to data/results/, sorted, so that an identical re-run changes no byte.

    Rows of other cells stay, for they are the work of other runs, unless their method has got
    another version since.
    """
    path = _results() / folder_name(profile, data_of(frame)) / f"{name}.csv"
    if path.exists():
        earlier = load_rows(path)
        current = frame.groupby("method")["version"].agg(set)
        known = [
            version in current.get(method, {version})
            for method, version in zip(earlier["method"], earlier["version"], strict=True)
        ]
        keep = earlier[
            pd.Series(known, index=earlier.index, dtype=bool) & ~earlier["cell"].isin(frame["cell"])
        ]
        frame = pd.concat([keep, frame]) if len(keep) else frame
    content = (
        frame.sort_values(SORTED_BY, kind="stable")
        .to_csv(index=False, lineterminator="\n")
        .encode()
    )
    write_atomically(path, content)
    if _name_in_results(path):
        note_digests([path])
    return path
