"""A client that does not behave: garbage, half requests, requests without end and answers never read.

Nothing is asked of it but that the others do not notice, and that the broker keeps little for it.
"""

from __future__ import annotations

import struct

from ottla.sim.clients.client import Client
from ottla.wire import Message
from ottla.wire.frames import write_request
from ottla.wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from ottla.wire.messages.header import RequestHeader
from ottla.wire.messages.metadata import MetadataRequest
from ottla.world import Promise, Stream, StreamHandler

BUFFER_SIZE = 64 * 1024
METADATA_VERSION = 9
FETCH_VERSION = 12
REQUESTS = 60


class _Intruder:
    """Its end of a connection: whatever comes is let go."""

    def __init__(self, stream: Stream) -> None:
        self.stream = stream
        self.is_open = True
        self._buffer = memoryview(bytearray(BUFFER_SIZE))

    def get_buffer(self) -> memoryview:
        return self._buffer

    def on_received(self, count: int) -> None:
        pass

    def on_drained(self) -> None:
        pass

    def on_closed(self, error: OSError | None) -> None:
        self.is_open = False


class Stranger(Client):
    topic_names: list[str]

    async def work(self) -> None:
        while not self.is_stopping:
            try:
                await self._misbehave()
            except OSError as error:
                self.trace(f"{self.name}: {error}")
            await self.pause(self.chance.uniform(1, 40))

    async def _misbehave(self) -> None:
        intruder = await self._intrude()
        match self.chance.randrange(5):
            case 0:
                intruder.stream.send([self.chance.randbytes(self.chance.randrange(1, 2_000))])
            case 1:  # the size of a request that never comes
                size = self.chance.choice((100, 1 << 20, 1 << 30, -1))
                intruder.stream.send([struct.pack(">i", size) + b"\0\3"])
            case 2:  # says nothing at all
                pass
            case 3:  # many requests, and reads no answer
                self._flood(intruder, MetadataRequest(None), METADATA_VERSION)
            case _:
                self._flood(intruder, self._greedy_fetch(), FETCH_VERSION)
        await self.world.tasks.sleep_ms(self.chance.choice((10, 1_000, 10_000)))
        intruder.stream.close()

    async def _intrude(self) -> _Intruder:
        """A connection; `OSError` when there is none to be had."""
        told: Promise[_Intruder] = self.world.tasks.promise()

        def on_connected(result: Stream | OSError) -> StreamHandler | None:
            if isinstance(result, OSError):
                told.set_exception(result)
                return None
            intruder = _Intruder(result)
            told.set_result(intruder)
            return intruder

        self.world.network.connect(*self.address, on_connected)
        intruder: _Intruder = await told
        return intruder

    def _flood(self, intruder: _Intruder, request: Message, version: int) -> None:
        intruder.stream.pause_reading()
        assert request.schema.api_key is not None, "a request has an API"
        for index in range(REQUESTS):
            if intruder.is_open:
                header = RequestHeader(request.schema.api_key, version, index, self.name)
                intruder.stream.send([write_request(header, request)])

    def _greedy_fetch(self) -> FetchRequest:
        partition = FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=1 << 20)
        topics = [FetchTopic(topic=name, partitions=[partition]) for name in self.topic_names]
        return FetchRequest(max_wait_ms=0, min_bytes=0, max_bytes=1 << 20, session_epoch=-1, topics=topics)
