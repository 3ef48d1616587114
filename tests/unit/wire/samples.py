"""Messages that exist only for tests: one of every kind of field, in versions that differ in what matters."""

from __future__ import annotations

from ottla.types import Uuid
from ottla.wire.schema import (
    Bool,
    Bytes,
    Float64,
    Int8,
    Int16,
    Int32,
    Int64,
    Message,
    Records,
    SentRecords,
    Struct,
    Uint16,
    Uint32,
    field,
)


class Everything(Message, api_key=999, versions="0-2", flexible="1+"):
    """A field of every kind. Version 0 is not flexible, version 1 is, version 2 drops some fields."""

    flag: Bool = field()
    tiny: Int8 = field()
    short: Int16 = field()
    plain: Int32 = field()
    long: Int64 = field()
    port: Uint16 = field()
    crc: Uint32 = field()
    ratio: Float64 = field()
    id: Uuid = field()
    text: str = field()
    text_or_null: str | None = field(default=None)
    data: Bytes = field()
    data_or_null: Bytes | None = field(default=None)
    records: Records | None = field()
    child: Child = field()
    child_or_null: Child | None = field(default=None)
    flags: list[Bool] = field()
    numbers: list[Int32] = field()
    numbers_or_null: list[Int32] | None = field(default=None)
    longs: list[Int64] = field()
    ids: list[Uuid] = field()
    texts: list[str] = field()
    blobs: list[Bytes] = field()
    children: list[Child] = field()
    gone: Int32 = field("0-1", default=-1)
    gone_and_ignored: Int32 = field("0-1", default=-1, ignorable=True)


class Child(Struct):
    name: str = field()
    grandchildren: list[Grandchild] = field()


class Grandchild(Struct):
    number: Int32 = field()
    late: Int16 = field("1+", ignorable=True)


class Tagged(Message, versions="0-1", flexible="1+"):
    """Tagged fields of every kind, tag 3 left out for those that nobody knows."""

    plain: Int32 = field()
    number: Int32 = field("1+", default=7, tag=0)
    text: str | None = field("1+", default=None, tag=1)
    child: Grandchild | None = field("1+", tag=2)
    numbers: list[Int32] = field("1+", tag=4)
    nullable_child: Grandchild | None = field("1+", nullable="1+", tag=5)
    id: Uuid = field("1+", tag=6, ignorable=True)


class Sent(Message, api_key=998, versions="0", flexible="0+"):
    """What a broker would send from a file."""

    before: str = field()
    partitions: list[SentPartition] = field()
    after: Int32 = field()


class SentPartition(Struct):
    index: Int32 = field()
    records: SentRecords | None = field()


class Nothing(Message, versions="0"):
    """No field, and not flexible: no byte at all."""


class Hollow(Message, versions="0"):
    """Elements of no size, which no count can be checked against."""

    nothings: list[Void] = field()


class Void(Struct):
    late: Int32 = field("1+")


class Nullable(Message, versions="0-1", flexible="1+"):
    """One field of each length, the first of which may be null."""

    text: str | None = field()
    plain_text: str = field()
    data: Bytes | None = field()
    numbers: list[Int32] = field()
