"""The machine: transcripts of decisions, commits and lost leaderships."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from itertools import accumulate
from pathlib import Path
from random import Random
from typing import Any

import pytest

from ottla.errors import KafkaStorageError, NotController, TopicAlreadyExists
from ottla.machine import PARKED_MAX, Machine, Result, UndoDict, UndoLog
from tests.support.transcript import check, transcripts

Change = tuple[str, str]
"""A record of these tests: a key and its value, which is empty for a removal."""


class Play:
    """A machine over one dictionary, and a log that is a list."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.undo = UndoLog()
        self.state: UndoDict[str, str] = UndoDict(self.undo)
        self.log: list[Change] = []
        self.next_offset = 0
        self.refuses = False
        self.is_alone = False
        self.batch_sizes: list[int] = []
        self.loop = loop
        self.machine = self.make()
        self.answers: list[tuple[str, asyncio.Future[Any]]] = []

    def make(self, **limits: Any) -> Machine[Change]:
        return Machine(
            self.replay,
            self.append,
            promise=self.loop.create_future,
            undo=self.undo,
            high_watermark=lambda: self.next_offset if self.is_alone else 0,
            **limits,
        )

    def replay(self, record: Change) -> None:
        key, value = record
        if key == "bad!":
            raise ValueError("bad! cannot be replayed")
        if value:
            self.state[key] = value
        else:
            del self.state[key]

    def append(self, records: Sequence[Change]) -> int:
        if self.refuses:
            raise KafkaStorageError("the disk is full")
        self.log += records
        self.batch_sizes.append(len(records))
        self.next_offset += len(records)
        return self.next_offset - 1

    def execute(self, command: str) -> list[str]:
        name, *words = command.split()
        lines: list[str] = getattr(self, "do_" + name.replace("-", "_"))(*words) or []
        return lines + self.news()

    def news(self) -> list[str]:
        """The answers that have come since."""
        lines = []
        for name, promise in list(self.answers):
            if promise.done():
                self.answers.remove((name, promise))
                error = promise.exception()
                lines.append(f"{name}: {promise.result()}" if error is None else f"{name}: {type(error).__name__}")
        return lines

    def submit(self, name: str, result: Result[str]) -> None:
        promise = self.machine.submit(name, lambda: result)
        assert isinstance(promise, asyncio.Future)
        self.answers.append((name, promise))

    def do_lead(self) -> None:
        self.machine.on_leader()

    def do_resign(self) -> None:
        self.machine.on_resign()

    def do_put(self, key: str, value: str) -> None:
        self.submit(f"put {key}", Result(value, [(key, value)]))

    def do_put_many(self, *pairs: str) -> None:
        self.submit("put-many", Result("done", changes(pairs)))

    def do_put_in_batches(self, *pairs: str) -> None:
        self.submit("put-in-batches", Result("done", changes(pairs), is_atomic=False))

    def do_get_resting_on(self, offset: str, key: str) -> None:
        self.submit(f"get {key}", Result(self.state.get(key, "nothing"), rests_on=int(offset)))

    def do_limit(self, *limits: str) -> None:
        """limit batch_records_max=N parked_max=N uncommitted_max=N: a machine with these, which does not lead yet."""
        self.machine = self.make(**{name: int(value) for name, value in changes(limits)})

    def do_batches(self) -> list[str]:
        return [" ".join(str(size) for size in self.batch_sizes) or "none"]

    def do_waiting(self) -> list[str]:
        return [f"{self.machine.parked_count} parked, {self.machine.uncommitted_count} uncommitted"]

    def do_delete(self, key: str) -> None:
        self.submit(f"delete {key}", Result("gone", [(key, "")]))

    def do_get(self, key: str) -> None:
        self.submit(f"get {key}", Result(self.state.get(key, "nothing")))

    def do_fail(self, *words: str) -> None:
        def decide() -> Result[str]:
            raise TopicAlreadyExists(" ".join(words))

        promise = self.machine.submit("fail", decide)
        assert isinstance(promise, asyncio.Future)
        self.answers.append(("fail", promise))

    def do_meddle(self) -> None:
        def decide() -> Result[str]:
            self.state["sly"] = "1"
            return Result("done")

        promise = self.machine.submit("meddle", decide)
        assert isinstance(promise, asyncio.Future)
        self.answers.append(("meddle", promise))

    def do_commit(self, last_offset: str) -> None:
        self.machine.on_committed(int(last_offset) + 1)

    def do_replay(self, base_offset: str, *pairs: str) -> None:
        records = changes(pairs)
        end_offset = int(base_offset) + len(records)
        self.machine.on_commit(int(base_offset), records, end_offset=end_offset)
        self.next_offset = end_offset

    def do_refuse_appends(self) -> None:
        self.refuses = True

    def do_accept_appends(self) -> None:
        self.refuses = False

    def do_lose_the_others(self) -> None:
        """From now on the log has no other replica, and what is appended is committed."""
        self.is_alone = True

    def do_state(self) -> list[str]:
        return [" ".join(f"{key}={value}" for key, value in sorted(self.state.items())) or "empty"]

    def do_log(self) -> list[str]:
        return [" ".join(f"{key}={value}" for key, value in self.log) or "empty"]

    def do_undo_size(self) -> list[str]:
        return [str(len(self.undo))]


def changes(pairs: Sequence[str]) -> list[Change]:
    return [(key, value) for key, _, value in (pair.partition("=") for pair in pairs)]


@pytest.mark.parametrize("path", transcripts("machine"), ids=lambda path: path.stem)
def test_decisions_go_as_the_transcript_says(path: Path, rewrite: bool) -> None:
    loop = asyncio.new_event_loop()
    try:
        check(path, Play(loop).execute, rewrite=rewrite)
    finally:
        loop.close()


