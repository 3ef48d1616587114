"""The records of a damaged batch that can still be read: those before the damage.

`Batch.records` gives all or none. Someone who looks into a broken segment wants to see how far it is whole.
"""

from __future__ import annotations

from collections.abc import Iterator

from ottla.errors import KafkaError
from ottla.records import Batch, Record
from ottla.records.batch import TIMESTAMP_TYPE_BIT
from ottla.records.decode import decode_rows
from ottla.records.varint import read_unsigned_varint, zigzag


def salvaged_records(batch: Batch) -> Iterator[Record]:
    """The records up to the first that cannot be read; none when the batch cannot be decompressed."""
    append_time = batch.max_timestamp if batch.attributes & TIMESTAMP_TYPE_BIT else None
    position = 0
    try:
        data = batch.payload()
        for _ in range(batch.record_count):
            size, body = read_unsigned_varint(data, position)
            end = body + zigzag(size)
            # One record with its length is a section of its own, of one.
            [row] = decode_rows(data[position:end], 1, batch.base_offset, batch.base_timestamp, append_time)
            yield Record(*row)
            position = end
    except (KafkaError, IndexError):
        return  # the caller has the error already, from reading the whole
