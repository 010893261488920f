"""The hidden layers of the divergence's network, forward and backward, in memory that every epoch
uses anew.

A layer is weights, batch normalisation, dropout of a half, leaky ReLU. All that is done to one
value is done while it is at hand (`_activate` and its companions, compiled by numba).
"""

from collections.abc import Callable

import numpy as np
import torch
from numba import njit
from torch import Tensor

SLOPE = 0.2  # of the leaky ReLU
EPSILON = 1e-5  # of batch normalisation
ONE, LEAK, NOTHING = np.array([1, SLOPE, 0], np.float32)
# rows that the wide layer takes at a time: what it makes of them stays in a core's cache
BLOCK = 1000


class Wide:
    """The first hidden layer: its constants, and its memory. rows: centred.

    Each block of rows goes through all that this layer does before the next one comes.
    """

    def __init__(self, rows: Tensor, width: int):
        self.rows = torch.cat([rows, torch.ones(len(rows), 1)], dim=1)
        self.output, self.inner = torch.empty(len(rows), width), torch.empty(BLOCK, width)
        self.blocks = [slice(start, start + BLOCK) for start in range(0, len(rows), BLOCK)]

    def forward(
        self,
        weights: Tensor,
        factor: Tensor,
        shift: Tensor,
        kept: np.ndarray,
        following: Tensor,
        out: Tensor,
    ) -> None:
        """What the following weights give of the layer's output. factor: of the normalisation."""
        factor, shift = 2 * factor, 2 * shift
        for block in self.blocks:
            rows, output = self.rows[block, :-1], self.output[block]
            values = product(rows, weights.T, self.inner[: len(rows)])
            product(
                _run(_activate, values, factor, shift, kept[block], output), following.T, out[block]
            )

    def backward(self, gradient: Tensor, following: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Gradients of the weights times their factor, of the shift, and of the following
        weights."""
        of_following, of_folded = (
            torch.zeros_like(following),
            torch.zeros(self.rows.shape[1], following.shape[1]),
        )
        following = 2 * following
        for block in self.blocks:
            output, before = self.output[block], gradient[block]
            own = _run(_backward, output, product(before, following, self.inner[: len(before)]))
            of_following += product(before.T, output)
            of_folded += product(self.rows[block].T, own)
        return of_folded.T[:, :-1], of_folded.T[:, -1], of_following


class Narrow:
    """Normalisation, leaky ReLU and dropout of a later layer, in place. values: what the layer's
    weights gave."""

    def __init__(self, number: int, width: int):
        self.values, self.output, self.gradient = (torch.empty(number, width) for _ in range(3))
        self.sums = torch.empty(2, width, dtype=torch.float64)

    def forward(
        self, scale: Tensor, shift: Tensor, kept: np.ndarray
    ) -> tuple[Tensor, Tensor, Tensor]:
        """The layer's output, and mean and variance of the values, which are centred."""
        _run(_centre, self.sums, self.values)
        mean, variance = self.sums.float()
        self.spread = (variance + EPSILON).rsqrt()
        output = _run(_activate, self.values, 2 * scale * self.spread, 2 * shift, kept, self.output)
        return output, mean, variance

    def backward(
        self, gradient: Tensor, following: Tensor, scale: Tensor
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Gradients by what the weights gave, by scale and by shift."""
        own = product(gradient, 2 * following, self.gradient)
        _run(_backward_and_sum, self.output, self.values, self.sums, own)
        of_shift, of_scale = self.sums.float()
        of_scale *= self.spread
        along, across = of_scale * self.spread / len(own), of_shift / len(own)
        return (
            _run(_spread_out, self.values, along, across, self.spread * scale, own),
            of_scale,
            of_shift,
        )


def product(left: Tensor, right: Tensor, out: Tensor | None = None) -> Tensor:
    """left @ right by numpy's library; torch's own is half as fast at some of these shapes on some
    processors."""
    return torch.from_numpy(
        np.matmul(left.numpy(), right.numpy(), out=None if out is None else out.numpy())
    )


def _run(kernel: Callable, *arrays: Tensor | np.ndarray) -> Tensor:
    """The last array, which the kernel has filled; numba knows numpy's arrays, which share the
    tensors' memory."""
    kernel(*(array.numpy() if isinstance(array, Tensor) else array for array in arrays))
    return arrays[-1]


# sums of a column may be taken in any order; loops over single values, since numba takes seconds to
# compile what is done to slices
compiled = njit(fastmath={"reassoc", "contract", "nsz"})


@compiled
def _activate(values, scale, shift, kept, output):
    """Leaky ReLU and dropout; scale and shift come doubled, since what stays counts twice."""
    for i in range(len(values)):
        for word in range(kept.shape[1]):
            for bit in range(32):
                j = 32 * word + bit
                value = values[i, j] * scale[j] + shift[j]
                value = value if value > 0 else value * LEAK
                output[i, j] = value if (kept[i, word] >> bit) & 1 else NOTHING


@compiled
def _clear(sums):
    for k in range(len(sums)):
        for j in range(sums.shape[1]):
            sums[k, j] = 0


@compiled
def _derivative(output):
    """Of leaky ReLU and dropout, by what they gave; an output of zero was dropped."""
    return ONE if output > 0 else LEAK if output < 0 else NOTHING


@compiled
def _backward(output, gradient):
    """The gradient before leaky ReLU and dropout, from the one after them."""
    for i in range(len(gradient)):
        for j in range(gradient.shape[1]):
            gradient[i, j] *= _derivative(output[i, j])


@compiled
def _backward_and_sum(output, values, sums, gradient):
    """The same, with the sum of each column, and that of its products with the values."""
    _clear(sums)
    for i in range(len(gradient)):
        for j in range(gradient.shape[1]):
            gradient[i, j] *= _derivative(output[i, j])
            sums[0, j] += gradient[i, j]
            sums[1, j] += gradient[i, j] * values[i, j]


@compiled
def _centre(moments, values):
    """Mean and variance of each column; the mean is taken away."""
    _clear(moments)
    for i in range(len(values)):
        for j in range(values.shape[1]):
            moments[0, j] += values[i, j]
    for j in range(values.shape[1]):
        moments[0, j] /= len(values)
    for i in range(len(values)):
        for j in range(values.shape[1]):
            values[i, j] -= moments[0, j]
            moments[1, j] += values[i, j] * values[i, j]
    for j in range(values.shape[1]):
        moments[1, j] /= len(values)


@compiled
def _spread_out(values, along, across, factor, gradient):
    """The gradient before normalisation: its mean and deviation hang on all rows."""
    for i in range(len(gradient)):
        for j in range(gradient.shape[1]):
            gradient[i, j] = (gradient[i, j] - values[i, j] * along[j] - across[j]) * factor[j]
