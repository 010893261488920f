"""The autoencoder of VAE-BGM: every column has an output distribution of its own kind
(apellaniz2025, sections 2.1 and 3.3).

A row is one number a column: standardised values, and the codes of categories. Numbers are normal,
columns of two categories Bernoulli, those of more categorical. All parameters sit in linear layers,
as private training needs.

`negative_elbo` says in torch's own words what the network minimises. `LikelihoodVae.losses` gives
the same, with a gradient of its own, and `set_gradients` the gradients of a whole step; both are
written by hand because training consists of nothing else, and tested equal to the first.
"""

import math
from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor, nn
from torch.distributions import Bernoulli, Categorical, Distribution, Normal, kl_divergence
from torch.nn import functional as F

LIMIT = 10.0  # of latent means and log-variances, and of scores of categories
# of the means of numbers, and of their standard deviations
FARTHEST, NARROWEST, WIDEST = 5.0, 1e-5, 0.1
SUREST = 1e-3  # no outcome of two has a smaller probability


class LikelihoodVae(nn.Module):
    """levels: of each column, 0 for numbers. dropout: of the decoder's hidden units, in training
    mode.

    gradient_bound: of what `set_gradients` hands back through each layer of the encoder, entry by
        entry (None: no bound).
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
        self._hidden_buffer: Tensor | None = (
            None  # of `set_gradients`: hidden units and their gradients
        )
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
        """Means and log-variances, (rows, latent) each, of the latent vectors."""
        return (torch.tanh(self.encoder(rows)) * LIMIT).chunk(2, dim=1)

    def losses(
        self, rows: Tensor, noise: Tensor | None = None, kept: Tensor | None = None
    ) -> Tensor:
        """The negative evidence lower bound of each row, (rows,).

        noise: standard normal, (rows, latent), that moves each row's latent vector; drawn where it
            is not given.
        kept: 0 or 1 / (1 - dropout) for every hidden unit of the decoder, (rows, hidden); drawn in
            training mode.
        """
        means, log_variances = self.encode(rows)
        noise = torch.randn_like(means) if noise is None else noise
        raw = self.decode(means + torch.exp(0.5 * log_variances) * noise, kept)
        divergence = 0.5 * (means.square() + log_variances.exp() - log_variances - 1).sum(dim=1)
        return divergence + _NegativeLogLikelihood.apply(
            raw, rows.index_select(1, self.order), self
        )

    @torch.no_grad()
    def total_loss(self, rows: Tensor) -> float:
        """The sum of `losses(rows)` without dropout."""
        _, activation, *_, raw = self._forward(rows)
        means, log_variances = (activation * LIMIT).chunk(2, dim=1)
        divergence = 0.5 * (means.square() + log_variances.exp() - log_variances - 1).sum()
        return float(
            divergence + self.negative_log_likelihood(raw, rows.index_select(1, self.order)).sum()
        )

    @torch.no_grad()
    def set_gradients(self, rows: Tensor, kept: Tensor, noise: Tensor | None = None) -> None:
        """Set the gradients of the rows' mean loss, as `losses(rows, noise,
        kept).mean().backward()` would.

        With `gradient_bound`, gradients by what a layer of the encoder gives, before its
        activation, are first clipped to it, entry by entry. In a buffer that is kept from step to
        step: most of a step are passes over values of hidden units, not products. kept: 0 or 1 / (1
        - dropout), nothing else.
        """
        first, activation, shift, vectors, second, raw = self._forward(rows, noise, kept)
        back, (into, _, onward) = self._hidden_buffer[2, : len(rows)], self.encoder
        means, log_variances = (activation * LIMIT).chunk(2, dim=1)
        gradient = torch.empty_like(raw)
        self.negative_log_likelihood(raw, rows.index_select(1, self.order), gradient)
        gradient /= len(rows)

        def layer(linear: nn.Linear, gradient: Tensor, inputs: Tensor) -> None:
            linear.weight.grad, linear.bias.grad = gradient.T @ inputs, gradient.sum(dim=0)

        layer(self.outer, gradient, second)
        torch.mm(gradient / (1 - self.dropout), self.outer.weight, out=back)
        layer(self.inner, _relu_backward(back, second), vectors)
        of_vectors = back @ self.inner.weight
        of_variances = 0.5 * (of_vectors * shift + (log_variances.exp() - 1) / len(rows))
        gradient = torch.cat([of_vectors + means / len(rows), of_variances], dim=1) * (
            LIMIT * (1 - activation.square())
        )
        layer(onward, self._bounded(gradient), first)
        torch.mm(gradient, onward.weight, out=back)
        layer(into, self._bounded(_relu_backward(back, first)), rows)

    def _bounded(self, gradient: Tensor) -> Tensor:
        """In place."""
        bound = self.gradient_bound
        return gradient if bound is None else gradient.clamp_(-bound, bound)

    def _forward(
        self, rows: Tensor, noise: Tensor | None = None, kept: Tensor | None = None
    ) -> tuple[Tensor, ...]:
        """Values on the way from rows to raw parameters, those of hidden units in the buffer.

        Hidden units of the encoder, its output before it is stretched, what noise adds to the
        means, latent vectors, hidden units of the decoder, raw parameters (columns contiguous:
        products of few columns are twice as fast that way).
        """
        into, _, onward = self.encoder
        buffer = self._hidden_buffer
        if buffer is None or buffer.shape[1] < len(rows) or buffer.dtype != rows.dtype:
            self._hidden_buffer = rows.new_empty(3, len(rows), into.out_features)
        first, second, _ = self._hidden_buffer[:, : len(rows)]
        F.relu_(torch.addmm(into.bias, rows, into.weight.T, out=first))
        activation = torch.addmm(onward.bias, first, onward.weight.T).tanh_()
        means, log_variances = (activation * LIMIT).chunk(2, dim=1)
        noise = torch.randn_like(means) if noise is None else noise
        shift = torch.exp(0.5 * log_variances) * noise
        vectors = means + shift
        F.relu_(torch.addmm(self.inner.bias, vectors, self.inner.weight.T, out=second))
        if kept is not None:
            second *= kept
        raw = torch.addmm(self.outer.bias[:, None], self.outer.weight, second.T).T
        return first, activation, shift, vectors, second, raw

    def negative_log_likelihood(
        self, raw: Tensor, ordered: Tensor, gradient: Tensor | None = None
    ) -> Tensor:
        """Of each row under its output distributions, (rows,).

        raw: as `decode` returns it. ordered: numbers, pairs, codes of others. gradient: of raw's
        shape; if it is given, the gradient by raw is put there.
        """
        numbers, pairs = self.numbers, self.pairs
        means, wide = torch.tanh(raw[:, :numbers]), torch.sigmoid(raw[:, numbers : 2 * numbers])
        deviations = wide * (WIDEST - NARROWEST) + NARROWEST
        offsets = (ordered[:, :numbers] - means * FARTHEST) / deviations
        loss = (0.5 * offsets.square() + torch.log(deviations)).sum(
            dim=1
        ) + 0.5 * numbers * math.log(2 * math.pi)
        place = slice(2 * numbers, 2 * numbers + pairs)
        signs = 2 * ordered[:, numbers : numbers + pairs] - 1
        right = torch.sigmoid(raw[:, place] * signs)
        likely = right * (1 - 2 * SUREST) + SUREST
        loss -= torch.log(likely).sum(dim=1)
        if gradient is not None:
            gradient[:, :numbers] = (means.square() - 1) * FARTHEST * offsets / deviations
            gradient[:, numbers : 2 * numbers] = (
                (1 - offsets.square()) / deviations * (wide - wide.square())
            )
            gradient[:, numbers : 2 * numbers] *= WIDEST - NARROWEST
            gradient[:, place] = (right.square() - right) * (1 - 2 * SUREST) * signs / likely
        activation, start = torch.tanh(raw[:, place.stop :]), 0
        for codes, block in zip(ordered[:, numbers + pairs :].T, self.blocks, strict=False):
            own = activation[:, start : start + block]
            logs, codes = F.log_softmax(own * LIMIT, dim=1), codes.long()[:, None]
            loss -= logs.gather(1, codes)[:, 0]
            if gradient is not None:
                of_logits = logs.exp()
                of_logits.scatter_add_(1, codes, of_logits.new_full((1, 1), -1.0).expand_as(codes))
                gradient[:, place.stop + start : place.stop + start + block] = (
                    of_logits * (1 - own.square()) * LIMIT
                )
            start += block
        return loss

    def decode(self, vectors: Tensor, kept: Tensor | None = None) -> Tensor:
        """Raw parameters of the output distributions: means and deviations of numbers, one score of
        pairs, scores of others."""
        hidden = F.relu(self.inner(vectors))
        if kept is not None:
            hidden = hidden * kept
        elif self.training:
            hidden = F.dropout(hidden, self.dropout)
        return self.outer(hidden)

    @torch.no_grad()
    def draw(self, vectors: Tensor) -> Tensor:
        """Rows (rows, columns) drawn from the output distributions of latent vectors; columns of
        one level are 0."""
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


def output_distributions(network: LikelihoodVae, raw: Tensor) -> list[Distribution]:
    """One of all numbers, one of all columns of two categories, and one for each other column.

    raw: as `decode` returns it; all stay within the limits above.
    """
    means, widths, pairs, others = raw.split(
        [network.numbers, network.numbers, network.pairs, sum(network.blocks)], dim=1
    )
    deviations = NARROWEST + (WIDEST - NARROWEST) * torch.sigmoid(widths)
    return [
        Normal(FARTHEST * torch.tanh(means), deviations),
        Bernoulli(SUREST + (1 - 2 * SUREST) * torch.sigmoid(pairs)),
        *(Categorical(logits=LIMIT * torch.tanh(s)) for s in others.split(network.blocks, dim=1)),
    ]


def negative_elbo(
    network: LikelihoodVae, rows: Tensor, noise: Tensor, kept: Tensor | None = None
) -> Tensor:
    """The negative evidence lower bound of each row, (rows,): `LikelihoodVae.losses` said plainly
    (eq. 1 of apellaniz2025, sign changed)."""
    means, log_variances = network.encode(rows)
    posterior = Normal(means, torch.exp(0.5 * log_variances))
    raw = network.decode(posterior.mean + posterior.stddev * noise, kept)
    numbers, pairs, *others = output_distributions(network, raw)
    values, flags, *codes = rows[:, network.order].split(
        [network.numbers, network.pairs, *[1] * (rows.shape[1] - network.numbers - network.pairs)],
        dim=1,
    )
    likelihood = numbers.log_prob(values).sum(dim=1) + pairs.log_prob(flags).sum(dim=1)
    for column, code in zip(others, codes, strict=False):  # columns of one level have no part in it
        likelihood = likelihood + column.log_prob(code[:, 0])
    return kl_divergence(posterior, Normal(0.0, 1.0)).sum(dim=1) - likelihood


class _NegativeLogLikelihood(torch.autograd.Function):
    """`LikelihoodVae.negative_log_likelihood` with its own gradient: automatic differentiation of
    so many small steps takes far longer."""

    @staticmethod
    def forward(ctx, raw: Tensor, ordered: Tensor, network: LikelihoodVae) -> Tensor:
        gradient = torch.empty_like(raw)
        loss = network.negative_log_likelihood(raw, ordered, gradient)
        ctx.save_for_backward(gradient)
        return loss

    @staticmethod
    def backward(ctx, given: Tensor):
        (gradient,) = ctx.saved_tensors
        return gradient * given[:, None], None, None


def _relu_backward(gradient: Tensor, output: Tensor) -> Tensor:
    """In place: the gradient before a ReLU from the one after it."""
    return torch.ops.aten.threshold_backward.grad_input(gradient, output, 0, grad_input=gradient)
