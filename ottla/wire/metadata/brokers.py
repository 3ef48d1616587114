"""Metadata records about brokers and controllers."""

from __future__ import annotations

from ottla.types import Uuid
from ottla.wire.schema import Bool, Int8, Int16, Int32, Int64, Message, Struct, Uint16, field


class RegisterBrokerRecord(Message, api_key=0, versions="0-4", flexible="0+"):
    """A broker has registered: its incarnation, endpoints, features and log directories."""

    broker_id: Int32 = field(entity="brokerId")
    is_migrating_zk_broker: Bool = field("2+")
    incarnation_id: Uuid = field()
    broker_epoch: Int64 = field()
    end_points: list[BrokerEndpoint] = field()
    features: list[BrokerFeature] = field()
    rack: str | None = field()
    fenced: Bool = field(default=True)
    in_controlled_shutdown: Bool = field("1+")
    log_dirs: list[Uuid] = field("3+", tag=0)
    cordoned_log_dirs: list[Uuid] | None = field("4+", default=None, tag=1)


class BrokerEndpoint(Struct):
    name: str = field(map_key=True)
    host: str = field()
    port: Uint16 = field()
    security_protocol: Int16 = field()


class BrokerFeature(Struct):
    name: str = field(map_key=True)
    min_supported_version: Int16 = field()
    max_supported_version: Int16 = field()


class UnregisterBrokerRecord(Message, api_key=1, versions="0", flexible="0+"):
    """A broker's registration is removed."""

    broker_id: Int32 = field(entity="brokerId")
    broker_epoch: Int64 = field()


class FenceBrokerRecord(Message, api_key=7, versions="0", flexible="0+"):
    """A broker is fenced."""

    id: Int32 = field(entity="brokerId")
    epoch: Int64 = field()


class UnfenceBrokerRecord(Message, api_key=8, versions="0", flexible="0+"):
    """A broker is no longer fenced."""

    id: Int32 = field(entity="brokerId")
    epoch: Int64 = field()


class BrokerRegistrationChangeRecord(Message, api_key=17, versions="0-3", flexible="0+"):
    """A broker's fencing, controlled shutdown or log directories have changed."""

    broker_id: Int32 = field(entity="brokerId")
    broker_epoch: Int64 = field()
    fenced: Int8 = field(tag=0, doc="-1 unfence, 0 no change, 1 fence.")
    in_controlled_shutdown: Int8 = field("1+", tag=1, doc="0 no change, 1 in controlled shutdown.")
    log_dirs: list[Uuid] = field("2+", tag=2)
    cordoned_log_dirs: list[Uuid] | None = field("3+", default=None, tag=3)


class RegisterControllerRecord(Message, api_key=27, versions="0", flexible="0+"):
    """A controller has registered: its incarnation, endpoints and features."""

    controller_id: Int32 = field()
    incarnation_id: Uuid = field()
    zk_migration_ready: Bool = field()
    end_points: list[ControllerEndpoint] = field()
    features: list[ControllerFeature] = field()


class ControllerEndpoint(Struct):
    name: str = field(map_key=True)
    host: str = field()
    port: Uint16 = field()
    security_protocol: Int16 = field()


class ControllerFeature(Struct):
    name: str = field(map_key=True)
    min_supported_version: Int16 = field()
    max_supported_version: Int16 = field()
