"""What the teaching notebook of VAE-BGM needs: made-up patients, one node's rows, divergences of tables, exact ones."""

from types import ModuleType
from typing import Any

import numpy as np
import pandas as pd
from scipy.integrate import quad
from scipy.stats import norm

from fedsynth_lib.encode import UnitRange
from fedsynth_lib.interface import Arrays, stream
from fedsynth_lib.metrics.attacks import nearest
from fedsynth_lib.metrics.divergence import Sizes, jensen_shannon
from fedsynth_lib.methods import vae_bgm
from fedsynth_lib.methods.latent_mixture import Mixture
from fedsynth_lib.methods.vae_bgm_plan import Config
from fedsynth_lib.schema import Column, Schema
from fedsynth_lib.tables import Table

KINDS = ("none", "type 1", "type 2")


def patients(num_rows: int, seed: int) -> Table:
    """Made-up patients: age and BMI in whole numbers, smoking, diabetes, and health that follows from all of them."""
    rng = stream(seed, "patients")
    kind = rng.choice(3, num_rows, p=[0.62, 0.08, 0.30])
    age = rng.normal(np.array([42, 27, 66])[kind], np.array([13, 6, 9])[kind]).round().clip(18, 100)
    bmi = rng.normal(np.array([25, 22, 32])[kind], np.array([3.5, 2.5, 4.0])[kind]).round().clip(12, 60)
    pressure = (95 + 0.45 * age + 0.7 * (bmi - 25) + rng.normal(0, 9, num_rows)).round().clip(80, 200)
    smokes = rng.random(num_rows) < np.array([0.25, 0.40, 0.10])[kind]
    burden = (age - 50) / 15 + (bmi - 27) / 5 + 1.5 * smokes + rng.normal(0, 0.7, num_rows)
    columns = (
        Column("age", "numeric", 18, 100, integer=True),
        Column("BMI", "numeric", 12, 60, integer=True),
        Column("pressure", "numeric", 80, 200, integer=True),
        Column("smokes", "categorical", categories=("no", "yes")),
        Column("diabetes", "categorical", categories=KINDS),
        Column("health", "categorical", categories=("good", "fair", "poor")),
    )
    codes = {"smokes": smokes.astype(int), "diabetes": kind, "health": np.searchsorted([0.0, 1.8], burden)}
    frame = pd.DataFrame({"age": age.astype(np.int64), "BMI": bmi.astype(np.int64)}).assign(pressure=pressure.astype(np.int64))
    for column in columns[3:]:
        frame[column.name] = pd.Categorical.from_codes(codes[column.name], list(column.categories))
    return Table("patients", frame, Schema(columns, target="diabetes"), "own", digest=f"patients {num_rows} {seed}")
