"""The settings of a node against Kafka's own table, and its checks at the start against Kafka's own (tests/golden)."""

from __future__ import annotations

import json
import lzma
from typing import Any

import pytest

from ottla.config import BrokerConfig, ListenerSpec, Voter, names_without_effect, start_warnings
from ottla.config.table import Setting
from ottla.errors import InvalidConfig
from tests.support.golden import GOLDEN

FACTS: list[dict[str, Any]] = json.loads((GOLDEN / "kafka-facts" / "config-broker.json").read_text())

with lzma.open(GOLDEN / "config" / "start.json.xz", "rt", encoding="utf-8") as text:
    STARTS: list[dict[str, Any]] = json.load(text)

MINIMAL = {
    "process.roles": "broker,controller",
    "node.id": "1",
    "listeners": "PLAINTEXT://:9092,CONTROLLER://:9093",
    "controller.listener.names": "CONTROLLER",
    "controller.quorum.voters": "1@localhost:9093",
}

# Rules that the facts have as a sentence and the table as a function.
AS_FUNCTIONS = {"[1,...,9] or -1", "non-empty list"}


def test_every_setting_of_kafka_is_here_and_no_other() -> None:
    assert sorted(BrokerConfig.settings) == sorted(fact["name"] for fact in FACTS)


def test_a_setting_s_attribute_is_its_name() -> None:
    wrong = [one.attribute for one in BrokerConfig.settings.values() if one.attribute != one.name.replace(".", "_")]
    assert not wrong


def valid_in_kafkas_words(setting: Setting[Any]) -> str | None:
    """What the facts say in `valid`, made from the declaration."""
    if setting.min is not None:
        high = "" if setting.max is None else f",{setting.max}"
        return f"[{setting.min},...{high}]"
    if setting.valid is not None:
        return f"{'(case insensitive) ' if setting.ignore_case else ''}[{', '.join(setting.valid)}]"
    if setting.type.name == "STRING" and not setting.may_be_empty:
        return "non-empty string"
    return None


@pytest.mark.parametrize("fact", FACTS, ids=lambda fact: str(fact["name"]))
def test_a_declaration_is_kafkas(fact: dict[str, Any]) -> None:
    setting = BrokerConfig.settings[fact["name"]]
    default = fact["default"]
    if fact["type"] == "list" and default is not None:
        default = tuple(item for item in default.split(",") if item)
    assert setting.type.name.lower() == fact["type"]
    assert setting.required == fact["required"]
    if not fact["required"]:
        assert setting.default == default
    assert setting.importance.value == fact["importance"]
    assert setting.update.value == fact["update"]
    assert setting.internal == fact.get("internal", False)
    if fact["valid"] in AS_FUNCTIONS:
        assert setting.check is not None
    elif fact["valid"] not in (None, "", "non-null string"):
        assert valid_in_kafkas_words(setting) == fact["valid"]
    else:
        assert valid_in_kafkas_words(setting) is None
    assert setting.doc.endswith(".")


# Where our words are better, or the rule is reached in another order.
OUR_WORDS = {
    "controller.quorum.voters=Set(2)": "controller.quorum.voters=[2]",
    "controller.quorum.voters=Set(1)": "controller.quorum.voters=[1]",
    "process.roles=controller'": "process.roles=controller",
    "Class other cannot be found": "group.share.assignors must contain exactly one assignor, but found 2",
}


def spelled(listeners: list[ListenerSpec]) -> list[str]:
    return [f"{one.name}|{one.host}|{one.port}|{one.security_protocol}" for one in listeners]


def given(start: dict[str, Any]) -> str:
    return ",".join(f"{name}={value}" for name, value in start["properties"].items() if MINIMAL.get(name) != value)


REFUSED = [start for start in STARTS if start["error"]]
TAKEN = [start for start in STARTS if not start["error"]]


@pytest.mark.parametrize("start", REFUSED, ids=given)
def test_what_kafka_does_not_start_with_is_refused_with_its_words(start: dict[str, Any]) -> None:
    expected = start["error"]
    for kafkas, ours in OUR_WORDS.items():
        expected = expected.replace(kafkas, ours)
    with pytest.raises(InvalidConfig) as caught:
        BrokerConfig(start["properties"])
    assert str(caught.value) == expected
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("start", TAKEN, ids=given)
def test_what_kafka_starts_with_means_the_same_here(start: dict[str, Any]) -> None:
    config = BrokerConfig(start["properties"])
    assert spelled(config.listener_list) == start["listeners"]
    assert spelled(config.advertised_listener_list) == start["advertised"]
    assert spelled(config.advertised_controller_listener_list) == start["controllers"]
    assert config.metadata_dir == start["metadata_dir"]
    assert config.log_dir_list == start["log_dirs"]
    assert config.inter_broker_listener == start["inter_broker"]


def test_a_node_knows_its_roles_its_voters_and_its_listeners() -> None:
    config = BrokerConfig({**MINIMAL, "controller.quorum.voters": "2@b:2,1@localhost:9093"})
    assert (config.is_broker, config.is_controller) == (True, True)
    assert config.roles == {"broker", "controller"}
    assert config.quorum_voters == [Voter(1, "localhost", 9093), Voter(2, "b", 2)]
    assert [one.name for one in config.broker_listener_list] == ["PLAINTEXT"]
    assert [one.name for one in config.controller_listener_list] == ["CONTROLLER"]


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({}, 168 * 3_600_000),
        ({"log.retention.hours": "24"}, 24 * 3_600_000),
        ({"log.retention.hours": "24", "log.retention.minutes": "5"}, 300_000),
        ({"log.retention.hours": "24", "log.retention.minutes": "5", "log.retention.ms": "7"}, 7),
        ({"log.retention.hours": "-1"}, -1),
    ],
)
def test_the_finest_unit_of_retention_wins(given: dict[str, str], expected: int) -> None:
    assert BrokerConfig({**MINIMAL, **given}).log_config().retention_ms == expected


