"""Evaluation at the sites: exact without noise, honest intervals with it, and what one row moves."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from at_sites import evaluate_sites
from conftest import SCHEMA, make_frame
from scipy.stats import norm
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import roc_auc_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder
from test_audit import usual_bound

from fedsynth_lib.audit import fits
from fedsynth_lib.audit import scores as audit_scores
from fedsynth_lib.core.accounting import skellam_share
from fedsynth_lib.core.contract import BadInput, Client, Noise, Privacy, stream
from fedsynth_lib.core.ledger import ClientLedger, Refused
from fedsynth_lib.federation import flower
from fedsynth_lib.metrics.workload import workload_errors
from fedsynth_lib.release.deploy import evaluation
from fedsynth_lib.tables.schema import Column, Schema

SITES = {"north": make_frame(700, 2), "south": make_frame(500, 3), "west": make_frame(300, 4)}
SYNTHETIC = make_frame(1500, 1)
PRIVATE = Privacy(2.0, 1e-6)
CONFIG = evaluation.config_for(SCHEMA)
DOMAIN = evaluation.encoder(SCHEMA, CONFIG).domain


def coded(frame, config=CONFIG):
    return evaluation.encoder(SCHEMA, config).transform(frame)


def run(privacy=PRIVATE, **options):
    return evaluate_sites(SITES, SYNTHETIC, SCHEMA, privacy, **options)


# --- without noise -------------------------------------------------------------------------------


def test_without_noise_figures_are_those_of_the_pooled_rows():
    pooled, synthetic = coded(pd.concat(SITES.values(), ignore_index=True)), coded(SYNTHETIC)
    found = run(Privacy()).all_sites
    assert found.rows == 1500
    queries = {part.what: part.queries for part in evaluation.parts_of(5, CONFIG)}
    for what, measure in evaluation.TOTAL_VARIATION.items():
        exact = workload_errors(pooled, synthetic, DOMAIN.levels, queries[what]).mean() / 2
        line = found.figures.loc[measure, ["value", "low", "high"]]
        assert line.tolist() == pytest.approx([exact] * 3, abs=1e-12)
    assert found.figures.loc[evaluation.K_MARGINAL, "value"] == pytest.approx(1000 * (1 - exact))


def test_without_noise_the_auc_is_that_of_the_pooled_rows():
    pooled, synthetic = coded(pd.concat(SITES.values(), ignore_index=True)), coded(SYNTHETIC)
    found = run(Privacy())
    state, line = found.outcome.state, found.all_sites.figures.loc[evaluation.AUC]
    scores, truth = evaluation.scores_of(pooled, state), pooled[:, 4] == 1
    binned = np.searchsorted(state["edges"], scores, side="right")
    assert line["value"] == pytest.approx(roc_auc_score(truth, binned), abs=1e-12)
    assert line["value"] == pytest.approx(roc_auc_score(truth, scores), abs=0.003)
    model = make_pipeline(OneHotEncoder(handle_unknown="ignore"), LogisticRegression(max_iter=1000))
    model.fit(synthetic[:, :4], synthetic[:, 4] == 1)
    exact = roc_auc_score(truth, model.predict_proba(pooled[:, :4])[:, 1])
    assert roc_auc_score(truth, scores) == pytest.approx(exact, abs=1e-4)
    assert line["low"] < exact < line["high"]


def test_values_that_no_schema_declares_are_counted_and_stop_nobody():
    frame = make_frame(400, 5)
    frame["age"] = frame["age"].astype(float)
    frame.loc[:19, "age"] = 130.0
    frame.loc[20:59, "weight"] = np.nan
    frame["region"] = frame["region"].astype(object)
    frame.loc[:9, "region"] = "centre"
    frame.loc[10:14, "ill"] = np.nan
    sites = {"odd": frame, "plain": make_frame(400, 6)}
    found = evaluate_sites(sites, SYNTHETIC, SCHEMA, Privacy()).all_sites
    held = found.trouble["held out"]
    expected = {("age", "not declared"): 20, ("weight", "missing"): 40}
    expected |= {("region", "not declared"): 10, ("ill", "missing"): 5}
    assert {k: v for k, v in (held * 800).round(9).items() if v} == expected
    assert (found.trouble["synthetic"] == 0).all()
    valid = found.figures.loc[evaluation.VALIDITY, "value"]
    assert valid == pytest.approx(1 - 75 / 800 / 5)


# --- intervals -----------------------------------------------------------------------------------


def gapped(kind, rng, rows):
    """(real counts, synthetic counts) of twelve tables: of one distribution, of others, or with
    most cells empty."""
    cells = 144 if kind == "sparse" else 36
    real, made = [], []
    for _ in range(12):
        p = rng.dirichlet(np.full(cells, 0.05 if kind == "sparse" else 1.0))
        q = p if kind == "equal" else rng.dirichlet(5 * cells * p + 0.05)
        q = rng.dirichlet(np.ones(cells)) if kind == "far" else q
        real.append(rng.multinomial(rows, p))
        made.append(rng.multinomial(4000, q))
    return real, made


@pytest.mark.parametrize("kind", ["equal", "near", "sparse", "far"])
@pytest.mark.parametrize("scale", [6.0, 30.0])
def test_the_interval_of_total_variation_covers_what_noise_hides(kind, scale):
    """In 90 percent of the draws at least; and the correction takes most of the bias away."""
    rng, rows = np.random.default_rng(7), 3000
    covered, errors, plain, trials = 0, [], [], 150
    real, made = gapped(kind, rng, rows)
    exact = np.mean(
        [np.abs(r / rows - m / m.sum()).sum() / 2 for r, m in zip(real, made, strict=True)]
    )
    for _ in range(trials):
        noisy = [r + skellam_share(scale**2, 1, r.shape, rng=rng) for r in real]
        found = evaluation.total_variation(noisy, made, scale=scale, rows=rows)
        covered += found.low <= exact <= found.high
        errors.append(found.value - exact)
        naive = [np.abs(n / rows - m / m.sum()).sum() / 2 for n, m in zip(noisy, made, strict=True)]
        plain.append(np.mean(naive) - exact)
    assert covered >= 0.9 * trials
    assert abs(np.mean(errors)) < 0.05 * np.mean(plain) + 0.002


def test_with_nothing_but_noise_the_interval_says_that_nothing_is_known():
    rng = np.random.default_rng(2)
    real, made = gapped("near", rng, 50)
    noisy = [r + skellam_share(1e8, 1, r.shape, rng=rng) for r in real]
    found = evaluation.total_variation(noisy, made, scale=1e4, rows=50)
    assert (found.low, found.high) == (0.0, 1.0)


@pytest.mark.parametrize("scale", [0.0, 6.0])
def test_the_interval_of_the_auc_covers_that_of_the_population(scale):
    rng, shift, bins, trials = np.random.default_rng(3), 1.0, 32, 300
    edges = norm.ppf(np.arange(1, bins) / bins, loc=shift / 2)
    below, above = np.append(-np.inf, edges), np.append(edges, np.inf)
    p, q = (norm.cdf(above - m) - norm.cdf(below - m) for m in (0, shift))
    exact = q @ (np.cumsum(p) - p / 2)
    assert exact == pytest.approx(norm.cdf(shift / np.sqrt(2)), abs=0.002)  # what bins lose
    covered, values = 0, []
    for _ in range(trials):
        counts = np.array([rng.multinomial(900, p), rng.multinomial(400, q)])
        counts = counts + (skellam_share(scale**2, 1, counts.shape, rng=rng) if scale else 0)
        found = evaluation.auc(counts, scale=scale)
        covered += found.low <= exact <= found.high
        values.append(found.value)
    assert 0.9 * trials <= covered
    assert np.mean(values) == pytest.approx(exact, abs=0.005)
    assert found.high - found.low < 0.25


def test_a_whole_run_with_noise_covers_the_pooled_figures():
    exact = run(Privacy()).all_sites.figures["value"]
    inside = []
    for seed in range(8):
        found = run(replace(PRIVATE, noise_seed=seed)).all_sites.figures
        inside.append((found["low"] <= exact + 1e-9) & (exact <= found["high"] + 1e-9))
        assert found["value"].between(found["low"], found["high"]).all()
    assert np.mean(inside) >= 0.9


def test_the_bias_of_noise_on_a_gap_is_that_of_a_folded_normal():
    z = norm.ppf((np.arange(100_000) + 0.5) / 100_000)
    for gap in (0.0, 0.3, 1.0, 2.5):
        expected = np.abs(gap + z).mean() - gap
        assert evaluation.folded_bias(gap) == pytest.approx(expected, abs=1e-4)


# --- privacy -------------------------------------------------------------------------------------


def test_one_row_more_moves_one_cell_of_each_table_by_one():
    """Brute force over rows, those with undeclared and missing values among them."""
    config = replace(CONFIG, synthetic=coded(SYNTHETIC))
    state = evaluation.start(DOMAIN, config, stream(0))
    rows, levels = coded(make_frame(60, 8)), np.array(DOMAIN.levels)
    parts = evaluation.parts_of(5, config)
    ends = np.cumsum(
        [np.prod(levels[list(query)]) for part in parts for query in part.queries]
    ).astype(int)

    def sums(held):
        client = Client(held, 0, 2, size=60)
        sent = evaluation.client_step(
            evaluation.broadcast(state, config), client, config, None, stream(0)
        )
        return np.split(sent.summed["counts"], ends)

    before, rng = sums(rows), np.random.default_rng(0)
    added = [rng.integers(0, levels) for _ in range(80)]
    added += [levels - 1, levels - 2, np.zeros(5, int)]
    for row in added:
        moved = [a - b for a, b in zip(sums(np.vstack([rows, row])), before, strict=True)]
        assert all(sorted(m)[:-1] == [0] * (len(m) - 1) and m.max() == 1 for m in moved[:-1])
        assert moved[-1].sum() == (row[4] < levels[4] - 2) and moved[-1].min() == 0
    tables = sum(charge.times for charge in evaluation.plan(1.0, DOMAIN, 60, config))
    assert tables == len(before)


def test_the_budget_is_spent_once_and_named():
    found = run()
    assert found.statement["epsilon"] == pytest.approx(2.0, abs=1e-6)
    assert found.statement["unprotected"] == [] and found.statement["num_rows"] == 1500
    counts = {entry["what"]: entry["count"] for entry in found.statement["entries"]}
    assert counts == {
        evaluation.ROWS: 1,
        evaluation.ONE_WAY: 5,
        evaluation.PAIRS: 10,
        evaluation.SCORES: 1,
    }
    assert run(Privacy()).statement["epsilon"] is None


def test_the_server_sees_no_sites_counts():
    seen = []

    def watching(state, updates, config, noise, rng):
        seen.extend(updates)
        return evaluation.server_step(state, updates, config, noise, rng)

    watched = replace(evaluation.METHOD, server_step=watching)
    job = replace(job_of(), method=watched)
    carried(job)
    assert [set(update.arrays) for update in seen] == [{"noise_ratio"}] * 3
    assert all(np.median(update.summed["counts"].view(np.uint64)) > 2**50 for update in seen)


def job_of(**options):
    sizes = [len(frame) for frame in SITES.values()]
    given = {"synthetic": SYNTHETIC, "config": CONFIG} | options
    return evaluation.job_for(SCHEMA, PRIVATE, sizes, **given)


def carried(job, ledger=None):
    rows, outcome = [coded(frame) for frame in SITES.values()], flower.Outcome()
    client = flower.client_app(job, lambda index: rows[index], ledger)
    flower.run_in_process(flower.server_app(job, outcome), client, 3)
    return outcome


def test_a_site_needs_no_synthetic_rows_to_take_part():
    """Its job is made from the schema, settings and sizes alone."""
    rows, outcome = [coded(frame) for frame in SITES.values()], flower.Outcome()
    client = flower.client_app(job_of(synthetic=None), lambda index: rows[index])
    flower.run_in_process(flower.server_app(job_of(), outcome), client, 3)
    found = evaluation.evaluated(job_of(), outcome, names=list(SITES))
    pd.testing.assert_frame_equal(found.all_sites.figures, run().all_sites.figures)


def test_a_ledger_at_the_site_pays_for_the_plan_once(tmp_path):
    one = replace(job_of(), num_clients=1, sizes=(700,))
    rows, outcome = coded(SITES["north"]), flower.Outcome()
    ledger = ClientLedger(tmp_path / "held_out.jsonl", most_epsilon=3.0)
    client = flower.client_app(one, lambda index: rows, ledger)
    flower.run_in_process(flower.server_app(one, outcome), client, 1)
    assert ledger.total().epsilon == pytest.approx(2.0, abs=1e-6)
    again = ClientLedger(tmp_path / "held_out.jsonl", most_epsilon=3.0)
    with pytest.raises(Refused, match="2 more would exceed 3"):
        again.admit(2.0, 1e-6)


@pytest.mark.parametrize(("published", "ratio"), [((), 3 / 2), ((2,), 3), ((0, 2), 3)])
def test_a_site_that_shows_its_own_figures_leaves_the_noise_to_the_others(published, ratio):
    """Three sites, one of them curious: whoever shows its counts makes no part of the noise."""
    names = list(SITES)
    found = run(published=[names[k] for k in published])
    assert float(found.outcome.state["noise_ratio"]) == pytest.approx(ratio)
    assert list(found.sites) == [names[k] for k in published]
    cells = evaluation.cells_of(np.array(DOMAIN.levels), evaluation.parts_of(5, CONFIG))
    pairs = slice(sum(cells[:2]), sum(cells[:3]))  # the most cells
    scale, exact = float(found.outcome.state["scales"][2]), 0
    for k, frame in enumerate(SITES.values()):
        counts = evaluation.counts_of(coded(frame), found.outcome.state, CONFIG)
        exact = exact + counts
        if k in published:
            drawn = found.outcome.state[f"site/{k}"] - counts
            assert drawn[pairs].std() == pytest.approx(scale, rel=0.15)
    drawn = found.outcome.state["counts"] - exact
    assert drawn[pairs].std() == pytest.approx(scale * ratio**0.5, rel=0.15)
    assert found.statement["epsilon"] == pytest.approx(2.0, abs=1e-6)


def test_what_is_drawn_of_each_part_is_what_is_charged_for_it():
    """The noise of 1,500 answers about the same rows, of three sites of whom one is curious."""
    job, held = job_of(), coded(make_frame(30, 1))
    state = evaluation.start(job.domain, job.config, stream(0))
    sent = evaluation.broadcast(state, job.config)
    client = Client(held, 0, 3, size=30, shares=2)
    parts = evaluation.parts_of(5, CONFIG)
    ends = np.cumsum(evaluation.cells_of(np.array(DOMAIN.levels), parts))[:-1]
    exact, drawn = evaluation.counts_of(held, sent, CONFIG), []
    for number in range(1500):
        noise = Noise(job.noise_multiplier, stream(5, number))
        update = evaluation.client_step(sent, client, job.config, noise, stream(0))
        drawn.append(np.split(update.summed["counts"] - exact, ends))
    for place, charge in enumerate(update.summed_spent):
        part = np.array([each[place] for each in drawn])
        assert part.var() * client.shares == pytest.approx(charge.noise**2, rel=0.12), charge.what
    planned = evaluation.plan(job.noise_multiplier, job.domain, 30, CONFIG)
    assert update.summed_spent == planned


# --- an audit, as those of the methods -----------------------------------------------------------

TWO = Schema(
    (
        Column("first", "categorical", categories=("no", "yes")),
        Column("second", "categorical", categories=("no", "yes")),
    ),
    target="second",
)
OTHERS = (("no", "no"),) * evaluation.MIN_ROWS
RECORD = ("yes", "yes")


@pytest.mark.slow
def test_the_claimed_epsilon_stands_an_audit_that_catches_too_little_noise():
    """The likelihood ratio of all cells that the record is in, of one site's noisy sum."""
    made = pd.DataFrame({"first": ["no", "yes"], "second": ["no", "yes"]})
    encode = evaluation.encoder(TWO, evaluation.config_for(TWO))
    config = evaluation.config_for(TWO, synthetic=encode.transform(made))
    privacy = Privacy(2.0, 1e-5)
    job = evaluation.job_for(TWO, privacy, [len(OTHERS) + 1], synthetic=made, config=config)
    state = evaluation.start(job.domain, config, stream(0))
    absent, there = (
        encode.transform(pd.DataFrame(rows, columns=TWO.names))
        for rows in (OTHERS, (*OTHERS, RECORD))
    )
    known, moved = (evaluation.counts_of(rows, state, config) for rows in (absent, there))
    parts = evaluation.parts_of(2, config)
    cells = evaluation.cells_of(state["levels"], parts)
    variances = np.repeat(evaluation.scales_of(job.noise_multiplier, parts) ** 2, cells)
    at = np.flatnonzero(moved - known)
    assert len(at) == 5  # all rows, two columns, their pair, the scores

    fit = fits.skellam(
        lambda multiplier: evaluation.plan(multiplier, job.domain, len(OTHERS) + 1, config),
        job.noise_multiplier,
    )

    def bound(multiplier):
        score = audit_scores.skellam(
            lambda _, seen: np.stack([seen - known, moved - known, variances], axis=1)[at]
        )(None)

        def released(rows, run):
            client = Client(rows, 0, 1, size=len(OTHERS) + 1)
            noise = Noise(multiplier, stream(9, run, len(rows)))
            sent = evaluation.client_step(state, client, config, noise, stream(0))
            return score(sent.summed["counts"])

        scores = [[released(rows, run) for run in range(800)] for rows in (there, absent)]
        return usual_bound(scores, 1e-5, fit=fit)

    assert 0.2 < bound(job.noise_multiplier) < 2.0 < bound(0.3 * job.noise_multiplier)


