"""The options of `format("ottla")` for reading: the names, defaults and checks of Spark's own connector, and ours.

`SourceOptions.read` takes Spark's mapping (names in any case) and raises `BadOption` with one line for what cannot be.
Pure: no Spark, no broker. Called by the data source, in the driver.
"""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum

from ottla.client.config import ConsumerConfig, read_settings
from ottla.errors import InvalidConfig
from ottla.pipelines.errors import PipelineError
from ottla.pipelines.option_names import check_source
from ottla.pipelines.source.offsets import EARLIEST, LATEST, NO_LIMIT, Offsets, parse
from ottla.types import TopicPartition

log = logging.getLogger(__name__)

COLUMNS = ("key", "value", "topic", "partition", "offset", "timestamp", "timestampType")
HEADERS = "headers"
FETCH_OFFSET_ATTEMPTS = 3
FETCH_OFFSET_INTERVAL_MS = 1000
POLL_TIMEOUT_MS = 120_000
MAX_TRIGGER_DELAY_MS = 15 * 60 * 1000
PREFIX = "kafka."
LIMITS = ("maxOffsetsPerTrigger", "minOffsetsPerTrigger", "maxBytesPerTrigger")
"""The options that say how much a micro-batch takes."""

_CHOICES = ("subscribe", "subscribepattern", "assign")
_NOT_SUPPORTED = {
    "auto.offset.reset": "set the option startingOffsets to 'earliest' or 'latest': Spark keeps the offsets itself",
    "key.deserializer": "keys come as binary; use DataFrame operations to read them",
    "value.deserializer": "values come as binary; use DataFrame operations to read them",
    "enable.auto.commit": "Spark keeps the offsets itself; commitGroup commits those of completed micro-batches",
    "interceptor.classes": "interceptors could change what is read",
}
_GROUP_SETTINGS = {
    "auto.commit.interval.ms",
    "group.id",
    "group.instance.id",
    "group.protocol",
    "group.remote.assignor",
    "heartbeat.interval.ms",
    "max.poll.interval.ms",
    "max.poll.records",
    "partition.assignment.strategy",
    "session.timeout.ms",
}
"""Settings of a group's member, which no reader here is: accepted as Spark's connector accepts them, without effect."""
_UNITS_MS = {"us": 0.001, "ms": 1, "s": 1000, "m": 60_000, "min": 60_000, "h": 3_600_000, "d": 86_400_000}


class BadOption(PipelineError, ValueError):
    """An option that is missing or wrong."""


class Kind(Enum):
    """How a beginning or an end is told."""

    EARLIEST = "earliest"
    LATEST = "latest"
    OFFSETS = "offsets"
    """An offset for each partition, or -1 for the latest and -2 for the earliest."""
    TIMESTAMPS = "timestamps"
    """A timestamp for each partition."""
    TIMESTAMP = "timestamp"
    """One timestamp for all partitions."""


@dataclass(frozen=True, slots=True)
class Place:
    """Where to begin, or to end."""

    kind: Kind
    by_partition: Offsets = field(default_factory=dict)
    timestamp: int = 0


@dataclass(frozen=True, slots=True)
class Choice:
    """Which partitions: of topics, of all topics that a pattern matches, or these. One of the three is set."""

    topics: tuple[str, ...] = ()
    pattern: re.Pattern[str] | None = None
    partitions: tuple[TopicPartition, ...] = ()

    def has(self, partition: TopicPartition) -> bool:
        """Whether the partition is chosen, if it is there."""
        if self.pattern is not None:
            return self.pattern.fullmatch(partition.topic) is not None
        return partition.topic in self.topics or partition in self.partitions

    def __str__(self) -> str:
        if self.pattern is not None:
            return f"subscribePattern {self.pattern.pattern}"
        return ", ".join(self.topics) or ", ".join(map(str, self.partitions))


