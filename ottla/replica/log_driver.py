"""What happens to logs by the clock: retention, flushing, checkpoints, compaction, chores, the expiry of producers
and of in-sync replicas.

Promises: no piece of it holds the event loop for longer than one log's share, or one step of the cleaner; between the
pieces requests are served. Everything that waits for the device runs in a thread. A directory that fails in the middle
goes offline alone, and the schedule goes on with the others. Started and stopped by the node, after the first metadata.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

from ottla.errors import KafkaError, KafkaStorageError
from ottla.replica.manager import ReplicaManager
from ottla.storage import (
    HIGH_WATERMARK_CHECKPOINT,
    LOG_START_CHECKPOINT,
    RECOVERY_POINT_CHECKPOINT,
    CleanerManager,
    Log,
    LogDir,
    OffsetCheckpoint,
    SyncPlan,
    delete_old_segments,
    sync_all,
)
from ottla.types import TopicPartition
from ottla.world import NodeWorld, Task

if TYPE_CHECKING:
    from ottla.config import BrokerConfig

log = logging.getLogger(__name__)

SLICE_LOGS = 8
"""How many logs are looked at before requests have their turn."""
LAG_SLICE = 500
"""How many partitions' followers are judged before requests have their turn."""
CHORE_POLL_MS = 250
"""How often chores are looked for: none is so urgent that its roll or deletion would have to wake somebody up."""
NEVER_MS = 2**53
"""An interval that no node lives to see, as `log.flush.scheduler.interval.ms` has by default."""

PLANS_MAX = 64
"""How many logs' files are synced together."""
SYNC_THREADS = 4

Value = Callable[[Log], int | None]


class _Planned(NamedTuple):
    """What to sync, and what for."""

    what: str
    plan: SyncPlan


