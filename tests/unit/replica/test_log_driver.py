"""The logs' schedule, on virtual time: what is due happens, and no piece of it is long."""

from __future__ import annotations

import errno
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from ottla.replica import LogDriver
from ottla.sim import Kind
from ottla.types import TopicPartition
from tests.support.logs import make_batch
from tests.unit.replica.node import TestNode

MINUTE_MS = 60_000


Start = Callable[..., tuple[TestNode, LogDriver]]


@pytest.fixture
def started() -> Iterator[Start]:
    """Makes a node whose schedule runs; it dies with the test."""
    nodes: list[TestNode] = []

    def start(settings: dict[str, object] | None = None, **options: Any) -> tuple[TestNode, LogDriver]:
        node = TestNode({"log.initial.task.delay.ms": 1000, **(settings or {})}, **options)
        nodes.append(node)
        driver = LogDriver(node.world, node.replicas, node.config)
        driver.start()
        return node, driver

    yield start
    for node in nodes:
        assert node.virtual is not None
        node.virtual.disk.on_operation = None
        node.run_ms(1)
        node.virtual.life.end()
        node.virtual.loop.close()


def checkpoint(node: TestNode, name: str) -> dict[str, int]:
    """The offsets of a checkpoint file, by partition."""
    lines = node.world.disk.read(f"/logs/{name}").decode().splitlines()[2:]
    return {f"{topic}-{index}": int(offset) for topic, index, offset in (line.split() for line in lines)}


def test_old_segments_go_on_schedule(started: Start) -> None:
    node, _ = started({"log.retention.check.interval.ms": MINUTE_MS})
    node.create_topic("t", retention_ms=1000, internal_segment_bytes=150, file_delete_delay_ms=1000)
    for _ in range(3):
        node.partition().append(make_batch(b"v" * 50, timestamp=node.world.clock.now_ms()))
    log = node.partition().log
    assert log is not None
    node.run_ms(500)
    assert log.log_start_offset == 0
    node.run_ms(2 * MINUTE_MS)
    assert log.log_start_offset == 3
    assert not [name for name in node.world.disk.names("/logs/t-0") if name.endswith(".deleted")]


def test_flushes_run_in_threads_when_they_are_due(started: Start) -> None:
    node, _ = started({"log.flush.scheduler.interval.ms": 2000})
    node.create_topic("t", flush_ms=3000)
    node.partition().append(make_batch(b"v"))
    log = node.partition().log
    assert log is not None
    node.run_ms(2000)
    assert log.recovery_point == 0
    node.run_ms(6000)
    assert log.recovery_point == 1


def test_checkpoints_are_written_and_an_idle_node_writes_nothing(started: Start) -> None:
    node, _ = started()
    node.create_topic("t")
    node.partition().append(make_batch(b"v"))
    node.run_ms(6000)
    assert checkpoint(node, "replication-offset-checkpoint") == {"t-0": 1}
    node.partition().delete_records(1)
    node.run_ms(2 * MINUTE_MS)
    assert checkpoint(node, "log-start-offset-checkpoint") == {"t-0": 1}
    assert checkpoint(node, "recovery-point-offset-checkpoint") == {"t-0": 0}
    assert node.virtual is not None
    before = node.virtual.disk.counts["sync"]
    node.run_ms(10 * MINUTE_MS)
    assert node.virtual.disk.counts["sync"] == before


def test_a_checkpoint_that_has_become_old_never_replaces_a_newer_one(started: Start) -> None:
    """A topic is deleted, and one of its name made anew, while the old offsets are on their way to the disk."""
    node, _ = started()
    node.create_topic("t")
    for _ in range(3):
        node.partition().append(make_batch(b"v"))
    log = node.partition().log
    assert log is not None
    log.flush()
    deleted: list[str] = []

    def delete_once(kind: Kind, path: str) -> None:
        if kind == "sync" and path.endswith(".next.tmp") and "recovery" in path and not deleted:
            deleted.append(path)
            node.delete_topic("t")

    assert node.virtual is not None
    node.virtual.disk.on_operation = delete_once
    node.run_ms(2 * MINUTE_MS)
    assert deleted
    assert checkpoint(node, "recovery-point-offset-checkpoint") == {}


def test_compaction_runs_in_steps(started: Start) -> None:
    node, _ = started({"log.cleaner.backoff.ms": 100})
    node.create_topic("t", cleanup_policy="compact", internal_segment_bytes=200, min_cleanable_dirty_ratio=0.01)
    for number in range(20):
        node.partition().append(make_batch(b"%d" % number, key=b"k", timestamp=node.world.clock.now_ms()))
    log = node.partition().log
    assert log is not None
    before = log.size
    node.run_ms(MINUTE_MS)
    assert log.size < before / 4


def test_a_directory_that_fails_in_a_thread_goes_offline_alone(started: Start) -> None:
    node, _ = started({"log.flush.scheduler.interval.ms": 1000}, directories=["/a", "/b"])
    node.create_topic("bad", directory="/a", flush_ms=1)
    node.create_topic("good", directory="/b", flush_ms=1)
    for name in ("bad", "good"):
        node.partition(name).append(make_batch(b"v"))
    assert node.virtual is not None

    def fail(kind: Kind, path: str) -> None:
        if kind == "sync" and path.startswith("/a/bad"):
            raise OSError(errno.EIO, "it smokes", path)

    node.virtual.disk.on_operation = fail
    node.run_ms(3000)
    assert node.failed_directories == ["/a"]
    log = node.partition("good").log
    assert log is not None
    assert log.recovery_point == 1


def test_a_stop_leaves_a_clean_directory(started: Start) -> None:
    node, driver = started()
    node.create_topic("t")
    node.partition().append(make_batch(b"v"))
    node.wait(driver.stop(broker_epoch=7))
    assert node.world.disk.exists("/logs/.kafka_cleanshutdown")
    assert checkpoint(node, "recovery-point-offset-checkpoint") == {"t-0": 1}
    node.run_ms(10 * MINUTE_MS)


@pytest.mark.parametrize("partitions", [50, 200])
def test_no_piece_of_the_schedule_grows_with_the_number_of_logs(started: Start, partitions: int) -> None:
    """Measured as the work between two turns of the loop: file operations on it, and logs looked at."""
    node, _ = started({"log.retention.check.interval.ms": 5000, "log.flush.scheduler.interval.ms": 3000})
    node.create_topic("t", partitions, retention_ms=1, flush_ms=1)
    node.run_ms(1)
    for index in range(partitions):
        node.partition("t", index).append(make_batch(b"v", timestamp=node.world.clock.now_ms()))
    assert node.virtual is not None
    loop, disk = node.virtual.loop, node.virtual.disk
    longest: dict[str, int] = {}
    busy = [0]

    def count(kind: Kind, path: str) -> None:
        busy[0] += 1

    disk.on_operation = count
    step: Callable[[], None] = loop._step

    def measured() -> None:
        busy[0] = 0
        step()
        longest["operations"] = max(longest.get("operations", 0), busy[0])

    loop._step = measured  # type: ignore[method-assign]
    node.run_ms(20_000)
    logs = node.replicas.logs.logs
    assert all(one.log_start_offset == 1 for one in logs.values()), "all of the schedule ran"
    assert logs[TopicPartition("t", partitions - 1)].recovery_point >= 1
    assert longest["operations"] <= 200, "eight logs' share of rolling and retention, whatever their number"
