"""Whether the running Python has what a lock file says.

run_all.sh asks before it makes an environment.

    python fedsynth_lib/bundle/environment.py requirements.lock requirements-all.in
    python fedsynth_lib/bundle/environment.py --any-version requirements.lock requirements-all.in

Imports nothing that must be installed first, so that it can say what is missing.
"""

import sys
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

WANTED = ("requirements.lock", "requirements-all.in")  # the second for torch, which no lock has


def pins(*files: str | Path) -> dict[str, str]:
    """Read the exact versions of packages that hold for this Python and system.

    They are in the lines of lock and .in files. What has no exact version there is left out.
    """
    try:
        from packaging.requirements import Requirement
    except ImportError:  # an environment without the packages has pip's own copy
        from pip._vendor.packaging.requirements import Requirement

    lines = (
        line.partition("#")[0].partition(" --hash")[0].strip()
        for file in files
        for line in Path(file).read_text(encoding="utf-8").splitlines()
    )
    wanted = [Requirement(line) for line in lines if line]
    return {
        pin.name: str(pin.specifier).removeprefix("==")
        for pin in wanted
        if str(pin.specifier).startswith("==") and (pin.marker is None or pin.marker.evaluate())
    }


def installed(name: str) -> str | None:
    """Return the installed version of a package, or None."""
    try:
        return version(name)
    except PackageNotFoundError:
        return None


def unmet(*files: str | Path) -> list[str]:
    """Return one text for each package that is missing or has another version.

    A local build (2.13.0+cpu) counts as 2.13.0.
    """
    found = {name: (installed(name), exact) for name, exact in pins(*files).items()}
    return [
        f"{name} is missing" if has is None else f"{name} is {has}, not {exact}"
        for name, (has, exact) in found.items()
        if has is None or has.partition("+")[0] != exact
    ]


def main(arguments: list[str]) -> int:
    """Return 0 where every package of these files is installed, else 1.

    With `--any-version` other versions are named, and will do.
    """
    files = [each for each in arguments if each != "--any-version"]
    try:
        found = unmet(*files)
    except ImportError:  # without packaging and pip there is no such environment
        return 1
    if files == arguments:
        return int(bool(found))
    print("\n".join(found), file=sys.stderr)
    return int(any(line.endswith(" is missing") for line in found))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
