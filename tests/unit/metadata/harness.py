"""A controller over a log in memory, on virtual time, with brokers that are only registrations and heartbeats.

What is appended is committed in the next turn of the loop, unless `holds_commits`; a loader follows what is committed.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from ottla.config import BrokerConfig
from ottla.metadata import SUPPORTED_FEATURES, BrokerImage, Controller, ImageLoader, bootstrap_records, random_uuid
from ottla.raft import CommittedBatch, VoterSet
from ottla.sim.world import VirtualNodeWorld, virtual_node_world
from ottla.types import Uuid
from ottla.wire import Message, decode, encode
from ottla.wire.messages.broker_heartbeat import BrokerHeartbeatRequest, BrokerHeartbeatResponse
from ottla.wire.messages.broker_registration import (
    BrokerRegistrationRequest,
    BrokerRegistrationResponse,
    Feature,
    Listener,
)
from ottla.wire.messages.describe_quorum import DescribeQuorumResponse
from ottla.wire.metadata import NoOpRecord, VersionedRecord, read_record, write_record
from ottla.world import Address, Task

CLUSTER_ID = "WdKyKKmQSAiEX4-qKEX5tw"

M = TypeVar("M", bound=Message)


def broker_config(**overrides: object) -> BrokerConfig:
    values: dict[str, object] = {
        "process.roles": "broker,controller",
        "node.id": 1,
        "controller.quorum.voters": "1@localhost:9093",
        "listeners": "PLAINTEXT://localhost:9092,CONTROLLER://localhost:9093",
        "controller.listener.names": "CONTROLLER",
        "log.dirs": "/data",
    }
    values.update({name.replace("_", "."): value for name, value in overrides.items()})
    return BrokerConfig(values)


class MemoryQuorum:
    """A quorum of one that keeps its log in memory. Records go through their bytes, as they would on disk."""

    kraft_version = 0

    def __init__(self, world: VirtualNodeWorld, voter_ids: Sequence[int] = (1,)) -> None:
        addresses = {id: Address("localhost", 9093) for id in voter_ids}
        self.voters = VoterSet.static("CONTROLLER", addresses)
        self._world = world
        self.listeners: list[Controller | ImageLoader] = []
        self.batches: list[CommittedBatch] = []
        self.committed_count = 0
        self.log_end_offset = 0
        self.holds_commits = False
        self._is_scheduled = False

    def append(self, records: Sequence[VersionedRecord]) -> int:
        read_back = [read_record(write_record(*record)) for record in records]
        base = self.log_end_offset
        self.log_end_offset += len(records)
        self.batches.append(
            CommittedBatch(base, self.log_end_offset - 1, 1, self._world.clock.now_ms(), read_back, 100)
        )
        if not self._is_scheduled:
            self._is_scheduled = True
            self._world.tasks.soon(self._commit_soon)
        return self.log_end_offset - 1

    def _commit_soon(self) -> None:
        self._is_scheduled = False
        if not self.holds_commits:
            self.commit()

    def commit(self, batch_count: int | None = None) -> None:
        """Commit the next batches, or all."""
        end = len(self.batches) if batch_count is None else self.committed_count + batch_count
        fresh = self.batches[self.committed_count : end]
        self.committed_count = end
        for listener in self.listeners:
            listener.on_commit(fresh)

    def drop_uncommitted(self) -> None:
        """What a leader that was replaced had appended, and nobody else has."""
        del self.batches[self.committed_count :]
        self.log_end_offset = self.batches[-1].end_offset if self.batches else 0

    def describe_quorum(self, version: int = 2) -> DescribeQuorumResponse:
        return DescribeQuorumResponse()

    @property
    def records(self) -> list[VersionedRecord]:
        return [record for batch in self.batches for record in batch.records]


class Hosts:
    """The hosts of brokers, as the controller asks them: those in `refusing` say that nobody listens there."""

    def __init__(self, world: VirtualNodeWorld) -> None:
        self._world = world
        self.refusing: set[int] = set()
        self.answer_ms = 0.0
        """How long an answer takes."""
        self.asked: list[tuple[int, int]] = []
        """When (monotonic), and about whom."""

    def ask(self, broker: BrokerImage, on_refused: Callable[[], object]) -> None:
        self.asked.append((self._world.clock.monotonic_ms(), broker.id))
        if broker.id in self.refusing:
            self._world.tasks.later(self.answer_ms, on_refused)


class Carrier:
    """A broker's connection to the controller."""

    def __init__(self) -> None:
        self.is_closed = False
        self._calls: list[Callable[[], object]] = []

    def when_closed(self, call: Callable[[], object], /) -> None:
        self._calls.append(call)

    def close(self) -> None:
        self.is_closed = True
        for call in self._calls:
            call()


