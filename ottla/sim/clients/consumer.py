"""A consumer: reads every partition of its topics in order, with or without a fetch session, and checks what it gets.

It holds the broker to its word: no hole between one record and the next, nothing at or above the high watermark, a high
watermark that only rises, and a session that answers only for what was asked.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from ottla.errors import (
    FetchSessionIdNotFound,
    FetchSessionTopicIdError,
    InvalidFetchSessionEpoch,
    OffsetOutOfRange,
    error_class,
)
from ottla.sim.clients.client import Client, Topic
from ottla.sim.clients.link import LOST, at_version
from ottla.sim.history import PartitionHistory, Violation, read_values
from ottla.types import Uuid
from ottla.wire.messages.fetch import (
    FetchableTopicResponse,
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    PartitionData,
)
from ottla.wire.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
)

EARLIEST, LATEST = -2, -1
TOPIC_ID_VERSION = 13
SESSION_VERSION = 7
_SESSION_ERRORS = (FetchSessionIdNotFound.code, InvalidFetchSessionEpoch.code, FetchSessionTopicIdError.code)


@dataclass(eq=False, slots=True)
class Position:
    """Where a partition is read next."""

    topic: Topic
    history: PartitionHistory
    offset: int | None = None
    high_watermark: int = 0
    truncations: int = 0
    told: int | None = None
    """The offset that the fetch session knows."""


@dataclass(slots=True)
class Session:
    """An incremental fetch session (KIP-227)."""

    id: int = 0
    epoch: int = 0
    version: int = -1
    known: dict[tuple[Uuid, int], Position] = field(default_factory=dict)


class Consumer(Client):
    """See the module. Reads until told to stop, and then until it has seen all that was acknowledged."""

    topic_names: list[str]
    has_session = True
    begins_at = EARLIEST
    max_bytes = 1 << 20
    partition_max_bytes = 1 << 16
    max_wait_ms = 200

    async def work(self) -> None:
        self._positions: dict[tuple[Uuid, int], Position] = {}
        self._session = Session()
        self._had_error = False
        rounds = 0
        while not (self.is_stopping and self._has_seen_all()):
            if rounds % 20 == 0 or not self._positions:
                await self._find_partitions()
            rounds += 1
            if not self._positions:
                if self.is_stopping:
                    return
                await self.pause(4)
                continue
            try:
                if not await self._find_offsets():
                    await self.pause()
                    continue
                self._had_error = False
                if not await self._fetch() and (self.max_wait_ms == 0 or self._had_error):
                    await self.pause()  # a poll that does not wait at the broker waits here
            except LOST as error:
                self.trace(f"{self.name}: {error}")
                self._session = Session()
                await self.pause()

    def _has_seen_all(self) -> bool:
        return all(
            position.offset is not None and position.offset >= position.history.known_end
            for position in self._positions.values()
            if position.topic.id not in self.history.doomed
        )

    async def _find_partitions(self) -> None:
        topics = await self.topics(self.topic_names)
        ids = {topic.id for topic in topics.values()}
        for key in [key for key in self._positions if key[0] not in ids]:
            del self._positions[key]
            self._session = Session()
        for topic in topics.values():
            for index in range(topic.partition_count):
                if (topic.id, index) not in self._positions:
                    history = self.history.partition(topic.name, topic.id, index)
                    self._positions[topic.id, index] = Position(topic, history, truncations=history.truncations)

    async def _find_offsets(self) -> bool:
        """Ask for the offset of every partition that has none; whether all have one now."""
        for position in self._positions.values():
            if position.offset is None:
                offset = await self._list_offset(position, self.begins_at)
                if offset is None:
                    return False
                position.offset = offset
                self.begins_at = EARLIEST  # only the first look may skip what is there
        return True

    async def _list_offset(self, position: Position, timestamp: int) -> int | None:
        history = position.history
        partition = ListOffsetsPartition(partition_index=history.index, timestamp=timestamp)
        response: ListOffsetsResponse = await self.ask(
            ListOffsetsRequest(replica_id=-1, topics=[ListOffsetsTopic(history.topic, [partition])])
        )
        ((found,),) = ([*topic.partitions] for topic in response.topics)
        if found.error_code:
            self._check_error(position, found.error_code)
            return None
        return found.offset

    # Fetch

    async def _fetch(self) -> bool:
        """Ask once for everything; whether anything came."""
        link = await self.link()
        version = self.version_of(1)
        if self._session.version != version or version < SESSION_VERSION:
            self._session = Session(version=version)
        session = self._session
        asked: dict[tuple[Uuid, int], Position] = {}
        topics: dict[Uuid, FetchTopic] = {}
        is_incremental = self.has_session and session.id != 0
        for key, position in self._positions.items():
            if is_incremental and key in session.known and position.told == position.offset:
                continue
            asked[key] = position
            topic = topics.setdefault(key[0], FetchTopic(position.topic.name, position.topic.id, []))
            assert position.offset is not None, "every partition has an offset before it is fetched"
            topic.partitions.append(
                FetchPartition(
                    partition=key[1], fetch_offset=position.offset, partition_max_bytes=self.partition_max_bytes
                )
            )
            position.told = position.offset
        session.known.update(asked)
        request = FetchRequest(
            max_wait_ms=self.max_wait_ms,
            min_bytes=1,
            max_bytes=self.max_bytes,
            session_id=session.id,
            session_epoch=session.epoch if self.has_session else -1,
            topics=list(topics.values()),
        )
        response: FetchResponse = await link.send(at_version(request, version), timeout_ms=self.request_timeout_ms)
        before = self.history.counts.get("shown", 0)
        self._on_response(response, version)
        return self.history.counts.get("shown", 0) > before

    def _on_response(self, response: FetchResponse, version: int) -> None:
        session = self._session
        if response.error_code:
            if response.error_code in _SESSION_ERRORS and session.id:
                self._session = Session()
                return
            raise Violation(f"{self.name}: Fetch is answered with error {response.error_code}")
        if self.has_session and version >= SESSION_VERSION:
            if session.id and response.session_id not in (0, session.id):
                raise Violation(f"{self.name} is in session {session.id} and is answered in {response.session_id}")
            session.id = response.session_id
            session.epoch = session.epoch + 1 if session.id else 0
            if not session.id:
                session.known.clear()
        for topic in response.responses:
            topic_id = self._topic_id(topic, version)
            for partition in topic.partitions:
                position = self._positions.get((topic_id, partition.partition_index))
                if position is None:
                    raise Violation(
                        f"{self.name} is answered for {topic.topic or topic_id}-{partition.partition_index} unasked"
                    )
                self._on_partition(position, partition)

    def _topic_id(self, topic: FetchableTopicResponse, version: int) -> Uuid:
        if version >= TOPIC_ID_VERSION:
            return topic.topic_id
        ids = [position.topic.id for position in self._positions.values() if position.topic.name == topic.topic]
        if not ids:
            raise Violation(f"{self.name} is answered for {topic.topic} unasked")
        return ids[0]

    def _on_partition(self, position: Position, partition: PartitionData) -> None:
        history = position.history
        if partition.error_code:
            self._had_error = True
            self._check_error(position, partition.error_code)
            if partition.error_code == OffsetOutOfRange.code:
                position.offset = None
            position.told = None
            return
        if history.truncations != position.truncations:
            # A power loss took records: what this one knows of the end is void.
            position.truncations = history.truncations
            position.high_watermark = 0
        if partition.high_watermark < position.high_watermark:
            raise Violation(
                f"{self.name}: the high watermark of {history} fell from {position.high_watermark} to "
                f"{partition.high_watermark}"
            )
        position.high_watermark = partition.high_watermark
        assert position.offset is not None, "it was asked with an offset"
        data = partition.records
        if data is None or not len(data):
            return
        assert not hasattr(data, "file"), "what was received is bytes"
        found = read_values(
            history,
            data,  # type: ignore[arg-type]
            position=position.offset,
            high_watermark=partition.high_watermark,
        )
        for offset, value in found.items():
            self.history.on_shown(history, offset, value)
        if found:
            position.offset = max(found) + 1

    def _check_error(self, position: Position, code: int) -> None:
        """Whether this error may come here; raises when it may not."""
        error = error_class(code)
        history = position.history
        self.trace(f"{self.name}: {history} answers {error.name}")
        self.history.count(f"fetch: {error.name}")
        if history.topic_id in self.history.doomed:
            return
        if error is OffsetOutOfRange:
            is_cut = history.truncations != position.truncations
            if is_cut:
                position.truncations = history.truncations
                position.high_watermark = 0
            if not is_cut and (position.offset or 0) >= history.deleted_to:
                raise Violation(f"{self.name}: {history} has no offset {position.offset}")
        elif not error.retriable and error.name != "KAFKA_STORAGE_ERROR":
            raise Violation(f"{self.name}: {history} answers {error.name}")
