"""The clustered split of maddock2024: the real UMAP on small tables, its cache, and a thousand
clients."""

import subprocess
import sys
import warnings
from collections import Counter
from functools import partial

import numpy as np
import pandas as pd
import pytest

from fedsynth_lib.core.contract import BadInput, stream
from fedsynth_lib.tables import embedding
from fedsynth_lib.tables.load import Table, load_table
from fedsynth_lib.tables.partition import (
    by_cluster,
    cluster_skew,
    label_skew,
    split_clients,
)
from fedsynth_lib.tables.schema import Column, Schema

pytestmark = pytest.mark.usefixtures("home")

GROUPS = np.repeat(np.arange(3), 100)


@pytest.fixture
def scattered(monkeypatch):
    """Stands in for UMAP where the picture does not matter; the calls are counted."""
    calls = Counter()

    def points(codes, seed):
        calls["umap"] += 1
        return stream(seed).normal(size=(len(codes), 2)).astype(np.float32)

    monkeypatch.setattr(embedding, "umap_embedding", points)
    return calls


@pytest.fixture(scope="module")
def three_groups() -> np.ndarray:
    """Codes (300, 5) in three groups that lie far apart."""
    return 40 * GROUPS[:, None] + stream(0).integers(0, 6, (300, 5))


@pytest.fixture(scope="module")
def picture(three_groups) -> np.ndarray:
    return embedding.umap_embedding(three_groups, seed=1)


@pytest.mark.slow
def test_umap_draws_rows_in_the_plane_and_keeps_groups_apart(three_groups, picture):
    assert picture.shape == (300, 2) and picture.dtype == np.float32 and np.isfinite(picture).all()
    centres = np.array([picture[g == GROUPS].mean(axis=0) for g in range(3)])
    radius = max(np.linalg.norm(picture[g == GROUPS] - centres[g], axis=1).max() for g in range(3))
    between = min(np.linalg.norm(centres[a] - centres[b]) for a, b in ((0, 1), (0, 2), (1, 2)))
    assert between > 2 * radius


@pytest.mark.slow
def test_umap_keeps_neighbours(three_groups, picture):
    """Inside a group too: a row's nearest in the picture are nearer in the table than its group is
    on average."""
    for g in range(3):
        codes, points = three_groups[g == GROUPS].astype(float), picture[g == GROUPS]
        apart = np.linalg.norm(codes[:, None] - codes[None], axis=2)
        nearest = np.argsort(np.linalg.norm(points[:, None] - points[None], axis=2), axis=1)[:, 1:6]
        assert (
            np.take_along_axis(apart, nearest, axis=1).mean()
            < 0.8 * apart[~np.eye(100, dtype=bool)].mean()
        )


@pytest.mark.slow
def test_umap_is_silent_and_its_seed_decides(three_groups, picture):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        again, other = (embedding.umap_embedding(three_groups, seed=seed) for seed in (1, 2))
    assert again.tobytes() == picture.tobytes() and other.tobytes() != picture.tobytes()


@pytest.mark.slow
def test_what_umap_scales_to_nothing_is_not_looked_for_and_the_picture_is_the_same(monkeypatch):
    """All but one of eight groups are scaled to 1e-90, as those of census_kdd are."""
    import umap

    group = np.repeat(np.arange(8), 60)
    codes = 10_000 * np.eye(8, dtype=int)[group] + stream(0).integers(0, 6, (480, 8))
    centres = np.vstack([1e-90 * stream(1).normal(size=(7, 2)), [[1.0, 1.0]]])
    usual, found = umap.spectral._spectral_layout, Counter()

    def counted(usual, **given):
        found["eigenvectors"] += given["graph"].shape[0] == 60
        return usual(**given)

    monkeypatch.setattr(umap.spectral, "component_layout", lambda *_, **__: centres)
    monkeypatch.setattr(umap.spectral, "_spectral_layout", partial(counted, usual))
    quick = embedding.umap_embedding(codes, seed=1)
    assert found.pop("eigenvectors") == 1
    monkeypatch.setattr(embedding, "VANISHES", 0.0)
    whole = embedding.umap_embedding(codes, seed=1)
    assert found["eigenvectors"] == 8 and quick.tobytes() == whole.tobytes()
    assert umap.spectral._spectral_layout.func is counted  # only meanwhile


@pytest.mark.slow
def test_a_kept_split_is_the_fresh_one_byte_for_byte(three_groups, home):
    fresh = embedding.clusters(three_groups, 6, seed=1)
    files = {
        path.name: path.read_bytes() for path in (home / "data" / "cache" / "clusters").iterdir()
    }
    assert sorted(name.partition("_")[0] for name in files) == ["owners", "points"]
    kept = embedding.clusters(three_groups, 6, seed=1)
    for name in files:
        (home / "data" / "cache" / "clusters" / name).unlink()
    anew = embedding.clusters(three_groups, 6, seed=1)
    assert fresh.dtype == kept.dtype == anew.dtype == np.int32
    assert fresh.tobytes() == kept.tobytes() == anew.tobytes()
    assert files == {
        path.name: path.read_bytes() for path in (home / "data" / "cache" / "clusters").iterdir()
    }


@pytest.mark.slow
def test_clusters_are_pure_groups(three_groups):
    parts = cluster_skew(three_groups, 6, seed=1)
    assert np.sort(np.concatenate(parts)).tolist() == list(range(300))
    assert all(len(np.unique(GROUPS[part])) == 1 for part in parts)
    assert {tuple(part) for part in cluster_skew(three_groups, 3, seed=1)} == {
        tuple(np.flatnonzero(g == GROUPS)) for g in range(3)
    }


