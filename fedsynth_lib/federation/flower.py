"""The methods as Flower apps, and an in-process grid to run them without a server.

`client_app` and `server_app` wrap any method; the same two apps run in process
(`LocalGrid`), under Ray (`run_with_ray`), and behind a SuperLink. What crosses the wire
is the state (down) and an Update (up); both are counted by their bytes, by kind, round and client.
"""

import json
import os
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, replace
from typing import Any, TypeVar
from uuid import uuid4

import numpy as np
from flwr.app import ArrayRecord, ConfigRecord, Context, Message, RecordDict
from flwr.app.message.array import Array
from flwr.clientapp import ClientApp
from flwr.serverapp import Grid, ServerApp
from flwr.supercore.task_identity import TaskIdentity  # not public API; used in this file only

from fedsynth_lib.core.contract import (
    SECRET,
    Arrays,
    BadBroadcast,
    BadRows,
    Charge,
    Client,
    Domain,
    Method,
    Noise,
    Privacy,
    Update,
    stamp,
    stream,
)
from fedsynth_lib.core.ledger import ClientLedger, Refused
from fedsynth_lib.federation.answers import (
    RAW,
    BadAnswer,
    arrays_of,
    check_sender,
    in_one,
    misfits,
    out_of_one,
    unpack,
    update_of,
    views,
)
from fedsynth_lib.federation.masks import Check, Masks, Opening, Simulated

STEP, WHO, MASKS = "query.client_step", "query.partition", "query.masks"
BEFORE = -1  # the round of what is agreed on before the first one
Proof = Callable[[int, Message], None]  # that a reply is a client's own; raises BadAnswer
Answer = TypeVar("Answer")
UNANSWERED = "the client cannot answer; its own log says why."
MOST_WAIT = 120.0  # seconds, for all clients to be there
LOCAL_RUN = 1  # run id of the in-process grid: one run at a time in a process


