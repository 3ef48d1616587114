"""AlterPartition (key 56): its request and its response."""

from __future__ import annotations

from ottla.types import Uuid
from ottla.wire.schema import Int8, Int16, Int32, Int64, Message, Struct, field


class AlterPartitionRequest(Message, api_key=56, versions="2-3", flexible="0+"):
    """Change the in-sync set of partitions; a leader asks the controller."""

    broker_id: Int32 = field(entity="brokerId")
    broker_epoch: Int64 = field(default=-1)
    topics: list[AlterPartitionRequestTopicData] = field()


class AlterPartitionRequestTopicData(Struct):
    topic_id: Uuid = field("2+", ignorable=True)
    partitions: list[AlterPartitionRequestPartitionData] = field()


class AlterPartitionRequestPartitionData(Struct):
    partition_index: Int32 = field()
    leader_epoch: Int32 = field()
    new_isr: list[Int32] = field("0-2", entity="brokerId")
    new_isr_with_epochs: list[BrokerState] = field("3+")
    leader_recovery_state: Int8 = field("1+")
    partition_epoch: Int32 = field()


class BrokerState(Struct):
    broker_id: Int32 = field("3+", entity="brokerId")
    broker_epoch: Int64 = field("3+", default=-1)


class AlterPartitionResponse(Message, api_key=56, versions="2-3", flexible="0+"):
    """The state of each partition after the change."""

    throttle_time_ms: Int32 = field()
    error_code: Int16 = field()
    topics: list[AlterPartitionResponseTopicData] = field()


class AlterPartitionResponseTopicData(Struct):
    topic_id: Uuid = field("2+", ignorable=True)
    partitions: list[AlterPartitionResponsePartitionData] = field()


class AlterPartitionResponsePartitionData(Struct):
    partition_index: Int32 = field()
    error_code: Int16 = field()
    leader_id: Int32 = field(entity="brokerId")
    leader_epoch: Int32 = field()
    isr: list[Int32] = field(entity="brokerId")
    leader_recovery_state: Int8 = field("1+", ignorable=True)
    partition_epoch: Int32 = field()
