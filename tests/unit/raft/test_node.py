"""The raft node on virtual time: elections, commits, listeners, snapshots, retention, failures."""

from __future__ import annotations

import errno
import logging
import threading
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest

from ottla.errors import KafkaStorageError, NotController, RecordListTooLarge
from ottla.raft import (
    CommittedBatch,
    DamagedSnapshot,
    LeaderAndEpoch,
    RaftConfig,
    RaftNode,
    SnapshotId,
    VoterSet,
    format_directory,
)
from ottla.raft.batches import decode_control, encode_control_batch
from ottla.raft.driver import MAINTENANCE_INTERVAL_MS
from ottla.records import batches
from ottla.types import ZERO_UUID, Uuid
from ottla.wire import decode, encode
from ottla.wire.messages.describe_quorum import DescribeQuorumResponse
from ottla.wire.metadata import NoOpRecord, VersionedRecord
from ottla.world import Address, NodeWorld
from ottla.world.system_loop import run_node
from tests.support.golden import golden_data_dir
from tests.unit.raft.kafka_bytes import FIRST_BATCH, QUORUM_STATE
from tests.unit.raft.nodes import DATA, DIRECTORY_ID, LISTENERS, STATIC, Machine, Recorder, numbers, raft_node, record

METADATA = f"{DATA}/__cluster_metadata-0"
SMALL = RaftConfig(metadata_log_segment_bytes=2000, metadata_max_retention_bytes=4000)

Main = Callable[[NodeWorld], Coroutine[Any, Any, None]]


@pytest.fixture
def machine() -> Machine:
    return Machine(1)


def live(machine: Machine, main: Main) -> None:
    """One life that is not to die."""

    async def whole(world: NodeWorld) -> bool:
        await main(world)
        return True

    assert machine.live(whole), machine.disk.trace()


async def started(world: NodeWorld, **given: Any) -> tuple[RaftNode, Recorder]:
    raft, recorder = raft_node(world, **given), Recorder()
    raft.subscribe(recorder)
    await raft.start()
    await raft.until_caught_up()
    return raft, recorder


# Elections and commits


def test_the_only_voter_leads_when_it_has_started(machine: Machine) -> None:
    async def main(world: NodeWorld) -> None:
        raft, recorder = await started(world)
        assert (raft.is_leader, raft.leader_id, raft.epoch) == (True, 1, 1)
        assert (raft.high_watermark, raft.log_end_offset) == (1, 1)
        assert recorder.events == ["commit to 0", "leader 1"]
        assert recorder.batches[0].records == []
        await raft.stop()
        assert recorder.events[-1] == "resign"
        assert not raft.is_leader

    live(machine, main)
    assert machine.disk.read(f"{METADATA}/leader-epoch-checkpoint") == b"0\n1\n1 0\n"
    assert b'"leaderId":1,"leaderEpoch":1,"votedId":-1' in machine.disk.read(f"{METADATA}/quorum-state")


def test_each_start_is_a_new_epoch_and_everything_is_told_again(machine: Machine) -> None:
    for life in range(1, 5):

        async def main(world: NodeWorld, life: int = life) -> None:
            raft, recorder = await started(world)
            assert recorder.epochs == [life]
            assert numbers(recorder.records) == list(range(1, life))
            raft.append([record(life)])
            await raft.stop()
            assert numbers(recorder.records) == list(range(1, life + 1))

        live(machine, main)


def test_a_batch_is_told_when_it_is_on_the_device_and_not_before(machine: Machine) -> None:
    async def main(world: NodeWorld) -> None:
        raft, recorder = await started(world)
        assert raft.append([record(1), VersionedRecord(NoOpRecord(), 0), record(2)]) == 3
        assert (raft.log_end_offset, raft.high_watermark) == (4, 1)
        syncs = machine.disk.counts["sync"]
        while raft.high_watermark < 4:
            assert recorder.end_offset == 1
            await world.tasks.sleep_ms(0.1)
        assert machine.disk.counts["sync"] == syncs + 1, "one file, once"
        [batch] = recorder.batches[1:]
        assert (batch.base_offset, batch.last_offset, batch.epoch) == (1, 3, 1)
        assert [version for _, version in batch.records] == [0, 0, 0]
        assert numbers(recorder.records) == [1, 2]
        await raft.stop()

    live(machine, main)


