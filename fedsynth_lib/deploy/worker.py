"""Answers what a SuperNode has been asked, with the site's own code, in the site's own process.

Flower would start a process for each message and run in it whatever app the server has sent. Here
no code comes from the server: what is asked is answered by the app that this site has made from its
own study. Of what Flower keeps to itself, this file uses the client of the Runtime API, which a
SuperNode serves on this machine alone, and there to whoever has its secret.
"""

import contextlib
import time
from collections.abc import Callable

import httpx
from flwr.app import Error, Message
from flwr.clientapp import ClientApp
from flwr.common.constant import ErrorCode, SubStatus
from flwr.proto.runtime_pb2 import AcquireTaskRequest, SendTaskHeartbeatRequest
from flwr.supercore.constant import TaskType
from flwr.supercore.heartbeat import HeartbeatSender
from flwr.supercore.inflatable.inflatable_utils import ObjectPullError
from flwr.supercore.interceptors import (
    RuntimeTokenHttpInterceptor,
    RuntimeVersionHttpInterceptor,
    SuperExecAuthHttpInterceptor,
)
from flwr.supercore.runtime import RuntimeHttpClient
from flwr.supernode.runtime.run_clientapp import pull_task_input, push_message, push_task_output

from fedsynth_lib.federation.flower import told

LOOK = 0.4  # seconds


def answer_all(
    address: str,
    secret: bytes,
    app: ClientApp,
    say: Callable[[str], None],
    check: Callable[[], None],
) -> None:
    """Answers until `check` raises; it is called a few times a second."""
    sign = SuperExecAuthHttpInterceptor(
        master_secret=secret, protected_methods={"/flwr.proto.Runtime/AcquireTask"}
    )
    with _client(address, "SuperExec", sign) as runtime:
        while True:
            check()
            token = ""
            with contextlib.suppress(httpx.TransportError):  # it has ended, as `check` will say
                asked = AcquireTaskRequest(supported_task_types=[TaskType.CLIENT_APP])
                token = runtime.AcquireTask(asked).token
            if token:
                _answer(address, token, app, say)
            else:
                time.sleep(LOOK)


def _answer(address: str, token: str, app: ClientApp, say: Callable[[str], None]) -> None:
    """One message; an error of the app is an answer as well."""
    with _client(address, "flwr-clientapp", RuntimeTokenHttpInterceptor(token)) as runtime:
        alive = HeartbeatSender(lambda: _beat(runtime))
        alive.start()
        status, details = SubStatus.COMPLETED, ""
        try:
            message, context, _, _ = pull_task_input(runtime)
        except (httpx.HTTPError, ObjectPullError) as error:
            say(f"what was asked is not there any more: {error}")
            alive.stop()
            return
        try:
            reply, said = app(message, context), f"answered {_about(message)}"
        except Exception as error:
            details = told(error)
            status = SubStatus.FAILED
            reply = Message(
                Error(code=ErrorCode.CLIENT_APP_RAISED_EXCEPTION, reason=details), reply_to=message
            )
            cause = error.__cause__ or error
            said = f"refused {_about(message)}: {cause}"
        try:
            push_message(runtime, reply, context)
            push_task_output(runtime, context, status, details)
            say(said)
        except httpx.HTTPError as error:  # the run has ended, say
            say(f"the answer was not taken: {error}")
        finally:
            alive.stop()


def _beat(runtime: RuntimeHttpClient) -> bool:
    """Says that the message is being answered. Flower's own would end this process where the run
    has ended meanwhile; here the answer is then not taken, and that is all."""
    with contextlib.suppress(httpx.HTTPError):
        runtime.SendTaskHeartbeat(SendTaskHeartbeatRequest())
    return True


def _about(message: Message) -> str:
    """What was asked, in a few words."""
    kind = message.metadata.message_type.rpartition(".")[2].replace("_", " ")
    number = message.metadata.group_id
    return f"{kind}, round {int(number) + 1}" if number.isdigit() else kind


class _client:
    """A client of the Runtime API for the length of a context."""

    def __init__(self, address: str, name: str, who: object):
        self.made = RuntimeHttpClient.from_server_address(
            server_address=address,
            insecure=True,  # on this machine
            root_certificates=None,
            interceptors=[RuntimeVersionHttpInterceptor(component_name=name), who],
        )

    def __enter__(self) -> RuntimeHttpClient:
        return self.made

    def __exit__(self, *_: object) -> None:
        self.made.close()
