"""Reading and writing messages: the functions that the rest of Ottla calls.

    data = encode(FetchRequest(max_wait_ms=500), 12)
    request = decode(FetchRequest, 12, data)

A codec is compiled the first time a version of a class is used and kept with its schema. Bulk fields (`Bytes`,
`Records`) decode to views of `data`: they stay valid, and keep `data` alive, for as long as they are held.

Promises: bad bytes raise `DecodeError` and nothing else, whatever they are, and allocate no more than they carry; a
message that the version cannot carry raises `EncodeError`, or `UnsupportedVersion` where a field would be lost.
"""

from __future__ import annotations

import struct
from typing import TypeVar

from ottla.errors import UnsupportedVersion
from ottla.types import Buffer
from ottla.wire.decoder import compile_decoder
from ottla.wire.encoder import compile_encoder, compile_part_encoder
from ottla.wire.explain import slow_decode, slow_encode
from ottla.wire.failures import DecodeError
from ottla.wire.schema import Message, Schema, SentRecords

M = TypeVar("M", bound=Message)


def decode(cls: type[M], version: int, data: Buffer) -> M:
    """The message that `data` holds, from its first byte to its last."""
    message, end = decode_prefix(cls, version, data)
    if end != len(data):
        raise DecodeError(cls.schema.name, end, f"{len(data) - end} bytes follow the end of the message")
    return message


def decode_prefix(cls: type[M], version: int, data: Buffer, position: int = 0) -> tuple[M, int]:
    """The message at `position`, and the position after it. What follows is the caller's to judge."""
    schema = cls.schema
    decoder = schema.decoders.get(version)
    if decoder is None:
        _check_version(schema, version)
        decoder = schema.decoders[version] = compile_decoder(schema, version)
    try:
        return decoder(data, position)
    except (struct.error, IndexError, ValueError):
        pass  # it says nothing about where: the slow decoder does. It is not kept, since it holds on to the data.
    slow_decode(schema, version, data, position)
    raise AssertionError(f"{schema.name} v{version}: the compiled decoder refused what the slow one reads")


def encode(message: Message, version: int) -> bytes:
    """The bytes of the message in that version."""
    out = bytearray()
    encode_into(message, version, out)
    return bytes(out)


def encode_into(message: Message, version: int, out: bytearray) -> None:
    """Append the bytes of the message to `out`, or raise and leave `out` as it was."""
    schema = message.schema
    encoder = schema.encoders.get(version)
    if encoder is None:
        _check_version(schema, version)
        encoder = schema.encoders[version] = compile_encoder(schema, version)
    start = len(out)
    try:
        encoder(message, out)
    except (struct.error, TypeError, AttributeError, ValueError, OverflowError):
        del out[start:]
        slow_encode(schema, version, message)
        raise


def encode_parts(message: Message, version: int, out: bytearray | None = None) -> list[SentRecords]:
    """The message as a list of parts to be sent one after the other; the first begins with what `out` holds already.

    A bulk value of more than `COPIED_MAX` bytes is a part of its own, the very object that the field holds. A records
    field may hold anything with a `len()`, such as a slice of a file, which whoever sends the parts must understand.
    """
    schema = message.schema
    encoder = schema.part_encoders.get(version)
    if encoder is None:
        _check_version(schema, version)
        encoder = schema.part_encoders[version] = compile_part_encoder(schema, version)
    parts: list[SentRecords] = []
    try:
        last = encoder(message, parts, bytearray() if out is None else out)
    except (struct.error, TypeError, AttributeError, ValueError, OverflowError):
        slow_encode(schema, version, message, to_parts=True)
        raise
    if last or not parts:
        parts.append(last)
    return parts


def _check_version(schema: Schema, version: int) -> None:
    if not schema.versions.includes(version):
        raise UnsupportedVersion(f"{schema.name} has versions {schema.versions}, not {version}.")
