"""`ottla/server/handlers/find_coordinator.py`."""

from __future__ import annotations

import json

import pytest

from ottla.coordinator import coordinator_partition, java_hash
from ottla.errors import CoordinatorNotAvailable, InvalidRequest
from ottla.server.handlers import find_coordinator
from ottla.wire import Message
from ottla.wire.messages.create_topics import CreateTopicsRequest, CreateTopicsResponse
from ottla.wire.messages.find_coordinator import FindCoordinatorRequest
from tests.support.golden import GOLDEN
from tests.unit.server.nodes import FakeController, ask, broker_image, image_of, topic_image


def request_of(version: int, key: str, key_type: int = 0) -> FindCoordinatorRequest:
    if version < 4:
        return FindCoordinatorRequest(key=key, key_type=key_type)
    return FindCoordinatorRequest(key_type=key_type, coordinator_keys=[key])


def test_a_group_belongs_to_the_partition_that_kafka_gives_it() -> None:
    rows = json.loads((GOLDEN / "coordinator-partition.json").read_text())
    assert len(rows) == 10
    assert [coordinator_partition(group, 50) for group, _ in rows] == [place for _, place in rows]


def test_the_hash_is_javas_for_text_beyond_the_basic_plane() -> None:
    # What `"...".hashCode()` gives in Java.
    assert [java_hash(text) for text in ("", "a", "orders-service", "\U0001f600")] == [0, 97, 23943117, 1772899]


@pytest.mark.parametrize("version", range(7))
def test_every_version_names_the_leader_of_the_keys_partition(version: int) -> None:
    image = image_of(topic_image("__consumer_offsets", 50))
    response = ask(find_coordinator, request_of(version, "group"), version, image=image)
    found = response if version < 4 else response.coordinators[0]
    assert (found.error_code, found.node_id, found.host, found.port) == (0, 1, "host1", 9092)
    if version >= 4:
        assert found.key == "group"


@pytest.mark.parametrize("version", range(7))
def test_without_the_internal_topic_it_is_created_and_there_is_no_coordinator_yet(version: int) -> None:
    def created(request: Message, version: int) -> Message:
        return CreateTopicsResponse()

    controller = FakeController(answer=created)
    response = ask(find_coordinator, request_of(version, "group"), version, image=image_of(), controller=controller)
    found = response if version < 4 else response.coordinators[0]
    assert (found.error_code, found.node_id, found.port) == (CoordinatorNotAvailable.code, -1, -1)
    ((sent, _version),) = controller.asked
    assert isinstance(sent, CreateTopicsRequest)
    (topic,) = sent.topics
    assert (topic.name, topic.num_partitions, topic.replication_factor) == ("__consumer_offsets", 50, 3)
    assert {config.name: config.value for config in topic.configs} == {
        "cleanup.policy": "compact",
        "compression.type": "producer",
        "segment.bytes": "104857600",
    }


def test_a_leader_that_is_fenced_is_no_coordinator() -> None:
    image = image_of(topic_image("__consumer_offsets", 50), brokers=[broker_image(1, is_fenced=True)])
    response = ask(find_coordinator, request_of(6, "group"), 6, image=image)
    assert [found.error_code for found in response.coordinators] == [CoordinatorNotAvailable.code]


@pytest.mark.parametrize(
    ("version", "key_type", "key"), [(6, 3, "x"), (3, 3, "x"), (5, 2, "g:AAAAAAAAAAAAAAAAAAAAAQ:0"), (6, 2, "g:?:0")]
)
def test_a_kind_of_key_that_is_unknown_or_malformed_is_refused(version: int, key_type: int, key: str) -> None:
    response = ask(find_coordinator, request_of(version, key, key_type), version, image=image_of())
    found = response if version < 4 else response.coordinators[0]
    assert found.error_code == InvalidRequest.code
