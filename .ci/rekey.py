"""One-off (November 2026): gives the committed rows typed `params` and `item` in place of `detail`, and new cell keys.

    python .ci/rekey.py collect OLD PROFILE ASKED.jsonl     # in a checkout OLD of 4b60379: what its notebooks ask for
    python .ci/rekey.py apply ASKED.jsonl [...]             # here: rewrites data/results, and proves the map

A key is a hash, so what a cell was asked for cannot be read from it. `collect` runs the notebooks of the old state with
the committed rows as finished cells, computes nothing, and writes a line for each cell: its old key and its settings.
`apply` asks the new code for the key of the same settings. It stops unless every committed cell is one that a notebook
asks for, no two become one, and the words that `details.py` makes of the new columns are the old `detail`.
"""

import json
import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd

ROOT = Path(__file__).resolve().parents[1]
SPY = """
import json as _json, os as _os, fedsynth_lib.experiment as _e
def _spied(run_one, grid, *, name, common=None, profile="quick", version=1, **others):
    version = version if isinstance(version, str) else _e._canonical(version)
    asked = {{"name": name, "common": dict(common or {{}}), "profile": profile, "version": version}}
    path = _e.project_root() / "data" / "results" / profile / f"{{name}}.csv"
    rows = _e.load_rows(path) if path.exists() else _e.to_frame([])
    keys = {{_e._hash({{**asked, "cell": cell}}): cell for cell in _e._cells(grid)}}
    with open({asked!r}, "a") as file:
        for key, cell in keys.items():
            line = {{**asked, "key": key, "cell": cell, "run_one": f"{{run_one.__module__}}:{{run_one.__qualname__}}"}}
            file.write(_e._canonical(line) + "\\n")
    found = rows[rows["cell"].isin(keys)]
    places = found["cell"].map({{key: place for place, key in enumerate(keys)}})
    return found.assign(place=places).sort_values(["place", *_e.SORTED_BY], ignore_index=True)[_e.COLUMNS]
def _no_training(key, make):
    raise RuntimeError("nothing is computed here")
_e.run_grid, _e.remember = _spied, _no_training
"""


def collect(old: Path, profile: str, asked: str) -> None:
    """Run the notebooks that have committed rows of the profile, with `run_grid` replaced by SPY."""
    import nbformat
    from nbclient import NotebookClient

    numbers = {path.name[:2] for path in (old / "data" / "results" / profile).glob("*.csv")}
    for path in sorted((old / "notebooks").glob("[0-9]*.ipynb")):
        if path.name[:2] not in numbers:
            continue
        notebook = nbformat.read(path, as_version=4)
        place = next(i for i, c in enumerate(notebook.cells) if "parameters" in c.metadata.get("tags", []))
        given = f"profile, jobs = {profile!r}, 1\n" + SPY.format(asked=str(Path(asked).resolve()))
        notebook.cells.insert(place + 1, nbformat.v4.new_code_cell(given))
        NotebookClient(
            notebook,
            timeout=None,
            kernel_name="python3",
            allow_errors=True,
            resources={"metadata": {"path": path.parent}},
        ).execute()
        print(path.stem, flush=True)


# What the functions that lay in notebooks are called now, and the functions of versions.
MOVED = {"30": "ctgan_study:sizes", "33": "ctgan_study:positives", "35": "ctgan_study:measure", "40": "skew:measure"}
VERSIONS = {
    **dict.fromkeys(("martinez_study", "tuning", "ctgan_study", "flaim_study", "flaim_gans"), "version"),
    **dict.fromkeys(("sattarov_study", "side_by_side", "apellaniz_study"), "version"),
}
ITEMS: dict[str, Callable[[str], str]] = {  # of grids whose `detail` named what is measured
    **dict.fromkeys(("22_martinez2024_fedbn_privacy", "25_martinez2024_fedvae_privacy"), str),
    **dict.fromkeys(("25_martinez2024_fedvae_classes", "26_martinez2024_columns"), str),
    **dict.fromkeys(("62_apellaniz2025_features", "64_apellaniz2025_features"), str),
    "32_leitner2023_pairs": lambda detail: detail.partition("; ")[0],
    "64_apellaniz2025_distances": lambda detail: detail.removeprefix("whole").strip(),
}
OTHER_WORDS = ("64_apellaniz2025_distances", "33_leitner2023_classes", "35_leitner2023_longer")  # told by params now


