"""What a lesson needs before it runs in a browser: .ci/lite puts this file beside its notebooks."""

import os
import shutil
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

# Compiled for browsers, or needed by what is: from Pyodide's CDN, in the versions that it has.
FROM_PYODIDE = (
    *("click", "cryptography", "httpx", "jinja2", "joblib", "lzma", "matplotlib", "networkx"),
    *("packaging", "pandas", "protobuf", "pyarrow", "pycryptodome", "pydantic", "pyyaml"),
    *("requests", "rich", "scikit-learn", "scipy", "ssl", "statsmodels", "tqdm"),
)
# From the site itself, without what else they ask for: no gRPC or numba is made for browsers.
FROM_SITE = (
    *("fedsynth", "flwr", "iterators", "opt-einsum", "pgmpy", "scikit-base", "seaborn"),
    *("shellingham", "typer"),
)


class NoGrpc(ModuleType):
    """In the place of gRPC, which Flower imports and uses between processes only."""

    __version__ = "1.99.0"

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return type(name, (), {})


def do_without_grpc() -> None:
    """Let Flower be imported where there is no gRPC."""
    utilities = ModuleType("grpc._utilities")
    utilities.first_version_is_lower = lambda *versions: False
    sys.modules |= {"grpc": NoGrpc("grpc"), "grpc._utilities": utilities}


async def prepare() -> None:
    """Install the packages, and put the stand-in tables where the library looks for them."""
    import piplite

    await piplite.install(list(FROM_PYODIDE))
    await piplite.install(list(FROM_SITE), deps=False)
    do_without_grpc()
    home = Path.home() / "fedsynth"
    shutil.copytree(Path(__file__).parent / "data", home / "data", dirs_exist_ok=True)
    os.environ.update(FEDSYNTH_HOME=str(home), FEDSYNTH_DATA="standin")
