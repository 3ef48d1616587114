"""The share coordinator: the state of share partitions (KIP-932), sharded over `__share_group_state`.

`Persister` is how their leaders and the group coordinator ask; `ShareCoordinator` is one, and what handlers ask.
"""

from ottla.coordinator.share.coordinator import ShareCoordinator
from ottla.coordinator.share.key import SharePartitionKey
from ottla.coordinator.share.persister import PatientPersister, Persister
from ottla.coordinator.share.shard import ShareShard, StateSummary, StoredState
from ottla.coordinator.share.state import UNINITIALIZED_OFFSET, ShareState, StateUpdate
from ottla.coordinator.share.state_batch import StateBatch, combine

__all__ = [
    "UNINITIALIZED_OFFSET",
    "PatientPersister",
    "Persister",
    "ShareCoordinator",
    "SharePartitionKey",
    "ShareShard",
    "ShareState",
    "StateBatch",
    "StateSummary",
    "StateUpdate",
    "StoredState",
    "combine",
]
