"""The opening of all logs of one directory, cut into steps that may run beside each other, in other threads.

Promises: `plan`, once, and then `open_some`, by as many threads as like, touch nothing but the directory, and nobody
else touches it meanwhile; what is opened is handed out in the order of its names, whichever thread was the first. The
first failure ends it: the other threads stop with the log that they are at. `close` lets go of what was opened.
Called by `log_manager`; the steps are driven by it, one after the other, or by `replica.open_logs` off the loop.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable
from typing import NamedTuple

from ottla.config import LogConfig
from ottla.errors import KafkaStorageError
from ottla.storage import names
from ottla.storage.checkpoint import OffsetCheckpoint
from ottla.storage.chores import Chores
from ottla.storage.clean_shutdown import CleanShutdownFile
from ottla.storage.damage import DamagedFile
from ottla.storage.loader import load_log
from ottla.storage.log import Log
from ottla.storage.log_dir import LogDir
from ottla.storage.producer_state import ProducerStateConfig
from ottla.types import TopicPartition
from ottla.world import World

log = logging.getLogger(__name__)

STEP_MS = 20
"""For how long one step opens logs: then others of the thread pool have their turn."""
STEP_LOGS_MAX = 64


class _Found(NamedTuple):
    """A partition's directory."""

    place: int
    name: str
    partition: TopicPartition


class DirectoryLoading:
    """See the module. `config_of` is asked by `plan`, in the thread that runs it."""

    def __init__(
        self,
        world: World,
        directory: LogDir,
        config_of: Callable[[str], LogConfig],
        chores: Chores,
        producer_config: ProducerStateConfig,
    ) -> None:
        self.directory = directory
        self._world = world
        self._config_of = config_of
        self._chores = chores
        self._producer_config = producer_config
        self._configs: dict[str, LogConfig] = {}
        self._was_clean = False
        self._todo: deque[_Found] = deque()
        self._opened: dict[int, tuple[str, Log]] = {}
        self.failure: Exception | None = None
        """Why the directory could not be loaded, once that is so: an `OSError` or a `KafkaStorageError`."""
        self.recovery_points: dict[TopicPartition, int] = {}
        self.log_starts: dict[TopicPartition, int] = {}
        self._high_watermarks: dict[TopicPartition, int] = {}
        self._cleaned: dict[TopicPartition, int] = {}
        self.deleted: list[tuple[str, LogConfig]] = []
        """Paths of logs whose deletion an earlier run had begun, and their settings."""

    @property
    def opened(self) -> list[tuple[str, Log]]:
        """The logs with the names of their directories, in the order of those."""
        return [self._opened[place] for place in sorted(self._opened)]

    def plan(self) -> None:
        """Read the checkpoints, and find what there is to open."""
        try:
            self._plan()
        except (OSError, KafkaStorageError) as error:
            self._fail(error)

    def open_some(self) -> bool:
        """Open logs for a while; whether there may be more to open."""
        clock = self._world.clock
        deadline_ms = clock.monotonic_ms() + STEP_MS
        for _ in range(STEP_LOGS_MAX):
            try:
                found = self._todo.popleft()
            except IndexError:
                return False
            try:
                self._opened[found.place] = found.name, self._open(found)
            except (OSError, KafkaStorageError) as error:
                self._fail(error)
                return False
            if clock.monotonic_ms() >= deadline_ms:
                break
        return bool(self._todo)

    def run(self) -> None:
        """All of it, here and now."""
        self.plan()
        while self.open_some():
            pass

    def close(self) -> None:
        """Nobody wants the logs: close their files as they are."""
        self._todo.clear()
        for _, opened in self.opened:
            opened.abandon()
        self._opened.clear()

    def _fail(self, error: Exception) -> None:
        if self.failure is None:
            self.failure = error
        self._todo.clear()

    def _plan(self) -> None:
        disk, path = self._world.disk, self.directory.path
        marker = CleanShutdownFile(disk, path)
        self._was_clean = marker.exists()
        if self._was_clean:
            # Gone before anything is opened: a crash from here on is one (KAFKA-10471).
            marker.delete()
        else:
            # A log that the last process had made may be there without its name being durable yet.
            disk.sync_dir(path)
        self.recovery_points = self._read_checkpoint(names.RECOVERY_POINT_CHECKPOINT)
        self.log_starts = self._read_checkpoint(names.LOG_START_CHECKPOINT)
        self._high_watermarks = self._read_checkpoint(names.HIGH_WATERMARK_CHECKPOINT)
        self._cleaned = self._read_checkpoint(names.CLEANER_CHECKPOINT)
        for place, (name, is_dir, _, _) in enumerate(disk.scan(path)):
            if not is_dir or name == names.REMOTE_LOG_INDEX_CACHE or name.startswith("."):
                continue
            partition = names.parse_partition_dir(name)
            if partition.topic == names.CLUSTER_METADATA_TOPIC:
                continue  # the raft layer's own, opened by it
            if partition.topic not in self._configs:
                self._configs[partition.topic] = self._config_of(partition.topic)
            if name.endswith(names.DELETE_DIR):
                # Not opened: nobody closed it, so that an orderly stop says nothing about it, and nobody will read it.
                self.deleted.append((f"{path}/{name}", self._configs[partition.topic]))
            else:
                self._todo.append(_Found(place, name, partition))

    def _open(self, found: _Found) -> Log:
        partition = found.partition
        opened = load_log(
            self._world,
            self.directory,
            f"{self.directory.path}/{found.name}",
            self._configs[partition.topic],
            self._chores,
            partition=partition,
            log_start_offset=self.log_starts.get(partition, 0),
            recovery_point=self.recovery_points.get(partition, 0),
            cleaned_to=self._cleaned.get(partition, 0),
            was_clean_shutdown=self._was_clean,
            producer_config=self._producer_config,
        )
        opened.update_high_watermark(self._high_watermarks.get(partition, 0))
        return opened

    def _read_checkpoint(self, name: str) -> dict[TopicPartition, int]:
        try:
            return OffsetCheckpoint(self._world.disk, f"{self.directory.path}/{name}").read()
        except DamagedFile as error:
            # Starting from zero is safe for each of them: more is read again, nothing is trusted that should not be.
            log.warning("[LogManager] %s; starting without it", error)
            return {}
