"""Kafka's own controller decides as ours does: random histories, the same requests to both, record by record.

`ControllerOracle.java` is a whole `QuorumController` over a log in memory. Ours is asked first, and what it appended
and answered is kept; then Kafka's is asked the same. Broker epochs are offsets, so both logs have to agree to the last
record. Topic ids are random and are compared as their topics' names; partitions that one event changes have no order.
`OTTLA_SEED` replays one history. The transcripts in `TRANSCRIPTS` are such histories too, and not random.
"""

from __future__ import annotations

import json
import os
import re
from itertools import groupby
from pathlib import Path
from typing import Any, TypeVar

import pytest

from ottla.errors import KafkaError, error_class
from ottla.metadata import SUPPORTED_FEATURES
from ottla.types import Uuid
from ottla.wire import Message, decode, encode
from ottla.wire.json_form import to_json
from ottla.wire.messages.allocate_producer_ids import AllocateProducerIdsRequest
from ottla.wire.messages.assign_replicas_to_dirs import (
    AssignReplicasToDirsRequest,
    AssignReplicasToDirsRequestDirectoryData,
    AssignReplicasToDirsRequestPartitionData,
    AssignReplicasToDirsRequestTopicData,
)
from ottla.wire.messages.broker_heartbeat import BrokerHeartbeatRequest, BrokerHeartbeatResponse
from ottla.wire.messages.broker_registration import (
    BrokerRegistrationRequest,
    BrokerRegistrationResponse,
    Feature,
    Listener,
)
from ottla.wire.messages.create_partitions import (
    CreatePartitionsAssignment,
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsTopic,
)
from ottla.wire.messages.create_topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from ottla.wire.messages.delete_topics import DeleteTopicsRequest, DeleteTopicsResponse
from ottla.wire.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)
from ottla.wire.messages.unregister_broker import UnregisterBrokerResponse
from ottla.wire.messages.update_features import FeatureUpdateKey, UpdateFeaturesRequest
from tests.support.kafka import run_java
from tests.support.transcript import TRANSCRIPTS as DIRECTORY
from tests.support.transcript import check
from tests.unit.metadata.harness import CLUSTER_ID, Cluster
from tests.unit.metadata.player import Player
from tests.unit.metadata.test_random_histories import BROKERS, History

pytestmark = pytest.mark.java

ORACLE = Path(__file__).with_name("ControllerOracle.java")
SEEDS = [int(os.environ["OTTLA_SEED"])] if "OTTLA_SEED" in os.environ else [1, 2, 3]
STEP_COUNT = 600
TRANSCRIPTS = ["unclean_elections"]
"""Those in which nothing happens by itself: Kafka's controller here is one whose timers never fire."""
DELETE_BY_NAME = 5
_UUID = re.compile(r"[A-Za-z0-9_-]{22}")

M = TypeVar("M", bound=Message)


