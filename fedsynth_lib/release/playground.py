"""The playground: one setting of the common protocol at a time.

It shows result rows that are there, or trains on demand. Measures come from the result rows of
notebooks 70 to 72. The picture of the columns needs the synthetic table as well, which the button
Train makes, or finds where its run took place.
"""

from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from fedsynth_lib.core.contract import BadInput
from fedsynth_lib.core.store import project_root
from fedsynth_lib.figures.distributions import distributions
from fedsynth_lib.metrics.registry import MEASURES
from fedsynth_lib.runs.names import partition_name
from fedsynth_lib.runs.rows import (
    complete,
    folder_name,
    load_rows,
    to_frame,
    with_params,
)
from fedsynth_lib.tables.load import Table
from fedsynth_lib.tables.lock import at_hand, table_digest
from fedsynth_lib.tables.schema import Schema
from fedsynth_lib.works import side_by_side
from fedsynth_lib.works.leaderboard import dots
from fedsynth_lib.works.side_by_side import (
    DATASETS,
    DELTA,
    ENTRANTS,
    EPSILONS,
    PARTITIONS,
    SIZES,
    YARDSTICKS,
)

SOURCES = ("71_privacy_utility_frontier", "72_heterogeneity", "70_side_by_side")
SHOWN = ("hellinger", "workload_error", "auc_rf_score", "mia_calibrated")
MOST = 3  # columns of each kind: more would take longer than a second to draw


class Choice(NamedTuple):
    """One method at one setting. epsilon: infinite for no noise."""

    dataset: str
    partition: str
    n_clients: int
    method: str
    epsilon: float

    def __str__(self) -> str:
        """Write the choice in words."""
        noise = "no noise" if np.isinf(self.epsilon) else f"ε = {self.epsilon:g}"
        return (
            f"{self.method} on {self.dataset}, {self.n_clients} clients, "
            f"{partition_name(self.partition)}, {noise}"
        )


MEASUREMENT = [*Choice._fields, "seed", "metric"]


def options(profile: str) -> dict[str, dict[str, Any]]:
    """For each part of a choice what can be chosen: label -> value."""
    return {
        "dataset": {name: name for name in DATASETS[: SIZES[profile]["datasets"]]},
        "partition": {partition_name(name): name for name in PARTITIONS},
        "n_clients": {str(number): number for number in side_by_side.CLIENTS},
        "method": {name: name for name in ENTRANTS},
        "epsilon": {"no noise" if np.isinf(value) else f"{value:g}": value for value in EPSILONS},
    }


def checked(choice: Choice, profile: str) -> Choice:
    """Return the choice itself; BadInput where it cannot be run."""
    folder_name(profile, "real")
    for name, labels in options(profile).items():
        if (value := getattr(choice, name)) not in labels.values():
            raise BadInput(
                f"{name} is {value!r}: with profile {profile} choose one of {', '.join(labels)}."
            )
    if choice.n_clients > (most := ENTRANTS[choice.method].most_clients):
        raise BadInput(
            f"{choice.method} trains too long with {choice.n_clients} clients: choose "
            f"at most {most}."
        )
    return choice


def learned_from(dataset: str, profile: str) -> Table:
    """Return the rows that the runs of seed 0 learn from."""
    return side_by_side.prepared(dataset, SIZES[profile]["rows"], 0).train


def load(dataset: str, profile: str) -> pd.DataFrame:
    """Return the rows of SOURCES that today's methods made on this table.

    Where there are none, they are those on its stand-in. Each measurement is there once.
    """
    table = table_digest(dataset)
    for digest, data in ((table, "real"), (table, "standin"), (at_hand(table), "standin")):
        rows = _rows_of(digest, project_root() / "data" / "results" / folder_name(profile, data))
        rows = rows[rows["dataset"] == dataset]
        if len(rows):
            break
    return rows.drop_duplicates(MEASUREMENT, ignore_index=True)


def _rows_of(digest: str, folder: Path) -> pd.DataFrame:
    """Return the rows of SOURCES in a folder.

    They are of the table with this digest and by today's methods; rows of methods as published are
    left out.
    """
    found = [load_rows(path) for name in SOURCES if (path := folder / f"{name}.csv").is_file()]
    rows = pd.concat(found) if found else to_frame([])
    rows = with_params(rows, table="", brief=False, as_published=False)
    pairs = zip(rows["method"], rows["brief"], strict=True)
    today = [side_by_side.version({"method": method, "brief": brief}) for method, brief in pairs]
    same = (rows["table"] == digest) & (rows["version"] == today)
    return rows[same & ~rows["as_published"].astype(bool)]


def at(rows: pd.DataFrame, choice: Choice) -> pd.DataFrame:
    """Return the rows of one table at this setting, and those of the yardsticks.

    The result is empty where no row is at this setting.
    """
    same = (rows["partition"] == choice.partition) & (rows["epsilon"] == choice.epsilon)
    same &= rows["n_clients"].fillna(0) == choice.n_clients
    return rows[same | rows["method"].isin(YARDSTICKS)] if same.any() else rows[same]


