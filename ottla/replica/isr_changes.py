"""Changes of in-sync sets on their way to the controller: those of all partitions in one request, one at a time.

Promises: a partition has at most one change here, so the table is bounded by the partitions that this node leads. A
request without an answer is sent again for ever, because nobody but the controller knows whether it was made; newer
metadata lets the partition ignore what is answered. Called by `manager` for the partitions' effects.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from typing import NamedTuple, Protocol, TypeAlias

from ottla.errors import KafkaError, OperationNotAttempted, UnknownServerError, error_class
from ottla.metadata import LeaderRecoveryState
from ottla.replica.leadership import IsrAnswer, IsrChange
from ottla.types import Uuid
from ottla.wire import Message
from ottla.wire.messages.alter_partition import (
    AlterPartitionRequest,
    AlterPartitionRequestPartitionData,
    AlterPartitionRequestTopicData,
    AlterPartitionResponse,
    BrokerState,
)
from ottla.world import NodeWorld

log = logging.getLogger(__name__)

VERSION = 3
"""With broker epochs (KIP-903); every controller that Kafka 4 can talk to knows it."""
RETRY_MS = 50

Key: TypeAlias = tuple[Uuid, int]
Outcome: TypeAlias = IsrAnswer | type[KafkaError]


class Controller(Protocol):
    """The way to the active controller."""

    def send(self, request: Message, *, version: int) -> Awaitable[Message]:
        """Its answer; `KafkaError` when there is none in time."""
        ...


class _Waiting(NamedTuple):
    change: IsrChange
    on_outcome: Callable[[Outcome], None]


class IsrChanges:
    """See the module. `broker_epoch` is asked for each time: it changes when the broker registers again."""

    def __init__(self, world: NodeWorld, controller: Controller, node_id: int, broker_epoch: Callable[[], int]) -> None:
        self._tasks = world.tasks
        self._controller = controller
        self._node_id = node_id
        self._broker_epoch = broker_epoch
        self._waiting: dict[Key, _Waiting] = {}
        self._is_sending = False
        self._is_stopped = False

    def __len__(self) -> int:
        return len(self._waiting)

    def submit(self, topic_id: Uuid, index: int, change: IsrChange, on_outcome: Callable[[Outcome], None]) -> None:
        """Ask the controller for `change`. `on_outcome` is called once, with its answer or its error; at once with
        OPERATION_NOT_ATTEMPTED while an earlier change of the partition is still here."""
        key = (topic_id, index)
        if key in self._waiting:
            on_outcome(OperationNotAttempted)
            return
        self._waiting[key] = _Waiting(change, on_outcome)
        if not self._is_sending and not self._is_stopped:
            self._is_sending = True
            # After what runs now has returned: a fetch of many partitions makes many changes.
            self._tasks.soon(lambda: self._tasks.spawn(self._send_all(), "isr-changes"))

    def stop(self) -> None:
        """Send nothing any more: the node shuts down."""
        self._is_stopped = True
        self._waiting.clear()

    async def _send_all(self) -> None:
        while self._waiting and not self._is_stopped:
            if not await self._send(dict(self._waiting)):
                await self._tasks.sleep_ms(RETRY_MS)
        self._is_sending = False

    async def _send(self, sent: dict[Key, _Waiting]) -> bool:
        """One request; whether everything in it was made."""
        broker_epoch = self._broker_epoch()
        try:
            response = await self._controller.send(self._request(sent, broker_epoch), version=VERSION)
        except (KafkaError, OSError) as error:
            log.info("[IsrChanges broker=%d] The controller has not answered: %s", self._node_id, error)
            return False
        assert isinstance(response, AlterPartitionResponse), response
        if self._is_stopped:
            return True
        if response.error_code:
            log.warning(
                "[IsrChanges broker=%d] The controller refuses the request of broker epoch %d with %s; trying again",
                self._node_id, broker_epoch, error_class(response.error_code).name,
            )  # fmt: skip
            return False
        outcomes = _outcomes(response)
        for key, waiting in sent.items():
            outcome = outcomes.get(key)
            if outcome is None:
                log.warning("[IsrChanges broker=%d] Partition %d of topic %s was left unanswered", self._node_id,
                            key[1], key[0])  # fmt: skip
                continue
            del self._waiting[key]  # first: the partition may have its next change at once
            waiting.on_outcome(outcome)
        return all(isinstance(outcomes.get(key), IsrAnswer) for key in sent)

    def _request(self, sent: dict[Key, _Waiting], broker_epoch: int) -> AlterPartitionRequest:
        topics: dict[Uuid, AlterPartitionRequestTopicData] = {}
        for (topic_id, index), (change, _) in sent.items():
            topic = topics.setdefault(topic_id, AlterPartitionRequestTopicData(topic_id=topic_id))
            topic.partitions.append(
                AlterPartitionRequestPartitionData(
                    partition_index=index,
                    leader_epoch=change.leader_epoch,
                    new_isr_with_epochs=[BrokerState(*member) for member in change.members],
                    leader_recovery_state=LeaderRecoveryState.RECOVERED,
                    partition_epoch=change.partition_epoch,
                )
            )
        return AlterPartitionRequest(broker_id=self._node_id, broker_epoch=broker_epoch, topics=list(topics.values()))


def _outcomes(response: AlterPartitionResponse) -> dict[Key, Outcome]:
    outcomes: dict[Key, Outcome] = {}
    for topic in response.topics:
        for one in topic.partitions:
            outcome: Outcome
            if one.error_code:
                outcome = error_class(one.error_code)
            elif one.leader_recovery_state in list(LeaderRecoveryState):
                outcome = IsrAnswer(one.leader_epoch, tuple(one.isr), one.partition_epoch)
            else:
                outcome = UnknownServerError
            outcomes[topic.topic_id, one.partition_index] = outcome
    return outcomes
