"""AssignReplicasToDirs (key 73): its request and its response."""

from __future__ import annotations

from ottla.types import Uuid
from ottla.wire.schema import Int16, Int32, Int64, Message, Struct, field


class AssignReplicasToDirsRequest(Message, api_key=73, versions="0", flexible="0+"):
    """Tell the controller which log directories hold a broker's replicas."""

    broker_id: Int32 = field(entity="brokerId")
    broker_epoch: Int64 = field(default=-1)
    directories: list[AssignReplicasToDirsRequestDirectoryData] = field()


class AssignReplicasToDirsRequestDirectoryData(Struct):
    id: Uuid = field()
    topics: list[AssignReplicasToDirsRequestTopicData] = field()


class AssignReplicasToDirsRequestTopicData(Struct):
    topic_id: Uuid = field()
    partitions: list[AssignReplicasToDirsRequestPartitionData] = field()


class AssignReplicasToDirsRequestPartitionData(Struct):
    partition_index: Int32 = field()


class AssignReplicasToDirsResponse(Message, api_key=73, versions="0", flexible="0+"):
    """Whether each assignment was recorded."""

    throttle_time_ms: Int32 = field()
    error_code: Int16 = field()
    directories: list[AssignReplicasToDirsResponseDirectoryData] = field()


class AssignReplicasToDirsResponseDirectoryData(Struct):
    id: Uuid = field()
    topics: list[AssignReplicasToDirsResponseTopicData] = field()


class AssignReplicasToDirsResponseTopicData(Struct):
    topic_id: Uuid = field()
    partitions: list[AssignReplicasToDirsResponsePartitionData] = field()


class AssignReplicasToDirsResponsePartitionData(Struct):
    partition_index: Int32 = field()
    error_code: Int16 = field()
