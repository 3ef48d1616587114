"""What is counted of a topic, as plain numbers: the values behind Kafka's `BrokerTopicMetrics`.

Counting costs an addition; whoever publishes metrics reads the numbers when asked.
"""

from __future__ import annotations


class TopicStats:
    """The counters of one topic, or of all."""

    __slots__ = (
        "bytes_in",
        "bytes_out",
        "bytes_rejected",
        "failed_fetch_requests",
        "failed_produce_requests",
        "fetch_requests",
        "invalid_records",
        "messages_in",
        "produce_requests",
        "replication_bytes_in",
        "replication_bytes_out",
    )

    def __init__(self) -> None:
        self.messages_in = 0
        self.bytes_in = 0
        self.bytes_out = 0
        self.bytes_rejected = 0
        self.produce_requests = 0
        self.fetch_requests = 0
        self.failed_produce_requests = 0
        self.failed_fetch_requests = 0
        self.invalid_records = 0
        self.replication_bytes_in = 0
        self.replication_bytes_out = 0

    def add(self, other: TopicStats) -> None:
        for name in self.__slots__:
            setattr(self, name, getattr(self, name) + getattr(other, name))


class IsrStats:
    """How often the in-sync sets of this node's partitions have changed."""

    __slots__ = ("expand_count", "failed_update_count", "shrink_count")

    def __init__(self) -> None:
        self.expand_count = 0
        self.shrink_count = 0
        self.failed_update_count = 0
