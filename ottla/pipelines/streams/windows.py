"""Windows in Kafka Streams' words: how records are put together by time, and for how long late ones are waited for.

Times are milliseconds or a `timedelta`. A window is closed once stream time has passed its end by the grace period;
what comes for it afterwards is late.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta

from ottla.pipelines.errors import PipelineError

Duration = int | timedelta


def milliseconds(duration: Duration, what: str, *, at_least: int = 0) -> int:
    """A duration as milliseconds, refused when it is below `at_least`."""
    value = int(duration / timedelta(milliseconds=1)) if isinstance(duration, timedelta) else int(duration)
    if value < at_least:
        raise PipelineError(f"{what} must be at least {at_least} ms, not {value}")
    return value


@dataclass(frozen=True, slots=True)
class TimeWindows:
    """Windows of one size that begin every `advance_ms`: tumbling when the two are equal, hopping otherwise."""

    size_ms: int
    advance_ms: int
    grace_ms: int = 0

    @classmethod
    def of_size(cls, size: Duration, *, grace: Duration = 0) -> TimeWindows:
        """Tumbling windows: [0, size), [size, 2 size) and so on."""
        size_ms = milliseconds(size, "a window's size", at_least=1)
        return cls(size_ms, size_ms, milliseconds(grace, "the grace period"))

    def advance_by(self, advance: Duration) -> TimeWindows:
        """Hopping windows: a record belongs to each window that covers its time."""
        advance_ms = milliseconds(advance, "the advance", at_least=1)
        if advance_ms > self.size_ms:
            raise PipelineError(f"the advance, {advance_ms} ms, must not exceed the size, {self.size_ms} ms")
        return TimeWindows(self.size_ms, advance_ms, self.grace_ms)

    def starts(self, timestamp: int) -> list[int]:
        """The starts of the windows a record of that time belongs to, earliest first; none before time 0."""
        first = max(0, timestamp - self.size_ms + self.advance_ms) // self.advance_ms * self.advance_ms
        return list(range(first, timestamp + 1, self.advance_ms))


@dataclass(frozen=True, slots=True)
class SlidingWindows:
    """Windows [t, t + difference], both ends inside, one for each distinct set of records of a key."""

    difference_ms: int
    grace_ms: int = 0

    @classmethod
    def of_time_difference(cls, difference: Duration, *, grace: Duration = 0) -> SlidingWindows:
        """Records belong together when their times are no further apart than `difference`."""
        return cls(milliseconds(difference, "the time difference", at_least=1), milliseconds(grace, "the grace period"))


@dataclass(frozen=True, slots=True)
class SessionWindows:
    """Windows that last as long as a key has a record at least every `gap_ms`."""

    gap_ms: int
    grace_ms: int = 0

    @classmethod
    def of_inactivity_gap(cls, gap: Duration, *, grace: Duration = 0) -> SessionWindows:
        """A session ends once nothing came for `gap`; a record between two sessions makes them one."""
        return cls(milliseconds(gap, "the inactivity gap", at_least=1), milliseconds(grace, "the grace period"))


Windows = TimeWindows | SlidingWindows | SessionWindows


@dataclass(frozen=True, slots=True)
class JoinWindows:
    """How far apart two records that join may be: other in [time - before, time + after]."""

    before_ms: int
    after_ms: int
    grace_ms: int = 0

    @classmethod
    def of_time_difference(cls, difference: Duration, *, grace: Duration = 0) -> JoinWindows:
        """The same distance to both sides."""
        value = milliseconds(difference, "the time difference")
        return cls(value, value, milliseconds(grace, "the grace period"))

    def before(self, difference: Duration) -> JoinWindows:
        """The other record may be at most this much earlier; a negative one means it has to be later."""
        return self._checked(milliseconds(difference, "before", at_least=-self.after_ms), self.after_ms)

    def after(self, difference: Duration) -> JoinWindows:
        """The other record may be at most this much later; a negative one means it has to be earlier."""
        return self._checked(self.before_ms, milliseconds(difference, "after", at_least=-self.before_ms))

    def _checked(self, before_ms: int, after_ms: int) -> JoinWindows:
        return JoinWindows(before_ms, after_ms, self.grace_ms)
