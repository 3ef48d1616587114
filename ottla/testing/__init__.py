"""A broker inside your tests: real nodes on free ports, ready in a moment, gone afterwards without a trace.

    with ottla.testing.Cluster() as cluster:
        cluster.create_topic("orders", partitions=3)
        ...  # any Kafka client, on cluster.bootstrap_servers

Importing this costs next to nothing: what a cluster needs is loaded when the first one is made. See README.md beside
this file; for pytest there is `ottla.testing.plugin`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

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


def __getattr__(name: str) -> object:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    import importlib

    found: object = getattr(importlib.import_module(home), name)
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
