"""The published values beside ours: load, compare cell by cell, judge the claims.

The values, catalogues and claims of the five works lie in data/published/ (its README says what
each column means). A verdict says how near a result of ours comes to a printed one; it never
hides one that does not.
"""

from collections.abc import Callable, Mapping, Sequence
from decimal import Decimal, InvalidOperation
from pathlib import Path

import numpy as np
import pandas as pd
from scipy import stats

from fedsynth_lib.core.contract import BadInput
from fedsynth_lib.core.store import project_root
from fedsynth_lib.metrics.registry import sign
from fedsynth_lib.runs.details import with_detail

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
# stated in the works
REPEATS = {"martinez2024": 3, "leitner2023": 5, "maddock2024": 10, "apellaniz2025": 3}
VERDICTS = ["within", "ordering", "different", "ours missing"]
UNTESTED = "not tested at this scale"


# --- load ----------------------------------------------------------------------------------------


def load_values(work: str, exhibit: str | None = None, *, excluded: bool = False) -> pd.DataFrame:
    """Printed values of a work, or of one exhibit of it: VALUE_COLUMNS, `printed`, `decimals`,
    `doubt`.

    `mean` is NaN where a word is printed, `printed` always holds the text. Rows that must not serve
    as a reference (their note says EXCLUDE) are left out unless asked for.
    """
    folder = _folder() / "values" / _known(work)
    paths = sorted(folder.glob("*.csv")) if exhibit is None else [folder / f"{exhibit}.csv"]
    if not all(path.exists() for path in paths):
        raise BadInput(
            f"{work} has no values for {exhibit!r}: choose one of "
            f"{[p.stem for p in folder.glob('*.csv')]}."
        )
    frame = pd.concat([_read(path) for path in paths], ignore_index=True)
    frame["printed"] = frame["mean"]
    frame["decimals"] = frame["printed"].map(_decimals).astype("Int64")
    frame["doubt"] = frame["note"].str.startswith("DOUBT")
    for column in ("mean", "std", "epsilon"):
        frame[column] = pd.to_numeric(frame[column], errors="coerce").astype(float)
    frame["n_clients"] = pd.to_numeric(frame["n_clients"]).astype("Int64")
    return (
        frame
        if excluded
        else frame[~frame["note"].str.startswith("EXCLUDE")].reset_index(drop=True)
    )


def load_catalogue(work: str | None = None) -> pd.DataFrame:
    """Every numbered exhibit of a work (of all works): id, kind, title, what it shows, whether a
    run can make it."""
    return _load_all("catalogue", work)


def load_claims(work: str | None = None) -> pd.DataFrame:
    """Claims of a work (of all works) about results, each with a testable form (`check`)."""
    return _load_all("claims", work)


def _load_all(kind: str, work: str | None) -> pd.DataFrame:
    works = WORKS if work is None else (_known(work),)
    return pd.concat([_read(_folder() / f"{kind}_{work}.csv") for work in works], ignore_index=True)


def _known(work: str) -> str:
    if work not in WORKS:
        raise BadInput(f"{work!r} is not one of the works: choose one of {', '.join(WORKS)}.")
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


def aggregate(rows: pd.DataFrame, *, per_node: bool = False) -> pd.DataFrame:
    """Mean and sample standard deviation over seeds (`mean`, `std`, `n`, `data`) for each of KEYS.

    Unless `per_node`, rows of single clients are first averaged over the clients of a run. One row
    from a stand-in makes the aggregate one (`standin` is the last of the kinds in the alphabet,
    hence max).
    """
    rows = with_detail(rows[rows["value"].notna()])
    # its codes, in the order of the alphabet: the largest of texts takes long
    kinds = pd.Categorical(rows["data"])
    keyed = _merge_keys(rows).assign(
        seed=rows["seed"].fillna(-1), value=rows["value"], data=kinds.codes
    )
    keyed["node"] = keyed["node"] if per_node else ""
    runs = keyed.groupby([*KEYS, "seed"], as_index=False).agg(
        value=("value", "mean"), data=("data", "max")
    )
    found = runs.groupby(KEYS, as_index=False).agg(
        mean=("value", "mean"), std=("value", "std"), n=("value", "size"), data=("data", "max")
    )
    return found.assign(
        data=kinds.categories.to_numpy(dtype=object)[found["data"].to_numpy(dtype=int)]
    )


