"""What comes out of a study: synthetic rows, and what must be said of them.

Both are written as `fedsynth synth` writes them.
"""

import json
import math
from pathlib import Path

from fedsynth_lib.core.contract import Method, Run
from fedsynth_lib.core.ledger import Total
from fedsynth_lib.core.statement import deployed_adversary, statement_text
from fedsynth_lib.core.store import write_atomically
from fedsynth_lib.federation.flower import Job, Outcome
from fedsynth_lib.federation.settings import declared_inputs, statement_of
from fedsynth_lib.release import saved, your_table
from fedsynth_lib.release.deploy import evaluation
from fedsynth_lib.release.deploy.study import Study
from fedsynth_lib.release.persons import for_persons
from fedsynth_lib.release.saved import SavedModel
from fedsynth_lib.release.summary import Release
from fedsynth_lib.tables.container import Container
from fedsynth_lib.tables.load import Table

REHEARSED = "nobody who knows the seed, as all parties do: a rehearsal"


def write(study: Study, outcome: Outcome, folder: Path) -> list[Path]:
    """Write rows, statement, page, record, model and traffic into a folder; return their paths."""
    plan, form = study.plan, study.form
    said = statement_of(
        plan.job,
        outcome.charges,
        public_inputs=declared_inputs(form),
        declared=True,
        before=study.before,
        adversary=adversary(study, plan.method, "the synthetic rows"),
    )
    promised = study.promised(study.epsilon)
    said = for_persons(said, study.form, promised, several_sites=True)
    container = Container("text", columns=form.names)
    rows = study.synthetic_rows or sum(study.sizes)
    model = SavedModel(
        plan.method, plan.config, outcome.state, form, container, said, rows, study.seed
    )
    synthetic, said = model.drawn(rows), said | {"together": model.together}
    run = Run(
        state=outcome.state,
        synthetic=synthetic,
        statement=said,
        seconds=math.nan,  # how long sites compute may depend on their rows
        bytes_up=outcome.bytes("up"),
        bytes_down=outcome.bytes("down"),
        traffic=outcome.traffic,
    )
    none = synthetic.iloc[:0]  # columns of the schema
    table = Table(study.name, none, form.schema, "own", form=form, container=container)
    paths = your_table.places(table, "quick", release=study.release, folder=folder)
    content = your_table.as_file(synthetic, table, seed=None if study.release else study.seed)
    about = Release(study.name, "", not study.release, federated=True)
    content = container.content(content, form)
    total = total_of_runs(study, plan.job, said, outcome)
    _, paths = your_table.hand_on(run, content, paths, about, same_rows=total)
    model = saved.saved(run, plan.method, plan.config, form, container=container, seed=study.seed)
    paths["model"] = paths["rows"].with_suffix(".fedsynth")  # `fedsynth sample` draws from it
    saved.write(model, paths["model"])
    traffic = paths["rows"].with_name(f"{paths['rows'].stem}_traffic.json")
    write_atomically(traffic, json.dumps(traffic_of(study, run), indent=1).encode())
    return [*paths.values(), traffic]


def write_evaluation(
    study: Study, job: Job, outcome: Outcome, folder: Path, rows: str
) -> list[Path]:
    """Write the figures of an evaluation at the sites, and its statement; return their paths.

    rows: the name of the rows that were evaluated. The files of a site that publishes its own
    figures have its name.
    """
    trained = max(1, outcome.earlier.get(study.plan.method.name, 0))  # the rows come from a run
    found = evaluation.evaluated(
        job,
        outcome,
        names=[site.name for site in study.sites],
        trained=Total(trained, trained * study.epsilon, trained * study.delta),
        other_people=study.other_people,
        adversary=adversary(study, job.method, "the figures"),
        form=study.form,
        promised=study.promised(study.evaluation_epsilon),
    )
    title = f"evaluation of {rows} at the sites"
    total = total_of_runs(study, job, found.statement, outcome)
    text = f"{statement_text(found.statement, title, total)}\n{found.text}\n"
    if found.sites:
        text += f"These sites show their own figures as well: {', '.join(found.sites)}.\n"
    paths = {folder / f"{rows}_evaluation_privacy.md": text}
    for name, scored in {"": found.all_sites, **found.sites}.items():
        start = folder / f"{rows}_evaluation{f'_{name}' * bool(name)}"
        paths[start.with_suffix(".csv")] = scored.figures.to_csv()
        paths[start.with_name(f"{start.name}_trouble.csv")] = scored.trouble.to_csv()
    for path, content in paths.items():
        write_atomically(path, content.encode())
    return list(paths)


def total_of_runs(study: Study, job: Job, statement: dict, outcome: Outcome) -> Total:
    """Return what this run and the earlier ones of the study cost the people in its rows.

    Where the evaluation is of other people, nobody who was learned from is in it. The study is
    the same, so each run of a job has the same budget. What sites spent on other studies is in
    their ledgers alone.
    """
    name = job.method.name
    counted = [name] if study.other_people else study.costs
    runs = {each: outcome.earlier.get(each, 0) + (each == name) for each in counted}
    runs = {each: made for each, made in runs.items() if made}
    costs, number = study.costs | {name: statement["epsilon"]}, sum(runs.values())
    return Total(
        number,
        math.fsum(made * costs[each] for each, made in runs.items()),
        number * statement["delta"],
        ", ".join(f"{made} of {each}" for each, made in runs.items()) if len(runs) > 1 else "",
    )


def adversary(study: Study, method: Method, what: str) -> str:
    """Return whom the statement says that records are protected from; what: comes out."""
    if not study.release:
        return REHEARSED
    return deployed_adversary(method, what=what, colluding=study.colluding, sites=len(study.sites))


def traffic_of(study: Study, run: Run) -> dict:
    """Return bytes of arrays, in all and for each site; what Flower adds is not counted."""
    lines = [line | {"site": study.sites[line["client"]].name} for line in run.traffic]
    return {
        "bytes_up": run.bytes_up,
        "bytes_down": run.bytes_down,
        "messages": lines,
    }
