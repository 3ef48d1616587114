"""A partition's leadership: who is in sync, what change of that is under way, and how far all of them have come.

It is a sans-io machine. In: the partition's metadata, appends, followers' fetches, the clock, and the controller's
answers. Out: effects, which `partition` carries out. It reads its log's bounds and changes nothing but itself.

Promises:
- The high watermark is never beyond what every member of the maximal ISR has: the committed ISR and whoever is being
  added to it. It also waits for a replica that is caught up and may join, and stands still below `min.insync.replicas`
  (KIP-966).
- One change of the ISR at a time. It names the broker epoch of each member as its fetches told it, so that the
  controller refuses a replica that has restarted since, perhaps without its log's end (KIP-903).
- A change whose outcome is unknown stays pending until the controller answers or newer metadata comes: a shrunk ISR
  counts only when the controller has it.

Metadata and the controller's answer tell of the same change, in either order: whichever has the larger partition epoch
stands. The rules are those of Kafka's `Partition`. Times are monotonic.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple, Protocol, TypeAlias

from ottla.config import LogConfig
from ottla.errors import (
    FencedLeaderEpoch,
    IneligibleReplica,
    InvalidRequest,
    InvalidUpdateVersion,
    KafkaError,
    NewLeaderElected,
    NotEnoughReplicasAfterAppend,
    NotLeaderOrFollower,
    OperationNotAttempted,
    UnknownTopicId,
    UnknownTopicOrPartition,
)
from ottla.metadata import NO_LEADER, BrokerImage, PartitionImage
from ottla.replica.follower import NO_BROKER_EPOCH, FetchTime, Follower

NO_EPOCH = -1


class Bounds(Protocol):
    """What the leader's log tells of itself."""

    log_start_offset: int
    log_end_offset: int
    config: LogConfig

    @property
    def high_watermark(self) -> int: ...


class IsrChange:
    """A change of the ISR that the controller is asked for: the members with their broker epochs, -1 where unknown."""

    __slots__ = ("joining", "leader_epoch", "members", "partition_epoch")

    def __init__(
        self,
        leader_epoch: int,
        partition_epoch: int,
        members: tuple[tuple[int, int], ...],
        joining: int | None = None,
    ) -> None:
        self.leader_epoch = leader_epoch
        self.partition_epoch = partition_epoch
        self.members = members
        self.joining = joining
        """Who is to be added; None where the ISR is to shrink."""

    @property
    def isr(self) -> tuple[int, ...]:
        return tuple(replica for replica, _ in self.members)


class IsrAnswer(NamedTuple):
    """The partition as the controller has it after a change."""

    leader_epoch: int
    isr: tuple[int, ...]
    partition_epoch: int


# What is to be done


class BeginEpoch(NamedTuple):
    """Note in the log that a leader epoch begins at its end: a follower that was ahead in an older one asks for it."""

    leader_epoch: int


class AdvanceHighWatermark(NamedTuple):
    offset: int


class AlterPartition(NamedTuple):
    """Ask the controller for a change of the ISR, and give `on_answer` or `on_refusal` what it says."""

    change: IsrChange


class MoveLowWatermark(NamedTuple):
    """A follower's log begins later than before: whoever waits for deleted records looks."""


# What has happened


class IsrShrinking(NamedTuple):
    """Followers that have not caught up for too long: (replica, log end offset, caught up at)."""

    isr: tuple[int, ...]
    out_of_sync: tuple[tuple[int, int, int], ...]


class IsrUpdated(NamedTuple):
    """The controller has made the change."""

    isr: tuple[int, ...]
    partition_epoch: int
    is_expansion: bool


class IsrUpdateFailed(NamedTuple):
    """It has not, or not as asked. The change was given up (`is_over`), or stays pending until newer metadata."""

    change: IsrChange
    error: type[KafkaError] | None
    """None where the answer is of another leader epoch, or older than what is known."""
    is_over: bool


Effect: TypeAlias = (
    BeginEpoch | AdvanceHighWatermark | AlterPartition | MoveLowWatermark | IsrShrinking | IsrUpdated | IsrUpdateFailed
)

