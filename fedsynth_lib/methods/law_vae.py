"""The autoencoder of VAE-BGM: every column drawn from a law of its own kind (apellaniz2025, section 2.1 and 3.3).

A row is one number a column: standardised values, and the codes of categories. Numbers are normal, columns of two
categories Bernoulli, those of more categorical. All parameters sit in linear layers, as private training needs.
"""

import math
from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

LIMIT = 10.0  # of latent means and log-variances, and of scores of categories
FARTHEST, NARROWEST, WIDEST = 5.0, 1e-5, 0.1  # of the means of numbers, and of their standard deviations
SUREST = 1e-3  # no outcome of two has a smaller probability


class LawVae(nn.Module):
    """levels: of each column, 0 for numbers. dropout: of the decoder's hidden units, in training mode."""

    def __init__(self, levels: Sequence[int], hidden: int, latent: int, dropout: float):
        super().__init__()
        self.latent, self.dropout = latent, dropout
        levels = np.asarray(levels)
        self.places = [np.flatnonzero(levels == 0), np.flatnonzero(levels == 2), np.flatnonzero(levels > 2)]
        order = torch.from_numpy(np.concatenate([*self.places, np.flatnonzero(levels == 1)]))
        self.register_buffer("order", order, persistent=False)  # numbers, pairs, others, constants
        self.blocks = [int(level) for level in levels[levels > 2]]
        self.numbers, self.pairs = (len(each) for each in self.places[:2])
        self.encoder = nn.Sequential(nn.Linear(len(levels), hidden), nn.ReLU(), nn.Linear(hidden, 2 * latent))
        self.inner = nn.Linear(latent, hidden)
        self.outer = nn.Linear(hidden, 2 * self.numbers + self.pairs + sum(self.blocks))

    def encode(self, rows: Tensor) -> tuple[Tensor, Tensor]:
        """Means and log-variances, (rows, latent) each, of the latent vectors."""
        return (torch.tanh(self.encoder(rows)) * LIMIT).chunk(2, dim=1)

    def losses(self, rows: Tensor, noise: Tensor | None = None, kept: Tensor | None = None) -> Tensor:
        """The negative evidence bound of each row, (rows,).

        noise: standard normal, (rows, latent), that moves each row's latent vector; drawn where it is not given.
        kept: 0 or 1 / (1 - dropout) for every hidden unit of the decoder, (rows, hidden); drawn in training mode.
        """
        means, log_variances = self.encode(rows)
        noise = torch.randn_like(means) if noise is None else noise
        raw = self.decode(means + torch.exp(0.5 * log_variances) * noise, kept)
        divergence = 0.5 * (means.square() + log_variances.exp() - log_variances - 1).sum(dim=1)
        return divergence + _Missed.apply(raw, rows.index_select(1, self.order), self.numbers, self.pairs, self.blocks)

    def decode(self, vectors: Tensor, kept: Tensor | None = None) -> Tensor:
        """The laws' raw parameters: means and deviations of numbers, one score of pairs, scores of others."""
        hidden = F.relu(self.inner(vectors))
        if kept is not None:
            hidden = hidden * kept
        elif self.training:
            hidden = F.dropout(hidden, self.dropout)
        return self.outer(hidden)

    @torch.no_grad()
    def draw(self, vectors: Tensor) -> Tensor:
        """Rows (rows, columns) drawn from the laws that latent vectors decode to; columns of one level are 0."""
        raw, numbers, pairs = self.decode(vectors), self.numbers, self.pairs
        means = torch.tanh(raw[:, :numbers]) * FARTHEST
        deviations = torch.sigmoid(raw[:, numbers : 2 * numbers]) * (WIDEST - NARROWEST) + NARROWEST
        drawn = [means + deviations * torch.randn_like(means)]
        chances = torch.sigmoid(raw[:, 2 * numbers : 2 * numbers + pairs]) * (1 - 2 * SUREST) + SUREST
        drawn.append(torch.bernoulli(chances))
        scores = torch.tanh(raw[:, 2 * numbers + pairs :]) * LIMIT
        drawn += [torch.multinomial(F.softmax(own, dim=1), 1).float() for own in scores.split(self.blocks, dim=1)]
        rows = raw.new_zeros(len(raw), len(self.order))
        drawn = torch.cat(drawn, dim=1)
        rows[:, self.order[: drawn.shape[1]]] = drawn
        return rows


class _Missed(torch.autograd.Function):
    """The negative log-likelihood of each row under the laws, (rows,), with its gradient written by hand.

    raw: as `decode` returns it; ordered: numbers, pairs, codes of others. Automatic differentiation through so many
    small steps takes a third of a training step.
    """

    @staticmethod
    def forward(ctx, raw: Tensor, ordered: Tensor, numbers: int, pairs: int, blocks: Sequence[int]) -> Tensor:
        slopes = torch.empty_like(raw)
        means, wide = torch.tanh(raw[:, :numbers]), torch.sigmoid(raw[:, numbers : 2 * numbers])
        deviations = wide * (WIDEST - NARROWEST) + NARROWEST
        offsets = (ordered[:, :numbers] - means * FARTHEST) / deviations
        missed = (0.5 * offsets.square() + torch.log(deviations)).sum(dim=1) + 0.5 * numbers * math.log(2 * math.pi)
        slopes[:, :numbers] = (means.square() - 1) * FARTHEST * offsets / deviations
        slopes[:, numbers : 2 * numbers] = (1 - offsets.square()) / deviations * (wide - wide.square())
        slopes[:, numbers : 2 * numbers] *= WIDEST - NARROWEST
        place = slice(2 * numbers, 2 * numbers + pairs)
        signs = 2 * ordered[:, numbers : numbers + pairs] - 1
        right = torch.sigmoid(raw[:, place] * signs)
        likely = right * (1 - 2 * SUREST) + SUREST
        missed -= torch.log(likely).sum(dim=1)
        slopes[:, place] = (right.square() - right) * (1 - 2 * SUREST) * signs / likely
        bent, start = torch.tanh(raw[:, place.stop :]), 0
        for codes, block in zip(ordered[:, numbers + pairs :].T, blocks, strict=False):
            own = bent[:, start : start + block]
            logs, codes = F.log_softmax(own * LIMIT, dim=1), codes.long()[:, None]
            missed -= logs.gather(1, codes)[:, 0]
            slope = logs.exp()
            slope.scatter_add_(1, codes, slope.new_full((1, 1), -1.0).expand_as(codes))
            slopes[:, place.stop + start : place.stop + start + block] = slope * (1 - own.square()) * LIMIT
            start += block
        ctx.save_for_backward(slopes)
        return missed

    @staticmethod
    def backward(ctx, given: Tensor):
        (slopes,) = ctx.saved_tensors
        return slopes * given[:, None], None, None, None, None
