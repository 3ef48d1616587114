"""How long commits and elections take: what `raft-metrics` shows of them.

Promises: an average and a largest value over the last half minute to minute, as Kafka's sensors have them, in constant
memory. Told by `driver`; read when metrics are asked for.
"""

from __future__ import annotations

from ottla.raft.states import Candidate, Prospective, State

WINDOW_MS = 30_000
"""Kafka's `metrics.sample.window.ms`; the current window and the one before it count."""


class Latency:
    """Durations of the last two windows."""

    def __init__(self) -> None:
        self._window = -1
        self._now = _Sample()
        self._before = _Sample()

    def record(self, duration_ms: float, now_ms: float) -> None:
        self._turn(now_ms)
        self._now.count += 1
        self._now.total += duration_ms
        self._now.largest = max(self._now.largest, duration_ms)

    def average(self, now_ms: float) -> float:
        """0 where nothing was recorded."""
        self._turn(now_ms)
        count = self._now.count + self._before.count
        return (self._now.total + self._before.total) / count if count else 0.0

    def largest(self, now_ms: float) -> float:
        self._turn(now_ms)
        return max(self._now.largest, self._before.largest)

    def _turn(self, now_ms: float) -> None:
        window = int(now_ms // WINDOW_MS)
        if window != self._window:
            self._before = self._now if window == self._window + 1 else _Sample()
            self._now = _Sample()
            self._window = window


class _Sample:
    __slots__ = ("count", "largest", "total")

    def __init__(self) -> None:
        self.count = 0
        self.total = 0.0
        self.largest = 0.0


class QuorumTimes:
    """What one node of the quorum measures."""

    def __init__(self) -> None:
        self.commit = Latency()
        """From an append of this leader to its commit."""
        self.election = Latency()
        """From when this node stood for election until it knew a leader."""
        self._electing_since_ms: float | None = None

    def on_state(self, state: State, leader_id: int, now_ms: float) -> None:
        """This is what the node is now."""
        if isinstance(state, Prospective | Candidate):
            if self._electing_since_ms is None:
                self._electing_since_ms = now_ms
        elif self._electing_since_ms is not None and leader_id >= 0:
            self.election.record(now_ms - self._electing_since_ms, now_ms)
            self._electing_since_ms = None
