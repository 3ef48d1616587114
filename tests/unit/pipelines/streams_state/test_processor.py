"""Processors on state in memory: stores, timers, time to live, and what the changelog gets."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from ottla.pipelines.errors import PipelineError
from ottla.pipelines.streams.processor import (
    Change,
    Context,
    KeySession,
    Processor,
    ProcessorOperator,
    Record,
    RecordMetadata,
    TimeMode,
)
from ottla.pipelines.streams.stores import StoreKind, StoreSpec, serde
from ottla.pipelines.streams.stores.memory import MemoryProcessor, MemoryState

LONG = serde("long")


def long(number: int) -> bytes:
    return LONG.encode(number)


class Scripted(Processor):
    """Does what each record's value, a function, says."""

    def __init__(self, *stores: StoreSpec, on_timer: Callable[[Context, int], None] | None = None) -> None:
        self.stores = stores
        self._on_timer = on_timer

    def process(self, record: Record, context: Context) -> None:
        record.value(context)

    def on_timer(self, key: Any, at_ms: int, context: Context) -> None:
        assert self._on_timer is not None
        self._on_timer(context, at_ms)


COUNTS = StoreSpec(name="counts", value=LONG)
SEEN = StoreSpec(name="seen", kind=StoreKind.MAP, value=LONG)


def runner(
    *stores: StoreSpec, time: TimeMode = TimeMode.NONE, on_timer: Callable[[Context, int], None] | None = None
) -> MemoryProcessor:
    operator = ProcessorOperator(
        processor=Scripted(*stores, on_timer=on_timer), key_type="string", value_type="string", time=time
    )
    return MemoryProcessor(operator)


def run(
    processor: MemoryProcessor, *steps: Callable[[Any], object], key: str = "k", at_ms: int = 0, now_ms: int = 0
) -> tuple[list[Record], list[Change]]:
    return processor.process(key, [Record(key, step, at_ms) for step in steps], now_ms=now_ms)


def test_what_is_forwarded_has_the_time_and_the_headers_of_what_is_handled_unless_told() -> None:
    session = KeySession(
        Scripted(on_timer=lambda context, at_ms: context.forward("t", None)),
        TimeMode.EVENT, MemoryState(), "k", 100, ("left", "right"),
    )  # fmt: skip
    headers, place = (("h", b"1"), ("none", None)), RecordMetadata("in", 2, 7)

    def script(context: Context) -> None:
        assert context.record_metadata == place
        context.forward("a", None)
        context.forward("b", 1, 9, headers=(), child="left")
        context.forward(record.with_key("c").with_value(2).with_timestamp(8).with_headers(("x", b"")), child="right")
        context.schedule(50)

    record = Record("k", script, 5, headers)
    session.process(record, place)
    session.fire(50)
    assert session.record_metadata is None
    assert session.forwarded == [
        (Record("a", None, 5, headers), None),
        (Record("b", 1, 9), "left"),
        (Record("c", 2, 8, (("x", b""),)), "right"),
        (Record("t", None, 50), None),
    ]


def test_a_forward_that_cannot_be_is_refused() -> None:
    session = KeySession(Scripted(), TimeMode.NONE, MemoryState(), "k", 0, ("left",))
    with pytest.raises(PipelineError, match=r"Unknown child node right: .* are left"):
        session.forward(Record("k", "v", 1), child="right")
    with pytest.raises(PipelineError, match="must not be negative: -1"):
        session.forward("k", "v", -1)
    with pytest.raises(PipelineError, match="must not be negative: -2"):
        Record("k", "v", 1).with_timestamp(-2)
    with pytest.raises(PipelineError, match="takes a Record, or a key and a value"):
        session.forward("k")
    assert session.forwarded == []


def test_what_is_put_is_read_at_once_and_by_the_next_batch() -> None:
    processor = runner(COUNTS)

    def add(context: Context) -> None:
        store = context.value("counts")
        store.put((store.get() or 0) + 1)
        context.forward("k", str(store.get()))

    assert run(processor, add, add, at_ms=7) == (
        [Record("k", "1", 7), Record("k", "2", 7)],
        [Change("counts", b"k", long(2), 7)],
    ), "the changelog gets the last value of a batch"
    assert run(processor, add, at_ms=8)[1] == [Change("counts", b"k", long(3), 8)]
    assert run(processor, add, key="other", at_ms=9)[1] == [Change("counts", b"other", long(1), 9)]


def test_a_deletion_reaches_the_changelog_and_what_did_not_change_does_not() -> None:
    processor = runner(COUNTS)
    run(processor, lambda context: context.value("counts").put(5), at_ms=3)
    assert run(processor, lambda context: context.value("counts").get(), at_ms=4)[1] == []
    assert run(processor, lambda context: context.value("counts").delete(), at_ms=4)[1] == [
        Change("counts", b"k", None, 4)
    ]
    assert run(processor, lambda context: context.value("counts").delete(), at_ms=5)[1] == []


