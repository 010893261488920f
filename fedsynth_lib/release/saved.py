"""The model of a finished run in a file, from which rows can be drawn later.

    fedsynth synth people.csv --save-model people.fedsynth
    fedsynth sample people.fedsynth --rows 1000 --seed 1 --out more.csv

A file is a zip of `state.npz` (the arrays of `Run.state`), `model.json` (method and version,
settings, declared columns, how the table's file is written, the privacy statement), `types.arrow`
where that file carries types, and `sha256` of all of these. Nothing in it is pickled. It holds what
a run hands out and nothing else: what a server keeps to itself, what clients remember and rows are
not in `Run.state`. To draw from it is post-processing: it costs no epsilon. The digest finds a file
that was damaged or changed; it does not say who made the file.
"""

import contextlib
import hashlib
import io
import json
import zipfile
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields, replace
from datetime import date, time
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa

from fedsynth_lib.core.contract import SECRET, Arrays, BadInput, Method, Run, stream
from fedsynth_lib.core.errors import checked_rows, checked_seed
from fedsynth_lib.core.store import existing_file, write_atomically
from fedsynth_lib.federation.settings import as_counted
from fedsynth_lib.methods import METHODS, key_of
from fedsynth_lib.methods.marginals.marginal_state import given, tables_of
from fedsynth_lib.methods.registry import REGISTRY
from fedsynth_lib.methods.release import measured_together
from fedsynth_lib.tables.container import Container
from fedsynth_lib.tables.form import Form, form_from
from fedsynth_lib.tables.kinds import FileColumn
from fedsynth_lib.tables.moments import TIMES, moment_text
from fedsynth_lib.tables.schema import closest, parse_toml

FORMAT = 1  # of the file; raised when an older reader could not read it any more
STATE, MODEL, TYPES, DIGEST = "state.npz", "model.json", "types.arrow", "sha256"
MOST_BYTES = 4 * 2**30  # of all members together
PLAIN = "biuf"  # kinds of arrays: truth values and numbers
DRAWS = ("sample", "decode", "within bins")  # the streams that rows are drawn from
MOST_ROWS = 100_000_000  # at once
# rows drawn in search of those that fit a condition, and how many at a time
MOST_DRAWN, AT_ONCE = 1_000_000, 100_000


def checked_number(rows: Any) -> int:
    """Return how many rows to draw at once; BadInput for what is none, and for too many."""
    if checked_rows(rows) > MOST_ROWS:
        raise BadInput(
            f"rows is {rows}: draw at most {MOST_ROWS:,} at once, and then more with another seed."
        )
    return int(rows)


