"""Private gradients (DP-SGD) for networks whose parameters all sit in linear layers.

Source: Abadi et al. 2016. A record's gradient in a linear layer is the sum over its rows of
(gradient by the output) x (input), so its norm follows from inner products of these gradients and
of inputs, and the clipped sum is one product of matrices: no gradient of a single record is ever
stored (Li et al. 2022; Bu et al. 2022). Tested equal to Opacus's hooks, which take 40 times as
long.

`poisson_batches` draws every record into every batch independently and with the same probability
(Poisson sampling), which is what the accountant assumes (`Charge.rate`); a shuffled loader would
not be.
"""

import os
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor

import numpy as np
import torch
from torch import Tensor, nn

from fedsynth_lib.core.contract import BadInput, Noise

# of torch's generator on the CPU in words of 8 bytes: the Mersenne Twister's own words
STATE = slice(3, 3 + 624)


class Tape:
    """Records inputs of linear layers, and the gradients by their outputs.

    It records from the forward pass of a network to its `backward`.

        with Tape(network) as tape:  # for one step or many
            losses = ...  # of rows; record i owns rows i, i + B, i + 2B, ...
            tape.backward(losses, num_records=B, clip=1.0, noise_multiplier=2.0,
                          expected_records=100, generator=g)
            optimiser.step()  # the gradients are the private ones

    ahead: where PyTorch leaves a core free, draw the noise of the next step beside a step, which
        halves its time where batches are small. The same numbers are drawn; the generator must
        serve this tape alone.
    Raises BadInput for a network with parameters outside of linear layers: their gradients would
    not be clipped.
    """

    def __init__(self, network: nn.Module, *, ahead: bool = False):
        self.layers = [layer for layer in network.modules() if isinstance(layer, nn.Linear)]
        covered = {id(p) for layer in self.layers for p in layer.parameters(recurse=False)}
        for name, parameter in network.named_parameters():
            if parameter.requires_grad and id(parameter) not in covered:
                raise BadInput(
                    f"parameter {name!r} is not in a linear layer: private training "
                    "covers those only."
                )
        # inputs and outputs of every pass
        self._seen: dict[nn.Linear, list[tuple[Tensor, Tensor]]] = {}
        parameters = [
            p for layer in self.layers for p in (layer.weight, layer.bias) if p is not None
        ]
        ahead = (
            ahead
            and torch.get_num_threads() < (os.cpu_count() or 1)
            and parameters[0].device.type == "cpu"
        )
        # Buffers for all steps, since fresh memory costs as much as noise: one set, and one that is
        # filled ahead.
        self._buffers = [
            {p: torch.empty_like(p, requires_grad=False) for p in parameters}
            for _ in range(1 + ahead)
        ]
        self._thread = ThreadPoolExecutor(1) if ahead else None
        self._following: Future | None = None

    def __enter__(self) -> "Tape":
        """Begin to record."""
        self._hooks = [layer.register_forward_hook(self._remember) for layer in self.layers]
        return self

    def __exit__(self, *_: object) -> None:
        """End recording."""
        for hook in self._hooks:
            hook.remove()
        self._seen.clear()
        if self._thread:
            self._thread.shutdown()

    def _remember(self, layer: nn.Linear, inputs: tuple[Tensor, ...], output: Tensor) -> None:
        self._seen.setdefault(layer, []).append((inputs[0].detach(), output))

    def backward(
        self,
        losses: Tensor,
        *,
        num_records: int,
        clip: float,
        noise_multiplier: float,
        expected_records: float,
        generator: torch.Generator | None = None,
    ) -> Tensor:
        """Set each parameter's gradient to (sum of clipped gradients + noise) / expected_records.

        Returns the gradient norms of the records before clipping, (num_records,).

        losses: (rows,), one for each row of the batch; rows of a record, `num_records` apart, are
            clipped together, so one record added or removed moves the sum by at most `clip`. Hence
            the noise has standard deviation noise_multiplier * clip. noise_multiplier 0 and clip
            infinite give the ordinary gradient.
        expected_records: rate * records, a constant; the true batch size must not enter.
        """
        outputs = [output for layer in self.layers for _, output in self._seen.get(layer, [])]
        gradients = (
            torch.autograd.grad(losses.sum(), outputs)
            if len(losses)
            else [torch.zeros_like(o) for o in outputs]
        )
        gradient_of = {
            id(output): gradient for output, gradient in zip(outputs, gradients, strict=True)
        }
        pieces = {layer: self._rows(layer, num_records, gradient_of) for layer in self.layers}
        self._seen.clear()
        squares = losses.new_zeros(num_records)
        for layer, (inputs, gradients) in pieces.items():
            constant = 0 if layer.bias is None else 1
            if gradients.shape[1] == 1:  # records of one row
                squares += gradients.square().sum(dim=(1, 2)) * (
                    inputs.square().sum(dim=(1, 2)) + constant
                )
            else:
                squares += ((gradients @ gradients.mT) * (inputs @ inputs.mT + constant)).sum(
                    dim=(1, 2)
                )
        norms = squares.sqrt()
        factors = (clip / norms.clamp_min(1e-12)).clamp_max(1.0)
        # overflow: such a record counts nothing, else it could turn all parameters into NaN
        broken = ~norms.isfinite()
        any_broken, share = bool(broken.any()), 1 / expected_records
        spread = noise_multiplier * clip * share if noise_multiplier else 0.0
        noise = self._normals(generator)
        for layer, (inputs, gradients) in pieces.items():
            scaled = gradients * factors[:, None, None]
            if any_broken:
                scaled, inputs = (
                    part.masked_fill(broken[:, None, None], 0.0) for part in (scaled, inputs)
                )
            scaled = scaled.flatten(0, 1)
            weight, bias = layer.weight, layer.bias
            # all in one pass over it
            noise[weight].addmm_(scaled.T, inputs.flatten(0, 1), beta=spread, alpha=share)
            weight.grad = noise[weight]
            if bias is not None:
                bias.grad = noise[bias].mul_(spread).add_(scaled.sum(dim=0), alpha=share)
        return norms

    def _normals(self, generator: torch.Generator | None) -> dict[nn.Parameter, Tensor]:
        """Draw standard normal numbers for every parameter."""

        def draw(buffers: dict[nn.Parameter, Tensor]) -> dict[nn.Parameter, Tensor]:
            for buffer in buffers.values():
                torch.randn(buffer.shape, generator=generator, out=buffer)
            return buffers

        drawn = self._following.result() if self._following else draw(self._buffers[-1])
        if self._thread:
            self._buffers.reverse()  # those that the step before this one left behind
            self._following = self._thread.submit(draw, self._buffers[-1])
        return drawn

    def _rows(
        self, layer: nn.Linear, num_records: int, gradient_of: dict[int, Tensor]
    ) -> tuple[Tensor, Tensor]:
        """Return the inputs of a layer and the gradients by its outputs.

        Both are (records, rows of a record, features).
        """
        passes = [(inputs, gradient_of[id(output)]) for inputs, output in self._seen.get(layer, [])]
        if not passes:
            raise BadInput(
                "a linear layer took no part in the loss: leave it out of the private network."
            )
        inputs, gradients = (
            torch.cat(each) if len(each) > 1 else each[0] for each in zip(*passes, strict=True)
        )
        lined_up = (len(inputs) // max(num_records, 1), num_records)
        return tuple(
            part.reshape(*lined_up, part.shape[-1]).transpose(0, 1) for part in (inputs, gradients)
        )


def noise_generator(noise: Noise, device: torch.device | str = "cpu") -> torch.Generator:
    """Return torch's generator of a run's noise, begun from `noise.rng`.

    On the CPU torch keeps 32 bits of a seed. Noise that a known seed repeats needs no more. Secret
    noise from so few bits could be found by trying them all, so there every word of the state is
    drawn. A GPU takes all 63 bits of the seed.
    """
    return begun(torch.Generator(device), noise.rng, secret=noise.secret)


def begun(generator: torch.Generator, rng: np.random.Generator, *, secret: bool) -> torch.Generator:
    """Return the generator itself, begun from `rng`.

    secret: on the CPU, draw every word of the generator's state; a seed holds too few bits there.
    """
    generator.manual_seed(int(rng.integers(2**63)))
    if secret and generator.device.type == "cpu":
        state = generator.get_state()
        state.view(torch.int64)[STATE] = torch.from_numpy(rng.integers(2**32, size=624))
        generator.set_state(state)
    return generator


def poisson_batches(
    num_records: int, rate: float, steps: int, *, rng: np.random.Generator
) -> Iterator[np.ndarray]:
    """Draw `steps` batches of record positions by Poisson sampling.

    Each record is in each batch with probability `rate`, independently; a batch may be empty.
    """
    if not 0 < rate <= 1:
        raise BadInput(
            f"the sampling rate is {rate:g}: take batches of at least 1 and at most "
            f"{num_records} records."
        )
    for _ in range(steps):
        yield np.flatnonzero(rng.random(num_records) < rate)
