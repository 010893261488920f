"""The methods as Flower apps, and an in-process grid to run them without a server.

`client_app` and `server_app` wrap any method; the same two apps run in process
(`LocalGrid`), under Ray (`run_with_ray`), and behind a SuperLink. What crosses the wire
is the state (down) and an Update (up); both are counted by their bytes, by kind, round and client.
"""

import json
import os
import time
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass, field
from typing import Any
from uuid import uuid4

import numpy as np
from flwr.app import ArrayRecord, ConfigRecord, Context, Message, RecordDict
from flwr.app.message.array import Array
from flwr.clientapp import ClientApp
from flwr.serverapp import Grid, ServerApp
from flwr.supercore.task_identity import TaskIdentity  # not public API; used in this file only

from fedsynth_lib.core import secure_sum
from fedsynth_lib.core.contract import (
    SECRET,
    Arrays,
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

STEP, WHO = "query.client_step", "query.partition"
RAW = "raw"  # C-ordered bytes, in the byte order that the dtype names
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
        object.__setattr__(self, "method", Method.of(self.method))

    @property
    def secret(self) -> bool:
        """Whether all that touches rows is drawn from the operating system, which nobody else can
        repeat."""
        return self.privacy.noise_seed is None

    def stream(self, *path: int | str) -> np.random.Generator:
        """What a client draws that is no noise: latent vectors, batches, conditions. In a release
        as secret as noise.

        Rows meet these draws in order. Were they known, one row less would give every later row
        another draw, and the sum over rows would move by far more than one row does.
        """
        return np.random.default_rng() if self.secret else stream(self.seed, *path)

    def noise(self, *path: int | str) -> Noise | None:
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
        """A client as `client_step` sees it in a round of so many."""
        size = -1 if self.sizes is None else self.sizes[index]
        return Client(rows, index, num_clients, memory, size, self.privacy.shares(num_clients))

    def schedule(self) -> list[tuple[int, float]]:
        """(draw, share of clients) of every round."""
        return list(self.method.schedule(self.domain, self.config))

    def participants(self, draw: int, share: float) -> list[int]:
        """The clients of a draw, each in it with probability `share`; drawn again if nobody is."""
        rng = stream(self.seed, "participants", draw)
        while True:
            chosen = np.flatnonzero(rng.random(self.num_clients) < share).tolist()
            if chosen:
                return chosen


@dataclass
class Outcome:
    """Filled by the server app while it runs."""

    state: Arrays = field(default_factory=dict)
    charges: list[Charge] = field(default_factory=list)
    traffic: list[dict] = field(default_factory=list)  # round, client, direction, kind, bytes

    def bytes(self, direction: str) -> int:
        return sum(line["bytes"] for line in self.traffic if line["direction"] == direction)


def pack(arrays: Arrays) -> ArrayRecord:
    """Arrays as bytes in a Flower record; plain bytes, which take a tenth of the time of Flower's
    npy files."""
    return ArrayRecord(
        array_dict={
            name: Array(
                dtype=values.dtype.str, shape=values.shape, stype=RAW, data=values.tobytes()
            )
            for name, values in arrays.items()
        }
    )


def unpack(record: ArrayRecord) -> Arrays:
    """New, writable arrays from a packed record."""
    return {
        name: np.frombuffer(a.data, a.dtype).reshape(a.shape).copy() for name, a in record.items()
    }


def client_app(
    job: Job, load_rows: Callable[[int], np.ndarray], ledger: ClientLedger | None = None
) -> ClientApp:
    """The ClientApp of a job; `load_rows(index)` gives the encoded rows of client `index`, in its
    own process.

    It answers every round of the job's schedule once, with the clients that the schedule draws, and
    nothing else, whatever the server asks. An error leaves it as its class and, if it speaks of
    rows, as a sentence without a value.
    ledger: where this client keeps what it has answered and spent, over restarts, and what it is
        willing to spend.
    """
    app = ClientApp()
    schedule = [job.participants(*entry) for entry in job.schedule()]

    @app.query("partition")
    def partition(message: Message, context: Context) -> Message:
        about = ConfigRecord({"client": int(context.node_config["partition-id"])})
        return Message(RecordDict({"about": about}), reply_to=message)

    @app.query("client_step")
    def client_step(message: Message, context: Context) -> Message:
        try:
            return answer(message, context)
        except Refused:
            raise
        # the cause stays here: Flower sends the text of the outermost error alone
        except Exception as error:
            raise Refused(told(error)) from error

    def answer(message: Message, context: Context) -> Message:
        index, number = (
            int(context.node_config["partition-id"]),
            int(message.content["job"]["round"]),
        )
        clients = list(message.content["job"]["clients"])
        last = int(context.state["answered"]["last"]) if "answered" in context.state else -1
        check_request(schedule, last, index, number, clients)
        context.state["answered"] = ConfigRecord({"last": number})
        if ledger is not None:
            ledger.begin(job, index, run=message.metadata.run_id, number=number)
        memory = unpack(context.state["memory"]) if "memory" in context.state else {}
        client = job.client(load_rows(index), index, len(clients), memory)
        update = job.method.client_step(
            unpack(message.content["state"]),
            client,
            config=job.config,
            noise=job.noise("client", index, number),
            rng=job.stream("client", index, number),
        )
        context.state["memory"] = pack(client.memory)
        seed = job.seed if job.mask_seed is None else job.mask_seed
        masked = secure_sum.mask(
            update.summed,
            client=index,
            clients=clients,
            round=number,
            seed=seed,
            groups=update.groups,
        )
        charges = stamp(update.spent, round=number, client=index)
        if ledger is not None:
            ledger.spend(charges, job.privacy, run=message.metadata.run_id)
        about = {
            "client": index,
            "num_rows": client.size,
            "spent": json.dumps([asdict(each) for each in charges]),
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
    """Refuses what the schedule does not have, so that no server gets more out of a client than the
    plan has paid for.

    A round twice is two draws of noise about the same rows. Other clients than planned are another
    share of the noise, and masks of a sum that might have one member only.
    schedule: the clients of every round. last: the last round that this client answered, -1 before
        the first.
    """
    if not 0 <= number < len(schedule):
        raise Refused(
            f"client {index}: round {number} is beyond the {len(schedule)} rounds of the plan."
        )
    if number <= last:
        raise Refused(
            f"client {index}: round {number} was answered or left out before, and is answered once."
        )
    if clients != schedule[number] or index not in clients:
        raise Refused(
            f"client {index}: round {number} is asked of other clients than the plan has drawn."
        )


def told(error: Exception) -> str:
    """What others may know of an error at a client: its class and, of rows that do not fit, which
    column it is."""
    about = error.told if isinstance(error, BadRows) else ""
    return f"{type(error).__name__}: {about}" if about else type(error).__name__


def server_app(
    job: Job, outcome: Outcome, after_round: Callable[[int, list[Charge]], None] = lambda *_: None
) -> ServerApp:
    """The ServerApp of a job; it fills `outcome` and calls `after_round(round, all charges so
    far)`."""
    app = ServerApp()

    @app.main()
    def main(grid: Grid, context: Context) -> None:
        nodes = nodes_of_clients(grid, wait_for_nodes(grid, job.num_clients))
        state = job.method.start(job.domain, config=job.config, rng=stream(job.seed, "start"))
        for number, (draw, share) in enumerate(job.schedule()):
            clients = job.participants(draw, share)
            # once: every client gets the same bytes
            packed = pack(public(job.method.broadcast(state, config=job.config)))
            messages = [
                Message(
                    RecordDict(
                        {
                            "state": packed,
                            "job": ConfigRecord({"round": number, "clients": clients}),
                        }
                    ),
                    message_type=STEP,
                    dst_node_id=nodes[client],
                    group_id=str(number),
                )
                for client in clients
            ]
            updates = _receive(grid.send_and_receive(messages), clients, outcome, number)
            outcome.traffic += _traffic(number, "down", {"state": packed}, clients)
            state, charges = job.method.server_step(
                state,
                updates,
                config=job.config,
                noise=job.noise("server", number),
                rng=stream(job.seed, "server", number),
            )
            outcome.charges += [charge for update in updates for charge in update.spent]
            outcome.charges += stamp(charges, round=number)
            after_round(number, outcome.charges)
            if np.any(state.get("finished", False)):
                break
        outcome.state = public(state)

    return app


def public(state: Arrays) -> Arrays:
    """The state without what never leaves the server."""
    return {name: values for name, values in state.items() if not name.startswith(SECRET)}


def nodes_of_clients(grid: Grid, nodes: list[int]) -> dict[int, int]:
    """Client -> its node: each says which partition it holds, since node ids are in no order.

    Raises RuntimeError where the nodes do not hold the partitions 0, 1, ... once each.
    """
    asked = [Message(RecordDict(), message_type=WHO, dst_node_id=node) for node in nodes]
    found = {}
    for reply in grid.send_and_receive(asked):
        if reply.has_error():
            raise RuntimeError(f"a node cannot say which partition it holds: {reply.error.reason}")
        found[int(reply.content["about"]["client"])] = reply.metadata.src_node_id
    if sorted(found) != list(range(len(nodes))):
        raise RuntimeError(
            f"{len(nodes)} nodes hold the partitions {sorted(found)}; each must "
            "hold one of its own."
        )
    return found


def wait_for_nodes(grid: Grid, num_clients: int, timeout: float = 120.0) -> list[int]:
    """Node ids once all clients are there: a start before that would drop clients silently."""
    end = time.monotonic() + timeout
    while len(nodes := sorted(grid.get_node_ids())) < num_clients:
        if time.monotonic() > end:
            raise TimeoutError(
                f"{len(nodes)} of {num_clients} clients connected within {timeout:g} s"
            )
        time.sleep(0.1)
    return nodes[:num_clients]


def _receive(
    replies: Iterable[Message], clients: list[int], outcome: Outcome, number: int
) -> list[Update]:
    """The clients' updates in order of their index; a missing or failed client stops the run."""
    updates = {}
    for reply in replies:
        if reply.has_error():
            raise RuntimeError(f"round {number}: a client failed: {reply.error.reason}")
        about = reply.content["about"]
        index = int(about["client"])
        spent = [Charge(**charge) for charge in json.loads(about["spent"])]
        arrays, summed = reply.content["arrays"], reply.content["summed"]
        updates[index] = Update(
            unpack(arrays),
            unpack(summed),
            num_rows=int(about["num_rows"]),
            spent=spent,
            client=index,
        )
        outcome.traffic += _traffic(number, "up", {"arrays": arrays, "summed": summed}, [index])
    if missing := set(clients) - set(updates):
        # the noise shares and masks of absent clients would be missing from every sum
        raise RuntimeError(
            f"round {number}: no answer from clients {sorted(missing)}; the run is refused"
        )
    return [updates[index] for index in sorted(updates)]


def _traffic(
    number: int, direction: str, records: dict[str, ArrayRecord], clients: Iterable[int]
) -> list[dict]:
    """One line for each client and kind of content that holds any bytes."""
    sizes = {kind: record.count_bytes() for kind, record in records.items()}
    return [
        {"round": number, "client": client, "direction": direction, "kind": kind, "bytes": size}
        for client in clients
        for kind, size in sizes.items()
        if size
    ]


class LocalGrid(Grid):
    """Flower's Grid in this process: messages go straight to the ClientApp, exceptions come
    straight back.

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
        raise RuntimeError("the in-process grid has one run, which is always the same")

    @property
    def run(self) -> Any:
        raise RuntimeError("the in-process grid has one run, which is always the same")

    def create_message(self, content, message_type, dst_node_id, group_id, ttl=None) -> Message:
        return Message(
            content, dst_node_id=dst_node_id, message_type=message_type, group_id=group_id, ttl=ttl
        )

    def get_node_ids(self) -> Iterable[int]:
        return list(self._contexts)

    def push_messages(self, messages: Iterable[Message]) -> Iterable[str]:
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
        return [self._replies.pop(key) for key in message_ids if key in self._replies]

    def send_and_receive(
        self, messages: Iterable[Message], *, timeout: float | None = None
    ) -> Iterable[Message]:
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
