"""Bayesian network over clients: FedBN, after PrivBayes.

Sources: Martinez Duarte 2024, chapter 3; Zhang et al. 2017.

What crosses the wire, as published: in every search round a client sends its best network and the
server sends all of them back; in the vote each client sends its fitness of every network; then the
joint counts of each column and its parents, of which the server learns only the noisy sum. The
networks and the votes are read from the rows without noise: the privacy statement lists them as
unprotected.

With `private_structure=True` (beyond the work) clients instead release, once and noisily summed,
how far every pair of columns is from independence; the search then runs on the server as
post-processing, and the whole run is private. With `bins="private"` noisily summed fine counts of
numbers of many levels go before, and the server sends the bins that it forms from them.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np

from fedsynth_lib.core import secure_sum
from fedsynth_lib.core.accounting import discrete_laplace_share
from fedsynth_lib.core.broadcast import Values, check_arrays, require
from fedsynth_lib.core.contract import (
    Arrays,
    BadInput,
    Charge,
    Client,
    Domain,
    Noise,
    Update,
)
from fedsynth_lib.methods.bayes import genetic_search as search
from fedsynth_lib.methods.marginals import private_bins
from fedsynth_lib.methods.marginals.private_bins import BinSettings
from fedsynth_lib.tables.encode import EqualWidthBins
from fedsynth_lib.tables.schema import Schema

VERSION = 1
TRUST = "secure sum"
TABLES = "joint counts of a column and its parents"
BEST, FITNESS = "best network of the client's search", "fitness of networks"  # released by a search
MAX_CELLS = 20_000_000  # of one joint table: more would neither fit in memory nor carry a signal


@dataclass(frozen=True)
class Config(BinSettings):
    """Settings of FedBN.

    Defaults marked [T] come from the public software that the work builds on, the others from the
    protocol's resolutions. Section 6 of the protocol has the tuned values per table.

    bins: equal-width bins of a numeric column; "private" has bins that follow noisy counts
        (`marginals/private_bins.py`), for which the part `fine_share` of epsilon pays; what else
        is released shares the rest.
    """

    degree: int = 2  # k, most parents of a column (not given in the work; its example has 2)
    bins: int | Literal["private"] = 20  # [T]
    population: int = 100  # N
    selection: int = 10  # S
    interval: int = 20  # generations between exchanges
    generations: int = 100  # in all [T]
    private_structure: bool = False
    structure_share: float = 0.5  # of epsilon, when the structure is private [T]
    fine_share: float = 0.1

    def __post_init__(self):
        """Raise BadInput for settings that are out of range."""
        self.check_bins()
        if (
            self.degree < 1
            or (not self.private_bins and self.bins < 2)
            or self.interval < 1
            or self.generations < self.interval
        ):
            raise BadInput("FedBN needs degree >= 1, bins >= 2 and 1 <= interval <= generations.")
        if not 1 <= self.selection < self.population:
            raise BadInput(
                f"FedBN needs 1 <= selection < population, got {self.selection} and "
                f"{self.population}."
            )
        if not 0 < self.structure_share < 1:
            raise BadInput(
                f"structure_share is {self.structure_share}: give a share between 0 and 1."
            )

    @property
    def search_rounds(self) -> int:
        """How many rounds the clients search for a network."""
        return self.generations // self.interval

    @property
    def rounds(self) -> int:
        """How many rounds a run has, without that of the fine counts.

        They are the search rounds, the vote and the counts. With a private structure they are the
        pair scores and the counts.
        """
        return 2 if self.private_structure else self.search_rounds + 2


def encoder(schema: Schema, config: Config) -> EqualWidthBins:
    """Return the encoder, which puts numeric columns into equal-width bins."""
    return private_bins.encoder(schema, config.bins)


def schedule(domain: Domain, config: Config) -> list[tuple[int, float]]:
    """All clients in every round, with one more where there are fine counts."""
    before = bool(private_bins.long_in(domain, config))
    return [(number, 1.0) for number in range(before + config.rounds)]


def plan(noise_multiplier: float, domain: Domain, num_rows: int, config: Config) -> list[Charge]:
    """Return the charges of a run.

    The noisy releases together cost epsilon = 1 / noise_multiplier: `d - k` joint tables, the fine
    counts if there are any, and the pair scores if the structure is private. If it is not private,
    the plan also lists what the search releases without noise.
    """
    columns, long = len(domain.names), private_bins.long_in(domain, config)
    _check_degree(columns, config.degree)
    charges = [_tables_charge(noise_multiplier, columns, len(long), config)]
    if long:
        charges.append(_fine_charge(noise_multiplier, columns, len(long), config))
    if config.private_structure:
        return [*charges, _scores_charge(noise_multiplier, columns, len(long), config)]
    return charges + [Charge(what, "unprotected") for what in (BEST, FITNESS)]


def start(domain: Domain, config: Config, rng: np.random.Generator) -> Arrays:
    """Round 0, no networks received yet."""
    d, k = len(domain.names), config.degree
    _check_degree(d, k)
    before = private_bins.first_state(domain, config)
    levels = private_bins.most_levels(domain) if before else np.array(domain.levels)
    largest = np.prod(np.sort(levels)[-k - 1 :], dtype=float)
    if largest > MAX_CELLS:
        raise BadInput(
            f"the {k + 1} columns with most levels span {largest:.3g} cells (limit "
            f"{MAX_CELLS:.3g}): lower `degree` or `bins`, or merge categories."
        )
    return {
        "levels": levels,
        "round": np.array(0),
        "orders": np.zeros((0, d), np.int16),  # the networks that clients sent last
        "candidates": np.zeros((0, d, k), np.int16),
        **before,
    }


def _check_degree(columns: int, degree: int) -> None:
    if columns <= degree:
        raise BadInput(
            f"a network of degree {degree} needs more than {degree} columns, the table has "
            f"{columns}: "
            + ("lower `degree`." if columns > 1 else "take a method of single columns.")
        )


def broadcast(state: Arrays, config: Config) -> Arrays:
    """All but the noisy fine counts, which the server alone needs."""
    return {n: v for n, v in state.items() if n != "gaps" and not n.startswith("fine ")}


def check_broadcast(state: Arrays, domain: Domain, config: Config, round: int) -> None:
    """Check that the networks in the state are valid for the declared columns.

    Before the first search round there are none; later there are those of the last search round.
    For the counts there is exactly one, so that a client counts only as many tables as the plan
    pays for.
    """
    d, k = len(domain.names), config.degree
    expected: dict[str, Any] = {"levels": np.array(domain.levels)}
    number = round
    if private_bins.long_in(domain, config):
        number = round - 1
        expected = private_bins.expected(state, domain, formed=number >= 0)
    received = 0 if number <= 0 or config.private_structure else len(state["orders"])
    orders = Values(np.int16, (received, d), 0, d - 1)
    candidates = Values(np.int16, (received, d, k), 0, d - 1)
    expected |= {"round": np.array(number), "orders": orders}
    networks = search.Population(state["orders"], state["candidates"])
    if number == config.rounds - 1:
        expected |= {"order": Values(np.int16, (d,), 0, d - 1)}
        candidates = Values(np.int16, (d, k), 0, d - 1)
        networks = search.Population(state["order"][None], state["candidates"][None])
    check_arrays(state, {**expected, "candidates": candidates})
    require(round >= 0 and number < config.rounds)
    require((len(networks.orders) > 0) == (number > 0))
    require(search.are_networks(networks))


def client_step(
    state: Arrays, client: Client, config: Config, noise: Noise | None, rng: np.random.Generator
) -> Update:
    """Count fine levels, search, vote or count, whichever the round asks for."""
    stage = _stage(state, config)
    if stage == "bins":
        return _count_fine(state, client, config, noise)
    client = replace(client, rows=private_bins.in_runs(state, client.rows))
    if stage == "scores":
        return _release_scores(state, client, config, noise)
    if stage == "search":
        return _evolve(state, client, config, rng)
    if stage == "vote":
        return _vote(state, client)
    return _count(state, client, config, noise)


def server_step(
    state: Arrays,
    updates: list[Update],
    config: Config,
    noise: Noise | None,
    rng: np.random.Generator,
) -> tuple[Arrays, list[Charge]]:
    """Form bins, collect networks, choose the network, or sum the noisy counts.

    The vote chooses the network with the highest mean fitness. With a private structure the server
    searches for a network in the noisy sum of the pair scores.
    """
    stage = _stage(state, config)
    state = {**state, "round": state["round"] + 1}
    if stage == "search":
        received = {
            name: np.concatenate([u.arrays[name] for u in updates])
            for name in ("orders", "candidates")
        }
        return {**state, **received}, []
    if stage == "vote":
        winner = np.mean([update.arrays["fitness"] for update in updates], axis=0).argmax()
        return {
            **state,
            "order": state["orders"][winner],
            "candidates": state["candidates"][winner],
        }, []
    sums = secure_sum.total(updates)
    if stage == "bins":
        charge = _released(noise, _fine_charge, state, config)
        sigma = np.sqrt(2) * charge.noise  # of Laplace noise
        return {**state, **private_bins.formed(state, sums["fine"], sigma)}, [charge]
    if stage == "scores":
        columns = len(state["levels"])
        network = _search_alone(_symmetric(sums["scores"], columns), config, rng)
        charge = _released(noise, _scores_charge, state, config)
        return {**state, "order": network.orders[0], "candidates": network.candidates[0]}, [charge]
    charge = _released(noise, _tables_charge, state, config)
    return {**state, **sums}, [charge]


def sample(state: Arrays, num_rows: int, config: Config, rng: np.random.Generator) -> np.ndarray:
    """Ancestral sampling in network order, (num_rows, columns) int32."""
    rows = np.empty((num_rows, len(state["levels"])), np.int32)
    for child, parents, conditional in conditionals(state, config):
        cumulative = np.cumsum(conditional, axis=1)  # (parent levels, levels)
        which = _cell(rows, parents, state["levels"])
        # one search in all rows' cumulative sums laid end to end: row i covers the interval [i, i +
        # 1)
        flat = (cumulative / cumulative[:, -1:] + np.arange(len(cumulative))[:, None]).ravel()
        found = (
            np.searchsorted(flat, which + rng.random(num_rows), side="right")
            - which * conditional.shape[1]
        )
        rows[:, child] = np.clip(found, 0, conditional.shape[1] - 1)
    return private_bins.in_levels(state, rows, rng)


# --- structure -----------------------------------------------------------------------------------


def _stage(state: Arrays, config: Config) -> str:
    number = int(state["round"])
    if number < 0:
        return "bins"
    if config.private_structure:
        return ("scores", "count")[number]
    return (
        "search"
        if number < config.search_rounds
        else ("vote", "count")[number - config.search_rounds]
    )


def _evolve(state: Arrays, client: Client, config: Config, rng: np.random.Generator) -> Update:
    """Evolve the client's own population for some generations, and return its best network.

    Source: algorithm 3.3, ClientUpdate.
    """
    if "scores" not in client.memory:
        client.memory["scores"] = search.mutual_information(client.rows, state["levels"])
        population = search.random_population(
            config.population, len(state["levels"]), config.degree, rng=rng
        )
    else:
        population = search.Population(client.memory["orders"], client.memory["candidates"])
    scores = client.memory["scores"]
    population = search.generations(
        population,
        scores,
        count=config.interval,
        selection=config.selection,
        immigrants=search.Population(state["orders"], state["candidates"]),
        rng=rng,
    )
    client.memory["orders"], client.memory["candidates"] = population
    best = search.best(population, scores)
    spent = [Charge(BEST, "unprotected")]
    return Update({"orders": best.orders, "candidates": best.candidates}, spent=spent)


def _vote(state: Arrays, client: Client) -> Update:
    """Return the fitness of every received network on the client's own rows.

    Source: algorithm 3.3, ClientEvaluate.
    """
    networks = search.Population(state["orders"], state["candidates"])
    fitness = search.fitness(networks, client.memory["scores"])
    return Update({"fitness": fitness}, spent=[Charge(FITNESS, "unprotected")])


def _search_alone(
    scores: np.ndarray, config: Config, rng: np.random.Generator
) -> search.Population:
    """Algorithm 3.1 on given pair scores: the whole search in one place."""
    population = search.random_population(config.population, len(scores), config.degree, rng=rng)
    population = search.generations(
        population, scores, count=config.generations, selection=config.selection, rng=rng
    )
    return search.best(population, scores)


def _count_fine(state: Arrays, client: Client, config: Config, noise: Noise | None) -> Update:
    """Return the client's fine counts with its share of the noise.

    The server sees only their sum over clients. One more row raises one count of each long column
    by 1.
    """
    counts = private_bins.fine_counts(state, client.rows)
    charge = _released(noise, _fine_charge, state, config)
    if noise is not None:
        counts = counts + discrete_laplace_share(
            charge.noise, client.shares, counts.shape, rng=noise.rng
        )
    return Update(summed={"fine": counts}, summed_spent=[charge])


def _release_scores(state: Arrays, client: Client, config: Config, noise: Noise | None) -> Update:
    """Return the client's pair dependences, rounded, with its share of discrete Laplace noise.

    The server sees only their sum over clients.

    Sensitivity: one more row moves a dependence by less than 2, so its rounded value moves by at
    most 2. Over the d (d - 1) / 2 pairs this adds up to d (d - 1) in L1, and the scale of the noise
    is a multiple of that.
    """
    columns = len(state["levels"])
    above = np.triu_indices(columns, 1)
    scores = np.floor(search.dependence(client.rows, state["levels"])[above] + 0.5).astype(np.int64)
    charge = _released(noise, _scores_charge, state, config)
    if noise is not None:
        scores = scores + discrete_laplace_share(
            charge.noise * charge.sensitivity, client.shares, scores.shape, rng=noise.rng
        )
    return Update(summed={"scores": scores}, summed_spent=[charge])


def _symmetric(values: np.ndarray, columns: int) -> np.ndarray:
    matrix = np.zeros((columns, columns))
    matrix[np.triu_indices(columns, 1)] = values
    return matrix + matrix.T


def families(state: Arrays, config: Config) -> list[tuple[int, tuple[int, ...]]]:
    """(column, parents) of the d - k counted tables, in network order."""
    parents = search.decode(state["order"], state["candidates"])
    return [(int(child), parents[child]) for child in state["order"][config.degree :]]


def _cell(rows: np.ndarray, columns: tuple[int, ...], levels: np.ndarray) -> np.ndarray:
    """Index of each row's combination of levels of `columns`, first column slowest; (rows,)."""
    index = np.zeros(len(rows), np.int64)
    for column in columns:
        index = index * levels[column] + rows[:, column]
    return index


