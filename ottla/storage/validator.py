"""What the leader checks of a batch before it takes it, and the form it takes it in.

Promises: every rule that Kafka applies to a produced batch, with its error, and each looked at once; a batch that
passes comes back as it is (the same bytes, to be stamped in place) unless the topic asks for another codec, and then as
a new one.

The records of every batch are read over once (`Batch.check_records`): their structure, their count, their times,
offsets and keys. That answers whether a rule about records is broken at all; only where one is, or where another codec
is asked for, are they taken apart.
Called by `log_appender`.
"""

from __future__ import annotations

from enum import IntEnum
from typing import NamedTuple

from ottla.config import LogConfig
from ottla.errors import CorruptMessage, InvalidRecord, InvalidTimestamp, MessageTooLarge, UnknownServerError
from ottla.records import (
    CONTROL_BIT,
    CRC_START,
    HEADER_SIZE,
    NO_TIMESTAMP,
    TIMESTAMP_TYPE_BIT,
    Batch,
    Codec,
    Scan,
    TimestampType,
    batches,
    check_rows,
    crc32c,
    recompress,
    set_max_timestamp,
    to_int64,
)
from ottla.storage.append_rules import AppendRules
from ottla.types import TopicPartition

CODEC_MASK = 0x07
DECOMPRESSED_MAX = 100 * 1024 * 1024
"""The most that a produced batch may hold, decompressed: more than any request could carry as it is
(`socket.request.max.bytes`). Kafka streams and has no such bound; here a few bytes could ask for all the memory."""

_CODEC_MAX = int(Codec.ZSTD)


class AppendOrigin(IntEnum):
    """Where records come from; it decides which rules they are held to."""

    REPLICATION = 0
    COORDINATOR = 1
    CLIENT = 2
    RAFT_LEADER = 3


# A member of an enum costs a call where it is named.
_COORDINATOR = AppendOrigin.COORDINATOR


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


def accept(batch: Batch, rules: AppendRules, origin: AppendOrigin, partition: TopicPartition, now_ms: int) -> Batch:
    """Hold the batch to every rule, in Kafka's order; returns it as it is stored, in a buffer that can be stamped.

    Nearly always that is the batch itself, its checksum computed and its records read over once. What a coordinator
    brings was made on this node a moment ago: it must not be too large, and is looked at no further where it need not
    be written in another way.
    """
    if batch.base_offset and origin is not _COORDINATOR:
        raise InvalidRecord(
            f"The base offset of the record batch in the append to {partition} should be 0, "
            f"but it is {batch.base_offset}"
        )
    size = batch.size
    if size > rules.size_max:
        raise MessageTooLarge(
            f"The record batch size in the append to {partition} is {size} bytes, which exceeds the maximum "
            f"configured value of {rules.size_max}"
        )
    takes_as_they_come = rules.takes_as_they_come
    buffer, position, count, attributes = batch.buffer, batch.position, batch.record_count, batch.attributes
    if origin is not _COORDINATOR:
        if crc32c(buffer[position + CRC_START : position + size]) != batch.crc:
            raise CorruptMessage(f"Record is corrupt (stored crc = {batch.crc}) in topic partition {partition}")
        if (
            count <= 0
            or batch.last_offset_delta != count - 1
            or attributes & CONTROL_BIT
            or (batch.base_sequence < 0 and batch.producer_id >= 0)
        ):
            raise _no_producers(batch, partition)
    elif takes_as_they_come:
        return _copied(batch) if buffer.readonly else batch
    codec_id = attributes & CODEC_MASK
    if codec_id > _CODEC_MAX:
        raise UnknownServerError(f"Unknown compression type id: {codec_id}")
    target = None if takes_as_they_come else _target_codec(rules, batch)
    if codec_id:
        seen = read_over(batch, is_rewritten=target is not None)
    else:
        # `Batch.check_records`, without a call of its own.
        section = buffer[position + HEADER_SIZE : position + size]
        seen = check_rows(section, count, batch.base_timestamp, ignores_sizes=False)
    min_timestamp, max_timestamp, is_consecutive, has_null_key = seen
    if (
        max_timestamp != batch.max_timestamp
        or now_ms - min_timestamp > rules.before_max_ms
        or max_timestamp - now_ms > rules.after_max_ms
        or (has_null_key and rules.is_compacted)
        or attributes & TIMESTAMP_TYPE_BIT
        or (codec_id and not is_consecutive)
        or not takes_as_they_come
    ):
        return _adapt(batch, seen, target, rules, partition, now_ms)
    return _copied(batch) if buffer.readonly else batch


