"""From what a person writes to a table: names and keywords, types and texts, and one clear line for what is wrong."""

from __future__ import annotations

import logging
from typing import Any

import pytest

from ottla.client.config import (
    AdminConfig,
    ClientConfig,
    ConsumerConfig,
    OffsetReset,
    ProducerConfig,
    ResetKind,
    ShareConsumerConfig,
    read_settings,
)
from ottla.errors import InvalidConfig

B = {"bootstrap.servers": "a:9092"}


def producer(**keywords: object) -> ProducerConfig:
    return read_settings(ProducerConfig, B, keywords)


def consumer(**keywords: object) -> ConsumerConfig:
    return read_settings(ConsumerConfig, B, keywords)


def refusal(table: type[ClientConfig], mapping: dict[str, object]) -> str:
    with pytest.raises(InvalidConfig) as caught:
        read_settings(table, {**B, **mapping}, {})
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_names_may_be_kafkas_or_keywords_and_values_texts_or_already_right() -> None:
    config = read_settings(ProducerConfig, {**B, "linger.ms": "7", "batch_size": 99}, {"acks": 1, "retries": "3"})
    assert (config.linger_ms, config.batch_size, config.acks, config.retries) == (7, 99, "1", 3)
    assert config.required_acks == 1
    assert config.bootstrap_servers == ("a:9092",)
    assert read_settings(ProducerConfig, None, {"bootstrap_servers": ["a:1", "b:2"]}).bootstrap_servers == (
        "a:1",
        "b:2",
    )


def test_a_setting_given_as_none_has_its_default() -> None:
    config = producer(client_id=None, acks=1, enable_idempotence=None, transactional_id=None, linger_ms=None)
    assert (config.linger_ms, config.enable_idempotence) == (5, False)
    assert config.client_id.startswith("producer-")


def test_a_name_given_twice_is_refused_also_in_two_spellings() -> None:
    with pytest.raises(InvalidConfig, match=r"linger\.ms is given twice: 1 and 2; one is enough"):
        read_settings(ProducerConfig, {**B, "linger.ms": 1}, {"linger_ms": 2})
    assert "given twice" in refusal(ProducerConfig, {"linger.ms": 1, "linger_ms": 1})


@pytest.mark.parametrize(
    ("table", "name", "expected"),
    [
        (ProducerConfig, "linger_msec", "Unknown setting linger_msec of a producer: did you mean linger.ms?"),
        (ProducerConfig, "batch.sise", "Unknown setting batch.sise of a producer: did you mean batch.size?"),
        (ConsumerConfig, "groupid", "Unknown setting groupid of a consumer: did you mean group.id?"),
        (ConsumerConfig, "linger.ms", "linger.ms is a setting of a producer, not of a consumer"),
        (ProducerConfig, "session_timeout_ms", "session.timeout.ms is a setting of a consumer, not of a producer"),
        (AdminConfig, "zzz", "Unknown setting zzz of an admin: docs/clients/configuration.md lists them all"),
        (ShareConsumerConfig, "isolation_level", "isolation.level cannot be set when using a share group."),
    ],
)
def test_an_unknown_name_is_refused_with_the_nearest_one(table: type[ClientConfig], name: str, expected: str) -> None:
    assert refusal(table, {name: 1}).startswith(expected)


