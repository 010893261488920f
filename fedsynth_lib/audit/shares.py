"""What a participant learns who subtracts its own share of noise that clients made together.

The answer is computed from the densities of the noise, not estimated.

A share is the difference of two negative binomial variables of size 1 / shares; all honest shares
together are one of size honest / shares. If the size is 1, that is discrete Laplace noise; noise of
a smaller size is more pointed, and costs more.
"""

import numpy as np
from scipy.signal import fftconvolve
from scipy.stats import nbinom

LEAST = 1e-9  # densities below are left out: a convolution has errors of that size


def largest_loss(scale: float, *, honest: int, shares: int) -> float:
    """Return the largest log ratio of the noise at neighbouring whole numbers.

    It is the pure epsilon of a count, but for densities below LEAST of the largest, which are left
    out.

    scale: of the discrete Laplace noise that `shares` shares make.
    honest: how many shares the observer does not know.
    """
    stop = -np.expm1(-1 / scale)
    reach = int(60 * scale) + 60
    density = nbinom.pmf(np.arange(reach), honest / shares, stop)
    noise = fftconvolve(density, density[::-1])
    noise = noise[noise > LEAST * noise.max()]
    return float(np.abs(np.diff(np.log(noise))).max())
