"""The command line `fedsynth deploy`: a study of several sites over a network.

As `bundle/commands.py`: each command is declared here and calls one function of the library, which
is imported when the command runs.
"""

import sys
from pathlib import Path
from typing import Annotated

import typer

from fedsynth_lib.methods import DEFAULT

ORDER = """\
Who types what, in this order:

\b
  each site     fedsynth draft NAME.csv    and agree with the others on one schema.toml
  each site     fedsynth deploy keys OWN --site NAME    then correct OWN/budget.toml
  server        fedsynth deploy keys SERVER --host HOST
  one of them   fedsynth deploy init STUDY --schema schema.toml --site NAME:ROWS:node.pub ...
  all           copy the folder STUDY; fedsynth deploy show --study STUDY; compare by telephone
  server        fedsynth deploy server --study STUDY --own SERVER
  each site     fedsynth deploy site NAME --study STUDY --own OWN --table NAME.csv
  server        fedsynth deploy run --study STUDY --own SERVER --out OUT    in another terminal
"""
app = typer.Typer(
    help="A study of several sites that do not pool their rows, over a network.",
    epilog=ORDER,
    no_args_is_help=True,
    rich_markup_mode=None,
)
StudyFolder = Annotated[Path, typer.Option("--study", help="folder of the study, the same for all")]
OwnFolder = Annotated[Path, typer.Option("--own", help="your own folder, with your keys")]
OutFolder = Annotated[Path, typer.Option("--out", help="folder for what comes out")]
Limit = Annotated[
    float, typer.Option("--limit", help="seconds without news after which the run is stopped")
]


@app.command()
def keys(
    folder: Annotated[Path, typer.Argument(help="your own folder")],
    host: Annotated[
        list[str] | None,
        typer.Option(help="of the server: a name or address; may be repeated"),
    ] = None,
    site: Annotated[str, typer.Option(help="of a site: its name in the study")] = "",
    days: Annotated[int, typer.Option(help="that the server's certificate is valid")] = 365,
) -> int:
    """Make the keys of the server (--host) or of a site (--site), and print their fingerprint.

    Compare it over the telephone: what comes by mail may have been changed on its way.
    """
    from fedsynth_lib.core.contract import BadInput
    from fedsynth_lib.release.deploy import keys as made

    if bool(host) == bool(site):
        raise BadInput("give --host for the keys of the server, or --site for those of a site.")
    place = folder.expanduser().absolute()
    if host:
        print(made.make_server_keys(place, [*host, *made.HERE], days))
        say(f"{place / made.CA} goes into the study; the other files of {place} stay")
        say(
            f"{made.authority_of(place) / made.CA_KEY} signs the next certificate; the server does "
            "not need it: move it off this machine"
        )
        return 0
    print(made.make_site(place, site))
    say(f"{place / made.NODE_PUBLIC} goes into the study")
    say(
        f"{place / made.BUDGET} allows what the runs cost that you agree to: write down whose rows "
        "these are and, if their owner allows a fixed total, most_epsilon and most_delta"
    )
    return 0


@app.command()
def init(
    folder: Annotated[Path, typer.Argument(help="a new folder")],
    schema: Annotated[Path, typer.Option(help="the declared schema, in TOML")],
    site: Annotated[list[str], typer.Option(help="NAME:ROWS:node.pub, once for each site")],
    name: Annotated[str, typer.Option(help="default: as the folder")] = "",
    # makes its noise in sums that no party sees; with aim the server would have to be trusted
    method: Annotated[str, typer.Option(help="its key")] = DEFAULT,
    epsilon: Annotated[float, typer.Option(help="of the whole run, for one row")] = 1.0,
    delta: Annotated[float, typer.Option(help="far below 1 / rows")] = 1e-6,
    set_: Annotated[
        list[str] | None,
        typer.Option("--set", help="setting=value of the method; others protect all"),
    ] = None,
    colluding: Annotated[int, typer.Option(help="sites that may pool what they know")] = 1,
    absent: Annotated[
        int | None,
        typer.Option(help="sites that may drop out of the run; default: 1 of four or more, else 0"),
    ] = None,
    minimum_group: Annotated[int, typer.Option(help="sites that a sum needs")] = 3,
    holdout: Annotated[float, typer.Option(help="share of rows kept for evaluation")] = 0.0,
    evaluation_epsilon: Annotated[float, typer.Option(help="of the evaluation at the sites")] = 0.0,
    same_people: Annotated[
        bool, typer.Option("--same-people", help="may be learned from and held out: costs add up")
    ] = False,
    publish: Annotated[
        list[str] | None, typer.Option(help="a site that shows its own figures; may be repeated")
    ] = None,
    counted_epsilon: Annotated[
        float, typer.Option(help="that each site has spent on counting its rows")
    ] = 0.0,
    server: Annotated[str, typer.Option(help="host:port")] = "localhost:9443",
    ca: Annotated[Path | None, typer.Option(help="the server's ca.pem")] = None,
    release: Annotated[bool, typer.Option("--release", help="secret noise, to hand on")] = False,
    seed: Annotated[int, typer.Option(help="of a rehearsal")] = 0,
    timeout: Annotated[float, typer.Option(help="seconds that a site has for an answer")] = 600.0,
    synthetic_rows: Annotated[int, typer.Option(help="0: as many as the sites have")] = 0,
) -> int:
    """Write the folder of a study: a Flower app, to be copied to all parties as it is."""
    from fedsynth_lib.core.store import existing_file
    from fedsynth_lib.release.deploy import init as made

    if absent is None:
        absent = made.absent_of(len(site))
    study = made.init(
        folder,
        name=name or folder.absolute().name,
        schema=schema,
        sites=[made.parsed_site(each) for each in site],
        ca=existing_file(ca, "ca").read_text(encoding="utf-8") if ca else "",
        method=method,
        epsilon=epsilon,
        delta=delta,
        colluding=colluding,
        absent=absent,
        minimum_group=minimum_group,
        holdout=holdout,
        evaluation_epsilon=evaluation_epsilon,
        other_people=not same_people,
        publish=publish or (),
        counted_epsilon=counted_epsilon,
        server=server,
        release=release,
        seed=seed,
        timeout=timeout,
        synthetic_rows=synthetic_rows,
        config=made.parsed_settings(set_ or ()),
    )
    print(study.digest)
    say(made.about_absent(study))
    return 0


