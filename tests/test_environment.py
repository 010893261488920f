"""The environment: locks that are exact, complete and in step; a set-up that survives being killed;
the doctor."""

import hashlib
import os
import re
import shutil
import subprocess
import sys
import tomllib
import zipfile
from importlib.metadata import requires, version
from pathlib import Path

import pytest
import yaml
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version

from fedsynth_lib.bundle import doctor, environment
from fedsynth_lib.bundle.commands import app

ROOT = Path(__file__).resolve().parents[1]
ASKED = ["requirements.in", "requirements-all.in"]
PYTHONS = ["3.11", "3.12", "3.13"]


def lines(name: str) -> list[str]:
    """The requirement lines of a file, without comments."""
    text = (ROOT / name).read_text(encoding="utf-8")
    bare = (line.partition("#")[0].partition(" --hash")[0].strip() for line in text.splitlines())
    return [line for line in bare if line]


def locked(name: str, python: str) -> dict[str, Version]:
    """Package -> version on Linux with this Python."""
    where = {
        "python_version": python,
        "python_full_version": f"{python}.1",
        "sys_platform": "linux",
        "os_name": "posix",
    }
    wanted = map(Requirement, lines(name))
    return {
        canonicalize_name(each.name): Version(str(each.specifier).removeprefix("=="))
        for each in wanted
        if each.marker is None or each.marker.evaluate(where)
    }


def exact_torch() -> Version:
    """The version of torch, which no lock has: its hashes differ between builds."""
    return Version(environment.pins(ROOT / "requirements-all.in")["torch"])


# --- files ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["requirements.lock", "requirements-tests.lock"])
def test_every_line_of_a_lock_is_one_exact_public_version_with_the_hashes_of_its_files(name):
    packages = [line for line in (ROOT / name).read_text("utf-8").splitlines() if line[0] != "#"]
    for line in packages:
        pin = r"[a-z0-9][a-z0-9._-]*==[0-9][0-9a-z.]*( ; .+)?"
        assert re.fullmatch(pin + "( --hash=sha256:[0-9a-f]{64})+", line), line
        # torch's build decides
        assert not re.match("(nvidia-|cuda-|triton=|torch=)", line), line


@pytest.mark.parametrize("python", PYTHONS)
def test_the_locks_hold_what_the_in_files_ask_for_once(python):
    lock, tests = locked("requirements.lock", python), locked("requirements-tests.lock", python)
    assert not lock.keys() & tests.keys()
    lock["torch"] = exact_torch()
    asked = [(name, lock) for name in ASKED]
    for name, versions in (*asked, ("requirements-tests.in", lock | tests)):
        for each in map(Requirement, lines(name)):
            assert versions[canonicalize_name(each.name)] in each.specifier, each


def test_the_locks_are_complete():
    """Whatever a locked package needs here is locked too, except torch and the CUDA packages of its
    build."""
    python = ".".join(map(str, sys.version_info[:2]))
    known = (
        locked("requirements.lock", python).keys()
        | locked("requirements-tests.lock", python).keys()
    )
    waiting = [
        Requirement(line) for name in (*ASKED, "requirements-tests.in") for line in lines(name)
    ]
    seen = set()
    while waiting:
        each = waiting.pop()
        name = canonicalize_name(each.name)
        if (name, tuple(sorted(each.extras))) in seen or re.match("nvidia-|cuda-|triton$", name):
            continue
        seen.add((name, tuple(sorted(each.extras))))
        assert name in known or name == "torch"
        for need in map(Requirement, requires(name) or []):
            extras = [{"extra": extra} for extra in ("", *each.extras)]
            if need.marker is None or any(need.marker.evaluate(extra) for extra in extras):
                waiting.append(need)
    assert len(seen) > 100


def test_environment_yml_names_the_same_packages_as_the_lock():
    content = yaml.safe_load((ROOT / "environment.yml").read_text(encoding="utf-8"))
    python, _, pip = content["dependencies"]
    python = python.removeprefix("python=")
    assert python in PYTHONS
    assert pip["pip"] == [*lines("requirements.lock"), f"torch=={exact_torch()}", "--editable ."]


def test_all_files_mean_the_same_pythons():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    assert project["project"]["requires-python"] == ">=3.11,<3.14"
    dynamic = project["tool"]["setuptools"]["dynamic"]
    assert dynamic["dependencies"] == {"file": ["requirements.in"]}
    assert dynamic["optional-dependencies"]["all"] == {"file": ["requirements-all.in"]}
    assert dynamic["optional-dependencies"]["tests"] == {"file": ["requirements-tests.in"]}
    ci = yaml.safe_load((ROOT / ".github" / "workflows" / "ci.yml").read_text(encoding="utf-8"))
    assert ci["jobs"]["run"]["strategy"]["matrix"]["python"] == PYTHONS
    assert "(3, 11) <= sys.version_info[:2] <= (3, 13)" in (ROOT / "run_all.sh").read_text(
        encoding="utf-8"
    )


