"""Runs the notebooks in order, each in a kernel of its own; run_all.sh sets up and then calls this.

    python -m fedsynth_lib.runner --profile smoke --only 1,10 -p seed=3

What a notebook computed lies in the run cache (experiment.py), so a run that was stopped is simply
started again. Options and parameters are checked before anything starts; heavy imports come after that.
"""

import argparse
import contextlib
import json
import os
import shutil
import signal
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

from fedsynth_lib.notebooks import BadInput, Notebook, parameters_for, read_notebooks, select
from fedsynth_lib.reporting import Outcome, Reporter, explain, listing, read_last, read_log, remember, summary

if TYPE_CHECKING:
    from fedsynth_lib.guard import Guard

PROFILES = ("smoke", "quick", "paper")
MOST_JOBS = 4  # by default; each job holds its own tables and models in memory
QUIET = {"FLWR_TELEMETRY_ENABLED": "0", "RAY_USAGE_STATS_ENABLED": "0", "DO_NOT_TRACK": "1"}
THREADS = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NUMEXPR_NUM_THREADS")


class Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise BadInput(f"{message}; see ./run_all.sh --help.")


def parse(argv: Sequence[str] | None) -> argparse.Namespace:
    """The options; BadInput for one that there is not."""
    parser = Parser(prog="./run_all.sh", description="Make all tables and figures.", allow_abbrev=False)
    add = parser.add_argument
    add("--profile", choices=PROFILES, default="quick", help="scale of the experiments (default: quick)")
    add("--only", action="append", default=[], metavar="N,N", help="these notebooks: numbers, names or parts of names")
    add("--from", dest="start", metavar="N", help="this notebook and all after it")
    add("-p", dest="given", action="append", default=[], metavar="NAME=VALUE", help="for each notebook that has it")
    add("--jobs", type=int, metavar="N", help=f"cells at a time (default: one per core, {MOST_JOBS} at most)")
    add("--fresh", action="store_true", help="forget the cached cells of the chosen notebooks")
    add("--list", action="store_true", help="show the notebooks, their exhibits, minutes and last status")
    add("--check", action="store_true", help="check options and parameters, run nothing")
    add("--tests", action="store_true", help="run the tests instead; further options go to pytest")
    arguments = parser.parse_args(argv)
    if arguments.tests:
        raise BadInput("the tests are started by ./run_all.sh --tests.")
    if arguments.jobs is not None and arguments.jobs < 1:
        raise BadInput(f"--jobs is {arguments.jobs}: give 1 or more.")
    return arguments


def main(argv: Sequence[str] | None = None) -> int:
    """Exit status: 0 all well, 1 a notebook failed, 2 asked for what cannot be, 130 stopped by Ctrl-C."""
    root = Path(os.environ.get("FEDSYNTH_HOME") or Path(__file__).resolve().parents[1])
    try:
        asked = parse(argv)
        chosen = select(
            read_notebooks(root / "notebooks"), ",".join(asked.only).split(",") if asked.only else (), asked.start
        )
        values = parameters_for(chosen, asked.given)
    except BadInput as error:
        print(f"run_all.sh: {error}", file=sys.stderr)
        return 2
    if asked.list:
        print(listing(chosen, read_last(root)))
    if asked.list or asked.check:
        return 0
    try:
        outcomes = run(chosen, values, root=root, profile=asked.profile, jobs=asked.jobs, fresh=asked.fresh)
    except KeyboardInterrupt:
        return 130
    return int(any(outcome.status != "ok" for outcome in outcomes.values()))


