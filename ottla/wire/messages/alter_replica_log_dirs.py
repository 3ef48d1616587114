"""AlterReplicaLogDirs (key 34): its request and its response."""

from __future__ import annotations

from ottla.wire.schema import Int16, Int32, Message, Struct, field


class AlterReplicaLogDirsRequest(Message, api_key=34, versions="1-2", flexible="2+"):
    """Move replicas between the log directories of a broker."""

    dirs: list[AlterReplicaLogDir] = field()


class AlterReplicaLogDir(Struct):
    path: str = field(map_key=True)
    topics: list[AlterReplicaLogDirTopic] = field()


class AlterReplicaLogDirTopic(Struct):
    name: str = field(map_key=True, entity="topicName")
    partitions: list[Int32] = field()


class AlterReplicaLogDirsResponse(Message, api_key=34, versions="1-2", flexible="2+"):
    """Whether each move was accepted."""

    throttle_time_ms: Int32 = field()
    results: list[AlterReplicaLogDirTopicResult] = field()


class AlterReplicaLogDirTopicResult(Struct):
    topic_name: str = field(entity="topicName")
    partitions: list[AlterReplicaLogDirPartitionResult] = field()


class AlterReplicaLogDirPartitionResult(Struct):
    partition_index: Int32 = field()
    error_code: Int16 = field()
