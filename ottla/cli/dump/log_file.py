"""A log segment (`.log`) or a snapshot of the cluster's metadata (`.checkpoint`): its batches, and on request records.

Both files are batches, one behind the other. Damage is shown where it is found, and the dump goes on with the next
batch, if there is a way to it; Kafka's tool ends there.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping

from ottla.cli.dump.batch_fields import batch_fields, record_fields, timestamp_label
from ottla.cli.dump.batch_walk import AnyBatch, BatchWalk
from ottla.cli.dump.control_record import control_fields
from ottla.cli.dump.file_name import CannotDump, FileName
from ottla.cli.dump.findings import GAP, Findings
from ottla.cli.dump.java_text import Json
from ottla.cli.dump.legacy_batch import LegacyRecord
from ottla.cli.dump.options import INT_MAX, DumpOptions, Undecodable
from ottla.cli.dump.row import BATCH, RECORD, Row, error_row
from ottla.cli.dump.salvage import salvaged_records
from ottla.errors import CorruptMessage, KafkaError
from ottla.records import Batch, Record
from ottla.world import Disk, File

_BOOTSTRAP = "bootstrap.checkpoint"
_CHECKPOINT = re.compile(r"(\d{20})-(\d{10})\.checkpoint")


def dump_segment(disk: Disk, name: FileName, options: DumpOptions, findings: Findings) -> Iterator[Row]:
    """The rows of a log segment; `CannotDump` when it does not have a segment's name."""
    yield Row("log", {"startingOffset": name.base_offset}, f"Log starting offset: {name.base_offset}")
    yield from _dump(disk, name, options, findings)


def dump_checkpoint(disk: Disk, name: FileName, options: DumpOptions, findings: Findings) -> Iterator[Row]:
    """The rows of a snapshot of the cluster's metadata; `CannotDump` when it does not have a snapshot's name."""
    yield _checkpoint_heading(name)
    yield from _dump(disk, name, options, findings)


def _checkpoint_heading(name: FileName) -> Row:
    if name.base == _BOOTSTRAP:
        return Row("checkpoint", {"isBootstrap": True}, "KRaft bootstrap snapshot")
    match = _CHECKPOINT.fullmatch(name.base)
    if match is None:
        raise CannotDump(f"the name is neither {_BOOTSTRAP} nor an offset in 20 digits, a dash and an epoch in 10")
    offset, epoch = int(match[1]), int(match[2])
    text = f"Snapshot end offset: {offset}, epoch: {epoch}"
    return Row("checkpoint", {"endOffset": offset, "epoch": epoch}, text)


def _dump(disk: Disk, name: FileName, options: DumpOptions, findings: Findings) -> Iterator[Row]:
    file = disk.open(name.path, read_only=True)
    try:
        yield from LogDump(name, file, options, findings).rows()
    finally:
        file.close()


class LogDump:
    """The rows of one open file of batches."""

    def __init__(self, name: FileName, file: File, options: DumpOptions, findings: Findings) -> None:
        self._name = name
        self._path = name.absolute
        self._file = file
        self._options = options
        self._findings = findings
        self._last_offset = -1

    def rows(self) -> Iterator[Row]:
        end = min(self._file.size(), self._options.max_bytes)
        valid = 0
        try:
            for position, batch in BatchWalk(self._file).batches(0, end):
                yield Row(BATCH, batch_fields(position, batch))
                if self._options.is_deep:
                    yield from self._record_rows(position, batch)
                valid = position + batch.size
        except CorruptMessage as error:
            yield error_row(f"{error}. The last {end - valid} bytes are not shown")
            return
        if end > valid and self._options.max_bytes == INT_MAX:
            text = f"Found {end - valid} invalid bytes at the end of {self._name.base}"
            yield Row("invalidBytes", {"size": end - valid}, text)

    def _record_rows(self, position: int, batch: AnyBatch) -> Iterator[Row]:
        """The records of a batch. Of a damaged one, those before the damage, and then what the damage is."""
        records: Iterable[Record | LegacyRecord]
        failure = None
        try:
            records = batch.records()
        except KafkaError as error:
            records = salvaged_records(batch) if isinstance(batch, Batch) else ()
            failure = error_row(f"the records of the batch at position {position} cannot be read: {error}")
        label = timestamp_label(batch)
        for record in records:
            yield from self._rows_of(batch, label, record)
        if failure is not None:
            yield failure

    def _rows_of(self, batch: AnyBatch, label: str, record: Record | LegacyRecord) -> list[Row]:
        """The row of a record, and a second one when its content cannot be read."""
        if record.offset != self._last_offset + 1:
            self._findings.add(GAP, self._path, self._last_offset, record.offset)
        self._last_offset = record.offset
        fields = {} if self._options.skip_record_metadata else record_fields(batch, label, record)
        try:
            fields.update(self._content(batch, record))
        except Undecodable as error:
            failure = error_row(f"the record at offset {record.offset} cannot be decoded: {error}")
            return [Row(RECORD, fields), failure]
        return [Row(RECORD, fields)]

    def _content(self, batch: AnyBatch, record: Record | LegacyRecord) -> Mapping[str, Json]:
        """What a control record marks; of other records key and value, if they are to be shown."""
        if isinstance(batch, Batch) and batch.is_control:
            return {} if self._options.skip_record_metadata else control_fields(record.key, record.value)
        if self._options.decoder is None:
            return {}
        return self._options.decoder(record.offset, record.key, record.value)
