"""Tasks, record by record, without Spark: windows, sessions, joins, and how batches do not matter."""

from __future__ import annotations

import itertools
import json
import random
from collections.abc import Iterator

import pytest

from ottla.pipelines.streams import aggregates, python
from ottla.pipelines.streams.graph import Accumulation, Cogrouping, Folds, Reduction
from ottla.pipelines.streams.tasks.aggregating import KeyAggregate, Regrouping, TableAggregate
from ottla.pipelines.streams.tasks.cogrouping import CogroupedWindows
from ottla.pipelines.streams.tasks.foreign_keys import ANSWER, SUBSCRIBE, UNSUBSCRIBE, Matching, Newest, Subscribing
from ottla.pipelines.streams.tasks.gathering import Gathering
from ottla.pipelines.streams.tasks.joining import TableLookup, WindowedJoin
from ottla.pipelines.streams.tasks.sessions import SessionAggregate
from ottla.pipelines.streams.tasks.sliding import SlidingAggregate
from ottla.pipelines.streams.tasks.tables import TableJoining
from ottla.pipelines.streams.tasks.task import FINAL, LATE, RESULT, Operator, Output, Record, run
from ottla.pipelines.streams.tasks.windowing import WindowAggregate
from ottla.pipelines.streams.windows import JoinWindows, SessionWindows, SlidingWindows, TimeWindows

COUNT = Gathering(Folds(((None, aggregates.count()),)))
MIXED = Gathering(
    Cogrouping(
        0,
        (
            python(lambda key, value, so_far: (so_far * 3 + value) % 1009, "int"),
            python(lambda key, value, so_far: (so_far * 5 + value) % 1009, "int"),
        ),
        python(lambda key, left, right: (left * 7 + right) % 1009, "int"),
    )
)
"""Of two streams: the order of their records shows."""


def filled(key: str, value: int, so_far: list[int]) -> list[int]:
    """Changes what it is given, as Python functions do."""
    so_far.append(value)
    return so_far


FILLED = Gathering(Accumulation([], python(filled, "array<int>"), python(lambda key, left, right: left + right)))
Rows = dict[tuple[str, int | None, int | None], object]


class Shelf(dict[str, str]):
    """State as Spark's map keeps it, in a dictionary, and how often it is asked."""

    calls = 0

    def get(self, key: str) -> str | None:  # type: ignore[override]
        self.calls += 1
        return super().get(key)

    def put(self, key: str, value: str) -> None:
        self.calls += 1
        self[key] = value

    def delete(self, key: str) -> None:
        self.calls += 1
        self.pop(key, None)

    def items(self) -> Iterator[tuple[str, str]]:  # type: ignore[override]
        self.calls += len(self)
        return iter(list(super().items()))


class Measured(Shelf):
    """A shelf that counts the characters that are read from it and put on it."""

    characters = 0

    def get(self, key: str) -> str | None:  # type: ignore[override]
        found = super().get(key)
        self.characters += len(found or "")
        return found

    def put(self, key: str, value: str) -> None:
        self.characters += len(value)
        super().put(key, value)


def record(key: str, timestamp: int, value: object = 1, side: int = 0) -> Record:
    text = None if value is None else json.dumps({"value": value})
    return Record(side, json.dumps({"key": key}), text, timestamp, extra=text)


def rows(outputs: list[Output]) -> Rows:
    """The last value of each row."""
    found: Rows = {}
    for one in outputs:
        if one.kind in (RESULT, FINAL):
            assert one.key is not None
            value = None if one.value is None else json.loads(one.value)["value"]
            found[json.loads(one.key)["key"], one.start, one.end] = value
    return found


def late(outputs: list[Output]) -> list[int]:
    return [one.timestamp for one in outputs if one.kind == LATE]


def in_batches(operator: Operator, records: list[Record], cuts: list[int]) -> list[Output]:
    shelf, outputs = Shelf(), []
    for start, end in itertools.pairwise([0, *cuts, len(records)]):
        outputs += run(operator, shelf, records[start:end])
    return outputs


def test_a_window_takes_records_until_stream_time_has_passed_its_end_and_the_grace_period() -> None:
    operator = WindowAggregate(COUNT, TimeWindows.of_size(10, grace=5))
    times = [0, 12, 9, 14, 8, 15, 7]
    outputs = run(operator, Shelf(), [record("a", time) for time in times])
    assert rows(outputs) == {("a", 0, 10): 3, ("a", 10, 20): 3}
    assert late(outputs) == [7]


