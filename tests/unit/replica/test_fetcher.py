"""The follower's half of replication: what is asked for, appended, cut off, and waited for."""

from __future__ import annotations

import errno
from typing import Any

import pytest

from ottla.errors import (
    FencedLeaderEpoch,
    FetchSessionIdNotFound,
    InvalidFetchSessionEpoch,
    NotLeaderOrFollower,
    OffsetOutOfRange,
    UnknownLeaderEpoch,
    UnknownServerError,
)
from ottla.replica.fetcher import (
    REVIEW_MS,
    Delayed,
    Failed,
    Restarted,
    SessionEnded,
    Truncated,
    last_epoch_of,
)
from ottla.storage import Isolation, Log
from ottla.types import TopicPartition
from ottla.wire.messages.fetch import (
    EpochEndOffset,
    FetchableTopicResponse,
    FetchRequest,
    FetchResponse,
    PartitionData,
)
from ottla.wire.messages.list_offsets import ListOffsetsRequest
from ottla.wire.messages.offset_for_leader_epoch import EpochEndOffset as EpochEnd
from ottla.wire.messages.offset_for_leader_epoch import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
    OffsetForLeaderTopicResult,
)
from tests.support.logs import make_batch
from tests.unit.replica.follower import Following
from tests.unit.replica.node import NODE_ID, TestNode, topic_id

T0 = TopicPartition("t", 0)


def leading(partitions: int = 1, **topic: Any) -> TestNode:
    node = TestNode()
    node.create_topic("t", partitions, replicas=(NODE_ID, 2), **topic)
    return node


def content(log: Log) -> bytes:
    found = log.read(log.log_start_offset, bytes_max=1 << 20, isolation=Isolation.LOG_END)
    return b"" if found.slice is None else bytes(found.slice.read())


def asked(request: object) -> list[tuple[int, int, int, int]]:
    """Partition, fetch offset, last fetched epoch and log start of each partition that a request names."""
    assert isinstance(request, FetchRequest)
    return [
        (one.partition, one.fetch_offset, one.last_fetched_epoch, one.log_start_offset)
        for topic in request.topics
        for one in topic.partitions
    ]


def told(*partitions: PartitionData, session_id: int = 77, error: int = 0) -> FetchResponse:
    topics = [FetchableTopicResponse("", topic_id("t"), list(partitions))] if partitions else []
    return FetchResponse(error_code=error, session_id=session_id, responses=topics)


def nothing_new(index: int = 0, high_watermark: int = 0, **other: Any) -> PartitionData:
    return PartitionData(index, 0, high_watermark, high_watermark, 0, records=b"", **other)


def test_a_follower_copies_the_leaders_bytes_and_learns_its_high_watermark_one_fetch_later() -> None:
    node = leading()
    node.partition().append(make_batch(b"a", b"b"))
    node.partition().append(make_batch(b"c"))
    follower = Following(node)
    log = follower.follow()
    assert follower.step() == []
    assert (log.log_end_offset, log.high_watermark) == (3, 0)
    assert content(log) == content(node.partition().local_log())
    assert log.epochs.latest_epoch == 0
    follower.step()
    assert log.high_watermark == 3
    assert follower.logs.fetched == [(T0, log.size), (T0, 0)]


def test_the_first_request_names_everything_and_the_next_ones_what_has_changed() -> None:
    node = leading(3)
    node.partition("t", 1).append(make_batch(b"a"))
    follower = Following(node)
    for index in range(3):
        follower.follow(index)
    follower.step()
    follower.step()
    follower.step()
    first, second, third = follower.requests
    assert asked(first) == [(0, 0, -1, 0), (1, 0, -1, 0), (2, 0, -1, 0)]
    assert asked(second) == [(1, 1, 0, 0)]
    assert asked(third) == []
    assert [getattr(one, "session_epoch") for one in follower.requests] == [0, 1, 2]  # noqa: B009


