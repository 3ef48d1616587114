"""What native.c offers, where it was built; the twins in plain Python say what each one promises."""

from collections.abc import Sequence

from ottla.records.record import Header
from ottla.types import Buffer

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
