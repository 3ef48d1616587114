"""The broker's settings are what raft asks for, under the same names and with the same defaults."""

from __future__ import annotations

from ottla.config import BrokerConfig
from ottla.raft import RaftConfig, RaftSettings


def test_the_brokers_settings_serve_raft_with_the_same_defaults() -> None:
    settings: RaftSettings = BrokerConfig(
        {
            "process.roles": "broker,controller",
            "node.id": "1",
            "listeners": "PLAINTEXT://:9092,CONTROLLER://:9093",
            "controller.listener.names": "CONTROLLER",
            "controller.quorum.voters": "1@localhost:9093",
        }
    )
    for name, default in RaftConfig()._asdict().items():
        assert getattr(settings, name) == default, name
