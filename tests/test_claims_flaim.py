"""Each check of FLAIM's claims on rows made by hand: where it holds, fails, holds partly, and
cannot be told."""

from itertools import product

import numpy as np
import pandas as pd
import pytest

from fedsynth_lib.core.contract import BadInput
from fedsynth_lib.printed.published import judge_claims, load_values
from fedsynth_lib.runs.rows import params_text, read_params, to_frame
from fedsynth_lib.verdicts.claims_flaim import CHECKS, SEVEN, THREE, at_best_rounds

NAMES = {
    "naive": "NaiveFLAIM",
    "oracle": "AugFLAIM (Oracle)",
    "private": "AugFLAIM (Private)",
    "dist": "DistAIM",
}
NAMES |= {"aim": "AIM", "combined": "true skew, filter and combine", "penalty": "private skew only"}
NAMES |= {"random": "FLAIM (Random)", "bayes": "FedNaiveBayes", "ctgan": "Fed DP-CTGAN"}
NAIVE, _, PRIVATE, DISTAIM, AIM, _, _, RANDOM, _, CTGAN = NAMES.values()
NAMES["weights"] = "weights only"


def params_of(**setting):
    return params_text({"rounds": 10, "participation": 0.1, **setting})


def changed(each, **setting):
    return {**each, "params": params_text({**read_params(each["params"]), **setting})}


def row(method, value, seed=0, metric="workload_error", dataset="adult", epsilon=1.0, **setting):
    """A row as a run leaves it."""
    central, partition = method == AIM, setting.pop("partition", "cluster_skew")
    return {
        **{
            "paper": "maddock2024",
            "profile": "quick",
            "data": "real",
            "dataset": dataset,
            "method": method,
        },
        **{
            "partition": "none" if central else partition,
            "setting": "central" if central else "federated",
        },
        **{
            "n_clients": None if central else 100,
            "epsilon": epsilon,
            "params": params_text({}) if method == CTGAN else params_of(**setting),
        },
        **{"metric": metric, "value": value, "seed": seed},
    }


def curves(x, values, spread=0.0, at=None, **by_method):
    """Rows of each method (as in NAMES) at each value of x, of two seeds, `spread` to either side
    of the number."""
    rows, spread = [], np.broadcast_to(spread, len(values))
    for (name, numbers), (seed, side) in product(by_method.items(), enumerate((-1, 1))):
        places = zip(values, np.broadcast_to(numbers, len(values)) + side * spread, strict=True)
        rows += [
            row(NAMES[name], number, seed, **{**(at or {}), x: value}) for value, number in places
        ]
    return rows


def tab1(values=THREE, **numbers):
    base = {"bayes": 25, "random": 80, "naive": 30, "private": 20, **numbers}
    return curves("dataset", values, at={"metric": "nll", "epsilon": 5.0}, **base)


def ablation(dataset, spread=0.0, **numbers):
    base = {"naive": 0.8, "oracle": 0.6, "penalty": 0.7, "combined": 0.4, "private": 0.5}
    return curves(
        "rounds", [4, 10], spread, {"epsilon": 5.0, "dataset": dataset}, **{**base, **numbers}
    )


def budgets(**numbers):
    base = {"aim": 0.2, "dist": 0.4, "private": 0.42, "oracle": 0.6, "naive": 0.8}
    return curves("epsilon", [0.5, 8.0, 100.0], **{**base, **numbers})


def rounds(annealed=0.9, spread=(0.01, 0.01, 0.01, 0.1), **numbers):
    base = {
        "dist": [0.6, 0.5, 0.4, 0.35],
        "naive": [0.8, 0.7, 0.75, 0.9],
        "oracle": [0.7, 0.6, 0.65, 0.8],
    }
    base |= {"private": [0.6, 0.45, 0.5, 0.8], **numbers}
    return curves("rounds", [4, 10, 64, 100], spread, **base) + curves(
        "rounds", ["annealed"], **dict.fromkeys(base, annealed)
    )


def participation(aim=0.4, **numbers):
    """Falls per doubling of p, four doublings from 0.05 on: Naive 0.01, others 0.05."""
    base = {
        "naive": [0.84, 0.8],
        "oracle": [0.8, 0.6],
        "private": [0.6, 0.4],
        "dist": [0.6, 0.4],
        **numbers,
    }
    return [*curves("participation", [0.05, 0.5], **base), row(AIM, aim)]


