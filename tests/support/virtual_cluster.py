"""Several brokers on the virtual network, for clients: leaders that move, brokers that vanish, answers that go missing.

Ottla's own node is a single one, so this is how clients meet a cluster in simulation. The logs are real ones of
`ottla.storage`, with its checks of producers' sequences, and shared by all brokers, as if every replica were always in
sync; a broker that does not lead answers NOT_LEADER_OR_FOLLOWER. Only what clients need of brokers is here, and a
`Meddler` may look at every request first and let it be lost, answered late, or answered with something else.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from random import Random
from typing import Any, NamedTuple

from ottla.client.network import Cluster
from ottla.errors import (
    KafkaError,
    NotLeaderOrFollower,
    OutOfOrderSequenceNumber,
    UnknownTopicOrPartition,
    UnsupportedVersion,
)
from ottla.net import FrameReader, ReceiveBuffer
from ottla.records import batches
from ottla.sim import Life, VirtualClock, VirtualDisk, VirtualLoop, VirtualNetwork
from ottla.sim.network import Host
from ottla.sim.world import VirtualNodeWorld, node_world
from ottla.storage import Isolation
from ottla.types import Buffer, TopicPartition, Uuid
from ottla.wire import APIS, Message
from ottla.wire.frames import Request, read_request, unsupported_api_versions, write_response
from ottla.wire.messages.api_versions import ApiVersion, ApiVersionsResponse, FinalizedFeatureKey
from ottla.wire.messages.fetch import (
    FetchableTopicResponse,
    FetchRequest,
    FetchResponse,
    PartitionData,
)
from ottla.wire.messages.find_coordinator import Coordinator, FindCoordinatorRequest, FindCoordinatorResponse
from ottla.wire.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from ottla.wire.messages.list_offsets import (
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)
from ottla.wire.messages.metadata import (
    MetadataRequest,
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from ottla.wire.messages.produce import (
    LeaderIdAndEpoch,
    NodeEndpoint,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceResponse,
)
from ottla.world import ClientWorld, Stream
from tests.support.logs import TestLog

PORT = 9092
LEADER_VERSION = 10
"""The first of Produce in which a refusal tells who leads now."""
SERVED = ("Produce", "Fetch", "ListOffsets", "Metadata", "FindCoordinator", "ApiVersions", "InitProducerId")


class Meddling(NamedTuple):
    """What becomes of a request."""

    is_lost: bool = False
    """It is not carried out, and neither is what comes behind it on the connection, which has fallen silent."""
    loses_answer: bool = False
    """It is carried out, and the connection breaks before the answer."""
    delay_ms: float = 0
    answer: Message | None = None
    """Answered with this, and not carried out."""


FINE = Meddling()
Meddler = Callable[["VirtualBroker", Request], Meddling]


@dataclass
class _Partition:
    log: TestLog
    leader: int
    leader_epoch: int = 0


@dataclass
class VirtualCluster:
    """Brokers 1 to n on hosts `broker1` to `brokern`, and a host `client`."""

    seed: int
    broker_count: int = 3
    versions: dict[str, tuple[int, int]] = field(default_factory=dict)
    """Where a broker is to speak fewer versions than Ottla does."""
    features: dict[str, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.loop = VirtualLoop()
        self.chance = Random(f"{self.seed} cluster")
        self.network = VirtualNetwork(self.loop, Random(f"{self.seed} network"))
        self.clock = VirtualClock()
        self.loop.attach(self.clock)
        self.topics: dict[str, tuple[Uuid, list[_Partition]]] = {}
        self.meddle: Meddler = lambda broker, request: FINE
        self.requests: list[tuple[int, str, int]] = []
        """Everything that was asked: broker, API, version."""
        self.next_producer_id = 1000
        self.first_sequences: set[int] = set()
        """What a producer that is new to a partition may begin with, beside 0."""
        self.coordinator = 1
        self.brokers = {index: VirtualBroker(self, index) for index in range(1, self.broker_count + 1)}
        self.client_host = self.network.add_host("client")
        self.client_life = Life("client")

    def client_world(self) -> ClientWorld:
        disk = VirtualDisk(Random(f"{self.seed} client disk"), self.clock)
        return node_world(
            self.network, self.client_host, self.clock, disk, self.client_life, f"{self.seed} client"
        ).as_client

    def run(self, main: Callable[[ClientWorld], Any]) -> Any:
        """Run a client's coroutine to its end, then check that it left nothing behind."""
        world = self.client_world()
        for broker in self.brokers.values():
            broker.start()
        task = self.loop.create_task(main(world), context=self.client_life.context.copy())
        try:
            return self.loop.run_until_complete(task)
        finally:
            self.client_life.end()
            for broker in self.brokers.values():
                broker.stop()
            self.loop.close()

    @property
    def bootstrap_servers(self) -> str:
        return ",".join(f"broker{index}:{PORT}" for index in self.brokers)

    # What there is

    def create_topic(self, name: str, partition_count: int = 1) -> None:
        partitions = [
            _Partition(TestLog(name=f"{name}-{index}"), 1 + index % self.broker_count)
            for index in range(partition_count)
        ]
        self.topics[name] = Uuid(self.chance.randbytes(16)), partitions

    def move_leader(self, topic: str, partition: int, to: int) -> None:
        found = self.topics[topic][1][partition]
        found.leader = to
        found.leader_epoch += 1

    def partition(self, partition: TopicPartition) -> _Partition:
        return self.topics[partition.topic][1][partition.partition]

    def name_of(self, topic: Any) -> str:
        """The name of a topic that a request names by name or by id."""
        name: str = getattr(topic, "name", "") or getattr(topic, "topic", "")
        if name:
            return name
        for known, (topic_id, _) in self.topics.items():
            if topic_id == topic.topic_id:
                return known
        return ""


