"""The two networks of CTGAN and its losses (Xu et al. 2019, sections 4.3-4.4; leitner2023, figures
4.7 and 4.8).

A row is one float vector: for each column its blocks, as `Layout` lines them up. The generator's
output is squashed block by block: tanh for a number's distance, Gumbel softmax for one-hot parts,
all of them in one softmax.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor, nn


@dataclass(frozen=True)
class Layout:
    """Where the parts of an encoded row lie: first all numbers, then all one-hot blocks one after
    the other.

    numbers: how many columns are continuous. modes: the modes of each. categories: those of each
        discrete column.
    A condition names one category of one discrete column: the discrete part of a row with a single
    1, whose position stands for it; where no column is discrete it is 0 and means nothing.
    """

    modes: tuple[int, ...]
    categories: tuple[int, ...]

    @property
    def numbers(self) -> int:
        return len(self.modes)

    @property
    def blocks(self) -> tuple[int, ...]:
        """Widths of the one-hot blocks: modes of every continuous column, then categories of every
        discrete one."""
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
    def owner(self) -> Tensor:
        """Which block each one-hot entry belongs to."""
        return torch.repeat_interleave(
            torch.arange(len(self.blocks)), torch.tensor(self.blocks, dtype=torch.long)
        )

    @cached_property
    def members(self) -> Tensor:
        """(entries, blocks), 1 where the entry belongs to the block."""
        return nn.functional.one_hot(self.owner, len(self.blocks)).float()

    @cached_property
    def padded(self) -> Tensor:
        """(blocks, widest) positions among the one-hot entries; a narrower block repeats its
        first."""
        widths = torch.tensor(self.blocks, dtype=torch.long)[:, None]
        steps, starts = torch.arange(max(self.blocks)), widths.cumsum(0) - widths
        return starts + torch.where(steps < widths, steps, 0)


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
        return torch.relu(self.norm(x))


class Generator(nn.Sequential):
    """Hidden layers and a linear one; each is given what all layers before it made, the last first,
    then the input.

    The input is noise and a condition. It needs no gradient, and a condition's single 1 picks a
    column of weights: hence a product for each of the three parts that a layer is given, and none
    over zeros.
    """

    def forward(self, noise: Tensor, condition: Tensor) -> Tensor:
        """Raw rows. condition: (rows,), where its 1 is."""
        linears = [*(layer.linear for layer in self[:-1]), self[-1]]
        first, width = linears[0].in_features, noise.shape[1]
        parts = [
            each.weight.split([each.in_features - first, width, first - width], dim=1)
            for each in linears
        ]
        asked = torch.cat([each.bias for each in linears]).expand(max(1, first - width), -1)
        if first > width:
            table = torch.cat([own for *_, own in parts]).T + asked
            # a row is read for each condition
            asked = nn.functional.embedding(condition, table.contiguous())
        asked = asked.split([each.out_features for each in linears], dim=1)
        before = noise[:, :0]
        for place, (of_before, of_noise, _) in enumerate(parts):
            made = torch.addmm(asked[place], noise, of_noise.T)
            if place:
                made = torch.addmm(made, before, of_before.T)
            if place < len(parts) - 1:
                made = self[place](made)
                before = torch.cat([made, before], dim=1) if place else made
        return made


def generator(
    noise: int, condition: int, width: int, hidden: Sequence[int] = (256, 256)
) -> Generator:
    """From noise and condition, of these widths, to a row before it is squashed (see `squash`)."""
    wide = [noise + condition + sum(hidden[:place]) for place in range(len(hidden) + 1)]
    layers = [Hidden(*sizes) for sizes in zip(wide, hidden, strict=False)]
    return Generator(*layers, nn.Linear(wide[-1], width))


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
    return torch.cat([torch.tanh(numbers), BlockSoftmax.apply(entries, layout)], dim=1)


class BlockSoftmax(torch.autograd.Function):
    """Softmax of every one-hot block of entries (rows, entries), all blocks at once and none
    padded."""

    @staticmethod
    def forward(ctx, entries: Tensor, layout: Layout) -> Tensor:
        owner, padded, members = (
            each.to(entries.device) for each in (layout.owner, layout.padded, layout.members)
        )
        peaks = entries.index_select(1, padded.flatten()).unflatten(1, padded.shape).amax(dim=2)
        shares = (entries - peaks.index_select(1, owner)).exp_()
        shares /= (shares @ members).index_select(1, owner)
        ctx.save_for_backward(shares, owner, members)
        return shares

    @staticmethod
    def backward(ctx, given: Tensor) -> tuple[Tensor, None]:
        shares, owner, members = ctx.saved_tensors
        gradient = given * shares
        return gradient - shares * (gradient @ members).index_select(1, owner), None


def one_hot(condition: Tensor, layout: Layout) -> Tensor:
    """Conditions as the networks' theory has them, (rows, condition_width)."""
    width = layout.condition_width
    hot = torch.zeros(len(condition), width, device=condition.device)
    return hot.scatter_(1, condition[:, None], 1.0) if width else hot


