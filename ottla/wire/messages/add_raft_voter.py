"""AddRaftVoter (key 80): its request and its response."""

from __future__ import annotations

from ottla.types import Uuid
from ottla.wire.schema import Bool, Int16, Int32, Message, Struct, Uint16, field


class AddRaftVoterRequest(Message, api_key=80, versions="0-1", flexible="0+"):
    """Add a voter to the raft quorum."""

    cluster_id: str | None = field()
    timeout_ms: Int32 = field()
    voter_id: Int32 = field()
    voter_directory_id: Uuid = field()
    listeners: list[Listener] = field()
    ack_when_committed: Bool = field("1+", default=True)


class Listener(Struct):
    name: str = field(map_key=True)
    host: str = field()
    port: Uint16 = field()


class AddRaftVoterResponse(Message, api_key=80, versions="0-1", flexible="0+"):
    """Whether the voter was added."""

    throttle_time_ms: Int32 = field()
    error_code: Int16 = field()
    error_message: str | None = field(ignorable=True)
