"""What `kafka_streams/Main.java` does on Kafka Streams, in `ottla.pipelines.streams`: the same names and topics."""

from __future__ import annotations

from ottla.pipelines.streams import (
    JoinWindows,
    KStream,
    KTable,
    SessionWindows,
    SlidingWindows,
    StreamsBuilder,
    TimeWindows,
    Topology,
    python,
)
from tests.pipelines.parity.inputs import GRACE_MS

SLIDING_GRACE_MS = 5_037
"""No record comes just when such a window closes: there Kafka Streams gives out its last word twice."""
PAIR = "concat(coalesce(left, 'null'), '+', coalesce(right, 'null'))"
WINDOW = "concat(key.key, '@', key.start, '-', key.end)"
TEXT = "cast(value as string)"
FOREIGN_KEY = "split(value, ':')[0]"

WORDS = ("words",)
WINDOWS = (
    "tumbling",
    "tumbling-final",
    "hopping",
    "hopping-final",
    "sliding",
    "sliding-final",
    "session",
    "session-final",
)
JOINS = ("inner", "left-join", "outer", "table-inner", "table-left")
TABLES = ("both", "one", "either", "orders-inner", "orders-left")
GROUPS = ("group-counts", "group-sums", "group-lists")
OUTPUTS = {"words": WORDS, "windows": WINDOWS, "joins": JOINS, "tables": TABLES, "groups": GROUPS}
"""The topics that each topology writes."""


def topology(name: str, prefix: str) -> Topology:
    """One of them by its name, on topics whose names begin so."""
    builder = StreamsBuilder()
    made = {"words": _words, "windows": _windows, "joins": _joins, "tables": _tables, "groups": _groups}
    made[name](builder, f"{prefix}-")
    return builder.build(f"{prefix}-{name}")


def _words(builder: StreamsBuilder, at: str) -> None:
    words = builder.stream(f"{at}lines").flat_map_values("split(value, ' ')").group_by("value")
    words.count().to_stream().map_values(TEXT).to(f"{at}words")


def _windows(builder: StreamsBuilder, at: str) -> None:
    grouped = builder.stream(f"{at}left").group_by_key()
    tumbling = TimeWindows.of_size(10_000, grace=GRACE_MS)
    hopping = tumbling.advance_by(4_000)
    sliding = SlidingWindows.of_time_difference(6_000, grace=SLIDING_GRACE_MS)
    session = SessionWindows.of_inactivity_gap(1_000, grace=GRACE_MS)
    _emit_both(grouped.windowed_by(tumbling).count(), f"{at}tumbling")
    _emit(grouped.windowed_by(hopping).count(), f"{at}hopping")
    _emit(grouped.windowed_by(hopping).emit_strategy("on_window_close").count(), f"{at}hopping-final")
    _emit_both(grouped.windowed_by(sliding).count(), f"{at}sliding")
    _emit_both(grouped.windowed_by(session).count(), f"{at}session")


def _emit_both(counts: KTable, topic: str) -> None:
    _emit(counts, topic)
    _emit(counts.suppress(), f"{topic}-final")


def _emit(counts: KTable, topic: str) -> None:
    counts.to_stream().map(WINDOW, TEXT).to(topic)


def _joins(builder: StreamsBuilder, at: str) -> None:
    left: KStream = builder.stream(f"{at}near-left")
    right: KStream = builder.stream(f"{at}near-right")
    table = builder.table(f"{at}near-table")
    near = JoinWindows.of_time_difference(1_000, grace=20_000)
    left.join(right, PAIR, near).to(f"{at}inner")
    left.left_join(right, PAIR, near).to(f"{at}left-join")
    left.outer_join(right, PAIR, near).to(f"{at}outer")
    left.join(table, PAIR).to(f"{at}table-inner")
    left.left_join(table, PAIR).to(f"{at}table-left")


def _tables(builder: StreamsBuilder, at: str) -> None:
    one, two = builder.table(f"{at}table-one"), builder.table(f"{at}table-two")
    one.join(two, PAIR).to_stream().to(f"{at}both")
    one.left_join(two, PAIR).to_stream().to(f"{at}one")
    one.outer_join(two, PAIR).to_stream().to(f"{at}either")
    orders, customers = builder.table(f"{at}orders"), builder.table(f"{at}customers")
    orders.join(customers, PAIR, foreign_key=FOREIGN_KEY).to_stream().to(f"{at}orders-inner")
    orders.left_join(customers, PAIR, foreign_key=FOREIGN_KEY).to_stream().to(f"{at}orders-left")


def _groups(builder: StreamsBuilder, at: str) -> None:
    rows = builder.table(f"{at}rows").filter("length(value) % 5 > 0")
    grouped = rows.group_by(FOREIGN_KEY, "split(value, ':')[1]")
    grouped.count().to_stream().map_values(TEXT).to(f"{at}group-counts")
    add = python(lambda so_far, value: str(int(so_far) + int(value)))
    take = python(lambda so_far, value: str(int(so_far) - int(value)))
    grouped.reduce(add, take).to_stream().to(f"{at}group-sums")
    put_in = python(lambda key, value, so_far: ",".join(sorted([*filter(None, so_far.split(",")), value])))
    take_out = python(lambda key, value, so_far: ",".join(one for one in so_far.split(",") if one != value) or None)
    grouped.aggregate(initial="", adder=put_in, subtractor=take_out).to_stream().to(f"{at}group-lists")
