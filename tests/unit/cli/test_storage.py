"""`ottla storage` against what `kafka-storage` 4.3.1 prints and writes (tests/golden/config)."""

from __future__ import annotations

import json
import lzma
import socket
import struct
import subprocess
import time
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from ottla.cli.main import main
from ottla.cli.storage_format import bootstrap_records
from ottla.raft import read_snapshot_file
from ottla.storage import MetaProperties, read_meta_properties
from ottla.types import Uuid
from ottla.world.system import SystemDisk
from tests.support.golden import GOLDEN
from tests.support.kafka import kafka_classpath, run_java

CLUSTER_ID = "9i0_JSaRSF6dr5bWoMQO8g"
FORMATTED = GOLDEN / "config" / "formatted"
SNAPSHOT = "00000000000000000000-0000000000.checkpoint"
FEATURES = (
    "Bootstrap metadata: BootstrapMetadata(records=["
    "ApiMessageAndVersion(FeatureLevelRecord(name='metadata.version', featureLevel=30) at version 0), "
    "ApiMessageAndVersion(FeatureLevelRecord(name='eligible.leader.replicas.version', featureLevel=1) at version 0), "
    "ApiMessageAndVersion(FeatureLevelRecord(name='group.version', featureLevel=1) at version 0), "
    "ApiMessageAndVersion(FeatureLevelRecord(name='share.version', featureLevel=1) at version 0), "
    "ApiMessageAndVersion(FeatureLevelRecord(name='streams.version', featureLevel=1) at version 0), "
    "ApiMessageAndVersion(FeatureLevelRecord(name='transaction.version', featureLevel=2) at version 0)], "
    "metadataVersionLevel=30, source=format command)\n"
)


def run(*arguments: str) -> Result:
    return CliRunner().invoke(main, ["storage", *arguments])


def write_config(directory: Path, **changes: str | None) -> str:
    """A `server.properties` in the directory; `log_dirs="x"` sets `log.dirs`, None takes a setting away."""
    settings: dict[str, str | None] = {
        "process.roles": "broker,controller",
        "node.id": "1",
        "listeners": "PLAINTEXT://127.0.0.1:29192,CONTROLLER://127.0.0.1:29193",
        "controller.listener.names": "CONTROLLER",
        "controller.quorum.bootstrap.servers": "127.0.0.1:29193",
        "log.dirs": str(directory / "data"),
    }
    settings.update({name.replace("_", "."): value for name, value in changes.items()})
    path = directory / "server.properties"
    path.write_text("".join(f"{name}={value}\n" for name, value in settings.items() if value is not None))
    return str(path)


def properties(directory: Path) -> MetaProperties:
    found = read_meta_properties(SystemDisk(), str(directory))
    assert found is not None
    return found


def masked(data: bytes, directory_id: Uuid) -> bytes:
    """A snapshot file without what no two of them share: checksums, times and the directory's id."""
    masked = bytearray(data.replace(directory_id, bytes(16)))
    position = 0
    while position < len(masked):
        (size,) = struct.unpack_from(">i", masked, position + 8)
        masked[position + 17 : position + 21] = bytes(4)
        masked[position + 27 : position + 43] = bytes(16)
        position += 12 + size
    return bytes(masked)


def without_log_time(data: bytes) -> bytes:
    """The time of the last record that a snapshot covers, in its first record: a `--standalone` one says now."""
    return data[:73] + bytes(8) + data[81:]


def test_standalone_writes_kafkas_bytes(tmp_path: Path) -> None:
    config = write_config(tmp_path)
    result = run("format", "-t", CLUSTER_ID, "-c", config, "--standalone")
    data = tmp_path / "data"
    formatting = f"Formatting dynamic metadata voter directory {data} with metadata.version 4.3-IV0.\n"
    assert (result.exit_code, result.stdout) == (0, FEATURES + formatting)

    own = properties(data)
    kafkas = properties(FORMATTED)
    assert own.directory_id is not None
    assert kafkas.directory_id is not None
    assert own == MetaProperties(CLUSTER_ID, 1, own.directory_id)
    ours, theirs = (data / "bootstrap.checkpoint").read_bytes(), (FORMATTED / "bootstrap.checkpoint").read_bytes()
    assert masked(ours, own.directory_id) == masked(theirs, kafkas.directory_id)
    ours, theirs = (data / "__cluster_metadata-0" / SNAPSHOT).read_bytes(), (FORMATTED / SNAPSHOT).read_bytes()
    assert without_log_time(masked(ours, own.directory_id)) == without_log_time(masked(theirs, kafkas.directory_id))
    text = (data / "meta.properties").read_text().replace(str(own.directory_id), str(kafkas.directory_id))
    assert text.splitlines()[2:] == (FORMATTED / "meta.properties").read_text().splitlines()[2:]
    assert sorted(path.name for path in data.iterdir()) == [
        "__cluster_metadata-0",
        "bootstrap.checkpoint",
        "meta.properties",
    ]


