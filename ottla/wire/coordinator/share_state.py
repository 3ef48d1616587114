"""Records of `__share_group_state`."""

from __future__ import annotations

from ottla.types import Uuid
from ottla.wire.schema import Int8, Int16, Int32, Int64, Message, Struct, field


class ShareSnapshotKey(Message, api_key=0, versions="0"):
    """Which share partition a snapshot belongs to."""

    group_id: str = field("0")
    topic_id: Uuid = field("0")
    partition: Int32 = field("0")


class ShareSnapshotValue(Message, api_key=0, versions="0", flexible="0+"):
    """The whole state of a share partition."""

    snapshot_epoch: Int32 = field()
    state_epoch: Int32 = field()
    leader_epoch: Int32 = field()
    start_offset: Int64 = field()
    delivery_complete_count: Int32 = field(default=-1, tag=0)
    create_timestamp: Int64 = field()
    write_timestamp: Int64 = field()
    state_batches: list[StateBatch] = field()


class StateBatch(Struct):
    first_offset: Int64 = field()
    last_offset: Int64 = field()
    delivery_state: Int8 = field(doc="0 available, 2 acknowledged, 4 archived.")
    delivery_count: Int16 = field()


class ShareUpdateKey(Message, api_key=1, versions="0"):
    """Which share partition an update belongs to."""

    group_id: str = field("0")
    topic_id: Uuid = field("0")
    partition: Int32 = field("0")


class ShareUpdateValue(Message, api_key=1, versions="0", flexible="0+"):
    """What has changed in a share partition's state since its snapshot."""

    snapshot_epoch: Int32 = field()
    leader_epoch: Int32 = field()
    start_offset: Int64 = field()
    delivery_complete_count: Int32 = field(default=-1, tag=0)
    state_batches: list[StateBatch] = field()
