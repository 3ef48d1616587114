"""Control records: the marks that brokers write between records, and that consumers never see.

A control batch has its attribute bit set; the key of each record in it says what the mark is, and the value depends on
that. The end of a transaction is read and written here; the values of the KRaft marks are messages of `ottla.wire`.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from enum import IntEnum

from ottla.errors import InvalidRecord
from ottla.records.batch import NO_PARTITION_LEADER_EPOCH, NO_PRODUCER_EPOCH, NO_PRODUCER_ID
from ottla.records.builder import RecordBatchBuilder

_KEY = struct.Struct(">hh")  # the key's version, and the type
_END_TRANSACTION = struct.Struct(">hi")  # the value's version, and the coordinator's epoch
_VERSION = 0


class ControlType(IntEnum):
    """What a control record marks."""

    UNKNOWN = -1
    """A type of a newer Kafka: to be stepped over."""
    ABORT = 0
    COMMIT = 1
    LEADER_CHANGE = 2
    SNAPSHOT_HEADER = 3
    SNAPSHOT_FOOTER = 4
    KRAFT_VERSION = 5
    KRAFT_VOTERS = 6

    @classmethod
    def of_key(cls, key: bytes | None) -> ControlType:
        """The type that a control record's key names; `InvalidRecord` when the key is none.

        Keys of newer versions begin as this one does, so they are read for what is known of them.
        """
        if key is None or len(key) < _KEY.size:
            found = 0 if key is None else len(key)
            raise InvalidRecord(f"A control record's key has at least {_KEY.size} bytes, and this one has {found}")
        version, number = _KEY.unpack_from(key)
        if version < _VERSION:
            raise InvalidRecord(f"Invalid version found for control record: {version}. May indicate data corruption")
        return _BY_NUMBER.get(number, cls.UNKNOWN)

    @property
    def key(self) -> bytes:
        """The key of a control record of this type."""
        assert self is not ControlType.UNKNOWN, "a type that is not known is not written"
        return _KEY.pack(_VERSION, self)


_BY_NUMBER = {int(kind): kind for kind in ControlType}


@dataclass(frozen=True, slots=True)
class EndTransactionMarker:
    """The end of a producer's transaction in this partition: committed or aborted, by which coordinator."""

    type: ControlType
    coordinator_epoch: int

    def __post_init__(self) -> None:
        if self.type not in (ControlType.ABORT, ControlType.COMMIT):
            raise ValueError(f"{self.type.name} does not end a transaction")

    @classmethod
    def decode(cls, key: bytes | None, value: bytes | None) -> EndTransactionMarker:
        """Read a marker; `InvalidRecord` when the record is none."""
        kind = ControlType.of_key(key)
        if kind not in (ControlType.ABORT, ControlType.COMMIT):
            raise InvalidRecord(f"A control record of type {kind.name} does not end a transaction")
        if value is None or len(value) < _END_TRANSACTION.size:
            raise InvalidRecord("The value of an end transaction marker is cut short")
        version, coordinator_epoch = _END_TRANSACTION.unpack_from(value)
        if version < _VERSION:
            raise InvalidRecord(f"Invalid version found for end transaction marker: {version}")
        return cls(kind, coordinator_epoch)

    def encode(self) -> bytes:
        """The value of the control record; its key is the type's."""
        return _END_TRANSACTION.pack(_VERSION, self.coordinator_epoch)


def control_batch(
    kind: ControlType,
    value: bytes,
    *,
    timestamp: int,
    base_offset: int = 0,
    leader_epoch: int = NO_PARTITION_LEADER_EPOCH,
    producer_id: int = NO_PRODUCER_ID,
    producer_epoch: int = NO_PRODUCER_EPOCH,
    is_transactional: bool = False,
) -> bytes:
    """A batch of one control record. It carries no sequence: a marker is not one of the producer's records."""
    builder = RecordBatchBuilder(
        base_offset=base_offset,
        leader_epoch=leader_epoch,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        is_transactional=is_transactional,
        is_control=True,
    )
    builder.append(timestamp, kind.key, value)
    return builder.build()


def end_transaction_batch(
    marker: EndTransactionMarker,
    *,
    producer_id: int,
    producer_epoch: int,
    timestamp: int,
    base_offset: int = 0,
    leader_epoch: int = NO_PARTITION_LEADER_EPOCH,
) -> bytes:
    """The batch that ends a producer's transaction."""
    return control_batch(
        marker.type,
        marker.encode(),
        timestamp=timestamp,
        base_offset=base_offset,
        leader_epoch=leader_epoch,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        is_transactional=True,
    )
