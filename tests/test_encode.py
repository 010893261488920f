"""Encoders: exact edges, round trips, uniform draws inside bins, and blindness to rows."""

import pickle

import numpy as np
import pandas as pd
import pytest

from fedsynth_lib.core.contract import BadInput, BadRows, Domain, stream
from fedsynth_lib.tables.encode import (
    EqualWidthBins,
    bins_from_rows,
    clamped,
    label_codes,
    one_hot,
    standardised,
)
from fedsynth_lib.tables.schema import Column, Schema

SCHEMA = Schema(
    (
        Column("age", "numeric", low=17, high=90, integer=True),  # 73 / 20: edges between integers
        Column("grade", "numeric", low=1, high=16, integer=True),  # fewer integers than bins
        Column("weight", "numeric", low=-3.5, high=210.25),
        Column("job", "categorical", categories=("none", "clerk", "smith")),
    ),
    target="job",
)


def table_of(num_rows: int, seed: int = 0) -> pd.DataFrame:
    rng = stream(seed)
    return pd.DataFrame(
        {
            "age": rng.integers(17, 91, num_rows),
            "grade": rng.integers(1, 17, num_rows),
            "weight": rng.uniform(-3.5, 210.25, num_rows),
            "job": pd.Categorical.from_codes(
                rng.integers(0, 3, num_rows), categories=["none", "clerk", "smith"]
            ),
        }
    )


def slow_bin(value: float, low: float, high: float, bins: int) -> int:
    """The bin by its definition: the last one whose lower edge the value reaches."""
    return max(b for b in range(bins) if low + (high - low) * b / bins <= value)


def test_domain_is_bins_and_categories():
    assert EqualWidthBins(SCHEMA).domain == Domain(
        ("age", "grade", "weight", "job"), (20, 20, 20, 3)
    )
    assert EqualWidthBins(SCHEMA, bins=7).domain.levels == (7, 7, 7, 3)


@pytest.mark.parametrize("bins", [1, 2, 7, 20, 32])
def test_transform_equals_the_definition(bins):
    frame = table_of(300)
    codes = EqualWidthBins(SCHEMA, bins).transform(frame)
    assert codes.dtype == np.int32 and codes.shape == (300, 4)
    for j, name in enumerate(SCHEMA.numeric):
        column = SCHEMA[name]
        expected = [slow_bin(value, column.low, column.high, bins) for value in frame[name]]
        assert codes[:, j].tolist() == expected
    assert codes[:, 3].tolist() == [["none", "clerk", "smith"].index(job) for job in frame["job"]]


def test_a_bin_holds_its_lower_edge_and_the_last_one_the_upper_edge_too():
    schema = Schema((Column("x", "numeric", low=0, high=100),))
    frame = pd.DataFrame({"x": [0.0, 4.999, 5.0, 94.999, 95.0, 100.0]})
    assert EqualWidthBins(schema).transform(frame)[:, 0].tolist() == [0, 0, 1, 18, 19, 19]