def test_many_appends_share_a_sync(machine: Machine) -> None:
    async def main(world: NodeWorld) -> None:
        raft, recorder = await started(world)
        syncs = machine.disk.counts["sync"]
        for number in range(100):
            raft.append([record(number)])
        while raft.high_watermark < raft.log_end_offset:
            await world.tasks.sleep_ms(1)
        assert machine.disk.counts["sync"] == syncs + 1
        assert numbers(recorder.records) == list(range(100))
        assert len(recorder.batches) == 101, "each append is a batch"
        await raft.stop()

    live(machine, main)


def test_what_is_appended_during_a_sync_waits_for_the_next(machine: Machine) -> None:
    async def main(world: NodeWorld) -> None:
        raft, recorder = await started(world)
        for number in range(300):
            raft.append([record(number)])
            await world.tasks.sleep_ms(0.05)
        await raft.stop()
        assert numbers(recorder.records) == list(range(300))
        told = [event for event in recorder.events if event.startswith("commit")]
        assert 2 < len(told) < 150, "several shared each sync"

    live(machine, main)


def test_a_node_that_does_not_lead_refuses_an_append(machine: Machine) -> None:
    async def main(world: NodeWorld) -> None:
        raft, _ = await started(world)
        await raft.stop()
        with pytest.raises(NotController):
            raft.append([record(1)])

    live(machine, main)


def test_a_batch_that_is_too_large_is_refused_and_leaves_no_trace(machine: Machine) -> None:
    async def main(world: NodeWorld) -> None:
        raft, recorder = await started(world)
        with pytest.raises(RecordListTooLarge):
            raft.append([record(number, size=30_000) for number in range(300)])
        assert raft.log_end_offset == 1
        raft.append([record(7)])
        await raft.stop()
        assert numbers(recorder.records) == [7]

    live(machine, main)


def test_a_leader_that_resigns_is_elected_again_in_a_new_epoch(machine: Machine) -> None:
    """What it appended last was in the log, so the new epoch commits it. Two epochs on: as Kafka's, a leader that has
    resigned leaves its epoch first and then stands for election."""

    async def main(world: NodeWorld) -> None:
        raft, recorder = await started(world)
        raft.append([record(1)])
        raft.resign("a test")
        with pytest.raises(NotController):
            raft.append([record(2)])
        await world.tasks.sleep_ms(500)
        assert recorder.events == ["commit to 0", "leader 1", "resign"]
        assert raft.leader_id == -1
        await world.tasks.sleep_ms(2000)
        assert recorder.events[3:] == ["commit to 2", "leader 3"]
        assert numbers(recorder.records) == [1]
        raft.append([record(3)])
        await raft.stop()
        assert numbers(recorder.records) == [1, 3]

    live(machine, main)


def test_who_leads_which_epoch_is_watched(machine: Machine) -> None:
    async def main(world: NodeWorld) -> None:
        raft = raft_node(world)
        told: list[LeaderAndEpoch] = []
        raft.watch(told.append)
        await raft.start()
        await raft.until_caught_up()
        assert told == [(1, 1)]
        raft.resign("a test")
        await world.tasks.sleep_ms(3000)
        assert told == [(1, 1), (-1, 1), (1, 3)]
        late: list[LeaderAndEpoch] = []
        raft.watch(late.append)
        assert late == [(1, 3)]
        await raft.stop()

    live(machine, main)


# Listeners


def test_a_listener_that_comes_late_is_told_everything(machine: Machine) -> None:
    async def main(world: NodeWorld) -> None:
        raft, early = await started(world)
        for number in range(50):
            raft.append([record(number)])
        late = Recorder()
        raft.subscribe(late)
        raft.append([record(50)])
        await world.tasks.sleep_ms(500)
        raft.append([record(51)])
        await raft.stop()
        assert numbers(late.records) == list(range(52))
        assert late.records == early.records
        assert late.events.index("leader 1") > 0
        assert late.events[-1] == "resign"

    live(machine, main)


