"""Avro's schemas and Spark's types, its values and Arrow's, without a Spark session."""

from __future__ import annotations

import json
import re
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import types as t
from pyspark.sql.pandas.types import to_arrow_type

from ottla.client.errors import SchemaRegistryError
from ottla.client.serialization import AvroSerializer
from ottla.pipelines import PipelineError
from ottla.pipelines.schemas.avro import AvroReading, AvroWriting, avro_schema, refuse_misfit, spark_type
from ottla.pipelines.schemas.codec import read_batch, write_batch
from ottla.pipelines.schemas.registry import RegistryAddress
from tests.support.schema_registry import fake_registry

RICH: dict[str, Any] = {
    "type": "record",
    "name": "Order",
    "namespace": "shop",
    "fields": [
        {"name": "id", "type": "long"},
        {"name": "small", "type": "int"},
        {"name": "is_paid", "type": "boolean"},
        {"name": "weight", "type": ["float", "null"]},
        {"name": "note", "type": ["null", "string"], "default": None},
        {"name": "raw", "type": "bytes"},
        {"name": "mark", "type": {"type": "fixed", "name": "Mark", "size": 2}},
        {"name": "mark_again", "type": ["null", "Mark"]},
        {"name": "state", "type": {"type": "enum", "name": "State", "symbols": ["NEW", "DONE"]}},
        {"name": "day", "type": {"type": "int", "logicalType": "date"}},
        {"name": "at", "type": {"type": "long", "logicalType": "timestamp-millis"}},
        {"name": "exactly_at", "type": {"type": "long", "logicalType": "timestamp-micros"}},
        {"name": "local_at", "type": {"type": "long", "logicalType": "local-timestamp-millis"}},
        {"name": "price", "type": {"type": "bytes", "logicalType": "decimal", "precision": 38, "scale": 2}},
        {"name": "ident", "type": {"type": "string", "logicalType": "uuid"}},
        {"name": "hour", "type": {"type": "long", "logicalType": "time-micros"}},
        {"name": "wide", "type": ["null", "int", "long"]},
        {"name": "lines", "type": {"type": "array", "items": {
            "type": "record", "name": "Line", "fields": [
                {"name": "sku", "type": "string"},
                {"name": "sent", "type": ["null", {"type": "long", "logicalType": "timestamp-millis"}]},
            ]}}},
        {"name": "tags", "type": {"type": "map", "values": ["null", "bytes"]}},
    ],
}  # fmt: skip
MOMENT = datetime(2024, 2, 29, 12, 30, 15, 250_000, tzinfo=UTC)
ORDER = {
    "id": 2**40,
    "small": -3,
    "is_paid": True,
    "weight": 0.5,
    "note": "é",
    "raw": b"\x00\xff",
    "mark": b"ab",
    "mark_again": None,
    "state": "DONE",
    "day": date(2024, 2, 29),
    "at": MOMENT,
    "exactly_at": MOMENT.replace(microsecond=250_001),
    "local_at": MOMENT.replace(tzinfo=None),
    "price": Decimal("-123456789012345678901234567890123456.78"),
    "ident": "8c9b5f6e-0f3a-4c5b-9d49-5d9c2f5d3a11",
    "hour": 3_600_000_000,
    "wide": 2**33,
    "lines": [{"sku": "a", "sent": MOMENT}, {"sku": "b", "sent": None}],
    "tags": {"x": b"1", "y": None},
}


def arrow_of(data_type: t.DataType) -> pa.DataType:
    return to_arrow_type(t.StructType().add("value", data_type).add("error", t.StringType()), timezone="UTC")


def read_all(form: AvroReading, *values: bytes | None) -> list[dict[str, Any]]:
    read = read_batch(form.open_reader(), pa.array(values, pa.binary()), arrow_of(form.data_type()))
    rows: list[dict[str, Any]] = read.to_pylist(maps_as_pydicts="strict")
    return rows


def test_every_type_has_its_column_and_every_value_comes_through_both_ways() -> None:
    text = json.dumps(RICH)
    data_type = spark_type(text)
    assert isinstance(data_type, t.StructType)
    assert data_type.simpleString() == (
        "struct<id:bigint,small:int,is_paid:boolean,weight:float,note:string,raw:binary,mark:binary,mark_again:binary,"
        "state:string,day:date,at:timestamp,exactly_at:timestamp,local_at:timestamp_ntz,price:decimal(38,2),"
        "ident:string,hour:bigint,wide:bigint,lines:array<struct<sku:string,sent:timestamp>>,tags:map<string,binary>>"
    )
    assert {field.name for field in data_type if field.nullable} == {"weight", "note", "mark_again", "wide"}

    data = AvroSerializer(RICH).serialize("", ORDER, [])  # fastavro's own logical types are the judge
    assert read_all(AvroReading(text), data, None) == [
        {"value": ORDER, "error": None},
        {"value": None, "error": None},
    ]
    column = pa.array([ORDER, None], to_arrow_type(data_type, timezone="UTC"))
    assert write_batch(AvroWriting(text).open_writer(), column).to_pylist() == [data, None]