@pytest.mark.parametrize("high", [3, 16, 99, 157, 321, 4356, 10_000_019])
def test_whole_number_edges_come_out_exactly(high):
    edges = EqualWidthBins(
        Schema((Column("x", "numeric", low=-7, high=high, integer=True),))
    ).edges["x"]
    exact = [b for b in range(21) if (high + 7) * b % 20 == 0]
    assert edges[exact].tolist() == [-7 + (high + 7) * b // 20 for b in exact]
    assert edges[0] == -7 and edges[-1] == high


def test_round_trip_of_every_code_that_a_value_can_have():
    encoder, rng = EqualWidthBins(SCHEMA), stream(1)
    codes = rng.integers(0, encoder.domain.levels, size=(20_000, 4))
    grades = [
        b for b in range(20) if any(slow_bin(value, 1, 16, 20) == b for value in range(1, 17))
    ]
    codes[:, 1] = rng.choice(grades, size=len(codes))
    assert len(grades) == 16
    assert (encoder.transform(encoder.inverse(codes, rng)) == codes).all()


def test_round_trip_of_integers_whose_bin_edges_are_whole():
    encoder = EqualWidthBins(Schema((Column("x", "numeric", low=0, high=100, integer=True),)))
    codes = np.repeat(np.arange(20), 200)[:, None]
    drawn = encoder.inverse(codes, stream(1))
    assert (encoder.transform(drawn) == codes).all() and set(drawn["x"]) == set(range(101))


def test_uniform_draws_reach_no_neighbouring_bin_even_where_floats_are_coarse():
    # spacing of floats 0.125, bins 1 wide
    column = Column("x", "numeric", low=1e15, high=1e15 + 20)
    encoder = EqualWidthBins(Schema((column,)))
    codes = np.repeat(np.arange(20), 5_000)[:, None]
    assert (encoder.transform(encoder.inverse(codes, stream(2))) == codes).all()


def test_inverse_has_the_types_and_columns_of_the_schema():
    frame = table_of(50)
    encoder = EqualWidthBins(SCHEMA)
    back = encoder.inverse(encoder.transform(frame), stream(3))
    pd.testing.assert_series_equal(back.dtypes, frame.dtypes)
    assert back["job"].tolist() == frame["job"].tolist()
    assert (np.abs(back["age"] - frame["age"]) < 73 / 20).all()


def test_inverse_draws_uniformly_inside_the_bin():
    encoder = EqualWidthBins(SCHEMA)
    draws = encoder.inverse(np.full((40_000, 4), [5, 0, 5, 1]), stream(4))
    low, high = encoder.edges["weight"][5:7]
    position = (draws["weight"] - low) / (high - low)
    assert abs(position.mean() - 1 / 2) < 0.01 and abs(position.var() - 1 / 12) < 0.002
    counts = draws["age"].value_counts(normalize=True).sort_index()
    assert counts.index.tolist() == [36, 37, 38]  # bin 5 of age is [35.25, 38.9)
    assert np.allclose(counts, 1 / 3, atol=0.01)


def test_a_bin_without_an_integer_gives_the_nearest_one():
    encoder = EqualWidthBins(SCHEMA)
    edges = encoder.edges["grade"]  # 0.75 wide: 4 of 20 bins hold no integer
    empty = [
        b for b in range(20) if not any(slow_bin(value, 1, 16, 20) == b for value in range(1, 17))
    ]
    drawn = encoder.inverse(np.array([[0, b, 0, 0] for b in empty]), stream(5))["grade"]
    assert len(empty) == 4
    for b, value in zip(empty, drawn, strict=True):
        middle = (edges[b] + edges[b + 1]) / 2
        assert abs(value - middle) == min(abs(grade - middle) for grade in range(1, 17))
    binary = EqualWidthBins(Schema((Column("x", "numeric", low=0, high=1, integer=True),)))
    assert binary.inverse(np.arange(20)[:, None], stream(0))["x"].tolist() == [0] * 10 + [1] * 10


def test_inverse_is_repeatable_and_refuses_codes_outside_the_domain():
    encoder = EqualWidthBins(SCHEMA)
    codes = encoder.transform(table_of(20))
    pd.testing.assert_frame_equal(
        encoder.inverse(codes, stream(6)), encoder.inverse(codes, stream(6))
    )
    for wrong in (-1, 20):
        with pytest.raises(ValueError, match="domain"):
            encoder.inverse(np.where(codes == codes[0, 0], wrong, codes), stream(6))
    with pytest.raises(ValueError, match="domain"):
        encoder.inverse(codes[:, :2], stream(6))


def blind_to_rows(make_encoder) -> bool:
    """Whether two tables that differ in one outlying row lead to the same encoder, byte for
    byte."""
    frame = table_of(400)
    frame = frame[(frame["weight"] < 150) & (frame["age"] < 80)].reset_index(drop=True)
    outlier = pd.DataFrame(
        {"age": [90], "grade": [16], "weight": [210.25], "job": ["none"]}
    ).astype(frame.dtypes)
    states = []
    for rows in (frame, pd.concat([frame, outlier], ignore_index=True)):
        encoder = make_encoder(rows)
        encoder.transform(rows)  # nothing may be remembered from rows seen later, either
        states.append(
            (
                pickle.dumps(encoder.edges),
                encoder.domain,
                encoder.inverse(encoder.transform(rows[:9]), stream(0)),
            )
        )
    return states[0][:2] == states[1][:2] and states[0][2].equals(states[1][2])


def test_the_encoder_never_looks_at_rows():
    assert blind_to_rows(lambda frame: EqualWidthBins(SCHEMA))


def test_a_range_learned_from_rows_is_caught():
    assert not blind_to_rows(lambda frame: bins_from_rows(frame, SCHEMA))


def test_bins_from_rows_span_the_rows():
    frame = table_of(100)
    encoder = bins_from_rows(frame, SCHEMA, bins=8)
    for name in SCHEMA.numeric:
        assert encoder.edges[name][[0, -1]].tolist() == [frame[name].min(), frame[name].max()]
    assert encoder.domain.levels == (8, 8, 8, 3)


def test_one_hot_and_label_codes_on_a_table_worked_out_by_hand():
    frame = pd.DataFrame(
        {"age": [20, 30], "grade": [1, 16], "weight": [0.5, 1.5], "job": ["smith", "none"]}
    )
    assert one_hot(frame, SCHEMA).tolist() == [[20, 1, 0.5, 0, 0, 1], [30, 16, 1.5, 1, 0, 0]]
    assert label_codes(frame, SCHEMA).tolist() == [[20, 1, 0.5, 2], [30, 16, 1.5, 0]]
    assert (
        one_hot(frame, SCHEMA).dtype == np.float32
        and label_codes(frame, SCHEMA).dtype == np.float64
    )
    assert standardised(frame, SCHEMA).tolist() == [[-1, -1, -1, 0, 0, 1], [1, 1, 1, 1, 0, 0]]


def test_one_hot_of_many_categories_equals_pandas():
    names = [f"c{i}" for i in range(300)]  # pandas counts the codes of up to 127 categories in int8
    schema = Schema(
        tuple(
            Column(name, "categorical", categories=tuple(names[:n]))
            for name, n in (("a", 100), ("b", 100), ("c", 300))
        )
    )
    rng = stream(7)
    frame = pd.DataFrame(
        {
            c.name: pd.Categorical(rng.choice(c.categories, 500), categories=list(c.categories))
            for c in schema.columns
        }
    )
    assert (one_hot(frame, schema) == pd.get_dummies(frame).to_numpy()).all()


def test_codes_follow_the_value_not_the_order_a_frame_happens_to_have():
    frame = table_of(30)
    other = frame.assign(job=frame["job"].cat.reorder_categories(["smith", "none", "clerk"]))
    assert (
        EqualWidthBins(SCHEMA).transform(frame)
        == EqualWidthBins(SCHEMA).transform(other[other.columns[::-1]])
    ).all()


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"age": 16}, "'age' holds 1 values outside its declared range 17 to 90"),
        ({"weight": np.nan}, "'weight' holds 1 values outside"),
        ({"weight": np.inf}, "'weight' holds 1 values outside"),
        ({"job": "baker"}, "'job' holds 1 values that are not among"),
        ({"job": None}, "'job' holds 1 values that are not among"),
    ],
)
def test_what_is_not_declared_is_counted_by_column_and_never_shown(change, words):
    (name, value), frame = *change.items(), table_of(5)
    frame[name] = frame[name].astype(object)
    frame.loc[3, name] = value
    with pytest.raises(BadRows, match=words) as refused:
        EqualWidthBins(SCHEMA).transform(frame)
    for text in (str(refused.value), refused.value.told):
        assert name in text and str(value) not in text.replace("1 values", "")
    assert "holds a value" in refused.value.told  # no number of rows either


