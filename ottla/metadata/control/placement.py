"""Where new replicas go: striped over racks, then over the brokers of each rack, from a random start.

Promises: the first replica of a partition, its preferred leader, is on an unfenced broker; replicas of one partition
are on different racks while there are enough; leaders and followers are spread evenly over what one call places. A
broker is used at most once a partition.
Called when topics or partitions are created without an assignment of their own. The algorithm is Kafka's.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple, Protocol, TypeVar

from ottla.errors import InvalidReplicationFactor

T = TypeVar("T")


class Dice(Protocol):
    """The part of `random.Random` that placement rolls: `world.random`."""

    def randrange(self, stop: int, /) -> int: ...

    def shuffle(self, items: list[T], /) -> None: ...


class UsableBroker(NamedTuple):
    """A broker that takes new replicas."""

    id: int
    rack: str | None
    is_fenced: bool


def place(
    dice: Dice, brokers: Iterable[UsableBroker], *, partition_count: int, replication_factor: int
) -> list[list[int]]:
    """The brokers of each new partition, the preferred leader first; `InvalidReplicationFactor` with Kafka's reason."""
    racks = _Racks(dice, brokers)
    if replication_factor <= 0:
        raise InvalidReplicationFactor(
            f"Invalid replication factor {replication_factor}: the replication factor must be positive."
        )
    if racks.unfenced_count == 0:
        raise InvalidReplicationFactor("All brokers are currently fenced, or have all their log directories cordoned.")
    if replication_factor > racks.broker_count:
        raise InvalidReplicationFactor(
            f"The target replication factor of {replication_factor} cannot be reached because only "
            f"{racks.broker_count} broker(s) are registered or some brokers have all their log directories cordoned."
        )
    return [racks.place(replication_factor) for _ in range(partition_count)]


class _Ring:
    """Brokers dealt in turn. Each partition begins one further than the one before."""

    def __init__(self) -> None:
        self.brokers: list[int] = []
        self._round = 0
        self._index = 0
        self._start = 0

    def prepare(self, dice: Dice) -> None:
        if self.brokers:
            self.brokers.sort()
            self._start = dice.randrange(len(self.brokers))

    def next(self, round: int) -> int | None:
        """The next broker that this round has not been dealt; None when it has been dealt all."""
        if not self.brokers:
            return None
        if self._round != round:
            self._round = round
            self._index = 0
            self._start = (self._start + 1) % len(self.brokers)
        if self._index >= len(self.brokers):
            return None
        broker = self.brokers[(self._start + self._index) % len(self.brokers)]
        self._index += 1
        return broker


class _Rack:
    def __init__(self) -> None:
        self.fenced = _Ring()
        self.unfenced = _Ring()

    def next(self, round: int) -> int | None:
        """An unfenced broker while there is one."""
        broker = self.unfenced.next(round)
        return self.fenced.next(round) if broker is None else broker


class _Racks:
    def __init__(self, dice: Dice, brokers: Iterable[UsableBroker]) -> None:
        self._dice = dice
        racks: dict[str | None, _Rack] = {}
        self.broker_count = 0
        self.unfenced_count = 0
        for broker in brokers:
            rack = racks.setdefault(broker.rack, _Rack())
            (rack.fenced if broker.is_fenced else rack.unfenced).brokers.append(broker.id)
            self.broker_count += 1
            self.unfenced_count += not broker.is_fenced
        # Brokers without a rack share one, which sorts first.
        self._racks = [racks[name] for name in sorted(racks, key=lambda name: (name is not None, name or ""))]
        self._in_order = list(self._racks)
        for rack in self._in_order:
            rack.fenced.prepare(dice)
            rack.unfenced.prepare(dice)
        self._round = 0
        self._start = dice.randrange(len(self._racks)) if self._racks else 0

    def place(self, replication_factor: int) -> list[int]:
        # After a whole turn the same sets of replicas would come again; a shuffle mixes who follows whom.
        if self._round == self.unfenced_count and self.unfenced_count > 1:
            self._shuffle()
            self._round = 0
        self._start %= len(self._racks)
        leader, leader_rack = self._leader()
        placed = [leader]
        index = self._start
        skip: int | None = leader_rack
        while len(placed) < replication_factor:
            if index == skip:
                skip = None  # the leader's rack has its share of the first turn
            else:
                broker = self._racks[index].next(self._round)
                if broker is not None:
                    placed.append(broker)
            index = (index + 1) % len(self._racks)
        self._round += 1
        self._start += 1
        return placed

    def _leader(self) -> tuple[int, int]:
        index = self._start
        while True:
            leader = self._racks[index].unfenced.next(self._round)
            if leader is not None:
                return leader, index
            index = (index + 1) % len(self._racks)

    def _shuffle(self) -> None:
        self._dice.shuffle(self._racks)
        for rack in self._in_order:
            self._dice.shuffle(rack.fenced.brokers)
            self._dice.shuffle(rack.unfenced.brokers)
