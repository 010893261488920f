"""Checks of the claims of sattarov2024 (FinDiff) for `published.judge_claims`; see
`verdicts/claims.py` how they conclude.

All read rows of sattarov2024 as published. Averages over datasets are of their means
over seeds; a stated percentage holds within five points. Rows of a shrunk run show numbers and get
no verdict: at hundreds of steps instead of 300,000 the noise of a budget drowns the gradient, and
settings differ by chance. `suffix` chooses the reading of risk: '' is the residual risk, '_success'
the rate of the main attack alone.
"""

from collections.abc import Callable, Sequence
from functools import partial
from itertools import pairwise, product

import numpy as np
import pandas as pd

from fedsynth_lib.printed.published import Judgement
from fedsynth_lib.runs.details import STRATEGIES
from fedsynth_lib.verdicts.claims import Condition, Missing, concluded, count, of_work
from fedsynth_lib.works import load
from fedsynth_lib.works.sattarov2024 import METHOD, USUAL, with_settings

WORK = "sattarov2024"
DATASETS = load(WORK).tables
EPSILONS = load(WORK).swept("fig5", "budget", "epsilon")
LOCAL_UPDATES = load(WORK).swept("fig4", "updates", "local_updates")
CLIENTS = load(WORK).swept("fig8", "clients", "n_clients")
UTILITY, FIDELITY, ATTACKS = "accuracy", "fidelity", ("singling_out", "linkability", "inference")
PARTITIONS = ("iid", "noniid")
PARAMETERS = ("partition", "n_clients", "epsilon", "local_updates", "strategy")
STATED = {"risk": 34, UTILITY: 15, FIDELITY: 14}  # percent by which epsilon 1 lies below no privacy
POINTS = 5
AT_ANY_SCALE = ("c05",)  # a ratio of times
TOO_SMALL = (
    "no verdict, since private models of a shrunk run have hardly moved from where they "
    "began; seen:"
)


def judge(
    rows: pd.DataFrame, claim: str, *, suffix: str = "", datasets: Sequence[str] = DATASETS
) -> Judgement:
    """Outcome and evidence by tidy rows of one profile. datasets: those that the claim is averaged
    over."""
    rows = of_work(rows, WORK)
    rows = with_settings(rows[(rows["method"] == METHOD) & rows["value"].notna()])
    rows = rows[rows["scheme"] == ""]
    outcome, evidence = concluded(
        lambda values: _CHECKS[claim](_Runs(values, suffix, datasets)), rows
    )
    if claim not in AT_ANY_SCALE and not rows["profile"].eq("paper").all():
        return None, f"{TOO_SMALL} {evidence}"
    return outcome, evidence


class _Runs:
    """Means over seeds, looked up by what is swept; raises Missing for what the rows lack."""

    def __init__(self, rows: pd.DataFrame, suffix: str, datasets: Sequence[str]):
        self.datasets, self.suffix = list(datasets), suffix
        keys = ["metric", "dataset", *PARAMETERS]
        self.means = rows.groupby(keys)["value"].mean()
        self.seconds = rows[rows["metric"] == FIDELITY].groupby(keys[1:])["seconds"].mean()

    def over(
        self, metric: str, swept: str, levels: Sequence, partition: str = "noniid"
    ) -> pd.DataFrame:
        """(datasets, levels of the swept parameter), all else as the work fixed it."""
        named = metric + self.suffix * (metric in ("risk", *ATTACKS))
        return self._table(
            lambda place: self.means.get((named, *place)), named, swept, levels, partition
        )

    def times(self) -> pd.Series:
        """Seconds by local updates, mean over datasets and both partitions."""
        tables = [
            self._table(self.seconds.get, "seconds", "local_updates", (100, 1000), partition)
            for partition in PARTITIONS
        ]
        return pd.concat(tables).mean()

    def _table(
        self, find: Callable, what: str, swept: str, levels: Sequence, partition: str
    ) -> pd.DataFrame:
        found = {}
        for dataset, level in product(self.datasets, levels):
            settings = {
                **USUAL,
                "strategy": STRATEGIES["fedavg"],
                "partition": partition,
                swept: level,
            }
            found[dataset, level] = find((dataset, *(settings[name] for name in PARAMETERS)))
        lacking = [key for key, value in found.items() if value is None]
        if lacking:
            dataset, level = lacking[0]
            raise Missing(
                f"{len(lacking)} of {len(found)} cells of {what} are missing, such as "
                f"{dataset} at {level}"
            )
        return pd.Series(found, dtype=float).unstack()[list(levels)].loc[self.datasets]