def test_a_schema_made_of_columns_reads_back_as_those_columns() -> None:
    line = t.StructType().add("sku", t.StringType(), False).add("count", t.ShortType())
    columns = (
        t.StructType()
        .add("id", t.LongType(), False)
        .add("when", t.TimestampType())
        .add("price", t.DecimalType(10, 3))
        .add("lines", t.ArrayType(line, False))
        .add("other", line)
        .add("tags", t.MapType(t.StringType(), t.DoubleType()))
    )
    made = avro_schema(columns)
    again = spark_type(made)
    assert again.simpleString() == columns.simpleString().replace("smallint", "int")
    refuse_misfit(made, columns)
    value = {
        "id": 1,
        "when": MOMENT,
        "price": Decimal("1.500"),
        "lines": [{"sku": "a", "count": 2}],
        "other": None,
        "tags": {"x": None},
    }
    written = write_batch(
        AvroWriting(made, b"prefix").open_writer(), pa.array([value], to_arrow_type(columns, timezone="UTC"))
    )
    (data,) = written.to_pylist()
    assert data.startswith(b"prefix")
    assert read_all(AvroReading(made), data.removeprefix(b"prefix")) == [{"value": value, "error": None}]


def test_values_of_old_and_new_writers_are_seen_as_the_reader_has_them() -> None:
    """The second version adds a field with a default of each awkward kind, drops one, and widens another."""
    first = {
        "type": "record",
        "name": "R",
        "fields": [{"name": "id", "type": "int"}, {"name": "gone", "type": "string"}],
    }
    second = {
        "type": "record",
        "name": "R",
        "fields": [
            {"name": "id", "type": "long"},
            {"name": "at", "type": {"type": "long", "logicalType": "timestamp-millis"}, "default": 1000},
            {"name": "raw", "type": "bytes", "default": "ÿ"},
            {"name": "price", "type": {"type": "bytes", "logicalType": "decimal", "precision": 4}, "default": "\u0007"},
            {"name": "in", "type": {"type": "record", "name": "In", "fields": [
                {"name": "at", "type": {"type": "long", "logicalType": "timestamp-millis"}}]}, "default": {"at": 2000}},
        ],
    }  # fmt: skip
    with fake_registry() as server:
        address = RegistryAddress(server.url)
        old = AvroSerializer(first, address.connect(), subject=lambda *_: "r").serialize("", {"id": 1, "gone": "x"}, [])
        new = AvroSerializer(second, address.connect(), subject=lambda *_: "r").serialize(
            "", {"id": 2, "at": 5, "raw": b"a", "price": Decimal(3), "in": {"at": 6}}, []
        )
        rows = read_all(AvroReading(json.dumps(second), address), old, new, old)
    epoch = [datetime.fromtimestamp(ms / 1000, UTC) for ms in (1000, 2000, 5, 6)]
    was = {"id": 1, "at": epoch[0], "raw": b"\xff", "price": Decimal(7), "in": {"at": epoch[1]}}
    assert [row["error"] for row in rows] == [None, None, None]
    assert [row["value"] for row in rows] == [
        was,
        {"id": 2, "at": epoch[2], "raw": b"a", "price": Decimal(3), "in": {"at": epoch[3]}},
        was,
    ]


def test_a_bad_value_costs_itself_and_a_silent_registry_costs_the_task() -> None:
    schema = {"type": "record", "name": "R", "fields": [{"name": "n", "type": "int"}]}
    with fake_registry() as server:
        address = RegistryAddress(server.url, timeout=1.0)
        good = AvroSerializer(schema, address.connect()).serialize("t", {"n": 1}, []) or b""
        form = AvroReading(json.dumps(schema), address)
        rows = read_all(form, good, b"no", b"\0\0\0\0\x63\2", good + b"x", b"\0\0\0\0\1", good)
        assert [row["value"] for row in rows] == [{"n": 1}, None, None, None, None, {"n": 1}]
        for row, words in zip(
            rows[1:5], ("do not begin with", "Schema not found", "go on after", "are not R"), strict=True
        ):
            assert words in row["error"]
    with pytest.raises(SchemaRegistryError, match="no schema registry answered"):
        read_all(form, b"\0\0\0\0\x64\2")


