"""The index of aborted transactions of one segment: whose abort markers lie in the segment, and what they undo.

A consumer that reads only committed records gets, with the records, the aborted transactions that reach into them;
here they are looked up. An entry also keeps the last stable offset at the time of its marker: once that is at or
beyond the range asked about, no later entry can reach back into it, and the search is complete.

Promises: entries grow by their last offset. There is no file until the first abort, which most segments never see.
Rebuilt from the log when missing or damaged. Called by `segment` and `cleaner`. On disk: 34 bytes an entry, a
version, the producer's id, the transaction's first offset, its marker's offset, and the last stable offset.
"""

from __future__ import annotations

from collections.abc import Iterator
from struct import Struct
from typing import NamedTuple

from ottla.storage.index import CorruptIndex
from ottla.world import Disk, File

ENTRY = Struct(">hqqqq")
VERSION = 0

# How many entries one read of the file brings: about a page.
_CHUNK = 120


class AbortedTxn(NamedTuple):
    """A transaction that was aborted. `last_offset` is the offset of its marker."""

    producer_id: int
    first_offset: int
    last_offset: int
    last_stable_offset: int


class TransactionIndex:
    """The aborted transactions of the segment that begins at `base_offset`, in the file at `path`."""

    __slots__ = ("_disk", "_file", "_last_offset", "_size", "base_offset", "is_touched", "path")

    def __init__(self, disk: Disk, path: str, base_offset: int, *, size: int | None = None) -> None:
        """`size` is the file's size, 0 for none, when the caller has listed the directory and knows it."""
        self._disk = disk
        self.path = path
        self.base_offset = base_offset
        self._file: File | None = None
        self._size = self._size_on_disk() if size is None else size
        self._last_offset: int | None = None  # of the last entry, once it was read or written
        self.is_touched = False
        """Whether the file was written to or cut since the index was opened."""

    # What it knows

    def __len__(self) -> int:
        return self._size // ENTRY.size

    @property
    def is_empty(self) -> bool:
        return self._size < ENTRY.size

    @property
    def all_aborted(self) -> list[AbortedTxn]:
        """Every entry, in the order of the markers."""
        return list(self._entries(0))

    def collect_aborted(self, fetch_offset: int, upper_bound_offset: int) -> tuple[list[AbortedTxn], bool]:
        """The aborted transactions that overlap [fetch_offset, upper_bound_offset), and whether these are all.

        When they are not, the following segment may know of more.
        """
        found = []
        # What ended below the range cannot overlap it, and its last stable offset lies below the range as well.
        start = self._first_ending_at(fetch_offset) if fetch_offset < upper_bound_offset else 0
        for aborted in self._entries(start):
            if aborted.last_offset >= fetch_offset and aborted.first_offset < upper_bound_offset:
                found.append(aborted)
            if aborted.last_stable_offset >= upper_bound_offset:
                return found, True
        return found, False

    def check(self) -> None:
        """Raise `CorruptIndex` unless the file can be what this index wrote."""
        if self._size % ENTRY.size:
            raise CorruptIndex(f"{self.path} has {self._size} bytes, which is not a multiple of {ENTRY.size}")
        previous = self.base_offset - 1
        for aborted in self._entries(0):
            if aborted.last_offset < self.base_offset:
                raise CorruptIndex(f"{self.path}: {aborted} ends below the segment's start {self.base_offset}")
            if aborted.last_offset <= previous:
                raise CorruptIndex(f"{self.path}: {aborted} does not end above the entry before it, {previous}")
            if not 0 <= aborted.first_offset <= aborted.last_offset:
                raise CorruptIndex(f"{self.path}: {aborted} does not begin before it ends")
            previous = aborted.last_offset

    # What changes it

    def prepare(self) -> None:
        """Open the file for `append`, while an abort for which no descriptor is left can still be refused."""
        self._open()

    def append(self, aborted: AbortedTxn) -> None:
        last_offset = self._last_entry_offset()
        assert last_offset is None or aborted.last_offset > last_offset, (
            f"{self.path}: {aborted} does not end above the last entry, {last_offset}"
        )
        self.is_touched = True
        self._open().write_at(self._size, ENTRY.pack(VERSION, *aborted))
        self._size += ENTRY.size
        self._last_offset = aborted.last_offset

    def truncate_to(self, offset: int) -> None:
        """Drop every transaction whose marker is at or above `offset`."""
        keep = self._first_ending_at(offset)
        if keep < len(self):
            self._truncate(keep * ENTRY.size)

    def reset(self) -> None:
        """Forget everything, also bytes that are no whole entry. A file that exists stays, empty, as in Kafka."""
        if self._size:
            self._truncate(0)

    # Files

    def files_to_sync(self) -> list[File]:
        """The files whose sync makes the entries, or their removal, durable: none when there never was an abort."""
        return [self._open()] if self._size or self.is_touched else []

    def sync(self) -> None:
        for file in self.files_to_sync():
            file.sync()

    def move(self, path: str) -> None:
        """The file, if there is one, goes to another name; an open descriptor follows it."""
        try:
            self._disk.rename(self.path, path)
        except FileNotFoundError:
            assert not self._size, f"{self.path} was removed while in use"
        self.moved(path)

    def moved(self, path: str) -> None:
        """The file has got another name, because its directory was renamed."""
        self.path = path
        if self._file is not None:
            self._file.path = path

    def close(self) -> None:
        """Give the descriptor back; the index can be used again and opens by itself."""
        file, self._file = self._file, None
        if file is not None:
            file.close()

    def delete_if_exists(self) -> bool:
        """Close and remove the file; False when there was none."""
        self.close()
        self.is_touched = False
        self._size = 0
        self._last_offset = None
        try:
            self._disk.remove(self.path)
        except FileNotFoundError:
            return False
        return True

    def _open(self) -> File:
        if self._file is None:
            self._file = self._disk.open(self.path, create=True, may_rest=True)
        return self._file

    def _size_on_disk(self) -> int:
        try:
            return self._disk.size(self.path)
        except FileNotFoundError:
            return 0

    def _truncate(self, size: int) -> None:
        self.is_touched = True
        self._open().truncate(size)
        self._size = size
        self._last_offset = None

    # Entries

    def _entries(self, start: int) -> Iterator[AbortedTxn]:
        """The whole entries from slot `start` on, read a chunk at a time."""
        for slot in range(start, len(self), _CHUNK):
            count = min(_CHUNK, len(self) - slot)
            for version, *fields in ENTRY.iter_unpack(self._read(slot, count)):
                if version != VERSION:
                    raise CorruptIndex(f"{self.path} has an entry of version {version}, and {VERSION} is the latest")
                yield AbortedTxn(*fields)

    def _read(self, slot: int, count: int) -> bytes:
        data = self._open().read_at(slot * ENTRY.size, count * ENTRY.size)
        if len(data) < count * ENTRY.size:
            raise CorruptIndex(
                f"{self.path} ends inside entry {slot + len(data) // ENTRY.size}: it was cut while in use"
            )
        return data

    def _last_entry_offset(self) -> int | None:
        if self._last_offset is None and not self.is_empty:
            self._last_offset = ENTRY.unpack(self._read(len(self) - 1, 1))[3]
        return self._last_offset

    def _first_ending_at(self, offset: int) -> int:
        """The first slot whose transaction ends at or above `offset`: entries grow by their last offset."""
        low, high = 0, len(self)
        while low < high:
            middle = (low + high) // 2
            if ENTRY.unpack(self._read(middle, 1))[3] < offset:
                low = middle + 1
            else:
                high = middle
        return low
