"""The table of fetch sessions: bounded, and fair about who has to go."""

from __future__ import annotations

import random

from ottla.replica import FollowerFeed, Waiters
from ottla.server.fetch_session import FetchSessions, Wanted
from ottla.sim import VirtualWorld, virtual_node_world, virtual_world
from ottla.types import ZERO_UUID
from ottla.wire.messages.fetch import EpochEndOffset, FetchPartition, FetchRequest, FetchTopic, PartitionData

VERSION = 12
MINUTES_2 = 120_000


def sessions(slots: int) -> tuple[VirtualWorld, FetchSessions]:
    world = virtual_world(random.Random(1))
    return world, FetchSessions(world, slots)


def begin(table: FetchSessions, partitions: int, *, is_follower: bool = False) -> int:
    told = [
        (Wanted(("t", index), "t", ZERO_UUID, FetchPartition(index)), PartitionData(index))
        for index in range(partitions)
    ]
    return table.begin(told, VERSION, feed() if is_follower else None)


def feed() -> FollowerFeed:
    return FollowerFeed(2, 8, Waiters(virtual_node_world(1).tasks), 0)


def use(table: FetchSessions, session_id: int, epoch: int) -> int:
    request = FetchRequest(session_id=session_id, session_epoch=epoch)
    return len(table.open(request, VERSION, topics={}).wanted)


def test_without_room_there_is_no_session() -> None:
    _, table = sessions(1)
    first = begin(table, 2)
    assert first > 0
    assert begin(table, 5) == 0, "the first is too young to go, whatever its size"
    assert use(table, first, 1) == 2


def test_a_session_that_was_not_used_for_two_minutes_makes_room() -> None:
    world, table = sessions(2)
    stale, used = begin(table, 5), begin(table, 5)
    world.clock.advance(MINUTES_2)
    use(table, used, 1)
    world.clock.advance(1)
    newcomer = begin(table, 1)
    assert newcomer > 0
    assert table.eviction_count == 1
    assert use(table, used, 2) == 5
    assert len(table) == 2
    assert stale not in (used, newcomer)


def test_an_old_session_makes_room_for_a_larger_one_only() -> None:
    world, table = sessions(1)
    old = begin(table, 3)
    world.clock.advance(MINUTES_2)
    use(table, old, 1)
    world.clock.advance(1)
    use(table, old, 2)
    assert begin(table, 2) == 0
    assert begin(table, 4) > 0
    assert len(table) == 1


def test_followers_come_before_consumers() -> None:
    _, table = sessions(1)
    begin(table, 10)
    follower = begin(table, 1, is_follower=True)
    assert follower > 0
    assert begin(table, 100) == 0
    assert table.partition_count == 1


def test_the_number_of_partitions_is_kept() -> None:
    _, table = sessions(10)
    session_id = begin(table, 3)
    assert table.partition_count == 3
    request = FetchRequest(
        session_id=session_id, session_epoch=1, topics=[FetchTopic("u", partitions=[FetchPartition(0)])]
    )
    table.open(request, VERSION, topics={})
    assert table.partition_count == 4
    table.open(FetchRequest(session_id=session_id, session_epoch=-1), VERSION, topics={})
    assert (table.partition_count, len(table)) == (0, 0)


def test_a_partition_with_an_error_is_news_again_when_it_is_gone() -> None:
    wanted = Wanted(("t", 0), "t", ZERO_UUID, FetchPartition(0))
    good = PartitionData(0, 0, 5, 5, 0, records=b"")
    assert wanted.note(good)
    assert not wanted.note(good)
    assert wanted.note(PartitionData(0, 6, -1, -1, -1, records=b""))
    assert wanted.note(good)
    assert not wanted.note(good)


def test_a_high_watermark_that_came_with_a_diverging_epoch_is_told_again() -> None:
    """A follower cuts its log then, and takes nothing else from the answer."""
    wanted = Wanted(("t", 0), "t", ZERO_UUID, FetchPartition(0))
    diverging = PartitionData(0, 0, 5, 5, 0, records=b"", diverging_epoch=EpochEndOffset(1, 3))
    assert wanted.note(diverging)
    assert wanted.note(PartitionData(0, 0, 5, 5, 0, records=b""))
    assert not wanted.note(PartitionData(0, 0, 5, 5, 0, records=b""))
