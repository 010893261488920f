"""Masks by key agreement: the sums of the simulation, with a client less too, and nothing else."""

from dataclasses import replace

import numpy as np
import pytest
from cryptography.hazmat.primitives.asymmetric import ec
from flwr.app import Context, RecordDict
from test_methods import broken

from fedsynth_lib.core import secure_sum
from fedsynth_lib.core.contract import Domain, Privacy, Update
from fedsynth_lib.deploy import masks
from fedsynth_lib.federation import flower
from fedsynth_lib.methods.marginals import independent

KEYS = [ec.generate_private_key(ec.SECP256R1()) for _ in range(6)]
DOMAIN = Domain(("x",), (2,))


def job_of(num_clients=5, rounds=2, method=independent, **privacy):
    config = independent.Config(rounds=rounds)
    asked = Privacy(noise_seed="run", **privacy)
    return flower.Job(method, config, DOMAIN, None, 1, num_clients, asked)


def agreement_of(job, **options):
    sites = [key.public_key() for key in KEYS[: job.num_clients]]
    return masks.Agreement(job, sites, "a study", **options)


class Each:
    """In one process: every client has masks of its own."""

    def __init__(self, agreement):
        self.each = [masks.ClientMasks(agreement, key) for key in KEYS]

    def mask(self, arrays, *, client, **options):
        return self.each[client].mask(arrays, client=client, **options)

    def reply(self, phase, question, *, client, **options):
        return self.each[client].reply(phase, question, client=client, **options)


def run(job, grid=flower.LocalGrid, rows=None, **options):
    agreement = agreement_of(job, **options)
    rows = rows or [np.full((10 * k + 1, 1), k % 2) for k in range(job.num_clients)]
    client = flower.client_app(job, lambda index: rows[index], masks=Each(agreement))
    outcome = flower.Outcome()
    server = flower.server_app(job, outcome, masks=masks.ServerMasks(agreement))
    context = Context(flower.LOCAL_RUN, 0, {}, RecordDict(), {})
    server(grid(client, job.num_clients), context)
    return outcome


def test_simple():
    outcome = run(job_of())
    assert outcome.state["counts"].tolist() == [2 * (1 + 21 + 41), 2 * (11 + 31)]
