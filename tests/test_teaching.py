"""What teaching notebooks share: source, settings and budgets compared, and the figures that show
it."""

import ast

import matplotlib

matplotlib.use("Agg")

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest
import torch

from fedsynth_lib.core.accounting import calibrate
from fedsynth_lib.core.contract import Privacy
from fedsynth_lib.core.statement import statement
from fedsynth_lib.federation import settings
from fedsynth_lib.federation.flower import Job, public
from fedsynth_lib.federation.rounds import run_rounds
from fedsynth_lib.methods import from_file
from fedsynth_lib.methods.bayes import bayesian_network as bn
from fedsynth_lib.methods.bayes import genetic_search
from fedsynth_lib.methods.marginals import distaim, flaim, independent
from fedsynth_lib.methods.marginals.marginal_state import model_of
from fedsynth_lib.methods.marginals.model_answers import Answers
from fedsynth_lib.methods.variants import aim
from fedsynth_lib.metrics import fidelity
from fedsynth_lib.metrics.workload import marginal
from fedsynth_lib.tables.load import split
from fedsynth_lib.teaching import lessons, teaching_gan

CONFIG = bn.Config(degree=1, population=12, selection=3, interval=5, generations=10)


@pytest.fixture(autouse=True)
def close_figures():
    yield
    plt.close("all")


@pytest.fixture(scope="module")
def halves(table):
    train, holdout = split(table, seed=1)
    return train, holdout, np.array_split(np.arange(len(train)), 3)


def test_source_is_the_running_code():
    shown = lessons.show_source(calibrate, bn._vote).data
    code = shown.removeprefix("```python\n").removesuffix("```")
    assert len(shown) == len(code) + 13  # both ends of the block were there
    assert [node.name for node in ast.parse(code).body] == ["calibrate", "_vote"]


def test_a_count_moves_by_one_and_by_two_where_a_record_is_replaced():
    records = np.array([[0], [1]])
    found = lessons.largest_moves(
        lambda rows: np.bincount(rows[:, 0], minlength=2), records, most_rows=2
    )
    wanted = {"added: L1": 1, "added: L2": 1, "replaced: L1": 2, "replaced: L2": 2**0.5}
    assert found == pytest.approx(wanted)


def test_gradients_are_cut_one_by_one_and_added_up():
    line, rows = torch.nn.Linear(2, 1, bias=False), torch.tensor([[3.0, 4.0], [0.3, 0.0]])
    total, norms = teaching_gan.summed_gradient(line, lambda each: line(each)[:, 0], rows, clip=1.0)
    assert norms.tolist() == pytest.approx([5, 0.3])
    assert total.tolist() == pytest.approx([0.6 + 0.3, 0.8])  # the first is cut to length 1
    halved, _ = teaching_gan.summed_gradient(
        line, lambda each: line(each)[:, 0], rows, clip=9.0, records=1, divisor=2
    )
    assert halved.tolist() == pytest.approx([3.3 / 2, 4 / 2])


SMALL = {
    "rounds": 2,
    "participation": 0.5,
    "num_queries": 4,
    "iterations": 5,
    "final_iterations": 5,
    "bins": 4,
}


@pytest.mark.parametrize(
    "method, config",
    [(bn, CONFIG), (distaim, distaim.Config(**SMALL)), (flaim, flaim.Config(**SMALL))],
)
def test_the_steps_of_a_run_are_the_run(halves, method, config):
    """Clients that come and go, memory between rounds (DistAIM), sums over some clients (FLAIM)."""
    train, _, parts = halves
    privacy = Privacy(3.0, 1e-5)
    run = settings.federated(method, train, parts, config=config, privacy=privacy, seed=4)
    encoder = method.encoder(train.schema, config)
    multiplier = settings.noise_for(method, encoder.domain, list(map(len, parts)), config, privacy)
    rows = [encoder.transform(train.frame.iloc[part]) for part in parts]
    steps = list(run_rounds(Job(method, config, encoder.domain, multiplier, 4, len(parts)), rows))
    assert public(steps[-1].state).keys() == run.state.keys()
    assert all(np.array_equal(steps[-1].state[name], values) for name, values in run.state.items())
    charges = [charge for step in steps for charge in step.charges]
    assert statement(charges, privacy)["entries"] == run.statement["entries"]
    answered = {
        (number, update.client) for number, step in enumerate(steps) for update in step.updates
    }
    assert answered == {
        (line["round"], line["client"]) for line in run.traffic if line["direction"] == "down"
    }


