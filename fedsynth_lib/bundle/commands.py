"""The command line `fedsynth`: python -m fedsynth_lib COMMAND, or ./run_all.sh COMMAND.

Each command is declared here, with its options, and calls one function of the library, which is
imported when the command runs. What makes tables and figures has its options in `runner`, since
these are checked before there are any packages: `fedsynth run` passes them on.
"""

import inspect
import os
import signal
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import click
import typer

from fedsynth_lib.bundle.console import heard
from fedsynth_lib.core.contract import BadInput
from fedsynth_lib.core.store import (
    CODE,
    FOR_OWNER,
    as_path,
    existing_file,
    is_checkout,
    project_root,
    write_atomically,
)
from fedsynth_lib.methods import DEFAULT
from fedsynth_lib.methods.release import DELTA
from fedsynth_lib.release.deploy import commands as deploy

if TYPE_CHECKING:  # brings all that a run needs
    from fedsynth_lib.release import your_table

app = typer.Typer(
    name="fedsynth",
    help="Federated, differentially private synthetic tables.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    suggest_commands=False,  # click does
    rich_markup_mode=None,
)
app.add_typer(deploy.app, name="deploy", short_help=deploy.app.info.help)
PASSED_ON = {"ignore_unknown_options": True, "allow_extra_args": True, "help_option_names": []}


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command, and return the exit status.

    0 all well, 1 something failed, 2 asked for what cannot be, 130 stopped, 141 not read to the
    end.
    """
    return heard(lambda: _carry_out(arguments))


def _carry_out(arguments: Sequence[str] | None) -> int:
    # a shell switches the first off for background jobs
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.default_int_handler)
    typed = os.environ.get("FEDSYNTH_TYPED", "fedsynth")  # run_all.sh says how it was called
    deploy.app.info.epilog = deploy.ORDER.replace("fedsynth", typed)
    for each in (*app.registered_commands, *deploy.app.registered_commands):
        # or click cuts the sentence at the width of the terminal
        each.short_help = " ".join(inspect.getdoc(each.callback).split("\n\n")[0].split())
    try:
        given = None if arguments is None else list(arguments)
        return app(args=given, prog_name=typed, standalone_mode=False) or 0
    except click.ClickException as error:
        error.show()
        for word in sys.argv[1:] if arguments is None else arguments:
            if word.startswith("-") and Path(word).is_file():
                print(f"{word} is a file as well: write ./{word} for it.", file=sys.stderr)
        return error.exit_code
    except BadInput as error:
        print("fedsynth:", str(error).replace("`fedsynth ", f"`{typed} "), file=sys.stderr)
        return 2
    except ModuleNotFoundError as error:  # of a package that requirements-all.in names
        if (error.name or "fedsynth_lib").startswith("fedsynth_lib"):
            raise
        print(
            f"fedsynth: this needs the package {error.name}, which is not installed: "
            "pip install '.[all]' in the folder of fedsynth.",
            file=sys.stderr,
        )
        return 2
    except (KeyboardInterrupt, click.Abort):
        return 130
    except SystemExit as end:
        if isinstance(end.__context__, BrokenPipeError):  # of which typer makes an end of its own
            raise end.__context__ from None
        raise


@app.command(context_settings=PASSED_ON)
def run(context: typer.Context) -> int:
    """Make all tables and figures; options as ./run_all.sh --help shows them."""
    from fedsynth_lib.bundle import runner

    return runner.main(context.args)


@app.command()
def lab(
    notebook: Annotated[str, typer.Argument(help="number or part of a name")] = "00",
    browser: Annotated[
        bool, typer.Option("--browser/--no-browser", help="open a browser, or show the address")
    ] = True,
    student: Annotated[bool, typer.Option("--student", help="leave out the solutions")] = False,
) -> int:
    """Open JupyterLab on a copy of the notebooks, which you may change."""
    from fedsynth_lib.bundle.lab import open_lab

    return open_lab(notebook, browser=browser, student=student)


@app.command()
def verify(
    minutes: Annotated[float, typer.Argument(help="how long it may take")],
    seed: Annotated[str, typer.Option(help="what the sample is drawn from; the date")] = "",
    only: Annotated[str, typer.Option(help="grids with this in their names")] = "",
    save: Annotated[bool, typer.Option("--save", help="write data/results/verified.*")] = False,
) -> int:
    """Compute a random sample of committed rows again, and say how many agree."""
    from fedsynth_lib.bundle.verify import verify

    return verify(minutes, root=project_root(), seed=seed, only=only, save=save)


@app.command()
def draft(
    table: Annotated[Path, typer.Argument(help="CSV, parquet or another file with a table")],
    target: Annotated[str, typer.Option(help="column to predict")] = "",
    ignore: Annotated[list[str] | None, typer.Option(help="column that is left out")] = None,
    keep: Annotated[
        list[str] | None, typer.Option(help="column of categories, however many there are")
    ] = None,
    out: Annotated[
        Path | None, typer.Option(help="the draft; default: in internal/ beside the table")
    ] = None,
    ask: Annotated[
        bool, typer.Option("--ask", help="answer the questions here; writes the schema itself")
    ] = False,
) -> int:
    """Read a first schema off the rows of a table: for the eyes of their owner alone.

    Prints its path, and what only a person can answer. With --ask the questions are put one by one,
    and the schema is written beside the table.
    """
    from fedsynth_lib.release import your_table
    from fedsynth_lib.tables.form import read_form

    files = your_table.Files.of(table)
    if ask:
        drafted = {"target": target, "ignore": ignore or (), "keep": keep or ()}
        try:
            print(your_table.asked(files, input, print, out=out, **drafted))
        except EOFError as end:
            raise BadInput("--ask needs a terminal to answer in; nothing was written.") from end
        return 0
    path = your_table.draft(files, target=target, ignore=ignore or (), keep=keep or (), out=out)
    print(path)
    asked = your_table.questions(read_form(path))
    print(*asked, sep="\n")
    first = (
        f"{len(asked)} question{'s' * (len(asked) > 1)}: correct these columns and delete their "
        "questions; replace"
        if asked
        else "no questions: replace"
    )
    print(
        f"{first} whatever was read from the rows by what is documented; save it as "
        f"{files.schema}.",
        file=sys.stderr,
    )
    return 0


@app.command()
def synth(
    table: Annotated[Path, typer.Argument(help="CSV, parquet or another file with a table")],
    method: Annotated[str, typer.Option(help="its key, or the path of a file with one")] = DEFAULT,
    epsilon: Annotated[float, typer.Option(help="of the whole run, for one row")] = 3.0,
    delta: Annotated[float, typer.Option(help="far below 1 / rows")] = DELTA,
    schema: Annotated[Path | None, typer.Option(help="default: the .toml beside the table")] = None,
    target: Annotated[str, typer.Option(help="column to predict, for the draft")] = "",
    ignore: Annotated[list[str] | None, typer.Option(help="column the draft leaves out")] = None,
    sites: Annotated[str, typer.Option(help="column that says which site a row is from")] = "",
    clients: Annotated[int, typer.Option(help="clients that rows are dealt to; 0: one")] = 0,
    declared_rows: Annotated[
        list[int] | None,
        typer.Option(help="rows of the file, or of each site; else counted with noise"),
    ] = None,
    rows: Annotated[
        int | None,
        typer.Option(help="synthetic rows; default: as many as it learns from, four fifths"),
    ] = None,
    where: Annotated[
        list[str] | None, typer.Option(help="COLUMN=VALUE that all rows have, at no cost")
    ] = None,
    seed: Annotated[int, typer.Option(help="of a rehearsal, 0 to 2^32 - 1")] = 0,
    release: Annotated[bool, typer.Option("--release", help="secret noise, to hand on")] = False,
    again: Annotated[
        bool, typer.Option("--again", help="these rows were released before; costs add up")
    ] = False,
    population: Annotated[str, typer.Option(help="whose rows these are, for the ledger")] = "",
    most_epsilon: Annotated[float, typer.Option(help="of all releases about these people")] = 3.0,
    out: Annotated[
        Path | None,
        typer.Option(help="folder; default: here, in a checkout data/results/quick-own"),
    ] = None,
    save_model: Annotated[
        Path | None, typer.Option(help="file for the model, of which `sample` draws more rows")
    ] = None,
    tables: Annotated[
        Path | None, typer.Option(help="folder for the noisy tables that it learns from, as CSV")
    ] = None,
    quote_formulas: Annotated[
        bool,
        typer.Option("--quote-formulas", help="' before a text that a spreadsheet would run"),
    ] = False,
    no_scores: Annotated[
        bool, typer.Option("--no-scores", help="neither scores nor pictures")
    ] = False,
    curator: Annotated[str, typer.Option(help="who answers for the release")] = "",
    recipients: Annotated[str, typer.Option(help="who gets the rows")] = "",
    purpose: Annotated[str, typer.Option(help="what they get them for")] = "",
) -> int:
    """Make a synthetic table of your own: write the rows, and what must be said of them.

    Where no schema is beside the table, a draft of one is written, to be corrected first. Scores
    and pictures follow; they are made with the real rows, without noise, and for you alone, and so
    is the draft: all of them are in a folder `internal`, which is never handed on.
    """
    from fedsynth_lib.release import your_table

    made = your_table.synthesize(
        table,
        say=deploy.say,
        method=method,
        epsilon=epsilon,
        delta=delta,
        schema=schema,
        target=target,
        ignore=ignore or (),
        site=sites,
        num_clients=clients,
        declared_rows=declared_rows or (),
        rows=rows,
        where=_values(where),
        seed=seed,
        release=release,
        again=again,
        population=population,
        most_epsilon=most_epsilon,
        out=out or _results(),
        save_model=save_model,
        tables=tables,
        quote_formulas=quote_formulas,
        about={"curator": curator, "recipients": recipients, "purpose": purpose},
    )
    print(*made.paths.values(), sep="\n")
    print(your_table.measured(made))
    print(made.verdict, flush=True)
    status = 0 if no_scores else _evaluated(made)
    page = made.paths["page"]
    scores = "" if no_scores else f"the scores in {page.parent / FOR_OWNER}, for you alone, and "
    print(
        f"open first: {page}, on what these rows promise; then {scores}`fedsynth check --analysis`"
    )
    return status


@app.command()
def sample(
    model: Annotated[Path, typer.Argument(help="a file that synth --save-model wrote")],
    rows: Annotated[int | None, typer.Option(help="how many; default: as many as the run")] = None,
    where: Annotated[list[str] | None, typer.Option(help="COLUMN=VALUE that all rows have")] = None,
    seed: Annotated[int | None, typer.Option(help="of the draw; default: that of the run")] = None,
    means: Annotated[
        bool, typer.Option("--means", help="means and shares with standard errors, and no rows")
    ] = False,
    out: Annotated[Path | None, typer.Option(help="file of the rows; default: print")] = None,
    quote_formulas: Annotated[
        bool,
        typer.Option("--quote-formulas", help="' before a text that a spreadsheet would run"),
    ] = False,
) -> int:
    """Draw synthetic rows from a saved model, in the form of the table that it learned from.

    It costs no more epsilon. The seed and the number of the run give its own rows again, except for
    identifiers of a release, which are new each time. With --means the method learns thirty times
    from rows of the model, so that standard errors include the noise of privacy.
    """
    from fedsynth_lib.release import saved

    found = saved.read(model)
    if means:
        content = found.means(seed=seed or 0).to_csv(index=False, float_format="%.6g").encode()
    else:
        content = found.file(rows, seed=seed, where=_values(where), quote_formulas=quote_formulas)
    if out is None:
        sys.stdout.buffer.write(content)
    else:
        write_atomically(as_path(out), content)
        print(as_path(out))
    deploy.say(found.cost)
    return 0


@app.command()
def check(
    table: Annotated[Path, typer.Argument(help="the real table")],
    synthetic: Annotated[Path, typer.Argument(help="a synthetic file of it")],
    schema: Annotated[Path | None, typer.Option(help="default: the .toml beside the table")] = None,
    analysis: Annotated[
        list[str] | None,
        typer.Option(help='"y ~ a + b", "mean(y) by group" or "survival(time, event) by group"'),
    ] = None,
) -> int:
    """Check whether a synthetic file has the form of the real one; return 1 where it differs.

    Columns and their order, types, ranges, categories, shares of missing values; and, for each
    analysis that is named, its results on real and on synthetic rows, with a sentence on whether
    each may be used. It is computed from the real rows, without noise: for their owner alone.
    """
    from fedsynth_lib.release import your_table
    from fedsynth_lib.release.check import checked

    real = your_table.load(your_table.Files.of(table, schema), private=True)
    found = checked(real, existing_file(synthetic, "synthetic"), analysis or ())
    print(found)
    return int(found.differing > 0)


def _evaluated(made: "your_table.Made") -> int:
    """Write scores and pictures of a finished run; return 1 where one of the two failed.

    The files of the run are there whatever becomes of these.
    """
    from fedsynth_lib.release import your_table

    status = 0
    print("for you alone, made with the real rows:")
    for what, write in your_table.EVALUATIONS.items():
        deploy.say(f"{what}, with the real rows")
        try:
            print(*write(made), sep="\n", flush=True)
        except Exception as error:
            reason = f"{type(error).__name__}: {error}".splitlines()[0]
            deploy.say(f"no {what} ({reason}); what may be handed on is complete")
            status = 1
    return status


def _values(given: list[str] | None) -> dict[str, str | None] | None:
    """COLUMN=VALUE as a condition; nothing after the = is a missing value."""
    if not given:
        return None
    parts = [text.partition("=") for text in given]
    if wrong := [name for name, sign, _ in parts if not sign]:
        raise BadInput(f"--where {wrong[0]}: write COLUMN=VALUE, such as fraud=yes.")
    return {name: value or None for name, _, value in parts}


def _results() -> Path | None:
    """Return where the user is; None within the checkout.

    Within the checkout, results on the user's tables go to a folder that is never committed.
    """
    here = Path.cwd()
    return None if is_checkout() and here.is_relative_to(CODE) else here


@app.command()
def audit(
    methods: Annotated[list[str] | None, typer.Option(help="key; all private ones if none")] = None,
    runs: Annotated[int | None, typer.Option(help="of a network; faster methods get more")] = None,
    minutes: Annotated[float, typer.Option(help="begin no line after so long")] = float("inf"),
    again: Annotated[bool, typer.Option("--again", help="measure all lines again")] = False,
    quick: Annotated[bool, typer.Option("--quick", help="look for leaks; no bounds")] = False,
) -> int:
    """Measure lower bounds on epsilon beside every claim, and look for leaks; 1 where one is found.

    Bounds that were measured with the code as it is now are kept, others are measured again: about
    an hour for all. Looking for leaks takes a minute.
    """
    from fedsynth_lib.audit.table import audit

    return audit(methods or (), runs=runs, minutes=minutes, again=again, quick=quick)


@app.command()
def ledger(
    population: Annotated[str, typer.Argument(help="all of its releases; empty: totals")] = "",
    own: Annotated[Path | None, typer.Option(help="a site's own folder, for its ledgers")] = None,
) -> int:
    """Show what has been released about which people."""
    from fedsynth_lib.core import ledger

    print(ledger.overview(population, own and own.expanduser().absolute()))
    return 0


@app.command()
def report() -> int:
    """Build the report, figures/report/index.html, again."""
    from fedsynth_lib.bundle.report import refresh

    return int(not refresh())


@app.command()
def site(
    folder: Annotated[Path, typer.Argument(help="a new folder, or one of an earlier site")],
) -> int:
    """Build the report with copies of all files it shows, for a static host."""
    from fedsynth_lib.bundle.report import refresh

    return int(not refresh(folder.expanduser().absolute(), portable=True))


@app.command()
def doctor() -> int:
    """Show what this machine has and what a run would use.

    The exit status is 1 where a package differs from its lock.
    """
    from fedsynth_lib.bundle import doctor

    return doctor.main()


@app.command()
def bench(
    method: Annotated[Path | None, typer.Argument(help="Python file with a method")] = None,
    block: Annotated[
        str, typer.Option(help="A: NIST's target; A2: all its columns; B: Adult; D: FLAIM's tables")
    ] = "A",
    seeds: Annotated[int, typer.Option(help="how often the method runs")] = 3,
    speed: Annotated[
        bool, typer.Option("--speed", help="instead: speed beside named peers, in one run")
    ] = False,
) -> int:
    """Show the tables beside the field with a method file of yours.

    The exit status is 1 where it breaks a promise.

    Its promises are checked first, on a few rows, and its claim of epsilon is audited, by at least
    800 runs on two columns; if both hold, it makes a table a seed at epsilon 1, and gets a line. A2
    is A' of notebook 73. A quick method takes seconds of one core in A, A2 and B. D takes four
    minutes: three to divide five tables among a hundred clients, once, and a run a seed on each of
    them, or two where there is a setting `participation`. Finished runs are kept: what was stopped
    goes on.
    """
    from fedsynth_lib.bundle.runner import furnish
    from fedsynth_lib.release.bench import bench, beside_peers

    if speed:
        return beside_peers()
    if is_checkout() and not (project_root() / "notebooks").exists():
        furnish(project_root())  # the committed rows of other methods
    table, broken = bench(block, method, seeds=seeds, say=deploy.say)
    print(table.drop(columns=["source", "date"], errors="ignore").fillna("").to_string())
    for promise, how in broken.items():
        print(f"broken: {promise}: {how}")
    return int(bool(broken))


@app.command()
def facts(
    check: Annotated[
        bool, typer.Option("--check", help="write nothing, fail where out of date")
    ] = False,
) -> int:
    """Put numbers from rows into the prose of README, findings and notebooks."""
    from fedsynth_lib.bundle import facts

    return facts.main(check=check)


@app.command()
def judge() -> int:
    """Judge published values and claims by committed rows; keep the verdict in data/results."""
    from fedsynth_lib.bundle import headline
    from fedsynth_lib.bundle.chapters import exhibit_map
    from fedsynth_lib.bundle.notebooks import read_notebooks

    changed = headline.write(exhibit_map(read_notebooks(project_root() / "notebooks")))
    deploy.say(f"data/results: {', '.join(changed) or 'nothing'} changed.")
    return 0


@app.command()
def lock() -> int:
    """Write data/tables.lock.json again from the real tables that are at hand."""
    from fedsynth_lib.tables import lock

    lock.write_lock()
    return 0


@app.command()
def digests() -> int:
    """Note the digests of result files that were changed on purpose (data/results/SHA256SUMS)."""
    from fedsynth_lib.runs import rows

    rows.note_digests(rows.committed_files())
    return 0


@app.command()
def standins(
    tables: Annotated[list[str] | None, typer.Argument(help="keys of registered tables")] = None,
    epsilon: Annotated[float, typer.Option(help="budget of each table")] = 3.0,
    rows: Annotated[int | None, typer.Option(help="the most rows of each table")] = None,
) -> int:
    """Make stand-ins of tables, which is a release of each, and write their totals again."""
    from fedsynth_lib.bundle import standins

    for line in standins.main(tables or (), epsilon=epsilon, rows=rows):
        print(line)
    return 0
