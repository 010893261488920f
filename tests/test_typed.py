"""What a declared file may not say is refused in one sentence that names file, key and remedy."""

from dataclasses import dataclass
from typing import Literal, NamedTuple

import pytest

from fedsynth_lib.core.contract import BadInput
from fedsynth_lib.runs.typed import check_names, read_toml, typed


@dataclass(frozen=True)
class Bird:
    name: str
    kind: Literal["wader", "gull"]
    places: tuple[str, ...] = ()


class Nest(NamedTuple):
    eggs: int
    birds: tuple[Bird, ...] = ()


GOOD = {"name": "tern", "kind": "gull", "places": ["beach"]}


def test_a_table_becomes_what_its_annotations_say():
    assert typed(Bird, GOOD, "birds.toml") == Bird("tern", "gull", ("beach",))
    assert typed(Nest, {"eggs": 2, "birds": [GOOD]}, "birds.toml").birds[0].kind == "gull"


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"plces": []}, "unknown key 'plces' (did you mean 'places'?)."),
        ({"x": 1}, "unknown key 'x': choose one of name, kind, places."),
        ({"kind": "duck"}, "kind is 'duck': it should be 'wader' or 'gull'."),
        ({"places": "beach"}, "places is 'beach': it should be a valid tuple."),
        ({"name": None}, "name is None: it should be a valid string."),
    ],
)
def test_a_key_or_a_value_that_is_not_allowed_is_named(change, message):
    with pytest.raises(BadInput) as raised:
        typed(Bird, {**GOOD, **change}, "birds.toml, tern")
    assert str(raised.value) == f"birds.toml, tern: {message}"


def test_a_missing_key_is_named_in_parts_too():
    for kind, entry, key in (
        (Bird, {"kind": "gull"}, "name"),
        (Nest, {}, "eggs"),
        (Nest, {"eggs": 1, "birds": [{"name": "tern"}]}, r"birds\.0\.kind"),
    ):
        with pytest.raises(BadInput, match=f"^birds.toml: the key '{key}' is missing"):
            typed(kind, entry, "birds.toml")


def test_a_name_that_nobody_knows_has_the_closest_known_one_or_all():
    check_names("birds.toml", "bird", ["tern"], ["tern", "knot"])
    with pytest.raises(BadInput, match=r"^birds.toml: unknown bird 'knott' \(did you mean 'knot'"):
        check_names("birds.toml", "bird", ["tern", "knott"], ["tern", "knot"])
    with pytest.raises(BadInput, match="unknown size 7: choose one of 1, 2"):
        check_names("birds.toml", "size", [7], [1, 2])


@pytest.mark.parametrize("content", [b"[bird", b"\xff"])
def test_a_file_that_is_not_valid_is_named(tmp_path, content):
    path = tmp_path / "birds.toml"
    path.write_bytes(content)
    with pytest.raises(BadInput, match=r"birds\.toml: not valid TOML"):
        read_toml(path)