def test_workflows_run_what_exists_with_pinned_actions_and_publish_what_they_build():
    commands = {each.name or each.callback.__name__ for each in app.registered_commands}
    for path in (ROOT / ".github" / "workflows").glob("*.yml"):
        jobs = yaml.safe_load(path.read_text(encoding="utf-8"))["jobs"].values()
        steps = [step for job in jobs for step in job["steps"]]
        assert all(
            re.fullmatch(r"actions/[\w-]+@v\d+", step.get("uses", "actions/x@v1")) for step in steps
        )
        for program, *words in (
            step["run"].partition(" #")[0].split() for step in steps if "run" in step
        ):
            assert os.access(ROOT / program, os.X_OK), program
            assert program != "./run_all.sh" or not words or words[0] in commands, words
    site = yaml.safe_load((ROOT / ".github" / "workflows" / "site.yml").read_text(encoding="utf-8"))
    build, publish = site["jobs"]["build"]["steps"], site["jobs"]["publish"]
    folder, ran = build[-1]["with"]["path"], [step["run"] for step in build if "run" in step]
    ran = [command.partition(" #")[0] for command in ran]
    assert ran == ["./run_all.sh", f".ci/lite {folder}/lite", f"./run_all.sh site {folder}"]
    assert site["permissions"] == {"contents": "read", "pages": "write", "id-token": "write"}
    assert publish["needs"] == "build" and publish["steps"][-1]["uses"].startswith(
        "actions/deploy-pages@"
    )
    assert "secrets" not in (ROOT / ".github" / "workflows" / "site.yml").read_text(
        encoding="utf-8"
    )
    assert {*site[True]} == {"push", "workflow_dispatch"}  # YAML 1.1 reads `on` as true


SMALL = """\
import sys
from importlib.metadata import packages_distributions
{given}
class Missing:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in absent:
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)
absent = {{module for module, of in packages_distributions().items() if set(of) & set(names)}}
assert {{"torch", "papermill", "pgmpy"}} <= absent
sys.meta_path.insert(0, Missing())
from fedsynth_lib.bundle.commands import main
sys.exit(main(sys.argv[1:]))
"""


@pytest.mark.slow
def test_a_table_of_ones_own_needs_the_small_set_of_packages_alone(tmp_path):
    """draft, synth with scores and pictures, and check, with nothing that is in requirements-all.in
    alone; a method that needs more says what to install."""
    first, rest = ({Requirement(line).name for line in lines(name)} for name in ASKED)
    text = SMALL.format(given=f"names = {sorted(rest - first)}")
    table = tmp_path / "people.csv"
    table.write_text(
        "age,ill\n" + "".join(f"{20 + k % 50},{['no', 'yes'][k % 2]}\n" for k in range(400))
    )

    def fedsynth(*words):
        return subprocess.run(
            [sys.executable, "-P", "-c", text, *map(str, words)],
            cwd=tmp_path,
            env=os.environ | {"FEDSYNTH_HOME": str(tmp_path / "home"), "PYTHONPATH": str(ROOT)},
            capture_output=True,
            text=True,
            encoding="utf-8",
        )

    assert fedsynth("draft", table).returncode == 0
    (tmp_path / "internal" / "people.draft.toml").rename(tmp_path / "people.toml")
    made = fedsynth("synth", table)
    assert made.returncode == 0, made.stderr
    assert "no scores" not in made.stdout + made.stderr
    assert "no pictures" not in made.stdout + made.stderr
    checked = fedsynth("check", table, tmp_path / "people_rehearsal.csv")
    assert checked.returncode == 0, checked.stdout + checked.stderr
    more = fedsynth("synth", table, "--method", "fedvae", "--again")
    assert more.returncode == 2
    assert (
        "this needs the package torch, which is not installed: pip install '.[all]'" in more.stderr
    )


def test_no_file_of_the_set_up_names_where_packages_come_from():
    named = re.compile("index-url|find-links|://|pypi")
    files = ["run_all.sh", "environment.yml", "pyproject.toml", ".ci/run", ".ci/lock", ".ci/wheel"]
    files += [".github/workflows/ci.yml", ".github/workflows/site.yml", *ROOT.glob("requirements*")]
    assert [each for each in files if named.search((ROOT / each).read_text("utf-8"))] == []


def test_ruff_has_nothing_to_say():
    for command in (["check"], ["format", "--check"]):
        found = subprocess.run(
            [sys.executable, "-m", "ruff", *command, str(ROOT)], capture_output=True, text=True
        )
        assert found.returncode == 0, found.stdout + found.stderr


