"""The names that result rows may carry: measures, their versions, and methods.

A cell's identity holds the version of its method and of what it measures (`version`). A measure in
its first version is not named there, so a measure that is added changes no other cell; raise its
version in `metrics/measures.toml` whenever its values change by more than the order of sums, and
the cells that hold it are computed again.
"""

import re
from collections.abc import Iterable

from fedsynth_lib.core.contract import BadInput
from fedsynth_lib.methods import METHODS as registered
from fedsynth_lib.methods import REGISTRY
from fedsynth_lib.metrics import registry
from fedsynth_lib.metrics.registry import base

MEASURES: dict[str, int] = {name: own.version for name, own in registry.MEASURES.items()}
# floors and ceilings: nothing is trained
YARDSTICKS = ("A copy", "Second sample", "Shuffled columns")
METHODS = (  # as rows name them, where they do not by key
    *("", "real", "Real", *YARDSTICKS),
    *sorted({name for entry in REGISTRY.values() for name in entry.printed.values()}),
    # settings that works print as methods: of AugFLAIM and VAE-BGM
    *("true skew, filter and combine", "private skew only", "weights only"),
    *("Isolated", "FedAvg", "SDS"),
    # beside the field: settings of ours, and tables that others released
    *("DistAIM, annealed", "FedPGM, central", "FedPGM, tree"),
    *("AIM, private bins", "DistAIM, annealed, private bins"),
    *("FedPrivSyn", "AdaFedPrivSyn"),
)

TABLES = {  # as people read them, where that is not the key
    "bank_additional": "bank additional",
    "brfss_diabetes": "BRFSS diabetes",
    "brfss_heart": "BRFSS heart",
    "census_kdd": "census KDD",
    "covertype_class2": "covertype, class 2",
    "credit_default": "credit default",
    "credit_fraud": "credit fraud",
    "nist_national2019": "NIST national 2019",
}
# but for what is a part of a path, of code or of another name
KEYS_OF_TABLES = re.compile(rf"(?<![\w/`.=,-])({'|'.join(TABLES)})(?![\w/`]|\.\w)")


def level_name(epsilon: float) -> str:
    """Write a level of privacy as tables and titles name it."""
    return "no DP" if epsilon == float("inf") else f"ε = {epsilon:g}"


def partition_name(partition: str) -> str:
    """Write a division of the rows as tables and titles name it."""
    return {"iid": "i.i.d.", "none": "central"}.get(partition, partition.replace("_", " "))


def with_table_names(text: str) -> str:
    """Return a text with tables named as people read them: `credit default`, not its key."""
    return KEYS_OF_TABLES.sub(lambda key: TABLES[key[0]], text)


def method_name(method: str) -> str:
    """Write a method as tables and titles name it: `AugFLAIM (Private)` for `augflaim_private`."""
    printed = REGISTRY[method].printed if method in REGISTRY else {}
    return next(reversed(printed.values()), method)


def is_metric(name: str) -> bool:
    """Return whether this is the name of a measure."""
    return base(name) in MEASURES


def is_method(name: str) -> bool:
    """Whether rows may name this method: one of METHODS, or a key of the registry."""
    return name in METHODS or name in registered


def version(method: str, metrics: Iterable[str] = ()) -> str:
    """Return the version of a cell: of its method and its measures.

    It is `aim 1`, followed by the versions of the measures that are no longer in their first.
    method: a key of the registry. Raises BadInput for a measure that is not in MEASURES.
    """
    bases = sorted({base(metric) for metric in metrics})
    if unknown := [name for name in bases if name not in MEASURES]:
        raise BadInput(
            f"the measure {unknown[0]!r} is unknown: list it in fedsynth_lib/metrics/measures.toml."
        )
    later = [f"{name} {MEASURES[name]}" for name in bases if MEASURES[name] > 1]
    return ", ".join([f"{method} {registered[method].VERSION}" if method else "1", *later])
