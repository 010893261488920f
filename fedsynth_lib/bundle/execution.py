"""One notebook being executed: papermill in a thread, the files it leaves, and how it ended."""

import contextlib
import json
import queue
import threading
import time
from collections.abc import Mapping
from datetime import datetime
from pathlib import Path
from typing import Any

import papermill
from papermill.clientwrap import PapermillNotebookClient
from papermill.engines import NBClientEngine, NotebookExecutionManager, papermill_engines

from fedsynth_lib.bundle import report
from fedsynth_lib.bundle.console import Line, Outcome, explain, read_log, remember
from fedsynth_lib.bundle.kernels import Kernels
from fedsynth_lib.bundle.notebooks import Notebook
from fedsynth_lib.core.store import within, write_atomically
from fedsynth_lib.runs.rows import RESULTS

BETWEEN_SAVES = 5.0  # seconds


def name_places(executed: Path) -> None:
    """Name input and output of an executed copy from the project on.

    Papermill notes where they are on this machine.
    """
    notebook = json.loads(executed.read_text(encoding="utf-8"))
    noted = notebook["metadata"]["papermill"]
    noted |= {name: within(Path(noted[name])) for name in ("input_path", "output_path")}
    text = json.dumps(notebook, ensure_ascii=False, indent=1) + "\n"
    write_atomically(executed, text.encode())


class SparingEngine(NBClientEngine):
    """Papermill's engine, which saves the copy every few seconds instead of twice a cell.

    To write a notebook with its pictures takes longer than most of its cells.
    """

    @classmethod
    def execute_managed_notebook(
        cls, manager: NotebookExecutionManager, kernel_name: str, **options: Any
    ) -> None:
        """Run the cells. Papermill saves once more afterwards, also where a cell has failed."""
        save = manager.save

        def save_sometimes() -> None:
            if (manager.now() - manager.last_save_time).total_seconds() > BETWEEN_SAVES:
                save()

        manager.save = save_sometimes
        try:
            super().execute_managed_notebook(manager, kernel_name, **options)
        finally:
            manager.save = save


papermill_engines.register("sparing", SparingEngine)


class Execution(threading.Thread):
    """Runs papermill, so that the main thread is free for the clock and for Ctrl-C.

    It puts itself into `ended` then.

    The executed copy lands in figures/executed/<profile>/, the run log in figures/runs/<profile>/.
    An error is kept.
    """

    def __init__(
        self,
        notebook: Notebook,
        given: Mapping[str, Any],
        outcome: Outcome,
        *,
        root: Path,
        kernels: Kernels,
        line: Line,
        ended: "queue.SimpleQueue[Execution]",
    ):
        super().__init__(daemon=True)
        self.notebook, self.given, self.outcome = notebook, dict(given), outcome
        self.root, self.kernels, self.line, self.ended = root, kernels, line, ended
        self.error: BaseException | None = None
        self.finished = False
        self.executed = root / "figures" / "executed" / outcome.profile / notebook.path.name
        self.log = root / "figures" / "runs" / outcome.profile / f"{notebook.stem}.jsonl"
        for path in (self.executed, self.log):
            path.parent.mkdir(parents=True, exist_ok=True)
            path.unlink(missing_ok=True)
        outcome.status = "stopped"  # unless it comes to its end
        self.begin = time.monotonic()
        self.start()

    def run(self) -> None:
        """Execute the notebook, and keep its error."""
        try:
            # To an Output widget nbclient sends messages on the socket on which it awaits the
            # kernel's reply, and zmq may then never tell that the reply is there. Without this,
            # what a widget shows is an output of its cell.
            PapermillNotebookClient.on_comm_open_jupyter_widget = lambda client, message: None
            papermill.execute_notebook(
                input_path=self.notebook.path,
                output_path=self.executed,
                parameters=self.given,
                kernel_name=self.kernels.spec(self.notebook, {"FEDSYNTH_RUN_LOG": str(self.log)}),
                language="python",
                engine_name="sparing",
                progress_bar=False,
                stderr_file=self.line,
                start_timeout=300,
                config=self.kernels.config(self.notebook),
            )
        except BaseException as error:
            self.error = error
        with contextlib.suppress(OSError, ValueError, KeyError):  # where it did not come to a copy
            name_places(self.executed)
        self.finished = True
        self.ended.put(self)

    def look(self) -> None:
        """Keep the largest memory seen."""
        self.outcome.memory_gib = max(
            self.outcome.memory_gib, self.kernels.memory_gib(self.notebook)
        )

    def close(self) -> str | None:
        """End what is left of the kernel and fill in the outcome; explain an error, if any."""
        stopped = not self.finished  # looked at before its kernel is killed, which is an error too
        self.kernels.end(self.notebook)
        self.join(5)
        if not stopped:
            self.outcome.status = "ok" if self.error is None else "failed"
        self.outcome.minutes = round((time.monotonic() - self.begin) / 60, 2)
        self.outcome.finished = datetime.now().isoformat(" ", "minutes")
        vars(self.outcome).update(read_log(self.log))
        remember(self.root, self.notebook.stem, self.outcome)
        failed = self.outcome.status == "failed"
        return explain(self.notebook, self.error, self.executed) if failed else None

    def convert(self) -> None:
        """Convert the copy for its page in the report; the report itself tells of errors."""
        if self.outcome.status == "ok" and self.outcome.profile == RESULTS:
            with contextlib.suppress(Exception):
                report.notebook_body(self.executed, self.root / "figures" / "report")
