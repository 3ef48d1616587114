"""A file that is complete or not there: written beside its place, synced, then given its name.

`ottla.storage` has the same for its checkpoints; here the temporary name is the caller's, because Kafka gives
snapshots and `quorum-state` different ones and tidies them up by these.
"""

from __future__ import annotations

from collections.abc import Iterable

from ottla.types import Buffer
from ottla.world import Disk


def replace_file(disk: Disk, path: str, parts: Iterable[Buffer], *, temporary: str) -> int:
    """Make `parts` the durable content of `path`; returns its size."""
    file = disk.open(temporary, create=True)
    try:
        file.truncate(0)  # what a crash left of an earlier attempt
        size = 0
        for part in parts:
            file.write_at(size, part)
            size += len(part)
        file.sync()
    finally:
        file.close()
    publish(disk, temporary, path)
    return size


def publish(disk: Disk, temporary: str, path: str) -> None:
    """Give a synced file its name, durably."""
    disk.rename(temporary, path)
    disk.sync_dir(parent_of(path))


def parent_of(path: str) -> str:
    """The directory that holds `path`."""
    directory, slash, _ = path.rstrip("/").rpartition("/")
    return directory or slash or "."
