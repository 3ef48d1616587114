"""AlterClientQuotas (key 49): its request and its response."""

from __future__ import annotations

from ottla.wire.schema import Bool, Float64, Int16, Int32, Message, Struct, field


class AlterClientQuotasRequest(Message, api_key=49, versions="0-1", flexible="1+"):
    """Set or remove client quotas."""

    entries: list[AlterClientQuotasRequestEntryData] = field()
    validate_only: Bool = field()


class AlterClientQuotasRequestEntryData(Struct):
    entity: list[EntityData] = field()
    ops: list[OpData] = field()


class EntityData(Struct):
    entity_type: str = field()
    entity_name: str | None = field(doc="Null for the default entity.")


class OpData(Struct):
    key: str = field()
    value: Float64 = field()
    remove: Bool = field()


class AlterClientQuotasResponse(Message, api_key=49, versions="0-1", flexible="1+"):
    """Whether each quota was changed."""

    throttle_time_ms: Int32 = field()
    entries: list[AlterClientQuotasResponseEntryData] = field()


class AlterClientQuotasResponseEntryData(Struct):
    error_code: Int16 = field()
    error_message: str | None = field()
    entity: list[EntityData] = field()
