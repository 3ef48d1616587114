"""A real Kafka as the judge: its tools and classes read what Ottla wrote, and Ottla starts on what they formatted."""

from __future__ import annotations

from pathlib import Path

import pytest

from ottla.cli.main import main as ottla
from ottla.raft import RaftConfig, RaftNode, SnapshotId, VoterSet, format_directory, read_bootstrap
from ottla.types import Uuid
from ottla.wire.metadata import FeatureLevelRecord, NoOpRecord, TopicRecord
from ottla.world import Address, NodeWorld
from ottla.world.system_loop import run_node
from tests.support.kafka import run_java
from tests.unit.raft.nodes import Recorder, numbers, record

pytestmark = pytest.mark.java

ORACLE = Path(__file__).parent / "RaftOracle.java"
DIRECTORY_ID = Uuid(b"a directory's id")
LISTENERS = {"CONTROLLER": Address("localhost", 9093)}


def write_directory(directory: Path) -> Path:
    """A standalone directory with two epochs, several segments and a snapshot; its metadata directory."""

    async def main(world: NodeWorld, _: object) -> None:
        voters = VoterSet.standalone(1, DIRECTORY_ID, LISTENERS)
        format_directory(world, str(directory), [FeatureLevelRecord(name="metadata.version", feature_level=30)],
                         voters=voters)  # fmt: skip
        for life in range(2):
            raft, recorder = node(world, directory), Recorder()
            raft.subscribe(recorder)
            await raft.start()
            await raft.until_caught_up()
            for number in range(100):
                raft.append([record(life * 100 + number), NoOpRecord()])
            raft.append([TopicRecord(name="orders", topic_id=Uuid(b"0123456789abcdef"))])
            while raft.high_watermark < raft.log_end_offset:
                await world.tasks.sleep_ms(1)
            await raft.create_snapshot(raft.high_watermark, raft.epoch, recorder.records)
            raft.append([NoOpRecord()])
            await raft.stop()

    run_node(main)
    return directory / "__cluster_metadata-0"


def node(world: NodeWorld, directory: Path, node_id: int = 1, directory_id: Uuid = DIRECTORY_ID) -> RaftNode:
    return RaftNode(
        world,
        RaftConfig(metadata_log_segment_bytes=8000),
        str(directory),
        node_id=node_id,
        directory_id=directory_id,
        voters=VoterSet({}),
        listeners=LISTENERS,
    )


def test_kafkas_dump_tool_reads_the_log_and_the_snapshots(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """And prints what `ottla dump-log` prints of them."""
    directory = write_directory(tmp_path)
    files = ",".join(str(path) for path in sorted([*directory.glob("*.log"), *directory.glob("*.checkpoint")]))
    arguments = ["--cluster-metadata-decoder", "--files", files]
    dumped = run_java("org.apache.kafka.tools.DumpLogSegments", arguments)
    assert dumped.returncode == 0, dumped.stderr
    assert dumped.stdout.count("isvalid: true") == dumped.stdout.count("baseOffset: ") > 200
    assert dumped.stdout.count("LeaderChange: ") == 2
    assert dumped.stdout.count("KRaftVoters ") == 4, "in the format's snapshot, the log, and both snapshots"
    assert "SnapshotFooter" in dumped.stdout
    assert not [line for line in dumped.stdout.splitlines() if "rror" in line or "xception" in line]
    with pytest.raises(SystemExit) as ended:
        ottla(["dump-log", *arguments])
    assert ended.value.code in (None, 0)
    assert capsys.readouterr().out == dumped.stdout


def test_kafkas_own_classes_read_the_election_and_the_snapshots(tmp_path: Path) -> None:
    directory = write_directory(tmp_path)
    read = run_java(str(ORACLE), [str(directory)])
    assert read.returncode == 0, read.stderr
    lines = read.stdout.splitlines()
    assert lines[0] == "election epoch=2 leader=1 voted=-1"
    assert [line.split(" timestamp")[0] for line in lines if line.startswith("snapshot")] == [
        "snapshot 0-0",
        "snapshot 204-1",
        "snapshot 407-2",
    ]
    assert lines.count("  ConfigRecord 0") == 100 + 200
    assert lines.count("  NoOpRecord 0") == 100 + 201
    assert lines.count("  TopicRecord 0") == 1 + 2
    assert lines.count("  control KRAFT_VOTERS") == 3


def test_ottla_leads_what_kafkas_storage_tool_formatted(tmp_path: Path) -> None:
    data = tmp_path / "data"
    properties = tmp_path / "server.properties"
    properties.write_text(
        f"process.roles=broker,controller\nnode.id=5\nlog.dirs={data}\n"
        "listeners=PLAINTEXT://localhost:9092,CONTROLLER://localhost:9093\n"
        "controller.listener.names=CONTROLLER\ncontroller.quorum.bootstrap.servers=localhost:9093\n"
        "listener.security.protocol.map=PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT\n"
    )
    made = run_java(
        "kafka.tools.StorageTool", ["format", "--standalone", "-t", "WdKyKKmQSAiEX4-qKEX5tw", "-c", str(properties)]
    )
    assert made.returncode == 0, made.stdout + made.stderr
    [directory_id] = [
        Uuid.parse(line.partition("=")[2])
        for line in (data / "meta.properties").read_text().splitlines()
        if line.startswith("directory.id=")
    ]
    recorder = Recorder()

    async def main(world: NodeWorld, _: object) -> None:
        bootstrap = read_bootstrap(world, str(data))
        assert bootstrap is not None
        raft = node(world, data, 5, directory_id)
        raft.subscribe(recorder)
        await raft.start()
        await raft.until_caught_up()
        assert (raft.kraft_version, raft.epoch) == (1, 1)
        assert raft.voters == VoterSet.standalone(5, directory_id, LISTENERS)
        assert raft.latest_snapshot_id == SnapshotId(0, 0)
        raft.append([*bootstrap, record(1)])
        await raft.stop()

    run_node(main)
    assert numbers(recorder.records) == [1]
    levels = {r.name: r.feature_level for r in recorder.records if isinstance(r, FeatureLevelRecord)}
    assert levels["metadata.version"] == 30
