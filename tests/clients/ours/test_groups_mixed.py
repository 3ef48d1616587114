"""Our consumers and librdkafka's in one group: whoever leads, both understand what the other wrote."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import pytest
from confluent_kafka import Consumer

from tests.clients.ours.group_members import Member, make_topic, run, settings_of, until, write

pytestmark = pytest.mark.timeout(120)

THEIRS: dict[str, dict[str, Any]] = {
    "eager": {"partition.assignment.strategy": "range", "heartbeat.interval.ms": 200, "session.timeout.ms": 6000},
    "cooperative": {
        "partition.assignment.strategy": "cooperative-sticky",
        "heartbeat.interval.ms": 200,
        "session.timeout.ms": 6000,
    },
    "consumer": {"group.protocol": "consumer"},
}


class Stranger:
    """A consumer of librdkafka's that polls in a thread of its own, until it is stopped."""

    def __init__(self, address: str, group: str, topic: str, protocol: str) -> None:
        self._consumer = Consumer({
            "bootstrap.servers": address, "group.id": group, "auto.offset.reset": "earliest",
            "enable.auto.commit": False, "log_level": 0, **THEIRS[protocol],
        })  # fmt: skip
        self._consumer.subscribe([topic])
        self._is_stopping = threading.Event()
        self.owned: set[int] = set()
        self.read: list[int] = []
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self) -> None:
        while not self._is_stopping.is_set():
            message = self._consumer.poll(0.1)
            if message is not None and message.error() is None:
                self.read.append(int(message.value() or b"-1"))
                self._consumer.commit(message=message, asynchronous=False)
            self.owned = {place.partition for place in self._consumer.assignment()}
        self._consumer.close()

    async def stop(self) -> None:
        self._is_stopping.set()
        await asyncio.to_thread(self._thread.join)


@pytest.mark.parametrize("protocol", THEIRS)
@pytest.mark.parametrize("first", ["ours", "theirs"])
def test_ours_and_librdkafkas_share_a_group(address: str, protocol: str, first: str) -> None:
    """The first to come leads a classic group: once our assignor shares out for both, once theirs does."""
    topic = make_topic(address, "mixed-clients")

    async def story() -> None:
        group = f"g-{topic}"
        ours = Member(address, group, "ours", settings_of(protocol))
        ours.commits_on_revoke = True
        theirs: Stranger | None = None
        try:
            if first == "theirs":
                theirs = Stranger(address, group, topic, protocol)
                await until(lambda: theirs is not None and len(theirs.owned) == 4, "theirs has all")
            await ours.subscribe([topic])
            ours.start()
            if theirs is None:
                await until(lambda: len(ours.assignment) == 4, "ours has all")
                theirs = Stranger(address, group, topic, protocol)
            other = theirs
            await until(lambda: len(ours.assignment) == 2 and len(other.owned) == 2, "each has a half")
            owned = {partition.partition for partition in ours.assignment}
            assert owned | other.owned == {0, 1, 2, 3}
            write(address, topic, 80, partitions=4)
            await until(lambda: len(ours.records) + len(other.read) >= 80, "all records")
            assert {int(record.value) % 4 for record in ours.records} == owned
            await other.stop()
            await until(lambda: len(ours.assignment) == 4, "ours has all again")
            await ours.close()
            assert sorted([int(record.value) for record in ours.records] + other.read) == list(range(80))
        finally:
            if theirs is not None:
                await theirs.stop()

    run(story())
