"""What the two sparse indexes of a segment share: fixed-size entries in a file, the newest of them still in memory.

Promises: entries are found whether they are in the file or not yet; memory is bounded (`PENDING_MAX` bytes wait to be
written, one page is kept for look-ups); the file holds whole entries only once `write_out` has run. Rebuilt from the
log when missing or damaged, so losing one costs time and never data.

Entries wait in memory because an index entry for every 4 KiB of log would double the system calls of an append.
A crash loses them together with the log bytes that recovery reads again anyway: `write_out` runs before every sync.
Called by `offset_index` and `time_index`.
"""

from __future__ import annotations

from struct import Struct

from ottla.errors import CorruptMessage
from ottla.world import Disk, File

PENDING_MAX = 8192
PAGE_SIZE = 4096
RELATIVE_OFFSET_MAX = 2**31 - 1


class CorruptIndex(CorruptMessage):
    """An index file does not fit its segment; it is rebuilt from the log."""


class SparseIndex:
    """Entries of `entry` format, sorted in both columns, in the file at `path`."""

    __slots__ = (
        "_closing_count",
        "_disk",
        "_file",
        "_is_whole",
        "_page",
        "_page_number",
        "_pending",
        "_written",
        "base_offset",
        "bytes_max",
        "entry",
        "is_full",
        "is_touched",
        "path",
    )

    def __init__(
        self,
        disk: Disk,
        path: str,
        base_offset: int,
        *,
        entry: Struct,
        bytes_max: int,
        size: int,
        closing_count: int = 0,
    ) -> None:
        """`size` is the file's present size, -1 without one: the caller has listed the directory and knows it.

        `closing_count` is how many slots are kept for entries that close the segment.
        """
        self._disk = disk
        self.path = path
        self.base_offset = base_offset
        self.bytes_max = bytes_max
        self.entry = entry
        self._file: File | None = None
        self._pending = bytearray()
        self._written = max(size, 0) // entry.size
        self._is_whole = size >= 0 and size % entry.size == 0
        """Whether the file is there and has nothing but entries."""
        self._page = b""
        self._page_number = -1
        self._closing_count = closing_count
        self.is_full = False
        """Whether the segment must end. An attribute, because every append asks."""
        self.is_touched = False
        """Whether the file was written to or cut since the index was opened."""
        self._judge_room()

    @property
    def entry_count(self) -> int:
        return self._written + len(self._pending) // self.entry.size

    @property
    def entry_count_max(self) -> int:
        return self.bytes_max // self.entry.size

    @property
    def size(self) -> int:
        return self.entry_count * self.entry.size

    def file(self) -> File:
        if self._file is None:
            self._file = self._disk.open(self.path, create=True, may_rest=True)
        return self._file

    @property
    def is_bare(self) -> bool:
        """Whether there is nothing in it, and nothing to repair about its file."""
        return self._is_whole and not self._written and not self._pending

    def can_hold(self, offset: int) -> bool:
        """Whether the offset fits in the four bytes an entry has for it."""
        return 0 <= offset - self.base_offset <= RELATIVE_OFFSET_MAX

    def raw(self, slot: int) -> tuple[int, ...]:
        """The entry at `slot` as it is on disk: offsets are relative."""
        if slot >= self._written:
            return self.entry.unpack_from(self._pending, (slot - self._written) * self.entry.size)
        per_page = PAGE_SIZE // self.entry.size
        number, place = divmod(slot, per_page)
        if number != self._page_number:
            count = min(per_page, self._written - number * per_page)
            self._page = self.file().read_at(number * per_page * self.entry.size, count * self.entry.size)
            self._page_number = number
        position = place * self.entry.size
        if position + self.entry.size > len(self._page):
            raise CorruptIndex(f"{self.path} ends before entry {slot}: it was cut while in use")
        return self.entry.unpack_from(self._page, position)

    def floor_slot(self, target: int, column: int) -> int:
        """The last slot whose value in `column` is at most `target`; -1 if there is none."""
        low, high = -1, self.entry_count - 1
        if high >= 0 and len(self._pending) >= self.entry.size and self.raw(self._written)[column] <= target:
            low = self._written  # readers mostly want the newest part, which is in memory
        while low < high:
            middle = (low + high + 1) >> 1
            if self.raw(middle)[column] <= target:
                low = middle
            else:
                high = middle - 1
        return low

    def append_raw(self, *values: int) -> None:
        self._pending += self.entry.pack(*values)
        if len(self._pending) >= PENDING_MAX:
            self.write_out()
        self._judge_room()

    def write_out(self) -> None:
        """Put the waiting entries into the file; they are durable once it is synced."""
        if self._pending:
            self.is_touched = True
            self.file().write_at(self._written * self.entry.size, self._pending)
            self._written += len(self._pending) // self.entry.size
            self._pending.clear()
            self._page_number = -1

    def truncate_to_entries(self, count: int) -> None:
        if count < self._written:
            self._pending.clear()
            self.is_touched = True
            self.file().truncate(count * self.entry.size)
            self._written = count
            self._page_number = -1
        else:
            del self._pending[(count - self._written) * self.entry.size :]
        self._judge_room()

    def reset(self) -> None:
        """Forget everything, also bytes of the file that are not whole entries."""
        self._pending.clear()
        self.is_touched = True
        self.file().truncate(0)
        self._is_whole = True
        self._written = 0
        self._page_number = -1
        self._judge_room()

    def _judge_room(self) -> None:
        self.is_full = self.entry_count >= self.entry_count_max - self._closing_count

    def move(self, path: str) -> None:
        """The file goes to another name; an open descriptor follows it."""
        self._disk.rename(self.path, path)
        self.moved(path)

    def moved(self, path: str) -> None:
        """The file has got another name, because its directory was renamed."""
        self.path = path
        if self._file is not None:
            self._file.path = path

    def rest(self) -> None:
        """Give the descriptor back for now, unless entries wait to be written."""
        if not self._pending:
            self.abandon()

    def abandon(self) -> None:
        """Give the descriptor back without writing: the file is being deleted, or its directory has failed."""
        self._pending.clear()
        file, self._file = self._file, None
        if file is not None:
            file.close()
