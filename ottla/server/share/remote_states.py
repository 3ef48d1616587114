"""`RemoteStates`: the state of share partitions, kept by share coordinators on other brokers.

The questions are those of a `Persister`, with the broker to ask. Promises: as Kafka, one request of each kind under way
for each broker and group, with all partitions that were asked about meanwhile; each answer is the coordinator's word on
that partition, or fails with its error, or with that of the connection. Called by `RoutedPersister`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from ottla.coordinator.share import SharePartitionKey, StateBatch, StateSummary, StateUpdate, StoredState
from ottla.errors import NONE, error_class
from ottla.server.broker_requests import BrokerRequests
from ottla.server.promises import mapped
from ottla.types import Uuid
from ottla.wire import Message
from ottla.wire.messages import (
    delete_share_group_state,
    initialize_share_group_state,
    read_share_group_state,
    read_share_group_state_summary,
    write_share_group_state,
)
from ottla.world import Promise

if TYPE_CHECKING:
    from ottla.server.broker import BrokerServices

NO_LEADER_EPOCH = -1
"""Of those who look and do not lead."""


class _Question(NamedTuple):
    key: SharePartitionKey
    asked: Any
    """The partition's part of the request."""


class RemoteStates:
    """See the module."""

    def __init__(self, broker: BrokerServices) -> None:
        self._tasks = broker.node.world.tasks

        def requests(make: Callable[[str, list[Any]], Message], topic: Callable[..., Any]) -> _Requests:
            return BrokerRequests(
                broker.peers,
                self._tasks,
                lane="share-state",
                timeout_ms=lambda: broker.node.config.request_timeout_ms,
                scope=lambda question: question.key.group_id,
                subject=lambda question: question.key,
                request=lambda questions: make(questions[0].key.group_id, _topics(questions, topic)),
                answers=_answers,
            )

        initialize, delete = initialize_share_group_state, delete_share_group_state
        read, write, summary = read_share_group_state, write_share_group_state, read_share_group_state_summary
        self._initialize = requests(initialize.InitializeShareGroupStateRequest, initialize.InitializeStateData)
        self._read = requests(read.ReadShareGroupStateRequest, read.ReadStateData)
        self._write = requests(write.WriteShareGroupStateRequest, write.WriteStateData)
        self._read_summary = requests(summary.ReadShareGroupStateSummaryRequest, summary.ReadStateSummaryData)
        self._delete = requests(delete.DeleteShareGroupStateRequest, delete.DeleteStateData)

    def initialize(
        self, broker_id: int, key: SharePartitionKey, *, state_epoch: int, start_offset: int
    ) -> Promise[None]:
        asked = initialize_share_group_state.PartitionData(key.partition, state_epoch, start_offset)
        return self._ask(self._initialize, broker_id, key, asked, _nothing)

    def read(self, broker_id: int, key: SharePartitionKey, *, leader_epoch: int) -> Promise[StoredState]:
        asked = read_share_group_state.PartitionData(key.partition, leader_epoch)
        return self._ask(self._read, broker_id, key, asked, _stored)

    def write(self, broker_id: int, key: SharePartitionKey, update: StateUpdate) -> Promise[None]:
        batches = [
            write_share_group_state.StateBatch(first, last, delivery_state=state, delivery_count=count)
            for first, last, count, state in update.batches
        ]
        asked = write_share_group_state.PartitionData(
            partition=key.partition,
            state_epoch=update.state_epoch,
            leader_epoch=update.leader_epoch,
            start_offset=update.start_offset,
            delivery_complete_count=update.delivery_complete_count,
            state_batches=batches,
        )
        return self._ask(self._write, broker_id, key, asked, _nothing)

    def read_summary(self, broker_id: int, key: SharePartitionKey) -> Promise[StateSummary]:
        asked = read_share_group_state_summary.PartitionData(key.partition, NO_LEADER_EPOCH)
        return self._ask(self._read_summary, broker_id, key, asked, _summary)

    def delete(self, broker_id: int, key: SharePartitionKey) -> Promise[None]:
        return self._ask(self._delete, broker_id, key, delete_share_group_state.PartitionData(key.partition), _nothing)

    def _ask(
        self, requests: _Requests, broker_id: int, key: SharePartitionKey, asked: Any, read: Callable[[Any], Any]
    ) -> Promise[Any]:
        def answer(told: Any) -> Any:
            if told.error_code != NONE:
                raise error_class(told.error_code)(told.error_message)
            return read(told)

        return mapped(self._tasks, requests.ask(broker_id, _Question(key, asked)), answer)


_Requests = BrokerRequests[_Question, Any]


def _topics(questions: Sequence[_Question], topic: Callable[..., Any]) -> list[Any]:
    by_topic: dict[Uuid, list[Any]] = {}
    for question in questions:
        by_topic.setdefault(question.key.topic_id, []).append(question.asked)
    return [topic(topic_id, partitions) for topic_id, partitions in by_topic.items()]


def _answers(questions: Sequence[_Question], response: Any) -> list[Any]:
    """What is told of each partition. One that is not answered makes the whole response senseless."""
    told = {(topic.topic_id, one.partition): one for topic in response.results for one in topic.partitions}
    return [told[key.topic_id, key.partition] for key, _ in questions]


def _nothing(_: object) -> None:
    return None


def _stored(told: read_share_group_state.PartitionResult) -> StoredState:
    batches = (
        StateBatch(one.first_offset, one.last_offset, one.delivery_count, one.delivery_state)
        for one in told.state_batches
    )
    return StoredState(told.state_epoch, told.start_offset, tuple(batches))


def _summary(told: read_share_group_state_summary.PartitionResult) -> StateSummary:
    return StateSummary(told.state_epoch, told.leader_epoch, told.start_offset, told.delivery_complete_count)
