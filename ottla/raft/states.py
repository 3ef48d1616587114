"""What a node of the quorum is at a moment, and what a leader knows of the others.

Every state knows its epoch. Times are of the monotonic clock, in milliseconds; a deadline of `NEVER` does not come.
Changed by `core` alone. Plain classes and no data classes: every start of a node would pay 0.2 ms for each.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from math import inf
from typing import TypeAlias

from ottla.raft.quorum_state import NO_LEADER
from ottla.raft.snapshot import SnapshotId
from ottla.raft.voters import ReplicaKey, VoterSet
from ottla.world import Address

NEVER = inf
OBSERVER_SESSION_MS = 300_000
"""How long the leader remembers an observer that fetches no more, as in Kafka."""
OBSERVERS_MAX = 10_000
"""How many observers a leader remembers: beyond it, the one that has been silent for longest is forgotten."""

Endpoints: TypeAlias = Mapping[str, Address]
"""Where a node is reached, by the name of the listener."""


class Votes:
    """The answers to one election, of the voters that there were at its start."""

    __slots__ = ("_asked", "granted", "rejected")

    def __init__(self, voters: VoterSet, local_id: int) -> None:
        self._asked = {id: node.key for id, node in voters.nodes.items()}
        self.granted = {local_id} & set(self._asked)
        self.rejected: set[int] = set()

    def record(self, id: int, *, is_granted: bool) -> None:
        """One that is no voter, or has answered before, counts for nothing."""
        if id in self._asked and id not in self.granted and id not in self.rejected:
            (self.granted if is_granted else self.rejected).add(id)

    @property
    def is_won(self) -> bool:
        return len(self.granted) > len(self._asked) // 2

    @property
    def is_lost(self) -> bool:
        return len(self._asked) - len(self.rejected) <= len(self._asked) // 2

    @property
    def open(self) -> list[ReplicaKey]:
        """Who has not answered."""
        return [key for id, key in self._asked.items() if id not in self.granted and id not in self.rejected]


class Unattached:
    """Knows an epoch and no leader of it, unless by name only."""

    __slots__ = ("election_deadline_ms", "epoch", "leader_id", "leaderless", "voted")

    def __init__(
        self,
        epoch: int,
        leader_id: int = NO_LEADER,
        voted: ReplicaKey | None = None,
        election_deadline_ms: float = NEVER,
    ) -> None:
        self.epoch = epoch
        self.leader_id = leader_id
        self.voted = voted
        self.election_deadline_ms = election_deadline_ms
        self.leaderless: set[int] = set()
        """Who else has said that it knows no leader of the epoch."""


class Prospective:
    """Asks whether it would be elected, without a new epoch yet (KIP-996)."""

    __slots__ = ("election_deadline_ms", "epoch", "leader_endpoints", "leader_id", "voted", "votes")

    def __init__(
        self,
        epoch: int,
        leader_id: int,
        leader_endpoints: Endpoints,
        voted: ReplicaKey | None,
        votes: Votes,
        election_deadline_ms: float,
    ) -> None:
        self.epoch = epoch
        self.leader_id = leader_id
        self.leader_endpoints = leader_endpoints
        self.voted = voted
        self.votes = votes
        self.election_deadline_ms = election_deadline_ms


class Candidate:
    """Has voted for itself in a new epoch and asks the others for their votes."""

    __slots__ = ("election_deadline_ms", "epoch", "voted", "votes")

    def __init__(self, epoch: int, voted: ReplicaKey, votes: Votes, election_deadline_ms: float = NEVER) -> None:
        self.epoch = epoch
        self.voted = voted
        self.votes = votes
        self.election_deadline_ms = election_deadline_ms


class Follower:
    """Fetches from the leader of its epoch."""

    __slots__ = (
        "epoch",
        "fetch_deadline_ms",
        "has_fetched",
        "leader_endpoints",
        "leader_high_watermark",
        "leader_id",
        "snapshot_id",
        "snapshot_position",
        "voted",
    )

    def __init__(
        self,
        epoch: int,
        leader_id: int,
        leader_endpoints: Endpoints,
        voted: ReplicaKey | None = None,
        fetch_deadline_ms: float = NEVER,
        has_fetched: bool = False,
        snapshot_id: SnapshotId | None = None,
        snapshot_position: int = 0,
        leader_high_watermark: int = -1,
    ) -> None:
        self.epoch = epoch
        self.leader_id = leader_id
        self.leader_endpoints = leader_endpoints
        self.voted = voted
        self.fetch_deadline_ms = fetch_deadline_ms
        self.has_fetched = has_fetched
        """Whether this leader has answered: then it is alive, and no other is elected for the asking."""
        self.snapshot_id = snapshot_id
        """What it loads instead of fetching."""
        self.snapshot_position = snapshot_position
        self.leader_high_watermark = leader_high_watermark
        """What the leader said with the batches that are being written."""


class Resigned:
    """Led this epoch and gave it up, or was restarted: it may neither lead nor vote in it again."""

    __slots__ = ("election_deadline_ms", "epoch", "successors", "unacknowledged")

    def __init__(
        self, epoch: int, successors: list[ReplicaKey], unacknowledged: set[int], election_deadline_ms: float = NEVER
    ) -> None:
        self.epoch = epoch
        self.successors = successors
        """The other voters, those that have most first."""
        self.unacknowledged = unacknowledged
        """The voters that have not answered EndQuorumEpoch."""
        self.election_deadline_ms = election_deadline_ms


class Progress:
    """How far a replica has come, as the leader knows it."""

    __slots__ = ("end_offset", "key", "last_caught_up_ms", "last_fetch_ms", "leader_end_offset")

    def __init__(
        self,
        key: ReplicaKey,
        end_offset: int | None = None,
        last_fetch_ms: float | None = None,
        last_caught_up_ms: float | None = None,
        leader_end_offset: int = -1,
    ) -> None:
        self.key = key
        self.end_offset = end_offset
        self.last_fetch_ms = last_fetch_ms
        self.last_caught_up_ms = last_caught_up_ms
        self.leader_end_offset = leader_end_offset
        """Where the leader's log ended at the fetch before."""

    def on_fetch(self, offset: int, leader_end_offset: int, now_ms: float) -> None:
        """It asks for `offset`, so it has everything below."""
        if offset >= leader_end_offset:
            self.last_caught_up_ms = now_ms
        elif 0 < self.leader_end_offset <= offset:
            # It has what there was at its last fetch: then it was caught up at that time.
            self.last_caught_up_ms = self.last_fetch_ms
        self.leader_end_offset = leader_end_offset
        self.last_fetch_ms = now_ms
        self.end_offset = offset


