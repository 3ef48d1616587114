"""Processors: Python code that sees the records of a key one by one, with stores, timers and time to live.

    class Alarm(Processor):
        stores = (StoreSpec(name="readings", value=serde("long")),)

        def process(self, record, context):
            seen = context.value("readings").get() or 0
            context.value("readings").put(seen + 1)
            if record.value > 100:
                context.forward(record.key, f"{seen + 1} readings, the last too hot")

A store and a timer belong to the key whose record is processed, as Spark keeps state by key; a map store has keys of
its own under it. Promises: records of a key come in the order of their partition's offsets; what is put is read back at
once; a batch's changes and its forwarded records become visible together, in one transaction of the sink, and a batch
that is tried again starts from the state before it. Of a store entry that changes several times in a batch the
changelog gets the last value. An entry past its time to live is never returned, and is deleted in the changelog soon
after. Nothing here needs Spark until `ProcessorOperator.transform`.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, overload

from ottla.pipelines.errors import PipelineError
from ottla.pipelines.streams.stores import StoreKey, StoreKind, StoreSpec
from ottla.pipelines.streams.stores.layout import write_key

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

SWEEPS = 16
"""Expired entries are deleted at multiples of ttl / SWEEPS, so that entries put one after another share a timer."""


class TimeMode(enum.Enum):
    """Whose time timers and time to live go by."""

    NONE = "none"
    PROCESSING = "ProcessingTime"
    """The clock, as it stood when the batch began. Spark runs on without records then: `availableNow` never ends."""
    EVENT = "EventTime"
    """Stream time: the greatest timestamp of the batches so far, less the delay given. No record is too old for it."""


Headers = tuple[tuple[str, bytes | None], ...]


class Record(NamedTuple):
    """What a processor sees and forwards. A key or value that is a struct is a dictionary."""

    key: Any
    value: Any
    timestamp_ms: int
    headers: Headers = ()

    def with_key(self, key: Any) -> Record:
        """The record under another key."""
        return self._replace(key=key)

    def with_value(self, value: Any) -> Record:
        """The record with another value."""
        return self._replace(value=value)

    def with_timestamp(self, timestamp_ms: int) -> Record:
        """The record at another time, which is not negative."""
        return _checked(self._replace(timestamp_ms=timestamp_ms))

    def with_headers(self, *headers: tuple[str, bytes | None]) -> Record:
        """The record with these headers in place of its own."""
        return self._replace(headers=headers)


class RecordMetadata(NamedTuple):
    """Where a record lies: in a topic of yours, or in one between queries."""

    topic: str
    partition: int
    offset: int


class Forwarded(NamedTuple):
    """A record on its way to what comes next: to one child, or without a name to all."""

    record: Record
    child: str | None = None


class Processor:
    """The base of processors. One object serves many keys: what is to be remembered goes into stores."""

    stores: Sequence[StoreSpec] = ()

    def process(self, record: Record, context: Context) -> None:
        """Called for each record."""
        raise NotImplementedError(f"{type(self).__name__} has no process(record, context)")

    def on_timer(self, key: Any, at_ms: int, context: Context) -> None:
        """Called when a timer's time has come."""
        raise NotImplementedError(f"{type(self).__name__} sets timers and has no on_timer(key, at_ms, context)")


class Context(Protocol):
    """What a processor may do while it is called."""

    now_ms: int
    """The time that timers go by."""
    record_metadata: RecordMetadata | None
    """Where the record being handled lies; None while a timer is."""

    @overload
    def forward(self, record: Record, /, *, child: str | None = None) -> None: ...

    @overload
    def forward(
        self,
        key: Any,
        value: Any,
        timestamp_ms: int | None = None,
        *,
        headers: Headers | None = None,
        child: str | None = None,
    ) -> None:
        """Send a record on, to all steps that come next, or to the one of the name `child`.

        Without a time or headers, with those of the record being handled; a timer has no headers.
        """

    def value(self, store: str) -> ValueStore:
        """This key's value in a key-value store."""

    def map(self, store: str) -> MapStore:
        """This key's entries in a map store."""

    def schedule(self, at_ms: int) -> None:
        """Have `on_timer` called for this key at that time; twice at the same time is once."""

    def cancel(self, at_ms: int) -> None:
        """Take a timer back; one that is not set is no error."""

    def timers(self) -> list[int]:
        """The times at which this key's timers are set."""


class Change(NamedTuple):
    """A record for a store's changelog; without a value a deletion."""

    store: str
    key: bytes
    value: bytes | None
    timestamp_ms: int


