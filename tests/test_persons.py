"""Several rows of one person: the draft asks, a statement says its unit first, and where that is a
person, epsilon is for all rows of a person together."""

import warnings

import numpy as np
import pandas as pd
import pytest
from scipy import stats

import fedsynth_lib as fs
from fedsynth_lib.core import ledger
from fedsynth_lib.core.contract import BadInput, Privacy
from fedsynth_lib.release import persons, your_table
from fedsynth_lib.release.draft import propose_schema
from fedsynth_lib.tables.form import read_form
from fedsynth_lib.tables.load import load_table

RNG = np.random.default_rng(0)
PEOPLE = 150


def visits(numbers):
    """Four rows of each person, whose sex and year of birth are the same in all of them."""
    person = np.repeat(np.arange(PEOPLE), 4)
    return pd.DataFrame(
        {
            "who": np.array(numbers)[person],
            "visit": np.tile([1, 2, 3, 4], PEOPLE),
            "sex": RNG.choice(["F", "M"], PEOPLE)[person],
            "born": RNG.integers(1930, 1995, PEOPLE)[person],
            "sbp": RNG.normal(120, 12, len(person)).round().astype(int),
        }
    )


def test_a_draft_asks_whether_several_rows_are_of_one_person(tmp_path):
    for numbers in ([f"P{n:04}" for n in range(PEOPLE)], [10_001 + 7 * n for n in range(PEOPLE)]):
        visits(numbers).to_csv(tmp_path / "own.csv", index=False)
        form = read_form(propose_schema(tmp_path / "own.csv", out=tmp_path / f"{numbers[0]}.toml"))
        who, *others = form.columns
        assert who.kind == "identifier" and not any(column.question for column in others)
        assert "(4.0 on average, 4 at most) never differ in sex, born" in who.question
        assert "do several rows belong to one person?" in who.question
        assert 'write unit = "who" and most_rows = 4, or fewer, under [table]' in who.question
        assert not form.rules  # that sex follows from a person's number is said by the question


def test_a_table_of_one_row_a_person_is_not_asked(tmp_path):
    rows = visits([f"P{n:04}" for n in range(PEOPLE)])
    for name, frame in {
        "firsts": rows[rows["visit"] == 1],
        "wards": rows.assign(who=RNG.choice([f"W{n}" for n in range(40)], len(rows))),
        "codes": rows.assign(who=np.array(list("abcde"))[RNG.integers(0, 5, len(rows))]),
    }.items():
        frame.to_csv(tmp_path / f"{name}.csv", index=False)
        form = read_form(propose_schema(tmp_path / f"{name}.csv"))
        assert not any("one person" in column.question for column in form.columns)


def test_a_statement_says_first_that_its_unit_is_a_row(tmp_path):
    visits(range(PEOPLE)).drop(columns="who").to_csv(tmp_path / "own.csv", index=False)
    text = propose_schema(tmp_path / "own.csv").read_text("utf-8")
    text = "".join(line for line in text.splitlines(True) if not line.startswith("question"))
    text = text.replace('source = "read from the rows"', 'source = "code book"')
    (tmp_path / "own.toml").write_text(text, "utf-8")
    made = your_table.synthesize(
        tmp_path / "own.csv", method="independent", epsilon=1.0, delta=1e-6, out=tmp_path / "out"
    )
    first = made.text.splitlines()[2]
    assert first.startswith(
        "**epsilon = 1, delta = 1e-06.** The unit is one record, a row of the table:"
    )
    assert "a person with k rows has k times the epsilon, and a larger delta." in first


# --- a person as the unit -------------------------------------------------------------------------

SITES = ["north", "south", "west"]
UNIT = {"unit": "who", "most_rows": 4}
DECLARED = """
[table]
[[column]]
name = "who"
kind = "identifier"
[[column]]
name = "sbp"
kind = "numeric"
low = 60
high = 220
integer = true
[[column]]
name = "ward"
kind = "categorical"
categories = ["north", "south", "west"]
"""


def many_visits(people=60, seed=0):
    """Zero to nine more rows of each person, few different ones, at several sites."""
    rng = np.random.default_rng(seed)
    who = np.repeat(np.arange(people), rng.integers(1, 10, people))
    frame = {"who": [f"P{n:03}" for n in who], "sbp": rng.integers(118, 122, len(who))}
    return pd.DataFrame(frame | {"ward": rng.choice(SITES, len(who))}).sample(
        frac=1, random_state=1
    )


def divided(frame, key, *, site="", num_clients=3):
    """The rows that are set aside, and those of each client, as (person, row) in their order."""
    table = load_table(frame, schema=DECLARED, private=True, **UNIT)
    counted = persons.rows_that_count(table, site=site, key=key)
    train, aside = your_table.split(counted, key=key, release=True)
    parts = your_table.clients(train, 0 if site else num_clients, site=site, key=key, release=True)
    tables = [aside, *(train.take(part) for part in parts)]
    return [
        list(zip(each.persons, each.frame["sbp"], each.frame["ward"], strict=True))
        for each in tables
    ]


