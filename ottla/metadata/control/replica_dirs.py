"""AssignReplicasToDirs: a broker tells which of its log directories holds which replica.

Promises: a replica told to be in a directory that has failed leaves the ISR in the same breath. Called by the
controller.
"""

from __future__ import annotations

from ottla.errors import (
    KafkaError,
    NotLeaderOrFollower,
    UnknownTopicId,
    UnknownTopicOrPartition,
    UnsupportedVersion,
)
from ottla.machine import Result
from ottla.metadata.control.brokers import BrokerControl
from ottla.metadata.control.elections import Elections
from ottla.metadata.control.features import FeatureControl
from ottla.metadata.control.topics import PartitionId, Topic, TopicControl
from ottla.types import Uuid
from ottla.wire.messages.assign_replicas_to_dirs import (
    AssignReplicasToDirsRequest,
    AssignReplicasToDirsResponse,
    AssignReplicasToDirsResponseDirectoryData,
    AssignReplicasToDirsResponsePartitionData,
    AssignReplicasToDirsResponseTopicData,
)
from ottla.wire.metadata import VersionedRecord


class ReplicaDirs:
    """Decisions about where replicas are."""

    def __init__(
        self, topics: TopicControl, brokers: BrokerControl, features: FeatureControl, elections: Elections
    ) -> None:
        self._topics = topics
        self._brokers = brokers
        self._features = features
        self._elections = elections

    def assign(self, request: AssignReplicasToDirsRequest) -> Result[AssignReplicasToDirsResponse]:
        if not self._features.metadata_version.has_directories:
            raise UnsupportedVersion("Directory assignment is not supported yet.")
        broker = self._brokers.check_epoch(request.broker_id, request.broker_epoch)
        response = AssignReplicasToDirsResponse()
        records: list[VersionedRecord] = []
        unusable: dict[PartitionId, None] = {}
        for directory in request.directories:
            topics = []
            for asked in directory.topics:
                topic = self._topics.by_id.get(asked.topic_id)
                answered = AssignReplicasToDirsResponseTopicData(topic_id=asked.topic_id)
                topics.append(answered)
                for partition in asked.partitions:
                    index = partition.partition_index
                    code = 0
                    try:
                        records += self._assign(broker.id, topic, index, directory.id)
                        if not broker.has_online_dir(directory.id):
                            unusable[PartitionId(asked.topic_id, index)] = None
                    except KafkaError as error:
                        code = error.code
                    answered.partitions.append(AssignReplicasToDirsResponsePartitionData(index, code))
            response.directories.append(AssignReplicasToDirsResponseDirectoryData(directory.id, topics))
        records += self._elections.without_replicas(broker.id, unusable)
        return Result(response, records, is_atomic=False)

    def _assign(self, broker_id: int, topic: Topic | None, index: int, directory: Uuid) -> list[VersionedRecord]:
        if topic is None:
            raise UnknownTopicId()
        partition = topic.partitions.get(index)
        if partition is None:
            raise UnknownTopicOrPartition()
        if broker_id not in partition.replicas:
            raise NotLeaderOrFollower()
        changer = self._elections.changer(topic, index)
        changer.directories[broker_id] = directory
        record = changer.build()
        return [] if record is None else [record]
