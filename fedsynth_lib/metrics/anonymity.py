"""Attacks on synthetic tables: singling out, linkability, inference (Giomi et al. 2023).

Each attack is made three times: with the synthetic rows on rows that were trained on (main), with
blind guesses on the same rows (baseline), and with the synthetic rows on rows that nobody trained
on (control). What the control gains says how much of a success is knowledge about people in
general; the *residual* risk is what the main attack gains beyond it, as a share of what was left to
gain. An attack that does not beat the baseline says nothing (`Risk.told`).

Written from the paper, for tables with a declared schema; distances are Gower's (numbers by their
declared range, categories equal or not).
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

import numpy as np
import pandas as pd

from fedsynth_lib.core.contract import BadInput, stream
from fedsynth_lib.metrics.coding import check_columns
from fedsynth_lib.tables.encode import UnitRange
from fedsynth_lib.tables.schema import Schema, closest

Z = 1.959963984540054  # two-sided, 95 percent
AT_ONCE = 64  # attacks whose distances to all rows are in memory together
LINKED = 10  # attributes that a linkage attack knows
TRIES = 200  # rounds of drawing predicates, each for all attacks that still lack one
OPERATORS: tuple[Callable, ...] = (np.equal, np.not_equal, np.greater_equal, np.less_equal)


class Rate(NamedTuple):
    """Wilson's interval of a success rate: its middle and half its width."""

    value: float
    error: float

    @classmethod
    def of(cls, successes: int, attacks: int) -> "Rate":
        """Return Wilson's 95 percent interval of the success rate, as its centre and half-width."""
        total = attacks + Z**2
        spread = np.sqrt(successes * (attacks - successes) / attacks + Z**2 / 4)
        return cls(float((successes + Z**2 / 2) / total), float(Z / total * spread))


@dataclass(frozen=True)
class Risk:
    """The success rates of an attack, and how many attacks there were: of none, rates mean nothing.

    The intervals take attacks for independent, as the paper does, though many meet the same few
    unusual people. For a table of one's own see `leaks.singling_out`.
    """

    main: Rate
    baseline: Rate
    control: Rate
    attacks: int

    @property
    def told(self) -> bool:
        """Whether there were attacks, and they beat blind guessing."""
        return self.attacks > 0 and self.main.value > self.baseline.value

    @property
    def residual(self) -> float:
        """(main - control) / (1 - control), from 0 to 1."""
        return float(
            np.clip((self.main.value - self.control.value) / (1 - self.control.value), 0, 1)
        )

    @property
    def interval(self) -> tuple[float, float]:
        """95 percent, by propagating both errors."""
        left = 1 - self.control.value
        slope = (self.main.value - 1) / left**2
        error = np.hypot(self.main.error / left, slope * self.control.error)
        middle = (self.main.value - self.control.value) / left
        return float(np.clip(middle - error, 0, 1)), float(np.clip(middle + error, 0, 1))


class Predicates(NamedTuple):
    """Conditions that must hold together, one line per attack.

    Columns, indices into OPERATORS, and values.
    """

    columns: np.ndarray
    operators: np.ndarray
    values: np.ndarray

    def matches(self, rows: np.ndarray) -> np.ndarray:
        """How many of the rows (rows, columns) each line singles out, (attacks,)."""
        counts = np.empty(len(self.columns), np.intp)
        for start in range(0, len(counts), AT_ONCE):
            part = slice(start, start + AT_ONCE)
            held = np.ones((len(self.columns[part]), len(rows)), bool)
            for column, operator, value in zip(*(each[part].T for each in self), strict=True):
                seen = rows[:, column].T
                for number, compare in enumerate(OPERATORS):
                    lines = operator == number
                    held[lines] &= compare(seen[lines], value[lines, None])
            counts[part] = held.sum(axis=1)
        return counts

    def take(self, chosen: np.ndarray) -> "Predicates":
        """Return the predicates of the chosen attacks."""
        return Predicates(*(each[chosen] for each in self))


