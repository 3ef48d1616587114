"""`ottla/coordinator/runtime.py`, on the partitions of a real replica manager over a virtual disk."""

from __future__ import annotations

from typing import Any

import pytest

from ottla.coordinator import CoordinatorRecord, EndMarker, Producer, Runtime, ShardContext
from ottla.errors import (
    CoordinatorLoadInProgress,
    CoordinatorNotAvailable,
    InvalidGroupId,
    KafkaError,
    NotCoordinator,
    UnknownServerError,
)
from ottla.machine import Result, UndoDict
from ottla.metadata import Delta
from ottla.records import batches
from ottla.replica import PartitionLog
from ottla.wire.coordinator import GROUP
from ottla.wire.coordinator.classic_group import GroupMetadataKey, GroupMetadataValue
from ottla.world import Promise
from tests.unit.replica.node import TestNode

TOPIC = "offsets"


class Names:
    """A shard that remembers which groups have which leader, and what transactions still hold back."""

    def __init__(self, context: ShardContext) -> None:
        self.context = context
        self.leaders: UndoDict[str, str | None] = UndoDict(context.undo)
        self.pending: UndoDict[int, tuple[tuple[str, str | None], ...]] = UndoDict(context.undo)
        self.events: list[str] = []

    def replay(self, record: CoordinatorRecord, producer: Producer | None) -> None:
        key, value = record.key, record.value
        assert isinstance(key, GroupMetadataKey)
        if key.group == "unplayable":
            raise ValueError("this group cannot be replayed")
        change = (key.group, value.leader if isinstance(value, GroupMetadataValue) else None)
        if producer is not None:
            self.pending[producer.id] = (*self.pending.get(producer.id, ()), change)
        elif value is None:
            self.leaders.pop(key.group, None)
        else:
            self.leaders[key.group] = change[1]

    def replay_marker(self, marker: EndMarker) -> None:
        for group, leader in self.pending.pop(marker.producer_id, ()):
            if marker.is_commit:
                self.leaders[group] = leader

    def on_loaded(self) -> None:
        self.events.append("loaded")

    def on_unloaded(self) -> None:
        self.events.append("unloaded")

    def on_metadata(self, delta: Delta) -> None:
        self.events.append(f"metadata {len(self.context.image.topics.by_name)}")


def put(group: str, leader: str) -> Any:
    record = CoordinatorRecord(GroupMetadataKey(group=group), GroupMetadataValue(protocol_type="", leader=leader), 4)
    return lambda shard: Result(f"{group} is led by {leader}", [record])


class Play:
    """A node with one partition of a coordinator's topic, and a runtime that watches it."""

    def __init__(self, **settings: object) -> None:
        self.node = TestNode(settings)
        self.shards: list[Names] = []
        self.runtime: Runtime[Names] = self.make()

    def make(self) -> Runtime[Names]:
        def shard(context: ShardContext) -> Names:
            self.shards.append(Names(context))
            return self.shards[-1]

        def log_of(index: int) -> PartitionLog:
            return PartitionLog.of(self.node.replicas, TOPIC, index)

        return Runtime("Names", self.node.world, GROUP, shard, log_of, self.node.image)

    def start(self, **topic: Any) -> Play:
        self.node.replicas.watch(TOPIC, self.runtime)
        self.node.create_topic(TOPIC, **topic)
        return self

    def outcome(self, promise: Promise[Any]) -> Any:
        """The answer, an error's name, or None while there is no answer."""
        if not promise.done():
            return None
        try:
            return promise.result()
        except KafkaError as error:
            return error.name

    def run(self, ms: int = 10) -> None:
        self.node.run_ms(ms)


def test_a_decision_is_written_and_answered_at_once_with_a_single_replica() -> None:
    play = Play().start()
    assert play.outcome(play.runtime.write(0, "Put", put("a", "m1"))) == "a is led by m1"
    assert play.shards[0].leaders == {"a": "m1"}
    log = play.node.replicas.by_name[TOPIC][0].log
    assert log is not None
    assert log.log_end_offset == 1


