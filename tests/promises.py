"""What every method must keep, as functions that raise AssertionError; `test_methods.py` turns them
on all registered methods, and on methods broken on purpose, which they must catch. For a method of
your own:

    def test_mine_keeps_its_promises(table):
        assert promises.broken(from_file("notebooks/your_method.py"), table) == {}
"""

import inspect
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd

from fedsynth_lib.audit import drawn
from fedsynth_lib.core import secure_sum
from fedsynth_lib.core.accounting import epsilon_of
from fedsynth_lib.core.contract import Domain, Method, Privacy, stream
from fedsynth_lib.federation import settings
from fedsynth_lib.federation.rounds import copied, received, run_rounds
from fedsynth_lib.methods import OPTIONAL, VERBS

SHORT = {
    "training_rounds": 2,
    "local_epochs": 2,
    "most_rounds": None,
    "batch": 50,
    "hidden": (16, 16),
    "noise_width": 8,
    "local_updates": 8,
    "steps": 20,
}
# VAE-BGM's one hidden layer, and its mixture
MIXED = {"hidden": 16, "shared_rows": 60, "components": 3, "starts": 2}


def everyone(method):
    """The method's defaults with all clients in every round, so that its worst-case plan is what is
    spent.

    Of networks a short training on small ones.
    """
    config = method.Config()
    if hasattr(config, "training_rounds"):
        short = SHORT | (MIXED if hasattr(config, "starts") else {})
        config = replace(
            config, **{name: value for name, value in short.items() if hasattr(config, name)}
        )
    return replace(config, participation=1.0) if hasattr(config, "participation") else config


def adds_noise(method):
    return getattr(method.Config(), "private", True)


def budget(method, epsilon=1.0, delta=1e-5, **options):
    """Pure where the method's noise allows it; none for a method that adds no noise."""
    if not adds_noise(method):
        return Privacy(**options)
    charges = method.plan(1.0, Domain(tuple("abcd"), (2, 3, 4, 5)), 400, method.Config())
    return Privacy(
        epsilon,
        delta if any(c.mechanism in ("gaussian", "skellam") for c in charges) else 0.0,
        **options,
    )


def federated(method, table, **options):
    options = {"config": everyone(method), "seed": 1, **options}
    return settings.federated(method, table, thirds(table), **options)


RUNS = {}  # ids of method and table -> both, so that they stay, and their run


def usual(method, table):
    """The run with seed 1 and the usual budget, made once for all promises that look at it."""
    key = id(method), id(table)
    if key not in RUNS:
        sizes = [len(part) for part in thirds(table)]
        run = federated(method, table, privacy=budget(method), sizes=sizes)
        RUNS[key] = method, table, run
    return RUNS[key][-1]


def thirds(table):
    return np.array_split(stream(3, "parts").permutation(len(table.frame)), 3)


def keeps_columns(method, table):
    synthetic = usual(method, table).synthetic
    assert len(synthetic) == len(table.frame)
    assert list(synthetic.columns) == list(table.frame.columns)
    assert (synthetic.dtypes == table.frame.dtypes).all()


def works_on_one_kind_of_column(method, table):
    config = everyone(method)
    few = {name: 1 for name in ("training_rounds", "degree") if hasattr(config, name)}
    for kind in ("numeric", "categorical"):
        others = [column.name for column in table.schema.columns if column.kind != kind]
        schema = table.schema.drop(others)
        narrow = replace(table, frame=table.frame[list(schema.names)], schema=schema)
        options = {"config": replace(config, **few), "privacy": budget(method, 5.0)}
        run = federated(method, narrow, num_rows=23, **options)
        assert run.synthetic.shape == (23, len(schema.names))
        assert (run.synthetic.dtypes == narrow.frame.dtypes).all()


def repeats_with_its_seed(method, table):
    same, other = (
        federated(method, table, privacy=budget(method), seed=s).synthetic for s in (1, 2)
    )
    one = usual(method, table).synthetic
    assert one.equals(same) and not one.equals(other)


