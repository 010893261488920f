"""What an analysis comes to on real and on synthetic rows, side by side.

The analyses are regressions, means of groups, and survival. Everything here is computed from the
real rows, without noise: it is for their owner alone, who learns whether a number may be published
from the synthetic rows.
"""

import re
import warnings
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
import pandas as pd

from fedsynth_lib.core.contract import BadInput, BadRows
from fedsynth_lib.core.errors import closest
from fedsynth_lib.tables.container import Container, Source
from fedsynth_lib.tables.files import NOT_A_NUMBER, with_labels
from fedsynth_lib.tables.form import Form
from fedsynth_lib.tables.kinds import GAP
from fedsynth_lib.tables.load import Table
from fedsynth_lib.tables.moments import TIMES
from fedsynth_lib.tables.registry import Reader

BEYOND = 1.96  # standard errors within which 95 percent of equal results are
FORMS = {  # how an analysis is written
    "survival": re.compile(r"survival\(\s*(?P<outcome>.+?)\s*,\s*(?P<event>.+?)\s*\)"),
    "mean": re.compile(r"mean\(\s*(?P<outcome>.+?)\s*\)"),
}
BY = r"(?:\s+by\s+(?P<by>.+?))?\s*"
RULE = (
    f"± is a standard error. Rule: a result may be used if it differs from the real one by at most "
    f"{BEYOND} times what both standard errors explain, and if both say the same of whether a "
    "coefficient differs from 0. The standard errors of synthetic rows leave out the noise of "
    "privacy, so they are too small to be published as they are; for means and shares `fedsynth "
    "sample --means` has ones that include it. All of this was computed from the real rows: for "
    "their owner alone."
)
NUMBERS = ("real", "real_se", "synthetic", "synthetic_se")
NONE = pd.DataFrame(columns=["analysis", "term", *NUMBERS, "apart", "verdict"])
WORDS = {"C", "Q", "I", "np", "bs", "cr", "center", "standardize", "Treatment", "Sum", "Poly"}


@dataclass(frozen=True)
class Plan:
    """An analysis that was read: of `outcome`, by the groups of a column or with a formula."""

    kind: Literal["regression", "mean", "survival"]
    text: str
    outcome: str
    event: str = ""
    by: str = ""


def read(text: str) -> Plan:
    """Return the plan of an analysis, written as a formula.

    A formula is ``y ~ a + b``, ``mean(y) by group``, or ``survival(time, event) by group``. Raises
    BadInput for anything else.
    """
    if not isinstance(text, str):
        raise BadInput(f"analyses: {text!r} is no text; write 'y ~ a + b'.")
    for kind, form in FORMS.items():
        if found := re.fullmatch(form.pattern + BY, text.strip()):
            parts = {name: part or "" for name, part in found.groupdict().items()}
            return Plan(kind, text.strip(), **parts)
    left, tilde, right = (part.strip() for part in text.partition("~"))
    if not (left and tilde and right) or "~" in right:
        raise BadInput(
            f"analysis {text!r} cannot be read: write 'y ~ a + b', 'mean(y) by group' or "
            "'survival(time, event) by group'."
        )
    return Plan("regression", text.strip(), left)


