"""Rows in the form of printed cells, where a printed number is more than a mean over seeds.

A reading takes the rows of an exhibit's grids, of one profile, and its printed values, and returns
rows that agree with the values in `published.KEYS`. A number that is made from the means of several
runs (a rank, a choice) comes back once for each of these runs, so that it counts as resting on them
all, without a spread of its own.
"""

from collections.abc import Callable

import numpy as np
import pandas as pd

from fedsynth_lib.printed import sensitivity
from fedsynth_lib.printed.published import aggregate
from fedsynth_lib.runs.details import configuration
from fedsynth_lib.runs.rows import COLUMNS, to_frame, with_params
from fedsynth_lib.verdicts.custom import apellaniz_tables
from fedsynth_lib.verdicts.custom.cells import flaim_runs
from fedsynth_lib.verdicts.custom.claims import DISTAIM, PRIVATE, WORK_COUNTS, best_rounds

Reading = Callable[[pd.DataFrame, pd.DataFrame], pd.DataFrame]
PAIR = "DistAIM vs AugFLAIM (Private)"  # the method of a printed ratio


def as_they_are(rows: pd.DataFrame, values: pd.DataFrame) -> pd.DataFrame:
    """Return the rows unchanged."""
    return rows


def one_line_a_method(rows: pd.DataFrame, values: pd.DataFrame) -> pd.DataFrame:
    """Return rows with the published `detail` of their method.

    This applies where one is published for each method and ours say more.
    """
    return rows.assign(detail=rows["method"].map(values.groupby("method")["detail"].first()))


def at_best_rounds(rows: pd.DataFrame, epsilon: float = 1.0) -> pd.DataFrame:
    """Return the runs of DistAIM and AugFLAIM (Private) at their best T.

    Best is the lowest mean error by table; `longest` is the longest T tried.
    """
    runs = flaim_runs(rows)
    usual = (runs["partition"] == "cluster_skew") & (runs["participation"] == 0.1)
    usual &= runs["beta"].isna() & (runs["local_steps"] == 1) & (runs["epsilon"] == epsilon)
    return best_rounds(runs[usual], "value")


def overhead(
    rows: pd.DataFrame, values: pd.DataFrame, *, epsilon: float = 1.0, measured: bool = False
) -> pd.DataFrame:
    """Table 3 of maddock2024: DistAIM against AugFLAIM (Private), each at its best T, of each run.

    measured: bytes as ours were sent; else DistAIM's as the work counts them
        (`claims.WORK_COUNTS` times ours).
    """
    best = at_best_rounds(rows, epsilon)
    index = ["dataset", "seed", "n_clients", "profile", "data"]
    wide = best.pivot_table(index=index, columns=["metric", "method"], values="value")
    rounds = best.pivot_table(index=index, columns="method", values="rounds")
    ratio = wide.xs(DISTAIM, axis=1, level="method") / wide.xs(PRIVATE, axis=1, level="method")
    times = 1 if measured else WORK_COUNTS
    found = {
        (PAIR, "rounds_ratio"): rounds[DISTAIM] / rounds[PRIVATE],
        (PAIR, "client_throughput_ratio"): times * ratio["client_throughput_mb"],
        (DISTAIM, "client_throughput_mb"): times * wide["client_throughput_mb", DISTAIM],
        (PRIVATE, "client_throughput_mb"): wide["client_throughput_mb", PRIVATE],
        (PAIR, "workload_error_improvement_percent"): 100 * (1 - ratio["workload_error"]),
        (PAIR, "nll_improvement_percent"): 100 * (1 - ratio["nll"]),
    }
    table = pd.DataFrame(found).rename_axis(columns=["method", "metric"])
    table = table.stack([0, 1], future_stack=True)
    place = {"paper": "maddock2024", "partition": "cluster_skew", "setting": "federated"}
    place["detail"] = values["detail"].iloc[0]
    return _tidy(table.rename("value").reset_index().assign(**place))


