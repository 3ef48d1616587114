"""Envelopes: `ottla/server/envelope.py`, `principal.py` and the controller's handler, up to the bytes inside."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable
from functools import cache
from typing import Any

import pytest

from ottla.errors import (
    InvalidRequest,
    KafkaError,
    NotController,
    PrincipalDeserializationFailure,
    TopicAlreadyExists,
    UnknownServerError,
    UnsupportedVersion,
    error_class,
)
from ottla.server import (
    ANONYMOUS,
    BrokerContext,
    CloseConnection,
    Connection,
    ControllerContext,
    Dispatcher,
    Principal,
    RequestContext,
)
from ottla.server.controller_handlers import envelope
from ottla.server.envelope import (
    address_bytes,
    has_error,
    open_request,
    read_address,
    unwrap_answer,
    wrap_answer,
    wrap_request,
)
from ottla.wire import APIS, Message, decode, encode, message_class
from ottla.wire.frames import read_request, write_request
from ottla.wire.messages.create_topics import (
    CreatableTopic,
    CreatableTopicResult,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from ottla.wire.messages.describe_quorum import (
    DescribeQuorumResponse,
    DescribeQuorumResponsePartitionData,
    DescribeQuorumResponseTopicData,
)
from ottla.wire.messages.envelope import EnvelopeRequest, EnvelopeResponse
from ottla.wire.messages.header import RequestHeader
from ottla.world import Address
from tests.unit.replica.node import TestNode
from tests.unit.server.fake_handlers import route
from tests.unit.server.nodes import FakeController, Server, make_controller, serve

ALICE = Principal("User", "alice")
CREATE = CreateTopicsRequest([CreatableTopic("t", 1, 1)], 1000)
VERSION = 7


@cache
def at_broker() -> TestNode:
    return TestNode()


def client_context(host: str = "10.1.2.3", principal: Principal = ALICE) -> RequestContext:
    """A client's request at a broker."""
    node = at_broker()
    connection = Connection(node.dispatcher, "PLAINTEXT", Address(host, 40000), principal)
    return BrokerContext(VERSION, 77, "the-client", connection, node.context, node.broker)


def envelope_of(**changes: Any) -> EnvelopeRequest:
    values = wrap_request(client_context(), CREATE)
    for name, value in changes.items():
        setattr(values, name, value)
    return values


def raw(request: Message, version: int) -> bytes:
    assert request.schema.api_key is not None
    return bytes(write_request(RequestHeader(request.schema.api_key, version, 1, "c"), request)[4:])


def at_controller(
    request: EnvelopeRequest, answer: Callable[[Message, int], Message] | None = None
) -> tuple[EnvelopeResponse | KafkaError, list[tuple[Message, int]]]:
    """What the controller's handler does with an envelope from the wire, and what its controller was asked."""

    async def main() -> Any:
        controller = FakeController(answer=answer)
        services = make_controller(asyncio.get_running_loop(), controller=controller)
        connection = Connection(Dispatcher(services), "CONTROLLER", Address("broker-2", 1))
        context = ControllerContext(0, 1, "broker-2", connection, services.node, services)
        try:
            told: Any = await envelope.handle(context, decode(EnvelopeRequest, 0, encode(request, 0)))
        except KafkaError as error:
            told = error
        return told, controller.asked

    result: tuple[EnvelopeResponse | KafkaError, list[tuple[Message, int]]] = asyncio.run(main())
    return result


def code_of(told: EnvelopeResponse | KafkaError) -> int:
    return told.code if isinstance(told, KafkaError) else told.error_code


# The whole way


def test_a_request_reaches_the_controllers_handler_with_the_clients_name_address_and_version() -> None:
    seen: list[ControllerContext] = []

    async def test(server: Server) -> Any:
        async def handle(context: ControllerContext, request: CreateTopicsRequest) -> CreateTopicsResponse:
            seen.append(context)
            return CreateTopicsResponse(topics=[CreatableTopicResult(request.topics[0].name)])

        route(server, "CreateTopics", VERSION, handle)
        client = await server.client()
        return await client.ask(wrap_request(client_context(), CREATE), 0)

    told = serve(test, role="controller")
    assert unwrap_answer(told, CREATE, version=VERSION) == CreateTopicsResponse(topics=[CreatableTopicResult("t")])
    (context,) = seen
    assert (context.principal, str(context.principal)) == (ALICE, "User:alice")
    assert context.peer.host == "10.1.2.3"
    assert (context.version, context.correlation_id, context.client_id) == (VERSION, 77, "the-client")
    assert context.listener_name == "PLAINTEXT", "of the connection that brought the envelope"


