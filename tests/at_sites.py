"""The evaluation at the sites with all of them in this process, against which that over a network is
held."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

import pandas as pd

from fedsynth_lib.core.accounting import check_budget
from fedsynth_lib.core.contract import Charge, Privacy
from fedsynth_lib.core.ledger import Total
from fedsynth_lib.federation import flower
from fedsynth_lib.federation.settings import RUNTIMES
from fedsynth_lib.release.deploy import evaluation
from fedsynth_lib.tables.schema import Schema


def evaluate_sites(
    sites: Mapping[str, pd.DataFrame],
    synthetic: pd.DataFrame,
    schema: Schema,
    privacy: Privacy,
    *,
    config: evaluation.Config | None = None,
    published: Sequence[str] = (),
    sizes: Sequence[int] | None = None,
    seed: int = 0,
    runtime: str = "in_process",
    trained: float | None = None,
    other_people: bool = True,
) -> evaluation.Evaluation:
    """Evaluates synthetic rows at the sites, through the same apps that run behind a server.

    sites: name -> held-out rows of the schema's columns, which need not keep to it.
    privacy: of the evaluation; epsilon None counts without noise, for rehearsals and tests.
    published: names of sites that show their own figures as well.
    sizes: as declared; None takes the true numbers.
    trained: epsilon of the run that made the synthetic rows. other_people: whether its rows were
        others than these, so that the two do not add up.
    """
    names = list(sites)
    config = evaluation.config_for(schema) if config is None else config
    config = replace(config, published=tuple(names.index(name) for name in published))
    held = [len(rows) for rows in sites.values()]
    job = evaluation.job_for(
        schema,
        privacy,
        held if sizes is None else sizes,
        synthetic=synthetic,
        config=config,
        seed=seed,
        names=names,
    )
    encode = evaluation.encoder(schema, config)
    rows = [encode.transform(frame) for frame in sites.values()]
    outcome = flower.Outcome()

    def refuse_overspending(number: int, charges: list[Charge]) -> None:
        check_budget(charges, privacy, when=f"by round {number}")

    server = flower.server_app(job, outcome, refuse_overspending)
    client = flower.client_app(job, lambda index: rows[index])
    RUNTIMES[runtime](server, client, job.num_clients)
    return evaluation.evaluated(
        job,
        outcome,
        names=names,
        trained=trained and Total(1, trained, 0.0),
        other_people=other_people,
    )
