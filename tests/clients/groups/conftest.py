"""The broker that the clients talk to: Ottla, or a real Kafka when `OTTLA_TESTS_AGAINST=kafka` asks for it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.support.clients import healthy_broker
from tests.support.nodes import KIND, running

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
    if KIND == "kafka":
        with running(KIND, directory, SETTINGS) as kafka:
            yield kafka.address
        return
    with healthy_broker(directory, SETTINGS) as started:
        yield started.address
