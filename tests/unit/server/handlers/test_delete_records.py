"""DeleteRecords: logs begin later, and the answer waits until all replicas' do."""

from __future__ import annotations

from typing import Any

from ottla.errors import (
    InvalidTopicException,
    NotLeaderOrFollower,
    OffsetOutOfRange,
    PolicyViolation,
    RequestTimedOut,
    UnknownTopicOrPartition,
)
from ottla.wire.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DeleteRecordsTopic,
)
from tests.support.logs import make_batch
from tests.unit.replica.node import NODE_ID, TestNode


def request(topic: str, offset: int) -> DeleteRecordsRequest:
    return DeleteRecordsRequest([DeleteRecordsTopic(topic, [DeleteRecordsPartition(0, offset)])], 1000)


def outcome(response: Any) -> tuple[int, int]:
    assert isinstance(response, DeleteRecordsResponse)
    (one,) = response.topics[0].partitions
    return one.error_code, one.low_watermark


def test_records_below_the_offset_are_gone() -> None:
    node = TestNode()
    node.create_topic("t")
    for _ in range(3):
        node.partition().append(make_batch(b"v"))
    assert outcome(node.send(request("t", 2), 2)) == (0, 2)
    assert outcome(node.send(request("t", 1), 1)) == (0, 2), "the start never goes back"
    assert outcome(node.send(request("t", -1), 0)) == (0, 3)
    assert outcome(node.send(request("t", 4), 2)) == (OffsetOutOfRange.code, -1)


def test_what_cannot_be_deleted_says_why() -> None:
    node = TestNode()
    node.create_topic("compacted", cleanup_policy="compact")
    node.create_topic("both", cleanup_policy="compact,delete")
    node.create_topic("away", replicas=(2,))
    node.create_topic("__consumer_offsets")
    codes = {
        topic: outcome(node.send(request(topic, 0), 2))[0]
        for topic in ("compacted", "both", "away", "__consumer_offsets", "x")
    }
    assert codes == {
        "compacted": PolicyViolation.code,
        "both": 0,
        "away": NotLeaderOrFollower.code,
        "__consumer_offsets": InvalidTopicException.code,
        "x": UnknownTopicOrPartition.code,
    }


def test_the_answer_waits_for_followers_that_still_have_the_records() -> None:
    node = TestNode()
    node.create_topic("t", replicas=(NODE_ID, 2))
    node.partition().append(make_batch(b"v"))
    node.partition().record_fetch(2, fetch_offset=1, log_start_offset=0)
    waiting = node.begin(request("t", 1), 2)
    node.partition().record_fetch(2, fetch_offset=1, log_start_offset=1)
    assert outcome(node.wait(waiting)) == (0, 1)


def test_followers_that_do_not_follow_in_time_are_told_of() -> None:
    node = TestNode()
    node.create_topic("t", replicas=(NODE_ID, 2))
    node.partition().append(make_batch(b"v"))
    node.partition().record_fetch(2, fetch_offset=1, log_start_offset=0)
    assert outcome(node.send(request("t", 1), 2)) == (RequestTimedOut.code, -1)
