"""A client that does not behave: garbage, half requests, requests without end and answers never read.

Nothing is asked of it but that the others do not notice, and that the broker keeps little for it.
"""

from __future__ import annotations

import struct

from ottla.sim.clients.client import Client
from ottla.sim.clients.link import open_link
from ottla.wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from ottla.wire.messages.metadata import MetadataRequest

FETCH_VERSION = 12
REQUESTS = 60


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
        link = await open_link(self.world, *self.address, self.name, lambda violation: None)
        match self.chance.randrange(5):
            case 0:
                link.send_raw(self.chance.randbytes(self.chance.randrange(1, 2_000)))
            case 1:  # the size of a request that never comes
                link.send_raw(struct.pack(">i", self.chance.choice((100, 1 << 20, 1 << 30, -1))) + b"\0\3")
            case 2:  # says nothing at all
                pass
            case 3:  # many requests, and reads no answer
                link.stop_reading()
                for _ in range(REQUESTS):
                    link.send_only(MetadataRequest(None), 9)
            case _:
                link.stop_reading()
                for _ in range(REQUESTS):
                    link.send_only(self._greedy_fetch(), FETCH_VERSION)
        await self.world.tasks.sleep_ms(self.chance.choice((10, 1_000, 10_000)))
        link.close()

    def _greedy_fetch(self) -> FetchRequest:
        partition = FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=1 << 20)
        topics = [FetchTopic(topic=name, partitions=[partition]) for name in self.topic_names]
        return FetchRequest(max_wait_ms=0, min_bytes=0, max_bytes=1 << 20, session_epoch=-1, topics=topics)