def test_the_answer_inside_has_the_clients_correlation_id_and_no_size() -> None:
    told, _ = at_controller(envelope_of(), lambda request, version: CreateTopicsResponse())
    assert isinstance(told, EnvelopeResponse)
    assert bytes(told.response_data or b"") == bytes.fromhex("0000004d 00 00000000 01 00".replace(" ", ""))


def test_an_error_of_the_request_is_inside_and_not_the_envelopes() -> None:
    def refuse(request: Message, version: int) -> Message:
        raise TopicAlreadyExists("it is there")

    told, _ = at_controller(envelope_of(), refuse)
    assert isinstance(told, EnvelopeResponse)
    answer = unwrap_answer(told, CREATE, version=VERSION)
    assert isinstance(answer, CreateTopicsResponse)
    assert [(one.name, one.error_code) for one in answer.topics] == [("t", TopicAlreadyExists.code)]


def test_a_failure_of_the_handler_is_an_unknown_error_inside() -> None:
    def fail(request: Message, version: int) -> Message:
        raise ZeroDivisionError

    told, _ = at_controller(envelope_of(), fail)
    assert isinstance(told, EnvelopeResponse)
    answer = unwrap_answer(told, CREATE, version=VERSION)
    assert has_error(answer, UnknownServerError.code)


# A controller that leads no more


def test_a_controller_that_is_not_the_active_one_says_so_in_the_envelope() -> None:
    def elsewhere(request: Message, version: int) -> Message:
        raise NotController

    told, _ = at_controller(envelope_of(), elsewhere)
    assert told == EnvelopeResponse(error_code=NotController.code)
    with pytest.raises(NotController):
        unwrap_answer(EnvelopeResponse(error_code=NotController.code), CREATE, version=VERSION)


def test_not_controller_anywhere_in_an_answer_becomes_the_envelopes() -> None:
    inside = CreateTopicsResponse(topics=[CreatableTopicResult("a"), CreatableTopicResult("b", error_code=41)])
    assert wrap_answer(inside, 1, version=7).error_code == NotController.code
    quorum = DescribeQuorumResponse(
        topics=[DescribeQuorumResponseTopicData("t", [DescribeQuorumResponsePartitionData(0, error_code=6)])]
    )
    assert wrap_answer(quorum, 1, version=2).error_code == NotController.code
    assert (
        wrap_answer(CreateTopicsResponse(error_code=6) if False else CreateTopicsResponse(), 1, version=7).error_code
        == 0
    )


# Envelopes that make no sense


@pytest.mark.parametrize("principal", [None, b"", b"\0", b"\0\0", b"\0\1\2A\2B\0\0", b"\0\0\2A", b"\0\0\2\xff\2B\0\0"])
def test_a_principal_that_cannot_be_read_is_refused(principal: bytes | None) -> None:
    told, asked = at_controller(envelope_of(request_principal=principal))
    assert (code_of(told), asked) == (PrincipalDeserializationFailure.code, [])


@pytest.mark.parametrize("address", [b"", b"\x7f", bytes(3), bytes(5), bytes(15), bytes(17)])
def test_an_address_of_another_size_than_4_or_16_is_an_invalid_request(address: bytes) -> None:
    told, asked = at_controller(envelope_of(client_host_address=address))
    assert (code_of(told), asked) == (InvalidRequest.code, [])


@pytest.mark.parametrize("name", ["Produce", "Metadata", "Envelope", "BrokerHeartbeat", "Vote", "ApiVersions", "Fetch"])
def test_a_request_that_may_not_be_forwarded_is_invalid(name: str) -> None:
    api = next(api for api in APIS.values() if api.name == name)
    request = message_class(f"{name}Request")()
    told, asked = at_controller(envelope_of(request_data=raw(request, api.advertised.last)))
    assert (code_of(told), asked) == (InvalidRequest.code, [])


@pytest.mark.parametrize(
    "data",
    [
        b"",
        bytes.fromhex("7fff 0000 00000001 ffff".replace(" ", "")),  # no such API
        bytes.fromhex("0004 0000 00000001 ffff".replace(" ", "")),  # LeaderAndIsr, which Kafka 4 has not
        bytes.fromhex("0013 0063 00000001 ffff 00".replace(" ", "")),  # CreateTopics from the future
        raw(message_class("CreateAclsRequest")(), 3),  # may be forwarded, and is not served yet
    ],
)
def test_a_request_inside_that_cannot_be_read_or_served_is_of_an_unsupported_version(data: bytes) -> None:
    told, asked = at_controller(envelope_of(request_data=data))
    assert (code_of(told), asked) == (UnsupportedVersion.code, [])


