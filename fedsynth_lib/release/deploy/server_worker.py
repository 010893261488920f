"""Carry out the runs of a study at its server, one after the other, in the server's own process.

Flower's SuperExec would start a process for each run, and another one beside it where a busy
machine takes longer than half a minute to begin. Here a run begins at once, by the server's own
copy of the study. What is printed meanwhile goes to a file in the run's folder, which `deploy run`
follows.
"""

import contextlib
import math
import shutil
import time
from collections.abc import Callable, Iterable
from pathlib import Path

import httpx
from flwr.app import Context, Error, Message, RecordDict
from flwr.app.message import make_message
from flwr.common.constant import ErrorCode, SubStatus
from flwr.common.serde import context_from_proto, run_from_proto
from flwr.proto.runtime_pb2 import PullTaskInputRequest, PushTaskOutputRequest
from flwr.supercore.constant import TaskType
from flwr.supercore.interceptors import RuntimeTokenHttpInterceptor
from flwr.supercore.retry import RetryInvoker, exponential
from flwr.supercore.run import Run
from flwr.supercore.runtime import RuntimeHttpClient
from flwr.supercore.task_identity import TaskIdentity
from flwr.superlink.grid import HttpGrid

from fedsynth_lib.federation import flower
from fedsynth_lib.release.deploy import apps
from fedsynth_lib.release.deploy.processes import MINUTE
from fedsynth_lib.release.deploy.study import Study
from fedsynth_lib.release.deploy.worker import RUN_ENDED, Runtime, alive

RETRIES = 300.0  # seconds that a SuperLink of this machine may take to answer
BACK = 30.0  # seconds for a site that is gone to be there again, before it counts as gone
MADE = ".run-"  # how the name of a run's folder begins, from which `deploy run` takes what came out
LOG = "run.log"  # in that folder
POLL = 0.3  # seconds between looks for answers
GOODBYE = 5.0  # seconds for the sites to hear that a run has ended
LOST = (
    ErrorCode.NODE_UNAVAILABLE,
    ErrorCode.MESSAGE_UNAVAILABLE,
    ErrorCode.REPLY_MESSAGE_UNAVAILABLE,
)
GONE = "its process ended, or its connection was lost, before its answer was here"


def carry_out_all(runtime: Runtime, study: Study, say: Callable[[str], None]) -> None:
    """Carry out the study's runs until `runtime.check` raises."""
    runtime.take_all(TaskType.SERVER_APP, lambda token: _carry_out(runtime, token, study, say))


def _carry_out(runtime: Runtime, token: str, study: Study, say: Callable[[str], None]) -> None:
    """Carry out one run to its end; why it failed is in its status, for `deploy run`."""
    retry = RetryInvoker(
        lambda: exponential(max_delay=5),
        httpx.TransportError,
        max_tries=None,
        max_time=RETRIES,
        should_giveup=lambda _: runtime.check(),
    )
    sign = RuntimeTokenHttpInterceptor(token)
    with runtime.client("flwr-serverapp", sign, retry_invoker=retry) as client, alive(client):
        try:
            given = client.PullTaskInput(PullTaskInputRequest())
        except httpx.HTTPError as error:
            say(f"a run is not there any more: {error}")
            return
        run, context = run_from_proto(given.run), context_from_proto(given.context)
        TaskIdentity.task_id, TaskIdentity.run_id = given.task_id, run.run_id
        TaskIdentity.node_id = context.node_id
        context.run_config = run.override_config
        grid, out = StudyGrid(client, run, study), Path(str(context.run_config.get("out", "")))
        status, details = SubStatus.COMPLETED, ""
        try:
            with (
                open(out / LOG, "a", encoding="utf-8", buffering=1) as log,
                contextlib.redirect_stdout(log),
            ):
                apps.carry_out(study, grid, context)
        except Exception as error:
            status = SubStatus.FAILED
            details = f"{str(error).rstrip('.')}."
            details += f" {_paid(study, context)}" if grid.has_asked_rows else ""
        with contextlib.suppress(httpx.HTTPError):  # it was stopped
            grid.say_goodbye()
        output = PushTaskOutputRequest(sub_status=status, details=details)
        try:
            client.PushTaskOutput(output)
        except httpx.HTTPError:  # it was stopped, and its folder deleted: nothing may come after
            if out.name.startswith(MADE):
                shutil.rmtree(out, ignore_errors=True)
        say(f"run {run.run_id} has ended{f': {details}' if details else ''}")


