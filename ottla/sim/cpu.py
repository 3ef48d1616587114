"""A processor that takes time: what each call of a node costs, so that a busy node is a slow one.

A call is what runs between two waits: a request that is handled, a timer, a step of a coroutine. Most cost little; now
and then one takes long, as when the garbage collector runs or the machine has something else to do.
"""

from __future__ import annotations

from random import Random


class Cpu:
    """The costs of one node's calls, drawn from `chance`."""

    __slots__ = ("_chance", "_stall_chance", "_stall_us", "_usual_us")

    def __init__(
        self,
        chance: Random,
        *,
        usual_us: tuple[int, int] = (0, 200),
        stall_us: tuple[int, int] = (0, 0),
        stall_chance: float = 0.0,
    ) -> None:
        self._chance = chance
        self._usual_us = usual_us
        self._stall_us = stall_us
        self._stall_chance = stall_chance

    def cost_us(self) -> int:
        """What one call costs, in microseconds."""
        if self._stall_chance and self._chance.random() < self._stall_chance:
            return self._chance.randint(*self._stall_us)
        return self._chance.randint(*self._usual_us)
