"""The controller on a real raft node, over a disk that survives it: restarts, snapshots, the golden log."""

from __future__ import annotations

import json
from collections.abc import Callable, Coroutine, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

import pytest

from ottla.errors import NotController, UnsupportedVersion
from ottla.machine import Result
from ottla.metadata import (
    SUPPORTED_FEATURES,
    Controller,
    Image,
    ImageLoader,
    SnapshotGenerator,
    bootstrap_records,
    random_uuid,
)
from ottla.metadata.control.periodic import PeriodicTasks
from ottla.raft import RaftConfig, RaftNode
from ottla.records import batches
from ottla.sim.world import virtual_node_world
from ottla.types import Uuid
from ottla.wire.json_form import to_json
from ottla.wire.messages import controller_registration as wire
from ottla.wire.messages.alter_partition import (
    AlterPartitionRequest,
    AlterPartitionRequestPartitionData,
    AlterPartitionRequestTopicData,
    AlterPartitionResponse,
)
from ottla.wire.messages.api_versions import ApiVersionsRequest
from ottla.wire.messages.broker_heartbeat import BrokerHeartbeatRequest, BrokerHeartbeatResponse
from ottla.wire.messages.broker_registration import (
    BrokerRegistrationRequest,
    BrokerRegistrationResponse,
    Feature,
    Listener,
)
from ottla.wire.messages.create_topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from ottla.wire.messages.delete_topics import DeleteTopicsRequest
from ottla.wire.messages.describe_quorum import (
    DescribeQuorumRequest,
    DescribeQuorumRequestPartitionData,
    DescribeQuorumRequestTopicData,
    DescribeQuorumResponse,
)
from ottla.wire.metadata import BeginTransactionRecord, FeatureLevelRecord, NoOpRecord, VersionedRecord
from ottla.world import NodeWorld, Promise
from tests.support.golden import GOLDEN, golden_data_dir
from tests.unit.metadata.harness import CLUSTER_ID, Cluster, broker_config
from tests.unit.raft.nodes import DATA, Machine, raft_node

T = TypeVar("T")


class Node:
    """What a controller node is made of, in one life."""

    def __init__(self, world: NodeWorld, raft_config: RaftConfig | None = None) -> None:
        self.world = world
        self.raft: RaftNode = raft_node(world, config=raft_config)
        self.loader = ImageLoader(CLUSTER_ID)
        self.controller = Controller(
            world, self.raft, broker_config(), cluster_id=CLUSTER_ID, bootstrap=bootstrap_records()
        )
        self.loader.add_publisher(SnapshotGenerator(world.tasks, self.raft))
        self.raft.subscribe(self.controller)
        self.raft.subscribe(self.loader)
        self.epoch = -1

    async def start(self, *, log_dir: Uuid, previous_epoch: int = -1) -> None:
        await self.raft.start()
        await self.raft.until_caught_up()
        response = await self.controller.handle(
            BrokerRegistrationRequest(
                broker_id=1,
                cluster_id=CLUSTER_ID,
                incarnation_id=random_uuid(self.world),
                listeners=[Listener("PLAINTEXT", "localhost", 9092, 0)],
                features=[Feature(name, low, high) for name, (low, high) in SUPPORTED_FEATURES.items()],
                log_dirs=[log_dir],
                previous_broker_epoch=previous_epoch,
            ),
            version=4,
        )
        assert isinstance(response, BrokerRegistrationResponse)
        self.epoch = response.broker_epoch
        assert not (await self.beat()).is_fenced

    async def beat(self, *, want_shut_down: bool = False) -> BrokerHeartbeatResponse:
        response = await self.controller.handle(
            BrokerHeartbeatRequest(
                broker_id=1,
                broker_epoch=self.epoch,
                current_metadata_offset=self.loader.image.offset,
                want_shut_down=want_shut_down,
                cordoned_log_dirs=[],
            ),
            version=2,
        )
        assert isinstance(response, BrokerHeartbeatResponse)
        return response

    async def create(self, name: str, partitions: int = 1, **settings: str) -> CreateTopicsResponse:
        topic = CreatableTopic(name=name, num_partitions=partitions, replication_factor=1)
        topic.configs = [CreatableTopicConfig(key.replace("_", "."), value) for key, value in settings.items()]
        response = await self.controller.handle(CreateTopicsRequest(topics=[topic]), version=7)
        assert isinstance(response, CreateTopicsResponse)
        return response


