"""What `kafka_streams/Main.java` does on Kafka Streams, in `ottla.pipelines.streams`: the same names and topics."""

from __future__ import annotations

import re

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
from ottla.pipelines.streams.processor import Context, Processor, ProcessorOperator, Record
from tests.pipelines.parity.inputs import GRACE_MS

HISTORY_MS = 5_000
"""Shorter than what comes late is behind: some of it finds no place in a versioned table."""
SLIDING_GRACE_MS = 5_037
"""No record comes just when such a window closes: there Kafka Streams gives out its last word twice."""
PAIR = "concat(coalesce(left, 'null'), '+', coalesce(right, 'null'))"
WINDOW = "concat(key.key, '@', key.start, '-', key.end)"
TEXT = "cast(value as string)"
FOREIGN_KEY = "split(value, ':')[0]"
SAID = "try_cast(split(value, ':')[1] AS BIGINT)"
"""When a record says that it happened; null if it does not say."""

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
TIMES = ("times-skipped", "times-stamped", "times-said", "times-said-windows", "times-joined")
ROUTES = ("routed-left", "routed-right", "routed-all", "routed-rest", "routed-to-0", "routed-to-1")
VERSIONS = ("as-of-inner", "as-of-left", "versions-rows", "versions-both", "versions-outer", "versions-sums")
COGROUPS = (
    "cogrouped",
    "cogrouped-tumbling",
    "cogrouped-tumbling-final",
    "cogrouped-hopping",
    "cogrouped-hopping-final",
    "cogrouped-sliding",
    "cogrouped-sliding-final",
    "cogrouped-session",
    "cogrouped-session-final",
)
OUTPUTS = {
    "words": WORDS, "windows": WINDOWS, "joins": JOINS, "tables": TABLES, "groups": GROUPS, "times": TIMES,
    "routes": ROUTES, "cogroups": COGROUPS, "versions": VERSIONS,
}  # fmt: skip
"""The topics that each topology writes."""
STREAMS = (
    *JOINS,
    *ROUTES,
    "as-of-inner",
    "as-of-left",
    "versions-rows",
    "times-skipped",
    "times-stamped",
    "times-said",
    "times-joined",
)
"""Those of which every record counts, beside the last words of windows."""


def topology(name: str, prefix: str) -> Topology:
    """One of them by its name, on topics whose names begin so."""
    builder = StreamsBuilder()
    made = {
        "words": _words,
        "windows": _windows,
        "joins": _joins,
        "tables": _tables,
        "groups": _groups,
        "times": _times,
        "routes": _routes,
        "cogroups": _cogroups,
        "versions": _versions,
    }
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


def _emit_both(table: KTable, topic: str) -> None:
    _emit(table, topic)
    _emit(table.suppress(), f"{topic}-final")


def _emit(table: KTable, topic: str) -> None:
    table.to_stream().map(WINDOW, TEXT).to(topic)


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


def _times(builder: StreamsBuilder, at: str) -> None:
    builder.stream(f"{at}times-skip", timestamp="LogAndSkipOnInvalidTimestamp").to(f"{at}times-skipped")
    stamped = builder.stream(f"{at}times-partition", timestamp="UsePartitionTimeOnInvalidTimestamp")
    stamped.to(f"{at}times-stamped")
    said = builder.stream(f"{at}times-payload", timestamp=f"coalesce({SAID}, -1)")
    said.to(f"{at}times-said")
    windows = TimeWindows.of_size(10_000, grace=GRACE_MS)
    _emit(said.group_by_key().windowed_by(windows).count(), f"{at}times-said-windows")
    previous = builder.stream(f"{at}times-previous", timestamp=python(_said_or_after_the_previous, "long"))
    said.join(previous, PAIR, JoinWindows.of_time_difference(1_000, grace=20_000)).to(f"{at}times-joined")


