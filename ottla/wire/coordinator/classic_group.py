"""Records of `__consumer_offsets` about classic groups."""

from __future__ import annotations

from ottla.wire.schema import Bytes, Int32, Int64, Message, Struct, field


class GroupMetadataKey(Message, api_key=2, versions="0"):
    """Which classic group it is about."""

    group: str = field("0")


class GroupMetadataValue(Message, api_key=2, versions="0-4", flexible="4+"):
    """The generation and the members of a classic group."""

    protocol_type: str = field()
    generation: Int32 = field()
    protocol: str | None = field()
    leader: str | None = field()
    current_state_timestamp: Int64 = field("2+", default=-1, ignorable=True, doc="-1 where it is not known.")
    members: list[MemberMetadata] = field()


class MemberMetadata(Struct):
    member_id: str = field()
    group_instance_id: str | None = field("3+", default=None, ignorable=True)
    client_id: str = field()
    client_host: str = field()
    rebalance_timeout: Int32 = field("1+", default=-1, ignorable=True)
    session_timeout: Int32 = field()
    subscription: Bytes = field()
    assignment: Bytes = field()
