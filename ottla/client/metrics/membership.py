"""A group member's metrics, with Kafka's names: heartbeats, rebalances, commits, and the user's callbacks."""

from __future__ import annotations

from collections.abc import Callable

from ottla.client.metrics.metrics import Metrics

GROUP = "consumer-coordinator-metrics"
SHARE_GROUP = "consumer-share-coordinator-metrics"
HOUR_MS = 3_600_000


class HeartbeatMetrics:
    """Heartbeats and rebalances, as every kind of member has them."""

    def __init__(self, metrics: Metrics, group: str = SHARE_GROUP) -> None:
        self._metrics = metrics
        self._heartbeat = metrics.series()
        self._heartbeat_ms: float | None = None
        # Rebalances are rare: they are counted by the hour.
        self._rebalance = metrics.series(window_ms=HOUR_MS)
        metrics.add(group, "heartbeat-response-time-max", self._heartbeat.maximum)
        metrics.add_counter(self._heartbeat, group, "heartbeat")
        metrics.add(group, "last-heartbeat-seconds-ago", lambda now_ms: _seconds_ago(self._heartbeat_ms, now_ms))
        metrics.add(group, "rebalance-total", lambda now_ms: self._rebalance.count)
        metrics.add(group, "rebalance-rate-per-hour", lambda now_ms: self._rebalance.count_rate(now_ms) * 3600)

    def heartbeat_sent(self) -> None:
        """A heartbeat is under way."""
        self._heartbeat_ms = self._metrics.clock_ms()

    def heartbeat_answered(self, latency_ms: float) -> None:
        self._heartbeat.record(latency_ms, self._metrics.clock_ms())

    def rebalanced(self, latency_ms: float) -> None:
        """The member has its partitions, so long after it lost touch with the last ones."""
        self._rebalance.record(latency_ms, self._metrics.clock_ms())


class CoordinatorMetrics(HeartbeatMetrics):
    """A consumer's: with commits and callbacks, and of a classic group also how long joining takes."""

    def __init__(self, metrics: Metrics, *, assigned: Callable[[], int], is_classic: bool) -> None:
        super().__init__(metrics, GROUP)
        self._rebalance_latency = metrics.series()
        self._rebalance_ms: float | None = None
        self._rebalance_failed = metrics.series(window_ms=HOUR_MS)
        self._commit = metrics.series()
        self._callbacks = {kind: metrics.series() for kind in ("assigned", "revoked", "lost")}
        self._join = metrics.series()
        self._sync = metrics.series()
        metrics.add(GROUP, "assigned-partitions", lambda now_ms: assigned())
        metrics.add_average(self._rebalance_latency, GROUP, "rebalance-latency")
        metrics.add(GROUP, "rebalance-latency-total", lambda now_ms: self._rebalance_latency.total)
        metrics.add(GROUP, "last-rebalance-seconds-ago", lambda now_ms: _seconds_ago(self._rebalance_ms, now_ms))
        metrics.add(GROUP, "failed-rebalance-total", lambda now_ms: self._rebalance_failed.count)
        metrics.add(
            GROUP, "failed-rebalance-rate-per-hour", lambda now_ms: self._rebalance_failed.count_rate(now_ms) * 3600
        )
        metrics.add_average(self._commit, GROUP, "commit-latency")
        metrics.add_counter(self._commit, GROUP, "commit")
        for kind, series in self._callbacks.items():
            metrics.add_average(series, GROUP, f"partition-{kind}-latency")
        if is_classic:
            metrics.add_average(self._join, GROUP, "join-time")
            metrics.add_counter(self._join, GROUP, "join")
            metrics.add_average(self._sync, GROUP, "sync-time")
            metrics.add_counter(self._sync, GROUP, "sync")

    def rebalanced(self, latency_ms: float) -> None:
        super().rebalanced(latency_ms)
        self._rebalance_ms = self._metrics.clock_ms()
        self._rebalance_latency.record(latency_ms, self._rebalance_ms)

    def rebalance_failed(self) -> None:
        self._rebalance_failed.record(1, self._metrics.clock_ms())

    def committed(self, latency_ms: float) -> None:
        """A commit was answered."""
        self._commit.record(latency_ms, self._metrics.clock_ms())

    def called_back(self, kind: str, latency_ms: float) -> None:
        """The listener's `assigned`, `revoked` or `lost` took so long."""
        self._callbacks[kind].record(latency_ms, self._metrics.clock_ms())

    def joined(self, latency_ms: float) -> None:
        """JoinGroup was answered."""
        self._join.record(latency_ms, self._metrics.clock_ms())

    def synced(self, latency_ms: float) -> None:
        """SyncGroup was answered."""
        self._sync.record(latency_ms, self._metrics.clock_ms())


def _seconds_ago(then_ms: float | None, now_ms: float) -> float:
    """How long ago in whole seconds; -1 when it never was."""
    return -1 if then_ms is None else (now_ms - then_ms) // 1000
