"""The input of the networks of the CTGAN family.

It consists of conditions, a client's rows, and rows that meet conditions. All of it is on one
device and is drawn in bulk by tables of positions, so no step loops over rows or columns.
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import torch
from torch import Tensor

from fedsynth_lib.methods.gan.networks import Layout


@dataclass(frozen=True)
class Conditions:
    """Conditions to draw: first a discrete column, each with the same probability, then a category.

    weights: of the categories, (columns, widest), padded with 0.
    """

    layout: Layout
    weights: Tensor

    @classmethod
    def of(
        cls, layout: Layout, counts: np.ndarray, *, logarithm: bool, device: torch.device
    ) -> "Conditions":
        """Return conditions that draw categories by their counts, or by log(1 + count).

        counts: of all present categories, one column after the other. A column whose counts are all
        0 draws its categories evenly.
        """
        weights = np.zeros((len(layout.categories), max(layout.categories, default=0)))
        for column, own in enumerate(
            np.split(counts, np.cumsum(layout.categories)[:-1]) if len(weights) else []
        ):
            weights[column, : len(own)] = own if own.sum() > 0 else 1
        weights = np.log1p(weights) if logarithm else weights
        return cls(layout, torch.tensor(weights, dtype=torch.float32, device=device))

    @cached_property
    def cumulative(self) -> Tensor:
        """Cumulative shares of the categories of each column."""
        shares = (self.weights / self.weights.sum(dim=1, keepdim=True)).cumsum(dim=1)
        # rounding must not leave a gap at the end
        return shares.masked_fill(shares > 1 - 1e-6, 2.0)

    @cached_property
    def offsets(self) -> Tensor:
        """Where each column's categories begin."""
        widths = torch.tensor(self.layout.categories, dtype=torch.long)
        return (widths.cumsum(0) - widths).to(self.weights.device)

    def draw(self, *shape: int) -> tuple[Tensor, Tensor]:
        """Draw columns and their categories, each an array of this shape.

        Without discrete columns both arrays are empty: they have one more axis, of length 0.
        """
        if not self.layout.categories:
            return (torch.empty(*shape, 0, dtype=torch.long, device=self.weights.device),) * 2
        column = torch.randint(len(self.layout.categories), shape, device=self.weights.device)
        uniform = torch.rand(shape, device=self.weights.device)
        return column, (uniform[..., None] >= self.cumulative[column]).sum(dim=-1)

    def places(self, column: Tensor, category: Tensor) -> Tensor:
        """Return the position of each condition's single 1 among all categories, (rows,).

        Without discrete columns it is 0.
        """
        if not self.layout.categories:
            return torch.zeros(len(column), dtype=torch.long, device=column.device)
        return self.offsets[column] + category


@dataclass(frozen=True)
class LocalRows:
    """A client's encoded rows, and the codes of their categories.

    encoded: (rows, layout.width). codes: (rows, discrete columns).
    """

    encoded: Tensor
    codes: Tensor

    @classmethod
    def of(
        cls,
        layout: Layout,
        chosen: np.ndarray,
        distance: np.ndarray,
        codes: np.ndarray,
        device: torch.device,
    ) -> "LocalRows":
        """From mode and distance of every number, and codes among the present categories."""
        blocks = np.array(layout.blocks, dtype=np.int64)
        starts = layout.numbers + np.cumsum(blocks) - blocks
        ones = torch.tensor(np.concatenate([chosen, codes], axis=1) + starts, device=device)
        encoded = torch.zeros(len(codes), layout.width, device=device)
        encoded.scatter_(1, ones, 1.0)
        encoded[:, : layout.numbers] = torch.tensor(distance, device=device)
        return cls(encoded, torch.tensor(codes, device=device))

    @cached_property
    def _by_category(self) -> tuple[Tensor, Tensor, Tensor]:
        """For each column the rows sorted by category, the start of each category, and its size."""
        widest = int(self.codes.max()) + 1
        sizes = torch.stack([torch.bincount(column, minlength=widest) for column in self.codes.T])
        return (
            self.codes.argsort(dim=0, stable=True).T.contiguous(),
            sizes.cumsum(dim=1) - sizes,
            sizes,
        )

    def matching(self, column: Tensor, category: Tensor) -> Tensor:
        """Draw, for each condition, one of the rows that meet it, each with the same probability.

        Without discrete columns it draws from all rows.
        """
        if not self.codes.shape[1]:
            return torch.randint(len(self.codes), column.shape[:-1], device=self.codes.device)
        order, first, sizes = self._by_category
        place = (
            first[column, category]
            + (torch.rand(column.shape, device=column.device) * sizes[column, category]).long()
        )
        return order[column, place]
