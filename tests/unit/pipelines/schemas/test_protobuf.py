"""Protobuf's messages and Spark's types, its values and Arrow's, without a Spark session."""

from __future__ import annotations

import importlib.util
import shutil
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import types as t
from pyspark.sql.pandas.types import to_arrow_type

from ottla.client.errors import SerializationError
from ottla.client.serialization import ProtobufSerializer, SchemaRegistry
from ottla.pipelines import MissingDependency, PipelineError
from ottla.pipelines.schemas import proto_files
from ottla.pipelines.schemas.codec import read_batch, write_batch
from ottla.pipelines.schemas.proto_files import message_class, of_class, of_registry, of_text
from ottla.pipelines.schemas.protobuf import ProtobufReading, ProtobufWriting, refuse_misfit, spark_type
from tests.support.schema_registry import fake_registry

TEXT = """
syntax = "proto3";
package shop;
import "google/protobuf/timestamp.proto";
import "google/protobuf/duration.proto";
import "google/protobuf/wrappers.proto";
enum State { NEW = 0; DONE = 1; }
message Order {
  int64 id = 1;
  optional string note = 2;
  uint32 count = 3;
  uint64 total = 4;
  State state = 5;
  google.protobuf.Timestamp at = 6;
  google.protobuf.Duration took = 7;
  google.protobuf.StringValue name = 8;
  repeated Line lines = 9;
  map<string, Line> by_sku = 10;
  map<int32, double> rates = 11;
  bytes raw = 12;
  Line first = 13;
  repeated State states = 14;
  message Line { string sku = 1; float weight = 2; }
}
"""
descriptor_pb2: Any = pytest.importorskip("google.protobuf.descriptor_pb2")
LABEL_ONE, LABEL_MANY = 1, 3


def order_files() -> bytes:
    """What a compiler makes of TEXT, made without one; the built-in files are left out, as protoc does."""
    file = descriptor_pb2.FileDescriptorProto(name="schema.proto", package="shop", syntax="proto3")
    file.dependency.extend(f"google/protobuf/{name}.proto" for name in ("timestamp", "duration", "wrappers"))
    state = file.enum_type.add(name="State")
    state.value.add(name="NEW", number=0)
    state.value.add(name="DONE", number=1)
    order = file.message_type.add(name="Order")
    line = order.nested_type.add(name="Line")
    line.field.add(name="sku", number=1, type=9, label=LABEL_ONE)
    line.field.add(name="weight", number=2, type=2, label=LABEL_ONE)
    for name, key, value in (("BySkuEntry", 9, 11), ("RatesEntry", 5, 1)):
        entry = order.nested_type.add(name=name)
        entry.options.map_entry = True
        entry.field.add(name="key", number=1, type=key, label=LABEL_ONE)
        of_line = ".shop.Order.Line" if value == 11 else None
        entry.field.add(name="value", number=2, type=value, label=LABEL_ONE, type_name=of_line)
    fields: list[tuple[str, int, int, str | None]] = [
        ("id", 3, LABEL_ONE, None),
        ("note", 9, LABEL_ONE, None),
        ("count", 13, LABEL_ONE, None),
        ("total", 4, LABEL_ONE, None),
        ("state", 14, LABEL_ONE, ".shop.State"),
        ("at", 11, LABEL_ONE, ".google.protobuf.Timestamp"),
        ("took", 11, LABEL_ONE, ".google.protobuf.Duration"),
        ("name", 11, LABEL_ONE, ".google.protobuf.StringValue"),
        ("lines", 11, LABEL_MANY, ".shop.Order.Line"),
        ("by_sku", 11, LABEL_MANY, ".shop.Order.BySkuEntry"),
        ("rates", 11, LABEL_MANY, ".shop.Order.RatesEntry"),
        ("raw", 12, LABEL_ONE, None),
        ("first", 11, LABEL_ONE, ".shop.Order.Line"),
        ("states", 14, LABEL_MANY, ".shop.State"),
    ]
    for number, (name, kind, label, type_name) in enumerate(fields, 1):
        order.field.add(name=name, number=number, type=kind, label=label, type_name=type_name)
    order.field[1].proto3_optional = True
    order.field[1].oneof_index = 0
    order.oneof_decl.add(name="_note")
    made: bytes = descriptor_pb2.FileDescriptorSet(file=[file]).SerializeToString()
    return made


