"""The state audit: nothing that a run shows may be an exact function of its rows; and what it must
catch."""

from dataclasses import replace

import numpy as np
import pytest

from fedsynth_lib.audit import state
from fedsynth_lib.audit.neighbours import Case, case_of, private_methods
from fedsynth_lib.methods.marginals import distaim, independent
from fedsynth_lib.methods.vae import fedvae


@pytest.mark.slow
@pytest.mark.parametrize("key", private_methods())
def test_nothing_that_a_private_run_shows_is_exact(key):
    assert state.audit_method(key, clients=2) == []


def without_numbers(case: Case) -> Case:
    """Return the case with the categorical columns alone."""
    places = [
        place for place, column in enumerate(state.SCHEMA.columns) if column.kind == "categorical"
    ]
    rows = [tuple(row[place] for place in places) for row in (*state.OTHERS, state.TARGET)]
    degree = {"degree": 1} if hasattr(case.config, "degree") else {}
    return replace(
        case,
        config=replace(case.config, **degree),
        schema=state.SCHEMA.drop(state.SCHEMA.numeric),
        others=tuple(rows[:-1]),
        target=rows[-1],
    )


@pytest.mark.parametrize(
    "key", [key for key in private_methods() if key not in ("fedvae", "findiff")]
)
def test_nor_on_a_table_without_numbers(key):
    assert state.audit(without_numbers(state.usual(case_of(key))), 1) == []


def broken(key, **verbs):
    """The usual case of a method with some verbs exchanged."""
    case = state.usual(case_of(key))
    return replace(case, method=replace(case.method, **verbs))


@pytest.mark.parametrize("key", ["aim", "distaim"])
def test_exact_counts_that_stay_in_the_model_are_caught(key):
    """As DistAIM did: all candidates' exact counts in `Run.state`, at any epsilon."""

    def keeps(previous, updates, config, noise, rng):
        following, charges = distaim.server_step(
            previous, updates, config=config, noise=noise, rng=rng
        )
        if following["seen"] > 0:  # clients have sent their shares
            following["answers"] = distaim._together(following)
        return following, charges

    found = state.audit(broken(key, server_step=keeps), clients=2)
    assert "state/answers" in found and any(name.startswith("sent/") for name in found) is False


def test_an_exact_number_on_the_wire_is_caught():
    def honest_size(previous, client, config, noise, rng):
        update = fedvae.client_step(previous, client, config=config, noise=noise, rng=rng)
        return replace(update, arrays=update.arrays | {"rows": np.array([len(client.rows)])})

    assert "wire/0/0/rows" in state.audit(broken("fedvae", client_step=honest_size), clients=1)


def test_a_shape_or_a_name_that_the_record_decides_is_caught():
    def listed(previous, updates, config, noise, rng):
        following, charges = independent.server_step(
            previous, updates, config=config, noise=noise, rng=rng
        )
        return {
            **following,
            "seen": np.zeros(rows[0]),
            **({"outlier": np.array(1)} if rows[0] > 9 else {}),
        }, charges

    def counted(previous, client, config, noise, rng):
        rows[0] = len(client.rows)
        return independent.client_step(previous, client, config=config, noise=noise, rng=rng)

    rows = [0]
    found = state.audit(broken("independent", client_step=counted, server_step=listed), clients=1)
    assert "state/seen: its shape" in found and "names: state/outlier" in found
    # one round: nothing of it is sent again
    assert any(name.startswith("bytes/") for name in found) is False


def test_forgotten_noise_is_caught():
    def forgets(previous, client, config, noise, rng):
        return independent.client_step(previous, client, config=config, noise=None, rng=rng)

    assert state.audit(broken("independent", client_step=forgets), clients=2) == [
        "state/counts",
        "wire/0/sum/counts",
    ]
