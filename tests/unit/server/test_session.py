"""`ottla/server/session.py`: one connection, over real sockets."""

from __future__ import annotations

import asyncio
import logging
import random
import struct
from pathlib import Path
from typing import Any

import pytest

from ottla.errors import NotController, UnknownMemberId, UnknownServerError
from ottla.server import CloseConnection, RequestContext
from ottla.server.session import FLUSH_MIN, OVERLAP_MAX, REQUESTS_MAX
from ottla.wire.messages.api_versions import ApiVersionsRequest
from ottla.wire.messages.fetch import FetchableTopicResponse, FetchRequest, FetchResponse, PartitionData
from ottla.wire.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from ottla.wire.messages.metadata import MetadataRequest
from ottla.wire.messages.produce import PartitionProduceData, ProduceRequest, ProduceResponse, TopicProduceData
from ottla.wire.messages.push_telemetry import PushTelemetryRequest, PushTelemetryResponse
from ottla.wire.messages.unregister_broker import UnregisterBrokerRequest, UnregisterBrokerResponse
from ottla.world.system import SystemDisk
from tests.unit.server.fake_handlers import route
from tests.unit.server.nodes import Client, Server, request_frame, serve


async def until(condition: Any) -> None:
    async with asyncio.timeout(5):
        while not condition():
            await asyncio.sleep(0.001)


def test_many_requests_in_one_packet_are_answered_in_order() -> None:
    async def test(server: Server) -> None:
        client = await server.client()
        count = 3 * REQUESTS_MAX + 5
        request = ApiVersionsRequest()
        await client.send_raw(b"".join(bytes(request_frame(request, 0, number)) for number in range(count)))
        for number in range(count):
            assert (await client.receive(request, 0, number)).error_code == 0

    serve(test)


def test_a_request_in_pieces_of_one_byte_is_answered() -> None:
    async def test(server: Server) -> None:
        client = await server.client()
        for byte in request_frame(ApiVersionsRequest("test", "1"), 4, 9):
            await client.send_raw(bytes([byte]))
            await asyncio.sleep(0)
        assert (await client.receive(ApiVersionsRequest(), 4, 9)).error_code == 0

    serve(test)


def test_the_next_request_begins_when_the_one_before_is_answered() -> None:
    async def test(server: Server) -> None:
        loop = asyncio.get_running_loop()
        promises: list[asyncio.Future[Any]] = []

        def wait(context: RequestContext, request: HeartbeatRequest) -> Any:
            promises.append(loop.create_future())
            return promises[-1]

        route(server, "Heartbeat", 4, wait)
        client = await server.client()
        for number in range(3):
            await client.send(HeartbeatRequest(f"group{number}"), 4, number)
        for number in range(3):
            await until(lambda number=number: len(promises) > number)
            await asyncio.sleep(0.01)
            assert len(promises) == number + 1, "the next one has not begun"
            promises[number].set_result(HeartbeatResponse(error_code=number))
            assert (await client.receive(HeartbeatRequest(), 4, number)).error_code == number

    serve(test)


def test_a_promise_that_is_kept_already_is_answered_as_a_response_is() -> None:
    async def test(server: Server) -> None:
        loop = asyncio.get_running_loop()

        def answer(context: RequestContext, request: HeartbeatRequest) -> Any:
            promise = loop.create_future()
            if request.group_id == "refused":
                promise.set_exception(UnknownMemberId())
            else:
                promise.set_result(HeartbeatResponse(error_code=7))
            return promise

        route(server, "Heartbeat", 4, answer)
        client = await server.client()
        for number, group in enumerate(["answered", "refused", "answered"]):
            await client.send(HeartbeatRequest(group), 4, number)
        codes = [(await client.receive(HeartbeatRequest(), 4, number)).error_code for number in range(3)]
        assert codes == [7, UnknownMemberId.code, 7]

    serve(test)


