"""What became of each resource of a call: a value or an error of its own.

Calls on several resources return `Outcomes`, a mapping from each resource to its `Outcome`. The same object serves both
faces: the blocking one returns it when everything is settled, the async one at once, and `await outcomes` waits for
everything, `await outcomes[key]` for one. Promises: an outcome is settled once and never changes; one resource's error
touches no other; an error that nobody ever looked at is logged when its outcome is dropped, so that a failed
`create_topics` whose result was ignored is not silent.
"""

from __future__ import annotations

import logging
from collections.abc import Generator, Hashable, Iterable, Iterator, Mapping
from typing import Any, Generic, TypeVar

from ottla.errors import KafkaError
from ottla.world import Promise, Tasks

log = logging.getLogger(__name__)

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


class Outcome(Generic[V]):
    """What became of one resource: `result()` is its value, or raises its error; awaited, it is waited for."""

    __slots__ = ("_error", "_is_done", "_is_seen", "_tasks", "_value", "_waiting", "_what")

    def __init__(self, tasks: Tasks, what: str) -> None:
        self._tasks = tasks
        self._what = what
        self._is_done = False
        self._is_seen = False
        self._error: KafkaError | None = None
        self._value: Any = None
        self._waiting: list[Promise[None]] = []

    @property
    def done(self) -> bool:
        """Whether it is settled; always so in what the blocking face returns."""
        return self._is_done

    @property
    def error(self) -> KafkaError | None:
        """Why it failed; None when it did not."""
        assert self._is_done, f"{self._what} is not done yet: await it first"
        self._is_seen = True
        return self._error

    def result(self) -> V:
        """The value, or its error raised."""
        error = self.error
        if error is not None:
            raise error
        value: V = self._value
        return value

    def __await__(self) -> Generator[Any, Any, V]:
        if not self._is_done:
            yield from _wait(self._tasks, self._waiting)
        return self.result()

    def succeed(self, value: V) -> None:
        """Settle it with a value. The admin's to call."""
        self._value = value
        self._settle()

    def fail(self, error: KafkaError) -> None:
        """Settle it with an error. The admin's to call."""
        self._error = error
        self._settle()

    def _settle(self) -> None:
        assert not self._is_done, f"{self._what} is settled twice"
        self._is_done = True
        _wake(self._waiting)

    def __del__(self) -> None:
        if self._error is not None and not self._is_seen:
            log.warning("%s failed, and nobody looked: %s: %s", self._what, type(self._error).__name__, self._error)

    def __repr__(self) -> str:
        if not self._is_done:
            return f"<Outcome of {self._what}: not yet>"
        return f"<Outcome of {self._what}: {self._value if self._error is None else self._error!r}>"


class Outcomes(Mapping[K, Outcome[V]]):
    """The outcome of each resource, in the order they were given.

    `all()` is every value by resource, or raises the first error; `errors` and `succeeded` are the two halves.
    """

    __slots__ = ("_outcomes", "_tasks", "_unsettled", "_waiting")

    def __init__(self, tasks: Tasks, what: str, keys: Iterable[K]) -> None:
        self._tasks = tasks
        self._outcomes: dict[K, Outcome[V]] = {key: Outcome(tasks, f"{what} of {key}") for key in keys}
        self._unsettled = len(self._outcomes)
        self._waiting: list[Promise[None]] = []

    # Looking

    def __getitem__(self, key: K) -> Outcome[V]:
        return self._outcomes[key]

    def __iter__(self) -> Iterator[K]:
        return iter(self._outcomes)

    def __len__(self) -> int:
        return len(self._outcomes)

    @property
    def done(self) -> bool:
        """Whether every one is settled."""
        return not self._unsettled

    def all(self) -> dict[K, V]:
        """Every resource's value; raises the first error if any failed."""
        for error in self.errors.values():  # all of them count as seen: who wants the others has been told of one
            raise error
        return {key: outcome.result() for key, outcome in self._outcomes.items()}

    @property
    def errors(self) -> dict[K, KafkaError]:
        """The resources that failed, and why."""
        errors = {key: outcome.error for key, outcome in self._outcomes.items()}
        return {key: error for key, error in errors.items() if error is not None}

    @property
    def succeeded(self) -> dict[K, V]:
        """The resources that did not fail, and their values."""
        return {key: outcome.result() for key, outcome in self._outcomes.items() if outcome.error is None}

    def __await__(self) -> Generator[Any, Any, Outcomes[K, V]]:
        if self._unsettled:
            yield from _wait(self._tasks, self._waiting)
        return self

    def __repr__(self) -> str:
        return f"Outcomes({self._outcomes!r})"

    # Settling

    def unsettled(self) -> list[K]:
        """Those that are still open."""
        return [key for key, outcome in self._outcomes.items() if not outcome.done]

    def settle(self, key: K, answer: V | KafkaError) -> None:
        """Settle one, if it is open. The admin's to call."""
        outcome = self._outcomes[key]
        if outcome.done:
            return
        if isinstance(answer, KafkaError):
            outcome.fail(answer)
        else:
            outcome.succeed(answer)
        self._unsettled -= 1
        if not self._unsettled:
            _wake(self._waiting)

    def settle_rest(self, error: KafkaError) -> None:
        """Fail everything that is still open."""
        for key in self.unsettled():
            self.settle(key, error)


def _wait(tasks: Tasks, waiting: list[Promise[None]]) -> Generator[Any, Any, None]:
    """Wait with the others, each on a promise of its own: one that is cancelled must not cancel them all."""
    promise: Promise[None] = tasks.promise()
    waiting.append(promise)
    yield from promise.__await__()


def _wake(waiting: list[Promise[None]]) -> None:
    for promise in waiting:
        if not promise.done():
            promise.set_result(None)
    waiting.clear()
