"""The records of the cluster's metadata log as JSON."""

from __future__ import annotations

import re

from ottla.cli.dump.java_text import Json
from ottla.wire import DecodeError
from ottla.wire.json_form import to_json
from ottla.wire.metadata import read_record

_WORD_START = re.compile(r"(?<=[a-z])(?=[A-Z])")


def decode_metadata(offset: int, key: bytes | None, value: bytes | None) -> dict[str, Json]:
    """Shows a record of `__cluster_metadata`, which has no key."""
    if value is None:
        return {"payload": f"Error at {offset}, skipping. The record has no value"}
    try:
        record, version = read_record(value)
    except DecodeError as error:
        return {"payload": f"Error at {offset}, skipping. {error}"}
    data = to_json(record, version)
    return {"payload": {"type": record_type_name(record.schema.name), "version": version, "data": data}}


def record_type_name(class_name: str) -> str:
    """A record type as Kafka names it: `TopicRecord` is TOPIC_RECORD."""
    return _WORD_START.sub("_", class_name).upper()