def asked_for(line: dict[str, Any]) -> Any:
    """The cell of a collected line as the new code asks for it."""
    import importlib

    from fedsynth_lib import embedding
    from fedsynth_lib.experiment import Asked
    from fedsynth_lib.table_lock import table_digest

    name, given = line["name"], {**line["common"], **line["cell"]}
    module, function = line["run_one"].split(":")
    if function == "run_one":
        module, function = MOVED[name[:2]].split(":")
        given.pop("rounds", None)
    module = importlib.import_module(f"fedsynth_lib.{module.removeprefix('fedsynth_lib.')}")
    work = re.search(r"[a-z]+20\d\d", name)
    given.pop("digest", None)
    given["table"] = table_digest(given["dataset"], work=work[0] if work else None)
    if name.startswith("40"):
        detail = given.pop("detail")
        given |= {"beta": float(detail.removeprefix("beta="))} if detail else {}
        version: Any = f"embedding {embedding.VERSION}"
    elif name.startswith("30"):
        version = "1"
    else:
        version = getattr(module, VERSIONS[module.__name__.rpartition(".")[2]])
    if "detail" in given:
        given["variant"] = given.pop("detail")
    given = {key: float("inf") if value == "Infinity" else value for key, value in given.items()}
    return Asked.of(getattr(module, function), given, version)


def apply(files: list[str]) -> None:
    """Rewrite every committed result file."""
    from fedsynth_lib.details import with_detail
    from fedsynth_lib.rows import COLUMNS, DTYPES, SORTED_BY

    cells = {}
    for file in files:
        for text in Path(file).read_text(encoding="utf-8").splitlines():
            line = json.loads(text)
            cells[line["profile"], line["name"], line["key"]] = line
    for path in sorted((ROOT / "data" / "results").glob("*/*.csv")):
        profile, name = path.parent.name, path.stem
        old = pd.read_csv(path, dtype=str, keep_default_na=False)
        keys = old["cell"].unique()
        if unknown := [key for key in keys if (profile, name, key) not in cells]:
            raise SystemExit(f"{path}: {len(unknown)} of {len(keys)} cells are asked for by no notebook: {unknown[:3]}")
        asked = {key: asked_for(cells[profile, name, key]) for key in keys}
        if len({each.key for each in asked.values()}) != len(keys):
            raise SystemExit(f"{path}: two cells become one")
        new = old.assign(
            params=old["cell"].map({key: each.params for key, each in asked.items()}),
            version=old["cell"].map({key: each.version for key, each in asked.items()}),
            item=old["detail"].map(ITEMS.get(name, lambda detail: "")),
            cell=old["cell"].map({key: each.key for key, each in asked.items()}),
        )
        said = with_detail(new.drop(columns="detail"))["detail"]
        tuning = old["setting"] == "tuning"
        if name not in OTHER_WORDS and (wrong := (said != old["detail"]) & ~tuning).any():
            place = wrong.idxmax()
            raise SystemExit(f"{path}: {old['detail'][place]!r} becomes {said[place]!r}, params {new['params'][place]}")
        numbers = {c: pd.to_numeric(new[c]) for c, kind in DTYPES.items() if kind in ("float64", "Int64")}
        order = new.assign(**numbers).sort_values(SORTED_BY, kind="stable").index
        content = new.loc[order, COLUMNS].to_csv(index=False, lineterminator="\n")
        path.write_text(content, encoding="utf-8")
        print(f"{path.relative_to(ROOT)}: {len(keys)} cells, {len(new)} rows")


if __name__ == "__main__":
    if sys.argv[1] == "collect":
        collect(Path(sys.argv[2]), sys.argv[3], sys.argv[4])
    else:
        sys.path.insert(0, str(ROOT))
        apply(sys.argv[2:])
