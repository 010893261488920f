"""DistAIM: AIM over secret shares of the clients' workload answers.

Source: maddock2024, section 3 and algorithm 3.

What crosses the wire: for the first model, one-way counts by secure sums, from a fresh draw of
clients for each column; then, once from every client when it is first drawn, its counts for all
candidates in three secret shares, one for each compute server. The servers choose a marginal by the
exponential mechanism and measure it with Gaussian noise, both on the sum of all clients seen so
far; nothing else leaves the shares. Here one process plays all three: each keeps the sum of its own
shares, and only choosing and measuring put them together, where a real deployment would compute on
shares. Whoever runs that process could add them up, hence it has to be trusted.

With `bins="private"` a round goes before: fine counts of numbers of many levels, by a secure sum
of a draw of clients. The servers add Gaussian noise to it, and send the bins that they form.

With every client in every round this is central AIM (McKenna et al. 2022; algorithm 2 of
maddock2024), which is therefore a variant: `participation=1.0` (`methods/variants.toml`).
"""

from dataclasses import dataclass

import numpy as np

from fedsynth_lib.core import secure_sum
from fedsynth_lib.core.broadcast import check_arrays
from fedsynth_lib.core.contract import (
    SECRET,
    Arrays,
    Charge,
    Client,
    Domain,
    Noise,
    Update,
)
from fedsynth_lib.methods.marginals import marginal_state, marginals, private_bins
from fedsynth_lib.methods.marginals.marginal_state import sample
from fedsynth_lib.methods.marginals.marginals import (
    QueryCounts,
    candidates_in,
    choosing,
    encoder,
    measuring,
    planned,
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
# what is sent to each compute server; `secret/...` in the state is what it holds
SHARES = ("to0", "to1", "to2")
ADVERSARY = (
    "whoever sees the synthetic rows, and the other clients; three compute servers that hold "
    "secret shares learn nothing unless all three collude, but here one process plays all three, "
    "and whoever runs it must be trusted"
)


@dataclass(frozen=True)
class Config(marginals.Config):
    """As `marginals.Config`; `annealed` replaces `rounds` by as many as the budget lasts for."""


def schedule(domain: Domain, config: Config) -> list[tuple[int, float]]:
    """Return (draw of clients, share of clients) of each round.

    There is a draw for the fine counts, if there are any, one for each column, and one for each
    choice. An annealed run may end before the last.
    """
    columns = len(domain.names)
    rounds = columns + rounds_of(columns, config)
    before = [rounds] if private_bins.long_in(domain, config) else []
    return [(number, config.participation) for number in (*before, *range(rounds))]


def query_counts(columns: int, config: Config) -> QueryCounts:
    """Return how many measurements and choices one record can be in over the whole run.

    An annealed run starts with the noise that so many rounds need, one-way marginals included.
    """
    rounds = rounds_of(columns, config)
    return QueryCounts(rounds if config.annealed else columns + rounds, rounds)


def plan(noise_multiplier: float, domain: Domain, num_rows: int, config: Config) -> list[Charge]:
    """Return the charges of a record whose client is there from the first draw on: all of them."""
    total = query_counts(len(domain.names), config)
    return planned(noise_multiplier, total, domain, config)


def start(domain: Domain, config: Config, rng: np.random.Generator) -> Arrays:
    """Return the state before the first round; no client has been seen yet."""
    return {**marginal_state.start(domain, config), "seen": np.array(0)}


def broadcast(state: Arrays, config: Config) -> Arrays:
    """Return what clients are sent: the place in the protocol, the workload, and the bins.

    Clients do not need the model, so it stays with the servers.
    """
    sent = {name: state[name] for name in ("round", "levels", "workload")}
    return {**sent, **private_bins.sent(state)}


def check_broadcast(state: Arrays, domain: Domain, config: Config, round: int) -> None:
    """Check that a client is sent what `broadcast` sends, and nothing else."""
    check_arrays(state, marginal_state.declared(state, domain, config, round))


def client_step(
    state: Arrays, client: Client, config: Config, noise: Noise | None, rng: np.random.Generator
) -> Update:
    """One-way counts of the round's column; later, once, the counts of all candidates in shares.

    The client adds exact counts. What it states for them is what the servers, who are trusted to
    add noise, may make of them: a measurement of the column; for the shares all later choices and
    measurements, since it does not see which of them there are.
    """
    number, levels = int(state["round"]), state["levels"]
    total = query_counts(len(levels), config)
    if number < 0:
        return marginal_state.fine_counts(state, client.rows, total, config, noise)
    rows, sigma = private_bins.in_runs(state, client.rows), noise.multiplier if noise else None
    if number < len(levels):
        counts = np.bincount(rows[:, number], minlength=levels[number])
        spent = [measuring("one-way marginals", sigma)]
        return Update(summed={"counts": counts}, summed_spent=spent)
    if "joined" in client.memory:
        return Update()
    client.memory["joined"] = np.array(True)
    choice = total.choice_noise(sigma, config.measure_share) if sigma else None
    later = measuring("marginals", sigma, total.measured - len(levels))
    answers = candidates_in(state).counts(rows, levels)
    return Update(
        arrays=dict(zip(SHARES, secure_sum.shares(answers, rng=rng), strict=True)),
        summed_spent=[later, choosing(choice, total.selected)],
    )


def server_step(
    state: Arrays,
    updates: list[Update],
    config: Config,
    noise: Noise | None,
    rng: np.random.Generator,
) -> tuple[Arrays, list[Charge]]:
    """Measure a column of the first model; or choose a candidate, measure it, and fit again."""
    number, columns = int(state["round"]), len(state["levels"])
    total = query_counts(columns, config)
    if number < 0:
        state, charge = marginal_state.with_bins(state, updates, total, config, noise)
        return state, [charge]
    state = {**state, "round": np.array(number + 1)}
    if number < columns:
        counts = secure_sum.total(updates)["counts"]
        rows = sum(update.num_rows for update in updates)
        state, sigma = marginal_state.measure_column(state, number, counts, rows, config, noise)
        charges = [measuring("one-way marginals", sigma)]
    else:
        state = _with_shares(state, updates)
        state, charges = _choose_and_measure(state, total, config, noise)
        if state["last"]:
            return {**state, "finished": np.array(True)}, charges
    if number >= columns - 1:
        left = columns + rounds_of(columns, config) - number - 1
        state = marginal_state.with_noise_of_round(
            state, config, noise, total=total, each=QueryCounts(1, 1), again=0, left=left
        )
    return state, charges


def _with_shares(state: Arrays, updates: list[Update]) -> Arrays:
    """Let each server add the shares of new clients to the sum that it holds.

    A client hands in its shares once, when it is first drawn. Source: algorithm 3.
    """
    shape = (int(candidates_in(state).sizes.sum()),)
    for update in (update for update in updates if update.arrays):
        sums = {
            SECRET + name: state.get(SECRET + name, 0)
            + secure_sum.opened(update.arrays[name], shape)
            for name in SHARES
        }
        state = {**state, **sums, "seen": state["seen"] + update.num_rows}
    return state


def _together(state: Arrays) -> np.ndarray:
    """Return the exact counts of all clients seen so far, int32.

    This opens the sums of all three servers, which one process can do. Real servers would compute
    on the shares, and none of them would see these counts.
    """
    return sum(state[SECRET + name] for name in SHARES).view(np.int32)


def _choose_and_measure(
    state: Arrays, total: QueryCounts, config: Config, noise: Noise | None
) -> tuple[Arrays, list[Charge]]:
    """One round of algorithm 2, lines 12-18, on the clients seen so far.

    Scores compare shares of the n records seen (public). One record moves |counts / n - model|_1 by
    1 / n, hence a score by w_q / n: the sensitivity is the largest weight / n. The model enters as
    what earlier releases made it.
    """
    asked, rows = candidates_in(state), float(state["seen"])
    sigma, choice_noise = float(state["sigma"]), float(state["choice_noise"])
    model = marginal_state.answers_of(state, asked.queries)
    answers = _together(state)
    errors = np.add.reduceat(np.abs(answers / rows - model), asked.starts)
    scores = asked.scores(errors, 0.0, sigma, rows)
    allowed = marginal_state.fits(
        state, asked.queries, marginal_state.size_limit(state, total, config, noise)
    )
    sensitivity = asked.weights.max() / rows
    chosen = marginal_state.choose(scores, allowed, choice_noise, sensitivity, noise and noise.rng)
    query, start = asked.queries[chosen], asked.starts[chosen]
    cells = slice(start, start + asked.sizes[chosen])
    counts = marginal_state.noisy(answers[cells], sigma, noise)
    state = marginal_state.with_measurement(state, query, counts, sigma, rows, config)
    state = marginal_state.refit(
        state, config, last=bool(state["last"]), to_noise=noise is not None
    )
    # in records
    choice = choosing(choice_noise if noise else None, sensitivity=float(asked.weights.max()))
    charges = [measuring("marginals", sigma if noise else None), choice]
    if noise is not None:
        state["spent"] = state["spent"] + marginals.rho(charges)
        if config.annealed and marginal_state.moved_little(
            model[cells], marginal_state.answers_of(state, (query,)), sigma, rows
        ):
            state |= {"sigma": state["sigma"] / 2, "choice_noise": state["choice_noise"] / 2}
    return state, charges