def test_a_final_window_comes_once_when_it_has_closed() -> None:
    operator = WindowAggregate(COUNT, TimeWindows.of_size(10, grace=5), updates=False, finals=True)
    shelf = Shelf()
    assert run(operator, shelf, [record("a", 1), record("b", 2), record("a", 14)]) == []
    assert rows(run(operator, shelf, [record("c", 15)])) == {("a", 0, 10): 1, ("b", 0, 10): 1}
    assert run(operator, shelf, [record("a", 3)])[0].kind == LATE
    assert rows(run(operator, shelf, [record("c", 100)])) == {("a", 10, 20): 1, ("c", 10, 20): 1}


def test_streams_that_are_grouped_together_are_late_each_by_its_own_time() -> None:
    operator = CogroupedWindows(MIXED, TimeWindows.of_size(10, grace=5), updates=True, finals=True)
    shelf = Shelf()
    first = run(operator, shelf, [record("a", 1, value=7), record("a", 15, value=1), record("a", 2, value=9)])
    assert late(first) == [2], "its stream was at 15"
    finals = [one for one in first if one.kind == FINAL]
    assert rows(finals) == {("a", 0, 10): 7}
    second = run(operator, shelf, [record("a", 3, value=2, side=1)])
    assert late(second) == [], "of this stream it is the first"
    assert rows([one for one in second if one.kind == RESULT]) == {("a", 0, 10): 37}
    assert rows([one for one in second if one.kind == FINAL]) == {("a", 0, 10): 37}, "its last word was another"
    third = run(operator, shelf, [record("a", 25, value=1), record("a", 4, value=2, side=1)])
    assert rows([one for one in third if one.kind == RESULT]) == {("a", 0, 10): 2, ("a", 20, 30): 1}, (
        "the store does not show the window any more"
    )


@pytest.mark.parametrize(
    "operator",
    [
        WindowAggregate(COUNT, TimeWindows.of_size(10, grace=7).advance_by(4), updates=False, finals=True),
        SlidingAggregate(COUNT, SlidingWindows.of_time_difference(6, grace=9), updates=False, finals=True),
        SessionAggregate(COUNT, SessionWindows.of_inactivity_gap(5, grace=4), updates=False, finals=True),
        WindowAggregate(COUNT, TimeWindows.of_size(10, grace=7)),
        SlidingAggregate(COUNT, SlidingWindows.of_time_difference(6, grace=9)),
        SessionAggregate(COUNT, SessionWindows.of_inactivity_gap(5, grace=4)),
        CogroupedWindows(MIXED, TimeWindows.of_size(10, grace=7).advance_by(4), updates=False, finals=True),
        SlidingAggregate(MIXED, SlidingWindows.of_time_difference(6, grace=9), updates=False, finals=True),
        SessionAggregate(MIXED, SessionWindows.of_inactivity_gap(5, grace=4), updates=False, finals=True),
        CogroupedWindows(MIXED, TimeWindows.of_size(10, grace=7)),
        SlidingAggregate(MIXED, SlidingWindows.of_time_difference(6, grace=9)),
        SessionAggregate(MIXED, SessionWindows.of_inactivity_gap(5, grace=4)),
        WindowAggregate(FILLED, TimeWindows.of_size(10, grace=7).advance_by(4)),
        SlidingAggregate(FILLED, SlidingWindows.of_time_difference(6, grace=9)),
        SlidingAggregate(FILLED, SlidingWindows.of_time_difference(6, grace=9), updates=False, finals=True),
        SessionAggregate(FILLED, SessionWindows.of_inactivity_gap(5, grace=4)),
        WindowedJoin(JoinWindows.of_time_difference(4, grace=3), "outer"),
        WindowedJoin(JoinWindows.of_time_difference(4).after(1), "left"),
    ],
    ids=lambda operator: (
        f"{type(operator).__name__}-{getattr(operator, 'finals', None) or getattr(operator, 'kind', '')}"
    ),
)
@pytest.mark.parametrize("lateness", [0, 3, 30])
def test_results_do_not_depend_on_how_records_are_cut_into_batches(operator: Operator, lateness: int) -> None:
    """This is why windows are tasks and not Spark's own: its watermark moves only between batches."""
    for seed in range(12):
        choice = random.Random(seed)
        records = [
            record(
                choice.choice("ab"), max(0, time - choice.randint(0, lateness)), value=time, side=choice.randint(0, 1)
            )
            for time in sorted(choice.randint(0, 60) for _ in range(40))
        ]
        records.append(record("end", 1000))
        whole = in_batches(operator, records, [])
        cuts = sorted(choice.sample(range(1, 40), 5))
        one_by_one = in_batches(operator, records, list(range(1, len(records))))
        for cut in (in_batches(operator, records, cuts), one_by_one):
            assert rows(cut) == rows(whole), f"seed {seed}"
            assert late(cut) == late(whole), f"seed {seed}"
            if isinstance(operator, WindowedJoin):
                assert cut == whole, f"seed {seed}"