def around_the_last_refit(
    rows: pd.DataFrame, refits: pd.DataFrame, values: pd.DataFrame, *, epsilon: float = 1.0
) -> pd.DataFrame:
    """Compare table 3's likelihoods of maddock2024 with both models of DistAIM.

    These are the last, which its rows come from, and the one before the work's last refit, whose
    likelihood is published.

    refits: likelihoods of both models (`item` last and before) of the same runs. One line a table,
    means over seeds, in nats a row, each method at the T of `at_best_rounds`; then the gain of
    DistAIM in percent of AugFLAIM's last model, of each run, and which model's is nearer to the
    published value.
    """
    best = at_best_rounds(rows, epsilon)[["dataset", "method", "rounds"]].drop_duplicates()
    refits = with_params(refits, rounds=None).astype({"rounds": float}).merge(best)
    wide = refits.pivot_table("value", ["dataset", "seed"], ["method", "item"])
    models = [[PRIVATE, DISTAIM], ["last", "before"]]
    wide = wide.reindex(columns=pd.MultiIndex.from_product(models))
    private, distaim = wide[PRIVATE]["last"], wide[DISTAIM]
    found = distaim[["last", "before"]].add_prefix(f"{DISTAIM} ").assign(**{PRIVATE: private})
    gains = 100 * (1 - distaim[["last", "before"]].div(private, axis=0))
    found = found.join(gains.add_prefix("gain ")).groupby("dataset").mean()
    found = found.reindex(pd.unique(rows["dataset"])).dropna()
    printed = values[values["metric"] == "nll_improvement_percent"].set_index("dataset")["mean"]
    found["gain printed"] = printed.reindex(found.index)
    off = found[["gain last", "gain before"]].sub(found["gain printed"], axis=0).abs()
    return found.assign(nearer=off.idxmin(axis=1).str.removeprefix("gain "))


def trainings(rows: pd.DataFrame, values: pd.DataFrame) -> pd.DataFrame:
    """Tables of apellaniz2025 over trainings, each measured once."""
    return apellaniz_tables.in_print(rows, "seed")


def trainings_with_slopes_cut(rows: pd.DataFrame, values: pd.DataFrame) -> pd.DataFrame:
    """As `trainings`, with the slopes of the encoder cut as in the published code."""
    return apellaniz_tables.in_print(rows, "seed", variant=apellaniz_tables.CUT)


def counted(rows: pd.DataFrame, values: pd.DataFrame) -> pd.DataFrame:
    """Return counts of a table, which no run makes.

    Classes of its target are named as in table 1 of apellaniz2025.
    """
    words = ("class " + rows["item"]).where(rows["metric"] == "class_proportion_percent", "")
    return rows.assign(setting="", detail=words)


def ranks(rows: pd.DataFrame, values: pd.DataFrame) -> pd.DataFrame:
    """Table 6 of apellaniz2025: reciprocal ranks of the mean divergences."""
    means = aggregate(trainings(rows, values), per_node=True).assign(
        n_clients=int(values["n_clients"].iloc[0])
    )
    found = apellaniz_tables.reciprocal_ranks(means).assign(detail="")
    return _of_all_runs(found, rows[rows["metric"] == apellaniz_tables.JS])


def tuned(rows: pd.DataFrame, values: pd.DataFrame) -> pd.DataFrame:
    """Return the numeric hyper-parameters of the best configuration of each search."""
    lines, searched = [], sensitivity.configurations(rows)
    for model, dataset in values[["method", "dataset"]].drop_duplicates().to_numpy():
        found = searched[(searched["method"] == model) & (searched["dataset"] == dataset)]
        if found.empty:
            continue
        best = configuration(found.loc[found["log_cluster"].idxmin(), "detail"])
        wanted = values.loc[(values["method"] == model) & (values["dataset"] == dataset), "metric"]
        lines += [
            {"method": model, "dataset": dataset, "metric": name, "value": best[name]}
            for name in wanted
        ]
    table = pd.DataFrame(lines, columns=["method", "dataset", "metric", "value"])
    return _of_all_runs(table.assign(value=pd.to_numeric(table["value"], errors="coerce")), rows)


def importance(rows: pd.DataFrame, values: pd.DataFrame) -> pd.DataFrame:
    """Ranks of the hyper-parameters by importance, 1 for the most important."""
    found = sensitivity.importance(rows)
    place = found.groupby(["method", "dataset"])["importance"].rank(ascending=False)
    names = found["hyperparameter"].replace({"embedding_dimension": "embedding_dim"})
    return _of_all_runs(found.assign(metric="importance_rank", value=place, detail=names), rows)


FINDIFF_TABLES = {"credit_default", "adult", "philadelphia", "bank"}


