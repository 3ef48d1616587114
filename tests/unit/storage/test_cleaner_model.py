"""Compaction against a simple model of a log: random scripts, and after each run the records that should be there.

The scripts are those that the comparison with Kafka uses (`cleaner_log.py`). The model knows batches and keys, and
nothing of segments, files, indexes or steps.
"""

from __future__ import annotations

import os
from dataclasses import dataclass

import pytest

from ottla.records import Batch, ControlType, Record, batches
from ottla.storage import Isolation, Log
from tests.support.cleaner_log import CleanerLog, ScriptWriter, begin_script
from tests.support.logs import read_records

SEEDS = range(10_000, 10_000 + (2000 if os.environ.get("OTTLA_SOAK") else 40))
TIMESTAMP_MAX = 2**63 - 1


@dataclass
class ModelBatch:
    base_offset: int
    records: list[Record]
    producer_id: int
    is_transactional: bool
    is_aborted: bool = False
    horizon_ms: int | None = None


class Model:
    """What should be in the log."""

    def __init__(self) -> None:
        self.batches: list[ModelBatch] = []
        self.open: dict[int, list[ModelBatch]] = {}
        self.closed: list[tuple[int, int]] = []  # where a transaction began, and where its marker is

    def append(self, batch: Batch) -> None:
        if batch.is_control:
            is_abort = ControlType.of_key(batch.scan().keys[0]) is ControlType.ABORT
            parts = self.open.pop(batch.producer_id)
            for part in parts:
                part.is_aborted = is_abort
            self.closed.append((parts[0].base_offset, batch.base_offset))
            return
        added = ModelBatch(batch.base_offset, batch.records(), batch.producer_id, batch.is_transactional)
        self.batches.append(added)
        if added.is_transactional:
            self.open.setdefault(added.producer_id, []).append(added)

    def clean(self, start: int, end: int, *, segments_end: int, now_ms: int, delete_retention_ms: int) -> None:
        """A run whose map covered [start, end), and which rewrote the segments below `segments_end`."""
        latest = {
            record.key: record.offset
            for batch in self.batches
            if not batch.is_aborted
            for record in batch.records
            if start <= record.offset < end
        }
        for batch in self.batches:
            if batch.base_offset >= segments_end:
                continue
            keeps_tombstones = batch.horizon_ms is None or now_ms < batch.horizon_ms
            batch.records = [
                record
                for record in batch.records
                if not batch.is_aborted
                and (
                    record.offset >= end
                    or (
                        record.key is not None
                        and record.offset >= latest.get(record.key, -1)
                        and (record.value is not None or keeps_tombstones)
                    )
                )
            ]
            has_tombstone = any(record.value is None for record in batch.records)
            if has_tombstone and batch.horizon_ms is None and now_ms + delete_retention_ms <= TIMESTAMP_MAX:
                batch.horizon_ms = now_ms + delete_retention_ms

    def records(self, start: int) -> list[Record]:
        return [record for batch in self.batches for record in batch.records if record.offset >= start]

    def committed(self, start: int, end: int) -> list[Record]:
        return [
            record
            for batch in self.batches
            if not batch.is_aborted
            for record in batch.records
            if start <= record.offset < end
        ]

    def last_stable_offset(self, high_watermark: int) -> int:
        undecided = [parts[0].base_offset for parts in self.open.values()]
        unreplicated = [first for first, marker in self.closed if marker >= high_watermark]
        return min([high_watermark, *undecided, *unreplicated])


def consume(log: Log, *, bytes_max: int) -> list[Record]:
    """Read committed records as Kafka's consumer does: from an abort's first offset on, all that its producer wrote is
    passed over, until a marker says that the transaction is over."""
    seen: list[Record] = []
    offset = log.log_start_offset
    while True:
        found = log.read(offset, bytes_max=bytes_max, isolation=Isolation.TXN_COMMITTED)
        if found.slice is None or not found.slice.size:
            return seen
        waiting = sorted(found.aborted or (), key=lambda aborted: aborted.first_offset)
        aborted_ids: set[int] = set()
        for batch in batches(found.slice.read()):
            while waiting and waiting[0].first_offset <= batch.last_offset:
                aborted_ids.add(waiting.pop(0).producer_id)
            if batch.is_control:
                keys = batch.scan().keys
                if keys and ControlType.of_key(keys[0]) is ControlType.ABORT:
                    aborted_ids.discard(batch.producer_id)
            elif not (batch.is_transactional and batch.producer_id in aborted_ids):
                seen += [record for record in batch.records() if record.offset >= offset]
            progress = batch.next_offset
        assert progress > offset, f"a read at {offset} made no progress"
        offset = progress


def clean(log: CleanerLog, command: str, model: Model) -> None:
    """Let both clean what the log says is dirty."""
    told = log.execute(command)
    if len(told) == 1:
        return  # there was nothing
    start = int(told[0].split(" ")[1])
    assert log.checkpoint is not None
    model.clean(
        start,
        log.checkpoint,
        segments_end=min(base for base in log.test.log.segments.base_offsets if base >= log.checkpoint),
        now_ms=log.world.clock.now_ms(),
        delete_retention_ms=log.test.log.config.delete_retention_ms,
    )


@pytest.mark.parametrize("seed", SEEDS)
def test_the_records_that_stay_are_those_of_the_model(seed: int) -> None:
    script = ScriptWriter(seed, is_compressed=seed % 3 == 0).write(150)
    log = begin_script(script[0])
    model = Model()
    for command in script[1:]:
        name, *words = command.split(" ")
        if name == "clean":
            clean(log, command, model)
        else:
            log.execute(command)
        if name == "append":
            for batch in batches(bytes.fromhex(words[0])):
                model.append(batch)
        elif name == "restart":
            model.closed.clear()  # a snapshot, as Kafka's, does not tell whether a marker is replicated
        if name in ("clean", "restart", "retain"):
            compare(log.test.log, model, bytes_max=(1 << 20) if seed % 2 else 700)


def compare(log: Log, model: Model, *, bytes_max: int) -> None:
    start, stable = log.log_start_offset, log.last_stable_offset
    assert max(stable, start) == max(model.last_stable_offset(log.high_watermark), start)
    committed = model.committed(start, stable)
    assert consume(log, bytes_max=bytes_max) == committed
    everything = read_records(log, isolation=Isolation.LOG_END, bytes_max=bytes_max)
    assert everything == model.records(start)
    # What an application makes of the log: the last value of each key.
    assert {record.key: record.value for record in committed if record.value is not None} == {
        record.key: record.value
        for record in read_records(log, isolation=Isolation.TXN_COMMITTED)
        if record.value is not None
    }