@dataclass(frozen=True)
class SavedModel:
    """All that drawing rows takes.

    config: as the run was given it. form, container: of the table's file.
    num_rows, seed: of the run's own rows; with these its rows are drawn again.
    sizes: rows that each client was taken to have; none of a study, or of an earlier version.
    """

    method: Method
    config: Any
    state: Arrays
    form: Form
    container: Container
    statement: dict
    num_rows: int
    seed: int
    sizes: tuple[int, ...] = ()

    def __repr__(self) -> str:
        """Write what it is a model of."""
        columns = ", ".join(c.name for c in self.form.kept)
        return (
            f"SavedModel of {self.method.name}, of {self.num_rows:,} rows of {columns}. "
            "sample(rows) draws rows, means() gives means with their errors; statement is what "
            "must be said."
        )

    def sample(
        self,
        rows: int | None = None,
        *,
        seed: int | None = None,
        where: Mapping[str, Any] | None = None,
    ) -> pd.DataFrame:
        """Draw synthetic rows in the form of the table that the model learned from.

        It is post-processing of what was released: it costs no epsilon, however many rows there are
        and whatever they are drawn given.

        Parameters
        ----------
        rows
            How many; as many as the run wrote if None.
        seed
            Of the draw, 0 to 2^32 - 1; that of the run if None, which draws the run's own rows.
        where
            Column -> the value that all rows have, as the table has it; None for a missing one. A
            graphical model is conditioned exactly; else rows are drawn until enough of them fit,
            a million or twenty times `rows` at most.

        Returns
        -------
        DataFrame
            Of the dtypes of the table, with a fresh RangeIndex; columns of a table that was read
            from a text file are as that file has them.

        Raises
        ------
        BadInput
            For a number, a seed or a value that cannot be, and where too few rows fit `where`.

        Examples
        --------
        >>> _ = fs.synthesize(df, epsilon=1, schema=schema, save_model="people.fedsynth")
        >>> model = fs.load_model("people.fedsynth")
        >>> len(model.sample(1_000, seed=1)), set(model.sample(9, where={"ill": "yes"})["ill"])
        (1000, {'yes'})
        """
        return self.container.frame(self.in_file(rows, seed=seed, where=where), self.form)

    def means(
        self, columns: Sequence[str] = (), *, repeats: int = 30, seed: int = 0
    ) -> pd.DataFrame:
        """Return means and shares with standard errors that include the noise of privacy.

        The errors of a parametric bootstrap (Ferrando, Wang and Sheldon 2022): the method learns
        `repeats` times from rows of this model, under the same budget and with fresh noise. So it
        takes as many times as long as the run, and it costs no epsilon. A standard error that is
        computed from synthetic rows as if they were real ones is too small.

        Within a bin a method takes numbers for evenly spread, and where they are not, a mean is off
        by a part of a bin that no standard error knows. Rules between columns have no part in it.

        Parameters
        ----------
        columns
            Those that are meant; all if empty.
        repeats
            2 or more; with few, intervals are wide.
        seed
            Of what is drawn.

        Returns
        -------
        DataFrame
            A line for each mean of a number, and for the share of each category among the rows that
            have a value: column, what, estimate, standard_error, and the ends low and high of a 95
            percent interval.

        Raises
        ------
        BadInput
            For a column that is not there, for a network, and where the unit is a person.

        Examples
        --------
        >>> _ = fs.synthesize(df, epsilon=1, schema=schema, save_model="people.fedsynth")
        >>> found = fs.load_model("people.fedsynth").means(["age"], repeats=3)
        >>> list(found["what"]), bool(found["standard_error"][0] > 0)
        (['mean'], True)
        """
        from fedsynth_lib.release.intervals import means

        return means(self, columns, repeats=repeats, seed=seed)

    def tables(self) -> dict[tuple[str, ...], pd.DataFrame]:
        """Return the noisy tables that the model was fitted to, with standard deviations.

        They are what the run released of counts, so to hand them out costs no epsilon. A count that
        somebody wants is nearer to the truth here than in synthetic rows. Counts are of the rows
        that the method learned from, which by `synthesize` are about four fifths of the table's.

        Returns
        -------
        dict
            Names of columns that were counted together -> a frame with a row for each cell: the
            level of each column as text, the noisy count, and its standard deviation.

        Raises
        ------
        BadInput
            For a method that counts no tables of all rows, such as a network, and for a model of a
            study whose sites make the noise together: how many of them did is unknown.

        Examples
        --------
        >>> _ = fs.synthesize(df, epsilon=1, schema=schema, save_model="people.fedsynth")
        >>> list(fs.load_model("people.fedsynth").tables()["ill",].columns)
        ['ill', 'noisy count', 'standard deviation']
        """
        from fedsynth_lib.release.noisy_tables import tables

        return tables(self)

    def in_file(
        self,
        rows: int | None = None,
        *,
        seed: int | None = None,
        where: Mapping[str, Any] | None = None,
    ) -> pd.DataFrame:
        """Return the rows of `sample` as `Form.to_file` has them."""
        wanted = checked_number(self.num_rows if rows is None else rows)
        drawn = self.drawn(wanted, seed=seed, where=where)
        if len(drawn) < wanted:
            raise BadInput(too_few(len(drawn), wanted, where))
        rng = stream(self.seed if seed is None else seed, "identifiers")
        return self.form.to_file(drawn, rng)

    def drawn(
        self,
        rows: int | None = None,
        *,
        seed: int | None = None,
        where: Mapping[str, Any] | None = None,
    ) -> pd.DataFrame:
        """Return the rows of `sample` as methods see them; fewer where too few fit `where`."""
        rows = self.num_rows if rows is None else rows
        seed = self.seed if seed is None else checked_seed(seed)
        schema, config, counted = as_counted(self.method, self.form, self.config)
        encoder, wanted = self.method.encoder(schema, config), Where.of(self.form, where)
        state, streams = self.state, {name: stream(seed, name) for name in DRAWS}
        if wanted and tables_of(state, "potential"):  # a graphical model
            one = wanted.example if counted is None else counted.join(wanted.example)
            codes = encoder.transform(one)[0]
            places = {name: place for place, name in enumerate(schema.names)}
            named = [places[name] for name in wanted.modelled if name in places]
            state = given(state, {place: int(codes[place]) for place in named})

        def batch(size: int) -> pd.DataFrame:
            codes = self.method.sample(state, size, config=config, rng=streams["sample"])
            found = encoder.inverse(codes, rng=streams["decode"])
            return found if counted is None else counted.part(found, streams["within bins"])

        if not wanted:
            return batch(rows)
        kept, tried, parts = 0, 0, []
        while kept < rows and tried < most_drawn(rows):
            size = int(np.clip(1.1 * (rows - kept) * (tried + 1) / (kept + 1), 1_000, AT_ONCE))
            found = batch(size)
            parts.append(found[wanted.fits(found)])
            kept, tried = kept + len(parts[-1]), tried + size
        return pd.concat(parts, ignore_index=True)[:rows]

    @property
    def together(self) -> list[tuple[str, ...]] | None:
        """Return the groups of columns that were measured together.

        The result is None where this is not known: for a neural network, which learns from whole
        rows, and for a method file of one's own.
        """
        if key_of(self.method) not in REGISTRY:
            return None
        schema, config, _ = as_counted(self.method, self.form, self.config)
        groups = measured_together(self.state, config)
        return groups and [tuple(schema.names[column] for column in group) for group in groups]

    def file(
        self,
        rows: int | None = None,
        *,
        seed: int | None = None,
        where: Mapping[str, Any] | None = None,
        quote_formulas: bool = False,
    ) -> bytes:
        """Return the rows of `sample` as the content of a file like the table's own.

        quote_formulas: as in `Container.content`.
        """
        found = self.in_file(rows, seed=seed, where=where)
        return self.container.content(found, self.form, quote_formulas=quote_formulas)

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