def test_a_fixed_quorum_needs_no_snapshot(tmp_path: Path) -> None:
    voters = {"controller_quorum_voters": "1@127.0.0.1:29193", "controller_quorum_bootstrap_servers": None}
    result = run("format", "-t", CLUSTER_ID, "-c", write_config(tmp_path, **voters))
    assert result.stdout.endswith(f"Formatting metadata directory {tmp_path / 'data'} with metadata.version 4.3-IV0.\n")
    assert sorted(path.name for path in (tmp_path / "data").iterdir()) == ["bootstrap.checkpoint", "meta.properties"]


def test_every_directory_is_formatted_and_each_has_an_id_of_its_own(tmp_path: Path) -> None:
    names = [tmp_path / name for name in ("a", "b", "m")]
    config = write_config(tmp_path, log_dirs=f"{names[0]},{names[1]}", metadata_log_dir=str(names[2]))
    result = run("format", "--cluster-id", CLUSTER_ID, "--config", config, "--no-initial-controllers")
    assert result.stdout.splitlines()[1:] == [
        f"Formatting data directory {names[0]} with metadata.version 4.3-IV0.",
        f"Formatting data directory {names[1]} with metadata.version 4.3-IV0.",
        f"Formatting metadata directory {names[2]} with metadata.version 4.3-IV0.",
    ]
    assert len({properties(name).directory_id for name in names}) == 3


def test_initial_controllers_are_the_voters_of_the_log(tmp_path: Path) -> None:
    ids = [run("random-uuid").stdout.strip() for _ in range(2)]
    voters = f"1@127.0.0.1:29193:{ids[0]},2@[::1]:29194:{ids[1]}"
    result = run("format", "-t", CLUSTER_ID, "-c", write_config(tmp_path), "--initial-controllers", voters)
    assert "dynamic metadata voter directory" in result.stdout
    assert str(properties(tmp_path / "data").directory_id) == ids[0]
    snapshot = read_snapshot_file(SystemDisk(), str(tmp_path / "data" / "__cluster_metadata-0" / SNAPSHOT))
    assert snapshot.kraft_version == 1
    assert snapshot.voters is not None
    assert [str(node.key.directory_id) for node in snapshot.voters.nodes.values()] == ids
    assert snapshot.voters.nodes[2].listeners["CONTROLLER"] == ("::1", 29194)


def test_a_node_outside_the_initial_controllers_has_a_directory_that_does_not_vote(tmp_path: Path) -> None:
    voters = f"2@127.0.0.1:29194:{run('random-uuid').stdout.strip()}"
    result = run("format", "-t", CLUSTER_ID, "-c", write_config(tmp_path), "-I", voters)
    assert "Formatting dynamic metadata directory" in result.stdout


def test_an_older_release_begins_with_its_own_feature_levels(tmp_path: Path) -> None:
    result = run("format", "-t", CLUSTER_ID, "-c", write_config(tmp_path), "-s", "-r", "3.9", "-f", "group.version=1")
    assert "with metadata.version 3.9-IV0." in result.stdout
    bootstrap = read_snapshot_file(SystemDisk(), str(tmp_path / "data" / "bootstrap.checkpoint"))
    records = [record for record, version in bootstrap.records()]
    assert records == bootstrap_records({"metadata.version": 21, "group.version": 1, "share.version": 0})


def test_what_is_formatted_is_refused_or_left_alone(tmp_path: Path) -> None:
    config = write_config(tmp_path)
    assert run("format", "-t", CLUSTER_ID, "-c", config, "-s").exit_code == 0
    before = (tmp_path / "data" / "meta.properties").read_bytes()
    again = run("format", "-t", CLUSTER_ID, "-c", config, "-s")
    assert again.exit_code == 1
    assert again.stdout == ""
    assert again.stderr == (
        f"Log directory {tmp_path / 'data'} is already formatted. "
        "Use --ignore-formatted to ignore this directory and format the others.\n"
    )
    ignored = run("format", "-t", CLUSTER_ID, "-c", config, "-s", "--ignore-formatted")
    assert (ignored.exit_code, ignored.stdout) == (0, "All of the log directories are already formatted.\n")
    assert (tmp_path / "data" / "meta.properties").read_bytes() == before