@pytest.mark.slow
@pytest.mark.parametrize("site", ["", "ward"])
def test_one_person_less_is_at_most_so_many_rows_less(site):
    """Whoever it is and however many rows they have: all that goes is theirs, from one pile, and
    every other row stays in its place."""
    frame = many_visits()
    key = your_table.key_of(0, release=False)
    whole = divided(frame, key, site=site)
    numbers = frame["who"].value_counts()
    assert numbers.max() == 9
    for person, number in numbers.items():
        less = divided(frame[frame["who"] != person], key, site=site)
        gone = [sum(who == person for who, *_ in pile) for pile in whole]
        assert sum(gone) == max(gone)  # on one side of the split, at one site
        assert sum(gone) == min(number, 4) if not site else 1 <= sum(gone) <= 4
        assert less == [[row for row in pile if row[0] != person] for pile in whole]


@pytest.mark.slow
def test_a_row_beyond_the_limit_has_no_influence():
    frame = many_visits()
    key = your_table.key_of(0, release=False)
    whole = divided(frame, key)
    kept = sorted(row for pile in whole for row in pile)
    left_out, rows = 0, list(frame.itertuples(index=False, name=None))
    for place, row in enumerate(rows):
        if row not in kept:
            assert divided(frame.drop(index=frame.index[place]), key) == whole
            left_out += 1
    assert left_out > 20


def test_other_keys_keep_other_rows_and_the_order_of_the_file_none():
    frame = many_visits()
    keys = [your_table.key_of(seed, release=False) for seed in (0, 1)]
    assert divided(frame, keys[0]) != divided(frame, keys[1])
    assert divided(frame.sample(frac=1, random_state=5), keys[0]) == divided(frame, keys[0])


def hockey_stick(p, q, epsilon):
    """The least delta at which p is within exp(epsilon) of q, by all their outcomes."""
    return float(np.maximum(p - np.exp(epsilon) * q, 0).sum())


@pytest.mark.slow
@pytest.mark.parametrize("most_rows", [1, 2, 4, 9])
@pytest.mark.parametrize("epsilon", [0.3, 1.0, 4.0])
def test_the_budget_of_a_row_gives_a_group_what_was_asked_for(most_rows, epsilon):
    """Counts of 0 to k rows with noise for one row: their distributions, outcome by outcome."""
    asked = Privacy(epsilon, 1e-3)
    row = persons.row_budget(asked, most_rows)
    outcomes = np.arange(-4_000, 4_000)
    scale = 1 / row.epsilon
    spread = next(
        s
        for s in np.geomspace(0.1, 500, 2_000)
        if hockey_stick(*(stats.norm.pdf(outcomes / 4, k, s) / 4 for k in (1, 0)), row.epsilon)
        <= row.delta
    )
    for noisy, tight in (
        (lambda k: stats.dlaplace.pmf(outcomes - k, 1 / scale), 1.0),
        (lambda k: stats.norm.pdf(outcomes / 4, k, spread) / 4, 0.3),
    ):
        assert hockey_stick(noisy(1), noisy(0), row.epsilon) <= row.delta * (1 + 1e-6)
        for one, other in ((most_rows, 0), (0, most_rows)):
            found = hockey_stick(noisy(one), noisy(other), epsilon)
            assert found <= asked.delta * (1 + 1e-6)
        assert hockey_stick(noisy(most_rows), noisy(0), tight * epsilon) > 0


def test_the_bound_is_met_by_a_chain_of_tables():
    """Where each step may cost all that it is allowed, the group costs just what was asked for."""
    row = persons.row_budget(Privacy(1.0, 1e-3), 4)
    steps = [0.01]
    for _ in range(4):
        steps.append(np.exp(row.epsilon) * steps[-1] + row.delta)
    assert steps[-1] == pytest.approx(np.exp(1.0) * steps[0] + 1e-3, rel=1e-12)


def synthesized(frame, **options):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        chosen = {"schema": DECLARED, "epsilon": 2.0, "method": "independent"}
        return fs.synthesize(frame, **chosen | UNIT | options)


