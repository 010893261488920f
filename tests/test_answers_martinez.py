"""The numbers behind the research questions, on cells that can be counted by hand."""

import numpy as np
import pandas as pd
import pytest

from fedsynth_lib.verdicts.custom.martinez_answers import copies, disclosed, spans


def compared(values):
    """Cells as `published.compare` returns them; ours are the printed ones, and 0.1 more."""
    cells = pd.DataFrame(values)
    return cells.assign(dataset="adult", published=cells["ours"] + 0.1)


def test_spans_are_from_the_least_to_the_most():
    place = [("iid", 3, 0.1), ("iid", 5, 0.3), ("skew", 3, 0.6), ("skew", 5, 0.8)]
    cells = compared([{"partition": p, "n_clients": n, "ours": v} for p, n, v in place])
    cells = cells.assign(setting="federated", epsilon=np.inf)
    found = spans(pd.concat([cells, cells.assign(setting="local", ours=9.0)]), "partition")
    row = found.loc["adult", np.inf]
    assert row["ours"].tolist() == pytest.approx([0.2, 0.7, 0.5])
    assert row["published"].tolist() == pytest.approx([0.3, 0.8, 0.5])


def test_copies_are_cells_with_a_distance_of_nothing():
    found = [("dcr_share", 0.4), ("dcr_share", 0.6), ("dcr_min", 0.0), ("dcr_min", -0.1)]
    cells = compared([{"metric": metric, "ours": value} for metric, value in found])
    row = copies(cells.assign(epsilon=0.5)).iloc[0]
    assert (row["copy"], row["printed_copy"]) == (1, 1)
    names = [f"{source} share, {end}" for source in ("ours", "published") for end in ("min", "max")]
    assert row[names].tolist() == pytest.approx([0.4, 0.6, 0.5, 0.7])
    nowhere = copies(cells.assign(epsilon=0.5, ours=np.nan)).iloc[0]
    assert pd.isna(nowhere["copy"]) and nowhere["printed_copy"] == 1  # not run is not without copy


def test_what_a_vote_loses_is_held_against_real_rows():
    found = [("real", "ad_ens", 0.9), ("federated", "ad_ens", 0.7)]
    found += [("federated", "ad_rmean", 0.6), ("federated", "ad_dum", 0.5)]
    cells = compared([{"setting": s, "metric": m, "ours": value} for s, m, value in found])
    row = disclosed(cells.assign(partition="iid", epsilon=1.6)).iloc[0]
    assert row["loss, ours"] == pytest.approx(0.2) == row["loss, published"]
    assert row["above dummy, ours"] == pytest.approx(0.1)
