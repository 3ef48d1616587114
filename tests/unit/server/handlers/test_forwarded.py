"""Handlers whose answer is the controller's: asked in the client's version, and their errors where it cannot answer."""

from __future__ import annotations

import importlib
from typing import Any

import pytest

from ottla.errors import NotController
from ottla.server.controller_handlers import QUORUM
from ottla.server.roles import ROLES
from ottla.types import Uuid
from ottla.wire import APIS, Message, message_class
from ottla.wire.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from ottla.wire.messages.create_partitions import CreatePartitionsRequest, CreatePartitionsTopic
from ottla.wire.messages.create_topics import CreatableTopic, CreateTopicsRequest
from ottla.wire.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from ottla.wire.messages.elect_leaders import ElectLeadersRequest, TopicPartitions
from ottla.wire.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsTopics,
)
from tests.unit.server.nodes import FakeController, FakeQuorum, ask

FORWARDED = [
    "AlterPartitionReassignments",
    "CreatePartitions",
    "CreateTopics",
    "DeleteTopics",
    "DescribeQuorum",
    "ElectLeaders",
    "ListPartitionReassignments",
    "UnregisterBroker",
    "UpdateFeatures",
]
DECIDED = [
    *FORWARDED,
    "AllocateProducerIds",
    "AlterConfigs",
    "AlterPartition",
    "AssignReplicasToDirs",
    "BrokerHeartbeat",
    "BrokerRegistration",
    "ControllerRegistration",
    "IncrementalAlterConfigs",
]
BY_NAME = {api.name: api for api in APIS.values()}


def handler_of(name: str, role: str = "broker") -> Any:
    module = ROLES[role].handler_module(BY_NAME[name])
    assert module is not None, f"a {role} does not serve {name}"
    return importlib.import_module(module)


def versions_of(names: list[str]) -> list[tuple[str, int]]:
    return [(name, version) for name in names for version in range(8) if BY_NAME[name].versions.includes(version)]


@pytest.mark.parametrize(("name", "version"), versions_of(DECIDED))
def test_a_controller_decides_in_the_version_of_the_request(name: str, version: int) -> None:
    answer = message_class(f"{name}Response")()
    controller = FakeController(answer=lambda request, version: answer)
    request = message_class(f"{name}Request")()
    handler = handler_of(name, "controller")
    assert ask(handler, request, version, controller=controller, role="controller") == answer
    ((sent, sent_version),) = controller.asked
    assert (type(sent), sent_version) == (type(request), version)


@pytest.mark.parametrize("name", sorted(QUORUM))
def test_raft_answers_the_requests_of_the_quorums_members(name: str) -> None:
    api = BY_NAME[name]
    module = importlib.import_module(api.module.replace("ottla.wire.messages", "ottla.server.controller_handlers"))
    answer = message_class(f"{name}Response")()
    asked: list[tuple[type[Message], int]] = []

    def handle(request: Message, version: int) -> Message:
        asked.append((type(request), version))
        return answer

    version = api.versions.last
    response = ask(
        module, message_class(f"{name}Request")(), version, quorum=FakeQuorum(answer=handle), role="controller"
    )
    assert response == answer
    assert asked == [(message_class(f"{name}Request"), version)]


@pytest.mark.parametrize(("name", "version"), versions_of(FORWARDED))
def test_the_controller_is_asked_in_the_clients_version_and_its_answer_passed_on(name: str, version: int) -> None:
    answer = message_class(f"{name}Response")()
    controller = FakeController(answer=lambda request, version: answer)
    request = message_class(f"{name}Request")()
    assert ask(handler_of(name), request, version, controller=controller) == answer
    ((sent, sent_version),) = controller.asked
    assert (type(sent), sent_version) == (type(request), version)


def absent(request: Message, version: int) -> Message:
    raise NotController("elsewhere")


def without_controller(name: str, request: Message, version: int) -> Any:
    return ask(handler_of(name), request, version, controller=FakeController(answer=absent))


def test_without_a_controller_every_topic_to_create_has_the_error() -> None:
    request = CreateTopicsRequest([CreatableTopic("a"), CreatableTopic("b")])
    for version in (2, 5, 7):
        response = without_controller("CreateTopics", request, version)
        assert [(t.name, t.error_code, t.error_message) for t in response.topics] == [
            ("a", NotController.code, "elsewhere"),
            ("b", NotController.code, "elsewhere"),
        ]


def test_without_a_controller_every_topic_to_delete_has_the_error_by_name_and_by_id() -> None:
    old = without_controller("DeleteTopics", DeleteTopicsRequest(topic_names=["a"]), 5)
    assert [(t.name, t.error_code) for t in old.responses] == [("a", NotController.code)]
    topic_id = Uuid(b"0123456789abcdef")
    request = DeleteTopicsRequest([DeleteTopicState("a"), DeleteTopicState(None, topic_id)])
    new = without_controller("DeleteTopics", request, 6)
    assert [(t.name, t.topic_id, t.error_code) for t in new.responses] == [
        ("a", Uuid(16), NotController.code),
        (None, topic_id, NotController.code),
    ]


def test_without_a_controller_every_topic_to_extend_has_the_error() -> None:
    request = CreatePartitionsRequest([CreatePartitionsTopic("a", 3)])
    response = without_controller("CreatePartitions", request, 3)
    assert [(t.name, t.error_code) for t in response.results] == [("a", NotController.code)]


@pytest.mark.parametrize("version", range(3))
def test_without_a_controller_every_election_has_the_error(version: int) -> None:
    request = ElectLeadersRequest(topic_partitions=[TopicPartitions("a", [0, 1])])
    response = without_controller("ElectLeaders", request, version)
    assert response.error_code == (NotController.code if version else 0)
    (topic,) = response.replica_election_results
    assert [(p.partition_id, p.error_code) for p in topic.partition_result] == [
        (0, NotController.code),
        (1, NotController.code),
    ]
    everything = without_controller("ElectLeaders", ElectLeadersRequest(topic_partitions=None), version)
    assert everything.replica_election_results == []


def test_without_a_controller_reassignments_are_neither_made_nor_listed() -> None:
    made = without_controller(
        "AlterPartitionReassignments",
        AlterPartitionReassignmentsRequest(topics=[ReassignableTopic("a", [ReassignablePartition(4, [1])])]),
        1,
    )
    assert (made.error_code, made.error_message) == (NotController.code, "elsewhere")
    assert [(p.partition_index, p.error_code) for p in made.responses[0].partitions] == [(4, NotController.code)]
    listed = without_controller(
        "ListPartitionReassignments",
        ListPartitionReassignmentsRequest(topics=[ListPartitionReassignmentsTopics("a", [4])]),
        0,
    )
    assert (listed.error_code, [p.partition_index for p in listed.topics[0].partitions]) == (NotController.code, [4])
