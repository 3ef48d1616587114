"""`ottla/server/handlers/metadata.py`."""

from __future__ import annotations

from typing import Any

import pytest

from ottla.errors import (
    InvalidRequest,
    InvalidTopicException,
    LeaderNotAvailable,
    ListenerNotFound,
    ReplicaNotAvailable,
    UnknownTopicId,
    UnknownTopicOrPartition,
)
from ottla.metadata import LOST
from ottla.server.handlers import metadata
from ottla.types import ZERO_UUID
from ottla.wire import Message
from ottla.wire.messages.create_topics import CreateTopicsRequest, CreateTopicsResponse
from ottla.wire.messages.metadata import MetadataRequest, MetadataRequestTopic
from tests.unit.server.nodes import FakeController, ask, broker_image, fake_config, image_of, topic_id, topic_image

VERSIONS = range(14)


def by_name(*names: str | None) -> list[MetadataRequestTopic]:
    return [MetadataRequestTopic(name=name) for name in names]


def created(request: Message, version: int) -> Message:
    assert isinstance(request, CreateTopicsRequest)
    return CreateTopicsResponse()


@pytest.mark.parametrize("version", VERSIONS)
def test_every_version_tells_brokers_topics_and_leaders(version: int) -> None:
    image = image_of(topic_image("orders", 2), topic_image("__consumer_offsets"))
    response = ask(metadata, MetadataRequest(by_name("orders", "__consumer_offsets")), version, image=image)
    assert [(b.node_id, b.host, b.port) for b in response.brokers] == [(1, "host1", 9092)]
    assert [(t.error_code, t.name, len(t.partitions)) for t in response.topics] == [
        (0, "orders", 2),
        (0, "__consumer_offsets", 1),
    ]
    partition = response.topics[0].partitions[1]
    assert (partition.partition_index, partition.leader_id) == (1, 1)
    assert (partition.replica_nodes, partition.isr_nodes, partition.offline_replicas) == ([1], [1], [])
    if version >= 1:
        assert [topic.is_internal for topic in response.topics] == [False, True]
        assert response.controller_id == 1
        assert response.brokers[0].rack == "rack1"
    if version >= 2:
        assert response.cluster_id == "cluster-of-the-test"
    if version >= 7:
        assert partition.leader_epoch == 3
    if version >= 10:
        assert response.topics[0].topic_id == topic_id("orders")
    assert response.topics[0].topic_authorized_operations == -(2**31)


@pytest.mark.parametrize("version", VERSIONS)
def test_all_topics_are_asked_for_with_null_and_in_version_0_with_an_empty_list(version: int) -> None:
    image = image_of(topic_image("a"), topic_image("b"))
    everything = MetadataRequest([] if version == 0 else None)
    assert [topic.name for topic in ask(metadata, everything, version, image=image).topics] == ["a", "b"]
    if version > 0:
        assert ask(metadata, MetadataRequest([]), version, image=image).topics == []


def test_a_topic_is_found_by_its_id_from_version_12_and_an_unknown_id_has_its_own_error() -> None:
    image = image_of(topic_image("orders"))
    request = MetadataRequest(
        [MetadataRequestTopic(topic_id("orders"), None), MetadataRequestTopic(topic_id("gone"), None)]
    )
    response = ask(metadata, request, 13, image=image)
    assert [(t.error_code, t.name, t.topic_id) for t in response.topics] == [
        (0, "orders", topic_id("orders")),
        (UnknownTopicId.code, None, topic_id("gone")),
    ]
    for version in (10, 11):
        request = MetadataRequest([MetadataRequestTopic(topic_id("orders"), "orders")])
        refused = ask(metadata, request, version, image=image)
        assert [topic.error_code for topic in refused.topics] == [InvalidRequest.code]


@pytest.mark.parametrize("version", [10, 11, 12, 13])
def test_a_topic_without_a_name_and_without_an_id_is_an_invalid_request(version: int) -> None:
    response = ask(metadata, MetadataRequest(by_name(None)), version, image=image_of())
    assert [(topic.error_code, topic.name) for topic in response.topics] == [(InvalidRequest.code, "")]
    assert response.error_code == (InvalidRequest.code if version >= 13 else 0)


