"""The methods, a folder for each family; `methods.toml` lists them."""

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
