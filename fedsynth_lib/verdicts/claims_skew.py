"""Check of the claim c21 of maddock2024, about its divisions, for `published.judge_claims`."""

import pandas as pd

from fedsynth_lib.printed.outcomes import Evidence
from fedsynth_lib.printed.published import Judgement

PLACE = ["dataset", "partition", "detail"]
# of table 5, with beta
DIVISIONS = [("iid", None), ("cluster_skew", None), ("label_skew", 0.1), ("label_skew", 0.8)]
# in the words of its values
KINDS = [(partition, f"beta={beta}" if beta else "") for partition, beta in DIVISIONS]


# clustering over i.i.d., of the printed values (claim c21)
PRINTED_RATIO = {"adult": 2.2, "magic": 1.5}


def judge_partitions(rows: pd.DataFrame) -> Judgement:
    """Claim c21 (section B.2, table 5): the share of its statements that our means over draws bear
    out."""
    means = rows[rows["metric"] == "mean_heterogeneity"].groupby(PLACE)["value"].mean()
    means = means.unstack(["partition", "detail"])  # (datasets, divisions)
    if any(kind not in means or means[kind].isna().any() for kind in KINDS):
        return None, "a division of table 5 is missing"
    iid, cluster, strong, weak = (means[kind] for kind in KINDS)
    ratio = cluster / iid
    held = {
        "all skewed divisions above i.i.d.": all(
            (each > iid).all() for each in (cluster, strong, weak)
        ),
        "label skew falls with beta": bool((weak < strong).all()),
        "clustering / i.i.d. within a tenth of the printed ratio": all(
            abs(ratio[dataset] / printed - 1) <= 0.1
            for dataset, printed in PRINTED_RATIO.items()
            if dataset in ratio
        ),
    }
    told = [
        (holds, f"{statement}: {'yes' if holds else 'no'}") for statement, holds in held.items()
    ]
    told += [
        (True, f"clustering / i.i.d. {value:.2f} ({dataset})") for dataset, value in ratio.items()
    ]
    share = sum(held.values()) / len(held)
    return (bool(share) if share in (0, 1) else share), Evidence.of(told)
