"""`ottla/server/handlers/describe_topic_partitions.py`."""

from __future__ import annotations

import pytest

from ottla.errors import InvalidRequest, InvalidTopicException, UnknownTopicOrPartition
from ottla.server.handlers import describe_topic_partitions
from ottla.wire.messages.describe_topic_partitions import Cursor, DescribeTopicPartitionsRequest, TopicRequest
from tests.unit.server.nodes import ask, fake_config, image_of, topic_image


def test_topics_come_in_order_of_their_names_page_by_page() -> None:
    image = image_of(topic_image("b", 3), topic_image("a", 2), topic_image("c", 1))
    seen, cursor, pages = [], None, 0
    while pages == 0 or cursor is not None:
        request = DescribeTopicPartitionsRequest(response_partition_limit=2, cursor=cursor)
        response = ask(describe_topic_partitions, request, 0, image=image)
        seen += [(topic.name, p.partition_index) for topic in response.topics for p in topic.partitions]
        cursor, pages = response.next_cursor, pages + 1
    assert seen == [("a", 0), ("a", 1), ("b", 0), ("b", 1), ("b", 2), ("c", 0)]
    assert pages == 3


def test_the_broker_bounds_a_page_too() -> None:
    image = image_of(topic_image("a", 5))
    config = fake_config(max_request_partition_size_limit=3)
    response = ask(describe_topic_partitions, DescribeTopicPartitionsRequest(), 0, image=image, config=config)
    assert len(response.topics[0].partitions) == 3
    assert response.next_cursor == Cursor("a", 3)


def test_a_topic_that_was_named_and_does_not_exist_has_its_error_and_the_replica_sets_are_told() -> None:
    image = image_of(topic_image("a", elr=(2,), last_known_elr=(3,)))
    request = DescribeTopicPartitionsRequest([TopicRequest("a"), TopicRequest("gone"), TopicRequest("?")])
    response = ask(describe_topic_partitions, request, 0, image=image)
    assert [(topic.name, topic.error_code) for topic in response.topics] == [
        ("?", InvalidTopicException.code),
        ("a", 0),
        ("gone", UnknownTopicOrPartition.code),
    ]
    (partition,) = response.topics[1].partitions
    assert (partition.eligible_leader_replicas, partition.last_known_elr) == ([2], [3])
    assert (partition.leader_id, partition.leader_epoch, partition.replica_nodes) == (1, 3, [1])


@pytest.mark.parametrize("cursor", [Cursor("other", 0), Cursor("a", -1)])
def test_a_cursor_outside_of_what_is_asked_for_is_refused(cursor: Cursor) -> None:
    request = DescribeTopicPartitionsRequest([TopicRequest("a")], cursor=cursor)
    response = ask(describe_topic_partitions, request, 0, image=image_of(topic_image("a")))
    assert [(topic.name, topic.error_code) for topic in response.topics] == [("a", InvalidRequest.code)]
