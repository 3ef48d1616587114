"""A run of the tool: each file by its suffix, then what was found out about them together.

Nothing is written to the files or beside them: whoever opens one here opens it for reading.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TypeAlias

from ottla.cli.dump.file_name import CannotDump, FileName
from ottla.cli.dump.findings import Findings
from ottla.cli.dump.log_file import dump_checkpoint, dump_segment
from ottla.cli.dump.offset_index_file import dump_offset_index
from ottla.cli.dump.options import DumpOptions
from ottla.cli.dump.producer_snapshot_file import dump_producer_snapshot
from ottla.cli.dump.row import ERROR, HEADING, Row, error_row, row_text
from ottla.cli.dump.time_index_file import dump_time_index
from ottla.cli.dump.transaction_index_file import dump_transaction_index
from ottla.storage.damage import DamagedFile
from ottla.storage.names import INDEX, LOG, SNAPSHOT, TIME_INDEX, TXN_INDEX
from ottla.world import Disk, File
from ottla.world.system import SystemDisk

CHECKPOINT = ".checkpoint"

FileDumper: TypeAlias = Callable[[Disk, FileName, DumpOptions, Findings], Iterator[Row]]

_DUMPERS: dict[str, FileDumper] = {
    LOG: dump_segment,
    CHECKPOINT: dump_checkpoint,
    INDEX: dump_offset_index,
    TIME_INDEX: dump_time_index,
    TXN_INDEX: dump_transaction_index,
    SNAPSHOT: dump_producer_snapshot,
}


class ReadOnlyDisk(SystemDisk):
    """The file system of someone who only looks: an index that is opened to be read is not made if it is missing."""

    def open(self, path: str, *, create: bool = False, read_only: bool = False, may_rest: bool = False) -> File:
        return super().open(path, read_only=True)


def dump_files(paths: Sequence[str], options: DumpOptions, findings: Findings) -> Iterator[tuple[FileName, Row]]:
    """The rows of all files, each with the file it belongs to. A file that cannot be read gets a row that says why."""
    disk = ReadOnlyDisk()
    for path in paths:
        name = FileName.of(path)
        yield name, Row(HEADING, {}, f"Dumping {name.path}")
        for row in _rows(disk, name, options, findings):
            yield name, row if row.kind != ERROR else _located(name, row)


def _located(name: FileName, row: Row) -> Row:
    """The row of an error, with the file it happened in."""
    reason = row_text(row)
    return row if name.path in reason else error_row(f"{name.path}: {reason}")


def _rows(disk: Disk, name: FileName, options: DumpOptions, findings: Findings) -> Iterator[Row]:
    dumper = _DUMPERS.get(name.suffix)
    if dumper is None:
        yield error_row(f"Ignoring unknown file {name.path}: only {', '.join(_DUMPERS)} files can be dumped")
        return
    try:
        yield from dumper(disk, name, options, findings)
    except OSError as error:
        yield error_row(error.strerror or str(error))
    except (CannotDump, DamagedFile) as error:
        yield error_row(str(error))