def stated(rows: pd.DataFrame, values: pd.DataFrame) -> pd.DataFrame:
    """Return results that sattarov2024 states in its text, of the sweeps that were run.

    Each row repeats its published place.

    The losses of a budget are means over four tables, so a run is a seed that all of them have.
    With fewer than two of these, what there is counts as one run, so that it is shown and not
    judged.
    """
    runs = with_params(rows[rows["method"] == "DP-Fed-FinDiff"], scheme="")
    published = runs[(runs["grid"] == "51_sattarov2024_budget") & (runs["scheme"] == "")]
    updates = rows[rows["grid"] == "50_sattarov2024_updates"]
    found = [_tidy(values.head(0).assign(value=0.0))]
    if len(updates):
        found.append(_of_all_runs(_placed(values, stated_of_updates(updates)), rows))
    sets = [own for _, own in published.groupby("seed") if set(own["dataset"]) >= FINDIFF_TABLES]
    for own in filter(len, sets if len(sets) > 1 else [published]):
        found.append(_of_all_runs(_placed(values, stated_of_budget(own)), own.head(1)))
    return pd.concat(found, ignore_index=True)


def _placed(values: pd.DataFrame, results: dict[str, float]) -> pd.DataFrame:
    """Results at their published places."""
    names = [
        f"{metric} {detail.rpartition(' ')[2]}" if metric == "training_hours" else metric
        for metric, detail in values[["metric", "detail"]].to_numpy()
    ]
    placed = values.drop(columns=["paper", "exhibit"])
    placed = placed.assign(value=pd.Series(names, values.index).map(results))
    return placed[placed["value"].notna()]


def stated_of_updates(rows: pd.DataFrame) -> dict[str, float]:
    """Return what sattarov2024 states about local updates, by the names of its values.

    It is of rows of the sweep over local updates.

    The best number of updates is where risk, accuracy and fidelity, each scaled to [0, 1] within
    its division, add up to most (risk to least); the threshold under uneven clients is where
    accuracy and fidelity add up to most.
    """
    runs = with_params(rows[rows["method"] == "DP-Fed-FinDiff"], local_updates=100)
    means = runs[runs["metric"].isin(["risk", "accuracy", "fidelity"])]
    means = means.groupby(["metric", "partition", "local_updates"])["value"].mean().unstack()
    scaled = means.sub(means.min(axis=1), axis=0).div(np.ptp(means, axis=1), axis=0)
    total = scaled.loc["accuracy"] + scaled.loc["fidelity"] + 1 - scaled.loc["risk"]
    uneven = (means.loc["accuracy"] + means.loc["fidelity"]).loc["noniid"]
    hours = runs[runs["metric"] == "fidelity"].groupby("local_updates")["seconds"].mean() / 3600
    timed = [updates for updates in (100, 1000) if updates in hours]
    return {
        "privacy_risk_peak_local_updates": means.loc["risk"].mean().idxmax(),
        "best_local_updates": total.mean().idxmax(),
        "noniid_decline_threshold_local_updates": uneven.idxmax(),
        **{f"training_hours {updates}": hours[updates] for updates in timed},
    }


def stated_of_budget(rows: pd.DataFrame) -> dict[str, float]:
    """Return the three changes in percent from no privacy to epsilon 1, mean over tables.

    Less risk is more privacy.
    """
    change = changes_of_budget(rows).loc[1.0]
    return {
        "privacy_change_percent": -change["risk"],
        "utility_change_percent": change["accuracy"],
        "fidelity_change_percent": change["fidelity"],
    }


def changes_of_budget(rows: pd.DataFrame) -> pd.DataFrame:
    """Return changes in percent from no privacy to each finite budget, mean over tables.

    They are indexed by (epsilon, metric).
    """
    means = rows.groupby(["metric", "dataset", "epsilon"])["value"].mean().unstack()
    changes = 100 * (means.drop(columns=np.inf).div(means[np.inf], axis=0) - 1)
    return changes.groupby("metric").mean().T


def _of_all_runs(found: pd.DataFrame, rows: pd.DataFrame) -> pd.DataFrame:
    """Numbers that were made from all runs together, as rows of each of these runs."""
    shared = rows[["paper", "data", "profile"]].iloc[0].to_dict()
    runs = pd.DataFrame({"seed": np.sort(rows["seed"].unique())})
    kept = [name for name in (*COLUMNS, "detail") if name in found and name != "seed"]
    return _tidy(found[kept].assign(**shared).merge(runs, how="cross"))


def _tidy(table: pd.DataFrame) -> pd.DataFrame:
    """Return a table as rows, with the published words where it has them."""
    rows = to_frame(table.to_dict("records"))
    return rows.assign(detail=table["detail"].to_numpy()) if "detail" in table else rows


_ALL = (as_they_are, one_line_a_method, overhead, trainings, trainings_with_slopes_cut, counted)
_ALL += (ranks, tuned, importance, stated)
READINGS: dict[str, Reading] = {each.__name__: each for each in _ALL}