def _said_or_after_the_previous(partition_time: int, timestamp: int, key: str, value: str) -> int:
    said = value.split(":")[1]
    return partition_time + 7 if said == "none" else int(said)


class Router(Processor):
    """Sends records to children by their number, with more headers, other values and other times."""

    def process(self, record: Record, context: Context) -> None:
        number = int(record.value[1:])
        assert context.record_metadata is not None
        place = f"{context.record_metadata.partition}/{context.record_metadata.offset}"
        marked = record.with_headers(*record.headers, ("place", place.encode()))
        if number % 4 in (0, 3):
            context.forward(marked, child="left-way")
        if number % 4 in (1, 3):
            later = record.with_value(f"{record.value}?").with_timestamp(record.timestamp_ms + 5)
            context.forward(later, child="right-way")
        if number % 4 == 2:
            context.forward(marked.with_key(f"{record.key}+"))


def _routes(builder: StreamsBuilder, at: str) -> None:
    router = ProcessorOperator(processor=Router(), key_type="STRING", value_type="STRING")
    routed = builder.stream(f"{at}routed").process(router)
    left = routed.filter("true", name="left-way")
    left.to(f"{at}routed-left")
    left.to(extractor=f"concat('{at}routed-to-', cast(substr(value, 2) AS INT) % 2)")
    routed.map_values("concat(value, '!')", name="right-way").to(f"{at}routed-right")
    routed.to(f"{at}routed-all")
    routed.repartition(name="rest").to(f"{at}routed-rest")


def _cogroups(builder: StreamsBuilder, at: str) -> None:
    """Of which the order of records shows, within a stream and between the two."""
    one, two = (builder.stream(f"{at}group-{letter}").group_by_key() for letter in "ab")
    both = one.cogroup(python(lambda key, value, sum: _mixed(sum, 31, value)))
    both = both.cogroup(two, python(lambda key, value, sum: _mixed(sum, 17, value)))
    both.aggregate("0").to_stream().to(f"{at}cogrouped")
    tumbling = TimeWindows.of_size(10_000, grace=GRACE_MS)
    sliding = SlidingWindows.of_time_difference(6_000, grace=SLIDING_GRACE_MS)
    _emit_both(both.windowed_by(tumbling).aggregate("0"), f"{at}cogrouped-tumbling")
    _emit_both(both.windowed_by(tumbling.advance_by(4_000)).aggregate("0"), f"{at}cogrouped-hopping")
    _emit_both(both.windowed_by(sliding).aggregate("0"), f"{at}cogrouped-sliding")
    sessions = both.windowed_by(SessionWindows.of_inactivity_gap(1_000, grace=GRACE_MS))
    merger = python(lambda key, left, right: _mixed(left, 7, right))
    _emit_both(sessions.aggregate("0", merger), f"{at}cogrouped-session")


def _mixed(sum: str, factor: int, value: str) -> str:
    return str((int(sum) * factor + int(re.sub(r"\D", "", value)) + 1) % 1_000_003)


def _versions(builder: StreamsBuilder, at: str) -> None:
    stream = builder.stream(f"{at}as-of")
    table = builder.table(f"{at}versions", versioned=HISTORY_MS)
    other = builder.table(f"{at}versions-two", versioned=HISTORY_MS)
    stream.join(table, PAIR).to(f"{at}as-of-inner")
    stream.left_join(table.filter("length(value) % 5 > 0"), PAIR).to(f"{at}as-of-left")
    table.to_stream().to(f"{at}versions-rows")
    table.join(other, PAIR).to_stream().to(f"{at}versions-both")
    table.outer_join(other, PAIR).to_stream().to(f"{at}versions-outer")
    add = python(lambda so_far, value: str(int(so_far) + int(value)))
    take = python(lambda so_far, value: str(int(so_far) - int(value)))
    grouped = table.group_by(FOREIGN_KEY, "split(value, ':')[1]")
    grouped.reduce(add, take).to_stream().to(f"{at}versions-sums")