def run(
    chosen: Sequence[Notebook],
    values: dict[str, dict[str, Any]],
    *,
    root: Path,
    profile: str,
    jobs: int | None = None,
    fresh: bool = False,
) -> dict[str, Outcome]:
    """Execute the notebooks one after another, print the table, and return stem -> Outcome.

    One that needs a notebook which failed in this run is not run. Figures land in figures/<profile>/,
    executed copies in figures/executed/<profile>/, the table in figures/runs/last.json; the report,
    figures/report/index.html, is made anew from all that there is, also where notebooks failed.
    """
    import joblib

    from fedsynth_lib.guard import guarded

    cores = joblib.cpu_count()
    jobs = min(jobs or MOST_JOBS, cores)
    threads = os.environ.get("OMP_NUM_THREADS") or str(max(1, cores // jobs))
    env = {**QUIET, **dict.fromkeys(THREADS, threads), **({"FEDSYNTH_FRESH": f"{time.time():.0f}"} if fresh else {})}
    signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell switches it off for background jobs
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    outcomes = {notebook.stem: Outcome("not run", profile) for notebook in chosen}
    try:
        with guarded() as guard, Reporter(len(chosen)) as reporter:
            reporter.say(
                f"profile {profile}, notebooks: {len(chosen)}, cells at a time: {jobs}, threads each: {threads}"
            )
            for notebook in chosen:
                if lacking := [need for need in notebook.needs if need in outcomes and outcomes[need].status != "ok"]:
                    reporter.end(notebook, f"not run, it needs {', '.join(lacking)}")
                    continue
                if fresh:
                    forget(notebook, root)
                given = {"profile": profile, "jobs": jobs, **values[notebook.stem]}
                given = {name: value for name, value in given.items() if name in notebook.parameters}
                run_one(notebook, given, outcomes[notebook.stem], root=root, env=env, guard=guard, reporter=reporter)
        from fedsynth_lib.report import refresh

        print(refresh(), flush=True)
    finally:  # after Ctrl-C too
        print("\n" + summary(outcomes), flush=True)
    return outcomes


def forget(notebook: Notebook, root: Path) -> None:
    """Delete the cached cells of a notebook's grids."""
    for grid in notebook.grids:
        shutil.rmtree(root / "data" / "cache" / "cells" / grid, ignore_errors=True)


def run_one(
    notebook: Notebook,
    given: dict[str, Any],
    outcome: Outcome,
    *,
    root: Path,
    env: dict[str, str],
    guard: "Guard",
    reporter: Reporter,
) -> None:
    """Execute one notebook while the reporter ticks, and fill in its outcome; an error is shown, not raised."""
    from fedsynth_lib.guard import memory_gib

    executed = root / "figures" / "executed" / outcome.profile / notebook.path.name
    log = root / "figures" / "runs" / outcome.profile / f"{notebook.stem}.jsonl"
    for path in (executed, log):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.unlink(missing_ok=True)
    outcome.status = "stopped"  # unless it comes to its end
    reporter.start(notebook, notebook.minutes.get(outcome.profile))
    begin = time.monotonic()
    with kernel(guard.scratch, {**env, **guard.env, "FEDSYNTH_RUN_LOG": str(log)}):
        worker = Worker(notebook.path, executed, given, reporter)
        try:
            while worker.is_alive():
                worker.join(0.5)
                outcome.memory_gib = max(outcome.memory_gib, memory_gib())
                reporter.tick()
            outcome.status = "ok" if worker.error is None else "failed"
            if worker.error is not None:
                reporter.say(explain(notebook, worker.error, executed))
        finally:
            guard.end_all()
            worker.join(5)
            outcome.minutes = round((time.monotonic() - begin) / 60, 2)
            outcome.finished = datetime.now().isoformat(" ", "minutes")
            outcome.add(read_log(log))
            remember(root, notebook.stem, outcome)
            reporter.end(notebook, str(outcome))


class Worker(threading.Thread):
    """Papermill in a thread, so that the main thread is free for the clock and for Ctrl-C."""

    def __init__(self, path: Path, executed: Path, settings: dict[str, Any], stderr: "Reporter"):
        super().__init__(daemon=True)
        self.error: BaseException | None = None
        self.arguments = {"input_path": path, "output_path": executed, "parameters": settings, "cwd": path.parent}
        self.stderr = stderr
        self.start()

    def run(self) -> None:
        import papermill

        try:
            papermill.execute_notebook(
                **self.arguments,
                kernel_name="python3",
                language="python",
                progress_bar=False,
                stderr_file=self.stderr,
                start_timeout=300,
            )
        except BaseException as error:
            self.error = error


@contextlib.contextmanager
def kernel(scratch: Path, env: dict[str, str]) -> Iterator[None]:
    """Makes `python3` this very interpreter with this environment, whatever kernels and profiles the user has."""
    here = str(Path(__file__).resolve().parents[1])
    env = {
        **env,
        "PYTHONPATH": os.pathsep.join(filter(None, (here, os.environ.get("PYTHONPATH")))),
        "IPYTHONDIR": str(scratch / "ipython"),
    }
    command = [sys.executable, "-m", "ipykernel_launcher", "-f", "{connection_file}", "--log-level=CRITICAL"]
    spec = {"argv": command, "display_name": "Python 3", "language": "python", "env": env}
    folder = scratch / "kernels" / "python3"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "kernel.json").write_text(json.dumps(spec), encoding="utf-8")
    before = {name: os.environ.get(name) for name in ("JUPYTER_PATH", "JUPYTER_RUNTIME_DIR")}
    os.environ.update(JUPYTER_PATH=str(scratch), JUPYTER_RUNTIME_DIR=str(scratch / "runtime"))
    try:
        yield
    finally:
        for name, value in before.items():
            os.environ.pop(name) if value is None else os.environ.update({name: value})


if __name__ == "__main__":
    status = main()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(status)  # a kernel that was killed must not be waited for
