"""Changes on the disk, between the database and Spark: files of whole transactions, numbered like a topic's records.

    <spool>/_new                                             what has come and is not published yet
    <spool>/_position                                        up to where all is here: the next number, and the LSN
    <spool>/<first>-<end>-<lsn>.changes                      records [first, end), and the LSN behind them

Promises: what `_position` says is on the disk before it says it, and it is replaced as a whole; a file that it does not
say is removed by the next start, and one that it does say is published by it. So the spool ends behind a whole
transaction whatever is killed, and `position.lsn` is where the stream goes on. A file stays until the checkpoint has
its records (`confirm`), and only then may PostgreSQL forget them. Called by `capture`, which writes, `change_source`,
which reads, and `reset`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, BinaryIO

from ottla.pipelines.durable import sync, write_beside
from ottla.pipelines.errors import PipelineError

_FILE = re.compile(r"(\d{20})-(\d{20})-([0-9A-F]{16})\.changes")
BUFFER_BYTES = 1 << 20


@dataclass(frozen=True, slots=True)
class Position:
    """Up to where the database was read."""

    offset: int
    """The number of the next record."""
    lsn: int
    slot: str
    system: str
    """The database cluster's identifier, and the database."""


@dataclass(frozen=True, slots=True)
class Slot:
    """The replication slot of a pipeline, noted before it is made."""

    name: str
    system: str
    publication: str | None = None
    """The publication that was made with it; None where there was one."""


@dataclass(frozen=True, slots=True, order=True)
class ChangeFile:
    """Records [first, end) of the stream."""

    first: int
    end: int
    lsn: int
    path: Path
    size: int = 0


def files(spool: Path) -> list[ChangeFile]:
    """The published files, in order."""
    found = []
    for path in spool.iterdir():
        name = _FILE.fullmatch(path.name)
        if name is not None:
            try:
                size = path.stat().st_size
            except FileNotFoundError:
                continue  # removed since, because the checkpoint has it
            found.append(ChangeFile(int(name[1]), int(name[2]), int(name[3], 16), path, size))
    return sorted(found)


def read_position(spool: Path) -> Position | None:
    """How far the spool goes; None before the first record."""
    value = _read(spool / "_position")
    try:
        return None if value is None else Position(**value)
    except TypeError:
        raise PipelineError(f"{spool / '_position'} is damaged: it says no position") from None


def read_slot(spool: Path) -> Slot | None:
    """The slot that the pipeline has made, or was about to make."""
    value = _read(spool / "_slot")
    try:
        return None if value is None else Slot(**value)
    except TypeError:
        raise PipelineError(f"{spool / '_slot'} is damaged: it names no slot") from None


def _read(path: Path) -> dict[str, Any] | None:
    try:
        value = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return None
    except ValueError:
        raise PipelineError(f"{path} is damaged: it is not JSON") from None
    if not isinstance(value, dict):
        raise PipelineError(f"{path} is damaged: it is not a JSON object")
    return value


class ChangeSpool:
    """The writing side, of which there is one."""

    def __init__(self, path: Path) -> None:
        self.path = path.absolute()
        self._new = self.path / "_new"
        self.path.mkdir(parents=True, exist_ok=True)
        self.position = read_position(self.path)
        self._file: BinaryIO | None = None
        self._written = self._marked = 0
        self._first = self.next_offset
        self._waiting: list[Path] = []
        """Files that are whole and wait for the position that says so."""
        self._pending_bytes = 0
        self._done_lsn = self._done_offset = 0
        self._publish()
        self._pending = files(self.path)
        self._pending_bytes = sum(one.size for one in self._pending)

    @property
    def next_offset(self) -> int:
        return 0 if self.position is None else self.position.offset

    @property
    def slot(self) -> Slot | None:
        return read_slot(self.path)

    def note_slot(self, slot: Slot) -> None:
        write_beside(self.path / "_slot", json.dumps(asdict(slot)).encode())

    # What comes from the database

    @property
    def open_bytes(self) -> int:
        """What was written since the last file was ended."""
        return self._written

    def write(self, lines: Iterable[bytes]) -> None:
        for line in lines:
            if self._file is None:
                self._new.mkdir(exist_ok=True)
                self._file = open(self._new / "rows", "wb", BUFFER_BYTES)  # noqa: SIM115 - until the file's end
            self._file.write(line)
            self._written += len(line)

    def mark(self) -> None:
        """What was written up to here is whole transactions."""
        self._marked = self._written

    def cut(self) -> None:
        """What was written since the mark is forgotten."""
        if self._file is not None:
            self._file.flush()
            self._file.truncate(self._marked)
            self._file.seek(self._marked)
        self._written = self._marked

    def roll(self, end: int, lsn: int) -> None:
        """The file that is written ends before the record `end`, and waits for `publish`."""
        if self._file is None:
            return
        self._file.close()
        self._file, self._written, self._marked = None, 0, 0
        rows = self._new / "rows"
        sync(rows)
        whole = self._new / f"{self._first:020d}-{end:020d}-{lsn:016X}.changes"
        rows.rename(whole)
        self._waiting.append(whole)
        self._first = end

    def publish(self, position: Position) -> None:
        """All up to here is in the spool, and the stream may have it."""
        self.roll(position.offset, position.lsn)
        if self._waiting:
            sync(self._new)
        write_beside(self.path / "_position", json.dumps(asdict(position)).encode())
        self.position = position
        self._publish()
        if self._waiting:
            self._waiting.clear()
            known = {one.path.name for one in self._pending}
            new = [one for one in files(self.path) if one.path.name not in known]
            self._pending = sorted([*self._pending, *new])
            self._pending_bytes += sum(one.size for one in new)

    def discard(self) -> None:
        """What was written and is not in the position is forgotten: it comes again.

        Whatever went wrong, the position on the disk decides, as it does after a crash.
        """
        if self._file is not None:
            self._file.close()
        self._file, self._written, self._marked = None, 0, 0
        self._waiting.clear()
        self.position = read_position(self.path)
        self._first = self.next_offset
        self._publish()
        self._pending = [one for one in files(self.path) if one.end > self._done_offset]
        self._pending_bytes = sum(one.size for one in self._pending)

    def _publish(self) -> None:
        """Bring the files to where the position says that they are."""
        if not self._new.is_dir():
            return
        moved = False
        for path in sorted(self._new.iterdir()):
            name = _FILE.fullmatch(path.name)
            if name is not None and int(name[2]) <= self.next_offset:
                path.rename(self.path / path.name)
                moved = True
            else:
                path.unlink()  # it was cut short, and comes again
        if moved:
            sync(self.path)

    # What the checkpoint has

    @property
    def pending_bytes(self) -> int:
        """What waits for Spark."""
        return self._pending_bytes

    def confirm(self, offset: int) -> None:
        """The checkpoint has all records before this one for good: their files go."""
        while self._pending and self._pending[0].end <= offset:
            done = self._pending.pop(0)
            done.path.unlink(missing_ok=True)
            self._pending_bytes -= done.size
            self._done_lsn, self._done_offset = done.lsn, done.end

    @property
    def confirmed_lsn(self) -> int:
        """Up to where PostgreSQL may forget; 0 where that is not known in this run."""
        if self._pending:
            return self._done_lsn
        return 0 if self.position is None else self.position.lsn