def compare(rows: pd.DataFrame, work: str, exhibit: str) -> pd.DataFrame:
    """Every printed cell of an exhibit with our value, the difference and a verdict.

    rows: tidy rows of one profile, from any grid; a printed cell takes the rows of this work that
        agree in KEYS. Per-client rows are averaged where the work prints no clients.
    verdict:
        within        |difference| <= `tolerance`, twice the standard error of the difference
                      (published and own spread over repeats; with a single seed ours is taken to be
                      the published one, which earns no verdict in `verdict`), or equal after
                      rounding to the printed decimals
        ordering      not within, but more than half of the cell's relations have the printed sign.
                      A relation is a pair (this cell, counterpart): the same dataset, method,
                      metric and epsilon in another setting, and, where both have clients, the same
                      partition and number of clients. In exhibits of several methods the
                      counterparts are the other methods instead, whatever their epsilon. `order`
                      shows kept/all relations.
        different     neither
        ours missing  no row of ours
    """
    rows = rows[rows["paper"].isin(["", work])]
    profiles = sorted(rows["profile"].unique())
    if len(profiles) > 1:
        raise BadInput(
            f"rows of the profiles {', '.join(profiles)} are mixed: compare one profile at a time."
        )
    ours = aggregate(rows, per_node=names_nodes(load_values(work, exhibit)))
    return compare_means(ours, work, exhibit, profile=profiles[0] if profiles else "")


def names_nodes(values: pd.DataFrame) -> bool:
    """Whether printed values tell clients apart, so that rows of single clients must not be
    averaged."""
    return bool((values["node"] != "").any())


def compare_means(
    ours: pd.DataFrame, work: str, exhibit: str, *, profile: str = ""
) -> pd.DataFrame:
    """As `compare`, of means by `aggregate`: whoever wants cells with repeats only leaves out the
    others first."""
    table = load_values(work, exhibit)
    table = table[table["mean"].notna()].reset_index(drop=True)
    ours = _merge_keys(table).merge(ours, on=KEYS, how="left", validate="many_to_one")

    table = table.rename(columns={"mean": "published", "std": "published_std"})
    table["ours"], table["ours_std"], table["n"] = (
        ours["mean"],
        ours["std"],
        ours["n"].fillna(0).astype(int),
    )
    table["difference"] = table["ours"] - table["published"]
    spread = table["published_std"].fillna(0)
    own_spread = table["ours_std"].where(table["n"] > 1, spread).fillna(0)
    table["tolerance"] = 2 * np.sqrt(
        spread**2 / REPEATS.get(work, 1) + own_spread**2 / table["n"].clip(lower=1)
    )

    step = 10.0 ** -table["decimals"].astype(float)
    rounds_equal = (table["ours"] / step).round() == (table["published"] / step).round()
    kept, relations = _order_kept(table)
    table["order"] = [f"{k}/{r}" if r else "" for k, r in zip(kept, relations, strict=True)]
    table["verdict"] = np.select(
        [
            table["n"] == 0,
            (table["difference"].abs() <= table["tolerance"]) | rounds_equal,
            kept > relations / 2,
        ],
        ["ours missing", "within", "ordering"],
        "different",
    )
    table["profile"] = profile
    table["data"] = ours["data"].fillna("")
    remarks = [
        _remark(profile, data)
        for profile, data in zip(table["profile"], table["data"], strict=True)
    ]
    table["note"] = [
        "; ".join(filter(None, pair)) for pair in zip(remarks, table["note"], strict=True)
    ]
    shown = [
        "published",
        "published_std",
        "ours",
        "ours_std",
        "n",
        "difference",
        "tolerance",
        "order",
        "verdict",
    ]
    return table[
        ["paper", "exhibit", *KEYS, *shown, "profile", "data", "decimals", "doubt", "note"]
    ]


def summary(comparison: pd.DataFrame, by: Sequence[str] = ("exhibit", "setting")) -> pd.DataFrame:
    """Number of cells per verdict, one row for each value of `by`; doubtful printed cells
    included."""
    counts = comparison.groupby([*by, "verdict"]).size().unstack(fill_value=0)
    return counts.reindex(columns=VERDICTS, fill_value=0).rename_axis(columns=None).reset_index()


def _remark(profile: str, data: str) -> str:
    shrunk = "" if profile in ("paper", "") else "shrunk run: levels are not comparable"
    standin = "made from a stand-in table" if data == "standin" else ""
    return "; ".join(filter(None, [shrunk, standin]))


def _merge_keys(frame: pd.DataFrame) -> pd.DataFrame:
    """KEYS in the form in which equal cells are equal: what does not apply to a setting is blanked
    out."""
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


