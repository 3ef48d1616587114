"""The replicas of a node: partitions, their leaders and high watermarks, who waits for them, and the logs' schedule.

`ReplicaManager` follows the metadata and finds partitions; `Partition` appends and reads; `LogDriver` runs retention,
flushing, checkpoints and compaction. See README.md.
"""

from ottla.replica.current_leader import Leader, current_leader
from ottla.replica.log_driver import LogDriver
from ottla.replica.manager import ReplicaManager, Watcher
from ottla.replica.partition import NO_EPOCH, Partition, PartitionRead
from ottla.replica.producer_ids import ProducerIds
from ottla.replica.shard_log import PartitionLog
from ottla.replica.stats import TopicStats
from ottla.replica.topic_configs import TopicConfigs
from ottla.replica.waiters import DataWaiter, OutcomeWaiter, Waiter, Waiters

__all__ = [
    "ReplicaManager",
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
