"""Which log is cleaned next, what is written down about it, and who may keep the cleaner away."""

from __future__ import annotations

import errno
import logging
from typing import Any

import pytest

from ottla.config import CleanerConfig, LogConfig
from ottla.sim import Kind, VirtualWorld
from ottla.storage import Isolation, Log, LogManager
from ottla.storage.cleaner_manager import CleanerManager
from ottla.storage.cleaner_stats import CleanerStats
from ottla.types import TopicPartition
from tests.support.logs import make_batch, new_world, read_records

ONE, TWO = TopicPartition("one", 0), TopicPartition("two", 0)
DAY_MS = 86_400_000
WRITES: tuple[Kind, ...] = ("write",)


class Node:
    """Compacted logs in one or two directories, and their cleaner. Restarted with `restart`."""

    def __init__(self, *, directories: tuple[str, ...] = ("/logs",), cleaner: dict[str, object] | None = None) -> None:
        self.world: VirtualWorld = new_world()
        self.directories = directories
        self.cleaner_config = CleanerConfig(cleaner or {})
        self.settings: dict[str, dict[str, Any]] = {}
        self.manager = self._start()

    def _start(self) -> LogManager:
        manager = LogManager(
            self.world, self.directories, config_of=self._config_of, cleaner_config=self.cleaner_config
        )
        manager.start()
        return manager

    def _config_of(self, topic: str) -> LogConfig:
        return LogConfig().with_topic(
            {"cleanup.policy": "compact", "min.cleanable.dirty.ratio": 0.01, **self.settings.get(topic, {})}
        )

    @property
    def cleaner(self) -> CleanerManager:
        assert self.manager.cleaner is not None
        return self.manager.cleaner

    def cleaning(self) -> TopicPartition | None:
        return self.cleaner.cleaning

    def stats(self) -> CleanerStats | None:
        return self.cleaner.last_stats

    def restart(self) -> None:
        self.manager.shutdown()
        self.manager = self._start()
        for log in self.manager.logs.values():
            log.update_high_watermark(log.log_end_offset)

    def create(self, partition: TopicPartition, directory: str | None = None, **settings: Any) -> Log:
        self.settings[partition.topic] = {name.replace("_", "."): value for name, value in settings.items()}
        return self.manager.create(partition, directory=directory)

    def put(self, partition: TopicPartition, *pairs: tuple[str, str | None]) -> None:
        log = self.manager.logs[partition]
        batch = make_batch(
            *(None if value is None else value.encode() for _, value in pairs),
            keys=[key.encode() for key, _ in pairs],
            timestamp=self.world.clock.now_ms(),
        )
        log.append_as_leader(bytearray(batch), leader_epoch=0)
        log.update_high_watermark(log.log_end_offset)

    def fill(self, partition: TopicPartition, *, clean: int = 0, dirty: int = 3) -> None:
        """So many records that are clean, and so many dirty ones of one key, in closed segments."""
        for place in range(clean):
            self.put(partition, (f"key{place}", "1"))
        if clean:
            self.manager.logs[partition].roll()
            self.run()
        for place in range(dirty):
            self.put(partition, ("a", f"{place}"))
        self.manager.logs[partition].roll()

    def step(self) -> int:
        """One step, with all that has to happen before the next; returns how long that was waited for."""
        step = self.cleaner.step()
        if step.sync is not None:
            step.sync.run()
        self.world.clock.advance(step.delay_ms)
        return step.delay_ms

    def run(self, steps_max: int = 1000) -> None:
        """Let the cleaner work until it has nothing to do."""
        for _ in range(steps_max):
            if self.step() >= self.cleaner_config.backoff_ms:
                return
        raise AssertionError("the cleaner does not come to an end")

    def unfinished(self, partition: TopicPartition) -> list[str]:
        """The files that a run is writing."""
        log = self.manager.logs[partition]
        return [name for name in self.world.disk.names(log.directory) if name.endswith(".cleaned")]

    def checkpoint(self, partition: TopicPartition, directory: str = "/logs") -> str | None:
        """The line of the checkpoint file."""
        path = f"{directory}/cleaner-offset-checkpoint"
        if not self.world.disk.exists(path):
            return None
        lines = self.world.disk.read(path).decode().splitlines()
        return next((line for line in lines[2:] if line.startswith(f"{partition.topic} ")), None)

    def values(self, partition: TopicPartition) -> list[tuple[int, bytes | None]]:
        records = read_records(self.manager.logs[partition], isolation=Isolation.LOG_END)
        return [(record.offset, record.value) for record in records]


# What is cleaned


def test_a_dirty_log_is_cleaned_and_its_end_written_down() -> None:
    node = Node()
    node.create(ONE)
    node.fill(ONE)
    node.run()
    assert node.values(ONE) == [(2, b"2")]
    assert node.checkpoint(ONE) == "one 0 3"
    stats = node.stats()
    assert stats is not None
    assert (stats.messages_read, stats.messages_written) == (3, 1)


