"""The topic id of a partition directory."""

from __future__ import annotations

from pathlib import Path

import pytest

from ottla.storage.damage import DamagedFile
from ottla.storage.partition_metadata import PartitionMetadata, decode_topic_id, encode_topic_id
from ottla.types import METADATA_TOPIC_ID, Uuid
from ottla.world.system import SystemDisk
from tests.support.golden import golden_data_dir
from tests.support.mutation import mutations, truncations

TOPIC_ID = Uuid.parse("bUoY_Z0TSfi95HZWTJ7o4Q")
SAMPLE = b"version: 0\ntopic_id: bUoY_Z0TSfi95HZWTJ7o4Q"


def test_kafkas_files_are_read_and_written_back_with_equal_bytes(tmp_path: Path) -> None:
    files = sorted(golden_data_dir(tmp_path).glob("*/partition.metadata"))
    assert len(files) == 25
    for file in files:
        topic_id = PartitionMetadata(SystemDisk(), str(file)).read()
        assert encode_topic_id(topic_id) == file.read_bytes()
    assert (
        decode_topic_id("x", (tmp_path / "__cluster_metadata-0" / "partition.metadata").read_bytes())
        == METADATA_TOPIC_ID
    )


def test_a_written_id_is_read_back(tmp_path: Path) -> None:
    path = tmp_path / "partition.metadata"
    PartitionMetadata(SystemDisk(), str(path)).write(TOPIC_ID)
    assert path.read_bytes() == SAMPLE
    assert PartitionMetadata(SystemDisk(), str(path)).read() == TOPIC_ID


def test_a_missing_file_is_the_callers_to_judge(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        PartitionMetadata(SystemDisk(), str(tmp_path / "partition.metadata")).read()


def test_a_newer_version_may_say_more() -> None:
    assert decode_topic_id("x", SAMPLE.replace(b"0", b"1", 1) + b"\nmore: things") == TOPIC_ID


@pytest.mark.parametrize(
    ("data", "place"),
    [
        (b"", "line 1"),
        (b"version: x\ntopic_id: bUoY_Z0TSfi95HZWTJ7o4Q", "line 1"),
        (b"version: -1\ntopic_id: bUoY_Z0TSfi95HZWTJ7o4Q", "line 1"),
        (b"topic_id: bUoY_Z0TSfi95HZWTJ7o4Q", "line 1"),
        (b"version: 0", "line 2"),
        (b"version: 0\n", "line 2"),
        (b"version: 0\ntopic: bUoY_Z0TSfi95HZWTJ7o4Q", "line 2"),
        (b"version: 0\ntopic_id: AAAAAAAAAAAAAAAAAAAAAA", "line 2"),
        (b"version: 0\ntopic_id: bUoY_Z0TSfi95HZWTJ7o4R", "line 2"),
        (b"version: 0\ntopic_id: bUoY/Z0TSfi95HZWTJ7o4Q", "line 2"),
        (b"version: 0\ntopic_id: bUoY_Z0TSfi95HZWTJ7o4Q\n", "line 3"),
    ],
)
def test_damage_is_named_by_file_and_line(data: bytes, place: str) -> None:
    with pytest.raises(DamagedFile) as caught:
        decode_topic_id("/data/a-0/partition.metadata", data)
    assert caught.value.place == place
    assert str(caught.value).startswith("/data/a-0/partition.metadata, ")


def test_every_truncation_is_refused() -> None:
    for data in truncations(SAMPLE):
        with pytest.raises(DamagedFile):
            decode_topic_id("x", data)


def test_a_mutation_is_refused_or_is_another_id_as_it_stands() -> None:
    for data in mutations(SAMPLE, seed=5, rounds=5_000):
        try:
            topic_id = decode_topic_id("x", data)
        except DamagedFile:
            continue
        assert data.startswith(b"version: ")
        assert f"topic_id: {topic_id}".encode() in data
