"""The fetching side of a fetch session: what the leader knows of this fetcher's requests (KIP-227).

Promises: a request names only what changed since the leader's last answer, and costs only that. Whenever the two sides
may differ, because an answer was an error, or did not come, or made no sense, the next request begins a new session
with everything in it, and ends the old one. Called by `fetcher`.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import NamedTuple, TypeAlias

from ottla.errors import FetchSessionIdNotFound
from ottla.types import Uuid
from ottla.wire.messages.fetch import FetchPartition, FetchResponse, FetchTopic, ForgottenTopic

NO_SESSION = 0
INITIAL_EPOCH = 0
EPOCH_MAX = 2**31 - 1

Key: TypeAlias = tuple[Uuid, int]
"""A topic's id and the index of a partition: a topic made anew has other ones."""


class Parts(NamedTuple):
    """What a request says of the session."""

    session_id: int
    session_epoch: int
    topics: list[FetchTopic]
    forgotten: list[ForgottenTopic]


class FetcherSession:
    """See the module."""

    __slots__ = ("_epoch", "_id", "sent")

    def __init__(self) -> None:
        self._id = NO_SESSION
        self._epoch = INITIAL_EPOCH
        self.sent: dict[Key, FetchPartition] = {}
        """What the leader knows to be asked for."""

    @property
    def is_full(self) -> bool:
        """Whether the next request begins a session, and has to name everything."""
        return self._epoch == INITIAL_EPOCH

    def build(self, wanted: Mapping[Key, FetchPartition | None]) -> Parts:
        """The session's parts of a request in which `wanted` has changed: None is what is no longer asked for. For a
        full one `wanted` is everything."""
        if self.is_full:
            self.sent = {}
        news: list[tuple[Key, FetchPartition]] = []
        gone: list[Key] = []
        for key, partition in wanted.items():
            if partition is None:
                if self.sent.pop(key, None) is not None:
                    gone.append(key)
            elif self.sent.get(key) != partition:
                self.sent[key] = partition
                news.append((key, partition))
        return Parts(self._id, self._epoch, _topics(news), _forgotten(gone))

    def on_response(self, response: FetchResponse, told: Collection[Key]) -> bool:
        """The leader has answered about the partitions `told`. Whether the answer can be used."""
        if response.error_code:
            self._restart(None if response.error_code == FetchSessionIdNotFound.code else self._id)
            return False
        is_sound = all(key in self.sent for key in told)
        if self.is_full:
            is_sound = is_sound and len(told) == len(self.sent)
            self._id, self._epoch = NO_SESSION, INITIAL_EPOCH
            if is_sound and response.session_id != NO_SESSION:
                self._id, self._epoch = response.session_id, 1
        elif not is_sound:
            self._restart(self._id)
        elif response.session_id == NO_SESSION:
            self._restart(None)
        else:
            self._epoch = 1 if self._epoch == EPOCH_MAX else self._epoch + 1
        return is_sound

    def on_failure(self) -> None:
        """There is no answer: whether the leader has read the request is not known."""
        self._restart(self._id)

    def _restart(self, ended_id: int | None) -> None:
        self._id = NO_SESSION if ended_id is None else ended_id
        self._epoch = INITIAL_EPOCH


def _topics(news: Iterable[tuple[Key, FetchPartition]]) -> list[FetchTopic]:
    topics: dict[Uuid, FetchTopic] = {}
    for (topic_id, _), partition in news:
        topic = topics.get(topic_id)
        if topic is None:
            topic = topics[topic_id] = FetchTopic(topic_id=topic_id)
        topic.partitions.append(partition)
    return list(topics.values())


def _forgotten(gone: Iterable[Key]) -> list[ForgottenTopic]:
    topics: dict[Uuid, ForgottenTopic] = {}
    for topic_id, index in gone:
        topic = topics.get(topic_id)
        if topic is None:
            topic = topics[topic_id] = ForgottenTopic(topic_id=topic_id)
        topic.partitions.append(index)
    return list(topics.values())
