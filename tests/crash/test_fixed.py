"""What the crash tests have found, one test for each, named after what went wrong.

They run on a virtual disk whose power cuts are as unkind as they can be: whatever was not synced is gone.
"""

from __future__ import annotations

import errno
from contextlib import suppress
from random import Random

import pytest

from ottla.config import LogConfig
from ottla.errors import KafkaStorageError
from ottla.records import ControlType, EndTransactionMarker, Row, build_batch, end_transaction_batch
from ottla.sim import CHANGES, SimulatedCrash, VirtualClock, VirtualDisk
from ottla.storage import AppendOrigin, Isolation, Log, LogManager
from ottla.storage.cleaner_manager import CleanerManager
from ottla.types import TopicPartition, Uuid
from ottla.world import World
from tests.crash.power_loss import PowerLoss
from tests.support.log_model import StoredBatch
from tests.support.unkind import Unkind

T = TopicPartition("t", 0)
TOPIC_ID = Uuid(b"0123456789abcdef")
START_MS = 1_767_225_600_000


class Node:
    """A node with one log directory and one topic."""

    def __init__(self, **settings: object) -> None:
        self.clock = VirtualClock(START_MS)
        self.chance = Unkind()
        self.disk = VirtualDisk(self.chance, self.clock)
        self.config = LogConfig().with_topic({name.replace("_", "."): value for name, value in settings.items()})
        self.start()

    @property
    def world(self) -> World:
        return World(clock=self.clock, disk=self.disk, random=self.chance)

    def start(self) -> None:
        self.manager = LogManager(self.world, ["/srv/data"], config_of=lambda topic: self.config)
        self.manager.start()

    def create(self) -> Log:
        return self.manager.create(T, topic_id=TOPIC_ID)

    @property
    def log(self) -> Log:
        return self.manager.logs[T]

    def append(self, count: int = 1, *, size: int = 20, leader_epoch: int = 0) -> None:
        rows = [(n, self.clock.now_ms(), b"k%d" % n, bytes(size), ()) for n in range(count)]
        self.log.append_as_leader(bytearray(build_batch(rows)), leader_epoch=leader_epoch)
        self.log.update_high_watermark(self.log.log_end_offset)

    def cut_power(self) -> None:
        self.disk.crash()
        self.start()

    def reach_device(self, path: str) -> None:
        """What is written to this file reaches the device by itself, as the system may decide at any time."""
        file = self.disk.open(path)
        file.sync()
        file.close()

    def rows(self) -> list[Row]:
        found: list[Row] = []
        offset = self.log.log_start_offset
        while offset < self.log.log_end_offset:
            read = self.log.read(offset, bytes_max=1, isolation=Isolation.LOG_END)
            if read.slice is None:
                break
            batch = StoredBatch(read.slice.read())
            found += batch.rows
            offset = batch.next_offset
        return found

    def offsets(self) -> list[int]:
        return [row[0] for row in self.rows()]


def test_a_power_cut_took_a_new_log_directory_with_all_its_flushed_logs() -> None:
    node = Node()
    node.create()
    node.append(3)
    node.log.flush()
    node.cut_power()
    assert node.offsets() == [0, 1, 2]


def test_the_last_entry_of_the_time_index_was_lost_after_an_orderly_stop() -> None:
    """It is written when the log is closed, after the last flush; nobody reads the records again to find it."""
    node = Node()
    node.create()
    node.append()
    node.manager.shutdown()
    node.cut_power()
    found = node.log.offset_for_timestamp(START_MS)
    assert found is not None
    assert found.offset == 0
    assert node.log.segments.first.max_timestamp.timestamp == START_MS


@pytest.mark.parametrize("preallocate", [False, True])
def test_the_end_of_a_segment_that_was_flushed_before_the_roll_never_reached_the_device(preallocate: bool) -> None:
    """The chore that flushes after a roll saw the recovery point at the segment's end and had nothing to do, but
    closing the segment had written to its index and cut its spare room."""
    node = Node(flush_messages=1, preallocate=preallocate, internal_segment_bytes=4000)
    node.create()
    node.append(2)
    node.manager.checkpoint()
    node.log.roll()
    node.manager.run_chores()
    node.append()
    node.manager.checkpoint()
    node.cut_power()
    assert node.log.segments.first.max_timestamp.timestamp == START_MS
    assert node.log.segments.first.size < 200
    assert node.offsets() == [0, 1, 2]