LOG_DIR = Uuid.parse("EZvBZ5H5Xy8vTy_pCaxVTw")


@pytest.fixture
def machine() -> Iterator[Machine]:
    made = Machine(11)
    yield made
    made.close()


def live(machine: Machine, main: Callable[[Node], Coroutine[Any, Any, T]], config: RaftConfig | None = None) -> T:
    async def run(world: NodeWorld) -> T:
        node = Node(world, config)
        result = await main(node)
        await node.raft.stop()
        return result

    result = machine.live(run)
    assert result is not None, "the disk killed the node"
    return result


def without_place(image: Image) -> Image:
    """The image but for where it was read."""
    return replace(image, offset=-1, epoch=-1, timestamp_ms=-1)


def test_an_answer_is_given_when_its_records_are_committed_and_published(machine: Machine) -> None:
    async def main(node: Node) -> bool:
        await node.start(log_dir=LOG_DIR)
        response = await node.create("orders", 3, retention_ms="5000")
        assert response.topics[0].error_code == 0
        assert node.raft.high_watermark > node.loader.image.brokers[1].epoch
        topic = node.loader.image.topics.by_name["orders"]
        assert topic.id == response.topics[0].topic_id
        assert {partition.leader for partition in topic.partitions.values()} == {1}
        return True

    assert live(machine, main)


def test_a_restart_knows_everything_and_gives_its_own_broker_no_wait(machine: Machine) -> None:
    async def first(node: Node) -> tuple[Image, int]:
        await node.start(log_dir=LOG_DIR)
        await node.create("orders", 3, retention_ms="5000")
        await node.create("gone")
        await node.controller.handle(DeleteTopicsRequest(topic_names=["gone"], timeout_ms=10_000), version=5)
        return node.loader.image, node.epoch

    image, epoch = live(machine, first)  # ends without a shutdown: the broker is still unfenced in the log

    async def second(node: Node) -> Image:
        began_ms = node.world.clock.monotonic_ms()
        await node.start(log_dir=LOG_DIR, previous_epoch=-1)
        assert node.epoch > epoch
        assert node.world.clock.monotonic_ms() - began_ms < 2000, "no session of a dead process is waited for"
        assert (await node.create("orders")).topics[0].error_message == "Topic 'orders' already exists."
        return node.loader.image

    after = live(machine, second)
    assert after.topics.by_name.keys() == image.topics.by_name.keys() == {"orders"}
    assert after.configs == image.configs
    for index, partition in after.topics.by_name["orders"].partitions.items():
        before = image.topics.by_name["orders"].partitions[index]
        assert (partition.leader, partition.isr) == (1, (1,))
        assert partition.leader_epoch > before.leader_epoch, "a new life is a new leader epoch"


def test_a_clean_shutdown_and_start_keep_the_leaders_recovered(machine: Machine) -> None:
    async def first(node: Node) -> int:
        await node.start(log_dir=LOG_DIR)
        await node.create("orders", 2)
        assert not (await node.beat(want_shut_down=True)).should_shut_down, "it gives up its leaderships first"
        assert (await node.beat(want_shut_down=True)).should_shut_down
        assert node.loader.image.topics.by_name["orders"].partitions[0].elr == (1,)
        return node.epoch

    epoch = live(machine, first)

    async def second(node: Node) -> bool:
        await node.start(log_dir=LOG_DIR, previous_epoch=epoch)
        for partition in node.loader.image.topics.by_name["orders"].partitions.values():
            assert (partition.leader, partition.isr, partition.elr) == (1, (1,), ())
            assert partition.leader_recovery_state == 0
        return True

    assert live(machine, second)


