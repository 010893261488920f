"""Private gradients against one record at a time, against Opacus, and against what the accountant
is told."""

import warnings

import numpy as np
import pytest
import torch
from torch import nn

from fedsynth_lib.core.contract import BadInput, Noise, stream
from fedsynth_lib.core.dp_sgd import STATE, Tape, noise_generator, poisson_batches

RECORDS, WIDTH = 6, 5


@pytest.fixture
def network():
    torch.manual_seed(0)
    return nn.Sequential(
        nn.Linear(WIDTH, 7),
        nn.LeakyReLU(0.2),
        nn.Linear(7, 4, bias=False),
        nn.Tanh(),
        nn.Linear(4, 1),
    )


@pytest.fixture
def batch():
    generator = torch.Generator().manual_seed(1)
    return [torch.randn(RECORDS, WIDTH, generator=generator) * 3 for _ in range(2)]


def pair_losses(network, real, fake):
    """Real rows labelled 1, then fake rows labelled 0: record i owns rows i and i + RECORDS."""
    scores = network(torch.cat([real, fake])).squeeze(1)
    truth = torch.cat([torch.ones(len(real)), torch.zeros(len(fake))])
    return nn.functional.binary_cross_entropy_with_logits(scores, truth, reduction="none")


def one_by_one(network, real, fake):
    """The gradient of every record, flat."""
    losses, gradients = pair_losses(network, real, fake), []
    for record in range(len(real)):
        own = losses[record] + losses[record + len(real)]
        parts = torch.autograd.grad(own, list(network.parameters()), retain_graph=True)
        gradients.append(torch.cat([part.flatten() for part in parts]))
    return torch.stack(gradients)


def flat(network):
    return torch.cat([parameter.grad.flatten() for parameter in network.parameters()])


def private(network, real, fake, **options):
    settings = {
        "num_records": len(real),
        "clip": 1.0,
        "noise_multiplier": 0.0,
        "expected_records": 10.0,
    } | options
    with Tape(network) as tape:
        return tape.backward(pair_losses(network, real, fake), **settings)


@pytest.mark.parametrize("clip", [0.05, 1.0, 1e9])
def test_a_record_is_clipped_with_all_its_rows_together(network, batch, clip):
    gradients = one_by_one(network, *batch)
    norms = private(network, *batch, clip=clip)
    assert torch.allclose(norms, gradients.norm(dim=1), rtol=1e-4)
    expected = (gradients * (clip / gradients.norm(dim=1)).clamp_max(1)[:, None]).sum(dim=0) / 10
    assert torch.allclose(flat(network), expected, atol=1e-6)


@pytest.mark.parametrize("value", [1e30, float("inf"), float("nan")])
def test_a_record_whose_gradient_overflows_is_left_out(network, batch, value):
    """Clipped, it would be 0 times infinity, and every parameter were lost."""
    real, fake = (part.clone() for part in batch)
    private(network, real[1:], fake[1:])
    without = flat(network)
    real[0] = value
    norms = private(network, real, fake)
    assert not norms[0].isfinite() and norms[1:].isfinite().all()
    assert torch.allclose(flat(network), without, atol=1e-7)


def test_it_agrees_with_the_hooks_of_opacus(network, batch):
    from opacus import GradSampleModule

    clip = 0.3
    warnings.filterwarnings("ignore", "Full backward hook is firing", UserWarning)
    wrapped = GradSampleModule(network, loss_reduction="sum")
    scores = wrapped(batch[0]).squeeze(1)
    nn.functional.binary_cross_entropy_with_logits(
        scores, torch.ones(RECORDS), reduction="sum"
    ).backward()
    samples = torch.cat([p.grad_sample.flatten(1) for p in network.parameters()], dim=1)
    expected = (samples * (clip / samples.norm(dim=1)).clamp_max(1)[:, None]).sum(dim=0)
    wrapped.remove_hooks()
    with Tape(network) as tape:
        scores = network(batch[0]).squeeze(1)
        losses = nn.functional.binary_cross_entropy_with_logits(
            scores, torch.ones(RECORDS), reduction="none"
        )
        tape.backward(
            losses, num_records=RECORDS, clip=clip, noise_multiplier=0.0, expected_records=1.0
        )
    assert torch.allclose(flat(network), expected, atol=1e-6)


def test_noise_has_the_claimed_spread_whatever_the_batch(network, batch):
    empty = torch.empty(0, WIDTH)
    draws = []
    for seed in range(300):
        private(
            network,
            empty,
            empty,
            clip=0.5,
            noise_multiplier=4.0,
            generator=torch.Generator().manual_seed(seed),
        )
        draws.append(flat(network))
    draws = torch.stack(draws)
    assert draws.std() == pytest.approx(4.0 * 0.5 / 10, rel=0.02)
    assert abs(float(draws.mean())) < 0.01
    quiet, loud = (
        private(network, *batch, noise_multiplier=m) is not None and flat(network)
        for m in (0.0, 1e3)
    )
    assert (loud - quiet).std() == pytest.approx(1e3 / 10, rel=0.3)