def test_requests_that_may_overlap_begin_at_once_and_are_answered_in_order() -> None:
    async def test(server: Server) -> None:
        loop = asyncio.get_running_loop()
        promises: list[asyncio.Future[Any]] = []

        def wait(context: RequestContext, request: HeartbeatRequest) -> Any:
            if request.group_id == "at once":
                return HeartbeatResponse(error_code=50)
            promises.append(loop.create_future())
            return promises[-1]

        began: list[int] = []

        def other(context: RequestContext, request: UnregisterBrokerRequest) -> Any:
            began.append(request.broker_id)
            return UnregisterBrokerResponse(error_code=60)

        route(server, "Heartbeat", 4, wait, may_overlap=True)
        route(server, "UnregisterBroker", 0, other)
        client = await server.client()
        for number, group in enumerate(["a", "b", "at once", "c"]):
            await client.send(HeartbeatRequest(group), 4, number)
        await client.send(UnregisterBrokerRequest(7), 0, 4)
        await until(lambda: len(promises) == 3)
        promises[2].set_result(HeartbeatResponse(error_code=3))
        promises[1].set_result(HeartbeatResponse(error_code=1))
        await asyncio.sleep(0.02)
        assert began == [], "what may not overlap waits for all before it"
        promises[0].set_result(HeartbeatResponse(error_code=0))
        codes = [(await client.receive(HeartbeatRequest(), 4, number)).error_code for number in range(4)]
        assert codes == [0, 1, 50, 3]
        assert (await client.receive(UnregisterBrokerRequest(), 0, 4)).error_code == 60
        assert began == [7]

    serve(test)


def test_only_so_many_overlapping_requests_wait_at_a_time() -> None:
    async def test(server: Server) -> None:
        loop = asyncio.get_running_loop()
        promises: list[asyncio.Future[Any]] = []

        def wait(context: RequestContext, request: HeartbeatRequest) -> Any:
            promises.append(loop.create_future())
            return promises[-1]

        route(server, "Heartbeat", 4, wait, may_overlap=True)
        client = await server.client()
        count = OVERLAP_MAX + 10
        for number in range(count):
            await client.send(HeartbeatRequest(), 4, number)
        await until(lambda: len(promises) == OVERLAP_MAX)
        await asyncio.sleep(0.02)
        assert len(promises) == OVERLAP_MAX
        for number in range(count):
            await until(lambda number=number: len(promises) > number)
            promises[number].set_result(HeartbeatResponse(error_code=number))
            assert (await client.receive(HeartbeatRequest(), 4, number)).error_code == number

    serve(test)


def test_a_coroutine_is_awaited_and_its_error_answered() -> None:
    async def test(server: Server) -> None:
        async def later(context: RequestContext, request: UnregisterBrokerRequest) -> Any:
            await asyncio.sleep(0)
            if request.broker_id == 1:
                raise NotController("ask another")
            return UnregisterBrokerResponse()

        route(server, "UnregisterBroker", 0, later)
        client = await server.client()
        assert (await client.ask(UnregisterBrokerRequest(0), 0)).error_code == 0
        failed = await client.ask(UnregisterBrokerRequest(1), 0)
        assert (failed.error_code, failed.error_message) == (NotController.code, "ask another")
        assert server.node.metrics.api("UnregisterBroker", 0).errors == {"NOT_CONTROLLER": 1}

    serve(test)


def test_an_unforeseen_error_is_told_as_such_and_logged_with_its_stack(caplog: pytest.LogCaptureFixture) -> None:
    async def test(server: Server) -> None:
        def broken(context: RequestContext, request: UnregisterBrokerRequest) -> Any:
            raise ZeroDivisionError("one over nothing")

        route(server, "UnregisterBroker", 0, broken)
        client = await server.client()
        assert (await client.ask(UnregisterBrokerRequest(), 0)).error_code == UnknownServerError.code
        assert (await client.ask(ApiVersionsRequest(), 0)).error_code == 0

    with caplog.at_level(logging.ERROR):
        serve(test)
    (record,) = caplog.records
    assert record.exc_info is not None
    assert "UnregisterBroker v0" in record.getMessage()


