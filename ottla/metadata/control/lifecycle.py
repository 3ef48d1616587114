"""A broker's life: registration, heartbeats, fencing, controlled shutdown, unregistration.

Promises: two processes with one broker id are told apart by their incarnation ids, and the second waits until the
first one's session has ended, or the first one's host says that it is gone. A broker serves only after it has replayed
its own registration, and stops only after its leaderships have moved and the others know. Called for
BrokerRegistration, BrokerHeartbeat, UnregisterBroker and ControllerRegistration, and by the controller's clock.
"""

from __future__ import annotations

from enum import Enum
from typing import NamedTuple

from ottla.errors import (
    BrokerIdNotRegistered,
    DuplicateBrokerRegistration,
    InconsistentClusterId,
    InvalidRegistration,
    StaleBrokerEpoch,
    UnsupportedVersion,
)
from ottla.machine import Result
from ottla.metadata.control.brokers import BrokerControl
from ottla.metadata.control.elections import Elections
from ottla.metadata.control.features import FeatureControl
from ottla.metadata.control.heartbeats import Heartbeats, Session, Suspect
from ottla.metadata.directories import is_reserved
from ottla.metadata.levels import KRAFT_VERSION, METADATA_VERSION, VersionRange
from ottla.metadata.registration import FENCE, IN_CONTROLLED_SHUTDOWN, UNFENCE, BrokerImage
from ottla.types import Uuid
from ottla.wire.messages.broker_heartbeat import BrokerHeartbeatRequest
from ottla.wire.messages.broker_registration import BrokerRegistrationRequest
from ottla.wire.messages.controller_registration import ControllerRegistrationRequest
from ottla.wire.metadata import (
    BrokerRegistrationChangeRecord,
    RegisterBrokerRecord,
    RegisterControllerRecord,
    UnregisterBrokerRecord,
    VersionedRecord,
)
from ottla.wire.metadata.brokers import BrokerEndpoint, BrokerFeature, ControllerEndpoint, ControllerFeature

# A stored epoch is never negative, and a broker that does not know its last one says -1.
_NO_STORED_EPOCH = -2


class BrokerState(Enum):
    """Where a broker stands between its registration and its end."""

    FENCED = "registered, and not serving"
    UNFENCED = "serving"
    CONTROLLED_SHUTDOWN = "giving up its leaderships before it stops"
    SHUTDOWN_NOW = "may stop"


class HeartbeatReply(NamedTuple):
    is_caught_up: bool
    is_fenced: bool
    is_shutting_down: bool
    should_shut_down: bool


