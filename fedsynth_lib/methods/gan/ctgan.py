"""CTGAN, and the verbs of its whole family: federated, private, or both.

Sources: Xu et al. 2019; leitner2023.

What crosses the wire: in the encoding rounds each client's Gaussian mixtures and which categories
it has, or noisy histograms instead (see `encoding.py`); in every training round both networks'
parameters, up and down; at the end, where the method asks for them, as many conditions as the
client has rows. Optimiser moments stay with the client.

The private step touches the discriminator only: the generator learns from it, which is
post-processing.
"""

from dataclasses import dataclass

import numpy as np
import torch

from fedsynth_lib.core.broadcast import Values, check_arrays, require
from fedsynth_lib.core.contract import Arrays, Charge, Client, Domain, Noise, Update
from fedsynth_lib.methods.gan import budget
from fedsynth_lib.methods.gan.budget import Settings, encoder_of, plan
from fedsynth_lib.methods.gan.encoding import (
    category_counts,
    check_mixtures,
    client_encoding,
    codes_of,
    compact,
    declared,
    decode_numbers,
    encode_numbers,
    layout_of,
    numbers_of,
    server_encoding,
    stacked_values,
)
from fedsynth_lib.methods.gan.networks import Layout
from fedsynth_lib.methods.gan.sampling import Conditions, LocalRows
from fedsynth_lib.methods.gan.training import NETWORKS, Pair, train
from fedsynth_lib.methods.gan.weights import averaged, device_of, seeded, size_of

__all__ = [
    "Config",
    "broadcast",
    "check_broadcast",
    "client_step",
    "encoder",
    "plan",
    "sample",
    "schedule",
    "server_step",
    "start",
]

VERSION = 1
ENCODE, TRAIN, ASK = range(3)  # the state's `stage`
PARAMETERS = "parameters of networks trained without noise"
BY_CONDITION = "rows and conditions drawn by raw frequencies (training by sampling)"
MOST_COUNTED = 2**53  # rows of a category
SERVERS = "server."  # marks arrays that the server keeps
ASKED = "conditions drawn by raw frequencies"


@dataclass(frozen=True)
class Config(Settings):
    """CTGAN's own: 300 epochs."""


encoder = encoder_of


def schedule(domain: Domain, config: Settings) -> list[tuple[int, float]]:
    """All clients encode and give conditions; each trains in a share of the rounds."""
    before, training = config.encoding_rounds, config.training_rounds
    shares = [1.0] * before + [config.participation] * training + [1.0] * config.asks_for_conditions
    return list(enumerate(shares))


def start(domain: Domain, config: Settings, rng: np.random.Generator) -> Arrays:
    """Return the first state, which knows the levels of columns (0 for numbers) and no row.

    Raises BadInput for settings that cannot work together.
    """
    budget.check(config)
    levels = np.array(domain.levels)
    state = {
        "levels": levels,
        "stage": np.array(ENCODE),
        "round": np.array(0),
        "finished": np.array(False),
    }
    return state | (
        {"present": np.ones(levels.sum(), bool)} if config.encoding == "private" else {}
    )


def check_broadcast(state: Arrays, domain: Domain, config: Settings, round: int) -> None:
    """Check that the state has what the stage of this round needs.

    After the first round there is an encoding, and in training there are networks of the size that
    this encoding makes. The server may ask for conditions only if the settings say so.
    """
    own, encoded = start(domain, config, np.random.default_rng(0)), round > 0
    trained = round >= config.encoding_rounds
    asks = trained and state["stage"] == ASK
    stage = ASK if asks else TRAIN if trained else ENCODE
    discrete = sum(domain.levels)
    expected: dict[str, np.ndarray | Values] = {**own, "round": np.array(round)}
    if encoded:
        expected |= stacked_values(domain.levels.count(0), config.modes)
        expected = {"present": Values(np.bool_, (discrete,))} | expected
        if config.weighting == "similarity" or budget.histogram_columns(domain.levels, config):
            expected["counts"] = Values(np.float64, (discrete,), 0, MOST_COUNTED)
        if config.weighting == "similarity" and "client_weights" in state:  # one client needs none
            expected["client_weights"] = Values(np.float64, (None,), 0, 1)
    if trained:
        expected |= {name: Values(np.float32, (None,), finite=False) for name in NETWORKS}
    check_arrays(state, {**expected, "stage": np.array(stage)})
    last = config.encoding_rounds + config.training_rounds
    require(round < config.rounds and (asks or round < last))
    require(not asks or (config.asks_for_conditions and round > config.encoding_rounds))
    if encoded:
        check_mixtures(state)
    if trained:
        found = tuple(len(state[name]) for name in NETWORKS)
        require(found == _sizes(layout_of(state), config))


