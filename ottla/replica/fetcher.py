"""What one fetcher asks its leader for, and what it does with the answers: the follower's half of replication.

It is a sans-io machine over this node's logs: `next_request` says what to send, `on_response` and `on_failure` what
came of it. One request is under way at a time.

Promises:
- Records are appended as the leader sent them, and only to a log that ends where they were asked for.
- The high watermark is what the leader says, never beyond this log's end, and never goes back but by a truncation.
- Where the logs diverge, this one is cut at the end of the last epoch that both have (KIP-101, KIP-279, KIP-595), never
  at a watermark. A log that ends before the leader's begins is emptied and begins there.
- A partition with an error waits `replica.fetch.backoff.ms` and the others go on; one whose leader has not heard of it
  yet waits less at first, because it will in a moment. One that cannot go on at all, because its leader has gone on to
  another epoch, its log has failed, or its records raise what nobody foresaw, waits for newer metadata.
- A request costs what changed since the last one, not what the fetcher has.

The rules are those of Kafka's `AbstractFetcherThread`. Driven by `fetcher_manager`. Times are monotonic.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, NamedTuple, Protocol, TypeAlias

from ottla.errors import (
    CorruptMessage,
    FencedLeaderEpoch,
    FetchSessionTopicIdError,
    InconsistentTopicId,
    InvalidRecord,
    KafkaError,
    KafkaStorageError,
    NotLeaderOrFollower,
    OffsetOutOfRange,
    UnknownLeaderEpoch,
    UnknownTopicId,
    UnknownTopicOrPartition,
    error_class,
)
from ottla.records import batches
from ottla.replica.fetcher_session import FetcherSession, Key
from ottla.storage import AppendInfo, Isolation, Log, OffsetsOutOfOrder, SpecialTimestamp, UnexpectedAppendOffset
from ottla.types import TopicPartition, Uuid
from ottla.wire import Message
from ottla.wire.messages.fetch import (
    EpochEndOffset,
    FetchPartition,
    FetchRequest,
    FetchResponse,
    PartitionData,
    ReplicaState,
)
from ottla.wire.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
)
from ottla.wire.messages.offset_for_leader_epoch import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)

if TYPE_CHECKING:
    from ottla.config import BrokerConfig

NO_EPOCH = -1
UNDEFINED_OFFSET = -1
SOON_MS = 20
"""The first wait for a leader that does not know yet that it leads; the next are each twice as long, up to the backoff.
Kafka waits the whole backoff, and with it whoever produces with acks=all."""
REVIEW_MS = 5_000
"""How often log starts are looked at that retention has moved here: the leader is told of them."""


class Logs(Protocol):
    """The logs of this node. A truncation is on disk, with its recovery points, before the call returns."""

    def log_of(self, partition: TopicPartition, /) -> Log | None: ...

    def truncate_to(self, offsets: Mapping[TopicPartition, int]) -> None: ...

    def truncate_fully_and_start_at(self, partition: TopicPartition, offset: int) -> None: ...

    def on_fetched(self, partition: TopicPartition, size: int) -> None:
        """So many bytes were appended, and the high watermark may have moved: whoever waits for that looks."""
        ...


@dataclass(frozen=True, slots=True)
class FetcherSettings:
    """What `replica.fetch.*` say, and who fetches."""

    node_id: int
    wait_max_ms: int = 500
    bytes_min: int = 1
    response_bytes_max: int = 10_485_760
    partition_bytes_max: int = 1_048_576
    backoff_ms: int = 1_000

    @classmethod
    def of(cls, config: BrokerConfig) -> FetcherSettings:
        return cls(
            config.node_id,
            wait_max_ms=config.replica_fetch_wait_max_ms,
            bytes_min=config.replica_fetch_min_bytes,
            response_bytes_max=config.replica_fetch_response_max_bytes,
            partition_bytes_max=config.replica_fetch_max_bytes,
            backoff_ms=config.replica_fetch_backoff_ms,
        )


# What has happened


class Truncated(NamedTuple):
    """The log was cut to `offset`, because the leader's `epoch` ends at `leader_end_offset`."""

    partition: TopicPartition
    offset: int
    epoch: int
    leader_end_offset: int