GROWING: list[Operator] = [
    WindowAggregate(COUNT, TimeWindows.of_size(100_000, grace=5)),
    WindowAggregate(COUNT, TimeWindows.of_size(100_000, grace=5).advance_by(50_000), updates=False, finals=True),
    SlidingAggregate(COUNT, SlidingWindows.of_time_difference(100_000, grace=5)),
    SessionAggregate(COUNT, SessionWindows.of_inactivity_gap(100_000, grace=5)),
    CogroupedWindows(MIXED, TimeWindows.of_size(100_000, grace=5)),
    WindowedJoin(JoinWindows.of_time_difference(100_000, grace=5), "outer"),
    TableLookup("left"),
]


@pytest.mark.parametrize("operator", GROWING, ids=lambda operator: type(operator).__name__)
def test_a_batch_costs_what_it_names_and_closes_and_not_what_there_is(operator: Operator) -> None:
    def calls(live_keys: int) -> int:
        shelf = Shelf()
        run(operator, shelf, [record(f"key {number}", 100_000 + number % 50, side=1) for number in range(live_keys)])
        run(operator, shelf, [record("now", 100_090)])  # a sliding window that ends with its record closes here
        shelf.calls = 0
        for batch in range(10):
            run(operator, shelf, [record(f"key {batch * 7 + number}", 100_100 + batch) for number in range(5)])
        return shelf.calls

    assert calls(4_000) <= calls(400) <= 10 * (5 * 3 + 12)


@pytest.mark.parametrize("operator", GROWING[:-1], ids=lambda operator: type(operator).__name__)
def test_what_is_only_closed_is_closed_once(operator: Operator) -> None:
    """Thousands of keys that nobody names again: each is read when it closes, and gone after that."""
    shelf = Shelf()
    run(operator, shelf, [record(f"key {number}", number, side=1) for number in range(2_000)])
    shelf.calls = 0
    for time in range(100_000, 400_000, 10_000):
        run(operator, shelf, [record("late", time), record("late", time + 1, side=1)])
    assert not any("key " in name for name in shelf)
    assert shelf.calls < 2_000 * 8


@pytest.mark.parametrize("operator", GROWING[:-1], ids=lambda operator: type(operator).__name__)
def test_state_of_a_version_without_an_index_closes_too(operator: Operator) -> None:
    def close(shelf: Shelf) -> list[Output]:
        return [
            output
            for time in (150_000, 420_000, 900_000)
            for output in run(operator, shelf, [record("last", time), record("last", time + 1, side=1)])
        ]

    indexed = Shelf()
    run(operator, indexed, [record(f"key {number}", 50_000 + number, side=number % 2) for number in range(100)])
    before = Shelf()
    for name, text in indexed.items():
        if not name.startswith("closing "):
            before[name] = json.dumps({part: value for part, value in json.loads(text).items() if part != "due"})
    meta = json.loads(before[""])
    del meta["closing"]
    before[""] = json.dumps(meta | {"first_end": 100_000})
    assert close(before) == close(indexed)
    assert not any("key " in name for name in before)


def test_keys_that_close_together_are_read_when_they_do_and_not_with_every_batch_before() -> None:
    """All keys of a tumbling window are in one slot. Each batch near the window's end read and wrote all of it."""
    operator = WindowAggregate(COUNT, TimeWindows.of_size(1_000_000), updates=False, finals=True)
    shelf = Measured()
    run(operator, shelf, [record(f"key {number}", number) for number in range(2_000)])
    shelf.characters = 0
    for time in range(999_000, 1_000_000, 50):
        assert run(operator, shelf, [record("now", time)]) == []
    assert shelf.characters < 20 * 1_000
    assert len(run(operator, shelf, [record("now", 1_000_000)])) == 2_001