def label_skew(**numbers):
    base = {
        "naive": [0.9, 0.8, 0.7],
        "oracle": [0.8, 0.6, 0.6],
        "private": [0.7, 0.5, 0.5],
        "dist": [0.7, 0.5, 0.45],
    }
    return curves("beta", [0.01, 0.2, 0.9], at={"partition": "label_skew"}, **{**base, **numbers})


def local(metric, four):
    """0.5 with one local step, `four` with four."""
    one = curves(
        "rounds", [1, 5, 20, 30], at={"metric": metric}, naive=0.5, oracle=0.5, private=0.5
    )
    return one + curves("rounds", [1, 5, 20, 30], at={"metric": metric, "local_steps": 4}, **four)


def tab2(dataset_of=SEVEN, **numbers):
    base = {"aim": 0.1, "private": 0.3, "dist": 0.4, "oracle": 0.5, "naive": 0.7, **numbers}
    both = [
        curves("dataset", dataset_of, at={"metric": metric}, **base)
        for metric in ("workload_error", "nll")
    ]
    return both[0] + both[1]


def tuned(dataset="adult", last=128, error=0.21, nll=17.8, mb=(120.0, 0.1)):
    """DistAIM best at T=128 (or `last`), AugFLAIM (Private) at 64: twice the rounds, 1200 times the
    bytes."""
    rows = []
    for metric, dist, private in (
        ("workload_error", [0.9, 0.8, error], [0.6, 0.5, 0.9]),
        ("nll", [30.0, 25.0, nll], [30.0, 20.0, 50.0]),
        ("client_throughput_mb", [1.0, 2.0, mb[0]], [0.01, mb[1], 1.0]),
    ):
        at = {"dataset": dataset, "metric": metric}
        rows += curves("rounds", [8, 64, last], at=at, dist=dist, private=private)
    return rows


def skewed(**numbers):
    base = {
        "naive": [1.2, 0.9, 0.5],
        "private": [0.7, 0.5, 0.4],
        "dist": [0.6, 0.5, 0.4],
        **numbers,
    }
    return curves("beta", [1.0, 3.0, 5.0], at={"dataset": "synthfs", "partition": "owner"}, **base)


def dropped(rows, **where):
    """Without the rows that agree in all of `where`, which are some."""
    kept = [each for each in rows if any(each[name] != value for name, value in where.items())]
    assert len(kept) < len(rows)
    return kept


def judge(claim, rows):
    return CHECKS[claim](to_frame(rows))


FOUR = {name: [0.5, 0.54, 0.7, 0.8] for name in ("naive", "oracle", "private")}
AUC4 = {name: [0.8, 0.8, 0.7, 0.7] for name in ("naive", "oracle", "private")}
AUC = local("auc_gbt", AUC4) + curves(
    "rounds", [1, 5, 20, 30], at={"metric": "auc_gbt"}, dist=0.805
)
HALF_NOISE = ablation("covertype", 0.01, oracle=0.9, penalty=0.9)
BOTH_NOISE = ablation("adult", 0.01, oracle=0.9, penalty=0.9) + HALF_NOISE

