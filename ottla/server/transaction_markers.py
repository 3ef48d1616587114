"""The markers that end transactions: `LocalMarkers` writes them to partitions that this node leads, and `RoutedMarkers`
brings them to whoever leads each partition.

Data partitions get a control batch; partitions of `__consumer_offsets` belong to the group coordinator, which writes
the marker itself and lets the offsets of the transaction count or vanish. WriteTxnMarkers calls `LocalMarkers`;
`RoutedMarkers` is the transaction coordinator's `MarkerSender`.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

from ottla.coordinator import EndMarker
from ottla.errors import (
    NONE,
    CoordinatorLoadInProgress,
    CoordinatorNotAvailable,
    KafkaError,
    KafkaStorageError,
    NotCoordinator,
    NotLeaderOrFollower,
    RequestTimedOut,
    UnknownServerError,
    UnknownTopicOrPartition,
)
from ottla.records import ControlType, EndTransactionMarker, end_transaction_batch
from ottla.replica import OutcomeWaiter, Partition
from ottla.server.broker_requests import NO_BROKER, leader_of
from ottla.server.promises import gathered, mapped
from ottla.server.topic_creation import GROUP_TOPIC
from ottla.storage import AppendOrigin
from ottla.types import TopicPartition
from ottla.world import Promise

if TYPE_CHECKING:
    from ottla.server.broker import BrokerServices
    from ottla.server.remote_markers import RemoteMarkers

log = logging.getLogger(__name__)

AT_ONCE_MAX = 50
"""How many markers are written before others have their turn: a few milliseconds' worth."""


class RoutedMarkers:
    """Markers to the partitions of this node as `LocalMarkers`, to those of others as requests (`RemoteMarkers`).

    `broker` gives the node's services, which are put together after this is. A partition without a leader is answered
    NOT_LEADER_OR_FOLLOWER: the transaction coordinator asks again.
    """

    def __init__(self, broker: Callable[[], BrokerServices]) -> None:
        self._broker = broker
        self._local = LocalMarkers(broker)
        self._remote: RemoteMarkers | None = None

    def send(
        self, marker: EndMarker, partitions: Sequence[TopicPartition], *, transaction_version: int
    ) -> Promise[Mapping[TopicPartition, int]]:
        """See `MarkerSender`."""
        node = self._broker().node
        by_leader: dict[int, list[TopicPartition]] = {}
        for one in partitions:
            by_leader.setdefault(leader_of(node.image, *one), []).append(one)
        if not by_leader or by_leader.keys() == {node.node_id}:
            return self._local.send(marker, partitions, transaction_version=transaction_version)
        codes: dict[TopicPartition, int] = {}
        sent: list[Promise[Mapping[TopicPartition, int]]] = []
        for leader, led in by_leader.items():
            if leader == NO_BROKER:
                codes.update(dict.fromkeys(led, NotLeaderOrFollower.code))
            elif leader == node.node_id:
                sent.append(self._local.send(marker, led, transaction_version=transaction_version))
            else:
                sent.append(self._remotely.send(leader, marker, led, transaction_version=transaction_version))

        def merge(answers: list[Mapping[TopicPartition, int]]) -> Mapping[TopicPartition, int]:
            for answer in answers:
                codes.update(answer)
            return codes

        return mapped(node.world.tasks, gathered(node.world.tasks, sent), merge)

    @property
    def _remotely(self) -> RemoteMarkers:
        if self._remote is None:
            from ottla.server.remote_markers import RemoteMarkers  # a node that is alone never needs it

            self._remote = RemoteMarkers(self._broker())
        return self._remote


class LocalMarkers:
    """See the module. `broker` gives the node's services, which are put together after this is."""

    def __init__(self, broker: Callable[[], BrokerServices]) -> None:
        self._broker = broker

    def send(
        self, marker: EndMarker, partitions: Sequence[TopicPartition], *, transaction_version: int
    ) -> Promise[Mapping[TopicPartition, int]]:
        """See `MarkerSender`."""
        return _Writing(self._broker(), marker, partitions, transaction_version).promise


