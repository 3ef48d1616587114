"""Offset checkpoints against the files a Kafka wrote, and against damage."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from ottla.storage.checkpoint import OffsetCheckpoint, decode_entries, encode_entries, parse_number
from ottla.storage.damage import DamagedFile
from ottla.types import TopicPartition
from ottla.world.system import SystemDisk
from tests.support.golden import golden_data_dir
from tests.support.mutation import mutations, truncations

OFFSET_CHECKPOINTS = [
    "recovery-point-offset-checkpoint",
    "replication-offset-checkpoint",
    "log-start-offset-checkpoint",
    "cleaner-offset-checkpoint",
]
SAMPLE = b"0\n3\nplain 0 300\n__consumer_offsets 49 42\na.b_c-d 2147483647 9223372036854775807\n"


@pytest.fixture(scope="module")
def data_dir(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return golden_data_dir(tmp_path_factory.mktemp("golden"))


@pytest.fixture
def checkpoint(tmp_path: Path) -> Callable[[bytes], OffsetCheckpoint]:
    def make(data: bytes) -> OffsetCheckpoint:
        path = tmp_path / "recovery-point-offset-checkpoint"
        path.write_bytes(data)
        return OffsetCheckpoint(SystemDisk(), str(path))

    return make


@pytest.mark.parametrize("name", OFFSET_CHECKPOINTS)
def test_kafkas_checkpoint_is_read_and_written_back_with_equal_bytes(data_dir: Path, tmp_path: Path, name: str) -> None:
    offsets = OffsetCheckpoint(SystemDisk(), str(data_dir / name)).read()
    OffsetCheckpoint(SystemDisk(), str(tmp_path / name)).write(offsets)
    assert (tmp_path / name).read_bytes() == (data_dir / name).read_bytes()


def test_kafkas_recovery_points_are_the_ends_of_its_logs(data_dir: Path) -> None:
    offsets = OffsetCheckpoint(SystemDisk(), str(data_dir / "recovery-point-offset-checkpoint")).read()
    assert len(offsets) == 24
    assert offsets[TopicPartition("transactions", 0)] == 39
    assert next(iter(offsets)) == TopicPartition("broker-zstd", 0)


def test_a_missing_file_and_an_empty_one_hold_no_offsets(
    tmp_path: Path, checkpoint: Callable[[bytes], OffsetCheckpoint]
) -> None:
    assert OffsetCheckpoint(SystemDisk(), str(tmp_path / "missing")).read() == {}
    assert checkpoint(b"").read() == {}


def test_a_checkpoint_of_nothing_is_two_lines(tmp_path: Path) -> None:
    checkpoint = OffsetCheckpoint(SystemDisk(), str(tmp_path / "empty"))
    checkpoint.write({})
    assert (tmp_path / "empty").read_bytes() == b"0\n0\n"
    assert checkpoint.read() == {}


@pytest.mark.parametrize(
    ("data", "place", "expected"),
    [
        (b"1\n0\n", "line 1", "version 0"),
        (b"x\n0\n", "line 1", "version 0"),
        (b"\n0\n", "line 1", "version 0"),
        (b"0\n", "line 2", "the number of entries"),
        (b"0\n-1\n", "line 2", "the number of entries"),
        (b"0\nmany\n", "line 2", "the number of entries"),
        (b"0\n99999999999999999999\n", "line 2", "the number of entries"),
        (b"0\n2\na 0 1\n", "line 2", "2 entries below"),
        (b"0\n0\na 0 1\n", "line 2", "0 entries below"),
        (b"0\n1\na 0 1", "line 3", "a newline at the end"),
        (b"0\n1\na 0\n", "line 3", "an entry `topic partition offset`"),
        (b"0\n1\na  0 1\n", "line 3", "an entry `topic partition offset`"),
        (b"0\n2\na 0 1\na 1 1 1\n", "line 4", "an entry `topic partition offset`"),
        (b"0\n1\na 0 -1\n", "line 3", "an entry `topic partition offset`"),
        (b"0\n1\na -1 1\n", "line 3", "an entry `topic partition offset`"),
        (b"0\n1\na 0 01\n", "line 3", "an entry `topic partition offset`"),
        (b"0\n1\na 2147483648 1\n", "line 3", "an entry `topic partition offset`"),
        (b"0\n1\na 0 9223372036854775808\n", "line 3", "an entry `topic partition offset`"),
        (b"0\n1\na/b 0 1\n", "line 3", "an entry `topic partition offset`"),
        (b"0\n2\na 0 1\na 0 2\n", "line 4", "each partition once"),
        (b"0\n1\n\xc3\xa4 0 1\n", "line 3", "ASCII text"),
        (b"\0" * 512, "line 1", "a newline at the end"),
    ],
)
def test_damage_is_named_by_file_line_and_what_belongs_there(
    checkpoint: Callable[[bytes], OffsetCheckpoint], data: bytes, place: str, expected: str
) -> None:
    with pytest.raises(DamagedFile) as caught:
        checkpoint(data).read()
    assert (caught.value.place, caught.value.expected) == (place, expected)
    assert "recovery-point-offset-checkpoint" in str(caught.value)


def test_every_truncation_is_refused_except_the_empty_file(checkpoint: Callable[[bytes], OffsetCheckpoint]) -> None:
    """The empty file is Kafka's own: it makes one before it has an offset to keep."""
    for data in truncations(SAMPLE):
        if data:
            with pytest.raises(DamagedFile):
                checkpoint(data).read()


@pytest.mark.parametrize("seed", range(4))
def test_a_mutation_is_refused_or_is_a_checkpoint_that_reads_back_as_it_stands(
    checkpoint: Callable[[bytes], OffsetCheckpoint], seed: int
) -> None:
    """There is no checksum: a digit may become another digit. But nothing is passed over or misread."""
    read = 0
    for data in mutations(SAMPLE, seed=seed, rounds=1_000):
        target = checkpoint(data)
        try:
            offsets = target.read()
        except DamagedFile:
            continue
        target.write(offsets)
        assert Path(target.path).read_bytes() == (data or b"0\n0\n")
        read += 1
    assert 0 < read < 500, "some mutations only change a letter or a digit, most break a line"


def test_entries_round_trip_through_the_frame() -> None:
    assert decode_entries("x", encode_entries(["0 0", "5 12"])) == ["0 0", "5 12"]


@pytest.mark.parametrize("text", ["", " 1", "1 ", "+1", "-1", "1_0", "00", "٣", "²", "1" * 5000, "101"])
def test_a_number_has_one_spelling(text: str) -> None:
    assert parse_number(text, 100) == -1


def test_a_number_up_to_its_maximum_is_read() -> None:
    assert [parse_number(text, 100) for text in ("0", "7", "100")] == [0, 7, 100]
