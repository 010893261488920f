"""A small mixed table with a known dependence, shared by the tests."""

import os
import secrets
import signal

os.environ.setdefault("OMP_NUM_THREADS", "1")

import fedsynth_lib.bundle  # noqa: F401, I001  (before nbformat: see there)
import numpy as np
import pandas as pd
import pytest
from torch.optim.optimizer import register_optimizer_step_pre_hook

from fedsynth_lib.methods import registry
from fedsynth_lib.tables.load import Table
from fedsynth_lib.tables.schema import Column, Schema

SCHEMA = Schema(
    (
        Column("age", "numeric", low=18, high=90, integer=True),
        Column("weight", "numeric", low=40.0, high=160.0),
        Column("smokes", "categorical", categories=("no", "yes")),
        Column("region", "categorical", categories=("north", "east", "south", "west")),
        Column("ill", "categorical", categories=("no", "yes")),
    ),
    target="ill",
)


FIRST = (  # files, the longest preparation first
    "test_verdict.py",
    "test_superlink.py",
    "test_deploy_processes.py",
    "test_deploy_crashes.py",
    "test_deploy.py",
    "test_ray.py",
    "test_report.py",
    "test_kernels.py",
    "test_environment.py",
)


def pytest_collection_modifyitems(items):
    """Put files that prepare something for long first: processes share out the last tests among
    them (`--dist worksteal`), and each would prepare it."""
    places = {name: place for place, name in enumerate(FIRST)}
    items.sort(key=lambda item: places.get(item.path.name, len(FIRST)))


def make_frame(num_rows: int, seed: int = 0) -> pd.DataFrame:
    """Rows in which age, smoking and weight drive `ill`, and region stands apart."""
    rng = np.random.default_rng(seed)
    age = rng.integers(18, 91, num_rows)
    smokes = rng.random(num_rows) < 0.3
    weight = np.clip(60 + 0.3 * age + rng.normal(0, 10, num_rows), 40, 160)
    ill = rng.random(num_rows) < 1 / (1 + np.exp(6 - 0.08 * age - 2 * smokes))
    codes = {"smokes": smokes, "region": rng.integers(0, 4, num_rows), "ill": ill}
    columns = {"age": age, "weight": weight}
    for name, code in codes.items():
        columns[name] = pd.Categorical.from_codes(
            code.astype(int), categories=list(SCHEMA[name].categories)
        )
    return pd.DataFrame(columns)[list(SCHEMA.names)]


@pytest.fixture(scope="session")
def schema() -> Schema:
    return SCHEMA


@pytest.fixture(scope="session")
def table() -> Table:
    return Table("toy", make_frame(1200), SCHEMA, data="own", digest="toy")


@pytest.fixture
def home(tmp_path, monkeypatch):
    """An empty project, for the runner and for what its notebooks import."""
    monkeypatch.setenv("FEDSYNTH_HOME", str(tmp_path))
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    handlers = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    yield tmp_path
    for number, handler in handlers.items():
        signal.signal(number, handler)


@pytest.fixture
def no_report(monkeypatch):
    """A runner that builds no report, in a project that has nothing published."""
    monkeypatch.setattr("fedsynth_lib.bundle.report.refresh", lambda: True)


@pytest.fixture(autouse=True)
def entropy_that_comes_again(request, monkeypatch):
    """What a release draws from the operating system (noise by numpy, keys by `secrets`) follows
    from the name of the test. So one that fails by chance fails in every run, in front of whoever
    has written it, and not in one of fifty on somebody else's machine. Each draw is another all the
    same; what other processes draw, and fixtures of a whole module, stays the system's."""
    own = np.random.SeedSequence(list(request.node.nodeid.encode()))
    seeded, keys = np.random.default_rng, np.random.default_rng(own.spawn(1)[0])
    monkeypatch.setattr(secrets, "token_bytes", lambda size=None: keys.bytes(size or 32))
    monkeypatch.setattr(
        np.random,
        "default_rng",
        lambda seed=None: seeded(own.spawn(1)[0] if seed is None else seed),
    )


@pytest.fixture(autouse=True)
def methods_of_the_bundle_alone():
    """A method that a test registers is gone after it: others ask which there are."""
    before = set(registry.OWN)
    yield
    for key in registry.OWN - before:
        del registry.METHODS[key]
        registry.OWN.remove(key)


@pytest.fixture
def style():
    """Figures look as the bundle's, and none stays open."""
    import matplotlib.pyplot as plt

    from fedsynth_lib.figures import use_style

    use_style()
    yield
    plt.close("all")


@pytest.fixture(scope="session", autouse=True)
def gradients_that_fused_optimisers_can_read():
    """They read a gradient's memory from front to back whatever its strides, and say nothing: all
    tests look out."""

    def strides_agree(optimiser, *_):
        for group in optimiser.param_groups:
            for parameter in filter(
                lambda p: group.get("fused") and p.grad is not None, group["params"]
            ):
                places = [place for place, size in enumerate(parameter.shape) if size > 1]
                own, given = (
                    [each.stride(place) for place in places] for each in (parameter, parameter.grad)
                )
                assert own == given, (
                    f"a gradient of shape {tuple(parameter.shape)} with strides {given}, not {own}"
                )

    handle = register_optimizer_step_pre_hook(strides_agree)
    yield
    handle.remove()
