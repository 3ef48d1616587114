"""A message behind its version: how coordinators' records, consumer subscriptions and principals are framed.

The version is an int16 before the message. Called by `coordinator`, and by whoever reads what group members exchange.
"""

from __future__ import annotations

import struct
from typing import TypeVar

from ottla.types import Buffer
from ottla.wire.codec import decode_prefix, encode_into
from ottla.wire.failures import DecodeError, UnknownRecord
from ottla.wire.schema import Message

M = TypeVar("M", bound=Message)


def write_versioned(message: Message, version: int) -> bytes:
    """The version and the message."""
    out = bytearray(struct.pack(">h", version))
    encode_into(message, version, out)
    return bytes(out)


def read_versioned(cls: type[M], data: Buffer, *, newer: bool = False) -> tuple[M, int]:
    """The message and its version. Bytes after it are let pass, as Kafka lets them.

    With `newer`, a version above the newest is read as the newest: so Kafka reads what consumers of a group tell each
    other, where a new version only adds fields at the end. Otherwise it raises `UnknownRecord`.
    """
    version = read_int16(data, f"{cls.schema.name}.version")
    known = cls.schema.versions
    if newer and version > known.last:
        version = known.last
    if not known.includes(version):
        raise UnknownRecord(f"{cls.schema.name}.version", 0, f"version {version} is not known, only {known}")
    message, _ = decode_prefix(cls, version, data, 2)
    return message, version


def read_int16(data: Buffer, path: str) -> int:
    """The int16 that `data` begin with."""
    if len(data) < 2:
        raise DecodeError(path, 0, f"needs 2 bytes, {len(data)} remain")
    (value,) = struct.unpack_from(">h", data)
    return int(value)
