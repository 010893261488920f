"""What sets a cell of a work apart, in the words of its value files: the column `detail` of
`data/published/values`.

Rows say it as typed `params` and `item` (runs/rows.py). Where they stand beside printed values,
`with_detail` puts it into the words that print has for it, so that equal cells meet in one merge.
Nothing reads these words apart again.
"""

import json
from collections.abc import Mapping
from typing import Any, NamedTuple

import pandas as pd

from fedsynth_lib.core.contract import BadInput
from fedsynth_lib.runs.rows import canonical, read_params

# the label skew of leitner2023
SKEWED = "client 1 holds all negatives; clients 2 and 3 share the positives"
SIZED = "train rows per node "
STRATEGIES = {"fedavg": "FedAvg", "fedadam": "FedAdam", "fedprox": "FedProx", "fedyogi": "FedYogi"}
VARIANTS = {  # of VAE-BGM, by the setting that is not as published
    **{"networks": "{} networks", "senders": "senders {}", "common_start": "common start"},
    **{"training_rounds": "{} rounds", "most_rows": "up to {} rows", "steepest": "slopes to {:g}"},
}


PRINTED: dict[str, dict[str, Any]] = {  # what cells with these words in print would be asked for
    "T=10": {"rounds": 10},
    "T=10; participation 0.1": {"rounds": 10, "participation": 0.1},
    "participation 0.1": {"participation": 0.1},
    "50 epochs (500 rounds); participation 0.1": {"training_rounds": 500},
    "beta=0.1": {"beta": 0.1},
    "beta=0.8": {"beta": 0.8},
}


class Cell(NamedTuple):
    """What a detail is made from."""

    paper: str
    method: str
    partition: str
    setting: str
    params: Mapping[str, Any]
    item: str


def with_detail(rows: pd.DataFrame) -> pd.DataFrame:
    """The rows with `detail`; those that have it already, as printed values do, are handed back as
    they are."""
    if "detail" in rows:
        return rows
    keys = list(zip(*(rows[column] for column in Cell._fields), strict=True))
    words = {
        key: _detail(Cell(*key)._replace(params=read_params(key[4]))) for key in dict.fromkeys(keys)
    }
    return rows.assign(
        detail=pd.Series([words[key] for key in keys], index=rows.index, dtype=object)
    )


def _detail(cell: Cell) -> str:
    if cell.setting == "tuning":
        draw = {"draw": cell.params["draw"]} if "draw" in cell.params else {}
        return canonical({**cell.params["parameters"], **draw})
    return "; ".join(filter(None, _WORDS.get(cell.paper, _of_ours)(cell)))


def configuration(detail: str) -> dict[str, Any]:
    """The hyper-parameters of a search's cell from its `detail`. Raises BadInput for one that is no
    JSON object."""
    try:
        return dict(json.loads(detail))
    except ValueError as error:
        raise BadInput(f"detail {detail!r} is no configuration: give rows of a search.") from error


def is_redrawn(detail: str) -> bool:
    """Whether a row scores a configuration again; False for rows of no search."""
    return detail.startswith("{") and "draw" in configuration(detail)


def _of_ours(cell: Cell) -> list[str]:
    return [cell.item, "as published" if cell.params.get("as_published") else ""]


def _martinez(cell: Cell) -> list[str]:
    return [cell.params.get("variant", ""), cell.item]


def _leitner(cell: Cell) -> list[str]:
    skewed = cell.partition == "label_skew" and cell.setting == "federated" and not cell.item
    return [
        cell.item,
        SKEWED if skewed else "",
        cell.params.get("scheme", ""),
        cell.params.get("variant", ""),
    ]


def _maddock(cell: Cell) -> list[str]:
    given = cell.params
    if cell.method in ("DP-CTGAN", "Fed DP-CTGAN"):
        return _maddock_networks(cell)
    clients = cell.setting == "federated"
    words = [f"T={given['rounds']}"] if "rounds" in given and cell.method != "FedNaiveBayes" else []
    words += (
        [f"participation {given['participation']:g}"]
        if clients and "participation" in given
        else []
    )
    words += [f"beta={given['beta']:g}"] if "beta" in given else []
    words += [f"s={given['local_steps']}"] if given.get("local_steps", 1) > 1 else []
    words += [f"r={given['measure_share']:g}"] if given.get("measure_share", 0.9) != 0.9 else []
    estimator = given.get("estimator", "published")
    return [*words, estimator] if estimator != "published" else words


def _maddock_networks(cell: Cell) -> list[str]:
    """How long a network trained, in the words of table 1, which has none for the central method's
    20 epochs."""
    rounds = cell.params.get("training_rounds")
    if cell.method == "Fed DP-CTGAN":
        return [f"{(rounds or 500) * 0.1:g} epochs ({rounds or 500} rounds)", "participation 0.1"]
    return [f"{rounds} epochs" if rounds else ""]


def _sattarov(cell: Cell) -> list[str]:
    if cell.setting == "real":
        return []
    given = cell.params
    strategy = STRATEGIES[given.get("strategy", "fedavg")]
    return [f"{given.get('local_updates', 100)} local updates", strategy, given.get("scheme", "")]


def _apellaniz(cell: Cell) -> list[str]:
    repeat = f"repeat {cell.params['repeat']}" if "repeat" in cell.params else ""
    return [cell.item] if cell.item else [sizes_of(cell.params), variant_of(cell.params), repeat]


def sizes_of(params: Mapping[str, Any]) -> str:
    """The nodes of a federation of apellaniz2025 in the words of its tables; empty where there are
    none."""
    return SIZED + "/".join(map(str, params["node_rows"])) if "node_rows" in params else ""


def variant_of(params: Mapping[str, Any]) -> str:
    """What is not as published in a federation of apellaniz2025, or in how it was measured; empty
    where nothing is."""
    variant = params.get("variant", {})
    words = [text.format(variant[name]) for name, text in VARIANTS.items() if variant.get(name)]
    words = ["private"] if "clip" in variant else words
    return "; ".join([*words, *(name for name in ("disjoint", "whole") if params.get(name))])


_WORDS = {
    "martinez2024": _martinez,
    "leitner2023": _leitner,
    "maddock2024": _maddock,
    "sattarov2024": _sattarov,
    "apellaniz2025": _apellaniz,
}
