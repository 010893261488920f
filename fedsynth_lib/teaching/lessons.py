"""The steps that every teaching notebook takes with its method.

They show its source, compare settings and vary the budget.
"""

import hashlib
import inspect
import pickle
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import combinations_with_replacement, pairwise, product
from types import ModuleType
from typing import Any

import numpy as np
import pandas as pd
from IPython.display import Markdown

from fedsynth_lib.core import accounting
from fedsynth_lib.core.accounting import zcdp_to_epsilon
from fedsynth_lib.core.contract import (
    Arrays,
    Client,
    Domain,
    Method,
    Noise,
    Privacy,
    Relation,
    Run,
    Update,
    stream,
)
from fedsynth_lib.core.queries import Query
from fedsynth_lib.federation import settings
from fedsynth_lib.federation.rounds import Round
from fedsynth_lib.methods.bayes import bayesian_network as bn
from fedsynth_lib.methods.bayes import genetic_search as search
from fedsynth_lib.methods.marginals.graphical_model import Model, estimate, targets
from fedsynth_lib.methods.marginals.junction_tree import junction_tree
from fedsynth_lib.methods.marginals.marginal_state import answers_of, tables_of
from fedsynth_lib.methods.marginals.marginals import candidates_in
from fedsynth_lib.methods.marginals.model_answers import Answers, log_likelihood
from fedsynth_lib.metrics import fidelity, utility, workload
from fedsynth_lib.tables.load import Table


def show_source(*functions: Callable) -> Markdown:
    """Show the functions' own source as a code block, so that a notebook holds no second copy."""
    return Markdown("```python\n{}```".format("\n\n".join(map(inspect.getsource, functions))))


def largest_moves(
    release: Callable[[np.ndarray], np.ndarray], records: np.ndarray, *, most_rows: int
) -> dict[str, float]:
    """Return how far a release moves at most between neighbouring tables.

    These are all tables of at most so many rows, each of which may be any of `records` (kinds,
    columns).
    """
    kinds = range(len(records))
    sizes = (combinations_with_replacement(kinds, size) for size in range(most_rows + 1))
    worlds = [records[list(rows)] for size in sizes for rows in size]
    before = np.array([release(rows) for rows in worlds])[:, None]
    after = np.array([[release(np.vstack([rows, new])) for new in records] for rows in worlds])
    moves = {"added": after - before, "replaced": after[:, :, None] - after[:, None]}
    return {
        f"{what}: L{power}": np.linalg.norm(move, power, axis=-1).max()
        for what, move in moves.items()
        for power in (1, 2)
    }


def noisy(
    tables: Mapping[Query, np.ndarray], scale: float, rng: np.random.Generator
) -> list[tuple[Query, np.ndarray, float]]:
    """Each marginal with normal noise of this deviation, as a model is fitted to them."""
    how = {"noise_multiplier": scale, "l2_sensitivity": 1, "rng": rng}
    return [(query, accounting.gaussian(own, **how), scale) for query, own in tables.items()]


def fitted(
    levels: tuple[int, ...], measured: Iterable[tuple[Query, np.ndarray, float]], total: int
) -> np.ndarray:
    """Return the joint counts (levels) of the graphical model that fits noisy marginals best."""
    goals = targets(levels, list(measured), total=total)
    model = estimate(Model(levels), goals, iterations=1000, to_noise=False)
    return total * Answers(model)(tuple(range(len(levels))))


def fit_path(
    levels: tuple[int, ...],
    measured: Sequence[tuple[Query, np.ndarray, float]],
    rows: np.ndarray,
    held_out: np.ndarray,
    queries: Iterable[Query],
    *,
    iterations: Iterable[int],
) -> pd.DataFrame:
    """Fit a graphical model to `noisy` marginals of `rows` for ever more iterations.

    The result has a line for each number of iterations.

    loss: over what that of the true distribution is expected to be, so 1 is where the fit reaches
        the noise.
    error: mean L1 distance to `rows` over `queries`. NLL: nats per row of `held_out`. rows,
        held_out: integer codes.
    """
    true = {query: workload.marginal(rows, levels, query) / len(rows) for query in queries}
    goals, lines = targets(levels, measured, total=len(rows)), {}
    expected = sum(goal.shares.size for goal in goals.values()) / 2  # half a unit a cell
    for number in map(int, iterations):
        model = estimate(Model(levels), goals, iterations=number, to_noise=False)
        answers = Answers(model)
        squares = [
            g.weight * ((answers(query) - g.shares) ** 2).sum() for query, g in goals.items()
        ]
        errors = [np.abs(answers(query).ravel() - shares).sum() for query, shares in true.items()]
        likelihood = log_likelihood(model, held_out).mean()
        lines[number] = sum(squares) / 2 / expected, np.mean(errors), -likelihood
    names = ["loss", "error", "NLL"]
    return pd.DataFrame(lines, names).T.rename_axis("iterations")


