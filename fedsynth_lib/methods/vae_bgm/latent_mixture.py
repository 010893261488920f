"""A Dirichlet-process mixture of full Gaussians by variational inference, all starts at once.

The updates are those of scikit-learn's BayesianGaussianMixture at its defaults (Bishop 2006,
section 10.2; Blei and Jordan 2006), which is the oracle in the tests: from the same starts the same
mixture. There a start of 20 components on 8,000 x 20 values takes some 30 ms an iteration, and a
fit ten starts of several hundred. Here log densities and moments of all components of all starts
are two products of matrices with the rows' squares and cross products, which take four fifths of a
fit, at the processor's own speed. Rows come last in all arrays, so that what is done to shares, in
place, runs along memory.
"""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch
from scipy.special import betaln, digamma, gammaln
from sklearn.cluster import KMeans

from fedsynth_lib.core.contract import BadInput

# of a log share less the row's highest: exp takes ten times as long where its result underflows
LEAST = -700.0


class Mixture(NamedTuple):
    """A mixture of normal distributions.

    weights (components,), means (components, columns), covariances (components, columns, columns).
    """

    weights: np.ndarray
    means: np.ndarray
    covariances: np.ndarray

    def sample(self, number: int, rng: np.random.Generator) -> np.ndarray:
        """Rows (number, columns), float64."""
        factors = np.linalg.cholesky(self.covariances)
        chosen = rng.choice(len(self.weights), size=number, p=self.weights)
        normal = rng.normal(size=(number, self.means.shape[1]))
        return self.means[chosen] + np.einsum("nij,nj->ni", factors[chosen], normal)


@dataclass(frozen=True)
class Prior:
    """As scikit-learn chooses it: the data's mean and covariance, each worth about one row."""

    mean: np.ndarray
    covariance: np.ndarray
    concentration: float


class Posterior(NamedTuple):
    """Of (starts, components), with means and covariances of (columns,) and (columns, columns)."""

    first: np.ndarray  # parameters of the stick lengths' beta distributions
    second: np.ndarray
    precision: np.ndarray  # of the means, in rows
    means: np.ndarray
    freedom: np.ndarray
    covariances: np.ndarray
    factors: np.ndarray  # lower triangular, inverse of the covariances' Cholesky factors

    def take(self, starts: np.ndarray) -> "Posterior":
        """Return only these starts."""
        return Posterior(*(each[starts] for each in self))


def fit(
    rows: np.ndarray,
    *,
    components: int = 20,
    starts: int = 10,
    seed: int,
    tolerance: float = 1e-3,
    iterations: int = 5000,
    ridge: float = 1e-5,
) -> Mixture:
    """Fit the mixture with the highest evidence bound of several starts.

    rows: (rows, columns). components: at most so many; fewer rows than that lower it. ridge: added
        to the diagonal of the covariances. tolerance: of the bound, in nats, between iterations.
        Starts are k-means.
    Raises BadInput for fewer than two rows.
    """
    if len(rows) < 2:
        raise BadInput(
            f"a mixture needs at least two rows and got {len(rows)}: give the node more rows."
        )
    components = min(components, len(rows))
    labels = np.stack(
        [_clusters(rows, components, (seed + start) % 2**32) for start in range(starts)]
    )
    posterior, _ = converged(
        rows, labels, components, tolerance=tolerance, iterations=iterations, ridge=ridge
    )
    return mixture_of(posterior)


def converged(
    rows: np.ndarray,
    labels: np.ndarray,
    components: int,
    *,
    tolerance: float,
    iterations: int,
    ridge: float,
) -> tuple[Posterior, float]:
    """Return the best posterior of starts from hard assignments, and its evidence bound.

    labels: (starts, rows).
    """
    rows = np.asarray(rows, float)
    centre = rows.mean(axis=0)  # small squares lose fewer digits
    prior = Prior(np.zeros(rows.shape[1]), np.atleast_2d(np.cov(rows.T)), 1 / components)
    features = _features(rows - centre)
    shares = (labels[:, None] == np.arange(components)[:, None]).astype(float)
    posterior = _maximise(_moments(features, shares), prior, ridge)
    bounds = np.full(len(labels), -np.inf)
    best, highest = None, -np.inf
    for _ in range(iterations):
        moments, entropy = _expect(features, posterior)
        posterior = _maximise(moments, prior, ridge)
        before, bounds = bounds, _bound(posterior, entropy)
        done = np.abs(bounds - before) < tolerance
        if done.any():
            ended = int(np.argmax(np.where(done, bounds, -np.inf)))
            if bounds[ended] > highest:
                best, highest = posterior.take(np.array([ended])), float(bounds[ended])
            posterior, bounds = posterior.take(~done), bounds[~done]
        if not len(bounds):
            break
    # not converged within the iterations, and still the best
    if len(bounds) and bounds.max() > highest:
        ended = int(np.argmax(bounds))
        best, highest = posterior.take(np.array([ended])), float(bounds[ended])
    return Posterior(*(each[0] for each in best))._replace(means=best.means[0] + centre), highest


def mixture_of(posterior: Posterior) -> Mixture:
    """Return the mixture that the posterior expects.

    Its weights are the expected stick lengths multiplied out; means and covariances are the
    posterior's.
    """
    total = posterior.first + posterior.second
    left = np.concatenate([[1.0], np.cumprod(posterior.second / total)[:-1]])
    weights = posterior.first / total * left
    return Mixture(weights / weights.sum(), posterior.means, posterior.covariances)


def _clusters(rows: np.ndarray, components: int, seed: int) -> np.ndarray:
    return KMeans(components, n_init=1, random_state=seed).fit(rows).labels_


