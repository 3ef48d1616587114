"""Committed offsets: written and looked up, for a member of a group or for a consumer that only uses its name.

Promises: commits reach the coordinator in the order they were asked for, asynchronous and synchronous ones alike; a
synchronous one is tried again until its time-out while the error is one that passes, an asynchronous one never is;
the callbacks of asynchronous ones are handed out in the order of the commits. What a refusal means for the membership
is the member's to say (`Committer`). Called by `consumer_group` and by the consumer.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple, Protocol

from ottla.client.errors import CommitFailed, KafkaTimeout, RetriableCommitFailed, as_kafka_error
from ottla.client.group.context import GroupContext
from ottla.client.group.interface import CommitCallback, Completion, OffsetAndMetadata, Offsets
from ottla.client.network import COORDINATOR, Build, CoordinatorKind, Deadline, within
from ottla.errors import (
    FencedInstanceId,
    GroupAuthorizationFailed,
    IllegalGeneration,
    KafkaError,
    RebalanceInProgress,
    RequestTimedOut,
    StaleMemberEpoch,
    TopicAuthorizationFailed,
    UnknownMemberId,
    UnknownTopicId,
    UnknownTopicOrPartition,
    UnstableOffsetCommit,
    UnsupportedVersion,
    error_class,
)
from ottla.types import ZERO_UUID, TopicPartition, Uuid
from ottla.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
)
from ottla.wire.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
    OffsetFetchRequestTopics,
    OffsetFetchResponse,
)
from ottla.world import Promise

log = logging.getLogger(__name__)

OFFSET_COMMIT_KEY, OFFSET_FETCH_KEY = 8, 9
COMMIT_BY_ID_VERSION = 10
FETCH_BY_ID_VERSION = 10
FETCH_GROUPS_VERSION = 8
FETCH_STABLE_VERSION = 7
NO_EPOCH = -1

MEMBER_ERRORS = (StaleMemberEpoch, UnknownMemberId)
"""A lookup in the name of a member that was just fenced or given another epoch: it is good again under the next one."""

POLL_TOO_SLOW = (
    "Commit cannot be completed since the group has already rebalanced and assigned the partitions to another member. "
    "This means that the time between subsequent calls to poll() was longer than the configured max.poll.interval.ms, "
    "which typically implies that the poll loop spends too much time on records. Raise max.poll.interval.ms, or lower "
    "max.poll.records so that the batches of poll() are smaller."
)


class Identity(NamedTuple):
    """Who commits. Nobody in particular without a member id."""

    generation_id: int = -1
    """Or the member's epoch."""
    member_id: str = ""
    instance_id: str | None = None


class Committer(Protocol):
    """A member, as far as commits go."""

    def commit_as(self) -> Identity:
        """Who to commit as; raises when the member is out of the group, or just being given other partitions."""
        ...

    def fetch_as(self) -> Identity:
        """Who looks up: a member of the new protocol says so, and is refused when its epoch is old (KIP-848)."""
        ...

    def commit_refused(self, error: KafkaError, sent: Identity) -> KafkaError:
        """What the user is told when the coordinator answers `error` to a commit of `sent`."""
        ...


class Outsider:
    """A consumer that assigns itself: it uses the group's name, and is no member."""

    def commit_as(self) -> Identity:
        return Identity()

    def fetch_as(self) -> Identity:
        return Identity()

    def commit_refused(self, error: KafkaError, sent: Identity) -> KafkaError:
        if isinstance(error, UnknownMemberId | IllegalGeneration | StaleMemberEpoch | FencedInstanceId):
            return CommitFailed(f"The group has members, and this consumer, which assigns itself, is none: {error}")
        return error


class _Commit(NamedTuple):
    offsets: Offsets
    on_done: Callable[[KafkaError | None], None]
    timeout_ms: float


