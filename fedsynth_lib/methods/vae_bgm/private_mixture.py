"""A Gaussian mixture of latent means from noisy sums alone.

This goes beyond apellaniz2025, which fits a mixture to the means without noise.

The fit is expectation maximisation in which every step sees the rows through one Gaussian release
(after Park et al. 2017). The release has, for each component, the sums of the rows' shares, of
their shares times the vectors, and of their shares times the vectors' squares, and the sum of the
log-variances. Covariances are diagonal, since the noise of a full one would drown it.
"""

import numpy as np

from fedsynth_lib.core.accounting import gaussian
from fedsynth_lib.methods.vae_bgm.latent_mixture import Mixture
from fedsynth_lib.methods.vae_bgm.likelihood_vae import LIMIT

SENSITIVITY = 2.0  # L2, of one row: four blocks of norm 1 at most, see `released`
NARROWEST = 1e-2  # variance of a component


def private_mixture(
    means: np.ndarray,
    log_variances: np.ndarray,
    *,
    components: int,
    steps: int,
    radius: float,
    noise_multiplier: float,
    noise: np.random.Generator,
    rng: np.random.Generator,
) -> tuple[Mixture, np.ndarray]:
    """Return a mixture of latent means, and the mean log-variances.

    Both come from `steps` Gaussian releases and nothing else of the rows.

    means, log_variances: (rows, latent). radius: vectors are shortened to this length. Components
    start at draws from the latent prior and are drawn back to it where the noise is larger than
    what they hold.
    """
    latent, spread = means.shape[1], noise_multiplier * SENSITIVITY
    vectors = means / np.maximum(np.linalg.norm(means, axis=1, keepdims=True) / radius, 1)
    centres, variances = rng.normal(size=(components, latent)), np.ones((components, latent))
    weights, sums = np.full(components, 1 / components), []
    for _ in range(steps):
        clean = released(
            _shares(vectors, weights, centres, variances), vectors / radius, log_variances
        )
        noisy = gaussian(
            clean, noise_multiplier=noise_multiplier, l2_sensitivity=SENSITIVITY, rng=noise
        )
        held, first, second, logs = np.split(
            noisy, np.cumsum([components] + [components * latent] * 2)
        )
        held = np.maximum(held, spread)
        weights = held / held.sum()
        rows = held[:, None]
        # Means and squares are what a normal prior of mean 0 and variance 1 leaves of estimates
        # with this much noise.
        centres = (
            first.reshape(components, latent) * radius * rows / (rows**2 + (spread * radius) ** 2)
        )
        squares = (second.reshape(components, latent) * radius**2 - rows) * rows
        squares = 1 + squares / (rows**2 + (spread * radius**2) ** 2)
        variances = np.clip(squares - centres**2, NARROWEST, radius**2)
        sums.append(logs / held.sum())
        total = held.sum()
    scale = LIMIT * np.sqrt(latent)
    average = np.mean(sums, axis=0) * scale / (1 + (spread * scale / total) ** 2 / steps)
    return Mixture(weights, centres, variances[:, :, None] * np.eye(latent)), np.clip(
        average, -LIMIT, LIMIT
    )


def released(shares: np.ndarray, vectors: np.ndarray, log_variances: np.ndarray) -> np.ndarray:
    """Return all sums of one step, flat and before noise is added.

    shares: (rows, components), each row has the sum 1. vectors: (rows, latent), of length 1 at
    most.

    A row with the shares r and the vector u adds r, r u, r u^2, and its log-variances over LIMIT
    sqrt(latent). These are four blocks of norm 1 at most, so the L2 sensitivity is 2.
    """
    parts = [shares.sum(axis=0), shares.T @ vectors, shares.T @ vectors**2]
    parts.append(log_variances.sum(axis=0) / (LIMIT * np.sqrt(vectors.shape[1])))
    return np.concatenate([part.ravel() for part in parts])


def _shares(
    vectors: np.ndarray, weights: np.ndarray, centres: np.ndarray, variances: np.ndarray
) -> np.ndarray:
    offsets = (vectors[:, None, :] - centres) ** 2 / variances
    logs = np.log(weights) - 0.5 * (offsets + np.log(variances)).sum(axis=2)
    shares = np.exp(logs - logs.max(axis=1, keepdims=True))
    return shares / shares.sum(axis=1, keepdims=True)