@pytest.mark.parametrize(
    ("table", "values", "expected"),
    [
        (
            ProducerConfig,
            {"linger.ms": "soon"},
            "Invalid value soon for configuration linger.ms: Not a number of type LONG",
        ),
        (ProducerConfig, {"linger.ms": -1}, "Invalid value -1 for configuration linger.ms: Value must be at least 0"),
        (
            ProducerConfig,
            {"acks": "2"},
            "Invalid value 2 for configuration acks: String must be one of: all, -1, 0, 1",
        ),
        (
            ProducerConfig,
            {"enable.idempotence": "yes"},
            "Invalid value yes for configuration enable.idempotence: Expected value to be either true or false",
        ),
        (
            ProducerConfig,
            {"compression.gzip.level": 0},
            "Invalid value 0 for configuration compression.gzip.level: Value must be between 1 and 9 or equal to -1",
        ),
        (
            ProducerConfig,
            {"transactional.id": ""},
            "Invalid value  for configuration transactional.id: String must be non-empty",
        ),
        (
            ProducerConfig,
            {"retries": 0, "enable.idempotence": True},
            "Must set retries to non-zero when using the idempotent producer.",
        ),
        (
            ProducerConfig,
            {"acks": 1, "enable.idempotence": True},
            "Must set acks to all in order to use the idempotent producer. Otherwise we cannot guarantee idempotence.",
        ),
        (
            ProducerConfig,
            {"max.in.flight.requests.per.connection": 6},
            "To use the idempotent producer, max.in.flight.requests.per.connection must be set to at most 5. Current "
            "value is 6.",
        ),
        (
            ProducerConfig,
            {"transactional.id": "t", "enable.idempotence": False},
            "Cannot set a transactional.id without also enabling idempotence.",
        ),
        (
            ProducerConfig,
            {"transactional.id": "t", "acks": "0"},
            "Cannot set a transactional.id without also enabling idempotence.",
        ),
        (
            ProducerConfig,
            {"transaction.two.phase.commit.enable": True, "transaction.timeout.ms": 5},
            "Cannot set transaction.timeout.ms when transaction.two.phase.commit.enable is set to true. Transactions "
            "will not expire with two-phase commit enabled.",
        ),
        (
            ProducerConfig,
            {"delivery.timeout.ms": 30_000},
            "delivery.timeout.ms should be equal to or larger than linger.ms + request.timeout.ms: it is 30000, and "
            "they are 30005",
        ),
        (
            ProducerConfig,
            {"security.protocol": "SASL_SSL"},
            "security.protocol=SASL_SSL is not served yet: TLS and SASL arrive with security; PLAINTEXT works",
        ),
        (
            ProducerConfig,
            {"partitioner.class": "com.acme.Mine"},
            "partitioner.class: Ottla has no com.acme.Mine; give an object, a class, or its place as 'module:Name'",
        ),
        (
            ProducerConfig,
            {"value.serializer": 7},
            "value.serializer: 7 has no method serialize; give an object with one or a function",
        ),
        (
            ProducerConfig,
            {"interceptor.classes": [object]},
            "has none of the methods on_send, on_acknowledgement",
        ),
        (
            ProducerConfig,
            {"metric.reporters": "com.acme.Reporter"},
            "metric.reporters: com.acme.Reporter is a Java class; a client's metrics() has the numbers",
        ),
        (
            ConsumerConfig,
            {"group.protocol": "consumer", "session.timeout.ms": 5000, "heartbeat.interval.ms": 1},
            "heartbeat.interval.ms, session.timeout.ms cannot be set when group.protocol=CONSUMER",
        ),
        (
            ConsumerConfig,
            {"group.protocol": "CONSUMER", "partition.assignment.strategy": "range"},
            "partition.assignment.strategy cannot be set when group.protocol=CONSUMER",
        ),
        (
            ConsumerConfig,
            {"group.protocol": "classic", "group.remote.assignor": "uniform"},
            "group.remote.assignor cannot be set when group.protocol=CLASSIC",
        ),
        (
            ConsumerConfig,
            {"session.timeout.ms": 5000, "group.remote.assignor": "uniform"},
            "group.remote.assignor cannot be set together with session.timeout.ms, which only group.protocol=CLASSIC "
            "has",
        ),
        (
            ConsumerConfig,
            {"share.acquire.mode": "record_limit"},
            "share.acquire.mode cannot be set for a consumer, only for a share consumer",
        ),
        (
            ConsumerConfig,
            {"group.id": "g", "heartbeat.interval.ms": 45_000},
            "heartbeat.interval.ms must be lower than session.timeout.ms: it is 45000, and the session 45000",
        ),
        (
            ConsumerConfig,
            {"enable.auto.commit": True},
            "enable.auto.commit cannot be set to true when default group id (null) is used.",
        ),
        (ConsumerConfig, {"group.id": " "}, "The configured group.id should not be an empty string or whitespace."),
        (
            ConsumerConfig,
            {"group.instance.id": "a b"},
            "Invalid value a b for configuration group.instance.id: it may have ASCII letters and digits, '.', '_' and "
            "'-' only",
        ),
        (
            ConsumerConfig,
            {"auto.offset.reset": "by_duration:PT-1S"},
            "Invalid value by_duration:PT-1S for configuration auto.offset.reset: Invalid value `by_duration:PT-1S` "
            "for configuration auto.offset.reset. The value must be either 'earliest', 'latest', 'none' or of the "
            "format 'by_duration:<PnDTnHnMn.nS.>'.",
        ),
        (
            ConsumerConfig,
            {"partition.assignment.strategy": "fair"},
            "partition.assignment.strategy: Ottla has no fair; give an assignor, 'module:Name', or one of range, "
            "roundrobin, sticky, cooperative-sticky",
        ),
        (
            AdminConfig,
            {"bootstrap.controllers": "c:9093"},
            "You cannot set both bootstrap.servers and bootstrap.controllers",
        ),
        (
            AdminConfig,
            {"default.api.timeout.ms": 10},
            "The specified value of default.api.timeout.ms must be no smaller than the value of request.timeout.ms.",
        ),
        (ShareConsumerConfig, {}, "group.id is needed: a share consumer is always a member of a share group"),
    ],
)
def test_what_cannot_be_is_refused_in_one_line(
    table: type[ClientConfig], values: dict[str, object], expected: str
) -> None:
    assert refusal(table, values).endswith(expected)


