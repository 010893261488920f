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
RUNS = {clients: own for clients, own in LINES.groupby("clients")}
JUDGED = {clients: evidence.judged(own) for clients, own in RUNS.items()}


def allowed(challenger, clients):
    """Whether the rule lets it be the default."""
    judged, runs = JUDGED[clients], RUNS[clients]
    own = judged[judged["challenger"] == challenger]["outcome"]
    refused = runs[runs["method"] == challenger]["refused"].notna().any()
    return (
        (own != "loss").mean() >= 0.75
        and not refused
        and evidence.slower(runs)[challenger].max() <= 4
    )


def test_every_cell_is_there():
    asked = product(
        evidence.TABLES, evidence.CLIENTS, evidence.EPSILONS, evidence.METHODS, evidence.SEEDS
    )
    assert sorted(LINES[evidence.KEYS].itertuples(index=False, name=None)) == sorted(asked)


@pytest.mark.parametrize("clients", evidence.CLIENTS)
def test_the_default_is_what_the_rule_says(clients):
    challengers = [each for each in evidence.METHODS[1:] if allowed(each, clients)]
    assert challengers in ([], [DEFAULT])
    assert challengers or evidence.METHODS[0] == DEFAULT


@pytest.mark.parametrize("outcome", ["win", "tie", "loss"])
def test_prose_tells_how_often(outcome):
    own = JUDGED[0].query("challenger == @DEFAULT")
    few = own.apply(lambda cell: evidence.few(cell["table"], cell["epsilon"]), axis=1)
    facts = Values(load_facts())
    for part, rows in (("few", own[few]), ("many", own[~few])):
        assert int(facts[f"default_{part}_{outcome}"]) == (rows["outcome"] == outcome).sum()


def test_the_notebook_takes_it():
    path = project_root() / "notebooks" / "81_your_table.ipynb"
    cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
    first = next("".join(cell["source"]) for cell in cells if cell["cell_type"] == "code")
    assert f'method = "{DEFAULT}"  # one of: {DEFAULT}, ' in first
