"""The `.snapshot` files of one log directory, by the offset in their names.

Promises: `offsets` are the snapshots that may be used, in order; a file may be gone all the same, because recovery
works on the directory with a second list, and that is no error here. Called by `producer_state`.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Collection, Iterable

from ottla.storage import names
from ottla.world import Disk

_NAME_SIZE = len(names.offset_name(0)) + len(names.SNAPSHOT)


class SnapshotFiles:
    """What snapshots there are in `directory`."""

    __slots__ = ("_disk", "directory", "offsets")

    def __init__(self, disk: Disk, directory: str, file_names: Iterable[str] | None = None) -> None:
        """`file_names` are the directory's names, if the caller has listed it; a missing directory has none."""
        self._disk = disk
        self.directory = directory
        if file_names is None:
            try:
                file_names = disk.names(directory)
            except FileNotFoundError:
                file_names = ()
        snapshots = (name for name in file_names if name.endswith(names.SNAPSHOT) and len(name) == _NAME_SIZE)
        self.offsets: list[int] = sorted(offset for name in snapshots if (offset := names.offset_of(name)) is not None)

    def path(self, offset: int) -> str:
        return f"{self.directory}/{names.offset_name(offset)}{names.SNAPSHOT}"

    def read(self, offset: int) -> bytes:
        return self._disk.read(self.path(offset))

    def write(self, offset: int, data: bytes, *, sync: bool) -> str:
        """Write a snapshot; with `sync`, it and its name are durable on return. Returns its path.

        One that is there already and has other content is replaced durably in any case: after a power cut a torn new
        one would be found out, and the old one believed.
        """
        path = self.path(offset)
        if offset in self.offsets:
            if not sync and self._has(offset, data):
                return path
            sync = True
        file = self._disk.open(path, create=True)
        try:
            file.truncate(0)
            file.write_at(0, data)
            if sync:
                file.sync()
        finally:
            file.close()
        if sync:
            self._disk.sync_dir(self.directory)
        if offset not in self.offsets:
            insort(self.offsets, offset)
        return path

    def _has(self, offset: int, data: bytes) -> bool:
        try:
            return self.read(offset) == data
        except FileNotFoundError:
            return False

    def remove(self, offset: int) -> None:
        self.offsets.remove(offset)
        try:
            self._disk.remove(self.path(offset))
        except FileNotFoundError:
            return  # gone already, which is what was asked for

    def remove_before(self, offset: int) -> None:
        for snapshot in self.offsets[: bisect_left(self.offsets, offset)]:
            self.remove(snapshot)

    def remove_outside(self, start_offset: int, end_offset: int) -> None:
        """Keep those above `start_offset`, up to and including `end_offset`."""
        for offset in list(self.offsets):
            if offset > end_offset or offset <= start_offset:
                self.remove(offset)

    def remove_strays(self, segment_base_offsets: Collection[int]) -> None:
        """Remove those that belong to no segment. The newest of them stays when it does not lie below the last
        segment's start: a clean shutdown leaves one at the log's end."""
        strays = [offset for offset in self.offsets if offset not in segment_base_offsets]
        if strays and strays[-1] >= max(segment_base_offsets, default=0):
            strays.pop()
        for offset in strays:
            self.remove(offset)

    def mark_deleted(self, offset: int) -> str | None:
        """Give a snapshot its deleted name and return that path; None when there is no such file."""
        if offset not in self.offsets:
            return None
        self.offsets.remove(offset)
        path = self.path(offset)
        try:
            self._disk.rename(path, path + names.DELETED)
        except FileNotFoundError:
            return None
        return path + names.DELETED
