"""Snapshots of the metadata log: everything up to an offset, as the records that make the same state.

A snapshot is a file `<offset>-<epoch>.checkpoint` beside the log: a batch with the header (and for `kraft.version` 1
the version and the voters), batches of records, a batch with the footer. `offset` is where the log goes on, `epoch`
that of the last record contained. `bootstrap.checkpoint`, which a format writes, has the same form.

Promises: a file under its final name is complete, for it is synced before it gets the name; a reader finds a missing
header or footer, or a batch that does not match its checksum, and raises `DamagedSnapshot`.
Called by `metadata_log`, `format`, and the commands that look into snapshots.
"""

from __future__ import annotations

import re
from collections.abc import Generator, Iterable, Iterator
from contextlib import closing
from typing import NamedTuple

from ottla.errors import CorruptMessage, InvalidRecord
from ottla.raft.batches import BATCH_BYTES_MAX, MetadataRecord, decode_control, encode_control_batch, versioned
from ottla.raft.batches import decode_records as _decode_records
from ottla.raft.files import publish
from ottla.raft.voters import VoterSet
from ottla.records import LOG_OVERHEAD, Batch, RecordBatchBuilder, batches
from ottla.types import Buffer
from ottla.wire import DecodeError, Message
from ottla.wire.data.control import (
    KRaftVersionRecord,
    SnapshotFooterRecord,
    SnapshotHeaderRecord,
    VotersRecord,
)
from ottla.wire.metadata import VersionedRecord, write_record
from ottla.world import Clock, Disk

CHECKPOINT = ".checkpoint"
PARTIAL = ".part"
DELETED = ".deleted"
BOOTSTRAP = "bootstrap.checkpoint"

_NAME = re.compile(r"(\d{20})-(\d{10})(?:-[^.]*)?\.checkpoint(\.part|\.deleted)?")
_CHUNK_SIZE = 1 << 20


class DamagedSnapshot(Exception):
    """A snapshot that cannot be used: which, and what is wrong with it."""


class SnapshotId(NamedTuple):
    """The offset after the last record contained, and that record's epoch."""

    offset: int
    epoch: int

    @property
    def name(self) -> str:
        return f"{self.offset:020d}-{self.epoch:010d}{CHECKPOINT}"

    def __str__(self) -> str:
        return f"{self.offset:020d}-{self.epoch:010d}"


BOOTSTRAP_ID = SnapshotId(0, 0)
"""The snapshot that a format with voters makes: nothing but the voters."""


def parse_name(name: str) -> tuple[SnapshotId, str] | None:
    """The snapshot a file belongs to and its suffix (`.part`, `.deleted` or nothing); None when it is none."""
    found = _NAME.fullmatch(name)
    return None if found is None else (SnapshotId(int(found[1]), int(found[2])), found[3] or "")


class SnapshotWriter:
    """A snapshot in the making: `append` records, `finish`, then `freeze`, which is slow and may run in a thread."""

    def __init__(
        self,
        disk: Disk,
        clock: Clock,
        path: str,
        *,
        epoch: int = 0,
        last_contained_log_timestamp: int = 0,
        kraft_version: int = 0,
        voters: VoterSet | None = None,
        temporary: str | None = None,
        batch_bytes_max: int = BATCH_BYTES_MAX,
    ) -> None:
        assert kraft_version or voters is None, "voters are in snapshots from kraft.version 1 on"
        self._disk = disk
        self._clock = clock
        self.path = path
        self._temporary = path + PARTIAL if temporary is None else temporary
        self._epoch = epoch
        self._batch_bytes_max = batch_bytes_max
        self._file = disk.open(self._temporary, create=True)
        self._file.truncate(0)
        self.size = 0
        self._next_offset = 0
        header: list[Message] = [
            SnapshotHeaderRecord(version=0, last_contained_log_timestamp=last_contained_log_timestamp)
        ]
        if kraft_version:
            header.append(KRaftVersionRecord(version=0, k_raft_version=kraft_version))
            if voters is not None:
                header.append(voters.to_record())
        self._write_control(header)
        self._builder = self._new_builder()
        self._timestamp = 0

    def append(self, records: Iterable[MetadataRecord]) -> None:
        for record in records:
            value = write_record(*versioned(record))
            if not self._builder.record_count:
                self._timestamp = self._clock.now_ms()
            if not self._builder.append(self._timestamp, None, value):
                self._flush()
                self._timestamp = self._clock.now_ms()
                self._builder.append(self._timestamp, None, value)

    def finish(self) -> None:
        """Nothing more is to come."""
        self._flush()
        self._write_control([SnapshotFooterRecord(version=0)])

    def freeze(self) -> None:
        """Make the file durable and give it its name. Touches nothing but the device."""
        try:
            self._file.sync()
        finally:
            self._file.close()
        publish(self._disk, self._temporary, self.path)

    def give_up(self) -> None:
        """Leave nothing behind."""
        self._file.close()
        if self._disk.exists(self._temporary):
            self._disk.remove(self._temporary)

    def _new_builder(self) -> RecordBatchBuilder:
        return RecordBatchBuilder(
            base_offset=self._next_offset, leader_epoch=self._epoch, bytes_max=self._batch_bytes_max
        )

    def _flush(self) -> None:
        if self._builder.record_count:
            self._next_offset = self._builder.next_offset
            self._write(self._builder.build())
        self._builder = self._new_builder()

    def _write_control(self, messages: list[Message]) -> None:
        timestamp = self._clock.now_ms()
        self._write(
            encode_control_batch(messages, base_offset=self._next_offset, epoch=self._epoch, timestamp=timestamp)
        )
        self._next_offset += len(messages)

    def _write(self, data: bytes) -> None:
        self._file.write_at(self.size, data)
        self.size += len(data)


