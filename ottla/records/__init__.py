"""Record batches: Kafka's format v2 read and written, at three depths.

`batches` gives headers, which is all the broker's path needs; `Batch.scan` adds offsets, timestamps and keys;
`Batch.records` gives everything. `build_batch` and its kin write. Codec libraries load when a batch needs one.
"""

from __future__ import annotations

from ottla.records.batch import (
    HEADER,
    HEADER_SIZE,
    LOG_OVERHEAD,
    MAGIC,
    NO_PARTITION_LEADER_EPOCH,
    NO_PRODUCER_EPOCH,
    NO_PRODUCER_ID,
    NO_SEQUENCE,
    NO_TIMESTAMP,
    Batch,
    TimestampType,
    batch_size,
    batches,
    decrement_sequence,
    increment_sequence,
    restamp,
    set_max_timestamp,
    stamp_append_time,
)
from ottla.records.codec import LEVELS, Codec
from ottla.records.crc import crc32c

__all__ = [
    "Batch",
    "batches",
    "batch_size",
    "restamp",
    "stamp_append_time",
    "set_max_timestamp",
    "TimestampType",
    "Codec",
    "LEVELS",
    "crc32c",
    "increment_sequence",
    "decrement_sequence",
    "HEADER",
    "HEADER_SIZE",
    "LOG_OVERHEAD",
    "MAGIC",
    "NO_PARTITION_LEADER_EPOCH",
    "NO_PRODUCER_EPOCH",
    "NO_PRODUCER_ID",
    "NO_SEQUENCE",
    "NO_TIMESTAMP",
]
