"""What the leader checks of a batch before it takes it, and the form it takes it in.

Promises: every rule that Kafka applies to a produced batch, with its error; a batch that passes comes back as it is
(the same bytes, to be stamped in place) unless the topic asks for another codec, and then as a new one.

The records of every batch are read over once (`Batch.check_records`): their structure, their count, their times,
offsets and keys. That answers whether a rule about records is broken at all; only where one is, or where another codec
is asked for, are they taken apart.
Called by `log`.
"""

from __future__ import annotations

from enum import IntEnum
from typing import NamedTuple

from ottla.config import LogConfig
from ottla.errors import CorruptMessage, InvalidRecord, InvalidTimestamp, MessageTooLarge, UnknownServerError
from ottla.records import (
    NO_TIMESTAMP,
    TIMESTAMP_TYPE_BIT,
    Batch,
    Codec,
    Scan,
    TimestampType,
    batches,
    recompress,
    restamp,
    set_max_timestamp,
    to_int64,
)
from ottla.types import TopicPartition

CODEC_MASK = 0x07
DECOMPRESSED_MAX = 100 * 1024 * 1024
"""The most that a produced batch may hold, decompressed: more than any request could carry as it is
(`socket.request.max.bytes`). Kafka streams and has no such bound; here a few bytes could ask for all the memory."""


class AppendOrigin(IntEnum):
    """Where records come from; it decides which rules they are held to."""

    REPLICATION = 0
    COORDINATOR = 1
    CLIENT = 2
    RAFT_LEADER = 3


class NotOneBatch(InvalidRecord):
    """The data is not one record batch of the format there is."""


class InvalidOffsetOrSequence(InvalidRecord):
    """The offsets or sequences of the batch are not a producer's."""


class RecordError(NamedTuple):
    """Which record of a batch was refused, and why."""

    batch_index: int
    message: str


class InvalidRecords(InvalidRecord):
    """Records of the batch were refused."""

    def __init__(self, message: str, record_errors: list[RecordError]) -> None:
        super().__init__(message)
        self.record_errors = record_errors


class InvalidTimestamps(InvalidTimestamp):
    """Records of the batch were refused because of their timestamps."""

    def __init__(self, message: str, record_errors: list[RecordError]) -> None:
        super().__init__(message)
        self.record_errors = record_errors


def codec_of(config: LogConfig, source: Codec) -> Codec:
    """The codec a batch is stored with."""
    match config.compression_type:
        case "producer":
            return source
        case "uncompressed":
            return Codec.NONE
        case name:
            return Codec[name.upper()]


def level_of(config: LogConfig, codec: Codec) -> int | None:
    match codec:
        case Codec.GZIP:
            return config.compression_gzip_level
        case Codec.LZ4:
            return config.compression_lz4_level
        case Codec.ZSTD:
            return config.compression_zstd_level
        case _:
            return None


def only_batch(data: memoryview, partition: TopicPartition) -> Batch | None:
    """The one batch a leader's append may hold; None when there is none. A cut-off rest behind it is dropped."""
    found = None
    try:
        for batch in batches(data):
            if found is not None:
                raise NotOneBatch(
                    f"Record data for {partition} has more than one batch; a producer sends one a partition"
                )
            found = batch
    except InvalidRecord as error:
        raise NotOneBatch(error.message) from None
    return found


