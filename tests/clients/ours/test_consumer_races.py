"""A user who does everything at random while records are fetched ahead: what comes is what must come next."""

from __future__ import annotations

import os
import random
import sys
import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest

from ottla.client import Consumer
from tests.clients.ours.consumers import FACES, make_topic, numbers, partitions, write

COUNT = 5000
PARTITIONS = 3
RUN_S = 2.5


@pytest.fixture
def hurried_threads() -> Iterator[None]:
    """Threads take turns a thousand times as often, so that a race is lost soon."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    yield
    sys.setswitchinterval(before)


class Reader:
    """A consumer, and what must come next of each partition."""

    def __init__(self, consumer: Any, topic: str, chance: random.Random) -> None:
        self.consumer = consumer
        self.places = partitions(topic, PARTITIONS)
        self.next = dict.fromkeys(range(PARTITIONS), 0)
        self.paused: set[int] = set()
        self.chance = chance
        self.count = 0

    def check(self, partition: int, offset: int) -> None:
        assert partition not in self.paused
        assert offset == self.next[partition]
        self.next[partition] += 1
        self.count += 1

    def poll(self) -> None:
        limit = self.chance.choice([1, 7, 100, 3000])
        for record in self.consumer.poll(self.chance.choice([0, 0, 0.01]), max_records=limit):
            self.check(record.partition, record.offset)
            assert int(record.value) == record.offset

    def poll_arrow(self) -> None:
        batch = self.consumer.poll_arrow(0.01, columns=["partition", "offset"])
        if batch is not None:
            for row in batch.to_pylist():
                self.check(row["partition"], row["offset"])

    def iterate(self) -> None:
        left = self.chance.randrange(1, 200)
        for record in self.consumer:
            self.check(record.partition, record.offset)
            left -= 1
            if not left:
                return

    def seek(self) -> None:
        partition, offset = self.chance.randrange(PARTITIONS), self.chance.randrange(COUNT)
        self.consumer.seek(self.places[partition], offset)
        self.next[partition] = offset

    def pause(self) -> None:
        partition = self.chance.randrange(PARTITIONS)
        if len(self.paused | {partition}) < PARTITIONS:
            self.consumer.pause([self.places[partition]])
            self.paused.add(partition)

    def resume(self) -> None:
        self.consumer.resume([self.places[partition] for partition in self.paused])
        self.paused.clear()

    def ask(self) -> None:
        for partition, offset in self.next.items():
            assert self.consumer.position(self.places[partition]) == offset


@pytest.mark.usefixtures("hurried_threads")
@pytest.mark.parametrize("face", list(FACES))
@pytest.mark.parametrize("fetch_bytes", [2_000, 200_000])
def test_whatever_the_user_does_the_next_record_comes_next(address: str, face: str, fetch_bytes: int) -> None:
    seed = random.randrange(1 << 32)
    print(f"seed {seed}")
    topic = make_topic(address, PARTITIONS)
    for partition in range(PARTITIONS):
        write(address, topic, numbers(COUNT), partition=partition)
    is_over = threading.Event()

    def write_more() -> None:
        written = COUNT
        while not is_over.wait(0.1):
            for partition in range(PARTITIONS):
                write(address, topic, numbers(50, written), partition=partition)
            written += 50

    writer = threading.Thread(target=write_more)
    writer.start()
    try:
        with FACES[face](
            bootstrap_servers=address, auto_offset_reset="earliest", max_partition_fetch_bytes=fetch_bytes
        ) as consumer:
            consumer.assign(partitions(topic, PARTITIONS))
            reader = Reader(consumer, topic, random.Random(seed))
            deeds = [reader.poll] * 12 + [reader.iterate, reader.seek, reader.pause, reader.resume, reader.ask]
            deeds += [reader.poll_arrow]
            deadline = time.monotonic() + RUN_S
            while time.monotonic() < deadline:
                reader.chance.choice(deeds)()
            assert reader.count > 1000
    finally:
        is_over.set()
        writer.join()


def test_opening_and_closing_leaves_no_thread_and_no_file_behind(address: str) -> None:
    topic = make_topic(address)
    write(address, topic, numbers(10))

    def use() -> None:
        with Consumer(bootstrap_servers=address, group_id=topic, auto_offset_reset="earliest") as consumer:
            consumer.assign(partitions(topic))
            consumer.seek_to_beginning()
            assert len(consumer.poll(10)) == 10

    use()
    threads, files = threading.active_count(), len(os.listdir("/proc/self/fd"))
    for _ in range(40):
        use()
    assert threading.active_count() == threads
    assert len(os.listdir("/proc/self/fd")) <= files + 1