CASES = [
    # claim, outcome, rows
    ("c02", True, tab1()),
    ("c02", (1 + 1 + 2 / 3) / 3, tab1(naive=[30, 19, 30])),
    ("c02", False, tab1(private=90)),
    ("c02", 3 / 4, tab1(ctgan=15)),  # once it is run, it counts
    ("c02", None, dropped(tab1(), method=RANDOM)),
    ("c03", True, tab1()),
    ("c03", (1 + 1 / 3) / 2, tab1(naive=[90, 90, 30])),
    ("c03", False, tab1(random=15)),
    ("c03", None, dropped(tab1(), method=NAIVE, dataset="covertype")),
    ("c05", True, ablation("credit_fraud")),
    ("c05", 7 / 8, ablation("credit_fraud", oracle=[0.85, 0.6])),
    ("c05", False, ablation("credit_fraud", naive=0.3, oracle=0.4, combined=0.5, penalty=0.6, private=0.7)),
    ("c05", None, ablation("adult")),
    ("c06", True, BOTH_NOISE),
    ("c06", 5 / 6, ablation("adult", 0.01, oracle=0.7, penalty=0.9) + HALF_NOISE),
    # 0.1 less, errors of 0.14
    ("c06", True, ablation("adult", 0.1, oracle=0.7, penalty=0.9) + HALF_NOISE),
    # the weights' gain, not its own
    ("c06", 3 / 5, ablation("adult", 0.01, oracle=0.7, penalty=0.7, weights=0.7)),
    ("c06", 2 / 5, ablation("adult", 0.01, oracle=0.7, penalty=0.75, weights=0.75)),
    ("c06", 2 / 3, ablation("adult", 0.01, oracle=0.9, penalty=0.9, combined=0.95, private=0.95)),
    ("c06", False, ablation("covertype", 0.01, oracle=0.2, penalty=0.2)),
    ("c06", None, [each for each in BOTH_NOISE if each["seed"] == 0]),
    ("c07", True, budgets()),
    ("c07", 2 / 3, budgets(oracle=[0.6, 0.6, 0.9])),
    ("c07", False, budgets(naive=0.1)),
    ("c07", None, dropped(budgets(), method=AIM)),
    ("c08", True, budgets()),
    # at 0.5 it may be far off, at 8 by 10 percent
    ("c08", 3 / 4, budgets(private=[0.5, 0.45, 0.2])),
    ("c08", False, budgets(private=0.7)),
    ("c08", None, dropped(budgets(), epsilon=100.0)),
    ("c09", True, budgets()),
    ("c09", 1 / 3, budgets(dist=[0.1, 0.4, 0.1])),
    ("c09", False, budgets(dist=0.1)),
    ("c09", None, dropped(budgets(), method=AIM, epsilon=8.0)),
    ("c10", True, rounds()),
    ("c10", (2 / 3 + 1 + 1) / 3, rounds(dist=[0.6, 0.5, 0.51, 0.4])),
    ("c10", (1 + 2 / 3 + 1) / 3, rounds(naive=[0.8, 0.7, 0.6, 0.5])),
    ("c10", 2 / 3, rounds(spread=(0.1, 0.01, 0.01, 0.05))),
    ("c10", False, rounds(**dict.fromkeys(("naive", "oracle", "private"), 0.4), dist=0.5, spread=0.01)),
    ("c10", None, [each for each in rounds() if each["seed"] == 0]),
    ("c11", True, rounds()),
    ("c11", (1 / 4 + 1) / 2, rounds(annealed=0.42)),
    ("c11", False, rounds(annealed=0.1, private=[0.6, 0.5, 0.4, 0.8])),
    ("c11", None, dropped(rounds(), params=params_of(rounds="annealed"))),
    ("c12", True, participation()),
    ("c12", True, participation(aim=0.364)),  # 0.4 is 10 percent above
    ("c12", 2 / 3, participation(aim=0.36)),
    ("c12", (1 + 2 / 3 + 1) / 3, participation(oracle=[0.62, 0.6])),
    ("c12", 2 / 3, participation(private=[0.67, 0.4])),
    ("c12", False, participation(aim=0.2, naive=[0.9, 0.1], private=[0.7, 0.4])),
    ("c12", None, dropped(participation(), params=params_of(participation=0.5))),
    ("c13", True, label_skew()),
    ("c13", (1 / 2 + 1 + 1) / 3, label_skew(oracle=[0.8, 0.6, 0.75])),
    ("c13", (1 + 1 / 2 + 1) / 3, label_skew(private=[0.7, 0.5, 0.52])),
    ("c13", (1 + 1 + 3 / 4) / 3, label_skew(dist=[0.4, 0.5, 0.45])),
    ("c13", False, label_skew(naive=0.3, oracle=0.6, private=0.7, dist=0.5)),
    ("c13", None, dropped(label_skew(), params=params_of(beta=0.01))),
    ("c14", True, local("workload_error", FOUR)),
    ("c14", (5 / 6 + 1) / 2, local("workload_error", {**FOUR, "naive": [0.5, 0.5, 0.4, 0.5]})),
    ("c14", (1 + 5 / 6) / 2, local("workload_error", {**FOUR, "naive": [0.56, 0.5, 0.5, 0.5]})),
    ("c14", False, local("workload_error", {name: [0.4, 0.6, 0.4, 0.4] for name in FOUR})),
    ("c14", None, dropped(local("workload_error", FOUR), params=params_of(rounds=30))),
    ("c15", True, AUC),
    ("c15", (5 / 6 + 1) / 2, AUC[:24] + local("auc_gbt", {**AUC4, "naive": [0.4, 0.8, 0.7, 0.7]})[24:] + AUC[48:]),
    ("c15", 1 / 2, AUC[:48] + curves("rounds", [1, 5, 20, 30], at={"metric": "auc_gbt"}, dist=0.82)),
    ("c15", False, local("auc_gbt", dict.fromkeys(AUC4, 0.4)) + AUC[48:]),
    ("c15", None, dropped(AUC, params=params_of(rounds=5, local_steps=4))),
    ("c16", 1 / 2, tab2()),  # best on all seven, which is too many
    ("c16", True, tab2(dist=[0.28] * 3 + [0.4] * 4)),
    ("c16", 1 / 2 + 4 / 14, tab2(dist=[0.2] * 3 + [0.4] * 4)),
    ("c16", False, tab2(dist=0.2)),
    ("c16", True, tab2(["adult", "magic"])),
    ("c16", None, dropped(tab2(), method=DISTAIM, dataset="magic")),
    ("c17", True, tab2()),
    ("c17", 26 / 28, tab2(oracle=[0.2] + [0.5] * 6)),
    ("c17", False, tab2(["magic"], private=0.9, naive=0.1)),
    ("c17", None, dropped(tab2(), metric="nll")),
    ("c18", True, tab2()),
    ("c18", 1 / 2, tab2(["adult", "magic"], naive=[0.05, 0.7])),
    ("c18", False, tab2(aim=0.9)),
    ("c18", None, dropped(tab2(), method=AIM)),
    ("c19", True, tuned() + tuned("covertype", mb=(1.2, 0.1))),
    ("c19", True, tuned("bank_additional", mb=(1.2, 0.1))),
    ("c19", 1 / 2, tuned(mb=(90.0, 0.1))),  # above 10, not above 1000
    ("c19", (1 / 2 + 1 + 0) / 3, tuned() + tuned("covertype", mb=(1.2, 0.1)) + tuned("intrusion", mb=(0.5, 0.1))
     + tuned("census_kdd", mb=(0.6, 0.1))),
    ("c19", False, tuned(mb=(0.9, 0.1))),
    ("c19", None, tuned(last=32)),  # T not tuned far enough
    ("c19", None, dropped(tuned(), method=PRIVATE)),
    ("c20", True, tuned()),
    ("c20", 3 / 4, tuned(mb=(90.0, 0.1))),
    ("c20", False, tuned(last=160, error=0.4, nll=15.0, mb=(9.0, 0.1))),
    ("c20", None, tuned("magic")),
    ("c22", True, skewed()),
    ("c22", 2 / 3, skewed(private=[0.73, 0.5, 0.4])),
    ("c22", False, skewed(naive=[0.7, 0.6, 0.6], private=0.8)),
    ("c22", None, dropped(skewed(), params=params_of(beta=5))),
]  # fmt: skip


