"""UpdateRaftVoter (key 82): its request and its response."""

from __future__ import annotations

from ottla.types import Uuid
from ottla.wire.schema import Int16, Int32, Message, Struct, Uint16, field


class UpdateRaftVoterRequest(Message, api_key=82, versions="0", flexible="0+"):
    """Update a voter's endpoints and raft versions."""

    cluster_id: str | None = field()
    current_leader_epoch: Int32 = field()
    voter_id: Int32 = field()
    voter_directory_id: Uuid = field()
    listeners: list[Listener] = field()
    k_raft_version_feature: KRaftVersionFeature = field()


class Listener(Struct):
    name: str = field(map_key=True)
    host: str = field()
    port: Uint16 = field()


class KRaftVersionFeature(Struct):
    min_supported_version: Int16 = field()
    max_supported_version: Int16 = field()


class UpdateRaftVoterResponse(Message, api_key=82, versions="0", flexible="0+"):
    """Whether the voter was updated, and which leader the receiver knows."""

    throttle_time_ms: Int32 = field()
    error_code: Int16 = field()
    current_leader: CurrentLeader | None = field(tag=0)


class CurrentLeader(Struct):
    leader_id: Int32 = field(default=-1, entity="brokerId")
    leader_epoch: Int32 = field(default=-1)
    host: str = field()
    port: Int32 = field()
