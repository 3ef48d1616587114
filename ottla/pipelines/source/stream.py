"""A topic read for ever, in micro-batches: Spark's stream reader.

Spark keeps the offsets in its checkpoint, in the form of its own connector; this decides how far a micro-batch goes
(`latestOffset`), which tasks read it (`partitions`) and what to do where records are gone. The driver's connections are
made at the first call and kept. With `commitGroup` every completed micro-batch is committed to that consumer group.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxBytes,
    ReadMaxRows,
    ReadMinRows,
    SupportsTriggerAvailableNow,
)

from ottla.errors import KafkaError
from ottla.pipelines.source.batch import RangeTasks, input_partitions
from ottla.pipelines.source.cluster import ClusterOffsets
from ottla.pipelines.source.offsets import (
    WAY_OUT,
    DataLoss,
    Json,
    Offsets,
    count,
    from_json,
    limited,
    names,
    to_json,
)
from ottla.pipelines.source.options import SourceOptions
from ottla.pipelines.source.planning import Range

if TYPE_CHECKING:
    import pyarrow as pa

    from ottla.client.consumer import Consumer

log = logging.getLogger(__name__)

COMMIT_WAIT_S = 5.0


class OttlaStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """The chosen partitions as a stream."""

    def __init__(self, options: SourceOptions) -> None:
        self._options = options
        self._tasks = RangeTasks(options)
        self._planner: _Planner | None = None

    def __getstate__(self) -> dict[str, Any]:
        # What goes to the tasks: no connections.
        return {"_options": self._options, "_tasks": self._tasks, "_planner": None}

    @property
    def _plan(self) -> _Planner:
        if self._planner is None:
            self._planner = _Planner(self._options)
        return self._planner

    def initialOffset(self) -> Json:
        """Where a query without a checkpoint begins."""
        return to_json(self._plan.begin())

    def getDefaultReadLimit(self) -> ReadLimit:
        """One of the limits in the options; the others are known here anyway."""
        options = self._options
        if options.max_offsets_per_trigger is not None:
            return ReadMaxRows(options.max_offsets_per_trigger)
        if options.max_bytes_per_trigger is not None:
            return ReadMaxBytes(options.max_bytes_per_trigger)
        if options.min_offsets_per_trigger is not None:
            return ReadMinRows(options.min_offsets_per_trigger)
        return ReadAllAvailable()

    def prepareForTriggerAvailableNow(self) -> None:
        """The ends of now, or rather of the first `latestOffset`, are those of the whole run."""
        self._plan.fixes_ends = True

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> Json:
        """How far the next micro-batch goes."""
        return to_json(self._plan.end_of_batch(from_json(start), has_limits=not isinstance(limit, ReadAllAvailable)))

    def reportLatestOffset(self) -> Json | None:
        """Where the partitions end, for the query's progress."""
        latest = self._plan.latest
        return to_json(latest) if latest else None

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> list[InputPartition]:
        """The tasks of a micro-batch."""
        return input_partitions(self._plan.ranges(from_json(start), from_json(end)), self._options)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """In a task."""
        return self._tasks.read(partition)

    def stop(self) -> None:
        """The query has ended."""
        if self._planner is not None:
            self._planner.close()
            self._planner = None


