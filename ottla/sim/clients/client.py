"""What all simulated clients have in common: a connection that is opened again whenever it is lost, the versions both
sides speak, and the topics as the broker tells them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from random import Random
from typing import Any

from ottla.sim.clients.link import REQUEST_TIMEOUT_MS, Link, open_link
from ottla.sim.history import History, Violation
from ottla.types import ZERO_UUID, Uuid
from ottla.wire import Message, find_api
from ottla.wire.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from ottla.wire.messages.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse
from ottla.world import NodeWorld

BACKOFF_MS = 50
BACKOFF_MS_MAX = 1_000
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
        self._link: Link | None = None
        self._versions: dict[int, tuple[int, int]] = {}
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
        """The connection, opened again if it was lost; tries until there is one."""
        backoff_ms = BACKOFF_MS
        while True:
            if self._link is not None and self._link.is_open:
                return self._link
            try:
                self._link = await open_link(self.world, *self.address, self.name, self.history.complain)
                await self._introduce(self._link)
            except OSError as error:
                self.trace(f"{self.name} has no connection: {error}")
                await self.world.tasks.sleep_ms(backoff_ms * self.chance.uniform(0.8, 1.2))
                backoff_ms = min(2 * backoff_ms, BACKOFF_MS_MAX)

    async def _introduce(self, link: Link) -> None:
        """Ask what the broker speaks, at any version, and choose one of each API."""
        version = self.chance.randint(0, find_api(18).versions.last)
        request = ApiVersionsRequest(client_software_name="ottla-sim", client_software_version="1.0")
        response: ApiVersionsResponse = await link.send(request, version)
        if response.error_code:
            raise Violation(f"{self.name}: ApiVersions v{version} is answered with error {response.error_code}")
        self._versions = {api.api_key: (api.min_version, api.max_version) for api in response.api_keys}
        self._chosen.clear()

    def version_of(self, api_key: int, *, first: int = 0) -> int:
        """The version of an API that this client speaks on this connection: any that both sides know."""
        if api_key not in self._chosen:
            offered = self._versions.get(api_key)
            if offered is None:
                raise Violation(f"{self.name}: the broker does not offer {find_api(api_key).name}")
            api = find_api(api_key)
            lowest = max(offered[0], api.versions.first, first)
            highest = min(offered[1], api.versions.last)
            self._chosen[api_key] = highest if self.chance.random() < 0.5 else self.chance.randint(lowest, highest)
        return self._chosen[api_key]

    async def ask(self, request: Message, version: int | None = None) -> Any:
        """The response to a request on the current connection; `OSError` when it is lost meanwhile."""
        link = await self.link()
        assert request.schema.api_key is not None, "a request has an API"
        chosen = self.version_of(request.schema.api_key) if version is None else version
        return await link.send(request, chosen, timeout_ms=self.request_timeout_ms)

    async def topics(self, names: list[str] | None = None) -> dict[str, Topic]:
        """The topics that exist, of those asked for; tries until there is an answer."""
        wanted = None if names is None else [MetadataRequestTopic(ZERO_UUID, name) for name in names]
        while True:
            try:
                response: MetadataResponse = await self.ask(
                    MetadataRequest(wanted, allow_auto_topic_creation=False), METADATA_VERSION
                )
            except OSError:
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
