"""The time-outs of consumer group members; what is done when one is due is the caller's.

session     the member has not been heard of
rebalance   it has not given up its partitions
join, sync  a member of the classic protocol has not joined again, or has not asked for its assignment
"""

from __future__ import annotations

from collections.abc import Callable

from ottla.coordinator.timers import Timers

KINDS = ("session", "rebalance", "join", "sync")

_KEYS = {kind: f"consumer-{kind}" for kind in KINDS}


class Timeouts:
    """See the module. A decision is given as what makes it; see `Timers`."""

    __slots__ = ("_timers",)

    def __init__(self, timers: Timers) -> None:
        self._timers = timers

    def set(self, kind: str, group_id: str, member_id: str, delay_ms: int, decide: Callable[[], object]) -> None:
        self._timers.schedule((_KEYS[kind], group_id, member_id), delay_ms, decide)

    def set_if_absent(
        self, kind: str, group_id: str, member_id: str, delay_ms: int, decide: Callable[[], object]
    ) -> None:
        self._timers.schedule_if_absent((_KEYS[kind], group_id, member_id), delay_ms, decide)

    def cancel(self, kind: str, group_id: str, member_id: str) -> None:
        self._timers.cancel_with_records((_KEYS[kind], group_id, member_id))

    def cancel_all(self, group_id: str, member_id: str) -> None:
        for kind in KINDS:
            self.cancel(kind, group_id, member_id)
