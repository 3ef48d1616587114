"""The registered brokers and controllers, as the controller decides with them.

Promises: a log directory belongs to one broker. Called by the other controls, which ask who is alive and where a
replica may stand; registration itself is decided in `lifecycle`.
"""

from __future__ import annotations

from collections.abc import Iterator

from ottla.errors import StaleBrokerEpoch
from ottla.machine import UndoDict, UndoLog
from ottla.metadata.builder import ReplayError
from ottla.metadata.control.heartbeats import Heartbeats
from ottla.metadata.control.placement import UsableBroker
from ottla.metadata.directories import MIGRATING, UNASSIGNED
from ottla.metadata.registration import FENCE, UNFENCE, BrokerImage, ControllerImage
from ottla.types import Uuid
from ottla.wire.metadata import (
    BrokerRegistrationChangeRecord,
    FenceBrokerRecord,
    RegisterBrokerRecord,
    RegisterControllerRecord,
    UnfenceBrokerRecord,
    UnregisterBrokerRecord,
)


class BrokerControl:
    """Registrations by id."""

    def __init__(self, undo: UndoLog) -> None:
        self.brokers: UndoDict[int, BrokerImage] = UndoDict(undo)
        self.controllers: UndoDict[int, ControllerImage] = UndoDict(undo)
        self.register_offsets: UndoDict[int, int] = UndoDict(undo)
        """The offset of each broker's registration; a broker that has replayed it knows all that concerns it."""
        self.change_offsets: UndoDict[int, int] = UndoDict(undo)
        """The offset of the last record that changed each broker's registration: what a heartbeat's answer rests on."""
        self.owner_of: UndoDict[Uuid, int] = UndoDict(undo)
        """The broker that has a log directory."""
        self.heartbeats: Heartbeats | None = None
        """Only the active controller has them."""

    # Replay

    def replay_register(self, record: RegisterBrokerRecord, offset: int) -> None:
        old = self.brokers.get(record.broker_id)
        new = BrokerImage.from_record(record)
        self.register_offsets[new.id] = self.change_offsets[new.id] = offset
        self.brokers[new.id] = new
        self._move_directories(new.id, () if old is None else old.log_dirs, new.log_dirs)

    def replay_unregister(self, record: UnregisterBrokerRecord) -> None:
        broker = self._registered(record.broker_id, record.broker_epoch)
        self.register_offsets.pop(broker.id, None)
        self.change_offsets.pop(broker.id, None)
        del self.brokers[broker.id]
        self._move_directories(broker.id, broker.log_dirs, ())

    def replay_change(self, record: BrokerRegistrationChangeRecord, offset: int) -> None:
        old = self._registered(record.broker_id, record.broker_epoch)
        new = old.changed_by(record)
        self.brokers[new.id] = new
        self.change_offsets[new.id] = offset
        self._move_directories(new.id, old.log_dirs, new.log_dirs)

    def replay_fence(self, record: FenceBrokerRecord, offset: int) -> None:
        self.replay_change(BrokerRegistrationChangeRecord(record.id, record.epoch, fenced=FENCE), offset)

    def replay_unfence(self, record: UnfenceBrokerRecord, offset: int) -> None:
        self.replay_change(BrokerRegistrationChangeRecord(record.id, record.epoch, fenced=UNFENCE), offset)

    def replay_controller(self, record: RegisterControllerRecord) -> None:
        self.controllers[record.controller_id] = ControllerImage.from_record(record)

    def _registered(self, broker_id: int, epoch: int) -> BrokerImage:
        broker = self.brokers.get(broker_id)
        if broker is None or broker.epoch != epoch:
            raise ReplayError(f"broker {broker_id} is not registered at epoch {epoch}")
        return broker

    def _move_directories(self, broker_id: int, old: tuple[Uuid, ...], new: tuple[Uuid, ...]) -> None:
        if old == new:
            return
        for directory in old:
            assert self.owner_of[directory] == broker_id, f"directory {directory} is not broker {broker_id}'s"
            del self.owner_of[directory]
        for directory in new:
            owner = self.owner_of.setdefault(directory, broker_id)
            assert owner == broker_id, f"directory {directory} is broker {owner}'s already"

    # What the others ask

    def check_epoch(self, broker_id: int, epoch: int) -> BrokerImage:
        """The broker, if it is registered at this epoch; else `StaleBrokerEpoch`."""
        broker = self.brokers.get(broker_id)
        if broker is None:
            raise StaleBrokerEpoch(f"No broker registration found for broker id {broker_id}")
        if broker.epoch != epoch:
            raise StaleBrokerEpoch(f"Expected broker epoch {broker.epoch}, but got broker epoch {epoch}")
        return broker

    def is_active(self, broker_id: int) -> bool:
        broker = self.brokers.get(broker_id)
        return broker is not None and broker.is_active

    def has_online_dir(self, broker_id: int, directory: Uuid) -> bool:
        broker = self.brokers.get(broker_id)
        return broker is not None and broker.has_online_dir(directory)

    def default_dir(self, broker_id: int) -> Uuid:
        """Where a new replica goes: a broker with one directory has no choice; else it chooses and tells."""
        broker = self.brokers.get(broker_id)
        if broker is None:
            return UNASSIGNED
        if not broker.log_dirs:
            return MIGRATING
        return broker.log_dirs[0] if len(broker.log_dirs) == 1 else UNASSIGNED

    def usable(self) -> Iterator[UsableBroker]:
        """The brokers that take new replicas: those that are there to stay, and those that may return."""
        for broker in self.brokers.values():
            if broker.has_uncordoned_dirs and (broker.is_fenced or not broker.is_shutting_down):
                yield UsableBroker(broker.id, broker.rack, broker.is_fenced)
