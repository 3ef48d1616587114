"""Registrations: what a broker or a controller told of itself, and what the controller has decided about it.

Promises: values; a record that was read and written again is the same. Called by the image and by the controller.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import NamedTuple, TypeVar

from ottla.metadata.directories import in_order, is_online
from ottla.metadata.levels import MetadataVersion, VersionRange
from ottla.types import Uuid
from ottla.wire.metadata import (
    BrokerRegistrationChangeRecord,
    RegisterBrokerRecord,
    RegisterControllerRecord,
    VersionedRecord,
)
from ottla.wire.metadata.brokers import BrokerEndpoint, BrokerFeature, ControllerEndpoint, ControllerFeature

FENCE, UNFENCE = 1, -1
IN_CONTROLLED_SHUTDOWN = 1


class Endpoint(NamedTuple):
    """Where a listener can be reached. `security_protocol` is Kafka's number: 0 PLAINTEXT, 1 SSL, 2 SASL_PLAINTEXT,
    3 SASL_SSL."""

    name: str
    host: str
    port: int
    security_protocol: int


@dataclass(frozen=True, slots=True)
class BrokerImage:
    """A registered broker. `epoch` is the offset of the registration, and a new start is a new incarnation."""

    id: int
    epoch: int
    incarnation_id: Uuid
    endpoints: Mapping[str, Endpoint] = field(default_factory=dict)
    features: Mapping[str, VersionRange] = field(default_factory=dict)
    rack: str | None = None
    is_fenced: bool = True
    is_shutting_down: bool = False
    log_dirs: tuple[Uuid, ...] = ()
    """The directories that work, sorted."""
    cordoned_log_dirs: tuple[Uuid, ...] | None = None
    """Directories closed for new replicas; None until the broker has told."""
    is_migrating_zk_broker: bool = False

    @classmethod
    def from_record(cls, record: RegisterBrokerRecord) -> BrokerImage:
        return cls(
            id=record.broker_id,
            epoch=record.broker_epoch,
            incarnation_id=record.incarnation_id,
            endpoints=_endpoints(record.end_points),
            features=_features(record.features),
            rack=record.rack,
            is_fenced=record.fenced,
            is_shutting_down=record.in_controlled_shutdown,
            log_dirs=in_order(record.log_dirs),
            cordoned_log_dirs=None if record.cordoned_log_dirs is None else in_order(record.cordoned_log_dirs),
            is_migrating_zk_broker=record.is_migrating_zk_broker,
        )

    def to_record(self, metadata_version: MetadataVersion) -> VersionedRecord:
        record = RegisterBrokerRecord(
            broker_id=self.id,
            incarnation_id=self.incarnation_id,
            broker_epoch=self.epoch,
            end_points=[BrokerEndpoint(*endpoint) for endpoint in self.endpoints.values()],
            features=[BrokerFeature(name, low, high) for name, (low, high) in self.features.items()],
            rack=self.rack,
            fenced=self.is_fenced,
            in_controlled_shutdown=self.is_shutting_down,
        )
        version = metadata_version.register_broker_record_version
        if version >= 2:
            record.is_migrating_zk_broker = self.is_migrating_zk_broker
        if metadata_version.has_directories:
            record.log_dirs = list(self.log_dirs)
        if metadata_version.has_cordoned_directories and self.cordoned_log_dirs is not None:
            record.cordoned_log_dirs = list(self.cordoned_log_dirs)
        return VersionedRecord(record, version)

    def changed_by(self, record: BrokerRegistrationChangeRecord) -> BrokerImage:
        """This broker after a change; what the record does not name stays."""
        assert record.fenced in (FENCE, 0, UNFENCE), f"{record}: an unknown change of fencing"
        assert record.in_controlled_shutdown in (0, IN_CONTROLLED_SHUTDOWN), f"{record}: an unknown change of shutdown"
        return replace(
            self,
            is_fenced=self.is_fenced if record.fenced == 0 else record.fenced == FENCE,
            is_shutting_down=self.is_shutting_down or record.in_controlled_shutdown == IN_CONTROLLED_SHUTDOWN,
            log_dirs=in_order(record.log_dirs) if record.log_dirs else self.log_dirs,
            cordoned_log_dirs=(
                self.cordoned_log_dirs if record.cordoned_log_dirs is None else in_order(record.cordoned_log_dirs)
            ),
        )

    @property
    def is_active(self) -> bool:
        """Whether it may lead partitions and count as in sync."""
        return not self.is_fenced and not self.is_shutting_down

    @property
    def has_uncordoned_dirs(self) -> bool:
        """Whether some directory takes new replicas."""
        if not self.log_dirs or self.cordoned_log_dirs is None:
            return True
        return any(directory not in self.cordoned_log_dirs for directory in self.log_dirs)

    def has_online_dir(self, directory: Uuid) -> bool:
        return is_online(directory, self.log_dirs)


@dataclass(frozen=True, slots=True)
class ControllerImage:
    """A registered controller."""

    id: int
    incarnation_id: Uuid
    endpoints: Mapping[str, Endpoint] = field(default_factory=dict)
    features: Mapping[str, VersionRange] = field(default_factory=dict)
    zk_migration_ready: bool = False

    @classmethod
    def from_record(cls, record: RegisterControllerRecord) -> ControllerImage:
        return cls(
            id=record.controller_id,
            incarnation_id=record.incarnation_id,
            endpoints=_endpoints(record.end_points),
            features=_features(record.features),
            zk_migration_ready=record.zk_migration_ready,
        )

    def to_record(self) -> VersionedRecord:
        record = RegisterControllerRecord(
            controller_id=self.id,
            incarnation_id=self.incarnation_id,
            zk_migration_ready=self.zk_migration_ready,
            end_points=[ControllerEndpoint(*endpoint) for endpoint in self.endpoints.values()],
            features=[ControllerFeature(name, low, high) for name, (low, high) in self.features.items()],
        )
        return VersionedRecord(record, 0)


WireEndpoint = TypeVar("WireEndpoint", BrokerEndpoint, ControllerEndpoint)
WireFeature = TypeVar("WireFeature", BrokerFeature, ControllerFeature)


def _endpoints(endpoints: list[WireEndpoint]) -> dict[str, Endpoint]:
    return {end.name: Endpoint(end.name, end.host, end.port, end.security_protocol) for end in endpoints}


def _features(features: list[WireFeature]) -> dict[str, VersionRange]:
    return {item.name: VersionRange(item.min_supported_version, item.max_supported_version) for item in features}
