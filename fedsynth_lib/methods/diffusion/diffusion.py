"""Denoising diffusion in a space of real vectors.

Sources: Ho et al. 2020; sattarov2024, equations 1-3; FinDiff's network.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise

import torch
from torch import Tensor, nn

SLOPE = 0.4  # of the leaky ReLU, as in FinDiff's public code
PERIOD = 10_000  # longest wave of the time embedding


@dataclass(frozen=True)
class Schedule:
    """Noise levels of the steps 0 ... steps - 1: betas rise linearly from `first` to `last`.

    rescaled: both ends times 1000 / steps, as FinDiff's public code has it. As printed, 500 steps
        from 0.0001 to 0.02 leave 8 percent of the signal's size in the last step, while sampling
        starts from pure noise.
    """

    steps: int = 500
    first: float = 1e-4
    last: float = 0.02
    rescaled: bool = True

    @cached_property
    def betas(self) -> Tensor:
        """Variance of the noise that each step adds."""
        factor = 1000 / self.steps if self.rescaled else 1.0
        return torch.linspace(self.first * factor, min(self.last * factor, 0.999), self.steps)

    @cached_property
    def kept(self) -> Tensor:
        """Products of 1 - beta up to each step: the share of the signal's variance that is left."""
        return torch.cumprod(1 - self.betas.double(), dim=0).float()

    def noised(self, rows: Tensor, times: Tensor, noise: Tensor) -> Tensor:
        """Return rows (rows, width) at the steps `times`, made from `noise` of the same shape.

        Source: equation 1 in closed form.
        """
        kept = self.kept.to(rows.device)[times][:, None]
        return kept.sqrt() * rows + (1 - kept).sqrt() * noise

    @torch.no_grad()
    def denoised(
        self, rows: Tensor, predict: Callable[[Tensor, Tensor], Tensor], *, taken: int | None = None
    ) -> Tensor:
        """Walk pure noise (rows, width) back to step 0.

        Source: equation 2. The last step adds no noise.

        predict: rows and their step -> the noise in them. taken: fewer steps, spread evenly, each
            doing the work of those it stands for.
        """
        chosen = torch.linspace(0, self.steps - 1, taken or self.steps).round().long()
        kept = self.kept[chosen]
        alphas = kept / torch.cat([torch.ones(1), kept[:-1]])
        for place in reversed(range(len(chosen))):
            times = torch.full((len(rows),), int(chosen[place]), device=rows.device)
            alpha, left = float(alphas[place]), float(1 - kept[place])
            rows = (rows - (1 - alpha) / left**0.5 * predict(rows, times)) / alpha**0.5
            if place:
                rows = rows + (1 - alpha) ** 0.5 * torch.randn_like(rows)
        return rows


class Denoiser(nn.Module):
    """The network that predicts the noise in rows at a step.

    All its parameters are in linear layers, as private training needs.

    width: of a row. hidden: widths of the layers. inner: of the space in which row and time meet.
    """

    def __init__(self, width: int, hidden: Sequence[int], inner: int):
        super().__init__()
        self.inner = inner
        self.enter = nn.Sequential(nn.Linear(width, inner), nn.SiLU(), nn.Linear(inner, inner))
        self.clock = nn.Sequential(nn.Linear(inner, inner), nn.SiLU(), nn.Linear(inner, inner))
        layers: list[nn.Module] = []
        for inputs, outputs in pairwise([inner, *hidden]):
            layer = nn.Linear(inputs, outputs)
            nn.init.xavier_uniform_(layer.weight)
            nn.init.zeros_(layer.bias)
            layers += [layer, nn.LeakyReLU(SLOPE)]
        self.body = nn.Sequential(*layers)
        self.head = nn.Linear(hidden[-1], width)

    def forward(self, rows: Tensor, times: Tensor) -> Tensor:
        """Rows (rows, width) at steps (rows,) to the noise in them, (rows, width)."""
        return self.head(self.body(self.enter(rows) + self.clock(waves(times, self.inner))))


def waves(times: Tensor, width: int) -> Tensor:
    """Sines and cosines of the steps at frequencies from 1 down to 1 / PERIOD, (rows, width)."""
    half = width // 2
    frequencies = torch.exp(
        -torch.log(torch.tensor(float(PERIOD))) * torch.arange(half, device=times.device) / half
    )
    angles = times[:, None] * frequencies
    return torch.cat(
        [angles.cos(), angles.sin(), angles.new_zeros(len(times), width - 2 * half)], dim=1
    )