# --- this ----------------------------------------------------------------------------------------
# Python


def test_this_environment_is_the_locked_one():
    wanted = [ROOT / name for name in environment.WANTED]
    assert environment.unmet(*wanted, ROOT / "requirements-tests.lock") == []


def test_unmet_tells_what_is_missing_and_what_differs(tmp_path):
    lock = tmp_path / "lock"
    public = version("torch").partition("+")[0]  # 2.13.0+cpu satisfies 2.13.0
    lock.write_text(
        f"# a comment\ntorch=={public}\nno-such-package==1.0\nnumpy==0.1\n"
        "never-asked-for==1 ; python_full_version < '3.0' --hash=sha256:00\n"
        f"scipy=={version('scipy')} ; python_full_version > '3.0' --hash=sha256:00 --hash=sha256:11\n"
        "whatever-version\n"
    )
    assert environment.unmet(lock) == [
        "no-such-package is missing",
        f"numpy is {version('numpy')}, not 0.1",
    ]
    assert environment.main([str(lock)]) == 1
    lock.write_text(f"torch=={public}\n")
    assert environment.main([str(lock)]) == 0


def test_the_doctor_reports_and_does_not_break(capsys, monkeypatch):
    monkeypatch.setattr(doctor, "answering", lambda url: False)
    assert doctor.main() == 0
    out = capsys.readouterr().out
    assert f"numpy {version('numpy')}" in out and "cores: " in out and "GPU: " in out
    assert re.search(r"synthfs +generated", out) and "NOT A" not in out
    monkeypatch.setenv("FEDSYNTH_MIRROR", "/no/such/folder")
    doctor.main()
    assert (
        "NOT AVAILABLE: BadInput: FEDSYNTH_MIRROR is '/no/such/folder'" in capsys.readouterr().out
    )


# --- run_all.sh ----------------------------------------------------------------------------------


def run_all(project: Path, *options: str, **env: str) -> subprocess.CompletedProcess:
    """Run a project's run_all.sh with this Python first on PATH."""
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.defpath}"
    clean = {
        name: value
        for name, value in os.environ.items()
        if name not in ("FEDSYNTH_HOME", "PYTHONPATH")
    }
    return subprocess.run(
        [shutil.which("bash"), str(project / "run_all.sh"), *options],
        env={**clean, "PATH": path, **env},
        cwd=project.parent,
        capture_output=True,
        text=True,
    )


@pytest.fixture
def project(tmp_path) -> Path:
    """A copy of what sets up, with one small package in its lock that no environment has yet."""
    project = tmp_path / "a project"
    for room in ("bundle", "core"):
        (project / "fedsynth_lib" / room).mkdir(parents=True)
    # before there are any packages
    needed = ("__init__", "console", "environment", "estimate", "notebooks", "runner")
    files = ("__init__.py", *(f"bundle/{module}.py" for module in needed))
    files += ("core/__init__.py", "core/errors.py", "core/store.py")
    for name in ("run_all.sh", *(f"fedsynth_lib/{file}" for file in files)):
        shutil.copy(ROOT / name, project / name)
    (project / "notebooks").mkdir()
    (project / "notebooks" / "00_a.ipynb").write_text('{"cells": []}')
    (project / "requirements.lock").write_text(wheel(tmp_path, "tinylib", "1.0"))
    (project / "requirements-all.in").write_text("tinylib\n")
    (project / "requirements-tests.lock").write_text("pytest==0.0\n")
    return project


def wheel(folder: Path, name: str, number: str) -> str:
    """The smallest installable package; returns its line in a lock."""
    info, path = f"{name}-{number}.dist-info", folder / f"{name}-{number}-py3-none-any.whl"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr(f"{name}.py", f"number = '{number}'\n")
        archive.writestr(
            f"{info}/METADATA", f"Metadata-Version: 2.1\nName: {name}\nVersion: {number}\n"
        )
        archive.writestr(
            f"{info}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
        )
        archive.writestr(f"{info}/RECORD", "")
    return f"{name}=={number} --hash=sha256:{hashlib.sha256(path.read_bytes()).hexdigest()}\n"