_REFUSED = (OperationNotAttempted, IneligibleReplica)
"""The controller says that the partition epoch is the present one and that it has changed nothing: the committed ISR
still holds."""
_OVERTAKEN = (
    UnknownTopicOrPartition,
    UnknownTopicId,
    FencedLeaderEpoch,
    InvalidUpdateVersion,
    InvalidRequest,
    NewLeaderElected,
)
"""The controller knows something newer, which metadata will tell: until then the change stays pending."""

Brokers: TypeAlias = Callable[[int], BrokerImage | None]


class Leadership:
    """See the module. It knows followers only while it leads; `follow` and `stop` forget them."""

    __slots__ = (
        "_brokers",
        "_lag_max_ms",
        "followers",
        "is_leader",
        "isr",
        "leader_epoch",
        "leader_epoch_start",
        "leader_id",
        "log",
        "maximal_isr",
        "node_id",
        "partition_epoch",
        "pending",
        "replicas",
    )

    def __init__(self, node_id: int, brokers: Brokers, *, lag_max_ms: int) -> None:
        self.node_id = node_id
        self._brokers = brokers
        self._lag_max_ms = lag_max_ms
        self.log: Bounds | None = None
        self.is_leader = False
        self.leader_id = NO_LEADER
        self.leader_epoch = NO_EPOCH
        self.leader_epoch_start: int | None = None
        """Where the log ended when this node began to lead in this epoch; None where it follows."""
        self.partition_epoch = NO_EPOCH
        self.replicas: tuple[int, ...] = ()
        self.isr: tuple[int, ...] = ()
        """The committed ISR; only a leader knows it."""
        self.maximal_isr: tuple[int, ...] = ()
        """The committed ISR and who is being added to it: what the high watermark waits for."""
        self.pending: IsrChange | None = None
        self.followers: dict[int, Follower] = {}
        """The other replicas, while this one leads."""

    # What the metadata says

    def lead(self, image: PartitionImage, log: Bounds, now_ms: int) -> Sequence[Effect] | None:
        """This node leads, from now on or still; None when the image is older than what is known."""
        if image.partition_epoch < self.partition_epoch:
            return None
        is_new_leader = not self.is_leader
        is_new_epoch = image.leader_epoch > self.leader_epoch
        # Metadata of a change that the controller's answer has told of already says nothing of the one that is pending
        # now. Were that forgotten, the high watermark would go on without a replica that is about to be in the ISR.
        is_known = not is_new_leader and image.partition_epoch == self.partition_epoch
        made = None if is_known or is_new_epoch else self.pending
        self.log = log
        self._assign(image)
        self.is_leader = True
        if not is_known:
            self._commit(image.isr)
        known = self.followers
        self.followers = {
            replica: known.get(replica) or Follower() for replica in image.replicas if replica != self.node_id
        }
        effects: list[Effect] = []
        if is_new_epoch:
            self.leader_epoch_start = log.log_end_offset
            for replica, follower in self.followers.items():
                follower.reset(log.log_end_offset, now_ms, is_new_leader=is_new_leader, is_in_sync=replica in image.isr)
            effects.append(BeginEpoch(image.leader_epoch))
        if made is not None and set(made.isr) == set(image.isr):
            # On the active controller's own node metadata always comes before the answer.
            effects.append(IsrUpdated(image.isr, image.partition_epoch, made.joining is not None))
        effects += self._advance(now_ms)  # the ISR may be down to this node
        return effects

    def follow(self, image: PartitionImage) -> bool | None:
        """Another node leads, or none. Whether that begins a new epoch; None when the image is older than what is
        known."""
        if image.partition_epoch < self.partition_epoch:
            return None
        is_new_epoch = image.leader_epoch > self.leader_epoch
        self._forget()
        self._assign(image)
        return is_new_epoch

    def stop(self) -> None:
        """The partition is deleted, or its directory has failed."""
        self._forget()

    def _assign(self, image: PartitionImage) -> None:
        self.leader_id = image.leader
        self.leader_epoch = image.leader_epoch
        self.partition_epoch = image.partition_epoch
        self.replicas = image.replicas

    def _forget(self) -> None:
        self.is_leader = False
        self.leader_epoch_start = None
        self.followers = {}
        self._commit(())

    def _commit(self, isr: tuple[int, ...]) -> None:
        self.isr = self.maximal_isr = isr
        self.pending = None

    # What happens to the log and its copies

    def on_append(self, now_ms: int) -> Sequence[Effect]:
        """The leader's log has grown."""
        return self._advance(now_ms)

    def on_fetch(
        self,
        replica: int,
        *,
        broker_epoch: int,
        fetch_offset: int,
        log_start_offset: int,
        leader_end_offset: int,
        now_ms: int,
    ) -> Sequence[Effect]:
        """A follower has everything below `fetch_offset`; the leader's log ended at `leader_end_offset` when its fetch
        was read. `NotLeaderOrFollower` when the fetch is from before that broker's last start."""
        follower = self.followers[replica]
        broker = self._brokers(replica)
        if self.is_from_before(broker_epoch, broker):
            raise NotLeaderOrFollower(
                f"Stale fetch state update of replica {replica}: its broker epoch {broker_epoch} is older than the "
                "broker's last registration"
            )
        old_end, old_start = follower.log_end_offset, follower.log_start_offset
        follower.record_fetch(fetch_offset, log_start_offset, leader_end_offset, now_ms, broker_epoch)
        effects: list[Effect] = []
        if log_start_offset > old_start:
            effects.append(MoveLowWatermark())
        if self.pending is None and replica not in self.isr and self._may_join(replica, follower):
            effects.append(AlterPartition(self._expand(replica)))
        if fetch_offset != old_end:
            effects += self._advance(now_ms)
        return effects

    def on_time(self, now_ms: int) -> Sequence[Effect]:
        """Time has passed, or a broker has gone: followers that lag for too long are to leave the ISR, and the high
        watermark waits no longer for one that was about to join."""
        log = self.log
        if log is None or not self.is_leader:
            return ()
        # Producers that wait for their acknowledgements append nothing, and followers at the end fetch nothing new:
        # nothing else would look at it again.
        effects = self._advance(now_ms) if log.high_watermark < log.log_end_offset else ()
        if self.pending is not None or len(self.isr) <= 1:
            return effects
        out_of_sync = [
            (replica, -1, -1) if follower is None else (replica, follower.log_end_offset, follower.caught_up_ms)
            for replica in self.isr
            if replica != self.node_id
            for follower in (self.followers.get(replica),)
            if follower is None or not follower.is_caught_up(log.log_end_offset, now_ms, self._lag_max_ms)
        ]
        if not out_of_sync:
            return effects
        leaving = {replica for replica, _, _ in out_of_sync}
        # The maximal ISR stays as it is: the high watermark must not advance without those who leave before the
        # controller has agreed, because until then they may be elected.
        self.pending = self._change(tuple(replica for replica in self.isr if replica not in leaving), None)
        return [*effects, IsrShrinking(self.isr, tuple(out_of_sync)), AlterPartition(self.pending)]

    # What the controller says

    def on_answer(self, change: IsrChange, answer: IsrAnswer, now_ms: int) -> Sequence[Effect]:
        """The controller has made `change`, or says that it is so already."""
        if self.pending is not change:
            return ()  # metadata came first, and this is old
        if answer.leader_epoch != self.leader_epoch or answer.partition_epoch < self.partition_epoch:
            return [IsrUpdateFailed(change, None, False)]
        self._commit(answer.isr)
        self.partition_epoch = answer.partition_epoch
        return [IsrUpdated(answer.isr, answer.partition_epoch, change.joining is not None), *self._advance(now_ms)]

    def on_refusal(self, change: IsrChange, error: type[KafkaError]) -> Sequence[Effect]:
        """The controller has answered `change` with an error."""
        if self.pending is not change:
            return ()
        if error in _REFUSED:
            self._commit(self.isr)
            return [IsrUpdateFailed(change, error, True)]
        if error in _OVERTAKEN:
            return [IsrUpdateFailed(change, error, False)]
        return [IsrUpdateFailed(change, error, False), AlterPartition(change)]

    # What follows from it

    @property
    def min_isr(self) -> int:
        """`min.insync.replicas`, or the number of replicas where there are fewer."""
        return 1 if self.log is None else min(self.log.config.min_insync_replicas, len(self.followers) + 1)

    @property
    def is_under_min_isr(self) -> bool:
        return self.is_leader and len(self.isr) < self.min_isr

    @property
    def low_watermark(self) -> int:
        """The smallest log start of all replicas on live brokers: below it nobody has anything."""
        assert self.log is not None, "a leader has a log"
        starts = [self.log.log_start_offset]
        for replica, follower in self.followers.items():
            broker = self._brokers(replica)
            if broker is not None and not broker.is_fenced:
                starts.append(follower.log_start_offset)
        return min(starts)

    def replication_outcome(self, offset: int) -> int | None:
        """For acks=all: the error code of an append that ended at `offset`, or None while replicas lack it."""
        assert self.log is not None, "a leader has a log"
        if self.log.high_watermark < offset:
            return None
        return 0 if len(self.maximal_isr) >= self.min_isr else NotEnoughReplicasAfterAppend.code

    def is_settled(self, replica: int) -> bool:
        """Whether the follower is in sync and at the leader's end: until the partition changes, its fetches find
        nothing and change nothing."""
        follower = self.followers.get(replica)
        return (
            follower is not None
            and self.log is not None
            and follower.log_end_offset == self.log.log_end_offset
            and replica in self.isr
            and self.pending is None
        )

    def rest(self, replica: int, session: FetchTime) -> None:
        """Let the time of its session speak for a settled follower."""
        self.followers[replica].rest(session)

    def wake(self, replica: int, session: FetchTime) -> None:
        """That session no longer speaks for the follower."""
        follower = self.followers.get(replica)
        if follower is not None:
            follower.wake(session)

    def _advance(self, now_ms: int) -> Sequence[Effect]:
        log = self.log
        assert log is not None, "a leader has a log"
        if len(self.isr) < self.min_isr:
            return ()
        end_offset = offset = log.log_end_offset
        for replica, follower in self.followers.items():
            if follower.log_end_offset < offset and (
                replica in self.maximal_isr
                # One that has nearly caught up would never make it if the high watermark ran ahead of it.
                or (
                    follower.is_caught_up(end_offset, now_ms, self._lag_max_ms) and self._is_eligible(replica, follower)
                )
            ):
                offset = follower.log_end_offset
        return (AdvanceHighWatermark(offset),) if offset > log.high_watermark else ()

    def _may_join(self, replica: int, follower: Follower) -> bool:
        """Whether it has everything that may be committed: also what earlier leaders of this epoch's log have."""
        assert self.log is not None, "a leader has a log"
        start = self.leader_epoch_start
        end_offset = follower.log_end_offset
        return (
            end_offset >= self.log.high_watermark
            and start is not None
            and end_offset >= start
            and self._is_eligible(replica, follower)
        )

    @staticmethod
    def is_from_before(broker_epoch: int, broker: BrokerImage | None) -> bool:
        """Whether a fetch was sent before the last start of its broker."""
        return (
            broker_epoch != NO_BROKER_EPOCH
            and broker is not None
            and not broker.is_fenced
            and broker_epoch < broker.epoch
        )

    def _is_eligible(self, replica: int, follower: Follower) -> bool:
        """Whether its broker is active, and still the one that has fetched."""
        broker = self._brokers(replica)
        return (
            broker is not None
            and broker.is_active
            and follower.broker_epoch is not None
            and follower.broker_epoch in (NO_BROKER_EPOCH, broker.epoch)
        )

    def _expand(self, replica: int) -> IsrChange:
        # At once in the maximal ISR: should the controller refuse, the high watermark has waited for one too many.
        self.pending = self._change((*self.isr, replica), replica)
        self.maximal_isr = (*self.isr, replica)
        return self.pending

    def _change(self, isr: tuple[int, ...], joining: int | None) -> IsrChange:
        # In ascending order, as small numbers come out of the sets that Kafka keeps them in: it is what tools show.
        members = tuple((one, self._broker_epoch(one)) for one in sorted(isr))
        return IsrChange(self.leader_epoch, self.partition_epoch, members, joining)

    def _broker_epoch(self, replica: int) -> int:
        """What the replica's fetches have told; of this node itself, its registration. A member that has not fetched
        yet may go without: should it restart, the controller takes it out and the partition epoch grows."""
        if replica == self.node_id:
            broker = self._brokers(replica)
            return NO_BROKER_EPOCH if broker is None else broker.epoch
        follower = self.followers.get(replica)
        known = None if follower is None else follower.broker_epoch
        return NO_BROKER_EPOCH if known is None else known