def test_numbers_outside_their_range_are_moved_to_its_ends():
    frame = table_of(5)
    frame.loc[:2, "age"] = [3, 17, 200]
    moved = clamped(frame, SCHEMA)
    assert moved["age"].tolist()[:3] == [17, 17, 90] and moved["age"].dtype == frame["age"].dtype
    pd.testing.assert_frame_equal(moved.iloc[3:], frame.iloc[3:])
    with pytest.raises(BadRows, match="'weight' holds 1 values outside"):
        EqualWidthBins(SCHEMA).transform(
            clamped(frame.assign(weight=[np.nan, 50, 50, 50, 50]), SCHEMA)
        )


def test_a_missing_column_and_impossible_bins_are_named():
    with pytest.raises(BadInput, match="'grade'"):
        EqualWidthBins(SCHEMA).transform(table_of(5).drop(columns="grade"))
    with pytest.raises(BadInput, match="bins is 0"):
        EqualWidthBins(SCHEMA, bins=0)
    with pytest.raises(BadInput, match=r"'x'.*20 bins"):
        EqualWidthBins(Schema((Column("x", "numeric", low=0, high=float("inf")),)))


def test_single_columns_have_bins_of_their_own():
    frame = table_of(300)
    encoder = EqualWidthBins(SCHEMA, 20, {"weight": 7, "grade": 16})
    assert encoder.domain.levels == (20, 16, 7, 3)
    codes = encoder.transform(frame)
    assert codes[:, [0, 3]].tolist() == EqualWidthBins(SCHEMA).transform(frame)[:, [0, 3]].tolist()
    assert codes[:, 1].tolist() == (frame["grade"] - 1).tolist()
    assert codes[:, 2].tolist() == [slow_bin(value, -3.5, 210.25, 7) for value in frame["weight"]]
    assert encoder.inverse(codes, stream(0))["grade"].tolist() == frame["grade"].tolist()


