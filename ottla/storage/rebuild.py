"""Producer state from the log itself: the newest snapshot, and a replay of what follows it.

Promises: afterwards the state is the one that appending the same batches would have left, and a snapshot of it is on
disk, so that the next start reads less. Unlike Kafka, which takes a directory without snapshots and with a clean
shutdown for one of before 0.11 and begins with no producers, a missing snapshot is always rebuilt: an idempotent
producer that comes back must not be able to write twice. Called by `loader` and `log`.
"""

from __future__ import annotations

from ottla.records import Batch
from ottla.storage.producer_append import CompletedTxn
from ottla.storage.producer_state import ProducerStateManager
from ottla.storage.segment import Segment
from ottla.storage.segments import Segments
from ottla.storage.transaction_index import AbortedTxn


def rebuild_producer_state(
    producers: ProducerStateManager,
    segments: Segments,
    *,
    log_start_offset: int,
    end_offset: int,
    now_ms: int,
    sync: bool = True,
) -> None:
    """Bring `producers` to the state at `end_offset`. Without `sync` the caller sees to it that snapshots last."""
    was_empty = producers.is_empty and producers.map_end_offset >= end_offset
    producers.truncate_and_reload(log_start_offset, end_offset, now_ms)
    # Where there was no producer before a truncation, there is none after it.
    if end_offset > producers.map_end_offset and not was_empty and len(segments):
        last_bases = segments.base_offsets[-2:]
        last_segment = segments.floor(end_offset)
        for segment in segments.covering(producers.map_end_offset, end_offset):
            start_offset = max(segment.base_offset, producers.map_end_offset, log_start_offset)
            producers.map_end_offset = start_offset
            if segment.base_offset in last_bases:
                # A truncation goes back by a segment or two at most, as a rule: it will begin here.
                producers.take_snapshot(sync=sync)
            end_position = segment.size
            if segment is last_segment:
                place = segment.locate(end_offset)
                end_position = segment.size if place is None else place.position
            _replay_segment(producers, segment, start_offset, end_position)
    producers.map_end_offset = end_offset
    producers.take_snapshot(sync=sync)


def _replay_segment(producers: ProducerStateManager, segment: Segment, start_offset: int, end_position: int) -> None:
    first = segment.locate(start_offset)
    if first is None:
        return
    for _, batch in segment.batches(first.position, end_position):
        completed = producers.replay(batch)
        if completed is not None:
            producers.complete(completed)


def replay_batch(producers: ProducerStateManager, batch: Batch, segment: Segment) -> None:
    """Take over a batch that recovery has found in `segment`, whose transaction index is being rebuilt."""
    completed = producers.replay(batch)
    if completed is not None:
        end_transaction(producers, completed, segment)
    producers.map_end_offset = batch.next_offset


def end_transaction(producers: ProducerStateManager, completed: CompletedTxn, segment: Segment) -> None:
    """The marker is in the log: note an abort for readers, then let the last stable offset go on."""
    if completed.is_aborted:
        last_stable_offset = producers.last_stable_offset(completed)
        segment.txn_index.append(
            AbortedTxn(completed.producer_id, completed.first_offset, completed.last_offset, last_stable_offset)
        )
    producers.complete(completed)
