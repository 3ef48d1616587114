"""The rules of the quorum (KIP-595, KIP-996, KIP-853, KIP-630): who leads, in which epoch, and what is committed.

Sans-io: `step` takes an event and the time and returns a `Ready`, which says what to persist, what to send and what to
apply, in that order. The core reads no clock, no file and no network, so every history of it can be written down
(`tests/transcripts/raft`). Of the log it knows what `LogView` tells; the log also owns the voters.

Promises:
- Epochs only grow. In an epoch this node votes at most once, and leads only if it won that epoch.
- A vote and a leadership are written before anything is done because of them.
- What a voter says it has is on its device: it fetches only from where its log is flushed to.
- The high watermark never goes back, and passes a leader's own epoch start before anything older counts as committed:
  only then is it sure that no other leader can undo it.
- No request or response, however wrong, raises: what Kafka would stop for, this node answers with an error or ignores.
  Only a leader that asks for the truncation of what is committed stops the node.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, assert_never

from ottla.errors import (
    BrokerNotAvailable,
    FencedLeaderEpoch,
    InconsistentClusterId,
    InvalidConfig,
    InvalidRequest,
    InvalidVoterKey,
    NotLeaderOrFollower,
    PositionOutOfRange,
    SnapshotNotFound,
    UnknownLeaderEpoch,
    UnknownServerError,
    UnknownTopicOrPartition,
    UnsupportedVersion,
    error_class,
)
from ottla.raft import messages
from ottla.raft.batches import BATCH_BYTES_MAX
from ottla.raft.config import QuorumTimes
from ottla.raft.connections import Connections
from ottla.raft.events import (
    Answer,
    Appended,
    AppendFetched,
    BeginEpoch,
    DropSnapshot,
    Event,
    Flushed,
    FlushLog,
    InstallSnapshot,
    LeaderAndEpoch,
    LedEpoch,
    LogChange,
    ReadRecords,
    ReadSnapshot,
    Ready,
    Received,
    RequestFailed,
    Resign,
    Responded,
    Send,
    ShutDown,
    Started,
    StartSnapshot,
    Tick,
    Truncate,
    WriteElection,
    WriteSnapshot,
    Written,
)
from ottla.raft.log_view import Diverging, EpochEnd, LogView, check_position, truncation_offset
from ottla.raft.quorum_state import NO_LEADER, Election
from ottla.raft.snapshot import BOOTSTRAP_ID, SnapshotId
from ottla.raft.states import (
    NEVER,
    Candidate,
    Endpoints,
    Follower,
    Leader,
    Progress,
    Prospective,
    Resigned,
    State,
    Unattached,
    Votes,
)
from ottla.raft.voters import ReplicaKey, VoterNode
from ottla.wire import Message
from ottla.wire.data.control import KRaftVersionRecord, LeaderChangeMessage, LeaderChangeMessageVoter
from ottla.wire.messages.begin_quorum_epoch import BeginQuorumEpochRequest, BeginQuorumEpochResponse
from ottla.wire.messages.end_quorum_epoch import EndQuorumEpochRequest, EndQuorumEpochResponse
from ottla.wire.messages.fetch import EpochEndOffset, FetchPartition, FetchRequest, FetchResponse
from ottla.wire.messages.fetch import SnapshotId as FetchedSnapshotId
from ottla.wire.messages.fetch_snapshot import FetchSnapshotRequest, FetchSnapshotResponse
from ottla.wire.messages.fetch_snapshot import SnapshotId as AskedSnapshotId
from ottla.wire.messages.vote import VoteRequest, VoteResponse
from ottla.world import Address

CHECK_QUORUM_FACTOR = 1.5
"""A leader that no majority has fetched from for this many fetch timeouts gives up, as in Kafka."""
REFUSED_WAIT_MS = 100
"""A voter whose leader refuses connections stands for election within this time, and not after the fetch timeout."""
LEADERLESS_WAIT_MS = 100
"""The same of one that hears from enough others that they know no leader either: all have just been started."""
FIRST_BOOTSTRAP_ID = -2
"""The first of the ids that stand for bootstrap servers, as in Kafka; the next are below it."""
PARKED_MAX = 1_000
"""How many fetches wait for something new; one more is answered at once."""


class _ParkedFetch(NamedTuple):
    """A fetch that found nothing new."""

    event: Received
    partition: FetchPartition
    key: ReplicaKey
    bytes_max: int
    deadline_ms: float


class Core:
    """The quorum as one node sees it."""

    def __init__(
        self,
        local: VoterNode,
        log: LogView,
        settings: QuorumTimes,
        *,
        cluster_id: str,
        listener: str,
        draw: Callable[[int], int],
        bootstrap: Sequence[Address] = (),
        election: Election | None = None,
        can_become_voter: bool = True,
        now_ms: float = 0,
    ) -> None:
        """`listener` is the name of the controllers' listener, `bootstrap` the servers to ask for a leader (empty: the
        voters), `election` what `quorum-state` says. `draw(n)` is a random number below n. A node that cannot become a
        voter need not wait for its device."""
        self.local = local
        self._log = log
        self._settings = settings
        self._cluster_id = cluster_id
        self._listener = listener
        self._draw = draw
        self._bootstrap = list(bootstrap)
        self._can_become_voter = can_become_voter
        self._connections = Connections(
            request_timeout_ms=settings.controller_quorum_request_timeout_ms,
            retry_backoff_ms=settings.controller_quorum_retry_backoff_ms,
        )
        self.high_watermark: int | None = None
        """Everything below is committed; None while this node has not learned of any."""
        self._now_ms = now_ms
        self._ready = Ready()
        self._parked: list[_ParkedFetch] = []
        self._is_writing = False
        """Whether the log is being changed: then nothing is said of it until `Written`."""
        self._is_resigning = False
        self._is_shutting_down = False
        self._hastened_epoch = -1
        """The last epoch whose election did not wait for the timeout."""
        self._written = election
        self._told: LeaderAndEpoch | None = None
        self.state: State = self._initial_state(election)

    def _initial_state(self, election: Election | None) -> State:
        last_epoch = self._log.last_epoch
        deadline_ms = self._election_deadline()
        if election is None or election.epoch < last_epoch:
            # In the second case the log knows better: its batches were written in epochs that somebody won.
            return Unattached(last_epoch, election_deadline_ms=deadline_ms)
        if election.leader_id == self.local.key.id:
            # What it appended last may be lost, and an offset must not get another record in the same epoch.
            return Resigned(election.epoch, [], self._other_voter_ids(), deadline_ms)
        if election.leader_id == NO_LEADER and election.voted is not None and election.voted.is_same(self.local.key):
            # It voted for itself and no leadership was written, so nothing was appended in this epoch.
            votes = Votes(self._log.voters, self.local.key.id)
            return Candidate(election.epoch, election.voted, votes, deadline_ms)
        endpoints = self._endpoints_of_voter(election.leader_id)
        if self._listener in endpoints:
            fetch_deadline_ms = self._now_ms + self._settings.controller_quorum_fetch_timeout_ms
            return Follower(election.epoch, election.leader_id, endpoints, election.voted, fetch_deadline_ms)
        return Unattached(election.epoch, election.leader_id, election.voted, deadline_ms)

    # What is known

    @property
    def epoch(self) -> int:
        return self.state.epoch

    @property
    def leader_id(self) -> int:
        """Who leads; -1 while none is known, and after this node has resigned."""
        return NO_LEADER if isinstance(self.state, Resigned) else self._named_leader_id

    @property
    def _named_leader_id(self) -> int:
        """The leader of this epoch as others are told. One that has resigned is still the one that was elected."""
        match self.state:
            case Leader() | Resigned():
                return self.local.key.id
            case Follower() | Unattached() | Prospective():
                return self.state.leader_id
            case Candidate():
                return NO_LEADER

    @property
    def _leader_endpoints(self) -> Endpoints:
        match self.state:
            case Leader() | Resigned():
                return self.local.listeners
            case Follower() | Prospective():
                return self.state.leader_endpoints
            case Unattached() | Candidate():
                return {}

    @property
    def is_leader(self) -> bool:
        return isinstance(self.state, Leader)

    @property
    def is_voter(self) -> bool:
        return self._log.voters.is_voter(self.local.key)

    @property
    def has_parked(self) -> bool:
        """Whether anybody waits for something new in the log."""
        return bool(self._parked)

    @property
    def is_caught_up(self) -> bool:
        """Whether this node has everything that is committed, as far as it has been told."""
        if self.high_watermark is None:
            return False
        state = self.state
        if isinstance(state, Follower):
            return state.snapshot_id is None and self.high_watermark >= state.leader_high_watermark
        return True

    @property
    def has_remote_leader(self) -> bool:
        return self.leader_id not in (NO_LEADER, self.local.key.id)

    @property
    def has_handed_over(self) -> bool:
        """Whether nobody counts on this node as a leader: the other voters know of its resignation, or of more."""
        state = self.state
        return not isinstance(state, Leader) and not (isinstance(state, Resigned) and state.unacknowledged)

    @property
    def is_deserted(self) -> bool:
        """Whether this voter leads nobody and has reached none of the others when it last tried: while that is so
        there is no quorum."""
        others = self._other_voter_ids()
        is_alone = self.is_voter and bool(others) and not isinstance(self.state, Leader)
        return is_alone and all(map(self._connections.has_failed, others))

    def _other_voter_ids(self) -> set[int]:
        return {id for id in self._log.voters.nodes if id != self.local.key.id}

    def _endpoints_of_voter(self, id: int) -> Endpoints:
        found = self._log.voters.nodes.get(id)
        return {} if found is None else found.listeners

    # One step

    def step(self, event: Event, now_ms: float) -> Ready:
        """What is to be done because of `event`. The `Ready` before must have been carried out."""
        self._now_ms = now_ms
        ready = self._ready = Ready()
        assert not self._is_writing or isinstance(event, Written), f"{event} while the log is being changed"
        self._handle(event)
        if not self._is_writing and ready.fault is None:
            ready.deadline_ms = self._poll()
        now = LeaderAndEpoch(self.leader_id, self.epoch)
        if now != self._told:
            self._told = ready.leader = now
        return ready

    def _handle(self, event: Event) -> None:
        match event:
            case Started():
                self._start()
            case Tick():
                pass
            case Received():
                self._on_request(event)
            case Responded(request_id, response):
                self._on_response(request_id, response)
            case RequestFailed(request_id, is_unsupported, is_refused):
                self._on_failure(request_id, is_unsupported, is_refused)
            case Appended():
                self._answer_parked(lambda parked: parked.partition.fetch_offset < self._log.end_offset)
            case Flushed(end_offset):
                self._on_flushed(end_offset)
            case Written(is_sound):
                self._on_written(is_sound)
            case Resign():
                self._is_resigning = isinstance(self.state, Leader)
            case ShutDown():
                self._is_shutting_down = True
                self._is_resigning = isinstance(self.state, Leader)
            case _:
                assert_never(event)

    def _start(self) -> None:
        voters, key = self._log.voters, self.local.key
        if len(voters) == 0 and not self._bootstrap:
            raise InvalidConfig(
                "the metadata log has no voters: set controller.quorum.voters or controller.quorum.bootstrap.servers, "
                "or format with --standalone"
            )
        if voters.ids == [key.id] and not self.is_voter and not self._bootstrap:
            raise InvalidConfig(
                f"node {key.id} with directory {key.directory_id} is not the voter that the metadata log names: the "
                f"only one is node {key.id} with another directory, so nobody can be elected"
            )
        if voters.is_only_voter(key):
            if isinstance(self.state, Candidate):
                self._count_votes(self.state)
            else:
                self._become_prospective()

    def _change_log(self, change: LogChange) -> None:
        self._ready.persist.append(change)
        self._is_writing = True

    def _on_written(self, is_sound: bool) -> None:
        self._is_writing = False
        state = self.state
        if not isinstance(state, Follower):
            return
        if is_sound:
            self._follow_high_watermark(state)
        else:
            # Asked again after a pause, from where the log ends.
            state.leader_high_watermark = -1
            self._connections.end(state.leader_id, is_success=False, now_ms=self._now_ms)

    # Time: what each state does by itself

    def _poll(self) -> float:
        """Do what is due and return when the next is."""
        self._expire_parked()
        while True:
            state = self.state
            match state:
                case Leader():
                    deadline_ms = self._poll_leader(state)
                case Resigned():
                    deadline_ms = self._poll_resigned(state)
                case Candidate() | Prospective():
                    deadline_ms = self._poll_nominee(state)
                case Follower():
                    deadline_ms = self._poll_follower(state)
                case Unattached():
                    deadline_ms = self._poll_unattached(state)
                case _:
                    assert_never(state)
            if self.state is state or self._is_writing:
                parked = min((one.deadline_ms for one in self._parked), default=NEVER)
                return min(deadline_ms, parked)

    def _poll_leader(self, state: Leader) -> float:
        # Whom a node leads is decided by the voters of the moment, which a batch of its own may have changed.
        if state.voters.keys() != self._log.voters.nodes.keys():
            state.take_voters(self._log.voters)
        is_alone = state.voters.keys() == {self.local.key.id}
        if self._is_resigning or (not is_alone and self._now_ms >= state.check_deadline_ms):
            self._become_resigned(state)
            return NEVER
        if is_alone:
            return NEVER
        interval_ms = self._settings.controller_quorum_fetch_timeout_ms / 2
        self._connections.expire(self._now_ms)
        if self._now_ms >= state.begin_deadline_ms:
            for key in state.silent_voters(interval_ms, self._now_ms):
                self._send_to_voter(
                    key,
                    lambda key=key: messages.begin_quorum_epoch_request(  # type: ignore[misc]
                        self._cluster_id, state.epoch, self.local.key.id, self.local.listeners, key
                    ),
                )
            state.begin_deadline_ms = self._now_ms + interval_ms
        return min(state.check_deadline_ms, state.begin_deadline_ms)

    def _poll_resigned(self, state: Resigned) -> float:
        self._connections.expire(self._now_ms)
        if not self._is_shutting_down and self._now_ms >= state.election_deadline_ms:
            # The epoch grows, so that nobody's answer of this one names this node as its own leader.
            self._become_unattached(state.epoch + 1)
            return NEVER
        for id in sorted(state.unacknowledged):
            self._send_to_voter(
                ReplicaKey(id),
                lambda: messages.end_quorum_epoch_request(
                    self._cluster_id, state.epoch, self.local.key.id, state.successors
                ),
            )
        deadline_ms = NEVER if self._is_shutting_down else state.election_deadline_ms
        return min(deadline_ms, self._connections.deadline_ms)

    def _poll_nominee(self, state: Candidate | Prospective) -> float:
        is_pre_vote = isinstance(state, Prospective)
        if self._now_ms >= state.election_deadline_ms:
            if isinstance(state, Prospective):
                self._give_up_standing(state)
            else:
                self._become_prospective()
            return NEVER
        if state.votes.is_lost:
            return state.election_deadline_ms
        self._connections.expire(self._now_ms)
        for key in state.votes.open:
            self._send_to_voter(
                key,
                lambda key=key: messages.vote_request(  # type: ignore[misc]
                    self._cluster_id,
                    state.epoch,
                    self.local.key,
                    key,
                    last_epoch=self._log.last_epoch,
                    end_offset=self._log.end_offset,
                    is_pre_vote=is_pre_vote,
                ),
            )
        return min(state.election_deadline_ms, self._connections.deadline_ms)

    def _poll_follower(self, state: Follower) -> float:
        if self._is_shutting_down:
            return NEVER
        if self.is_voter and self._now_ms >= state.fetch_deadline_ms:
            self._become_prospective()
            return NEVER
        deadline_ms = state.fetch_deadline_ms if self.is_voter else NEVER
        has_timed_out = self._connections.has_timed_out(state.leader_id, self._now_ms)
        self._connections.expire(self._now_ms)
        if has_timed_out or self._connections.is_pausing(state.leader_id):
            # It may be gone: another may know of a new one.
            self._fetch_from_any()
        elif not self._connections.is_any_under_way:
            self._fetch_from_leader(state)
        return min(deadline_ms, self._connections.deadline_ms)

    def _poll_unattached(self, state: Unattached) -> float:
        if self._is_shutting_down:
            return NEVER
        if self.is_voter and self._now_ms >= state.election_deadline_ms:
            self._become_prospective()
            return NEVER
        self._connections.expire(self._now_ms)
        self._fetch_from_any()
        deadline_ms = state.election_deadline_ms if self.is_voter else NEVER
        return min(deadline_ms, self._connections.deadline_ms)

    # Requests to others

    def _send_to_voter(self, key: ReplicaKey, make: Callable[[], Message]) -> None:
        address = self._endpoints_of_voter(key.id).get(self._listener)
        if address is not None and self._connections.is_free(key.id):
            self._send(key.id, address, make())

    def _send(self, node_id: int, address: Address, request: Message) -> None:
        request_id = self._connections.begin(node_id, self._now_ms)
        timeout_ms = self._connections.request_timeout_ms
        self._ready.requests.append(Send(request_id, node_id, address, request, timeout_ms))

    def _fetch_from_any(self) -> None:
        """Ask any node that may know the leader, one at a time."""
        if self._connections.is_any_under_way:
            return
        nodes = self._bootstrap_nodes()
        start = self._draw(len(nodes)) if nodes else 0
        for node_id, address in nodes[start:] + nodes[:start]:
            if self._connections.is_free(node_id):
                if self._is_flushed():
                    self._send(node_id, address, self._fetch_request())
                return

    def _fetch_from_leader(self, state: Follower) -> None:
        address = state.leader_endpoints[self._listener]
        if state.snapshot_id is not None:
            request = messages.fetch_snapshot_request(
                self._cluster_id,
                state.epoch,
                self.local.key,
                state.snapshot_id,
                position=state.snapshot_position,
                bytes_max=self._settings.controller_quorum_fetch_snapshot_max_bytes,
            )
            self._send(state.leader_id, address, request)
        elif self._is_flushed():
            self._send(state.leader_id, address, self._fetch_request())

    def _is_flushed(self) -> bool:
        """Whether the log is on the device up to its end, if this node may vote; if not, it is on its way there.

        The leader counts what a voter asks beyond as replicated there. A leader that lost its epoch may have a tail
        that was never synced.
        """
        if not self._can_become_voter or self._log.flushed_offset >= self._log.end_offset:
            return True
        self._change_log(FlushLog())
        return False

    def _fetch_request(self) -> Message:
        return messages.fetch_request(
            self._cluster_id,
            self.epoch,
            self.local.key,
            offset=self._log.end_offset,
            last_epoch=self._log.last_epoch,
            high_watermark=-1 if self.high_watermark is None else self.high_watermark,
            bytes_max=self._settings.controller_quorum_fetch_max_bytes,
        )

    def _bootstrap_nodes(self) -> list[tuple[int, Address]]:
        own = set(self.local.listeners.values())
        if self._bootstrap:
            return [
                (FIRST_BOOTSTRAP_ID - place, address)
                for place, address in enumerate(self._bootstrap)
                if address not in own
            ]
        return [
            (id, node.listeners[self._listener])
            for id, node in self._log.voters.nodes.items()
            if id != self.local.key.id and self._listener in node.listeners
        ]

    # From one state to another

    def _election_deadline(self) -> float:
        timeout_ms = self._settings.controller_quorum_election_timeout_ms
        return self._now_ms + (timeout_ms + self._draw(timeout_ms) if timeout_ms else 0)

    def _enter(self, state: State) -> None:
        """Leave the present state for this one."""
        before = self.state
        self.state = state
        self._connections.reset()
        if isinstance(before, Leader):
            self._is_resigning = False
            self._ready.led = None  # if it was elected in this very step, nobody was told
            self._ready.resigned = before.epoch
            self._refuse_parked()
        elif isinstance(before, Follower) and before.snapshot_id is not None:
            self._ready.persist.append(DropSnapshot())

    def _write(self, election: Election) -> None:
        before = self._written
        if election != before:
            assert before is None or election.is_at_or_after(before), f"{election} must not follow {before}"
            self._written = election
            self._ready.persist.append(WriteElection(election))

    @property
    def vote_id(self) -> int:
        """Whom this node has voted for in its epoch: a leader and a candidate for themselves; -1 for nobody."""
        if isinstance(self.state, Leader):
            return self.local.key.id
        voted = self._voted
        return NO_LEADER if voted is None else voted.id

    @property
    def _voted(self) -> ReplicaKey | None:
        return None if isinstance(self.state, Leader | Resigned) else self.state.voted

    def _become_unattached(self, epoch: int, leader_id: int = NO_LEADER) -> None:
        state = self.state
        assert epoch > state.epoch or isinstance(state, Prospective), f"epoch {epoch} from {state}"
        match state:
            case Candidate() | Unattached() | Resigned():
                deadline_ms = state.election_deadline_ms
            case Prospective() if not state.votes.is_lost:
                deadline_ms = state.election_deadline_ms
            case _:
                deadline_ms = self._election_deadline()
        voted = self._voted if epoch == state.epoch else None
        self._enter(Unattached(epoch, leader_id, voted, deadline_ms))
        self._write(Election(epoch, leader_id, voted))

    def _become_follower(self, epoch: int, leader_id: int, endpoints: Endpoints) -> None:
        assert leader_id != self.local.key.id, "nobody follows itself"
        assert self._listener in endpoints, f"{leader_id} is at {endpoints}, and has no {self._listener}"
        voted = self._voted if epoch == self.epoch else None
        deadline_ms = self._now_ms + self._settings.controller_quorum_fetch_timeout_ms
        self._enter(Follower(epoch, leader_id, endpoints, voted, deadline_ms))
        self._write(Election(epoch, leader_id, voted))

    def _become_prospective(self) -> None:
        assert self.is_voter, f"{self.local.key} is none of the voters {self._log.voters.ids}"
        assert not isinstance(self.state, Leader | Prospective), f"no election from {self.state}"
        # From `Resigned`, its own leadership is not one to go back to.
        state = Prospective(
            self.epoch,
            self.leader_id,
            {} if isinstance(self.state, Resigned) else self._leader_endpoints,
            self._voted,
            Votes(self._log.voters, self.local.key.id),
            self._election_deadline(),
        )
        self._enter(state)
        self._count_votes(state)

    def _give_up_standing(self, state: Prospective) -> None:
        """Not enough would vote for this node: back to the leader it knows, or to waiting."""
        if state.leader_id != NO_LEADER and self._listener in state.leader_endpoints:
            self._become_follower(state.epoch, state.leader_id, state.leader_endpoints)
        else:
            self._become_unattached(state.epoch, state.leader_id)

    def _become_candidate(self) -> None:
        key = self.local.key
        votes = Votes(self._log.voters, key.id)
        state = Candidate(self.epoch + 1, key, votes, self._election_deadline())
        self._enter(state)
        self._write(Election(state.epoch, voted=key))
        self._count_votes(state)

    def _count_votes(self, state: Prospective | Candidate) -> None:
        if state.votes.is_won:
            if isinstance(state, Prospective):
                self._become_candidate()
            else:
                self._become_leader(state)
        elif state.votes.is_lost and isinstance(state, Prospective):
            self._give_up_standing(state)
        # A candidate that has lost waits for the end of its election timeout: a new leader will call.

    def _become_leader(self, won: Candidate) -> None:
        start_offset = self._log.end_offset
        check_timeout_ms = self._settings.controller_quorum_fetch_timeout_ms * CHECK_QUORUM_FACTOR
        state = Leader(
            won.epoch,
            self.local.key,
            start_offset,
            voters={id: Progress(node.key) for id, node in self._log.voters.nodes.items()},
            check_timeout_ms=check_timeout_ms,
            check_deadline_ms=self._now_ms + check_timeout_ms,
            begin_deadline_ms=self._now_ms,
        )
        self._enter(state)
        self._write(Election(won.epoch, leader_id=self.local.key.id))
        # Until a batch of its own epoch is committed, a leader cannot know what is.
        self._ready.persist.append(BeginEpoch(won.epoch, self._epoch_records(sorted(won.votes.granted))))
        self._ready.led = LedEpoch(won.epoch, start_offset)

    def _epoch_records(self, granting: list[int]) -> tuple[Message, ...]:
        voters = self._log.voters
        change = LeaderChangeMessage(
            version=0,
            leader_id=self.local.key.id,
            voters=[LeaderChangeMessageVoter(voter_id=id) for id in voters.ids],
            granting_voters=[LeaderChangeMessageVoter(voter_id=id) for id in granting],
        )
        if self._log.kraft_version == 0:
            return (change,)
        assert self._log.voters_offset is not None, "from kraft.version 1 on the voters are in the log"
        if self._log.voters_offset >= 0 and not voters.needs_update(self.local):
            return (change,)
        # The voters were only in the snapshot of the format, or this node is reached elsewhere now (KIP-853).
        version = KRaftVersionRecord(version=0, k_raft_version=self._log.kraft_version)
        return (change, version, voters.with_voter(self.local).to_record())

    def _become_resigned(self, leader: Leader) -> None:
        # Nothing to write: a restart would find the leader's entry and begin as resigned, too.
        self._enter(
            Resigned(leader.epoch, leader.others_by_progress(), self._other_voter_ids(), self._election_deadline())
        )

    def abandon(self) -> None:
        """The device has failed, so no step follows: this node leads no more, and does not even say so."""
        if isinstance(self.state, Leader):
            self.state = Resigned(self.epoch, [], set())

    def _learn(self, leader_id: int, epoch: int, endpoints: Endpoints) -> bool:
        """Another node says that `leader_id` (or nobody that it knows) leads `epoch`, which is not below this node's.

        False when that cannot be: then nothing has changed.
        """
        has_leader = leader_id >= 0
        if has_leader and leader_id == self.local.key.id:
            return self.is_leader and epoch == self.epoch
        if epoch == self.epoch:
            known = self._named_leader_id
            if has_leader and known not in (NO_LEADER, leader_id):
                return False
            if has_leader and (known == NO_LEADER or len(endpoints) > len(self._leader_endpoints)):
                if self._listener not in endpoints:
                    return False
                self._become_follower(epoch, leader_id, endpoints)
        elif has_leader:
            if self._listener not in endpoints:
                return False
            self._become_follower(epoch, leader_id, endpoints)
        else:
            self._become_unattached(epoch)
        return True

    # Requests of others

    def _on_request(self, event: Received) -> None:
        request: Any = event.request
        if request.cluster_id is not None and request.cluster_id != self._cluster_id:
            self._answer(event, messages.error_response(request, InconsistentClusterId.code))
            return
        partition = messages.only_partition(request)
        if partition is None and not isinstance(request, FetchSnapshotRequest):
            self._answer(event, messages.error_response(request, InvalidRequest.code))
            return
        match request:
            case VoteRequest():
                self._on_vote(event, request, partition)
            case BeginQuorumEpochRequest():
                self._on_begin_quorum_epoch(event, request, partition)
            case EndQuorumEpochRequest():
                self._on_end_quorum_epoch(event, request, partition)
            case FetchRequest():
                self._on_fetch(event, request, partition)
            case FetchSnapshotRequest():
                self._on_fetch_snapshot(event, request, partition)
            case _:
                raise AssertionError(f"{type(request).__name__} is no request of the quorum")

    def _answer(self, event: Received, response: Message, read: ReadRecords | ReadSnapshot | None = None) -> None:
        self._ready.answers.append(Answer(event.token, response, read))

    def _leader_now(self, event: Received) -> messages.LeaderNow:
        return self._named_leader_id, self.epoch, self._leader_endpoints.get(event.listener)

    def _check_voter_request(self, node_id: int, epoch: int) -> int:
        """The error code for a request that makes leaders."""
        if epoch < self.epoch:
            return FencedLeaderEpoch.code
        return InvalidRequest.code if node_id < 0 else 0

    def _is_meant_here(self, key: ReplicaKey | None) -> bool:
        return key is None or key.is_same(self.local.key)

    def _on_vote(self, event: Received, request: VoteRequest, asked: Any) -> None:
        def answer(code: int, *, is_granted: bool = False) -> None:
            leader = self._leader_now(event)
            self._answer(event, messages.vote_response(leader, code, version=event.version, is_granted=is_granted))

        # A candidate has begun a new epoch, and its log can have nothing of it; one that only asks has begun none.
        last_epoch_max = asked.replica_epoch if asked.pre_vote else asked.replica_epoch - 1
        if asked.last_offset < 0 or asked.last_offset_epoch < 0 or asked.last_offset_epoch > last_epoch_max:
            answer(InvalidRequest.code)
            return
        code = self._check_voter_request(asked.replica_id, asked.replica_epoch)
        if code:
            answer(code)
            return
        if asked.replica_epoch > self.epoch:
            self._become_unattached(asked.replica_epoch)
        if not self._is_meant_here(messages.voter_key(request.voter_id, asked.voter_directory_id)):
            answer(InvalidVoterKey.code)
            return
        key = ReplicaKey(asked.replica_id, asked.replica_directory_id)
        is_up_to_date = EpochEnd(asked.last_offset_epoch, asked.last_offset) >= self._log_end()
        is_granted = self._can_grant(key, is_up_to_date=is_up_to_date, is_pre_vote=asked.pre_vote)
        if is_granted and not asked.pre_vote:
            self._vote_for(key)
        answer(0, is_granted=is_granted)

    def _log_end(self) -> EpochEnd:
        return EpochEnd(self._log.last_epoch, self._log.end_offset)

    def _can_grant(self, key: ReplicaKey, *, is_up_to_date: bool, is_pre_vote: bool) -> bool:
        state = self.state
        if is_pre_vote:
            match state:
                case Leader():
                    return False
                case Follower():
                    return is_up_to_date and not state.has_fetched
                case _:
                    return is_up_to_date
        if not isinstance(state, Unattached | Prospective) or key.id == self.local.key.id:
            return False
        if state.voted is not None:
            return state.voted.is_same(key)
        return is_up_to_date and state.leader_id == NO_LEADER

    def _vote_for(self, key: ReplicaKey) -> None:
        """Give this node's one vote of the epoch. The timeout begins anew: the other's chances are as good."""
        state = self.state
        assert isinstance(state, Unattached | Prospective), f"no vote from {state}"
        if state.voted is not None:
            return  # for the same, before
        state.voted = key
        state.election_deadline_ms = self._election_deadline()
        if isinstance(state, Prospective):
            state.votes = Votes(self._log.voters, self.local.key.id)
        self._write(Election(state.epoch, NO_LEADER, key))

    def _on_begin_quorum_epoch(self, event: Received, request: BeginQuorumEpochRequest, asked: Any) -> None:
        code = self._check_voter_request(asked.leader_id, asked.leader_epoch)
        if not code:
            endpoints = messages.named_endpoints(request.leader_endpoints) or self._endpoints_of_voter(asked.leader_id)
            if not self._learn(asked.leader_id, asked.leader_epoch, endpoints):
                code = InvalidRequest.code
            elif not self._is_meant_here(messages.voter_key(request.voter_id, asked.voter_directory_id)):
                code = InvalidVoterKey.code
        response = messages.begin_quorum_epoch_response(self._leader_now(event), code, version=event.version)
        self._answer(event, response)

    def _on_end_quorum_epoch(self, event: Received, request: EndQuorumEpochRequest, asked: Any) -> None:
        code = self._check_voter_request(asked.leader_id, asked.leader_epoch)
        if not code:
            endpoints = messages.named_endpoints(request.leader_endpoints) or self._endpoints_of_voter(asked.leader_id)
            if not self._learn(asked.leader_id, asked.leader_epoch, endpoints):
                code = InvalidRequest.code
            elif isinstance(self.state, Follower) and self.state.leader_id == asked.leader_id:
                if event.version >= 1:
                    successors = [ReplicaKey(one.candidate_id, one.candidate_directory_id)
                                  for one in asked.preferred_candidates]  # fmt: skip
                else:
                    successors = [ReplicaKey(id) for id in asked.preferred_successors]
                self.state.fetch_deadline_ms = self._now_ms + self._succession_backoff_ms(successors)
        response = messages.end_quorum_epoch_response(self._leader_now(event), code, version=event.version)
        self._answer(event, response)

    def _succession_backoff_ms(self, successors: list[ReplicaKey]) -> int:
        """How long to let those go first that the leader prefers: the first not at all, then twice as long each."""
        limit_ms = self._settings.controller_quorum_election_backoff_max_ms
        place = next((i for i, key in enumerate(successors) if key.is_same(self.local.key)), len(successors))
        if place == 0:
            return 0
        if place == len(successors):
            return limit_ms
        return min(limit_ms, (limit_ms >> (len(successors) - 1)) << (place - 1))

    def _check_leader_request(self, epoch: int) -> int:
        """The error code for a request that only the leader of that epoch answers."""
        if epoch < self.epoch:
            return FencedLeaderEpoch.code
        if epoch > self.epoch:
            return UnknownLeaderEpoch.code
        if not self.is_leader:
            return NotLeaderOrFollower.code
        return BrokerNotAvailable.code if self._is_shutting_down else 0

    def _on_fetch(self, event: Received, request: FetchRequest, asked: FetchPartition) -> None:
        is_wrong = request.max_wait_ms < 0 or asked.fetch_offset < 0 or asked.last_fetched_epoch < 0
        if is_wrong or asked.last_fetched_epoch > asked.current_leader_epoch:
            self._refuse_fetch(event, InvalidRequest.code)
            return
        key = messages.fetching_replica(request, event.version, asked)
        deadline_ms = self._now_ms + request.max_wait_ms
        bytes_max = max(0, min(request.max_bytes, BATCH_BYTES_MAX))
        fetch = _ParkedFetch(event, asked, key, bytes_max, deadline_ms)
        answer = self._try_fetch(fetch)
        found: Any = answer.response
        partition = found.responses[0].partitions[0]
        is_something = (
            partition.error_code
            or answer.read is not None
            or partition.diverging_epoch is not None
            or partition.snapshot_id is not None
            or asked.high_watermark < partition.high_watermark
        )
        if is_something or request.max_wait_ms == 0 or len(self._parked) >= PARKED_MAX:
            self._ready.answers.append(answer)
        else:
            self._parked.append(fetch)

    def _refuse_fetch(self, event: Received, code: int) -> None:
        self._answer(event, self._empty_fetch(event, code))

    def _empty_fetch(self, event: Received, code: int) -> Message:
        response, _ = messages.fetch_response(
            self._leader_now(event),
            code,
            version=event.version,
            high_watermark=None,
            log_start_offset=self._log.start_offset,
        )
        return response

    def _try_fetch(self, fetch: _ParkedFetch) -> Answer:
        """What there is for a fetch now. It tells this leader how far the other has come."""
        event, asked = fetch.event, fetch.partition
        code = self._check_leader_request(asked.current_leader_epoch)
        leader = self.state
        if code or not isinstance(leader, Leader):
            return Answer(event.token, self._empty_fetch(event, code))
        if fetch.key.id == self.local.key.id:
            return Answer(event.token, self._empty_fetch(event, UnknownServerError.code))
        verdict = check_position(self._log, asked.fetch_offset, asked.last_fetched_epoch)
        if verdict is None and fetch.key.id >= 0:
            progress = leader.progress_of(fetch.key, self._now_ms)
            progress.on_fetch(asked.fetch_offset, self._log.end_offset, self._now_ms)
            leader.note_contact(fetch.key, self._now_ms)
            self._advance_high_watermark(leader)
        response, partition = messages.fetch_response(
            self._leader_now(event),
            0,
            version=event.version,
            high_watermark=leader.high_watermark,
            log_start_offset=self._log.start_offset,
        )
        read = None
        match verdict:
            case Diverging(end):
                partition.diverging_epoch = EpochEndOffset(end.epoch, end.end_offset)
            case SnapshotId(offset, epoch):
                partition.snapshot_id = FetchedSnapshotId(offset, epoch)
            case None if asked.fetch_offset < self._log.end_offset:
                read = ReadRecords(asked.fetch_offset, fetch.bytes_max)
        return Answer(event.token, response, read)

    def _answer_parked(self, is_due: Callable[[_ParkedFetch], bool]) -> None:
        waiting, self._parked = self._parked, []
        for fetch in waiting:
            if is_due(fetch):
                self._ready.answers.append(self._try_fetch(fetch))
            else:
                self._parked.append(fetch)

    def _expire_parked(self) -> None:
        if self._parked:
            self._answer_parked(lambda parked: self._now_ms >= parked.deadline_ms)

    def _refuse_parked(self) -> None:
        """This node leads no more: who waits is to look for the new leader."""
        waiting, self._parked = self._parked, []
        for fetch in waiting:
            self._refuse_fetch(fetch.event, NotLeaderOrFollower.code)

    def _on_fetch_snapshot(self, event: Received, request: FetchSnapshotRequest, asked: Any) -> None:
        leader = self._leader_now(event)
        if len(request.topics) != 1 or len(request.topics[0].partitions) != 1:
            self._answer(event, messages.error_response(request, InvalidRequest.code))
            return
        if asked is None:
            topic = request.topics[0]
            response, partition = messages.fetch_snapshot_response(
                leader,
                UnknownTopicOrPartition.code,
                version=event.version,
                name=topic.name,
                index=topic.partitions[0].partition,
            )
            partition.current_leader = None
            self._answer(event, response)
            return
        id = SnapshotId(asked.snapshot_id.end_offset, asked.snapshot_id.epoch)
        # A format's own snapshot is not replicated: the first leader writes what it says into the log.
        size = None if id == BOOTSTRAP_ID else self._log.snapshot_size(id)
        code = self._check_leader_request(asked.current_leader_epoch)
        if not code and size is None:
            code = SnapshotNotFound.code
        if not code and size is not None and not 0 <= asked.position < size:
            code = PositionOutOfRange.code
        response, partition = messages.fetch_snapshot_response(leader, code, version=event.version)
        if code or size is None:
            self._answer(event, response)
            return
        partition.snapshot_id = AskedSnapshotId(id.offset, id.epoch)
        partition.size = size
        partition.position = asked.position
        key = ReplicaKey(request.replica_id, asked.replica_directory_id)
        if isinstance(self.state, Leader) and key.id != self.local.key.id:
            self.state.note_contact(key, self._now_ms)
        bytes_max = max(1, min(request.max_bytes, BATCH_BYTES_MAX))
        self._answer(event, response, ReadSnapshot(id, asked.position, bytes_max))

    # Commitment

    def _on_flushed(self, end_offset: int) -> None:
        """Everything below is on this node's device: it counts as replicated here."""
        leader = self.state
        if not isinstance(leader, Leader):
            return
        own = leader.voters.get(self.local.key.id)
        if own is not None:
            assert own.end_offset is None or own.end_offset <= end_offset, "what was flushed stays so"
            own.end_offset = end_offset
            self._advance_high_watermark(leader)

    def _advance_high_watermark(self, leader: Leader) -> None:
        if leader.advance_high_watermark():
            assert leader.high_watermark is not None
            self._commit(leader.high_watermark)
            # Followers apply what is committed only when they are told.
            self._answer_parked(lambda _: True)

    def _commit(self, high_watermark: int) -> None:
        if self.high_watermark is None or high_watermark > self.high_watermark:
            self.high_watermark = self._ready.high_watermark = high_watermark

    def _follow_high_watermark(self, state: Follower) -> None:
        if state.leader_high_watermark >= 0:
            self._commit(min(state.leader_high_watermark, self._log.end_offset))

    # Answers of others

    def _on_failure(self, request_id: int, is_unsupported: bool, is_refused: bool) -> None:
        node_id = self._connections.node_of(request_id)
        if node_id is None:
            return
        state = self.state
        if is_refused and isinstance(state, Follower) and node_id == state.leader_id and state.has_fetched:
            # Its process is gone: no need to miss it for a whole fetch timeout. Once in a leader's life, and by a
            # pre-vote: should the others still hear of the leader, nothing comes of it (KIP-996). Who is asked
            # meanwhile says yes, and each waits a little differently, so that two do not stand at once.
            state.has_fetched = False
            state.fetch_deadline_ms = min(state.fetch_deadline_ms, self._now_ms + self._draw(REFUSED_WAIT_MS))
        if is_unsupported and isinstance(self.state, Prospective):
            # A voter that knows no pre-vote: without them, then (KIP-996).
            self._become_candidate()
        else:
            self._connections.end(node_id, is_success=False, now_ms=self._now_ms)

    def _on_leaderless(self, state: Unattached, node_id: int) -> None:
        """Another node knows no leader of this epoch. When that is a majority with this one, there is none to wait for.

        A pre-vote at once, as when a leader is gone (`_on_failure`), and once an epoch: should nobody be elected, the
        next attempt waits for the timeout, which is there so that the voters do not get into each other's way.
        """
        state.leaderless.add(node_id)
        others_needed = len(self._log.voters) // 2
        if (
            state.leader_id == NO_LEADER
            and self.is_voter
            and state.epoch > self._hastened_epoch
            and len(state.leaderless) >= others_needed
        ):
            self._hastened_epoch = state.epoch
            deadline_ms = self._now_ms + self._draw(LEADERLESS_WAIT_MS)
            state.election_deadline_ms = min(state.election_deadline_ms, deadline_ms)

    def _on_response(self, request_id: int, response: Message) -> None:
        node_id = self._connections.node_of(request_id)
        if node_id is None:
            return  # it answers a question that is no longer asked
        if isinstance(response, VoteResponse) and response.error_code == UnsupportedVersion.code:
            self._on_failure(request_id, True, False)
            return
        is_success = self._take_response(node_id, response)
        if self._connections.node_of(request_id) is not None:
            self._connections.end(node_id, is_success=is_success, now_ms=self._now_ms)

    def _take_response(self, node_id: int, response: Any) -> bool:
        """Whether the response was of use; else the node is left alone for a while."""
        if response.error_code:
            if response.error_code != BrokerNotAvailable.code:
                self._note_error(node_id, response, response.error_code)
            return False
        partition = messages.only_partition(response)
        if partition is None:
            self._ready.notes.append(f"node {node_id} answered for another partition: {response}")
            return False
        if isinstance(response, FetchResponse | FetchSnapshotResponse):
            current = partition.current_leader
            leader_id, epoch = (NO_LEADER, -1) if current is None else (current.leader_id, current.leader_epoch)
        else:
            leader_id, epoch = partition.leader_id, partition.leader_epoch
        code: int = partition.error_code
        if leader_id >= 0:
            endpoints = messages.endpoint_of(response, leader_id, self._listener) or self._endpoints_of_voter(leader_id)
        else:
            leader_id, endpoints = NO_LEADER, {}
        before = self.state
        if epoch < self.epoch or code == UnknownLeaderEpoch.code:
            return False  # of the past
        if isinstance(before, Unattached) and epoch == before.epoch and leader_id == NO_LEADER:
            self._on_leaderless(before, node_id)
        if epoch > self.epoch or code in (FencedLeaderEpoch.code, NotLeaderOrFollower.code):
            if not self._learn(leader_id, epoch, endpoints):
                self._ready.notes.append(f"node {node_id} names leader {leader_id} of epoch {epoch}, which cannot be")
            # Nothing learned, nothing gained by asking again at once. (Kafka does.)
            return self.state is not before
        if leader_id >= 0 and self._named_leader_id == NO_LEADER:
            if not self._learn(leader_id, epoch, endpoints):
                self._ready.notes.append(f"node {node_id} names leader {leader_id} of epoch {epoch}, which cannot be")
                return False
            if code:
                return True
        if code == BrokerNotAvailable.code:
            return False
        if code == InvalidVoterKey.code:
            self._ready.notes.append(f"node {node_id} is not the voter that it was asked as")
            return True
        match response:
            case VoteResponse():
                return self._on_vote_response(node_id, partition)
            case BeginQuorumEpochResponse() | EndQuorumEpochResponse() if code:
                self._note_error(node_id, response, code)
                return False
            case BeginQuorumEpochResponse():
                return True
            case EndQuorumEpochResponse():
                if isinstance(self.state, Resigned):
                    self.state.unacknowledged.discard(node_id)
                return True
            case FetchResponse():
                return self._on_fetch_response(node_id, response, partition)
            case FetchSnapshotResponse():
                return self._on_fetch_snapshot_response(node_id, response, partition)
            case _:
                self._ready.notes.append(f"node {node_id} answered with {type(response).__name__}")
                return False

    def _note_error(self, node_id: int, response: Message, code: int) -> None:
        self._ready.notes.append(f"node {node_id} answered {type(response).__name__} with {error_class(code).__name__}")

    def _on_vote_response(self, node_id: int, partition: Any) -> bool:
        if partition.error_code:
            self._note_error(node_id, VoteResponse(), partition.error_code)
            return False
        state = self.state
        if isinstance(state, Candidate | Prospective):
            state.votes.record(node_id, is_granted=partition.vote_granted)
            self._count_votes(state)
        return True

    def _on_fetch_response(self, node_id: int, response: FetchResponse, partition: Any) -> bool:
        state = self.state
        if partition.error_code:
            self._note_error(node_id, response, partition.error_code)
            return False
        if not isinstance(state, Follower):
            return False
        diverging, snapshot = partition.diverging_epoch, partition.snapshot_id
        state.leader_high_watermark = partition.high_watermark
        if diverging is not None and diverging.epoch >= 0:
            self._diverge(state, EpochEnd(diverging.epoch, diverging.end_offset))
        elif snapshot is not None and (snapshot.epoch >= 0 or snapshot.end_offset >= 0):
            if snapshot.epoch < 0 or snapshot.end_offset < 0:
                self._ready.notes.append(f"node {node_id} named a snapshot that cannot be: {snapshot}")
                return False
            if snapshot.end_offset <= (self.high_watermark or 0):
                self._ready.notes.append(f"node {node_id} offers snapshot {snapshot}, below what is committed here")
                return False
            state.leader_high_watermark = -1
            state.snapshot_id = SnapshotId(snapshot.end_offset, snapshot.epoch)
            state.snapshot_position = 0
            self._change_log(StartSnapshot(state.snapshot_id))
        elif partition.records is not None and len(partition.records):
            self._change_log(AppendFetched(partition.records, state.epoch, self._can_become_voter))
        else:
            self._follow_high_watermark(state)
        self._note_leader_alive(state)
        return True

    def _note_leader_alive(self, state: Follower) -> None:
        state.fetch_deadline_ms = self._now_ms + self._settings.controller_quorum_fetch_timeout_ms
        state.has_fetched = True

    def _diverge(self, state: Follower, diverging: EpochEnd) -> None:
        state.leader_high_watermark = -1
        offset = truncation_offset(self._log, diverging)
        if offset < (self.high_watermark or 0) or offset < self._log.start_offset:
            self._ready.fault = (
                f"leader {state.leader_id} of epoch {state.epoch} asks for a truncation to offset {offset}, below the "
                f"high watermark {self.high_watermark} or the log's start {self._log.start_offset}"
            )
            return
        self._change_log(Truncate(offset))

    def _on_fetch_snapshot_response(self, node_id: int, response: FetchSnapshotResponse, partition: Any) -> bool:
        state = self.state
        if not isinstance(state, Follower) or state.snapshot_id is None:
            return False
        found = SnapshotId(partition.snapshot_id.end_offset, partition.snapshot_id.epoch)
        if partition.error_code == SnapshotNotFound.code or found.offset < 0 or found.epoch < 0:
            # The leader has made a newer one meanwhile: a fetch will name it.
            state.snapshot_id = None
            self._ready.persist.append(DropSnapshot())
            self._note_leader_alive(state)
            return True
        if partition.error_code:
            self._note_error(node_id, response, partition.error_code)
            return False
        data = partition.unaligned_records
        size = partition.size
        if found != state.snapshot_id or partition.position != state.snapshot_position or not len(data):
            self._ready.notes.append(f"node {node_id} sent another part of a snapshot than was asked for")
            return False
        state.snapshot_position += len(data)
        self._change_log(WriteSnapshot(data))
        if state.snapshot_position >= size:
            # What it holds is committed, or the leader would not have it.
            state.leader_high_watermark = found.offset
            state.snapshot_id = None
            self._change_log(InstallSnapshot(found))
        self._note_leader_alive(state)
        return True
