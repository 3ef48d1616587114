"""Both faces of the consumer for the same stories: an `AsyncConsumer` is made to block, on a loop of its own."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterable, Mapping
from inspect import isawaitable
from typing import Any

from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined]  # it has no __all__

from ottla.client import AsyncConsumer, Consumer
from ottla.types import TopicPartition
from ottla.world.threads import LoopThread
from tests.support.nodes import REPLICAS

PATIENCE_S = 20.0


class BlockedConsumer:
    """An `AsyncConsumer` whose calls block. Only `wakeup` does not wait for its turn."""

    def __init__(self, **settings: Any) -> None:
        self._loop = LoopThread("test")

        async def make() -> AsyncConsumer[Any, Any]:
            return AsyncConsumer(**settings)

        try:
            self.consumer = self._loop.run(make())
        except BaseException:
            self._loop.close()
            raise

    def __getattr__(self, name: str) -> Callable[..., Any]:
        method = getattr(self.consumer, name)

        async def run(*arguments: Any, **keywords: Any) -> Any:
            result = method(*arguments, **keywords)
            return await result if isawaitable(result) else result

        return lambda *arguments, **keywords: self._loop.run(run(*arguments, **keywords))

    def wakeup(self) -> None:
        self._loop.post(self.consumer.wakeup)

    def __iter__(self) -> BlockedConsumer:
        return self

    def __next__(self) -> Any:
        try:
            return self._loop.run(self.consumer.__anext__())
        except StopAsyncIteration:
            raise StopIteration from None

    def close(self) -> None:
        self._loop.run(self.consumer.close())
        self._loop.close()

    def __enter__(self) -> BlockedConsumer:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


FACES: dict[str, Callable[..., Any]] = {"sync": Consumer, "async": BlockedConsumer}


def make_topic(address: str, partition_count: int = 1, **settings: str) -> str:
    """A new topic with a name of its own."""
    name = f"t-{uuid.uuid4().hex[:12]}"
    admin = AdminClient({"bootstrap.servers": address})
    config = {key.replace("_", "."): value for key, value in settings.items()}
    admin.create_topics([NewTopic(name, partition_count, REPLICAS, config=config)])[name].result(PATIENCE_S)
    return name


def write(
    address: str,
    topic: str,
    values: Iterable[bytes | None],
    *,
    partition: int = 0,
    timestamp: int | None = None,
    step_ms: int = 0,
    settings: Mapping[str, Any] | None = None,
    patience_s: float = PATIENCE_S,
) -> int:
    """Write values with another client than ours, so that both do not make the same mistake; how many."""
    producer = Producer({"bootstrap.servers": address, "linger.ms": 5, "enable.idempotence": True, **(settings or {})})
    count = 0
    for value in values:
        when = 0 if timestamp is None else timestamp + count * step_ms
        producer.produce(topic, value, partition=partition, timestamp=when)
        count += 1
        if count % 1000 == 0:
            producer.poll(0)
    assert producer.flush(patience_s) == 0
    return count


def numbers(count: int, start: int = 0) -> list[bytes]:
    return [b"%d" % number for number in range(start, start + count)]


def partitions(topic: str, count: int = 1) -> list[TopicPartition]:
    return [TopicPartition(topic, partition) for partition in range(count)]


def read(consumer: Any, count: int, **poll: Any) -> list[Any]:
    """Poll until so many records have come."""
    found: list[Any] = []
    while len(found) < count:
        records = consumer.poll(PATIENCE_S, **poll)
        assert records, f"{len(found)} of {count} records came within {PATIENCE_S:.0f} s"
        found.extend(records)
    return found


def values(records: Iterable[Any]) -> list[Any]:
    return [record.value for record in records]
