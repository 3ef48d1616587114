"""The records of the coordinators' topics as JSON: groups and offsets, transactions, share groups' state."""

from __future__ import annotations

from typing import Any

from ottla.cli.dump.java_text import Json
from ottla.cli.dump.options import ContentDecoder, Undecodable
from ottla.wire import DecodeError, Message, read_versioned
from ottla.wire.coordinator import CoordinatorRecords
from ottla.wire.coordinator.classic_group import GroupMetadataValue
from ottla.wire.data.consumer_protocol import ConsumerProtocolAssignment, ConsumerProtocolSubscription
from ottla.wire.json_form import to_json
from ottla.wire.versioned import read_int16

_CONSUMER_PROTOCOL = "consumer"
_TOMBSTONE = "<DELETE>"


def coordinator_decoder(records: CoordinatorRecords) -> ContentDecoder:
    """Shows the records of one coordinator's topic."""

    def decode(offset: int, key: bytes | None, value: bytes | None) -> dict[str, Json]:
        if key is None:
            raise Undecodable(f"a record of {records.topic} has a key, and this one has none")
        try:
            record_type = read_int16(key, "key.type")
            if record_type not in records.names:
                return {"key": f"Unknown record type {record_type} at offset {offset}, skipping."}
            message = records.read_key(key)
            return {
                "key": {"type": str(record_type), "data": to_json(message, 0)},
                "payload": _TOMBSTONE if value is None else _value(records, message, value),
            }
        except DecodeError as error:
            return {"key": f"Error at offset {offset}, skipping. {error}"}

    return decode


def _value(records: CoordinatorRecords, key: Message, data: bytes) -> Json:
    message, version = records.read_value(key, data)
    form = to_json(message, version)
    if isinstance(message, GroupMetadataValue) and message.protocol_type == _CONSUMER_PROTOCOL:
        _open_members(message, form)
    return {"version": str(version), "data": form}


def _open_members(group: GroupMetadataValue, form: dict[str, Any]) -> None:
    """Show what the members of a classic consumer group told each other, which the coordinator holds as bytes."""
    for member, member_form in zip(group.members, form["members"], strict=True):
        for name, message_class, data in (
            ("subscription", ConsumerProtocolSubscription, member.subscription),
            ("assignment", ConsumerProtocolAssignment, member.assignment),
        ):
            try:
                content, version = read_versioned(message_class, data)
            except DecodeError:
                continue  # not what consumers write: the bytes stay
            member_form[name] = to_json(content, version)
