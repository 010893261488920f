"""The three settings: central, local, federated. Federation is the general case.

    federated   many clients, one model
    central     one client that holds all rows
    local       each client alone: one run per client

The budget is checked against the method's promise before a row is encoded, and after every
round against what was really released.
"""

import secrets
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from types import ModuleType
from typing import Any, Literal

import numpy as np

from fedsynth_lib.core.accounting import (
    BudgetExceeded,
    Profile,
    calibrate,
    check_budget,
    check_delta,
    epsilon_of,
    noisy_profiles,
    within_budget,
)
from fedsynth_lib.core.contract import (
    BadInput,
    Charge,
    Domain,
    Encoder,
    Method,
    Privacy,
    Run,
    stream,
)
from fedsynth_lib.core.errors import checked_seed
from fedsynth_lib.core.measured import Measured, measured
from fedsynth_lib.core.statement import COUNTED, DECLARED, SIZE_CHECKED, statement
from fedsynth_lib.federation import flower
from fedsynth_lib.methods import key_of
from fedsynth_lib.tables.encode import clamped
from fedsynth_lib.tables.form import Counted, Form
from fedsynth_lib.tables.load import Table
from fedsynth_lib.tables.schema import READ_FROM_ROWS, Schema

RUNTIMES: dict[str, Callable] = {"in_process": flower.run_in_process, "ray": flower.run_with_ray}


def as_counted(method: Method, form: Form, config: Any) -> tuple[Schema, Any, Counted | None]:
    """Return the schema and settings of a method on a table of this form, and the way back.

    A method that counts takes gaps as categories of the column itself. The way back leads from its
    rows to the table's; it is None if the schema and settings stay as they are.
    """
    counted = Counted.of(form, method.encoder(form.schema, config))
    if counted is None:
        return form.schema, config, None
    if getattr(config, "by_column", ()):
        kept = {name: n for name, n in dict(config.by_column).items() if name not in counted.edges}
        config = replace(config, by_column=kept)
    return counted.counted, config, counted


def federated(
    method: Method | ModuleType,
    table: Table,
    parts: Sequence[np.ndarray],
    *,
    config: Any = None,
    privacy: Privacy | None = None,
    seed: int = 0,
    num_rows: int | None = None,
    sizes: Sequence[int] | None = None,
    before: Sequence[Charge] = (),
    runtime: Literal["in_process", "ray"] = "in_process",
) -> Run:
    """Train `method` over clients and sample a synthetic table.

    method: of METHODS, or a module that follows the contract in `core/contract.py`.
    parts: row positions of each client, disjoint (see `tables/partition.py`).
    privacy: the guarantee asked for; None or epsilon None means no noise.
    num_rows: synthetic rows; as many as the declared sizes add up to if None.
    sizes: the number of rows of each client as it is declared, near the true one; all that depends
        on a number of rows takes these. None: the true numbers, which are then public.
    before: what was released about each record before the run, within the same budget
        (`own.declared_sizes`).
    Raises BadInput for overlapping clients, and for one without rows where sizes are not declared
    (with them, one record may be all that a client has), BudgetExceeded before any row
    is encoded if the plan would cost more than the budget, BadInput if delta is above 1 / rows.
    """
    begin = time.perf_counter()
    privacy = Privacy() if privacy is None else privacy
    before = [*before, *_read_from_rows(table, privacy)]
    declared = sizes is not None
    job, encoder = planned(
        method,
        table,
        parts,
        config=config,
        privacy=privacy,
        seed=seed,
        sizes=sizes,
        before=before,
    )
    method, config, domain, sizes = job.method, job.config, job.domain, job.sizes
    multiplier = job.noise_multiplier
    frame = table.frame.iloc[np.concatenate(parts)]
    if privacy.epsilon is not None:
        frame = clamped(frame, table.schema)
    together = encoder.transform(frame)  # row by row, hence as each client would
    rows = np.split(together, np.cumsum([len(part) for part in parts])[:-1])
    outcome = flower.Outcome(charges=list(before))

    promised = (
        []
        if privacy.epsilon is None
        else _promised(method, domain, sizes, config, multiplier, privacy, before)
    )

    def refuse_overspending(number: int, charges: list[Charge]) -> None:
        check_budget(charges, privacy, when=f"by round {number}", promised=promised)

    server = flower.server_app(job, outcome, refuse_overspending)
    RUNTIMES[runtime](server, flower.client_app(job, lambda index: rows[index]), len(parts))

    num_rows = sum(sizes) if num_rows is None else num_rows
    codes = method.sample(outcome.state, num_rows, config=config, rng=stream(seed, "sample"))
    return Run(
        state=outcome.state,
        synthetic=encoder.inverse(codes, rng=stream(seed, "decode")),
        statement=statement_of(
            job,
            outcome.charges,
            public_inputs=_schema_inputs(table, privacy),
            declared=declared,
            before=before,
        ),
        seconds=time.perf_counter() - begin,
        bytes_up=outcome.bytes("up"),
        bytes_down=outcome.bytes("down"),
        traffic=outcome.traffic,
    )