def test_a_fit_goes_from_nothing_to_what_was_measured():
    """A uniform model of three binary columns; then exact tables of columns 0 and 1, and of 2, kept
    as they are."""
    rows = np.array([[0, 0, 1]] * 3 + [[1, 1, 1]])
    exact = {(0, 1): [3, 0, 0, 1], (2,): [0, 4]}
    exact = [(query, np.array(counts), 1.0) for query, counts in exact.items()]
    path = lessons.fit_path((2, 2, 2), exact, rows, rows[:1], [(0, 1), (1,)], iterations=[0, 400])
    # Off by 1/2, 1/4, 1/4 and 0, and twice by 1/2; the squares weigh (4 / 1)^2, and there are 6
    # cells.
    assert path.loc[0, "loss"] == pytest.approx(16 * (0.25 + 2 / 16 + 0.5) / 6)
    assert path.loc[0, "error"] == pytest.approx((0.5 + 0.25 + 0.25 + 0.0 + 0.25 + 0.25) / 2)
    assert path.loc[0, "NLL"] == pytest.approx(np.log(8))
    assert path.loc[400].tolist() == pytest.approx([0, 0, -np.log(3 / 4)], abs=0.02)


def test_a_tree_of_cliques_has_the_tables_that_were_asked_for():
    """0-1-2 measured in pairs is a chain; 3, 4, 5 hang together by a cycle, and 6 by nothing."""
    queries = [(0, 1), (1, 2), (3, 4), (4, 5), (3, 5), (6,)]
    graph = lessons.clique_graph((2,) * 7, "abcdefg", queries)
    called = {frozenset(name.split("\n")) for name in graph}
    assert called == {frozenset("ab"), frozenset("bc"), frozenset("def")}
    ((parent, child),) = graph.edges
    assert child.startswith("b\n") and "b" in parent


def test_the_rounds_of_aim_are_told_as_they_were(halves):
    train = halves[0]
    config = aim.Config(rounds=3, num_queries=4, bins=4)
    encoder, budget = aim.encoder(train.schema, config), Privacy(4.0, 1e-5)
    rows, names, levels = (
        encoder.transform(train.frame),
        encoder.domain.names,
        encoder.domain.levels,
    )
    sigma = settings.noise_for(aim, encoder.domain, [len(rows)], config, budget)
    steps = list(run_rounds(Job(aim, config, encoder.domain, sigma, 4, 1), [rows]))[
        len(levels) - 1 :
    ]
    told = lessons.rounds_of(steps, rows, names, budget.delta)
    assert len(told) == 3 and told["ε so far"].is_monotonic_increasing
    assert told["ε so far"].iloc[-1] == pytest.approx(4.0, rel=1e-6)

    known = [
        tuple(map(int, name.removeprefix("shares ").split(",")))
        for name in steps[-1].state
        if "shares" in name
    ]
    alone = set(names) if all((c,) in known for c in range(len(names))) else set()
    assert alone and {", ".join(names[c] for c in query) for query in known} - alone <= set(
        told.index
    )
    model = Answers(model_of(steps[-1].state))
    triples = steps[-1].state["workload"].tolist()
    true = [marginal(rows, levels, tuple(query)) / len(rows) for query in triples]
    away = [
        np.abs(model(tuple(query)).ravel() - shares).sum()
        for query, shares in zip(triples, true, strict=True)
    ]
    assert told["workload error"].iloc[-1] == pytest.approx(np.mean(away))
    last = tuple(names.index(name) for name in told.index[-1].split(", "))
    after = np.abs(model(last).ravel() - marginal(rows, levels, last) / len(rows)).sum()
    assert told["error after"].iloc[-1] == pytest.approx(after)


def test_three_settings_are_the_runs_of_settings(halves):
    train, _, parts = halves
    runs = lessons.three_settings(bn, train, parts, config=CONFIG, seed=4, privacy=Privacy(2.0))
    assert [len(runs[name]) for name in ("central", "federated", "local")] == [1, 1, 3]
    assert all(len(run.synthetic) == len(train) for group in runs.values() for run in group)
    again = settings.federated(bn, train, parts, config=CONFIG, seed=4, privacy=Privacy(2.0))
    pd.testing.assert_frame_equal(runs["federated"][0].synthetic, again.synthetic)

    table = lessons.settings_table(runs, train)
    assert list(table.index) == ["central", "federated", "local"]
    alone = [fidelity.hellinger(train.frame, run.synthetic, train.schema) for run in runs["local"]]
    assert table.loc["local", "Hellinger"] == pytest.approx(np.mean(alone))
    assert table.loc["federated", "kB up"] == pytest.approx(again.bytes_up / 1000)


