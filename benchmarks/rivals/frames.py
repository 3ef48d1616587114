"""The jobs without a client: requests made beforehand, sent over one socket, the answers hardly looked at.

What such a job measures is the broker and the kernel. librdkafka is out of the way where it would be the limit
(consuming: it and Python need several times the broker's CPU), or where it never sends what is to be measured (a
produce request with batches for many partitions, as the Java client and franz-go send them).
"""

from __future__ import annotations

import socket
import struct
import time
from typing import TypeVar

from benchmarks.rivals.client import create, end_offsets
from benchmarks.rivals.job import TIMEOUT_S, Job, Measured, Meter
from ottla.records import RecordBatchBuilder, batches
from ottla.types import Uuid
from ottla.wire import Message
from ottla.wire.frames import read_response, write_request
from ottla.wire.messages.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic
from ottla.wire.messages.header import RequestHeader
from ottla.wire.messages.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse
from ottla.wire.messages.produce import PartitionProduceData, ProduceRequest, ProduceResponse, TopicProduceData

IN_FLIGHT_MAX = 5
"""As many produce requests as the Java client has under way on a connection."""
PARTITION_BYTES = 1 << 20
"""What every client asks of a partition at most, unless told otherwise."""
RESPONSE_BYTES = 50 << 20

_VERSIONS = {ProduceRequest: 13, FetchRequest: 13, MetadataRequest: 12}
_SIZE = struct.Struct(">i")

R = TypeVar("R", bound=Message)


class _Link:
    """One connection; answers are received into one buffer, and gone with the next one."""

    def __init__(self, address: str) -> None:
        host, _, port = address.partition(":")
        self._sock = socket.create_connection((host, int(port)), timeout=TIMEOUT_S)
        self._sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._buffer = bytearray(1 << 20)

    def send(self, frame: bytes) -> None:
        self._sock.sendall(frame)

    def receive(self) -> memoryview:
        """The next answer, without its size."""
        size = _SIZE.unpack(self._exactly(4))[0]
        return self._exactly(size)

    def ask(self, request: Message, kind: type[R]) -> R:
        self.send(_frame(request))
        return _answer(self.receive(), type(request), kind)

    def _exactly(self, size: int) -> memoryview:
        if size > len(self._buffer):
            self._buffer = bytearray(size)
        view = memoryview(self._buffer)[:size]
        filled = 0
        while filled < size:
            count = self._sock.recv_into(view[filled:])
            if not count:
                raise ConnectionError("the broker has closed the connection")
            filled += count
        return view


def produce_frames(job: Job) -> Measured:
    """Requests that carry one batch of one record for each partition, a few under way at a time."""
    create(job)
    before = end_offsets(job)
    link = _Link(job.address)
    builder = RecordBatchBuilder()
    builder.append(int(time.time() * 1000), None, bytes(index * 31 % 251 for index in range(job.record_bytes)))
    batch = builder.build()
    partitions = [PartitionProduceData(index, batch) for index in range(job.partition_count)]
    topics = [TopicProduceData(topic_id=_topic_id(link, job.topic), partition_data=partitions)]
    frame = _frame(ProduceRequest(acks=-1, timeout_ms=30_000, topic_data=topics))
    request_count = job.record_count // job.partition_count
    meter = Meter(job)
    sent = 0
    for received in range(request_count):
        while sent < request_count and sent - received < IN_FLIGHT_MAX:
            link.send(frame)
            sent += 1
        answer = link.receive()
    measured = meter.read(request_count * job.partition_count)
    last = _answer(answer, ProduceRequest, ProduceResponse)
    codes = {one.error_code for topic in last.responses for one in topic.partition_responses}
    assert codes == {0}, f"batches were refused: {codes}"
    written = end_offsets(job) - before
    assert written == measured.record_count, f"{written} of {measured.record_count} records are in the log"
    return measured


def fetch_frames(job: Job) -> Measured:
    """The topic from the beginning of every partition, one fetch at a time; only the batches' headers are read."""
    link = _Link(job.address)
    topic_id = _topic_id(link, job.topic)
    wanted = [
        FetchPartition(partition=index, fetch_offset=0, partition_max_bytes=PARTITION_BYTES)
        for index in range(job.partition_count)
    ]
    request = FetchRequest(
        max_wait_ms=100,
        min_bytes=1,
        max_bytes=RESPONSE_BYTES,
        topics=[FetchTopic(topic_id=topic_id, partitions=wanted)],
    )
    meter = Meter(job)
    count = 0
    while count < job.record_count:
        response = link.ask(request, FetchResponse)
        for topic in response.responses:
            for data in topic.partitions:
                assert data.error_code == 0, f"partition {data.partition_index}: error {data.error_code}"
                for batch in batches(data.records or b""):  # type: ignore[arg-type]  # received, so it is bytes
                    count += batch.record_count
                    wanted[data.partition_index].fetch_offset = batch.next_offset
    return meter.read(count)


def _topic_id(link: _Link, topic: str) -> Uuid:
    answer = link.ask(MetadataRequest(topics=[MetadataRequestTopic(name=topic)]), MetadataResponse)
    assert answer.topics[0].error_code == 0, f"{topic}: error {answer.topics[0].error_code}"
    return answer.topics[0].topic_id


def _frame(request: Message) -> bytes:
    key = request.schema.api_key
    assert key is not None, "a request has an API key"
    return bytes(write_request(RequestHeader(key, _VERSIONS[type(request)], 1, "bench"), request))


def _answer(data: memoryview, asked: type[Message], kind: type[R]) -> R:
    key = asked.schema.api_key
    assert key is not None, "a request has an API key"
    body = read_response(data, key, _VERSIONS[asked]).body
    assert isinstance(body, kind), body
    return body