def test_deleting_records_moved_the_recovery_point_over_a_segment_whose_name_was_never_synced() -> None:
    node = Node()
    node.create()
    node.append(4)
    node.log.flush()
    node.log.roll()
    node.append(4)
    node.log.delete_records(6)
    node.append(4)
    node.log.flush()
    node.manager.checkpoint()
    node.cut_power()
    assert node.offsets()[-1] == 11
    assert node.log.log_start_offset == 6


def test_truncated_records_came_back_and_new_ones_were_lost_instead() -> None:
    node = Node()
    node.create()
    for _ in range(3):
        node.append()
    node.log.flush()
    node.manager.checkpoint()
    node.manager.truncate_to({T: 1})
    node.cut_power()
    assert node.offsets() == [0]


def test_a_recovery_point_beyond_a_truncation_vouched_for_records_that_were_never_flushed() -> None:
    node = Node(internal_segment_bytes=300)
    node.create()
    for _ in range(3):
        node.append(2, size=100)
    node.log.flush()
    node.manager.checkpoint()
    node.manager.truncate_to({T: 0})
    for _ in range(3):
        node.append(1, size=100)
    for name in node.disk.names(node.log.directory):
        if not name.startswith("00000000000000000000."):
            node.reach_device(f"{node.log.directory}/{name}")
    node.disk.sync_dir(node.log.directory)
    node.cut_power()
    assert node.offsets() == []


def test_a_log_start_went_back_after_a_checkpoint_because_deleted_segments_came_back() -> None:
    node = Node(retention_bytes=0)
    node.create()
    for _ in range(3):
        node.append()
        node.log.roll()
    node.log.flush()
    assert node.manager.delete_old_segments() == 3
    node.manager.checkpoint()
    node.cut_power()
    assert (node.log.log_start_offset, node.log.log_end_offset) == (3, 3)


def test_what_recovery_had_cut_off_came_back_behind_what_was_appended_then() -> None:
    """A torn batch is cut off and its place is written again; without a sync in between the device may keep the old
    end of the file, with the batches that stood behind the torn one."""
    node = Node()
    node.create()
    for _ in range(4):
        node.append(size=184)  # with its header one batch is half a sector of the disk
    path = node.log.segments.active.path
    assert node.log.size == 4 * 256
    node.log.flush()
    file = node.disk.open(path)
    file.write_at(256 + 100, b"torn")
    file.sync()
    node.cut_power()
    assert node.offsets() == [0]
    node.append(size=184)
    node.chance.keeps_data = True
    node.cut_power()
    assert node.offsets() == [0]


def test_a_flush_planned_before_a_truncation_vouched_for_what_was_appended_after_it() -> None:
    node = Node()
    node.create()
    for _ in range(4):
        node.append()
    node.log.roll()
    node.manager.truncate_to({T: 1})
    node.manager.run_chores()
    node.append(3)
    assert node.log.recovery_point <= 1
    node.log.flush()
    node.cut_power()
    assert node.offsets() == [0, 1, 2, 3]


def test_a_preallocated_log_on_its_way_out_kept_the_node_from_starting() -> None:
    """It is not closed at an orderly stop, so its file still ends in zeros, and nobody expected them after one."""
    node = Node(preallocate=True, internal_segment_bytes=4000)
    node.create()
    node.append()
    node.manager.delete(T)
    node.manager.shutdown()
    node.cut_power()
    assert node.manager.logs == {}
    node.clock.advance(60_000)
    node.manager.run_chores()
    assert not [name for name in node.disk.names("/srv/data") if name.startswith("t-0")]


def test_records_behind_offsets_that_a_truncation_had_cut_off_were_taken_for_stray_ones() -> None:
    """The segment began at the log end, above the last batch: after a crash that looked like a tail that was lost."""
    node = Node()
    node.create()
    node.append(5)
    node.append(5)
    node.log.flush()
    node.manager.truncate_to({T: 7})
    node.log.roll()
    node.append()
    node.log.flush()
    node.cut_power()
    assert node.offsets() == [0, 1, 2, 3, 4, 7]


