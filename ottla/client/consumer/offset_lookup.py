"""Offsets by time: the beginning of a log, its end, or the first record not before a moment.

`OffsetLookup.find` asks the leaders of any partitions and waits through what passes by itself; `ask` asks once, and
tells what could not be had. Called by the consumer for its users, and by `positions` for the reset policy.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from ottla.client.errors import KafkaTimeout
from ottla.client.network import Build, Deadline, Metadata, NetworkClient, within
from ottla.errors import (
    FencedLeaderEpoch,
    KafkaError,
    KafkaStorageError,
    LeaderNotAvailable,
    NotLeaderOrFollower,
    OffsetNotAvailable,
    ReplicaNotAvailable,
    TopicAuthorizationFailed,
    UnknownLeaderEpoch,
    UnknownTopicOrPartition,
    UnsupportedForMessageFormat,
    error_class,
)
from ottla.types import TopicPartition
from ottla.wire.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
)
from ottla.world import Promise

log = logging.getLogger(__name__)

LIST_OFFSETS_KEY = 2
LATEST = -1
EARLIEST = -2
MAX_TIMESTAMP = -3
ISOLATION_VERSION = 2

PASSING = {
    error.code
    for error in (
        NotLeaderOrFollower,
        ReplicaNotAvailable,
        KafkaStorageError,
        OffsetNotAvailable,
        LeaderNotAvailable,
        FencedLeaderEpoch,
        UnknownLeaderEpoch,
        UnknownTopicOrPartition,
    )
}
"""Answers that newer metadata, or a moment, mends."""


class FoundOffset(NamedTuple):
    """What a leader told: the offset, its record's timestamp (-1 without one) and leader epoch (-1 likewise)."""

    offset: int
    timestamp: int
    leader_epoch: int