def _features(rows: np.ndarray) -> np.ndarray:
    """Return, for each row, a one, its values, and the products of every two of them.

    A value is also multiplied with itself. Shape: (1 + columns + columns * (columns + 1) / 2,
    rows).
    """
    one, other = np.triu_indices(rows.shape[1])
    values = np.ascontiguousarray(rows.T)
    return np.concatenate([np.ones((1, len(rows))), values, values[one] * values[other]])


def _moments(features: np.ndarray, shares: np.ndarray) -> np.ndarray:
    """Return the sums of the features over the rows, each row counted with its share.

    features: (features, rows). shares: (starts, components, rows). Returns (starts, components,
    features).
    """
    starts, components, number = shares.shape
    return (shares.reshape(-1, number) @ features.T).reshape(starts, components, -1)


def _expect(features: np.ndarray, posterior: Posterior) -> tuple[np.ndarray, np.ndarray]:
    """Share the rows out among the components; return their moments and the shares' entropy.

    The moments are those of `_moments`, the entropy is (starts,).
    """
    weights = _weights(posterior)
    starts, components, _ = weights.shape
    logs = (weights.reshape(starts * components, -1) @ features).reshape(starts, components, -1)
    highest = logs.max(axis=1, keepdims=True)
    logs -= highest
    shares = np.exp(np.maximum(logs, LEAST, out=logs), out=logs)  # in the same memory
    sums = shares.sum(axis=1, keepdims=True)
    shares /= sums
    moments = _moments(features, shares)
    # minus the sum of p log p: log p is weights @ features - highest - log(sums), and p @ features
    #     are the moments
    return moments, (highest + np.log(sums)).sum(axis=(1, 2)) - (weights * moments).sum(axis=(1, 2))


def _weights(posterior: Posterior) -> np.ndarray:
    """Return the coefficients of the features in the expected log densities.

    The constant of each component includes its expected log weight. Shape: (starts, components,
    features).
    """
    columns = posterior.means.shape[-1]
    spread = posterior.factors.transpose(0, 1, 3, 2) @ posterior.factors  # inverse covariances
    pulled = (spread @ posterior.means[..., None])[..., 0]
    one, other = np.triu_indices(columns)
    squares = spread[..., one, other] * np.where(one == other, -0.5, -1.0)
    total = digamma(posterior.first + posterior.second)
    left = np.cumsum(digamma(posterior.second) - total, axis=1)
    sticks = digamma(posterior.first) - total + np.pad(left, ((0, 0), (1, 0)))[:, :-1]
    scale = digamma(0.5 * (posterior.freedom[..., None] - np.arange(columns))).sum(
        axis=-1
    ) + columns * np.log(2)
    constant = -0.5 * columns * np.log(2 * np.pi) + _half_log_determinant(posterior)
    constant += 0.5 * (scale - columns / posterior.precision) + sticks
    constant -= 0.5 * (pulled * posterior.means).sum(axis=-1)
    return np.concatenate([constant[..., None], pulled, squares], axis=-1)


def _maximise(moments: np.ndarray, prior: Prior, ridge: float) -> Posterior:
    starts, components, _ = moments.shape
    columns = len(prior.mean)
    held = moments[..., 0] + 10 * np.finfo(float).eps
    averages = moments[..., 1 : columns + 1] / held[..., None]
    one, other = np.triu_indices(columns)
    second = np.empty((starts, components, columns, columns))
    second[..., one, other] = second[..., other, one] = moments[..., columns + 1 :]
    scatter = second - held[..., None, None] * averages[..., :, None] * averages[..., None, :]
    scatter += (held * ridge)[..., None, None] * np.eye(columns)
    later = held[:, ::-1].cumsum(axis=1)[:, ::-1]
    precision, freedom = 1 + held, columns + held
    offset = averages - prior.mean
    covariances = prior.covariance + scatter
    covariances = (
        covariances
        + (held / precision)[..., None, None] * offset[..., :, None] * offset[..., None, :]
    )
    covariances /= freedom[..., None, None]
    lower = np.linalg.cholesky(covariances)
    return Posterior(
        first=1 + held,
        second=prior.concentration + np.concatenate([later[:, 1:], np.zeros((starts, 1))], axis=1),
        precision=precision,
        means=(prior.mean + held[..., None] * averages) / precision[..., None],
        freedom=freedom,
        covariances=covariances,
        factors=_inverse(lower),
    )


def _inverse(lower: np.ndarray) -> np.ndarray:
    """Invert lower triangular matrices (..., columns, columns).

    NumPy's inverse takes five times as long, because it is for any matrix.
    """
    one = torch.eye(lower.shape[-1], dtype=torch.float64)
    return torch.linalg.solve_triangular(torch.from_numpy(lower), one, upper=False).numpy()


def _half_log_determinant(posterior: Posterior) -> np.ndarray:
    """Return half the log determinant of the inverse covariances.

    Each inverse is first divided by its degrees of freedom.
    """
    columns = posterior.means.shape[-1]
    diagonal = np.diagonal(posterior.factors, axis1=-2, axis2=-1)
    return np.log(diagonal).sum(axis=-1) - 0.5 * columns * np.log(posterior.freedom)


def _bound(posterior: Posterior, entropy: np.ndarray) -> np.ndarray:
    """Return the evidence bound of each start, up to a constant."""
    columns, freedom = posterior.means.shape[-1], posterior.freedom
    halves = gammaln(0.5 * (freedom[..., None] - np.arange(columns))).sum(axis=-1)
    wishart = -(
        freedom * _half_log_determinant(posterior) + freedom * columns * 0.5 * np.log(2) + halves
    )
    sticks = betaln(posterior.first, posterior.second).sum(axis=1)
    return (
        entropy
        - wishart.sum(axis=1)
        + sticks
        - 0.5 * columns * np.log(posterior.precision).sum(axis=1)
    )
