"""Whether a producer's batches may be appended, and what they change: tried on a copy, before they are written.

The rules and their order are Kafka's (KIP-98, KIP-360, KIP-890). How many of them apply depends on where the batches
come from: a client's are held to epochs and sequences, a coordinator's to epochs, and a leader's are taken as they
are, because it has checked them.

Promises: nothing of the log's state changes here; what was tried is taken over by `ProducerStateManager.apply` when
the batches are in the log, and forgotten otherwise. Called by `producer_state`.
"""

from __future__ import annotations

import logging
from typing import NamedTuple

from ottla.errors import (
    InvalidProducerEpoch,
    InvalidTxnState,
    OutOfOrderSequenceNumber,
    TransactionCoordinatorFenced,
)
from ottla.records import NO_PRODUCER_EPOCH, NO_SEQUENCE, Batch, ControlType, EndTransactionMarker
from ottla.storage.offset_metadata import OffsetMetadata
from ottla.storage.producer_entry import BatchMetadata, ProducerStateEntry
from ottla.storage.validator import AppendOrigin
from ottla.storage.verification import VerificationState
from ottla.types import TopicPartition

log = logging.getLogger(__name__)

TRANSACTION_VERSION_UNKNOWN = -1
"""What a data batch has, and a marker that comes by replication: only the request that asked for it knew."""

SEQUENCE_MAX = 2**31 - 1
PRODUCER_EPOCH_MAX = 2**15 - 1


class CompletedTxn(NamedTuple):
    """A transaction whose marker is being appended, at `last_offset`."""

    producer_id: int
    first_offset: int
    last_offset: int
    is_aborted: bool


class TxnMetadata:
    """A transaction of a log, open or closed: `last_offset` is its marker's offset, None while it is open."""

    __slots__ = ("first_offset", "last_offset", "producer_id")

    def __init__(self, producer_id: int, first_offset: OffsetMetadata, last_offset: int | None = None) -> None:
        self.producer_id = producer_id
        self.first_offset = first_offset
        self.last_offset = last_offset

    def __repr__(self) -> str:
        return f"TxnMetadata({self.producer_id}, {self.first_offset}, last_offset={self.last_offset})"


