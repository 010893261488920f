"""The methods that `methods.toml` lists, and METHODS, which loads each by its key.

`register` adds a method at run time.
"""

import importlib.util
import inspect
import re
import sys
import tomllib
from collections.abc import Iterator, Mapping, MutableMapping
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType

from fedsynth_lib.core.contract import BadInput, Method
from fedsynth_lib.methods.variants import VARIANTS, load


@dataclass(frozen=True)
class Entry:
    """A method of the bundle, as `methods.toml` describes it."""

    source: str
    cites: str
    trust: str
    printed: Mapping[str, str]

    @property
    def name(self) -> str:
        """The name in statements and messages."""
        return self.source.rpartition(".")[2]

    @property
    def family(self) -> str:
        """The folder that has the method's verbs."""
        source = self.source
        while source in VARIANTS:
            source = VARIANTS[source].base
        return source.partition(".")[0]

    @property
    def private(self) -> bool:
        """Whether its defaults add noise."""
        return bool(self.trust)


REGISTRY: dict[str, Entry] = {
    key: Entry(**entry)
    for key, entry in tomllib.loads(
        Path(__file__).with_name("methods.toml").read_text(encoding="utf-8")
    ).items()
}


class Methods(MutableMapping[str, Method]):
    """All methods by key.

    These are the methods of REGISTRY, each loaded at its first use, and those that `register`
    added.
    """

    def __init__(self) -> None:
        self._registered: dict[str, Method] = {}

    def __getitem__(self, key: str) -> Method:
        """Return the method with this key; its first use loads it."""
        if key in self._registered:
            return self._registered[key]
        return load(REGISTRY[key].source)

    def __setitem__(self, key: str, method: Method) -> None:
        """Add a method under this key."""
        self._registered[key] = method

    def __delitem__(self, key: str) -> None:
        """Remove a method that was added with `register`."""
        del self._registered[key]

    def __iter__(self) -> Iterator[str]:
        """Iterate over the keys."""
        return iter(REGISTRY | self._registered)

    def __len__(self) -> int:
        """Return the number of methods."""
        return len(REGISTRY | self._registered)

    def __contains__(self, key: object) -> bool:  # Mapping's own would load it
        """Whether a method has this key; the method is not loaded."""
        return key in REGISTRY or key in self._registered


METHODS = Methods()
DEFAULT = "fedpgm"  # where nobody names one; by a rule, tests/default_method.py, and rows beside it
OWN: set[str] = set()  # keys that were registered at run time
VERBS = {
    "encoder": ("schema", "config"),
    "plan": ("noise_multiplier", "domain", "num_rows", "config"),
    "start": ("domain", "config", "rng"),
    "client_step": ("state", "client", "config", "noise", "rng"),
    "server_step": ("state", "updates", "config", "noise", "rng"),
    "sample": ("state", "num_rows", "config", "rng"),
}
OPTIONAL = {  # verbs that a method may leave out
    "schedule": ("domain", "config"),
    "broadcast": ("state", "config"),
    "check_broadcast": ("state", "domain", "config", "round"),
}


def key_of(method: Method | ModuleType) -> str | None:
    """Return the key under which a method is registered, or None.

    Only methods of the same name are loaded and compared.
    """
    method = Method.of(method)
    named = {key for key, entry in REGISTRY.items() if entry.name == method.name} | OWN
    return next((key for key in METHODS if key in named and METHODS[key] == method), None)


def register(key: str, method: Method | ModuleType, *, replace: bool = False) -> Method:
    """Add a method, or a module that follows the contract, to METHODS in this process.

    Parameters
    ----------
    key
        Under which it is found by name.
    method
        A method, or a module with its verbs.
    replace
        Whether it may replace one that was registered before; a method of the bundle never is.

    Returns
    -------
    Method
        The method that was added.

    Raises
    ------
    BadInput
        For a key that is taken, or a module that lacks a part of the contract.
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
    METHODS[key] = Method.of(method)
    OWN.add(key)
    return METHODS[key]


def _check(method: Method | ModuleType) -> None:
    """Raise BadInput unless it has all that `core/contract.py` asks for, with its parameters."""
    name = method.name if isinstance(method, Method) else getattr(method, "__name__", repr(method))
    if not isinstance(getattr(method, "VERSION", None), int):
        raise BadInput(
            f"method {name}: there is no VERSION; write VERSION = 1, and raise it when "
            "its output changes."
        )
    for verb, parameters in (VERBS | OPTIONAL).items():
        if verb in OPTIONAL and getattr(method, verb, None) is None:
            continue
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
    """Run a Python file and return its module, again at every call, so that corrections count.

    `import` does not find the module afterwards, so it travels to other processes (Ray) by value
    and not by its name.
    """
    path = Path(path).expanduser().resolve()
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
