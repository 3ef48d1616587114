"""The settings of nodes on one machine: alone, or each a member of a cluster; and the same in a hurry, for tests.

What Kafka wants three brokers for has as many replicas as there are brokers, up to three. Called by `ottla up`,
`ottla cluster up` and `Cluster`.
"""

from __future__ import annotations

from typing import NamedTuple

NODE_ID = 1
"""Of a node that is alone, and of the first of several."""
CONTROLLER_ID_FIRST = 101
"""Of nodes that are controllers only: far from those of brokers, so that a log is easy to read."""
VOTERS_MAX = 5
"""How many brokers of a cluster are its controllers too. With more a vote takes longer and no cluster is safer."""
REPLICAS_MAX = 3
WILDCARDS = ("0.0.0.0", "::", "[::]")


def alone(directory: str, host: str, port: int) -> dict[str, str]:
    """A node that keeps its data in `directory` and serves clients at `host` and `port`; port 0 chooses one.

    A wildcard address cannot be advertised: the node advertises the name of its host then.
    """
    return {
        "process.roles": "broker,controller",
        "node.id": str(NODE_ID),
        "controller.quorum.voters": f"{NODE_ID}@127.0.0.1:9093",
        "listeners": f"PLAINTEXT://{_bound(host)}:{port},CONTROLLER://127.0.0.1:0",
        "log.dirs": directory,
        **_common(broker_count=1),
    }


class Member(NamedTuple):
    """A node of a cluster, and its ports. One without a port for clients is no broker, and so on."""

    node_id: int
    client_port: int = 0
    controller_port: int = 0
    peer_port: int = 0
    """For the other brokers; without one they come to the port for clients."""

    @property
    def roles(self) -> list[str]:
        ports = {"broker": self.client_port, "controller": self.controller_port}
        return [role for role, port in ports.items() if port]


def member(own: Member, members: list[Member], directory: str, host: str) -> dict[str, str]:
    """One of the nodes of a cluster on this machine. Controllers and brokers reach each other by the loopback."""
    voters = ",".join(f"{one.node_id}@127.0.0.1:{one.controller_port}" for one in members if one.controller_port)
    listeners = []
    if own.client_port:
        listeners.append(f"PLAINTEXT://{_bound(host)}:{own.client_port}")
    if own.peer_port:
        listeners.append(f"PEERS://127.0.0.1:{own.peer_port}")
    if own.controller_port:
        listeners.append(f"CONTROLLER://127.0.0.1:{own.controller_port}")
    return {
        "process.roles": ",".join(own.roles),
        "node.id": str(own.node_id),
        "controller.quorum.voters": voters,
        "listeners": ",".join(listeners),
        "log.dirs": directory,
        **_common(broker_count=sum("broker" in one.roles for one in members)),
        **({"inter.broker.listener.name": "PEERS"} if own.peer_port else {}),
    }


def for_tests(broker_count: int) -> dict[str, str]:
    """What a test wants otherwise: it has few groups, few partitions for what they remember, and no time."""
    values = {
        "offsets.topic.num.partitions": "5",
        "transaction.state.log.num.partitions": "5",
        "share.coordinator.state.topic.num.partitions": "5",
    }
    if broker_count == 1:
        # The node is its own controller. When time is moved it must not take itself for dead.
        return {**values, "broker.session.timeout.ms": "2000000000"}
    return {
        **values,
        # A node that is killed is missed in two seconds instead of nine, and the first leader is elected at once.
        "broker.session.timeout.ms": "2000",
        "broker.heartbeat.interval.ms": "200",
        "controller.quorum.election.timeout.ms": "200",
        "controller.quorum.election.backoff.max.ms": "100",
        "controller.quorum.fetch.timeout.ms": "1000",
    }


def _bound(host: str) -> str:
    return "" if host in WILDCARDS else host


def _common(broker_count: int) -> dict[str, str]:
    """What every node of a cluster with that many brokers is set to."""
    factor = str(min(REPLICAS_MAX, broker_count))
    min_isr = str(min(REPLICAS_MAX - 1, broker_count))
    return {
        "controller.listener.names": "CONTROLLER",
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,PEERS:PLAINTEXT,CONTROLLER:PLAINTEXT",
        "default.replication.factor": factor,
        "offsets.topic.replication.factor": factor,
        "transaction.state.log.replication.factor": factor,
        "transaction.state.log.min.isr": min_isr,
        "share.coordinator.state.topic.replication.factor": factor,
        "share.coordinator.state.topic.min.isr": min_isr,
        # Kafka's default lets the first member of a classic group wait three seconds for the others of a fleet.
        "group.initial.rebalance.delay.ms": "0",
    }
