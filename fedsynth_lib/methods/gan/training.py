"""Training of the two networks of the CTGAN family, in ordinary and in private steps.

Private steps follow leitner2023, algorithm 4.2.
"""

from collections.abc import Iterator

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from fedsynth_lib.core.contract import Arrays, Noise
from fedsynth_lib.core.dp_sgd import Tape, noise_generator, poisson_batches
from fedsynth_lib.methods.gan import budget, networks, weights
from fedsynth_lib.methods.gan.budget import Settings
from fedsynth_lib.methods.gan.networks import Layout
from fedsynth_lib.methods.gan.sampling import Conditions, LocalRows

NETWORKS = ("generator", "discriminator")


class Pair:
    """Generator and discriminator with their optimisers, from and to flat arrays."""

    def __init__(self, layout: Layout, config: Settings, device: torch.device):
        self.layout, self.config, self.device = layout, config, device
        inputs = layout.width + layout.condition_width
        sizes = (config.noise_width, layout.condition_width, layout.width)
        self.generator = networks.Generator(*sizes, config.hidden).to(device)
        self.discriminator = networks.discriminator(inputs * config.pac, config.hidden).to(device)
        rates = {"generator": config.generator_rate, "discriminator": config.discriminator_rate}
        decays = {"generator": config.generator_decay, "discriminator": config.discriminator_decay}
        self.optimisers = {
            name: torch.optim.Adam(
                getattr(self, name).parameters(),
                lr=rates[name],
                betas=(0.5, 0.9),
                weight_decay=decays[name],
                fused=True,
            )
            for name in NETWORKS
        }

    def parameters(self) -> Arrays:
        """Return the parameters of both networks as flat arrays."""
        return {name: weights.flat(getattr(self, name)) for name in NETWORKS}

    def load(self, arrays: Arrays) -> None:
        """Set the parameters of both networks."""
        for name in NETWORKS:
            weights.load(getattr(self, name), arrays[name])

    def moments(self, name: str) -> Arrays:
        """Return the moments of the optimiser of this network."""
        return weights.moments(self.optimisers[name], getattr(self, name), name)

    def load_moments(self, name: str, arrays: Arrays) -> None:
        """Set the moments of the optimiser of this network."""
        weights.load_moments(self.optimisers[name], getattr(self, name), name, arrays)

    def imagine(self, condition: Tensor) -> tuple[Tensor, Tensor]:
        """(raw output, row) of the generator for each condition."""
        noise = torch.randn(len(condition), self.config.noise_width, device=self.device)
        raw = self.generator(noise, condition)
        return raw, networks.squash(raw, self.layout)

    def packed(self, rows: Tensor, condition: Tensor) -> Tensor:
        """Rows with their conditions as the discriminator sees them, `pac` side by side."""
        rows = torch.cat([rows, networks.one_hot(condition, self.layout.condition_width)], dim=1)
        return networks.side_by_side(rows, self.config.pac)

    def judge(self, rows: Tensor, condition: Tensor) -> Tensor:
        """Logits of being real, one for each `pac` rows."""
        return self.discriminator(self.packed(rows, condition)).squeeze(1)

    def step(self, name: str, loss: Tensor) -> None:
        """One step of a network; the other, which the loss may pass through, gets no gradients."""
        self.optimisers[name].zero_grad(set_to_none=True)
        loss.backward(inputs=list(getattr(self, name).parameters()))
        self.optimisers[name].step()

    def generator_step(self, conditions: Conditions, column: Tensor, category: Tensor) -> None:
        """One step of the generator; it sees no row, only the discriminator."""
        condition = conditions.places(column, category)
        raw, rows = self.imagine(condition)
        scores = self.judge(rows, condition)
        loss = (
            -scores.mean()
            if self.config.loss == "wasserstein"
            else functional.softplus(-scores).mean()
        )
        if self.config.condition_weight and self.layout.categories:
            loss = loss + self.config.condition_weight * condition_loss(
                raw, self.layout, conditions, column, category
            )
        self.step("generator", loss)

    def discriminator_step(self, real: Tensor, condition: Tensor) -> None:
        """One ordinary step of the discriminator."""
        with torch.no_grad():
            _, fake = self.imagine(condition)
        rows = self.packed(torch.cat([real, fake]), condition.repeat(2))
        if self.config.loss == "wasserstein":
            loss = networks.critic_loss(self.discriminator, rows, self.config.penalty)
        else:
            scores, imagined = self.discriminator(rows).squeeze(1).chunk(2)
            loss = functional.softplus(-scores).mean() + functional.softplus(imagined).mean()
        self.step("discriminator", loss)

    def private_step(
        self,
        real: tuple[Tensor, Tensor],
        fake: tuple[Tensor, Tensor],
        *,
        noise: Noise | None,
        expected: float,
        generator: torch.Generator,
    ) -> None:
        """Make one step of the discriminator on pairs, and clip the gradient of each pair.

        A pair has a real (row, condition) and an imagined one. It must depend on no other pair's
        record; then one record moves the sum of gradients by at most `clip`.

        expected: pairs in a batch on average, a constant that the sum is divided by. noise: None
        adds none.
        """
        with Tape(self.discriminator) as tape:
            scores = self.judge(*(torch.cat(parts) for parts in zip(real, fake, strict=True)))
            truth = torch.arange(len(scores), device=self.device) < len(real[0])
            tape.backward(
                functional.softplus(torch.where(truth, -scores, scores)),
                num_records=len(real[0]),
                clip=self.config.clip,
                noise_multiplier=0.0 if noise is None else noise.multiplier,
                expected_records=expected,
                generator=generator,
            )
        self.optimisers["discriminator"].step()


