"""The model of a finished run in a file, from which rows can be drawn later.

    fedsynth synth people.csv --save-model people.fedsynth
    fedsynth sample people.fedsynth --rows 1000 --seed 1 --out more.csv

A file is a zip of `state.npz` (the arrays of `Run.state`), `model.json` (method and version,
settings, declared columns, how the table's file is written, the privacy statement), `types.arrow`
where that file carries types, and `sha256` of all of these. Nothing in it is pickled. It holds what
a run hands out and nothing else: what a server keeps to itself, what clients remember and rows are
not in `Run.state`. To draw from it is post-processing: it costs no epsilon. The digest finds a file
that was damaged or changed; who made it, it cannot tell.
"""

import hashlib
import io
import json
import zipfile
import zlib
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa

from fedsynth_lib.core.contract import SECRET, Arrays, BadInput, Method, Run, stream
from fedsynth_lib.core.errors import checked_seed
from fedsynth_lib.core.store import existing_file, write_atomically
from fedsynth_lib.methods import METHODS, key_of
from fedsynth_lib.tables.container import Container
from fedsynth_lib.tables.form import Counted, Form, form_from
from fedsynth_lib.tables.schema import Schema, parse_toml

FORMAT = 1  # of the file; raised when an older reader could not read it any more
STATE, MODEL, TYPES, DIGEST = "state.npz", "model.json", "types.arrow", "sha256"
MOST_BYTES = 4 * 2**30  # of all members together
PLAIN = "biuf"  # kinds of arrays: truth values and numbers


@dataclass(frozen=True)
class SavedModel:
    """All that drawing rows takes.

    config: as the run was given it. form, container: of the table's file.
    num_rows, seed: of the run's own rows; with these its rows are drawn again.
    """

    method: Method
    config: Any
    state: Arrays
    form: Form
    container: Container
    statement: dict
    num_rows: int
    seed: int

    def sample(self, num_rows: int | None = None, *, seed: int | None = None) -> pd.DataFrame:
        """Synthetic rows as methods see them; None takes the number and the seed of the run."""
        num_rows = self.num_rows if num_rows is None else num_rows
        seed = self.seed if seed is None else checked_seed(seed)
        if num_rows < 1:
            raise BadInput(f"rows is {num_rows}: give a whole number of at least 1.")
        schema, config, counted = as_counted(self.method, self.form, self.config)
        codes = self.method.sample(self.state, num_rows, config=config, rng=stream(seed, "sample"))
        rows = self.method.encoder(schema, config).inverse(codes, rng=stream(seed, "decode"))
        return rows if counted is None else counted.part(rows, stream(seed, "within bins"))

    def file(
        self,
        num_rows: int | None = None,
        *,
        seed: int | None = None,
        quote_formulas: bool = False,
    ) -> bytes:
        """The same as the content of a file, in the form of the table's own; quote_formulas: as in
        `Container.content`."""
        rows = self.sample(num_rows, seed=seed)
        rng = stream(self.seed if seed is None else seed, "identifiers")
        rows = self.form.to_file(rows, rng)
        return self.container.content(rows, self.form, quote_formulas=quote_formulas)

    @property
    def cost(self) -> str:
        """What is to be said of rows that are drawn from it."""
        epsilon = self.statement["epsilon"]
        if epsilon is None:
            return "drawing rows releases nothing more; the model itself has no guarantee"
        kind = "model" if "not repeatable" in self.statement["seed_policy"] else "rehearsal"
        return (
            f"drawing rows is post-processing and costs nothing more than the {kind}'s epsilon "
            f"{epsilon:.4g}, delta {self.statement['delta']:g}"
        )


def as_counted(method: Method, form: Form, config: Any) -> tuple[Schema, Any, Counted | None]:
    """The schema and the settings with which a method is run on a table of this form, and the way
    back from its rows: gaps are a level of their own where the method counts."""
    counted = Counted.of(form, method.encoder(form.schema, config))
    if counted is None:
        return form.schema, config, None
    if getattr(config, "by_column", ()):
        kept = {name: n for name, n in dict(config.by_column).items() if name not in counted.edges}
        config = replace(config, by_column=kept)
    return counted.counted, config, counted


def saved(
    run: Run,
    method: Method,
    config: Any,
    form: Form,
    *,
    container: Container | None = None,
    seed: int = 0,
) -> SavedModel:
    """The model of a run with these settings, on a table of this form.

    seed: that the run was given. container: of the table's file; CSV where there is none.
    Raises BadInput for a state that may not be handed on.
    """
    for name, values in run.state.items():
        if name.startswith(SECRET) or values.dtype.kind not in PLAIN:
            raise BadInput(
                f"the model's array {name!r} may not be handed on; there is no model to save."
            )
    container = replace(container or Container("text"), columns=())  # which writing does not need
    return SavedModel(
        method, config, run.state, form, container, run.statement, len(run.synthetic), seed
    )


