"""What the controller's metrics show, under Kafka's names (`kafka.controller:type=KafkaController`).

Promises: a reading costs what the topics and brokers cost to count, not the partitions' content. Called when metrics
are asked for.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import NamedTuple

from ottla.metadata.control.state import ControlState
from ottla.metadata.partition import NO_LEADER
from ottla.world import Clock

# The numbers by which Kafka shows a registration's state.
_FENCED, _CONTROLLED_SHUTDOWN, _ACTIVE = 10, 20, 30


class Gauge(NamedTuple):
    """One value at this moment."""

    name: str
    value: float
    tags: Mapping[str, str] = MappingProxyType({})
    kind: str = "gauge"
    """`counter` for what only grows."""


def read_gauges(state: ControlState, clock: Clock) -> list[Gauge]:
    """The gauges of the metadata and of the brokers; `TimeSinceLastHeartbeatReceivedMs` on the active one only."""
    brokers = list(state.brokers.brokers.values())
    found = [
        Gauge("ActiveBrokerCount", sum(not broker.is_fenced for broker in brokers)),
        Gauge("FencedBrokerCount", sum(broker.is_fenced for broker in brokers)),
        Gauge("ControlledShutdownBrokerCount", sum(broker.is_shutting_down for broker in brokers)),
        Gauge("GlobalTopicCount", len(state.topics.by_name)),
        Gauge("GlobalPartitionCount", sum(len(topic.partitions) for topic in state.topics.by_name.values())),
        Gauge("OfflinePartitionsCount", state.topics.led_by.count(NO_LEADER)),
        Gauge("PreferredReplicaImbalanceCount", len(state.topics.imbalanced)),
    ]
    heartbeats = state.brokers.heartbeats
    for broker in brokers:
        tags = {"broker": str(broker.id)}
        shown = _FENCED if broker.is_fenced else _CONTROLLED_SHUTDOWN if broker.is_shutting_down else _ACTIVE
        found.append(Gauge("BrokerRegistrationState", shown, tags))
        session = None if heartbeats is None else heartbeats.find(broker.id, broker.epoch)
        if session is not None:
            found.append(Gauge("TimeSinceLastHeartbeatReceivedMs", clock.monotonic_ms() - session.contact_ms, tags))
    return found
