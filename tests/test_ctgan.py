"""The CTGAN family: one client is central, what is spent and disclosed, and bad settings."""

from dataclasses import replace

import numpy as np
import promises
import pytest

from fedsynth_lib.core.accounting import epsilon_of
from fedsynth_lib.core.contract import BadInput, Domain, Noise, Privacy, stream
from fedsynth_lib.federation import settings
from fedsynth_lib.methods import METHODS
from fedsynth_lib.methods.gan import budget as gan_budget
from fedsynth_lib.methods.gan import ctgan
from fedsynth_lib.methods.variants import dp_ctgan, dp_fed_ctgan, fed_ctgan
from fedsynth_lib.tables.load import Table

SMALL = {"training_rounds": 3, "local_epochs": 2, "batch": 50, "hidden": (16, 16), "noise_width": 8}
PRIVATE = {"dp_fed_ctgan": dp_fed_ctgan, "dp_ctgan": dp_ctgan}


def small(method, **changes):
    return replace(method.Config(), **{**SMALL, **changes})


def run(method, table, **options):
    changes = {
        name: options.pop(name)
        for name in list(options)
        if name in gan_budget.Settings.__dataclass_fields__
    }
    parts = options.pop("parts", promises.thirds(table))
    return settings.federated(
        method, table, parts, config=small(method, **changes), **{"seed": 1, **options}
    )


@pytest.mark.parametrize("key", PRIVATE)
def test_as_published_the_statement_lists_what_is_unprotected(key, table):
    method = PRIVATE[key]
    statement = run(method, table, privacy=Privacy(2.0, 1e-5), **method.AS_PUBLISHED).statement
    assert statement["epsilon"] is None and statement["epsilon_protected"] == pytest.approx(
        2.0, abs=1e-6
    )
    assert set(statement["unprotected"]) == {
        "Gaussian mixtures of numeric columns",
        "categories that occur",
        "conditions drawn by raw frequencies",
        "rows and conditions drawn by raw frequencies (training by sampling)",
    }


@pytest.mark.parametrize("published", [False, True])
def test_with_a_given_noise_training_stops_before_the_budget_would_be_passed(table, published):
    changes = dp_fed_ctgan.AS_PUBLISHED if published else {}
    stop = {"stop_epsilon": 1.5, "stop_delta": 1e-5, "training_rounds": 200, **changes}
    found = run(dp_fed_ctgan, table, privacy=Privacy(1.5, 1e-5, noise_multiplier=2.0), **stop)
    done = next(
        entry for entry in found.statement["entries"] if entry["what"] == gan_budget.GRADIENTS
    )["count"]
    spent = found.statement["epsilon_rdp"]  # the budget to stop at is counted so
    charges = gan_budget.plan(
        2.0, Domain(tuple("abcde"), (0, 0, 2, 4, 2)), 400, small(dp_fed_ctgan, **stop)
    )
    assert spent <= 1.5 and epsilon_of(charges, 1e-5, accountant="rdp") == pytest.approx(spent)
    more = [
        replace(charge, times=done + 1) if charge.what == gan_budget.GRADIENTS else charge
        for charge in charges
    ]
    assert epsilon_of(more, 1e-5, accountant="rdp") > (1.5 if published else 1.45)
    assert int(found.state["round"]) < 200 and bool(found.state["finished"])


def test_a_budget_that_pays_for_no_step_is_refused_before_any_row(table):
    with pytest.raises(BadInput, match="does not pay for one step"):
        run(
            dp_fed_ctgan,
            table,
            stop_epsilon=0.05,
            stop_delta=1e-5,
            privacy=Privacy(0.05, 1e-5, noise_multiplier=0.5),
        )


@pytest.mark.parametrize(
    "method, changes, message",
    [
        (ctgan, {"batch": 55}, "batch 55 is not a multiple of pac 10"),
        (dp_fed_ctgan, {"pac": 5}, "private training needs pac 1"),
        (
            dp_fed_ctgan,
            {"loss": "wasserstein"},
            "private training needs pac 1 and loss 'cross_entropy'",
        ),
        (fed_ctgan, {"sampling": "poisson"}, "are for private training"),
        (fed_ctgan, {"encoding": "private"}, "are for private training"),
        (dp_fed_ctgan, {"weighting": "similarity"}, "raw frequencies"),
        (ctgan, {"critic_steps": 0}, "at least 1"),
        (fed_ctgan, {"weighting": "similarity"}, "take encoding 'variational'"),
    ],
)
def test_settings_that_cannot_work_are_one_sentence(method, changes, message, table):
    with pytest.raises(BadInput, match=message):
        run(method, table, **changes)