def condition_loss(
    raw: Tensor, layout: Layout, conditions: Conditions, column: Tensor, category: Tensor
) -> Tensor:
    """Mean cross entropy between the asked category and the generator's block of that column."""
    logits = raw[:, layout.first_category :]
    widths = torch.tensor(layout.categories, device=raw.device)
    index = torch.arange(max(layout.categories), device=raw.device)
    blocks = logits.gather(
        1, (conditions.offsets[column][:, None] + index).clamp_max(logits.shape[1] - 1)
    )
    blocks = blocks.masked_fill(index >= widths[column][:, None], -torch.inf)
    return functional.cross_entropy(blocks, category)


def train(
    pair: Pair,
    local: LocalRows,
    conditions: Conditions,
    size: int,
    config: Settings,
    noise: Noise | None,
    steps: int,
) -> None:
    """Train the discriminator for `steps` steps, and the generator in between.

    The generator makes one step after every `critic_steps` of them.

    size: the declared number of rows, from which a row's chance to be in a batch follows.
    conditions: of the generator, and with sampling 'by_condition' of the rows as well. noise: of
    private training; None trains without, though clipped where the settings say so. With
    generator_at 'server' it stays as it is.
    """
    batch, share = config.batch, budget.rate(size, config)
    expected = share * size
    turns = -(-steps // config.critic_steps)
    asked = conditions.draw(turns, batch)
    generator = (
        noise_generator(noise, pair.device)
        if noise
        else torch.Generator(pair.device).manual_seed(0)
    )
    private = {
        "noise": noise,
        "generator": generator,
        "expected": expected if config.sampling == "poisson" else batch,
    }
    if config.sampling == "poisson":
        feed = poisson_pairs(pair, local, conditions, share, expected, steps, noise)
    else:
        feed = matching_rows(local, conditions, steps, batch)
    for step in range(steps):
        if config.sampling == "poisson":
            pair.private_step(*next(feed), **private)
        elif config.private:
            real = next(feed)
            with torch.no_grad():
                fake = pair.imagine(real[1])[1], real[1]
            pair.private_step(real, fake, **private)
        else:
            pair.discriminator_step(*next(feed))
        if (step + 1) % config.critic_steps == 0 and config.generator_at == "client":
            turn = step // config.critic_steps
            pair.generator_step(conditions, asked[0][turn], asked[1][turn])


def matching_rows(
    local: LocalRows, conditions: Conditions, steps: int, batch: int
) -> Iterator[tuple[Tensor, Tensor]]:
    """Yield (rows, conditions) of each batch of training by sampling.

    Each row is drawn among those that meet its condition.
    """
    columns, categories = conditions.draw(steps, batch)
    picks = local.matching(columns, categories)
    for step in range(steps):
        yield local.encoded[picks[step]], conditions.places(columns[step], categories[step])


def poisson_pairs(
    pair: Pair,
    local: LocalRows,
    conditions: Conditions,
    share: float,
    expected: float,
    steps: int,
    noise: Noise | None,
) -> Iterator[tuple[tuple[Tensor, Tensor], tuple[Tensor, Tensor]]]:
    """Yield the pairs of each batch.

    Each item is ((real rows, conditions read off them), (imagined rows, their own conditions)).

    Rows come by Poisson sampling from the noise's stream: amplification rests on its being secret.
    Imagined rows come from no record's condition, and from one generator batch of fixed size, since
    batch normalisation would carry one record's condition, or its mere presence, into all other
    pairs. They are exchangeable, so that it does not matter which of them a record meets. (A batch
    of more than nine deviations above the mean would meet some twice.)
    """
    rows, fixed = len(local.codes), int(expected + 9 * np.sqrt(expected)) + 9
    rng = noise.rng if noise else np.random.default_rng(int(torch.randint(2**62, ())))
    batches = list(poisson_batches(rows, share, steps, rng=rng))
    picks = torch.from_numpy(np.concatenate(batches)).to(pair.device)
    column = torch.randint(max(local.codes.shape[1], 1), picks.shape, device=pair.device)
    category = local.codes[picks, column] if local.codes.shape[1] else column
    sizes = [len(each) for each in batches]
    for own, columns, categories in zip(
        picks.split(sizes), column.split(sizes), category.split(sizes), strict=True
    ):
        asked = conditions.places(*conditions.draw(fixed))
        with torch.no_grad():
            imagined = pair.imagine(asked)[1]
        met = torch.arange(len(own), device=pair.device) % fixed
        yield (
            (local.encoded[own], conditions.places(columns, categories)),
            (imagined[met], asked[met]),
        )
