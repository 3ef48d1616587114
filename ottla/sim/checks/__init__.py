"""What a cluster promises, each promise a module that is told what was seen and raises `Violation`.

They know nothing of nodes, clients or the network, so each is tested on made-up histories. Groups and transactions are
judged by `ottla.sim.ledger`, which is of the same kind.
"""

from ottla.sim.checks.acknowledged import AcknowledgedRecords, FoundRecord, PartitionLog
from ottla.sim.checks.convergence import PartitionView, missing_of
from ottla.sim.checks.coordinators import Coordinators
from ottla.sim.checks.leaders import QUORUM, Leaders
from ottla.sim.checks.replicas import (
    ReplicaLog,
    StoredBatch,
    check_equal,
    check_identical,
    check_prefix,
    check_sound,
    read_replicas,
)
from ottla.sim.checks.watermarks import Watermarks

__all__ = [
    "Leaders",
    "QUORUM",
    "Watermarks",
    "Coordinators",
    "AcknowledgedRecords",
    "PartitionLog",
    "FoundRecord",
    "ReplicaLog",
    "StoredBatch",
    "read_replicas",
    "check_sound",
    "check_equal",
    "check_identical",
    "check_prefix",
    "PartitionView",
    "missing_of",
]
