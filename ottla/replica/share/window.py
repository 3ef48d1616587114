"""`DeliveryWindow`: the records of a share partition that are in flight, from its start to its end offset.

Everything before the start offset is done with; what comes after the end offset was never delivered. In between, each
record is in some state of `Delivery`. The window moves on when the records at its start are done with.

Promises: no record is delivered to two members at a time, nor more often than the group allows; none is lost unless it
is deleted from the log. Knows no I/O: it is given the time and the limits, and says what has changed and must be
stored. Acquiring is in `acquisition`, acknowledging in `acknowledgement`; driven by `partition`.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from ottla.coordinator.share import StateBatch, StoredState
from ottla.replica.share.delivery import NOBODY, Delivery, RecordState
from ottla.replica.share.in_flight import InFlight, InFlightBatch


class Limits(NamedTuple):
    """What the group allows, as its settings are now."""

    delivery_count_max: int
    in_flight_max: int
    lock_ms: int
    is_renewal_enabled: bool = True


class Change(NamedTuple):
    """A change of state that has begun, and how it is to be stored."""

    delivery: Delivery
    batch: StateBatch

    @classmethod
    def of(cls, first_offset: int, last_offset: int, delivery: Delivery) -> Change:
        return cls(delivery, StateBatch(first_offset, last_offset, delivery.count, delivery.state))


class Gap:
    """Offsets that the stored state says nothing about, between others of which it does: they were acquired by an
    earlier leader and never acknowledged. Gaps above are natural ones: the log has no such records."""

    __slots__ = ("end_offset", "start_offset")

    def __init__(self, start_offset: int, end_offset: int) -> None:
        self.start_offset = start_offset
        """Where the first one begins that was not read since."""
        self.end_offset = end_offset
        """The end offset of the stored state; once the window has moved beyond, there are no gaps."""


class DeliveryWindow:
    """See the module."""

    def __init__(self, start_offset: int = 0) -> None:
        self.start_offset = start_offset
        self.end_offset = start_offset
        """The last offset in flight; with nothing in flight, the next to be delivered."""
        self.batches = InFlight()
        self.complete_count = 0
        """How many records from the start offset on are done with."""
        self._may_have_free = False
        """Whether a record in flight may be available: else the next one is beyond the end."""
        self._gap: Gap | None = None

    @classmethod
    def restored(cls, stored: StoredState, start_offset: int) -> DeliveryWindow:
        """The window as an earlier leader has left it; `ValueError` when it cannot have been so."""
        window = cls(start_offset)
        gap_start: int | None = None
        end = start_offset - 1
        for first, last, count, state in stored.batches:
            if not start_offset <= first <= last:
                raise ValueError(f"stored offsets {first} to {last} in a share partition that begins at {start_offset}")
            if gap_start is None and first > end + 1:
                gap_start = end + 1
            end = last
            window.batches.add(InFlightBatch(first, last, Delivery(RecordState(state), count)))
            if RecordState(state).is_terminal:
                window.complete_count += last - first + 1
        if window.batches:
            window._may_have_free = True
            window.end_offset = end
            if gap_start is not None:
                window._gap = Gap(gap_start, end)
            window.move_start()
        return window

    # Looking

    @property
    def is_fresh(self) -> bool:
        """Whether nothing is in flight: everything that was has been passed by the start offset."""
        return not self.batches or self.start_offset > self.batches.last.last_offset

    @property
    def in_flight_count(self) -> int:
        return self.end_offset - self.start_offset + 1 if self.batches else 0

    @property
    def gap(self) -> Gap | None:
        """The gap, while the window has not moved beyond it."""
        return self._gap if self._gap is not None and self._gap.end_offset == self.end_offset else None

    def can_acquire(self, limits: Limits) -> bool:
        """Whether a fetch could bring something: a record that came back, or room for new ones."""
        return self.next_fetch_offset() != self.end_offset + 1 or self.in_flight_count < limits.in_flight_max

    def next_fetch_offset(self) -> int:
        """The first offset that a member may acquire."""
        if self.is_fresh:
            self._may_have_free = False
            return self.end_offset
        if self._may_have_free:
            found = self._first_free()
            if found is not None:
                return found
            self._may_have_free = False
        return self.end_offset + 1

    def _first_free(self) -> int | None:
        gap = self.gap
        gap_start = -1 if gap is None else gap.start_offset
        for batch in self.batches:
            if gap is not None:
                if batch.first_offset > gap_start:
                    return gap_start
                gap_start = max(batch.last_offset + 1, gap_start)
            for first, _, delivery in batch.parts():
                if delivery.is_free:
                    return first
        return None

    def note_free(self) -> None:
        """A record has become available again."""
        self._may_have_free = True

    def next_deadline_ms(self) -> float | None:
        """When the first acquisition ends, of those that are not being acknowledged."""
        return min(
            (
                delivery.deadline_ms
                for batch in self.batches
                for _, _, delivery in batch.parts()
                if delivery.deadline_ms is not None and delivery.state is RecordState.ACQUIRED
            ),
            default=None,
        )

    def count_from_start(self, first_offset: int, last_offset: int) -> int:
        """How many of these offsets lie in the window."""
        return max(0, last_offset - max(self.start_offset, first_offset) + 1)

    def straddles_start(self, batch: InFlightBatch) -> bool:
        """Whether the start offset is inside the batch: what lies before it is lost to its owner."""
        return batch.first_offset < self.start_offset <= batch.last_offset

    # Settling

    def settle(self, changes: Iterable[Change], *, is_stored: bool, now_ms: float) -> None:
        """The changes are stored, or could not be: then the records are back where they were."""
        for delivery, batch in changes:
            delivery.settle(is_stored=is_stored, now_ms=now_ms)
            if delivery.state is RecordState.AVAILABLE:
                self._may_have_free = True
            if not is_stored and RecordState(batch.delivery_state).is_terminal and not delivery.state.is_terminal:
                self.complete_count -= self.count_from_start(batch.first_offset, batch.last_offset)

    def release(self, member_id: str, limits: Limits) -> list[Change]:
        """Give back what a member has acquired, because it has gone."""
        changes: list[Change] = []
        for batch in self.batches:
            whole = batch.whole
            if (
                whole is not None
                and whole.state is RecordState.ACQUIRED
                and whole.member_id == member_id
                and self.straddles_start(batch)
            ):
                batch.split()
            for first, last, delivery in batch.parts():
                if delivery.state is not RecordState.ACQUIRED or delivery.member_id not in (member_id, NOBODY):
                    continue
                state = RecordState.ARCHIVED if last < self.start_offset else RecordState.AVAILABLE
                if delivery.begin(state, count_max=limits.delivery_count_max):
                    changes.append(Change.of(first, last, delivery))
                    if delivery.state.is_terminal:
                        self.complete_count += self.count_from_start(first, last)
        return changes

    def expire(self, now_ms: float, limits: Limits) -> list[StateBatch]:
        """Give back what was kept for too long; returns what is to be stored, though it counts already."""
        stored: list[StateBatch] = []
        for batch in self.batches:
            whole = batch.whole
            if whole is not None and _has_expired(whole, now_ms) and self.straddles_start(batch):
                batch.split()
            for first, last, delivery in batch.parts():
                if not _has_expired(delivery, now_ms):
                    continue
                state = RecordState.ARCHIVED if last < self.start_offset else RecordState.AVAILABLE
                if not delivery.time_out(state, count_max=limits.delivery_count_max):
                    continue
                stored.append(StateBatch(first, last, delivery.count, delivery.state))
                if delivery.state.is_terminal:
                    self.complete_count += self.count_from_start(first, last)
                else:
                    self._may_have_free = True
        return stored

    # Moving

    def move_start(self) -> bool:
        """Let the window begin where something is still to be done; whether it moved."""
        if not self._is_start_done():
            return False
        last_done, count = self._done_from_start()
        if last_done is None:
            return False
        if last_done == self.batches.last.last_offset:
            # Not back: the log may begin later by now than all that was in flight.
            self.start_offset = self.end_offset = max(self.start_offset, last_done + 1)
            self.batches.clear()
            self.complete_count = 0
            return True
        batch = self.batches.floor(last_done)
        assert batch is not None, f"offset {last_done} is done with, but it is in no batch"
        if last_done == batch.last_offset:
            following = self.batches.after(last_done)
            assert following is not None, "the last batch is not done with"
            self.start_offset = max(self.start_offset, following.first_offset)
            gap = self.gap
            if gap is not None:
                self.start_offset = min(gap.start_offset, self.start_offset)
            self.batches.remove_before(following.first_offset)
        else:
            self.start_offset = max(self.start_offset, last_done + 1)
            self.batches.remove_before(batch.first_offset)
        self.complete_count -= count
        return True

    def _is_start_done(self) -> bool:
        batch = self.batches.floor(self.start_offset)
        if batch is None:
            return False  # there is a gap at the start
        delivery = batch.at(min(self.start_offset, batch.last_offset))
        return delivery.is_settled and delivery.state.is_terminal

    def _done_from_start(self) -> tuple[int | None, int]:
        """The last offset before the first that is not done with, and how many of the window's are up to there."""
        last_done: int | None = None
        count = 0
        gap = self.gap
        for batch in self.batches:
            if gap is not None and batch.last_offset >= gap.start_offset:
                return last_done, count
            for first, last, delivery in batch.parts():
                if not delivery.is_settled or not delivery.state.is_terminal:
                    return last_done, count
                last_done = last
                count += self.count_from_start(first, last)
        return last_done, count

    def move_to_log_start(self, log_start_offset: int) -> None:
        """Records below are deleted: those that nobody has acquired are archived, and the window begins there."""
        if log_start_offset <= self.start_offset:
            return
        if not self.batches:
            self.start_offset = self.end_offset = log_start_offset
            self.complete_count = 0
            return
        removed = sum(
            max(0, min(log_start_offset - 1, last) - max(self.start_offset, first) + 1)
            for batch in self.batches
            for first, last, delivery in batch.parts()
            if delivery.state.is_terminal
        )
        if self.archive(self.start_offset, log_start_offset - 1, self.batches, RecordState.AVAILABLE, is_counted=False):
            self._may_have_free = True
        self.start_offset = log_start_offset
        self.complete_count -= removed
        self.end_offset = max(self.end_offset, self.start_offset)

    def archive_missing(self, fetch_offset: int, base_offset: int) -> None:
        """The log goes on at `base_offset` where `fetch_offset` was asked for: what lies between was compacted away."""
        if not self.batches or fetch_offset >= base_offset:
            return
        floor = self.batches.floor(fetch_offset)
        first = floor.first_offset if floor is not None and floor.last_offset >= fetch_offset else fetch_offset
        between = self.batches.between(first, base_offset - 1)
        if self.archive(fetch_offset, base_offset - 1, between, RecordState.AVAILABLE, is_counted=True):
            self._may_have_free = True

    def archive(
        self,
        first_offset: int,
        last_offset: int,
        batches: Iterable[InFlightBatch],
        state: RecordState,
        *,
        is_counted: bool,
    ) -> bool:
        """End the deliveries of the records between two offsets that are in `state`; whether there were any."""
        is_any = False
        for batch in batches:
            if batch.first_offset > last_offset:
                break
            if batch.whole is not None and batch.whole.state is not state:
                continue
            if not batch.is_within(first_offset, last_offset):
                batch.split()
            if batch.whole is not None:
                batch.whole.archive()
                self.complete_count += len(batch) if is_counted else 0
                is_any = True
                continue
            for _, delivery in batch.offsets(first_offset, last_offset):
                if delivery.state is state:
                    delivery.archive()
                    self.complete_count += 1 if is_counted else 0
                    is_any = True
        return is_any

    def narrow_gap(self, start_offset: int) -> None:
        """What comes before `start_offset` has been read: the gap begins there, or there is none any more."""
        gap = self._gap
        if gap is None:
            return
        if gap.end_offset == self.end_offset and start_offset <= gap.end_offset:
            gap.start_offset = start_offset
        else:
            self._gap = None


def _has_expired(delivery: Delivery, now_ms: float) -> bool:
    return (
        delivery.state is RecordState.ACQUIRED and delivery.deadline_ms is not None and delivery.deadline_ms <= now_ms
    )
