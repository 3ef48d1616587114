"""The transaction coordinator: transactional ids, their producers and their transactions, on `__transaction_state`.

`TransactionCoordinator` is what handlers ask; a `TransactionShard` holds the transactional ids of one partition;
`MarkerSender` is how the ends of transactions get to their partitions. See README.md.
"""

from ottla.coordinator.transaction.coordinator import TransactionCoordinator
from ottla.coordinator.transaction.markers import MarkerSender
from ottla.coordinator.transaction.shard import TransactionShard
from ottla.coordinator.transaction.state import STATE_BY_NAME, TransactionState
from ottla.coordinator.transaction.transaction import EPOCH_BUMP_VERSION, NO_TIMEOUT_MS, Transaction

__all__ = [
    "EPOCH_BUMP_VERSION",
    "NO_TIMEOUT_MS",
    "STATE_BY_NAME",
    "MarkerSender",
    "Transaction",
    "TransactionCoordinator",
    "TransactionShard",
    "TransactionState",
]
