"""Fetched batches as Arrow: what `poll_arrow` gives, and whole topics as tables (`read_topic`, `topic(name).read`).

Promises: every record that `poll` would give is in a row, once and in order, and none that it would not; a record that
cannot be read is told once everything before it was given, as `poll` does. pyarrow is imported when it is first needed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from operator import is_ as _is
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from ottla.client.config import ConsumerConfig, read_settings
from ottla.client.consumer.core import ConsumerCore
from ottla.client.consumer.face import without_times
from ottla.client.consumer.fetch_buffer import RawBatch
from ottla.client.consumer.offset_lookup import EARLIEST, LATEST
from ottla.client.consumer.partition_state import PartitionState, Position
from ottla.client.consumer.unpacking import AheadBatch
from ottla.client.errors import CorruptRecord, KafkaTimeout, RecordDeserialization
from ottla.client.network import Deadline
from ottla.errors import UnknownTopicOrPartition
from ottla.types import TopicPartition

if TYPE_CHECKING:
    import pyarrow as pa

    from ottla.client.columnar import ArrowBuilder, ValueDecoder

    Schema: TypeAlias = pa.Schema | ValueDecoder

POLL_BYTES = 16 * 1024 * 1024
"""About how many bytes one `poll_arrow` decodes."""
EXPECTED_MARGIN = 1.05
EXPECTED_BYTES_MAX = 64 * 1024 * 1024
"""Room for no more is made before it is needed."""
RECORD_SIZE_MIN = 7
INT64_MAX = 2**63 - 1

Taken: TypeAlias = tuple[PartitionState, list[RawBatch]]
Place: TypeAlias = "Mapping[int, int] | int | Any | None"
"""Where to begin or to end: offsets by partition, a time (ms since the epoch, or a `datetime`), or None for the end
of the log on that side."""


def value_decoder(schema: Schema | None) -> ValueDecoder | None:
    """What decodes a column: a decoder as it is, a `pyarrow.Schema` as that of JSON objects."""
    import pyarrow as pa

    if isinstance(schema, pa.Schema):
        from ottla.client.columnar import JsonValues

        return JsonValues(schema)
    return schema


class ArrowMaker:
    """Makes record batches of what was taken from the buffer."""

    def __init__(
        self,
        columns: Sequence[str] | None = None,
        schema: Schema | None = None,
        key_schema: Schema | None = None,
    ) -> None:
        self._ratio = 1.0
        """What a fetched byte was in keys, values and headers, the last time."""
        self._columns = columns
        self._value = value_decoder(schema)
        self._key = value_decoder(key_schema)

    def builder(self) -> ArrowBuilder:
        from ottla.client.columnar import ArrowBuilder

        # The buffer has compared the checksums already.
        return ArrowBuilder(self._columns, key=self._key, value=self._value, check_crcs=False)

    def make(self, taken: Sequence[Taken], ends: Mapping[TopicPartition, int] | None = None) -> Made:
        """All that was taken, before the partitions' `ends` and up to the first record that cannot be read."""
        if not taken:
            return Made(None, [], None)
        items = [(state, raw) for state, batches in taken for raw in batches]
        try:
            return self._make(items, ends)
        finally:
            for unpacking in {raw.batch.unpacking for _, raw in items if isinstance(raw.batch, AheadBatch)}:
                unpacking.close()

    def _make(
        self, items: Sequence[tuple[PartitionState, RawBatch]], ends: Mapping[TopicPartition, int] | None
    ) -> Made:
        bad: RecordDeserialization | None = None
        while True:
            builder = self.builder()
            self._expect(builder, items)
            end, error = _fill(builder, items, ends, bad)
            if end == len(items):
                self._ratio = builder.data_size / sum(raw.batch.size for _, raw in items)
            try:
                batch = builder.finish() if len(builder) else None
            except RecordDeserialization as raised:
                bad = raised  # once more, without it and what comes after it
                continue
            rest: dict[PartitionState, Position] = {}
            for state, raw in items[end:]:
                rest.setdefault(state, Position(raw.start_offset, raw.batch.leader_epoch))
            if error is not None and error is bad and bad is not None:
                state, raw = items[end]
                rest[state] = Position(max(bad.offset, raw.start_offset), raw.batch.leader_epoch)
            return Made(batch, list(rest.items()), None if batch is not None else error)

    def _expect(self, builder: ArrowBuilder, items: Sequence[tuple[PartitionState, RawBatch]]) -> None:
        """Room for all of it at once: columns that grow are copied as often as they do."""
        fetched = sum(raw.batch.size for _, raw in items)
        size = min(int(fetched * self._ratio * EXPECTED_MARGIN), EXPECTED_BYTES_MAX)
        # What a header says of its records is believed as far as there are bytes for them.
        rows = sum(max(raw.batch.record_count, 0) for _, raw in items)
        builder.expect(min(rows, size // RECORD_SIZE_MIN), size)


def _fill(
    builder: ArrowBuilder,
    items: Sequence[tuple[PartitionState, RawBatch]],
    ends: Mapping[TopicPartition, int] | None,
    bad: RecordDeserialization | None,
) -> tuple[int, Exception | None]:
    """Decode what lies before the partitions' `ends` and before what is `bad`; how many items were used, and what
    kept the next from being."""
    for index, (state, raw) in enumerate(items):
        partition = state.topic_partition
        is_last = bad is not None and bad.topic_partition == partition and bad.offset < raw.batch.next_offset
        until = INT64_MAX if ends is None else ends.get(partition, 0)
        if bad is not None and is_last:
            until = min(until, bad.offset)
        try:
            builder.add(partition, raw.batch, raw.start_offset, until)
        except (CorruptRecord, OverflowError) as raised:
            return index, raised
        if is_last:
            return index, bad
    return len(items), None


class ArrowMakers:
    """The maker for what a consumer is asked for again and again: typed columns are costly to begin with."""

    def __init__(self) -> None:
        self._asked: tuple[Any, ...] = ()
        self._maker: ArrowMaker | None = None

    def get(self, columns: Sequence[str] | None, schema: Schema | None, key_schema: Schema | None) -> ArrowMaker:
        """A maker for these columns, the last one if it is for the same."""
        asked = (None if columns is None else tuple(columns), schema, key_schema)
        same = bool(self._asked) and self._asked[0] == asked[0] and all(map(_is, self._asked[1:], asked[1:]))
        if self._maker is None or not same:
            self._asked, self._maker = asked, ArrowMaker(*asked)
        return self._maker


class Made(NamedTuple):
    """A record batch, or None; where partitions go back to that were taken and not used; and why nothing was made."""

    batch: pa.RecordBatch | None
    rest: list[tuple[PartitionState, Position]]
    error: Exception | None


class TopicReader:
    """One topic, to be read as a table: `(await consumer.topic("orders").read())`."""

    def __init__(self, settings: Mapping[str, object], topic: str) -> None:
        self._settings = settings
        self._topic = topic

    async def read(
        self,
        start: Place = None,
        end: Place = None,
        *,
        columns: Sequence[str] | None = None,
        schema: Schema | None = None,
        key_schema: Schema | None = None,
        partitions: Sequence[int] | None = None,
        timeout: float | None = None,
    ) -> pa.Table:
        """The records of [start, end) in all partitions, or in these, as a table; see `read_table`."""
        from ottla.world.threads import running_world

        core = ConsumerCore(running_world(), read_settings(ConsumerConfig, self._settings, {}))
        try:
            return await read_table(
                core,
                self._topic,
                start,
                end,
                maker=ArrowMaker(columns, schema, key_schema),
                partitions=partitions,
                timeout_ms=None if timeout is None else timeout * 1000,
            )
        finally:
            core.close()


class SyncTopicReader:
    """One topic, to be read as a table: `consumer.topic("orders").read()`."""

    def __init__(self, settings: Mapping[str, object], topic: str) -> None:
        self._reader = TopicReader(settings, topic)

    def read(
        self,
        start: Place = None,
        end: Place = None,
        *,
        columns: Sequence[str] | None = None,
        schema: Schema | None = None,
        key_schema: Schema | None = None,
        partitions: Sequence[int] | None = None,
        timeout: float | None = None,
    ) -> pa.Table:
        """The records of [start, end) in all partitions, or in these, as a table; see `read_table`."""
        from ottla.world.threads import LoopThread

        loop = LoopThread("ottla-topic-reader")
        try:
            return loop.run(
                self._reader.read(
                    start,
                    end,
                    columns=columns,
                    schema=schema,
                    key_schema=key_schema,
                    partitions=partitions,
                    timeout=timeout,
                )
            )
        finally:
            loop.close()


def reader_settings(originals: Mapping[str, object]) -> dict[str, object]:
    """A consumer's settings without what has to do with its group, for a reader that has none."""
    return {name: value for name, value in originals.items() if name not in _NOT_A_READERS}


_NOT_A_READERS = {
    "auto.commit.interval.ms",
    "auto.offset.reset",
    "client.id",
    "enable.auto.commit",
    "group.id",
    "group.instance.id",
    "group.protocol",
    "group.remote.assignor",
    "heartbeat.interval.ms",
    "interceptor.classes",
    "key.deserializer",
    "max.poll.interval.ms",
    "partition.assignment.strategy",
    "session.timeout.ms",
    "value.deserializer",
}


def read_topic(
    bootstrap_servers: str | Sequence[str],
    topic: str,
    start: Place = None,
    end: Place = None,
    *,
    columns: Sequence[str] | None = None,
    schema: Schema | None = None,
    key_schema: Schema | None = None,
    partitions: Sequence[int] | None = None,
    timeout: float | None = None,
    **settings: object,
) -> pa.Table:
    """A topic's records from `start` to `end` as a table, with a consumer's `settings`; see `read_table`."""
    return SyncTopicReader({"bootstrap.servers": bootstrap_servers, **settings}, topic).read(
        start, end, columns=columns, schema=schema, key_schema=key_schema, partitions=partitions, timeout=timeout
    )


async def read_table(
    core: ConsumerCore,
    topic: str,
    start: Place,
    end: Place,
    *,
    maker: ArrowMaker,
    partitions: Sequence[int] | None = None,
    timeout_ms: float | None = None,
) -> pa.Table:
    """All records from `start` on and before `end`; the ends are those of the moment when the reading begins.

    Each is a mapping of partitions to offsets (a partition that is not in it is read from its beginning, or to its
    end), a time in ms or a `datetime` (the first record that is not older), or None. `KafkaTimeout` when the records
    have not come in time; `UnknownTopicOrPartition` for a topic that does not exist. `core` does nothing else.
    """
    import pyarrow as pa

    deadline = Deadline(core.world, timeout_ms)
    known = (await core.topics([topic], deadline.at_most(core.config.default_api_timeout_ms))).get(topic)
    if not known:
        raise UnknownTopicOrPartition(f"Topic {topic} does not exist")
    wanted = [TopicPartition(topic, one) for one in partitions or [info.partition for info in known]]
    starts = await _places(core, wanted, start, EARLIEST, deadline)
    ends = await _places(core, wanted, end, LATEST, deadline)
    left = {one: ends[one] for one in wanted if starts[one] < ends[one]}
    if left:
        core.assign(left)
        for one in left:
            core.seek(one, starts[one])
    batches: list[pa.RecordBatch] = []
    while left:
        core.begin_poll()
        seen = core.signal_count
        made = maker.make(core.take_batches(POLL_BYTES), ends)
        if made.batch is not None:
            batches.append(made.batch)
        core.rewind(made.rest)
        if made.error is not None:
            raise made.error
        left = {one: end_offset for one, end_offset in left.items() if core.stands_at(one) < end_offset}
        done = [one for one in core.subscription.partitions if one not in left]
        core.set_paused(done, True)
        if left and made.batch is None:
            if deadline.has_passed:
                names = ", ".join(f"{one} at {core.stands_at(one)} of {end_offset}" for one, end_offset in left.items())
                raise KafkaTimeout(f"{topic} was not read within {timeout_ms:.0f} ms: {names}")
            await core.wait(core.poll_wait_ms(deadline.left_ms), seen)
    if not batches:
        batches.append(maker.builder().finish())
    # Each batch has the topics it met as its dictionary; a table has one for all.
    return pa.Table.from_batches(batches).unify_dictionaries()


async def _places(
    core: ConsumerCore, partitions: Sequence[TopicPartition], place: Place, otherwise: int, deadline: Deadline
) -> dict[TopicPartition, int]:
    """The offset that `place` means in each partition."""
    timeout_ms = deadline.at_most(core.config.default_api_timeout_ms)
    if place is None:
        return without_times(await core.offsets(dict.fromkeys(partitions, otherwise), timeout_ms))
    if isinstance(place, Mapping):
        known = {one: place[one.partition] for one in partitions if one.partition in place}
        missing = dict.fromkeys((one for one in partitions if one not in known), otherwise)
        return {**known, **without_times(await core.offsets(missing, timeout_ms))}
    at_ms = place if isinstance(place, int) else int(place.timestamp() * 1000)
    found = without_times(await core.offsets(dict.fromkeys(partitions, at_ms), timeout_ms))
    later = dict.fromkeys((one for one in partitions if one not in found), LATEST)  # no record is so young
    return {**found, **without_times(await core.offsets(later, timeout_ms))}
