"""`FakeCluster`: a cluster that is only a few tables, for tests that need what an admin answers and not a broker.

It answers the same requests as a broker does, so that everything in an admin but its connections is the real thing:
the rules and the errors are Kafka's, the defaults of settings are read from the tables that the broker itself has.
What it does not play raises `UnsupportedVersion`, as with an old broker. A test puts in what no admin can make:
records (`put_records`) and groups (`put_group`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any

from ottla.client.admin.fake.state import FakeGroup, FakeMember, FakePartition, FakeTopic
from ottla.client.admin.groups import CONSUMER_PROTOCOL, GroupType
from ottla.client.group import OffsetAndMetadata
from ottla.client.network import Node
from ottla.errors import KafkaError, UnknownTopicOrPartition, UnsupportedVersion
from ottla.types import TopicPartition, Uuid
from ottla.wire import APIS, Message, Versions
from ottla.wire.messages.describe_cluster import (
    DescribeClusterBroker,
    DescribeClusterRequest,
    DescribeClusterResponse,
)
from ottla.wire.messages.find_coordinator import Coordinator, FindCoordinatorRequest, FindCoordinatorResponse

if TYPE_CHECKING:
    from ottla.config import DynamicConfig

Handler = Callable[["FakeCluster", int, Any], Message]

PORT = 9092
CLUSTER_ID = "fakefakefakefakefakefg"
KIND_BROKER, KIND_TOPIC = 4, 2


class FakeCluster:
    """The state of a cluster; several fake admins may share one."""

    def __init__(self, brokers: int = 1, *, settings: Mapping[str, str] | None = None) -> None:
        """`settings` are what every broker has in its file, such as `num.partitions`."""
        assert brokers > 0, "a cluster has brokers"
        self.cluster_id = CLUSTER_ID
        self.nodes = {index: Node(index, f"broker-{index}", PORT) for index in range(1, brokers + 1)}
        self.topics: dict[str, FakeTopic] = {}
        self.groups: dict[str, FakeGroup] = {}
        self.configs: dict[tuple[int, str], dict[str, str]] = {}
        """What was set, by type and name of the resource."""
        self._static = dict(settings or {})
        self._made = 0
        self._brokers: dict[int, tuple[tuple[dict[str, str], dict[str, str]], DynamicConfig]] = {}
        """The settings of each broker, and what of them was set: made anew when that has changed."""

    # What a test puts in

    def put_records(self, partition: TopicPartition, count: int = 1, *, timestamp_ms: int = 0) -> int:
        """Append records of a timestamp to a partition; where it ends now."""
        held = self.partition(partition)
        held.timestamps.extend([timestamp_ms] * count)
        return held.end_offset

    def put_group(
        self,
        group_id: str,
        members: Iterable[FakeMember] = (),
        *,
        offsets: Mapping[TopicPartition, OffsetAndMetadata | int] | None = None,
        type: GroupType = GroupType.CLASSIC,
        assignor: str = "range",
    ) -> FakeGroup:
        """A group of consumers as it stands, in the place of one of that name."""
        group = FakeGroup(group_id, type, CONSUMER_PROTOCOL, assignor, list(members))
        for key, offset in (offsets or {}).items():
            group.offsets[key] = OffsetAndMetadata(offset) if isinstance(offset, int) else offset
        self.groups[group_id] = group
        return group

    # What its parts ask

    def partition(self, partition: TopicPartition) -> FakePartition:
        """`UnknownTopicOrPartition` when it is not there."""
        topic = self.topics.get(partition.topic)
        if topic is None or not 0 <= partition.partition < len(topic.partitions):
            raise UnknownTopicOrPartition(f"{partition}: {UnknownTopicOrPartition.__doc__}")
        return topic.partitions[partition.partition]

    def next_id(self) -> Uuid:
        """An id that no topic has had."""
        self._made += 1
        return Uuid(self._made.to_bytes(8, "big") + b"fake-id\0")

    def broker_config(self, node_id: int = 1) -> DynamicConfig:
        """A broker's settings: its file, and what was set for all brokers and for this one."""
        from ottla.config import BrokerConfig, DynamicConfig

        dynamic = dict(self.configs.get((KIND_BROKER, ""), {})), dict(self.configs.get((KIND_BROKER, str(node_id)), {}))
        known = self._brokers.get(node_id)
        if known is not None and known[0] == dynamic:
            return known[1]
        node = self.nodes[node_id]
        static = {
            "process.roles": "broker",
            "node.id": str(node_id),
            "controller.quorum.voters": "1000@controller:9093",
            "controller.listener.names": "CONTROLLER",
            "listeners": f"PLAINTEXT://{node.host}:{node.port}",
            "log.dirs": self.log_dir(node_id),
            **self._static,
        }
        made = DynamicConfig(BrokerConfig(static), *dynamic)
        self._brokers[node_id] = dynamic, made
        return made

    def log_dir(self, node_id: int) -> str:
        return f"/var/lib/fake/broker-{node_id}"

    # Answering

    def versions(self, api_key: int) -> Versions:
        """Which versions of an API its brokers speak: those that this client knows."""
        return APIS[api_key].advertised

    def answer(self, node_id: int, request: Message) -> Message:
        """What the broker says to a request; raises what keeps it from saying anything."""
        key = request.schema.api_key
        assert key is not None, "a request has an API"
        handler = _handlers().get(key)
        if handler is None:
            raise UnsupportedVersion(f"FakeAdmin does not play {APIS[key].name}: use a broker, such as ottla.testing's")
        return handler(self, node_id, request)


def refusal(error: KafkaError) -> tuple[int, str]:
    """Code and message of an error, as responses have them."""
    return error.code, error.message


def _describe_cluster(cluster: FakeCluster, node_id: int, request: DescribeClusterRequest) -> DescribeClusterResponse:
    return DescribeClusterResponse(
        cluster_id=cluster.cluster_id,
        controller_id=min(cluster.nodes),
        brokers=[
            DescribeClusterBroker(broker_id=node.node_id, host=node.host, port=node.port, rack=node.rack)
            for node in cluster.nodes.values()
        ],
    )


def _find_coordinator(cluster: FakeCluster, node_id: int, request: FindCoordinatorRequest) -> FindCoordinatorResponse:
    ids = sorted(cluster.nodes)
    coordinators = []
    for key in request.coordinator_keys:
        node = cluster.nodes[ids[sum(key.encode()) % len(ids)]]
        coordinators.append(Coordinator(key=key, node_id=node.node_id, host=node.host, port=node.port))
    return FindCoordinatorResponse(coordinators=coordinators)


_HANDLERS: dict[int, Handler] = {}


def _handlers() -> dict[int, Handler]:
    """By API key; the parts are loaded with the first request."""
    if not _HANDLERS:
        from ottla.client.admin.fake import configs, groups, offsets, topics

        for part in (topics.HANDLERS, configs.HANDLERS, offsets.HANDLERS, groups.HANDLERS):
            _HANDLERS.update(part)
        _HANDLERS[60] = _describe_cluster
        _HANDLERS[10] = _find_coordinator
    return _HANDLERS
