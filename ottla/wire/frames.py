"""Whole requests and responses: a header, then the message.

A frame on the wire is its size (int32), the header, the message. What is read here begins after the size, which is the
business of whoever reads the stream; what is written includes it. Called by sessions, links and the `wire` command.

A request in a version that the API does not have raises `UnsupportedVersion`, except ApiVersions: a client asks for it
before it knows what the server speaks, so any version of it can be read (KIP-511). Its body is then not looked at, and
it is answered in version 0 with `unsupported_api_versions()`.
"""

from __future__ import annotations

import struct
from typing import NamedTuple

from ottla.errors import UnsupportedVersion
from ottla.types import Buffer
from ottla.wire.apis import API_VERSIONS_KEY, Api, find_api
from ottla.wire.codec import decode_prefix, encode_into, encode_parts
from ottla.wire.failures import DecodeError
from ottla.wire.messages.header import RequestHeader, ResponseHeader
from ottla.wire.registry import request_class, response_class
from ottla.wire.schema import Message, SentRecords


class Request(NamedTuple):
    """A request as it came in."""

    header: RequestHeader
    body: Message
    version: int
    """In which the body was read and in which it must be answered: the header's, but for an unsupported ApiVersions."""

    @property
    def is_supported(self) -> bool:
        """False for an ApiVersions request in a version that the server does not speak."""
        return self.header.request_api_version == self.version


class Response(NamedTuple):
    """A response as it came in."""

    header: ResponseHeader
    body: Message


def read_request_header(frame: Buffer) -> tuple[RequestHeader, int]:
    """The header, of any version of any known API, and the position of the body."""
    try:
        api_key, version = struct.unpack_from(">hh", frame)
    except struct.error:
        return decode_prefix(RequestHeader, 1, frame)  # which says what is missing
    return decode_prefix(RequestHeader, find_api(api_key).request_header_version(version), frame)


def read_request(frame: Buffer, *, strict: bool = False) -> Request:
    """The request of a frame. Bytes after it are let pass, as Kafka lets them, unless `strict`."""
    header, position = read_request_header(frame)
    version = header.request_api_version
    api = find_api(header.request_api_key)
    cls = request_class(api.key)
    if not api.versions.includes(version):
        if api.key != API_VERSIONS_KEY:
            raise UnsupportedVersion(f"{api.name} has versions {api.versions}, not {version}.")
        return Request(header, cls(), 0)
    body, end = decode_prefix(cls, version, frame, position)
    if strict:
        _check_end(body, frame, end)
    return Request(header, body, version)


def read_response(frame: Buffer, api_key: int, version: int, *, strict: bool = False) -> Response:
    """The response to a request of that API and version."""
    api = find_api(api_key)
    header, position = decode_prefix(ResponseHeader, api.response_header_version(version), frame)
    body, end = decode_prefix(response_class(api_key), version, frame, position)
    if strict:
        _check_end(body, frame, end)
    return Response(header, body)


def write_request(header: RequestHeader, body: Message) -> bytearray:
    """The frame of a request, its size included. API and version are those in the header."""
    api = _api_of(body)
    assert api.key == header.request_api_key, (
        f"the header says {header.request_api_key}, the body is {body.schema.name}"
    )
    out = bytearray(4)
    encode_into(header, api.request_header_version(header.request_api_version), out)
    encode_into(body, header.request_api_version, out)
    struct.pack_into(">i", out, 0, len(out) - 4)
    return out


def write_response(correlation_id: int, body: Message, version: int) -> list[SentRecords]:
    """The frame of a response as parts (`encode_parts`), its size included."""
    api = _api_of(body)
    out = bytearray(4)
    encode_into(ResponseHeader(correlation_id), api.response_header_version(version), out)
    parts = encode_parts(body, version, out)
    struct.pack_into(">i", out, 0, sum(map(len, parts)) - 4)
    return parts


def unsupported_api_versions() -> Message:
    """The answer, in version 0, to ApiVersions in an unsupported version: it tells the versions that are."""
    from ottla.wire.messages.api_versions import ApiVersion, ApiVersionsResponse

    first, last = find_api(API_VERSIONS_KEY).advertised
    supported = ApiVersion(api_key=API_VERSIONS_KEY, min_version=first, max_version=last)
    return ApiVersionsResponse(error_code=UnsupportedVersion.code, api_keys=[supported])


def _api_of(body: Message) -> Api:
    assert body.schema.api_key is not None, f"{body.schema.name} is not part of an API"
    return find_api(body.schema.api_key)


def _check_end(body: Message, frame: Buffer, end: int) -> None:
    if end != len(frame):
        raise DecodeError(body.schema.name, end, f"{len(frame) - end} bytes follow the end of the message")
