"""What this node's part in the metadata quorum shows, under Kafka's names."""

from __future__ import annotations

from ottla.metadata import Gauge
from ottla.raft import RaftNode

PREFIX = "kafka.server:type=raft-metrics,name="


def raft_gauges(raft: RaftNode, monotonic_ms: float) -> list[Gauge]:
    """The values now. What only a leader knows is shown by the leader, as in Kafka."""
    times, voters = raft.times, raft.voters.nodes.values()
    of_leader = []
    if raft.observer_count is not None:
        of_leader = [
            Gauge(f"{PREFIX}number-of-observers", raft.observer_count),
            Gauge(f"{PREFIX}uncommitted-voter-change", 0),  # voters do not change while it runs
        ]
    return [
        *of_leader,
        Gauge(f"{PREFIX}current-leader", raft.leader_id),
        Gauge(f"{PREFIX}current-epoch", raft.epoch),
        Gauge(f"{PREFIX}high-watermark", raft.high_watermark),
        Gauge(f"{PREFIX}log-end-offset", raft.log_end_offset),
        Gauge(f"{PREFIX}log-end-epoch", raft.log_end_epoch),
        Gauge(f"{PREFIX}current-vote", raft.vote_id),
        Gauge(f"{PREFIX}number-of-voters", len(voters)),
        Gauge(f"{PREFIX}number-unknown-voter-connections", sum(not one.listeners for one in voters)),
        Gauge(f"{PREFIX}commit-latency-avg", times.commit.average(monotonic_ms)),
        Gauge(f"{PREFIX}commit-latency-max", times.commit.largest(monotonic_ms)),
        Gauge(f"{PREFIX}election-latency-avg", times.election.average(monotonic_ms)),
        Gauge(f"{PREFIX}election-latency-max", times.election.largest(monotonic_ms)),
    ]
