"""Opening a log after a crash: torn tails, lost and damaged files, half-finished compactions, stale checkpoints."""

from __future__ import annotations

import errno
import logging
import random
import struct
from typing import Any

import pytest

from ottla.errors import KafkaStorageError
from ottla.records import Record, batches, build_batch
from ottla.storage import Isolation
from tests.support.logs import TestLog, new_world, read_records, values

NOW = 1_767_225_600_000


def filled(count: int = 30) -> TestLog:
    """A log of several segments, with an idempotent producer and an aborted transaction in it."""
    log = TestLog(internal_segment_bytes=700, index_interval_bytes=100)
    log.append(b"t", producer_id=2, sequence=0, is_transactional=True)
    for number in range(count):
        log.append(b"value %d" % number, producer_id=1, sequence=number, timestamp=NOW + number, epoch=number // 10)
    log.end_transaction(2, commit=False, epoch=count // 10)
    log.append(b"last", epoch=count // 10)
    return log


def state(log: TestLog) -> dict[str, Any]:
    """Everything a restart must not change."""
    one = log.log
    return {
        "end": one.log_end_offset,
        "records": read_records(one, isolation=Isolation.LOG_END),
        "epochs": one.epochs.entries,
        "producers": {pid: (e.producer_epoch, e.last_sequence) for pid, e in one.producers.producers.items()},
        "aborted": one.aborted_transactions(0, one.log_end_offset),
        "files": {
            name: log.world.disk.read(f"{log.path}/{name}")
            for name in log.world.disk.names(log.path)
            if name.endswith((".log", ".index", ".timeindex", ".txnindex"))
        },
    }


def write(log: TestLog, name: str, data: bytes) -> None:
    file = log.world.disk.open(f"{log.path}/{name}", create=True)
    file.truncate(0)
    file.write_at(0, data)
    file.close()


def stopped(log: TestLog) -> dict[str, Any]:
    """Close in order; returns what must come back."""
    log.log.close()
    log.open(clean=True)
    before = state(log)
    log.log.close()
    return before


@pytest.mark.parametrize("clean", [True, False])
def test_a_stopped_log_opens_as_it_was(clean: bool) -> None:
    log = filled()
    before = stopped(log)
    log.open(clean=clean)
    log.log.close()
    log.open(clean=True)
    assert state(log) == before


@pytest.mark.parametrize("kind", [".index", ".timeindex", ".snapshot"])
@pytest.mark.parametrize("clean", [True, False])
def test_missing_files_are_rebuilt(kind: str, clean: bool) -> None:
    log = filled()
    before = stopped(log)
    for name in log.world.disk.names(log.path):
        if name.endswith(kind):
            log.world.disk.remove(f"{log.path}/{name}")
    log.open(clean=clean, recovery_point=log.log.log_end_offset)
    log.log.close()
    log.open(clean=True)
    assert state(log) == before


@pytest.mark.parametrize("kind", [".index", ".timeindex", ".txnindex"])
def test_an_index_that_is_no_multiple_of_its_entries_is_rebuilt(kind: str, caplog: pytest.LogCaptureFixture) -> None:
    log = filled()
    before = stopped(log)
    damaged = 0
    for name in log.world.disk.names(log.path):
        if name.endswith(kind):
            data = log.world.disk.read(f"{log.path}/{name}")
            if data:
                write(log, name, data[:-1])
                damaged += 1
    assert damaged
    with caplog.at_level(logging.WARNING):
        log.open(clean=True)
    assert len([m for m in caplog.messages if "Rebuilding the indexes" in m]) == damaged
    log.log.close()
    log.open(clean=True)
    assert state(log) == before


def test_an_index_without_a_log_is_removed() -> None:
    log = filled()
    stopped(log)
    write(log, f"{99999:020d}.index", b"12345678")
    log.open(clean=True)
    assert f"{99999:020d}.index" not in log.world.disk.names(log.path)


def test_a_torn_tail_is_cut_at_every_byte() -> None:
    """Whatever part of the last batch is there, the log ends before it, and goes on from there."""
    log = TestLog(index_interval_bytes=0)
    for number in range(4):
        log.append(b"value %d" % number, producer_id=1, sequence=number)
    log.log.close()
    whole = log.file(".log")
    last = list(batches(whole))[-1]
    for size in range(last.position, len(whole)):
        write(log, f"{0:020d}.log", whole[:size])
        log.open()
        assert log.log.log_end_offset == 3
        assert log.file(".log") == whole[: last.position]
        assert values(log.log, isolation=Isolation.LOG_END) == [b"value 0", b"value 1", b"value 2"]
        assert log.append(b"new", producer_id=1, sequence=3).first_offset == 3
        log.log.close()


@pytest.mark.parametrize("seed", range(30))
def test_a_flipped_bit_beyond_the_recovery_point_cuts_the_log_there(seed: int) -> None:
    rng = random.Random(seed)
    log = filled()
    stopped(log)
    name = rng.choice([n for n in log.world.disk.names(log.path) if n.endswith(".log")])
    data = bytearray(log.world.disk.read(f"{log.path}/{name}"))
    position = rng.randrange(len(data))
    hit = next(b for b in batches(bytes(data)) if b.position <= position < b.position + b.size)
    data[position] ^= 1 << rng.randrange(8)
    write(log, name, bytes(data))
    log.open()
    # Offset and leader epoch are not under the checksum, in Kafka's format: such damage may go unseen.
    is_unseen = position - hit.position < 8 or 12 <= position - hit.position < 16
    if not is_unseen:
        assert log.log.log_end_offset == hit.base_offset
        for record in read_records(log.log, isolation=Isolation.LOG_END):
            assert record.value in (b"t", b"last") or record.value == b"value %d" % (record.offset - 1)
    log.append(b"more", epoch=50)
    log.reopen()
    assert values(log.log, isolation=Isolation.LOG_END)[-1] == b"more"


def test_what_lies_below_the_recovery_point_is_not_read_again() -> None:
    log = filled()
    stopped(log)
    first = f"{0:020d}.log"
    data = bytearray(log.file(".log"))
    data[70] ^= 1
    write(log, first, bytes(data))
    log.open(recovery_point=log.log.log_end_offset)
    assert log.log.log_end_offset == 33
    assert log.world.disk.read(f"{log.path}/{first}") == data


def test_offsets_that_go_back_inside_a_segment_cut_the_log() -> None:
    log = TestLog()
    for _ in range(3):
        log.append(b"x")
    log.log.close()
    data = bytearray(log.file(".log"))
    struct.pack_into(">q", data, 2 * len(data) // 3, 1)  # the third batch claims offset 1, which the second has
    write(log, f"{0:020d}.log", bytes(data))
    log.open()
    assert log.log.log_end_offset == 2


def test_segments_behind_a_damaged_one_go() -> None:
    log = filled()
    stopped(log)
    second = log.log.segments.base_offsets[1]
    name = f"{second:020d}.log"
    write(log, name, log.world.disk.read(f"{log.path}/{name}")[:-1])
    log.open()
    assert log.log.segments.base_offsets == [0, second]
    assert not [n for n in log.world.disk.names(log.path) if n.endswith(".log") and int(n[:20]) > second]


def test_a_log_start_beyond_the_end_begins_an_empty_log_there() -> None:
    log = filled()
    stopped(log)
    log.open(log_start_offset=1000)
    assert (log.log.log_start_offset, log.log.log_end_offset, log.log.segments.base_offsets) == (1000, 1000, [1000])
    assert log.log.epochs.entries == []


def test_a_log_that_is_only_a_directory_begins_at_the_checkpointed_start() -> None:
    log = TestLog()
    log.log.close()
    log.world.disk.remove_tree(log.path)
    log.open(log_start_offset=5, recovery_point=17)
    assert (log.log.log_start_offset, log.log.log_end_offset, log.log.recovery_point) == (5, 5, 5)


def test_files_marked_as_deleted_are_removed() -> None:
    log = filled()
    before = stopped(log)
    write(log, f"{0:020d}.log.deleted", b"old")
    write(log, f"{0:020d}.snapshot.deleted", b"old")
    log.open(clean=True)
    assert not [n for n in log.world.disk.names(log.path) if n.endswith(".deleted")]
    assert state(log) == before


# Half-finished replacements: a compaction of the first two segments into one


def compaction(log: TestLog) -> dict[str, bytes]:
    """The files of a segment that holds every record of the first two; the others stay as they are."""
    scratch = TestLog(log.world, name="scratch-0", index_interval_bytes=100)
    first, second = log.log.segments.base_offsets[:2]
    for base in (first, second):
        for batch in batches(log.world.disk.read(f"{log.path}/{base:020d}.log")):
            scratch.log.append_as_follower(bytes(batch.data), leader_epoch=100)
    scratch.log.close()
    kinds = (".log", ".index", ".timeindex")
    return {f"{first:020d}{kind}": scratch.file(kind) for kind in kinds}


def test_cleaned_files_are_thrown_away() -> None:
    log = filled()
    before = stopped(log)
    for name, data in compaction(log).items():
        write(log, name + ".cleaned", data)
    log.open(clean=True)
    assert state(log) == before


def test_swap_files_beside_a_cleaned_one_are_thrown_away() -> None:
    """The rename from `.cleaned` to `.swap` had begun and was not finished."""
    log = filled()
    before = stopped(log)
    for name, data in compaction(log).items():
        write(log, name + (".swap" if name.endswith(".log") else ".cleaned"), data)
    log.open(clean=True)
    assert state(log) == before


@pytest.mark.parametrize("stage", ["swap", "old deleted", "log renamed"])
def test_swap_files_win_once_they_are_complete(stage: str) -> None:
    log = filled()
    before = stopped(log)
    first, second = log.log.segments.base_offsets[:2]
    new = compaction(log)
    for name, data in new.items():
        write(log, name + ".swap", data)
    if stage != "swap":
        for base in (first, second):
            for kind in (".log", ".index", ".timeindex"):
                path = f"{log.path}/{base:020d}{kind}"
                log.world.disk.rename(path, path + ".deleted")
    if stage == "log renamed":
        log.world.disk.rename(f"{log.path}/{first:020d}.log.swap", f"{log.path}/{first:020d}.log")
    log.open(clean=True)
    assert log.log.segments.base_offsets[:2] != [first, second]
    assert second not in log.log.segments
    assert read_records(log.log, isolation=Isolation.LOG_END) == before["records"]
    assert log.world.disk.read(f"{log.path}/{first:020d}.log") == new[f"{first:020d}.log"]
    assert not [n for n in log.world.disk.names(log.path) if n.endswith((".swap", ".cleaned", ".deleted"))]


def test_a_segment_whose_offsets_outgrow_the_index_is_split() -> None:
    """As compaction could leave them before Kafka 2.0 (KAFKA-6264)."""
    log = TestLog(cleanup_policy="compact")
    log.log.close()
    far = 2**31 + 100
    data = build_batch([Record(0, NOW, b"k", b"a")], leader_epoch=0) + build_batch(
        [Record(far, NOW, b"k", b"b")], leader_epoch=0
    )
    write(log, f"{0:020d}.log", data)
    log.open()
    assert log.log.segments.base_offsets == [0, far]
    assert [(r.offset, r.value) for r in read_records(log.log, isolation=Isolation.LOG_END)] == [(0, b"a"), (far, b"b")]
    assert log.log.log_end_offset == far + 1


def test_a_damaged_snapshot_falls_back_to_an_older_one() -> None:
    log = filled()
    before = stopped(log)
    snapshots = [n for n in log.world.disk.names(log.path) if n.endswith(".snapshot")]
    for name in snapshots[-2:]:
        write(log, name, b"\x00\x01garbage")
    log.open(clean=True)
    assert state(log) == before


def test_a_crash_loses_nothing_that_was_flushed_and_checkpointed() -> None:
    for seed in range(40):
        world = new_world(seed)
        log = TestLog(world, internal_segment_bytes=500, index_interval_bytes=50)
        world.disk.sync_dir("/logs")
        world.disk.sync_dir("/")
        rng = random.Random(seed)
        flushed = 0
        for number in range(60):
            log.append(b"value %d" % number)
            if rng.random() < 0.1:
                log.log.flush()
                flushed = log.log.log_end_offset
        world.disk.crash()
        log.open(recovery_point=flushed)
        served = values(log.log, isolation=Isolation.LOG_END)
        assert flushed <= len(served) <= 60, f"seed {seed}"
        assert served == [b"value %d" % n for n in range(len(served))], f"seed {seed}"


def test_a_segment_that_lost_its_tail_ends_the_log_though_later_ones_are_whole() -> None:
    log = filled()
    stopped(log)
    second = log.log.segments.base_offsets[1]
    name = f"{second:020d}.log"
    data = log.world.disk.read(f"{log.path}/{name}")
    last = list(batches(data))[-1]
    write(log, name, data[: last.position])
    log.open()
    assert log.log.log_end_offset == last.base_offset
    assert log.log.segments.base_offsets == [0, second]


@pytest.mark.parametrize("why", ["the topic is compacted", "the cleaner has been there", "it was flushed"])
def test_a_hole_that_compaction_left_is_no_damage(why: str) -> None:
    log = filled()
    before = stopped(log)
    second, third = log.log.segments.base_offsets[1:3]
    name = f"{second:020d}.log"
    data = log.world.disk.read(f"{log.path}/{name}")
    last = list(batches(data))[-1]
    write(log, name, data[: last.position])
    end = log.log.log_end_offset
    if why == "the topic is compacted":
        log.config = log.config.with_topic({"cleanup.policy": "compact"})
        log.open()
    elif why == "the cleaner has been there":
        log.open(cleaned_to=third)
    else:
        log.open(recovery_point=third)
    assert log.log.log_end_offset == end
    kept = read_records(log.log, isolation=Isolation.LOG_END)
    assert kept == [
        record for record in before["records"] if record.offset < last.base_offset or record.offset >= third
    ]


@pytest.mark.parametrize("segment_bytes", [700, 100_000])
@pytest.mark.parametrize("restarts", [1, 2])
def test_a_batch_that_was_in_flight_when_the_process_was_killed_is_still_a_duplicate(
    segment_bytes: int, restarts: int
) -> None:
    """A producer was told that its sequence is out of order: of its last five batches, a start after a kill had only
    kept the one that a snapshot holds. Segments of 700 bytes lay the five across two of them."""
    log = TestLog(internal_segment_bytes=segment_bytes)
    for number in range(10):
        log.append(b"value %d" % number, producer_id=1, sequence=number, timestamp=NOW + number)
    for _ in range(restarts):
        log.open(clean=False)
    for number in range(5, 10):
        again = log.append(b"value %d" % number, producer_id=1, sequence=number, timestamp=NOW + number)
        assert again.is_duplicate
        assert again.first_offset == number
    assert log.log.log_end_offset == 10
    log.append(b"value 10", producer_id=1, sequence=10, timestamp=NOW)
    assert values(log.log)[5:] == [b"value %d" % number for number in range(5, 11)]


def test_what_a_failed_sync_left_in_the_page_cache_is_written_again() -> None:
    """After a failed sync the kernel takes the pages for clean: a restart reads them, and no later sync writes them.
    Without the second write, records that were acknowledged and flushed after the restart stood behind lost ones."""
    for seed in range(20):
        world = new_world(seed)
        log = TestLog(world)
        world.disk.sync_dir("/logs")
        world.disk.sync_dir("/")
        log.append(b"before")
        world.disk.fail_at(1, errno.EIO, kinds=["sync"])
        with pytest.raises(KafkaStorageError):
            log.log.flush()
        world.disk.process_crash()
        log.directory.failure = None
        log.open()
        log.append(b"after")
        log.log.flush()
        world.disk.crash()
        log.open(recovery_point=log.log.recovery_point)
        assert values(log.log, isolation=Isolation.LOG_END) == [b"before", b"after"], f"seed {seed}"


def test_a_damaged_offset_index_does_not_hide_the_end_of_the_log() -> None:
    """The end is read from the index's last entry on. With one that pointed into a batch, a clean start found no batch
    there and took the log for empty."""
    log = TestLog(index_interval_bytes=100)
    for number in range(20):
        log.append(b"value %d" % number)
    before = stopped(log)
    name = f"{0:020d}.index"
    data = bytearray(log.world.disk.read(f"{log.path}/{name}"))
    data[-1] ^= 1
    write(log, name, bytes(data))
    log.open(clean=True)
    assert log.log.log_end_offset == 20
    assert read_records(log.log, isolation=Isolation.LOG_END) == before["records"]
