"""What every method must keep, as functions that raise AssertionError; `test_methods.py` turns them on
all registered methods, and on methods broken on purpose, which they must catch."""

import inspect

import numpy as np
import pandas as pd

from fedsynth_lib import settings
from fedsynth_lib.interface import Privacy, stream
from fedsynth_lib.privacy import epsilon_of

BUDGET = Privacy(1.0)


def thirds(table):
    return np.array_split(stream(3, "parts").permutation(len(table.frame)), 3)


def keeps_columns(method, table):
    run = settings.federated(method, table, thirds(table), privacy=BUDGET, seed=1, num_rows=57)
    assert len(run.synthetic) == 57
    assert list(run.synthetic.columns) == list(table.frame.columns)
    assert (run.synthetic.dtypes == table.frame.dtypes).all()


def repeats_with_its_seed(method, table):
    one, same, other = (
        settings.federated(method, table, thirds(table), privacy=BUDGET, seed=s).synthetic for s in (1, 1, 2)
    )
    assert one.equals(same) and not one.equals(other)


def one_client_is_central(method, table):
    everything = [np.arange(len(table.frame))]
    alone = settings.federated(method, table, everything, privacy=BUDGET, seed=1).synthetic
    assert settings.central(method, table, privacy=BUDGET, seed=1).synthetic.equals(alone)


def spends_what_it_planned(method, table, config=None):
    """All rounds together: an accountant that is reset, or a release without a charge, shows here."""
    config = method.Config() if config is None else config
    run = settings.federated(method, table, thirds(table), config=config, privacy=BUDGET, seed=1)
    assert abs(run.statement["epsilon_protected"] - BUDGET.epsilon) < 1e-6, run.statement["epsilon_protected"]
    domain = method.encoder(table.schema, config).domain
    noise = settings.noise_for(method, domain, [len(part) for part in thirds(table)], config, BUDGET)
    assert abs(epsilon_of(method.plan(noise, domain, 400, config)) - BUDGET.epsilon) < 1e-6


def noise_reaches_the_state(method, table):
    """Two runs that differ in nothing but fresh, large noise must leave different states."""
    loud = Privacy(1e-3, noise_seed=None)
    one, other = (settings.federated(method, table, thirds(table), privacy=loud, seed=1).state for _ in range(2))
    changed = [name for name in one if not np.array_equal(one[name], other[name])]
    assert changed, "noise was drawn or charged, but the state is the same without it"
    clean = settings.federated(method, table, thirds(table), seed=1).state
    assert any(np.abs(one[n] - clean[n]).max() > 100 for n in changed if one[n].shape == clean[n].shape)


def encoder_ignores_rows(make_encoder, table):
    """`make_encoder(frame)` must come out the same when one extreme record is added."""
    extreme = table.frame.iloc[[0]].copy()
    for column in table.schema.columns:
        extreme[column.name] = column.high if column.kind == "numeric" else column.categories[-1]
    few = table.frame[table.frame["age"] < 60].head(200)
    encoders = [make_encoder(frame) for frame in (few, pd.concat([few, extreme], ignore_index=True))]
    first, second = (encoder.transform(few) for encoder in encoders)
    assert np.array_equal(first, second) and encoders[0].domain == encoders[1].domain


def follows_the_contract(method):
    expected = {
        "encoder": ["schema", "config"],
        "plan": ["noise_multiplier", "domain", "num_rows", "config"],
        "start": ["domain", "config", "rng"],
        "client_step": ["state", "client", "config", "noise", "rng"],
        "server_step": ["state", "updates", "config", "noise", "rng"],
        "sample": ["state", "num_rows", "config", "rng"],
    }
    for verb, names in expected.items():
        assert list(inspect.signature(getattr(method, verb)).parameters) == names, verb
    assert isinstance(method.VERSION, int) and method.Config().rounds >= 1
    imported = inspect.getsource(method)
    for forbidden in ("flwr", "matplotlib", "pathlib"):
        assert f"import {forbidden}" not in imported and f"from {forbidden}" not in imported
