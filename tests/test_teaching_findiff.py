"""What the teaching notebook of FinDiff takes from `teaching_findiff`: tables, the space of the
diffusion, walks."""

from dataclasses import replace

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest
import torch
from opacus.accountants.utils import get_noise_multiplier
from scipy.stats import norm
from sklearn.preprocessing import QuantileTransformer

from fedsynth_lib.core.accounting import exact_gaussian_epsilon
from fedsynth_lib.core.contract import BadInput, Charge, Domain, Privacy, stream
from fedsynth_lib.federation import settings
from fedsynth_lib.methods.diffusion import findiff
from fedsynth_lib.tables.encode import UnitRange
from fedsynth_lib.tables.form import Form
from fedsynth_lib.tables.registry import REGISTRY
from fedsynth_lib.teaching import teaching_findiff as fd

FAST = findiff.Config(
    training_rounds=1, local_updates=20, batch=60, hidden=(8,), inner=6, steps=12, encoding="pooled"
)


@pytest.fixture(scope="module")
def run(table):
    return settings.central(findiff, table, config=FAST, seed=3, num_rows=40)


@pytest.fixture
def own_file(table, tmp_path):
    table.frame.to_csv(tmp_path / "mine.csv", index=False)
    (tmp_path / "mine.toml").write_text(Form.of(table.schema).to_toml(), encoding="utf-8")
    return str(tmp_path / "mine.csv")


def test_a_file_gives_its_rows_in_random_order_and_the_columns_asked_for(table, own_file):
    found = fd.few_columns(own_file, ["region", "age"], 10_000, seed=1)
    assert (
        list(found.frame) == ["age", "region"]
        and found.schema.target is None
        and found.data == "own"
    )
    order = found.frame["age"].sort_values().index
    assert not found.frame["age"].equals(table.frame["age"]) and len(order) == len(table.frame)
    expected = table.frame[["age", "region"]].value_counts()
    assert found.frame.value_counts().to_dict() == expected.to_dict()
    assert len(fd.few_columns(own_file, [], 30, seed=1).frame) == 30
    pd.testing.assert_frame_equal(
        fd.few_columns(own_file, ["region", "age"], 30, seed=1).frame, found.frame.head(30)
    )


def test_columns_are_chosen_by_the_schema_where_none_are_named(own_file):
    assert fd.few_columns(own_file, [], 50, seed=0).schema.names == (
        "age",
        "weight",
        "smokes",
        "region",
        "ill",
    )
    for key in fd.FEW:
        assert set(fd.FEW[key]) <= set(REGISTRY[key].schema.names)
    assert fd._first(REGISTRY["bank"].schema) == [
        "age",
        "balance",
        "job",
        "marital",
        "education",
        "y",
    ]


@pytest.mark.parametrize(
    ("columns", "said"),
    [(["age"], "one numeric and one categorical"), (["agee"], "did you mean 'age'")],
)
def test_columns_that_cannot_work_are_refused(own_file, columns, said):
    with pytest.raises(BadInput, match=said):
        fd.few_columns(own_file, columns, 50, seed=0)


def test_whole_categories_go_to_owners_if_there_are_enough(table):
    parts = fd.owners(table, 3, seed=0)  # region has four
    held = [set(table.frame["region"].iloc[part]) for part in parts]
    assert sum(map(len, held)) == 4 and set().union(*held) == set(table.frame["region"])
    assert sorted(np.concatenate(parts)) == list(range(len(table.frame)))
    sizes = [len(part) for part in fd.owners(table, 7, seed=0)]
    assert max(sizes) - min(sizes) <= 1


def test_points_are_normal_scores_and_embeddings(run, table):
    points, names = fd.points(run.state, table, FAST).numpy(), fd.coordinates(table.schema, FAST)
    assert points.shape == (len(table.frame), 2 + 3 * 2) == (len(table.frame), len(names))
    assert names[:3] == ["age (normal score)", "weight (normal score)", "smokes (point, 1)"]
    peer = QuantileTransformer(
        n_quantiles=findiff.LEVELS, output_distribution="normal", subsample=None
    )
    assert np.allclose(points[:, :2], peer.fit_transform(table.frame[["age", "weight"]]), atol=1e-4)
    region = findiff.trained(run.state, FAST).embeddings[1].weight.detach().numpy().T
    assert np.array_equal(points[:, 4:6], region[table.frame["region"].cat.codes])


def test_points_lead_back_to_their_rows(run, table):
    back = fd.rows_at(fd.points(run.state, table, FAST), run.state, table.schema, FAST)
    assert back.dtypes.equals(table.frame.dtypes)
    assert np.allclose(back["weight"], table.frame["weight"], atol=0.02)
    assert back.drop(columns="weight").equals(table.frame.drop(columns="weight"))


def test_a_walk_ends_in_the_rows_that_the_method_samples(run, table):
    seen = fd.walk(run.state, 40, FAST, at=[12, 5], rng=stream(3, "sample"))
    assert list(seen) == [12, 5, 0]
    # drawn with the same stream
    assert fd.rows_at(seen[0], run.state, table.schema, FAST).equals(run.synthetic)
    assert abs(fd.walk(run.state, 4000, FAST, at=[12], rng=stream(1))[12].std() - 1) < 0.02


