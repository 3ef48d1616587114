"""Share partitions on the node that leads them: who has acquired which records, and what became of them (KIP-932).

`SharePartitions` holds them, `ShareFetch` acquires records for a member. See README.md.
"""

from ottla.replica.share.acknowledgement import Acknowledgement
from ottla.replica.share.acquisition import Acquired, AcquireMode
from ottla.replica.share.delivery import AcknowledgeType, RecordState
from ottla.replica.share.fetch import Fetched, FetchLimits, ShareFetch
from ottla.replica.share.manager import Index, SharePartitions
from ottla.replica.share.partition import SharePartition, Status
from ottla.replica.share.window import DeliveryWindow, Limits

__all__ = [
    "AcknowledgeType",
    "Acknowledgement",
    "AcquireMode",
    "Acquired",
    "DeliveryWindow",
    "FetchLimits",
    "Fetched",
    "Index",
    "Limits",
    "RecordState",
    "ShareFetch",
    "SharePartition",
    "SharePartitions",
    "Status",
]
