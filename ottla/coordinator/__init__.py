"""Coordinators: groups, transactions and share groups, as shards on partitions of internal topics. See README.md.

`Runtime` runs the shards of one topic; a `Shard` is the state behind one partition.
"""

from ottla.coordinator.partition import coordinator_partition, java_hash
from ottla.coordinator.record import CoordinatorRecord, EndMarker, Producer
from ottla.coordinator.runtime import Runtime, Status, coordinator_error
from ottla.coordinator.shard import Shard, ShardContext, ShardLog
from ottla.coordinator.timers import Timers

__all__ = [
    "CoordinatorRecord",
    "EndMarker",
    "Producer",
    "Runtime",
    "Shard",
    "ShardContext",
    "ShardLog",
    "Status",
    "Timers",
    "coordinator_error",
    "coordinator_partition",
    "java_hash",
]
