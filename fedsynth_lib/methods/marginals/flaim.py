"""FLAIM: clients choose marginals on their own rows, the server sums and fits (maddock2024, section
4, algorithm 1).

What crosses the wire: for the first model, one-way counts by secure sums, from a fresh draw of
clients for each column. Then two messages a round: the server sends the model, and each client of
the round answers with the marginals that it chose by the exponential mechanism (and, where the
server keeps a proxy of skew, its one-way counts into a secure sum); the server sends back who chose
what, and each client adds its exact counts to the secure sum of those who chose the same. The
server adds Gaussian noise to every sum, so it must be trusted with exact sums, which are one
client's own counts where no other chose the same. With `penalty="true"` every client hands over all
its rows.
"""

import numpy as np

from fedsynth_lib.core import secure_sum
from fedsynth_lib.core.accounting import gaussian_counts
from fedsynth_lib.core.contract import Arrays, BadInput, Charge, Domain, Noise, Update
from fedsynth_lib.methods.marginals import marginal_state
from fedsynth_lib.methods.marginals.flaim_client import client_step, true_heterogeneity
from fedsynth_lib.methods.marginals.flaim_plan import (
    Config,
    doses,
    each_round,
    one_way_again,
    phases,
    plan,
    schedule,
)
from fedsynth_lib.methods.marginals.marginal_state import sample
from fedsynth_lib.methods.marginals.marginals import (
    candidates_in,
    choosing,
    encoder,
    measuring,
    rho,
)

__all__ = [
    "VERSION",
    "Config",
    "broadcast",
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


def start(domain: Domain, config: Config, rng: np.random.Generator) -> Arrays:
    state = marginal_state.start(domain, config)
    choices = len(candidates_in(state).queries) - len(domain.names) * config.filter_one_way
    if config.local_steps > choices:
        raise BadInput(
            f"local_steps is {config.local_steps}, but there are only {choices} "
            "marginals to choose from."
        )
    return state


def broadcast(state: Arrays, config: Config) -> Arrays:
    """The place in the protocol; for a choice the model, and what scores and local steps need; then
    who chose what."""
    kind = phases(len(state["levels"]), config)[int(state["round"])][0]
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
    return {name: state[name] for name in names if name in state}


def server_step(
    state: Arrays,
    updates: list[Update],
    config: Config,
    noise: Noise | None,
    rng: np.random.Generator,
) -> tuple[Arrays, list[Charge]]:
    """Measure a column, take note of the choices, or measure what was chosen and fit the model
    anew."""
    columns, number = len(state["levels"]), int(state["round"])
    plan_of_rounds = phases(columns, config)
    kind, place = plan_of_rounds[number]
    state = {**state, "round": np.array(number + 1)}
    if kind == "oracle":
        return {**state, "heterogeneity": true_heterogeneity(state, updates)}, []
    if kind == "column":
        counts, rows = (
            secure_sum.total(updates)["counts"],
            sum(update.num_rows for update in updates),
        )
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


def _open_round(
    state: Arrays, place: int, config: Config, noise: Noise | None, rng: np.random.Generator
) -> Arrays:
    """Noise, size limit and candidates of a round; a random choice is made here, for all
    clients."""
    columns, asked = len(state["levels"]), candidates_in(state)
    total, rounds = doses(columns, config), phases(columns, config)[-1][1] + 1
    state = marginal_state.ready(
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
    if config.selection == "random":
        state["chosen"] = rng.choice(np.flatnonzero(state["allowed"]), (1, 1)).astype(np.int16)
        state["members"] = np.array([-1])
    return state


def _note_choices(
    state: Arrays, updates: list[Update], config: Config, noise: Noise | None
) -> tuple[Arrays, list[Charge]]:
    """Who chose what, without choices that would not fit into the model together; new one-way
    measurements."""
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
    """All columns of the round's clients: into the running mean that the proxy compares with, and
    into the model."""
    sigma, levels = float(state["sigma"]), state["levels"]
    if noise is not None:
        counts = gaussian_counts(counts, sigma, l2_sensitivity=1, noise=noise)
    tables, rows = (
        np.split(counts, np.cumsum(levels)[:-1]),
        sum(update.num_rows for update in updates),
    )
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
            state = marginal_state.remember(state, (column,), table, sigma, rows, config)
    used = sigma if noise else None
    state["spent"] = state["spent"] + rho([measuring("", used, len(levels))] if noise else [])
    return state, [
        measuring("one-way marginals", used, len(levels), update.client) for update in updates
    ]


def _collect(
    state: Arrays, updates: list[Update], config: Config, noise: Noise | None
) -> tuple[Arrays, list[Charge]]:
    """Algorithm 1, lines 13-16: noise to every sum, one more measurement each, a new model."""
    asked, sigma = candidates_in(state), float(state["sigma"])
    before, charges, rows, little = state, [], {}, False
    sums = {int(query): counts for query, counts in secure_sum.total(updates).items()}
    for query, counts in sorted(sums.items()):
        if noise is not None:
            counts = gaussian_counts(counts, sigma, l2_sensitivity=1, noise=noise)
        senders = [update for update in updates if str(query) in update.summed]
        rows[query] = sum(update.num_rows for update in senders)
        state = marginal_state.remember(
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
