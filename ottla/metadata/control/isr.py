"""AlterPartition: a leader asks to change the ISR of what it leads.

Promises: only the leader of the current epoch is heard, and only about the partition epoch that it has seen, so two
changes never overwrite each other; only a broker that is alive can be in an ISR. Called by the controller.
"""

from __future__ import annotations

from ottla.errors import (
    FencedLeaderEpoch,
    IneligibleReplica,
    InvalidRequest,
    InvalidUpdateVersion,
    KafkaError,
    NewLeaderElected,
    NotController,
    UnknownTopicId,
    UnknownTopicOrPartition,
)
from ottla.machine import Result
from ottla.metadata.control.brokers import BrokerControl
from ottla.metadata.control.configs import ConfigControl
from ottla.metadata.control.elections import Elections
from ottla.metadata.control.partition_change import Election
from ottla.metadata.control.topics import Topic, TopicControl
from ottla.metadata.partition import NO_LEADER_CHANGE, LeaderRecoveryState, PartitionImage
from ottla.wire.messages.alter_partition import (
    AlterPartitionRequest,
    AlterPartitionRequestPartitionData,
    AlterPartitionResponse,
    AlterPartitionResponsePartitionData,
    AlterPartitionResponseTopicData,
    BrokerState,
)
from ottla.wire.metadata import PartitionChangeRecord, VersionedRecord

_ANY_EPOCH = -1


class IsrChanges:
    """Decisions about in-sync sets."""

    def __init__(
        self, topics: TopicControl, brokers: BrokerControl, configs: ConfigControl, elections: Elections
    ) -> None:
        self._topics = topics
        self._brokers = brokers
        self._configs = configs
        self._elections = elections

    def alter(self, request: AlterPartitionRequest, *, version: int) -> Result[AlterPartitionResponse]:
        self._brokers.check_epoch(request.broker_id, request.broker_epoch)
        response = AlterPartitionResponse()
        records: list[VersionedRecord] = []
        for asked in request.topics:
            answered = AlterPartitionResponseTopicData(topic_id=asked.topic_id)
            response.topics.append(answered)
            topic = self._topics.by_id.get(asked.topic_id)
            for change in asked.partitions:
                index = change.partition_index
                try:
                    if topic is None:
                        raise UnknownTopicId()
                    isr = change.new_isr_with_epochs if version >= 3 else [BrokerState(id) for id in change.new_isr]
                    after, record = self._change(request.broker_id, topic, change, isr)
                    if record is not None:
                        records.append(record)
                    leader = NO_LEADER_CHANGE
                    if record is not None:
                        assert isinstance(record.record, PartitionChangeRecord)
                        leader = record.record.leader
                    if leader not in (NO_LEADER_CHANGE, request.broker_id):
                        # The change completed a reassignment, which moved the leader: recorded, and told as an error,
                        # so that the old leader looks at the metadata before it asks again.
                        raise NewLeaderElected()
                    answered.partitions.append(
                        AlterPartitionResponsePartitionData(
                            partition_index=index,
                            error_code=0,
                            leader_id=after.leader,
                            leader_epoch=after.leader_epoch,
                            isr=list(after.isr),
                            leader_recovery_state=after.leader_recovery_state,
                            partition_epoch=after.partition_epoch,
                        )
                    )
                except KafkaError as error:
                    answered.partitions.append(
                        AlterPartitionResponsePartitionData(partition_index=index, error_code=error.code)
                    )
        return Result(response, records, is_atomic=False)

    def _change(
        self, broker_id: int, topic: Topic, change: AlterPartitionRequestPartitionData, isr: list[BrokerState]
    ) -> tuple[PartitionImage, VersionedRecord | None]:
        partition = self._check(broker_id, topic, change, isr)
        changer = self._elections.changer(topic, change.partition_index)
        if self._configs.allows_unclean_election(topic.name):
            changer.election = Election.UNCLEAN
        changer.isr = [replica.broker_id for replica in isr]
        changer.recovery_state = LeaderRecoveryState(change.leader_recovery_state)
        record = changer.build()
        if record is None:
            return partition, None
        assert isinstance(record.record, PartitionChangeRecord)
        return partition.changed_by(record.record), record

    def _check(
        self, broker_id: int, topic: Topic, change: AlterPartitionRequestPartitionData, isr: list[BrokerState]
    ) -> PartitionImage:
        partition = topic.partitions.get(change.partition_index)
        if partition is None:
            raise UnknownTopicOrPartition()
        # A leader that knows a newer epoch than the controller has found a controller that was replaced.
        if change.leader_epoch > partition.leader_epoch or change.partition_epoch > partition.partition_epoch:
            raise NotController()
        if change.leader_epoch < partition.leader_epoch:
            raise FencedLeaderEpoch()
        if broker_id != partition.leader:
            raise InvalidRequest(f"The leader is {partition.leader}, not {broker_id}")
        if change.partition_epoch < partition.partition_epoch:
            raise InvalidUpdateVersion()
        ids = [replica.broker_id for replica in isr]
        if len(set(ids)) != len(ids) or not set(ids) <= set(partition.replicas) or partition.leader not in ids:
            raise InvalidRequest(f"{ids} cannot be the ISR of the replicas {list(partition.replicas)}")
        if change.leader_recovery_state not in list(LeaderRecoveryState):
            raise InvalidRequest(f"Unknown leader recovery state {change.leader_recovery_state}")
        if change.leader_recovery_state == LeaderRecoveryState.RECOVERING:
            if len(ids) > 1:
                raise InvalidRequest("Nobody can be in sync with a leader that is still recovering")
            if partition.leader_recovery_state is LeaderRecoveryState.RECOVERED:
                raise InvalidRequest("A leader that has recovered does not begin to recover again")
        if not all(self._is_eligible(replica) for replica in isr):
            raise IneligibleReplica()
        return partition

    def _is_eligible(self, replica: BrokerState) -> bool:
        broker = self._brokers.brokers.get(replica.broker_id)
        return broker is not None and broker.is_active and replica.broker_epoch in (_ANY_EPOCH, broker.epoch)
