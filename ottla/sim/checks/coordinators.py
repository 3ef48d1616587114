"""Who may answer for a group: who leads its partition, and whoever does not know yet that it leads it no more.

Kafka's group coordinator answers OffsetFetch from memory and asks nobody whether it still leads. A fetch is a read at
the last committed offset, or with `require_stable` a write without records, which completes at once where no write is
pending (`CoordinatorRuntime` of 4.3.1: `CoordinatorReadEvent.run`, and `CoordinatorContext.append` with no records).
So a broker that was paused or cut off while another was elected answers with the offsets of its own reign until
metadata tells it of the election. That much is allowed, and no more: at the time of the answer a node must take itself
for the leader in an epoch that was superseded, and nothing may be missing that was acknowledged before that election.

Told by the images that nodes publish, so by what they act on. A node that does not serve yet is fenced and leads
nothing, so nothing is missed before it does.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TypeAlias

Offsets: TypeAlias = Mapping[str, Mapping[int, int]]
"""The acknowledged offset of every partition, by group."""


@dataclass(slots=True)
class _Reign:
    """A node's belief that it leads a partition in an epoch."""

    epoch: int
    ended_ms: int | None = None


class Coordinators:
    """The leaders of the groups' topic, as each life of each node knows them. `acknowledged` is asked at elections."""

    def __init__(self, now_ms: Callable[[], int], acknowledged: Callable[[], Offsets]) -> None:
        self._now_ms = now_ms
        self._acknowledged = acknowledged
        self._newest: dict[int, int] = {}
        self._at_end: dict[tuple[int, int], Offsets] = {}
        """What was acknowledged when the epoch of a partition was superseded."""
        self._reigns: dict[int, list[_Reign]] = {}
        self._current: dict[str, dict[int, _Reign]] = {}
        """By the life that believes in it, and by partition."""

    def on_image(self, life: str, node_id: int, leaders: Mapping[int, tuple[int, int]]) -> None:
        """One life of a node knows these leaders and epochs from now on, by partition."""
        current = self._current.setdefault(life, {})
        for index, (leader, epoch) in leaders.items():
            newest = self._newest.setdefault(index, epoch)
            if epoch > newest:
                known = self._acknowledged()
                self._at_end.update(((index, ended), known) for ended in range(newest, epoch))
                self._newest[index] = epoch
            reign = current.get(index)
            if reign is not None and (reign.epoch != epoch or leader != node_id):
                reign.ended_ms = self._now_ms()
                reign = current.pop(index) and None
            if reign is None and leader == node_id:
                current[index] = _Reign(epoch)
                self._reigns.setdefault(index, []).append(current[index])

    def on_death(self, life: str) -> None:
        for reign in self._current.pop(life, {}).values():
            reign.ended_ms = self._now_ms()

    def floors(self, index: int, group: str, *, since_ms: int) -> list[Mapping[int, int]]:
        """For each node that took itself for the leader of the partition at some time since then and was replaced:
        the offsets that were acknowledged when it was."""
        return [
            self._at_end[index, reign.epoch][group]
            for reign in self._reigns.get(index, ())
            if reign.epoch < self._newest[index] and (reign.ended_ms is None or reign.ended_ms >= since_ms)
        ]
