"""Whole frames: headers of every version, ApiVersions in versions nobody has, responses in parts."""

from __future__ import annotations

import struct

import pytest

from ottla.errors import InvalidRequest, UnsupportedVersion
from ottla.wire import APIS, DecodeError, decode, encode
from ottla.wire.frames import (
    read_request,
    read_request_header,
    read_response,
    unsupported_api_versions,
    write_request,
    write_response,
)
from ottla.wire.messages.api_versions import ApiVersion, ApiVersionsRequest, ApiVersionsResponse
from ottla.wire.messages.fetch import FetchableTopicResponse, FetchRequest, FetchResponse, PartitionData
from ottla.wire.messages.header import RequestHeader, ResponseHeader
from ottla.wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from ottla.wire.registry import request_class, response_class


def joined(parts: list[object]) -> bytes:
    return b"".join(bytes(part) for part in parts if isinstance(part, bytes | bytearray | memoryview))


def test_a_request_is_read_back_in_every_version_of_every_api() -> None:
    for api in APIS.values():
        for version in range(api.versions.first, api.versions.last + 1):
            header = RequestHeader(api.key, version, 42, "a-client")
            body = request_class(api.key)()
            frame = write_request(header, body)
            assert struct.unpack_from(">i", frame) == (len(frame) - 4,)
            request = read_request(memoryview(frame)[4:], strict=True)
            assert request == (header, body, version)
            assert request.is_supported


def test_a_response_is_read_back_in_every_version_of_every_api() -> None:
    for api in APIS.values():
        for version in range(api.versions.first, api.versions.last + 1):
            body = response_class(api.key)()
            frame = joined(list(write_response(7, body, version)))
            assert struct.unpack_from(">i", frame) == (len(frame) - 4,)
            assert read_response(frame[4:], api.key, version, strict=True) == (ResponseHeader(7), body)


def test_a_header_is_kafkas_byte_for_byte() -> None:
    not_flexible = write_request(RequestHeader(1, 11, 5, "me"), FetchRequest())
    assert not_flexible[4:18].hex() == "0001000b0000000500026d65ffff"
    flexible = write_request(RequestHeader(18, 3, 5, "me"), ApiVersionsRequest("n", "v"))
    assert flexible.hex() == "00000012001200030000000500026d6500026e027600"


def test_a_null_client_id_is_read() -> None:
    request = read_request(bytes.fromhex("0012000000000005ffff"))
    assert request.header.client_id is None


def test_tags_of_a_header_are_kept() -> None:
    frame = bytes.fromhex("0012000300000005ffff010901ab026e027600")
    request = read_request(frame)
    assert request.header.unknown_tags == ((9, b"\xab"),)
    assert request.body == ApiVersionsRequest("n", "v")


@pytest.mark.parametrize("version", [-1, 5, 6, 500, 32767])
def test_api_versions_is_read_in_any_version_and_answered_in_version_0(version: int) -> None:
    """A client of the future: a flexible header, and a body that nobody here can read."""
    header = encode(RequestHeader(18, version, 9, "future"), 2 if version > 2 else 1)
    request = read_request(header + b"\xff\xff not a body that we know")
    assert not request.is_supported
    assert request.version == 0
    assert request.body == ApiVersionsRequest()
    assert request.header.correlation_id == 9

    frame = joined(list(write_response(9, unsupported_api_versions(), request.version)))
    answer = read_response(frame[4:], 18, 0, strict=True)
    assert answer.header.correlation_id == 9
    assert answer.body == ApiVersionsResponse(error_code=35, api_keys=[ApiVersion(18, 0, 4)])
    assert frame.hex() == "0000001000000009002300000001001200000004"


def test_the_answer_of_api_versions_has_a_plain_header_even_where_it_is_flexible() -> None:
    frame = joined(list(write_response(9, ApiVersionsResponse(), 4)))
    assert frame[4:8] == struct.pack(">i", 9)
    assert decode(ApiVersionsResponse, 4, frame[8:]) == ApiVersionsResponse()


def test_another_api_in_a_version_nobody_has_is_refused() -> None:
    frame = encode(RequestHeader(1, 99, 9, "future"), 2)
    header, _ = read_request_header(frame)
    assert header.request_api_version == 99
    with pytest.raises(UnsupportedVersion, match="Fetch has versions 4-18, not 99"):
        read_request(frame)
    with pytest.raises(UnsupportedVersion, match="LeaderAndIsr has versions none, not 0"):
        read_request(encode(RequestHeader(4, 0, 9, ""), 1))


def test_an_unknown_api_key_is_an_invalid_request() -> None:
    with pytest.raises(InvalidRequest, match="Unknown API key 1234"):
        read_request(encode(RequestHeader(1234, 0, 9, ""), 1))


def test_a_frame_cut_in_its_header_is_a_decode_error() -> None:
    frame = encode(RequestHeader(18, 3, 9, "client"), 2)
    for size in range(len(frame)):
        with pytest.raises(DecodeError, match=r"RequestHeader\."):
            read_request_header(frame[:size])
    with pytest.raises(DecodeError, match=r"ResponseHeader\.correlation_id"):
        read_response(b"\0\0", 1, 4)


def test_bytes_after_a_request_are_let_pass_as_kafka_does_unless_strict() -> None:
    frame = bytes(write_request(RequestHeader(1, 12, 1, ""), FetchRequest()))[4:] + b"more"
    assert read_request(frame).body == FetchRequest()
    with pytest.raises(DecodeError, match=r"FetchRequest at byte .*: 4 bytes follow the end"):
        read_request(frame, strict=True)
    response = joined(list(write_response(1, FetchResponse(), 12)))[4:] + b"more"
    assert read_response(response, 1, 12).body == FetchResponse()
    with pytest.raises(DecodeError, match=r"FetchResponse at byte .*: 4 bytes follow the end"):
        read_response(response, 1, 12, strict=True)


def test_a_response_with_records_is_sent_in_parts_and_its_size_counts_them_all() -> None:
    records = memoryview(bytes(5000))
    body = FetchResponse(responses=[FetchableTopicResponse(partitions=[PartitionData(records=records)])])
    parts = write_response(3, body, 12)
    assert parts[1] is records
    frame = joined(list(parts))
    assert struct.unpack_from(">i", frame) == (len(frame) - 4,)
    assert read_response(frame[4:], 1, 12).body == body


def test_the_records_of_a_request_are_a_view_of_the_frame() -> None:
    body = ProduceRequest(topic_data=[TopicProduceData("t", partition_data=[PartitionProduceData(0, b"records")])])
    frame = bytearray(write_request(RequestHeader(0, 9, 1, ""), body))
    read = read_request(memoryview(frame)[4:]).body
    assert isinstance(read, ProduceRequest)
    records = read.topic_data[0].partition_data[0].records
    assert isinstance(records, memoryview)
    assert records.obj is frame
    assert bytes(records) == b"records"
