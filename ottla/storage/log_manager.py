"""All logs of a node, over one or several log directories.

Promises: a directory is used by one process at a time (`.lock`); a directory whose device fails goes offline alone,
and the logs in the others go on; checkpoints are written before what they vouch for can be forgotten; after
`shutdown` the next start needs no recovery (`.kafka_cleanshutdown`), and until then it will do one.

It is synchronous. Whoever drives it calls `run_chores`, `delete_old_segments`, `flush_due`, `checkpoint` and, through
`cleaner`, compaction, each on its schedule. Called by the node and by tests.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence

from ottla.config import CleanerConfig, LogConfig
from ottla.errors import KafkaStorageError, LogDirNotFound
from ottla.storage import names
from ottla.storage.atomic_file import directory_of
from ottla.storage.checkpoint import OffsetCheckpoint
from ottla.storage.chores import Chores, SyncPlan
from ottla.storage.clean_shutdown import CleanShutdownFile
from ottla.storage.cleaner_manager import CleanerManager
from ottla.storage.loader import load_log
from ottla.storage.loading import DirectoryLoading
from ottla.storage.log import Log
from ottla.storage.log_dir import LogDir
from ottla.storage.producer_state import ProducerStateConfig
from ottla.storage.retention import delete_old_segments
from ottla.types import TopicPartition, Uuid
from ottla.world import Lock, World

log = logging.getLogger(__name__)

ConfigOf = Callable[[str], LogConfig]


class LogManager:
    def __init__(
        self,
        world: World,
        directories: Sequence[str],
        *,
        config_of: ConfigOf | None = None,
        producer_config: ProducerStateConfig | None = None,
        cleaner_config: CleanerConfig | None = None,
    ) -> None:
        """`config_of` gives a topic's settings; without it every topic has the defaults. Nor is there a `cleaner`
        without a `cleaner_config`, or with one that disables it."""
        self._world = world
        self._config_of = config_of or (lambda topic: LogConfig())
        self.producer_config = producer_config or ProducerStateConfig()
        """Shared by all logs: what is changed in it counts for them at once."""
        self.chores = Chores(world.clock)
        self.directories = [LogDir(path) for path in directories]
        paths = [directory.path for directory in self.directories]
        if len(set(paths)) != len(paths):
            raise ValueError(f"Duplicate log directory found: {', '.join(paths)}")
        self._locks: dict[str, Lock] = {}
        self._is_locked_by_owner = False
        self._loading: list[DirectoryLoading] = []
        """The directories whose logs are being opened, or are open and not taken over yet."""
        self._loaded: set[str] = set()
        self._cordoned: set[str] = set()
        self.logs: dict[TopicPartition, Log] = {}
        self.future_logs: dict[TopicPartition, Log] = {}
        self.stray_logs: dict[TopicPartition, Log] = {}
        self._cleaner_config = cleaner_config
        self.cleaner: CleanerManager | None = None
        """Compaction, and the retention of compacted logs, from `start` on; whoever drives the node drives it too."""

    # Start

    def begin_loading(self) -> list[DirectoryLoading]:
        """The opening of the logs in every directory, for a driver that takes its steps before it calls `start`."""
        self._lock_for_start()
        assert not self._loading, "the logs are opened once"
        self._loading = [
            DirectoryLoading(self._world, directory, self._config_of, self.chores, self.producer_config)
            for directory in self.live_directories
        ]
        return self._loading

    def start(self, *, is_stray: Callable[[Log], bool] = lambda _: False) -> None:
        """Take over the logs that were loaded, or lock every directory and open every log in it now.

        `is_stray` says which logs the cluster no longer knows. Raises `KafkaStorageError` when another process holds a
        directory, or when none is left that works.
        """
        if not self._loading:
            for loading in self.begin_loading():
                loading.run()
        loadings, self._loading = self._loading, []
        for loading in loadings:
            try:
                self._take_over(loading, is_stray)
            except OSError as error:
                self._offline(loading.directory, "loading logs", error)
                if not loading.directory.is_offline:
                    raise KafkaStorageError(
                        f"The logs in {loading.directory.path} cannot be loaded: {error}"
                    ) from error
            except KafkaStorageError:
                if not loading.directory.is_offline:
                    raise
                self.handle_failures()
        if not self.live_directories:
            self.unlock()
            raise KafkaStorageError(
                f"None of the specified log dirs {', '.join(d.path for d in self.directories)} can be used: "
                + "; ".join(f"{d.path}: {d.failure}" for d in self.directories)
            )
        if self._cleaner_config is not None and self._cleaner_config.enable:
            self.cleaner = CleanerManager(self._world, self.directories, self.logs, self._cleaner_config)
            self.handle_failures()

    def stop_loading(self) -> None:
        """Let go of what was opened and will not be taken over."""
        loadings, self._loading = self._loading, []
        for loading in loadings:
            loading.close()

    def _lock_for_start(self) -> None:
        """Lock what is not locked; whoever locked before goes on owning it."""
        is_owned = self._is_locked_by_owner
        self.lock()
        self._is_locked_by_owner = is_owned

    def _take_over(self, loading: DirectoryLoading, is_stray: Callable[[Log], bool]) -> None:
        directory = loading.directory
        if loading.failure is not None:
            loading.close()
            raise loading.failure
        for path, config in loading.deleted:
            self._remove_later(directory, path, config)
        for name, opened in loading.opened:
            self._place(opened, name, is_stray)
        logs = {partition: one for partition, one in self.logs.items() if one.log_dir is directory}
        points, starts = loading.recovery_points, loading.log_starts
        if any(p not in logs or offset > logs[p].recovery_point for p, offset in points.items()) or any(
            p not in logs or offset > logs[p].log_start_offset for p, offset in starts.items()
        ):
            # Claims about records that are not there: of a log that was being deleted, or that ends earlier now. They
            # would be believed of the next ones at those offsets.
            self._checkpoint_directory(directory)
        self._loaded.add(directory.path)

    def lock(self) -> None:
        """Take the directories for this process, before anybody writes to them; those already taken stay so.

        Whoever calls this before `start` also writes there when the logs are closed: `unlock` is then theirs to call.
        """
        self._is_locked_by_owner = True
        for directory in self.live_directories:
            if directory.path in self._locks:
                continue
            try:
                if not self._world.disk.exists(directory.path):
                    log.info("[LogManager] Log directory %s not found, creating it.", directory.path)
                    self._make_directory(directory.path)
                self._locks[directory.path] = self._world.disk.lock(f"{directory.path}/{names.LOCK}")
            except BlockingIOError:
                self.unlock()
                raise KafkaStorageError(
                    f"Failed to acquire lock on file {names.LOCK} in {directory.path}. "
                    "Another process is using this directory."
                ) from None
            except OSError as error:
                self._offline(directory, "creating or locking the directory", error)
                if not directory.is_offline:
                    raise KafkaStorageError(f"{directory.path} cannot be locked: {error}") from error

    def _make_directory(self, path: str) -> None:
        """Make a log directory that a power cut leaves: its name is an entry of the directory above, and so on up."""
        disk = self._world.disk
        holders = [directory_of(path)]
        while not disk.exists(holders[-1]):
            holders.append(directory_of(holders[-1]))
        disk.make_dirs(path)
        for holder in holders:
            disk.sync_dir(holder)

    @property
    def live_directories(self) -> list[LogDir]:
        return [directory for directory in self.directories if not directory.is_offline]

    def _offline(self, directory: LogDir, doing: str, error: OSError) -> None:
        try:
            directory.fail(doing, error)
        except KafkaStorageError:
            self.handle_failures()

    def _place(self, opened: Log, name: str, is_stray: Callable[[Log], bool]) -> None:
        partition = opened.partition
        if name.endswith(names.STRAY_DIR):
            log.warning("[LogManager] Loaded stray log %s", opened.directory)
            self.stray_logs[partition] = opened
        elif is_stray(opened):
            opened.rename_directory(names.stray_dir(partition, self._unique()))
            log.warning(
                "[LogManager] Log of %s is not in the cluster any more; renamed to %s", partition, opened.directory
            )
            self.stray_logs[partition] = opened
        else:
            logs = self.future_logs if opened.is_future else self.logs
            other = logs.get(partition)
            if other is not None:
                opened = self._choose(opened, other)
            logs[partition] = opened

    def _choose(self, one: Log, other: Log) -> Log:
        """Of two logs of a partition, the one to serve: one of them may have been made and never written to.

        Such a log is left over where its directory failed before it had a topic id, and the topic was deleted and made
        anew elsewhere before the directory came back. Nothing tells which topic it was of, and nothing is in it.
        """
        for left_over, chosen in ((one, other), (other, one)):
            if left_over.topic_id is None and left_over.log_end_offset == 0:
                log.warning(
                    "[LogManager] Deleting the log in %s, which was never written to: the one of %s is in %s",
                    left_over.directory, chosen.partition, chosen.directory,
                )  # fmt: skip
                left_over.rename_directory(names.delete_dir(left_over.partition, self._unique()))
                self._delete_later(left_over)
                return chosen
        raise KafkaStorageError(
            f"Duplicate log directories for {one.partition} are found in both {one.directory} and {other.directory}. "
            "Delete the one in the log directory that is known to have failed."
        )

    # Logs

    def get(self, partition: TopicPartition) -> Log | None:
        return self.logs.get(partition)

    def create(
        self,
        partition: TopicPartition,
        *,
        topic_id: Uuid | None = None,
        directory: str | None = None,
        is_future: bool = False,
    ) -> Log:
        """The partition's log, begun now unless it exists; in `directory`, or in the live one with the fewest logs."""
        logs = self.future_logs if is_future else self.logs
        found = logs.get(partition)
        if found is not None:
            if topic_id is not None:
                found.assign_topic_id(topic_id)
            return found
        if any(d.is_offline for d in self.directories) and directory is None and not self.live_directories:
            raise KafkaStorageError(f"Can not create log for {partition} because all log directories are offline")
        name = names.future_dir(partition, self._unique()) if is_future else names.partition_dir(partition)
        failures = []
        for candidate in self._candidates(directory):
            doing = f"creating the log of {partition}"
            try:
                self._world.disk.make_dirs(f"{candidate.path}/{name}")
            except OSError as error:
                self._offline(candidate, doing, error)
                failures.append(str(error))
                continue
            try:
                created = load_log(
                    self._world,
                    candidate,
                    f"{candidate.path}/{name}",
                    self._config_of(partition.topic),
                    self.chores,
                    partition=partition,
                    was_clean_shutdown=True,
                    topic_id=topic_id,
                    producer_config=self.producer_config,
                )
            except OSError as error:
                # No other directory is tried: the next start would find the log in both, and could not tell which to
                # believe.
                self._offline(candidate, doing, error)
                raise KafkaStorageError(f"Error while {doing} in dir {candidate.path}: {error}") from error
            logs[partition] = created
            log.info("[LogManager] Created log for partition %s in %s", partition, created.directory)
            return created
        raise KafkaStorageError(f"No log directories available for {partition}. {'; '.join(failures)}")

    def _candidates(self, directory: str | None) -> list[LogDir]:
        if directory is not None:
            chosen = [d for d in self.live_directories if d.path == directory.rstrip("/")]
            if not chosen:
                raise LogDirNotFound(f"The log directory {directory} is not one of this node's, or is offline")
            return chosen
        if len(self.live_directories) == 1:
            return self.live_directories
        counts = {d.path: 0 for d in self.live_directories}
        for one in (*self.logs.values(), *self.future_logs.values()):
            if one.log_dir.path in counts:
                counts[one.log_dir.path] += 1
        usable = [d for d in self.live_directories if d.path not in self._cordoned] or self.live_directories[:1]
        return sorted(usable, key=lambda d: counts[d.path])

    def cordon(self, paths: Iterable[str]) -> None:
        """Directories that get no new logs."""
        self._cordoned = {path.rstrip("/") for path in paths}

    def update_topic_config(self, topic: str) -> None:
        """Read a topic's settings again and give them to its logs."""
        config = self._config_of(topic)
        for one in (*self.logs.values(), *self.future_logs.values()):
            if one.partition.topic == topic:
                one.update_config(config)

    def delete(self, partition: TopicPartition, *, is_future: bool = False, is_stray: bool = False) -> None:
        """Take a log out of service at once, under another name; its files go after `file.delete.delay.ms`."""
        removed = self.take_out(partition, is_future=is_future, is_stray=is_stray)
        if removed is not None:
            self.confirm_deletions([removed])

    def confirm_deletions(self, directories: Iterable[LogDir]) -> None:
        """Make it durable that logs of these directories were taken out: once for any number of them."""
        for directory in dict.fromkeys(directories):
            if directory.is_offline:
                continue
            try:
                self._world.disk.sync_dir(directory.path)
            except OSError as error:
                self._offline(directory, "deleting logs", error)
            self._checkpoint_directory(directory)

    def take_out(self, partition: TopicPartition, *, is_future: bool = False, is_stray: bool = False) -> LogDir | None:
        """Begin a deletion; returns the directory to `confirm_deletions` of, None where there is no such log."""
        removed = (self.future_logs if is_future else self.logs).pop(partition, None)
        if removed is None:
            offline = [d.path for d in self.directories if d.is_offline]
            if offline:
                raise KafkaStorageError(
                    f"Failed to delete log for {partition} because it may be in one of the offline directories "
                    + ", ".join(offline)
                )
            return None
        if self.cleaner is not None and not is_future:
            self.cleaner.on_deleted(removed)
        if is_stray:
            removed.rename_directory(names.stray_dir(partition, self._unique()), durably=False)
            self.stray_logs[partition] = removed
        else:
            removed.rename_directory(names.delete_dir(partition, self._unique()), durably=False)
            self._delete_later(removed)
        return removed.log_dir

    def _delete_later(self, removed: Log) -> None:
        log.info(
            "[LogManager] Log for partition %s is scheduled for deletion in %s", removed.partition, removed.directory
        )
        chores = self.chores.of(removed.log_dir)
        chores.later(removed.config.file_delete_delay_ms, f"deletion of {removed.directory}", removed.plan_delete)

    def _remove_later(self, directory: LogDir, path: str, config: LogConfig) -> None:
        """Remove what an earlier run of the node had begun to delete."""
        self.chores.of(directory).later(
            config.file_delete_delay_ms,
            f"deletion of {path}",
            lambda: SyncPlan(self._world.disk, removed_trees=[path]),
        )

    def replace_with_future(self, partition: TopicPartition) -> None:
        """A copy in another directory has caught up: it becomes the log, and the old one is deleted."""
        current, future = self.logs.get(partition), self.future_logs.get(partition)
        if current is None or future is None:
            raise KafkaStorageError(f"The {'future' if current else 'current'} replica for {partition} is offline")
        future.rename_directory(names.partition_dir(partition))
        future.update_high_watermark(current.high_watermark)
        del self.future_logs[partition]
        self.logs[partition] = future
        if self.cleaner is not None:
            self.cleaner.on_moved(partition, current.log_dir, future.log_dir)
        current.rename_directory(names.delete_dir(partition, self._unique()))
        self._delete_later(current)
        self._checkpoint_directory(current.log_dir)
        self._checkpoint_directory(future.log_dir)

    def truncate_to(self, offsets: Mapping[TopicPartition, int], *, is_future: bool = False) -> None:
        """Truncate logs, and write down their lower recovery points before anything is appended to them again.

        With a recovery point beyond the cut, the next start would believe what was appended there and never flushed.
        """
        logs = self.future_logs if is_future else self.logs
        affected = []
        for partition, offset in offsets.items():
            one = logs.get(partition)
            if one is None or not one.truncate_to(offset):
                continue
            if self.cleaner is not None and not is_future:
                self.cleaner.on_truncated(one)
            if one.log_dir not in affected:
                affected.append(one.log_dir)
        for directory in affected:
            self._checkpoint_directory(directory)
            directory.check_online()

    def truncate_fully_and_start_at(self, partition: TopicPartition, offset: int, *, is_future: bool = False) -> None:
        """Empty a log and let it begin again at `offset`; its recovery point is written down as `truncate_to` does."""
        one = (self.future_logs if is_future else self.logs).get(partition)
        if one is not None:
            one.truncate_fully_and_start_at(offset)
            if self.cleaner is not None and not is_future:
                self.cleaner.on_truncated(one)
            self._checkpoint_directory(one.log_dir)
            one.log_dir.check_online()

    def _unique(self) -> str:
        return f"{self._world.random.getrandbits(128):032x}"

    # On schedule

    def run_chores(self) -> int:
        return self.chores.run_due()

    def delete_old_segments(self) -> int:
        """One round of retention; compacted logs have theirs from the cleaner, so that it never meets a run of it."""
        count = 0
        now_ms = self._world.clock.now_ms()
        for one in (*self.logs.values(), *self.future_logs.values()):
            if one.log_dir.is_offline or one.config.is_compacted:
                continue
            try:
                count += delete_old_segments(one, now_ms)
            except KafkaStorageError as error:
                log.error("[LogManager] Retention of %s failed: %s", one.partition, error)
        self.handle_failures()
        return count

    def flush_due(self) -> int:
        """Flush every log whose oldest unflushed record is older than its `flush.ms`."""
        count = 0
        now_ms = self._world.clock.now_ms()
        for one in (*self.logs.values(), *self.future_logs.values()):
            if one.log_dir.is_offline or not one.unflushed_count:
                continue
            if now_ms - one.last_flushed_ms >= one.config.flush_ms:
                try:
                    one.flush()
                    count += 1
                except KafkaStorageError as error:
                    log.error("[LogManager] Flush of %s failed: %s", one.partition, error)
        self.handle_failures()
        return count

    def remove_expired_producers(self) -> None:
        for one in (*self.logs.values(), *self.future_logs.values()):
            one.remove_expired_producers()

    def checkpoint(self) -> None:
        """Write down recovery points, log starts and high watermarks."""
        for directory in self.live_directories:
            self._checkpoint_directory(directory)
        self.handle_failures()

    def _checkpoint_directory(self, directory: LogDir) -> None:
        if directory.is_offline:
            return
        logs = {partition: one for partition, one in self.logs.items() if one.log_dir is directory}
        log_starts = {
            partition: one.log_start_offset
            for partition, one in logs.items()
            if one.log_start_offset > one.segments.first.base_offset
        }
        try:
            self._write(directory, names.RECOVERY_POINT_CHECKPOINT, {p: one.recovery_point for p, one in logs.items()})
            self._write(directory, names.LOG_START_CHECKPOINT, log_starts)
            self._write(directory, names.HIGH_WATERMARK_CHECKPOINT, {p: one.high_watermark for p, one in logs.items()})
        except OSError as error:
            self._offline(directory, "writing checkpoints", error)

    def _write(self, directory: LogDir, name: str, offsets: Mapping[TopicPartition, int]) -> None:
        OffsetCheckpoint(self._world.disk, f"{directory.path}/{name}").write(offsets)

    def handle_failures(self) -> list[LogDir]:
        """Let go of the logs of directories that have gone offline; returns those directories."""
        failed = [d for d in self.directories if d.is_offline]
        for directory in failed:
            if self.cleaner is not None:
                self.cleaner.on_failure(directory)
            for logs in (self.logs, self.future_logs, self.stray_logs):
                for partition in [p for p, one in logs.items() if one.log_dir is directory]:
                    logs.pop(partition).abandon()
            lock = self._locks.pop(directory.path, None)
            if lock is not None:
                lock.release()
        return failed

    # Stop

    def shutdown(self, *, broker_epoch: int = -1) -> None:
        """Flush and close everything, write the checkpoints and the marker that says so, let the locks go."""
        if self.cleaner is not None:
            self.cleaner.stop()
        self.stop_loading()
        for directory in self.live_directories:
            logs = [
                one
                for group in (self.logs, self.future_logs, self.stray_logs)
                for one in group.values()
                if one.log_dir is directory
            ]
            try:
                for one in logs:
                    one.close()
                self._checkpoint_directory(directory)
                if directory.path in self._loaded and not directory.is_offline:
                    CleanShutdownFile(self._world.disk, directory.path).write(broker_epoch)
            except (OSError, KafkaStorageError) as error:
                log.error("[LogManager] Shutdown of %s was not clean: %s", directory.path, error)
        if not self._is_locked_by_owner:
            self.unlock()

    def unlock(self) -> None:
        """Let the directories go, after `shutdown`."""
        for lock in self._locks.values():
            lock.release()
        self._locks.clear()