class ProducerAppend:
    """The batches of one producer within one append. `updated` is its entry as it will be, `started` what it begins."""

    __slots__ = ("_current", "_origin", "_partition", "_verification", "started", "updated")

    def __init__(
        self,
        partition: TopicPartition,
        current: ProducerStateEntry,
        origin: AppendOrigin,
        verification: VerificationState | None,
    ) -> None:
        self._partition = partition
        self._current = current
        self._origin = origin
        self._verification = verification
        self.updated = current.without_batches()
        self.started: list[TxnMetadata] = []

    def append(self, batch: Batch, first_offset: OffsetMetadata, transaction_version: int) -> CompletedTxn | None:
        """Try one batch; returns the transaction it completes. Raises what the producer or the coordinator is told."""
        if not batch.is_control:
            self.append_data(batch, first_offset)
            return None
        records = batch.records()
        if not records:
            return None  # all that compaction has left of a transaction whose records are gone
        marker = EndTransactionMarker.decode(records[0].key, records[0].value)
        return self.append_marker(marker, batch, records[0].timestamp, transaction_version)

    def append_data(self, batch: Batch, first_offset: OffsetMetadata) -> None:
        offset = batch.base_offset
        self._check_epoch(batch.producer_epoch, offset, TRANSACTION_VERSION_UNKNOWN)
        if self._origin == AppendOrigin.CLIENT:
            self._check_sequence(batch.producer_epoch, batch.base_sequence, offset)
        updated = self.updated
        updated.add_batch(
            batch.producer_epoch,
            BatchMetadata(batch.last_sequence, batch.last_offset, batch.last_offset_delta, batch.max_timestamp),
        )
        if batch.is_transactional:
            if updated.txn_first_offset is None:
                updated.txn_first_offset = offset
                self.started.append(TxnMetadata(updated.producer_id, first_offset))
        elif updated.txn_first_offset is not None:
            raise InvalidTxnState(
                f"Producer {updated.producer_id} sent a batch outside of its transaction, open since offset "
                f"{updated.txn_first_offset}, at offset {offset} in {self._partition}"
            )

    def append_marker(
        self, marker: EndTransactionMarker, batch: Batch, timestamp: int, transaction_version: int
    ) -> CompletedTxn | None:
        offset = batch.base_offset
        if transaction_version == TRANSACTION_VERSION_UNKNOWN:
            assert self._origin == AppendOrigin.REPLICATION, f"a marker from {self._origin!r} has a transaction version"
            # The leader has held the marker to its version; the rule of version 0 lets everything through that it did.
            transaction_version = 0
        self._check_epoch(batch.producer_epoch, offset, transaction_version)
        self._check_coordinator_epoch(marker.coordinator_epoch, offset)
        updated = self.updated
        first_offset = updated.txn_first_offset
        updated.end_transaction(batch.producer_epoch, marker.coordinator_epoch, timestamp)
        # A transaction without records holds nothing back and needs no entry in the transaction index.
        if first_offset is None:
            return None
        return CompletedTxn(updated.producer_id, first_offset, offset, marker.type is ControlType.ABORT)

    def _check_epoch(self, producer_epoch: int, offset: int, transaction_version: int) -> None:
        """Below the current epoch is a zombie. From transaction version 2 on, every marker raises the epoch."""
        updated = self.updated
        current = updated.producer_epoch
        is_strict = transaction_version >= 2
        if producer_epoch > current or (producer_epoch == current and not is_strict):
            return
        if is_strict and producer_epoch == current:
            # The marker was written already and its answer got lost, or its coordinator has moved (KAFKA-19999). At
            # the highest epoch there is no next one: an open transaction must be able to end all the same.
            is_repeated = updated.txn_first_offset is None or producer_epoch == PRODUCER_EPOCH_MAX
            if is_repeated:
                return
        message = (
            f"Epoch of producer {updated.producer_id} at offset {offset} in {self._partition} is {producer_epoch}, "
            f"which is {'not above' if is_strict else 'below'} the last seen epoch {current}"
        )
        if self._origin != AppendOrigin.REPLICATION:
            raise InvalidProducerEpoch(message)
        log.warning("[ProducerState %s] %s; taken as the leader has it", self._partition, message)

    def _check_sequence(self, producer_epoch: int, first_sequence: int, offset: int) -> None:
        current, updated = self._current, self.updated
        verification = self._verification
        if verification is not None:
            if verification.supports_epoch_bump and first_sequence != 0 and not current.batches:
                raise self._out_of_order(first_sequence, offset, "0 is the first of a producer without state here")
            if first_sequence > verification.lowest_sequence:
                raise self._out_of_order(first_sequence, offset, f"{verification.lowest_sequence} has to come before")
        if producer_epoch != updated.producer_epoch:
            if first_sequence != 0 and updated.producer_epoch != NO_PRODUCER_EPOCH:
                raise self._out_of_order(
                    first_sequence, offset, f"0 is the first of epoch {producer_epoch}, after {updated.producer_epoch}"
                )
            return
        if updated.batches:
            last_sequence = updated.last_sequence
        elif producer_epoch == current.producer_epoch:
            last_sequence = current.last_sequence
        else:
            last_sequence = NO_SEQUENCE
        # A producer that is not known any more, because its records were deleted, goes on where it is.
        if current.producer_epoch != NO_PRODUCER_EPOCH and not is_next_sequence(last_sequence, first_sequence):
            raise self._out_of_order(first_sequence, offset, f"the last sequence was {last_sequence}")

    def _out_of_order(self, sequence: int, offset: int, reason: str) -> OutOfOrderSequenceNumber:
        return OutOfOrderSequenceNumber(
            f"Out of order sequence number for producer {self.updated.producer_id} at offset {offset} in "
            f"{self._partition}: {sequence} came, and {reason}"
        )

    def _check_coordinator_epoch(self, coordinator_epoch: int, offset: int) -> None:
        current = self.updated.coordinator_epoch
        if coordinator_epoch >= current:
            return
        message = (
            f"Coordinator epoch of producer {self.updated.producer_id} at offset {offset} in {self._partition} is "
            f"{coordinator_epoch}, which is below the last seen epoch {current}"
        )
        if self._origin != AppendOrigin.REPLICATION:
            raise TransactionCoordinatorFenced(message)
        log.info("[ProducerState %s] %s; taken as the leader has it", self._partition, message)


def is_next_sequence(last_sequence: int, sequence: int) -> bool:
    """Whether `sequence` follows `last_sequence`; after the largest comes 0."""
    return sequence == last_sequence + 1 or (sequence == 0 and last_sequence == SEQUENCE_MAX)
