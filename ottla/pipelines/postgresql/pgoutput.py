"""What the output plugin pgoutput sends over logical replication, protocol version 1, without any I/O.

Version 1 is in every PostgreSQL from 10 on, and has each transaction whole, at its commit, in the order of the commits.
`replication_message` reads what stands in a CopyData message, `decoded` what stands in the WAL data of it. Promises:
whatever bytes come, what is raised is `ProtocolError`. Called by `ottla.pipelines.connect.capture`.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from enum import Enum

from ottla.pipelines.postgresql.messages import ProtocolError, Reader

EPOCH_US = 946_684_800_000_000
"""PostgreSQL counts microseconds from 2000-01-01; this is that moment from 1970."""
COLUMNS_MAX = 1600 + 64
"""A table has at most 1600."""


class Unchanged(Enum):
    """The value of a TOASTed column that an update did not change, and which is therefore not sent."""

    UNCHANGED = "unchanged"


UNCHANGED = Unchanged.UNCHANGED
Value = str | None | Unchanged
Row = list[Value]


@dataclass(frozen=True, slots=True)
class XLogData:
    """A piece of the stream."""

    lsn: int
    wal_end: int
    data: bytes


@dataclass(frozen=True, slots=True)
class Keepalive:
    """The server lives, and has sent everything up to here."""

    wal_end: int
    wants_reply: bool


@dataclass(frozen=True, slots=True)
class Begin:
    final_lsn: int
    commit_us: int
    """When it was committed, in microseconds since 1970."""
    xid: int


@dataclass(frozen=True, slots=True)
class Commit:
    commit_lsn: int
    end_lsn: int
    commit_us: int


@dataclass(frozen=True, slots=True)
class RelationColumn:
    name: str
    type_oid: int
    type_modifier: int
    is_identity: bool
    """Whether it is part of the replica identity."""


@dataclass(frozen=True, slots=True)
class Relation:
    """A table, as it is for the changes that follow."""

    oid: int
    schema: str
    name: str
    identity: str
    """`d` for the primary key, `i` for an index, `f` for whole rows, `n` for nothing."""
    columns: tuple[RelationColumn, ...]


@dataclass(frozen=True, slots=True)
class Insert:
    relation: int
    new: Row


@dataclass(frozen=True, slots=True)
class Update:
    relation: int
    old: Row | None
    is_old_whole: bool
    """Whether `old` is the row as it was, and not only its key."""
    new: Row


@dataclass(frozen=True, slots=True)
class Delete:
    relation: int
    old: Row
    is_old_whole: bool


@dataclass(frozen=True, slots=True)
class Truncate:
    relations: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Other:
    """An origin, a type or a message of somebody's own: nothing that changes a row."""

    kind: str


Message = Begin | Commit | Relation | Insert | Update | Delete | Truncate | Other


def replication_message(data: bytes) -> XLogData | Keepalive:
    """What a CopyData message has while replication runs."""
    reader = Reader(data, "a replication message")
    match chr(reader.int8()):
        case "w":
            lsn, wal_end = reader.uint64(), reader.uint64()
            reader.int64()  # the server's clock
            return XLogData(lsn, wal_end, reader.rest())
        case "k":
            wal_end = reader.uint64()
            reader.int64()
            wants_reply = reader.int8() != 0
            reader.end()
            return Keepalive(wal_end, wants_reply)
        case kind:
            raise ProtocolError(f"there is no replication message of type {kind!r}")


def status_update(*, written: int, flushed: int, now_us: int, wants_reply: bool = False) -> bytes:
    """What a client tells of its progress; `flushed` of 0 leaves the slot where it is."""
    return struct.pack("!cQQQqb", b"r", written, flushed, flushed, now_us - EPOCH_US, wants_reply)


def decoded(data: bytes) -> Message:
    """A message of pgoutput."""
    reader = Reader(data, "a message of pgoutput")
    kind = chr(reader.int8())
    message: Message
    match kind:
        case "B":
            message = Begin(reader.uint64(), reader.int64() + EPOCH_US, reader.uint32())
        case "C":
            reader.int8()  # flags, of which there are none
            message = Commit(reader.uint64(), reader.uint64(), reader.int64() + EPOCH_US)
        case "R":
            message = _relation(reader)
        case "I":
            relation = reader.uint32()
            _expect(reader, "N")
            message = Insert(relation, _row(reader))
        case "U":
            message = _update(reader)
        case "D":
            relation = reader.uint32()
            which = _expect(reader, "KO")
            message = Delete(relation, _row(reader), which == "O")
        case "T":
            count = reader.int32()
            reader.int8()  # CASCADE and RESTART IDENTITY
            if not 0 <= count <= len(data) // 4:
                raise ProtocolError(f"a truncation claims {count} tables")
            message = Truncate(tuple(reader.uint32() for _ in range(count)))
        case "O" | "Y" | "M":
            return Other(kind)
        case _:
            raise ProtocolError(f"pgoutput has no message of type {kind!r} in version 1")
    reader.end()
    return message


def _relation(reader: Reader) -> Relation:
    oid, schema, name, identity = reader.uint32(), reader.text(), reader.text(), chr(reader.int8())
    if identity not in "dnfi":
        raise ProtocolError(f"{schema}.{name} has a replica identity {identity!r}, which there is not")
    columns = []
    for _ in range(_column_count(reader)):
        flags = reader.int8()
        columns.append(RelationColumn(reader.text(), reader.uint32(), reader.int32(), bool(flags & 1)))
    # The schema pg_catalog is sent as an empty name.
    return Relation(oid, schema or "pg_catalog", name, identity, tuple(columns))


def _update(reader: Reader) -> Update:
    relation = reader.uint32()
    which = _expect(reader, "KON")
    old = None
    if which != "N":
        old = _row(reader)
        _expect(reader, "N")
    return Update(relation, old, which == "O", _row(reader))


def _row(reader: Reader) -> Row:
    found: Row = []
    for _ in range(_column_count(reader)):
        match reader.int8():
            case 0x6E:  # n
                found.append(None)
            case 0x75:  # u
                found.append(UNCHANGED)
            case 0x74:  # t
                data = reader.take(reader.int32())
                try:
                    found.append(data.decode())
                except UnicodeDecodeError:
                    raise ProtocolError("a row has a value that is not UTF-8") from None
            case kind:
                raise ProtocolError(f"a row has a value of the kind {chr(kind)!r}")
    return found


def _column_count(reader: Reader) -> int:
    count = reader.int16()
    if not 0 <= count <= COLUMNS_MAX:
        raise ProtocolError(f"a row or a table claims {count} columns")
    return count


def _expect(reader: Reader, kinds: str) -> str:
    found = chr(reader.int8())
    if found not in kinds:
        raise ProtocolError(f"a row of the kind {found!r} stands where one of {kinds!r} should")
    return found


def lsn_text(lsn: int) -> str:
    """`0/16B3748`."""
    return f"{lsn >> 32:X}/{lsn & 0xFFFFFFFF:X}"


def lsn_of(text: str) -> int:
    """The position in the WAL that PostgreSQL writes as `0/16B3748`."""
    high, slash, low = text.partition("/")
    try:
        if slash:
            return int(high, 16) << 32 | int(low, 16)
    except ValueError:
        pass
    raise ProtocolError(f"{text!r} is no position in the WAL")
