"""The steps that every teaching notebook takes with its method: show its source, compare settings,
vary the budget."""

import inspect
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from types import ModuleType
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import torch
from IPython.display import Markdown

from fedsynth_lib.core.accounting import epsilon_of, zcdp_to_epsilon
from fedsynth_lib.core.contract import (
    Arrays,
    Charge,
    Encoder,
    Method,
    Privacy,
    Relation,
    Run,
    Update,
    stamp,
    stream,
)
from fedsynth_lib.core.queries import Query
from fedsynth_lib.federation import settings
from fedsynth_lib.federation.flower import Job
from fedsynth_lib.methods.gan import encoding as gan_encoding
from fedsynth_lib.methods.gan.networks import Layout
from fedsynth_lib.methods.gan.sampling import LocalRows
from fedsynth_lib.methods.marginals.graphical_model import Model, Target, estimate
from fedsynth_lib.methods.marginals.junction_tree import junction_tree
from fedsynth_lib.methods.marginals.marginal_state import answers_of, tables_of
from fedsynth_lib.methods.marginals.marginals import candidates_in
from fedsynth_lib.methods.marginals.model_answers import Answers, log_likelihood
from fedsynth_lib.metrics import fidelity, marginal_distances, utility, workload
from fedsynth_lib.tables.load import Column, Schema, Table


def show_source(*functions: Callable) -> Markdown:
    """The functions' own source as a code block, so that a notebook holds no second copy of it."""
    return Markdown("```python\n{}```".format("\n\n".join(map(inspect.getsource, functions))))


class Step(NamedTuple):
    """One round of a run: what clients were sent, what they answered, the server's state after it,
    what it cost."""

    sent: Arrays
    updates: list[Update]
    state: Arrays
    charges: list[Charge]


def steps(job: Job, rows: Sequence[np.ndarray]) -> Iterator[Step]:
    """The rounds of a run one by one, each client's encoded rows at hand: for looking at what a run
    keeps to itself.

    They are those of `settings.federated` with the same settings, but neither packed nor masked on
    the way.
    """
    state = job.method.start(job.domain, config=job.config, rng=stream(job.seed, "start"))
    broadcast = getattr(job.method, "broadcast", lambda state, config: state)
    memories: list[Arrays] = [{} for _ in rows]
    for number, (draw, share) in enumerate(job.schedule()):
        sent, updates, charges = broadcast(state, config=job.config), [], []
        drawn = job.participants(draw, share)
        for index in drawn:
            client = job.client(rows[index], index, len(drawn), memories[index])
            noise, rng = job.noise("client", index, number), job.stream("client", index, number)
            update = job.method.client_step(sent, client, config=job.config, noise=noise, rng=rng)
            updates.append(replace(update, client=index, num_rows=client.size))
            charges += stamp(update.spent, round=number, client=index)
        noise, rng = job.noise("server", number), stream(job.seed, "server", number)
        state, own = job.method.server_step(state, updates, config=job.config, noise=noise, rng=rng)
        yield Step(sent, updates, state, charges + stamp(own, round=number))
        if np.any(state.get("finished", False)):
            return


def fit_path(
    levels: tuple[int, ...],
    targets: Mapping[Query, Target],
    rows: np.ndarray,
    held_out: np.ndarray,
    queries: Iterable[Query],
    *,
    iterations: Iterable[int],
) -> pd.DataFrame:
    """What becomes of a graphical model that is fitted for ever more iterations; a line for each
    number of them.

    loss: over what that of the true distribution is expected to be, so 1 is where the fit reaches
        the noise.
    error: mean L1 distance to `rows` over `queries`. NLL: nats per row of `held_out`. rows,
        held_out: integer codes.
    """
    true = {query: workload.marginal(rows, levels, query) / len(rows) for query in queries}
    expected = sum(target.shares.size for target in targets.values()) / 2  # half a unit a cell
    lines = {}
    for number in map(int, iterations):
        model = estimate(Model(levels), targets, iterations=number, to_noise=False)
        answers = Answers(model)
        squares = [
            target.weight * ((answers(query) - target.shares) ** 2).sum()
            for query, target in targets.items()
        ]
        errors = [np.abs(answers(query).ravel() - shares).sum() for query, shares in true.items()]
        likelihood = log_likelihood(model, held_out).mean()
        lines[number] = {
            "loss": sum(squares) / 2 / expected,
            "error": np.mean(errors),
            "NLL": -likelihood,
        }
    return pd.DataFrame(lines).T.rename_axis("iterations")


