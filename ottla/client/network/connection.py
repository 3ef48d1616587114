"""One connection to a broker: requests out, responses in, each matched to its request.

A connection first learns which APIs the broker speaks (ApiVersions, going back to version 0 where the broker knows no
newer one); what TLS and SASL have to say comes between that and `on_ready`. Promises: every request that was sent is
answered exactly once, with its response or with why there is none; responses come in the order of the requests, and a
broker that answers out of order is disconnected, because nothing it says can be trusted to belong to its request; a
request without an answer after its time-out ends the connection, because nothing behind it will be answered either; a
callback that raises on its response is called again with that as the error, so that who asked is told.
"""

from __future__ import annotations

import logging
import struct
from collections import deque
from collections.abc import Callable
from typing import NamedTuple

from ottla import __version__
from ottla.client.errors import as_kafka_error
from ottla.client.metrics import NodeMetrics
from ottla.errors import KafkaError, NetworkException, RequestTimedOut, UnsupportedVersion, error_class
from ottla.net import BadFrame, FrameReader, ReceiveBuffer
from ottla.wire import APIS, DecodeError, Message, Versions, decode_prefix, encode_into, encode_parts, response_class
from ottla.wire.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from ottla.wire.messages.header import RequestHeader, ResponseHeader
from ottla.world import ClientWorld, Stream, Timer

log = logging.getLogger(__name__)

FRAME_MAX = 1 << 30
"""The largest response that is taken: memory is only used for what has really arrived."""
SOFTWARE_NAME = "ottla"

_SIZE = struct.Struct(">i")

OnAnswer = Callable[[Message | None, KafkaError | None], None]
"""Called once with the response, or with why there is none."""


def tell(on_answer: OnAnswer, response: Message | None, error: KafkaError | None, what: str) -> None:
    """Call it. What it raises on a response it is told as the error; what it raises then is logged and goes no further,
    so that others who wait hear of theirs."""
    try:
        on_answer(response, error)
    except Exception as raised:
        if error is None:
            tell(on_answer, None, as_kafka_error(raised, f"The response to {what} could not be handled"), what)
        else:
            log.exception("[Client] What was told that %s failed (%s) has failed itself", what, error)


class ApiVersions:
    """What a broker speaks, and the features of its cluster."""

    __slots__ = ("features", "ranges")

    def __init__(self, response: ApiVersionsResponse) -> None:
        self.ranges = {
            one.api_key: Versions(one.min_version, one.max_version)
            for one in response.api_keys
            if one.min_version <= one.max_version
        }
        self.features = {one.name: one.max_version_level for one in response.finalized_features}

    def usable(self, api_key: int, version_min: int = 0, version_max: int = 0x7FFF) -> int | None:
        """The highest version that both sides know and the caller allows; None when there is none."""
        theirs = self.ranges.get(api_key)
        if theirs is None:
            return None
        ours = APIS[api_key].advertised
        version = min(theirs.last, ours.last, version_max)
        return version if version >= max(theirs.first, ours.first, version_min) else None


class _InFlight(NamedTuple):
    correlation_id: int
    api_key: int
    version: int
    on_answer: OnAnswer
    timer: Timer
    sent_ms: float


