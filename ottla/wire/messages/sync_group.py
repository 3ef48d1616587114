"""SyncGroup (key 14): its request and its response."""

from __future__ import annotations

from ottla.wire.schema import Bytes, Int16, Int32, Message, Struct, field


class SyncGroupRequest(Message, api_key=14, versions="0-5", flexible="4+"):
    """Fetch a member's assignment; the leader's request brings those of all members."""

    group_id: str = field(entity="groupId")
    generation_id: Int32 = field()
    member_id: str = field()
    group_instance_id: str | None = field("3+", default=None)
    protocol_type: str | None = field("5+", default=None, ignorable=True)
    protocol_name: str | None = field("5+", default=None, ignorable=True)
    assignments: list[SyncGroupRequestAssignment] = field(doc="Empty for all but the leader.")


class SyncGroupRequestAssignment(Struct):
    member_id: str = field()
    assignment: Bytes = field()


class SyncGroupResponse(Message, api_key=14, versions="0-5", flexible="4+"):
    """The member's assignment."""

    throttle_time_ms: Int32 = field("1+", ignorable=True)
    error_code: Int16 = field()
    protocol_type: str | None = field("5+", default=None, ignorable=True)
    protocol_name: str | None = field("5+", default=None, ignorable=True)
    assignment: Bytes = field()
