"""What groups and transactions were promised and shown: the judge of coordinators, as `History` is of partitions.

A pipeline reads `SOURCE` in groups. A plain group commits offsets; a transactional one writes each record once more to
`SINK` and commits its offsets in the same transaction, some of which are aborted. After Jepsen's workload for Kafka:

- a committed offset never goes back, and is one that somebody committed, in a transaction that may have been committed;
- nobody is shown a record of a transaction that was aborted, or that nobody has asked to commit yet, nor one at or
  above the last stable offset, which never goes back; what was shown once is shown every time, at the same offset;
- in the end every source record is in the sink once for each transactional group: none lost, none twice; and of each
  transaction all records are there, or none;
- a producer that was replaced gets nothing acknowledged any more;
- a member that is heard of is not forgotten, and no partition has two owners at a time.

Where a client cannot know whether its commit took place (the connection broke, the client died), both are right, for
all of it.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import NamedTuple

from ottla.sim.history import Violation
from ottla.types import Buffer

SOURCE, SINK = "source", "sink"
NO_OFFSET = -1


class Fate(Enum):
    """What may be seen of a transaction."""

    OPEN = "open"
    IN_DOUBT = "in doubt"
    """Somebody has asked to commit it, and has no answer, or never will."""
    COMMITTED = "committed"
    ABORTED = "aborted"


class Copy(NamedTuple):
    """A record of the sink: the copy of a source record by a group, in a transaction."""

    group: str
    transaction: int
    partition: int
    """Of the source, as is the offset."""
    offset: int

    def encode(self) -> bytes:
        return f"{self.group}|{self.transaction}|{self.partition}|{self.offset}".encode()

    @classmethod
    def decode(cls, data: Buffer | None) -> Copy:
        try:
            group, transaction, partition, offset = bytes(data or b"").decode().split("|")
            return cls(group, int(transaction), int(partition), int(offset))
        except ValueError:
            raise Violation(f"{SINK} has a record that nobody sent: {bytes(data or b'')[:80]!r}") from None


@dataclass(eq=False, slots=True)
class TransactionHistory:
    """One transaction of one client."""

    number: int
    client: str
    group: str
    fate: Fate = Fate.OPEN
    copies: set[Copy] = field(default_factory=set)
    """What was written in it."""
    offsets: dict[int, int] = field(default_factory=dict)
    """The offsets of the group that it commits, by partition of the source."""

    def __str__(self) -> str:
        return f"transaction {self.number} of {self.client}"


@dataclass(slots=True)
class Committed:
    """The committed offset of a group in one partition of the source."""

    acknowledged: int = NO_OFFSET
    in_doubt: set[int] = field(default_factory=set)
    """Offsets whose commit was sent and not answered yet."""
    late: set[int] = field(default_factory=set)
    """Offsets whose commit was given up without an answer: it may take place at any time, even after later ones."""
    delivered_to: int = 0
    """Every record below was given to some member of the group."""


class Claim(NamedTuple):
    """A member's claim to a partition, good until its session ends for want of heartbeats."""

    member: str
    until_ms: int


