"""Where a query begins, how far a micro-batch goes, and what happens when the log is not what the checkpoint says.

A real broker, and the readers as Spark drives them.
"""

from __future__ import annotations

import json
import logging
import time

import pytest
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxBytes, ReadMaxRows, ReadMinRows

from ottla.client.admin import NewPartitions, NewTopic
from ottla.client.producer import Producer
from ottla.pipelines.source.cluster import MissingTopic
from ottla.pipelines.source.offsets import DataLoss
from ottla.pipelines.source.options import BadOption
from ottla.pipelines.source.stream import OttlaStreamReader
from ottla.testing import Cluster
from ottla.types import TopicPartition
from tests.pipelines.source.support import (
    Stream,
    admin,
    numbered,
    offsets_of,
    produce,
    read_batch,
    recreate,
    source,
    topic_id,
    travelled,
    values_of,
)
from tests.support.clients import eventually, new_topic

DAY_MS = 86_400_000
T0_MS = 1_700_000_000_000


@pytest.fixture
def dated(cluster: Cluster) -> str:
    """Two partitions: 0 has a record a day, 0 to 9; 1 has the first three of them."""
    topic = cluster.create_topic(new_topic("dated"), partitions=2)
    with Producer(bootstrap_servers=cluster.bootstrap_servers) as producer:
        for day in range(10):
            producer.send(topic, value=b"0-%d" % day, partition=0, timestamp_ms=T0_MS + day * DAY_MS)
        for day in range(3):
            producer.send(topic, value=b"1-%d" % day, partition=1, timestamp_ms=T0_MS + day * DAY_MS)
        producer.flush()
    return topic


def by_partition(topic: str, zero: int, one: int) -> str:
    return json.dumps({topic: {"0": zero, "1": one}})


def days(zero: range, one: range) -> set[bytes]:
    return {b"0-%d" % day for day in zero} | {b"1-%d" % day for day in one}


def test_a_batch_begins_and_ends_where_it_is_told_in_every_form(cluster: Cluster, dated: str) -> None:
    def read(**options: str) -> set[bytes | None]:
        found = values_of(read_batch(cluster, subscribe=dated, **options))
        assert len(found) == len(set(found))
        return set(found)

    assert read() == days(range(10), range(3))
    assert read(startingOffsets="earliest", endingOffsets="latest") == days(range(10), range(3))
    offsets = {"startingOffsets": by_partition(dated, 4, -2), "endingOffsets": by_partition(dated, -1, 2)}
    assert read(**offsets) == days(range(4, 10), range(2))
    day = str(T0_MS + 2 * DAY_MS)
    assert read(startingTimestamp=day) == days(range(2, 10), range(2, 3))
    assert read(endingTimestamp=day) == days(range(2), range(2))
    later = {
        "startingOffsetsByTimestamp": by_partition(dated, T0_MS + DAY_MS + 1, T0_MS),
        "endingOffsetsByTimestamp": by_partition(dated, T0_MS + 8 * DAY_MS, T0_MS + 9 * DAY_MS),
    }
    assert read(**later) == days(range(2, 8), range(3)), "an end behind the last record is the end of the log"
    too_late = str(T0_MS + 5 * DAY_MS)
    with pytest.raises(BadOption, match=f"{dated}-1 has no record at {too_late} ms or later"):
        read(startingTimestamp=too_late)
    assert read(startingTimestamp=too_late, startingOffsetsByTimestampStrategy="latest") == days(range(5, 10), range(0))


def test_offsets_must_be_told_for_all_partitions_and_no_others(cluster: Cluster, dated: str) -> None:
    with pytest.raises(BadOption, match=f"Told: {dated}-0. There are: {dated}-0, {dated}-1"):
        read_batch(cluster, subscribe=dated, startingOffsets=json.dumps({dated: {"0": 1}}))
    with pytest.raises(BadOption, match="startingOffsetsByTimestamp must tell all partitions"):
        read_batch(cluster, subscribe=dated, startingOffsetsByTimestamp=json.dumps({dated: {"0": 1}}))
    with pytest.raises(BadOption, match=r"The start 11 of .*-0 lies behind its end 10"):
        read_batch(cluster, subscribe=dated, startingOffsets=by_partition(dated, 11, 0))


