"""The contents of control records: transaction markers, and what the raft layer writes into its log and snapshots."""

from __future__ import annotations

from ottla.types import Uuid
from ottla.wire.schema import Int16, Int32, Int64, Message, Struct, Uint16, field


class ControlRecordTypeSchema(Message, versions="0"):
    """The kind of a control record: the second half of its key, after the version."""

    type: Int16 = field(
        doc="0 abort, 1 commit, 2 leader change, 3 snapshot header, 4 snapshot footer, 5 raft version, 6 voters."
    )


class EndTxnMarker(Message, versions="0"):
    """The value of a commit or abort marker."""

    coordinator_epoch: Int32 = field()


class LeaderChangeMessage(Message, versions="0-1", flexible="0+"):
    """The control record that a new leader of the raft quorum writes first."""

    version: Int16 = field()
    leader_id: Int32 = field(entity="brokerId")
    voters: list[LeaderChangeMessageVoter] = field()
    granting_voters: list[LeaderChangeMessageVoter] = field()


class LeaderChangeMessageVoter(Struct):
    voter_id: Int32 = field()
    voter_directory_id: Uuid = field("1+")


class SnapshotHeaderRecord(Message, versions="0", flexible="0+"):
    """The control record that begins a snapshot."""

    version: Int16 = field()
    last_contained_log_timestamp: Int64 = field()


class SnapshotFooterRecord(Message, versions="0", flexible="0+"):
    """The control record that ends a snapshot."""

    version: Int16 = field()


class KRaftVersionRecord(Message, versions="0", flexible="0+"):
    """The control record that sets the raft protocol's version."""

    version: Int16 = field()
    k_raft_version: Int16 = field()


class VotersRecord(Message, versions="0", flexible="0+"):
    """The control record that sets the voters of the raft quorum."""

    version: Int16 = field()
    voters: list[VotersRecordVoter] = field()


class VotersRecordVoter(Struct):
    voter_id: Int32 = field(entity="brokerId")
    voter_directory_id: Uuid = field()
    endpoints: list[Endpoint] = field()
    k_raft_version_feature: KRaftVersionFeature = field()


class Endpoint(Struct):
    name: str = field(map_key=True)
    host: str = field()
    port: Uint16 = field()


class KRaftVersionFeature(Struct):
    min_supported_version: Int16 = field()
    max_supported_version: Int16 = field()
