"""UpdateFeatures (key 57): its request and its response."""

from __future__ import annotations

from ottla.wire.schema import Bool, Int8, Int16, Int32, Message, Struct, field


class UpdateFeaturesRequest(Message, api_key=57, versions="0-2", flexible="0+"):
    """Raise or lower the finalized feature levels of the cluster."""

    timeout_ms: Int32 = field(default=60000)
    feature_updates: list[FeatureUpdateKey] = field()
    validate_only: Bool = field("1+")


class FeatureUpdateKey(Struct):
    feature: str = field(map_key=True)
    max_version_level: Int16 = field()
    allow_downgrade: Bool = field("0")
    upgrade_type: Int8 = field("1+", default=1, doc="1 upgrade, 2 safe downgrade, 3 downgrade that may lose data.")


class UpdateFeaturesResponse(Message, api_key=57, versions="0-2", flexible="0+"):
    """Whether the features were changed."""

    throttle_time_ms: Int32 = field()
    error_code: Int16 = field()
    error_message: str | None = field()
    results: list[UpdatableFeatureResult] = field("0-1", ignorable=True)


class UpdatableFeatureResult(Struct):
    feature: str = field(map_key=True)
    error_code: Int16 = field()
    error_message: str | None = field()