def test_topics_are_chosen_by_name_by_pattern_and_by_partition(cluster: Cluster) -> None:
    stem = new_topic("chosen")
    for number in range(3):
        produce(cluster, cluster.create_topic(f"{stem}.{number}", partitions=2), [b"%d" % number], partition=1)
    assert set(values_of(read_batch(cluster, subscribe=f"{stem}.0, {stem}.2"))) == {b"0", b"2"}
    pattern = {"subscribePattern": rf"{stem}\.[12]"}
    assert set(values_of(read_batch(cluster, **pattern))) == {b"1", b"2"}
    assert values_of(read_batch(cluster, subscribePattern=rf"{stem}\.")) == [], "the whole name is matched"
    assert values_of(read_batch(cluster, assign=json.dumps({f"{stem}.1": [1]}))) == [b"1"]
    assert values_of(read_batch(cluster, assign=json.dumps({f"{stem}.1": [0]}))) == []
    with pytest.raises(MissingTopic, match=f"There is no topic {stem}.9"):
        read_batch(cluster, subscribe=f"{stem}.0,{stem}.9")
    with pytest.raises(MissingTopic, match=f"There is no partition {stem}.1-5"):
        read_batch(cluster, assign=json.dumps({f"{stem}.1": [5]}))


def test_big_partitions_are_read_by_several_tasks(cluster: Cluster) -> None:
    topic = cluster.create_topic(new_topic("split"), partitions=2)
    produce(cluster, topic, numbered(1000), linger_ms=10)
    found = source(cluster, subscribe=topic, minPartitions="8")
    reader = found.reader(found.schema())
    assert len(reader.partitions()) == 8
    assert values_of(read_batch(cluster, subscribe=topic, minPartitions="8")) == numbered(1000)
    assert values_of(read_batch(cluster, subscribe=topic, maxRecordsPerPartition="99")) == numbered(1000)


def test_a_stream_begins_where_it_is_told_in_every_form(cluster: Cluster, dated: str) -> None:
    def begin(**options: str) -> dict[str, dict[str, int]]:
        with Stream(cluster, {**options, "subscribe": dated}) as stream:
            return stream.at

    assert begin() == {dated: {"0": 10, "1": 3}}
    assert begin(startingOffsets="earliest") == {dated: {"0": 0, "1": 0}}
    assert begin(startingOffsets=by_partition(dated, 7, -1)) == {dated: {"0": 7, "1": 3}}
    assert begin(startingTimestamp=str(T0_MS + DAY_MS)) == {dated: {"0": 1, "1": 1}}
    times = {"startingOffsetsByTimestamp": by_partition(dated, T0_MS + 4 * DAY_MS, T0_MS + 9 * DAY_MS)}
    assert begin(**times, startingOffsetsByTimestampStrategy="latest") == {dated: {"0": 4, "1": 3}}
    with pytest.raises(BadOption, match="has no record at"):
        begin(**times)


def test_a_micro_batch_takes_its_share_of_every_partition(cluster: Cluster) -> None:
    topic = cluster.create_topic(new_topic("share"), partitions=3)
    produce(cluster, topic, numbered(600), partition=0)
    produce(cluster, topic, numbered(300), partition=1)
    options = {"subscribe": topic, "startingOffsets": "earliest", "maxOffsetsPerTrigger": "90"}
    with Stream(cluster, options) as stream:
        assert stream.limit == ReadMaxRows(90)
        assert stream.next().num_rows == 90
        assert stream.at == {topic: {"0": 60, "1": 30, "2": 0}}
        assert stream.next().num_rows == 90
        assert stream.next_of_everything().num_rows == 720, "Spark may ask for everything, whatever the options say"
        assert stream.reader.reportLatestOffset() == {topic: {"0": 600, "1": 300, "2": 0}}
        assert stream.next_end() == stream.at


def test_available_now_ends_with_what_was_there_at_the_start(cluster: Cluster) -> None:
    topic = cluster.create_topic(new_topic("now"))
    produce(cluster, topic, numbered(50))
    options = {"subscribe": topic, "startingOffsets": "earliest", "maxOffsetsPerTrigger": "40"}
    with Stream(cluster, {**options, "minOffsetsPerTrigger": "20"}, available_now=True) as stream:
        first = stream.next()
        produce(cluster, topic, numbered(50, start=50))
        second = stream.next()
        assert values_of(first) + values_of(second) == numbered(50), "even the last ten, which are fewer than 20"
        assert stream.next_end() == stream.at == {topic: {"0": 50}}


