"""The printed cells of martinez2024 for the tests of its claims: altered, dropped, or as rows of
single seeds."""

from itertools import product

import numpy as np
import pandas as pd

from fedsynth_lib.printed.published import load_claims, load_values
from fedsynth_lib.runs.rows import to_frame

PLACES = list(product(("iid", "quantity_skew", "label_skew"), (3, 5, 10)))
STATED = (
    load_claims("martinez2024")
    .assign(id=lambda t: t["id"].str[-3:])
    .set_index("id")["holds_on_published_values"]
)
VERDICTS = {
    "yes": "holds",
    "partly": "holds partly",
    "not testable from tables": "not tested at this scale",
}


def printed(*methods):
    """Every result cell of some models."""
    values = load_values("martinez2024")
    tables = values["exhibit"].str.match(r"tab6|tabA") & values["method"].isin(methods)
    return values[tables].assign(n=3).reset_index(drop=True)


def where(values, **wanted):
    """Mask of the rows with these entries (one, or several in a list)."""
    return np.logical_and.reduce(
        [values[column].isin(np.atleast_1d(entry)) for column, entry in wanted.items()]
    )


def place(partition, *n_clients):
    return {"partition": partition, "n_clients": list(n_clients)}


def cells(metric, dataset, epsilon=np.inf, setting="federated", **others):
    return {"metric": metric, "dataset": dataset, "epsilon": epsilon, "setting": setting, **others}


def changed(values, *edits):
    """A copy in which each edit, (new mean, or a function of the old ones; which cells), is
    made."""
    values = values.copy()
    for new, wanted in edits:
        chosen = where(values, **wanted)
        assert chosen.any(), wanted
        values.loc[chosen, "mean"] = new(values.loc[chosen, "mean"]) if callable(new) else new
    return values


def as_rows(values):
    """Tidy rows of three seeds, and of two clients each when local, with the printed means and
    spreads."""
    keys = [
        "paper",
        "dataset",
        "method",
        "partition",
        "n_clients",
        "setting",
        "epsilon",
        "metric",
        "detail",
    ]
    runs = values[[*keys, "mean", "std"]].fillna({"std": 0}).assign(profile="paper", data="real")
    runs = runs.merge(pd.DataFrame({"seed": [0, 1, 2], "step": [-1, 0, 1]}), how="cross")
    runs["value"] = runs["mean"] + runs["step"] * runs["std"]
    local = runs[runs["setting"] == "local"]
    clients = [
        local.assign(node=str(node), value=local["value"] + shift)
        for node, shift in enumerate((0.25, -0.25))
    ]
    rows = pd.concat([runs[runs["setting"] != "local"].assign(node=""), *clients])
    return to_frame(rows.drop(columns=["mean", "std", "step"]).to_dict("records"))


def assert_as_stated(outcome, evidence, claim, parts):
    """The outcome that the claims file states, and the numbers of its evidence as ours writes
    them."""
    if STATED[claim] == "yes":
        assert outcome is True, evidence
    else:
        assert STATED[claim] == "partly" and 0 < outcome < 1, evidence
    assert [part for part in parts if part not in evidence] == []
    assert "\n" not in evidence


def assert_needs(values, check, needed):
    """The cells named are enough, and with any group of them short of one cell there is no
    outcome."""
    groups = [where(values, **each) for each in needed]
    enough = values[np.logical_or.reduce(groups)]
    assert check(enough) == check(values)
    for group in groups:
        outcome, evidence = check(enough.drop(values.index[group][-1]))
        assert outcome is None and "missing" in evidence