def test_a_listener_that_raises_ends_the_node(machine: Machine, caplog: pytest.LogCaptureFixture) -> None:
    class Broken(Recorder):
        def on_commit(self, batches: list[CommittedBatch]) -> None:
            if any(batch.records for batch in batches):
                raise ValueError("cannot replay this")

    failures: list[BaseException] = []

    async def main(world: NodeWorld) -> None:
        raft, recorder = raft_node(world, on_failure=failures.append), Recorder()
        raft.subscribe(recorder)
        raft.subscribe(Broken())
        await raft.start()
        await raft.until_caught_up()
        raft.append([record(1)])
        await world.tasks.sleep_ms(500)
        assert str(failures[0]) == "cannot replay this"
        assert recorder.events[-1] == "resign"
        with pytest.raises(NotController):
            raft.append([record(2)])
        await raft.stop()

    with caplog.at_level(logging.ERROR):
        live(machine, main)
    assert len(failures) == 1
    assert "cannot be used any more" in caplog.text


@pytest.mark.parametrize("kind", ["write", "sync"])
def test_a_device_that_fails_ends_the_leadership_and_loses_nothing_committed(
    machine: Machine, kind: str, caplog: pytest.LogCaptureFixture
) -> None:
    committed: list[int] = []
    failures: list[BaseException] = []

    async def main(world: NodeWorld) -> None:
        raft, recorder = await started(world, on_failure=failures.append)
        machine.disk.fail_at(5, errno.EIO, kinds=[kind])  # type: ignore[list-item]
        refused = 0
        for number in range(20):
            try:
                raft.append([record(number)])
            except (NotController, KafkaStorageError):
                refused += 1
            await world.tasks.sleep_ms(10)
        assert refused > 10
        committed.extend(numbers(recorder.records))
        assert recorder.events[-1] == "resign"
        assert not raft.is_leader
        with pytest.raises(KafkaStorageError):
            await raft.create_snapshot(1, 1, [])
        await raft.stop()

    async def again(world: NodeWorld) -> None:
        raft, recorder = await started(world)
        assert numbers(recorder.records)[: len(committed)] == committed
        await raft.stop()

    with caplog.at_level(logging.ERROR):
        live(machine, main)
    assert committed, "some were committed before"
    assert len(failures) == 1
    machine.disk.crash()
    live(machine, again)


# Snapshots and retention


def test_a_snapshot_takes_the_place_of_what_it_holds(machine: Machine) -> None:
    async def main(world: NodeWorld) -> None:
        raft, recorder = await started(world)
        for number in range(1000):
            raft.append([record(number)])
        await world.tasks.sleep_ms(500)
        offset = raft.high_watermark
        made = await raft.create_snapshot(offset, raft.epoch, recorder.records)
        assert made == raft.latest_snapshot_id == SnapshotId(1001, 1)
        assert await raft.create_snapshot(offset, raft.epoch, []) is None, "there is one"
        raft.append([record(1000)])
        await raft.stop()

    async def again(world: NodeWorld) -> None:
        raft, recorder = await started(world)
        assert recorder.events[:2] == ["snapshot to 1000", "commit to 1002"]
        assert (recorder.snapshot_epoch, len(recorder.snapshot)) == (1, 1000)
        assert numbers(recorder.records) == list(range(1001))
        await raft.stop()

    live(machine, main)
    live(machine, again)


def test_a_snapshot_of_what_is_not_committed_or_of_another_epoch_is_refused(machine: Machine) -> None:
    async def main(world: NodeWorld) -> None:
        raft, _ = await started(world)
        raft.append([record(1), record(2)])
        with pytest.raises(ValueError, match="not committed"):
            await raft.create_snapshot(3, 1, [])
        await world.tasks.sleep_ms(500)
        with pytest.raises(ValueError, match="epoch 2"):
            await raft.create_snapshot(3, 2, [])
        with pytest.raises(AssertionError, match="inside a batch"):
            await raft.create_snapshot(2, 1, [])
        assert raft.latest_snapshot_id is None
        await raft.stop()

    live(machine, main)
    assert not [name for name in machine.disk.names(METADATA) if "checkpoint.part" in name]


def test_a_snapshot_that_a_stop_interrupts_leaves_nothing(machine: Machine) -> None:
    async def main(world: NodeWorld) -> None:
        raft, _ = await started(world)
        raft.append([record(1)])
        await world.tasks.sleep_ms(500)
        made = world.tasks.spawn(raft.create_snapshot(2, 1, [record(1)] * 1000), "snapshot")
        await world.tasks.sleep_ms(0)
        assert await raft.create_snapshot(2, 1, []) is None, "one at a time"
        await raft.stop()
        assert await made is None

    live(machine, main)
    assert not [name for name in machine.disk.names(METADATA) if ".checkpoint" in name]


