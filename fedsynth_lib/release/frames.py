"""A table of one's own in Python: a DataFrame in, a DataFrame out.

    import fedsynth_lib as fs

    schema = fs.draft(df)  # text to correct
    synthetic, statement = fs.synthesize(df, schema=schema, epsilon=1)
    fs.check(df, synthetic, schema=schema, analyses=["sbp ~ age + bmi"])

All of it is what the commands `draft`, `synth` and `check` do, by the same functions: a DataFrame
stands in the place of its parquet file (`container.InMemory`). The path of a file is taken as well.
"""

import warnings
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from fedsynth_lib.core.contract import BadInput, Privacy
from fedsynth_lib.core.errors import checked_epsilon
from fedsynth_lib.core.store import existing_file
from fedsynth_lib.methods import DEFAULT
from fedsynth_lib.methods.release import DELTA
from fedsynth_lib.release import your_table
from fedsynth_lib.release.check import Checked, checked
from fedsynth_lib.release.draft import draft_text
from fedsynth_lib.tables.container import InMemory, Source
from fedsynth_lib.tables.form import form_from
from fedsynth_lib.tables.schema import parse_toml

Names = str | int | Sequence[str | int]  # of columns
DRAFTED = (
    "no schema was given, so one was drafted from the rows: the statement promises nothing for "
    "what was read from them, and a release is refused; fs.draft gives the draft to correct"
)


class Statement(dict):
    """What must be said of synthetic rows: the fields of the privacy statement; printed, its text.

    text: Markdown for whoever must approve the rows. files: kind -> path of what was written; none
    where nothing was. notes: what the owner was told, for the owner alone.
    """

    def __init__(self, made: your_table.Made, notes: Sequence[str]):
        super().__init__(made.run.statement)
        self.text, self.files, self.notes = made.text, made.paths, tuple(notes)

    def __str__(self) -> str:
        """Return the statement as Markdown."""
        return self.text

    def _repr_markdown_(self) -> str:
        return self.text


def draft(
    table: pd.DataFrame | str | Path,
    *,
    target: str | int = "",
    ignore: Names = (),
    keep: Names = (),
    unit: str | int = "",
    most_rows: int = 0,
) -> str:
    """Draft the schema of a table from its rows, as text to correct, for its owner alone.

    Print it, correct it by what is documented about the table, and give the text back as `schema`,
    or keep it in a file. A line `question = ...` asks what only a person can know: correct its
    column, and delete the line. Nothing is written.

    Parameters
    ----------
    table
        A DataFrame, or the path of a file. The index is no column: `df.reset_index()` makes it one.
    target
        Column that somebody will want to predict.
    ignore
        Columns that synthetic rows will not have.
    keep
        Columns of categories, however many they have.
    unit, most_rows
        The column that says whose a row is, and how many rows of a person count, where several rows
        are one person's; see `synthesize`.

    Returns
    -------
    str
        The schema as TOML. What it says of rows is information about the people in the table.

    Raises
    ------
    BadInput
        For what is no table, and a column that is not there.

    Examples
    --------
    >>> schema = fs.draft(df, target="ill")
    >>> schema = schema.replace("low = 20", "low = 0").replace("high = 89", "high = 120")
    >>> schema.splitlines()[-2:]
    ['categories = ["no", "yes"]', 'source = "read from the rows"']
    """
    names = {"ignore": ignore, "keep": keep}
    columns = {name: your_table.names_of(given, name) for name, given in names.items()}
    of_persons = {"unit": _name(unit, "unit"), "most_rows": most_rows}
    said = columns | of_persons
    return draft_text(_source(table), target=_name(target, "target") or None, **said)


