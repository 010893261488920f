"""The tables of notebook 73: what others publish, what they released, and ours, group by group.

No rank crosses the groups: who has to be trusted stands beside every line.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
from scipy import stats

from fedsynth_lib.core.contract import BadInput
from fedsynth_lib.core.measured import measured
from fedsynth_lib.core.store import project_root
from fedsynth_lib.methods import METHODS, REGISTRY
from fedsynth_lib.metrics.registry import MEASURES, sign
from fedsynth_lib.printed.entries import with_spread
from fedsynth_lib.runs.typed import check_names, read_toml
from fedsynth_lib.works.field import RELEASES, WORK
from fedsynth_lib.works.maddock2024 import unpacked

PRINTED, RELEASED, RERUN = "published elsewhere", "from a released file", "theirs, run by us"
CENTRAL, FEDERATED, OWN = "ours, central", "ours, federated", "your method"
KNOWN = "known rows"
GROUPS = (PRINTED, RELEASED, RERUN, CENTRAL, FEDERATED, OWN, KNOWN)
FLAGS = {"printed": PRINTED, "rerun": RERUN}
RELEASED_AT = {"epsilon": 5.0, "n_clients": 5}  # by the configuration beside the files
TRUSTED = {
    "server": "a server",
    "secure sum": "a secure sum",
    "local noise": "nobody",
    "": "no noise",
}
CURATOR = "a curator"  # who has all rows
INDEX = ["group", "method", "epsilon", "n_clients", "trusted"]


def foreign(block: str) -> pd.DataFrame:
    """Read what others report on a block of the file: a line for each value.

    The columns are INDEX, metric, value, source, date and note. Raises BadInput for an entry that
    does not say where it is from.
    """
    path = project_root() / "data" / "published" / "field.toml"
    document, lines = read_toml(path), []
    rerun = read_toml(path.with_name("reruns.toml"))
    for entry in [*document.get(block, []), *rerun.get(block, [])]:
        where = f"{path.name}: {block}, {entry.get('method', 'no method')}"
        source = document["source"].get(entry.get("source"))
        if source is None or entry.get("flag") not in FLAGS:
            raise BadInput(f"{where}: name a source of the file, and printed or rerun as its flag.")
        check_names(where, "measure", entry["values"], MEASURES)
        shared = {"group": FLAGS[entry["flag"]], "source": source["text"], "date": source["date"]}
        shared |= {name: entry[name] for name in ("method", "epsilon", "trusted", "note")}
        shared |= {"n_clients": entry.get("n_clients", 1)}
        lines += [{**shared, "metric": m, "value": float(v)} for m, v in entry["values"].items()]
    return pd.DataFrame(lines)


def reruns() -> pd.DataFrame:
    """Peers' packages that we ran, or tried to: versions, seconds of each run, what to know."""
    entries = read_toml(project_root() / "data" / "published" / "reruns.toml")
    lines = pd.DataFrame([each for part in entries.values() for each in part])
    lines["seconds"] = [f"{each:.0f}" if each == each else "not done" for each in lines["seconds"]]
    found = lines.groupby(["method", "packages", "note"], sort=False)["seconds"]
    return found.agg(", ".join).reset_index().set_index("method")[["packages", "seconds", "note"]]


def grouped(rows: pd.DataFrame) -> pd.DataFrame:
    """Our rows with the columns `group` and `trusted`; released tables with their epsilon."""
    places = {name: _place(name) for name in rows["method"].unique()}
    rows = rows.assign(
        group=[places[name][0] for name in rows["method"]],
        trusted=[places[name][1] for name in rows["method"]],
        n_clients=rows["n_clients"].fillna(1).astype(int),
    )
    released = rows["method"].isin(RELEASES)
    return rows.assign(
        **{name: rows[name].mask(released, value) for name, value in RELEASED_AT.items()}
    )


def trusted(key: str) -> str:
    """Name whom the noise of a method needs trusted.

    For DistAIM, these are the servers that compute on its shares; one process plays them here.
    """
    return "three servers in one process" if key == "distaim" else TRUSTED[REGISTRY[key].trust]


def _place(name: str) -> tuple[str, str]:
    """Return the group of a method, and whom its noise needs trusted."""
    if name not in WORK.methods:
        return OWN, TRUSTED.get(METHODS[name].TRUST, "")
    declared = WORK.methods[name]
    if not declared.key:
        return (RELEASED, "not audited") if name in RELEASES else (KNOWN, "")
    if declared.setting == "central":
        return CENTRAL, CURATOR
    return FEDERATED, trusted(declared.key)


def interval(values: Sequence[float]) -> float:
    """Half the width of the 95 percent interval of the mean (Student's t); nan for one value."""
    values = np.asarray(values, float)
    if len(values) < 2:
        return np.nan
    return float(stats.t.ppf(0.975, len(values) - 1) * values.std(ddof=1) / np.sqrt(len(values)))


