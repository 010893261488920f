"""The research questions of martinez2024 (its section 7.2), each answered in a sentence counted
from our rows; and the numbers behind, ours beside published values."""

from collections.abc import Callable

import numpy as np
import pandas as pd

from fedsynth_lib.metrics.registry import METRICS
from fedsynth_lib.printed.published import aggregate, of_work

FIDELITY, UTILITY = ["hellinger", "pcd", "pmse", "log_cluster"], ["auc_rf", "auc_nb", "auc_knn"]
CLOSENESS, ATTACKS = ["dcr_share", "dcr_min"], ["ad_ens", "ad_rmean", "ad_dum"]
PLACE = ["dataset", "method", "metric", "partition", "n_clients"]
NO_ROWS = "no rows for this question"
QUESTIONS = {  # the published answers in our words
    "1a: against central and local data": "FedBN without noise is as good as a central network, "
    "often no better than clients alone whose data resemble the whole; FedVAE differs more from "
    "both, by scenario.",
    "1b: which model, which table": "FedBN is better in associations and log-cluster, and in AUC "
    "on adult and bank; FedVAE in pMSE everywhere, in the Hellinger distance on bank, in AUC on "
    "cardio.",
    "2b: clients and their division": "The number of clients matters little; label skew harms "
    "FedVAE's associations most, FedBN's depending on the table.",
    "3a: closeness to real records": "Half of the synthetic records are nearer to training than "
    "to hold-out records, so nothing is memorised; FedVAE often makes exact copies.",
    "3b: disclosure of attributes": "Attacks do as well on FedBN's data as on real ones (0.006 "
    "less on adult, 0.002 on bank), less well on FedVAE's; both beat guessing the most frequent "
    "class.",
}


def answers(rows: pd.DataFrame) -> pd.DataFrame:
    """Question, published answer, and ours from tidy rows of one profile; what rows are missing is
    said in its place.

    Question 2a is answered by the searches of notebook 27. Cells with noise count in 3b only.
    """
    cells = _cells(rows)
    real, made = cells[cells["setting"] == "real"], cells[cells["setting"] != "real"]
    quiet = made[np.isinf(made["epsilon"])]
    ours = [_baselines(quiet), _models(quiet), _division(quiet)]
    ours += [_closeness(quiet), _disclosure(made, real)]
    table = {"question": list(QUESTIONS), "published": list(QUESTIONS.values()), "ours": ours}
    return pd.DataFrame(table).set_index("question")


def _cells(rows: pd.DataFrame) -> pd.DataFrame:
    cells = aggregate(of_work(rows, "martinez2024"))
    return cells[cells["detail"] == ""].assign(n_clients=cells["n_clients"].fillna(0))


def _by_method(cells: pd.DataFrame, sentence: Callable[[pd.DataFrame], str | None]) -> str:
    """A sentence for each model, those without the rows for it left out."""
    said = {method: sentence(own) for method, own in cells.groupby("method", sort=False)}
    told = [f"{method}: {text}" for method, text in said.items() if text]
    return "; ".join(told) or NO_ROWS


def _signed(cells: pd.DataFrame) -> pd.Series:
    """Means, turned round where lower is better, so that more is better everywhere."""
    lower = cells["metric"].map(lambda name: METRICS[name].better == "lower")
    return cells["mean"].where(~lower, -cells["mean"])


def _baselines(quiet: pd.DataFrame) -> str:
    def sentence(own: pd.DataFrame) -> str | None:
        own = own[own["metric"].isin(FIDELITY + UTILITY)].assign(score=_signed)
        federated, local = (
            own[own["setting"] == s].set_index(PLACE)["score"] for s in ("federated", "local")
        )
        if federated.empty or local.empty:
            return None
        central = own[own["setting"] == "central"].set_index(["dataset", "metric"])["score"]
        keys = federated.reset_index()[["dataset", "metric"]].apply(tuple, axis=1)
        over_central = (federated.to_numpy() >= keys.map(central).to_numpy()).mean()
        pairs = pd.concat({"federated": federated, "local": local}, axis=1).dropna()
        over_local = (pairs["federated"] > pairs["local"]).groupby("partition").mean()
        by = ", ".join(f"{name} {share:.0%}" for name, share in over_local.items())
        return (
            f"at least as good as central in {over_central:.0%} of cells, better than local in {by}"
        )

    return _by_method(quiet, sentence)


def _models(quiet: pd.DataFrame) -> str:
    measured = quiet["metric"].isin(FIDELITY + UTILITY)
    own = quiet[(quiet["setting"] == "federated") & measured].assign(score=_signed)
    place = [name for name in PLACE if name != "method"]
    pairs = own.pivot(index=place, columns="method", values="score")
    if not {"fedbn", "fedvae"} <= set(pairs.columns):
        return NO_ROWS
    pairs = pairs.dropna()
    ahead = (pairs["fedbn"] > pairs["fedvae"]).groupby(["dataset", "metric"]).agg(["sum", "size"])
    texts = []
    for dataset, found in ahead.groupby(level="dataset"):
        known = [m for m in FIDELITY + UTILITY if (dataset, m) in ahead.index]
        found = found.droplevel("dataset").reindex(known)
        counts = ", ".join(f"{m} {r['sum']} of {r['size']}" for m, r in found.iterrows())
        texts.append(f"{dataset}: {counts}")
    return "fedbn is better in " + "; ".join(texts)