def test_requests_carry_the_settings_and_the_brokers_epoch() -> None:
    settings = {"wait_max_ms": 11, "bytes_min": 12, "response_bytes_max": 13_000, "partition_bytes_max": 14_000}
    follower = Following(leading(), **settings)
    follower.follow(leader_epoch=0)
    request = follower.ask()
    assert isinstance(request, FetchRequest)
    assert (request.max_wait_ms, request.min_bytes, request.max_bytes) == (11, 12, 13_000)
    assert request.replica_state is not None
    assert (request.replica_state.replica_id, request.replica_state.replica_epoch) == (2, 8)
    assert request.topics[0].partitions[0].partition_max_bytes == 14_000
    assert request.topics[0].partitions[0].current_leader_epoch == 0


def test_the_high_watermark_is_never_beyond_the_followers_own_end() -> None:
    follower = Following(leading())
    log = follower.follow()
    follower.fetcher.on_response(follower.ask(), told(nothing_new(high_watermark=9)), 0)
    assert log.high_watermark == 0
    assert follower.fetcher.max_lag == 9


def test_the_high_watermark_does_not_go_back_when_a_new_leader_does_not_know_it_yet() -> None:
    node = leading()
    node.partition().append(make_batch(b"a"))
    follower = Following(node)
    log = follower.follow()
    follower.step()
    follower.step()
    assert log.high_watermark == 1
    follower.fetcher.add(T0, topic_id("t"), 1)
    follower.fetcher.on_response(follower.ask(), told(nothing_new(high_watermark=0), session_id=0), 0)
    assert log.high_watermark == 1


def test_the_followers_log_begins_where_the_leaders_does() -> None:
    node = leading()
    for _ in range(3):
        node.partition().append(make_batch(b"a"))
    follower = Following(node)
    log = follower.follow()
    follower.step()
    follower.step()
    node.partition().delete_records(2)
    follower.step()
    assert log.log_start_offset == 2
    follower.step()
    assert node.partition().low_watermark == 2, "and the leader is told so"


def test_a_log_start_that_retention_has_moved_is_told_within_seconds() -> None:
    node = leading()
    node.partition().append(make_batch(b"a"))
    follower = Following(node)
    log = follower.follow()
    follower.step()
    follower.step()
    log.advance_log_start(1, "retention")
    follower.step()
    assert node.partition().low_watermark == 0
    node.run_ms(REVIEW_MS)
    follower.step()
    assert asked(follower.requests[-1]) == [(0, 1, 0, 1)]


def diverge(node: TestNode, follower: Following) -> Log:
    """Both have 2 records of epoch 0. The follower led in epoch 1, and has 3 records that nobody else has."""
    node.partition().append(make_batch(b"a", b"b"))
    log = follower.follow()
    follower.step()
    follower.fetcher.remove(topic_id("t"), 0)
    log.append_as_leader(bytearray(make_batch(b"x", b"y", b"z")), leader_epoch=1)
    node.change_partition("t", 0, leader=NODE_ID)
    node.change_partition("t", 0, leader=NODE_ID)
    node.partition().append(make_batch(b"c"))
    return log


def test_a_log_that_diverges_is_cut_where_the_last_common_epoch_ends() -> None:
    node = leading()
    follower = Following(node)
    log = diverge(node, follower)
    follower.follow(leader_epoch=2)
    assert follower.step() == [Truncated(T0, 2, 0, 2)]
    assert log.log_end_offset == 2
    follower.step()
    assert asked(follower.requests[-1]) == [(0, 2, 0, 0)]
    assert content(log) == content(node.partition().local_log())
    assert log.epochs.latest_epoch == 2


def test_a_log_without_the_leaders_epoch_is_cut_at_its_own_before_it_and_asks_again() -> None:
    """The follower has epochs 0 and 3, the leader 0, 2 and 4: it answers with 2, which the follower never had."""
    node = leading()
    follower = Following(node)
    log = follower.follow()
    log.append_as_leader(bytearray(make_batch(b"a", b"b")), leader_epoch=0)
    log.append_as_leader(bytearray(make_batch(b"c")), leader_epoch=3)
    follower.follow(leader_epoch=4)
    follower.fetcher.remove(topic_id("t"), 0)
    follower.follow(leader_epoch=5)
    diverging = told(nothing_new(diverging_epoch=EpochEndOffset(2, 1)))
    assert follower.fetcher.on_response(follower.ask(), diverging, 0) == [Truncated(T0, 2, 2, 1)]
    assert asked(follower.ask()) == [(0, 2, 0, 0)]
    diverging = told(nothing_new(diverging_epoch=EpochEndOffset(0, 1)))
    assert follower.fetcher.on_response(follower.requests[-1], diverging, 0) == [Truncated(T0, 1, 0, 1)]


