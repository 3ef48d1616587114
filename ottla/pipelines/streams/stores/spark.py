"""A processor on Spark: `transformWithState`, with a store as one state variable.

The row form of it is used, not the one of pandas: a processor sees records one by one. State variables hold the same
bytes as the changelog, beside the record's time and when it expires. Time to live is kept by timers of our own and not
by Spark's: Spark's state vanishes silently, and the changelog has to get the deletion.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from typing import TYPE_CHECKING, Any

from pyspark.sql import Row
from pyspark.sql import functions as F
from pyspark.sql.streaming.stateful_processor import StatefulProcessor, StatefulProcessorHandle
from pyspark.sql.types import LongType

from ottla.pipelines.errors import PipelineError
from ottla.pipelines.streams.processor import Cell, Headers, KeySession, Record, RecordMetadata, TimeMode
from ottla.pipelines.streams.stores.spec import StoreKind

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.streaming.stateful_processor import ExpiredTimerInfo, MapState, TimerValues, ValueState

    from ottla.pipelines.streams.processor import ProcessorOperator


_CELL = "value BINARY, timestamp_ms BIGINT, expires_ms BIGINT"
_TIMERS = "ottla_timers"
HEADERS = "array<struct<key: string, value: binary>>"
PLACE = ("topic", "partition", "offset", "seq")
"""Columns that say where a record stands among others of its key, as far as a frame has them."""
ROCKSDB = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
PROVIDER_SETTING = "spark.sql.streaming.stateStore.providerClass"


def transform(operator: ProcessorOperator, records: DataFrame, children: Collection[str]) -> DataFrame:
    """See `ProcessorOperator.transform`."""
    provider = records.sparkSession.conf.get(PROVIDER_SETTING)
    if provider != ROCKSDB:
        raise PipelineError(f"A processor's state needs RocksDB: set {PROVIDER_SETTING}={ROCKSDB}")
    is_ms = records.schema["timestamp"].dataType == LongType()
    at = F.timestamp_millis("timestamp") if is_ms else F.col("timestamp")
    chosen = records.withColumn("event_time", at).withColumn("timestamp_ms", F.unix_millis("event_time"))
    if operator.time is TimeMode.EVENT:
        chosen = chosen.withWatermark("event_time", f"{operator.watermark_delay_ms} milliseconds")
    # Spark drops late rows by the column that has the watermark. It is left out: the watermark moves, nothing is late.
    names = (name for name in (*PLACE, "headers") if name in records.columns)
    chosen = chosen.select("key", "value", "timestamp_ms", *names)
    result = chosen.groupBy("key").transformWithState(
        _SparkProcessor(operator, frozenset(children)),
        f"store STRING, store_key BINARY, store_value BINARY, key {operator.key_type}, value {operator.value_type}, "
        f"timestamp BIGINT, headers {HEADERS}, child STRING",
        "Update",
        operator.time.value,
    )
    return result if is_ms else result.withColumn("timestamp", F.timestamp_millis("timestamp"))


class _SparkProcessor(StatefulProcessor):
    """What Spark calls for each key of a batch, and for each timer."""

    def __init__(self, operator: ProcessorOperator, children: frozenset[str]) -> None:
        self._operator = operator
        self._children = children

    def init(self, handle: StatefulProcessorHandle) -> None:
        self._state = _SparkState(handle, self._operator)

    def handleInputRows(self, key: Any, rows: Iterator[Any], timerValues: TimerValues) -> Iterator[Row]:
        session = self._session(key, timerValues)
        # A shuffle mixes what several tasks have read; a key's records lie in one partition, in this order.
        for row in sorted(rows, key=lambda row: [row[name] for name in PLACE if name in row]):
            session.process(Record(row.key, row.value, row.timestamp_ms, _headers(row)), _metadata(row))
        yield from _rows(session)

    def handleExpiredTimer(
        self, key: Any, timerValues: TimerValues, expiredTimerInfo: ExpiredTimerInfo
    ) -> Iterator[Row]:
        session = self._session(key, timerValues)
        session.fire(expiredTimerInfo.getExpiryTimeInMs())
        yield from _rows(session)

    def close(self) -> None:
        """Nothing is held."""

    def _session(self, key: Any, times: TimerValues) -> KeySession:
        match self._operator.time:
            case TimeMode.PROCESSING:
                now_ms = times.getCurrentProcessingTimeInMs()
            case TimeMode.EVENT:
                now_ms = max(0, times.getCurrentWatermarkInMs())
            case TimeMode.NONE:
                now_ms = 0
        operator = self._operator
        return KeySession(operator.processor, operator.time, self._state, key[0], now_ms, self._children)


def _rows(session: KeySession) -> Iterator[Row]:
    changes = session.finish()
    for record, child in session.forwarded:
        yield Row(
            store=None,
            store_key=None,
            store_value=None,
            key=record.key,
            value=record.value,
            timestamp=record.timestamp_ms,
            headers=[{"key": name, "value": content} for name, content in record.headers] or None,
            child=child,
        )
    for change in changes:
        yield Row(
            store=change.store,
            store_key=change.key,
            store_value=change.value,
            key=None,
            value=None,
            timestamp=change.timestamp_ms,
            headers=None,
            child=None,
        )


def _headers(row: Row) -> Headers:
    given = row.headers if "headers" in row else None
    # Spark hands structs over as dictionaries.
    return tuple((one["key"], None if one["value"] is None else bytes(one["value"])) for one in given or ())


def _metadata(row: Row) -> RecordMetadata | None:
    if "topic" not in row or "offset" not in row:
        return None
    return RecordMetadata(row.topic, row.partition, row.offset)


class _SparkState:
    """The state variables, which Spark points at the key at hand."""

    def __init__(self, handle: StatefulProcessorHandle, operator: ProcessorOperator) -> None:
        self._values: dict[str, _Value] = {}
        self._maps: dict[str, _Map] = {}
        for spec in operator.stores:
            if spec.kind is StoreKind.MAP:
                self._maps[spec.name] = _Map(handle.getMapState(spec.name, "inner_key BINARY", _CELL))
            else:
                self._values[spec.name] = _Value(handle.getValueState(spec.name, _CELL))
        self._timers = None
        if operator.time is not TimeMode.NONE:
            state = handle.getMapState(_TIMERS, "at_ms BIGINT", "for_processor BOOLEAN, for_sweep BOOLEAN")
            self._timers = _Timers(handle, state)

    def value(self, store: str) -> _Value:
        return self._values[store]

    def map(self, store: str) -> _Map:
        return self._maps[store]

    def timers(self) -> _Timers:
        assert self._timers is not None, "nothing sets a timer without a time to go by"
        return self._timers


def _cell(found: tuple[Any, ...]) -> Cell:
    return bytes(found[0]), found[1], found[2]


class _Value:
    """Asks whether there is something before it gets it: Spark logs a warning for each key that has nothing."""

    def __init__(self, state: ValueState) -> None:
        self._state = state

    def get(self) -> Cell | None:
        if not self._state.exists():
            return None
        found = self._state.get()
        return None if found is None else _cell(found)

    def put(self, cell: Cell) -> None:
        self._state.update(cell)

    def delete(self) -> None:
        self._state.clear()


class _Map:
    def __init__(self, state: MapState) -> None:
        self._state = state

    def get(self, inner: bytes) -> Cell | None:
        if not self._state.containsKey((inner,)):
            return None
        found = self._state.getValue((inner,))
        return None if found is None else _cell(found)

    def put(self, inner: bytes, cell: Cell) -> None:
        self._state.updateValue((inner,), cell)

    def delete(self, inner: bytes) -> None:
        self._state.removeKey((inner,))

    def items(self) -> Iterable[tuple[bytes, Cell]]:
        if not self._state.exists():
            return []
        return [(bytes(inner[0]), _cell(found)) for inner, found in self._state.iterator()]


class _Timers:
    """Spark knows the times; who wants them is in a state variable of ours."""

    def __init__(self, handle: StatefulProcessorHandle, state: MapState) -> None:
        self._handle = handle
        self._state = state

    def get(self, at_ms: int) -> tuple[bool, bool] | None:
        if not self._state.containsKey((at_ms,)):
            return None
        found = self._state.getValue((at_ms,))
        return None if found is None else (found[0], found[1])

    def put(self, at_ms: int, wanted: tuple[bool, bool]) -> None:
        self._state.updateValue((at_ms,), wanted)

    def delete(self, at_ms: int) -> None:
        self._state.removeKey((at_ms,))

    def items(self) -> Iterable[tuple[int, tuple[bool, bool]]]:
        if not self._state.exists():
            return []
        return [(at[0], (wanted[0], wanted[1])) for at, wanted in self._state.iterator()]

    def register(self, at_ms: int) -> None:
        self._handle.registerTimer(at_ms)

    def unregister(self, at_ms: int) -> None:
        self._handle.deleteTimer(at_ms)
