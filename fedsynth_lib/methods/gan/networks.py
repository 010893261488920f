"""The two networks of CTGAN and its losses.

Sources: Xu et al. 2019, sections 4.3-4.4; leitner2023, figures 4.7 and 4.8.

A row is one float vector: for each column its blocks, as `Layout` lines them up. The generator's
output is squashed block by block: tanh for a number's distance, Gumbel softmax for one-hot parts,
all of them in one softmax.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn


@dataclass(frozen=True)
class Layout:
    """The places of the parts of an encoded row.

    A row has first all numbers, then all one-hot blocks one after the other.

    numbers: how many columns are continuous. modes: the modes of each. categories: those of each
        discrete column.

    A condition names one category of one discrete column. It is the discrete part of a row with a
    single 1, and the position of this 1 stands for it. Where no column is discrete the position is
    0 and is ignored.
    """

    modes: tuple[int, ...]
    categories: tuple[int, ...]

    @property
    def numbers(self) -> int:
        """How many columns are continuous."""
        return len(self.modes)

    @property
    def blocks(self) -> tuple[int, ...]:
        """Widths of the one-hot blocks.

        First come the modes of every continuous column, then the categories of every discrete one.
        """
        return (*self.modes, *self.categories)

    @property
    def width(self) -> int:
        """Width of an encoded row."""
        return self.numbers + sum(self.blocks)

    @property
    def condition_width(self) -> int:
        """Width of a condition."""
        return sum(self.categories)

    @property
    def first_category(self) -> int:
        """Where the discrete part begins."""
        return self.numbers + sum(self.modes)


class Hidden(nn.Module):
    """A hidden layer: linear, batch normalisation, ReLU.

    Rows are normalised by their batch, in training and in sampling: clients then share no running
    statistics.
    """

    def __init__(self, inputs: int, outputs: int):
        super().__init__()
        self.linear, self.norm = (
            nn.Linear(inputs, outputs),
            nn.BatchNorm1d(outputs, track_running_stats=False),
        )

    def forward(self, x: Tensor) -> Tensor:
        """Return the layer's output, normalised over the batch and rectified."""
        return torch.relu(self.norm(self.linear(x)))


class Generator(nn.Sequential):
    """From noise and a condition to a row before it is squashed (see `squash`).

    Hidden layers and a linear one; each is given what all layers before it made, the last first,
    then noise and condition.
    """

    def __init__(self, noise: int, condition: int, width: int, hidden: Sequence[int] = (256, 256)):
        wide = [noise + condition + sum(hidden[:place]) for place in range(len(hidden) + 1)]
        layers = [Hidden(*sizes) for sizes in zip(wide, hidden, strict=False)]
        super().__init__(*layers, nn.Linear(wide[-1], width))
        self.condition = condition

    def forward(self, noise: Tensor, condition: Tensor) -> Tensor:
        """Return raw rows, (rows, width). condition: (rows,), where its single 1 is."""
        rows = torch.cat([noise, one_hot(condition, self.condition)], dim=1)
        *hidden, last = self
        for layer in hidden:
            rows = torch.cat([layer(rows), rows], dim=1)
        return last(rows)


def discriminator(
    inputs: int, hidden: Sequence[int] = (256, 256), dropout: float = 0.5
) -> nn.Sequential:
    """From a row with its condition (or `pac` of them side by side) to a logit of being real.

    Its sigmoid belongs to the loss; all its parameters are in linear layers, as private training
    needs.
    """
    layers: list[nn.Module] = []
    for size in hidden:
        layers += [nn.Linear(inputs, size), nn.LeakyReLU(0.2), nn.Dropout(dropout)]
        inputs = size
    return nn.Sequential(*layers, nn.Linear(inputs, 1))


def squash(
    raw: Tensor,
    layout: Layout,
    *,
    temperature: float = 0.2,
    generator: torch.Generator | None = None,
) -> Tensor:
    """Raw output to a row: tanh of the numbers, Gumbel softmax of every one-hot block."""
    numbers, entries = raw[:, : layout.numbers], raw[:, layout.numbers :]
    uniform = torch.rand(
        entries.shape, generator=generator, device=raw.device, dtype=raw.dtype
    ).clamp_(1e-20, 1 - 1e-7)
    entries = (entries - torch.log(-torch.log(uniform))) / temperature
    blocks = [block.softmax(dim=1) for block in entries.split(layout.blocks, dim=1)]
    return torch.cat([torch.tanh(numbers), *blocks], dim=1)


def one_hot(condition: Tensor, width: int) -> Tensor:
    """Return conditions as vectors with a single 1 each, (rows, width)."""
    hot = torch.zeros(len(condition), width, device=condition.device)
    return hot.scatter_(1, condition[:, None], 1.0) if width else hot


def side_by_side(rows: Tensor, pac: int) -> Tensor:
    """(rows / pac, pac * width): `pac` rows are judged together (Lin et al. 2018)."""
    return rows.reshape(len(rows) // pac, pac * rows.shape[1])  # which a batch without rows has too


def critic_loss(network: nn.Sequential, rows: Tensor, penalty: float) -> Tensor:
    """Return a critic's loss.

    It is the mean score of imagined rows less that of real ones, plus `penalty` times the mean
    squared distance from 1 of the norm of the critic's gradient at points between the two. Sources:
    Xu et al. 2019; Gulrajani et al. 2017, algorithm 1.

    rows: (2 * pairs, inputs), all real ones, then the imagined ones.
    """
    real, imagined = rows.chunk(2)
    real_scores, imagined_scores = network(rows).chunk(2)
    share = torch.rand(len(real), 1, device=rows.device).to(rows.dtype)
    between = torch.lerp(imagined, real, share).requires_grad_()
    (gradient,) = torch.autograd.grad(network(between).sum(), between, create_graph=True)
    distance = (gradient.norm(dim=1) - 1).square().mean()
    return imagined_scores.mean() - real_scores.mean() + penalty * distance
