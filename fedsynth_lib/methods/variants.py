"""Variants: the verbs of another method with other defaults, listed in `variants.toml`.

A variant changes no verb. Where it behaves in another way, one of its settings says so, and the
verbs of its base read that setting: FLAIM without a choice, a GAN whose generator is trained by the
server. `load` makes a method of its source, and `from fedsynth_lib.methods.variants import aim`
does so by name.
"""

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any

from fedsynth_lib.core.contract import Method


@dataclass(frozen=True)
class Variant:
    """How a method differs from its base, as `variants.toml` describes it."""

    base: str
    defaults: Mapping[str, Any]
    trust: str | None = None
    version: int | None = None
    as_published: Mapping[str, Any] = field(default_factory=dict)


VARIANTS: dict[str, Variant] = {
    name: Variant(**entry)
    for name, entry in tomllib.loads(
        Path(__file__).with_name("variants.toml").read_text(encoding="utf-8")
    ).items()
}


@cache
def load(source: str) -> Method:
    """Import and return the method of a file (`marginals.flaim`) or of a variant (`aim`)."""
    if source not in VARIANTS:
        return Method.of(import_module(f"{__package__}.{source}"))
    variant = VARIANTS[source]
    return load(variant.base).variant(
        source,
        trust=variant.trust,
        version=variant.version,
        as_published=variant.as_published,
        module=__name__,
        **variant.defaults,
    )


def __getattr__(name: str) -> Method:
    """Return a variant by its name, which `import` and unpickling a Config ask for."""
    if name in VARIANTS:
        return load(name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
