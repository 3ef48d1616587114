"""Transactions of `Producer` and `AsyncProducer` against a broker, read back by a stock client with read_committed."""

from __future__ import annotations

import asyncio
import itertools
import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import confluent_kafka as ck
import pytest

from ottla.client import AsyncProducer, Producer
from ottla.client.errors import AbortableError, FatalProducerError, IllegalState, KafkaTimeout, TransactionAborted
from ottla.errors import MessageTooLarge, ProducerFenced
from ottla.types import TopicPartition
from ottla.wire.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from ottla.wire.messages.update_features import FeatureUpdateKey, UpdateFeaturesRequest, UpdateFeaturesResponse
from tests.clients.ours.reading import create_topic, restartable, values
from tests.support.clients import PATIENCE_S, eventually, new_topic
from tests.support.nodes import Nodes, kill_all
from tests.support.raw import RawClient
from tests.support.server import Server

_ids = itertools.count()


def new_id() -> str:
    return f"txn-{os.getpid()}-{next(_ids)}"


def transactional(address: str, transactional_id: str | None = None, **settings: Any) -> Producer:
    producer = Producer(bootstrap_servers=address, transactional_id=transactional_id or new_id(), **settings)
    producer.init_transactions(PATIENCE_S)
    return producer


@pytest.fixture
def producer(address: str) -> Iterator[Producer]:
    made = transactional(address)
    yield made
    made.close(PATIENCE_S)


@dataclass(frozen=True, slots=True)
class Group:
    """What a consumer tells of its group."""

    group_id: str
    generation_id: int = -1
    member_id: str = ""
    group_instance_id: str | None = None


def committed(address: str, group: str, topic: str) -> int:
    consumer = ck.Consumer({"bootstrap.servers": address, "group.id": group})
    try:
        (found,) = consumer.committed([ck.TopicPartition(topic, 0)], PATIENCE_S)
        return int(found.offset)
    finally:
        consumer.close()


# Beginning and ending


def test_what_a_transaction_wrote_is_seen_when_it_is_committed_and_only_then(address: str, producer: Producer) -> None:
    topic = create_topic(address, new_topic("committed"), 2)
    with producer.transaction():
        for number in range(10):
            producer.send(topic, b"%d" % number, partition=number % 2)
        producer.flush(PATIENCE_S)
        assert values(address, topic) == []
        assert len(values(address, topic, isolation="read_uncommitted")) == 10
    assert sorted(map(int, filter(None, values(address, topic)))) == list(range(10))


def test_what_an_aborted_transaction_wrote_is_never_seen(address: str, producer: Producer) -> None:
    topic = create_topic(address, new_topic("aborted"))
    producer.begin_transaction()
    producer.send(topic, b"no").result(PATIENCE_S)
    producer.abort_transaction(PATIENCE_S)
    with producer.transaction():
        producer.send(topic, b"yes")
    assert values(address, topic) == [b"yes"]
    assert values(address, topic, isolation="read_uncommitted") == [b"no", b"yes"]


def test_an_exception_aborts_and_goes_on(address: str, producer: Producer) -> None:
    topic = create_topic(address, new_topic("raised"))

    def fail() -> None:
        with producer.transaction():
            producer.send(topic, b"no")
            raise RuntimeError("mine")

    with pytest.raises(RuntimeError, match="mine"):
        fail()
    with producer.transaction():
        producer.send(topic, b"yes")
    assert values(address, topic) == [b"yes"]


def test_records_that_were_not_sent_yet_fail_with_the_abort(address: str) -> None:
    topic = create_topic(address, new_topic("unsent"))
    with transactional(address, linger_ms=60_000, delivery_timeout_ms=120_000) as producer:
        producer.begin_transaction()
        delivery = producer.send(topic, b"no")
        producer.abort_transaction(PATIENCE_S)
        with pytest.raises(TransactionAborted):
            delivery.result(PATIENCE_S)
    assert values(address, topic, isolation="read_uncommitted") == []


def test_many_transactions_one_after_the_other(address: str, producer: Producer) -> None:
    """Each brings a new epoch where `transaction.version` is 2, and sequences begin anew."""
    topic = create_topic(address, new_topic("many"), 2)
    expected = []
    for number in range(30):
        producer.begin_transaction()
        for part in range(3):
            producer.send(topic, b"%d %d" % (number, part), partition=part % 2)
        if number % 3 == 2:
            producer.abort_transaction(PATIENCE_S)
        else:
            producer.commit_transaction(PATIENCE_S)
            expected += [b"%d %d" % (number, part) for part in range(3)]
    assert sorted(filter(None, values(address, topic))) == sorted(expected)