def test_by_cluster_finds_separate_groups():
    rng = stream(12)
    left_right, up_down = rng.integers(0, 2, 600), rng.integers(0, 2, 600)
    features = np.column_stack([10.0 * left_right, 3.0 * up_down]) + rng.normal(0, 0.1, (600, 2))

    def agrees(parts, groups):
        return {tuple(part) for part in parts} == {
            tuple(np.flatnonzero(groups == g)) for g in np.unique(groups)
        }

    assert agrees(by_cluster(features, 2, rng=rng), left_right)
    assert agrees(by_cluster(features, 4, rng=rng), 2 * left_right + up_down)


@pytest.mark.slow
def test_one_picture_serves_all_numbers_of_clients(scattered, three_groups):
    for num_clients in (2, 5, 9, 5):
        assert len(cluster_skew(three_groups, num_clients, seed=3)) == num_clients
    assert scattered["umap"] == 1
    cluster_skew(three_groups, 5, seed=4)
    assert scattered["umap"] == 2


@pytest.mark.slow
def test_every_fact_of_a_split_is_in_its_key(scattered, three_groups, monkeypatch):
    changed = three_groups.copy()
    changed[17, 2] += 1
    asked = [(three_groups, 5, 1), (changed, 5, 1), (three_groups.T, 5, 1), (three_groups, 5, 2)]
    for codes, num_clients, seed in asked:
        embedding.clusters(codes, num_clients, seed=seed)
    assert scattered["umap"] == len(asked)
    # equal codes are equal, whatever their type
    embedding.clusters(three_groups.astype(np.int16), 5, seed=1)
    assert scattered["umap"] == len(asked)
    monkeypatch.setattr(embedding, "VERSION", embedding.VERSION + 1)
    embedding.clusters(three_groups, 5, seed=1)
    assert scattered["umap"] == len(asked) + 1


@pytest.mark.slow
def test_half_a_file_is_made_anew(scattered, three_groups, home):
    fresh = embedding.clusters(three_groups, 5, seed=1)
    folder = home / "data" / "cache" / "clusters"
    (points,), (owners,) = folder.glob("points_*"), folder.glob("owners_*")
    for path in (owners, points):
        whole = path.read_bytes()
        for content in (b"", whole[:50], whole[:-8]):
            owners.unlink(missing_ok=True)  # points are read where owners are not there
            path.write_bytes(content)
            with pytest.warns(UserWarning, match=f"^{path}: this file of the cache is damaged"):
                again = embedding.clusters(three_groups, 5, seed=1)
            assert again.tobytes() == fresh.tobytes()
    assert not [
        path
        for path in (home / "data" / "cache" / "clusters").iterdir()
        if path.name.startswith(".")
    ]


def test_a_thousand_clients_all_hold_rows(scattered):
    codes = stream(5).integers(0, 30, (3_000, 4))
    parts = cluster_skew(codes, 1_000, seed=0)
    assert len(parts) == 1_000 and min(map(len, parts)) > 0
    assert np.sort(np.concatenate(parts)).tolist() == list(range(3_000))
    labels = np.arange(6_000) % 2
    parts = label_skew(labels, 1_000, rng=stream(0), alpha=0.1, min_rows=0, min_per_class=1)
    assert (
        len(parts) == 1_000
        and min(np.bincount(labels[part], minlength=2).min() for part in parts) >= 1
    )


def test_tables_are_coded_as_the_work_codes_them_and_others_in_32_bins():
    columns = (
        Column("age", "numeric", low=17, high=90, integer=True),
        Column("ill", "categorical", categories=("no", "yes")),
    )
    frame = pd.DataFrame(
        {
            "age": np.arange(17, 91),
            "ill": pd.Categorical(["no", "yes"] * 37, categories=["no", "yes"]),
        }
    )
    schema = Schema(columns, "ill")
    # only the name is that of a registered table
    own = embedding.coded(Table("adult", frame, schema, "own"))
    assert own[:, 0].tolist() == [
        (age - 17) * 32 // 73 if age < 90 else 31 for age in range(17, 91)
    ]
    assert own[:, 1].tolist() == [0, 1] * 37
    registered = embedding.coded(Table("adult", frame, schema, "real"))
    assert registered[:, 0].max() == 84 and len(np.unique(registered[:, 0])) == 74
    synthfs = load_table("synthfs", work="maddock2024", rows=500)
    assert (embedding.coded(synthfs) == synthfs.frame.to_numpy()).all()


def test_split_clients_takes_the_coded_table(scattered):
    table = load_table("synthfs", work="maddock2024", rows=500)
    by_name = split_clients(table, "cluster_skew", 7, seed=3)
    by_hand = cluster_skew(table.frame.to_numpy(), 7, seed=3)
    assert all((a == b).all() for a, b in zip(by_name, by_hand, strict=True))


@pytest.mark.slow
def test_what_cannot_be_drawn_is_refused(three_groups):
    with pytest.raises(BadInput, match=r"15 rows are too few for UMAP.*by_cluster"):
        cluster_skew(three_groups[:15], 2, seed=0)
    with pytest.raises(BadInput, match=r"cluster_skew: 300 rows.*301 clients"):
        cluster_skew(three_groups, 301, seed=0)


def test_umap_is_imported_only_when_it_is_asked_for():
    code = "import sys; import fedsynth_lib.tables.partition; sys.exit('umap' in sys.modules or 'numba' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_squares_cut_the_extent_of_the_points_evenly():
    points = np.array([[0.0, 10.0], [1.0, 11.0], [4.0, 10.9], [3.9, 12.0]])
    assert embedding.squares(points, 4).tolist() == [[0, 0], [1, 2], [3, 1], [3, 3]]
    assert embedding.squares(np.ones((2, 2)), 4).tolist() == [[0, 0], [0, 0]]  # without any extent
