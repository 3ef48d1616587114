"""Kafka's Java producer, consumer and admin client against the broker, in one JVM: see ClientMatrix.java."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.kafka import run_java
from tests.support.nodes import NODE_COUNT, Brokers

pytestmark = pytest.mark.java
SOURCE = Path(__file__).parent.parent / "support" / "ClientMatrix.java"


def test_the_java_clients_find_nothing_unlike_kafka(broker: Brokers) -> None:
    done = run_java(str(SOURCE), [broker.address, str(NODE_COUNT)])
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.split() == ["topics", "codecs", "fields", "positions", "sizes", "settings", "cluster"]