def side_by_side(rows: Tensor, pac: int) -> Tensor:
    """(rows / pac, pac * width): `pac` rows are judged together (Lin et al. 2018)."""
    return rows.reshape(len(rows) // pac, pac * rows.shape[1])  # a batch may be empty


def critic_loss(network: nn.Sequential, rows: Tensor, penalty: float) -> Tensor:
    """A critic's loss: mean score of imagined rows less that of real ones, and `penalty` times how
    far the norm of its gradient is from 1 between the two (Xu et al. 2019; Gulrajani et al. 2017,
    algorithm 1).

    rows: (2 * pairs, inputs), all real ones, then the imagined ones.
    """
    real, imagined = rows.chunk(2)
    real_scores, imagined_scores = network(rows).chunk(2)
    share = torch.rand(len(real), 1, device=rows.device).to(rows.dtype)
    between = torch.lerp(imagined, real, share).requires_grad_()
    (gradient,) = torch.autograd.grad(network(between).sum(), between, create_graph=True)
    distance = (gradient.norm(dim=1) - 1).square().mean()
    return imagined_scores.mean() - real_scores.mean() + penalty * distance


@torch.no_grad()
def critic_gradients(network: nn.Sequential, rows: Tensor, penalty: float) -> list[Tensor]:
    """Gradients of `critic_loss` by the network's parameters, in their order, from the same draws.

    Piece by piece the network is linear: the gradient of a score is a product of weight matrices
    and of activations' derivatives. Written by hand, neither the score nor its gradient needs a
    pass backward through another one, the first layer is applied to no third set of rows, and its
    gradient, where most time goes, is one product (tested against automatic gradients).
    """
    first, *linears = [layer for layer in network if isinstance(layer, nn.Linear)]
    pairs, products = len(rows) // 2, rows @ first.weight.T
    values, derivatives = _activations(network, products + first.bias)
    share = torch.rand(pairs, 1, device=rows.device).to(rows.dtype)
    _, between = _activations(
        network, torch.lerp(products[pairs:], products[:pairs], share) + first.bias
    )

    # The gradient of the score by each layer's values, the last one's first; then by the inputs,
    # and the penalty by that.
    of_values = [linears[-1].weight * between[-1]]
    for linear, derivative in zip(reversed(linears[:-1]), reversed(between[:-1]), strict=True):
        of_values.append((of_values[-1] @ linear.weight) * derivative)
    stacked = torch.cat([rows, of_values[-1] @ first.weight])
    of_inputs = stacked[len(rows) :]
    length = of_inputs.norm(dim=1, keepdim=True).clamp_min(1e-12)
    of_inputs *= (2 * penalty / pairs) * (length - 1) / length

    # Back from the scores, layer by layer; then forward from the penalty, through what made the
    # gradient of the score.
    scores = rows.new_full((len(rows), 1), 1 / pairs)
    scores[:pairs] *= -1
    back, gradients = scores, []
    for linear, value, derivative in zip(
        reversed(linears), reversed(values), reversed(derivatives), strict=True
    ):
        gradients.append([back.T @ value, back.sum(dim=0)])
        back = (back @ linear.weight) * derivative
    forward = of_inputs @ first.weight.T
    gradients.append([torch.cat([back, of_values[-1]]).T @ stacked, back.sum(dim=0)])
    for gradient, linear, own, derivative in zip(
        reversed(gradients[1:-1]), linears[:-1], reversed(of_values[:-1]), between[:-1], strict=True
    ):
        forward *= derivative
        gradient[0] += own.T @ forward
        forward = forward @ linear.weight.T
    gradients[0][0] += (forward * between[-1]).sum(dim=0)
    return [each for pair in reversed(gradients) for each in pair]


def _activations(network: nn.Sequential, values: Tensor) -> tuple[list[Tensor], list[Tensor]]:
    """Values after each hidden layer of a discriminator, and the derivatives of its activation and
    dropout there.

    values: what its first linear layer gave.
    """
    after, derivatives = [], []
    for relu, dropout, linear in zip(network[1::3], network[2::3], network[3::3], strict=True):
        derivatives.append(
            dropout(torch.where(values > 0, 1.0, relu.negative_slope).to(values.dtype))
        )
        after.append(values * derivatives[-1])
        values = linear(after[-1])
    return after, derivatives
