"""A person as the unit of privacy: epsilon for all rows of one person together.

A table declares `unit`, the column that says whose a row is, and `most_rows`, how many rows of a
person count. Of a person with more, a keyed draw keeps so many, all of one site. The draw of a
person's rows hangs on no other person, so tables that differ in one person differ in at most
`most_rows` rows when the method sees them.

A run that is (e, d)-differentially private for one row, with all that it selects by what it saw,
is so for a group of k rows at k e and d (1 + exp(e) + ... + exp((k - 1) e)): the bound for one row
is applied k times (Dwork and Roth 2014, theorem 2.2; Vadhan 2017, lemma 2.2). This holds for every
mechanism and accountant, so the run gets the budget for a row that makes these the epsilon and
delta that were asked for. For Gaussian noise alone, k^2 rho of zCDP would need a little less noise;
for Laplace noise nothing would.
"""

from dataclasses import replace

import numpy as np
import pandas as pd

from fedsynth_lib.core.accounting import exceeds
from fedsynth_lib.core.contract import Privacy
from fedsynth_lib.tables.form import Form
from fedsynth_lib.tables.load import Table
from fedsynth_lib.tables.partition import row_draws


def rows_that_count(table: Table, *, site: str = "", key: bytes) -> Table:
    """Return the table with at most `most_rows` rows of each person, all of one site.

    The site is that of the row which is drawn first. A table whose unit is a row stays as it is.

    site: the column that says which site a row is from; '' where there is none.
    """
    if table.persons is None:
        return table
    draws = row_draws(table.content, key=key, purpose="unit", persons=table.persons)
    rows = pd.DataFrame({"person": table.persons, "draw": draws}).sort_values("draw")
    if site:
        rows["site"] = table.frame[site].cat.codes
        rows = rows[rows["site"] == rows.groupby("person")["site"].transform("first")]
    kept = rows.index[rows.groupby("person").cumcount() < table.form.most_rows]
    return table.take(np.sort(kept.to_numpy()))


def row_budget(asked: Privacy, most_rows: int) -> Privacy:
    """Return the budget for one row that gives a group of `most_rows` rows what was asked for."""
    epsilon = asked.epsilon / most_rows
    # how many times the delta of a row a group has
    times = float(np.exp(epsilon * np.arange(most_rows)).sum())
    return replace(asked, epsilon=epsilon, delta=asked.delta / times)


def unit_of(form: Form) -> str:
    """Write the unit of privacy in words."""
    return f"one person with up to {form.most_rows} rows"


def for_persons(
    statement: dict, form: Form, asked: Privacy, *, several_sites: bool = False
) -> dict:
    """Return the statement of a run whose unit was a row, as one about persons.

    A figure for a row above its budget says nothing at the delta that was asked for: it is None.
    several_sites: whether the rows were with several sites, none of which sees another one's.
    """
    if not form.unit:
        return statement
    most, row = form.most_rows, row_budget(asked, form.most_rows)

    def group(epsilon: float | None) -> float | None:
        valid = epsilon is not None and epsilon <= row.epsilon * (1 + 1e-6)
        return most * epsilon if valid else None

    figures = ("epsilon", "epsilon_protected", "epsilon_rdp", "epsilon_numerical")
    return statement | {
        **{name: group(statement[name]) for name in figures},
        "unit": unit_of(form),
        "relation": "add or remove one person with all rows",
        "most_rows": most,
        "delta": asked.delta,
        "delta_exceeds": exceeds(asked.delta, statement["num_rows"]),
        "epsilon_replace_one": None,
        "budget": asked.epsilon,
        "accountant": f"group privacy: {most} times the epsilon of one row, "
        f"{statement['epsilon_protected']:.4g} at its delta {row.delta:.3g}, by "
        + statement["accountant"],
        "public_inputs": [
            *statement["public_inputs"],
            f"that {form.unit!r} says whose a row is, and that {most} rows of a person count, all "
            "of one site: a secret draw leaves further ones out, and what is said here of one "
            "record is for one row of these",
            *["that no person has rows at two sites: no site can look"] * several_sites,
        ],
    }
