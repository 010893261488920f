"""Positive controls for the CTGAN family: mistakes of published code, made here on purpose, must be
caught."""

from dataclasses import replace

import numpy as np
import promises
import pytest
import torch
from torch.nn.functional import softplus

from fedsynth_lib.core.accounting import BudgetExceeded
from fedsynth_lib.core.contract import Client, Noise, Privacy, stream
from fedsynth_lib.core.dp_sgd import Tape
from fedsynth_lib.federation import settings
from fedsynth_lib.federation.flower import Job
from fedsynth_lib.federation.rounds import run_rounds
from fedsynth_lib.methods.gan import networks
from fedsynth_lib.methods.gan.training import NETWORKS, Pair
from fedsynth_lib.methods.variants import dp_fed_ctgan

RECORDS, EXPECTED, CLIP = 12, 20.0, 0.5
LAYOUT = networks.Layout(modes=(3,), categories=(2,))


def broken(method, **replaced):
    """A copy of the method with some of its names exchanged."""
    return replace(method, name="broken", **replaced)


PUBLISHED = broken(dp_fed_ctgan, Config=lambda: dp_fed_ctgan.Config(**dp_fed_ctgan.AS_PUBLISHED))


def losses_of(pair, real, fake):
    """Of all real rows, then of all imagined ones."""
    scores = pair.judge(*(torch.cat(parts) for parts in zip(real, fake, strict=True)))
    return softplus(torch.cat([-scores[: len(real[0])], scores[len(real[0]) :]]))


def noise_before_zero_grad(self, real, fake, *, noise, expected, generator):
    """Clips, adds the noise, throws all of it away, and steps along the bare gradient."""
    with Tape(self.discriminator) as tape:
        private = {"clip": self.config.clip, "noise_multiplier": noise.multiplier if noise else 0.0}
        options = {
            "num_records": len(real[0]),
            "expected_records": expected,
            "generator": generator,
        }
        tape.backward(losses_of(self, real, fake), **private, **options)
    self.step("discriminator", losses_of(self, real, fake).mean())


def clips_the_mean(self, real, fake, *, noise, expected, generator):
    """The gradient of the whole batch is cut to the norm; no record's own is."""
    optimiser = self.optimisers["discriminator"]
    optimiser.zero_grad()
    (losses_of(self, real, fake).sum() / expected).backward()
    torch.nn.utils.clip_grad_norm_(self.discriminator.parameters(), self.config.clip)
    optimiser.step()


def clips_rows(self, real, fake, *, noise, expected, generator):
    """Each row is cut on its own, so that a record, which has two of them, weighs up to twice the
    norm."""
    with Tape(self.discriminator) as tape:
        rows = {"num_records": 2 * len(real[0]), "expected_records": expected}
        tape.backward(
            losses_of(self, real, fake), clip=self.config.clip, noise_multiplier=0.0, **rows
        )
    self.optimisers["discriminator"].step()


# --- noise must reach the networks ---


def noise_reaches_the_training(table):
    """The same rows, the same start and the same batches, namely all rows; nothing differs but the
    noise."""
    config = replace(promises.everyone(dp_fed_ctgan), batch=len(table.frame))
    rows = dp_fed_ctgan.encoder(table.schema, config).transform(table.frame)
    domain = dp_fed_ctgan.encoder(table.schema, config).domain
    state = next(run_rounds(Job(dp_fed_ctgan, config, domain, 2.0, 1, 1), [rows])).state
    ends = []
    for number in (1, 2):
        noise = Noise(2.0, stream(number, "noise"))
        ends.append(
            dp_fed_ctgan.client_step(
                state, Client(rows, 0, 1), config, noise, stream(5, "training")
            ).arrays
        )
    same = [name for name in NETWORKS if np.array_equal(ends[0][name], ends[1][name])]
    assert not same, f"whatever the noise, the same {' and '.join(same)}"


def test_noise_reaches_the_training(table):
    noise_reaches_the_training(table)