def singling_out(
    real: pd.DataFrame,
    control: pd.DataFrame,
    synthetic: pd.DataFrame,
    schema: Schema,
    *,
    mode: Literal["univariate", "multivariate"],
    seed: int,
    attacks: int = 500,
    columns: int = 3,
) -> Risk:
    """Single out real rows with predicates that hold for exactly one synthetic row.

    A success is a predicate that holds for exactly one real row.

    univariate: a value that occurs once, or beyond the smallest and the largest of a column.
    multivariate: of a random synthetic row in random `columns`, each number bounded away from the
    column's median, each category as it is. Fewer predicates than `attacks` are made where the
    synthetic rows do not have more (`Risk.attacks`).
    """
    known, tested, made = _coded(schema, real=real, control=control, synthetic=synthetic)
    numeric = np.array([column.kind == "numeric" for column in schema.columns])
    rng = stream(seed, "singling out", mode)
    if mode == "univariate":
        found = _rare(made, numeric, attacks, rng)
        width = 1
    elif mode == "multivariate":
        width = min(columns, made.shape[1])
        found = _of_rows(made, numeric, attacks, width, rng)
    else:
        raise BadInput(
            f"singling out: mode {mode!r} is unknown; choose univariate or multivariate."
        )
    blind = _blind(made, numeric, attacks, width, rng)
    rates = [
        Rate.of(int((p.matches(rows) == 1).sum()), max(len(p.columns), 1))
        for p, rows in ((found, known), (blind, known), (found, tested))
    ]
    return Risk(*rates, attacks=len(found.columns))


def linkability(
    real: pd.DataFrame,
    control: pd.DataFrame,
    synthetic: pd.DataFrame,
    schema: Schema,
    *,
    known: tuple[Sequence[str], Sequence[str]],
    seed: int,
    attacks: int = 500,
    neighbours: int = 1,
) -> Risk:
    """Link the two halves of a person's record if both are near the same synthetic row.

    known: the names of the columns of each half. A success: the nearest synthetic rows by one half
    and by the other have a row in common. Blind guesses draw `neighbours` synthetic rows for each
    half.
    """
    rows = _coded(schema, real=real, control=control, synthetic=synthetic)
    halves = [_places(schema, names, "linkability") for names in known]
    rng, wins = stream(seed, "linkability"), []
    for source in rows[:2]:
        targets = source[_draw(rng, len(source), attacks)]
        near = [
            _nearest(targets[:, half], rows[2][:, half], schema, half, neighbours)
            for half in halves
        ]
        wins.append(_common(*near))
    blind = [
        np.stack([_draw(rng, len(rows[2]), neighbours) for _ in range(attacks)]) for _ in halves
    ]
    counts = [wins[0], _common(*blind), wins[1]]
    sizes = [min(attacks, len(rows[0])), attacks, min(attacks, len(rows[1]))]
    return Risk(*(Rate.of(w, n) for w, n in zip(counts, sizes, strict=True)), attacks=sizes[0])


def inference(
    real: pd.DataFrame,
    control: pd.DataFrame,
    synthetic: pd.DataFrame,
    schema: Schema,
    *,
    secret: str,
    seed: int,
    attacks: int = 500,
    tolerance: float = 0.05,
) -> Risk:
    """Infer a person's secret from the synthetic row that is nearest by all other columns.

    A guess of a number is right if it is off by no more than this share of the guess, of a category
    if it is equal. Blind guesses are the secrets of random synthetic rows.
    """
    rows = _coded(schema, real=real, control=control, synthetic=synthetic)
    place = _places(schema, [secret], "inference")[0]
    others = np.delete(np.arange(len(schema.columns)), place)
    rng, counts, sizes = stream(seed, "inference", secret), [], []
    for number, source in enumerate(rows[:2]):
        targets = source[_draw(rng, len(source), attacks)]
        nearest = _nearest(targets[:, others], rows[2][:, others], schema, others, 1)[:, 0]
        guesses = [rows[2][nearest, place]]
        if number == 0:
            guesses.append(rows[2][rng.integers(len(rows[2]), size=len(targets)), place])
        counts += [
            _right(guess, targets[:, place], schema.columns[place].kind, tolerance)
            for guess in guesses
        ]
        sizes += [len(targets)] * len(guesses)
    return Risk(*(Rate.of(w, n) for w, n in zip(counts, sizes, strict=True)), attacks=sizes[0])


