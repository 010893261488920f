"""Runs the notebooks, each in a kernel of its own, several at a time.

run_all.sh sets up and then calls this.

    ./run_all.sh                                    # shows committed results
    ./run_all.sh --profile smoke --only 1,10 -p seed=3

What a notebook computed lies in the run cache (runs/grid.py), so a run that was stopped is simply
started again. Options and parameters are checked before anything starts; heavy imports come after
that.
"""

import argparse
import contextlib
import errno
import os
import queue
import shutil
import signal
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

from fedsynth_lib.bundle.console import Outcome, Reporter, heard, listing, read_last, summary
from fedsynth_lib.bundle.estimate import PROFILES, minutes_of, warning
from fedsynth_lib.bundle.notebooks import (
    BadInput,
    Notebook,
    parameters_for,
    read_notebooks,
    select,
)
from fedsynth_lib.core.store import CODE, project_root, unwritable, write_atomically

if TYPE_CHECKING:
    from fedsynth_lib.bundle.kernels import Kernels
    from fedsynth_lib.bundle.schedule import Schedule

# of data/; ledgers, caches and raw tables are a person's own
COMMITTED_DATA = ("published", "results", "standin", "tables.lock.json")
OWN = ("-own", "-standin")  # end the names of folders with results of a person's own tables
MOST_JOBS = 4  # by default; each job holds its own tables and models in memory
QUIET = {"FLWR_TELEMETRY_ENABLED": "0", "RAY_USAGE_STATS_ENABLED": "0", "DO_NOT_TRACK": "1"}
THREADS = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NUMEXPR_NUM_THREADS")


class Parser(argparse.ArgumentParser):
    """Options whose errors are BadInput."""

    def error(self, message: str) -> NoReturn:
        """Raise BadInput."""
        raise BadInput(f"{message}; see ./run_all.sh --help.")


def parse(argv: Sequence[str] | None) -> argparse.Namespace:
    """Read the options; BadInput for one that there is not."""
    parser = Parser(
        prog="./run_all.sh",
        description="Make all tables and figures.",
        epilog="Other commands, such as a synthetic table of your own: ./run_all.sh commands",
        allow_abbrev=False,
    )
    add = parser.add_argument
    add(
        "--profile",
        choices=PROFILES,
        default=PROFILES[-1],
        help="paper (the default) shows the committed results; quick and smoke compute live, small",
    )
    add(
        "--only",
        action="extend",
        nargs="+",
        default=[],
        metavar="N",
        help="these notebooks: numbers, names or parts of names, with commas or spaces between "
        "(default: all but the solutions, which make no table and no figure)",
    )
    add("--from", dest="start", metavar="N", help="this notebook and all after it")
    add(
        "-p",
        dest="given",
        action="append",
        default=[],
        metavar="NAME=VALUE",
        help="for each notebook that has it",
    )
    add(
        "--jobs",
        type=int,
        metavar="N",
        help=f"experiments at a time (default: one per core, {MOST_JOBS} at most)",
    )
    add("--ray", metavar="HOST:PORT", help="compute experiments on this Ray cluster instead")
    add("--fresh", action="store_true", help="forget what the chosen notebooks computed")
    add(
        "--list",
        action="store_true",
        help="show the notebooks, their tables and figures, minutes and last status",
    )
    add(
        "--verify",
        type=float,
        metavar="MINUTES",
        help="compute as many committed results again as fit, and compare",
    )
    add(
        "--budget",
        type=float,
        metavar="HOURS",
        help="compute missing rows of profile paper, the cheapest grid first, and stop in time",
    )
    add("--check", action="store_true", help="check options and parameters, run nothing")
    add("--tests", action="store_true", help="run the tests instead; further options go to pytest")
    arguments = parser.parse_args(argv)
    if arguments.tests:
        raise BadInput("the tests are started by ./run_all.sh --tests.")
    if arguments.jobs is not None and arguments.jobs < 1:
        raise BadInput(f"--jobs is {arguments.jobs}: give 1 or more.")
    for name, unit in (("verify", "minutes"), ("budget", "hours")):
        if (given := getattr(arguments, name)) is not None and given <= 0:
            raise BadInput(f"--{name} is {given:g}: give the {unit} that it may take, above 0.")
    if arguments.budget is not None and (arguments.fresh or arguments.given):
        raise BadInput("--budget fills the grids as declared: leave out --fresh and -p.")
    chosen = arguments.only or arguments.start or arguments.given
    if arguments.verify is not None and (arguments.fresh or chosen):
        raise BadInput(
            "--verify chooses among all rows by itself: leave out --fresh, --only, --from and -p."
        )
    return arguments


