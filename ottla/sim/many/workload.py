"""The clients of a cluster's run: Ottla's own, on hosts of their own, each telling the checkers what it sees.

Writers and readers of `RECORDS`; a group that only commits and workers that copy `SOURCE` to `SINK` in transactions; a
reader of what is committed there; an auditor of the groups' offsets. Each goes on after every error of Kafka's, and
comes to an end soon after `is_stopping`, when it has seen what it must see.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from random import Random
from typing import Any

from ottla.client import AsyncAdmin, AsyncConsumer, AsyncProducer, Delivery, TopicPartition
from ottla.coordinator import coordinator_partition
from ottla.errors import KafkaError
from ottla.sim.checks import AcknowledgedRecords, Coordinators
from ottla.sim.history import Value, Violation
from ottla.sim.ledger import NO_OFFSET, Copy, Ledger
from ottla.sim.many.scenario import RECORDS, SINK, SOURCE
from ottla.sim.world import VirtualNodeWorld

POLL_S = 0.5
REQUEST_TIMEOUT_MS = 4_000
PATIENCE_MS = 600_000
"""How long a producer tries to deliver: longer than any trouble."""
RETRY_MS = 300
BACKOFF_MS_MIN = 80
"""What a client waits before it sends something again: `retry.backoff.ms`, or by chance a fifth less."""
ABORT_CHANCE = 0.15
WRITES_MAX = 250
IN_FLIGHT_MAX = 20
TRIMMED_MAX = 0.8
"""How much of a log is deleted at most: a reader must find the last of what it waits for."""


@dataclass(slots=True)
class Shared:
    """What all clients of a run know together."""

    servers: str
    records: AcknowledgedRecords
    ledger: Ledger
    coordinators: Coordinators
    coordinator_count: int
    """The partitions of the groups' topic."""
    partition_count: int
    complain: Callable[[Violation], None]
    trace: Callable[[str], None]
    count: Callable[[str], None]

    def source_ends(self) -> dict[int, int]:
        """How far `SOURCE` is known to reach, by partition."""
        return {index: self.records.known_end(f"{SOURCE}-{index}") for index in range(self.partition_count)}


class Worker:
    """One client process."""

    def __init__(self, world: VirtualNodeWorld, chance: Random, name: str, shared: Shared) -> None:
        self.world = world
        self.chance = chance
        self.name = name
        self.shared = shared
        self.is_stopping = False
        self.is_done = False

    def start(self) -> None:
        self.world.tasks.spawn(self._run(), self.name)

    async def _run(self) -> None:
        try:
            while not self.is_done:
                try:
                    await self.work()
                    self.is_done = True
                except (KafkaError, TimeoutError) as error:
                    self.shared.count(f"{type(self).__name__}: {type(error).__name__}")
                    self.shared.trace(f"{self.name} begins again: {type(error).__name__}: {error}")
                    await self.world.tasks.sleep_ms(RETRY_MS)
        except Violation as violation:
            self.shared.complain(violation)
        self.shared.trace(f"{self.name} is done")

    async def work(self) -> None:
        """Work until there is nothing left to do. Called again after an error of Kafka's."""
        raise NotImplementedError

    @property
    def common(self) -> dict[str, Any]:
        return {"bootstrap_servers": self.shared.servers, "request_timeout_ms": REQUEST_TIMEOUT_MS}

    def consumer(self, **settings: Any) -> AsyncConsumer[bytes, bytes]:
        return AsyncConsumer(self.common | {"auto_offset_reset": "earliest"} | settings, world=self.world.as_client)