LENGTHS: list[tuple[Operator, Operator]] = [
    (
        WindowAggregate(COUNT, TimeWindows.of_size(1_000, grace=one), updates=False, finals=True),
        WindowAggregate(COUNT, TimeWindows.of_size(1_000, grace=other), updates=False, finals=True),
    )
    for one, other in ((10_000, 1_000_000), (1_000_000, 100))
] + [
    (
        SlidingAggregate(COUNT, SlidingWindows.of_time_difference(1_000, grace=one), updates=False, finals=True),
        SlidingAggregate(COUNT, SlidingWindows.of_time_difference(1_000, grace=other), updates=False, finals=True),
    )
    for one, other in ((10_000, 1_000_000), (1_000_000, 100))
]


@pytest.mark.parametrize(("before", "after"), LENGTHS, ids=lambda operator: type(operator).__name__)
@pytest.mark.parametrize("remembers_lengths", [True, False])
def test_windows_close_once_after_their_grace_period_has_changed(
    before: Operator, after: Operator, remembers_lengths: bool
) -> None:
    """By slots of another width they were never reached, or not before the year 2100. `start(accept=...)` allows it."""
    now = 1_700_000_000_000
    shelf = Shelf()
    assert run(before, shelf, [record(f"key {number}", now + number) for number in range(50)]) == []
    assert run(before, shelf, [record("now", now + 5_000)]) == []
    if not remembers_lengths:
        after = before  # an earlier version has noted neither lengths nor the slots' earliest entries
        meta = json.loads(shelf[""])
        del meta["closing spans"]
        meta["closing"] = {clock: {slot: count for slot, (count, _) in slots.items()}
                           for clock, slots in meta["closing"].items()}  # fmt: skip
        shelf[""] = json.dumps(meta)
    outputs = run(after, shelf, [record("now", now + 5_000)])
    for number in range(1, 6):
        outputs += run(after, shelf, [record("last", now + number * 1_000_000)])
    closed = [(one.key, one.start) for one in outputs if one.kind == FINAL and "key " in (one.key or "")]
    assert len(closed) == len(set(closed))
    assert {json.loads(key or "")["key"] for key, _ in closed} == {f"key {number}" for number in range(50)}
    assert not any("key " in name for name in shelf)


def test_state_is_forgotten_once_nothing_can_need_it() -> None:
    operators: list[Operator] = [
        WindowAggregate(COUNT, TimeWindows.of_size(10, grace=5)),
        SlidingAggregate(COUNT, SlidingWindows.of_time_difference(10, grace=5)),
        SessionAggregate(COUNT, SessionWindows.of_inactivity_gap(10, grace=5)),
        WindowedJoin(JoinWindows.of_time_difference(10, grace=5), "outer"),
    ]
    for operator in operators:
        shelf = Shelf()
        for time in range(0, 2000, 5):
            run(operator, shelf, [record(f"key {time % 100}", time, side=time % 2)])
        for time in range(5000, 5300, 50):
            run(operator, shelf, [record("last", time), record("last", time + 1, side=1)])
        assert {name for name in shelf if not name.startswith("closing ")} <= {"", '{"key": "last"}'}, type(
            operator
        ).__name__
        assert len(shelf) < 12, "the index is forgotten as well"
        assert len(shelf['{"key": "last"}']) < 400, type(operator).__name__


def test_a_record_between_two_sessions_makes_them_one() -> None:
    operator = SessionAggregate(COUNT, SessionWindows.of_inactivity_gap(5, grace=20))
    shelf = Shelf()
    assert rows(run(operator, shelf, [record("a", 0), record("a", 8)])) == {("a", 0, 0): 1, ("a", 8, 8): 1}
    merged = rows(run(operator, shelf, [record("a", 4)]))
    assert merged == {("a", 0, 0): None, ("a", 8, 8): None, ("a", 0, 8): 3}


def test_sliding_windows_hold_every_set_of_records_that_is_close_enough() -> None:
    """Checked against the definition: all distinct non-empty sets {r: t <= r <= t + 10} of times that are not early."""
    for seed in range(30):
        choice = random.Random(seed)
        times = [choice.randint(20, 60) for _ in range(12)]
        operator = SlidingAggregate(COUNT, SlidingWindows.of_time_difference(10, grace=1000))
        found = rows(run(operator, Shelf(), [record("a", time) for time in times]))
        ends = {time: (time - 10, time) for time in times}
        starts = {time: (time + 1, time + 11) for time in times if any(time < other <= time + 11 for other in times)}
        windows = {*ends.values(), *starts.values()}
        expected = {("a", start, end): sum(start <= time <= end for time in times) for start, end in windows}
        assert found == expected, f"seed {seed}: {times}"


