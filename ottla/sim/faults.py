"""What is to go wrong, and when: the nth call fails, or the node dies before, in or after it.

Promises: a plan counts calls from the moment it is made, so the same plan over the same operations strikes the same
call; a plan that has struck is spent. Called by `disk`, which asks at the start of every operation.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Literal, TypeAlias

Kind: TypeAlias = Literal[
    "open",
    "create",
    "read",
    "write",
    "truncate",
    "allocate",
    "sync",
    "scan",
    "stat",
    "set_modified",
    "make_dirs",
    "rename",
    "remove",
    "remove_tree",
    "sync_dir",
    "lock",
]
"""An operation on the disk. `write` is both ways of writing, `scan` also `names`, `stat` whatever only looks."""

CHANGES: tuple[Kind, ...] = (
    "create",
    "write",
    "truncate",
    "allocate",
    "sync",
    "make_dirs",
    "rename",
    "remove",
    "remove_tree",
    "sync_dir",
)
"""The operations after which a crash can leave something different behind: the points worth crashing at."""

Moment: TypeAlias = Literal["before", "during", "after"]
"""Where in an operation a fault strikes. `during` a write, part of it is done; what is atomic is done or is not."""


class SimulatedCrash(BaseException):
    """The node dies here. No `except Exception` may survive it, and no clean-up may touch the disk any more."""


@dataclass(slots=True)
class Fault:
    """One thing to go wrong. `error` is the errno to raise; `None` means that the node dies."""

    countdown: int
    kinds: frozenset[Kind] | None
    error: int | None
    moment: Moment


class FaultPlan:
    """The faults that are still to come, of one disk."""

    __slots__ = ("_faults",)

    def __init__(self) -> None:
        self._faults: list[Fault] = []

    def __bool__(self) -> bool:
        return bool(self._faults)

    def add(self, nth: int, kinds: Collection[Kind] | None, error: int | None, moment: Moment) -> None:
        """Strike at the nth operation from now, the next being the first; with `kinds` only those count."""
        assert nth >= 1, "the next operation is the first"
        self._faults.append(Fault(nth, None if kinds is None else frozenset(kinds), error, moment))

    def strike(self, kind: Kind) -> Fault | None:
        """Count this operation, and take the fault that is due; the one planned first where two are."""
        due = None
        for fault in self._faults:
            if fault.kinds is None or kind in fault.kinds:
                fault.countdown -= 1
                if fault.countdown <= 0 and due is None:
                    due = fault
        if due is not None:
            self._faults.remove(due)
        return due

    def clear(self) -> None:
        self._faults.clear()
