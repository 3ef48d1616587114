"""What `DescribeQuorum` answers: the leader, the voters and the observers, and how far each has come."""

from __future__ import annotations

from collections.abc import Iterable

from ottla.errors import NotLeaderOrFollower
from ottla.raft.core import Core
from ottla.raft.log_view import LogView
from ottla.raft.messages import PARTITION
from ottla.raft.states import Leader, Progress
from ottla.wire.messages.describe_quorum import (
    DescribeQuorumRequest,
    DescribeQuorumResponse,
    DescribeQuorumResponsePartitionData,
    DescribeQuorumResponseTopicData,
    Listener,
    Node,
    ReplicaState,
)


def describe_quorum(
    core: Core, log: LogView, *, now_ms: int, monotonic_ms: float, version: int
) -> DescribeQuorumResponse:
    """The response in the form of `version`; only the leader knows, others answer `NOT_LEADER_OR_FOLLOWER`.

    The leader keeps times of its monotonic clock; they are told as wall time, by how long ago they were.
    """
    state = core.state
    if not isinstance(state, Leader):
        return _response(
            DescribeQuorumResponsePartitionData(
                partition_index=PARTITION.partition,
                error_code=NotLeaderOrFollower.code,
                current_voters=[],
                observers=[],
            )
        )

    state.forget_observers(monotonic_ms)

    def wall_ms(then_ms: float | None) -> int:
        return -1 if then_ms is None else now_ms - round(monotonic_ms - then_ms)

    def replica_states(replicas: Iterable[Progress]) -> list[ReplicaState]:
        found = []
        for replica in replicas:
            is_local = replica.key.id == core.local.key.id
            end_offset = log.end_offset if is_local else replica.end_offset
            described = ReplicaState(
                replica_id=replica.key.id,
                log_end_offset=-1 if end_offset is None else end_offset,
                # The leader is caught up with itself at any moment.
                last_fetch_timestamp=now_ms if is_local else wall_ms(replica.last_fetch_ms),
                last_caught_up_timestamp=now_ms if is_local else wall_ms(replica.last_caught_up_ms),
            )
            if version >= 2:
                described.replica_directory_id = replica.key.directory_id
            found.append(described)
        return found

    response = _response(
        DescribeQuorumResponsePartitionData(
            partition_index=PARTITION.partition,
            error_code=0,
            leader_id=core.local.key.id,
            leader_epoch=state.epoch,
            high_watermark=-1 if state.high_watermark is None else state.high_watermark,
            current_voters=replica_states(state.voters.values()),
            observers=replica_states(state.observers.values()),
        )
    )
    if version >= 2:
        response.nodes = [
            Node(
                node_id=voter.key.id,
                listeners=[
                    Listener(name=name, host=address.host, port=address.port)
                    for name, address in voter.listeners.items()
                ],
            )
            for voter in log.voters.nodes.values()
        ]
    return response


def describe_partitions(request: DescribeQuorumRequest, code: int) -> DescribeQuorumResponse:
    """An answer that has the same error for every partition that was asked about."""
    return DescribeQuorumResponse(
        topics=[
            DescribeQuorumResponseTopicData(
                topic_name=topic.topic_name,
                partitions=[
                    DescribeQuorumResponsePartitionData(partition_index=one.partition_index, error_code=code)
                    for one in topic.partitions
                ],
            )
            for topic in request.topics
        ]
    )


def _response(partition: DescribeQuorumResponsePartitionData) -> DescribeQuorumResponse:
    topic = DescribeQuorumResponseTopicData(topic_name=PARTITION.topic, partitions=[partition])
    return DescribeQuorumResponse(error_code=0, topics=[topic], nodes=[])