def _sizes(layout: Layout, config: Settings) -> tuple[int, ...]:
    with seeded(np.random.default_rng(0), torch.device("cpu")):
        pair = Pair(layout, config, torch.device("cpu"))
    return tuple(size_of(getattr(pair, name)) for name in NETWORKS)


def client_step(
    state: Arrays, client: Client, config: Settings, noise: Noise | None, rng: np.random.Generator
) -> Update:
    """Whatever the stage asks for: encode, train, or give conditions."""
    if state["stage"] == ENCODE:
        return client_encoding(client, state, config, noise, rng)
    if state["stage"] == ASK:
        return _conditions(state, client, rng)
    steps = budget.steps_per_round(client.size, config)
    if config.private:
        done = int(client.memory.get("steps", 0))
        multiplier = noise.multiplier if noise else 0.0
        total = budget.total_steps(multiplier, tuple(state["levels"]), client.size, config)
        steps = min(steps, total - done)
        client.memory["steps"] = np.array(done + steps)
    if not steps:  # the budget is spent
        return Update({name: state[name] for name in NETWORKS})
    arrays = _trained(state, client, config, noise, rng, steps)
    return Update(arrays, spent=_spent(client.size, config, noise, steps))


def _trained(
    state: Arrays,
    client: Client,
    config: Settings,
    noise: Noise | None,
    rng: np.random.Generator,
    steps: int,
) -> Arrays:
    """Both networks after `steps` steps on the client's rows."""
    levels, layout, device = state["levels"], layout_of(state), device_of(config.device)
    if "modes" not in client.memory:  # a number keeps the mode that was drawn for it
        pair = encode_numbers(numbers_of(client.rows, levels), state, rng)
        client.memory["modes"], client.memory["distances"] = pair
    codes = compact(codes_of(client.rows, levels), state)
    local = LocalRows.of(layout, client.memory["modes"], client.memory["distances"], codes, device)
    counts = (
        state["counts"]
        if config.sampling == "poisson"
        else category_counts(codes_of(client.rows, levels), levels)
    )
    with seeded(rng, device, secret=bool(noise and noise.secret)):
        pair = Pair(layout, config, device)
        pair.load(state)
        for name in NETWORKS:
            pair.load_moments(name, client.memory)
        # Rows of Poisson batches come as often as they are; imagined ones must, too, or how often
        # would tell them apart.
        logarithm = config.sampling == "by_condition"
        conditions = Conditions.of(
            layout, counts[state["present"]], logarithm=logarithm, device=device
        )
        train(pair, local, conditions, client.size, config, noise, steps)
        for name in NETWORKS:
            client.memory |= pair.moments(name)
    return pair.parameters()


def server_step(
    state: Arrays,
    updates: list[Update],
    config: Settings,
    noise: Noise | None,
    rng: np.random.Generator,
) -> tuple[Arrays, list[Charge]]:
    """Put the encoding together, then average the networks, then take the clients' conditions."""
    if state["stage"] == ENCODE:
        state = server_encoding(state, updates, config, rng)
        if state["round"] == config.encoding_rounds:
            state |= {"stage": np.array(TRAIN)} | _initial(state, config, rng)
        return state, []
    if state["stage"] == ASK:
        return {**state, "counts": _counted(state, updates), "finished": np.array(True)}, []
    state = {**state, "round": state["round"] + 1} | _averaged(state, updates)
    if config.generator_at == "server":
        state |= _server_generator(state, config, rng)
    last = state["round"] == config.encoding_rounds + config.training_rounds
    if last or (config.participation == 1 and not any(update.spent for update in updates)):
        state |= (
            {"stage": np.array(ASK)} if config.asks_for_conditions else {"finished": np.array(True)}
        )
    return state, []


def broadcast(state: Arrays, config: Settings) -> Arrays:
    """All but what the server keeps for its own optimiser."""
    return {name: values for name, values in state.items() if not name.startswith(SERVERS)}


