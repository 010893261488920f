"""The published values beside ours: load, compare cell by cell, test.

The values, catalogues and claims of the five works are in data/published/ (its README says what
each column means). A verdict says how near a result of ours comes to a printed one; it never
hides one that does not.
"""

import re
from collections.abc import Sequence
from decimal import Decimal, InvalidOperation
from functools import cache, lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from scipy import stats

from fedsynth_lib.core.contract import BadInput
from fedsynth_lib.core.store import project_root
from fedsynth_lib.metrics.registry import sign
from fedsynth_lib.printed import chance
from fedsynth_lib.runs.details import with_detail
from fedsynth_lib.runs.rows import read_params
from fedsynth_lib.runs.typed import check_names, read_toml

WORKS = ("martinez2024", "leitner2023", "maddock2024", "sattarov2024", "apellaniz2025")
KEYS = [
    "dataset",
    "method",
    "partition",
    "n_clients",
    "node",
    "setting",
    "epsilon",
    "detail",
    "metric",
]
VALUE_COLUMNS = ["paper", "exhibit", *KEYS, "mean", "std", "significance", "note"]
NOT_JUDGED, MISSING = "not judged", "ours missing"  # a shrunk or a single run; no row of ours
UNSTABLE, NOT_COMPARABLE = "unstable", "not comparable"
MATCHED = "matched noise"  # fewer passes at the published signal-to-noise ratio
ALONE = "not published"  # ours, of a table that the work does not have
JUDGED = ["within", "ordering", "different"]
VERDICTS = [*JUDGED, UNSTABLE, NOT_COMPARABLE, MATCHED, NOT_JUDGED, MISSING]
UNTESTED = "not tested"  # a claim
CLAIM = re.compile(r"c\d\d")  # the number of a claim in its file


# --- load ----------------------------------------------------------------------------------------


def load_values(work: str, exhibit: str | None = None, *, excluded: bool = False) -> pd.DataFrame:
    """Load the published values of a work, or of one exhibit of it.

    The columns are VALUE_COLUMNS, `printed`, `decimals` and `doubt`. `mean` is NaN where a word is
    published; `printed` always holds the text. Rows that must not serve as a reference (their note
    says EXCLUDE) are left out unless asked for.
    """
    folder = _folder() / "values" / _known(work)
    paths = sorted(folder.glob("*.csv")) if exhibit is None else [folder / f"{exhibit}.csv"]
    if not all(path.exists() for path in paths):
        raise BadInput(
            f"{work} has no values for {exhibit!r}: choose one of "
            f"{[p.stem for p in folder.glob('*.csv')]}."
        )
    frame = _values(*paths)
    kept = slice(None) if excluded else ~frame["note"].str.startswith("EXCLUDE")
    return frame[kept].reset_index(drop=True)


@cache
def _values(*paths: Path) -> pd.DataFrame:
    """Return the values of these files, those that must not serve as a reference included.

    A chapter asks for the same files dozens of times.
    """
    frame = pd.concat([_read(path) for path in paths], ignore_index=True)
    frame["printed"] = frame["mean"]
    frame["decimals"] = frame["printed"].map(_decimals).astype("Int64")
    frame["doubt"] = frame["note"].str.startswith("DOUBT")
    for column in ("mean", "std", "epsilon"):
        frame[column] = pd.to_numeric(frame[column], errors="coerce").astype(float)
    frame["n_clients"] = pd.to_numeric(frame["n_clients"]).astype("Int64")
    return frame


def load_catalogue(work: str | None = None) -> pd.DataFrame:
    """Load every numbered exhibit of a work (of all works).

    The columns are id, kind, title, what it shows, and whether a run can make it.
    """
    works = WORKS if work is None else (_known(work),)
    tables = [_read(_folder() / f"catalogue_{name}.csv") for name in works]
    return pd.concat(tables, ignore_index=True)


