"""A client of FLAIM: how it scores and chooses marginals on its own rows (maddock2024, algorithm 1,
lines 3-11)."""

import numpy as np

from fedsynth_lib.core.accounting import gaussian_counts
from fedsynth_lib.core.contract import Arrays, Charge, Client, Noise, Update
from fedsynth_lib.methods.marginals import marginal_state
from fedsynth_lib.methods.marginals.flaim_plan import ORACLE, Config, phases
from fedsynth_lib.methods.marginals.marginals import candidates_in, choosing, measuring


def client_step(
    state: Arrays, client: Client, config: Config, noise: Noise | None, rng: np.random.Generator
) -> Update:
    """Counts of one column, the choice of marginals, or the counts of those chosen."""
    kind, number = phases(len(state["levels"]), config)[int(state["round"])]
    rows, levels = client.rows, state["levels"]
    if kind == "oracle":
        return Update(arrays={"rows": rows}, spent=[Charge(ORACLE, "unprotected")])
    if kind == "column":
        return Update(summed={"counts": np.bincount(rows[:, number], minlength=levels[number])})
    asked = candidates_in(state)
    if kind == "collect":
        members, chosen = state["members"], state["chosen"]
        own = chosen[members == client.index] if config.selection == "exponential" else chosen
        own = sorted({int(query) for query in own.ravel() if query >= 0})
        summed = {str(query): asked.table(query, rows, levels) for query in own}
        groups = {
            str(query): tuple(members[(chosen == query).any(axis=1)].tolist())
            for query in own
            if config.selection == "exponential"
        }
        return Update(summed=summed, groups=groups)
    chosen, spent = choose(state, client, config, noise)
    summed = {}
    if config.one_way_each_round and not state["last"]:
        summed["one way"] = np.concatenate(
            [np.bincount(rows[:, c], minlength=level) for c, level in enumerate(levels)]
        )
    return Update(arrays={"chosen": chosen}, summed=summed, spent=spent)


def choose(
    state: Arrays, client: Client, config: Config, noise: Noise | None
) -> tuple[np.ndarray, list[Charge]]:
    """Algorithm 1, lines 3-9: `local_steps` different candidates, and what choosing them costs."""
    asked, size = candidates_in(state), client.size
    cells = asked.cells(client.rows, state["levels"])
    allowed = state["allowed"].copy()
    if config.filter_one_way:
        allowed[: len(state["levels"])] = False
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


def _measure_alone(
    state: Arrays, query: int, client: Client, config: Config, noise: Noise | None
) -> Arrays:
    """The client's own model after measuring a choice with noise of its own (line 8)."""
    asked, sigma = candidates_in(state), float(state["sigma"])
    counts = asked.table(query, client.rows, state["levels"])
    if noise is not None:
        counts = gaussian_counts(counts, sigma, l2_sensitivity=1, noise=noise)
    state = marginal_state.remember(state, asked.queries[query], counts, sigma, client.size, config)
    return marginal_state.refit(state, config, last=False, to_noise=noise is not None)


def distances(
    cells: np.ndarray, shares: np.ndarray, size: float, mass: np.ndarray | float = 1.0
) -> np.ndarray:
    """|counts / size - shares|_1 of every query, (queries,).

    cells: (queries, rows) position of every row in `shares`, ascending from query to query. mass:
    sum of |shares| of each query, 1 for a model. Visits occupied cells only: elsewhere the distance
    is |shares|. `size` is the client's number of records, taken as public and fixed: one record
    more or less moves one count, hence the distance by at most 1 / size.
    """
    flat = np.sort(cells, axis=1).ravel()
    starts = np.flatnonzero(np.append(True, flat[1:] != flat[:-1]))
    counts, occupied = np.diff(np.append(starts, len(flat))), shares[flat[starts]]
    gain = np.abs(counts / size - occupied) - np.abs(occupied)
    return mass + np.bincount(starts // cells.shape[1], gain, len(cells))


def heterogeneity(state: Arrays, client: Client, config: Config, cells: np.ndarray) -> np.ndarray:
    """What to take off each candidate's score, (queries,).

    True: |client's share - all clients' share|_1. Proxy: the mean over a query's columns of the
    distance between the client's one-way shares and the server's noisy running mean (section 4.3).
    Either uses the rows again, and one record moves it by at most 1 / size once more: the score's
    sensitivity doubles (appendix A.3).
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
    """|client's share - all clients' share|_1 of every candidate, (clients, queries), from the rows
    themselves."""
    asked, levels = candidates_in(state), state["levels"]
    together = asked.counts(np.concatenate([update.arrays["rows"] for update in updates]), levels)
    shares = together / sum(update.num_rows for update in updates)
    return np.stack(
        [
            distances(asked.cells(u.arrays["rows"], levels), shares, float(u.num_rows))
            for u in updates
        ]
    )