def synthesize(
    table: pd.DataFrame | str | Path,
    *,
    epsilon: float,
    delta: float = DELTA,
    schema: str | Path | None = None,
    rows: int | None = None,
    where: Mapping[str | int, Any] | None = None,
    seed: int = 0,
    method: str = DEFAULT,
    target: str | int = "",
    ignore: Names = (),
    site: str = "",
    num_clients: int = 0,
    declared_rows: int | Sequence[int] = (),
    unit: str | int = "",
    most_rows: int = 0,
    release: bool = False,
    again: bool = False,
    population: str = "",
    most_epsilon: float = 3.0,
    out: str | Path | None = None,
    save_model: str | Path | None = None,
    tables: str | Path | None = None,
    about: Mapping[str, str] | None = None,
    say: Callable[[str], None] = lambda text: None,
) -> tuple[pd.DataFrame, Statement]:
    """Make synthetic rows of a table under differential privacy, and what must be said of them.

    It does what the command `synth` does. Without `release` it is a rehearsal: its noise follows
    from `seed`, and its rows must not be handed on. Nothing is written but where `out`,
    `save_model` and `tables` say; a release is noted in the ledger and in the register besides, in
    the folder of the project (FEDSYNTH_HOME), before its noise is drawn. The register knows rows by
    their values: a DataFrame in another order, with other labels or another index, and a file of
    it, are the same rows, which are not released twice unless `again`. A row more or less is
    another table; that these are the same people is what `population` says.

    Parameters
    ----------
    table
        A DataFrame, or the path of a file. The index is not modelled: `df.reset_index()` makes it a
        column.
    epsilon, delta
        The budget of the whole run, for one row added or removed, or for one person where the unit
        is one; delta far below 1 / rows. The default, 1e-6, is lowered where there are more than
        100,000 rows; in a release, where so many are declared.
    schema
        The text of a schema (see `draft`), or the path of its file. Without one, that beside the
        file of the table; else it is drafted, and a warning repeats the draft's questions.
    rows
        How many to make; four fifths of the noisy number of rows if None, as one fifth is set
        aside to judge by. Any number costs the same.
    where
        Column -> the value that all rows have, such as ``{"fraud": "yes"}``; see
        `SavedModel.sample`. It costs nothing.
    seed
        Of a rehearsal, 0 to 2^32 - 1.
    method
        Its key, or the path of a file with one.
    target, ignore
        For the draft, as there.
    site, num_clients
        The column that says which site a row is from, or the number of clients that rows are dealt
        to; one client holds all rows if neither is given.
    declared_rows
        Rows of the table, or of each site, as everybody knows them; counted with noise if empty.
    unit, most_rows
        The column that says whose a row is, and how many rows of a person count: the promise is
        then for a person, at all rows together. A schema that is given says both itself, or has
        the column as an identifier. Synthetic rows do not have it, and are nobody's.
    release
        Draw secret noise, for rows that may be handed on. It needs a schema without questions that
        is not read from the rows.
    again
        Release rows once more that were released before; the costs add up.
    population, most_epsilon
        Whose rows these are, for the ledger, and the most that all releases about them may cost.
        The release of a DataFrame must name them.
    out, save_model, tables
        Folder of rows and statement, as `synth` writes them, file of the model, for `load_model`,
        and folder of the noisy tables, a CSV file each (see `SavedModel.tables`).
    about
        Who answers for the release and so on: curator, recipients, purpose.
    say
        Is told what begins, a line each; ``print``, for instance.

    Returns
    -------
    DataFrame
        The synthetic rows, with the dtypes and labels of the table and a fresh RangeIndex. A column
        of whole numbers or truth values that may have gaps is Int64 or boolean where it has some.
    Statement
        A dict of the privacy statement; printed, its text.

    Raises
    ------
    BadInput
        In one sentence, for what cannot be asked; Refused, for a release that the register or the
        ledger does not allow.

    Warns
    -----
    UserWarning
        One, of all that the owner should know: open questions, values that were moved into their
        range, classes of the target with few rows, how many rows come out.

    Examples
    --------
    >>> synthetic, statement = fs.synthesize(df, epsilon=1, schema=schema, rows=500)
    >>> synthetic.dtypes.equals(df.dtypes), len(synthetic)
    (True, 500)
    >>> statement["budget"], statement["delta"]
    (1.0, 1e-06)
    >>> ill, _ = fs.synthesize(df, epsilon=1, schema=schema, rows=50, where={"ill": "yes"})
    >>> set(ill["ill"])
    {'yes'}
    >>> visits = df.assign(patient=df.index // 2)
    >>> _, statement = fs.synthesize(visits, epsilon=1, unit="patient", most_rows=2)
    >>> statement["unit"]
    'one person with up to 2 rows'
    """
    Privacy(checked_epsilon(epsilon), delta)  # before a row is read
    source, notes = _source(table), []
    if release and isinstance(source, InMemory) and not population:
        raise BadInput(
            "population is empty: a DataFrame has no name, so say whose rows these are "
            "(population='...'), for the ledger."
        )
    options: dict[str, Any] = {"target": _name(target, "target")}
    options["ignore"] = your_table.names_of(ignore, "ignore")
    of_persons = {"unit": _name(unit, "unit"), "most_rows": most_rows}
    schema, asked = _schema(source, schema, **options, **of_persons)
    if asked is not None:
        notes = [DRAFTED, *(f"the draft asks about {question}" for question in asked)]
        options = {}  # the draft has them
    if isinstance(table, pd.DataFrame) and (named := [n for n in table.index.names if n]):
        notes.append(f"the index {named[0]!r} is not modelled: df.reset_index() makes it a column")
    try:
        with your_table.telling_cost(None, notes.append):
            prepared = your_table.prepare(
                source,
                epsilon=epsilon,
                delta=delta,
                schema=schema,
                rows=rows,
                where=where,
                seed=seed,
                method=method,
                **options,
                site=_name(site, "site"),
                num_clients=num_clients,
                declared_rows=declared_rows,
                **of_persons,
                release=release,
                again=again,
                population=population,
                most_epsilon=most_epsilon,
                out=out,
                files=out is not None,
                save_model=save_model,
                tables=tables,
                about=about,
            )
        made = your_table.carry_out(prepared, say, notes.append)
    finally:
        if notes:
            warnings.warn("\n".join(notes), stacklevel=2)
    return made.table.container.frame(made.rows, made.table.form), Statement(made, notes)


