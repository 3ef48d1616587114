"""DeleteGroups (key 42): its request and its response."""

from __future__ import annotations

from ottla.wire.schema import Int16, Int32, Message, Struct, field


class DeleteGroupsRequest(Message, api_key=42, versions="0-2", flexible="2+"):
    """Delete empty groups and their offsets."""

    groups_names: list[str] = field(entity="groupId")


class DeleteGroupsResponse(Message, api_key=42, versions="0-2", flexible="2+"):
    """Whether each group was deleted."""

    throttle_time_ms: Int32 = field()
    results: list[DeletableGroupResult] = field()


class DeletableGroupResult(Struct):
    group_id: str = field(map_key=True, entity="groupId")
    error_code: Int16 = field()