def test_without_servers_nothing_can_begin() -> None:
    with pytest.raises(InvalidConfig, match=r'Missing required configuration "bootstrap\.servers"'):
        read_settings(ProducerConfig, {}, {})
    with pytest.raises(InvalidConfig, match=r"You must set either bootstrap\.servers or bootstrap\.controllers"):
        read_settings(AdminConfig, {}, {})


@pytest.mark.parametrize("given", [{"acks": "1"}, {"acks": 0}, {"retries": 0}])
def test_idempotence_by_default_gives_way_to_what_was_asked_for(given: dict[str, object]) -> None:
    assert producer().enable_idempotence
    assert not producer(**given).enable_idempotence


def test_the_delivery_timeout_by_default_grows_with_what_it_contains(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        assert producer(request_timeout_ms=200_000).delivery_timeout_ms == 200_005
    assert "delivery.timeout.ms should be equal to or larger than" in caplog.text
    assert producer(linger_ms=2**40, request_timeout_ms=1).delivery_timeout_ms == 2**31 - 1


def test_a_reconnect_backoff_without_its_maximum_does_not_grow() -> None:
    assert producer(reconnect_backoff_ms=2000).reconnect_backoff_max_ms == 2000
    assert producer(reconnect_backoff_ms=20, reconnect_backoff_max_ms=90).reconnect_backoff_max_ms == 90


def test_a_client_without_a_name_is_given_one_in_kafkas_form() -> None:
    first, second = producer().client_id, producer().client_id
    assert first.startswith("producer-")
    assert int(second.removeprefix("producer-")) == int(first.removeprefix("producer-")) + 1
    assert producer(transactional_id="pay").client_id == "producer-pay"
    assert producer(client_id="mine").client_id == "mine"
    assert consumer(group_id="g", group_instance_id="one").client_id == "consumer-g-one"
    assert read_settings(AdminConfig, B, {}).client_id.startswith("adminclient-")


@pytest.mark.parametrize(
    ("given", "protocol"),
    [
        ({}, "auto"),
        ({"group_protocol": "Classic"}, "classic"),
        ({"group_protocol": "CONSUMER"}, "consumer"),
        ({"session_timeout_ms": 6000}, "classic"),
        ({"partition_assignment_strategy": "sticky"}, "classic"),
        ({"group_remote_assignor": "range"}, "consumer"),
        ({"group_protocol": "classic", "group_remote_assignor": ""}, "classic"),
    ],
)
def test_the_group_protocol_follows_from_what_only_one_of_them_has(given: dict[str, Any], protocol: str) -> None:
    assert consumer(group_id="g", **given).group_protocol == protocol


def test_a_consumer_without_a_group_commits_nothing_by_itself() -> None:
    assert not consumer().enable_auto_commit
    assert consumer(group_id="g").enable_auto_commit


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("latest", OffsetReset(ResetKind.LATEST)),
        ("earliest", OffsetReset(ResetKind.EARLIEST)),
        ("none", OffsetReset(ResetKind.NONE)),
        ("by_duration:PT1H", OffsetReset(ResetKind.BY_DURATION, 3_600_000)),
        ("by_duration:P1DT2H3M4.5S", OffsetReset(ResetKind.BY_DURATION, 93_784_500)),
        ("by_duration:pt0.0019s", OffsetReset(ResetKind.BY_DURATION, 1)),
        ("by_duration:PT1M-30.5S", OffsetReset(ResetKind.BY_DURATION, 29_500)),
        ("by_duration:-PT-1S", OffsetReset(ResetKind.BY_DURATION, 1000)),
    ],
)
def test_where_to_begin_is_read_as_java_reads_durations(text: str, expected: OffsetReset) -> None:
    assert consumer(auto_offset_reset=text).offset_reset == expected


