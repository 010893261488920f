"""Whether anything that a run shows is an exact function of the rows.

The two tables, with the record and without it, are run with the same few noises, which are repeated
from numbers. A number that no noise moves, but the record does, was released exactly: anyone who
sees it knows whether the record is there. The audit looks at the state that a run leaves, what
clients are sent, what the trust model shows of their messages, the privacy statement, and the bytes
of every message.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from fedsynth_lib.audit.neighbours import case_of
from fedsynth_lib.audit.scenario import Case, Scenario, Seen
from fedsynth_lib.core.contract import stream
from fedsynth_lib.core.statement import statement
from fedsynth_lib.federation import flower
from fedsynth_lib.tables.schema import Column, Schema

NOISES = range(6)  # of whole numbers two may agree by chance; six hardly do
EPSILON = 0.5  # much noise, for the same reason
SCHEMA = Schema(
    (
        Column("age", "numeric", low=0, high=100, integer=True),
        Column("weight", "numeric", low=0.0, high=200.0),
        Column("region", "categorical", categories=("north", "east", "south")),
        Column("ill", "categorical", categories=("no", "yes")),
    ),
    target="ill",
)
OTHERS = tuple((20 + 2 * k, 60.0 + 5 * (k % 4), ("north", "east")[k % 2], "no") for k in range(9))
TARGET = (97, 190.0, "south", "yes")
SMALL: dict[str, Any] = {
    **{
        "training_rounds": 2,
        "local_epochs": 2,
        "batch": 5,
        "hidden": (8,),
        "noise_width": 4,
        "embedding": 4,
    },
    **{
        "local_updates": 2,
        "steps": 8,
        "inner": 8,
        "rounds": 3,
        "iterations": 3,
        "final_iterations": 5,
    },
    **{"participation": 1.0, "most_rows": 40, "shared_rows": 6},
}
NETWORK = {
    "private_structure": True,
    "degree": 2,
    "population": 6,
    "selection": 2,
    "interval": 2,
    "generations": 2,
}


def usual(case: Case) -> Case:
    """Return the case with a small table of numbers and categories.

    The method has its ordinary settings, with fewer rounds and smaller networks.
    """
    plain = case.method.Config()
    options = {name: value for name, value in SMALL.items() if name in vars(plain)}
    if isinstance(getattr(plain, "hidden", None), int):
        options |= {"hidden": 8, "latent": 2, "components": 2}
    if case.key == "independent":
        options.pop("rounds")
    if case.key == "fedbn":
        options |= NETWORK
    privacy = replace(case.privacy, epsilon=EPSILON)
    config = replace(plain, **options)
    return replace(
        case, config=config, privacy=privacy, schema=SCHEMA, others=OTHERS, target=TARGET
    )


def numbered(number: int) -> type[flower.Job]:
    """Return a type of job whose noise and other draws of clients come from a number.

    The draws are equal in two runs that differ in their rows.
    """
    return type("Numbered", (flower.Job,), {"stream": lambda job, *path: stream(number, *path)})


def items(seen: Seen, case: Case) -> dict[str, Any]:
    """Return all that a run shows, by name: arrays, and the rest as text."""
    found: dict[str, Any] = {f"state/{name}": values for name, values in seen.state.items()}
    for kind, rounds in (("sent", seen.sent), ("wire", seen.wire)):
        found |= {
            f"{kind}/{number}/{name}": v
            for number, each in enumerate(rounds)
            for name, v in each.items()
        }
    said = statement(seen.charges, case.privacy, method=case.key)
    found |= {f"statement/{name}": json.dumps(value) for name, value in said.items()}
    sizes = [
        f"{line['round']}/{line['client']}/{line['direction']}/{line['kind']}"
        for line in seen.traffic
    ]
    return found | {
        f"bytes/{name}": str(line["bytes"]) for name, line in zip(sizes, seen.traffic, strict=True)
    }


def exact(without: Sequence[Mapping[str, Any]], there: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return what distinguishes the two tables whatever the noise.

    Names, keys, shapes, texts and elements of arrays are compared.

    without, there: what runs with several noises showed, of either table.
    """
    return sorted(set(_differences(without, there)))


def _differences(
    without: Sequence[Mapping[str, Any]], there: Sequence[Mapping[str, Any]]
) -> Iterator[str]:
    keys = [{frozenset(each) for each in runs} for runs in (without, there)]
    if len(keys[0]) == len(keys[1]) == 1 and keys[0] != keys[1]:
        yield f"names: {', '.join(sorted(set(*keys[0]) ^ set(*keys[1])))}"
    for name in set.intersection(*(set(each) for each in (*without, *there))):
        own = [[each[name] for each in runs] for runs in (without, there)]
        shapes = [{getattr(value, "shape", None) for value in values} for values in own]
        if any(len(each) > 1 for each in shapes):
            continue  # noise decides the shape
        if shapes[0] != shapes[1]:
            yield f"{name}: its shape"
        elif isinstance(own[0][0], str):
            if len(set(own[0])) == len(set(own[1])) == 1 and own[0][0] != own[1][0]:
                yield name
        else:
            stacks = [np.stack(values) for values in own]
            fixed = [(stack == stack[0]).all(axis=0) for stack in stacks]
            if np.any(fixed[0] & fixed[1] & (stacks[0][0] != stacks[1][0])):
                yield name


def audit(case: Case, clients: int = 3) -> list[str]:
    """Return what a run of the case shows exactly.

    The result is empty for a method that is as private as it says.
    """
    shown = {}
    for present in (False, True):
        scenarios = [Scenario(case, clients, job_type=numbered(number)) for number in NOISES]
        shown[present] = [items(scenario.run(present=present), case) for scenario in scenarios]
    return exact(shown[False], shown[True])


def audit_method(key: str, clients: int = 3) -> list[str]:
    """Audit a method with its ordinary settings on an ordinary table."""
    return audit(usual(case_of(key)), clients)