class Commits:
    """The offsets of one consumer's group. Implements `interface.CommitsFace`."""

    def __init__(self, context: GroupContext) -> None:
        self._context = context
        self._world = context.world
        self.committer: Committer = Outsider()
        self.completions: deque[Completion] = deque()
        self.on_committed: list[Callable[[Offsets], object]] = []
        self._waiting: deque[_Commit] = deque()
        """Commits that wait for the coordinator to be found."""
        self._is_finding = False
        self._async_count = 0
        """Asynchronous commits that have not ended."""
        self._idle: Promise[None] | None = None

    # Commit

    async def commit(self, offsets: Offsets | None, timeout_ms: float | None) -> None:
        offsets = self._context.consumed.positions() if offsets is None else offsets
        check_offsets(offsets)
        deadline = Deadline(self._world, timeout_ms)
        await self.wait_for_asynchronous(timeout_ms)
        failures = 0
        while offsets:
            error = await self._commit_once(offsets, deadline)
            if error is None:
                self._tell_committed(offsets)
                return
            if not self._may_retry(error):
                raise error
            delay_ms = self._context.network.retry_backoff.delay_ms(failures)
            left_ms = deadline.left_ms
            if left_ms is not None and left_ms <= delay_ms:
                raise KafkaTimeout(f"The offsets were not committed within {timeout_ms:g} ms: {error}") from error
            failures += 1
            await self._world.tasks.sleep_ms(delay_ms)

    async def _commit_once(self, offsets: Offsets, deadline: Deadline) -> KafkaError | None:
        done: Promise[KafkaError | None] = self._world.tasks.promise()

        def tell(error: KafkaError | None) -> None:
            if not done.done():
                done.set_result(error)

        self._enqueue(_Commit(offsets, tell, deadline.at_most(self._context.config.request_timeout_ms)))
        error: KafkaError | None = await done
        return error

    def _may_retry(self, error: KafkaError) -> bool:
        if isinstance(error, StaleMemberEpoch):
            return True  # there is a newer epoch: `commit_refused` has checked
        return error.retriable and not isinstance(error, RebalanceInProgress | RetriableCommitFailed)

    def commit_async(self, offsets: Offsets | None, callback: CommitCallback | None) -> None:
        offsets = self._context.consumed.positions() if offsets is None else offsets
        check_offsets(offsets)
        offsets = dict(offsets)  # the caller's may change before they are sent, and the callback tells these

        def done(error: KafkaError | None) -> None:
            if callback is not None:
                self.completions.append(Completion(callback, offsets, error))
            elif error is not None:
                log.error("[%s] Offset commit with offsets %s failed: %s", self._context.name, _text(offsets), error)

        self.commit_then(offsets, done)

    def commit_then(self, offsets: Offsets, on_done: Callable[[KafkaError | None], object]) -> None:
        """Commit without waiting; `on_done` is called on the loop."""
        self._async_count += 1

        def tell(error: KafkaError | None) -> None:
            if error is None:
                self._tell_committed(offsets)
            elif self._may_retry(error):
                error = RetriableCommitFailed(f"Offset commit failed for now, and a later one may succeed: {error}")
            on_done(error)
            self._async_count -= 1
            if not self._async_count and self._idle is not None:
                idle, self._idle = self._idle, None
                if not idle.done():
                    idle.set_result(None)
            self._context.consumed.on_group_event()

        self._enqueue(_Commit(offsets, tell, self._context.config.request_timeout_ms))

    async def wait_for_asynchronous(self, timeout_ms: float | None) -> None:
        """Return when every asynchronous commit has ended; `KafkaTimeout` when that takes too long."""
        if self._async_count:
            if self._idle is None or self._idle.done():
                self._idle = self._world.tasks.promise()
            told: Promise[None] = self._world.tasks.promise()
            self._idle.add_done_callback(lambda _: None if told.done() else told.set_result(None))
            await within(self._world, told, timeout_ms, "waiting for asynchronous commits")

    def _tell_committed(self, offsets: Offsets) -> None:
        for tell in list(self.on_committed):
            tell(offsets)

    # Sending

    def _enqueue(self, commit: _Commit) -> None:
        if not commit.offsets:
            self._world.tasks.soon(lambda: commit.on_done(None))
            return
        known = self._context.coordinators.known(CoordinatorKind.GROUP, self._context.group_id)
        if known is not None and not self._waiting:
            self._transmit(known, commit)
            return
        self._waiting.append(commit)
        if not self._is_finding:
            self._is_finding = True
            self._world.tasks.spawn(self._find(), f"[{self._context.name}] committing")

    async def _find(self) -> None:
        """Send what waits, in order, when the coordinator is found; when it is not, nothing of it can be sent."""
        try:
            while self._waiting:
                try:
                    node_id = await self._context.find(self._waiting[0].timeout_ms)
                except Exception as error:  # noqa: BLE001  it is told to those who wait
                    failure = as_kafka_error(error, "The coordinator could not be looked for")
                    waiting, self._waiting = self._waiting, deque()
                    for commit in waiting:
                        commit.on_done(failure)
                    return
                while self._waiting:
                    self._transmit(node_id, self._waiting.popleft())
        finally:
            self._is_finding = False

    def _transmit(self, node_id: int, commit: _Commit) -> None:
        try:
            sent = self.committer.commit_as()
            request, ids = commit_request(self._context, commit.offsets, sent)
        except Exception as error:  # noqa: BLE001  it is told to whoever waits for the commit
            # Not from inside the call: a callback would come before the call has returned.
            refusal = as_kafka_error(error, "The OffsetCommit request could not be built")
            self._world.tasks.soon(lambda: commit.on_done(refusal))
            return
        begun_ms = self._world.clock.monotonic_ms()

        def answered(response: Any, error: KafkaError | None) -> None:
            if error is not None:
                if error.retriable:
                    self._context.lost(error)
                commit.on_done(error)
            else:
                self._context.metrics.committed(self._world.clock.monotonic_ms() - begun_ms)
                commit.on_done(self._look(response, commit.offsets, ids, sent))

        self._context.network.send_then(node_id, request, answered, timeout_ms=commit.timeout_ms, lane=COORDINATOR)

    def _look(
        self, response: OffsetCommitResponse, offsets: Offsets, ids: dict[Uuid, str], sent: Identity
    ) -> KafkaError | None:
        """What the response means; None when every offset was stored."""
        unauthorized: list[str] = []
        for topic in response.topics:
            name = topic.name or ids.get(topic.topic_id, "")
            for one in topic.partitions:
                if not one.error_code:
                    continue
                partition = TopicPartition(name, one.partition_index)
                error = error_class(one.error_code)()
                level = logging.INFO if error.retriable else logging.WARNING
                log.log(level, "[%s] Offset commit failed on partition %s at offset %s: %s", self._context.name,
                        partition, offsets[partition].offset if partition in offsets else "?", error)  # fmt: skip
                self._context.note(one.error_code)
                if isinstance(error, TopicAuthorizationFailed):
                    unauthorized.append(name)
                    continue
                if isinstance(error, RequestTimedOut):
                    self._context.lost(error)
                if isinstance(error, UnknownTopicId):
                    self._context.metadata.request_update()  # it was deleted, and perhaps made again
                if isinstance(error, GroupAuthorizationFailed):
                    return GroupAuthorizationFailed(f"Not authorized to access group: {self._context.group_id}")
                return self.committer.commit_refused(error, sent)
        if unauthorized:
            return TopicAuthorizationFailed(f"Not authorized to commit to topics: {', '.join(sorted(unauthorized))}")
        return None

    # Look up

    async def committed(
        self, partitions: Iterable[TopicPartition], timeout_ms: float | None
    ) -> dict[TopicPartition, OffsetAndMetadata | None]:
        wanted = sorted(set(partitions))
        deadline = Deadline(self._world, timeout_ms)
        failures = 0
        while wanted:
            try:
                return await self._committed_once(wanted, deadline)
            except KafkaError as error:
                if not (error.retriable or isinstance(error, MEMBER_ERRORS)) or isinstance(error, KafkaTimeout):
                    raise
                delay_ms = self._context.network.retry_backoff.delay_ms(failures)
                left_ms = deadline.left_ms
                if left_ms is not None and left_ms <= delay_ms:
                    raise KafkaTimeout(
                        f"The committed offsets of {', '.join(map(str, wanted))} were not had within "
                        f"{timeout_ms:g} ms: {error}"
                    ) from error
                failures += 1
                await self._world.tasks.sleep_ms(delay_ms)
        return {}

    async def _committed_once(
        self, wanted: list[TopicPartition], deadline: Deadline
    ) -> dict[TopicPartition, OffsetAndMetadata | None]:
        request, ids = fetch_request(self._context, wanted, self.committer.fetch_as())
        response: OffsetFetchResponse = await self._context.ask(request, deadline.left_ms)
        group = response.groups[0] if response.groups else response
        if group.error_code:
            self._context.note(group.error_code)
            if group.error_code == GroupAuthorizationFailed.code:
                raise GroupAuthorizationFailed(f"Not authorized to access group: {self._context.group_id}")
            raise error_class(group.error_code)()
        found: dict[TopicPartition, OffsetAndMetadata | None] = dict.fromkeys(wanted)
        unauthorized: list[str] = []
        unstable: list[TopicPartition] = []
        for topic in group.topics:
            name = topic.name or ids.get(getattr(topic, "topic_id", ZERO_UUID), "")
            for one in topic.partitions:
                partition = TopicPartition(name, one.partition_index)
                if one.error_code == TopicAuthorizationFailed.code:
                    unauthorized.append(name)
                elif one.error_code == UnstableOffsetCommit.code:
                    unstable.append(partition)
                elif one.error_code == UnknownTopicOrPartition.code:
                    raise KafkaError(f"Topic or partition {partition} does not exist")
                elif one.error_code:
                    raise error_class(one.error_code)()
                elif one.committed_offset >= 0 and partition in found:
                    epoch = one.committed_leader_epoch if one.committed_leader_epoch >= 0 else None
                    found[partition] = OffsetAndMetadata(one.committed_offset, one.metadata or "", epoch)
        if unauthorized:
            raise TopicAuthorizationFailed(f"Not authorized to access topics: {', '.join(sorted(unauthorized))}")
        if unstable:
            # A transaction that is still open holds them: its end is a matter of moments.
            raise UnstableOffsetCommit(f"Transactions hold the offsets of {', '.join(map(str, unstable))}")
        return found


