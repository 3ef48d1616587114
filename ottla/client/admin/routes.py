"""Which node to ask about what: any, the controller, a named broker, a partition's leader, a coordinator.

A route answers for a list of keys at once (one Metadata request for all partitions, one FindCoordinator for all groups)
and says which errors in a response mean that the key must be looked for, or asked, again. Promises: `find` either
places a key, or says why it could not; it raises only what concerns all keys. Called by `driver`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Generic, NamedTuple, Protocol, TypeVar

from ottla.client.admin.nodes import METADATA_KEY, ClusterNodes
from ottla.client.network import Build, CoordinatorKind, Deadline, NetworkClient, Node
from ottla.client.network.coordinators import BATCHED_VERSION, FIND_COORDINATOR_KEY
from ottla.errors import (
    CoordinatorLoadInProgress,
    CoordinatorNotAvailable,
    KafkaError,
    LeaderNotAvailable,
    NetworkException,
    NotController,
    NotCoordinator,
    ThrottlingQuotaExceeded,
    UnknownTopicOrPartition,
    UnsupportedVersion,
    error_class,
)
from ottla.types import TopicPartition
from ottla.wire.messages.find_coordinator import FindCoordinatorRequest
from ottla.wire.messages.metadata import MetadataRequest, MetadataRequestTopic

K = TypeVar("K")

KNOWN_MAX = 10_000
"""How many coordinators are remembered."""


class Places(NamedTuple, Generic[K]):
    """Where each key belongs, and what kept the others from being placed."""

    nodes: dict[K, int]
    missing: dict[K, KafkaError]


class Route(Protocol[K]):
    async def find(self, keys: Sequence[K], deadline: Deadline) -> Places[K]:
        """Place the keys."""
        ...

    def is_retried(self, error: KafkaError) -> bool:
        """Whether an error in the answer for a key passes by itself, or when another node is asked."""
        ...

    def forget(self, keys: Iterable[K]) -> None:
        """These keys will be asked for again: what is remembered of their places may be wrong."""
        ...


class AnyNode(Generic[K]):
    """What every node can answer."""

    def __init__(self, network: NetworkClient, retried: tuple[type[KafkaError], ...] = ()) -> None:
        self._network = network
        self._retried = retried

    async def find(self, keys: Sequence[K], deadline: Deadline) -> Places[K]:
        return Places(dict.fromkeys(keys, self._network.least_loaded()), {})

    def is_retried(self, error: KafkaError) -> bool:
        return isinstance(error, self._retried)

    def forget(self, keys: Iterable[K]) -> None:
        pass


class Controller(Generic[K]):
    """What changes the cluster. A quota on such changes is waited for (KIP-599)."""

    def __init__(self, nodes: ClusterNodes) -> None:
        self._nodes = nodes

    async def find(self, keys: Sequence[K], deadline: Deadline) -> Places[K]:
        return Places(dict.fromkeys(keys, await self._nodes.controller(deadline)), {})

    def is_retried(self, error: KafkaError) -> bool:
        return isinstance(error, NotController | ThrottlingQuotaExceeded)

    def forget(self, keys: Iterable[K]) -> None:
        self._nodes.stale()


class NamedNode(Generic[K]):
    """What belongs to the node that the key itself names; None is any broker, or among controllers the active one."""

    def __init__(
        self,
        network: NetworkClient,
        nodes: ClusterNodes,
        node_of: Callable[[K], int | None],
        retried: tuple[type[KafkaError], ...] = (),
    ) -> None:
        self._network = network
        self._nodes = nodes
        self._node_of = node_of
        self._retried = retried

    async def find(self, keys: Sequence[K], deadline: Deadline) -> Places[K]:
        places: Places[K] = Places({}, {})
        wanted = {key: self._node_of(key) for key in keys}
        anybodys = [key for key, node_id in wanted.items() if node_id is None]
        if anybodys:
            is_active = self._nodes.speaks_to_controllers
            anybody = await self._nodes.controller(deadline) if is_active else self._network.least_loaded()
            places.nodes.update(dict.fromkeys(anybodys, anybody))
        if len(anybodys) < len(wanted):
            await self._nodes.know(deadline)
        for key, node_id in wanted.items():
            if node_id is not None and self._nodes.has(node_id):
                places.nodes[key] = node_id
            elif node_id is not None:
                places.missing[key] = NetworkException(f"Node {node_id} is not one of the live ones")
        return places

    def is_retried(self, error: KafkaError) -> bool:
        return isinstance(error, self._retried)

    def forget(self, keys: Iterable[K]) -> None:
        self._nodes.stale()


class Leaders:
    """What belongs to a partition's leader. The leaders are asked for with every attempt: nothing is remembered."""

    def __init__(self, network: NetworkClient, nodes: ClusterNodes) -> None:
        self._network = network
        self._nodes = nodes

    async def find(self, keys: Sequence[TopicPartition], deadline: Deadline) -> Places[TopicPartition]:
        topics = list(dict.fromkeys(key.topic for key in keys))

        def make(version: int) -> MetadataRequest:
            return MetadataRequest(
                topics=[MetadataRequestTopic(name=topic) for topic in topics], allow_auto_topic_creation=False
            )

        # Version 4 is the first that can be told not to create topics.
        response = await self._network.send(
            self._network.least_loaded(),
            Build(METADATA_KEY, make, version_min=4),
            timeout_ms=deadline.at_most(self._network.config.request_timeout_ms),
        )
        self._nodes.learn(response)
        errors = {topic.name: topic.error_code for topic in response.topics}
        found = {(topic.name, one.partition_index): one for topic in response.topics for one in topic.partitions}
        places: Places[TopicPartition] = Places({}, {})
        for key in keys:
            one = found.get(key)
            if one is not None and one.leader_id >= 0:
                places.nodes[key] = one.leader_id
                continue
            if one is None:
                code = errors.get(key.topic) or UnknownTopicOrPartition.code
            else:
                code = one.error_code or LeaderNotAvailable.code
            places.missing[key] = error_class(code)(f"{key}: {error_class(code).__doc__}")
        return places

    def is_retried(self, error: KafkaError) -> bool:
        return error.retriable

    def forget(self, keys: Iterable[TopicPartition]) -> None:
        pass


