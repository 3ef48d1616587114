"""DescribeAcls (key 29): its request and its response."""

from __future__ import annotations

from ottla.wire.schema import Int8, Int16, Int32, Message, Struct, field


class DescribeAclsRequest(Message, api_key=29, versions="1-3", flexible="2+"):
    """Find the access rules that match a filter."""

    resource_type_filter: Int8 = field(doc="As in `AclCreation.resource_type`; 1 matches any.")
    resource_name_filter: str | None = field()
    pattern_type_filter: Int8 = field(
        "1+", default=3, doc="1 any, 2 whatever would apply to the name, 3 literal, 4 prefixed."
    )
    principal_filter: str | None = field()
    host_filter: str | None = field()
    operation: Int8 = field()
    permission_type: Int8 = field()


class DescribeAclsResponse(Message, api_key=29, versions="1-3", flexible="2+"):
    """The access rules found, by resource."""

    throttle_time_ms: Int32 = field()
    error_code: Int16 = field()
    error_message: str | None = field()
    resources: list[DescribeAclsResource] = field()


class DescribeAclsResource(Struct):
    resource_type: Int8 = field()
    resource_name: str = field()
    pattern_type: Int8 = field("1+", default=3)
    acls: list[AclDescription] = field()


class AclDescription(Struct):
    principal: str = field()
    host: str = field()
    operation: Int8 = field()
    permission_type: Int8 = field()
