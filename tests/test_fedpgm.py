"""FedPGM: what two secure sums release, how pairs are chosen, what comes out."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from fedsynth_lib.core.accounting import epsilon_of
from fedsynth_lib.core.contract import BadInput, Client, Domain, Method, Noise, Privacy, stream
from fedsynth_lib.federation import settings
from fedsynth_lib.methods.marginals import fedpgm
from fedsynth_lib.methods.marginals.fedpgm import Config, Scales
from fedsynth_lib.tables.load import Table
from fedsynth_lib.tables.schema import Column, Schema

METHOD = Method.of(fedpgm)
LEVELS = (3, 4, 2, 5)
DOMAIN = Domain(tuple("abcd"), LEVELS)
NAMES = "abcd"


def coded(rows, seed=0):
    """b follows a, d follows c; the two pairs know nothing of each other."""
    rng = np.random.default_rng(seed)
    a, c = rng.integers(0, 3, rows), rng.integers(0, 2, rows)
    b = np.where(rng.random(rows) < 0.8, a, rng.integers(0, 4, rows))
    d = np.where(rng.random(rows) < 0.8, c * 2, rng.integers(0, 5, rows))
    return np.column_stack([a, b, c, d]).astype(np.int32)


def table_of(rows):
    schema = Schema(
        tuple(
            Column(name, "categorical", categories=tuple(f"{name}{k}" for k in range(level)))
            for name, level in zip(NAMES, LEVELS, strict=True)
        )
    )
    columns = {
        name: pd.Categorical.from_codes(rows[:, j], categories=list(schema[name].categories))
        for j, name in enumerate(NAMES)
    }
    return Table("toy", pd.DataFrame(columns), schema, "own")


def run(rows=4000, clients=4, **options):
    table = table_of(coded(rows))
    parts = np.array_split(np.arange(rows), clients)
    given = {"config": Config(), "privacy": Privacy(1.0, 1e-5), "seed": 1, **options}
    return table, settings.federated(METHOD, table, parts, **given)


def test_both_rounds_cost_what_was_promised_and_no_more():
    _, made = run()
    assert made.statement["epsilon"] == pytest.approx(1.0, abs=1e-6)
    counts = {entry["what"]: entry["count"] for entry in made.statement["entries"]}
    # 4 columns, 6 pairs, and 2 measurements a column however many pairs were chosen
    assert [counts[w] for w in (fedpgm.ONE_WAY, fedpgm.TWO_WAY, fedpgm.AGAIN)] == [4, 6, 8]
    assert made.statement["unprotected"] == []


@pytest.mark.parametrize("round_number", [0, 1])
def test_one_row_more_moves_every_count_by_what_its_charge_says(round_number):
    """Brute force over all rows that may be added: one cell of each table, by 1 a measurement."""
    rows = coded(50)
    state = fedpgm.start(DOMAIN, Config(), stream(0))
    state |= {"round": np.array(round_number)}
    state |= {"chosen": np.array([[0, 1], [2, 3], [0, 3]]), "repeats": np.array([3, 3, 2])}
    before = fedpgm.client_step(state, Client(rows, 0, 1), Config(), None, stream(0)).summed
    for added in np.ndindex(*LEVELS):
        more = np.vstack([rows, np.array(added, np.int32)])
        after = fedpgm.client_step(state, Client(more, 0, 1), Config(), None, stream(0)).summed
        moved = after["counts"] - before["counts"]
        if round_number == 0:
            asked, repeats = fedpgm.tables_in(state["levels"]), np.ones(10)
        else:
            asked = fedpgm._candidates(state["levels"], fedpgm.chosen_in(state))
            repeats = state["repeats"]
        tables = np.split(moved, asked.starts[1:])
        assert [table.sum() for table in tables] == list(repeats)
        assert all((np.sort(table)[:-1] == 0).all() for table in tables)


@pytest.mark.parametrize("clients", [1, 2, 7])
def test_the_honest_clients_noise_alone_has_the_variance_of_the_charge(clients):
    """One client is curious: the others' shares must do."""
    config, levels = Config(), np.array(LEVELS)
    shares = max(1, clients - 1)
    state = fedpgm.start(DOMAIN, config, stream(0))
    nothing = np.zeros((0, 4), np.int32)
    drawn = []
    for repeat in range(400):
        parts = [
            fedpgm.client_step(
                state,
                Client(nothing, index, clients, shares=shares),
                config,
                Noise(10.0, stream(repeat, index)),
                stream(0),
            ).summed["counts"]
            for index in range(shares)
        ]
        drawn.append(np.sum(parts, axis=0))
    scales, alone = Scales.of(10.0, 4, config), int(levels.sum())
    drawn = np.array(drawn)
    assert drawn[:, :alone].std() == pytest.approx(scales.one_way, rel=0.03)
    assert drawn[:, alone:].std() == pytest.approx(scales.two_way, rel=0.03)