def test_a_response_that_its_version_cannot_carry_is_an_unforeseen_error(caplog: pytest.LogCaptureFixture) -> None:
    async def test(server: Server) -> None:
        def wrong(context: RequestContext, request: UnregisterBrokerRequest) -> Any:
            return UnregisterBrokerResponse(error_code=2**20)

        route(server, "UnregisterBroker", 0, wrong)
        client = await server.client()
        await client.send_raw(
            request_frame(ApiVersionsRequest(), 0, 7) + request_frame(UnregisterBrokerRequest(), 0, 8)
        )
        assert (await client.receive(ApiVersionsRequest(), 0, 7)).error_code == 0
        assert (await client.receive(UnregisterBrokerRequest(), 0, 8)).error_code == UnknownServerError.code

    with caplog.at_level(logging.ERROR):
        serve(test)
    assert len(caplog.records) == 1


def test_a_request_that_wants_no_answer_gets_none_and_a_failed_one_ends_the_connection() -> None:
    async def test(server: Server) -> None:
        def produce(context: RequestContext, request: ProduceRequest) -> Any:
            if request.acks == 0 and request.timeout_ms == 1:
                raise CloseConnection("acks=0 and an error")
            return None if request.acks == 0 else ProduceResponse()

        route(server, "Produce", 9, produce, may_overlap=True)
        client = await server.client()
        await client.send(ProduceRequest(acks=0), 9, 1)
        await client.send(ProduceRequest(acks=1), 9, 2)
        await client.receive(ProduceRequest(), 9, 2)
        await client.send(ProduceRequest(acks=0, timeout_ms=1), 9, 3)
        assert await client.is_closed_by_server()

    serve(test)


@pytest.mark.parametrize(
    "frame",
    [
        pytest.param(b"", id="nothing"),
        pytest.param(b"\0\x12", id="half a header"),
        pytest.param(b"\0\x12\0\0\0\0\0\1\0\x64ab", id="a client id longer than the frame"),
        pytest.param(b"\0\x12\0\0\0\0\0\1\xff\xfe", id="a client id of size -2"),
        pytest.param(b"\0\x12\0\0\0\0\0\1\0\2\xff\xff", id="a client id that is not UTF-8"),
        pytest.param(b"\0\x12\0\4\0\0\0\1\xff\xff\0\xff\xff\xff", id="a body that cannot be read"),
        pytest.param(b"\0\x12\0\4\0\0\0\1\xff\xff", id="no tags in a header that must have them"),
        pytest.param(b"\x7f\xff\0\0\0\0\0\1\xff\xff", id="an API that does not exist"),
        pytest.param(b"\0\4\0\0\0\0\0\1\xff\xff", id="an API that is gone"),
        pytest.param(b"\0\3\0\x63\0\0\0\1\xff\xff\0", id="a version that does not exist"),
        pytest.param(b"\0\x3e\0\4\0\0\0\1\xff\xff\0", id="an API of another listener"),
    ],
)
def test_what_cannot_be_read_ends_the_connection_with_one_line(frame: bytes, caplog: pytest.LogCaptureFixture) -> None:
    async def test(server: Server) -> None:
        other, client = await server.client(), await server.client()
        await client.send(ApiVersionsRequest(), 0, 5)
        await client.send_raw(struct.pack(">i", len(frame)) + frame)
        await client.receive(ApiVersionsRequest(), 0, 5)
        assert await client.is_closed_by_server()
        assert (await other.ask(ApiVersionsRequest(), 0)).error_code == 0

    with caplog.at_level(logging.WARNING):
        serve(test)
    assert len(caplog.records) == 1
    assert caplog.records[0].levelno == logging.WARNING


@pytest.mark.parametrize("bad", [b"\0\0\0\2\0\0", b"\xff\xff\xff\xff"], ids=["a bad request", "a bad frame"])
def test_what_waits_before_a_bad_request_is_answered_before_the_connection_ends(bad: bytes) -> None:
    async def test(server: Server) -> None:
        promise: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        route(server, "Heartbeat", 4, lambda context, request: promise, may_overlap=True)
        client = await server.client()
        behind = request_frame(HeartbeatRequest(), 4, 2)
        await client.send_raw(request_frame(HeartbeatRequest(), 4, 1) + bad + behind)
        await asyncio.sleep(0.02)
        assert server.sockets.connection_count == 1
        assert server.node.metrics.api("Heartbeat", 4).requests == 1
        promise.set_result(HeartbeatResponse(error_code=9))
        assert (await client.receive(HeartbeatRequest(), 4, 1)).error_code == 9
        assert await client.is_closed_by_server()

    serve(test)


