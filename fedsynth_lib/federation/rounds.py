"""The rounds of a run by a method's verbs alone, in a fraction of the time of messages.

They are for audits, which make thousands of runs, and to look at what a run keeps to itself. With
the same draws they are equal to the rounds of the apps; a test compares them for every method.
Masks are left out, because they cancel in the sums.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from fedsynth_lib.core import secure_sum
from fedsynth_lib.core.contract import Arrays, Charge, Update, stream
from fedsynth_lib.federation.flower import Job, public


class Round(NamedTuple):
    """What happened in one round.

    sent: what clients were sent.
    updates: what the server got from each client.
    state: the server's state afterwards, with what it keeps secret.
    charges: what the round cost.
    """

    sent: Arrays
    updates: list[Update]
    state: Arrays
    charges: list[Charge]


def run_rounds(job: Job, rows: Sequence[np.ndarray]) -> Iterator[Round]:
    """Run one round after the other.

    rows: each client's encoded rows (num_rows, columns).
    """
    state = job.method.start(job.domain, config=job.config, rng=stream(job.seed, "start"))
    memories: list[Arrays] = [{} for _ in rows]
    for number, (draw, share) in enumerate(job.schedule()):
        clients, updates = job.participants(draw, share), []
        sent = public(job.method.broadcast(state, config=job.config))
        job.check(copied(sent), number)
        for index in clients:
            client = job.client(rows[index], index, len(clients), memories[index])
            updates.append(received(job.answered(copied(sent), client, number)))
        state, charges = job.served(state, updates, number)
        yield Round(sent, updates, state, charges)
        if np.any(state.get("finished", False)):
            return


def received(update: Update) -> Update:
    """Return an update as its server gets it, but without a wire and masks."""
    summed = {name: secure_sum.whole(name, values) for name, values in update.summed.items()}
    return replace(update, arrays=copied(update.arrays), summed=summed)


def copied(arrays: Arrays) -> Arrays:
    """Return copies, as arrays arrive on the other side of a wire.

    Nobody can change the sender's arrays through them.
    """
    return {name: np.array(values, order="C") for name, values in arrays.items()}
