"""The real world: the machine's clock, its file system, its randomness."""

from __future__ import annotations

import errno
import fcntl
import os
import random
import threading
import time
from collections.abc import Callable
from typing import TypeVar

from ottla.world.disk import Entry, File, Lock, Space
from ottla.world.open_files import OpenFiles, RestingFile
from ottla.world.system_file import SystemFile
from ottla.world.world import World

T = TypeVar("T")


def system_world() -> World:
    return World(clock=SystemClock(), disk=SystemDisk(), random=random.SystemRandom())


class SystemClock:
    def now_ms(self) -> int:
        return time.time_ns() // 1_000_000

    def monotonic_ms(self) -> int:
        return time.monotonic_ns() // 1_000_000


class SystemLock:
    """A record lock, held through the one descriptor that this process has of the file."""

    __slots__ = ("_fd", "file_id")

    def __init__(self, fd: int, file_id: tuple[int, int]) -> None:
        self._fd = fd
        self.file_id = file_id

    def release(self) -> None:
        with _lock_guard:
            fd, self._fd = self._fd, -1
            if fd >= 0:
                os.close(fd)  # closing the descriptor lets the lock go
                _locked.discard(self.file_id)


# Device and inode of every lock file that this process holds. Record locks belong to the process: a second one in it
# would be granted, and closing *any* descriptor of the file drops the first. So a held file is not even opened again.
_locked: set[tuple[int, int]] = set()
_lock_guard = threading.Lock()


class SystemDisk:
    def __init__(self, files: OpenFiles | None = None) -> None:
        """`files` bounds how many files hold a descriptor, of those that may rest."""
        self._files = files

    def open(self, path: str, *, create: bool = False, read_only: bool = False, may_rest: bool = False) -> File:
        flags = os.O_RDONLY if read_only else os.O_RDWR | os.O_CREAT if create else os.O_RDWR
        if may_rest and self._files is not None and self._files.is_here:
            return RestingFile(path, self._files, flags)
        return SystemFile(path, self._with_room(lambda: os.open(path, flags | os.O_CLOEXEC, 0o644)))

    def _with_room(self, call: Callable[[], T]) -> T:
        return call() if self._files is None else self._files.with_room(call)

    def read(self, path: str) -> bytes:
        fd = self._with_room(lambda: os.open(path, os.O_RDONLY | os.O_CLOEXEC))
        try:
            return SystemFile(path, fd).read_at(0, os.fstat(fd).st_size)
        except OSError as error:
            # The system names the file when it cannot be opened; when it cannot be read, we do.
            raise OSError(error.errno, error.strerror, path) from None
        finally:
            os.close(fd)

    def scan(self, path: str) -> list[Entry]:
        entries = []
        with self._with_room(lambda: os.scandir(path)) as found:
            for item in found:
                try:
                    stat = item.stat()
                except FileNotFoundError:
                    continue  # removed between the listing and the look
                entries.append(Entry(item.name, item.is_dir(), stat.st_size, stat.st_mtime_ns // 1_000_000))
        entries.sort()
        return entries

    def names(self, path: str) -> list[str]:
        return sorted(self._with_room(lambda: os.listdir(path)))

    def exists(self, path: str) -> bool:
        try:
            os.stat(path)
        except (FileNotFoundError, NotADirectoryError):
            return False  # any other failure says nothing about the file, and taking it for missing would lose it
        return True

    def size(self, path: str) -> int:
        return os.stat(path).st_size

    def modified_ms(self, path: str) -> int:
        return os.stat(path).st_mtime_ns // 1_000_000

    def set_modified_ms(self, path: str, modified_ms: int) -> None:
        os.utime(path, ns=(modified_ms * 1_000_000, modified_ms * 1_000_000))

    def space(self, path: str) -> Space:
        found = os.statvfs(path)
        return Space(found.f_blocks * found.f_frsize, found.f_bavail * found.f_frsize)

    def make_dirs(self, path: str) -> None:
        os.makedirs(path, exist_ok=True)

    def rename(self, old: str, new: str) -> None:
        os.replace(old, new)

    def remove(self, path: str) -> None:
        os.unlink(path)

    def remove_tree(self, path: str) -> None:
        import shutil  # with its archive formats it takes as long to load as all of this package

        while True:
            try:
                shutil.rmtree(path)
                return
            except FileNotFoundError:
                # Someone else removed it, which is what was asked for; or only something in it, and the rest remains.
                if not self.exists(path):
                    return

    def sync_dir(self, path: str) -> None:
        fd = self._with_room(lambda: os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC))
        try:
            os.fsync(fd)
        finally:
            os.close(fd)

    def lock(self, path: str) -> Lock:
        with _lock_guard:
            try:
                is_held = _file_id(os.stat(path)) in _locked
            except FileNotFoundError:
                is_held = False
            if is_held:
                raise _lock_refused(path)
            fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
            try:
                # The kind of lock that Java's FileChannel.tryLock takes, so a Kafka and an Ottla see each other's.
                fcntl.lockf(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError as error:
                os.close(fd)
                if isinstance(error, BlockingIOError | PermissionError):
                    raise _lock_refused(path) from None
                raise
            lock = SystemLock(fd, _file_id(os.fstat(fd)))
            _locked.add(lock.file_id)
            return lock


def _file_id(stat: os.stat_result) -> tuple[int, int]:
    return stat.st_dev, stat.st_ino


def _lock_refused(path: str) -> BlockingIOError:
    return BlockingIOError(errno.EAGAIN, "another process or node holds the lock", path)
