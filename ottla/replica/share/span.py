"""`Span`: where a batch of the log begins and ends, in offsets and in the slice that was read; headers only.

A share fetch looks at batches to know which offsets it has got, and sends them from the file like any other fetch.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from ottla.records import NO_PRODUCER_ID, Batch, ControlType, EndTransactionMarker, batches
from ottla.storage import AbortedTxn, FileSlice

CHUNK_SIZE = 256 * 1024
LOG_OVERHEAD = 12


class Span(NamedTuple):
    """One batch. Positions count from the beginning of the slice."""

    base_offset: int
    last_offset: int
    position: int
    size: int
    producer_id: int
    is_transactional: bool
    is_abort: bool
    """Whether it is the end of a transaction that was aborted."""


def read_spans(records: FileSlice, end_offset: int, records_max: int) -> list[Span]:
    """The batches of a slice, as far as they can matter: up to `records_max` records beyond `end_offset`."""
    spans: list[Span] = []
    for position, batch in _batches(records):
        spans.append(
            Span(
                batch.base_offset,
                batch.last_offset,
                position,
                batch.size,
                batch.producer_id,
                batch.is_transactional,
                batch.is_control and _is_abort(batch),
            )
        )
        if batch.last_offset >= max(end_offset, spans[0].base_offset) + records_max:
            break
    return spans


def _batches(records: FileSlice) -> Iterator[tuple[int, Batch]]:
    position = 0
    wanted = CHUNK_SIZE
    while position < records.size:
        chunk = records.file.read_at(records.position + position, min(wanted, records.size - position))
        used = 0
        for batch in batches(chunk):
            yield position + used, batch
            used += batch.size
        position += used
        wanted = CHUNK_SIZE
        if not used:
            # One that is larger than a chunk, unless the slice ends inside it.
            if len(chunk) < LOG_OVERHEAD:
                return
            wanted = LOG_OVERHEAD + int.from_bytes(chunk[8:LOG_OVERHEAD], "big", signed=True)
            if wanted <= len(chunk) or position + wanted > records.size:
                return


def _is_abort(batch: Batch) -> bool:
    for _, _, key, value, _ in batch.rows():
        return EndTransactionMarker.decode(key, value).type is ControlType.ABORT
    return False  # compaction has left an empty batch


def aborted_spans(spans: Sequence[Span], aborted: Sequence[AbortedTxn]) -> list[Span]:
    """The batches that belong to transactions which were aborted; `aborted` is what the read told of them."""
    pending = sorted(aborted, key=lambda one: one.first_offset, reverse=True)
    producers: set[int] = set()
    found: list[Span] = []
    for span in spans:
        if span.producer_id == NO_PRODUCER_ID:
            continue
        while pending and pending[-1].first_offset <= span.last_offset:
            producers.add(pending.pop().producer_id)
        if span.is_abort:
            producers.discard(span.producer_id)
        elif span.is_transactional and span.producer_id in producers:
            found.append(span)
    return found


def slice_between(records: FileSlice, spans: Sequence[Span], first_offset: int, last_offset: int) -> FileSlice:
    """The batches of a slice that have these offsets."""
    wanted = [span for span in spans if span.last_offset >= first_offset and span.base_offset <= last_offset]
    if not wanted:
        return records
    start, end = wanted[0].position, wanted[-1].position + wanted[-1].size
    return FileSlice(records.file, records.position + start, end - start)
