"""DescribeConfigs (key 32): its request and its response."""

from __future__ import annotations

from ottla.wire.schema import Bool, Int8, Int16, Int32, Message, Struct, field


class DescribeConfigsRequest(Message, api_key=32, versions="1-4", flexible="4+"):
    """Ask for the settings of topics, brokers, groups and other resources."""

    resources: list[DescribeConfigsResource] = field()
    include_synonyms: Bool = field("1+")
    include_documentation: Bool = field("3+")


class DescribeConfigsResource(Struct):
    resource_type: Int8 = field(doc="2 topic, 4 broker, 8 broker logger, 16 client metrics, 32 group.")
    resource_name: str = field()
    configuration_keys: list[str] | None = field(doc="Null asks for all.")


class DescribeConfigsResponse(Message, api_key=32, versions="1-4", flexible="4+"):
    """Each resource's settings, their sources and synonyms."""

    throttle_time_ms: Int32 = field()
    results: list[DescribeConfigsResult] = field()


class DescribeConfigsResult(Struct):
    error_code: Int16 = field()
    error_message: str | None = field()
    resource_type: Int8 = field()
    resource_name: str = field()
    configs: list[DescribeConfigsResourceResult] = field()


class DescribeConfigsResourceResult(Struct):
    name: str = field()
    value: str | None = field()
    read_only: Bool = field()
    config_source: Int8 = field(
        "1+",
        default=-1,
        ignorable=True,
        doc="1 topic, 2 broker, 3 all brokers, 4 static file, 5 default, 6 broker logger, 7 client metrics, 8 group.",
    )
    is_sensitive: Bool = field()
    synonyms: list[DescribeConfigsSynonym] = field("1+", ignorable=True)
    config_type: Int8 = field("3+", ignorable=True)
    documentation: str | None = field("3+", nullable="0+", ignorable=True)


class DescribeConfigsSynonym(Struct):
    name: str = field("1+")
    value: str | None = field("1+", nullable="0+")
    source: Int8 = field("1+", doc="As in `DescribeConfigsResourceResult.config_source`.")
