"""`ottla/client/columnar/json_values.py`: each row is its own value's object, or the first bad row is named."""

from __future__ import annotations

import json
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ottla.client.columnar import BadValue, JsonValues

SIMPLE = pa.schema([("a", pa.int64()), ("b", pa.string())])


def column(*values: bytes | None) -> pa.Array:
    return pa.array(values, pa.binary())


def test_objects_become_structs_with_the_fields_of_the_schema() -> None:
    values = column(b'{"a":1,"b":"x","other":[1,2]}', None, b' {\n "a" : 2 }\n', b"null", b'{"b":"v\xc4\x9btev"}')
    decoder = JsonValues(SIMPLE)
    found = decoder.decode(values)
    assert found.type == decoder.type
    assert found.to_pylist() == [
        {"a": 1, "b": "x"},
        None,
        {"a": 2, "b": None},
        None,
        {"a": None, "b": "větev"},
    ]


def test_types_are_converted_as_the_schema_says() -> None:
    schema = pa.schema(
        [
            ("when", pa.timestamp("ms", "UTC")),
            ("day", pa.date32()),
            ("price", pa.decimal128(10, 2)),
            ("ratio", pa.float32()),
            ("on", pa.bool_()),
            ("tags", pa.list_(pa.string())),
            ("inner", pa.struct([("x", pa.int8())])),
        ]
    )
    value = (
        b'{"when":"2026-11-16T04:05:06Z","day":"2026-11-16","price":"12.30","ratio":0.5,"on":true,'
        b'"tags":["a",null],"inner":{"x":-3,"y":9}}'
    )
    (found,) = JsonValues(schema).decode(column(value)).to_pylist()
    assert found == {
        "when": datetime(2026, 11, 16, 4, 5, 6, tzinfo=UTC),
        "day": date(2026, 11, 16),
        "price": Decimal("12.30"),
        "ratio": 0.5,
        "on": True,
        "tags": ["a", None],
        "inner": {"x": -3},
    }


def test_a_type_that_json_is_not_read_as_is_refused_at_once() -> None:
    with pytest.raises(ValueError, match="JSON cannot be read as struct<a: duration"):
        JsonValues(pa.schema([("a", pa.duration("s"))]))


BAD = [
    b"",
    b"  \n",
    b"nonsense",
    b"{",
    b'{"a":1',
    b'{"a":',
    b'{"a":1}}',
    b'{"a":1}{"a":2}',
    b'{"a":1}\n{"a":2}',
    b'{"a":1},{"a":2}',
    b'{"a":1},"x":2',
    b'{"a":1}]}\n{"v":[{"a":2}',
    b'{"a":1,"a":2}',
    b'{"a":"text"}',
    b'{"a":1.5}',
    b'{"a":99999999999999999999}',
    b'{"b":"\xff"}',
    b'{"b":"\x01"}',
    b'{"b":"x',
    b"[]",
    b"17",
    b'"text"',
    b'{"a":1}\x00',
]


@pytest.mark.parametrize("value", BAD)
@pytest.mark.parametrize("place", [0, 1, 500, 999])
def test_the_first_bad_value_is_named(value: bytes, place: int) -> None:
    values: list[bytes | None] = [b'{"a":%d}' % number for number in range(1000)]
    values[place] = value
    with pytest.raises(BadValue) as caught:
        JsonValues(SIMPLE).decode(column(*values))
    assert caught.value.row == place
    assert caught.value.why


@pytest.mark.parametrize("first", BAD)
def test_two_bad_values_do_not_make_a_good_one(first: bytes) -> None:
    """One that is two objects and one that is none would be as many rows as values."""
    for second in BAD:
        with pytest.raises(BadValue) as caught:
            JsonValues(SIMPLE).decode(column(b'{"a":0}', first, second, b'{"a":1}'))
        assert caught.value.row == 1


def test_halves_of_an_object_in_two_values_are_two_bad_values() -> None:
    for values in ((b'{"a":', b"1}"), (b'{"b":"x', b'y"}'), (b'{"a":1', b',"b":"x"}'), (b'{"b":"x"', b"}")):
        with pytest.raises(BadValue) as caught:
            JsonValues(SIMPLE).decode(column(b"{}", *values, b"{}{}"))
        assert caught.value.row == 1


def test_unknown_fields_may_be_refused() -> None:
    decoder = JsonValues(SIMPLE, refuses_unknown=True)
    assert decoder.decode(column(b'{"a":1}')).to_pylist() == [{"a": 1, "b": None}]
    with pytest.raises(BadValue) as caught:
        decoder.decode(column(b'{"a":1}', b'{"a":1,"c":2}'))
    assert caught.value.row == 1


def test_no_values_and_nothing_but_nulls() -> None:
    assert JsonValues(SIMPLE).decode(column()).to_pylist() == []
    assert JsonValues(SIMPLE).decode(column(None, None)).to_pylist() == [None, None]


def test_a_slice_is_decoded_as_what_it_is() -> None:
    values = column(b"bad", b'{"a":1}', None, b'{"a":2}', b"bad")
    assert JsonValues(SIMPLE).decode(values[1:4]).to_pylist() == [{"a": 1, "b": None}, None, {"a": 2, "b": None}]


def test_values_larger_than_a_block_of_the_reader_are_read() -> None:
    values = column(*[b'{"a":1,"b":"' + b"x" * 3_000_000 + b'"}'] * 2)
    assert [len(row["b"]) for row in JsonValues(SIMPLE).decode(values).to_pylist()] == [3_000_000] * 2


objects = st.fixed_dictionaries(
    {},
    optional={
        "a": st.none() | st.integers(-(2**63), 2**63 - 1),
        "b": st.none() | st.text(st.characters(exclude_categories=["Cs"]), max_size=8),
        "c": st.recursive(st.none() | st.booleans(), st.lists, max_leaves=3),
    },
)


@settings(max_examples=50, deadline=None)
@given(st.lists(st.none() | objects, max_size=8))
def test_any_objects_come_back(values: list[Any]) -> None:
    texts = [None if value is None else json.dumps(value, ensure_ascii=False).encode() for value in values]
    expected = [None if value is None else {"a": value.get("a"), "b": value.get("b")} for value in values]
    assert JsonValues(SIMPLE).decode(column(*texts)).to_pylist() == expected
