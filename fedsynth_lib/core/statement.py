"""The privacy statement of a run.

It says what is guaranteed, to whom and on which assumptions, and it lists every release. It is a
dict that saves as JSON; `statement_table` makes a table of it to read.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd
from jinja2 import Environment, FileSystemLoader, StrictUndefined, select_autoescape

from fedsynth_lib.core.accounting import (
    accountant_of,
    epsilon_of,
    exceeds,
    numerical_epsilon_of,
)
from fedsynth_lib.core.contract import NOISY, Charge, Method, Privacy
from fedsynth_lib.core.ledger import Total
from fedsynth_lib.core.measured import Measured

if TYPE_CHECKING:  # a Styler brings matplotlib, which a run does not need
    from pandas.io.formats.style import Styler

ADVERSARY = (
    "whoever sees the synthetic rows, and an honest-but-curious server that sees what crosses the "
    "wire; {others}; secure summation is simulated in one process"
)
DEPLOYED = {  # by a method's TRUST, where every party has a machine of its own
    "local noise": "whoever sees {what} or anything that crosses the wire: {server}, and the other "
    "sites, who may all work together",
    "secure sum": "whoever sees {what}, and {server}, together with at most {colluding} of the "
    "{sites} sites: sums are opened by the sites alone, with masks of keys that they have agreed "
    "on (X25519, ChaCha20)",
    "server": "whoever sees {what}, and the other sites; the server is trusted to add the noise to "
    "the exact sums it learns",
}
COUNTED = (
    "the number of rows of each client, which was counted: what is compared are tables for which "
    "it is declared alike"
)
SIZE_CHECKED = (
    ", except that a site refuses to take part with fewer than 2 rows, or with a number that is "
    "not between half and twice the declared one"
)
DECLARED = (
    "the number of rows of each client as it was declared before the run; the true one has no "
    f"other part{SIZE_CHECKED}"
)
TRUST = {  # by a method's TRUST (see `core/contract.py`)
    "local noise": "nobody else: each client adds its noise before anything leaves it",
    "secure sum": "the secure sum, of which the total alone is seen; the clients together make "
    "the noise in it",
    "server": "the server, which learns exact sums and adds the noise",
}
SECRET_NOISE = "not repeatable"  # what a seed policy says of noise that is fit for release
MOST_USEFUL = 10.0  # beyond it one record may change an outcome's probability from 0.0001 to 0.7
PROMISES_NOTHING = (
    "An epsilon above 10 promises nothing useful: whoever sees the result may be all but certain "
    "whether a record was in the table."
)
BY_RENYI = "Renyi DP (Canonne-Kamath-Steinke conversion) and pure composition, the smaller"


def statement(
    charges: Iterable[Charge],
    privacy: Privacy,
    *,
    public_inputs: Iterable[str] = (),
    method: str = "",
    adversary: str = "",
    trust: str = "",
    audit: Measured | None = None,
    num_rows: int | None = None,
    num_clients: int | None = None,
) -> dict:
    """Return the run's privacy statement.

    It says what is guaranteed, to whom and on which assumptions, and it lists every release.

    Equal releases of several clients or rounds share an entry; nothing is left out. `epsilon` is
    None if anything was released unprotected: there is then no guarantee for the run as a whole.
    `epsilon_protected`, `epsilon_rdp` and `epsilon_numerical` are about the noisy releases alone.
    `epsilon_rdp` is the figure of Renyi DP, and `epsilon_numerical` that of composed losses, None
    if they give no figure.

    trust: the method's TRUST.
    audit: what was measured of the method.
    num_rows, num_clients: of the run, as declared; if they are None, nothing is said about delta
        and shares.
    """
    charges = list(charges)
    unprotected = sorted({charge.what for charge in charges if charge.mechanism == "unprotected"})
    accountant = accountant_of(privacy)
    spent = epsilon_of(charges, privacy.delta, accountant=accountant)
    numerical = numerical_epsilon_of(charges, privacy.delta)
    return {
        "method": method,
        "unit": "one record",
        "relation": "add or remove one record",
        "delta": privacy.delta,
        "delta_exceeds": None if num_rows is None else exceeds(privacy.delta, num_rows),
        "num_rows": num_rows,
        "adversary": adversary or ADVERSARY.format(others=_others(privacy)),
        "trust": TRUST.get(trust, "not stated"),
        "public_inputs": [
            *public_inputs,
            *sorted({c.what for c in charges if c.mechanism == "public"}),
        ],
        "sampler": "poisson"
        if any(charge.rate < 1 for charge in charges)
        else "all rows in every release",
        "entries": _entries(charges),
        "unprotected": unprotected,
        "audit": None if audit is None else audit._asdict(),
        "epsilon": None if unprotected else spent,
        "epsilon_protected": spent,
        "epsilon_rdp": epsilon_of(charges, privacy.delta, accountant="rdp"),
        "epsilon_numerical": numerical,
        "epsilon_replace_one": _replace_one(charges, privacy),
        "budget": privacy.epsilon,
        "budget_relation": privacy.relation,
        "accountant": BY_RENYI if accountant == "rdp" else _smallest(numerical),
        "curious": privacy.clients_that_collude,
        "shares": None if num_clients is None else privacy.shares(num_clients),
        "whole": privacy.whole,
        "seed_policy": "noise derived from the run's seed: repeatable, and no guarantee towards "
        "whoever knows the seed or sees another run with it"
        if privacy.noise_seed is not None
        else f"noise from the operating system's entropy: {SECRET_NOISE}, fit for release",
        "not_covered": f"choice of hyper-parameters; {_floats(privacy.whole)}; how long computing "
        "takes; whoever can predict pseudo-random numbers (PCG64, Mersenne Twister) from some of "
        "them",
    }


def server_of(method: Method) -> str:
    """Return in words the server that a deployed method protects from.

    The server may do anything only if each client checks what it is sent (see `check_broadcast` in
    `core/contract.py`). In either case it sees when answers come, and `not_covered` says so.
    """
    return (
        "an honest-but-curious server"
        if method.check_broadcast is None
        else "the server, whatever it does (but for timing)"
    )


def deployed_adversary(method: Method, *, what: str, colluding: int, sites: int) -> str:
    """Return against whom a release by several sites protects records, for its statement.

    what: names what comes out of the run.
    """
    words = DEPLOYED[method.TRUST]
    return words.format(what=what, server=server_of(method), colluding=colluding, sites=sites)


def audited(found: dict | None) -> str:
    """Write what the `audit` of a statement says, for a reader."""
    if not found:
        return "no lower bound of epsilon was measured for this method"
    return (
        f"an audit of this method at epsilon {found['claimed']:g} proves {found['lower']:.3g} at "
        f"least (95 percent, {found['runs']} runs on worst-case tables)"
    )


def _others(privacy: Privacy) -> str:
    many = privacy.clients_that_collude
    if not many:
        return "clients do not collude, and use their own shares of the noise against nobody"
    return (
        f"at most {many} {'client pools' if many == 1 else 'clients pool'} with it what they know"
    )


def _smallest(numerical: float | None) -> str:
    """Write what `accountant` says of the smallest valid figure."""
    if numerical is None:
        return (
            f"{BY_RENYI}; privacy losses were not composed numerically, which gives no figure for "
            "these releases"
        )
    return (
        "the smaller, for each client, of Renyi DP with pure composition and of privacy losses "
        "composed numerically, rounded up (exact for Gaussian noise on all rows)"
    )


def _floats(whole: bool) -> str:
    if whole:
        return (
            "floating-point attacks on Gaussian noise on gradients and the like (on counts "
            "it is rounded)"
        )
    return (
        "floating-point attacks on Gaussian noise, which is not rounded on counts either "
        "(Laplace is integer)"
    )


def _entries(charges: list[Charge]) -> list[dict]:
    """Group charges by everything but round and client, in order of first appearance."""
    grouped: dict[tuple, dict] = {}
    for charge in charges:
        key = (charge.what, charge.mechanism, charge.noise, charge.sensitivity, charge.rate)
        entry = grouped.setdefault(key, {"count": {}, "rounds": set(), "clients": set()})
        entry["count"][charge.client] = entry["count"].get(charge.client, 0) + charge.times
        entry["rounds"].add(charge.round)
        entry["clients"].add(charge.client)
    return [
        {
            "what": what,
            "mechanism": mechanism,
            "sensitivity": sensitivity,
            "noise_multiplier": noise,
            "scale": noise * sensitivity,
            "rate": rate,
            "count": max(entry["count"].values()),
            "rounds": sorted(entry["rounds"]),
            "clients": sorted(entry["clients"] - {None}) or "all",
        }
        for (what, mechanism, noise, sensitivity, rate), entry in grouped.items()
    ]


def _replace_one(charges: list[Charge], privacy: Privacy) -> float | None:
    """Return epsilon for replacing a record; None if it is unknown.

    It is for readers who compare with works that bound the replacement of a record.
    """
    if any(charge.rate < 1 for charge in charges):
        return None
    return epsilon_of(charges, privacy.delta, "replace_one", accountant=accountant_of(privacy))


def statement_table(statement: dict) -> Styler:
    """Return the statement as a table to read, one line per entry.

    Unprotected releases are in red.
    """
    frame = pd.DataFrame(statement["entries"]).rename(columns={"what": "release"})
    if frame.empty:
        frame = pd.DataFrame([{"release": "nothing", "mechanism": "public"}])
    for name in ("rounds", "clients"):
        if name in frame:
            frame[name] = [v if isinstance(v, str) else _ranges(v) for v in frame[name]]
    noisy = frame["mechanism"].isin(NOISY)
    numbers = frame.columns.intersection(["sensitivity", "noise_multiplier", "scale", "rate"])
    # a release without noise has none of them
    frame[numbers] = frame[numbers].astype(float).where(noisy)
    epsilon = statement["epsilon"]
    total = "none for the run as a whole" if epsilon is None else f"{epsilon:.4g}"
    caption = (
        f"epsilon {total} (noisy releases alone: {statement['epsilon_protected']:.4g}; "
        f"by Rényi DP {_number(statement['epsilon_rdp'])}, "
        f"{_numerical(statement['epsilon_numerical'])}), delta "
        f"{statement['delta']:g}{', which exceeds 1 / n' if statement['delta_exceeds'] else ''}, "
        f"unit {statement['unit']}, {statement['relation']}"
    )
    style = (
        frame.style.hide(axis="index")
        .set_caption(caption)
        .format("{:.4g}", subset=numbers, na_rep="–")
        .format(subset=["release"], escape="html")
    )
    red = [
        "color: #b00020; font-weight: bold" if m == "unprotected" else ""
        for m in frame["mechanism"]
    ]
    return style.apply(lambda column: red, axis=0)


def _numerical(epsilon: float | None) -> str:
    """Write the figure of composed losses, which may give none."""
    return "no numerical figure" if epsilon is None else f"numerically {_number(epsilon)}"


def _ranges(numbers: list[int]) -> str:
    """Write [0, 1, 2, 5] as '0-2, 5'."""
    runs = np.split(np.array(numbers), np.flatnonzero(np.diff(numbers) != 1) + 1)
    return ", ".join(str(run[0]) if len(run) == 1 else f"{run[0]}-{run[-1]}" for run in runs)


def odds(epsilon: float) -> str:
    """Write what an epsilon promises, in words that follow 'no outcome becomes'."""
    return f"more than {np.exp(epsilon):.3g} times as likely"


def promises(epsilon: float) -> bool:
    """Whether an epsilon promises anything that a person could use."""
    return epsilon <= MOST_USEFUL


def statement_text(statement: dict, title: str, total: Total | None = None) -> str:
    """Return the statement as Markdown for someone who must approve a release.

    total: of all releases of the same rows, this one included; None where nothing was released.
    """
    return templates().get_template("statement.md").render(statement, title=title, total=total)


@cache
def templates() -> Environment:
    """Return the templates of texts about a statement, with the words that these share."""
    found = Environment(
        loader=FileSystemLoader(Path(__file__).with_name("templates")),
        autoescape=select_autoescape(["html"]),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    found.filters |= {
        "added_up": added_up,
        "audited": audited,
        "bullets": markdown_list,
        "md": escaped,
        "number": _number,
        "numerical": _numerical,
        "one_line": lambda text: " ".join(text.split()),
    }
    found.globals |= {
        "BEYOND": list(BEYOND),
        "COUNTED": COUNTED,
        "PROMISES_NOTHING": PROMISES_NOTHING,
        "SECRET_NOISE": SECRET_NOISE,
        "groups": lambda together: [" \N{MULTIPLICATION SIGN} ".join(group) for group in together],
        "odds": odds,
        "promises": promises,
    }
    return found


def added_up(total: Total | None) -> str:
    """Write what several releases of the same rows cost together, and what that is worth.

    The text is empty if there is only one release.
    """
    if total is None or total.releases < 2:
        return ""
    of = f" ({total.of})" if total.of else ""
    text = (
        f"This is one of {total.releases} releases of the same rows{of}: together they have "
        f"epsilon = {total.epsilon:.4g}, delta = {total.delta:g}."
    )
    if total.mixed:
        text += " That is for one row, since some of them promise for a row, and not for a person."
    return text if promises(total.epsilon) else f"{text} {PROMISES_NOTHING}"


BEYOND = (
    "other releases about the same people: each run spends its own epsilon, and they add up",
    "measurements and pictures made with the real rows, which are not private",
    "what is true of everybody: conclusions about a group hold for its members, in the table or "
    "not",
)


def markdown_list(items: Iterable[str]) -> str:
    """Write plain texts as a list in Markdown."""
    return "\n".join(f"* {escaped(item)}" for item in items)


def escaped(text: str) -> str:
    """Escape a text so that Markdown shows it as it is.

    The text may be the name of somebody's column: it makes no tag, no code, no link and no cell of
    a table.
    """
    return re.sub(r"[\\`*\[\]<>|&~$]|(?<!\w)_|_(?!\w)", r"\\\g<0>", " ".join(text.split()))


def _number(value: float | None) -> str:
    return "–" if value is None else f"{value:.4g}"
