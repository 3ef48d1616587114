"""The raft node: carries out what `core` decides, on the real disk or a virtual one.

Promises: a batch is told to listeners only when it is on the device; the vote and the epoch are on the device before
anything is appended because of them. Many appends wait for one device sync (group commit). A device that fails ends
the leadership: listeners are told, `on_failure` is called once, and nothing more is written.
Called by the composition root; listened to by the controller and by every node's metadata loader.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

from ottla.raft.batches import MetadataRecord
from ottla.raft.config import RaftSettings
from ottla.raft.listener import Listener
from ottla.raft.snapshot import SnapshotId
from ottla.raft.voters import VoterSet
from ottla.types import Uuid
from ottla.wire.messages.describe_quorum import DescribeQuorumResponse
from ottla.world import Address, NodeWorld


class RaftNode:
    """One voter of the metadata quorum; for now the only one."""

    is_leader: bool
    leader_id: int
    """-1 while none is known."""
    epoch: int
    high_watermark: int
    """Everything below is committed: on the device, for the one voter."""
    log_end_offset: int
    kraft_version: int

    def __init__(
        self,
        world: NodeWorld,
        config: RaftSettings,
        log_dir: str,
        *,
        node_id: int,
        directory_id: Uuid,
        voters: VoterSet,
        listeners: Mapping[str, Address],
        on_failure: Callable[[BaseException], object] | None = None,
    ) -> None:
        """`log_dir` is `metadata.log.dir`; `voters` are those of `controller.quorum.voters` (empty when the log has
        them); `listeners` are this node's controller listeners as others reach them."""
        raise NotImplementedError

    def subscribe(self, listener: Listener) -> None:
        """Tell `listener` everything, from the latest snapshot or the start of the log on."""
        raise NotImplementedError

    async def start(self) -> None:
        """Open the log, be elected, and return when this node leads and every listener has caught up."""
        raise NotImplementedError

    async def stop(self) -> None:
        """Make everything durable and close the files. Listeners are told that this node leads no more."""
        raise NotImplementedError

    def append(self, records: Sequence[MetadataRecord]) -> int:
        """Append records as one batch and return the last offset; `NotController` when this node does not lead."""
        raise NotImplementedError

    async def create_snapshot(self, offset: int, epoch: int, records: Iterable[MetadataRecord]) -> SnapshotId | None:
        """Write the state up to `offset`; None when there is a snapshot there already."""
        raise NotImplementedError

    @property
    def snapshot_due(self) -> str | None:
        """Why a snapshot should be made now, by `metadata.log.max.*`; None when none should."""
        raise NotImplementedError

    @property
    def latest_snapshot_id(self) -> SnapshotId | None:
        raise NotImplementedError

    def resign(self, reason: str) -> None:
        """Give up leadership; an election follows."""
        raise NotImplementedError

    def describe_quorum(self, version: int = 2) -> DescribeQuorumResponse:
        """The answer to DescribeQuorum for `__cluster_metadata-0`."""
        raise NotImplementedError
