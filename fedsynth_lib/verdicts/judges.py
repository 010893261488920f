"""Every claim of the works, judged on committed rows: which check judges it, on the rows of which
grids.

A notebook that judges claims does so with the same checks on the same rows; here they are gathered,
so that a claim does not depend on what a notebook saved.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

import numpy as np
import pandas as pd

from fedsynth_lib.printed.published import (
    Judgement,
    judge_claims,
    load_claims,
    load_values,
)
from fedsynth_lib.runs.details import PRINTED
from fedsynth_lib.runs.rows import params_text, to_frame
from fedsynth_lib.verdicts import (
    claims,
    claims_ctgan,
    claims_fedbn,
    claims_fedvae,
    claims_findiff,
    claims_flaim,
    claims_flaim_gans,
    claims_models,
    claims_skew,
    claims_tuning,
    claims_vae_bgm,
)
from fedsynth_lib.works import load

EPSILONS = load("leitner2023").swept("fig5.6", "budget", "epsilon")

Check = Callable[[pd.DataFrame], Judgement]


class Judge(NamedTuple):
    """Claims of a work, the checks that know them, and the grids whose rows they are given."""

    work: str
    claims: Sequence[str]
    checks: Mapping[str, Check]
    grids: Sequence[str]
    prepare: Callable[[pd.DataFrame], pd.DataFrame] = lambda rows: rows


def numbered(first: int, last: int) -> list[str]:
    return [f"c{number:02d}" for number in range(first, last + 1)]


def at_nominal_budgets(rows: pd.DataFrame) -> pd.DataFrame:
    """Rows of leitner2023's sweep as algorithm 4.2 would have them: at least one epoch is trained,
    whatever the budget.

    The sweep has one budget more for each table, the smallest that pays for an epoch; budgets below
    it take its rows.
    """
    private = rows[np.isfinite(rows["epsilon"])]
    swept = private["epsilon"].isin(EPSILONS)
    parts = []
    for _, own in private.groupby("dataset"):
        epoch = own.loc[~own["epsilon"].isin(EPSILONS)]
        least = epoch["epsilon"].min()
        parts += [epoch.assign(epsilon=epsilon) for epsilon in EPSILONS if epsilon < least]
        parts.append(own[swept[own.index] & ~(own["epsilon"] < least)])
    return pd.concat(parts) if parts else private


FEDBN = [
    f"2{number}_martinez2024_fedbn_{group}"
    for number, group in enumerate(("fidelity", "utility", "privacy"))
]
FEDVAE = [
    f"2{number}_martinez2024_fedvae_{group}"
    for number, group in enumerate(("fidelity", "utility", "privacy"), 3)
]
SEARCHES = ["27_martinez2024_search_fedbn", "27_martinez2024_search_fedvae"]
NODES = ["61_apellaniz2025_iid", "62_apellaniz2025_skew"]
BASELINES = ["42_maddock2024_baselines", "42_maddock2024_ctgan"]
OF_PRIVACY = ["64_apellaniz2025_distances", "64_apellaniz2025_features"]
of_flaim = {**claims_flaim.CHECKS, **claims_flaim_gans.CHECKS}

JUDGES = [
    Judge(
        "martinez2024",
        list(claims_models.MODELS),
        claims_models.MODELS,
        [*FEDBN, *FEDVAE, "26_martinez2024_columns"],
    ),
    Judge("martinez2024", list(claims_tuning.TUNING), claims_tuning.TUNING, SEARCHES),
    Judge("martinez2024", list(claims.FEDBN_FIDELITY), claims.FEDBN_FIDELITY, FEDBN[:1]),
    Judge("martinez2024", numbered(21, 26), claims_fedbn.FEDBN, FEDBN[:2]),
    Judge("martinez2024", numbered(27, 31), claims_fedbn.FEDBN, FEDBN[2:]),
    Judge("martinez2024", numbered(32, 36), claims_fedvae.FEDVAE, FEDVAE[:1]),
    Judge("martinez2024", ["c03", *numbered(37, 41)], claims_fedvae.FEDVAE, FEDVAE[:2]),
    Judge(
        "martinez2024",
        ["c42", "c43"],
        claims_fedvae.FEDVAE,
        [*FEDVAE[2:], "25_martinez2024_fedvae_classes"],
    ),
    Judge(
        "leitner2023",
        [*numbered(1, 10), "c23", "c24"],
        claims_ctgan.CHECKS,
        ["31_leitner2023_runs"],
    ),
    Judge(
        "leitner2023",
        numbered(11, 16),
        claims_ctgan.CHECKS,
        ["31_leitner2023_runs", "32_leitner2023_pairs"],
    ),
    Judge(
        "leitner2023",
        ["c17", "c18"],
        claims_ctgan.CHECKS,
        ["33_leitner2023_label_skew", "31_leitner2023_runs"],
    ),
    Judge(
        "leitner2023",
        ["c19", "c20"],
        claims_ctgan.CHECKS,
        ["34_leitner2023_budget"],
        at_nominal_budgets,
    ),
    Judge("leitner2023", ["c21", "c22"], claims_ctgan.CHECKS, ["35_leitner2023_clients"]),
    Judge("maddock2024", ["c21"], {"c21": claims_skew.judge_partitions}, ["40_maddock2024_skew"]),
    Judge("maddock2024", ["c22"], of_flaim, ["41_maddock2024_feature_skew"]),
    Judge("maddock2024", ["c01", "c02", "c03", "c04", "c23"], of_flaim, BASELINES),
    Judge("maddock2024", ["c05", "c06"], of_flaim, ["43_maddock2024_ablation"]),
    Judge("maddock2024", numbered(7, 15), of_flaim, ["44_maddock2024_parameters"]),
    Judge("maddock2024", ["c16", "c17", "c18"], of_flaim, ["45_maddock2024_all_tables"]),
    Judge("maddock2024", ["c19", "c20"], of_flaim, ["46_maddock2024_communication"]),
    Judge("sattarov2024", numbered(1, 5), claims_findiff.FINDIFF, ["50_sattarov2024_updates"]),
    Judge("sattarov2024", numbered(6, 13), claims_findiff.FINDIFF, ["51_sattarov2024_budget"]),
    Judge("sattarov2024", numbered(14, 19), claims_findiff.FINDIFF, ["52_sattarov2024_clients"]),
    Judge("apellaniz2025", numbered(3, 8), claims_vae_bgm.VAE_BGM, NODES[:1]),
    Judge("apellaniz2025", ["c01", "c02", *numbered(9, 16)], claims_vae_bgm.VAE_BGM, NODES),
    Judge("apellaniz2025", numbered(17, 19), claims_vae_bgm.VAE_BGM, OF_PRIVACY),
    Judge("apellaniz2025", numbered(20, 24), claims_vae_bgm.OF_SIZES, ["63_apellaniz2025_sizes"]),
]


def judged(work: str, rows: pd.DataFrame) -> pd.DataFrame:
    """Every claim of a work by `judge_claims`, on rows with `grid` of one profile; `seeds`: of the
    runs behind it."""
    parts = []
    for judge in JUDGES:
        own = rows[rows["grid"].isin(judge.grids)]
        if judge.work == work and len(own):
            table = judge_claims(
                work, judge.prepare(own), {claim: judge.checks[claim] for claim in judge.claims}
            )
            table = table[table["id"].str.rpartition("/")[2].isin(judge.claims)]
            about = table["id"].map(load_claims(work).set_index("id")["datasets"])
            parts.append(table.assign(seeds=[_seeds(own, datasets) for datasets in about]))
    columns = ["id", "verdict", "share", "evidence", "fails", "seeds"]
    return pd.concat(parts, ignore_index=True)[columns] if parts else pd.DataFrame(columns=columns)


def on_print(work: str) -> dict[str, str]:
    """Claim id -> whether its check holds on the printed values: yes, partly, no, or not testable
    from tables.

    What the file of claims says, and where it says nothing, the same check on the printed values as
    rows.
    """
    known = load_claims(work).set_index("id")["holds_on_published_values"]
    if known.ne("").all():
        return known.to_dict()
    values = load_values(work).rename(columns={"mean": "value"})
    values = values[values["value"].notna()].assign(seed=0, profile="paper", data="none")
    values["params"] = [params_text(PRINTED.get(words, {})) for words in values["detail"]]
    rows = to_frame(values[[name for name in to_frame([]) if name in values]].to_dict("records"))
    rows["detail"] = values["detail"].to_numpy()
    found = {}
    for judge in (each for each in JUDGES if each.work == work):
        for claim in judge.claims:
            held, _ = judge.checks[claim](judge.prepare(rows))
            words = {None: "not testable from tables", 0: "no", 1: "yes"}
            found[f"{work}/{claim}"] = words.get(held, "partly")
    return known.where(known != "", known.index.map(found)).to_dict()


def _seeds(rows: pd.DataFrame, datasets: str) -> str:
    """`3`, or `1 to 5`: the fewest and the most runs of a method on a table that a claim is
    about."""
    about = rows[rows["dataset"].isin(datasets.split(";"))]
    keys = ["dataset", "method", "setting", "partition", "n_clients", "epsilon", "detail", "metric"]
    runs = (
        (about if len(about) else rows).groupby(keys, dropna=False)["seed"].nunique().clip(lower=1)
    )
    return f"{runs.min()}" if runs.min() == runs.max() else f"{runs.min()} to {runs.max()}"
