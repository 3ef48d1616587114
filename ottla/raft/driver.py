"""The raft node: carries out what `core` decides, on the real disk or a virtual one.

One inbox and one cycle. An event is taken from the inbox and stepped; what the `Ready` says to persist is persisted to
its end, then its messages are sent, then listeners are told. An event that arrives meanwhile waits, so nobody sees a
state that is not durable. Only a leader's own appends go beside the cycle: they are in the log at once, and followers
may fetch them, while one device sync after the other, each shared by all that was appended before it began, tells the
core how far this node's own copy counts.

Promises: a batch is told to listeners only when it is committed, which for this node's own copy means on the device;
the vote and the epoch are on the device before anything is sent or appended because of them. Its syncs do not queue
behind a cleaner's. A device that fails ends the leadership: listeners are told, `on_failure` is called once, and
nothing more is written.
Called by the composition root; listened to by the controller and by every node's metadata loader.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import pairwise
from typing import Any, assert_never

from ottla.errors import (
    BrokerNotAvailable,
    CorruptMessage,
    InvalidRecord,
    KafkaError,
    KafkaStorageError,
    NotController,
    UnknownTopicOrPartition,
    UnsupportedVersion,
)
from ottla.net import ConnectionRefused
from ottla.raft import messages
from ottla.raft.batches import MetadataRecord, encode_batch, encode_control_batch, versioned
from ottla.raft.channel import RaftChannel
from ottla.raft.config import RaftSettings
from ottla.raft.core import Core
from ottla.raft.describe import describe_partitions, describe_quorum
from ottla.raft.events import (
    Answer,
    Appended,
    AppendFetched,
    BeginEpoch,
    DropSnapshot,
    Event,
    Flushed,
    FlushLog,
    InstallSnapshot,
    LeaderAndEpoch,
    LedEpoch,
    LogChange,
    Persist,
    ReadRecords,
    ReadSnapshot,
    Ready,
    Received,
    RequestFailed,
    Resign,
    Responded,
    Send,
    ShutDown,
    Started,
    StartSnapshot,
    Tick,
    Truncate,
    WriteElection,
    WriteSnapshot,
    Written,
)
from ottla.raft.listener import CommittedBatch, Listener
from ottla.raft.metadata_log import MetadataLog
from ottla.raft.quorum_state import NAME as QUORUM_STATE
from ottla.raft.quorum_state import Election, read_election, write_election
from ottla.raft.snapshot import DamagedSnapshot, SnapshotId, SnapshotReceiver
from ottla.raft.snapshot_maker import SnapshotMaker
from ottla.raft.states import NEVER, Leader
from ottla.raft.subscription import Subscription
from ottla.raft.times import QuorumTimes
from ottla.raft.voters import ReplicaKey, VoterNode, VoterSet
from ottla.storage import OffsetsOutOfOrder, UnexpectedAppendOffset
from ottla.types import Uuid
from ottla.wire import Message
from ottla.wire.messages.describe_quorum import DescribeQuorumRequest, DescribeQuorumResponse
from ottla.wire.metadata import VersionedRecord
from ottla.world import Address, NodeWorld, Promise, Task, Timer

log = logging.getLogger(__name__)

MAINTENANCE_INTERVAL_MS = 60_000
"""How often old snapshots and segments are looked for, as in Kafka."""
INBOX_MAX = 1_000
"""How many requests of others wait for their turn; one more is told to come back later."""
SHUTDOWN_MS_MAX = 5_000
"""How long a leader that stops waits until the other voters know, as in Kafka."""


class RaftNode:
    """One node of the metadata quorum: a voter, or an observer that only follows."""

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
        cluster_id: str = "",
        listener_name: str | None = None,
        bootstrap: Sequence[Address] = (),
        channel: RaftChannel | None = None,
        can_become_voter: bool = True,
        on_failure: Callable[[BaseException], object] | None = None,
    ) -> None:
        """`log_dir` is `metadata.log.dir`; `voters` are those of `controller.quorum.voters` (empty when the log has
        them), `bootstrap` is `controller.quorum.bootstrap.servers`. `listeners` are this node's controller listeners as
        others reach them, none for a broker; `listener_name` is the first of `controller.listener.names`. Without a
        `channel` nobody else is reached: enough for the only voter."""
        self._world = world
        self._tasks = world.tasks
        self._config = config
        self._log_dir = log_dir
        self._local = VoterNode(ReplicaKey(node_id, directory_id), dict(listeners))
        self._static_voters = voters
        self._cluster_id = cluster_id
        self._listener_name = next(iter(listeners), "") if listener_name is None else listener_name
        self._bootstrap = bootstrap
        self._channel = channel
        self._can_become_voter = can_become_voter
        self._on_failure = on_failure
        self._subject = f"[RaftManager id={node_id}]"
        self._log: MetadataLog
        self._snapshots: SnapshotMaker
        self._core: Core
        self._inbox: deque[Event] = deque()
        self._request_count = 0
        """How many of the inbox are requests of others."""
        self._open_requests: dict[Promise[Message], Message] = {}
        """Those that are not answered yet, in the inbox or parked by the core."""
        self._is_cycling = False
        """Whether an event is being stepped or carried out."""
        self._receiver: SnapshotReceiver | None = None
        self._subscriptions: list[Subscription] = []
        self._watchers: list[Callable[[LeaderAndEpoch], object]] = []
        self._uncommitted: deque[CommittedBatch] = deque()
        """What this leader has appended and nobody was told yet: listeners get these without reading the log."""
        self._led: LedEpoch | None = None
        """The epoch that this node leads, once its first batch is in the log."""
        self._leadership: LedEpoch | None = None
        """The same, once listeners may know."""
        self._sync_task: Task[None] | None = None
        self._is_sync_asked = False
        self._is_telling_appended = False
        self._is_maintenance_due = False
        self._timers: dict[str, Timer] = {}
        self._deadline_ms = NEVER
        """When the core's timer rings."""
        self._waiting: list[Promise[None]] = []
        self._is_started = False
        self._is_stopping = False
        self._is_stopped = False
        self.failure: BaseException | None = None
        """Why nothing can be written any more, once that is so."""
        self.times = QuorumTimes()

    # What is known

    @property
    def is_leader(self) -> bool:
        """Whether this node may append."""
        return self._led is not None and self._core.is_leader and not self._is_stopped and self.failure is None

    @property
    def leader_id(self) -> int:
        """-1 while none is known."""
        return self._core.leader_id if self._is_started else -1

    @property
    def epoch(self) -> int:
        return self._core.epoch if self._is_started else 0

    @property
    def high_watermark(self) -> int:
        """Everything below is committed, as far as this node knows."""
        return self._log.high_watermark

    @property
    def log_start_offset(self) -> int:
        return self._log.start_offset

    @property
    def log_end_offset(self) -> int:
        return self._log.end_offset if self._is_started else 0

    @property
    def kraft_version(self) -> int:
        return self._log.kraft_version if self._is_started else 0

    @property
    def voters(self) -> VoterSet:
        """The latest in the log, or those of the settings where it has none."""
        return self._log.voters if self._is_started else self._static_voters

    @property
    def vote_id(self) -> int:
        """Whom this node has voted for in its epoch, or follows without a vote of its own; -1 for nobody."""
        return self._core.vote_id if self._is_started else -1

    @property
    def log_end_epoch(self) -> int:
        return self._log.last_epoch if self._is_started else 0

    @property
    def observer_count(self) -> int | None:
        """How many observers fetch from this node; None unless it leads."""
        state = self._core.state if self._is_started else None
        return len(state.observers) if isinstance(state, Leader) else None

    @property
    def is_deserted(self) -> bool:
        """Whether this node is a voter that can reach no other: there is no quorum then."""
        return self._is_started and self._core.is_deserted

    def watch(self, call: Callable[[LeaderAndEpoch], object]) -> None:
        """Tell `call` who leads which epoch, now and whenever that changes."""
        self._watchers.append(call)
        if self._is_started:
            call(LeaderAndEpoch(self.leader_id, self.epoch))

    # Life

    async def start(self) -> None:
        """Open the log and take part in the quorum. Whether anybody leads is another matter: see `until_caught_up`."""
        assert not self._is_started, "a node is started once"
        world = self._world
        self._log = MetadataLog(world, self._config, self._log_dir, self._static_voters)
        now_ms = world.clock.monotonic_ms()
        self._core = Core(
            self._local,
            self._log,
            self._config,
            cluster_id=self._cluster_id,
            listener=self._listener_name,
            draw=world.random.randrange,
            bootstrap=self._bootstrap,
            election=read_election(world.disk, self._quorum_state_path),
            can_become_voter=self._can_become_voter,
            now_ms=now_ms,
        )
        try:
            ready = self._core.step(Started(), now_ms)
        except KafkaError:
            self._log.abandon()
            raise
        self._snapshots = SnapshotMaker(
            world,
            self._config,
            self._log,
            check_usable=self._check_usable,
            is_stopping=lambda: self._is_stopping,
        )
        self._is_started = True
        log.info("%s Starting voters are %s", self._subject, self._log.voters.ids)
        self._is_cycling = True
        self._carry_out(ready)
        self._set_timer("maintenance", MAINTENANCE_INTERVAL_MS, self._on_maintenance_timer)

    async def until_caught_up(self) -> None:
        """Return when this node knows what is committed and every listener has been told all of it."""
        await self._until(
            lambda: (
                self._core.is_caught_up
                and all(not one.is_busy and one.is_at(self.high_watermark) for one in self._subscriptions)
            )
        )
        self._check_usable()

    async def hand_over(self) -> None:
        """Let another lead, if this node does and there is another. Return when there is a new leader, within 5 s, or
        when no other voter can be reached: a whole cluster that is stopped need not wait for anybody.

        To be called while requests still come in: the first successor needs this node's vote where the others have
        just heard from it. Nothing is appended after it.
        """
        if self._has_successors:
            await self._shut_down_core(lambda: self._core.has_remote_leader)

    async def stop(self) -> None:
        """Flush what was appended, let another lead, tell listeners that this node does not, and close the files."""
        if not self._is_started or self._is_stopping:
            return
        self._is_stopping = True
        await self._until(lambda: self._is_idle and not self._snapshots.is_under_way)
        if self._has_successors:
            await self._shut_down_core(lambda: self._core.has_handed_over)
        else:
            self._post(ShutDown())
        await self._until(lambda: self._is_idle)
        self._is_stopped = True
        self._cancel_timers()
        self._tell_resigned()
        for subscription in self._subscriptions:
            subscription.close()
        self._refuse_open_requests()
        if self.failure is None:
            self._drop_receiver()
            self._log.close()

    @property
    def _has_successors(self) -> bool:
        return self._is_started and self.is_leader and not self.voters.is_only_voter(self._local.key)

    async def _shut_down_core(self, is_done: Callable[[], bool]) -> None:
        until_ms = self._world.clock.monotonic_ms() + SHUTDOWN_MS_MAX
        self._set_timer("shutdown", SHUTDOWN_MS_MAX, self._wake)
        self._post(ShutDown())
        await self._until(lambda: is_done() or self._core.is_deserted or self._world.clock.monotonic_ms() >= until_ms)

    @property
    def _quorum_state_path(self) -> str:
        return f"{self._log.directory}/{QUORUM_STATE}"

    @property
    def _is_idle(self) -> bool:
        """Whether nothing is being carried out and everything that was appended is on the device."""
        return not self._is_cycling and not self._is_sync_asked and self._sync_task is None

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

    # The cycle

    def _post(self, event: Event) -> None:
        """Put an event into the inbox; it is stepped now, unless another is under way."""
        self._inbox.append(event)
        self._run_cycle()

    def _run_cycle(self) -> None:
        while self._inbox and not self._is_cycling and not self._is_stopped and self.failure is None:
            event = self._inbox.popleft()
            if isinstance(event, Received):
                self._request_count -= 1
            self._is_cycling = True
            try:
                ready = self._core.step(event, self._world.clock.monotonic_ms())
            except Exception as error:  # noqa: BLE001  a promise of the core's own is broken
                self._fail(error)
                return
            self._carry_out(ready)

    def _carry_out(self, ready: Ready) -> None:
        """Persist, send, apply. Only what has to wait for the device takes a task of its own."""
        if ready.persist:
            self._tasks.spawn(self._persist_all(ready), "raft-cycle")
        else:
            self._finish(ready)

    async def _persist_all(self, ready: Ready) -> None:
        is_sound = True
        try:
            for effect, following in pairwise([*ready.persist, None]):
                # Nothing was done because of an election that is written over at once: one write is enough.
                if effect is not None and not (
                    isinstance(effect, WriteElection) and isinstance(following, WriteElection)
                ):
                    is_sound &= await self._persist(effect)
        except Exception as error:  # noqa: BLE001  whatever it is, what was decided is not durable
            self._fail(error)
            return
        if any(isinstance(effect, LogChange) for effect in ready.persist):
            self._inbox.appendleft(Written(is_sound))
        if self.failure is None and not self._is_stopped:
            self._finish(ready)
            self._run_cycle()

    def _finish(self, ready: Ready) -> None:
        """The rest of a `Ready`, when everything is persisted."""
        try:
            if ready.fault is not None:
                self._fail(KafkaStorageError(ready.fault))
                return
            for note in ready.notes:
                log.warning("%s %s", self._subject, note)
            for answer in ready.answers:
                self._answer(answer)
            for request in ready.requests:
                self._send(request)
            self._arm(ready.deadline_ms)
            self._apply(ready)
            self.times.on_state(self._core.state, self._core.leader_id, self._world.clock.monotonic_ms())
        except (OSError, KafkaStorageError) as error:
            self._fail(error)
        finally:
            self._is_cycling = False
            self._wake()

    def _apply(self, ready: Ready) -> None:
        if ready.high_watermark is not None:
            self._commit(ready.high_watermark)
        if ready.resigned is not None:
            log.info("%s Resigned from epoch %d", self._subject, ready.resigned)
            if ready.led is None:
                self._led = None
                self._uncommitted.clear()
            self._tell_resigned()
        if ready.led is not None and self._core.is_leader:
            self._leadership = ready.led
            for subscription in self._subscriptions:
                subscription.on_leader(*ready.led)
        if ready.leader is not None:
            log.info("%s Leader is %d in epoch %d", self._subject, *ready.leader)
            for call in self._watchers:
                call(ready.leader)

    # Persisting

    async def _persist(self, effect: Persist) -> bool:
        """Whether what the leader had sent could be taken."""
        match effect:
            case WriteElection(election):
                await self._write_election(election)
            case BeginEpoch(epoch, records):
                self._begin_epoch(epoch, records)
            case AppendFetched(records, epoch, is_durable):
                return await self._append_fetched(records, epoch, is_durable)
            case FlushLog():
                await self._flush()
            case Truncate(offset):
                await self._until_no_sync()
                self._log.truncate_to(offset)
                log.info("%s Truncated the log to offset %d", self._subject, offset)
            case StartSnapshot(id):
                self._drop_receiver()
                self._receiver = self._log.receive_snapshot(id)
                log.info("%s Fetching snapshot %s", self._subject, id)
            case WriteSnapshot(data):
                assert self._receiver is not None, "a snapshot is begun before it is written"
                self._receiver.append(data)
            case InstallSnapshot(id):
                return await self._install(id)
            case DropSnapshot():
                self._drop_receiver()
            case _:
                assert_never(effect)
        return True

    async def _write_election(self, election: Election) -> None:
        await self._tasks.in_thread(
            lambda: write_election(
                self._world.disk,
                self._quorum_state_path,
                election,
                kraft_version=self._log.kraft_version,
                voter_ids=self._log.voters.ids,
            ),
            at_once=True,
        )
        log.info("%s Completed transition to %s", self._subject, election)

    def _begin_epoch(self, epoch: int, records: tuple[Message, ...]) -> None:
        self._log.begin_epoch(epoch)
        timestamp = self._world.clock.now_ms()
        base_offset = self._log.end_offset
        self._uncommitted.clear()
        data = encode_control_batch(records, base_offset=base_offset, epoch=epoch, timestamp=timestamp)
        self._append(data, epoch, timestamp, [], count=len(records))
        self._led = LedEpoch(epoch, base_offset)

    async def _append_fetched(self, records: Any, epoch: int, is_durable: bool) -> bool:
        await self._until_no_sync()
        self._check_usable()
        try:
            self._log.append_fetched(records, epoch=epoch)
        except (CorruptMessage, InvalidRecord, OffsetsOutOfOrder, UnexpectedAppendOffset) as error:
            log.error("%s Cannot append what the leader sent: %s", self._subject, error)
            return False
        if is_durable:
            await self._flush()
        return True

    async def _flush(self) -> None:
        """Return when the whole log is on the device."""
        self._ask_for_sync()
        await self._until(lambda: self._log.flushed_offset >= self._log.end_offset)
        self._check_usable()

    async def _until_no_sync(self) -> None:
        """A truncation closes files, and no other thread may be syncing one then."""
        await self._until(lambda: self._sync_task is None)
        self._check_usable()

    async def _install(self, id: SnapshotId) -> bool:
        receiver, self._receiver = self._receiver, None
        assert receiver is not None, "a snapshot is received before it is installed"
        try:
            await self._tasks.in_thread(receiver.freeze, at_once=True)
        except DamagedSnapshot as error:
            log.error("%s The leader sent a snapshot that cannot be used: %s", self._subject, error)
            receiver.give_up()
            return False
        await self._until_no_sync()
        self._log.install(id)
        self._snapshots.note_new()
        log.info("%s Installed snapshot %s of %d bytes", self._subject, id, receiver.size)
        return True

    def _drop_receiver(self) -> None:
        receiver, self._receiver = self._receiver, None
        if receiver is not None:
            receiver.give_up()

    # To and from other nodes

    def handle(self, request: Message, *, version: int, listener: str | None = None) -> Promise[Message]:
        """The answer to Vote, BeginQuorumEpoch, EndQuorumEpoch, Fetch, FetchSnapshot or DescribeQuorum, in the form of
        `version`; `listener` is the name of the listener that the request came in on, the first of the controllers'
        unless it is given."""
        assert isinstance(request, messages.REQUESTS), f"{type(request).__name__} is no request of the quorum"
        promise: Promise[Message] = self._tasks.promise()
        if not self._is_started or self._is_stopped or self.failure is not None or self._request_count >= INBOX_MAX:
            promise.set_result(messages.error_response(request, BrokerNotAvailable.code))
        elif isinstance(request, DescribeQuorumRequest):
            promise.set_result(self._describe(request, version))
        else:
            self._open_requests[promise] = request
            self._request_count += 1
            self._post(Received(promise, request, version, self._listener_name if listener is None else listener))
        return promise

    def _answer(self, answer: Answer) -> None:
        response: Any = answer.response
        match answer.read:
            case ReadRecords(offset, bytes_max):
                response.responses[0].partitions[0].records = self._log.read(offset, bytes_max)
            case ReadSnapshot(id, position, bytes_max):
                data = self._log.read_snapshot(id, position, bytes_max)
                response.topics[0].partitions[0].unaligned_records = data
        promise: Any = answer.token
        self._open_requests.pop(promise, None)
        if not promise.done():  # who asked may be gone
            promise.set_result(response)

    def _refuse_open_requests(self) -> None:
        for promise, request in self._open_requests.items():
            if not promise.done():
                promise.set_result(messages.error_response(request, BrokerNotAvailable.code))
        self._open_requests.clear()
        self._inbox.clear()

    def _send(self, send: Send) -> None:
        if self._channel is None:
            self._tasks.soon(lambda: self._post(RequestFailed(send.request_id)))
            return
        promise = self._channel.send(send.node_id, send.address, send.request, send.timeout_ms)
        promise.add_done_callback(lambda done: self._on_response(send.request_id, done))

    def _on_response(self, request_id: int, done: Promise[Message]) -> None:
        try:
            event: Event = Responded(request_id, done.result())
        except UnsupportedVersion:
            event = RequestFailed(request_id, is_unsupported=True)
        except ConnectionRefused:
            event = RequestFailed(request_id, is_refused=True)
        except Exception as error:  # noqa: BLE001  no answer is no answer
            log.debug("%s Request %d failed: %r", self._subject, request_id, error)
            event = RequestFailed(request_id)
        self._post(event)

    # Timers

    def _arm(self, deadline_ms: float) -> None:
        """See that a `Tick` comes at the deadline. A timer that rings too early is set anew when it has rung."""
        if deadline_ms < self._deadline_ms:
            self._deadline_ms = deadline_ms
            delay_ms = max(0, deadline_ms - self._world.clock.monotonic_ms())
            self._set_timer("core", delay_ms, self._on_tick)

    def _on_tick(self) -> None:
        self._deadline_ms = NEVER
        self._post(Tick())

    def _set_timer(self, name: str, delay_ms: float, call: Callable[[], object]) -> None:
        if name in self._timers:
            self._timers[name].cancel()
        self._timers[name] = self._tasks.later(delay_ms, call)

    def _cancel_timers(self) -> None:
        for timer in self._timers.values():
            timer.cancel()
        self._timers.clear()

    # Appending

    def append(self, records: Sequence[MetadataRecord]) -> int:
        """Append records as one batch and return the last offset; `NotController` when this node does not lead.

        Listeners are told when the batch is committed. A batch larger than 8 MiB is refused with `RecordListTooLarge`.
        """
        if not self.is_leader:
            raise NotController("Append failed because the replica is not the current leader")
        epoch = self._core.epoch
        given = [versioned(record) for record in records]
        timestamp = self._world.clock.now_ms()
        base_offset = self._log.end_offset
        data = encode_batch(given, base_offset=base_offset, epoch=epoch, timestamp=timestamp)
        try:
            return self._append(data, epoch, timestamp, given, count=len(given))
        except (OSError, KafkaStorageError) as error:
            self._fail(error)
            raise

    def _append(self, data: bytes, epoch: int, timestamp: int, records: Sequence[VersionedRecord], count: int) -> int:
        base_offset = self._log.end_offset
        last_offset = self._log.append(data, epoch=epoch)
        assert last_offset == base_offset + count - 1, f"{count} records at {base_offset} ended at {last_offset}"
        self._uncommitted.append(CommittedBatch(base_offset, last_offset, epoch, timestamp, records, len(data)))
        self._ask_for_sync()
        if self._core.has_parked and not self._is_telling_appended:
            # Followers need not wait for this node's device. Soon, not now, as for the sync.
            self._is_telling_appended = True
            self._tasks.soon(self._tell_appended)
        return last_offset

    def _tell_appended(self) -> None:
        self._is_telling_appended = False
        self._post(Appended())

    # Syncing: one at a time, and everything that was appended meanwhile shares the next.

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
                await self._tasks.in_thread(plan.sync, at_once=True)
                plan.on_done()
                if self._core.is_leader:
                    self._post(Flushed(end_offset))
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
        if fresh:
            clock = self._world.clock
            self.times.commit.record(max(0, clock.now_ms() - fresh[0].timestamp), clock.monotonic_ms())
        for subscription in self._subscriptions:
            subscription.on_commit(fresh)

    # Listeners

    def subscribe(self, listener: Listener) -> None:
        """Tell `listener` everything, from the latest snapshot or the start of the log on."""
        subscription = Subscription(
            listener, self._tasks, log_of=lambda: self._log, on_caught_up=self._wake, on_error=self._fail
        )
        self._subscriptions.append(subscription)
        if self._is_started:
            if self._leadership is not None:
                subscription.on_leader(*self._leadership)
            if self._core.high_watermark is not None:
                subscription.on_commit([])

    def _tell_resigned(self) -> None:
        self._leadership = None
        for subscription in self._subscriptions:
            subscription.on_resign()

    def resign(self, reason: str) -> None:
        """Give up leadership; an election follows."""
        if self.is_leader:
            log.info("%s Resigning from epoch %d: %s", self._subject, self.epoch, reason)
            self._led = None
            self._post(Resign())

    def _fail(self, error: BaseException) -> None:
        """The device or a listener has failed: what is in memory and what is on disk may differ, so it ends here."""
        if self.failure is not None:
            return
        self.failure = error
        log.error("%s The metadata log cannot be used any more", self._subject, exc_info=error)
        self._cancel_timers()
        self._core.abandon()
        self._tell_resigned()
        self._refuse_open_requests()
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
        """Why a snapshot should be made now; None when none should."""
        return None if self.failure is not None or self._is_stopped else self._snapshots.due

    async def create_snapshot(self, offset: int, epoch: int, records: Iterable[MetadataRecord]) -> SnapshotId | None:
        """Write the state that the log makes up to `offset`, which is `records`; `epoch` is that of the last batch.

        None when there is one at that offset, when one is being written, when the node stops before this one is done,
        or when the log begins above it by then. `records` is taken in small steps, so it must stay what it is
        meanwhile: an image is never changed.
        """
        self._check_usable()
        id = SnapshotId(offset, epoch)
        try:
            size = await self._snapshots.create(id, records)
        finally:
            self._wake()
        if size is None:
            return None
        log.info("%s Created snapshot %s of %d bytes", self._subject, id, size)
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
        clock = self._world.clock
        return describe_quorum(
            self._core, self._log, now_ms=clock.now_ms(), monotonic_ms=clock.monotonic_ms(), version=version
        )

    def _describe(self, request: DescribeQuorumRequest, version: int) -> Message:
        if messages.only_partition(request) is None:
            return describe_partitions(request, UnknownTopicOrPartition.code)
        return self.describe_quorum(version)