class OffsetLookup:
    """Asks leaders for offsets."""

    def __init__(self, network: NetworkClient, metadata: Metadata, *, is_read_committed: bool) -> None:
        self._network = network
        self._metadata = metadata
        self._world = network.world
        self._is_read_committed = is_read_committed

    async def find(
        self, targets: Mapping[TopicPartition, int], timeout_ms: float | None
    ) -> dict[TopicPartition, FoundOffset | None]:
        """For each partition the offset of its timestamp; None where there is no record so late.

        The metadata of the topics must be wanted by somebody. `KafkaTimeout` when not all could be had.
        """
        deadline = Deadline(self._world, timeout_ms)
        found: dict[TopicPartition, FoundOffset | None] = {}
        failures = 0
        while True:
            open_targets = {partition: at for partition, at in targets.items() if partition not in found}
            reason = await self.ask(open_targets, found.__setitem__, deadline.left_ms)
            if len(found) == len(targets):
                return found
            trouble = self._metadata.last_error
            if trouble is not None and not trouble.retriable:
                raise trouble
            left_ms = deadline.left_ms
            delay_ms = self._network.retry_backoff.delay_ms(failures)
            failures += 1
            if left_ms is not None and left_ms <= 0:
                missing = ", ".join(str(partition) for partition in targets if partition not in found)
                raise KafkaTimeout(
                    f"Failed to get offsets by times within {timeout_ms:g} ms for partitions {missing}"
                    + (f": {trouble or reason}" if trouble or reason else "")
                )
            await self._metadata_or_delay(delay_ms if left_ms is None else min(delay_ms, left_ms))

    async def _metadata_or_delay(self, delay_ms: float) -> None:
        """Wait for newer metadata, and at least for the backoff, for that may not be what was wrong."""
        self._metadata.request_update()
        await self._world.tasks.sleep_ms(delay_ms)

    async def ask(
        self,
        targets: Mapping[TopicPartition, int],
        on_found: Callable[[TopicPartition, FoundOffset | None], object],
        timeout_ms: float | None = None,
    ) -> KafkaError | None:
        """Ask each leader once, and tell `on_found` as answers come. What is missing then is worth asking again for;
        the result is one of the reasons. What is not is raised."""
        by_leader: dict[int, dict[TopicPartition, int]] = {}
        cluster = self._metadata.cluster
        reason: KafkaError | None = None
        for partition, timestamp in targets.items():
            info = cluster.topics.get(partition.topic)
            if info is not None and info.error_code == TopicAuthorizationFailed.code:
                raise TopicAuthorizationFailed(f"Not authorized to access topics: [{partition.topic}]")
            leader = cluster.leader(partition)
            if leader is None:
                known = cluster.partition(partition) is not None
                reason = (LeaderNotAvailable if known else UnknownTopicOrPartition)(str(partition))
            else:
                by_leader.setdefault(leader.node_id, {})[partition] = timestamp
        if reason is not None:
            self._metadata.request_update()
        asked: list[tuple[dict[TopicPartition, int], Promise[ListOffsetsResponse]]] = [
            (part, self._send(leader, part, timeout_ms)) for leader, part in by_leader.items()
        ]
        for _, promise in asked:
            promise.add_done_callback(_look)  # should another leader's answer be raised, nobody looks at this one
        for part, promise in asked:
            try:
                response = await within(self._world, promise, timeout_ms, "ListOffsets")
            except KafkaError as error:
                if not error.retriable:
                    raise
                reason = error
                self._metadata.request_update()
                continue
            reason = self._take(part, response, on_found) or reason
        return reason

    def _send(
        self, leader: int, part: Mapping[TopicPartition, int], timeout_ms: float | None
    ) -> Promise[ListOffsetsResponse]:
        cluster = self._metadata.cluster
        request_ms = self._network.config.request_timeout_ms

        def make(version: int) -> ListOffsetsRequest:
            topics: dict[str, ListOffsetsTopic] = {}
            for (name, partition), timestamp in part.items():
                topic = topics.setdefault(name, ListOffsetsTopic(name=name, partitions=[]))
                info = cluster.partition(TopicPartition(name, partition))
                epoch = -1 if info is None else info.leader_epoch
                topic.partitions.append(
                    ListOffsetsPartition(partition_index=partition, current_leader_epoch=epoch, timestamp=timestamp)
                )
            return ListOffsetsRequest(
                replica_id=-1,
                isolation_level=int(self._is_read_committed),
                topics=list(topics.values()),
                timeout_ms=int(request_ms if timeout_ms is None else min(timeout_ms, request_ms)),
            )

        version_min = ISOLATION_VERSION if self._is_read_committed else 1
        return self._network.send(leader, Build(LIST_OFFSETS_KEY, make, version_min=version_min))

    def _take(
        self,
        asked: Mapping[TopicPartition, int],
        response: ListOffsetsResponse,
        on_found: Callable[[TopicPartition, FoundOffset | None], object],
    ) -> KafkaError | None:
        reason: KafkaError | None = None
        for topic in response.topics:
            for told in topic.partitions:
                partition = TopicPartition(topic.name, told.partition_index)
                if partition not in asked:
                    continue
                code = told.error_code
                if code == 0:
                    is_there = told.offset >= 0
                    on_found(
                        partition, FoundOffset(told.offset, told.timestamp, told.leader_epoch) if is_there else None
                    )
                elif code == UnsupportedForMessageFormat.code:
                    on_found(partition, None)  # records so old that they have no timestamps
                elif code in PASSING:
                    reason = error_class(code)(f"{partition}: {error_class(code).__doc__}")
                    self._metadata.request_update()
                elif code == TopicAuthorizationFailed.code:
                    raise TopicAuthorizationFailed(f"Not authorized to access topics: [{topic.name}]")
                else:
                    error = error_class(code)(f"{partition}: {error_class(code).__doc__}")
                    if not error.retriable:
                        raise error
                    log.warning("[%s] Looking up an offset of %s failed: %s", self._network.name, partition, error.name)
                    reason = error
        return reason


def _look(done: Any) -> None:
    if not done.cancelled():
        done.exception()
