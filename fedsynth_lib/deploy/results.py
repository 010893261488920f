"""What comes out of a study: synthetic rows, and what must be said of them, as `fedsynth synth`
writes them."""

import json
from pathlib import Path

from fedsynth_lib.core.contract import Run
from fedsynth_lib.core.statement import statement_text
from fedsynth_lib.core.store import write_atomically
from fedsynth_lib.core.summary import Release
from fedsynth_lib.deploy import evaluation
from fedsynth_lib.deploy.study import Study
from fedsynth_lib.federation import saved
from fedsynth_lib.federation.flower import Job, Outcome
from fedsynth_lib.federation.settings import CLAMPED, PUBLIC, statement_of
from fedsynth_lib.tables.container import Container
from fedsynth_lib.tables.load import Table
from fedsynth_lib.teaching import your_table

ADVERSARY = (
    "whoever sees the synthetic rows, and the server, whatever it does, together with at most "
    "{colluding} of the {sites} sites: sums are opened by the sites alone, with masks of keys that "
    "they have agreed on (X25519, ChaCha20)"
)
REHEARSED = "nobody who knows the seed, as all parties do: a rehearsal"


def write(study: Study, outcome: Outcome, folder: Path, *, seconds: float) -> list[Path]:
    """Writes rows, statement, page, record and traffic into a folder; their paths."""
    plan = study.plan
    synthetic = plan.sample(outcome.state, study.synthetic_rows or sum(study.sizes))
    said = statement_of(
        plan.job,
        outcome.charges,
        public_inputs=(PUBLIC[0], CLAMPED),
        declared=True,
        before=study.before,
        adversary=adversary(study),
    )
    run = Run(
        state=outcome.state,
        synthetic=synthetic,
        statement=said,
        seconds=seconds,
        bytes_up=outcome.bytes("up"),
        bytes_down=outcome.bytes("down"),
        traffic=outcome.traffic,
    )
    container = Container("text", columns=study.form.names)
    columns = plan.sample(outcome.state, 1).iloc[:0]  # of the schema, and no rows
    form = study.form
    table = Table(study.name, columns, study.form.schema, "own", form=form, container=container)
    paths = your_table.places(table, "quick", release=study.release, folder=folder)
    rows = your_table.as_file(synthetic, table, seed=None if study.release else study.seed)
    about = Release(study.name, "", not study.release, federated=True)
    _, paths = your_table.hand_on(run, container.content(rows, study.form), paths, about)
    model = saved.saved(
        run, plan.method, plan.config, study.form, container=container, seed=study.seed
    )
    paths["model"] = paths["rows"].with_suffix(".fedsynth")  # `fedsynth sample` draws from it
    saved.write(model, paths["model"])
    traffic = paths["rows"].with_name(f"{paths['rows'].stem}_traffic.json")
    write_atomically(traffic, json.dumps(traffic_of(study, run), indent=1).encode())
    return [*paths.values(), traffic]


def write_evaluation(
    study: Study, job: Job, outcome: Outcome, folder: Path, rows: str
) -> list[Path]:
    """Writes the figures of an evaluation at the sites, and what must be said of them; rows: the
    name of the rows that were evaluated."""
    found = evaluation.evaluated(
        job, outcome, names=[site.name for site in study.sites], trained=study.epsilon
    )
    title = f"evaluation of {rows} at the sites"
    text = f"{statement_text(found.statement, title)}\n{found.text}\n"
    contents = {"": found.all_sites.figures.to_csv(), "_trouble": found.all_sites.trouble.to_csv()}
    paths = {folder / f"{rows}_evaluation{end}.csv": made for end, made in contents.items()}
    paths[folder / f"{rows}_evaluation_privacy.md"] = text
    for path, content in paths.items():
        write_atomically(path, content.encode())
    return list(paths)


def adversary(study: Study) -> str:
    """Whom the statement says that records are protected from; '' where the method's own words
    hold, since it makes no secure sum."""
    if not study.release:
        return REHEARSED
    if study.plan.method.TRUST != "secure sum":
        return study.plan.method.ADVERSARY
    return ADVERSARY.format(colluding=study.colluding, sites=len(study.sites))


def traffic_of(study: Study, run: Run) -> dict:
    """Bytes of arrays, in all and for each site; what Flower adds is not counted."""
    lines = [line | {"site": study.sites[line["client"]].name} for line in run.traffic]
    return {
        "seconds": round(run.seconds, 1),
        "bytes_up": run.bytes_up,
        "bytes_down": run.bytes_down,
        "messages": lines,
    }