def clique_graph(levels: tuple[int, ...], names: Sequence[str], queries: Iterable[Query]) -> Any:
    """Return the junction tree of the model that measures `queries` as a networkx DiGraph.

    Columns without neighbour are left out.

    A node is called by its columns, those that it shares with its parent first.
    """
    import networkx  # slow to import, needed here only

    tree = junction_tree(levels, tuple(sorted(queries)))
    called = ["\n".join(names[c] for c in node.columns) for node in tree]
    graph = networkx.DiGraph()
    for name, node in zip(called, tree, strict=True):
        if len(node.columns) > 1:
            graph.add_node(name)
        if node.separator:
            graph.add_edge(called[node.parent], name)
    return graph


def candidate_errors(state: Mapping[str, np.ndarray], rows: np.ndarray) -> np.ndarray:
    """Return the distance of the state's model from `rows` on each candidate of its workload.

    It is the L1 distance in shares, float (candidates,).
    """
    return _errors(state, candidates_in(state).counts(rows, state["levels"]) / len(rows))


def _errors(state: Mapping[str, np.ndarray], shares: np.ndarray) -> np.ndarray:
    asked = candidates_in(state)
    return np.add.reduceat(np.abs(shares - answers_of(state, asked.queries)), asked.starts)


def rounds_of(
    steps: Sequence[Round], rows: np.ndarray, names: Sequence[str], delta: float
) -> pd.DataFrame:
    """Return a line for every marginal that AIM measured after the first of `steps`.

    Each marginal is named by its columns.

    Errors are those of `candidate_errors` before and after, the workload's its mean over the
    workload; ε is what had been spent by then.
    """
    asked, lines = candidates_in(steps[0].state), []
    wanted = [
        asked.queries.index(tuple(c for c in query if c >= 0))
        for query in steps[0].state["workload"].tolist()
    ]
    shares = asked.counts(rows, steps[0].state["levels"]) / len(rows)
    errors = [_errors(step.state, shares) for step in steps]
    weights = [tables_of(step.state, "weight") for step in steps]
    for number, (before, after) in enumerate(pairwise(weights), start=1):
        for query in (query for query in after if after[query] != before.get(query)):
            place, spent = asked.queries.index(query), float(steps[number].state["spent"])
            line = {"chosen": ", ".join(names[c] for c in query), "cells": asked.sizes[place]}
            line |= {"error before": errors[number - 1][place]}
            line |= {"error after": errors[number][place]}
            line |= {"workload error": errors[number][wanted].mean()}
            lines.append(line | {"ε so far": zcdp_to_epsilon(spent, delta)})
    return pd.DataFrame(lines).set_index("chosen")


def migration(
    domain: Domain,
    rows: np.ndarray,
    divisions: Mapping[str, Sequence[np.ndarray]],
    scores: np.ndarray,
    config: Any,
    seeds: Iterable[int],
) -> pd.DataFrame:
    """Run FedBN's search alone, and with an exchange every `interval` generations.

    The result has a line for each client's best network, with its fitness by `scores`, which are
    those of all rows together.
    divisions: name -> rows of each client.
    """
    single, history = replace(config, interval=1), []  # a round is one generation
    nobody = bn.start(domain, single, stream(0, "start"))
    for (name, parts), way, seed in product(divisions.items(), ("alone", "exchange"), seeds):
        owners = [Client(rows[part], index, len(parts)) for index, part in enumerate(parts)]
        state = nobody
        for number in range(single.generations):
            guests = state if way == "exchange" and number % config.interval == 0 else nobody
            updates = [
                bn.client_step(guests, owner, single, None, stream(seed, owner.index, number))
                for owner in owners
            ]
            state, _ = bn.server_step(nobody, updates, single, None, stream(seed, number))
            best = search.Population(state["orders"], state["candidates"])
            history += [(name, way, number + 1, fit) for fit in search.fitness(best, scores)]
    columns = ["division", "search", "generation", "fitness on all rows (nats)"]
    return pd.DataFrame(history, columns=columns)


