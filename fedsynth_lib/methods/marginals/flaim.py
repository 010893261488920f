"""FLAIM: clients choose marginals on their own rows, the server sums and fits.

Source: maddock2024, section 4, algorithm 1.

What crosses the wire: for the first model, one-way counts by secure sums, from a fresh draw of
clients for each column. Then two messages a round: the server sends the model, and each client of
the round answers with the marginals that it chose by the exponential mechanism (and, where the
server keeps a proxy of skew, its one-way counts into a secure sum); the server sends back who chose
what, and each client adds its exact counts to the secure sum of those who chose the same. The
server adds Gaussian noise to every sum, so it must be trusted with exact sums, which are one
client's own counts where no other chose the same. With `penalty="true"` every client hands over all
its rows. With `bins="private"` a round goes before, in which clients add fine counts of numbers of
many levels to a secure sum; the server adds noise to it, and sends the bins that it forms.

This file is the algorithm from top to bottom: settings, what happens in which round and what it
costs, the verbs, then a round in the order of its lines: how a client scores and chooses (lines 3
to 9), whose counts are summed (10 to 12), how the server measures and fits (13 to 16).
"""

from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Literal

import numpy as np

from fedsynth_lib.core import secure_sum
from fedsynth_lib.core.broadcast import LARGEST, Values, check_arrays, require
from fedsynth_lib.core.contract import Arrays, BadInput, Charge, Client, Domain, Noise, Update
from fedsynth_lib.methods.marginals import marginal_state, marginals, private_bins
from fedsynth_lib.methods.marginals.junction_tree import model_bytes
from fedsynth_lib.methods.marginals.marginal_state import name_of, sample, tables_of
from fedsynth_lib.methods.marginals.marginals import (
    MEGABYTE,
    Candidates,
    QueryCounts,
    candidates_in,
    choosing,
    encoder,
    measuring,
    planned,
    rho,
    rounds_of,
)

