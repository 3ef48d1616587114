"""Share groups on a broker: sessions, acknowledgements, and the two coordinators together (KIP-932)."""

from ottla.server.share.acknowledgements import (
    RENEW_VERSION,
    SHARE_VERSION,
    AcknowledgedBatch,
    acknowledge,
    check_enabled,
    check_share_request,
)
from ottla.server.share.group_states import GroupStates
from ottla.server.share.service import ShareService
from ottla.server.share.sessions import FINAL_EPOCH, ShareContext, ShareSessions
from ottla.server.share.state_requests import each_partition

__all__ = [
    "FINAL_EPOCH",
    "RENEW_VERSION",
    "SHARE_VERSION",
    "AcknowledgedBatch",
    "GroupStates",
    "ShareContext",
    "ShareService",
    "ShareSessions",
    "acknowledge",
    "check_enabled",
    "check_share_request",
    "each_partition",
]
