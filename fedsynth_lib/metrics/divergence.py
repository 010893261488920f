"""Jensen-Shannon divergence of two samples, by a network that learns to tell them apart
(apellaniz2025, equation 5).

With a perfect classifier P(real | x) the mean of 1 + log2 P over real rows and of 1 + log2 (1 - P)
over synthetic ones is the divergence in bits: 0 for the same distribution, 1 for distributions that
never meet. A real classifier gives a lower bound that it comes close to with many rows; with few
rows it may be negative.

All time goes into full-batch epochs of the network, and there into its first hidden layer, which is
as wide as the two others are narrow. Four things make an epoch several times as fast as its plain
form: batch normalisation of the first layer takes its statistics from those of the rows (those of W
x follow from those of x, which never change), dropout comes from packed random bits, all that is
done to one value is done while it is at hand, and rows go through the wide layer in blocks that a
core's cache holds (`divergence_layers`). Four fifths of what is left are products of matrices at
the processor's own speed.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

from fedsynth_lib.core.contract import BadInput, stream
from fedsynth_lib.metrics.divergence_layers import EPSILON, SLOPE, Narrow, Wide, product

WIDTHS = (256, 64, 32)
LEAST = 1e-7  # probabilities below are raised to it
MOMENTUM = 0.1  # of batch normalisation


@dataclass(frozen=True)
class Sizes:
    """Rows of each kind to train with, and to estimate with (as many again decide when to stop);
    epochs at most, and epochs without improvement after which training stops."""

    training: int = 7500
    evaluation: int = 1000
    epochs: int = 10_000
    patience: int = 1000

    @property
    def rows(self) -> int:
        return self.training + 2 * self.evaluation


class Estimate(NamedTuple):
    """The divergence in bits, and the epochs that the network was trained for."""

    bits: float
    epochs: int


def jensen_shannon(
    real: np.ndarray, synthetic: np.ndarray, *, seed: int, sizes: Sizes | None = None
) -> Estimate:
    """The estimated divergence of two samples.

    real, synthetic: (rows, features), at least `sizes.rows` of each; the first rows train the
        network, the next ones estimate, the last ones decide when to stop, as the work takes them.
    Raises BadInput for too few rows, different columns, or values that are not finite.
    """
    sizes = sizes or Sizes()
    for name, sample in (("real", real), ("synthetic", synthetic)):
        if np.ndim(sample) != 2 or len(sample) < sizes.rows:
            raise BadInput(
                f"divergence: {len(sample)} {name} rows, but {sizes.rows} are needed; "
                "hand in more of them."
            )
        if not np.isfinite(sample).all():
            raise BadInput(
                f"divergence: the {name} rows have missing or infinite values; fill them in."
            )
    if real.shape[1] != synthetic.shape[1]:
        raise BadInput(
            f"divergence: {real.shape[1]} real columns and {synthetic.shape[1]} synthetic: hand "
            "in the same."
        )
    end = sizes.training + sizes.evaluation
    parts = (slice(0, sizes.training), slice(sizes.training, end), slice(end, sizes.rows))
    training, test, stopping = (
        torch.from_numpy(np.concatenate([real[part], synthetic[part]]).astype(np.float32))
        for part in parts
    )
    rng = stream(seed, "divergence")
    network = Discriminator(training, rng)
    epochs = network.train(stopping, sizes)
    logits = network.logits(test)
    sides = (F.sigmoid(logits[: sizes.evaluation]), F.sigmoid(-logits[sizes.evaluation :]))
    return Estimate(
        float(sum(0.5 * (1 + torch.log2(p.clamp_min(LEAST)).mean()) for p in sides)), epochs
    )


def plain_loss(network: "Discriminator", rows: Tensor, kept: Sequence[Tensor]) -> Tensor:
    """What the network learns from: mean cross-entropy of all rows, in training mode.

    rows: (rows, features). kept: for each hidden layer whether each of its units stays, (rows,
        width) of 0 and 1; those that stay count twice.
    """
    values = rows
    layers = zip(network.weights[:-1], network.scales, network.shifts, kept, strict=True)
    for weight, scale, shift, stays in layers:
        values = F.batch_norm(values @ weight.T, None, None, scale, shift, True, eps=EPSILON)
        values = F.leaky_relu(2 * stays * values, SLOPE)
    logits = (values @ network.weights[-1].T + network.offset)[:, 0]
    return F.binary_cross_entropy_with_logits(logits, network.labels)


class Discriminator:
    """Dense layers of WIDTHS, each with batch normalisation, dropout 0.5 and leaky ReLU, then one
    logit.

    rows: (rows, features), the first half real. A layer's bias is left out, since normalisation
        takes it away again.
    `gradients` are written by hand into memory that every epoch uses anew; `plain_loss` says what
    they are the gradients of, and a test holds them equal.
    """

    def __init__(self, rows: Tensor, rng: np.random.Generator):
        self.rng, self.mean = rng, rows.mean(dim=0)
        centred = rows - self.mean
        self.covariance = centred.T @ centred / len(rows)
        self.wide = Wide(centred, WIDTHS[0])
        self.narrow = [Narrow(len(rows), width) for width in WIDTHS[1:]]
        self.labels = torch.repeat_interleave(torch.tensor([1.0, 0.0]), len(rows) // 2)
        inputs = [rows.shape[1], *WIDTHS]
        self.weights = [self._uniform(*shape) for shape in zip([*WIDTHS, 1], inputs, strict=True)]
        self.scales = [torch.ones(width) for width in WIDTHS]
        self.shifts = [torch.zeros(width) for width in WIDTHS]
        self.offset = self._uniform(1, WIDTHS[-1])[0, :1].clone()  # of the logit
        self.means = [torch.zeros(width) for width in WIDTHS]  # running, for rows not trained with
        self.variances = [torch.ones(width) for width in WIDTHS]

    @property
    def parameters(self) -> list[Tensor]:
        return [*self.weights, *self.scales, *self.shifts, self.offset]

    def train(self, stopping: Tensor, sizes: Sizes) -> int:
        """Full-batch Adam until the loss of the `stopping` rows has not improved for a while;
        returns the epochs.

        Where it stopped early, the parameters of the lowest loss are taken back, as in the work's
        code.
        """
        labels = torch.repeat_interleave(torch.tensor([1.0, 0.0]), len(stopping) // 2)
        optimiser = torch.optim.Adam(
            [p.requires_grad_() for p in self.parameters], lr=1e-3, fused=True
        )
        lowest, since, best = np.inf, 0, []
        for epoch in range(sizes.epochs):
            for parameter, gradient in zip(self.parameters, self.gradients(), strict=True):
                # fused Adam takes it so, and says nothing where it is not
                parameter.grad = gradient.contiguous()
            optimiser.step()
            loss = F.binary_cross_entropy_with_logits(self.logits(stopping), labels).item()
            since = 0 if loss < lowest else since + 1
            if since == 0:
                lowest, best = (
                    loss,
                    [own.detach().clone() for own in self.parameters + self.means + self.variances],
                )
            if since >= sizes.patience:
                for own, kept in zip(
                    self.parameters + self.means + self.variances, best, strict=True
                ):
                    own.data.copy_(kept)
                return epoch + 1
        return sizes.epochs

    @torch.no_grad()
    def gradients(self) -> list[Tensor]:
        """Of the mean cross-entropy of all rows in training mode, as `parameters`; moves the
        running statistics."""
        number, weights = len(self.labels), self.weights
        pulled = weights[0] @ self.covariance
        variance = (pulled * weights[0]).sum(dim=1)
        self._remember(0, weights[0] @ self.mean, variance)
        spread = (variance + EPSILON).rsqrt()
        factor = self.scales[0] * spread
        kept, values = self._kept(WIDTHS[0]), self.narrow[0].values
        self.wide.forward(weights[0], factor, self.shifts[0], kept, weights[1], values)
        for layer, narrow in enumerate(self.narrow, start=1):
            if layer > 1:
                product(values, weights[layer].T, narrow.values)
            values, *moments = narrow.forward(
                self.scales[layer], self.shifts[layer], self._kept(WIDTHS[layer])
            )
            self._remember(layer, *moments)
        logits = torch.addmm(self.offset, values, weights[3].T)[:, 0]
        back = ((torch.sigmoid(logits) - self.labels) / number)[:, None]
        of_weights, of_scales, of_shifts = [back.T @ values], [], []
        of_offset = back.sum(dim=0)
        for layer, narrow in reversed(list(enumerate(self.narrow, start=1))):
            back, of_scale, of_shift = narrow.backward(back, weights[layer + 1], self.scales[layer])
            of_scales.insert(0, of_scale)
            of_shifts.insert(0, of_shift)
            if layer > 1:
                of_weights.insert(0, product(back.T, self.narrow[layer - 2].output))
        of_folded, of_shift, of_second = self.wide.backward(back, weights[1])
        # weights enter as they are and through their variance
        of_factor = (of_folded * weights[0]).sum(dim=1)
        of_first = (
            of_folded * factor[:, None] - (of_factor * self.scales[0] * spread**3)[:, None] * pulled
        )
        return [
            of_first,
            of_second,
            *of_weights,
            of_factor * spread,
            *of_scales,
            of_shift,
            *of_shifts,
            of_offset,
        ]

    @torch.no_grad()
    def logits(self, rows: Tensor) -> Tensor:
        """(rows,), of rows that need not be those trained with."""
        values = rows
        for weight, scale, shift, mean, variance in zip(
            self.weights, self.scales, self.shifts, self.means, self.variances, strict=False
        ):
            factor = scale / (variance + EPSILON).sqrt()
            values = F.leaky_relu_(
                torch.addmm(shift - factor * mean, values, (weight * factor[:, None]).T), SLOPE
            )
        return torch.addmm(self.offset, values, self.weights[-1].T)[:, 0]

    def _remember(self, layer: int, mean: Tensor, variance: Tensor) -> None:
        number = len(self.labels)
        self.means[layer].lerp_(mean, MOMENTUM)
        self.variances[layer].lerp_(variance * number / (number - 1), MOMENTUM)

    def _kept(self, width: int) -> np.ndarray:
        """Words (rows, width / 32) of random bits, the lowest first: half the values stay, and
        count twice."""
        return np.frombuffer(self.rng.bytes(len(self.labels) * width // 8), np.uint32).reshape(
            -1, width // 32
        )

    def _uniform(self, outputs: int, inputs: int) -> Tensor:
        """Starting weights as torch draws those of a linear layer."""
        bound = inputs**-0.5
        return torch.from_numpy(
            self.rng.uniform(-bound, bound, size=(outputs, inputs)).astype(np.float32)
        )
