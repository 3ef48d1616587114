"""Topics and their partitions: create, delete, list, describe, grow."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from ottla.client.admin.configs import ConfigEntry, ConfigSource
from ottla.client.admin.driver import Call, Driver, failure
from ottla.client.admin.nodes import METADATA_KEY
from ottla.client.admin.operations import AclOperation, operations_of
from ottla.client.admin.outcome import Outcomes
from ottla.client.network import Build, Deadline, Node
from ottla.errors import (
    InvalidRequest,
    InvalidTopicException,
    KafkaError,
    UnknownTopicId,
    UnknownTopicOrPartition,
    UnsupportedVersion,
)
from ottla.types import ZERO_UUID, Uuid
from ottla.wire.messages.create_partitions import (
    CreatePartitionsAssignment,
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsTopic,
)
from ottla.wire.messages.create_topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreatableTopicConfig,
    CreatableTopicResult,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from ottla.wire.messages.delete_topics import DeleteTopicsRequest, DeleteTopicsResponse, DeleteTopicState
from ottla.wire.messages.describe_topic_partitions import (
    Cursor,
    DescribeTopicPartitionsRequest,
    DescribeTopicPartitionsResponse,
    DescribeTopicPartitionsResponseTopic,
    TopicRequest,
)
from ottla.wire.messages.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse, MetadataResponseTopic

CREATE_TOPICS_KEY = 19
DELETE_TOPICS_KEY = 20
DESCRIBE_TOPIC_PARTITIONS_KEY = 75
PARTITIONS_A_PAGE = 2000


@dataclass(frozen=True, slots=True)
class NewTopic:
    """A topic to create. Numbers that are left out are the cluster's defaults; `assignments` are instead of both."""

    name: str
    partitions: int | None = None
    replication_factor: int | None = None
    assignments: Mapping[int, Sequence[int]] | None = None
    """The replicas of each partition, the preferred leader first."""
    configs: Mapping[str, str] | None = None


@dataclass(frozen=True, slots=True)
class TopicCreated:
    """A topic as it was created, as far as the broker tells."""

    name: str
    topic_id: Uuid
    partition_count: int
    """-1, as is the replication factor, when this principal may not see it or the broker is too old to tell."""
    replication_factor: int
    config: Mapping[str, ConfigEntry]


@dataclass(frozen=True, slots=True)
class TopicListing:
    name: str
    topic_id: Uuid
    is_internal: bool


@dataclass(frozen=True, slots=True)
class PartitionDescription:
    """One partition. `elr` are replicas that may lead though they are not in sync (KIP-966); None if not told."""

    partition: int
    leader: Node | None
    replicas: tuple[Node, ...]
    isr: tuple[Node, ...]
    elr: tuple[Node, ...] | None = None
    last_known_elr: tuple[Node, ...] | None = None
    leader_epoch: int = -1
    offline_replicas: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class TopicDescription:
    """A topic, and its partitions in order."""

    name: str
    topic_id: Uuid
    is_internal: bool
    partitions: tuple[PartitionDescription, ...]
    authorized_operations: frozenset[AclOperation] | None = None


@dataclass(frozen=True, slots=True)
class NewPartitions:
    """How many partitions a topic is to have in all, and where the new ones go, if that is to be told."""

    total_count: int
    assignments: Sequence[Sequence[int]] | None = None


TopicKey = str | Uuid
"""A topic, by its name or by its id."""


# Creating


def create_topics(
    driver: Driver, topics: Iterable[NewTopic], *, validate_only: bool, timeout: float | None
) -> Outcomes[str, TopicCreated]:
    wanted = {topic.name: topic for topic in topics}
    deadline = driver.deadline(timeout)

    def build(node_id: int, keys: list[str]) -> Build:
        def make(version: int) -> CreateTopicsRequest:
            if version < 4 and any(_uses_defaults(wanted[key]) for key in keys):
                raise UnsupportedVersion("The broker is too old for default partition counts: name the numbers")
            return CreateTopicsRequest(
                topics=[_creatable(wanted[key]) for key in keys],
                timeout_ms=driver.request_ms(deadline),
                validate_only=validate_only,
            )

        return Build(CREATE_TOPICS_KEY, make)

    def read(
        node_id: int, keys: list[str], response: CreateTopicsResponse
    ) -> Iterable[tuple[str, TopicCreated | KafkaError]]:
        for one in response.topics:
            yield one.name, failure(one.error_code, one.error_message) or _created(one)

    call = Call("CreateTopics", driver.controller(), build, read)
    return driver.start(call.what, wanted, lambda outcomes: driver.pursue(call, outcomes, deadline))


def _uses_defaults(topic: NewTopic) -> bool:
    return topic.assignments is None and (topic.partitions is None or topic.replication_factor is None)


