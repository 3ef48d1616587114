"""The protocol: encoding and decoding messages beside kafka-python's codecs, and what a first use costs."""

from __future__ import annotations

import subprocess
import sys

from kafka.protocol.consumer.fetch import FetchResponse as RivalFetchResponse
from kafka.protocol.metadata import MetadataResponse as RivalMetadataResponse
from kafka.protocol.producer.produce import ProduceRequest as RivalProduceRequest

from benchmarks import AtMost, Bench, Result, Unit, benchmark
from ottla.types import Uuid
from ottla.wire import decode, encode, encode_parts
from ottla.wire.decoder import compile_decoder
from ottla.wire.encoder import compile_encoder
from ottla.wire.messages.fetch import FetchableTopicResponse, FetchResponse, PartitionData
from ottla.wire.messages.metadata import (
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from ottla.wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData

RIVAL = "kafka-python"
TOPIC_ID = Uuid(range(16))
RECORDS = bytes(1024)


def metadata(topics: int = 10, partitions: int = 60) -> MetadataResponse:
    """A cluster of three brokers; every partition has three replicas, all in sync."""
    return MetadataResponse(
        brokers=[MetadataResponseBroker(node, f"broker-{node}.example.com", 9092, f"rack-{node}") for node in range(3)],
        cluster_id="MkU3OEVBNTcwNTJENDM2Qk",
        controller_id=1,
        topics=[
            MetadataResponseTopic(
                name=f"orders-{topic}",
                topic_id=TOPIC_ID,
                partitions=[
                    MetadataResponsePartition(
                        partition_index=partition,
                        leader_id=partition % 3,
                        leader_epoch=7,
                        replica_nodes=[0, 1, 2],
                        isr_nodes=[0, 1, 2],
                    )
                    for partition in range(partitions)
                ],
            )
            for topic in range(topics)
        ],
    )


def produce() -> ProduceRequest:
    partitions = [PartitionProduceData(3, RECORDS)]
    return ProduceRequest(
        acks=-1, timeout_ms=30_000, topic_data=[TopicProduceData("orders", partition_data=partitions)]
    )


def fetched() -> FetchResponse:
    partition = PartitionData(
        partition_index=3, high_watermark=100, last_stable_offset=100, log_start_offset=0, aborted_transactions=None,
        records=RECORDS,
    )  # fmt: skip
    return FetchResponse(session_id=5, responses=[FetchableTopicResponse(topic="orders", partitions=[partition])])


@benchmark("wire", "decode Metadata, 600 partitions", bar=AtMost(2e-3, Unit.SECONDS))
def decode_metadata(bench: Bench) -> Result:
    """One Metadata response v12 of 10 topics with 60 partitions, from bytes to objects."""
    count = bench.pick(20, 1)
    data = encode(metadata(), 12)

    def ours() -> None:
        for _ in range(count):
            decode(MetadataResponse, 12, data)

    def theirs() -> None:
        for _ in range(count):
            RivalMetadataResponse.decode(data, version=12)

    return bench.compare(ours, theirs).each(count, rival=RIVAL)


@benchmark("wire", "encode Metadata, 600 partitions", bar=AtMost(2e-3, Unit.SECONDS))
def encode_metadata(bench: Bench) -> Result:
    """One Metadata response v12 of 10 topics with 60 partitions, from objects to bytes."""
    count = bench.pick(20, 1)
    message = metadata()
    data = encode(message, 12)
    rival = RivalMetadataResponse.decode(data, version=12)
    rival._header = None  # a decoded message lacks it, and cannot be encoded without
    assert bytes(rival.encode(version=12)) == data

    def ours() -> None:
        for _ in range(count):
            encode(message, 12)

    def theirs() -> None:
        for _ in range(count):
            rival.encode(version=12)

    return bench.compare(ours, theirs).each(count, rival=RIVAL)


@benchmark("wire", "decode Produce, 1 partition")
def decode_produce(bench: Bench) -> Result:
    """One Produce request v9 with 1 KiB of records in one partition."""
    count = bench.pick(5_000, 5)
    data = encode(produce(), 9)

    def ours() -> None:
        for _ in range(count):
            decode(ProduceRequest, 9, data)

    def theirs() -> None:
        for _ in range(count):
            RivalProduceRequest.decode(data, version=9)

    return bench.compare(ours, theirs).each(count, rival=RIVAL)


@benchmark("wire", "encode Fetch, 1 partition")
def encode_fetch(bench: Bench) -> Result:
    """One Fetch response v12 with 1 KiB of records in one partition, to parts."""
    count = bench.pick(5_000, 5)
    message = fetched()
    data = encode(message, 12)
    rival = RivalFetchResponse.decode(data, version=12)
    rival._header = None
    assert bytes(rival.encode(version=12)) == data

    def ours() -> None:
        for _ in range(count):
            encode_parts(message, 12)

    def theirs() -> None:
        for _ in range(count):
            rival.encode(version=12)

    return bench.compare(ours, theirs).each(count, rival=RIVAL, note="theirs copies the records")


@benchmark("wire", "compile a codec")
def compile_codec(bench: Bench) -> Result:
    """The decoder and the encoder of Metadata responses v12: what the first use of a version costs."""

    def work() -> None:
        compile_decoder(MetadataResponse.schema, 12)
        compile_encoder(MetadataResponse.schema, 12)

    return Result(bench.measure(work).best_s, Unit.SECONDS)


@benchmark("wire", "import ottla.wire")
def import_wire(bench: Bench) -> Result:
    """What the package adds to the start of a Python process; no message is imported."""

    def process(statement: str) -> None:
        subprocess.run([sys.executable, "-c", statement], check=True)

    comparison = bench.compare(lambda: process("import ottla.wire"), lambda: process("pass"), rounds=11)
    return Result(comparison.ours.best_s - comparison.theirs.best_s, Unit.SECONDS)


@benchmark("wire", "import every message")
def import_messages(bench: Bench) -> Result:
    """What it adds to import all 275 messages, which no process needs."""
    everything = "import ottla.wire as w\nfor name in w.message_names(): w.message_class(name)"

    def process(statement: str) -> None:
        subprocess.run([sys.executable, "-c", statement], check=True)

    comparison = bench.compare(lambda: process(everything), lambda: process("pass"), rounds=5)
    return Result(comparison.ours.best_s - comparison.theirs.best_s, Unit.SECONDS)
