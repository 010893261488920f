"""The names that result rows may carry: what is measured, in which version, and by which names
methods go.

A cell's identity holds the version of its method and of what it measures (`version`). A measure in
its first version is not named there, so a measure that is added changes no other cell; raise a
number here whenever values of that measure change by more than the order of sums, and the cells
that hold it are computed anew.
"""

from collections.abc import Iterable

from fedsynth_lib.core.contract import BadInput
from fedsynth_lib.methods import METHODS as registered
from fedsynth_lib.methods import REGISTRY

MEASURES: dict[str, int] = {
    # columns, pairs, the whole: martinez2024, leitner2023
    **dict.fromkeys(
        ("hellinger", "hellinger_column", "pcd", "pmse", "classes", "association_error"), 1
    ),
    **dict.fromkeys(
        (
            "share",
            "association",
            "n_instances",
            "n_categorical",
            "n_numerical",
            "larger_class_percent",
        ),
        1,
    ),
    **dict.fromkeys(("log_cluster", "log_cluster_base2", "log_cluster_printed"), 1),
    **dict.fromkeys(("jsd", "wd", "cramers_v", "pearson"), 1),
    # use: AUC of three models from labels and from probabilities, and the classifiers of the other
    #     works
    **dict.fromkeys(
        ("auc_rf", "auc_nb", "auc_knn", "auc_rf_score", "auc_nb_score", "auc_knn_score", "auc_gbt"),
        1,
    ),
    **dict.fromkeys(("accuracy", "accuracy_ada", "accuracy_knn", "accuracy_mlp", "accuracy_rf"), 1),
    **dict.fromkeys(("accuracy_dt", "accuracy_lr"), 1),
    **dict.fromkeys(("auroc", "auroc_ada", "auroc_knn", "auroc_mlp", "auroc_rf"), 1),
    **dict.fromkeys(("auprc", "auprc_ada", "auprc_knn", "auprc_mlp", "auprc_rf"), 1),
    # distances and attacks
    **dict.fromkeys(
        ("dcr_min", "dcr_share", "dcr_avg_train", "dcr_avg_holdout", "dcr_avg_train_all"), 1
    ),
    **dict.fromkeys(("dcr_share_printed", "dcr_avg_train_printed", "distance_by_scale"), 1),
    **dict.fromkeys(
        ("ad_rf", "ad_svm", "ad_nb", "ad_knn", "ad_lr", "ad_ens", "ad_dum", "ad_rmean"), 1
    ),
    **dict.fromkeys(("mia_closest", "mia_calibrated"), 1),
    **dict.fromkeys(("attack_auc", "attack_tpr1", "attack_tpr01", "attack_trials"), 1),
    **dict.fromkeys(("epsilon_bound", "epsilon_first_half", "epsilon_ceiling"), 1),
    # maddock2024: workload, likelihood, traffic, and how unlike clients are
    **dict.fromkeys(("workload_error", "workload_error_closure", "nll", "nll_columns_dropped"), 1),
    **dict.fromkeys(("client_throughput_mb", "mean_heterogeneity", "by_chance"), 1),
    **dict.fromkeys(("smallest_client", "median_client", "largest_client"), 1),
    **dict.fromkeys(("variance_between", "variance_by_chance", "map_mean", "map_client"), 1),
    # sattarov2024
    **dict.fromkeys(("fidelity", "fidelity_columns", "fidelity_pairs", "mixing", "risk"), 1),
    **dict.fromkeys(("singling_out", "singling_out_univariate", "singling_out_multivariate"), 1),
    **dict.fromkeys(("linkability", "inference", "client_share", "map_share"), 1),
    # apellaniz2025
    **{"js_divergence": 2, "js_epochs": 1, "js_column": 1, "importance": 1},
    **dict.fromkeys(
        ("acc_synthetic_real", "acc_real_real", "p_wilcoxon", "p_kolmogorov_smirnov"), 1
    ),
    **dict.fromkeys(("real_min", "real_mean", "real_zero", "real_share"), 1),
    **dict.fromkeys(("synthetic_min", "synthetic_mean", "synthetic_zero", "synthetic_share"), 1),
    **dict.fromkeys(
        ("n_samples", "n_features", "n_classes", "class_proportion_percent", "same_value"), 1
    ),
    **dict.fromkeys(("bmi_mean", "bmi_std", "below_median", "trained_elsewhere"), 1),
    # leitner2023: what needs no network
    **dict.fromkeys(
        ("accuracy_guess", "jsd_held_out", "wd_held_out", "chance_in_batch", "modes"), 1
    ),
    **dict.fromkeys(("client_rows", "distance_part", "weight_by_similarity"), 1),
    **dict.fromkeys(("mixture_weight", "mixture_mean", "mixture_deviation"), 1),
    # searches: what leads, and what would lead by chance
    **dict.fromkeys(("importance_by_chance", "first_by_chance", "correlation"), 1),
    # tables and costs
    **dict.fromkeys(("n_train", "n_test", "n_continuous", "n_discrete", "positives"), 1),
    **dict.fromkeys(("seconds", "seconds_training", "peak_gib"), 1),
}
ENDINGS = ("_low", "_high", "_success", "_advantage", "_caught")  # of an interval, and of an attack
# floors and ceilings: nothing is trained
YARDSTICKS = ("A copy", "Second sample", "Shuffled columns")
METHODS = (  # as rows name them, where they do not by key
    *("", "real", "Real", *YARDSTICKS),
    *sorted({name for entry in REGISTRY.values() for name in entry.printed.values()}),
    # settings that works print as methods: of AugFLAIM (maddock2024) and VAE-BGM (apellaniz2025)
    *("true skew, filter and combine", "private skew only", "weights only"),
    *("Isolated", "FedAvg", "SDS"),
)


def base(metric: str) -> str:
    """The measure that a name belongs to: `risk` for `risk_high`."""
    ending = next((ending for ending in ENDINGS if metric.endswith(ending)), "")
    return metric if metric in MEASURES else metric.removesuffix(ending)


def is_metric(name: str) -> bool:
    return base(name) in MEASURES


def is_method(name: str) -> bool:
    """Whether rows may name this method: one of METHODS, or a key of the registry."""
    return name in METHODS or name in registered


def version(method: str, metrics: Iterable[str] = ()) -> str:
    """The version of a cell: `aim 1`, followed by those of its measures that are no longer in their
    first version.

    method: a key of the registry. Raises BadInput for a measure that is not in MEASURES.
    """
    bases = sorted({base(metric) for metric in metrics})
    if unknown := [name for name in bases if name not in MEASURES]:
        raise BadInput(
            f"the measure {unknown[0]!r} is unknown: list it in fedsynth_lib/runs/names.py."
        )
    later = [f"{name} {MEASURES[name]}" for name in bases if MEASURES[name] > 1]
    return ", ".join([f"{method} {registered[method].VERSION}" if method else "1", *later])
