"""One connection to a broker or controller, without I/O: requests become frames, frames become answers to requests.

A connection begins with its handshake (`advance`), whose end makes it ready. Then requests are encoded (`encode`), put
down as waiting (`expect`), and answers cut out of what arrives (`received`, `next_answer`). There is no clock, timer or
stream in here: time and bytes come in, frames and answers go out, and `link` carries them.

Promises: an answer belongs to the oldest request that waits, or `BadAnswer` is raised: a peer that answers out of
order, or what was not asked, or in bytes that cannot be read, says nothing that can be trusted to belong to its
request. No more than `in_flight_max` requests wait. `end` gives back every request that was not answered, once.
"""

from __future__ import annotations

import struct
from collections import deque
from collections.abc import Iterable
from math import inf
from typing import NamedTuple

from ottla.errors import NetworkException, as_kafka_error
from ottla.net.framing import BadFrame, FrameReader, ReceiveBuffer
from ottla.net.handshake import API_VERSIONS_KEY, Exchange
from ottla.net.request import OnAnswer
from ottla.net.versions import ApiVersions
from ottla.wire import APIS, DecodeError, Message, SentRecords, decode_prefix, encode_into, encode_parts, response_class
from ottla.wire.messages.header import RequestHeader, ResponseHeader

_SIZE = struct.Struct(">i")
_UNSUPPORTED = b"\0\x23"
"""How a response begins whose error code is UNSUPPORTED_VERSION."""


class BadAnswer(NetworkException):
    """The peer does not speak the protocol: its answer is out of order, damaged, or to no request."""


class ConnectionRefused(NetworkException):
    """The peer's host runs, and nobody listens there."""


class Frame(NamedTuple):
    """A request as it goes over the wire."""

    correlation_id: int
    parts: list[SentRecords]
    size: int


class InFlight(NamedTuple):
    """A request that waits for its answer. One of the handshake has nobody to tell."""

    correlation_id: int
    api_key: int
    version: int
    on_answer: OnAnswer | None
    sent_ms: float
    deadline_ms: float


class Answer(NamedTuple):
    """A response, and the request that it belongs to."""

    request: InFlight
    response: Message
    size: int
    """The bytes of its frame."""


