"""The time-outs of one shard: each has a key, and ends in a decision.

Promises: of each key there is at most one; a time-out that is put off costs no new timer, because most of them are put
off again and again by heartbeats; none fires after `cancel_all`. A time-out that a decision takes back with its records
(`cancel_with_records`) is there again when those cannot be written. Called by the shard's decisions and replay.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable

from ottla.world import Clock, Tasks, Timer


class _Timeout:
    """A time-out: when it is due, what then, and the timer that looks at it."""

    __slots__ = ("deadline", "fire", "timer", "timer_at")

    def __init__(self, deadline: float, fire: Callable[[], object]) -> None:
        self.deadline = deadline
        self.fire = fire
        self.timer: Timer | None = None
        self.timer_at = deadline


class Timers:
    """See the module. `run` is told of each one that is due."""

    __slots__ = ("_clock", "_run", "_tasks", "_timeouts", "taken_back")

    def __init__(self, clock: Clock, tasks: Tasks, run: Callable[[Hashable, Callable[[], object]], object]) -> None:
        self._clock = clock
        self._tasks = tasks
        self._run = run
        self._timeouts: dict[Hashable, _Timeout] = {}
        self.taken_back: dict[Hashable, _Timeout] = {}
        """What the decision that runs now has taken back with its records."""

    def __len__(self) -> int:
        return len(self._timeouts)

    def __contains__(self, key: Hashable) -> bool:
        return key in self._timeouts

    def schedule(self, key: Hashable, delay_ms: float, decide: Callable[[], object]) -> None:
        """Run `decide` once, `delay_ms` from now, as a decision of the shard; what was set for the key is replaced."""
        deadline = self._clock.monotonic_ms() + delay_ms
        timeout = self._timeouts.get(key)
        if timeout is None:
            timeout = self._timeouts[key] = _Timeout(deadline, decide)
            self._arm(key, timeout)
            return
        timeout.fire = decide
        timeout.deadline = deadline
        if deadline < timeout.timer_at:
            if timeout.timer is not None:
                timeout.timer.cancel()
            self._arm(key, timeout)

    def schedule_if_absent(self, key: Hashable, delay_ms: float, decide: Callable[[], object]) -> None:
        """The same, unless something is set for the key."""
        if key not in self._timeouts:
            self.schedule(key, delay_ms, decide)

    def cancel(self, key: Hashable) -> None:
        """Nothing is to happen for the key; nothing is said when there was nothing."""
        timeout = self._timeouts.pop(key, None)
        if timeout is not None and timeout.timer is not None:
            timeout.timer.cancel()

    def cancel_with_records(self, key: Hashable) -> None:
        """The same for a decision whose records make the time-out needless, as those of a member that leaves. Were it
        gone although they could not be written, the member would stay for ever."""
        timeout = self._timeouts.get(key)
        if timeout is not None:
            self.taken_back[key] = timeout
            self.cancel(key)

    def restore(self) -> None:
        """The records of the decision could not be written: what it took back is due when it was."""
        for key, timeout in self.taken_back.items():
            self.schedule_if_absent(key, max(0.0, timeout.deadline - self._clock.monotonic_ms()), timeout.fire)
        self.taken_back.clear()

    def cancel_all(self) -> None:
        for key in list(self._timeouts):
            self.cancel(key)

    def _arm(self, key: Hashable, timeout: _Timeout) -> None:
        timeout.timer_at = timeout.deadline
        delay_ms = max(0.0, timeout.deadline - self._clock.monotonic_ms())
        timeout.timer = self._tasks.later(delay_ms, lambda: self._look(key, timeout))

    def _look(self, key: Hashable, timeout: _Timeout) -> None:
        if self._timeouts.get(key) is not timeout:
            return
        if timeout.deadline > self._clock.monotonic_ms():
            self._arm(key, timeout)  # it was put off
            return
        del self._timeouts[key]
        self._run(key, timeout.fire)
