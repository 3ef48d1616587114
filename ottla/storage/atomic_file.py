"""A small file replaced as a whole: a reader, and the next start, find the old content or the new, never a part.

The order is the promise: the bytes are on the device before the name points at them, and the name is on the device
before the caller goes on. Called by everything that keeps a checkpoint.
"""

from __future__ import annotations

from ottla.types import Buffer
from ottla.world import Disk

TEMPORARY = ".tmp"


def write_atomically(disk: Disk, path: str, data: Buffer) -> None:
    """Make `data` the durable content of `path`.

    After an `OSError` the old content is still there; a temporary file may be left, which the next call writes over.
    """
    temporary = path + TEMPORARY
    file = disk.open(temporary, create=True)
    try:
        file.truncate(0)  # what a crash left of an earlier attempt
        file.write_at(0, data)
        file.sync()
    finally:
        file.close()
    disk.rename(temporary, path)
    disk.sync_dir(directory_of(path))


def directory_of(path: str) -> str:
    """The directory that holds `path`."""
    directory, slash, _ = path.rpartition("/")
    return directory or slash or "."