def _right(guesses: np.ndarray, secrets: np.ndarray, kind: str, tolerance: float) -> int:
    if kind == "categorical":
        return int((guesses == secrets).sum())
    return int((np.abs(guesses - secrets) <= tolerance * np.abs(guesses)).sum())


def _coded(schema: Schema, **frames: pd.DataFrame) -> list[np.ndarray]:
    """Float64 (rows, columns): numbers in their own units, categories as codes."""
    coded = []
    check_columns(schema, **frames)
    numeric = [column.kind == "numeric" for column in schema.columns]
    for frame in frames.values():
        coded.append(UnitRange(schema).transform(frame))
        coded[-1][:, numeric] = frame[list(schema.numeric)]
    return coded


def _places(schema: Schema, names: Sequence[str], attack: str) -> np.ndarray:
    unknown = [name for name in names if name not in schema.names]
    if unknown or not len(names):
        wrong = (unknown or ["no column"])[0]
        raise BadInput(
            f"{attack}: {wrong!r} is not in the table{closest(wrong, schema.names)}; name columns "
            "of the schema."
        )
    return np.array([schema.names.index(name) for name in names])


def _draw(rng: np.random.Generator, total: int, size: int) -> np.ndarray:
    return rng.choice(total, size=min(size, total), replace=False)


def _common(one: np.ndarray, other: np.ndarray) -> int:
    """In how many lines two sets of neighbours share one."""
    return int((one[:, :, None] == other[:, None, :]).any(axis=(1, 2)).sum())


def _nearest(
    targets: np.ndarray, rows: np.ndarray, schema: Schema, places: np.ndarray, neighbours: int
) -> np.ndarray:
    """Return positions of the nearest rows by Gower's distance, (targets, neighbours).

    Of rows at the same distance the first are taken.
    """
    columns = [schema.columns[place] for place in places]
    found = np.empty((len(targets), min(neighbours, len(rows))), np.intp)
    for start in range(0, len(targets), AT_ONCE):
        part = targets[start : start + AT_ONCE]
        apart = np.zeros((len(part), len(rows)))
        for j, column in enumerate(columns):
            if column.kind == "numeric":
                apart += np.abs(part[:, j, None] - rows[:, j]) / (column.high - column.low)
            else:
                apart += part[:, j, None] != rows[:, j]
        found[start : start + AT_ONCE] = (
            np.argsort(apart, axis=1, kind="stable")[:, :neighbours]
            if neighbours > 1
            else (apart.argmin(axis=1)[:, None])
        )
    return found


def _rare(
    made: np.ndarray, numeric: np.ndarray, attacks: int, rng: np.random.Generator
) -> Predicates:
    """Single conditions that hold for one synthetic row, in random order, each only once."""
    lines: list[tuple[int, int, float, int]] = []  # column, operator, value, rows that it holds for
    for j, column in enumerate(made.T):
        values, counts = np.unique(column, return_counts=True)
        lines += [(j, 0, value, 1) for value in values[counts == 1]]
        if numeric[j]:
            lines += [(j, 3, values[0], counts[0]), (j, 2, values[-1], counts[-1])]
    every = np.array(lines, float).reshape(-1, 4)[rng.permutation(len(lines))]
    alone = every[every[:, 3] == 1][:attacks]
    return Predicates(alone[:, :1].astype(np.intp), alone[:, 1:2].astype(np.intp), alone[:, 2:3])


