"""The autoencoder of VAE-BGM: every column has an output distribution of its own kind.

Source: apellaniz2025, sections 2.1 and 3.3.

A row is one number a column: standardised values, and the codes of categories. Numbers are normal,
columns of two categories Bernoulli, those of more categorical. All parameters sit in linear layers,
as private training needs.
"""

from collections.abc import Sequence
from functools import partial

import numpy as np
import torch
from torch import Tensor, nn
from torch.distributions import Bernoulli, Categorical, Distribution, Normal, kl_divergence
from torch.nn import functional as F

LIMIT = 10.0  # of latent means and log-variances, and of scores of categories
# of the means of numbers, and of their standard deviations
FARTHEST, NARROWEST, WIDEST = 5.0, 1e-5, 0.1
SUREST = 1e-3  # no outcome of two has a smaller probability
# parameters from a server that lies may overflow in some rows only, which no error may show
_Normal = partial(Normal, validate_args=False)


class LikelihoodVae(nn.Module):
    """An autoencoder of rows of mixed columns.

    Parameters
    ----------
    levels
        Of each column, 0 for numbers.
    hidden, latent
        Widths of the hidden layers, and of the latent space.
    dropout
        Of the decoder's hidden units, in training mode.
    gradient_bound
        To which the gradients by what each layer of the encoder gives, before its activation, are
        clipped, entry by entry; None: no bound.
    """

    def __init__(
        self,
        levels: Sequence[int],
        hidden: int,
        latent: int,
        dropout: float,
        gradient_bound: float | None = None,
    ):
        super().__init__()
        self.latent, self.dropout, self.gradient_bound = latent, dropout, gradient_bound
        levels = np.asarray(levels)
        numbers, pairs = (np.flatnonzero(levels == kind) for kind in (0, 2))
        others, constants = np.flatnonzero(levels > 2), np.flatnonzero(levels == 1)
        order = torch.from_numpy(np.concatenate([numbers, pairs, others, constants]))
        self.register_buffer("order", order, persistent=False)
        self.blocks = [int(level) for level in levels[levels > 2]]
        self.numbers, self.pairs = len(numbers), len(pairs)
        self.encoder = nn.Sequential(
            nn.Linear(len(levels), hidden), nn.ReLU(), nn.Linear(hidden, 2 * latent)
        )
        self.inner = nn.Linear(latent, hidden)
        self.outer = nn.Linear(hidden, 2 * self.numbers + self.pairs + sum(self.blocks))

    def encode(self, rows: Tensor) -> tuple[Tensor, Tensor]:
        """Return means and log-variances, (rows, latent) each, of the latent vectors."""
        into, activation, onward = self.encoder
        hidden = activation(self._bounded(into(rows)))
        return (torch.tanh(self._bounded(onward(hidden))) * LIMIT).chunk(2, dim=1)

    def _bounded(self, values: Tensor) -> Tensor:
        """Return the values; their gradient will be clipped to `gradient_bound`."""
        bound = self.gradient_bound
        if bound is not None and values.requires_grad:
            values.register_hook(lambda gradient: gradient.clamp(-bound, bound))
        return values

    def decode(self, vectors: Tensor, kept: Tensor | None = None) -> Tensor:
        """Return the raw parameters of the output distributions.

        They are means and deviations of numbers, one score of each column of two categories, and
        one score of each category of the other columns.
        """
        hidden = F.relu(self.inner(vectors))
        if kept is not None:
            hidden = hidden * kept
        elif self.training:
            hidden = F.dropout(hidden, self.dropout)
        return self.outer(hidden)

    def output_distributions(self, raw: Tensor) -> list[Distribution]:
        """Return the output distributions from what `decode` returns, within the limits above.

        The first is of all numbers, the second of all columns of two categories. Then each column
        of more categories has its own.
        """
        means, widths, pairs, others = raw.split(
            [self.numbers, self.numbers, self.pairs, sum(self.blocks)], dim=1
        )
        deviations = NARROWEST + (WIDEST - NARROWEST) * torch.sigmoid(widths)
        chances = SUREST + (1 - 2 * SUREST) * torch.sigmoid(pairs)
        scores = (LIMIT * torch.tanh(others)).split(self.blocks, dim=1)
        return [
            _Normal(FARTHEST * torch.tanh(means), deviations),
            Bernoulli(chances, validate_args=False),
            *(Categorical(logits=each, validate_args=False) for each in scores),
        ]

    def losses(
        self, rows: Tensor, noise: Tensor | None = None, kept: Tensor | None = None
    ) -> Tensor:
        """Return the negative evidence lower bound of each row, (rows,).

        Source: equation 1 of apellaniz2025, with the sign changed.

        Parameters
        ----------
        rows
            (rows, columns).
        noise
            Standard normal, (rows, latent), that moves each row's latent vector; drawn where it is
            not given.
        kept
            0 or 1 / (1 - dropout) for every hidden unit of the decoder, (rows, hidden); drawn in
            training mode where it is not given.
        """
        means, log_variances = self.encode(rows)
        posterior = _Normal(means, torch.exp(0.5 * log_variances))
        noise = torch.randn_like(means) if noise is None else noise
        raw = self.decode(means + posterior.stddev * noise, kept)
        numbers, pairs, *others = self.output_distributions(raw)
        ordered = rows.index_select(1, self.order)
        values, flags, codes = ordered.tensor_split(
            [self.numbers, self.numbers + self.pairs], dim=1
        )
        likelihood = numbers.log_prob(values).sum(dim=1) + pairs.log_prob(flags).sum(dim=1)
        for column, code in zip(others, codes.T, strict=False):  # columns of one level come last
            likelihood = likelihood + column.log_prob(code)
        return kl_divergence(posterior, _Normal(0.0, 1.0)).sum(dim=1) - likelihood

    @torch.no_grad()
    def draw(self, vectors: Tensor) -> Tensor:
        """Return rows (rows, columns) drawn from the output distributions of latent vectors.

        Columns of one level are 0.
        """
        numbers, pairs, *others = self.output_distributions(self.decode(vectors))
        drawn = [numbers.sample(), pairs.sample(), *(each.sample()[:, None] for each in others)]
        rows = vectors.new_zeros(len(vectors), len(self.order))
        drawn = torch.cat(drawn, dim=1)
        rows[:, self.order[: drawn.shape[1]]] = drawn
        return rows
