"""Which partition a record goes to: by its key, by what was sent before, or by what the user says.

Without `partitioner.class` a record with a key goes to `partition_of(key, count)`, and one without goes where
`StickyPartitioner` is: it stays with a partition for `batch.size` bytes, so that batches fill, and then moves, more
often to partitions whose queues are short (KIP-794). Promises: a partition is one of the topic's; one without a leader
is chosen only when all have none. The choices need no I/O and no clock. Called by the accumulator, once a record.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Sequence
from itertools import accumulate
from typing import TYPE_CHECKING, Any, Protocol

from ottla.records import partition_of

if TYPE_CHECKING:
    from ottla.client.network import Cluster

__all__ = [
    "FunctionPartitioner",
    "Partitioner",
    "RoundRobinPartitioner",
    "StickyPartitioner",
    "UniformStickyPartitioner",
    "available_partitions",
    "partition_of",
]


class Bits(Protocol):
    """Randomness, as the world's has it."""

    def getrandbits(self, k: int, /) -> int: ...


class Partitioner(Protocol):
    """What `partitioner.class` is. It may also have `bind(random)`, called once before it is used, and `close()`."""

    def partition(
        self,
        topic: str,
        key: Any,
        key_bytes: bytes | None,
        value: Any,
        value_bytes: bytes | None,
        cluster: Cluster,
    ) -> int:
        """The index of a partition of the topic, which has at least one."""
        ...


def available_partitions(cluster: Cluster, topic: str) -> list[int]:
    """The partitions of the topic that have a leader, in order."""
    info = cluster.topics.get(topic)
    if info is None:
        return []
    nodes = cluster.nodes
    return sorted(index for index, partition in info.partitions.items() if partition.leader in nodes)


class StickyPartitioner:
    """Where the records of one topic go that have no key.

    `partition` is where the next one goes; `appended` counts what was written there. `update_load` is called now and
    then with the queue of each partition; until it was, all partitions are as likely.
    """

    __slots__ = ("_bytes", "_heights", "_partition", "_random", "_sticky_bytes", "_weighed", "topic")

    def __init__(self, topic: str, sticky_bytes: int, random: Bits) -> None:
        assert sticky_bytes >= 1, "a partition is left after at least one byte"
        self.topic = topic
        self._sticky_bytes = sticky_bytes
        self._random = random
        self._partition = -1
        self._bytes = 0
        self._heights: list[int] | None = None
        self._weighed: Sequence[int] = ()

    def partition(self, cluster: Cluster) -> int:
        """The partition of the next record; the same until enough bytes were appended."""
        if self._partition < 0:
            self._partition = self._next(cluster)
        return self._partition

    def appended(self, size: int, cluster: Cluster, *, may_switch: bool = True) -> None:
        """Count bytes appended to the current partition, and move on after `sticky_bytes`.

        `may_switch=False` says that the partition's last batch is not full and still lingers: moving now would leave
        it small. Even so no more than twice the bytes go to one partition.
        """
        self._bytes += size
        if self._bytes >= self._sticky_bytes * (1 if may_switch else 2):
            self._partition = self._next(cluster)
            self._bytes = 0

    def update_load(self, queue_sizes: Sequence[int] | None, partitions: Sequence[int], partition_count: int) -> None:
        """Weigh partitions by their queues, the shortest most. None, or nothing to tell apart, makes all alike.

        `partitions[i]` has `queue_sizes[i]` batches; those without a leader, or whose broker is too slow
        (`partitioner.availability.timeout.ms`), are left out, while `partition_count` counts all.
        """
        self._heights = None
        if not queue_sizes or partition_count < 2:
            return
        assert len(queue_sizes) == len(partitions) <= partition_count, "each partition named has one queue"
        longest = max(queue_sizes)
        if longest == min(queue_sizes) and len(queue_sizes) == partition_count:
            return
        # A partition's weight is how much shorter its queue is than one more than the longest.
        self._heights = list(accumulate(longest + 1 - size for size in queue_sizes))
        self._weighed = tuple(partitions)

    def _next(self, cluster: Cluster) -> int:
        # One draw for each choice, whether queues weigh or not: what a simulation draws later does not depend on it.
        draw = self._random.getrandbits(31)
        if self._heights is not None:
            return self._weighed[bisect_right(self._heights, draw % self._heights[-1])]
        available = available_partitions(cluster, self.topic)
        if available:
            return available[draw % len(available)]
        return draw % cluster.partition_count(self.topic)


class RoundRobinPartitioner:
    """Each record to the next partition that has a leader, whatever its key."""

    def __init__(self) -> None:
        self._counts: dict[str, int] = {}
        self._seen: Cluster | None = None
        self._available: dict[str, list[int]] = {}

    def partition(
        self,
        topic: str,
        key: Any,
        key_bytes: bytes | None,
        value: Any,
        value_bytes: bytes | None,
        cluster: Cluster,
    ) -> int:
        if cluster is not self._seen:
            self._seen = cluster
            self._available = {}
        available = self._available.get(topic)
        if available is None:
            available = self._available[topic] = available_partitions(cluster, topic)
        count = self._counts.get(topic, 0)
        self._counts[topic] = count + 1
        return available[count % len(available)] if available else count % cluster.partition_count(topic)


class UniformStickyPartitioner:
    """Every record, with or without a key, to one partition for a while, then to any other, all as likely.

    Kafka had it under this name until it became the default for records without a key; there it looks at neither
    queues nor keys. Ours counts the bytes of keys and values and moves after `batch_size` of them.
    """

    def __init__(self, batch_size: int = 16_384) -> None:
        self._batch_size = max(1, batch_size)
        self._topics: dict[str, StickyPartitioner] = {}
        self._random: Bits | None = None

    def bind(self, random: Bits) -> None:
        """Take the randomness that choices are drawn from."""
        self._random = random

    def partition(
        self,
        topic: str,
        key: Any,
        key_bytes: bytes | None,
        value: Any,
        value_bytes: bytes | None,
        cluster: Cluster,
    ) -> int:
        sticky = self._topics.get(topic)
        if sticky is None:
            assert self._random is not None, "the producer binds its partitioner before the first record"
            sticky = self._topics[topic] = StickyPartitioner(topic, self._batch_size, self._random)
        chosen = sticky.partition(cluster)
        sticky.appended(len(key_bytes or b"") + len(value_bytes or b""), cluster)
        return chosen


class FunctionPartitioner:
    """A plain function in the place of an object, with the same arguments."""

    __slots__ = ("_function",)

    def __init__(self, function: Callable[[str, Any, bytes | None, Any, bytes | None, Cluster], int]) -> None:
        self._function = function

    def partition(
        self,
        topic: str,
        key: Any,
        key_bytes: bytes | None,
        value: Any,
        value_bytes: bytes | None,
        cluster: Cluster,
    ) -> int:
        return self._function(topic, key, key_bytes, value, value_bytes, cluster)
