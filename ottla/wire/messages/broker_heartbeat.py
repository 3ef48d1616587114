"""BrokerHeartbeat (key 63): its request and its response."""

from __future__ import annotations

from ottla.types import Uuid
from ottla.wire.schema import Bool, Int16, Int32, Int64, Message, field


class BrokerHeartbeatRequest(Message, api_key=63, versions="0-2", flexible="0+"):
    """Say that a broker is alive, how far it has replayed, and whether it wants to start or stop."""

    broker_id: Int32 = field(entity="brokerId")
    broker_epoch: Int64 = field(default=-1)
    current_metadata_offset: Int64 = field(doc="How far the broker has replayed the metadata log.")
    want_fence: Bool = field()
    want_shut_down: Bool = field()
    offline_log_dirs: list[Uuid] = field("1+", tag=0, doc="Directories that have failed.")
    cordoned_log_dirs: list[Uuid] | None = field("2+", default=None, tag=1)


class BrokerHeartbeatResponse(Message, api_key=63, versions="0-2", flexible="0+"):
    """Whether the broker is caught up and fenced, and whether it may stop."""

    throttle_time_ms: Int32 = field()
    error_code: Int16 = field()
    is_caught_up: Bool = field()
    is_fenced: Bool = field(default=True)
    should_shut_down: Bool = field()
