"""A topic read for ever, in micro-batches: Spark's stream reader.

Spark keeps the offsets in its checkpoint, in the form of its own connector and with the ids of the topics; this decides
how far a micro-batch goes (`latestOffset`), which tasks read it (`partitions`) and what to do where records are gone.
An id is read with the end of a micro-batch, and Spark writes it with that end before a task reads: whatever dies when,
the offsets in the checkpoint are those of the topics whose ids are beside them. The driver's connections are made at
the first call and kept. With `commitGroup` every completed micro-batch is committed to that consumer group.
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
    SourceOffset,
    TopicIds,
    count,
    limited,
    names,
    to_json,
)
from ottla.pipelines.source.options import SourceOptions
from ottla.pipelines.source.planning import Range
from ottla.types import ZERO_UUID, TopicPartition, Uuid

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
        return self._plan.begin().to_json()

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
        known = SourceOffset.from_json(start)
        return self._plan.end_of_batch(known, has_limits=not isinstance(limit, ReadAllAvailable)).to_json()

    def reportLatestOffset(self) -> Json | None:
        """Where the partitions end, for the query's progress."""
        latest = self._plan.latest
        return to_json(latest) if latest else None

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> list[InputPartition]:
        """The tasks of a micro-batch."""
        ranges = self._plan.ranges(SourceOffset.from_json(start), SourceOffset.from_json(end))
        return input_partitions(ranges, self._options)

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
        self._fixed: SourceOffset | None = None
        self._first: SourceOffset | None = None
        self._earliest: dict[tuple[TopicPartition, Uuid | None], int] = {}
        """The beginnings of partitions that the query has not read from yet, by the ids of their topics."""
        self._triggered_s = float("-inf")

    def close(self) -> None:
        self._cluster.close()
        if self._group is not None:
            self._group.close()

    def begin(self) -> SourceOffset:
        """Spark asks at every trigger until there is a first micro-batch: `latest` is where it was at the first time,
        or records that came since would be left out."""
        if self._first is None:
            self._first = self._cluster.resolve(self._options.start, is_start=True)
        return self._first

    # How far a micro-batch goes

    def end_of_batch(self, start: SourceOffset, *, has_limits: bool) -> SourceOffset:
        """`start` is where the query stands: everything before it is done."""
        commit = None if self._group is None or start == self._first else self._group.commit(start.offsets)
        latest = self._latest(start)
        if commit is not None and self._group is not None:
            self._group.wait(commit)
        return self._limited(start, latest) if has_limits else latest

    def _latest(self, start: SourceOffset) -> SourceOffset:
        if self._fixed is not None:
            return self._fixed
        latest = self._cluster.latest(start)
        self._compare(start, latest)
        self.latest = latest.offsets
        if self.fixes_ends:
            self._fixed = latest
        return latest

    def _compare(self, start: SourceOffset, end: SourceOffset) -> Offsets:
        """Tells what of `start` is gone in `end`. Returns what of it still counts: the rest is read from its beginning,
        if it is there."""
        recreated = start.recreated(end.topic_ids)
        for topic in sorted(recreated):
            self._lost(_recreated(topic, start.topic_ids[topic], end.topic_ids[topic]))
        kept = start.without(recreated)
        gone = {one: offset for one, offset in kept.items() if one not in end.offsets}
        if gone:
            self._lost(self._deleted(gone))
        return kept

    def _deleted(self, gone: Offsets) -> str:
        choice = self._options.choice
        others = sorted(one for one in gone if not choice.has(one))
        if others:
            topics = ", ".join(dict.fromkeys(one.topic for one in others))
            return (
                f"The checkpoint was made by a query that read other topics: it has offsets of {topics}, and this "
                f"query reads {choice}. A checkpoint belongs to one query: set checkpointLocation to a new one, or "
                "read the same topics as before"
            )
        places = ", ".join(f"{one} from offset {gone[one]} on" for one in sorted(gone))
        return (
            f"Partitions have been deleted, or kafka.bootstrap.servers is another cluster than the checkpoint was made "
            f"with, and what was not read of them is lost: {places}"
        )

    def _limited(self, start: SourceOffset, latest: SourceOffset) -> SourceOffset:
        options = self._options
        known = start.without(start.recreated(latest.topic_ids))
        known |= self._beginnings(latest.offsets.keys() - known.keys(), latest.topic_ids)
        least = options.min_offsets_per_trigger
        if least is not None and self._waits(least, known, latest.offsets):
            return start
        end = latest.offsets
        if options.max_offsets_per_trigger is not None:
            end = limited(options.max_offsets_per_trigger, known, end)
        if options.max_bytes_per_trigger is not None:
            end = self._within_bytes(options.max_bytes_per_trigger, known, end)
        return SourceOffset(end, latest.topic_ids)

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

    def _beginnings(self, partitions: set[TopicPartition], topic_ids: TopicIds) -> Offsets:
        """Where new partitions begin, remembered: they are asked for again when the tasks are planned."""
        keys = {one: (one, topic_ids.get(one.topic)) for one in partitions}
        unknown = [one for one, key in keys.items() if key not in self._earliest]
        if unknown:
            found = self._cluster.earliest(unknown)
            self._earliest |= {keys[one]: offset for one, offset in found.items()}
        return {one: self._earliest[key] for one, key in keys.items() if key in self._earliest}

    # What the tasks read

    def ranges(self, start: SourceOffset, end: SourceOffset) -> list[Range]:
        """[start, end) of every partition that is in `end`; one that is new, or of a topic that was recreated, from its
        beginning."""
        known = self._compare(start, end)
        new = end.offsets.keys() - known.keys()
        beginnings = self._beginnings(new, end.topic_ids)
        unknown = new - beginnings.keys()
        if unknown:
            self._lost(f"The beginnings of {names(unknown)} cannot be found: they have been deleted")
        for one in sorted(beginnings):
            if beginnings[one]:
                self._lost(f"Offsets 0 to {beginnings[one] - 1} of {one}, which is new, were lost before it was read")
        found = []
        for one in sorted(end.offsets):
            first, last = known.get(one, beginnings.get(one)), end.offsets[one]
            if first is None:
                continue
            if last < first:
                self._lost(
                    f"{one} ends at offset {last} now and was read up to {first}: the topic was deleted and made "
                    "anew, or a broker has lost records"
                )
                first = self._cluster.earliest([one]).get(one, last)
            found.append(Range(one.topic, one.partition, first, last, end.topic_ids.get(one.topic, ZERO_UUID)))
        for one in new:
            self._earliest.pop((one, end.topic_ids.get(one.topic)), None)
        return found

    def _lost(self, text: str) -> None:
        if self._options.fails_on_data_loss:
            raise DataLoss(f"{text}. {WAY_OUT}.")
        log.warning("%s. The query goes on, as failOnDataLoss is false.", text)


def _recreated(topic: str, before: Uuid, now: Uuid) -> str:
    return (
        f"The topic {topic} was deleted and made anew, or kafka.bootstrap.servers is another cluster than before: its "
        f"id was {before} when the query last read it and is {now} now. What was not read of the old topic is lost, "
        "and the new one is to be read from its beginning"
    )


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
