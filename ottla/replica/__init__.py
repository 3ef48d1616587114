"""The replicas of a node: partitions, their leaders and high watermarks, who waits for them, and the logs' schedule.

`ReplicaManager` follows the metadata and finds partitions; `Partition` appends and reads; `LogDriver` runs retention,
flushing, checkpoints and compaction. See README.md.
"""

from typing import TYPE_CHECKING

from ottla.lazy import front_door
from ottla.replica.current_leader import Leader, current_leader
from ottla.replica.follower_feed import FollowerFeed, FollowerWaiter, Interest
from ottla.replica.log_driver import LogDriver
from ottla.replica.manager import ReplicaManager, Watcher
from ottla.replica.partition import NO_EPOCH, Partition, PartitionRead
from ottla.replica.producer_ids import ProducerIds
from ottla.replica.shard_log import PartitionLog
from ottla.replica.stats import TopicStats
from ottla.replica.topic_configs import TopicConfigs
from ottla.replica.waiters import DataWaiter, OutcomeWaiter, Waiter, Waiters

if TYPE_CHECKING:
    from ottla.replica.fetcher import FetcherSettings
    from ottla.replica.fetcher_manager import FetcherManager, Peers
    from ottla.replica.isr_changes import IsrChanges
    from ottla.replica.selector import nearer_replica

# A node without other brokers has no use for them.
_LAZY = {
    "FetcherManager": "fetcher_manager",
    "FetcherSettings": "fetcher",
    "IsrChanges": "isr_changes",
    "Peers": "fetcher_manager",
    "nearer_replica": "selector",
}

__all__ = [
    "ReplicaManager",
    "FetcherManager",
    "FetcherSettings",
    "FollowerFeed",
    "FollowerWaiter",
    "Interest",
    "IsrChanges",
    "Peers",
    "nearer_replica",
    "LogDriver",
    "Partition",
    "PartitionLog",
    "PartitionRead",
    "NO_EPOCH",
    "Leader",
    "current_leader",
    "ProducerIds",
    "TopicConfigs",
    "TopicStats",
    "Waiters",
    "Waiter",
    "Watcher",
    "DataWaiter",
    "OutcomeWaiter",
]

if not TYPE_CHECKING:  # who checks types has the imports above, and finds what is misspelt
    __getattr__, __dir__ = front_door(__name__, _LAZY)
