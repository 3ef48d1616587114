"""How long to wait after the nth failure: doubling, bounded, and not the same for everybody (KIP-580)."""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil

from ottla.world import ClientWorld, NodeWorld

JITTER = 0.2


@dataclass(frozen=True, slots=True)
class Backoff:
    """`delay_ms(0)` is what to wait after the first failure."""

    first_ms: float
    max_ms: float
    world: ClientWorld | NodeWorld

    def delay_ms(self, failures: int) -> float:
        """The wait after `failures` failures before this one: doubled for each, give or take a fifth.

        Whole milliseconds, as the clock counts them: a fraction left over would be waited for again and again.
        """
        if self.first_ms >= self.max_ms:
            base = self.max_ms if self.first_ms else 0.0
        else:
            base = min(self.first_ms * 2.0 ** min(failures, 30), self.max_ms)
        return float(ceil(base * self.world.random.uniform(1 - JITTER, 1 + JITTER)))