def test_a_snapshot_takes_the_place_of_the_log(machine: Machine) -> None:
    config = RaftConfig(
        metadata_log_max_record_bytes_between_snapshots=4000,
        metadata_log_segment_bytes=2000,
        metadata_max_retention_bytes=1,
    )

    async def first(node: Node) -> Image:
        await node.start(log_dir=LOG_DIR)
        for number in range(40):
            await node.create(f"t{number}", 2, retention_ms=str(number))
        await node.world.tasks.sleep_ms(120_000)
        await node.beat()
        assert node.raft.latest_snapshot_id is not None
        assert node.raft.log_start_offset > 0, "what the snapshot has is gone from the log"
        return node.loader.image

    image = live(machine, first, config)

    async def second(node: Node) -> tuple[Image, int]:
        await node.raft.start()
        await node.raft.until_caught_up()
        assert node.loader.image.offset >= image.offset
        read = node.loader.image
        return read, node.raft.log_start_offset

    after, start_offset = live(machine, second, config)
    assert start_offset > 0
    assert without_place(after) == without_place(image)


def test_an_empty_log_gets_the_records_that_kafka_writes(tmp_path: Path, machine: Machine) -> None:
    """The golden log's first batch of metadata records, byte for byte but for its time."""
    golden = golden_data_dir(tmp_path) / "__cluster_metadata-0" / "00000000000000000000.log"
    theirs = next(batch for batch in batches(golden.read_bytes()) if not batch.is_control)

    async def main(node: Node) -> bytes:
        await node.raft.start()
        await node.raft.until_caught_up()
        await node.world.tasks.sleep_ms(100)
        file = node.world.disk.open(f"{DATA}/__cluster_metadata-0/00000000000000000000.log", read_only=True)
        data = bytes(file.read_at(0, file.size()))
        file.close()
        return data

    ours = next(batch for batch in batches(live(machine, main)) if not batch.is_control)
    assert [value for _, _, _, value, _ in ours.rows()] == [value for _, _, _, value, _ in theirs.rows()]
    assert (ours.base_offset, ours.last_offset) == (theirs.base_offset, theirs.last_offset)


def test_the_golden_log_is_led_again_by_its_broker(tmp_path: Path, machine: Machine) -> None:
    """Kafka's own directory: its topics have no leader, because it shut down; its broker returns and leads them."""
    golden = golden_data_dir(tmp_path) / "__cluster_metadata-0"
    machine.disk.make_dirs(f"{DATA}/__cluster_metadata-0")
    for path in golden.iterdir():
        file = machine.disk.open(f"{DATA}/__cluster_metadata-0/{path.name}", create=True)
        file.write_at(0, path.read_bytes())
        file.sync()
        file.close()

    async def main(node: Node) -> Image:
        await node.start(log_dir=LOG_DIR, previous_epoch=19)
        return node.loader.image

    image = live(machine, main)
    assert len(image.topics.by_name) == 12
    for topic in image.topics.by_name.values():
        for partition in topic.partitions.values():
            assert (partition.leader, partition.isr, partition.leader_epoch) == (1, (1,), 2)


def test_the_quorum_is_described_for_its_own_partition_only(machine: Machine) -> None:
    async def main(node: Node) -> list[DescribeQuorumResponse]:
        await node.raft.start()
        await node.raft.until_caught_up()
        answers = []
        for name in ("__cluster_metadata", "orders"):
            topic = DescribeQuorumRequestTopicData(name, [DescribeQuorumRequestPartitionData(0)])
            answer = await node.controller.handle(DescribeQuorumRequest(topics=[topic]), version=2)
            assert isinstance(answer, DescribeQuorumResponse)
            answers.append(answer)
        return answers

    good, bad = live(machine, main)
    assert (good.topics[0].partitions[0].error_code, good.topics[0].partitions[0].leader_id) == (0, 1)
    assert bad.topics[0].partitions[0].error_code == 3


def test_a_standby_refuses_and_the_reason_is_an_error_of_kafkas() -> None:
    cluster = Cluster()
    try:
        cluster.controller.on_resign()
        with pytest.raises(NotController):
            cluster.register(1)
        with pytest.raises(UnsupportedVersion, match="does not answer ApiVersionsRequest"):
            cluster.world.loop.run_until_complete(cluster.controller.handle(ApiVersionsRequest(), version=0))
    finally:
        cluster.close()