def load_claims(work: str | None = None) -> pd.DataFrame:
    """Claims of a work (of all works) about results, each with a testable form (`check`) in words.

    Columns: id, location, claim, check, datasets (separated by `;`), setting, and what the printed
    values say: holds_on_published_values (yes, partly, no, not testable from tables) and
    published_evidence.
    """
    works = WORKS if work is None else (_known(work),)
    claims = []
    for name in works:
        groups = [group for group in read_claims(name).values() if isinstance(group, dict)]
        found = {key: said for group in groups for key, said in group.items() if CLAIM.match(key)}
        claims += [
            {
                "id": f"{name}/{number}",
                "location": said["place"],
                "claim": said["claim"],
                "check": said["check"],
                "datasets": ";".join(said["datasets"]),
                "setting": said["setting"],
                "holds_on_published_values": said["holds_on_published_values"],
                "published_evidence": said.get("published_evidence", ""),
            }
            for number, said in sorted(found.items())
        ]
    return pd.DataFrame(claims)


def claims_path(work: str) -> Path:
    """Return the file of a work's claims: what each says, and the conditions it is judged by."""
    return _folder() / "claims" / f"{_known(work)}.toml"


@lru_cache
def read_claims(work: str) -> dict[str, Any]:
    """Read the file of a work's claims as it is; `verdicts.claim_files` checks its conditions."""
    return read_toml(claims_path(work))


def _known(work: str) -> str:
    check_names("data/published", "work", [work], WORKS)
    return work


def _folder() -> Path:
    return project_root() / "data" / "published"


def _read(path: Path) -> pd.DataFrame:
    return pd.read_csv(path, dtype=str, keep_default_na=False)


def _decimals(printed: str) -> int | None:
    """Decimals of a printed number: 3 for `0.250`, 5 for `1e-5`; None for a word or `inf`."""
    try:
        number = Decimal(printed)
    except InvalidOperation:
        return None
    return max(0, -number.as_tuple().exponent) if number.is_finite() else None


# --- compare -------------------------------------------------------------------------------------


def of_work(rows: pd.DataFrame, work: str) -> pd.DataFrame:
    """Return the tidy rows of a work. Raises BadInput where they are of several profiles."""
    rows = rows[rows["paper"].isin(["", work])]
    if len(profiles := sorted(rows["profile"].unique())) > 1:
        named = ", ".join(profiles)
        raise BadInput(f"rows of the profiles {named} are mixed: give one profile at a time.")
    return rows


def aggregate(rows: pd.DataFrame, *, per_node: bool = False) -> pd.DataFrame:
    """Return mean and sample standard deviation over seeds for each of KEYS.

    The columns are `mean`, `std`, `n` and `data`, and the `values` of its `seeds`. Unless
    `per_node`, rows of single clients are first averaged over the clients of a run. One row from a
    stand-in makes the aggregate one (`standin` is the last of the kinds in the alphabet, hence
    max).
    """
    rows = with_detail(rows[rows["value"].notna()])
    # its codes, in the order of the alphabet: the largest of texts takes long
    kinds = pd.Categorical(rows["data"])
    matched = rows["params"].map(matches_noise) if "params" in rows else False
    keyed = merge_keys(rows).assign(
        seed=rows["seed"].fillna(-1), value=rows["value"], data=kinds.codes, matched=matched
    )
    keyed["node"] = keyed["node"] if per_node else ""
    runs = keyed.groupby([*KEYS, "seed"], as_index=False).agg(
        value=("value", "mean"), data=("data", "max"), matched=("matched", "max")
    )
    found = runs.groupby(KEYS, as_index=False).agg(
        mean=("value", "mean"),
        std=("value", "std"),
        n=("value", "size"),
        data=("data", "max"),
        matched=("matched", "max"),
    )
    ends = np.cumsum(found["n"].to_numpy(dtype=int))[:-1]  # runs are in the order of their cells
    for name, column in (("values", "value"), ("seeds", "seed")):
        parts = np.split(runs[column].to_numpy(dtype=float), ends) if len(found) else []
        found[name] = pd.Series([tuple(part.tolist()) for part in parts], found.index, dtype=object)
    return found.assign(
        data=kinds.categories.to_numpy(dtype=object)[found["data"].to_numpy(dtype=int)]
    )


