"""The fetchers of this node: which partition is fetched from which leader, and the requests that go there.

Promises: partitions of one leader are spread over `num.replica.fetchers` fetchers by Kafka's hash of their names; each
fetcher has one request under way and a session of its own; one without partitions ends. A leader that does not answer
is tried again every `replica.fetch.backoff.ms`. Called by `manager` when metadata changes; `Peers` is the way to the
other brokers.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Protocol, TypeAlias

from ottla.errors import InternalError, KafkaError, NetworkException
from ottla.net import ConnectionRefused
from ottla.replica.fetcher import (
    Delayed,
    Fact,
    Failed,
    Fetcher,
    FetcherSettings,
    Logs,
    Restarted,
    SessionEnded,
    Truncated,
)
from ottla.replica.fetcher_session import Key
from ottla.types import TopicPartition, Uuid
from ottla.wire import Message
from ottla.world import NodeWorld, Timer

if TYPE_CHECKING:
    from ottla.net import OnAnswer

log = logging.getLogger(__name__)

SETTLING_MS = 500
"""How long after a leader has hung up its partitions may be expected to get another one."""

FetcherId: TypeAlias = tuple[int, int]
"""The leader, and which of the fetchers from it."""


class Peers(Protocol):
    """The way to the other brokers of the cluster."""

    def send_then(
        self, node_id: int, request: Message, on_answer: OnAnswer, /, *, timeout_ms: float, lane: str
    ) -> None:
        """Call `on_answer` with the broker's answer, in the newest version that both know, or with why there is none;
        perhaps before this returns. What it raises of an answer it is told as the error. Each lane is a connection of
        its own: a fetch may be a long poll."""
        ...


class FetcherManager:
    """See the module."""

    def __init__(
        self,
        world: NodeWorld,
        logs: Logs,
        peers: Peers,
        settings: FetcherSettings,
        *,
        broker_epoch: Callable[[], int],
        fetcher_count: int = 1,
        timeout_ms: int = 30_000,
    ) -> None:
        self._world = world
        self._logs = logs
        self._peers = peers
        self._settings = settings
        self._broker_epoch = broker_epoch
        self._timeout_ms = timeout_ms
        self.fetcher_count = fetcher_count
        """`num.replica.fetchers`: how many fetch from each leader."""
        self.fetchers: dict[FetcherId, _Running] = {}
        self.lost_ms: dict[int, int] = {}
        """Leaders that have hung up on a fetch and not answered one since: when that was, in monotonic time."""
        self._places: dict[Key, tuple[FetcherId, TopicPartition, int]] = {}
        """Where each partition is fetched, and in which leader epoch."""

    # Which partitions

    def follow(self, name: TopicPartition, topic_id: Uuid, *, leader_id: int, leader_epoch: int) -> None:
        """Fetch a partition from its leader, from now on or still."""
        key = (topic_id, name.partition)
        place = (leader_id, fetcher_of(name, self.fetcher_count))
        known = self._places.get(key)
        if known is not None and known[0] != place:
            self.unfollow(name, topic_id)
        self._places[key] = (place, name, leader_epoch)
        running = self.fetchers.get(place)
        if running is None:
            running = self.fetchers[place] = _Running(self, place)
        running.add(name, topic_id, leader_epoch)

    def unfollow(self, name: TopicPartition, topic_id: Uuid) -> None:
        """Fetch it no more: it is led here, or by nobody, or it is gone."""
        place = self._places.pop((topic_id, name.partition), None)
        if place is not None and place[0] in self.fetchers:
            self.fetchers[place[0]].remove(topic_id, name.partition)

    def resize(self, fetcher_count: int) -> None:
        """Spread the partitions over another number of fetchers."""
        if fetcher_count == self.fetcher_count:
            return
        log.info("[FetcherManager broker=%d] Resizing from %d to %d fetchers of each leader",
                 self._settings.node_id, self.fetcher_count, fetcher_count)  # fmt: skip
        self.fetcher_count = fetcher_count
        for (topic_id, _), ((leader_id, _), name, leader_epoch) in list(self._places.items()):
            self.follow(name, topic_id, leader_id=leader_id, leader_epoch=leader_epoch)

    def stop(self) -> None:
        """End every fetcher; what is under way is forgotten."""
        for running in self.fetchers.values():
            running.stop()
        self.fetchers.clear()
        self._places.clear()

    # What it shows

    def is_settling(self, leader_id: int) -> bool:
        """Whether a leader has just hung up, as one does whose process dies: the metadata may name another soon."""
        lost_ms = self.lost_ms.get(leader_id)
        return lost_ms is not None and self._world.clock.monotonic_ms() - lost_ms < SETTLING_MS

    @property
    def max_lag(self) -> int:
        """By how many records the replica that lags most is behind its leader's high watermark."""
        return max((one.core.max_lag for one in self.fetchers.values()), default=0)

    @property
    def failed_count(self) -> int:
        """How many partitions wait for newer metadata before they are fetched again."""
        return sum(len(one.core.failed) for one in self.fetchers.values())