class Leader:
    """Won its epoch; alone appends in it."""

    __slots__ = (
        "begin_deadline_ms",
        "check_deadline_ms",
        "check_timeout_ms",
        "epoch",
        "epoch_start_offset",
        "fetched",
        "high_watermark",
        "local",
        "observers",
        "voters",
    )

    def __init__(
        self,
        epoch: int,
        local: ReplicaKey,
        epoch_start_offset: int,
        voters: dict[int, Progress],
        check_timeout_ms: float,
        check_deadline_ms: float,
        begin_deadline_ms: float,
        high_watermark: int | None = None,
    ) -> None:
        self.epoch = epoch
        self.local = local
        self.epoch_start_offset = epoch_start_offset
        self.voters = voters
        self.check_timeout_ms = check_timeout_ms
        self.check_deadline_ms = check_deadline_ms
        """By when a majority has to have fetched."""
        self.begin_deadline_ms = begin_deadline_ms
        """When to tell those that do not fetch that there is a leader."""
        self.observers: dict[ReplicaKey, Progress] = {}
        self.high_watermark = high_watermark
        self.fetched: set[int] = set()
        """The other voters that have fetched since `check_deadline_ms` was set."""

    def take_voters(self, voters: VoterSet) -> None:
        """These are the voters now; what is known of a replica stays known."""
        before = self.voters
        self.voters = {}
        for id, node in voters.nodes.items():
            known = before.get(id) or self.observers.pop(node.key, None)
            self.voters[id] = known if known is not None and known.key.is_same(node.key) else Progress(node.key)
            self.voters[id].key = node.key

    def progress_of(self, key: ReplicaKey, now_ms: float) -> Progress:
        """What is known of a replica that fetches; a new observer is taken down."""
        voter = self.voters.get(key.id)
        if voter is not None and voter.key.is_same(key):
            return voter
        if key not in self.observers:
            self.forget_observers(now_ms)
            if len(self.observers) >= OBSERVERS_MAX:
                del self.observers[min(self.observers, key=lambda one: self.observers[one].last_fetch_ms or 0)]
            self.observers[key] = Progress(key, last_fetch_ms=now_ms)
        return self.observers[key]

    def forget_observers(self, now_ms: float) -> None:
        """Drop those that fetch no more."""
        gone = [
            key
            for key, observer in self.observers.items()
            if observer.last_fetch_ms is not None and now_ms - observer.last_fetch_ms >= OBSERVER_SESSION_MS
        ]
        for key in gone:
            del self.observers[key]

    def note_contact(self, key: ReplicaKey, now_ms: float) -> None:
        """A voter that fetches is one that this leader leads; with a majority of them it goes on leading."""
        voter = self.voters.get(key.id)
        if voter is not None and voter.key.is_same(key):
            self.fetched.add(key.id)
        needed = len(self.voters) // 2 + 1 - (self.local.id in self.voters)
        if len(self.fetched) >= needed:
            self.fetched.clear()
            self.check_deadline_ms = now_ms + self.check_timeout_ms

    def silent_voters(self, for_ms: float, now_ms: float) -> list[ReplicaKey]:
        """The other voters that have not fetched for that long."""
        return [
            voter.key
            for voter in self.voters.values()
            if voter.key.id != self.local.id and (voter.last_fetch_ms is None or now_ms - voter.last_fetch_ms >= for_ms)
        ]

    def others_by_progress(self) -> list[ReplicaKey]:
        """The other voters, those that have most first."""
        others: Iterable[Progress] = (voter for voter in self.voters.values() if voter.key.id != self.local.id)
        return [
            voter.key
            for voter in sorted(others, key=lambda one: (one.end_offset is None, -(one.end_offset or 0), one.key))
        ]

    def advance_high_watermark(self) -> bool:
        """Whether it has moved: to where a majority of the voters has come, once that lies in the leader's own epoch.

        Before that, what a majority has of older epochs could still be undone by a leader that lacks it.
        """
        ends = sorted((-1 if p.end_offset is None else p.end_offset for p in self.voters.values()), reverse=True)
        reached = ends[len(ends) // 2]
        if not self.is_of_own_epoch(reached):
            return False
        if self.high_watermark is not None and reached <= self.high_watermark:
            return False
        self.high_watermark = reached
        return True

    def is_of_own_epoch(self, end_offset: int) -> bool:
        """Whether a log that ends there has something of this leader's epoch."""
        return end_offset > self.epoch_start_offset


State: TypeAlias = Unattached | Prospective | Candidate | Leader | Follower | Resigned