def check_offsets(offsets: Offsets) -> None:
    """`ValueError` for what no broker would take."""
    for partition, committed in offsets.items():
        if committed.offset < 0:
            raise ValueError(f"Invalid offset of {partition}: {committed.offset}")


def commit_request(context: GroupContext, offsets: Offsets, sent: Identity) -> tuple[Build, dict[Uuid, str]]:
    """An OffsetCommit by topic id where all ids are known and the broker takes them, else by name; and the ids."""
    topics: dict[str, list[OffsetCommitRequestPartition]] = {}
    for partition, committed in offsets.items():
        epoch = NO_EPOCH if committed.leader_epoch is None else committed.leader_epoch
        topics.setdefault(partition.topic, []).append(
            OffsetCommitRequestPartition(partition.partition, committed.offset, epoch, committed.metadata)
        )
    ids = topic_ids(context, topics)

    def make(version: int) -> OffsetCommitRequest:
        by_id = version >= COMMIT_BY_ID_VERSION
        if version < 7 and sent.instance_id is not None:
            raise UnsupportedVersion("The broker does not support group.instance.id in offset commits")
        return OffsetCommitRequest(
            group_id=context.group_id,
            generation_id_or_member_epoch=sent.generation_id,
            member_id=sent.member_id,
            group_instance_id=sent.instance_id,
            topics=[
                OffsetCommitRequestTopic(
                    name="" if by_id else name, topic_id=ids[name] if by_id else ZERO_UUID, partitions=partitions
                )
                for name, partitions in topics.items()
            ],
        )

    version_max = COMMIT_BY_ID_VERSION if ids else COMMIT_BY_ID_VERSION - 1
    return Build(OFFSET_COMMIT_KEY, make, version_max=version_max), {id_: name for name, id_ in ids.items()}


