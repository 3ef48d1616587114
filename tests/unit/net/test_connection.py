"""The sans-io connection: by transcript, and against every cut and every damaged byte of its answers."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Any

import pytest

from ottla.errors import InternalError, KafkaError, NetworkException, UnsupportedVersion
from ottla.net import BadAnswer, Connection, ReceiveBuffer, VersionsExchange
from ottla.net.connection import Answer, InFlight
from ottla.wire import APIS, Message
from ottla.wire.frames import read_request, write_response
from ottla.wire.messages.api_versions import ApiVersion, ApiVersionsResponse
from ottla.wire.messages.list_offsets import ListOffsetsRequest
from ottla.wire.messages.metadata import MetadataRequest, MetadataResponse, MetadataResponseTopic
from tests.support.transcript import check, transcripts

KEYS = {api.name: api.key for api in APIS.values()}
FRAME_MAX = 1 << 20


def versions_response(ranges: dict[str, tuple[int, int]], error_code: int = 0) -> ApiVersionsResponse:
    return ApiVersionsResponse(
        error_code=error_code, api_keys=[ApiVersion(KEYS[name], *bounds) for name, bounds in ranges.items()]
    )


def frame(correlation_id: int, response: Message, version: int) -> bytes:
    return b"".join(bytes(part) for part in write_response(correlation_id, response, version))  # type: ignore[arg-type]


def feed(connection: Connection, data: bytes) -> None:
    buffer = connection.reader.get_buffer()
    buffer[: len(data)] = data
    connection.received(len(data))


def new_connection(*, in_flight_max: int = 5, frame_max: int = FRAME_MAX, is_strict: bool = False) -> Connection:
    return Connection(
        client_id="test",
        receive_buffer=ReceiveBuffer(hands_over=True),
        handshake=[VersionsExchange()],
        frame_max=frame_max,
        in_flight_max=in_flight_max,
        is_strict=is_strict,
    )


def send(
    connection: Connection, request: Message, version: int, *, sent_ms: float = 0, deadline_ms: float = 100
) -> int:
    made = connection.encode(request, version)
    key = request.schema.api_key
    assert key is not None
    connection.expect(InFlight(made.correlation_id, key, version, lambda *_: None, 0, deadline_ms))
    return made.correlation_id


def ready_connection(**settings: Any) -> Connection:
    connection = new_connection(**settings)
    asked = connection.advance()
    assert asked is not None
    assert send(connection, *asked) == 0
    feed(connection, frame(0, versions_response({"ApiVersions": (0, 4), "Metadata": (0, 13)}), 4))
    answer = connection.next_answer()
    assert answer is not None
    assert connection.advance(answer.response) is None
    assert connection.next_answer() is None
    assert connection.is_ready
    return connection


class Play:
    """Commands of a transcript, on one connection."""

    def __init__(self) -> None:
        self.connection = new_connection()
        self.requests: dict[str, Message] = {
            "Metadata": MetadataRequest(topics=[]),
            "ListOffsets": ListOffsetsRequest(replica_id=-1, topics=[]),
        }

    def execute(self, line: str) -> list[str]:
        verb, *words = shlex.split(line)
        try:
            return list(getattr(self, verb.replace("-", "_"))(*words))
        except KafkaError as error:
            return [f"{type(error).__name__}: {error}"]

    def connect(self, *words: str) -> list[str]:
        settings = dict(word.split("=") for word in words)
        self.connection = new_connection(in_flight_max=int(settings.get("in_flight_max", 5)))
        return self._go_on(None)

    def _go_on(self, response: Message | None) -> list[str]:
        asked = self.connection.advance(response)
        if asked is None:
            assert self.connection.versions is not None
            told = ", ".join(f"{APIS[key].name} {bounds}" for key, bounds in self.connection.versions.ranges.items())
            return [f"ready: {told}"]
        request, version = asked
        made = self.connection.encode(request, version)
        key = request.schema.api_key
        assert key is not None
        self.connection.expect(InFlight(made.correlation_id, key, version, None, 0, float("inf")))
        return [f"asks {APIS[key].name} v{version} as {made.correlation_id}"]

    def send(self, name: str, version: str, *words: str) -> list[str]:
        if self.connection.is_full:
            return ["full"]
        settings = dict(word.split("=") for word in words)
        deadline_ms = float(settings.get("by", 1000))
        return [f"sent {send(self.connection, self.requests[name], int(version), deadline_ms=deadline_ms)}"]

    def answer(self, correlation_id: str, name: str, version: str, *words: str) -> list[str]:
        """A response arrives: `answer 3 Metadata 12`, `answer 0 ApiVersions 0 error=35 ApiVersions=0-3`."""
        settings = dict(word.split("=") for word in words)
        error_code = int(settings.pop("error", 0))
        if name == "ApiVersions":
            ranges = {api: tuple(map(int, bounds.split("-"))) for api, bounds in settings.items()}
            response: Message = versions_response(ranges, error_code)  # type: ignore[arg-type]
        else:
            response = MetadataResponse(cluster_id="c")
        return self._receive(frame(int(correlation_id), response, int(version)))

    def receive(self, *hex_bytes: str) -> list[str]:
        return self._receive(bytes.fromhex("".join(hex_bytes)))

    def _receive(self, data: bytes) -> list[str]:
        feed(self.connection, data)
        said = []
        while (answer := self.connection.next_answer()) is not None:
            name = APIS[answer.request.api_key].name
            said.append(f"{name} v{answer.request.version} {answer.request.correlation_id} is answered")
            if not self.connection.is_ready:
                said += self._go_on(answer.response)
        return said or ["nothing yet"]

    def time(self, now_ms: str) -> list[str]:
        late = self.connection.overdue(float(now_ms))
        return [f"next deadline {self.connection.deadline_ms:g}, overdue {late and late.correlation_id}"]

    def end(self) -> list[str]:
        waiting = [f"{APIS[one.api_key].name} {one.correlation_id}" for one in self.connection.end()]
        return [f"not answered: {', '.join(waiting) or 'nothing'}"]


@pytest.mark.parametrize("path", transcripts("connection"), ids=lambda path: path.stem)
def test_a_connection_goes_as_the_transcript_says(path: Path, rewrite: bool) -> None:
    check(path, Play().execute, rewrite=rewrite)


# Bytes


def metadata_answers() -> tuple[Connection, bytes]:
    """A connection on which two requests wait, and the bytes of their answers."""
    connection = ready_connection()
    data = b""
    for version in (12, 0):
        correlation_id = send(connection, MetadataRequest(topics=[]), version)
        response = MetadataResponse(topics=[MetadataResponseTopic(name="a"), MetadataResponseTopic(name="b")])
        data += frame(correlation_id, response, version)
    return connection, data


def all_answers(connection: Connection) -> list[Answer]:
    found = []
    while (answer := connection.next_answer()) is not None:
        found.append(answer)
    return found


def test_answers_are_the_same_wherever_their_bytes_are_cut() -> None:
    _, data = metadata_answers()
    for cut in range(1, len(data)):
        connection, data = metadata_answers()
        found = []
        for part in (data[:cut], data[cut:]):
            feed(connection, part)
            found += all_answers(connection)
        assert [one.request.correlation_id for one in found] == [1, 2]
        assert [[topic.name for topic in one.response.topics] for one in found] == [["a", "b"]] * 2  # type: ignore[attr-defined]
        assert sum(one.size for one in found) == len(data)


def test_every_truncation_of_an_answer_is_refused_and_the_request_still_waits_for_whoever_ends_the_connection() -> None:
    _, data = metadata_answers()
    first = data[4 : 4 + int.from_bytes(data[:4], "big")]
    for size in range(len(first)):
        connection, _ = metadata_answers()
        feed(connection, size.to_bytes(4, "big") + first[:size])
        with pytest.raises(BadAnswer):
            connection.next_answer()
        assert [one.correlation_id for one in connection.end()] == [1, 2]


def test_a_changed_byte_is_refused_or_read_and_never_anything_else() -> None:
    _, data = metadata_answers()
    for position in range(len(data)):
        for change in (0x01, 0x80, 0xFF):
            connection, _ = metadata_answers()
            damaged = bytearray(data)
            damaged[position] ^= change
            feed(connection, bytes(damaged))
            try:
                found = all_answers(connection)
            except BadAnswer:
                found = []
            assert [one.request.correlation_id for one in found] == [1, 2][: len(found)]


@pytest.mark.parametrize("size", [-1, -(1 << 31), FRAME_MAX + 1, (1 << 31) - 1])
def test_a_frame_of_an_impossible_size_is_refused_before_it_has_arrived(size: int) -> None:
    connection, _ = metadata_answers()
    feed(connection, size.to_bytes(4, "big", signed=True))
    with pytest.raises(BadAnswer, match="the broker sends a frame of"):
        connection.next_answer()


def test_bytes_behind_an_answer_pass_as_in_kafka_unless_the_connection_is_strict() -> None:
    for is_strict in (False, True):
        connection = ready_connection(is_strict=is_strict)
        send(connection, MetadataRequest(topics=[]), 12)
        body = frame(1, MetadataResponse(), 12)[4:] + b"\0"
        feed(connection, len(body).to_bytes(4, "big") + body)
        if is_strict:
            with pytest.raises(BadAnswer, match="is followed by 1 bytes"):
                connection.next_answer()
        else:
            assert connection.next_answer() is not None


def test_a_codec_that_fails_is_an_internal_error_with_its_cause(monkeypatch: pytest.MonkeyPatch) -> None:
    connection, data = metadata_answers()

    def broken(*_: Any) -> Any:
        raise ZeroDivisionError("the codec has a bug")

    monkeypatch.setattr("ottla.net.connection.response_class", broken)
    feed(connection, data)
    with pytest.raises(InternalError, match="Metadata v12 could not be decoded") as caught:
        connection.next_answer()
    assert isinstance(caught.value.__cause__, ZeroDivisionError)


# Out


def test_a_request_is_sent_as_a_frame_that_a_broker_reads() -> None:
    connection = ready_connection()
    made = connection.encode(MetadataRequest(topics=[]), 12)
    data = b"".join(bytes(part) for part in made.parts)  # type: ignore[arg-type]
    assert len(data) == made.size == 4 + int.from_bytes(data[:4], "big")
    request = read_request(data[4:], strict=True)
    assert (request.header.correlation_id, request.header.client_id, request.version) == (1, "test", 12)


def test_correlation_ids_begin_again_at_zero_and_are_never_negative() -> None:
    connection = ready_connection()
    connection._next_id = 0x7FFF_FFFF
    assert send(connection, MetadataRequest(topics=[]), 12) == 0x7FFF_FFFF
    assert send(connection, MetadataRequest(topics=[]), 12) == 0


def test_a_request_that_its_version_cannot_carry_leaves_the_connection_as_it_was() -> None:
    connection = ready_connection()
    with pytest.raises(UnsupportedVersion):
        connection.encode(MetadataRequest(topics=[], include_topic_authorized_operations=True), 1)
    assert connection.in_flight_count == 0
    send(connection, MetadataRequest(topics=[]), 12)
    assert connection.in_flight_count == 1


def test_a_bad_answer_is_a_lost_connection_to_whoever_asked() -> None:
    """They may try again, on another connection."""
    assert issubclass(BadAnswer, NetworkException)
    assert BadAnswer.code == NetworkException.code
    assert BadAnswer.retriable