def check(
    real: pd.DataFrame | str | Path,
    synthetic: pd.DataFrame | str | Path,
    *,
    schema: str | Path | None = None,
    analyses: str | Sequence[str] = (),
) -> Checked:
    """Compare synthetic rows with the real ones: their form, and what analyses come to on both.

    It is computed from the real rows, without noise: for their owner alone.

    Parameters
    ----------
    real, synthetic
        DataFrames, or paths of files.
    schema
        As in `synthesize`; drafted from the real rows if there is none.
    analyses
        What somebody wants to know from the rows: ``"sbp ~ age + bmi"``, ``"mean(sbp) by region"``,
        ``"survival(time, died) by arm"``; see `release.analyses.compare`, which states the rule by
        which a result may be used.

    Returns
    -------
    Checked
        form: a line for each column. analyses: a line for each coefficient, mean or share.
        verdicts: a sentence for each of these lines. Printed, all of them.

    Raises
    ------
    BadInput
        For what is no table, and for an analysis that cannot be read or made.

    Examples
    --------
    >>> found = fs.check(df, synthetic, schema=schema, analyses=["dose ~ age"])
    >>> list(found.analyses["term"])
    ['Intercept', 'age']
    """
    wanted = list(analyses) if isinstance(analyses, list | tuple) else [analyses]
    source = _source(real)
    chosen, _ = _schema(source, schema)
    table = your_table.load(your_table.Files.of(source, chosen), private=True)
    return checked(table, _source(synthetic, "synthetic"), wanted)


def _name(given: str | int, parameter: str) -> str:
    """Return the name of one column; '' of none."""
    names = your_table.names_of(given, parameter)
    if len(names) > 1:
        raise BadInput(f"{parameter} names {len(names)} columns; give one.")
    return "".join(names)


def _source(table: Any, name: str = "table") -> Source:
    if isinstance(table, str | Path):
        return existing_file(table, name)
    return InMemory.of(table, name)


def _schema(
    source: Source, schema: Any, *, target: str = "", **said: Any
) -> tuple[str | Path | None, list[str] | None]:
    """Return the schema that is given, or else the text of a draft and what it asks.

    The second result is None where nothing was drafted.
    """
    if schema is not None and not (isinstance(schema, str | Path) and schema):
        raise BadInput(
            f"schema is a {type(schema).__name__}: give the text of a schema (see fs.draft), or "
            "the path of its file."
        )
    beside = isinstance(source, Path) and source.with_suffix(".toml").is_file()
    if schema is not None or beside:
        return schema, None
    text = draft_text(source, target=target or None, **said)
    return text, your_table.questions(form_from(parse_toml(text, "schema"), "schema"))