def test_an_outer_join_gives_out_what_stayed_alone_when_its_window_has_closed() -> None:
    operator = WindowedJoin(JoinWindows.of_time_difference(5), "outer")
    shelf = Shelf()
    joined = run(operator, shelf, [record("a", 0, "l1"), record("a", 3, "r1", side=1), record("b", 4, "l2")])
    assert [(one.key, one.value, one.other) for one in joined] == [
        ('{"key": "a"}', '{"value": "l1"}', '{"value": "r1"}')
    ]
    alone = run(operator, shelf, [record("c", 10, "r2", side=1)])
    assert [(one.key, one.value, one.other) for one in alone] == [('{"key": "b"}', '{"value": "l2"}', None)]


def test_an_inner_join_finds_exactly_the_pairs_within_the_windows() -> None:
    windows = JoinWindows.of_time_difference(4, grace=1000).after(2)
    operator = WindowedJoin(windows, "inner")
    choice = random.Random(1)
    records = [record(choice.choice("ab"), choice.randint(0, 30), number, side=number % 2) for number in range(60)]
    found = sorted((one.key, one.value, one.other) for one in run(operator, Shelf(), records))
    expected = sorted(
        (left.key, left.value, right.value)
        for left in records
        for right in records
        if (left.side, right.side) == (0, 1) and left.key == right.key and -4 <= right.timestamp - left.timestamp <= 2
    )
    assert found == expected


def test_a_stream_sees_the_table_as_it_is_at_its_time() -> None:
    operator = TableLookup("left")
    shelf = Shelf()
    records = [record("a", 0, "s0"), record("a", 1, "row", side=1), record("a", 2, "s1"), record("a", 3, None, side=1)]
    outputs = run(operator, shelf, [*records, record("a", 4, "s2")])
    assert [one.other for one in outputs] == [None, '{"value": "row"}', None]
    assert run(TableLookup("inner"), Shelf(), [record("a", 0, "s0")]) == []


def test_python_functions_aggregate_json_values() -> None:
    adder = python(lambda key, value, so_far: [*so_far, f"{key}{value}"], "array<string>")
    operator = KeyAggregate(Gathering(Accumulation([], adder)))
    shelf = Shelf()
    run(operator, shelf, [record("a", 1, 1), record("a", 2, 2)])
    assert rows(run(operator, shelf, [record("a", 3, 3), record("b", 4, None)])) == {
        ("a", None, None): ["a1", "a2", "a3"]
    }


def test_an_initial_value_that_functions_fill_is_each_keys_own() -> None:
    def fill(key: str, value: int, so_far: list[int]) -> list[int]:
        so_far.append(value)
        return so_far

    operator = KeyAggregate(Gathering(Accumulation([], python(fill, "array<int>"))))
    found = rows(run(operator, Shelf(), [record("a", 1, 1), record("b", 2, 2)]))
    assert found == {("a", None, None): [1], ("b", None, None): [2]}


def change(key: str, timestamp: int, row: tuple[str | None, object] | None) -> Record:
    """A row of a table that is about to be grouped: which group, and what it gives there."""
    group, value = row or (None, None)
    key_text, group_text = json.dumps({"key": key}), None if group is None else json.dumps({"key": group})
    return Record(0, key_text, None if value is None else json.dumps({"value": value}), timestamp, extra=group_text)


def regrouped(changes: list[Record], shelf: Shelf) -> list[Record]:
    """What the groups are told."""
    told = run(Regrouping(), shelf, changes)
    return [Record(0, one.key, one.value, one.timestamp, extra=one.other) for one in told]


def test_a_row_leaves_its_old_group_with_its_old_value_before_it_comes_into_the_new_one() -> None:
    changes = [
        change("k", 1, ("g", 1)), change("k", 2, ("g", 2)), change("k", 3, ("h", 3)), change("k", 4, (None, 4)),
        change("k", 5, ("h", None)), change("k", 6, ("h", 6)), change("k", 7, None), change("k", 8, None),
    ]  # fmt: skip
    told = [(one.key, one.value, one.extra, one.timestamp) for one in regrouped(changes, Shelf())]
    g, h = ('{"key": "g"}', '{"key": "h"}')
    one, two, three, six = (json.dumps({"value": value}) for value in (1, 2, 3, 6))
    assert told == [
        (g, one, None, 1),
        (g, two, one, 2),
        (g, None, two, 3),
        (h, three, None, 3),
        (h, None, three, 4),
        (h, six, None, 6),
        (h, None, six, 7),
    ]


