"""All logs of a node: start and stop, several directories, one that fails, checkpoints, locks, deletion."""

from __future__ import annotations

import errno
import os
import random
from pathlib import Path
from typing import Any

import pytest

from ottla.config import LogConfig
from ottla.errors import KafkaStorageError, LogDirNotFound
from ottla.sim import VirtualWorld, virtual_world
from ottla.storage import Isolation, LogManager
from ottla.types import TopicPartition, Uuid
from ottla.world import World
from ottla.world.system import system_world
from tests.support.logs import make_batch, values

A, B, C, D = (TopicPartition(name, 0) for name in ("a", "b", "c", "d"))
NOW = 1_767_225_600_000


def new_manager(world: World, *directories: str, **settings: Any) -> LogManager:
    config = LogConfig().with_topic({name.replace("_", "."): value for name, value in settings.items()})
    manager = LogManager(world, directories or ["/one"], config_of=lambda topic: config)
    manager.start()
    return manager


def append(manager: LogManager, partition: TopicPartition, *items: bytes) -> None:
    log = manager.create(partition)
    log.append_as_leader(bytearray(make_batch(*items)), leader_epoch=0)
    log.update_high_watermark(log.log_end_offset)


def _open_files_below(directory: Path) -> list[str]:
    """Of this process, and of no other test that may close some meanwhile."""
    names = [os.readlink(f"/proc/self/fd/{name}") for name in os.listdir("/proc/self/fd") if _is_open(int(name))]
    return [name for name in names if name.startswith(f"{directory}/")]


def _is_open(fd: int) -> bool:
    """The descriptor by which the list was read is in it, and closed since."""
    try:
        os.fstat(fd)
    except OSError:
        return False
    return True


@pytest.fixture
def world() -> VirtualWorld:
    return virtual_world(random.Random(1))


def test_logs_come_back_after_a_stop(world: VirtualWorld) -> None:
    manager = new_manager(world)
    append(manager, A, b"1", b"2")
    append(manager, B, b"3")
    manager.shutdown()
    assert ".kafka_cleanshutdown" in world.disk.names("/one")
    again = new_manager(world)
    assert ".kafka_cleanshutdown" not in world.disk.names("/one"), "a crash from here on is one"
    assert sorted(again.logs) == [A, B]
    assert again.logs[A].high_watermark == 2
    assert values(again.logs[A]) == [b"1", b"2"]


def test_the_high_watermark_is_what_was_checkpointed(world: VirtualWorld) -> None:
    manager = new_manager(world)
    append(manager, A, b"1", b"2")
    manager.checkpoint()
    append(manager, A, b"3")
    world.disk.process_crash()
    again = new_manager(world)
    assert (again.logs[A].high_watermark, again.logs[A].log_end_offset) == (2, 3)


def test_a_log_start_above_its_first_segment_is_checkpointed(world: VirtualWorld) -> None:
    manager = new_manager(world)
    append(manager, A, b"1", b"2", b"3")
    append(manager, B, b"1")
    manager.logs[A].delete_records(2)
    manager.checkpoint()
    assert world.disk.read("/one/log-start-offset-checkpoint") == b"0\n1\na 0 2\n"
    world.disk.process_crash()
    assert new_manager(world).logs[A].log_start_offset == 2


def test_a_damaged_checkpoint_costs_time_and_no_data(world: VirtualWorld, caplog: pytest.LogCaptureFixture) -> None:
    manager = new_manager(world)
    append(manager, A, b"1", b"2")
    manager.shutdown()
    for name in ("recovery-point-offset-checkpoint", "log-start-offset-checkpoint", "replication-offset-checkpoint"):
        file = world.disk.open(f"/one/{name}", create=True)
        file.truncate(0)
        file.write_at(0, b"0\n1\na 0")
        file.close()
    again = new_manager(world)
    assert values(again.logs[A], isolation=Isolation.LOG_END) == [b"1", b"2"]
    assert len([m for m in caplog.messages if "starting without it" in m]) == 3


def test_new_logs_go_where_the_fewest_are(world: VirtualWorld) -> None:
    manager = new_manager(world, "/one", "/two")
    for partition in (A, B, C, D):
        manager.create(partition)
    assert sorted(one.log_dir.path for one in manager.logs.values()) == ["/one", "/one", "/two", "/two"]
    manager.cordon(["/one"])
    assert manager.create(TopicPartition("e", 0)).log_dir.path == "/two"
    assert manager.create(TopicPartition("f", 0), directory="/one").log_dir.path == "/one"
    with pytest.raises(LogDirNotFound, match="/three"):
        manager.create(TopicPartition("g", 0), directory="/three")


