"""`ControlState`: everything the controller knows, and the replay of every record upon it.

Promises: replay is the only way in which it changes, on the active controller, on a standby and at start-up; what is
not committed can be taken back (`undo`). Records between the begin and the end of a metadata transaction take effect
together. Called by the controller through its machine.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Any

from ottla.machine import UndoLog
from ottla.metadata.builder import ReplayError
from ottla.metadata.control.brokers import BrokerControl
from ottla.metadata.control.configs import ConfigControl, ConfigRules
from ottla.metadata.control.features import FeatureControl
from ottla.metadata.control.producer_ids import ProducerIdControl
from ottla.metadata.control.topics import TopicControl
from ottla.wire import Message
from ottla.wire.metadata import (
    AbortTransactionRecord,
    AccessControlEntryRecord,
    BeginTransactionRecord,
    BrokerRegistrationChangeRecord,
    ClearElrRecord,
    ClientQuotaRecord,
    ConfigRecord,
    DelegationTokenRecord,
    EndTransactionRecord,
    FeatureLevelRecord,
    FenceBrokerRecord,
    NoOpRecord,
    PartitionChangeRecord,
    PartitionRecord,
    ProducerIdsRecord,
    RegisterBrokerRecord,
    RegisterControllerRecord,
    RemoveAccessControlEntryRecord,
    RemoveDelegationTokenRecord,
    RemoveTopicRecord,
    RemoveUserScramCredentialRecord,
    TopicRecord,
    UnfenceBrokerRecord,
    UnregisterBrokerRecord,
    UserScramCredentialRecord,
    VersionedRecord,
    ZkMigrationStateRecord,
)


class ControlState:
    """The controls and their replay."""

    def __init__(self, rules: ConfigRules, *, node_id: int, quorum_ids: Callable[[], Collection[int]]) -> None:
        """`quorum_ids` tells the voters of now."""
        self.undo = UndoLog()
        self.features = FeatureControl(self.undo, node_id=node_id, quorum_ids=quorum_ids)
        self.configs = ConfigControl(self.undo, self.features, rules, node_id=node_id)
        self.brokers = BrokerControl(self.undo)
        self.topics = TopicControl(self.undo)
        self.producer_ids = ProducerIdControl(self.undo)
        self.configs.has_topic = self.topics.by_name.__contains__
        self.configs.has_node = self._has_node
        self.next_offset = 0
        """The offset of the next record to be replayed; whoever replays sets it first."""
        self._transaction: list[tuple[Message, int]] | None = None
        """What an open transaction has brought, with its offsets; None when none is open."""
        self._replays: dict[type[Message], Callable[[Any], object]] = {
            RegisterBrokerRecord: lambda record: self.brokers.replay_register(record, self._offset),
            UnregisterBrokerRecord: self.brokers.replay_unregister,
            FenceBrokerRecord: lambda record: self.brokers.replay_fence(record, self._offset),
            UnfenceBrokerRecord: lambda record: self.brokers.replay_unfence(record, self._offset),
            BrokerRegistrationChangeRecord: lambda record: self.brokers.replay_change(record, self._offset),
            RegisterControllerRecord: self.brokers.replay_controller,
            TopicRecord: self.topics.replay_topic,
            PartitionRecord: self.topics.replay_partition,
            PartitionChangeRecord: self.topics.replay_change,
            RemoveTopicRecord: self._remove_topic,
            ClearElrRecord: self.topics.replay_clear_elr,
            ConfigRecord: self.configs.replay,
            FeatureLevelRecord: self.features.replay_level,
            ProducerIdsRecord: self.producer_ids.replay,
            # Nothing is decided with these yet; the image keeps them.
            ClientQuotaRecord: _nothing,
            AccessControlEntryRecord: _nothing,
            RemoveAccessControlEntryRecord: _nothing,
            UserScramCredentialRecord: _nothing,
            RemoveUserScramCredentialRecord: _nothing,
            DelegationTokenRecord: _nothing,
            RemoveDelegationTokenRecord: _nothing,
            NoOpRecord: _nothing,
            ZkMigrationStateRecord: _nothing,
        }
        self._offset = -1

    @property
    def is_in_transaction(self) -> bool:
        return self._transaction is not None

    def replay(self, record: Message | VersionedRecord) -> None:
        """Apply one record, at `next_offset`."""
        message = record.record if isinstance(record, VersionedRecord) else record
        offset = self.next_offset
        self.next_offset += 1
        if isinstance(message, BeginTransactionRecord):
            if self._transaction is not None:
                raise ReplayError("a metadata transaction begins inside another")
            self.undo.assign(self, "_transaction", [])
        elif isinstance(message, EndTransactionRecord | AbortTransactionRecord):
            if self._transaction is None:
                raise ReplayError("a metadata transaction ends that never began")
            brought = self._transaction if isinstance(message, EndTransactionRecord) else []
            self.undo.assign(self, "_transaction", None)
            for earlier, earlier_offset in brought:
                self._apply(earlier, earlier_offset)
        elif self._transaction is not None:
            self._transaction.append((message, offset))
            self.undo.note(self._transaction.pop)
        else:
            self._apply(message, offset)

    def _apply(self, message: Message, offset: int) -> None:
        replay = self._replays.get(type(message))
        if replay is None:
            raise ReplayError(f"{type(message).__name__} cannot be replayed")
        self._offset = offset
        replay(message)

    def _remove_topic(self, record: RemoveTopicRecord) -> None:
        topic = self.topics.replay_remove(record)
        self.configs.forget_topic(topic.name)

    def _has_node(self, node_id: int) -> bool:
        return (
            node_id in self.brokers.brokers
            or node_id in self.brokers.controllers
            or self.features.is_controller(node_id)
        )


def _nothing(record: Message) -> None:
    """Not a matter of the controls."""
