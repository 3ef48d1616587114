"""DeleteAcls (key 31): its request and its response."""

from __future__ import annotations

from ottla.wire.schema import Int8, Int16, Int32, Message, Struct, field


class DeleteAclsRequest(Message, api_key=31, versions="1-3", flexible="2+"):
    """Delete the access rules that match filters."""

    filters: list[DeleteAclsFilter] = field()


class DeleteAclsFilter(Struct):
    resource_type_filter: Int8 = field()
    resource_name_filter: str | None = field()
    pattern_type_filter: Int8 = field("1+", default=3)
    principal_filter: str | None = field()
    host_filter: str | None = field()
    operation: Int8 = field()
    permission_type: Int8 = field()


class DeleteAclsResponse(Message, api_key=31, versions="1-3", flexible="2+"):
    """The access rules that each filter deleted."""

    throttle_time_ms: Int32 = field()
    filter_results: list[DeleteAclsFilterResult] = field()


class DeleteAclsFilterResult(Struct):
    error_code: Int16 = field()
    error_message: str | None = field()
    matching_acls: list[DeleteAclsMatchingAcl] = field()


class DeleteAclsMatchingAcl(Struct):
    error_code: Int16 = field()
    error_message: str | None = field()
    resource_type: Int8 = field()
    resource_name: str = field()
    pattern_type: Int8 = field("1+", default=3)
    principal: str = field()
    host: str = field()
    operation: Int8 = field()
    permission_type: Int8 = field()
