"""The transcripts of the transaction coordinator, played to a running Ottla and to a real Kafka 4.3.1.

Both answer as the transcript says: error codes, epochs, producers, states, the records of `__transaction_state` and the
markers in the partitions. What only virtual time can play (time-outs, reloads, replicas) is left out; see
`tests/unit/coordinator/transaction`.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from ottla.errors import CoordinatorLoadInProgress, CoordinatorNotAvailable, NotCoordinator
from ottla.types import Buffer, TopicPartition
from ottla.wire import response_class
from ottla.wire.messages.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic
from ottla.wire.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from ottla.wire.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)
from ottla.wire.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from ottla.wire.messages.list_transactions import ListTransactionsRequest, ListTransactionsResponse
from ottla.wire.messages.update_features import FeatureUpdateKey, UpdateFeaturesRequest, UpdateFeaturesResponse
from tests.support.clients import eventually
from tests.support.raw import RawClient
from tests.support.server import Server, Settings, run_ottla
from tests.support.transactions import FIRST_PRODUCER_ID, STATE_TOPIC, Stable, TransactionScript
from tests.support.transcript import commands, outputs, transcripts

pytestmark = [pytest.mark.java, pytest.mark.timeout(300)]

FETCH_VERSION = 12
GROUP, TRANSACTION = 0, 1
NOT_YET = {CoordinatorLoadInProgress.code, CoordinatorNotAvailable.code, NotCoordinator.code}
TOPICS = {"t": 3, "u": 2}
_numbers = itertools.count()


class WireScript(TransactionScript):
    """Plays to a broker, with topics and transactional ids of its own."""

    def __init__(self, client: RawClient) -> None:
        super().__init__(suffix=f"-of-{next(_numbers)}")
        self._client = client
        for name, count in TOPICS.items():
            client.create_topic(self.own(name), partitions=count)
        eventually(lambda: self._has_coordinator(TRANSACTION), "a transaction coordinator")
        eventually(lambda: self._has_coordinator(GROUP), "a group coordinator")
        given = self._next_producer_id()
        self.shift = given + 1 - FIRST_PRODUCER_ID
        self.started_ms = self.now_ms
        for partition in self.partitions():
            eventually(lambda one=partition: not self._fetch(one, 0, isolation_level=0).error_code, "a leader")  # type: ignore[misc]
        self.written()

    def _has_coordinator(self, key_type: int) -> bool:
        request = FindCoordinatorRequest(key_type=key_type, coordinator_keys=[self.own("tx")])
        return not self._client.send(request, 5, FindCoordinatorResponse).coordinators[0].error_code

    def _next_producer_id(self) -> int:
        """What a producer without transactions is given; the script's first comes next."""
        response = self._client.send(InitProducerIdRequest(None), 5, InitProducerIdResponse)
        while response.error_code:
            time.sleep(0.1)
            response = self._client.send(InitProducerIdRequest(None), 5, InitProducerIdResponse)
        return response.producer_id

    @property
    def now_ms(self) -> int:
        return time.time_ns() // 1_000_000

    def send(self, request: Any, version: int) -> Any:
        """The answer, asked for again while the coordinator is not ready."""
        answer = response_class(request.schema.api_key)
        for _ in range(100):
            response: Any = self._client.send(request, version, answer)
            if getattr(response, "error_code", 0) not in NOT_YET:
                break
            time.sleep(0.1)
        return response

    def settle(self) -> None:
        """Markers are written when the client has been answered: wait for the end of the transaction."""

        def is_settled() -> bool:
            request = ListTransactionsRequest(["PrepareCommit", "PrepareAbort"])
            return not self._client.send(request, 2, ListTransactionsResponse).transaction_states

        eventually(is_settled, "the end of the transaction")

    def do_time(self, amount: str) -> None:
        time.sleep(float(amount.removesuffix("s")))

    def partitions(self) -> list[TopicPartition]:
        own = [TopicPartition(self.own(name), index) for name, count in TOPICS.items() for index in range(count)]
        return [TopicPartition(STATE_TOPIC, 0), TopicPartition("__consumer_offsets", 0), *own]

    def read_log(self, partition: TopicPartition, offset: int) -> Buffer:
        return self._fetch(partition, offset, isolation_level=0).records or b""

    def stable(self, partition: TopicPartition) -> Stable:
        found = self._fetch(partition, 0, isolation_level=1)
        aborted = [(one.producer_id, one.first_offset) for one in found.aborted_transactions or ()]
        return Stable(found.last_stable_offset, found.high_watermark, aborted)

    def _fetch(self, partition: TopicPartition, offset: int, *, isolation_level: int) -> Any:
        wanted = FetchPartition(partition.partition, -1, offset, partition_max_bytes=1_000_000)
        request = FetchRequest(
            replica_id=-1,
            max_wait_ms=0,
            isolation_level=isolation_level,
            topics=[FetchTopic(partition.topic, partitions=[wanted])],
        )
        return self._client.send(request, FETCH_VERSION, FetchResponse).responses[0].partitions[0]


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
    text = path.read_text()
    differing: list[Any] = []
    with circumstances(client, path.stem):
        for command, expected in zip(commands(text), outputs(text), strict=True):
            got = script.execute(command)
            if got != expected:
                differing.append((command, expected, got))
    assert differing == []