def test_a_directory_that_was_added_is_formatted_beside_the_others(tmp_path: Path) -> None:
    assert run("format", "-t", CLUSTER_ID, "-c", write_config(tmp_path), "-s").exit_code == 0
    config = write_config(tmp_path, log_dirs=f"{tmp_path / 'data'},{tmp_path / 'more'}")
    result = run("format", "-t", CLUSTER_ID, "-c", config, "-s", "-g")
    assert result.stdout.splitlines()[1:] == [
        f"Formatting data directory {tmp_path / 'more'} with metadata.version 4.3-IV0."
    ]
    assert not (tmp_path / "more" / "__cluster_metadata-0").exists()


def test_the_directory_of_another_cluster_or_node_is_refused(tmp_path: Path) -> None:
    assert run("format", "-t", CLUSTER_ID, "-c", write_config(tmp_path), "-s").exit_code == 0
    other = run("format", "-t", "another", "-c", write_config(tmp_path), "-s", "-g")
    path = tmp_path / "data" / "meta.properties"
    assert other.stderr == f"Invalid cluster.id in: {path}. Expected another, but read {CLUSTER_ID}\n"
    other = run("format", "-t", CLUSTER_ID, "-c", write_config(tmp_path, node_id="2"), "-s", "-g")
    assert other.exit_code == 1
    assert other.stderr.startswith(f"Stored node id 1 doesn't match previous node id 2 in {path}.")


VOTERS = {"controller_quorum_voters": "1@127.0.0.1:29193"}
BROKER_ONLY = {"process_roles": "broker", "listeners": "PLAINTEXT://127.0.0.1:29192"}


@pytest.mark.parametrize(
    ("changes", "options", "complaint"),
    [
        ({}, [], "you must specify one of the following: --standalone, --initial-controllers, or --no-initial-contr"),
        ({}, ["-s", "-N"], "Option --no-initial-controllers is not allowed with option --standalone."),
        (VOTERS, ["-s"], "You cannot specify controller.quorum.voters and format the node with"),
        (BROKER_ONLY, ["-s"], "You can only use --standalone on a controller."),
        ({}, ["-s", "-S", "x"], "--add-scram is not supported yet"),
        ({}, ["-s", "-r", "9.9"], "Unknown metadata.version '9.9'. Supported metadata.version are: 3.3-IV3, "),
        ({}, ["-s", "-f", "group.version"], "equals sign not found."),
        ({}, ["-s", "-f", "group.version=x"], "unable to parse x as a short."),
        ({}, ["-s", "-f", "group.version=9"], "No feature:group.version with feature level 9"),
        ({}, ["-s", "-f", "nothing.version=1"], "Unsupported feature: nothing.version. Supported features are: elig"),
        ({}, ["-s", "-f", "metadata.version=99"], "No MetadataVersion with feature level 99."),
        ({}, ["-s", "-f", "metadata.version=20", "-r", "3.8"], "Use --release-version instead of --feature"),
        ({}, ["-s", "-f", "kraft.version=0"], "Cannot set kraft.version to 0 if controller.quorum.voters is empty"),
        (VOTERS, ["-f", "kraft.version=1"], "Cannot set kraft.version to 1 unless controller.quorum.voters is empty"),
        (
            {},
            ["-s", "-r", "3.9", "-f", "eligible.leader.replicas.version=1"],
            "eligible.leader.replicas.version could not be set to 1 because it depends on metadata.version level 23",
        ),
        ({}, ["-I", ""], "No voters given."),
        ({}, ["-I", "nobody"], "No @ found"),
        ({}, ["-I", "x@h:1:AAAAAAAAAAAAAAAAAAAAZQ"], "Failed to parse node id"),
        ({}, ["-I", "1@h"], "No colon following hostname"),
        ({}, ["-I", "1@[::1:1:AAAAAAAAAAAAAAAAAAAAZQ"], "no right bracket was found"),
        ({}, ["-I", "1@[::1]1:AAAAAAAAAAAAAAAAAAAAZQ"], "Port section must start with a colon."),
        ({}, ["-I", "1@h:1"], "No colon following port"),
        ({}, ["-I", "1@h:65536:AAAAAAAAAAAAAAAAAAAAZQ"], "Failed to parse port"),
        ({}, ["-I", "1@h:1:AAAA"], "Failed to parse directory ID"),
        ({}, ["-I", "1@h:1:AAAAAAAAAAAAAAAAAAAAZQ,1@h:2:AAAAAAAAAAAAAAAAAAAAZg"], "Node id 1 was specified more than"),
        ({"num_partitions": "many"}, ["-s"], "Invalid value many for configuration num.partitions: Not a number"),
        ({"process_roles": None}, ["-s"], 'Missing required configuration "process.roles"'),
        ({"node_id": "\\u12"}, ["-s"], "line 2"),
    ],
)  # fmt: skip
def test_a_mistake_is_one_line_and_nothing_is_written(
    tmp_path: Path, changes: dict[str, str | None], options: list[str], complaint: str
) -> None:
    result = run("format", "-t", CLUSTER_ID, "-c", write_config(tmp_path, **changes), *options)
    assert result.exit_code == 1
    assert complaint in result.stderr
    assert result.stderr.count("\n") == 1
    assert not (tmp_path / "data").exists()


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["format", "-c", "x"], "Missing option '-t' / '--cluster-id'. See `main storage format --help`."),
        (["info"], "Missing option '-c' / '--config'."),
        (["info", "-c", "/there/is/none"], "Cannot read /there/is/none: No such file or directory"),
        (["shred"], "No such command 'shred'."),
    ],
)
def test_a_wrong_command_line_is_one_line(arguments: list[str], complaint: str) -> None:
    result = run(*arguments)
    assert (result.exit_code, result.stdout) == (1, "")
    assert complaint in result.stderr
    assert result.stderr.count("\n") == 1


