"""The options of the source, without Spark and without a broker."""

from __future__ import annotations

import pytest

from ottla.pipelines.source.options import BadOption, Kind, SourceOptions, read_columns
from ottla.types import TopicPartition

BROKER = {"kafka.bootstrap.servers": "localhost:9092"}
TOPIC = {**BROKER, "subscribe": "t"}
T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)


def batch(**options: str) -> SourceOptions:
    return SourceOptions.read({**TOPIC, **options}, is_streaming=False)


def stream(**options: str) -> SourceOptions:
    return SourceOptions.read({**TOPIC, **options}, is_streaming=True)


def test_a_batch_reads_everything_and_a_stream_what_comes() -> None:
    assert (batch().start.kind, batch().end.kind) == (Kind.EARLIEST, Kind.LATEST)
    assert (stream().start.kind, stream().fails_on_data_loss) == (Kind.LATEST, True)
    assert stream().max_trigger_delay_ms == 15 * 60 * 1000


def test_names_of_options_have_no_case() -> None:
    found = SourceOptions.read(
        {"KAFKA.Bootstrap.Servers": "b:1", "SUBSCRIBE": "t", "STARTINGOFFSETS": "Earliest", "failondataloss": "False"},
        is_streaming=True,
    )
    assert found.start.kind is Kind.EARLIEST
    assert found.settings == {"bootstrap.servers": "b:1"}
    assert not found.fails_on_data_loss


def test_what_is_read_is_told_in_one_of_three_ways() -> None:
    assert stream(subscribe=" a, b ,,a").choice.topics == ("a", "b")
    pattern = SourceOptions.read({**BROKER, "subscribePattern": "a.*"}, is_streaming=True).choice.pattern
    assert pattern is not None
    assert pattern.pattern == "a.*"
    assigned = SourceOptions.read({**BROKER, "assign": '{"t":[1,0,1]}'}, is_streaming=True).choice.partitions
    assert assigned == (T1, T0)


def test_offsets_and_times_come_in_all_their_forms() -> None:
    assert stream(startingOffsets='{"t":{"0":23,"1":-2}}').start.by_partition == {T0: 23, T1: -2}
    assert batch(endingOffsets='{"t":{"0":-1}}').end.by_partition == {T0: -1}
    assert stream(startingOffsetsByTimestamp='{"t":{"0":1700000000000}}').start.kind is Kind.TIMESTAMPS
    both = stream(startingTimestamp="5", startingOffsetsByTimestamp='{"t":{"0":6}}', startingOffsets="earliest").start
    assert (both.kind, both.timestamp) == (Kind.TIMESTAMP, 5), "one timestamp for all goes first, as in Spark"
    assert stream(startingOffsetsByTimestampStrategy="LATEST").latest_if_no_match


@pytest.mark.parametrize(
    ("text", "milliseconds"), [("500ms", 500), ("10s", 10_000), ("15m", 900_000), ("2h", 7_200_000), ("70", 70)]
)
def test_a_delay_is_written_as_spark_writes_times(text: str, milliseconds: int) -> None:
    assert stream(maxTriggerDelay=text).max_trigger_delay_ms == milliseconds


