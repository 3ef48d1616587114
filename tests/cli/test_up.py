"""`ottla up`: what a developer's node starts with when nobody says otherwise."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient, ConfigResource  # type: ignore[attr-defined]  # it has no __all__

from tests.support.server import OTTLA


@pytest.mark.parametrize(("options", "delay_ms"), [([], "0"), (["--set", "group.initial.rebalance.delay.ms=50"], "50")])
def test_the_first_member_of_a_group_does_not_wait_for_others(
    tmp_path: Path, options: list[str], delay_ms: str
) -> None:
    """It waited for three seconds, which is right for a fleet that is being started, and not at a desk."""
    command = [*OTTLA, "up", "--data", str(tmp_path / "data"), "--port", "0", *options]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as broker:
        try:
            assert broker.stdout is not None
            ready, _, address = broker.stdout.readline().partition(" (")[0].rpartition(" ")
            assert ready == "ottla is ready at"
            assert address.startswith("127.0.0.1:"), "what is bound is what is advertised"
            admin = AdminClient({"bootstrap.servers": address})
            resource = ConfigResource(ConfigResource.Type.BROKER, "1")
            settings = admin.describe_configs([resource])[resource].result(10)
            assert settings["group.initial.rebalance.delay.ms"].value == delay_ms
            (node,) = admin.list_topics(timeout=10).brokers.values()
            assert f"{node.host}:{node.port}" == address
        finally:
            broker.terminate()


@pytest.mark.parametrize("host", ["0.0.0.0", "::"])
def test_a_broker_on_every_address_starts_and_advertises_what_others_can_reach(tmp_path: Path, host: str) -> None:
    """It was refused with a line about advertised.listeners, which nobody had set."""
    command = [*OTTLA, "up", "--data", str(tmp_path / "data"), "--port", "0", "--host", host]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as broker:
        try:
            assert broker.stdout is not None
            _, _, address = broker.stdout.readline().partition(" (")[0].rpartition(" ")
            advertised, _, port = address.rpartition(":")
            assert advertised not in ("", "0.0.0.0", "::", "[::]")
            (node,) = AdminClient({"bootstrap.servers": f"127.0.0.1:{port}"}).list_topics(timeout=10).brokers.values()
            assert f"{node.host}:{node.port}" == address
        finally:
            broker.terminate()