def main(argv: Sequence[str] | None = None) -> int:
    """Run what the options say, and return the exit status.

    That is 0 all well, 1 a notebook or the report failed, 2 asked for what cannot be, 130 stopped
    by Ctrl-C.
    """
    root = project_root().resolve()
    new = not (root / "notebooks").exists()
    try:
        asked = parse(argv)
        chosen = select(
            read_notebooks((CODE if new else root) / "notebooks"),
            ",".join(asked.only).split(",") if asked.only else (),
            asked.start,
        )
        values = parameters_for(chosen, asked.given)
        if asked.list:
            print(listing(chosen, read_last(root)))
        if asked.list or asked.check:
            return 0
        if not (asked.only or asked.start):
            chosen = [each for each in chosen if "solutions" not in each.stem]
        with only_run(root):
            if new:
                furnish(root)
                chosen = [replace(n, path=root / "notebooks" / n.path.name) for n in chosen]
            return carry_out(asked, chosen, values, root)
    except BadInput as error:
        print(f"run_all.sh: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        return 130


def carry_out(
    asked: argparse.Namespace, chosen: Sequence[Notebook], values: dict[str, dict], root: Path
) -> int:
    """Run, verify or fill what was asked for; the exit status."""
    if asked.verify is not None:
        from fedsynth_lib.bundle.verify import verify

        return verify(asked.verify, root=root)
    if asked.budget is not None:
        from fedsynth_lib.runs.budget import fill
        from fedsynth_lib.works import all_grids

        names = {grid for notebook in chosen for grid in notebook.grids}
        fill((g for g in all_grids("paper").values() if g.name in names), 3600 * asked.budget)
        return 0
    if said := warning(chosen, asked.profile, root, fresh=asked.fresh):
        print(said, flush=True)
    if asked.ray:
        from fedsynth_lib.runs.grid import connected

        with connected(asked.ray):  # what is not there shows now
            os.environ["FEDSYNTH_RAY"] = asked.ray
    return run(chosen, values, root=root, profile=asked.profile, jobs=asked.jobs, fresh=asked.fresh)


@contextlib.contextmanager
def only_run(root: Path) -> Iterator[None]:
    """Refuse a second run in this checkout while this one lasts.

    The system lifts the lock however it ends.
    """
    path = root / "data" / "cache" / "run.lock"
    try:
        for folder in (path.parent, root / "figures"):
            folder.mkdir(parents=True, exist_ok=True)
            if not os.access(folder, os.W_OK):
                raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))
        opened = path.open("a", encoding="utf-8")
    except OSError as error:
        raise BadInput(unwritable(root, error)) from error
    with opened as lock:
        try:
            # Windows has no fcntl: there nobody notices a second run
            with contextlib.suppress(ImportError):
                import fcntl

                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise BadInput(
                f"another run is at work in {root}: wait for its end, or stop it with Ctrl-C "
                "where it was started."
            ) from None
        yield


def furnish(root: Path) -> None:
    """Copy notebooks and committed data into a new FEDSYNTH_HOME.

    A checkout may be read-only, and what is copied is not. No ledger and no rows of a person are
    copied or replaced.

    The folder of notebooks, which says that a home is furnished, comes last and in one step: the
    next run completes what a kill or a full disk has interrupted. Raises BadInput where the home
    cannot be written.
    """
    for name in COMMITTED_DATA:
        copy_files(CODE / "data" / name, root / "data" / name)
    copied = root / ".notebooks.new"
    copy_files(CODE / "notebooks", copied)
    copied.rename(root / "notebooks")


def copy_files(source: Path, target: Path) -> None:
    """Copy a file, or all files of a folder but those of a person's own, each in one step."""
    for path in [source] if source.is_file() else source.rglob("*"):
        place = path.relative_to(source)
        if path.is_file() and not any(part.endswith(OWN) for part in place.parts):
            write_atomically(target / place, path.read_bytes())