def _order_kept(table: pd.DataFrame) -> tuple[np.ndarray, np.ndarray]:
    """For each cell the number of its relations whose sign ours keep, and of all its relations (see
    `compare`)."""
    keys = _merge_keys(table)
    if not keys.duplicated([key for key in KEYS if key != "detail"]).any():
        keys["detail"] = ""  # tells no cells apart here: a remark on the method
    cells = keys.assign(cell=np.arange(len(keys)), **table[["published", "ours", "decimals"]])
    methods = keys.loc[keys["setting"] != "real", "method"].nunique()
    pairs = cells.merge(cells, on=["dataset", "metric", "node", "detail"], suffixes=("", "_other"))
    same_place = (pairs["partition"] == pairs["partition_other"]) & (
        pairs["n_clients"] == pairs["n_clients_other"]
    )
    no_clients = (pairs["partition"] == "none") | (pairs["partition_other"] == "none")
    if methods > 1:
        counterpart = pairs["method"] != pairs["method_other"]
    else:
        real = (pairs["setting"] == "real") | (pairs["setting_other"] == "real")
        counterpart = (pairs["setting"] != pairs["setting_other"]) & (
            (pairs["epsilon"] == pairs["epsilon_other"]) | real
        )
    pairs = pairs[
        counterpart
        & (same_place | no_clients)
        & pairs["ours"].notna()
        & pairs["ours_other"].notna()
    ]
    pairs = pairs.drop_duplicates(
        [
            "cell",
            *[f"{key}_other" for key in ("method", "partition", "n_clients", "setting", "epsilon")],
        ]
    )

    step = 10.0 ** -pairs[["decimals", "decimals_other"]].max(axis=1).astype(float)

    def sign(column: str) -> pd.Series:
        return np.sign(((pairs[column] - pairs[f"{column}_other"]) / step).round())

    kept = (sign("published") == sign("ours")).groupby(pairs["cell"]).agg(["sum", "size"])
    kept = kept.reindex(range(len(table)), fill_value=0)
    return kept["sum"].to_numpy(), kept["size"].to_numpy()


# --- tests and claims ----------------------------------------------------------------------------


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
    """Cells of `setting` with the p-value of the test against `against`, and `outcome`: better,
    worse, equal.

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
    gain = cells["metric"].map(sign) * (cells["mean"] - cells["mean_other"])
    cells["outcome"] = np.select([cells["p"] >= level, gain > 0], ["equal", "better"], "worse")
    return cells


Judgement = tuple[bool | float | None, str]


def judge_claims(
    work: str, rows: pd.DataFrame, checks: Mapping[str, Callable[[pd.DataFrame], Judgement]]
) -> pd.DataFrame:
    """Each claim of the work with our verdict, `share` and evidence beside what the printed values
    say.

    checks: claim id (`c07`) -> function of the rows that returns (outcome, evidence). Outcome: True
        or False; a share strictly between 0 and 1 means that the claim holds partly; None that
        these rows cannot tell. Claims without a check are not tested at this scale.
    share: of the claim's conditions that hold, 0 to 1; missing where it was not tested. fails:
        those that do not.
    """
    claims = load_claims(work)
    number = claims["id"].str.rpartition("/")[2]
    if unknown := set(checks) - set(number):
        raise BadInput(
            f"{work} has no claims {sorted(unknown)}: claims are named {number.iloc[0]} to "
            f"{number.iloc[-1]}."
        )
    results = [
        checks[claim](rows) if claim in checks else (None, "no check at this scale")
        for claim in number
    ]
    claims["verdict"] = [_claim_verdict(outcome) for outcome, _ in results]
    claims["share"] = [np.nan if outcome is None else float(outcome) for outcome, _ in results]
    claims["evidence"] = [evidence for _, evidence in results]
    claims = claims.rename(columns={"holds_on_published_values": "published_holds"})
    claims["fails"] = [getattr(evidence, "fails", "") for _, evidence in results]
    columns = ["id", "location", "claim", "check", "verdict", "share", "evidence", "fails"]
    return claims[[*columns, "published_holds", "published_evidence"]]


def _claim_verdict(outcome: bool | float | None) -> str:
    if outcome is None:
        return UNTESTED
    if not 0 <= outcome <= 1:
        raise BadInput(
            f"a claim's check returned {outcome}: return True, False, a share from 0 to 1, or None."
        )
    return "holds" if outcome == 1 else "does not hold" if outcome == 0 else "holds partly"
