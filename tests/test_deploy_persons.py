"""A study of several sites whose unit of privacy is a person with several rows at one site."""

import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from sites import carried_out, make, study_in

from fedsynth_lib.core.accounting import epsilon_of
from fedsynth_lib.core.contract import BadInput
from fedsynth_lib.core.ledger import Refused, as_text
from fedsynth_lib.federation import flower
from fedsynth_lib.release.deploy import site
from fedsynth_lib.release.deploy.place import Own, Place
from fedsynth_lib.release.deploy.study import differences, read_study

MOST = 3
PEOPLE = {"north": 120, "south": 80, "west": 60}
SCHEMA = f"""\
[table]
target = "sick"
unit = "who"
most_rows = {MOST}

[[column]]
name = "who"
kind = "identifier"

[[column]]
name = "age"
kind = "numeric"
low = 18
high = 100
integer = true

[[column]]
name = "sick"
kind = "categorical"
categories = ["no", "yes"]
"""


def visits(name: str) -> pd.DataFrame:
    """One to eight visits of each person of a site."""
    rng = np.random.default_rng(len(name))
    who = np.repeat(np.arange(PEOPLE[name]), rng.integers(1, 9, PEOPLE[name]))
    age = rng.integers(18, 101, len(who))
    sick = np.array(["no", "yes"])[(rng.random(len(who)) < age / 150) * 1]
    rows = pd.DataFrame({"who": [f"{name}{n}" for n in who], "age": age, "sick": sick})
    return rows.sample(frac=1, random_state=1)


def counted(rows: pd.DataFrame) -> int:
    return int(rows["who"].value_counts().clip(upper=MOST).sum())


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """Keys, files of visits and a schema with a unit; nobody changes them."""
    folder = tmp_path_factory.mktemp("persons")
    make(folder)
    (folder / "schema.toml").write_text(SCHEMA)
    for name in PEOPLE:
        visits(name).to_csv(folder / f"{name}.csv", index=False)
    rows = {name: counted(visits(name)) for name in PEOPLE}
    asked = {"epsilon": 2.0, "absent": 1, "colluding": 0, "seed": 5, "config": {"bins": 6}}
    study_in(folder, folder / "persons", rows, **asked)
    return folder


@pytest.fixture
def folder(made, tmp_path, monkeypatch):
    """A test's own copy, as sites keep their ledgers in it."""
    monkeypatch.setenv("FEDSYNTH_HOME", str(tmp_path))
    return Path(shutil.copytree(made, tmp_path / "parties"))


@pytest.fixture
def study(folder):
    return read_study(folder / "persons")


def place_of(folder, study, name: str = "north") -> Place:
    place = Own(folder / name).place(study, name, folder / f"{name}.csv")
    place.ledger.agree(1)
    return place


@pytest.mark.parametrize("release", [False, True])
def test_one_person_less_is_at_most_so_many_rows_less_on_one_side(folder, study, release):
    """Every other row stays where it is."""
    study = replace(study, holdout=0.4, evaluation_epsilon=1.0, release=release)
    place = place_of(folder, study)
    assert bool(place.split_key) == release
    whole = [side.to_numpy().tolist() for side in place.divided()]
    persons = place.table.persons
    for person in pd.unique(persons)[:25]:
        rows = np.flatnonzero(persons == person)
        others = place.table.take(np.flatnonzero(persons != person))
        less = [side.to_numpy().tolist() for side in replace(place, table=others).divided()]
        gone = [len(before) - len(after) for before, after in zip(whole, less, strict=True)]
        assert sum(gone) == max(gone) == min(len(rows), MOST)
        for before, after in zip(whole, less, strict=True):
            left = iter(before)
            assert all(row in left for row in after)  # in the same order