@dataclass(frozen=True)
class Job:
    """Everything both sides must agree on before the first round.

    method: may be given as a module that follows the contract.
    sizes: the declared number of rows of each client; as many as it has, where none are declared.
    mask_seed: of the masks of secure sums; the run's own, where none is given.
    """

    method: Method
    config: Any
    domain: Domain
    # one for all, or one for each client; None: without noise
    noise_multiplier: float | tuple[float, ...] | None
    seed: int
    num_clients: int
    privacy: Privacy = field(default_factory=Privacy)
    sizes: tuple[int, ...] | None = None
    mask_seed: int | None = None

    def __post_init__(self):
        """Turn a method that was given as a module into a `Method`."""
        object.__setattr__(self, "method", Method.of(self.method))

    @property
    def simulated_masks(self) -> Simulated:
        """The masks of a simulation of this job."""
        return Simulated(self.seed if self.mask_seed is None else self.mask_seed)

    @property
    def secret(self) -> bool:
        """Whether all that touches rows is drawn from the operating system.

        Nobody can repeat these draws.
        """
        return self.privacy.noise_seed is None

    def stream(self, *path: int | str) -> np.random.Generator:
        """Return the generator for one place in the run.

        It gives the noise, and a client's other draws: latent vectors, batches, conditions. In a
        release these other draws are as secret as noise.

        Rows meet these draws in order. Were they known, one row less would give every later row
        another draw, and the sum over rows would move by far more than one row does.
        """
        return np.random.default_rng() if self.secret else stream(self.seed, *path)

    def noise(self, *path: int | str) -> Noise | None:
        """Return the noise of this place in the run.

        The result is None without noise, and at the server if each client has a multiplier of its
        own.
        """
        if self.noise_multiplier is None:
            return None
        multiplier, own = self.noise_multiplier, path[0] == "client"
        if isinstance(multiplier, tuple):
            if not own:
                return None
            multiplier = multiplier[path[1]]
        chosen = self.privacy.noise_seed
        rng = (
            stream(chosen, "noise", *path)
            if isinstance(chosen, int)
            else self.stream("noise", *path)
        )
        return Noise(multiplier, rng, self.secret, self.privacy.whole)

    def client(self, rows: np.ndarray, index: int, num_clients: int, memory: Arrays) -> Client:
        """Return a client as `client_step` sees it in a round of so many."""
        size = -1 if self.sizes is None else self.sizes[index]
        return Client(rows, index, num_clients, memory, size, self.privacy.shares(num_clients))

    def schedule(self) -> list[tuple[int, float]]:
        """Return (draw, share of clients) of every round."""
        return list(self.method.schedule(self.domain, self.config))

    def participants(self, draw: int, share: float) -> list[int]:
        """Draw the clients of a round, each with probability `share`.

        If nobody is in it, the clients are drawn again. The same draw always has the same clients.
        """
        if share >= 1:
            return list(range(self.num_clients))  # as would come out of any draw
        rng = stream(self.seed, "participants", draw)
        while True:
            chosen = np.flatnonzero(rng.random(self.num_clients) < share).tolist()
            if chosen:
                return chosen

    def check(self, sent: Arrays, number: int) -> None:
        """Check that a client may be sent these arrays in this round.

        Raises BadBroadcast if it may not, by what the client knows from its own copy of the job. No
        row has a part in it. A method without `check_broadcast` checks nothing.
        """
        if self.method.check_broadcast is None:
            return
        try:
            self.method.check_broadcast(sent, self.domain, config=self.config, round=number)
        except Exception as error:  # any other error that odd arrays cause in the check
            raise BadBroadcast() from error

    def answered(self, sent: Arrays, client: Client, number: int) -> Update:
        """Return a client's update of a round to which it was sent these arrays.

        The arrays must have been checked before. The charges of the update are marked with its
        round and client.
        """
        update = self.method.client_step(
            sent,
            client,
            config=self.config,
            noise=self.noise("client", client.index, number),
            rng=self.stream("client", client.index, number),
        )
        marks = {"round": number, "client": client.index}
        return replace(
            update,
            num_rows=client.size,
            spent=stamp(update.spent, **marks),
            summed_spent=stamp(update.summed_spent, **marks),
            client=client.index,
        )

    def served(
        self, state: Arrays, updates: Sequence[Update], number: int
    ) -> tuple[Arrays, list[Charge]]:
        """Return the server's state after a round of these updates, and what the round cost.

        The cost is the charges of the clients, which are marked already, and the server's own.
        """
        state, own = self.method.server_step(
            state,
            updates,
            config=self.config,
            noise=self.noise("server", number),
            rng=stream(self.seed, "server", number),
        )
        spent = [charge for update in updates for charge in update.spent]
        return state, spent + stamp(own, round=number)


@dataclass
class Outcome:
    """What a run leaves behind; the server app fills it while it runs."""

    state: Arrays = field(default_factory=dict)
    charges: list[Charge] = field(default_factory=list)
    traffic: list[dict] = field(default_factory=list)  # round, client, direction, kind, bytes
    refused: list[dict] = field(default_factory=list)  # round, client, code, why
    # by a method's name: the runs of the same study that clients have answered before
    earlier: dict[str, int] = field(default_factory=dict)

    def bytes(self, direction: str) -> int:
        """Return the bytes of all messages in a direction, 'up' or 'down'."""
        return sum(line["bytes"] for line in self.traffic if line["direction"] == direction)


def pack(arrays: Arrays) -> ArrayRecord:
    """Return arrays as bytes in a Flower record.

    The bytes are plain, which takes a tenth of the time of Flower's npy files.
    """
    return ArrayRecord(
        array_dict={
            name: Array(
                dtype=values.dtype.str, shape=values.shape, stype=RAW, data=values.tobytes()
            )
            for name, values in arrays.items()
        }
    )


