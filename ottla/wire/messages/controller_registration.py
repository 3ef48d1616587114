"""ControllerRegistration (key 70): its request and its response."""

from __future__ import annotations

from ottla.types import Uuid
from ottla.wire.schema import Bool, Int16, Int32, Message, Struct, Uint16, field


class ControllerRegistrationRequest(Message, api_key=70, versions="0", flexible="0+"):
    """Register a controller's endpoints and features with the active controller."""

    controller_id: Int32 = field()
    incarnation_id: Uuid = field()
    zk_migration_ready: Bool = field()
    listeners: list[Listener] = field()
    features: list[Feature] = field()


class Listener(Struct):
    name: str = field(map_key=True)
    host: str = field()
    port: Uint16 = field()
    security_protocol: Int16 = field()


class Feature(Struct):
    name: str = field(map_key=True)
    min_supported_version: Int16 = field()
    max_supported_version: Int16 = field()


class ControllerRegistrationResponse(Message, api_key=70, versions="0", flexible="0+"):
    """Whether the registration was accepted."""

    throttle_time_ms: Int32 = field()
    error_code: Int16 = field()
    error_message: str | None = field()