def test_a_transaction_without_records_is_nothing(address: str, producer: Producer) -> None:
    with producer.transaction():
        pass
    producer.begin_transaction()
    producer.abort_transaction(PATIENCE_S)


def test_calls_that_do_not_fit_are_refused(address: str) -> None:
    topic = create_topic(address, new_topic("order"))
    with Producer(bootstrap_servers=address) as plain:
        for call in (plain.init_transactions, plain.begin_transaction, plain.commit_transaction):
            with pytest.raises(IllegalState, match="transactional"):
                call()
    with Producer(bootstrap_servers=address, transactional_id=new_id()) as producer:
        producer.partitions_for(topic)
        with pytest.raises(IllegalState, match=r"before init_transactions"):
            producer.send(topic, b"v")
        with pytest.raises(IllegalState, match="UNINITIALIZED to state IN_TRANSACTION"):
            producer.begin_transaction()
        producer.init_transactions(PATIENCE_S)
        with pytest.raises(IllegalState, match="while no transaction is open"):
            producer.send(topic, b"v")
        with pytest.raises(IllegalState, match="READY to state COMMITTING"):
            producer.commit_transaction()
        with pytest.raises(IllegalState, match="transaction is not in progress"):
            producer.send_offsets_to_transaction({TopicPartition(topic, 0): 1}, "group")
        with producer.transaction():
            with pytest.raises(IllegalState):
                producer.begin_transaction()
            producer.send(topic, b"v")
    assert values(address, topic) == [b"v"]


def test_closing_aborts_an_open_transaction(address: str) -> None:
    topic = create_topic(address, new_topic("closed-open"))
    transactional_id = new_id()
    producer = transactional(address, transactional_id)
    producer.begin_transaction()
    producer.send(topic, b"no").result(PATIENCE_S)
    producer.close(PATIENCE_S)
    # Nothing holds readers up: the end of the log is stable.
    with Producer(bootstrap_servers=address) as other:
        other.send_and_wait(topic, b"after")
    assert values(address, topic) == [b"after"]


# Errors


def test_a_newer_producer_of_the_same_id_fences_the_older(address: str) -> None:
    topic = create_topic(address, new_topic("fenced"))
    transactional_id = new_id()
    older = transactional(address, transactional_id)
    older.begin_transaction()
    older.send(topic, b"no").result(PATIENCE_S)
    with transactional(address, transactional_id) as newer:
        with newer.transaction():
            newer.send(topic, b"yes")
        with pytest.raises(ProducerFenced) as caught:
            older.commit_transaction(PATIENCE_S)
        assert isinstance(caught.value, FatalProducerError)
        assert caught.value.fatal
        assert not caught.value.retriable
        for call in (older.begin_transaction, older.abort_transaction, lambda: older.send(topic, b"no")):
            with pytest.raises(FatalProducerError):
                call()
    older.close(PATIENCE_S)
    assert values(address, topic) == [b"yes"]


def test_a_record_that_fails_makes_the_transaction_one_to_abort(address: str, producer: Producer) -> None:
    topic = create_topic(address, new_topic("abortable"), max_message_bytes="1000")
    producer.begin_transaction()
    producer.send(topic, b"no")
    with pytest.raises(MessageTooLarge):
        producer.send(topic, bytes(3000)).result(PATIENCE_S)
    with pytest.raises(MessageTooLarge) as caught:
        producer.commit_transaction(PATIENCE_S)
    assert isinstance(caught.value, AbortableError)
    assert caught.value.requires_abort
    with pytest.raises(AbortableError):
        producer.send(topic, b"no")
    producer.abort_transaction(PATIENCE_S)
    with producer.transaction():
        producer.send(topic, b"yes")
    assert values(address, topic) == [b"yes"]


def test_a_record_that_send_refuses_makes_the_transaction_one_to_abort(address: str) -> None:
    topic = create_topic(address, new_topic("refused"))
    with transactional(address, max_request_size=1000) as producer:

        def fail() -> None:
            with producer.transaction():
                producer.send(topic, b"no")
                producer.send(topic, bytes(5000))

        with pytest.raises(MessageTooLarge):
            fail()
        with producer.transaction():
            producer.send(topic, b"yes")
    assert values(address, topic) == [b"yes"]


