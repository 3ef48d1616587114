"""The machine that changes replicated state: a decision becomes records, the records become durable, replay applies.

A decision reads state and returns a `Result`: the response, and the records that make it true. `submit` replays the
records at once, so that the next decision sees them, appends them to the replicated log, and parks the response until
they are committed. Replay is the only code that changes state; it also runs for records that came from the log at
start-up or from another leader.

Promises:
- A decision that raises changes nothing, and its promise fails with what it raised.
- A response is given only when everything it rests on is committed: a decision without records waits too, for those
  before it that it may have read. Responses come in the order of the decisions.
- When leadership is lost, everything uncommitted is taken back and every parked response fails with the error that
  sends the asker to the next leader.
- Nothing waits while nothing is uncommitted: the promise is then resolved before `submit` returns.
- A leader without a majority does not grow: with `PARKED_MAX` responses parked, or `UNCOMMITTED_MAX` records
  uncommitted, whatever would add to them is refused, and changes nothing.

Synchronous and silent. Called by the controller and the coordinators; driven by what their logs tell.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, Generic, NamedTuple, TypeVar

from ottla.errors import KafkaError, NotController
from ottla.machine.undo import UndoLog
from ottla.world import Promise

T = TypeVar("T")
R = TypeVar("R")

PARKED_MAX = 10_000
"""How many responses wait for their records at a time."""
UNCOMMITTED_MAX = 100_000
"""How many records can be uncommitted when a decision adds to them; each is kept to be taken back."""


@dataclass(slots=True)
class Result(Generic[T]):
    """What a decision came to: a response, and the records that make it true (often none)."""

    response: T
    records: Sequence[Any] = field(default_factory=list)
    then: Callable[[BaseException | None], object] | None = None
    """Called once: with None when the records are committed, with the error when they will not be. For decisions whose
    answers go to others than the one who asked."""
    is_atomic: bool = True
    """Whether the records are one batch of the log, all or none. Those that are not are cut where they are too many for
    one, and a lost leadership can leave the first ones only: then every beginning of them must be true by itself."""
    rests_on: int | None = None
    """The offset of the last record that a response without records rests on; None where that can be any. A response
    that rests on committed records only waits for nobody."""
    on_appended: Callable[[int], object] | None = None
    """Called with the offset of the last record when the records, if any, are replayed and appended: for what a leader
    remembers beside the replicated state. A decision that is refused does not get so far."""


class _Parked(NamedTuple):
    """A response that waits until `last_offset` is committed."""

    last_offset: int
    name: str
    promise: Promise[Any]
    response: Any
    then: Callable[[BaseException | None], object] | None


class Machine(Generic[R]):
    """Decisions over one replicated state. `R` is the type of a record as it is appended.

    `replay` applies one record; `append` puts records into the log as one atomic unit and returns the offset of the
    last. `promise` makes an open promise: `world.tasks.promise`. All state that `replay` changes is kept in `undo`.
    `not_leading` makes the error of those who ask where this node does not lead, and `overloaded` the error of those
    who ask where too much is uncommitted (the same, unless given: both send the asker back to try again).
    `high_watermark` is asked after an append, where it can have moved with it. `batch_records_max` is where records
    that are not atomic are cut.
    """

    def __init__(
        self,
        replay: Callable[[R], None],
        append: Callable[[Sequence[R]], int],
        *,
        promise: Callable[[], Promise[Any]],
        undo: UndoLog | None = None,
        not_leading: Callable[[str], KafkaError] | None = None,
        overloaded: Callable[[str], KafkaError] | None = None,
        high_watermark: Callable[[], int] | None = None,
        batch_records_max: int | None = None,
        parked_max: int = PARKED_MAX,
        uncommitted_max: int = UNCOMMITTED_MAX,
    ) -> None:
        self._replay = replay
        self._append = append
        self._promise = promise
        self._not_leading = not_leading or _not_controller
        self._overloaded = overloaded or self._not_leading
        self._high_watermark = high_watermark
        self._batch_records_max = batch_records_max
        self._parked_max = parked_max
        self._uncommitted_max = uncommitted_max
        self.undo = UndoLog() if undo is None else undo
        self.undo.is_enabled = False
        self.is_active = False
        self.last_appended = -1
        """The offset of the last record that this leader has appended; -1 when it has appended none."""
        self.committed_end = 0
        """Everything below is committed and replayed."""
        self._parked: deque[_Parked] = deque()

    @property
    def parked_count(self) -> int:
        """How many responses wait for their records to be committed."""
        return len(self._parked)

    @property
    def uncommitted_count(self) -> int:
        """How many records that this leader has appended are not committed."""
        return max(0, self.last_appended + 1 - self.committed_end)

    # Deciding

    def submit(self, name: str, decide: Callable[[], Result[T]]) -> Promise[T]:
        """Run a decision; the promise gets its response once that is committed. `name` says what failed, if it does."""
        promise: Promise[T] = self._promise()
        try:
            answer = self.answer(name, decide, promise)
        except Exception as error:  # noqa: BLE001  whatever it is, it is the answer
            promise.set_exception(error)
        else:
            if answer is not promise:
                promise.set_result(answer)  # type: ignore[arg-type]  # it is the response then
        return promise

    def answer(self, name: str, decide: Callable[[], Result[T]], promise: Promise[T] | None = None) -> T | Promise[T]:
        """The same for those who need no promise where nothing is to be waited for: the response itself, or a promise
        of it (`promise` if that is given). Raises what the decision raised."""
        if not self.is_active:
            raise self._not_leading(name)
        then = None
        try:
            result = decide()
            then = result.then
            assert not self.undo.has_unsealed, f"{name}: a decision changed state; only replay may"
            if result.records:
                if self.last_appended >= self.committed_end:
                    self._check_room(name)
                if result.is_atomic:
                    self._record(result.records)
                else:
                    self._record_in_batches(result.records)
                waits = self.last_appended >= self.committed_end
            else:
                waits = self.last_appended >= self.committed_end and (
                    result.rests_on is None or result.rests_on >= self.committed_end
                )
                if waits:
                    self._check_room(name)
            if result.on_appended is not None:
                result.on_appended(max(self.last_appended, self.committed_end - 1))
        except Exception as error:
            self.undo.revert_unsealed()
            if then is not None:
                then(error)
            raise
        if not waits:
            if then is not None:
                then(None)
            return result.response
        if promise is None:
            promise = self._promise()
        self._parked.append(_Parked(self.last_appended, name, promise, result.response, then))
        return promise

    def _check_room(self, name: str) -> None:
        if len(self._parked) >= self._parked_max or self.uncommitted_count >= self._uncommitted_max:
            raise self._overloaded(name)

    def _record_in_batches(self, records: Sequence[R]) -> None:
        size = self._batch_records_max or len(records)
        for start in range(0, len(records), size):
            self._record(records[start : start + size])

    def _record(self, records: Sequence[R]) -> None:
        """Replay first: a record that cannot be replayed must not get into the log, where every start would meet it."""
        for record in records:
            self._replay(record)
        last_offset = self._append(records)
        assert last_offset > self.last_appended, f"offset {last_offset} was appended after {self.last_appended}"
        self.last_appended = last_offset
        if self._high_watermark is not None and not self._parked:
            high_watermark = self._high_watermark()
            if high_watermark > last_offset:
                # A lone replica has committed them already. Nobody waits for what came before, so it is settled too.
                self.committed_end = high_watermark
                self.undo.forget_unsealed()
                return
        self.undo.seal(last_offset)

    # What the log tells

    def on_leader(self, *, last_appended: int = -1) -> None:
        """This node leads now, and has replayed everything that is committed: decisions may begin.

        Where it has replayed more than that, `last_appended` is the last record: responses wait for it too.
        """
        assert not self.is_active, "it leads already"
        self.is_active = True
        self.undo.is_enabled = True
        self.last_appended = last_appended

    def on_commit(self, base_offset: int, records: Iterable[R], *, end_offset: int) -> None:
        """Records in `[base_offset, end_offset)` are committed; what this leader appended is replayed already."""
        if not self.is_active or base_offset > self.last_appended:
            assert not self._parked, "a leader has replayed what it appended, and it alone appends"
            was_enabled, self.undo.is_enabled = self.undo.is_enabled, False
            for record in records:
                self._replay(record)
            self.undo.is_enabled = was_enabled
        self.on_committed(end_offset)

    def on_committed(self, high_watermark: int) -> None:
        """Everything below `high_watermark` is committed: it stays, and the responses that waited for it go out."""
        self.committed_end = max(self.committed_end, high_watermark)
        self.undo.forget_below(high_watermark)
        parked = self._parked
        while parked and parked[0].last_offset < high_watermark:
            waiting = parked.popleft()
            if not waiting.promise.done():  # the caller may have given up
                waiting.promise.set_result(waiting.response)
            if waiting.then is not None:
                waiting.then(None)

    def on_resign(self) -> None:
        """This node leads no more. What is not committed is taken back: the next leader may never have seen it."""
        self.is_active = False
        self.undo.revert_to(self.committed_end)
        self.undo.is_enabled = False
        self.last_appended = -1
        parked, self._parked = self._parked, deque()
        for waiting in parked:
            error = self._not_leading(waiting.name)
            if not waiting.promise.done():
                waiting.promise.set_exception(error)
            if waiting.then is not None:
                waiting.then(error)


def _not_controller(name: str) -> NotController:
    return NotController(f"{name}: this node is not the active controller")
