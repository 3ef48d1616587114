"""What a log remembers of one producer: its epoch, its last batches, its open transaction.

Promises: at most `BATCHES_MAX` batches are kept, the newest, all of the current epoch; a client that has at most five
requests in flight finds any batch it may send again among them (KIP-98).
Held by `producer_state`, changed by it and by `producer_append`.
"""

from __future__ import annotations

from typing import NamedTuple

from ottla.records import NO_PRODUCER_EPOCH, NO_SEQUENCE, NO_TIMESTAMP, Batch, decrement_sequence

BATCHES_MAX = 5
NO_COORDINATOR_EPOCH = -1
NO_OFFSET = -1


class BatchMetadata(NamedTuple):
    """A batch in the log, as far as telling whether it comes a second time."""

    last_sequence: int
    last_offset: int
    offset_delta: int
    timestamp: int

    @property
    def first_sequence(self) -> int:
        return decrement_sequence(self.last_sequence, self.offset_delta)

    @property
    def first_offset(self) -> int:
        return self.last_offset - self.offset_delta


class ProducerStateEntry:
    """The state of one producer id. `txn_first_offset` is where its open transaction begins; None without one."""

    __slots__ = (
        "batches",
        "coordinator_epoch",
        "is_from_snapshot",
        "last_timestamp",
        "producer_epoch",
        "producer_id",
        "txn_first_offset",
    )

    def __init__(
        self,
        producer_id: int,
        producer_epoch: int = NO_PRODUCER_EPOCH,
        coordinator_epoch: int = NO_COORDINATOR_EPOCH,
        last_timestamp: int = NO_TIMESTAMP,
        txn_first_offset: int | None = None,
    ) -> None:
        self.producer_id = producer_id
        self.producer_epoch = producer_epoch
        self.coordinator_epoch = coordinator_epoch
        self.last_timestamp = last_timestamp
        self.txn_first_offset = txn_first_offset
        # A list, though the oldest goes first: there may be very many producers, and a deque takes 700 bytes more.
        self.batches: list[BatchMetadata] = []
        self.is_from_snapshot = False
        """Whether the log may hold older batches of this epoch than `batches`: a snapshot has only the last one."""

    @property
    def last_sequence(self) -> int:
        return self.batches[-1].last_sequence if self.batches else NO_SEQUENCE

    @property
    def last_data_offset(self) -> int:
        """The offset of the producer's last record; -1 when only markers are known."""
        return self.batches[-1].last_offset if self.batches else NO_OFFSET

    @property
    def last_offset_delta(self) -> int:
        return self.batches[-1].offset_delta if self.batches else 0

    def without_batches(self) -> ProducerStateEntry:
        """A copy to try an append on: only the batches of that append will be in it."""
        return ProducerStateEntry(
            self.producer_id, self.producer_epoch, self.coordinator_epoch, self.last_timestamp, self.txn_first_offset
        )

    def add_batch(self, producer_epoch: int, batch: BatchMetadata) -> None:
        self._enter_epoch(producer_epoch)
        self.batches.append(batch)
        if len(self.batches) > BATCHES_MAX:
            del self.batches[0]
        self.last_timestamp = batch.timestamp

    def end_transaction(self, producer_epoch: int, coordinator_epoch: int, timestamp: int) -> None:
        """A marker closes the open transaction, if there is one. It may also begin a new epoch (KIP-890)."""
        self._enter_epoch(producer_epoch)
        self.coordinator_epoch = coordinator_epoch
        self.txn_first_offset = None
        self.last_timestamp = timestamp

    def take(self, tried: ProducerStateEntry) -> None:
        """Make an append that was tried on a copy part of this entry."""
        self._enter_epoch(tried.producer_epoch)
        self.batches = [*self.batches, *tried.batches][-BATCHES_MAX:]
        self.coordinator_epoch = tried.coordinator_epoch
        self.txn_first_offset = tried.txn_first_offset
        self.last_timestamp = tried.last_timestamp

    def find_duplicate(self, batch: Batch) -> BatchMetadata | None:
        """The remembered batch with the same epoch and sequences: `batch` is in the log already."""
        if batch.producer_epoch != self.producer_epoch:
            return None
        first, last = batch.base_sequence, batch.last_sequence
        for known in self.batches:
            if known.last_sequence == last and known.first_sequence == first:
                return known
        return None

    def _enter_epoch(self, producer_epoch: int) -> None:
        if producer_epoch != self.producer_epoch:
            self.batches.clear()
            self.is_from_snapshot = False
            self.producer_epoch = producer_epoch

    def __repr__(self) -> str:
        return (
            f"ProducerStateEntry(producer_id={self.producer_id}, producer_epoch={self.producer_epoch}, "
            f"txn_first_offset={self.txn_first_offset}, coordinator_epoch={self.coordinator_epoch}, "
            f"last_timestamp={self.last_timestamp}, batches={self.batches})"
        )
