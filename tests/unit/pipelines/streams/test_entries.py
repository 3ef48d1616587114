"""Entries of a key: the same as a dictionary that is sorted, on pages or not, and no more is read than is touched."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from typing import Any

import pytest

from ottla.pipelines.streams import aggregates
from ottla.pipelines.streams.graph import Folds
from ottla.pipelines.streams.tasks import entries as module
from ottla.pipelines.streams.tasks.entries import PAGE, Entries
from ottla.pipelines.streams.tasks.foreign_keys import SUBSCRIBE, Matching
from ottla.pipelines.streams.tasks.gathering import Gathering
from ottla.pipelines.streams.tasks.joining import WindowedJoin
from ottla.pipelines.streams.tasks.sessions import SessionAggregate
from ottla.pipelines.streams.tasks.sliding import SlidingAggregate
from ottla.pipelines.streams.tasks.task import Operator, Record, run
from ottla.pipelines.streams.windows import JoinWindows, SessionWindows, SlidingWindows
from tests.unit.pipelines.streams.test_tasks import Measured, Shelf

COUNT = Gathering(Folds(((None, aggregates.count()),)))
HOUR_MS = 3_600_000


def opened(shelf: Shelf, stored: dict[str, Any], kind: Callable[[str], Any]) -> Entries:
    return Entries(shelf, '{"key": "a"}', "left", json.loads(json.dumps(stored)), kind)


@pytest.mark.parametrize("kind", [int, str])
@pytest.mark.parametrize("seed", range(40))
def test_entries_are_a_sorted_dictionary_whatever_is_done_to_them(
    seed: int, kind: Callable[[Any], Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    choice = random.Random(seed)
    monkeypatch.setattr(module, "PAGE", choice.choice([4, 8, 16]))
    shelf, stored = Shelf(), dict[str, Any]()
    model: dict[Any, list[int]] = {}
    for number in range(60):
        entries = opened(shelf, stored, kind)
        more = choice.random() < (0.8 if number < 30 else 0.3)
        for _ in range(choice.randint(0, 12)):
            key = kind(choice.randrange(200))
            if choice.random() < (0.8 if more else 0.2):
                entries.put(key, [number])
                model[key] = [number]
            else:
                assert entries.pop(key) == model.pop(key, None)
            assert entries.get(key) == model.get(key)
        first, last = sorted([kind(choice.randrange(200)), kind(choice.randrange(200))])
        if choice.random() < 0.1:
            entries.forget(first)
            model = {key: value for key, value in model.items() if key > first}
        assert list(entries.span(first, last)) == sorted(item for item in model.items() if first <= item[0] <= last)
        assert list(entries.back(last)) == sorted((item for item in model.items() if item[0] <= last), reverse=True)
        assert list(entries.span()) == sorted(model.items())
        assert (len(entries), bool(entries)) == (len(model), bool(model))
        stored = entries.stored() if entries else {}
        listed = stored.get("pages", [])
        assert len(shelf) == len(listed), "what is not listed is not there"
        assert sum(count for _, _, count in listed) in (0, len(model))
        assert all(0 < count <= module.PAGE for _, _, count in listed)


def test_few_entries_lie_with_the_key_and_many_on_pages_that_are_read_when_touched() -> None:
    shelf = Measured()
    entries = opened(shelf, {str(time): ["x"] for time in range(PAGE)}, int)
    assert len(entries.stored()) == PAGE
    entries = opened(shelf, {str(time): ["x"] for time in range(100 * PAGE)}, int)
    stored = entries.stored()
    assert len(shelf) == len(stored["pages"]) == 100
    shelf.calls = 0
    entries = opened(shelf, stored, int)
    entries.put(50 * PAGE, ["y"])
    assert entries.get(50 * PAGE + 1) == ["x"]
    entries.stored()
    assert shelf.calls == 2, "one page is read, and written"
    entries.forget(99 * PAGE)
    assert shelf.calls <= 2 + 99 + 1, "pages that are forgotten whole are not read"


HOT: list[Operator] = [
    WindowedJoin(JoinWindows.of_time_difference(5, grace=HOUR_MS), "outer"),
    SlidingAggregate(COUNT, SlidingWindows.of_time_difference(5, grace=HOUR_MS), finals=True),
    SessionAggregate(COUNT, SessionWindows.of_inactivity_gap(5, grace=HOUR_MS)),
]


@pytest.mark.parametrize("operator", HOT, ids=lambda operator: type(operator).__name__)
def test_a_batch_of_a_hot_key_costs_what_it_touches_and_not_what_the_key_has(operator: Operator) -> None:
    def at(time: int) -> Record:
        return Record(time % 2, '{"key": "hot"}', '{"value": 1}', time, "{}")

    def characters(remembered: int) -> int:
        shelf = Measured()
        run(operator, shelf, [at(10_000 + 7 * number) for number in range(remembered)])
        shelf.characters = 0
        for batch in range(10):
            run(operator, shelf, [at(10_000 + 7 * (remembered + 20 * batch + number)) for number in range(20)])
        return shelf.characters

    assert characters(20_000) < 3 * characters(2_000), "ten times as much: the list of pages is what grows"


def test_a_row_that_many_refer_to_is_no_longer_text_with_each_of_them() -> None:
    def told(number: int) -> Record:
        numbers = [str(number), str(SUBSCRIBE), str(number), "0"]
        return Record(0, '{"key": "right"}', "row", 1, json.dumps([json.dumps({"key": f"left {number}"}), *numbers]))

    shelf = Measured()
    run(Matching(), shelf, [told(number) for number in range(20_000)])
    shelf.characters = 0
    [answer] = run(Matching(), shelf, [told(20_001)])
    assert answer.key == '{"key": "left 20001"}'
    assert shelf.characters < 60_000, "a page, and the list of pages"
    assert len(run(Matching(), shelf, [Record(1, '{"key": "right"}', "new", 2)])) == 20_001