def compare(plan: Plan, table: Table, synthetic: Source) -> pd.DataFrame:
    """Compare what an analysis comes to on real and on synthetic rows.

    A regression (a formula of statsmodels) is linear, or logistic where the outcome has two values:
    the second one, in alphabetical order, is what happens. The mean of a column of two texts is the
    share of the second. Survival (Kaplan-Meier) is compared at the quartiles of the real times.
    Numbers and categories that are numbers are numbers, times are days, minutes or seconds; rows
    with a missing value in a column of the analysis are left out.

    **When a result may be used.** Its distance from the real one is at most 1.96 times the root of
    the sum of both squared standard errors; and of a coefficient, both fits agree on whether it
    differs from 0, and in which direction. The synthetic standard error counts as if there were no
    more rows than real ones, so drawing more rows changes no verdict. Where nothing is wrong, one
    result in twenty is refused by chance.

    Parameters
    ----------
    plan
        As `read` gives it.
    table
        The real rows.
    synthetic
        The synthetic ones, in a file or in memory.

    Returns
    -------
    DataFrame
        A line for each result: analysis, term, real, real_se, synthetic, synthetic_se, apart (their
        distance in standard errors), verdict (a sentence).

    Raises
    ------
    BadInput
        For a column that is not there, or is not a number where one is needed, and for rows on
        which the analysis cannot be made.
    """
    rows = {"real": values(table.frame, table.form), "synthetic": _synthetic(table.form, synthetic)}
    _check_names(plan, rows["real"])
    results = {"regression": _regression, "mean": _means, "survival": _survival}[plan.kind](
        plan, rows
    )
    more = np.sqrt(max(1.0, len(rows["synthetic"]) / max(1, len(rows["real"]))))
    found = pd.DataFrame(results, columns=["term", "what", *NUMBERS])
    error = np.hypot(found["real_se"], found["synthetic_se"] * more)
    found["apart"] = (found["synthetic"] - found["real"]).abs() / error
    found["verdict"] = [_verdict(plan, line, more) for line in found.itertuples()]
    return found.drop(columns="what").assign(analysis=plan.text)[list(NONE.columns)]


def values(frame: pd.DataFrame, form: Form) -> pd.DataFrame:
    """Rows as an analyst has them, of rows as methods see them: numbers and texts, gaps NaN."""
    found, rng = {}, np.random.default_rng(0)
    for column in form.columns:
        if column.modelled is None:
            continue
        if column.kind == "numeric":
            number = replace(column, written="", short_whole=False).restore(frame, rng)
            found[column.name] = number.astype(float)
        elif column.kind in TIMES:
            gap = f"{column.name} is missing"
            number = frame[column.name].astype(float)
            found[column.name] = number.mask(frame[gap] == GAP) if column.missing else number
        else:
            label = column.restore(frame, rng).astype(object)
            codes = pd.to_numeric(pd.Series(column.categories), errors="coerce")
            found[column.name] = label if codes.isna().any() else label.astype(float)
    return pd.DataFrame(found)


def _synthetic(form: Form, path: Source) -> pd.DataFrame:
    made = Container.of(path)
    kept = [c for c in form.columns if c.modelled is not None]
    lacking = [column.name for column in kept if made.columns and column.name not in made.columns]
    if lacking:
        raise BadInput(
            f"{path}: there is no column {lacking[0]!r}, so no analysis can be compared."
        )
    numbers = {c.name: (*NOT_A_NUMBER, *c.missing) for c in kept if not c.is_text}
    raw = with_labels(made.raw(path, [c.name for c in kept], numbers), form.labels, Reader())
    try:
        return values(form.to_model(raw, str(path)), form)
    except BadRows as error:
        raise BadInput(
            f"{error} The synthetic rows do not have the form of the real ones."
        ) from error


def _check_names(plan: Plan, rows: pd.DataFrame) -> None:
    """Refuse columns that are not there, or are not modelled."""
    named = [name for name in (plan.outcome, plan.event, plan.by) if name]
    if plan.kind == "regression":
        bare = re.sub(r"Q\(([\"'])(.+?)\1\)", " ", plan.text)
        quoted = [name for _, name in re.findall(r"Q\(([\"'])(.+?)\1\)", plan.text)]
        calls = re.findall(r"(?<![\w.])([^\W\d]\w*)(?!\w*\s*[.(])", bare)
        named = [*quoted, *(name for name in calls if name not in WORDS)]
    for name in named:
        if name not in rows:
            raise BadInput(
                f"analysis {plan.text!r}: there is no column {name!r}{closest(name, rows)}, or the "
                "schema leaves it out."
            )


