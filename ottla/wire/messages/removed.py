"""APIs that Kafka 4 no longer has. Their keys stay taken, and no version of them can be read or written."""

from __future__ import annotations

from ottla.wire.schema import Message


class LeaderAndIsrRequest(Message, api_key=4, versions="none"):
    """Removed from the protocol together with ZooKeeper; its key stays taken."""


class LeaderAndIsrResponse(Message, api_key=4, versions="none"):
    """Removed from the protocol together with ZooKeeper; its key stays taken."""


class StopReplicaRequest(Message, api_key=5, versions="none"):
    """Removed from the protocol together with ZooKeeper; its key stays taken."""


class StopReplicaResponse(Message, api_key=5, versions="none"):
    """Removed from the protocol together with ZooKeeper; its key stays taken."""


class UpdateMetadataRequest(Message, api_key=6, versions="none"):
    """Removed from the protocol together with ZooKeeper; its key stays taken."""


class UpdateMetadataResponse(Message, api_key=6, versions="none"):
    """Removed from the protocol together with ZooKeeper; its key stays taken."""


class ControlledShutdownRequest(Message, api_key=7, versions="none"):
    """Removed from the protocol together with ZooKeeper; its key stays taken."""


class ControlledShutdownResponse(Message, api_key=7, versions="none"):
    """Removed from the protocol together with ZooKeeper; its key stays taken."""
