"""What has been released about which people: a file at the data owner that only grows, and refuses
what is too much.

    python -m fedsynth_lib ledger              # the populations and their totals
    python -m fedsynth_lib ledger patients     # every release about `patients`

Each release about the same people adds its epsilon and its delta, whoever asks for it and however
the two are related. It is noted before its noise is drawn, with what it may cost, and again when it
has ended. A population is a name that the owner gives to these people; its file is
data/ledger/<population>.jsonl, a line of JSON for each release, never committed. A client of a
federation keeps the rounds that it has answered in the same file.
"""

import contextlib
import hashlib
import json
import math
import os
import re
import secrets
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from fedsynth_lib.core.accounting import epsilon_of
from fedsynth_lib.core.contract import BadInput, Charge, Privacy
from fedsynth_lib.core.store import project_root

SLACK = 1 + 1e-6  # calibration ends within rounding of a budget


class Refused(BadInput):
    """What a data owner does not give out. The message holds nothing about rows: a client may send
    it as it is."""


@dataclass(frozen=True)
class Total:
    releases: int
    epsilon: float
    delta: float


def settled(lines: Iterable[dict]) -> list[dict]:
    """Of lines with an epsilon those that count: an entry that was begun counts until another one
    settles it, and one that was settled at no cost is none."""
    costly = [line for line in lines if "epsilon" in line]
    done = {line["settles"] for line in costly if "settles" in line}
    open_or_settled = (line for line in costly if line.get("begun") not in done)
    return [line for line in open_or_settled if line["epsilon"] > 0 or line["delta"] > 0]


def total_of(releases: Sequence[dict]) -> Total:
    """Sums. They hold for any releases; to prove less one would have to know who was which client
    in each."""
    epsilon, delta = (math.fsum(line[name] for line in releases) for name in ("epsilon", "delta"))
    return Total(len(releases), epsilon, delta)