# --- analyses: (term, what it is called in a sentence, then the four of NUMBERS) -----------------

Result = tuple[str, str, float, float, float, float]
Rows = dict[str, pd.DataFrame]


def _regression(plan: Plan, rows: Rows) -> list[Result]:
    import statsmodels.formula.api as smf

    plain = plan.outcome.strip("`")
    event = None
    if plain in rows["real"]:
        levels = sorted(rows["real"][plain].dropna().unique())
        event = levels[1] if len(levels) == 2 else None
        if event is None and rows["real"][plain].dtype == object:
            raise BadInput(
                f"analysis {plan.text!r}: {plain!r} has {len(levels)} categories; a regression "
                "takes a number, or two of them."
            )
    fits = {}
    for which, frame in _alike(rows).items():
        if event is not None:
            frame = frame.assign(**{plain: (frame[plain] == event).where(frame[plain].notna())})
            frame[plain] = frame[plain].astype(float)
        fit = smf.ols if event is None else smf.logit
        try:
            with warnings.catch_warnings(record=True) as told, np.errstate(all="ignore"):
                warnings.simplefilter("always")
                options = {} if event is None else {"disp": 0, "maxiter": 200}
                found = fit(plan.text, frame).fit(**options)
            fits[which] = pd.DataFrame({"value": found.params, "error": found.bse})
            # without both outcomes, or where a column tells them apart, no coefficient is the best
            if event is not None and any("Separation" in str(each.category) for each in told):
                fits[which][:] = np.nan
        except np.linalg.LinAlgError:
            fits[which] = pd.DataFrame({"value": [], "error": []}, dtype=float)
        except Exception as error:  # whatever a formula may raise
            reason = f"{type(error).__name__}: {error}".splitlines()[0]
            raise BadInput(
                f"analysis {plan.text!r} cannot be made on the {which} rows ({reason}); correct "
                "the formula."
            ) from error
    real, synthetic = fits["real"], fits["synthetic"].reindex(fits["real"].index)
    of = "" if event is None else f" on the log-odds of {plain} = {_shown(event)}"
    return [
        (term, _coefficient(term) + of, *real.loc[term], *synthetic.loc[term])
        for term in real.index
    ]


def _coefficient(term: str) -> str:
    return "the intercept" if term == "Intercept" else f"the coefficient of {term}"


def _alike(rows: Rows) -> Rows:
    """Texts as categories, of which both kinds of rows compare with the same one."""
    found = {which: frame.copy() for which, frame in rows.items()}
    for name in rows["real"].select_dtypes("object"):
        held = {which: sorted(frame[name].dropna().unique()) for which, frame in rows.items()}
        both = [level for level in held["real"] if level in held["synthetic"]]
        for which, frame in found.items():
            others = [level for level in held[which] if level not in both]
            frame[name] = pd.Categorical(frame[name], [*both, *others])
    return found


def _means(plan: Plan, rows: Rows) -> list[Result]:
    what, event = f"the mean of {plan.outcome}", None
    if rows["real"][plan.outcome].dtype == object:
        event = _second(plan, rows["real"][plan.outcome])
        what = f"the share of {plan.outcome} = {_shown(event)}"
    results = []
    for group in _groups(plan, rows["real"]):
        found = []
        for frame in rows.values():
            kept = frame[plan.outcome][_within(plan, frame, group)].dropna()
            numbers = kept if event is None else (kept == event).astype(float)
            found += [numbers.mean(), numbers.sem()]
        named = what if group is None else f"{what} where {plan.by} is {_shown(group)}"
        results.append(("all" if group is None else _plain(group), named, *found))
    return results


