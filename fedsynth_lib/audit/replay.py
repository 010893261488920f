"""The same round asked of a client again and again: what a server that does not keep to the
protocol can do."""

import numpy as np
from flwr.app import ConfigRecord, Message, RecordDict

from fedsynth_lib.core.contract import Arrays, stream
from fedsynth_lib.federation import flower


def answers(job: flower.Job, rows: np.ndarray, times: int) -> list[Arrays]:
    """What client 0, alone in round 0, answers to the first message, sent so many times; ends where
    it refuses."""
    grid = flower.LocalGrid(flower.client_app(job, lambda index: rows), 1)
    (node,) = grid.get_node_ids()
    state = job.method.start(job.domain, config=job.config, rng=stream(job.seed, "start"))
    broadcast = getattr(job.method, "broadcast", lambda state, config: state)
    packed = flower.pack(flower.public(broadcast(state, config=job.config)))
    found = []
    for _ in range(times):
        asked = RecordDict({"state": packed, "job": ConfigRecord({"round": 0, "clients": [0]})})
        try:
            (reply,) = grid.send_and_receive(
                [Message(asked, message_type=flower.STEP, dst_node_id=node)]
            )
        except flower.Refused:
            break
        sums = {
            name: v.view(np.int64) for name, v in flower.unpack(reply.content["summed"]).items()
        }
        found.append(flower.unpack(reply.content["arrays"]) | sums)
    return found