class CoordinatorRoute:
    """What belongs to the coordinator of a group or of a transactional id, remembered until it proves wrong."""

    def __init__(
        self, network: NetworkClient, kind: CoordinatorKind, retried: tuple[type[KafkaError], ...] = ()
    ) -> None:
        self._network = network
        self._kind = kind
        self._retried: tuple[type[KafkaError], ...] = (
            CoordinatorLoadInProgress,
            CoordinatorNotAvailable,
            NotCoordinator,
            *retried,
        )
        self._known: dict[str, int] = {}

    async def find(self, keys: Sequence[str], deadline: Deadline) -> Places[str]:
        places: Places[str] = Places({}, {})
        wanted = [key for key in keys if self._known.get(key) not in self._network.nodes]
        if wanted:
            try:
                many = Build(FIND_COORDINATOR_KEY, self._many(wanted), BATCHED_VERSION)
                await self._ask(wanted, many, places, deadline)
            except UnsupportedVersion:
                for key in wanted:
                    await self._ask([key], Build(FIND_COORDINATOR_KEY, self._one(key)), places, deadline)
        for key in keys:
            if key not in places.missing:
                places.nodes[key] = self._known[key]
        return places

    def _many(self, keys: list[str]) -> Callable[[int], FindCoordinatorRequest]:
        return lambda version: FindCoordinatorRequest(key_type=self._kind, coordinator_keys=keys)

    def _one(self, key: str) -> Callable[[int], FindCoordinatorRequest]:
        return lambda version: FindCoordinatorRequest(key_type=self._kind, key=key)

    async def _ask(self, keys: list[str], build: Build, places: Places[str], deadline: Deadline) -> None:
        response = await self._network.send(
            self._network.least_loaded(),
            build,
            timeout_ms=deadline.at_most(self._network.config.request_timeout_ms),
        )
        told = {one.key: one for one in response.coordinators} if response.coordinators else {keys[0]: response}
        for key in keys:
            one = told.get(key)
            if one is None:
                places.missing[key] = CoordinatorNotAvailable(f"The broker does not tell the coordinator of {key}")
            elif one.error_code:
                kind = error_class(one.error_code)
                places.missing[key] = kind(one.error_message or f"{key}: {kind.__doc__}")
            else:
                self._network.add_node(Node(one.node_id, one.host, one.port))
                if len(self._known) >= KNOWN_MAX:
                    self._known.clear()  # they are found again when they are asked for again
                self._known[key] = one.node_id

    def is_retried(self, error: KafkaError) -> bool:
        return isinstance(error, self._retried)

    def forget(self, keys: Iterable[str]) -> None:
        for key in keys:
            self._known.pop(key, None)
