"""Does what a SuperNode or a SuperLink has been asked for, in the party's own process.

Flower would start a process for each message and each run, and run in it whatever app was sent.
Here no code comes over the network: a site answers by the app that it has made from its own study
(this module), a server carries out the app of its own folder (`server_worker.py`). Of what Flower
keeps to itself, both use the client of the Runtime API, which is served on this machine to who has
its secret.
"""

import contextlib
import time
from collections.abc import Callable
from dataclasses import dataclass, replace

import httpx
from flwr.app import Error, Message, RecordDict
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
from fedsynth_lib.release.deploy.notes import Notes
from fedsynth_lib.release.deploy.processes import Password

LOOK = 0.4  # seconds
RUN_ENDED = "query.run_ended"  # which the server tells its sites at last


@dataclass(frozen=True)
class Runtime:
    """Where a SuperNode or a SuperLink of this machine gives out work.

    secret: its own, and its worker's. ca: PEM; b'' where it does not speak TLS.
    check: raises where it has ended; it is called a few times a second.
    """

    address: str
    secret: bytes
    check: Callable[[], None]
    ca: bytes = b""

    def client(self, name: str, who: object, **options: object) -> RuntimeHttpClient:
        """A client of it, a context; who: signs its requests. name: as Flower calls it."""
        return RuntimeHttpClient.from_server_address(
            server_address=self.address,
            insecure=not self.ca,
            root_certificates=self.ca or None,
            interceptors=[
                RuntimeVersionHttpInterceptor(component_name=name),
                Password(self.secret),
                who,
            ],
            **options,
        )

    def take_all(self, kind: str, do: Callable[[str], None]) -> None:
        """Does each task of a kind, one after the other, until `check` raises. do: what is to be
        done with the token of a task."""
        sign = SuperExecAuthHttpInterceptor(
            master_secret=self.secret, protected_methods={"/flwr.proto.Runtime/AcquireTask"}
        )
        with self.client("SuperExec", sign) as runtime:
            while True:
                self.check()
                token = ""
                with contextlib.suppress(httpx.TransportError):  # it has ended, as `check` will say
                    asked = AcquireTaskRequest(supported_task_types=[kind])
                    token = runtime.AcquireTask(asked).token
                if token:
                    do(token)
                else:
                    time.sleep(LOOK)


@contextlib.contextmanager
def alive(runtime: RuntimeHttpClient):
    """Says all the while that the task is being done. Flower's own would end this process where
    the run has ended meanwhile; here the answer is then not taken, and that is all."""

    def beat() -> bool:
        with contextlib.suppress(httpx.HTTPError):
            runtime.SendTaskHeartbeat(SendTaskHeartbeatRequest())
        return True

    sender = HeartbeatSender(beat)
    sender.start()
    try:
        yield
    finally:
        sender.stop()


def answer_all(runtime: Runtime, app: ClientApp, notes: Notes, say: Callable[[str], None]) -> None:
    """Answers what a SuperNode has been asked, until `runtime.check` raises. Before each look for
    more, notes that have become old are deleted."""

    def check() -> None:
        notes.forget_old()
        runtime.check()

    looking = replace(runtime, check=check)
    looking.take_all(TaskType.CLIENT_APP, lambda token: _answer(runtime, token, app, notes, say))


def _answer(
    runtime: Runtime, token: str, app: ClientApp, notes: Notes, say: Callable[[str], None]
) -> None:
    """One message; an error of the app is an answer as well."""
    sign = RuntimeTokenHttpInterceptor(token)
    with runtime.client("flwr-clientapp", sign) as client, alive(client):
        try:
            message, context, _, _ = pull_task_input(client)
        except (httpx.HTTPError, ObjectPullError) as error:
            say(f"what was asked is not there any more: {error}")
            return
        status, details = SubStatus.COMPLETED, ""
        try:
            reply, said = _reply(message, context, app, notes), f"answered {_about(message)}"
        except Exception as error:
            details = told(error)
            status = SubStatus.FAILED
            reply = Message(
                Error(code=ErrorCode.CLIENT_APP_RAISED_EXCEPTION, reason=details), reply_to=message
            )
            cause = error.__cause__ or error
            said = f"refused {_about(message)}: {cause}"
        try:
            push_message(client, reply, context)
            push_task_output(client, context, status, details)
            say(said)
        except httpx.HTTPError as error:  # the run has ended, say
            say(f"the answer was not taken: {error}")


def _reply(message: Message, context: object, app: ClientApp, notes: Notes) -> Message:
    """The app's answer, on the disk before it leaves; the same one to the same message, which a
    server asks again where an answer was lost."""
    if message.metadata.message_type == RUN_ENDED:
        if notes.are_of_run(message):
            notes.forget()
        return Message(RecordDict(), reply_to=message)
    if (earlier := notes.recalled(message, context)) is not None:
        return Message(earlier, reply_to=message)
    reply = app(message, context)
    notes.keep(message, context, reply)
    return reply


def _about(message: Message) -> str:
    """What was asked, in a few words."""
    kind = message.metadata.message_type.rpartition(".")[2].replace("_", " ")
    number = message.metadata.group_id
    return f"{kind}, round {int(number) + 1}" if number.isdigit() else kind