def _creatable(topic: NewTopic) -> CreatableTopic:
    if topic.assignments is not None and (topic.partitions, topic.replication_factor) != (None, None):
        raise InvalidRequest(f"{topic.name}: give the assignments, or the numbers of partitions and replicas, not both")
    return CreatableTopic(
        name=topic.name,
        num_partitions=-1 if topic.partitions is None else topic.partitions,
        replication_factor=-1 if topic.replication_factor is None else topic.replication_factor,
        assignments=[
            CreatableReplicaAssignment(partition_index=index, broker_ids=list(brokers))
            for index, brokers in (topic.assignments or {}).items()
        ],
        configs=[CreatableTopicConfig(name=name, value=value) for name, value in (topic.configs or {}).items()],
    )


def _created(told: CreatableTopicResult) -> TopicCreated:
    config = {
        one.name: ConfigEntry(one.name, one.value, ConfigSource(one.config_source), one.is_sensitive, one.read_only)
        for one in told.configs or ()
    }
    return TopicCreated(told.name, Uuid(told.topic_id), told.num_partitions, told.replication_factor, config)


# Deleting


def delete_topics(driver: Driver, topics: Iterable[TopicKey], *, timeout: float | None) -> Outcomes[TopicKey, None]:
    deadline = driver.deadline(timeout)

    def build(node_id: int, keys: list[TopicKey]) -> Build:
        def make(version: int) -> DeleteTopicsRequest:
            names = [key for key in keys if isinstance(key, str)]
            if version < 6:
                if len(names) < len(keys):
                    raise UnsupportedVersion("The broker is too old to delete topics by id")
                return DeleteTopicsRequest(topic_names=names, timeout_ms=driver.request_ms(deadline))
            states = [
                DeleteTopicState(name=key) if isinstance(key, str) else DeleteTopicState(topic_id=key) for key in keys
            ]
            return DeleteTopicsRequest(topics=states, timeout_ms=driver.request_ms(deadline))

        return Build(DELETE_TOPICS_KEY, make)

    def read(
        node_id: int, keys: list[TopicKey], response: DeleteTopicsResponse
    ) -> Iterable[tuple[TopicKey, KafkaError | None]]:
        asked = set(keys)
        for one in response.responses:
            # One that was asked for by id may be answered with its name as well.
            error = failure(one.error_code, one.error_message)
            if one.topic_id in asked:
                yield Uuid(one.topic_id), error
            if one.name in asked:
                yield one.name, error

    call: Call[TopicKey, None] = Call("DeleteTopics", driver.controller(), build, read)
    return driver.start(call.what, topics, lambda outcomes: driver.pursue(call, outcomes, deadline))


# Listing and describing


async def list_topics(driver: Driver, *, include_internal: bool, timeout: float | None) -> dict[str, TopicListing]:
    def make(version: int) -> MetadataRequest:
        return MetadataRequest(topics=None, allow_auto_topic_creation=False)

    def read(response: MetadataResponse) -> dict[str, TopicListing]:
        driver.nodes.learn(response)
        return {
            one.name: TopicListing(one.name, Uuid(one.topic_id), one.is_internal)
            for one in sorted(response.topics, key=lambda one: one.name or "")
            if one.name is not None and (include_internal or not one.is_internal)
        }

    request = Build(METADATA_KEY, make, version_min=1)
    return await driver.one("ListTopics", driver.any_node(), request, read, driver.deadline(timeout))


def describe_topics(
    driver: Driver,
    topics: Iterable[TopicKey],
    *,
    include_authorized_operations: bool,
    partitions_a_page: int,
    timeout: float | None,
) -> Outcomes[TopicKey, TopicDescription]:
    deadline = driver.deadline(timeout)

    async def work(outcomes: Outcomes[TopicKey, TopicDescription]) -> None:
        names = []
        for key in outcomes:
            if not isinstance(key, str):
                continue
            if key:
                names.append(key)
            else:
                outcomes.settle(key, InvalidTopicException("A topic's name cannot be empty"))
        if names:
            with suppress(UnsupportedVersion):  # an older broker: Metadata knows less, and tells all of it at once
                await _describe_pages(
                    driver, names, outcomes, partitions_a_page, include_authorized_operations, deadline
                )
        await _describe_by_metadata(driver, outcomes, include_authorized_operations, deadline)

    return driver.start("DescribeTopics", topics, work)


