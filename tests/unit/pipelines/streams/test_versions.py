"""Versioned tables, change by change, without Spark: against a model that keeps everything."""

from __future__ import annotations

import itertools
import json
import random

import pytest

from ottla.pipelines import PipelineError
from ottla.pipelines.streams import StreamsBuilder
from ottla.pipelines.streams.evolution import compare, notes
from ottla.pipelines.streams.planning import has_state, plan
from ottla.pipelines.streams.tasks.task import Output, Record, Task, run
from ottla.pipelines.streams.tasks.versions import History, VersionedLookup
from tests.unit.pipelines.streams.test_tasks import Shelf, record

HISTORY_MS = 20


def admitted(history: History, shelf: Shelf, changes: list[tuple[int, str]]) -> list[bool]:
    task = Task.load(shelf)
    taken = history.admitted(task, changes)
    task.save()
    return taken


def found(outputs: list[Output]) -> list[tuple[int, object]]:
    """When each record came, and the row that it found."""
    return [(one.timestamp, None if one.other is None else json.loads(one.other)["value"]) for one in outputs]


def test_a_record_finds_the_row_that_held_at_its_time() -> None:
    operator, shelf = VersionedLookup("left", HISTORY_MS), Shelf()
    table = [record("a", 10, "ten", 1), record("a", 20, None, 1), record("a", 15, "fifteen", 1)]
    assert found(run(operator, shelf, [*table, *(record("a", time) for time in (9, 10, 14, 15, 19, 20, 30))])) == [
        (9, None), (10, "ten"), (14, "ten"), (15, "fifteen"), (19, "fifteen"), (20, None), (30, None),
    ]  # fmt: skip
    assert found(run(operator, shelf, [record("a", 32, "new", 1), record("a", 12), record("a", 11)])) == [
        (12, "ten"),
        (11, None),
    ], "older than the history nothing is found"
    assert found(run(operator, shelf, [record("b", 99, "b", 1), record("a", 40), record("a", 33)])) == [
        (40, "new"),
        (33, "new"),
    ], "but the newest row, which never expires"
    assert found(run(VersionedLookup("inner", HISTORY_MS), shelf, [record("a", 31), record("a", 50)])) == [(50, "new")]


@pytest.mark.parametrize("seed", range(30))
def test_lookups_find_what_a_table_that_keeps_everything_has_however_they_are_cut_into_batches(seed: int) -> None:
    choice = random.Random(seed)
    records: list[Record] = []
    for number in range(120):
        time = max(0, number - choice.randint(0, 30))
        value = None if choice.random() < 0.3 else number
        records.append(record(choice.choice("abc"), time, value, side=1) if choice.random() < 0.6 else
                       record(choice.choice("abc"), time, number))  # fmt: skip
    expected: list[tuple[int, object]] = []
    history, task, now = History(HISTORY_MS, newest_only=False), Task(Shelf()), -1
    rows: dict[str, dict[int, object]] = {}
    kept: list[Record] = []
    for one in records:
        assert one.key is not None
        if one.side == 1:
            if not history.admitted(task, [(one.timestamp, one.key)])[0]:
                continue
            now = max(now, one.timestamp)
            rows.setdefault(one.key, {})[one.timestamp] = json.loads(one.value)["value"] if one.value else None
        else:
            held = rows.get(one.key, {})
            before = [time for time in held if time <= one.timestamp]
            is_known = one.timestamp >= now - HISTORY_MS or (before and max(held) <= one.timestamp)
            expected.append((one.timestamp, held[max(before)] if before and is_known else None))
        kept.append(one)
    for cuts in ([], sorted(choice.sample(range(1, len(kept)), 9)), list(range(1, len(kept)))):
        shelf = Shelf()
        outputs: list[Output] = []
        for start, end in itertools.pairwise([0, *cuts, len(kept)]):
            outputs += run(VersionedLookup("left", HISTORY_MS), shelf, kept[start:end])
        assert found(outputs) == expected
    run(VersionedLookup("left", HISTORY_MS), shelf, [record("z", 10_000, None, 1), record("z", 10_001, None, 1)])
    left = [
        json.loads(text)["versions"] for key, text in shelf.items() if key.startswith('{"key": "') and "z" not in key
    ]
    assert len(left) == sum(held[max(held)] is not None for held in rows.values()), "a row that is there stays"
    assert all(len(versions) == 1 and next(iter(versions.values())) != [None] for versions in left), "history ends"


