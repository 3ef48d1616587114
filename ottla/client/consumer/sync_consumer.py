"""`Consumer`: the consumer for callers that block. Its core runs on a loop of its own, on a thread of its own.

`poll` takes records that are already there out of the buffer without asking the loop's thread, decodes them where it
was called, and goes to the loop when there is nothing, or when there is something else to do. Listeners, callbacks,
interceptors and deserializers run in the caller's thread. See `ottla.client.consumer` for what it promises.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from ottla.client.consumer.core import ConsumerCore
from ottla.client.consumer.face import (
    CLOSE_TIMEOUT_S,
    POLL_TIMEOUT_S,
    TO_BEGINNING,
    TO_END,
    Finisher,
    K,
    Lent,
    OffsetAndTimestamp,
    V,
    chosen,
    listener_of,
    make_core,
    offsets_of,
    partitions_of,
    record_limit,
    settings,
    times_of,
    with_times,
    without_times,
)
from ottla.client.consumer.fetch_buffer import RawRecord
from ottla.client.consumer.listener import RebalanceListener, Told
from ottla.client.consumer.offset_lookup import EARLIEST, LATEST
from ottla.client.consumer.subscription_state import SubscriptionPattern
from ottla.client.consumer.unpacking import Helper
from ottla.client.errors import ClientClosed, RecordDeserialization
from ottla.client.group import (
    CommitCallback,
    Completion,
    GroupMetadata,
    OffsetAndMetadata,
    RebalanceEvent,
    RebalanceKind,
)
from ottla.client.metrics import MetricValues
from ottla.client.network import Deadline, PartitionInfo
from ottla.errors import KafkaError
from ottla.records import ConsumerRecord
from ottla.types import TopicPartition
from ottla.world.threads import LoopClosed, LoopThread

if TYPE_CHECKING:
    import pyarrow as pa

    from ottla.client.consumer.arrow import ArrowMakers, Schema, SyncTopicReader

log = logging.getLogger(__name__)

T = TypeVar("T")


class Consumer(Generic[K, V]):
    """A consumer whose calls block. One thread at a time uses it; only `wakeup` may come from elsewhere.

    with Consumer(bootstrap_servers="localhost:9092", group_id="g") as consumer:
        consumer.subscribe(["orders"])
        for record in consumer:
            ...
    """

    def __init__(self, config: Mapping[str, object] | None = None, /, **keywords: object) -> None:
        """Settings by Kafka's names in `config`, as `linger.ms`, or as keywords, as `linger_ms`."""
        self.config = settings(config, keywords)
        self._finisher = Finisher(self.config)
        self._loop = LoopThread(f"ottla-consumer-{self.config.client_id}")
        try:
            self._core: ConsumerCore = self._loop.call(lambda: make_core(self._loop.world, self.config, self._finisher))
        except BaseException:
            self._loop.close()
            raise
        self._core.buffer.on_drained = self._on_drained
        self._listener: RebalanceListener | None = None
        self._lent: Lent[K, V] = Lent()
        self._arrow: ArrowMakers | None = None

    def _on_drained(self) -> None:
        self._loop.post(self._core.fetcher.go_on)

    # Choosing what to read

    def subscribe(
        self,
        topics: str | Iterable[str] | re.Pattern[str] | SubscriptionPattern,
        listener: RebalanceListener | None = None,
        *,
        on_assigned: Told | None = None,
        on_revoked: Told | None = None,
        on_lost: Told | None = None,
    ) -> None:
        """Have the group assign partitions of these topics, or of those that a pattern matches.

        A compiled pattern of `re` is matched here with whole names, a `SubscriptionPattern` by the broker. An empty
        list unsubscribes.
        """
        self._core.check_open()
        choice = chosen(topics)
        told = listener_of(listener, on_assigned, on_revoked, on_lost)
        if isinstance(choice, list) and not choice:
            self.unsubscribe()
            return
        self._settle()
        self._do(lambda: self._core.subscribe(choice))
        self._listener = told

    def unsubscribe(self) -> None:
        """Read nothing any more, and leave the group."""
        self._core.check_open()
        self._settle()
        self._leave(self.config.default_api_timeout_ms)
        self._do(self._core.forget_subscription)
        self._listener = None

    def assign(self, partitions: Iterable[TopicPartition | tuple[str, int]]) -> None:
        """Read exactly these partitions, without a group's help. An empty list unsubscribes."""
        self._core.check_open()
        self._settle()
        wanted = partitions_of(partitions)
        if not wanted:
            self.unsubscribe()
            return
        self._do(lambda: self._core.assign(wanted))

    def assignment(self) -> set[TopicPartition]:
        """The partitions that are read now."""
        return set(self._core.subscription.partitions)

    def subscription(self) -> set[str]:
        """The topics that are subscribed to; empty with `assign`."""
        return set(self._core.subscription.topics)

    # Records

    def poll(
        self, timeout: float | None = POLL_TIMEOUT_S, *, max_records: int | None = None
    ) -> list[ConsumerRecord[K, V]]:
        """The next records, up to `max_records` (`max.poll.records`); an empty list when none came in `timeout`.

        Rebalance listeners, callbacks of commits and the errors of what goes on in the background come from here.
        """
        limit = record_limit(self.config, max_records)
        return self._poll(timeout, lambda: self._take(limit)) or []

    def _poll(self, timeout: float | None, take: Callable[[], T | None]) -> T | None:
        """Wait until `take` gives something, and do everything meanwhile that happens inside a poll."""
        core = self._core
        core.check_poll(timeout)
        self._finisher.tell_commits()
        core.poll_metrics.began()
        try:
            return self._polled(timeout, take)
        finally:
            core.poll_metrics.ended()

    def _polled(self, timeout: float | None, take: Callable[[], T | None]) -> T | None:
        core = self._core
        deadline = Deadline(self._loop.world, None if timeout is None else timeout * 1000)
        seen = core.signal_count
        if self._lent.is_open or core.note_poll():
            core.check_open()
            self._settle()
            seen = self._run(_begin_poll(core))
            self._serve()
        while True:
            taken = take()
            if taken:
                return taken
            if deadline.has_passed:
                return None
            seen = self._run(_wait_and_begin(core, deadline, seen))
            self._serve()

    def poll_arrow(
        self,
        timeout: float | None = POLL_TIMEOUT_S,
        *,
        columns: Sequence[str] | None = None,
        schema: Schema | None = None,
        key_schema: Schema | None = None,
    ) -> pa.RecordBatch | None:
        """The next records as an Arrow record batch, a row each; None when none came in `timeout`.

        `columns` chooses among topic, partition, offset, timestamp, key, value, headers, timestamp_type and
        leader_epoch. `schema` makes a typed column of the values: a `pyarrow.Schema` for JSON objects, or a decoder of
        `ottla.client.columnar`; `key_schema` likewise of the keys. Otherwise as `poll`.
        """
        from ottla.client.consumer.arrow import POLL_BYTES, ArrowMakers

        if self._arrow is None:
            self._arrow = ArrowMakers()
            self._core.buffer.helper = Helper(self._hire)
        maker = self._arrow.get(columns, schema, key_schema)
        core = self._core

        def take() -> pa.RecordBatch | None:
            made = maker.make(core.take_batches(POLL_BYTES))
            if made.rest:
                self._do(lambda: core.rewind(made.rest))
            if made.error is not None:
                raise made.error
            return made.batch

        return self._poll(timeout, take)

    def _hire(self, work: Callable[[], object]) -> None:
        """Have `work` done on a thread of the loop's, beside this one."""
        self._loop.post(lambda: self._loop.world.tasks.in_thread(work))

    def topic(self, name: str) -> SyncTopicReader:
        """A topic to be read as a table, beside what this consumer reads: `consumer.topic("t").read()`."""
        from ottla.client.consumer.arrow import SyncTopicReader, reader_settings

        return SyncTopicReader(reader_settings(self.config.originals), name)

    def _take(self, limit: int) -> list[ConsumerRecord[K, V]]:
        while True:
            raw, is_final = self._core.take(limit)
            if is_final or not raw or self._finisher.is_plain:
                return raw  # type: ignore[return-value]  # without deserializers K and V are bytes
            records = self._finished(raw)
            if records:  # interceptors may leave nothing of them
                return records

    def _finished(self, raw: list[RawRecord]) -> list[ConsumerRecord[K, V]]:
        try:
            records, rest = self._finisher.finish(raw)
        except RecordDeserialization:
            self._give_back(raw, is_final=False)
            raise
        if rest:
            self._give_back(rest, is_final=False)
        return records

    def _give_back(self, records: list[Any], *, is_final: bool) -> None:
        self._do(lambda: self._core.buffer.give_back(records, is_final=is_final))

    def __iter__(self) -> Consumer[K, V]:
        return self

    def __next__(self) -> ConsumerRecord[K, V]:
        """The next record, whenever it comes. A record counts as read once it was given out, not before."""
        lent = self._lent
        index = lent.index
        if index < len(lent.records):
            lent.index = index + 1
            return lent.records[index]
        while True:
            try:
                records = self.poll(None)
            except ClientClosed:
                raise StopIteration from None
            if records:
                lent.fill(records)
                lent.index = 1
                return records[0]

    def _settle(self) -> None:
        """What an iteration has not given out goes back, so that positions say what the user has seen."""
        if self._lent.is_open:
            self._give_back(self._lent.take_rest(), is_final=True)

    # The loop's thread

    def _run(self, work: Coroutine[Any, Any, T]) -> T:
        """What `work` gives on the loop; whoever waits here is woken by Ctrl-C as well."""
        try:
            return self._loop.run(work)
        except LoopClosed:
            raise ClientClosed("This consumer has already been closed.") from None

    def _do(self, work: Callable[[], T]) -> T:
        """What `work` returns on the loop's thread."""
        try:
            return self._loop.call(work)
        except LoopClosed:
            raise ClientClosed("This consumer has already been closed.") from None

    def _call(self, work: Coroutine[Any, Any, T]) -> T:
        """A call that waits, and that `wakeup` ends."""
        try:
            self._core.check_open()
        except ClientClosed:
            work.close()
            raise
        self._settle()
        return self._run(self._core.interruptible(work))

    def _timeout_ms(self, timeout: float | None) -> float:
        return self.config.default_api_timeout_ms if timeout is None else timeout * 1000

    # The user's own code

    def _serve(self) -> None:
        """Carry out changes of the assignment, and tell of commits that have ended."""
        core = self._core
        while core.group is not None and (core.group.events or core.group.commits.completions):
            to_do: Completion | RebalanceEvent | None = self._do(lambda: core.next_completion() or core.next_event())
            if isinstance(to_do, RebalanceEvent):
                self._carry_out(to_do)
            elif to_do is not None:
                to_do()

    def _carry_out(self, event: RebalanceEvent) -> None:
        try:
            self._run(self._core.begin_event(event))
        except BaseException:
            self._loop.post(lambda: self._core.put_back(event))
            raise
        try:
            self._tell(event)
        finally:
            self._do(lambda: self._core.end_event(event))

    def _tell(self, event: RebalanceEvent) -> None:
        listener = self._listener
        if listener is None:
            return
        partitions = list(event.partitions)
        now_ms = self._loop.world.clock.monotonic_ms
        begun_ms = now_ms()
        match event.kind:
            case RebalanceKind.ASSIGNED:
                listener.on_assigned(partitions)
            case RebalanceKind.REVOKED:
                listener.on_revoked(partitions)
            case RebalanceKind.LOST:
                listener.on_lost(partitions)
        self._core.need_group().metrics.called_back(event.kind.value, now_ms() - begun_ms)

    # Places

    def seek(self, partition: TopicPartition, offset: int | OffsetAndMetadata) -> None:
        """Read on from this offset with the next poll."""
        self._core.check_open()
        self._settle()
        self._do(lambda: self._core.seek(TopicPartition(*partition), offset))

    def seek_to_beginning(self, partitions: Iterable[TopicPartition] | None = None) -> None:
        """Read these, or all, from their first records on; where that is will be known with the next poll."""
        self._core.check_open()
        self._settle()
        wanted = None if partitions is None else partitions_of(partitions)
        self._do(lambda: self._core.seek_by(wanted, TO_BEGINNING))

    def seek_to_end(self, partitions: Iterable[TopicPartition] | None = None) -> None:
        """Read of these, or of all, what is written from now on."""
        self._core.check_open()
        self._settle()
        wanted = None if partitions is None else partitions_of(partitions)
        self._do(lambda: self._core.seek_by(wanted, TO_END))

    def seek_to_time(
        self, timestamp: int, partitions: Iterable[TopicPartition] | None = None, *, timeout: float | None = None
    ) -> None:
        """Read these, or all, from the first record on that is not older than `timestamp` (ms); else from the end."""
        wanted = sorted(self.assignment()) if partitions is None else partitions_of(partitions)
        found = self.offsets_for_times(dict.fromkeys(wanted, timestamp), timeout=timeout)
        for partition, place in found.items():
            if place is not None:
                self.seek(partition, place.offset)
        ends = [partition for partition, place in found.items() if place is None]
        if ends:
            self.seek_to_end(ends)

    def position(self, partition: TopicPartition, *, timeout: float | None = None) -> int:
        """The offset of the next record to be read, waiting until it is known."""
        return self._call(self._core.position(TopicPartition(*partition), self._timeout_ms(timeout)))

    def pause(self, partitions: Iterable[TopicPartition]) -> None:
        """Give no records of these until `resume`; what was fetched of them is kept."""
        self._core.check_open()
        self._settle()
        wanted = partitions_of(partitions)
        self._do(lambda: self._core.set_paused(wanted, True))

    def resume(self, partitions: Iterable[TopicPartition]) -> None:
        self._core.check_open()
        wanted = partitions_of(partitions)
        self._do(lambda: self._core.set_paused(wanted, False))

    def paused(self) -> set[TopicPartition]:
        return {partition for partition, state in self._core.subscription.partitions.items() if state.is_paused}

    def lag(self, partition: TopicPartition) -> int | None:
        """How far the end is away, as the last fetch told; None while that is not known."""
        self._settle()
        return self._core.subscription.state(TopicPartition(*partition)).lag(
            is_read_committed=self._core.is_read_committed
        )

    def beginning_offsets(
        self, partitions: Iterable[TopicPartition], *, timeout: float | None = None
    ) -> dict[TopicPartition, int]:
        """The first offset of each."""
        targets = dict.fromkeys(partitions_of(partitions), EARLIEST)
        return without_times(self._call(self._core.offsets(targets, self._timeout_ms(timeout))))

    def end_offsets(
        self, partitions: Iterable[TopicPartition], *, timeout: float | None = None
    ) -> dict[TopicPartition, int]:
        """The offset behind the last record of each that can be read."""
        targets = dict.fromkeys(partitions_of(partitions), LATEST)
        return without_times(self._call(self._core.offsets(targets, self._timeout_ms(timeout))))

    def offsets_for_times(
        self, timestamps: Mapping[TopicPartition, int], *, timeout: float | None = None
    ) -> dict[TopicPartition, OffsetAndTimestamp | None]:
        """The first record of each partition that is not older than its time (ms); None where there is none."""
        targets = times_of(timestamps)
        return with_times(self._call(self._core.offsets(targets, self._timeout_ms(timeout))))

    # The cluster

    def partitions_for(self, topic: str, *, timeout: float | None = None) -> list[PartitionInfo]:
        """The partitions of a topic; an empty list when it does not exist."""
        return self._call(self._core.topics([topic], self._timeout_ms(timeout))).get(topic, [])

    def list_topics(self, *, timeout: float | None = None) -> dict[str, list[PartitionInfo]]:
        """All topics that this client may see."""
        return self._call(self._core.topics(None, self._timeout_ms(timeout)))

    # The group

    def commit(
        self,
        offsets: Mapping[TopicPartition, OffsetAndMetadata | int] | None = None,
        *,
        timeout: float | None = None,
    ) -> None:
        """Commit these offsets, or the positions, and wait until that is done."""
        self._core.check_open()
        self._settle()
        commits = self._core.need_group().commits
        self._call(commits.commit(offsets_of(offsets), self._timeout_ms(timeout)))
        self._run_completions()

    def commit_async(
        self,
        callback: CommitCallback | None = None,
        offsets: Mapping[TopicPartition, OffsetAndMetadata | int] | None = None,
    ) -> None:
        """Commit these offsets, or the positions, without waiting; a later poll, commit or close calls `callback`."""
        self._core.check_open()
        self._settle()
        wanted = offsets_of(offsets)
        self._do(lambda: self._core.commit_async(wanted, callback))

    def committed(
        self, partitions: Iterable[TopicPartition], *, timeout: float | None = None
    ) -> dict[TopicPartition, OffsetAndMetadata | None]:
        """What the group has committed for each; None where there is nothing."""
        commits = self._core.need_group().commits
        return self._call(commits.committed(partitions_of(partitions), self._timeout_ms(timeout)))

    def group_metadata(self) -> GroupMetadata:
        """Who this consumer is in its group: what `send_offsets_to_transaction` wants."""
        return self._do(self._core.group_metadata)

    def enforce_rebalance(self, reason: str | None = None) -> None:
        """Have the group share out anew with the next poll."""
        group = self._core.need_group()
        self._do(lambda: group.enforce_rebalance(reason))

    def _run_completions(self) -> None:
        self._finisher.tell_commits()
        while (completion := self._do(self._core.next_completion)) is not None:
            completion()

    def metrics(self) -> MetricValues:
        """What this consumer measures, under Kafka's names: `metrics().value("records-consumed-total")`."""
        return self._core.metrics.snapshot() if self._core.is_closed else self._do(self._core.metrics.snapshot)

    # Ending

    def wakeup(self) -> None:
        """Let the call that waits raise `Wakeup`, or the next one that would. From any thread, or a signal handler."""
        self._core.is_woken = True  # a poll that does not come to the loop must see it too
        self._loop.post(self._core.wakeup)

    def _leave(self, timeout_ms: float, *, leave_group: bool | None = None) -> None:
        group = self._core.group
        if group is None:
            return
        event = self._do(lambda: self._core.begin_leave(timeout_ms))
        error: Exception | None = None
        if event is not None:
            try:
                self._carry_out(event)
            except Exception as raised:  # noqa: BLE001  the listener's: the group is left all the same
                error = raised
        self._run(group.leave(timeout_ms, keep_place=None if leave_group is None else not leave_group))
        if error is not None:
            raise error

    def close(self, timeout: float = CLOSE_TIMEOUT_S, *, leave_group: bool | None = None) -> None:
        """Commit what auto-commit owes, leave the group and end all connections. A second call does nothing.

        A static member keeps its place in the group unless `leave_group` says otherwise, others give theirs up.
        """
        core = self._core
        if core.is_closed:
            return
        deadline = Deadline(self._loop.world, timeout * 1000)
        try:
            self._settle()
            self._run(core.close_commits(deadline.at_most(self.config.request_timeout_ms)))
            self._leave(deadline.at_most(timeout * 1000), leave_group=leave_group)
            self._run_completions()
        finally:
            self._do(core.close)
            self._loop.close()
            self._finisher.close()

    def __enter__(self) -> Consumer[K, V]:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        try:
            self.close()
        except KafkaError:
            if error is None:
                raise
            log.warning("[%s] close() failed while an error is on its way", self._core.name, exc_info=True)


async def _begin_poll(core: ConsumerCore) -> int:
    """The beginning of a poll; the signal that it has seen."""
    core.begin_poll()
    return core.signal_count


async def _wait_and_begin(core: ConsumerCore, deadline: Deadline, seen: int) -> int:
    """One wait of a poll, unless something has happened since the signal it has `seen`, and what comes after each."""
    await core.wait(core.poll_wait_ms(deadline.left_ms), seen)
    return await _begin_poll(core)