class _Running:
    """One fetcher and its requests.

    It is driven by calls and has no task. The next request goes out from within the callback of an answer: it tells the
    leader that the records have arrived, and producers with acks=all wait for that.
    """

    def __init__(self, manager: FetcherManager, place: FetcherId) -> None:
        self._manager = manager
        self._world = manager._world
        self._place = place
        self._lane = f"fetcher-{place[1]}"
        self.core = Fetcher(manager._logs, manager._settings, manager._broker_epoch)
        self._under_way: Message | None = None
        """The request that waits for its answer."""
        self._is_woken = False
        self._timer: Timer | None = None
        self._is_stopped = False

    def __str__(self) -> str:
        leader_id, fetcher_id = self._place
        return f"ReplicaFetcher replicaId={self.core.settings.node_id}, leaderId={leader_id}, fetcherId={fetcher_id}"

    def add(self, name: TopicPartition, topic_id: Uuid, leader_epoch: int) -> None:
        self._tell(self.core.add(name, topic_id, leader_epoch))
        self._wake()

    def remove(self, topic_id: Uuid, index: int) -> None:
        self.core.remove(topic_id, index)
        self._wake()

    def stop(self) -> None:
        self._is_stopped = True
        self._cancel_timer()

    def _wake(self) -> None:
        """Ask in a moment: partitions of one change of metadata come one after the other and go in one request."""
        if self._under_way is None and not self._is_woken:
            self._is_woken = True
            self._world.tasks.soon(self._on_woken)

    def _on_woken(self) -> None:
        self._is_woken = False
        if self._under_way is None and not self._is_stopped:
            self._ask()

    def _ask(self) -> None:
        self._cancel_timer()
        request = self.core.next_request(self._world.clock.monotonic_ms())
        if request is not None:
            self._under_way = request
            self._manager._peers.send_then(
                self._place[0], request, self._on_answer, timeout_ms=self._manager._timeout_ms, lane=self._lane
            )
        elif self.core.positions or self.core.failed:
            self._wait()
        else:
            self._end()

    def _on_answer(self, response: Message | None, error: KafkaError | None) -> None:
        """`Peers` hands on what this raises of a response once more, as the error."""
        if self._is_stopped:
            return
        request, self._under_way = self._under_way, None
        if response is None:
            self._on_failure(request, error)
            return
        now_ms = self._world.clock.monotonic_ms()
        lost_ms = self._manager.lost_ms
        if lost_ms:
            lost_ms.pop(self._place[0], None)
        assert request is not None, "an answer has a request"
        facts = self.core.on_response(request, response, now_ms)
        if facts:
            self._tell(facts)
        self._ask()

    def _on_failure(self, request: Message | None, error: KafkaError | None) -> None:
        now_ms = self._world.clock.monotonic_ms()
        self._tell_failure(request, error)
        self.core.on_failure(request, now_ms)
        if isinstance(error, NetworkException) and not isinstance(error, ConnectionRefused):
            self._manager.lost_ms[self._place[0]] = now_ms
        # Not here: `send_then` may have called this, and with a short backoff the two could go on calling each other.
        self._wake()

    def _tell_failure(self, request: Message | None, error: KafkaError | None) -> None:
        what = "the answer before" if request is None else type(request).__name__
        if isinstance(error, InternalError):
            log.error("[%s] Error in response for %s", self, what, exc_info=error)
        else:
            log.warning("[%s] Error in response for %s: %s", self, what, str(error) or type(error).__name__)

    def _wait(self) -> None:
        """Until a partition comes, or one that was delayed is due."""
        wakes_ms = self.core.wakes_ms
        if wakes_ms is not None:
            delay_ms = wakes_ms - self._world.clock.monotonic_ms()
            self._timer = self._world.tasks.later(delay_ms if delay_ms > 0 else self.core.backoff_ms, self._on_woken)

    def _cancel_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _end(self) -> None:
        self.stop()
        if self._manager.fetchers.get(self._place) is self:
            del self._manager.fetchers[self._place]
            self._manager.lost_ms.pop(self._place[0], None)

    def _tell(self, facts: Iterable[Fact]) -> None:
        for fact in facts:
            match fact:
                case Truncated(partition, offset, epoch, end_offset):
                    log.info("[%s] Truncating partition %s to offset %d due to leader epoch %d, which ends at %d",
                             self, partition, offset, epoch, end_offset)  # fmt: skip
                case Restarted(partition, offset):
                    log.warning("[%s] Truncated %s fully: the leader's log begins at %d", self, partition, offset)
                case Delayed(partition, reason, is_expected):
                    level = logging.INFO if is_expected else logging.ERROR
                    log.log(level, "[%s] Partition %s is fetched again later: %s", self, partition, reason)
                case Failed(partition, reason, error):
                    level = logging.WARNING if error is None else logging.ERROR
                    log.log(level, "[%s] Partition %s marked as failed: %s", self, partition, reason, exc_info=error)
                case SessionEnded(reason):
                    log.info("[%s] The leader was unable to go on with the fetch session: %s", self, reason)


def fetcher_of(name: TopicPartition, fetcher_count: int) -> int:
    """Which of the fetchers has a partition, as Kafka spreads them."""
    return java_abs(31 * java_hash(name.topic) + name.partition) % fetcher_count


def java_hash(text: str) -> int:
    """Java's hash of a string: over its UTF-16 units, in 32 bits."""
    found = 0
    units = text.encode("utf-16-be", "surrogatepass")
    for high, low in zip(units[::2], units[1::2], strict=True):
        found = (31 * found + (high << 8 | low)) & 0xFFFF_FFFF
    return found - 2**32 if found >= 2**31 else found


def java_abs(number: int) -> int:
    """Kafka's absolute value of a number that Java keeps in 32 bits: 0 for the one that has none."""
    number = (number + 2**31) % 2**32 - 2**31
    return 0 if number == -(2**31) else abs(number)
