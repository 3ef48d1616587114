"""Frames and messages of PostgreSQL's protocol 3.0, without any I/O.

`Frames` cuts what a server sends into messages, `Reader` reads one, and the functions at the end write those of a
client. Promises: whatever bytes come, what is raised is `ProtocolError`; a frame that claims more than
`FRAME_BYTES_MAX` is refused before it is waited for. Called by `connection` and `pgoutput`.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass

from ottla.pipelines.errors import PipelineError

PROTOCOL = 3 << 16
SSL_REQUEST = struct.pack("!ii", 8, 80877103)
FRAME_BYTES_MAX = (1 << 30) + (1 << 16)
"""PostgreSQL allocates at most 1 GiB for a value, and so for a message."""
_HEAD = struct.Struct("!ci")


class ProtocolError(PipelineError):
    """What came is not PostgreSQL's protocol."""


class Frames:
    """The bytes of a connection as messages: a type of one letter, and a body."""

    def __init__(self) -> None:
        self._buffer = bytearray()
        self._start = 0

    def feed(self, data: bytes | memoryview) -> None:
        if self._start > 1 << 16 and self._start * 2 > len(self._buffer):
            del self._buffer[: self._start]
            self._start = 0
        self._buffer += data

    def next(self) -> tuple[bytes, bytes] | None:
        """The next whole message; None when more has to come."""
        there = len(self._buffer) - self._start
        if there < _HEAD.size:
            return None
        kind, length = _HEAD.unpack_from(self._buffer, self._start)
        if not 4 <= length <= FRAME_BYTES_MAX:
            raise ProtocolError(f"a message of type {kind!r} claims a length of {length} bytes")
        if there < length + 1:
            return None
        begin, end = self._start + _HEAD.size, self._start + 1 + length
        body = bytes(memoryview(self._buffer)[begin:end])
        self._start = end
        if self._start == len(self._buffer):
            self._buffer.clear()
            self._start = 0
        return kind, body


class Reader:
    """Reads one message from its beginning to its end."""

    __slots__ = ("_at", "_data", "_what")

    def __init__(self, data: bytes, what: str) -> None:
        self._data = data
        self._at = 0
        self._what = what

    def take(self, size: int) -> bytes:
        end = self._at + size
        if size < 0 or end > len(self._data):
            raise ProtocolError(f"{self._what} ends after {len(self._data)} bytes, within a field of {size}")
        found = self._data[self._at : end]
        self._at = end
        return found

    def int8(self) -> int:
        return self.take(1)[0]

    def int16(self) -> int:
        return int.from_bytes(self.take(2), "big", signed=True)

    def int32(self) -> int:
        return int.from_bytes(self.take(4), "big", signed=True)

    def uint32(self) -> int:
        return int.from_bytes(self.take(4), "big")

    def int64(self) -> int:
        return int.from_bytes(self.take(8), "big", signed=True)

    def uint64(self) -> int:
        return int.from_bytes(self.take(8), "big")

    def text(self) -> str:
        """A string that a zero byte ends."""
        end = self._data.find(b"\0", self._at)
        if end < 0:
            raise ProtocolError(f"{self._what} has a string without an end")
        found = self._decoded(self._data[self._at : end])
        self._at = end + 1
        return found

    def rest(self) -> bytes:
        return self.take(len(self._data) - self._at)

    def end(self) -> None:
        if self._at != len(self._data):
            raise ProtocolError(f"{self._what} has {len(self._data) - self._at} bytes too many")

    @property
    def is_at_end(self) -> bool:
        return self._at == len(self._data)

    def _decoded(self, data: bytes) -> str:
        try:
            return data.decode()
        except UnicodeDecodeError:
            raise ProtocolError(f"{self._what} has text that is not UTF-8") from None


@dataclass(frozen=True, slots=True)
class ErrorFields:
    """What a server says of an error or a notice."""

    severity: str
    sqlstate: str
    message: str
    detail: str = ""
    hint: str = ""

    @property
    def line(self) -> str:
        parts = [self.message, *(part for part in (self.detail, self.hint) if part)]
        return " | ".join(" ".join(part.split()) for part in parts) + f" (SQLSTATE {self.sqlstate})"


def error_fields(body: bytes) -> ErrorFields:
    """The fields of an ErrorResponse or a NoticeResponse."""
    reader, found = Reader(body, "an error message"), dict[str, str]()
    while kind := reader.int8():
        found[chr(kind)] = reader.text()
    reader.end()
    return ErrorFields(
        found.get("V") or found.get("S", ""), found.get("C", ""), found.get("M", ""), found.get("D", ""),
        found.get("H", ""),
    )  # fmt: skip


def row_description(body: bytes) -> list[tuple[str, int]]:
    """The names and types of the columns of a result."""
    reader = Reader(body, "a row description")
    found = []
    for _ in range(_count(reader.int16())):
        name = reader.text()
        reader.take(6)  # the table and the column that it comes from
        oid = reader.uint32()
        reader.take(8)  # the type's size, its modifier, and the format, which a simple query has as text
        found.append((name, oid))
    reader.end()
    return found


def data_row(body: bytes) -> list[str | None]:
    """The values of a row, as text."""
    reader = Reader(body, "a row")
    found: list[str | None] = []
    for _ in range(_count(reader.int16())):
        size = reader.int32()
        if size == -1:
            found.append(None)
            continue
        try:
            found.append(reader.take(size).decode())
        except UnicodeDecodeError:
            raise ProtocolError("a row has a value that is not UTF-8") from None
    reader.end()
    return found


def sasl_mechanisms(reader: Reader) -> list[str]:
    """The mechanisms that a server offers, of which the last is an empty name."""
    found = []
    while not reader.is_at_end:
        name = reader.text()
        if not name:
            break
        found.append(name)
    reader.end()
    return found


def _count(value: int) -> int:
    if value < 0:
        raise ProtocolError(f"a message has {value} columns")
    return value


# What a client sends


def framed(kind: bytes, body: bytes) -> bytes:
    return _HEAD.pack(kind, len(body) + 4) + body


def startup(parameters: dict[str, str]) -> bytes:
    body = struct.pack("!i", PROTOCOL)
    for name, value in parameters.items():
        body += name.encode() + b"\0" + value.encode() + b"\0"
    body += b"\0"
    return struct.pack("!i", len(body) + 4) + body


def query(sql: str) -> bytes:
    return framed(b"Q", sql.encode() + b"\0")


def password(secret: str) -> bytes:
    return framed(b"p", secret.encode() + b"\0")


def sasl_initial(mechanism: str, data: bytes) -> bytes:
    return framed(b"p", mechanism.encode() + b"\0" + struct.pack("!i", len(data)) + data)


def sasl_response(data: bytes) -> bytes:
    return framed(b"p", data)


def copy_data(data: bytes) -> bytes:
    return framed(b"d", data)


COPY_DONE = framed(b"c", b"")
TERMINATE = framed(b"X", b"")
