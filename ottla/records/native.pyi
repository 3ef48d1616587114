"""What the compiled module (csrc) offers, where it was built; the twins in plain Python say what each one promises."""

from collections.abc import Sequence
from typing import Any, TypeVar

from ottla.records.columns import BinaryView, Columns, Encoded, HeaderView
from ottla.records.consumed import ConsumerRecord
from ottla.records.record import Header
from ottla.types import Buffer

K = TypeVar("K")
V = TypeVar("V")

def take_memory(size: int, /) -> memoryview: ...
def append_record(
    buffer: bytearray,
    offset_delta: int,
    timestamp_delta: int,
    key: Buffer | None,
    value: Buffer | None,
    headers: Sequence[Header],
    size_max: int = ...,
    /,
) -> int: ...
def murmur2(key: Buffer, /) -> int: ...
def partition_of(key: Buffer, partition_count: int, /) -> int: ...
def decode_records(
    section: Buffer,
    count: int,
    base_offset: int,
    base_timestamp: int,
    append_time: int | None,
    topic: str,
    partition: int,
    leader_epoch: int | None,
    start_offset: int,
    delivery_count: int | None = ...,
    /,
) -> list[ConsumerRecord[bytes | None, bytes | None]]: ...
def with_content(record: ConsumerRecord[Any, Any], key: K, value: V, /) -> ConsumerRecord[K, V]: ...
def group_rows(groups: Buffer, group_count: int, /) -> tuple[Buffer, list[int]]: ...

class ColumnBuilder:
    def __init__(
        self, *, offset: bool = ..., timestamp: bool = ..., key: bool = ..., value: bool = ..., headers: bool = ...
    ) -> None: ...
    def __len__(self) -> int: ...
    @property
    def data_size(self) -> int: ...
    def append(
        self,
        section: Buffer,
        count: int,
        base_offset: int,
        base_timestamp: int,
        append_time: int | None,
        start_offset: int = ...,
        end_offset: int = ...,
        /,
    ) -> int: ...
    def expect(self, rows: int, value_bytes: int, /) -> None: ...
    def finish(self) -> Columns: ...

class RowEncoder:
    def __init__(
        self,
        count: int,
        timestamps: Buffer | int,
        key: BinaryView | None,
        value: BinaryView | None,
        headers: HeaderView | None,
        /,
    ) -> None: ...
    def encode(self, rows: Buffer | None, start: int, stop: int, size_max: int, head_size: int = ..., /) -> Encoded: ...
    def partitions(self, partition_count: int, /) -> Buffer: ...