Cell = tuple[bytes, int, int]
"""An entry's value, its record's timestamp, and when it expires (`NEVER`)."""
NEVER = 2**63 - 1
_NOTHING: Any = object()
"""No value, which is not the value None."""


def _checked(record: Record) -> Record:
    """As in Kafka Streams, a record that is sent on has a time."""
    if record.timestamp_ms < 0:
        raise PipelineError(f"a record's timestamp must not be negative: {record.timestamp_ms}")
    return record


class ValueCell(Protocol):
    """One entry of the key at hand, where state is kept."""

    def get(self) -> Cell | None: ...
    def put(self, cell: Cell) -> None: ...
    def delete(self) -> None: ...


class MapCells(Protocol):
    """Entries of the key at hand by their inner keys, where state is kept."""

    def get(self, inner: bytes) -> Cell | None: ...
    def put(self, inner: bytes, cell: Cell) -> None: ...
    def delete(self, inner: bytes) -> None: ...
    def items(self) -> Iterable[tuple[bytes, Cell]]: ...


class TimerCells(Protocol):
    """The timers of the key at hand: a time, and whether the processor and whether a sweep wants it."""

    def get(self, at_ms: int) -> tuple[bool, bool] | None: ...
    def put(self, at_ms: int, wanted: tuple[bool, bool]) -> None: ...
    def delete(self, at_ms: int) -> None: ...
    def items(self) -> Iterable[tuple[int, tuple[bool, bool]]]: ...
    def register(self, at_ms: int) -> None: ...
    def unregister(self, at_ms: int) -> None: ...


class State(Protocol):
    """Where a processor's state is kept: by Spark, or in memory for the test driver."""

    def value(self, store: str) -> ValueCell: ...
    def map(self, store: str) -> MapCells: ...
    def timers(self) -> TimerCells: ...