def test_a_map_store_has_keys_of_its_own_in_the_order_of_their_bytes() -> None:
    processor = runner(SEEN)
    found: list[Any] = []

    def first(context: Context) -> None:
        for name, number in (("b", 2), ("a", 1), ("c", 3)):
            context.map("seen").put(name, number)

    def second(context: Context) -> None:
        store = context.map("seen")
        store.delete("c")
        store.put("d", 4)
        found.extend([store.items(), store.range("b", "d"), store.get("a"), store.get("c")])

    _, changes = run(processor, first)
    assert changes[0] == Change("seen", b"\0\0\0\1kb", long(2), 0)
    _, changes = run(processor, second, at_ms=1)
    assert found == [[("a", 1), ("b", 2), ("d", 4)], [("b", 2), ("d", 4)], 1, None]
    assert sorted(changes) == [Change("seen", b"\0\0\0\1kc", None, 1), Change("seen", b"\0\0\0\1kd", long(4), 1)]


def test_timers_fire_once_in_the_order_of_their_times() -> None:
    fired: list[int] = []
    processor = runner(time=TimeMode.EVENT, on_timer=lambda context, at_ms: fired.append(at_ms))

    def schedule(context: Context) -> None:
        for at_ms in (30, 10, 20, 10):
            context.schedule(at_ms)
        context.cancel(20)
        context.cancel(99)
        assert context.timers() == [10, 30]

    run(processor, schedule)
    processor.advance(9)
    assert fired == []
    processor.advance(30)
    processor.advance(40)
    assert fired == [10, 30]


def test_an_entry_past_its_time_is_not_returned_and_is_deleted_in_the_changelog() -> None:
    spec = StoreSpec(name="counts", value=LONG, ttl_ms=160)
    processor = runner(spec, time=TimeMode.PROCESSING)
    found: list[Any] = []

    def look(context: Context) -> None:
        found.append(context.value("counts").get())

    run(processor, lambda context: context.value("counts").put(1), now_ms=1000)
    assert processor.advance(1150) == ([], [])
    run(processor, look, now_ms=1159)
    run(processor, look, now_ms=1160)
    assert found == [1, None]
    assert processor.advance(1170) == ([], [Change("counts", b"k", None, 1160)])
    assert processor.advance(5000) == ([], [])


def test_a_put_prolongs_an_entrys_life() -> None:
    spec = StoreSpec(name="seen", kind=StoreKind.MAP, value=LONG, ttl_ms=100)
    processor = runner(spec, time=TimeMode.PROCESSING)
    run(processor, lambda context: context.map("seen").put("old", 1), now_ms=0)
    run(processor, lambda context: context.map("seen").put("kept", 1), now_ms=0)
    run(processor, lambda context: context.map("seen").put("kept", 2), now_ms=60)
    _, changes = processor.advance(110)
    assert [(change.key[5:], change.value) for change in changes] == [(b"old", None)]
    _, changes = processor.advance(200)
    assert [(change.key[5:], change.value) for change in changes] == [(b"kept", None)]


def test_a_cancelled_timer_leaves_the_sweep_of_the_same_time() -> None:
    spec = StoreSpec(name="counts", value=LONG, ttl_ms=16)
    processor = runner(spec, time=TimeMode.PROCESSING)

    def both(context: Context) -> None:
        context.value("counts").put(1)
        context.schedule(16)

    run(processor, both)
    run(processor, lambda context: context.cancel(16))
    assert processor.advance(16) == ([], [Change("counts", b"k", None, 16)])


def test_by_event_time_an_entry_lives_from_its_records_time_on() -> None:
    spec = StoreSpec(name="counts", value=LONG, ttl_ms=100)
    processor = runner(spec, time=TimeMode.EVENT)
    run(processor, lambda context: context.value("counts").put(1), at_ms=1000, now_ms=0)
    assert processor.advance(1000) == ([], [])
    assert processor.advance(1104)[1] == [Change("counts", b"k", None, 1104)], "at the next sixteenth of the time"


@pytest.mark.parametrize(
    ("step", "reason"),
    [
        (lambda context: context.value("missing"), "no store 'missing'"),
        (lambda context: context.map("counts"), "key-value store, not a map one"),
        (lambda context: context.schedule(5), "A timer needs a time"),
    ],
)
def test_what_a_processor_may_not_do_is_told(step: Callable[[Context], object], reason: str) -> None:
    with pytest.raises(PipelineError, match=reason):
        run(runner(COUNTS), step)


def test_an_operator_refuses_stores_it_cannot_keep() -> None:
    with pytest.raises(PipelineError, match="names a store twice"):
        runner(COUNTS, COUNTS)
    with pytest.raises(PipelineError, match="nothing to go by"):
        runner(StoreSpec(name="s", ttl_ms=5))
    with pytest.raises(PipelineError, match="not windows"):
        runner(StoreSpec(name="s", kind=StoreKind.SESSION))
    with pytest.raises(PipelineError, match="windowed stores have retention_ms"):
        StoreSpec(name="s", kind=StoreKind.SESSION, ttl_ms=5)


def test_a_record_without_a_key_is_seen_and_has_no_state() -> None:
    processor = runner(COUNTS)
    forwarded, changes = processor.process(
        None, [Record(None, lambda context: context.forward("k", "seen"), 3)], now_ms=0
    )
    assert (forwarded, changes) == ([Record("k", "seen", 3)], [])
    with pytest.raises(PipelineError, match=r"without a key has nothing in store counts: select_key\(\)"):
        processor.process(None, [Record(None, lambda context: context.value("counts").put(1), 3)], now_ms=0)
