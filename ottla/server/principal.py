"""`Principal`: who asks, and how a broker tells a controller on whose behalf it asks (KIP-590).

The bytes are those of Kafka's default principal builder: a version, then `DefaultPrincipalData`.
"""

from __future__ import annotations

import struct

from ottla.errors import PrincipalDeserializationFailure
from ottla.types import Buffer
from ottla.wire import DecodeError, decode_prefix, encode_into
from ottla.wire.data.principal import DefaultPrincipalData

_VERSION = struct.Struct(">h")
VERSION = 0


class Principal:
    """A kind (`User`) and a name. Whether a delegation token vouched for it does not make it another one."""

    __slots__ = ("is_token_authenticated", "name", "type")

    def __init__(self, type: str, name: str, is_token_authenticated: bool = False) -> None:
        self.type = type
        self.name = name
        self.is_token_authenticated = is_token_authenticated

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Principal):
            return NotImplemented
        return (self.type, self.name) == (other.type, other.name)

    def __hash__(self) -> int:
        return hash((self.type, self.name))

    def __repr__(self) -> str:
        return f"Principal({self.type!r}, {self.name!r}, {self.is_token_authenticated})"

    def __str__(self) -> str:
        return f"{self.type}:{self.name}"

    def to_bytes(self) -> bytes:
        """As it stands in an Envelope."""
        out = bytearray(_VERSION.pack(VERSION))
        encode_into(DefaultPrincipalData(self.type, self.name, self.is_token_authenticated), VERSION, out)
        return bytes(out)

    @staticmethod
    def from_bytes(data: Buffer | None) -> Principal:
        """The principal of an Envelope; `PrincipalDeserializationFailure` when the bytes do not hold one."""
        try:
            (version,) = _VERSION.unpack_from(data or b"")
            if version != VERSION:
                raise PrincipalDeserializationFailure(f"Invalid principal data version {version}")
            read, _ = decode_prefix(DefaultPrincipalData, version, data or b"", _VERSION.size)
        except (DecodeError, struct.error) as error:
            raise PrincipalDeserializationFailure("Failed to deserialize client principal from envelope") from error
        return Principal(read.type, read.name, read.token_authenticated)


ANONYMOUS = Principal("User", "ANONYMOUS")
"""The principal of a connection that need not say who it is."""
