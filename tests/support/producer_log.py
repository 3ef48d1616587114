"""A log with producers and nothing else, driven by the commands of the transcripts in `transcripts/producer_state`.

It keeps batches in a list, in one segment, and calls `ProducerStateManager` as a log does.
`ProducerLogOracle.java` takes the same commands and carries them out with Kafka's own log.

    append client|coordinator|replica pid=1 epoch=0 seq=0..4 [txn] [time=] [guard=]
    marker coordinator|replica commit|abort pid=1 epoch=0 coordinator=0 [version=0] [time=]
    verify NAME pid= epoch= seq= [v2]      begin a verification and keep its guard under NAME
    verification on|off
    high-watermark N | log-start N | truncate N | reset N
    time N | expire | late
    snapshot | snapshots | bytes N | damage N | restart
    show | aborted
"""

from __future__ import annotations

from pathlib import Path

from ottla.errors import KafkaError
from ottla.records import (
    Batch,
    ControlType,
    EndTransactionMarker,
    Record,
    batches,
    build_batch,
    end_transaction_batch,
)
from ottla.storage.producer_state import ProducerStateConfig, ProducerStateManager
from ottla.storage.transaction_index import AbortedTxn
from ottla.storage.validator import AppendOrigin
from ottla.storage.verification import VerificationGuard
from ottla.types import TopicPartition
from ottla.world.system import SystemDisk

ORIGINS = {
    "client": AppendOrigin.CLIENT,
    "coordinator": AppendOrigin.COORDINATOR,
    "replica": AppendOrigin.REPLICATION,
}


