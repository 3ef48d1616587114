"""Topics of a fake cluster: CreateTopics, DeleteTopics, CreatePartitions, Metadata, DescribeTopicPartitions."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence

from ottla.client.admin.fake.cluster import KIND_TOPIC, FakeCluster, Handler, refusal
from ottla.client.admin.fake.state import FakePartition, FakeTopic
from ottla.errors import (
    InvalidConfig,
    InvalidPartitions,
    InvalidReplicaAssignment,
    InvalidReplicationFactor,
    InvalidRequest,
    InvalidTopicException,
    KafkaError,
    TopicAlreadyExists,
    UnknownTopicId,
    UnknownTopicOrPartition,
)
from ottla.types import ZERO_UUID, Uuid
from ottla.wire.messages.create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsTopic,
    CreatePartitionsTopicResult,
)
from ottla.wire.messages.create_topics import (
    CreatableTopic,
    CreatableTopicConfigs,
    CreatableTopicResult,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from ottla.wire.messages.delete_topics import DeletableTopicResult, DeleteTopicsRequest, DeleteTopicsResponse
from ottla.wire.messages.describe_topic_partitions import (
    Cursor,
    DescribeTopicPartitionsRequest,
    DescribeTopicPartitionsResponse,
    DescribeTopicPartitionsResponsePartition,
    DescribeTopicPartitionsResponseTopic,
)
from ottla.wire.messages.metadata import (
    MetadataRequest,
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)

NAME_LENGTH_MAX = 249
_LEGAL = re.compile(r"[a-zA-Z0-9._-]+")


def check_name(name: str) -> None:
    """`InvalidTopicException` for a name that no topic may have."""
    reason = None
    if not name:
        reason = "the empty string is not allowed"
    elif name in (".", ".."):
        reason = f"'{name}' is not allowed"
    elif len(name) > NAME_LENGTH_MAX:
        reason = f"the length of '{name}' is longer than the max allowed length {NAME_LENGTH_MAX}"
    elif _LEGAL.fullmatch(name) is None:
        reason = f"'{name}' contains one or more characters other than ASCII alphanumerics, '.', '_' and '-'"
    if reason is not None:
        raise InvalidTopicException(f"Topic name is invalid: {reason}")


# Creating and growing


def _create_topics(cluster: FakeCluster, node_id: int, request: CreateTopicsRequest) -> CreateTopicsResponse:
    times = Counter(topic.name for topic in request.topics)
    results = {}
    for topic in request.topics:
        try:
            if times[topic.name] > 1:
                raise InvalidRequest("Duplicate topic name.")
            results[topic.name] = _create_topic(cluster, topic, is_real=not request.validate_only)
        except KafkaError as error:
            code, message = refusal(error)
            results[topic.name] = CreatableTopicResult(name=topic.name, error_code=code, error_message=message)
    return CreateTopicsResponse(topics=list(results.values()))


def _create_topic(cluster: FakeCluster, wanted: CreatableTopic, *, is_real: bool) -> CreatableTopicResult:
    from ottla.config import describe_topic, validate_topic

    if wanted.name in cluster.topics:
        raise TopicAlreadyExists(f"Topic '{wanted.name}' already exists.")
    shown = wanted.name.replace(".", "_")
    for name in cluster.topics:
        if name.replace(".", "_") == shown:
            raise InvalidTopicException(f"Topic '{wanted.name}' collides with existing topic: {name}")
    check_name(wanted.name)
    overrides = {}
    for config in wanted.configs:
        if config.value is None:
            raise InvalidConfig(f"Null value not supported for topic configs: {config.name}")
        overrides[config.name] = config.value
    broker = cluster.broker_config()
    validate_topic(overrides, broker=broker.current)
    if wanted.assignments:
        partitions = _assigned(cluster, wanted)
    else:
        partitions = _placed(
            cluster,
            wanted.num_partitions,
            wanted.replication_factor,
            default_count=broker.current.num_partitions,
            default_factor=broker.current.default_replication_factor,
        )
    topic_id = ZERO_UUID
    if is_real:
        topic_id = cluster.next_id()
        cluster.topics[wanted.name] = FakeTopic(wanted.name, topic_id, partitions)
        if overrides:
            cluster.configs[KIND_TOPIC, wanted.name] = overrides
    return CreatableTopicResult(
        name=wanted.name,
        topic_id=topic_id,
        num_partitions=len(partitions),
        replication_factor=len(partitions[0].replicas),
        configs=[
            CreatableTopicConfigs(
                name=entry.name,
                value=entry.value,
                read_only=False,
                config_source=entry.source,
                is_sensitive=entry.is_sensitive,
            )
            for entry in describe_topic(overrides, broker)
        ],
    )


def _assigned(cluster: FakeCluster, wanted: CreatableTopic) -> list[FakePartition]:
    made: dict[int, list[int]] = {}
    factor = None
    for one in wanted.assignments:
        if one.partition_index in made:
            raise InvalidReplicaAssignment(
                f"Found multiple manual partition assignments for partition {one.partition_index}"
            )
        _check_assignment(cluster, one.broker_ids, factor)
        factor = len(one.broker_ids)
        made[one.partition_index] = list(one.broker_ids)
    if sorted(made) != list(range(len(made))):
        raise InvalidReplicaAssignment("partitions should be a consecutive 0-based integer sequence")
    return [FakePartition(made[index]) for index in range(len(made))]


def _check_assignment(cluster: FakeCluster, replicas: Sequence[int], factor: int | None) -> None:
    if not replicas:
        raise InvalidReplicaAssignment("The manual partition assignment includes an empty replica list.")
    for broker_id in replicas:
        if broker_id not in cluster.nodes:
            raise InvalidReplicaAssignment(
                f"The manual partition assignment includes broker {broker_id}, but no such broker is registered."
            )
    if len(set(replicas)) < len(replicas):
        raise InvalidReplicaAssignment("The manual partition assignment includes a broker more than once.")
    if factor is not None and len(replicas) != factor:
        raise InvalidReplicaAssignment(
            f"The manual partition assignment includes a partition with {len(replicas)} replica(s), but this is not "
            f"consistent with previous partitions, which have {factor} replica(s)."
        )


def _placed(
    cluster: FakeCluster, count: int, factor: int, *, default_count: int = 1, default_factor: int = 1, first: int = 0
) -> list[FakePartition]:
    """Round robin over the brokers, beginning with the partition of index `first`."""
    if factor < -1 or factor == 0:
        raise InvalidReplicationFactor("Replication factor must be larger than 0, or -1 to use the default value.")
    if count < -1 or count == 0:
        raise InvalidPartitions("Number of partitions was set to an invalid non-positive value.")
    count = default_count if count == -1 else count
    factor = default_factor if factor == -1 else factor
    ids = sorted(cluster.nodes)
    if factor > len(ids):
        raise InvalidReplicationFactor(
            f"Unable to replicate the partition {factor} time(s): The target replication factor of {factor} cannot be "
            f"reached because only {len(ids)} broker(s) are registered."
        )
    return [
        FakePartition([ids[(index + replica) % len(ids)] for replica in range(factor)])
        for index in range(first, first + count)
    ]


def _create_partitions(
    cluster: FakeCluster, node_id: int, request: CreatePartitionsRequest
) -> CreatePartitionsResponse:
    results = []
    for wanted in request.topics:
        try:
            added = _added(cluster, wanted)
        except KafkaError as error:
            results.append(CreatePartitionsTopicResult(wanted.name, *refusal(error)))
            continue
        if not request.validate_only:
            cluster.topics[wanted.name].partitions.extend(added)
        results.append(CreatePartitionsTopicResult(wanted.name, 0, None))
    return CreatePartitionsResponse(results=results)


def _added(cluster: FakeCluster, wanted: CreatePartitionsTopic) -> list[FakePartition]:
    topic = cluster.topics.get(wanted.name)
    if topic is None:
        raise UnknownTopicOrPartition
    current = len(topic.partitions)
    if wanted.count == current:
        raise InvalidPartitions(f"Topic already has {current} partition(s).")
    if wanted.count < current:
        raise InvalidPartitions(
            f"The topic {wanted.name} currently has {current} partition(s); {wanted.count} would not be an increase."
        )
    factor = len(topic.partitions[0].replicas)
    if wanted.assignments is None:
        return _placed(cluster, wanted.count - current, factor, first=current)
    if len(wanted.assignments) != wanted.count - current:
        raise InvalidReplicaAssignment(
            f"Attempted to add {wanted.count - current} additional partition(s), but only {len(wanted.assignments)} "
            "assignment(s) were specified."
        )
    for one in wanted.assignments:
        _check_assignment(cluster, one.broker_ids, factor)
    return [FakePartition(list(one.broker_ids)) for one in wanted.assignments]


# Deleting


def _delete_topics(cluster: FakeCluster, node_id: int, request: DeleteTopicsRequest) -> DeleteTopicsResponse:
    responses = []
    for state in request.topics:
        name = state.name
        if name is None:
            topic = _by_id(cluster, Uuid(state.topic_id))
            error: KafkaError | None = UnknownTopicId() if topic is None else None
        else:
            topic = cluster.topics.get(name)
            error = UnknownTopicOrPartition() if topic is None else None
        if topic is None:
            assert error is not None, "what is not found has its error"
            responses.append(DeletableTopicResult(name, Uuid(state.topic_id), *refusal(error)))
            continue
        _delete(cluster, topic.name)
        responses.append(DeletableTopicResult(topic.name, topic.topic_id, 0, None))
    return DeleteTopicsResponse(responses=responses)


def _by_id(cluster: FakeCluster, topic_id: Uuid) -> FakeTopic | None:
    return next((topic for topic in cluster.topics.values() if topic.topic_id == topic_id), None)


def _delete(cluster: FakeCluster, name: str) -> None:
    """A topic goes with its settings, and with what groups have committed in it."""
    del cluster.topics[name]
    cluster.configs.pop((KIND_TOPIC, name), None)
    for group in cluster.groups.values():
        for key in [key for key in group.offsets if key.topic == name]:
            del group.offsets[key]


# Telling


def _metadata(cluster: FakeCluster, node_id: int, request: MetadataRequest) -> MetadataResponse:
    if request.topics is None:
        topics = [_told(topic) for topic in cluster.topics.values()]
    else:
        topics = []
        for asked in request.topics:
            by_id = asked.name is None
            topic = _by_id(cluster, Uuid(asked.topic_id)) if by_id else cluster.topics.get(asked.name or "")
            if topic is not None:
                topics.append(_told(topic))
            else:
                code = UnknownTopicId.code if by_id else _missing(asked.name or "")
                topics.append(MetadataResponseTopic(error_code=code, name=asked.name, topic_id=asked.topic_id))
    return MetadataResponse(
        brokers=[MetadataResponseBroker(one.node_id, one.host, one.port, one.rack) for one in cluster.nodes.values()],
        cluster_id=cluster.cluster_id,
        controller_id=min(cluster.nodes),
        topics=topics,
    )


def _missing(name: str) -> int:
    try:
        check_name(name)
    except InvalidTopicException as error:
        return error.code
    return UnknownTopicOrPartition.code


def _told(topic: FakeTopic) -> MetadataResponseTopic:
    return MetadataResponseTopic(
        name=topic.name,
        topic_id=topic.topic_id,
        is_internal=topic.is_internal,
        partitions=[
            MetadataResponsePartition(
                partition_index=index,
                leader_id=one.replicas[0],
                leader_epoch=0,
                replica_nodes=list(one.replicas),
                isr_nodes=list(one.replicas),
            )
            for index, one in enumerate(topic.partitions)
        ],
    )


def _describe_topic_partitions(
    cluster: FakeCluster, node_id: int, request: DescribeTopicPartitionsRequest
) -> DescribeTopicPartitionsResponse:
    names = sorted(asked.name for asked in request.topics)
    begin = ("", 0) if request.cursor is None else (request.cursor.topic_name, request.cursor.partition_index)
    response = DescribeTopicPartitionsResponse()
    left = request.response_partition_limit
    for name in names:
        if name < begin[0]:
            continue
        topic = cluster.topics.get(name)
        if topic is None:
            response.topics.append(DescribeTopicPartitionsResponseTopic(error_code=_missing(name), name=name))
            continue
        first = begin[1] if name == begin[0] else 0
        if left <= 0:
            response.next_cursor = Cursor(topic_name=name, partition_index=first)
            break
        page = list(enumerate(topic.partitions))[first : first + left]
        left -= len(page)
        response.topics.append(_page(topic, page))
        if first + len(page) < len(topic.partitions):
            response.next_cursor = Cursor(topic_name=name, partition_index=first + len(page))
            break
    return response


def _page(topic: FakeTopic, page: list[tuple[int, FakePartition]]) -> DescribeTopicPartitionsResponseTopic:
    return DescribeTopicPartitionsResponseTopic(
        name=topic.name,
        topic_id=topic.topic_id,
        is_internal=topic.is_internal,
        partitions=[
            DescribeTopicPartitionsResponsePartition(
                partition_index=index,
                leader_id=one.replicas[0],
                leader_epoch=0,
                replica_nodes=list(one.replicas),
                isr_nodes=list(one.replicas),
                eligible_leader_replicas=[],
                last_known_elr=[],
            )
            for index, one in page
        ],
    )


HANDLERS: dict[int, Handler] = {
    3: _metadata,
    19: _create_topics,
    20: _delete_topics,
    37: _create_partitions,
    75: _describe_topic_partitions,
}