def planned(
    method: Method | ModuleType,
    table: Table,
    parts: Sequence[np.ndarray],
    *,
    config: Any,
    privacy: Privacy,
    seed: int = 0,
    sizes: Sequence[int] | None = None,
    before: Sequence[Charge] = (),
) -> tuple[flower.Job, Encoder]:
    """Plan a run: its job and the encoder of its rows, with noise calibrated to the budget.

    This is the part of `federated` before a row is encoded. It raises the same errors for clients,
    sizes, delta, budget and settings that do not fit.
    """
    checked_seed(seed)
    _check_parts(parts, len(table.frame), table.key, declared=sizes is not None)
    sizes = (
        [len(part) for part in parts] if sizes is None else _checked_sizes(sizes, parts, table.key)
    )
    return job_of(
        method, table.schema, sizes, config=config, privacy=privacy, seed=seed, before=before
    )


def job_of(
    method: Method | ModuleType,
    schema: Schema,
    sizes: Sequence[int],
    *,
    config: Any,
    privacy: Privacy,
    seed: int = 0,
    before: Sequence[Charge] = (),
) -> tuple[flower.Job, Encoder]:
    """Plan a run as `planned` does, but from what is public alone.

    That is the schema, and the number of rows that each client is taken to have.
    """
    method = Method.of(method)
    config = method.Config() if config is None else config
    encoder = method.encoder(schema, config)
    domain = encoder.domain
    check_delta(privacy, sum(sizes))
    multiplier: float | tuple[float, ...] | None = noise_for(
        method, domain, sizes, config, privacy, before
    )
    if multiplier is not None and method.OWN_NOISE:
        own = {
            size: noise_for(method, domain, [size], config, privacy, before) for size in set(sizes)
        }
        multiplier = tuple(own[size] for size in sizes)
    mask_seed = secrets.randbits(62) if privacy.noise_seed is None else None
    job = flower.Job(
        method, config, domain, multiplier, seed, len(sizes), privacy, tuple(sizes), mask_seed
    )
    fewest = min(share for _, share in job.schedule()) * len(sizes)
    if fewest < 1 < len(sizes):
        raise BadInput(
            f"{len(sizes)} clients at this participation make {fewest:g} a round: "
            "raise one of the two."
        )
    # bad settings show before a row is touched
    method.start(domain, config=config, rng=stream(seed, "start"))
    return job, encoder


def statement_of(
    job: flower.Job,
    charges: Sequence[Charge],
    *,
    public_inputs: Sequence[str],
    declared: bool,
    before: Sequence[Charge] = (),
    adversary: str = "",
) -> dict:
    """Return the privacy statement of a finished run.

    public_inputs: what is said of the schema.
    declared: whether the numbers of rows were declared; else they were counted (with noise, if
        `before` says so).
    adversary: for a run to which neither the method's own words nor those of `core/statement.py`
        fit.
    """
    method = job.method
    return statement(
        charges,
        job.privacy,
        public_inputs=(*public_inputs, _size_input(declared, before), PUBLIC[1]),
        method=method.name,
        adversary=adversary or method.ADVERSARY,
        trust=method.TRUST,
        audit=_audit_of(method),
        num_rows=sum(job.sizes),
        num_clients=job.num_clients,
    )


def _audit_of(method: Method) -> Measured | None:
    """Return what the committed audit says of a registered method.

    The result is None if the audit is not of the code as it is now.
    """
    key = key_of(method)
    return measured(key, method) if key else None


