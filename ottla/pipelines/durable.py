"""Files that outlive a crash of the machine: synced before they have their names, and the names synced too."""

from __future__ import annotations

import os
import uuid
from pathlib import Path


def write_beside(path: Path, data: bytes) -> None:
    """Write a file under another name, make it durable, then give it its own."""
    beside = path.with_name(f".{path.name}.{uuid.uuid4().hex}")
    try:
        beside.write_bytes(data)
        sync(beside)
        beside.replace(path)
    except BaseException:
        beside.unlink(missing_ok=True)
        raise
    sync(path.parent)


def sync_tree(root: Path) -> None:
    """Make everything below a directory durable."""
    for path in root.rglob("*"):
        sync(path)
    sync(root)


def sync_checkpoint(place: str) -> None:
    """Make the newest micro-batches of a query's checkpoint durable, which Spark writes and does not sync.

    One that is not on a disk of this machine is kept by whoever keeps it.
    """
    place = place.removeprefix("file://").removeprefix("file:")
    path = Path(place)
    if "://" in place or not path.is_dir():
        return
    for log in (path / "offsets", path / "commits"):
        batches = sorted(int(one.name) for one in log.iterdir() if one.name.isdigit()) if log.is_dir() else []
        for batch in batches[-2:]:  # Spark may have begun another since
            sync(log / str(batch))
        if batches:
            sync(log)


def sync(path: Path) -> None:
    """Make a file's bytes durable, or the names in a directory."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