class VirtualBroker:
    """One broker: `start`, `stop` (in order), `crash` (nobody is told), and start again."""

    def __init__(self, cluster: VirtualCluster, index: int) -> None:
        self.cluster = cluster
        self.index = index
        self.host: Host = cluster.network.add_host(f"broker{index}")
        self.world: VirtualNodeWorld | None = None
        self.receive_buffer = ReceiveBuffer()

    @property
    def is_running(self) -> bool:
        return self.world is not None

    def start(self) -> None:
        if self.world is not None:
            return
        cluster = self.cluster
        cluster.network.gain_power(self.host)
        disk = VirtualDisk(Random(f"{cluster.seed} {self.index}"), cluster.clock)
        life = Life(f"broker{self.index}")
        self.world = node_world(
            cluster.network, self.host, cluster.clock, disk, life, f"{cluster.seed} broker{self.index}"
        )
        self.world.network.listen("", PORT, lambda stream: _Session(self, stream))

    def stop(self) -> None:
        if self.world is not None:
            self.world.life.end()
            self.cluster.network.end_life(self.host)
            self.world = None

    def crash(self) -> None:
        """Power is gone: connections hang half open."""
        if self.world is not None:
            self.world.life.end()
            self.cluster.network.lose_power(self.host)
            self.world = None

    # Answering

    def answer(self, request: Request) -> Message | None:
        body = request.body
        match body:
            case MetadataRequest():
                return self._metadata(body)
            case ProduceRequest():
                return self._produce(body, request.version)
            case FetchRequest():
                return self._fetch(body)
            case ListOffsetsRequest():
                return self._list_offsets(body)
            case InitProducerIdRequest():
                self.cluster.next_producer_id += 1
                return InitProducerIdResponse(producer_id=self.cluster.next_producer_id, producer_epoch=0)
            case FindCoordinatorRequest():
                found = self.cluster.coordinator
                if request.version >= 4:
                    return FindCoordinatorResponse(
                        coordinators=[Coordinator(key, found, f"broker{found}", PORT) for key in body.coordinator_keys]
                    )
                return FindCoordinatorResponse(node_id=found, host=f"broker{found}", port=PORT)
        return self._api_versions(request)

    def _api_versions(self, request: Request) -> Message:
        ranges = {name: APIS_BY_NAME[name].advertised for name in SERVED}
        told = [ApiVersion(APIS_BY_NAME[name].key, *self.cluster.versions.get(name, ranges[name])) for name in SERVED]
        own = self.cluster.versions.get("ApiVersions", ranges["ApiVersions"])
        if not own[0] <= request.header.request_api_version <= own[1]:
            refusal = unsupported_api_versions()
            assert isinstance(refusal, ApiVersionsResponse)
            refusal.api_keys = [one for one in told if one.api_key == 18]
            return refusal
        return ApiVersionsResponse(
            api_keys=told,
            finalized_features_epoch=1,
            finalized_features=[
                FinalizedFeatureKey(name, level, level) for name, level in self.cluster.features.items()
            ],
        )

    def _metadata(self, request: MetadataRequest) -> MetadataResponse:
        cluster = self.cluster
        names = list(cluster.topics) if request.topics is None else [one.name or "" for one in request.topics]
        topics = []
        for name in names:
            if name not in cluster.topics:
                topics.append(MetadataResponseTopic(UnknownTopicOrPartition.code, name))
                continue
            topic_id, partitions = cluster.topics[name]
            topics.append(
                MetadataResponseTopic(
                    0, name, topic_id, False,
                    [
                        MetadataResponsePartition(
                            0, index, one.leader, one.leader_epoch, list(cluster.brokers), list(cluster.brokers), []
                        )
                        for index, one in enumerate(partitions)
                    ],
                )
            )  # fmt: skip
        return MetadataResponse(
            brokers=[
                MetadataResponseBroker(index, f"broker{index}", PORT)
                for index, broker in cluster.brokers.items()
                if broker.is_running
            ],
            cluster_id="virtual",
            controller_id=1,
            topics=topics,
        )

    def _led(self, topic: str, index: int) -> _Partition:
        if topic not in self.cluster.topics or not 0 <= index < len(self.cluster.topics[topic][1]):
            raise UnknownTopicOrPartition
        found = self.cluster.topics[topic][1][index]
        if found.leader != self.index:
            raise NotLeaderOrFollower
        return found

    def _produce(self, request: ProduceRequest, version: int) -> ProduceResponse | None:
        response = ProduceResponse()
        for topic in request.topic_data:
            name = self.cluster.name_of(topic)
            told = TopicProduceResponse(name=topic.name, topic_id=topic.topic_id)
            for one in topic.partition_data:
                answer = PartitionProduceResponse(index=one.index, base_offset=-1)
                try:
                    led = self._led(name, one.index)
                    assert one.records is not None
                    self._check_beginning(led, one.records)
                    info = led.log.log.append_as_leader(bytearray(one.records), leader_epoch=led.leader_epoch)
                    led.log.log.update_high_watermark(led.log.log.log_end_offset)
                    answer.base_offset = info.first_offset
                    answer.log_start_offset = 0
                except KafkaError as error:
                    answer.error_code = error.code
                    if isinstance(error, NotLeaderOrFollower) and version >= LEADER_VERSION:
                        now = self.cluster.topics[name][1][one.index]
                        answer.current_leader = LeaderIdAndEpoch(now.leader, now.leader_epoch)
                        response.node_endpoints = [NodeEndpoint(now.leader, f"broker{now.leader}", PORT)]
                told.partition_responses.append(answer)
            response.responses.append(told)
        return None if request.acks == 0 else response

    def _check_beginning(self, led: _Partition, records: Buffer) -> None:
        """A producer begins with its first batch.

        Kafka's brokers ask that of transactions only (KIP-890), and so let an idempotent producer's second batch in if
        the first was refused for the moment. A later loss of the second one's answer then makes for a duplicate that no
        client can prevent: not what is to be found here.
        """
        for batch in batches(memoryview(records)):
            known = led.log.log.producers.producers.get(batch.producer_id)
            is_new = known is None or known.producer_epoch != batch.producer_epoch
            if is_new and batch.base_sequence > 0 and batch.base_sequence not in self.cluster.first_sequences:
                raise OutOfOrderSequenceNumber

    def _fetch(self, request: FetchRequest) -> FetchResponse:
        response = FetchResponse()
        for topic in request.topics:
            name = self.cluster.name_of(topic)
            told = FetchableTopicResponse(topic=topic.topic, topic_id=topic.topic_id)
            for one in topic.partitions:
                data = PartitionData(partition_index=one.partition, high_watermark=-1)
                try:
                    log = self._led(name, one.partition).log.log
                    read = log.read(
                        one.fetch_offset, bytes_max=one.partition_max_bytes, isolation=Isolation.HIGH_WATERMARK
                    )
                    data.high_watermark = data.last_stable_offset = log.high_watermark
                    data.log_start_offset = log.log_start_offset
                    data.records = b"" if read.slice is None else read.slice.read()
                except KafkaError as error:
                    data.error_code = error.code
                told.partitions.append(data)
            response.responses.append(told)
        return response

    def _list_offsets(self, request: ListOffsetsRequest) -> ListOffsetsResponse:
        response = ListOffsetsResponse()
        for topic in request.topics:
            told = ListOffsetsTopicResponse(topic.name)
            for one in topic.partitions:
                answer = ListOffsetsPartitionResponse(one.partition_index)
                try:
                    led = self._led(topic.name, one.partition_index)
                    log = led.log.log
                    answer.offset = log.log_start_offset if one.timestamp == -2 else log.high_watermark
                    answer.leader_epoch = led.leader_epoch
                except KafkaError as error:
                    answer.error_code = error.code
                told.partitions.append(answer)
            response.topics.append(told)
        return response


