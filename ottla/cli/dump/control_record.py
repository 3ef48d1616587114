"""What a control record marks: the end of a transaction, or one of raft's own entries."""

from __future__ import annotations

from typing import TypeAlias

from ottla.cli.dump.java_text import Json
from ottla.cli.dump.options import Undecodable
from ottla.errors import InvalidRecord, UnsupportedVersion
from ottla.records import ControlType, EndTransactionMarker
from ottla.wire import DecodeError, decode_prefix
from ottla.wire.data.control import (
    KRaftVersionRecord,
    LeaderChangeMessage,
    SnapshotFooterRecord,
    SnapshotHeaderRecord,
    VotersRecord,
)
from ottla.wire.json_form import to_json

Mark: TypeAlias = LeaderChangeMessage | SnapshotHeaderRecord | SnapshotFooterRecord | KRaftVersionRecord | VotersRecord

# What Kafka's tool calls each of raft's marks.
_MARKS: dict[ControlType, tuple[str, type[Mark]]] = {
    ControlType.LEADER_CHANGE: ("LeaderChange", LeaderChangeMessage),
    ControlType.SNAPSHOT_HEADER: ("SnapshotHeader", SnapshotHeaderRecord),
    ControlType.SNAPSHOT_FOOTER: ("SnapshotFooter", SnapshotFooterRecord),
    ControlType.KRAFT_VERSION: ("KRaftVersion", KRaftVersionRecord),
    ControlType.KRAFT_VOTERS: ("KRaftVoters", VotersRecord),
}
# Raft writes its marks in version 0, whatever version they give inside.
_MARK_VERSION = 0


def control_fields(key: bytes | None, value: bytes | None) -> dict[str, Json]:
    """The mark, under the name that Kafka's tool gives it; `Undecodable` when there is none that can be read."""
    try:
        kind = ControlType.of_key(key)
        if kind in (ControlType.ABORT, ControlType.COMMIT):
            marker = EndTransactionMarker.decode(key, value)
            return {"endTxnMarker": marker.type.name, "coordinatorEpoch": marker.coordinator_epoch}
        if kind is ControlType.UNKNOWN:
            assert key is not None, "a key of an unknown type is a key"
            return {"controlType": f"UNKNOWN({int.from_bytes(key[2:4], 'big', signed=True)})"}
        name, message_class = _MARKS[kind]
        return {name: _mark(message_class, value)}
    except (InvalidRecord, DecodeError, UnsupportedVersion) as error:
        raise Undecodable(str(error)) from None


def _mark(message_class: type[Mark], value: bytes | None) -> Json:
    if value is None:
        raise InvalidRecord(f"a record of type {message_class.schema.name} has no value")
    message, _ = decode_prefix(message_class, _MARK_VERSION, value)
    return to_json(message, message.version)
