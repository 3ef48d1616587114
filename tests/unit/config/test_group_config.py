"""The settings of groups, subscriptions and topics: the facts, and the rules that need several settings."""

from __future__ import annotations

import json
from typing import Any

import pytest

from ottla.config import BrokerConfig, GroupConfig, parse_match, validate_group, validate_topic
from ottla.errors import InvalidConfig
from tests.support.golden import GOLDEN
from tests.unit.config.test_broker_config import MINIMAL

FACTS: list[dict[str, Any]] = json.loads((GOLDEN / "kafka-facts" / "config-group.json").read_text())
TIERED = BrokerConfig({**MINIMAL, "remote.log.storage.system.enable": "true"})


def test_every_group_setting_of_kafka_is_here_and_no_other() -> None:
    assert sorted(GroupConfig.settings) == sorted(fact["name"] for fact in FACTS)


@pytest.mark.parametrize("fact", FACTS, ids=lambda fact: str(fact["name"]))
def test_a_declaration_is_kafkas(fact: dict[str, Any]) -> None:
    setting = GroupConfig.settings[fact["name"]]
    assert setting.type.name.lower() == fact["type"]
    assert setting.default == fact["default"]
    assert setting.importance.value == fact["importance"]
    if (fact["valid"] or "").endswith(",...]"):
        assert f"[{setting.min},...]" == fact["valid"]


def test_a_group_falls_back_to_the_broker() -> None:
    broker = BrokerConfig({**MINIMAL, "group.consumer.session.timeout.ms": "50000"})
    assert GroupConfig.of({}, broker).consumer_session_timeout_ms == 50_000
    assert GroupConfig.of({"consumer.session.timeout.ms": "46000"}, broker).consumer_session_timeout_ms == 46_000


def test_a_session_must_outlast_a_heartbeat() -> None:
    broker = BrokerConfig({**MINIMAL, "group.consumer.min.session.timeout.ms": "6000"})
    overrides = {"consumer.session.timeout.ms": "7000", "consumer.heartbeat.interval.ms": "7000"}
    with pytest.raises(InvalidConfig, match=r"session\.timeout\.ms must be greater than consumer\.heartbeat"):
        validate_group(overrides, broker)


@pytest.mark.parametrize("duration", ["P1D", "PT5M", "p1dt2h", "PT0.5S", "PT-1M120S", "P0D"])
def test_a_share_group_may_begin_a_while_back(duration: str) -> None:
    validate_group({"share.auto.offset.reset": f"by_duration:{duration}"}, TIERED)


@pytest.mark.parametrize("duration", ["", "P", "PT", "P1DT", "1D", "-P1D", "PT-1S", "PT-0.5S", "P1Y", "PT1.1H"])
def test_what_java_does_not_read_as_a_while_is_refused(duration: str) -> None:
    with pytest.raises(InvalidConfig, match="must be either 'earliest', 'latest'"):
        validate_group({"share.auto.offset.reset": f"by_duration:{duration}"}, TIERED)


def test_a_value_must_be_there() -> None:
    with pytest.raises(InvalidConfig, match=r"Null value not supported for topic configs: retention\.ms"):
        validate_topic({"retention.ms": None})
    with pytest.raises(InvalidConfig, match="Null value not supported for group configs"):
        validate_group({"share.isolation.level": None}, TIERED)


def test_clients_are_matched_by_pattern() -> None:
    patterns = parse_match(("client_id=app-.*", "client_software_name = ottla"))
    assert sorted(patterns) == ["client_id", "client_software_name"]
    assert patterns["client_id"].fullmatch("app-7")
    with pytest.raises(InvalidConfig, match="Illegal client matching pattern: client_id"):
        parse_match(("client_id",))


REMOTE = {"remote.storage.enable": "true"}


def test_a_topic_of_a_tiered_cluster_may_have_a_remote_tier() -> None:
    validate_topic({**REMOTE, "retention.ms": "1000", "local.retention.ms": "1000"}, broker=TIERED)
    validate_topic({**REMOTE, "cleanup.policy": ""}, broker=TIERED)


@pytest.mark.parametrize(
    ("overrides", "complaint"),
    [
        ({"cleanup.policy": "compact"}, "only supports topics with cleanup.policy=delete"),
        ({"retention.ms": "1000", "local.retention.ms": "1001"}, "must not be more than retention.ms"),
        ({"retention.bytes": "1000", "local.retention.bytes": "-1"}, "must not be -1 as retention.bytes"),
        ({"remote.log.copy.disable": "true", "retention.ms": "9", "local.retention.ms": "5"}, "identical value"),
    ],
)
def test_a_remote_tier_has_rules(overrides: dict[str, str], complaint: str) -> None:
    with pytest.raises(InvalidConfig, match=complaint):
        validate_topic({**REMOTE, **overrides}, broker=TIERED)


def test_a_topic_leaves_the_remote_tier_only_with_a_word_about_what_is_there() -> None:
    with pytest.raises(InvalidConfig, match="without deleting remote data"):
        validate_topic({"remote.storage.enable": "false"}, broker=TIERED, existing=REMOTE)
    validate_topic({"remote.log.delete.on.disable": "true"}, broker=TIERED, existing=REMOTE)
