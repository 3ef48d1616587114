"""A member of a group at work on the source: it reads what it is given from where the group has come, and either
commits how far it has come, or copies everything to the sink in transactions that carry its offsets.

Works until told to stop, and then until its group has consumed everything.
"""

from __future__ import annotations

from dataclasses import dataclass

from ottla.errors import KafkaError, error_class
from ottla.sim.clients.client import Client, Topic
from ottla.sim.clients.group_offsets import commit_offsets, fetch_offsets
from ottla.sim.clients.link import LOST
from ottla.sim.clients.membership import MUST_REJOIN, ClassicMembership, ConsumerMembership, Membership
from ottla.sim.clients.transactor import GivenUp, Transactor
from ottla.sim.history import PartitionHistory, Value, Violation, read_values
from ottla.sim.ledger import NO_OFFSET, SINK, SOURCE, Copy, Fate, Ledger
from ottla.wire.messages.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic
from ottla.wire.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse

ISOLATION_VERSION = 4
KEY_TYPE_VERSION = 1
KEYS_VERSION = 4
GROUP, TRANSACTION = 0, 1
_FETCH, _FIND = 1, 10


@dataclass(slots=True)
class Position:
    """Where a partition is read next, and from where on that is not committed yet."""

    history: PartitionHistory
    next: int
    committed: int


