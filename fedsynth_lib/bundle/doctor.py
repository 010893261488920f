"""Report what this machine has and what a run would use.

python -m fedsynth_lib doctor

Prints versions (those that differ from requirements.lock are marked), cores, memory, GPU, disk
space, and from where each table would come. Downloads no table. Exit status 1 where a package
differs.
"""

import os
import platform
import re
import shutil
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from urllib.parse import urlsplit

from fedsynth_lib.bundle.environment import WANTED, installed, unmet

ROOT = Path(__file__).resolve().parents[2]
ASKED = ("requirements.in", "requirements-all.in")


def direct_packages() -> list[str]:
    """Return the packages that requirements.in and requirements-all.in name."""
    texts = [(ROOT / name).read_text(encoding="utf-8") for name in ASKED]
    lines = [line for text in texts for line in text.splitlines()]
    names = [re.match(r"[\w.-]+", line)[0] for line in lines if line and not line.startswith("#")]
    return list(dict.fromkeys(names))


def differing() -> list[str]:
    """Return one text for each package that is not as the lock says."""
    try:
        return unmet(*(ROOT / name for name in WANTED))
    except ImportError:
        return ["packaging is missing"]


def versions() -> list[str]:
    """Python and the direct packages, then every package that is not as the lock says."""
    return [
        f"python {platform.python_version()} ({sys.executable})",
        *(f"{name} {installed(name) or 'missing'}" for name in direct_packages()),
        *(f"NOT AS LOCKED: {text}; run ./run_all.sh" for text in differing()),
    ]


def machine() -> list[str]:
    """Cores, threads, memory, GPU and disk space."""
    import joblib
    import psutil

    memory = psutil.virtual_memory()
    free = shutil.disk_usage(ROOT).free / 2**30
    return [
        f"system: {platform.platform()}",
        f"cores: {joblib.cpu_count()}, OMP_NUM_THREADS: "
        f"{os.environ.get('OMP_NUM_THREADS', 'not set')}",
        f"memory: {memory.available / 2**30:.1f} of {memory.total / 2**30:.1f} GiB free",
        f"GPU: {gpu()}",
        f"disk: {free:.1f} GiB free at {ROOT}" + ("" if free > 2 else "; give it at least 2 GiB"),
    ]


def gpu() -> str:
    """Name the graphics cards that torch can use."""
    try:
        import torch
    except ImportError as error:
        return f"unknown, torch cannot be imported ({error})"
    names = [torch.cuda.get_device_name(index) for index in range(torch.cuda.device_count())]
    return ", ".join(names) or "none that torch can use; everything runs on the CPU"


def tables() -> list[str]:
    """List registered tables and where load_table would take them from.

    Each official host is asked once.
    """
    from fedsynth_lib.tables.load import REGISTRY, available

    found = {key: available(key) for key in REGISTRY}
    hosts = {
        urlsplit(at.where).netloc: at.where.split(", ")[0]
        for at in found.values()
        if at.state == "official?"
    }
    with ThreadPoolExecutor(8) as pool:
        answers = dict(zip(hosts, pool.map(answering, hosts.values()), strict=True))
    lines = [f"FEDSYNTH_MIRROR: {os.environ.get('FEDSYNTH_MIRROR', 'not set')}"]
    for key, at in found.items():
        state = at.state
        if state == "official?":
            state = "official" if answers[urlsplit(at.where).netloc] else "unreachable"
        standin = (
            "; its stand-in would be used"
            if state == "unreachable" and (ROOT / "data" / "standin" / f"{key}.parquet").is_file()
            else ""
        )
        lines.append(f"{key:16} {state:11} {at.where}{standin}")
    return lines


def answering(url: str) -> bool:
    """Whether the host of an address answers at all."""
    import requests

    try:
        requests.head(url, timeout=5)
    except requests.RequestException:
        return False
    return True


def main() -> int:
    """Print every part that can be had; exit status 1 where the environment is not as locked."""
    lines: list[str] = []
    for title, part in (("versions", versions), ("machine", machine), ("tables", tables)):
        try:
            lines = part()
        except Exception as error:  # a doctor reports what is broken, it does not break
            lines = [f"NOT AVAILABLE: {type(error).__name__}: {error}"]
        print(f"{title}\n" + "".join(f"    {line}\n" for line in lines))
    return int(bool(differing()))
