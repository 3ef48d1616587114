"""What the dumps of a segment's two indexes share: the segment they are held against, and the broker's own check."""

from __future__ import annotations

from ottla.cli.dump.file_name import CannotDump, FileName
from ottla.cli.dump.row import Row, error_row
from ottla.storage.index import CorruptIndex
from ottla.storage.offset_index import OffsetIndex
from ottla.storage.time_index import TimeIndex
from ottla.world import Disk, File


def open_segment(disk: Disk, name: FileName) -> File:
    """The segment that an index belongs to; `CannotDump` when it is not there."""
    try:
        return disk.open(name.log_path, read_only=True)
    except FileNotFoundError:
        raise CannotDump(f"an index is held against its segment, and {name.log_path} is not there") from None


def sanity_row(name: FileName, index: OffsetIndex | TimeIndex, size: int) -> Row:
    """The check that a broker makes at its start, to know whether an index of `size` bytes is to be built anew."""
    try:
        index.check()
        if size % index.entry.size:
            raise CorruptIndex(f"{name.path} has {size} bytes, which is not a multiple of {index.entry.size}")
    except CorruptIndex as error:
        return error_row(f"the index does not pass the sanity check: {error}")
    return Row("sane", {}, f"{name.path} passed sanity check.")
