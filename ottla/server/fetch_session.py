"""Fetch sessions: a consumer or follower that fetches the same partitions again and again names only what changed.

A session keeps what its fetcher asked for and what it was last told, so that a request without partitions means all of
them, and a response leaves out those with nothing new (KIP-227).

Promises: a request out of turn (`session_epoch`) changes nothing; partitions that had records move behind the others,
so that with a small limit all have their turn; the number of sessions is bounded, followers come before consumers,
and a session that is not used for two minutes, or a smaller one than the newcomer, makes room. A follower's request
costs what has changed, not the session's partitions: see `ottla.replica.FollowerFeed`. Called by `fetch`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, TypeAlias, cast

from ottla.errors import FetchSessionIdNotFound, FetchSessionTopicIdError, InvalidFetchSessionEpoch, KafkaError
from ottla.replica import FollowerFeed, Interest
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
REVIEW_MS = 60_000
"""How often the log starts of a follower's idle partitions are looked at."""

Key: TypeAlias = tuple[Uuid | str, int]
"""Topic id, or name in versions without ids, and partition."""


class Wanted(Interest):
    """One partition of a fetch: what is asked for, and what the session's fetcher was told last."""

    __slots__ = ("high_watermark", "key", "request", "topic", "topic_id")

    def __init__(self, key: Key, topic: str | None, topic_id: Uuid, request: FetchPartition) -> None:
        super().__init__()
        self.key = key
        self.topic = topic
        """None while no topic has the id."""
        self.topic_id = topic_id
        self.request = request
        self.high_watermark = -1

    def note(self, told: PartitionData) -> bool:
        """Remember what the fetcher is told; whether it has to be told at all."""
        is_new = bool(told.records) or told.preferred_read_replica != -1
        if self.high_watermark != told.high_watermark or self.log_start_offset != told.log_start_offset:
            is_new = True
            self.high_watermark = told.high_watermark
            self.log_start_offset = told.log_start_offset
        if told.error_code or told.diverging_epoch is not None:
            # Once the error is gone, the partition is news again. A follower whose log diverges takes nothing but that
            # from the answer: it has not heard of the high watermark, and would not until the next record.
            self.high_watermark = -1
            is_new = True
        return is_new


class FetchSession:
    """What one fetcher fetches. `size` is its number of partitions when it was last used."""

    __slots__ = (
        "created_ms",
        "epoch",
        "feed",
        "id",
        "is_follower",
        "partitions",
        "reviewed_ms",
        "size",
        "used_ms",
        "uses_topic_ids",
    )

    def __init__(
        self,
        session_id: int,
        partitions: dict[Key, Wanted],
        *,
        uses_topic_ids: bool,
        now_ms: int,
        feed: FollowerFeed | None = None,
    ) -> None:
        self.id = session_id
        self.partitions = partitions
        self.feed = feed
        """What a follower has to look at; None of a consumer, for whom it is all of them."""
        self.is_follower = feed is not None
        self.reviewed_ms = now_ms
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
        is_new = wanted.note(told)
        if told.records:
            # To the end of the line.
            del self.partitions[wanted.key]
            self.partitions[wanted.key] = wanted
        if self.feed is not None:
            self.settle(self.feed, wanted, told)
        return is_new

    def settle(self, feed: FollowerFeed, wanted: Wanted, told: PartitionData) -> None:
        """A follower is told this of a partition: let it rest, or have its next turn after the others."""
        if told.records:
            feed.postpone(wanted)
        elif told.error_code == 0 and told.diverging_epoch is None:
            feed.settle(wanted, high_watermark=told.high_watermark, log_start_offset=told.log_start_offset)

    def is_of(self, follower: FollowerFeed | None) -> bool:
        """Whether the session belongs to that follower, or to a consumer as the request does."""
        if follower is None or self.feed is None:
            return follower is self.feed
        return follower.replica_id == self.feed.replica_id

    def look(self, follower: FollowerFeed, now_ms: int, *, is_stale: bool) -> None:
        """A follower fetches again. Another broker epoch than before, or a stale one, concerns every partition."""
        feed = self.feed
        assert feed is not None, "a follower's session has a feed"
        if is_stale or follower.broker_epoch != feed.broker_epoch:
            feed.wake_all(self.partitions.values())
            feed.broker_epoch = follower.broker_epoch
        elif now_ms - self.reviewed_ms >= REVIEW_MS:
            self.reviewed_ms = now_ms
            feed.review(self.partitions.values())
        feed.fetched_ms = follower.fetched_ms


class Overtaken(InvalidFetchSessionEpoch):
    """A later request of the same session was read while this one waited."""

    def __init__(self, session_id: int) -> None:
        super().__init__()
        self.session_id = session_id