MOMENT = datetime(2024, 2, 29, 12, 30, 15, 250_001, tzinfo=UTC)
ORDER: dict[str, Any] = {
    "id": -5,
    "note": "",
    "count": 2**32 - 1,
    "total": Decimal(2**64 - 1),
    "state": "DONE",
    "at": MOMENT,
    "took": timedelta(seconds=-1, microseconds=5),
    "name": "é",
    "lines": [{"sku": "a", "weight": 0.5}, {"sku": "", "weight": 0.0}],
    "by_sku": {"a": {"sku": "a", "weight": 0.5}},
    "rates": {-1: 2.5},
    "raw": b"\0\xff",
    "first": {"sku": "", "weight": 0.0},
    "states": ["NEW", "DONE", "7"],
}
EMPTY: dict[str, Any] = {
    "id": 0,
    "note": None,
    "count": 0,
    "total": Decimal(0),
    "state": "NEW",
    "at": None,
    "took": None,
    "name": None,
    "lines": [],
    "by_sku": {},
    "rates": {},
    "raw": b"",
    "first": None,
    "states": [],
}


def read_all(form: ProtobufReading, *values: bytes | None) -> list[dict[str, Any]]:
    result = t.StructType().add("value", form.data_type()).add("error", t.StringType())
    read = read_batch(form.open_reader(), pa.array(values, pa.binary()), to_arrow_type(result, timezone="UTC"))
    rows: list[dict[str, Any]] = read.to_pylist(maps_as_pydicts="strict")
    return rows


def test_every_type_has_its_column_and_every_value_comes_through_both_ways() -> None:
    files = order_files()
    data_type = spark_type(message_class(files, None).DESCRIPTOR)
    assert data_type.simpleString() == (
        "struct<id:bigint,note:string,count:bigint,total:decimal(20,0),state:string,at:timestamp,"
        "took:interval day to second,name:string,lines:array<struct<sku:string,weight:float>>,"
        "by_sku:map<string,struct<sku:string,weight:float>>,rates:map<int,double>,raw:binary,"
        "first:struct<sku:string,weight:float>,states:array<string>>"
    )
    column = pa.array([ORDER, None, EMPTY], to_arrow_type(data_type, timezone="UTC"))
    written = write_batch(ProtobufWriting(files, "Order").open_writer(), column).to_pylist()
    assert written[1:] == [None, b""]

    message = message_class(files, "shop.Order").FromString(written[0])  # Google's own reading is the judge
    assert (message.id, message.count, message.total) == (-5, 2**32 - 1, 2**64 - 1)
    assert message.HasField("note")
    assert message.HasField("first")
    assert message.at.ToDatetime(UTC) == MOMENT
    assert message.took.ToTimedelta() == ORDER["took"]
    assert (message.name.value, message.rates[-1], message.states[2]) == ("é", 2.5, 7)

    rows = read_all(ProtobufReading(files, None, has_schema_id=False), *written)
    assert [row["value"] for row in rows] == [ORDER, None, EMPTY]
    assert [row["error"] for row in rows] == [None, None, None]


def test_a_bad_value_costs_itself() -> None:
    files = order_files()
    good = message_class(files, None)(id=3).SerializeToString()
    rows = read_all(ProtobufReading(files, None, has_schema_id=True), b"\0\0\0\0\1\0" + good, good, b"\0\0\0\0\1\0\x08")
    assert rows[0]["value"]["id"] == 3
    assert "do not begin with a schema's number" in rows[1]["error"]
    assert "are no shop.Order" in rows[2]["error"]


def test_another_version_of_a_message_is_read_by_its_field_numbers() -> None:
    """The newer one has a field more, and one is called something else."""
    older = descriptor_pb2.FileDescriptorProto(name="schema.proto", syntax="proto3")
    order = older.message_type.add(name="Order")
    order.field.add(name="number", number=1, type=3, label=LABEL_ONE)
    files = descriptor_pb2.FileDescriptorSet(file=[older]).SerializeToString()
    newer = write_batch(
        ProtobufWriting(order_files(), None).open_writer(), pa.array([{"id": 8, "raw": b"new"}])
    ).to_pylist()
    assert read_all(ProtobufReading(files, "Order", has_schema_id=False), *newer) == [
        {"value": {"number": 8}, "error": None}
    ]


