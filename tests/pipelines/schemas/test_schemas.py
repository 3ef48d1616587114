"""`from_topic` and `to_topic` on a real Spark: through topics, with bad records, and while a schema evolves."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from pyspark.errors import PythonException, SparkRuntimeException
from pyspark.sql.functions import col

from ottla.client.serialization import AvroDeserializer, AvroSerializer, JsonSchemaDeserializer, ProtobufDeserializer
from ottla.client.serialization.schema_id import library
from ottla.pipelines import PipelineError
from ottla.pipelines.schemas import RegistryAddress, from_topic, to_topic
from ottla.pipelines.schemas.proto_files import message_class
from tests.support.schema_registry import FakeRegistry, fake_registry
from tests.unit.pipelines.schemas.test_protobuf import ORDER, order_files

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from ottla.testing import Cluster

ORDERS = "id long, note string, at timestamp, price decimal(10,2), tags array<string>"
MOMENT = datetime(2024, 2, 29, 12, 30, 15, 250_001, tzinfo=UTC)
ROWS: list[tuple[Any, ...]] = [(1, "é", MOMENT, Decimal("1.50"), ["a", "b"]), (2, None, None, None, [])]


@pytest.fixture
def registry() -> Iterator[FakeRegistry]:
    with fake_registry() as served:
        yield served


def orders(spark: SparkSession) -> DataFrame:
    made = spark.createDataFrame(ROWS, ORDERS)
    return made.withColumn("key", col("id").cast("string").cast("binary"))


def values(df: DataFrame) -> list[dict[str, Any]]:
    return [row.value.asDict(recursive=True) for row in df.orderBy("value.id").collect()]


def of_bytes(spark: SparkSession, *data: bytes | None) -> DataFrame:
    rows = [("orders", 3, offset, None if one is None else bytearray(one)) for offset, one in enumerate(data)]
    return spark.createDataFrame(rows, "topic string, partition int, offset long, value binary").coalesce(1)


def test_each_format_goes_through_a_topic_and_comes_back(
    spark: SparkSession, cluster: Cluster, registry: FakeRegistry, tmp_path: Path
) -> None:
    """JSON, Avro without and with a registry, into one node and out of a stream."""
    options = {"kafka.bootstrap.servers": cluster.bootstrap_servers}
    expected = [dict(zip(("id", "note", "at", "price", "tags"), row, strict=True)) for row in ROWS]
    for row in expected:
        row["at"] = row["at"] and row["at"].replace(tzinfo=None)
    ways: list[tuple[str, dict[str, Any], Any]] = [
        ("json", {}, ORDERS),
        ("json", {"registry": registry.url}, ORDERS),
        ("avro", {"registry": registry.url}, None),
    ]
    for number, (format, where, schema) in enumerate(ways):
        topic = cluster.create_topic(f"schemas.{number}", partitions=2)
        written = to_topic(orders(spark), format=format, topic=topic, **where)  # type: ignore[arg-type]
        assert [(field.name, field.dataType.simpleString()) for field in written.schema] == [
            ("key", "binary"),
            ("value", "binary"),
        ]
        written.write.format("ottla").mode("append").options(**options).option("topic", topic).save()
        stream = spark.readStream.format("ottla").options(**options).option("startingOffsets", "earliest")
        read = from_topic(
            stream.option("subscribe", topic).load(),
            schema,
            format=format,  # type: ignore[arg-type]
            topic=topic,
            **where,
        )
        query = (
            read.select("key", "value")
            .writeStream.format("memory")
            .queryName(f"schemas_{number}")
            .option("checkpointLocation", str(tmp_path / str(number)))
            .trigger(availableNow=True)
            .start()
        )
        assert query.awaitTermination(60)
        found = spark.table(f"schemas_{number}")
        assert values(found) == expected
        assert {bytes(row.key) for row in found.collect()} == {b"1", b"2"}
    assert sorted(registry.subjects) == ["schemas.1-value", "schemas.2-value"]


def test_json_is_one_value_of_its_type_or_an_error(spark: SparkSession) -> None:
    good = [b'{"id": 1, "n": "x"}', b' {"n": "\xc3\xa9", "more": 1} ', b"null", None]
    bad = [
        (b"", "is no JSON"),
        (b"nope", "is no JSON"),
        (b'{"id": 1', "is no JSON"),
        (b'{"id": 1} and more', "is no JSON"),
        (b'{"id": 1}{"id": 2}', "is no JSON"),
        (b'{"id": 1}}', "is no JSON"),
        (b'{"id": "x"}', "is JSON, but not struct<id:int,n:string>"),
        (b'{"id": 99999999999}', "is JSON, but not"),
        (b"[1]", "is JSON, but not"),
        (b'{"n": "\xff"}', "is not in UTF-8"),
    ]
    read = from_topic(of_bytes(spark, *good, *(data for data, _ in bad)), "id int, n string", mode="PERMISSIVE")
    assert read.columns == ["topic", "partition", "offset", "value", "error"]
    rows = read.orderBy("offset").collect()
    assert [row.value and tuple(row.value) for row in rows[:4]] == [(1, "x"), (None, "é"), None, None]
    assert [row.error for row in rows[:4]] == [None] * 4
    for row, (data, words) in zip(rows[4:], bad, strict=True):
        assert row.value is None
        assert words in row.error.message
        assert bytes(row.error.bytes) == data

    read = from_topic(of_bytes(spark, b"[1, 2]", b"{"), "array<int>", mode="PERMISSIVE")
    assert [(row.value, row.error is None) for row in read.orderBy("offset").collect()] == [
        ([1, 2], True),
        (None, False),
    ]


def test_json_is_written_with_the_microseconds_that_spark_leaves_out(spark: SparkSession) -> None:
    df = spark.sql(
        "select timestamp '2024-02-29 12:30:15.250001' as a, timestamp_ntz '2024-02-29 12:30:15.000002' as b"
    )
    (row,) = to_topic(df).collect()
    assert bytes(row.value) == b'{"a":"2024-02-29T12:30:15.250001Z","b":"2024-02-29T12:30:15.000002"}'
    (back,) = from_topic(of_bytes(spark, bytes(row.value)), "a timestamp, b timestamp_ntz").select("value.*").collect()
    assert tuple(back) == tuple(df.collect()[0])


def test_a_value_that_cannot_be_read_fails_the_job_and_says_where_it_lies(spark: SparkSession) -> None:
    schema = {"type": "record", "name": "R", "fields": [{"name": "n", "type": "int"}]}
    good = AvroSerializer(schema).serialize("", {"n": 1}, [])
    for data, given, format in ((b'{"n": 1}', "n int", "json"), (good, schema, "avro")):
        df = from_topic(of_bytes(spark, data, b"\x01bad"), given, format=format)  # type: ignore[arg-type]
        assert df.schema["value"].dataType.simpleString() == "struct<n:int>"
        with pytest.raises(SparkRuntimeException, match="column value, topic orders, partition 3, offset 1: the "):
            df.collect()


def test_a_schema_that_evolves_is_read_under_the_readers_own(spark: SparkSession, registry: FakeRegistry) -> None:
    """Old and new writers in one topic, a poison record and a number that nobody knows between them."""
    address = RegistryAddress(registry.url, user="u", password="p")
    first = {"type": "record", "name": "Order", "fields": [{"name": "id", "type": "int"}]}
    second = {
        "type": "record",
        "name": "Order",
        "fields": [{"name": "id", "type": "long"}, {"name": "note", "type": "string", "default": "none"}],
    }
    old, new = AvroSerializer(first, address.connect()), AvroSerializer(second, address.connect())
    data = [
        old.serialize("orders", {"id": 1}, []),
        b"poison",
        new.serialize("orders", {"id": 2, "note": "x"}, []),
        b"\0\0\0\1\0\2",
        old.serialize("orders", {"id": 3}, []),
    ]
    df = of_bytes(spark, *data)
    latest = from_topic(df, address, format="avro", topic="orders", mode="PERMISSIVE").orderBy("offset").collect()
    assert [row.value and tuple(row.value) for row in latest] == [(1, "none"), None, (2, "x"), None, (3, "none")]
    assert [row.error and bytes(row.error.bytes) for row in latest] == [None, data[1], None, data[3], None]
    assert "Schema not found" in latest[3].error.message
    older = from_topic(df, first, format="avro", registry=address, mode="PERMISSIVE").orderBy("offset").collect()
    assert [row.value and tuple(row.value) for row in older] == [(1,), None, None, None, (3,)]  # a long is no int
    assert all("Authorization" in headers for headers in registry.headers)
    assert "'p'" not in repr(address)


def test_what_is_written_is_what_the_clients_read(spark: SparkSession, registry: FakeRegistry) -> None:
    """The clients' own deserializers are the judges, and they are held against Confluent's."""
    address = RegistryAddress(registry.url)
    found = address.connect()
    rows = to_topic(orders(spark), format="avro", registry=address, topic="a").orderBy("key").collect()
    read = [AvroDeserializer(found).deserialize("a", bytes(row.value), []) for row in rows]
    assert [(one["id"], one["note"], one["at"], one["price"], one["tags"]) for one in read] == ROWS
    plain = to_topic(orders(spark).select("id", "tags"), format="json", registry=address, topic="j").collect()
    judge = JsonSchemaDeserializer(found)
    assert [judge.deserialize("j", bytes(row.value), []) for row in plain] == [
        {"id": 1, "tags": ["a", "b"]},
        {"id": 2, "tags": []},
    ]

    kind = message_class(order_files(), None)
    shape = from_topic(of_bytes(spark, b""), order_files(), format="protobuf").schema["value"].dataType
    order = spark.createDataFrame([(ORDER,)], "value " + shape.simpleString())
    (row,) = to_topic(order, kind, format="protobuf", registry=address, topic="p").collect()
    message = ProtobufDeserializer(kind).deserialize("p", bytes(row.value), [])
    assert (message.id, message.total, message.lines[0].sku) == (-5, 2**64 - 1, "a")
    back = from_topic(of_bytes(spark, bytes(row.value)), address, format="protobuf", topic="p").first()
    assert back is not None
    assert back.value.asDict(recursive=True) == ORDER | {"at": ORDER["at"].replace(tzinfo=None)}


def test_what_cannot_be_written_fails_before_the_job_or_with_its_reason(
    spark: SparkSession, registry: FakeRegistry
) -> None:
    schema = {"type": "record", "name": "R", "fields": [{"name": "n", "type": "int"}]}
    numbers = spark.createDataFrame([(None,)], "n int")
    with pytest.raises(PythonException, match="is not R"):
        to_topic(numbers, schema, format="avro").collect()
    with pytest.raises(PipelineError, match=r"value\.m is not in the Avro schema R"):
        to_topic(numbers.withColumnRenamed("n", "m"), schema, format="avro")
    with pytest.raises(PipelineError, match=r"subject t-value: .*Schema not found"):
        to_topic(numbers, schema, format="avro", registry=registry.url, topic="t", auto_register=False)
    with pytest.raises(PipelineError, match=r"say topic='\.\.\.' or subject"):
        to_topic(numbers, schema, format="avro", registry=registry.url)
    with pytest.raises(PipelineError, match="protobuf needs a schema, or a registry that has it"):
        to_topic(numbers, format="protobuf")
    with pytest.raises(PipelineError, match="format is one of json, avro, protobuf, and not xml"):
        to_topic(numbers, format="xml")  # type: ignore[arg-type]
    with pytest.raises(PipelineError, match="column n is int, and not binary"):
        from_topic(numbers, "n int", column="n")
    with pytest.raises(PipelineError, match="has no column value; it has n"):
        from_topic(numbers, "n int")
    with pytest.raises(PipelineError, match=r"subject nobody-value: .*not found"):
        from_topic(of_bytes(spark, b""), registry.url, topic="nobody")


def test_a_value_that_cannot_be_written_is_told_beside_the_others(spark: SparkSession) -> None:
    """Avro and Protobuf, in one batch with a good value and none; JSON has nothing to tell."""
    schema = {"type": "record", "name": "R", "fields": [{"name": "n", "type": "int"}]}
    df = spark.createDataFrame([(1, (1,)), (2, (None,)), (3, None)], "at int, value struct<n:int>").coalesce(1)
    rows = to_topic(df, schema, format="avro", mode="PERMISSIVE").orderBy("at").collect()
    assert [row.value and bytes(row.value) for row in rows] == [b"\x02", None, None]
    assert [row.error and row.error.value.asDict() for row in rows] == [None, {"n": None}, None]
    assert "is not R" in rows[1].error.message

    message = library("google.protobuf.timestamp_pb2", "protobuf").Timestamp
    df = spark.createDataFrame([(5, 1), (5, 2**40)], "seconds long, nanos long").coalesce(1)
    rows = to_topic(df, message, format="protobuf", mode="PERMISSIVE").collect()
    assert [row.value and bytes(row.value) for row in rows] == [b"\x08\x05\x10\x01", None]
    assert "the value is no google.protobuf.Timestamp: " in rows[1].error.message

    (row,) = to_topic(df.limit(1), mode="PERMISSIVE", error="why").collect()
    assert (bytes(row.value), row.why) == (b'{"seconds":5,"nanos":1}', None)
    with pytest.raises(PipelineError, match="has a column value already"):
        to_topic(df, mode="PERMISSIVE", error="value")


def test_keys_are_read_and_written_like_values(spark: SparkSession, registry: FakeRegistry) -> None:
    df = spark.createDataFrame([((7,), b"v")], "key struct<id:long>, value binary")
    written = to_topic(df, format="avro", registry=registry.url, topic="t", column="key")
    assert list(registry.subjects) == ["t-key"]
    assert json.loads(registry.schemas[1]["schema"])["fields"][0]["name"] == "id"
    read = from_topic(written, registry.url, format="avro", topic="t", column="key").first()
    assert read is not None
    assert (read.key.id, bytes(read.value)) == (7, b"v")
