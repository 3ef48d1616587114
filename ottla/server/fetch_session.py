"""Fetch sessions: a consumer or follower that fetches the same partitions again and again names only what changed.

A session keeps what its fetcher asked for and what it was last told, so that a request without partitions means all of
them, and a response leaves out those with nothing new (KIP-227).

Promises: a request out of turn (`session_epoch`) changes nothing; partitions that had records move behind the others,
so that with a small limit all have their turn; the number of sessions is bounded, followers come before consumers,
and a session that is not used for two minutes, or a smaller one than the newcomer, makes room. Called by `fetch`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, TypeAlias

from ottla.errors import FetchSessionIdNotFound, FetchSessionTopicIdError, InvalidFetchSessionEpoch, KafkaError
from ottla.types import ZERO_UUID, Uuid
from ottla.world import World

if TYPE_CHECKING:
    from ottla.metadata import TopicImage
    from ottla.wire.messages.fetch import FetchPartition, FetchRequest, PartitionData

INITIAL_EPOCH = 0
"""A request that begins a session."""
FINAL_EPOCH = -1
"""A request that ends its session, or wants none."""
EPOCH_MAX = 2**31 - 1
SESSION_ID_MAX = 2**31 - 1
NO_SESSION = 0
TOPIC_ID_VERSION = 13
EVICTION_MS = 120_000

Key: TypeAlias = tuple[Uuid | str, int]
"""Topic id, or name in versions without ids, and partition."""


class Wanted:
    """One partition of a fetch: what is asked for, and what the session's fetcher was told last."""

    __slots__ = ("high_watermark", "key", "log_start_offset", "request", "topic", "topic_id")

    def __init__(self, key: Key, topic: str | None, topic_id: Uuid, request: FetchPartition) -> None:
        self.key = key
        self.topic = topic
        """None while no topic has the id."""
        self.topic_id = topic_id
        self.request = request
        self.high_watermark = -1
        self.log_start_offset = -1

    def note(self, told: PartitionData) -> bool:
        """Remember what the fetcher is told; whether it has to be told at all."""
        is_new = bool(told.records) or told.preferred_read_replica != -1 or told.diverging_epoch is not None
        if self.high_watermark != told.high_watermark or self.log_start_offset != told.log_start_offset:
            is_new = True
            self.high_watermark = told.high_watermark
            self.log_start_offset = told.log_start_offset
        if told.error_code:
            # Once the error is gone, the partition is news again.
            self.high_watermark = -1
            is_new = True
        return is_new


class FetchSession:
    """What one fetcher fetches. `size` is its number of partitions when it was last used."""

    __slots__ = ("created_ms", "epoch", "id", "is_follower", "partitions", "size", "used_ms", "uses_topic_ids")

    def __init__(
        self,
        session_id: int,
        partitions: dict[Key, Wanted],
        *,
        is_follower: bool,
        uses_topic_ids: bool,
        now_ms: int,
    ) -> None:
        self.id = session_id
        self.partitions = partitions
        self.is_follower = is_follower
        self.uses_topic_ids = uses_topic_ids
        self.created_ms = now_ms
        self.used_ms = now_ms
        self.epoch = 1
        """The epoch that the next request must have."""
        self.size = len(partitions)

    def note(self, wanted: Wanted, told: PartitionData) -> bool:
        """Remember what is told of a partition; False when it can be left out of the response."""
        if self.partitions.get(wanted.key) is not wanted:
            return False
        if not wanted.note(told):
            return False
        if told.records:
            # To the end of the line.
            del self.partitions[wanted.key]
            self.partitions[wanted.key] = wanted
        return True


class Overtaken(InvalidFetchSessionEpoch):
    """A later request of the same session was read while this one waited."""

    def __init__(self, session_id: int) -> None:
        super().__init__()
        self.session_id = session_id


class FetchContext:
    """One fetch: its partitions, and how its response is made."""

    __slots__ = ("_epoch", "_is_new", "_sessions", "_version", "is_follower", "session", "wanted")

    def __init__(
        self,
        sessions: FetchSessions,
        wanted: Sequence[Wanted],
        version: int,
        *,
        is_follower: bool,
        is_new: bool = False,
        session: FetchSession | None = None,
    ) -> None:
        self._sessions = sessions
        self._version = version
        self._is_new = is_new
        self._epoch = -1 if session is None else session.epoch
        self.wanted = wanted
        self.is_follower = is_follower
        self.session = session

    def close(self, told: Sequence[tuple[Wanted, PartitionData]]) -> tuple[int, Sequence[tuple[Wanted, PartitionData]]]:
        """The session id of the response, and what of `told` belongs into it.

        `Overtaken` when another request of the same session has come since.
        """
        session = self.session
        if session is not None:
            if session.epoch != self._epoch:
                raise Overtaken(session.id)
            return session.id, [(wanted, data) for wanted, data in told if session.note(wanted, data)]
        if self._is_new:
            return self._sessions.begin(told, self._version, is_follower=self.is_follower), told
        return NO_SESSION, told


