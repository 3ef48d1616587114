"""How a metadata record is written in `__cluster_metadata` and in snapshots: three varints before the record.

They are the version of this framing (1), the type of the record and the version of the record.
"""

from __future__ import annotations

from typing import NamedTuple

from ottla.types import Buffer
from ottla.wire.codec import decode, encode_into
from ottla.wire.failures import DecodeError, Refused, UnknownRecord
from ottla.wire.registry import message_class
from ottla.wire.schema import Message
from ottla.wire.varint import read_uvarint, uvarint

FRAME_VERSION = 1


class VersionedRecord(NamedTuple):
    """A metadata record and the version that it was, or will be, written in."""

    record: Message
    version: int


def write_record(record: Message, version: int) -> bytes:
    """The bytes of a metadata record: the value of a record in the metadata log."""
    api_key = record.schema.api_key
    assert api_key is not None, f"{record.schema.name} is no metadata record"
    assert RECORD_TYPES.get(api_key) == record.schema.name, f"{record.schema.name} is no metadata record"
    out = bytearray(uvarint(FRAME_VERSION) + uvarint(api_key) + uvarint(version))
    encode_into(record, version, out)
    return bytes(out)


def read_record(data: Buffer) -> VersionedRecord:
    """The metadata record in `data`, which hold nothing else; `UnknownRecord` when a newer Kafka wrote it."""
    frame_version, position = _read(data, 0, "frame_version")
    if frame_version != FRAME_VERSION:
        raise UnknownRecord("MetadataRecord.frame_version", 0, f"{frame_version} is not known, only {FRAME_VERSION}")
    api_key, version_position = _read(data, position, "type")
    name = RECORD_TYPES.get(api_key)
    if name is None:
        raise UnknownRecord("MetadataRecord.type", position, f"{api_key} is not known")
    version, start = _read(data, version_position, "version")
    cls = message_class(name)
    if not cls.schema.versions.includes(version):
        raise UnknownRecord(f"{name}.version", version_position, f"{version} is not known, only {cls.schema.versions}")
    try:
        return VersionedRecord(decode(cls, version, memoryview(data)[start:]), version)
    except DecodeError as error:
        raise DecodeError(error.path, error.position + start, error.reason) from None


def _read(data: Buffer, position: int, what: str) -> tuple[int, int]:
    try:
        return read_uvarint(data, position)
    except (IndexError, Refused):
        raise DecodeError(f"MetadataRecord.{what}", position, "the varint is cut off or too long") from None


RECORD_TYPES = {
    0: "RegisterBrokerRecord",
    1: "UnregisterBrokerRecord",
    2: "TopicRecord",
    3: "PartitionRecord",
    4: "ConfigRecord",
    5: "PartitionChangeRecord",
    7: "FenceBrokerRecord",
    8: "UnfenceBrokerRecord",
    9: "RemoveTopicRecord",
    10: "DelegationTokenRecord",
    11: "UserScramCredentialRecord",
    12: "FeatureLevelRecord",
    14: "ClientQuotaRecord",
    15: "ProducerIdsRecord",
    17: "BrokerRegistrationChangeRecord",
    18: "AccessControlEntryRecord",
    19: "RemoveAccessControlEntryRecord",
    20: "NoOpRecord",
    21: "ZkMigrationStateRecord",
    22: "RemoveUserScramCredentialRecord",
    23: "BeginTransactionRecord",
    24: "EndTransactionRecord",
    25: "AbortTransactionRecord",
    26: "RemoveDelegationTokenRecord",
    27: "RegisterControllerRecord",
    28: "ClearElrRecord",
}
"""The records by type."""
