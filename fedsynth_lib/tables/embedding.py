"""UMAP picture of rows and its clusters: the client split that maddock2024 calls clustering.

UMAP draws the coded table, target included, in two dimensions; k-means cuts the picture into as
many clusters as there are clients. That takes a minute for a table of 50,000 rows, so both steps
are kept in data/cache/clusters/. One seed gives the same bytes on one machine with one set of
package versions, whether computed or read back; another processor may round otherwise, and UMAP
magnifies that.
"""

import hashlib
import io
import json
import sys
import warnings
from collections.abc import Callable
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
from threadpoolctl import threadpool_limits

from fedsynth_lib.core.contract import BadInput, stream
from fedsynth_lib.core.store import project_root, warn_of_cache, write_atomically
from fedsynth_lib.tables.encode import EqualWidthBins
from fedsynth_lib.tables.load import Table
from fedsynth_lib.tables.registry import REGISTRY, stated_bins

NEIGHBOURS, MIN_DIST = 15, 0.1  # maddock2024 [code]; umap-learn's defaults, too
BINS = 32  # of a number for which no view of its table states any
VANISHES = 1e-60  # is 0 in UMAP's starting points, which are of float32
VERSION = 1  # raise it whenever the same codes and seed give another split


def coded(table: Table) -> np.ndarray:
    """Return the table in bins, int32 (rows, columns), target included.

    The bins are those that a view of this table states, else 32 for each number.
    """
    known = table.data != "own" and table.key in REGISTRY
    bins = stated_bins(table.key) if known else {}
    chosen = {name: bins[name] for name in table.schema.numeric if name in bins}
    return EqualWidthBins(table.schema, BINS, chosen).transform(table.frame)


def principal_components(features: np.ndarray) -> np.ndarray:
    """Return the first two principal components of features (rows, columns).

    Float (rows, 2), or (rows, 1) of one column.
    """
    from sklearn.decomposition import PCA  # late, as k-means below

    return PCA(min(2, features.shape[1]), svd_solver="covariance_eigh").fit_transform(features)


def umap_embedding(features: np.ndarray, *, seed: int) -> np.ndarray:
    """Return UMAP's picture of features (rows, columns), float32 (rows, 2).

    15 neighbours, minimum distance 0.1.
    """
    if len(features) <= NEIGHBOURS:
        raise BadInput(
            f"{len(features)} rows are too few for UMAP, which looks at {NEIGHBOURS} neighbours "
            "of each; give more rows, or take the partition by_cluster."
        )
    # with several threads sums would depend on their order
    with warnings.catch_warnings(), threadpool_limits(1):
        warnings.filterwarnings("ignore", "Tensorflow not installed", ImportWarning)
        # a seed asks for one thread, as wanted; groups may lie far apart
        warnings.filterwarnings("ignore", "n_jobs value|Graph is not fully", UserWarning)
        # said by the progress bar that it never shows
        warnings.filterwarnings("ignore", "IProgress not found")
        import umap  # late: it compiles for seconds, and only this function needs it

        state, usual = _state(seed, "umap"), umap.spectral._spectral_layout
        reducer = umap.UMAP(n_neighbors=NEIGHBOURS, min_dist=MIN_DIST, random_state=state)
        with patch.object(umap.spectral, "_spectral_layout", partial(_component, usual)):
            return np.ascontiguousarray(reducer.fit_transform(features), dtype=np.float32)


def _component(usual: Callable[..., np.ndarray], **given: Any) -> np.ndarray:
    """Return where UMAP lets the rows of a connected component start, float (rows, 2).

    They are eigenvectors, which it scales to the distance of the nearest other component. Scaled to
    1e-90, all of them are 0 in float32: then none are computed, since that takes far longer than
    all else (census_kdd). The same random numbers are drawn, and the same picture results.
    """
    if sys._getframe(1).f_locals.get("data_range", 1.0) > VANISHES:  # of `multi_component_layout`
        return usual(**given)
    rows = given["graph"].shape[0]
    given["random_state"].normal(size=(rows, given["dim"] + 1))
    return np.ones((rows, given["dim"]))


