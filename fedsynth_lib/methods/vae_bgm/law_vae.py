"""The autoencoder of VAE-BGM: every column drawn from a law of its own kind (apellaniz2025, section
2.1 and 3.3).

A row is one number a column: standardised values, and the codes of categories. Numbers are normal,
columns of two categories Bernoulli, those of more categorical. All parameters sit in linear layers,
as private training needs.
"""

import math
from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

LIMIT = 10.0  # of latent means and log-variances, and of scores of categories
# of the means of numbers, and of their standard deviations
FARTHEST, NARROWEST, WIDEST = 5.0, 1e-5, 0.1
SUREST = 1e-3  # no outcome of two has a smaller probability


class LawVae(nn.Module):
    """levels: of each column, 0 for numbers. dropout: of the decoder's hidden units, in training
    mode.

    steepest: bound on what `set_gradients` hands back through each layer of the encoder (None: no
        bound).
    """

    def __init__(
        self,
        levels: Sequence[int],
        hidden: int,
        latent: int,
        dropout: float,
        steepest: float | None = None,
    ):
        super().__init__()
        self.latent, self.dropout, self.steepest = latent, dropout, steepest
        self._room: Tensor | None = None  # of `set_gradients`: values and slopes of hidden units
        levels = np.asarray(levels)
        self.places = [
            np.flatnonzero(levels == 0),
            np.flatnonzero(levels == 2),
            np.flatnonzero(levels > 2),
        ]
        order = torch.from_numpy(np.concatenate([*self.places, np.flatnonzero(levels == 1)]))
        self.register_buffer("order", order, persistent=False)  # numbers, pairs, others, constants
        self.blocks = [int(level) for level in levels[levels > 2]]
        self.numbers, self.pairs = (len(each) for each in self.places[:2])
        self.encoder = nn.Sequential(
            nn.Linear(len(levels), hidden), nn.ReLU(), nn.Linear(hidden, 2 * latent)
        )
        self.inner = nn.Linear(latent, hidden)
        self.outer = nn.Linear(hidden, 2 * self.numbers + self.pairs + sum(self.blocks))

    def encode(self, rows: Tensor) -> tuple[Tensor, Tensor]:
        """Means and log-variances, (rows, latent) each, of the latent vectors."""
        return (torch.tanh(self.encoder(rows)) * LIMIT).chunk(2, dim=1)

    def losses(
        self, rows: Tensor, noise: Tensor | None = None, kept: Tensor | None = None
    ) -> Tensor:
        """The negative evidence bound of each row, (rows,).

        noise: standard normal, (rows, latent), that moves each row's latent vector; drawn where it
            is not given.
        kept: 0 or 1 / (1 - dropout) for every hidden unit of the decoder, (rows, hidden); drawn in
            training mode.
        """
        means, log_variances = self.encode(rows)
        noise = torch.randn_like(means) if noise is None else noise
        raw = self.decode(means + torch.exp(0.5 * log_variances) * noise, kept)
        divergence = 0.5 * (means.square() + log_variances.exp() - log_variances - 1).sum(dim=1)
        return divergence + _Missed.apply(raw, rows.index_select(1, self.order), self)

    @torch.no_grad()
    def total_loss(self, rows: Tensor) -> float:
        """The sum of `losses(rows)` without dropout."""
        _, bent, *_, raw = self._ahead(rows)
        means, log_variances = (bent * LIMIT).chunk(2, dim=1)
        divergence = 0.5 * (means.square() + log_variances.exp() - log_variances - 1).sum()
        return float(divergence + self.missed(raw, rows.index_select(1, self.order)).sum())

    @torch.no_grad()
    def set_gradients(self, rows: Tensor, kept: Tensor, noise: Tensor | None = None) -> None:
        """Set the gradients of the rows' mean loss, as `losses(rows, noise,
        kept).mean().backward()` would.

        With `steepest`, slopes by what a layer of the encoder gives, before it is bent, are first
        cut to it. By hand, in memory that is kept from step to step: most of a step are passes over
        values of hidden units, not products (tested against automatic gradients). kept: 0 or 1 / (1
        - dropout), nothing else.
        """
        first, bent, moved, vectors, second, raw = self._ahead(rows, noise, kept)
        back, (into, _, onward) = self._room[2, : len(rows)], self.encoder
        means, log_variances = (bent * LIMIT).chunk(2, dim=1)
        slopes = torch.empty_like(raw)
        self.missed(raw, rows.index_select(1, self.order), slopes)
        slopes /= len(rows)

        def layer(linear: nn.Linear, slopes: Tensor, inputs: Tensor) -> None:
            linear.weight.grad, linear.bias.grad = slopes.T @ inputs, slopes.sum(dim=0)

        layer(self.outer, slopes, second)
        _behind_relu(torch.mm(slopes / (1 - self.dropout), self.outer.weight, out=back), second)
        layer(self.inner, back, vectors)
        of_vectors = back @ self.inner.weight
        of_variances = 0.5 * (of_vectors * moved + (log_variances.exp() - 1) / len(rows))
        slopes = torch.cat([of_vectors + means / len(rows), of_variances], dim=1) * (
            LIMIT * (1 - bent.square())
        )
        layer(onward, self._cut(slopes), first)
        layer(into, self._cut(_behind_relu(torch.mm(slopes, onward.weight, out=back), first)), rows)

    def _cut(self, slopes: Tensor) -> Tensor:
        """In place."""
        return slopes if self.steepest is None else slopes.clamp_(-self.steepest, self.steepest)

    def _ahead(
        self, rows: Tensor, noise: Tensor | None = None, kept: Tensor | None = None
    ) -> tuple[Tensor, ...]:
        """Values on the way from rows to raw parameters, those of hidden units in memory of the
        network's own.

        Hidden units of the encoder, its output before it is stretched, what noise adds, latent
        vectors, hidden units of the decoder, raw parameters (columns contiguous: products of few
        columns are twice as fast that way).
        """
        into, _, onward = self.encoder
        if self._room is None or self._room.shape[1] < len(rows) or self._room.dtype != rows.dtype:
            self._room = rows.new_empty(3, len(rows), into.out_features)
        first, second, _ = self._room[:, : len(rows)]
        F.relu_(torch.addmm(into.bias, rows, into.weight.T, out=first))
        bent = torch.addmm(onward.bias, first, onward.weight.T).tanh_()
        means, log_variances = (bent * LIMIT).chunk(2, dim=1)
        noise = torch.randn_like(means) if noise is None else noise
        moved = torch.exp(0.5 * log_variances) * noise
        vectors = means + moved
        F.relu_(torch.addmm(self.inner.bias, vectors, self.inner.weight.T, out=second))
        if kept is not None:
            second *= kept
        raw = torch.addmm(self.outer.bias[:, None], self.outer.weight, second.T).T
        return first, bent, moved, vectors, second, raw

    def missed(self, raw: Tensor, ordered: Tensor, slopes: Tensor | None = None) -> Tensor:
        """The negative log-likelihood of each row under the laws, (rows,).

        raw: as `decode` returns it. ordered: numbers, pairs, codes of others. slopes: of raw's
        shape; if it is given, the gradient by raw is put there.
        """
        numbers, pairs = self.numbers, self.pairs
        means, wide = torch.tanh(raw[:, :numbers]), torch.sigmoid(raw[:, numbers : 2 * numbers])
        deviations = wide * (WIDEST - NARROWEST) + NARROWEST
        offsets = (ordered[:, :numbers] - means * FARTHEST) / deviations
        missed = (0.5 * offsets.square() + torch.log(deviations)).sum(
            dim=1
        ) + 0.5 * numbers * math.log(2 * math.pi)
        place = slice(2 * numbers, 2 * numbers + pairs)
        signs = 2 * ordered[:, numbers : numbers + pairs] - 1
        right = torch.sigmoid(raw[:, place] * signs)
        likely = right * (1 - 2 * SUREST) + SUREST
        missed -= torch.log(likely).sum(dim=1)
        if slopes is not None:
            slopes[:, :numbers] = (means.square() - 1) * FARTHEST * offsets / deviations
            slopes[:, numbers : 2 * numbers] = (
                (1 - offsets.square()) / deviations * (wide - wide.square())
            )
            slopes[:, numbers : 2 * numbers] *= WIDEST - NARROWEST
            slopes[:, place] = (right.square() - right) * (1 - 2 * SUREST) * signs / likely
        bent, start = torch.tanh(raw[:, place.stop :]), 0
        for codes, block in zip(ordered[:, numbers + pairs :].T, self.blocks, strict=False):
            own = bent[:, start : start + block]
            logs, codes = F.log_softmax(own * LIMIT, dim=1), codes.long()[:, None]
            missed -= logs.gather(1, codes)[:, 0]
            if slopes is not None:
                slope = logs.exp()
                slope.scatter_add_(1, codes, slope.new_full((1, 1), -1.0).expand_as(codes))
                slopes[:, place.stop + start : place.stop + start + block] = (
                    slope * (1 - own.square()) * LIMIT
                )
            start += block
        return missed

    def decode(self, vectors: Tensor, kept: Tensor | None = None) -> Tensor:
        """The laws' raw parameters: means and deviations of numbers, one score of pairs, scores of
        others."""
        hidden = F.relu(self.inner(vectors))
        if kept is not None:
            hidden = hidden * kept
        elif self.training:
            hidden = F.dropout(hidden, self.dropout)
        return self.outer(hidden)

    @torch.no_grad()
    def draw(self, vectors: Tensor) -> Tensor:
        """Rows (rows, columns) drawn from the laws that latent vectors decode to; columns of one
        level are 0."""
        raw, numbers, pairs = self.decode(vectors), self.numbers, self.pairs
        means = torch.tanh(raw[:, :numbers]) * FARTHEST
        deviations = torch.sigmoid(raw[:, numbers : 2 * numbers]) * (WIDEST - NARROWEST) + NARROWEST
        drawn = [means + deviations * torch.randn_like(means)]
        chances = (
            torch.sigmoid(raw[:, 2 * numbers : 2 * numbers + pairs]) * (1 - 2 * SUREST) + SUREST
        )
        drawn.append(torch.bernoulli(chances))
        scores = torch.tanh(raw[:, 2 * numbers + pairs :]) * LIMIT
        drawn += [
            torch.multinomial(F.softmax(own, dim=1), 1).float()
            for own in scores.split(self.blocks, dim=1)
        ]
        rows = raw.new_zeros(len(raw), len(self.order))
        drawn = torch.cat(drawn, dim=1)
        rows[:, self.order[: drawn.shape[1]]] = drawn
        return rows


class _Missed(torch.autograd.Function):
    """`LawVae.missed` with its own gradient: automatic differentiation of so many small steps takes
    far longer."""

    @staticmethod
    def forward(ctx, raw: Tensor, ordered: Tensor, network: LawVae) -> Tensor:
        slopes = torch.empty_like(raw)
        missed = network.missed(raw, ordered, slopes)
        ctx.save_for_backward(slopes)
        return missed

    @staticmethod
    def backward(ctx, given: Tensor):
        (slopes,) = ctx.saved_tensors
        return slopes * given[:, None], None, None


def _behind_relu(slopes: Tensor, output: Tensor) -> Tensor:
    """In place: slopes before a ReLU from those after it."""
    return torch.ops.aten.threshold_backward.grad_input(slopes, output, 0, grad_input=slopes)