def test_the_noise_that_is_drawn_is_that_which_a_person_is_charged_for(study):
    """Sites whose noise is needed draw together what makes all rows of a person cost epsilon."""
    job, empty = study.plan.job, np.zeros((0, 2), np.int32)
    state = job.method.start(job.domain, config=job.config, rng=np.random.default_rng(0))
    needed = job.privacy.shares(len(PEOPLE))
    assert needed == 2  # one may be absent
    drawn = [
        sum(
            job.method.client_step(
                state,
                job.client(empty, index, len(PEOPLE), {}),
                config=job.config,
                noise=job.noise("client", index, number),
                rng=None,
            ).summed["counts"]
            for index in range(needed)
        )
        for number in range(400)
    ]
    (charge,) = job.method.plan(job.noise_multiplier, job.domain, 1, job.config)
    columns = len(job.domain.names)
    scale = MOST * columns / study.epsilon  # a person moves so many counts by so many rows
    assert charge.noise * columns == pytest.approx(scale, rel=1e-6)
    fade = np.exp(-1 / scale)
    assert np.var(drawn) == pytest.approx(2 * fade / (1 - fade) ** 2, rel=0.15)
    assert MOST * epsilon_of([charge]) == pytest.approx(study.epsilon)


def test_statements_and_ledgers_say_what_a_person_pays(folder, study, tmp_path, monkeypatch):
    study = replace(study, holdout=0.4, evaluation_epsilon=1.0)
    places = [place_of(folder, study, name) for name in PEOPLE]
    carried_out(study, places, tmp_path)
    monkeypatch.setattr(flower, "LOCAL_RUN", 2)
    rows = tmp_path / "hearts_rehearsal.csv"
    assert rows.read_text().startswith("age,sick\n")
    carried_out(study, places, tmp_path, evaluate=str(rows))
    for ending, epsilon in (("", 2), ("_evaluation", 1)):
        said = (tmp_path / f"hearts_rehearsal{ending}_privacy.md").read_text()
        first = f"**epsilon = {epsilon}, delta = 1e-06.** The unit is one person with up to 3 rows"
        assert first in said and "that no person has rows at two sites" in said
        assert "a person with k" not in said
    assert "a keyed hash of who a row is of puts all rows of a person on one side" in said
    for place in places:
        total = place.ledger.total()
        assert (total.epsilon, total.delta) == (pytest.approx(3.0), pytest.approx(2e-6))
        assert not total.mixed
    shown = as_text("north", folder / "north").splitlines()
    assert shown[0].endswith("as a client, run 1, for one person with up to 3 rows")


def test_a_site_pays_for_a_person_and_not_for_a_row(folder, study):
    own = Own(folder / "north")
    (own.folder / "budget.toml").write_text('population = "north"\nmost_epsilon = 1.9')
    book = own.open_ledger(study)
    book.agree(1)
    with pytest.raises(Refused, match=r"have spent epsilon 0, and 2 more would exceed 1\.9"):
        book.begin(study.plan.job, 0, run=1, number=0)


def test_a_count_of_rows_is_for_a_person_too(folder, study, monkeypatch):
    """It is of the rows that count, with the noise that the study says was paid for."""
    scales = []

    def share(scale, *_, **__):
        scales.append(scale)
        return np.array([0])

    monkeypatch.setattr(site, "discrete_laplace_share", share)
    own, schema = Own(folder / "north"), folder / "schema.toml"
    assert site.noisy_count(own, folder / "north.csv", schema, 0.5) == counted(visits("north"))
    (charge,) = replace(study, counted_epsilon=0.5).before
    assert scales == [charge.noise] and MOST * epsilon_of([charge]) == pytest.approx(0.5)
    (line,) = own.open_ledger().releases()
    assert (line["epsilon"], line["unit"]) == (0.5, "one person with up to 3 rows")


def test_a_study_says_its_unit_and_sites_compare_it(folder, study):
    assert "epsilon 2, delta 1e-06, for one person with up to 3 rows" in "\n".join(study.lines())
    theirs = study.terms() | {"unit": ["who", 4]}
    assert differences(theirs, study.terms()) == [
        'unit is ["who", 3] here and ["who", 4] at the server'
    ]
    with pytest.raises(BadInput, match="only the site may know which rows are set aside or left"):
        replace(place_of(folder, replace(study, release=True)), split_key=b"")
