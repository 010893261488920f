"""A site of a study: what its operator is shown, and the process that answers.

    fedsynth deploy site north --study DIR --own DIR --table north.csv

The site decides: its noise and its budget follow from its own copy of the study, what it may spend
stands in its own budget file and is noted in its own ledger, and its operator agrees to a number of
runs, which is one unless `--runs` says more.
"""

import math
import os
import socket
import ssl
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
from flwr.clientapp import ClientApp

from fedsynth_lib.core.accounting import discrete_laplace_share
from fedsynth_lib.core.contract import BadInput
from fedsynth_lib.core.ledger import ClientLedger
from fedsynth_lib.core.store import write_atomically
from fedsynth_lib.federation.settings import ROW_COUNT
from fedsynth_lib.release.deploy import keys
from fedsynth_lib.release.deploy.apps import site_app
from fedsynth_lib.release.deploy.place import Own, Place
from fedsynth_lib.release.deploy.processes import (
    Children,
    Ended,
    free_port,
    only_one,
    secret_file,
    without_proxy,
)
from fedsynth_lib.release.deploy.study import FEWEST_ROWS, Study, check_flower, read_study
from fedsynth_lib.release.persons import rows_that_count, unit_of
from fedsynth_lib.tables.load import load_table

# what a SuperNode says: as soon as it is connected; at each failure; when the server is there again
CONNECTED, FAILS, WORKS = "SuperNode ID", "Connection attempt failed", "Connection successful"
AWAY = "the server cannot be reached; keeps trying"
TAKEN = "[code: 2004]"  # and where the server takes it for connected already
SAME_KEY = (
    "this site's key is connected already: end the other one. Was it a power cut, the server "
    "forgets it within a minute."
)
EARLY, FORGOTTEN, AGAIN = 600.0, 90.0, 5.0  # seconds


def asked_of(study: Study, name: str, ledger: ClientLedger, runs: int = 1) -> str:
    """Return the text that the operator of a site agrees to, or not.

    runs: of each job of the study, those made before included.
    """
    total, due = ledger.total(), _due(study, ledger, runs)
    made = ", ".join(
        f"{len(earlier)} of {job} before (run {', '.join(map(str, earlier))})"
        for job in study.costs
        if (earlier := ledger.runs(job))
    )
    kind = (
        "a RELEASE; its noise is secret"
        if study.release
        else "a REHEARSAL: its noise follows from a seed that all parties know and protects "
        "nobody; take part with made-up rows"
    )
    return "\n".join(
        [
            f"Study {study.name} asks site {name} for {kind}.",
            *study.lines(name),
            f"  runs     {runs} of {' and '.join(study.costs)}; {made or 'none was made before'}",
            f"  ledger   {ledger.population!r} has spent epsilon {total.epsilon:.4g} and delta "
            f"{total.delta:.3g} in {total.releases} releases; with all of these runs it has spent "
            f"{total.epsilon + due[0]:.4g} of {ledger.most_epsilon:.4g}, and "
            f"{total.delta + due[1]:.3g} of {ledger.most_delta:.3g}",
            "Compare the fingerprints and the last two lines of the study with the others, by "
            "telephone.",
        ]
    )


def _due(study: Study, ledger: ClientLedger, runs: int) -> tuple[float, float]:
    """Return epsilon and delta of the runs that are agreed to and not begun yet."""
    left = {job: max(0, runs - len(ledger.runs(job))) for job in study.costs}
    epsilon = sum(left[job] * each for job, each in study.costs.items())
    return epsilon, study.delta * sum(left.values())


def noisy_count(own: Own, table: str | Path, schema: str | Path, epsilon: float) -> int:
    """Return the number of a site's rows that count, with discrete Laplace noise.

    Its sensitivity is 1, or as many rows as a person may have where the schema has a unit.
    Its ledger has it before the noise is drawn. Raise Refused where that would overdraw the
    ledger.
    """
    if not 0 < epsilon < float("inf"):
        raise BadInput(f"epsilon is {epsilon:g}; give a positive number.")
    loaded = load_table(Path(table), schema=schema, private=True)
    sensitivity = max(1, loaded.form.most_rows)
    said = {"unit": unit_of(loaded.form)} if loaded.form.unit else {}
    ledger = own.open_ledger()
    number = ledger.reserve(ROW_COUNT, epsilon, 0.0, **said)
    noise = discrete_laplace_share(sensitivity / epsilon, 1, (1,), rng=np.random.default_rng())
    ledger.settle(number, epsilon, 0.0, what=ROW_COUNT)
    rows = len(rows_that_count(loaded, key=b""))  # as many by any key
    return max(FEWEST_ROWS, rows + int(noise[0]))


