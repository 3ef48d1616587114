"""Kafka's small values: identities as types, so that an offset is never taken for a partition."""

from __future__ import annotations

import binascii
from typing import NamedTuple, NewType, TypeAlias

Buffer: TypeAlias = bytes | bytearray | memoryview

Offset = NewType("Offset", int)
"""A position in a partition's log."""

Epoch = NewType("Epoch", int)
"""A leader, producer, controller or broker epoch."""

BrokerId = NewType("BrokerId", int)

ProducerId = NewType("ProducerId", int)


class TopicPartition(NamedTuple):
    """A partition's name, as it is written in checkpoints and directory names."""

    topic: str
    partition: int

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}"


class Uuid(bytes):
    """Kafka's 16-byte id; its text is URL-safe base64 without padding."""

    __slots__ = ()

    @classmethod
    def parse(cls, text: str) -> Uuid:
        """Read the text form; `ValueError` when it is not 16 bytes of URL-safe base64."""
        if len(text) > 24:
            raise ValueError(f"{text!r} is too long for a UUID: 22 characters of URL-safe base64 are expected")
        padded = text.replace("-", "+").replace("_", "/") + "=" * (-len(text) % 4)
        try:
            raw = binascii.a2b_base64(padded, strict_mode=True)
        except binascii.Error as error:
            raise ValueError(f"{text!r} is not URL-safe base64: {error}") from None
        if len(raw) != 16:
            raise ValueError(f"{text!r} holds {len(raw)} bytes, and a UUID has 16")
        return cls(raw)

    def __str__(self) -> str:
        return binascii.b2a_base64(self, newline=False).decode("ascii").rstrip("=").replace("+", "-").replace("/", "_")

    def __repr__(self) -> str:
        return f"Uuid({str(self)!r})"


ZERO_UUID = Uuid(16)
"""What the protocol writes where there is no id."""

METADATA_TOPIC_ID = Uuid(15 * b"\0" + b"\1")
"""The id of `__cluster_metadata`, the same in every cluster."""
