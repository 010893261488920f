"""The noisy tables that a model was fitted to, as CSV files: counts with their standard deviations.

    fedsynth synth people.csv --tables tables/

Each file is one set of columns that was counted together. It has a row for each cell: the level of
each column, the noisy count, and the standard deviation of its noise. Somebody who wants a count
takes it from here, and not from synthetic rows, which add the error of the model to it. Counts are
of the rows that the method learned from: about four fifths of the table's, as a fifth is set aside
to judge by, and of a person's rows those that count.

To hand them out costs no epsilon. A table here is a noisy sum as it was released, averaged with
other noisy sums of the same cells by weights that follow from public scales of noise. So it is
post-processing of releases that the statement lists. Nothing is made positive or consistent: a
count below 0 is noise, and tables that share a column differ in it by their noise.
"""

import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas as pd

from fedsynth_lib.core.contract import Arrays, BadInput, Method, stream
from fedsynth_lib.core.store import check_writable, write_atomically
from fedsynth_lib.federation.settings import as_counted
from fedsynth_lib.methods.bayes import bayesian_network
from fedsynth_lib.methods.marginals import fedpgm, independent, private_bins
from fedsynth_lib.methods.marginals.coarse_pairs import is_wide
from fedsynth_lib.methods.marginals.marginal_state import tables_of
from fedsynth_lib.release.saved import SavedModel
from fedsynth_lib.tables.form import Form
from fedsynth_lib.tables.kinds import GAP, Gaps, is_formula
from fedsynth_lib.tables.schema import Column

COUNT, DEVIATION = "noisy count", "standard deviation"


class Noisy(NamedTuple):
    """columns: places in the schema. counts: (levels of each column). deviation: of each count."""

    columns: tuple[int, ...]
    counts: np.ndarray
    deviation: float


def tables(model: SavedModel) -> dict[tuple[str, ...], pd.DataFrame]:
    """Return the noisy tables of a model, each with a row for each cell.

    Returns
    -------
    dict
        Names of columns -> a frame with the level of each of them as text, COUNT and DEVIATION. A
        bin of numbers is written as its ends, a distance that a rule declares by its logarithm.

    Raises
    ------
    BadInput
        For a method that counts no tables of all rows, and for a model of a study whose sites make
        the noise together: how many of them did is unknown.
    """
    schema, config, counted = as_counted(model.method, model.form, model.config)
    edges = dict(getattr(model.method.encoder(schema, config), "edges", {}))
    edges |= {} if counted is None else counted.edges
    names = [_labels(model.form, column, edges.get(column.name)) for column in schema.columns]
    levels = [_in_runs(model.state, place, own) for place, own in enumerate(names)]
    found = {}
    for noisy in _reader(model.method)(model):
        columns = tuple(schema.names[place] for place in noisy.columns)
        cells = pd.MultiIndex.from_product([levels[place] for place in noisy.columns])
        frame = cells.to_frame(index=False)
        frame.columns = list(columns)
        found[columns] = frame.assign(**{COUNT: noisy.counts.ravel(), DEVIATION: noisy.deviation})
    return found


def write(model: SavedModel, folder: Path, *, release: bool, quote_formulas: bool = False) -> None:
    """Write a CSV file for each table.

    The name of a rehearsal's file says so; files of an earlier rehearsal are removed.

    quote_formulas: as in `Container.content`.
    """
    for old in folder.glob("rehearsal_[0-9][0-9][0-9]_*.csv"):
        old.unlink()
    for number, (columns, frame) in enumerate(tables(model).items(), 1):
        if quote_formulas:
            texts = frame[list(columns)].map(_quoted)
            frame = frame.assign(**texts).rename(columns=_quoted)
        name = re.sub(r"[^\w-]+", "_", "_x_".join(columns))[:100]
        begin = "" if release else "rehearsal_"
        content = frame.to_csv(index=False, float_format="%.6g").encode()
        write_atomically(folder / f"{begin}{number:03d}_{name}.csv", content)


def _quoted(text: str) -> str:
    """Return the text, with an apostrophe where a spreadsheet would run it as a formula."""
    return f"'{text}" if is_formula(text) else text


def check(method: Method, folder: Path, *, release: bool) -> None:
    """Raise BadInput, before noise is paid for, where there will be no tables to write."""
    _reader(method)
    if release and folder.is_dir() and any(folder.iterdir()):
        raise BadInput(f"tables: {folder} has files already; give the name of a new folder.")
    check_writable(folder / "table.csv", "tables")


# --- levels ---------------------------------------------------------------------------------------


