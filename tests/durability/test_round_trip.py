"""One directory, two brokers: Ottla's directory serves a real Kafka, Kafka's serves Ottla, and back again.

The first broker stops in order and the second is killed, so that each has to recover what the other left open. One
idempotent producer stays connected throughout: that its records are taken once each shows that each broker reads
the producer state the other one kept.
"""

from __future__ import annotations

import base64
from pathlib import Path
from typing import Any

import pytest

from tests.durability.traffic import (
    KEY_COUNT,
    RECORD_COUNT,
    SETTINGS,
    TOPICS,
    LastingProducer,
    all_of,
    create_topics,
    send_everything,
)
from tests.support.kafka import run_java
from tests.support.server import Server, Settings, run_ottla

pytestmark = [pytest.mark.java, pytest.mark.timeout(300)]

STAY_COUNT = 20


def settings_of(directory: Path, *, is_dynamic: bool) -> Path:
    """A server.properties; the quorum stands in it, or (dynamic) in the metadata log."""
    settings = Settings(directory / "data")
    settings.update(SETTINGS)
    if is_dynamic:
        del settings["controller.quorum.voters"]
        settings["controller.quorum.bootstrap.servers"] = f"127.0.0.1:{settings.controller_port}"
    return settings.write(directory / "server.properties")


def expect(served: dict[str, Any], *, rounds: int, lasting: LastingProducer) -> None:
    """What was sent is there: as many records as rounds of sending make, and the lasting producer's once, in order."""
    assert sorted(served["configs"]) == sorted(TOPICS)
    assert served["configs"] == {topic: config for topic, (_, config) in TOPICS.items()}
    for topic in sorted(set(TOPICS) - {"compacted", "lasting"}):
        rows = [one["read_uncommitted"] for one in served["topics"][topic].values()]
        assert sum(map(len, rows)) == rounds * RECORD_COUNT, topic
    assert len(served["topics"]["compacted"]["last"]) == KEY_COUNT
    assert lasting.refused == []
    rows = served["topics"]["lasting"]["0"]["read_committed"]
    assert [base64.b64decode(row[4]) for row in rows] == lasting.acknowledged
    assert [row[0] for row in rows] == list(range(len(lasting.acknowledged)))


def test_kafka_starts_on_what_ottla_wrote_and_ottla_on_what_kafka_added(tmp_path: Path) -> None:
    properties = settings_of(tmp_path, is_dynamic=True)
    cluster_id = run_ottla("storage", "random-uuid").stdout.strip()
    formatted = run_ottla("storage", "format", "-t", cluster_id, "-c", properties, "--standalone")
    assert formatted.returncode == 0, formatted.stderr
    ottla, kafka = Server.ottla(properties), Server.kafka(properties)
    lasting = LastingProducer(ottla.address)
    with ottla:
        create_topics(ottla.address)
        send_everything(ottla.address, "ottla")
        lasting.send(STAY_COUNT)
        written = all_of(ottla.address)
    assert written["cluster id"] == cluster_id
    expect(written, rounds=1, lasting=lasting)
    with kafka:
        assert all_of(kafka.address) == written
        send_everything(kafka.address, "kafka")
        lasting.send(STAY_COUNT)
        added = all_of(kafka.address)
        kafka.kill()
    expect(added, rounds=2, lasting=lasting)
    with ottla:
        assert all_of(ottla.address) == added
        lasting.send(STAY_COUNT)
        expect(all_of(ottla.address), rounds=2, lasting=lasting)
    assert ottla.errors() == []


def test_ottla_starts_on_what_kafka_wrote_and_kafka_on_what_ottla_added(tmp_path: Path) -> None:
    properties = settings_of(tmp_path, is_dynamic=False)
    cluster_id = run_ottla("storage", "random-uuid").stdout.strip()
    formatted = run_java("kafka.tools.StorageTool", ["format", "-t", cluster_id, "-c", str(properties)])
    assert formatted.returncode == 0, formatted.stderr
    ottla, kafka = Server.ottla(properties), Server.kafka(properties)
    lasting = LastingProducer(kafka.address)
    with kafka:
        create_topics(kafka.address)
        send_everything(kafka.address, "kafka")
        lasting.send(STAY_COUNT)
        written = all_of(kafka.address)
    assert written["cluster id"] == cluster_id
    expect(written, rounds=1, lasting=lasting)
    with ottla:
        assert all_of(ottla.address) == written
        send_everything(ottla.address, "ottla")
        lasting.send(STAY_COUNT)
        added = all_of(ottla.address)
        ottla.kill()
    assert ottla.errors() == []
    expect(added, rounds=2, lasting=lasting)
    with kafka:
        assert all_of(kafka.address) == added
        lasting.send(STAY_COUNT)
        expect(all_of(kafka.address), rounds=2, lasting=lasting)
