"""The server of a study: a SuperLink to which the study's sites alone may connect, and a run.

fedsynth deploy server --study DIR --own DIR    until it is stopped
fedsynth deploy run --study DIR --own DIR       in another terminal of the same machine
"""

import contextlib
import hashlib
import json
import os
import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import httpx
from flwr.cli.build import build_fab_from_disk
from flwr.common.constant import Status, SubStatus
from flwr.common.serde import fab_to_proto, user_config_to_proto
from flwr.proto.control_pb2 import ListRunsRequest, StartRunRequest, StopRunRequest
from flwr.proto.run_pb2 import RunStatus
from flwr.supercore.control import ControlHttpClient
from flwr.supercore.fab import Fab
from flwr.supercore.interceptors import RuntimeVersionHttpInterceptor

from fedsynth_lib.core.contract import BadInput
from fedsynth_lib.core.store import check_writable, existing_file, write_atomically
from fedsynth_lib.release.deploy import keys
from fedsynth_lib.release.deploy.processes import (
    GRACE,
    MINUTE,
    SECRET,
    Children,
    Password,
    check_free,
    listens,
    secret_file,
    without_proxy,
)
from fedsynth_lib.release.deploy.server_worker import LOG, MADE, carry_out_all
from fedsynth_lib.release.deploy.site import check_secure
from fedsynth_lib.release.deploy.study import Study, check_flower, check_plan, read_study
from fedsynth_lib.release.deploy.worker import Runtime

# of the SuperLink; in a file Flower 1.41 loses requests of fifty sites ("database is locked"). To a
# server that was started again its sites connect again
BOOKS = ":flwr-in-memory:"
LIMIT = 3600.0  # seconds without news after which a run is stopped
LOOK = 0.3  # seconds
SAYS, WROTE = "fedsynth: ", "wrote "  # how lines of a run's log begin


def serve(study_folder: str | Path, own_folder: str | Path, *, say: Callable[[str], None]) -> None:
    """Let the sites of a study connect, and carry out its runs, until it is stopped.

    It listens at this machine alone where the study's server is on it, and at all of its addresses
    otherwise. Which nodes are registered, and which runs there were, is kept in memory.
    """
    check_flower()
    study = read_study(study_folder)
    check_secure(study)
    check_plan(study)
    own = Path(own_folder).expanduser().absolute()
    port = study.address[1]
    bind = "127.0.0.1" if study.on_loopback else "0.0.0.0"
    _check_keys(study, own)
    check_free(port, bind, "server")
    os.environ.update(without_proxy())  # to this machine itself
    state = study.state(own)
    with secret_file(state) as secret, Children(state) as children:
        options = ["--host", bind, "--port", str(port), "--database", BOOKS]
        options += ["--isolation", "process", "--superexec-auth-secret-file", str(secret)]
        options += ["--ssl-ca-certfile", str(own / keys.CA), "--enable-supernode-auth"]
        options += ["--ssl-certfile", str(own / keys.CERTIFICATE)]
        options += ["--ssl-keyfile", str(own / keys.SERVER_KEY)]
        nodes = state / "nodes.json"
        known = {each.name: keys.raw(each.key).decode() for each in study.sites}
        write_atomically(nodes, json.dumps(known).encode())
        said = {"FEDSYNTH_NODES": str(nodes), "FEDSYNTH_SECRET": str(secret)}
        children.start("superlink", *options, **said)
        children.wait_for(port)
        say(f"{study.name}: the server listens at {bind}:{port} for {len(study.sites)} sites")
        address, ca = f"127.0.0.1:{port}", study.ca.encode()
        link = Runtime(address, secret.read_bytes(), children.check, ca)
        carry_out_all(link, study, say)


def _check_keys(study: Study, own: Path) -> None:
    """Raise BadInput for a folder with other keys than the server's, or with too many."""
    keys.check_validity(own / keys.CERTIFICATE)
    if (own / keys.CA).read_text(encoding="ascii").strip() != study.ca.strip():
        raise BadInput(
            f"{own / keys.CA}: this is not the authority that the study names; take the right "
            "folder, or put it into the study."
        )
    if (own / keys.CA_KEY).exists():
        raise BadInput(
            f"{own / keys.CA_KEY}: who has this key can pretend to be the server, and the server "
            f"does not need it; move it to {keys.authority_of(own)}, or off this machine."
        )


