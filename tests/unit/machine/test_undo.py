"""The undo log: whatever was changed, and however often, it goes back to what it was."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.machine import UndoDict, UndoLog

KEYS = st.integers(0, 4)
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("set"), KEYS, st.integers()),
        st.tuples(st.just("pop"), KEYS, st.none()),
        st.tuples(st.just("setdefault"), KEYS, st.integers()),
        st.tuples(st.just("update"), KEYS, st.integers()),
        st.tuples(st.just("merge"), KEYS, st.integers()),
        st.tuples(st.just("popitem"), KEYS, st.none()),
        st.tuples(st.just("clear"), KEYS, st.none()),
        st.tuples(st.just("assign"), KEYS, st.integers()),
        st.tuples(st.just("put"), KEYS, st.integers()),
        st.tuples(st.just("delete"), KEYS, st.none()),
        st.tuples(st.just("seal"), KEYS, st.none()),
    ),
    max_size=40,
)


class Holder:
    number = 0


class State:
    """A dictionary of each kind, and an attribute, in one undo log."""

    def __init__(self) -> None:
        self.undo = UndoLog()
        self.own: UndoDict[int, int] = UndoDict(self.undo)
        self.plain: dict[int, int] = {}
        self.holder = Holder()

    def change(self, step: str, key: int, value: Any) -> None:
        match step:
            case "set":
                self.own[key] = value
            case "pop":
                self.own.pop(key, None)
            case "setdefault":
                self.own.setdefault(key, value)
            case "update":
                self.own.update({key: value, key + 1: value})
            case "merge":
                self.own |= {key: value}
            case "popitem":
                if self.own:
                    self.own.popitem()
            case "clear":
                self.own.clear()
            case "assign":
                self.undo.assign(self.holder, "number", value)
            case "put":
                self.undo.put(self.plain, key, value)
            case "delete":
                if key in self.plain:
                    self.undo.delete(self.plain, key)

    @property
    def seen(self) -> tuple[dict[int, int], dict[int, int], int]:
        return dict(self.own), dict(self.plain), self.holder.number


@given(STEPS, st.integers(0, 40))
def test_reverting_to_an_offset_leaves_the_state_at_that_offset(steps: list[tuple[str, int, Any]], target: int) -> None:
    state = State()
    history = [state.seen]
    for step, key, value in steps:
        if step == "seal":
            state.undo.seal(len(history) - 1)
            history.append(state.seen)
        else:
            state.change(step, key, value)
    target = min(target, len(history) - 1)
    state.undo.revert_to(target)
    assert state.seen == history[target]
    assert not state.undo.has_unsealed


@given(STEPS)
def test_what_is_forgotten_stays_and_costs_nothing(steps: list[tuple[str, int, Any]]) -> None:
    state = State()
    for step, key, value in steps:
        if step != "seal":
            state.change(step, key, value)
    expected = state.seen
    state.undo.seal(7)
    state.undo.forget_below(7)
    size = len(state.undo)
    state.undo.forget_below(8)
    assert len(state.undo) == 0
    assert size >= (expected != State().seen), "the record at 7 is not below 7"
    state.undo.revert_to(0)
    assert state.seen == expected


def test_an_undo_log_that_is_off_keeps_nothing() -> None:
    state = State()
    state.undo.is_enabled = False
    state.change("set", 1, 1)
    state.change("put", 1, 1)
    state.change("assign", 0, 1)
    state.undo.note(lambda: pytest.fail("nothing is to be taken back"))
    assert len(state.undo) == 0
    state.undo.revert_to(0)
    assert state.seen == ({1: 1}, {1: 1}, 1)


def test_other_changes_are_taken_back_by_the_callers_own_word() -> None:
    undo = UndoLog()
    order: list[str] = []
    undo.note(lambda: order.append("first"))
    undo.note(lambda: order.append("second"))
    undo.seal(3)
    undo.note(lambda: order.append("third"))
    undo.revert_to(4)
    assert order == ["third"]
    undo.revert_to(3)
    assert order == ["third", "second", "first"]


def test_removing_what_is_not_there_changes_nothing() -> None:
    state = State()
    with pytest.raises(KeyError):
        del state.own[1]
    with pytest.raises(KeyError):
        state.own.pop(1)
    with pytest.raises(KeyError):
        state.own.popitem()
    with pytest.raises(KeyError):
        state.undo.delete(state.plain, 1)
    assert not state.undo.has_unsealed


def test_offsets_are_sealed_in_order() -> None:
    undo = UndoLog()
    undo.note(lambda: None)
    undo.seal(5)
    undo.note(lambda: None)
    with pytest.raises(AssertionError, match="sealed already"):
        undo.seal(5)
