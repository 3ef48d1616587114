"""Safety that Ottla does not give: a node neither starts on it nor takes it later; a log that has it is opened."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest

from ottla.config import BrokerConfig
from ottla.errors import InvalidRequest
from ottla.metadata import BROKER, bootstrap_records
from ottla.node import CannotStart, Node, build
from ottla.raft import format_directory
from ottla.sim.world import virtual_node_world
from ottla.storage import MetaProperties, write_meta_properties
from ottla.types import Uuid
from ottla.wire.messages import alter_configs as legacy
from ottla.wire.messages import incremental_alter_configs as incremental
from ottla.wire.metadata import (
    AccessControlEntryRecord,
    ClientQuotaRecord,
    ConfigRecord,
    UserScramCredentialRecord,
    VersionedRecord,
)
from ottla.wire.metadata.configs import EntityData
from ottla.world.system import system_world
from tests.unit.config.test_unserved import UNSERVED
from tests.unit.server.whole_node import with_node

SET, DELETE = 0, 1
KEY_STORE = "listener.name.plaintext.ssl.keystore.location"


@pytest.mark.parametrize(
    ("name", "value"),
    [
        *(
            ("listener.security.protocol.map", f"PLAINTEXT:{protocol},CONTROLLER:PLAINTEXT")
            for protocol in ("SSL", "SASL_PLAINTEXT", "SASL_SSL")
        ),
        *UNSERVED.items(),
    ],
)
def test_a_node_that_would_be_open_is_not_even_built(name: str, value: str) -> None:
    config = BrokerConfig(
        {
            "process.roles": "broker,controller",
            "node.id": "1",
            "listeners": "PLAINTEXT://:9092,CONTROLLER://:9093",
            "controller.listener.names": "CONTROLLER",
            "controller.quorum.voters": "1@localhost:9093",
            "sasl.mechanism.inter.broker.protocol": "GSSAPI",
            name: value,
        }
    )
    with pytest.raises(CannotStart, match="Ottla does not"):
        build(config, virtual_node_world(1))


async def change(node: Node, name: str, operation: int, value: str | None) -> tuple[int, str | None]:
    """As through the controller's own listener, where no broker looks at it first."""
    changed = incremental.AlterableConfig(name, operation, value)
    request = incremental.IncrementalAlterConfigsRequest([incremental.AlterConfigsResource(BROKER, "1", [changed])])
    response = await node.controller.handle(request, version=1)
    assert isinstance(response, incremental.IncrementalAlterConfigsResponse)
    return response.responses[0].error_code, response.responses[0].error_message


async def replace(node: Node, name: str, value: str) -> int:
    resource = legacy.AlterConfigsResource(BROKER, "1", [legacy.AlterableConfig(name, value)])
    response = await node.controller.handle(legacy.AlterConfigsRequest([resource]), version=2)
    assert isinstance(response, legacy.AlterConfigsResponse)
    return response.responses[0].error_code


def test_a_running_node_does_not_take_a_setting_for_safety_that_it_would_ignore(tmp_path: Path) -> None:
    async def run(node: Node) -> None:
        for name, value in ((KEY_STORE, "/etc/key"), ("super.users", "User:admin"), ("ssl.cipher.suites", "X")):
            code, message = await change(node, name, SET, value)
            assert code == InvalidRequest.code
            assert name in str(message)
            assert await replace(node, name, value) == InvalidRequest.code
        assert node.loader.image.config_of(BROKER, "1") == {}
        assert await change(node, "log.retention.ms", SET, "1000") == (0, None)

    with_node(tmp_path, run)


def test_a_kafkas_log_that_asks_for_safety_is_opened_with_a_warning(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    records = [
        AccessControlEntryRecord(Uuid(b"0123456789abcdef"), 2, "orders", 3, "User:alice", "*", 3, 3),
        UserScramCredentialRecord("alice", 1, b"salt", b"stored", b"server", 4096),
        ClientQuotaRecord([EntityData("user", "alice")], "producer_byte_rate", 1024.0, False),
        ClientQuotaRecord([EntityData("ip", None)], "connection_creation_rate", 1000.0, False),
        ConfigRecord(BROKER, "1", KEY_STORE, "/etc/key"),
        ConfigRecord(BROKER, "1", "listeners", "PLAINTEXT://127.0.0.1:0,CONTROLLER://127.0.0.1:9"),
    ]
    world = system_world()
    format_directory(world, str(tmp_path), [*bootstrap_records(), *(VersionedRecord(one, 0) for one in records)])
    properties = MetaProperties("9i0_JSaRSF6dr5bWoMQO8g", 1, Uuid(b"fedcba9876543210"))
    write_meta_properties(world.disk, str(tmp_path), properties, 0)

    async def run(node: Node) -> None:
        image = node.loader.image
        assert [rule.principal for rule in image.access_rules.values()] == ["User:alice"], "nothing is lost of it"
        assert image.config_of(BROKER, "1")[KEY_STORE] == "/etc/key"
        assert list(image.brokers[1].endpoints) == ["PLAINTEXT"]
        assert await change(node, KEY_STORE, DELETE, None) == (0, None), "what is there can be taken back"

    with caplog.at_level(logging.WARNING):
        with_node(tmp_path, run)
    warnings = [record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING]
    assert warnings == [
        "[Node 1] The metadata log holds 1 ACLs, 1 SCRAM credentials, 1 client quotas. Ottla keeps them, but serves "
        "everyone in spite of them",
        f"[Node 1] The metadata log holds settings that Ottla does not enforce yet: {KEY_STORE}. Ottla keeps them, but "
        "serves everyone in spite of them",
        "[Node 1] Ottla takes listeners from its file, and not from the metadata log",
    ]
