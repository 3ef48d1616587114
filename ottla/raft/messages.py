"""The requests and responses of the quorum, made and taken apart: each is about one partition, `__cluster_metadata-0`.

Promises: what is made has the bytes of Kafka's, with the leader's endpoint for the listener that a request came in on.
What is taken apart is checked for its shape, and None says that the shape is wrong.
Called by `core`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

from ottla.raft.snapshot import SnapshotId
from ottla.raft.states import Endpoints
from ottla.raft.voters import ReplicaKey
from ottla.types import METADATA_TOPIC_ID, TopicPartition
from ottla.wire import Message
from ottla.wire.messages import begin_quorum_epoch as begin
from ottla.wire.messages import end_quorum_epoch as end
from ottla.wire.messages import fetch, vote
from ottla.wire.messages import fetch_snapshot as snapshot
from ottla.wire.messages.describe_quorum import DescribeQuorumRequest, DescribeQuorumResponse
from ottla.world import Address

PARTITION = TopicPartition("__cluster_metadata", 0)
FETCH_WAIT_MS_MAX = 500
"""How long a leader may keep a follower waiting for something new, as in Kafka."""

_RESPONSES: dict[type[Message], type[Message]] = {
    vote.VoteRequest: vote.VoteResponse,
    begin.BeginQuorumEpochRequest: begin.BeginQuorumEpochResponse,
    end.EndQuorumEpochRequest: end.EndQuorumEpochResponse,
    fetch.FetchRequest: fetch.FetchResponse,
    snapshot.FetchSnapshotRequest: snapshot.FetchSnapshotResponse,
    DescribeQuorumRequest: DescribeQuorumResponse,
}
REQUESTS = tuple(_RESPONSES)


def error_response(request: Message, code: int) -> Message:
    """The response that says nothing but that the request as a whole was not answered."""
    response: Any = _RESPONSES[type(request)]()
    response.error_code = code
    return response  # type: ignore[no-any-return]


# Taken apart


def only_partition(message: Message) -> Any:
    """The one partition that a request or response is about; None unless it is about this log alone."""
    match message:
        case fetch.FetchRequest():
            topics: list[Any] = [(one.topic_id, one.partitions) for one in message.topics]
            name: object = METADATA_TOPIC_ID
        case fetch.FetchResponse():
            topics = [(one.topic_id, one.partitions) for one in message.responses]
            name = METADATA_TOPIC_ID
        case snapshot.FetchSnapshotRequest() | snapshot.FetchSnapshotResponse():
            topics = [(one.name, one.partitions) for one in message.topics]
            name = PARTITION.topic
        case _:
            topics = [(one.topic_name, one.partitions) for one in message.topics]  # type: ignore[attr-defined]
            name = PARTITION.topic
    if len(topics) != 1 or topics[0][0] != name or len(topics[0][1]) != 1:
        return None
    partition = topics[0][1][0]
    return partition if _index_of(partition) == PARTITION.partition else None


def _index_of(partition: Any) -> int:
    for name in ("partition_index", "partition", "index"):
        if hasattr(partition, name):
            found: int = getattr(partition, name)
            return found
    raise AssertionError(f"{partition} has no index")


def voter_key(voter_id: int, directory_id: Any) -> ReplicaKey | None:
    """Whom a request is meant for; None when it does not say, as before KIP-853."""
    return None if voter_id < 0 else ReplicaKey(voter_id, directory_id)


def fetching_replica(request: fetch.FetchRequest, version: int, partition: fetch.FetchPartition) -> ReplicaKey:
    if version >= 15:
        id = -1 if request.replica_state is None else request.replica_state.replica_id
    else:
        id = request.replica_id
    return ReplicaKey(id, partition.replica_directory_id)


def named_endpoints(endpoints: list[Any]) -> Endpoints:
    """The endpoints that a leader sends of itself."""
    return {one.name: Address(one.host, one.port) for one in endpoints}


def endpoint_of(response: Any, leader_id: int, listener: str) -> Endpoints:
    """Where a response says that the leader is; empty where it does not."""
    for one in response.node_endpoints:
        if one.node_id == leader_id:
            return {listener: Address(one.host, one.port)}
    return {}


# Requests


def vote_request(
    cluster_id: str,
    epoch: int,
    local: ReplicaKey,
    voter: ReplicaKey,
    *,
    last_epoch: int,
    end_offset: int,
    is_pre_vote: bool,
) -> Message:
    partition = vote.VoteRequestPartitionData(
        partition_index=PARTITION.partition,
        replica_epoch=epoch,
        replica_id=local.id,
        replica_directory_id=local.directory_id,
        voter_directory_id=voter.directory_id,
        last_offset_epoch=last_epoch,
        last_offset=end_offset,
        pre_vote=is_pre_vote,
    )
    topic = vote.VoteRequestTopicData(topic_name=PARTITION.topic, partitions=[partition])
    return vote.VoteRequest(cluster_id=cluster_id, voter_id=voter.id, topics=[topic])


def begin_quorum_epoch_request(
    cluster_id: str, epoch: int, leader_id: int, endpoints: Endpoints, voter: ReplicaKey
) -> Message:
    partition = begin.BeginQuorumEpochRequestPartitionData(
        partition_index=PARTITION.partition,
        voter_directory_id=voter.directory_id,
        leader_id=leader_id,
        leader_epoch=epoch,
    )
    return begin.BeginQuorumEpochRequest(
        cluster_id=cluster_id,
        voter_id=voter.id,
        topics=[begin.BeginQuorumEpochRequestTopicData(topic_name=PARTITION.topic, partitions=[partition])],
        leader_endpoints=[
            begin.LeaderEndpoint(name, address.host, address.port) for name, address in endpoints.items()
        ],
    )


def end_quorum_epoch_request(cluster_id: str, epoch: int, leader_id: int, successors: list[ReplicaKey]) -> Message:
    partition = end.EndQuorumEpochRequestPartitionData(
        partition_index=PARTITION.partition,
        leader_id=leader_id,
        leader_epoch=epoch,
        preferred_successors=[key.id for key in successors],
        preferred_candidates=[end.ReplicaInfo(key.id, key.directory_id) for key in successors],
    )
    topic = end.EndQuorumEpochRequestTopicData(topic_name=PARTITION.topic, partitions=[partition])
    return end.EndQuorumEpochRequest(cluster_id=cluster_id, topics=[topic])


def fetch_request(
    cluster_id: str,
    epoch: int,
    local: ReplicaKey,
    *,
    offset: int,
    last_epoch: int,
    high_watermark: int,
    bytes_max: int,
) -> Message:
    partition = fetch.FetchPartition(
        partition=PARTITION.partition,
        current_leader_epoch=epoch,
        fetch_offset=offset,
        last_fetched_epoch=last_epoch,
        replica_directory_id=local.directory_id,
        high_watermark=high_watermark,
    )
    return fetch.FetchRequest(
        cluster_id=cluster_id,
        replica_state=fetch.ReplicaState(replica_id=local.id),
        max_wait_ms=FETCH_WAIT_MS_MAX,
        max_bytes=bytes_max,
        topics=[fetch.FetchTopic(topic=PARTITION.topic, topic_id=METADATA_TOPIC_ID, partitions=[partition])],
    )


def fetch_snapshot_request(
    cluster_id: str, epoch: int, local: ReplicaKey, id: SnapshotId, *, position: int, bytes_max: int
) -> Message:
    partition = snapshot.FetchSnapshotRequestPartitionSnapshot(
        partition=PARTITION.partition,
        current_leader_epoch=epoch,
        snapshot_id=snapshot.SnapshotId(id.offset, id.epoch),
        position=position,
        replica_directory_id=local.directory_id,
    )
    topic = snapshot.FetchSnapshotRequestTopicSnapshot(name=PARTITION.topic, partitions=[partition])
    return snapshot.FetchSnapshotRequest(
        cluster_id=cluster_id, replica_id=local.id, max_bytes=bytes_max, topics=[topic]
    )


# Responses

LeaderNow: TypeAlias = tuple[int, int, Address | None]
"""The leader's id, its epoch, and where the one that asked can reach it."""


