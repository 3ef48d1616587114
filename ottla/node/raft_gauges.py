"""What this node's part in the metadata quorum shows, under Kafka's names."""

from __future__ import annotations

from ottla.metadata import Gauge
from ottla.raft import RaftNode

PREFIX = "kafka.server:type=raft-metrics,name="


def raft_gauges(raft: RaftNode) -> list[Gauge]:
    """The values now."""
    return [
        Gauge(f"{PREFIX}current-leader", raft.leader_id),
        Gauge(f"{PREFIX}current-epoch", raft.epoch),
        Gauge(f"{PREFIX}high-watermark", raft.high_watermark),
        Gauge(f"{PREFIX}log-end-offset", raft.log_end_offset),
        Gauge(f"{PREFIX}number-of-voters", len(raft.voters.nodes)),
    ]
