"""Errors that only a client has: those that no broker sends. Kafka's own codes are in `ottla.errors`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import ClassVar

from ottla.errors import InternalError as InternalError
from ottla.errors import KafkaError, OffsetOutOfRange, RetriableError
from ottla.errors import as_kafka_error as as_kafka_error
from ottla.types import TopicPartition


class KafkaTimeout(RetriableError, TimeoutError):
    """What was asked for was not done in the time it was given."""


class ClientClosed(KafkaError):
    """The client is closed and cannot be used any more."""


class NoBroker(RetriableError):
    """None of the brokers can be reached."""


class BootstrapFailed(KafkaError):
    """None of the addresses in bootstrap.servers could be reached within bootstrap.connect.timeout.ms."""


class Wakeup(KafkaError):
    """`wakeup()` was called while this call waited, or before it."""


class SerializationError(KafkaError):
    """A key or a value cannot be turned into bytes, or bytes not into one."""


class CommitFailed(KafkaError):
    """The commit cannot be completed: the member is not part of the group any more."""


class RetriableCommitFailed(RetriableError):
    """An asynchronous commit failed for now. It is not repeated by itself: a later one may have succeeded already."""


class IllegalState(KafkaError):
    """The client cannot do this now: it contradicts what it was told before."""


class NoOffsetForPartition(KafkaError):
    """Nothing is committed for a partition, and `auto.offset.reset` is `none`."""

    def __init__(self, partitions: Iterable[TopicPartition]) -> None:
        self.partitions = frozenset(partitions)
        names = ", ".join(map(str, sorted(self.partitions)))
        super().__init__(f"Undefined offset with no reset policy for partitions: {names}")


class OffsetsOutOfRange(OffsetOutOfRange):
    """Positions lie outside of what the logs hold, and `auto.offset.reset` is `none`."""

    def __init__(self, offsets: Mapping[TopicPartition, int], what: str = "") -> None:
        self.offsets = dict(offsets)
        """The position of each such partition."""
        places = ", ".join(f"{partition} at {offset}" for partition, offset in sorted(self.offsets.items()))
        super().__init__(what or f"Fetch position out of range with no configured reset policy: {places}")


class LogTruncation(OffsetsOutOfRange):
    """Records that were read are not in the log any more: a leader without them was elected."""

    def __init__(
        self, offsets: Mapping[TopicPartition, int], divergent_offsets: Mapping[TopicPartition, int | None]
    ) -> None:
        self.divergent_offsets = dict(divergent_offsets)
        """Where the new leader's log begins to differ; None where it does not know."""
        places = ", ".join(
            f"{partition} at {offset} (diverges at {divergent_offsets.get(partition)})"
            for partition, offset in sorted(offsets.items())
        )
        super().__init__(offsets, f"Detected log truncation with no configured reset policy: {places}")


class RecordError(KafkaError):
    """A record cannot be read: `seek` behind `offset` to go on without it."""

    def __init__(self, topic_partition: TopicPartition, offset: int, what: str) -> None:
        self.topic_partition = topic_partition
        self.offset = offset
        super().__init__(what)


class CorruptRecord(RecordError):
    """A batch is damaged: its checksum does not match, or it does not hold what it says."""


class RecordDeserialization(RecordError, SerializationError):
    """A deserializer could not read a key or a value."""


class DeliveryTimeout(KafkaTimeout):
    """The record was not written within delivery.timeout.ms: not sent at all, or not answered for."""


class BufferExhausted(KafkaTimeout):
    """There was no room for the record in buffer.memory for max.block.ms."""


class TransactionAborted(KafkaError):
    """The record was not written because its transaction was aborted before it was sent."""


class FatalProducerError(KafkaError):
    """The producer has failed for good: close it and, if there is a reason to go on, make another."""

    fatal: ClassVar[bool] = True


class AbortableError(KafkaError):
    """The transaction has failed: abort it, and go on with another."""

    requires_abort: ClassVar[bool] = True


_SHARPER: dict[tuple[type[KafkaError], type[KafkaError]], type[KafkaError]] = {}


def as_fatal(error: KafkaError) -> FatalProducerError:
    """The same error, also a `FatalProducerError`: it is still caught under its own name."""
    sharper = _sharper(error, FatalProducerError)
    assert isinstance(sharper, FatalProducerError)
    return sharper


def as_abortable(error: KafkaError) -> AbortableError:
    """The same error, also an `AbortableError`."""
    sharper = _sharper(error, AbortableError)
    assert isinstance(sharper, AbortableError)
    return sharper


def _sharper(error: KafkaError, also: type[KafkaError]) -> KafkaError:
    kind = type(error)
    if issubclass(kind, also):
        return error
    made = _SHARPER.get((kind, also))
    if made is None:
        # Trying the same again is not the cure, whatever the error alone would ask for.
        body = {"__doc__": kind.__doc__, "retriable": False, "__module__": kind.__module__}
        made = _SHARPER[kind, also] = type(kind.__name__, (kind, also), body)
    sharper = made(error.message)
    sharper.__cause__ = error.__cause__
    return sharper


class SchemaRegistryError(SerializationError):
    """The schema registry did not answer, or refused; `status` is the HTTP status if there was an answer."""

    def __init__(self, message: str, *, status: int | None = None) -> None:
        super().__init__(message)
        self.status = status
