"""Files and directories, as the broker sees them: synchronous, positional, explicit about what is durable.

Promises asked of every implementation:
- `write_at` writes all of the data or raises `OSError`; what it wrote is readable at once, and durable only after
  `sync`. A crash may keep any part of it until then.
- `rename` replaces the target atomically; it is durable only after `sync_dir` of the directory. So are creations and
  removals.
- A missing file or directory raises `FileNotFoundError`; every other failure of the device raises `OSError`.

Paths are plain strings joined with `/`: they are built thousands of times at start-up, and `pathlib` would cost more
than the system calls.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Protocol

from ottla.types import Buffer


class Entry(NamedTuple):
    """One name in a directory."""

    name: str
    is_dir: bool
    size: int
    modified_ms: int


class Space(NamedTuple):
    """How large the device behind a directory is, and what this process may still write to it."""

    total_bytes: int
    usable_bytes: int


class File(Protocol):
    """An open file. There is no cursor: every read and write names its position."""

    path: str

    def read_at(self, position: int, size: int) -> bytes:
        """Up to `size` bytes from `position`; fewer only at the end of the file."""
        ...

    def write_at(self, position: int, data: Buffer) -> None:
        """Write all of `data` at `position`, extending the file if need be."""
        ...

    def write_all_at(self, position: int, parts: Sequence[Buffer]) -> None:
        """Write `parts` one behind the other from `position`, in one call where the system allows it."""
        ...

    def size(self) -> int: ...

    def truncate(self, size: int) -> None:
        """Cut the file to `size`, or extend it with zeros."""
        ...

    def allocate(self, size: int) -> None:
        """Reserve room up to `size` bytes and extend the file to it with zeros."""
        ...

    def sync(self) -> None:
        """Return when everything written so far is on the device. Safe to call from another thread."""
        ...

    def fileno(self) -> int:
        """The descriptor, for `sendfile`; `OSError` where there is none."""
        ...

    def close(self) -> None:
        """Give the descriptor back; a second call does nothing."""
        ...


class Lock(Protocol):
    """An exclusive hold on a file, until released or until the process ends."""

    def release(self) -> None: ...


class Disk(Protocol):
    """The file system."""

    def open(self, path: str, *, create: bool = False, read_only: bool = False, may_rest: bool = False) -> File:
        """Open an existing file, or with `create` also a new one.

        One that `may_rest` may be without a descriptor while nobody uses it, and is opened again by its path: whoever
        renames it sets the new one. It is used in the thread that opened it, but for `sync`.
        """
        ...

    def read(self, path: str) -> bytes:
        """The whole of a small file."""
        ...

    def scan(self, path: str) -> list[Entry]:
        """The entries of a directory, sorted by name, with their sizes."""
        ...

    def names(self, path: str) -> list[str]:
        """The names in a directory, sorted; cheaper than `scan`."""
        ...

    def exists(self, path: str) -> bool: ...

    def size(self, path: str) -> int: ...

    def modified_ms(self, path: str) -> int: ...

    def set_modified_ms(self, path: str, modified_ms: int) -> None: ...

    def space(self, path: str) -> Space:
        """The room on the device that holds `path`."""
        ...

    def make_dirs(self, path: str) -> None:
        """Make the directory and what is missing above it; it may exist already."""
        ...

    def rename(self, old: str, new: str) -> None: ...

    def remove(self, path: str) -> None: ...

    def remove_tree(self, path: str) -> None:
        """Remove a directory and all in it; a missing one is no error."""
        ...

    def sync_dir(self, path: str) -> None:
        """Return when the directory's names are on the device."""
        ...

    def lock(self, path: str) -> Lock:
        """Take the lock file exclusively, making it if need be; `BlockingIOError` if another node holds it.

        Nothing else opens a lock file while it is held: on POSIX, closing any descriptor of it lets the lock go.
        """
        ...