def client_app(
    job: Job,
    load_rows: Callable[[int], np.ndarray],
    ledger: ClientLedger | None = None,
    masks: Masks | None = None,
) -> ClientApp:
    """Return the ClientApp of a job.

    The app answers every round of the job's schedule once, with the clients that the schedule
    draws, and nothing else, whatever the server asks: it first checks the request, then what was
    sent, and only then looks at rows. What it sends has names, shapes and types that follow from
    the job alone. Of an error the server learns only what `guarded` lets through. How long an
    answer takes may depend on rows, and nothing here hides that.

    load_rows: gives the encoded rows of the client with this index, in the client's own process.
    ledger: where this client keeps what it has answered and spent, over restarts, and what it is
        willing to spend.
    masks: of its secure sums; None: those of a simulation.
    """
    app = ClientApp()
    schedule = [job.participants(*entry) for entry in job.schedule()]
    masks = job.simulated_masks if masks is None else masks

    @app.query("partition")
    def partition(message: Message, context: Context) -> Message:
        about = ConfigRecord({"client": int(context.node_config["partition-id"])})
        return Message(RecordDict({"about": about}), reply_to=message)

    @app.query("client_step")
    def client_step(message: Message, context: Context) -> Message:
        return guarded(answer, message, context)

    @app.query("masks")
    def masks_(message: Message, context: Context) -> Message:
        return guarded(reply, message, context)

    def reply(message: Message, context: Context) -> Message:
        index, run = int(context.node_config["partition-id"]), int(message.metadata.run_id)
        job_ = message.content["job"]
        secrets = unpack(context.state["masks"]) if "masks" in context.state else {}
        arrays = masks.reply(
            str(job_["phase"]),
            out_of_one(views(message.content["arrays"])),
            client=index,
            run=run,
            secrets=secrets,
        )
        context.state["masks"] = pack(secrets)
        about = {"client": index, "run": str(run), "round": int(job_["round"])}
        content = {"arrays": pack(arrays), "about": ConfigRecord(about)}
        return Message(RecordDict(content), reply_to=message)

    def answer(message: Message, context: Context) -> Message:
        index, asked = int(context.node_config["partition-id"]), message.content["job"]
        number, clients = int(asked["round"]), list(asked["clients"])
        last = int(context.state["answered"]["last"]) if "answered" in context.state else -1
        check_request(schedule, last, index, number, clients)
        job.check(views(message.content["state"]), number)
        context.state["answered"] = ConfigRecord({"last": number})
        if ledger is not None:
            ledger.begin(job, index, run=message.metadata.run_id, number=number)
        memory = unpack(context.state["memory"]) if "memory" in context.state else {}
        rows = loaded(lambda: load_rows(index))
        client = job.client(rows, index, len(clients), memory)
        update = job.answered(unpack(message.content["state"]), client, number)
        context.state["memory"] = pack(client.memory)
        secrets = unpack(context.state["masks"]) if "masks" in context.state else {}
        masked = masks.mask(
            update.summed,
            client=index,
            clients=clients,
            run=message.metadata.run_id,
            round=number,
            groups=update.groups,
            secrets=secrets,
        )
        if secrets:
            context.state["masks"] = pack(secrets)
        if ledger is not None:
            stated = [*update.spent, *update.summed_spent]
            ledger.spend(job, index, stated, run=message.metadata.run_id)
        about = {
            "client": index,
            "run": str(message.metadata.run_id),  # beyond what a record's numbers hold
            "round": number,
            "num_rows": client.size,
            "spent": json.dumps([asdict(each) for each in update.spent]),
            "summed_spent": json.dumps([asdict(each) for each in update.summed_spent]),
            "groups": json.dumps(update.groups),
        }
        content = {
            "arrays": pack(update.arrays),
            "summed": pack(masked),
            "about": ConfigRecord(about),
        }
        return Message(RecordDict(content), reply_to=message)

    return app