class Restarted(NamedTuple):
    """The log was emptied: the leader's begins only at `offset`."""

    partition: TopicPartition
    offset: int


class Delayed(NamedTuple):
    """The partition is fetched again after a while. `is_expected` of what happens while leaders and topics change: that
    is told at first, and again when it has gone on for the whole backoff."""

    partition: TopicPartition
    reason: str
    is_expected: bool


class Failed(NamedTuple):
    """The partition is not fetched until metadata brings it again."""

    partition: TopicPartition
    reason: str
    error: Exception | None = None
    """What was raised that should never be: a bug."""


class SessionEnded(NamedTuple):
    """The leader does not go on with the session, and a new one begins."""

    reason: str


Fact: TypeAlias = Truncated | Restarted | Delayed | Failed | SessionEnded

_EXPECTED = (
    NotLeaderOrFollower,
    UnknownLeaderEpoch,
    UnknownTopicOrPartition,
    UnknownTopicId,
    InconsistentTopicId,
)


class Phase(Enum):
    """What a partition waits to be told next."""

    FETCHING = "records"
    OUT_OF_RANGE = "where the leader's log ends"
    BEHIND = "where the leader's log begins"
    UNKNOWN_EPOCH = "where an epoch ends that the leader should know"


class Position:
    """Where one partition is fetched from."""

    __slots__ = (
        "asked_epoch",
        "delay_ms",
        "lag",
        "last_epoch",
        "leader_epoch",
        "name",
        "offset",
        "phase",
        "resumes_ms",
    )

    def __init__(self, name: TopicPartition, leader_epoch: int, offset: int, last_epoch: int) -> None:
        self.name = name
        self.leader_epoch = leader_epoch
        self.offset = offset
        self.last_epoch = last_epoch
        """The epoch of the last record in the log: with it the leader finds out whether the logs diverge."""
        self.asked_epoch = NO_EPOCH
        """While its phase is `UNKNOWN_EPOCH`: which one."""
        self.lag: int | None = None
        self.phase = Phase.FETCHING
        self.resumes_ms: int | None = None
        """When it is tried again; None where it is not delayed."""
        self.delay_ms = 0
        """How long its last delay was, while the leader has not heard of it; 0 once it has."""

    @property
    def is_ready(self) -> bool:
        return self.phase is Phase.FETCHING and self.resumes_ms is None


