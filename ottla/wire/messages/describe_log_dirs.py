"""DescribeLogDirs (key 35): its request and its response."""

from __future__ import annotations

from ottla.wire.schema import Bool, Int16, Int32, Int64, Message, Struct, field


class DescribeLogDirsRequest(Message, api_key=35, versions="1-5", flexible="2+"):
    """Ask what the log directories of a broker hold."""

    topics: list[DescribableLogDirTopic] | None = field()


class DescribableLogDirTopic(Struct):
    topic: str = field(map_key=True, entity="topicName")
    partitions: list[Int32] = field()


class DescribeLogDirsResponse(Message, api_key=35, versions="1-5", flexible="2+"):
    """Each log directory with its size and the replicas in it."""

    throttle_time_ms: Int32 = field()
    error_code: Int16 = field("3+", ignorable=True)
    results: list[DescribeLogDirsResult] = field()


class DescribeLogDirsResult(Struct):
    error_code: Int16 = field()
    log_dir: str = field()
    topics: list[DescribeLogDirsTopic] = field()
    total_bytes: Int64 = field("4+", default=-1, ignorable=True)
    usable_bytes: Int64 = field("4+", default=-1, ignorable=True)
    is_cordoned: Bool = field("5+", ignorable=True)


class DescribeLogDirsTopic(Struct):
    name: str = field(entity="topicName")
    partitions: list[DescribeLogDirsPartition] = field()


class DescribeLogDirsPartition(Struct):
    partition_index: Int32 = field()
    partition_size: Int64 = field()
    offset_lag: Int64 = field()
    is_future_key: Bool = field()
