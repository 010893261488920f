"""What the teaching notebook of the CTGAN family takes from `teaching`: rows as networks see them,
rounds, the bill."""

import numpy as np
import pandas as pd
import promises
import pytest

from fedsynth_lib.core.accounting import epsilon_of
from fedsynth_lib.core.contract import Privacy, stream
from fedsynth_lib.federation import settings
from fedsynth_lib.federation.flower import Job
from fedsynth_lib.federation.rounds import run_rounds
from fedsynth_lib.methods.gan import ctgan
from fedsynth_lib.methods.variants import dp_fed_ctgan, fed_ctgan
from fedsynth_lib.teaching import teaching_gan

SMALL = {"training_rounds": 3, "local_epochs": 1, "batch": 50, "hidden": (16, 16), "noise_width": 8}


@pytest.fixture(scope="module")
def central(table):
    config = ctgan.Config(**SMALL)
    encoder = ctgan.encoder(table.schema, config)
    job, rows = Job(ctgan, config, encoder.domain, None, 1, 1), encoder.transform(table.frame)
    return job, list(run_rounds(job, [rows])), encoder, rows


def test_birds_are_as_they_are_told():
    toy = teaching_gan.birds(20_000, 3)
    assert toy.frame["kind"].value_counts(normalize=True).to_dict() == pytest.approx(
        {"hen": 0.70, "goose": 0.26, "swan": 0.04}, abs=0.01
    )
    means = toy.frame.groupby("kind", observed=True)["weight"].mean()
    assert means.to_dict() == pytest.approx({"hen": 2.2, "goose": 5.0, "swan": 10.0}, abs=0.15)
    pd.testing.assert_frame_equal(toy.frame, teaching_gan.birds(20_000, 3).frame)
    assert toy.digest != teaching_gan.birds(20_000, 4).digest


def test_a_vector_has_one_entry_in_each_block_and_leads_back_to_its_row(central):
    _, steps, encoder, rows = central
    state = steps[0].state
    layout, local = teaching_gan.gan_encoded(state, rows, stream(0, "encode"))
    vectors = local.encoded.numpy()
    assert (
        vectors.shape == (len(rows), layout.width)
        and np.abs(vectors[:, : layout.numbers]).max() <= 1
    )
    starts = layout.numbers + np.cumsum(layout.blocks) - layout.blocks
    assert (
        np.add.reduceat(vectors[:, layout.numbers :], starts - layout.numbers, axis=1) == 1
    ).all()
    smokes = vectors[:, starts[-3] : starts[-2]]  # the discrete columns are the last three blocks
    assert np.array_equal(
        smokes.argmax(axis=1), rows[:, list(encoder.domain.names).index("smokes")]
    )

    back = teaching_gan.gan_decoded(state, local.encoded)
    # a few lie beyond four deviations
    assert np.isclose(back, rows, atol=1e-5).all(axis=1).mean() > 0.99
    assert np.array_equal(back[:, 2:], rows[:, 2:])
    # as a generator's: the largest entry counts
    soft = local.encoded * 0.6 + 0.4 * local.encoded.roll(1, dims=0)
    soft[:, : layout.numbers] = local.encoded[:, : layout.numbers]
    assert np.array_equal(teaching_gan.gan_decoded(state, soft), back)


def test_categories_that_nobody_has_are_left_out_and_found_again(table):
    config = ctgan.Config(**SMALL)
    encoder = ctgan.encoder(table.schema, config)
    rows = encoder.transform(table.frame[table.frame["region"] != "east"])
    state = next(run_rounds(Job(ctgan, config, encoder.domain, None, 1, 1), [rows])).state
    layout, local = teaching_gan.gan_encoded(state, rows, stream(0, "encode"))
    assert layout.categories == (2, 3, 2)
    assert np.array_equal(teaching_gan.gan_decoded(state, local.encoded)[:, 2:], rows[:, 2:])


def test_after_the_last_round_the_generator_makes_the_rows_of_the_run(central, table):
    job, steps, encoder, _ = central
    run = settings.central(ctgan, table, config=job.config, seed=1, num_rows=90)
    made = teaching_gan.gan_rows(job, steps, encoder, [0, 3], 90)
    pd.testing.assert_frame_equal(made[3], run.synthetic)
    assert not made[0].equals(made[3])


@pytest.mark.slow
def test_rounds_of_training_are_counted_after_those_of_the_encoding(table):
    parts, config = promises.thirds(table), fed_ctgan.Config(**SMALL)
    encoder = fed_ctgan.encoder(table.schema, config)
    job, rows = Job(fed_ctgan, config, encoder.domain, None, 1, 3), encoder.transform(table.frame)
    steps = list(run_rounds(job, [rows[part] for part in parts]))
    run = settings.federated(fed_ctgan, table, parts, config=config, seed=1, num_rows=90)
    pd.testing.assert_frame_equal(
        teaching_gan.gan_rows(job, steps, encoder, [3], 90)[3], run.synthetic
    )


def test_scores_of_a_copy_and_of_shuffled_columns():
    toy = teaching_gan.birds(2_000, 0)
    shuffled = toy.frame.assign(
        weight=toy.frame["weight"].sample(frac=1, random_state=0).to_numpy()
    )
    scores = teaching_gan.gan_scores(
        toy, {"shuffled": shuffled, "hens": toy.frame.query("kind == 'hen'")}
    )
    assert list(scores.index) == ["shuffled", "hens", "real"]
    assert scores.loc[["shuffled", "real"], ["JSD", "WD"]].to_numpy() == pytest.approx(0, abs=1e-9)
    groups = toy.frame.groupby("kind", observed=True)["weight"]
    between = (groups.size() * (groups.mean() - toy.frame["weight"].mean()) ** 2).sum()
    ratio = np.sqrt(between / ((toy.frame["weight"] - toy.frame["weight"].mean()) ** 2).sum())
    assert scores.loc["real", "association"] == pytest.approx(ratio)
    assert scores.loc["shuffled", "association"] < 0.1 and scores.loc["hens", "association"] == 0
    assert scores.loc["hens", "JSD"] > 0.3 and scores.loc["hens", "WD"] > 0.05


def test_the_bill_adds_up_all_rounds(table):
    parts, config = promises.thirds(table), dp_fed_ctgan.Config(**SMALL)
    encoder, privacy = (
        dp_fed_ctgan.encoder(table.schema, config),
        Privacy(9.0, 1e-5, noise_multiplier=2.0),
    )
    job, rows = Job(dp_fed_ctgan, config, encoder.domain, 2.0, 1, 3), encoder.transform(table.frame)
    rounds = [step.charges for step in run_rounds(job, [rows[part] for part in parts])]
    run = settings.federated(dp_fed_ctgan, table, parts, config=config, privacy=privacy, seed=1)
    everything = [charge for charges in rounds for charge in charges]
    assert epsilon_of(everything, 1e-5) == pytest.approx(run.statement["epsilon"])
    from opacus.accountants import PRVAccountant

    opacus = PRVAccountant()
    opacus.history = [(2.0, 50 / 400, 8)]  # 400 rows, batches of 50: eight steps a round
    alone = [epsilon_of(charges, 1e-5) for charges in rounds[1:]]
    assert alone == pytest.approx([opacus.get_epsilon(1e-5)] * 3, abs=0.011)
