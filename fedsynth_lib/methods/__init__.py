"""The methods, one module each; this is the only registry. Someone's own joins it at run time:
`register`."""

import importlib.util
import inspect
import re
import sys
from pathlib import Path
from types import ModuleType

from fedsynth_lib.core.contract import BadInput
from fedsynth_lib.methods.bayes import bayesian_network
from fedsynth_lib.methods.diffusion import findiff
from fedsynth_lib.methods.gan import (
    ctgan,
    dp_ctgan,
    dp_fed_ctgan,
    fed_ctgan,
    fed_dp_ctgan,
    fed_tgan,
)
from fedsynth_lib.methods.marginals import (
    aim,
    augflaim_oracle,
    distaim,
    fed_naive_bayes,
    flaim,
    flaim_random,
    independent,
    naive_flaim,
)
from fedsynth_lib.methods.vae import fedvae
from fedsynth_lib.methods.vae_bgm import dp_vae_bgm, vae_bgm

METHODS = {
    "independent": independent,
    "fedbn": bayesian_network,
    "fedvae": fedvae,
    "aim": aim,
    "distaim": distaim,
    "naiveflaim": naive_flaim,
    "augflaim_oracle": augflaim_oracle,
    "augflaim_private": flaim,
    "flaim_random": flaim_random,
    "fednaivebayes": fed_naive_bayes,
    "ctgan": ctgan,
    "dpctgan": dp_ctgan,
    "fedtgan": fed_tgan,
    "fedctgan": fed_ctgan,
    "dpfedctgan": dp_fed_ctgan,
    "feddpctgan": fed_dp_ctgan,
    "findiff": findiff,
    "vaebgm": vae_bgm,
    "dpvaebgm": dp_vae_bgm,
}
OWN: set[str] = set()  # keys that were registered at run time
VERBS = {
    "encoder": ("schema", "config"),
    "plan": ("noise_multiplier", "domain", "num_rows", "config"),
    "start": ("domain", "config", "rng"),
    "client_step": ("state", "client", "config", "noise", "rng"),
    "server_step": ("state", "updates", "config", "noise", "rng"),
    "sample": ("state", "num_rows", "config", "rng"),
}


def register(key: str, method: ModuleType, *, replace: bool = False) -> ModuleType:
    """Puts a module that follows the contract into METHODS under `key`, for this process, and gives
    it back.

    replace: let it take the place of one that was registered before; never of one of the bundle's.
    Raises BadInput for a key that is taken, or a module that lacks a part of the contract.
    """
    if not re.fullmatch(r"[a-z][a-z0-9_]*", key):
        raise BadInput(
            f"method key {key!r} stands in result rows: use small letters, digits and '_'."
        )
    if key in METHODS and key not in OWN:
        raise BadInput(f"method {key!r} is one of the bundle's; register yours under another key.")
    if key in OWN and not replace:
        raise BadInput(
            f"method {key!r} is registered already; give another key, or replace=True "
            "to exchange it."
        )
    _check(method)
    METHODS[key] = method
    OWN.add(key)
    return method


def _check(method: ModuleType) -> None:
    """BadInput unless the module has all that `core/contract.py` asks for, its parameters by
    name."""
    name = getattr(method, "__name__", repr(method))
    if not isinstance(getattr(method, "VERSION", None), int):
        raise BadInput(
            f"method {name}: there is no VERSION; write VERSION = 1, and raise it when "
            "its output changes."
        )
    for verb, parameters in VERBS.items():
        if not callable(getattr(method, verb, None)):
            raise BadInput(
                f"method {name}: there is no {verb}({', '.join(parameters)}); see core/contract.py."
            )
        found = tuple(inspect.signature(getattr(method, verb)).parameters)
        if found != parameters:
            raise BadInput(
                f"method {name}: {verb} takes ({', '.join(found)}); it must take "
                f"({', '.join(parameters)})."
            )
    if not callable(getattr(method, "Config", None)):
        raise BadInput(
            f"method {name}: there is no Config; write a frozen dataclass with a "
            "default for every setting."
        )
    try:
        rounds = method.Config().rounds
    except (AttributeError, TypeError) as error:
        raise BadInput(
            f"method {name}: Config().rounds is missing ({error}); give every setting a default."
        ) from error
    if not isinstance(rounds, int) or rounds < 1:
        raise BadInput(
            f"method {name}: Config().rounds is {rounds!r}; it must be a whole number "
            "of at least 1."
        )


def from_file(path: str | Path) -> ModuleType:
    """The module in a Python file, run anew at every call, so that a corrected file counts at once.

    It is not left where `import` finds it: so it travels to other processes (Ray) as it is, not by
    its name.
    """
    path = Path(path).resolve()
    if path.suffix != ".py" or not path.is_file():
        raise BadInput(
            f"{path}: there is no such Python file; give the path of a file that ends in .py."
        )
    known = sys.modules.get(path.stem)
    if known is not None and Path(getattr(known, "__file__", None) or "").resolve() != path:
        raise BadInput(f"{path}: Python knows another module {path.stem!r}; rename the file.")
    spec = importlib.util.spec_from_file_location(path.stem, path)
    module = importlib.util.module_from_spec(spec)
    sys.modules[path.stem] = module  # dataclasses may look their own module up
    try:
        spec.loader.exec_module(module)
    except Exception as error:
        raise BadInput(
            f"{path}: the file does not run ({type(error).__name__}: {error}); correct it."
        ) from error
    finally:
        del sys.modules[path.stem]
        if known is not None:
            sys.modules[path.stem] = known
    return module