class ProducerLog:
    def __init__(self, directory: Path) -> None:
        self.directory = directory / "topic-0"
        self.directory.mkdir()
        self.config = ProducerStateConfig(transaction_partition_verification_enable=False)
        self.now_ms = 1_000_000
        self.base_offset = 0
        self.log_start_offset = 0
        self.log_end_offset = 0
        self.high_watermark = 0
        self.batches: list[Batch] = []
        self.aborted: list[AbortedTxn] = []
        self.guards: dict[str, VerificationGuard | None] = {}
        self.producers = self._open()

    def execute(self, command: str) -> list[str]:
        name, *words = command.split()
        options = dict(word.split("=", 1) for word in words if "=" in word)
        plain = [word for word in words if "=" not in word]
        try:
            printed = getattr(self, "do_" + name.replace("-", "_"))(*plain, **options)
        except KafkaError as error:
            return [f"{error.name}: {error}"]
        assert isinstance(printed, list)
        return printed

    # Appends

    def do_append(
        self,
        origin: str,
        *flags: str,
        pid: str,
        epoch: str,
        seq: str,
        time: str | None = None,
        guard: str | None = None,
    ) -> list[str]:
        first, _, last = seq.partition("..")
        count = (int(last or first) - int(first)) % 2**31 + 1
        timestamp = self.now_ms if time is None else int(time)
        data = build_batch(
            [Record(self.log_end_offset + delta, timestamp, None, b"value") for delta in range(count)],
            base_offset=self.log_end_offset,
            producer_id=int(pid),
            producer_epoch=int(epoch),
            base_sequence=int(first),
            is_transactional="txn" in flags,
        )
        return self._append(data, ORIGINS[origin], guard=None if guard is None else self.guards[guard])

    def do_marker(
        self,
        origin: str,
        kind: str,
        *,
        pid: str,
        epoch: str,
        coordinator: str,
        version: str = "0",
        time: str | None = None,
    ) -> list[str]:
        data = end_transaction_batch(
            EndTransactionMarker(ControlType[kind.upper()], int(coordinator)),
            producer_id=int(pid),
            producer_epoch=int(epoch),
            timestamp=self.now_ms if time is None else int(time),
            base_offset=self.log_end_offset,
        )
        # A replica does not know the version: it is no part of the batch.
        return self._append(data, ORIGINS[origin], transaction_version=-1 if origin == "replica" else int(version))

    def _append(
        self,
        data: bytes,
        origin: AppendOrigin,
        *,
        guard: VerificationGuard | None = None,
        transaction_version: int = -1,
    ) -> list[str]:
        (batch,) = batches(data)
        update = self.producers.analyze(
            [batch], origin=origin, verification_guard=guard, transaction_version=transaction_version
        )
        if update.duplicate is not None:
            return [f"duplicate of {update.duplicate.first_offset}..{update.duplicate.last_offset}"]
        self.batches.append(batch)
        self.log_end_offset = batch.next_offset
        self.producers.apply(update)
        for completed in update.completed:
            stable = self.producers.last_stable_offset(completed)
            if completed.is_aborted:
                self.aborted.append(
                    AbortedTxn(completed.producer_id, completed.first_offset, completed.last_offset, stable)
                )
            self.producers.complete(completed)
        self.producers.map_end_offset = batch.next_offset
        return [f"offsets {batch.base_offset}..{batch.last_offset}"]

    # Verification

    def do_verification(self, switch: str) -> list[str]:
        self.config.transaction_partition_verification_enable = switch == "on"
        return []

    def do_verify(self, name: str, *flags: str, pid: str, epoch: str, seq: str) -> list[str]:
        guard = self.producers.start_verification(
            int(pid),
            sequence=int(seq),
            producer_epoch=int(epoch),
            supports_epoch_bump="v2" in flags,
            now_ms=self.now_ms,
        )
        self.guards[name] = guard
        return ["not needed" if guard is None else "to be verified"]

    # Offsets

    def do_high_watermark(self, offset: str) -> list[str]:
        self._set_high_watermark(int(offset))
        return self._unstable()

    def _set_high_watermark(self, offset: int) -> None:
        self.high_watermark = min(max(offset, self.log_start_offset), self.log_end_offset)
        self.producers.on_high_watermark_updated(self.high_watermark)

    def do_log_start(self, offset: str) -> list[str]:
        self.log_start_offset = int(offset)
        self.producers.on_log_start_offset_incremented(self.log_start_offset)
        return self._unstable()

    def do_truncate(self, offset: str) -> list[str]:
        end = int(offset)
        self.batches = [batch for batch in self.batches if batch.last_offset < end]
        self.aborted = [entry for entry in self.aborted if entry.last_offset < end]
        self.log_end_offset = end
        self.log_start_offset = min(end, self.log_start_offset)
        self._rebuild()
        if self.high_watermark >= end:
            self._set_high_watermark(end)
        return self._unstable()

    def do_reset(self, offset: str) -> list[str]:
        self.base_offset = self.log_start_offset = self.log_end_offset = int(offset)
        self.batches.clear()
        self.aborted.clear()
        self.producers.truncate_fully_and_start_at(self.log_start_offset)
        self._rebuild()
        self._set_high_watermark(self.log_end_offset)
        return self._unstable()

    # Time

    def do_time(self, now_ms: str) -> list[str]:
        self.now_ms = int(now_ms)
        return []

    def do_expire(self) -> list[str]:
        self.producers.remove_expired(self.now_ms)
        return [f"{len(self.producers.producers)} producers"]

    def do_late(self) -> list[str]:
        return ["late" if self.producers.has_late_transaction(self.now_ms) else "in time"]

    # Snapshots

    def do_snapshot(self) -> list[str]:
        self.producers.take_snapshot()
        return self.do_snapshots()

    def do_snapshots(self) -> list[str]:
        files = sorted(int(file.stem) for file in self.directory.glob("*.snapshot"))
        assert files == self.producers.snapshots.offsets
        return ["snapshots at " + " ".join(map(str, files))] if files else ["no snapshots"]

    def do_bytes(self, offset: str) -> list[str]:
        return [(self.directory / f"{int(offset):020d}.snapshot").read_bytes().hex()]

    def do_damage(self, offset: str) -> list[str]:
        path = self.directory / f"{int(offset):020d}.snapshot"
        data = path.read_bytes()
        path.write_bytes(data[:-1] + bytes([data[-1] ^ 1]))
        return []

    def do_restart(self) -> list[str]:
        self.producers.take_snapshot()
        self.high_watermark = self.log_start_offset
        self.producers = self._open()
        self.producers.remove_stray_snapshots([self.base_offset])
        if self.producers.latest_snapshot_offset is None:
            for offset in (self.base_offset, self.log_end_offset):
                self.producers.map_end_offset = offset
                self.producers.take_snapshot()
        else:
            self._rebuild()
        return self._unstable()

    def _open(self) -> ProducerStateManager:
        return ProducerStateManager(SystemDisk(), str(self.directory), TopicPartition("topic", 0), self.config)

    def _rebuild(self) -> None:
        producers = self.producers
        was_empty = producers.is_empty and producers.map_end_offset >= self.log_end_offset
        producers.truncate_and_reload(self.log_start_offset, self.log_end_offset, self.now_ms)
        if self.log_end_offset > producers.map_end_offset and not was_empty:
            start = max(producers.map_end_offset, self.log_start_offset)
            for batch in self.batches:
                if batch.last_offset >= start:
                    completed = producers.replay(batch)
                    if completed is not None:
                        producers.complete(completed)
                    producers.map_end_offset = batch.next_offset
        producers.map_end_offset = self.log_end_offset
        producers.take_snapshot()

    # What there is

    def do_show(self) -> list[str]:
        lines = []
        for _, entry in sorted(self.producers.producers.items()):
            open_since = "-" if entry.txn_first_offset is None else entry.txn_first_offset
            known = [
                f"{b.first_sequence}..{b.last_sequence}@{b.first_offset}..{b.last_offset}/{b.timestamp}"
                for b in entry.batches
            ]
            lines.append(
                f"pid {entry.producer_id} epoch {entry.producer_epoch} coordinator {entry.coordinator_epoch} "
                f"time {entry.last_timestamp} txn {open_since} batches {' '.join(known) or '-'}"
            )
        return [*lines, *self._unstable()]

    def _unstable(self) -> list[str]:
        first = self.producers.first_unstable_offset
        unstable = "-" if first is None else first.offset
        first_undecided = self.producers.first_undecided_offset
        undecided = "-" if first_undecided is None else first_undecided
        return [f"unstable {unstable} undecided {undecided} end {self.producers.map_end_offset}"]

    def do_aborted(self) -> list[str]:
        return [
            f"pid {entry.producer_id} {entry.first_offset}..{entry.last_offset} stable {entry.last_stable_offset}"
            for entry in self.aborted
        ]
