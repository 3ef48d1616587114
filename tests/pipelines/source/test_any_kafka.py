"""The source on real Kafkas, from 2.1 to 4.3: what it asks for is what they answer.

Runs with OTTLA_SOAK=1, because five brokers in turn, two of them with a ZooKeeper, take minutes.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass

import pytest

from ottla.client.admin import NewTopic
from ottla.client.producer import Producer
from ottla.pipelines.source.offsets import DataLoss
from ottla.types import TopicPartition
from tests.pipelines.source.support import Stream, admin, numbered, produce, read_batch, recreate, travelled, values_of
from tests.support.clients import eventually
from tests.support.old_kafka import OLD_KAFKAS, OldKafka, Release

pytestmark = [
    pytest.mark.java,
    pytest.mark.skipif(os.environ.get("OTTLA_SOAK") != "1", reason="five Kafkas take minutes: OTTLA_SOAK=1 runs them"),
]


@dataclass(frozen=True)
class Kafka:
    """A broker, as the other tests' helpers know one."""

    bootstrap_servers: str
    codecs: tuple[str, ...]
    has_topic_ids: bool
    fetches_by_id: bool


@pytest.fixture(scope="module", params=(*OLD_KAFKAS, Release("4.3.1")), ids=lambda release: release.version)
def kafka(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kafka]:
    with OldKafka(request.param, tmp_path_factory.mktemp("kafka")) as running:
        number = request.param.number
        codecs = ("none", "gzip", "snappy", "lz4", "zstd")
        yield Kafka(running.address, codecs, has_topic_ids=number >= (2, 8), fetches_by_id=number >= (3, 1))


def make_topic(kafka: Kafka, name: str, partitions: int = 1) -> str:
    with admin(kafka) as client:
        client.create_topics([NewTopic(name, partitions, replication_factor=1)]).all()
    return name


def test_every_codec_and_every_form_of_offsets_is_read(kafka: Kafka) -> None:
    topic = make_topic(kafka, "codecs", len(kafka.codecs))
    for partition, codec in enumerate(kafka.codecs):
        produce(kafka, topic, [b"x" * 50] * 500, partition=partition, compression_type=codec, linger_ms=5)
    rows = read_batch(kafka, subscribe=topic, includeHeaders="true")
    assert rows.num_rows == 2500
    assert rows.column("partition").value_counts().to_pylist() == [
        {"values": partition, "counts": 500} for partition in range(5)
    ]
    assert read_batch(kafka, subscribePattern="cod.c.", startingTimestamp="0", minPartitions="9").num_rows == 2500
    with Stream(kafka, {"subscribe": topic, "startingOffsets": "earliest", "maxOffsetsPerTrigger": "50"}) as stream:
        assert stream.next().num_rows == 50
        assert stream.next_of_everything().num_rows == 2450


def test_aborted_transactions_are_left_out(kafka: Kafka) -> None:
    topic = make_topic(kafka, "aborted")
    with Producer({"transactional.id": "txn", "bootstrap.servers": kafka.bootstrap_servers}) as producer:
        producer.init_transactions()
        for number in range(4):
            producer.begin_transaction()
            producer.send(topic, value=b"%d" % number)
            producer.flush()
            if number % 2:
                producer.abort_transaction()
            else:
                producer.commit_transaction()
    committed = read_batch(kafka, subscribe=topic, kafka__isolation__level="read_committed")
    assert values_of(committed) == [b"0", b"2"]
    assert values_of(read_batch(kafka, subscribe=topic)) == numbered(4)


def test_deleted_records_and_topics_are_losses(kafka: Kafka) -> None:
    topic = make_topic(kafka, "lost")
    produce(kafka, topic, numbered(10))
    options = {"subscribe": topic, "startingOffsets": "earliest", "fetchOffset__retryIntervalMs": "50"}
    with Stream(kafka, options) as stream, admin(kafka) as client:
        client.delete_records({TopicPartition(topic, 0): 4}).all()
        with pytest.raises(DataLoss, match="4 offsets of lost-0 were lost, from 0 to 3: the log begins at offset 4"):
            stream.next()
        client.delete_topics([topic]).all()
        eventually(lambda: _lost(stream), "a broker with a ZooKeeper deletes in its own time")


def _lost(stream: Stream) -> bool:
    try:
        stream.next_end()
    except DataLoss as loss:
        return "lost-0 from offset 0 on" in str(loss)
    return False


def test_a_recreated_topic_is_told_where_brokers_have_topic_ids(kafka: Kafka) -> None:
    """Without ids the query goes on at its offset, as it does with Spark's connector."""
    topic = make_topic(kafka, "recreated")
    produce(kafka, topic, numbered(10))
    options = {"subscribe": topic, "startingOffsets": "earliest", "fetchOffset__retryIntervalMs": "50"}
    with Stream(kafka, options) as strict, Stream(kafka, {**options, "failOnDataLoss": "false"}) as forgiving:
        assert values_of(strict.next()) == numbered(10)
        end = forgiving.plan()
        planned = forgiving.reader.partitions(forgiving.checkpoint, end)
        recreate(kafka, topic, numbered(20, start=100))
        if not kafka.has_topic_ids:
            assert strict.checkpoint == {topic: {"0": 10}}
            assert values_of(strict.next()) == numbered(10, start=110)
            return
        with pytest.raises(DataLoss, match="The topic recreated was deleted and made anew"):
            strict.next()
        if kafka.fetches_by_id:
            assert list(travelled(forgiving.reader).read(travelled(planned[0]))) == []
        forgiving.checkpoint = end
        assert values_of(forgiving.next()) == numbered(20, start=100)