@pytest.mark.slow
@pytest.mark.parametrize("key", ["fedctgan", "fedtgan", "dpfedctgan"])
def test_a_client_with_a_single_class_and_fewer_rows_than_a_batch(key, table):
    """Such a client takes all its rows in every batch, and asks for the categories that it has."""
    ill = np.flatnonzero(table.frame["ill"] == "yes")[:30]
    others = np.array_split(np.setdiff1d(np.arange(1200), ill), 2)
    privacy = Privacy(5.0, 1e-5) if key.startswith("dp") else None
    found = run(METHODS[key], table, parts=[ill, *others], privacy=privacy)
    assert set(found.synthetic["ill"]) == {"no", "yes"}
    if privacy:
        rates = {
            entry["rate"]
            for entry in found.statement["entries"]
            if entry["what"] == gan_budget.GRADIENTS
        }
        assert 1.0 in rates and found.statement["epsilon"] <= 5.0


def test_a_category_that_no_client_has_is_never_made(table):
    frame = table.frame[table.frame["region"] != "west"]
    assert "west" in table.schema["region"].categories
    fewer = Table("toy", frame, table.schema, data="own", digest="fewer")
    assert "west" not in set(run(fed_ctgan, fewer, num_rows=3000).synthetic["region"])


def test_a_client_that_has_spent_its_rounds_stays_out(table):
    method = METHODS["feddpctgan"]
    config = small(method, training_rounds=12, participation=0.5, most_rounds=2)
    found = settings.federated(
        method, table, promises.thirds(table), config=config, privacy=Privacy(2.0, 1e-5), seed=1
    )
    gradients = [
        entry for entry in found.statement["entries"] if entry["what"] == gan_budget.GRADIENTS
    ]
    assert max(entry["count"] for entry in gradients) == 2 and found.statement["epsilon"] <= 2.0


def dependences(frame):
    """How much likelier smokers are ill, how many years older the ill are, and how many there
    are."""
    ill, smokes = frame["ill"] == "yes", frame["smokes"] == "yes"
    older = frame.loc[ill, "age"].mean() - frame.loc[~ill, "age"].mean()
    return np.array([ill[smokes].mean() - ill[~smokes].mean(), older, ill.mean()])


@pytest.mark.slow
def test_central_training_learns_dependences(table):
    """A generator that ignores its noise or condition shows none. Means of two trainings, which
    scatter."""
    rates = {"generator_rate": 2e-3, "discriminator_rate": 2e-3}
    config = replace(ctgan.Config(), training_rounds=40, batch=200, hidden=(64, 64), **rates)
    runs = [
        settings.central(ctgan, table, config=config, seed=seed, num_rows=4000) for seed in range(2)
    ]
    smoking, older, share = np.mean([dependences(run.synthetic) for run in runs], axis=0)
    assert (dependences(table.frame)[:2] > [0.2, 10]).all()
    assert smoking > 0.1 and older > 3 and abs(share - dependences(table.frame)[2]) < 0.15


def test_the_step_a_client_makes_is_what_it_is_charged_for(table):
    """The batch of a private step is every row by its own coin: mean and variance over many
    steps."""
    import torch

    from fedsynth_lib.methods.gan.networks import Layout
    from fedsynth_lib.methods.gan.sampling import Conditions, LocalRows
    from fedsynth_lib.methods.gan.training import Pair, poisson_pairs

    layout, device = Layout((), (2,)), torch.device("cpu")
    codes = np.zeros((300, 1), np.int64)
    local = LocalRows.of(
        layout, np.zeros((300, 0), np.int64), np.zeros((300, 0), np.float32), codes, device
    )
    config = small(dp_fed_ctgan, hidden=(4,))
    conditions = Conditions.of(layout, np.array([5.0, 5.0]), logarithm=True, device=device)
    noise = Noise(1.0, stream(0, "noise"))
    sizes = [
        len(real[0])
        for real, _ in poisson_pairs(
            Pair(layout, config, device), local, conditions, 0.2, 60.0, 2000, noise
        )
    ]
    assert np.mean(sizes) == pytest.approx(60, abs=4 * np.sqrt(48 / 2000))
    assert np.var(sizes) == pytest.approx(48, rel=0.15)
