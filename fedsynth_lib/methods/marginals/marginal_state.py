"""The state of AIM, DistAIM and FLAIM.

It holds what was measured, the model fitted to it, and the noise of the next round.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from typing import Any

import numpy as np

from fedsynth_lib.core import secure_sum
from fedsynth_lib.core.accounting import exponential, gaussian_counts
from fedsynth_lib.core.contract import Arrays, BadInput, Charge, Domain, Noise, Update
from fedsynth_lib.methods.marginals import private_bins
from fedsynth_lib.methods.marginals.graphical_model import Model, Target, estimate
from fedsynth_lib.methods.marginals.junction_tree import Query, covered, grown_fits
from fedsynth_lib.methods.marginals.marginals import (
    MEGABYTE,
    Config,
    QueryCounts,
    candidates_in,
    choosing,
    expected_error,
    forming_bins,
    measuring,
    rho,
    workload_of,
)
from fedsynth_lib.methods.marginals.model_answers import Answers
from fedsynth_lib.methods.marginals.model_answers import sample as sample_model

NEVER = -1e6  # the potential of what is ruled out; its exponential is 0
MOST_CELLS = 100_000_000  # of all candidates, whose answers are kept in 8 bytes each


def start(domain: Domain, config: Config) -> Arrays:
    """Return the first state of a method of the family.

    `sigma` and `choice_noise` are those of the next round. Raises BadInput for candidates that
    memory would not hold.

    Where bins are formed first, memory must hold the candidates of the most levels that there may
    be then.
    """
    before = private_bins.first_state(domain, config)
    domain = _in_runs(domain, config)
    state = {
        "levels": np.array(domain.levels),
        "workload": workload_of(domain, config),
        "round": np.array(0),  # of the schedule
        "spent": np.array(0.0),  # rho, by a record that was in everything
        "typical": np.array(0.0),  # mean noisy number of records behind a one-way measurement
        "sigma": np.array(0.0),
        "choice_noise": np.array(0.0),
        "last": np.array(False),  # whether the round to come is the last
    }
    cells = int(candidates_in(state).sizes.sum())
    if cells > MOST_CELLS:
        largest = domain.names[int(np.argmax(domain.levels))]
        raise BadInput(
            f"all candidates have {cells:,} cells together, more than {MOST_CELLS:,}: bin or merge "
            f"the levels of {largest!r}, or leave it out, or name a smaller workload."
        )
    return {**state, **before}


def _in_runs(domain: Domain, config: Config) -> Domain:
    """Return the domain with as many levels as columns may have once bins are formed."""
    if not private_bins.long_in(domain, config):
        return domain
    return replace(domain, levels=tuple(private_bins.most_levels(domain).tolist()))


def declared(sent: Arrays, domain: Domain, config: Config, round: int) -> dict[str, Any]:
    """Return what every broadcast of the schedule must have.

    It follows from the domain and the settings, except for the runs that were formed.
    """
    expected: dict[str, Any] = {"levels": np.array(domain.levels)}
    number = round
    if private_bins.long_in(domain, config):
        number = round - 1
        expected = private_bins.expected(sent, domain, formed=number >= 0)
    workload = workload_of(_in_runs(domain, config), config)
    return {**expected, "workload": workload, "round": np.array(number)}


def fine_counts(
    state: Arrays, rows: np.ndarray, total: QueryCounts, config: Config, noise: Noise | None
) -> Update:
    """Return the counts that a client sends before bins are formed.

    They are exact and go into a sum, to which the server adds noise. The stated charge is that of
    the noisy sum.
    """
    sigma = noise.multiplier if noise else None
    spent = forming_bins(sigma, total, len(state["long"]), config)
    return Update(summed={"fine": private_bins.fine_counts(state, rows)}, summed_spent=[spent])


def with_bins(
    state: Arrays,
    updates: Sequence[Update],
    total: QueryCounts,
    config: Config,
    noise: Noise | None,
) -> tuple[Arrays, Charge]:
    """Return the state with bins formed by the noisy fine counts of these clients, and the charge.

    The next round is the first of the method's own.
    """
    sigma = noise.multiplier if noise else None
    charge = forming_bins(sigma, total, len(state["long"]), config)
    counts = noisy(secure_sum.total(updates)["fine"], charge.noise, noise)
    found = private_bins.formed(state, counts, charge.noise)
    return {**state, **found, "round": np.array(0)}, charge


def name_of(kind: str, query: Query) -> str:
    """Return the name of the array that has a query's values of this kind."""
    return f"{kind} {','.join(map(str, query))}"