def test_an_unknown_topic_is_created_once_and_told_as_unknown_until_it_exists() -> None:
    controller = FakeController(answer=created)
    request = MetadataRequest(by_name("new", "new", "bad name"))
    response = ask(metadata, request, 9, image=image_of(), controller=controller)
    assert [(topic.name, topic.error_code) for topic in response.topics] == [
        ("new", UnknownTopicOrPartition.code),
        ("bad name", InvalidTopicException.code),
    ]
    ((sent, _version),) = controller.asked
    assert isinstance(sent, CreateTopicsRequest)
    assert [(topic.name, topic.num_partitions, topic.replication_factor) for topic in sent.topics] == [("new", -1, -1)]


@pytest.mark.parametrize(("request_allows", "config"), [(False, {}), (True, {"auto_create_topics_enable": False})])
def test_nothing_is_created_unless_client_and_broker_allow_it(request_allows: bool, config: dict[str, Any]) -> None:
    controller = FakeController(answer=created)
    request = MetadataRequest(by_name("new"), allow_auto_topic_creation=request_allows)
    response = ask(metadata, request, 9, image=image_of(), controller=controller, config=fake_config(**config))
    assert [topic.error_code for topic in response.topics] == [UnknownTopicOrPartition.code]
    assert controller.asked == []


def test_settings_that_the_broker_was_given_go_into_the_topics_it_creates() -> None:
    controller = FakeController(answer=created)
    config = fake_config(originals={"num.partitions": "6"}, num_partitions=6)
    ask(metadata, MetadataRequest(by_name("new")), 9, image=image_of(), controller=controller, config=config)
    sent = controller.asked[0][0]
    assert isinstance(sent, CreateTopicsRequest)
    assert (sent.topics[0].num_partitions, sent.topics[0].replication_factor) == (6, -1)


def test_authorized_operations_are_told_where_they_are_asked_for() -> None:
    request = MetadataRequest(
        by_name("a"), include_cluster_authorized_operations=True, include_topic_authorized_operations=True
    )
    response = ask(metadata, request, 8, image=image_of(topic_image("a")))
    assert response.topics[0].topic_authorized_operations == 0b1101_1111_1000
    assert response.cluster_authorized_operations == 0b1_1111_1010_0000


@pytest.mark.parametrize(
    ("version", "leader", "error"),
    [
        (5, 2, LeaderNotAvailable.code),
        (6, 2, ListenerNotFound.code),
        (9, -1, LeaderNotAvailable.code),
        (9, 7, LeaderNotAvailable.code),
    ],
)
def test_a_leader_that_this_listener_cannot_reach_is_no_leader(version: int, leader: int, error: int) -> None:
    image = image_of(
        topic_image("a", replicas=(2, 1), leader=leader), brokers=[broker_image(1), broker_image(2, INTERNAL=9094)]
    )
    (topic,) = ask(metadata, MetadataRequest(by_name("a")), version, image=image).topics
    (partition,) = topic.partitions
    assert (partition.error_code, partition.leader_id) == (error, -1)
    assert (partition.replica_nodes, partition.offline_replicas) == ([2, 1], [2])


def test_version_0_hides_replicas_that_cannot_be_reached_and_says_so() -> None:
    image = image_of(topic_image("a", replicas=(1, 2)), brokers=[broker_image(1), broker_image(2, is_fenced=True)])
    (topic,) = ask(metadata, MetadataRequest(by_name("a")), 0, image=image).topics
    (partition,) = topic.partitions
    assert (partition.error_code, partition.replica_nodes, partition.isr_nodes) == (ReplicaNotAvailable.code, [1], [1])


def test_a_fenced_broker_is_not_listed_and_a_replica_in_a_lost_directory_is_offline() -> None:
    image = image_of(topic_image("a", directories=(LOST,)), brokers=[broker_image(1), broker_image(2, is_fenced=True)])
    response = ask(metadata, MetadataRequest(by_name("a")), 12, image=image)
    assert [broker.node_id for broker in response.brokers] == [1]
    assert response.topics[0].partitions[0].offline_replicas == [1]
    assert response.topics[0].topic_id != ZERO_UUID