class Account:
    """Every request to a controller of ours, and what it made of them: what Kafka's is asked next."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._known: set[str] = set()
        features = cluster.loader.image.features
        self.lines = [" ".join(f"{name}={level}" for name, level in features.items())]
        self.outcomes = [[*self._shown(0), "started"]]

    def pass_ms(self, milliseconds: float) -> None:
        self.lines.append(f"time {milliseconds:.0f}")

    def take(self, request: Message, version: int, start: int, told: str) -> None:
        """`start` is how many records there were before, `told` what was answered."""
        self._cluster.settle()
        self.lines.append(f"request {request.schema.api_key} {version} {encode(request, version).hex()}")
        self.outcomes.append([*self._shown(start), told])
        for topic in self._cluster.loader.image.topics.by_name.values():
            if topic.name not in self._known:
                self._known.add(topic.name)
                self.lines.append(f"topic {topic.name} {topic.id}")

    def _shown(self, start: int) -> list[str]:
        return [
            f"{record.schema.name}.{version} {json.dumps(to_json(record, version))}"
            for record, version in self._cluster.quorum.records[start:]
        ]


class RecordedCluster(Cluster):
    """The cluster of a transcript, with an account of it."""

    def __init__(self, **overrides: Any) -> None:
        super().__init__(**overrides)
        self.account = Account(self)

    def pass_ms(self, milliseconds: float) -> None:
        self.account.pass_ms(milliseconds)
        super().pass_ms(milliseconds)

    def ask(self, request: Message, response: type[M], *, version: int | None = None) -> M:
        number = request.schema.versions.last if version is None else version
        start = len(self.quorum.records)
        try:
            answer = super().ask(request, response, version=version)
        except KafkaError as error:
            self.account.take(request, number, start, _told_of(error))
            raise
        self.account.take(request, number, start, _told(answer, number))
        return answer


class Recorded(History):
    """A random history, with an account of it."""

    def __init__(self, seed: int) -> None:
        super().__init__(seed, brokers=())
        self.cluster.controller._periodic.stop()
        self.account = Account(self.cluster)
        # Not both: the directory of a deleted topic that fails is one that Kafka 4.3.1 cannot mark (it keeps deleted
        # topics in its index of directories, and does not find them).
        self.loses_disks = seed % 2 == 0
        self.lives: dict[int, Uuid] = {}
        for broker_id in BROKERS:
            self.start(broker_id)
            self.beat_as(broker_id)

    def ask(self, request: Any) -> None:
        version = DELETE_BY_NAME if isinstance(request, DeleteTopicsRequest) else request.schema.versions.last
        asked = decode(type(request), version, encode(request, version))
        start = len(self.cluster.quorum.records)
        try:
            handled = self.cluster.controller.handle(asked, version=version)
            told = _told(self.cluster.world.loop.run_until_complete(handled), version)
        except KafkaError as error:
            told = _told_of(error)
        self.account.take(request, version, start, told)

    # Steps: what is random in a controller is given by the request instead.

    def replicas(self) -> list[int]:
        return self.chance.sample(BROKERS, self.chance.randint(1, 3))

    def create(self) -> None:
        self.counter += 1
        size = self.chance.randint(1, 3)
        topic = CreatableTopic(f"t{self.counter}", -1, -1)
        topic.assignments = [
            CreatableReplicaAssignment(index, self.chance.sample(BROKERS, size))
            for index in range(self.chance.randint(1, 4))
        ]
        if self.chance.random() < 0.5:
            topic.configs = [CreatableTopicConfig("min.insync.replicas", str(self.chance.randint(1, 3)))]
        if self.chance.random() < 0.3:
            topic.configs.append(CreatableTopicConfig("unclean.leader.election.enable", "true"))
        self.ask(CreateTopicsRequest(topics=[topic]))

    def grow(self) -> None:
        name = self.topic()
        found = self.state.topics.by_name.get(name)
        if found is not None and len({len(one.replicas) for one in found.partitions.values()}) > 1:
            return  # Kafka takes the factor of any of them
        count = 1 + (0 if found is None else len(found.partitions))
        assignments = [CreatePartitionsAssignment(self.replicas())]
        self.ask(CreatePartitionsRequest([CreatePartitionsTopic(name, count, assignments)], timeout_ms=10_000))

    def delete(self) -> None:
        if not self.loses_disks:
            super().delete()

    def beat(self) -> None:
        broker_id = self.chance.choice(BROKERS)
        offline: list[Uuid] = []
        if self.loses_disks and self.chance.random() < 0.1:
            offline = [self.chance.choice(self.directories(broker_id))]
        want = self.chance.choice(["fence", "shutdown", "both", "serve", "serve", "serve", "serve", "serve"])
        if want == "shutdown" and self.has_forgotten_shutdown(broker_id):
            want = "both"
        self.beat_as(
            broker_id,
            want_fence=want in ("fence", "both"),
            want_shut_down=want in ("shutdown", "both"),
            offline_log_dirs=offline,
            cordoned_log_dirs=self.chance.choice([None, [], [], self.directories(broker_id)[:1]]),
            is_behind=self.chance.random() < 0.1,
        )

    def has_forgotten_shutdown(self, broker_id: int) -> bool:
        """A broker in controlled shutdown that has registered again, or was fenced: Kafka lets it stop at once. Ours
        waits until the others have heard, as it must where the controller has changed."""
        registered, heartbeats = self.image.brokers.get(broker_id), self.state.brokers.heartbeats
        if registered is None or not registered.is_shutting_down or heartbeats is None:
            return False
        session = heartbeats.find(broker_id, registered.epoch)
        return session is None or session.shutdown_offset < 0

    def move(self) -> None:
        """Not of a partition that has lost its leader: Kafka 4.3.1 fails when the last known one is no replica."""
        for topic in self.state.topics.by_name.values():
            if any(one.last_known_elr for one in topic.partitions.values()):
                return
        super().move()

    def beat_as(self, broker_id: int, *, is_behind: bool = False, **wants: Any) -> None:
        registered = self.image.brokers.get(broker_id)
        self.ask(
            BrokerHeartbeatRequest(
                broker_id=broker_id,
                broker_epoch=3 if registered is None else registered.epoch,
                current_metadata_offset=0 if is_behind else self.image.offset,
                **wants,
            )
        )

    def directories(self, broker_id: int) -> list[Uuid]:
        return [Uuid(bytes([1] * 8) + (10 * broker_id + number).to_bytes(8, "big")) for number in range(2)]

    def start(self, broker_id: int, *, previous_epoch: int = -1, is_same_life: bool = False) -> None:
        if not is_same_life or broker_id not in self.lives:
            self.lives[broker_id] = Uuid(self.chance.randbytes(16))
        self.ask(
            BrokerRegistrationRequest(
                broker_id=broker_id,
                cluster_id=CLUSTER_ID,
                incarnation_id=self.lives[broker_id],
                listeners=[Listener("PLAINTEXT", "localhost", 9092 + broker_id, 0)],
                features=[Feature(name, *levels) for name, levels in SUPPORTED_FEATURES.items()],
                rack=self.chance.choice([None, "a"]),
                log_dirs=self.directories(broker_id)[: self.chance.randint(1, 2)],
                previous_broker_epoch=previous_epoch,
            )
        )

    def restart(self) -> None:
        """A new life, an amended registration, or one that comes too soon; clean, or not."""
        broker_id = self.chance.choice(BROKERS)
        registered = self.image.brokers.get(broker_id)
        if self.chance.random() < 0.8:
            for _ in range(2):
                self.account.pass_ms(5000)
                self.cluster.world.loop.run_until_complete(self.cluster.world.tasks.sleep_ms(5000))
                for other in BROKERS:
                    if other != broker_id:
                        self.beat_as(other)
        is_clean = registered is not None and self.chance.random() < 0.5
        self.start(
            broker_id,
            previous_epoch=registered.epoch if is_clean and registered is not None else -1,
            is_same_life=self.chance.random() < 0.2,
        )
        self.beat_as(broker_id)

    def configure(self) -> None:
        kind, name = self.chance.choice([(2, self.topic()), (4, ""), (4, "1")])
        if kind == 2 and name not in self.state.topics.by_name:
            return
        # Not min.insync.replicas: its change clears the eligible leaders, and Kafka's index of them is not told (the
        # event that looks there next changes a partition twice, to the same).
        value = self.chance.choice(["true", "false"])
        config = AlterableConfig("unclean.leader.election.enable", self.chance.choice([0, 0, 1]), value)
        self.ask(IncrementalAlterConfigsRequest(resources=[AlterConfigsResource(kind, name, [config])]))

    def hold(self) -> None:
        """Something else: directories, producer ids, features."""
        broker_id = self.chance.choice(BROKERS)
        registered = self.image.brokers.get(broker_id)
        epoch = 3 if registered is None else registered.epoch
        match self.chance.randrange(4):
            case 0:
                self.ask(AllocateProducerIdsRequest(broker_id=broker_id, broker_epoch=epoch))
            case 1:
                level = self.chance.randrange(2)
                update = FeatureUpdateKey("eligible.leader.replicas.version", level, False, 2 - level)
                self.ask(UpdateFeaturesRequest(feature_updates=[update]))
            case _:
                self.assign(broker_id, epoch)

    def assign(self, broker_id: int, epoch: int) -> None:
        topic = self.state.topics.by_name.get(self.topic())
        if topic is None:
            return
        index = self.chance.choice([*topic.partitions, 99])
        told = AssignReplicasToDirsRequestTopicData(topic.id, [AssignReplicasToDirsRequestPartitionData(index)])
        directory = AssignReplicasToDirsRequestDirectoryData(self.chance.choice(self.directories(broker_id)), [told])
        self.ask(AssignReplicasToDirsRequest(broker_id=broker_id, broker_epoch=epoch, directories=[directory]))


def _told_of(error: KafkaError) -> str:
    return f"error {error.name}: {error.message}"


def _told(response: Message, version: int) -> str:
    """The answer, as the oracle writes it."""

    def told(code: int, message: str | None) -> str:
        return f"{error_class(code).name if code else 'NONE'}: {'null' if message is None else message}"

    match response:
        case BrokerRegistrationResponse():
            return f"epoch {response.broker_epoch}"
        case BrokerHeartbeatResponse():
            flags = (response.is_caught_up, response.is_fenced, response.should_shut_down)
            return " ".join(str(flag).lower() for flag in flags)
        case UnregisterBrokerResponse():
            return "done"
        case CreateTopicsResponse():
            return f"[{', '.join(told(one.error_code, one.error_message) for one in response.topics)}]"
        case CreatePartitionsResponse():
            return f"[{', '.join(told(one.error_code, one.error_message) for one in response.results)}]"
        case DeleteTopicsResponse():
            count = sum(one.error_code == 0 for one in response.responses)
            return f"{count} {count}"
        case IncrementalAlterConfigsResponse():
            results = [
                "NONE" if not one.error_code else told(one.error_code, one.error_message) for one in response.responses
            ]
            return f"[{', '.join(results)}]"
    return json.dumps(to_json(response, version))


class Reader:
    """Makes what both have written comparable."""

    def __init__(self) -> None:
        self.names: dict[str, str] = {}

    def read(self, lines: list[str]) -> list[Any]:
        *records, told = lines
        for line in records:
            kind, _, data = line.partition(" ")
            if kind.startswith("TopicRecord"):
                record = json.loads(data)
                self.names[record["topicId"]] = f"${record['name']}"
        shown = []
        for is_change, run in groupby(map(self._read, records), lambda one: one[0].startswith("PartitionChangeRecord")):
            found = list(run)
            if is_change:
                found.sort(key=lambda one: (one[1]["topicId"], one[1]["partitionId"]))
            shown += found
        return [*shown, self._read_told(told)]

    def _read(self, line: str) -> tuple[str, Any]:
        kind, _, data = line.partition(" ")
        return kind, json.loads(self._named(data))

    def _read_told(self, told: str) -> Any:
        if not told.startswith("{"):
            return self._named(told)
        form = json.loads(self._named(told))
        for results in form.get("replicaElectionResults", []):
            results["partitionResult"].sort(key=lambda one: one["partitionId"])
            for one in results["partitionResult"]:
                del one["errorMessage"]  # Kafka's own sentences for an error that needs none
        form.get("replicaElectionResults", []).sort(key=lambda one: one["topic"])
        return form

    def _named(self, text: str) -> str:
        return _UUID.sub(lambda found: self.names.get(found[0], found[0]), text)


@pytest.mark.parametrize("seed", SEEDS)
def test_kafkas_controller_decides_as_ours_does(seed: int, tmp_path: Path) -> None:
    history = Recorded(seed)
    for _ in range(STEP_COUNT):
        history.step()
    check_with_kafka(history.account, f"OTTLA_SEED={seed}", tmp_path)
    history.close()


@pytest.mark.parametrize("name", TRANSCRIPTS)
def test_kafkas_controller_decides_as_a_transcript_says(name: str, tmp_path: Path) -> None:
    player = Player(RecordedCluster)
    try:
        check(DIRECTORY / "metadata" / f"{name}.txt", player.execute, rewrite=False)
        assert isinstance(player.cluster, RecordedCluster)
        check_with_kafka(player.cluster.account, name, tmp_path)
    finally:
        player.close()


def check_with_kafka(account: Account, name: str, directory: Path) -> None:
    """Ask Kafka's controller the same, and compare what it appends and answers."""
    (directory / "commands").write_text("\n".join(account.lines))
    ran = run_java(str(ORACLE), [str(directory / "commands"), str(directory / "answers"), CLUSTER_ID])
    assert ran.returncode == 0, ran.stderr[-4000:]
    answers = [block.split("\n") for block in (directory / "answers").read_text().strip("\n").split("\n\n")]
    ours, theirs = Reader(), Reader()
    asked = ["start", *(line for line in account.lines if line.startswith("request"))]
    assert len(answers) == len(account.outcomes) == len(asked)
    for number, (outcome, answer) in enumerate(zip(account.outcomes, answers, strict=True)):
        mine, kafkas = ours.read(outcome), theirs.read(answer)
        differing = "\n".join(f"{mark} {one}" for mark, mine_only in (("-", mine), ("+", kafkas)) for one in mine_only)
        assert mine == kafkas, f"{name}, request {number}: {asked[number][:60]}\n{differing}"
