"""`Delivery`: where a record, or a batch of records in the same state, stands between its deliveries.

Available → acquired by a member → available again, acknowledged or archived. Who acquires a record owns it until the
deadline. An acknowledgement changes the state at once and is settled when it is stored: until then nothing else may
happen to the record, and if it cannot be stored the record is its owner's again, or anybody's when time is up.
"""

from __future__ import annotations

from enum import IntEnum
from typing import NamedTuple

NOBODY = ""
"""The owner of a record that no member has acquired."""


class RecordState(IntEnum):
    """The numbers are those of the stored state."""

    AVAILABLE = 0
    ACQUIRED = 1
    ACKNOWLEDGED = 2
    ARCHIVED = 4

    @property
    def is_terminal(self) -> bool:
        """Whether the record will never be delivered again."""
        return self >= RecordState.ACKNOWLEDGED


class AcknowledgeType(IntEnum):
    """What a member says about a record that it has acquired; the numbers are the protocol's."""

    GAP = 0
    ACCEPT = 1
    RELEASE = 2
    REJECT = 3
    RENEW = 4


STATE_OF = {
    AcknowledgeType.GAP: RecordState.ARCHIVED,
    AcknowledgeType.ACCEPT: RecordState.ACKNOWLEDGED,
    AcknowledgeType.RELEASE: RecordState.AVAILABLE,
    AcknowledgeType.REJECT: RecordState.ARCHIVED,
}
"""The state that each acknowledgement leads to; a renewal leads to none."""


class _Before(NamedTuple):
    """What an unsettled change goes back to."""

    state: RecordState
    member_id: str
    count_max: int


class Delivery:
    """See the module."""

    __slots__ = ("_before", "_is_final", "count", "deadline_ms", "member_id", "state")

    def __init__(
        self, state: RecordState, count: int, member_id: str = NOBODY, deadline_ms: float | None = None
    ) -> None:
        self.state = state
        self.count = count
        """How often it was delivered."""
        self.member_id = member_id
        self.deadline_ms = deadline_ms
        """When the acquisition ends."""
        self._before: _Before | None = None
        self._is_final = False

    def copy(self) -> Delivery:
        """The same for a part of what it is about."""
        return Delivery(self.state, self.count, self.member_id, self.deadline_ms)

    @property
    def is_settled(self) -> bool:
        return self._before is None

    @property
    def is_free(self) -> bool:
        """Whether a member may acquire it now."""
        return self.state is RecordState.AVAILABLE and self._before is None

    def acquire(self, member_id: str, deadline_ms: float) -> None:
        assert self.is_free, f"{self.state.name} cannot be acquired"
        self.state = RecordState.ACQUIRED
        self.count += 1
        self.member_id = member_id
        self.deadline_ms = deadline_ms

    def begin(self, state: RecordState, *, count_max: int) -> bool:
        """Change what a member has acquired, for the time being; False when that cannot be done now."""
        before = _Before(self.state, self.member_id, count_max)
        if not self._leave(state, count_max):
            return False
        self._before = before
        return True

    def settle(self, *, is_stored: bool, now_ms: float) -> None:
        """The change that was begun is stored, or could not be."""
        before, self._before = self._before, None
        assert before is not None, "nothing was begun"
        if is_stored or self._is_final:
            self.deadline_ms = None
        elif self.deadline_ms is not None and self.deadline_ms <= now_ms:
            self.state = RecordState.ARCHIVED if self.count >= before.count_max else RecordState.AVAILABLE
            self.member_id = NOBODY
            self.deadline_ms = None
        else:
            self.state = before.state
            self.member_id = before.member_id

    def time_out(self, state: RecordState, *, count_max: int) -> bool:
        """Its owner has kept it for too long: settled at once, whether it can be stored or not."""
        if not self._leave(state, count_max):
            return False
        self.deadline_ms = None
        return True

    def archive(self) -> None:
        """Nobody is to have it, whatever is going on: it is deleted or was aborted."""
        self._is_final = True
        self.state = RecordState.ARCHIVED
        self.member_id = NOBODY
        self.deadline_ms = None

    def _leave(self, state: RecordState, count_max: int) -> bool:
        """From acquired to another state; what was delivered often enough does not become available again."""
        if self._before is not None or self.state is not RecordState.ACQUIRED:
            return False
        if state is RecordState.AVAILABLE and self.count >= count_max:
            state = RecordState.ARCHIVED
        self.state = state
        self.member_id = NOBODY
        return True

    def __repr__(self) -> str:
        return f"Delivery({self.state.name}, {self.count}, {self.member_id!r}, {self.deadline_ms})"
