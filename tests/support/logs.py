"""Logs for tests: one on virtual time and a virtual disk, batches to append, and what a consumer would read."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from typing import Any

from ottla.config import LogConfig
from ottla.records import (
    Batch,
    Codec,
    ControlType,
    EndTransactionMarker,
    Record,
    batches,
    build_batch,
    end_transaction_batch,
)
from ottla.sim import VirtualWorld, virtual_world
from ottla.storage import AppendInfo, AppendOrigin, Chores, Isolation, Log, LogDir, ProducerStateConfig, load_log
from ottla.world import World

DIRECTORY = "/logs"
NO_VERIFICATION = ProducerStateConfig(transaction_partition_verification_enable=False)


def new_world(seed: int = 1) -> VirtualWorld:
    world = virtual_world(random.Random(seed))
    world.disk.make_dirs(DIRECTORY)
    return world


class TestLog:
    """A log with a way to append to it in one line, and to stop and start it."""

    __test__ = False

    def __init__(
        self, world: World | None = None, *, name: str = "topic-0", directory: str = DIRECTORY, **settings: Any
    ) -> None:
        self.world = world or new_world()
        self.path = f"{directory}/{name}"
        self.directory = LogDir(directory)
        self.config = LogConfig().with_topic({name.replace("_", "."): value for name, value in settings.items()})
        self.chores = Chores(self.world.clock)
        self.log = self.open()

    def open(
        self, *, recovery_point: int = 0, log_start_offset: int = 0, cleaned_to: int = 0, clean: bool = False
    ) -> Log:
        self.log = load_log(
            self.world,
            self.directory,
            self.path,
            self.config,
            self.chores,
            recovery_point=recovery_point,
            log_start_offset=log_start_offset,
            cleaned_to=cleaned_to,
            was_clean_shutdown=clean,
            producer_config=NO_VERIFICATION,
        )
        return self.log

    def reopen(self, **how: Any) -> Log:
        """Stop in order and open again: cleanly unless told otherwise."""
        self.log.close()
        return self.open(**{"clean": True, **how})

    def append(self, *values: bytes | None, epoch: int = 0, **batch: Any) -> AppendInfo:
        """Append one batch of these values and let all of it be seen."""
        info = self.log.append_as_leader(bytearray(make_batch(*values, **batch)), leader_epoch=epoch)
        self.log.update_high_watermark(self.log.log_end_offset)
        return info

    def end_transaction(
        self, producer_id: int, producer_epoch: int = 0, *, commit: bool, epoch: int = 0, is_seen: bool = True
    ) -> AppendInfo:
        marker = end_transaction(producer_id, producer_epoch, commit=commit, timestamp=self.world.clock.now_ms())
        info = self.log.append_as_leader(
            marker, leader_epoch=epoch, origin=AppendOrigin.COORDINATOR, transaction_version=0
        )
        if is_seen:
            self.log.update_high_watermark(self.log.log_end_offset)
        return info

    def file(self, suffix: str, base_offset: int = 0) -> bytes:
        return self.world.disk.read(f"{self.path}/{base_offset:020d}{suffix}")


def end_transaction(producer_id: int, producer_epoch: int, *, commit: bool, timestamp: int) -> bytearray:
    """The marker a transaction coordinator writes."""
    marker = EndTransactionMarker(ControlType.COMMIT if commit else ControlType.ABORT, 0)
    return bytearray(
        end_transaction_batch(marker, producer_id=producer_id, producer_epoch=producer_epoch, timestamp=timestamp)
    )


def make_batch(
    *values: bytes | None,
    key: bytes | None = None,
    keys: Sequence[bytes | None] | None = None,
    timestamp: int = 1_767_225_600_000,
    timestamps: Sequence[int] | None = None,
    codec: Codec = Codec.NONE,
    producer_id: int = -1,
    producer_epoch: int = -1,
    sequence: int = -1,
    is_transactional: bool = False,
) -> bytes:
    """A batch as a producer sends it: offsets from 0 on."""
    records = [
        Record(
            index,
            timestamps[index] if timestamps else timestamp,
            keys[index] if keys else key,
            value,
            (),
        )
        for index, value in enumerate(values)
    ]
    return build_batch(
        records,
        base_offset=0,
        codec=codec,
        producer_id=producer_id,
        producer_epoch=0 if producer_id >= 0 and producer_epoch < 0 else producer_epoch,
        base_sequence=sequence,
        is_transactional=is_transactional,
    )


def read_batches(
    log: Log, start: int | None = None, *, isolation: Isolation = Isolation.HIGH_WATERMARK, bytes_max: int = 1 << 20
) -> Iterator[Batch]:
    """What a consumer reads from `start` on, fetch by fetch; records of aborted transactions left out if it asks."""
    offset = log.log_start_offset if start is None else start
    while True:
        found = log.read(offset, bytes_max=bytes_max, isolation=isolation)
        if found.slice is None or found.slice.size == 0:
            return
        progress = offset
        for batch in batches(found.slice.read()):
            if batch.last_offset < offset:
                continue
            progress = batch.next_offset
            if not any(
                aborted.producer_id == batch.producer_id
                and aborted.first_offset <= batch.base_offset <= aborted.last_offset
                for aborted in found.aborted or ()
            ):
                yield batch
        assert progress > offset, f"a read at {offset} made no progress"
        offset = progress


def read_records(
    log: Log, start: int | None = None, *, isolation: Isolation = Isolation.HIGH_WATERMARK, bytes_max: int = 1 << 20
) -> list[Record]:
    """The records a consumer sees, control records left out."""
    first = log.log_start_offset if start is None else start
    return [
        record
        for batch in read_batches(log, start, isolation=isolation, bytes_max=bytes_max)
        if not batch.is_control
        for record in batch.records()
        if record.offset >= first
    ]


def values(log: Log, start: int | None = None, **how: Any) -> list[bytes | None]:
    return [record.value for record in read_records(log, start, **how)]
