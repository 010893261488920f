"""A site of a study: what its operator is shown, and the process that answers.

    fedsynth deploy site north --study DIR --own DIR --table north.csv

The site decides: its noise and its budget follow from its own copy of the study, what it may spend
stands in its own budget file and is noted in its own ledger, and its operator agrees before the
first run.
"""

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
from fedsynth_lib.deploy import keys
from fedsynth_lib.deploy.apps import site_app
from fedsynth_lib.deploy.place import Own, Place
from fedsynth_lib.deploy.processes import Children, Ended, free_port, secret_file, without_proxy
from fedsynth_lib.deploy.study import FEWEST_ROWS, Study, check_flower, read_study
from fedsynth_lib.federation.settings import ROW_COUNT
from fedsynth_lib.tables.load import load_table

CONNECTED = "SuperNode ID"  # which a SuperNode says as soon as it has one


def asked_of(study: Study, name: str, ledger: ClientLedger) -> str:
    """What the operator of a site agrees to, or does not."""
    total = ledger.total()
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
            f"  ledger   {ledger.population!r} has spent epsilon {total.epsilon:.4g} of "
            f"{ledger.most_epsilon:g}, and delta {total.delta:.3g} of {ledger.most_delta:g}",
            "Compare the fingerprints and the last two lines of the study with the others, by "
            "telephone.",
        ]
    )


def noisy_count(own: Own, table: str | Path, schema: str | Path, epsilon: float) -> int:
    """How many rows a site has, with discrete Laplace noise of sensitivity 1; noted in its ledger
    before the noise is drawn. Raises Refused where that would overdraw it."""
    if not 0 < epsilon < float("inf"):
        raise BadInput(f"epsilon is {epsilon:g}; give a positive number.")
    loaded = load_table(Path(table), schema=schema, private=True)
    number = own.ledger.reserve(ROW_COUNT, epsilon, 0.0)
    noise = discrete_laplace_share(1 / epsilon, 1, (1,), rng=np.random.default_rng())
    own.ledger.settle(number, epsilon, 0.0, what=ROW_COUNT)
    return max(FEWEST_ROWS, len(loaded) + int(noise[0]))


def check_server(study: Study, say: Callable[[str], None], wait: float = 600.0) -> None:
    """Returns once the server is there. Raises BadInput, in one sentence, where it is not who it
    must be (another authority, another name, a certificate that the clock here is outside of), or
    not there within `wait` seconds."""
    where, end, told = f"server {study.server}", time.monotonic() + wait, False
    while True:
        try:
            _shake_hands(study)
            return
        except ssl.SSLCertVerificationError as error:
            remedy = {
                "certificate has expired": "; compare the clocks, or have a new one made",
                "certificate is not yet valid": "; compare the clocks",
            }.get(error.verify_message, "; it is not the server that the study names")
            raise BadInput(f"{where} is refused: {error.verify_message}{remedy}.") from None
        except ssl.SSLError as error:
            raise BadInput(f"{where} does not speak TLS ({error.reason}).") from None
        except OSError as error:
            reason = error.strerror or str(error)
            if isinstance(error, socket.gaierror) or time.monotonic() > end:
                raise BadInput(
                    f"{where} cannot be reached ({reason}); is it started, and is the address "
                    "right?"
                ) from None
            if not told:
                say(f"waits for {where} ({reason})")
                told = True
            time.sleep(1)


def _shake_hands(study: Study) -> None:
    """A connection that is closed again; an error where the server is not trusted."""
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
    insecure: bool = False,
) -> None:
    """Checks all that can be checked, asks the operator, and answers until it is stopped.

    ask: shows what is asked and gives whether the operator agrees; it is asked once for a study.
    insecure: without TLS, to a server of this machine alone.
    Raises BadInput where something does not fit, or the operator declines.
    """
    check_flower()
    study = read_study(study_folder)
    check_secure(study, insecure)
    own = Own(Path(own_folder).expanduser().absolute())
    say(f"reads {table}")
    place = own.place(study, name, table)
    runs = 1 + bool(study.evaluation_epsilon)
    place.ledger.admit(study.epsilon + study.evaluation_epsilon, study.delta * runs)
    app = site_app(place)
    for line in place.table.moved:
        say(line)
    place.rows()  # a table that the method cannot take shows now
    if study.evaluation_epsilon:
        place.rows_set_aside(study.evaluation())
    if not own.has_agreed(study):
        if not ask(asked_of(study, name, place.ledger)):
            raise BadInput(f"site {name!r} takes no part: its operator has declined.")
        own.agree(study)
    while True:
        try:
            _connect(study, place, own, app, say, insecure=insecure)
        except LostConnection:
            say("the connection was lost; connects anew")


class LostConnection(Exception):
    """A SuperNode that was connected has ended: its server has forgotten it, say."""


def _connect(
    study: Study,
    place: Place,
    own: Own,
    app: ClientApp,
    say: Callable[[str], None],
    *,
    insecure: bool,
) -> None:
    """Starts a SuperNode and answers what it is asked, to its end, which is one of the two errors:
    LostConnection, or BadInput where it was never connected."""
    from fedsynth_lib.deploy.worker import answer_all  # it brings Flower's own parts

    if not insecure:
        check_server(study, say)
    os.environ.update(without_proxy())  # this process answers the SuperNode beside it
    state, port = study.state(own.folder), free_port()
    with secret_file(state) as secret, Children(state) as children:
        options = [
            *("--superlink", study.server, "--host", "127.0.0.1", "--port", str(port)),
            *("--isolation", "process", "--superexec-auth-secret-file", str(secret)),
            *("--node-config", f"partition-id={place.index} num-partitions={len(study.sites)}"),
        ]
        if insecure:
            options += ["--insecure"]
        else:
            write_atomically(state / keys.CA, study.ca.encode())
            options += ["--root-certificates", str(state / keys.CA)]
            options += ["--auth-supernode-private-key", str(own.folder / keys.NODE_KEY)]
        children.start("supernode", *options)
        children.wait_for(port)
        say(f"site {place.name} is ready for {study.server}; Ctrl-C ends it")
        try:
            answer_all(f"127.0.0.1:{port}", secret.read_bytes(), app, say, children.check)
        except Ended as error:
            if CONNECTED in children.log("supernode").read_text(encoding="utf-8"):
                raise LostConnection from error
            raise


def check_secure(study: Study, insecure: bool) -> None:
    """Raises BadInput for a study without keys, unless it is insecure by name and stays on this
    machine."""
    if insecure and not study.on_loopback:
        raise BadInput(
            f"--insecure is for this machine alone, and the server is {study.server}; leave it out."
        )
    if insecure and study.release:
        raise BadInput("--insecure is for rehearsals, and the study is a release; leave it out.")
    if not insecure and not study.secure:
        raise BadInput(
            f"{study.folder}: the study has no certificate, or no key of some site; add them, or "
            "rehearse on this machine with --insecure."
        )