def test_a_transaction_that_timed_out_at_the_coordinator_cannot_be_committed(tmp_path: Path) -> None:
    checks = {"transaction_abort_timed_out_transaction_cleanup_interval_ms": "200"}
    with restartable(tmp_path, **checks) as server:
        topic = create_topic(server.address, "timed-out")
        with transactional(server.address, transaction_timeout_ms=500) as producer:
            producer.begin_transaction()
            producer.send(topic, b"no").result(PATIENCE_S)
            time.sleep(2)
            with pytest.raises((FatalProducerError, AbortableError)):
                producer.commit_transaction(PATIENCE_S)
        with transactional(server.address) as producer, producer.transaction():
            producer.send(topic, b"yes")
        assert values(server.address, topic) == [b"yes"]


# Offsets


@pytest.mark.parametrize("ends", ["commit", "abort"])
def test_offsets_count_when_the_transaction_is_committed(address: str, producer: Producer, ends: str) -> None:
    topic = create_topic(address, new_topic("offsets"))
    group = new_topic("group")
    producer.begin_transaction()
    producer.send(topic, b"v")
    producer.send_offsets_to_transaction({TopicPartition(topic, 0): 7}, Group(group), PATIENCE_S)
    if ends == "commit":
        producer.commit_transaction(PATIENCE_S)
        assert committed(address, group, topic) == 7
    else:
        producer.abort_transaction(PATIENCE_S)
        assert committed(address, group, topic) == ck.OFFSET_INVALID


def test_offsets_of_a_member_that_is_not_there_fail_the_transaction(address: str, producer: Producer) -> None:
    topic = create_topic(address, new_topic("stranger"))
    group = Group(new_topic("group"), generation_id=3, member_id="nobody")
    with pytest.raises(AbortableError, match="group metadata mismatch"), producer.transaction():
        producer.send_offsets_to_transaction({TopicPartition(topic, 0): 7}, group, PATIENCE_S)
    with producer.transaction():
        producer.send(topic, b"yes")
    assert values(address, topic) == [b"yes"]


# Exactly once

COPY = """
import json, os, signal, sys
from ottla.client import Consumer, OffsetAndMetadata, Producer
from ottla.types import TopicPartition

address, source, target, crash_after, settings = *sys.argv[1:4], int(sys.argv[4]), json.loads(sys.argv[5])
producer = Producer(bootstrap_servers=address, transactional_id=f"copier-{target}", batch_size=200)
producer.init_transactions(30)
consumer = Consumer(settings, bootstrap_servers=address, group_id=f"copy-{target}", isolation_level="read_committed",
                    enable_auto_commit=False, auto_offset_reset="earliest", max_poll_records=7)
consumer.subscribe([source])
copied, at = 0, 0
while at < 300:
    records = list(consumer.poll(1.0))
    if not records:
        continue
    with producer.transaction():
        for record in records:
            producer.send(target, record.value)
            copied += 1
            if copied == crash_after:
                producer.flush(30)
                os.kill(os.getpid(), signal.SIGKILL)
        at = records[-1].offset + 1
        offsets = {TopicPartition(source, 0): OffsetAndMetadata(at)}
        producer.send_offsets_to_transaction(offsets, consumer.group_metadata())
consumer.close()
producer.close()
"""


@pytest.mark.parametrize(("protocol", "crashes"), [("classic", (50, 1, 120)), ("consumer", (120,))])
def test_a_copy_that_crashes_again_and_again_copies_every_record_once(
    address: str, protocol: str, crashes: tuple[int, ...]
) -> None:
    """Our consumer reads, our producer writes and commits the offsets; the process is killed half way."""
    source, target = create_topic(address, new_topic("source")), create_topic(address, new_topic("target"))
    settings = {"group.protocol": protocol}
    if protocol == "classic":
        settings |= {"session.timeout.ms": "1000", "heartbeat.interval.ms": "200"}
    with Producer(bootstrap_servers=address) as producer:
        for number in range(300):
            producer.send(source, b"%d" % number)
    for crash_after in (*crashes, 0):
        command = [sys.executable, "-c", COPY, address, source, target, str(crash_after), json.dumps(settings)]
        ended = subprocess.run(command, capture_output=True, text=True, timeout=90, check=False)
        assert ended.returncode == (-9 if crash_after else 0), ended.stderr
    assert values(address, target) == [b"%d" % number for number in range(300)]
    assert len(values(address, target, isolation="read_uncommitted")) > 300