def test_a_crash_while_segments_were_truncated_left_a_hole() -> None:
    """They were removed from the first to the last, so that later ones stood there without the earlier."""
    for nth in range(1, 9):
        node = Node()
        node.create()
        for _ in range(4):
            node.append()
            node.log.roll()
        node.log.flush()
        node.manager.checkpoint()
        node.disk.crash_at(nth, kinds=["rename"], moment="after")
        with pytest.raises(SimulatedCrash):
            node.manager.truncate_to({T: 1})
        node.chance.keeps_names = True
        node.cut_power()
        assert node.offsets() == list(range(node.log.log_end_offset)), f"after {nth} renames"


def test_a_power_cut_after_compaction_left_neither_the_new_value_of_a_key_nor_the_old() -> None:
    """The new one was in a segment that nobody had flushed, while the old one was gone for good."""
    node = Node(cleanup_policy="compact", min_cleanable_dirty_ratio=0.01, internal_segment_bytes=200)
    node.create()
    node.append(size=100)
    node.log.flush()
    for _ in range(2):  # each in a segment of its own, which compaction does not join
        node.append(size=100)
    old = node.log.segments.first
    cleaner = CleanerManager(node.world, node.manager.directories, node.manager.logs)
    while node.log.segments.first is old:
        step = cleaner.step()
        if step.sync is not None:
            step.sync.run()
    node.cut_power()
    assert b"k0" in {row[2] for row in node.rows()}


def test_the_epochs_of_records_were_forgotten_with_a_log_start_that_a_crash_took_back() -> None:
    node = Node()
    node.create()
    node.append(10, leader_epoch=2)
    node.log.flush()
    node.append(5, leader_epoch=2)
    node.log.delete_records(12)
    node.append(leader_epoch=3)
    node.cut_power()
    assert (node.log.log_start_offset, node.log.log_end_offset) == (0, 10)
    assert node.log.epochs.entries == [(2, 0)]


def test_a_snapshot_from_below_deleted_segments_kept_the_node_from_starting() -> None:
    """It said that a transaction was open, and the marker that had ended it was in a segment that is gone."""
    node = Node(retention_bytes=0)
    node.create()
    rows = [(0, START_MS, b"k", b"v", ())]
    guard = node.log.producers.start_verification(
        7, sequence=0, producer_epoch=0, supports_epoch_bump=False, now_ms=START_MS
    )
    first = build_batch(rows, producer_id=7, producer_epoch=0, base_sequence=0, is_transactional=True)
    node.log.append_as_leader(first, leader_epoch=0, verification_guard=guard)
    node.log.roll()
    path = f"{node.log.directory}/00000000000000000001.snapshot"
    stale = node.disk.read(path)
    commit = EndTransactionMarker(ControlType.COMMIT, 0)
    marker = end_transaction_batch(commit, producer_id=7, producer_epoch=0, timestamp=START_MS)
    node.log.append_as_leader(marker, leader_epoch=0, origin=AppendOrigin.COORDINATOR, transaction_version=1)
    node.log.roll()
    node.log.update_high_watermark(2)
    node.manager.delete_old_segments()
    second = build_batch(rows, producer_id=7, producer_epoch=0, base_sequence=1)
    node.log.append_as_leader(second, leader_epoch=0)
    node.log.flush()
    file = node.disk.open(path, create=True)  # its removal did not arrive, and the newer snapshot did not either
    file.write_at(0, stale)
    file.sync()
    node.disk.remove(f"{node.log.directory}/00000000000000000002.snapshot")
    node.disk.sync_dir(node.log.directory)
    node.cut_power()
    assert node.offsets() == [2]
    assert node.log.producers.producers[7].txn_first_offset is None


def test_the_checkpoints_of_a_deleted_topic_were_believed_of_the_next_one_of_that_name() -> None:
    node = Node()
    node.create()
    node.append(5)
    node.log.flush()
    node.log.delete_records(3)
    node.manager.checkpoint()
    node.disk.crash_at(1, kinds=["create"])  # the directory is renamed, and the checkpoints are about to be written
    with pytest.raises(SimulatedCrash):
        node.manager.delete(T)
    node.cut_power()
    node.create()
    node.append()
    node.log.flush()
    node.cut_power()
    assert node.offsets() == [0]


def test_a_flush_vouched_for_offsets_that_had_no_batch_yet() -> None:
    """The log ended above its last batch, where a truncation had cut one; what came there later was not looked at."""
    node = Node()
    node.create()
    node.append(5)
    node.append(5)
    node.manager.truncate_to({T: 7})
    node.log.flush()
    node.manager.checkpoint()
    assert node.log.recovery_point == 5
    node.cut_power()
    node.append(leader_epoch=1)
    node.log.roll()
    node.append(leader_epoch=1)
    node.disk.sync_dir(node.log.directory)
    node.reach_device(node.log.segments.active.path)
    node.cut_power()
    assert node.offsets() == [0, 1, 2, 3, 4]


