"""An admin and brokers that know less than it: another way where there is one, one clear line where there is none."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from ottla.client.admin import (
    AclOperation,
    AlterConfigOp,
    ConfigResource,
    ConfigResourceType,
    FakeAdmin,
    FakeCluster,
    GroupState,
    GroupType,
    ListedOffset,
    NewPartitions,
    NewTopic,
    OffsetSpec,
    TransactionState,
)
from ottla.client.admin.operations import NOT_TOLD, operations_of
from ottla.client.group import OffsetAndMetadata
from ottla.errors import UnsupportedVersion
from ottla.types import TopicPartition, Uuid
from ottla.wire import APIS, Message, Versions, decode, encode, find_api, response_class
from ottla.wire.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from ottla.wire.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from ottla.wire.messages.list_config_resources import ListConfigResourcesRequest
from ottla.wire.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
    OffsetFetchResponse,
    OffsetFetchResponsePartition,
    OffsetFetchResponseTopic,
)

KEYS = {api.name: api.key for api in APIS.values()}


class OlderCluster(FakeCluster):
    """Brokers that know an API only up to a version; -1 is not at all. Requests and answers are really encoded."""

    def __init__(self, **last: int) -> None:
        super().__init__(2)
        self._last = {KEYS[name]: version for name, version in last.items()}
        self.asked: list[tuple[str, int]] = []

    def versions(self, api_key: int) -> Versions:
        known = super().versions(api_key)
        return Versions(known.first, min(known.last, self._last.get(api_key, known.last)))

    def answer(self, node_id: int, request: Message) -> Message:
        key = request.schema.api_key or 0
        version = self.versions(key).last
        name = find_api(key).name
        self.asked.append((name, version))
        if version < 0:
            raise UnsupportedVersion(f"{name} is not known")
        if name == "OffsetFetch":
            version = min(version, 9)
        request = decode(type(request), version, encode(request, version))
        response = self._answer(node_id, name, request)
        return decode(response_class(key), version, encode(response, version))

    def _answer(self, node_id: int, name: str, request: Any) -> Message:
        """In the shape of older versions, which `FakeCluster` does not speak."""
        if isinstance(request, FindCoordinatorRequest) and request.key:
            request.coordinator_keys = [request.key]
            told: Any = super().answer(node_id, request)
            one = told.coordinators[0]
            return FindCoordinatorResponse(node_id=one.node_id, host=one.host, port=one.port)
        if isinstance(request, OffsetFetchRequest) and request.group_id:
            topics = request.topics
            asked = None
            if topics is not None:
                asked = [
                    OffsetFetchRequestTopics(name=one.name, partition_indexes=one.partition_indexes) for one in topics
                ]
            group = OffsetFetchRequestGroup(group_id=request.group_id, topics=asked)
            found: Any = super().answer(node_id, OffsetFetchRequest(groups=[group]))
            return OffsetFetchResponse(
                topics=[
                    OffsetFetchResponseTopic(
                        name=topic.name,
                        partitions=[
                            OffsetFetchResponsePartition(
                                partition_index=one.partition_index,
                                committed_offset=one.committed_offset,
                                committed_leader_epoch=one.committed_leader_epoch,
                                metadata=one.metadata,
                            )
                            for one in topic.partitions
                        ],
                    )
                    for topic in found.groups[0].topics
                ]
            )
        if isinstance(request, DeleteTopicsRequest) and request.topic_names:
            request.topics = [DeleteTopicState(name=name) for name in request.topic_names]
        if isinstance(request, ListConfigResourcesRequest) and self.versions(KEYS[name]).last == 0:
            request.resource_types = [ConfigResourceType.CLIENT_METRICS]
        return super().answer(node_id, request)


def with_topic(**last: int) -> tuple[FakeAdmin, OlderCluster]:
    cluster = OlderCluster(**last)
    admin = FakeAdmin(cluster)
    admin.create_topics([NewTopic("a", 3, 1)]).all()
    return admin, cluster


def test_topics_are_described_by_metadata() -> None:
    admin, cluster = with_topic(DescribeTopicPartitions=-1, Metadata=8)
    described = admin.describe_topics(["a"]).all()["a"]
    assert [one.partition for one in described.partitions] == [0, 1, 2]
    assert described.partitions[0].elr is None
    assert described.topic_id == Uuid(16)
    assert ("Metadata", 8) in cluster.asked


def test_coordinators_are_asked_for_one_by_one() -> None:
    admin, cluster = with_topic(FindCoordinator=2)
    cluster.put_group("g")
    cluster.put_group("h")
    assert list(admin.delete_groups(["g", "h"]).all()) == ["g", "h"]
    assert cluster.asked.count(("FindCoordinator", 2)) == 2


@pytest.mark.parametrize("version", [2, 5, 7])
def test_offsets_of_groups_are_asked_for_one_by_one(version: int) -> None:
    admin, cluster = with_topic(OffsetFetch=version)
    first, second = TopicPartition("a", 0), TopicPartition("a", 1)
    cluster.put_group("g", offsets={first: 5})
    cluster.put_group("h", offsets={first: 6})
    assert admin.list_consumer_group_offsets({"g": None, "h": [first, second]}).all() == {
        "g": {first: OffsetAndMetadata(5)},
        "h": {first: OffsetAndMetadata(6), second: None},
    }


def test_the_cluster_is_described_by_metadata() -> None:
    admin, _ = with_topic(DescribeCluster=-1)
    described = admin.describe_cluster()
    assert [node.node_id for node in described.nodes] == [1, 2]
    assert described.controller == described.nodes[0]
    with pytest.raises(UnsupportedVersion):
        admin.describe_cluster(include_fenced_brokers=True)


def test_groups_of_consumers_are_described_in_the_classic_way() -> None:
    admin, cluster = with_topic(ConsumerGroupDescribe=-1, DescribeGroups=4)
    cluster.put_group("g")
    described = admin.describe_consumer_groups(["g"]).all()["g"]
    assert (described.type, described.state) == (GroupType.CLASSIC, GroupState.EMPTY)


def test_subscriptions_to_metrics_are_listed_where_no_type_can_be_named() -> None:
    """Kafka 3.7 to 4.0, whose request has no fields; found on 3.9.1."""
    admin, cluster = with_topic(ListConfigResources=0)
    metrics = ConfigResource.client_metrics("mine")
    admin.incremental_alter_configs({metrics: [AlterConfigOp.set("interval.ms", "1000")]}).all()
    assert admin.list_client_metrics_resources() == ["mine"]
    assert admin.list_config_resources([ConfigResourceType.CLIENT_METRICS]) == [metrics]
    assert ("ListConfigResources", 0) in cluster.asked


def test_an_offset_that_is_not_known_of_does_not_hide_the_others() -> None:
    admin, _ = with_topic(ListOffsets=6)
    known, unknown = TopicPartition("a", 0), TopicPartition("a", 1)
    outcomes = admin.list_offsets({known: OffsetSpec.latest(), unknown: OffsetSpec.max_timestamp()})
    assert outcomes[known].result() == ListedOffset(0, -1, 0)
    assert isinstance(outcomes[unknown].error, UnsupportedVersion)


KAFKA_2_1 = {
    "ListOffsets": 4,
    "Metadata": 7,
    "OffsetCommit": 6,
    "OffsetFetch": 5,
    "FindCoordinator": 2,
    "LeaveGroup": 2,
    "DescribeGroups": 2,
    "ListGroups": 2,
    "CreateTopics": 3,
    "DeleteTopics": 3,
    "DeleteRecords": 1,
    "DescribeConfigs": 2,
    "DescribeLogDirs": 1,
    "CreatePartitions": 1,
    "DeleteGroups": 1,
    **dict.fromkeys(("DescribeCluster", "DescribeTopicPartitions", "ConsumerGroupDescribe", "OffsetDelete"), -1),
    **dict.fromkeys(("IncrementalAlterConfigs", "ListConfigResources"), -1),
}


def test_the_oldest_kafka_that_is_supported_is_spoken_to_in_its_own_versions() -> None:
    """Every request and answer is really encoded in the version that Kafka 2.1 has."""
    admin, cluster = with_topic(**KAFKA_2_1)
    partition, resource = TopicPartition("a", 0), ConfigResource.topic("a")
    assert list(admin.list_topics()) == ["a"]
    assert len(admin.describe_topics(["a"], include_authorized_operations=True).all()["a"].partitions) == 3
    assert admin.describe_cluster(include_authorized_operations=True).authorized_operations is None
    admin.create_partitions({"a": NewPartitions(4)}).all()
    assert admin.list_offsets({partition: OffsetSpec.latest()}, isolation_level="read_committed").errors == {}
    assert admin.delete_records({partition: 0}).all() == {partition: 0}
    config = admin.describe_configs([resource], include_synonyms=True, include_documentation=True).all()[resource]
    assert config["retention.ms"].value == "604800000"
    assert len(admin.describe_log_dirs([1, 2]).all()) == 2
    admin.alter_consumer_group_offsets("g", {partition: 3}).all()
    assert admin.list_consumer_group_offsets(["g"]).all() == {"g": {partition: OffsetAndMetadata(3)}}
    assert [(one.group_id, one.type, one.state) for one in admin.list_groups()] == [("g", None, None)]
    assert admin.describe_consumer_groups(["g"], include_authorized_operations=True).all()["g"].is_simple
    assert admin.delete_groups(["g"]).all() == {"g": None}
    assert admin.delete_topics(["a"]).all() == {"a": None}
    assert {name for name, version in cluster.asked if version >= 0} <= set(KAFKA_2_1)


def refusals() -> Iterator[tuple[str, dict[str, int], Callable[[FakeAdmin], object]]]:
    topic_id = Uuid(b"there-is-no-such")
    yield "default partition counts", {"CreateTopics": 3}, lambda admin: admin.create_topics([NewTopic("b")]).all()
    yield "delete topics by id", {"DeleteTopics": 5}, lambda admin: admin.delete_topics([topic_id]).all()
    yield "describe topics by id", {"Metadata": 9}, lambda admin: admin.describe_topics([topic_id]).all()
    yield "by their state", {"ListGroups": 3}, lambda admin: admin.list_groups(states=[GroupState.EMPTY])
    yield "by their type", {"ListGroups": 4}, lambda admin: admin.list_groups(types=[GroupType.SHARE])
    yield (
        "stable offsets",
        {"OffsetFetch": 6},
        lambda admin: admin.list_consumer_group_offsets(["g"], require_stable=True).all(),
    )
    yield "all offsets of a group", {"OffsetFetch": 1}, lambda admin: admin.list_consumer_group_offsets(["g"]).all()
    yield "fenced brokers", {"DescribeCluster": 1}, lambda admin: admin.describe_cluster(include_fenced_brokers=True)
    yield (
        "other than client metrics",
        {"ListConfigResources": 0},
        lambda admin: admin.list_config_resources([ConfigResourceType.TOPIC]),
    )


@pytest.mark.parametrize(("what", "last", "call"), [pytest.param(*one, id=one[0]) for one in refusals()])
def test_what_an_older_broker_cannot_do_is_said_in_one_line(
    what: str, last: dict[str, int], call: Callable[[FakeAdmin], object]
) -> None:
    admin = FakeAdmin(OlderCluster(**last))
    with pytest.raises(UnsupportedVersion, match=f"^The broker is too old.*{what}"):
        call(admin)


def test_what_only_a_newer_broker_tells_is_known_as_unknown() -> None:
    assert ConfigResourceType(99) is ConfigResourceType.UNKNOWN
    assert GroupState.parse("Daydreaming") is GroupState.UNKNOWN
    assert GroupType.parse("CONSUMER") is GroupType.CONSUMER
    assert TransactionState("Daydreaming") is TransactionState.UNKNOWN


def test_operations_are_read_from_their_bits() -> None:
    assert operations_of(NOT_TOLD) is None
    assert operations_of(0) == frozenset()
    assert operations_of(1 << 3 | 1 << 8) == frozenset({AclOperation.READ, AclOperation.DESCRIBE})