def sample(state: Arrays, num_rows: int, config: Settings, rng: np.random.Generator) -> np.ndarray:
    """Draw rows (num_rows, columns) for conditions drawn by the frequencies in `counts`.

    The generator makes whole batches, and the surplus is dropped.
    """
    layout, device, levels = layout_of(state), device_of(config.device), state["levels"]
    batches = []
    with seeded(rng, device), torch.no_grad():
        pair = Pair(layout, config, device)
        pair.load(state)
        conditions = Conditions.of(
            layout, state["counts"][state["present"]], logarithm=False, device=device
        )
        for _ in range(-(-num_rows // config.batch)):
            rows = pair.imagine(conditions.places(*conditions.draw(config.batch)))[1]
            picked = [
                block.argmax(dim=1)
                for block in rows[:, layout.numbers :].split(list(layout.blocks), dim=1)
            ]
            batches.append(torch.column_stack([rows[:, : layout.numbers], *picked]).cpu().numpy())
    found = np.concatenate(batches)[:num_rows].astype(float)
    distance, chosen, codes = np.split(found, [layout.numbers, 2 * layout.numbers], axis=1)
    table = np.empty((num_rows, len(levels)))
    table[:, levels == 0] = decode_numbers(chosen.astype(np.intp), distance, state)
    table[:, levels > 0] = declared(codes.astype(np.intp), state)
    return table if layout.numbers else table.astype(np.int32)


def _spent(num_rows: int, config: Settings, noise: Noise | None, steps: int) -> list[Charge]:
    """Return the charges of a round of training for the client's records."""
    if noise is None or not config.private:
        return [Charge(PARAMETERS, "unprotected")]
    by_condition = (
        [Charge(BY_CONDITION, "unprotected")] if config.sampling == "by_condition" else []
    )
    return [budget.gradient_charge(noise.multiplier, num_rows, config, steps), *by_condition]


def _conditions(state: Arrays, client: Client, rng: np.random.Generator) -> Update:
    """Draw as many conditions as the client has rows, without protection.

    A condition names a discrete column, each with the same probability, and one of its categories,
    by its raw frequency.
    """
    codes = codes_of(client.rows, state["levels"])
    column = rng.integers(max(codes.shape[1], 1), size=len(codes))
    drawn = codes[rng.integers(len(codes), size=len(codes)), column] if codes.shape[1] else column
    arrays = {"column": column.astype(np.uint16), "category": drawn.astype(np.uint16)}
    return Update(arrays, spent=[Charge(ASKED, "unprotected")])


def _counted(state: Arrays, updates: list[Update]) -> np.ndarray:
    """How often each category was asked for."""
    discrete = state["levels"][state["levels"] > 0]
    if not len(discrete):
        return np.zeros(0)
    starts = np.cumsum(discrete) - discrete
    places = [starts[update.arrays["column"]] + update.arrays["category"] for update in updates]
    return np.bincount(np.concatenate(places), minlength=discrete.sum()).astype(float)


def _averaged(state: Arrays, updates: list[Update]) -> Arrays:
    """Return the average of both networks over the clients.

    Clients are weighted by their rows (leitner2023, algorithm 4.3), or by `client_weights` if the
    state has them.
    """
    similar = None
    if "client_weights" in state:
        similar = state["client_weights"][[update.client for update in updates]]
    return {name: averaged(updates, name, similar) for name in NETWORKS}


def _initial(state: Arrays, config: Settings, rng: np.random.Generator) -> Arrays:
    """Return both networks before training.

    With `start_from_marginals` the last biases of the generator are the logarithms of the shares,
    because a Gumbel softmax of log p draws with p.
    """
    device, layout = torch.device("cpu"), layout_of(state)
    with seeded(rng, device):
        pair = Pair(layout, config, device)
    if config.start_from_marginals:
        weights = state["weights"][state["weights"] > 0]
        counts = state["counts"][state["present"]] + 0.5  # none is ruled out
        shares = [
            own / own.sum()
            for own in np.split(counts, np.cumsum(layout.categories)[:-1])
            if len(own)
        ]
        with torch.no_grad():
            pair.generator[-1].bias[layout.numbers :] = torch.tensor(
                np.log(np.concatenate([weights, *shares]))
            )
    return pair.parameters()


def _server_generator(state: Arrays, config: Settings, rng: np.random.Generator) -> Arrays:
    """Make one step of the generator against the averaged discriminator.

    Source: maddock2024, where the server trains the generator.
    """
    layout, device = layout_of(state), device_of(config.device)
    with seeded(rng, device):
        pair = Pair(layout, config, device)
        pair.load(state)
        pair.load_moments(
            "generator", {name.removeprefix(SERVERS): values for name, values in state.items()}
        )
        conditions = Conditions.of(
            layout, state["counts"][state["present"]], logarithm=False, device=device
        )
        pair.generator_step(conditions, *conditions.draw(config.batch))
    moments = {SERVERS + name: values for name, values in pair.moments("generator").items()}
    return {"generator": pair.parameters()["generator"], **moments}