def test_a_caller_that_has_given_up_does_not_disturb_the_others() -> None:
    loop = asyncio.new_event_loop()
    try:
        play = Play(loop)
        play.machine.on_leader()
        first = play.machine.submit("first", lambda: Result(1, [("a", "1")]))
        second = play.machine.submit("second", lambda: Result(2, [("b", "1")]))
        third = play.machine.submit("third", lambda: Result(3, [("c", "1")]))
        assert isinstance(first, asyncio.Future)
        assert isinstance(third, asyncio.Future)
        first.cancel()
        play.machine.on_committed(2)
        assert second.result() == 2
        third.cancel()
        play.machine.on_resign()
        assert play.machine.parked_count == 0
        assert play.state == {"a": "1", "b": "1"}
    finally:
        loop.close()


def test_what_needs_no_waiting_needs_no_promise() -> None:
    loop = asyncio.new_event_loop()
    try:
        play = Play(loop)
        with pytest.raises(NotController, match="early"):
            play.machine.answer("early", lambda: Result(0))
        play.machine.on_leader()
        waits = play.machine.answer("waits", lambda: Result("one", [("a", "1")]))
        assert isinstance(waits, asyncio.Future)
        assert not waits.done()
        play.machine.on_committed(1)
        assert waits.result() == "one"
        play.is_alone = True
        assert play.machine.answer("at once", lambda: Result("two", [("a", "2")])) == "two"
        assert (len(play.undo), play.machine.parked_count) == (0, 0)
        with pytest.raises(ValueError, match="cannot be replayed"):
            play.machine.answer("bad", lambda: Result("three", [("a", "3"), ("bad!", "1")]))
        assert play.state == {"a": "2"}, "what was replayed before the failure is taken back"
    finally:
        loop.close()


def test_the_failure_names_what_was_asked() -> None:
    loop = asyncio.new_event_loop()
    try:
        promise = Play(loop).machine.submit("CreateTopics", lambda: Result(None))
        with pytest.raises(NotController, match="CreateTopics"):
            promise.result()
    finally:
        loop.close()


def test_a_leader_without_a_majority_does_not_grow() -> None:
    """A hundred thousand decisions that nobody confirms: what is kept for them has an end, and they are refused."""
    loop = asyncio.new_event_loop()
    try:
        play = Play(loop)
        play.machine.on_leader()
        play.machine.submit("first", lambda: Result(0, [("key", "0")]))
        refused_count = 0
        for number in range(100_000):
            kept = Result(number, [("key", str(number))]) if number % 2 else Result(number)
            promise = play.machine.submit("more", lambda kept=kept: kept)  # type: ignore[misc]
            assert isinstance(promise, asyncio.Future)
            refused_count += promise.done() and isinstance(promise.exception(), NotController)
        assert play.machine.parked_count == PARKED_MAX
        assert len(play.undo) <= PARKED_MAX
        assert refused_count == 100_000 + 1 - PARKED_MAX
        play.machine.on_committed(play.next_offset)
        assert (play.machine.parked_count, len(play.undo)) == (0, 0)
        assert not play.machine.submit("after", lambda: Result(0, [("key", "1")])).done()
    finally:
        loop.close()


def test_what_a_leader_remembers_beside_the_state_is_told_of_what_was_appended_only() -> None:
    loop = asyncio.new_event_loop()
    try:
        play = Play(loop)
        told: list[int] = []
        play.machine.on_leader()
        play.machine.submit("read", lambda: Result(None, on_appended=told.append))
        play.machine.submit("write", lambda: Result(None, [("a", "1"), ("b", "1")], on_appended=told.append))
        play.refuses = True
        refused = play.machine.submit("refused", lambda: Result(None, [("c", "1")], on_appended=told.append))
        with pytest.raises(KafkaStorageError):
            refused.result()
        assert told == [-1, 1]
    finally:
        loop.close()


@pytest.mark.parametrize("seed", range(30))
def test_the_state_after_a_lost_leadership_is_that_of_the_committed_log(seed: int) -> None:
    """Random decisions, commits of a beginning, and losses: the state is what a replay from nothing gives."""
    chance = Random(seed)
    loop = asyncio.new_event_loop()
    try:
        play = Play(loop)
        play.machine = play.make(batch_records_max=3)
        play.machine.on_leader()
        committed = lost_count = 0
        for _ in range(300):
            match chance.choice(["put", "put", "put", "delete", "commit", "lose"]):
                case "put":
                    records = [(chance.choice("abcdefg"), str(chance.random())) for _ in range(chance.randint(1, 9))]
                    is_atomic = chance.random() < 0.5
                    play.submit("put", Result("", records, is_atomic=is_atomic))
                case "delete" if play.state:
                    play.submit("delete", Result("", [(chance.choice(sorted(play.state)), "")]))
                case "commit":
                    ends = [end for end in accumulate(play.batch_sizes) if end > committed]
                    if ends:
                        committed = chance.choice(ends)
                        play.machine.on_committed(committed)
                case "lose":
                    play.machine.on_resign()
                    lost_count += len(play.log) > committed
                    while sum(play.batch_sizes) > committed:
                        play.batch_sizes.pop()
                    del play.log[committed:]
                    play.next_offset = committed
                    assert (play.machine.parked_count, len(play.undo)) == (0, 0)
                    assert dict(play.state) == after(play.log)
                    play.machine.on_leader()
            play.news()
            assert dict(play.state) == after(play.log)
        assert lost_count > 5
    finally:
        loop.close()


def after(log: Sequence[Change]) -> dict[str, str]:
    """What a replay of the log from nothing comes to."""
    state: dict[str, str] = {}
    for key, value in log:
        if value:
            state[key] = value
        else:
            del state[key]
    return state