def test_the_defaults_of_topics_come_from_the_broker() -> None:
    values = {"log.roll.hours": "2", "log.roll.jitter.hours": "1", "log.flush.scheduler.interval.ms": "9"}
    defaults = BrokerConfig({**MINIMAL, **values, "message.max.bytes": "77", "log.cleanup.policy": "compact"})
    log = defaults.log_config()
    assert (log.segment_ms, log.segment_jitter_ms, log.flush_ms) == (7_200_000, 3_600_000, 9)
    assert (log.max_message_bytes, log.cleanup_policy) == (77, ("compact",))
    assert BrokerConfig({**MINIMAL, **values, "log.flush.interval.ms": "5"}).log_config().flush_ms == 5


def test_the_cleaner_gets_its_settings() -> None:
    cleaner = BrokerConfig({**MINIMAL, "log.cleaner.backoff.ms": "3", "log.cleaner.threads": "2"}).cleaner_config()
    assert (cleaner.backoff_ms, cleaner.threads, cleaner.enable) == (3, 2, True)


def test_values_may_be_what_they_mean_and_are_kept_as_text() -> None:
    config = BrokerConfig({**MINIMAL, "node.id": 1, "log.dirs": ["/a", "/b"], "auto.create.topics.enable": False})
    assert config.originals["node.id"] == "1"
    assert config.originals["broker.id"] == "1"
    assert config.originals["log.dirs"] == "/a,/b"
    assert config.originals["auto.create.topics.enable"] == "false"
    assert BrokerConfig(config.originals).log_dir_list == ["/a", "/b"]


@pytest.mark.parametrize("value", ["", "abc", "1.5"])
def test_a_node_id_that_is_no_number_is_reported_under_its_other_name(value: str) -> None:
    """Surprising, and Kafka's: `node.id` stands in for `broker.id`, and that one is read first."""
    with pytest.raises(InvalidConfig, match=f"Invalid value {value} for configuration broker.id: Not a number of type"):
        BrokerConfig({**MINIMAL, "node.id": value})


def test_a_secret_shows_in_no_text_but_its_own() -> None:
    config = BrokerConfig({**MINIMAL, "ssl.keystore.password": " hush "})
    assert config.ssl_keystore_password is not None
    assert config.ssl_keystore_password.value == "hush"
    assert "hush" not in f"{config.ssl_keystore_password} {config.ssl_keystore_password!r}"


def test_limits_for_single_addresses_are_read() -> None:
    config = BrokerConfig({**MINIMAL, "max.connections.per.ip.overrides": "127.0.0.1:5, ::1:7"})
    assert config.connections_per_ip == {"127.0.0.1": 5, "::1": 7}
    with pytest.raises(InvalidConfig, match="each entry should be host:count"):
        BrokerConfig({**MINIMAL, "max.connections.per.ip.overrides": "127.0.0.1:many"})
    with pytest.raises(InvalidConfig, match="has no ':'"):
        BrokerConfig({**MINIMAL, "max.connections.per.ip.overrides": "localhost"})


def test_what_has_no_effect_can_be_named() -> None:
    config = BrokerConfig(
        {**MINIMAL, "num.io.threads": "9", "sasl.jaas.config": "x", "my.own": "1", "listener.name.x.ssl.protocol": "y"}
    )
    assert names_without_effect(config) == (["num.io.threads", "sasl.jaas.config"], ["my.own"])


def test_a_node_with_nothing_to_say_says_nothing() -> None:
    assert start_warnings(BrokerConfig({**MINIMAL, "num.partitions": "3"})) == []


def test_what_will_not_do_what_was_meant_is_told_in_a_line_each() -> None:
    broker = {
        "process.roles": "broker",
        "listeners": "PLAINTEXT://:9092",
        "controller.listener.names": "CONTROLLER,OTHER",
        "controller.quorum.voters": "2@localhost:9093",
        "broker.heartbeat.interval.ms": "5000",
        "group.coordinator.rebalance.protocols": "classic",
        "num.partitions": "3",
        "ssl.protocol": "TLSv1.3",
        "my.own": "1",
    }
    lines = start_warnings(BrokerConfig({**MINIMAL, **broker}))
    assert [line.split(" ", 1)[0] for line in lines] == [
        "These",
        "These",
        "broker.heartbeat.interval.ms",
        "group.coordinator.rebalance.protocols",
        "controller.listener.names",
        "These",
    ]
    assert lines[0].endswith(": ssl.protocol")
    assert lines[1].endswith(": my.own")
    assert lines[-1].endswith("this node is none: num.partitions")


def test_only_ottlas_own_assignors_of_consumer_groups_can_be_named() -> None:
    kafkas = "org.apache.kafka.coordinator.group.assignor.RangeAssignor"
    config = BrokerConfig({**MINIMAL, "group.consumer.assignors": f"{kafkas},uniform"})
    assert config.group_consumer_assignors == (kafkas, "uniform")
    with pytest.raises(InvalidConfig, match=r"com\.example\.Mine for configuration group\.consumer\.assignors"):
        BrokerConfig({**MINIMAL, "group.consumer.assignors": "uniform,com.example.Mine"})