def tables_of(state: Mapping[str, np.ndarray], kind: str) -> dict[Query, np.ndarray]:
    """Return the state's arrays of one kind ('potential', 'shares' or 'weight') by query."""
    names = (name.split(" ") for name in state if name.startswith(f"{kind} "))
    return {tuple(map(int, columns.split(","))): state[f"{kind} {columns}"] for _, columns in names}


def model_of(state: Mapping[str, np.ndarray]) -> Model:
    """Return the graphical model that a state holds."""
    return Model(tuple(state["levels"].tolist()), tables_of(state, "potential"))


def with_noise_of_round(
    state: Arrays,
    config: Config,
    noise: Noise | None,
    *,
    total: QueryCounts,
    each: QueryCounts,
    again: int,
    left: int,
) -> Arrays:
    """Return the state with the noise of the next round.

    total, each: measurements and choices of the run and of a round. again: one-way marginals of a
    round, which the last round saves. left: rounds that the schedule still has.

    An annealed run ends when less than two rounds' cost would remain, and its last round spends
    what is left (McKenna et al. 2022, algorithm 1, lines 18-20).
    """
    if noise is None:
        return {**state, "last": np.array(left == 1)}
    sigma, choice = float(state["sigma"]), float(state["choice_noise"])
    if sigma == 0:
        sigma, choice = noise.multiplier, total.choice_noise(noise.multiplier, config.measure_share)
    last = left == 1
    if config.annealed:
        budget = rho(total.plan(noise.multiplier, config.measure_share))
        remaining = budget - float(state["spent"])
        last = last or remaining <= 2 * rho(
            [measuring("", sigma, each.measured), choosing(choice, each.selected)]
        )
        if last:
            share = config.measure_share if each.selected else 1.0
            sigma = np.sqrt((each.measured - again) / (2 * share * remaining))
            choice = (
                np.sqrt(each.selected / (2 * (1 - share) * remaining)) if each.selected else choice
            )
    return {
        **state,
        "sigma": np.array(sigma),
        "choice_noise": np.array(choice),
        "last": np.array(last),
    }


def with_measurement(
    state: Arrays, query: Query, counts: np.ndarray, sigma: float, rows: float, config: Config
) -> Arrays:
    """Return the state with one more measurement.

    counts: of `rows` records, with noise `sigma`. Repeated measurements of a query are averaged by
    their weights.
    """
    behind = max(float(rows if config.public_sizes else counts.sum()), 1.0)
    shares = (counts / behind).reshape(state["levels"][list(query)])
    weight = ((behind if config.weighted else float(state["typical"])) / (sigma or 1.0)) ** 2
    before = float(state.get(name_of("weight", query), 0.0))
    mean = (before * state.get(name_of("shares", query), 0.0) + weight * shares) / (before + weight)
    return {
        **state,
        name_of("shares", query): mean,
        name_of("weight", query): np.array(before + weight),
    }


def noisy(counts: np.ndarray, sigma: float | None, noise: Noise | None) -> np.ndarray:
    """Return counts with Gaussian noise of standard deviation `sigma`.

    Without `noise` they stay exact. A record changes one count of each marginal by 1, and each
    marginal is charged.
    """
    if noise is None:
        return counts
    return gaussian_counts(counts, sigma, l2_sensitivity=1, noise=noise)


def measure_column(
    state: Arrays, column: int, counts: np.ndarray, rows: float, config: Config, noise: Noise | None
) -> tuple[Arrays, float | None]:
    """Return the state with a column's one-way measurement, and the noise of it.

    counts: summed over `rows` records. After the last column the state has a first model.
    """
    sigma, columns = noise.multiplier if noise else None, len(state["levels"])
    counts = noisy(counts, sigma, noise)
    behind = max(float(rows if config.public_sizes else counts.sum()), 1.0)
    state = {**state, "typical": state["typical"] + (behind - state["typical"]) / (column + 1)}
    state = with_measurement(state, (column,), counts, sigma or 0.0, rows, config)
    state["spent"] = state["spent"] + rho([measuring("", sigma)] if noise else [])
    if column == columns - 1:
        if not config.weighted:
            equal = np.array((state["typical"] / (sigma or 1.0)) ** 2)
            state |= {name_of("weight", (c,)): equal for c in range(columns)}
        state = refit(state, config, last=False, to_noise=noise is not None)
    return state, sigma