@pytest.mark.parametrize("number", [errno.EMFILE, errno.ENFILE])
def test_a_directory_stays_online_when_no_descriptor_is_left(world: VirtualWorld, number: int) -> None:
    """6,654 partitions had met a limit of 20,000 files, and the directory went offline with all of them."""
    manager = new_manager(world, "/one")
    append(manager, A, b"a")
    for segment in manager.logs[A].segments:
        segment.rest()
    world.disk.fail_at(1, number, kinds=["open"])
    with pytest.raises(KafkaStorageError):
        manager.logs[A].append_as_leader(bytearray(make_batch(b"refused")), leader_epoch=0)
    world.disk.fail_at(1, number, kinds=["create"])
    with pytest.raises(KafkaStorageError):
        manager.create(B)
    assert manager.handle_failures() == []
    world.disk.clear_faults()
    append(manager, A, b"b")
    append(manager, B, b"c")
    assert values(manager.logs[A], isolation=Isolation.LOG_END) == [b"a", b"b"]
    assert values(manager.logs[B], isolation=Isolation.LOG_END) == [b"c"]


def test_logs_that_are_idle_hold_no_descriptors(tmp_path: Path) -> None:
    world = system_world()

    def held() -> int:
        return len(_open_files_below(tmp_path))

    manager = new_manager(world, str(tmp_path / "logs"))
    for index in range(50):
        manager.create(TopicPartition("t", index))
    assert held() == 1  # the lock
    for index in range(50):
        append(manager, TopicPartition("t", index), b"v")
    assert held() == 51
    manager.shutdown()
    again = new_manager(world, str(tmp_path / "logs"))
    assert len(again.logs) == 50
    assert held() == 1
    assert values(again.logs[TopicPartition("t", 7)], isolation=Isolation.LOG_END) == [b"v"]
    again.shutdown()


def test_a_stop_syncs_only_what_has_changed_and_recovery_nothing_at_all(world: VirtualWorld) -> None:
    """Recovery had cost two syncs a log, and a stop of the node eleven."""
    disk = world.disk
    manager = new_manager(world, "/one")
    for index in range(20):
        append(manager, TopicPartition("t", index), b"v")
    while manager.run_chores():
        pass
    fixed = disk.sync_count
    manager.shutdown()
    # The log, its time index, the snapshot, the directory; and six for the directory's own files.
    assert disk.sync_count - fixed <= 4 * 20 + 10
    fixed = disk.sync_count
    again = new_manager(world, "/one")
    again.shutdown()
    assert disk.sync_count - fixed <= 10
    fixed = disk.sync_count
    again = new_manager(world, "/one")
    for index in range(20):
        append(again, TopicPartition("t", index), b"w")

    disk.process_crash()
    fixed = disk.sync_count
    recovered = new_manager(world, "/one")
    assert disk.sync_count - fixed <= 2
    assert values(recovered.logs[TopicPartition("t", 3)], isolation=Isolation.LOG_END) == [b"v", b"w"]


def test_a_directory_that_fails_goes_offline_alone(world: VirtualWorld) -> None:
    manager = new_manager(world, "/one", "/two")
    append(manager, A, b"a")
    append(manager, B, b"b")
    first, second = manager.logs[A], manager.logs[B]
    assert first.log_dir.path != second.log_dir.path
    world.disk.fail_at(1, errno.EIO, kinds=["write"])
    with pytest.raises(KafkaStorageError):
        first.append_as_leader(bytearray(make_batch(b"lost")), leader_epoch=0)
    assert [d.path for d in manager.handle_failures()] == [first.log_dir.path]
    assert sorted(manager.logs) == [B]
    append(manager, B, b"more")
    append(manager, C, b"new")
    assert manager.logs[C].log_dir is second.log_dir
    with pytest.raises(KafkaStorageError, match="offline"):
        manager.delete(A)
    manager.shutdown()
    world.disk.clear_faults()
    again = new_manager(world, "/one", "/two")
    assert values(again.logs[A], isolation=Isolation.LOG_END) == [b"a"]
    assert values(again.logs[B], isolation=Isolation.LOG_END) == [b"b", b"more"]