def most_drawn(rows: int) -> int:
    """How many rows are drawn in search of so many that fit."""
    return max(MOST_DRAWN, 20 * rows)


def too_few(found: int, wanted: int, where: Mapping[str, Any]) -> str:
    """Write what is said where a model hardly ever gives rows with these values."""
    return (
        f"where: {found} of {most_drawn(wanted):,} rows drawn from the model have "
        f"{as_words(where)}, and {wanted} were asked for: ask for fewer rows or fewer conditions, "
        "or take a graphical model (fedpgm, aim), which draws such rows directly."
    )


def as_words(where: Mapping[str, Any]) -> str:
    """Write a condition as people write it."""
    return " and ".join(f"{name} = {value!r}" for name, value in where.items())


@dataclass(frozen=True)
class Where:
    """Values that rows must have.

    columns: name -> how its file writes the value (a series of one). example: one row of the
    model's columns that has them. modelled: the names of the model's columns that they decide.
    """

    columns: Mapping[FileColumn, pd.Series]
    example: pd.DataFrame
    modelled: tuple[str, ...]

    @classmethod
    def of(cls, form: Form, given: Mapping[str, Any] | None) -> "Where | None":
        """Read a condition.

        Raises BadInput for what is no column -> value, and for a value that the column of this name
        cannot have.
        """
        if given is None:
            return None
        if not isinstance(given, Mapping) or not given:
            raise BadInput(
                f"where is a {type(given).__name__}: give column and value, such as "
                "{'fraud': 'yes'}."
            )
        named = {column.name: column for column in form.columns}
        parsed: dict[str, pd.Series] = {}
        given = {str(name): value for name, value in given.items()}
        for name, value in given.items():
            if name not in named:
                raise BadInput(f"where: there is no column {name!r}{closest(name, named)}.")
            parsed |= _parsed(named[name], value)
        rows = {
            column.name: pd.Series([column.low])
            if column.kind == "numeric"
            else pd.Series(pd.Categorical(column.categories[:1], categories=column.categories))
            for column in form.schema.columns
        }
        example = pd.DataFrame(rows | parsed)[list(form.schema.names)]
        rng = np.random.default_rng(0)  # of identifiers, which no condition has
        written = {named[name]: named[name].restore(example, rng) for name in given}
        return cls(written, example, tuple(parsed))

    def fits(self, rows: pd.DataFrame) -> np.ndarray:
        """Which rows have the values; bool (rows,)."""
        fit, rng = np.ones(len(rows), dtype=bool), np.random.default_rng(0)
        for column, wanted in self.columns.items():
            values = column.restore(rows, rng)
            gap = wanted.isna().iloc[0]
            found = values.isna() if gap else values == wanted.iloc[0]
            fit &= found.fillna(False).to_numpy(dtype=bool)
        return fit