def _of_rows(
    made: np.ndarray, numeric: np.ndarray, attacks: int, width: int, rng: np.random.Generator
) -> Predicates:
    """Read conditions in `width` columns off random synthetic rows.

    Kept are those that hold for exactly one synthetic row.
    """
    medians, kept, lacking = np.median(made, axis=0), [], attacks
    for _ in range(TRIES):
        columns = rng.permuted(np.tile(np.arange(made.shape[1]), (lacking, 1)), axis=1)[:, :width]
        values = np.take_along_axis(made[rng.integers(len(made), size=lacking)], columns, axis=1)
        away = np.where(values > medians[columns], 2, 3)
        drawn = Predicates(columns, np.where(numeric[columns], away, 0), values)
        kept.append(drawn.take(np.flatnonzero(drawn.matches(made) == 1)))
        lacking -= len(kept[-1].columns)
        if not lacking:
            break
    return Predicates(*(np.concatenate(parts) for parts in zip(*kept, strict=True)))


def _blind(
    made: np.ndarray, numeric: np.ndarray, attacks: int, width: int, rng: np.random.Generator
) -> Predicates:
    """Random conditions on values that occur, whether or not they single anything out."""
    columns = rng.permuted(np.tile(np.arange(made.shape[1]), (attacks, 1)), axis=1)[:, :width]
    levels = [np.unique(column) for column in made.T]
    values = np.array([[rng.choice(levels[column]) for column in line] for line in columns])
    operators = np.where(
        numeric[columns], rng.integers(4, size=columns.shape), rng.integers(2, size=columns.shape)
    )
    return Predicates(columns, operators, values)


def risks(
    real: pd.DataFrame,
    control: pd.DataFrame,
    synthetic: pd.DataFrame,
    schema: Schema,
    *,
    seed: int,
    attacks: int,
    linked: int = LINKED,
) -> dict[str, float]:
    """Return the risks of singling out, linkability and inference, and their mean as `risk`.

    Singling out is the mean of both modes, inference the mean over all columns as secrets.

    Residual risks, from 0 to 1, as Giomi et al. define them, each with `_low` and `_high` of 95
    percent, and `_success`: of the main attack alone, which includes what can be inferred about
    anybody. linked: how many attributes a linkage attack knows.
    """
    tables = (real, control, synthetic, schema)
    options = {"seed": seed, "attacks": attacks}
    one, several = (
        singling_out(*tables, mode=m, **options) for m in ("univariate", "multivariate")
    )
    others = [name for name in schema.names if name != schema.target] or list(schema.names)
    known = others[:linked]
    found = {
        "singling_out_univariate": [one],
        "singling_out_multivariate": [several],
        "singling_out": [one, several],
        "linkability": [linkability(*tables, known=(known[::2], known[1::2]), **options)],
        "inference": [inference(*tables, secret=name, **options) for name in schema.names],
    }
    values = {}
    for name, parts in found.items():
        values |= {f"{name}{suffix}": value for suffix, value in _summary(parts).items()}
    for suffix in ("", "_success"):
        values[f"risk{suffix}"] = float(
            np.mean(
                [values[f"{name}{suffix}"] for name in ("singling_out", "linkability", "inference")]
            )
        )
    return values


def _summary(parts: Sequence[Risk]) -> dict[str, float]:
    """Return the mean of independent estimates with its interval, of attacks that were possible."""
    parts = [part for part in parts if part.attacks] or [parts[0]]
    middle = float(np.mean([part.residual for part in parts]))
    low, high = (
        np.sqrt(np.sum([(part.residual - part.interval[side]) ** 2 for part in parts])) / len(parts)
        for side in (0, 1)
    )
    success = float(np.mean([part.main.value for part in parts]))
    return {
        "": middle,
        "_low": middle - float(low),
        "_high": middle + float(high),
        "_success": success,
    }
