"""The aborted transactions of a segment (`.txnindex`)."""

from __future__ import annotations

from collections.abc import Iterator

from ottla.cli.dump.file_name import FileName
from ottla.cli.dump.findings import Findings
from ottla.cli.dump.options import DumpOptions
from ottla.cli.dump.row import Row
from ottla.storage.transaction_index import VERSION, TransactionIndex
from ottla.world import Disk


def dump_transaction_index(disk: Disk, name: FileName, options: DumpOptions, findings: Findings) -> Iterator[Row]:
    """The rows of a transaction index; `CannotDump` when it has no index's name, `CorruptIndex` when it is none."""
    index = TransactionIndex(disk, name.path, name.base_offset, size=disk.size(name.path))
    try:
        for aborted in index.all_aborted:
            yield Row(
                "abortedTransaction",
                {
                    "version": VERSION,
                    "producerId": aborted.producer_id,
                    "firstOffset": aborted.first_offset,
                    "lastOffset": aborted.last_offset,
                    "lastStableOffset": aborted.last_stable_offset,
                },
            )
    finally:
        index.close()