def test_a_log_that_had_lost_all_its_records_went_back_to_offset_zero_at_the_second_power_cut() -> None:
    node = Node()
    node.create()
    node.append(5)
    node.log.delete_records(4)
    node.manager.checkpoint()
    node.cut_power()
    assert (node.log.log_start_offset, node.log.log_end_offset) == (4, 4)
    node.manager.checkpoint()
    node.cut_power()
    assert (node.log.log_start_offset, node.log.log_end_offset) == (4, 4)


def test_an_orderly_stop_did_not_flush_a_log_that_was_cut_inside_of_a_batch() -> None:
    """Its recovery point was at the cut, above the last batch, so that there was nothing to do; the indexes still had
    entries for what was cut off when the power went."""
    node = Node(index_interval_bytes=0)
    node.create()
    for _ in range(3):
        node.append(3)
    node.log.flush()
    node.manager.truncate_to({T: 7})
    node.manager.shutdown()
    node.cut_power()
    assert node.offsets() == list(range(6))


def test_compaction_dropped_a_producers_last_batch_for_one_that_a_power_cut_then_took() -> None:
    """The last batches were looked up after the flush, so that they could be ones that were appended since."""
    node = Node(cleanup_policy="compact", min_cleanable_dirty_ratio=0.01, internal_segment_bytes=300)
    node.create()

    def produce(sequence: int) -> None:
        rows = [(0, START_MS, b"k0", bytes(100), ())]
        batch = build_batch(rows, producer_id=7, producer_epoch=0, base_sequence=sequence)
        node.log.append_as_leader(batch, leader_epoch=0)
        node.log.update_high_watermark(node.log.log_end_offset)

    produce(0)
    produce(1)
    node.append(size=150)  # of no producer, and with the same key: no record of the producer stays
    node.log.roll()
    cleaner = CleanerManager(node.world, node.manager.directories, node.manager.logs)
    while cleaner.last_stats is None:
        step = cleaner.step()
        if step.sync is not None:
            step.sync.run()
            if node.log.log_end_offset == 3:
                produce(2)
    node.cut_power()
    assert node.log.producers.producers[7].last_sequence == 1


def test_a_flush_that_failed_in_the_background_was_forgotten_and_the_next_one_succeeded() -> None:
    """The device drops what it could not sync and says so once: to go on is to lose it."""
    node = Node()
    node.create()
    node.append()
    node.log.roll()
    node.disk.fail_at(1, errno.EIO, kinds=["sync"], moment="during")
    node.manager.run_chores()
    assert [directory.is_offline for directory in node.manager.directories] == [True]
    with pytest.raises(KafkaStorageError):
        node.log.flush()


def test_files_were_still_removed_from_a_directory_that_had_gone_offline() -> None:
    """Its lock is given back, so that another process may be using it by then."""
    node = Node(retention_bytes=0)
    node.create()
    node.append()
    node.log.roll()
    node.manager.delete_old_segments()
    node.disk.fail_at(1, errno.EIO, kinds=["write"])
    with pytest.raises(KafkaStorageError):
        node.append()
    node.manager.handle_failures()
    node.clock.advance(120_000)
    node.manager.run_chores()
    assert [name for name in node.disk.names("/srv/data/t-0") if name.endswith(".log.deleted")]


def test_a_file_that_could_not_be_removed_did_not_take_its_directory_offline() -> None:
    node = Node(retention_bytes=0)
    node.create()
    node.append()
    node.log.roll()
    node.manager.delete_old_segments()
    node.clock.advance(120_000)
    node.disk.fail_at(1, errno.EIO, kinds=["remove"])
    node.manager.run_chores()
    assert [directory.is_offline for directory in node.manager.directories] == [True]


@pytest.mark.parametrize("seed", range(8))
def test_a_failed_sync_of_a_file_without_changes_broke_the_virtual_disk(seed: int) -> None:
    disk = VirtualDisk(Random(seed), VirtualClock())
    file = disk.open("/file", create=True)
    file.write_at(0, b"data")
    file.sync()
    disk.fail_at(1, errno.EIO, kinds=["sync"], moment="during")
    with pytest.raises(OSError, match="input/output"):
        file.sync()
    assert disk.read("/file") == b"data"


