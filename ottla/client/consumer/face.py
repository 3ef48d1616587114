"""What both faces of a consumer have in common: arguments, records on their way to the user, and what is lent out.

Nothing in here waits. Called by `AsyncConsumer` and `Consumer`.
"""

from __future__ import annotations

import logging
import re
from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, Protocol

from ottla.client.config import ConsumerConfig, OffsetReset, ResetKind, read_settings
from ottla.client.consumer.core import ConsumerCore
from ottla.client.consumer.fetch_buffer import RawRecord
from ottla.client.consumer.listener import FunctionListener, RebalanceListener, Told
from ottla.client.consumer.offset_lookup import FoundOffset
from ottla.client.consumer.subscription_state import SubscriptionPattern
from ottla.client.errors import RecordDeserialization
from ottla.client.group import OffsetAndMetadata, Offsets
from ottla.records import ConsumerRecord, with_content
from ottla.types import TopicPartition

log = logging.getLogger(__name__)

if TYPE_CHECKING:
    # Without deserializers keys and values are bytes, and nobody has to say so (PEP 696).
    from typing_extensions import TypeVar

    K = TypeVar("K", default=bytes | None)
    V = TypeVar("V", default=bytes | None)
else:
    from typing import TypeVar

    K = TypeVar("K")
    V = TypeVar("V")

TO_BEGINNING = OffsetReset(ResetKind.EARLIEST)
TO_END = OffsetReset(ResetKind.LATEST)
CLOSE_TIMEOUT_S = 30.0
POLL_TIMEOUT_S = 1.0


@dataclass(frozen=True, slots=True)
class OffsetAndTimestamp:
    """The first record not before a time: where it is, and its own timestamp."""

    offset: int
    timestamp: int
    leader_epoch: int | None = None


class ConsumerInterceptor(Protocol):
    """Sees records before the user does, and commits after they have succeeded. All methods may be left out."""

    def on_consume(self, records: list[Any]) -> list[Any]: ...

    def on_commit(self, offsets: Offsets) -> object: ...

    def close(self) -> object: ...


class Lent(Generic[K, V]):
    """A batch of records that an iteration gives out one by one."""

    __slots__ = ("index", "records")

    def __init__(self) -> None:
        self.records: list[ConsumerRecord[K, V]] = []
        self.index = 0

    @property
    def is_open(self) -> bool:
        return self.index < len(self.records)

    def fill(self, records: list[ConsumerRecord[K, V]]) -> None:
        self.records, self.index = records, 0

    def take_rest(self) -> list[ConsumerRecord[K, V]]:
        """What was not given out; nothing is left in here."""
        rest = self.records[self.index :]
        self.fill([])
        return rest


class Finisher:
    """Turns raw records into what the user gets: deserializers, then interceptors."""

    def __init__(self, config: ConsumerConfig) -> None:
        self._key = config.key_deserializer
        self._value = config.value_deserializer
        self._interceptors: tuple[Any, ...] = config.interceptor_classes
        self.is_plain = self._key is None and self._value is None and not self._interceptors
        """Records are given as they are."""
        self._commits: deque[Offsets] = deque()
        """Commits that interceptors have not heard of."""

    def finish(self, raw: list[RawRecord]) -> tuple[list[Any], list[RawRecord]]:
        """The records for the user, and those that have to go back because the first of them cannot be read.

        `RecordDeserialization` when that is the very first; then all go back.
        """
        records: list[Any] = raw
        rest: list[RawRecord] = []
        if self._key is not None or self._value is not None:
            records = []
            for index, record in enumerate(raw):
                try:
                    records.append(self._deserialized(record))
                except RecordDeserialization:
                    if index == 0:
                        raise
                    rest = raw[index:]
                    break
        for interceptor in self._interceptors:
            on_consume = getattr(interceptor, "on_consume", None)
            if on_consume is not None:
                try:
                    records = on_consume(records)
                except Exception:
                    # As in Kafka: an interceptor that fails is told of in the log and does not cost a record.
                    log.warning("[Consumer] The interceptor %r failed in on_consume", interceptor, exc_info=True)
        return records, rest

    def _deserialized(self, record: RawRecord) -> ConsumerRecord[Any, Any]:
        topic, headers = record.topic, list(record.headers)
        what = "key"
        try:
            key: Any = record.key
            if self._key is not None and key is not None:
                key = self._key.deserialize(topic, key, headers)
            what = "value"
            value: Any = record.value
            if self._value is not None and value is not None:
                value = self._value.deserialize(topic, value, headers)
        except Exception as error:
            # Whatever a user's deserializer raises: the user hears which record it was, and can seek past it.
            raise RecordDeserialization(
                record.topic_partition,
                record.offset,
                f"Error deserializing {what} for partition {record.topic_partition} at offset {record.offset}. If "
                f"needed, please seek past the record to continue consumption: {error}",
            ) from error
        return with_content(record, key, value)

    def on_commit(self, offsets: Offsets) -> None:
        """A commit has succeeded. On the loop; interceptors hear of it where the user is."""
        self._commits.append(offsets)

    def tell_commits(self) -> None:
        """Let interceptors hear of commits: in poll, commit and close."""
        while self._commits:
            offsets = self._commits.popleft()
            for interceptor in self._interceptors:
                told = getattr(interceptor, "on_commit", None)
                if told is not None:
                    try:
                        told(offsets)
                    except Exception:
                        log.warning("[Consumer] The interceptor %r failed in on_commit", interceptor, exc_info=True)

    def close(self) -> None:
        """Let interceptors and deserializers go, those that want to know."""
        for part in (*self._interceptors, self._key, self._value):
            close = getattr(part, "close", None)
            if callable(close):
                try:
                    close()
                except Exception:
                    log.warning("[Consumer] %r failed in close", part, exc_info=True)


