"""Two neighbouring tables, from the rows to what an adversary sees.

A method runs with and without one record. The record is gone from the table, not merely made to
count nothing. Each client's number of rows is declared, the same for both tables; all that touches
rows is drawn from the system's entropy; start and server draw from a seed that everybody knows. The
adversary knows the method, its settings, and all other rows.
"""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Literal

import numpy as np
import pandas as pd

from fedsynth_lib.audit.fits import Fit
from fedsynth_lib.core import secure_sum
from fedsynth_lib.core.contract import Arrays, Charge, Method, Privacy
from fedsynth_lib.federation import flower, settings
from fedsynth_lib.federation.rounds import copied, run_rounds
from fedsynth_lib.tables.load import Table
from fedsynth_lib.tables.schema import Schema

Sees = Literal["the model", "sums of all clients", "what each client sends"]
RATE_OF_CONTROL = 0.3  # of the noise that the claim needs


@dataclass(frozen=True)
class Case:
    """A method as it is audited, and the worst table for it that is known.

    others: rows that every client holds; the adversary knows them. target: the record, the first
        row of client 0.
    sees: by the method's trust model; the model is what a run leaves behind (`Run.state`).
    fit: how rates become epsilon, by what the score reads; made from a `Scenario`.
    score: of one run; made from a `Scenario`, which it may ask for runs of its own.
    """

    key: str
    method: Method
    config: Any
    privacy: Privacy
    schema: Schema
    others: tuple[tuple, ...]
    target: tuple
    sees: Sees
    fit: Callable[["Scenario"], Fit]
    score: Callable[["Scenario"], Callable[["Seen"], float]]


@dataclass
class Seen:
    """What one run shows to the adversary.

    wire: one entry a round, as far as the method's trust model lets the adversary see it.
    """

    state: Arrays = field(default_factory=dict)
    sent: list[Arrays] = field(default_factory=list)  # to the clients
    wire: list[Arrays] = field(default_factory=list)
    charges: list[Charge] = field(default_factory=list)
    traffic: list[dict] = field(default_factory=list)


def table_of(case: Case, clients: int, *, present: bool) -> Table:
    """Return the rows of all clients, one after the other; the record first, or gone.

    The table is not read from a file, because `load_table` refuses a file in which a column is
    constant, which the record can decide.
    """
    rows = pd.DataFrame(
        [case.target] * present + list(case.others) * clients, columns=case.schema.names
    )
    for column in case.schema.columns:
        if column.kind == "categorical":
            rows[column.name] = pd.Categorical(
                rows[column.name], categories=list(column.categories)
            )
    return Table("audit", rows, case.schema, "own")


def parts_of(case: Case, clients: int, *, present: bool) -> list[np.ndarray]:
    """Return the row positions of each client."""
    ends = present + len(case.others) * np.arange(1, clients + 1)
    return np.split(np.arange(ends[-1]), ends[:-1])


@dataclass(frozen=True)
class Scenario:
    """Runs of a case with so many clients.

    noise: as a share of what the claim needs; 1 except for controls.
    """

    case: Case
    clients: int = 1
    noise: float = 1.0
    job_type: type[flower.Job] = flower.Job

    @property
    def sizes(self) -> tuple[int, ...]:
        """The declared number of rows of each client, the same with the record and without it."""
        return (len(self.case.others) + 1,) * self.clients

    @cached_property
    def job(self) -> flower.Job:
        """The job that `settings.federated` would make.

        Its multiplier is scaled after it was calibrated to the claim.
        """
        case = self.case
        encoder = case.method.encoder(case.schema, case.config)
        whole = settings.noise_for(
            case.method, encoder.domain, self.sizes, case.config, case.privacy
        )
        return self.job_type(
            *(
                case.method,
                case.config,
                encoder.domain,
                self.noise * whole,
                0,
                self.clients,
                case.privacy,
            ),
            *(self.sizes, 1),
        )

    @cached_property
    def rows(self) -> dict[bool, list[np.ndarray]]:
        """Encoded rows of each client, with the record and without it."""
        encoder = self.case.method.encoder(self.case.schema, self.case.config)
        found = {}
        for present in (False, True):
            encoded = encoder.transform(table_of(self.case, self.clients, present=present).frame)
            found[present] = [
                encoded[part] for part in parts_of(self.case, self.clients, present=present)
            ]
        return found

    @cached_property
    def target(self) -> np.ndarray:
        """The record as the method sees it."""
        return self.rows[True][0][0]

    def run(self, *, present: bool, multiplier: float | None = -1.0) -> Seen:
        """Make one run.

        multiplier: another one than the scenario's; None runs without noise.
        """
        job = self.job if multiplier == -1.0 else replace(self.job, noise_multiplier=multiplier)
        return run(job, self.rows[present], self.case.sees)

    def score_runs(self, number: int) -> tuple[np.ndarray, np.ndarray]:
        """Return the scores of so many runs with the record, and of as many without."""
        score = self.case.score(self)
        return tuple(
            np.array([score(self.run(present=present)) for _ in range(number)])
            for present in (True, False)
        )

    def sample(self, seen: Seen, num_rows: int) -> np.ndarray:
        """Draw synthetic rows of a run."""
        return self.case.method.sample(
            seen.state, num_rows, config=self.case.config, rng=np.random.default_rng()
        )


def run(job: flower.Job, rows: list[np.ndarray], sees: Sees) -> Seen:
    """Make one run, without masks, and return what the adversary sees.

    No adversary here sees more because masks are left out.
    """
    seen = Seen()
    for number, (sent, updates, state, charges) in enumerate(run_rounds(job, rows)):
        seen.sent.append(copied(sent))
        seen.wire.append(overheard(updates, sees))
        seen.charges += charges
        for update in updates:
            carried = {"state": sent, "arrays": update.arrays, "summed": update.summed}
            seen.traffic += [
                {"round": number, "client": update.client}
                | {"direction": way, "kind": kind, "bytes": size}
                for way, kind in (("down", "state"), ("up", "arrays"), ("up", "summed"))
                if (size := sum(len(name) + v.nbytes for name, v in carried[kind].items()))
            ]
        seen.state = flower.public(state)
    return seen


def overheard(updates, sees: Sees) -> Arrays:
    """Return what of the clients' messages the adversary sees."""
    if sees == "the model":
        return {}
    sums = {f"sum/{name}": values for name, values in secure_sum.total(updates).items()}
    if sees == "sums of all clients":
        return sums
    return sums | {
        f"{u.client}/{name}": values for u in updates for name, values in u.arrays.items()
    }
