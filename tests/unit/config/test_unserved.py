"""What a user takes for safety and Ottla does not serve: which settings a node refuses, and which are harmless."""

from __future__ import annotations

import pytest

from ottla.config import BrokerConfig, refuse_unserved_changes, unserved_security
from ottla.errors import InvalidRequest

MINIMAL = {
    "process.roles": "broker,controller",
    "node.id": "1",
    "listeners": "PLAINTEXT://:9092,CONTROLLER://:9093",
    "controller.listener.names": "CONTROLLER",
    "controller.quorum.voters": "1@localhost:9093",
}


def refusal(**settings: str) -> str:
    line = unserved_security(BrokerConfig({**MINIMAL, **settings}))
    assert line is not None, "it is taken"
    assert "\n" not in line
    return line


@pytest.mark.parametrize("protocol", ["SSL", "SASL_PLAINTEXT", "SASL_SSL"])
def test_a_listener_with_a_security_protocol_is_refused_by_its_name_and_its_protocol(protocol: str) -> None:
    own_name = {"listeners": f"PLAINTEXT://:9092,{protocol}://:9094,CONTROLLER://:9093"}
    mapped = {
        "listeners": "PLAINTEXT://:9092,CLIENTS://:9094,CONTROLLER://:9093",
        "listener.security.protocol.map": f"PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT,CLIENTS:{protocol}",
    }
    controller = {"listener.security.protocol.map": f"PLAINTEXT:PLAINTEXT,CONTROLLER:{protocol}"}
    explicit = {"listener.security.protocol.map": f"PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT,{protocol}:{protocol}"}
    for settings, listener in ((own_name | explicit, protocol), (mapped, "CLIENTS"), (controller, "CONTROLLER")):
        line = refusal(**settings)
        assert f"listener {listener} ({protocol})" in line
        assert "listener.security.protocol.map" in line, "what to do"


def test_the_controllers_listeners_of_a_lone_broker_count_too() -> None:
    """It would connect to them, and in the clear."""
    line = refusal(
        **{
            "process.roles": "broker",
            "listeners": "PLAINTEXT://:9092",
            "controller.quorum.voters": "2@localhost:9093",
            "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:SSL",
        }
    )
    assert "listener CONTROLLER (SSL)" in line


UNSERVED = {
    "allow.everyone.if.no.acl.found": "false",
    "alter.config.policy.class.name": "com.example.Policy",
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "connections.max.reauth.ms": "3600000",
    "create.topic.policy.class.name": "com.example.Policy",
    "delegation.token.secret.key": "hush",
    "listener.name.plaintext.connections.max.reauth.ms": "1",
    "listener.name.plaintext.principal.builder.class": "com.example.Builder",
    "listener.name.plaintext.sasl.enabled.mechanisms": "PLAIN",
    "listener.name.plaintext.scram-sha-256.sasl.jaas.config": "hush",
    "listener.name.plaintext.ssl.client.auth": "required",
    "listener.name.plaintext.ssl.keystore.location": "/etc/key",
    "principal.builder.class": "com.example.Builder",
    "sasl.enabled.mechanisms": "SCRAM-SHA-512",
    "sasl.jaas.config": "hush",
    "sasl.misspelt": "x",
    "security.providers": "com.example.Provider",
    "ssl.cipher.suites": "TLS_AES_256_GCM_SHA384",
    "ssl.client.auth": "required",
    "ssl.enabled.protocols": "TLSv1.3",
    "ssl.keystore.location": "/etc/key",
    "ssl.keystore.password": "hush",
    "ssl.principal.mapping.rules": "RULE:.*/x/",
    "ssl.truststore.location": "/etc/trust",
    "super.users": "User:admin",
}


@pytest.mark.parametrize("name", UNSERVED)
def test_a_setting_that_is_taken_for_safety_is_refused_by_its_name_and_without_its_value(name: str) -> None:
    line = refusal(**{name: UNSERVED[name]})
    assert f": {name}." in line
    assert "hush" not in line
    assert "Remove" in line, "what to do"


def test_all_that_is_refused_is_in_the_line() -> None:
    line = refusal(**{"authorizer.class.name": "x", "super.users": "User:admin", "num.partitions": "3"})
    assert ": authorizer.class.name, super.users." in line


def test_the_protocol_among_brokers_is_refused_even_where_its_listener_is_mapped_to_plaintext() -> None:
    line = refusal(
        **{
            "security.inter.broker.protocol": "SSL",
            "listeners": "SSL://:9092,CONTROLLER://:9093",
            "listener.security.protocol.map": "SSL:PLAINTEXT,CONTROLLER:PLAINTEXT",
        }
    )
    assert ": security.inter.broker.protocol." in line


def test_kafkas_defaults_and_empty_values_are_harmless() -> None:
    harmless = {
        "authorizer.class.name": "",
        "connections.max.reauth.ms": "0",
        "delegation.token.max.lifetime.ms": "3600000",
        "early.start.listeners": "CONTROLLER",
        "listener.name.plaintext.max.connections": "5",
        "listener.name.plaintext.ssl.client.auth": "none",
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT,SSL:SSL,SASL_SSL:SASL_SSL",
        "principal.builder.class": "org.apache.kafka.common.security.authenticator.DefaultKafkaPrincipalBuilder",
        "sasl.enabled.mechanisms": "GSSAPI",
        "sasl.login.retry.backoff.ms": "100",
        "security.inter.broker.protocol": "PLAINTEXT",
        "ssl.client.auth": "none",
        "ssl.enabled.protocols": "TLSv1.2,TLSv1.3",
        "ssl.endpoint.identification.algorithm": "",
        "super.users": " ",
    }
    assert unserved_security(BrokerConfig({**MINIMAL, **harmless})) is None


def test_a_change_to_what_is_not_served_is_refused_and_may_be_taken_back() -> None:
    for name in ("ssl.cipher.suites", "listener.name.plaintext.ssl.keystore.location", "super.users"):
        with pytest.raises(InvalidRequest, match=name):
            refuse_unserved_changes({name: UNSERVED[name], "log.retention.ms": "1"})
        refuse_unserved_changes({name: None, "log.retention.ms": "1"})
    refuse_unserved_changes({"ssl.client.auth": "none", "listener.name.plaintext.max.connections": "5"})


@pytest.mark.parametrize("name", ["listeners", "listener.security.protocol.map"])
def test_listeners_do_not_change_while_a_node_runs(name: str) -> None:
    """Kafka would open and close ports; Ottla opens them when it starts, so a change would have no effect."""
    with pytest.raises(InvalidRequest, match=rf"{name} .*restart"):
        refuse_unserved_changes({name: "PLAINTEXT://:9092,OTHER://:9094"})
    refuse_unserved_changes({name: None})