def test_an_epoch_without_a_record_is_forgotten_where_the_leader_does_not_know_it() -> None:
    node = leading()
    node.partition().append(make_batch(b"a"))
    follower = Following(node)
    log = follower.follow()
    follower.step()
    log.begin_epoch(1)
    node.change_partition("t", 0, leader=NODE_ID)
    node.change_partition("t", 0, leader=NODE_ID)
    follower.follow(leader_epoch=2)
    assert follower.step() == [Truncated(T0, 1, 0, 1)]
    assert (log.log_end_offset, log.epochs.latest_epoch) == (1, 0)
    assert follower.step() == []


def test_records_of_a_newer_epoch_than_was_asked_for_are_left_out() -> None:
    """KAFKA-18723: the leader has changed between the read and the answer, and may lose them again."""
    follower = Following(leading())
    log = follower.follow(leader_epoch=0)
    newer = Following(leading()).follow()
    newer.append_as_leader(bytearray(make_batch(b"a")), leader_epoch=0)
    newer.append_as_leader(bytearray(make_batch(b"b")), leader_epoch=1)
    data = PartitionData(0, 0, 0, 0, 0, records=content(newer))
    follower.fetcher.on_response(follower.ask(), told(data), 0)
    assert log.log_end_offset == 1


def test_a_log_that_ends_before_the_leaders_begins_is_emptied_and_begins_there() -> None:
    node = leading(isr=(NODE_ID,))
    partition = node.partition()
    partition.append(make_batch(b"a"))
    follower = Following(node)
    log = follower.follow()
    follower.step()
    for _ in range(4):
        partition.append(make_batch(b"b"))
    partition.delete_records(4)
    assert follower.step() == []  # OFFSET_OUT_OF_RANGE
    assert follower.step() == []  # where the leader ends
    assert follower.step() == [Restarted(T0, 4)]
    assert [type(one) for one in follower.requests[-2:]] == [ListOffsetsRequest, ListOffsetsRequest]
    follower.step()
    assert (log.log_start_offset, log.log_end_offset) == (4, 5)


def test_a_partition_whose_records_raise_what_nobody_foresaw_fails_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """As in Kafka: the other partitions of its fetcher stay in sync, and it waits for newer metadata."""
    node = leading(3)
    for index in range(3):
        node.partition("t", index).append(make_batch(b"a"))
    follower = Following(node)
    logs = [follower.follow(index) for index in range(3)]

    monkeypatch.setattr(logs[1].watermarks, "_log", None)
    (fact,) = follower.step()
    assert isinstance(fact, Failed)
    assert fact.partition == TopicPartition("t", 1)
    assert isinstance(fact.error, AttributeError)
    assert list(follower.fetcher.failed.values()) == [TopicPartition("t", 1)]
    assert [log.log_end_offset for log in logs[::2]] == [1, 1]
    assert follower.step() == []
    assert [log.high_watermark for log in logs[::2]] == [1, 1]


@pytest.mark.parametrize("is_first", [True, False])
def test_a_partition_whose_log_finds_no_descriptor_is_fetched_again(is_first: bool) -> None:
    """Its directory stays online, so metadata would bring no news of it."""
    node = leading()
    follower = Following(node, backoff_ms=100)
    log = follower.follow()
    if not is_first:
        node.partition().append(make_batch(b"a"))
        follower.step()
    for segment in log.segments:
        segment.rest()
    node.partition().append(make_batch(b"b"))
    follower.logs.world.disk.fail_at(1, errno.EMFILE, kinds=["open"])
    (fact,) = follower.step()
    assert isinstance(fact, Delayed)
    assert not fact.is_expected
    assert follower.fetcher.failed == {}
    now_ms = follower.now_ms + 100
    request = follower.fetcher.next_request(now_ms)
    assert request is not None
    assert follower.fetcher.on_response(request, follower.answer(request), now_ms) == []
    assert content(log) == content(node.partition().local_log())


