"""Checks of the claims of maddock2024 about its two DP-CTGANs; see `verdicts/claims.py`, and
`verdicts/claims_flaim.py` for all others.

They rest on table 1: likelihoods at epsilon 5, mean over seeds, marginal methods with ten rounds
and the published estimator. A claim is judged on the tables that were run, and the evidence names
the others. The networks' likelihood is a kernel density's (`kernel_nll`), in print as
here.
"""

from collections.abc import Callable
from functools import partial

import pandas as pd

from fedsynth_lib.printed.published import Judgement
from fedsynth_lib.runs.rows import with_params
from fedsynth_lib.verdicts.claims import Condition, Missing, concluded, count, of_work
from fedsynth_lib.verdicts.claims_flaim import AIM, BAYES, CTGAN, NAIVE, PRIVATE, THREE
from fedsynth_lib.works.maddock2024 import unpacked

CENTRAL, EPSILON, ROUNDS, TRAINING_ROUNDS = "DP-CTGAN", 5, 10, 500


def judge(rows: pd.DataFrame, claim: str) -> Judgement:
    """Outcome and evidence by tidy rows of one profile."""
    return concluded(_CHECKS[claim], likelihoods(rows))


def likelihoods(rows: pd.DataFrame) -> pd.DataFrame:
    """The rows of table 1, `trained` being the rounds of a federated network."""
    rows = of_work(rows, "maddock2024")
    rows = rows[(rows["metric"] == "nll") & (rows["epsilon"] == EPSILON) & rows["value"].notna()]
    runs = unpacked(rows[rows["partition"].isin(["none", "cluster_skew"])])
    usual = (
        runs["rounds"].fillna(ROUNDS).eq(ROUNDS)
        & runs["participation"].fillna(0.1).eq(0.1)
        & ~runs["annealed"]
    )
    usual &= (
        runs["estimator"].eq("published")
        & runs["measure_share"].eq(0.9)
        & runs["local_rounds"].eq(1)
    )
    trained = with_params(runs, training_rounds=TRAINING_ROUNDS)["training_rounds"].astype(float)
    trained = trained.where(runs["method"] == CTGAN)
    return runs.assign(trained=trained)[usual & runs["beta"].isna()]


def _below(runs: pd.DataFrame, low: str, high: str, needed: range | None = None) -> Condition:
    """How often the mean of `low` is below that of `high`; both must have a table in common."""
    means = runs.pivot_table(index="dataset", columns="method", values="value").reindex(THREE)
    pair = means.reindex(columns=[low, high]).dropna()
    if pair.empty:
        raise Missing(
            f"rows are missing: {low} and {high} on the same table (metric nll, epsilon {EPSILON})"
        )
    share, text = count(pair[low] < pair[high], f"{low} < {high}", needed)
    return (
        share,
        f"{text} ({', '.join(f'{name}: {a:.4g} v {b:.4g}' for name, (a, b) in pair.T.items())})",
    )


def _named(conditions: list[Condition], runs: pd.DataFrame, method: str) -> list[Condition]:
    """The conditions; the last one names the tables on which `method` was not run."""
    absent = [
        name for name in THREE if name not in set(runs.loc[runs["method"] == method, "dataset"])
    ]
    share, text = conditions[-1]
    return [*conditions[:-1], (share, f"{text}; not run: {', '.join(absent)}" if absent else text)]


def _trained(runs: pd.DataFrame) -> float:
    """Rounds of Fed DP-CTGAN, the fewest over the tables."""
    return runs.loc[runs["method"] == CTGAN, "trained"].min()


def _c01(runs: pd.DataFrame) -> list[Condition]:
    return _named([_below(runs, AIM, CENTRAL)], runs, CENTRAL)


def _c04(runs: pd.DataFrame) -> list[Condition]:
    conditions = [_below(runs, NAIVE, CTGAN), _below(runs, BAYES, CTGAN, range(1, 4))]
    share, text = conditions[-1]
    conditions[-1] = share, f"{text}, {_trained(runs):g} rounds of {CTGAN}"
    return _named(conditions, runs, CTGAN)


def _c23(runs: pd.DataFrame) -> list[Condition]:
    conditions = [_below(runs, name, CTGAN) for name in (NAIVE, PRIVATE)]
    if _trained(runs) < TRAINING_ROUNDS:
        raise Missing(
            f"rows are missing: {CTGAN} after {TRAINING_ROUNDS} rounds; it was run for "
            f"{_trained(runs):g}"
        )
    conditions[-1] = conditions[-1][0], f"{conditions[-1][1]}, {ROUNDS} rounds v {_trained(runs):g}"
    return _named(conditions, runs, CTGAN)


_CHECKS: dict[str, Callable[[pd.DataFrame], list[Condition]]] = {
    "c01": _c01,
    "c04": _c04,
    "c23": _c23,
}
CHECKS: dict[str, Callable[..., Judgement]] = {
    claim: partial(judge, claim=claim) for claim in _CHECKS
}
