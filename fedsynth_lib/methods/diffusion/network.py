"""FinDiff's network.

It has embeddings of categories, and the denoiser. Together with the normal scores of numbers, the
embeddings make the space in which the denoiser works.
"""

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor, nn

from fedsynth_lib.methods.diffusion.diffusion import Denoiser, Schedule


class Network(nn.Module):
    """The denoiser and the embeddings of categories.

    Each column's embedding is a linear layer on its one-hot code.
    """

    def __init__(
        self,
        levels: np.ndarray,
        *,
        embedding: int,
        train_embeddings: bool,
        hidden: Sequence[int],
        inner: int,
    ):
        super().__init__()
        self.levels = [int(level) for level in levels[levels > 0]]
        width = int((levels == 0).sum()) + embedding * len(self.levels)
        self.embeddings = nn.ModuleList(
            [nn.Linear(level, embedding, bias=False) for level in self.levels]
        )
        for layer in self.embeddings:
            nn.init.normal_(layer.weight)
        self.embeddings.requires_grad_(train_embeddings)
        self.denoiser = Denoiser(width, hidden, inner)

    def vectors(self, scores: Tensor, codes: Tensor) -> Tensor:
        """Return rows in the space of the diffusion: normal scores, then embeddings.

        codes: (rows, categorical columns).
        """
        parts = [scores]
        for layer, level, column in zip(self.embeddings, self.levels, codes.T, strict=True):
            parts.append(layer(nn.functional.one_hot(column, level).float()))
        return torch.cat(parts, dim=1)

    def nearest(self, vectors: Tensor) -> Tensor:
        """Return, for every categorical column, the category with the nearest embedding.

        Shape: (rows, categorical columns).
        """
        places = vectors.split([layer.out_features for layer in self.embeddings], dim=1)
        found = [
            torch.cdist(place, e.weight.T).argmin(dim=1)
            for place, e in zip(places, self.embeddings, strict=True)
        ]
        return torch.stack(found, dim=1) if found else vectors.new_zeros(len(vectors), 0).long()

    def losses(self, rows: Tensor, schedule: Schedule) -> Tensor:
        """Return the mean squared error of the predicted noise in each row, (rows,).

        rows: as `vectors` returns them. Source: equation 3.
        """
        times = torch.randint(
            1, schedule.steps, (len(rows),), device=rows.device
        )  # from 1, as in FinDiff's public code
        noise = torch.randn_like(rows)
        predicted = self.denoiser(schedule.noised(rows, times, noise), times)
        return (noise - predicted).square().mean(dim=1)