@pytest.mark.parametrize(("name", "version"), [("CreateTopics", 7), ("CreateTopics", 2), ("ElectLeaders", 2)])
def test_every_truncation_of_the_request_inside_is_of_an_unsupported_version(name: str, version: int) -> None:
    if name == "CreateTopics":
        data = raw(CreateTopicsRequest([CreatableTopic("topic", 3, 1)], 1000), version)
    else:
        data = raw(message_class("ElectLeadersRequest")(), version)
    assert read_request(data, strict=True).version == version
    for end in range(len(data)):
        with pytest.raises(UnsupportedVersion):
            open_request(data[:end])


def test_no_mutation_of_an_envelope_does_more_than_refuse_it() -> None:
    """Over a real connection: each is answered in the envelope or closes the connection, and the server goes on."""
    chance = random.Random(20261118)
    inside = raw(CREATE, VERSION)

    async def test(server: Server) -> int:
        client = await server.client()
        refused = 0
        for _ in range(400):
            data = bytearray(inside)
            for _ in range(chance.randint(1, 4)):
                data[chance.randrange(len(data))] = chance.randrange(256)
            request = envelope_of(request_data=bytes(data[: chance.choice([len(data), chance.randrange(len(data))])]))
            told = await client.ask(request, 0)
            assert told.error_code in (0, InvalidRequest.code, UnsupportedVersion.code)
            refused += told.error_code != 0
        return refused

    def accept(request: Message, version: int) -> Message:
        assert request.schema.api_key is not None
        name = APIS[request.schema.api_key].name
        return message_class(f"{name}Response")()

    assert serve(test, role="controller", controller=FakeController(answer=accept)) > 100


def test_garbage_in_place_of_an_envelope_closes_the_connection() -> None:
    async def test(server: Server) -> bool:
        client = await server.client()
        await client.send_raw(bytes.fromhex("0000000f 003a 0000 00000001 ffff 00 ffffffff".replace(" ", "")))
        return await client.is_closed_by_server()

    assert serve(test, role="controller")


def test_a_broker_takes_no_envelopes() -> None:
    async def test(server: Server) -> bool:
        client = await server.client()
        await client.send(envelope_of(), 0)
        return await client.is_closed_by_server()

    assert serve(test)


# What the broker makes of an answer


def test_an_unsupported_version_closes_the_clients_connection() -> None:
    with pytest.raises(CloseConnection):
        unwrap_answer(EnvelopeResponse(error_code=UnsupportedVersion.code), CREATE, version=VERSION)


@pytest.mark.parametrize("code", [InvalidRequest.code, PrincipalDeserializationFailure.code, 31, -1])
def test_any_other_error_of_the_envelope_is_an_unknown_error_for_the_client(code: int) -> None:
    with pytest.raises(UnknownServerError):
        unwrap_answer(EnvelopeResponse(error_code=code), CREATE, version=VERSION)
    assert error_class(code)().code == code


def test_an_answer_that_cannot_be_read_is_an_unknown_error_for_the_client() -> None:
    whole = wrap_answer(CreateTopicsResponse(topics=[CreatableTopicResult("t")]), 1, version=VERSION).response_data
    assert whole is not None
    for end in range(len(whole)):
        with pytest.raises(UnknownServerError):
            unwrap_answer(EnvelopeResponse(response_data=bytes(whole)[:end]), CREATE, version=VERSION)


# Bytes


def test_a_principal_is_written_as_kafkas_default_builder_does() -> None:
    assert Principal("User", "alice", True).to_bytes() == b"\0\0\x05User\x06alice\x01\0"
    for principal in (ANONYMOUS, ALICE, Principal("Group", "ünïcode", True)):
        read = Principal.from_bytes(principal.to_bytes())
        assert (read, read.is_token_authenticated) == (principal, principal.is_token_authenticated)
    assert Principal.from_bytes(ALICE.to_bytes() + b"later") == ALICE, "Kafka reads no further than it must"


@pytest.mark.parametrize(
    ("host", "data", "read"),
    [
        ("127.0.0.1", b"\x7f\0\0\1", "127.0.0.1"),
        ("::1", bytes(15) + b"\1", "::1"),
        ("fe80::1%eth0", b"\xfe\x80" + bytes(13) + b"\1", "fe80::1"),
        ("::ffff:10.0.0.7", b"\x0a\0\0\x07", "10.0.0.7"),
        ("a-virtual-host", bytes(4), "0.0.0.0"),  # an address that is none
    ],
)
def test_an_address_is_written_as_java_has_it(host: str, data: bytes, read: str) -> None:
    assert address_bytes(host) == data
    assert read_address(data) == read