async def _describe_pages(
    driver: Driver,
    names: list[str],
    outcomes: Outcomes[TopicKey, TopicDescription],
    limit: int,
    with_operations: bool,
    deadline: Deadline,
) -> None:
    """Page by page (KIP-966); a topic may begin on one page and end on another."""
    await driver.brokers(deadline)
    names = sorted(names)
    cursor: Cursor | None = None
    open_topic: DescribeTopicPartitionsResponseTopic | None = None
    while True:
        request = DescribeTopicPartitionsRequest(
            topics=[TopicRequest(name=name) for name in names], response_partition_limit=limit, cursor=cursor
        )
        page: DescribeTopicPartitionsResponse = await driver.one(
            "DescribeTopicPartitions", driver.any_node(), request, lambda response: response, deadline
        )
        for topic in page.topics:
            if open_topic is not None and open_topic.name == topic.name:
                topic.partitions[:0] = open_topic.partitions
            open_topic = None
            cursor = page.next_cursor
            if cursor is not None and topic.name == cursor.topic_name and not topic.error_code:
                open_topic = topic
            elif topic.name is not None:
                outcomes.settle(topic.name, failure(topic.error_code) or _described(driver, topic, with_operations))
        cursor = page.next_cursor
        if cursor is None:
            break
        if not page.topics:
            raise InvalidRequest("The broker answers with an empty page and says that there are more")
        names = [name for name in names if name >= cursor.topic_name]
    for name in names:
        outcomes.settle(name, UnknownTopicOrPartition(f"{name}: {UnknownTopicOrPartition.__doc__}"))


def _described(
    driver: Driver, topic: DescribeTopicPartitionsResponseTopic | MetadataResponseTopic, with_operations: bool
) -> TopicDescription:
    def nodes(ids: Sequence[int]) -> tuple[Node, ...]:
        return tuple(driver.nodes.node(node_id) for node_id in ids)

    told: list[Any] = sorted(topic.partitions, key=lambda one: one.partition_index)
    partitions = []
    for one in told:
        elr = getattr(one, "eligible_leader_replicas", None)
        last_elr = getattr(one, "last_known_elr", None)
        partitions.append(
            PartitionDescription(
                one.partition_index,
                driver.nodes.node(one.leader_id) if one.leader_id >= 0 else None,
                nodes(one.replica_nodes),
                nodes(one.isr_nodes),
                None if elr is None else nodes(elr),
                None if last_elr is None else nodes(last_elr),
                one.leader_epoch,
                tuple(one.offline_replicas),
            )
        )
    assert topic.name is not None, "a topic without an error has a name"
    return TopicDescription(
        topic.name,
        Uuid(topic.topic_id),
        topic.is_internal,
        tuple(partitions),
        operations_of(topic.topic_authorized_operations) if with_operations else None,
    )


async def _describe_by_metadata(
    driver: Driver, outcomes: Outcomes[TopicKey, TopicDescription], with_operations: bool, deadline: Deadline
) -> None:
    def build(node_id: int, keys: list[TopicKey]) -> Build:
        def make(version: int) -> MetadataRequest:
            if version < 12 and any(isinstance(key, Uuid) for key in keys):
                raise UnsupportedVersion("The broker is too old to describe topics by id")
            return MetadataRequest(
                topics=[
                    MetadataRequestTopic(name=key)
                    if isinstance(key, str)
                    else MetadataRequestTopic(topic_id=key, name=None)
                    for key in keys
                ],
                allow_auto_topic_creation=False,
                include_topic_authorized_operations=with_operations and version >= 8,
            )

        return Build(METADATA_KEY, make, version_min=4)

    def read(
        node_id: int, keys: list[TopicKey], response: MetadataResponse
    ) -> Iterable[tuple[TopicKey, TopicDescription | KafkaError]]:
        driver.nodes.learn(response)
        ids = {key for key in keys if isinstance(key, Uuid)}
        for one in response.topics:
            by_id = Uuid(one.topic_id)
            key = by_id if by_id in ids else one.name
            if key is not None:
                yield key, failure(one.error_code) or _described(driver, one, with_operations)
        for missing in ids - {Uuid(one.topic_id) for one in response.topics} - {ZERO_UUID}:
            yield missing, UnknownTopicId()

    await driver.pursue(Call("DescribeTopics", driver.any_node(), build, read), outcomes, deadline)


# Growing


def create_partitions(
    driver: Driver, partitions: Mapping[str, NewPartitions], *, validate_only: bool, timeout: float | None
) -> Outcomes[str, None]:
    deadline = driver.deadline(timeout)

    def build(node_id: int, keys: list[str]) -> CreatePartitionsRequest:
        topics = []
        for key in keys:
            assignments = partitions[key].assignments
            topics.append(
                CreatePartitionsTopic(
                    name=key,
                    count=partitions[key].total_count,
                    assignments=None
                    if assignments is None
                    else [CreatePartitionsAssignment(broker_ids=list(brokers)) for brokers in assignments],
                )
            )
        return CreatePartitionsRequest(
            topics=topics, timeout_ms=driver.request_ms(deadline), validate_only=validate_only
        )

    def read(
        node_id: int, keys: list[str], response: CreatePartitionsResponse
    ) -> Iterable[tuple[str, KafkaError | None]]:
        for one in response.results:
            yield one.name, failure(one.error_code, one.error_message)

    call: Call[str, None] = Call("CreatePartitions", driver.controller(), build, read)
    return driver.start(call.what, partitions, lambda outcomes: driver.pursue(call, outcomes, deadline))