def clique_graph(levels: tuple[int, ...], names: Sequence[str], queries: Iterable[Query]) -> Any:
    """The junction tree of the model that measures `queries` as a networkx DiGraph; columns without
    neighbour left out.

    A node is called by its columns, those that it shares with its parent first.
    """
    import networkx  # slow to import, needed here only

    tree = junction_tree(levels, tuple(sorted(queries)))
    called = ["\n".join(names[c] for c in node.columns) for node in tree]
    graph = networkx.DiGraph()
    graph.add_nodes_from(
        name for name, node in zip(called, tree, strict=True) if len(node.columns) > 1
    )
    graph.add_edges_from(
        (called[node.parent], name)
        for name, node in zip(called, tree, strict=True)
        if node.separator
    )
    return graph


def candidate_errors(state: Mapping[str, np.ndarray], rows: np.ndarray) -> np.ndarray:
    """L1 distance, in shares, of the state's model to `rows` on every candidate of its workload,
    (candidates,)."""
    return _errors(state, candidates_in(state).counts(rows, state["levels"]) / len(rows))


def _errors(state: Mapping[str, np.ndarray], shares: np.ndarray) -> np.ndarray:
    asked = candidates_in(state)
    return np.add.reduceat(np.abs(shares - answers_of(state, asked.queries)), asked.starts)


def rounds_of(
    steps: Sequence[Step], rows: np.ndarray, names: Sequence[str], delta: float
) -> pd.DataFrame:
    """A line for every marginal that AIM measured after the first of `steps`, by the names of its
    columns.

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
            line |= {
                "error before": errors[number - 1][place],
                "error after": errors[number][place],
            }
            line |= {"workload error": errors[number][wanted].mean()}
            lines.append(line | {"ε so far": zcdp_to_epsilon(spent, delta)})
    return pd.DataFrame(lines).set_index("chosen")


def birds(num_rows: int, seed: int) -> Table:
    """Made-up birds: three kinds, one of them rare, and a weight (kg) that all but follows from the
    kind."""
    rng, kinds = stream(seed, "birds"), ("hen", "goose", "swan")
    kind = rng.choice(3, num_rows, p=[0.70, 0.26, 0.04])
    weight = rng.normal(np.array([2.2, 5.0, 10.0])[kind], np.array([0.35, 0.7, 1.0])[kind]).clip(
        0.5, 15
    )
    columns = Column("weight", "numeric", 0, 15), Column("kind", "categorical", categories=kinds)
    frame = pd.DataFrame({"weight": weight, "kind": pd.Categorical.from_codes(kind, list(kinds))})
    return Table(
        "birds", frame, Schema(columns, target="kind"), "own", digest=f"birds {num_rows} {seed}"
    )


def with_rings(table: Table, seed: int) -> Table:
    """The birds, one in twenty with a ring on its leg that says nothing about the bird."""
    ring = pd.Categorical.from_codes(
        (stream(seed, "rings").random(len(table)) < 0.05).astype(int), ["no", "yes"]
    )
    columns = (*table.schema.columns, Column("ring", "categorical", categories=("no", "yes")))
    schema = Schema(columns, target=table.schema.target)
    return Table(
        "ringed birds",
        table.frame.assign(ring=ring),
        schema,
        "own",
        digest=f"{table.digest} {seed}",
    )


def gan_encoded(
    state: Arrays, rows: np.ndarray, rng: np.random.Generator
) -> tuple[Layout, LocalRows]:
    """Encoded rows as the networks of a CTGAN see them, after the encoding rounds, and what lies
    where in them."""
    layout, levels = gan_encoding.layout_of(state), state["levels"]
    pair = gan_encoding.encode_numbers(gan_encoding.numbers_of(rows, levels), state, rng)
    codes = gan_encoding.compact(gan_encoding.codes_of(rows, levels), state)
    return layout, LocalRows.of(layout, *pair, codes, torch.device("cpu"))


def gan_decoded(state: Arrays, encoded: torch.Tensor) -> np.ndarray:
    """The way back: the rows that these vectors (rows, layout.width) stand for, by the largest
    entry of each block."""
    layout, levels = gan_encoding.layout_of(state), state["levels"]
    distances, blocks = encoded.split([layout.numbers, sum(layout.blocks)], dim=1)
    picked = np.stack(
        [block.argmax(dim=1).numpy() for block in blocks.split(layout.blocks, dim=1)], axis=1
    )
    rows = np.empty((len(encoded), len(levels)))
    rows[:, levels == 0] = gan_encoding.decode_numbers(
        picked[:, : layout.numbers], distances.numpy(), state
    )
    rows[:, levels > 0] = gan_encoding.declared(picked[:, layout.numbers :], state)
    return rows


def epsilons(steps: Sequence[Step], delta: float) -> pd.DataFrame:
    """ε at `delta` after every round: of all rounds so far, and of the round alone, as an
    accountant made anew says."""
    charges, lines = [], []
    for step in steps:
        charges += step.charges
        lines.append(
            {
                "all rounds so far": epsilon_of(charges, delta),
                "round alone": epsilon_of(step.charges, delta),
            }
        )
    return pd.DataFrame(lines).rename_axis("round")


def gan_rows(
    job: Job, steps: Sequence[Step], encoder: Encoder, rounds: Iterable[int], num_rows: int
) -> dict[int, pd.DataFrame]:
    """What the generator of a CTGAN makes after each of `rounds` rounds of training (0: before the
    first), by round.

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
    """A line for each of `tables`: the fidelity scores of leitner2023, which look at single
    columns, and association.

    association: of two columns, between 0 and 1 in size; the mean over all pairs, `real` in the
        last line.
    """
    lines = {}
    for name, frame in {**tables, "real": real.frame}.items():
        found = np.abs(fidelity.associations(frame, real.schema))
        lines[name] = {
            "JSD": marginal_distances.jensen_shannon(real.frame, frame, real.schema),
            "WD": marginal_distances.wasserstein(real.frame, frame, real.schema),
            "association": found[np.triu_indices(len(found), 1)].mean(),
        }
    return pd.DataFrame(lines).T


