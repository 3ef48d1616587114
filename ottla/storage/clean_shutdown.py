"""`.kafka_cleanshutdown`: the mark that a log directory was closed in order, with the broker's epoch (KIP-966).

Promises: the mark is durable once written and gone for good once deleted, so that a crash during the next start is
never taken for an orderly stop. Kafka leaves both to the file system; here the directory is synced, because a mark
that comes back after a power cut would skip the recovery of torn segments.
Called by the log manager: it reads and deletes the mark at start, and writes it last of all.
"""

from __future__ import annotations

import json

from ottla.storage import names
from ottla.storage.atomic_file import write_atomically
from ottla.storage.damage import DamagedFile
from ottla.world import Disk

VERSION = 0
INT64_MAX = 2**63 - 1


class CleanShutdownFile:
    """The mark of one log directory."""

    __slots__ = ("_directory", "_disk", "path")

    def __init__(self, disk: Disk, directory: str) -> None:
        self._disk = disk
        self._directory = directory
        self.path = f"{directory}/{names.CLEAN_SHUTDOWN}"

    def exists(self) -> bool:
        """Whether the directory was closed in order. Existing is enough: the epoch may be unreadable."""
        return self._disk.exists(self.path)

    def write(self, broker_epoch: int) -> None:
        content = {"version": VERSION, "brokerEpoch": broker_epoch}
        write_atomically(self._disk, self.path, json.dumps(content, separators=(",", ":")).encode("ascii"))

    def read(self) -> int | None:
        """The epoch of the broker that closed the directory; None without a file, or with the empty one of Kafka 3.

        `DamagedFile` when the content is something else. Kafka then goes on as if no epoch were known, which is safe:
        it only makes the controller treat the broker as one that may have lost data.
        """
        try:
            data = self._disk.read(self.path)
        except FileNotFoundError:
            return None
        if not data:
            return None
        try:
            content = json.loads(data)
        except (ValueError, RecursionError) as error:
            raise DamagedFile(self.path, "line 1", "a JSON object", error) from None
        # Unknown fields are a newer Kafka's, and Kafka passes over them too.
        epoch = content.get("brokerEpoch") if isinstance(content, dict) else None
        if type(epoch) is not int or not -1 <= epoch <= INT64_MAX:
            raise DamagedFile(self.path, "line 1", "a JSON object with a `brokerEpoch`", repr(content))
        return epoch

    def delete(self) -> None:
        """Take the mark away for good; it may be gone already."""
        try:
            self._disk.remove(self.path)
        except FileNotFoundError:
            return
        self._disk.sync_dir(self._directory)
