"""The networks and the loss of TVAE.

Sources: Xu et al. 2019, section 4.4 and appendix; martinez2024, section 4.2.

A row is one float vector, lined up by `gan.Layout`: the distances of all numbers from their modes,
then one-hot blocks.
"""

from collections.abc import Sequence
from itertools import pairwise

import torch
from torch import Tensor, nn

from fedsynth_lib.methods.gan.networks import Layout

NARROWEST, WIDEST, FIRST = 0.01, 1.0, 0.1  # standard deviation of a decoded number, as in TVAE


class Vae(nn.Module):
    """The encoder and the decoder of TVAE.

    All parameters sit in linear layers, as private training needs (see `dp_sgd`).

    The standard deviations of decoded numbers, which do not depend on the row, are a linear layer
    without bias that is fed ones: as a bare parameter they would have no gradients of single rows.
    """

    def __init__(self, layout: Layout, hidden: Sequence[int], embedding: int):
        super().__init__()
        self.layout, self.embedding = layout, embedding
        self.encoder = _stacked([layout.width, *hidden, 2 * embedding])
        self.decoder = _stacked([embedding, *hidden, layout.width])
        self.spread = nn.Linear(1, layout.numbers, bias=False) if layout.numbers else None
        if self.spread is not None:
            nn.init.constant_(self.spread.weight, FIRST)

    def losses(self, rows: Tensor, loss_factor: float, noise: Tensor | None = None) -> Tensor:
        """Return the negative evidence bound of each row, (rows,).

        Its reconstruction part is multiplied by `loss_factor`.

        noise: standard normal, (rows, embedding), that moves each row's latent vector; drawn where
            it is not given.
        Numbers are normal around the decoder's tanh, entries of a block are one draw by its
        softmax; constants of the normal density are left out.
        """
        numbers = self.layout.numbers
        mean, log_variance = self.encoder(rows).chunk(2, dim=1)
        noise = torch.randn_like(mean) if noise is None else noise
        raw = self.decoder(mean + torch.exp(0.5 * log_variance) * noise)
        entries = raw[:, numbers:]
        negative_log_likelihood = -(entries * rows[:, numbers:]).sum(dim=1)
        for block in entries.split(self.layout.blocks, dim=1):
            negative_log_likelihood = negative_log_likelihood + block.logsumexp(dim=1)
        if self.spread is not None:
            spread = self.spread(rows.new_ones(len(rows), 1))
            offset = (rows[:, :numbers] - torch.tanh(raw[:, :numbers])) / spread
            negative_log_likelihood = negative_log_likelihood + (
                0.5 * offset.square() + torch.log(spread)
            ).sum(dim=1)
        divergence = 0.5 * (mean.square() + log_variance.exp() - log_variance - 1).sum(dim=1)
        return loss_factor * negative_log_likelihood + divergence

    @torch.no_grad()
    def keep_spread(self) -> None:
        """Move the standard deviations back to where TVAE allows them."""
        if self.spread is not None:
            self.spread.weight.clamp_(NARROWEST, WIDEST)

    @torch.no_grad()
    def imagine(self, num_rows: int, *, likeliest: bool) -> tuple[Tensor, Tensor]:
        """Decode rows from normal latent vectors.

        Returns distances (rows, numbers), and the choice within each block (rows, blocks).

        likeliest: take the entry with the highest score of every block; else draw by its softmax.
        """
        device = self.decoder[0].weight.device
        raw = self.decoder(torch.randn(num_rows, self.embedding, device=device))
        distances, entries = raw[:, : self.layout.numbers].tanh(), raw[:, self.layout.numbers :]
        if self.spread is not None:
            distances = distances + self.spread.weight[:, 0] * torch.randn_like(distances)
        if not likeliest:
            entries = entries - torch.log(
                -torch.log(torch.rand_like(entries).clamp_(1e-20, 1 - 1e-7))
            )
        choices = [block.argmax(dim=1) for block in entries.split(list(self.layout.blocks), dim=1)]
        return distances.clamp(-1, 1), torch.stack(choices, dim=1)


def _stacked(widths: Sequence[int]) -> nn.Sequential:
    """Linear layers of these widths with ReLU in between."""
    layers: list[nn.Module] = []
    for inputs, outputs in pairwise(widths):
        layers += [nn.Linear(inputs, outputs), nn.ReLU()]
    return nn.Sequential(*layers[:-1])
