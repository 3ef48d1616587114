"""Records that cannot be read or written: the query fails, or goes on and keeps them as dead letters."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from pyspark.sql import functions as F

from ottla.client import Consumer, Producer
from ottla.pipelines.streams import RecordError, StreamsBuilder, Topology, TopologyTestDriver, json
from ottla.pipelines.streams.dropping import DESERIALIZATION, GLOBAL_KEYLESS, INCOMPLETE, LATE_RECORDS, PRODUCTION
from ottla.pipelines.streams.serdes import Serde
from ottla.pipelines.streams.windows import JoinWindows, TimeWindows
from ottla.testing import Cluster
from ottla.types import TopicPartition

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.timeout(600)  # Spark on a busy machine

GOES_ON = {
    "deserialization.exception.handler": "org.apache.kafka.streams.errors.LogAndContinueExceptionHandler",
    "production.exception.handler": "LogAndContinueProductionExceptionHandler",
    "errors.dead.letter.queue.topic.name": "dead",
}
HEX = Serde("hex", "binary", decode=lambda raw: F.try_to_binary(raw.cast("string"), F.lit("hex")))
ORDER = json("id BIGINT, amounts ARRAY<INT>")


def one_step(value: str | Serde, *, key: str | Serde = "string", table: bool = False) -> Topology:
    builder = StreamsBuilder()
    if table:
        builder.table("in", key=key, value=value).to_stream().to("out")
    else:
        builder.stream("in", key=key, value=value).map_values("1").to("out")  # which does not look at the value
    return builder.build("one-step")


@pytest.mark.parametrize(
    ("topology", "key", "value", "reason"),
    [
        (
            one_step("integer", table=True),
            b"k",
            b"123",
            "value .* Size of data received by IntegerDeserializer is not 4",
        ),
        (one_step(ORDER), b"k", b'{"id": 7', "value .* not JSON of the schema id BIGINT, amounts ARRAY<INT>"),
        (one_step("string", key="long"), b"k", b"", "key .* Size of data received by LongDeserializer is not 8"),
    ],
)
def test_a_record_that_cannot_be_deserialised_fails_the_query_and_is_named(
    spark: SparkSession, topology: Topology, key: bytes, value: bytes, reason: str
) -> None:
    with TopologyTestDriver(topology, spark) as driver:
        driver.pipe("in", [(None, None, 1), (key, value, 2)])
        with pytest.raises(
            RecordError, match=f"^Deserialization failed: topic in, partition 0, offset 1: the {reason}"
        ) as told:
            driver.process()
        assert "\n" not in str(told.value)
        assert "deserialization.exception.handler" in str(told.value)
        assert not driver._written


def test_a_handler_that_continues_keeps_what_cannot_be_read_as_dead_letters(spark: SparkSession) -> None:
    """Each serde, in tables, streams and an aggregate; two queries read the orders, and one writes their letters."""
    builder = StreamsBuilder()
    builder.table("numbers", key="long", value="integer").to_stream().to("rows")
    orders = builder.stream("orders", value=ORDER)
    orders.group_by_key().count().to_stream().to("counts")
    orders.map_values("value.id").to("ids")
    builder.stream("doubles", value="double").to("doubled")
    builder.stream("lists", value=json("ARRAY<INT>")).map_values("size(value)").to("sizes")
    builder.stream("hexes", value=HEX).to("binaries")
    texts = builder.stream("texts")
    texts.to("copies")
    texts.join(builder.global_table("places", value="integer"), "right").to("placed")
    with TopologyTestDriver(builder.build("goes-on"), spark, config=GOES_ON) as driver:
        one, two = (1).to_bytes(8), (2).to_bytes(8)
        driver.pipe("numbers", [(one, b"\0\0\0\7", 1), (one, b"123", 2), (b"short", b"\0\0\0\1", 3), (two, None, 4)])
        good = [b'{"id": 1}', b'{"id": 2, "amounts": [3]}', b"null", None]
        bad = [b'{"id": "x"}', b'{"id": 3, "amounts": ["y"]}', b"", b"[1]", b"{", b"\xff"]
        driver.pipe("orders", [(b"k", value, 5) for value in good])
        driver.pipe("orders", [(b"k", value, 6) for value in bad], headers=(("trace", b"t1"), ("null", None)))
        driver.pipe("doubles", [(b"k", b"1234567", 7), (b"k", b"\x3f\xf0" + bytes(6), 8)])
        driver.pipe("lists", [(b"k", b"[1, 2]", 9), (b"k", b'["a"]', 10), (b"k", b"null", 11)])
        driver.pipe("hexes", [(b"k", b"6f6b", 10), (b"k", b"zz", 10)])
        driver.pipe("places", [(b"k", b"\0\0\0\5", 0), (b"k", b"bad", 0)])
        driver.pipe("texts", [(b"k", b"a\xffb", 12)])
        assert driver.take("rows") == [(one, b"\0\0\0\7"), (two, None)], "a wrong width is no deletion"
        assert driver.output_topic("counts", value="long").read_to_map() == {"k": 2}, "what is malformed does not count"
        assert driver.output_topic("ids", value="long").read_values() == [1, 2, None, None]
        assert driver.output_topic("doubled", value="double").read_values() == [1.0]
        assert driver.output_topic("sizes", value="integer").read_values() == [2, None]
        assert driver.output_topic("copies").read_values() == ["a\N{REPLACEMENT CHARACTER}b"], "as Kafka's deserializer"
        assert driver.output_topic("binaries").read_values() == ["ok"]
        assert driver.output_topic("placed", value="integer").read_values() == [5], "the row before stays"
        letters = driver.take_records("dead")
        found: dict[Any, dict[str, bytes | None]] = {(one.key, one.value): dict(one.headers) for one in letters}
        dead = [(one, b"123"), (b"short", b"\0\0\0\1"), *((b"k", raw) for raw in (*bad, b"1234567", b'["a"]', b"zz"))]
        assert sorted(found) == sorted(dead)
        assert len(letters) == len(dead), "each once"
        reason = b"Size of data received by IntegerDeserializer is not 4"
        exception = b"org.apache.kafka.common.errors.SerializationException: " + reason
        assert found[one, b"123"] == {
            "__streams.errors.exception": exception,
            "__streams.errors.message": reason,
            "__streams.errors.stacktrace": exception,
            "__streams.errors.topic": b"numbers",
            "__streams.errors.partition": b"0",
            "__streams.errors.offset": b"1",
        }
        headers = found[b"k", b"{"]
        assert (headers["trace"], headers["null"], headers["__streams.errors.offset"]) == (b"t1", None, b"8")
        assert {one.timestamp_ms for one in letters} == {2, 3, 6, 7, 10}


def test_a_record_that_cannot_be_serialised_fails_the_query_and_is_named(spark: SparkSession) -> None:
    builder = StreamsBuilder()
    numbers = builder.stream("in").map_values("cast(value AS BIGINT)")
    numbers.filter("value < 2147483648").to("small", value="integer")
    numbers.to("all", value="integer")
    with TopologyTestDriver(builder.build("narrow"), spark) as driver:
        topic = driver.input_topic("in")
        topic.pipe_input("k", "-2147483648")
        assert driver.output_topic("all", value="integer").read_values() == [-2147483648]
        topic.pipe_input("k", "2147483648")
        with pytest.raises(RecordError, match=r"^Production failed: topic all: the value .* not fit into the 4 bytes"):
            driver.process()


def test_a_cluster_gets_dead_letters_of_both_handlers_and_the_log_has_their_number(
    spark: SparkSession, cluster: Cluster, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    source, out, counts, dead = (
        cluster.create_topic(f"errors.{name}", retention_ms=-1)  # the times are long past
        for name in ("in", "out", "counts", "dead")
    )
    builder = StreamsBuilder()
    numbers = builder.stream(source, value="long")
    numbers.map_values("repeat('x', cast(value AS INT))").to(out)
    numbers.group_by_key().windowed_by(TimeWindows.of_size(10, grace=0)).count().to_stream().to(counts)
    topology = builder.build("dead-letters")
    with Producer(bootstrap_servers=cluster.bootstrap_servers) as producer:
        for value, time in (((3).to_bytes(8), 5), (b"bad", 6), ((1 << 20).to_bytes(8), 50), ((4).to_bytes(8), 7)):
            producer.send(source, value, key=b"k", timestamp_ms=1_700_000_000_000 + time)
    config = {**GOES_ON, "errors.dead.letter.queue.topic.name": dead}
    with caplog.at_level(logging.WARNING, "ottla.pipelines.streams.dropping"):
        running = topology.start(
            spark, cluster.bootstrap_servers, checkpoint=str(tmp_path), available_now=True, config=config
        )
    running.stop()
    nodes = {type(node.work).__name__: name for name, node in reversed(topology.nodes.items())}
    assert running.dropped == {
        (DESERIALIZATION, nodes["Source"]): 1,
        (PRODUCTION, nodes["Sink"]): 1,
        (LATE_RECORDS, nodes["Aggregate"]): 1,
    }
    # Not `caplog.text`: PySpark's own logger gives its form to whoever listens.
    told = [message.partition("] Dropped 1 records that ")[2] for message in caplog.messages]
    assert any(one.startswith(f"{DESERIALIZATION}: topic {source}, partition 0, offset 1: the value") for one in told)
    assert any(one.startswith(f"{PRODUCTION}: topic {out}: the record is larger than max.request.size") for one in told)
    assert LATE_RECORDS in told
    assert [value for _, value, _ in read(cluster, out)] == [b"xxx", b"xxxx"]
    letters = {headers["__streams.errors.topic"]: (key, value) for key, value, headers in read(cluster, dead)}
    assert letters == {source.encode(): (b"k", b"bad"), out.encode(): (None, None)}


def test_what_lacks_a_key_or_a_value_and_what_comes_late_to_a_join_is_counted(
    spark: SparkSession, cluster: Cluster, tmp_path: Path
) -> None:
    """Kafka Streams drops the same, in its metric `dropped-records-total`; a topology gives every drop a number."""
    names = ("left", "right", "rates", "plain", "windowed", "joined", "table", "converted")
    topics = {name: cluster.create_topic(f"dropped.{name}", retention_ms=-1) for name in names}
    builder = StreamsBuilder()
    left, right = builder.stream(topics["left"]), builder.stream(topics["right"])
    rates = builder.global_table(topics["rates"], named="rates")
    left.group_by_key().count(named="plain").to_stream().to(topics["plain"])
    windowed = left.group_by_key().windowed_by(TimeWindows.of_size(1000, grace=60_000)).count(named="windowed")
    windowed.to_stream().to(topics["windowed"])
    window = JoinWindows.of_time_difference(10, grace=0)
    left.join(right, "concat(left, right)", window, name="pairs").to(topics["joined"])
    left.to_table(name="rows").to_stream().to(topics["table"])
    left.join(rates, "concat(left, right)", key="value", name="convert").to(topics["converted"])
    topology = builder.build("dropped")
    start_ms = 1_700_000_000_000
    records: dict[str, list[tuple[bytes | None, bytes | None, int]]] = {
        "left": [(None, b"1", 0), (b"k", None, 1), (b"k", b"2", 1000), (b"k", b"3", 2)],
        "right": [(None, b"1", 0)],
        "rates": [(None, b"1", 0), (b"2", b"x", 0)],
    }
    with Producer(bootstrap_servers=cluster.bootstrap_servers) as producer:
        for name, found in records.items():
            for key, value, time in found:
                producer.send(topics[name], value, key=key, timestamp_ms=start_ms + time)
    running = topology.start(spark, cluster.bootstrap_servers, checkpoint=str(tmp_path), available_now=True)
    running.stop()
    assert running.dropped == {
        (INCOMPLETE, "plain"): 2,
        (INCOMPLETE, "windowed"): 1,  # Kafka Streams' windows count a record without a value
        (INCOMPLETE, "pairs"): 3,
        (LATE_RECORDS, "pairs"): 1,
        (INCOMPLETE, "rows"): 1,
        (INCOMPLETE, "convert"): 1,
        (GLOBAL_KEYLESS, "rates"): 1,
    }
    assert [value for _, value, _ in read(cluster, topics["converted"])] == [b"2x"]


def read(cluster: Cluster, topic: str) -> list[tuple[bytes | None, bytes | None, dict[str, bytes | None]]]:
    config = {"bootstrap.servers": cluster.bootstrap_servers, "isolation.level": "read_committed"}
    with Consumer[bytes, bytes](config) as consumer:
        at = TopicPartition(topic, 0)
        consumer.assign([at])
        consumer.seek_to_beginning([at])
        end = consumer.end_offsets([at])[at]
        found: list[Any] = []
        while consumer.position(at) < end:
            found += [(one.key, one.value, dict(one.headers)) for one in consumer.poll(1.0)]
        return found
