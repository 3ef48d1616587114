"""Everything that happens to a node's logs, drawn from a seed, with the model told before and after each step.

`Workload.step` does one operation. Whatever it raises that is not the crash or the failure that the test has planned
is a finding. An operation that a `KafkaStorageError` ended stays under way in the model: its directory is offline, and
what became of it is known after the next start.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from random import Random
from typing import Protocol

from ottla.errors import CorruptMessage, InvalidProducerEpoch, KafkaStorageError, OutOfOrderSequenceNumber
from ottla.records import ControlType
from ottla.storage import AppendOrigin, Log, LogManager
from ottla.types import TopicPartition, Uuid
from ottla.world import World
from tests.crash.recovered import check_log
from tests.crash.shapes import SHAPES_BY_WEIGHT, topic_config
from tests.crash.traffic import Client, Traffic
from tests.support.log_model import Existence, NodeModel, PartitionModel, StoredBatch, as_leader_stores

PARTITIONS_MAX = 5


class MovableClock(Protocol):
    """A clock that the workload lets run."""

    def advance(self, ms: int) -> None: ...

    def now_ms(self) -> int: ...


@dataclass(slots=True)
class Operation:
    """One kind of operation, how often it comes, and the method that does it."""

    name: str
    weight: int
    run: Callable[[], str]


class Workload:
    """One life of a node, from a start to a stop or a crash."""

    def __init__(
        self, world: World, clock: MovableClock, manager: LogManager, model: NodeModel, random: Random
    ) -> None:
        self._world = world
        self._clock = clock
        self.manager = manager
        self.model = model
        self.random = random
        self.wants_restart = False
        self.current = "start"
        """The operation under way."""
        self._traffic = {name: Traffic(partition, random) for name, partition in model.partitions.items()}
        assert manager.cleaner is not None, "the workload compacts logs"
        self._cleaner = manager.cleaner
        self._operations = [
            Operation("append", 30, self._append),
            Operation("append", 14, self._append_idempotent),
            Operation("append", 14, self._append_transactional),
            Operation("append", 6, self._append_again),
            Operation("append", 3, self._append_wrong),
            Operation("end transaction", 10, self._end_transaction),
            Operation("roll", 5, self._roll),
            Operation("flush", 6, self._flush),
            Operation("flush", 2, self._flush_due),
            Operation("chores", 6, self._chores),
            Operation("checkpoint", 5, self._checkpoint),
            Operation("retention", 4, self._retention),
            Operation("delete records", 3, self._delete_records),
            Operation("truncate", 3, self._truncate),
            Operation("compaction", 9, self._clean),
            Operation("high watermark", 10, self._advance_high_watermark),
            Operation("leadership", 3, self._change_leadership),
            Operation("create topic", 3, self._create),
            Operation("delete topic", 2, self._delete),
            Operation("check", 2, self._check),
            Operation("restart", 1, self._restart),
        ]

    @property
    def operation_names(self) -> list[str]:
        return sorted({operation.name for operation in self._operations} - {"check", "high watermark", "leadership"})

    def step(self, name: str | None = None) -> None:
        """Do the next operation, or one of a kind."""
        random = self.random
        choices = [one for one in self._operations if name is None or one.name == name]
        if not self._live():
            choices = [one for one in self._operations if one.name == "create topic"]
        operation = random.choices(choices, [one.weight for one in choices])[0]
        self.current = operation.name
        self._clock.advance(random.choice((0, 1, 20, 300)))
        place = len(self.model.operations)
        self.model.operations.append(f"{operation.name}: under way")
        try:
            told = operation.run()
        except KafkaStorageError as error:
            told = f"failed: {error}"
            if not self.offline:
                raise AssertionError(f"{operation.name} failed with every directory online: {error}") from error
            self.manager.handle_failures()
        self.model.operations[place] = f"{self._clock.now_ms() % 10_000_000:>7}  {operation.name}: {told}"

    @property
    def offline(self) -> set[str]:
        return {directory.path for directory in self.manager.directories if directory.is_offline}

    # Choices

    def _live(self) -> list[PartitionModel]:
        offline = self.offline
        return [
            partition
            for partition in self.model.partitions.values()
            if partition.existence is Existence.LIVE and partition.directory not in offline
        ]

    def _one(self) -> tuple[PartitionModel, Log]:
        partition = self.random.choice(self._live())
        return partition, self.manager.logs[partition.partition]

    # Appends

    def _append(self) -> str:
        partition, log = self._one()
        if not partition.is_leader:
            return self._append_as_follower(partition, log)
        return self._append_as_leader(partition, log, self._traffic[partition.partition].batch(self._clock.now_ms()))

    def _append_idempotent(self) -> str:
        partition, log = self._one()
        traffic = self._traffic[partition.partition]
        client = traffic.client()
        if not partition.is_leader or client.is_in_transaction:
            return self._append()
        return self._append_of(partition, log, client, is_transactional=False)

    def _append_transactional(self) -> str:
        partition, log = self._one()
        if not partition.is_leader:
            return self._append()
        client = self._traffic[partition.partition].client()
        return self._append_of(partition, log, client, is_transactional=True)

    def _append_of(self, partition: PartitionModel, log: Log, client: Client, *, is_transactional: bool) -> str:
        now_ms = self._clock.now_ms()
        data = self._traffic[partition.partition].batch(now_ms, client=client, is_transactional=is_transactional)
        guard = None
        if is_transactional:
            guard = log.producers.start_verification(
                client.producer_id,
                sequence=client.next_sequence,
                producer_epoch=client.epoch,
                supports_epoch_bump=False,
                now_ms=now_ms,
            )
        first_offset = partition.end
        told = self._append_as_leader(partition, log, data, guard=guard)
        client.note(partition.end - first_offset, first_offset)
        client.is_in_transaction = is_transactional
        return told

    def _append_as_leader(
        self,
        partition: PartitionModel,
        log: Log,
        data: bytes,
        *,
        origin: AppendOrigin = AppendOrigin.CLIENT,
        guard: object | None = None,
        transaction_version: int = -1,
    ) -> str:
        stored = as_leader_stores(
            data,
            partition.config,
            base_offset=partition.end,
            leader_epoch=partition.leader_epoch,
            now_ms=self._clock.now_ms(),
        )
        partition.appending([stored])
        info = log.append_as_leader(
            bytearray(data),
            leader_epoch=partition.leader_epoch,
            origin=origin,
            verification_guard=guard,
            transaction_version=transaction_version,
        )
        assert (info.first_offset, info.last_offset) == (stored.base_offset, stored.last_offset), (
            f"{partition.partition}: {info} is the answer to {stored}"
        )
        assert not info.is_duplicate, f"{partition.partition}: {stored} is new and was taken for a duplicate"
        partition.appended()
        partition.claims(log.recovery_point)
        return f"{partition.partition} {stored.batch}"

    def _append_again(self) -> str:
        """A client did not get its answer and sends the batch once more."""
        partition, log = self._one()
        traffic = self._traffic[partition.partition]
        clients = [client for client in traffic.clients.values() if client.sent]
        if not clients or not partition.is_leader:
            return self._append()
        client = self.random.choice(clients)
        sent = self.random.choice(client.sent)
        data = traffic.batch(self._clock.now_ms(), client=client, base_sequence=sent.base_sequence, count=sent.count)
        info = log.append_as_leader(bytearray(data), leader_epoch=partition.leader_epoch)
        expected = (sent.first_offset, sent.first_offset + sent.count - 1)
        assert info.is_duplicate, f"{partition.partition}: {sent} of {client} was appended a second time, at {info}"
        assert (info.first_offset, info.last_offset) == expected, f"{partition.partition}: {info} answers {sent}"
        return f"{partition.partition} producer {client.producer_id} again from sequence {sent.base_sequence}"

    def _append_wrong(self) -> str:
        """A batch that must be refused, and leave nothing behind."""
        partition, log = self._one()
        traffic = self._traffic[partition.partition]
        if not partition.is_leader:
            return self._append()
        now_ms = self._clock.now_ms()
        clients = [client for client in traffic.clients.values() if client.sent and not client.is_in_transaction]
        if not clients or self.random.random() < 0.3:
            data = bytearray(traffic.batch(now_ms))
            data[-1] ^= 0x40
            why = "with a wrong checksum"
        elif self.random.random() < 0.5:
            client = self.random.choice(clients)
            data = bytearray(traffic.batch(now_ms, client=client, base_sequence=client.next_sequence + 2))
            why = f"of producer {client.producer_id} with a gap in its sequence"
        else:
            client = self.random.choice(clients)
            stale = Client(client.producer_id, client.epoch - 1, client.next_sequence)
            if stale.epoch < 0:
                return self._append()
            data = bytearray(traffic.batch(now_ms, client=stale))
            why = f"of producer {client.producer_id} with an old epoch"
        try:
            info = log.append_as_leader(data, leader_epoch=partition.leader_epoch)
        except (CorruptMessage, OutOfOrderSequenceNumber, InvalidProducerEpoch):
            assert log.log_end_offset == partition.end, f"{log}: a batch {why} was refused and is in the log"
            partition.claims(log.recovery_point)
            return f"{partition.partition} refused a batch {why}"
        raise AssertionError(f"{partition.partition}: a batch {why} was taken: {info}")

    def _end_transaction(self) -> str:
        partition, log = self._one()
        traffic = self._traffic[partition.partition]
        clients = traffic.open_clients()
        if not clients or not partition.is_leader:
            return self._append_transactional()
        client = self.random.choice(clients)
        kind = self.random.choice((ControlType.COMMIT, ControlType.ABORT))
        bumps_epoch = self.random.random() < 0.4
        data = traffic.marker(self._clock.now_ms(), client, kind, bumps_epoch=bumps_epoch)
        told = self._append_as_leader(
            partition,
            log,
            data,
            origin=AppendOrigin.COORDINATOR,
            transaction_version=2 if bumps_epoch else 1,
        )
        client.is_in_transaction = False
        if bumps_epoch:
            client.bump()
        return f"{kind.name} {told}"

    def _append_as_follower(self, partition: PartitionModel, log: Log) -> str:
        """Batches as they come from a leader, the last of them perhaps cut off."""
        traffic = self._traffic[partition.partition]
        stored = []
        offset = partition.end
        for _ in range(self.random.choice((1, 1, 2, 3))):
            client = traffic.client() if self.random.random() < 0.5 else None
            data = traffic.batch(
                self._clock.now_ms(),
                client=client,
                is_transactional=client is not None and client.is_in_transaction,
                base_offset=offset,
                leader_epoch=partition.leader_epoch,
            )
            stored.append(StoredBatch(data))
            if client is not None:
                client.note(stored[-1].next_offset - offset, offset)
            offset = stored[-1].next_offset
            if sum(len(one.data) for one in stored) > 1000:
                break
        partition.appending(stored)
        fetched = b"".join(one.data for one in stored)
        cut_off = stored[-1].data[: self.random.choice((0, 5, 40))]
        info = log.append_as_follower(fetched + cut_off, leader_epoch=partition.leader_epoch)
        assert (info.first_offset, info.last_offset) == (stored[0].base_offset, stored[-1].last_offset), (
            f"{partition.partition}: {info} is the answer to {stored}"
        )
        partition.appended()
        partition.claims(log.recovery_point)
        return (
            f"{partition.partition} as follower in {partition.leader_epoch}: [{info.first_offset}, {info.last_offset}]"
        )

    def _change_leadership(self) -> str:
        partition, log = self._one()
        partition.leader_epoch += self.random.choice((1, 1, 2))
        partition.is_leader = self.random.random() < 0.75
        if partition.is_leader:
            log.begin_epoch(partition.leader_epoch)
        return f"{partition.partition} is {'leader' if partition.is_leader else 'follower'} in {partition.leader_epoch}"

    def _advance_high_watermark(self) -> str:
        partition, log = self._one()
        if partition.high_watermark >= partition.end:
            return self._append()
        offset = self.random.choice((partition.end, self.random.randint(partition.high_watermark, partition.end)))
        log.update_high_watermark(offset)
        partition.high_watermark = log.high_watermark
        return f"{partition.partition} to {partition.high_watermark}"

    # Segments and durability

    def _roll(self) -> str:
        partition, log = self._one()
        segment = log.roll()
        partition.claims(log.recovery_point)
        return f"{partition.partition} at {segment.base_offset}"

    def _flush(self) -> str:
        partition, log = self._one()
        offset = self.random.choice((None, None, self.random.randint(partition.start, partition.end)))
        log.flush(offset, including_active=offset is None and self.random.random() < 0.3)
        partition.flushed(partition.end if offset is None else offset)
        partition.claims(log.recovery_point)
        return f"{partition.partition} to {offset}"

    def _flush_due(self) -> str:
        count = self.manager.flush_due()
        self._settle()
        return f"{count} logs"

    def _chores(self) -> str:
        self._clock.advance(self.random.choice((0, 500, 1500)))
        count = self.manager.run_chores()
        self.manager.handle_failures()
        self._settle()
        return f"{count} done"

    def _checkpoint(self) -> str:
        self.manager.checkpoint()
        for partition in self._settle():
            partition.checkpointed()
        return "all"

    def _settle(self) -> list[PartitionModel]:
        """Take over what the logs that still work say of themselves."""
        live = self._live()
        for partition in live:
            partition.claims(self.manager.logs[partition.partition].recovery_point)
        return live

    # The two ends

    def _retention(self) -> str:
        self._clock.advance(self.random.choice((0, 5000)))
        for partition in self._live():
            partition.moving_start(partition.high_watermark)
        count = self.manager.delete_old_segments()
        for partition in self._settle():
            partition.moved_start(self.manager.logs[partition.partition].log_start_offset)
        return f"{count} segments"

    def _delete_records(self) -> str:
        partition, log = self._one()
        if partition.high_watermark <= partition.start:
            return self._advance_high_watermark()
        offset = self.random.randint(partition.start + 1, partition.high_watermark)
        partition.moving_start(offset)
        assert log.delete_records(offset), f"{log}: records below {offset} were not deleted"
        partition.moved_start(offset)
        partition.claims(log.recovery_point)
        return f"{partition.partition} below {offset}"

    def _truncate(self) -> str:
        partition, log = self._one()
        if self.random.random() < 0.15:
            offset = self.random.choice((0, partition.start, partition.end, partition.end + 7))
            partition.restarting(offset)
            self.manager.truncate_fully_and_start_at(partition.partition, offset)
            partition.restarted(offset)
        else:
            lowest = partition.start if self.random.random() < 0.2 else max(partition.start, partition.end - 12)
            if partition.is_compacted:
                # What made compaction remove a record is replicated, and a replica does not truncate that.
                lowest = max(lowest, partition.high_watermark)
            offset = self.random.randint(lowest, partition.end)
            partition.truncating(offset)
            self.manager.truncate_to({partition.partition: offset})
            partition.truncated(offset)
        assert log.log_end_offset == offset, f"{log} was truncated to {offset}"
        partition.high_watermark = log.high_watermark
        self._traffic[partition.partition].resume()
        return f"{partition.partition} to {offset}"

    # Compaction

    def _clean(self) -> str:
        """A whole run of the cleaner, or a step or two of one."""
        told = []
        steps = self.random.choice((1, 2, 200))
        for partition in self._live():
            if partition.is_compacted:
                partition.cleaning(self.manager.logs[partition.partition].segments.active.base_offset)
                partition.moving_start(partition.high_watermark)
        for _ in range(steps):
            before, stats = self._cleaner.cleaning, self._cleaner.last_stats
            step = self._cleaner.step()
            if step.sync is not None:
                self._sync(step.sync.run)
            finished = before if before is not None and self._cleaner.last_stats is not stats else None
            if finished is not None:
                told.append(str(finished))
            if self._cleaner.cleaning is None and before is None:
                break  # nothing is due
        self.manager.handle_failures()
        for partition in self._settle():
            if partition.is_compacted:
                log = self.manager.logs[partition.partition]
                partition.moved_start(log.log_start_offset)
                if str(partition.partition) in told and self._cleaner.cleaning != partition.partition:
                    found = check_log(partition, log, self.random, is_recovered=False)
                    partition.high_watermark = log.high_watermark
                    partition.cleaned(found.offsets)
        under_way = "" if self._cleaner.cleaning is None else f", {self._cleaner.cleaning} is under way"
        return (", ".join(told) or "nothing finished") + under_way

    def _sync(self, sync: Callable[[], None]) -> None:
        """Carry out what the cleaner asks for, as its driver has to."""
        try:
            sync()
        except OSError as error:
            self._cleaner.on_sync_failed(error)

    # Topics

    def _create(self) -> str:
        names = [TopicPartition(f"t{number}", 0) for number in range(PARTITIONS_MAX)]
        free = [name for name in names if name not in self.model.partitions]
        directories = sorted(directory.path for directory in self.manager.live_directories)
        if not free or not directories:
            return self._append() if self._live() else "nothing to do"
        name = self.random.choice(free)
        directory = self.random.choice(directories)
        shape = self.random.choice(SHAPES_BY_WEIGHT)
        config = topic_config(shape, self.random)
        partition = PartitionModel(name, directory, config)
        self.model.partitions[name] = partition
        topic_id = Uuid(self.random.randbytes(16))
        log = self.manager.create(name, topic_id=topic_id, directory=directory)
        partition.existence = Existence.LIVE
        self._traffic[name] = Traffic(partition, self.random)
        return f"{name}, {shape}, in {directory}: {log}"

    def _delete(self) -> str:
        if len(self._live()) < 3:
            return self._append()
        partition, _ = self._one()
        partition.existence = Existence.DELETING
        self.manager.delete(partition.partition)
        if partition.directory not in self.offline:
            del self.model.partitions[partition.partition]
        return str(partition.partition)

    def _check(self) -> str:
        partition, log = self._one()
        check_log(partition, log, self.random, is_recovered=False)
        partition.high_watermark = log.high_watermark
        return str(partition.partition)

    def _restart(self) -> str:
        self.wants_restart = True
        return "asked for"
