"""What is shown of a batch's header and of a record's: everything but the record's content.

The names and their order are those of Kafka's tool.
"""

from __future__ import annotations

from ottla.cli.dump.batch_walk import AnyBatch
from ottla.cli.dump.java_text import Json
from ottla.cli.dump.legacy_batch import LegacyBatch, LegacyRecord
from ottla.errors import UnsupportedCompressionType
from ottla.records import HEADER_SIZE, Batch, Record


def batch_fields(position: int, batch: AnyBatch) -> dict[str, Json]:
    """The header of the batch at `position`, and whether its checksum is right."""
    fields: dict[str, Json]
    if isinstance(batch, Batch):
        fields = {
            "baseOffset": batch.base_offset,
            "lastOffset": batch.last_offset,
            "count": batch.record_count,
            "baseSequence": batch.base_sequence,
            "lastSequence": batch.last_sequence,
            "producerId": batch.producer_id,
            "producerEpoch": batch.producer_epoch,
            "partitionLeaderEpoch": batch.leader_epoch,
            "isTransactional": batch.is_transactional,
            "isControl": batch.is_control,
            "deleteHorizonMs": batch.delete_horizon_ms,
        }
    else:
        fields = {"offset": batch.last_offset}
    fields["position"] = position
    fields[timestamp_label(batch)] = batch.max_timestamp
    fields["size"] = batch.size
    fields["magic"] = batch.magic
    fields["compresscodec"] = _codec_label(batch)
    fields["crc"] = batch.crc
    fields["isvalid"] = _is_valid(batch)
    return fields


def record_fields(batch: AnyBatch, label: str, record: Record | LegacyRecord) -> dict[str, Json]:
    """Everything about a record of `batch` but its content; `label` is the batch's `timestamp_label`."""
    fields: dict[str, Json] = {
        "offset": record.offset,
        label: record.timestamp,
        "keySize": -1 if record.key is None else len(record.key),
        "valueSize": -1 if record.value is None else len(record.value),
    }
    if isinstance(record, LegacyRecord):
        fields["isValid"] = record.is_valid
        fields["crc"] = record.crc
    elif isinstance(batch, Batch):
        fields["sequence"] = batch.sequence_of(record.offset)
        fields["headerKeys"] = [name for name, _ in record.headers]
    return fields


def timestamp_label(batch: AnyBatch) -> str:
    """Who set the timestamps, as tools spell it: this is the name a timestamp is shown under."""
    return batch.timestamp_label if isinstance(batch, LegacyBatch) else batch.timestamp_type.label


def _codec_label(batch: AnyBatch) -> str:
    try:
        return batch.codec.label
    except UnsupportedCompressionType:
        return "unknown"


def _is_valid(batch: AnyBatch) -> bool:
    if isinstance(batch, Batch) and batch.size < HEADER_SIZE:
        return False
    return batch.check_crc()