def test_a_micro_batch_has_no_limit_unless_one_is_set() -> None:
    assert stream().max_offsets_per_trigger is None
    assert stream(maxOffsetsPerTrigger="none").max_offsets_per_trigger is None
    assert stream(maxOffsetsPerTrigger="7").max_offsets_per_trigger == 7


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"assign": '{"t":[0]}'}, "Only one of the options subscribe, subscribePattern and assign"),
        ({"subscribe": " , "}, "no topics to subscribe to"),
        ({"startingOffsets": '{"t":{"0":"a"}}'}, "startingOffsets is as"),
        ({"startingOffsets": "sometimes"}, "startingOffsets is as"),
        ({"startingTimestamp": "noon"}, "startingTimestamp is a whole number"),
        ({"startingOffsetsByTimestampStrategy": "first"}, "is 'error' or 'latest'"),
        ({"minPartitions": "0"}, "minPartitions must be positive"),
        ({"maxRecordsPerPartition": "-1"}, "maxRecordsPerPartition must be positive"),
        ({"maxBytesPerTrigger": "0"}, "maxBytesPerTrigger must be positive"),
        ({"maxOffsetsPerTrigger": "many"}, "maxOffsetsPerTrigger is a whole number"),
        ({"minOffsetsPerTrigger": "5", "maxOffsetsPerTrigger": "4"}, "is higher than maxOffsetsPerTrigger"),
        ({"maxTriggerDelay": "soon"}, "maxTriggerDelay is a time"),
        ({"failOnDataLoss": "maybe"}, "failOnDataLoss is true or false"),
        ({"kafka.auto.offset.reset": "latest"}, "kafka.auto.offset.reset is not supported: set the option starting"),
        ({"kafka.key.deserializer": "x"}, "kafka.key.deserializer is not supported"),
        ({"kafka.value.deserializer": "x"}, "kafka.value.deserializer is not supported"),
        ({"kafka.enable.auto.commit": "true"}, "kafka.enable.auto.commit is not supported"),
        ({"kafka.interceptor.classes": "x"}, "kafka.interceptor.classes is not supported"),
        (
            {"kafka.isolation.levle": "x"},
            "Unknown setting isolation.levle of a consumer: did you mean isolation.level?",
        ),
        ({"kafka.isolation.level": "read_everything"}, "A kafka option cannot be: "),
        ({"kafka.bootstrap.servers": " "}, "kafka.bootstrap.servers must be specified"),
        ({"columns": "value,size"}, "There is no column 'size'"),
        ({"columns": "value,VALUE"}, "columns names 'value' twice"),
        ({"endingOffsets": "latest"}, "endingOffsets is not valid in streaming queries"),
        ({"endingOffsetsByTimestamp": "{}"}, "endingOffsetsByTimestamp is not valid in streaming queries"),
        ({"endingTimestamp": "1"}, "endingTimestamp is not valid in streaming queries"),
    ],
)
def test_what_cannot_be_is_refused_in_one_line(options: dict[str, str], words: str) -> None:
    with pytest.raises(BadOption) as refused:
        stream(**options)
    assert words in str(refused.value)
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"startingOffsets": "latest"}, "startingOffsets can't be latest for batch queries"),
        ({"startingOffsets": '{"t":{"0":-1}}'}, "startingOffsets can't be latest for batch queries"),
        ({"endingOffsets": "earliest"}, "endingOffsets can't be earliest for batch queries"),
        ({"endingOffsets": '{"t":{"0":-2}}'}, "endingOffsets can't be earliest for batch queries"),
        ({"startingOffsets": '{"t":{"0":1}}', "endingOffsets": '{"t":{"1":2}}'}, "for the same partitions"),
        ({"startingOffsets": '{"t":{"0":3}}', "endingOffsets": '{"t":{"0":2}}'}, "The start 3 of t-0 is greater"),
    ],
)
def test_a_batch_must_have_something_between_its_ends(options: dict[str, str], words: str) -> None:
    with pytest.raises(BadOption, match=words.replace("(", r"\(")):
        batch(**options)


@pytest.mark.parametrize("text", ["[0]", "{}", '{"t":0}', '{"t":["0"]}', '{"t":[-1]}', "t"])
def test_partitions_to_assign_are_lists_by_topic(text: str) -> None:
    with pytest.raises(BadOption, match="assign"):
        SourceOptions.read({**BROKER, "assign": text}, is_streaming=True)


def test_without_a_topic_there_is_nothing_to_read() -> None:
    with pytest.raises(BadOption, match="One of the options subscribe, subscribePattern and assign must be specified"):
        SourceOptions.read(BROKER, is_streaming=False)
    with pytest.raises(BadOption, match="subscribePattern '\\(' is no regular expression"):
        SourceOptions.read({**BROKER, "subscribePattern": "("}, is_streaming=False)


def test_settings_of_a_group_are_taken_and_have_no_effect() -> None:
    """As in Spark's connector, where a job may name its group: here it names the client, and nothing joins it."""
    found = stream(**{"kafka.group.id": "g", "kafka.session.timeout.ms": "6000", "kafka.check.crcs": "false"})
    assert found.settings == {"bootstrap.servers": "localhost:9092", "client.id": "g", "check.crcs": "false"}
    assert stream(groupIdPrefix="jobs").settings["client.id"] == "jobs"


def test_columns_are_those_that_are_asked_for_in_that_order() -> None:
    assert read_columns({}) == ("key", "value", "topic", "partition", "offset", "timestamp", "timestampType")
    assert read_columns({"includeHeaders": "true"})[-1] == "headers"
    assert read_columns({"columns": "offset, VALUE,timestamptype"}) == ("offset", "value", "timestampType")
    assert read_columns({"columns": "headers"}) == ("headers",)