def check_batch(batch: Batch, *, partition: TopicPartition, config: LogConfig, origin: AppendOrigin) -> None:
    """The rules about the batch as a whole, in Kafka's order."""
    is_client = origin is AppendOrigin.CLIENT
    if is_client and batch.base_offset != 0:
        raise InvalidRecord(
            f"The base offset of the record batch in the append to {partition} should be 0, "
            f"but it is {batch.base_offset}"
        )
    if batch.size > config.max_message_bytes:
        raise MessageTooLarge(
            f"The record batch size in the append to {partition} is {batch.size} bytes, which exceeds the maximum "
            f"configured value of {config.max_message_bytes}"
        )
    if not batch.check_crc():
        raise CorruptMessage(f"Record is corrupt (stored crc = {batch.crc}) in topic partition {partition}")
    if not is_client:
        return
    if batch.last_offset_delta < 0:
        raise InvalidOffsetOrSequence(
            f"Batch has an invalid offset range: [{batch.base_offset}, {batch.last_offset}] "
            f"in topic partition {partition}"
        )
    if batch.record_count <= 0:
        raise InvalidOffsetOrSequence(
            f"Invalid reported count for record batch: {batch.record_count} in topic partition {partition}"
        )
    if batch.last_offset_delta + 1 != batch.record_count:
        raise InvalidOffsetOrSequence(
            f"Inconsistent batch offset range [{batch.base_offset}, {batch.last_offset}] and count of records "
            f"{batch.record_count} in topic partition {partition}"
        )
    if batch.is_control:
        raise InvalidOffsetOrSequence(
            f"Clients are not allowed to write control records in topic partition {partition}"
        )
    if batch.producer_id >= 0 and batch.base_sequence < 0:
        raise InvalidOffsetOrSequence(
            f"Invalid sequence number {batch.base_sequence} in record batch with producer id {batch.producer_id} "
            f"in topic partition {partition}"
        )


def accept(
    data: memoryview,
    batch: Batch,
    *,
    partition: TopicPartition,
    config: LogConfig,
    base_offset: int,
    leader_epoch: int,
    now_ms: int,
) -> tuple[memoryview, Batch]:
    """The batch as it is stored: in the topic's codec, its timestamps checked, its offsets and epoch stamped.

    `data` is changed in place where only header fields are new; another codec makes new bytes.
    """
    if batch.attributes & CODEC_MASK > Codec.ZSTD:
        raise UnknownServerError(f"Unknown compression type id: {batch.attributes & CODEC_MASK}")
    codec = batch.codec
    target = codec_of(config, codec)
    is_rewritten = target is not codec and not (codec is Codec.NONE and batch.is_control)
    append_time = config.is_append_time
    min_timestamp, max_timestamp, is_consecutive, has_null_key = read_over(batch, is_rewritten=is_rewritten)
    if batch.attributes & TIMESTAMP_TYPE_BIT:
        min_timestamp = max_timestamp = batch.max_timestamp
    breaks_a_rule = (
        (has_null_key and config.is_compacted)
        or batch.attributes & TIMESTAMP_TYPE_BIT
        or not (append_time or is_in_time(config, now_ms, min_timestamp, max_timestamp))
    )
    if is_rewritten or breaks_a_rule:
        scan = batch.scan()
        _check_records(batch, scan, partition=partition, config=config, now_ms=now_ms)
        if is_rewritten:
            _check_rewritable(batch, min_timestamp, partition)
            rebuilt = recompress(
                batch,
                scan,
                target,
                level_of(config, target),
                base_offset=base_offset,
                leader_epoch=leader_epoch,
                timestamp_type=TimestampType.LOG_APPEND_TIME if append_time else TimestampType.CREATE_TIME,
                append_time_ms=now_ms,
            )
            if len(rebuilt) > config.max_message_bytes:
                raise MessageTooLarge(
                    f"Message batch size is {len(rebuilt)} bytes in append to partition {partition} once compressed, "
                    f"which exceeds the maximum configured size of {config.max_message_bytes}"
                )
            view = memoryview(rebuilt)
            return view, Batch(view, 0)
    if codec is not Codec.NONE and not is_consecutive:
        # Kafka means to write such a batch anew, for the sake of old clients, and fails over the keys it has skipped.
        raise UnknownServerError(f"The offsets in a compressed batch of {partition} are not consecutive")
    is_restamped = append_time or max_timestamp != batch.max_timestamp or batch.attributes & TIMESTAMP_TYPE_BIT
    if data.readonly:
        data = memoryview(bytearray(data))
    if is_restamped:
        set_max_timestamp(
            data,
            batch.position,
            batch.size,
            timestamp_type=TimestampType.LOG_APPEND_TIME if append_time else TimestampType.CREATE_TIME,
            max_timestamp=now_ms if append_time else max_timestamp,
        )
        batch = Batch(data, batch.position)
    batch.base_offset = base_offset
    batch.leader_epoch = leader_epoch
    restamp(data, batch.position, base_offset=base_offset, leader_epoch=leader_epoch)
    return data, batch


