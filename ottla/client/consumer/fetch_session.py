"""The incremental fetch session with one broker (KIP-227): only what has changed since the last fetch is sent.

Promises: what the broker holds for the session is what `partitions` says, or the next request begins a new session.
Topic ids are used when all topics have one and the broker knows them (version 13); the first fetch that cannot use
them, after others did, begins a new session. Knows no I/O. Called by the fetcher, one session a broker.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from ottla.errors import FetchSessionIdNotFound, error_class
from ottla.types import ZERO_UUID, TopicPartition, Uuid
from ottla.wire.messages.fetch import (
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    ForgottenTopic,
)

log = logging.getLogger(__name__)

TOPIC_ID_VERSION = 13
NO_SESSION = 0
FIRST_EPOCH = 0
FINAL_EPOCH = -1
_EPOCH_MAX = 0x7FFF_FFFF


class Wanted(NamedTuple):
    """What is asked of one partition."""

    topic_id: Uuid
    offset: int
    leader_epoch: int
    bytes_max: int


@dataclass(slots=True)
class FetchPlan:
    """One request to be: what it sends of the partitions, and the session that it is part of."""

    session_id: int
    epoch: int
    to_send: dict[TopicPartition, Wanted]
    to_forget: list[tuple[TopicPartition, Uuid]]
    replaced: list[tuple[TopicPartition, Uuid]]
    """Old ids of topics that were made anew; without ids there is nothing to tell them apart by."""
    has_ids: bool
    wanted: dict[TopicPartition, Wanted] = field(default_factory=dict)
    """All that the broker will answer for: of the session, and of this request."""

    @property
    def is_full(self) -> bool:
        return self.epoch in (FIRST_EPOCH, FINAL_EPOCH)

    def request(
        self, version: int, *, max_wait_ms: int, min_bytes: int, max_bytes: int, isolation: int, rack: str
    ) -> FetchRequest:
        """The request, to be written in `version`."""
        to_forget = self.to_forget + self.replaced if version >= TOPIC_ID_VERSION else self.to_forget
        return FetchRequest(
            max_wait_ms=max_wait_ms,
            min_bytes=min_bytes,
            max_bytes=max_bytes,
            isolation_level=isolation,
            session_id=self.session_id,
            session_epoch=self.epoch,
            topics=_by_topic(self.to_send),
            forgotten_topics_data=_forgotten(to_forget),
            rack_id=rack,
        )


class FetchSession:
    """The session with one broker, from this side."""

    def __init__(self, node_id: int, name: str) -> None:
        self.node_id = node_id
        self.session_id = NO_SESSION
        self.epoch = FIRST_EPOCH
        self.partitions: dict[TopicPartition, Wanted] = {}
        """What the broker's session holds."""
        self._has_ids = False
        self._name = name

    def plan(self, wanted: Mapping[TopicPartition, Wanted], *, may_use_ids: bool = True) -> FetchPlan:
        """What to send so that the broker answers for `wanted`, and for nothing else. `settle` must follow."""
        has_ids = may_use_ids and all(one.topic_id != ZERO_UUID for one in wanted.values())
        if self.epoch != FIRST_EPOCH and has_ids != self._has_ids:
            # A session speaks of topics by name or by id, from its beginning to its end.
            self._begin_again()
        self._has_ids = has_ids
        if self.epoch == FIRST_EPOCH:
            self.partitions = dict(wanted)
            return FetchPlan(self.session_id, FIRST_EPOCH, dict(wanted), [], [], has_ids, self.partitions)
        known = self.partitions
        to_forget = [(partition, one.topic_id) for partition, one in known.items() if partition not in wanted]
        to_send = {}
        replaced = []
        for partition, one in wanted.items():
            before = known.get(partition)
            if before != one:
                to_send[partition] = one
                if before is not None and before.topic_id != one.topic_id:
                    replaced.append((partition, before.topic_id))
        self.partitions = dict(wanted)
        return FetchPlan(self.session_id, self.epoch, to_send, to_forget, replaced, has_ids, self.partitions)

    def settle(self, plan: FetchPlan, response: FetchResponse) -> bool:
        """The broker has answered: whether its partitions can be used, and how the session goes on."""
        if response.error_code:
            error = error_class(response.error_code)
            log.info("[%s] Node %d was unable to process the fetch request with session id %d, epoch %d: %s",
                     self._name, self.node_id, plan.session_id, plan.epoch, error.name)  # fmt: skip
            if response.error_code == FetchSessionIdNotFound.code:
                self._forget()
            else:
                self._begin_again()
            return False
        if response.session_id == NO_SESSION:
            # The broker keeps no session for us: every fetch is a full one.
            self._forget()
        elif plan.is_full:
            self.session_id = response.session_id
            self.epoch = 1
        elif response.session_id != self.session_id:
            log.info("[%s] Node %d answers session %d with session %d", self._name, self.node_id, self.session_id,
                     response.session_id)  # fmt: skip
            self._begin_again()
            return False
        else:
            self.epoch = 1 if self.epoch == _EPOCH_MAX else self.epoch + 1
        return True

    def fail(self) -> None:
        """No answer came: nobody knows whether the broker has carried the request out."""
        self._begin_again()

    def close_plan(self) -> FetchPlan | None:
        """The request that ends the session on the broker; None when there is none."""
        if self.session_id == NO_SESSION:
            return None
        plan = FetchPlan(self.session_id, FINAL_EPOCH, {}, [], [], self._has_ids)
        self._forget()
        return plan

    def _begin_again(self) -> None:
        """The next request takes the place of the session that the broker may still have."""
        self.epoch = FIRST_EPOCH
        self.partitions = {}

    def _forget(self) -> None:
        self.session_id = NO_SESSION
        self._begin_again()


def _by_topic(wanted: Mapping[TopicPartition, Wanted]) -> list[FetchTopic]:
    topics: dict[tuple[str, Uuid], FetchTopic] = {}
    for (name, partition), one in wanted.items():
        topic = topics.get((name, one.topic_id))
        if topic is None:
            topic = topics[name, one.topic_id] = FetchTopic(topic=name, topic_id=one.topic_id, partitions=[])
        topic.partitions.append(
            FetchPartition(
                partition=partition,
                current_leader_epoch=one.leader_epoch,
                fetch_offset=one.offset,
                partition_max_bytes=one.bytes_max,
            )
        )
    return list(topics.values())


def _forgotten(forgotten: Iterable[tuple[TopicPartition, Uuid]]) -> list[ForgottenTopic]:
    topics: dict[tuple[str, Uuid], ForgottenTopic] = {}
    for (name, partition), topic_id in forgotten:
        topic = topics.get((name, topic_id))
        if topic is None:
            topic = topics[name, topic_id] = ForgottenTopic(topic=name, topic_id=topic_id, partitions=[])
        topic.partitions.append(partition)
    return list(topics.values())
