"""A replica on another node, as the leader knows it: where its log ends and begins, and when it was last caught up.

Promises: the rules are those of Kafka's `Replica`. A follower is caught up while its log ends where the leader's does,
and for `replica.lag.time.max.ms` after the last fetch that found it so. A fetch that begins where the leader's log
ended at the fetch before counts for that fetch's time: a follower of a busy partition is never quite at the end.

An idle partition costs a fetch nothing: while nothing has changed, the follower's session says when it has fetched
(`FetchTime`), and that time is read when somebody asks. Called by `leadership`. Times are monotonic.
"""

from __future__ import annotations

UNKNOWN_OFFSET = -1
NEVER_MS = -(2**53)
"""The time of a fetch that there was none of: longer ago than any lag that is allowed."""
NO_BROKER_EPOCH = -1
"""What a request of a version without broker epochs says; it is not checked then."""


class FetchTime:
    """When a fetch session was last used."""

    __slots__ = ("fetched_ms",)

    def __init__(self, now_ms: int) -> None:
        self.fetched_ms = now_ms


class Follower:
    """See the module. `broker_epoch` is that of the last fetch; None before there was one (KIP-903)."""

    __slots__ = (
        "_caught_up_ms",
        "_fetched_ms",
        "_leader_end_offset",
        "_session",
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
        self._session: FetchTime | None = None
        """The session that vouches for the follower: every fetch since the last one recorded has found nothing new."""

    @property
    def caught_up_ms(self) -> int:
        """The last time at which the follower is known to have had everything."""
        if self._session is not None and self._session.fetched_ms > self._caught_up_ms:
            return self._session.fetched_ms
        return self._caught_up_ms

    def is_caught_up(self, leader_end_offset: int, now_ms: int, lag_max_ms: int) -> bool:
        return self.log_end_offset == leader_end_offset or now_ms - self.caught_up_ms <= lag_max_ms

    def reset(self, leader_end_offset: int, now_ms: int, *, is_new_leader: bool, is_in_sync: bool) -> None:
        """A leader epoch begins. Who is in sync has time to fetch; who is not does not hold the high watermark back."""
        self._session = None
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
        self.wake(self._session)
        if fetch_offset >= leader_end_offset:
            self._caught_up_ms = max(self._caught_up_ms, now_ms)
        elif fetch_offset >= self._leader_end_offset:
            self._caught_up_ms = max(self._caught_up_ms, self._fetched_ms)
        self._leader_end_offset = max(self._leader_end_offset, leader_end_offset)
        self._fetched_ms = now_ms
        self.log_end_offset = fetch_offset
        self.log_start_offset = log_start_offset
        self.broker_epoch = broker_epoch

    def rest(self, session: FetchTime) -> None:
        """The follower is at the leader's end: until something changes, each fetch of its session finds it there."""
        self._session = session

    def wake(self, session: FetchTime | None) -> None:
        """That session no longer vouches for the follower; what it has said so far stays true."""
        if session is not None and self._session is session:
            self._fetched_ms = max(self._fetched_ms, session.fetched_ms)
            self._caught_up_ms = max(self._caught_up_ms, session.fetched_ms)
            self._session = None