class Cluster:
    """A controller that has taken over an empty log."""

    def __init__(
        self, *, seed: int = 1, bootstrap: Sequence[VersionedRecord] | None = None, **overrides: object
    ) -> None:
        self.world = virtual_node_world(seed)
        self.quorum = MemoryQuorum(self.world)
        self.config = broker_config(**overrides)
        records = bootstrap_records() if bootstrap is None else bootstrap
        self.hosts = Hosts(self.world)
        self.carriers: dict[int, Carrier] = {}
        """What each broker's heartbeats come over."""
        self.controller = Controller(
            self.world, self.quorum, self.config, cluster_id=CLUSTER_ID, bootstrap=records, probes=self.hosts
        )
        self.loader = ImageLoader(CLUSTER_ID)
        self.quorum.listeners = [self.controller, self.loader]
        self.directories: dict[int, Uuid] = {}
        self.epochs: dict[int, int] = {}
        self.waiting: Any = None
        """A request whose answer nobody waits for yet."""
        self.controller.on_leader(1)
        self.settle()

    def close(self) -> None:
        self.world.life.end()
        self.world.loop.close()

    def settle(self) -> None:
        """Until everything that was appended is committed, without time passing."""
        quorum = self.quorum
        self.world.loop.run_until(lambda: quorum.committed_count == len(quorum.batches))

    def pass_ms(self, milliseconds: float) -> None:
        passed = self.world.loop.create_future()
        self.world.tasks.later(milliseconds, lambda: passed.set_result(None))
        self.world.loop.run_until_complete(passed)
        if not self.quorum.holds_commits:
            self.settle()

    def ask(self, request: Message, response: type[M], *, version: int | None = None) -> M:
        """The controller's answer. Both go through their bytes: what a version cannot carry, it does not get."""
        number = request.schema.versions.last if version is None else version
        asked = decode(type(request), number, encode(request, number))
        answer = self.world.loop.run_until_complete(self.controller.handle(asked, version=number))
        return decode(response, number, encode(answer, number))

    def fresh_records(self, start: int) -> list[VersionedRecord]:
        """What was appended since the log had `start` records, without what the clock writes."""
        return [record for record in self.quorum.records[start:] if not isinstance(record.record, NoOpRecord)]

    # Leadership

    def begin(self, request: Message) -> Task[Message]:
        """Ask, and do not wait for the answer."""
        version = request.schema.versions.last
        task = self.world.loop.create_task(self.controller.handle(request, version=version))
        self.world.loop.run_until_complete(self.world.tasks.sleep_ms(0))
        return task

    def fail_over(self) -> None:
        """This controller loses its leadership with what is not committed, and gets it back."""
        self.controller.on_resign()
        self.quorum.drop_uncommitted()
        self.quorum.holds_commits = False
        self.controller.on_leader(2)
        self.settle()

    # Brokers

    def register(
        self,
        broker_id: int,
        *,
        rack: str | None = None,
        incarnation_id: Uuid | None = None,
        previous_epoch: int = -1,
        features: dict[str, tuple[int, int]] | None = None,
        log_dirs: list[Uuid] | None = None,
        cluster_id: str = CLUSTER_ID,
    ) -> BrokerRegistrationResponse:
        directory = self.directories.setdefault(broker_id, random_uuid(self.world))
        supported = SUPPORTED_FEATURES if features is None else features
        request = BrokerRegistrationRequest(
            broker_id=broker_id,
            cluster_id=cluster_id,
            incarnation_id=random_uuid(self.world) if incarnation_id is None else incarnation_id,
            listeners=[Listener("PLAINTEXT", "localhost", 9092 + broker_id, 0)],
            features=[Feature(name, low, high) for name, (low, high) in supported.items()],
            rack=rack,
            log_dirs=[directory] if log_dirs is None else log_dirs,
            previous_broker_epoch=previous_epoch,
        )
        response = self.ask(request, BrokerRegistrationResponse)
        self.epochs[broker_id] = response.broker_epoch
        return response

    def heartbeat(
        self,
        broker_id: int,
        *,
        offset: int | None = None,
        want_fence: bool = False,
        want_shut_down: bool = False,
        offline: list[Uuid] | None = None,
        cordoned: list[Uuid] | None = None,
        epoch: int | None = None,
    ) -> BrokerHeartbeatResponse:
        request = BrokerHeartbeatRequest(
            broker_id=broker_id,
            broker_epoch=self.epochs[broker_id] if epoch is None else epoch,
            current_metadata_offset=self.loader.image.offset if offset is None else offset,
            want_fence=want_fence,
            want_shut_down=want_shut_down,
            offline_log_dirs=offline or [],
            cordoned_log_dirs=cordoned,
        )
        response = self.ask(request, BrokerHeartbeatResponse)
        carrier = self.carriers.setdefault(broker_id, Carrier())
        self.controller.heard_over(broker_id, request.broker_epoch, carrier)
        return response

    def disconnect(self, broker_id: int) -> None:
        """The connection closes that the broker's heartbeats came over."""
        self.carriers.pop(broker_id).close()

    def add_broker(self, broker_id: int, *, rack: str | None = None) -> None:
        """Register a broker and unfence it."""
        self.register(broker_id, rack=rack)
        assert not self.heartbeat(broker_id).is_fenced
