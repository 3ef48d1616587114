"""The group coordinator's metrics, under Kafka's names; read when somebody looks.

`publish_group_gauges` adds them to the registry once. Called by `gauges`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator

from ottla.coordinator import Status
from ottla.coordinator.group import GroupType
from ottla.server.broker import BrokerServices
from ottla.server.metrics import Tags

_CLASSIC = "kafka.coordinator.group:type=GroupMetadataManager,name="
_GROUPS = "kafka.server:type=group-coordinator-metrics,name="

CLASSIC_STATES = ("PreparingRebalance", "CompletingRebalance", "Stable", "Dead", "Empty")
STATES = {
    GroupType.CONSUMER: ("Empty", "Assigning", "Reconciling", "Stable", "Dead"),
    GroupType.SHARE: ("Empty", "Stable", "Dead"),
    GroupType.STREAMS: ("Empty", "NotReady", "Assigning", "Reconciling", "Stable", "Dead"),
}
"""Told for each, though there be no group in it."""
COUNTS = {
    "offset-commit-count": "offset_commits",
    "offset-expiration-count": "offset_expirations",
    "offset-deletion-count": "offset_deletions",
    "group-completed-rebalance-count": "completed_rebalances",
    "consumer-group-rebalance-count": "consumer_rebalances",
    "streams-group-rebalance-count": "streams_rebalances",
}
"""What is counted, and where `GroupMetrics` has it."""

Samples = Iterator[tuple[Tags, float]]


def publish_group_gauges(broker: BrokerServices) -> None:
    """Groups by protocol and state, offsets, the shards, and what has been counted."""
    metrics, groups = broker.node.metrics, broker.groups

    def count(matches: Callable[[GroupType, str], bool]) -> Callable[[], int]:
        return lambda: sum(number for (kind, state), number in _census(broker).items() if matches(kind, state))

    metrics.gauge(f"{_CLASSIC}NumOffsets", lambda: sum(len(one.offsets.committed) for one in groups.runtime.shards))
    metrics.gauge(f"{_CLASSIC}NumGroups", count(lambda kind, _: kind is GroupType.CLASSIC))
    for state in CLASSIC_STATES:
        metrics.gauge(f"{_CLASSIC}NumGroups{state}", _in_state(broker, GroupType.CLASSIC, state))

    def by_protocol() -> Samples:
        census = _census(broker)
        for kind in GroupType:
            yield {"protocol": kind.value}, sum(number for (one, _), number in census.items() if one is kind)

    def by_state(kind: GroupType) -> Callable[[], Samples]:
        def read() -> Samples:
            census = _census(broker)
            for state in STATES[kind]:
                yield {"state": state}, census[kind, state]

        return read

    metrics.family(f"{_GROUPS}group-count", by_protocol)
    for kind in STATES:
        metrics.family(f"{_GROUPS}{kind.value}-group-count", by_state(kind))
    metrics.family(
        f"{_GROUPS}num-partitions",
        lambda: [({"state": status.value}, groups.runtime.count(status)) for status in Status],
    )
    for name, attribute in COUNTS.items():
        metrics.family(f"{_GROUPS}{name}", _counted(broker, attribute), kind="counter")


def _census(broker: BrokerServices) -> Counter[tuple[GroupType, str]]:
    """How many groups of each protocol are in each state."""
    return Counter(
        (group.type, group.state_name) for shard in broker.groups.runtime.shards for group in shard.groups.values()
    )


def _in_state(broker: BrokerServices, kind: GroupType, state: str) -> Callable[[], int]:
    return lambda: _census(broker)[kind, state]


def _counted(broker: BrokerServices, attribute: str) -> Callable[[], list[tuple[Tags, float]]]:
    return lambda: [({}, getattr(broker.groups.metrics, attribute))]
