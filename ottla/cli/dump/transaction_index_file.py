"""The aborted transactions of a segment (`.txnindex`)."""

from __future__ import annotations

from collections.abc import Iterator

from ottla.cli.dump.file_name import FileName
from ottla.cli.dump.findings import Findings
from ottla.cli.dump.options import DumpOptions
from ottla.cli.dump.row import Row, error_row
from ottla.storage.transaction_index import ENTRY, VERSION
from ottla.world import Disk

_CHUNK_SIZE = 1024 * ENTRY.size


def dump_transaction_index(disk: Disk, name: FileName, options: DumpOptions, findings: Findings) -> Iterator[Row]:
    """The rows of a transaction index. The index itself refuses a version that it does not know; here it is shown."""
    file = disk.open(name.path, read_only=True)
    try:
        end = file.size() // ENTRY.size * ENTRY.size
        for position in range(0, end, _CHUNK_SIZE):
            chunk = file.read_at(position, min(_CHUNK_SIZE, end - position))
            for entry in ENTRY.iter_unpack(chunk):
                names = ("version", "producerId", "firstOffset", "lastOffset", "lastStableOffset")
                yield Row("abortedTransaction", dict(zip(names, entry, strict=True)))
                if entry[0] != VERSION:
                    yield error_row(f"an entry has version {entry[0]}, and only {VERSION} is known")
    finally:
        file.close()
