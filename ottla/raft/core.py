"""The rules of the quorum (KIP-595, KIP-853): who leads, in which epoch, and what is committed.

Sans-io: an event goes in, effects come out, in the order in which they are to be carried out; each is done, durably
where it says so, before the next is begun. The core reads no clock, no file and no network, so every history of it
can be written down (`tests/transcripts/raft`).

Promises:
- Epochs only grow. In an epoch this node votes at most once, and leads only if it won that epoch.
- A vote and a leadership are written before anything is done because of them.
- The high watermark never goes back, and passes a leader's own epoch start before anything older counts as committed:
  only then is it sure that no other leader can undo it.

The path of the only voter is complete. The states that a quorum of several needs have their names here; what leads to
them is refused where it begins, in `start`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple, TypeAlias

from ottla.errors import InvalidConfig
from ottla.raft.quorum_state import NO_LEADER, Election
from ottla.raft.voters import ReplicaKey, VoterNode, VoterSet
from ottla.wire import Message
from ottla.wire.data.control import KRaftVersionRecord, LeaderChangeMessage, LeaderChangeMessageVoter

# States. What a voter is; each knows its epoch.


@dataclass(slots=True)
class Unattached:
    """Knows an epoch and no leader of it, unless by name only."""

    epoch: int
    leader_id: int = NO_LEADER
    voted: ReplicaKey | None = None


@dataclass(slots=True)
class Prospective:
    """Asks whether it would be elected, without a new epoch yet (KIP-996)."""

    epoch: int
    leader_id: int = NO_LEADER
    voted: ReplicaKey | None = None
    granted: set[int] = field(default_factory=set)


@dataclass(slots=True)
class Candidate:
    """Has voted for itself in a new epoch and asks the others for their votes."""

    epoch: int
    granted: set[int] = field(default_factory=set)


@dataclass(slots=True)
class Progress:
    """How far a replica has come, as the leader knows it."""

    key: ReplicaKey
    end_offset: int | None = None
    last_fetch_ms: int = -1
    last_caught_up_ms: int = -1


@dataclass(slots=True)
class Leader:
    """Won its epoch; alone appends in it."""

    epoch: int
    epoch_start_offset: int
    voters: dict[int, Progress]
    observers: dict[ReplicaKey, Progress] = field(default_factory=dict)
    high_watermark: int | None = None


@dataclass(slots=True)
class Follower:
    """Fetches from the leader of its epoch."""

    epoch: int
    leader_id: int
    voted: ReplicaKey | None = None


@dataclass(slots=True)
class Resigned:
    """Led this epoch and gave it up, or was restarted: it may neither lead nor vote in it again."""

    epoch: int


State: TypeAlias = Unattached | Prospective | Candidate | Leader | Follower | Resigned

# Effects. What the driver has to do.


class WriteElection(NamedTuple):
    """Replace `quorum-state`, durably."""

    election: Election


class BeginEpoch(NamedTuple):
    """Note in the log that this epoch begins at its end, durably, and append these control records as one batch."""

    epoch: int
    records: tuple[Message, ...]


class Commit(NamedTuple):
    """Everything below `high_watermark` is committed: tell the listeners."""

    high_watermark: int


class TellLeader(NamedTuple):
    """This node leads; each listener is to know once it has been told everything below `epoch_start_offset`."""

    epoch: int
    epoch_start_offset: int


class TellResigned(NamedTuple):
    """This node led and does so no more."""

    epoch: int


@dataclass(frozen=True, slots=True)
class AwaitElection:
    """Call `on_election_timeout` when an election timeout has passed."""


Effect: TypeAlias = WriteElection | BeginEpoch | Commit | TellLeader | TellResigned | AwaitElection


class Core:
    """The quorum as one node sees it."""

    def __init__(
        self,
        local: VoterNode,
        voters: VoterSet,
        *,
        kraft_version: int,
        voters_offset: int | None,
        election: Election | None,
        log_end_offset: int,
        last_epoch: int,
    ) -> None:
        """`voters` and `kraft_version` are the latest in the log, or those of the settings; `voters_offset` says where
        in the log the voters stand (-1: in the snapshot of a format; None: in the settings). `election` is what
        `quorum-state` says, `last_epoch` the epoch of the log's last batch."""
        self.local = local
        self.voters = voters
        self.kraft_version = kraft_version
        self._voters_offset = voters_offset
        self._log_end_offset = log_end_offset
        self._written = election
        self.state: State = self._initial_state(election, last_epoch)

    def _initial_state(self, election: Election | None, last_epoch: int) -> State:
        if election is None:
            return Unattached(last_epoch)
        if election.epoch < last_epoch:
            # The log knows better: its batches were written in epochs that somebody won.
            return Unattached(last_epoch)
        if election.leader_id == self.local.key.id:
            # What it appended last may be lost, and an offset must not get another record in the same epoch.
            return Resigned(election.epoch)
        if election.leader_id == NO_LEADER and election.voted is not None and election.voted.is_same(self.local.key):
            # It voted for itself and no leadership was written, so nothing was appended in this epoch.
            return Candidate(election.epoch, {self.local.key.id})
        if election.leader_id != NO_LEADER and election.leader_id in self.voters.nodes:
            return Follower(election.epoch, election.leader_id, election.voted)
        return Unattached(election.epoch, election.leader_id, election.voted)

    # What is known

    @property
    def epoch(self) -> int:
        return self.state.epoch

    @property
    def leader_id(self) -> int:
        match self.state:
            case Leader():
                return self.local.key.id
            case Follower() | Unattached() | Prospective():
                return self.state.leader_id
            case Candidate() | Resigned():
                return NO_LEADER

    @property
    def is_leader(self) -> bool:
        return isinstance(self.state, Leader)

    # Events

    def start(self) -> list[Effect]:
        """The node has opened its log. The only voter elects itself; any other quorum is refused."""
        if len(self.voters) == 0:
            raise InvalidConfig(
                "the metadata log has no voters: set controller.quorum.voters, or format with --standalone"
            )
        if len(self.voters) > 1:
            raise InvalidConfig("controller.quorum.voters with more than one voter is not supported yet")
        if not self.voters.is_voter(self.local.key):
            raise InvalidConfig(
                f"node {self.local.key.id} with directory {self.local.key.directory_id} is none of the voters "
                f"{self.voters.ids}, and following another node's metadata log is not supported yet"
            )
        if isinstance(self.state, Candidate):
            return self._on_votes()
        return self._stand_for_election()

    def on_election_timeout(self) -> list[Effect]:
        """Nothing was heard of a leader for an election timeout."""
        if isinstance(self.state, Leader):
            return []
        return self._stand_for_election()

    def on_appended(self, end_offset: int) -> None:
        """The leader's log ends at `end_offset` now."""
        assert self.is_leader, "only a leader appends"
        assert end_offset >= self._log_end_offset, f"the log went back from {self._log_end_offset} to {end_offset}"
        self._log_end_offset = end_offset

    def on_flushed(self, end_offset: int) -> list[Effect]:
        """Everything below `end_offset` is on this node's device: it counts as replicated here."""
        if not isinstance(self.state, Leader):
            return []
        progress = self.state.voters[self.local.key.id]
        assert progress.end_offset is None or progress.end_offset <= end_offset, "what was flushed stays so"
        progress.end_offset = end_offset
        return self._advance_high_watermark(self.state)

    def resign(self) -> list[Effect]:
        """Give the leadership up."""
        if not isinstance(self.state, Leader):
            return []
        epoch = self.state.epoch
        # Nothing to write: a restart would find the leader's entry and begin as resigned, too.
        self.state = Resigned(epoch)
        return [TellResigned(epoch), AwaitElection()]

    # Elections

    def _stand_for_election(self) -> list[Effect]:
        state = self.state
        assert not isinstance(state, Leader | Prospective), f"no election from {state}"
        voted = state.voted if isinstance(state, Unattached | Follower) else None
        leader_id = state.leader_id if isinstance(state, Unattached | Follower) else NO_LEADER
        self.state = Prospective(state.epoch, leader_id, voted, {self.local.key.id})
        return self._on_prevotes()

    def _on_prevotes(self) -> list[Effect]:
        assert isinstance(self.state, Prospective)
        if not self._is_majority(self.state.granted):
            return [AwaitElection()]
        self.state = Candidate(self.state.epoch + 1, {self.local.key.id})
        return [self._write(Election(self.state.epoch, voted=self.local.key)), *self._on_votes()]

    def _on_votes(self) -> list[Effect]:
        assert isinstance(self.state, Candidate)
        if not self._is_majority(self.state.granted):
            return [AwaitElection()]
        return self._become_leader(self.state)

    def _become_leader(self, won: Candidate) -> list[Effect]:
        start_offset = self._log_end_offset
        self.state = Leader(
            won.epoch, start_offset, voters={id: Progress(node.key) for id, node in self.voters.nodes.items()}
        )
        return [
            self._write(Election(won.epoch, leader_id=self.local.key.id)),
            # Until a batch of its own epoch is committed, a leader cannot know what is.
            BeginEpoch(won.epoch, self._epoch_records(sorted(won.granted))),
            TellLeader(won.epoch, start_offset),
        ]

    def _epoch_records(self, granting: list[int]) -> tuple[Message, ...]:
        change = LeaderChangeMessage(
            version=0,
            leader_id=self.local.key.id,
            voters=[LeaderChangeMessageVoter(voter_id=id) for id in self.voters.ids],
            granting_voters=[LeaderChangeMessageVoter(voter_id=id) for id in granting],
        )
        if self.kraft_version == 0:
            return (change,)
        assert self._voters_offset is not None, "from kraft.version 1 on the voters are in the log"
        if self._voters_offset >= 0 and not self.voters.needs_update(self.local):
            return (change,)
        # The voters were only in the snapshot of the format, or this node is reached elsewhere now (KIP-853).
        self.voters = self.voters.with_voter(self.local)
        self._voters_offset = self._log_end_offset + 2
        version = KRaftVersionRecord(version=0, k_raft_version=self.kraft_version)
        return (change, version, self.voters.to_record())

    def _is_majority(self, ids: set[int]) -> bool:
        return len(ids & set(self.voters.nodes)) > len(self.voters) // 2

    def _write(self, election: Election) -> WriteElection:
        before = self._written
        assert before is None or election.is_at_or_after(before), f"{election} must not follow {before}"
        self._written = election
        return WriteElection(election)

    # Commitment

    def _advance_high_watermark(self, leader: Leader) -> list[Effect]:
        """The high watermark is where a majority of the voters has come, once that lies in the leader's own epoch."""
        ends = sorted((-1 if p.end_offset is None else p.end_offset for p in leader.voters.values()), reverse=True)
        reached = ends[len(ends) // 2]
        if reached <= leader.epoch_start_offset:
            return []
        if leader.high_watermark is not None and reached <= leader.high_watermark:
            return []
        leader.high_watermark = reached
        return [Commit(reached)]
