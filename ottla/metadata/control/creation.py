"""Topics and partitions come and go: CreateTopics, CreatePartitions, DeleteTopics.

Promises: one bad topic of a request leaves the good ones whole; what is refused says why in Kafka's words; with
`validate_only` everything is checked and nothing recorded. Called by the controller.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Sequence
from typing import TypeVar

from ottla.errors import (
    InvalidConfig,
    InvalidPartitions,
    InvalidReplicaAssignment,
    InvalidReplicationFactor,
    InvalidRequest,
    InvalidTopicException,
    KafkaError,
    PolicyViolation,
    TopicAlreadyExists,
    TopicDeletionDisabled,
    UnknownTopicId,
    UnknownTopicOrPartition,
)
from ottla.machine import Result
from ottla.metadata.control.brokers import BrokerControl
from ottla.metadata.control.configs import SET, Alteration, ConfigControl
from ottla.metadata.control.elections import Elections
from ottla.metadata.control.features import FeatureControl
from ottla.metadata.control.placement import place
from ottla.metadata.control.topics import TopicControl
from ottla.metadata.directories import random_uuid
from ottla.metadata.image import TOPIC
from ottla.metadata.partition import PartitionImage
from ottla.metadata.topic_names import CLUSTER_METADATA_TOPIC, check_topic_name, metric_name
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
from ottla.wire.metadata import RemoveTopicRecord, TopicRecord, VersionedRecord
from ottla.world import World

T = TypeVar("T")

PARTITIONS_PER_REQUEST_MAX = 10_000
RECORDS_PER_REQUEST_MAX = 10_000
"""What a client asks for takes effect as one batch of the metadata log, and decided in one go: both have an end."""


class Creation:
    """Decisions about which topics and partitions there are."""

    def __init__(
        self,
        world: World,
        topics: TopicControl,
        brokers: BrokerControl,
        configs: ConfigControl,
        features: FeatureControl,
        elections: Elections,
        *,
        default_partition_count: int,
        default_replication_factor: int,
    ) -> None:
        self._world = world
        self._topics = topics
        self._brokers = brokers
        self._configs = configs
        self._features = features
        self._elections = elections
        self._default_partition_count = default_partition_count
        self._default_replication_factor = default_replication_factor

    # CreateTopics

    def create_topics(self, request: CreateTopicsRequest) -> Result[CreateTopicsResponse]:
        self._check_total(request.topics)
        times = Counter(topic.name for topic in request.topics)
        response = CreateTopicsResponse()
        records: list[VersionedRecord] = []
        for topic in request.topics:
            if times[topic.name] > 1 or topic.name == CLUSTER_METADATA_TOPIC:
                continue
            try:
                self._check_name(topic.name)
                result, made = self._create_topic(topic)
                records += made
                if len(records) > RECORDS_PER_REQUEST_MAX:
                    break
            except KafkaError as error:
                result = _refused(topic.name, error)
            response.topics.append(result)
        check_record_count(records)
        for name, count in times.items():
            if count > 1:
                response.topics.append(_refused(name, InvalidRequest("Duplicate topic name.")))
            elif name == CLUSTER_METADATA_TOPIC:
                reason = InvalidRequest(f"Creation of internal topic {CLUSTER_METADATA_TOPIC} is prohibited.")
                response.topics.append(_refused(name, reason))
        return Result(response, [] if request.validate_only else records)

    def _check_total(self, topics: Sequence[CreatableTopic]) -> None:
        total = 0
        for topic in topics:
            if topic.assignments:
                total += len(topic.assignments)
            elif topic.num_partitions == -1:
                total += self._default_partition_count
            else:
                total += max(topic.num_partitions, 0)
        if total > PARTITIONS_PER_REQUEST_MAX:
            raise PolicyViolation("Excessively large number of partitions per request.")

    def _check_name(self, name: str) -> None:
        # A topic that exists is told before one that would only look like it in metrics.
        if name in self._topics.by_name:
            raise TopicAlreadyExists(f"Topic '{name}' already exists.")
        shown = metric_name(name)
        alike = () if shown is None else self._topics.by_metric_name.get(shown, ())
        if alike:
            raise InvalidTopicException(f"Topic '{name}' collides with existing topic: {alike[0]}")
        check_topic_name(name)

    def _create_topic(self, topic: CreatableTopic) -> tuple[CreatableTopicResult, list[VersionedRecord]]:
        nulls = [config.name for config in topic.configs if config.value is None]
        if nulls:
            raise InvalidConfig(f"Null value not supported for topic configs: {','.join(nulls)}")
        overrides = {config.name: config.value for config in topic.configs if config.value is not None}
        alterations = [Alteration(name, SET, value) for name, value in overrides.items()]
        settings: list[VersionedRecord] = []
        if alterations:
            settings = self._configs.alter((TOPIC, topic.name), alterations, is_new=True)
            settings += self._configs.clear_elr_records(settings)
        partitions = self._assigned(topic) if topic.assignments else self._placed(topic)
        topic_id = random_uuid(self._world)
        result = CreatableTopicResult(
            name=topic.name,
            topic_id=topic_id,
            error_code=0,
            error_message=None,
            num_partitions=len(partitions),
            replication_factor=len(partitions[0].replicas),
            configs=[
                CreatableTopicConfigs(
                    name=entry.name,
                    value=None if entry.is_sensitive else entry.value,
                    read_only=False,
                    config_source=entry.source,
                    is_sensitive=entry.is_sensitive,
                )
                for entry in self._configs.effective_topic(overrides)
            ],
        )
        records = [VersionedRecord(TopicRecord(name=topic.name, topic_id=topic_id), 0), *settings]
        records += [self._record(topic_id, index, partition) for index, partition in enumerate(partitions)]
        return result, records

    def _assigned(self, topic: CreatableTopic) -> list[PartitionImage]:
        """The partitions as the request assigns them."""
        if topic.replication_factor != -1:
            raise InvalidRequest(
                "A manual partition assignment was specified, but replication factor was not set to -1."
            )
        if topic.num_partitions != -1:
            raise InvalidRequest("A manual partition assignment was specified, but numPartitions was not set to -1.")
        made: dict[int, PartitionImage] = {}
        replication_factor: int | None = None
        for assignment in topic.assignments:
            index, replicas = assignment.partition_index, assignment.broker_ids
            if index in made:
                raise InvalidReplicaAssignment(f"Found multiple manual partition assignments for partition {index}")
            self.check_assignment(replicas, replication_factor)
            replication_factor = len(replicas)
            made[index] = self._assigned_partition(index, replicas)
        if sorted(made) != list(range(len(made))):
            raise InvalidReplicaAssignment("partitions should be a consecutive 0-based integer sequence")
        return [made[index] for index in range(len(made))]

    def _placed(self, topic: CreatableTopic) -> list[PartitionImage]:
        """The partitions where placement puts them."""
        if topic.replication_factor < -1 or topic.replication_factor == 0:
            raise InvalidReplicationFactor("Replication factor must be larger than 0, or -1 to use the default value.")
        if topic.num_partitions < -1 or topic.num_partitions == 0:
            raise InvalidPartitions("Number of partitions was set to an invalid non-positive value.")
        count = self._default_partition_count if topic.num_partitions == -1 else topic.num_partitions
        factor = self._default_replication_factor if topic.replication_factor == -1 else topic.replication_factor
        try:
            return self._place(count, factor)
        except InvalidReplicationFactor as error:
            raise InvalidReplicationFactor(
                f"Unable to replicate the partition {factor} time(s): {error.message}"
            ) from None

    def _place(self, count: int, factor: int) -> list[PartitionImage]:
        placed = place(self._world.random, self._brokers.usable(), partition_count=count, replication_factor=factor)
        partitions = []
        for replicas in placed:
            isr = [replica for replica in replicas if self._brokers.is_active(replica)]
            if not isr:
                raise InvalidReplicationFactor("All brokers are currently fenced or in controlled shutdown.")
            partitions.append(self._new_partition(replicas, isr))
        return partitions

    def _assigned_partition(self, index: int, replicas: Sequence[int]) -> PartitionImage:
        isr = [replica for replica in replicas if self._brokers.is_active(replica)]
        if not isr:
            raise InvalidReplicaAssignment(
                f"All brokers specified in the manual partition assignment for partition {index} are fenced or in "
                "controlled shutdown."
            )
        return self._new_partition(replicas, isr)

    def _new_partition(self, replicas: Sequence[int], isr: Sequence[int]) -> PartitionImage:
        return PartitionImage(
            replicas=tuple(replicas),
            directories=tuple(self._elections.default_directory(replica) for replica in replicas),
            isr=tuple(isr),
            leader=isr[0],
            leader_epoch=0,
            partition_epoch=0,
        )

    def _record(self, topic_id: Uuid, index: int, partition: PartitionImage) -> VersionedRecord:
        features = self._features
        return partition.to_record(
            topic_id, index, metadata_version=features.metadata_version, has_elr=features.has_elr
        )

    def check_assignment(self, replicas: Sequence[int], replication_factor: int | None) -> None:
        """Whether a partition may have these replicas, beside others that have `replication_factor`."""
        if not replicas:
            raise InvalidReplicaAssignment("The manual partition assignment includes an empty replica list.")
        previous: int | None = None
        for broker_id in sorted(replicas):
            if broker_id not in self._brokers.brokers:
                raise InvalidReplicaAssignment(
                    f"The manual partition assignment includes broker {broker_id}, but no such broker is registered."
                )
            if broker_id == previous:
                raise InvalidReplicaAssignment(
                    f"The manual partition assignment includes the broker {broker_id} more than once."
                )
            previous = broker_id
        if replication_factor is not None and len(replicas) != replication_factor:
            raise InvalidReplicaAssignment(
                f"The manual partition assignment includes a partition with {len(replicas)} replica(s), but this is "
                f"not consistent with previous partitions, which have {replication_factor} replica(s)."
            )

    # CreatePartitions

    def create_partitions(self, request: CreatePartitionsRequest) -> Result[CreatePartitionsResponse]:
        times = Counter(topic.name for topic in request.topics)
        response = CreatePartitionsResponse()
        records: list[VersionedRecord] = []
        for name, count in times.items():
            if count > 1:
                error = InvalidRequest("Duplicate topic name.")
                response.results.append(CreatePartitionsTopicResult(name, error.code, error.message))
        for topic in request.topics:
            if times[topic.name] > 1:
                continue
            try:
                records += self._grow(topic)
                if len(records) > RECORDS_PER_REQUEST_MAX:
                    break
                response.results.append(CreatePartitionsTopicResult(topic.name, 0, None))
            except KafkaError as error:
                response.results.append(CreatePartitionsTopicResult(topic.name, error.code, error.specific_message))
        check_record_count(records)
        return Result(response, [] if request.validate_only else records)

    def _grow(self, wanted: CreatePartitionsTopic) -> list[VersionedRecord]:
        topic = self._topics.by_name.get(wanted.name)
        if topic is None:
            raise UnknownTopicOrPartition()
        current = len(topic.partitions)
        if wanted.count == current:
            raise InvalidPartitions(f"Topic already has {current} partition(s).")
        if wanted.count < current:
            raise InvalidPartitions(
                f"The topic {wanted.name} currently has {current} partition(s); {wanted.count} would not be an "
                "increase."
            )
        additional = wanted.count - current
        if wanted.assignments is not None and len(wanted.assignments) != additional:
            raise InvalidReplicaAssignment(
                f"Attempted to add {additional} additional partition(s), but only {len(wanted.assignments)} "
                "assignment(s) were specified."
            )
        if additional > PARTITIONS_PER_REQUEST_MAX:
            raise PolicyViolation("Excessively large number of partitions per request.")
        factor = len(topic.partitions[0].replicas)
        if wanted.assignments is None:
            partitions = self._place(additional, factor)
        else:
            partitions = []
            for index, assignment in enumerate(wanted.assignments, current):
                self.check_assignment(assignment.broker_ids, factor)
                partitions.append(self._assigned_partition(index, assignment.broker_ids))
        return [self._record(topic.id, index, partition) for index, partition in enumerate(partitions, current)]

    # DeleteTopics

    def delete_topics(
        self, request: DeleteTopicsRequest, *, version: int, is_enabled: bool
    ) -> Result[DeleteTopicsResponse]:
        if not is_enabled:
            if version < 3:
                raise InvalidRequest("This version does not support topic deletion.")
            raise TopicDeletionDisabled()
        response = DeleteTopicsResponse()

        def answer(name: str | None, topic_id: Uuid, error: KafkaError | None) -> None:
            code, message = (0, None) if error is None else (error.code, error.message)
            response.responses.append(DeletableTopicResult(name, topic_id, code, message))

        names = list(request.topic_names)
        ids = []
        for state in request.topics:
            if state.name is not None and state.topic_id != ZERO_UUID:
                reason = InvalidRequest("You may not specify both topic name and topic id.")
                answer(state.name, state.topic_id, reason)
            elif state.name is not None:
                names.append(state.name)
            elif state.topic_id != ZERO_UUID:
                ids.append(state.topic_id)
            else:
                answer(None, ZERO_UUID, InvalidRequest("Neither topic name nor id were specified."))
        twice_names = _twice(names)
        for name in twice_names:
            answer(name, ZERO_UUID, InvalidRequest("Duplicate topic name."))
        twice_ids = _twice(ids)
        for topic_id in twice_ids:
            answer(None, topic_id, InvalidRequest("Duplicate topic id."))
        doomed: dict[Uuid, str] = {}
        for topic_id in ids:
            topic = self._topics.by_id.get(topic_id)
            if topic_id in twice_ids:
                continue
            if topic is None:
                answer(None, topic_id, UnknownTopicId())
            else:
                doomed[topic_id] = topic.name
        for name in names:
            topic = self._topics.by_name.get(name)
            if name in twice_names:
                continue
            if topic is None:
                answer(name, ZERO_UUID, UnknownTopicOrPartition())
            elif topic.id in doomed or topic.id in twice_ids:
                doomed.pop(topic.id, None)
                reason = InvalidRequest("The provided topic name maps to an ID that was already supplied.")
                answer(name, topic.id, reason)
            else:
                doomed[topic.id] = name
        for topic_id, name in doomed.items():
            answer(name, topic_id, None)
        return Result(response, [VersionedRecord(RemoveTopicRecord(topic_id=topic_id), 0) for topic_id in doomed])


def check_record_count(records: Sequence[VersionedRecord]) -> None:
    """Refuse the whole of a client's request that comes to too many records."""
    if len(records) > RECORDS_PER_REQUEST_MAX:
        raise PolicyViolation("Unable to perform excessively large batch operation.")


def _refused(name: str, error: KafkaError) -> CreatableTopicResult:
    # No partition count and no settings: the defaults of the message say that there are none.
    return CreatableTopicResult(name=name, error_code=error.code, error_message=error.specific_message)


def _twice(items: Collection[T]) -> list[T]:
    return [item for item, count in Counter(items).items() if count > 1]
