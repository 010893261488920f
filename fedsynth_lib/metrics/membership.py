"""Membership inference: whether a person's record was in the table that was learned from.

Threat model: the attacker sees the synthetic rows and the schema, holds the complete records of
some people, half of whom were trained on, and has other real rows of the same population
(`reference`). Both scores rise with suspicion:

    closest     how near the nearest synthetic row is (Hayes et al. 2019; Hilprecht et al. 2019)
    calibrated  the same against how near the nearest reference row is, so that a record in a dense
                region is not suspicious for that (the idea of van Breugel et al. 2023)
"""

from typing import NamedTuple

import numpy as np
import pandas as pd
from sklearn.metrics import roc_auc_score, roc_curve

from fedsynth_lib.core.contract import stream
from fedsynth_lib.metrics.attacks import nearest
from fedsynth_lib.metrics.coding import standardised_together
from fedsynth_lib.tables.schema import Schema

MOST_TARGETS = 1000  # of members, and of others
LOW_RATE = 0.01  # of false accusations
DRAWS = 200  # of the bootstrap


class Attack(NamedTuple):
    """How well an attack finds members.

    auc: 0.5 where nothing is revealed, 1 where members are known; low, high: 95 percent by a
    bootstrap over people.

    advantage: the largest difference of true and false positive rates. caught: share of members
    found when one in a hundred others is accused.
    """

    auc: float
    low: float
    high: float
    advantage: float
    caught: float


def membership(
    members: pd.DataFrame,
    others: pd.DataFrame,
    reference: pd.DataFrame,
    synthetic: pd.DataFrame,
    schema: Schema,
    *,
    seed: int,
) -> dict[str, Attack]:
    """`closest` and `calibrated` against at most 1,000 members and as many others, drawn at random.

    members: rows trained on; others and reference: rows not trained on, disjoint. Distances are
    Euclidean, on standardised numbers and one-hot categories. Raises BadInput where a table has no
    rows.
    """
    tables = {"member": members, "other": others, "reference": reference, "synthetic": synthetic}
    rng, size = stream(seed, "membership"), min(MOST_TARGETS, len(members), len(others))
    targets = [
        frame.iloc[np.sort(rng.permutation(len(frame))[:size])] for frame in (members, others)
    ]
    drawn = {"member": targets[0], "other": targets[1]}
    points = standardised_together(schema, **tables | drawn)
    people, known, made = np.split(points, np.cumsum([2 * size, len(reference)]))
    to_made, to_known = (nearest(people, rows, 1)[0][:, 0] for rows in (made, known))
    tiny = np.finfo(np.float32).tiny
    scores = {"closest": -to_made, "calibrated": np.log(to_known + tiny) - np.log(to_made + tiny)}
    truth = np.arange(2 * size) < size
    return {name: _judged(truth, score, rng) for name, score in scores.items()}


def _judged(truth: np.ndarray, scores: np.ndarray, rng: np.random.Generator) -> Attack:
    """truth: members first, as many as others."""
    size = int(truth.sum())
    aucs = []
    for _ in range(DRAWS):
        drawn = np.concatenate([rng.integers(0, size, size), size + rng.integers(0, size, size)])
        aucs.append(roc_auc_score(truth, scores[drawn]))
    false, true, _ = roc_curve(truth, scores)
    return Attack(
        float(roc_auc_score(truth, scores)),
        *(float(each) for each in np.quantile(aucs, [0.025, 0.975])),
        advantage=float((true - false).max()),
        caught=float(true[false <= LOW_RATE].max()),
    )