def settings(config: Mapping[str, object] | None, keywords: Mapping[str, object]) -> ConsumerConfig:
    """The consumer's settings, from a mapping with Kafka's names and from keywords."""
    return read_settings(ConsumerConfig, config, keywords)


def make_core(world: Any, config: ConsumerConfig, finisher: Finisher) -> ConsumerCore:
    """The core, with interceptors listening to its commits."""
    core = ConsumerCore(world, config)
    if core.group is not None and config.interceptor_classes:
        core.group.commits.on_committed.append(finisher.on_commit)
    return core


def chosen(
    topics: str | Iterable[str] | re.Pattern[str] | SubscriptionPattern,
) -> Sequence[str] | re.Pattern[str] | SubscriptionPattern:
    """What to subscribe to, from what the user said; one name is a list of one."""
    if isinstance(topics, re.Pattern | SubscriptionPattern):
        return topics
    names = [topics] if isinstance(topics, str) else list(topics)
    for name in names:
        if not isinstance(name, str) or not name.strip():
            raise ValueError("Topic collection to subscribe to cannot contain null or empty topic")
    return names


def listener_of(
    listener: RebalanceListener | None, on_assigned: Told | None, on_revoked: Told | None, on_lost: Told | None
) -> RebalanceListener | None:
    """The listener, or one of the single functions."""
    if on_assigned is None and on_revoked is None and on_lost is None:
        return listener
    if listener is not None:
        raise ValueError("give a listener, or single functions, and not both")
    return FunctionListener(on_assigned, on_revoked, on_lost)


def offsets_of(offsets: Mapping[TopicPartition, OffsetAndMetadata | int] | None) -> Offsets | None:
    """Offsets to commit, plain numbers included; None is the positions."""
    if offsets is None:
        return None
    found = {
        TopicPartition(*partition): place if isinstance(place, OffsetAndMetadata) else OffsetAndMetadata(place)
        for partition, place in offsets.items()
    }
    for partition, place in found.items():
        if place.offset < 0:
            raise ValueError(f"Invalid negative offset {place.offset} of {partition}")
    return found


def record_limit(config: ConsumerConfig, max_records: int | None) -> int:
    """How many records a poll may give."""
    if max_records is None:
        return config.max_poll_records
    if max_records < 1:
        raise ValueError(f"max_records is {max_records}, and a poll gives at least one record")
    return max_records


def partitions_of(partitions: Iterable[TopicPartition | tuple[str, int]]) -> list[TopicPartition]:
    """Partitions, also given as plain pairs."""
    found = [TopicPartition(*partition) for partition in partitions]
    for partition in found:
        if not isinstance(partition.topic, str) or not partition.topic.strip():
            raise ValueError("Topic partitions to assign to cannot have null or empty topic")
    return found


def times_of(timestamps: Mapping[TopicPartition, int]) -> dict[TopicPartition, int]:
    """Times to look for; those below 0 mean something else to a broker and are refused."""
    for partition, timestamp in timestamps.items():
        if timestamp < 0:
            raise ValueError(f"The target time for partition {partition} is {timestamp}. It cannot be negative.")
    return {TopicPartition(*partition): timestamp for partition, timestamp in timestamps.items()}


def with_times(
    found: Mapping[TopicPartition, FoundOffset | None],
) -> dict[TopicPartition, OffsetAndTimestamp | None]:
    return {
        partition: None
        if place is None
        else OffsetAndTimestamp(place.offset, place.timestamp, None if place.leader_epoch < 0 else place.leader_epoch)
        for partition, place in found.items()
    }


def without_times(found: Mapping[TopicPartition, FoundOffset | None]) -> dict[TopicPartition, int]:
    return {partition: place.offset for partition, place in found.items() if place is not None}