def arguments(choice: Choice, profile: str) -> dict[str, Any]:
    """Return what `synthetic` is called with, as the grids do for their seed 0."""
    size, key = SIZES[profile], ENTRANTS[checked(choice, profile).method].key
    sized = {"rows": size["rows"], "training": size["training"].get(key)}
    return choice._asdict() | {"seed": 0} | sized


def train(choice: Choice, profile: str) -> pd.DataFrame:
    """Return the rows of a run with seed 0.

    Its synthetic table is kept, so that a second time costs the measures only.
    """
    version = side_by_side.version({"method": choice.method, "brief": True})
    labels = {"profile": profile, "version": version}
    made = side_by_side.measure(**arguments(choice, profile), brief=True)
    return to_frame(complete(made, labels))


def joined(rows: pd.DataFrame, made: pd.DataFrame) -> pd.DataFrame:
    """Join the rows with those just made.

    Where the new rows are of a stand-in, rows of the real table are left out.
    """
    return pd.concat([rows[rows["data"].isin(made["data"])], made]).drop_duplicates(MEASUREMENT)


def words(rows: pd.DataFrame, choice: Choice, profile: str) -> str:
    """Write the privacy statement in one line and the measures in another.

    Where there are no rows, it is one sentence on what to run.
    """
    own = at(rows, choice).query("method == @choice.method")
    if own.empty:
        return (
            f"No rows of {choice} yet: press Train, or run ./run_all.sh --profile {profile} "
            "--only 70,71,72."
        )
    spent, outside = own["epsilon_spent"].max(), own["unprotected"].max()
    promise = (
        f"ε = {spent:.3g} was spent, δ = {DELTA:g}, for each record added or removed; the noise "
        "is from a seed"
    )
    if np.isinf(choice.epsilon):
        promise = "no noise was added, and nothing is promised"
    elif outside > 0:
        promise = (
            f"no guarantee, as kinds of release outside of the ε = {spent:.3g} that was "
            f"spent: {outside}"
        )
    values = own.pivot_table("value", "seed", "metric")[list(SHOWN)]
    told = [f"{MEASURES[name].label} {mean:.3f}" for name, mean in values.mean().items()]
    return f"{choice}: {promise}.\n{'; '.join(told)} (seeds: {len(values)})."


def measures_picture(rows: pd.DataFrame, choice: Choice) -> Figure:
    """All methods at the setting, a panel for each measure, the chosen one in front of a band."""
    fig = dots(at(rows, choice), SHOWN)
    for ax in fig.axes:
        ax.locator_params("x", nbins=4)
    for place, label in zip(fig.axes[0].get_yticks(), fig.axes[0].get_yticklabels(), strict=True):
        if label.get_text().startswith(choice.method):
            label.set_fontweight("bold")
            for ax in fig.axes:
                ax.axhspan(place - 0.5, place + 0.5, color="#E8E8E8", zorder=0)
    return fig


def columns_picture(choice: Choice, profile: str) -> Figure:
    """Draw some columns, real and synthetic, the target among them.

    It trains where the synthetic table is not kept.
    """
    frame, _ = side_by_side.synthetic(**arguments(choice, profile))
    table = learned_from(choice.dataset, profile)
    # the target first
    labels = sorted(table.schema.categorical, key=lambda name: name != table.schema.target)
    few = (table.schema[name] for name in (*table.schema.numeric[:MOST], *labels[:MOST]))
    return distributions(table.frame, Schema(tuple(few)), {choice.method: frame}, name=table.data)


def controls(start: Choice, profile: str) -> Any:
    """Return the live page.

    It has a control for each part of a choice, the button Train, and below them words and pictures.

    A change shows rows that are there. While Train is pressed, what is chosen is trained, and its
    columns are drawn; for the start these are there.
    """
    try:
        import ipywidgets
    except ModuleNotFoundError:
        return (
            "The controls need ipywidgets, which requirements.lock names: install it and run "
            "this cell again."
        )
    known: dict[str, pd.DataFrame] = {}  # table -> its rows

    def show(
        dataset: str, partition: str, n_clients: int, method: str, epsilon: float, is_training: bool
    ) -> None:
        choice = Choice(dataset, partition, n_clients, method, epsilon)
        try:
            checked(choice, profile)
            if choice.dataset not in known:
                known[choice.dataset] = load(choice.dataset, profile)
            if is_training:
                known[choice.dataset] = joined(known[choice.dataset], train(choice, profile))
            rows = known[choice.dataset]
            print(words(rows, choice, profile))
            if len(at(rows, choice)):
                measures_picture(rows, choice)
            if is_training or choice == start:
                columns_picture(choice, profile)
        except BadInput as error:
            print(error)

    parts: dict[str, Any] = {}
    for name, labels in options(profile).items():
        kind = ipywidgets.SelectionSlider if name == "epsilon" else ipywidgets.Dropdown
        shown = {"value": getattr(start, name), "description": name.replace("_", " ")}
        parts[name] = kind(options=[*labels.items()], **shown)
    button = ipywidgets.ToggleButton(value=False, description="Train")
    return ipywidgets.interactive(show, **parts, is_training=button)