__all__ = [
    "VERSION",
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
TRUST = "server"
ADVERSARY = (
    "whoever sees the synthetic rows, and other clients; the server is trusted to add the noise "
    "to the exact sums it learns (secure summation is simulated in one process)"
)
FARTHEST = 2**20  # of a noisy share: beyond, rounding could move a score by more than a record does
HEAVIEST = 1e30  # of a measurement, whose squared error is added to others'
SLACK = 1 + 1e-6  # what a client has paid ends within rounding of its plan
ORACLE = "all rows of every client, for the true heterogeneity"


@dataclass(frozen=True)
class Config(marginals.Config):
    """As `marginals.Config`, and what sets the variants apart; the defaults are AugFLAIM (Private).

    selection: by the clients' exponential mechanism, one random candidate a round for all, or none
        at all.
    penalty: what is taken off a score for the client's heterogeneity: nothing, its true value (an
        oracle), or the private proxy made of one-way marginals, which all clients of a round
        contribute.
    filter_one_way: one-way marginals are no candidates. combine_one_way: all clients contribute
        them in every round but the last, and the model is fitted to them too.
    local_steps: choices of a client per round, s; between them it measures and refits on its own,
        with noise.
    """

    selection: Literal["exponential", "random", "none"] = "exponential"
    penalty: Literal["none", "true", "proxy"] = "proxy"
    filter_one_way: bool = True
    combine_one_way: bool = True
    local_steps: int = 1

    def __post_init__(self):
        """Raise BadInput for settings that are out of range or do not fit together."""
        super().__post_init__()
        if self.selection not in ("exponential", "random", "none") or self.penalty not in (
            "none",
            "true",
            "proxy",
        ):
            raise BadInput(
                f"selection {self.selection!r} with penalty {self.penalty!r} is "
                "unknown: see flaim.Config."
            )
        if self.local_steps < 1 or (self.local_steps > 1 and self.selection != "exponential"):
            raise BadInput(
                f"local_steps is {self.local_steps}: give 1, or more where clients select."
            )

    @property
    def one_way_each_round(self) -> bool:
        """Whether one-way counts are summed in each round, the last one excepted."""
        return self.selection == "exponential" and (self.combine_one_way or self.penalty == "proxy")


# --- what happens in which round, and what it costs -----------------------------------------------


@lru_cache(maxsize=32)
def phases(columns: int, config: Config) -> tuple[tuple[str, int], ...]:
    """Return what happens in each round of the schedule: (kind, which column or FLAIM round)."""
    kinds = {"exponential": ("choose", "collect"), "random": ("collect",), "none": ()}[
        config.selection
    ]
    oracle = [("oracle", 0)] if config.penalty == "true" else []
    return (
        *oracle,
        *(("column", c) for c in range(columns)),
        *((kind, t) for t in range(rounds_of(columns, config)) for kind in kinds),
    )


def phase(number: int, columns: int, config: Config) -> tuple[str, int]:
    """Return what happens in the round of this number; below 0 bins are formed."""
    return ("bins", 0) if number < 0 else phases(columns, config)[number]


def schedule(domain: Domain, config: Config) -> list[tuple[int, float]]:
    """Return (draw of clients, share of clients) of each round.

    There is a draw for the fine counts, if there are any, one for each column, and one for each
    FLAIM round. The oracle asks all clients.
    """
    columns = len(domain.names)
    before = [(0, config.participation)] if private_bins.long_in(domain, config) else []
    draws = {"oracle": lambda _: (0, 1.0), "column": lambda c: (1 + c, config.participation)}
    later = lambda t: (1 + columns + t, config.participation)  # noqa: E731
    return before + [draws.get(kind, later)(number) for kind, number in phases(columns, config)]


def query_counts(columns: int, config: Config) -> QueryCounts:
    """Count the measurements and choices that one record can be in over the whole run.

    The count is that of lemma 4.1. With more than one local step it adds the local measurements,
    which the work leaves out. The last round has no one-way marginals.
    """
    if config.selection == "none":
        return QueryCounts(columns, 0)
    rounds, each = rounds_of(columns, config), each_round(columns, config)
    measured = columns + rounds * each.measured - one_way_again(columns, config)
    return QueryCounts(measured, rounds * each.selected)


def lemma_counts(columns: int, config: Config) -> QueryCounts:
    """Count the measurements and choices of the whole run as lemma 4.1 does.

    This leaves out what clients measure between their choices, so use it for reproduction alone. A
    run with noise for so few measurements costs more than its epsilon.
    """
    charged, rounds = query_counts(columns, config), rounds_of(columns, config)
    return replace(charged, measured=charged.measured - rounds * (config.local_steps - 1))


def each_round(columns: int, config: Config) -> QueryCounts:
    """Count the measurements and choices that one record can be in within a round.

    The server measures each choice, and the client measures all choices but the last.
    """
    if config.selection == "random":
        return QueryCounts(1, 0)
    return QueryCounts(
        2 * config.local_steps - 1 + one_way_again(columns, config), config.local_steps
    )


def one_way_again(columns: int, config: Config) -> int:
    return columns if config.one_way_each_round else 0


def plan(noise_multiplier: float, domain: Domain, num_rows: int, config: Config) -> list[Charge]:
    """Return the charges of a record whose client takes part in every draw; others pay less."""
    oracle = [Charge(ORACLE, "unprotected")] if config.penalty == "true" else []
    total = query_counts(len(domain.names), config)
    return oracle + planned(noise_multiplier, total, domain, config)


# --- the verbs ------------------------------------------------------------------------------------


def start(domain: Domain, config: Config, rng: np.random.Generator) -> Arrays:
    """Return the state before the first round.

    Raises BadInput for more local steps than there are marginals to choose from.
    """
    state = marginal_state.start(domain, config)
    choices = len(candidates_in(state).queries) - len(domain.names) * config.filter_one_way
    if config.local_steps > choices:
        raise BadInput(
            f"local_steps is {config.local_steps}, but there are only {choices} "
            "marginals to choose from."
        )
    return state


def broadcast(state: Arrays, config: Config) -> Arrays:
    """Return the place in the protocol, and what the client needs for its next step.

    For a choice this is the model, and what scores and local steps need. For the counts after it,
    this is who chose what.
    """
    kind, _ = phase(int(state["round"]), len(state["levels"]), config)
    names = ["round", "levels", "workload"]
    if kind == "choose":
        names += ["sigma", "choice_noise", "last", "allowed", "proxy", "heterogeneity"]
        names += [name for name in state if name.startswith("potential ")]
        if config.local_steps > 1:
            names += ["limit", "typical"] + [
                name for name in state if name.startswith(("shares ", "weight "))
            ]
    elif kind == "collect":
        names += ["members", "chosen"]
    return {**{name: state[name] for name in names if name in state}, **private_bins.sent(state)}


def check_broadcast(state: Arrays, domain: Domain, config: Config, round: int) -> None:
    """Check what a client is sent for its next step.

    For a choice this must be a model of candidates that is no larger than the settings allow. For
    the counts after it, all choices must be among the candidates.
    """
    columns = len(domain.names)
    expected = marginal_state.declared(state, domain, config, round)
    kind, place = phase(int(expected["round"]), columns, config)
    levels = tuple(expected["levels"].tolist())
    asked = candidates_in(expected)
    scale = Values(np.float64, (), 0, LARGEST)
    if kind == "choose":
        last = place == rounds_of(columns, config) - 1
        expected |= _of_model(state, asked, levels, config) | {
            "sigma": scale,
            "choice_noise": scale,
            "last": Values(np.bool_) if config.annealed else np.array(last),
            "allowed": Values(np.bool_, (len(asked.queries),)),
            "proxy": Values(np.float64, (sum(levels),), -FARTHEST, FARTHEST),
        }
        if config.penalty == "true":
            shape = (None, len(asked.queries))
            expected["heterogeneity"] = Values(np.float64, shape, -FARTHEST, FARTHEST)
    elif kind == "collect":
        members, widest = len(state["members"]), len(asked.queries) - 1
        expected |= {
            "members": Values(np.int64, (members,), 0),
            "chosen": Values(np.int16, (members, config.local_steps), -1, widest),
        }
        if config.selection == "random":
            expected |= {"members": np.array([-1]), "chosen": Values(np.int16, (1, 1), 0, widest)}
        require(len(np.unique(state["members"])) == members)
    check_arrays(state, expected)
    require(kind != "choose" or _open_to_choice(state["allowed"], columns, config).any())


def _open_to_choice(allowed: np.ndarray, columns: int, config: Config) -> np.ndarray:
    """Return which of the candidates that fit may be chosen.

    Where columns alone are no candidates, they are left out.
    """
    return allowed & (np.arange(len(allowed)) >= columns * config.filter_one_way)


def _of_model(
    state: Arrays, asked: Candidates, levels: tuple[int, ...], config: Config
) -> dict[str, Values]:
    """Return what is expected of a model of all columns alone and some other candidates.

    These are its tables and, for local steps, what was measured of them. Their limits keep every
    number from overflowing on the way to a score.
    """
    queries, alone = tables_of(state, "potential").keys(), asked.queries[: len(levels)]
    limit = max(config.max_megabytes * MEGABYTE, model_bytes(levels, alone))
    require(set(alone) <= queries <= set(asked.queries) and model_bytes(levels, queries) <= limit)
    table = {
        query: Values(np.float64, tuple(levels[c] for c in query), -LARGEST, LARGEST)
        for query in queries
    }
    expected = {name_of("potential", query): values for query, values in table.items()}
    if config.local_steps > 1:
        near = {"low": -FARTHEST, "high": FARTHEST}
        expected |= {name_of("shares", query): replace(v, **near) for query, v in table.items()}
        weight = Values(np.float64, (), 0, HEAVIEST)
        expected |= {name_of("weight", query): weight for query in queries}
        expected |= {"limit": replace(weight, high=config.max_megabytes), "typical": weight}
    return expected


def client_step(
    state: Arrays, client: Client, config: Config, noise: Noise | None, rng: np.random.Generator
) -> Update:
    """Return counts of one column, the choice of marginals, or the counts of those chosen.

    The client adds exact counts to the sums. The charges that it states for them are those of what
    the server is trusted to make of the sums: a measurement of every table, with the noise of the
    round.
    """
    levels = state["levels"]
    kind, column = phase(int(state["round"]), len(levels), config)
    if kind == "bins":
        total = query_counts(len(levels), config)
        return marginal_state.fine_counts(state, client.rows, total, config, noise)
    sigma = noise.multiplier if noise else None
    if kind == "collect":
        return _counts_of_chosen(state, client, config, sigma)
    if kind == "choose":
        require(config.penalty != "true" or client.index < len(state["heterogeneity"]))
        if noise is not None:
            state = _with_own_noise(state, client, config, noise)
            sigma = float(state["sigma"])
    rows = private_bins.in_runs(state, client.rows)  # nothing is refused from here on
    client = replace(client, rows=rows)
    if kind == "oracle":
        return Update(arrays={"rows": rows}, spent=[Charge(ORACLE, "unprotected")])
    if kind == "column":
        counts = np.bincount(rows[:, column], minlength=levels[column])
        spent = [measuring("one-way marginals", sigma)]
        return Update(summed={"counts": counts}, summed_spent=spent)
    chosen, spent = choose(state, client, config, noise)
    client.memory |= {"chosen": chosen, "sigma": state["sigma"]}
    if not config.one_way_each_round or state["last"]:
        return Update({"chosen": chosen}, spent=spent)
    counts = [np.bincount(rows[:, c], minlength=level) for c, level in enumerate(levels)]
    summed = {"one way": np.concatenate(counts)}
    again = [measuring("one-way marginals", sigma, len(levels))]
    return Update({"chosen": chosen}, summed, spent=spent, summed_spent=again)


def _with_own_noise(state: Arrays, client: Client, config: Config, noise: Noise) -> Arrays:
    """Return the state with the noise of the round as the client's own plan has it.

    Annealed noise follows from what the model has learned, so there the client takes the server's.
    It then adds up what its rounds cost, and refuses a round that would cost more than the plan.
    """
    columns, multiplier = len(state["levels"]), noise.multiplier
    total, each = query_counts(columns, config), each_round(columns, config)
    if not config.annealed:
        choice = total.choice_noise(multiplier, config.measure_share)
        return {**state, "sigma": np.array(multiplier), "choice_noise": np.array(choice)}
    sigma, choice = float(state["sigma"]), float(state["choice_noise"])
    require(min(sigma, choice) > 0)
    measured = each.measured - one_way_again(columns, config) * bool(state["last"])
    before = client.memory.get("paid", rho([measuring("", multiplier, columns)]))
    paid = before + rho([measuring("", sigma, measured), choosing(choice, each.selected)])
    require(paid <= SLACK * rho(total.plan(multiplier, config.measure_share)))
    client.memory["paid"] = np.array(paid)
    return state


def server_step(
    state: Arrays,
    updates: list[Update],
    config: Config,
    noise: Noise | None,
    rng: np.random.Generator,
) -> tuple[Arrays, list[Charge]]:
    """Measure a column, note the choices, or measure what was chosen and fit again."""
    columns, number = len(state["levels"]), int(state["round"])
    plan_of_rounds = phases(columns, config)
    kind, place = phase(number, columns, config)
    if kind == "bins":
        total = query_counts(columns, config)
        state, charge = marginal_state.with_bins(state, updates, total, config, noise)
        return state, [replace(charge, client=update.client) for update in updates]
    state = {**state, "round": np.array(number + 1)}
    if kind == "oracle":
        return {**state, "heterogeneity": true_heterogeneity(state, updates)}, []
    if kind == "column":
        counts = secure_sum.total(updates)["counts"]
        rows = sum(update.num_rows for update in updates)
        state, sigma = marginal_state.measure_column(state, place, counts, rows, config, noise)
        charges = [
            measuring("one-way marginals", sigma, client=update.client) for update in updates
        ]
        if place == columns - 1:
            shares = marginal_state.tables_of(state, "shares")
            state["proxy"] = np.concatenate([shares[(column,)] for column in range(columns)])
            state["proxy_rounds"] = np.array(1)
    elif kind == "choose":
        return _note_choices(state, updates, config, noise)
    else:
        state, charges = _collect(state, updates, config, noise)
    if number + 1 == len(plan_of_rounds) or (kind == "collect" and state["last"]):
        return {**state, "finished": np.array(True)}, charges
    following = plan_of_rounds[number + 1]
    if following[0] in ("choose", "collect"):
        state = _open_round(state, following[1], config, noise, rng)
    return state, charges


# --- before a round -------------------------------------------------------------------------------


def _open_round(
    state: Arrays, place: int, config: Config, noise: Noise | None, rng: np.random.Generator
) -> Arrays:
    """Return the state with the noise, the size limit and the candidates of a round.

    If the choice is random, the server draws it here, once for all clients.
    """
    columns, asked = len(state["levels"]), candidates_in(state)
    total, rounds = query_counts(columns, config), phases(columns, config)[-1][1] + 1
    state = marginal_state.with_noise_of_round(
        state,
        config,
        noise,
        total=total,
        each=each_round(columns, config),
        again=one_way_again(columns, config),
        left=rounds - place,
    )
    limit = marginal_state.size_limit(state, total, config, noise)
    state |= {"limit": np.array(limit), "allowed": marginal_state.fits(state, asked.queries, limit)}
    marginal_state.check_choice(_open_to_choice(state["allowed"], columns, config))
    if config.selection == "random":
        state["chosen"] = rng.choice(np.flatnonzero(state["allowed"]), (1, 1)).astype(np.int16)
        state["members"] = np.array([-1])
    return state


# --- lines 3 to 9: a client scores and chooses ----------------------------------------------------


def choose(
    state: Arrays, client: Client, config: Config, noise: Noise | None
) -> tuple[np.ndarray, list[Charge]]:
    """Lines 3 to 9: `local_steps` different candidates, and what choosing them costs."""
    asked, size = candidates_in(state), client.size
    cells = asked.cells(client.rows, state["levels"])
    allowed = _open_to_choice(state["allowed"], len(state["levels"]), config)
    sigma, choice_noise = float(state["sigma"]), float(state["choice_noise"])
    penalty = heterogeneity(state, client, config, cells)
    in_records = float(asked.weights.max()) * (1 if config.penalty == "none" else 2)
    sensitivity = in_records / size
    chosen: list[int] = []
    for step in range(config.local_steps):
        shares = marginal_state.answers_of(state, asked.queries)
        scores = asked.scores(distances(cells, shares, size), penalty, sigma, size)
        chosen.append(
            marginal_state.choose(scores, allowed, choice_noise, sensitivity, noise and noise.rng)
        )
        if step < config.local_steps - 1:
            allowed[chosen[-1]] = False  # it would send the same counts twice
            state = _measure_alone(state, chosen[-1], client, config, noise)
            allowed &= marginal_state.fits(state, asked.queries, float(state["limit"]))
    # the same for every client
    spent = [choosing(choice_noise if noise else None, config.local_steps, in_records)]
    if config.local_steps > 1:
        spent.append(
            measuring(
                "a client's own measurements", sigma if noise else None, config.local_steps - 1
            )
        )
    return np.array(chosen, dtype=np.int16), spent


def heterogeneity(state: Arrays, client: Client, config: Config, cells: np.ndarray) -> np.ndarray:
    """Return what to take off each candidate's score, (queries,).

    The true heterogeneity is |client's share - all clients' share|_1. The proxy is the mean, over a
    query's columns, of the distance between the client's one-way shares and the server's noisy
    running mean (section 4.3). Either uses the rows again, and one record moves it by at most 1 /
    size once more: the score's sensitivity doubles (appendix A.3).
    """
    asked, columns = candidates_in(state), len(state["levels"])
    if config.penalty == "none":
        return np.zeros(len(asked.queries))
    if config.penalty == "true":
        return state["heterogeneity"][client.index]
    proxy = state["proxy"]
    mass = np.add.reduceat(np.abs(proxy), asked.starts[:columns])
    alone = distances(cells[:columns], proxy, client.size, mass)
    return np.array([alone[list(query)].mean() for query in asked.queries])


def true_heterogeneity(state: Arrays, updates: list[Update]) -> np.ndarray:
    """Return |client's share - all clients' share|_1 of every candidate, (clients, queries).

    It is computed from the rows themselves, without noise.
    """
    asked, levels = candidates_in(state), state["levels"]
    together = asked.counts(np.concatenate([update.arrays["rows"] for update in updates]), levels)
    shares = together / sum(update.num_rows for update in updates)
    return np.stack(
        [
            distances(asked.cells(u.arrays["rows"], levels), shares, float(u.num_rows))
            for u in updates
        ]
    )


def distances(
    cells: np.ndarray, shares: np.ndarray, size: float, mass: np.ndarray | float = 1.0
) -> np.ndarray:
    """Return |counts / size - shares|_1 of every query, (queries,).

    cells: (queries, rows) position of every row in `shares`, ascending from query to query. mass:
    sum of |shares| of each query, 1 for a model. Visits occupied cells only: elsewhere the distance
    is |shares|. `size` is the client's number of records, taken as public and fixed: one record
    more or less moves one count, hence the distance by at most 1 / size.
    """
    flat = np.sort(cells, axis=1).ravel()
    starts = np.flatnonzero(np.diff(flat, prepend=-1))  # none where there are no rows
    counts, occupied = np.diff(np.append(starts, len(flat))), shares[flat[starts]]
    gain = np.abs(counts / size - occupied) - np.abs(occupied)
    return mass + np.bincount(starts // max(cells.shape[1], 1), gain, len(cells))


def _measure_alone(
    state: Arrays, query: int, client: Client, config: Config, noise: Noise | None
) -> Arrays:
    """Return the client's own model after measuring a choice with noise of its own.

    Source: line 8 of algorithm 1.
    """
    asked, sigma = candidates_in(state), float(state["sigma"])
    counts = marginal_state.noisy(asked.table(query, client.rows, state["levels"]), sigma, noise)
    state = marginal_state.with_measurement(
        state, asked.queries[query], counts, sigma, client.size, config
    )
    return marginal_state.refit(state, config, last=False, to_noise=noise is not None)


# --- lines 10 to 12: who chose what, and whose counts are summed ----------------------------------


def _note_choices(
    state: Arrays, updates: list[Update], config: Config, noise: Noise | None
) -> tuple[Arrays, list[Charge]]:
    """Return the state with who chose what, and with new one-way measurements.

    Choices that would not fit into the model together are left out; those of more clients go first.
    """
    chosen = np.stack([update.arrays["chosen"] for update in updates])
    asked, limit = candidates_in(state), float(state["limit"])
    queries, votes = np.unique(chosen, return_counts=True)
    accepted: dict[str, np.ndarray] = {}
    for query in queries[np.argsort(-votes, kind="stable")]:
        if marginal_state.fits({**state, **accepted}, [asked.queries[query]], limit)[0]:
            accepted[marginal_state.name_of("shares", asked.queries[query])] = np.empty(0)
        else:
            chosen = np.where(chosen == query, -1, chosen)
    members = np.array([update.client for update in updates])
    state, charges = {**state, "chosen": chosen.astype(np.int16), "members": members}, []
    if "one way" in (summed := secure_sum.total(updates)):
        state, charges = _measure_one_way(state, summed["one way"], updates, config, noise)
    return state, charges


def _measure_one_way(
    state: Arrays, counts: np.ndarray, updates: list[Update], config: Config, noise: Noise | None
) -> tuple[Arrays, list[Charge]]:
    """Measure all columns of the round's clients with noise.

    The results go into the running mean that the proxy compares with. They also go into the model,
    if the settings combine them.
    """
    sigma, levels = float(state["sigma"]), state["levels"]
    tables = np.split(marginal_state.noisy(counts, sigma, noise), np.cumsum(levels)[:-1])
    rows = sum(update.num_rows for update in updates)
    shares = np.concatenate(
        [table / (rows if config.public_sizes else max(table.sum(), 1.0)) for table in tables]
    )
    seen = int(state["proxy_rounds"])
    state = {
        **state,
        "proxy": (seen * state["proxy"] + shares) / (seen + 1),
        "proxy_rounds": np.array(seen + 1),
    }
    if config.combine_one_way:
        for column, table in enumerate(tables):
            state = marginal_state.with_measurement(state, (column,), table, sigma, rows, config)
    used = sigma if noise else None
    state["spent"] = state["spent"] + rho([measuring("", used, len(levels))] if noise else [])
    return state, [
        measuring("one-way marginals", used, len(levels), update.client) for update in updates
    ]


def _counts_of_chosen(state: Arrays, client: Client, config: Config, sigma: float | None) -> Update:
    """Return the client's exact counts of what it chose.

    They go into the sum of those clients that chose the same. After a random choice there is one
    sum of all clients.
    """
    asked, members, chosen = candidates_in(state), state["members"], state["chosen"]
    clients_choose, memory = config.selection == "exponential", client.memory
    own = chosen[members == client.index] if clients_choose else chosen
    own = sorted({int(query) for query in own.ravel() if query >= 0})
    require(not clients_choose or set(own) <= set(memory.get("chosen", own[:0])))
    times = len(own)
    if config.annealed and clients_choose:
        sigma = float(memory.get("sigma", 0.0)) if sigma else None
    elif (
        config.annealed
    ):  # it is not told the noise of a round: all that the plan has is stated once
        left = query_counts(len(state["levels"]), config).measured - len(state["levels"])
        times = 0 if "stated" in memory else left
        memory["stated"] = np.array(True)
    groups = {
        str(query): tuple(members[(chosen == query).any(axis=1)].tolist())
        for query in own
        if clients_choose
    }
    rows = private_bins.in_runs(state, client.rows)
    counts = {str(query): asked.table(query, rows, state["levels"]) for query in own}
    spent = [measuring("marginals", sigma, times)] if times else []
    return Update(summed=counts, groups=groups, summed_spent=spent)


# --- lines 13 to 16: the server measures and fits -------------------------------------------------


def _collect(
    state: Arrays, updates: list[Update], config: Config, noise: Noise | None
) -> tuple[Arrays, list[Charge]]:
    """Lines 13 to 16: noise to every sum, one more measurement each, a new model."""
    asked, sigma = candidates_in(state), float(state["sigma"])
    before, charges, rows, little = state, [], {}, False
    sums = {int(query): counts for query, counts in secure_sum.total(updates).items()}
    for query, counts in sorted(sums.items()):
        counts = marginal_state.noisy(counts, sigma, noise)
        senders = [update for update in updates if str(query) in update.summed]
        rows[query] = sum(update.num_rows for update in senders)
        state = marginal_state.with_measurement(
            state, asked.queries[query], counts, sigma, rows[query], config
        )
        charges += [
            measuring("marginals", sigma if noise else None, client=update.client)
            for update in senders
        ]
    state = marginal_state.refit(
        state, config, last=bool(state["last"]), to_noise=noise is not None
    )
    if noise is None:
        return state, charges
    steps = config.local_steps
    paid = [measuring("", sigma, each_round(0, config).measured)]
    paid += (
        [choosing(float(state["choice_noise"]), steps)] if config.selection == "exponential" else []
    )
    state["spent"] = state["spent"] + rho(paid)
    if config.annealed and sums:
        queries = tuple(asked.queries[query] for query in sums)
        pairs = [
            (marginal_state.answers_of(before, (q,)), marginal_state.answers_of(state, (q,)))
            for q in queries
        ]
        sizes = [rows[query] for query in sums]
        little = any(
            marginal_state.moved_little(*pair, sigma, size)
            for pair, size in zip(pairs, sizes, strict=True)
        )
    if little:
        state |= {"sigma": state["sigma"] / 2, "choice_noise": state["choice_noise"] / 2}
    return state, charges
