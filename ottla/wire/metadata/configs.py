"""Metadata records about settings and quotas."""

from __future__ import annotations

from ottla.wire.schema import Bool, Float64, Int8, Message, Struct, field


class ConfigRecord(Message, api_key=4, versions="0", flexible="0+"):
    """A setting of a resource has a new value, or none."""

    resource_type: Int8 = field()
    resource_name: str = field()
    name: str = field()
    value: str | None = field(doc="Null where the setting is back at its default.")


class ClientQuotaRecord(Message, api_key=14, versions="0", flexible="0+"):
    """A client quota is set or removed."""

    entity: list[EntityData] = field()
    key: str = field()
    value: Float64 = field()
    remove: Bool = field(doc="Otherwise set.")


class EntityData(Struct):
    entity_type: str = field()
    entity_name: str | None = field(doc="Null for the default entity.")
