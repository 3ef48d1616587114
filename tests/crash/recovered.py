"""What a log serves, compared with what the model says it must: content, views, look-ups, producers, epochs, files.

Everything is worked out a second time from the records, in the plainest way, and compared with the log's own answer.
Called after every recovery, and by the workload after a compaction.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from random import Random

from ottla.records import Batch, ControlType, Row, batches
from ottla.storage import Isolation, Log, LogManager, SpecialTimestamp
from ottla.world import Disk
from tests.support.log_model import (
    NodeModel,
    PartitionModel,
    StoredBatch,
    Transaction,
    find_transactions,
    replay_producers,
)

LEFTOVERS = (".cleaned", ".swap", ".deleted", "-delete")


@dataclass(slots=True)
class Found:
    """What a log has served, from its start to its end."""

    start: int
    end: int
    batches: list[StoredBatch]
    written: list[StoredBatch] = field(default_factory=list)
    """The batches that had to be there, as they were before any compaction, and those that happened to be."""

    @property
    def rows(self) -> list[Row]:
        return [row for stored in self.batches for row in stored.rows if row[0] >= self.start]

    @property
    def offsets(self) -> set[int]:
        return {row[0] for row in self.rows}


def read_log(log: Log, random: Random) -> Found:
    """Read everything as a replica does, in pieces of random sizes; every checksum must be right."""
    found: list[StoredBatch] = []
    offset = log.log_start_offset
    while offset < log.log_end_offset:
        read = log.read(offset, bytes_max=random.choice((1, 700, 5000)), isolation=Isolation.LOG_END)
        if read.slice is None:
            break  # compaction has left nothing from here on
        data = read.slice.read()
        whole = list(batches(data))
        assert whole, f"{log}: the read at {offset} brought no whole batch in {len(data)} bytes"
        for batch in whole:
            assert batch.check_crc(), f"{log}: a torn batch is served: {batch}"
            assert batch.last_offset >= offset, f"{log}: {batch} is served to a reader at {offset}"
            found.append(StoredBatch(bytes(batch.data)))
            offset = batch.next_offset
    return Found(log.log_start_offset, log.log_end_offset, found)


def check_node(
    model: NodeModel, manager: LogManager, random: Random, *, is_durable: bool, offline: Sequence[str] = ()
) -> None:
    """Compare a node that has just recovered with the model, and let the model go on from there.

    `is_durable` unless only the process has died; partitions in `offline` directories cannot be asked.
    """
    known = {name for name, partition in model.partitions.items() if partition.directory not in offline}
    for name in sorted(manager.logs):
        assert name in known, f"{name} is there again, although it was deleted"
    for name in sorted(known):
        partition = model.partitions[name]
        log = manager.logs.get(name)
        if log is None:
            assert not partition.is_certain, f"{name} is gone"
            del model.partitions[name]
            continue
        found = check_log(partition, log, random, is_recovered=True)
        partition.adopt(found.written, start=found.start, end=found.end, offsets=found.offsets, is_durable=is_durable)
        partition.high_watermark = log.high_watermark


def check_leftovers(manager: LogManager, disk: Disk) -> None:
    """Nothing of what was under way at the crash is left."""
    for directory in manager.live_directories:
        names = []
        for entry in disk.scan(directory.path):
            names.append(entry.name)
            if entry.is_dir:
                names += [f"{entry.name}/{name}" for name in disk.names(f"{directory.path}/{entry.name}")]
        left = [name for name in names if name.endswith(LEFTOVERS)]
        assert not left, f"{directory.path} still holds {left}"


def check_log(model: PartitionModel, log: Log, random: Random, *, is_recovered: bool) -> Found:
    """Compare one log with its model. `is_recovered`: it may have lost what was not flushed and kept what was not
    acknowledged; otherwise it has to be exactly as acknowledged."""
    found = read_log(log, random)
    if is_recovered:
        _check_bounds(model, found, log)
    else:
        assert (found.start, found.end) == (model.start, model.end), (
            f"{log} holds [{found.start}, {found.end}), and [{model.start}, {model.end}) was acknowledged"
        )
    written = found.written = _written(model, found, is_recovered=is_recovered)
    _check_content(model, found, written, log)
    if model.is_compacted:
        _check_compaction(model, found, written, log)
    _check_every_offset(log, found)
    _check_epochs(model, log, found)
    _check_producers(model, log, found, written)
    _check_indexes(log)
    _check_times(log, found, random, is_compacted=model.is_compacted)
    log.update_high_watermark(log.log_end_offset)
    _check_committed_view(model, log, found, written, random)
    return found


def _written(model: PartitionModel, found: Found, *, is_recovered: bool) -> list[StoredBatch]:
    """What has to be there, and what may be because it is."""
    if model.is_restarting and not found.batches:
        return []
    written = [stored for stored in model.history + model.pending if stored.base_offset < found.end]
    if not found.batches:  # everything is gone, and the log goes on at a start that may lie inside of a batch
        written = [stored for stored in written if stored.last_offset < found.end]
    if not model.is_compacted or not is_recovered:
        return written
    # Where a closed segment's end is lost and the next segment is not, a compacted log is left with a hole: nothing
    # tells it from the holes that compaction makes. Only what was not flushed can be missing there.
    present = {stored.base_offset for stored in found.batches}
    return [
        stored
        for stored in written
        if stored.base_offset < model.flushed_end or stored.last_offset < found.start or stored.base_offset in present
    ]


def _check_bounds(model: PartitionModel, found: Found, log: Log) -> None:
    end_max = model.pending[-1].next_offset if model.pending else model.end
    assert found.end <= max(end_max, model.start_max), f"{log} ends beyond {end_max}, the last offset ever appended"
    assert found.end >= model.certain_end, f"{log} lost what was flushed: everything below {model.certain_end}"
    assert found.start <= found.end, f"{log} begins beyond its end"
    assert model.start_floor <= found.start <= model.start_max, (
        f"{log} begins at {found.start}: {model.start_floor} was checkpointed, {model.start_max} is the furthest it got"
    )
    last = found.batches[-1].next_offset if found.batches else found.start
    assert found.end == last or (model.is_compacted and found.end > last), (
        f"{log} ends at {found.end}, and its last batch at {last}"
    )
    assert found.start <= log.high_watermark <= found.end, f"{log}: the high watermark is outside of the log"
    assert log.high_watermark >= min(model.high_watermark_floor, found.end), (
        f"{log}: the high watermark went back below {model.high_watermark_floor}, which was checkpointed"
    )


# Content


def _check_content(model: PartitionModel, found: Found, written: list[StoredBatch], log: Log) -> None:
    """Every batch is what was appended there; there are no holes but those of compaction."""
    by_offset = {stored.base_offset: stored for stored in written}
    for stored in found.batches:
        expected = by_offset.get(stored.base_offset)
        assert expected is not None, f"{log}: nothing was ever appended at the offset of {stored}"
        if not model.is_compacted or expected.base_offset >= model.clean_bound:
            _check_same(stored, expected, log)
        else:
            _check_remainder(stored, expected, log)
    present = {stored.base_offset for stored in found.batches}
    whole_from = max(found.start, model.clean_bound if model.is_compacted else 0)
    missing = [stored for stored in written if stored.last_offset >= whole_from and stored.base_offset not in present]
    assert not missing, f"{log} has a hole: {missing[0]} is missing, and batches behind it are there"


def _check_same(found: StoredBatch, expected: StoredBatch, log: Log) -> None:
    if expected.is_exact:
        assert found.data == expected.data, f"{log}: {found} is served, and {expected} was appended"
        return
    assert _identity(found.batch) == _identity(expected.batch), f"{log}: {found} is served for {expected}"
    assert found.rows == expected.rows, f"{log}: the records of {found} are not those of {expected}"


def _check_remainder(found: StoredBatch, expected: StoredBatch, log: Log) -> None:
    assert _identity(found.batch) == _identity(expected.batch), f"{log}: {found} is left of {expected}"
    appended = {row[0]: row for row in expected.rows}
    for row in found.rows:
        assert row == appended.get(row[0]), f"{log}: {row} is served, and {appended.get(row[0])} was appended"


def _identity(batch: Batch) -> tuple[object, ...]:
    return (
        batch.base_offset,
        batch.last_offset,
        batch.leader_epoch,
        batch.producer_id,
        batch.producer_epoch,
        batch.base_sequence,
        batch.is_transactional,
        batch.is_control,
        batch.timestamp_type,
    )


def _check_compaction(model: PartitionModel, found: Found, written: list[StoredBatch], log: Log) -> None:
    """What is missing was allowed to go, the latest value of every key is there, and nothing has come back."""
    present = found.offsets
    back = sorted(present & model.removed)
    assert not back, f"{log}: records at {back[:5]} were compacted away and are served again"
    transactions = find_transactions(written)
    decided = _Outcomes(transactions)
    latest: dict[bytes | None, Row] = {}
    for stored in written:
        if not stored.batch.is_control and decided.is_committed(stored):
            latest.update({row[2]: row for row in stored.rows})
    for stored in written:
        if stored.last_offset < found.start or stored.batch.is_control:
            continue
        may_go = decided.is_aborted(stored)
        for row in stored.rows:
            offset, _, key, value, _ = row
            newest = latest.get(key)
            if offset < found.start or offset in present or may_go:
                continue
            is_superseded = newest is not None and newest[0] > offset
            assert is_superseded or value is None, f"{log}: the latest value of key {key!r}, at {offset}, is gone"
    for row in found.rows:
        newest = latest.get(row[2])
        if newest is not None and newest[3] is None and newest[0] > row[0]:
            assert newest[0] in present, (
                f"{log}: the tombstone of key {row[2]!r} at {newest[0]} is gone, and its record at {row[0]} is served"
            )
    for transaction in transactions:
        marker = transaction.marker_offset
        if marker is not None and marker not in present and marker >= max(found.start, model.start_seen):
            left = [
                stored
                for stored in found.batches
                if stored.batch.producer_id == transaction.producer_id
                and transaction.first_offset <= stored.base_offset < marker
                and stored.rows
            ]
            assert not left, f"{log}: the marker at {marker} is gone, and {left[0]} of its transaction is there"


class _Outcomes:
    """How the transaction of a batch has ended."""

    def __init__(self, transactions: Sequence[Transaction]) -> None:
        self._by_producer: dict[int, list[Transaction]] = {}
        for transaction in transactions:
            self._by_producer.setdefault(transaction.producer_id, []).append(transaction)

    def of(self, stored: StoredBatch) -> Transaction | None:
        """None for a batch outside of any transaction."""
        if not stored.batch.is_transactional:
            return None
        for transaction in self._by_producer.get(stored.batch.producer_id, ()):
            marker = transaction.marker_offset
            if transaction.first_offset <= stored.base_offset and (marker is None or stored.base_offset <= marker):
                return transaction
        return None

    def is_aborted(self, stored: StoredBatch) -> bool:
        transaction = self.of(stored)
        return transaction is not None and transaction.is_aborted

    def is_committed(self, stored: StoredBatch) -> bool:
        transaction = self.of(stored)
        return transaction is None or (transaction.marker_offset is not None and not transaction.is_aborted)


# Look-ups


def _check_every_offset(log: Log, found: Found) -> None:
    last_offsets = [stored.last_offset for stored in found.batches]
    for offset in range(found.start, found.end):
        read = log.read(offset, bytes_max=1, isolation=Isolation.LOG_END)
        place = bisect_left(last_offsets, offset)
        if place == len(last_offsets):
            assert read.slice is None, f"{log}: something is served at {offset}, where nothing is left"
            continue
        assert read.slice is not None, f"{log}: offset {offset} cannot be read"
        expected = found.batches[place].data
        assert read.slice.read() == expected, f"{log}: offset {offset} is answered with another batch"


def _check_times(log: Log, found: Found, random: Random, *, is_compacted: bool) -> None:
    """The first record at or after a time, as a walk over all records finds it.

    As in Kafka, the answer is that of the first segment whose largest timestamp reaches the time, also when the record
    that has it lies below the log start, or is gone.
    """
    rows = found.rows
    timestamps = sorted({row[1] for row in rows})
    sample = random.sample(timestamps, min(8, len(timestamps)))
    segments = list(log.segments)
    for timestamp in [*(stamp + shift for stamp in sample for shift in (-1, 0, 1)), *timestamps[:1], *timestamps[-1:]]:
        expected = None
        for segment, following in zip(segments, [*segments[1:], None], strict=True):
            largest = max((batch.max_timestamp for _, batch in segment.batches()), default=segment.modified_ms)
            if largest >= timestamp:
                end = found.end if following is None else following.base_offset
                inside = (row for row in rows if segment.base_offset <= row[0] < end)
                expected = next(((row[1], row[0]) for row in inside if row[1] >= timestamp), None)
                break
        answer = log.offset_for_timestamp(timestamp)
        given = None if answer is None else (answer.timestamp, answer.offset)
        assert given == expected, f"{log}: time {timestamp} is answered with {given} instead of {expected}"
    newest = log.offset_for_timestamp(SpecialTimestamp.MAX_TIMESTAMP)
    # In the first segment a record below the log start may be the newest; Kafka answers with that one too.
    if rows and not is_compacted and not (newest is not None and newest.offset < found.start):
        first = next(row for row in rows if row[1] == timestamps[-1])
        assert newest is not None, f"{log}: no record has the largest timestamp"
        assert (newest.timestamp, newest.offset) == (first[1], first[0]), f"{log}: {newest} is not the newest"


def _check_epochs(model: PartitionModel, log: Log, found: Found) -> None:
    """Every batch lies in its epoch. What was below a log start that a crash took back may not be known any more."""
    entries = log.epochs.entries
    for earlier, later in pairwise(entries):
        assert earlier.epoch < later.epoch, f"{log}: epochs do not grow: {entries}"
        assert earlier.start_offset < later.start_offset, f"{log}: epochs do not grow: {entries}"
    if entries:
        assert entries[-1].start_offset <= found.end, f"{log}: {entries[-1]} begins beyond the log end"
    known_from = entries[0].start_offset if entries else found.end
    for stored in found.batches:
        epoch = stored.batch.leader_epoch
        for offset in (max(stored.base_offset, found.start), stored.last_offset):
            known = log.epochs.epoch_for_offset(offset)
            if known is None and offset < known_from <= model.start_seen:
                continue
            assert known == epoch, f"{log}: the epoch at {offset} is {known} in {entries}, and {epoch} in {stored}"
    for epoch in sorted({stored.batch.leader_epoch for stored in found.batches}):
        above = [stored.base_offset for stored in found.batches if stored.batch.leader_epoch > epoch]
        below = [stored.next_offset for stored in found.batches if stored.batch.leader_epoch <= epoch]
        if below[-1] <= known_from <= model.start_seen:
            continue
        answer = log.end_offset_for_epoch(epoch)
        assert answer is not None, f"{log}: the end of epoch {epoch} is not known"
        assert answer[0] == epoch, f"{log}: epoch {epoch} is answered with {answer}"
        assert below[-1] <= answer[1] <= (above[0] if above else found.end), f"{log}: epoch {epoch} ends at {answer}"


def _check_indexes(log: Log) -> None:
    for segment in log.segments:
        segment.offset_index.check()
        segment.time_index.check()
        segment.txn_index.check()
        places: dict[int, tuple[int, int]] = {}
        largest = -1
        for position, batch in segment.batches():
            largest = max(largest, batch.max_timestamp)
            places[batch.last_offset] = (position, largest)
        for slot in range(segment.offset_index.entry_count):
            place = segment.offset_index.entry_at(slot)
            assert places.get(place.offset, (-1,))[0] == place.position, f"{segment}: {place} points at no batch"
        for slot in range(segment.time_index.entry_count):
            entry = segment.time_index.entry_at(slot)
            assert places.get(entry.offset, (0, -2))[1] == entry.timestamp, f"{segment}: {entry} is not true"
        assert segment.max_timestamp.timestamp == largest, (
            f"{segment}: the largest timestamp is {largest}, not {segment.max_timestamp}"
        )


# Producers and transactions


def _kept(model: PartitionModel, found: Found) -> list[StoredBatch]:
    """The batches that nobody has asked to delete. Where a crash has taken the log start back there are others too,
    and what the log had concluded without them stays."""
    return [stored for stored in found.batches if stored.last_offset >= model.start_seen]


def _check_producers(model: PartitionModel, log: Log, found: Found, written: list[StoredBatch]) -> None:
    """Producers are known as a replay of all that was written says; what was deleted may have been forgotten."""
    truth = replay_producers(written)
    surviving = replay_producers(_kept(model, found))
    known = log.producers.producers
    forgotten = sorted(set(surviving) - set(known))
    assert not forgotten, f"{log}: producers {forgotten} have records here and are not known"
    for producer_id, entry in known.items():
        expected = truth.get(producer_id)
        assert expected is not None, f"{log}: {entry} has never written anything"
        assert entry.producer_epoch == expected.epoch, f"{log}: {entry} instead of {expected}"
        assert entry.coordinator_epoch in (expected.coordinator_epoch, -1), f"{log}: {entry} instead of {expected}"
        batches = [(batch.first_sequence, batch.last_sequence, batch.last_offset) for batch in entry.batches]
        sent = expected.batches
        if model.is_compacted:  # batches in between may have been removed
            sent = [batch for batch in sent if batch in batches or batch is sent[-1]]
        assert batches == sent[len(sent) - len(batches) :], f"{log}: {entry} instead of {expected}"
        if sent and sent[-1][2] >= max(found.start, model.start_seen):
            assert batches, f"{log}: {entry} has forgotten its last batch, {sent[-1]}"
        survivor = surviving.get(producer_id)
        first, latest = expected.txn_first_offset, survivor.txn_first_offset if survivor else None
        if first is None or latest is not None:
            assert (entry.txn_first_offset is None) == (first is None), f"{log}: {entry} instead of {expected}"
        if entry.txn_first_offset is not None and first is not None:
            latest = latest or max(found.start, model.start_seen)
            assert first <= entry.txn_first_offset <= (latest or max(found.start, model.start_seen)), (
                f"{log}: {entry} instead of {expected}"
            )


def _check_committed_view(
    model: PartitionModel, log: Log, found: Found, written: list[StoredBatch], random: Random
) -> None:
    """With everything replicated: the last stable offset, and what a reader of committed records sees.

    Compaction, and a replay after a truncation, do not look below the log start, as Kafka's do not. When a crash takes
    the start back, records of aborted and open transactions from below it may be seen; they were deleted on request,
    and that was not written down yet.
    """
    opened = [one.first_offset for one in find_transactions(written) if one.marker_offset is None]
    surviving = [one.first_offset for one in find_transactions(_kept(model, found)) if one.marker_offset is None]
    lowest = max(found.start, min(opened, default=found.end))
    highest = max(found.start, min(surviving, default=found.end))
    stable = log.last_stable_offset
    assert lowest <= stable <= highest, f"{log}: the last stable offset is {stable}, not in [{lowest}, {highest}]"
    outcomes = _Outcomes(find_transactions(written))
    expected = [
        row[0]
        for stored in found.batches
        if not stored.batch.is_control and not outcomes.is_aborted(stored)
        for row in stored.rows
        if found.start <= row[0] < stable
    ]
    expected = [offset for offset in expected if offset >= model.start_seen]
    visible = [offset for offset in _read_committed(log, random) if offset >= model.start_seen]
    assert visible == expected, f"{log}: a reader of committed records sees {visible} instead of {expected}"
    if not model.is_compacted:
        _check_aborted(model, log, found, written)


def _check_aborted(model: PartitionModel, log: Log, found: Found, written: list[StoredBatch]) -> None:
    listed = {
        (one.producer_id, one.last_offset): one.first_offset for one in log.aborted_transactions(found.start, found.end)
    }
    truth = {
        (one.producer_id, one.marker_offset): one.first_offset
        for one in find_transactions(written)
        if one.is_aborted and one.marker_offset is not None and one.marker_offset >= found.start
    }
    surviving = {
        (one.producer_id, one.marker_offset): one.first_offset
        for one in find_transactions(_kept(model, found))
        if one.is_aborted and one.marker_offset is not None
    }
    for key, first_offset in surviving.items():
        assert key in listed, f"{log}: the abort of {key} is not in the index"
        assert truth[key] <= listed[key] <= first_offset, f"{log}: the abort of {key} begins at {listed[key]}"
    extra = sorted(set(listed) - set(truth))
    assert not extra, f"{log}: the index lists aborts that never were: {extra}"


def _read_committed(log: Log, random: Random) -> list[int]:
    """The offsets that a consumer with `isolation.level=read_committed` hands out."""
    visible: list[int] = []
    offset = log.log_start_offset
    while offset < log.last_stable_offset:
        read = log.read(offset, bytes_max=random.choice((1, 900, 4000)), isolation=Isolation.TXN_COMMITTED)
        if not read.slice:
            break  # the next batch begins beyond what is stable: offsets before it were cut off
        assert read.aborted is not None, f"{log}: a committed read comes with the aborted transactions"
        waiting = sorted(read.aborted, key=lambda aborted: aborted.first_offset)
        aborting: set[int] = set()
        before = offset
        data = read.slice.read()
        for batch in batches(data):
            while waiting and waiting[0].first_offset <= batch.last_offset:
                aborting.add(waiting.pop(0).producer_id)
            stored = StoredBatch(bytes(batch.data))
            marker = stored.marker
            if marker is not None and marker.type is ControlType.ABORT:
                aborting.discard(batch.producer_id)
            elif not batch.is_control and not (batch.is_transactional and batch.producer_id in aborting):
                visible += [row[0] for row in stored.rows if row[0] >= before]
            offset = batch.next_offset
        assert offset > before, f"{log}: the committed read at {before} brought no whole batch in {len(data)} bytes"
    return visible