def _paid(study: Study, context: Context) -> str:
    """Return what a run that failed after sites were asked for rows may have cost them.

    A site that was asked may be gone before its answer is here.
    """
    evaluates = bool(context.run_config.get("evaluate"))
    epsilon = study.evaluation_epsilon if evaluates else study.epsilon
    return (
        f"Nothing came out, but the ledger of each site that was asked may have recorded epsilon "
        f"{epsilon:g}, for an answer that has left it; each site's ledger shows what is left."
    )


class StudyGrid(HttpGrid):
    """Flower's grid, which says what it waits for and asks a site again that was gone.

    Such a site has kept its answer (`notes.py`). clock: seconds. has_asked_rows: whether sites
    were asked for what costs them.
    """

    def __init__(
        self,
        client: RuntimeHttpClient,
        run: Run,
        study: Study,
        clock: Callable[[], float] = time.monotonic,
    ):
        super().__init__(token="its client has it")
        self._client = client  # ours neither ends this process nor gives up early
        self.set_run(run)
        self.study, self.clock, self.has_asked_rows = study, clock, False
        self._names: dict[int, str] = {}  # of nodes
        self._told = clock()

    def get_node_ids(self) -> list[int]:
        """Return the nodes of the sites that are there."""
        nodes = list(self.get_nodes())
        self._names |= {node.node_id: node.name or str(node.node_id) for node in nodes}
        if len(nodes) < len(self.study.sites):
            here = {self._names[node.node_id] for node in nodes}
            away = ", ".join(site.name for site in self.study.sites if site.name not in here)
            names = f": {away}" if self.study.secure else ""  # else nodes have none
            self._mention(
                f"waits for {len(self.study.sites) - len(nodes)} of {len(self.study.sites)} sites"
                f"{names}"
            )
        return [node.node_id for node in nodes]

    def send_and_receive(
        self, messages: Iterable[Message], *, timeout: float | None = None
    ) -> list[Message]:
        """Return the answers within the time, and errors for those that are lost for good.

        This replaces Flower's own method, which looks for answers only every three seconds.
        """
        messages, self._told = list(messages), self.clock()
        self.has_asked_rows |= any(each.metadata.message_type == flower.STEP for each in messages)
        end = math.inf if timeout is None else self.clock() + timeout
        # none were too large
        waiting = dict(zip(self.push_messages(messages), messages, strict=False))
        lost: dict[str, Message] = {}  # of which the SuperLink knows nothing any more: why
        until: dict[str, float] = {}  # when they are given up
        replies: list[Message] = []
        while waiting and self.clock() <= end:
            asked = waiting.keys() - lost.keys()
            for reply in self.pull_messages(asked) if asked else ():
                number = reply.metadata.reply_to_message_id
                if reply.has_error() and reply.error.code in LOST:
                    until.setdefault(number, self.clock() + BACK)
                    error = Error(reply.error.code, GONE)
                    lost[number] = make_message(metadata=reply.metadata, error=error)
                elif waiting.pop(number, None):
                    replies.append(reply)
            here = set(self.get_node_ids()) if lost else set()
            for number in list(lost):
                if self.clock() > until[number]:
                    replies.append(lost.pop(number))
                    del waiting[number]
                elif waiting[number].metadata.dst_node_id in here:
                    del lost[number]
                    self.push_messages([waiting[number]])
            if waiting:
                late = sorted(self._names[each.metadata.dst_node_id] for each in waiting.values())
                self._mention(f"waits for the answers of {', '.join(late)}")
                time.sleep(POLL)
        return replies

    def _mention(self, what: str) -> None:
        """Say what it waits for, unless there was news in the last minute."""
        if self.clock() > self._told + MINUTE:
            self._told = self.clock()
            apps.say(what)

    def say_goodbye(self) -> None:
        """Tell the sites that the run has ended: until then they keep their secrets of it."""
        messages = [
            Message(RecordDict(), message_type=RUN_ENDED, dst_node_id=node)
            for node in self.get_node_ids()
        ]
        self.send_and_receive(messages, timeout=GOODBYE)
