"""Up to where each log was cleaned: `cleaner-offset-checkpoint`, one file in every log directory.

Promises: what is known is what is on disk, because every change is written at once, durably. A partition that is no
longer there is left out of the next write. A file that cannot be read counts as empty: its logs are cleaned from their
start again, which costs time and nothing else. A device that fails takes its directory offline and raises nothing:
whoever called works on more than that. Called by `cleaner_manager`.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from contextlib import suppress

from ottla.errors import KafkaStorageError
from ottla.storage import names
from ottla.storage.checkpoint import OffsetCheckpoint
from ottla.storage.damage import DamagedFile
from ottla.storage.log import Log
from ottla.storage.log_dir import LogDir
from ottla.types import TopicPartition
from ottla.world import Disk

log = logging.getLogger(__name__)


class CleanerCheckpoints:
    """The checkpoints of several directories. `logs` are the partitions that exist, kept up to date by its owner."""

    def __init__(self, disk: Disk, directories: Iterable[LogDir], logs: Mapping[TopicPartition, Log]) -> None:
        self._disk = disk
        self._logs = logs
        self._offsets: dict[str, dict[TopicPartition, int]] = {}
        for directory in directories:
            if not directory.is_offline:
                offsets = self._read(directory)
                if not directory.is_offline:
                    self._offsets[directory.path] = offsets

    def get(self, directory: LogDir, partition: TopicPartition) -> int | None:
        """The first offset that was not cleaned; None for a log that was never cleaned."""
        return self._offsets.get(directory.path, {}).get(partition)

    def put(self, directory: LogDir, partition: TopicPartition, offset: int) -> None:
        self._change(directory, partition, offset)

    def remove(self, directory: LogDir, partition: TopicPartition) -> None:
        if self.get(directory, partition) is not None:
            self._change(directory, partition, None)

    def lower(self, directory: LogDir, partition: TopicPartition, offset: int) -> None:
        """What lies at or above `offset` is new: it was truncated, so it was not cleaned."""
        known = self.get(directory, partition)
        if known is not None and known > offset:
            self._change(directory, partition, offset)

    def move(self, partition: TopicPartition, source: LogDir, target: LogDir) -> None:
        """A log now lives in another directory."""
        offset = self.get(source, partition)
        if offset is not None:
            self._change(source, partition, None)
            self._change(target, partition, offset)

    def drop(self, directory: LogDir) -> None:
        """The directory has failed: nothing is read from it or written to it any more."""
        self._offsets.pop(directory.path, None)

    def _read(self, directory: LogDir) -> dict[TopicPartition, int]:
        try:
            return self._file(directory).read()
        except DamagedFile as damage:
            log.warning("[LogCleaner] Cleaning the logs of %s from their start: %s", directory.path, damage)
        except OSError as error:
            self._fail(directory, "reading", error)
        return {}

    def _change(self, directory: LogDir, partition: TopicPartition, offset: int | None) -> None:
        offsets = self._offsets.get(directory.path)
        if offsets is None:
            return
        kept = {known: value for known, value in offsets.items() if known in self._logs and known != partition}
        if offset is not None:
            kept[partition] = offset
        try:
            self._file(directory).write(kept)
        except OSError as error:
            self._fail(directory, "writing", error)
        else:
            self._offsets[directory.path] = kept

    def _fail(self, directory: LogDir, doing: str, error: OSError) -> None:
        self.drop(directory)
        with suppress(KafkaStorageError):
            directory.fail(f"{doing} the cleaner's checkpoint", error)

    def _file(self, directory: LogDir) -> OffsetCheckpoint:
        return OffsetCheckpoint(self._disk, f"{directory.path}/{names.CLEANER_CHECKPOINT}")
