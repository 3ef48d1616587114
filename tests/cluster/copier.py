"""A transactional copy by librdkafka: what is read from one topic is written to another, once, while nodes die.

`Copier` is one member of a group that reads, writes and commits its offsets in transactions. Called by tests.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

from confluent_kafka import Consumer, KafkaException, Message, Producer, TopicPartition

from tests.support.survey import QUIET, TIMEOUT_S

GROUP = "copy"
BATCH_MAX = 500
POLL_S = 0.2
CALL_S = 10.0
COMMON = {
    "reconnect.backoff.ms": 20,
    "reconnect.backoff.max.ms": 200,
    "topic.metadata.refresh.interval.ms": 1000,
    "socket.timeout.ms": 4000,
}


class Copier:
    """In a thread of its own, from `source` to the same partitions of `target`."""

    def __init__(self, name: str, address: str, source: str, target: str) -> None:
        self.name = name
        self._address = address
        self._source, self._target = source, target
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._run, name=name)
        self.committed = 0
        """Transactions."""
        self.records = 0
        self.aborted = 0
        self.lives = 0
        """How many producers there were: one that is fenced, or whose commit's outcome is unknown, is replaced."""
        self.failures: list[str] = []

    def __str__(self) -> str:
        return (
            f"{self.name}: {self.records} records in {self.committed} transactions, {self.aborted} aborted, "
            f"{self.lives} producers, {self.failures}"
        )

    def start(self) -> None:
        self._thread.start()

    def ask_to_finish(self) -> None:
        self._is_over.set()

    def finish(self) -> None:
        self.ask_to_finish()
        self._thread.join(3 * TIMEOUT_S)
        assert not self._thread.is_alive(), f"{self.name} does not end"

    def _run(self) -> None:
        while not self._is_over.is_set():
            self.lives += 1
            try:
                self._live()
            except KafkaException as error:
                self.failures.append(f"{time.strftime('%T')} {error.args[0]!r}")

    def _live(self) -> None:
        producer = Producer({
            "bootstrap.servers": self._address,
            "transactional.id": self.name,
            "transaction.timeout.ms": 20_000,
            "linger.ms": 2,
            **COMMON,
            **QUIET,
        })  # fmt: skip
        consumer = Consumer({
            "bootstrap.servers": self._address,
            "group.id": GROUP,
            "enable.auto.commit": False,
            "auto.offset.reset": "earliest",
            "isolation.level": "read_committed",
            "session.timeout.ms": 6000,
            "heartbeat.interval.ms": 500,
            "fetch.wait.max.ms": 100,
            **COMMON,
            **QUIET,
        })  # fmt: skip
        try:
            _again(producer.init_transactions)
            consumer.subscribe([self._source])
            while not self._is_over.is_set():
                found = [message for message in consumer.consume(BATCH_MAX, POLL_S) if message.error() is None]
                if found:
                    self._copy(producer, consumer, found)
        finally:
            consumer.close()

    def _copy(self, producer: Producer, consumer: Consumer, found: list[Message]) -> None:
        producer.begin_transaction()
        try:
            for message in found:
                producer.produce(
                    self._target, message.value(), key=message.key(), partition=int(message.partition() or 0)
                )
            ends = {int(message.partition() or 0): int(message.offset() or 0) + 1 for message in found}
            positions = [TopicPartition(self._source, partition, offset) for partition, offset in ends.items()]
            metadata = consumer.consumer_group_metadata()
            _again(lambda timeout: producer.send_offsets_to_transaction(positions, metadata, timeout))
            _again(producer.commit_transaction)
            self.committed += 1
            self.records += len(found)
        except KafkaException as error:
            if not error.args[0].txn_requires_abort():
                raise
            _again(producer.abort_transaction)
            self.aborted += 1
            self._rewind(consumer)

    def _rewind(self, consumer: Consumer) -> None:
        """Read again from where the last transaction that was committed has come to."""
        for place in consumer.committed(consumer.assignment(), timeout=TIMEOUT_S):
            consumer.seek(TopicPartition(place.topic, place.partition, max(0, place.offset)))


def _again(call: Callable[[float], object]) -> None:
    """Call until it is answered, as librdkafka's documentation says: what may be tried again is."""
    deadline = time.monotonic() + 2 * TIMEOUT_S
    while True:
        try:
            call(CALL_S)
            return
        except KafkaException as error:
            if not error.args[0].retriable() or time.monotonic() > deadline:
                raise
