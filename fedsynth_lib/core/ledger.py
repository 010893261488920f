"""What has been released about which people.

The ledger is a file at the data owner that only grows. It refuses a release that would cost too
much.

    python -m fedsynth_lib ledger              # the populations and their totals
    python -m fedsynth_lib ledger patients     # every release about `patients`

Each release about the same people adds its epsilon and its delta, no matter who asks for it and how
the releases are related. It is noted before its noise is drawn, with what it may cost, and again
when it has ended. A population is a name that the owner gives to these people; its file is
data/ledger/<population>.jsonl, a line of JSON for each release, never committed. A client of a
federation keeps the rounds that it has answered in the same file; a site of a deployment has its
ledgers in its own folder, which `fedsynth ledger --own` shows. A lost or changed line is refused
(`core/journal.py`).
"""

import hashlib
import json
import math
import re
import secrets
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from fedsynth_lib.core.accounting import epsilon_of
from fedsynth_lib.core.contract import BadInput, Charge
from fedsynth_lib.core.journal import Journal
from fedsynth_lib.core.store import project_root

OF_SITE = "ledger"  # the folder of ledgers in a site's own folder
LAST = ".last"  # the ending of a file beside that folder, with the last head of a ledger in it
SLACK = 1 + 1e-6  # calibration ends within rounding of a budget


class Refused(BadInput):
    """A request that a data owner does not grant.

    The message holds nothing about rows, so a client may send it as it is.
    """


@dataclass(frozen=True)
class Total:
    """What several releases cost together.

    of: how many of them are of which kind, if there are several kinds.
    mixed: some releases promise for a person and some for a row, so that the sum holds for a row.
    """

    releases: int
    epsilon: float
    delta: float
    of: str = ""
    mixed: bool = False


def settled(lines: Iterable[dict]) -> list[dict]:
    """Return those lines with an epsilon that count.

    An entry that was begun counts until another one settles it. An entry that was settled at no
    cost does not count.
    """
    costly = [line for line in lines if "epsilon" in line]
    done = {line["settles"] for line in costly if "settles" in line}
    open_or_settled = (line for line in costly if line.get("begun") not in done)
    return [line for line in open_or_settled if line["epsilon"] > 0 or line["delta"] > 0]


def of_unit(said: dict) -> dict:
    """Return the unit of a line if it is a person with so many rows.

    The result is empty if the unit is a row.
    """
    return {"unit": said["unit"]} if "person" in said.get("unit", "") else {}


def total_of(releases: Sequence[dict]) -> Total:
    """Add up what releases cost.

    The sums hold for any releases. To prove less, one would have to know who was which client in
    each of them.
    """
    epsilon, delta = (math.fsum(line[name] for line in releases) for name in ("epsilon", "delta"))
    mixed = len({bool(of_unit(line)) for line in releases}) > 1
    return Total(len(releases), epsilon, delta, mixed=mixed)


