"""`ottla/client/columnar/avro_values.py`: Avro values become typed columns, or the first bad row is named."""

from __future__ import annotations

import json
import struct
from datetime import UTC, date, datetime, time
from decimal import Decimal
from io import BytesIO
from typing import Any

import fastavro
import pyarrow as pa
import pytest

from ottla.client.columnar import AvroValues, BadValue
from ottla.client.columnar.avro_values import arrow_type

ORDER: dict[str, Any] = {
    "type": "record",
    "name": "Order",
    "namespace": "shop",
    "fields": [
        {"name": "id", "type": "long"},
        {"name": "note", "type": ["null", "string"], "default": None},
    ],
}
LATER: dict[str, Any] = {
    **ORDER,
    "fields": [*ORDER["fields"], {"name": "count", "type": "int", "default": 1}],
}


def encoded(schema: Any, value: Any, schema_id: int | None = None) -> bytes:
    out = BytesIO()
    if schema_id is not None:
        out.write(struct.pack(">bi", 0, schema_id))
    fastavro.schemaless_writer(out, fastavro.parse_schema(schema), value)
    return out.getvalue()


def column(*values: bytes | None) -> pa.Array:
    return pa.array(values, pa.binary())


def test_values_become_structs_and_null_stays_null() -> None:
    rows = [{"id": 1, "note": "x"}, None, {"id": -(2**60), "note": None}]
    decoder = AvroValues(json.dumps(ORDER))
    values = column(b"not looked at", *(None if row is None else encoded(ORDER, row) for row in rows))
    found = decoder.decode(values[1:])
    assert found.type == decoder.type == pa.struct([("id", pa.int64()), ("note", pa.string())])
    assert found.to_pylist() == rows
    assert decoder.decode(column()).to_pylist() == []
    assert decoder.decode(column(None)).to_pylist() == [None]


def test_every_kind_of_avro_value_has_its_arrow_type() -> None:
    fields: list[tuple[Any, Any, pa.DataType]] = [
        ("boolean", True, pa.bool_()),
        ("int", -5, pa.int32()),
        ("long", 2**40, pa.int64()),
        ("float", 0.5, pa.float32()),
        ("double", 0.1, pa.float64()),
        ("bytes", b"\xff", pa.binary()),
        ("string", "text", pa.string()),
        ({"type": "fixed", "name": "F", "size": 2}, b"ab", pa.binary(2)),
        ({"type": "enum", "name": "E", "symbols": ["ON", "OFF"]}, "OFF", pa.string()),
        ({"type": "array", "items": ["null", "int"]}, [1, None], pa.list_(pa.int32())),
        ({"type": "map", "values": "long"}, {"k": 1}, pa.map_(pa.string(), pa.int64())),
        ({"type": "int", "logicalType": "date"}, date(2026, 11, 16), pa.date32()),
        ({"type": "int", "logicalType": "time-millis"}, time(1, 2, 3, 4000), pa.time32("ms")),
        ({"type": "long", "logicalType": "time-micros"}, time(1, 2, 3, 4), pa.time64("us")),
        (
            {"type": "long", "logicalType": "timestamp-millis"},
            datetime(2026, 11, 16, 1, 2, 3, 4000, UTC),
            pa.timestamp("ms", "UTC"),
        ),
        (
            ["null", {"type": "long", "logicalType": "timestamp-micros"}],
            datetime(2026, 11, 16, 1, 2, 3, 4, UTC),
            pa.timestamp("us", "UTC"),
        ),
        ({"type": "long", "logicalType": "local-timestamp-millis"}, datetime(2026, 11, 16), pa.timestamp("ms")),
        (
            {"type": "bytes", "logicalType": "decimal", "precision": 8, "scale": 2},
            Decimal("-12.30"),
            pa.decimal128(8, 2),
        ),
        (
            {"type": "fixed", "name": "D", "size": 4, "logicalType": "decimal", "precision": 8, "scale": 2},
            Decimal("12.30"),
            pa.decimal128(8, 2),
        ),
        ({"type": "string", "logicalType": "uuid"}, "c0ffee00-0000-4000-8000-000000000000", pa.string()),
        (ORDER, {"id": 1, "note": None}, pa.struct([("id", pa.int64()), ("note", pa.string())])),
        ("shop.Order", {"id": 2, "note": "n"}, pa.struct([("id", pa.int64()), ("note", pa.string())])),
    ]
    schema = {
        "type": "record",
        "name": "All",
        "fields": [{"name": f"f{number}", "type": kind} for number, (kind, _, _) in enumerate(fields)],
    }
    value = {f"f{number}": content for number, (_, content, _) in enumerate(fields)}
    found = AvroValues(schema).decode(column(encoded(schema, value)))
    assert [field.type for field in found.type] == [kind for _, _, kind in fields]
    expected = {**value, "f10": [("k", 1)]}
    assert found.to_pylist() == [expected]