def test_a_micro_batch_waits_until_there_is_enough_or_long_enough(cluster: Cluster) -> None:
    topic = cluster.create_topic(new_topic("least"))
    options = {"subscribe": topic, "startingOffsets": "earliest", "minOffsetsPerTrigger": "10"}
    produce(cluster, topic, numbered(3))
    with Stream(cluster, {**options, "maxTriggerDelay": "400ms"}) as stream:
        assert stream.limit == ReadMinRows(10)
        assert stream.next().num_rows == 3, "the first one never waits, as in Spark"
        produce(cluster, topic, numbered(9))
        begun = time.monotonic()
        assert stream.next_end() == {topic: {"0": 3}}
        produce(cluster, topic, numbered(1))
        assert stream.next().num_rows == 10
        produce(cluster, topic, numbered(1))
        eventually(lambda: stream.next_end() == {topic: {"0": 14}}, "the delay is over")
        assert time.monotonic() - begun >= 0.4


def test_a_micro_batch_has_about_as_many_bytes_as_are_allowed(cluster: Cluster) -> None:
    topic = cluster.create_topic(new_topic("bytes"), partitions=2)
    produce(cluster, topic, [b"x" * 1000] * 1000, partition=0, linger_ms=10)
    produce(cluster, topic, [b"x" * 100] * 1000, partition=1, linger_ms=10)
    options = {"subscribe": topic, "startingOffsets": "earliest", "maxBytesPerTrigger": "110000"}
    with Stream(cluster, options) as stream:
        assert stream.limit == ReadMaxBytes(110_000)
        batches = []
        while (rows := stream.next()).num_rows:
            batches.append(sum(len(value or b"") for value in values_of(rows)))
        assert sum(batches) == 1_100_000
        assert all(85_000 < size < 125_000 for size in batches[:-2])
        produce(cluster, topic, [b"y"])
        assert stream.next().num_rows == 1


def test_new_partitions_are_read_from_their_beginning(cluster: Cluster) -> None:
    topic = cluster.create_topic(new_topic("grown"))
    produce(cluster, topic, numbered(3))
    with Stream(cluster, {"subscribe": topic, "maxOffsetsPerTrigger": "4"}) as stream:
        with admin(cluster) as client:
            client.create_partitions({topic: NewPartitions(2)})
        produce(cluster, topic, numbered(6), partition=1)
        assert values_of(stream.next()) == numbered(4)
        assert stream.at == {topic: {"0": 3, "1": 4}}
        assert values_of(stream.next()) == numbered(2, start=4)


def test_a_pattern_finds_topics_that_come_later(cluster: Cluster) -> None:
    stem = new_topic("later")
    with Stream(cluster, {"subscribePattern": f"{stem}.*"}) as stream:
        assert stream.at == {}
        produce(cluster, cluster.create_topic(f"{stem}a"), numbered(2))
        assert values_of(stream.next()) == numbered(2)


def test_a_new_partition_that_has_lost_records_already_is_a_loss(cluster: Cluster) -> None:
    topic = cluster.create_topic(new_topic("expired"), partitions=2)
    produce(cluster, topic, numbered(8), partition=1)
    with admin(cluster) as client:
        client.delete_records({TopicPartition(topic, 1): 5})
    start = {topic: {"0": 0}}
    with (
        Stream(cluster, {"subscribe": topic}, start=start) as stream,
        pytest.raises(DataLoss, match=f"Offsets 0 to 4 of {topic}-1"),
    ):
        stream.next()
    with Stream(cluster, {"subscribe": topic, "failOnDataLoss": "false"}, start=start) as stream:
        assert values_of(stream.next()) == numbered(3, start=5)


def test_a_deleted_topic_ends_the_query_or_is_left_behind(cluster: Cluster, caplog: pytest.LogCaptureFixture) -> None:
    kept, topic = cluster.create_topic(new_topic("kept")), cluster.create_topic(new_topic("gone"))
    produce(cluster, topic, numbered(5))
    options = {"subscribe": f"{kept},{topic}", "fetchOffset__retryIntervalMs": "20"}
    strict, forgiving = Stream(cluster, options), Stream(cluster, {**options, "failOnDataLoss": "false"})
    with strict, forgiving, admin(cluster) as client:
        client.delete_topics([topic])
        produce(cluster, kept, numbered(2))
        with pytest.raises(DataLoss, match=f"{topic}-0 from offset 5 on. Set the option failOnDataLoss"):
            strict.next()
        with caplog.at_level(logging.WARNING):
            assert values_of(forgiving.next()) == numbered(2)
        assert f"what was not read of them is lost: {topic}-0 from offset 5 on" in caplog.text
        assert forgiving.at == {kept: {"0": 2}}
        client.create_topics([NewTopic(topic, 1)])
        produce(cluster, topic, numbered(3))
        assert values_of(forgiving.next()) == numbered(3), "made anew, it is a new topic"