def check_request(
    schedule: list[list[int]], last: int, index: int, number: int, clients: list[int]
) -> None:
    """Raise Refused for a request that the schedule does not have.

    So no server gets more out of a client than the plan has paid for. To answer a round twice is to
    draw noise twice about the same rows. Other clients than planned mean another share of the
    noise, and masks of a sum that might have only one member.

    schedule: the clients of every round.
    last: the last round that this client answered, -1 before the first.
    """
    if not 0 <= number < len(schedule):
        raise Refused(
            f"client {index}: round {number + 1} is beyond the {len(schedule)} rounds of the plan."
        )
    if number <= last:
        raise Refused(
            f"client {index}: round {number + 1} was answered or left out before, and is answered "
            "once."
        )
    if clients != schedule[number] or index not in clients:
        raise Refused(
            f"client {index}: round {number + 1} is asked of other clients than the plan has drawn."
        )


def loaded(load: Callable[[], Answer]) -> Answer:
    """Return what a client reads from its own files.

    Raises Refused for rows that do not fit their schema. Others may learn their column, but neither
    value nor row; what others have sent has no part in it.
    """
    try:
        return load()
    except BadRows as error:
        raise Refused(f"{type(error).__name__}: {error.told}".removesuffix(": ")) from error


def guarded(
    answer: Callable[[Message, Context], Message], message: Message, context: Context
) -> Message:
    """Return the answer of a client.

    If it fails, raise Refused with what others may know of the reason: the sentence of a Refused as
    it is, and of any other error what `told` says.
    """
    try:
        return answer(message, context)
    except Refused:
        raise
    # the cause stays here: Flower sends the text of the outermost error alone
    except Exception as error:
        raise Refused(told(error)) from error


def told(error: Exception) -> str:
    """Return what others may know of an error at a client.

    It is the message of a Refused or BadBroadcast, which is written for them. Of any other error it
    is only that the client cannot answer.
    """
    return str(error) if isinstance(error, Refused | BadBroadcast) else UNANSWERED


def server_app(
    job: Job,
    outcome: Outcome,
    after_round: Callable[[int, list[Charge]], None] = lambda *_: None,
    masks: Opening | None = None,
    timeout: float | None = None,
    prove: Proof = lambda *_: None,
    before: Callable[[dict[int, int]], None] = lambda _: None,
) -> ServerApp:
    """Return the ServerApp of a job.

    The app fills `outcome` and calls `after_round(round, all charges so far)`.

    masks: of the secure sums, as the clients have them; None: those of a simulation.
    timeout: seconds that clients have for an answer; None: as long as they take.
    prove: looks at every reply of a client before it is read.
    before: called with client -> node once all are there, before anything is asked of rows; it may
        refuse the run.
    A client whose answer is missing or refused (`answers.py` has the codes) is out of the run. The
    run ends with a RuntimeError if the masks, or the noise that was made for all, cannot do without
    it.
    """
    app = ServerApp()
    masks = job.simulated_masks if masks is None else masks

    @app.main()
    def main(grid: Grid, context: Context) -> None:
        found = wait_for_nodes(grid, job.num_clients, timeout or MOST_WAIT)
        nodes = nodes_of_clients(grid, found, timeout, prove)
        before(nodes)
        asking = Asking(grid, nodes, int(context.run_id), outcome, timeout, prove)
        with asking.refusing(BEFORE):
            masks.agree(asking.masks(BEFORE), asking.run)
        state = job.method.start(job.domain, config=job.config, rng=stream(job.seed, "start"))
        stated: dict[int, list[Charge]] = {client: [] for client in nodes}
        for number, (draw, share) in enumerate(job.schedule()):
            clients = job.participants(draw, share)
            # once: every client gets the same bytes
            packed = pack(public(job.method.broadcast(state, config=job.config)))
            updates = asking.step(number, packed, clients, job.sizes, masks)
            with asking.refusing(number):
                updates = masks.opened(
                    updates, clients=clients, round=number, ask=asking.masks(number)
                )
            state, charges = job.served(state, updates, number)
            outcome.charges += charges
            for update in updates:
                stated[update.client] += update.summed_spent
            if job.method.TRUST == "secure sum":
                check_stated(stated, outcome.charges, number)
            after_round(number, outcome.charges)
            if np.any(state.get("finished", False)):
                break
        outcome.state = public(state)

    return app