def _copied(batch: Batch) -> Batch:
    """The same batch in memory that may be changed."""
    return Batch(memoryview(bytearray(batch.data)), 0)


def _no_producers(batch: Batch, partition: TopicPartition) -> InvalidOffsetOrSequence:
    """Why the header is none that a producer writes."""
    if batch.last_offset_delta < 0:
        reason = f"Batch has an invalid offset range: [{batch.base_offset}, {batch.last_offset}]"
    elif batch.record_count <= 0:
        reason = f"Invalid reported count for record batch: {batch.record_count}"
    elif batch.last_offset_delta + 1 != batch.record_count:
        reason = (
            f"Inconsistent batch offset range [{batch.base_offset}, {batch.last_offset}] and count of records "
            f"{batch.record_count}"
        )
    elif batch.is_control:
        reason = "Clients are not allowed to write control records"
    else:
        reason = f"Invalid sequence number {batch.base_sequence} in record batch with producer id {batch.producer_id}"
    return InvalidOffsetOrSequence(f"{reason} in topic partition {partition}")


def _target_codec(rules: AppendRules, batch: Batch) -> Codec | None:
    """The codec that a batch must be written anew with; None where it has the right one. Markers are left alone."""
    codec = batch.codec
    target = codec_of(rules.config, codec)
    return None if target is codec or (codec is Codec.NONE and batch.is_control) else target


def _adapt(
    batch: Batch,
    seen: tuple[int, int, bool, bool],
    target: Codec | None,
    rules: AppendRules,
    partition: TopicPartition,
    now_ms: int,
) -> Batch:
    """What `accept` returns of a batch that breaks a rule about records, or has to be changed; raises for the former.

    It is changed in place where only header fields are new; another codec makes new bytes.
    """
    config = rules.config
    append_time = rules.is_append_time
    min_timestamp, max_timestamp, is_consecutive, has_null_key = seen
    if batch.attributes & TIMESTAMP_TYPE_BIT:
        min_timestamp = max_timestamp = batch.max_timestamp
    breaks_a_rule = (
        (has_null_key and rules.is_compacted)
        or batch.attributes & TIMESTAMP_TYPE_BIT
        or not (append_time or is_in_time(config, now_ms, min_timestamp, max_timestamp))
    )
    if target is not None or breaks_a_rule:
        scan = batch.scan()
        _check_records(batch, scan, partition=partition, config=config, now_ms=now_ms)
        if target is not None:
            _check_rewritable(batch, min_timestamp, partition)
            rebuilt = recompress(
                batch,
                scan,
                target,
                level_of(config, target),
                base_offset=0,
                leader_epoch=0,
                timestamp_type=TimestampType.LOG_APPEND_TIME if append_time else TimestampType.CREATE_TIME,
                append_time_ms=now_ms,
            )
            if len(rebuilt) > config.max_message_bytes:
                raise MessageTooLarge(
                    f"Message batch size is {len(rebuilt)} bytes in append to partition {partition} once compressed, "
                    f"which exceeds the maximum configured size of {config.max_message_bytes}"
                )
            return Batch(memoryview(bytearray(rebuilt)), 0)
    if batch.is_compressed and not is_consecutive:
        # Kafka means to write such a batch anew, for the sake of old clients, and fails over the keys it has skipped.
        raise UnknownServerError(f"The offsets in a compressed batch of {partition} are not consecutive")
    if batch.buffer.readonly:
        batch = _copied(batch)
    if append_time or max_timestamp != batch.max_timestamp or batch.attributes & TIMESTAMP_TYPE_BIT:
        set_max_timestamp(
            batch.buffer,
            batch.position,
            batch.size,
            timestamp_type=TimestampType.LOG_APPEND_TIME if append_time else TimestampType.CREATE_TIME,
            max_timestamp=now_ms if append_time else max_timestamp,
        )
        batch = Batch(batch.buffer, batch.position)
    return batch


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