def _survival(plan: Plan, rows: Rows) -> list[Result]:
    from statsmodels.duration.survfunc import SurvfuncRight

    if rows["real"][plan.outcome].dtype == object:
        raise BadInput(f"analysis {plan.text!r}: {plan.outcome!r} is not a number.")
    event = _second(plan, rows["real"][plan.event])
    times = rows["real"][plan.outcome].quantile([0.25, 0.5, 0.75]).unique()
    results = []
    for group in _groups(plan, rows["real"]):
        found = []
        for frame in rows.values():
            kept = frame[_within(plan, frame, group)][[plan.outcome, plan.event]].dropna()
            happened = (kept[plan.event] == event).astype(int)
            if not happened.any():
                found.append([(np.nan, np.nan)] * len(times))
                continue
            curve = SurvfuncRight(kept[plan.outcome].to_numpy(), happened.to_numpy())
            last = np.searchsorted(curve.surv_times, times, side="right") - 1
            pairs = zip(curve.surv_prob[last], curve.surv_prob_se[last], strict=True)
            found.append([(1.0, 0.0) if k < 0 else p for k, p in zip(last, pairs, strict=True)])
        for time, *pairs in zip(times, *found, strict=True):
            term = f"{time:g}" if group is None else f"{_plain(group)}: {time:g}"
            of = "" if group is None else f" where {plan.by} is {_shown(group)}"
            what = (
                f"the share without {plan.event} = {_shown(event)} at {plan.outcome} {time:g}{of}"
            )
            results.append((term, what, *pairs[0], *pairs[1]))
    return results


def _second(plan: Plan, values: pd.Series) -> object:
    """Return the value of a two-valued column that counts as the event: the second in order."""
    levels = sorted(values.dropna().unique())
    if len(levels) != 2:
        raise BadInput(
            f"analysis {plan.text!r}: {values.name!r} has {len(levels)} different values; it takes "
            "a number for a mean, or a column of two values."
        )
    return levels[1]


def _groups(plan: Plan, rows: pd.DataFrame) -> list:
    return sorted(rows[plan.by].dropna().unique()) if plan.by else [None]


def _within(plan: Plan, rows: pd.DataFrame, group: object) -> pd.Series:
    return pd.Series(True, rows.index) if group is None else rows[plan.by] == group


def _plain(value: object) -> str:
    """Write a value as people write it."""
    return value if isinstance(value, str) else f"{value:g}"


def _shown(value: object) -> str:
    """Write a value in a sentence, a text in quotation marks."""
    return repr(value) if isinstance(value, str) else _plain(value)


# --- verdicts -------------------------------------------------------------------------------------


def _verdict(plan: Plan, line: tuple, more: float) -> str:
    """Write the sentence on one result, by the rule of `compare`."""
    refused = f"do not publish {line.what} from these rows"
    if not np.isfinite([line.real, line.real_se]).all():
        return f"{refused}: the real rows do not decide it"
    if not np.isfinite([line.synthetic, line.synthetic_se]).all():
        return f"{refused}: they do not decide it"
    error = line.synthetic_se * more
    here, there = _number(line.synthetic, error), _number(line.real, line.real_se)
    both = f"{here} here, {there} in the real rows"
    if line.apart > BEYOND or (np.isnan(line.apart) and line.real != line.synthetic):
        return f"{refused}: {both}, which is more than both standard errors explain"
    signs = [
        np.sign(value) * (abs(value) > BEYOND * width)
        for value, width in ((line.real, line.real_se), (line.synthetic, error))
    ]
    if plan.kind == "regression" and line.term != "Intercept" and signs[0] != signs[1]:
        return f"{refused}: {both}, and only one of the two differs from 0"
    return f"{line.what} may be used: {both}"


def _number(value: float, error: float) -> str:
    """Write a value and its error with as many decimals as show two digits of the error."""
    if not 1e-6 <= error < np.inf:
        return f"{value:.3g} ± {error:.2g}"
    decimals = max(0, 1 - int(np.floor(np.log10(error))))
    return f"{value:.{decimals}f} ± {error:.{decimals}f}"