def test_a_directory_that_cannot_be_made_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    result = run("format", "-t", CLUSTER_ID, "-c", write_config(tmp_path, log_dirs=f"{tmp_path}/file/data"), "-s")
    assert result.exit_code == 1
    assert f"{tmp_path}/file/data" in result.output


def test_info_shows_what_is_there(tmp_path: Path) -> None:
    config = write_config(tmp_path)
    run("format", "-t", CLUSTER_ID, "-c", config, "-s")
    data = tmp_path / "data"
    shown = f"cluster.id={CLUSTER_ID}, directory.id={properties(data).directory_id}, node.id=1, version=1"
    result = run("info", "-c", config)
    assert (result.exit_code, result.stdout) == (
        0,
        f"Found log directory:\n  {data}\n\nFound metadata: {{{shown}}}\n\n",
    )


def test_info_names_every_problem(tmp_path: Path) -> None:
    for name in ("a", "b", "c", "d", "damaged"):
        (tmp_path / name).mkdir()
    (tmp_path / "e").write_text("")
    for name, text in {
        "a": "version=1\nnode.id=1\ncluster.id=x\n",
        "b": "version=1\nnode.id=1\ncluster.id=y\n",
        "c": "version=1\nnode.id=2\ncluster.id=x\n",
        "damaged": "version=7\n",
    }.items():
        (tmp_path / name / "meta.properties").write_text(text)
    names = ("a", "b", "c", "d", "damaged", "e", "f")
    config = write_config(tmp_path, log_dirs=",".join(str(tmp_path / name) for name in names))
    result = run("info", "-c", config)
    assert result.exit_code == 1
    problems = result.stdout.partition("Found problems:\n")[2].splitlines()
    assert problems[:3] == [
        "  Mismatched cluster IDs between storage directories.",
        "  Mismatched node IDs between storage directories.",
        f"  {tmp_path / 'd'} is not formatted.",
    ]
    assert problems[3].startswith(f"  Error loading {tmp_path / 'damaged'}/meta.properties: ")
    assert problems[4:] == [f"  {tmp_path / 'e'} is not a directory", f"  {tmp_path / 'f'} does not exist", ""]


def test_a_directory_from_the_days_of_zookeeper_is_named(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "meta.properties").write_text("version=0\nbroker.id=1\ncluster.id=x\n")
    result = run("info", "-c", write_config(tmp_path))
    assert "Found metadata: {broker.id=1, cluster.id=x, version=0}" in result.stdout
    assert "formatted for legacy mode." in result.stdout
    assert result.exit_code == 1


def test_random_uuids_differ_and_can_be_parsed() -> None:
    ids = {run("random-uuid").stdout.strip() for _ in range(5)}
    assert len(ids) == 5
    assert all(Uuid.parse(one)[6] >> 4 == 4 for one in ids)


