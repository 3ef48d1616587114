"""The files of a process that may rest: their descriptors are given back when too many are open, and had again by path.

A node has a file or more for each segment, and may have fewer descriptors than segments. Promises: no more than
`open_max` of these files hold a descriptor; the one that nobody has used for long gives its own back first, those with
nothing to sync before others; whoever uses a resting file notices nothing. A file that was written to is synced before
it rests, because an error of the device that comes while a file is open is told to the next sync of that descriptor,
and one that comes later may be told to nobody.

All of it happens in one thread, the loop's; only `sync` may run in another. Made by `run_node`, used by `SystemDisk`.
"""

from __future__ import annotations

import errno
import logging
import os
import resource
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Sequence
from typing import TypeVar

from ottla.types import Buffer
from ottla.world.system_file import SystemFile

log = logging.getLogger(__name__)

T = TypeVar("T")

OPEN_MIN = 16
"""So many files may be open however low the limit is."""
LOOKED_AT_MAX = 64
"""How many files are looked at to find one that rests: then one of them does, used or not."""
RENAME_TRIES = 100
RENAME_WAIT_S = 0.01
TOO_MANY_FILES = (errno.EMFILE, errno.ENFILE)


def raise_open_file_limit() -> None:
    """Let the process open as many files as its hard limit allows, as a JVM does."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != hard:
        try:
            resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
        except (OSError, ValueError) as error:  # not on every system may the limit be the largest number there is
            log.warning("[OpenFiles] The limit of open files stays at %d: %s", soft, error)


def open_file_limit() -> int:
    """How many files the process may have open now."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return 2**31 if soft == resource.RLIM_INFINITY else soft