def fetch_request(
    context: GroupContext, wanted: Iterable[TopicPartition], member: Identity
) -> tuple[Build, dict[Uuid, str]]:
    """An OffsetFetch of stable offsets, by topic id where that can be; and the ids."""
    topics: dict[str, list[int]] = {}
    for partition in wanted:
        topics.setdefault(partition.topic, []).append(partition.partition)
    ids = topic_ids(context, topics)

    def make(version: int) -> OffsetFetchRequest:
        if version < FETCH_GROUPS_VERSION:
            if version < FETCH_STABLE_VERSION and context.config.internal_throw_on_fetch_stable_offset_unsupported:
                raise UnsupportedVersion("The broker does not tell whether offsets are stable")
            return OffsetFetchRequest(
                group_id=context.group_id,
                topics=[OffsetFetchRequestTopic(name, indexes) for name, indexes in topics.items()],
                require_stable=version >= FETCH_STABLE_VERSION,
            )
        by_id = version >= FETCH_BY_ID_VERSION
        asked = [
            OffsetFetchRequestTopics(
                name="" if by_id else name, topic_id=ids[name] if by_id else ZERO_UUID, partition_indexes=indexes
            )
            for name, indexes in topics.items()
        ]
        return OffsetFetchRequest(
            groups=[
                OffsetFetchRequestGroup(context.group_id, member.member_id or None, member.generation_id, asked),
            ],
            require_stable=True,
        )

    version_max = FETCH_BY_ID_VERSION if ids else FETCH_BY_ID_VERSION - 1
    return Build(OFFSET_FETCH_KEY, make, version_max=version_max), {id_: name for name, id_ in ids.items()}


def topic_ids(context: GroupContext, topics: Iterable[str]) -> dict[str, Uuid]:
    """The ids of all these topics; empty when any is not known."""
    known = context.metadata.cluster.topics
    ids = {}
    for topic in topics:
        info = known.get(topic)
        if info is None or info.topic_id == ZERO_UUID:
            return {}
        ids[topic] = info.topic_id
    return ids


def _text(offsets: Offsets) -> str:
    return ", ".join(f"{partition}: {committed.offset}" for partition, committed in offsets.items())
