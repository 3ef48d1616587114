"""Every format written by INSERT and read by SELECT, with the bytes in the topic; windows that are declared."""

from __future__ import annotations

import json
import os
import struct
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from ottla.client import Consumer, Producer
from ottla.client.serialization import Schema, SchemaRegistry
from ottla.testing import Cluster
from ottla.types import TopicPartition
from tests.pipelines.sql.test_sql import refused, sql
from tests.support.schema_registry import fake_registry

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.timeout(600)  # Spark on a busy machine

PROTO = 'syntax = "proto3"; message Row { string place = 1; int64 n = 2; repeated int32 legs = 3; }'


def raw(cluster: Cluster, topic: str) -> list[tuple[bytes | None, bytes | None]]:
    """The bytes of a topic's records."""
    place = TopicPartition(topic, 0)
    with Consumer(
        bootstrap_servers=cluster.bootstrap_servers, isolation_level="read_committed", enable_auto_commit=False
    ) as consumer:
        consumer.assign([place])
        consumer.seek_to_beginning([place])
        (end,) = consumer.end_offsets([place]).values()
        found = []
        while consumer.position(place) < end:
            found += consumer.poll(0.2)
    return [(one.key, one.value) for one in found]


@pytest.mark.skipif("OTTLA_SOAK" not in os.environ, reason="eighteen statements take a while: OTTLA_SOAK=1 runs them")
def test_what_is_inserted_is_selected_in_every_format(spark: SparkSession, cluster: Cluster, tmp_path: Path) -> None:
    rows = {"place": "a, 'b'", "n": -5, "legs": [1, 2]}
    literal = "'a, ''b''', -5, array(1, 2)"
    with fake_registry() as registry:
        SchemaRegistry(registry.url).register("sql.f.protobuf-value", Schema(PROTO, "PROTOBUF"))
        statements, wanted = [f"SET 'schema.registry.url' = '{registry.url}'"], []
        for name in ("JSON", "AVRO", "JSON_SR", "PROTOBUF"):
            topic = f"sql.f.{name.lower()}"
            statements += [
                f"CREATE STREAM s_{name} (a INT KEY, b STRING KEY, place STRING, n BIGINT, legs ARRAY<INT>) WITH"
                f" (TOPIC = '{topic}', KEY_FORMAT = 'JSON', VALUE_FORMAT = '{name}', PARTITIONS = 1)",
                f"INSERT INTO s_{name} VALUES (1, 'x', {literal})",
                f"SELECT * FROM s_{name}",
            ]
            wanted.append({"a": 1, "b": "x", **rows})
        statements += [
            "CREATE STREAM flat (a STRING KEY, place STRING, n BIGINT, at DATE) WITH"
            " (TOPIC = 'sql.f.flat', KEY_FORMAT = 'JSON', VALUE_FORMAT = 'DELIMITED', PARTITIONS = 1)",
            "INSERT INTO flat VALUES ('k', 'a, b', 7, date '2026-11-19'), (NULL, 'c', NULL, NULL)",
            "SELECT * FROM flat ORDER BY place",
            "CREATE STREAM number (a DOUBLE KEY, n INT) WITH (TOPIC='sql.f.number', FORMAT='KAFKA', PARTITIONS=1)",
            "INSERT INTO number VALUES (1.5, -2)",
            "SELECT * FROM number",
        ]
        wanted += [{"a": "k", "place": "a, b", "n": 7, "at": "2026-11-19"}]
        wanted += [{"a": None, "place": "c", "n": None, "at": None}, {"a": 1.5, "n": -2}]
        assert [row for row in sql(cluster, tmp_path, *statements) if "message" not in row] == wanted
    (key, value), *_ = raw(cluster, "sql.f.json")
    assert (json.loads(key or b""), json.loads(value or b"")) == ({"a": 1, "b": "x"}, rows)
    assert raw(cluster, "sql.f.flat") == [(b'"k"', b'"a, b",7,2026-11-19'), (None, b"c,,")]
    assert raw(cluster, "sql.f.number") == [(struct.pack(">d", 1.5), struct.pack(">i", -2))]
    ((_, avro),) = raw(cluster, "sql.f.avro")
    assert avro is not None
    assert avro[:1] == b"\0", "it begins with the number of its schema"


def test_windowed_keys_and_records_that_cannot_be_read(spark: SparkSession, cluster: Cluster, tmp_path: Path) -> None:
    for topic in ("sql.w.time", "sql.w.session"):
        cluster.create_topic(topic, 1)
    with Producer(bootstrap_servers=cluster.bootstrap_servers) as producer:
        for count in (1, 2):
            body = json.dumps({"n": count}).encode()
            producer.send("sql.w.time", body, key=b"ann" + (60_000).to_bytes(8))
            producer.send("sql.w.session", body, key=b"ann" + (90_000).to_bytes(8) + (60_000).to_bytes(8))
    create = "CREATE TABLE {0} (name STRING PRIMARY KEY, n INT) WITH (TOPIC = 'sql.w.{0}', VALUE_FORMAT = 'JSON', {1})"
    found = sql(
        cluster,
        tmp_path,
        create.format("time", "WINDOW_TYPE = 'HOPPING', WINDOW_SIZE = '30 SECONDS'"),
        create.format("session", "WINDOW_TYPE = 'SESSION'"),
        "SELECT name, WINDOWSTART AS a, WINDOWEND AS b, n FROM time",
        "SELECT name, WINDOWSTART AS a, WINDOWEND AS b, n FROM session",
    )
    row: dict[str, Any] = {"name": "ann", "a": 60_000, "b": 90_000, "n": 2}
    assert found[2:] == [row, row], "the newest of each key and window"
    with Producer(bootstrap_servers=cluster.bootstrap_servers) as producer:
        producer.send("sql.w.session", b"none", key=b"ann" + bytes(16))
    assert refused(cluster, tmp_path, "SELECT * FROM session") == (
        "--execute: line 1: Deserialization failed: topic sql.w.session, partition 0, offset 2: the value cannot be "
        "deserialised: the text is not JSON of the schema `n` INT"
    )
