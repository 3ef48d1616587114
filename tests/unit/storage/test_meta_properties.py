"""A log directory's identity."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.storage.damage import DamagedFile
from ottla.storage.meta_properties import (
    MetaProperties,
    decode_meta_properties,
    java_date,
    read_meta_properties,
    write_meta_properties,
)
from ottla.types import Uuid
from ottla.world.system import SystemDisk
from tests.support.golden import golden_data_dir
from tests.support.mutation import mutations, truncations

SAMPLE = (
    b"#\n#Sun Nov 15 19:15:13 UTC 2026\nnode.id=1\ndirectory.id=EZvBZ5H5Xy8vTy_pCaxVTw\nversion=1\n"
    b"cluster.id=WdKyKKmQSAiEX4-qKEX5tw\n"
)
SAMPLE_MS = 1_794_770_113_000
PROPERTIES = MetaProperties("WdKyKKmQSAiEX4-qKEX5tw", 1, Uuid.parse("EZvBZ5H5Xy8vTy_pCaxVTw"))


def test_kafkas_file_is_read_and_written_back_with_equal_bytes(tmp_path: Path) -> None:
    golden = golden_data_dir(tmp_path / "golden")
    properties = read_meta_properties(SystemDisk(), str(golden))
    assert properties == PROPERTIES
    write_meta_properties(SystemDisk(), str(tmp_path), properties, SAMPLE_MS)
    assert (tmp_path / "meta.properties").read_bytes() == (golden / "meta.properties").read_bytes() == SAMPLE


def test_a_directory_without_the_file_is_not_formatted(tmp_path: Path) -> None:
    assert read_meta_properties(SystemDisk(), str(tmp_path)) is None


def test_a_file_from_the_days_of_zookeeper_is_read() -> None:
    properties = decode_meta_properties("x", b"#\nversion=0\nbroker.id=3\ncluster.id=abc\n")
    assert properties == MetaProperties("abc", 3, version=0)
    assert properties.encode(0) == b"#\n#Thu Jan 01 00:00:00 UTC 1970\nbroker.id=3\nversion=0\ncluster.id=abc\n"
    assert decode_meta_properties("x", b"broker.id=3\n") == MetaProperties(None, 3, version=0)
    assert decode_meta_properties("x", b"version=0\n") == MetaProperties(None, None, version=0)


def test_a_file_written_by_hand_is_read() -> None:
    data = b"! ours\r\n version : 1 \r\ncluster.id \\\r\n  abc\r\nnode.id:7\r\nother=ignored\r\n"
    assert decode_meta_properties("x", data) == MetaProperties("abc", 7)


@pytest.mark.parametrize("cluster_id", [" leading", "a=b:c", "back\\slash", "grüße", "漢字", "😀"])
def test_any_cluster_id_survives(cluster_id: str) -> None:
    properties = MetaProperties(cluster_id, 0)
    assert decode_meta_properties("x", properties.encode(0)) == properties


@pytest.mark.parametrize(
    ("old", "new", "place"),
    [
        ("version=1", "version=2", "property version"),
        ("version=1", "version=one", "property version"),
        ("version=1\n", "", "property version"),
        ("node.id=1", "node.id=-1", "property node.id"),
        ("node.id=1", "node.id=x", "property node.id"),
        ("node.id=1", "node.id=2147483648", "property node.id"),
        ("node.id=1\n", "", "property node.id"),
        ("cluster.id", "cluster", "property cluster.id"),
        ("EZvBZ5H5Xy8vTy_pCaxVTw", "EZvBZ5H5", "property directory.id"),
        ("EZvBZ5H5Xy8vTy_pCaxVTw", "", "property directory.id"),
        ("EZvBZ5H5Xy8vTy_pCaxVTw", "\\u00", "line 4"),
        ("X5tw\n", "X5tw", "the last line"),
    ],
)
def test_damage_is_named_by_file_and_property(old: str, new: str, place: str) -> None:
    with pytest.raises(DamagedFile) as caught:
        decode_meta_properties("/data/meta.properties", SAMPLE.decode().replace(old, new).encode())
    assert caught.value.place == place
    assert str(caught.value).startswith("/data/meta.properties, ")


def test_every_truncation_is_refused() -> None:
    for data in truncations(SAMPLE):
        with pytest.raises(DamagedFile):
            decode_meta_properties("x", data)


@pytest.mark.parametrize("seed", range(4))
def test_a_mutation_is_refused_or_reads_back_as_written(seed: int) -> None:
    read = 0
    for data in mutations(SAMPLE, seed=seed, rounds=1_000):
        try:
            properties = decode_meta_properties("x", data)
        except DamagedFile:
            continue
        assert decode_meta_properties("x", properties.encode(0)) == properties
        read += 1
    assert 0 < read < 1_000


@given(st.integers(min_value=-62_135_596_800_000, max_value=253_402_300_799_999))
def test_a_date_is_spelled_as_java_spells_it(now_ms: int) -> None:
    moment = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=now_ms)
    assert java_date(now_ms) == moment.strftime("%a %b %d %H:%M:%S UTC ") + str(moment.year)