class OpenFiles:
    """See the module."""

    def __init__(self, open_max: int | None = None) -> None:
        """Half of the descriptors by default, as the limit is then: connections need the others."""
        self._open_max = open_max
        self._thread = threading.get_ident()
        self._open: OrderedDict[RestingFile, None] = OrderedDict()
        """The files with a descriptor, roughly the one first that was not used for longest."""
        self.lock = threading.Lock()
        """Held where another thread's sync and a rest could meet."""
        self._has_warned = False

    def __len__(self) -> int:
        return len(self._open)

    @property
    def is_here(self) -> bool:
        """Whether this is the thread whose files may rest."""
        return threading.get_ident() == self._thread

    @property
    def open_max(self) -> int:
        return max(OPEN_MIN, open_file_limit() // 2) if self._open_max is None else self._open_max

    def open(self, file: RestingFile, flags: int) -> int:
        """A descriptor for a file that has none."""
        if len(self._open) >= OPEN_MIN:
            while len(self._open) >= self.open_max and self._rest_one():
                pass
        fd = self.with_room(lambda: os.open(file.path, flags | os.O_CLOEXEC, 0o644))
        self._open[file] = None
        return fd

    def with_room(self, call: Callable[[], T]) -> T:
        """Do something that needs a descriptor for a moment; where none is left, one of the open files rests."""
        while True:
            try:
                return call()
            except OSError as error:
                if error.errno not in TOO_MANY_FILES or not self.is_here or not self._rest_one():
                    raise

    def forget(self, file: RestingFile) -> None:
        self._open.pop(file, None)

    def _rest_one(self) -> bool:
        """Let one of the files rest; False when there is none that can."""
        chosen: RestingFile | None = None
        lowest = 4
        for _ in range(min(len(self._open), LOOKED_AT_MAX)):
            file = next(iter(self._open))
            self._open.move_to_end(file)
            # To open a file again costs little, a sync much.
            rank = 2 * file.is_dirty + file.is_used
            file.is_used = False
            if rank < lowest and not file.syncing_count:
                chosen, lowest = file, rank
                if not rank:
                    break
        if chosen is None:
            return False
        if chosen.is_dirty and not self._has_warned:
            self._has_warned = True
            log.warning(
                "[OpenFiles] More than %d files are in use at a time, and each is synced before another takes its "
                "place: raise the limit of open files (ulimit -n) of this process.", len(self._open),
            )  # fmt: skip
        is_resting = chosen.rest()
        if is_resting:
            del self._open[chosen]
        return is_resting


class RestingFile(SystemFile):
    """A file that may have no descriptor while nobody uses it."""

    __slots__ = ("_failure", "_files", "_flags", "_is_closed", "is_dirty", "is_used", "syncing_count")

    def __init__(self, path: str, files: OpenFiles, flags: int) -> None:
        super().__init__(path, -1)
        self._files = files
        self._flags = flags & ~os.O_CREAT
        self._is_closed = False
        self._failure: OSError | None = None
        """Why what was written could not be made durable before a rest: for whoever syncs, and a second try may lie."""
        self.is_dirty = False
        """Whether it was written to since it was last synced."""
        self.is_used = True
        """Whether it was used since somebody last looked."""
        self.syncing_count = 0
        self._fd = files.open(self, flags)

    def read_at(self, position: int, size: int) -> bytes:
        self._wake()
        return super().read_at(position, size)

    def write_at(self, position: int, data: Buffer) -> None:
        self.is_used = self.is_dirty = True
        if self._fd < 0:
            self._wake()
        written = os.pwrite(self._fd, data, position)
        if written != (data.nbytes if isinstance(data, memoryview) else len(data)):
            self._write_rest(position, data, written)

    def write_all_at(self, position: int, parts: Sequence[Buffer]) -> None:
        self._wake()
        self.is_dirty = True
        super().write_all_at(position, parts)

    def size(self) -> int:
        self._wake()
        return super().size()

    def truncate(self, size: int) -> None:
        self._wake()
        self.is_dirty = True
        super().truncate(size)

    def allocate(self, size: int) -> None:
        self._wake()
        self.is_dirty = True
        super().allocate(size)

    def fileno(self) -> int:
        self._wake()
        return self._fd

    def _wake(self) -> None:
        self.is_used = True
        if self._fd < 0:
            self._check_open()
            self._fd = self._files.open(self, self._flags)

    def _check_open(self) -> None:
        if self._is_closed:
            raise OSError(errno.EBADF, "the file is closed", self.path)

    def sync(self) -> None:
        with self._files.lock:
            self._check_open()
            if self._failure is not None:
                raise self._failure
            fd, was_dirty = self._fd, self.is_dirty
            self.syncing_count += 1
            self.is_dirty = False  # what is written from now on is not covered
        try:
            if fd >= 0:
                os.fsync(fd)
            else:
                self._sync_by_path()
        except OSError:
            self.is_dirty = was_dirty or self.is_dirty
            raise
        finally:
            with self._files.lock:
                self.syncing_count -= 1

    def _sync_by_path(self) -> None:
        """What this process wrote was synced when the file went to rest; what one before it wrote perhaps not."""
        for _ in range(RENAME_TRIES):
            try:
                fd = os.open(self.path, os.O_RDONLY | os.O_CLOEXEC)
                break
            except FileNotFoundError:
                if self._is_closed:
                    return
                time.sleep(RENAME_WAIT_S)  # the loop's thread has renamed it and will set the new path
        else:
            raise FileNotFoundError(errno.ENOENT, "gone while it was to be synced", self.path)
        try:
            os.fsync(fd)
        finally:
            os.close(fd)

    def rest(self) -> bool:
        """Give the descriptor back for now; False when a sync has just begun, or has failed."""
        with self._files.lock:
            if self.syncing_count or self._failure is not None:
                return False
            if self.is_dirty:
                try:
                    os.fsync(self._fd)
                except OSError as error:
                    self._failure = error
                    return False
                self.is_dirty = False
            fd, self._fd = self._fd, -1
        os.close(fd)
        return True

    def close(self) -> None:
        self._is_closed = True
        self._files.forget(self)
        super().close()