def test_noise_that_is_thrown_away_is_caught(table, monkeypatch):
    """End to end the histograms' noise makes states differ all the same, which is why training is
    looked at alone."""
    monkeypatch.setattr(Pair, "private_step", noise_before_zero_grad)
    with pytest.raises(AssertionError, match="the same generator and discriminator"):
        noise_reaches_the_training(table)
    with pytest.raises(AssertionError, match="the state is the same without it"):
        promises.noise_reaches_the_state(PUBLISHED, table)


# --- one record must not move the sum by more than the clip ---


def moved_by_one_record(step, clip=CLIP):
    """How far the discriminator's gradient moves when a record leaves that it gets as wrong as can
    be."""
    config = replace(dp_fed_ctgan.Config(), clip=clip, hidden=(8,), noise_width=4)
    furthest = 0.0
    for sign in (1e4, -1e4):  # one of them is taken for imagined, whatever the network
        torch.manual_seed(0)
        pair = Pair(LAYOUT, config, torch.device("cpu"))
        pair.discriminator.eval()  # no dropout: all else stays as it is
        real, fake = (
            (torch.randn(RECORDS, LAYOUT.width), torch.arange(RECORDS) % 2) for _ in range(2)
        )
        real[0][0], fake[0][0] = sign, -sign
        start, ends = pair.parameters(), []
        for kept in (slice(None), slice(1, None)):
            pair.load(start)
            pair.optimisers["discriminator"] = torch.optim.SGD(
                pair.discriminator.parameters(), lr=1.0
            )
            parts = [tuple(part[kept] for part in side) for side in (real, fake)]
            step(pair, *parts, noise=None, expected=EXPECTED, generator=torch.Generator())
            ends.append(pair.parameters()["discriminator"])
        furthest = max(furthest, float(np.linalg.norm(ends[0] - ends[1])))
    return furthest


def test_a_record_moves_a_private_step_by_the_clip_at_most():
    moved = moved_by_one_record(Pair.private_step)
    assert moved == pytest.approx(CLIP / EXPECTED, rel=1e-2) and moved <= CLIP / EXPECTED * (
        1 + 1e-3
    )
    # it is a huge one
    assert moved_by_one_record(Pair.private_step, clip=1e9) > 100 * CLIP / EXPECTED


@pytest.mark.parametrize("mistake, times", [(clips_the_mean, EXPECTED / 2), (clips_rows, 1.3)])
def test_clipping_anything_but_records_is_caught(mistake, times):
    """Of the mean: further by about the size of a batch. Of rows: up to twice as far."""
    assert moved_by_one_record(mistake) > times * CLIP / EXPECTED


# --- all rounds count ---


def test_an_accountant_that_reports_one_round_is_caught(table):
    def forgetful(state, client, config, noise, rng):
        update = dp_fed_ctgan.client_step(state, client, config, noise, rng)
        return update if state["round"] <= 1 else replace(update, spent=[])

    with pytest.raises(AssertionError, match=r"^0\.[4-9]"):  # of a budget of 1
        promises.spends_what_it_planned(broken(dp_fed_ctgan, client_step=forgetful), table)


@pytest.mark.parametrize("scheme", [{}, dp_fed_ctgan.AS_PUBLISHED], ids=["end to end", "published"])
def test_an_accountant_that_stops_by_one_round_is_caught(scheme, table):
    """In each round it finds that nothing has been spent yet, and goes on for ever."""

    def forgetful(state, client, config, noise, rng):
        client.memory.pop("steps", None)
        return dp_fed_ctgan.client_step(state, client, config, noise, rng)

    stop = {"stop_epsilon": 1.5, "stop_delta": 1e-5, "training_rounds": 60}
    config = replace(promises.everyone(dp_fed_ctgan), **scheme, **stop)
    options = {"config": config, "privacy": Privacy(1.5, 1e-5, noise_multiplier=2.0), "seed": 1}
    honest = settings.federated(dp_fed_ctgan, table, promises.thirds(table), **options)
    assert honest.statement["epsilon_protected"] <= 1.5
    with pytest.raises(BudgetExceeded, match="by round"):
        method = broken(dp_fed_ctgan, client_step=forgetful)
        settings.federated(method, table, promises.thirds(table), **options)