@cache
def matches_noise(params: str) -> bool:
    """Return whether a run with noise makes fewer rounds at the work's signal-to-noise ratio.

    Its learning rate is raised for that (`works/equal_signal.py`).
    """
    settings = read_params(params)
    fewer = {"training_rounds", "learning_rate"} <= set(settings.get("changes") or {})
    return fewer and np.isfinite(float(settings.get("epsilon", np.inf)))


def compare(
    rows: pd.DataFrame, work: str, exhibit: str | Sequence[str], *, runs: int = 2
) -> pd.DataFrame:
    """Compare every published cell of an exhibit, or of several, with our value, and judge it.

    rows: tidy rows of one profile, from any grid; a printed cell takes the rows of this work that
        agree in KEYS. Deviations are pooled over all of them (`chance`): give every row of a
        reading, and none of another, so that a table has the marks that the verdict has.
        Per-client rows are averaged where the work prints no clients. Of a table that the work
        does not have, ours stand alone, in the settings that the exhibit has of others.
    runs: of ours that a judged cell needs; 1 where nothing is drawn at random.
    verdict:
        within         |difference| <= `tolerance`, its standard error times Student's quantile
                       (`chance`), or equal after rounding to the printed decimals
        ordering       not within, but more than half of the cell's relations have the printed
                       sign. A relation is a pair (this cell, counterpart): the same dataset,
                       method, metric and epsilon in another setting, and, where both have clients,
                       the same partition and number of clients. In exhibits of several methods the
                       counterparts are the other methods instead, whatever their epsilon; in those
                       of a single setting the cell at another epsilon, or in another partition.
                       `order` shows kept/all relations, `order_by_chance` how often it would be
                       kept if our values were shuffled
        different      neither
        unstable       our deviation exceeds our mean, so that nothing can be told
        not comparable the quantity has no bound
        matched noise  fewer passes at the published signal-to-noise ratio
        not judged     of a small live run (any profile but paper), whose comparison has no
                       published values, or of fewer runs
        ours missing   no row of ours
        not published  a table that the work does not have
    `by_chance`: how often a cell would be within if our values were shuffled among the scenarios
    of its method and setting (`chance.within_by_chance`).
    """
    rows = of_work(rows, work)
    aggregated = cache(lambda per_node: aggregate(rows, per_node=per_node))
    told = {"profile": next(iter(rows["profile"]), ""), "runs": runs}
    further = sorted(set(rows["dataset"]) - {"", *load_values(work)["dataset"]})
    tables = []
    for each in [exhibit] if isinstance(exhibit, str) else exhibit:
        ours = aggregated(names_nodes(load_values(work, each)))
        beside = compare_means(ours, work, each, **told)
        tables += [beside, *(_alone(ours, beside, dataset) for dataset in further)]
    return tables[0] if len(tables) == 1 else pd.concat(tables, ignore_index=True)


def _alone(ours: pd.DataFrame, beside: pd.DataFrame, dataset: str) -> pd.DataFrame:
    """Ours of a table that the work does not have, in the settings and the form of others."""
    lines = beside.drop_duplicates([key for key in KEYS if key != "dataset"])
    lines = lines.assign(dataset=dataset, verdict=ALONE, order="", doubt=False)
    numbers = ["published", "published_std", "difference", "error", "tolerance"]
    lines[[*numbers, "by_chance", "order_by_chance"]] = np.nan
    own = merge_keys(lines).merge(ours, on=KEYS, how="left")
    for name, column in {"ours": "mean", "ours_std": "std", "n": "n", "data": "data"}.items():
        lines[name] = own[column].to_numpy()
    lines["note"] = [_remark(*each) for each in zip(lines["profile"], lines["data"], strict=True)]
    return lines[lines["n"] > 0].astype({"n": int})


def names_nodes(values: pd.DataFrame) -> bool:
    """Return whether published values distinguish clients.

    If they do, rows of single clients must not be averaged.
    """
    return bool((values["node"] != "").any())


