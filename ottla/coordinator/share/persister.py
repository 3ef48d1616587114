"""`Persister`: where the state of share partitions is kept, as their leaders and the group coordinator see it.

Where this node coordinates, that is the share coordinator in the same process; the methods are those of the requests
that go between brokers. Each answers with a promise that fails with a `KafkaError`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol, TypeVar

from ottla.coordinator.share.key import SharePartitionKey
from ottla.coordinator.share.shard import StateSummary, StoredState
from ottla.coordinator.share.state import StateUpdate
from ottla.errors import (
    BrokerNotAvailable,
    CoordinatorLoadInProgress,
    CoordinatorNotAvailable,
    NetworkException,
    NotCoordinator,
    RequestTimedOut,
    UnknownTopicOrPartition,
)
from ottla.world import Promise, Tasks

T = TypeVar("T")

ATTEMPTS_MAX = 9
UNMADE_ATTEMPTS_MAX = 6
BACKOFF_MS = 100
"""Doubled with every attempt. 25 seconds in all are enough for another broker to take over from a coordinator that has
died; a topic that has to be made first is there after one or two attempts, or cannot be made, which is known after
three seconds. Kafka begins with a second, and gives up after 31."""
_TRANSIENT = (
    CoordinatorNotAvailable,
    CoordinatorLoadInProgress,
    NotCoordinator,
    UnknownTopicOrPartition,
    NetworkException,
    RequestTimedOut,
    BrokerNotAvailable,
)
"""What is asked again after: the errors of Kafka's `PersisterStateManager`, and a broker that has just been removed."""


class Persister(Protocol):
    """See the module."""

    def initialize(self, key: SharePartitionKey, *, state_epoch: int, start_offset: int) -> Promise[None]:
        """Begin the state of a share partition; an offset of -1 leaves open where it begins."""
        ...

    def read(self, key: SharePartitionKey, *, leader_epoch: int) -> Promise[StoredState]:
        """The state for a leader of that epoch; older ones can write no more."""
        ...

    def write(self, key: SharePartitionKey, update: StateUpdate) -> Promise[None]: ...

    def read_summary(self, key: SharePartitionKey) -> Promise[StateSummary]: ...

    def delete(self, key: SharePartitionKey) -> Promise[None]: ...


class PatientPersister:
    """A persister over another one that asks again while there is no coordinator, it is still loading, has not heard of
    the topic yet, or cannot be reached.

    `on_absent` is told each time that nobody answered, and says whether `__share_group_state` is still to be made: that
    happens when it is first needed.
    """

    def __init__(self, inner: Persister, tasks: Tasks, on_absent: Callable[[], bool]) -> None:
        self._inner = inner
        self._tasks = tasks
        self._on_absent = on_absent

    def initialize(self, key: SharePartitionKey, *, state_epoch: int, start_offset: int) -> Promise[None]:
        return self._ask(lambda: self._inner.initialize(key, state_epoch=state_epoch, start_offset=start_offset))

    def read(self, key: SharePartitionKey, *, leader_epoch: int) -> Promise[StoredState]:
        return self._ask(lambda: self._inner.read(key, leader_epoch=leader_epoch))

    def write(self, key: SharePartitionKey, update: StateUpdate) -> Promise[None]:
        return self._ask(lambda: self._inner.write(key, update))

    def read_summary(self, key: SharePartitionKey) -> Promise[StateSummary]:
        return self._ask(lambda: self._inner.read_summary(key))

    def delete(self, key: SharePartitionKey) -> Promise[None]:
        return self._ask(lambda: self._inner.delete(key))

    def _ask(self, call: Callable[[], Promise[T]]) -> Promise[T]:
        first = call()
        if first.done() and not _is_early(first):
            return first
        answer: Promise[T] = self._tasks.promise()
        attempt = 1

        def told(done: Promise[T]) -> None:
            nonlocal attempt
            if _is_early(done) and attempt < (UNMADE_ATTEMPTS_MAX if self._on_absent() else ATTEMPTS_MAX):
                self._tasks.later(BACKOFF_MS << (attempt - 1), lambda: call().add_done_callback(told))
                attempt += 1
                return
            try:
                answer.set_result(done.result())
            except Exception as error:  # noqa: BLE001  whatever it is, it is the answer
                answer.set_exception(error)

        first.add_done_callback(told)
        return answer


def _is_early(done: Promise[T]) -> bool:
    """Whether the answer was that there is nobody to ask yet."""
    try:
        done.result()
    except _TRANSIENT:
        return True
    except Exception:  # noqa: BLE001  the caller is told
        return False
    return False
