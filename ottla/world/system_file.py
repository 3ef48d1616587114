"""An open file of the machine: a descriptor and its path."""

from __future__ import annotations

import errno
import os
from collections.abc import Sequence

from ottla.types import Buffer

# Linux takes at most IOV_MAX buffers a call.
_PARTS_MAX = 1024


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
        if written != (data.nbytes if isinstance(data, memoryview) else len(data)):
            self._write_rest(position, data, written)

    def _write_rest(self, position: int, data: Buffer, written: int) -> None:
        rest = memoryview(data).cast("B")
        while written < len(rest):  # a short write: the next call says why, or finishes
            written += os.pwrite(self._fd, rest[written:], position + written)

    def write_all_at(self, position: int, parts: Sequence[Buffer]) -> None:
        if position < 0:  # to Linux -1 would mean the cursor, which nobody moves
            raise OSError(errno.EINVAL, "a negative position", self.path)
        for start in range(0, len(parts), _PARTS_MAX):
            views = [memoryview(part).cast("B") for part in parts[start : start + _PARTS_MAX]]
            size = sum(map(len, views))
            written = os.pwritev(self._fd, views, position)
            if written < size:  # rare, and a copy is the plainest way to begin in the middle of a part
                self.write_at(position + written, b"".join(views)[written:])
            position += size

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
        os.fsync(self.fileno())  # fsync would answer a closed file with ValueError

    def fileno(self) -> int:
        if self._fd < 0:
            raise OSError(errno.EBADF, "the file is closed", self.path)
        return self._fd

    def close(self) -> None:
        fd, self._fd = self._fd, -1
        if fd >= 0:
            os.close(fd)
