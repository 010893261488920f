"""A method of someone's own: the example beside notebook 82, registering it, and what its promises
catch."""

from dataclasses import replace
from itertools import product
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import promises
import pytest

from fedsynth_lib.core.contract import BadInput, Client, Domain, Method, Privacy, stream
from fedsynth_lib.federation import settings
from fedsynth_lib.methods import METHODS, OWN, from_file, key_of, register
from fedsynth_lib.methods.marginals import independent
from fedsynth_lib.metrics import fidelity

FILE = Path(__file__).parents[1] / "notebooks" / "your_method.py"


@pytest.fixture
def star():
    return from_file(FILE)


@pytest.fixture
def registry():
    yield
    for key in list(OWN):
        del METHODS[key]
    OWN.clear()


def changed(method, **replaced):
    """A copy of a method with parts exchanged, or left out where None."""
    parts = {
        name: value for name, value in vars(method).items() if not name.startswith("__")
    } | replaced
    return SimpleNamespace(
        __name__="mine", **{name: value for name, value in parts.items() if value is not None}
    )


def test_it_keeps_every_promise(star, table):
    assert promises.broken(star, table) == {}


@pytest.mark.slow
def test_broken_promises_are_named(star, table):
    def silent(state, client, config, noise, rng):
        return star.client_step(state, client, config, None, rng)

    def trusting(state, client, config, noise, rng):
        return star.client_step(
            state, replace(client, shares=client.num_clients), config, noise, rng
        )

    def thrifty(state, updates, config, noise, rng):
        return star.server_step(state, updates, config, noise, rng)[0], []

    assert promises.broken(changed(star), table) == {}
    no_noise = {
        "noise_reaches_the_state",
        "divides_noise_among_the_honest",
        "draws_what_it_charges",
    }
    assert promises.broken(changed(star, client_step=silent), table).keys() == no_noise
    assert promises.broken(changed(star, server_step=thrifty), table).keys() == {
        "spends_what_it_planned",
        "draws_what_it_charges",
    }
    shares = promises.broken(changed(star, client_step=trusting), table).keys()
    # one curious client could take off its own
    assert shares == {"divides_noise_among_the_honest", "draws_what_it_charges"}


def test_one_record_moves_the_counts_by_the_stated_sensitivity(star):
    """All tables of two rows over 2 x 3 x 2 levels, and each with one row more."""
    domain, config = Domain(("a", "b", "c"), (2, 3, 2)), star.Config(root="b")
    state, rows = star.start(domain, config, stream(0)), list(product(range(2), range(3), range(2)))
    charged = star.plan(1.0, domain, 2, config)[0].sensitivity

    def counts(table):
        client = Client(np.array(table), 0, 1)
        return star.client_step(state, client, config, None, stream(0)).summed["counts"]

    for first, second, added in product(rows, repeat=3):
        before, after = counts([first, second]), counts([first, second, added])
        assert before.sum() == 2 * 2 and np.abs(after - before).sum() == charged == 2
    assert counts([(1, 2, 0)]).tolist() == [[0, 0, 0, 0], [0, 0, 0, 0], [0, 1, 1, 0]]


def test_without_noise_it_has_the_pairs_with_the_root_and_no_others(star, table):
    run = settings.central(
        star, table, config=star.Config(root="ill", bins=40), seed=1, num_rows=50_000
    )
    real, made = (
        fidelity.associations(frame, table.schema) for frame in (table.frame, run.synthetic)
    )
    names = list(table.schema.names)
    ill, age, weight = (names.index(name) for name in ("ill", "age", "weight"))
    assert np.abs(real[ill] - made[ill]).max() < 0.06  # 1200 rows
    assert made[age, weight] < real[age, weight] - 0.2 and real[age, weight] > 0.5


def test_levels_without_counts_are_drawn_evenly(star):
    state = {"root": np.array(0), "others": np.array([4]), "counts": np.array([[-3, -1, 0, -2]])}
    rows = star.sample(state, 8000, star.Config(), stream(0))
    assert rows.shape == (8000, 2) and np.abs(np.bincount(rows[:, 1]) / 8000 - 0.25).max() < 0.03


def test_an_unknown_root_is_named(star, table):
    with pytest.raises(
        BadInput, match="root 'sick' must be one of two or more columns: age, weight"
    ):
        settings.central(star, table, config=star.Config(root="sick"), privacy=Privacy(1.0))


def test_a_registered_method_is_one_of_the_methods(star, registry):
    assert register("star", star) == Method.of(star) == METHODS["star"]
    assert key_of(star) == "star"
    again = from_file(FILE)
    with pytest.raises(
        BadInput, match="'star' is registered already; give another key, or replace=True"
    ):
        register("star", again)
    assert key_of(again) is None  # another run of the same file
    assert register("star", again, replace=True) == METHODS["star"] != Method.of(star)


@pytest.mark.parametrize(
    ("key", "replaced", "message"),
    [
        ("aim", {}, "'aim' is one of the bundle's"),
        ("My Method", {}, "key 'My Method' stands in result rows"),
        ("mine", {"VERSION": None}, "mine: there is no VERSION; write VERSION = 1"),
        ("mine", {"sample": None}, r"there is no sample\(state, num_rows, config, rng\)"),
        (
            "mine",
            {"plan": lambda noise, domain, config: []},
            r"plan takes \(noise, domain, "
            r"config\); it must take \(n",
        ),
        (
            "mine",
            {"check_broadcast": lambda state, config: None},
            r"check_broadcast takes \(state, config\); it must take \(state, domain, config, round\)",
        ),
        ("mine", {"Config": None}, "there is no Config"),
        (
            "mine",
            {"Config": SimpleNamespace},
            r"Config\(\)\.rounds is missing \(.*no attribute "
            r"'rounds'",
        ),
        (
            "mine",
            {"Config": lambda rounds: None},
            r"Config\(\)\.rounds is missing .*required "
            r"positional argument",
        ),
        ("mine", {"Config": lambda: SimpleNamespace(rounds=0)}, r"Config\(\)\.rounds is 0"),
    ],
)
def test_what_cannot_be_registered_is_said(key, replaced, message, registry):
    with pytest.raises(BadInput, match=message):
        register(key, changed(independent, **replaced), replace=True)
    assert not OWN


def test_every_method_of_the_bundle_could_be_registered(registry):
    for key, method in list(METHODS.items()):
        register(f"my_{key}", method)


def test_a_file_is_read_anew_and_its_mistakes_are_named(tmp_path):
    mine = tmp_path / "mine_alone.py"
    for number in (1, 2):
        # another size: Python compares time and size
        mine.write_text(f"VERSION = {number}  # {'x' * number}\n")
        found = from_file(mine)
        assert found.VERSION - number == 0
    mine.write_text("VERSION = 1 / 0\n")
    with pytest.raises(
        BadInput,
        match=r"mine_alone\.py: the file does not run \(ZeroDivisionError: division by "
        r"zero\)",
    ):
        from_file(mine)
    with pytest.raises(BadInput, match=r"gone\.py: there is no such Python file"):
        from_file(tmp_path / "gone.py")
    (tmp_path / "numpy.py").write_text("VERSION = 1\n")
    with pytest.raises(BadInput, match="Python knows another module 'numpy'; rename the file"):
        from_file(tmp_path / "numpy.py")
    assert np.__name__ == "numpy"