def test_a_log_that_begins_within_a_batch_begins_with_the_whole_batch() -> None:
    node = leading(isr=(NODE_ID,))
    partition = node.partition()
    partition.append(make_batch(b"a", b"b", b"c"))
    partition.delete_records(2)
    follower = Following(node)
    log = follower.follow()
    for _ in range(4):
        follower.step()
    assert content(log)[:61] == content(partition.local_log())[:61]
    assert log.log_end_offset == 3


def test_a_cut_within_a_batch_leaves_no_hole_where_the_leader_has_deleted_up_to_there() -> None:
    """Seed 22 of three nodes: an old leader's own records end, to the new one, where its log begins by now."""
    node = leading(isr=(NODE_ID,), leader_epoch=2)
    node.partition().append(make_batch(b"a", b"b"))
    node.partition().append(make_batch(b"c"))
    node.partition().delete_records(2)
    follower = Following(node)
    log = follower.follow(leader_epoch=2)
    log.append_as_leader(bytearray(make_batch(b"x")), leader_epoch=1)
    log.append_as_leader(bytearray(make_batch(b"y", b"z")), leader_epoch=1)
    follower.fetcher.remove(topic_id("t"), 0)
    follower.follow(leader_epoch=2)
    assert follower.step() == [Truncated(T0, 2, 1, 2)]
    assert (log.batches_end, log.log_end_offset) == (1, 1)
    for _ in range(4):
        follower.step()
    assert (log.log_start_offset, log.log_end_offset) == (2, 3)
    assert content(log) == content(node.partition().local_log())[-len(content(log)) :]


def test_a_log_that_ends_within_a_batch_of_which_the_leader_has_deleted_that_much_gets_the_whole_batch() -> None:
    """Seed 417 of three nodes: an old leader's records end where the new one's log begins, within a batch; it failed
    for good."""
    node = leading(isr=(NODE_ID,), leader_epoch=2)
    node.partition().append(make_batch(b"a", b"b", b"c"))
    node.partition().delete_records(2)
    follower = Following(node)
    log = follower.follow(leader_epoch=2)
    for value in (b"x", b"y", b"z"):
        log.append_as_leader(bytearray(make_batch(value)), leader_epoch=1)
    follower.fetcher.remove(topic_id("t"), 0)
    follower.follow(leader_epoch=2)
    assert follower.step() == [Truncated(T0, 2, 1, 2)]
    assert log.log_end_offset == 2
    for _ in range(4):
        follower.step()
    assert follower.fetcher.failed == {}
    assert log.log_end_offset == 3
    assert content(log) == content(node.partition().local_log())


def test_after_an_unclean_election_a_log_with_more_is_cut_to_the_leaders_end() -> None:
    follower = Following(leading())
    log = follower.follow()
    log.append_as_leader(bytearray(make_batch(b"a", b"b", b"c")), leader_epoch=0)
    follower.fetcher.remove(topic_id("t"), 0)
    follower.follow(leader_epoch=0)
    out_of_range = told(PartitionData(0, OffsetOutOfRange.code, -1, -1, -1, records=b""))
    follower.fetcher.on_response(follower.ask(), out_of_range, 0)
    assert follower.step() == [Truncated(T0, 0, 0, 0)]
    assert log.log_end_offset == 0


def test_an_epoch_that_the_leader_does_not_know_leads_to_older_ones() -> None:
    """In range, and still refused: then it is the epoch, and OffsetForLeaderEpoch finds one that both know."""
    node = leading(isr=(NODE_ID,))
    node.partition().append(make_batch(b"a", b"b", b"c"))
    follower = Following(node)
    log = follower.follow()
    log.append_as_leader(bytearray(make_batch(b"a")), leader_epoch=0)
    log.append_as_leader(bytearray(make_batch(b"b")), leader_epoch=7)
    follower.fetcher.remove(topic_id("t"), 0)
    follower.follow(leader_epoch=0)
    for _ in range(4):
        assert follower.step() == []
    assert isinstance(follower.requests[-1], OffsetForLeaderEpochRequest)
    assert follower.step() == [Truncated(T0, 1, 0, 3)]
    assert (log.log_end_offset, log.epochs.latest_epoch) == (1, 0)


