"""The same round asked of a client again and again: what a server that does not keep to the protocol can do."""

import numpy as np
from flwr.app import ConfigRecord, Message, RecordDict

from fedsynth_lib import flower_app
from fedsynth_lib.interface import Arrays, stream


def answers(job: flower_app.Job, rows: np.ndarray, times: int) -> list[Arrays]:
    """What client 0, alone in round 0, answers to the first message, sent so many times; ends where it refuses."""
    grid = flower_app.LocalGrid(flower_app.client_app(job, lambda index: rows), 1)
    (node,) = grid.get_node_ids()
    state = job.method.start(job.domain, config=job.config, rng=stream(job.seed, "start"))
    broadcast = getattr(job.method, "broadcast", lambda state, config: state)
    packed = flower_app.pack(flower_app.public(broadcast(state, config=job.config)))
    found = []
    for _ in range(times):
        asked = RecordDict({"state": packed, "job": ConfigRecord({"round": 0, "clients": [0]})})
        try:
            (reply,) = grid.send_and_receive([Message(asked, message_type=flower_app.STEP, dst_node_id=node)])
        except flower_app.Refused:
            break
        sums = {name: v.view(np.int64) for name, v in flower_app.unpack(reply.content["summed"]).items()}
        found.append(flower_app.unpack(reply.content["arrays"]) | sums)
    return found