@pytest.mark.parametrize(
    "text", ["by_duration", "by_duration:", "by_duration:P", "by_duration:PT", "by_duration:1H", "LATEST", "", "soon"]
)
def test_what_is_no_beginning_is_refused(text: str) -> None:
    assert "must be either 'earliest', 'latest', 'none'" in refusal(ConsumerConfig, {"auto.offset.reset": text})


def test_values_of_tls_and_sasl_are_read_and_have_no_effect_in_plaintext() -> None:
    config = producer(security_protocol="plaintext", ssl_truststore_location="/x", sasl_jaas_config="secret")
    assert config.ssl_truststore_location == "/x"
    assert "secret" not in repr(config.sasl_jaas_config)


def test_an_admin_may_begin_with_controllers() -> None:
    assert read_settings(AdminConfig, {}, {"bootstrap_controllers": "c:9093"}).bootstrap_controllers == ("c:9093",)
    assert read_settings(AdminConfig, B, {"request_timeout_ms": 70_000}).default_api_timeout_ms == 70_000


def test_a_function_an_object_a_class_and_a_place_can_be_a_partitioner() -> None:
    from ottla.client.producer.partitioners import RoundRobinPartitioner

    one = RoundRobinPartitioner()
    assert producer(partitioner_class=one).partitioner_class is one
    for given in (
        RoundRobinPartitioner,
        "org.apache.kafka.clients.producer.RoundRobinPartitioner",
        "ottla.client.producer.partitioners:RoundRobinPartitioner",
    ):
        assert isinstance(producer(partitioner_class=given).partitioner_class, RoundRobinPartitioner)
    chosen = producer(partitioner_class=lambda *arguments: 3).partitioner_class
    assert chosen.partition("t", None, None, None, None, None) == 3
    assert "cannot be loaded" in refusal(ProducerConfig, {"partitioner.class": "no.such.module:Name"})


def test_a_function_can_be_a_serializer_and_is_not_called_for_nothing() -> None:
    serializer = producer(value_serializer=str.encode).value_serializer
    assert serializer is not None
    assert serializer.serialize("t", "é", []) == "é".encode()
    assert serializer.serialize("t", None, []) is None
    deserializer = consumer(key_deserializer=bytes.decode).key_deserializer
    assert deserializer is not None
    assert deserializer.deserialize("t", b"x", []) == "x"