def compare_means(
    ours: pd.DataFrame, work: str, exhibit: str, *, profile: str = "", runs: int = 2
) -> pd.DataFrame:
    """Compare means by `aggregate` with published values, as `compare` does.

    To compare cells with repeats only, leave out the others first.
    """
    table = load_values(work, exhibit)
    table = table[table["mean"].notna()].reset_index(drop=True)
    own = merge_keys(table).merge(ours, on=KEYS, how="left", validate="many_to_one")

    table = table.rename(columns={"mean": "published", "std": "published_std"})
    table["ours"], table["ours_std"] = own["mean"], own["std"]
    table["n"] = own["n"].fillna(0).astype(int)
    table["difference"] = table["ours"] - table["published"]
    table["digits"] = table.groupby(["exhibit", "metric"])["decimals"].transform("max")
    known = chance.standard_error(work, table.assign(**merge_keys(table)), ours)
    table["error"], table["tolerance"] = known["error"], known["factor"] * known["error"]

    step = 10.0 ** -table["decimals"].astype(float)
    rounds_equal = (table["ours"] / step).round() == (table["published"] / step).round()
    relations = _relations(table)
    values = table["ours"].to_numpy(float)
    kept, number = relations.kept(values)
    table["order"] = [f"{k}/{r}" if r else "" for k, r in zip(kept, number, strict=True)]
    table["order_by_chance"] = relations.by_chance(values)
    cases = {
        MISSING: table["n"] == 0,
        NOT_JUDGED: (table["n"] < runs) | (runs > 1 and profile not in ("paper", "")),
        NOT_COMPARABLE: known["no_bound"] != "",
        MATCHED: own["matched"].eq(True),
        UNSTABLE: table["ours_std"] > table["ours"].abs().clip(lower=step / 2),
        "within": (table["difference"].abs() <= table["tolerance"]) | rounds_equal,
        "ordering": kept > number / 2,
    }
    table["verdict"] = np.select(list(cases.values()), list(cases), "different")
    table["by_chance"] = chance.within_by_chance(table.assign(**merge_keys(table)), JUDGED)
    table["profile"] = profile
    table["data"] = own["data"].fillna("")
    remarks = [
        "; ".join(filter(None, [_remark(profile, data), why, note]))
        for data, why, note in zip(table["data"], known["no_bound"], table["note"], strict=True)
    ]
    table["note"] = remarks
    if profile not in ("paper", ""):  # its order can be compared, its levels cannot
        table[["published", "published_std", "difference", "error", "tolerance"]] = np.nan
    shown = ["published", "published_std", "ours", "ours_std", "n", "difference", "error"]
    shown += ["tolerance", "verdict", "by_chance", "order", "order_by_chance", "profile"]
    shown += ["data", "decimals", "digits", "doubt", "note"]
    return table[["paper", "exhibit", *KEYS, *shown]]


def summary(comparison: pd.DataFrame, by: Sequence[str] = ("exhibit", "setting")) -> pd.DataFrame:
    """Count the cells per verdict, one row for each value of `by`.

    Doubtful published cells are included.
    """
    counts = comparison.groupby([*by, "verdict"]).size().unstack(fill_value=0)
    return counts.reindex(columns=VERDICTS, fill_value=0).rename_axis(columns=None).reset_index()


def _remark(profile: str, data: str) -> str:
    shrunk = "" if profile in ("paper", "") else "small live run: levels are not comparable"
    standin = "made from a stand-in table" if data == "standin" else ""
    return "; ".join(filter(None, [shrunk, standin]))


def merge_keys(frame: pd.DataFrame) -> pd.DataFrame:
    """Return KEYS in the form in which equal cells are equal.

    What does not apply to a setting is blanked out.
    """
    keys = frame[KEYS].copy()
    real, central = keys["setting"] == "real", keys["setting"] == "central"
    keys.loc[real, "method"] = "real"  # real data know neither a generator nor an epsilon
    keys.loc[real, "epsilon"] = np.inf
    keys.loc[central | (real & (keys["partition"] == "")), "partition"] = "none"
    keys["n_clients"] = (
        keys["n_clients"]
        .astype("Int64")
        .fillna(0)
        .where(keys["partition"] != "none", 0)
        .astype(int)
    )
    keys["epsilon"] = keys["epsilon"].fillna(-1.0)
    return keys