def test_topics_are_answered_with_their_settings_and_where_each_comes_from() -> None:
    cluster = Cluster(log_retention_ms="777")
    try:
        cluster.add_broker(1)
        topic = CreatableTopic("orders", 1, 1, configs=[CreatableTopicConfig("cleanup.policy", "compact")])
        response = cluster.ask(CreateTopicsRequest(topics=[topic]), CreateTopicsResponse)
        configs = {config.name: config for config in response.topics[0].configs or ()}
        names = [config.name for config in response.topics[0].configs or ()]
        assert names == sorted(names)
        assert (configs["cleanup.policy"].value, configs["cleanup.policy"].config_source) == ("compact", 1)
        assert (configs["retention.ms"].value, configs["retention.ms"].config_source) == ("777", 4)
        assert (configs["min.insync.replicas"].value, configs["min.insync.replicas"].config_source) == ("1", 3)
        assert configs["segment.bytes"].config_source == 5
        assert not any(config.read_only or config.is_sensitive for config in configs.values())
        old = cluster.ask(CreateTopicsRequest(topics=[CreatableTopic("b", 1, 1)]), CreateTopicsResponse, version=4)
        assert old.topics[0].error_code == 0
    finally:
        cluster.close()


def test_the_log_moves_while_nothing_happens() -> None:
    cluster = Cluster(metadata_max_idle_interval_ms="500")
    try:
        before = len(cluster.quorum.records)
        cluster.pass_ms(5100)
        fresh = cluster.quorum.records[before:]
        assert {type(record.record) for record in fresh} == {NoOpRecord}
        assert 9 <= len(fresh) <= 11
    finally:
        cluster.close()


def test_a_controller_registers_as_in_the_golden_log() -> None:
    cluster = Cluster()
    try:
        request = wire.ControllerRegistrationRequest(
            controller_id=1,
            incarnation_id=LOG_DIR,
            listeners=[wire.Listener("CONTROLLER", "localhost", 20003, 0)],
            features=[wire.Feature(name, low, high) for name, (low, high) in SUPPORTED_FEATURES.items()],
        )
        cluster.ask(request, wire.ControllerRegistrationResponse)
        record, version = cluster.fresh_records(0)[-1]
        form = to_json(record, version)
        assert json.dumps(form["endPoints"]) == (
            '[{"name": "CONTROLLER", "host": "localhost", "port": 20003, "securityProtocol": 0}]'
        )
        assert (version, form["zkMigrationReady"], len(form["features"])) == (0, False, 7)
        assert cluster.loader.image.controllers[1].features == SUPPORTED_FEATURES
    finally:
        cluster.close()


def test_an_interrupted_bootstrap_is_aborted_and_written_again() -> None:
    """The log ends inside the bootstrap transaction: Kafka may have written it in two batches and died between."""
    cluster = Cluster()
    try:
        half = Cluster()
        half.controller.on_resign()
        quorum = half.quorum
        quorum.batches.clear()
        quorum.committed_count = quorum.log_end_offset = 0
        fresh = Controller(half.world, quorum, half.config, cluster_id=CLUSTER_ID, bootstrap=bootstrap_records())
        loader = ImageLoader(CLUSTER_ID)
        quorum.listeners = [fresh, loader]
        quorum.append(
            [
                VersionedRecord(BeginTransactionRecord(name="Bootstrap records"), 0),
                VersionedRecord(FeatureLevelRecord(name="metadata.version", feature_level=20), 0),
            ]
        )
        half.settle()
        assert loader.image.offset == -1, "an open transaction is not published"
        fresh.on_leader(2)
        half.settle()
        kinds = [type(record.record).__name__ for record in quorum.records[2:5]]
        assert kinds == ["AbortTransactionRecord", "BeginTransactionRecord", "FeatureLevelRecord"]
        assert loader.image.features == cluster.loader.image.features
        assert loader.image.metadata_version == 30
        half.close()
    finally:
        cluster.close()


