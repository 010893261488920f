"""What Windows lacks is not asked for there. Nothing here has run on Windows: what it lacks is taken
away from this system."""

import os
import socket
import subprocess
import sys

import psutil
import pytest

from fedsynth_lib.bundle import kernels, runner, warm


def test_a_kernel_without_sockets_of_files_is_cold_and_waited_for(tmp_path, monkeypatch):
    monkeypatch.delattr(socket, "AF_UNIX")
    monkeypatch.setattr(warm.sys, "platform", "win32")
    asked = []
    monkeypatch.setattr(subprocess, "call", lambda command: asked.append(command) or 3)
    monkeypatch.setattr(os, "execv", lambda *_: pytest.fail("its parent would be gone"))
    monkeypatch.chdir(tmp_path)
    assert warm.launch("nowhere", str(tmp_path / "pid"), ".", "-f", "connection.json") == 3
    assert asked == [[sys.executable, "-m", "ipykernel_launcher", "-f", "connection.json"]]
    assert (tmp_path / "pid").read_text(encoding="utf-8") == str(os.getpid())


def test_a_run_goes_on_without_locks_of_files(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "fcntl", None)  # as where there is no such module
    with runner.only_run(tmp_path), runner.only_run(tmp_path):
        assert (tmp_path / "data" / "cache" / "run.lock").exists()


def test_a_kernel_is_ended_without_sessions(monkeypatch):
    monkeypatch.delattr(os, "getsid")
    assert kernels._session(psutil.Process()) == os.getpid()
