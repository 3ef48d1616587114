"""How fast connections may come: to the node, to a listener, from an address.

Promises, as Kafka's (KIP-612): a rate is the connections of the last `quota.window.num` windows of
`quota.window.size.seconds`, over at least all windows but one, so a short burst passes. Above the limit of the node or
the listener the next connections wait in the system's queue until the rate is down again; an address above its own
limit has the connection held, unanswered, for that long and then closed, and it does not count for the others. No delay
is longer than one window. A rule without I/O; `sockets` acts on it.
"""

from __future__ import annotations

from collections.abc import Mapping

NO_LIMIT = 2**31 - 1
IP = "ip"
CREATION_RATE = "connection_creation_rate"
"""The key of an address's limit among the cluster's quotas."""


class WindowedRate:
    """Events per second over a number of windows."""

    __slots__ = ("_samples", "_window_count", "_window_ms")

    def __init__(self, window_ms: int, window_count: int) -> None:
        self._window_ms = window_ms
        self._window_count = window_count
        self._samples: list[list[int]] = []
        """Start, last event and count of each window that had an event, the oldest first."""

    def record(self, count: int, now_ms: int) -> None:
        """Count events; a negative number takes back what was counted just now."""
        if not self._samples or now_ms - self._samples[-1][0] >= self._window_ms:
            self._samples.append([now_ms, now_ms, 0])
        sample = self._samples[-1]
        sample[1] = now_ms
        sample[2] += count

    def delay_ms(self, limit: int, now_ms: int) -> int:
        """How long to wait until the rate is at `limit` again: 0 when it is not above it, at most a window."""
        oldest_ms = now_ms - self._window_ms * self._window_count
        # A window that reaches into the time that counts does so as a whole.
        self._samples = [sample for sample in self._samples if sample[1] > oldest_ms]
        total = sum(count for _, _, count in self._samples)
        elapsed_ms = now_ms - self._samples[0][0] if self._samples else 0
        missing = self._window_count - 1 - elapsed_ms // self._window_ms
        elapsed_ms += max(0, missing) * self._window_ms
        allowed = limit * elapsed_ms / 1000
        if total <= allowed or limit >= NO_LIMIT:
            return 0
        if limit <= 0:
            return self._window_ms
        return min(self._window_ms, round((total - allowed) / limit * 1000))

    @property
    def is_idle(self) -> bool:
        return not self._samples


class ConnectionRates:
    """The rates of one node's listeners, and their limits."""

    def __init__(self, *, window_ms: int, window_count: int) -> None:
        self._window_ms = window_ms
        self._window_count = window_count
        self.limit = NO_LIMIT
        """`max.connection.creation.rate`."""
        self.listener_limits: dict[str, int] = {}
        """The same of single listeners (`listener.name.NAME.max.connection.creation.rate`, or the node's)."""
        self.exempt = ""
        """The listener that the node's limit does not hold back: the brokers' own, where there are others."""
        self._of_node = self._new()
        self._of_listener: dict[str, WindowedRate] = {}
        self._of_ip: dict[str, WindowedRate] = {}

    def _new(self) -> WindowedRate:
        return WindowedRate(self._window_ms, self._window_count)

    def record(self, listener: str, now_ms: int) -> int:
        """Count a connection; how long its listener takes no further one."""
        own = self._of_listener.setdefault(listener, self._new())
        own.record(1, now_ms)
        delay_ms = own.delay_ms(self.listener_limits.get(listener, NO_LIMIT), now_ms)
        if listener == self.exempt:
            return delay_ms
        self._of_node.record(1, now_ms)
        return max(delay_ms, self._of_node.delay_ms(self.limit, now_ms))

    def record_ip(self, listener: str, ip: str, limit: int | None, now_ms: int) -> int:
        """Count a connection of an address that has a limit; how long it is held before it is closed.

        One that is held was none: it is taken back everywhere.
        """
        if limit is None:
            self._of_ip.pop(ip, None)
            return 0
        rate = self._of_ip.setdefault(ip, self._new())
        rate.record(1, now_ms)
        delay_ms = rate.delay_ms(limit, now_ms)
        if delay_ms:
            rate.record(-1, now_ms)
            self._of_listener[listener].record(-1, now_ms)
            if listener != self.exempt:
                self._of_node.record(-1, now_ms)
        return delay_ms

    def forget_idle(self, now_ms: int) -> None:
        """Drop the addresses that have not connected in all windows: the table holds only those that matter."""
        for ip, rate in list(self._of_ip.items()):
            rate.delay_ms(NO_LIMIT, now_ms)
            if rate.is_idle:
                del self._of_ip[ip]


def ip_limit(quotas: Mapping[tuple[tuple[str, str | None], ...], Mapping[str, float]], ip: str) -> int | None:
    """The limit of an address: its own, or the one for all addresses; None when there is none."""
    for name in (ip, None):
        rate = quotas.get(((IP, name),), {}).get(CREATION_RATE)
        if rate is not None:
            return int(rate)
    return None
