"""Checks of the claims c04-c06 of martinez2024 for `published.judge_claims`: the searches for
hyperparameters.

They read the rows described in `works/sensitivity.py`, for 5 clients under label skew without
noise. No table of the work holds such values, and a search of fewer configurations than the work's
says neither what is best nor what matters.
"""

from functools import partial

import pandas as pd

from fedsynth_lib.printed.published import Judgement
from fedsynth_lib.verdicts.claims import (
    DATASETS,
    NON_DP,
    Condition,
    Missing,
    chosen,
    concluded,
    count,
)
from fedsynth_lib.verdicts.claims_models import BOTH
from fedsynth_lib.works.sensitivity import (
    RUNTIME,
    SCORE,
    SECONDS,
    configurations,
    sensitivity,
)

CONFIGURATIONS = {"fedbn": 36, "fedvae": 30}  # the full grid, and the random draws
STATED = {  # best mean log-cluster, section 5.5
    "fedbn": {"adult": -19.0, "bank": -21.68, "cardio": -12.679},
    "fedvae": {"adult": -20.927, "bank": -18.118, "cardio": -15.969},
}


def judge(values: pd.DataFrame, claim: str) -> Judgement:
    """Outcome and evidence, as `claims.judge`, by the rows of searches."""
    v = chosen(values, *BOTH, plain=False)
    here = (v["partition"] == "label_skew") & (v["n_clients"] == 5) & (v["epsilon"] == NON_DP)
    return concluded(
        _CHECKS[claim], v[(v["setting"] == "tuning") & here & v["dataset"].isin(DATASETS)]
    )


def _searched(v: pd.DataFrame, model: str, *wanted: str) -> pd.DataFrame:
    """The configurations of a model's searches on the three datasets, once all that are needed are
    there."""
    table = configurations(v[v["method"] == model]).dropna(subset=list(wanted))
    numbers = table["dataset"].value_counts().reindex(DATASETS, fill_value=0)
    if (numbers < CONFIGURATIONS[model]).any():
        shown = ", ".join(f"{dataset} {number}" for dataset, number in numbers.items())
        metrics = " and ".join(wanted).replace(RUNTIME, SECONDS)
        raise Missing(
            f"{model}: {CONFIGURATIONS[model]} configurations with {metrics} are "
            f"needed, there are {shown}"
        )
    return table


def _table(v: pd.DataFrame, model: str, *named: str) -> pd.DataFrame:
    """Rank, importance and correlation by dataset and hyperparameter; those named must be there and
    vary."""
    complete = _searched(v, model, SCORE, RUNTIME)[["method", "dataset", "detail"]]
    table = sensitivity(v.merge(complete))
    table["rank"] = table.groupby("dataset")["importance"].rank(ascending=False)
    table = table.set_index(["dataset", "hyperparameter"])
    idle = [
        (d, name)
        for d in DATASETS
        for name in named
        if not table["correlation"].notna().get((d, name), False)
    ]
    if idle:
        raise Missing(
            f"{model}: the searches do not vary {', '.join(f'{name} on {d}' for d, name in idle)}"
        )
    return table


def _ranks(
    table: pd.DataFrame, name: str, rank: int, datasets, needed: range | None = None
) -> Condition:
    found = table["rank"].unstack("dataset").loc[name, list(datasets)]
    share, text = count(found == rank, f"{name} of rank {rank}", needed)
    first = {d: ", ".join(table.loc[d].sort_values("rank").index[:3]) for d in datasets}
    return share, f"{text} ({'; '.join(f'{d}: {names}, ...' for d, names in first.items())})"


def _correlations(table: pd.DataFrame, name: str, datasets, holds, wanted: str) -> Condition:
    found = table["correlation"].unstack("dataset").loc[name, list(datasets)]
    shown = ", ".join(f"{dataset} {value:+.2f}" for dataset, value in found.items())
    return count(holds(found.round(9)), f"correlation of {name} {wanted} ({shown})")


def _c04(v) -> list[Condition]:
    found = {model: _searched(v, model, SCORE) for model in BOTH}
    conditions = []
    for model, table in found.items():
        best = (
            table.loc[table.groupby("dataset")[SCORE].idxmin()]
            .set_index("dataset")
            .loc[list(DATASETS)]
        )
        stated = pd.Series(STATED[model])
        shown = ", ".join(f"{d} {best.loc[d, SCORE]:.3f} v {stated[d]:g}" for d in DATASETS)
        near = (best[SCORE] - stated).abs().round(9) <= 3
        settings = set(best["detail"])
        splits = table["splits"].min()
        conditions += [
            count(near, f"{model}: best within 3 of the stated ({shown}; splits: {splits})"),
            (
                len(settings) == len(DATASETS),
                f"{model}: {len(settings)} different best settings, 3 wanted",
            ),
        ]
    scores = found["fedbn"].groupby("dataset")[SCORE]
    spread = scores.median() - scores.min()
    shown = ", ".join(f"{dataset} {value:.3f}" for dataset, value in spread.items())
    least = spread["cardio"] < spread.drop("cardio").min()
    return [*conditions, (least, f"fedbn: median less best {shown}, least on cardio wanted")]


def _c05(v) -> list[Condition]:
    table = _table(v, "fedvae", "weight_decay", "loss_factor")
    others = ("bank", "cardio")
    return [
        _ranks(table, "weight_decay", 1, DATASETS),
        _correlations(table, "weight_decay", DATASETS, lambda r: r >= 0.5, ">= 0.5"),
        _correlations(table, "loss_factor", others, lambda r: r > 0, "> 0"),
        _ranks(table, "loss_factor", 2, others),
    ]


def _c06(v) -> list[Condition]:
    table, name = _table(v, "fedbn", "aggregation_interval"), "aggregation_interval"
    return [
        _ranks(table, name, 1, DATASETS, range(2, 4)),
        _correlations(table, name, ["adult"], lambda r: (r > 0) & (r < 0.3), "in (0, 0.3)"),
        _correlations(table, name, ["cardio"], lambda r: r <= -0.5, "<= -0.5"),
    ]


_CHECKS = {"c04": _c04, "c05": _c05, "c06": _c06}
TUNING = {claim: partial(judge, claim=claim) for claim in _CHECKS}
