"""A small table with the columns that apellaniz2025 deals out and draws, and one federation on it,
for the tests."""

import numpy as np
import pandas as pd

from fedsynth_lib.tables import lock
from fedsynth_lib.tables.load import Table
from fedsynth_lib.tables.schema import Column, Schema
from fedsynth_lib.works import declared

RANGES = {
    "PhysHlth": (0, 30),
    "Income": (1, 8),
    "GenHlth": (1, 5),
    "Education": (1, 6),
    "BMI": (12, 98),
    "Age": (1, 13),
}
NUMBERS = [
    Column(name, "numeric", low=low, high=high, integer=True)
    for name, (low, high) in RANGES.items()
]
PAIR, TARGET = (
    Column(name, "categorical", categories=kinds)
    for name, kinds in (("BP", "01"), ("Diabetes", "012"))
)
SCHEMA = Schema((PAIR, *NUMBERS[:3], TARGET, *NUMBERS[3:]), target="Diabetes")
NAMES = SCHEMA.names
SIZES = (60, 80, 100)
JUDGED = {"training": 120, "evaluation": 40, "epochs": 3, "patience": 3}  # 200 rows
CHANGES = {
    "training_rounds": 2,
    "local_epochs": 1,
    "networks": 2,
    "components": 2,
    "starts": 1,
    "patience": None,
}
CHANGES |= {"hidden": 6, "latent": 2}
CELL = {
    "dataset": "toy",
    "partition": "bmi_skew",
    "technique": "sds",
    "node_rows": list(SIZES),
    "seed": 3,
}
CELL |= {"judged": JUDGED, "changes": CHANGES}


def make_table(number=1500):
    rng = np.random.default_rng(0)
    # many rows on the median itself
    bmi = np.clip(20 + rng.gamma(2, 5, number), 12, 98).round().astype(int)
    numbers = {
        name: rng.integers(low, high + 1, number) for name, (low, high) in RANGES.items()
    } | {"BMI": bmi}
    # by BMI alone
    sick = (rng.random(number) < 1 / (1 + np.exp((30 - bmi) / 3))) * rng.integers(1, 3, number)
    kinds = {"BP": pd.Categorical.from_codes(rng.integers(2, size=number), categories=["0", "1"])}
    kinds["Diabetes"] = pd.Categorical.from_codes(sick, categories=["0", "1", "2"])
    return Table(
        "toy", pd.DataFrame(numbers | kinds)[list(NAMES)], SCHEMA, data="own", digest="toy"
    )


TABLE = make_table()


def in_place(tmp_path, monkeypatch):
    """The body of a fixture: the small table in place of the real ones, and an empty cache."""
    monkeypatch.setattr("fedsynth_lib.runs.grid.project_root", lambda: tmp_path)
    monkeypatch.setattr(declared, "load_table", lambda key, work: TABLE)
    monkeypatch.setattr(lock, "table_digest", lambda key, work: TABLE.digest)
    yield
