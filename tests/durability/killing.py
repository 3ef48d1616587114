"""kill -9 under load, and the account of every record afterwards.

A `Load` is idempotent producers that go on through restarts of the broker and remember what was acknowledged, and in
what place. `check` then holds that against what the broker serves: every acknowledged record is there, where it was
said to be, once, and each producer's records are in the order in which they were sent. Called by tests.
"""

from __future__ import annotations

import base64
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from confluent_kafka import KafkaError, Message, Producer, TopicPartition

from tests.support.broker import BrokerProcess
from tests.support.survey import QUIET, TIMEOUT_S, read_to_end

TOPIC = "accounts"
PARTITION_COUNT = 3
IN_FLIGHT_MAX = 1_000
"""Of each partition: one that nobody may write to must not keep a producer from writing to the others."""
VALUE_SIZE = 300


@dataclass
class Load:
    """One producer in a thread of its own: values are its name and a counter, one counter a partition."""

    name: str
    address: str
    pause_s: float = 0.001
    """Between two records for each partition."""
    settings: dict[str, Any] = field(default_factory=dict)
    """librdkafka's, on top of those below."""
    topic: str = TOPIC
    partition_count: int = PARTITION_COUNT
    acknowledged: dict[int, dict[int, bytes]] = field(default_factory=lambda: defaultdict(dict))
    """Partition -> offset -> value."""
    unplaced: int = 0
    """Acknowledged, but nobody said where: librdkafka takes a batch for written when one sent after it is."""
    failed: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.sent = [0] * self.partition_count
        self._settled = [0] * self.partition_count
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._run, name=self.name)

    def start(self) -> None:
        self._thread.start()

    def finish(self) -> None:
        """Send no more, and return when all that was sent is acknowledged."""
        self._is_over.set()
        self._thread.join(2 * TIMEOUT_S)
        assert not self._thread.is_alive(), f"{self.name}: what was sent is not acknowledged"

    @property
    def count(self) -> int:
        return self.unplaced + sum(map(len, self.acknowledged.values()))

    @property
    def begun(self) -> set[int]:
        """The partitions in which something is acknowledged."""
        return {partition for partition, values in self.acknowledged.copy().items() if values}

    def _run(self) -> None:
        producer = Producer({
            "bootstrap.servers": self.address,
            "acks": "all",
            "enable.idempotence": True,
            "linger.ms": 2,
            "compression.type": "lz4" if self.name.endswith("1") else "none",
            "reconnect.backoff.ms": 20,
            "reconnect.backoff.max.ms": 100,
            "retry.backoff.ms": 20,
            "delivery.timeout.ms": 120_000,
            "topic.metadata.refresh.interval.ms": 1000,
            **QUIET,
            **self.settings,
        })  # fmt: skip
        filler = b"." * VALUE_SIZE
        while not self._is_over.is_set():
            for partition in range(self.partition_count):
                if self.sent[partition] - self._settled[partition] > IN_FLIGHT_MAX:
                    continue
                value = b"%s %d %s" % (self.name.encode(), self.sent[partition], filler)
                self.sent[partition] += 1
                producer.produce(self.topic, value, partition=partition, on_delivery=self._on_delivery)
            producer.poll(0)
            time.sleep(self.pause_s)
        producer.flush(2 * TIMEOUT_S)

    def _on_delivery(self, error: KafkaError | None, message: Message) -> None:
        value, partition, offset = message.value(), message.partition(), message.offset()
        assert isinstance(value, bytes), value
        assert partition is not None
        self._settled[partition] += 1
        if error is not None:
            self.failed.append(f"{value[:20]!r}: {error}")
        elif offset is None:
            self.unplaced += 1
        else:
            self.acknowledged[partition][offset] = value


def kill_under_load(
    directory: Path, *, kills: int, settings: dict[str, str], end: Callable[[BrokerProcess], None] = BrokerProcess.kill
) -> list[float]:
    """End and restart the broker this often while producers write; check; return the restarts' seconds."""
    broker = BrokerProcess(directory, topics=[f"{TOPIC}:{PARTITION_COUNT}"], settings=settings)
    restarts: list[float] = []
    with broker:
        loads = [Load(f"p{number}", broker.address) for number in range(2)]
        for load in loads:
            load.start()
        try:
            for number in range(kills):
                wait_for_progress(loads)
                time.sleep(0.05 * (number % 5))  # not always in the same moment after the first acknowledgement
                end(broker)
                begun = time.monotonic()
                broker.start()
                restarts.append(time.monotonic() - begun)
        finally:
            for load in loads:
                load.finish()
        check(broker.address, loads)
        broker.stop()
    assert broker.errors() == []
    return restarts


class Progressing(Protocol):
    """A load, as far as its progress goes."""

    @property
    def count(self) -> int: ...
    @property
    def begun(self) -> set[int]: ...
    @property
    def failed(self) -> list[str]: ...


def wait_for_beginning(loads: Sequence[Progressing], partition_count: int = PARTITION_COUNT) -> None:
    """Until every producer has been acknowledged in each partition.

    A leader that has nothing of a producer takes any sequence for its first, as Kafka's do. If the first batches are
    with a leader that is cut off when its successor is sent the next, those are out of order for good: the Java client
    gives them up after delivery.timeout.ms, and librdkafka begins a new epoch.
    """
    deadline = time.monotonic() + TIMEOUT_S
    while not all(len(load.begun) == partition_count for load in loads):
        assert time.monotonic() < deadline, f"no beginning: {[load.begun for load in loads]}"
        time.sleep(0.005)


def wait_for_progress(loads: Sequence[Progressing]) -> None:
    """Until every producer has been acknowledged something new: each kill is then one under load."""
    before = [load.count for load in loads]
    deadline = time.monotonic() + TIMEOUT_S
    while not all(load.count > count for load, count in zip(loads, before, strict=True)):
        now = [load.count for load in loads]
        assert time.monotonic() < deadline, f"no progress: {before} to {now}, {[load.failed[:1] for load in loads]}"
        time.sleep(0.005)


def check(address: str, loads: list[Load]) -> None:
    """Every acknowledged record once, at its offset; each producer's in order; no holes in the offsets. All of the
    loads write to the same topic, and nobody else does."""
    ((topic, partition_count),) = {(load.topic, load.partition_count) for load in loads}
    places = [TopicPartition(topic, partition) for partition in range(partition_count)]
    rows = read_to_end(address, places, "read_committed")
    for load in loads:
        assert load.failed == []
        assert load.count == sum(load.sent)
    for partition in range(partition_count):
        found = {row[0]: base64.b64decode(row[4]) for row in rows[topic, partition]}
        assert list(found) == list(range(len(found))), f"partition {partition}: offsets with holes"
        for load in loads:
            for offset, value in load.acknowledged[partition].items():
                assert found.get(offset) == value, f"partition {partition}: {value[:20]!r} is not at {offset}"
            mine = [
                (int(value.split()[1]), offset)
                for offset, value in found.items()
                if value.startswith(load.name.encode())
            ]
            wrong = [f"{value} at {offset}" for place, (value, offset) in enumerate(mine) if value != place][:5]
            assert not wrong, f"{load.name}-{partition}: lost, repeated or out of order, from {wrong} on"
            assert len(mine) == load.sent[partition], f"{load.name}-{partition}: {len(mine)} of {load.sent[partition]}"
