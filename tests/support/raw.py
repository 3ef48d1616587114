"""A client of one request at a time, that says exactly what the test says: to compare two brokers' answers."""

from __future__ import annotations

import itertools
import socket
from types import TracebackType
from typing import TypeVar

from ottla.types import Uuid
from ottla.wire import APIS, Message
from ottla.wire.frames import read_response, write_request
from ottla.wire.messages.create_topics import (
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from ottla.wire.messages.header import RequestHeader

TIMEOUT_S = 30.0
KEYS = {api.name: api.key for api in APIS.values()}

Answer = TypeVar("Answer", bound=Message)


class RawClient:
    """One connection. `with RawClient(port) as client: client.send(MetadataRequest(...), 12, MetadataResponse)`"""

    def __init__(
        self, port: int, *, host: str = "127.0.0.1", client_id: str = "raw", timeout_s: float = TIMEOUT_S
    ) -> None:
        self.port = port
        self._socket = socket.create_connection((host, port), timeout=timeout_s)
        self._stream = self._socket.makefile("rb")
        self._client_id = client_id
        self._numbers = itertools.count()

    def post(self, request: Message, version: int) -> int:
        """Send without reading; returns the API key, for `receive`."""
        key = KEYS[type(request).__name__.removesuffix("Request")]
        self._socket.sendall(write_request(RequestHeader(key, version, next(self._numbers), self._client_id), request))
        return key

    def receive(self, key: int, version: int, answer: type[Answer]) -> Answer:
        """The next response on this connection; `ConnectionError` when the broker has closed it."""
        size = int.from_bytes(self._stream.read(4), "big")
        if not size:
            raise ConnectionError("the broker closed the connection")
        body = read_response(self._stream.read(size), key, version, strict=True).body
        assert isinstance(body, answer), body
        return body

    def send(self, request: Message, version: int, answer: type[Answer]) -> Answer:
        return self.receive(self.post(request, version), version, answer)

    def create_topic(self, name: str, configs: dict[str, str] | None = None, *, partitions: int = 1) -> Uuid:
        """Make a topic with the default number of replicas; its id."""
        settings = [CreatableTopicConfig(key, value) for key, value in (configs or {}).items()]
        request = CreateTopicsRequest([CreatableTopic(name, partitions, -1, [], settings)], timeout_ms=10_000)
        (made,) = self.send(request, 7, CreateTopicsResponse).topics
        assert made.error_code == 0, made
        return Uuid(made.topic_id)

    def close(self) -> None:
        self._stream.close()
        self._socket.close()

    def __enter__(self) -> RawClient:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        self.close()
