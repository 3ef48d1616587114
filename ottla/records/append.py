"""One record behind the others: what a producer does a million times a second if it can.

The twin in plain Python of `append_record` in csrc. Called by the producer's accumulator through `ottla.records`.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence

from ottla.records.encode import encode_record
from ottla.records.record import Header
from ottla.types import Buffer


def append_record(
    buffer: bytearray,
    offset_delta: int,
    timestamp_delta: int,
    key: Buffer | None,
    value: Buffer | None,
    headers: Sequence[Header],
    size_max: int = sys.maxsize,
    /,
) -> int:
    """Append a record to the section of records that `buffer` is, and return the section's new size.

    Where the section would grow beyond `size_max` bytes, -1 is returned and nothing is appended: the batch is full.
    All arguments go by position, because a keyword costs as much as the rest of the call:

        size = append_record(section, count, timestamp - base_timestamp, key, value, headers, size_max)

    `section` holds records only, without the 61 bytes of the batch's header; `assemble_batch` puts that in front of
    the section, or of what `compress` made of it. The timestamps' differences are Java's: `to_int64` where the two may
    be far apart. Headers are any sequence, and `()` is the fastest way to say there are none.
    """
    record = encode_record(offset_delta, timestamp_delta, key, value, headers)
    if len(buffer) + len(record) > size_max:
        return -1
    buffer += record
    return len(buffer)