def _count(state: Arrays, client: Client, config: Config, noise: Noise | None) -> Update:
    """Return joint counts of every column with its parents, with the client's share of the noise.

    The server sees only their sums over clients.

    Sensitivity: one more row raises one cell of each table by 1, so a table moves by 1 in L1. The
    published scale 2 (d - k) / epsilon bounds the replacement of a row, which moves two cells.
    """
    levels = state["levels"]
    tables, charge = {}, _released(noise, _tables_charge, state, config)
    for child, parents in families(state, config):
        shape = [levels[column] for column in (*parents, child)]
        counts = np.bincount(
            _cell(client.rows, (*parents, child), levels), minlength=np.prod(shape)
        )
        if noise is not None:
            counts = counts + discrete_laplace_share(
                charge.noise, client.shares, counts.shape, rng=noise.rng
            )
        tables[f"table/{child}"] = counts
    spent = replace(charge, times=len(tables) if noise else 1)
    return Update(summed=tables, summed_spent=[spent])


def conditionals(state: Arrays, config: Config) -> list[tuple[int, tuple[int, ...], np.ndarray]]:
    """Return (column, parents, P(column | parents)) in network order.

    The probabilities have the shape (parent cells, levels). Source: algorithm 3.2.

    Negative counts become 0. The first k columns are read from the table of place k. A combination
    of parents that was never seen gets a uniform distribution.
    """
    levels, order = state["levels"], state["order"]
    tables = {child: np.maximum(state[f"table/{child}"], 0) for child, _ in families(state, config)}
    head = tables[int(order[config.degree])].reshape(
        [levels[c] for c in order[: config.degree + 1]]
    )
    found = []
    for place in range(config.degree):
        joint = head.sum(axis=tuple(range(place + 1, config.degree + 1)))
        parents = tuple(int(c) for c in order[:place])
        found.append(
            (int(order[place]), parents, _normalise(joint.reshape(-1, levels[order[place]])))
        )
    for child, parents in families(state, config):
        found.append((child, parents, _normalise(tables[child].reshape(-1, levels[child]))))
    return found