class FetchSessions:
    """The sessions of a node."""

    def __init__(self, world: World, slots_max: int, *, eviction_ms: int = EVICTION_MS) -> None:
        self._world = world
        self._slots_max = slots_max
        self._eviction_ms = eviction_ms
        self._sessions: dict[int, FetchSession] = {}
        """By id, the one that was not used for longest first."""
        self.partition_count = 0
        self.eviction_count = 0

    def __len__(self) -> int:
        return len(self._sessions)

    def open(
        self, request: FetchRequest, version: int, *, is_follower: bool, topics: Mapping[Uuid, TopicImage]
    ) -> FetchContext:
        """The partitions that `request` means. Raises the error that the whole request is answered with."""
        epoch = request.session_epoch
        if epoch in (FINAL_EPOCH, INITIAL_EPOCH):
            if request.session_id != NO_SESSION:
                self._remove(request.session_id)
            wanted = _wanted(request, version, topics)
            return FetchContext(
                self, list(wanted.values()), version, is_follower=is_follower, is_new=epoch == INITIAL_EPOCH
            )
        session = self._sessions.get(request.session_id)
        if session is None:
            raise FetchSessionIdNotFound
        if session.epoch != epoch:
            raise InvalidFetchSessionEpoch
        if session.uses_topic_ids != (version >= TOPIC_ID_VERSION):
            raise FetchSessionTopicIdError
        self._update(session, request, version, topics)
        if not session.partitions:
            self._remove(session.id)
            return FetchContext(
                self, list(_wanted(request, version, topics).values()), version, is_follower=is_follower
            )
        self._touch(session)
        session.epoch = 1 if epoch == EPOCH_MAX else epoch + 1
        if session.uses_topic_ids:
            for one in session.partitions.values():
                if one.topic is None and one.topic_id in topics:
                    one.topic = topics[one.topic_id].name
        return FetchContext(self, list(session.partitions.values()), version, is_follower=is_follower, session=session)

    def _update(
        self, session: FetchSession, request: FetchRequest, version: int, topics: Mapping[Uuid, TopicImage]
    ) -> None:
        partitions = session.partitions
        if request.topics:
            for key, one in _wanted(request, version, topics).items():
                known = partitions.get(key)
                if known is None:
                    partitions[key] = one
                else:
                    known.request = one.request
        for topic in request.forgotten_topics_data:
            name: Uuid | str = topic.topic_id if version >= TOPIC_ID_VERSION else topic.topic
            for index in topic.partitions:
                partitions.pop((name, index), None)

    def begin(self, told: Sequence[tuple[Wanted, PartitionData]], version: int, *, is_follower: bool) -> int:
        """Begin a session over what was told; 0 when there is no room for it."""
        now_ms = self._world.clock.now_ms()
        if len(self._sessions) >= self._slots_max and not self._evict(len(told), now_ms, is_follower=is_follower):
            return NO_SESSION
        session_id = self._world.random.randrange(1, SESSION_ID_MAX)
        while session_id in self._sessions:
            session_id = self._world.random.randrange(1, SESSION_ID_MAX)
        for wanted, data in told:
            wanted.high_watermark = data.high_watermark
            wanted.log_start_offset = data.log_start_offset
        session = FetchSession(
            session_id,
            {wanted.key: wanted for wanted, _ in told},
            is_follower=is_follower,
            uses_topic_ids=version >= TOPIC_ID_VERSION,
            now_ms=now_ms,
        )
        self._sessions[session_id] = session
        self.partition_count += session.size
        return session_id

    def _touch(self, session: FetchSession) -> None:
        session.used_ms = self._world.clock.now_ms()
        self.partition_count += len(session.partitions) - session.size
        session.size = len(session.partitions)
        del self._sessions[session.id]
        self._sessions[session.id] = session

    def _evict(self, size: int, now_ms: int, *, is_follower: bool) -> bool:
        """Make room for a session of `size` partitions: whether one was worth less."""
        stalest = next(iter(self._sessions.values()), None)
        if stalest is None:
            return False
        if now_ms - stalest.used_ms <= self._eviction_ms:
            candidates = [
                one
                for one in self._sessions.values()
                if one.used_ms - one.created_ms > self._eviction_ms or (is_follower and not one.is_follower)
            ]
            stalest = min(candidates, key=lambda one: (one.is_follower, one.size, one.id), default=None)
            if stalest is None or (is_follower, size, 0) < (stalest.is_follower, stalest.size, stalest.id):
                return False
        self._remove(stalest.id)
        self.eviction_count += 1
        return True

    def _remove(self, session_id: int) -> None:
        removed = self._sessions.pop(session_id, None)
        if removed is not None:
            self.partition_count -= removed.size


def _wanted(request: FetchRequest, version: int, topics: Mapping[Uuid, TopicImage]) -> dict[Key, Wanted]:
    """The partitions that a request names; of one named twice the second counts, as in Kafka."""
    found: dict[Key, Wanted] = {}
    if version >= TOPIC_ID_VERSION:
        for topic in request.topics:
            topic_id = topic.topic_id
            image = topics.get(topic_id)
            name = None if image is None else image.name
            for partition in topic.partitions:
                key: Key = (topic_id, partition.partition)
                found[key] = Wanted(key, name, topic_id, partition)
    else:
        for topic in request.topics:
            for partition in topic.partitions:
                key = (topic.topic, partition.partition)
                found[key] = Wanted(key, topic.topic, ZERO_UUID, partition)
    return found


SESSION_ERRORS: tuple[type[KafkaError], ...] = (
    FetchSessionIdNotFound,
    InvalidFetchSessionEpoch,
    FetchSessionTopicIdError,
)
"""What `open` raises: the request is answered with the code and no partitions."""
