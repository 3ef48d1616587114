"""`ottla/storage/loading.py` and `ottla/replica/log_loading.py`: logs opened beside each other are the same logs."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from ottla.errors import KafkaStorageError
from ottla.replica.log_loading import load_logs
from ottla.sim import virtual_node_world
from ottla.storage import Log, LogManager
from ottla.storage.loading import STEP_LOGS_MAX
from ottla.types import TopicPartition
from ottla.world import World
from ottla.world.system import system_world
from tests.support.logs import make_batch

COUNT = 200


def make_logs(world: World, *directories: str, count: int = COUNT) -> None:
    """Logs with some records each, as a process leaves them that was killed."""
    manager = LogManager(world, directories)
    manager.start()
    for index in range(count):
        made = manager.create(TopicPartition("t", index), directory=directories[index % len(directories)])
        for _ in range(1 + index % 3):
            made.append_as_leader(bytearray(make_batch(b"some", b"records")), leader_epoch=index)
    manager.checkpoint()
    for one in manager.logs.values():
        one.abandon()
    manager.unlock()


def seen(manager: LogManager) -> list[tuple[str, int, int, int | None, str]]:
    return [
        (str(name), one.log_end_offset, one.recovery_point, one.epochs.latest_epoch, one.directory)
        for name, one in manager.logs.items()
    ]


def test_logs_that_several_threads_open_are_those_that_one_opens(tmp_path: Path) -> None:
    world = system_world()
    make_logs(world, str(tmp_path))
    manager = LogManager(world, [str(tmp_path)])
    (loading,) = manager.begin_loading()
    loading.plan()

    def work() -> None:
        while loading.open_some():
            pass

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert manager.logs == {}, "nothing is served before it is taken over"
    manager.start()
    found = seen(manager)
    for one in manager.logs.values():
        one.abandon()
    manager.unlock()
    again = LogManager(world, [str(tmp_path)])
    again.start()
    assert seen(again) == found
    assert len(found) == COUNT > STEP_LOGS_MAX
    again.shutdown()


def test_a_directory_that_fails_while_its_logs_are_opened_leaves_the_others_whole() -> None:
    virtual = virtual_node_world(1)
    make_logs(virtual, "/a", "/b", count=40)
    manager = LogManager(virtual, ["/a", "/b"])
    loadings = manager.begin_loading()

    def broken(*_: object) -> Log:
        raise OSError(5, "Input/output error")

    loadings[0]._open = broken  # type: ignore[method-assign, assignment]
    virtual.loop.run_until_complete(load_logs(virtual.tasks, loadings, threads_per_directory=3))
    assert isinstance(loadings[0].failure, OSError)
    manager.start()
    assert [one.path for one in manager.directories if one.is_offline] == ["/a"]
    assert {one.log_dir.path for one in manager.logs.values()} == {"/b"}
    assert len(manager.logs) == 20


def test_what_no_directory_can_load_ends_the_start() -> None:
    virtual = virtual_node_world(1)
    make_logs(virtual, "/a", count=2)
    manager = LogManager(virtual, ["/a"])
    (loading,) = manager.begin_loading()
    loading.failure = OSError(5, "Input/output error")
    with pytest.raises(KafkaStorageError, match="None of the specified log dirs"):
        manager.start()


def test_an_opening_that_is_given_up_lets_the_files_go() -> None:
    virtual = virtual_node_world(1)
    make_logs(virtual, "/a", count=5)
    manager = LogManager(virtual, ["/a"])
    (loading,) = manager.begin_loading()
    loading.run()
    opened = [one for _, one in loading.opened]
    assert len(opened) == 5
    manager.stop_loading()
    assert loading.opened == []
    assert all(one.is_closed for one in opened)
    manager.unlock()