def check_stated(
    stated: Mapping[int, Sequence[Charge]], charges: Sequence[Charge], number: int
) -> None:
    """Raise RuntimeError if clients gave more to secure sums than the statement would say.

    A client gave more if it states a release more often than the run has charged it. Other noise
    makes another release.

    stated: of each client, over all rounds so far.
    charges: of the run so far.
    """

    def count(found: Iterable[Charge]) -> Counter:
        times: Counter = Counter()
        for each in found:
            # two ways to compute the same number may differ by rounding
            times[each.what, each.mechanism, f"{each.noise:.6g}", each.sensitivity] += each.times
        return times

    of_sums = count(charge for charge in charges if charge.client is None)
    for client, own in stated.items():
        if more := count(own) - of_sums:
            raise RuntimeError(
                f"round {number + 1}: client {client} has released {min(more)[0]!r} more often, or "
                "with other noise, than the statement would say; the run is refused"
            )


@dataclass
class Asking:
    """The server's questions to clients of a run.

    gone: the clients that are asked no more, and why.
    """

    grid: Grid
    nodes: dict[int, int]
    run: int
    outcome: Outcome
    timeout: float | None
    prove: Proof
    gone: dict[int, BadAnswer] = field(default_factory=dict)

    def step(
        self,
        number: int,
        state: ArrayRecord,
        clients: list[int],
        sizes: tuple[int, ...] | None,
        masks: Opening,
    ) -> list[Update]:
        """Return the clients' updates in order of their index.

        Raises RuntimeError if more clients are missing than the masks can do without.
        """

        def read(client: int, content: RecordDict) -> Update:
            size = -1 if sizes is None else sizes[client]
            return update_of(
                content,
                client=client,
                clients=clients,
                size=size,
                smallest=masks.smallest,
                finite=masks.finite,
            )

        job = ConfigRecord({"round": number, "clients": clients})
        questions = {client: RecordDict({"state": state, "job": job}) for client in clients}
        updates = self.ask(STEP, questions, number, read)
        for client, why in misfits(updates, clients).items():
            self.refuse(number, client, why)
            del updates[client]
        missing = {client: self.gone[client] for client in clients if client not in updates}
        if len(missing) > masks.absent:
            # the noise shares and masks of absent clients would be missing from every sum
            raise RuntimeError(
                f"round {number + 1}: {_reasons(missing)}; the run can do without {masks.absent} "
                f"of its {len(clients)} clients, and is refused"
            )
        return [updates[client] for client in sorted(updates)]

    def masks(self, number: int) -> Callable[..., dict[int, Arrays]]:
        """Return how the masks ask clients in this round, as `federation.masks.Ask`."""

        def ask(phase: str, questions: Mapping[int, Arrays], check: Check) -> dict[int, Arrays]:
            def read(client: int, content: RecordDict) -> Arrays:
                arrays = arrays_of(content, "arrays")
                check(client, arrays)
                return arrays

            job = ConfigRecord({"round": number, "phase": phase})
            contents = {
                client: RecordDict({"arrays": pack(in_one(arrays)), "job": job})
                for client, arrays in questions.items()
            }
            return self.ask(MASKS, contents, number, read)

        return ask

    def ask(
        self,
        kind: str,
        questions: Mapping[int, RecordDict],
        number: int,
        read: Callable[[int, RecordDict], Answer],
    ) -> dict[int, Answer]:
        """Return what `read` makes of the answers, by client.

        A client whose answer is missing or refused is left out and is asked no more.
        """
        asked = [client for client in questions if client not in self.gone]
        messages = {
            client: Message(
                questions[client],
                message_type=kind,
                dst_node_id=self.nodes[client],
                group_id=str(number),
            )
            for client in asked
        }
        replies: dict[int, list[Message]] = {client: [] for client in asked}
        nobodys = ""  # the SuperLink does not say whose message it could not deliver
        for reply in self.grid.send_and_receive(list(messages.values()), timeout=self.timeout):
            whose = [client for client in asked if _is_reply(reply, messages[client])]
            for client in whose:
                replies[client].append(reply)
            if reply.has_error() and not whose:
                nobodys = reply.error.reason
        found = {}
        for client in asked:
            try:
                reply = _only(replies[client], nobodys)
                self.prove(client, reply)
                content = reply.content
                check_sender(content, client=client, run=self.run, round=number)
                found[client] = read(client, content)
            except BadAnswer as why:
                self.refuse(number, client, why)
            else:
                self.outcome.traffic += _traffic(number, "up", content.array_records, [client])
        for client in asked:
            records = questions[client].array_records
            self.outcome.traffic += _traffic(number, "down", records, [client])
        return found

    def refuse(self, number: int, client: int, why: BadAnswer) -> None:
        """Note that a client's answer was refused, and why; the client is asked no more."""
        self.gone[client] = why
        line = {"round": number, "client": client, "code": why.code, "why": why.why}
        self.outcome.refused.append(line)

    @contextmanager
    def refusing(self, number: int) -> Iterator[None]:
        """End the run with a RuntimeError if masks cannot be agreed on or opened."""
        try:
            yield
        except BadAnswer as error:
            when = "before the first round" if number == BEFORE else f"round {number + 1}"
            reasons = f": {_reasons(self.gone)}" if self.gone else ""
            raise RuntimeError(f"{when}: {error}; the run is refused{reasons}") from None