@pytest.mark.parametrize(
    ("value", "words"),
    [
        ({"state": "LATE"}, "'LATE' is not one of shop.State"),
        ({"count": -1}, "the value is no shop.Order"),
        ({"total": Decimal("1.5")}, "1.5 is no whole number"),
        ({"lines": [None]}, "null has no place in a list"),
    ],
)
def test_a_value_that_the_message_cannot_have_fails_with_the_reason(value: dict[str, Any], words: str) -> None:
    write = ProtobufWriting(order_files(), None).open_writer()
    with pytest.raises(SerializationError) as told:
        write(value)
    assert words in str(told.value)


@pytest.mark.parametrize(
    ("columns", "words"),
    [
        (t.StructType().add("more", t.LongType()), "value.more is not in the Protobuf message shop.Order"),
        (t.StructType().add("first", t.StructType().add("x", t.LongType())), "value.first.x is not in the Protobuf"),
        (t.StructType().add("lines", t.StringType()), "value.lines is string, and array in the message shop.Order"),
        (
            t.StructType().add("rates", t.ArrayType(t.LongType())),
            "value.rates is array<bigint>, and map in the message",
        ),
        (
            t.StructType().add("first", t.StringType()),
            "value.first is string, and the Protobuf message shop.Order.Line",
        ),
        (t.StringType(), "value is string, and the Protobuf message shop.Order is a struct"),
    ],
)
def test_columns_that_the_message_cannot_have_are_refused_before_a_job_starts(columns: t.DataType, words: str) -> None:
    with pytest.raises(PipelineError) as told:
        refuse_misfit(message_class(order_files(), None).DESCRIPTOR, columns)
    assert words in str(told.value)


def test_a_message_that_contains_itself_and_one_that_is_not_there_are_refused() -> None:
    file = descriptor_pb2.FileDescriptorProto(name="t.proto", package="p", syntax="proto3")
    tree = file.message_type.add(name="Tree")
    tree.field.add(name="left", number=1, type=11, label=LABEL_ONE, type_name=".p.Tree")
    files = descriptor_pb2.FileDescriptorSet(file=[file]).SerializeToString()
    with pytest.raises(PipelineError, match=r"p\.Tree contains itself"):
        spark_type(message_class(files, None).DESCRIPTOR)
    with pytest.raises(PipelineError, match=r"has no message Bush; it has p\.Tree"):
        message_class(files, "Bush")
    with pytest.raises(PipelineError, match="descriptor set cannot be read"):
        message_class(b"\x0a\xff", None)
    with pytest.raises(PipelineError, match="descriptor set is empty"):
        message_class(b"", None)


def test_a_class_and_a_registrys_descriptor_make_the_same_message() -> None:
    kind = message_class(order_files(), None)
    again = message_class(of_class(kind), "shop.Order")
    assert again.DESCRIPTOR.full_name == "shop.Order"
    assert again is not kind
    with fake_registry() as server:
        registry = SchemaRegistry(server.url)
        ProtobufSerializer(kind, registry).serialize("t", kind(), [])
        found = message_class(of_registry(registry.latest("t-value").schema, registry), None)
    assert spark_type(found.DESCRIPTOR) == spark_type(kind.DESCRIPTOR)


def test_text_is_compiled_by_the_real_compiler() -> None:
    if importlib.util.find_spec("grpc_tools") is None and shutil.which("protoc") is None:
        pytest.skip("needs `grpcio-tools` or `protoc` for a Protobuf schema as text")
    made = spark_type(message_class(of_text(TEXT), None).DESCRIPTOR)
    assert made == spark_type(message_class(order_files(), None).DESCRIPTOR)
    imported = of_text('syntax = "proto3"; import "a/b.proto"; message M { B b = 1; }', {
        "a/b.proto": 'syntax = "proto3"; message B { int32 n = 1; }'})  # fmt: skip
    assert spark_type(message_class(imported, "M").DESCRIPTOR).simpleString() == "struct<b:struct<n:int>>"
    with pytest.raises(PipelineError, match=r"cannot be read: schema\.proto:1:"):
        of_text('syntax = "proto3"; message {')


def test_without_a_compiler_one_line_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(proto_files, "find_spec", lambda name: None)
    monkeypatch.setattr(shutil, "which", lambda name: None)
    with pytest.raises(MissingDependency, match="pip install grpcio-tools, or give its descriptor set or class"):
        of_text(TEXT)


def test_a_schema_cannot_write_outside_of_its_directory() -> None:
    with pytest.raises(PipelineError, match="which is no name of a file"):
        of_text(TEXT, {"../../escaped.proto": ""})