class Connection:
    """A `StreamHandler`: open from construction until `on_closed` was called with the reason."""

    __slots__ = (
        "_client_id",
        "_in_flight",
        "_measured",
        "_next_id",
        "_on_closed",
        "_on_ready",
        "_reader",
        "_stream",
        "_tasks",
        "is_open",
        "versions",
    )

    def __init__(
        self,
        world: ClientWorld,
        stream: Stream,
        *,
        client_id: str,
        receive_buffer: ReceiveBuffer,
        measured: NodeMetrics,
        on_ready: Callable[[Connection], None],
        on_closed: Callable[[Connection, KafkaError], None],
    ) -> None:
        self._tasks = world.tasks
        self._stream = stream
        self._client_id = client_id
        self._reader = FrameReader(receive_buffer, FRAME_MAX)
        self._measured = measured
        self._on_ready = on_ready
        self._on_closed = on_closed
        self._in_flight: deque[_InFlight] = deque()
        self._next_id = 0
        self.is_open = True
        self.versions: ApiVersions | None = None
        """Known from `on_ready` on."""
        measured.opened()

    @property
    def in_flight_count(self) -> int:
        return len(self._in_flight)

    @property
    def unsent_bytes(self) -> int:
        return self._stream.unsent_bytes

    # Beginning

    def negotiate(self, timeout_ms: float) -> None:
        """Learn what the broker speaks; `on_ready` or `on_closed` follows."""
        self._ask_versions(APIS[ApiVersionsRequest.schema.api_key or 0].advertised.last, timeout_ms)

    def _ask_versions(self, version: int, timeout_ms: float) -> None:
        def answered(response: Message | None, error: KafkaError | None) -> None:
            if error is not None:
                return  # the connection is closed, and has said why
            assert isinstance(response, ApiVersionsResponse)
            if response.error_code == UnsupportedVersion.code and version > 0:
                # A broker that tells which versions it knows is asked in the best of them (KIP-511).
                told = ApiVersions(response).usable(18, 0, version - 1)
                self._ask_versions(told or 0, timeout_ms)
            elif response.error_code:
                self.fail(error_class(response.error_code)("the broker refuses to tell which versions it speaks"))
            else:
                self.versions = ApiVersions(response)
                self._on_ready(self)

        request = ApiVersionsRequest(client_software_name=SOFTWARE_NAME, client_software_version=__version__)
        self.send(request, version, timeout_ms, answered)

    # Out

    def send(self, request: Message, version: int, timeout_ms: float, on_answer: OnAnswer) -> None:
        """Send a request. What it carries as bytes must not change any more."""
        assert self.is_open, "nothing is sent on a closed connection"
        correlation_id, api_key, sent_ms = self._write(request, version)
        timer = self._tasks.later(timeout_ms, lambda: self._time_out(correlation_id, api_key, timeout_ms))
        self._in_flight.append(_InFlight(correlation_id, api_key, version, on_answer, timer, sent_ms))

    def send_only(self, request: Message, version: int) -> None:
        """Send a request that is not answered: Produce with acks=0."""
        assert self.is_open, "nothing is sent on a closed connection"
        self._write(request, version)

    def _write(self, request: Message, version: int) -> tuple[int, int, float]:
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
        self._stream.send(parts)  # type: ignore[arg-type]  # a request has no slices of files
        return correlation_id, api_key, self._measured.sent_request(size)

    def _time_out(self, correlation_id: int, api_key: int, timeout_ms: float) -> None:
        name = APIS[api_key].name
        self.fail(
            RequestTimedOut(f"{name} (correlation id {correlation_id}) was not answered within {timeout_ms:.0f} ms")
        )

    # In

    def get_buffer(self) -> memoryview:
        return self._reader.get_buffer()

    def on_received(self, count: int) -> None:
        reader = self._reader
        reader.received(count)
        try:
            while self.is_open:
                frame = reader.next_kept()  # for as long as its records are
                if frame is None:
                    break
                self._on_frame(frame)
        except BadFrame as error:
            self.fail(NetworkException(f"the broker sends {error}"))
        reader.keep()

    def _on_frame(self, frame: bytes | memoryview) -> None:
        if not self._in_flight:
            self.fail(NetworkException("the broker answers a request that was not sent"))
            return
        expected = self._in_flight[0]
        api = APIS[expected.api_key]
        try:
            header, position = decode_prefix(ResponseHeader, api.response_header_version(expected.version), frame)
            if header.correlation_id != expected.correlation_id:
                self.fail(
                    NetworkException(
                        f"the broker answers request {header.correlation_id} and not {expected.correlation_id}"
                    )
                )
                return
            version = expected.version
            if expected.api_key == 18 and frame[position : position + 2] == b"\0\x23":
                version = 0  # an unsupported version is answered in version 0, whatever was asked
            response, _ = decode_prefix(response_class(expected.api_key), version, frame, position)
        except DecodeError as error:
            self.fail(NetworkException(f"the broker's answer to {api.name} v{expected.version} is damaged: {error}"))
            return
        except Exception as error:  # noqa: BLE001  it is told to all who wait
            # Nothing behind it can be read either: where the next field begins is not known.
            self.fail(as_kafka_error(error, f"The response to {api.name} v{expected.version} could not be decoded"))
            return
        self._in_flight.popleft()
        expected.timer.cancel()
        self._measured.received_response(_SIZE.size + len(frame), expected.sent_ms)
        tell(expected.on_answer, response, None, api.name)

    def on_drained(self) -> None:
        pass

    # Ending

    def on_closed(self, error: OSError | None) -> None:
        reason = "the broker closed the connection" if error is None else str(error)
        self._end(NetworkException(reason))

    def fail(self, error: KafkaError) -> None:
        """Give the connection up because of `error`."""
        self._end(error)
        self._stream.abort()

    def close(self, error: KafkaError) -> None:
        """Send what is unsent, then close; what waits for an answer fails with `error`."""
        self._end(error)
        self._stream.close()

    def _end(self, error: KafkaError) -> None:
        if not self.is_open:
            return
        self.is_open = False
        self._measured.closed()
        waiting, self._in_flight = self._in_flight, deque()
        for one in waiting:
            one.timer.cancel()
        # First the owner, so that those who are told find no connection that is gone already.
        self._on_closed(self, error)
        for one in waiting:
            tell(one.on_answer, None, error, APIS[one.api_key].name)