def test_the_gauges_show_brokers_topics_and_partitions_under_kafkas_names() -> None:
    cluster = Cluster()
    try:
        for broker_id in (1, 2, 3):
            cluster.add_broker(broker_id)
        cluster.ask(CreateTopicsRequest(topics=[CreatableTopic("a", 6, 1)]), CreateTopicsResponse)
        cluster.heartbeat(2, want_fence=True)
        cluster.heartbeat(3, want_shut_down=True)
        gauges = {(gauge.name, *gauge.tags.values()): gauge.value for gauge in cluster.controller.gauges()}
        assert gauges["ActiveControllerCount",] == 1
        assert (gauges["ActiveBrokerCount",], gauges["FencedBrokerCount",]) == (2, 1)
        assert gauges["ControlledShutdownBrokerCount",] == 1
        assert (gauges["GlobalTopicCount",], gauges["GlobalPartitionCount",]) == (1, 6)
        assert gauges["OfflinePartitionsCount",] == gauges["PreferredReplicaImbalanceCount",] == 4
        assert [gauges["BrokerRegistrationState", number] for number in "123"] == [30, 10, 20]
        assert gauges["TimeSinceLastHeartbeatReceivedMs", "1"] == 0
        assert gauges["LastCommittedRecordOffset",] == cluster.quorum.log_end_offset - 1
        facts = (GOLDEN / "kafka-facts" / "metrics.txt").read_text()
        for name, *_ in gauges:
            assert f"kafka.controller:type=KafkaController,name={name} " in facts
    finally:
        cluster.close()


def test_an_older_leader_names_its_isr_without_broker_epochs() -> None:
    cluster = Cluster()
    try:
        cluster.add_broker(1)
        cluster.add_broker(2)
        topic = CreatableTopic("a", -1, -1, assignments=[CreatableReplicaAssignment(0, [1, 2])])
        created = cluster.ask(CreateTopicsRequest(topics=[topic]), CreateTopicsResponse)
        change = AlterPartitionRequestPartitionData(partition_index=0, new_isr=[1])
        topics = [AlterPartitionRequestTopicData(created.topics[0].topic_id, [change])]
        request = AlterPartitionRequest(broker_id=1, broker_epoch=cluster.epochs[1], topics=topics)
        response = cluster.ask(request, AlterPartitionResponse, version=2)
        answered = response.topics[0].partitions[0]
        assert (answered.error_code, answered.isr, answered.partition_epoch) == (0, [1], 1)
        assert cluster.loader.image.topics.by_name["a"].partitions[0].isr == (1,)
    finally:
        cluster.close()


def test_what_goes_by_the_clock_goes_on_after_a_failure_and_ends_with_leadership(
    caplog: pytest.LogCaptureFixture,
) -> None:
    world = virtual_node_world(3)
    runs: list[int] = []

    def submit(name: str, decide: Callable[[], Result[bool]]) -> Promise[bool]:
        promise: Promise[bool] = world.tasks.promise()
        try:
            promise.set_result(decide().response)
        except Exception as error:  # noqa: BLE001  as the machine does
            promise.set_exception(error)
        return promise

    def decide() -> Result[bool]:
        runs.append(world.clock.monotonic_ms())
        if len(runs) == 2:
            raise ValueError("a mistake of ours")
        if len(runs) == 6:
            raise NotController()
        return Result(len(runs) == 4)

    began = world.clock.monotonic_ms()
    periodic = PeriodicTasks(world.tasks, submit)
    periodic.start({"task": (100, decide)})
    world.loop.run_until_complete(world.tasks.sleep_ms(1950))
    seen = [at - began for at in runs]
    assert seen[:7] == [100, 200, 300, 400, 410, 510, 610], "4 had more to do, and 6 found too much uncommitted"
    assert seen[-1] == 1910
    assert "task failed" in caplog.text
    periodic.stop()
    periodic.start({"task": (100, decide)})
    periodic.stop()
    world.loop.run_until_complete(world.tasks.sleep_ms(2000))
    assert [at - began for at in runs] == seen
    world.life.end()
    world.loop.close()