class Writer(Worker):
    """Writes to one topic, with what is promised by its acks."""

    topic = RECORDS
    acks = -1
    is_idempotent = True
    interval_ms = 100.0

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self._number = 0
        self._waiting = 0

    async def work(self) -> None:
        async with AsyncProducer(
            self.common | {"acks": self.acks, "enable_idempotence": self.is_idempotent, "max_block_ms": 60_000,
                           "delivery_timeout_ms": PATIENCE_MS, "linger_ms": 5},
            world=self.world.as_client,
        ) as producer:  # fmt: skip
            while not self.is_stopping or self._waiting:
                if not self.is_stopping and self._number < WRITES_MAX and self._waiting < IN_FLIGHT_MAX:
                    await self._write(producer)
                await self.world.tasks.sleep_ms(self.interval_ms * self.chance.uniform(0, 2))

    async def _write(self, producer: AsyncProducer) -> None:
        index = self.chance.randrange(self.shared.partition_count)
        now_ms = self.world.clock.now_ms()
        value = Value(self.name, self._number, now_ms, self.is_idempotent)
        self._number += 1
        partition = f"{self.topic}-{index}"
        self.shared.records.on_sent(partition, value)
        data = value.encode(self.chance.choice((30, 200, 2_000)))
        delivery = await producer.send(self.topic, data, partition=index, timestamp_ms=now_ms)
        self._waiting += 1
        self.world.tasks.spawn(self._await(delivery, index, value), f"{self.name} {value.number}")

    async def _await(self, delivery: Delivery, index: int, value: Value) -> None:
        partition = f"{self.topic}-{index}"
        try:
            told = await delivery
            if self.acks:
                epoch = delivery[0].leader_epoch
                self.shared.records.on_acknowledged(partition, told.offset, value, acks=self.acks, leader_epoch=epoch)
                self.shared.count(f"acknowledged with acks={self.acks}")
        except KafkaError as error:
            self.shared.count(f"Writer: {type(error).__name__}")
        except Violation as violation:
            self.shared.complain(violation)
        finally:
            self._waiting -= 1


class Reader(Worker):
    """Reads a topic that writers write to, until it has seen all that is known of it."""

    topic = RECORDS

    async def work(self) -> None:
        records = self.shared.records
        partitions = [TopicPartition(self.topic, index) for index in range(self.shared.partition_count)]
        ends: dict[int, int] = dict.fromkeys(range(self.shared.partition_count), 0)
        async with self.consumer() as consumer:
            await consumer.assign(partitions)
            while not (
                self.is_stopping
                and all(end >= records.known_end(f"{self.topic}-{index}") for index, end in ends.items())
            ):
                for record in await consumer.poll(POLL_S):
                    if record.offset < ends[record.partition]:
                        raise Violation(f"{self.name} is given {record.offset} after {ends[record.partition]}")
                    ends[record.partition] = record.offset + 1
                    records.on_shown(f"{self.topic}-{record.partition}", record.offset, Value.decode(record.value))
                    self.shared.count("shown")


class Committer(Worker):
    """A member of a group that commits what it was given."""

    group = "committers"
    protocol = "classic"

    async def work(self) -> None:
        ledger = self.shared.ledger
        async with self.consumer(
            group_id=self.group, group_protocol=self.protocol, enable_auto_commit=False, max_poll_records=20
        ) as consumer:
            await consumer.subscribe(SOURCE)
            while not (self.is_stopping and ledger.has_consumed(self.group, self.shared.source_ends())):
                ends: dict[int, int] = {}
                for record in await consumer.poll(POLL_S):
                    start = ends.get(record.partition, record.offset)
                    ledger.on_delivered(self.name, self.group, record.partition, start, record.offset + 1)
                    ends[record.partition] = record.offset + 1
                if ends:
                    await self._commit(consumer, ends)

    async def _commit(self, consumer: AsyncConsumer[bytes, bytes], ends: Mapping[int, int]) -> None:
        ledger = self.shared.ledger
        begun_ms = ledger.now_ms()
        ledger.on_commit_sent(self.group, ends)
        try:
            await consumer.commit({TopicPartition(SOURCE, index): end for index, end in ends.items()})
        except (KafkaError, TimeoutError):
            ledger.on_commit_lost(self.group, ends)
            raise
        ledger.on_commit_acknowledged(self.group, ends)
        if ledger.now_ms() - begun_ms >= BACKOFF_MS_MIN:
            # Perhaps sent twice: what was given up with its connection may still be under way, and comes back late.
            ledger.on_commit_lost(self.group, ends)
        self.shared.count("offsets committed")


