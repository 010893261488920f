"""Lesson 00: made-up people, and how often an attacker is right who knows three things of each."""

from collections.abc import Iterable, Sequence
from itertools import product

import numpy as np
import pandas as pd

from fedsynth_lib.core.contract import Privacy, Run, stream
from fedsynth_lib.federation import settings
from fedsynth_lib.methods.bayes import bayesian_network
from fedsynth_lib.metrics import fidelity
from fedsynth_lib.tables.load import Column, Schema, Table
from fedsynth_lib.tables.partition import split_clients
from fedsynth_lib.teaching.checks import EMPTY, check

TOWNS = ("Asten", "Bruck", "Cordal", "Dorna", "Elben", "Farn", "Gries", "Hallein", "Ilm", "Joch")
JOBS = ("baker", "carpenter", "clerk", "cook", "driver", "farmer", "nurse", "teacher")
DIAGNOSES = ("asthma", "depression", "diabetes", "none")
KNOWN = ["age", "town", "job"]  # what the attacker knows of somebody
ANN = (37, "Hallein", "baker", "depression")


def people(num_rows: int, seed: int) -> Table:
    """Return made-up people; the first is Ann.

    Diabetes becomes likelier with age and asthma rarer; nurses and farmers have more depression.
    """
    rng = stream(seed, "people")
    age = rng.integers(18, 91, num_rows)
    town, job = (rng.integers(0, len(names), num_rows) for names in (TOWNS, JOBS))
    old = (age - 18) / 72
    tired = np.isin(np.array(JOBS)[job], ["farmer", "nurse"])
    weights = np.stack([0.35 - 0.25 * old, 0.15 + 0.2 * tired, 0.05 + 0.45 * old, 0.4 + 0 * old], 1)
    ends = np.cumsum(weights / weights.sum(axis=1, keepdims=True), axis=1)
    diagnosis = np.minimum((rng.random((num_rows, 1)) > ends).sum(axis=1), 3)
    names = {"town": (TOWNS, town), "job": (JOBS, job), "diagnosis": (DIAGNOSES, diagnosis)}
    frame = pd.DataFrame(
        {"age": age, **{name: np.array(of)[code] for name, (of, code) in names.items()}}
    )
    frame.loc[0] = ANN
    columns = [Column("age", "numeric", 18, 90, integer=True)]
    columns += [Column(name, "categorical", categories=of) for name, (of, _) in names.items()]
    schema = Schema(tuple(columns), target="diagnosis")
    frame = frame.astype({name: pd.CategoricalDtype(of) for name, (of, _) in names.items()})
    return Table("people", frame, schema, "own", digest=f"people {num_rows} {seed}")


def guess(rows: pd.DataFrame, known: pd.DataFrame) -> pd.Series:
    """Return the attacker's guess of each person's diagnosis.

    It is that of the row of the same town and job whose age is nearest; the most frequent of all
    rows, where there is no such row.
    """
    guesses = pd.Series(rows["diagnosis"].mode()[0], index=known.index, dtype=object)
    groups = dict(list(rows.groupby(["town", "job"], observed=True)))
    for place, persons in known.groupby(["town", "job"], observed=True):
        if place in groups:
            apart = np.abs(persons["age"].to_numpy()[:, None] - groups[place]["age"].to_numpy())
            guesses[persons.index] = groups[place]["diagnosis"].to_numpy()[apart.argmin(axis=1)]
    return guesses


def share_right(rows: pd.DataFrame, targets: pd.DataFrame) -> float:
    """Return the share of the targets whose diagnosis the attacker guesses."""
    return float((guess(rows, targets) == targets["diagnosis"].astype(object)).mean())


def three_offices(table: Table, epsilon: float, seed: int) -> Run:
    """Return a run in which three offices make one synthetic table, and none shows its rows.

    The method is FedBN with a search that is private, too, in its plainest form: each column
    depends on one other.
    """
    parts = split_clients(table, "iid", 3, seed=seed)
    config = bayesian_network.Config(private_structure=True, degree=1)
    privacy = Privacy(epsilon)
    return settings.federated(
        bayesian_network, table, parts, config=config, privacy=privacy, seed=seed
    )


def curve(
    table: Table, others: pd.DataFrame, epsilons: Iterable[float], seeds: Sequence[int]
) -> pd.DataFrame:
    """Return tidy rows (epsilon, seed, measure, value).

    The measures are the shares of right guesses (%) about people who are in the table and about
    others, and the error of pairs of columns.
    """
    rows = []
    for epsilon, seed in product(epsilons, seeds):
        made = three_offices(table, epsilon, seed).synthetic
        values = {
            "people in the table": 100 * share_right(made, table.frame),
            "other people": 100 * share_right(made, others),
            "error of pairs": fidelity.pairwise_correlation_difference(
                table.frame, made, table.schema
            ),
        }
        rows += [(epsilon, seed, *each) for each in values.items()]
    return pd.DataFrame(rows, columns=["epsilon", "seed", "measure", "value"])


def check_answer(question: int, answer: float | None, rows: pd.DataFrame) -> str:
    """Return what is said of an answer to one of the lesson's three questions."""
    alone = 1 - rows.duplicated(KNOWN, keep=False).mean()
    kinds = len(rows.drop_duplicates(KNOWN)) / len(rows)
    odds = np.exp(3)
    right = {1: alone, 2: odds / (1 + odds), 3: 12}
    hints = {
        1: {
            kinds: "of those who share their values, one was counted; they are not alone.",
            1 - alone: "these are the people who are not alone.",
        },
        2: {
            odds: "that is the factor of the odds; turn odds into a probability.",
            0.5: "that is what they think before the table appears.",
        },
        3: {
            3: "that holds for one row of hers.",
            0.75: "more rows give more away, not less.",
        },
    }
    return check(answer, right[question], hints=hints[question])


def check_diagnosis(answer: str | None) -> str:
    """Return what is said of a guess at Ann's diagnosis."""
    if answer is None:
        return EMPTY
    if str(answer).strip().lower() == ANN[-1]:
        return "Right: May minus April, in the line of Hallein."
    if answer in DIAGNOSES:
        return "Not yet: subtract the counts of April from those of May, in the line of Hallein."
    return f"Not yet: choose one of {', '.join(DIAGNOSES)}."