def test_a_person_costs_what_is_stated(home):
    """With the same noise, one person less moves counts by as much as four rows, and the
    scale of its noise makes that the epsilon that was asked for."""
    frame, models = many_visits(), [home / "whole", home / "less"]
    person = frame["who"].value_counts().index[0]
    made = [
        synthesized(each, save_model=path, declared_rows=300)
        for each, path in zip((frame, frame[frame["who"] != person]), models, strict=True)
    ]
    counts = [fs.load_model(path).state["counts"] for path in models]
    statement = made[0][1]
    (entry,) = statement["entries"]
    moved = np.abs(np.subtract(*counts)).sum()
    assert 0 < moved <= 4 * entry["sensitivity"]
    assert statement["epsilon"] == pytest.approx(4 * entry["sensitivity"] / entry["scale"])
    assert 1.999 < statement["epsilon"] <= statement["budget"] == 2.0
    assert statement["delta"] == 1e-6
    first = str(statement).splitlines()[2]
    assert first.startswith(
        "**epsilon = 2, delta = 1e-06.** The unit is one person with up to 4 rows: further rows of "
        "a person are left out. Adding or removing one person makes no outcome more than"
    )
    assert "a person with k" not in str(statement)
    assert "'who' says whose a row is, and that 4 rows of a person count" in str(statement)
    assert list(made[0][0]) == ["sbp", "ward"]


def test_counted_rows_and_gaussian_noise_are_paid_for_by_persons(home):
    """The count of rows is a part of the budget for a person; a larger figure than that is none."""
    _, statement = synthesized(many_visits(), method="fedpgm")
    counted = statement["entries"][0]
    assert counted["what"] == "number of rows"
    assert 4 / counted["scale"] == pytest.approx(2 * your_table.COUNT_SHARE)
    assert statement["epsilon"] == pytest.approx(2.0, rel=1e-4)
    assert statement["epsilon"] <= 2.0 * (1 + 1e-6) and statement["epsilon_replace_one"] is None
    assert statement["epsilon_rdp"] is None or statement["epsilon_rdp"] <= 2.0 * (1 + 1e-6)


def test_the_books_count_persons_and_say_where_they_cannot(home):
    frame = many_visits()
    release = {"release": True, "declared_rows": 250, "population": "ward", "most_epsilon": 9.0}
    release["schema"] = DECLARED.replace("[table]", '[table]\nunit = "who"\nmost_rows = 4')
    for options in ({}, {"again": True}):
        _, statement = synthesized(frame, **release | options | {"unit": "", "most_rows": 0})
    assert "2 releases of the same rows: together they have epsilon = 4," in str(statement)
    assert "That is for one row" not in str(statement)
    book = ledger.open_ledger("ward")
    assert {line["unit"] for line in book.releases()} == {"one person with up to 4 rows"}
    assert book.total().epsilon == pytest.approx(4.0) and not book.total().mixed
    assert "rows, for one person with up to 4 rows" in ledger.as_text("ward")
    asked = release | {"schema": DECLARED, "again": True, "unit": "", "most_rows": 0}
    _, statement = synthesized(frame, **asked)
    assert "That is for one row, since some of them promise for a row" in str(statement)
    assert book.total().mixed and ledger.as_text("ward").endswith(", for one row")


@pytest.mark.parametrize(
    ("table", "options", "message"),
    [
        ('unit = "who"', {}, "unit is 'who', and most_rows is 0: give a whole number of at least"),
        ('unit = "who"\nmost_rows = 1.5', {}, "most_rows is 1.5: give a whole number"),
        ("most_rows = 4", {}, "most_rows is of persons: write unit, too"),
        ('unit = "ward"\nmost_rows = 4', {}, "the unit 'ward' must be a column of kind 'ident"),
        ('unit = "whom"\nmost_rows = 4', {}, "the unit 'whom' must be a column of kind 'ident"),
        ("unit = 5", {}, "unit is 5; write a name in quotation marks"),
        ("", {"most_rows": 3}, "most_rows is of persons: write unit, too"),
        ("", {"unit": "who"}, "most_rows is 0: give a whole number of at least 1"),
        ("", {"unit": "who", "most_rows": "4"}, "most_rows is '4': give a whole number"),
        ('unit = "who"\nmost_rows = 2', UNIT, "with 4 rows, and the schema says 'who' with 2"),
    ],
)
def test_a_unit_that_cannot_be_is_refused_in_a_sentence(table, options, message, home):
    schema = DECLARED.replace("[table]", f"[table]\n{table}")
    with pytest.raises(BadInput, match=message) as refused:
        synthesized(many_visits(), **{"schema": schema, "unit": "", "most_rows": 0} | options)
    assert "\n" not in str(refused.value)


def test_a_row_of_nobody_is_refused_and_a_form_keeps_its_unit(home, tmp_path):
    frame = many_visits()
    frame.iloc[3, 0] = None
    with pytest.raises(BadInput, match=r"column 'who' holds no value \(.*\); fill it in, for it"):
        synthesized(frame)
    fitting = many_visits()[["ward", "who", "sbp"]]
    form = load_table(fitting, schema=DECLARED, **UNIT).form
    (tmp_path / "again.toml").write_text(form.to_toml(), "utf-8")
    assert read_form(tmp_path / "again.toml") == form and form.names == ("ward", "who", "sbp")