@pytest.mark.parametrize("seed", range(20))
def test_groups_of_a_table_hold_what_its_rows_say_however_they_are_cut_into_batches(seed: int) -> None:
    """Checked against the definition: the rows there are in the end, group by group."""
    adder = python(lambda key, value, so_far: sorted([*so_far, value]), "array<int>")
    subtractor = python(lambda key, value, so_far: [one for one in so_far if one != value] or None, "array<int>")
    lists = TableAggregate(Gathering(Accumulation([], adder, subtractor=subtractor)))
    add, take = python(lambda so_far, value: so_far + value), python(lambda so_far, value: so_far - value)
    sums = TableAggregate(Gathering(Reduction(add, take)))
    choice = random.Random(seed)
    table: dict[str, tuple[str, int]] = {}
    ever: set[str] = set()
    changes: list[Record] = []
    for number in range(60):
        key, group = choice.choice("abcdef"), choice.choice("xyz")
        row = None if choice.random() < 0.2 else (group, number)
        changes.append(change(key, number, row))
        table.pop(key, None)
        if row is not None:
            table[key] = row
            ever.add(group)
    given: dict[str, list[int]] = {}
    for group, value in table.values():
        given.setdefault(group, []).append(value)
    for cuts in ([], sorted(choice.sample(range(1, 40), 7))):
        shelf = Shelf()
        told = [
            one for start, end in itertools.pairwise([0, *cuts, 60]) for one in regrouped(changes[start:end], shelf)
        ]
        assert len(told) > 40
        expected = {(group, None, None): sorted(given[group]) if group in given else None for group in ever}
        assert rows(in_batches(lists, told, cuts)) == expected
        totals = {(group, None, None): sum(given.get(group, [])) for group in ever}
        assert rows(in_batches(sums, told, cuts)) == totals


def test_named_aggregates_add_up_and_merge() -> None:
    folds = tuple(
        (name, fold)
        for name, fold in {
            "n": aggregates.count(),
            "total": aggregates.sum(),
            "low": aggregates.min(),
            "high": aggregates.max(),
            "middle": aggregates.mean(),
        }.items()
    )
    gathering = Gathering(Folds(folds))
    sides = []
    for values in ([3, None, 1], [8]):
        state = gathering.initial()
        for value in values:
            state = gathering.add(
                "", json.dumps({f"a{index}": value for index in range(5) if value is not None}), state
            )
        sides.append(state)
    result = gathering.result(gathering.merge("", *sides))
    assert result is not None
    assert json.loads(result)["value"] == {"n": 4, "total": 12, "low": 1, "high": 8, "middle": 4.0}


def test_a_row_that_changes_its_foreign_key_leaves_the_old_one() -> None:
    shelf = Shelf()
    key = '{"key": "order"}'
    first = run(Subscribing(), shelf, [Record(0, key, "v1", 0, extra="fk1")])
    second = run(Subscribing(), shelf, [Record(0, key, "v2", 1, extra="fk2")])
    third = run(Subscribing(), shelf, [Record(0, key, None, 2, extra=None)])
    told = [(one.key, one.value, one.kind) for one in [*first, *second, *third]]
    assert told == [
        ("fk1", "v1", SUBSCRIBE),
        ("fk1", "v2", UNSUBSCRIBE),
        ("fk2", "v2", SUBSCRIBE),
        ("fk2", None, UNSUBSCRIBE),
        (None, None, ANSWER),
    ]


def test_a_change_on_the_right_answers_everyone_who_refers_to_it() -> None:
    shelf = Shelf()

    def told(who: str, version: int, what: int) -> Record:
        return Record(0, "fk", f"row of {who}", 0, extra=json.dumps([who, str(version), str(what), "1", "1"]))

    run(Matching(), shelf, [told("a", 1, SUBSCRIBE), told("b", 1, SUBSCRIBE)])
    answers = run(Matching(), shelf, [told("b", 2, UNSUBSCRIBE), Record(1, "fk", "right", 1)])
    assert [(one.kind, one.key, one.value, one.other, one.version, one.other_version) for one in answers] == [
        (UNSUBSCRIBE, "b", None, None, 2, 0),
        (SUBSCRIBE, "a", "row of a", "right", 1, 1),
    ]