class Ledger:
    """The releases about one population, and the most that all of them together may cost.

    last: the file that keeps the last head as well, as in `Journal`.
    """

    def __init__(
        self,
        path: Path,
        *,
        most_epsilon: float = math.inf,
        most_delta: float = 1.0,
        last: Path | None = None,
    ):
        self.journal = Journal(path, last)
        self.most_epsilon, self.most_delta = most_epsilon, most_delta

    @property
    def population(self) -> str:
        """The name that the owner gives to these people."""
        return self.journal.path.stem

    def releases(self) -> list[dict]:
        """Return the releases that count.

        Those that ended are at what they cost; those that only began are at what they may cost.
        """
        return settled(self.journal.lines())

    def total(self) -> Total:
        """Return what all releases cost together."""
        return total_of(self.releases())

    def admit(self, epsilon: float, delta: float) -> None:
        """Raise Refused if a release of this cost would overdraw what the population may spend."""
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

    def reserve(self, method: str, epsilon: float, delta: float, **said: Any) -> str:
        """Note what a release may cost before any of its noise is drawn.

        So neither a run that is stopped nor two runs at once can overdraw. Returns the number of
        the entry, by which `settle` or `add` settles it.

        Raises Refused if the release would overdraw what the population may spend.
        """
        number = secrets.token_hex(8)
        with self.journal.locked():
            self.admit(epsilon, delta)
            line = _release(self.population, method, epsilon, delta)
            self.journal.append(line | said | {"begun": number})
        return number

    def settle(self, number: str, epsilon: float, delta: float, **said: Any) -> None:
        """Note what a release that was begun has cost: no more than it was begun with.

        number: of the entry with which it was begun.
        """
        with self.journal.locked():
            (begun,) = (each for each in self.releases() if each.get("begun") == number)
            line = _release(self.population, begun["method"], epsilon, delta) | of_unit(begun)
            self.journal.append(line | said | {"settles": number})

    def add(self, statement: dict, *, rows: int, number: str = "") -> None:
        """Write down a finished run by its privacy statement, before its rows leave.

        Raises Refused if the run overdraws what the population may spend, or released something
        without noise.

        number: of the entry with which the run was begun; '' if there is none.
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
                | of_unit(statement)
                | ({"settles": number} if number else {})
            )


class ClientLedger(Ledger):
    """What one client of a federation has agreed to, answered and spent.

    The file outlives the process, and the client relies on no server for it.

    study: the digest of the study. A run of it is answered only if the operator has agreed to so
        many runs of each of its jobs. '' is no study, which nobody has to agree to.
    most_rows, unit: how many rows a person may have in a run, and the unit of privacy in words. The
        noise of a job is for one row; the ledger has what a run costs all rows of a person.
    """

    def __init__(
        self,
        path: Path,
        *,
        study: str = "",
        last: Path | None = None,
        most_rows: int = 1,
        unit: str = "",
        **policy: float,
    ):
        super().__init__(path, last=last, **policy)
        self.study, self.most_rows, self.unit = study, most_rows, unit

    def agreed(self) -> int:
        """Return how many runs of each job of the study the operator has agreed to.

        The number includes the runs that were made.
        """
        answers = (line for line in self.journal.lines() if "runs" in line)
        return max((line["runs"] for line in answers if line["study"] == self.study), default=0)

    def agree(self, runs: int) -> None:
        """Note that the operator has agreed to so many runs, those made before included."""
        with self.journal.locked():
            self.journal.append({"when": _now(), "study": self.study, "runs": runs})

    def runs(self, job: str) -> list[int]:
        """Return the run ids of the study's job, by its method's name, that were answered here."""
        key = {"study": self.study, "job": job}
        return [
            line["run"]
            for line in self.journal.lines()
            if "epsilon" in line and key.items() <= line.items()
        ]

    def begin(self, job: Any, index: int, *, run: int, number: int) -> None:
        """Note that the round is answered now.

        With the first round of a run, it also notes all that the run will cost.

        job: a flower.Job.
        Raises Refused for a round that is not the client's next one, for a run that nobody has
        agreed to, and for one that would overdraw.
        """
        with self.journal.locked():
            of_run = self._lines_of(job, run)
            last = max((line["round"] for line in of_run if "round" in line), default=-1)
            if number <= last:
                raise Refused(
                    f"client {index}: round {number + 1} was answered before, and is answered once."
                )
            rounds = enumerate(job.schedule())
            due = (k for k, entry in rounds if k > last and index in job.participants(*entry))
            if number != (first := next(due, None)):
                raise Refused(
                    f"client {index}: round {number + 1} is not the next one of its plan, which is "
                    f"{'none' if first is None else first + 1}; it is not answered."
                )
            if not of_run:
                self._reserve(job, index, run)
            self.journal.append(self._key(job, run) | {"round": number})

    def spend(self, job: Any, index: int, charges: Sequence[Charge], *, run: int) -> None:
        """Note what an answer releases, before it leaves.

        charges: as the client states them from what it sends, with its part of secure sums.
        Raises Refused if the run has released something more often, or with other noise, than its
        plan, or has cost more than its budget. Of a method whose server is trusted to add the
        noise, the budget alone is checked, and that nothing is released without noise.
        """
        with self.journal.locked():
            answers = [line.get("spent", ()) for line in self._lines_of(job, run)]
            spent = [*(Charge(**charge) for answer in answers for charge in answer), *charges]
            bare = sorted({charge.what for charge in spent if charge.mechanism == "unprotected"})
            # a trusted server sets the noise of its rounds as it goes, within the same budget
            server = job.method.TRUST == "server"
            beyond = [] if server else _beyond(_plan(job, index), spent)
            why, privacy = "", job.privacy
            if bare:
                why = f"release {', '.join(bare)} without noise"
            elif epsilon_of(spent, privacy.delta, privacy.relation) > privacy.epsilon * SLACK:
                why = f"cost more than {privacy.epsilon:g}"
            elif beyond:
                why = f"release {', '.join(beyond)} more often or with less noise than planned"
            if why:
                raise Refused(
                    f"population {self.population!r}: the answer would {why}; it is not sent."
                )
            line = self._key(job, run) | {"spent": [asdict(charge) for charge in charges]}
            self.journal.append(line)

    def _key(self, job: Any, run: int) -> dict[str, Any]:
        """Return the entries that identify a run.

        A run id alone is not enough, because the server gives it out.
        """
        return {"study": self.study, "job": job.method.name, "run": run}

    def _lines_of(self, job: Any, run: int) -> list[dict]:
        key = self._key(job, run)
        return [line for line in self.journal.lines() if key.items() <= line.items()]

    def _reserve(self, job: Any, index: int, run: int) -> None:
        privacy = job.privacy
        if privacy.epsilon is None or job.noise_multiplier is None:
            raise Refused(
                f"population {self.population!r}: a run without noise is not answered; "
                "give epsilon."
            )
        if job.sizes is None:
            raise Refused(
                f"population {self.population!r}: a run needs declared numbers of rows; give sizes."
            )
        made, agreed = self.runs(job.method.name), self.agreed()
        if self.study and len(made) >= agreed:
            raise Refused(
                f"population {self.population!r}: its operator has agreed to {agreed} runs of this "
                f"study, made as {', '.join(map(str, made)) or 'none'}; to agree to another one, "
                f"start the site with --runs {len(made) + 1}."
            )
        epsilon = epsilon_of(_plan(job, index), privacy.delta, privacy.relation)
        if epsilon > privacy.epsilon * SLACK:
            raise Refused(
                f"population {self.population!r}: the plan costs {epsilon:.4g}, more than "
                f"{privacy.epsilon:g}."
            )
        # group privacy, as in `release/persons.py`
        delta = privacy.delta * sum(math.exp(epsilon * row) for row in range(self.most_rows))
        epsilon = epsilon * self.most_rows
        self.admit(epsilon, delta)
        release = _release(self.population, job.method.name, epsilon, delta)
        self.journal.append(release | self._key(job, run) | of_unit({"unit": self.unit}))


def _plan(job: Any, index: int) -> list[Charge]:
    """Return the charges of all rounds for one client."""
    multiplier = job.noise_multiplier
    own = multiplier[index] if isinstance(multiplier, tuple) else multiplier
    return list(job.method.plan(own, job.domain, job.sizes[index], job.config))


def _beyond(plan: Sequence[Charge], spent: Sequence[Charge]) -> list[str]:
    """Return the names of what was released more often than planned.

    Releases are counted in each round if the plan names rounds, else over all rounds together.
    Another noise, sensitivity or rate makes another release.
    """
    by_round = any(charge.round for charge in plan)

    def count(charges: Sequence[Charge]) -> Counter:
        times: Counter = Counter()
        for each in filter(lambda charge: charge.protected, charges):
            # six digits: two ways to compute the same number may differ by rounding
            numbers = tuple(f"{x:.6g}" for x in (each.noise, each.sensitivity, each.rate))
            key = each.what, each.mechanism, *numbers, each.round if by_round else 0
            times[key] += each.times
        return times

    return sorted({what for what, *_ in count(spent) - count(plan)})


def _release(population: str, method: str, epsilon: float, delta: float) -> dict[str, Any]:
    return {
        "when": _now(),
        "population": population,
        "method": method,
        "epsilon": epsilon,
        "delta": delta,
    }


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")


def digest(statement: dict) -> str:
    """Return a fingerprint of a privacy statement.

    The ledger keeps it with a release, so that the release can be found by its statement.
    """
    return hashlib.blake2b(
        json.dumps(statement, sort_keys=True).encode(), digest_size=16
    ).hexdigest()


def folder() -> Path:
    """Return the folder of this project's ledgers."""
    return project_root() / "data" / "ledger"


