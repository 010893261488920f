"""What lessons on networks need: made-up birds, gradients by record, rows as a CTGAN sees them."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
import torch

from fedsynth_lib.core.contract import Arrays, Encoder, stream
from fedsynth_lib.core.dp_sgd import Tape
from fedsynth_lib.federation.flower import Job
from fedsynth_lib.federation.rounds import Round
from fedsynth_lib.methods.gan import encoding as gan_encoding
from fedsynth_lib.methods.gan.networks import Layout
from fedsynth_lib.methods.gan.sampling import LocalRows
from fedsynth_lib.metrics import fidelity, marginal_distances
from fedsynth_lib.tables.load import Column, Schema, Table


def birds(num_rows: int, seed: int) -> Table:
    """Make birds: three kinds, one of them rare, and a weight (kg) that depends on the kind.

    The kind nearly decides the weight; the rest is chance.
    """
    rng, kinds = stream(seed, "birds"), ("hen", "goose", "swan")
    kind = rng.choice(3, num_rows, p=[0.70, 0.26, 0.04])
    weight = rng.normal(np.array([2.2, 5.0, 10.0])[kind], np.array([0.35, 0.7, 1.0])[kind])
    columns = Column("weight", "numeric", 0, 15), Column("kind", "categorical", categories=kinds)
    kind = pd.Categorical.from_codes(kind, list(kinds))
    frame = pd.DataFrame({"weight": weight.clip(0.5, 15), "kind": kind})
    digest = f"birds {num_rows} {seed}"
    return Table("birds", frame, Schema(columns, target="kind"), "own", digest=digest)


def summed_gradient(
    network: torch.nn.Module,
    losses: Callable[[torch.Tensor], torch.Tensor],
    rows: torch.Tensor,
    *,
    clip: float,
    records: int | None = None,
    divisor: float = 1.0,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Sum the network's gradients over records, each cut to norm `clip`, without noise.

    Returns the sum as one vector, and the norms before they were cut, (records,).

    losses: of each of `rows`, called on a `Tape`. records: how many there are, if a record has
        several rows: the first of each, then the second. divisor: of the sum, as a batch's size.
    """
    with Tape(network) as tape:
        how = {"clip": clip, "noise_multiplier": 0, "expected_records": divisor}
        norms = tape.backward(losses(rows), num_records=records or len(rows), **how)
    return torch.cat([each.grad.flatten() for each in network.parameters()]), norms


def gan_encoded(
    state: Arrays, rows: np.ndarray, rng: np.random.Generator
) -> tuple[Layout, LocalRows]:
    """Encode rows as the networks of a CTGAN see them, after the encoding rounds.

    Returns the layout, which says where each column is in a vector, and the encoded rows.
    """
    layout, levels = gan_encoding.layout_of(state), state["levels"]
    pair = gan_encoding.encode_numbers(gan_encoding.numbers_of(rows, levels), state, rng)
    codes = gan_encoding.compact(gan_encoding.codes_of(rows, levels), state)
    return layout, LocalRows.of(layout, *pair, codes, torch.device("cpu"))


def gan_decoded(state: Arrays, encoded: torch.Tensor) -> np.ndarray:
    """Decode vectors (rows, layout.width) to rows, by the largest entry of each block."""
    layout, levels = gan_encoding.layout_of(state), state["levels"]
    distances, blocks = encoded.split([layout.numbers, sum(layout.blocks)], dim=1)
    picked = [block.argmax(dim=1).numpy() for block in blocks.split(layout.blocks, dim=1)]
    modes, codes = np.split(np.stack(picked, axis=1), [layout.numbers], axis=1)
    rows = np.empty((len(encoded), len(levels)))
    rows[:, levels == 0] = gan_encoding.decode_numbers(modes, distances.numpy(), state)
    rows[:, levels > 0] = gan_encoding.declared(codes, state)
    return rows


def gan_rows(
    job: Job, steps: Sequence[Round], encoder: Encoder, rounds: Iterable[int], num_rows: int
) -> dict[int, pd.DataFrame]:
    """Return what the generator of a CTGAN makes after each of `rounds` rounds of training.

    The keys are rounds; 0 is before the first.

    steps: all of `job`'s. Conditions have the frequencies of the finished run: unless it is
    private, clients are asked for them at the very end only.
    """
    start, counts, made = job.config.encoding_rounds - 1, steps[-1].state["counts"], {}
    for number in map(int, rounds):
        state = {**steps[start + number].state, "counts": counts}
        rows = job.method.sample(state, num_rows, config=job.config, rng=stream(job.seed, "sample"))
        made[number] = encoder.inverse(rows, rng=stream(job.seed, "decode"))
    return made


def gan_scores(real: Table, tables: Mapping[Any, pd.DataFrame]) -> pd.DataFrame:
    """Return fidelity scores for each of `tables`, a line each.

    JSD and WD are those of leitner2023 and look at single columns; association looks at pairs.

    association: of two columns, between 0 and 1 in size; the mean over all pairs, `real` in the
        last line.
    """
    lines = {}
    for name, frame in {**tables, "real": real.frame}.items():
        found = np.abs(fidelity.associations(frame, real.schema))
        both = (real.frame, frame, real.schema)
        scores = marginal_distances.jensen_shannon(*both), marginal_distances.wasserstein(*both)
        lines[name] = *scores, found[np.triu_indices(len(found), 1)].mean()
    return pd.DataFrame(lines, ["JSD", "WD", "association"]).T