def test_noise_drawn_ahead_is_the_same_noise(network, batch, monkeypatch):
    """Bit for bit over four steps, parameters moved in between, and no step's noise is that of
    another."""
    monkeypatch.setattr("os.cpu_count", lambda: torch.get_num_threads() + 1)
    begin, runs = [p.detach().clone() for p in network.parameters()], []
    for ahead in (False, True):
        for parameter, value in zip(network.parameters(), begin, strict=True):
            parameter.data.copy_(value)
        generator, found = torch.Generator().manual_seed(4), []
        optimiser = torch.optim.SGD(network.parameters(), lr=0.1)
        with Tape(network, ahead=ahead) as tape:
            assert bool(tape._thread) == ahead
            for _ in range(4):
                losses = pair_losses(network, *batch)
                options = {
                    "clip": 0.1,
                    "noise_multiplier": 3.0,
                    "expected_records": RECORDS,
                    "generator": generator,
                }
                tape.backward(losses, num_records=RECORDS, **options)
                found.append(flat(network).clone())
                optimiser.step()
        runs.append(torch.stack(found))
    assert torch.equal(*runs)
    assert (torch.corrcoef(runs[0]) - torch.eye(4)).abs().max() < 0.5


class Seeds:
    """In place of a stream of noise: a chosen seed first, then words of a stream of its own."""

    def __init__(self, seed, words=0):
        self.seed, self.words = seed, stream(words, "words")

    def integers(self, high, size=None):
        return self.seed if size is None else self.words.integers(high, size=size)


def test_torch_keeps_the_words_of_its_state_where_they_are_written():
    for seed in (0, 7, 2**31):
        state = torch.Generator().manual_seed(seed).get_state().view(torch.int64)[STATE]
        np.testing.assert_array_equal(state, np.random.RandomState(seed).get_state()[1])


def test_secret_noise_does_not_hang_on_the_32_bits_that_torch_keeps_of_a_seed():
    def drawn(rng, secret):
        return torch.randn(50_000, generator=noise_generator(Noise(1.0, rng, secret)))

    seeds = (5, 5 + 7 * 2**32)
    assert torch.equal(*(drawn(Seeds(seed), False) for seed in seeds))  # why a seed is not enough
    one, other = (drawn(Seeds(seed, words), True) for words, seed in enumerate(seeds))
    assert abs(torch.corrcoef(torch.stack([one, other]))[0, 1]) < 5 / 50_000**0.5
    for draws in (one, other):
        assert abs(draws.mean()) < 5 / 50_000**0.5 and abs(draws.std() - 1) < 5 / 100_000**0.5
    words = Seeds(5, 3).integers(2**32, 624).astype(np.uint32)
    twister = np.random.RandomState()
    twister.set_state(("MT19937", words, 624))
    generator = noise_generator(Noise(1.0, Seeds(5, 3), True))
    # of every second word
    low = torch.empty(2000, dtype=torch.int64).random_(0, 2**31, generator=generator)
    np.testing.assert_array_equal(
        low, twister.randint(0, 2**32, 4000, dtype=np.uint32)[1::2] & (2**31 - 1)
    )


def test_a_layer_that_is_used_twice_counts_twice(network, batch):
    with Tape(network) as tape:
        losses = torch.cat([network(part).squeeze(1) ** 2 for part in batch])
        norms = tape.backward(
            losses, num_records=RECORDS, clip=1e9, noise_multiplier=0.0, expected_records=1.0
        )
    ours = flat(network)
    network.zero_grad()
    torch.cat([network(part).squeeze(1) ** 2 for part in batch]).sum().backward()
    assert torch.allclose(ours, flat(network), rtol=1e-4, atol=1e-5) and (norms > 0).all()


@pytest.mark.parametrize("stray", [nn.BatchNorm1d(WIDTH), nn.LayerNorm(WIDTH)])
def test_parameters_that_would_escape_clipping_are_refused(stray):
    with pytest.raises(BadInput, match=r"parameter '0\.weight' is not in a linear layer"):
        Tape(nn.Sequential(stray, nn.Linear(WIDTH, 1)))


def test_poisson_batches_draw_every_record_independently():
    rate, steps, records = 0.02, 4000, 100
    batches = list(poisson_batches(records, rate, steps, rng=np.random.default_rng(0)))
    sizes = np.array([len(batch) for batch in batches])
    assert len(batches) == steps and (sizes == 0).any()
    error = np.sqrt(records * rate * (1 - rate) / steps)
    assert abs(sizes.mean() - records * rate) < 4 * error
    # a fixed batch size has none
    assert sizes.var() == pytest.approx(records * rate * (1 - rate), rel=0.1)
    taken = np.bincount(np.concatenate(batches), minlength=records) / steps
    assert np.abs(taken - rate).max() < 5 * np.sqrt(rate * (1 - rate) / steps)


@pytest.mark.parametrize("rate", [0.0, 1.5])
def test_impossible_rates_are_refused(rate):
    with pytest.raises(BadInput, match="sampling rate"):
        next(poisson_batches(10, rate, 1, rng=np.random.default_rng(0)))
