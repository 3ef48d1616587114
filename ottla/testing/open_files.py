"""A disk that knows what is open, so that a node which dies inside a living process leaves no descriptor behind."""

from __future__ import annotations

from ottla.world import File, Lock
from ottla.world.system import SystemDisk

_SWEEP_MIN = 64


class CountingDisk(SystemDisk):
    """The real file system, and a list of what was opened through it."""

    def __init__(self) -> None:
        super().__init__()
        self._opened: list[File] = []
        self._locks: list[Lock] = []
        self._sweep_at = _SWEEP_MIN

    def open(self, path: str, *, create: bool = False, read_only: bool = False, may_rest: bool = False) -> File:
        file = super().open(path, create=create, read_only=read_only, may_rest=may_rest)
        self._opened.append(file)
        if len(self._opened) >= self._sweep_at:
            self._opened = [one for one in self._opened if _is_open(one)]
            self._sweep_at = max(_SWEEP_MIN, 2 * len(self._opened))
        return file

    def lock(self, path: str) -> Lock:
        lock = super().lock(path)
        self._locks.append(lock)
        return lock

    @property
    def open_paths(self) -> list[str]:
        return [file.path for file in self._opened if _is_open(file)]

    def close_all(self) -> None:
        """Close what is open and let every lock go, as the end of a process does. Nobody may use the disk meanwhile."""
        for file in self._opened:
            file.close()
        for lock in self._locks:
            lock.release()
        self._opened.clear()
        self._locks.clear()


def _is_open(file: File) -> bool:
    try:
        file.fileno()
    except OSError:
        return False
    return True