PUBLIC = ("the schema: column names, declared ranges and categories", "the hyper-parameters")


def central(method: Method | ModuleType, table: Table, **options: Any) -> Run:
    """Train a method at one client that holds the whole table; options as for `federated`."""
    return federated(method, table, [np.arange(len(table.frame))], **options)


def local(
    method: Method | ModuleType,
    table: Table,
    parts: Sequence[np.ndarray],
    *,
    seed: int = 0,
    sizes: Sequence[int] | None = None,
    **options: Any,
) -> list[Run]:
    """Train a method at each client by itself, each with the whole budget.

    Returns one Run per client, in order.
    """
    checked_seed(seed)
    own = (
        [None] * len(parts)
        if sizes is None
        else [[size] for size in _checked_sizes(sizes, parts, table.key)]
    )
    return [
        federated(method, table, [part], seed=client_seed(seed, k), sizes=own[k], **options)
        for k, part in enumerate(parts)
    ]


ROW_COUNT = "number of rows"  # the charge of counting them with noise
CLAMPED = (
    "numbers outside their declared range are moved to its nearer end, and rounded where whole "
    "ones are declared"
)
STOPPED = (
    "whether the run takes place: a row with an unknown category, with a missing value where none "
    "is declared, or with what cannot be read as its column is declared, ends it before any noise "
    "is drawn, and its client says the column, but neither value nor row; so does a line of text "
    "with more fields than there are columns, or that is no object of JSON"
)


def _size_input(declared: bool, before: Sequence[Charge]) -> str:
    """Write what the statement says of the number of rows."""
    noisy = (
        "the number of rows of each client as it was counted with noise before the run; the true "
        "one has no other part"
    )
    if any(charge.what == ROW_COUNT for charge in before):
        return f"{noisy}{SIZE_CHECKED if declared else ''}"
    return DECLARED if declared else COUNTED


def _read_from_rows(table: Table, privacy: Privacy) -> list[Charge]:
    """Return the release that somebody's own table makes by taking its schema from its rows.

    The ranges and categories taken from rows are released without noise. Raises BadInput if the
    noise is fit for release: nothing would protect what such a schema says.
    """
    names = ", ".join(table.schema.from_rows)
    if table.data != "own" or not names:
        return []
    if privacy.epsilon is not None and privacy.noise_seed is None:
        raise BadInput(
            f"{table.key}: {names} are {READ_FROM_ROWS}; declare them, or rehearse with noise "
            "from the seed."
        )
    return [Charge(f"ranges and categories {READ_FROM_ROWS}: {names}", "unprotected")]


def declared_inputs(form: Form | None) -> list[str]:
    """Return what the statement of a private run says of the schema.

    It says that the schema is public, what it declares, and what becomes of rows that do not fit
    it.
    """
    return [PUBLIC[0], *(form.public if form else ()), CLAMPED, STOPPED]


def _schema_inputs(table: Table, privacy: Privacy) -> list[str]:
    """Return what the statement says of the schema.

    It also says which ranges and categories are known from the published rows.
    """
    names = ", ".join(table.schema.from_rows) if table.data != "own" else ""
    taken = [
        "ranges and categories known from a summary of the published rows, as if they were "
        f"declared: {names}"
    ]
    if privacy.epsilon is None:
        return [PUBLIC[0], *taken * bool(names)]
    return [*declared_inputs(table.form), *taken * bool(names)]


def client_seed(seed: int, index: int) -> int:
    """Return the seed of a client that runs alone: different for every client."""
    return int(stream(seed, "local", index).integers(2**31))


