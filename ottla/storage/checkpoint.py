"""Checkpoints: Kafka's text files of a version line, a count line and one line an entry.

Promises: a write is durable when it returns, and replaces the old content as a whole, so that an offset in a recovery
checkpoint never outlives the data it vouches for. A read accepts exactly what a write produces, and an empty file,
which Kafka makes before it has anything to say; anything else is a `DamagedFile` that names the line. Every line ends
with a newline, and that is checked: an offset cut in the middle would read as a smaller one.

`OffsetCheckpoint` is the format of `recovery-point-offset-checkpoint`, `replication-offset-checkpoint`,
`log-start-offset-checkpoint` and `cleaner-offset-checkpoint`; `leader_epochs` keeps its own entries in the same frame.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from ottla.storage.atomic_file import write_atomically
from ottla.storage.damage import DamagedFile
from ottla.types import TopicPartition
from ottla.world import Disk

VERSION = 0
FIRST_ENTRY_LINE = 3
"""Entries stand below the version and the count."""

LINE_END = b"\n"
INT32_MAX = 2**31 - 1
INT64_MAX = 2**63 - 1

_ENTRY = "an entry `topic partition offset`"
_TOPIC = re.compile(r"[A-Za-z0-9._-]{1,249}")


class OffsetCheckpoint:
    """One offset for each of a log directory's partitions, in the file at `path`."""

    __slots__ = ("_disk", "path")

    def __init__(self, disk: Disk, path: str) -> None:
        self._disk = disk
        self.path = path

    def read(self) -> dict[TopicPartition, int]:
        """The offsets in the order of the file; none when there is no file yet."""
        offsets: dict[TopicPartition, int] = {}
        for number, line in enumerate(read_entries(self._disk, self.path), FIRST_ENTRY_LINE):
            fields = line.split(" ")
            if len(fields) != 3 or not _TOPIC.fullmatch(fields[0]):
                raise DamagedFile(self.path, f"line {number}", _ENTRY, repr(line))
            partition = TopicPartition(fields[0], parse_number(fields[1], INT32_MAX))
            offset = parse_number(fields[2], INT64_MAX)
            if partition.partition < 0 or offset < 0:
                raise DamagedFile(self.path, f"line {number}", _ENTRY, repr(line))
            if partition in offsets:
                raise DamagedFile(self.path, f"line {number}", "each partition once", f"{partition} again")
            offsets[partition] = offset
        return offsets

    def write(self, offsets: Mapping[TopicPartition, int]) -> None:
        """Replace the file, durably, keeping the order given."""
        lines = [f"{topic} {partition} {offset}" for (topic, partition), offset in offsets.items()]
        write_entries(self._disk, self.path, lines)


def read_entries(disk: Disk, path: str) -> list[str]:
    """The entry lines of a checkpoint; none when the file is missing or empty."""
    try:
        data = disk.read(path)
    except FileNotFoundError:
        return []
    return decode_entries(path, data)


def write_entries(disk: Disk, path: str, lines: Iterable[str]) -> None:
    write_atomically(disk, path, encode_entries(lines))


def encode_entries(lines: Iterable[str]) -> bytes:
    entries = list(lines)
    return "\n".join([str(VERSION), str(len(entries)), *entries, ""]).encode("ascii")


def decode_entries(path: str, data: bytes) -> list[str]:
    """The entry lines of `data`, which was read from `path`."""
    if not data:
        return []
    if not data.endswith(LINE_END):
        raise DamagedFile(path, f"line {data.count(LINE_END) + 1}", "a newline at the end", "a line cut short")
    try:
        version, *entries = data[:-1].decode("ascii").split("\n")
    except UnicodeDecodeError as error:
        line = data.count(LINE_END, 0, error.start) + 1
        raise DamagedFile(path, f"line {line}", "ASCII text", f"byte {data[error.start]:#x}") from None
    if version != str(VERSION):
        raise DamagedFile(path, "line 1", f"version {VERSION}", repr(version))
    count = parse_number(entries[0], INT32_MAX) if entries else -1
    if count < 0:
        raise DamagedFile(path, "line 2", "the number of entries", repr(entries[0]) if entries else "the end")
    if len(entries) - 1 != count:
        raise DamagedFile(path, "line 2", f"{count} entries below", str(len(entries) - 1))
    return entries[1:]


def parse_number(text: str, maximum: int) -> int:
    """The number that `text` spells as a checkpoint does, without sign or leading zeros; -1 when it does not."""
    # The length comes first: Python counts the digits it is willing to convert, and says so with an error.
    if len(text) > 19 or not (text.isascii() and text.isdigit()) or (text[0] == "0" and text != "0"):
        return -1
    number = int(text)
    return number if number <= maximum else -1
