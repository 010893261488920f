"""One row less in the file: it moves itself and nobody else, and an audit of the whole way finds
what is claimed."""

import numpy as np
import pandas as pd
import pytest
from scipy.stats import beta

from fedsynth_lib.core.accounting import epsilon_of
from fedsynth_lib.core.contract import BadInput, Privacy
from fedsynth_lib.federation import settings
from fedsynth_lib.methods.marginals import independent
from fedsynth_lib.release import your_table
from fedsynth_lib.tables.load import Table, load_table
from fedsynth_lib.tables.load import split as split_by_permutation
from fedsynth_lib.tables.partition import row_draws, split_clients
from fedsynth_lib.tables.schema import Column, Schema

SCHEMA = Schema(
    (
        Column("age", "numeric", 0, 9, True),
        Column("dose", "numeric", -1.0, 1.0),
        Column("ward", "categorical", categories=("a", "b", "c")),
    )
)
KEY = your_table.key_of(0, release=False)


def people(num_rows, seed=0):
    """A third of the rows have an equal one."""
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame(
        {"age": rng.integers(0, 10, num_rows), "dose": rng.integers(-4, 5, num_rows) / 4}
    )
    frame["ward"] = pd.Categorical.from_codes(
        rng.integers(0, 3, num_rows), categories=["a", "b", "c"]
    )
    return Table("people", frame, SCHEMA, "own")


def piles(table, key, num_clients=3):
    """The rows set aside and those of each client, each as a list in its order."""
    train, aside = your_table.split(table, key=key)
    parts = your_table.clients(train, num_clients, key=key)
    frames = [aside.frame, *(train.frame.iloc[part] for part in parts)]
    return [list(frame.itertuples(index=False, name=None)) for frame in frames]


def without(table, position):
    return table.take(np.delete(np.arange(len(table)), position))


@pytest.mark.slow
def test_one_row_less_is_one_row_less_in_one_pile():
    table = people(600)
    assert table.frame.duplicated(keep=False).mean() > 0.3
    whole = piles(table, KEY)
    for position in np.random.default_rng(1).permutation(600)[:200]:
        row, less = tuple(table.frame.iloc[position]), piles(without(table, position), KEY)
        (changed,) = [number for number in range(4) if less[number] != whole[number]]
        where = whole[changed].index(row)
        alike = [
            whole[changed][:k] + whole[changed][k + 1 :]
            for k, each in enumerate(whole[changed])
            if each == row
        ]
        assert less[changed] in alike, f"row {where} is not all that went"


def test_the_order_of_the_file_has_no_part_in_it():
    table = people(300)
    shuffled = table.take(np.random.default_rng(2).permutation(300))
    assert piles(shuffled, KEY) == piles(table, KEY)


def test_keys_and_purposes_deal_anew():
    table = people(400)
    assert your_table.key_of(0, release=False) == KEY != your_table.key_of(1, release=False)
    secret = your_table.key_of(0, release=True)
    assert secret != your_table.key_of(0, release=True) and len(secret) == 32
    assert piles(table, secret) != piles(table, KEY)
    draws = [row_draws(table.frame, key=KEY, purpose=purpose) for purpose in ("split", "deal")]
    assert abs(np.corrcoef(*draws)[0, 1]) < 0.2
    with pytest.raises(BadInput, match="1 rows are too few to set some aside"):
        your_table.split(people(1), key=KEY)


def test_what_a_test_draws_from_the_system_comes_again_in_its_next_run():
    """So no test of a release fails once in fifty runs: `entropy_that_comes_again` in conftest.py."""
    drawn = [np.random.default_rng().integers(1_000_000) for _ in range(2)]
    assert drawn == [515817, 77693] and your_table.key_of(0, release=True).hex()[:8] == "9c9dd386"


def test_shares_are_as_asked():
    """Counts are binomial: five standard deviations. Draws are even, and equal rows draw apart."""
    table = people(20_000)
    aside, *clients = map(len, piles(table, KEY, 4))
    assert abs(aside - 4_000) < 5 * np.sqrt(20_000 * 0.2 * 0.8)
    assert all(abs(count - 4_000) < 5 * np.sqrt(16_000 * 3 / 16) for count in clients)
    equal = pd.concat([table.frame.iloc[:1]] * 1_000)
    draws = row_draws(equal, key=KEY, purpose="split")
    assert len(np.unique(draws)) == 1_000 and abs(draws.mean() - 0.5) < 5 * np.sqrt(1 / 12_000)
    assert draws.min() >= 0 and draws.max() < 1


def test_minus_zero_is_zero():
    frame = people(10).frame
    two = [frame.assign(dose=zero) for zero in (0.0, -0.0)]
    assert (
        row_draws(two[0], key=KEY, purpose="x") == row_draws(two[1], key=KEY, purpose="x")
    ).all()


# --- how many rows there are ---------------------------------------------------------------------


def test_declared_rows_are_taken_and_the_true_ones_are_not():
    parts = [np.arange(k) for k in (50, 70, 90)]
    assert your_table.declared_sizes(parts, declared_rows=[1_000], epsilon=1.0, seed=0) == (
        [267] * 3,
        [],
    )
    sites = your_table.declared_sizes(
        parts, site="ward", declared_rows=[100, 200, 50], epsilon=1.0, seed=0
    )
    assert sites == ([80, 160, 40], [])
    for wrong, site in (
        ([100, 200], "w"),
        ([100], "w"),
        ([1, 2, 5], ""),
        ([-5], ""),
        ([9, 0, 5], "w"),
    ):
        with pytest.raises(BadInput, match=r"give (those of each of the 3 sites|one number, of)"):
            your_table.check_declared_rows(wrong, 3 if site else 1, site=site)


