"""A producer's older batches, read back from the log when it sends one of them again.

A snapshot holds only the last batch of each producer (`producer_snapshot`), so after a restart or a truncation the
others of the last five are forgotten. A client that had several requests in flight then sends the first of them again.
Kafka answers OUT_OF_ORDER_SEQUENCE_NUMBER, and the client fails, or begins a new epoch and writes all of it twice. The
batches are in the log: the broker looks them up there, and answers that what the client sends is a duplicate.

Promises: what is recalled is what the entry held before it went through a snapshot, or the newer part of that. It is
done at most once for a producer that came from a snapshot, only after a sequence was found out of order, and reads at
most `BYTES_MAX` of the log. Called by `log_appender`.
"""

from __future__ import annotations

from collections.abc import Iterator

from ottla.records import Batch, decrement_sequence
from ottla.storage.producer_entry import BATCHES_MAX, BatchMetadata, ProducerStateEntry
from ottla.storage.segment import Segment
from ottla.storage.segments import Segments

SEQUENCE_COUNT = 1 << 31
BYTES_MAX = 16 << 20
"""Five batches of the largest default size, and those of other producers between them."""
WINDOW_SIZE = 1 << 20
"""The log is read backwards in pieces of about this size."""


def recall_batches(entry: ProducerStateEntry, again: Batch, segments: Segments, log_start_offset: int) -> bool:
    """If the batch `again` is older than all that the entry knows, put those before them into it; returns whether there
    were any."""
    if not entry.is_from_snapshot or not entry.batches or len(entry.batches) >= BATCHES_MAX:
        return False
    if again.producer_epoch != entry.producer_epoch or not _is_before(again.last_sequence, entry.batches[0]):
        return False
    entry.is_from_snapshot = False
    found: list[BatchMetadata] = []
    oldest = entry.batches[0]
    for batch in _batches_before(oldest.first_offset, segments, log_start_offset):
        if batch.producer_id != entry.producer_id or batch.is_control:
            continue
        follows = decrement_sequence(oldest.first_sequence, 1) == batch.last_sequence
        if batch.producer_epoch != entry.producer_epoch or not follows:
            break
        oldest = BatchMetadata(batch.last_sequence, batch.last_offset, batch.last_offset_delta, batch.max_timestamp)
        found.append(oldest)
        if len(found) + len(entry.batches) == BATCHES_MAX or oldest.first_sequence == 0:
            break
    entry.batches[:0] = reversed(found)
    return bool(found)


def _is_before(sequence: int, batch: BatchMetadata) -> bool:
    """Whether a sequence lies below those of a batch; sequences go on with 0 after the largest."""
    return 0 < (batch.first_sequence - sequence) % SEQUENCE_COUNT < SEQUENCE_COUNT // 2


def _batches_before(offset: int, segments: Segments, log_start_offset: int) -> Iterator[Batch]:
    """The batches that end below `offset`, the last one first, as far back as the bound allows."""
    segment = segments.floor(offset)
    if segment is None:
        return
    place = segment.locate(offset)
    end = segment.size if place is None else place.position
    left = BYTES_MAX
    while True:
        while end == 0:
            lower = segments.lower(segment.base_offset)
            if lower is None or segment.base_offset <= log_start_offset:
                return
            segment, end = lower, lower.size
        start = _batch_start(segment, max(0, end - WINDOW_SIZE))
        left -= end - start
        if left < 0:
            return
        window = [batch for _, batch in segment.batches(start, end)]
        yield from reversed(window)
        if not window or window[0].base_offset <= log_start_offset:
            return
        end = start


def _batch_start(segment: Segment, position: int) -> int:
    """Where a batch begins at or before a position: the index knows one every few kilobytes."""
    index = segment.offset_index
    slot = index.floor_slot(position, 1)
    if slot < 0:
        return 0
    offset = index.entry_at(slot).offset
    segment.locate(offset)  # which rebuilds the index if it is damaged there
    start = index.floor(offset).position
    return start if start <= position else 0
