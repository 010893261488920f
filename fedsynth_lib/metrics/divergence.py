"""Jensen-Shannon divergence of two samples, by a discriminator (apellaniz2025, equation 5).

The discriminator is a network that learns to distinguish the two samples.

With a perfect classifier P(real | x) the mean of 1 + log2 P over real rows and of 1 + log2 (1 - P)
over synthetic ones is the divergence in bits: 0 for the same distribution, 1 for distributions that
never meet. A real classifier gives a lower bound that it comes close to with many rows; with few
rows it may be negative.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

from fedsynth_lib.core.contract import BadInput, stream

WIDTHS = (256, 64, 32)
LEAST = 1e-7  # probabilities below are raised to it
SLOPE = 0.2  # of the leaky ReLU
MOMENTUM, EPSILON = 0.1, 1e-5  # of batch normalisation


@dataclass(frozen=True)
class Sizes:
    """Numbers of rows and epochs.

    Rows of each kind to train with, and to estimate with (as many again decide when to stop);
    epochs at most, and epochs without improvement after which training stops.
    """

    training: int = 7500
    evaluation: int = 1000
    epochs: int = 10_000
    patience: int = 1000

    @property
    def rows(self) -> int:
        """Rows that are needed of each kind."""
        return self.training + 2 * self.evaluation


class Estimate(NamedTuple):
    """The divergence in bits, and the epochs that the network was trained for."""

    bits: float
    epochs: int


def jensen_shannon(
    real: np.ndarray, synthetic: np.ndarray, *, seed: int, sizes: Sizes | None = None
) -> Estimate:
    """Estimate the divergence of two samples.

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


class Discriminator:
    """Dense layers of WIDTHS, then one logit.

    Each layer has batch normalisation, dropout 0.5 and leaky ReLU.

    rows: (rows, features), the first half real. A layer's bias is left out, since normalisation
        takes it away again.
    """

    def __init__(self, rows: Tensor, rng: np.random.Generator):
        self.rng, self.rows = rng, rows
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
        """All trained parameters."""
        return [*self.weights, *self.scales, *self.shifts, self.offset]

    def train(self, stopping: Tensor, sizes: Sizes) -> int:
        """Train by full-batch Adam until the loss of the `stopping` rows stalls; return the epochs.

        It stalls when it has not improved for `sizes.patience` epochs. Then the parameters of the
        lowest loss are taken back, as in the work's code.
        """
        labels = torch.repeat_interleave(torch.tensor([1.0, 0.0]), len(stopping) // 2)
        optimiser = torch.optim.Adam(
            [p.requires_grad_() for p in self.parameters], lr=1e-3, fused=True
        )
        lowest, since, best = np.inf, 0, []
        for epoch in range(sizes.epochs):
            optimiser.zero_grad()
            self.loss().backward()
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

    def loss(self) -> Tensor:
        """Mean cross-entropy of all rows in training mode; moves the running statistics."""
        values = self.rows
        for weight, scale, shift, mean, variance in self._hidden():
            values = F.batch_norm(
                values @ weight.T, mean, variance, scale, shift, True, MOMENTUM, EPSILON
            )
            values = F.leaky_relu_(values, SLOPE) * self._kept(len(weight))
        logits = torch.addmm(self.offset, values, self.weights[-1].T)[:, 0]
        return F.binary_cross_entropy_with_logits(logits, self.labels)

    @torch.no_grad()
    def logits(self, rows: Tensor) -> Tensor:
        """(rows,), of rows that need not be those trained with."""
        values = rows
        for weight, scale, shift, mean, variance in self._hidden():
            factor = scale / (variance + EPSILON).sqrt()
            values = F.leaky_relu_(
                torch.addmm(shift - factor * mean, values, (weight * factor[:, None]).T), SLOPE
            )
        return torch.addmm(self.offset, values, self.weights[-1].T)[:, 0]

    def _hidden(self) -> Iterator[tuple[Tensor, ...]]:
        """Weights, scales, shifts, running means and variances of each hidden layer."""
        return zip(
            self.weights[:-1], self.scales, self.shifts, self.means, self.variances, strict=True
        )

    def _kept(self, width: int) -> Tensor:
        """(rows, width), 0 or 2 by random bits: half the values stay, and count twice."""
        words = np.frombuffer(self.rng.bytes(len(self.labels) * width // 8), np.uint8)
        bits = np.unpackbits(words, bitorder="little").reshape(-1, width)
        return torch.from_numpy(bits).float().mul_(2)

    def _uniform(self, outputs: int, inputs: int) -> Tensor:
        """Draw starting weights as torch draws those of a linear layer."""
        bound = inputs**-0.5
        return torch.from_numpy(
            self.rng.uniform(-bound, bound, size=(outputs, inputs)).astype(np.float32)
        )