def test_rows_that_nobody_declares_are_counted_with_noise_that_is_paid_for():
    parts = [np.arange(1_000)] * 4
    sizes, charges = your_table.declared_sizes(parts, epsilon=2.0, seed=None)
    assert len(set(sizes)) == 1 and epsilon_of(charges) == pytest.approx(0.02 * 2.0)
    totals = [
        4 * your_table.declared_sizes(parts, epsilon=2.0, seed=seed)[0][0] for seed in range(300)
    ]
    # scale 25: deviation 35
    assert np.mean(totals) == pytest.approx(4_000, abs=8) and 20 < np.std(totals) < 50
    at_sites, charges = your_table.declared_sizes(parts, site="ward", epsilon=2.0, seed=1)
    # a row is at one site
    assert len(set(at_sites)) > 1 and epsilon_of(charges) == pytest.approx(0.02 * 2.0)
    assert (
        min(your_table.declared_sizes([np.arange(1)] * 3, site="ward", epsilon=0.1, seed=2)[0]) >= 1
    )


def test_the_budget_of_a_run_pays_for_the_count():
    table = people(500)
    train, _ = your_table.split(table, key=KEY)
    parts = your_table.clients(train, 2, key=KEY)
    sizes, counted = your_table.declared_sizes(parts, epsilon=1.0, seed=0)
    run = settings.federated(
        independent, train, parts, privacy=Privacy(1.0), sizes=sizes, before=counted
    )
    assert run.statement["epsilon"] == pytest.approx(1.0) and len(run.synthetic) == sum(sizes)
    count, *others = run.statement["entries"]
    assert count["what"] == "number of rows" and 1 / count["noise_multiplier"] == pytest.approx(
        0.02
    )
    assert all(1 / other["noise_multiplier"] < 0.98 for other in others)


# --- the audit -----------------------------------------------------------------------------------


def bound(present, absent, confidence=0.95):
    """A lower bound of epsilon from scores of runs with and without the row (Clopper-Pearson, each
    side at half).

    The threshold is chosen on one half of the runs and judged on the other.
    """
    (p, p_judged), (a, a_judged) = (
        np.array_split(np.asarray(scores), 2) for scores in (present, absent)
    )
    slack, best = (1 - confidence) / 2, (-np.inf, 0.0)

    def certain(yes, no, of):
        low = beta.ppf(slack, yes, of - yes + 1) if yes else 0.0
        high = beta.ppf(1 - slack, no + 1, of - no) if no < of else 1.0
        return np.log(low / high) if low > 0 else 0.0

    for threshold in np.unique(np.concatenate([p, a])):
        best = max(
            best, (certain((p >= threshold).sum(), (a >= threshold).sum(), len(p)), threshold)
        )
    return certain((p_judged >= best[1]).sum(), (a_judged >= best[1]).sum(), len(p_judged))


@pytest.fixture(scope="module")
def file(tmp_path_factory):
    """1,500 rows in a file, and the same file without one of them, which the key sends to the rows
    to learn from."""
    folder = tmp_path_factory.mktemp("audit")
    whole = people(1_500).frame
    # whichever of equal rows goes, it is the draw of the last that is gone
    last = ~whole.duplicated(keep="last")
    one = int(np.argmax(np.where(last, row_draws(whole, key=KEY, purpose="split"), 0)))
    whole.to_csv(folder / "with.csv", index=False)
    whole.drop(index=one).to_csv(folder / "without.csv", index=False)
    return folder


def by_permutation(table):
    train, _ = split_by_permutation(table, seed=0)
    parts = split_clients(train, "iid", 3, seed=0)
    return train, parts, {}


def by_key(table):
    train, _ = your_table.split(table, key=KEY)  # known to the attacker, who learns nothing by it
    parts = your_table.clients(train, 3, key=KEY)
    sizes, counted = your_table.declared_sizes(parts, epsilon=1.0, seed=None)
    return train, parts, {"sizes": sizes, "before": counted}


def audit(file, prepare, runs):
    """An attack on the counts that `independent` releases: the likelihood ratio of two tables, both
    of them known."""
    tables = [load_table(file / name, schema=SCHEMA) for name in ("with.csv", "without.csv")]
    encoder = independent.encoder(SCHEMA, independent.Config())
    levels = encoder.domain.levels

    def counts(table):
        train, parts, _ = prepare(table)
        codes = encoder.transform(train.frame.iloc[np.concatenate(parts)])
        return np.concatenate(
            [np.bincount(column, minlength=n) for column, n in zip(codes.T, levels, strict=True)]
        )

    present, absent = map(counts, tables)

    def score(table):
        train, parts, options = prepare(table)
        privacy = Privacy(1.0, noise_seed=None)
        seen = settings.federated(independent, train, parts, privacy=privacy, **options).state[
            "counts"
        ]
        return np.abs(seen - absent).sum() - np.abs(seen - present).sum()

    return [[score(table) for _ in range(runs)] for table in tables], np.abs(present - absent).sum()


@pytest.mark.slow
def test_the_audit_finds_no_more_than_is_claimed_and_sees_through_a_permutation(file):
    scores, moved = audit(file, by_permutation, 300)
    assert moved > 20 and bound(*scores) > 2.5, (
        "the control must be caught: rows moved by the dozen"
    )
    scores, moved = audit(file, by_key, 300)
    assert moved == 3  # one row, in each of three columns
    # an alarm that is false once in a thousand tests
    assert bound(*scores, confidence=0.999) <= 1.0