def run(
    study_folder: str | Path,
    own_folder: str | Path,
    out: str | Path,
    *,
    say: Callable[[str], None],
    evaluate: str | Path = "",
    limit: float = LIMIT,
) -> list[Path]:
    """Carry out a run at a server that has been started; return the paths of its files.

    evaluate: a file of synthetic rows, which the sites then evaluate. limit: seconds without
    news after which the run is stopped. Raise BadInput with the reason where the run was
    refused, at the server or by a site. Nothing comes out of a run that did not end by itself:
    if this process is told to end, so is the run.
    """
    check_flower()
    study = read_study(study_folder)
    check_secure(study)
    own = Path(own_folder).expanduser().absolute()
    secret, app = study.state(own) / SECRET, study.folder.parent
    if not listens("127.0.0.1", study.address[1]) or not secret.is_file():
        raise BadInput(
            f"no server of this study listens at port {study.address[1]} of this machine; start it "
            f"with `fedsynth deploy server --study {study.folder} --own {own}`."
        )
    if not (app / "pyproject.toml").is_file():
        raise BadInput(f"{study.folder}: this is no app; `fedsynth deploy init` makes one.")
    out = Path(out).expanduser().absolute()
    config = {"evaluate": str(existing_file(evaluate, "rows"))} if evaluate else {}
    check_writable(out / "rows", "out")
    os.environ.update(without_proxy())  # to this machine itself
    with (
        TemporaryDirectory(dir=out, prefix=MADE, ignore_cleanup_errors=True) as made,
        contextlib.closing(_control(study, secret.read_bytes())) as client,
        ThreadPoolExecutor() as thread,
    ):
        log = Path(made) / LOG
        log.touch()
        # in a thread, so that a Ctrl-C never comes between a run and its number
        begun = thread.submit(client.StartRun, _start_request(app, config | {"out": made}))
        try:
            number = begun.result().run_id
            lines = _lines(_growing(log, partial(_has_ended, client, number)), say, limit)
            written = [Path(line.removeprefix(WROTE)) for line in lines]
            found = _status(client, number)
        except BaseException as error:
            with contextlib.suppress(httpx.HTTPError, TimeoutError):  # it has ended, or the server
                client.StopRun(StopRunRequest(run_id=begun.result(GRACE).run_id))
            say(
                "the run was stopped: nothing was written; sites' ledgers keep what it has released"
            )
            if isinstance(error, httpx.HTTPError):
                raise BadInput(
                    f"the server does not take the run, or has ended during it ({error})."
                ) from error
            raise
        if found.sub_status != SubStatus.COMPLETED:
            reason = found.details or found.sub_status
            raise BadInput(f"the run has ended without a result: {reason}")
        return [path.replace(out / path.name) for path in written]


def _lines(log: Iterable[str], say: Callable[[str], None], limit: float) -> Iterator[str]:
    """Yield the lines of a run's log that name a file, and say the others, to its end.

    After each minute without news, say what the last was. Raise BadInput after `limit` seconds
    of that.
    """
    last = "the server has not begun the run: it has another one to do, or its machine is busy"
    news = told = time.monotonic()
    for line in log:
        now = time.monotonic()
        if line.startswith(SAYS + WROTE):
            yield line.removeprefix(SAYS)
        elif line.startswith(SAYS):
            last = line.removeprefix(SAYS)
            say(last)
        if line:
            news = told = now
        elif now > news + limit:
            raise BadInput(
                f"there was no news for {limit:g} seconds; the last was: {last}. Look at the "
                "server's terminal, or give more time with --limit."
            )
        elif now > told + MINUTE:
            say(f"there is no news; the last was: {last}")
            told = now


def _growing(log: Path, has_ended: Callable[[], bool]) -> Iterator[str]:
    """Yield the lines of a run's log to its end, and '' a few times a second."""
    with open(log, encoding="utf-8") as file:
        ended = False
        while not ended:
            ended = has_ended()  # before the last look
            yield from filter(None, file.read().split("\n"))  # the server writes whole lines
            yield ""
            time.sleep(LOOK)


def _status(client: ControlHttpClient, number: int) -> RunStatus:
    """Return how a run is getting on, and how it has ended."""
    return client.ListRuns(ListRunsRequest(run_id=number)).run_dict[number].status


def _has_ended(client: ControlHttpClient, number: int) -> bool:
    """Return whether a run is known to have ended; a busy server may not say."""
    with contextlib.suppress(httpx.ReadTimeout):
        return _status(client, number).status == Status.FINISHED
    return False


def _control(study: Study, secret: bytes) -> ControlHttpClient:
    """Return a client of the SuperLink's own interface on this machine."""
    return ControlHttpClient.from_server_address(
        server_address=f"127.0.0.1:{study.address[1]}",
        insecure=False,
        root_certificates=study.ca.encode(),
        interceptors=[
            RuntimeVersionHttpInterceptor(component_name="flwr CLI"),
            Password(secret),
        ],
    )


def _start_request(app: Path, config: dict[str, Any]) -> StartRunRequest:
    """Return what `flwr run` asks for, of an app with this run-config."""
    content = build_fab_from_disk(app)
    fab = Fab(hashlib.sha256(content).hexdigest(), content, {})
    return StartRunRequest(fab=fab_to_proto(fab), override_config=user_config_to_proto(config))
