"""The APIs of a controller's listeners, as `handlers` has those of a broker's; `ControllerContext` is what they get.

Requests of the quorum's members (`QUORUM`) go to raft, the others to the controller of this node, which decides while
it is the active one.
"""

from __future__ import annotations

QUORUM = frozenset(["BeginQuorumEpoch", "EndQuorumEpoch", "Fetch", "FetchSnapshot", "Vote"])
"""What raft answers."""

SERVED = QUORUM | frozenset(
    [
        "AllocateProducerIds",
        "AlterConfigs",
        "AlterPartition",
        "AlterPartitionReassignments",
        "AssignReplicasToDirs",
        "BrokerHeartbeat",
        "BrokerRegistration",
        "ControllerRegistration",
        "CreatePartitions",
        "CreateTopics",
        "DeleteTopics",
        "DescribeCluster",
        "DescribeQuorum",
        "ElectLeaders",
        "Envelope",
        "IncrementalAlterConfigs",
        "ListPartitionReassignments",
        "UnregisterBroker",
        "UpdateFeatures",
    ]
)
