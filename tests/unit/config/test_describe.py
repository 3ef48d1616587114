"""DescribeConfigs and the refusals of AlterConfigs, against what a real Kafka answered (tests/golden/config)."""

from __future__ import annotations

import json
import lzma
from typing import Any

import pytest

from ottla.config import (
    BrokerConfig,
    ConfigEntry,
    DynamicConfig,
    describe_broker,
    describe_broker_defaults,
    describe_client_metrics,
    describe_group,
    describe_topic,
    validate_client_metrics,
    validate_dynamic,
    validate_group,
    validate_topic,
)
from ottla.errors import InvalidConfig, InvalidRequest
from tests.support.golden import GOLDEN

with lzma.open(GOLDEN / "config" / "describe.json.xz", "rt", encoding="utf-8") as text:
    ANSWERS: dict[str, Any] = json.load(text)

BROKER = BrokerConfig(ANSWERS["properties"])
ALTERATIONS: list[dict[str, Any]] = ANSWERS["alterations"]
SOURCES = {
    "DYNAMIC_TOPIC_CONFIG": "TOPIC",
    "DYNAMIC_BROKER_CONFIG": "DYNAMIC_BROKER",
    "DYNAMIC_DEFAULT_BROKER_CONFIG": "DYNAMIC_DEFAULT_BROKER",
    "STATIC_BROKER_CONFIG": "STATIC_BROKER",
    "DEFAULT_CONFIG": "DEFAULT",
    "DYNAMIC_GROUP_CONFIG": "GROUP",
    "DYNAMIC_CLIENT_METRICS_CONFIG": "CLIENT_METRICS",
}
SET_AT_CREATION = {
    "retention.ms": "60000",
    "cleanup.policy": "compact",
    "min.cleanable.dirty.ratio": "0.25",
    "preallocate": "true",
    "max.message.bytes": "2000",
    "leader.replication.throttled.replicas": "0:1,1:1",
    "segment.jitter.ms": "5",
}


def altered(kind: str, name: str) -> dict[str, str]:
    """What the resource's settings are after all alterations that Kafka took."""
    settings: dict[str, str] = {}
    for one in ALTERATIONS:
        if (one["type"], one["name"]) == (kind, name) and one["error"] is None:
            settings.update(one["set"])
    return settings


# A cluster formatted with this release has `min.insync.replicas` in its metadata log from the first day (KIP-966).
BEFORE = DynamicConfig(BROKER, {"min.insync.replicas": "1"})
AFTER = DynamicConfig(BROKER, {"min.insync.replicas": "1", **altered("BROKER", "")}, altered("BROKER", "1"))

DESCRIBED: dict[str, list[ConfigEntry]] = {
    "topic plain before": describe_topic({}, BEFORE),
    "broker 1 before": describe_broker(BEFORE),
    "topic plain": describe_topic(altered("TOPIC", "plain"), AFTER),
    "topic set": describe_topic(SET_AT_CREATION, AFTER),
    "broker 1": describe_broker(AFTER),
    "broker default": describe_broker_defaults(AFTER),
    "group g": describe_group(altered("GROUP", "g"), AFTER),
    "client metrics m": describe_client_metrics(altered("CLIENT_METRICS", "m")),
    "client metrics none": describe_client_metrics({}),
}


def as_kafka_shows(entry: ConfigEntry) -> dict[str, Any]:
    names = {ours: kafkas for kafkas, ours in SOURCES.items()}
    return {
        "name": entry.name,
        "value": entry.value,
        "source": names[entry.source.name],
        "type": entry.type.name,
        "sensitive": entry.is_sensitive,
        "read_only": entry.read_only,
        "synonyms": [[one.name, one.value, names[one.source.name]] for one in entry.synonyms],
    }


@pytest.mark.parametrize("resource", DESCRIBED)
def test_every_entry_is_the_one_that_kafka_answers(resource: str) -> None:
    ours = {entry.name: as_kafka_shows(entry) for entry in DESCRIBED[resource]}
    kafkas = {entry["name"]: entry for entry in ANSWERS[resource]}
    assert sorted(ours) == sorted(kafkas)
    differing = [(ours[name], kafkas[name]) for name in kafkas if ours[name] != kafkas[name]]
    assert not differing


@pytest.mark.parametrize("resource", DESCRIBED)
def test_entries_come_by_name_and_every_known_setting_is_documented(resource: str) -> None:
    entries = DESCRIBED[resource]
    assert [entry.name for entry in entries] == sorted(entry.name for entry in entries)
    unknown = {entry.name for entry in entries if entry.documentation is None}
    assert unknown <= {
        "listener.name.plaintext.max.connections",
        "listener.name.plaintext.ssl.keystore.password",
        "not.a.setting.of.kafka",
        "some.unknown.thing",
    }


def test_no_answer_holds_a_secret() -> None:
    shown = repr(list(DESCRIBED.values()))
    assert "secret-of-the-key-store" not in shown
    assert "hush" not in shown


REFUSED = [one for one in ALTERATIONS if one["error"] is not None]
# Kafka's message is its exception's text with Scala's or Java's words around it; ours is the reason alone.
OUR_WORDS = {
    "num.io.threads": "Dynamic thread count update validation failed for num.io.threads=100, "
    "value should not be greater than double the current value 8",
    "cordoned.log.dirs": "All entries in cordoned.log.dirs must be present in log.dirs or log.dir. "
    "Missing entries : /nowhere",
}


