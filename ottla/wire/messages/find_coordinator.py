"""FindCoordinator (key 10): its request and its response."""

from __future__ import annotations

from ottla.wire.schema import Int8, Int16, Int32, Message, Struct, field


class FindCoordinatorRequest(Message, api_key=10, versions="0-6", flexible="3+"):
    """Ask which broker coordinates a group, a transactional id or a share partition."""

    key: str = field("0-3", doc="Replaced by `coordinator_keys` in version 4.")
    key_type: Int8 = field("1+", doc="0 group, 1 transactional id, 2 share partition.")
    coordinator_keys: list[str] = field("4+")


class FindCoordinatorResponse(Message, api_key=10, versions="0-6", flexible="3+"):
    """The coordinator's broker for each key."""

    throttle_time_ms: Int32 = field("1+", ignorable=True)
    error_code: Int16 = field("0-3")
    error_message: str | None = field("1-3", ignorable=True)
    node_id: Int32 = field("0-3", entity="brokerId")
    host: str = field("0-3")
    port: Int32 = field("0-3")
    coordinators: list[Coordinator] = field("4+")


class Coordinator(Struct):
    key: str = field("4+")
    node_id: Int32 = field("4+", entity="brokerId")
    host: str = field("4+")
    port: Int32 = field("4+")
    error_code: Int16 = field("4+")
    error_message: str | None = field("4+", ignorable=True)
