"""ApiVersions (key 18): its request and its response."""

from __future__ import annotations

from ottla.wire.schema import Bool, Int16, Int32, Int64, Message, Struct, field


class ApiVersionsRequest(Message, api_key=18, versions="0-4", flexible="3+"):
    """Ask which APIs and versions the server speaks; a client's first request."""

    client_software_name: str = field("3+", ignorable=True)
    client_software_version: str = field("3+", ignorable=True)


class ApiVersionsResponse(Message, api_key=18, versions="0-4", flexible="3+"):
    """The APIs and versions that the server speaks, and the features of the cluster."""

    error_code: Int16 = field()
    api_keys: list[ApiVersion] = field()
    throttle_time_ms: Int32 = field("1+", ignorable=True)
    supported_features: list[SupportedFeatureKey] = field("3+", tag=0, ignorable=True)
    finalized_features_epoch: Int64 = field("3+", default=-1, tag=1, ignorable=True, doc="-1 where it is not known.")
    finalized_features: list[FinalizedFeatureKey] = field("3+", tag=2, ignorable=True)
    zk_migration_ready: Bool = field("3+", tag=3, ignorable=True, doc="Always false since ZooKeeper is gone.")


class ApiVersion(Struct):
    api_key: Int16 = field(map_key=True)
    min_version: Int16 = field()
    max_version: Int16 = field()


class SupportedFeatureKey(Struct):
    name: str = field("3+", map_key=True)
    min_version: Int16 = field("3+")
    max_version: Int16 = field("3+")


class FinalizedFeatureKey(Struct):
    name: str = field("3+", map_key=True)
    max_version_level: Int16 = field("3+")
    min_version_level: Int16 = field("3+")
