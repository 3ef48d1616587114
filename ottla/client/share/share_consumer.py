"""`ShareConsumer`: a member of a share group, for callers that block. See `ottla.client.share` for what it promises."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Iterable, Mapping
from types import TracebackType
from typing import Any, Generic, TypeVar

from ottla.client.metrics import MetricValues
from ottla.client.share.acknowledgements import AcknowledgeType
from ottla.client.share.core import CommitCallback, ShareCore
from ottla.client.share.face import CLOSE_TIMEOUT_S, POLL_TIMEOUT_S, Finisher, K, V, settings, topics_of
from ottla.errors import KafkaError
from ottla.records import ConsumerRecord
from ottla.types import TopicPartition

T = TypeVar("T")


class ShareConsumer(Generic[K, V]):
    """A share consumer with a loop on a thread of its own. One thread at a time uses it; `wakeup` comes from any.

    with ShareConsumer(bootstrap_servers="localhost:9092", group_id="workers") as consumer:
        consumer.subscribe(["jobs"])
        while True:
            for record in consumer.poll():
                ...
    """

    def __init__(self, config: Mapping[str, object] | None = None, /, **keywords: object) -> None:
        """Settings by Kafka's names in `config`, as `group.id`, or as keywords, as `group_id`."""
        from ottla.world.threads import LoopThread

        self.config = settings(config, keywords)
        self._loop = LoopThread(f"ottla share consumer {self.config.client_id}")
        try:
            self._core = self._loop.call(lambda: ShareCore(self._loop.world, self.config))
        except BaseException:
            self._loop.close()
            raise
        self._finisher = Finisher(self._core)

    def _run(self, work: Coroutine[Any, Any, T]) -> T:
        return self._loop.run(work)

    def _call(self, work: Callable[[], T]) -> T:
        self._core.check_open()
        return self._loop.call(work)

    def subscribe(self, topics: str | Iterable[str]) -> None:
        """Take part in sharing out the records of these topics. An empty list unsubscribes."""
        names = topics_of(topics)
        if names:
            self._call(lambda: self._core.subscribe(names))
        else:
            self.unsubscribe()

    def unsubscribe(self) -> None:
        """Leave the group. What was delivered and not acknowledged is released."""
        self._core.check_open()
        self._run(self._core.unsubscribe(self.config.default_api_timeout_ms))

    def subscription(self) -> set[str]:
        return self._core.subscription

    def poll(self, timeout: float | None = POLL_TIMEOUT_S) -> list[ConsumerRecord[K, V]]:
        """Records that nobody else works on, each with its `delivery_count`; an empty list when none came in time.

        With implicit acknowledgement this accepts what the last poll returned.
        """
        self._core.check_open()
        self._finisher.tell()
        raw = self._run(self._core.poll(None if timeout is None else timeout * 1000))
        self._finisher.tell()
        return self._finisher.finish(raw)

    def acknowledge(self, record: ConsumerRecord[K, V], kind: AcknowledgeType = AcknowledgeType.ACCEPT) -> None:
        """Say what is to become of a record that the last poll returned."""
        self._core.check_open()
        self._core.acknowledge(record.topic, record.partition, record.offset, kind)

    def acknowledge_offset(self, partition: TopicPartition, offset: int, kind: AcknowledgeType) -> None:
        """The same for a record that could not be read, which `RecordDeserialization` names."""
        self._core.check_open()
        self._core.acknowledge(*TopicPartition(*partition), offset, kind)

    def commit(self, *, timeout: float | None = None) -> dict[TopicPartition, KafkaError | None]:
        """Tell the brokers what was acknowledged, and wait; None for a partition says that all of it was stored."""
        self._core.check_open()
        self._finisher.tell()
        answers = self._run(self._core.commit(None if timeout is None else timeout * 1000))
        self._finisher.tell()
        return answers

    def commit_async(self) -> None:
        """Tell the brokers what was acknowledged, without waiting."""
        self._core.check_open()
        self._finisher.tell()
        self._call(self._core.commit_async)

    def set_acknowledgement_commit_callback(self, callback: CommitCallback | None) -> None:
        """Have `callback` called in poll, commit and close with what became of acknowledgements."""
        self._finisher.set_callback(callback)

    def acquisition_lock_timeout_ms(self) -> int | None:
        """How long records are locked for the member that was given them; None before the first were."""
        return self._core.fetcher.acquisition_lock_timeout_ms

    def metrics(self) -> MetricValues:
        """What this client has measured, under Kafka's names."""
        snapshot = self._core.metrics.snapshot
        return snapshot() if self._core.is_closed else self._loop.call(snapshot)

    def wakeup(self) -> None:
        """Let the poll that waits raise `Wakeup`, or the next one. From any thread."""
        self._loop.post(self._core.wakeup)

    def close(self, timeout: float = CLOSE_TIMEOUT_S) -> None:
        """Send what was acknowledged, release the rest and leave the group. A second call does nothing."""
        if self._core.is_closed:
            return
        try:
            self._run(self._core.close(timeout * 1000))
            self._finisher.tell()
        finally:
            self._loop.close()
            self._finisher.close()

    def __enter__(self) -> ShareConsumer[K, V]:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()