class Worker(Client):
    """See the module. `transactional_id` is None for one that only commits."""

    ledger: Ledger
    group: str
    has_consumer_protocol = False
    transactional_id: str | None = None
    has_epoch_bump = True
    transaction_timeout_ms = 30_000
    abort_chance = 0.2
    request_timeout_ms = 6_000.0  # more than a rebalance may take
    partition_max_bytes = 1 << 16
    max_wait_ms = 50
    is_replaced = False
    """Another works with its transactional id by now: it goes on until it notices."""
    is_leaving = False

    async def work(self) -> None:
        source, sink = await self._find_topics()
        await self._find_coordinator(self.group, GROUP)
        kind = ConsumerMembership if self.has_consumer_protocol else ClassicMembership
        self._member: Membership = kind(self, self.ledger, self.group, source)
        self._source = source
        self._positions: dict[int, Position] = {}
        self._tenure = -1
        self._had_error = False
        self._transactor: Transactor | None = None
        if self.transactional_id is not None:
            await self._find_coordinator(self.transactional_id, TRANSACTION)
            self._transactor = Transactor(
                self, self.ledger, self.transactional_id, sink, has_epoch_bump=self.has_epoch_bump
            )
            self._transactor.timeout_ms = self.transaction_timeout_ms
        while not self._is_finished():
            try:
                await self._step()
            except LOST as error:
                self.trace(f"{self.name}: {error}")
                await self.pause()
            except GivenUp as reason:
                self.trace(f"{self.name} gives its transaction up: {reason}")
                self.ledger.on_given_up(self.name)
                self._positions.clear()
                assert self._transactor is not None, "it had a transaction"
                self._transactor.give_up()
        self.ledger.on_given_up(self.name)
        try:
            await self._member.leave()
        except LOST as error:
            self.trace(f"{self.name} leaves without a word: {error}")

    def _is_finished(self) -> bool:
        if self.is_leaving or (self.is_replaced and (self.is_stopping or self._has_lost_its_epoch)):
            return True
        return self.is_stopping and self.ledger.has_consumed(self.group, self.ends())

    @property
    def _has_lost_its_epoch(self) -> bool:
        return self._transactor is not None and not self._transactor.is_ready

    def ends(self) -> dict[int, int]:
        """Where the source ends, as far as anybody was told."""
        return {
            index: self.history.partition(SOURCE, self._source.id, index).known_end
            for index in range(self._source.partition_count)
        }

    async def _find_topics(self) -> tuple[Topic, Topic]:
        while True:
            topics = await self.topics([SOURCE, SINK])
            if SOURCE in topics and SINK in topics:
                return topics[SOURCE], topics[SINK]
            await self.pause()

    async def _find_coordinator(self, key: str, key_type: int) -> None:
        """Ask who coordinates until somebody does; there is only one node, but it makes the topic."""
        while True:
            try:
                await self.link()
                version = self.version_of(_FIND, first=KEY_TYPE_VERSION)
                request = FindCoordinatorRequest(key_type=key_type)
                if version >= KEYS_VERSION:
                    request.coordinator_keys = [key]
                else:
                    request.key = key
                response: FindCoordinatorResponse = await self.ask(request, version)
            except LOST:
                await self.pause()
                continue
            code = response.coordinators[0].error_code if version >= KEYS_VERSION else response.error_code
            if not code:
                return
            self._check("FindCoordinator", code)
            await self.pause()

    # One round

    async def _step(self) -> None:
        if self._transactor is not None and not self._transactor.is_ready:
            await self._transactor.begin()
            if not self._transactor.is_ready:
                await self.pause()
                return
        has_work = await self._member.tick()
        if self._tenure != self._member.tenure:
            self._tenure = self._member.tenure
            self._positions.clear()
        for index in [index for index in self._positions if index not in self._member.owned]:
            del self._positions[index]
        if not has_work:
            await self.pause(2)
            return
        if not await self._find_positions():
            await self.pause()
            return
        found = await self._fetch()
        is_behind = self._transactor is None and any(one.next > one.committed for one in self._positions.values())
        if not found and not is_behind:
            if self.max_wait_ms == 0 or self._had_error:
                await self.pause()
            return
        for index, values in found.items():
            position = self._positions[index]
            self.ledger.on_delivered(self.name, self.group, index, position.next, max(values) + 1)
            position.next = max(values) + 1
        if self._transactor is not None:
            await self._copy(self._transactor, found)
        else:
            await self._commit()

    async def _find_positions(self) -> bool:
        """Ask where the group has come in partitions that are new here; whether all are known."""
        missing = [index for index in self._member.owned if index not in self._positions]
        if not missing:
            return True
        member = self._member
        offsets = await fetch_offsets(
            self,
            self.ledger,
            self.group,
            self._source,
            missing,
            is_stable=self._transactor is not None,
            member=(member.member_id, member.epoch) if self.has_consumer_protocol else None,
            on_refused=self._on_refused,
        )
        for index, offset in offsets.items():
            history = self.history.partition(SOURCE, self._source.id, index)
            start = 0 if offset == NO_OFFSET else offset
            self._positions[index] = Position(history, start, start)
        return len(offsets) == len(missing)

    async def _fetch(self) -> dict[int, dict[int, Value]]:
        """Records of the partitions that are owned, by partition and offset."""
        self._had_error = False
        asked = [
            FetchPartition(partition=index, fetch_offset=one.next, partition_max_bytes=self.partition_max_bytes)
            for index, one in self._positions.items()
        ]
        request = FetchRequest(
            max_wait_ms=self.max_wait_ms,
            min_bytes=1,
            max_bytes=1 << 20,
            isolation_level=self.chance.randrange(2),
            session_epoch=-1,
            topics=[FetchTopic(SOURCE, self._source.id, asked)],
        )
        await self.link()
        response: FetchResponse = await self.ask(request, self.version_of(_FETCH, first=ISOLATION_VERSION))
        if response.error_code:
            self._had_error = True
            self._check("Fetch", response.error_code)
            return {}
        found: dict[int, dict[int, Value]] = {}
        for partition in (one for topic in response.responses for one in topic.partitions):
            position = self._positions[partition.partition_index]
            if partition.error_code:
                self._had_error = True
                self._check("Fetch", partition.error_code)
                continue
            values = read_values(
                position.history,
                partition.records or b"",  # type: ignore[arg-type]
                position=position.next,
                high_watermark=partition.high_watermark,
            )
            for offset, value in values.items():
                self.history.on_shown(position.history, offset, value)
            if values:
                found[partition.partition_index] = values
        return found

    async def _commit(self) -> None:
        offsets = {index: one.next for index, one in self._positions.items() if one.next > one.committed}
        stored = await commit_offsets(self, self.ledger, self._member, offsets, on_refused=self._on_refused)
        for index in stored:
            self._positions[index].committed = offsets[index]
        if len(stored) < len(offsets):
            await self.pause()

    async def _copy(self, transactor: Transactor, found: dict[int, dict[int, Value]]) -> None:
        """Copy records in one transaction; what is aborted is read again."""
        transaction = self.ledger.begin(self.name, self.group)
        copies: dict[int, list[Copy]] = {}
        for index, values in found.items():
            for offset in values:
                place = self.chance.randrange(transactor.sink.partition_count)
                copies.setdefault(place, []).append(Copy(self.group, transaction.number, index, offset))
        transaction.copies.update(copy for some in copies.values() for copy in some)
        transaction.offsets = {index: self._positions[index].next for index in found}
        is_commit = self.chance.random() >= self.abort_chance
        await transactor.run(transaction, copies, self._member, is_commit=is_commit)
        if transaction.fate is Fate.COMMITTED:
            for index, offset in transaction.offsets.items():
                self._positions[index].committed = offset
        else:
            for position in self._positions.values():
                position.next = position.committed

    def _on_refused(self, what: str, code: int) -> None:
        """A request to the coordinator was answered with an error."""
        error = self._check(what, code, *MUST_REJOIN)
        if error in MUST_REJOIN:
            self._member.on_refused(error)

    def _check(self, what: str, code: int, *allowed: type[KafkaError]) -> type[KafkaError]:
        error = error_class(code)
        self.trace(f"{self.name}: {what} is answered with {error.name}")
        self.history.count(f"worker: {error.name}")
        if not error.retriable and error not in allowed:
            raise Violation(f"{self.name}: {what} is answered with {error.name}")
        return error
