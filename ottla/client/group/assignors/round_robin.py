"""The round-robin assignor: all partitions in a row, one to each member in turn, past those that did not subscribe."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import cycle

from ottla.client.group.assignors.assignor import PartitionAssignor, Subscription, TopicRacks, static_first
from ottla.types import TopicPartition


class RoundRobinAssignor(PartitionAssignor):
    """Even over all topics where members subscribe alike; it moves many partitions when one member comes or goes."""

    name = "roundrobin"

    def assign_partitions(
        self, topics: TopicRacks, subscriptions: Mapping[str, Subscription]
    ) -> dict[str, list[TopicPartition]]:
        found: dict[str, list[TopicPartition]] = {member: [] for member in subscriptions}
        wanted = {member: set(subscription.topics) for member, subscription in subscriptions.items()}
        turns = cycle(static_first(subscriptions, subscriptions))
        for topic, partitions in topics.items():
            for partition in range(len(partitions)):
                member = next(member for member in turns if topic in wanted[member])
                found[member].append(TopicPartition(topic, partition))
        return found
