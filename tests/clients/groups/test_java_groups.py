"""Kafka's own Java clients in groups and transactions: each scenario of `GroupMatrix.java` checks itself."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.clients import new_topic
from tests.support.kafka import run_java

SOURCE = Path(__file__).parent / "GroupMatrix.java"
# One process for several: starting and compiling takes longer than most of them.
CLASSIC = ["range", "cooperative", "static", "pattern", "fenced"]
CONSUMER = ["consumer", "consumer-range", "consumer-static", "consumer-pattern", "migrate"]


@pytest.mark.java
@pytest.mark.parametrize(
    "scenarios", [CLASSIC, CONSUMER, ["transactions"]], ids=["classic", "consumer", "transactions"]
)
def test_java_clients(address: str, scenarios: list[str]) -> None:
    done = run_java(str(SOURCE), [address, new_topic("java"), *scenarios], timeout=110)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.splitlines() == [f"ok {scenario}" for scenario in scenarios]
