"""The records of the metadata log, and how they are framed.

Every node replays all of them, so they are loaded together.
"""

from __future__ import annotations

from ottla.wire.metadata.brokers import (
    BrokerRegistrationChangeRecord,
    FenceBrokerRecord,
    RegisterBrokerRecord,
    RegisterControllerRecord,
    UnfenceBrokerRecord,
    UnregisterBrokerRecord,
)
from ottla.wire.metadata.cluster import (
    FeatureLevelRecord,
    NoOpRecord,
    ProducerIdsRecord,
    ZkMigrationStateRecord,
)
from ottla.wire.metadata.configs import (
    ClientQuotaRecord,
    ConfigRecord,
)
from ottla.wire.metadata.framing import RECORD_TYPES, VersionedRecord, read_record, write_record
from ottla.wire.metadata.security import (
    AccessControlEntryRecord,
    DelegationTokenRecord,
    RemoveAccessControlEntryRecord,
    RemoveDelegationTokenRecord,
    RemoveUserScramCredentialRecord,
    UserScramCredentialRecord,
)
from ottla.wire.metadata.topics import (
    ClearElrRecord,
    PartitionChangeRecord,
    PartitionRecord,
    RemoveTopicRecord,
    TopicRecord,
)
from ottla.wire.metadata.transactions import (
    AbortTransactionRecord,
    BeginTransactionRecord,
    EndTransactionRecord,
)

__all__ = [
    "RECORD_TYPES",
    "VersionedRecord",
    "read_record",
    "write_record",
    "RegisterBrokerRecord",
    "UnregisterBrokerRecord",
    "FenceBrokerRecord",
    "UnfenceBrokerRecord",
    "BrokerRegistrationChangeRecord",
    "RegisterControllerRecord",
    "TopicRecord",
    "RemoveTopicRecord",
    "PartitionRecord",
    "PartitionChangeRecord",
    "ClearElrRecord",
    "ConfigRecord",
    "ClientQuotaRecord",
    "UserScramCredentialRecord",
    "RemoveUserScramCredentialRecord",
    "DelegationTokenRecord",
    "RemoveDelegationTokenRecord",
    "AccessControlEntryRecord",
    "RemoveAccessControlEntryRecord",
    "FeatureLevelRecord",
    "ProducerIdsRecord",
    "NoOpRecord",
    "ZkMigrationStateRecord",
    "BeginTransactionRecord",
    "EndTransactionRecord",
    "AbortTransactionRecord",
]
