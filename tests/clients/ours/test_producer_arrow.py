"""`send_arrow` against a broker: columns in, records out, read back by a stock client."""

from __future__ import annotations

import asyncio
import time

import pyarrow as pa
import pytest

from ottla.client import AsyncProducer, Producer
from ottla.errors import MessageTooLarge
from ottla.records import partition_of
from tests.clients.ours.reading import create_topic, read_all, values
from tests.support.clients import PATIENCE_S, new_topic


def batch_of(count: int) -> pa.RecordBatch:
    return pa.record_batch({
        "key": pa.array([b"%d" % (number % 10) for number in range(count)]),
        "value": pa.array([b"value %d" % number for number in range(count)]),
    })  # fmt: skip


@pytest.mark.parametrize("codec", ["none", "zstd"])
def test_columns_become_records_where_their_keys_belong(address: str, codec: str) -> None:
    topic = create_topic(address, new_topic("arrow"), 3)
    with Producer(bootstrap_servers=address, compression_type=codec) as producer:
        delivery = producer.send_arrow(topic, batch_of(5000))
        runs = delivery.result(PATIENCE_S)
        assert delivery.done()
        assert delivery.exception() is None
        assert delivery.record_count == sum(run.record_count for run in runs) == 5000
        producer.send_arrow(topic, pa.Table.from_batches([batch_of(10), batch_of(10)])).result(PATIENCE_S)
    read = read_all(address, topic)
    assert len(read) == 5020
    assert all(one.partition == partition_of(one.key or b"", 3) for one in read)
    first = [one.value for one in read if one.key == b"7"][:500]
    assert first == [b"value %d" % number for number in range(7, 5000, 10)]


def test_headers_times_partitions_and_nulls_are_kept(address: str) -> None:
    topic = create_topic(address, new_topic("arrow-whole"), 2)
    now_ms = int(time.time() * 1000)
    headers = pa.array(
        [[("a", b"1"), ("b", None)], [], None], pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))
    )
    rows = pa.record_batch({
        "key": pa.array([None, b"k", None], pa.binary()),
        "value": pa.array([b"v", None, b"w"], pa.binary()),
        "timestamp": pa.array([now_ms, now_ms + 1, now_ms + 2], pa.timestamp("ms")),
        "partition": pa.array([1, 1, 1], pa.int32()),
        "headers": headers,
    })  # fmt: skip
    with Producer(bootstrap_servers=address) as producer:
        (run,) = producer.send_arrow(topic, rows).result(PATIENCE_S)
        assert run == (topic, 1, 0, 3)
    read = read_all(address, topic)
    assert [(one.partition, one.key, one.value, one.timestamp - now_ms) for one in read] == [
        (1, None, b"v", 0),
        (1, b"k", None, 1),
        (1, None, b"w", 2),
    ]
    assert [one.headers for one in read] == [(("a", b"1"), ("b", None)), (), ()]


def test_rows_and_records_keep_their_order(address: str) -> None:
    topic = create_topic(address, new_topic("arrow-order"))
    with Producer(bootstrap_servers=address, linger_ms=1000) as producer:
        producer.send(topic, b"before")
        producer.send_arrow(topic, pa.record_batch({"value": [b"1", b"2"]}))
        producer.send(topic, b"after")
    assert values(address, topic) == [b"before", b"1", b"2", b"after"]


def test_more_than_the_buffer_holds_waits_for_memory(address: str) -> None:
    topic = create_topic(address, new_topic("arrow-full"))
    rows = pa.record_batch({"value": pa.array([bytes(1000)] * 1000)})
    with Producer(bootstrap_servers=address, buffer_memory=300_000) as producer:
        producer.send_arrow(topic, rows).result(PATIENCE_S)
        assert producer.metrics().value("buffer-available-bytes") == 300_000
    assert len(values(address, topic)) == 1000


def test_batches_that_the_topic_does_not_take_are_split(address: str) -> None:
    topic = create_topic(address, new_topic("arrow-split"), max_message_bytes="20000")
    rows = pa.record_batch({"value": pa.array([b"%04d" % number + bytes(500) for number in range(200)])})
    with Producer(bootstrap_servers=address) as producer:
        delivery = producer.send_arrow(topic, rows)
        assert sum(run.record_count for run in delivery.result(PATIENCE_S)) == 200
        assert producer.metrics().value("batch-split-total") >= 1
    assert [(value or b"")[:4] for value in values(address, topic)] == [b"%04d" % number for number in range(200)]


def test_a_row_that_no_request_could_hold_is_refused(address: str) -> None:
    topic = create_topic(address, new_topic("arrow-large"))
    with Producer(bootstrap_servers=address, max_request_size=1000) as producer:
        with pytest.raises(MessageTooLarge, match=r"max\.request\.size"):
            producer.send_arrow(topic, pa.record_batch({"value": [bytes(5000)]}))
        with pytest.raises(ValueError, match="no column 'colour'"):
            producer.send_arrow(topic, pa.record_batch({"colour": [b"red"]}))


def test_rows_are_part_of_a_transaction(address: str) -> None:
    topic = create_topic(address, new_topic("arrow-txn"))
    with Producer(bootstrap_servers=address, transactional_id=new_topic("arrow-txn-id")) as producer:
        producer.init_transactions(PATIENCE_S)
        with producer.transaction():
            producer.send_arrow(topic, batch_of(10))
        producer.begin_transaction()
        producer.send_arrow(topic, batch_of(10)).result(PATIENCE_S)
        producer.abort_transaction(PATIENCE_S)
    assert len(values(address, topic)) == 10


def test_the_async_face_sends_columns_as_well(address: str) -> None:
    topic = create_topic(address, new_topic("arrow-async"), 2)

    async def main() -> None:
        async with AsyncProducer(bootstrap_servers=address, buffer_memory=100_000) as producer:
            rows = pa.record_batch({"value": pa.array([bytes(100)] * 5000)})
            runs = await (await producer.send_arrow(topic, rows))
            assert {run.partition for run in runs} == {0, 1}

    asyncio.run(main())
    assert len(values(address, topic)) == 5000
