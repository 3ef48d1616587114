"""Moving partitions to other brokers: AlterPartitionReassignments and ListPartitionReassignments.

Promises: the new replicas are added first and the old ones go when the new are in sync, so a partition never has fewer
copies than before. A move that is under way can be called off. Called by the controller.
"""

from __future__ import annotations

from ottla.errors import (
    InvalidReplicaAssignment,
    InvalidReplicationFactor,
    KafkaError,
    NoReassignmentInProgress,
    UnknownTopicOrPartition,
)
from ottla.machine import Result
from ottla.metadata.control.configs import ConfigControl
from ottla.metadata.control.creation import Creation
from ottla.metadata.control.elections import Elections
from ottla.metadata.control.partition_change import Election, without
from ottla.metadata.control.topics import Topic, TopicControl
from ottla.metadata.partition import PartitionImage
from ottla.wire.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    ReassignablePartition,
    ReassignablePartitionResponse,
    ReassignableTopicResponse,
)
from ottla.wire.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
    OngoingPartitionReassignment,
    OngoingTopicReassignment,
)
from ottla.wire.metadata import VersionedRecord


class Reassignments:
    """Decisions about which brokers have a partition."""

    def __init__(self, topics: TopicControl, configs: ConfigControl, elections: Elections, creation: Creation) -> None:
        self._topics = topics
        self._configs = configs
        self._elections = elections
        self._creation = creation

    def alter(self, request: AlterPartitionReassignmentsRequest) -> Result[AlterPartitionReassignmentsResponse]:
        may_resize = request.allow_replication_factor_change
        response = AlterPartitionReassignmentsResponse(allow_replication_factor_change=may_resize, error_message=None)
        records: list[VersionedRecord] = []
        for asked in request.topics:
            answered = ReassignableTopicResponse(name=asked.name)
            for target in asked.partitions:
                code, message = 0, None
                try:
                    record = self._alter(asked.name, target, may_resize=may_resize)
                    if record is not None:
                        records.append(record)
                except KafkaError as error:
                    code, message = error.code, error.specific_message
                answered.partitions.append(ReassignablePartitionResponse(target.partition_index, code, message))
            response.responses.append(answered)
        return Result(response, records)

    def _alter(self, name: str, target: ReassignablePartition, *, may_resize: bool) -> VersionedRecord | None:
        topic = self._topics.by_name.get(name)
        if topic is None:
            raise UnknownTopicOrPartition(f"Unable to find a topic named {name}.")
        partition = topic.partitions.get(target.partition_index)
        if partition is None:
            raise UnknownTopicOrPartition(f"Unable to find partition {name}:{target.partition_index}.")
        if target.replicas is None:
            return self._cancel(topic, target.partition_index, partition)
        self._creation.check_assignment(target.replicas, None)
        if not may_resize:
            current = set(partition.replicas) | set(partition.adding)
            size = len(current - set(partition.removing))
            if size != len(target.replicas):
                raise InvalidReplicationFactor(
                    f"The replication factor is changed from {size} to {len(target.replicas)}"
                )
        removing = sorted(set(partition.replicas) - set(target.replicas))
        adding = sorted(set(target.replicas) - set(partition.replicas))
        changer = self._elections.changer(topic, target.partition_index)
        changer.replicas = [*target.replicas, *removing]
        if removing:
            changer.removing = removing
        if adding:
            changer.adding = adding
        return changer.build()

    def _cancel(self, topic: Topic, index: int, partition: PartitionImage) -> VersionedRecord | None:
        if not partition.is_reassigning:
            raise NoReassignmentInProgress()
        allows_unclean = self._configs.allows_unclean_election(topic.name)
        replicas = without(partition.replicas, *partition.adding)
        isr = without(partition.isr, *partition.adding)
        if not isr:
            if not replicas:
                raise InvalidReplicaAssignment("Invalid replica assignment: addingReplicas contains all replicas.")
            if not allows_unclean:
                raise InvalidReplicaAssignment(
                    f"Unable to revert partition assignment for {topic.name}:{index} because it would require an "
                    "unclean leader election."
                )
            isr = replicas[:1]
        changer = self._elections.changer(topic, index)
        if allows_unclean:
            changer.election = Election.UNCLEAN
        changer.isr, changer.replicas = isr, replicas
        changer.adding, changer.removing = [], []
        return changer.build()

    def list(self, request: ListPartitionReassignmentsRequest) -> ListPartitionReassignmentsResponse:
        wanted: dict[str, list[int]] = {}
        if request.topics is None:
            for key in self._topics.reassigning:
                wanted.setdefault(self._topics.by_id[key.topic_id].name, []).append(key.partition)
        else:
            for asked in request.topics:
                if asked.name in self._topics.by_name:
                    wanted.setdefault(asked.name, []).extend(asked.partition_indexes)
        response = ListPartitionReassignmentsResponse(error_message=None)
        for name, indexes in wanted.items():
            partitions = self._topics.by_name[name].partitions
            ongoing = [
                OngoingPartitionReassignment(
                    partition_index=index,
                    replicas=list(partition.replicas),
                    adding_replicas=list(partition.adding),
                    removing_replicas=list(partition.removing),
                )
                for index in indexes
                if (partition := partitions.get(index)) is not None and partition.is_reassigning
            ]
            if ongoing:
                response.topics.append(OngoingTopicReassignment(name, ongoing))
        return response
