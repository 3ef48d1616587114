"""Kafka's protocol: every message as a typed class, read and written in every version. See README.md beside this file.

The front door is light: message classes are imported from their own modules (`ottla.wire.messages.fetch`,
`ottla.wire.metadata`, `ottla.wire.coordinator.offsets`, `ottla.wire.data.control`) or found with `message_class`.
"""

from __future__ import annotations

from ottla.wire.apis import APIS, Api, find_api
from ottla.wire.codec import decode, decode_prefix, encode, encode_into, encode_parts
from ottla.wire.failures import DecodeError, EncodeError, UnknownRecord
from ottla.wire.registry import message_class, message_names, request_class, response_class
from ottla.wire.schema import Message, SentRecords, Slice, Struct, UnknownTag, Versions
from ottla.wire.versioned import read_versioned, write_versioned

__all__ = [
    # codecs
    "decode",
    "decode_prefix",
    "encode",
    "encode_into",
    "encode_parts",
    "read_versioned",
    "write_versioned",
    "DecodeError",
    "EncodeError",
    "UnknownRecord",
    # declarations
    "Message",
    "Struct",
    "Slice",
    "SentRecords",
    "UnknownTag",
    "Versions",
    # finding them
    "APIS",
    "Api",
    "find_api",
    "message_class",
    "message_names",
    "request_class",
    "response_class",
]