# --- what is said, and what is refused -----------------------------------------------------------


def test_budgets_of_other_people_do_not_add_up_and_those_of_the_same_do():
    others, same = (run(trained=3.0, other_people=other_people) for other_people in (True, False))
    assert "never both: 3 at most" in others.text and "5 together" in same.text
    assert evaluation.OTHER_PEOPLE in others.statement["public_inputs"]
    assert evaluation.OTHER_PEOPLE not in same.statement["public_inputs"]
    assert run().text == ""


def test_synthetic_rows_of_one_class_leave_an_area_of_a_half():
    same = SYNTHETIC[SYNTHETIC["ill"] == "no"]
    found = evaluate_sites(SITES, same, SCHEMA, Privacy()).all_sites
    assert found.figures.loc[evaluation.AUC, "value"] == pytest.approx(0.5)


def test_without_a_target_nothing_is_classified():
    plain = SCHEMA.drop(["ill"])
    sites = {name: frame.drop(columns="ill") for name, frame in SITES.items()}
    found = evaluate_sites(sites, SYNTHETIC, plain, PRIVATE)
    assert evaluation.AUC not in found.all_sites.figures.index
    assert found.statement["epsilon"] == pytest.approx(2.0, abs=1e-6)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"sites": {"a": make_frame(400, 1), "b": make_frame(19, 1)}}, "site b: 19 held-out rows"),
        ({"synthetic": SYNTHETIC.iloc[:0]}, "the table has no rows"),
        ({"synthetic": SYNTHETIC.drop(columns="age")}, "column 'age' is missing"),
        ({"sizes": [700, 500, 3]}, "site west: 3 held-out rows were declared"),
        ({"privacy": Privacy(1.0, 0.5)}, "above 1 / n"),
    ],
)
def test_what_cannot_be_evaluated_is_refused_before_anything_is_released(change, message):
    given = {"sites": SITES, "synthetic": SYNTHETIC, "schema": SCHEMA, "privacy": PRIVATE} | change
    with pytest.raises(BadInput, match=message):
        evaluate_sites(**given)


def test_a_site_refuses_too_few_declared_rows():
    config = replace(CONFIG, synthetic=coded(SYNTHETIC))
    state = evaluation.broadcast(evaluation.start(DOMAIN, config, stream(0)), config)
    few = Client(coded(make_frame(30, 1)), 1, 3, size=5)
    with pytest.raises(BadInput, match="client 1: 5 held-out rows were declared"):
        evaluation.client_step(state, few, config, None, stream(0))


def test_no_levels_that_a_server_sends_make_a_row_count_twice_or_fail():
    config = replace(CONFIG, synthetic=coded(SYNTHETIC))
    state = evaluation.start(DOMAIN, config, stream(0)) | {"levels": np.full(5, 3)}
    rows = coded(make_frame(30, 1))
    before, after = (evaluation.counts_of(held, state, config) for held in (rows[1:], rows))
    assert before.shape == after.shape
    assert (after - before).sum() <= 17 and (after - before).min() == 0  # as many tables
