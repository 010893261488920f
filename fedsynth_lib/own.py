"""From someone's own file to a private synthetic table: an example file, clients, settings, scores, what is handed on.

Nothing here lands in a folder that is committed: the example in data/cache, what is handed on in data/results/*-own.
"""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pandas as pd
from pyarrow import parquet

from fedsynth_lib.interface import BadInput, Run, stream
from fedsynth_lib.methods import METHODS, from_file
from fedsynth_lib.metrics import anonymity, attacks, fidelity, utility
from fedsynth_lib.partition import Parts, split_clients
from fedsynth_lib.reading import guess_separator, header
from fedsynth_lib.rows import folder_name, project_root, write_atomically
from fedsynth_lib.schema import READ_FROM_ROWS, Column, Schema, closest
from fedsynth_lib.statement import statement_text
from fedsynth_lib.tables import Table, load_table

EXAMPLE = ("Age", "Sex", "BMI", "HighBP", "HighChol", "Smoker", "Diabetes", "PhysHlth", "HeartDiseaseorAttack")
WARDS = {"north": 0.5, "south": 0.3, "west": 0.2}  # made-up sites of the example, and their shares of the rows
PRIVATE = {"participation": 1.0, "private_structure": True, "degree": 1}  # settings, where a method has them


def example(rows: int, seed: int) -> Path:
    """A CSV file of heart patients in data/cache/own, its declared schema beside it: public rows, made-up sites."""
    table = load_table("brfss_heart", rows=rows, seed=seed)
    site = stream(seed, "site").choice(list(WARDS), rows, p=list(WARDS.values()))
    path = project_root() / "data" / "cache" / "own" / "heart.csv"
    write_atomically(path, table.frame[list(EXAMPLE)].assign(site=site).to_csv(index=False).encode())
    columns = tuple(map(table.schema.__getitem__, EXAMPLE))
    schema = Schema((*columns, Column("site", "categorical", categories=tuple(WARDS), source="made up")), EXAMPLE[-1])
    write_atomically(path.with_suffix(".toml"), schema.to_toml().encode())
    path.with_suffix(".draft.toml").unlink(missing_ok=True)  # of other rows
    return path


def load(path: Path, schema: Path, draft: Path) -> Table:
    """The table with its declared schema; while there is none, a sentence about what to do with the draft."""
    if not schema.is_file():
        raise BadInput(f"{path}: there is no {schema.name}; correct {draft}, save it as {schema}, and run again.")
    return load_table(path, schema=schema)


def left_out(path: Path, schema: Schema) -> list[str]:
    """The columns of a file that the schema does not declare; none where its header cannot be made out."""
    names = parquet.read_schema(path).names if path.suffix == ".parquet" else header(path, guess_separator(path))
    return [name for name in names if name not in schema.names] if set(names) & set(schema.names) else []


def undeclared(schema: Schema) -> tuple[str, ...]:
    """The columns whose range or categories still come from the rows."""
    return tuple(column.name for column in schema.columns if column.source == READ_FROM_ROWS)


def method_of(name: str) -> ModuleType:
    """A registered method by its key, or someone's own by the path of its file."""
    if name.endswith(".py"):
        return from_file(name)
    if name not in METHODS:
        raise BadInput(f"method {name!r} is unknown{closest(name, METHODS)}; choose one of {', '.join(METHODS)}.")
    return METHODS[name]


def private_config(method: ModuleType) -> Any:
    """The method's defaults with everything it releases protected and all clients in every round."""
    config = method.Config()
    if not getattr(config, "private", True):
        raise BadInput(f"method {method.__name__.rpartition('.')[2]} adds no noise; choose one that does, such as aim.")
    return replace(config, **{name: value for name, value in PRIVATE.items() if hasattr(config, name)})


def clients(table: Table, num_clients: int, *, site: str = "", seed: int) -> Parts:
    """Row positions of each client: of each category that occurs in column `site`, or dealt evenly without one."""
    if not site:
        return split_clients(table, "iid", num_clients, seed=seed)
    if table.schema[site].kind != "categorical":
        raise BadInput(f"{table.key}: site column {site!r} is declared numeric; declare it categorical.")
    return split_clients(table, "by_column", table.frame[site].nunique(), seed=seed, column=site)


