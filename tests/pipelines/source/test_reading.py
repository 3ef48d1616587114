"""What a task reads: exactly its range, whatever is in the log. A real broker, and the reader as Spark drives it."""

from __future__ import annotations

import datetime
from pathlib import Path

import pyarrow as pa
import pytest

from ottla.client.admin import NewTopic
from ottla.client.errors import CorruptRecord
from ottla.client.producer import Producer
from ottla.pipelines.source.offsets import DataLoss
from ottla.pipelines.source.planning import Range
from ottla.pipelines.source.range_reader import READERS_MAX, Patience, RangeReader, RangeReaders, ReadTimeout
from ottla.pipelines.source.rows import read_rows
from ottla.testing import Cluster
from ottla.types import TopicPartition, Uuid
from tests.pipelines.source.support import admin, numbered, produce, read_batch, recreate, topic_id, values_of
from tests.support.broker import BrokerProcess
from tests.support.clients import CODECS, new_topic

PATIENCE = Patience(timeout_ms=20_000, attempts=2, interval_ms=50, fails_on_data_loss=True)
FORGIVING = Patience(timeout_ms=20_000, attempts=2, interval_ms=50, fails_on_data_loss=False)


def read(cluster: Cluster, wanted: Range, patience: Patience = PATIENCE, **settings: str) -> list[int]:
    """The offsets of a range's records."""
    named = {"bootstrap.servers": cluster.bootstrap_servers}
    named |= {name.replace("_", "."): value for name, value in settings.items()}
    batches = list(read_rows(named, wanted, ["offset"], patience))
    return [offset for batch in batches for offset in batch.column(0).to_pylist()]


@pytest.mark.parametrize("codec", CODECS)
def test_every_codec_is_read(cluster: Cluster, codec: str) -> None:
    topic = cluster.create_topic(new_topic("codec"))
    values = [b"%d " % number * 40 for number in range(2000)]
    produce(cluster, topic, values, compression_type=codec, linger_ms=20)
    assert values_of(read_batch(cluster, subscribe=topic)) == values


def test_all_columns_have_what_the_records_have(cluster: Cluster) -> None:
    """Null keys, null values, empty ones, headers with and without a value, times of producers and of the broker."""
    topic = cluster.create_topic(new_topic("columns"))
    stamped = cluster.create_topic(new_topic("columns"), message_timestamp_type="LogAppendTime")
    with Producer(bootstrap_servers=cluster.bootstrap_servers) as producer:
        producer.send(topic, value=b"v", key=b"k", headers=[("a", b"1"), ("b", None), ("a", b"")], timestamp_ms=1234)
        producer.send(topic, value=None, key=None, timestamp_ms=0)
        producer.send(topic, value=b"", key=b"", headers=[], timestamp_ms=1_700_000_000_000)
        producer.send(stamped, value=b"s", timestamp_ms=1234)
        producer.flush()
    rows = read_batch(cluster, subscribe=topic, includeHeaders="true").to_pylist()
    utc = datetime.UTC
    assert rows[0] == {
        "key": b"k",
        "value": b"v",
        "topic": topic,
        "partition": 0,
        "offset": 0,
        "timestamp": datetime.datetime(1970, 1, 1, 0, 0, 1, 234_000, tzinfo=utc),
        "timestampType": 0,
        "headers": [{"key": "a", "value": b"1"}, {"key": "b", "value": None}, {"key": "a", "value": b""}],
    }
    assert (rows[1]["key"], rows[1]["value"], rows[1]["headers"]) == (None, None, None)
    assert rows[1]["timestamp"] == datetime.datetime(1970, 1, 1, tzinfo=utc)
    assert (rows[2]["key"], rows[2]["value"], rows[2]["headers"]) == (b"", b"", None)
    (row,) = read_batch(cluster, subscribe=stamped).to_pylist()
    assert row["timestampType"] == 1
    assert row["timestamp"].year > 2000
    chosen = read_batch(cluster, subscribe=topic, columns="offset,value")
    assert chosen.column_names == ["offset", "value"]
    assert chosen.to_pylist()[0] == {"offset": 0, "value": b"v"}


