"""The ClientApp of a site, with its own rows, key, masks and ledger; and a ServerApp that lies."""

from dataclasses import replace
from pathlib import Path

import numpy as np
from flwr.app import Context
from flwr.serverapp import Grid, ServerApp

from fedsynth_lib.core import secure_sum
from fedsynth_lib.core.ledger import ClientLedger
from fedsynth_lib.release.deploy import apps, keys
from fedsynth_lib.release.deploy.place import Place
from fedsynth_lib.release.deploy.study import load_site, read_study

MANY = 2**20
LIES = {  # what of the arrays that the plan has is sent instead
    "each chosen table a million times": lambda sent: (
        {"repeats": np.full_like(sent["repeats"], MANY)} if "repeats" in sent else {}
    ),
    "the second sum in the first round": lambda sent: {
        "round": np.array(1),
        "chosen": np.array([[0, 1], [0, 2], [1, 2]], np.int16),
        "repeats": np.full(3, MANY),
    },
    "columns by other names": lambda sent: {"order": sent["order"] - 3} if "order" in sent else {},
    "a level less": lambda sent: {"levels": sent["levels"] - np.eye(3, dtype=int)[0]},
    "one column for all": lambda sent: {"levels": sent["levels"][None]},
    "two columns of three": lambda sent: {"levels": sent["levels"][:2]},
}


def find(context: Context) -> Place:
    folder, index = Path(context.run_config["folder"]), int(context.node_config["partition-id"])
    study = read_study(folder / context.run_config["study"])
    name = study.sites[index].name
    table = load_site(study, name, folder / f"{name}.csv")
    key = keys.private_key(folder / name / keys.NODE_KEY)
    return Place(study, index, table, key, ledger_of(name, context.run_config["saved"]))


def ledger_of(site: str, saved: str | Path) -> ClientLedger:
    """Of a site, beside what the server has saved."""
    return ClientLedger(Path(saved).with_name(f"{site}.jsonl"))


client = apps.SiteApp(find)
server = ServerApp()


@server.main()
def main(grid: Grid, context: Context) -> None:
    """The study's run, in which the lie takes the place of what is sent."""
    study = read_study(Path(context.run_config["folder"]) / context.run_config["study"])
    job, lie = study.plan.job, LIES[context.run_config["lie"]]
    honest, kept = job.method, {"rounds": np.array(0)}

    def broadcast(state, config):
        sent = honest.broadcast(state, config=config)
        return {**sent, **lie(sent)}

    def server_step(state, updates, config, noise, rng):
        for name, values in secure_sum.total(updates).items():
            kept[f"{kept['rounds']}/{name}"] = values
        kept["rounds"] += 1
        np.savez(context.run_config["saved"], **state, **kept)
        return honest.server_step(state, updates, config=config, noise=noise, rng=rng)

    lying = replace(honest, broadcast=broadcast, server_step=server_step)
    apps.run_job(study, replace(job, method=lying), [], grid, context, insecure=False)