class Journal:
    """A file of JSON lines that only grows. Whoever reads in order to append holds the lock in
    between."""

    def __init__(self, path: Path):
        self.path = Path(path)
        self._lines: list[dict] = []
        # bytes of the file that `_lines` holds; the rest was added since, maybe by another process
        self._read = 0

    @contextlib.contextmanager
    def locked(self) -> Iterator[None]:
        self.path.parent.mkdir(parents=True, exist_ok=True)
        with open(self.path.with_suffix(".lock"), "ab") as lock:
            # Windows has no fcntl: there one process at a time
            with contextlib.suppress(ImportError):
                import fcntl

                fcntl.flock(lock, fcntl.LOCK_EX)
            yield

    def lines(self) -> list[dict]:
        if not self.path.is_file():
            return []
        with open(self.path, "rb") as file:
            file.seek(self._read)
            added = file.read()
        try:
            if added and not added.endswith(b"\n"):
                raise ValueError
            self._lines += [json.loads(line) for line in added.splitlines()]
        except ValueError:
            raise BadInput(
                f"{self.path}: a line is incomplete, so the releases cannot be counted; restore "
                "the file from a copy."
            ) from None
        self._read += len(added)
        return self._lines

    def append(self, line: dict[str, Any]) -> None:
        """One line, whole or not at all, and on the disk before anything else happens."""
        content = (json.dumps(line, allow_nan=False) + "\n").encode()
        place = os.open(self.path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        try:
            size = os.fstat(place).st_size
            if os.write(place, content) < len(content):  # a full disk
                os.ftruncate(place, size)
                raise OSError(f"{self.path}: there is no room for a line; nothing was written")
            os.fsync(place)
        finally:
            os.close(place)


class Ledger:
    """The releases about one population, and the most that all of them together may cost."""

    def __init__(self, path: Path, *, most_epsilon: float = math.inf, most_delta: float = 1.0):
        self.journal, self.most_epsilon, self.most_delta = Journal(path), most_epsilon, most_delta

    @property
    def population(self) -> str:
        return self.journal.path.stem

    def releases(self) -> list[dict]:
        """Those that ended, at what they cost; those that only began, at what they may cost."""
        return settled(self.journal.lines())

    def total(self) -> Total:
        return total_of(self.releases())

    def admit(self, epsilon: float, delta: float) -> None:
        """Raises Refused if a release of this cost would overdraw what the population may spend."""
        self._admit(self.total(), epsilon, delta)

    def _admit(self, spent: Total, epsilon: float, delta: float) -> None:
        for name, before, asked, most in (
            ("epsilon", spent.epsilon, epsilon, self.most_epsilon),
            ("delta", spent.delta, delta, self.most_delta),
        ):
            if before + asked > most * SLACK:
                raise Refused(
                    f"population {self.population!r}: {spent.releases} releases have spent {name} "
                    f"{before:.4g}, and {asked:.4g} more would exceed {most:g}; ask for less, or "
                    f"raise most_{name} if its owner agrees."
                )

    def reserve(self, method: str, epsilon: float, delta: float) -> str:
        """Notes what a release may cost before any of its noise is drawn: a run that is stopped,
        and two at once, cannot overdraw. Gives the entry's number, by which it is settled.

        Raises Refused where it would overdraw.
        """
        number = secrets.token_hex(8)
        with self.journal.locked():
            self.admit(epsilon, delta)
            line = _release(self.population, method, epsilon, delta)
            self.journal.append(line | {"begun": number})
        return number

    def settle(self, number: str, epsilon: float, delta: float, **said: Any) -> None:
        """Notes what a release that was begun has cost: no more than it was begun with."""
        with self.journal.locked():
            (line,) = (each for each in self.releases() if each.get("begun") == number)
            line = _release(self.population, line["method"], epsilon, delta)
            self.journal.append(line | said | {"settles": number})

    def add(self, statement: dict, *, rows: int, number: str = "") -> None:
        """Writes down a finished run by its privacy statement, before its rows leave; Refused where
        it overdraws.

        number: of the entry with which it was begun; '' where it was not.
        """
        epsilon, delta = statement["epsilon"], statement["delta"]
        if epsilon is None:
            raise Refused(
                f"population {self.population!r}: a run that released something without noise "
                "is no release."
            )
        with self.journal.locked():
            others = [
                line for line in self.releases() if line.get("begun", "") != number or not number
            ]
            self._admit(total_of(others), epsilon, delta)
            self.journal.append(
                _release(self.population, statement["method"], epsilon, delta)
                | {"rows": rows, "charges": statement["entries"], "statement": digest(statement)}
                | ({"settles": number} if number else {})
            )


class ClientLedger(Ledger):
    """What one client of a federation has answered and spent. It outlives the process, and asks no
    server."""

    def begin(self, job: Any, index: int, *, run: int, number: int) -> None:
        """Notes that the round is answered now; with the first round of a run, all that the run
        will cost.

        job: a flower_app.Job. Raises Refused for a round that was answered before, and for a run
            that would overdraw.
        """
        with self.journal.locked():
            of_run = [line for line in self.journal.lines() if line.get("run") == run]
            if not of_run:
                self._reserve(job, index, run)
            elif number <= max((line["round"] for line in of_run if "round" in line), default=-1):
                raise Refused(
                    f"client {index}: round {number} was answered before, and is answered once."
                )
            self.journal.append({"run": run, "round": number})

    def spend(self, charges: Iterable[Charge], privacy: Privacy, *, run: int) -> None:
        """Notes what an answer releases, before it leaves; Refused where the run has cost more than
        its budget.

        What a server releases of a sum is not among these charges; the plan that `begin` has noted
        covers it.
        """
        with self.journal.locked():
            earlier = [
                line["spent"]
                for line in self.journal.lines()
                if line.get("run") == run and "spent" in line
            ]
            spent = [*(Charge(**charge) for answer in earlier for charge in answer), *charges]
            bare = sorted({charge.what for charge in spent if charge.mechanism == "unprotected"})
            if bare or epsilon_of(spent, privacy.delta, privacy.relation) > privacy.epsilon * SLACK:
                why = (
                    f"release {', '.join(bare)} without noise"
                    if bare
                    else f"cost more than {privacy.epsilon:g}"
                )
                raise Refused(
                    f"population {self.population!r}: the answer would {why}; it is not sent."
                )
            self.journal.append({"run": run, "spent": [asdict(charge) for charge in charges]})

    def _reserve(self, job: Any, index: int, run: int) -> None:
        privacy, multiplier = job.privacy, job.noise_multiplier
        if privacy.epsilon is None or multiplier is None:
            raise Refused(
                f"population {self.population!r}: a run without noise is not answered; "
                "give epsilon."
            )
        if job.sizes is None:
            raise Refused(
                f"population {self.population!r}: a run needs declared numbers of rows; give sizes."
            )
        own = multiplier[index] if isinstance(multiplier, tuple) else multiplier
        charges = list(job.method.plan(own, job.domain, job.sizes[index], job.config))
        epsilon = epsilon_of(charges, privacy.delta, privacy.relation)
        if epsilon > privacy.epsilon * SLACK:
            raise Refused(
                f"population {self.population!r}: the plan costs {epsilon:.4g}, more than "
                f"{privacy.epsilon:g}."
            )
        self.admit(epsilon, privacy.delta)
        release = _release(self.population, job.method.name, epsilon, privacy.delta)
        self.journal.append(release | {"run": run})


def _release(population: str, method: str, epsilon: float, delta: float) -> dict[str, Any]:
    when = datetime.now(UTC).isoformat(timespec="seconds")
    return {
        "when": when,
        "population": population,
        "method": method,
        "epsilon": epsilon,
        "delta": delta,
    }


def digest(statement: dict) -> str:
    """A fingerprint of a privacy statement: whoever has the statement can find its release."""
    return hashlib.blake2b(
        json.dumps(statement, sort_keys=True).encode(), digest_size=16
    ).hexdigest()


def folder() -> Path:
    return project_root() / "data" / "ledger"


def path_of(population: str) -> Path:
    """The file of a population. Raises BadInput for a name that is no file name."""
    if not re.fullmatch(r"[\w][\w.-]*", population):
        raise BadInput(
            f"population is {population!r}: give a name of letters, digits, '_', '.' and '-'."
        )
    return folder() / f"{population}.jsonl"


def open_ledger(population: str, **policy: float) -> Ledger:
    """The ledger of a population in this project; policy: most_epsilon, most_delta."""
    return Ledger(path_of(population), **policy)


def as_text(population: str) -> str:
    """The releases about a population and their total, a line each."""
    ledger = open_ledger(population)
    total = ledger.total()
    lines = [
        f"{line['when']}  {line['method']}  epsilon {line['epsilon']:.4g}  delta "
        f"{line['delta']:g}  {_what(line)}"
        for line in ledger.releases()
    ]
    return "\n".join(
        [
            *lines,
            f"{population}: {total.releases} releases, epsilon {total.epsilon:.4g}, delta "
            f"{total.delta:g}",
        ]
    )


def _what(line: dict) -> str:
    """What a line is of: 500 rows; a count of rows alone; a run that has not ended; a client's."""
    if "begun" in line:
        return "begun, and not ended"
    return f"{line['rows']} rows" if "rows" in line else line.get("what", "as a client")


def overview(population: str = "") -> str:
    """All releases about a population; where none is named, the totals of every one."""
    if population:
        return as_text(population)
    names = sorted(path.stem for path in folder().glob("*.jsonl"))
    return "\n".join(as_text(name).splitlines()[-1] for name in names) or "nothing was released yet"