def test_encoders_with_equal_bins_are_equal_hashable_and_survive_pickling():
    as_mapping, as_pairs = (
        EqualWidthBins(SCHEMA, 9, given)
        for given in ({"weight": 7, "age": 5}, (("age", 5), ("weight", 7)))
    )
    assert as_mapping == as_pairs == pickle.loads(pickle.dumps(as_mapping)) and hash(
        as_mapping
    ) == hash(as_pairs)
    assert as_mapping != EqualWidthBins(SCHEMA, 9) and EqualWidthBins(SCHEMA).by_column == ()


@pytest.mark.parametrize(("low", "high"), [(0, 1), (17, 90), (-173, 601), (0, 99_999), (0.5, 6.5)])
def test_without_bins_an_integer_column_keeps_its_whole_numbers(low, high):
    encoder = EqualWidthBins(
        Schema((Column("x", "numeric", low=low, high=high, integer=True),)), bins=None
    )
    values = np.arange(np.ceil(low), np.floor(high) + 1)
    codes = encoder.transform(pd.DataFrame({"x": values}))
    assert codes[:, 0].tolist() == list(range(len(values))) and encoder.domain.levels == (
        len(values),
    )
    assert encoder.inverse(codes, stream(0))["x"].tolist() == values.tolist()


def test_as_many_bins_as_whole_numbers_or_more_keep_them_apart():
    schema = Schema((Column("x", "numeric", low=17, high=90, integer=True),))
    frame = pd.DataFrame({"x": np.arange(17, 91)})
    assert EqualWidthBins(schema, None, {"x": 74}).transform(frame)[:, 0].tolist() == list(
        range(74)
    )
    spread = EqualWidthBins(schema, None, {"x": 85})
    codes = spread.transform(frame)
    assert spread.domain.levels == (85,) and len(np.unique(codes)) == 74 and codes.max() == 84
    assert spread.inverse(codes, stream(0))["x"].tolist() == frame["x"].tolist()


def test_bins_of_single_columns_that_cannot_be_are_named():
    with pytest.raises(BadInput, match="'weight' is continuous and was not binned; "):
        EqualWidthBins(SCHEMA, bins=None)
    with pytest.raises(BadInput, match="'weight' is continuous"):
        EqualWidthBins(SCHEMA, None, {"age": 5})
    assert EqualWidthBins(SCHEMA, None, {"weight": 5}).domain.levels == (74, 16, 5, 3)
    with pytest.raises(BadInput, match=r"'wieght'.*did you mean 'weight'"):
        EqualWidthBins(SCHEMA, 20, {"wieght": 5})
    with pytest.raises(BadInput, match="'job', which is categorical"):
        EqualWidthBins(SCHEMA, 20, {"job": 3})
    for bins in (0, 2.5):
        with pytest.raises(BadInput, match=rf"by_column\['age'\] is {bins}"):
            EqualWidthBins(SCHEMA, 20, {"age": bins})
    many = Schema((Column("bytes", "numeric", low=0, high=693_375_640, integer=True),))
    with pytest.raises(BadInput, match="'bytes' holds 693375641 whole numbers and was not binned"):
        EqualWidthBins(many, bins=None)