def _division(quiet: pd.DataFrame) -> str:
    def sentence(own: pd.DataFrame) -> str | None:
        own = own[(own["setting"] == "federated") & (own["metric"] == "pcd")]
        table = own.pivot_table("mean", ["dataset", "n_clients"], "partition").dropna()
        if not {"iid", "label_skew"} <= set(table.columns) or table.empty:
            return None
        worst = (table.idxmax(axis=1) == "label_skew").sum()
        text = f"label skew has the worst association error in {worst} of {len(table)} places"
        counts = own.pivot_table("mean", ["dataset", "partition"], "n_clients")
        if counts.shape[1] > 1:
            change = (counts[counts.columns.max()] / counts[counts.columns.min()] - 1).dropna()
            text += (
                f", it changes by {change.mean():+.0%} from {counts.columns.min()} to "
                f"{counts.columns.max()} clients ({change.min():+.0%} to {change.max():+.0%})"
            )
        return text

    return _by_method(quiet, sentence)


def _closeness(quiet: pd.DataFrame) -> str:
    def sentence(own: pd.DataFrame) -> str | None:
        own = own[own["setting"] == "federated"]
        shares, least = (own.loc[own["metric"] == name, "mean"] for name in CLOSENESS)
        if shares.empty or least.empty:
            return None
        return (
            f"shares of {shares.min():.3f} to {shares.max():.3f} nearer to training rows, exact "
            f"copies in every split in {(least == 0).sum()} of {len(least)} scenarios"
        )

    return _by_method(quiet, sentence)


def _disclosure(cells: pd.DataFrame, by_real: pd.DataFrame) -> str:
    attack = cells[cells["metric"].isin(ATTACKS)]

    def sentence(made: pd.DataFrame) -> str | None:
        real = by_real.pivot_table("mean", "dataset", "metric")
        made = made[made["dataset"].isin(real.index)]
        if made.empty:
            return None
        texts = []
        for dataset, found in made.groupby("dataset"):
            by = found.pivot_table("mean", "epsilon", "metric")
            loss = real.loc[dataset, "ad_ens"] - by["ad_ens"]
            over = by["ad_rmean"] - by["ad_dum"]
            names = {e: "no noise" if np.isinf(e) else f"epsilon {e:g}" for e in by.index}
            levels = [f"{names[e]} {loss[e]:.3f}" for e in by.index[::-1]]
            texts.append(
                f"{dataset} loses {', '.join(levels)} to real rows and beats the dummy by "
                f"{over.min():.3f} to {over.max():.3f}"
            )
        return "; ".join(texts)

    return _by_method(attack[attack["setting"] == "federated"], sentence)


# --- the numbers behind: cells are what `published.compare` returns -------------------------------


def spans(cells: pd.DataFrame, over: str) -> pd.DataFrame:
    """2b: mean of the federated cells by division or number of clients (`over`), ours and printed,
    and how far they span."""
    federated = cells[cells["setting"] == "federated"]
    means = federated.pivot_table(["ours", "published"], ["dataset", "epsilon"], over)
    for source in means.columns.unique(0):
        means[(source, "span")] = means[source].max(axis=1) - means[source].min(axis=1)
    return means.sort_index(axis=1, level=0, sort_remaining=False)


def copies(cells: pd.DataFrame) -> pd.DataFrame:
    """3a: lowest and highest share nearer to training rows, and how many cells have an exact copy,
    by table and budget, ours and printed; no number where none was run."""
    found = (cells["ours"] == 0).astype("Int64").where(cells["ours"].notna())
    cells = cells.assign(copy=found, printed_copy=(cells["published"] == 0).astype("Int64"))
    kinds = {name: own.groupby(["dataset", "epsilon"]) for name, own in cells.groupby("metric")}
    share = kinds["dcr_share"][["ours", "published"]].agg(["min", "max"])
    share.columns = [f"{source} share, {end}" for source, end in share.columns]
    copied = kinds["dcr_min"][["copy", "printed_copy"]].sum(min_count=1)
    return share.join(copied).reset_index()


def disclosed(cells: pd.DataFrame) -> pd.DataFrame:
    """3b: what the vote of attacks loses against real rows, and how far their mean lies above the
    dummy, by table, division and budget, ours and printed."""
    place, table = ["dataset", "partition", "epsilon"], {}
    real = cells[(cells["setting"] == "real") & (cells["metric"] == "ad_ens")].set_index("dataset")
    federated = cells[cells["setting"] == "federated"].set_index([*place, "metric"])
    for source in ("ours", "published"):
        own = federated[source].unstack("metric")
        alone = real[source].reindex(own.index.get_level_values(0)).to_numpy()
        table[f"loss, {source}"] = alone - own["ad_ens"]
        table[f"above dummy, {source}"] = own["ad_rmean"] - own["ad_dum"]
    return pd.DataFrame(table)
