"""What all simulated clients have in common: a connection that is opened again whenever it is lost, the versions both
sides speak, and the topics as the broker tells them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from random import Random
from typing import Any

from ottla.errors import KafkaError, NetworkException
from ottla.net import Link
from ottla.sim.clients.link import LOST, REQUEST_TIMEOUT_MS, Witness, at_version, new_link
from ottla.sim.history import History, Violation
from ottla.types import ZERO_UUID, Uuid
from ottla.wire import Message, find_api
from ottla.wire.messages.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse
from ottla.world import NodeWorld, Promise

BACKOFF_MS = 50
METADATA_VERSION = 12


@dataclass(frozen=True, slots=True)
class Topic:
    """A topic as the broker tells it."""

    name: str
    id: Uuid
    partition_count: int


class Client:
    """One client process. `world` is of its own host; `chance` decides what it does."""

    request_timeout_ms: float = REQUEST_TIMEOUT_MS
    """How long it waits for an answer before it gives the connection up."""

    def __init__(
        self,
        world: NodeWorld,
        chance: Random,
        name: str,
        history: History,
        *,
        address: tuple[str, int],
        trace: Callable[[str], None],
    ) -> None:
        self.world = world
        self.chance = chance
        self.name = name
        self.history = history
        self.address = address
        self.trace = trace
        self.is_stopping = False
        self.is_done = False
        self._link = new_link(world, chance, address, name, _Attendant(self))
        self._connection_changed: Promise[None] = world.tasks.promise()
        """Settled when there is a connection, or none any more."""
        self._chosen: dict[int, int] = {}

    def start(self) -> None:
        self.world.tasks.spawn(self._run(), self.name)

    async def _run(self) -> None:
        try:
            await self.work()
        except Violation as violation:
            self.history.complain(violation)
        self.trace(f"{self.name} is done")
        self.is_done = True

    async def work(self) -> None:
        raise NotImplementedError

    async def link(self) -> Link:
        """The link, when it is ready; tries until it is."""
        while not self._link.is_ready:
            self._link.connect()
            await self._connection_changed
        return self._link

    def on_connection(self) -> None:
        """There is a connection, or none any more. Everything is chosen anew for the next one."""
        self._chosen.clear()
        told, self._connection_changed = self._connection_changed, self.world.tasks.promise()
        if not told.done():
            told.set_result(None)

    def version_of(self, api_key: int, *, first: int = 0) -> int:
        """The version of an API that this client speaks on this connection: any that both sides know."""
        if api_key not in self._chosen:
            versions = self._link.versions
            assert versions is not None, "a version is chosen when the link is ready"
            offered = versions.ranges.get(api_key)
            if offered is None:
                raise Violation(f"{self.name}: the broker does not offer {find_api(api_key).name}")
            api = find_api(api_key)
            lowest = max(offered[0], api.versions.first, first)
            highest = min(offered[1], api.versions.last)
            self._chosen[api_key] = highest if self.chance.random() < 0.5 else self.chance.randint(lowest, highest)
        return self._chosen[api_key]

    async def ask(self, request: Message, version: int | None = None) -> Any:
        """The response to a request on the current connection; one of `LOST` when it is lost meanwhile."""
        link = await self.link()
        assert request.schema.api_key is not None, "a request has an API"
        chosen = self.version_of(request.schema.api_key) if version is None else version
        return await link.send(at_version(request, chosen), timeout_ms=self.request_timeout_ms)

    async def topics(self, names: list[str] | None = None) -> dict[str, Topic]:
        """The topics that exist, of those asked for; tries until there is an answer."""
        wanted = None if names is None else [MetadataRequestTopic(ZERO_UUID, name) for name in names]
        while True:
            try:
                response: MetadataResponse = await self.ask(
                    MetadataRequest(wanted, allow_auto_topic_creation=False), METADATA_VERSION
                )
            except LOST:
                await self.pause()
                continue
            return {
                topic.name: Topic(topic.name, topic.topic_id, len(topic.partitions))
                for topic in response.topics
                if topic.error_code == 0 and topic.name is not None
            }

    async def pause(self, factor: float = 1.0) -> None:
        """Wait a little before trying again."""
        await self.world.tasks.sleep_ms(BACKOFF_MS * factor * self.chance.uniform(0.8, 1.2))


class _Attendant(Witness):
    """Tells a client of its connection."""

    def __init__(self, client: Client) -> None:
        super().__init__(client.name, client.history.complain)
        self._client = client

    def ready(self) -> None:
        self._client.on_connection()

    def failed(self, error: NetworkException, reason: str) -> KafkaError:
        self._client.trace(f"{self.name} has no connection: {reason}")
        return error

    def lost(self) -> None:
        self._client.on_connection()
