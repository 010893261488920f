"""The two networks of CTGAN and its losses (Xu et al. 2019, sections 4.3-4.4; leitner2023, figures 4.7 and 4.8).

A row is one float vector: for each column its blocks, as `Layout` lines them up. The generator's output is squashed
block by block: tanh for a number's distance, Gumbel softmax for one-hot parts, all of them in one softmax.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor, nn


@dataclass(frozen=True)
class Layout:
    """Where the parts of an encoded row lie: first all numbers, then all one-hot blocks one after the other.

    numbers: how many columns are continuous. modes: the modes of each. categories: those of each discrete column.
    A condition names one category of one discrete column; it is the discrete part of a row with a single 1.
    """

    modes: tuple[int, ...]
    categories: tuple[int, ...]

    @property
    def numbers(self) -> int:
        return len(self.modes)

    @property
    def blocks(self) -> tuple[int, ...]:
        """Widths of the one-hot blocks: modes of every continuous column, then categories of every discrete one."""
        return (*self.modes, *self.categories)

    @property
    def width(self) -> int:
        return self.numbers + sum(self.blocks)

    @property
    def condition_width(self) -> int:
        return sum(self.categories)

    @property
    def first_category(self) -> int:
        """Where the discrete part begins."""
        return self.numbers + sum(self.modes)

    @cached_property
    def padded(self) -> Tensor:
        """(blocks, widest) positions among the one-hot entries; -1 where a block is narrower."""
        index, start = torch.full((len(self.blocks), max(self.blocks)), -1), 0
        for row, width in enumerate(self.blocks):
            index[row, :width] = torch.arange(start, start + width)
            start += width
        return index

    @cached_property
    def unpadded(self) -> Tensor:
        """Positions of the one-hot entries in the flattened padded array, the inverse of `padded`."""
        return torch.nonzero(self.padded.flatten() >= 0).squeeze(1)


class Residual(nn.Module):
    """Linear, batch normalisation, ReLU; the input is kept beside the output.

    Rows are normalised by their batch, in training and in sampling: clients then share no running statistics.
    """

    def __init__(self, inputs: int, outputs: int):
        super().__init__()
        self.linear, self.norm = nn.Linear(inputs, outputs), nn.BatchNorm1d(outputs, track_running_stats=False)

    def forward(self, x: Tensor) -> Tensor:
        return torch.cat([torch.relu(self.norm(self.linear(x))), x], dim=1)


def generator(inputs: int, width: int, hidden: Sequence[int] = (256, 256)) -> nn.Sequential:
    """From noise and condition to a row before it is squashed (see `squash`)."""
    layers, wide = [], inputs
    for size in hidden:
        layers.append(Residual(wide, size))
        wide += size
    return nn.Sequential(*layers, nn.Linear(wide, width))


def discriminator(inputs: int, hidden: Sequence[int] = (256, 256), dropout: float = 0.5) -> nn.Sequential:
    """From a row with its condition (or `pac` of them side by side) to a logit of being real.

    Its sigmoid belongs to the loss; all its parameters are in linear layers, as private training needs.
    """
    layers: list[nn.Module] = []
    for size in hidden:
        layers += [nn.Linear(inputs, size), nn.LeakyReLU(0.2), nn.Dropout(dropout)]
        inputs = size
    return nn.Sequential(*layers, nn.Linear(inputs, 1))


def squash(
    raw: Tensor, layout: Layout, *, temperature: float = 0.2, generator: torch.Generator | None = None
) -> Tensor:
    """Raw output to a row: tanh of the numbers, Gumbel softmax of every one-hot block."""
    numbers, entries = raw[:, : layout.numbers], raw[:, layout.numbers :]
    uniform = torch.rand(entries.shape, generator=generator, device=raw.device, dtype=raw.dtype).clamp_(1e-20, 1 - 1e-7)
    entries = (entries - torch.log(-torch.log(uniform))) / temperature
    index = layout.padded.to(raw.device)
    blocks = torch.where(index >= 0, entries[:, index.clamp_min(0)], -torch.inf)
    shares = torch.softmax(blocks, dim=2).flatten(1)[:, layout.unpadded.to(raw.device)]
    return torch.cat([torch.tanh(numbers), shares], dim=1)


def side_by_side(rows: Tensor, pac: int) -> Tensor:
    """(rows / pac, pac * width): `pac` rows are judged together (Lin et al. 2018)."""
    return rows.reshape(len(rows) // pac, -1)


def input_slopes(network: nn.Sequential, inputs: Tensor) -> Tensor:
    """Gradients of a discriminator's scores by its inputs, (rows, inputs), as a function of its weights.

    Between its kinks the network is linear, so that a gradient is a product of weight matrices and of the slopes of
    what lies between them. Written out, it needs no second pass backward through the first one.
    """
    factors, hidden = [], inputs
    with torch.no_grad():
        for layer in network:
            before, hidden = hidden, layer(hidden)
            if not isinstance(layer, nn.Linear):
                factors.append(torch.where(before == 0, 0.0, hidden / before))
    slopes, factors = network[-1].weight.expand(len(inputs), -1), iter(reversed(factors))
    for layer in reversed(network[:-1]):
        slopes = slopes @ layer.weight if isinstance(layer, nn.Linear) else slopes * next(factors)
    return slopes
