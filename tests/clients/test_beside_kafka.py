"""The same request to Ottla and to a real Kafka 4.3.1, for the corners where a client would notice a difference."""

from __future__ import annotations

import struct
import time
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

import pytest

from ottla.errors import FetchSessionIdNotFound, InvalidFetchSessionEpoch, InvalidRecord, UnknownServerError
from ottla.records import Codec, build_batch, compress
from ottla.wire.messages.describe_quorum import (
    DescribeQuorumRequest,
    DescribeQuorumRequestPartitionData,
    DescribeQuorumRequestTopicData,
    DescribeQuorumResponse,
)
from ottla.wire.messages.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic
from ottla.wire.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
)
from ottla.wire.messages.produce import PartitionProduceData, ProduceRequest, ProduceResponse, TopicProduceData
from tests.clients.mangled import PRODUCE_VERSION, answer, cases
from tests.support.clients import eventually, new_topic
from tests.support.logs import make_batch
from tests.support.raw import RawClient
from tests.support.server import Server, Settings, run_ottla
from tests.unit.records.samples import ROWS, mutations, sealed

pytestmark = [pytest.mark.java, pytest.mark.timeout(300)]

FETCH_VERSION = 12
LIST_OFFSETS_VERSION = 3
TOPICS: dict[str, dict[str, str]] = {
    "plain": {},
    "compacted": {"cleanup.policy": "compact"},
    "append time": {"message.timestamp.type": "LogAppendTime"},
    "zstd": {"compression.type": "zstd"},
    "uncompressed": {"compression.type": "uncompressed"},
    "recent": {"message.timestamp.before.max.ms": "86400000"},
}


@dataclass
class Pair:
    """A client of each broker."""

    ottla: RawClient
    kafka: RawClient

    def create_topic(self, stem: str, configs: dict[str, str] | None = None) -> str:
        """The same new topic in both."""
        name = new_topic(stem.replace(" ", "-"))
        for client in (self.ottla, self.kafka):
            client.create_topic(name, configs)
            eventually(partial(is_led, client, name), f"{name} has its leader")  # a Kafka answers before it has
        return name


def is_led(client: RawClient, topic: str) -> bool:
    """Whether the broker leads partition 0."""
    asked = ListOffsetsTopic(topic, [ListOffsetsPartition(0, timestamp=-1)])
    told = client.send(ListOffsetsRequest(replica_id=-1, topics=[asked]), LIST_OFFSETS_VERSION, ListOffsetsResponse)
    return told.topics[0].partitions[0].error_code == 0


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pair]:
    servers = []
    for kind in (Server.ottla, Server.kafka):
        directory = tmp_path_factory.mktemp(kind.__name__)
        properties = Settings(directory / "data").write(directory / "server.properties")
        cluster_id = run_ottla("storage", "random-uuid").stdout.strip()
        formatted = run_ottla("storage", "format", "-t", cluster_id, "-c", properties)
        assert formatted.returncode == 0, formatted.stderr
        servers.append(kind(properties))
    with servers[0] as ottla, servers[1] as kafka, RawClient(ottla.port) as ours, RawClient(kafka.port) as theirs:
        yield Pair(ours, theirs)
    assert ottla.errors() == []


# What we know to answer differently, and why that is better than being equal.
DIFFERENT = {
    # An exception that Kafka's reader does not foresee; our reader does.
    "none: a size of five bytes and more": (InvalidRecord, UnknownServerError),
}


@pytest.mark.parametrize("kind", TOPICS)
def test_a_broken_rule_of_a_batch_has_the_error_that_kafka_has(pair: Pair, kind: str) -> None:
    topic = pair.create_topic(kind, TOPICS[kind])
    now_ms = time.time_ns() // 1_000_000
    differing: dict[str, Any] = {}
    for name, make in cases().items():
        data = make(now_ms)
        ours, theirs = answer(pair.ottla, topic, data), answer(pair.kafka, topic, data)
        if name in DIFFERENT:
            assert (ours["error"], theirs["error"]) == tuple(error.__name__ for error in DIFFERENT[name]), name
        elif ours != theirs:
            differing[name] = {field: (ours[field], theirs[field]) for field in ours if ours[field] != theirs[field]}
    assert differing == {}


@pytest.mark.parametrize("codec", Codec, ids=lambda codec: codec.label)
def test_records_with_random_damage_have_the_error_that_kafka_has(pair: Pair, codec: Codec) -> None:
    topic = pair.create_topic("damaged")
    differing: dict[str, Any] = {}
    for damaged in mutations(build_batch(ROWS), count=200, seed=codec.value):
        data = damaged
        if codec is not Codec.NONE:
            (attributes,) = struct.unpack_from(">h", damaged, 21)
            data = sealed(damaged[:61] + compress(codec, damaged[61:]), attributes=attributes & ~7 | codec.value)
        ours, theirs = answer(pair.ottla, topic, data), answer(pair.kafka, topic, data)
        if ours != theirs:
            differing[data.hex()] = (ours, theirs)
    assert differing == {}


