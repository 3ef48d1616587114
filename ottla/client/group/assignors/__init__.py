"""How a classic group shares out partitions: Kafka's four strategies, and what one's own is made from."""

from ottla.client.group.assignors.assignor import (
    Assignment,
    Assignor,
    PartitionAssignor,
    Racks,
    RebalanceProtocol,
    Subscription,
    TopicRacks,
)
from ottla.client.group.assignors.range import RangeAssignor
from ottla.client.group.assignors.round_robin import RoundRobinAssignor
from ottla.client.group.assignors.sticky import CooperativeStickyAssignor, StickyAssignor
from ottla.client.group.assignors.wire_form import (
    decode_assignment,
    decode_subscription,
    encode_assignment,
    encode_subscription,
)

__all__ = [
    "Assignor",
    "PartitionAssignor",
    "Subscription",
    "Assignment",
    "RebalanceProtocol",
    "Racks",
    "TopicRacks",
    "RangeAssignor",
    "RoundRobinAssignor",
    "StickyAssignor",
    "CooperativeStickyAssignor",
    "encode_subscription",
    "decode_subscription",
    "encode_assignment",
    "decode_assignment",
]
