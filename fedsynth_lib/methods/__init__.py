"""The methods, a folder for each family; `registry.py` lists them, `variants.py` says how they
differ."""

from fedsynth_lib.methods.registry import (
    DEFAULT,
    METHODS,
    OPTIONAL,
    OWN,
    REGISTRY,
    VERBS,
    from_file,
    key_of,
    register,
)

__all__ = [
    "DEFAULT",
    "METHODS",
    "OPTIONAL",
    "OWN",
    "REGISTRY",
    "VERBS",
    "from_file",
    "key_of",
    "register",
]
