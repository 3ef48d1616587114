"""The cleaner of a node: which log is compacted next, how far each has been, and who may not be touched now.

Promises: one log is cleaned at a time, the filthiest first; a log whose policy also deletes gets its retention here,
between the runs, so that the two never meet in one log; a run that ends well is checkpointed, one that does not is
begun again later; a log that turns out to be damaged is left alone until the next start, and the others go on.

It is synchronous and never waits: its driver calls `step` and, before the next call, carries out the sync that it may
return and lets the time pass that it names. `pause`, `resume` and `abort` take effect at once. Called by the node and
by `log_manager`, for whatever deletes, truncates or moves logs.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, NamedTuple

from ottla.config import CleanerConfig
from ottla.errors import KafkaError, KafkaStorageError
from ottla.storage.chores import SyncPlan
from ottla.storage.cleanable import CleanableLog, measure
from ottla.storage.cleaner_checkpoints import CleanerCheckpoints
from ottla.storage.log import Log
from ottla.storage.log_dir import LogDir
from ottla.storage.retention import delete_old_segments
from ottla.storage.throttle import Throttle
from ottla.types import TopicPartition
from ottla.world import World

if TYPE_CHECKING:
    from ottla.storage.cleaner import Cleaning
    from ottla.storage.cleaner_stats import CleanerStats

log = logging.getLogger(__name__)


class CleanerStep(NamedTuple):
    """What has to happen before the next step: a sync with its `on_done`, if there is one, and this much time."""

    delay_ms: int
    sync: SyncPlan | None = None


class CleanerManager:
    """See the module. `logs` is the node's own table of logs, which it goes on changing."""

    def __init__(
        self,
        world: World,
        directories: Sequence[LogDir],
        logs: Mapping[TopicPartition, Log],
        config: CleanerConfig | None = None,
    ) -> None:
        self._world = world
        self._logs = logs
        self.config = config or CleanerConfig()
        """Another table may be put here at any time: the rate counts at once, the rest from the next run on."""
        self.checkpoints = CleanerCheckpoints(world.disk, directories, logs)
        self._cleaning: Cleaning | None = None
        self._paused: dict[TopicPartition, int] = {}
        self._uncleanable: dict[TopicPartition, Log] = {}
        self._throttle = Throttle()
        self._last_look_ms = world.clock.monotonic_ms()
        self.last_stats: CleanerStats | None = None
        self.dirtiest_ratio = 0.0
        """The largest dirty share among all compacted logs, when last looked."""
        self.compaction_delay_ms = 0
        """By how much the most delayed log had exceeded `max.compaction.lag.ms` then."""

    # What it knows

    @property
    def cleaning(self) -> TopicPartition | None:
        """The log that is being cleaned."""
        return None if self._cleaning is None else self._cleaning.log.partition

    @property
    def idle_ms(self) -> int:
        """How long ago it last looked for work."""
        return self._world.clock.monotonic_ms() - self._last_look_ms

    def is_paused(self, partition: TopicPartition) -> bool:
        return partition in self._paused

    def uncleanable(self, directory: LogDir) -> list[TopicPartition]:
        """The logs of a directory that turned out to be damaged."""
        return [partition for partition, one in self._uncleanable.items() if one.log_dir is directory]

    def uncleanable_bytes(self, directory: LogDir) -> int:
        """What of them would have been cleaned."""
        return sum(
            self._measure(self._uncleanable[partition]).cleanable_bytes for partition in self.uncleanable(directory)
        )

    # Work

    def step(self) -> CleanerStep:
        """Do a piece of the run that is under way, or begin one; a node calls this for ever."""
        if self._cleaning is None:
            due = self._pick()
            if due is None:
                self._delete_old_segments()
                return CleanerStep(self.config.backoff_ms)
            self._begin(due)
        return self._advance()

    def on_sync_failed(self, error: OSError) -> None:
        """The sync of the last step failed: the directory goes offline, because nobody knows what the device has kept.

        Unless the run was ended meanwhile: then the files were closed under the sync, and nothing is wrong.
        """
        if self._cleaning is not None:
            self._fail(self._cleaning.log, f"syncing what was cleaned of {self.cleaning}", error)
            self.stop()

    def _pick(self) -> CleanableLog | None:
        """The filthiest of the logs that are due."""
        self._last_look_ms = self._world.clock.monotonic_ms()
        found = [one for partition_log in self._available() if (one := self._look_at(partition_log)) is not None]
        self.dirtiest_ratio = max((one.ratio for one in found), default=0.0)
        self.compaction_delay_ms = max((one.compaction_delay_ms for one in found), default=0)
        return max((one for one in found if one.is_due), key=lambda one: one.ratio, default=None)

    def _available(self) -> list[Log]:
        """The compacted logs that nobody has paused and that can be cleaned."""
        for partition in [known for known, one in self._uncleanable.items() if self._logs.get(known) is not one]:
            del self._uncleanable[partition]
        return [
            one
            for partition, one in self._logs.items()
            if one.config.is_compacted
            and not one.log_dir.is_offline
            and partition not in self._paused
            and partition not in self._uncleanable
        ]

    def _look_at(self, partition_log: Log) -> CleanableLog | None:
        try:
            found = self._measure(partition_log)
            if found.is_reset:
                self.checkpoints.put(partition_log.log_dir, partition_log.partition, found.first_dirty_offset)
        except OSError as error:
            self._fail(partition_log, f"looking for what to clean in {partition_log.partition}", error)
            return None
        except KafkaError as error:
            self._give_up(partition_log, error)
            return None
        return found if found.total_bytes else None

    def _measure(self, partition_log: Log) -> CleanableLog:
        checkpoint = self.checkpoints.get(partition_log.log_dir, partition_log.partition)
        return measure(partition_log, checkpoint, self._world.clock.now_ms())

    def _begin(self, due: CleanableLog) -> None:
        from ottla.storage.cleaner import Cleaning  # most nodes have nothing to clean, and none at its start
        from ottla.storage.offset_map import OffsetMap

        config = self.config
        self._cleaning = Cleaning(
            self._world,
            due.log,
            OffsetMap(config.dedupe_buffer_size, config.dedupe_buffer_load_factor),
            first_dirty_offset=due.first_dirty_offset,
            first_uncleanable_offset=due.first_uncleanable_offset,
            step_bytes=config.io_buffer_size // 2,
        )

    def _advance(self) -> CleanerStep:
        from ottla.storage.cleaner import CleaningAborted

        cleaning = self._cleaning
        assert cleaning is not None, "a step belongs to a run"
        done_before = cleaning.stats.io_bytes
        plan = None
        try:
            if self._logs.get(cleaning.log.partition) is not cleaning.log:
                raise CleaningAborted(f"The log of {cleaning.log.partition} is no longer served")
            plan = cleaning.step()
            if cleaning.is_done:
                self._finish(cleaning)
        except CleaningAborted as aborted:
            log.info("[LogCleaner] Aborted the cleaning of %s: %s", cleaning.log.partition, aborted)
            self.stop()
        except KafkaError as error:
            self.stop()
            self._give_up(cleaning.log, error)
            return CleanerStep(self.config.backoff_ms)
        done = cleaning.stats.io_bytes - done_before
        delay_ms = self._throttle.observe(done, self.config.io_max_bytes_per_second, self._world.clock.monotonic_ms())
        return CleanerStep(delay_ms, plan)

    def _finish(self, cleaning: Cleaning) -> None:
        self._cleaning = None
        self.last_stats = stats = cleaning.stats
        partition = cleaning.log.partition
        self.checkpoints.put(cleaning.log.log_dir, partition, cleaning.end_offset)
        log.info(
            "[LogCleaner] Cleaned log %s (dirty section = [%d, %d)): %s",
            partition, cleaning.first_dirty_offset, cleaning.end_offset, stats,
        )  # fmt: skip
        if stats.invalid_messages_read:
            log.warning(
                "[LogCleaner] Found %d invalid messages during compaction of %s: they had no key",
                stats.invalid_messages_read, partition,
            )  # fmt: skip
        self._delete_old_segments()

    def _give_up(self, partition_log: Log, error: KafkaError) -> None:
        """A directory that failed is known to all by now; anything else is a log that cannot be cleaned as it is."""
        if isinstance(error, KafkaStorageError):
            return
        log.warning(
            "[LogCleaner] Unexpected error while cleaning %s. Marking its partition as uncleanable: %s",
            partition_log.partition, error,
        )  # fmt: skip
        self._uncleanable[partition_log.partition] = partition_log

    def _fail(self, partition_log: Log, doing: str, error: OSError) -> None:
        with suppress(KafkaStorageError):  # the directory says so in the log, and to everybody who asks
            partition_log.log_dir.fail(doing, error)

    def _delete_old_segments(self) -> None:
        """Retention of the compacted logs: for what lies below their start, and for `compact,delete`."""
        for partition_log in self._available():
            try:
                delete_old_segments(partition_log, self._world.clock.now_ms())
            except KafkaStorageError as error:
                log.error("[LogCleaner] Retention of %s failed: %s", partition_log.partition, error)

    # Who may not be touched

    def abort(self, partition: TopicPartition) -> None:
        """End the run over this log, if it is the one: no file of the run is left when this returns."""
        if self.cleaning == partition:
            self.stop()

    def pause(self, partition: TopicPartition) -> None:
        """End the run over this log and begin no other until `resume` was called as often."""
        self.abort(partition)
        self._paused[partition] = self._paused.get(partition, 0) + 1

    def resume(self, partition: TopicPartition) -> None:
        count = self._paused.pop(partition, 0)
        assert count > 0, f"the cleaning of {partition} cannot be resumed: it was not paused"
        if count > 1:
            self._paused[partition] = count - 1

    def stop(self) -> None:
        """End the run that is under way, whatever log it is in: the node stops, or the log has become another."""
        cleaning, self._cleaning = self._cleaning, None
        if cleaning is not None and not cleaning.is_done:
            cleaning.abort()

    # What others do to the logs

    def on_deleted(self, partition_log: Log) -> None:
        """The log is out of service: what was known of it must not be taken for the next log of that name."""
        self.abort(partition_log.partition)
        self._uncleanable.pop(partition_log.partition, None)
        self.checkpoints.remove(partition_log.log_dir, partition_log.partition)

    def on_truncated(self, partition_log: Log) -> None:
        """What will be written from the last segment's start on was not cleaned."""
        self.abort(partition_log.partition)
        self.checkpoints.lower(
            partition_log.log_dir, partition_log.partition, partition_log.segments.active.base_offset
        )

    def on_moved(self, partition: TopicPartition, source: LogDir, target: LogDir) -> None:
        """The log now lives in another directory; it was the same there as here."""
        self.abort(partition)
        self.checkpoints.move(partition, source, target)

    def on_failure(self, directory: LogDir) -> None:
        """The directory is offline."""
        if self._cleaning is not None and self._cleaning.log.log_dir is directory:
            self.stop()
        self.checkpoints.drop(directory)