def _is_reply(reply: Message, message: Message) -> bool:
    """Whether a reply answers this message.

    An answer comes from the node that was asked. An error may come from the SuperLink, so it must
    name the message.
    """
    if reply.has_error():
        return reply.metadata.reply_to_message_id == message.metadata.message_id
    return reply.metadata.src_node_id == message.metadata.dst_node_id


def _only(replies: list[Message], otherwise: str) -> Message:
    """Return a client's one answer.

    Raises BadAnswer if there is none, more than one, or an error.

    otherwise: an error that names no client; it is the reason if there is no answer.
    """
    if not replies and otherwise:
        raise BadAnswer("failed", otherwise)
    if not replies:
        raise BadAnswer("late", "no answer")
    if len(replies) > 1:
        raise BadAnswer("twice", f"{len(replies)} answers")
    if replies[0].has_error():
        raise BadAnswer("failed", replies[0].error.reason)
    return replies[0]


def _reasons(refused: Mapping[int, BadAnswer]) -> str:
    return "; ".join(f"client {client}: {refused[client]}" for client in sorted(refused))


def public(state: Arrays) -> Arrays:
    """Return the state without what never leaves the server."""
    return {name: values for name, values in state.items() if not name.startswith(SECRET)}


def nodes_of_clients(
    grid: Grid, nodes: list[int], timeout: float | None = None, prove: Proof = lambda *_: None
) -> dict[int, int]:
    """Return client -> its node.

    Each node says which partition it holds, since node ids are in no order. Raises RuntimeError if
    the nodes do not hold the partitions 0, 1, ... once each, and BadAnswer if one cannot prove it.
    """
    asked = [Message(RecordDict(), message_type=WHO, dst_node_id=node) for node in nodes]
    found = {}
    for reply in grid.send_and_receive(asked, timeout=timeout):
        if reply.has_error():
            raise RuntimeError(f"a node cannot say which partition it holds: {reply.error.reason}")
        client = int(reply.content["about"]["client"])
        prove(client, reply)
        found[client] = reply.metadata.src_node_id
    if sorted(found) != list(range(len(nodes))):
        raise RuntimeError(
            f"{len(nodes)} nodes hold the partitions {sorted(found)}; each must "
            "hold one of its own."
        )
    return found


def wait_for_nodes(grid: Grid, num_clients: int, timeout: float = MOST_WAIT) -> list[int]:
    """Return the node ids once all clients are there.

    To start before that would drop clients silently. Raises TimeoutError if they are not there in
    time.
    """
    end = time.monotonic() + timeout
    while len(nodes := sorted(grid.get_node_ids())) < num_clients:
        if time.monotonic() > end:
            raise TimeoutError(
                f"{len(nodes)} of {num_clients} clients connected within {timeout:g} s"
            )
        time.sleep(0.1)
    return nodes[:num_clients]


