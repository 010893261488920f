"""How a server moves the shared parameters towards the clients' average.

Source: Reddi et al. 2021, algorithm 2. The tests compare it with Flower's strategies of the same
names. It is written out because a method's state must travel and resume.
"""

from typing import Literal

import numpy as np

from fedsynth_lib.core.contract import Arrays

Strategy = Literal["fedavg", "fedadam", "fedyogi", "fedprox"]
STRATEGIES: tuple[Strategy, ...] = ("fedavg", "fedadam", "fedyogi", "fedprox")


def moved(
    current: np.ndarray,
    average: np.ndarray,
    kept: Arrays,
    *,
    strategy: Strategy,
    rate: float,
    first: float,
    second: float,
    tau: float,
) -> tuple[np.ndarray, Arrays]:
    """Return the next parameters, and the moments to keep.

    FedAvg and FedProx keep no moments, because their server takes the average.

    rate: of the server. first, second: decay of the moments. tau: added to the root of the second
        one.
    """
    if strategy in ("fedavg", "fedprox"):
        return average, {}
    step = average - current
    mean = first * kept.get("server_mean", np.zeros_like(current)) + (1 - first) * step
    square = kept.get("server_square", np.zeros_like(current))
    if strategy == "fedadam":
        square = second * square + (1 - second) * step**2
    else:
        square = square - (1 - second) * step**2 * np.sign(square - step**2)
    number = int(kept.get("server_number", np.array(0))) + 1
    # Flower corrects Adam's moments for their start at 0, by one round more than there were
    scale = rate
    if strategy == "fedadam":
        scale = rate * np.sqrt(1 - second ** (number + 1)) / (1 - first ** (number + 1))
    moments = {"server_mean": mean, "server_square": square, "server_number": np.array(number)}
    return (current + scale * mean / (np.sqrt(square) + tau)).astype(current.dtype), moments