@pytest.mark.parametrize("kind", ["inner", "left", "outer"])
def test_a_table_join_tells_what_kafka_streams_tells(kind: str) -> None:
    """A change of the side that is not enough by itself tells nothing while the other has no row, nor does the deletion
    of a row that was not there. Times are those of the rows there are."""
    changes = [
        record("a", 9, "r1", 1), record("a", 5, "l1", 0), record("a", 7, None, 1), record("a", 8, None, 1),
        record("a", 3, None, 0), record("a", 4, None, 0), record("a", 2, "l2", 0), record("a", 1, "r2", 1),
    ]  # fmt: skip
    shelf = Shelf()
    told = [
        (at, one.value and json.loads(one.value)["value"], one.other and json.loads(one.other)["value"], one.timestamp)
        for at, change in enumerate(changes)
        for one in run(TableJoining(kind), shelf, [change])
    ]
    both: list[tuple[int, str | None, str | None, int]] = [
        (1, "l1", "r1", 9),
        (2, "l1", None, 7),
        (3, "l1", None, 8),
        (7, "l2", "r2", 2),
    ]
    alone: dict[str, list[tuple[int, str | None, str | None, int]]] = {
        "inner": [],
        "left": [(4, None, None, 3), (6, "l2", None, 2)],
    }
    alone["outer"] = [(0, None, "r1", 9), *alone["left"]]
    assert told == sorted(both + alone[kind], key=lambda one: one[0])


TABLES: list[Operator] = [TableJoining("inner"), TableJoining("outer"), TableLookup("left"), Regrouping()]


@pytest.mark.parametrize("operator", TABLES, ids=lambda operator: f"{type(operator).__name__}")
def test_deleted_keys_leave_the_state_of_tables(operator: Operator) -> None:
    shelf = Shelf()
    sides = (0,) if isinstance(operator, Regrouping) else (0, 1)
    changes = {
        value: [record(f"key {number}", number, value, side) for side in sides for number in range(200)]
        for value in ("row", None)
    }
    run(operator, shelf, changes["row"])
    assert len(shelf) == 201
    run(operator, shelf, changes[None])
    assert set(shelf) == {""}


def test_groups_that_a_function_takes_away_leave_no_state() -> None:
    adder = python(lambda key, value, so_far: [*so_far, value], "array<int>")
    subtractor = python(lambda key, value, so_far: [one for one in so_far if one != value] or None, "array<int>")
    lists = TableAggregate(Gathering(Accumulation([], adder, subtractor=subtractor)))
    rows_shelf, groups_shelf = Shelf(), Shelf()
    for row in ("there", None):
        changes = [
            change(f"key {number}", number, None if row is None else (f"group {number % 50}", number))
            for number in range(200)
        ]
        run(lists, groups_shelf, regrouped(changes, rows_shelf))
        assert row is None or (len(rows_shelf), len(groups_shelf)) == (201, 51)
    assert set(rows_shelf) == set(groups_shelf) == {""}


def test_a_row_that_a_function_takes_away_leaves_no_state_and_begins_anew() -> None:
    adder = python(lambda key, value, so_far: None if value == 0 else [*so_far, value], "array<int>")
    operator = KeyAggregate(Gathering(Accumulation([], adder)))
    shelf = Shelf()
    assert rows(run(operator, shelf, [record("a", 9, 1), record("a", 1, 0)])) == {("a", None, None): None}
    assert set(shelf) == {""}
    [begun] = run(operator, shelf, [record("a", 2, 5)])
    assert (begun.value, begun.timestamp) == ('{"value":[5]}', 2), "nor is there a time to be later than"