def test_a_topic_recreated_while_the_query_stood_still_ends_it_or_is_read_once(
    cluster: Cluster, caplog: pytest.LogCaptureFixture
) -> None:
    topic = cluster.create_topic(new_topic("recreated"))
    produce(cluster, topic, numbered(100))
    options = {"subscribe": topic, "startingOffsets": "earliest", "maxOffsetsPerTrigger": "120"}
    with Stream(cluster, options) as stream:
        assert stream.next().num_rows == 100
    before = topic_id(cluster, topic)
    recreate(cluster, topic, numbered(250, start=1000))
    now = topic_id(cluster, topic)
    told = (
        f"The topic {topic} was deleted and made anew.*its id was {before} .* and is {now} now.*failOnDataLoss to false"
    )
    with Stream(cluster, options, start=stream.checkpoint) as strict, pytest.raises(DataLoss, match=told):
        strict.next()
    with (
        Stream(cluster, {**options, "failOnDataLoss": "false"}, start=stream.checkpoint) as forgiving,
        caplog.at_level(logging.WARNING),
    ):
        found = [values_of(forgiving.next()) for _ in range(4)]
    assert found == [numbered(120, 1000), numbered(120, 1120), numbered(10, 1240), []]
    assert f"its id was {before}" in caplog.text


def test_a_topic_recreated_between_two_micro_batches_ends_the_query_or_is_read_once(cluster: Cluster) -> None:
    """With as many records as before as well: its offsets are then the same ones."""
    topic = cluster.create_topic(new_topic("recreated"))
    produce(cluster, topic, numbered(100))
    options = {"subscribe": topic, "startingOffsets": "earliest"}
    with Stream(cluster, options) as strict, Stream(cluster, {**options, "failOnDataLoss": "false"}) as forgiving:
        assert values_of(strict.next()) == values_of(forgiving.next()) == numbered(100)
        recreate(cluster, topic, numbered(150, start=1000))
        with pytest.raises(DataLoss, match=f"The topic {topic} was deleted and made anew"):
            strict.next()
        assert values_of(forgiving.next()) == numbered(150, start=1000)
        recreate(cluster, topic, numbered(150, start=2000))
        assert values_of(forgiving.next()) == numbered(150, start=2000)
        assert forgiving.plan() == forgiving.checkpoint


def test_no_task_reads_records_of_a_topic_that_was_recreated_after_its_range_was_planned(cluster: Cluster) -> None:
    """Planned and not read yet, as after a restart; the new topic's records belong to the next micro-batch."""
    topic = cluster.create_topic(new_topic("recreated"))
    produce(cluster, topic, numbered(100))
    options = {"subscribe": topic, "startingOffsets": "earliest", "fetchOffset__retryIntervalMs": "20"}
    with Stream(cluster, options) as strict, Stream(cluster, {**options, "failOnDataLoss": "false"}) as forgiving:
        end = strict.plan()
        planned = strict.reader.partitions(strict.checkpoint, end)
        before = topic_id(cluster, topic)
        recreate(cluster, topic, numbered(150, start=1000))
        told = f"100 offsets of {topic}-0 were lost, .* its id was {before} and is {topic_id(cluster, topic)} now"
        with pytest.raises(DataLoss, match=told):
            list(travelled(strict.reader).read(travelled(planned[0])))
        assert list(travelled(forgiving.reader).read(travelled(planned[0]))) == []
        forgiving.checkpoint = end
        assert values_of(forgiving.next()) == numbered(150, start=1000)


