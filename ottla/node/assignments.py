"""Which log directory each replica is in, told to the controller (KIP-858).

A partition of a node with several directories begins unassigned: the node chooses. The controller has to know, so that
a directory that fails takes just its own replicas offline. Assignments are gathered for a moment and sent together;
what could not be sent, or was refused for now, is tried again; what the controller has no such replica for is dropped,
because its topic is deleted or its partition is reassigned. Called by the replica manager when it opens a log; bounded
by its partitions.
"""

from __future__ import annotations

import logging
from collections.abc import Callable

from ottla.errors import (
    KafkaError,
    NotLeaderOrFollower,
    UnknownTopicId,
    UnknownTopicOrPartition,
    error_class,
)
from ottla.server import ControllerLink
from ottla.types import Uuid
from ottla.wire.messages.assign_replicas_to_dirs import (
    AssignReplicasToDirsRequest,
    AssignReplicasToDirsRequestDirectoryData,
    AssignReplicasToDirsRequestPartitionData,
    AssignReplicasToDirsRequestTopicData,
    AssignReplicasToDirsResponse,
)
from ottla.world import NodeWorld

log = logging.getLogger(__name__)

GATHER_MS = 10
RETRY_MS = 500
PARTITIONS_MAX = 2250
"""How many replicas one request may name; Kafka's own limit."""

# The controller knows more than this node does: there is no such replica here any more.
_GONE = frozenset({UnknownTopicId.code, UnknownTopicOrPartition.code, NotLeaderOrFollower.code})


class Assignments:
    def __init__(self, world: NodeWorld, node_id: int, broker_epoch: Callable[[], int]) -> None:
        self._world = world
        self._node_id = node_id
        self._broker_epoch = broker_epoch
        self._controller: ControllerLink | None = None
        self._pending: dict[tuple[Uuid, int], Uuid] = {}
        self._is_under_way = False

    def __len__(self) -> int:
        """How many the controller has not taken yet."""
        return len(self._pending)

    def start(self, controller: ControllerLink) -> None:
        """From now on the controller can be told: the broker is registered."""
        self._controller = controller
        self._send_soon(GATHER_MS)

    def assign(self, topic_id: Uuid, partition: int, directory_id: Uuid) -> None:
        self._pending[topic_id, partition] = directory_id
        self._send_soon(GATHER_MS)

    def _send_soon(self, delay_ms: int) -> None:
        if self._pending and not self._is_under_way and self._controller is not None:
            self._is_under_way = True
            self._world.tasks.later(delay_ms, lambda: self._world.tasks.spawn(self._send(), "directory-assignments"))

    async def _send(self) -> None:
        assert self._controller is not None, "nothing is sent before `start`"
        sent = dict(list(self._pending.items())[:PARTITIONS_MAX])
        delay_ms = GATHER_MS
        try:
            response = await self._controller.send(self._request(sent), version=0)
            assert isinstance(response, AssignReplicasToDirsResponse), response
            if response.error_code:
                raise error_class(response.error_code)()
            left = self._settle(sent, response)
            if left:
                log.warning("[AssignmentsManager id=%d] The controller has not taken %d of %d replicas' directories",
                            self._node_id, left, len(sent))  # fmt: skip
                delay_ms = RETRY_MS
        except KafkaError as error:
            log.warning("[AssignmentsManager id=%d] Cannot tell the controller of %d replicas yet: %s",
                        self._node_id, len(sent), error)  # fmt: skip
            delay_ms = RETRY_MS
        finally:
            self._is_under_way = False
        self._send_soon(delay_ms)

    def _settle(self, sent: dict[tuple[Uuid, int], Uuid], response: AssignReplicasToDirsResponse) -> int:
        """Forget what is settled; how many of those that were sent are not."""
        settled = 0
        for directory in response.directories:
            for topic in directory.topics:
                for partition in topic.partitions:
                    key = (topic.topic_id, partition.partition_index)
                    if key in sent and (partition.error_code == 0 or partition.error_code in _GONE):
                        settled += 1
                        if self._pending.get(key) == sent[key]:  # it may have moved meanwhile
                            del self._pending[key]
        return len(sent) - settled

    def _request(self, assignments: dict[tuple[Uuid, int], Uuid]) -> AssignReplicasToDirsRequest:
        directories: dict[Uuid, dict[Uuid, list[AssignReplicasToDirsRequestPartitionData]]] = {}
        for (topic_id, index), directory_id in assignments.items():
            partitions = directories.setdefault(directory_id, {}).setdefault(topic_id, [])
            partitions.append(AssignReplicasToDirsRequestPartitionData(index))
        return AssignReplicasToDirsRequest(
            broker_id=self._node_id,
            broker_epoch=self._broker_epoch(),
            directories=[
                AssignReplicasToDirsRequestDirectoryData(
                    directory_id,
                    [AssignReplicasToDirsRequestTopicData(topic_id, found) for topic_id, found in topics.items()],
                )
                for directory_id, topics in directories.items()
            ],
        )