def test_values_need_not_be_records() -> None:
    assert AvroValues("long").decode(column(encoded("long", 7), None)).to_pylist() == [7, None]
    assert AvroValues('"string"').decode(column(encoded("string", "x"))).to_pylist() == ["x"]
    assert AvroValues(["null", "long"]).decode(column(encoded(["null", "long"], None))).to_pylist() == [None]


@pytest.mark.parametrize(
    "schema",
    [
        ["int", "string"],
        {"type": "record", "name": "R", "fields": [{"name": "next", "type": ["null", "R"]}]},
        "no such type",
        {"fields": []},
        17,
    ],
)
def test_a_schema_that_has_no_column_is_refused(schema: Any) -> None:
    with pytest.raises(ValueError):
        AvroValues(schema)
    with pytest.raises(ValueError):
        arrow_type(schema)


def test_some_schema_is_needed() -> None:
    with pytest.raises(ValueError, match="needs a schema, or a lookup"):
        AvroValues()


def test_every_truncation_and_everything_that_is_left_over_is_refused() -> None:
    good = encoded(ORDER, {"id": 300, "note": "some text"})
    bad = [good[:cut] for cut in range(len(good))] + [good + b"\0", good + good]
    for value in bad:
        with pytest.raises(BadValue) as caught:
            AvroValues(ORDER).decode(column(good, None, value, good))
        assert caught.value.row == 2


def test_a_value_behind_a_schemas_id_is_read_with_that_schema() -> None:
    asked: list[int] = []

    def lookup(schema_id: int) -> Any:
        asked.append(schema_id)
        return {7: ORDER, 8: json.dumps(LATER)}[schema_id]

    old = encoded(ORDER, {"id": 1, "note": "x"}, 7)
    new = encoded(LATER, {"id": 2, "note": None, "count": 5}, 8)
    as_new = AvroValues(LATER, lookup=lookup).decode(column(old, new, None, old))
    assert as_new.to_pylist() == [
        {"id": 1, "note": "x", "count": 1},
        {"id": 2, "note": None, "count": 5},
        None,
        {"id": 1, "note": "x", "count": 1},
    ]
    assert asked == [7, 8]
    first = AvroValues(lookup=lookup)
    assert first.decode(column(None)).to_pylist() == [None]
    assert first.decode(column(old, new)).to_pylist() == [{"id": 1, "note": "x"}, {"id": 2, "note": None}]
    assert first.type == pa.struct([("id", pa.int64()), ("note", pa.string())])
    assert asked == [7, 8, 7, 8]


def test_what_comes_before_a_value_is_checked() -> None:
    def lookup(schema_id: int) -> Any:
        if schema_id == 9:
            return "no such type"
        return {7: ORDER}[schema_id]

    good = encoded(ORDER, {"id": 1, "note": "x"}, 7)
    other = {**ORDER, "fields": [{"name": "id", "type": "string"}]}
    for bad, why in (
        (b"", "too few"),
        (good[:4], "too few"),
        (b"\1" + good[1:], "begins with 1"),
        (encoded(ORDER, {"id": 1}, 99), "the schema 99 cannot be had"),
        (encoded(ORDER, {"id": 1}, 9), "the schema 9 cannot be had"),
        (good[:-1], "not Avro"),
    ):
        with pytest.raises(BadValue, match=why) as caught:
            AvroValues(ORDER, lookup=lookup).decode(column(good, bad))
        assert caught.value.row == 1
    with pytest.raises(BadValue, match="not Avro of the schema"):
        AvroValues(other, lookup=lookup).decode(column(good))


def test_a_number_that_does_not_fit_its_column_is_told_with_its_row() -> None:
    schema = {"type": "long", "logicalType": "timestamp-millis"}
    assert AvroValues(schema).decode(column(encoded("long", 2**62))).cast(pa.int64()).to_pylist() == [2**62]
    price = {"type": "bytes", "logicalType": "decimal", "precision": 3, "scale": 0}
    wide = {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 0}
    with pytest.raises(BadValue) as caught:
        AvroValues(price).decode(column(encoded(price, Decimal(1)), encoded(wide, Decimal(123456))))
    assert caught.value.row == 1