def _series(means: pd.Series) -> str:
    return ", ".join(f"{level:g} {value:.3f}" for level, value in means.items())


def _rising(means: pd.Series, text: str) -> Condition:
    """The share of steps from one level to the next that do not fall."""
    steps = pd.Series([after >= before for before, after in pairwise(means.round(9))])
    share, said = count(steps, f"{text} does not fall")
    return share, f"{said} steps ({_series(means)})"


def _c01(runs: _Runs) -> list[Condition]:
    conditions = []
    for partition in PARTITIONS:
        risk = runs.over("risk", "local_updates", LOCAL_UPDATES, partition).mean()
        share, said = count(
            risk[500] >= risk.drop(500), f"{partition}: risk at 500 not below that at others"
        )
        conditions.append((share, f"{said} ({_series(risk)})"))
    return conditions


def _c04(runs: _Runs) -> list[Condition]:
    conditions = []
    for partition in PARTITIONS:
        parts = {
            m: runs.over(m, "local_updates", LOCAL_UPDATES, partition).mean()
            for m in (UTILITY, FIDELITY, "risk")
        }
        scaled = {m: (v - v.min()) / (np.ptp(v) or 1) for m, v in parts.items()}
        total = scaled[UTILITY] + scaled[FIDELITY] + 1 - scaled["risk"]
        conditions.append(
            (total.idxmax() == 100, f"{partition}: best sum at {total.idxmax()} ({_series(total)})")
        )
    return conditions


def _c05(runs: _Runs) -> list[Condition]:
    times = runs.times()
    ratio = times[1000] / times[100]
    return [
        (
            6 <= ratio <= 10,
            f"1000 local updates take {ratio:.1f} times as long as 100, stated 28 h / 3.5 h = 8",
        )
    ]


def _loss(runs: _Runs, metric: str) -> list[Condition]:
    table = runs.over(metric, "epsilon", (1.0, np.inf))
    lower = 100 * (1 - table[1.0] / table[np.inf])
    mean = lower.mean()
    single = ", ".join(f"{dataset} {value:.0f}" for dataset, value in lower.items())
    stated = STATED[metric]
    return [
        (
            abs(mean - stated) <= POINTS,
            f"{metric} {mean:.0f} percent lower, stated {stated} ({single})",
        )
    ]


def _c06(runs: _Runs) -> list[Condition]:
    conditions = []
    for metric in ("risk", UTILITY, FIDELITY):
        table = runs.over(metric, "epsilon", EPSILONS).round(9)
        rises = (table.diff(axis=1).iloc[:, 1:] >= 0).all(axis=1)
        conditions.append(count(rises, f"{metric} never falls from one epsilon to the next"))
    return conditions


def _c11(runs: _Runs) -> list[Condition]:
    mixed = runs.over("mixing", "epsilon", EPSILONS).loc["credit_default"]
    return [_rising(mixed, "mixing with epsilon")]


def _c13(runs: _Runs) -> list[Condition]:
    conditions = []
    for attack in ATTACKS:
        risk = runs.over(attack, "epsilon", EPSILONS).mean()
        lower = pd.Series([risk[low] < risk[high] for low in (0.2, 1.0) for high in (10.0, np.inf)])
        share, said = count(lower, f"{attack} at 0.2 and 1 below that at 10 and inf")
        conditions.append((share, f"{said} ({_series(risk)})"))
    return conditions


