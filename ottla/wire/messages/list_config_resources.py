"""ListConfigResources (key 74): its request and its response."""

from __future__ import annotations

from ottla.wire.schema import Int8, Int16, Int32, Message, Struct, field


class ListConfigResourcesRequest(Message, api_key=74, versions="0-1", flexible="0+"):
    """List the resources that have settings, such as groups and client metrics subscriptions."""

    resource_types: list[Int8] = field("1+")


class ListConfigResourcesResponse(Message, api_key=74, versions="0-1", flexible="0+"):
    """The names and types of the resources."""

    throttle_time_ms: Int32 = field()
    error_code: Int16 = field()
    config_resources: list[ConfigResource] = field()


class ConfigResource(Struct):
    resource_name: str = field()
    resource_type: Int8 = field("1+", default=16, ignorable=True)