class FetchContext:
    """One fetch: its partitions, and how its response is made."""

    __slots__ = ("_epoch", "_follower", "_is_new", "_sessions", "_version", "_wanted", "session")

    def __init__(
        self,
        sessions: FetchSessions,
        wanted: Sequence[Wanted],
        version: int,
        *,
        follower: FollowerFeed | None = None,
        is_new: bool = False,
        session: FetchSession | None = None,
    ) -> None:
        self._sessions = sessions
        self._version = version
        self._is_new = is_new
        self._epoch = -1 if session is None else session.epoch
        self._wanted = wanted
        self._follower = follower
        self.session = session

    @property
    def feed(self) -> FollowerFeed | None:
        """What the session of a follower is to look at."""
        return None if self.session is None else self.session.feed

    @property
    def wanted(self) -> Sequence[Wanted]:
        """The partitions to look at: of a follower's session those that have changed, also since it was opened."""
        feed = self.feed
        return self._wanted if feed is None else cast("list[Wanted]", list(feed.awake))

    @property
    def has_resting(self) -> bool:
        """Whether a follower's session has partitions that need not be looked at, and may yet change."""
        session = self.session
        return session is not None and session.feed is not None and len(session.feed.awake) < len(session.partitions)

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
            return self._sessions.begin(told, self._version, self._follower), told
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
        self,
        request: FetchRequest,
        version: int,
        *,
        topics: Mapping[Uuid, TopicImage],
        follower: FollowerFeed | None = None,
        is_stale: bool = False,
    ) -> FetchContext:
        """The partitions that `request` means. Raises the error that the whole request is answered with.

        `follower` is the feed of a session that a follower's request may begin; it is stale when its broker has
        restarted since.
        """
        epoch = request.session_epoch
        if epoch in (FINAL_EPOCH, INITIAL_EPOCH):
            if request.session_id != NO_SESSION:
                self._remove(request.session_id)
            wanted = _wanted(request, version, topics)
            return FetchContext(self, list(wanted.values()), version, follower=follower, is_new=epoch == INITIAL_EPOCH)
        session = self._sessions.get(request.session_id)
        if session is None or not session.is_of(follower):
            raise FetchSessionIdNotFound
        if session.epoch != epoch:
            raise InvalidFetchSessionEpoch
        if session.uses_topic_ids != (version >= TOPIC_ID_VERSION):
            raise FetchSessionTopicIdError
        self._update(session, request, version, topics)
        if not session.partitions:
            self._remove(session.id)
            return FetchContext(self, list(_wanted(request, version, topics).values()), version)
        self._touch(session)
        session.epoch = 1 if epoch == EPOCH_MAX else epoch + 1
        looked_at: list[Wanted] = []
        if follower is not None:
            session.look(follower, session.used_ms, is_stale=is_stale)
        else:
            looked_at = list(session.partitions.values())
        context = FetchContext(self, looked_at, version, session=session)
        if session.uses_topic_ids:
            for one in context.wanted:
                if one.topic is None and one.topic_id in topics:
                    one.topic = topics[one.topic_id].name
        return context

    def _update(
        self, session: FetchSession, request: FetchRequest, version: int, topics: Mapping[Uuid, TopicImage]
    ) -> None:
        partitions, feed = session.partitions, session.feed
        if request.topics:
            for key, one in _wanted(request, version, topics).items():
                known = partitions.setdefault(key, one)
                known.request = one.request
                if feed is not None:
                    feed.add(known)
        for topic in request.forgotten_topics_data:
            name: Uuid | str = topic.topic_id if version >= TOPIC_ID_VERSION else topic.topic
            for index in topic.partitions:
                gone = partitions.pop((name, index), None)
                if gone is not None and feed is not None:
                    feed.remove(gone)

    def begin(
        self, told: Sequence[tuple[Wanted, PartitionData]], version: int, follower: FollowerFeed | None = None
    ) -> int:
        """Begin a session over what was told; 0 when there is no room for it."""
        now_ms = self._world.clock.now_ms()
        is_full = len(self._sessions) >= self._slots_max
        if is_full and not self._evict(len(told), now_ms, is_follower=follower is not None):
            return NO_SESSION
        session_id = self._world.random.randrange(1, SESSION_ID_MAX)
        while session_id in self._sessions:
            session_id = self._world.random.randrange(1, SESSION_ID_MAX)
        session = FetchSession(
            session_id,
            {wanted.key: wanted for wanted, _ in told},
            uses_topic_ids=version >= TOPIC_ID_VERSION,
            now_ms=now_ms,
            feed=follower,
        )
        for wanted, data in told:
            wanted.note(data)
            if follower is not None:
                follower.add(wanted)
                session.settle(follower, wanted, data)
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
            if removed.feed is not None:
                removed.feed.close(removed.partitions.values())


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