def refit(state: Arrays, config: Config, *, last: bool, to_noise: bool) -> Arrays:
    """Return the state with potentials fitted to everything measured.

    The fit starts at the potentials that the state has.
    """
    weight = tables_of(state, "weight")
    targets = {
        query: Target(shares, float(weight[query]))
        for query, shares in tables_of(state, "shares").items()
    }
    model = estimate(
        model_of(state),
        targets,
        iterations=config.final_iterations if last else config.iterations,
        momentum=config.momentum,
        to_noise=config.to_noise and to_noise,
    )
    return {
        **state,
        **{name_of("potential", query): table for query, table in model.potentials.items()},
    }


def size_limit(state: Arrays, total: QueryCounts, config: Config, noise: Noise | None) -> float:
    """Return the megabytes that the model may have.

    They grow to `max_megabytes` in proportion to the budget spent, or without noise to the rounds
    passed.
    """
    if noise is None:
        done = (int(state["round"]) + 1) / (len(state["levels"]) + config.rounds)
    else:
        done = float(state["spent"]) / rho(total.plan(noise.multiplier, config.measure_share))
    return config.max_megabytes * min(1.0, done)


def fits(state: Arrays, queries: Iterable[Query], limit: float) -> np.ndarray:
    """Return which of these queries may be measured next.

    A query may if it is inside the model, or if the model with it has at most `limit` megabytes.
    """
    levels, measured = tuple(state["levels"].tolist()), tuple(tables_of(state, "shares"))
    queries = list(queries)
    small = grown_fits(levels, measured, queries, limit * MEGABYTE)
    return np.array(
        [fit or covered(query, measured) for fit, query in zip(small, queries, strict=True)], bool
    )


def choose(
    scores: np.ndarray,
    allowed: np.ndarray,
    noise: float,
    sensitivity: float,
    rng: np.random.Generator | None,
) -> int:
    """Choose a candidate by the exponential mechanism among those allowed.

    Without noise this is the candidate with the highest score. Raises BadInput where none is
    allowed.
    """
    check_choice(allowed)
    scores = np.where(allowed, scores, -np.inf)
    if rng is None:
        return int(np.argmax(scores))
    return exponential(scores, noise_multiplier=noise, sensitivity=sensitivity, rng=rng)


def check_choice(allowed: np.ndarray) -> None:
    """Raise BadInput where no candidate is allowed.

    Then the model may not grow, and nothing in the workload is inside it.
    """
    if not allowed.any():
        raise BadInput(
            "no candidate marginal fits into the model: raise max_megabytes, or bin "
            "the columns coarser."
        )


def moved_little(before: np.ndarray, after: np.ndarray, sigma: float, rows: float) -> bool:
    """Whether measuring changed the model by no more than its noise.

    If so, an annealed run goes on with less noise.
    """
    return bool(np.abs(after - before).sum() <= expected_error(sigma, np.array(before.size), rows))


@lru_cache(maxsize=2)
def _answers(levels: tuple, queries: tuple, blob: bytes, asked: tuple) -> np.ndarray:
    sizes = [np.prod([levels[c] for c in query], dtype=int) for query in queries]
    pieces = np.split(np.frombuffer(blob), np.cumsum(sizes)[:-1])
    tables = {
        q: piece.reshape([levels[c] for c in q]) for q, piece in zip(queries, pieces, strict=True)
    }
    answers = Answers(Model(levels, tables))
    found = np.concatenate([answers(query).ravel() for query in asked])
    found.flags.writeable = False
    return found


def answers_of(state: Mapping[str, np.ndarray], asked: tuple[Query, ...]) -> np.ndarray:
    """Return the model's shares for all queries, one after the other.

    Clients of one process that were sent the same model share the work; each would come to the same
    numbers.
    """
    model = model_of(state)
    queries = tuple(sorted(model.potentials))
    return _answers(
        model.levels, queries, b"".join(model.potentials[q].tobytes() for q in queries), asked
    )


def given(state: Arrays, codes: Mapping[int, int]) -> Arrays:
    """Return the state of a fitted model, restricted to rows that have these codes.

    codes: column -> code. This is exact, and post-processing. Columns of which runs of levels are
    modelled (`long`) are not restricted.
    """
    kept = dict(state)
    for column, code in codes.items():
        if column in private_bins.long_of(state):
            continue
        name, levels = name_of("potential", (column,)), int(state["levels"][column])
        others = np.where(np.arange(levels) == code, 0.0, NEVER)
        kept[name] = state.get(name, np.zeros(levels)) + others
    return kept


def sample(state: Arrays, num_rows: int, config: Config, rng: np.random.Generator) -> np.ndarray:
    """Rows of the fitted model, (num_rows, columns); post-processing."""
    return private_bins.in_levels(state, sample_model(model_of(state), num_rows, rng=rng), rng)
