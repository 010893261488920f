"""One of Flower's long-running processes, as a child that ends with whoever has started it.

    python -P -m fedsynth_lib.release.deploy.child superlink|supernode PARENT OPTIONS

It looks twice a second whether its parent is still there, so it ends too where the parent was
killed and could say nothing. A SuperLink serves its sites alone to the network: Flower 1.41 has all
of its APIs on one port, and anybody who reaches it could start runs or register nodes. Here these
answer to processes of this machine alone, and of those to the ones that show the server's secret,
which only its operator's account can read (FEDSYNTH_SECRET is its file). A proxy on this machine
looks like this machine, so a request that was forwarded is refused as well. The sites' keys are
registered before it listens (FEDSYNTH_NODES is a file with them), so none is refused for having
been early.
"""

import hmac
import json
import os
import signal
import sys
import threading
import time
import traceback
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from ipaddress import ip_address
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NoReturn

LOOK, GRACE = 0.5, 5.0  # seconds
CLAIMED = 600  # seconds; a busy machine may take longer than Flower's 30 to begin what it has taken
PUSHED = 60  # seconds without a part of an answer, after which its sender is taken for gone
OPEN_TO_ALL = "/v1/fleet/"  # what SuperNodes use, who sign each request
FORWARDED = (b"forwarded", b"via", b"x-forwarded", b"x-real-ip", b"x-client-ip", b"cf-connecting")


class SitesAlone:
    """ASGI middleware that admits SuperNodes, and processes that show the password."""

    def __init__(self, app: Any, password: str):
        self.app, self.password = app, password

    async def __call__(self, scope: dict, receive: Any, send: Any) -> None:
        """Serve a request, unless nobody but a site may make it."""
        if scope["type"] == "http" and not admitted(
            scope["path"], scope.get("client"), scope["headers"], self.password
        ):
            head = {"type": "http.response.start", "status": 403, "headers": []}
            await send(head)
            await send({"type": "http.response.body", "body": b""})
            return
        await self.app(scope, receive, send)


def admitted(
    path: str, client: Sequence | None, headers: Sequence[tuple[bytes, bytes]], password: str
) -> bool:
    """Return whether a request may come in: of a SuperNode, or from this machine with the password.

    headers: names in small letters, as ASGI has them.
    """
    from fedsynth_lib.release.deploy.processes import PASSWORD

    if path.startswith(OPEN_TO_ALL):
        return True
    shown = [value for name, value in headers if name == PASSWORD.encode()]
    return (
        client is not None
        and ip_address(client[0]).is_loopback
        and not any(name.startswith(FORWARDED) for name, _ in headers)
        and len(shown) == 1
        and hmac.compare_digest(shown[0], password.encode())
    )


def superlink() -> None:
    """Run a SuperLink with this bundle's limits."""
    from flwr.superlink import extensions
    from flwr.superlink.cli import flower_superlink
    from starlette.middleware import Middleware

    from fedsynth_lib.release.deploy.processes import password_of

    password = password_of(Path(os.environ["FEDSYNTH_SECRET"]).read_bytes())
    # the hooks that Flower has for its own extensions, of which there are none here
    extensions.get_middleware = lambda: (Middleware(SitesAlone, password=password),)
    extensions.get_lifespan_contexts = lambda: (registered,)
    flower_superlink()


@asynccontextmanager
async def registered(app: Any) -> AsyncIterator[None]:
    """Put the nodes into the books of a SuperLink, which is about to listen."""
    from flwr.common.constant import HEARTBEAT_DEFAULT_INTERVAL, NOOP_ACCOUNT_NAME, NOOP_FLWR_AID

    state = app.state.linkstate_factory.state()
    if path := os.environ.get("FEDSYNTH_NODES"):
        for name, key in json.loads(Path(path).read_text(encoding="utf-8")).items():
            state.create_node(
                owner_aid=NOOP_FLWR_AID,
                owner_name=NOOP_ACCOUNT_NAME,
                public_key=key.encode(),
                heartbeat_interval=HEARTBEAT_DEFAULT_INTERVAL,
                name=name,
            )
    yield


def supernode() -> None:
    """Run a SuperNode with this bundle's limits."""
    from flwr.supercore.run import RunNotRunningException
    from flwr.supernode import start_client_internal
    from flwr.supernode.cli import flower_supernode
    from flwr.supernode.nodestate import InMemoryNodeState

    def caught(step: Callable) -> Callable:
        """Wrap a step so that a run stopped meanwhile raises an error that Flower 1.41 catches.

        Flower then drops the message. Otherwise it would keep the message, and the site would send
        the answer to it in place of the answer to the next one, whose run would wait for ever.
        """

        def step_of_a_run(*arguments: Any, **options: Any) -> Any:
            try:
                return step(*arguments, **options)
            except RunNotRunningException as error:  # no Exception, but a BaseException
                raise RuntimeError("the run has ended") from error

        return step_of_a_run

    receive = start_client_internal._pull_and_store_message

    def received(*, confirm_message_received: Callable, **options: Any) -> int | None:
        return receive(confirm_message_received=caught(confirm_message_received), **options)

    start_client_internal.pull_objects = caught(start_client_internal.pull_objects)
    start_client_internal._pull_and_store_message = received
    # where there is no message yet, Flower waits three seconds, and a round takes that long
    brief = SimpleNamespace(sleep=lambda seconds: time.sleep(min(seconds, LOOK)))
    start_client_internal.time = brief
    # Flower sends it with each answer, and how long a site computes may depend on its rows
    InMemoryNodeState.get_message_processing_duration = lambda state, message_id: 0.0
    flower_supernode()


def set_times() -> None:
    """Give a task that was taken up CLAIMED seconds to show that it is alive.

    Flower 1.41 gives it 30, and then has it done a second time beside the first. It also waits
    180 seconds for the rest of an answer, in which a server hears nothing of any other site;
    here PUSHED.
    """
    from flwr.supercore.corestate import in_memory_corestate

    in_memory_corestate.HEARTBEAT_DEFAULT_INTERVAL = CLAIMED
    in_memory_corestate.OBJECT_PUSH_SESSION_TTL_SECONDS = PUSHED


def to_its_end(flower: Callable[[], None]) -> NoReturn:
    """Run one of Flower's commands, and end the process when it returns or fails.

    Flower 1.41 serves the apps from a thread of its own. Where a TLS error, or a server that
    has forgotten it, ends a SuperNode's main thread, that thread would keep the process alive,
    and its site would wait for ever.
    """
    code = 1
    try:
        flower()
        code = 0
    except SystemExit as error:
        code = error.code if isinstance(error.code, int) else int(error.code is not None)
    except BaseException:
        traceback.print_exc()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


def end_with_parent(parent: int) -> None:
    """End this process soon after its parent is another one; by force where it takes too long."""

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(LOOK)
        os.kill(os.getpid(), signal.SIGTERM)
        time.sleep(GRACE)
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()


def main(arguments: Sequence[str]) -> NoReturn:
    """Run one of Flower's commands, and end with it."""
    command, parent, *options = arguments
    if os.name == "posix":
        end_with_parent(int(parent))
    sys.argv = [f"flower-{command}", *options]
    set_times()
    to_its_end({"superlink": superlink, "supernode": supernode}[command])


if __name__ == "__main__":
    main(sys.argv[1:])