def test_a_row_that_has_had_no_result_is_not_told_to_be_deleted() -> None:
    """As in Kafka Streams: a row of an inner join that is new, or has changed, and still refers to nothing."""

    def answered(
        shelf: Shelf, value: str | None, version: int, has_result: int, what: int = RESULT
    ) -> list[str | None]:
        numbers = map(str, (version, 1, what, 1, has_result))
        record = Record(0, "{}", value, 5, extra=json.dumps([None, *numbers]))
        return [one.value for one in run(Newest(), shelf, [record])]

    shelf = Shelf()
    assert answered(shelf, "new", 2, 0) == []
    assert answered(shelf, "changed", 3, 0) == []
    assert answered(shelf, "changed", 4, 1) == ["changed"]
    assert answered(shelf, "other", 5, 0) == ["other"], "whoever reads it makes a deletion of it"
    assert answered(shelf, "still", 6, 0) == []
    assert answered(shelf, "joined", 7, 1) == ["joined"]
    assert answered(shelf, None, 8, 0, ANSWER) == [None]
    assert answered(Shelf(), None, 1, 0, ANSWER) == [], "nobody knows a row that was never there"
    earlier = Shelf({"{}": '{"newest":[1,0],"there":true,"open":{"1":[0,null]}}'})
    assert answered(earlier, None, 2, 0, ANSWER) == [None], "an earlier version did not note what is known"


class ForeignKeyJoin:
    """The three steps, several tasks of each, and the topics between them, which are read as far as chance has it."""

    def __init__(self, choice: random.Random, tasks: int = 3) -> None:
        self.choice = choice
        self.subscribing = Shelf()
        self.matching = [Shelf() for _ in range(tasks)]
        self.newest = Shelf()
        self.told: list[list[Record]] = [[] for _ in range(tasks)]
        self.answered: list[list[Record]] = [[] for _ in range(tasks)]
        self.result: dict[str, tuple[str, str | None]] = {}

    def change_left(self, key: str, row: str | None, foreign_key: str | None) -> None:
        for one in run(Subscribing(), self.subscribing, [Record(0, key, row, 1, extra=foreign_key)]):
            extra = json.dumps([one.other, *map(str, (one.version, one.kind, one.start, one.other_version))])
            self.told[self._task(one.key)].append(Record(0, one.key, one.value, 1, extra=extra))

    def change_right(self, key: str, row: str | None) -> None:
        self.told[self._task(key)].append(Record(1, key, row, 1))

    def go_on(self) -> None:
        """One task of either kind reads on, by some records."""
        task = self.choice.randrange(len(self.matching))
        count = self.choice.randint(0, 4)
        taken, self.told[task] = self.told[task][:count], self.told[task][count:]
        for one in run(Matching(), self.matching[task], taken):
            has_result = int(one.value is not None)
            numbers = map(str, (one.version, one.other_version, one.kind, one.start, has_result))
            self.answered[task].append(Record(0, one.key, one.value, 1, extra=json.dumps([one.other, *numbers])))
        task, count = self.choice.randrange(len(self.matching)), self.choice.randint(0, 4)
        taken, self.answered[task] = self.answered[task][:count], self.answered[task][count:]
        for one in run(Newest(), self.newest, taken):
            assert one.key is not None
            self.result.pop(one.key, None)
            if one.value is not None:
                self.result[one.key] = (one.value, one.other)

    def finish(self) -> None:
        while any(self.told) or any(self.answered):
            self.go_on()

    def _task(self, key: str | None) -> int:
        return 0 if key is None else sum(key.encode()) % len(self.matching)


@pytest.mark.parametrize("seed", range(60))
def test_a_foreign_key_join_is_right_and_forgets_what_was_deleted_whatever_lags(seed: int) -> None:
    """Checked against the definition, with rows that change what they refer to while older answers are under way."""
    choice = random.Random(seed)
    join = ForeignKeyJoin(choice)
    left: dict[str, tuple[str, str | None]] = {}
    right: dict[str, str] = {}
    for number in range(150):
        if choice.random() < 0.3:
            key, row = choice.choice("ABCDEF"), None if choice.random() < 0.4 else f"right {number}"
            join.change_right(key, row)
            right.pop(key, None)
            if row is not None:
                right[key] = row
        else:
            key = choice.choice("abcd")
            foreign_key = None if choice.random() < 0.2 else choice.choice("ABCDEF")
            row = None if choice.random() < 0.3 else f"left {number}"
            join.change_left(key, row, foreign_key)
            left.pop(key, None)
            if row is not None:
                left[key] = (row, foreign_key)
        for _ in range(choice.randint(0, 3)):
            join.go_on()
    join.finish()
    assert join.result == {key: (row, right.get(to) if to is not None else None) for key, (row, to) in left.items()}
    for key in left:
        join.change_left(key, None, None)
    for key in right:
        join.change_right(key, None)
    join.finish()
    assert join.result == {}
    assert [set(shelf) for shelf in (join.subscribing, join.newest, *join.matching)] == [{""}] * 5