@pytest.mark.slow
def test_a_sweep_has_every_cell_once_and_its_values_are_those_of_one_run(halves):
    train, holdout, parts = halves
    variants = {"floor": (independent, None), "network": (bn, CONFIG)}
    rows = lessons.sweep(
        variants, train, holdout, parts, epsilons=(None, 0.5), seeds=iter([3, 5]), learn_from=300
    )
    assert (
        len(rows) == 2 * 2 * 2 * 3
        and not rows.duplicated(["variant", "ε", "seed", "measure"]).any()
    )
    assert set(rows["ε"]) == {0.5, np.inf}
    run = settings.federated(bn, train, parts, config=CONFIG, privacy=Privacy(0.5), seed=5)
    cell = rows.query("variant == 'network' and ε == 0.5 and seed == 5").set_index("measure")[
        "value"
    ]
    assert cell["PCD"] == fidelity.pairwise_correlation_difference(
        train.frame, run.synthetic, train.schema
    )
    assert rows.loc[rows["measure"] == "AUC", "value"].between(0, 1).all()
    near = rows.query("measure == 'PCD'").groupby(["variant", "ε"])["value"].mean()
    assert near["network", np.inf] < near["floor", np.inf]  # independent columns keep no pair
    assert near["network", np.inf] < near["network", 0.5]

    quick = lessons.sweep(variants, train, holdout, parts, epsilons=[None], seeds=[3], learn_from=0)
    assert set(quick["measure"]) == {"Hellinger", "PCD"}


def test_a_sweep_searches_once_for_all_budgets(halves, monkeypatch):
    train, holdout, parts = halves
    searched, generations = [], bn.search.generations
    monkeypatch.setattr(
        bn.search, "generations", lambda *a, **k: searched.append(1) or generations(*a, **k)
    )
    asked = {"epsilons": [0.5, 1.0, None], "seeds": [3, 5], "learn_from": 0}
    lessons.sweep({"network": (bn, CONFIG)}, train, holdout, parts, **asked)
    assert len(searched) == 2 * len(parts) * CONFIG.search_rounds


def test_a_sweep_takes_a_method_whose_file_was_loaded_again(halves):
    train, holdout, parts = halves
    first, _ = (from_file("notebooks/your_method.py") for _ in range(2))
    asked = {"epsilons": [1.0], "seeds": [3], "learn_from": 0}
    rows = lessons.sweep(
        {"mine": (first, first.Config(root="ill"))}, train, holdout, parts, **asked
    )
    assert rows["value"].notna().all()


def test_the_convention_of_a_budget_reaches_the_runs(halves):
    """Half the noise for the same number: a budget for replacing a record is twice as strict."""
    train, holdout, parts = halves
    variants, common = {"floor": (independent, None)}, {"seeds": [1], "learn_from": 0}
    replaced = lessons.sweep(
        variants, train, holdout, parts, epsilons=[0.4], relation="replace_one", **common
    )
    added = lessons.sweep(variants, train, holdout, parts, epsilons=[0.2], **common)
    assert replaced["value"].tolist() == added["value"].tolist()


def test_a_model_is_fitted_to_tables_without_noise_as_they_are():
    people = np.array([[30.0, 10.0], [20.0, 40.0]])
    exact = [((0, 1), people, 1.0)]
    assert np.allclose(lessons.fitted((2, 2), exact, 100), people, atol=0.1)
    rng = np.random.default_rng(0)
    ((query, noisy, scale),) = lessons.noisy({(0, 1): np.zeros((50, 50))}, 3.0, rng)
    assert query == (0, 1) and scale == 3.0 and noisy.std() == pytest.approx(3, rel=0.05)


def test_clients_that_meet_no_guests_search_alone(halves):
    """With an exchange in every generation the first one is still alone."""
    train, _, parts = halves
    encoder = bn.encoder(train.schema, CONFIG)
    rows = encoder.transform(train.frame)
    scores = genetic_search.mutual_information(rows, np.array(encoder.domain.levels))
    asked = (encoder.domain, rows, {"iid": parts}, scores, CONFIG, [1])
    found = lessons.migration(*asked)
    counts = found.groupby("search")["generation"].agg(["size", "max"])
    assert (counts == [len(parts) * CONFIG.generations, CONFIG.generations]).all(axis=None)
    alone, exchange = (found[found["search"] == way] for way in ("alone", "exchange"))
    fitness = "fitness on all rows (nats)"
    assert alone[fitness].tolist()[:3] == exchange[fitness].tolist()[:3]