def _relations(table: pd.DataFrame) -> chance.Relations:
    """Return the relations of `compare` between cells that both have a value of ours."""
    keys = merge_keys(table)
    if not keys.duplicated([key for key in KEYS if key != "detail"]).any():
        keys["detail"] = ""  # does not distinguish cells here: a remark on the method
    cells = keys.assign(cell=np.arange(len(keys)), **table[["published", "ours", "decimals"]])
    drawn = keys["setting"] != "real"
    methods, settings = (keys.loc[drawn, axis].nunique() for axis in ("method", "setting"))
    pairs = cells.merge(cells, on=["dataset", "metric", "node", "detail"], suffixes=("", "_other"))

    def same(*axes: str) -> pd.Series:
        return np.logical_and.reduce([pairs[axis] == pairs[f"{axis}_other"] for axis in axes])

    no_clients = (pairs["partition"] == "none") | (pairs["partition_other"] == "none")
    place, own = same("partition", "n_clients"), ["dataset", "metric", "node", "detail"]
    real = (pairs["setting"] == "real") | (pairs["setting_other"] == "real")
    if methods > 1:
        related = ~same("method") & (place | no_clients)
    elif settings > 1 or not drawn.all():
        related = ~same("setting") & (same("epsilon") | real) & (place | no_clients)
        own += ["epsilon"]
    else:
        related = (place & ~same("epsilon")) | (same("n_clients", "epsilon") & ~same("partition"))
    pairs = pairs[related & pairs["ours"].notna() & pairs["ours_other"].notna()]
    other = [f"{key}_other" for key in ("method", "partition", "n_clients", "setting", "epsilon")]
    pairs = pairs.drop_duplicates(["cell", *other])

    step = 10.0 ** -pairs[["decimals", "decimals_other"]].max(axis=1).astype(float)
    sign = np.sign(((pairs["published"] - pairs["published_other"]) / step).round())
    groups = keys.groupby(own, dropna=False).ngroup()
    columns = (pairs["cell"], pairs["cell_other"], sign, step, groups)
    return chance.Relations(*(column.to_numpy() for column in columns))


# --- tests ---------------------------------------------------------------------------------------


def t_test(
    mean: np.ndarray,
    std: np.ndarray,
    other_mean: np.ndarray,
    other_std: np.ndarray,
    *,
    n: int = 3,
    decimals: int = 3,
) -> np.ndarray:
    """Two-sided p-values of Student's t-test with equal variances, n repeats on each side.

    As martinez2024 did (protocol, section 8): means are rounded first; `std` are sample standard
    deviations. Two means without any spread differ for certain (0) or not at all (1).
    """
    mean, other_mean = np.round(mean, decimals), np.round(other_mean, decimals)
    with np.errstate(divide="ignore", invalid="ignore"):
        p = stats.ttest_ind_from_stats(
            mean, std, n, other_mean, other_std, n, equal_var=True
        ).pvalue
    return np.where(np.isnan(p), 1.0, p)


def significance(
    values: pd.DataFrame,
    *,
    setting: str = "federated",
    against: str = "central",
    n: int = 3,
    level: float = 0.05,
) -> pd.DataFrame:
    """Test the cells of `setting` against those of `against`.

    The columns are the p-value, `gain` (positive where better) and `outcome`: better, worse, equal.

    values: KEYS, mean, std, as `load_values` and `aggregate` return them. `central` and `real` have
    no clients and stand against every partition, `local` against its own.
    """
    shared = ["dataset", "method", "node", "epsilon", "detail", "metric"]
    shared += [] if against in ("central", "real") else ["partition", "n_clients"]
    reference = values.loc[values["setting"] == against, [*shared, "mean", "std"]]
    cells = values[values["setting"] == setting].merge(
        reference, on=shared, suffixes=("", "_other")
    )
    cells["p"] = t_test(cells["mean"], cells["std"], cells["mean_other"], cells["std_other"], n=n)
    cells["gain"] = cells["metric"].map(sign) * (cells["mean"] - cells["mean_other"])
    cases = [cells["p"] >= level, cells["gain"] > 0]
    cells["outcome"] = np.select(cases, ["equal", "better"], "worse")
    return cells
