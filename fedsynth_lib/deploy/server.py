"""The server of a study: a SuperLink to which the study's sites alone may connect, and a run.

fedsynth deploy server --study DIR --own DIR    until it is stopped
fedsynth deploy run --study DIR --own DIR       in another terminal of the same machine
"""

import json
import re
import subprocess
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

from fedsynth_lib.core.contract import BadInput
from fedsynth_lib.core.store import check_writable, existing_file, write_atomically
from fedsynth_lib.deploy import keys
from fedsynth_lib.deploy.processes import (
    Children,
    check_free,
    environment,
    listens,
    secret_file,
)
from fedsynth_lib.deploy.site import check_secure
from fedsynth_lib.deploy.study import check_flower, check_plan, read_study

CONNECTION = "study"  # what Flower's own files call the SuperLink
# of the SuperLink; in a file Flower 1.41 loses requests of fifty sites ("database is locked"). To a
# server that was started again its sites connect anew
BOOKS = ":flwr-in-memory:"
STARTED = r"started run (\d+)"  # which Flower says


@contextmanager
def serving(
    study_folder: str | Path,
    own_folder: str | Path,
    *,
    say: Callable[[str], None],
    insecure: bool = False,
) -> Iterator[Children]:
    """A SuperLink for the sites of a study, for the length of the context.

    It listens at this machine alone where the study's server is on it, and at all of its addresses
    otherwise. What nodes are registered, and what runs there were, is kept in the own folder over
    restarts, for a few sites; many would lock each other out of a file, and after a restart need a
    heartbeat, half a minute, to be there again.
    """
    check_flower()
    study = read_study(study_folder)
    check_secure(study, insecure)
    check_plan(study)
    own = Path(own_folder).expanduser().absolute()
    port = study.address[1]
    bind = "127.0.0.1" if study.on_loopback else "0.0.0.0"
    if not insecure:
        keys.check_validity(own / keys.CERTIFICATE)
        if (own / keys.CA).read_text(encoding="ascii").strip() != study.ca.strip():
            raise BadInput(
                f"{own / keys.CA}: this is not the authority that the study names; take the right "
                "folder, or put it into the study."
            )
    check_free(port, bind, "server")
    state = study.state(own)
    with secret_file(state) as secret, Children(state) as children:
        options = ["--host", bind, "--port", str(port), "--database", BOOKS]
        options += ["--isolation", "process", "--superexec-auth-secret-file", str(secret)]
        trust = ["--insecure"]
        if not insecure:
            options += ["--ssl-ca-certfile", str(own / keys.CA), "--enable-supernode-auth"]
            options += ["--ssl-certfile", str(own / keys.CERTIFICATE)]
            options += ["--ssl-keyfile", str(own / keys.SERVER_KEY)]
            trust = ["--root-certificates", str(own / keys.CA)]
        nodes = state / "nodes.json"
        known = {} if insecure else {each.name: keys.raw(each.key).decode() for each in study.sites}
        write_atomically(nodes, json.dumps(known).encode())
        options += ["--insecure"] if insecure else []
        children.start("superlink", *options, FEDSYNTH_NODES=str(nodes))
        children.wait_for(port)
        link = f"127.0.0.1:{port}"
        secret_options = ["--superexec-auth-secret-file", str(secret)]
        children.start("superexec", "--runtime-api-address", link, *trust, *secret_options)
        _write_connection(state, link, None if insecure else own / keys.CA)
        say(f"{study.name}: the server listens at {bind}:{port} for {len(study.sites)} sites")
        yield children


def run(
    study_folder: str | Path,
    own_folder: str | Path,
    out: str | Path,
    *,
    say: Callable[[str], None],
    evaluate: str | Path = "",
    insecure: bool = False,
) -> list[Path]:
    """A run of the study at a server that has been started; the paths of what came out.

    evaluate: a file of synthetic rows, which the sites then evaluate.
    Raises BadInput with the reason where the run was refused, at the server or by a site. Nothing
    comes out of a run that did not end by itself: where this process is told to end, so is the run.
    """
    check_flower()
    study = read_study(study_folder)
    check_secure(study, insecure)
    state = study.state(Path(own_folder).expanduser().absolute())
    if not listens("127.0.0.1", study.address[1]):
        raise BadInput(
            f"nothing listens at port {study.address[1]} of this machine; start the server with "
            "`fedsynth deploy server`."
        )
    out = Path(out).expanduser().absolute()
    app = study.folder.parent if (study.folder.parent / "pyproject.toml").is_file() else None
    if app is None:
        raise BadInput(f"{study.folder}: this is no app; `fedsynth deploy init` makes one.")
    bare = insecure and not study.secure  # sites that have keys sign and mask without TLS as well
    options = [f"--run-config=insecure={str(bare).lower()}"]
    if evaluate:
        options.append(f'--run-config=evaluate="{existing_file(evaluate, "rows")}"')
    check_writable(out / "rows", "out")
    with TemporaryDirectory(dir=out, prefix=".run-", ignore_cleanup_errors=True) as made:
        options.append(f'--run-config=out="{made}"')
        written, refused = _followed(
            state, ["run", str(app), CONNECTION, "--stream", *options], say
        )
        if not written:
            raise BadInput(
                f"the run has ended without a result: {refused or f'see {state}/superexec.log'}."
            )
        return [path.replace(out / path.name) for path in written]


def _followed(
    state: Path, command: list[str], say: Callable[[str], None]
) -> tuple[list[Path], str]:
    """What a run has written, and why it was refused, if it was."""
    written, refused, number = [], "", ""
    with flwr(state, *command) as process:
        try:
            for line in process.stdout:
                plain = re.sub(r"\x1b\[[0-9;]*m", "", line).strip()
                if found := re.search(r"fedsynth: (.*)", plain):
                    said = found[1]
                    if said.startswith("wrote "):
                        written.append(Path(said.removeprefix("wrote ")))
                    else:
                        say(said)
                elif found := re.search(r"(?:Refused|BadInput|Error|Exceeded): (.*)", plain):
                    refused = found[1]
                elif found := re.search(STARTED, plain):
                    number = found[1]
        except KeyboardInterrupt:
            if number or (number := _number(process.stdout)):
                flwr(state, "stop", number, CONNECTION).communicate()
            say(
                "the run was stopped: nothing was written; sites' ledgers keep what it has released"
            )
            raise
        finally:
            process.terminate()
    return written, refused


def _number(lines: Iterable[str]) -> str:
    """Of the run that is about to begin; '' where none does."""
    return next((found[1] for line in lines if (found := re.search(STARTED, line))), "")


def flwr(folder: Path, *arguments: str) -> subprocess.Popen:
    """Flower's own command, with its files in this folder; what it says is one text. A Ctrl-C is
    for this process, which ends it."""
    return subprocess.Popen(
        ["flwr", *arguments],
        env=environment(folder),
        cwd=folder,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        encoding="utf-8",
        start_new_session=True,
    )


def _write_connection(state: Path, address: str, ca: Path | None) -> None:
    """Flower's own file of connections, for its command `flwr`."""
    trust = "insecure = true" if ca is None else f'root-certificates = "{ca}"'
    text = f'[superlink.{CONNECTION}]\naddress = "{address}"\n{trust}\n'
    write_atomically(state / "config.toml", text.encode())
