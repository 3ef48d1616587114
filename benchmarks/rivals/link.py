"""A bare connection to a broker: requests go out, answers come back in order. For loads that librdkafka cannot make.

Thousands of group members in one process are too many for librdkafka, which has threads for each; here a member is a
coroutine and a socket, and the client stays far cheaper than the broker it loads.
"""

from __future__ import annotations

import asyncio
from collections import deque
from typing import TypeVar

from ottla.wire import Message
from ottla.wire.frames import read_response, write_request
from ottla.wire.messages.header import RequestHeader

M = TypeVar("M", bound=Message)


class Link(asyncio.Protocol):
    """`link = await Link.open(address)`, then `await link.ask(request, version, ResponseClass)`."""

    def __init__(self) -> None:
        self._transport: asyncio.Transport | None = None
        self._data = bytearray()
        self._waiting: deque[tuple[int, int, asyncio.Future[Message]]] = deque()
        self._count = 0

    @classmethod
    async def open(cls, address: str) -> Link:
        host, _, port = address.rpartition(":")
        _, link = await asyncio.get_running_loop().create_connection(cls, host, int(port))
        return link

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def connection_lost(self, exc: Exception | None) -> None:
        for *_, future in self._waiting:
            if not future.done():
                future.set_exception(ConnectionError("the broker has closed the connection"))

    def data_received(self, data: bytes) -> None:
        self._data += data
        while len(self._data) >= 4:
            size = int.from_bytes(self._data[:4], "big")
            if len(self._data) < 4 + size:
                return
            frame = bytes(self._data[4 : 4 + size])
            del self._data[: 4 + size]
            api_key, version, future = self._waiting.popleft()
            if not future.done():
                future.set_result(read_response(frame, api_key, version).body)

    async def ask(self, request: Message, version: int, answer: type[M]) -> M:
        assert self._transport is not None, "not open"
        api_key = request.schema.api_key
        assert api_key is not None, f"{request.schema.name} is no request"
        self._count += 1
        future: asyncio.Future[Message] = asyncio.get_running_loop().create_future()
        self._waiting.append((api_key, version, future))
        self._transport.write(write_request(RequestHeader(api_key, version, self._count, "bench"), request))
        response = await future
        assert isinstance(response, answer), response
        return response

    def close(self) -> None:
        if self._transport is not None:
            self._transport.close()
