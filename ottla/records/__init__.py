"""Record batches: Kafka's format v2 read and written, at three depths.

`batches` gives headers, which is all the broker's path needs; `Batch.scan` adds offsets, timestamps and keys;
`Batch.records` gives everything. `build_batch` and its kin write. Codec libraries load when a batch needs one.
What clients do for every record is in `fast`: `append_record`, `decode_records`, `ColumnBuilder`, `RowEncoder`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.lazy import front_door
from ottla.records.batch import (
    CONTROL_BIT,
    CRC_START,
    HEADER,
    HEADER_SIZE,
    LOG_OVERHEAD,
    MAGIC,
    NO_PARTITION_LEADER_EPOCH,
    NO_PRODUCER_EPOCH,
    NO_PRODUCER_ID,
    NO_SEQUENCE,
    NO_TIMESTAMP,
    TIMESTAMP_TYPE_BIT,
    TRANSACTIONAL_BIT,
    Batch,
    TimestampType,
    batch_size,
    batches,
    decrement_sequence,
    increment_sequence,
    is_sequence_before,
    restamp,
    set_max_timestamp,
    stamp_append_time,
)
from ottla.records.builder import RecordBatchBuilder, build_batch
from ottla.records.codec import LEVELS, Codec
from ottla.records.compression import DECOMPRESSED_BYTES_MAX, compress, decompress
from ottla.records.control import ControlType, EndTransactionMarker, control_batch, end_transaction_batch
from ottla.records.crc import crc32c
from ottla.records.decode import Scan, check_rows
from ottla.records.encode import assemble_batch, complete_batch, encode_attributes, encode_record
from ottla.records.record import Header, Record, Row
from ottla.records.rewrite import empty_batch, filter_batch, recompress
from ottla.records.varint import to_int64

if TYPE_CHECKING:
    from ottla.records.columns import BinaryBuffers, BinaryView, Columns, HeaderBuffers, HeaderView
    from ottla.records.consumed import ConsumerRecord, RawRecord
    from ottla.records.fast import (
        IS_COMPILED,
        ColumnBuilder,
        RowEncoder,
        append_record,
        decode_records,
        group_rows,
        murmur2,
        partition_of,
        take_memory,
        with_content,
    )

__all__ = [
    "Batch",
    "batches",
    "batch_size",
    "Record",
    "Row",
    "Header",
    "Scan",
    "check_rows",
    "TimestampType",
    "restamp",
    "stamp_append_time",
    "set_max_timestamp",
    "RecordBatchBuilder",
    "build_batch",
    "encode_record",
    "append_record",
    "assemble_batch",
    "complete_batch",
    "encode_attributes",
    "murmur2",
    "partition_of",
    "ConsumerRecord",
    "RawRecord",
    "decode_records",
    "with_content",
    "ColumnBuilder",
    "Columns",
    "BinaryBuffers",
    "HeaderBuffers",
    "RowEncoder",
    "BinaryView",
    "HeaderView",
    "group_rows",
    "IS_COMPILED",
    "take_memory",
    "filter_batch",
    "empty_batch",
    "recompress",
    "ControlType",
    "EndTransactionMarker",
    "control_batch",
    "end_transaction_batch",
    "Codec",
    "LEVELS",
    "DECOMPRESSED_BYTES_MAX",
    "compress",
    "decompress",
    "crc32c",
    "to_int64",
    "increment_sequence",
    "decrement_sequence",
    "is_sequence_before",
    "HEADER",
    "HEADER_SIZE",
    "LOG_OVERHEAD",
    "MAGIC",
    "CRC_START",
    "NO_PARTITION_LEADER_EPOCH",
    "NO_PRODUCER_EPOCH",
    "NO_PRODUCER_ID",
    "NO_SEQUENCE",
    "NO_TIMESTAMP",
    "CONTROL_BIT",
    "TIMESTAMP_TYPE_BIT",
    "TRANSACTIONAL_BIT",
]

# What only clients need, with the module that has it: a broker starts without them.
_LATER = {
    "BinaryBuffers": "columns",
    "BinaryView": "columns",
    "Columns": "columns",
    "HeaderBuffers": "columns",
    "HeaderView": "columns",
    "ConsumerRecord": "consumed",
    "RawRecord": "consumed",
    "IS_COMPILED": "fast",
    "ColumnBuilder": "fast",
    "RowEncoder": "fast",
    "append_record": "fast",
    "decode_records": "fast",
    "group_rows": "fast",
    "murmur2": "fast",
    "partition_of": "fast",
    "take_memory": "fast",
    "with_content": "fast",
}

if not TYPE_CHECKING:  # who checks types has the imports above, and finds what is misspelt
    __getattr__, __dir__ = front_door(__name__, _LATER)
