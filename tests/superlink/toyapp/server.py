"""The ServerApp: it runs the plan and saves what comes out, or does what must end a run."""

import pickle
import time
from contextlib import suppress
from pathlib import Path

from flwr.app import Context
from flwr.serverapp import Grid, ServerApp

from fedsynth_lib.core.contract import stream
from fedsynth_lib.core.statement import statement
from fedsynth_lib.federation import flower
from toyapp.job import CLIENTS, ROWS, SEED, config, encoder, flaim, job, privacy

app = ServerApp()


class Forgotten(Exception):
    """Ends the first try of `starts_over`."""


@app.main()
def main(grid: Grid, context: Context) -> None:
    """As run-config `server` says."""
    ways = {"as planned": as_planned, "starts over": starts_over, "loses a client": loses_a_client}
    ways[context.run_config["server"]](grid, context)


def as_planned(grid: Grid, context: Context) -> None:
    """The plan from its first round to its last, then what `settings.federated` makes of it."""
    outcome = flower.Outcome()
    flower.server_app(job, outcome)(grid, context)
    codes = flaim.sample(outcome.state, ROWS, config=config, rng=stream(SEED, "sample"))
    said = statement(
        outcome.charges,
        privacy,
        method="flaim",
        adversary=flaim.ADVERSARY,
        trust=flaim.TRUST,
        num_rows=ROWS,
        num_clients=CLIENTS,
    )
    saved = encoder.inverse(codes, rng=stream(SEED, "decode")), said, outcome.traffic
    Path(context.run_config["saved"]).write_bytes(pickle.dumps(saved))


def starts_over(grid: Grid, context: Context) -> None:
    """The plan up to its first round, then all of it, as a server that has forgotten would."""

    def forget(number, charges):
        raise Forgotten

    with suppress(Forgotten):
        flower.server_app(job, flower.Outcome(), forget)(grid, context)
    flower.server_app(job, flower.Outcome())(grid, context)


def loses_a_client(grid: Grid, context: Context) -> None:
    """After the first round it waits until one of the nodes is gone, and goes on."""

    def wait(number, charges, seconds=100):
        end = time.monotonic() + seconds
        while len(list(grid.get_node_ids())) == CLIENTS and time.monotonic() < end:
            time.sleep(0.1)

    flower.server_app(job, flower.Outcome(), wait)(grid, context)
