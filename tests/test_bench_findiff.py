"""FinDiff's speed as ratios in one run: the private step against the ordinary one, sampling against
its floor."""

import time

import numpy as np
import pytest
import torch
from timing import seconds

from fedsynth_lib.core.contract import Client, Noise, stream
from fedsynth_lib.methods.diffusion import findiff
from fedsynth_lib.methods.diffusion.diffusion import Schedule
from fedsynth_lib.tables.load import load_table

pytestmark = [pytest.mark.bench, pytest.mark.filterwarnings("ignore:.*NOT REAL DATA")]
WIDE = (1024, 1024, 1024)


@pytest.fixture(scope="module")
def rows():
    """13,000 encoded rows of Adult, half of what one of two clients would have."""
    table = load_table("adult", work="sattarov2024")
    return findiff.encoder(table.schema, findiff.Config()), table


@pytest.mark.parametrize(("batch", "updates", "limit"), [(512, 5, 1.5), (16, 40, 2.0)])
def test_a_private_step_against_an_ordinary_one(rows, batch, updates, limit):
    """In wall time, one thread of PyTorch on two cores: at batch 16 half the work is noise, which
    is drawn beside it.

    Turn about, so that neither has the quieter machine.
    """
    torch.set_num_threads(1)
    encoder, table = rows
    config = findiff.Config(batch=batch, local_updates=updates, hidden=WIDE, encoding="declared")
    client = Client(encoder.transform(table.frame.iloc[:13_000]), 0, 2)
    state = findiff.start(encoder.domain, config, stream(0))

    def steps(noise):
        return lambda: findiff.client_step(state, client, config, noise, stream(1))

    both = [steps(None), steps(Noise(1.5, stream(2)))]
    spent = np.min([[seconds(each) for each in both] for _ in range(8)], axis=0)
    ratio = spent[1] / spent[0]
    print(
        f"batch {batch}: {1e3 * spent[0] / updates:.1f} ms, private "
        f"{1e3 * spent[1] / updates:.1f} ms, {ratio:.2f}"
    )
    assert ratio < limit


def test_sampling_against_bare_products_of_the_same_shapes():
    """A few steps of walking back 10,000 rows, against the matrix products that the denoiser cannot
    do without."""
    number, width, steps = 10_000, 40, 4
    schedule, generator = Schedule(steps), torch.Generator().manual_seed(0)
    from fedsynth_lib.methods.diffusion.diffusion import Denoiser

    network = Denoiser(width, WIDE, 64)
    weights = [layer.weight for layer in network.modules() if isinstance(layer, torch.nn.Linear)]
    inputs = [torch.randn(number, weight.shape[1], generator=generator) for weight in weights]
    start = torch.randn(number, width, generator=generator)

    def floor():
        with torch.no_grad():
            for _ in range(steps):
                for rows, weight in zip(inputs, weights, strict=True):
                    rows @ weight.T

    def sampled():
        with torch.no_grad():
            schedule.denoised(start, network)

    least = {"clock": time.process_time, "of_all": min}
    ratio = seconds(sampled, 3, **least) / seconds(floor, 3, **least)
    print(f"sampling takes {ratio:.2f} times the bare products")
    assert np.isfinite(ratio) and ratio < 1.15