class _Planner:
    """The driver's side of one query."""

    def __init__(self, options: SourceOptions) -> None:
        self._options = options
        self._cluster = ClusterOffsets(options)
        self._group = None if options.commit_group is None else _Group(options, options.commit_group)
        self.fixes_ends = False
        self.latest: Offsets = {}
        self._fixed: Offsets | None = None
        self._first: Offsets | None = None
        self._earliest: Offsets = {}
        """The beginnings of partitions that the query has not read from yet."""
        self._triggered_s = float("-inf")

    def close(self) -> None:
        self._cluster.close()
        if self._group is not None:
            self._group.close()

    def begin(self) -> Offsets:
        """Spark asks at every trigger until there is a first micro-batch: `latest` is where it was at the first time,
        or records that came since would be left out."""
        if self._first is None:
            self._first = self._cluster.resolve(self._options.start, is_start=True)
        return self._first

    # How far a micro-batch goes

    def end_of_batch(self, start: Offsets, *, has_limits: bool) -> Offsets:
        """`start` is where the query stands: everything before it is done."""
        commit = None if self._group is None or start == self._first else self._group.commit(start)
        latest = self._latest(start)
        if commit is not None and self._group is not None:
            self._group.wait(commit)
        return self._limited(start, latest) if has_limits else latest

    def _latest(self, start: Offsets) -> Offsets:
        if self._fixed is not None:
            return self._fixed
        latest = self._cluster.latest(start)
        gone = start.keys() - latest.keys()
        if gone:
            self._lost(_deleted(start, gone))
        self.latest = latest
        if self.fixes_ends:
            self._fixed = latest
        return latest

    def _limited(self, start: Offsets, latest: Offsets) -> Offsets:
        options = self._options
        known = {**self._beginnings(latest.keys() - start.keys()), **start}
        if options.min_offsets_per_trigger is not None and self._waits(options.min_offsets_per_trigger, known, latest):
            return start
        end = latest
        if options.max_offsets_per_trigger is not None:
            end = limited(options.max_offsets_per_trigger, known, end)
        if options.max_bytes_per_trigger is not None:
            end = self._within_bytes(options.max_bytes_per_trigger, known, end)
        return end

    def _waits(self, least: int, start: Offsets, latest: Offsets) -> bool:
        """Whether there is too little for a micro-batch, and it has not waited long enough for more."""
        now_s = time.monotonic()
        is_due = (now_s - self._triggered_s) * 1000 >= self._options.max_trigger_delay_ms
        # With the ends of the run fixed, nothing more would come of waiting.
        if not is_due and self._fixed is None and count(start, latest) < least:
            return True
        self._triggered_s = now_s
        return False

    def _within_bytes(self, bytes_max: int, start: Offsets, end: Offsets) -> Offsets:
        waiting = {one: start[one] for one in end if one in start and end[one] > start[one]}
        sizes = self._cluster.bytes_per_offset(waiting)
        total = sum(sizes.get(one, 0.0) * (end[one] - offset) for one, offset in waiting.items())
        if total <= bytes_max:
            return end
        offsets = sum(end[one] - offset for one, offset in waiting.items())
        return limited(max(1, int(offsets * bytes_max / total)), start, end)

    def _beginnings(self, partitions: set[Any]) -> Offsets:
        """Where new partitions begin, remembered: they are asked for again when the tasks are planned."""
        unknown = {one for one in partitions if one not in self._earliest}
        if unknown:
            self._earliest |= self._cluster.earliest(unknown)
        return {one: self._earliest[one] for one in partitions if one in self._earliest}

    # What the tasks read

    def ranges(self, start: Offsets, end: Offsets) -> list[Range]:
        """[start, end) of every partition that is in `end`; a new one from its beginning."""
        new = end.keys() - start.keys()
        beginnings = self._beginnings(new)
        unknown = new - beginnings.keys()
        if unknown:
            self._lost(f"The beginnings of {names(unknown)} cannot be found: they have been deleted")
        for one in sorted(beginnings):
            if beginnings[one]:
                self._lost(f"Offsets 0 to {beginnings[one] - 1} of {one}, which is new, were lost before it was read")
        gone = start.keys() - end.keys()
        if gone:
            self._lost(_deleted(start, gone))
        found = []
        for one in sorted(end):
            first = start.get(one, beginnings.get(one))
            if first is None:
                continue
            if end[one] < first:
                self._lost(
                    f"{one} ends at offset {end[one]} now and was read up to {first}: the topic was deleted and made "
                    "anew, or a broker has lost records"
                )
                first = self._cluster.earliest([one]).get(one, end[one])
            found.append(Range(one.topic, one.partition, first, end[one]))
        for one in new:
            self._earliest.pop(one, None)
        return found

    def _lost(self, text: str) -> None:
        if self._options.fails_on_data_loss:
            raise DataLoss(f"{text}. {WAY_OUT}.")
        log.warning("%s. The query goes on, as failOnDataLoss is false.", text)


def _deleted(start: Offsets, gone: set[Any]) -> str:
    places = ", ".join(f"{one} from offset {start[one]} on" for one in sorted(gone))
    return f"Partitions have been deleted, and what was not read of them is lost: {places}"


class _Group:
    """The consumer group that shows how far the query is."""

    def __init__(self, options: SourceOptions, group: str) -> None:
        from ottla.client.consumer import Consumer

        self._name = group
        settings: Mapping[str, object] = {**options.settings, "group.id": group, "enable.auto.commit": "false"}
        self._consumer: Consumer[bytes, bytes] = Consumer(settings)
        self._thread = ThreadPoolExecutor(1, "ottla-commit-group")
        self._committed: Offsets = {}

    def commit(self, offsets: Offsets) -> Future[None] | None:
        """Commit what is new in them, beside what the caller does meanwhile."""
        news = {one: offset for one, offset in offsets.items() if self._committed.get(one) != offset}
        if not news:
            return None
        self._committed |= news
        return self._thread.submit(lambda: self._consumer.commit(news, timeout=COMMIT_WAIT_S))

    def wait(self, commit: Future[None]) -> None:
        """A group that cannot be committed to is told in the log: the query does not depend on it."""
        try:
            commit.result()
        except KafkaError as error:
            self._committed = {}
            log.warning("The offsets could not be committed to the group %s: %s", self._name, error)

    def close(self) -> None:
        self._thread.shutdown()
        self._consumer.close()