class Ledger:
    """All groups and transactions of a run. `now_ms` is a monotonic clock for all clients."""

    def __init__(self, now_ms: Callable[[], int]) -> None:
        self.now_ms = now_ms
        self.groups: dict[str, dict[int, Committed]] = {}
        self.transactional_groups: list[str] = []
        self.transactions: list[TransactionHistory] = []
        self.sink: dict[tuple[int, int], Copy] = {}
        """What readers were shown, by partition and offset."""
        self._places: dict[tuple[str, int, int], tuple[int, int]] = {}
        """Where the copy of each source record is, for each group."""
        self._producers: dict[str, tuple[int, int]] = {}
        """The newest producer id and epoch that was given out for each transactional id."""
        self._claims: dict[tuple[str, int], Claim] = {}
        self.stale_count = 0
        """How many answers were older than what was acknowledged, as they may be."""

    def add_group(self, name: str, partition_count: int, *, is_transactional: bool) -> None:
        self.groups[name] = {index: Committed() for index in range(partition_count)}
        if is_transactional:
            self.transactional_groups.append(name)

    # Offsets

    def on_commit_sent(self, group: str, offsets: Mapping[int, int]) -> None:
        """From now on they may be there."""
        for index, offset in offsets.items():
            self.groups[group][index].in_doubt.add(offset)

    def on_commit_acknowledged(self, group: str, offsets: Mapping[int, int]) -> None:
        for index, offset in offsets.items():
            known = self.groups[group][index]
            known.acknowledged = max(known.acknowledged, offset)
            known.in_doubt.discard(offset)

    def on_commit_lost(self, group: str, offsets: Mapping[int, int]) -> None:
        """Nobody will ever be told what became of it, or of one of those that were sent for it."""
        for index, offset in offsets.items():
            self.groups[group][index].late.add(offset)

    def on_commit_refused(self, group: str, offsets: Mapping[int, int]) -> None:
        """They were not stored, and never will be."""
        for index, offset in offsets.items():
            self.groups[group][index].in_doubt.discard(offset)

    def before_fetch(self, group: str) -> dict[int, int]:
        """The lowest offset that a fetch sent now may be answered with, for each partition."""
        return {index: known.acknowledged for index, known in self.groups[group].items()}

    def acknowledged(self) -> dict[str, dict[int, int]]:
        """The offsets that are acknowledged by now, of all groups."""
        return {group: self.before_fetch(group) for group in self.groups}

    def on_offset_fetched(
        self,
        who: str,
        group: str,
        index: int,
        offset: int,
        before: Mapping[int, int],
        *,
        floors: Sequence[Mapping[int, int]] = (),
    ) -> None:
        """`floors` are the lowest offsets that coordinators which were replaced may answer with: see
        `checks/coordinators.py`."""
        known = self.groups[group][index]
        # One that was acknowledged meanwhile is no longer in doubt, and not below what was known before.
        if offset in known.in_doubt or offset in known.late or before[index] <= offset <= known.acknowledged:
            known.acknowledged = max(known.acknowledged, offset)  # what is shown counts, answered or not
            return
        if offset < before[index] and any(floor[index] <= offset for floor in floors):
            self.stale_count += 1
            return
        if offset < before[index]:
            raise Violation(
                f"{who} is told that {group} has committed {offset} of {SOURCE}-{index}, and it was {before[index]}"
            )
        raise Violation(
            f"{who} is told that {group} has committed {offset} of {SOURCE}-{index}, which nobody asked for: "
            f"{known.acknowledged} is acknowledged, in doubt are {sorted(known.in_doubt | known.late)}"
        )

    def on_delivered(self, who: str, group: str, index: int, start: int, end: int) -> None:
        """A member was given the records of a partition from `start` to `end`."""
        known = self.groups[group][index]
        if start > known.delivered_to:
            raise Violation(
                f"{who} of {group} goes on at {start} of {SOURCE}-{index}, and nobody was given what is between "
                f"{known.delivered_to} and that"
            )
        known.delivered_to = max(known.delivered_to, end)

    def has_consumed(self, group: str, ends: Mapping[int, int]) -> bool:
        """Whether the offsets of a group are acknowledged up to these ends."""
        return all(end == 0 or self.groups[group][index].acknowledged >= end for index, end in ends.items())

    # Transactions

    def begin(self, client: str, group: str) -> TransactionHistory:
        transaction = TransactionHistory(len(self.transactions), client, group)
        self.transactions.append(transaction)
        return transaction

    def on_ending(self, transaction: TransactionHistory, *, is_commit: bool) -> None:
        """Its end is asked for now."""
        if not is_commit:
            transaction.fate = Fate.ABORTED
        elif transaction.fate is Fate.OPEN:
            transaction.fate = Fate.IN_DOUBT
            self.on_commit_sent(transaction.group, transaction.offsets)

    def on_committed(self, transaction: TransactionHistory) -> None:
        """Its commit was acknowledged."""
        transaction.fate = Fate.COMMITTED
        self.on_commit_acknowledged(transaction.group, transaction.offsets)

    def on_refused(self, transaction: TransactionHistory) -> None:
        """Its commit was asked for once and refused: it is as good as aborted."""
        if any(copy in transaction.copies for copy in self.sink.values()):
            raise Violation(f"{transaction} was not committed, and was shown")
        transaction.fate = Fate.ABORTED
        self.on_commit_refused(transaction.group, transaction.offsets)

    def on_given_up(self, client: str) -> None:
        """A client is gone: what it has begun, nobody can commit."""
        for one in self.transactions:
            if one.client == client and one.fate is Fate.OPEN:
                one.fate = Fate.ABORTED

    # Producers

    def on_producer(self, transactional_id: str, producer: tuple[int, int]) -> None:
        """A producer was told its id and epoch: those of lower epochs are fenced from now on."""
        known = self._producers.get(transactional_id)
        if known is not None and known[0] != producer[0]:
            raise Violation(f"{transactional_id} was producer {known[0]} and is now {producer[0]}, without need")
        if known is None or known[1] < producer[1]:
            self._producers[transactional_id] = producer

    def is_fenced(self, transactional_id: str, producer: tuple[int, int]) -> bool:
        """Whether a newer producer was told its epoch, so that nothing of this one may be acknowledged from now on."""
        return self._producers[transactional_id][1] > producer[1]

    # The sink

    def on_read(self, who: str, index: int, offset: int, copy: Copy) -> None:
        """A reader of committed records was shown one."""
        place = (index, offset)
        known = self.sink.setdefault(place, copy)
        if known != copy:
            raise Violation(f"{SINK}-{index} offset {offset} is served to {who} as {copy} and was {known} before")
        if not 0 <= copy.transaction < len(self.transactions):
            raise Violation(f"{who} is shown {copy} at {SINK}-{index} {offset}, which nobody sent")
        transaction = self.transactions[copy.transaction]
        if copy not in transaction.copies:
            raise Violation(f"{who} is shown {copy} at {SINK}-{index} {offset}, which nobody sent")
        if transaction.fate in (Fate.OPEN, Fate.ABORTED):
            raise Violation(
                f"{who} is shown {copy} at {SINK}-{index} {offset}, and {transaction} is {transaction.fate.value}"
            )
        first = self._places.setdefault((copy.group, copy.partition, copy.offset), place)
        if first != place:
            raise Violation(
                f"{copy.group} has copied {SOURCE}-{copy.partition} {copy.offset} to {first} and to {place}"
            )

    def on_read_through(self, who: str, index: int, end: int, seen: Collection[int]) -> None:
        """A reader has read a partition of the sink from its start to `end`: what was seen before is there again."""
        for at, offset in self.sink:
            if at == index and offset < end and offset not in seen:
                raise Violation(f"{who} is not shown {self.sink[at, offset]} at {SINK}-{at} {offset}, shown before")

    def missing(self, ends: Mapping[int, int]) -> str | None:
        """What is not in the sink yet, of sources that end there: None when everything is there once."""
        shown: dict[int, int] = {}
        for copy in self.sink.values():
            shown[copy.transaction] = shown.get(copy.transaction, 0) + 1
        for one in self.transactions:
            count = shown.get(one.number, 0)
            if count < len(one.copies) and (count or one.fate is Fate.COMMITTED):
                return f"{one} is {one.fate.value}, and {count} of its {len(one.copies)} records are there"
        for group in self.transactional_groups:
            for index, end in ends.items():
                for offset in range(end):
                    if (group, index, offset) not in self._places:
                        return f"{group} has consumed {SOURCE}-{index} to {end}, and no copy of {offset} is there"
        return None

    # Members

    def claim(self, group: str, member: str, indexes: Collection[int], until_ms: int) -> None:
        """A member owns partitions, until a time after which its group may think that it is gone."""
        now_ms = self.now_ms()
        for index in indexes:
            other = self._claims.get((group, index))
            if other is not None and other.member != member and other.until_ms > now_ms:
                raise Violation(f"{SOURCE}-{index} is given to {member} of {group} and {other.member} still has it")
            self._claims[group, index] = Claim(member, until_ms)

    def release(self, group: str, member: str, kept: Collection[int] = ()) -> None:
        """A member gives up, or is about to give up, all partitions but those."""
        for key, claim in list(self._claims.items()):
            if key[0] == group and claim.member == member and key[1] not in kept:
                del self._claims[key]