def check_server(
    study: Study,
    say: Callable[[str], None],
    wait: float = EARLY,
    clock: Callable[[], float] = time.monotonic,
    sleep: Callable[[float], None] = time.sleep,
) -> None:
    """Return once the server is there, and the one that the study names.

    wait: seconds. Before a first connection a site gives up after a while, and at once where
    the address does not exist or the server is another one, for then somebody is mistaken: it
    raises BadInput, in one sentence. Afterwards (infinity) the network is at fault, whatever it
    shows, and the site keeps trying; it says so once.
    """
    end, told = clock() + wait, ""
    while True:
        try:
            _shake_hands(study)
            return
        except OSError as error:
            reason, remedy, is_final = _trouble(error)
            if clock() > end or (is_final and wait < math.inf):
                raise BadInput(f"server {study.server} {reason}; {remedy}") from None
        if reason != told:
            say(f"server {study.server} {reason}; keeps trying")
            told = reason
        sleep(1)


def _trouble(error: OSError) -> tuple[str, str, bool]:
    """Return what is wrong with a server, what to do, and whether the trouble is final."""
    if isinstance(error, ssl.SSLCertVerificationError):
        remedies = {
            "certificate has expired": "compare the clocks, or have a new one made.",
            "certificate is not yet valid": "compare the clocks.",
        }
        remedy = remedies.get(error.verify_message, "it is not the server that the study names.")
        return f"is refused: {error.verify_message}", remedy, True
    if isinstance(error, ssl.SSLError):
        return f"does not speak TLS ({error.reason})", "compare the address with the study's.", True
    remedy = "is it started, and is the address right?"
    reason = f"cannot be reached ({error.strerror or error})"
    return reason, remedy, isinstance(error, socket.gaierror)


def _shake_hands(study: Study) -> None:
    """Open and close a connection; raise an error where the server is not trusted."""
    host, port = study.address
    with (
        socket.create_connection((host, port), timeout=10) as plain,
        keys.trusting(study.ca).wrap_socket(plain, server_hostname=host),
    ):
        pass


def run_site(
    study_folder: str | Path,
    name: str,
    table: str | Path,
    own_folder: str | Path,
    *,
    say: Callable[[str], None],
    ask: Callable[[str], bool],
    runs: int = 1,
) -> None:
    """Check all that can be checked, ask the operator, and answer until the process is stopped.

    ask: a function that shows what is asked and returns whether the operator agrees; it is
    asked again for more runs. runs: of each job of the study that the site answers, those made
    before included. Raise BadInput where something does not fit, or the operator declines.
    """
    if runs < 1:
        raise BadInput(f"runs is {runs}; give 1 or more.")
    check_flower()
    study = read_study(study_folder)
    check_secure(study)
    own = Own(Path(own_folder).expanduser().absolute())
    say(f"reads {table}")
    place = own.place(study, name, table, runs)
    ledger = place.ledger
    ledger.admit(*_due(study, ledger, max(runs, ledger.agreed())))
    app = site_app(place)
    for line in place.table.moved:
        say(line)
    place.rows()  # a table that the method cannot take shows now
    if study.evaluation_epsilon:
        place.rows_set_aside(study.evaluation())
    if runs > ledger.agreed():
        if not ask(asked_of(study, name, ledger, runs)):
            raise BadInput(f"site {name!r} takes no part: its operator has declined.")
        ledger.agree(runs)
    for job in study.costs:
        if len(made := ledger.runs(job)) >= ledger.agreed():
            say(
                f"{job} was run {len(made)} times, which is all that was agreed to (run "
                f"{', '.join(map(str, made))}); --runs {len(made) + 1} agrees to another run"
            )
    with only_one(study.state(own.folder), f"site {name!r}"):
        stay_connected(lambda wait: _connect(study, place, own, app, say, wait), say)


