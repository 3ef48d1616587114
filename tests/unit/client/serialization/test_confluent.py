"""The same values through Confluent's own serializers: the same bytes, each side reads the other's."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from ottla.client.serialization import (
    AvroDeserializer,
    AvroSerializer,
    JsonSchemaDeserializer,
    JsonSchemaSerializer,
    ProtobufDeserializer,
    ProtobufSerializer,
    SchemaRegistry,
)
from tests.support.schema_registry import fake_registry
from tests.unit.client.serialization.test_schemas import ORDER, ORDER_JSON, message_types

# Confluent's client imports libraries that warn of each other.
pytestmark = pytest.mark.filterwarnings("ignore")

Both = tuple[Any, Any]


def avro(theirs: Any, ours: SchemaRegistry) -> tuple[Both, Both, Any]:
    module = pytest.importorskip("confluent_kafka.schema_registry.avro", exc_type=ImportError)
    our = (AvroSerializer(ORDER, ours), AvroDeserializer(ours))
    return (
        our,
        (module.AvroSerializer(theirs, json.dumps(ORDER)), module.AvroDeserializer(theirs)),
        {"id": 7, "note": "é"},
    )


def json_schema(theirs: Any, ours: SchemaRegistry) -> tuple[Both, Both, Any]:
    pytest.importorskip("jsonschema_rs")
    module = pytest.importorskip("confluent_kafka.schema_registry.json_schema", exc_type=ImportError)
    text = json.dumps(ORDER_JSON)
    our = (JsonSchemaSerializer(ORDER_JSON, ours), JsonSchemaDeserializer(ours))
    return our, (module.JSONSerializer(text, theirs), module.JSONDeserializer(text)), {"id": 7}


def protobuf(theirs: Any, ours: SchemaRegistry) -> tuple[Both, Both, Any]:
    kind = message_types()["shop.Order.Line"]
    module = pytest.importorskip("confluent_kafka.schema_registry.protobuf", exc_type=ImportError)
    settings = {"use.deprecated.format": False}
    their = (module.ProtobufSerializer(kind, theirs, settings), module.ProtobufDeserializer(kind, settings))
    return (ProtobufSerializer(kind, ours), ProtobufDeserializer(kind)), their, kind(item="ž")


@pytest.mark.parametrize("kind", [avro, json_schema, protobuf])
def test_each_writes_what_the_other_writes_and_reads_it(
    kind: Callable[[Any, SchemaRegistry], tuple[Both, Both, Any]],
) -> None:
    registries = pytest.importorskip("confluent_kafka.schema_registry", exc_type=ImportError)
    serialization = pytest.importorskip("confluent_kafka.serialization")
    context = serialization.SerializationContext("t", serialization.MessageField.VALUE)
    with fake_registry() as server:
        our, their, value = kind(registries.SchemaRegistryClient({"url": server.url}), SchemaRegistry(server.url))
        data = our[0].serialize("t", value, [])
        assert their[0](value, context) == data
        assert their[1](data, context) == value
        assert our[1].deserialize("t", data, []) == value
        assert len(server.schemas) == 1, "both registered the same schema"
