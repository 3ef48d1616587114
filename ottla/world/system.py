"""The real world: the machine's clock, its file system, its randomness."""

from __future__ import annotations

import errno
import fcntl
import os
import random
import shutil
import time
from collections.abc import Sequence

from ottla.types import Buffer
from ottla.world.disk import Entry, File, Lock
from ottla.world.world import World

# Linux takes at most IOV_MAX buffers a call.
_PARTS_MAX = 1024


def system_world() -> World:
    return World(clock=SystemClock(), disk=SystemDisk(), random=random.SystemRandom())


class SystemClock:
    def now_ms(self) -> int:
        return time.time_ns() // 1_000_000

    def monotonic_ms(self) -> int:
        return time.monotonic_ns() // 1_000_000


class SystemFile:
    """A descriptor and its path. `pread`/`pwrite` keep no cursor, so readers and the writer share one descriptor."""

    __slots__ = ("_fd", "path")

    def __init__(self, path: str, fd: int) -> None:
        self.path = path
        self._fd = fd

    def read_at(self, position: int, size: int) -> bytes:
        data = os.pread(self._fd, size, position)
        if len(data) == size or not data:
            return data
        parts = [data]
        got = len(data)
        while got < size and (data := os.pread(self._fd, size - got, position + got)):
            parts.append(data)
            got += len(data)
        return b"".join(parts)

    def write_at(self, position: int, data: Buffer) -> None:
        written = os.pwrite(self._fd, data, position)
        rest = memoryview(data).cast("B")
        while written < len(rest):  # a short write: the next call says why, or finishes
            written += os.pwrite(self._fd, rest[written:], position + written)

    def write_all_at(self, position: int, parts: Sequence[Buffer]) -> None:
        views = [memoryview(part).cast("B") for part in parts]
        while views:
            written = os.pwritev(self._fd, views[:_PARTS_MAX], position)
            position += written
            while views and written >= len(views[0]):
                written -= len(views[0])
                del views[0]
            if views and written:
                views[0] = views[0][written:]

    def size(self) -> int:
        return os.fstat(self._fd).st_size

    def truncate(self, size: int) -> None:
        os.ftruncate(self._fd, size)

    def allocate(self, size: int) -> None:
        try:
            os.posix_fallocate(self._fd, 0, size)
        except OSError as error:
            if error.errno not in (errno.EOPNOTSUPP, errno.EINVAL):
                raise
            os.ftruncate(self._fd, max(size, self.size()))

    def sync(self) -> None:
        os.fsync(self._fd)

    def fileno(self) -> int:
        return self._fd

    def close(self) -> None:
        fd, self._fd = self._fd, -1
        if fd >= 0:
            os.close(fd)


class SystemLock:
    __slots__ = ("_fd",)

    def __init__(self, fd: int) -> None:
        self._fd = fd

    def release(self) -> None:
        fd, self._fd = self._fd, -1
        if fd >= 0:
            os.close(fd)  # closing the descriptor lets the lock go


class SystemDisk:
    def open(self, path: str, *, create: bool = False, read_only: bool = False) -> File:
        flags = os.O_RDONLY if read_only else os.O_RDWR | os.O_CREAT if create else os.O_RDWR
        return SystemFile(path, os.open(path, flags | os.O_CLOEXEC, 0o644))

    def read(self, path: str) -> bytes:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            return SystemFile(path, fd).read_at(0, os.fstat(fd).st_size)
        finally:
            os.close(fd)

    def scan(self, path: str) -> list[Entry]:
        entries = []
        with os.scandir(path) as found:
            for item in found:
                try:
                    stat = item.stat()
                except FileNotFoundError:
                    continue  # removed between the listing and the look
                entries.append(Entry(item.name, item.is_dir(), stat.st_size, stat.st_mtime_ns // 1_000_000))
        entries.sort()
        return entries

    def names(self, path: str) -> list[str]:
        return sorted(os.listdir(path))

    def exists(self, path: str) -> bool:
        return os.path.exists(path)

    def size(self, path: str) -> int:
        return os.stat(path).st_size

    def modified_ms(self, path: str) -> int:
        return os.stat(path).st_mtime_ns // 1_000_000

    def set_modified_ms(self, path: str, modified_ms: int) -> None:
        os.utime(path, ns=(modified_ms * 1_000_000, modified_ms * 1_000_000))

    def make_dirs(self, path: str) -> None:
        os.makedirs(path, exist_ok=True)

    def rename(self, old: str, new: str) -> None:
        os.replace(old, new)

    def remove(self, path: str) -> None:
        os.unlink(path)

    def remove_tree(self, path: str) -> None:
        try:
            shutil.rmtree(path)
        except FileNotFoundError:
            return  # gone already, which is what was asked for

    def sync_dir(self, path: str) -> None:
        fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.fsync(fd)
        finally:
            os.close(fd)

    def lock(self, path: str) -> Lock:
        fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        try:
            # Java's FileChannel.tryLock takes a POSIX record lock, so a Kafka and an Ottla see each other's; flock
            # also refuses a second node in this same process, which record locks do not.
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            fcntl.lockf(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            os.close(fd)
            if isinstance(error, BlockingIOError | PermissionError):
                raise BlockingIOError(errno.EAGAIN, "another process holds the lock", path) from None
            raise
        return SystemLock(fd)
