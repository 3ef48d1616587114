"""ListGroups (key 16): its request and its response."""

from __future__ import annotations

from ottla.wire.schema import Int16, Int32, Message, Struct, field


class ListGroupsRequest(Message, api_key=16, versions="0-5", flexible="3+"):
    """List the groups that a broker coordinates."""

    states_filter: list[str] = field("4+")
    types_filter: list[str] = field("5+")


class ListGroupsResponse(Message, api_key=16, versions="0-5", flexible="3+"):
    """The groups, each with its type and state."""

    throttle_time_ms: Int32 = field("1+", ignorable=True)
    error_code: Int16 = field()
    groups: list[ListedGroup] = field()


class ListedGroup(Struct):
    group_id: str = field(entity="groupId")
    protocol_type: str = field()
    group_state: str = field("4+", ignorable=True)
    group_type: str = field("5+", ignorable=True)
