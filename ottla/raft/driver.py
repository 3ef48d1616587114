"""The raft node: carries out what `core` decides, on the real disk or a virtual one.

Promises: a batch is told to listeners only when it is on the device; the vote and the epoch are on the device before
anything is appended because of them. Many appends wait for one device sync (group commit). A device that fails ends
the leadership: listeners are told, `on_failure` is called once, and nothing more is written.
Called by the composition root; listened to by the controller and by every node's metadata loader.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import islice, zip_longest
from typing import assert_never

from ottla.errors import KafkaError, KafkaStorageError, NotController
from ottla.raft.batches import MetadataRecord, encode_batch, encode_control_batch, versioned
from ottla.raft.config import RaftSettings
from ottla.raft.core import (
    AwaitElection,
    BeginEpoch,
    Commit,
    Core,
    Effect,
    TellLeader,
    TellResigned,
    WriteElection,
)
from ottla.raft.describe import describe_quorum
from ottla.raft.listener import CommittedBatch, Listener
from ottla.raft.metadata_log import MetadataLog
from ottla.raft.quorum_state import NAME as QUORUM_STATE
from ottla.raft.quorum_state import read_election, write_election
from ottla.raft.snapshot import SnapshotId
from ottla.raft.subscription import Subscription
from ottla.raft.voters import ReplicaKey, VoterNode, VoterSet
from ottla.types import Uuid
from ottla.wire.messages.describe_quorum import DescribeQuorumResponse
from ottla.wire.metadata import VersionedRecord
from ottla.world import Address, NodeWorld, Promise, Task, Timer

log = logging.getLogger(__name__)

MAINTENANCE_INTERVAL_MS = 60_000
"""How often old snapshots and segments are looked for, as in Kafka."""
_RECORDS_A_STEP = 64
"""How many records a snapshot takes before others get a turn: about a millisecond."""


class RaftNode:
    """One voter of the metadata quorum; for now the only one."""

    def __init__(
        self,
        world: NodeWorld,
        config: RaftSettings,
        log_dir: str,
        *,
        node_id: int,
        directory_id: Uuid,
        voters: VoterSet,
        listeners: Mapping[str, Address],
        on_failure: Callable[[BaseException], object] | None = None,
    ) -> None:
        """`log_dir` is `metadata.log.dir`; `voters` are those of `controller.quorum.voters` (empty when the log has
        them); `listeners` are this node's controller listeners as others reach them."""
        self._world = world
        self._tasks = world.tasks
        self._config = config
        self._log_dir = log_dir
        self._local = VoterNode(ReplicaKey(node_id, directory_id), dict(listeners))
        self._static_voters = voters
        self._on_failure = on_failure
        self._subject = f"[RaftManager id={node_id}]"
        self._log: MetadataLog
        self._core: Core
        self._subscriptions: list[Subscription] = []
        self._uncommitted: deque[CommittedBatch] = deque()
        self._append_epoch: int | None = None
        self._leadership: tuple[int, int] | None = None
        """The epoch that this node leads and where it begins, once listeners may know."""
        self._sync_task: Task[None] | None = None
        self._is_electing = False
        self._is_sync_asked = False
        self._is_maintenance_due = False
        self._is_snapshot_under_way = False
        self._last_snapshot_ms = 0
        self._timers: dict[str, Timer] = {}
        self._waiting: list[Promise[None]] = []
        self._is_started = False
        self._is_stopping = False
        self._is_stopped = False
        self.failure: BaseException | None = None
        """Why nothing can be written any more, once that is so."""

    # What is known

    @property
    def is_leader(self) -> bool:
        """Whether this node may append."""
        return self._append_epoch is not None

    @property
    def leader_id(self) -> int:
        """-1 while none is known."""
        return self._core.leader_id if self._is_started else -1

    @property
    def epoch(self) -> int:
        return self._core.epoch if self._is_started else 0

    @property
    def high_watermark(self) -> int:
        """Everything below is committed: on the device, for the one voter."""
        return self._log.high_watermark

    @property
    def log_start_offset(self) -> int:
        return self._log.start_offset

    @property
    def log_end_offset(self) -> int:
        return self._log.end_offset if self._is_started else 0

    @property
    def kraft_version(self) -> int:
        return self._core.kraft_version if self._is_started else 0

    @property
    def voters(self) -> VoterSet:
        return self._core.voters if self._is_started else self._static_voters

    # Life

    async def start(self) -> None:
        """Open the log, be elected, and return when this node leads and every listener has caught up."""
        assert not self._is_started, "a node is started once"
        world = self._world
        self._log = MetadataLog(world, self._config, self._log_dir)
        voters = self._log.voters.latest
        self._core = Core(
            self._local,
            self._static_voters if voters is None else voters,
            kraft_version=self._log.kraft_versions.latest or 0,
            voters_offset=self._log.voters.latest_offset,
            election=read_election(world.disk, self._quorum_state_path),
            log_end_offset=self._log.end_offset,
            last_epoch=self._log.last_epoch,
        )
        try:
            effects = self._core.start()
        except KafkaError:
            self._log.abandon()
            raise
        self._last_snapshot_ms = world.clock.monotonic_ms()
        self._is_started = True
        log.info("%s Starting voters are %s", self._subject, self._core.voters.ids)
        await self._carry_out(effects)
        await self._until(lambda: self._is_idle and not any(s.is_busy for s in self._subscriptions))
        self._check_usable()
        self._set_timer("maintenance", MAINTENANCE_INTERVAL_MS, self._on_maintenance_timer)

    async def stop(self) -> None:
        """Commit what was appended, tell listeners that this node leads no more, and close the files."""
        if not self._is_started or self._is_stopping:
            return
        self._is_stopping = True
        self._cancel_timers()
        await self._until(lambda: self._is_idle and not self._is_snapshot_under_way)
        self._is_stopped = True
        self._append_epoch = None
        for effect in self._core.resign():
            if isinstance(effect, TellResigned):
                self._tell_resigned()
        if self.failure is None:
            self._log.close()

    @property
    def _quorum_state_path(self) -> str:
        return f"{self._log.directory}/{QUORUM_STATE}"

    @property
    def _is_idle(self) -> bool:
        """Whether no election is under way and everything that was appended is on the device."""
        return not self._is_electing and not self._is_sync_asked and self._sync_task is None

    async def _until(self, is_reached: Callable[[], bool]) -> None:
        """Wait for something that `_wake` is called after, or for a failure."""
        while self.failure is None and not is_reached():
            woken = self._tasks.promise()
            self._waiting.append(woken)
            await woken

    def _wake(self) -> None:
        waiting, self._waiting = self._waiting, []
        for woken in waiting:
            if not woken.done():
                woken.set_result(None)

    def _check_usable(self) -> None:
        if self.failure is not None:
            raise KafkaStorageError(f"The metadata log cannot be used: {self.failure}") from self.failure

    # Appending

    def append(self, records: Sequence[MetadataRecord]) -> int:
        """Append records as one batch and return the last offset; `NotController` when this node does not lead.

        Listeners are told when the batch is committed. A batch larger than 8 MiB is refused with `RecordListTooLarge`.
        """
        epoch = self._append_epoch
        if epoch is None:
            raise NotController("Append failed because the replica is not the current leader")
        given = [versioned(record) for record in records]
        timestamp = self._world.clock.now_ms()
        base_offset = self._log.end_offset
        data = encode_batch(given, base_offset=base_offset, epoch=epoch, timestamp=timestamp)
        return self._append(data, epoch, timestamp, given, count=len(given))

    def _append(self, data: bytes, epoch: int, timestamp: int, records: Sequence[VersionedRecord], count: int) -> int:
        base_offset = self._log.end_offset
        try:
            last_offset = self._log.append(data, epoch=epoch)
        except (OSError, KafkaStorageError) as error:
            self._fail(error)
            raise
        assert last_offset == base_offset + count - 1, f"{count} records at {base_offset} ended at {last_offset}"
        self._uncommitted.append(CommittedBatch(base_offset, last_offset, epoch, timestamp, records, len(data)))
        self._core.on_appended(last_offset + 1)
        self._ask_for_sync()
        return last_offset

    # Committing: one sync at a time, and everything that was appended meanwhile shares the next.

    def _ask_for_sync(self) -> None:
        if not self._is_sync_asked and self._sync_task is None:
            # Soon, not now: all that one wake-up appends shares one sync.
            self._is_sync_asked = True
            self._tasks.soon(self._begin_sync)

    def _begin_sync(self) -> None:
        self._is_sync_asked = False
        if self.failure is None and not self._is_stopped and self._sync_task is None:
            self._sync_task = self._tasks.spawn(self._sync(), "raft-sync")

    async def _sync(self) -> None:
        try:
            while self.failure is None and (plan := self._log.plan_sync()) is not None:
                end_offset = self._log.end_offset
                await self._tasks.in_thread(plan.sync)
                plan.on_done()
                for effect in self._core.on_flushed(end_offset):
                    assert isinstance(effect, Commit), f"a flush commits, and nothing else: {effect}"
                    self._commit(effect.high_watermark)
                if self._is_maintenance_due:
                    self._maintain()
            if self._is_maintenance_due and self.failure is None:
                self._maintain()
        except Exception as error:  # noqa: BLE001  whatever it is, nothing can be committed any more
            self._fail(error)
        finally:
            self._sync_task = None
            self._wake()

    def _commit(self, high_watermark: int) -> None:
        self._log.advance_high_watermark(high_watermark)
        fresh: list[CommittedBatch] = []
        while self._uncommitted and self._uncommitted[0].last_offset < high_watermark:
            fresh.append(self._uncommitted.popleft())
        for subscription in self._subscriptions:
            subscription.on_commit(fresh)

    # Listeners

    def subscribe(self, listener: Listener) -> None:
        """Tell `listener` everything, from the latest snapshot or the start of the log on."""
        subscription = Subscription(
            listener, self._tasks, log_of=lambda: self._log, on_caught_up=self._wake, on_error=self._fail
        )
        self._subscriptions.append(subscription)
        if self._is_started and self._core.is_leader:
            if self._leadership is not None:
                subscription.on_leader(*self._leadership)
            subscription.on_commit([])

    def _tell_resigned(self) -> None:
        self._leadership = None
        for subscription in self._subscriptions:
            subscription.on_resign()

    # Carrying out

    async def _carry_out(self, effects: list[Effect]) -> None:
        self._is_electing = True
        try:
            for effect, following in zip_longest(effects, effects[1:]):
                # Nothing was done because of an election that is written over at once: one write is enough.
                if not (isinstance(effect, WriteElection) and isinstance(following, WriteElection)):
                    await self._do(effect)
        except (OSError, KafkaStorageError) as error:
            self._fail(error)
        finally:
            self._is_electing = False
            self._wake()

    async def _do(self, effect: Effect) -> None:
        match effect:
            case WriteElection(election):
                await self._tasks.in_thread(
                    lambda: write_election(
                        self._world.disk,
                        self._quorum_state_path,
                        election,
                        kraft_version=self._core.kraft_version,
                        voter_ids=self._core.voters.ids,
                    )
                )
                log.info("%s Completed transition to %s", self._subject, election)
            case BeginEpoch(epoch, records):
                self._log.begin_epoch(epoch)
                timestamp = self._world.clock.now_ms()
                base_offset = self._log.end_offset
                data = encode_control_batch(records, base_offset=base_offset, epoch=epoch, timestamp=timestamp)
                self._append(data, epoch, timestamp, [], count=len(records))
                self._append_epoch = epoch
            case TellLeader(epoch, epoch_start_offset):
                self._leadership = (epoch, epoch_start_offset)
                for subscription in self._subscriptions:
                    subscription.on_leader(epoch, epoch_start_offset)
            case TellResigned(epoch):
                log.info("%s Resigned from epoch %d", self._subject, epoch)
                self._tell_resigned()
            case AwaitElection():
                if not self._is_stopping:
                    delay_ms = self._config.controller_quorum_election_timeout_ms
                    self._set_timer("election", delay_ms, self._on_election_timeout)
            case Commit(high_watermark):
                self._commit(high_watermark)
            case _:
                assert_never(effect)

    def resign(self, reason: str) -> None:
        """Give up leadership; an election follows after an election timeout."""
        if not self.is_leader or self._is_electing:
            return
        log.info("%s Resigning from epoch %d: %s", self._subject, self.epoch, reason)
        self._append_epoch = None
        self._begin_carrying_out(self._core.resign(), "raft-resign")

    def _on_election_timeout(self) -> None:
        if self.failure is None and not self._is_stopping:
            self._begin_carrying_out(self._core.on_election_timeout(), "raft-election")

    def _begin_carrying_out(self, effects: list[Effect], name: str) -> None:
        assert not self._is_electing, "one change of leadership after the other"
        self._is_electing = True
        self._tasks.spawn(self._carry_out(effects), name)

    def _set_timer(self, name: str, delay_ms: int, call: Callable[[], object]) -> None:
        self._timers[name] = self._tasks.later(delay_ms, call)

    def _cancel_timers(self) -> None:
        for timer in self._timers.values():
            timer.cancel()
        self._timers.clear()

    def _fail(self, error: BaseException) -> None:
        """The device or a listener has failed: what is in memory and what is on disk may differ, so it ends here."""
        if self.failure is not None:
            return
        self.failure = error
        log.error("%s The metadata log cannot be used any more", self._subject, exc_info=error)
        self._append_epoch = None
        self._cancel_timers()
        if self._core.resign():
            self._tell_resigned()
        self._log.abandon()
        self._wake()
        if self._on_failure is not None:
            self._on_failure(error)

    # Snapshots and retention

    @property
    def latest_snapshot_id(self) -> SnapshotId | None:
        return self._log.latest_snapshot_id

    @property
    def snapshot_due(self) -> str | None:
        """Why a snapshot should be made now, by `metadata.log.max.*`; None when none should."""
        if self._is_snapshot_under_way or self.failure is not None or self._is_stopped:
            return None
        bytes_max = self._config.metadata_log_max_record_bytes_between_snapshots
        if self._log.bytes_since_snapshot >= bytes_max:
            return f"we have replayed at least {bytes_max} bytes"
        interval_ms = self._config.metadata_log_max_snapshot_interval_ms
        waited_ms = self._world.clock.monotonic_ms() - self._last_snapshot_ms
        if interval_ms and waited_ms >= interval_ms and self._log.bytes_since_snapshot:
            return f"we have waited at least {interval_ms // 60_000} minute(s)"
        return None

    async def create_snapshot(self, offset: int, epoch: int, records: Iterable[MetadataRecord]) -> SnapshotId | None:
        """Write the state that the log makes up to `offset`, which is `records`; `epoch` is that of the last batch.

        None when there is one at that offset, when one is being written, or when the node stops before this one is
        done. `records` is taken in small steps, so it must stay what it is meanwhile: an image is never changed.
        """
        self._check_usable()
        id = SnapshotId(offset, epoch)
        writer = None if self._is_snapshot_under_way else self._log.new_snapshot(id)
        if writer is None:
            return None
        self._is_snapshot_under_way = True
        try:
            try:
                remaining = iter(records)
                while step := list(islice(remaining, _RECORDS_A_STEP)):
                    writer.append(step)
                    await self._tasks.sleep_ms(0)
                    if self._is_stopping:
                        writer.give_up()
                        return None
                writer.finish()
                await self._tasks.in_thread(writer.freeze)
            except Exception:
                writer.give_up()
                raise
            self._check_usable()  # the log may have failed meanwhile
            self._log.add_snapshot(id)
        finally:
            self._is_snapshot_under_way = False
            self._wake()
        self._last_snapshot_ms = self._world.clock.monotonic_ms()
        log.info("%s Created snapshot %s of %d bytes", self._subject, id, writer.size)
        self._ask_for_maintenance()
        return id

    def _on_maintenance_timer(self) -> None:
        self._ask_for_maintenance()
        self._set_timer("maintenance", MAINTENANCE_INTERVAL_MS, self._on_maintenance_timer)

    def _ask_for_maintenance(self) -> None:
        """Maintenance closes files, so it waits for a moment when no other thread syncs one."""
        self._is_maintenance_due = True
        self._ask_for_sync()

    def _maintain(self) -> None:
        self._is_maintenance_due = False
        self._log.clean()
        # What is due here is the removal of files, and rarely the sync of a closed segment's indexes, which are small.
        self._log.chores.run_due()

    # Asked by others

    def describe_quorum(self, version: int = 2) -> DescribeQuorumResponse:
        """The answer to DescribeQuorum for `__cluster_metadata-0`."""
        return describe_quorum(
            self._core, log_end_offset=self._log.end_offset, now_ms=self._world.clock.now_ms(), version=version
        )