def test_a_log_is_begun_elsewhere_when_a_directory_takes_no_more(world: VirtualWorld) -> None:
    manager = new_manager(world, "/one", "/two")
    world.disk.fail_at(1, errno.EIO, kinds=["make_dirs"])
    assert manager.create(A).log_dir.path == "/two"
    assert [one.path for one in manager.live_directories] == ["/two"]


def test_a_log_that_was_half_made_when_its_directory_failed_is_found_once_at_the_next_start(
    world: VirtualWorld,
) -> None:
    manager = new_manager(world, "/one", "/two")
    world.disk.fail_at(2, errno.EIO, kinds=["create"])
    with pytest.raises(KafkaStorageError, match="creating the log of a-0 in dir /one"):
        manager.create(A)
    append(manager, B, b"b")
    assert [one.path for one in manager.live_directories] == ["/two"]
    world.disk.process_crash()
    again = new_manager(world, "/one", "/two")
    assert again.create(A).log_dir.path == "/one"
    assert values(again.logs[B], isolation=Isolation.LOG_END) == [b"b"]


@pytest.mark.parametrize("failed", ["/one", "/two"])
def test_a_log_without_id_and_records_gives_way_to_one_of_its_name_in_another_directory(
    world: VirtualWorld, failed: str
) -> None:
    """Simulator seed 1298, with more faults than today's: the directory failed before the topic id was written, and
    came back after the topic had been made anew in the other one. The node refused to start."""
    manager = new_manager(world, "/one", "/two")
    manager.create(A, directory=failed)
    world.disk.process_crash()
    living = "/two" if failed == "/one" else "/one"
    elsewhere = new_manager(world, living)
    log = elsewhere.create(A, topic_id=Uuid(b"0123456789abcdef"))
    append(elsewhere, A, b"a")
    elsewhere.shutdown()
    world.disk.process_crash()
    again = new_manager(world, "/one", "/two", file_delete_delay_ms=0)
    assert again.logs[A].directory == log.directory
    assert values(again.logs[A], isolation=Isolation.LOG_END) == [b"a"]
    again.run_chores()
    assert [name for name in world.disk.names(failed) if name.startswith("a-0")] == []


def test_two_logs_of_a_partition_that_were_both_written_to_keep_the_node_from_starting(world: VirtualWorld) -> None:
    for directory in ("/one", "/two"):
        manager = new_manager(world, directory)
        append(manager, A, b"a")
        manager.shutdown()
    with pytest.raises(KafkaStorageError, match="Duplicate log directories for a-0"):
        new_manager(world, "/one", "/two")


def test_a_directory_that_cannot_be_read_at_start_leaves_the_others_usable(world: VirtualWorld) -> None:
    manager = new_manager(world, "/one", "/two")
    append(manager, A, b"a")
    append(manager, B, b"b")
    manager.shutdown()
    world.disk.fail_at(1, errno.EIO, kinds=["lock"])
    again = new_manager(world, "/one", "/two")
    assert len(again.live_directories) == 1
    assert len(again.logs) == 1


def test_no_directory_left_is_an_error_that_says_why(world: VirtualWorld) -> None:
    world.disk.fail_at(1, errno.EIO, kinds=["lock"])
    with pytest.raises(KafkaStorageError, match="/one: creating or locking"):
        new_manager(world, "/one")


def test_a_second_process_is_refused(world: VirtualWorld) -> None:
    manager = new_manager(world)
    with pytest.raises(KafkaStorageError, match=r"Failed to acquire lock on file \.lock in /one"):
        new_manager(world)
    manager.shutdown()
    new_manager(world)


def test_a_second_process_is_refused_on_a_real_disk(tmp_path: Path) -> None:
    manager = new_manager(system_world(), str(tmp_path))
    with pytest.raises(KafkaStorageError, match="Another process is using this directory"):
        new_manager(system_world(), str(tmp_path))
    manager.shutdown()
    new_manager(system_world(), str(tmp_path)).shutdown()


def test_the_same_directory_twice_is_refused(world: VirtualWorld) -> None:
    with pytest.raises(ValueError, match="Duplicate log directory"):
        LogManager(world, ["/one", "/one/"])


