"""DescribeClientQuotas (key 48): its request and its response."""

from __future__ import annotations

from ottla.wire.schema import Bool, Float64, Int8, Int16, Int32, Message, Struct, field


class DescribeClientQuotasRequest(Message, api_key=48, versions="0-1", flexible="1+"):
    """Find client quotas by user, client id or address."""

    components: list[ComponentData] = field()
    strict: Bool = field()


class ComponentData(Struct):
    entity_type: str = field()
    match_type: Int8 = field(doc="0 that name, 1 the default entity, 2 any name.")
    match: str | None = field()


class DescribeClientQuotasResponse(Message, api_key=48, versions="0-1", flexible="1+"):
    """The quotas found."""

    throttle_time_ms: Int32 = field()
    error_code: Int16 = field()
    error_message: str | None = field()
    entries: list[EntryData] | None = field()


class EntryData(Struct):
    entity: list[EntityData] = field()
    values: list[ValueData] = field()


class EntityData(Struct):
    entity_type: str = field()
    entity_name: str | None = field(doc="Null for the default entity.")


class ValueData(Struct):
    key: str = field()
    value: Float64 = field()
