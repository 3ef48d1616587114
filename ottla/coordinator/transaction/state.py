"""The states of a transaction, with the numbers that the log has and the names that clients are told."""

from __future__ import annotations

from enum import Enum


class TransactionState(Enum):
    """A member's value is its number in the log and its name."""

    EMPTY = 0, "Empty"
    """The transactional id has a producer, and no transaction yet."""
    ONGOING = 1, "Ongoing"
    PREPARE_COMMIT = 2, "PrepareCommit"
    """Decided: whoever coordinates from here on brings the commit to an end."""
    PREPARE_ABORT = 3, "PrepareAbort"
    COMPLETE_COMMIT = 4, "CompleteCommit"
    """Every partition has its marker."""
    COMPLETE_ABORT = 5, "CompleteAbort"
    DEAD = 6, "Dead"
    """About to be removed. Neither this state nor the next is ever in the log; a filter may name them."""
    PREPARE_EPOCH_FENCE = 7, "PrepareEpochFence"

    number: int
    state_name: str

    def __init__(self, number: int, state_name: str) -> None:
        self.number = number
        self.state_name = state_name

    @property
    def is_prepared(self) -> bool:
        """Whether the end is decided and markers are on their way: everybody else has to wait for it."""
        return self in _PREPARED

    @property
    def may_expire(self) -> bool:
        return self in _AT_REST

    @property
    def completed(self) -> TransactionState:
        """What a prepared transaction becomes."""
        assert self.is_prepared, f"{self.state_name} is not prepared"
        return (
            TransactionState.COMPLETE_COMMIT
            if self is TransactionState.PREPARE_COMMIT
            else TransactionState.COMPLETE_ABORT
        )

    def may_follow(self, before: TransactionState) -> bool:
        """Whether a transaction in the state `before` can become this."""
        return before in _BEFORE[self]

    def __str__(self) -> str:
        return self.state_name


S = TransactionState
_PREPARED = frozenset({S.PREPARE_COMMIT, S.PREPARE_ABORT})
_AT_REST = frozenset({S.EMPTY, S.COMPLETE_COMMIT, S.COMPLETE_ABORT})
_BEFORE = {
    S.EMPTY: _AT_REST,
    S.ONGOING: _AT_REST | {S.ONGOING},
    S.PREPARE_COMMIT: frozenset({S.ONGOING}),
    # With transaction version 2 a producer may abort what it is not sure to have begun.
    S.PREPARE_ABORT: _AT_REST | {S.ONGOING, S.PREPARE_EPOCH_FENCE},
    S.COMPLETE_COMMIT: frozenset({S.PREPARE_COMMIT}),
    S.COMPLETE_ABORT: frozenset({S.PREPARE_ABORT}),
    S.DEAD: _AT_REST,
    S.PREPARE_EPOCH_FENCE: frozenset({S.ONGOING}),
}
STATE_BY_NUMBER = {state.number: state for state in TransactionState}
STATE_BY_NAME = {state.state_name: state for state in TransactionState}
