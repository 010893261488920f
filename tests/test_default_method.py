"""The method that is taken where nobody names one is what the rule says of the committed cells."""

import json
from itertools import product

import default_method as evidence
import pandas as pd
import pytest

from fedsynth_lib.bundle.facts import Values, load_facts
from fedsynth_lib.core.store import project_root
from fedsynth_lib.methods import DEFAULT

LINES = pd.read_csv(evidence.DONE)
CENTRAL = LINES[LINES["clients"] == 0]
JUDGED = evidence.judged(CENTRAL)


def allowed(challenger):
    """Whether the rule lets it be the default."""
    own = JUDGED[JUDGED["challenger"] == challenger]["outcome"]
    refused = CENTRAL[CENTRAL["method"] == challenger]["refused"].notna().any()
    return (
        (own != "loss").mean() >= 0.75
        and not refused
        and evidence.slower(CENTRAL)[challenger].max() <= 4
    )


def test_every_cell_of_one_client_is_there():
    asked = product(evidence.TABLES, [0], evidence.EPSILONS, evidence.METHODS, evidence.SEEDS)
    assert set(CENTRAL[evidence.KEYS].itertuples(index=False, name=None)) == set(asked)


def test_the_default_is_what_the_rule_says():
    challengers = [each for each in evidence.METHODS[1:] if allowed(each)]
    assert challengers in ([], [DEFAULT])
    assert challengers or evidence.METHODS[0] == DEFAULT


@pytest.mark.parametrize("outcome", ["win", "tie", "loss"])
def test_prose_tells_how_often(outcome):
    own = JUDGED[JUDGED["challenger"] == DEFAULT]
    few = own.apply(lambda cell: evidence.few(cell["table"], cell["epsilon"]), axis=1)
    facts = Values(load_facts())
    for part, rows in (("few", own[few]), ("many", own[~few])):
        assert facts.number(f"default_{part}_{outcome}") == (rows["outcome"] == outcome).sum()


def test_the_notebook_takes_it():
    path = project_root() / "notebooks" / "81_your_table.ipynb"
    cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
    first = next("".join(cell["source"]) for cell in cells if cell["cell_type"] == "code")
    assert f'method = "{DEFAULT}"  # one of: {DEFAULT}, ' in first
