"""The settings of a method for a release of rows of one's own, where nobody names others."""

from dataclasses import asdict, replace
from typing import Any

from fedsynth_lib.core.contract import Arrays, BadInput, Method
from fedsynth_lib.methods.marginals.private_bins import fine_encoder, large
from fedsynth_lib.methods.registry import DEFAULT
from fedsynth_lib.tables.schema import Schema

DELTA = 1e-6  # where nobody names another
# settings, where a method has them
PRIVATE = {"participation": 1.0, "private_structure": True, "degree": 1, "annealed": True}
# below so many rows, times epsilon, a column has fewer bins: on cardio and brfss_heart at 600 rows
# and epsilon 1 the 2-way TVD of AIM fell from 0.078 with 32 bins to 0.070 with 16, at 3,000 rows 32
# were better
FEW, BINS_OF_FEW = 2_000, 16


def private_config(method: Method) -> Any:
    """Return the method's defaults, changed by those settings of PRIVATE that it has.

    All clients then take part in every round, and a Bayesian network learns its structure
    privately. Raises BadInput for a method without noise.
    """
    config = method.Config()
    if not getattr(config, "private", True):
        raise BadInput(
            f"method {method.name} adds no noise; choose one that does, such as {DEFAULT}."
        )
    known = {name: value for name, value in PRIVATE.items() if hasattr(config, name)}
    return replace(config, **known)


def fitting(config: Any, schema: Schema, num_rows: float, epsilon: float) -> Any:
    """Return the settings with the bins that so many rows and so much noise call for.

    The choice rests on public numbers alone, so it costs nothing.

    Parameters
    ----------
    config
        Of a method. A number of bins is changed, private bins stay.
    schema
        Whose numbers with more than 64 values are counted where bins may be private.
    num_rows
        To learn from, as declared or as counted with noise; never the true number, which nobody has
        paid for.
    epsilon
        Of the release.
    """
    bins = getattr(config, "bins", None)
    if not isinstance(bins, int):
        return config
    if chooses_bins(config):
        long = len(large(fine_encoder(schema, config.by_column).domain))
        if long and num_rows * epsilon >= config.PRIVATE_BINS_FROM * long**0.5:
            return replace(config, bins="private")
    return config if num_rows * epsilon >= FEW else replace(config, bins=min(bins, BINS_OF_FEW))


def chooses_bins(config: Any) -> bool:
    """Whether public numbers decide if the bins of these settings are private or equal.

    For most methods nobody has measured from which size on private bins pay (`BinSettings`).
    """
    return getattr(config, "PRIVATE_BINS_FROM", None) is not None


def settings(method: Method, schema: Schema, num_rows: float, epsilon: float) -> dict[str, Any]:
    """Return, by name, the settings of a release of so many rows that differ from the defaults."""
    usual = asdict(method.Config())
    chosen = asdict(fitting(private_config(method), schema, num_rows, epsilon))
    return {name: value for name, value in chosen.items() if value != usual[name]}


def measured_together(state: Arrays, config: Any) -> list[tuple[int, ...]] | None:
    """Return the groups of two or more columns that a finished run measured together.

    Returns None for a neural network, which learns from whole rows.
    """
    from fedsynth_lib.methods.marginals.marginal_state import tables_of

    if tables := tables_of(state, "potential"):  # of a graphical model
        return sorted(query for query in tables if len(query) > 1)
    if "order" in state:  # of a Bayesian network
        from fedsynth_lib.methods.bayes.bayesian_network import families

        return sorted(
            tuple(sorted((child, *parents))) for child, parents in families(state, config)
        )
    return [] if set(state) == {"levels", "counts"} else None  # of independent columns
