"""Which replica a consumer should read from: `replica.selector.class` (KIP-392).

Promises: only a replica that is in sync and has the offset is chosen, and the leader unless another is nearer, so a
consumer that is sent away always gets on. Kafka's own two selectors are known by their class names; there are no
others. Asked by the Fetch handler, on the leader alone.
"""

from __future__ import annotations

from ottla.metadata import Image
from ottla.replica.partition import Partition


def nearer_replica(
    partition: Partition, image: Image, *, rack: str, listener_name: str, fetch_offset: int, now_ms: int
) -> int | None:
    """The best replica in the consumer's rack, as `RackAwareReplicaSelector` chooses it; None for the leader, which has
    everything first and is chosen where it is in that rack itself, or nobody else is."""
    if not partition.is_leader or _rack_of(image, partition.node_id, listener_name) == rack:
        return None
    near = [
        # The most records, then the least lag, then the highest id.
        (follower.log_end_offset, -(now_ms - follower.caught_up_ms), replica)
        for replica, follower in partition.leadership.followers.items()
        if replica in partition.isr
        and follower.log_start_offset <= fetch_offset <= follower.log_end_offset
        and _rack_of(image, replica, listener_name) == rack
    ]
    return max(near)[2] if near else None


def _rack_of(image: Image, broker_id: int, listener_name: str) -> str | None:
    """The rack of a broker that clients of that listener can reach."""
    broker = image.brokers.get(broker_id)
    if broker is None or broker.is_fenced or listener_name not in broker.endpoints:
        return None
    return broker.rack