@app.command()
def show(study: StudyFolder = Path(".")) -> int:
    """Show what a study asks for, its fingerprint, and those of its sites."""
    from fedsynth_lib.release.deploy.study import read_study

    print("\n".join(read_study(study).lines()))
    return 0


@app.command()
def count(
    table: Annotated[Path, typer.Argument(help="the site's file")],
    own: OwnFolder,
    schema: Annotated[Path, typer.Option(help="the declared schema, in TOML")],
    epsilon: Annotated[float, typer.Option(help="that the count costs")] = 0.02,
) -> int:
    """Count a site's rows with noise, to be told to the others; noted in the site's ledger."""
    from fedsynth_lib.release.deploy.place import Own
    from fedsynth_lib.release.deploy.site import noisy_count

    print(noisy_count(Own(own.expanduser().absolute()), table, schema, epsilon))
    return 0


@app.command()
def server(
    own: OwnFolder,
    study: StudyFolder = Path("."),
) -> int:
    """Let the sites of a study connect, and nobody else, and do its runs, until it is stopped."""
    from fedsynth_lib.release.deploy.server import serve

    serve(study, own, say=say)
    return 0


@app.command()
def site(
    name: Annotated[str, typer.Argument(help="the site's name in the study")],
    table: Annotated[Path, typer.Option(help="its rows: CSV or another file")],
    own: OwnFolder,
    study: StudyFolder = Path("."),
    runs: Annotated[
        int, typer.Option(help="of the study that you agree to, those made before included")
    ] = 1,
    yes: Annotated[bool, typer.Option("--yes", help="agree without being asked")] = False,
) -> int:
    """Take part in a study with the rows of one site, until it is stopped.

    Before the first run it shows what is asked, and what the site's ledger says. It answers one run
    of each job of the study, or as many as --runs says; another one needs another answer.
    """
    from fedsynth_lib.release.deploy.site import run_site

    def ask(text: str) -> bool:
        print(text, flush=True)
        return yes or typer.confirm("Take part?")

    run_site(study, name, table, own, say=say, ask=ask, runs=runs)
    return 0


@app.command()
def run(
    own: OwnFolder,
    study: StudyFolder = Path("."),
    out: OutFolder = Path("."),
    limit: Limit = 3600.0,
) -> int:
    """Make the synthetic table, beside a server that has been started; its paths are printed."""
    from fedsynth_lib.release.deploy.server import run as carried_out

    print(*carried_out(study, own, out, say=say, limit=limit), sep="\n")
    return 0


@app.command()
def evaluate(
    rows: Annotated[Path, typer.Argument(help="a synthetic file of the study")],
    own: OwnFolder,
    study: StudyFolder = Path("."),
    out: OutFolder = Path("."),
    limit: Limit = 3600.0,
) -> int:
    """Have synthetic rows evaluated by rows that the sites have set aside, beside the server.

    What comes out are figures over all sites with their intervals; a site's own where the study
    says that it publishes them.
    """
    from fedsynth_lib.release.deploy.server import run as carried_out

    print(*carried_out(study, own, out, say=say, evaluate=rows, limit=limit), sep="\n")
    return 0


def say(text: str) -> None:
    """Tell the user something beside the output, at once."""
    print(f"fedsynth: {text}", file=sys.stderr, flush=True)
