"""Leader epochs that begin in a log: nobody waits for their file, and no crash makes them unknown."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from ottla.records import batches
from ottla.sim import VirtualWorld
from ottla.storage.leader_epochs import EpochEntry, read_epochs
from ottla.types import Uuid
from tests.support.logs import TestLog, make_batch, new_world

TOPIC_ID = Uuid.parse("Uj7Le2JPSx2wV9u2sMGLdw")


def on_disk(log: TestLog) -> list[EpochEntry]:
    return read_epochs(log.world.disk, f"{log.path}/leader-epoch-checkpoint")


class Syncs:
    """Counts how often the device was waited for."""

    def __init__(self, world: VirtualWorld, monkeypatch: pytest.MonkeyPatch) -> None:
        self.count = 0
        file = world.disk.open("/logs/any", create=True)
        for cls, name in ((type(file), "sync"), (type(world.disk), "sync_dir")):
            monkeypatch.setattr(cls, name, self._counted(getattr(cls, name)))

    def _counted(self, call: Callable[..., Any]) -> Callable[..., Any]:
        def counted(*arguments: Any) -> Any:
            self.count += 1
            return call(*arguments)

        return counted


def keep_directories(log: TestLog) -> None:
    """The log's directory outlives a power cut, as that of a log which was not made a moment ago."""
    for directory in ("/", "/logs"):
        log.world.disk.sync_dir(directory)


def led(world: VirtualWorld | None = None) -> TestLog:
    """A log of a topic that has been there for a while."""
    log = TestLog(world or new_world())
    log.log.assign_topic_id(TOPIC_ID)
    log.append(b"a", b"b", epoch=3)
    log.chores.run_due()
    keep_directories(log)
    return log


def test_the_first_append_of_an_epoch_waits_for_no_device(monkeypatch: pytest.MonkeyPatch) -> None:
    world = new_world()
    log = led(world)
    syncs = Syncs(world, monkeypatch)
    for epoch in range(4, 9):
        log.log.begin_epoch(epoch)
        log.append(b"x", epoch=epoch)
        assert log.log.epochs.latest_epoch == epoch
    assert syncs.count == 0
    assert on_disk(log) == [(3, 0)]
    log.chores.run_due()
    assert on_disk(log) == [(3, 0), (4, 2), (5, 3), (6, 4), (7, 5), (8, 6)]
    assert syncs.count == 1, "one file for them all; its name waits for the next flush"


def test_a_followers_first_batch_of_an_epoch_waits_for_no_device(monkeypatch: pytest.MonkeyPatch) -> None:
    leader = led()
    for epoch in (4, 5):
        leader.append(b"x", epoch=epoch)
    world = new_world()
    follower = TestLog(world)
    syncs = Syncs(world, monkeypatch)
    for batch in batches(leader.file(".log")):
        follower.log.append_as_follower(bytes(batch.data), leader_epoch=5)
    assert syncs.count == 0
    follower.chores.run_due()
    assert on_disk(follower) == [(3, 0), (4, 2), (5, 3)]


def test_an_epoch_without_a_record_is_not_written() -> None:
    log = led()
    log.log.begin_epoch(4)
    log.chores.run_due()
    assert on_disk(log) == [(3, 0)]
    log.reopen()
    assert log.log.epochs.latest_epoch == 3


def test_the_recovery_point_waits_for_the_epochs_file() -> None:
    """Below it nobody reads the records again, from which the epochs could be told."""
    log = led()
    log.log.begin_epoch(4)
    log.append(b"c", b"d", epoch=4)
    plan = log.log.plan_flush()
    assert plan is not None
    plan.run()
    assert log.log.recovery_point == 2
    log.chores.run_due()
    plan = log.log.plan_flush()
    assert plan is not None
    assert log.path in plan.directories, "the file's new name has to be durable, too"
    plan.run()
    assert log.log.recovery_point == 4


def test_a_flush_that_is_waited_for_writes_the_epochs_as_well() -> None:
    log = led()
    log.append(b"c", epoch=4)
    log.log.flush()
    assert log.log.recovery_point == 3
    assert on_disk(log) == [(3, 0), (4, 2)]


