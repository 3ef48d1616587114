"""`quorum-state`: what a voter must never forget, or it could vote twice in an epoch (KIP-595).

Promises: the file holds what Kafka writes, version 0 for `kraft.version` 0 and version 1 for 1; it is durable when
`write_election` returns; a crash leaves the old content or the new.
Called by `driver` at each change of epoch, vote or leader, before anything is sent or written because of it.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from ottla.raft.files import replace_file
from ottla.raft.voters import ReplicaKey
from ottla.types import ZERO_UUID
from ottla.wire.data.quorum_state import QuorumStateData, Voter
from ottla.wire.json_form import JsonFormError, from_json, to_json
from ottla.world import Disk

NAME = "quorum-state"
NO_LEADER = -1
NOT_VOTED = -1
_VERSION = "data_version"
_VERSION_MAX = 1


class DamagedQuorumState(Exception):
    """The file cannot be read. Started without it, the node could vote a second time in an epoch."""


@dataclass(frozen=True, slots=True)
class Election:
    """What a voter knows of the newest epoch it has seen: who leads it, and whom it voted for."""

    epoch: int
    leader_id: int = NO_LEADER
    voted: ReplicaKey | None = None

    def __post_init__(self) -> None:
        assert self.epoch >= 0, f"{self.epoch} is no epoch"

    def is_at_or_after(self, other: Election) -> bool:
        """Whether this may be written over `other`: epochs only grow, and a vote or a leader of an epoch stays."""
        if self.epoch != other.epoch:
            return self.epoch > other.epoch
        keeps_leader = other.leader_id in (NO_LEADER, self.leader_id)
        # A voter that knows the leader need not keep its vote: it will not vote again in that epoch.
        keeps_vote = other.voted in (None, self.voted) or self.leader_id != NO_LEADER
        return keeps_leader and keeps_vote


def read_election(disk: Disk, path: str) -> Election | None:
    """What the file says; None where there is none, as before the first start."""
    try:
        data = disk.read(path)
    except FileNotFoundError:
        return None
    return decode_election(path, data)


def write_election(disk: Disk, path: str, election: Election, *, kraft_version: int, voter_ids: list[int]) -> None:
    """Replace the file, durably."""
    data = encode_election(election, kraft_version=kraft_version, voter_ids=voter_ids)
    replace_file(disk, path, [data], temporary=f"{path}.tmp")


def encode_election(election: Election, *, kraft_version: int, voter_ids: list[int]) -> bytes:
    voted = election.voted
    content = QuorumStateData(
        leader_id=election.leader_id,
        leader_epoch=election.epoch,
        voted_id=NOT_VOTED if voted is None else voted.id,
    )
    version = min(kraft_version, _VERSION_MAX)
    if version == 0:
        content.current_voters = [Voter(voter_id=id) for id in voter_ids]
    elif voted is not None:
        content.voted_directory_id = voted.directory_id
    return json.dumps({**to_json(content, version), _VERSION: version}, separators=(",", ":")).encode()


def decode_election(path: str, data: bytes) -> Election:
    """The election in `data`, which was read from `path`."""
    try:
        form: Any = json.loads(data.split(b"\n", 1)[0])
    except ValueError as error:
        raise DamagedQuorumState(f"{path} is not JSON: {error}") from None
    version = form.pop(_VERSION, None) if isinstance(form, dict) else None
    if not isinstance(version, int) or not 0 <= version <= _VERSION_MAX:
        raise DamagedQuorumState(f"{path}: expected {_VERSION} 0 to {_VERSION_MAX}, found {version!r}")
    try:
        content = from_json(QuorumStateData, version, form)
    except JsonFormError as error:
        raise DamagedQuorumState(f"{path}: {error}") from None
    if content.leader_epoch < 0:
        raise DamagedQuorumState(f"{path}: {content.leader_epoch} is no epoch")
    voted = None
    if content.voted_id != NOT_VOTED:
        voted = ReplicaKey(content.voted_id, content.voted_directory_id if version else ZERO_UUID)
    return Election(content.leader_epoch, content.leader_id, voted)
