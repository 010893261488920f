"""The autoencoder of VAE-BGM: every column drawn from a law of its own kind (apellaniz2025, section 2.1 and 3.3).

A row is one number a column: standardised values, and the codes of categories. Numbers are normal, columns of two
categories Bernoulli, those of more categorical. All parameters sit in linear layers, as private training needs.
"""

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
        numbers, pairs = self.numbers, self.pairs
        ordered = rows.index_select(1, self.order)
        deviations = self.deviations(raw)
        offsets = (ordered[:, :numbers] - torch.tanh(raw[:, :numbers]) * FARTHEST) / deviations
        missed = (0.5 * offsets.square() + torch.log(deviations * (2 * np.pi) ** 0.5)).sum(dim=1)
        signs = 2 * ordered[:, numbers : numbers + pairs] - 1
        likely = torch.sigmoid(raw[:, 2 * numbers : 2 * numbers + pairs] * signs) * (1 - 2 * SUREST) + SUREST
        missed = missed - torch.log(likely).sum(dim=1)
        for scores, codes in zip(self.scores(raw), ordered[:, numbers + pairs :].T, strict=False):
            missed = missed + F.cross_entropy(scores, codes.long(), reduction="none")
        return missed + divergence

    def decode(self, vectors: Tensor, kept: Tensor | None = None) -> Tensor:
        """The laws' raw parameters: means and deviations of numbers, one score of pairs, scores of others."""
        hidden = F.relu(self.inner(vectors))
        if kept is not None:
            hidden = hidden * kept
        elif self.training:
            hidden = F.dropout(hidden, self.dropout)
        return self.outer(hidden)

    def deviations(self, raw: Tensor) -> Tensor:
        return torch.sigmoid(raw[:, self.numbers : 2 * self.numbers]) * (WIDEST - NARROWEST) + NARROWEST

    def scores(self, raw: Tensor) -> Sequence[Tensor]:
        """Of each column with more than two categories, (rows, its levels)."""
        return (torch.tanh(raw[:, 2 * self.numbers + self.pairs :]) * LIMIT).split(self.blocks, dim=1)

    @torch.no_grad()
    def draw(self, vectors: Tensor) -> Tensor:
        """Rows (rows, columns) drawn from the laws that latent vectors decode to; columns of one level are 0."""
        raw, numbers, pairs = self.decode(vectors), self.numbers, self.pairs
        means = torch.tanh(raw[:, :numbers]) * FARTHEST
        drawn = [means + self.deviations(raw) * torch.randn_like(means)]
        chances = torch.sigmoid(raw[:, 2 * numbers : 2 * numbers + pairs]) * (1 - 2 * SUREST) + SUREST
        drawn.append(torch.bernoulli(chances))
        drawn += [torch.multinomial(F.softmax(scores, dim=1), 1).float() for scores in self.scores(raw)]
        rows = raw.new_zeros(len(raw), len(self.order))
        drawn = torch.cat(drawn, dim=1)
        rows[:, self.order[: drawn.shape[1]]] = drawn
        return rows
