"""Fetch (key 1): its request and its response."""

from __future__ import annotations

from ottla.types import Uuid
from ottla.wire.schema import Int8, Int16, Int32, Int64, Message, SentRecords, Struct, field


class FetchRequest(Message, api_key=1, versions="4-18", flexible="12+"):
    """Read records from partitions, waiting until enough have arrived."""

    cluster_id: str | None = field(
        "12+",
        default=None,
        tag=0,
        ignorable=True,
        doc="Checked where metadata is fetched before a broker has registered.",
    )
    replica_id: Int32 = field(
        "0-14",
        default=-1,
        entity="brokerId",
        doc="A follower's broker id; -1 for a consumer. `replica_state` from version 15 on.",
    )
    replica_state: ReplicaState | None = field("15+", tag=1)
    max_wait_ms: Int32 = field(doc="How long to wait for `min_bytes`.")
    min_bytes: Int32 = field()
    max_bytes: Int32 = field(
        "3+",
        default=0x7FFF_FFFF,
        ignorable=True,
        doc="A soft limit: the first batch is sent whole even if it is larger.",
    )
    isolation_level: Int8 = field("4+", ignorable=True, doc="1 hides records of open and aborted transactions.")
    session_id: Int32 = field(
        "7+", ignorable=True, doc="0 to start an incremental fetch session, or to do without one."
    )
    session_epoch: Int32 = field(
        "7+",
        default=-1,
        ignorable=True,
        doc="-1 ends the session or does without one; 0 starts one; then one more with each request.",
    )
    topics: list[FetchTopic] = field()
    forgotten_topics_data: list[ForgottenTopic] = field("7+", doc="Partitions to drop from the session.")
    rack_id: str = field("11+", ignorable=True)


class ReplicaState(Struct):
    replica_id: Int32 = field("15+", default=-1, entity="brokerId", doc="A follower's broker id; -1 for a consumer.")
    replica_epoch: Int64 = field("15+", default=-1)


class FetchTopic(Struct):
    topic: str = field("0-12", ignorable=True, entity="topicName")
    topic_id: Uuid = field("13+", ignorable=True)
    partitions: list[FetchPartition] = field()


class FetchPartition(Struct):
    partition: Int32 = field()
    current_leader_epoch: Int32 = field("9+", default=-1, ignorable=True)
    fetch_offset: Int64 = field()
    last_fetched_epoch: Int32 = field(
        "12+", default=-1, doc="Lets the leader find out that the follower's log has diverged."
    )
    log_start_offset: Int64 = field("5+", default=-1, ignorable=True, doc="Only of a follower.")
    partition_max_bytes: Int32 = field()
    replica_directory_id: Uuid = field("17+", tag=0, ignorable=True)
    high_watermark: Int64 = field(
        "18+",
        default=0x7FFF_FFFF_FFFF_FFFF,
        tag=1,
        ignorable=True,
        doc="The follower's; the largest int64 says that it does not tell.",
    )


class ForgottenTopic(Struct):
    topic: str = field("7-12", ignorable=True, entity="topicName")
    topic_id: Uuid = field("13+", ignorable=True)
    partitions: list[Int32] = field("7+")


class FetchResponse(Message, api_key=1, versions="4-18", flexible="12+"):
    """Record batches of each partition, with the offsets that bound what may be read."""

    throttle_time_ms: Int32 = field("1+", ignorable=True)
    error_code: Int16 = field("7+", ignorable=True)
    session_id: Int32 = field("7+")
    responses: list[FetchableTopicResponse] = field()
    node_endpoints: list[NodeEndpoint] = field("16+", tag=0)


class FetchableTopicResponse(Struct):
    topic: str = field("0-12", ignorable=True, entity="topicName")
    topic_id: Uuid = field("13+", ignorable=True)
    partitions: list[PartitionData] = field()


class PartitionData(Struct):
    partition_index: Int32 = field()
    error_code: Int16 = field()
    high_watermark: Int64 = field()
    last_stable_offset: Int64 = field("4+", default=-1, ignorable=True)
    log_start_offset: Int64 = field("5+", default=-1, ignorable=True)
    diverging_epoch: EpochEndOffset | None = field(
        "12+", tag=0, doc="Where the fetcher's log must be cut off: the end of the last epoch that both logs share."
    )
    current_leader: LeaderIdAndEpoch | None = field("12+", tag=1)
    snapshot_id: SnapshotId | None = field(
        "12+", tag=2, doc="The snapshot to load, where the offset asked for is already compacted into one."
    )
    aborted_transactions: list[AbortedTransaction] | None = field(
        "4+", ignorable=True, doc="Null for read_uncommitted."
    )
    preferred_read_replica: Int32 = field(
        "11+",
        default=-1,
        entity="brokerId",
        doc="The replica that a consumer in this rack should read from; -1 for the leader.",
    )
    records: SentRecords | None = field()


class EpochEndOffset(Struct):
    epoch: Int32 = field("12+", default=-1)
    end_offset: Int64 = field("12+", default=-1)


class LeaderIdAndEpoch(Struct):
    leader_id: Int32 = field("12+", default=-1, entity="brokerId")
    leader_epoch: Int32 = field("12+", default=-1)


class SnapshotId(Struct):
    end_offset: Int64 = field(default=-1)
    epoch: Int32 = field(default=-1)


class AbortedTransaction(Struct):
    producer_id: Int64 = field("4+", entity="producerId")
    first_offset: Int64 = field("4+")


class NodeEndpoint(Struct):
    node_id: Int32 = field("16+", map_key=True, entity="brokerId")
    host: str = field("16+")
    port: Int32 = field("16+")
    rack: str | None = field("16+", default=None)
