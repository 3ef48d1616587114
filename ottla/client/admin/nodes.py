"""The nodes that an admin can ask: all brokers, the controller; or with `bootstrap.controllers`, the controllers.

Nothing is asked before it is needed, and what was told is kept until `metadata.max.age.ms` or until it proves wrong.
A KRaft broker names any live broker as the controller and forwards what it is sent (KIP-590); before KRaft it named the
one controller there was. Either way what Metadata names is the node to ask. Called by `routes` and by calls that ask
every broker.
"""

from __future__ import annotations

from ottla.client.config import AdminConfig
from ottla.client.network import NO_NODE, Build, Deadline, NetworkClient, Node
from ottla.client.network.network_client import bootstrap_nodes
from ottla.errors import NetworkException, error_class
from ottla.wire.messages.metadata import MetadataRequest, MetadataResponse

METADATA_KEY = 3
DESCRIBE_CLUSTER_KEY = 60
CONTROLLERS = 2
"""The endpoint type of controllers in DescribeCluster (KIP-919)."""


class ClusterNodes:
    """What one admin knows of the cluster's nodes."""

    def __init__(self, network: NetworkClient, config: AdminConfig) -> None:
        self._network = network
        self._config = config
        self._controller = NO_NODE
        self._told_ms: int | None = None
        self.speaks_to_controllers = bool(config.bootstrap_controllers)
        if self.speaks_to_controllers:
            network.set_bootstrap(bootstrap_nodes(config.bootstrap_controllers))

    def stale(self) -> None:
        """What is known has proved wrong: ask again before it is used."""
        self._told_ms = None

    async def all(self, deadline: Deadline) -> list[int]:
        """The ids of all live brokers, or of all controllers."""
        await self.know(deadline)
        return sorted(node_id for node_id in self._network.nodes if node_id >= 0)

    async def controller(self, deadline: Deadline) -> int:
        """The node to send what changes the cluster to."""
        await self.know(deadline)
        if self.has(self._controller):
            return self._controller
        self.stale()
        if self.speaks_to_controllers:
            raise NetworkException("The controllers know of no active one among them")
        return self._network.least_loaded()

    def has(self, node_id: int) -> bool:
        """Whether that is the id of a live node, as far as is known."""
        return node_id >= 0 and node_id in self._network.nodes

    def node(self, node_id: int) -> Node:
        """The node's address as far as it is known; an id without an address is one that is not alive."""
        return self._network.nodes.get(node_id) or Node(node_id, "", -1)

    def learn(self, response: MetadataResponse) -> None:
        """A Metadata response came in for another reason."""
        if not response.brokers:
            return
        self._set({one.node_id: Node(one.node_id, one.host, one.port, one.rack) for one in response.brokers})
        self._controller = response.controller_id

    async def know(self, deadline: Deadline) -> None:
        """Ask who there is, unless it is known."""
        now_ms = self._network.world.clock.monotonic_ms()
        if self._told_ms is not None and now_ms - self._told_ms < self._config.metadata_max_age_ms:
            return
        timeout_ms = deadline.at_most(self._config.request_timeout_ms)
        if self.speaks_to_controllers:
            await self._ask_controllers(timeout_ms)
        else:
            # Version 0 takes an empty list for all topics.
            ask = Build(METADATA_KEY, lambda version: MetadataRequest(topics=[]), version_min=1)
            response = await self._network.send(self._network.least_loaded(), ask, timeout_ms=timeout_ms)
            if not response.brokers:
                raise NetworkException("The broker knows of no live broker yet")
            self.learn(response)

    async def _ask_controllers(self, timeout_ms: float) -> None:
        from ottla.wire.messages.describe_cluster import DescribeClusterRequest

        request = DescribeClusterRequest(endpoint_type=CONTROLLERS)
        ask = Build(DESCRIBE_CLUSTER_KEY, lambda version: request, version_min=1)
        response = await self._network.send(self._network.least_loaded(), ask, timeout_ms=timeout_ms)
        if response.error_code:
            raise error_class(response.error_code)(response.error_message or "")
        self._set({one.broker_id: Node(one.broker_id, one.host, one.port, one.rack) for one in response.brokers})
        self._controller = response.controller_id

    def _set(self, nodes: dict[int, Node]) -> None:
        self._network.set_nodes(nodes)
        self._told_ms = self._network.world.clock.monotonic_ms()