def distances(real: Table, synthetic: pd.DataFrame) -> dict[str, float]:
    """Return the two measures of fidelity that take no time; lower is better.

    One is of single columns, the other of pairs.
    """
    return {
        "Hellinger": fidelity.hellinger(real.frame, synthetic, real.schema),
        "PCD": fidelity.pairwise_correlation_difference(real.frame, synthetic, real.schema),
    }


def three_settings(
    method: Method | ModuleType, table: Table, parts: Sequence[np.ndarray], **options: Any
) -> dict[str, list[Run]]:
    """Run all three settings, and return the runs of each; local has one run per client.

    All runs draw as many rows as `table` has. options: of `settings`.
    """
    options = {"num_rows": len(table), **options}
    return {
        "central": [settings.central(method, table, **options)],
        "federated": [settings.federated(method, table, parts, **options)],
        "local": settings.local(method, table, parts, **options),
    }


def settings_table(runs: Mapping[str, Sequence[Run]], table: Table) -> pd.DataFrame:
    """Return a line for each setting: distances from `table`, seconds and traffic in kB.

    For the local setting these are means over clients.
    """
    lines = {}
    for setting, group in runs.items():
        costs = [(run.seconds, run.bytes_up / 1e3, run.bytes_down / 1e3) for run in group]
        costs = pd.DataFrame(costs, columns=["seconds", "kB up", "kB down"])
        found = pd.DataFrame([distances(table, run.synthetic) for run in group])
        lines[setting] = found.join(costs).mean()
    return pd.DataFrame(lines).T


def draw_rows(
    method: Method | ModuleType, table: Table, state: Arrays, config: Any, seed: int
) -> pd.DataFrame:
    """Draw as many rows as `table` has from a finished state.

    The draws are those of a central run with this seed.
    """
    codes = method.sample(state, len(table), config, rng=stream(seed, "sample"))
    encoder = method.encoder(table.schema, config)
    return encoder.inverse(codes, rng=stream(seed, "decode"))


def with_remembered_steps(method: Method | ModuleType) -> Method:
    """Return the method with client steps without noise computed once for all budgets.

    A step is kept only where all that it sends is charged as unprotected, as in FedBN's search and
    vote: no noise is part of it, so it is the same at every budget.
    """
    method, known = Method.of(method), {}

    def client_step(
        state: Arrays, client: Client, config: Any, noise: Noise | None, rng: np.random.Generator
    ) -> Update:
        given = client.index, state, client.rows, client.memory, rng.bit_generator.state
        # as text, since the class of a file that was loaded again cannot be pickled
        key = hashlib.sha256(pickle.dumps((*given, repr(config)))).digest()
        if key in known:
            update, memory = known[key]
            client.memory.update(memory)
            return update
        update = method.client_step(state, client, config=config, noise=noise, rng=rng)
        if not update.summed and not any(charge.protected for charge in update.spent):
            known[key] = update, dict(client.memory)
        return update

    return replace(method, client_step=client_step)


def sweep(
    variants: Mapping[str, tuple[Method | ModuleType, Any]],
    train: Table,
    holdout: Table,
    parts: Sequence[np.ndarray],
    *,
    epsilons: Iterable[float | None],
    seeds: Iterable[int],
    relation: Relation = "add_remove",
    delta: float = 0.0,
    learn_from: int = 4_000,
) -> pd.DataFrame:
    """Run every variant federated at every budget with every seed.

    The result has tidy rows (variant, ε, seed, measure, value).

    variants: name -> method and its config (None: the default). An epsilon of None, a run without
    noise, becomes infinity. Measures: `distances`, and the AUC on `holdout` of a random forest that
    learned the target on the first `learn_from` synthetic rows (they are drawn independently, so
    the first are as good as any); 0 leaves it out.
    """
    budgets, seeds, rows = list(epsilons), list(seeds), []
    for name, (method, config) in variants.items():
        method = with_remembered_steps(method)
        for epsilon, seed in product(budgets, seeds):
            privacy = Privacy(epsilon, delta, relation)
            asked = {"config": config, "privacy": privacy, "seed": seed}
            made = settings.federated(method, train, parts, **asked).synthetic
            values = distances(train, made)
            if learn_from:
                rows_used = made.head(learn_from)
                scores = utility.auc(rows_used, holdout.frame, train.schema, seed, ("rf",))
                values["AUC"] = scores["auc_rf_score"]
            rows += [(name, epsilon or np.inf, seed, *value) for value in values.items()]
    return pd.DataFrame(rows, columns=["variant", "ε", "seed", "measure", "value"])