def test_transactions_survive_kill_9_of_the_broker(tmp_path: Path) -> None:
    with restartable(tmp_path) as server:
        topic = create_topic(server.address, "survivor", 2)
        expected = []
        with transactional(server.address, batch_size=200) as producer:
            for number in range(9):
                with producer.transaction():
                    for part in range(20):
                        producer.send(topic, b"%d %d" % (number, part), partition=part % 2)
                        if number in (3, 6) and part == 10:
                            producer.flush(PATIENCE_S)
                            server.kill()
                            server.start()
                expected += [b"%d %d" % (number, part) for part in range(20)]
        assert sorted(filter(None, values(server.address, topic))) == sorted(expected)


def test_a_commit_that_times_out_goes_on_and_can_be_called_again(tmp_path: Path) -> None:
    with restartable(tmp_path) as server:
        topic = create_topic(server.address, "patient")
        with transactional(server.address) as producer:
            producer.begin_transaction()
            producer.send(topic, b"v").result(PATIENCE_S)
            kill_all(server)
            with pytest.raises(KafkaTimeout, match="commit_transaction took longer than 300 ms"):
                producer.commit_transaction(0.3)
            with pytest.raises(IllegalState, match=r"commit_transaction timed out before it and must be called again"):
                producer.abort_transaction(0.3)
            server.start()
            producer.commit_transaction(60)
            with producer.transaction():
                producer.send(topic, b"w")
        assert values(server.address, topic) == [b"v", b"w"]


def test_the_older_life_with_explicit_partitions_works_as_well(tmp_path: Path) -> None:
    """`transaction.version` 1: partitions and offsets are added before they are used, epochs stay."""
    with restartable(tmp_path) as server:
        downgrade(server)
        topic = create_topic(server.address, "older", 3)
        with transactional(server.address) as producer:
            manager = producer._core.manager
            assert manager is not None
            assert not manager.is_version_2
            epoch = manager.producer.epoch
            for number in range(10):
                producer.begin_transaction()
                producer.send(topic, b"%d" % number, partition=number % 3)
                offsets = {TopicPartition(topic, 0): number + 1}
                producer.send_offsets_to_transaction(offsets, Group("older"), PATIENCE_S)
                if number == 9:
                    producer.abort_transaction(PATIENCE_S)
                else:
                    producer.commit_transaction(PATIENCE_S)
            assert manager.producer.epoch == epoch
        assert sorted(filter(None, values(server.address, topic))) == [b"%d" % number for number in range(9)]
        assert committed(server.address, "older", topic) == 9


def downgrade(server: Server | Nodes) -> None:
    """Set `transaction.version` to 1."""
    update = FeatureUpdateKey("transaction.version", 1, upgrade_type=2)
    with RawClient(server.port) as client:
        answer = client.send(
            UpdateFeaturesRequest(timeout_ms=10_000, feature_updates=[update]), 1, UpdateFeaturesResponse
        )
        assert answer.error_code == 0, answer

        def is_done() -> bool:
            told = client.send(ApiVersionsRequest("test", "1"), 3, ApiVersionsResponse).finalized_features
            return [one.max_version_level for one in told if one.name == "transaction.version"] == [1]

        eventually(is_done, "transaction.version 1")


# The async face


def test_the_async_face_has_transactions_as_well(address: str) -> None:
    topic = create_topic(address, new_topic("async-txn"))

    async def main() -> None:
        async with AsyncProducer(bootstrap_servers=address, transactional_id=new_id()) as producer:
            await producer.init_transactions(PATIENCE_S)
            async with producer.transaction():
                await producer.send(topic, b"yes")

            async def fail() -> None:
                async with producer.transaction():
                    await producer.send(topic, b"no")
                    raise RuntimeError("mine")

            with pytest.raises(RuntimeError, match="mine"):
                await fail()
            await producer.begin_transaction()
            await producer.send_offsets_to_transaction({TopicPartition(topic, 0): 1}, "async-group", PATIENCE_S)
            await producer.commit_transaction(PATIENCE_S)

    asyncio.run(main())
    assert values(address, topic) == [b"yes"]
    assert committed(address, "async-group", topic) == 1