def distances(real: Table, synthetic: pd.DataFrame) -> dict[str, float]:
    """The two measures of fidelity that take no time: of single columns and of pairs; lower is
    better."""
    return {
        "Hellinger": fidelity.hellinger(real.frame, synthetic, real.schema),
        "PCD": fidelity.pairwise_correlation_difference(real.frame, synthetic, real.schema),
    }


def three_settings(
    method: Method | ModuleType, table: Table, parts: Sequence[np.ndarray], **options: Any
) -> dict[str, list[Run]]:
    """Setting -> its runs, a local one per client; all draw as many rows as `table` has. options:
    of `settings`."""
    options = {"num_rows": len(table), **options}
    return {
        "central": [settings.central(method, table, **options)],
        "federated": [settings.federated(method, table, parts, **options)],
        "local": settings.local(method, table, parts, **options),
    }


def settings_table(runs: Mapping[str, Sequence[Run]], table: Table) -> pd.DataFrame:
    """A line for each setting: distances from `table`, seconds and traffic in kB; means over
    clients when local."""
    lines = {
        setting: [
            distances(table, run.synthetic)
            | {"seconds": run.seconds, "kB up": run.bytes_up / 1e3, "kB down": run.bytes_down / 1e3}
            for run in group
        ]
        for setting, group in runs.items()
    }
    return pd.DataFrame({setting: pd.DataFrame(group).mean() for setting, group in lines.items()}).T


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
    """Tidy rows (variant, ε, seed, measure, value) of federated runs of every variant at every
    budget with every seed.

    variants: name -> method and its config (None: the default). An epsilon of None, a run without
    noise, becomes infinity. Measures: `distances`, and the AUC on `holdout` of a random forest that
    learned the target on the first `learn_from` synthetic rows (they are drawn independently, so
    the first are as good as any); 0 leaves it out.
    """
    budgets, seeds, rows = list(epsilons), list(seeds), []
    for name, (method, config) in variants.items():
        for epsilon in budgets:
            for seed in seeds:
                privacy = Privacy(epsilon, delta, relation)
                run = settings.federated(
                    method, train, parts, config=config, privacy=privacy, seed=seed
                )
                values = distances(train, run.synthetic)
                if learn_from:
                    scores = utility.auc(
                        run.synthetic.head(learn_from), holdout.frame, train.schema, seed
                    )
                    values["AUC"] = scores["auc_rf_score"]
                rows += [
                    (name, epsilon or np.inf, seed, measure, value)
                    for measure, value in values.items()
                ]
    return pd.DataFrame(rows, columns=["variant", "ε", "seed", "measure", "value"])
