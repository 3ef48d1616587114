"""DescribeGroups (key 15): its request and its response."""

from __future__ import annotations

from ottla.wire.schema import Bool, Bytes, Int16, Int32, Message, Struct, field


class DescribeGroupsRequest(Message, api_key=15, versions="0-6", flexible="5+"):
    """Ask for the state and the members of classic groups."""

    groups: list[str] = field(entity="groupId")
    include_authorized_operations: Bool = field("3+")


class DescribeGroupsResponse(Message, api_key=15, versions="0-6", flexible="5+"):
    """The state, protocol and members of each group."""

    throttle_time_ms: Int32 = field("1+", ignorable=True)
    groups: list[DescribedGroup] = field()


class DescribedGroup(Struct):
    error_code: Int16 = field()
    error_message: str | None = field("6+", default=None)
    group_id: str = field(entity="groupId")
    group_state: str = field()
    protocol_type: str = field()
    protocol_data: str = field()
    members: list[DescribedGroupMember] = field()
    authorized_operations: Int32 = field("3+", default=-0x8000_0000)


class DescribedGroupMember(Struct):
    member_id: str = field()
    group_instance_id: str | None = field("4+", default=None, ignorable=True)
    client_id: str = field()
    client_host: str = field()
    member_metadata: Bytes = field()
    member_assignment: Bytes = field()