@pytest.mark.parametrize("size", [-1, 104_857_601, 2**31 - 1])
def test_a_frame_of_an_impossible_size_ends_the_connection(size: int, caplog: pytest.LogCaptureFixture) -> None:
    async def test(server: Server) -> None:
        client = await server.client()
        await client.send_raw(struct.pack(">i", size))
        assert await client.is_closed_by_server()

    with caplog.at_level(logging.WARNING):
        serve(test)
    assert [str(size) in record.getMessage() for record in caplog.records] == [True]


def test_complaints_about_a_flood_are_counted_and_not_written(caplog: pytest.LogCaptureFixture) -> None:
    async def test(server: Server) -> None:
        for _ in range(20):
            client = await server.client()
            await client.send_raw(struct.pack(">i", -5))
            assert await client.is_closed_by_server()

    with caplog.at_level(logging.WARNING):
        serve(test)
    assert len(caplog.records) == 1


def test_unknown_tags_and_bytes_behind_the_request_are_let_pass() -> None:
    async def test(server: Server) -> None:
        client = await server.client()
        header = b"\0\x12\0\4\0\0\0\1\xff\xff" + b"\1\x07\2ab"
        body = b"\x05test\x021\x00"
        frame = header + body + b"trailing"
        await client.send_raw(struct.pack(">i", len(frame)) + frame)
        assert (await client.receive(ApiVersionsRequest(), 4, 1)).error_code == 0

    serve(test)


def test_a_client_that_does_not_read_is_not_served_on_and_costs_bounded_memory() -> None:
    """It asks for far more than the network takes; no more is answered than fits, until it reads."""

    async def test(server: Server) -> None:
        answered = 0
        size = 200_000

        def large(context: RequestContext, request: HeartbeatRequest) -> Any:
            nonlocal answered
            answered += 1
            return _large_response(size)

        route(server, "UnregisterBroker", 0, large)
        client = await server.client()
        count = 300
        frames = b"".join(bytes(request_frame(UnregisterBrokerRequest(), 0, number)) for number in range(count))
        await client.send_raw(frames)
        await asyncio.sleep(0.3)
        stalled_at = answered
        assert stalled_at < count
        (session,) = next(iter(server.sockets._ports.values())).sessions
        assert session._stream.unsent_bytes <= FLUSH_MIN + size + 100
        quick = await server.client()
        assert (await quick.ask(ApiVersionsRequest(), 0)).error_code == 0
        await asyncio.sleep(0.05)
        assert answered == stalled_at
        for number in range(count):
            response = await client.receive(UnregisterBrokerRequest(), 0, number)
            assert len(response.error_message) == 30_000
        assert answered == count

    serve(test)


def _large_response(size: int) -> UnregisterBrokerResponse:
    response = UnregisterBrokerResponse(error_message="m" * 30_000)
    response.unknown_tags = [(100, bytes(size - 30_000))]
    return response


def test_an_answer_for_a_client_that_has_gone_is_dropped() -> None:
    async def test(server: Server) -> None:
        loop = asyncio.get_running_loop()
        promise: asyncio.Future[Any] = loop.create_future()
        told: list[str] = []

        def wait(context: RequestContext, request: HeartbeatRequest) -> Any:
            context.connection.when_closed(lambda: told.append("closed"))
            return promise

        route(server, "Heartbeat", 4, wait)
        client = await server.client()
        await client.send(HeartbeatRequest(), 4)
        await until(lambda: server.node.metrics.api("Heartbeat", 4).requests == 1)
        client.close()
        await until(lambda: server.sockets.connection_count == 0)
        assert told == ["closed"]
        promise.set_result(HeartbeatResponse())
        await asyncio.sleep(0)
        assert (await (await server.client()).ask(ApiVersionsRequest(), 0)).error_code == 0

    serve(test)