def _traffic(
    number: int, direction: str, records: Mapping[str, ArrayRecord], clients: Iterable[int]
) -> list[dict]:
    """Return one line for each client and kind of content that holds any bytes."""
    sizes = {kind: record.count_bytes() for kind, record in records.items()}
    return [
        {"round": number, "client": client, "direction": direction, "kind": kind, "bytes": size}
        for client in clients
        for kind, size in sizes.items()
        if size
    ]


class LocalGrid(Grid):
    """Flower's Grid in this process.

    Messages go straight to the ClientApp, and exceptions come straight back.

    Here the server is the developer who holds all rows, so an error comes as it is, not as what a
    client would send. Each client keeps one Context, so its memory lasts as it would at a
    SuperNode. Arrays cross as serialised bytes, hence no client can change the server's copy.
    """

    def __init__(self, app: ClientApp, num_clients: int):
        TaskIdentity.task_id = TaskIdentity.run_id = TaskIdentity.node_id = LOCAL_RUN
        self._app = app
        self._replies: dict[str, Message] = {}
        self._contexts = {
            index + 1: Context(
                run_id=LOCAL_RUN,
                node_id=index + 1,
                node_config={"partition-id": index, "num-partitions": num_clients},
                state=RecordDict(),
                run_config={},
            )
            for index in range(num_clients)
        }

    def set_run(self, run: Any) -> None:
        """Raise RuntimeError: this grid has one run, which is always the same."""
        raise RuntimeError("the in-process grid has one run, which is always the same")

    @property
    def run(self) -> Any:
        """Not available here: it raises RuntimeError, as `set_run` does."""
        raise RuntimeError("the in-process grid has one run, which is always the same")

    def create_message(self, content, message_type, dst_node_id, group_id, ttl=None) -> Message:
        """Make a message to a node."""
        return Message(
            content, dst_node_id=dst_node_id, message_type=message_type, group_id=group_id, ttl=ttl
        )

    def get_node_ids(self) -> Iterable[int]:
        """Return the ids of all nodes."""
        return list(self._contexts)

    def push_messages(self, messages: Iterable[Message]) -> Iterable[str]:
        """Let the ClientApp answer each message at once; return the messages' ids."""
        ids = []
        for message in messages:
            key = str(uuid4())
            # has no setter; Flower's own grids do the same
            message.metadata.__dict__["_message_id"] = key
            try:
                self._replies[key] = self._app(
                    message, self._contexts[message.metadata.dst_node_id]
                )
            except Refused as refused:
                raise refused.__cause__ or refused from None
            ids.append(key)
        return ids

    def pull_messages(self, message_ids: Iterable[str]) -> Iterable[Message]:
        """Return the answers to these messages."""
        return [self._replies.pop(key) for key in message_ids if key in self._replies]

    def send_and_receive(
        self, messages: Iterable[Message], *, timeout: float | None = None
    ) -> Iterable[Message]:
        """Send messages, and return their answers."""
        return self.pull_messages(self.push_messages(messages))


def run_in_process(server: ServerApp, client: ClientApp, num_clients: int) -> None:
    """Run the apps to their end in this process, without Ray and without a server."""
    context = Context(
        run_id=LOCAL_RUN, node_id=0, node_config={}, state=RecordDict(), run_config={}
    )
    server(LocalGrid(client, num_clients), context)


def run_with_ray(
    server: ServerApp, client: ClientApp, num_clients: int, *, cpus_per_client: int = 1
) -> None:
    """Run the same apps under Flower's simulation engine, each client in a Ray actor.

    Ray's workers do not write into the caller's output; a client's error still ends the run.
    """
    # Ray's own advice against its warning
    os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")
    from flwr.simulation import run_simulation

    backend = {
        "client_resources": {"num_cpus": cpus_per_client, "num_gpus": 0.0},
        "init_args": {"log_to_driver": False},
    }
    run_simulation(
        server_app=server, client_app=client, num_supernodes=num_clients, backend_config=backend
    )
