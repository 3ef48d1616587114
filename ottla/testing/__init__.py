"""A broker inside your tests: real nodes on free ports, ready in a moment, gone afterwards without a trace.

    with ottla.testing.Cluster() as cluster:
        cluster.create_topic("orders", partitions=3)
        ...  # any Kafka client, on cluster.bootstrap_servers

Importing this costs next to nothing: what a cluster needs is loaded when the first one is made. See README.md beside
this file; for pytest there is `ottla.testing.plugin`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.lazy import front_door

if TYPE_CHECKING:
    from ottla.testing.aio import AsyncCluster as AsyncCluster
    from ottla.testing.cluster import Cluster as Cluster
    from ottla.testing.cluster import ClusterError as ClusterError

__all__ = ["Cluster", "AsyncCluster", "ClusterError"]

_HOMES = {
    "Cluster": "ottla.testing.cluster",
    "ClusterError": "ottla.testing.cluster",
    "AsyncCluster": "ottla.testing.aio",
}

if not TYPE_CHECKING:  # who checks types has the imports above, and finds what is misspelt
    __getattr__, __dir__ = front_door(__name__, _HOMES)
