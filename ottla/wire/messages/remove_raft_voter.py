"""RemoveRaftVoter (key 81): its request and its response."""

from __future__ import annotations

from ottla.types import Uuid
from ottla.wire.schema import Int16, Int32, Message, field


class RemoveRaftVoterRequest(Message, api_key=81, versions="0", flexible="0+"):
    """Remove a voter from the raft quorum."""

    cluster_id: str | None = field()
    voter_id: Int32 = field()
    voter_directory_id: Uuid = field()


class RemoveRaftVoterResponse(Message, api_key=81, versions="0", flexible="0+"):
    """Whether the voter was removed."""

    throttle_time_ms: Int32 = field()
    error_code: Int16 = field()
    error_message: str | None = field(ignorable=True)