def stated(run: Run, schema: Schema) -> Run:
    """The run, its statement telling of ranges and categories that were read from the rows: nothing protects those."""
    if not (names := undeclared(schema)):
        return run
    what = f"ranges and categories read from the rows: {', '.join(names)}"
    entry = {"what": what, "mechanism": "unprotected", "sensitivity": 0.0, "noise_multiplier": 0.0, "scale": 0.0}
    entry |= {"rate": 1.0, "count": 1, "rounds": [0], "clients": "all"}
    found = run.statement
    told = {"entries": [entry, *found["entries"]], "unprotected": [what, *found["unprotected"]], "epsilon": None}
    return replace(run, statement=found | told)


def scores(train: Table, holdout: Table, synthetic: pd.DataFrame, *, seed: int) -> pd.DataFrame:
    """A line for each measure: its value for the synthetic rows, a yardstick, and what the yardstick is.

    `±`: 95 percent, of the difference of an attack's two rates. Utility only where the target is categorical.
    All of it is computed from the real rows, without any noise.
    """
    schema, real, unseen = train.schema, train.frame, holdout.frame
    found = {
        "single columns: Hellinger distance": fidelity.hellinger,
        "pairs of columns: correlation difference": fidelity.pairwise_correlation_difference,
    }
    lines = {
        name: (far(real, synthetic, schema), far(real, unseen, schema), None, "rows set aside")
        for name, far in found.items()
    }
    if schema.target in schema.categorical:
        learned = [utility.auc(rows, unseen, schema, seed)["auc_rf_score"] for rows in (synthetic, real)]
        lines[f"forest that predicts {schema.target}: AUC"] = (*learned, None, "trained on real rows")
    share = attacks.closest_records(real, unseen, synthetic, schema, seed)["dcr_share"]
    lines["nearer to a training row than to one set aside: share"] = (share, 0.5, None, "nothing learned by heart")
    equal = stream(seed, "drawn").permutation(len(real))[: len(unseen)]  # a row is easier to find among few
    drawn = real.iloc[equal]
    risk = anonymity.singling_out(drawn, unseen, synthetic, schema, mode="multivariate", seed=seed)
    error = float(np.hypot(risk.main.error, risk.control.error))
    lines["attack that singles out a row: success"] = (risk.main.value, risk.control.value, error, "on rows set aside")
    frame = pd.DataFrame(lines, index=["synthetic", "yardstick", "±", "the yardstick is"]).T.rename_axis("measure")
    return frame.astype({"synthetic": float, "yardstick": float, "±": float})


def places(table: Table, profile: str, *, release: bool) -> dict[str, Path]:
    """Where `hand_on` will write: 'rows' and 'statement'; known before a run, so that no release is made in vain.

    Raises BadInput for a release with undeclared columns, or in place of an earlier one.
    """
    folder = project_root() / "data" / "results" / folder_name(profile, "own")
    kind = f"{table.key}_{'release' if release else 'rehearsal'}"
    paths = {"rows": folder / f"{kind}.csv", "statement": folder / f"{kind}_privacy.md"}
    if release and (names := undeclared(table.schema)):
        raise BadInput(f"{table.key}: {', '.join(names)} are {READ_FROM_ROWS}; declare them, or set release = False.")
    if release and any(path.exists() for path in paths.values()):
        raise BadInput(
            f"{paths['rows']} is there: a second release adds its epsilon to the first; move that away first."
        )
    return paths


def hand_on(run: Run, paths: Mapping[str, Path]) -> str:
    """Writes the synthetic rows and their privacy statement, and gives the statement's text."""
    text = statement_text(run.statement, f"{len(run.synthetic)} synthetic rows in {paths['rows'].name}")
    write_atomically(paths["rows"], run.synthetic.to_csv(index=False).encode())
    write_atomically(paths["statement"], text.encode())
    return text