class LostConnection(Exception):
    """A SuperNode that was connected has ended, for example because its server has forgotten it."""


def stay_connected(
    connect: Callable[[float], None],
    say: Callable[[str], None],
    clock: Callable[[], float] = time.monotonic,
    sleep: Callable[[float], None] = time.sleep,
) -> None:
    """Connect again and again, to the end of this process.

    Raise an error that will not pass where there was no connection yet. connect: as `_connect`,
    of the seconds to wait for the server. After a power cut the server takes the site for
    connected, for a minute, so it may not say at once that two are too many.
    """
    begin, wait, told = clock(), EARLY, ""
    while True:
        try:
            connect(wait)
        except LostConnection:
            say("the connection was lost; connects again")
            wait, told = math.inf, ""
        except Ended as error:
            is_taken = TAKEN in str(error)
            reason = SAME_KEY if is_taken else str(error)
            if wait < math.inf and (not is_taken or clock() > begin + FORGOTTEN):
                raise BadInput(reason) from None
            if reason != told:
                say(f"{reason} Tries again")
                told = reason
            sleep(AGAIN)


def _connect(
    study: Study,
    place: Place,
    own: Own,
    app: ClientApp,
    say: Callable[[str], None],
    wait: float,
) -> None:
    """Start a SuperNode and answer its messages until it ends.

    Raise LostConnection at the end, or BadInput where it was never connected. wait: as for
    `check_server`.
    """
    # they bring Flower's own parts
    from fedsynth_lib.release.deploy.notes import Notes
    from fedsynth_lib.release.deploy.worker import Runtime, answer_all

    check_server(study, say, wait)
    os.environ.update(without_proxy())  # this process answers the SuperNode beside it
    state, port = study.state(own.folder), free_port()
    with secret_file(state) as secret, Children(state) as children:
        options = [
            *("--superlink", study.server, "--host", "127.0.0.1", "--port", str(port)),
            *("--isolation", "process", "--superexec-auth-secret-file", str(secret)),
            *("--node-config", f"partition-id={place.index} num-partitions={len(study.sites)}"),
        ]
        write_atomically(state / keys.CA, study.ca.encode())
        options += ["--root-certificates", str(state / keys.CA)]
        options += ["--auth-supernode-private-key", str(own.folder / keys.NODE_KEY)]
        children.start("supernode", *options)
        children.wait_for(port)
        ready = f"site {place.name} is ready for {study.server}; Ctrl-C ends it"
        line = Line(children, say, ready)
        runtime = Runtime(f"127.0.0.1:{port}", secret.read_bytes(), line.check)
        try:
            answer_all(runtime, app, Notes(state / "run.notes"), say)
        except Ended as error:
            if line.is_connected:
                raise LostConnection from error
            raise


class Line:
    """Tells the operator what a SuperNode's log says of its connection.

    It says so once there is one, when the server is lost, and when it is there again.
    """

    def __init__(self, children: Children, say: Callable[[str], None], ready: str):
        self._children, self._say, self._ready = children, say, ready
        self._read, self.is_connected, self._is_away = 0, False, False

    def check(self) -> None:
        """Raise Ended where the SuperNode has ended."""
        try:
            self._children.check()
        finally:
            self._follow()

    def _follow(self) -> None:
        with open(self._children.log("supernode"), encoding="utf-8", errors="replace") as log:
            log.seek(self._read)
            added = log.read()
            self._read = log.tell()
        if CONNECTED in added and not self.is_connected:
            self.is_connected = True
            self._say(self._ready)
        fails, works = (added.rfind(text) for text in (FAILS, WORKS))
        is_away = self._is_away if fails == works else fails > works
        if self.is_connected and is_away != self._is_away:
            self._is_away = is_away
            self._say(AWAY if is_away else "the server is there again")


def check_secure(study: Study) -> None:
    """Raise BadInput for a study without certificate or keys."""
    if not study.secure:
        raise BadInput(
            f"{study.folder}: the study has no certificate, or no key of some site; add them, or "
            "rehearse without keys in a simulation (`flwr run`), as its README.md says."
        )