def vote_response(leader: LeaderNow, code: int, *, version: int, is_granted: bool) -> Message:
    partition = vote.VoteResponsePartitionData(
        partition_index=PARTITION.partition,
        error_code=code,
        leader_id=leader[0],
        leader_epoch=leader[1],
        vote_granted=is_granted,
    )
    topic = vote.VoteResponseTopicData(topic_name=PARTITION.topic, partitions=[partition])
    return vote.VoteResponse(topics=[topic], node_endpoints=_endpoints(vote.NodeEndpoint, leader, version >= 1))


def begin_quorum_epoch_response(leader: LeaderNow, code: int, *, version: int) -> Message:
    partition = begin.BeginQuorumEpochResponsePartitionData(
        partition_index=PARTITION.partition, error_code=code, leader_id=leader[0], leader_epoch=leader[1]
    )
    return begin.BeginQuorumEpochResponse(
        topics=[begin.BeginQuorumEpochResponseTopicData(topic_name=PARTITION.topic, partitions=[partition])],
        node_endpoints=_endpoints(begin.NodeEndpoint, leader, version >= 1),
    )


def end_quorum_epoch_response(leader: LeaderNow, code: int, *, version: int) -> Message:
    partition = end.EndQuorumEpochResponsePartitionData(
        partition_index=PARTITION.partition, error_code=code, leader_id=leader[0], leader_epoch=leader[1]
    )
    return end.EndQuorumEpochResponse(
        topics=[end.EndQuorumEpochResponseTopicData(topic_name=PARTITION.topic, partitions=[partition])],
        node_endpoints=_endpoints(end.NodeEndpoint, leader, version >= 1),
    )