@dataclass(frozen=True, slots=True)
class SourceOptions:
    """What the user has said of a source, checked."""

    choice: Choice
    start: Place
    end: Place
    settings: Mapping[str, str]
    """The `kafka.*` options without their prefix, for our client."""
    columns: tuple[str, ...]
    latest_if_no_match: bool = False
    """startingOffsetsByTimestampStrategy: a partition without a record so young begins at its end."""
    fails_on_data_loss: bool = True
    min_partitions: int | None = None
    max_records_per_partition: int | None = None
    max_offsets_per_trigger: int | None = None
    min_offsets_per_trigger: int | None = None
    max_bytes_per_trigger: int | None = None
    max_trigger_delay_ms: int = MAX_TRIGGER_DELAY_MS
    commit_group: str | None = None
    pushes_filters: bool = False
    attempts: int = FETCH_OFFSET_ATTEMPTS
    attempt_interval_ms: int = FETCH_OFFSET_INTERVAL_MS
    poll_timeout_ms: int = POLL_TIMEOUT_MS

    @classmethod
    def read(cls, options: Mapping[str, str], *, is_streaming: bool) -> SourceOptions:
        """The options of a query, checked; `BadOption` says what is wrong."""
        check_source(options)
        given = _Given(options)
        if is_streaming:
            _refuse_ends(given)
        choice = _choice(given)
        start = _place(given, "starting", Place(Kind.LATEST if is_streaming else Kind.EARLIEST))
        end = _place(given, "ending", Place(Kind.LATEST))
        if not is_streaming:
            _check_batch(given, start, end)
        strategy = given.text("startingOffsetsByTimestampStrategy", "error").lower()
        if strategy not in ("error", "latest"):
            raise BadOption(f"startingOffsetsByTimestampStrategy is 'error' or 'latest', and not '{strategy}'")
        least, most = given.number("minOffsetsPerTrigger"), given.limit("maxOffsetsPerTrigger")
        if least is not None and most is not None and least > most:
            raise BadOption(f"minOffsetsPerTrigger ({least}) is higher than maxOffsetsPerTrigger ({most})")
        return cls(
            choice,
            start,
            end,
            _settings(given),
            read_columns(options),
            latest_if_no_match=strategy == "latest",
            fails_on_data_loss=given.flag("failOnDataLoss", default=True),
            min_partitions=given.positive("minPartitions"),
            max_records_per_partition=given.positive("maxRecordsPerPartition"),
            max_offsets_per_trigger=most,
            min_offsets_per_trigger=least,
            max_bytes_per_trigger=given.positive("maxBytesPerTrigger"),
            max_trigger_delay_ms=_duration_ms("maxTriggerDelay", given.text("maxTriggerDelay", "15m")),
            commit_group=given.text("commitGroup", "") or None,
            pushes_filters=given.flag("pushDownPredicate", default=False),
            attempts=given.positive("fetchOffset.numRetries") or FETCH_OFFSET_ATTEMPTS,
            attempt_interval_ms=given.number("fetchOffset.retryIntervalMs", FETCH_OFFSET_INTERVAL_MS) or 0,
            poll_timeout_ms=given.positive("kafkaConsumer.pollTimeoutMs") or POLL_TIMEOUT_MS,
        )


def read_columns(options: Mapping[str, str]) -> tuple[str, ...]:
    """The columns that a source with these options has, in their order."""
    given = _Given(options)
    has_headers = given.flag("includeHeaders", default=False)
    everything = (*COLUMNS, HEADERS) if has_headers else COLUMNS
    text = given.text("columns", "")
    if not text:
        return everything
    known = {name.lower(): name for name in (*COLUMNS, HEADERS)}
    chosen = []
    for name in (part.strip() for part in text.split(",")):
        column = known.get(name.lower())
        if column is None:
            raise BadOption(f"There is no column '{name}': columns takes some of {', '.join((*COLUMNS, HEADERS))}")
        if column in chosen:
            raise BadOption(f"columns names '{column}' twice")
        chosen.append(column)
    return tuple(chosen)


class _Given:
    """Spark's options by their names in lower case."""

    def __init__(self, options: Mapping[str, str]) -> None:
        self.values = {name.lower(): value for name, value in options.items()}

    def __contains__(self, name: str) -> bool:
        return name.lower() in self.values

    def text(self, name: str, default: str) -> str:
        return self.values.get(name.lower(), default).strip()

    def flag(self, name: str, *, default: bool) -> bool:
        text = self.text(name, str(default)).lower()
        if text not in ("true", "false"):
            raise BadOption(f"{name} is true or false, and not '{text}'")
        return text == "true"

    def number(self, name: str, default: int | None = None) -> int | None:
        text = self.text(name, "")
        if not text:
            return default
        try:
            return int(text)
        except ValueError:
            raise BadOption(f"{name} is a whole number, and not '{text}'") from None

    def limit(self, name: str) -> int | None:
        """None also for the word `none`, which takes away what would be the limit otherwise."""
        return None if self.text(name, "").lower() == NO_LIMIT else self.number(name)

    def positive(self, name: str) -> int | None:
        found = self.number(name)
        if found is not None and found <= 0:
            raise BadOption(f"{name} must be positive, and is {found}")
        return found


def _choice(given: _Given) -> Choice:
    named = [name for name in _CHOICES if name in given]
    if len(named) != 1:
        which = "One" if not named else "Only one"
        raise BadOption(f"{which} of the options subscribe, subscribePattern and assign must be specified")
    text = given.text(named[0], "")
    match named[0]:
        case "subscribe":
            topics = tuple(dict.fromkeys(part.strip() for part in text.split(",") if part.strip()))
            if not topics:
                raise BadOption(f"There are no topics to subscribe to in subscribe '{text}'")
            return Choice(topics=topics)
        case "subscribepattern":
            if not text:
                raise BadOption("subscribePattern is empty")
            try:
                return Choice(pattern=re.compile(text))
            except re.error as error:
                raise BadOption(f"subscribePattern '{text}' is no regular expression: {error}") from None
        case _:
            return Choice(partitions=_assigned(text))


