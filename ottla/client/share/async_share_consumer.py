"""`AsyncShareConsumer`: a member of a share group, for asyncio. See `ottla.client.share` for what it promises."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import TracebackType
from typing import Generic

from ottla.client.metrics import MetricValues
from ottla.client.share.acknowledgements import AcknowledgeType
from ottla.client.share.core import CommitCallback, ShareCore
from ottla.client.share.face import CLOSE_TIMEOUT_S, POLL_TIMEOUT_S, Finisher, K, V, settings, topics_of
from ottla.errors import KafkaError
from ottla.records import ConsumerRecord
from ottla.types import TopicPartition
from ottla.world import ClientWorld


class AsyncShareConsumer(Generic[K, V]):
    """A share consumer on the running asyncio loop. One task at a time uses it.

    async with AsyncShareConsumer(bootstrap_servers="localhost:9092", group_id="workers") as consumer:
        await consumer.subscribe(["jobs"])
        while True:
            for record in await consumer.poll():
                ...
    """

    def __init__(
        self, config: Mapping[str, object] | None = None, /, *, world: ClientWorld | None = None, **keywords: object
    ) -> None:
        """Settings by Kafka's names in `config`, as `group.id`, or as keywords, as `group_id`."""
        self.config = settings(config, keywords)
        if world is None:
            from ottla.world.threads import running_world

            world = running_world()
        self._core = ShareCore(world, self.config)
        self._finisher = Finisher(self._core)

    async def subscribe(self, topics: str | Iterable[str]) -> None:
        """Take part in sharing out the records of these topics. An empty list unsubscribes."""
        self._core.check_open()
        names = topics_of(topics)
        if names:
            self._core.subscribe(names)
        else:
            await self.unsubscribe()

    async def unsubscribe(self) -> None:
        """Leave the group. What was delivered and not acknowledged is released."""
        self._core.check_open()
        await self._core.unsubscribe(self.config.default_api_timeout_ms)

    def subscription(self) -> set[str]:
        return self._core.subscription

    async def poll(self, timeout: float | None = POLL_TIMEOUT_S) -> list[ConsumerRecord[K, V]]:
        """Records that nobody else works on, each with its `delivery_count`; an empty list when none came in time.

        With implicit acknowledgement this accepts what the last poll returned.
        """
        self._core.check_open()
        self._finisher.tell()
        raw = await self._core.poll(None if timeout is None else timeout * 1000)
        self._finisher.tell()
        return self._finisher.finish(raw)

    def acknowledge(
        self,
        record: ConsumerRecord[K, V],
        kind: AcknowledgeType = AcknowledgeType.ACCEPT,
    ) -> None:
        """Say what is to become of a record that the last poll returned."""
        self._core.check_open()
        self._core.acknowledge(record.topic, record.partition, record.offset, kind)

    def acknowledge_offset(self, partition: TopicPartition, offset: int, kind: AcknowledgeType) -> None:
        """The same for a record that could not be read, which `RecordDeserialization` names."""
        self._core.check_open()
        self._core.acknowledge(*TopicPartition(*partition), offset, kind)

    async def commit(self, *, timeout: float | None = None) -> dict[TopicPartition, KafkaError | None]:
        """Tell the brokers what was acknowledged, and wait; None for a partition says that all of it was stored."""
        self._finisher.tell()
        answers = await self._core.commit(None if timeout is None else timeout * 1000)
        self._finisher.tell()
        return answers

    def commit_async(self) -> None:
        """Tell the brokers what was acknowledged, without waiting."""
        self._finisher.tell()
        self._core.commit_async()

    def set_acknowledgement_commit_callback(self, callback: CommitCallback | None) -> None:
        """Have `callback` called in poll, commit and close with what became of acknowledgements."""
        self._finisher.set_callback(callback)

    def acquisition_lock_timeout_ms(self) -> int | None:
        """How long records are locked for the member that was given them; None before the first were."""
        return self._core.fetcher.acquisition_lock_timeout_ms

    def metrics(self) -> MetricValues:
        """What this client has measured, under Kafka's names."""
        return self._core.metrics.snapshot()

    def wakeup(self) -> None:
        """Let the poll that waits raise `Wakeup`, or the next one."""
        self._core.wakeup()

    async def close(self, timeout: float = CLOSE_TIMEOUT_S) -> None:
        """Send what was acknowledged, release the rest and leave the group. A second call does nothing."""
        if self._core.is_closed:
            return
        try:
            await self._core.close(timeout * 1000)
            self._finisher.tell()
        finally:
            self._finisher.close()

    async def __aenter__(self) -> AsyncShareConsumer[K, V]:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.close()
