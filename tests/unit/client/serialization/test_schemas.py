"""Avro, JSON Schema and Protobuf: with a registry in Confluent's form, without one, and what each refuses."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import UTC, date, datetime, time
from decimal import Decimal
from typing import Any
from uuid import UUID

import pytest

from ottla.client.errors import SerializationError
from ottla.client.serialization import (
    AvroDeserializer,
    AvroSerializer,
    JsonSchemaDeserializer,
    JsonSchemaSerializer,
    ProtobufDeserializer,
    ProtobufSerializer,
    SchemaRegistry,
    record_name,
    topic_record_name,
)
from tests.support.schema_registry import FakeRegistry, fake_registry

ORDER = {
    "type": "record",
    "name": "Order",
    "fields": [{"name": "id", "type": "long"}, {"name": "note", "type": ["null", "string"], "default": None}],
}
ORDER_JSON = {
    "title": "Order",
    "type": "object",
    "properties": {"id": {"type": "integer"}},
    "required": ["id"],
}


@pytest.fixture
def server() -> Iterator[FakeRegistry]:
    with fake_registry() as registry:
        yield registry


@pytest.fixture
def registry(server: FakeRegistry) -> SchemaRegistry:
    return SchemaRegistry(server.url)


class TestAvro:
    @pytest.fixture(autouse=True)
    def needs_fastavro(self) -> None:
        pytest.importorskip("fastavro")

    @pytest.mark.parametrize(
        ("kind", "value"),
        [
            ("int", 2**31), ("int", -(2**31) - 1), ("int", 1.5), ("int", True), ("long", 2**63), ("long", 0.5),
            ("boolean", "x"), ("boolean", 1), ("float", "1"), ("string", 1), ("bytes", "text"),
            ({"type": "array", "items": "int"}, [1, 2**40]), (["null", "int"], 2**40),
        ],
    )  # fmt: skip
    def test_a_value_that_would_be_written_as_another_is_refused(self, kind: Any, value: Any) -> None:
        schema = {"type": "record", "name": "R", "fields": [{"name": "f", "type": kind}]}
        with pytest.raises(SerializationError, match="the value for topic t is not R: ") as refused:
            AvroSerializer(schema).serialize("t", {"f": value}, [])
        assert "\n" not in str(refused.value)

    @pytest.mark.parametrize(
        ("kind", "value"),
        [
            ("int", -(2**31)), ("long", 2**63 - 1), ("double", 3), ("float", 0.5), ("boolean", False),
            ({"type": "int", "logicalType": "date"}, date(2026, 11, 16)),
            ({"type": "int", "logicalType": "time-millis"}, time(1, 2, 3, 4000)),
            ({"type": "long", "logicalType": "time-micros"}, time(1, 2, 3, 4)),
            ({"type": "long", "logicalType": "timestamp-millis"}, datetime(2026, 11, 16, 1, 2, 3, 4000, UTC)),
            ({"type": "long", "logicalType": "timestamp-micros"}, datetime(2026, 11, 16, 1, 2, 3, 4, UTC)),
            ({"type": "long", "logicalType": "local-timestamp-micros"}, datetime(2026, 11, 16, 1, 2, 3, 4)),
            ({"type": "string", "logicalType": "uuid"}, UUID(int=7)),
            ({"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2}, Decimal("12.34")),
            ({"type": "fixed", "name": "F", "size": 8, "logicalType": "decimal", "precision": 9}, Decimal(12)),
            ({"type": "enum", "name": "E", "symbols": ["A", "B"]}, "B"),
            ({"type": "fixed", "name": "F", "size": 2}, b"xy"),
            ({"type": "map", "values": ["null", "int"]}, {"a": None, "b": 1}),
        ],
    )  # fmt: skip
    def test_a_value_of_its_schema_reads_back(self, kind: Any, value: Any) -> None:
        schema = {"type": "record", "name": "R", "fields": [{"name": "f", "type": kind}]}
        data = AvroSerializer(schema).serialize("t", {"f": value}, [])
        assert AvroDeserializer(None, schema).deserialize("t", data, []) == {"f": value}

    def test_a_value_is_behind_its_schemas_number_and_reads_back(
        self, server: FakeRegistry, registry: SchemaRegistry
    ) -> None:
        serializer = AvroSerializer(ORDER, registry)
        data = serializer.serialize("orders", {"id": 7, "note": "é"}, [])
        assert data == b"\0\0\0\0\1\x0e\2\4\xc3\xa9"
        assert AvroDeserializer(registry).deserialize("orders", data, []) == {"id": 7, "note": "é"}
        assert json.loads(server.schemas[1]["schema"]) == ORDER
        assert list(server.subjects) == ["orders-value"]

    def test_a_thousand_values_ask_the_registry_twice(self, server: FakeRegistry, registry: SchemaRegistry) -> None:
        serializer, deserializer = AvroSerializer(ORDER, registry), AvroDeserializer(registry)
        for number in range(1000):
            data = serializer.serialize("t", {"id": number, "note": None}, [])
            assert deserializer.deserialize("t", data, [])["id"] == number
        assert len(server.asked) == 2

    def test_without_a_registry_both_know_the_schema(self) -> None:
        data = AvroSerializer(json.dumps(ORDER)).serialize("t", {"id": 1}, [])
        assert data == b"\2\0"
        assert AvroDeserializer(schema=ORDER).deserialize("t", data, []) == {"id": 1, "note": None}

    def test_a_reader_sees_values_as_its_own_schema_has_them(self, registry: SchemaRegistry) -> None:
        data = AvroSerializer(ORDER, registry).serialize("t", {"id": 1, "note": "x"}, [])
        newer = {
            "type": "record",
            "name": "Order",
            "fields": [{"name": "id", "type": "double"}, {"name": "paid", "type": "boolean", "default": False}],
        }
        assert AvroDeserializer(registry, newer).deserialize("t", data, []) == {"id": 1.0, "paid": False}
        other = {"type": "record", "name": "Order", "fields": [{"name": "must", "type": "int"}]}
        with pytest.raises(SerializationError):
            AvroDeserializer(registry, other).deserialize("t", data, [])

    def test_objects_become_dictionaries_and_come_back(self, registry: SchemaRegistry) -> None:
        serializer = AvroSerializer(ORDER, registry, to_dict=lambda number: {"id": number})
        data = serializer.serialize("t", 5, [])
        assert AvroDeserializer(registry, from_dict=lambda found: found["id"]).deserialize("t", data, []) == 5

    def test_a_schema_may_refer_to_others(self, server: FakeRegistry, registry: SchemaRegistry) -> None:
        server.register("order", {"schema": json.dumps(ORDER)})
        basket = {
            "type": "record",
            "name": "Basket",
            "fields": [{"name": "orders", "type": {"type": "array", "items": "Order"}}],
        }
        references = [{"name": "Order", "subject": "order", "version": 1}]
        server.register("t-value", {"schema": json.dumps(basket), "references": references})
        data = b"\0\0\0\0\2" + b"\2\x0e\0\0"
        assert AvroDeserializer(registry).deserialize("t", data, []) == {"orders": [{"id": 7, "note": None}]}

    @pytest.mark.parametrize("value", [{}, {"id": "x"}, {"id": 1, "note": 2}, "text", {"id": 2**70}])
    def test_a_value_that_the_schema_does_not_allow_is_refused(self, registry: SchemaRegistry, value: Any) -> None:
        with pytest.raises(SerializationError):
            AvroSerializer(ORDER, registry).serialize("t", value, [])

    @pytest.mark.parametrize("data", [b"", b"\x0e", b"\x0e\4", b"\x0e\2\4a", b"\x0e\0more"])
    def test_bytes_that_are_no_such_value_are_refused(self, data: bytes) -> None:
        with pytest.raises(SerializationError):
            AvroDeserializer(schema=ORDER).deserialize("t", data, [])

    def test_the_subject_follows_the_chosen_rule(self, server: FakeRegistry, registry: SchemaRegistry) -> None:
        AvroSerializer(ORDER, registry, is_key=True).serialize("t", {"id": 1}, [])
        AvroSerializer(ORDER, registry, subject=record_name).serialize("t", {"id": 1}, [])
        AvroSerializer(ORDER, registry, subject=topic_record_name).serialize("t", {"id": 1}, [])
        assert list(server.subjects) == ["t-key", "Order", "t-Order"]

    def test_a_schema_of_another_kind_is_refused(self, server: FakeRegistry, registry: SchemaRegistry) -> None:
        server.register("t", {"schema": "{}", "schemaType": "JSON"})
        with pytest.raises(SerializationError, match="schema 1 is JSON, not Avro"):
            AvroDeserializer(registry).deserialize("t", b"\0\0\0\0\1x", [])

    def test_a_schema_that_is_none_is_refused_at_once(self) -> None:
        for schema in ("{", {"type": "recor"}, {"type": "record", "fields": []}):
            with pytest.raises(SerializationError):
                AvroSerializer(schema)
        with pytest.raises(ValueError, match="needs a registry or a schema"):
            AvroDeserializer()

    def test_nothing_stays_nothing(self, registry: SchemaRegistry) -> None:
        assert AvroSerializer(ORDER, registry).serialize("t", None, []) is None
        assert AvroDeserializer(registry).deserialize("t", None, []) is None


class TestJsonSchema:
    @pytest.fixture(autouse=True)
    def needs_jsonschema(self) -> None:
        pytest.importorskip("jsonschema_rs")

    def test_a_value_is_behind_its_schemas_number_and_reads_back(
        self, server: FakeRegistry, registry: SchemaRegistry
    ) -> None:
        data = JsonSchemaSerializer(ORDER_JSON, registry).serialize("t", {"id": 1}, [])
        assert data == b'\0\0\0\0\1{"id":1}'
        assert JsonSchemaDeserializer(registry).deserialize("t", data, []) == {"id": 1}
        assert server.schemas[1]["schemaType"] == "JSON"

    def test_what_the_schema_does_not_allow_is_refused_on_both_sides(self, registry: SchemaRegistry) -> None:
        with pytest.raises(SerializationError, match="topic t, at /id: "):
            JsonSchemaSerializer(ORDER_JSON, registry).serialize("t", {"id": "x"}, [])
        JsonSchemaSerializer(ORDER_JSON, registry).serialize("t", {"id": 1}, [])
        bad = b'\0\0\0\0\1{"name":1}'
        with pytest.raises(SerializationError, match='"id" is a required property'):
            JsonSchemaDeserializer(registry).deserialize("t", bad, [])
        assert JsonSchemaDeserializer(registry, validate=False).deserialize("t", bad, []) == {"name": 1}

    def test_without_a_registry_both_know_the_schema(self) -> None:
        data = JsonSchemaSerializer(json.dumps(ORDER_JSON)).serialize("t", {"id": 1}, [])
        assert data == b'{"id":1}'
        assert JsonSchemaDeserializer(schema=ORDER_JSON).deserialize("t", data, []) == {"id": 1}
        with pytest.raises(SerializationError):
            JsonSchemaDeserializer(schema=ORDER_JSON).deserialize("t", b"{}", [])

    def test_references_come_from_the_registry_and_from_nowhere_else(
        self, server: FakeRegistry, registry: SchemaRegistry
    ) -> None:
        server.register("order", {"schema": json.dumps(ORDER_JSON), "schemaType": "JSON"})
        basket = {"type": "array", "items": {"$ref": "order.json"}}
        references = [{"name": "order.json", "subject": "order", "version": 1}]
        server.register("t", {"schema": json.dumps(basket), "schemaType": "JSON", "references": references})
        deserializer = JsonSchemaDeserializer(registry)
        assert deserializer.deserialize("t", b'\0\0\0\0\2[{"id":1}]', []) == [{"id": 1}]
        with pytest.raises(SerializationError):
            deserializer.deserialize("t", b'\0\0\0\0\2[{"id":"x"}]', [])
        with pytest.raises(SerializationError, match="cannot be read"):
            JsonSchemaSerializer({"$ref": "file:///etc/passwd"})
        with pytest.raises(SerializationError, match="cannot be read"):
            JsonSchemaSerializer({"$ref": f"{server.url}/schemas/ids/1"})

    def test_a_schema_that_is_none_is_refused_at_once(self) -> None:
        for schema in ("{", {"type": "objec"}):
            with pytest.raises(SerializationError):
                JsonSchemaSerializer(schema)


def message_types() -> dict[str, Any]:
    """The messages of two files, made without a compiler: `Order` with `Order.Line` in it, and `Basket`."""
    descriptor_pb2 = pytest.importorskip("google.protobuf.descriptor_pb2")
    descriptor_pool = pytest.importorskip("google.protobuf.descriptor_pool")
    message_factory = pytest.importorskip("google.protobuf.message_factory")
    pool = descriptor_pool.DescriptorPool()
    shop = descriptor_pb2.FileDescriptorProto(name="shop.proto", package="shop", syntax="proto3")
    first = shop.message_type.add(name="First")
    first.field.add(name="x", number=1, type=5, label=1)
    order = shop.message_type.add(name="Order")
    order.field.add(name="id", number=1, type=3, label=1)
    order.nested_type.add(name="Other")
    line = order.nested_type.add(name="Line")
    line.field.add(name="item", number=1, type=9, label=1)
    pool.Add(shop)
    basket_file = descriptor_pb2.FileDescriptorProto(
        name="basket.proto", package="shop", syntax="proto3", dependency=["shop.proto"]
    )
    basket = basket_file.message_type.add(name="Basket")
    basket.field.add(name="orders", number=1, type=11, label=3, type_name=".shop.Order")
    pool.Add(basket_file)
    names = ["shop.First", "shop.Order", "shop.Order.Line", "shop.Basket"]
    return {name: message_factory.GetMessageClass(pool.FindMessageTypeByName(name)) for name in names}


class TestProtobuf:
    @pytest.mark.parametrize(
        ("name", "place"),
        [("shop.First", b"\0"), ("shop.Order", b"\2\2"), ("shop.Order.Line", b"\4\2\2"), ("shop.Basket", b"\0")],
    )
    def test_a_message_is_behind_its_schemas_number_and_its_place(
        self, server: FakeRegistry, registry: SchemaRegistry, name: str, place: bytes
    ) -> None:
        kind = message_types()[name]
        message = kind()
        data = ProtobufSerializer(kind, registry).serialize("t", message, [])
        assert data is not None
        number = server.subjects["t-value"][0]
        assert data == b"\0" + number.to_bytes(4, "big") + place
        assert ProtobufDeserializer(kind).deserialize("t", data, []) == message

    def test_values_read_back_and_imports_are_registered_first(
        self, server: FakeRegistry, registry: SchemaRegistry
    ) -> None:
        kinds = message_types()
        basket = kinds["shop.Basket"]()
        basket.orders.add(id=3)
        data = ProtobufSerializer(kinds["shop.Basket"], registry).serialize("t", basket, [])
        assert ProtobufDeserializer(kinds["shop.Basket"]).deserialize("t", data, []) == basket
        assert list(server.subjects) == ["shop.proto", "t-value"]
        assert server.schemas[2]["references"] == [{"name": "shop.proto", "subject": "shop.proto", "version": 1}]
        assert server.schemas[2]["schemaType"] == "PROTOBUF"

    def test_without_a_registry_the_message_is_alone(self) -> None:
        kind = message_types()["shop.Order"]
        data = ProtobufSerializer(kind).serialize("t", kind(id=5), [])
        assert data == b"\x08\5"
        assert ProtobufDeserializer(kind, has_schema_id=False).deserialize("t", data, []).id == 5

    @pytest.mark.parametrize(
        "data",
        [
            b"\0\0\0\0\1",
            b"\0\0\0\0\1\x80",
            b"\0\0\0\0\1\4\0",
            b"\0\0\0\0\1\3",
            b"\0\0\0\0\1\0\x08",
            b"\0\0\0\0\1\xff\xff\xff\xff\x0f",
        ],
    )
    def test_bytes_that_are_no_such_message_are_refused(self, data: bytes) -> None:
        with pytest.raises(SerializationError):
            ProtobufDeserializer(message_types()["shop.Order"]).deserialize("t", data, [])

    def test_a_message_of_another_class_is_refused(self, registry: SchemaRegistry) -> None:
        kinds = message_types()
        with pytest.raises(SerializationError, match="a Order is needed for topic t, and First was given"):
            ProtobufSerializer(kinds["shop.Order"], registry).serialize("t", kinds["shop.First"](), [])


def test_a_library_that_is_missing_is_named_with_the_way_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    import sys

    monkeypatch.setitem(sys.modules, "fastavro", None)
    with pytest.raises(ImportError, match=r"pip install 'ottla\[avro\]'"):
        AvroSerializer(ORDER)