def test_a_value_that_its_column_has_no_room_for_costs_itself() -> None:
    schema = {"type": "record", "name": "R", "fields": [
        {"name": "d", "type": {"type": "bytes", "logicalType": "decimal", "precision": 3}}]}  # fmt: skip
    rows = read_all(AvroReading(json.dumps(schema)), b"\2\5", b"\x0a\x7f\xff\xff\xff\xff", b"\2\6")
    assert [row["value"] for row in rows] == [{"d": 5}, None, {"d": 6}]
    assert "does not fit its column" in rows[1]["error"]


@pytest.mark.parametrize(
    ("field", "words"),
    [
        (["null", "int", "string"], "the schema.f is a union of null, int, string, and a column has one type"),
        (["null", "R"], "the schema.f is R, which contains itself, and a column cannot"),
        ({"type": "long", "logicalType": "timestamp-nanos"}, "timestamp-nanos, which Spark has no type for"),
        ({"type": "bytes", "logicalType": "decimal", "precision": 39}, "a decimal of 39 digits, and Spark's have 38"),
        ("strange", "the Avro schema cannot be read: strange"),
    ],
)
def test_what_has_no_column_is_refused_by_its_place(field: Any, words: str) -> None:
    schema = {"type": "record", "name": "R", "fields": [{"name": "f", "type": field}]}
    with pytest.raises(PipelineError) as told:
        spark_type(json.dumps(schema))
    assert words in str(told.value)


@pytest.mark.parametrize(
    ("columns", "words"),
    [
        (t.StructType().add("sku", t.StringType()).add("more", t.LongType()), "value.more is not in the Avro schema L"),
        (t.StructType().add("more", t.LongType()), "value.more is not in the Avro schema L"),
        (t.StructType(), "no column gives value.sku, which the Avro schema L needs"),
        (
            t.StructType().add("sku", t.ArrayType(t.StringType())),
            "value.sku is array<string>, and string in the Avro schema",
        ),
    ],
)
def test_columns_that_the_schema_cannot_have_are_refused_before_a_job_starts(columns: t.StructType, words: str) -> None:
    schema = json.dumps({"type": "record", "name": "L", "fields": [
        {"name": "sku", "type": "string"}, {"name": "extra", "type": "int", "default": 1}]})  # fmt: skip
    with pytest.raises(PipelineError) as told:
        refuse_misfit(schema, columns)
    assert words in str(told.value)


@pytest.mark.parametrize(
    ("avro", "column"),
    [
        ("int", t.LongType()),
        (["null", "int"], t.LongType()),
        ({"type": "int", "doc": "n"}, t.DoubleType()),
        ("long", t.DecimalType(10, 2)),
        ("float", t.DoubleType()),
        ("boolean", t.StringType()),
    ],
)
def test_a_column_that_would_be_written_as_something_else_is_refused(avro: Any, column: t.DataType) -> None:
    schema = json.dumps({"type": "record", "name": "R", "fields": [{"name": "n", "type": avro}]})
    with pytest.raises(PipelineError, match=rf"value\.n is {re.escape(column.simpleString())}, and .*: cast it"):
        refuse_misfit(schema, t.StructType().add("n", column))


def test_a_value_that_is_no_record_is_read() -> None:
    """A schema that is a text in JSON is not to be taken for JSON once more."""
    assert read_all(AvroReading('"string"'), b"\x02a") == [{"value": "a", "error": None}]
    assert read_all(AvroReading('{"type": "long", "logicalType": "none"}'), b"\x02") == [{"value": 1, "error": None}]


def test_a_type_or_a_name_that_avro_does_not_have_is_refused() -> None:
    with pytest.raises(PipelineError, match=r"interval .* has no type in Avro"):
        avro_schema(t.StructType().add("i", t.DayTimeIntervalType()))
    with pytest.raises(PipelineError, match="'my column' has a name that Avro does not allow"):
        avro_schema(t.StructType().add("my column", t.LongType()))


def test_the_reason_of_a_bad_value_names_no_topic_since_none_is_known() -> None:
    read = AvroReading('"string"', None).open_reader()
    arrow = pa.struct([("value", pa.string()), ("error", pa.string())])
    (bad,) = read_batch(read, pa.array([b"\x09x"], pa.binary()), arrow).to_pylist()
    assert bad["value"] is None
    assert bad["error"].startswith("the bytes are not string: ")