def test_what_is_sent_behind_a_waiting_request_is_held_once_and_then_the_network_holds_it() -> None:
    async def test(server: Server) -> None:
        loop = asyncio.get_running_loop()
        promise: asyncio.Future[Any] = loop.create_future()
        route(server, "Heartbeat", 4, lambda context, request: promise)
        client = await server.client()
        await client.send(HeartbeatRequest(), 4)
        flood = asyncio.create_task(client.send_raw(FLOOD * FLOOD_COUNT))
        await asyncio.sleep(0.3)
        (session,) = next(iter(server.sockets._ports.values())).sessions
        assert 0 < session._reader.held_bytes <= 256 * 1024
        promise.set_result(HeartbeatResponse())
        reader = asyncio.create_task(_drain(client))
        await flood
        await until(lambda: server.node.metrics.api("Metadata", 1).requests == FLOOD_COUNT)
        reader.cancel()

    serve(test)


FLOOD_COUNT = 600
FLOOD = bytes(request_frame(MetadataRequest([]), 1, client_id="c" * 20_000))


async def _drain(client: Client) -> None:
    while await client.loop.sock_recv(client.sock, 1 << 20):
        pass


class Records:
    """Record bytes that are sent from a file."""

    def __init__(self, file: Any, position: int, size: int) -> None:
        self.file, self.position, self.size = file, position, size

    def read(self) -> bytes:
        data: bytes = self.file.read_at(self.position, self.size)
        return data

    def __len__(self) -> int:
        return self.size


@pytest.mark.parametrize("may_wait", [False, True])
def test_records_leave_from_their_files_between_other_responses(may_wait: bool, tmp_path: Path) -> None:
    """Sizes around the one up to which a slice is copied and the one up to which it is read in one piece."""
    content = random.Random(4).randbytes(3_000_000)
    (tmp_path / "log").write_bytes(content)

    async def test(server: Server) -> None:
        file = SystemDisk().open(str(tmp_path / "log"), read_only=True)
        sizes = [0, 1, 512, 513, 5000, 40_000, 700_000, 2_000_000]

        def fetch(context: RequestContext, request: FetchRequest) -> Any:
            partitions = [PartitionData(partition_index=index, records=Records(file, index, size))
                          for index, size in enumerate(sizes[: request.max_wait_ms])]  # fmt: skip
            response = FetchResponse(responses=[FetchableTopicResponse(topic="t", partitions=partitions)])
            return later(response) if may_wait else response

        async def later(response: FetchResponse) -> FetchResponse:
            await asyncio.sleep(0)
            return response

        route(server, "Fetch", 12, fetch)
        client = await server.client()
        small, wanted = ApiVersionsRequest(), [1, 3, 5, 8, 2]
        frames = b""
        for number, count in enumerate(wanted):
            frames += request_frame(small, 0, 2 * number)
            frames += request_frame(FetchRequest(max_wait_ms=count), 12, 2 * number + 1)
        await client.send_raw(frames)
        for number, count in enumerate(wanted):
            assert (await client.receive(small, 0, 2 * number)).error_code == 0
            response = await client.receive(FetchRequest(), 12, 2 * number + 1)
            got = [bytes(p.records) for p in response.responses[0].partitions]
            assert got == [content[index : index + size] for index, size in enumerate(sizes[:count])]
        file.close()

    serve(test)


@pytest.mark.parametrize("size", [10, 60_000, 300_000, 3_000_000])
def test_a_produce_frame_is_lent_to_be_changed_in_place_and_any_other_may_be_kept(size: int) -> None:
    async def test(server: Server) -> None:
        kept: list[Any] = []
        seen: list[bytes] = []

        def produce(context: RequestContext, request: ProduceRequest) -> Any:
            records = request.topic_data[0].partition_data[0].records
            assert isinstance(records, memoryview)
            seen.append(bytes(records))
            records[:1] = b"!"
            return ProduceResponse()

        def push(context: RequestContext, request: PushTelemetryRequest) -> Any:
            kept.append(request.metrics)
            return PushTelemetryResponse()

        route(server, "Produce", 9, produce)
        route(server, "PushTelemetry", 0, push)
        client, other = await server.client(), await server.client()
        sent = [bytes([number]) * size for number in range(1, 5)]
        for data in sent:
            partition = PartitionProduceData(records=data)
            await client.ask(ProduceRequest(topic_data=[TopicProduceData("t", partition_data=[partition])]), 9)
            await other.ask(PushTelemetryRequest(metrics=data), 0)
        assert seen == sent
        assert [bytes(data) for data in kept] == sent

    serve(test)