def test_a_range_begins_and_ends_within_batches(cluster: Cluster) -> None:
    topic = cluster.create_topic(new_topic("range"))
    produce(cluster, topic, numbered(1000), linger_ms=50)
    for start, end in ((0, 1000), (1, 999), (500, 501), (17, 300), (999, 1000)):
        assert read(cluster, Range(topic, 0, start, end)) == list(range(start, end))


def test_a_range_of_many_fetches_comes_in_order(cluster: Cluster) -> None:
    topic = cluster.create_topic(new_topic("fetches"))
    produce(cluster, topic, [b"x" * 500] * 3000, linger_ms=5)
    assert read(cluster, Range(topic, 0, 3, 2990), max_partition_fetch_bytes="20000") == list(range(3, 2990))


def test_aborted_records_and_markers_are_left_out_up_to_the_very_end(cluster: Cluster) -> None:
    """The range ends with the marker of an aborted transaction: nothing comes behind it, and the reading ends."""
    topic = cluster.create_topic(new_topic("aborted"))
    settings = {"transactional.id": new_topic("txn"), "bootstrap.servers": cluster.bootstrap_servers}
    with Producer(settings) as producer:
        producer.init_transactions()
        for number, is_good in enumerate((True, False, True, False)):
            producer.begin_transaction()
            for _ in range(3):
                producer.send(topic, value=b"%d" % number)
            producer.flush()
            if is_good:
                producer.commit_transaction()
            else:
                producer.abort_transaction()
    committed = read_batch(cluster, subscribe=topic, kafka__isolation__level="read_committed")
    assert values_of(committed) == [b"0"] * 3 + [b"2"] * 3
    assert committed.column("offset").to_pylist() == [0, 1, 2, 8, 9, 10]
    everything = values_of(read_batch(cluster, subscribe=topic))
    assert everything == [b"%d" % number for number in range(4) for _ in range(3)]


def test_an_open_transaction_ends_what_is_committed(cluster: Cluster) -> None:
    topic = cluster.create_topic(new_topic("open"))
    produce(cluster, topic, numbered(5))
    settings = {"transactional.id": new_topic("txn"), "bootstrap.servers": cluster.bootstrap_servers}
    with Producer(settings) as producer:
        producer.init_transactions()
        producer.begin_transaction()
        producer.send(topic, value=b"open")
        producer.flush()
        rows = read_batch(cluster, subscribe=topic, kafka__isolation__level="read_committed")
        assert values_of(rows) == numbered(5)
        impatient = Patience(timeout_ms=300, attempts=2, interval_ms=50, fails_on_data_loss=True)
        with pytest.raises(ReadTimeout, match="a transaction is open from offset 5 on"):
            read(cluster, Range(topic, 0, 0, 6), impatient, isolation_level="read_committed")
        producer.abort_transaction()


def test_holes_of_a_compacted_topic_are_passed_over() -> None:
    settings = {"log.cleaner.backoff.ms": "50", "log.initial.task.delay.ms": "10"}
    with Cluster(settings=settings) as cluster:
        topic = cluster.create_topic(
            "compacted", cleanup_policy="compact", segment_ms=50, min_cleanable_dirty_ratio=0.01
        )
        with Producer(bootstrap_servers=cluster.bootstrap_servers) as producer:
            for _ in range(200):
                offset = 0
                for number in range(20):
                    offset = producer.send_and_wait(topic, value=b"v", key=b"%d" % (number % 4)).offset
                found = read(cluster, Range(topic, 0, 0, offset + 1))
                assert found == sorted(found)
                assert found[-1] == offset
                if len(found) < offset + 1:
                    break
        assert len(found) < offset + 1, "the cleaner was waited for"
        hole = next(number for number in range(offset) if number not in found)
        assert read(cluster, Range(topic, 0, hole, hole + 1)) == []