def _labels(form: Form, column: Column, edges: np.ndarray | None) -> list[tuple[str, str]]:
    """Return the first and the last value of each level, as the table's file writes them."""
    if edges is None:
        return [(category, category) for category in column.categories]
    known = {each.name: each for each in form.columns}[column.name]
    modelled = known.modelled
    number = modelled.number if isinstance(modelled, Gaps) else modelled
    lows, highs = edges[:-1], edges[1:]
    if number.integer:  # the last bin has its upper edge, too
        lows, highs = np.ceil(lows), np.append(np.ceil(highs[:-1]) - 1, np.floor(highs[-1]))
        highs = np.maximum(lows, highs)
    ends = []
    for values in (lows, highs):
        short = [float(f"{value:.12g}") for value in values]
        frame = pd.DataFrame({column.name: short})
        if isinstance(modelled, Gaps):
            present = modelled.missing.categories
            frame[modelled.missing.name] = pd.Categorical([present[0]] * len(short), present)
        if column.name in form.between.bases:
            ends.append([f"{value:.12g}" for value in short])
        else:
            ends.append(known.texts(known.restore(frame, stream(0))).tolist())
    apart = modelled.missing.categories[1:] if isinstance(modelled, Gaps) else ()
    apart = [known.gap_label if label == GAP else label for label in apart]
    return [*zip(*ends, strict=True), *zip(apart, apart, strict=True)]


def _in_runs(state: Arrays, place: int, labels: list[tuple[str, str]]) -> list[str]:
    """Return what the levels of a column are called.

    A level may be a run of several levels of the column's encoder.
    """
    firsts = np.arange(len(labels))
    if place in private_bins.long_of(state):
        firsts = state[f"firsts {place}"]
    lasts = [*firsts[1:], len(labels)]
    ends = [(labels[k][0], labels[last - 1][1]) for k, last in zip(firsts, lasts, strict=True)]
    return [low if low == high else f"{low} to {high}" for low, high in ends]


# --- what each method keeps of its counts ---------------------------------------------------------


def _reader(method: Method) -> Callable[[SavedModel], Iterator[Noisy]]:
    name = method.client_step.__module__.rpartition(".")[2]
    if name not in READERS:
        raise BadInput(
            f"tables: method {method.name} counts no tables of all rows; leave tables out, or take "
            "fedpgm, aim, fedbn or independent."
        )
    return READERS[name]


def _scale(model: SavedModel, what: str) -> float:
    """Return the scale of the noise that the statement lists for a release."""
    entries = model.statement["entries"]
    return next((e["scale"] for e in entries if e["what"].startswith(what)), np.inf)


def _all_shares(model: SavedModel) -> float:
    """Return how many times the charged variance all clients make together.

    Some may be curious, so each makes a larger share. Raises BadInput where nobody knows how many
    clients made it: of a study, whose sites may drop out, and of a model of an earlier version.
    """
    if not model.sizes:
        raise BadInput(
            "tables: the model does not say how many clients made its noise, so no standard "
            "deviation is known; make the model again by synth."
        )
    return len(model.sizes) / model.statement["shares"]


def _laplace(model: SavedModel, what: str) -> float:
    """Return the standard deviation of discrete Laplace noise made by all clients."""
    stay = np.exp(-1 / _scale(model, what))
    return float(np.sqrt(2 * stay * _all_shares(model)) / (1 - stay))


def _of_fedpgm(model: SavedModel) -> Iterator[Noisy]:
    """Give the average of both sums of each table, weighted by precision.

    The weights are those of `fedpgm._measured_again`.
    """
    state, wide = model.state, is_wide(len(model.state["levels"]))
    rows, first_rows = (max(float(state[name]), 1.0) for name in ("rows", "first_rows"))
    repeats = dict(zip(fedpgm.chosen_in(state), state["repeats"].tolist(), strict=True))
    for query, shares in tables_of(state, "shares").items():
        first = _scale(model, fedpgm.ONE_WAY if len(query) == 1 else fedpgm.TWO_WAY)
        coarse = wide and len(query) > 1  # in the first sum
        precision = 0.0 if coarse else (first_rows / rows) ** 2 / first**2
        precision += repeats.get(query, 0) / _scale(model, fedpgm.AGAIN) ** 2
        yield Noisy(query, rows * shares, float(np.sqrt(_all_shares(model) / precision)))


def _of_aim(model: SavedModel) -> Iterator[Noisy]:
    """All measurements of a table, averaged; its weight is rows^2 / variance, of all together."""
    state = model.state
    rows, weights = float(state["seen"]), tables_of(state, "weight")
    for query, shares in tables_of(state, "shares").items():
        yield Noisy(query, rows * shares, rows / float(np.sqrt(weights[query])))


def _of_network(model: SavedModel) -> Iterator[Noisy]:
    """Each column with its parents."""
    state, levels = model.state, model.state["levels"]
    deviation = _laplace(model, bayesian_network.TABLES)
    for child, parents in bayesian_network.families(state, model.config):
        columns = (*parents, child)
        counts = state[f"table/{child}"].reshape(levels[list(columns)])
        yield Noisy(columns, counts, deviation)


def _of_single_columns(model: SavedModel) -> Iterator[Noisy]:
    levels, deviation = model.state["levels"], _laplace(model, independent.WHAT)
    pieces = np.split(model.state["counts"], np.cumsum(levels)[:-1])
    for column, counts in enumerate(pieces):
        yield Noisy((column,), counts, deviation)


READERS = {
    "fedpgm": _of_fedpgm,
    "distaim": _of_aim,
    "bayesian_network": _of_network,
    "independent": _of_single_columns,
}