def takes_as_they_come(config: LogConfig) -> bool:
    """Whether these settings leave a batch that breaks no rule as it is, but for its offset and epoch."""
    return config.compression_type == "producer" and not config.is_append_time


def is_in_time(config: LogConfig, now_ms: int, min_timestamp: int, max_timestamp: int) -> bool:
    """Whether timestamps between these two are neither too old nor too far ahead."""
    return (
        now_ms - min_timestamp <= config.message_timestamp_before_max_ms
        and max_timestamp - now_ms <= config.message_timestamp_after_max_ms
    )


def read_over(batch: Batch, *, is_rewritten: bool) -> tuple[int, int, bool, bool]:
    """`Batch.check_records` with the errors that Kafka has for a stream it cannot decompress."""
    try:
        return batch.check_records(bytes_max=DECOMPRESSED_MAX, ignores_sizes=batch.is_compressed and not is_rewritten)
    except CorruptMessage as error:
        raise UnknownServerError(error.message) from None


def _check_rewritable(batch: Batch, min_timestamp: int, partition: TopicPartition) -> None:
    """What Kafka stores as it came and cannot write anew: its builder has rules of its own, and fails over them."""
    if min_timestamp < 0:
        raise UnknownServerError(f"Invalid negative timestamp {min_timestamp} in a record of {partition}")
    if batch.producer_id >= 0 and batch.producer_epoch < 0:
        raise UnknownServerError(f"Invalid negative producer epoch {batch.producer_epoch} in a batch of {partition}")


def _check_records(batch: Batch, scan: Scan, *, partition: TopicPartition, config: LogConfig, now_ms: int) -> None:
    """The rules about single records, with an error for each that is broken."""
    errors: list[RecordError] = []
    has_bad_timestamp = False
    before_ms, after_ms = config.message_timestamp_before_max_ms, config.message_timestamp_after_max_ms
    is_append_typed = batch.timestamp_type is TimestampType.LOG_APPEND_TIME
    for index, (offset, timestamp, key) in enumerate(zip(scan.offsets, scan.timestamps, scan.keys, strict=True)):
        if config.is_compacted and key is None:
            errors.append(
                RecordError(index, f"Compacted topic cannot accept message without key in topic partition {partition}.")
            )
        elif not config.is_append_time and timestamp != NO_TIMESTAMP:
            age_ms = to_int64(now_ms - timestamp)  # as Java's `long` has it, where a time is far from any clock's
            if age_ms > before_ms or to_int64(-age_ms) > after_ms:
                has_bad_timestamp = True
                errors.append(
                    RecordError(
                        index,
                        f"Timestamp {timestamp} of message with offset {offset} is out of range. The timestamp "
                        f"should be within [{now_ms - before_ms}, {now_ms + after_ms}]",
                    )
                )
        elif is_append_typed:
            has_bad_timestamp = True
            errors.append(
                RecordError(
                    index,
                    f"Invalid timestamp type in message with offset {offset}. Producer should not set timestamp "
                    "type to LogAppendTime.",
                )
            )
    if has_bad_timestamp:
        raise InvalidTimestamps("One or more records have been rejected due to invalid timestamp", errors)
    if errors:
        shown = "; ".join(f"record {error.batch_index}: {error.message}" for error in errors[:3])
        raise InvalidRecords(
            f"One or more records have been rejected due to {len(errors)} record errors in total, "
            f"and only showing the first three errors at most: {shown}",
            errors,
        )