def test_epochs_whose_file_was_lost_are_read_from_their_records() -> None:
    """The power goes before the chore has run: some of the records have reached the device by themselves."""
    world = new_world()
    log = led(world)
    log.log.flush()
    recovery_point = log.log.recovery_point
    for epoch in (4, 7):
        log.log.begin_epoch(epoch)
        log.append(b"x", b"y", epoch=epoch)
    world.disk.open(f"{log.path}/{0:020d}.log").sync()
    world.disk.crash()
    log.open(recovery_point=recovery_point)
    assert log.log.log_end_offset == 6
    assert log.log.epochs.entries == [(3, 0), (4, 2), (7, 4)]


def test_a_stop_in_order_leaves_the_epochs_of_all_records() -> None:
    log = led()
    log.append(b"x", epoch=4)
    log.reopen()
    assert log.log.epochs.entries == [(3, 0), (4, 2)]
    assert on_disk(log) == [(3, 0), (4, 2)]


def test_an_epoch_that_begins_while_the_file_is_written_is_written_after_it() -> None:
    log = led()
    log.append(b"x", epoch=4)
    taken = log.chores.take_due()
    assert taken is not None
    plan = taken[1]()
    assert plan is not None
    log.append(b"y", epoch=5)
    plan.run()
    assert on_disk(log) == [(3, 0), (4, 2)]
    assert log.log.epochs.unwritten_from == 3
    log.chores.run_due()
    assert on_disk(log) == [(3, 0), (4, 2), (5, 3)]
    assert log.log.epochs.unwritten_from is None


def test_a_file_that_is_written_at_once_is_not_replaced_by_an_older_one() -> None:
    """The chore syncs in its thread while somebody who may wait writes the file."""
    log = led()
    log.append(b"x", epoch=4)
    taken = log.chores.take_due()
    assert taken is not None
    plan = taken[1]()
    assert plan is not None
    log.append(b"y", epoch=5)
    log.log.flush()
    assert on_disk(log) == [(3, 0), (4, 2), (5, 3)]
    plan.run()
    assert on_disk(log) == [(3, 0), (4, 2), (5, 3)]


def test_a_log_that_is_deleted_while_its_epochs_are_written_stays_deleted() -> None:
    log = led()
    log.append(b"x", epoch=4)
    taken = log.chores.take_due()
    assert taken is not None
    plan = taken[1]()
    assert plan is not None
    log.log.rename_directory("topic-0.0123-delete")
    log.log.delete()
    plan.run()
    assert log.world.disk.names("/logs") == []


@pytest.mark.parametrize("is_flushed", [False, True], ids=["unflushed", "flushed"])
def test_an_epoch_that_was_truncated_does_not_come_back_from_its_file(is_flushed: bool) -> None:
    """A follower truncates what epoch 5 wrote, and is given records of epoch 3 in its place: the file still knows of
    epoch 5, and a start after a power cut must not believe that it wrote them."""
    world = new_world()
    log = TestLog(world)
    keep_directories(log)
    leader = TestLog(new_world())
    for values in ((b"a", b"b"), (b"c", b"d"), (b"e",)):
        leader.append(*values, epoch=3)
    first, *rest = (bytes(batch.data) for batch in batches(leader.file(".log")))
    log.log.append_as_follower(first, leader_epoch=5)
    log.append(b"lost", epoch=5)
    log.chores.run_due()
    log.log.flush()
    assert on_disk(log) == [(3, 0), (5, 2)]
    log.log.truncate_to(2)
    for batch in rest:
        log.log.append_as_follower(batch, leader_epoch=6)
    if is_flushed:
        for _ in range(2):
            log.chores.run_due()
            plan = log.log.plan_flush()
            if plan is not None:
                plan.run()
        assert log.log.recovery_point == 5
    else:
        world.disk.open(f"{log.path}/{0:020d}.log").sync()
        assert log.log.recovery_point == 2
    recovery_point = log.log.recovery_point
    world.disk.crash()
    log.open(recovery_point=recovery_point)
    assert log.log.log_end_offset == 5
    assert log.log.epochs.entries == [(3, 0)]


def test_appends_that_are_refused_begin_no_epoch() -> None:
    log = led()
    damaged = bytearray(make_batch(b"x"))
    damaged[-1] ^= 1
    with pytest.raises(Exception, match="corrupt"):
        log.log.append_as_leader(damaged, leader_epoch=9)
    assert log.log.epochs.latest_epoch == 3