def k_means(points: np.ndarray, num_clusters: int, *, state: int) -> np.ndarray:
    """Return the cluster of each row of points (rows, dimensions), 0 to num_clusters - 1.

    Few distinct points give fewer clusters.
    """
    from sklearn.cluster import KMeans  # late: a second to import, and only clusters need it
    from sklearn.exceptions import ConvergenceWarning

    estimator = KMeans(num_clusters, n_init=1, random_state=state)
    with warnings.catch_warnings(), threadpool_limits(1):
        # fewer distinct points than clusters: the caller's word
        warnings.simplefilter("ignore", ConvergenceWarning)
        return estimator.fit_predict(np.asarray(points, dtype=np.float64))


def embedded(codes: np.ndarray, *, seed: int) -> np.ndarray:
    """`umap_embedding` of the codes, from the cache where it is there."""
    return _kept("points", _facts(codes, seed), lambda: umap_embedding(codes, seed=seed))


def clusters(codes: np.ndarray, num_clusters: int, *, seed: int) -> np.ndarray:
    """Return the cluster of each row of codes (rows, columns) in its UMAP picture, int32 (rows,).

    It is taken from the cache if it is there.
    """

    def make() -> np.ndarray:
        state = _state(seed, "k-means", num_clusters)
        return k_means(embedded(codes, seed=seed), num_clusters, state=state).astype(np.int32)

    return _kept("owners", {**_facts(codes, seed), "clusters": int(num_clusters)}, make)


def _state(seed: int, *path: int | str) -> int:
    return int(stream(seed, *path).integers(2**31))


def _facts(codes: np.ndarray, seed: int) -> dict[str, Any]:
    """All that a split depends on."""
    content = np.ascontiguousarray(codes, dtype=np.int64)
    packages = ("umap-learn", "pynndescent", "numba", "scikit-learn", "numpy")
    digest = hashlib.blake2b(content.tobytes(), digest_size=16).hexdigest()
    facts = {"codes": digest, "shape": content.shape, "seed": int(seed), "version": VERSION}
    return facts | {name: version(name) for name in packages}


def _kept(kind: str, facts: dict[str, Any], make: Callable[[], np.ndarray]) -> np.ndarray:
    """Return the array in the cache, or make it now and put it there."""
    path = _path(kind, facts)
    try:
        return np.load(path, allow_pickle=False)
    except FileNotFoundError:
        pass
    except (OSError, ValueError, EOFError):  # the disk lost part of it
        warn_of_cache(path)
    array = make()
    buffer = io.BytesIO()
    np.save(buffer, array, allow_pickle=False)
    write_atomically(path, buffer.getvalue())
    return array


def _path(kind: str, facts: dict[str, Any]) -> Path:
    key = hashlib.sha256(json.dumps(facts, sort_keys=True).encode()).hexdigest()[:20]
    return project_root() / "data" / "cache" / "clusters" / f"{kind}_{key}.npy"


def joint_map(parts: list[np.ndarray], *, seed: int) -> list[np.ndarray]:
    """Return points (rows, 2) of several feature matrices in one common t-SNE map.

    Perplexity 30, started from the principal components.
    """
    from sklearn.manifold import TSNE

    together = np.concatenate(parts)
    if len(together) < 4:
        raise BadInput(f"{len(together)} rows are too few for a map: give more rows.")
    perplexity, state = min(30, (len(together) - 1) / 3), _state(seed, "t-SNE")
    with threadpool_limits(1):
        tsne = TSNE(2, perplexity=perplexity, init="pca", random_state=state)
        points = tsne.fit_transform(together)
    return np.split(points, np.cumsum([len(part) for part in parts])[:-1])


def squares(points: np.ndarray, number: int) -> np.ndarray:
    """Return the square that each point (rows, 2) falls into, int64 (rows, 2).

    There are number x number squares over the extent of the points.
    """
    low, high = points.min(axis=0), points.max(axis=0)
    extent = np.where(high > low, high - low, 1)
    return np.minimum((number * (points - low) / extent).astype(np.int64), number - 1)
