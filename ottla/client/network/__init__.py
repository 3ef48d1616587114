"""The brokers, as a client reaches them: connections, what is known of the cluster, coordinators, and waiting."""

from ottla.client.network.cluster import NO_NODE, Cluster, Node, PartitionInfo, TopicInfo
from ottla.client.network.coordinators import CoordinatorKind, Coordinators
from ottla.client.network.metadata import Metadata
from ottla.client.network.network_client import COORDINATOR, MAIN, NetworkClient
from ottla.client.network.waiting import Deadline, within
from ottla.net import ApiVersions, Backoff, Build, OnAnswer, Request

__all__ = [
    "COORDINATOR",
    "MAIN",
    "NO_NODE",
    "ApiVersions",
    "Backoff",
    "Build",
    "Cluster",
    "CoordinatorKind",
    "Coordinators",
    "Deadline",
    "Metadata",
    "NetworkClient",
    "Node",
    "OnAnswer",
    "PartitionInfo",
    "Request",
    "TopicInfo",
    "within",
]