class Copier(Worker):
    """A member of a group that copies what it was given, each poll in one transaction with its offsets."""

    group = "copiers"
    transactional_id = "copier"

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self._life = 0

    async def work(self) -> None:
        while not (self.is_stopping and self._has_consumed()):
            await self._copy_on()

    def _has_consumed(self) -> bool:
        return self.shared.ledger.has_consumed(self.group, self.shared.source_ends())

    async def _copy_on(self) -> None:
        """Copy until a transaction is aborted: what it had is then read again, from the committed offsets."""
        self._life += 1
        who = f"{self.name} life {self._life}"
        producer = AsyncProducer(
            self.common | {"transactional_id": self.transactional_id, "transaction_timeout_ms": 8_000,
                           "max_block_ms": 30_000, "delivery_timeout_ms": 20_000},
            world=self.world.as_client,
        )  # fmt: skip
        consumer = self.consumer(
            group_id=self.group, enable_auto_commit=False, isolation_level="read_committed", max_poll_records=10
        )
        try:
            await producer.init_transactions()
            await consumer.subscribe(SOURCE)
            while not (self.is_stopping and self._has_consumed()) and await self._copy(producer, consumer, who):
                pass
        finally:
            self.shared.ledger.on_given_up(who)
            await consumer.close(1.0)
            await producer.close(1.0)

    async def _copy(self, producer: AsyncProducer, consumer: AsyncConsumer[bytes, bytes], who: str) -> bool:
        """One transaction; whether it was committed, or there was nothing to do."""
        ledger = self.shared.ledger
        records = await consumer.poll(POLL_S)
        if not records:
            return True
        transaction = ledger.begin(who, self.group)
        await producer.begin_transaction()
        for record in records:
            copy = Copy(self.group, transaction.number, record.partition, record.offset)
            transaction.copies.add(copy)
            transaction.offsets[record.partition] = record.offset + 1
            await producer.send(SINK, copy.encode(), partition=record.partition)
        ends = {TopicPartition(SOURCE, index): end for index, end in transaction.offsets.items()}
        await producer.send_offsets_to_transaction(ends, consumer.group_metadata())
        is_commit = self.chance.random() >= ABORT_CHANCE
        ledger.on_ending(transaction, is_commit=is_commit)
        if not is_commit:
            await producer.abort_transaction()
            self.shared.count("transactions aborted")
            return False
        await producer.commit_transaction()
        ledger.on_committed(transaction)
        self.shared.count("transactions committed")
        return True


class SinkReader(Worker):
    """Reads what is committed in `SINK`, until every record of `SOURCE` that was consumed is there once.

    And until it has itself seen what any reader was shown.
    """

    async def work(self) -> None:
        ledger = self.shared.ledger
        seen: dict[int, set[int]] = {index: set() for index in range(self.shared.partition_count)}
        async with self.consumer(isolation_level="read_committed") as consumer:
            await consumer.assign([TopicPartition(SINK, index) for index in seen])
            while not (
                self.is_stopping
                and ledger.missing(self.shared.source_ends()) is None
                and all(offset in seen[index] for index, offset in ledger.sink)
            ):
                for record in await consumer.poll(POLL_S):
                    ledger.on_read(self.name, record.partition, record.offset, Copy.decode(record.value))
                    seen[record.partition].add(record.offset)
                    self.shared.count("copies shown")
                for index, offsets in seen.items():
                    ledger.on_read_through(self.name, index, max(offsets, default=-1) + 1, offsets)


class Trimmer(Worker):
    """Deletes the oldest records, and leaves the newest of what is known to readers."""

    topic = RECORDS

    async def work(self) -> None:
        async with AsyncAdmin(self.common, world=self.world.as_client) as admin:
            while not self.is_stopping:
                index = self.chance.randrange(self.shared.partition_count)
                end = self.shared.records.known_end(f"{self.topic}-{index}")
                offset = int(end * self.chance.uniform(0, TRIMMED_MAX))
                (await admin.delete_records({TopicPartition(self.topic, index): offset})).all()
                self.shared.count("times that records were deleted")
                await self.world.tasks.sleep_ms(2_000 * self.chance.uniform(0.5, 1.5))


class Auditor(Worker):
    """Looks at the offsets of all groups, at least once: none goes back.

    It waits for open transactions, as a member does: a commit is acknowledged when it is decided, and until the marker
    has come to the group coordinator, which may be on another broker, the offset before it is still the one.
    """

    async def work(self) -> None:
        ledger = self.shared.ledger
        async with AsyncAdmin(self.common, world=self.world.as_client) as admin:
            while True:
                for group in ledger.groups:
                    await self._audit(admin, group)
                if self.is_stopping:
                    return
                await self.world.tasks.sleep_ms(500 * self.chance.uniform(0.5, 1.5))

    async def _audit(self, admin: AsyncAdmin, group: str) -> None:
        ledger = self.shared.ledger
        begun_ms, before = ledger.now_ms(), ledger.before_fetch(group)
        partitions = [TopicPartition(SOURCE, partition) for partition in range(self.shared.partition_count)]
        found = (await admin.list_consumer_group_offsets({group: partitions}, require_stable=True))[group].result()
        index = coordinator_partition(group, self.shared.coordinator_count)
        floors = self.shared.coordinators.floors(index, group, since_ms=begun_ms)
        for partition, committed in found.items():  # one that is not stable yet is left out
            offset = NO_OFFSET if committed is None else committed.offset
            ledger.on_offset_fetched(self.name, group, partition.partition, offset, before, floors=floors)
            self.shared.count("offsets audited")