def test_a_deleted_log_is_gone_at_once_and_its_files_later(world: VirtualWorld) -> None:
    manager = new_manager(world, file_delete_delay_ms=5000)
    append(manager, A, b"old")
    manager.delete(A)
    assert manager.get(A) is None
    (left,) = [name for name in world.disk.names("/one") if name.endswith("-delete")]
    assert left.startswith("a-0.")
    append(manager, A, b"new")
    assert values(manager.logs[A]) == [b"new"]
    world.clock.advance(5000)
    manager.run_chores()
    assert [name for name in world.disk.names("/one") if name.startswith("a-0")] == ["a-0"]
    manager.delete(TopicPartition("never", 0))


def test_a_deletion_that_a_crash_interrupted_goes_on(world: VirtualWorld) -> None:
    manager = new_manager(world)
    append(manager, A, b"old")
    manager.delete(A)
    world.disk.process_crash()
    again = new_manager(world)
    assert again.logs == {}
    world.clock.advance(60_000)
    again.run_chores()
    assert not [name for name in world.disk.names("/one") if name.endswith("-delete")]


def test_a_log_the_cluster_does_not_know_is_set_aside(world: VirtualWorld) -> None:
    manager = new_manager(world)
    append(manager, A, b"a")
    manager.shutdown()
    again = LogManager(world, ["/one"])
    again.start(is_stray=lambda log: log.partition == A)
    assert (again.logs, list(again.stray_logs)) == ({}, [A])
    assert again.stray_logs[A].directory.endswith("-stray")
    again.shutdown()
    third = new_manager(world)
    assert list(third.stray_logs) == [A]


def test_a_future_copy_takes_the_place_of_the_log(world: VirtualWorld) -> None:
    manager = new_manager(world, "/one", "/two")
    append(manager, A, b"a", b"b")
    current = manager.logs[A]
    other = "/two" if current.log_dir.path == "/one" else "/one"
    future = manager.create(A, directory=other, is_future=True)
    assert future.is_future
    read = current.read(0, bytes_max=1 << 20)
    assert read.slice is not None
    future.append_as_follower(read.slice.read(), leader_epoch=0)
    manager.replace_with_future(A)
    assert manager.logs[A] is future
    assert (future.directory, future.high_watermark) == (f"{other}/a-0", 2)
    manager.shutdown()
    again = new_manager(world, "/one", "/two")
    assert values(again.logs[A]) == [b"a", b"b"]


def test_the_same_partition_in_two_directories_is_refused(world: VirtualWorld) -> None:
    for directory in ("/one", "/two"):
        manager = new_manager(world, directory)
        append(manager, A, b"a")
        manager.shutdown()
    with pytest.raises(KafkaStorageError, match="Duplicate log directories for a-0"):
        new_manager(world, "/one", "/two")


def test_a_directory_that_is_no_partition_is_named(world: VirtualWorld) -> None:
    world.disk.make_dirs("/one/lost+found")
    with pytest.raises(ValueError, match=r"lost\+found"):
        new_manager(world)


def test_flush_is_due_after_flush_ms(world: VirtualWorld) -> None:
    manager = new_manager(world, flush_ms=1000)
    append(manager, A, b"a")
    assert manager.flush_due() == 0
    world.clock.advance(1000)
    assert manager.flush_due() == 1
    assert manager.logs[A].recovery_point == 1
    world.clock.advance(1000)
    assert manager.flush_due() == 0, "nothing is unflushed"


def test_retention_runs_over_all_logs(world: VirtualWorld) -> None:
    manager = new_manager(world, retention_ms=1000)
    for partition in (A, B):
        append(manager, partition, b"x")
    world.clock.advance(2000)
    assert manager.delete_old_segments() == 2
    assert [one.log_start_offset for one in manager.logs.values()] == [1, 1]


def test_settings_of_a_topic_act_at_once(world: VirtualWorld) -> None:
    sizes = {"a": 10_000}
    manager = LogManager(
        world, ["/one"], config_of=lambda topic: LogConfig().with_topic({"max.message.bytes": sizes[topic]})
    )
    manager.start()
    log = manager.create(A, topic_id=Uuid(b"0123456789abcdef"))
    sizes["a"] = 50
    manager.update_topic_config("a")
    with pytest.raises(Exception, match="exceeds the maximum configured value of 50"):
        log.append_as_leader(bytearray(make_batch(b"x")), leader_epoch=0)


def test_an_interrupted_stop_is_not_taken_for_a_clean_one(world: VirtualWorld) -> None:
    manager = new_manager(world)
    append(manager, A, b"a")
    world.disk.fail_at(1, errno.EIO, kinds=["sync"])
    manager.shutdown()
    assert ".kafka_cleanshutdown" not in world.disk.names("/one")