def test_an_answer_that_is_there_needs_no_promise() -> None:
    play = Play().start()
    assert play.runtime.answer(0, "Put", put("a", "m1")) == "a is led by m1"
    assert play.shards[0].leaders == {"a": "m1"}
    with pytest.raises(NotCoordinator):
        play.runtime.answer(7, "Put", put("a", "m2"))
    play.node.change_partition(TOPIC, 0, leader=-1)
    with pytest.raises(NotCoordinator):
        play.runtime.answer(0, "Put", put("a", "m2"))


def test_an_answer_that_others_have_to_replicate_is_promised_and_bounded() -> None:
    play = Play().start(replicas=(1, 2))
    promise: Any = play.runtime.answer(0, "Put", put("a", "m1"))
    assert play.outcome(promise) is None
    late: Any = play.runtime.answer(0, "Put", put("b", "m1"))
    play.node.partition(TOPIC).record_fetch(2, fetch_offset=1, log_start_offset=0)
    assert play.outcome(promise) == "a is led by m1"
    assert play.outcome(late) is None
    play.run(10_000)
    assert play.outcome(late) == CoordinatorNotAvailable.name


def test_a_partition_that_is_not_led_here_is_not_coordinated_here() -> None:
    play = Play().start()
    assert play.outcome(play.runtime.write(7, "Put", put("a", "m1"))) == NotCoordinator.name


def test_a_decision_that_raises_changes_nothing_and_its_error_is_the_answer() -> None:
    play = Play().start()

    def refuse(shard: Names) -> Result[str]:
        raise InvalidGroupId

    assert play.outcome(play.runtime.write(0, "Put", refuse)) == InvalidGroupId.name
    with pytest.raises(ValueError, match="cannot be replayed"):
        play.runtime.write(0, "Put", put("unplayable", "m1")).result()
    assert play.shards[0].leaders == {}


def test_records_that_are_too_large_are_an_unknown_server_error_and_are_taken_back() -> None:
    play = Play(**{"message.max.bytes": 1000}).start()
    assert play.outcome(play.runtime.write(0, "Put", put("a", "m" * 2000))) == UnknownServerError.name
    assert play.shards[0].leaders == {}


def test_a_new_leader_epoch_loads_what_the_log_has() -> None:
    play = Play().start()
    for number in range(2000):
        play.runtime.write(0, "Put", put(f"group-{number % 700}", f"member-{number}" * 30))
    play.runtime.write(
        0, "Remove", lambda _: Result(None, [CoordinatorRecord(GroupMetadataKey(group="group-3"))])
    ).result()
    before = dict(play.shards[0].leaders)
    play.runtime.on_resigned(0)
    assert play.shards[0].events == ["loaded", "unloaded"]
    play.runtime.on_elected(0, 5)
    assert play.outcome(play.runtime.read(0, "Get", lambda shard: len(shard.leaders))) == CoordinatorLoadInProgress.name
    play.run()
    assert play.shards[1].leaders == before
    assert len(before) == 699
    assert play.outcome(play.runtime.read(0, "Get", lambda shard: len(shard.leaders))) == 699


def test_a_shard_that_is_resigned_before_it_began_to_load_reads_nothing(caplog: pytest.LogCaptureFixture) -> None:
    """Nodes that stop together make each other leaders: the log may be closed when the load gets its turn."""
    play = Play().start()
    play.runtime.write(0, "Put", put("a", "m1")).result()
    play.runtime.on_resigned(0)
    play.runtime.on_elected(0, 5)
    play.runtime.on_resigned(0)
    play.node.delete_topic(TOPIC)
    play.run()
    assert play.shards[1].leaders == {}
    assert play.shards[1].events == []
    assert "Started loading" not in caplog.text
    assert not [record for record in caplog.records if record.levelname == "ERROR"]


