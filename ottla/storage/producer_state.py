"""The producers of one log: what each has written, which transactions are open, and snapshots of all that.

Promises: a batch that is in the log already is recognised among the last five of its producer; a zombie's is refused;
no record of an open transaction lies below the first unstable offset. State follows the log: it changes only when
batches are in it (`apply`, `replay`), and a snapshot at an offset equals a replay of the log up to there, but for
producers that have expired.

An append goes in three steps. `analyze` checks the batches and changes nothing, but that a verification which let one
of them pass is used up. When they are written, `apply` takes them over. For each transaction that ended,
`last_stable_offset` tells what the transaction index needs, and `complete` closes it.
Called by `log`, `rebuild` and `loader`; the clock is theirs, and comes in as `now_ms`.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Sequence
from dataclasses import dataclass

from ottla.errors import InvalidProducerEpoch, InvalidTxnState
from ottla.records import NO_PRODUCER_ID, Batch
from ottla.storage.damage import DamagedFile
from ottla.storage.offset_metadata import OffsetMetadata
from ottla.storage.producer_append import (
    SEQUENCE_MAX,
    TRANSACTION_VERSION_UNKNOWN,
    CompletedTxn,
    ProducerAppend,
    TxnMetadata,
)
from ottla.storage.producer_entry import BATCHES_MAX, BatchMetadata, ProducerStateEntry
from ottla.storage.producer_snapshot import decode_snapshot, encode_snapshot
from ottla.storage.snapshot_files import SnapshotFiles
from ottla.storage.validator import AppendOrigin
from ottla.storage.verification import VerificationGuard, VerificationState
from ottla.types import TopicPartition
from ottla.world import Disk

log = logging.getLogger(__name__)

# A member of an enum costs a call where it is named.
_CLIENT = AppendOrigin.CLIENT

LATE_TRANSACTION_BUFFER_MS = 5 * 60 * 1000
"""How long after its timeout a transaction counts as late: the coordinator needs time to abort it."""


@dataclass(slots=True)
class ProducerStateConfig:
    """Settings that all logs of a broker share; the object is shared too, so a dynamic change reaches them all."""

    producer_id_expiration_ms: int = 86_400_000
    transaction_max_timeout_ms: int = 900_000
    transaction_partition_verification_enable: bool = True


class ProducerUpdate:
    """What an append will change, once it is written.

    `duplicate` is the batch that is in the log already; then nothing is to be appended. `completed` are the
    transactions whose markers are among the batches.
    """

    __slots__ = ("appends", "completed", "duplicate", "entry", "metadata")

    def __init__(self, entry: ProducerStateEntry | None = None, metadata: BatchMetadata | None = None) -> None:
        self.entry = entry
        self.metadata = metadata
        self.appends: dict[int, ProducerAppend] | None = None
        self.completed: Sequence[CompletedTxn] = ()
        self.duplicate: BatchMetadata | None = None


class ProducerStateManager:
    """The producers of the log in `directory`. `map_end_offset` is the log offset up to which the state reaches."""

    def __init__(
        self,
        disk: Disk,
        directory: str,
        partition: TopicPartition,
        config: ProducerStateConfig,
        *,
        snapshots: SnapshotFiles | None = None,
    ) -> None:
        """State begins empty; `truncate_and_reload` fills it. `snapshots` are the directory's, if they are known."""
        self.partition = partition
        self.config = config
        self.producers: dict[int, ProducerStateEntry] = {}
        self.map_end_offset = 0
        self._snapshot_offset = 0
        self._verifications: dict[int, VerificationState] = {}
        # By first offset, in its order. Transactions begin in that order nearly always; `_put` mends the rest.
        self._ongoing: dict[int, TxnMetadata] = {}
        # Closed, but by a marker that is not below the high watermark yet.
        self._unreplicated: dict[int, TxnMetadata] = {}
        self.snapshots = SnapshotFiles(disk, directory) if snapshots is None else snapshots

    # What it knows

    @property
    def is_empty(self) -> bool:
        return not self.producers and not self._unreplicated

    @property
    def first_unstable_offset(self) -> OffsetMetadata | None:
        """Where the first transaction begins that is open, or whose marker may yet be lost; None without one."""
        if not self._ongoing:
            return self._first(self._unreplicated).first_offset if self._unreplicated else None
        undecided = self._first(self._ongoing).first_offset
        if not self._unreplicated:
            return undecided
        unreplicated = self._first(self._unreplicated).first_offset
        return undecided if undecided.offset < unreplicated.offset else unreplicated

    @property
    def first_undecided_offset(self) -> int | None:
        """Where the first open transaction begins, whatever is replicated."""
        return next(iter(self._ongoing)) if self._ongoing else None

    @property
    def ongoing_transactions(self) -> list[TxnMetadata]:
        """Open transactions by their first offset."""
        return list(self._ongoing.values())

    @property
    def unreplicated_transactions(self) -> list[TxnMetadata]:
        """Closed ones that still hold the last stable offset back, by their first offset."""
        return list(self._unreplicated.values())

    def has_ongoing_transaction(self, producer_id: int, producer_epoch: int) -> bool:
        """A newer epoch's question is answered with no: the transaction of the older one may be over by then."""
        entry = self.producers.get(producer_id)
        return entry is not None and entry.txn_first_offset is not None and entry.producer_epoch == producer_epoch

    def has_late_transaction(self, now_ms: int) -> bool:
        """Whether the oldest open transaction has been silent for longer than any may last: it hangs, probably."""
        if not self._ongoing:
            return False
        entry = self.producers.get(self._first(self._ongoing).producer_id)
        if entry is None or entry.last_timestamp <= 0:
            return False
        return now_ms - entry.last_timestamp > self.config.transaction_max_timeout_ms + LATE_TRANSACTION_BUFFER_MS

    @staticmethod
    def _first(transactions: dict[int, TxnMetadata]) -> TxnMetadata:
        return next(iter(transactions.values()))

    # Append

    def analyze(
        self,
        batches: Sequence[Batch],
        origin: AppendOrigin,
        segment_base_offset: int = -1,
        position: int = -1,
        verification_guard: object | None = None,
        transaction_version: int = TRANSACTION_VERSION_UNKNOWN,
    ) -> ProducerUpdate:
        """Check batches that have their offsets and are about to be appended, the first at `position` of the segment.

        Raises `OutOfOrderSequenceNumber`, `InvalidProducerEpoch`, `TransactionCoordinatorFenced`, `InvalidTxnState`, or
        `InvalidRecord` for a marker that is none.
        """
        if origin is _CLIENT and len(batches) == 1:
            # The common case first: a producer goes on where it is, and nothing but its entry will change.
            batch = batches[0]
            entry = self.producers.get(batch.producer_id)
            if entry is not None:
                metadata = self.next_of(entry, batch)
                if metadata is not None:
                    return ProducerUpdate(entry, metadata)
        return self._analyze_fully(
            batches, origin, segment_base_offset, position, verification_guard, transaction_version
        )

    def next_of(self, entry: ProducerStateEntry, batch: Batch) -> BatchMetadata | None:
        """A client's batch, if it is the next of a known producer, inside or outside of a transaction as before."""
        known = entry.batches
        if not known or batch.producer_epoch != entry.producer_epoch or batch.is_control:
            return None
        last = known[-1].last_sequence
        sequence = batch.base_sequence
        if sequence != last + 1 and (sequence != 0 or last != SEQUENCE_MAX):
            return None
        if batch.is_transactional is (entry.txn_first_offset is None) or batch.producer_id in self._verifications:
            return None
        end = batch.last_sequence
        # What a leader or a coordinator appended was not held to an order, so even the next sequence may be known.
        for batch_known in known:
            if batch_known.last_sequence == end:
                return None
        delta = batch.last_offset_delta
        return BatchMetadata(end, batch.base_offset + delta, delta, batch.max_timestamp)

    def _analyze_fully(
        self,
        batches: Sequence[Batch],
        origin: AppendOrigin,
        segment_base_offset: int,
        position: int,
        verification_guard: object | None,
        transaction_version: int,
    ) -> ProducerUpdate:
        update = ProducerUpdate()
        appends: dict[int, ProducerAppend] = {}
        completed = []
        for batch in batches:
            if batch.producer_id > NO_PRODUCER_ID:
                if origin == AppendOrigin.CLIENT:
                    update.duplicate = self._find_duplicate(batch)
                    if update.duplicate is not None:
                        return update
                if batch.is_transactional and origin in (AppendOrigin.CLIENT, AppendOrigin.COORDINATOR):
                    self._check_verified(batch, verification_guard)
                # With its place, the start of a transaction can bound a read without another search.
                first_offset = OffsetMetadata(batch.base_offset, segment_base_offset, position)
                ended = self._try(appends, batch, first_offset, origin, transaction_version)
                if ended is not None:
                    completed.append(ended)
            if position >= 0:
                position += batch.size
        update.appends = appends
        update.completed = completed
        return update

    def _find_duplicate(self, batch: Batch) -> BatchMetadata | None:
        entry = self.producers.get(batch.producer_id)
        return None if entry is None else entry.find_duplicate(batch)

    def _check_verified(self, batch: Batch, guard: object | None) -> None:
        """A batch may open a transaction only if its coordinator knows of it, which the guard of this very attempt
        proves. Without that, a batch that comes late would open a transaction that nobody ever ends."""
        if self.has_ongoing_transaction(batch.producer_id, batch.producer_epoch):
            return
        entry = self.producers.get(batch.producer_id)
        if entry is not None and batch.producer_epoch < entry.producer_epoch:
            raise InvalidProducerEpoch(
                f"Epoch of producer {batch.producer_id} in {self.partition} is {batch.producer_epoch}, which is below "
                f"the last seen epoch {entry.producer_epoch}"
            )
        if not self.config.transaction_partition_verification_enable or batch.is_control:
            return
        verification = self._verifications.get(batch.producer_id)
        if guard is None or verification is None or verification.guard is not guard:
            raise InvalidTxnState(
                f"Producer {batch.producer_id} has no ongoing transaction in {self.partition} that the batch with "
                f"sequence {batch.base_sequence} could be part of"
            )

    def _try(
        self,
        appends: dict[int, ProducerAppend],
        batch: Batch,
        first_offset: OffsetMetadata,
        origin: AppendOrigin,
        transaction_version: int,
    ) -> CompletedTxn | None:
        producer_id = batch.producer_id
        append = appends.get(producer_id)
        if append is None:
            current = self.producers.get(producer_id) or ProducerStateEntry(producer_id)
            append = ProducerAppend(self.partition, current, origin, self._verifications.get(producer_id))
            appends[producer_id] = append
        ended = append.append(batch, first_offset, transaction_version)
        if batch.is_transactional and self._verifications:
            self._end_verification(batch)
        return ended

    def apply(self, update: ProducerUpdate) -> None:
        """The batches are in the log: take over what `analyze` found."""
        assert update.duplicate is None, "a duplicate is answered, not appended"
        entry, metadata = update.entry, update.metadata
        if entry is not None and metadata is not None:
            entry.add_batch(entry.producer_epoch, metadata)
            return
        assert update.appends is not None, "an update has one producer's next batch, or all that were tried"
        for append in update.appends.values():
            self._take(append)

    def _take(self, append: ProducerAppend) -> None:
        updated = append.updated
        entry = self.producers.get(updated.producer_id)
        if entry is None:
            self.producers[updated.producer_id] = updated
        else:
            entry.take(updated)
        for transaction in append.started:
            self._put(self._ongoing, transaction)

    def replay(self, batch: Batch) -> CompletedTxn | None:
        """Take over a batch that is in the log: recovery and truncation rebuild the state so. Returns the transaction
        it ends, for the caller to `complete`."""
        if batch.producer_id <= NO_PRODUCER_ID:
            return None
        entry = self.producers.get(batch.producer_id)
        is_outside = (
            entry is not None
            and entry.txn_first_offset is not None
            and not batch.is_transactional
            and not batch.is_control
        )
        if is_outside:
            # The marker in between was lost with unflushed records. The transaction stays open, so that none of it is
            # seen. Kafka refuses such a batch here too, and a broker that finds one in its log does not start.
            log.warning(
                "[ProducerState %s] %s is outside of its producer's open transaction, whose marker was lost",
                self.partition, batch,
            )  # fmt: skip
        if entry is not None and (
            is_outside
            or (
                batch.producer_epoch == entry.producer_epoch
                and not batch.is_control
                and batch.is_transactional is (entry.txn_first_offset is not None)
                and not self._verifications
            )
        ):
            metadata = BatchMetadata(
                batch.last_sequence, batch.last_offset, batch.last_offset_delta, batch.max_timestamp
            )
            entry.add_batch(batch.producer_epoch, metadata)
            return None
        appends: dict[int, ProducerAppend] = {}
        ended = self._try(
            appends, batch, OffsetMetadata(batch.base_offset), AppendOrigin.REPLICATION, transaction_version=0
        )
        self._take(appends[batch.producer_id])
        return ended

    def last_stable_offset(self, completed: CompletedTxn) -> int:
        """The last stable offset once `completed` is: for the transaction index, which is written before it is."""
        for transaction in self._ongoing.values():
            if transaction.producer_id != completed.producer_id:
                return transaction.first_offset.offset
        return completed.last_offset + 1

    def complete(self, completed: CompletedTxn) -> None:
        """Close a transaction. It holds the last stable offset back until its marker is below the high watermark."""
        transaction = self._ongoing.pop(completed.first_offset, None)
        assert transaction is not None, f"{self.partition}: {completed} was never started"
        transaction.last_offset = completed.last_offset
        self._put(self._unreplicated, transaction)

    def on_high_watermark_updated(self, high_watermark: int) -> None:
        """Transactions whose markers are below it cannot be undone any more."""
        if self._unreplicated:
            self._unreplicated = {
                offset: transaction
                for offset, transaction in self._unreplicated.items()
                if transaction.last_offset is None or transaction.last_offset >= high_watermark
            }

    def _put(self, transactions: dict[int, TxnMetadata], transaction: TxnMetadata) -> None:
        """Insert by first offset, keeping the order."""
        offset = transaction.first_offset.offset
        is_last = not transactions or offset > next(reversed(transactions))
        transactions[offset] = transaction
        if not is_last:
            in_order = sorted(transactions.items())
            transactions.clear()
            transactions.update(in_order)

    # Verification (KIP-890)

    def start_verification(
        self, producer_id: int, *, sequence: int, producer_epoch: int, supports_epoch_bump: bool, now_ms: int
    ) -> VerificationGuard | None:
        """Before the coordinator is asked: the guard to append with, or None when the transaction is open already."""
        entry = self.producers.get(producer_id)
        if entry is not None and producer_epoch < entry.producer_epoch:
            raise InvalidProducerEpoch(
                f"Epoch of producer {producer_id} in {self.partition} is {producer_epoch}, which is below the last "
                f"seen epoch {entry.producer_epoch}"
            )
        if self.has_ongoing_transaction(producer_id, producer_epoch):
            return None
        verification = self._verifications.get(producer_id)
        if verification is None:
            verification = VerificationState(now_ms, sequence, producer_epoch, supports_epoch_bump=supports_epoch_bump)
            self._verifications[producer_id] = verification
        verification.saw(sequence, producer_epoch)
        return verification.guard

    def verification(self, producer_id: int) -> VerificationState | None:
        return self._verifications.get(producer_id)

    def _end_verification(self, batch: Batch) -> None:
        """The transaction has its first batch now, or its end: the guard has served."""
        verification = self._verifications.get(batch.producer_id)
        # With an epoch for each transaction, a marker of the verification's own epoch ends the one before it.
        is_for_next = (
            verification is not None
            and verification.supports_epoch_bump
            and batch.is_control
            and batch.producer_epoch == verification.producer_epoch
        )
        if not is_for_next:
            self._verifications.pop(batch.producer_id, None)

    # Time and truncation

    def remove_expired(self, now_ms: int) -> None:
        """Forget producers and verifications that have been silent for too long. An open transaction never expires."""
        self.producers = {
            producer_id: entry for producer_id, entry in self.producers.items() if not self._has_expired(entry, now_ms)
        }
        expiration_ms = self.config.producer_id_expiration_ms
        self._verifications = {
            producer_id: verification
            for producer_id, verification in self._verifications.items()
            if now_ms - verification.created_ms < expiration_ms
        }

    def _has_expired(self, entry: ProducerStateEntry, now_ms: int) -> bool:
        if entry.txn_first_offset is not None:
            return False
        return now_ms - entry.last_timestamp >= self.config.producer_id_expiration_ms

    def on_log_start_offset_incremented(self, log_start_offset: int) -> None:
        """The log begins later now. Producers stay known, also when their records are gone."""
        self.on_high_watermark_updated(log_start_offset)
        self.map_end_offset = max(self.map_end_offset, log_start_offset)
        latest = self.latest_snapshot_offset
        self._snapshot_offset = log_start_offset if latest is None else latest

    def truncate_fully_and_start_at(self, offset: int) -> None:
        """Forget everything and remove every snapshot: the log begins anew at `offset`."""
        self._forget()
        for snapshot in list(self.snapshots.offsets):
            self.snapshots.remove(snapshot)
        self._snapshot_offset = 0
        self.map_end_offset = offset

    def truncate_and_reload(self, log_start_offset: int, log_end_offset: int, now_ms: int) -> None:
        """Go back to the newest snapshot inside the log, and remove those outside of it.

        The caller replays the log from `map_end_offset` on. The log end must not lie above the high watermark, because
        what is known of unreplicated transactions goes too. State that reaches exactly to the end stays as it is.
        """
        self.snapshots.remove_outside(log_start_offset, log_end_offset)
        if log_end_offset == self.map_end_offset:
            self.on_log_start_offset_incremented(log_start_offset)
            return
        self._forget()
        self._snapshot_offset = self.map_end_offset = self._load_snapshot(log_start_offset, now_ms)

    def take_batches_of(self, other: ProducerStateManager) -> None:
        """Remember the older batches, too, of every producer whose last one `other` knows as this state does."""
        for producer_id, entry in self.producers.items():
            known = other.producers.get(producer_id)
            if known is None or known.producer_epoch != entry.producer_epoch or not known.batches:
                continue
            # Compared without the timestamp: a snapshot has the producer's last one, which may be a marker's.
            if entry.batches and entry.batches[0][:3] == known.batches[-1][:3]:
                entry.batches = [*known.batches[:-1], *entry.batches][-BATCHES_MAX:]

    def _load_snapshot(self, log_start_offset: int, now_ms: int) -> int:
        """Read the newest snapshot that is whole, removing those that are not; returns where its state ends."""
        snapshots = self.snapshots
        while snapshots.offsets:
            offset = snapshots.offsets[-1]
            try:
                entries = decode_snapshot(snapshots.path(offset), snapshots.read(offset))
            except DamagedFile as damage:
                log.warning("[ProducerState %s] Removing a damaged producer snapshot: %s", self.partition, damage)
                snapshots.remove(offset)
                continue
            for entry in entries:
                if not self._has_expired(entry, now_ms):
                    self.load(entry)
            return offset
        return log_start_offset

    def load(self, entry: ProducerStateEntry) -> None:
        """Take over a producer as a snapshot has it."""
        self.producers[entry.producer_id] = entry
        if entry.txn_first_offset is not None:
            self._put(self._ongoing, TxnMetadata(entry.producer_id, OffsetMetadata(entry.txn_first_offset)))

    def _forget(self) -> None:
        self.producers.clear()
        self._ongoing.clear()
        self._unreplicated.clear()

    # Snapshots

    @property
    def latest_snapshot_offset(self) -> int | None:
        offsets = self.snapshots.offsets
        return offsets[-1] if offsets else None

    @property
    def oldest_snapshot_offset(self) -> int | None:
        offsets = self.snapshots.offsets
        return offsets[0] if offsets else None

    def take_snapshot(self, *, sync: bool = True) -> str | None:
        """Write the state at `map_end_offset`; returns the file, or None when there is nothing new since the last.

        With `sync` it is durable on return; a log that is about to be closed needs that, because the next start
        believes the newest snapshot. Otherwise the caller syncs the file before it moves the recovery point. A torn
        file does no harm: it is found out, and an older one serves.
        """
        offset = self.map_end_offset
        if offset <= self._snapshot_offset:
            return None
        path = self.snapshots.write(offset, encode_snapshot(self.producers.values()), sync=sync)
        self._snapshot_offset = offset
        return path

    def remove_stray_snapshots(self, segment_base_offsets: Collection[int]) -> None:
        """Remove the snapshots that belong to no segment, but for the log's end."""
        self.snapshots.remove_strays(segment_base_offsets)

    def delete_snapshots_before(self, offset: int) -> None:
        self.snapshots.remove_before(offset)

    def remove_and_mark_snapshot_for_deletion(self, offset: int) -> str | None:
        """Give a snapshot its deleted name, which the caller removes later; None when there is no such file."""
        return self.snapshots.mark_deleted(offset)

    def move_to(self, directory: str) -> None:
        """The log's directory has got another name."""
        self.snapshots.directory = directory