@pytest.mark.parametrize(
    ("claim", "expected", "rows"), CASES, ids=[f"{c}-{n}" for n, (c, *_) in enumerate(CASES)]
)
def test_the_outcome_follows_the_numbers(claim, expected, rows):
    outcome, evidence = judge(claim, rows)
    assert outcome == (expected if expected is None else pytest.approx(expected)), evidence
    assert isinstance(outcome, bool) == isinstance(expected, bool)
    assert evidence and "\n" not in evidence and "nan" not in evidence
    assert ("missing" in evidence or "2 seeds" in evidence) == (expected is None)


def test_every_claim_has_a_case_of_each_kind():
    claims = [f"c{number:02}" for number in (2, 3, *range(5, 21), 22)]
    assert list(CHECKS) == claims
    for claim in claims:
        found = [expected for name, expected, _ in CASES if name == claim]
        assert {True, False, None} <= {
            each for each in found if each is None or isinstance(each, bool)
        }, claim
        assert any(isinstance(each, float) for each in found), claim


def test_evidence_holds_the_numbers_and_names_what_was_not_run():
    assert judge("c09", budgets(dist=[0.1, 0.4, 0.1]))[1] == (
        "AIM < DistAIM in 1 of 3 (0.5: 0.2 v 0.1, 8: 0.2 v 0.4, 100: 0.2 v 0.1)"
    )
    assert judge("c17", tab2(["adult", "magic"]))[1].endswith(
        "nll: AugFLAIM (Oracle) < NaiveFLAIM in 2 of 2 (adult: 0.5 v 0.7, magic: 0.5 v 0.7)"
        "; not run: credit_fraud, covertype, census_kdd, intrusion, bank_additional"
    )
    assert judge("c02", tab1())[1].endswith("; not run: Fed DP-CTGAN")
    assert "ratio 0.60 to 1.50, not at adult" in judge("c17", tab2(oracle=[0.2] + [0.5] * 6))[1]
    assert judge("c20", tuned())[1] == (
        "2 x the rounds, 2 wanted; 1200 x the bytes (14400 as the work counts), 1300 wanted; "
        "error gain 58 percent, 58 wanted; NLL gain 11 percent, 11 wanted"
    )
    missing = judge("c03", dropped(tab1(), method=NAIVE, dataset="covertype"))[1]
    assert missing.startswith(
        "rows are missing: NaiveFLAIM at dataset covertype (metric nll, epsilon 5"
    )