def _c14(runs: _Runs) -> list[Condition]:
    risk = runs.over("risk", "n_clients", CLIENTS).mean()
    return [
        (risk[10] < risk[5], f"risk by clients: {_series(risk)}"),
        (risk[5] < risk[3], "10 < 5, and 5 < 3"),
    ]


def _c16(runs: _Runs) -> list[Condition]:
    table = runs.over(UTILITY, "n_clients", CLIENTS)
    late, early = table[10] - table[5], table[5] - table[3]
    return [
        (
            late.mean() < early.mean(),
            f"gain from 5 to 10 {late.mean():+.3f}, from 3 to 5 {early.mean():+.3f}",
        ),
        ((late < 0).any(), f"negative in {(late < 0).sum()} of {len(late)} datasets"),
    ]


def _c18(runs: _Runs) -> list[Condition]:
    risk, utility = (runs.over(m, "strategy", list(STRATEGIES.values())) for m in ("risk", UTILITY))
    wide = pd.Series(np.ptp(risk, axis=1) > np.ptp(utility, axis=1), risk.index)
    best = risk.idxmin(axis=1)
    return [
        count(wide, "risk varies more than utility over strategies"),
        (
            best.nunique() > 1,
            f"least risk with {', '.join(f'{name} {d}' for d, name in best.items())}",
        ),
    ]


def _c19(runs: _Runs) -> list[Condition]:
    signs = {UTILITY: 1, FIDELITY: 1, "risk": -1}
    best = {
        m: (s * runs.over(m, "strategy", list(STRATEGIES.values())).mean()).idxmax()
        for m, s in signs.items()
    }
    return [
        (
            len(set(best.values())) > 1,
            "best on average: " + ", ".join(f"{m} {name}" for m, name in best.items()),
        )
    ]


def _ranges(runs: _Runs, limit: float = 0.03) -> list[Condition]:
    conditions = []
    for metric in (UTILITY, FIDELITY):
        wide = pd.Series(
            np.ptp(runs.over(metric, "strategy", list(STRATEGIES.values())), axis=1), runs.datasets
        )
        share, said = count(wide < limit, f"{metric} varies by less than {limit:g} over strategies")
        conditions.append((share, f"{said} (up to {wide.max():.3f})"))
    return conditions


_CHECKS: dict[str, Callable[[_Runs], list[Condition]]] = {
    "c01": _c01,
    "c02": lambda runs: [
        _rising(runs.over(m, "local_updates", LOCAL_UPDATES, "iid").mean(), m)
        for m in (UTILITY, FIDELITY)
    ],
    "c03": lambda runs: [
        (table[1000] < table[100], f"{m} {table[1000]:.3f} at 1000, {table[100]:.3f} at 100")
        for m in (UTILITY, FIDELITY)
        for table in [runs.over(m, "local_updates", LOCAL_UPDATES).mean()]
    ],
    "c04": _c04,
    "c05": _c05,
    "c06": _c06,
    "c07": lambda runs: _loss(runs, "risk"),
    "c08": lambda runs: _loss(runs, UTILITY),
    "c09": lambda runs: _loss(runs, FIDELITY),
    "c10": lambda runs: [
        (mixed >= 0.4, f"mixing {mixed:.3f} without privacy, 0.5 if alike")
        for mixed in [runs.over("mixing", "epsilon", (np.inf,)).loc["credit_default", np.inf]]
    ],
    "c11": _c11,
    "c12": lambda runs: [_rising(runs.over(a, "epsilon", EPSILONS).mean(), a) for a in ATTACKS],
    "c13": _c13,
    "c14": _c14,
    "c15": lambda runs: [
        (table[5] > table[3], f"{m} {table[5]:.3f} with 5 clients, {table[3]:.3f} with 3")
        for m in (UTILITY, FIDELITY)
        for table in [runs.over(m, "n_clients", CLIENTS).mean()]
    ],
    "c16": _c16,
    "c17": _ranges,
    "c18": _c18,
    "c19": _c19,
}
FINDIFF = {claim: partial(judge, claim=claim) for claim in _CHECKS}
