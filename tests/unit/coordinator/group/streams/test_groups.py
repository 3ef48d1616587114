"""What transcripts do not show of Streams groups: other families, failed writes, many random members."""

from __future__ import annotations

import random
from typing import Any

import pytest

from ottla.coordinator.group import GroupShard, GroupType
from ottla.errors import KafkaError
from ottla.wire.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from ottla.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from tests.unit.coordinator.group.streams.doors import VirtualDoor
from tests.unit.coordinator.group.streams.player import Player


@pytest.fixture
def player() -> Any:
    door = VirtualDoor()
    yield Player(door)
    door.close()


def door_of(player: Player) -> VirtualDoor:
    assert isinstance(player.door, VirtualDoor)
    return player.door


def shard_of(player: Player) -> GroupShard:
    (shard,) = door_of(player).node.groups.runtime.shards
    return shard


def play(player: Player, *commands: str) -> list[str]:
    """The first line of each answer."""
    return [(player.execute(command) or [""])[0] for command in commands]


def test_offsets_of_nobody_become_the_offsets_of_the_streams_group(player: Player) -> None:
    """They make a classic group without members, which the first member of the application replaces."""
    door = door_of(player)
    door.create_topic("words", 2)
    partitions = [OffsetCommitRequestPartition(partition_index=0, committed_offset=41)]
    topics = [OffsetCommitRequestTopic(name="words", partitions=partitions)]
    request = OffsetCommitRequest(group_id="app", generation_id_or_member_epoch=-1, topics=topics)
    answer: Any = door.send(request, 9, "admin")
    assert answer.topics[0].partitions[0].error_code == 0
    assert shard_of(player).groups["app"].type is GroupType.CLASSIC
    play(player, "join m1", "reload")
    assert shard_of(player).groups["app"].type is GroupType.STREAMS
    kept = shard_of(player).offsets.committed.get("app", "words", 0)
    assert kept is not None
    assert kept.offset == 41


def test_each_new_epoch_of_a_group_counts_as_a_rebalance(player: Player) -> None:
    door_of(player).create_topic("words", 2)
    play(player, "join m1", "heartbeat m1", "join m2", "heartbeat m1 owns=0-0", "heartbeat m2")
    assert door_of(player).node.groups.metrics.streams_rebalances == 2


def test_a_streams_group_that_all_have_left_can_become_a_classic_group(player: Player) -> None:
    door_of(player).create_topic("words", 2)
    play(player, "join m1")
    join = JoinGroupRequest(
        group_id="app",
        session_timeout_ms=6000,
        rebalance_timeout_ms=6000,
        protocol_type="consumer",
        protocols=[JoinGroupRequestProtocol(name="range", metadata=b"")],
    )
    refused: Any = door_of(player).send(join, 3, "consumer")
    assert refused.error_code != 0
    play(player, "leave m1")
    joined: Any = door_of(player).send(join, 3, "consumer")
    assert joined.error_code == 0
    assert shard_of(player).groups["app"].type is GroupType.CLASSIC


def test_a_heartbeat_whose_records_cannot_be_written_leaves_the_group_as_it_was(
    player: Player, monkeypatch: pytest.MonkeyPatch
) -> None:
    door = door_of(player)
    door.create_topic("words", 4)
    play(player, "join m1", "heartbeat m1 owns=0-0,0-1,0-2,0-3")
    before = player.do_state()
    log = door.node.groups.runtime._slots[0].log

    def fail(*_: object, **__: object) -> int:
        raise KafkaError("the disk is full")

    with monkeypatch.context() as patched:
        patched.setattr(type(log), "append", fail)
        assert play(player, "join m2") == ["UNKNOWN_SERVER_ERROR: the disk is full"]
    assert player.do_state() == before
    assert play(player, "join m2", "heartbeat m1") == ["epoch 3, again in 5000 ms", "epoch 2, again in 5000 ms"]


@pytest.mark.parametrize("seed", range(12))
def test_no_task_is_run_by_two_members_however_they_come_and_go(player: Player, seed: int) -> None:
    """Members join, give up what they are told to, sooner or later, leave and vanish; the coordinator is reloaded."""
    chance = random.Random(seed)
    door = door_of(player)
    door.create_topic("words", 5)
    door.create_topic("app-store-changelog", 5)
    door.set_configs({"streams.num.standby.replicas": str(chance.randint(0, 2))})
    runs: dict[str, set[tuple[str, int]]] = {}
    """The tasks that each member runs, as it would: what it was given and has not given up."""
    given: dict[str, set[tuple[str, int]]] = {}
    standby: dict[str, list[str]] = {}

    def send(member: str, command: str) -> None:
        player.execute(command)
        response: Any = door.answered
        if response.error_code:
            # Fenced or unknown: a member stops everything before it joins again.
            runs.pop(member, None)
            given.pop(member, None)
            return
        player.epochs[member] = response.member_epoch
        if response.active_tasks is not None:
            given[member] = {(one.subtopology_id, part) for one in response.active_tasks for part in one.partitions}
            standby[member] = [
                f"{one.subtopology_id}-{part}" for one in response.standby_tasks for part in one.partitions
            ]
        runs[member] = runs.get(member, set()) | given.get(member, set())

    def check() -> None:
        everything = [task for tasks in runs.values() for task in tasks]
        assert len(everything) == len(set(everything)), f"a task is run twice: {runs}"

    for number in range(150):
        members = list(runs)
        what = chance.random()
        if (what < 0.1 and len(members) < 3) or not members:
            name = f"m{number}"
            send(name, f"join {name} topology=stateful process=p{number % 3}")
        elif what < 0.15:
            member = chance.choice(members)
            send(member, f"leave {member}")
            runs.pop(member, None)
            given.pop(member, None)
        elif what < 0.2:
            # It is gone without a word, and its tasks with it; the session ends later.
            member = chance.choice(members)
            runs.pop(member)
            given.pop(member)
        elif what < 0.25:
            door.reload()
        elif what < 0.3:
            door.run_ms(2000)
        else:
            member = chance.choice(members)
            if chance.random() < 0.7:
                runs[member] = runs[member] & given[member]  # gives up what it was told to
            owned = ",".join(sorted(f"{id}-{part}" for id, part in runs[member]))
            send(member, f"heartbeat {member} owns={owned} stands_by={','.join(standby[member])}")
        check()
    # In the end everybody settles, and all tasks run.
    door.run_ms(50_000)
    play(player, *(f"leave {member}" for member in list(runs)))
    send("last", "join last topology=stateful")
    door.run_ms(50_000)
    assert shard_of(player).groups["app"].state_name == "Empty"
    send("last", "join last topology=stateful")
    assert len(given["last"]) == 5