@pytest.mark.parametrize(
    ("arguments", "output"),
    [
        (
            ["version-mapping"],
            "metadata.version=30 (4.3-IV0)\nkraft.version=1\ntransaction.version=2\ngroup.version=1\n"
            "eligible.leader.replicas.version=1\nshare.version=1\nstreams.version=1\n",
        ),
        (
            ["version-mapping", "--release-version", "3.8.1"],
            "metadata.version=20 (3.8.1)\nkraft.version=0\ntransaction.version=0\ngroup.version=0\n"
            "eligible.leader.replicas.version=0\nshare.version=0\nstreams.version=0\n",
        ),
        (
            ["version-mapping", "-r", "4.0-IV2"],
            "metadata.version=24 (4.0-IV2)\nkraft.version=1\ntransaction.version=2\ngroup.version=1\n"
            "eligible.leader.replicas.version=0\nshare.version=0\nstreams.version=0\n",
        ),
        (
            ["feature-dependencies", "-f", "eligible.leader.replicas.version=1", "--feature", "metadata.version=20"],
            "eligible.leader.replicas.version=1 requires:\n    metadata.version=23 (4.0-IV1)\n"
            "metadata.version=20 (3.8-IV0) has no dependencies.\n",
        ),
        (["feature-dependencies", "-f", "kraft.version=1"], "kraft.version=1 has no dependencies.\n"),
    ],
)
def test_features_are_told_in_kafkas_words(arguments: list[str], output: str) -> None:
    result = run(*arguments)
    assert (result.exit_code, result.stdout) == (0, output)


@pytest.mark.parametrize(
    ("feature", "complaint"),
    [
        ("x=1", "Unknown feature: x"),
        ("group.version=9", "Feature level 9 is not supported for feature group.version"),
        ("group.version=many", "Invalid version format: many for feature group.version"),
        ("metadata.version=1", "Unknown metadata.version 1"),
        ("group.version", "Invalid feature format: group.version. Expected format: 'feature=version' "),
    ],
)
def test_a_feature_that_is_not_there_is_refused(feature: str, complaint: str) -> None:
    result = run("feature-dependencies", "-f", feature)
    assert result.exit_code == 1
    assert result.stderr.startswith(complaint)


def test_the_golden_settings_can_be_formatted(tmp_path: Path) -> None:
    """The file that the real Kafka of tests/golden/config ran with, unknown names and secrets included."""
    with lzma.open(GOLDEN / "config" / "describe.json.xz", "rt", encoding="utf-8") as text:
        settings = {**json.load(text)["properties"], "log.dirs": str(tmp_path / "data")}
    path = tmp_path / "server.properties"
    path.write_text("".join(f"{name}={value}\n" for name, value in settings.items()))
    assert run("format", "-t", CLUSTER_ID, "-c", str(path), "-s").exit_code == 0
    assert run("info", "-c", str(path)).exit_code == 0


def free_ports(count: int) -> list[int]:
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports = [one.getsockname()[1] for one in sockets]
    for one in sockets:
        one.close()
    return ports


def answers(port: int) -> bool:
    try:
        socket.create_connection(("127.0.0.1", port), timeout=1).close()
    except OSError:
        return False
    return True


@pytest.mark.java
def test_a_real_kafka_starts_on_what_ottla_formatted(tmp_path: Path) -> None:
    client, quorum = free_ports(2)
    config = write_config(
        tmp_path,
        listeners=f"PLAINTEXT://127.0.0.1:{client},CONTROLLER://127.0.0.1:{quorum}",
        controller_quorum_bootstrap_servers=f"127.0.0.1:{quorum}",
    )
    assert run("format", "-t", CLUSTER_ID, "-c", config, "--standalone").exit_code == 0

    info = run_java("kafka.tools.StorageTool", ["info", "-c", config])
    assert info.stdout == run("info", "-c", config).stdout
    assert info.returncode == 0

    java = ["java", "-Xmx512m", "-XX:TieredStopAtLevel=1", "-cp", kafka_classpath(), "kafka.Kafka", config]
    with (
        open(tmp_path / "kafka.log", "wb") as log,
        subprocess.Popen(java, stdout=log, stderr=log, cwd=tmp_path) as kafka,
    ):
        try:
            deadline = time.monotonic() + 60
            while not answers(client):
                assert kafka.poll() is None, (tmp_path / "kafka.log").read_text()
                assert time.monotonic() < deadline, "Kafka did not open its port"
                time.sleep(0.1)
            tool = "org.apache.kafka.tools.ClusterTool"
            told = run_java(tool, ["cluster-id", "--bootstrap-server", f"127.0.0.1:{client}"], timeout=30)
            assert told.stdout.strip() == f"Cluster ID: {CLUSTER_ID}"
        finally:
            kafka.terminate()
            kafka.wait(30)