def test_expired_offsets_are_an_error_that_says_what_was_lost(cluster: Cluster) -> None:
    topic = cluster.create_topic(new_topic("expired"))
    produce(cluster, topic, numbered(50))
    with admin(cluster) as client:
        client.delete_records({TopicPartition(topic, 0): 30})
    with pytest.raises(DataLoss) as lost:
        read(cluster, Range(topic, 0, 10, 50))
    text = str(lost.value)
    assert f"20 offsets of {topic}-0 were lost, from 10 to 29: the log begins at offset 30 now" in text
    assert "Set the option failOnDataLoss to false" in text
    assert read(cluster, Range(topic, 0, 10, 50), FORGIVING) == list(range(30, 50))
    assert read(cluster, Range(topic, 0, 10, 25), FORGIVING) == []


def test_a_log_that_is_shorter_than_was_planned_is_a_loss(cluster: Cluster) -> None:
    topic = cluster.create_topic(new_topic("short"))
    produce(cluster, topic, numbered(5))
    for start in (0, 7):
        with pytest.raises(DataLoss, match=f"offsets of {topic}-0 were lost, from {max(start, 5)} to 9: the log ends"):
            read(cluster, Range(topic, 0, start, 10))
    assert read(cluster, Range(topic, 0, 0, 10), FORGIVING) == list(range(5))


def test_a_deleted_topic_is_a_loss(cluster: Cluster) -> None:
    topic = cluster.create_topic(new_topic("deleted"))
    produce(cluster, topic, numbered(5))
    assert len(read(cluster, Range(topic, 0, 0, 5))) == 5
    with admin(cluster) as client:
        client.delete_topics([topic])
    with pytest.raises(
        DataLoss, match=f"5 offsets of {topic}-0 were lost, from 0 to 4: the partition has been deleted"
    ):
        read(cluster, Range(topic, 0, 0, 5))
    assert read(cluster, Range(topic, 0, 0, 5), FORGIVING) == []
    with admin(cluster) as client:
        client.create_topics([NewTopic(topic, 1)])
    produce(cluster, topic, numbered(3))
    assert read(cluster, Range(topic, 0, 0, 3)) == [0, 1, 2], "made anew, with another id"


def test_a_topic_recreated_while_it_is_read_ends_the_range_where_it_is(cluster: Cluster) -> None:
    """Its rows come 2 MiB at a time, and two fetches are ahead; the new topic has records for the rest of the range."""
    topic = cluster.create_topic(new_topic("recreated"))
    old, new = b"old" * 30_000, b"new" * 30_000
    produce(cluster, topic, [old] * 100)
    wanted = Range(topic, 0, 0, 100, Uuid.parse(topic_id(cluster, topic)))
    settings = {"bootstrap.servers": cluster.bootstrap_servers, "max.partition.fetch.bytes": "100000"}
    readers = {patience: read_rows(settings, wanted, ["value"], patience) for patience in (PATIENCE, FORGIVING)}
    found = {patience: next(rows).column(0).to_pylist() for patience, rows in readers.items()}
    recreate(cluster, topic, [new] * 100)
    with pytest.raises(DataLoss, match=rf"{topic}-0 were lost, from \d+ to 99: the topic was deleted and made anew"):
        found[PATIENCE] += [value for batch in readers[PATIENCE] for value in batch.column(0).to_pylist()]
    found[FORGIVING] += [value for batch in readers[FORGIVING] for value in batch.column(0).to_pylist()]
    for values in found.values():
        assert 20 < len(values) < 100
        assert set(values) == {old}


