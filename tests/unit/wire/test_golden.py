"""Bytes that a real Kafka wrote: every message in every version decodes to its JSON and encodes to its bytes."""

from __future__ import annotations

from typing import Any

import pytest

from ottla.wire import decode, encode, encode_parts, message_class, message_names
from ottla.wire.explain import slow_decode, slow_encode
from ottla.wire.json_form import from_json, to_json
from tests.support.golden import golden_messages

GOLDEN = golden_messages()


def by_family() -> list[list[dict[str, Any]]]:
    """The golden messages in a few groups, so that a failure of one leaves the others to be seen."""
    return [GOLDEN[start : start + 100] for start in range(0, len(GOLDEN), 100)]


def test_the_golden_file_covers_every_version_of_every_message() -> None:
    assert len(GOLDEN) == 1446
    covered = {(line["name"], line["version"]) for line in GOLDEN}
    declared = set()
    for name in message_names():
        first, last = message_class(name).schema.versions
        declared |= {(name, version) for version in range(first, last + 1)}
    assert covered == declared


@pytest.mark.parametrize("lines", by_family(), ids=lambda lines: f"{lines[0]['name']}-{lines[-1]['name']}")
def test_bytes_decode_to_kafkas_json_and_encode_to_kafkas_bytes(lines: list[dict[str, Any]]) -> None:
    for line in lines:
        name, version, data = line["name"], line["version"], bytes.fromhex(line["hex"])
        cls = message_class(name)
        message = decode(cls, version, data)
        assert to_json(message, version) == line["json"], f"{name} v{version}"
        assert encode(message, version).hex() == line["hex"], f"{name} v{version}"
        assert encode(from_json(cls, version, line["json"]), version).hex() == line["hex"], f"{name} v{version}"


@pytest.mark.parametrize("kind", [bytearray, memoryview])
def test_any_kind_of_buffer_decodes_alike(kind: type) -> None:
    for line in GOLDEN[::7]:
        cls, version, data = message_class(line["name"]), line["version"], bytes.fromhex(line["hex"])
        assert decode(cls, version, kind(data)) == decode(cls, version, data)


def test_the_slow_codec_agrees_with_the_compiled_one() -> None:
    for line in GOLDEN:
        cls, version, data = message_class(line["name"]), line["version"], bytes.fromhex(line["hex"])
        message, end = slow_decode(cls.schema, version, data, 0)
        assert end == len(data)
        assert message == decode(cls, version, data)
        assert slow_encode(cls.schema, version, message) == data


def test_parts_join_to_the_same_bytes() -> None:
    for line in GOLDEN:
        message = decode(message_class(line["name"]), line["version"], bytes.fromhex(line["hex"]))
        parts = encode_parts(message, line["version"])
        assert b"".join(part for part in parts if isinstance(part, bytes | bytearray | memoryview)).hex() == line["hex"]
