"""`partition.metadata`: the id of the topic that a partition directory belongs to (KIP-516).

Promises: the id is durable when `write` returns, which `log` waits for before the first record, so that the directory
of a deleted topic is never taken for one of a new topic with the same name.
"""

from __future__ import annotations

from ottla.storage.atomic_file import TEMPORARY, write_atomically
from ottla.storage.checkpoint import INT32_MAX, parse_number
from ottla.storage.damage import DamagedFile
from ottla.types import ZERO_UUID, Uuid
from ottla.world import Disk, File

VERSION = 0


class PartitionMetadata:
    """The topic id of one partition directory, in the file at `path`."""

    __slots__ = ("_disk", "path")

    def __init__(self, disk: Disk, path: str) -> None:
        self._disk = disk
        self.path = path

    def read(self) -> Uuid:
        """The id in the file; `FileNotFoundError` without one, `DamagedFile` when it cannot be read."""
        return decode_topic_id(self.path, self._disk.read(self.path))

    def write(self, topic_id: Uuid) -> None:
        """Replace the file, durably."""
        write_atomically(self._disk, self.path, encode_topic_id(topic_id))

    def prepare(self, topic_id: Uuid) -> File:
        """Write the file under its temporary name: to be synced by the caller, elsewhere, before it is published."""
        file = self._disk.open(self.path + TEMPORARY, create=True)
        file.truncate(0)
        file.write_at(0, encode_topic_id(topic_id))
        return file

    def publish(self) -> None:
        """Give the prepared file its name, which the directory's next sync makes durable."""
        self._disk.rename(self.path + TEMPORARY, self.path)


def encode_topic_id(topic_id: Uuid) -> bytes:
    assert topic_id != ZERO_UUID, "the zero id stands for no topic"
    return f"version: {VERSION}\ntopic_id: {topic_id}".encode("ascii")


def decode_topic_id(path: str, data: bytes) -> Uuid:
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
        found = repr(lines[1]) if len(lines) > 1 else "the end"
        raise DamagedFile(path, "line 2", "`topic_id: ` and a topic's id", found)
    if version == VERSION and len(lines) > 2:
        raise DamagedFile(path, "line 3", "the end", repr(lines[2]))
    return topic_id
