"""Every measure that result rows may carry: how it is written, its unit, and which way is better.

The one place that knows, for axes, tables, verdicts and the versions of cells. Nothing is imported
here, so that rows can be read without any measure.
"""

from typing import Literal, NamedTuple

Better = Literal["lower", "higher", "half", "none"]


class Measure(NamedTuple):
    """How a measure is written, and where good values lie.

    better: `half` means near one half, `none` that it only describes. work: that it is defined in,
        `` for ours. group: what `evaluate` takes it for; `` where it is no measure of whole tables.
    version: raise it whenever values change by more than the order of sums; cells that hold the
        measure are then computed anew.
    """

    label: str
    better: Better = "none"
    work: str = ""
    unit: str = ""
    group: str = ""
    version: int = 1


MARTINEZ, LEITNER, MADDOCK = "martinez2024", "leitner2023", "maddock2024"
SATTAROV, APELLANIZ = "sattarov2024", "apellaniz2025"
FIDELITY, UTILITY, PRIVACY = "fidelity", "utility", "privacy"

MEASURES: dict[str, Measure] = {
    # whole tables: what `evaluate` calls
    "hellinger": Measure("Hellinger distance", "lower", MARTINEZ, group=FIDELITY),
    "pcd": Measure("pairwise correlation difference", "lower", MARTINEZ, group=FIDELITY),
    "pmse": Measure("propensity MSE", "lower", MARTINEZ, group=FIDELITY),
    "log_cluster": Measure("log-cluster", "lower", MARTINEZ, group=FIDELITY),
    "log_cluster_base2": Measure("log-cluster", "lower", MARTINEZ, "base 2", FIDELITY),
    "log_cluster_printed": Measure("log-cluster", "lower", MARTINEZ, "as printed", FIDELITY),
    "auc_rf": Measure("AUC, random forest", "higher", MARTINEZ, group=UTILITY),
    "auc_nb": Measure("AUC, naive Bayes", "higher", MARTINEZ, group=UTILITY),
    "auc_knn": Measure("AUC, k-NN", "higher", MARTINEZ, group=UTILITY),
    "auc_rf_score": Measure("AUC, random forest", "higher", MARTINEZ, "probabilities", UTILITY),
    "auc_nb_score": Measure("AUC, naive Bayes", "higher", MARTINEZ, "probabilities", UTILITY),
    "auc_knn_score": Measure("AUC, k-NN", "higher", MARTINEZ, "probabilities", UTILITY),
    "dcr_min": Measure("smallest DCR", "higher", MARTINEZ, group=PRIVACY),
    "dcr_share": Measure("share nearer to training rows", "half", MARTINEZ, group=PRIVACY),
    "dcr_avg_train": Measure("mean DCR to training rows", "higher", MARTINEZ, group=PRIVACY),
    "dcr_avg_holdout": Measure("mean DCR to hold-out rows", "higher", MARTINEZ, group=PRIVACY),
    "dcr_avg_train_all": Measure(
        "mean DCR to all training rows", "higher", MARTINEZ, group=PRIVACY
    ),
    "dcr_share_printed": Measure(
        "share nearer to training rows", "half", MARTINEZ, "bootstrap", PRIVACY
    ),
    "dcr_avg_train_printed": Measure(
        "mean DCR to training rows", "higher", MARTINEZ, "bootstrap", PRIVACY
    ),
    "ad_rf": Measure("attack by random forest", "lower", MARTINEZ, "accuracy", PRIVACY),
    "ad_svm": Measure("attack by SVM", "lower", MARTINEZ, "accuracy", PRIVACY),
    "ad_nb": Measure("attack by naive Bayes", "lower", MARTINEZ, "accuracy", PRIVACY),
    "ad_knn": Measure("attack by k-NN", "lower", MARTINEZ, "accuracy", PRIVACY),
    "ad_lr": Measure("attack by logistic regression", "lower", MARTINEZ, "accuracy", PRIVACY),
    "ad_ens": Measure("attack by majority vote", "lower", MARTINEZ, "accuracy", PRIVACY),
    "ad_dum": Measure("guess of the most frequent class", "lower", MARTINEZ, "accuracy", PRIVACY),
    "ad_rmean": Measure("mean of the attacks", "lower", MARTINEZ, "accuracy", PRIVACY),
    # columns, pairs and sizes
    "hellinger_fd": Measure(
        "Hellinger distance", "lower", MARTINEZ, "bins of Freedman and Diaconis"
    ),
    "pmse_depth6": Measure(
        "propensity MSE", "lower", MARTINEZ, "a tree of depth 6 on its own rows"
    ),
    "hellinger_column": Measure("Hellinger distance of a column", "lower", MARTINEZ),
    "association_error": Measure("error of an association", "lower", MARTINEZ),
    "classes": Measure("classes that occur"),
    "share": Measure("share of rows"),
    "association": Measure("association"),
    "n_instances": Measure("rows"),
    "n_categorical": Measure("categorical columns"),
    "n_numerical": Measure("numeric columns"),
    "larger_class_percent": Measure("larger class", unit="%"),
    "distance_by_scale": Measure("mean DCR to training rows", work=MARTINEZ, unit="on one scale"),
    "jsd": Measure("JSD", "lower", LEITNER, "0 to 1"),
    "wd": Measure("WD", "lower", LEITNER, "parts of the range"),
    "cramers_v": Measure("Cramér's V", work=LEITNER),
    "pearson": Measure("Pearson's r", work=LEITNER),
    # classifiers trained on synthetic rows
    "auc_gbt": Measure("AUC, gradient boosting", "higher", MADDOCK),
    "accuracy": Measure("accuracy", "higher", SATTAROV),
    "accuracy_ada": Measure("accuracy, AdaBoost", "higher", LEITNER),
    "accuracy_dt": Measure("accuracy, decision tree", "higher", SATTAROV),
    "accuracy_knn": Measure("accuracy, k-NN", "higher", LEITNER),
    "accuracy_lr": Measure("accuracy, logistic regression", "higher", SATTAROV),
    "accuracy_mlp": Measure("accuracy, MLP", "higher", LEITNER),
    "accuracy_rf": Measure("accuracy, random forest", "higher", LEITNER),
    "auroc": Measure("AUROC", "higher", LEITNER),
    "auroc_ada": Measure("AUROC, AdaBoost", "higher", LEITNER),
    "auroc_knn": Measure("AUROC, k-NN", "higher", LEITNER),
    "auroc_mlp": Measure("AUROC, MLP", "higher", LEITNER),
    "auroc_rf": Measure("AUROC, random forest", "higher", LEITNER),
    "auprc": Measure("AUPRC", "higher", LEITNER),
    "auprc_ada": Measure("AUPRC, AdaBoost", "higher", LEITNER),
    "auprc_knn": Measure("AUPRC, k-NN", "higher", LEITNER),
    "auprc_mlp": Measure("AUPRC, MLP", "higher", LEITNER),
    "auprc_rf": Measure("AUPRC, random forest", "higher", LEITNER),
    "accuracy_guess": Measure("accuracy of the most frequent class", work=LEITNER),
    # as benchmarks of the field measure: NIST's, and HeteroFedSyn's
    "k_marginal": Measure("k-marginal score", "higher", unit="of 1000"),
    "k_marginal_worst": Measure("k-marginal score of the worst area", "higher", unit="of 1000"),
    "query_error_1": Measure("error of one-way range queries", "lower"),
    "query_error_2": Measure("error of two-way range queries", "lower"),
    "query_error_3": Measure("error of three-way range queries", "lower"),
    "tvd_1": Measure("total variation of columns", "lower"),
    "tvd_2": Measure("total variation of pairs", "lower"),
    "tvd_3": Measure("total variation of triples", "lower"),
    "auc_hgb": Measure("AUC, boosted trees", "higher"),
    "f1_hgb": Measure("macro F1, boosted trees", "higher"),
    "auc_hgb_tuned": Measure("AUC, tuned boosted trees", "higher"),
    "f1_hgb_tuned": Measure("macro F1, tuned boosted trees", "higher"),
    "sdm_column_shapes": Measure("column shapes, SDMetrics", "higher"),
    "sdm_column_pair_trends": Measure("column pair trends, SDMetrics", "higher"),
    "sdm_data_validity": Measure("data validity, SDMetrics", "higher"),
    "sdm_data_structure": Measure("data structure, SDMetrics", "higher"),
    "rounds": Measure("rounds, at most", "lower"),
    # membership: attacks on one table, and the audit of a method
    "mia_closest": Measure("membership attack, closest", "lower", unit="AUC"),
    "mia_calibrated": Measure("membership attack, calibrated", "lower", unit="AUC"),
    "attack_auc": Measure("membership attack", "lower", unit="AUC"),
    "attack_tpr1": Measure("caught at 1 % false alarms", "lower", unit="share"),
    "attack_tpr01": Measure("caught at 0.1 % false alarms", "lower", unit="share"),
    "attack_trials": Measure("trials"),
    "epsilon_bound": Measure("ε is at least", "lower"),
    "epsilon_first_half": Measure("ε is at least", "lower", unit="first half of the runs"),
    "epsilon_ceiling": Measure("largest ε that can be shown"),
    # marginals, likelihood, traffic, and how unlike clients are
    "workload_error": Measure("workload error", "lower", MADDOCK, "L1, 0 to 2"),
    "workload_error_closure": Measure("workload error, closure", "lower", MADDOCK, "L1, 0 to 2"),
    "nll": Measure("negative log-likelihood", "lower", MADDOCK, "nats per row"),
    "nll_columns_dropped": Measure("columns without likelihood", work=MADDOCK),
    "client_throughput_mb": Measure("client traffic", "lower", MADDOCK, "MB"),
    "mean_heterogeneity": Measure("heterogeneity", work=MADDOCK, unit="0: all clients alike"),
    "by_chance": Measure("heterogeneity by chance", work=MADDOCK, unit="0: all clients alike"),
    "smallest_client": Measure("smallest client", unit="rows"),
    "median_client": Measure("median client", unit="rows"),
    "largest_client": Measure("largest client", unit="rows"),
    "variance_between": Measure("variance between clients", work=MADDOCK),
    "variance_by_chance": Measure("variance between clients by chance", work=MADDOCK),
    "map_mean": Measure("mean of a square of the map"),
    "map_client": Measure("most frequent client of a square of the map"),
    "map_share": Measure("share of rows in a square of the map"),
    # risks and fidelity by columns and pairs
    "fidelity": Measure("fidelity Ω", "higher", SATTAROV),
    "fidelity_columns": Measure("fidelity of columns", "higher", SATTAROV),
    "fidelity_pairs": Measure("fidelity of pairs", "higher", SATTAROV),
    "mixing": Measure("mixing", "half", SATTAROV, "share of neighbours"),
    "risk": Measure("privacy risk Π", "lower", SATTAROV),
    "singling_out": Measure("singling out", "lower", SATTAROV, "residual risk"),
    "singling_out_univariate": Measure(
        "singling out by one column", "lower", SATTAROV, "residual risk"
    ),
    "singling_out_multivariate": Measure(
        "singling out by several columns", "lower", SATTAROV, "residual risk"
    ),
    "linkability": Measure("linkability", "lower", SATTAROV, "residual risk"),
    "inference": Measure("inference", "lower", SATTAROV, "residual risk"),
    "client_share": Measure("share of the rows at a client", work=SATTAROV),
    # divergence by a network, and distances to the nearest row
    "js_divergence": Measure("Jensen–Shannon divergence", "lower", APELLANIZ, "bits", version=2),
    "js_epochs": Measure("epochs of the network", work=APELLANIZ),
    "js_column": Measure("Jensen–Shannon divergence of a column", "lower", APELLANIZ, "bits"),
    "acc_synthetic_real": Measure("accuracy on real rows", "higher", APELLANIZ),
    "acc_real_real": Measure("accuracy on real rows, of real rows", "higher", APELLANIZ),
    "p_wilcoxon": Measure("p-value of Wilcoxon's test", work=APELLANIZ),
    "p_kolmogorov_smirnov": Measure("p-value of the test of Kolmogorov and Smirnov"),
    "real_min": Measure("smallest distance between real rows", work=APELLANIZ),
    "real_mean": Measure("mean distance between real rows", work=APELLANIZ),
    "real_zero": Measure("share of real rows at distance 0", work=APELLANIZ),
    "real_share": Measure("share of real rows"),
    "synthetic_min": Measure("smallest distance to a real row", "higher", APELLANIZ),
    "synthetic_mean": Measure("mean distance to a real row", "higher", APELLANIZ),
    "synthetic_zero": Measure("share of synthetic rows at distance 0", "lower", APELLANIZ),
    "synthetic_share": Measure("share of synthetic rows"),
    "n_samples": Measure("rows"),
    "n_features": Measure("columns"),
    "n_classes": Measure("classes"),
    "class_proportion_percent": Measure("share of a class", unit="%"),
    "same_value": Measure("share of rows with the same value"),
    "bmi_mean": Measure("mean BMI", unit="kg/m²"),
    "bmi_std": Measure("standard deviation of BMI", unit="kg/m²"),
    "below_median": Measure("share of rows below the median"),
    "trained_elsewhere": Measure("share of rows that another node trained on"),
    # what needs no network
    "jsd_held_out": Measure("JSD of held-out rows", work=LEITNER, unit="0 to 1"),
    "wd_held_out": Measure("WD of held-out rows", work=LEITNER, unit="parts of the range"),
    "chance_in_batch": Measure("probability to be in a batch", work=LEITNER),
    "modes": Measure("modes of a mixture", work=LEITNER),
    "client_rows": Measure("rows of a client"),
    "distance_part": Measure("part of the distances", work=LEITNER),
    "weight_by_similarity": Measure("weight by similarity", work=LEITNER),
    "mixture_weight": Measure("weight of a mode", work=LEITNER),
    "mixture_mean": Measure("mean of a mode", work=LEITNER),
    "mixture_deviation": Measure("standard deviation of a mode", work=LEITNER),
    "positives": Measure("share of positives"),
    # searches: what leads, and what would lead by chance
    "importance": Measure("importance", unit="share of all"),
    "importance_by_chance": Measure("importance by chance", unit="share of all"),
    "first_by_chance": Measure("share of searches in which it leads by chance"),
    "correlation": Measure("correlation with log-cluster"),
    # sizes and costs
    "n_train": Measure("training rows"),
    "n_test": Measure("test rows"),
    "n_continuous": Measure("continuous columns"),
    "n_discrete": Measure("discrete columns"),
    "seconds": Measure("duration", "lower", unit="s"),
    "seconds_training": Measure("duration of training", "lower", unit="s"),
    "peak_gib": Measure("peak memory", "lower", unit="GiB"),
}
METRICS = {name: measure for name, measure in MEASURES.items() if measure.group}
ARROWS = {"lower": " ↓", "higher": " ↑", "half": "", "none": ""}
ENDINGS = ("_low", "_high", "_success", "_advantage", "_caught")  # of an interval, and of an attack


def base(name: str) -> str:
    """The measure that a name belongs to: `risk` for `risk_high`."""
    ending = next((ending for ending in ENDINGS if name.endswith(ending)), "")
    return name if name in MEASURES else name.removesuffix(ending)


def axis_label(name: str) -> str:
    """A measure on an axis: label, unit in brackets, and an arrow towards better; an end of its
    interval has the label alone. A name that is no measure stays, with spaces."""
    known = base(name)
    if known not in MEASURES:
        return name.replace("_", " ")
    if known != name:
        return MEASURES[known].label + name.removeprefix(known).replace("_", ", ")
    measure = MEASURES[name]
    unit = f" ({measure.unit})" if measure.unit else ""
    return f"{measure.label}{unit}{ARROWS[measure.better]}"


def sign(name: str) -> int:
    """1 where more is better, -1 where less is; 0 where neither is, or the name is no measure."""
    better = MEASURES[name].better if name in MEASURES else "none"
    return {"higher": 1, "lower": -1}.get(better, 0)