@pytest.mark.slow
def test_set_up_is_made_once_repaired_after_a_kill_and_renewed_with_the_lock(project, tmp_path):
    offline = {"PIP_NO_INDEX": "1", "PIP_FIND_LINKS": str(tmp_path), "PIP_CONFIG_FILE": os.devnull}
    python, lock = project / ".venv" / "bin" / "python", project / "requirements.lock"

    def number() -> str:
        code = "import tinylib, fedsynth_lib.bundle.environment; print(tinylib.number, fedsynth_lib.__file__)"
        return subprocess.check_output([python, "-I", "-c", code], cwd=tmp_path, text=True).strip()

    made = run_all(project, "--check", **offline)
    assert made.returncode == 0, made.stderr
    assert "setting up" in made.stdout
    # the library is found from anywhere
    assert number() == f"1.0 {project}/fedsynth_lib/__init__.py"
    assert run_all(project, "--check", PIP_NO_INDEX="1").stdout == ""  # and nothing is done twice

    (project / ".venv" / "complete").unlink()  # as a kill leaves it: half a package, no marker
    next(project.glob(".venv/lib/python3*/site-packages/tinylib.py")).unlink()
    lock.write_text(wheel(tmp_path, "tinylib", "2.0"))
    wheel(tmp_path, "tinytorch", "1.0+cpu")  # has builds, and is installed without a hash
    (project / "requirements-all.in").write_text("tinylib\ntinytorch==1.0\n")
    assert run_all(project, "--check", **offline).returncode == 0
    assert number().startswith("2.0 ")
    # the build that is there counts as the version
    assert run_all(project, "--check", PIP_NO_INDEX="1").stdout == ""
    # the old one is gone, and what is linked is the only one
    before = os.readlink(project / ".venv")
    assert [path.name for path in project.glob(".venv-*")] == [before]

    # a file that is not the locked one: the older environment serves while nothing is missing
    lock.write_text(re.sub("sha256:.*", "sha256:" + 64 * "0", wheel(tmp_path, "tinylib", "3.0")))
    old = run_all(project, "--check", **offline)
    assert old.returncode == 0 and "DO NOT MATCH THE HASHES" in old.stderr
    assert "tinylib is 2.0, not 3.0" in old.stderr and "older environment" in old.stderr
    lock.write_text("tinylib==2.0\nother==1.0\n")  # which cannot be had
    lacking = run_all(project, "--check", **offline)
    assert lacking.returncode == 1 and "other is missing" in lacking.stderr
    assert "the packages could not be installed" in lacking.stderr
    assert [path.name for path in project.glob(".venv-*")] == [before]


@pytest.mark.parametrize("kind", ["folder", "link"])
def test_an_environment_of_somebody_else_is_left_alone(kind, project, tmp_path):
    """Offline, where nothing could take its place, and with everything that is needed at hand."""
    own = project / ".venv" if kind == "folder" else tmp_path / "own"
    own.mkdir()
    (own / "mine").write_text("mine")
    if kind == "link":
        (project / ".venv").symlink_to(own)
    for places in ({}, {"PIP_FIND_LINKS": str(tmp_path)}):
        told = run_all(project, "--check", PIP_NO_INDEX="1", PIP_CONFIG_FILE=os.devnull, **places)
        assert told.returncode == 1 and told.stderr.count("\n") == 1
        assert f"{project}/.venv is an environment that run_all.sh has not made" in told.stderr
        assert (project / ".venv" / "mine").read_text() == "mine"
    assert not list(project.glob(".venv-*"))


def test_a_mistyped_option_is_told_before_the_set_up(project):
    result = run_all(project, "-p", "sed=3")
    assert result.returncode == 2 and result.stderr.count("\n") == 1 and "'sed'" in result.stderr
    assert not (project / ".venv").exists()
    assert (
        run_all(project, "--list").stdout.startswith("notebook")
        and not (project / ".venv").exists()
    )


def test_an_environment_that_satisfies_the_lock_is_used_as_it_is(project):
    (project / "requirements.lock").write_text(f"packaging=={version('packaging')}\n")
    assert run_all(project, "--check").returncode == 0
    assert not (project / ".venv").exists()


def test_another_python_gets_one_sentence(project, tmp_path):
    tools = tmp_path / "tools"
    tools.mkdir()
    for name in ("dirname", "cat", "cksum", "grep", "cut"):
        (tools / name).symlink_to(shutil.which(name))
    old = tools / "python3"
    old.write_text('#!/bin/sh\n[ "$1" = -V ] && echo Python 3.10.4\nexit 1\n')
    old.chmod(0o755)
    result = run_all(project, PATH=str(tools))
    assert result.returncode == 1
    assert result.stderr.count("\n") == 1 and "python3 is Python 3.10.4" in result.stderr


def test_a_read_only_checkout_has_its_environment_with_its_results(project, tmp_path):
    """Root may write everywhere, so the script is told that it may not, and a file is in the way
    of the other folder."""
    (tmp_path / "file").touch()
    path = project / "run_all.sh"
    path.write_text(
        path.read_text(encoding="utf-8").replace("-w $root ||", "", 1), encoding="utf-8"
    )
    told = run_all(project, "--check", FEDSYNTH_HOME=str(tmp_path / "file" / "home"))
    assert told.returncode == 1 and told.stderr.count("\n") == 1
    assert f"{tmp_path}/file/home cannot be written to: set FEDSYNTH_HOME" in told.stderr
