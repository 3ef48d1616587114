"""`partition.metadata`: the id of the topic that a partition directory belongs to (KIP-516).

Promises: the id is durable when `flush` returns, and is written before the first record, so that a directory of a
deleted topic is never taken for one of a new topic with the same name. One directory never gets two ids.
Called by `log`: `record` when the id becomes known, `flush` before an append.
"""

from __future__ import annotations

from ottla.errors import InconsistentTopicId
from ottla.storage import names
from ottla.storage.atomic_file import write_atomically
from ottla.storage.checkpoint import INT32_MAX, parse_number
from ottla.storage.damage import DamagedFile
from ottla.types import ZERO_UUID, Uuid
from ottla.world import Disk

VERSION = 0


class PartitionMetadataFile:
    """The topic id of one partition directory; `dirty` while it waits to be written."""

    __slots__ = ("_disk", "dirty", "path")

    def __init__(self, disk: Disk, directory: str) -> None:
        self._disk = disk
        self.path = f"{directory}/{names.PARTITION_METADATA}"
        self.dirty: Uuid | None = None

    def exists(self) -> bool:
        return self._disk.exists(self.path)

    def record(self, topic_id: Uuid) -> None:
        """Keep the id for the next `flush`."""
        if self.dirty is not None and self.dirty != topic_id:
            raise InconsistentTopicId(f"{self.path} is to hold topic id {self.dirty} and cannot take {topic_id}")
        self.dirty = topic_id

    def flush(self) -> None:
        """Write the recorded id, durably, if one waits."""
        if self.dirty is not None:
            write_atomically(self._disk, self.path, encode(self.dirty))
            self.dirty = None

    def read(self) -> Uuid:
        """The id in the file; `FileNotFoundError` without one, `DamagedFile` when it cannot be read."""
        return decode(self.path, self._disk.read(self.path))

    def delete(self) -> None:
        self._disk.remove(self.path)

    def moved(self, directory: str) -> None:
        """The partition's directory has got another name."""
        self.path = f"{directory}/{names.PARTITION_METADATA}"


def encode(topic_id: Uuid) -> bytes:
    assert topic_id != ZERO_UUID, "the zero id stands for no topic"
    return f"version: {VERSION}\ntopic_id: {topic_id}".encode("ascii")


def decode(path: str, data: bytes) -> Uuid:
    """The topic id in `data`, which was read from `path`. A newer version may have more lines, as in Kafka."""
    lines = data.decode("latin-1").split("\n")
    name, _, number = lines[0].partition(": ")
    version = parse_number(number, INT32_MAX)
    if name != "version" or version < VERSION:
        raise DamagedFile(path, "line 1", f"`version: {VERSION}`", repr(lines[0]))
    name, _, text = lines[1].partition(": ") if len(lines) > 1 else ("", "", "")
    try:
        topic_id = Uuid.parse(text)
    except ValueError:
        topic_id = ZERO_UUID
    if name != "topic_id" or topic_id == ZERO_UUID or str(topic_id) != text:
        raise DamagedFile(
            path, "line 2", "`topic_id:` and a topic's id", repr(lines[1]) if len(lines) > 1 else "the end"
        )
    if version == VERSION and len(lines) > 2:
        raise DamagedFile(path, "line 3", "the end", repr(lines[2]))
    return topic_id
