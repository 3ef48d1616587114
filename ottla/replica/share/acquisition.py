"""Acquiring: which of the records that a fetch has read are handed to a member.

Records that came back come first, in the batches in which they were delivered before; then new ones beyond the end of
the window. In `batch_optimized` mode whole batches of the log are acquired, also beyond what the member has asked for;
in `record_limit` mode (KIP-1206) never more than that. Records that have been delivered often without being
acknowledged are handed out in smaller and smaller portions, at last alone, so that a bad one does not drag the others
along.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from enum import IntEnum
from typing import NamedTuple

from ottla.replica.share.delivery import Delivery, RecordState
from ottla.replica.share.in_flight import InFlightBatch
from ottla.replica.share.span import Span, aborted_spans
from ottla.replica.share.window import DeliveryWindow, Limits
from ottla.storage import AbortedTxn

log = logging.getLogger(__name__)

THROTTLE_COUNT_MIN = 2


class AcquireMode(IntEnum):
    """The numbers are the protocol's."""

    BATCH_OPTIMIZED = 0
    RECORD_LIMIT = 1


class Acquired(NamedTuple):
    """Offsets, both included, that are a member's now."""

    first_offset: int
    last_offset: int
    delivery_count: int


def acquire(
    window: DeliveryWindow,
    spans: Sequence[Span],
    *,
    member_id: str,
    fetch_offset: int,
    records_max: int,
    batch_size: int,
    mode: AcquireMode,
    limits: Limits,
    now_ms: float,
    aborted: Sequence[AbortedTxn] = (),
) -> list[Acquired]:
    """Hand what was read at `fetch_offset` to a member; `aborted` are transactions whose records nobody is to have."""
    if records_max <= 0 or not spans or spans[-1].last_offset < window.start_offset:
        return []
    last_offset, records_max = _room(window, fetch_offset, records_max, spans[-1].last_offset, limits)
    if records_max <= 0:
        return []
    acquisition = _Acquisition(window, spans, member_id, batch_size, mode is AcquireMode.RECORD_LIMIT, limits, now_ms)
    acquired = acquisition.run(fetch_offset, last_offset, records_max)
    return _without_aborted(window, spans, acquired, aborted) if aborted and acquired else acquired


def _room(
    window: DeliveryWindow, fetch_offset: int, records_max: int, last_offset: int, limits: Limits
) -> tuple[int, int]:
    """Up to which offset, and how many records, may be acquired."""
    room = min(records_max, limits.in_flight_max - window.in_flight_count)
    if room > 0 or fetch_offset > window.end_offset:
        return last_offset, room
    # No room for new ones; but those that came back may go out again.
    return min(last_offset, window.end_offset), min(records_max, window.end_offset - fetch_offset + 1)