def test_a_damaged_snapshot_stops_the_start(machine: Machine) -> None:
    async def main(world: NodeWorld) -> None:
        raft, _ = await started(world)
        raft.append([record(1)])
        await world.tasks.sleep_ms(500)
        await raft.create_snapshot(2, 1, [record(1)])
        await raft.stop()

    async def again(world: NodeWorld) -> None:
        with pytest.raises(DamagedSnapshot, match=SnapshotId(2, 1).name):
            await raft_node(world).start()

    live(machine, main)
    machine.disk.open(f"{METADATA}/{SnapshotId(2, 1).name}").truncate(50)
    live(machine, again)


def test_a_snapshot_is_due_by_bytes_and_by_time(machine: Machine) -> None:
    config = RaftConfig(
        metadata_log_max_record_bytes_between_snapshots=1000, metadata_log_max_snapshot_interval_ms=120_000
    )

    async def main(world: NodeWorld) -> None:
        raft, recorder = await started(world, config=config)
        due = [raft.snapshot_due]
        for number in range(15):
            raft.append([record(number)])
        due.append(raft.snapshot_due)
        await world.tasks.sleep_ms(500)
        await raft.create_snapshot(raft.high_watermark, raft.epoch, recorder.records)
        due.append(raft.snapshot_due)
        await world.tasks.sleep_ms(130_000)
        due.append(raft.snapshot_due)
        raft.append([record(15)])
        due.append(raft.snapshot_due)
        await raft.stop()
        due.append(raft.snapshot_due)
        by_bytes, by_time = "we have replayed at least 1000 bytes", "we have waited at least 2 minute(s)"
        assert due == [None, by_bytes, None, None, by_time, None], "time alone is no reason: there is nothing new"

    async def again(world: NodeWorld) -> None:
        raft, _ = await started(world, config=config._replace(metadata_log_max_record_bytes_between_snapshots=150))
        assert raft.snapshot_due is not None, "what the log has behind its snapshot counts"
        await raft.stop()

    live(machine, main)
    live(machine, again)


def test_old_snapshots_and_segments_go_by_size(machine: Machine) -> None:
    async def main(world: NodeWorld) -> None:
        raft, recorder = await started(world, config=SMALL)
        for round in range(6):
            for number in range(20):
                raft.append([record(round * 20 + number)])
            await world.tasks.sleep_ms(500)
            # A state that does not grow, as that of topics created and deleted.
            await raft.create_snapshot(raft.high_watermark, raft.epoch, recorder.records[-5:])
            await world.tasks.sleep_ms(500)
        assert raft.log_start_offset > 60
        names = machine.disk.names(METADATA)
        assert f"{0:020d}.log.deleted" in names, "marked now"
        assert any(name.endswith(".checkpoint.deleted") for name in names)
        await world.tasks.sleep_ms(3 * MAINTENANCE_INTERVAL_MS)
        assert not [name for name in machine.disk.names(METADATA) if name.endswith(".deleted")], "and removed later"
        late = Recorder()
        raft.subscribe(late)
        await world.tasks.sleep_ms(500)
        assert late.end_offset == raft.high_watermark
        await raft.stop()

    async def again(world: NodeWorld) -> None:
        raft, recorder = await started(world, config=SMALL)
        assert recorder.snapshot
        assert recorder.end_offset == raft.high_watermark
        await raft.stop()

    live(machine, main)
    live(machine, again)
    checkpoints = [name for name in machine.disk.names(METADATA) if name.endswith(".checkpoint")]
    size = sum(machine.disk.size(f"{METADATA}/{name}") for name in checkpoints)
    size += sum(machine.disk.size(f"{METADATA}/{name}") for name in machine.disk.names(METADATA) if ".log" in name)
    assert size <= 4000 + 2000, "the limit, and the segment that is still open"


def test_old_snapshots_go_by_age_and_the_latest_stays(machine: Machine) -> None:
    config = RaftConfig(metadata_max_retention_ms=600_000)

    async def main(world: NodeWorld) -> None:
        raft, _ = await started(world, config=config)
        made = []
        for number in range(3):
            raft.append([record(number)])
            await world.tasks.sleep_ms(100)
            made.append(await raft.create_snapshot(raft.high_watermark, raft.epoch, [record(number)]))
        await world.tasks.sleep_ms(500_000)
        assert raft.log_start_offset == 0
        await world.tasks.sleep_ms(200_000)
        assert made[-1] is not None
        assert (raft.log_start_offset, raft.latest_snapshot_id) == (made[-1].offset, made[-1])
        await raft.stop()

    live(machine, main)
    assert [name for name in machine.disk.names(METADATA) if name.endswith(".checkpoint")] == [SnapshotId(4, 1).name]