class LogDriver:
    """See the module."""

    def __init__(self, world: NodeWorld, replicas: ReplicaManager, config: BrokerConfig) -> None:
        self._world = world
        self._tasks = world.tasks
        self._replicas = replicas
        self._logs = replicas.logs
        self._config = config
        self._running: list[Task[None]] = []
        self._written: dict[str, Mapping[TopicPartition, int]] = {}
        """What each checkpoint file held when it was last written here, so that an idle node writes nothing."""

    # Life

    def start(self) -> None:
        """Begin the schedule. The logs are open by now."""
        config = self._config
        delay_ms = config.log_initial_task_delay_ms
        self._spawn(self._chores(), "log-chores")
        self._every(config.log_retention_check_interval_ms, delay_ms, self._retain, "log-retention")
        self._every(config.log_flush_scheduler_interval_ms, delay_ms, self._flush, "log-flusher")
        self._every(
            config.log_flush_offset_checkpoint_interval_ms, delay_ms, self._checkpoint_recovery, "recovery-checkpoint"
        )
        self._every(
            config.log_flush_start_offset_checkpoint_interval_ms, delay_ms, self._checkpoint_starts, "start-checkpoint"
        )
        interval_ms = config.replica_high_watermark_checkpoint_interval_ms
        self._every(interval_ms, interval_ms, self._checkpoint_high_watermarks, "highwatermark-checkpoint")
        # A follower may lag for up to one and a half times the limit before it is seen.
        self._every(max(1, config.replica_lag_time_max_ms // 2), 0, self._check_lag, "isr-expiration")
        interval_ms = config.producer_id_expiration_check_interval_ms
        self._every(interval_ms, interval_ms, self._expire_producers, "producer-expiry")
        if self._logs.cleaner is not None:
            self._spawn(self._clean(self._logs.cleaner), "log-cleaner")

    async def stop(self, *, broker_epoch: int = -1) -> None:
        """End the schedule, flush and close every log, and leave the directories as a clean shutdown does."""
        for task in self._running:
            task.cancel()
        self._running.clear()
        if self._logs.cleaner is not None:
            self._logs.cleaner.stop()
        logs = self._open_logs()
        for start in range(0, len(logs), PLANS_MAX):
            plans = []
            for count, one in enumerate(logs[start : start + PLANS_MAX]):
                if count % SLICE_LOGS == SLICE_LOGS - 1:
                    await self._let_others_run()
                # A directory that is offline by now gets no mark of a clean shutdown.
                plan = None if one.log_dir.is_offline else self._planned(f"closing {one.partition}", one.plan_close)
                if plan is not None:
                    plans.append(plan)
            await self._sync_together(plans)
        self._logs.shutdown(broker_epoch=broker_epoch)

    def _every(self, interval_ms: int, delay_ms: int, work: Callable[[], Coroutine[Any, Any, None]], name: str) -> None:
        if interval_ms >= NEVER_MS:
            return

        async def repeat() -> None:
            await self._tasks.sleep_ms(delay_ms)
            while True:
                await work()
                self._replicas.check_directories()
                await self._tasks.sleep_ms(interval_ms)

        self._spawn(repeat(), name)

    def _spawn(self, work: Coroutine[Any, Any, None], name: str) -> None:
        self._running.append(self._tasks.spawn(work, name))

    def _open_logs(self) -> list[Log]:
        return [*self._logs.logs.values(), *self._logs.future_logs.values()]

    def _let_others_run(self) -> Awaitable[None]:
        return self._tasks.sleep_ms(0)

    async def _each_log(self, work: Callable[[Log], object], doing: str) -> None:
        """Do something short to every log that can be used, a few at a time; after one that had to be changed, others
        have their turn."""
        is_turn_over = False
        for count, one in enumerate(self._open_logs()):
            if is_turn_over or count % SLICE_LOGS == SLICE_LOGS - 1:
                await self._let_others_run()
                is_turn_over = False
            if one.is_closed or one.log_dir.is_offline:
                continue
            try:
                is_turn_over = bool(work(one))
            except KafkaError as error:
                # The device, by now known to be offline, or a damaged log: the others go on.
                log.error("[LogDriver] %s of %s failed: %s", doing, one.partition, error)

    async def _sync(self, directory: LogDir, doing: str, plan: Callable[[], SyncPlan | None]) -> bool:
        """Make what `plan` names durable, in a thread; whether that worked."""
        try:
            wanted = plan()
            if wanted is not None:
                await self._tasks.in_thread(wanted.sync)
                wanted.on_done()
        except OSError as error:
            self._fail(directory, doing, error)
            return False
        except KafkaStorageError as error:
            log.error("[LogDriver] %s failed: %s", doing, error)
            return False
        return True

    def _fail(self, directory: LogDir, doing: str, error: OSError) -> None:
        try:
            directory.fail(doing, error)
        except KafkaStorageError:
            self._replicas.check_directories()

    # The work

    async def _chores(self) -> None:
        chores = self._logs.chores
        while True:
            together: list[_Planned] = []
            removal: _Planned | None = None
            while len(together) < PLANS_MAX and removal is None and (due := chores.take_due()) is not None:
                plan = self._planned(*due)
                if plan is not None and plan.plan.is_removal:
                    removal = plan
                elif plan is not None:
                    together.append(plan)
                await self._let_others_run()
            if not together and removal is None:
                await self._tasks.sleep_ms(CHORE_POLL_MS)
            await self._sync_together(together)
            if removal is not None:
                # By itself: what others sync may be what it removes.
                try:
                    await self._tasks.in_thread(removal.plan.sync)
                    self._done(removal, None)
                except OSError as error:
                    self._done(removal, error)

    def _planned(self, what: str, plan: Callable[[], SyncPlan | None]) -> _Planned | None:
        try:
            made = plan()
        except (OSError, KafkaStorageError) as error:
            log.error("[LogDriver] %s failed: %s", what, error)
            self._replicas.check_directories()
            return None
        return None if made is None else _Planned(what, made)

    async def _sync_together(self, planned: Sequence[_Planned]) -> None:
        """Sync in several threads: a file system writes down together what is to be durable at the same time."""
        shares = [planned[start::SYNC_THREADS] for start in range(min(SYNC_THREADS, len(planned)))]
        syncing = [self._tasks.in_thread(partial(sync_all, [one.plan for one in share])) for share in shares]
        for share, outcome in zip(shares, syncing, strict=True):
            for one, failure in zip(share, await outcome, strict=True):
                self._done(one, failure)

    def _done(self, planned: _Planned, failure: OSError | None) -> None:
        try:
            if failure is not None:
                raise failure
            planned.plan.on_done()
        except (OSError, KafkaStorageError) as error:
            log.error("[LogDriver] %s failed: %s", planned.what, error)
            self._replicas.check_directories()

    async def _retain(self) -> None:
        """Delete what is too old or too much; compacted logs have theirs from the cleaner, between its runs."""

        def retain(one: Log) -> int:
            if one.config.is_compacted and self._logs.cleaner is not None:
                return 0
            return delete_old_segments(one, self._world.clock.now_ms())

        await self._each_log(retain, "retention")

    async def _flush(self) -> None:
        for count, one in enumerate(self._open_logs()):
            if count % SLICE_LOGS == SLICE_LOGS - 1:
                await self._let_others_run()
            is_due = self._world.clock.now_ms() - one.last_flushed_ms >= one.config.flush_ms
            if is_due and one.unflushed_count and not one.is_closed and not one.log_dir.is_offline:
                await self._sync(one.log_dir, f"flushing {one.partition}", one.plan_flush)

    async def _expire_producers(self) -> None:
        await self._each_log(lambda one: one.remove_expired_producers(), "expiry of producers")

    async def _check_lag(self) -> None:
        for count, partition in enumerate(list(self._replicas.partitions())):
            if count % LAG_SLICE == LAG_SLICE - 1:
                await self._let_others_run()
            self._replicas.check_lag(partition)

    async def _clean(self, cleaner: CleanerManager) -> None:
        while True:
            step = cleaner.step()
            plan = step.sync
            if plan is not None:
                try:
                    await self._tasks.in_thread(plan.sync)
                    plan.on_done()
                except OSError as error:
                    cleaner.on_sync_failed(error)
                    self._replicas.check_directories()
            await self._tasks.sleep_ms(step.delay_ms)

    # Checkpoints

    async def _checkpoint_recovery(self) -> None:
        await self._checkpoint(RECOVERY_POINT_CHECKPOINT, lambda one: one.recovery_point)

    async def _checkpoint_starts(self) -> None:
        await self._checkpoint(
            LOG_START_CHECKPOINT,
            lambda one: one.log_start_offset if one.log_start_offset > one.segments.first.base_offset else None,
        )

    async def _checkpoint_high_watermarks(self) -> None:
        await self._checkpoint(HIGH_WATERMARK_CHECKPOINT, lambda one: one.high_watermark)

    async def _checkpoint(self, name: str, value: Value) -> None:
        for directory in self._logs.live_directories:
            path = f"{directory.path}/{name}"
            try:
                while not await self._write_checkpoint(directory, path, value):
                    pass  # a deletion wrote the file meanwhile, and knew more
            except OSError as error:
                self._fail(directory, f"writing {path}", error)

    async def _write_checkpoint(self, directory: LogDir, path: str, value: Value) -> bool:
        """Write one file beside its place, and put it there unless its content has become old meanwhile."""
        count = self._replicas.checkpoint_count
        offsets = {
            partition: offset
            for partition, one in self._logs.logs.items()
            if one.log_dir is directory and (offset := value(one)) is not None
        }
        if self._written.get(path) == offsets and self._world.disk.exists(path):
            return True
        disk = self._world.disk
        beside = OffsetCheckpoint(disk, f"{path}.next")
        await self._tasks.in_thread(lambda: beside.write(offsets))
        if self._replicas.checkpoint_count != count:
            return False
        disk.rename(beside.path, path)
        self._written[path] = offsets
        await self._tasks.in_thread(lambda: disk.sync_dir(directory.path))
        return True
