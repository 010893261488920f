"""Speed of the CTGAN family on real Adult rows, as ratios to the peer in one run: pytest -m bench.

They need the real table (FEDSYNTH_MIRROR or data/raw) and a machine that does nothing else.
"""

import time
import warnings

import pytest
import torch
from timing import report, seconds
from torch import nn

from fedsynth_lib.core.contract import Client, Noise, stream
from fedsynth_lib.core.dp_sgd import Tape
from fedsynth_lib.federation import settings
from fedsynth_lib.methods.gan import ctgan
from fedsynth_lib.methods.gan import encoding as gan_encoding
from fedsynth_lib.methods.gan.sampling import Conditions, LocalRows
from fedsynth_lib.methods.gan.training import Pair, train
from fedsynth_lib.methods.variants import dp_fed_ctgan
from fedsynth_lib.tables import modes
from fedsynth_lib.tables.load import load_table

pytestmark = pytest.mark.bench
CPU = torch.device("cpu")
CORES = {"clock": time.process_time, "warm": True}


@pytest.fixture(scope="module")
def adult():
    return load_table("adult", work="leitner2023")


def test_the_mixture_encoder_against_scikit_learn(adult, capsys):
    from sklearn.exceptions import ConvergenceWarning
    from sklearn.mixture import BayesianGaussianMixture

    columns = [adult.frame[name].to_numpy(float) for name in adult.schema.numeric]

    def theirs():
        options = {"weight_concentration_prior": 0.001, "random_state": 0, "max_iter": 100}
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            for column in columns:
                BayesianGaussianMixture(n_components=10, **options).fit(column[:, None])

    own = seconds(lambda: [modes.fit_variational(column, seed=0) for column in columns], 3, **CORES)
    peer = seconds(theirs, 1, **CORES)
    report(capsys, "mixtures of Adult's six numbers", own, peer, "scikit-learn")
    assert peer / own > 3 and own < 5


def steps_of(adult, config, noise):
    """A function that makes 20 steps on all of Adult."""
    rows = ctgan.encoder(adult.schema, config).transform(adult.frame)
    rng = stream(0, "bench")
    state = ctgan.start(ctgan.encoder(adult.schema, config).domain, config=config, rng=rng)
    update = gan_encoding.client_encoding(Client(rows, 0, 1), state, config, noise, rng)
    state, _ = ctgan.server_step(state, [update], config=config, noise=noise, rng=rng)
    layout, levels = gan_encoding.layout_of(state), state["levels"]
    codes = gan_encoding.codes_of(rows, levels)
    encoded = gan_encoding.encode_numbers(gan_encoding.numbers_of(rows, levels), state, rng)
    local = LocalRows.of(layout, *encoded, gan_encoding.compact(codes, state), CPU)
    counts = gan_encoding.category_counts(codes, levels)[state["present"]]
    pair = Pair(layout, config, CPU)
    conditions = Conditions.of(layout, counts, logarithm=True, device=CPU)
    return lambda: train(pair, local, conditions, len(rows), config, noise, 20)


def test_a_private_step_against_an_ordinary_one(adult, capsys):
    noise = Noise(2.0, stream(0, "noise"))
    private = steps_of(adult, dp_fed_ctgan.Config(), noise)
    published = {**dp_fed_ctgan.AS_PUBLISHED, "encoding": "variational", "condition_weight": 1.0}
    ordinary = steps_of(adult, dp_fed_ctgan.Config(**published, clip=None), None)
    own, peer = (seconds(each, 5, **CORES) for each in (private, ordinary))
    report(capsys, "20 steps at batch 500, private", own, peer, "ordinary steps")
    assert own / peer < 1.5


def test_private_gradients_against_the_hooks_of_opacus(capsys):
    from opacus import GradSampleModule

    warnings.filterwarnings("ignore", "Full backward hook is firing", UserWarning)
    rows = torch.randn(500, 241)

    def network():
        torch.manual_seed(0)
        return nn.Sequential(
            nn.Linear(241, 256),
            nn.LeakyReLU(0.2),
            nn.Linear(256, 256),
            nn.LeakyReLU(0.2),
            nn.Linear(256, 1),
        )

    plain, hooked = network(), GradSampleModule(network(), loss_reduction="sum")

    def ours():
        with Tape(plain) as tape:
            losses = nn.functional.softplus(plain(rows)).squeeze(1)
            tape.backward(
                losses, num_records=500, clip=1.0, noise_multiplier=1.0, expected_records=500
            )

    def theirs():
        hooked.zero_grad()
        nn.functional.softplus(hooked(rows)).sum().backward()
        norms = sum(p.grad_sample.flatten(1).pow(2).sum(dim=1) for p in hooked.parameters()).sqrt()
        factors = (1 / norms).clamp_max(1)
        for p in hooked.parameters():
            p.grad = torch.einsum("i,i...", factors, p.grad_sample) / 500

    own, peer = (seconds(each, 5, **CORES) for each in (ours, theirs))
    report(capsys, "clipped gradients of 500 records", own, peer, "Opacus's hooks")
    assert peer / own > 5


def test_an_epoch_on_adult(adult, capsys):
    """Processor seconds per epoch, to be held against its own: no peer can be a test dependency
    here (see speed.md)."""

    def epochs(number):
        config = ctgan.Config(training_rounds=1, local_epochs=number)
        begin = time.process_time()
        settings.central(ctgan, adult, config=config, seed=0, num_rows=500)
        return time.process_time() - begin

    own = (epochs(4) - epochs(1)) / 3
    with capsys.disabled():
        print(f"\nan epoch of CTGAN, {len(adult):,} rows, batch 500: {own:.2f} s of a core")
    assert own < 4.26  # what the well-known package took with one thread