def test_leftovers_of_snapshots_are_removed_at_the_start(machine: Machine) -> None:
    async def main(world: NodeWorld) -> None:
        raft, _ = await started(world)
        await raft.stop()

    live(machine, main)
    for name in (f"{SnapshotId(5, 1).name}.part", f"{SnapshotId(1, 1).name}.deleted"):
        machine.disk.open(f"{METADATA}/{name}", create=True).close()
    live(machine, main)
    assert not [name for name in machine.disk.names(METADATA) if name.endswith((".part", ".deleted"))]


def test_a_log_that_begins_late_and_has_no_snapshot_is_refused(machine: Machine) -> None:
    async def main(world: NodeWorld) -> None:
        raft, _ = await started(world, config=SMALL)
        for number in range(100):
            raft.append([record(number)])
        await raft.stop()

    async def again(world: NodeWorld) -> None:
        with pytest.raises(ValueError, match="has no snapshot of what came before"):
            await raft_node(world, config=SMALL).start()

    live(machine, main)
    machine.disk.remove(f"{METADATA}/{0:020d}.log")
    live(machine, again)


# Voters in the log


def standalone(machine: Machine) -> None:
    async def main(world: NodeWorld) -> None:
        format_directory(world, DATA, [], voters=VoterSet.standalone(1, DIRECTORY_ID, LISTENERS))

    live(machine, main)


def test_after_a_standalone_format_the_first_batch_has_the_voters(machine: Machine) -> None:
    standalone(machine)

    async def main(world: NodeWorld) -> None:
        raft, recorder = await started(world, voters=VoterSet({}))
        assert (raft.kraft_version, raft.voters.ids) == (1, [1])
        assert recorder.events == ["snapshot to -1", "commit to 2", "leader 1"]
        await raft.stop()

    async def again(world: NodeWorld) -> None:
        raft, recorder = await started(world, voters=VoterSet({}))
        assert recorder.events[1:] == ["commit to 3", "leader 2"], "the voters are not written again"
        made = await raft.create_snapshot(raft.high_watermark, raft.epoch, [])
        assert made == SnapshotId(4, 2)
        await raft.stop()

    async def third(world: NodeWorld) -> None:
        raft, recorder = await started(world, voters=VoterSet({}))
        assert (raft.kraft_version, raft.voters.ids) == (1, [1]), "the snapshot has them"
        assert recorder.events == ["snapshot to 3", "commit to 4", "leader 3"]
        await raft.stop()

    live(machine, main)
    state = machine.disk.read(f"{METADATA}/quorum-state")
    assert state == QUORUM_STATE.replace(b'"leaderId":7', b'"leaderId":1')
    live(machine, again)
    live(machine, third)


def test_the_first_batch_is_kafkas_byte_for_byte(machine: Machine) -> None:
    """The same node, directory and listener as the Kafka that wrote it; the time alone is its own."""
    listeners = {"CONTROLLER": Address("localhost", 29193)}
    directory_id = Uuid.parse("WHXibE18TiS5P16Jrmao6g")

    async def main(world: NodeWorld) -> None:
        format_directory(world, DATA, [], voters=VoterSet.standalone(7, directory_id, listeners))
        raft = RaftNode(
            world, RaftConfig(), DATA, node_id=7, directory_id=directory_id, voters=VoterSet({}), listeners=listeners
        )
        await raft.start()
        await raft.until_caught_up()
        await raft.stop()

    live(machine, main)
    data = machine.disk.read(f"{METADATA}/{0:020d}.log")
    messages = [message for _, message in decode_control(next(batches(FIRST_BATCH)))]
    timestamp = next(batches(data)).base_timestamp
    assert data == encode_control_batch(messages, base_offset=0, epoch=1, timestamp=timestamp)
    assert len(data) == len(FIRST_BATCH)