def _parsed(column: FileColumn, value: Any) -> dict[str, pd.Series]:
    """Return the model's columns for a value of a column."""
    cannot = f"where: column {column.name!r} cannot be {value!r}"
    if column.modelled is None or column.kind == "constant":
        raise BadInput(
            f"where: column {column.name!r} is of kind {column.kind!r}, which is not modelled; "
            "name another one."
        )
    if not pd.api.types.is_scalar(value):
        raise BadInput(
            f"where: the value of {column.name!r} is a {type(value).__name__}; give one value."
        )
    if gap := bool(pd.isna(value)):
        if not column.missing:
            raise BadInput(f"{cannot}: the schema allows no missing values in it.")
    elif column.kind in TIMES and isinstance(value, date | time):
        value = moment_text(value, column.format)
    elif column.kind == "numeric" and not isinstance(value, bool) and not column.written:
        with contextlib.suppress(TypeError, ValueError):
            value = float(value)
    elif column.kind != "numeric" or isinstance(value, str):
        value = str(value)
    takes = f"it takes {column.low} to {column.high}"
    if column.categories:
        takes = f"it takes {', '.join(map(repr, column.categories[:10]))}"
        takes += ", ..." * (len(column.categories) > 10)
    try:
        if column.other and value is not None and str(value) not in column.categories:
            raise BadInput(cannot)
        if isinstance(value, bool) and column.kind == "numeric":
            raise BadInput(cannot)
        return dict(column.check(pd.Series([None if gap else value])))
    except BadInput as error:
        raise BadInput(f"{cannot}: {takes}.") from error


def saved(
    run: Run,
    method: Method,
    config: Any,
    form: Form,
    *,
    container: Container | None = None,
    seed: int = 0,
    sizes: Sequence[int] = (),
) -> SavedModel:
    """Return the model of a run with these settings, on a table of this form.

    seed, sizes: that the run was given. container: of the table's file; CSV where there is none.
    Raises BadInput for a state that may not be handed on.
    """
    for name, values in run.state.items():
        if name.startswith(SECRET) or values.dtype.kind not in PLAIN:
            raise BadInput(
                f"the model's array {name!r} may not be handed on; there is no model to save."
            )
    container = replace(container or Container("text"), columns=())  # which writing does not need
    drawn = len(run.synthetic), seed, tuple(sizes)
    return SavedModel(method, config, run.state, form, container, run.statement, *drawn)


def _config(kind: type, settings: Mapping[str, Any]) -> Any:
    """Return settings from JSON, whose lists were tuples."""

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
    """Return the file's content; of equal models it is the same. BadInput as `key_in_files`."""
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
                "sizes": model.sizes,
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
    """Read the model of a run, of which rows can be drawn at no further cost.

    Parameters
    ----------
    given
        The file that `synth --save-model`, or `synthesize(save_model=...)`, wrote.

    Returns
    -------
    SavedModel
        `sample` draws rows; `statement` is the privacy statement of the run, `cost` a sentence.

    Raises
    ------
    BadInput
        In one sentence, for a file that is none, damaged, changed, or of a newer format or another
        version of its method.

    Examples
    --------
    >>> _ = fs.synthesize(df, epsilon=1, schema=schema, save_model="people.fedsynth")
    >>> model = fs.load_model("people.fedsynth")
    >>> model.sample(1_000, where={"ill": "yes"})["ill"].value_counts().to_dict()
    {'yes': 1000}
    """
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
            tuple(document.get("sizes", ())),
        )
    except BadInput:
        raise
    except (ValueError, KeyError, TypeError, EOFError, OSError, zipfile.BadZipFile) as error:
        raise BadInput(
            f"{path}: the saved model cannot be read ({type(error).__name__}); take another copy."
        ) from error


def _members(path: Path) -> dict[str, bytes]:
    """Return the content of the zip; BadInput for what is none, or too large to be a model."""
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