class _Writing:
    """One marker on its way into many partitions."""

    __slots__ = ("_broker", "_codes", "_marker", "_open", "_transaction_version", "promise")

    def __init__(
        self, broker: BrokerServices, marker: EndMarker, partitions: Sequence[TopicPartition], transaction_version: int
    ) -> None:
        self._broker = broker
        self._marker = marker
        self._transaction_version = transaction_version
        self._codes: dict[TopicPartition, int] = {}
        self._open = len(partitions)
        self.promise: Promise[Mapping[TopicPartition, int]] = broker.node.world.tasks.promise()
        if not partitions:
            self.promise.set_result({})
        else:
            self._write(list(partitions))

    def _write(self, partitions: list[TopicPartition]) -> None:
        waiting: dict[Partition, int] = {}
        for one in partitions[:AT_ONCE_MAX]:
            try:
                partition = self._broker.replicas.by_name.get(one.topic, {}).get(one.partition)
                if partition is None or not partition.is_serving:
                    raise UnknownTopicOrPartition
                if one.topic == GROUP_TOPIC:
                    self._end_offsets(one)
                    continue
                end_offset = self._append(partition)
            except KafkaError as error:
                self._answer(one, error.code)
                continue
            if partition.followers and partition.replication_outcome(end_offset) != NONE:
                waiting[partition] = end_offset
            else:
                self._answer(one, NONE)
        if waiting:
            self._wait(waiting)
        rest = partitions[AT_ONCE_MAX:]
        if rest:
            self._broker.node.world.tasks.soon(lambda: self._write(rest))

    def _append(self, partition: Partition) -> int:
        marker = self._marker
        batch = end_transaction_batch(
            EndTransactionMarker(
                ControlType.COMMIT if marker.is_commit else ControlType.ABORT, marker.coordinator_epoch
            ),
            producer_id=marker.producer_id,
            producer_epoch=marker.producer_epoch,
            timestamp=self._broker.node.world.clock.now_ms(),
        )
        try:
            info = partition.append(
                bytearray(batch), origin=AppendOrigin.COORDINATOR, transaction_version=self._transaction_version
            )
        except KafkaStorageError:
            self._broker.replicas.check_directories()
            raise
        return info.last_offset + 1

    def _wait(self, ends: dict[Partition, int]) -> None:
        """Answer for partitions whose followers have not got the marker yet."""
        broker = self._broker

        def answer() -> None:
            for partition in ends:
                self._answer(partition.name, waiter.outcomes.get(partition, RequestTimedOut.code))

        waiter = OutcomeWaiter(list(ends), lambda partition: partition.replication_outcome(ends[partition]), answer)
        broker.replicas.waiters.park(waiter, broker.node.config.request_timeout_ms)

    def _end_offsets(self, one: TopicPartition) -> None:
        def ended(done: Promise[None]) -> None:
            try:
                done.result()
            except (CoordinatorNotAvailable, CoordinatorLoadInProgress, NotCoordinator):
                # What a transaction coordinator, which asks leaders, understands: not ready yet.
                self._answer(one, NotLeaderOrFollower.code)
            except KafkaError as error:
                self._answer(one, error.code)
            except Exception:
                log.exception("[TransactionMarkers] The end of a transaction could not be written to %s", one)
                self._answer(one, UnknownServerError.code)
            else:
                self._answer(one, NONE)

        written = self._broker.groups.complete_transaction(
            one.partition, self._marker, transaction_version=self._transaction_version
        )
        if written.done():
            ended(written)
        else:
            written.add_done_callback(ended)

    def _answer(self, one: TopicPartition, code: int) -> None:
        self._codes[one] = code
        self._open -= 1
        if not self._open:
            self.promise.set_result(self._codes)
