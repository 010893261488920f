"""Networks as flat arrays, and torch's randomness from a generator of NumPy.

The arrays hold a network's parameters and the moments of its optimiser.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import numpy as np
import torch
from torch import nn
from torch.nn.utils import parameters_to_vector, vector_to_parameters

from fedsynth_lib.core.contract import Arrays, Update
from fedsynth_lib.core.dp_sgd import begun


def flat(network: nn.Module) -> np.ndarray:
    """Float32 (parameters,)."""
    return parameters_to_vector(network.parameters()).detach().cpu().numpy()


def size_of(network: nn.Module) -> int:
    """How many parameters it has."""
    return sum(parameter.numel() for parameter in network.parameters())


def load(network: nn.Module, values: np.ndarray) -> None:
    """Set the network's parameters from an array; this is the inverse of `flat`."""
    device = next(network.parameters()).device
    vector_to_parameters(torch.tensor(values, device=device), network.parameters())


def moments(optimiser: torch.optim.Adam, network: nn.Module, name: str) -> Arrays:
    """Adam's state of a network as arrays called `name`.something; empty before its first step."""
    kept = [
        optimiser.state[parameter]
        for parameter in network.parameters()
        if parameter in optimiser.state
    ]
    if not kept:
        return {}
    both = {
        key: torch.cat([each[key].flatten() for each in kept]).cpu().numpy()
        for key in ("exp_avg", "exp_avg_sq")
    }
    return {f"{name}.{key}": values for key, values in both.items()} | {
        f"{name}.step": kept[0]["step"].cpu().numpy()
    }


def load_moments(
    optimiser: torch.optim.Adam, network: nn.Module, name: str, arrays: Arrays
) -> None:
    """Set an optimiser's moments from arrays; this is the inverse of `moments`.

    The optimiser stays fresh if the arrays hold no moments.
    """
    if f"{name}.step" not in arrays:
        return
    start = 0
    for parameter in network.parameters():
        state = {"step": torch.tensor(arrays[f"{name}.step"], device=parameter.device)}
        for key in ("exp_avg", "exp_avg_sq"):
            part = arrays[f"{name}.{key}"][start : start + parameter.numel()]
            state[key] = torch.tensor(part, device=parameter.device).reshape(parameter.shape)
        optimiser.state[parameter] = state
        start += parameter.numel()


def averaged(updates: Sequence[Update], name: str, sizes: np.ndarray | None = None) -> np.ndarray:
    """Return the mean of the array `name` that clients sent (FedAvg).

    sizes: weights of the clients, (clients,); None: their numbers of rows.
    """
    if sizes is None:
        sizes = np.array([update.num_rows for update in updates], float)
    shares = (sizes / sizes.sum()).astype(np.float32)
    return sum(share * update.arrays[name] for share, update in zip(shares, updates, strict=True))


def device_of(name: str) -> torch.device:
    """'cpu' or 'cuda' as named; 'auto' takes the GPU where there is one."""
    return torch.device(
        ("cuda" if torch.cuda.is_available() else "cpu") if name == "auto" else name
    )


@contextmanager
def seeded(
    rng: np.random.Generator, device: torch.device, *, secret: bool = False
) -> Iterator[None]:
    """Torch's own randomness from `rng` within, and as it was afterwards.

    secret: so that it cannot be found by trying all seeds (see `dp_sgd.begun`).
    """
    with torch.random.fork_rng(devices=[device] if device.type == "cuda" else []):
        # `torch.manual_seed` would also note the call, with its stack, for GPUs that nobody uses
        seed = int(rng.integers(2**63))
        torch.default_generator.manual_seed(seed)
        if device.type == "cuda":
            torch.cuda.manual_seed_all(seed)
        if secret:
            begun(torch.default_generator, rng, secret=True)
        yield