class Connection:
    """See the module. Open until `end`."""

    __slots__ = ("_client_id", "_handshake", "_in_flight", "_is_strict", "_next_id", "in_flight_max", "is_open",
                 "is_ready", "reader", "versions")  # fmt: skip

    def __init__(
        self,
        *,
        client_id: str,
        receive_buffer: ReceiveBuffer,
        handshake: Iterable[Exchange],
        frame_max: int,
        in_flight_max: int,
        is_strict: bool = False,
    ) -> None:
        """`is_strict` takes bytes behind the end of a response for damage; Kafka's clients let them pass."""
        assert receive_buffer.hands_over, "who gets a response keeps its bytes"
        self._client_id = client_id
        self._handshake = deque(handshake)
        self._in_flight: deque[InFlight] = deque()
        self._is_strict = is_strict
        self._next_id = 0
        self.in_flight_max = in_flight_max
        self.reader = FrameReader(receive_buffer, frame_max)
        """Where the bytes go that `received` counts."""
        self.is_open = True
        self.is_ready = False
        """Whether the handshake is done, and requests may be sent."""
        self.versions: ApiVersions | None = None
        """What the peer speaks; known once the connection is ready."""

    @property
    def in_flight_count(self) -> int:
        return len(self._in_flight)

    @property
    def is_full(self) -> bool:
        return len(self._in_flight) >= self.in_flight_max

    # Beginning

    def advance(self, response: Message | None = None) -> tuple[Message, int] | None:
        """What to ask next before the connection is ready, and in which version; None when it has become ready.

        Called first without a response, then with that of each request it gave. A `KafkaError` says that the peer
        refuses.
        """
        assert self.is_open, "a closed connection does not begin"
        assert not self.is_ready, "a handshake happens once"
        while self._handshake:
            asked = self._handshake[0].step(self, response)
            if asked is not None:
                return asked
            self._handshake.popleft()
            response = None
        assert self.versions is not None, "one of the exchanges learns what the peer speaks"
        self.is_ready = True
        return None

    # Out

    def encode(self, request: Message, version: int) -> Frame:
        """The request as it is sent. What it carries as bytes must not change any more.

        Raises what the codec raises: the version cannot carry what is asked for, or it is no request at all.
        """
        assert self.is_open, "nothing is sent on a closed connection"
        api_key = request.schema.api_key
        assert api_key is not None, f"{request.schema.name} is not part of an API"
        correlation_id = self._next_id
        self._next_id = correlation_id + 1 & 0x7FFF_FFFF
        out = bytearray(4)
        header = RequestHeader(api_key, version, correlation_id, self._client_id)
        encode_into(header, APIS[api_key].request_header_version(version), out)
        parts = encode_parts(request, version, out)
        size = sum(map(len, parts))
        _SIZE.pack_into(out, 0, size - 4)
        return Frame(correlation_id, parts, size)

    def expect(self, request: InFlight) -> None:
        """This request was sent and will be answered. One without an answer (Produce with acks=0) is not put down."""
        assert len(self._in_flight) < self.in_flight_max, "the owner looks at `is_full` before it sends"
        self._in_flight.append(request)

    # In

    def received(self, count: int) -> None:
        """That many bytes are in the reader's buffer; `next_answer` until it gives none."""
        self.reader.received(count)

    def next_answer(self) -> Answer | None:
        """The next response, or None when more bytes are needed.

        `BadAnswer`, or the `InternalError` of a codec that failed, ends the connection: where the next answer begins,
        or whose it is, is not known any more.
        """
        try:
            frame = self.reader.next_kept()  # for as long as its records are
        except BadFrame as error:
            raise BadAnswer(f"the broker sends {error}") from None
        if frame is None:
            self.reader.keep()
            return None
        if not self._in_flight:
            raise BadAnswer("the broker answers a request that was not sent")
        request = self._in_flight[0]
        api = APIS[request.api_key]
        version = request.version
        try:
            header, position = decode_prefix(ResponseHeader, api.response_header_version(version), frame)
            if header.correlation_id != request.correlation_id:
                raise BadAnswer(f"the broker answers request {header.correlation_id} and not {request.correlation_id}")
            if request.api_key == API_VERSIONS_KEY and frame[position : position + 2] == _UNSUPPORTED:
                version = 0  # an unsupported version is answered in version 0, whatever was asked (KIP-511)
            response, end = decode_prefix(response_class(request.api_key), version, frame, position)
        except DecodeError as error:
            raise BadAnswer(f"the broker's answer to {api.name} v{request.version} is damaged: {error}") from None
        except Exception as error:  # noqa: BLE001  it is told to all who wait
            failed = as_kafka_error(error, f"The response to {api.name} v{request.version} could not be decoded")
            raise failed from failed.__cause__
        if self._is_strict and end != len(frame):
            raise BadAnswer(f"the broker's answer to {api.name} v{version} is followed by {len(frame) - end} bytes")
        self._in_flight.popleft()
        return Answer(request, response, _SIZE.size + len(frame))

    # Time

    @property
    def deadline_ms(self) -> float:
        """When the first of what waits has waited for too long; infinity when nothing waits."""
        return min((one.deadline_ms for one in self._in_flight), default=inf)

    def overdue(self, now_ms: float) -> InFlight | None:
        """A request that should have been answered by now. Nothing behind it will be answered either, nor before it."""
        return next((one for one in self._in_flight if one.deadline_ms <= now_ms), None)

    # Ending

    def end(self) -> list[InFlight]:
        """The connection is gone: those whose requests were not answered, to be told so. Nothing is answered now."""
        self.is_open = False
        self.is_ready = False
        waiting, self._in_flight = self._in_flight, deque()
        return [one for one in waiting if one.on_answer is not None]