def test_the_indexes_of_a_log_that_was_left_empty_came_back_after_an_orderly_stop() -> None:
    """Recovery had emptied them with the log, and a log without records was not flushed."""
    node = Node(index_interval_bytes=0)
    node.create()
    for _ in range(3):
        node.append()
    segment = node.log.segments.active
    segment.files_to_sync()
    for path in (segment.offset_index.path, segment.time_index.path):
        node.reach_device(path)
    node.disk.sync_dir(node.log.directory)
    node.cut_power()
    assert node.log.log_end_offset == 0
    node.manager.shutdown()
    node.cut_power()
    assert node.log.segments.active.offset_index.entry_count == 0
    assert node.log.segments.active.time_index.entry_count == 0


def test_a_marker_that_was_lost_between_two_segments_kept_the_node_from_starting() -> None:
    """A compacted log may come back with a hole there: nothing tells it from those that compaction makes."""
    node = Node(cleanup_policy="compact")
    node.create()
    rows = [(0, START_MS, b"k", b"v", ())]
    guard = node.log.producers.start_verification(
        7, sequence=0, producer_epoch=0, supports_epoch_bump=False, now_ms=START_MS
    )
    inside = build_batch(rows, producer_id=7, producer_epoch=0, base_sequence=0, is_transactional=True)
    node.log.append_as_leader(inside, leader_epoch=0, verification_guard=guard)
    node.log.flush()
    commit = EndTransactionMarker(ControlType.COMMIT, 0)
    marker = end_transaction_batch(commit, producer_id=7, producer_epoch=0, timestamp=START_MS)
    node.log.append_as_leader(marker, leader_epoch=0, origin=AppendOrigin.COORDINATOR, transaction_version=1)
    node.log.roll()
    outside = build_batch(rows, producer_id=7, producer_epoch=0, base_sequence=1)
    node.log.append_as_leader(outside, leader_epoch=0)
    node.reach_device(node.log.segments.active.path)
    node.disk.sync_dir(node.log.directory)
    node.cut_power()
    assert node.offsets() == [0, 2]
    node.log.update_high_watermark(3)
    assert node.log.last_stable_offset == 0
    assert node.log.producers.producers[7].last_sequence == 1


def test_an_unfinished_compaction_was_removed_from_a_directory_that_had_gone_offline() -> None:
    node = Node(cleanup_policy="compact", min_cleanable_dirty_ratio=0.01, internal_segment_bytes=200)
    node.create()
    for _ in range(3):
        node.append(size=100)
    cleaner = CleanerManager(node.world, node.manager.directories, node.manager.logs)

    def unfinished() -> list[str]:
        return [name for name in node.disk.names("/srv/data/t-0") if name.endswith(".cleaned")]

    while not unfinished():
        step = cleaner.step()
        if step.sync is not None:
            step.sync.run()
    files = unfinished()
    node.disk.fail_at(1, errno.EIO, kinds=["write"])
    with pytest.raises(KafkaStorageError):
        node.append()
    cleaner.on_failure(node.manager.directories[0])
    assert unfinished() == files


def test_an_index_that_was_made_anew_below_the_recovery_point_was_lost_again() -> None:
    node = Node(index_interval_bytes=0)
    node.create()
    for _ in range(3):
        node.append()
    node.log.roll()
    node.append()
    node.manager.shutdown()
    for name in ("index", "timeindex"):
        node.disk.remove(f"/srv/data/t-0/00000000000000000000.{name}")
    node.disk.sync_dir("/srv/data/t-0")
    node.disk.process_crash()
    node.start()
    node.chance.keeps_names = True
    node.cut_power()
    segment = node.log.segments.first
    assert [segment.offset_index.entry_at(slot).offset for slot in range(2)] == [1, 2]
    assert segment.max_timestamp.timestamp == START_MS


def test_a_crash_while_an_empty_segment_was_begun_anew_sent_the_log_back_to_offset_zero() -> None:
    """Its files were marked as deleted before there were new ones, and only their name said where the log begins."""
    node = Node(retention_bytes=0)
    node.create()
    node.append(5)
    node.log.roll()
    node.manager.delete_old_segments()
    node.manager.checkpoint()
    node.disk.crash_at(1, kinds=["rename", "truncate"], moment="after")
    with pytest.raises(SimulatedCrash):
        node.log.roll()
    node.chance.keeps_names = True
    node.cut_power()
    assert (node.log.log_start_offset, node.log.log_end_offset) == (5, 5)