def one_client_is_central(method, table):
    everything = [np.arange(len(table.frame))]
    options = {"privacy": budget(method), "seed": 1, "config": everyone(method)}
    alone = settings.federated(method, table, everything, **options).synthetic
    assert settings.central(method, table, **options).synthetic.equals(alone)


def spends_what_it_planned(method, table, config=None):
    """All rounds together: an accountant that is reset, or a release without a charge, shows
    here."""
    asked = budget(method)
    if config is None:
        config, run = everyone(method), usual(method, table)
    else:
        run = federated(method, table, config=config, privacy=asked)
    assert abs(run.statement["epsilon_protected"] - asked.epsilon) < 1e-6, run.statement[
        "epsilon_protected"
    ]
    domain = method.encoder(table.schema, config).domain
    noise = settings.noise_for(method, domain, [len(part) for part in thirds(table)], config, asked)
    planned = method.plan(noise, domain, len(table.frame) // 3, config)
    assert abs(epsilon_of(planned, asked.delta) - asked.epsilon) < 1e-6
    # who is asked to take part sees the plan, not the statement
    bare = {charge.what for charge in planned if charge.mechanism == "unprotected"}
    assert bare == set(run.statement["unprotected"])


def noise_reaches_the_state(method, table):
    """Two runs that differ in nothing but large noise must leave different states."""
    charges = method.plan(1.0, Domain(tuple("abcd"), (2, 3, 4, 5)), 10_000, method.Config())
    # its accountant ends at orders that prove no smaller epsilon
    sampled = any(charge.rate < 1 for charge in charges)
    asked = (0.2, 1e-5) if sampled else (1e-2, 1e-9)
    loud = [budget(method, *asked, noise_seed=seed) for seed in (1, 2)]
    config = everyone(method)
    if hasattr(config, "training_rounds"):
        config = replace(config, training_rounds=1)
    one, other = (
        federated(method, table, config=config, privacy=privacy).state for privacy in loud
    )
    changed = [
        name for name in one if name not in other or not np.array_equal(one[name], other[name])
    ]
    assert changed, "noise was drawn or charged, but the state is the same without it"
    # Adam makes steps of one size from any gradient, and a mixture falls back to its prior:
    # test_fedvae.py, test_findiff.py and test_vae_bgm_privacy.py measure their noise.
    if any(name == "network" or name.endswith("/decoders") for name in changed):
        return
    clean = federated(method, table, config=config).state
    compared = [name for name in changed if name in clean and one[name].shape == clean[name].shape]
    compared = [name for name in compared if one[name].dtype != bool]
    assert any(np.abs(one[name] - clean[name]).max() > 10 for name in compared)


def depends_on_declared_sizes_alone(method, table):
    """A row less, really gone: rates, steps, noise and the number of synthetic rows follow from
    what is declared."""
    options = {
        "privacy": budget(method),
        "seed": 1,
        "config": everyone(method),
        "sizes": [len(p) for p in thirds(table)],
    }
    parts, whole = thirds(table), usual(method, table)
    less = settings.federated(method, table, [parts[0][1:], *parts[1:]], **options)
    assert less.statement == whole.statement and len(less.synthetic) == len(whole.synthetic)


def draws_what_it_charges(method, table):
    """The noise on every number of every round, by measurement, and what a row then costs; bound,
    divisor, rate and number of steps of private gradients (`fedsynth_lib/audit/drawn.py`)."""
    wrong = drawn.audit(method, table, config=everyone(method), privacy=budget(method, 0.3))
    assert not wrong, "; ".join(wrong)


def divides_noise_among_the_honest(method, table):
    """Made together by three clients: one dose if all are honest, three if two may be curious and
    each adds a whole."""
    if getattr(method, "TRUST", "") != "secure sum":
        return

    class Heard(Exception):
        pass

    def first_sums(**options):
        """All that is summed in the first round that sums anything, with which the run ends."""

        def listened(state, updates, config, noise, rng):
            sums = secure_sum.total(updates)
            if sums:
                raise Heard(np.concatenate([sums[name].ravel() for name in sorted(sums)]))
            return method.server_step(state, updates, config=config, noise=noise, rng=rng)

        try:
            federated(replace(Method.of(method), server_step=listened), table, **options)
        except Heard as heard:
            return heard.args[0]
        raise AssertionError("nothing is summed in any round")

    clean, spread = first_sums(), []
    for curious in (0, 2):
        loud = [budget(method, 0.1, curious=curious, noise_seed=seed) for seed in range(8)]
        spread.append(np.std([first_sums(privacy=each) - clean for each in loud]))
    assert 0 < 1.5 * spread[0] < spread[1] < 2 * spread[0], spread


def sends_one_form(method, table, config=None):
    """What a client sends is, but for its numbers, what it would send with a single row: names and
    their order, shapes, types, groups, and what it says of its costs. So a server reads nothing
    from the form. Of what leaves without noise nothing is promised."""

    def form(update):
        arrays = [
            (name, values.shape, values.dtype)
            for kind in (update.arrays, update.summed)
            for name, values in kind.items()
        ]
        return arrays, update.groups, update.num_rows, update.spent, update.summed_spent

    sizes = [len(part) for part in thirds(table)]
    options = {"config": config or everyone(method), "privacy": budget(method), "seed": 1}
    job, encoder = settings.job_of(method, table.schema, sizes, **options)
    rows = [encoder.transform(table.frame.iloc[part]) for part in thirds(table)]
    memories = [{} for _ in rows]
    for number, (sent, updates, _, _) in enumerate(run_rounds(job, rows)):
        for update in updates:
            memory = memories[update.client]
            small = job.client(rows[update.client][:1], update.client, len(updates), memory)
            if all(charge.protected for charge in update.spent):
                assert form(received(job.answered(copied(sent), small, number))) == form(update)
            drawn.remember_choice([memory], update)


def encoder_ignores_rows(make_encoder, table):
    """`make_encoder(frame)` must come out the same when one extreme record is added."""
    extreme = table.frame.iloc[[0]].copy()
    for column in table.schema.columns:
        extreme[column.name] = column.high if column.kind == "numeric" else column.categories[-1]
    few = table.frame[table.frame["age"] < 60].head(200)
    encoders = [
        make_encoder(frame) for frame in (few, pd.concat([few, extreme], ignore_index=True))
    ]
    first, second = (encoder.transform(few) for encoder in encoders)
    assert np.array_equal(first, second) and encoders[0].domain == encoders[1].domain


def follows_the_contract(method):
    left_out = {verb for verb in OPTIONAL if getattr(method, verb, None) is None}
    for verb, names in (VERBS | OPTIONAL).items():
        assert (
            verb in left_out or tuple(inspect.signature(getattr(method, verb)).parameters) == names
        ), verb
    assert isinstance(method.VERSION, int) and method.Config().rounds >= 1
    imported = Path(inspect.getsourcefile(method.start)).read_text(encoding="utf-8")
    for forbidden in ("flwr", "matplotlib", "pathlib"):
        assert f"import {forbidden}" not in imported and f"from {forbidden}" not in imported


ALWAYS = (
    follows_the_contract,
    keeps_columns,
    works_on_one_kind_of_column,
    repeats_with_its_seed,
    one_client_is_central,
)
PRIVATE = (
    spends_what_it_planned,
    noise_reaches_the_state,
    depends_on_declared_sizes_alone,
    draws_what_it_charges,
    divides_noise_among_the_honest,
    sends_one_form,
)


def broken(method, table):
    """Promise -> what is wrong, of those that the method does not keep.

    table: of about a thousand rows, for each promise takes two or three runs.
    """
    found = {}
    for promise in ALWAYS + PRIVATE * adds_noise(method):
        try:
            promise(method) if promise is follows_the_contract else promise(method, table)
        except Exception as error:
            found[promise.__name__] = f"{type(error).__name__}: {error}".removesuffix(": ")
    return found
