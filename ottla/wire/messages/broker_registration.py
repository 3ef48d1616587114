"""BrokerRegistration (key 62): its request and its response."""

from __future__ import annotations

from ottla.types import Uuid
from ottla.wire.schema import Bool, Int16, Int32, Int64, Message, Struct, Uint16, field


class BrokerRegistrationRequest(Message, api_key=62, versions="0-4", flexible="0+"):
    """Register a starting broker with the controller."""

    broker_id: Int32 = field(entity="brokerId")
    cluster_id: str = field()
    incarnation_id: Uuid = field()
    listeners: list[Listener] = field()
    features: list[Feature] = field()
    rack: str | None = field()
    is_migrating_zk_broker: Bool = field("1+")
    log_dirs: list[Uuid] = field("2+", ignorable=True)
    previous_broker_epoch: Int64 = field("3+", default=-1, ignorable=True)


class Listener(Struct):
    name: str = field(map_key=True)
    host: str = field()
    port: Uint16 = field()
    security_protocol: Int16 = field()


class Feature(Struct):
    name: str = field(map_key=True)
    min_supported_version: Int16 = field()
    max_supported_version: Int16 = field()


class BrokerRegistrationResponse(Message, api_key=62, versions="0-4", flexible="0+"):
    """The broker epoch of the new registration."""

    throttle_time_ms: Int32 = field()
    error_code: Int16 = field()
    broker_epoch: Int64 = field(default=-1)