def test_aborted_records_were_seen_after_a_crash_while_a_lost_index_was_made_anew() -> None:
    """The index of aborted transactions was emptied to be made anew with the rest, and nobody missed it."""
    for nth in range(1, 40):
        node = Node()
        node.create()
        rows = [(0, START_MS, b"k", b"v", ())]
        guard = node.log.producers.start_verification(
            7, sequence=0, producer_epoch=0, supports_epoch_bump=False, now_ms=START_MS
        )
        aborted = build_batch(rows, producer_id=7, producer_epoch=0, base_sequence=0, is_transactional=True)
        node.log.append_as_leader(aborted, leader_epoch=0, verification_guard=guard)
        marker = end_transaction_batch(
            EndTransactionMarker(ControlType.ABORT, 0), producer_id=7, producer_epoch=0, timestamp=START_MS
        )
        node.log.append_as_leader(marker, leader_epoch=0, origin=AppendOrigin.COORDINATOR, transaction_version=1)
        node.log.roll()
        node.append()
        node.manager.shutdown()
        node.disk.remove("/srv/data/t-0/00000000000000000000.index")
        node.disk.sync_dir("/srv/data/t-0")
        node.disk.process_crash()
        node.chance.keeps_names = True
        node.disk.crash_at(nth, kinds=CHANGES, moment="after")
        with suppress(SimulatedCrash):
            node.start()
        node.disk.clear_faults()
        node.cut_power()
        listed = node.log.aborted_transactions(0, 3)
        assert [(one.first_offset, one.last_offset) for one in listed] == [(0, 1)], f"after {nth} changes"
        assert node.log.segments.first.max_timestamp.timestamp == START_MS, f"after {nth} changes"
        assert not [name for name in node.disk.names("/srv/data/t-0") if name.endswith(".cleaned")]


def test_a_log_made_before_a_kill_and_written_to_after_it_was_gone_with_the_power() -> None:
    """Its name is made durable with the first record, by the process that made it."""
    node = Node()
    node.create()
    node.disk.process_crash()
    node.start()
    node.append(3)
    node.log.flush()
    node.cut_power()
    assert node.offsets() == [0, 1, 2]


def test_a_lost_index_cost_the_log_the_epochs_of_later_segments() -> None:
    """Deleting records had taken the first epoch off the file, and a crash had brought the records back. The segment
    that was read to make its index anew began that epoch again, and all later ones went with it."""
    node = Node()
    node.create()
    for epoch in range(3):
        node.append(5, leader_epoch=epoch)
        node.log.roll()
    node.log.flush()
    node.manager.checkpoint()
    node.log.delete_records(2)
    node.append(leader_epoch=3)
    node.disk.process_crash()
    node.disk.remove("/srv/data/t-0/00000000000000000000.index")
    node.start()
    assert (node.log.log_start_offset, node.log.log_end_offset) == (0, 16)
    assert node.log.epochs.epoch_for_offset(7) == 1
    assert node.log.epochs.end_offset_for(1, 16) == (1, 10)


def test_recovery_opened_a_transaction_below_the_log_start_whose_marker_was_compacted_away() -> None:
    """The last stable offset stood still there, and readers of committed records saw nothing new any more."""
    node = Node(cleanup_policy="compact,delete")
    node.create()
    rows: list[Row] = [(0, START_MS, b"k", b"v", ())]
    left = build_batch(rows, producer_id=7, producer_epoch=0, base_sequence=0, is_transactional=True)
    following = build_batch([(2, START_MS, b"k2", b"v", ())], base_offset=2)
    node.log.append_as_follower(left + following, leader_epoch=0)
    node.log.update_high_watermark(3)
    node.log.delete_records(2)
    node.manager.checkpoint()
    node.disk.process_crash()
    node.start()
    node.log.update_high_watermark(3)
    assert (node.log.log_start_offset, node.log.log_end_offset) == (2, 3)
    assert node.log.last_stable_offset == 3


def test_an_abort_that_recovery_had_forgotten_came_back_after_a_power_cut() -> None:
    """Recovery empties an index of aborted transactions, and the log rests: nobody then remembered that the file, open
    no more and empty, was still to be synced (power, seed 1000)."""
    assert sum(PowerLoss(1000).go().values()) > 0, "the seed has a crash"
