"""`Completions`: prepared transactions on their way to the end.

A transaction that is prepared has to end as it says, whatever happens. Its markers go to every partition that still
exists, again and again where a leader cannot be reached, and then the record is written that says it is complete. The
node that stops coordinating forgets what it was doing; the next one finds the prepared state in the log and goes on.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import TYPE_CHECKING

from ottla.coordinator.record import EndMarker
from ottla.coordinator.runtime import Runtime
from ottla.coordinator.transaction.markers import MarkerSender
from ottla.coordinator.transaction.state import TransactionState
from ottla.coordinator.transaction.transaction import Transaction
from ottla.errors import (
    NONE,
    CoordinatorLoadInProgress,
    InvalidProducerEpoch,
    KafkaError,
    KafkaStorageError,
    NetworkException,
    NotCoordinator,
    NotEnoughReplicas,
    NotEnoughReplicasAfterAppend,
    NotLeaderOrFollower,
    RequestTimedOut,
    TransactionCoordinatorFenced,
    UnknownTopicOrPartition,
    UnsupportedForMessageFormat,
    UnsupportedVersion,
    error_class,
)
from ottla.machine import Result
from ottla.types import TopicPartition
from ottla.world import NodeWorld, Promise

if TYPE_CHECKING:
    from ottla.coordinator.transaction.shard import TransactionShard

log = logging.getLogger(__name__)

RETRY_MS, RETRY_MAX_MS = 10, 1000
"""After how long what has failed is tried again, at first and in the end: each time twice as long as before."""
_RETRIABLE = frozenset(
    error.code
    for error in (
        UnknownTopicOrPartition,
        NotLeaderOrFollower,
        NotEnoughReplicas,
        NotEnoughReplicasAfterAppend,
        RequestTimedOut,
        KafkaStorageError,
        NetworkException,
    )
)
_DONE = frozenset([NONE, UnsupportedForMessageFormat.code, UnsupportedVersion.code])
_FENCED = frozenset([InvalidProducerEpoch.code, TransactionCoordinatorFenced.code])


class _Ending:
    """One prepared transaction, and the partitions that have no marker yet."""

    __slots__ = ("_retry_ms", "remaining", "shard", "transaction", "transactional_id")

    def __init__(self, shard: TransactionShard, transactional_id: str, transaction: Transaction) -> None:
        self.shard = shard
        self.transactional_id = transactional_id
        self.transaction = transaction
        self.remaining = dict.fromkeys(transaction.partitions)
        self._retry_ms = RETRY_MS

    def next_retry_ms(self) -> int:
        """How long to wait before the next try."""
        retry_ms = self._retry_ms
        self._retry_ms = min(retry_ms * 2, RETRY_MAX_MS)
        return retry_ms

    @property
    def is_current(self) -> bool:
        """Whether this node still coordinates, and the transaction is what it was."""
        return self.shard.is_loaded and self.shard.transactions.get(self.transactional_id) is self.transaction


class Completions:
    """See the module."""

    def __init__(self, name: str, world: NodeWorld, runtime: Runtime[TransactionShard], markers: MarkerSender) -> None:
        self._name = name
        self._world = world
        self._runtime = runtime
        self._markers = markers
        self.waiting_marker_count = 0
        """Markers that could not be written, and are tried again."""
        self.waiting_append_count = 0
        """Transactions whose markers are all written, and that wait until this can be."""

    def resume(self, shard: TransactionShard) -> None:
        """Go on with what was found prepared in the log, once all that was found is committed.

        The end of the log may be known to this node alone. A marker for a decision that is lost with it, and decided
        otherwise by the next coordinator, could not be taken back.
        """
        prepared = [name for name, one in shard.transactions.items() if one.state.is_prepared]
        if not prepared:
            return

        def committed(error: BaseException | None) -> None:
            if error is not None:
                return  # the next coordinator finds them too
            for transactional_id in prepared:
                log.info("[%s] Sending txn markers for %s in state %s after loading partition %d", self._name,
                         transactional_id, shard.transactions[transactional_id].state,
                         shard.context.index)  # fmt: skip
                self.begin(shard, transactional_id)

        waiting = self._runtime.write(shard.context.index, "load", lambda _: Result(None, then=committed))
        waiting.add_done_callback(_heard)

    def begin(self, shard: TransactionShard, transactional_id: str) -> None:
        """Bring a prepared transaction to its end, beginning when whoever asked for it has been answered."""
        ending = _Ending(shard, transactional_id, shard.transactions[transactional_id])
        self._world.tasks.soon(lambda: self._send(ending))

    def _send(self, ending: _Ending) -> None:
        if not ending.is_current:
            return
        self._skip_deleted(ending)
        if not ending.remaining:
            self._complete(ending)
            return
        transaction = ending.transaction
        marker = EndMarker(
            transaction.producer_id,
            transaction.producer_epoch,
            ending.shard.context.leader_epoch,
            transaction.state is TransactionState.PREPARE_COMMIT,
        )
        sent = self._markers.send(marker, list(ending.remaining), transaction_version=transaction.client_version)
        if sent.done():
            self._on_sent(ending, sent.result())
        else:
            sent.add_done_callback(lambda done: self._on_sent(ending, done.result()))

    def _skip_deleted(self, ending: _Ending) -> None:
        topics = self._runtime.image.topics.by_name
        deleted = [
            one
            for one in ending.remaining
            if one.topic not in topics or one.partition not in topics[one.topic].partitions
        ]
        if deleted:
            log.info(
                "[%s] Couldn't find leader endpoint for partitions %s while trying to send transaction markers for %s, "
                "these partitions are likely deleted already and hence can be skipped",
                self._name, ", ".join(map(str, deleted)), ending.transactional_id,
            )  # fmt: skip
            for one in deleted:
                del ending.remaining[one]

    def _on_sent(self, ending: _Ending, codes: Mapping[TopicPartition, int]) -> None:
        if not ending.is_current:
            log.info("[%s] No longer the coordinator for %s; cancel sending transaction markers to the brokers",
                     self._name, ending.transactional_id)  # fmt: skip
            return
        for partition, code in codes.items():
            if code in _DONE:
                del ending.remaining[partition]
                continue
            name = error_class(code).name
            if code in _FENCED:
                # Somebody newer has ended it: another coordinator, whose word counts.
                log.info("[%s] Sending %s's transaction marker for partition %s has permanently failed with error %s "
                         "with the current coordinator epoch %d; cancel sending any more transaction markers",
                         self._name, ending.transactional_id, partition, name,
                         ending.shard.context.leader_epoch)  # fmt: skip
                return
            log.log(logging.INFO if code in _RETRIABLE else logging.ERROR,
                    "[%s] Sending %s's transaction marker for partition %s has failed with error %s, retrying with "
                    "current coordinator epoch %d", self._name, ending.transactional_id, partition, name,
                    ending.shard.context.leader_epoch)  # fmt: skip
        if not ending.remaining:
            self._complete(ending)
            return
        count = len(ending.remaining)

        def retry() -> None:
            self.waiting_marker_count -= count
            self._send(ending)

        self.waiting_marker_count += count
        self._world.tasks.later(ending.next_retry_ms(), retry)

    def _complete(self, ending: _Ending) -> None:
        written = self._runtime.write(
            ending.shard.context.index,
            "CompleteTxn",
            lambda shard: shard.complete(ending.transactional_id, ending.transaction),
        )
        if written.done():
            self._on_completed(ending, written)
        else:
            written.add_done_callback(lambda done: self._on_completed(ending, done))

    def _on_completed(self, ending: _Ending, written: Promise[None]) -> None:
        try:
            written.result()
        except (NotCoordinator, CoordinatorLoadInProgress):
            log.info("[%s] No longer the coordinator for transactionalId: %s while trying to append to transaction "
                     "log, skip writing to transaction log", self._name, ending.transactional_id)  # fmt: skip
        except KafkaError as error:
            log.info("[%s] Not available to append the completion of %s: %s; retry appending", self._name,
                     ending.transactional_id, error)  # fmt: skip
            self.waiting_append_count += 1
            self._world.tasks.later(ending.next_retry_ms(), lambda: self._retry(ending))

    def _retry(self, ending: _Ending) -> None:
        self.waiting_append_count -= 1
        if ending.is_current:
            self._complete(ending)


def _heard(waiting: Promise[None]) -> None:
    """That a commit takes long is told to nobody: what follows from it does not depend on this promise."""
    try:
        waiting.result()
    except KafkaError:
        return
