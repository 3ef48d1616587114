"""LeaveGroup (key 13): its request and its response."""

from __future__ import annotations

from ottla.wire.schema import Int16, Int32, Message, Struct, field


class LeaveGroupRequest(Message, api_key=13, versions="0-5", flexible="4+"):
    """Take members out of a classic group."""

    group_id: str = field(entity="groupId")
    member_id: str = field("0-2")
    members: list[MemberIdentity] = field("3+")


class MemberIdentity(Struct):
    member_id: str = field("3+")
    group_instance_id: str | None = field("3+", default=None)
    reason: str | None = field("5+", default=None, ignorable=True)


class LeaveGroupResponse(Message, api_key=13, versions="0-5", flexible="4+"):
    """Whether each member has left."""

    throttle_time_ms: Int32 = field("1+", ignorable=True)
    error_code: Int16 = field()
    members: list[MemberResponse] = field("3+")


class MemberResponse(Struct):
    member_id: str = field("3+")
    group_instance_id: str | None = field("3+")
    error_code: Int16 = field("3+")
