"""IncrementalAlterConfigs (key 44): its request and its response."""

from __future__ import annotations

from ottla.wire.schema import Bool, Int8, Int16, Int32, Message, Struct, field


class IncrementalAlterConfigsRequest(Message, api_key=44, versions="0-1", flexible="1+"):
    """Set, delete, append to or subtract from single settings."""

    resources: list[AlterConfigsResource] = field()
    validate_only: Bool = field()


class AlterConfigsResource(Struct):
    resource_type: Int8 = field(map_key=True)
    resource_name: str = field(map_key=True)
    configs: list[AlterableConfig] = field()


class AlterableConfig(Struct):
    name: str = field(map_key=True)
    config_operation: Int8 = field(map_key=True, doc="0 set, 1 delete, 2 append, 3 subtract.")
    value: str | None = field()


class IncrementalAlterConfigsResponse(Message, api_key=44, versions="0-1", flexible="1+"):
    """Whether each resource's settings were changed."""

    throttle_time_ms: Int32 = field()
    responses: list[AlterConfigsResourceResponse] = field()


class AlterConfigsResourceResponse(Struct):
    error_code: Int16 = field()
    error_message: str | None = field()
    resource_type: Int8 = field()
    resource_name: str = field()