def test_only_rows_of_the_published_estimator_and_of_this_work_count():
    rows = to_frame(budgets())
    strange = [{**changed(each, estimator="ours"), "value": 9.0} for each in budgets()]
    strange += [{**changed(each, measure_share=0.5), "value": 9.0} for each in budgets()]
    strange += [{**each, "paper": "leitner2023", "value": 9.0} for each in budgets()]
    strange += [{**each, "dataset": "magic", "value": 0.0} for each in budgets()]
    strange += [{**changed(each, rounds=16), "value": 0.0} for each in budgets()]
    for claim in ("c07", "c08", "c09"):
        assert CHECKS[claim](pd.concat([to_frame(strange), rows])) == CHECKS[claim](rows)
        assert CHECKS[claim](to_frame(strange))[0] is None
    with pytest.raises(BadInput, match="one profile at a time"):
        CHECKS["c07"](pd.concat([rows, rows.assign(profile="paper")]))


def test_a_run_that_several_grids_share_counts_once():
    others, naive = (
        dropped(budgets(), method=NAIVE),
        [each for each in budgets() if each["method"] == NAIVE],
    )
    # 0.5 is below the oracle's 0.6
    uneven = [{**each, "value": 0.9 if each["seed"] else 0.1} for each in naive]
    assert (
        judge("c07", others + uneven)[0]
        is judge("c07", others + uneven + 2 * uneven[1::2])[0]
        is False
    )


def test_the_best_rounds_are_those_of_the_mean_error():
    best = at_best_rounds(to_frame(tuned() + tuned("magic", last=160)))
    found = best.groupby(["dataset", "method"])[["rounds", "longest"]].agg(set)
    assert found.loc[("adult", DISTAIM)].tolist() == [{128}, {128}]
    assert found.loc[("adult", PRIVATE)].tolist() == [{64}, {128}]
    assert found.loc[("magic", DISTAIM)].tolist() == [{160}, {160}]
    assert (
        set(best["metric"]) == {"workload_error", "nll", "client_throughput_mb"}
        and len(best) == 2 * 2 * 3 * 2
    )
    assert at_best_rounds(to_frame(budgets()), epsilon=3.0).empty


def test_the_printed_tables_bear_out_the_claims_about_them():
    tables = pd.concat([load_values("maddock2024", name) for name in ("tab1", "tab2")]).dropna(
        subset="mean"
    )
    central = tables["setting"] == "central"
    tables = tables.assign(value=tables["mean"], seed=0, profile="paper", data="real")
    tables["partition"] = tables["partition"].mask(central, "none")
    tables["params"] = np.where(tables["method"] == CTGAN, params_text({}), params_of())
    printed = to_frame(tables.drop(columns=["mean", "std"]).to_dict("records"))
    judged = judge_claims("maddock2024", printed, CHECKS).set_index("id")
    judged.index = judged.index.str.removeprefix("maddock2024/")
    assert (judged.loc[["c02", "c03", "c16", "c17", "c18"], "verdict"] == "holds").all()
    assert (
        "best in both on 4 of 7 (covertype, magic, census_kdd, bank_additional)"
        in judged.loc["c16", "evidence"]
    )
    assert (judged["verdict"] == "holds").sum() == 5  # the sweeps are not printed in numbers
