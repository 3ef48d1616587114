"""Records as Arrow: the same as `poll` gives, in columns."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from datetime import UTC, datetime
from hashlib import sha256
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from confluent_kafka import Producer

from ottla.client import Consumer, read_topic
from ottla.client.errors import KafkaTimeout, RecordDeserialization
from ottla.errors import UnknownTopicOrPartition
from ottla.types import TopicPartition
from tests.clients.ours.consumers import FACES, PATIENCE_S, make_topic, numbers, partitions, write
from tests.clients.ours.test_consumer import aborted_and_committed
from tests.support.clients import CODECS

Make = Callable[..., Any]


@pytest.fixture(params=list(FACES))
def make(request: pytest.FixtureRequest, address: str) -> Make:
    def made(**settings: Any) -> Any:
        return FACES[request.param](bootstrap_servers=address, **{"auto_offset_reset": "earliest", **settings})

    return made


def read(consumer: Any, count: int, **how: Any) -> pa.Table:
    """Poll until so many rows have come."""
    batches: list[pa.RecordBatch] = []
    while sum(batch.num_rows for batch in batches) < count:
        batch = consumer.poll_arrow(PATIENCE_S, **how)
        assert batch is not None, f"{batches} of {count} rows"
        batches.append(batch)
    return pa.Table.from_batches(batches)


@pytest.mark.parametrize("codec", CODECS)
def test_the_rows_are_the_records_that_poll_gives(make: Make, address: str, codec: str) -> None:
    topic = make_topic(address, 2)
    producer = Producer({"bootstrap.servers": address, "compression.type": codec, "batch.num.messages": 100})
    for number in range(1000):
        key = None if number % 3 else b"key-%d" % number
        value = None if number % 7 == 0 else b"value-%d" % number
        producer.produce(topic, value, key, partition=number % 2, headers=[("h", b"%d" % number)] * (number % 3))
    producer.flush()
    with make() as consumer:
        consumer.assign(partitions(topic, 2))
        table = read(consumer, 1000)
        assert consumer.poll_arrow(0) is None
        consumer.seek_to_beginning()
        records: list[Any] = []
        while len(records) < 1000:
            records += consumer.poll(PATIENCE_S)
    expected = sorted(
        (one.topic, one.partition, one.offset, one.timestamp, one.key, one.value, list(one.headers)) for one in records
    )
    rows = sorted(
        (
            row["topic"],
            row["partition"],
            row["offset"],
            int(row["timestamp"].timestamp() * 1000 + 0.5),
            row["key"],
            row["value"],
            [(header["key"], header["value"]) for header in row["headers"]],
        )
        for row in table.to_pylist()
    )
    assert rows == expected


@pytest.mark.parametrize("codec", ["lz4", "zstd"])
def test_what_a_second_thread_decompresses_comes_in_its_place(
    address: str, codec: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    hired: list[object] = []
    hire = Consumer._hire

    def counted(self: Consumer[Any, Any], work: Callable[[], object]) -> None:
        hired.append(work)
        hire(self, work)

    monkeypatch.setattr(Consumer, "_hire", counted)
    topic = make_topic(address, 2)
    producer = Producer({"bootstrap.servers": address, "compression.type": codec, "batch.num.messages": 1000})
    for number in range(20_000):
        # Hexadecimal compresses, and not too well.
        producer.produce(topic, sha256(b"%d" % (number // 2)).hexdigest(), partition=number % 2)
        producer.poll(0)
    producer.flush()
    consumer: Consumer[bytes, bytes] = Consumer(bootstrap_servers=address, auto_offset_reset="earliest")
    with consumer:
        consumer.assign(partitions(topic, 2))
        for _ in range(3):
            table = read(consumer, 20_000, columns=["partition", "offset", "value"])
            for partition in range(2):
                rows = table.filter(pc.equal(table["partition"], partition))
                assert rows["offset"].to_pylist() == list(range(10_000))
                assert rows["value"].to_pylist() == [
                    sha256(b"%d" % number).hexdigest().encode() for number in range(10_000)
                ]
            consumer.seek_to_beginning()
    assert hired, "some fetch was large enough for two"


def test_only_the_columns_that_are_asked_for_come(make: Make, address: str) -> None:
    topic = make_topic(address)
    write(address, topic, numbers(10))
    with make() as consumer:
        consumer.assign(partitions(topic))
        batch = consumer.poll_arrow(10, columns=["offset", "value"])
    assert batch.schema.names == ["offset", "value"]
    assert batch.column("value").to_pylist() == numbers(10)


def test_poll_and_poll_arrow_take_turns(make: Make, address: str) -> None:
    topic = make_topic(address)
    write(address, topic, numbers(100))
    with make() as consumer:
        consumer.assign(partitions(topic))
        first = [record.offset for record in consumer.poll(10, max_records=7)]
        second = consumer.poll_arrow(10).column("offset").to_pylist()
        assert first + second == list(range(100))
        assert consumer.position(TopicPartition(topic, 0)) == 100


def test_values_with_a_schema_are_typed_and_a_bad_one_is_told_with_its_place(make: Make, address: str) -> None:
    topic = make_topic(address)
    good = [json.dumps({"n": number, "name": f"n{number}"}).encode() for number in range(6)]
    write(address, topic, [*good[:4], b"{broken", *good[4:]])
    schema = pa.schema([("n", pa.int64()), ("name", pa.string())])
    [place] = partitions(topic)
    with make() as consumer:
        consumer.assign([place])
        batch = consumer.poll_arrow(10, schema=schema)
        assert batch.column("value").to_pylist() == [{"n": n, "name": f"n{n}"} for n in range(4)]
        for _ in range(2):
            with pytest.raises(RecordDeserialization) as raised:
                consumer.poll_arrow(10, schema=schema)
            assert (raised.value.topic_partition, raised.value.offset) == (place, 4)
        consumer.seek(place, 5)
        batch = consumer.poll_arrow(10, schema=schema)
        assert [row["n"] for row in batch.column("value").to_pylist()] == [4, 5]


def test_aborted_transactions_are_in_no_row(make: Make, address: str) -> None:
    topic = make_topic(address)
    committed = aborted_and_committed(address, topic)
    with make(isolation_level="read_committed") as consumer:
        consumer.assign(partitions(topic))
        assert read(consumer, len(committed)).column("value").to_pylist() == committed


# Whole topics


def test_a_topic_is_read_from_its_beginning_to_its_end(make: Make, address: str) -> None:
    topic = make_topic(address, 3)
    for partition in range(2):
        write(address, topic, numbers(500), partition=partition)
    with make(group_id="nobody's", enable_auto_commit=False) as consumer:
        if hasattr(consumer, "consumer"):
            reader = consumer.consumer.topic(topic)
            table = consumer._loop.run(reader.read())
        else:
            table = consumer.topic(topic).read()
    assert table.num_rows == 1000
    for partition in range(2):
        own = [row["offset"] for row in table.to_pylist() if row["partition"] == partition]
        assert own == list(range(500))


def test_a_topic_is_read_between_offsets_and_times(address: str) -> None:
    topic = make_topic(address, 2)
    begun_ms = int(time.time() * 1000) - 60_000
    for partition in range(2):
        write(address, topic, numbers(100), partition=partition, timestamp=begun_ms, step_ms=10)

    def offsets(table: pa.Table, partition: int) -> list[int]:
        rows = zip(table.column("partition").to_pylist(), table.column("offset").to_pylist(), strict=True)
        return [offset for one, offset in rows if one == partition]

    table = read_topic(address, topic, {0: 10, 1: 95}, {0: 20})
    assert (offsets(table, 0), offsets(table, 1)) == (list(range(10, 20)), list(range(95, 100)))
    table = read_topic(address, topic, begun_ms + 105, begun_ms + 205, columns=["partition", "offset"])
    assert (offsets(table, 0), offsets(table, 1)) == (list(range(11, 21)), list(range(11, 21)))
    since = datetime.fromtimestamp((begun_ms + 900) / 1000, UTC)
    table = read_topic(address, topic, since, partitions=[1])
    assert (offsets(table, 0), offsets(table, 1)) == ([], list(range(90, 100)))
    nothing = read_topic(address, topic, begun_ms + 50_000)
    assert nothing.num_rows == 0
    assert nothing.schema.names == table.schema.names


def test_a_topic_that_does_not_exist_cannot_be_read(address: str) -> None:
    with pytest.raises(UnknownTopicOrPartition, match="not-there"):
        read_topic(address, "not-there", allow_auto_create_topics=False)
    with pytest.raises(KafkaTimeout):
        read_topic("127.0.0.1:1", "not-there", timeout=0.5)
