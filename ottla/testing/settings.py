"""The settings of a node that is alone: both roles, and what Kafka wants three brokers for set to one."""

from __future__ import annotations

from collections.abc import Mapping

NODE_ID = 1
WILDCARDS = ("0.0.0.0", "::", "[::]")


def alone(directory: str, host: str, port: int) -> dict[str, str]:
    """A node that keeps its data in `directory` and serves clients at `host` and `port`; port 0 chooses one.

    A wildcard address cannot be advertised: the node advertises the name of its host then.
    """
    bound = "" if host in WILDCARDS else host
    return {
        "process.roles": "broker,controller",
        "node.id": str(NODE_ID),
        "controller.quorum.voters": f"{NODE_ID}@127.0.0.1:9093",
        "controller.listener.names": "CONTROLLER",
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
        "listeners": f"PLAINTEXT://{bound}:{port},CONTROLLER://127.0.0.1:0",
        "log.dirs": directory,
        "offsets.topic.replication.factor": "1",
        "transaction.state.log.replication.factor": "1",
        "transaction.state.log.min.isr": "1",
        "share.coordinator.state.topic.replication.factor": "1",
        "share.coordinator.state.topic.min.isr": "1",
        # Kafka's default lets the first member of a classic group wait three seconds for the others of a fleet.
        "group.initial.rebalance.delay.ms": "0",
    }


def for_tests(directory: str, host: str, port: int, more: Mapping[str, str]) -> dict[str, str]:
    """The same, in a hurry: a test has few groups, and few partitions for what they remember."""
    return {
        **alone(directory, host, port),
        "offsets.topic.num.partitions": "5",
        "transaction.state.log.num.partitions": "5",
        "share.coordinator.state.topic.num.partitions": "5",
        # The node is its own controller. When time is moved it must not take itself for dead.
        "broker.session.timeout.ms": "2000000000",
        **more,
    }