def fetch_response(
    leader: LeaderNow, code: int, *, version: int, high_watermark: int | None, log_start_offset: int
) -> tuple[fetch.FetchResponse, fetch.PartitionData]:
    """The response, and the part of it that says what was found."""
    partition = fetch.PartitionData(
        partition_index=PARTITION.partition,
        error_code=code,
        high_watermark=-1 if high_watermark is None else high_watermark,
        log_start_offset=log_start_offset,
        current_leader=fetch.LeaderIdAndEpoch(leader[0], leader[1]),
        records=b"",
    )
    response = fetch.FetchResponse(
        responses=[
            fetch.FetchableTopicResponse(topic=PARTITION.topic, topic_id=METADATA_TOPIC_ID, partitions=[partition])
        ],
        node_endpoints=_endpoints(fetch.NodeEndpoint, leader, version >= 17),
    )
    return response, partition


def fetch_snapshot_response(
    leader: LeaderNow, code: int, *, version: int, name: str = PARTITION.topic, index: int = PARTITION.partition
) -> tuple[snapshot.FetchSnapshotResponse, snapshot.FetchSnapshotResponsePartitionSnapshot]:
    """The response, and the part of it that says what was found."""
    partition = snapshot.FetchSnapshotResponsePartitionSnapshot(
        index=index,
        error_code=code,
        snapshot_id=snapshot.SnapshotId(0, 0),
        current_leader=snapshot.LeaderIdAndEpoch(leader[0], leader[1]),
        unaligned_records=b"",
    )
    response = snapshot.FetchSnapshotResponse(
        topics=[snapshot.FetchSnapshotResponseTopicSnapshot(name=name, partitions=[partition])],
        node_endpoints=_endpoints(snapshot.NodeEndpoint, leader, version >= 1),
    )
    return response, partition


def _endpoints(endpoint: Callable[..., Any], leader: LeaderNow, is_told: bool) -> list[Any]:
    leader_id, _, address = leader
    if not is_told or address is None or leader_id < 0:
        return []
    return [endpoint(node_id=leader_id, host=address.host, port=address.port)]