@pytest.mark.parametrize("codec", [codec for codec in Codec if codec is not Codec.NONE], ids=lambda codec: codec.label)
def test_a_stream_with_random_damage_is_taken_or_refused_as_kafka_does(pair: Pair, codec: Codec) -> None:
    """Which of the two errors it is depends on how far Kafka reads before it notices, and that is not compared."""
    topic = pair.create_topic("damaged-stream")
    differing: dict[str, Any] = {}
    for data in mutations(build_batch(ROWS, codec=codec), count=150, seed=codec.value):
        ours, theirs = answer(pair.ottla, topic, data), answer(pair.kafka, topic, data)
        if ours["is appended"] != theirs["is appended"]:
            differing[data.hex()] = (ours, theirs)
    assert differing == {}


def produce_twice(client: RawClient, topic: str, first: bytes | None, second: bytes | None) -> list[tuple[int, int]]:
    request = ProduceRequest(None, -1, 10_000, [])
    request.topic_data = [
        TopicProduceData(topic, partition_data=[PartitionProduceData(0, first)]),
        TopicProduceData(topic, partition_data=[PartitionProduceData(0, second)]),
    ]
    response = client.send(request, PRODUCE_VERSION, ProduceResponse)
    return [(one.error_code, one.base_offset) for named in response.responses for one in named.partition_responses]


def test_of_a_partition_named_twice_the_last_records_count(pair: Pair) -> None:
    topic = pair.create_topic("twice")
    one, two = make_batch(b"1"), make_batch(b"2", b"3")
    for first, second, outcome in ((one, two, (0, 0)), (two, one, (0, 2)), (one, two, (0, 3))):
        ours = produce_twice(pair.ottla, topic, first, second)
        assert ours == produce_twice(pair.kafka, topic, first, second)
        assert ours == [outcome]


def session_request(topic: str | None, session_id: int, epoch: int, *, max_wait_ms: int = 0) -> FetchRequest:
    request = FetchRequest(max_wait_ms=max_wait_ms, min_bytes=1, max_bytes=1000, topics=[])
    request.session_id, request.session_epoch = session_id, epoch
    if topic is not None:
        request.topics = [FetchTopic(topic, partitions=[FetchPartition(0, fetch_offset=0, partition_max_bytes=1000)])]
    return request


def overtaken(client: RawClient, topic: str) -> list[tuple[int, bool]]:
    """A fetch that waits, and a later one of the same session on another connection: error and session of each."""
    session_id = client.send(session_request(topic, 0, 0), FETCH_VERSION, FetchResponse).session_id
    with RawClient(client.port) as other:
        key = client.post(session_request(None, session_id, 1, max_wait_ms=700), FETCH_VERSION)
        time.sleep(0.2)
        later = other.send(session_request(None, session_id, 2), FETCH_VERSION, FetchResponse)
        earlier = client.receive(key, FETCH_VERSION, FetchResponse)
        wrong = other.send(session_request(None, session_id, 9), FETCH_VERSION, FetchResponse)
        gone = other.send(session_request(None, session_id ^ 1, 9), FETCH_VERSION, FetchResponse)
    return [(one.error_code, one.session_id == session_id) for one in (later, earlier, wrong, gone)]


def test_an_overtaken_fetch_is_told_so_and_its_session_goes_on(pair: Pair) -> None:
    topic = pair.create_topic("overtaken")
    ours = overtaken(pair.ottla, topic)
    assert ours == overtaken(pair.kafka, topic)
    assert ours == [
        (0, True),
        (InvalidFetchSessionEpoch.code, True),
        (InvalidFetchSessionEpoch.code, False),
        (FetchSessionIdNotFound.code, False),
    ]


def quorum(client: RawClient, version: int, *asked: tuple[str, tuple[int, ...]]) -> DescribeQuorumResponse:
    """The answer without what is different in every cluster: offsets, ports, times and the words of errors."""
    topics = [
        DescribeQuorumRequestTopicData(name, [DescribeQuorumRequestPartitionData(index) for index in indexes])
        for name, indexes in asked
    ]
    response = client.send(DescribeQuorumRequest(topics), version, DescribeQuorumResponse)
    for partition in [one for topic in response.topics for one in topic.partitions]:
        partition.error_message = ""
        for voter in partition.current_voters:
            assert voter.log_end_offset >= partition.high_watermark > 0
            voter.log_end_offset = partition.high_watermark = 0
            is_told = version >= 1
            assert (voter.last_fetch_timestamp > 0, voter.last_caught_up_timestamp > 0) == (is_told, is_told)
            voter.last_fetch_timestamp = voter.last_caught_up_timestamp = -1
    for node in response.nodes:
        for listener in node.listeners:
            listener.port = 0
    return response


@pytest.mark.parametrize("version", [0, 1, 2])
def test_the_quorum_is_described_as_kafka_does(pair: Pair, version: int) -> None:
    metadata = "__cluster_metadata"
    for asked in (
        [(metadata, (0,))],
        [(metadata, (1,))],
        [(metadata, (0, 1))],
        [("other", (0,))],
        [(metadata, (0,)), ("other", (0,))],
        [],
    ):
        ours = quorum(pair.ottla, version, *asked)
        assert ours == quorum(pair.kafka, version, *asked)
    (topic,) = quorum(pair.ottla, version, (metadata, (0,))).topics
    assert [voter.replica_id for voter in topic.partitions[0].current_voters] == [1]
