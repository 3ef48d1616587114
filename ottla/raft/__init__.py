"""The metadata log and its quorum (KRaft): a sans-io core, a driver, and the files Kafka keeps. See README.md.

`RaftNode` is one voter or observer; a `Listener` is told what is committed. `format_directory` prepares a directory.
"""

from ottla.raft.batches import MetadataRecord
from ottla.raft.channel import LinkChannel, RaftChannel
from ottla.raft.config import RaftConfig, RaftSettings
from ottla.raft.driver import RaftNode
from ottla.raft.events import LeaderAndEpoch
from ottla.raft.format import METADATA_DIR, format_directory, read_bootstrap
from ottla.raft.listener import CommittedBatch, Listener
from ottla.raft.quorum_state import DamagedQuorumState, Election
from ottla.raft.snapshot import (
    BOOTSTRAP,
    DamagedSnapshot,
    Snapshot,
    SnapshotId,
    read_snapshot_file,
    write_snapshot_file,
)
from ottla.raft.voters import ReplicaKey, VoterNode, VoterSet

__all__ = [
    "RaftNode",
    "RaftChannel",
    "LinkChannel",
    "LeaderAndEpoch",
    "RaftConfig",
    "RaftSettings",
    "Listener",
    "CommittedBatch",
    "MetadataRecord",
    "Snapshot",
    "SnapshotId",
    "read_snapshot_file",
    "write_snapshot_file",
    "format_directory",
    "read_bootstrap",
    "BOOTSTRAP",
    "METADATA_DIR",
    "VoterSet",
    "VoterNode",
    "ReplicaKey",
    "Election",
    "DamagedSnapshot",
    "DamagedQuorumState",
]
