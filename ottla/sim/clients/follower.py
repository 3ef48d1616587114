"""A second broker as the node sees it: registered, alive by heartbeats, and copying what the node leads.

It makes a high watermark that lags: what it has not fetched yet, no consumer may be shown. It keeps no log of its own
and never leads; where it has come is all that matters of it.
"""

from __future__ import annotations

from typing import Any

from ottla.errors import error_class
from ottla.metadata import SUPPORTED_FEATURES
from ottla.records import batches
from ottla.sim.clients.client import Client, Topic
from ottla.sim.clients.link import LOST, Witness, at_version, new_link
from ottla.sim.history import PartitionHistory, Violation
from ottla.types import Uuid
from ottla.wire.messages.broker_heartbeat import BrokerHeartbeatRequest, BrokerHeartbeatResponse
from ottla.wire.messages.broker_registration import (
    BrokerRegistrationRequest,
    BrokerRegistrationResponse,
    Feature,
    Listener,
)
from ottla.wire.messages.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic, ReplicaState
from ottla.wire.messages.metadata import MetadataRequest, MetadataResponse

BROKER_ID = 2
CONTROLLER_PORT = 9093
REGISTRATION_VERSION = 4
HEARTBEAT_VERSION = 1
METADATA_VERSION = 12
FETCH_VERSION = 17
HEARTBEAT_MS = 500
LAG_MS = (0, 0, 20, 300, 1_500)
"""How long it may wait between two fetches; less than what would put it out of sync."""


class Follower(Client):
    """Broker 2. `is_ready` once the controller lets it serve; `topic` is then what it follows."""

    topic: Topic | None = None
    is_ready = False

    async def work(self) -> None:
        self._epoch = -1
        witness = Witness(self.name, self.history.complain)
        self._controller = new_link(self.world, self.chance, (self.address[0], CONTROLLER_PORT), self.name, witness)
        await self._register()
        self.world.tasks.spawn(self._keep_beating(), f"{self.name} heartbeats")
        positions: dict[int, int] = {}
        while not self.is_stopping:
            if self.topic is None:
                await self.pause()
                continue
            try:
                await self._fetch(self.topic, positions)
            except LOST as error:
                self.trace(f"{self.name}: {error}")
                await self.pause()
            await self.world.tasks.sleep_ms(self.chance.choice(LAG_MS))

    async def _register(self) -> None:
        metadata: MetadataResponse = await self.ask(MetadataRequest([]), METADATA_VERSION)
        request = BrokerRegistrationRequest(
            broker_id=BROKER_ID,
            cluster_id=metadata.cluster_id or "",
            incarnation_id=Uuid(self.chance.randbytes(16)),
            listeners=[Listener("PLAINTEXT", self.name, 9092, 0)],
            features=[Feature(name, low, high) for name, (low, high) in sorted(SUPPORTED_FEATURES.items())],
            log_dirs=[Uuid(self.chance.randbytes(16))],
            previous_broker_epoch=-1,
        )
        response: BrokerRegistrationResponse = await self._ask_controller(request, REGISTRATION_VERSION)
        if response.error_code:
            raise Violation(f"{self.name} is not registered: {error_class(response.error_code).name}")
        self._epoch = response.broker_epoch

    async def _ask_controller(self, request: Any, version: int) -> Any:
        """The controller's answer; asks until there is one."""
        while True:
            try:
                return await self._controller.send(at_version(request, version), timeout_ms=self.request_timeout_ms)
            except LOST:
                await self.pause()

    async def _keep_beating(self) -> None:
        while not self.is_done:
            response: BrokerHeartbeatResponse = await self._ask_controller(
                BrokerHeartbeatRequest(
                    broker_id=BROKER_ID, broker_epoch=self._epoch, current_metadata_offset=self._epoch
                ),
                HEARTBEAT_VERSION,
            )
            if response.error_code == 0 and not response.is_fenced:
                self.is_ready = True
            await self.world.tasks.sleep_ms(HEARTBEAT_MS)

    async def _fetch(self, topic: Topic, positions: dict[int, int]) -> None:
        asked = []
        for index in range(topic.partition_count):
            history = self.history.partition(topic.name, topic.id, index)
            offset = positions.setdefault(index, 0)
            history.replicated_to = max(history.replicated_to or 0, offset)
            asked.append(FetchPartition(partition=index, fetch_offset=offset, partition_max_bytes=1 << 16))
        request = FetchRequest(
            replica_state=ReplicaState(BROKER_ID, self._epoch),
            max_wait_ms=100,
            min_bytes=1,
            max_bytes=1 << 20,
            topics=[FetchTopic(topic.name, topic.id, asked)],
        )
        response: FetchResponse = await self.ask(request, FETCH_VERSION)
        if response.error_code:
            raise Violation(f"{self.name}: Fetch is answered with {error_class(response.error_code).name}")
        for one in response.responses:
            for partition in one.partitions:
                history = self.history.partition(topic.name, topic.id, partition.partition_index)
                self._copy(history, partition, positions)

    def _copy(self, history: PartitionHistory, partition: Any, positions: dict[int, int]) -> None:
        if partition.error_code:
            error = error_class(partition.error_code)
            self.trace(f"{self.name}: {history} answers {error.name}")
            if not error.retriable:
                raise Violation(f"{self.name}: {history} answers {error.name} to its follower")
            return
        for batch in batches(memoryview(partition.records or b"")):
            if batch.base_offset != positions[history.index]:
                raise Violation(
                    f"{self.name} is given offset {batch.base_offset} of {history} and wants {positions[history.index]}"
                )
            positions[history.index] = batch.next_offset
