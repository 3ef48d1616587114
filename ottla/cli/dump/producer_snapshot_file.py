"""The state of a partition's producers at one offset (`.snapshot`)."""

from __future__ import annotations

from collections.abc import Iterator

from ottla.cli.dump.file_name import FileName
from ottla.cli.dump.findings import Findings
from ottla.cli.dump.java_text import Json
from ottla.cli.dump.options import DumpOptions
from ottla.cli.dump.row import Row
from ottla.storage.producer_snapshot import decode_snapshot
from ottla.world import Disk


def dump_producer_snapshot(disk: Disk, name: FileName, options: DumpOptions, findings: Findings) -> Iterator[Row]:
    """The rows of a producer snapshot; `DamagedFile` when its checksum is wrong or its size."""
    for entry in decode_snapshot(name.path, disk.read(name.path)):
        fields: dict[str, Json] = {
            "producerId": entry.producer_id,
            "producerEpoch": entry.producer_epoch,
            "coordinatorEpoch": entry.coordinator_epoch,
            "currentTxnFirstOffset": entry.txn_first_offset,
            "lastTimestamp": entry.last_timestamp,
        }
        if entry.batches:
            batch = entry.batches[0]
            fields["firstSequence"] = batch.first_sequence
            fields["lastSequence"] = batch.last_sequence
            fields["lastOffset"] = batch.last_offset
            fields["offsetDelta"] = batch.offset_delta
            fields["timestamp"] = batch.timestamp
        yield Row("producer", fields)