def test_the_next_start_goes_on_from_the_checkpoint() -> None:
    node = Node()
    node.create(ONE)
    node.fill(ONE)
    node.run()
    node.restart()
    node.run()
    assert node.stats() is None
    node.fill(ONE, dirty=2)
    node.run()
    stats = node.stats()
    assert stats is not None
    assert stats.map_messages_read == 2
    assert node.checkpoint(ONE) == "one 0 5"


def test_the_filthiest_log_comes_first() -> None:
    node = Node()
    node.create(ONE)
    node.create(TWO)
    node.fill(ONE, clean=8, dirty=2)
    node.fill(TWO, clean=2, dirty=8)
    node.step()
    assert node.cleaning() == TWO
    assert 0.7 < node.cleaner.dirtiest_ratio < 0.9
    node.run()
    assert node.checkpoint(ONE) == "one 0 10"
    assert node.checkpoint(TWO) == "two 0 10"


def test_a_log_that_is_not_dirty_enough_waits() -> None:
    node = Node()
    node.create(ONE, min_cleanable_dirty_ratio=0.5)
    node.fill(ONE, clean=6, dirty=2)
    node.run()
    assert node.checkpoint(ONE) == "one 0 6"
    node.fill(ONE, dirty=8)
    node.run()
    assert node.checkpoint(ONE) == "one 0 16"


def test_max_compaction_lag_makes_a_log_due_that_is_hardly_dirty() -> None:
    node = Node()
    node.create(ONE, min_cleanable_dirty_ratio=0.9, max_compaction_lag_ms=60_000, segment_ms=DAY_MS)
    node.fill(ONE, dirty=10)
    node.run()
    node.fill(ONE, dirty=1)
    node.run()
    assert node.checkpoint(ONE) == "one 0 10"
    node.world.clock.advance(60_001)
    node.run()
    assert node.checkpoint(ONE) == "one 0 11"
    assert node.cleaner.compaction_delay_ms == 0


def test_a_log_that_only_deletes_is_not_cleaned() -> None:
    node = Node()
    node.create(ONE, cleanup_policy="delete")
    node.fill(ONE)
    node.run()
    assert len(node.values(ONE)) == 3
    assert node.checkpoint(ONE) is None


def test_a_checkpoint_below_the_log_start_is_moved_up_to_it(caplog: pytest.LogCaptureFixture) -> None:
    node = Node()
    log = node.create(ONE)
    node.fill(ONE)
    node.run()
    node.put(ONE, ("b", "1"), ("c", "1"))
    log.delete_records(5)
    node.run()
    assert node.checkpoint(ONE) == "one 0 5"
    assert "Resetting first dirty offset of one-0 to log start offset 5" in caplog.text


def test_a_checkpoint_beyond_the_log_end_begins_again_at_the_start() -> None:
    node = Node()
    node.create(ONE)
    node.fill(ONE)
    node.cleaner.checkpoints.put(node.manager.directories[0], ONE, 99)
    node.run()
    assert node.checkpoint(ONE) == "one 0 3"
    assert node.values(ONE) == [(2, b"2")]


def test_a_damaged_checkpoint_costs_another_cleaning_and_nothing_else(caplog: pytest.LogCaptureFixture) -> None:
    node = Node()
    node.create(ONE)
    node.fill(ONE)
    node.run()
    node.manager.shutdown()
    file = node.world.disk.open("/logs/cleaner-offset-checkpoint")
    file.write_at(0, b"?")
    file.close()
    node.manager = node._start()
    assert node.cleaner.checkpoints.get(node.manager.directories[0], ONE) is None
    assert "cleaner-offset-checkpoint" in caplog.text
    node.manager.logs[ONE].update_high_watermark(3)
    node.run()
    assert node.checkpoint(ONE) == "one 0 3"
    assert node.values(ONE) == [(2, b"2")]


def test_compact_and_delete_does_both() -> None:
    node = Node()
    log = node.create(ONE, cleanup_policy="compact,delete", retention_ms=60_000)
    node.fill(ONE)
    node.run()
    assert node.values(ONE) == [(2, b"2")]
    node.world.clock.advance(60_000)
    node.put(ONE, ("b", "1"))
    node.run()
    assert node.values(ONE) == [(3, b"1")]
    assert log.log_start_offset == 3
    assert node.manager.delete_old_segments() == 0


