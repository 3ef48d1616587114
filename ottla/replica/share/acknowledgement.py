"""Acknowledging: what a member says about the records that it has acquired.

A member may speak for a whole range at once, or for each offset of it, and for parts of several batches. All that one
request says about a partition counts, or nothing of it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from ottla.errors import InvalidRecordState, InvalidRequest, KafkaError
from ottla.replica.share.delivery import NOBODY, STATE_OF, AcknowledgeType, Delivery, RecordState
from ottla.replica.share.in_flight import InFlightBatch
from ottla.replica.share.window import Change, DeliveryWindow, Limits


class Acknowledgement(NamedTuple):
    """What a member says about offsets `first_offset` to `last_offset`, both included."""

    first_offset: int
    last_offset: int
    types: Sequence[int]
    """One for each offset, or one for all."""

    def type_of(self, offset: int) -> int:
        return self.types[offset - self.first_offset] if len(self.types) > 1 else self.types[0]


def acknowledge(
    window: DeliveryWindow, member_id: str, said: Sequence[Acknowledgement], limits: Limits, now_ms: float
) -> list[Change]:
    """Begin the changes that a member asks for. Raises the first refusal, and takes back what was begun before it."""
    speaker = _Speaker(window, member_id, limits, now_ms)
    try:
        for one in said:
            speaker.acknowledge(one)
    except KafkaError:
        window.settle(speaker.changes, is_stored=False, now_ms=now_ms)
        raise
    return speaker.changes


class _Speaker:
    """A member whose acknowledgements are gone through."""

    def __init__(self, window: DeliveryWindow, member_id: str, limits: Limits, now_ms: float) -> None:
        self.window = window
        self.member_id = member_id
        self.limits = limits
        self.now_ms = now_ms
        self.changes: list[Change] = []

    def acknowledge(self, said: Acknowledgement) -> None:
        if any(one not in _TYPES for one in said.types):
            raise InvalidRequest(f"Invalid acknowledge type: {list(said.types)}")
        if said.last_offset < self.window.start_offset:
            return  # deleted from the log meanwhile
        for batch in self._batches(said):
            if batch.last_offset >= self.window.start_offset:
                self._acknowledge_batch(said, batch)

    def _batches(self, said: Acknowledgement) -> list[InFlightBatch]:
        window = self.window
        floor = window.batches.floor(said.first_offset)
        if floor is None and said.first_offset < window.start_offset <= said.last_offset:
            floor = window.batches.floor(window.start_offset)
        if floor is None:
            raise InvalidRecordState("Batch record not found: the offsets of the request are not in flight.")
        found = window.batches.between(floor.first_offset, said.last_offset)
        if found[-1].last_offset < said.first_offset:
            raise InvalidRequest("Batch record not found: the first offset is past the acquired records.")
        if found[-1].last_offset < said.last_offset:
            raise InvalidRequest("Batch record not found: the last offset is past the acquired records.")
        return found

    def _acknowledge_batch(self, said: Acknowledgement, batch: InFlightBatch) -> None:
        whole = batch.whole
        if whole is not None:
            if whole.member_id == NOBODY:
                raise InvalidRecordState("The batch cannot be acknowledged: it is not in the acquired state.")
            if whole.member_id != self.member_id:
                raise InvalidRecordState("The member is not the owner of the batch.")
            is_all = batch.is_within(said.first_offset, said.last_offset) and len(said.types) == 1
            if is_all and not self.window.straddles_start(batch):
                self._change(batch.first_offset, batch.last_offset, whole, said.types[0])
                return
            batch.split()
        for offset, delivery in batch.offsets(max(said.first_offset, self.window.start_offset), said.last_offset):
            if delivery.state is not RecordState.ACQUIRED:
                raise InvalidRecordState("The offset cannot be acknowledged: it is not acquired.")
            if delivery.member_id != self.member_id:
                raise InvalidRecordState("The member is not the owner of the offset.")
            self._change(offset, offset, delivery, said.type_of(offset))

    def _change(self, first_offset: int, last_offset: int, delivery: Delivery, said: int) -> None:
        if said == AcknowledgeType.RENEW:
            if not self.limits.is_renewal_enabled:
                raise InvalidRecordState("The group does not allow its members to renew acquisition locks.")
            delivery.deadline_ms = self.now_ms + self.limits.lock_ms
            return
        if not delivery.begin(STATE_OF[AcknowledgeType(said)], count_max=self.limits.delivery_count_max):
            raise InvalidRecordState("The records cannot be acknowledged in the state they are in.")
        self.changes.append(Change.of(first_offset, last_offset, delivery))
        if delivery.state.is_terminal:
            self.window.complete_count += last_offset - first_offset + 1


_TYPES = frozenset(AcknowledgeType)
