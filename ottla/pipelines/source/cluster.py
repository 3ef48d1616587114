"""What the driver asks the brokers: which partitions there are, where they begin and end, and where times lie in them.

Promises: `latest` costs one round trip on a connection that is kept (the partitions and their ends are asked for at the
same time), and more only when there are new partitions or a topic was recreated; an end that lies before where the
query stands already is asked for again before it is believed. The ids of topics are read before or beside their
offsets, never after: offsets of a topic that was recreated in between carry the old id, under which no task reads a
record. Blocking; one thread at a time. Called by `batch` and `stream`.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from ottla.client.config import FIRST_CONTACT, ConsumerConfig
from ottla.client.consumer.fetch_buffer import Fetched
from ottla.client.consumer.offset_lookup import EARLIEST, LATEST, FoundOffset
from ottla.client.consumer.partition_state import PartitionState, Position
from ottla.client.errors import KafkaTimeout
from ottla.client.network import Build, Deadline
from ottla.errors import KafkaError, OffsetOutOfRange, UnknownTopicOrPartition, error_class
from ottla.pipelines.errors import PipelineError
from ottla.pipelines.source.link import Leader, Link
from ottla.pipelines.source.offsets import Offsets, SourceOffset, TopicIds, names
from ottla.pipelines.source.options import BadOption, Choice, Kind, Place, SourceOptions
from ottla.types import ZERO_UUID, TopicPartition, Uuid
from ottla.wire.messages.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse

log = logging.getLogger(__name__)

METADATA_KEY = 3
NO_CREATION_VERSION = 4
SAMPLE_BYTES = 64 * 1024


class MissingTopic(PipelineError):
    """A topic or partition that is to be read does not exist."""


class Chosen(NamedTuple):
    """The partitions that a query reads, sorted, and the ids of their topics, from brokers that have ids (2.8)."""

    partitions: list[TopicPartition]
    topic_ids: TopicIds


class ClusterOffsets:
    """The partitions that one query reads, as their brokers tell."""

    def __init__(self, options: SourceOptions) -> None:
        self._options = options
        self._choice = options.choice
        self._link = Link({**FIRST_CONTACT, **options.settings}, "source")
        self._timeout_ms = self._link.config.default_api_timeout_ms

    @property
    def config(self) -> ConsumerConfig:
        return self._link.config

    def close(self) -> None:
        self._link.close()

    # Where partitions begin and end

    def earliest(self, partitions: Iterable[TopicPartition]) -> Offsets:
        """The beginnings of those of `partitions` that exist."""
        wanted = set(partitions)
        if not wanted:
            return {}

        async def work() -> Offsets:
            there = [one for one in (await self._chosen()).partitions if one in wanted]
            return await self._ends(there, EARLIEST)

        return self._link.run(work())

    def latest(self, known: SourceOffset) -> SourceOffset:
        """The ends of all partitions that are chosen now. `known` is where the query stands: no end lies before it,
        unless it still does so when it was asked for again, or its topic was recreated."""
        return self._link.run(self._latest(known))

    async def _latest(self, known: SourceOffset) -> SourceOffset:
        for attempt in range(self._options.attempts):
            found: dict[TopicPartition, FoundOffset | None] = {}
            await self._watch(known.offsets)
            there, _ = await asyncio.gather(
                self._chosen(), self._link.lookup.ask(dict.fromkeys(known.offsets, LATEST), found.__setitem__)
            )
            self._link.keep_topics({one.topic for one in there.partitions})
            recreated = known.recreated(there.topic_ids)
            other = [one for one in there.partitions if one.topic in recreated]
            await self._await_leaders(other, there.topic_ids)
            for one in other:
                found.pop(one, None)  # it may be the end of the topic that was deleted
            missing = [one for one in there.partitions if one not in found]
            ends = await self._ends(missing, LATEST) if missing else {}
            ends |= {one: at.offset for one in there.partitions if (at := found.get(one)) is not None}
            before = known.without(recreated)
            back = [one for one, end in ends.items() if end < before.get(one, 0)]
            if not back:
                break
            log.warning("The ends of %s lie before what was read already (attempt %d)", names(back), attempt + 1)
            if attempt + 1 < self._options.attempts:
                await self._link.world.tasks.sleep_ms(self._options.attempt_interval_ms)
        # A broker that tells no ids, as in a cluster that is being upgraded, takes none away.
        topics = {one.topic for one in ends}
        kept = {topic: topic_id for topic, topic_id in known.topic_ids.items() if topic in topics}
        return SourceOffset(ends, kept | there.topic_ids)

    async def _await_leaders(self, partitions: Iterable[TopicPartition], topic_ids: Mapping[str, Uuid]) -> None:
        """Until the leaders of these serve the topics of these ids: for a moment they may still have those that were
        deleted, and offsets are asked for by name."""
        metadata, deadline, failures = self._link.metadata, Deadline(self._link.world, self._timeout_ms), 0
        for one in partitions:
            while True:
                leader = self._link.leader(one)
                if leader is not None and leader.topic_id == topic_ids[one.topic] and await self._serves(leader, one):
                    break
                if deadline.has_passed:
                    raise KafkaTimeout(f"No leader serves {one}, which was recreated, within {self._timeout_ms} ms")
                metadata.request_update()
                await self._link.world.tasks.sleep_ms(self._link.network.retry_backoff.delay_ms(failures))
                failures += 1

    async def _serves(self, leader: Leader, partition: TopicPartition) -> bool:
        try:
            told = await self._link.fetch(partition, 0, leader, bytes_max=1, wait_ms=0, node_id=leader.node_id)
        except KafkaError as error:
            if not error.retriable:
                raise
            return False
        return told is not None and told.error_code in (0, OffsetOutOfRange.code)

    async def _watch(self, partitions: Iterable[TopicPartition]) -> None:
        """Have the leaders of these known."""
        metadata = self._link.metadata
        if metadata.add_topics({one.topic for one in partitions}):
            await self._link.updated(self._timeout_ms)

    async def _ends(self, partitions: Iterable[TopicPartition], which: int) -> Offsets:
        targets = dict.fromkeys(partitions, which)
        await self._watch(targets)
        found = await self._link.lookup.find(targets, self._timeout_ms)
        return {one: at.offset for one, at in found.items() if at is not None}

    # Which partitions there are

    def partitions(self) -> list[TopicPartition]:
        """The partitions that are chosen now, sorted; `MissingTopic` for one that is named and is not there."""
        return self._present().partitions

    def _present(self) -> Chosen:
        there = self._link.run(self._chosen())
        choice = self._choice
        topics = {one.topic for one in there.partitions}
        missing = [topic for topic in choice.topics if topic not in topics]
        if missing:
            raise MissingTopic(f"There is no topic {', '.join(missing)}")
        absent = set(choice.partitions) - set(there.partitions)
        if absent:
            raise MissingTopic(f"There is no partition {names(absent)}")
        return there

    async def _chosen(self) -> Chosen:
        choice = self._choice
        asked = None if choice.pattern is not None else _topics(choice)
        deadline = Deadline(self._link.world, self._timeout_ms)
        failures = 0
        while True:
            try:
                return _chosen(choice, await self._describe(asked))
            except KafkaError as error:
                if not error.retriable:
                    raise
                if deadline.has_passed:
                    raise KafkaTimeout(f"The topics were not had within {self._timeout_ms} ms: {error}") from error
                await self._link.world.tasks.sleep_ms(self._link.network.retry_backoff.delay_ms(failures))
                failures += 1

    async def _describe(self, topics: list[str] | None) -> MetadataResponse:
        named = None if topics is None else [MetadataRequestTopic(name=name) for name in topics]
        build = Build(
            METADATA_KEY,
            lambda _: MetadataRequest(topics=named, allow_auto_topic_creation=False),
            version_min=NO_CREATION_VERSION,
        )
        network = self._link.network
        response: MetadataResponse = await network.send(network.least_loaded(), build)
        for topic in response.topics:
            code = topic.error_code
            if code and code != UnknownTopicOrPartition.code:
                raise error_class(code)(f"{topic.name}: {error_class(code).__doc__}")
        return response

    # Places

    def resolve(self, place: Place, *, is_start: bool) -> SourceOffset:
        """The offset that `place` means in every partition that is chosen."""
        partitions, topic_ids = self._present()
        return SourceOffset(self._offsets(place, partitions, is_start=is_start), topic_ids)

    def _offsets(self, place: Place, partitions: list[TopicPartition], *, is_start: bool) -> Offsets:
        match place.kind:
            case Kind.EARLIEST:
                return self._link.run(self._ends(partitions, EARLIEST))
            case Kind.LATEST:
                return self._link.run(self._ends(partitions, LATEST))
            case Kind.TIMESTAMP:
                return self._at_times(dict.fromkeys(partitions, place.timestamp), is_start=is_start)
            case Kind.TIMESTAMPS:
                _check_same(place, partitions, is_start=is_start)
                return self._at_times(place.by_partition, is_start=is_start)
            case Kind.OFFSETS:
                _check_same(place, partitions, is_start=is_start)
                return self._at_offsets(place.by_partition)

    def _at_offsets(self, wanted: Offsets) -> Offsets:
        found = dict(wanted)
        for which in (EARLIEST, LATEST):
            open_ones = [one for one, offset in wanted.items() if offset == which]
            if open_ones:
                found |= self._link.run(self._ends(open_ones, which))
        return found

    def _at_times(self, times: Mapping[TopicPartition, int], *, is_start: bool) -> Offsets:
        async def work() -> Offsets:
            await self._watch(times)
            found = await self._link.lookup.find(times, self._timeout_ms)
            known = {one: at.offset for one, at in found.items() if at is not None}
            later = [one for one in times if one not in known]
            if later and is_start and not self._options.latest_if_no_match:
                first = min(later)
                raise BadOption(
                    f"{first} has no record at {times[first]} ms or later; with startingOffsetsByTimestampStrategy "
                    "'latest' such a partition begins at its end"
                )
            return known | await self._ends(later, LATEST)

        return self._link.run(work())

    def first_since(self, partitions: Iterable[TopicPartition], timestamp_ms: int) -> Offsets:
        """The first offset of each partition whose record is not older; none of a partition that has no such record."""
        times = dict.fromkeys(partitions, timestamp_ms)

        async def work() -> Offsets:
            await self._watch(times)
            found = await self._link.lookup.find(times, self._timeout_ms)
            return {one: at.offset for one, at in found.items() if at is not None}

        return self._link.run(work())

    # Sizes

    def bytes_per_offset(self, start: Mapping[TopicPartition, int]) -> dict[TopicPartition, float]:
        """About how many bytes an offset from `start` on takes in the log, by a small piece of each partition."""
        return self._link.run(self._sample(start))

    async def _sample(self, start: Mapping[TopicPartition, int]) -> dict[TopicPartition, float]:
        sizes = await asyncio.gather(*(self._sample_one(one, offset) for one, offset in start.items()))
        return {one: size for one, size in zip(start, sizes, strict=True) if size is not None}

    async def _sample_one(self, partition: TopicPartition, offset: int) -> float | None:
        leader = self._link.leader(partition)
        if leader is None:
            return None
        told = await self._link.fetch(
            partition, offset, leader, bytes_max=SAMPLE_BYTES, wait_ms=0, node_id=leader.node_id
        )
        if told is None or told.error_code or not told.records:
            return None
        data = told.records
        assert isinstance(data, bytes | bytearray | memoryview), "what was received is no slice of a file"
        fetched = Fetched(
            PartitionState(partition), Position(offset), data, None, is_read_committed=False, check_crcs=False
        )
        end = fetched.end()
        batches = fetched.take_batches()
        if end is None or not batches:
            return None
        return sum(raw.batch.size for raw in batches) / (end.offset - min(batches[0].batch.base_offset, offset))


def _topics(choice: Choice) -> list[str]:
    return list(dict.fromkeys((*choice.topics, *(one.topic for one in choice.partitions))))


def _chosen(choice: Choice, response: MetadataResponse) -> Chosen:
    found: list[TopicPartition] = []
    topic_ids: TopicIds = {}
    for topic in response.topics:
        name = topic.name
        if topic.error_code or name is None or (choice.pattern is not None and topic.is_internal):
            continue
        partitions = [TopicPartition(name, one.partition_index) for one in topic.partitions]
        chosen = [one for one in partitions if choice.has(one)]
        found += chosen
        if chosen and topic.topic_id != ZERO_UUID:
            topic_ids[name] = Uuid(topic.topic_id)
    return Chosen(sorted(found), topic_ids)


def _check_same(place: Place, partitions: Iterable[TopicPartition], *, is_start: bool) -> None:
    told, there = set(place.by_partition), set(partitions)
    if told != there:
        side = "starting" if is_start else "ending"
        offsets = "OffsetsByTimestamp" if place.kind is Kind.TIMESTAMPS else "Offsets"
        raise BadOption(
            f"{side}{offsets} must tell all partitions, and no others (-1 is the latest offset, -2 the earliest). "
            f"Told: {names(told)}. There are: {names(there)}"
        )