def run(
    chosen: Sequence[Notebook],
    values: dict[str, dict[str, Any]],
    *,
    root: Path,
    profile: str,
    jobs: int | None = None,
    fresh: bool = False,
) -> int:
    """Execute the notebooks and print the table; return the exit status.

    That is 1 where a notebook or the report failed. A notebook that needs one which failed in this
    run is not run. Figures land in figures/, of other profiles in figures/live/, executed copies in
    figures/executed/<profile>/, the table in figures/runs/last.json; the report,
    figures/report/index.html, is made again from all that there is, also where notebooks failed or
    the run was stopped, which it says.
    """
    import joblib

    from fedsynth_lib.bundle import kernels as processes
    from fedsynth_lib.bundle.schedule import Schedule

    cores = joblib.cpu_count()
    jobs = min(jobs or MOST_JOBS, cores)
    threads = os.environ.get("OMP_NUM_THREADS") or str(max(1, cores // jobs))
    env = {
        **QUIET,
        **dict.fromkeys(THREADS, threads),
        "FEDSYNTH_HOME": str(root),  # kernels run in folders of their own, and it may be relative
        **({"FEDSYNTH_FRESH": f"{time.time():.0f}"} if fresh else {}),
    }
    # a shell switches it off for background jobs
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    outcomes = {notebook.stem: Outcome("not run", profile) for notebook in chosen}
    expected = {
        notebook.stem: minutes_of(notebook, profile, root, fresh=fresh) for notebook in chosen
    }
    schedule = Schedule(list(chosen), expected, jobs)
    try:
        with processes.started(chosen, env) as kernels, Reporter(len(chosen)) as reporter:
            reporter.say(
                f"profile {profile}, notebooks: {len(chosen)}, experiments at a time: "
                f"{jobs}, threads each: {threads}"
            )
            for grid in {name for each in chosen for name in each.grids} if fresh else ():
                shutil.rmtree(root / "data" / "cache" / "cells" / grid, ignore_errors=True)
            execute_all(schedule, values, outcomes, root=root, kernels=kernels, reporter=reporter)
    finally:  # after Ctrl-C too: the report is of all that there is
        from fedsynth_lib.bundle.report import refresh

        built = refresh()
        if open_ := [stem for stem, outcome in outcomes.items() if outcome.status != "ok"]:
            numbers = ",".join(stem.partition("_")[0] for stem in open_)
            rest = f"to run the rest: ./run_all.sh --only {numbers}"
            print(f"It shows what the other notebooks made; {rest}", flush=True)
        print("\n" + summary(outcomes), flush=True)
    return int(bool(open_) or not built)


def execute_all(
    schedule: "Schedule",
    values: dict[str, dict[str, Any]],
    outcomes: dict[str, Outcome],
    *,
    root: Path,
    kernels: "Kernels",
    reporter: Reporter,
) -> None:
    """Execute notebooks as the schedule lets them start, and fill in their outcomes.

    Errors are shown, not raised.
    """
    from fedsynth_lib.bundle.execution import Execution

    running: list[Execution] = []
    closed: list[Execution] = []  # whose pages are not converted yet
    ended: queue.SimpleQueue[Execution] = queue.SimpleQueue()

    def begin(notebook: Notebook) -> None:
        outcome = outcomes[notebook.stem]
        given = {"profile": outcome.profile, "jobs": schedule.share(notebook)}
        given = given | values[notebook.stem]
        given = {name: value for name, value in given.items() if name in notebook.parameters}
        line = reporter.start(notebook, schedule.minutes[notebook.stem])
        places = {"root": root, "kernels": kernels, "line": line, "ended": ended}
        running.append(Execution(notebook, given, outcome, **places))

    def close(execution: Execution) -> None:
        running.remove(execution)
        closed.append(execution)
        if failure := execution.close():
            reporter.say(failure)
        reporter.end(execution.notebook, str(execution.outcome))

    try:
        while schedule.waiting or running:
            while notebook := schedule.start([each.notebook for each in running]):
                begin(notebook)
            while closed:  # beside the notebooks that have just started
                closed.pop().convert()
            with contextlib.suppress(queue.Empty):
                close(ended.get(timeout=4))  # looking at memory is slow
            for execution in running:
                execution.look()
            reporter.tick()
            bad = [stem for stem, outcome in outcomes.items() if outcome.status == "failed"]
            for notebook, lacking in schedule.drop(bad):
                reporter.end(notebook, f"not run, it needs {', '.join(lacking)}")
    finally:
        for execution in tuple(running):  # after Ctrl-C
            close(execution)


if __name__ == "__main__":
    status = heard(main)
    sys.stderr.flush()
    os._exit(status)  # a kernel that was killed must not be waited for