def test_what_a_transaction_writes_counts_when_it_is_committed_and_a_reload_says_the_same() -> None:
    play = Play(**{"transaction.partition.verification.enable": "false"}).start()
    for number, is_commit in ((70, True), (71, False), (72, None)):
        write = put(f"of-{number}", "m")
        play.runtime.write(0, "TxnOffsetCommit", write, producer=Producer(number, 3)).result()
        if is_commit is not None:
            play.runtime.complete_transaction(0, EndMarker(number, 3, 9, is_commit)).result()
    for shard in play.shards:
        assert shard.leaders == {"of-70": "m"}
        assert list(shard.pending) == [72]
    play.runtime.on_resigned(0)
    play.runtime.on_elected(0, 2)
    play.run()
    assert play.shards[1].leaders == {"of-70": "m"}
    assert list(play.shards[1].pending) == [72]
    data = PartitionLog.of(play.node.replicas, TOPIC, 0).read(0, bytes_max=10_000)
    found = [(one.producer_id, one.base_sequence, one.is_transactional, one.is_control) for one in batches(data)]
    assert found[:3] == [(70, 0, True, False), (70, -1, True, True), (71, 0, True, False)]


def test_with_followers_the_answer_waits_for_the_high_watermark() -> None:
    play = Play().start(replicas=(1, 2), isr=(1, 2))
    promise = play.runtime.write(0, "Put", put("a", "m1"))
    later = play.runtime.read(0, "Get", lambda shard: dict(shard.leaders))
    assert play.outcome(promise) is None
    play.node.replicas.by_name[TOPIC][0].record_fetch(2, fetch_offset=1, log_start_offset=0)
    assert play.outcome(promise) == "a is led by m1"
    assert play.outcome(later) == {"a": "m1"}


def test_a_write_that_is_not_committed_in_time_is_not_available() -> None:
    play = Play().start(replicas=(1, 2), isr=(1, 2))
    promise = play.runtime.write(0, "Put", put("a", "m1"))
    play.run(6000)
    assert play.outcome(promise) == CoordinatorNotAvailable.name


def test_a_timer_fires_once_and_a_heartbeat_puts_it_off() -> None:
    play = Play().start()
    shard = play.shards[0]
    timers = shard.context.timers
    timers.schedule("session", 100, lambda: put("timed", "out")(shard))
    play.run(90)
    timers.schedule("session", 100, lambda: put("timed", "out")(shard))
    play.run(90)
    assert shard.leaders == {}
    play.run(20)
    assert shard.leaders == {"timed": "out"}
    assert len(timers) == 0


def test_no_timer_fires_after_the_shard_is_unloaded() -> None:
    play = Play().start()
    shard = play.shards[0]
    shard.context.timers.schedule("session", 100, lambda: put("timed", "out")(shard))
    play.runtime.on_resigned(0)
    play.run(200)
    assert shard.leaders == {}


def test_a_deleted_topic_unloads_its_shards() -> None:
    play = Play().start()
    play.node.delete_topic(TOPIC)
    assert play.shards[0].events[-1] == "unloaded"
    assert play.outcome(play.runtime.write(0, "Put", put("a", "m1"))) == NotCoordinator.name


def test_an_answer_that_comes_later_fails_when_its_decision_does() -> None:
    play = Play().start()
    waiting: list[Promise[str]] = []

    def join(shard: Names, answer: Promise[str]) -> Result[None]:
        waiting.append(answer)
        return Result(None)

    def refuse(shard: Names, answer: Promise[str]) -> Result[None]:
        raise InvalidGroupId

    promise = play.runtime.write_answered(0, "Join", join)
    assert play.outcome(promise) is None
    waiting[0].set_result("joined")
    assert play.outcome(promise) == "joined"
    refused = play.runtime.write_answered(0, "Join", refuse)
    play.run()
    assert play.outcome(refused) == InvalidGroupId.name