class KeySession:
    """One key's turn: records or a timer are handled, then `finish` writes what changed. It is the `Context`.

    State is read when it is asked for and written once at the end: each access to Spark's state is a round trip.
    """

    def __init__(
        self,
        processor: Processor,
        mode: TimeMode,
        state: State,
        key: Any,
        now_ms: int,
        children: Collection[str] = (),
    ) -> None:
        self._processor = processor
        self._mode = mode
        self._state = state
        self._key = key
        self._at_ms = now_ms
        self._headers: Headers = ()
        self._children = children
        self.now_ms = now_ms
        self.record_metadata: RecordMetadata | None = None
        self.forwarded: list[Forwarded] = []
        self._specs = {spec.name: spec for spec in processor.stores}
        self._values: dict[str, ValueStore] = {}
        self._maps: dict[str, MapStore] = {}

    def process(self, record: Record, metadata: RecordMetadata | None = None) -> None:
        self._at_ms, self._headers = record.timestamp_ms, record.headers
        self.record_metadata = metadata
        self._processor.process(record, self)

    def fire(self, at_ms: int) -> None:
        """A timer's time has come: for the processor, for a sweep, or for both."""
        timers = self._state.timers()
        for_processor, for_sweep = timers.get(at_ms) or (True, False)
        timers.delete(at_ms)
        self._at_ms, self._headers, self.record_metadata = at_ms, (), None
        if for_sweep:
            for spec in self._specs.values():
                if spec.ttl_ms is not None:
                    store = self.map(spec.name) if spec.kind is StoreKind.MAP else self.value(spec.name)
                    store.sweep()
        if for_processor:
            self._processor.on_timer(self._key, at_ms, self)

    def finish(self) -> list[Change]:
        """Write what changed to where state is kept; what the changelogs have to get."""
        changes: list[Change] = []
        for value in self._values.values():
            changes += value.write(self)
        for entries in self._maps.values():
            changes += entries.write(self)
        return changes

    # --- what a processor calls

    def forward(
        self,
        key: Any,
        value: Any = _NOTHING,
        timestamp_ms: int | None = None,
        *,
        headers: Headers | None = None,
        child: str | None = None,
    ) -> None:
        if value is not _NOTHING:
            at_ms = self._at_ms if timestamp_ms is None else timestamp_ms
            record = Record(key, value, at_ms, self._headers if headers is None else headers)
        elif isinstance(key, Record) and timestamp_ms is None and headers is None:
            record = key
        else:
            raise PipelineError("forward takes a Record, or a key and a value with a time and headers of their own")
        if child is not None and child not in self._children:
            known = ", ".join(sorted(self._children)) or "none"
            raise PipelineError(f"Unknown child node {child}: those that the processor is connected to are {known}")
        self.forwarded.append(Forwarded(_checked(record), child))

    def value(self, store: str) -> ValueStore:
        if store not in self._values:
            spec = self._spec(store, StoreKind.KEY_VALUE)
            self._values[store] = ValueStore(self, spec, self._state.value(store))
        return self._values[store]

    def map(self, store: str) -> MapStore:
        if store not in self._maps:
            spec = self._spec(store, StoreKind.MAP)
            self._maps[store] = MapStore(self, spec, self._state.map(store))
        return self._maps[store]

    def schedule(self, at_ms: int) -> None:
        if self._mode is TimeMode.NONE:
            raise PipelineError("A timer needs a time to go by: time=TimeMode.PROCESSING or TimeMode.EVENT")
        self._want(at_ms, 0)

    def cancel(self, at_ms: int) -> None:
        timers = self._state.timers()
        for_processor, for_sweep = timers.get(at_ms) or (False, False)
        if for_processor and for_sweep:
            timers.put(at_ms, (False, True))
        elif for_processor:
            timers.delete(at_ms)
            timers.unregister(at_ms)

    def timers(self) -> list[int]:
        return sorted(at_ms for at_ms, (for_processor, _) in self._state.timers().items() if for_processor)

    # --- what stores call

    @property
    def key(self) -> Any:
        return self._key

    @property
    def at_ms(self) -> int:
        """The time of what is being handled."""
        return self._at_ms

    def expiry_ms(self, spec: StoreSpec) -> int:
        """When an entry that is put now expires."""
        if spec.ttl_ms is None:
            return NEVER
        # By event time an entry lives from its record on, and stream time is behind that.
        return (max(self._at_ms, self.now_ms) if self._mode is TimeMode.EVENT else self.now_ms) + spec.ttl_ms

    def sweep_later(self, spec: StoreSpec, expires_ms: int) -> None:
        """Have expired entries deleted at the next multiple of a part of the time to live."""
        assert spec.ttl_ms is not None
        step_ms = max(1, spec.ttl_ms // SWEEPS)
        self._want(-(-expires_ms // step_ms) * step_ms, 1)

    def _want(self, at_ms: int, who: int) -> None:
        timers = self._state.timers()
        found = timers.get(at_ms)
        wanted = list(found or (False, False))
        if wanted[who]:
            return
        wanted[who] = True
        timers.put(at_ms, (wanted[0], wanted[1]))
        if found is None:
            timers.register(at_ms)

    def _spec(self, store: str, kind: StoreKind) -> StoreSpec:
        spec = self._specs.get(store)
        if spec is None:
            raise PipelineError(f"{type(self._processor).__name__} has no store {store!r}: name it in `stores`")
        if spec.kind is not kind:
            raise PipelineError(f"Store {store} is a {spec.kind.value} store, not a {kind.value} one")
        if self._key is None:
            raise PipelineError(f"A record without a key has nothing in store {store}: select_key() gives it one")
        return spec


class ValueStore:
    """A key's value in a key-value store."""

    def __init__(self, session: KeySession, spec: StoreSpec, cell: ValueCell) -> None:
        self._session = session
        self._spec = spec
        self._cell = cell
        self._kept = cell.get()
        self._now = self._kept

    def get(self) -> Any:
        """The value, or None."""
        if self._now is None or self._now[2] <= self._session.now_ms:
            return None
        return self._spec.value.decode(self._now[0])

    def put(self, value: Any) -> None:
        """A new value, in place of the one there is."""
        data = self._spec.value.encode(value)
        self._now = (data, self._session.at_ms, self._session.expiry_ms(self._spec))

    def delete(self) -> None:
        """Forget the value."""
        self._now = None

    def sweep(self) -> None:
        """Forget it if its time is over."""
        if self._now is not None and self._now[2] <= self._session.now_ms:
            self._now = None

    def write(self, session: KeySession) -> Iterator[Change]:
        """Write it if it changed; what the changelog gets."""
        if self._now == self._kept:
            return
        key = self._spec.key.encode(session.key)
        if self._now is None:
            self._cell.delete()
            yield Change(self._spec.name, key, None, session.at_ms)
            return
        self._cell.put(self._now)
        if self._now[2] != NEVER:
            session.sweep_later(self._spec, self._now[2])
        yield Change(self._spec.name, key, self._now[0], self._now[1])


class MapStore:
    """A key's entries in a map store, by keys of their own."""

    def __init__(self, session: KeySession, spec: StoreSpec, cells: MapCells) -> None:
        self._session = session
        self._spec = spec
        self._cells = cells
        self._read: dict[bytes, Cell | None] = {}
        """What was read, as it was."""
        self._changed: dict[bytes, Cell | None] = {}

    def get(self, map_key: Any) -> Any:
        """The value of an inner key, or None."""
        cell = self._current(self._spec.map_key.encode(map_key))
        return None if cell is None else self._spec.value.decode(cell[0])

    def put(self, map_key: Any, value: Any) -> None:
        """A new value for an inner key."""
        data = self._spec.value.encode(value)
        self._changed[self._spec.map_key.encode(map_key)] = (
            data,
            self._session.at_ms,
            self._session.expiry_ms(self._spec),
        )

    def delete(self, map_key: Any) -> None:
        """Forget an inner key."""
        self._changed[self._spec.map_key.encode(map_key)] = None

    def items(self) -> list[tuple[Any, Any]]:
        """All entries, in the order of their inner keys' bytes."""
        return self._items(lambda _: True)

    def range(self, first: Any, last: Any) -> list[tuple[Any, Any]]:
        """The entries from inner key `first` to `last`, both included, in the order of their bytes."""
        low, high = self._spec.map_key.encode(first), self._spec.map_key.encode(last)
        return self._items(lambda inner: low <= inner <= high)

    def sweep(self) -> None:
        """Forget the entries whose time is over."""
        for inner, cell in self._all():
            if cell[2] <= self._session.now_ms:
                self._changed[inner] = None

    def _items(self, wanted: Callable[[bytes], bool]) -> list[tuple[Any, Any]]:
        return [
            (self._spec.map_key.decode(inner), self._spec.value.decode(cell[0]))
            for inner, cell in self._all()
            if cell[2] > self._session.now_ms and wanted(inner)
        ]

    def _all(self) -> list[tuple[bytes, Cell]]:
        self._read.update(self._cells.items())
        merged = {**self._read, **self._changed}
        return sorted((inner, cell) for inner, cell in merged.items() if cell is not None)

    def _current(self, inner: bytes) -> Cell | None:
        if inner in self._changed:
            cell = self._changed[inner]
        else:
            if inner not in self._read:
                self._read[inner] = self._cells.get(inner)
            cell = self._read[inner]
        return None if cell is None or cell[2] <= self._session.now_ms else cell

    def write(self, session: KeySession) -> Iterator[Change]:
        """Write the entries that changed; what the changelog gets."""
        for inner, cell in self._changed.items():
            if inner in self._read and self._read[inner] == cell:
                continue
            key = write_key(StoreKind.MAP, StoreKey(self._spec.key.encode(session.key), inner=inner))
            if cell is None:
                self._cells.delete(inner)
                yield Change(self._spec.name, key, None, session.at_ms)
            else:
                self._cells.put(inner, cell)
                if cell[2] != NEVER:
                    session.sweep_later(self._spec, cell[2])
                yield Change(self._spec.name, key, cell[0], cell[1])


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessorOperator:
    """A processor as a step of a topology: what it is, what it forwards, and whose time it goes by."""

    processor: Processor
    key_type: str
    """The Spark type of the keys it forwards: `string`."""
    value_type: str
    """The Spark type of the values it forwards: `struct<id: bigint, name: string>`."""
    time: TimeMode = TimeMode.NONE
    watermark_delay_ms: int = 0
    """By event time, how far timers and times to live stay behind the greatest timestamp."""
    stores: tuple[StoreSpec, ...] = field(init=False)

    def __post_init__(self) -> None:
        stores = tuple(self.processor.stores)
        object.__setattr__(self, "stores", stores)
        names = [spec.name for spec in stores]
        if len(set(names)) < len(names):
            raise PipelineError(f"{type(self.processor).__name__} names a store twice: {', '.join(names)}")
        for spec in stores:
            if spec.is_windowed:
                raise PipelineError(f"Store {spec.name}: a processor keeps key-value and map stores, not windows")
            if spec.ttl_ms is not None and self.time is TimeMode.NONE:
                raise PipelineError(
                    f"Store {spec.name} has a time to live and nothing to go by: "
                    f"time=TimeMode.PROCESSING or TimeMode.EVENT"
                )

    def transform(self, records: DataFrame, *, children: Collection[str] = ()) -> DataFrame:
        """Records in, records and changes out. `children` are the names that records may be forwarded to.

        `records` has `key`, `value` and `timestamp` (a TIMESTAMP, or ms as a BIGINT), and of `topic`, `partition`,
        `offset` and `seq` those that say in which order a key's records come; it may have `headers`. The result has
        `key`, `value`, `timestamp`, `headers` and `child` of forwarded records, where `store` is null; and where it is
        not, `store_key`, `store_value` and `timestamp` of a record for that store's changelog.
        """
        from ottla.pipelines.streams.stores.spark import transform

        return transform(self, records, children)