def test_the_last_step_of_a_walk_is_equation_2(run):
    """Step 0 adds no noise: (x - (1 - alpha) / sqrt(1 - kept) noise) / sqrt(alpha), where kept is
    alpha."""
    seen, beta = fd.walk(run.state, 9, FAST, at=[1], rng=stream(2)), float(FAST.schedule.betas[0])
    with torch.no_grad():
        guessed = findiff.trained(run.state, FAST).denoiser(
            seen[1], torch.zeros(9, dtype=torch.long)
        )
    expected = (seen[1] - beta / beta**0.5 * guessed) / (1 - beta) ** 0.5
    assert torch.allclose(seen[0], expected, atol=1e-5)


def test_the_error_of_a_guess_is_that_of_the_noise(run, table):
    network, points = findiff.trained(run.state, FAST), fd.points(run.state, table, FAST)
    torch.nn.init.zeros_(network.denoiser.head.weight)
    torch.nn.init.constant_(network.denoiser.head.bias, 0.5)
    found = fd.errors_by_step(network, points, FAST.schedule, at=[0, 11], seed=0)
    assert list(found) == [0, 11]
    # 1 for the noise, a quarter for the guess
    assert list(found.values()) == pytest.approx([1.25, 1.25], abs=0.06)


@pytest.mark.filterwarnings("ignore:Optimal order")
@pytest.mark.parametrize(("epsilon", "updates"), [(1.0, 30_000), (10.0, 300_000)])
def test_multipliers_agree_with_opacus(epsilon, updates):
    budget = Privacy(epsilon, 1e-5, reproduction=True)
    plan = findiff.Config(training_rounds=1, local_updates=updates, batch=16, encoding="declared")
    found = settings.noise_for(findiff, Domain(("x",), (0,)), [5_210], plan, budget)
    settings_of_both = {
        "sample_rate": 16 / 5_210,
        "steps": updates,
        "accountant": "rdp",
        "epsilon_tolerance": 0.002,
    }
    theirs = get_noise_multiplier(target_epsilon=epsilon, target_delta=1e-5, **settings_of_both)
    assert found == pytest.approx(theirs, rel=0.02)


def test_bills_of_clients_that_take_all_their_rows():
    """With rate 1 every step is a plain Gaussian release, of which epsilon is known exactly."""

    def exact(steps, sigma):
        return exact_gaussian_epsilon([Charge("", "gaussian", sigma, times=steps)], 1e-5)

    domain, budget = UnitRange(REGISTRY["diabetes"].schema).domain, Privacy(2.0, 1e-5)
    config = replace(FAST, encoding="declared", batch=50, training_rounds=3, local_updates=10)
    bills = fd.bills([50, 40, 500], domain, config, budget)
    assert bills["rows"].tolist() == [50, 40, 500] and bills["rate"].tolist() == [1, 1, 0.1]
    assert bills["σ"][0] == bills["σ"][1] > bills["σ"][2]
    assert exact(30, bills["σ"][0]) == pytest.approx(2.0, rel=1e-5)
    by_the_largest = exact(30, bills["σ"][2])
    assert bills["ε with the largest's σ"].tolist() == pytest.approx(
        [by_the_largest, by_the_largest, 2.0], rel=1e-3
    )
    longer = exact(300, bills["σ"][0])
    assert (
        bills["ε with 10 × updates"][0] == pytest.approx(longer, rel=1e-3)
        and bills.iloc[2, -1] > 2.0
    )


def test_the_pictures_hold_the_rows(run, table):
    points = fd.points(run.state, table, FAST)
    fig = fd.draw_space(run.state, table, FAST, seed=0)
    counts = [patch.get_height() for patch in fig.axes[0].patches[:30]]
    assert sum(counts) == len(table.frame) and len(fig.axes) == 3
    assert {text.get_text() for text in fig.axes[2].texts} == set(table.schema["smokes"].categories)
    fig = fd.draw_walk(
        {"one": points[:50], "two": points[50:100]},
        table.frame["smokes"][:50],
        "abcdefgh",
        upwards=2,
    )
    assert [ax.get_title() for ax in fig.axes] == ["one", "two"] and fig.axes[1].get_xlabel() == "a"
    assert sum(len(line.get_xdata()) for line in fig.axes[1].lines) == 50
    plt.close("all")


def test_only_the_pooled_map_ends_at_the_person_who_enters(table):
    """The pooled one ends at the largest value, with the person and without; the declared one at
    the end of the range."""
    column, values = table.schema["age"], table.frame["age"]
    usual = np.flatnonzero(values <= values.quantile(0.9))
    for part in (usual, np.union1d(usual, [values.argmax()])):
        for encoding, end in (("pooled", values.iloc[part].max()), ("declared", column.high)):
            config = replace(FAST, encoding=encoding, local_updates=1)
            asked = {"config": config, "num_rows": 1, "seed": 0}
            state = settings.federated(findiff, table, [part], **asked).state
            top = column.low + (column.high - column.low) * state["quantiles"][0, -1]
            assert top == pytest.approx(end)


def test_normal_draws_go_back_through_the_map(run, table):
    """The line over the column has its quartiles: that of normal draws is the normal
    distribution's."""
    grid = run.state["quantiles"][:1]
    back = fd.quantile_map.numbers(norm.ppf([[0.25], [0.5], [0.75]]), grid)[:, 0]
    low, high = table.schema["age"].low, table.schema["age"].high
    assert np.allclose(
        low + (high - low) * back, table.frame["age"].quantile([0.25, 0.5, 0.75]), atol=0.5
    )