def _config(kind: type, settings: Mapping[str, Any]) -> Any:
    """Settings from JSON, whose lists were tuples."""

    def frozen(value: Any) -> Any:
        return tuple(map(frozen, value)) if isinstance(value, list) else value

    return kind(**{name: frozen(value) for name, value in settings.items()})


# --- a file ---------------------------------------------------------------------------------------


def key_in_files(method: Method) -> str:
    """By which a file names its method; BadInput for one that is not of this bundle."""
    if (key := key_of(method)) is None:
        raise BadInput(
            f"save_model: method {method.name} is not one of the bundle's, and a saved model names "
            "its method; leave save_model out."
        )
    return key


def to_bytes(model: SavedModel) -> bytes:
    """The file's content; of equal models it is the same. BadInput as `key_in_files`."""
    container = {
        each.name: getattr(model.container, each.name)
        for each in fields(Container)
        if each.name not in ("columns", "types")
    }
    arrays = io.BytesIO()
    np.savez_compressed(arrays, allow_pickle=False, **model.state)
    members = {
        MODEL: json.dumps(
            {
                "format": FORMAT,
                "method": key_in_files(model.method),
                "version": model.method.VERSION,
                "config": asdict(model.config),
                "form": model.form.to_toml(),
                "container": container,
                "rows": model.num_rows,
                "seed": model.seed,
                "statement": model.statement,
            },
            indent=1,
        ).encode(),
        STATE: arrays.getvalue(),
    }
    if model.container.types is not None:
        members[TYPES] = model.container.types.serialize().to_pybytes()
    members[DIGEST] = _digest(members).encode()
    sink = io.BytesIO()
    with zipfile.ZipFile(sink, "w") as archive:
        for name, content in members.items():
            archive.writestr(zipfile.ZipInfo(name), content)  # no time of day
    return sink.getvalue()


def _digest(members: Mapping[str, bytes]) -> str:
    parts = (f"{name} {len(members[name])}\n".encode() + members[name] for name in sorted(members))
    return hashlib.sha256(b"".join(parts)).hexdigest()


def write(model: SavedModel, path: Path) -> None:
    """Put it into a file; BadInput as `key_in_files`, and where the file cannot be written."""
    write_atomically(path, to_bytes(model))


def read(given: str | Path) -> SavedModel:
    """The model in a file. Raises BadInput, in one sentence, for a file that is none, damaged,
    changed, or of a newer format or another version of its method."""
    path = existing_file(given, "model")
    members = _members(path)
    said = members.pop(DIGEST, b"").decode("ascii", "replace")
    if MODEL not in members or STATE not in members:
        raise BadInput(f"{path}: this is no saved model; give a file that --save-model wrote.")
    if said != _digest(members):
        raise BadInput(
            f"{path}: the file was damaged or changed since it was saved; take another copy."
        )
    try:
        document = json.loads(members[MODEL])
        number = document["format"]
        if number > FORMAT:
            raise BadInput(
                f"{path}: the file has format {number}, and this version of fedsynth reads up to "
                f"{FORMAT}; update fedsynth."
            )
        key, version = document["method"], document["version"]
        if key not in METHODS or version != METHODS[key].VERSION:
            there = f"version {METHODS[key].VERSION}" if key in METHODS else "no such method"
            raise BadInput(
                f"{path}: it was made by version {version} of method {key!r}, and there is {there} "
                "here; use the fedsynth that made it."
            )
        with np.load(io.BytesIO(members[STATE]), allow_pickle=False) as arrays:
            state = {name: arrays[name] for name in arrays.files}
        types = pa.ipc.read_schema(pa.py_buffer(members[TYPES])) if TYPES in members else None
        return SavedModel(
            METHODS[key],
            _config(METHODS[key].Config, document["config"]),
            state,
            form_from(parse_toml(document["form"], str(path)), str(path)),
            Container(**document["container"], types=types),
            document["statement"],
            document["rows"],
            document["seed"],
        )
    except BadInput:
        raise
    except (ValueError, KeyError, TypeError, EOFError, OSError, zipfile.BadZipFile) as error:
        raise BadInput(
            f"{path}: the saved model cannot be read ({type(error).__name__}); take another copy."
        ) from error


def _members(path: Path) -> dict[str, bytes]:
    """The content of the zip; BadInput for what is none, and for one too large to be a model."""
    try:
        with zipfile.ZipFile(path) as archive:
            if sum(each.file_size for each in archive.infolist()) > MOST_BYTES:
                raise BadInput(f"{path}: the file is too large for a saved model.")
            return {each.filename: archive.read(each) for each in archive.infolist()}
    except BadInput:
        raise
    # what zipfile raises where a header was changed: RuntimeError for a password, and so on
    except (zipfile.BadZipFile, zlib.error, OSError, EOFError, ValueError, RuntimeError) as error:
        raise BadInput(
            f"{path}: this is no saved model, or the file was damaged; give one that --save-model "
            "wrote."
        ) from error