def test_a_checkpoint_without_topic_ids_goes_on_and_gets_them(cluster: Cluster) -> None:
    """As Spark's own connector writes it, and Ottla did."""
    topic = cluster.create_topic(new_topic("adopted"))
    produce(cluster, topic, numbered(10))
    with Stream(cluster, {"subscribe": topic}, start={topic: {"0": 4}}) as stream:
        assert values_of(stream.next()) == numbered(6, start=4)
        assert stream.checkpoint == {topic: {"0": 10}, f"{topic}@{topic_id(cluster, topic)}": {}}
        recreate(cluster, topic, numbered(20))
        with pytest.raises(DataLoss, match=f"The topic {topic} was deleted and made anew"):
            stream.next()


def test_the_checkpoint_of_another_query_is_told_from_deleted_partitions(cluster: Cluster) -> None:
    one, other = cluster.create_topic(new_topic("one")), cluster.create_topic(new_topic("other"))
    with (
        Stream(cluster, {"subscribe": other}, start={one: {"0": 7}}) as stream,
        pytest.raises(
            DataLoss, match=f"made by a query that read other topics: it has offsets of {one}, .*reads {other}"
        ),
    ):
        stream.next()
    with (
        Stream(cluster, {"subscribe": other}, start={other: {"0": 0, "9": 7}}) as stream,
        pytest.raises(
            DataLoss, match=f"Partitions have been deleted, or .* is another cluster .*{other}-9 from offset 7"
        ),
    ):
        stream.next()


def test_a_topic_made_anew_is_a_loss_or_is_read_from_its_beginning(cluster: Cluster) -> None:
    topic = cluster.create_topic(new_topic("anew"))
    produce(cluster, topic, numbered(2))
    start = {topic: {"0": 9}}
    options = {"subscribe": topic, "fetchOffset__retryIntervalMs": "20"}
    with (
        Stream(cluster, options, start=start) as stream,
        pytest.raises(DataLoss, match="ends at offset 2 now and was read up to 9"),
    ):
        stream.next()
    with Stream(cluster, {**options, "failOnDataLoss": "false"}, start=start) as stream:
        assert values_of(stream.next()) == numbered(2)
        assert stream.next_end() == stream.at == {topic: {"0": 2}}


def test_a_completed_micro_batch_is_committed_to_the_group(cluster: Cluster) -> None:
    topic, group = cluster.create_topic(new_topic("lag"), partitions=2), new_topic("group")
    produce(cluster, topic, numbered(10))

    def committed() -> dict[int, int]:
        with admin(cluster) as client:
            found = client.list_consumer_group_offsets(group)[group].result()
        return {one.partition: at.offset for one, at in found.items() if at is not None}

    options = {"subscribe": topic, "startingOffsets": "earliest", "commitGroup": group, "maxOffsetsPerTrigger": "6"}
    with Stream(cluster, options) as stream:
        stream.next()
        assert committed() == {}, "nothing is done yet"
        stream.next()
        assert committed() == {0: 6, 1: 0}
        assert stream.next_end() == stream.at
        assert committed() == {0: 10, 1: 0}


def test_the_offsets_of_a_query_cost_one_round_trip_on_a_kept_connection(cluster: Cluster) -> None:
    topic = cluster.create_topic(new_topic("quick"), partitions=6)
    produce(cluster, topic, numbered(10))
    with Stream(cluster, {"subscribe": topic, "startingOffsets": "earliest"}) as stream:
        stream.next_end()
        times = []
        for _ in range(30):
            begun = time.perf_counter()
            stream.next_end()
            times.append(time.perf_counter() - begun)
    assert min(times) < 0.01


def test_everything_is_the_limit_of_a_query_without_one(cluster: Cluster, dated: str) -> None:
    with Stream(cluster, {"subscribe": dated}) as stream:
        assert stream.limit == ReadAllAvailable()


def test_latest_is_where_the_query_began_however_often_spark_asks(cluster: Cluster) -> None:
    """It asks at every trigger until there was a first micro-batch; what came in between belongs to that."""
    topic = cluster.create_topic(new_topic("latest"))
    produce(cluster, topic, numbered(3))
    found = source(cluster, subscribe=topic)
    reader = found.streamReader(found.schema())
    assert isinstance(reader, OttlaStreamReader)
    try:
        first = reader.initialOffset()
        produce(cluster, topic, numbered(2, 3))
        assert reader.initialOffset() == first
        assert offsets_of(first) == {topic: {"0": 3}}
        assert offsets_of(reader.latestOffset(first, ReadAllAvailable())) == {topic: {"0": 5}}
    finally:
        reader.stop()