def validate(kind: str, name: str, settings: dict[str, str]) -> None:
    match kind:
        case "BROKER":
            validate_dynamic(settings, BEFORE, per_broker=bool(name))
        case "TOPIC":
            validate_topic(settings, broker=BROKER)
        case "GROUP":
            validate_group(settings, BROKER)
        case _:
            validate_client_metrics(name, settings)


@pytest.mark.parametrize("alteration", REFUSED, ids=lambda one: f"{one['type']} {one['set']}")
def test_what_kafka_refuses_is_refused_with_its_error_and_message(alteration: dict[str, Any]) -> None:
    kind, _, message = alteration["error"].partition(": ")
    expected = {"InvalidConfigurationException": InvalidConfig, "InvalidRequestException": InvalidRequest}[kind]
    with pytest.raises((InvalidConfig, InvalidRequest)) as caught:
        validate(alteration["type"], alteration["name"], alteration["set"])
    assert type(caught.value) is expected
    assert str(caught.value) == OUR_WORDS.get(next(iter(alteration["set"])), message)


TAKEN = [one for one in ALTERATIONS if one["error"] is None]


@pytest.mark.parametrize("alteration", TAKEN, ids=lambda one: f"{one['type']} {one['set']}")
def test_what_kafka_takes_is_taken(alteration: dict[str, Any]) -> None:
    validate(alteration["type"], alteration["name"], alteration["set"])
    if alteration["type"] == "BROKER":
        values = alteration["set"]
        config = DynamicConfig(BROKER, own=values) if alteration["name"] else DynamicConfig(BROKER, values)
        assert not config.ignored


def test_a_dynamic_value_takes_the_place_of_its_synonyms() -> None:
    assert BROKER.retention_ms == 24 * 3_600_000
    assert AFTER.current.retention_ms == 7_200_000
    assert AFTER.current.log_retention_hours == 168
    assert AFTER.current.log_config().retention_ms == 7_200_000


def test_a_broker_s_own_value_is_stronger_than_the_clusters() -> None:
    assert (AFTER.cluster["log.cleaner.threads"], AFTER.own["log.cleaner.threads"]) == ("3", "2")
    assert AFTER.current.log_cleaner_threads == 2
    assert AFTER.current.message_max_bytes == 3_000_000


def test_what_is_wrong_in_the_metadata_log_is_left_out_and_named() -> None:
    broker = DynamicConfig(
        BROKER, {"listeners": "PLAINTEXT://:1", "log.cleaner.threads": "2"}, {"message.max.bytes": "x", "node.id": "7"}
    )
    assert broker.current.log_cleaner_threads == 2
    assert broker.current.node_id == 1
    assert sorted(broker.ignored) == ["listeners", "message.max.bytes", "node.id"]
    assert "Not a number" in broker.ignored["message.max.bytes"]


def test_a_value_that_does_not_go_with_the_others_is_left_out_alone() -> None:
    broker = DynamicConfig(
        BROKER, {"log.cleaner.dedupe.buffer.size": "1000", "message.max.bytes": "5"}, {"log.cleaner.threads": "4"}
    )
    assert (broker.current.message_max_bytes, broker.current.log_cleaner_threads) == (5, 4)
    assert broker.cluster == {"message.max.bytes": "5"}
    assert list(broker.ignored) == ["log.cleaner.dedupe.buffer.size"]
    assert "at least 1MB" in broker.ignored["log.cleaner.dedupe.buffer.size"]


def test_a_change_is_described_anew() -> None:
    first = {entry.name: entry.value for entry in describe_topic({}, BEFORE)}
    second = {entry.name: entry.value for entry in describe_topic({}, AFTER)}
    assert (first["max.message.bytes"], second["max.message.bytes"]) == ("1048588", "3000000")


def test_a_listener_s_protocol_cannot_change_under_its_clients() -> None:
    with pytest.raises(InvalidRequest, match="Security protocol cannot be updated for existing listener CONTROLLER"):
        validate_dynamic(
            {"listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:SSL"}, BEFORE, per_broker=True
        )


def test_local_retention_is_a_part_of_the_whole() -> None:
    with pytest.raises(InvalidRequest, match=r"must not be more than log\.retention\.ms"):
        validate_dynamic({"log.local.retention.ms": "999999999999"}, BEFORE, per_broker=False)
    with pytest.raises(InvalidRequest, match="must not be -1"):
        validate_dynamic({"log.local.retention.ms": "-1"}, BEFORE, per_broker=False)


@pytest.mark.parametrize("name", ["max.connections", "max.connection.creation.rate"])
def test_no_limit_of_connections_can_become_zero(name: str) -> None:
    """Of the node or of a listener alone; a running Kafka refuses both."""
    for settings in ({name: "0"}, {f"listener.name.plaintext.{name}": "0"}):
        with pytest.raises(InvalidRequest, match=f"Invalid {name} 0"):
            validate_dynamic(settings, BEFORE, per_broker=False)
        validate_dynamic(dict.fromkeys(settings, "5"), BEFORE, per_broker=False)