def beside(
    rows: pd.DataFrame, block: str, metrics: Mapping[str, int], *, epsilon: float | None = None
) -> pd.DataFrame:
    """Tabulate others and ours: a line for each method, budget and number of clients.

    In each group the best by the first measure comes first.

    rows: of one grid of the work. metrics: measure -> decimals. epsilon: of our lines; those of
    others keep theirs. A value is a mean, with half its 95 percent interval of several seeds.
    """
    ours = grouped(rows)
    lines = [ours.assign(source="", date=""), foreign(block)]
    both = pd.concat([each.dropna(axis=1, how="all") for each in lines], ignore_index=True)
    both = both[both["metric"].isin(list(metrics))]
    if epsilon is not None:
        both = both[
            both["epsilon"].isin([epsilon]) | ~both["group"].isin([CENTRAL, FEDERATED, OWN])
        ]
    both = both.assign(epsilon=both["epsilon"].where(both["group"] != KNOWN, np.nan))
    keys = [*INDEX, "source", "date"]
    found = both.fillna({"source": "", "date": ""}).groupby([*keys, "metric"], dropna=False)[
        "value"
    ]
    means, halves = (found.agg(each).unstack("metric") for each in ("mean", interval))
    first, *_ = metrics
    order = means.reset_index().assign(
        place=lambda t: t["group"].map(GROUPS.index), by=lambda t: -sign(first) * t[first]
    )
    order = order.sort_values(["place", "epsilon", "n_clients", "by"]).index
    texts = {
        MEASURES[name].label: [
            with_spread(mean, half or np.nan, digits)
            for mean, half in zip(means[name].iloc[order], halves[name].iloc[order], strict=True)
        ]
        for name, digits in metrics.items()
        if name in means
    }
    labels = means.iloc[order].index.to_frame(index=False)
    labels["epsilon"] = [f"{e:g}" if e == e else "" for e in labels["epsilon"]]
    labels = labels.rename(columns={"n_clients": "clients", "epsilon": "ε"}).astype({"date": str})
    table = pd.concat([labels.drop(columns=["source", "date"]), pd.DataFrame(texts)], axis=1)
    return table.assign(**labels[["source", "date"]]).set_index(["group", "method"])


def ladder(rows: pd.DataFrame, block: str = "ladder") -> pd.DataFrame:
    """Random shares of NIST's rows: the scores of its own reports, and ours with their range."""
    document = read_toml(project_root() / "data" / "published" / "field.toml")[block]
    reports = np.array([v for name, v in document.items() if name not in ("source", "shares")])
    ours = rows.groupby("item")["value"]
    table = pd.DataFrame(
        {
            "NIST, mean": reports.mean(axis=0),
            "NIST, lowest": reports.min(axis=0),
            "NIST, highest": reports.max(axis=0),
        },
        index=pd.Index(document["shares"], name="share of the rows"),
    )
    table = table.join(pd.DataFrame({"ours, mean": ours.mean(), "ours, ±": ours.agg(interval)}))
    return table.assign(difference=table["ours, mean"] - table["NIST, mean"])


def by_participation(ours: pd.DataFrame, theirs: pd.DataFrame) -> pd.DataFrame:
    """Tabulate the workload error on FLAIM's tables.

    All are our runs: ours by the chance to take part in a round, the work's methods with the
    published estimator and with ours.
    """
    rows = unpacked(pd.concat([ours, theirs], ignore_index=True))
    rows = rows[(rows["metric"] == "workload_error") & (rows["measure_share"] == 0.9)]
    share = rows["participation"].map("{:.0%}".format)
    share += (rows["estimator"] == "gathered").map({True: " in ten rounds", False: ""})
    named = {"published": "published estimator", "ours": "our estimator"}
    kind = rows["estimator"].replace(named).mask(rows["method"].isin(ours["method"]), share)
    found = rows.groupby(["dataset", rows["method"] + ", " + kind])["value"]
    return found.agg(
        lambda values: with_spread(values.mean(), interval(values) or np.nan, 3)
    ).unstack()


def costs(rows: pd.DataFrame) -> pd.DataFrame:
    """Tabulate the means over seeds of a run's seconds, rounds, MB sent and GiB, and its trust."""
    runs = grouped(rows)
    runs = runs[runs["group"].isin([CENTRAL, FEDERATED, OWN])]
    keys = ["group", "method", "trusted"]
    found = runs.pivot_table("value", keys, "metric")
    sent = runs.groupby(keys)[["seconds", "bytes_up", "bytes_down"]].mean()
    table = pd.DataFrame(
        {
            "seconds": sent["seconds"],
            "rounds, at most": found["rounds"],
            "MB up": sent["bytes_up"] / 1e6,
            "MB down": sent["bytes_down"] / 1e6,
            "GiB": found["peak_gib"],
        }
    )
    return table.reset_index("trusted").sort_values(["group", "seconds"])


def audited(methods: Mapping[str, str]) -> pd.DataFrame:
    """Tabulate what the committed audit proves of each method's claim, with one client.

    A method whose claim was not audited with the present code has none. methods: name -> key in
    METHODS.
    """
    lines: dict[str, dict[str, Any]] = {}
    for name, key in methods.items():
        if found := measured(key, METHODS[key]):
            lines[name] = {"claimed ε": found.claimed, "at least": found.lower, "runs": found.runs}
            lines[name]["who adds the noise"] = METHODS[key].TRUST
    return pd.DataFrame.from_dict(lines, orient="index")