class _Acquisition:
    """One under way."""

    def __init__(
        self,
        window: DeliveryWindow,
        spans: Sequence[Span],
        member_id: str,
        batch_size: int,
        is_record_limit: bool,
        limits: Limits,
        now_ms: float,
    ) -> None:
        self.window = window
        self.spans = spans
        self.member_id = member_id
        self.batch_size = batch_size
        self.is_record_limit = is_record_limit
        self.count_max = limits.delivery_count_max
        self.throttle_count = max(THROTTLE_COUNT_MIN, (self.count_max + 1) // 2)
        """From this many deliveries on a record goes out in small company."""
        self.deadline_ms = now_ms + limits.lock_ms
        self.acquired: list[Acquired] = []
        self.count = 0

    def run(self, fetch_offset: int, last_offset: int, records_max: int) -> list[Acquired]:
        window = self.window
        first_offset = base_offset = self.spans[0].base_offset
        window.archive_missing(fetch_offset, base_offset)
        if base_offset > last_offset:
            return []  # there is no room for new ones, and what came back is not in the log any more
        floor = window.batches.floor(base_offset)
        if floor is None:
            base_offset = max(base_offset, window.start_offset)
        elif floor.last_offset >= base_offset:
            base_offset = floor.first_offset
        known = window.batches.between(min(first_offset, base_offset), last_offset)
        if not known:
            self._acquire_new(base_offset, last_offset, records_max)
            return self.acquired
        records_max = self._acquire_known(known, first_offset, base_offset, last_offset, records_max)
        after = known[-1].last_offset + 1
        if self.count < records_max and after <= last_offset:
            self._acquire_new(after, last_offset, records_max - self.count)
        if self.acquired:
            window.narrow_gap(self.acquired[-1].last_offset + 1)
        return self.acquired

    # What was delivered before

    def _acquire_known(
        self, known: Sequence[InFlightBatch], first_offset: int, base_offset: int, last_offset: int, records_max: int
    ) -> int:
        """Go through the batches that are in flight already; returns how many records may be had in all."""
        gap_start = base_offset
        for batch in known:
            if self.count >= records_max:
                break
            if self.window.gap is not None:
                if gap_start < batch.first_offset:
                    self._acquire_new(gap_start, batch.first_offset - 1, records_max - self.count)
                gap_start = batch.last_offset + 1
                if self.count >= records_max:
                    break
            is_throttled = self._is_throttled(batch, first_offset, last_offset)
            if is_throttled and self.count:
                return 0  # it goes out without these, next time
            whole = batch.whole
            if whole is not None and not whole.is_free:
                continue
            is_limited = self.is_record_limit and len(batch) > records_max - self.count
            if whole is not None and batch.is_within(first_offset, last_offset) and not (is_limited or is_throttled):
                whole.acquire(self.member_id, self.deadline_ms)
                self.acquired.append(Acquired(batch.first_offset, batch.last_offset, whole.count))
                self.count += len(batch)
                continue
            batch.split()
            count = self._acquire_each(batch, first_offset, last_offset, records_max - self.count)
            self.count += count
            if is_throttled and count:
                return 0
        return records_max

    def _is_throttled(self, batch: InFlightBatch, first_offset: int, last_offset: int) -> bool:
        if batch.whole is not None:
            return batch.whole.is_free and batch.whole.count >= self.throttle_count
        return any(
            delivery.is_free and delivery.count >= self.throttle_count
            for _, delivery in batch.offsets(first_offset, last_offset)
        )

    def _acquire_each(self, batch: InFlightBatch, first_offset: int, last_offset: int, records_max: int) -> int:
        """Acquire the free records of a batch one by one; returns how many."""
        found: list[tuple[int, Delivery]] = []
        portion = 0
        """How many may go out together, once one is met that was delivered often."""
        for offset, delivery in batch.offsets(first_offset, last_offset):
            if not delivery.is_free:
                continue
            is_last_try = self.count_max > THROTTLE_COUNT_MIN and delivery.count == self.count_max - 1
            if is_last_try and found:
                break  # it goes out alone, next time
            if not portion and delivery.count >= self.throttle_count:
                portion = max(1, len(batch.each) >> (delivery.count - self.throttle_count + 1))
            delivery.acquire(self.member_id, self.deadline_ms)
            found.append((offset, delivery))
            if is_last_try:
                log.info("[SharePartition] Offset %d is delivered for the last time, and alone", offset)
                break
            if len(found) == portion or (self.is_record_limit and len(found) == records_max):
                break
        self._add_runs(found)
        return len(found)

    def _add_runs(self, found: Sequence[tuple[int, Delivery]]) -> None:
        """Add offsets as ranges: consecutive ones that were delivered equally often are told as one."""
        run: Acquired | None = None
        for offset, delivery in found:
            if run is not None and offset == run.last_offset + 1 and delivery.count == run.delivery_count:
                run = run._replace(last_offset=offset)
                self.acquired[-1] = run
            else:
                run = Acquired(offset, offset, delivery.count)
                self.acquired.append(run)

    # What is new

    def _acquire_new(self, first_offset: int, last_offset: int, records_max: int) -> None:
        """Acquire records that are not in flight yet."""
        window = self.window
        if not window.batches:
            first_offset = max(first_offset, window.end_offset)
        wanted_offset = last_offset
        if records_max < last_offset - first_offset + 1:
            # Up to the end of a batch in either mode, so that what is in flight consists of whole batches.
            wanted_offset = self._batch_end(first_offset + records_max - 1)
            if window.gap is not None:
                wanted_offset = min(wanted_offset, last_offset)
        acquired = self._add_new(first_offset, wanted_offset, records_max)
        if window.batches.first.first_offset == first_offset:
            window.start_offset = first_offset
        window.end_offset = max(window.end_offset, wanted_offset)
        self.acquired += acquired
        self.count += acquired[-1].last_offset - first_offset + 1
        window.narrow_gap(acquired[-1].last_offset + 1)

    def _batch_end(self, offset: int) -> int:
        """The last offset of the batch that `offset` is in; the offset itself where it is in none."""
        before = [span for span in self.spans if span.base_offset <= offset]
        return max(offset, before[-1].last_offset) if before else offset

    def _add_new(self, first_offset: int, last_offset: int, records_max: int) -> list[Acquired]:
        window = self.window
        if self.is_record_limit:
            batch = self._in_flight(first_offset, last_offset)
            window.batches.add(batch)
            if len(batch) > records_max:
                last_offset = first_offset + records_max - 1
                batch.split_at(last_offset)
                window.note_free()
            return [Acquired(first_offset, last_offset, 1)]
        acquired: list[Acquired] = []
        if last_offset - first_offset + 1 > self.batch_size:
            # Portions of the log's own batches, about as large as the member wants to acknowledge them.
            for span in self.spans:
                if span.base_offset > last_offset:
                    break
                if span.base_offset - first_offset >= self.batch_size:
                    acquired.append(Acquired(first_offset, span.base_offset - 1, 1))
                    first_offset = span.base_offset
        acquired.append(Acquired(first_offset, last_offset, 1))
        for one in acquired:
            window.batches.add(self._in_flight(one.first_offset, one.last_offset))
        return acquired

    def _in_flight(self, first_offset: int, last_offset: int) -> InFlightBatch:
        return InFlightBatch(
            first_offset, last_offset, Delivery(RecordState.ACQUIRED, 1, self.member_id, self.deadline_ms)
        )


def _without_aborted(
    window: DeliveryWindow, spans: Sequence[Span], acquired: list[Acquired], aborted: Sequence[AbortedTxn]
) -> list[Acquired]:
    """Archive the records of aborted transactions, and take them out of what a member gets."""
    for span in aborted_spans(spans, aborted):
        floor = window.batches.floor(span.base_offset)
        first = span.base_offset if floor is None else floor.first_offset
        between = window.batches.between(first, span.last_offset)
        window.archive(span.base_offset, span.last_offset, between, RecordState.ACQUIRED, is_counted=True)
        kept: list[Acquired] = []
        for one in acquired:
            if one.last_offset < span.base_offset or one.first_offset > span.last_offset:
                kept.append(one)
                continue
            if one.first_offset < span.base_offset:
                kept.append(one._replace(last_offset=span.base_offset - 1))
            if one.last_offset > span.last_offset:
                kept.append(one._replace(first_offset=span.last_offset + 1))
        acquired = kept
    return acquired
