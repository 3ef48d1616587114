"""How far the replicas of a cluster are behind their leaders, as `ottla cluster up` sees it.

What DescribeLogDirs calls a lag is measured from the replica's own high watermark, which is never beyond its own end.
So the brokers are asked where their logs end: the leaders for all partitions with followers, and the followers for
those only whose last known end is another one than the leader's. A cluster at rest costs a line of the leaders'
answers for each partition, whatever the replication factor.

Promises: a follower that does not answer (stopped, cut off, fenced) is behind by what its leader has appended since it
last did. Called by `cluster_watch`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from ottla.types import TopicPartition

if TYPE_CHECKING:
    from ottla.client import AsyncAdmin
    from ottla.client.admin.topics import PartitionDescription, TopicDescription

ANSWER_S = 1.0
"""How long a broker has to say where its logs end. One that is stopped is not to hold up the others' status."""

Ends = dict[TopicPartition, int]


class LagWatch:
    """The ends of the replicas' logs, from one look to the next."""

    def __init__(self) -> None:
        self._ends: dict[int, Ends] = {}
        """The last that each broker has told of its own."""

    async def look(
        self, admin: AsyncAdmin, brokers: Iterable[int], topics: Iterable[TopicDescription]
    ) -> dict[int, int | None]:
        """Ask the live brokers; how many records the replicas of each broker are behind, all together. None where one
        of its replicas or of their leaders has not told yet."""
        alive = set(brokers)
        partitions = {
            TopicPartition(topic.name, one.partition): one
            for topic in topics
            for one in topic.partitions
            if one.leader is not None and len(one.replicas) > 1
        }
        self._forget_all_but(partitions)
        await self._ask(admin, alive, _led(partitions))
        await self._ask(admin, alive, self._moving(partitions))
        return self._lags(partitions)

    def _forget_all_but(self, partitions: Mapping[TopicPartition, PartitionDescription]) -> None:
        self._ends = {
            broker: {key: end for key, end in ends.items() if key in partitions} for broker, ends in self._ends.items()
        }

    async def _ask(self, admin: AsyncAdmin, alive: set[int], wanted: dict[int, list[TopicPartition]]) -> None:
        answers = admin.list_log_ends({one: wanted[one] for one in wanted if one in alive}, timeout=ANSWER_S)
        for broker, ends in (await answers).succeeded.items():
            self._ends.setdefault(broker, {}).update(ends)

    def _moving(self, partitions: Mapping[TopicPartition, PartitionDescription]) -> dict[int, list[TopicPartition]]:
        """The followers to ask, and for what. One in sync whose end was the leader's present one is there still."""
        wanted: dict[int, list[TopicPartition]] = {}
        for key, one in partitions.items():
            assert one.leader is not None, "others were left out"
            leader_end = self._ends.get(one.leader.node_id, {}).get(key)
            in_sync = {replica.node_id for replica in one.isr}
            for replica in one.replicas:
                if replica.node_id == one.leader.node_id:
                    continue
                if replica.node_id not in in_sync or self._ends.get(replica.node_id, {}).get(key) != leader_end:
                    wanted.setdefault(replica.node_id, []).append(key)
        return wanted

    def _lags(self, partitions: Mapping[TopicPartition, PartitionDescription]) -> dict[int, int | None]:
        lags: dict[int, int | None] = {}
        for key, one in partitions.items():
            assert one.leader is not None, "others were left out"
            leader_end = self._ends.get(one.leader.node_id, {}).get(key)
            for replica in one.replicas:
                before = lags.get(replica.node_id, 0)
                end = self._ends.get(replica.node_id, {}).get(key)
                if leader_end is None or end is None or before is None:
                    lags[replica.node_id] = None
                else:
                    # A follower is asked after its leader, and may have fetched more since.
                    lags[replica.node_id] = before + max(leader_end - end, 0)
        return lags


def _led(partitions: Mapping[TopicPartition, PartitionDescription]) -> dict[int, list[TopicPartition]]:
    """What each broker leads."""
    led: dict[int, list[TopicPartition]] = {}
    for key, one in partitions.items():
        assert one.leader is not None, "others were left out"
        led.setdefault(one.leader.node_id, []).append(key)
    return led
