"""A consumer's metrics of being used: how often it is polled, and how long its caller waits."""

from __future__ import annotations

from ottla.client.metrics.metrics import Metrics

GROUP = "consumer-metrics"
SHARE_GROUP = "consumer-share-metrics"


class PollMetrics:
    """Told by the faces when `poll` begins and ends."""

    def __init__(self, metrics: Metrics, group: str = GROUP) -> None:
        self._metrics = metrics
        self._between = metrics.series()
        self._idle = metrics.series()
        self._began_ms: float | None = None
        self._between_last_ms = 0.0
        self._waited_ns = {"commit-sync": 0, "committed": 0}
        metrics.add(group, "last-poll-seconds-ago", self._seconds_ago)
        metrics.add_average(self._between, group, "time-between-poll")
        metrics.add(group, "poll-idle-ratio-avg", self._idle.average)
        if group == GROUP:
            metrics.add(group, "commit-sync-time-ns-total", lambda now_ms: self._waited_ns["commit-sync"])
            metrics.add(group, "committed-time-ns-total", lambda now_ms: self._waited_ns["committed"])

    def began(self) -> None:
        """`poll` was called."""
        now_ms = self._metrics.clock_ms()
        self._between_last_ms = 0.0 if self._began_ms is None else now_ms - self._began_ms
        self._between.record(self._between_last_ms, now_ms)
        self._began_ms = now_ms

    def ended(self) -> None:
        """`poll` returns. The share of the time that is spent in `poll` is the user's idle time."""
        assert self._began_ms is not None, "a poll that ends has begun"
        now_ms = self._metrics.clock_ms()
        poll_ms = now_ms - self._began_ms
        whole_ms = poll_ms + self._between_last_ms
        self._idle.record(poll_ms / whole_ms if whole_ms else 0.0, now_ms)

    def waited(self, time: str, wait_ns: int) -> None:
        """A caller waited so long in `commit` (`commit-sync`) or `committed`."""
        self._waited_ns[time] += wait_ns

    def _seconds_ago(self, now_ms: float) -> float:
        return -1 if self._began_ms is None else (now_ms - self._began_ms) // 1000