def path_of(population: str, own: Path | None = None) -> Path:
    """Return the file of a population, in the own folder of a site or in the project.

    Raises BadInput for a name that cannot be the name of a file.
    """
    if not re.fullmatch(r"[\w][\w.-]*", population):
        raise BadInput(
            f"population is {population!r}: give a name of letters, digits, '_', '.' and '-'."
        )
    return (own / OF_SITE if own else folder()) / f"{population}.jsonl"


def last_of(population: str, own: Path | None) -> Path | None:
    """Return the file in which a site keeps the last head of a ledger as well.

    The project has no such file: None.
    """
    return own / f"{population}{LAST}" if own else None


def open_ledger(population: str, **policy: float) -> Ledger:
    """Open the ledger of a population in this project; policy: most_epsilon, most_delta."""
    return Ledger(path_of(population), **policy)


def as_text(population: str, own: Path | None = None) -> str:
    """Write the releases about a population and their total, a line each."""
    ledger = Ledger(path_of(population, own), last=last_of(population, own))
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
            f"{total.delta:g}{', for one row' if total.mixed else ''}",
        ]
    )


def _what(line: dict) -> str:
    """Write what a line is about.

    It is a run that began and has not ended, a run answered as a client, a number of rows, or what
    the line itself says.
    """
    if "begun" in line:
        return "begun, and not ended"
    if "run" in line:
        what = f"as a client, run {line['run']}"
    else:
        what = f"{line['rows']} rows" if "rows" in line else line.get("what", "")
    return ", for ".join([what, *of_unit(line).values()])


def overview(population: str = "", own: Path | None = None) -> str:
    """Write all releases about a population; if none is named, the totals of every population.

    own: the own folder of a site, whose ledgers are meant; without it, those of the project are.
    """
    if population:
        return as_text(population, own)
    files = (own / OF_SITE if own else folder()).glob("*.*")
    names = {path.stem for path in files if path.suffix in (".jsonl", ".head")}
    names |= {path.stem for path in own.glob(f"*{LAST}")} if own else set()
    totals = [as_text(name, own).splitlines()[-1] for name in sorted(names)]
    return "\n".join(totals) or "nothing was released yet"