class Fetcher:
    """See the module. `broker_epoch` is asked for with each request."""

    def __init__(self, logs: Logs, settings: FetcherSettings, broker_epoch: Callable[[], int]) -> None:
        self._logs = logs
        self.settings = settings
        self.backoff_ms = max(1, settings.backoff_ms)
        """At least one: a leader that refuses at once would be asked as fast as this node can, with a log line each."""
        self._broker_epoch = broker_epoch
        self.positions: dict[Key, Position] = {}
        self.failed: dict[Key, TopicPartition] = {}
        """Partitions that wait for newer metadata; not more than there are."""
        self._session = FetcherSession()
        self._changed: dict[Key, None] = {}
        """Positions that may be others than the leader knows."""
        self._delayed: dict[Key, None] = {}
        self._asking: dict[Key, None] = {}
        """Positions that have something to ask before they can be fetched."""
        self._resumes_ms = 0
        self._session_errors = 0
        self._reviewed_ms = 0

    @property
    def max_lag(self) -> int:
        return max((one.lag or 0 for one in self.positions.values()), default=0)

    # Which partitions

    def add(self, name: TopicPartition, topic_id: Uuid, leader_epoch: int) -> list[Fact]:
        """Fetch a partition from this leader, in that epoch; one that is known in it goes on as it is."""
        key = (topic_id, name.partition)
        self.failed.pop(key, None)
        known = self.positions.get(key)
        if known is not None and known.leader_epoch == leader_epoch:
            return []
        log = self._logs.log_of(name)
        if log is None:
            return [self._fail(key, Failed(name, "it has no log here"))]
        try:
            last_epoch = last_epoch_of(log)
        except KafkaError as error:
            return [self._fail(key, Failed(name, str(error)))]
        self.remove(topic_id, name.partition)
        self.positions[key] = Position(name, leader_epoch, log.log_end_offset, last_epoch)
        self._changed[key] = None
        return []

    def remove(self, topic_id: Uuid, index: int) -> None:
        """Fetch the partition no more."""
        key = (topic_id, index)
        self.failed.pop(key, None)
        if self.positions.pop(key, None) is not None:
            self._delayed.pop(key, None)
            self._asking.pop(key, None)
            self._changed[key] = None

    def _fail(self, key: Key, fact: Failed) -> Failed:
        self.remove(*key)
        self.failed[key] = fact.partition
        return fact

    def _delay(self, key: Key, position: Position, now_ms: int, error: type[KafkaError] | str) -> list[Fact]:
        backoff_ms = self.backoff_ms
        is_expected = not isinstance(error, str) and error in _EXPECTED
        is_first = not position.delay_ms
        if position.resumes_ms is None:
            position.delay_ms = min(backoff_ms, max(SOON_MS, 2 * position.delay_ms)) if is_expected else backoff_ms
            position.resumes_ms = now_ms + position.delay_ms
            self._delayed[key] = None
            self._changed[key] = None
        if is_expected and not is_first and position.delay_ms < backoff_ms:
            return []
        return [Delayed(position.name, error if isinstance(error, str) else error.name, is_expected)]

    # Requests

    def next_request(self, now_ms: int) -> Message | None:
        """What to send now; None while there is nothing to ask for, until `wakes_ms` or a change."""
        if now_ms < self._resumes_ms:
            return None
        for key in list(self._delayed):
            position = self.positions[key]
            if position.resumes_ms is not None and position.resumes_ms <= now_ms:
                position.resumes_ms = None
                del self._delayed[key]
                self._changed[key] = None
        if self._asking:
            asked = {key: position for key in self._asking if (position := self.positions[key]).resumes_ms is None}
            if asked:
                return self._question(asked)
        if now_ms - self._reviewed_ms >= REVIEW_MS:
            self._review(now_ms)
        return self._fetch(now_ms)

    @property
    def wakes_ms(self) -> int | None:
        """When there is something to ask for again; None where only a change can bring that."""
        times = [one.resumes_ms for key in self._delayed if (one := self.positions[key]).resumes_ms is not None]
        if not times:
            return self._resumes_ms if self.positions else None
        return max(self._resumes_ms, min(times))

    def _review(self, now_ms: int) -> None:
        self._reviewed_ms = now_ms
        for key, sent in self._session.sent.items():
            position = self.positions.get(key)
            log = None if position is None else self._logs.log_of(position.name)
            if log is not None and log.log_start_offset != sent.log_start_offset:
                self._changed[key] = None

    def _fetch(self, now_ms: int) -> FetchRequest | None:
        session = self._session
        if session.is_full:
            wanted = {key: self._wanted(key) for key in self.positions}
        else:
            wanted = {key: self._wanted(key) for key in self._changed}
        parts = session.build(wanted)
        self._changed.clear()
        if not session.sent and not parts.forgotten:
            return None
        return FetchRequest(
            replica_state=ReplicaState(self.settings.node_id, self._broker_epoch()),
            max_wait_ms=self._wait_ms(now_ms),
            min_bytes=self.settings.bytes_min,
            max_bytes=self.settings.response_bytes_max,
            session_id=parts.session_id,
            session_epoch=parts.session_epoch,
            topics=parts.topics,
            forgotten_topics_data=parts.forgotten,
        )

    def _wait_ms(self, now_ms: int) -> int:
        """How long the leader may keep the request: no longer than until a delayed partition is due."""
        wait_ms = self.settings.wait_max_ms
        for key in self._delayed:
            resumes_ms = self.positions[key].resumes_ms
            if resumes_ms is not None and resumes_ms - now_ms < wait_ms:
                wait_ms = resumes_ms - now_ms
        return wait_ms

    def _wanted(self, key: Key) -> FetchPartition | None:
        position = self.positions.get(key)
        if position is None or not position.is_ready:
            return None
        log = self._logs.log_of(position.name)
        if log is None or log.log_dir.is_offline:
            return None  # its directory has failed, and metadata will say so
        return FetchPartition(
            partition=key[1],
            current_leader_epoch=position.leader_epoch,
            fetch_offset=position.offset,
            last_fetched_epoch=position.last_epoch,
            log_start_offset=log.log_start_offset,
            partition_max_bytes=self.settings.partition_bytes_max,
        )

    def _question(self, asked: Mapping[Key, Position]) -> ListOffsetsRequest | OffsetForLeaderEpochRequest:
        """The first of the questions that are open, for all partitions that have it."""
        phase = next(iter(asked.values())).phase
        topics: dict[str, list[Position]] = {}
        for position in asked.values():
            if position.phase is phase:
                topics.setdefault(position.name.topic, []).append(position)
        if phase is Phase.UNKNOWN_EPOCH:
            return OffsetForLeaderEpochRequest(
                replica_id=self.settings.node_id,
                topics=[
                    OffsetForLeaderTopic(
                        topic,
                        [
                            OffsetForLeaderPartition(one.name.partition, one.leader_epoch, one.asked_epoch)
                            for one in found
                        ],
                    )
                    for topic, found in topics.items()
                ],
            )
        timestamp = SpecialTimestamp.LATEST if phase is Phase.OUT_OF_RANGE else SpecialTimestamp.EARLIEST
        return ListOffsetsRequest(
            replica_id=self.settings.node_id,
            topics=[
                ListOffsetsTopic(
                    topic, [ListOffsetsPartition(one.name.partition, one.leader_epoch, timestamp) for one in found]
                )
                for topic, found in topics.items()
            ],
        )

    # Answers

    def on_failure(self, request: Message | None, now_ms: int) -> None:
        """There is no answer to `request`, because the leader is away, or the way to it is; None where it is not known
        which one it was."""
        if request is None or isinstance(request, FetchRequest):
            self._session.on_failure()
        self._resumes_ms = now_ms + self.backoff_ms

    def on_response(self, request: Message, response: Message, now_ms: int) -> list[Fact]:
        """The leader has answered."""
        match request, response:
            case FetchRequest(), FetchResponse():
                return self._on_fetch(response, now_ms)
            case ListOffsetsRequest(), ListOffsetsResponse():
                return self._on_offsets(request, response, now_ms)
            case OffsetForLeaderEpochRequest(), OffsetForLeaderEpochResponse():
                return self._on_epochs(request, response, now_ms)
        raise AssertionError(f"{type(response).__name__} is no answer to {type(request).__name__}")

    def _on_fetch(self, response: FetchResponse, now_ms: int) -> list[Fact]:
        told = {(topic.topic_id, one.partition_index): one for topic in response.responses for one in topic.partitions}
        if not self._session.on_response(response, told):
            return self._on_session_error(response, now_ms)
        self._session_errors = 0
        facts: list[Fact] = []
        diverging: dict[Key, EpochEndOffset] = {}
        for key, data in told.items():
            position = self.positions.get(key)
            asked = self._session.sent[key]
            if (
                position is None
                or not position.is_ready
                or position.offset != asked.fetch_offset
                or position.leader_epoch != asked.current_leader_epoch
            ):
                continue  # it was changed while the request was under way
            if data.error_code == 0 and data.diverging_epoch is not None:
                # Its bounds are taken with the next answer, when the log is one with the leader's again.
                diverging[key] = data.diverging_epoch
            elif data.error_code == 0:
                try:
                    facts += self._take(key, position, data, now_ms)
                except Exception as error:  # noqa: BLE001  the driver logs it; the other partitions go on
                    reason = f"{type(error).__name__} while its records from {asked.fetch_offset} on were appended"
                    facts.append(self._fail(key, Failed(position.name, reason, error)))
            else:
                facts += self._on_error(key, position, error_class(data.error_code), now_ms)
        if diverging:
            facts += self._truncate_by_epoch({key: (one.epoch, one.end_offset) for key, one in diverging.items()})
        return facts

    def _on_session_error(self, response: FetchResponse, now_ms: int) -> list[Fact]:
        error = error_class(response.error_code) if response.error_code else None
        self._session_errors += 1
        # The first time a new session helps; should it not, there is no hurry.
        if self._session_errors > 1 or error is FetchSessionTopicIdError:
            self._resumes_ms = now_ms + self.backoff_ms
        return [SessionEnded("the answer has other partitions than were asked for" if error is None else error.name)]

    def _on_error(self, key: Key, position: Position, error: type[KafkaError], now_ms: int) -> list[Fact]:
        if error is OffsetOutOfRange:
            self._ask(key, position, Phase.OUT_OF_RANGE)
            return []
        if error is FencedLeaderEpoch:
            # The leader has gone on to an epoch that metadata will tell of here as well.
            return [self._fail(key, Failed(position.name, error.name))]
        position.phase = Phase.FETCHING
        self._asking.pop(key, None)
        return self._delay(key, position, now_ms, error)

    def _ask(self, key: Key, position: Position, phase: Phase) -> None:
        position.phase = phase
        self._asking[key] = None
        self._changed[key] = None

    def _resume(self, key: Key, position: Position, log: Log) -> None:
        """Fetch again, from the end of the log as it is now."""
        position.phase = Phase.FETCHING
        position.offset = log.log_end_offset
        position.last_epoch = last_epoch_of(log)
        self._asking.pop(key, None)
        self._changed[key] = None

    # Appending

    def _take(self, key: Key, position: Position, data: PartitionData, now_ms: int) -> list[Fact]:
        log = self._logs.log_of(position.name)
        if log is None:
            return [self._fail(key, Failed(position.name, "its log is gone"))]
        try:
            if position.offset != log.log_end_offset:
                raise OffsetsOutOfOrder(f"fetched from {position.offset}, and the log ends at {log.log_end_offset}")
            info = self._append(log, position, data)
            high_watermark = min(data.high_watermark, log.log_end_offset)
            has_moved = log.advance_high_watermark(high_watermark)
            if data.log_start_offset > log.log_start_offset:
                log.advance_log_start(min(data.log_start_offset, log.high_watermark), "leader offset increment")
                self._changed[key] = None
        except (CorruptMessage, InvalidRecord) as error:
            # Perhaps the leader's file was being truncated: the next fetch may be better.
            return self._delay(key, position, now_ms, f"invalid records at offset {position.offset}: {error}")
        except (KafkaError, OffsetsOutOfOrder, UnexpectedAppendOffset) as error:
            if isinstance(error, KafkaStorageError) and not log.log_dir.is_offline:
                # No descriptor was left. The directory is well, so metadata will bring no news of the partition.
                self._resume(key, position, log)
                return self._delay(key, position, now_ms, str(error))
            return [self._fail(key, Failed(position.name, str(error)))]
        size = 0 if info is None else info.size
        if size:
            position.offset = log.log_end_offset
            position.last_epoch = NO_EPOCH if log.epochs.latest_epoch is None else log.epochs.latest_epoch
            self._changed[key] = None
        position.lag = max(0, data.high_watermark - position.offset)
        position.delay_ms = 0
        if size or has_moved:
            self._logs.on_fetched(position.name, size)
        return []

    def _append(self, log: Log, position: Position, data: PartitionData) -> AppendInfo | None:
        records = data.records
        if not records:
            return None
        assert isinstance(records, bytes | bytearray | memoryview), "what was received is in memory"
        view = memoryview(records)
        try:
            return log.append_as_follower(view, leader_epoch=position.leader_epoch)
        except UnexpectedAppendOffset as error:
            # The leader's log may begin within a batch, where this one ends. It gets the whole batch: of what it has
            # below, if anything, the leader has deleted all.
            is_deleted = log.log_end_offset <= max(log.log_start_offset, data.log_start_offset)
            if not (is_deleted and error.first_offset < log.log_end_offset <= error.last_offset):
                raise
            self._logs.truncate_fully_and_start_at(position.name, error.first_offset)
            return log.append_as_follower(view, leader_epoch=position.leader_epoch)

    # Truncating

    def _truncate_by_epoch(self, ends: Mapping[Key, tuple[int, int]]) -> list[Fact]:
        """Cut logs at the last place that they share with the leader's, whose epochs end as given."""
        facts: list[Fact] = []
        offsets: dict[Key, int] = {}
        for key, (epoch, end_offset) in ends.items():
            position = self.positions[key]
            log = self._logs.log_of(position.name)
            if log is None:
                facts.append(self._fail(key, Failed(position.name, "its log is gone")))
                continue
            offsets[key] = truncation_offset(log, epoch, end_offset)
            facts.append(Truncated(position.name, offsets[key], epoch, end_offset))
        return facts + self._truncate(offsets)

    def _truncate(self, offsets: Mapping[Key, int]) -> list[Fact]:
        facts: list[Fact] = []
        try:
            # Together: each directory's recovery points are written once.
            self._logs.truncate_to({self.positions[key].name: offset for key, offset in offsets.items()})
        except KafkaStorageError:
            facts += self._truncate_each(offsets)
        for key in offsets:
            position = self.positions.get(key)
            log = None if position is None else self._logs.log_of(position.name)
            if position is None or log is None:
                continue
            end_offset = max(log.batches_end, log.log_start_offset)
            if end_offset < log.log_end_offset:
                # The cut was within a batch, which is gone whole. Fetched from the cut on, the log would have a hole
                # where the leader has deleted up to there.
                facts += self._truncate_each({key: end_offset})
            if key in self.positions:
                self._resume(key, position, log)
        return facts

    def _truncate_each(self, offsets: Mapping[Key, int]) -> list[Fact]:
        """One by one: the logs of a directory that has failed fail, and the others are cut."""
        facts: list[Fact] = []
        for key, offset in offsets.items():
            name = self.positions[key].name
            try:
                self._logs.truncate_to({name: offset})
            except KafkaStorageError as error:
                facts.append(self._fail(key, Failed(name, str(error))))
        return facts

    # Out of range

    def _on_offsets(self, request: ListOffsetsRequest, response: ListOffsetsResponse, now_ms: int) -> list[Fact]:
        facts: list[Fact] = []
        epochs = {
            (topic.name, one.partition_index): one.current_leader_epoch
            for topic in request.topics
            for one in topic.partitions
        }
        is_end = request.topics[0].partitions[0].timestamp == SpecialTimestamp.LATEST
        phase = Phase.OUT_OF_RANGE if is_end else Phase.BEHIND
        told = {(topic.name, one.partition_index): one for topic in response.topics for one in topic.partitions}
        for key in list(self._asking):
            position = self.positions[key]
            answer = told.get(position.name)
            if answer is None or position.phase is not phase or epochs.get(position.name) != position.leader_epoch:
                continue
            if answer.error_code:
                facts += self._on_error(key, position, error_class(answer.error_code), now_ms)
            elif is_end:
                facts += self._on_leader_end(key, position, answer)
            else:
                facts += self._on_leader_start(key, position, answer)
        return facts

    def _on_leader_end(self, key: Key, position: Position, answer: ListOffsetsPartitionResponse) -> list[Fact]:
        log = self._logs.log_of(position.name)
        if log is None:
            return [self._fail(key, Failed(position.name, "its log is gone"))]
        if answer.offset >= log.log_end_offset:
            self._ask(key, position, Phase.BEHIND)
            return []
        # An unclean election: the leader has less. What is left is compared with the next fetch, by its epoch.
        truncated = Truncated(position.name, answer.offset, answer.leader_epoch, answer.offset)
        return [truncated, *self._truncate({key: answer.offset})]

    def _on_leader_start(self, key: Key, position: Position, answer: ListOffsetsPartitionResponse) -> list[Fact]:
        log = self._logs.log_of(position.name)
        if log is None:
            return [self._fail(key, Failed(position.name, "its log is gone"))]
        if answer.offset <= log.log_end_offset:
            # In range after all: the leader's log has grown meanwhile, or it is the epoch that it does not know.
            if position.last_epoch != NO_EPOCH:
                position.asked_epoch = position.last_epoch
                self._ask(key, position, Phase.UNKNOWN_EPOCH)
            else:
                self._resume(key, position, log)
            return []
        try:
            self._logs.truncate_fully_and_start_at(position.name, answer.offset)
        except KafkaStorageError as error:
            return [self._fail(key, Failed(position.name, str(error)))]
        self._resume(key, position, log)
        return [Restarted(position.name, answer.offset)]

    def _on_epochs(
        self, request: OffsetForLeaderEpochRequest, response: OffsetForLeaderEpochResponse, now_ms: int
    ) -> list[Fact]:
        facts: list[Fact] = []
        asked = {(topic.topic, one.partition): one for topic in request.topics for one in topic.partitions}
        told = {(topic.topic, one.partition): one for topic in response.topics for one in topic.partitions}
        ends: dict[Key, tuple[int, int]] = {}
        for key in list(self._asking):
            position = self.positions[key]
            answer, question = told.get(position.name), asked.get(position.name)
            if answer is None or question is None or position.phase is not Phase.UNKNOWN_EPOCH:
                continue
            if question.current_leader_epoch != position.leader_epoch or question.leader_epoch != position.asked_epoch:
                continue
            if answer.error_code:
                facts += self._on_error(key, position, error_class(answer.error_code), now_ms)
            elif answer.end_offset == UNDEFINED_OFFSET:
                facts += self._ask_for_older_epoch(key, position)
            else:
                ends[key] = (answer.leader_epoch, answer.end_offset)
        return facts + self._truncate_by_epoch(ends)

    def _ask_for_older_epoch(self, key: Key, position: Position) -> Sequence[Fact]:
        log = self._logs.log_of(position.name)
        older = None if log is None else log.epochs.previous_entry(position.asked_epoch)
        if older is None:
            return [self._fail(key, Failed(position.name, "the leader knows none of its epochs"))]
        position.asked_epoch = older.epoch
        return []


def truncation_offset(log: Log, leader_epoch: int, leader_end_offset: int) -> int:
    """Where a log has to be cut whose leader ends `leader_epoch`, the last epoch it shares, at `leader_end_offset`.

    A log that does not have that epoch ends with the one before it: there the search goes on with the next fetch.
    """
    found = log.end_offset_for_epoch(leader_epoch)
    if found is None:
        return min(leader_end_offset, log.log_end_offset)
    epoch, end_offset = found
    if epoch != leader_epoch:
        return min(end_offset, log.log_end_offset)
    return min(end_offset, leader_end_offset, log.log_end_offset)


def last_epoch_of(log: Log) -> int:
    """The epoch of the last record, from the log itself where the epochs' checkpoint is lost; -1 of an empty log."""
    latest = log.epochs.latest_epoch
    if latest is not None:
        return latest
    if log.log_end_offset == log.log_start_offset:
        return NO_EPOCH
    epoch = NO_EPOCH
    found = log.read(log.log_end_offset - 1, bytes_max=1, isolation=Isolation.LOG_END, at_least_one=True)
    if found.slice is not None:
        for batch in batches(found.slice.read()):
            epoch = batch.leader_epoch
    return epoch
