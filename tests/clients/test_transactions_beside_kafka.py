"""The transcripts of the transaction coordinator, played to a running Ottla and to a real Kafka 4.3.1.

Both answer as the transcript says: error codes, epochs, producers, states, the records of `__transaction_state` and the
markers in the partitions. What only virtual time can play (time-outs, reloads, replicas) is left out; see
`tests/unit/coordinator/transaction`.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from ottla.wire.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)
from ottla.wire.messages.update_features import FeatureUpdateKey, UpdateFeaturesRequest, UpdateFeaturesResponse
from tests.support.raw import RawClient
from tests.support.server import Server, Settings, run_ottla
from tests.support.transactions_wire import WireScript
from tests.support.transcript import commands, outputs, transcripts

pytestmark = [pytest.mark.java, pytest.mark.timeout(300)]


@pytest.fixture(scope="module", params=["ottla", "kafka"])
def client(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RawClient]:
    directory = tmp_path_factory.mktemp(request.param)
    settings = Settings(directory / "data")
    settings["offsets.topic.num.partitions"] = settings["transaction.state.log.num.partitions"] = "1"
    properties = settings.write(directory / "server.properties")
    cluster_id = run_ottla("storage", "random-uuid").stdout.strip()
    formatted = run_ottla("storage", "format", "-t", cluster_id, "-c", properties)
    assert formatted.returncode == 0, formatted.stderr
    make = Server.ottla if request.param == "ottla" else Server.kafka
    with make(properties) as server, RawClient(server.port) as raw:
        yield raw


VIRTUAL = {"reload", "shrink", "grow", "delete", "epoch"}


def playable() -> list[Path]:
    """Those that need neither virtual time nor a setting of the broker's."""
    return [
        path
        for path in transcripts("transactions")
        if not VIRTUAL & {line.split()[0] for line in commands(path.read_text())} and path.stem != "timeouts"
    ]


@contextmanager
def circumstances(client: RawClient, name: str) -> Iterator[None]:
    """What a transcript needs of its broker, taken back afterwards."""
    if name == "hanging":
        set_verification(client, "false")
        yield
        set_verification(client, "true")
    elif name == "version_0":
        set_transaction_version(client, 0)
        yield
        set_transaction_version(client, 2)
    else:
        yield


def set_verification(client: RawClient, value: str) -> None:
    change = AlterableConfig("transaction.partition.verification.enable", 0, value)
    request = IncrementalAlterConfigsRequest([AlterConfigsResource(4, "", [change])])
    response = client.send(request, 1, IncrementalAlterConfigsResponse)
    assert not response.responses[0].error_code, response
    time.sleep(0.5)


def set_transaction_version(client: RawClient, level: int) -> None:
    update = FeatureUpdateKey("transaction.version", level, upgrade_type=1 if level else 2)
    response = client.send(UpdateFeaturesRequest(10_000, [update]), 1, UpdateFeaturesResponse)
    assert not response.error_code, response
    time.sleep(0.5)


@pytest.mark.parametrize("path", playable(), ids=lambda path: path.stem)
def test_a_real_kafka_and_a_running_ottla_answer_as_the_transcript_says(client: RawClient, path: Path) -> None:
    script = WireScript(client)
    script.prepare()
    text = path.read_text()
    differing: list[Any] = []
    with circumstances(client, path.stem):
        for command, expected in zip(commands(text), outputs(text), strict=True):
            got = script.execute(command)
            if got != expected:
                differing.append((command, expected, got))
    assert differing == []