def test_a_compacted_log_loses_only_the_segments_below_its_start() -> None:
    node = Node()
    log = node.create(ONE, retention_ms=1000)
    node.put(ONE, ("a", "1"))
    log.roll()
    node.put(ONE, ("b", "1"))
    log.roll()
    log.delete_records(1)
    node.world.clock.advance(DAY_MS)
    node.cleaner.pause(ONE)
    node.run()
    assert len(log.segments) == 3
    node.cleaner.resume(ONE)
    node.run()
    assert log.log_start_offset == 1
    assert node.values(ONE) == [(1, b"1")]


# Speed


def test_the_rate_is_kept_by_waiting_between_the_steps() -> None:
    node = Node(cleaner={"log.cleaner.io.max.bytes.per.second": "1000", "log.cleaner.io.buffer.size": "1000"})
    node.create(ONE)
    node.fill(ONE, dirty=60)
    start = node.world.clock.monotonic_ms()
    waits = []
    while (stats := node.stats()) is None:
        waits.append(node.step())
    elapsed = node.world.clock.monotonic_ms() - start
    assert stats.io_bytes / (elapsed / 1000) <= 1010
    assert max(waits) < 2000
    assert len(waits) > 10


def test_a_new_rate_counts_from_the_next_step_on() -> None:
    node = Node(cleaner={"log.cleaner.io.max.bytes.per.second": "1", "log.cleaner.io.buffer.size": "400"})
    node.create(ONE)
    node.fill(ONE, dirty=10)
    assert node.cleaner.step().delay_ms > 100_000
    node.world.clock.advance(10_000_000)
    node.cleaner.config = CleanerConfig()
    assert node.cleaner.step().delay_ms == 0


# Who may keep it away


def test_a_paused_log_is_left_alone_until_it_was_resumed_as_often() -> None:
    node = Node()
    node.create(ONE)
    node.fill(ONE)
    node.cleaner.pause(ONE)
    node.cleaner.pause(ONE)
    node.run()
    assert len(node.values(ONE)) == 3
    node.cleaner.resume(ONE)
    assert node.cleaner.is_paused(ONE)
    node.run()
    assert len(node.values(ONE)) == 3
    node.cleaner.resume(ONE)
    node.run()
    assert len(node.values(ONE)) == 1
    with pytest.raises(AssertionError, match="was not paused"):
        node.cleaner.resume(ONE)


def test_pausing_ends_a_run_at_once_and_leaves_no_file() -> None:
    node = Node(cleaner={"log.cleaner.io.buffer.size": "200"})
    node.create(ONE)
    node.create(TWO)
    node.fill(ONE, dirty=20)
    while not node.unfinished(ONE):
        node.step()
    node.cleaner.pause(TWO)
    assert node.cleaning() == ONE
    node.cleaner.pause(ONE)
    assert node.cleaning() is None
    assert node.unfinished(ONE) == []
    assert node.checkpoint(ONE) is None


def under_way() -> Node:
    """A node whose cleaner is in the middle of a run over the first of two logs."""
    node = Node(directories=("/logs", "/more"), cleaner={"log.cleaner.io.buffer.size": "200"})
    node.create(ONE, "/logs")
    node.create(TWO, "/more")
    node.fill(ONE, clean=2, dirty=20)
    while not node.unfinished(ONE):
        node.step()
    assert node.cleaning() == ONE
    return node


def test_deleting_a_log_ends_its_run_and_forgets_its_checkpoint() -> None:
    node = under_way()
    assert node.checkpoint(ONE) == "one 0 2"
    node.manager.delete(ONE)
    assert node.cleaning() is None
    assert node.checkpoint(ONE) is None
    (removed,) = [name for name in node.world.disk.names("/logs") if name.endswith("-delete")]
    assert not [name for name in node.world.disk.names(f"/logs/{removed}") if name.endswith(".cleaned")]
    node.create(ONE, "/logs")
    node.fill(ONE)
    node.run()
    assert node.values(ONE) == [(2, b"2")]