def test_what_hangs_together_is_chosen_and_measured_again():
    table, made = run(rows=8000)
    chosen = set(map(tuple, made.state["chosen"].tolist()))
    assert {(0, 1), (2, 3)} <= chosen
    for one, other in (("a", "b"), ("c", "d")):
        real, drawn = (
            pd.crosstab(frame[one], frame[other], normalize=True).to_numpy()
            for frame in (table.frame, made.synthetic)
        )
        assert np.abs(real - drawn).sum() / 2 < 0.04


def test_without_noise_the_chosen_pairs_are_those_of_the_rows():
    table, made = run(rows=6000, privacy=Privacy())
    assert made.statement["epsilon"] is None
    real, drawn = (
        pd.crosstab(frame["a"], frame["b"], normalize=True).to_numpy()
        for frame in (table.frame, made.synthetic)
    )
    assert np.abs(real - drawn).sum() / 2 < 0.03


def test_more_noise_than_signal_leaves_independent_columns():
    _, made = run(rows=60, privacy=Privacy(0.05, 1e-5))
    assert len(made.state["chosen"]) <= 3 and made.statement["epsilon"] <= 0.05 * (1 + 1e-6)
    assert len(made.synthetic) == 60


def test_a_single_column_is_counted_alone():
    rows = table_of(coded(500))
    one = replace(
        rows, frame=rows.frame[["b"]], schema=rows.schema.drop(["a", "c", "d"]), digest=""
    )
    made = settings.central(METHOD, one, config=Config(), privacy=Privacy(1.0, 1e-5), seed=1)
    assert [entry["what"] for entry in made.statement["entries"]] == [fedpgm.ONE_WAY]
    real, drawn = (
        f["b"].value_counts(normalize=True, sort=False) for f in (rows.frame, made.synthetic)
    )
    assert np.abs(real - drawn).sum() / 2 < 0.05


def test_the_plan_is_that_of_one_count_with_the_multipliers_noise():
    plan = fedpgm.plan(20.0, DOMAIN, 100, Config())
    assert sum(charge.times / charge.noise**2 for charge in plan) == pytest.approx(1 / 400)
    assert epsilon_of(plan, 1e-5) < epsilon_of(fedpgm.plan(10.0, DOMAIN, 100, Config()), 1e-5)


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (lambda: Config(one_way_share=0.6, two_way_share=0.4), "leave something of 1"),
        (lambda: Config(one_way_share=0.0), "parts above 0"),
        (lambda: Config(again=0), "numbers above 0"),
        (
            lambda: fedpgm.start(Domain(("a", "b"), (9000, 8000)), Config(), stream(0)),
            "72,000,000 cells together.*levels of 'a'",
        ),
    ],
)
def test_what_cannot_work_is_refused_before_any_row_is_seen(wrong, message):
    with pytest.raises(BadInput, match=message):
        wrong()