def test_a_node_that_is_reached_elsewhere_writes_its_voters_anew(machine: Machine) -> None:
    standalone(machine)
    moved = {"CONTROLLER": Address("elsewhere", 19093)}

    async def main(world: NodeWorld) -> None:
        raft, _ = await started(world, voters=VoterSet({}))
        await raft.stop()

    async def again(world: NodeWorld) -> None:
        raft = RaftNode(
            world, RaftConfig(), DATA, node_id=1, directory_id=DIRECTORY_ID, voters=VoterSet({}), listeners=moved
        )
        await raft.start()
        await raft.until_caught_up()
        assert raft.log_end_offset == 6, "three records more"
        assert raft.voters.nodes[1].listeners == moved
        await raft.stop()

    live(machine, main)
    live(machine, again)


# DescribeQuorum


def test_the_quorum_is_described_as_kafka_describes_one_voter(machine: Machine) -> None:
    async def main(world: NodeWorld) -> None:
        raft, _ = await started(world)
        raft.append([record(1)])
        now_ms = world.clock.now_ms()
        response = raft.describe_quorum()
        [topic] = response.topics
        [partition] = topic.partitions
        assert (topic.topic_name, partition.partition_index, partition.error_code) == ("__cluster_metadata", 0, 0)
        assert (partition.leader_id, partition.leader_epoch, partition.high_watermark) == (1, 1, 1)
        [voter] = partition.current_voters
        assert (voter.replica_id, voter.replica_directory_id, voter.log_end_offset) == (1, ZERO_UUID, 2)
        assert voter.last_fetch_timestamp == voter.last_caught_up_timestamp == now_ms
        assert partition.observers == []
        [node] = response.nodes
        assert [(node.node_id, found.name, found.host, found.port) for found in node.listeners] == [
            (1, "CONTROLLER", "localhost", 9093)
        ]
        for version in range(3):
            described = raft.describe_quorum(version)
            assert decode(DescribeQuorumResponse, version, encode(described, version)).topics
        await raft.stop()
        [partition] = raft.describe_quorum().topics[0].partitions
        assert partition.error_code == 6

    live(machine, main)


def test_a_voter_of_the_log_is_described_with_its_directory(machine: Machine) -> None:
    standalone(machine)

    async def main(world: NodeWorld) -> None:
        raft, _ = await started(world, voters=VoterSet({}))
        [voter] = raft.describe_quorum().topics[0].partitions[0].current_voters
        assert voter.replica_directory_id == DIRECTORY_ID
        await raft.stop()

    live(machine, main)


# The real world


def test_the_golden_directory_is_opened_and_led_on(tmp_path: Path) -> None:
    """Every record that Kafka wrote is told, the log grows behind it, and the bytes before stay as they were."""
    directory = golden_data_dir(tmp_path)
    path = directory / "__cluster_metadata-0" / f"{0:020d}.log"
    golden = path.read_bytes()
    recorder = Recorder()

    async def main(world: NodeWorld, _: object) -> None:
        raft = RaftNode(
            world,
            RaftConfig(),
            str(directory),
            node_id=1,
            directory_id=Uuid.parse("EZvBZ5H5Xy8vTy_pCaxVTw"),
            voters=STATIC,
            listeners=LISTENERS,
        )
        raft.subscribe(recorder)
        await raft.start()
        await raft.until_caught_up()
        assert (raft.epoch, raft.log_end_offset) == (2, 483)
        assert raft.append([NoOpRecord()]) == 483
        await raft.stop()

    run_node(main)
    assert len(recorder.records) == 482
    assert [batch.epoch for batch in recorder.batches[-3:]] == [1, 2, 2]
    written = path.read_bytes()
    assert written[: len(golden)] == golden
    assert [batch.base_offset for batch in batches(written[len(golden) :])] == [482, 483]


def test_an_election_does_not_wait_for_threads_that_others_keep_busy(tmp_path: Path) -> None:
    """A cleaner, or a device that hangs, may hold every thread that there is for blocking calls."""

    async def main(world: NodeWorld, _: object) -> None:
        gate = threading.Event()
        busy = [world.tasks.in_thread(gate.wait) for _ in range(64)]
        raft = RaftNode(
            world,
            RaftConfig(),
            str(tmp_path),
            node_id=1,
            directory_id=DIRECTORY_ID,
            voters=STATIC,
            listeners=LISTENERS,
        )
        try:
            await raft.start()
            await raft.until_caught_up()
            raft.append([record(1)])
        finally:
            gate.set()
        await raft.stop()
        for waiting in busy:
            await waiting

    run_node(main)
