"""Heartbeat (key 12): its request and its response."""

from __future__ import annotations

from ottla.wire.schema import Int16, Int32, Message, field


class HeartbeatRequest(Message, api_key=12, versions="0-4", flexible="4+"):
    """Say that a member of a classic group is alive."""

    group_id: str = field(entity="groupId")
    generation_id: Int32 = field()
    member_id: str = field()
    group_instance_id: str | None = field("3+", default=None)


class HeartbeatResponse(Message, api_key=12, versions="0-4", flexible="4+"):
    """Whether the member may go on, or must join again."""

    throttle_time_ms: Int32 = field("1+", ignorable=True)
    error_code: Int16 = field()