class SnapshotReceiver:
    """The file of a snapshot that comes from the leader in parts; it counts only when all of it is there and sound."""

    def __init__(self, disk: Disk, path: str, id: SnapshotId) -> None:
        self._disk = disk
        self.path = path
        self.id = id
        self._file = disk.open(path + PARTIAL, create=True)
        self._file.truncate(0)
        self.size = 0

    def append(self, data: Buffer) -> None:
        self._file.write_at(self.size, data)
        self.size += len(data)

    def freeze(self) -> None:
        """Make the file durable and give it its name; `DamagedSnapshot` if it is none. Touches only the device."""
        try:
            Snapshot(self._disk, self.path + PARTIAL, self.id).verify()
            self._file.sync()
        finally:
            self._file.close()
        publish(self._disk, self.path + PARTIAL, self.path)

    def give_up(self) -> None:
        """Leave nothing behind."""
        self._file.close()
        if self._disk.exists(self.path + PARTIAL):
            self._disk.remove(self.path + PARTIAL)


def write_snapshot_file(
    disk: Disk,
    clock: Clock,
    path: str,
    records: Iterable[MetadataRecord],
    *,
    epoch: int = 0,
    last_contained_log_timestamp: int = 0,
    kraft_version: int = 0,
    voters: VoterSet | None = None,
    temporary: str | None = None,
) -> int:
    """Write a whole snapshot at once, durably; returns its size. The directory exists already."""
    writer = SnapshotWriter(
        disk,
        clock,
        path,
        epoch=epoch,
        last_contained_log_timestamp=last_contained_log_timestamp,
        kraft_version=kraft_version,
        voters=voters,
        temporary=temporary,
    )
    try:
        writer.append(records)
        writer.finish()
    except BaseException:
        writer.give_up()
        raise
    writer.freeze()
    return writer.size


class Snapshot:
    """A snapshot on disk. The header is read at once, records when they are asked for."""

    def __init__(self, disk: Disk, path: str, id: SnapshotId = BOOTSTRAP_ID) -> None:
        self._disk = disk
        self.path = path
        self.id = id
        self.kraft_version = 0
        self.voters: VoterSet | None = None
        with closing(self._batches()) as found:
            first = next(found, None)
        control = [] if first is None else self._control(first)
        if not control or not isinstance(control[0], SnapshotHeaderRecord):
            raise DamagedSnapshot(f"{path} does not begin with a snapshot header")
        self.last_contained_log_timestamp: int = control[0].last_contained_log_timestamp
        for message in control[1:]:
            if isinstance(message, KRaftVersionRecord):
                self.kraft_version = message.k_raft_version
            elif isinstance(message, VotersRecord):
                self.voters = VoterSet.from_record(message)

    def __repr__(self) -> str:
        return f"Snapshot({self.path!r})"

    @property
    def offset(self) -> int:
        """Where the log goes on."""
        return self.id.offset

    @property
    def epoch(self) -> int:
        return self.id.epoch

    def record_batches(self) -> Iterator[list[VersionedRecord]]:
        """The records with their versions, batch by batch, up to the footer."""
        has_footer = False
        for batch in self._batches():
            if has_footer:
                raise DamagedSnapshot(f"{self.path} goes on after its footer")
            if batch.is_control:
                has_footer = any(isinstance(message, SnapshotFooterRecord) for message in self._control(batch))
            else:
                try:
                    yield _decode_records(batch)
                except (DecodeError, CorruptMessage, InvalidRecord) as error:
                    raise DamagedSnapshot(f"{self.path}: {error}") from error
        if not has_footer:
            raise DamagedSnapshot(f"{self.path} has no footer")

    def verify(self) -> None:
        """Raise `DamagedSnapshot` unless the file is whole: every batch sound, and the footer last."""
        last = None
        for batch in self._batches():
            last = self._control(batch) if batch.is_control else None
        if not last or not isinstance(last[-1], SnapshotFooterRecord):
            raise DamagedSnapshot(f"{self.path} has no footer")

    def records(self) -> Iterator[VersionedRecord]:
        """The records one by one, for replay."""
        for batch in self.record_batches():
            yield from batch

    def _control(self, batch: Batch) -> list[Message]:
        try:
            return [message for _, message in decode_control(batch)]
        except (DecodeError, CorruptMessage, InvalidRecord) as error:
            raise DamagedSnapshot(f"{self.path}: {error}") from error

    def _batches(self) -> Generator[Batch, None, None]:
        """Every batch, its checksum compared; a file that ends inside one is damaged."""
        file = self._disk.open(self.path, read_only=True)
        try:
            size = file.size()
            position = 0
            wanted = _CHUNK_SIZE
            while position < size:
                chunk = file.read_at(position, wanted)
                used = 0
                for batch in batches(chunk):
                    batch.ensure_valid()
                    yield batch
                    used += batch.size
                position += used
                if used:
                    wanted = _CHUNK_SIZE
                    continue
                needed = LOG_OVERHEAD + int.from_bytes(chunk[8:LOG_OVERHEAD], "big", signed=True)
                if len(chunk) < LOG_OVERHEAD or not wanted < needed <= size - position:
                    raise DamagedSnapshot(f"{self.path} is cut off at position {position}")
                wanted = needed
        except (CorruptMessage, InvalidRecord) as error:
            raise DamagedSnapshot(f"{self.path}: {error}") from error
        finally:
            file.close()


def read_snapshot_file(disk: Disk, path: str) -> Snapshot:
    """The snapshot at `path`; its id is what the name says, if it is the name of one."""
    parsed = parse_name(path.rpartition("/")[2])
    return Snapshot(disk, path, BOOTSTRAP_ID if parsed is None else parsed[0])
