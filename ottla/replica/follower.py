"""A replica on another node, as the leader knows it: where its log ends and begins, and when it was last caught up.

Promises: the rules are those of Kafka's `Replica`. A follower is caught up while its log ends where the leader's does,
and for `replica.lag.time.max.ms` after the last fetch that found it so. A fetch that begins where the leader's log
ended at the fetch before counts for that fetch's time: a follower of a busy partition is never quite at the end.

An idle partition costs a fetch nothing: while nothing has changed, the follower's session says when it has fetched
(`FetchTimes`), and that time is read when somebody asks. Called by `leadership`. Times are monotonic.
"""

from __future__ import annotations

UNKNOWN_OFFSET = -1
NEVER_MS = -(2**53)
"""The time of a fetch that there was none of: longer ago than any lag that is allowed."""
NO_BROKER_EPOCH = -1
"""What a request of a version without broker epochs says; it is not checked then."""


class FetchTimes:
    """When a fetch session was last used, and the time before that."""

    __slots__ = ("fetched_ms", "previous_ms")

    def __init__(self, now_ms: int) -> None:
        self.fetched_ms = now_ms
        self.previous_ms = now_ms

    def fetch(self, now_ms: int) -> None:
        """Another fetch has come."""
        self.previous_ms = self.fetched_ms
        self.fetched_ms = now_ms


class Follower:
    """See the module. `broker_epoch` is that of the last fetch; None before there was one (KIP-903)."""

    __slots__ = (
        "_caught_up_ms",
        "_fetched_ms",
        "_leader_end_offset",
        "_times",
        "broker_epoch",
        "log_end_offset",
        "log_start_offset",
    )

    def __init__(self) -> None:
        self.log_end_offset = UNKNOWN_OFFSET
        self.log_start_offset = UNKNOWN_OFFSET
        self.broker_epoch: int | None = None
        self._leader_end_offset = 0
        """Where the leader's log ended at the last fetch."""
        self._fetched_ms = NEVER_MS
        self._caught_up_ms = NEVER_MS
        self._times: FetchTimes | None = None
        """The session that vouches for the follower: every fetch since the last one recorded has found nothing new."""

    @property
    def caught_up_ms(self) -> int:
        """The last time at which the follower is known to have had everything."""
        if self._times is not None and self._times.fetched_ms > self._caught_up_ms:
            return self._times.fetched_ms
        return self._caught_up_ms

    def is_caught_up(self, leader_end_offset: int, now_ms: int, lag_max_ms: int) -> bool:
        return self.log_end_offset == leader_end_offset or now_ms - self.caught_up_ms <= lag_max_ms

    def reset(self, leader_end_offset: int, now_ms: int, *, is_new_leader: bool, is_in_sync: bool) -> None:
        """A leader epoch begins. Who is in sync has time to fetch; who is not does not hold the high watermark back."""
        self._times = None
        self._caught_up_ms = now_ms if is_in_sync else NEVER_MS
        if is_new_leader:
            self.log_end_offset = self.log_start_offset = self._leader_end_offset = UNKNOWN_OFFSET
            self._fetched_ms = NEVER_MS
            self.broker_epoch = None
        else:
            self._leader_end_offset = leader_end_offset
            self._fetched_ms = now_ms if is_in_sync else NEVER_MS

    def record_fetch(
        self, fetch_offset: int, log_start_offset: int, leader_end_offset: int, now_ms: int, broker_epoch: int
    ) -> None:
        """The follower has everything below `fetch_offset`, while the leader's log ends at `leader_end_offset`."""
        times = self._times
        if times is not None:
            # The session's fetches since the last one recorded here; the one being recorded may be among them.
            idle_ms = times.fetched_ms if times.fetched_ms < now_ms else times.previous_ms
            self._fetched_ms = max(self._fetched_ms, idle_ms)
            self._caught_up_ms = max(self._caught_up_ms, idle_ms)
            self._times = None
        if fetch_offset >= leader_end_offset:
            self._caught_up_ms = max(self._caught_up_ms, now_ms)
        elif fetch_offset >= self._leader_end_offset:
            self._caught_up_ms = max(self._caught_up_ms, self._fetched_ms)
        self._leader_end_offset = max(self._leader_end_offset, leader_end_offset)
        self._fetched_ms = now_ms
        self.log_end_offset = fetch_offset
        self.log_start_offset = log_start_offset
        self.broker_epoch = broker_epoch

    def rest(self, times: FetchTimes) -> None:
        """The follower is at the leader's end: until something changes, each fetch of its session finds it there."""
        self._times = times

    def wake(self) -> None:
        """The session no longer vouches for the follower; what it has said so far stays true."""
        if self._times is not None:
            self._caught_up_ms = self.caught_up_ms
            self._fetched_ms = max(self._fetched_ms, self._times.fetched_ms)
            self._times = None
