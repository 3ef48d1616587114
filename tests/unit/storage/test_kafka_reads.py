"""A real Kafka's own dump tool reads a directory that Ottla wrote, and finds nothing wrong."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from ottla.config import LogConfig
from ottla.records import Codec
from ottla.storage import LogManager
from ottla.types import TopicPartition, Uuid
from ottla.world.system import system_world
from tests.support.kafka import run_java
from tests.support.logs import make_batch
from tests.support.workload import write_everything

pytestmark = pytest.mark.java


def test_kafkas_dump_tool_finds_nothing_wrong(tmp_path: Path) -> None:
    """Every codec, idempotent and transactional producers, append time, compaction, several segments, a restart."""
    written = write_everything(str(tmp_path))
    logs = sorted(str(path) for path in tmp_path.rglob("*.log"))
    indexes = sorted(str(path) for path in tmp_path.rglob("*.index"))
    times = sorted(str(path) for path in tmp_path.rglob("*.timeindex"))
    others = sorted(str(p) for suffix in ("txnindex", "snapshot") for p in tmp_path.rglob(f"*.{suffix}"))
    assert len(logs) > 20
    assert any(path.endswith(".txnindex") for path in others)

    dumped = run_java(
        "org.apache.kafka.tools.DumpLogSegments",
        ["--deep-iteration", "--print-data-log", "--files", ",".join([*logs, *others])],
    )
    assert dumped.returncode == 0, dumped.stderr
    assert not complaints(dumped.stdout), complaints(dumped.stdout)
    found = len(re.findall(r"^\| offset: ", dumped.stdout, re.MULTILINE))
    assert found == written, "every record that is in the log, and no other"

    checked = run_java(
        "org.apache.kafka.tools.DumpLogSegments",
        ["--deep-iteration", "--index-sanity-check", "--files", ",".join([*indexes, *times])],
    )
    assert checked.returncode == 0, checked.stderr
    assert not complaints(checked.stdout), complaints(checked.stdout)
    assert checked.stdout.count("passed sanity check") == len(indexes) + len(times)

    # Without the sanity option, each index entry is compared with the log it points into.
    compared = run_java(
        "org.apache.kafka.tools.DumpLogSegments", ["--deep-iteration", "--files", ",".join([*indexes, *times])]
    )
    assert compared.returncode == 0, compared.stderr
    assert not complaints(compared.stdout), complaints(compared.stdout)


def complaints(output: str) -> list[str]:
    words = (
        "mismatch",
        "corrupt",
        "invalid",
        "isvalid: false",
        "not found",
        "out of order",
        "consecutive",
        "exception",
    )
    return [line for line in output.splitlines() if any(word in line.lower() for word in words)][:5]


def test_the_tool_does_complain_when_something_is_wrong(tmp_path: Path) -> None:
    """So that silence above means something."""
    config = LogConfig().with_topic({"index.interval.bytes": 0})
    manager = LogManager(system_world(), [str(tmp_path)], config_of=lambda _: config)
    manager.start()
    log = manager.create(TopicPartition("t", 0), topic_id=Uuid(b"0123456789abcdef"))
    for _ in range(10):
        log.append_as_leader(bytearray(make_batch(b"x", codec=Codec.LZ4)), leader_epoch=0)
    manager.shutdown()
    index = tmp_path / "t-0" / f"{0:020d}.index"
    data = bytearray(index.read_bytes())
    data[7] ^= 1
    index.write_bytes(data)
    result = run_java("org.apache.kafka.tools.DumpLogSegments", ["--files", str(index)])
    assert complaints(result.stdout + result.stderr)
