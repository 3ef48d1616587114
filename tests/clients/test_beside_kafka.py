"""The same request to Ottla and to a real Kafka 4.3.1, for the corners where a client would notice a difference."""

from __future__ import annotations

import struct
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest

from ottla.errors import InvalidRecord, UnknownServerError
from ottla.records import Codec, build_batch, compress
from ottla.wire.messages.produce import PartitionProduceData, ProduceRequest, ProduceResponse, TopicProduceData
from tests.clients.mangled import PRODUCE_VERSION, answer, cases
from tests.support.clients import new_topic
from tests.support.logs import make_batch
from tests.support.raw import RawClient
from tests.support.server import Server, Settings, run_ottla
from tests.unit.records.samples import ROWS, mutations, sealed

pytestmark = [pytest.mark.java, pytest.mark.timeout(300)]

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
        return name


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
