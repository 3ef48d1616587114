"""A consumer group of librdkafka that goes on while nodes die, and the account of what its members saw.

Promises that `Readers` holds the brokers to: a partition given to another member goes on where the group has committed;
no offset is skipped, and a committed offset never goes back. Called by tests.
"""

from __future__ import annotations

import threading
from collections import defaultdict

from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition

from tests.support.survey import QUIET, TIMEOUT_S

BATCH_MAX = 500
PASSING = (
    KafkaError._ALL_BROKERS_DOWN,
    KafkaError.NOT_COORDINATOR,
    KafkaError.COORDINATOR_NOT_AVAILABLE,
    KafkaError.COORDINATOR_LOAD_IN_PROGRESS,
)
"""librdkafka tells of these without calling them retriable, and goes on: the coordinator had just moved when it asked
for the committed offsets of an assignment."""
POLL_S = 0.2


class Readers:
    """Members of one group, each in a thread of its own."""

    def __init__(self, group: str, protocol: str, address: str, topic: str, *, members: int = 2) -> None:
        self.group = group
        self._topic = topic
        self._config = {
            "bootstrap.servers": address,
            "group.id": group,
            "group.protocol": protocol,
            "enable.auto.commit": False,
            "auto.offset.reset": "earliest",
            "reconnect.backoff.max.ms": 200,
            "topic.metadata.refresh.interval.ms": 1000,
            "fetch.wait.max.ms": 100,
            **({"session.timeout.ms": 6000, "heartbeat.interval.ms": 500} if protocol == "classic" else {}),
            **QUIET,
        }
        self._lock = threading.Lock()
        self._is_over = threading.Event()
        self._threads = [threading.Thread(target=self._run, name=f"{group}-{number}") for number in range(members)]
        self.values: dict[int, dict[int, bytes]] = defaultdict(dict)
        """Partition -> offset -> value."""
        self.committed: dict[int, int] = defaultdict(int)
        self.failures: list[str] = []
        self._refused: dict[str, str] = {}
        """Thread -> its last commit that was refused, and why."""

    def start(self) -> None:
        for thread in self._threads:
            thread.start()

    def ask_to_finish(self) -> None:
        self._is_over.set()

    def finish(self) -> None:
        self.ask_to_finish()
        for thread in self._threads:
            thread.join(2 * TIMEOUT_S)
            assert not thread.is_alive(), f"{thread.name} does not end"

    def __str__(self) -> str:
        with self._lock:
            seen = {partition: len(values) for partition, values in sorted(self.values.items())}
            told = f"{self.group}: committed {dict(sorted(self.committed.items()))}, seen {seen}"
        return f"{told}, failures {self.failures}, last refused {self._refused or 'none'}"

    @property
    def count(self) -> int:
        return sum(map(len, self.values.values()))

    def has_committed(self, ends: dict[int, int]) -> bool:
        """Whether the group has come to these ends."""
        return all(self.committed[partition] >= end for partition, end in ends.items())

    def _run(self) -> None:
        consumer = Consumer(self._config)
        positions: dict[int, int] = {}
        """Of what this member has now; a partition that it has just been given is not among them yet."""

        def forget(_: Consumer, partitions: list[TopicPartition]) -> None:
            for one in partitions:
                positions.pop(one.partition, None)

        consumer.subscribe([self._topic], on_assign=forget, on_revoke=forget, on_lost=forget)
        try:
            while not self._is_over.is_set():
                self._consume(consumer, positions)
        except (KafkaException, AssertionError) as error:
            self.failures.append(f"{threading.current_thread().name}: {error!r}")
        finally:
            consumer.close()

    def _consume(self, consumer: Consumer, positions: dict[int, int]) -> None:
        for message in consumer.consume(BATCH_MAX, POLL_S):
            error, partition, offset, value = message.error(), message.partition(), message.offset(), message.value()
            if error is not None:
                assert error.retriable() or error.code() in PASSING, error
                continue
            assert partition is not None
            assert offset is not None
            assert isinstance(value, bytes), value
            with self._lock:
                seen = self.values[partition]
                if partition not in positions:
                    assert offset >= self.committed[partition], f"{partition}: back to {offset} of {self.committed}"
                    assert offset == 0 or offset - 1 in seen, f"{partition}: begins at {offset}, {len(seen)} seen"
                else:
                    assert offset == positions[partition], f"{partition}: {offset} after {positions[partition] - 1}"
                assert seen.setdefault(offset, value) == value, f"{partition}: another value at {offset}"
                positions[partition] = offset + 1
        places = [TopicPartition(self._topic, partition, offset) for partition, offset in positions.items()]
        if not places:
            return
        try:
            consumer.commit(offsets=places, asynchronous=False)
        except KafkaException as error:  # what is not committed is read again, or committed with what comes next
            self._refused[threading.current_thread().name] = f"{positions}: {error}"
            return
        with self._lock:
            for place in places:
                self.committed[place.partition] = max(self.committed[place.partition], place.offset)
