"""JoinGroup (key 11): its request and its response."""

from __future__ import annotations

from ottla.wire.schema import Bool, Bytes, Int16, Int32, Message, Struct, field


class JoinGroupRequest(Message, api_key=11, versions="0-9", flexible="6+"):
    """Join a classic group, and start or take part in a rebalance."""

    group_id: str = field(entity="groupId")
    session_timeout_ms: Int32 = field()
    rebalance_timeout_ms: Int32 = field("1+", default=-1, ignorable=True)
    member_id: str = field(doc="Empty for a new member.")
    group_instance_id: str | None = field(
        "5+", default=None, doc="Set by a static member, which keeps its place over a restart."
    )
    protocol_type: str = field()
    protocols: list[JoinGroupRequestProtocol] = field(
        doc="The assignment strategies of the member, best first, each with its subscription."
    )
    reason: str | None = field("8+", default=None, ignorable=True)


class JoinGroupRequestProtocol(Struct):
    name: str = field(map_key=True)
    metadata: Bytes = field()


class JoinGroupResponse(Message, api_key=11, versions="0-9", flexible="6+"):
    """The new generation; its leader also receives all members and assigns partitions to them."""

    throttle_time_ms: Int32 = field("2+", ignorable=True)
    error_code: Int16 = field()
    generation_id: Int32 = field(default=-1)
    protocol_type: str | None = field("7+", default=None, ignorable=True)
    protocol_name: str | None = field(nullable="7+")
    leader: str = field()
    skip_assignment: Bool = field("9+", doc="The leader need not assign: the group's assignment stays as it was.")
    member_id: str = field()
    members: list[JoinGroupResponseMember] = field(doc="Empty for all but the leader.")


class JoinGroupResponseMember(Struct):
    member_id: str = field()
    group_instance_id: str | None = field("5+", default=None, ignorable=True)
    metadata: Bytes = field()
