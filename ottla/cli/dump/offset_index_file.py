"""An offset index (`.index`): its entries, and whether each of them points at the batch that it names."""

from __future__ import annotations

from collections.abc import Iterator

from ottla.cli.dump.batch_walk import BatchWalk
from ottla.cli.dump.file_name import FileName
from ottla.cli.dump.findings import OFFSET_MISMATCH, Findings
from ottla.cli.dump.options import DumpOptions
from ottla.cli.dump.row import Row, error_row
from ottla.cli.dump.segment_index import open_segment, sanity_row
from ottla.errors import CorruptMessage
from ottla.storage.offset_index import OffsetIndex
from ottla.world import Disk, File


def dump_offset_index(disk: Disk, name: FileName, options: DumpOptions, findings: Findings) -> Iterator[Row]:
    """The rows of an offset index; `CannotDump` when its name is none, or its segment is not there."""
    size = disk.size(name.path)
    index = OffsetIndex(disk, name.path, name.base_offset, bytes_max=size, size=size)
    segment = open_segment(disk, name)
    try:
        if index.entry_count == 0:
            yield Row("empty", {}, f"{name.path} is empty.")
        elif options.index_sanity_check:
            yield sanity_row(name, index, size)
        else:
            yield from _entry_rows(index, segment, name, options, findings)
    finally:
        segment.close()
        index.abandon()


def _entry_rows(
    index: OffsetIndex, segment: File, name: FileName, options: DumpOptions, findings: Findings
) -> Iterator[Row]:
    walk = BatchWalk(segment)
    segment_size = segment.size()
    for slot in range(index.entry_count):
        offset, position = index.entry_at(slot)
        if slot and offset == index.base_offset:
            return  # the rest are zeros: a crash left the index at the size it was made with
        if not options.verify_index_only:
            yield Row("entry", {"offset": offset, "position": position})
        try:
            last_offset = _last_offset_at(walk, position, segment_size, options.max_message_size)
        except CorruptMessage as error:
            yield error_row(f"entry {slot} (offset: {offset} position: {position}) does not point at a batch: {error}")
            continue
        if last_offset != offset:
            findings.add(OFFSET_MISMATCH, name.absolute, offset, last_offset)


def _last_offset_at(walk: BatchWalk, position: int, segment_size: int, max_message_size: int) -> int:
    """Where the batch at `position` ends; `CorruptMessage` when there is none."""
    if not 0 <= position <= segment_size:
        raise CorruptMessage(f"the segment has {segment_size} bytes")
    batch = walk.batch_at(position, min(segment_size, position + max_message_size))
    if batch is None:
        raise CorruptMessage(f"the segment has {segment_size} bytes, and a message at most {max_message_size}")
    return batch.last_offset