def test_a_run_in_a_log_that_is_no_longer_served_ends_by_itself(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    node = under_way()
    node.manager.logs.pop(ONE)
    assert node.step() == 0
    assert node.cleaning() is None
    assert "Aborted the cleaning of one-0" in caplog.text


def test_truncating_a_log_ends_its_run_and_lowers_its_checkpoint() -> None:
    node = under_way()
    node.cleaner.stop()
    node.cleaner.checkpoints.put(node.manager.directories[0], ONE, 20)
    node.step()
    node.manager.truncate_to({ONE: 5})
    assert node.cleaning() is None
    base_offset = node.manager.logs[ONE].segments.active.base_offset
    assert node.checkpoint(ONE) == f"one 0 {base_offset}"
    node.manager.truncate_fully_and_start_at(ONE, 1)
    assert node.checkpoint(ONE) == "one 0 1"


def test_a_log_that_moves_to_another_directory_takes_its_checkpoint_along() -> None:
    node = under_way()
    node.manager.create(ONE, directory="/more", is_future=True)
    node.manager.replace_with_future(ONE)
    assert node.cleaning() is None
    assert (node.checkpoint(ONE), node.checkpoint(ONE, "/more")) == (None, "one 0 2")


def test_a_directory_that_fails_ends_the_run_in_it_and_the_others_go_on(caplog: pytest.LogCaptureFixture) -> None:
    node = under_way()
    node.fill(TWO)
    node.world.disk.fail_at(1, errno.EIO, kinds=WRITES)
    while node.cleaning() == ONE:
        node.step()
    assert node.manager.directories[0].is_offline
    node.manager.handle_failures()
    node.run()
    assert node.values(TWO) == [(2, b"2")]
    assert node.checkpoint(TWO, "/more") == "two 0 3"
    assert node.cleaner.uncleanable(node.manager.directories[0]) == []


def test_a_sync_that_fails_takes_the_directory_offline_unless_the_run_was_ended_meanwhile() -> None:
    node = under_way()
    error = OSError(errno.EIO, "input/output error")
    node.cleaner.pause(ONE)
    node.cleaner.on_sync_failed(error)
    assert node.manager.live_directories == node.manager.directories
    node.cleaner.resume(ONE)
    node.step()
    node.cleaner.on_sync_failed(error)
    assert node.manager.live_directories == node.manager.directories[1:]
    assert node.cleaning() is None


def test_a_checkpoint_that_cannot_be_written_takes_the_directory_offline() -> None:
    node = Node(directories=("/logs", "/more"))
    node.create(ONE, "/logs")
    node.fill(ONE)

    def refuse(kind: Kind, path: str) -> None:
        if kind == "create" and path.startswith("/logs/cleaner-offset-checkpoint"):
            raise OSError(errno.ENOSPC, "no space left on device", path)

    node.world.disk.on_operation = refuse
    node.run()
    assert node.manager.directories[0].is_offline
    assert not node.manager.directories[1].is_offline
    assert node.cleaner.checkpoints.get(node.manager.directories[0], ONE) is None


def test_a_checkpoint_that_cannot_be_read_takes_the_directory_offline_at_the_start() -> None:
    node = Node(directories=("/logs", "/more"))
    node.create(ONE, "/logs")
    node.create(TWO, "/more")
    node.manager.shutdown()

    def refuse(kind: Kind, path: str) -> None:
        if kind == "read" and path == "/logs/cleaner-offset-checkpoint":
            raise OSError(errno.EIO, "input/output error", path)

    node.world.disk.on_operation = refuse
    manager = node._start()
    assert [directory.path for directory in manager.live_directories] == ["/more"]
    assert list(manager.logs) == [TWO]


def test_a_damaged_log_is_left_alone_and_the_others_are_cleaned(caplog: pytest.LogCaptureFixture) -> None:
    node = Node()
    log = node.create(ONE)
    node.fill(ONE, dirty=9)
    damaged = node.world.disk.open("/logs/one-0/00000000000000000000.log")
    damaged.write_at(70, b"?")
    damaged.close()
    node.run()
    assert node.cleaner.uncleanable(node.manager.directories[0]) == [ONE]
    assert node.cleaner.uncleanable_bytes(node.manager.directories[0]) == log.size
    assert "Marking its partition as uncleanable" in caplog.text
    node.create(TWO)
    node.fill(TWO)
    node.run()
    assert node.checkpoint(ONE) is None
    assert node.checkpoint(TWO) == "two 0 3"
    node.manager.delete(ONE)
    assert node.cleaner.uncleanable(node.manager.directories[0]) == []


def test_a_disabled_cleaner_is_none() -> None:
    manager = LogManager(new_world(), ["/logs"], cleaner_config=CleanerConfig({"log.cleaner.enable": "false"}))
    manager.start()
    assert manager.cleaner is None


def test_a_run_tells_what_it_did_in_one_line(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    node = Node()
    node.create(ONE, cleanup_policy="delete")
    node.manager.logs[ONE].append_as_leader(bytearray(make_batch(b"1", key=None)), leader_epoch=0)
    node.manager.logs[ONE].update_high_watermark(1)
    node.settings["one"] = {}
    node.manager.update_topic_config("one")
    node.fill(ONE)
    node.run()
    (line,) = [record.message for record in caplog.records if "Cleaned log" in record.message]
    assert line.startswith("[LogCleaner] Cleaned log one-0 (dirty section = [0, 4)): ")
    assert "75.0% fewer messages" in line
    assert "Found 1 invalid messages during compaction of one-0" in caplog.text


def test_how_long_ago_it_looked_for_work_is_known() -> None:
    node = Node()
    node.run()
    node.world.clock.advance(5)
    assert node.cleaner.idle_ms == 5 + node.cleaner_config.backoff_ms