def test_a_log_of_which_the_leader_knows_no_epoch_is_left_alone() -> None:
    node = leading(isr=(NODE_ID,))
    node.partition().append(make_batch(b"a", b"b"))
    follower = Following(node)
    log = follower.follow()
    log.append_as_leader(bytearray(make_batch(b"b")), leader_epoch=7)
    follower.fetcher.remove(topic_id("t"), 0)
    follower.follow(leader_epoch=0)
    for _ in range(3):
        follower.step()
    request = follower.ask()
    undefined = OffsetForLeaderEpochResponse(topics=[OffsetForLeaderTopicResult("t", [EpochEnd(0, 0)])])
    assert follower.fetcher.on_response(request, undefined, 0) == [Failed(T0, "the leader knows none of its epochs")]
    assert log.log_end_offset == 1


def test_the_last_epoch_is_read_from_the_records_where_its_checkpoint_is_lost() -> None:
    follower = Following(leading())
    log = follower.follow()
    assert last_epoch_of(log) == -1
    log.append_as_leader(bytearray(make_batch(b"a")), leader_epoch=3)
    log.append_as_leader(bytearray(make_batch(b"b")), leader_epoch=4)
    log.epochs.clear()
    assert last_epoch_of(log) == 4


def test_a_partition_with_an_error_waits_and_the_others_go_on() -> None:
    follower = Following(leading(2), backoff_ms=1_000)
    follower.follow(0)
    follower.follow(1)
    answer = told(PartitionData(0, UnknownServerError.code, -1, -1, -1, records=b""), nothing_new(1))
    delayed = [Delayed(T0, UnknownServerError.name, False)]
    assert follower.fetcher.on_response(follower.ask(), answer, 0) == delayed
    request = follower.fetcher.next_request(999)
    assert isinstance(request, FetchRequest)
    assert request.forgotten_topics_data[0].partitions == [0]
    follower.fetcher.on_response(request, told(), 999)
    assert asked(follower.fetcher.next_request(1_000)) == [(0, 0, -1, 0)]


@pytest.mark.parametrize("error", [UnknownLeaderEpoch, NotLeaderOrFollower])
def test_a_leader_that_does_not_know_yet_that_it_leads_is_asked_again_soon_and_then_less_often(error: Any) -> None:
    """Each request waits at the leader until the partition is due again, and no longer."""
    follower = Following(leading(2), backoff_ms=100, wait_max_ms=500)
    follower.follow(0)
    follower.follow(1)
    request, now_ms, facts, waits = follower.ask(), 0, [], []
    for _ in range(5):
        refused = told(PartitionData(0, error.code, -1, -1, -1, records=b""), nothing_new(1))
        facts.append(follower.fetcher.on_response(request, refused, now_ms))
        resting = follower.fetcher.next_request(now_ms)
        assert isinstance(resting, FetchRequest)
        assert resting.forgotten_topics_data[0].partitions == [0]
        waits.append(resting.max_wait_ms)
        now_ms += resting.max_wait_ms
        follower.fetcher.on_response(resting, told(), now_ms)
        again = follower.fetcher.next_request(now_ms)
        assert isinstance(again, FetchRequest)
        assert asked(again) == [(0, 0, -1, 0)]
        assert again.max_wait_ms == 500
        request = again
    assert waits == [20, 40, 80, 100, 100]
    said = [Delayed(T0, error.name, True)]
    assert facts == [said, [], [], said, said]
    follower.fetcher.on_response(request, told(nothing_new(0)), now_ms)
    follower.fetcher.on_response(follower.ask(), told(PartitionData(0, error.code, -1, -1, -1, records=b"")), now_ms)
    assert follower.fetcher.wakes_ms == now_ms + 20


