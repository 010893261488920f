"""Kernels, forked from the warm process or cold: as clean as a fresh one, alike in results, and
gone at the end."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace

import psutil
import pytest
from tiny import alive, wait_for, write

from fedsynth_lib.bundle import kernels, runner, warm
from fedsynth_lib.bundle.notebooks import read_notebooks

pytestmark = pytest.mark.usefixtures("no_report")
ROOT = Path(__file__).resolve().parents[1]
ON_LINUX = pytest.mark.skipif(sys.platform != "linux", reason="kernels are forked on Linux only")

FACTS = """import json, os, random, sys, threading
import numpy as np
import matplotlib
facts = {"folder": os.getcwd(), "log": os.environ["FEDSYNTH_RUN_LOG"], "argv": sys.argv[0], "path": sys.path}
facts |= {"left": os.environ.get("LEFT_BEHIND"), "random": [random.random(), np.random.rand()]}
facts |= {"backend": matplotlib.rcParams["backend"], "main": __name__, "threads": os.environ["OMP_NUM_THREADS"]}
facts |= {"mark": os.environ["FEDSYNTH_RUN_MARK"], "name": facts["log"].rsplit("/", 1)[-1]}
facts |= {"leader": os.getsid(0) == os.getpid(), "started": "leaked" in vars(np)}
facts |= {"utf8": sys.flags.utf8_mode}
from ipykernel import get_connection_info
facts |= {"transport": get_connection_info(unpack=True)["transport"]}
os.environ["LEFT_BEHIND"] = "yes"
np.leaked = True
np.random.seed(1)
json.dump(facts, open(facts["name"] + ".facts", "w"))"""

SUMS = """import json, torch, numpy as np
from concurrent.futures import ProcessPoolExecutor
import joblib
torch.manual_seed(0)
model = torch.nn.Linear(300, 300)
loss = (model(torch.randn(2000, 300)) ** 2).mean()
loss.backward()
sums = [float(loss), float(model.weight.grad.sum()), float((np.ones((400, 400)) @ np.ones((400, 400))).sum())]
sums += joblib.Parallel(n_jobs=2)(joblib.delayed(abs)(number) for number in (-1, -2))
json.dump([sums, torch.get_num_threads()], open("sums.json", "w"))"""

IMPORTS = "import torch, numpy as np, pandas as pd, matplotlib.pyplot as plt"


def cold(monkeypatch) -> None:
    monkeypatch.setattr(kernels.sys, "platform", "another")


@pytest.fixture(params=["warm", "cold"] if sys.platform == "linux" else ["cold"])
def way(request, monkeypatch):
    if request.param == "cold":
        cold(monkeypatch)
    return request.param


@pytest.mark.slow
def test_each_notebook_has_a_clean_kernel_of_its_own(home, way):
    for stem in ("00_a", "01_b"):
        write(
            home,
            stem,
            "import numpy as np, matplotlib",
            FACTS,
            "import warnings; warnings.warn('far off')",
        )
    assert runner.main(["--jobs", "1"]) == 0
    first, second = (
        json.loads((home / "notebooks" / f"{stem}.jsonl.facts").read_text())
        for stem in ("00_a", "01_b")
    )
    for facts in (first, second):
        assert facts["folder"] == str(home / "notebooks") and facts["main"] == "__main__"
        assert facts["left"] is None and not facts["started"] and facts["leader"]
        assert Path(facts["argv"]).stem == "ipykernel_launcher" and facts["path"].count("") == 1
        assert facts["backend"] == warm.INLINE
        assert facts["utf8"] == 1
        # a port that was free may be taken by another kernel or a server
        assert sys.platform == "win32" or facts["transport"] == "ipc"
    said = json.loads((home / "figures/executed/paper/00_a.ipynb").read_text())["cells"][-1]
    assert said["outputs"][0]["text"] == ["UserWarning: far off\n"]  # and no machine's folder
    assert first["log"] != second["log"] and first["mark"] != second["mark"]
    assert set(first["random"]).isdisjoint(second["random"])  # seeded by the system, each


@pytest.mark.slow
@ON_LINUX
def test_a_forked_kernel_computes_as_a_cold_one_does_with_threads_and_worker_processes(
    home, monkeypatch
):
    monkeypatch.setenv("OMP_NUM_THREADS", "2")
    write(home, "00_sums", IMPORTS, SUMS)
    write(home, "01_other", "x = 1")
    made = []
    for chosen in ("0,1", "0"):  # one alone has a cold kernel
        assert runner.main(["--jobs", "1", "--only", chosen]) == 0
        made.append((home / "notebooks" / "sums.json").read_text())
        (home / "notebooks" / "sums.json").unlink()
    assert made[0] == made[1]
    assert json.loads(made[0])[1] == 2


@pytest.mark.slow
@ON_LINUX
def test_kernels_are_forked_only_from_a_process_that_works_without_threads():
    """Threads do not survive a fork: a library that starts one at import must be left out of
    LIBRARIES."""
    notebooks = read_notebooks(ROOT / "notebooks")
    modules = kernels.imported(text for notebook in notebooks for text in notebook.code)
    assert {"torch", "pandas", "fedsynth_lib.runs.grid"} <= set(modules)
    look = "from fedsynth_lib.bundle import warm; import os, sys; warm.warm_up(sys.argv[1:])\n"
    look += (
        "print([open(f'/proc/self/task/{each}/comm').read().strip() for each in "
        "os.listdir('/proc/self/task')][1:])\n"
    )
    look += "print('matplotlib_inline.backend_inline' in sys.modules)"
    env = {
        **os.environ,
        "PYTHONPATH": str(ROOT),
        "OMP_NUM_THREADS": "1",
        "OPENBLAS_NUM_THREADS": "1",
    }
    said = subprocess.run(
        [sys.executable, "-c", look, *modules], env=env, capture_output=True, text=True, check=True
    )
    threads, chosen = said.stdout.splitlines()[-2:]
    # Arrow's; it starts anew after a fork
    assert set(json.loads(threads.replace("'", '"'))) <= {"jemalloc_bg_thd"}
    # the backend is chosen in the kernel, which has the notebook's display
    assert chosen == "False"


DIES = """import os, signal
os.kill(os.getpid(), signal.SIGKILL)"""

LEAVES = """import subprocess, sys, os
child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"], start_new_session=True)
open("child.pid", "w").write(str(child.pid))
forked = os.fork()
if forked == 0:
    import time
    time.sleep(600)
    os._exit(0)
