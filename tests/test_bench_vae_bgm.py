"""Speed of VAE-BGM's mixture, as a ratio in one run: pytest -m bench.

Made-up rows of the study's sizes; processor time, so that other work on the machine does not count.
"""

import time
import warnings

import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning
from sklearn.mixture import BayesianGaussianMixture
from timing import report, seconds

from fedsynth_lib.methods.vae_bgm.latent_mixture import fit

pytestmark = pytest.mark.bench
ITERATIONS = 40


def test_ten_starts_of_the_latent_mixture_against_scikit_learn(capsys):
    """As many iterations of both, however near they are to their ends; starts by k-means are part
    of both."""
    rng = np.random.default_rng(0)
    centres, turns = rng.normal(size=(30, 20)) * 2, rng.normal(size=(30, 20, 20)) / 20**0.5
    group = rng.integers(30, size=8000)
    rows = centres[group] + np.einsum("nij,nj->ni", turns[group], rng.normal(size=(8000, 20)))
    peer = BayesianGaussianMixture(
        n_components=20, reg_covar=1e-5, max_iter=ITERATIONS, tol=0.0, n_init=10, random_state=0
    )
    own = seconds(
        lambda: fit(rows, components=20, starts=10, seed=0, iterations=ITERATIONS, tolerance=0.0),
        clock=time.process_time,
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        theirs = seconds(lambda: peer.fit(rows), clock=time.process_time)
    report(
        capsys,
        f"{ITERATIONS} iterations of ten starts, 8,000 x 20 rows",
        own,
        theirs,
        "scikit-learn",
    )
    assert peer.n_iter_ == ITERATIONS and theirs / own >= 2