class _Session:
    """The broker's side of a connection: requests in turn, answered in their order."""

    def __init__(self, broker: VirtualBroker, stream: Stream) -> None:
        self._broker = broker
        self._stream = stream
        self._reader = FrameReader(broker.receive_buffer, 1 << 26)
        self._is_closed = False
        self._is_silent = False
        self._is_waiting = False
        self._requests: deque[bytes] = deque()
        self._ready_ms = 0.0

    def get_buffer(self) -> memoryview:
        return self._reader.get_buffer()

    def on_received(self, count: int) -> None:
        self._reader.received(count)
        while (frame := self._reader.next_frame()) is not None:
            self._requests.append(bytes(frame))
        self._reader.keep()
        self._go_on()

    def _go_on(self) -> None:
        """One request after the other: what comes behind a fetch that waits, waits too."""
        while self._requests and not self._is_waiting:
            self._serve(self._requests.popleft())

    def _serve(self, frame: bytes) -> None:
        if self._is_silent:
            return
        broker, cluster = self._broker, self._broker.cluster
        try:
            request = read_request(frame)
        except UnsupportedVersion:
            self._stream.abort()
            return
        name = APIS[request.header.request_api_key].name
        cluster.requests.append((broker.index, name, request.header.request_api_version))
        meddling = cluster.meddle(broker, request)
        if meddling.is_lost or broker.world is None:
            self._is_silent = True
            return
        answer = meddling.answer or broker.answer(request)
        if meddling.loses_answer:
            self._stream.abort()
        elif answer is not None:
            if isinstance(answer, FetchResponse) and isinstance(request.body, FetchRequest):
                is_empty = not any(
                    one.records or one.error_code for topic in answer.responses for one in topic.partitions
                )
                if is_empty:
                    self._wait_for_data(request, broker.world.clock.monotonic_ms() + request.body.max_wait_ms)
                    return
            self._send(request, answer, meddling.delay_ms)

    def _wait_for_data(self, request: Request, until_ms: float) -> None:
        broker = self._broker
        if self._is_closed or broker.world is None:
            return
        answer = broker.answer(request)
        assert isinstance(answer, FetchResponse)
        if _has_news(answer) or broker.world.clock.monotonic_ms() >= until_ms:
            self._is_waiting = False
            self._send(request, answer, 0)
            self._go_on()
        else:
            broker.world.tasks.later(5, lambda: self._wait_for_data(request, until_ms))

    def _send(self, request: Request, answer: Message, delay_ms: float) -> None:
        is_refusal = isinstance(answer, ApiVersionsResponse) and answer.error_code
        parts = write_response(request.header.correlation_id, answer, 0 if is_refusal else request.version)
        world = self._broker.world
        assert world is not None
        now_ms = world.clock.monotonic_ms()
        # A late answer holds up those behind it, as on any connection.
        self._ready_ms = max(self._ready_ms, now_ms + delay_ms)
        data = b"".join(bytes(part) for part in parts)  # type: ignore[arg-type]  # bytes only: no files here
        if self._ready_ms > now_ms:
            world.tasks.later(self._ready_ms - now_ms, lambda: self._deliver(data))
        else:
            self._deliver(data)

    def _deliver(self, data: bytes) -> None:
        if not self._is_closed:
            self._stream.send([data])

    def on_drained(self) -> None:
        pass

    def on_closed(self, error: OSError | None) -> None:
        self._is_closed = True


def _has_news(answer: FetchResponse) -> bool:
    return any(one.records or one.error_code for topic in answer.responses for one in topic.partitions)


APIS_BY_NAME = {api.name: api for api in APIS.values()}


def leaders(cluster: Cluster, topic: str) -> list[int]:
    """Who leads each partition, as a client sees it."""
    return [info.leader for info in cluster.topics[topic].partitions.values()]


def values(cluster: VirtualCluster, topic: str) -> list[list[bytes | None]]:
    """What each partition of a topic holds."""
    from tests.support.logs import values as log_values

    return [log_values(one.log.log) for one in cluster.topics[topic][1]]


def only(apis: Iterable[tuple[int, str, int]], name: str) -> list[tuple[int, int]]:
    """Broker and version of every request of one API."""
    return [(broker, version) for broker, api, version in apis if api == name]