class Lifecycle:
    """Decisions about brokers."""

    def __init__(
        self, brokers: BrokerControl, elections: Elections, features: FeatureControl, *, cluster_id: str
    ) -> None:
        self._brokers = brokers
        self._elections = elections
        self._features = features
        self._cluster_id = cluster_id

    @property
    def _heartbeats(self) -> Heartbeats:
        assert self._brokers.heartbeats is not None, "only the active controller hears brokers"
        return self._brokers.heartbeats

    # Registration

    def register_broker(
        self, request: BrokerRegistrationRequest, *, version: int, next_offset: int, kraft_version: int
    ) -> Result[int]:
        """The broker's epoch. A new incarnation gets `next_offset`, which no registration has had; a known one keeps
        its epoch and only changes what it tells of itself."""
        if request.cluster_id != self._cluster_id:
            raise InconsistentClusterId(
                f"Expected cluster ID {self._cluster_id}, but got cluster ID {request.cluster_id}"
            )
        existing = self._brokers.brokers.get(request.broker_id)
        is_new = existing is None or existing.incarnation_id != request.incarnation_id
        if is_new and existing is not None and self._heartbeats.has_session(existing.id, existing.epoch):
            raise DuplicateBrokerRegistration(
                "Another broker is registered with that broker id. If the broker was recently restarted this should "
                "self-resolve once the heartbeat manager expires the broker's session."
            )
        if request.is_migrating_zk_broker:
            raise BrokerIdNotRegistered("Controller does not support registering ZK brokers.")
        self._check_directories(request)
        record = RegisterBrokerRecord(
            broker_id=request.broker_id,
            incarnation_id=request.incarnation_id,
            rack=request.rack,
            end_points=[
                BrokerEndpoint(end.name, end.host, end.port, end.security_protocol) for end in request.listeners
            ],
            features=self._check_features(request, kraft_version),
        )
        if self._features.metadata_version.has_directories:
            record.log_dirs = list(request.log_dirs)
        records: list[VersionedRecord] = []
        if is_new:
            stored_epoch = _NO_STORED_EPOCH if existing is None else existing.epoch
            is_clean = version >= 3 and request.previous_broker_epoch == stored_epoch
            records += self._after_shutdown(request.broker_id, is_clean=is_clean)
            record.broker_epoch = next_offset
        else:
            assert existing is not None
            record.fenced = existing.is_fenced
            record.in_controlled_shutdown = existing.is_shutting_down
            record.broker_epoch = existing.epoch
        # Last: a broker whose registration was cut off registers again, and what is left is done then.
        records.append(VersionedRecord(record, self._features.metadata_version.register_broker_record_version))
        heartbeats, key = self._heartbeats, (record.broker_id, record.broker_epoch)
        return Result(
            record.broker_epoch, records, is_atomic=False, on_appended=lambda _: heartbeats.forget_progress(*key)
        )

    def _after_shutdown(self, broker_id: int, *, is_clean: bool) -> list[VersionedRecord]:
        """What the end of its last incarnation means for partitions, in case nobody noticed it."""
        if self._features.has_elr and not is_clean:
            return self._elections.without_unclean_broker(broker_id)
        return self._elections.without_broker(broker_id)

    def _check_directories(self, request: BrokerRegistrationRequest) -> None:
        if not self._features.metadata_version.has_directories:
            return
        if not request.log_dirs:
            raise InvalidRegistration("No directories specified in request")
        if any(is_reserved(directory) for directory in request.log_dirs):
            raise InvalidRegistration("Reserved directory ID in request")
        if len(set(request.log_dirs)) != len(request.log_dirs):
            raise InvalidRegistration("Duplicate directory ID in request")
        for directory in request.log_dirs:
            owner = self._brokers.owner_of.get(directory, request.broker_id)
            if owner != request.broker_id:
                raise InvalidRegistration(f"Broker {owner} is already registered with directory {directory}")

    def _check_features(self, request: BrokerRegistrationRequest, kraft_version: int) -> list[BrokerFeature]:
        finalized = {**self._features.finalized, KRAFT_VERSION: kraft_version}
        named = []
        for feature in request.features:
            supported = VersionRange(feature.min_supported_version, feature.max_supported_version)
            _check_feature(feature.name, finalized.pop(feature.name, 0), supported)
            named.append(BrokerFeature(feature.name, supported.min, supported.max))
        if METADATA_VERSION in finalized:
            raise InvalidRegistration(f"Request features do not contain '{METADATA_VERSION}'")
        for name, level in finalized.items():
            _check_feature(name, level, VersionRange(0, 0))
        return named

    def register_controller(self, request: ControllerRegistrationRequest) -> Result[None]:
        if not self._features.metadata_version.has_controller_registrations:
            raise UnsupportedVersion("The current MetadataVersion is too old to support controller registrations.")
        record = RegisterControllerRecord(
            controller_id=request.controller_id,
            incarnation_id=request.incarnation_id,
            zk_migration_ready=False,
            end_points=[
                ControllerEndpoint(end.name, end.host, end.port, end.security_protocol) for end in request.listeners
            ],
            features=[
                ControllerFeature(feature.name, feature.min_supported_version, feature.max_supported_version)
                for feature in request.features
            ],
        )
        return Result(None, [VersionedRecord(record, 0)])

    def unregister_broker(self, broker_id: int) -> Result[None]:
        broker = self._brokers.brokers.get(broker_id)
        if broker is None:
            raise BrokerIdNotRegistered(f"Broker ID {broker_id} is not currently registered")
        records = self._elections.without_registration(broker_id)
        gone = UnregisterBrokerRecord(broker_id=broker_id, broker_epoch=broker.epoch)
        return Result(None, [*records, VersionedRecord(gone, 0)], is_atomic=False)

    # Heartbeats

    def heartbeat(self, request: BrokerHeartbeatRequest) -> Result[HeartbeatReply]:
        register_offset = self._brokers.register_offsets.get(request.broker_id)
        if register_offset is None:
            raise StaleBrokerEpoch(f"Receive a heartbeat from broker {request.broker_id} before registration")
        broker = self._brokers.check_epoch(request.broker_id, request.broker_epoch)
        session = self._heartbeats.contact(broker.id, broker.epoch)
        before = _state(broker, session)
        after = self._next_state(broker, session, request, register_offset)
        records: list[VersionedRecord] = []
        if before is not after:
            records += self._records_for(broker, after)
        version = self._features.metadata_version
        if version.has_directories:
            records += self._offline(broker, request.offline_log_dirs)
        if version.has_cordoned_directories and request.cordoned_log_dirs is not None:
            records += self._cordoned(broker, request.cordoned_log_dirs)
        reply = HeartbeatReply(
            is_caught_up=request.current_metadata_offset >= register_offset,
            is_fenced=after in (BrokerState.FENCED, BrokerState.SHUTDOWN_NOW),
            is_shutting_down=after is BrokerState.CONTROLLED_SHUTDOWN,
            should_shut_down=after is BrokerState.SHUTDOWN_NOW,
        )

        change_offset = self._brokers.change_offsets[broker.id]

        def on_appended(last_offset: int) -> None:
            # Of a broker whose registration has just changed nothing is known, as in Kafka, until it is heard again.
            has_changed = self._brokers.change_offsets[broker.id] != change_offset
            session.metadata_offset = -1 if has_changed else request.current_metadata_offset
            if reply.is_fenced:
                session.shutdown_offset = -1
            elif reply.is_shutting_down and session.shutdown_offset < 0:
                # The end of this decision's records: the others must have come that far before the broker may stop.
                session.shutdown_offset = last_offset

        return Result(
            reply,
            records,
            is_atomic=False,
            rests_on=change_offset,
            on_appended=on_appended,
        )

    def _next_state(
        self, broker: BrokerImage, session: Session, request: BrokerHeartbeatRequest, register_offset: int
    ) -> BrokerState:
        has_leaderships = self._elections.has_leaderships(broker.id)
        match _state(broker, session):
            case BrokerState.FENCED:
                if request.want_shut_down:
                    return BrokerState.SHUTDOWN_NOW
                has_caught_up = request.current_metadata_offset >= register_offset
                return BrokerState.UNFENCED if has_caught_up and not request.want_fence else BrokerState.FENCED
            case BrokerState.UNFENCED:
                if request.want_fence:
                    return BrokerState.SHUTDOWN_NOW if request.want_shut_down else BrokerState.FENCED
                if request.want_shut_down:
                    # One that the last controller saw shutting down goes on with that: the others may not have heard.
                    is_controlled = has_leaderships or broker.is_shutting_down
                    return BrokerState.CONTROLLED_SHUTDOWN if is_controlled else BrokerState.SHUTDOWN_NOW
                return BrokerState.UNFENCED
            case BrokerState.CONTROLLED_SHUTDOWN:
                # The others must have heard who leads now, or they would go on asking this broker.
                if has_leaderships or session.shutdown_offset > self._lowest_active_offset():
                    return BrokerState.CONTROLLED_SHUTDOWN
        return BrokerState.SHUTDOWN_NOW

    def _lowest_active_offset(self) -> float:
        """How far all brokers have replayed that serve and do not give up themselves; infinite when there are none."""
        lowest = float("inf")
        for broker in self._brokers.brokers.values():
            session = self._heartbeats.find(broker.id, broker.epoch)
            if not broker.is_fenced and (session is None or session.shutdown_offset < 0):
                lowest = min(lowest, -1 if session is None else session.metadata_offset)
        return lowest

    def _records_for(self, broker: BrokerImage, state: BrokerState) -> list[VersionedRecord]:
        match state:
            case BrokerState.FENCED | BrokerState.SHUTDOWN_NOW:
                return self._fenced(broker)
            case BrokerState.UNFENCED:
                return [_change(broker, 0, fenced=UNFENCE), *self._elections.with_broker(broker.id)]
            case BrokerState.CONTROLLED_SHUTDOWN:
                records = self._elections.without_broker(broker.id)
                if not broker.is_shutting_down:
                    records.insert(0, _change(broker, 1, in_controlled_shutdown=IN_CONTROLLED_SHUTDOWN))
                return records

    def _fenced(self, broker: BrokerImage) -> list[VersionedRecord]:
        return [*self._elections.without_broker(broker.id), _change(broker, 0, fenced=FENCE)]

    def _offline(self, broker: BrokerImage, offline: list[Uuid]) -> list[VersionedRecord]:
        failed = [directory for directory in broker.log_dirs if directory in offline]
        if not failed:
            return []
        records: list[VersionedRecord] = []
        for directory in failed:
            records += self._elections.without_directory(broker.id, directory)
        left = [directory for directory in broker.log_dirs if directory not in offline]
        return [*records, _change(broker, 2, log_dirs=left)]

    def _cordoned(self, broker: BrokerImage, cordoned: list[Uuid]) -> list[VersionedRecord]:
        if broker.cordoned_log_dirs is not None and set(broker.cordoned_log_dirs) == set(cordoned):
            return []
        return [_change(broker, 3, cordoned_log_dirs=list(cordoned))]

    def fence_one_stale(self) -> Result[bool]:
        """Fence a broker whose session has expired; True when one had, and another may have."""
        heartbeats = self._heartbeats
        for broker_id, epoch in heartbeats.expired():
            broker = self._brokers.brokers.get(broker_id)
            if broker is None or broker.epoch != epoch or broker.is_fenced:
                heartbeats.forget(broker_id, epoch)
                continue
            # One at a time: the next sees what became of the partitions that they shared.
            return self._fence_gone(broker)
        return Result(False)

    def fence_refused(self, suspect: Suspect) -> Result[bool]:
        """The host of a broker says that nobody listens where the broker did: fence it as if its session had expired,
        unless it has been heard of since it was asked about; whether it was fenced.

        A broker that lives after all is unfenced by its next heartbeat, so that a wrong answer costs leaderships and no
        records: that is what an expired session can do, too.
        """
        broker = self._brokers.brokers.get(suspect.broker_id)
        if broker is None or broker.epoch != suspect.epoch or broker.is_fenced:
            return Result(False)
        if not self._heartbeats.is_suspect(suspect):
            return Result(False)
        return self._fence_gone(broker)

    def _fence_gone(self, broker: BrokerImage) -> Result[bool]:
        heartbeats = self._heartbeats

        def on_appended(_: int) -> None:
            # Not before: a broker that could not be fenced is found to be gone again.
            heartbeats.forget(broker.id, broker.epoch)

        some = self._elections.partly_without_broker(broker.id)
        if some:
            # It stays expired, and the next round comes as soon as these are committed.
            return Result(True, some, is_atomic=False)
        return Result(True, self._fenced(broker), is_atomic=False, on_appended=on_appended)


def _state(broker: BrokerImage, session: Session) -> BrokerState:
    if broker.is_fenced:
        return BrokerState.FENCED
    return BrokerState.UNFENCED if session.shutdown_offset < 0 else BrokerState.CONTROLLED_SHUTDOWN


def _check_feature(name: str, finalized: int, supported: VersionRange) -> None:
    if not supported.includes(finalized):
        raise UnsupportedVersion(
            f"Unable to register because the broker does not support finalized version {finalized} of {name}. "
            f"The broker wants a version between {supported.min} and {supported.max}, inclusive."
        )


def _change(
    broker: BrokerImage,
    version: int,
    *,
    fenced: int = 0,
    in_controlled_shutdown: int = 0,
    log_dirs: list[Uuid] | None = None,
    cordoned_log_dirs: list[Uuid] | None = None,
) -> VersionedRecord:
    record = BrokerRegistrationChangeRecord(
        broker_id=broker.id,
        broker_epoch=broker.epoch,
        fenced=fenced,
        in_controlled_shutdown=in_controlled_shutdown,
        log_dirs=log_dirs or [],
        cordoned_log_dirs=cordoned_log_dirs,
    )
    return VersionedRecord(record, version)
