"""AlterConfigs (key 33): its request and its response."""

from __future__ import annotations

from ottla.wire.schema import Bool, Int8, Int16, Int32, Message, Struct, field


class AlterConfigsRequest(Message, api_key=33, versions="0-2", flexible="2+"):
    """Replace all settings of resources at once; superseded by IncrementalAlterConfigs."""

    resources: list[AlterConfigsResource] = field()
    validate_only: Bool = field()


class AlterConfigsResource(Struct):
    resource_type: Int8 = field(map_key=True)
    resource_name: str = field(map_key=True)
    configs: list[AlterableConfig] = field()


class AlterableConfig(Struct):
    name: str = field(map_key=True)
    value: str | None = field()


class AlterConfigsResponse(Message, api_key=33, versions="0-2", flexible="2+"):
    """Whether each resource's settings were replaced."""

    throttle_time_ms: Int32 = field()
    responses: list[AlterConfigsResourceResponse] = field()


class AlterConfigsResourceResponse(Struct):
    error_code: Int16 = field()
    error_message: str | None = field()
    resource_type: Int8 = field()
    resource_name: str = field()