open("forked.pid", "w").write(str(forked))"""


@pytest.mark.slow
def test_a_kernel_that_dies_is_noticed_and_what_a_notebook_leaves_behind_is_ended_with_it(
    home, way, capsys
):
    write(home, "00_dies", DIES)
    write(home, "01_leaves", LEAVES)
    write(home, "02_looks", "import time; time.sleep(1)")
    begin = time.monotonic()
    assert runner.main(["--jobs", "1"]) == 1
    assert time.monotonic() - begin < 300  # what it leaves behind sleeps for 600
    out = capsys.readouterr().out
    assert "the kernel died" in out and "01_leaves: ok" in out and "02_looks: ok" in out
    for name in ("child", "forked"):
        pid = int((home / "notebooks" / f"{name}.pid").read_text())
        assert not psutil.pid_exists(pid) or not alive(psutil.Process(pid))


@pytest.mark.slow
@ON_LINUX
def test_kernels_start_cold_where_the_warm_process_dies_before_it_answers(home, monkeypatch):
    (home / "deadly.py").write_text("import os, time\ntime.sleep(3)\nos._exit(1)")
    monkeypatch.setenv("PYTHONPATH", str(home))
    monkeypatch.setattr(kernels, "imported", lambda _: ["deadly"])
    for stem in ("00_asks_before", "01_asks_after"):
        write(home, stem, "x = 1")
    assert runner.main(["--jobs", "1"]) == 0


def ignores(process, number):
    status = Path(f"/proc/{process.pid}/status").read_text(encoding="utf-8")
    mask = next(line.split()[1] for line in status.splitlines() if line.startswith("SigIgn:"))
    return int(mask, 16) >> (number - 1) & 1


@pytest.mark.slow
@ON_LINUX
def test_signals_reach_a_forked_kernel_and_its_stand_in_ends_with_it(tmp_path):
    env = {"PYTHONPATH": str(ROOT)}
    with kernels.started([], env) as made:
        kernels.warm_process(made.scratch, [], env)
        config = made.scratch / "connection.json"
        launch = [sys.executable, "-P", "-m", "fedsynth_lib.bundle.warm", "launch"]
        launch += [str(made.scratch / "warm"), str(tmp_path / "pid"), ".", "-f", str(config)]
        env = {**os.environ, **env, kernels.MARK: str(made.scratch / "a")}
        kernel = subprocess.Popen(launch, env=env)
        wait_for(lambda: config.exists() and config.read_text(), 120)
        forked = psutil.Process(int((tmp_path / "pid").read_text()))
        assert forked.pid != kernel.pid and forked.ppid() != kernel.pid
        wait_for(lambda: ignores(forked, signal.SIGINT), 120)  # its file is there before that
        kernel.send_signal(signal.SIGINT)  # a kernel heeds it only while a cell runs
        time.sleep(0.5)
        assert alive(forked)
        kernel.send_signal(signal.SIGTERM)
        kernel.wait(120)
        wait_for(lambda: not alive(forked), 120)


@pytest.mark.slow
def test_only_modules_of_known_libraries_are_imported_before_the_fork():
    cells = [
        "import numpy as np\nimport ray",
        "from fedsynth_lib.figures import special\nfrom my_own import x",
        "%magic",
        "import os",
    ]
    assert kernels.imported(cells) == ["numpy", "fedsynth_lib.figures"]


@pytest.mark.slow
def test_a_kernel_is_reached_by_ports_where_the_path_is_too_long_for_a_socket(tmp_path):
    long = kernels.Kernels(tmp_path / ("x" * kernels.LONGEST_SOCKET), {})
    assert long.config(SimpleNamespace(stem="00_a")) == {}