def test_corrupt_records_are_not_appended_and_are_asked_for_again() -> None:
    follower = Following(leading())
    log = follower.follow()
    damaged = bytearray(make_batch(b"a"))
    damaged[-1] ^= 1
    (fact,) = follower.fetcher.on_response(
        follower.ask(), told(PartitionData(0, 0, 0, 0, 0, records=bytes(damaged))), 0
    )
    assert isinstance(fact, Delayed)
    assert log.log_end_offset == 0
    assert follower.fetcher.wakes_ms == 1_000


def test_a_partition_whose_leader_has_another_epoch_waits_for_metadata() -> None:
    follower = Following(leading())
    follower.follow(leader_epoch=0)
    fenced = told(PartitionData(0, FencedLeaderEpoch.code, -1, -1, -1, records=b""))
    assert follower.fetcher.on_response(follower.ask(), fenced, 0) == [Failed(T0, "FENCED_LEADER_EPOCH")]
    assert list(follower.fetcher.failed.values()) == [T0]
    follower.follow(leader_epoch=1)
    assert follower.fetcher.failed == {}
    assert follower.fetcher.positions[topic_id("t"), 0].leader_epoch == 1


def test_an_answer_to_what_is_no_longer_asked_for_is_ignored() -> None:
    node = leading()
    node.partition().append(make_batch(b"a"))
    follower = Following(node)
    log = follower.follow(leader_epoch=0)
    request = follower.ask()
    follower.follow(leader_epoch=1)
    follower.fetcher.on_response(request, follower.answer(request), 0)
    assert log.log_end_offset == 0
    request = follower.ask()
    follower.fetcher.remove(topic_id("t"), 0)
    follower.fetcher.on_response(request, follower.answer(request), 0)
    assert log.log_end_offset == 0


@pytest.mark.parametrize("error", [FetchSessionIdNotFound, InvalidFetchSessionEpoch])
def test_a_session_that_the_leader_does_not_know_begins_anew_with_everything(error: Any) -> None:
    follower = Following(leading(2))
    follower.follow(0)
    follower.follow(1)
    follower.step()
    answer = told(session_id=0, error=error.code)
    assert follower.fetcher.on_response(follower.ask(), answer, 0) == [SessionEnded(error.name)]
    request = follower.ask()
    assert isinstance(request, FetchRequest)
    assert (request.session_epoch, len(asked(request))) == (0, 2)
    assert (request.session_id == 0) == (error is FetchSessionIdNotFound), "a session that may be there is ended"


def test_a_leader_that_does_not_answer_is_asked_again_after_the_backoff_with_everything() -> None:
    follower = Following(leading(), backoff_ms=200)
    follower.follow()
    follower.step()
    now_ms = follower.now_ms
    follower.fetcher.on_failure(follower.ask(), now_ms)
    assert follower.fetcher.next_request(now_ms + 199) is None
    assert follower.fetcher.wakes_ms == now_ms + 200
    request = follower.fetcher.next_request(now_ms + 200)
    assert isinstance(request, FetchRequest)
    assert (request.session_epoch, len(asked(request))) == (0, 1)


def test_an_answer_with_partitions_that_were_not_asked_for_ends_the_session() -> None:
    follower = Following(leading(2))
    follower.follow(0)
    answer = told(nothing_new(0), nothing_new(1))
    (fact,) = follower.fetcher.on_response(follower.ask(), answer, 0)
    assert isinstance(fact, SessionEnded)
    (fact,) = follower.fetcher.on_response(follower.ask(), told(), 0)
    assert isinstance(fact, SessionEnded), "an answer to a full request has all of it"


def test_a_log_in_a_failed_directory_fails_alone() -> None:
    follower = Following(leading(2))
    log = follower.follow(0)
    follower.follow(1)
    request = follower.ask()
    follower.logs.manager.directories[0].take_offline("a test", OSError(5, "gone"))
    facts = follower.fetcher.on_response(
        request, told(PartitionData(0, 0, 1, 1, 0, records=make_batch(b"a")), nothing_new(1)), 0
    )
    assert [type(fact) for fact in facts] == [Failed]
    assert log.log_end_offset == 0
    assert [one.partition for one in follower.fetcher.failed.values()] == [0]
