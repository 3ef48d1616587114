"""The broker that the clients talk to: Ottla, or a real Kafka when `OTTLA_TESTS_AGAINST=kafka` asks for it."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.clients import healthy_broker
from tests.support.kafka import run_java
from tests.support.server import Server, Settings

CLUSTER_ID = "MkU3OEVBNTcwNTJENDM2Qk"
SETTINGS = {
    "group.initial.rebalance.delay.ms": "0",
    "group.min.session.timeout.ms": "500",
    "group.consumer.min.session.timeout.ms": "500",
    "group.consumer.min.heartbeat.interval.ms": "100",
    "group.consumer.session.timeout.ms": "6000",
    "group.consumer.heartbeat.interval.ms": "200",
    "group.consumer.assignment.interval.ms": "0",
    "transaction.state.log.num.partitions": "5",
}


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    directory = tmp_path_factory.mktemp("broker")
    if os.environ.get("OTTLA_TESTS_AGAINST") == "kafka":
        yield from kafka(directory)
        return
    with healthy_broker(directory, SETTINGS) as running:
        yield running.address


def kafka(directory: Path) -> Iterator[str]:
    settings = Settings(directory / "data")
    settings.update(SETTINGS)
    properties = settings.write(directory / "server.properties")
    formatted = run_java("kafka.tools.StorageTool", ["format", "-t", CLUSTER_ID, "-c", str(properties)])
    assert formatted.returncode == 0, formatted.stderr
    with Server.kafka(properties) as server:
        yield server.address
