"""Members of a group for tests: consumers that write down what they hear, and a book of who owns what."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Coroutine, Iterable
from typing import Any

from confluent_kafka import Producer

from ottla.client import AsyncConsumer, ConsumerRecord, RebalanceListener, TopicPartition
from tests.support.clients import new_topic
from tests.support.raw import RawClient

PATIENCE_S = 25.0
PROTOCOLS: dict[str, dict[str, object]] = {
    "eager": {"group.protocol": "classic", "partition.assignment.strategy": "range"},
    "cooperative": {"group.protocol": "classic", "partition.assignment.strategy": "cooperative-sticky"},
    "consumer": {"group.protocol": "consumer"},
}
CLASSIC: dict[str, object] = {"heartbeat.interval.ms": 200, "session.timeout.ms": 6000}


def settings_of(protocol: str) -> dict[str, object]:
    """Quick ones: the coordinator sets the pace of the consumer protocol."""
    return {**PROTOCOLS[protocol], **(CLASSIC if protocol != "consumer" else {})}


def port_of(address: str) -> int:
    return int(address.rpartition(":")[2])


def make_topic(address: str, stem: str, partitions: int = 4) -> str:
    name = new_topic(stem)
    with RawClient(port_of(address)) as client:
        client.create_topic(name, partitions=partitions)
    return name


def write(address: str, topic: str, count: int, *, partitions: int, start: int = 0) -> None:
    """Records `start` to `start + count`, one partition after the other; the value is the number."""
    producer = Producer({"bootstrap.servers": address, "log_level": 0})
    for number in range(start, start + count):
        producer.produce(topic, str(number).encode(), partition=number % partitions)
    assert producer.flush(PATIENCE_S) == 0


class Book:
    """Who owns which partition, as far as listeners were told: never two at a time."""

    def __init__(self) -> None:
        self.owner: dict[TopicPartition, str] = {}
        self.double: list[str] = []

    def take(self, who: str, partitions: Iterable[TopicPartition]) -> None:
        for partition in partitions:
            other = self.owner.get(partition)
            if other is not None and other != who:
                self.double.append(f"{partition} is given to {who} while {other} has it")
            self.owner[partition] = who

    def give(self, who: str, partitions: Iterable[TopicPartition]) -> None:
        for partition in partitions:
            if self.owner.get(partition) == who:
                del self.owner[partition]


_open: list[Member] = []


class Member(RebalanceListener):
    """A consumer that polls by itself once it is started."""

    def __init__(
        self, address: str, group: str, name: str, settings: dict[str, object], book: Book | None = None
    ) -> None:
        self.name = name
        self.book = book or Book()
        self.heard: list[tuple[str, list[str]]] = []
        self.records: list[ConsumerRecord[Any, Any]] = []
        self.commits_on_revoke = False
        self.commit_errors: list[Exception] = []
        config: dict[str, object] = {
            "bootstrap.servers": address,
            "group.id": group,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            **settings,
        }
        self.consumer: AsyncConsumer[Any, Any] = AsyncConsumer(config)
        self._task: asyncio.Task[None] | None = None
        _open.append(self)

    @property
    def news(self) -> list[tuple[str, list[str]]]:
        """What was heard, but for assignments of nothing, which come as the coordinator gets to it."""
        return [one for one in self.heard if one != ("assigned", [])]

    @property
    def assignment(self) -> set[TopicPartition]:
        return self.consumer.assignment()

    # What the group tells

    def on_assigned(self, partitions: list[TopicPartition]) -> None:
        self.heard.append(("assigned", [str(partition) for partition in partitions]))
        self.book.take(self.name, partitions)

    async def on_revoked(self, partitions: list[TopicPartition]) -> None:
        self.heard.append(("revoked", [str(partition) for partition in partitions]))
        if self.commits_on_revoke:
            await self.consumer.commit()
        self.book.give(self.name, partitions)

    def on_lost(self, partitions: list[TopicPartition]) -> None:
        self.heard.append(("lost", [str(partition) for partition in partitions]))
        self.book.give(self.name, partitions)

    # What it does

    async def subscribe(self, topics: Any) -> None:
        await self.consumer.subscribe(topics, self)

    def start(self) -> None:
        """Poll until `stop`."""
        self._task = asyncio.get_running_loop().create_task(self._polling())

    async def _polling(self) -> None:
        while True:
            self.records += await self.consumer.poll(0.2)

    @property
    def has_ended(self) -> bool:
        """Whether a poll has raised."""
        return self._task is not None and self._task.done()

    async def stop(self) -> None:
        """Poll no more; raises what the last poll raised."""
        task, self._task = self._task, None
        if task is not None:
            task.cancel()
            await asyncio.wait([task])
            if not task.cancelled():
                error = task.exception()
                if error is not None:
                    raise error

    async def close(self, **options: Any) -> None:
        await self.stop()
        await self.consumer.close(10, **options)

    def kill(self) -> None:
        """Go without a word: nothing is sent any more."""
        if self._task is not None:
            self._task.cancel()
            self._task = None
        self.consumer._core.close()


async def until(claim: Callable[[], bool], what: str, timeout_s: float = PATIENCE_S) -> None:
    deadline = time.monotonic() + timeout_s
    while not claim():
        assert time.monotonic() < deadline, f"not within {timeout_s:.0f} s: {what}"
        await asyncio.sleep(0.02)


async def until_shared(members: list[Member], counts: list[int], timeout_s: float = PATIENCE_S) -> None:
    """Wait until the members own so many partitions, whoever has how many."""
    await until(
        lambda: sorted(len(member.assignment) for member in members) == sorted(counts),
        f"{counts} partitions",
        timeout_s,
    )


def run(story: Coroutine[Any, Any, None]) -> None:
    """Run a story to its end; what a story that failed has left open is closed, so that the next one begins clean."""

    async def main() -> None:
        try:
            await story
        finally:
            while _open:
                _open.pop().kill()
            await asyncio.sleep(0)

    asyncio.run(main())