def _assigned(text: str) -> tuple[TopicPartition, ...]:
    wanted = f"""assign is as {{"topicA":[0,1],"topicB":[2,4]}}, and not {text}"""
    try:
        topics = json.loads(text)
    except ValueError:
        raise BadOption(wanted) from None
    if not isinstance(topics, dict) or not all(isinstance(one, list) for one in topics.values()):
        raise BadOption(wanted)
    found: dict[TopicPartition, None] = {}
    for topic, partitions in topics.items():
        for partition in partitions:
            if not isinstance(partition, int) or isinstance(partition, bool) or partition < 0:
                raise BadOption(wanted)
            found[TopicPartition(topic, partition)] = None
    if not found:
        raise BadOption(f"There are no partitions in assign {text}")
    return tuple(found)


def _place(given: _Given, side: str, default: Place) -> Place:
    """`startingTimestamp` goes before `startingOffsetsByTimestamp`, and that before `startingOffsets`."""
    at = given.number(f"{side}Timestamp")
    if at is not None:
        return Place(Kind.TIMESTAMP, timestamp=at)
    by_timestamp = f"{side}OffsetsByTimestamp"
    if by_timestamp in given:
        return Place(Kind.TIMESTAMPS, _by_partition(by_timestamp, given.text(by_timestamp, "")))
    name = f"{side}Offsets"
    if name not in given:
        return default
    text = given.text(name, "")
    if text.lower() in ("earliest", "latest"):
        return Place(Kind(text.lower()))
    return Place(Kind.OFFSETS, _by_partition(name, text))


def _by_partition(name: str, text: str) -> Offsets:
    try:
        return parse(text)
    except ValueError as error:
        raise BadOption(f"""{name} is as {{"topicA":{{"0":23,"1":-1}}}}, and not {text}: {error}""") from None


def _refuse_ends(given: _Given) -> None:
    for name in ("endingOffsets", "endingOffsetsByTimestamp", "endingTimestamp"):
        if name in given:
            raise BadOption(f"{name} is not valid in streaming queries, which have no end")


def _check_batch(given: _Given, start: Place, end: Place) -> None:
    if start.kind is Kind.LATEST or LATEST in _offsets(start).values():
        raise BadOption("startingOffsets can't be latest for batch queries: nothing lies behind the latest offset")
    if end.kind is Kind.EARLIEST or EARLIEST in _offsets(end).values():
        raise BadOption("endingOffsets can't be earliest for batch queries: nothing lies before the earliest offset")
    if start.kind is end.kind and start.kind in (Kind.OFFSETS, Kind.TIMESTAMPS):
        if start.by_partition.keys() != end.by_partition.keys():
            raise BadOption(
                f"The start and the end must be told for the same partitions: {sorted(map(str, start.by_partition))} "
                f"and {sorted(map(str, end.by_partition))}"
            )
        for one, first in start.by_partition.items():
            last = end.by_partition[one]
            if first > last and first >= 0 and last >= 0:
                raise BadOption(f"The start {first} of {one} is greater than its end {last}")
    for name in (*LIMITS, "maxTriggerDelay"):
        if name in given:
            log.warning("%s is ignored in batch queries", name)


def _offsets(place: Place) -> Offsets:
    return place.by_partition if place.kind is Kind.OFFSETS else {}


def _settings(given: _Given) -> dict[str, str]:
    found = {name.removeprefix(PREFIX): value for name, value in given.values.items() if name.startswith(PREFIX)}
    for name, reason in _NOT_SUPPORTED.items():
        if name in found:
            raise BadOption(f"The option kafka.{name} is not supported: {reason}")
    if not found.get("bootstrap.servers", "").strip():
        raise BadOption("The option kafka.bootstrap.servers must be specified")
    if "group.id" in found and "groupIdPrefix" in given:
        log.warning("groupIdPrefix is ignored, as kafka.group.id has been set")
    name = found.get("group.id") or given.text("groupIdPrefix", "")
    if name:
        found.setdefault("client.id", name)  # what a broker's quotas and logs tell this reader by
    settings = {name: value for name, value in found.items() if name not in _GROUP_SETTINGS}
    try:
        read_settings(ConsumerConfig, settings, {})
    except InvalidConfig as error:
        raise BadOption(f"A kafka option cannot be: {error}") from None
    return settings


def _duration_ms(name: str, text: str) -> int:
    """A time as Spark writes it: `100ms`, `10s`, `5m`, `1h`; a bare number is of milliseconds."""
    found = re.fullmatch(r"(\d+)\s*([a-z]*)", text.lower())
    if found is None or (found[2] or "ms") not in _UNITS_MS:
        raise BadOption(f"{name} is a time such as 500ms, 10s or 15m, and not '{text}'")
    return int(int(found[1]) * _UNITS_MS[found[2] or "ms"])