def test_a_change_older_than_the_history_is_none_and_one_out_of_order_only_where_newest_rows_count() -> None:
    changes = [(100, "a"), (79, "a"), (80, "a"), (90, "b"), (100, "a"), (85, "b"), (130, "c"), (109, "b"), (110, "b")]
    assert admitted(History(HISTORY_MS, newest_only=False), Shelf(), changes) == [
        True, False, True, True, True, True, True, False, True,
    ]  # fmt: skip
    assert admitted(History(HISTORY_MS, newest_only=True), Shelf(), changes) == [
        True, False, False, True, True, False, True, False, True,
    ]  # fmt: skip


@pytest.mark.parametrize("seed", range(10))
def test_what_a_history_takes_does_not_depend_on_batches_and_its_keys_are_forgotten(seed: int) -> None:
    choice = random.Random(seed)
    changes = [(max(0, number - choice.randint(0, 30)), choice.choice("abcdef")) for number in range(100)]
    history = History(HISTORY_MS, newest_only=True)
    whole = admitted(history, Shelf(), changes)
    shelf = Shelf()
    assert [admitted(history, shelf, [change])[0] for change in changes] == whole
    assert admitted(history, shelf, [(10_000, "last")]) == [True]
    assert admitted(history, shelf, [(10_001, "last")]) == [True]
    assert [key for key, _ in shelf.items() if key in "abcdef" and key] == []


@pytest.mark.parametrize("histories", [(20, 1_000_000), (1_000_000, 20)])
def test_a_history_of_another_length_still_ends(histories: tuple[int, int]) -> None:
    """It may change without a reset. The index went by its length, and found no key that was put in before."""
    now = 1_700_000_000_000
    first, then = histories
    shelf, lookups = Shelf(), Shelf()
    keys = [f"key {number}" for number in range(50)]
    admitted(History(first, newest_only=True), shelf, [(now, key) for key in keys])
    table = [record(key, now + time, time, 1) for key in keys for time in (0, 1)]
    run(VersionedLookup("left", first), lookups, table)
    for number in range(1, 6):
        later = now + number * 1_000_000
        assert admitted(History(then, newest_only=True), shelf, [(later, "last")]) == [True]
        run(VersionedLookup("left", then), lookups, [record("last", later, None, 1)])
    assert not any(name in keys for name in shelf)
    versions = [json.loads(text)["versions"] for name, text in lookups.items() if name.startswith('{"key": "key')]
    assert [list(one.values()) for one in versions] == [[['{"value": 1}']]] * 50


def test_a_versioned_table_has_a_step_in_front_and_comes_and_goes_with_a_reset() -> None:
    def with_table(**versioned: int) -> StreamsBuilder:
        builder = StreamsBuilder()
        table = builder.table("rows", **versioned)  # type: ignore[arg-type]
        builder.stream("in").join(table, "left", name="near").to("out")
        table.to_stream().to("copy")
        return builder

    plain, versioned = with_table().build("app"), with_table(versioned=HISTORY_MS).build("app")
    assert [has_state(query) for query in plan(plain)] == [False, True]
    assert [has_state(query) for query in plan(versioned)] == [True, True]
    known = {"application": "app", "version": 2, "steps": notes(plain, plan(plain))}
    steps = compare(known, versioned, plan(versioned), accept=["near", "KTABLE-SOURCE-0000000000"]).steps
    assert [step.needs_reset for step in steps] == [True, True]
    longer = with_table(versioned=30).build("app")
    known = {"application": "app", "version": 2, "steps": notes(versioned, plan(versioned))}
    assert not any(step.needs_reset for step in compare(known, longer, plan(longer)).steps)
    with pytest.raises(PipelineError, match="no store that can be asked"):
        StreamsBuilder().table("rows", versioned=5, name="asked")