def noise_for(
    method: Method | ModuleType,
    domain: Domain,
    client_rows: Sequence[int],
    config: Any,
    privacy: Privacy,
    before: Sequence[Charge] = (),
) -> float | None:
    """Return the noise multiplier of a run.

    It is calibrated to the budget once for all rounds, unless `privacy` gives one that fits.

    client_rows: rows of each client.
    before: charges that the budget pays as well.
    Raises BudgetExceeded if the given multiplier is too small.
    """

    def plan(rows: int, multiplier: float) -> list[Charge]:
        return [*before, *method.plan(multiplier, domain, rows, config)]

    if privacy.epsilon is None:
        return privacy.noise_multiplier
    sizes = {
        tuple(plan(rows, privacy.noise_multiplier or 1.0)): rows
        for rows in sorted(set(client_rows))
    }.values()

    def cost(rows: int, multiplier: float) -> float:
        """Return the cost by Renyi DP, which is quick, and enough to find who pays most."""
        return epsilon_of(plan(rows, multiplier), privacy.delta, privacy.relation, accountant="rdp")

    if privacy.noise_multiplier is not None:
        for rows in sorted(
            sizes, key=lambda rows: cost(rows, privacy.noise_multiplier), reverse=True
        ):
            check_budget(
                plan(rows, privacy.noise_multiplier),
                privacy,
                when="before the first round it is clear that",
            )
        return privacy.noise_multiplier
    multiplier, over = 0.0, list(sizes)
    while over:  # once, as a rule: who pays most at one noise pays most at others
        worst = (
            max(over, key=lambda rows: cost(rows, multiplier or 1.0)) if len(over) > 1 else over[0]
        )
        multiplier = max(multiplier, calibrate(partial(plan, worst), privacy))
        over = [
            rows
            for rows in over
            if rows != worst and not within_budget(plan(rows, multiplier), privacy)
        ]
    return multiplier


def _promised(
    method: Method | ModuleType,
    domain: Domain,
    sizes: Sequence[int],
    config: Any,
    multiplier: float | tuple[float, ...],
    privacy: Privacy,
    before: Sequence[Charge] = (),
) -> list[Profile]:
    """Return what the records of each client will pay.

    All of it was found to be within the budget by `noise_for`.
    """
    own = multiplier if isinstance(multiplier, tuple) else (multiplier,) * len(sizes)
    plans = [
        [*before, *method.plan(noise, domain, rows, config)]
        for noise, rows in sorted(set(zip(own, sizes, strict=True)))
    ]
    return [profile for plan in plans for profile in noisy_profiles(plan, privacy.relation)]


def _checked_sizes(sizes: Sequence[int], parts: Sequence[np.ndarray], name: str) -> list[int]:
    if len(sizes) != len(parts) or min(sizes, default=0) < 1:
        raise BadInput(
            f"{name}: {len(sizes)} declared sizes for {len(parts)} clients; give one of at least "
            "1 for each."
        )
    return [int(size) for size in sizes]


def _check_parts(parts: Sequence[np.ndarray], num_rows: int, name: str, *, declared: bool) -> None:
    """Raise BadInput unless the clients are disjoint: parallel composition rests on it.

    A client must not be empty either, unless sizes are `declared`.
    """
    for index, part in enumerate(parts):
        if len(part) and np.asarray(part).dtype.kind not in "iu":
            raise BadInput(
                f"{name}: parts[{index}] is of {np.asarray(part).dtype}: give whole row positions, "
                "of a mask by np.flatnonzero(mask)."
            )
        if len(part) == 0 and not declared:
            raise BadInput(
                f"{name}: client {index} has no rows; use fewer clients or another partition."
            )
    if len(parts) == 0:
        raise BadInput(f"{name}: there are no clients; give at least one array of row positions.")
    together = np.concatenate(parts)
    outside = (together < 0) | (together >= num_rows)
    if outside.any() or len(np.unique(together)) < len(together):
        raise BadInput(
            f"{name}: clients share rows or point outside the table; give disjoint row positions."
        )


__all__ = ["BudgetExceeded", "central", "client_seed", "federated", "local", "noise_for", "planned"]


def configured(method: Method, *levels: Mapping[str, Any] | None) -> Any:
    """Return the method's settings; a later level overrides an earlier one.

    Lists, as files have them, become tuples.
    """
    own = {name: value for level in levels for name, value in (level or {}).items()}
    plain = {name: tuple(v) if isinstance(v, list) else v for name, v in own.items()}
    return method.Config(**plain)


def guarantee(epsilon: float | None, delta: float, **options: Any) -> Privacy:
    """Return the guarantee that a reproduction asks for.

    There is none, hence no noise, if epsilon is None or infinite.

    options: of Privacy.
    """
    if epsilon is None or np.isinf(epsilon):
        return Privacy()
    return Privacy(epsilon, delta, reproduction=True, **options)
