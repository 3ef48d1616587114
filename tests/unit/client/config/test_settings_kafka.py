"""What Ottla's clients refuse, beside what Kafka's own refuse, on random settings."""

from __future__ import annotations

from pathlib import Path
from random import Random

import pytest

from ottla.client.config import (
    AdminConfig,
    ClientConfig,
    ConsumerConfig,
    ProducerConfig,
    ShareConsumerConfig,
    read_settings,
)
from ottla.errors import InvalidConfig
from tests.support.kafka import run_java

ORACLE = Path(__file__).parent / "ClientSettings.java"
TABLES: dict[str, type[ClientConfig]] = {
    "producer": ProducerConfig,
    "consumer": ConsumerConfig,
    "share": ShareConsumerConfig,
    "admin": AdminConfig,
}
VALUES: dict[str, dict[str, list[str]]] = {
    "producer": {
        "acks": ["all", "-1", "0", "1", "2", "ALL"],
        "batch.size": ["0", "-1", "16384", "x"],
        "compression.gzip.level": ["-1", "0", "9", "10"],
        "compression.lz4.level": ["0", "1", "17", "18"],
        "compression.type": ["zstd", "brotli", "none"],
        "compression.zstd.level": ["-131073", "22", "23"],
        "delivery.timeout.ms": ["30004", "30005", "1"],
        "enable.idempotence": ["true", "false", "yes"],
        "linger.ms": ["0", "5", "100000", "-1"],
        "max.in.flight.requests.per.connection": ["1", "5", "6", "0"],
        "metadata.max.idle.ms": ["4999", "5000"],
        "request.timeout.ms": ["1", "150000"],
        "retries": ["0", "1", "-1"],
        "transaction.timeout.ms": ["1000"],
        "transaction.two.phase.commit.enable": ["true"],
        "transactional.id": ["t"],
    },
    "consumer": {
        "auto.offset.reset": ["latest", "none", "by_duration:PT1H", "by_duration:P", "by_duration:PT-1S", "Latest"],
        "enable.auto.commit": ["true", "false"],
        "group.id": ["g", "g", "g", ""],
        "group.instance.id": ["one", "a b", ".."],
        "group.protocol": ["classic", "consumer", "CONSUMER", "share"],
        "group.remote.assignor": ["uniform"],
        "heartbeat.interval.ms": ["3000", "45000"],
        "isolation.level": ["read_committed", "READ_COMMITTED"],
        "max.poll.records": ["0", "1"],
        "partition.assignment.strategy": ["org.apache.kafka.clients.consumer.RangeAssignor"],
        "session.timeout.ms": ["3000", "6000"],
        "share.acquire.mode": ["record_limit"],
    },
    "share": {
        "auto.offset.reset": ["latest"],
        "enable.auto.commit": ["true"],
        "group.id": ["g"],
        "isolation.level": ["read_committed"],
        "max.poll.records": ["1", "0"],
        "share.acknowledgement.mode": ["explicit", "EXPLICIT", "none"],
        "share.acquire.mode": ["record_limit", "RECORD_LIMIT", "one"],
    },
    "admin": {
        "bootstrap.controllers": ["localhost:2"],
        "default.api.timeout.ms": ["10", "60000"],
        "metrics.recording.level": ["INFO", "info"],
        "request.timeout.ms": ["1", "70000"],
        "retries": ["-1", "3"],
        "security.protocol": ["PLAINTEXT", "plaintext", "NONE"],
    },
}
# Where our line says more: a part of ours, and of Kafka's.
OUR_WORDS = [
    ("heartbeat.interval.ms must be lower than session.timeout.ms", "Heartbeat must be set lower than the session"),
    ("configuration group.instance.id: it", "Group instance id is invalid"),
    ("delivery.timeout.ms should be equal to or larger", "delivery.timeout.ms should be equal to or larger"),
    ("only for a share consumer", "cannot be set when group.protocol="),
    ("CONSUMER, CLASSIC, AUTO", "CONSUMER, CLASSIC"),
    ("mode: String must be one of: implicit, explicit", "mode. The value must either be 'implicit' or 'explicit'."),
    ("cannot be set when using a share group.", "cannot be set when using a share group."),
]


def cases() -> list[tuple[str, dict[str, str]]]:
    random = Random(5)
    found = []
    for kind, values in VALUES.items():
        for _ in range(150):
            names = random.sample(sorted(values), random.randint(1, 4))
            found.append((kind, {name: random.choice(values[name]) for name in names}))
    return found


def ours(kind: str, values: dict[str, str]) -> str:
    try:
        read_settings(TABLES[kind], values, {})
    except InvalidConfig as error:
        return str(error)
    return "ok"


def agree(our: str, kafka: str) -> bool:
    return our == kafka or any(one in our and two in kafka for one, two in OUR_WORDS)


def refused_alike(kind: str, given: dict[str, str], kafka: str) -> bool:
    """Whether ours is Kafka's refusal, perhaps after others: of several reasons either names the one it meets first."""
    left = dict(given)
    while True:
        our = ours(kind, left)
        if agree(our, kafka):
            return True
        named = [name for name in left if name in our and not our.endswith(f"when {name}={left[name].upper()}")]
        if kafka == "ok" or our == "ok" or not named:
            return False
        for name in named:
            del left[name]


@pytest.mark.java
def test_what_kafkas_clients_refuse_is_refused_here_in_their_words() -> None:
    """Defaults that differ are given: Kafka's group protocol is the classic one, and a share consumer needs a group."""
    asked = []
    for kind, values in cases():
        given = {"bootstrap.servers": "localhost:1", **values}
        if kind == "consumer":
            given.setdefault("group.protocol", "classic")
        if kind == "share":
            given.setdefault("group.id", "g")
        asked.append((kind, given))
    lines = "".join(f"{kind} {';'.join(f'{n}={v}' for n, v in given.items())}\n" for kind, given in asked)
    done = run_java(str(ORACLE), [], stdin=lines)
    assert done.returncode == 0, done.stderr
    kafkas = done.stdout.splitlines()
    wrong = [
        f"{kind} {given}\n  Kafka: {kafka}\n  Ottla: {ours(kind, given)}"
        for (kind, given), kafka in zip(asked, kafkas, strict=True)
        if not refused_alike(kind, given, kafka)
    ]
    assert not wrong, "\n".join(wrong)
    assert 100 < kafkas.count("ok") < len(kafkas) - 100, "both are seen often"