def test_a_broker_that_restarts_costs_time_and_no_record() -> None:
    with Cluster() as cluster:
        topic = cluster.create_topic("restarted")
        produce(cluster, topic, [b"x" * 500] * 3000, linger_ms=5)
        settings = {"bootstrap.servers": cluster.bootstrap_servers, "max.partition.fetch.bytes": "20000"}
        reader = RangeReader(settings)
        offsets: list[int] = []
        for number, batches in enumerate(reader.read(Range(topic, 0, 0, 3000), PATIENCE)):
            offsets += [row[0] for raw in batches for row in raw.batch.rows() if row[0] >= raw.start_offset]
            if number in (3, 9):
                cluster.restart()
        assert offsets == list(range(3000))
        cluster.stop()
        impatient = Patience(timeout_ms=500, attempts=2, interval_ms=50, fails_on_data_loss=True)
        with pytest.raises(ReadTimeout, match=f"{topic}-0 was not read from offset 0 on within"):
            list(reader.read(Range(topic, 0, 0, 3000), impatient))
        reader.close()


def test_damage_on_the_way_is_found(tmp_path: Path) -> None:
    """A bit that a disk has lost: the checksum is compared, and the place is told."""
    with BrokerProcess(tmp_path, topics=["damaged"]) as broker:
        with Producer(bootstrap_servers=broker.address) as producer:
            for number in range(10):
                producer.send_and_wait("damaged", value=b"%d" % number * 100)
        broker.stop()
        (segment,) = tmp_path.glob("data/**/damaged-0/*.log")
        data = bytearray(segment.read_bytes())
        data[data.index(b"7" * 100) + 50] ^= 1
        segment.write_bytes(data)
        broker.start()
        settings = {"bootstrap.servers": broker.address}
        rows = read_rows(settings, Range("damaged", 0, 0, 10), ["value"], PATIENCE)
        with pytest.raises(CorruptRecord, match="partition damaged-0 at offset 7 is invalid"):
            list(rows)
        whole = read_rows(settings, Range("damaged", 0, 0, 7), ["value"], PATIENCE)
        assert sum(batch.num_rows for batch in whole) == 7


def test_a_time_that_spark_cannot_hold_is_told(cluster: Cluster) -> None:
    topic = cluster.create_topic(new_topic("times"), message_timestamp_after_max_ms=2**63 - 1)
    with Producer(bootstrap_servers=cluster.bootstrap_servers) as producer:
        producer.send_and_wait(topic, value=b"v", timestamp_ms=2**62)
    with pytest.raises(Exception, match="which Spark cannot hold in microseconds"):
        read_batch(cluster, subscribe=topic)
    assert values_of(read_batch(cluster, subscribe=topic, columns="value")) == [b"v"]


def test_readers_are_kept_for_the_next_task_and_not_too_many(cluster: Cluster) -> None:
    readers = RangeReaders()
    settings = {"bootstrap.servers": cluster.bootstrap_servers}
    with readers.lent(settings) as first, readers.lent(settings) as second:
        assert first is not second, "one task, one reader"
    with readers.lent(settings) as again:
        assert again in (first, second)
    for number in range(READERS_MAX + 2):
        with readers.lent({**settings, "client.id": str(number)}):
            pass
    assert len(readers._idle) == READERS_MAX
    with pytest.raises(ZeroDivisionError), readers.lent({**settings, "client.id": "5"}) as failed:
        raise ZeroDivisionError
    with readers.lent({**settings, "client.id": "5"}) as fresh:
        assert fresh is not failed, "what has failed is not used again"
    for _, reader in readers._idle:
        reader.close()


def test_a_task_that_stops_in_the_middle_leaves_a_reader_for_the_next(cluster: Cluster) -> None:
    topic = cluster.create_topic(new_topic("limit"))
    produce(cluster, topic, [b"x" * 1000] * 3000, linger_ms=5)
    settings = {"bootstrap.servers": cluster.bootstrap_servers, "max.partition.fetch.bytes": "20000"}
    rows = read_rows(settings, Range(topic, 0, 0, 3000), ["value"], PATIENCE)
    assert isinstance(next(rows), pa.RecordBatch)
    rows.close()  # type: ignore[attr-defined]  # it is a generator
    assert len(read(cluster, Range(topic, 0, 0, 3000), max_partition_fetch_bytes="20000")) == 3000
