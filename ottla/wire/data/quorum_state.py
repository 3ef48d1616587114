"""The content of the `quorum-state` file, which Kafka keeps in its JSON form."""

from __future__ import annotations

from ottla.types import Uuid
from ottla.wire.schema import Int32, Int64, Message, Struct, field


class QuorumStateData(Message, versions="0-1", flexible="0+"):
    """What a raft replica must not forget: its epoch, its vote, and the leader it knows."""

    cluster_id: str = field("0")
    leader_id: Int32 = field(default=-1)
    leader_epoch: Int32 = field(default=-1)
    voted_id: Int32 = field(default=-1, doc="-1 where it has not voted in this epoch.")
    voted_directory_id: Uuid = field("1+")
    applied_offset: Int64 = field("0")
    current_voters: list[Voter] | None = field("0")


class Voter(Struct):
    voter_id: Int32 = field("0")