def _normalise(counts: np.ndarray) -> np.ndarray:
    """Rows divided by their sums; rows without any count become uniform."""
    sums = counts.sum(axis=1, keepdims=True)
    return np.where(sums > 0, counts / np.maximum(sums, 1), 1 / counts.shape[1])


def to_pgmpy(state: Arrays, config: Config, names: tuple[str, ...]):
    """Return the learned network as a pgmpy DiscreteBayesianNetwork.

    pgmpy checks the network. Its state numbers are the levels.
    """
    from pgmpy.factors.discrete import TabularCPD
    from pgmpy.models import DiscreteBayesianNetwork

    levels = [int(level) for level in state["levels"]]
    network = DiscreteBayesianNetwork()
    network.add_nodes_from(names)
    for child, parents, conditional in conditionals(state, config):
        network.add_edges_from([(names[parent], names[child]) for parent in parents])
        evidence = [names[parent] for parent in parents]
        cards = [levels[parent] for parent in parents]
        network.add_cpds(
            TabularCPD(names[child], levels[child], conditional.T, evidence or None, cards or None)
        )
    network.check_model()
    return network


def _rest(long: int, config: Config) -> float:
    """Return the share of epsilon that the fine counts leave."""
    return 1 - config.fine_share if long else 1.0


def _tables_charge(noise_multiplier: float, columns: int, long: int, config: Config) -> Charge:
    """Return the charge of the d - k joint tables.

    Together they cost 1 / noise_multiplier, less the part `structure_share` if the structure is
    private. If there are long columns, both come out of what their fine counts leave.
    """
    tables = columns - config.degree
    share = 1 - config.structure_share if config.private_structure else 1
    noise = noise_multiplier * tables / (share * _rest(long, config))
    return Charge(TABLES, "laplace", noise, sensitivity=1, times=tables)


def _scores_charge(noise_multiplier: float, columns: int, long: int, config: Config) -> Charge:
    """Return the charge of one vector of pair scores.

    It costs structure_share / noise_multiplier, or that part of what the fine counts leave.
    """
    noise = noise_multiplier / (config.structure_share * _rest(long, config))
    return Charge(
        "association of every pair of columns",
        "laplace",
        noise,
        sensitivity=columns * (columns - 1),
    )


def _fine_charge(noise_multiplier: float, columns: int, long: int, config: Config) -> Charge:
    """Fine counts of so many long columns, which together cost fine share / noise_multiplier."""
    noise = noise_multiplier * long / config.fine_share
    return Charge(private_bins.FINE_COUNTS, "laplace", noise, times=long)


def _released(
    noise: Noise | None, charge: Callable[..., Charge], state: Arrays, config: Config
) -> Charge:
    """Return the charge of a summed release: the planned one with noise, unprotected without."""
    multiplier = noise.multiplier if noise else 1.0
    planned = charge(multiplier, len(state["levels"]), len(private_bins.long_of(state)), config)
    return planned if noise else Charge(planned.what, "unprotected")
