"""The mark of an orderly stop."""

from __future__ import annotations

from pathlib import Path

import pytest

from ottla.storage.clean_shutdown import CleanShutdownFile
from ottla.storage.damage import DamagedFile
from ottla.world.system import SystemDisk
from tests.support.golden import golden_data_dir
from tests.support.mutation import mutations, truncations

SAMPLE = b'{"version":0,"brokerEpoch":19}'


def mark(directory: Path, data: bytes | None = None) -> CleanShutdownFile:
    if data is not None:
        (directory / ".kafka_cleanshutdown").write_bytes(data)
    return CleanShutdownFile(SystemDisk(), str(directory))


def test_kafkas_mark_is_read_and_written_back_with_equal_bytes(tmp_path: Path) -> None:
    golden = golden_data_dir(tmp_path / "golden")
    epoch = mark(golden).read()
    assert epoch == 19
    mark(tmp_path).write(epoch)
    assert (tmp_path / ".kafka_cleanshutdown").read_bytes() == (golden / ".kafka_cleanshutdown").read_bytes() == SAMPLE


def test_a_directory_without_the_mark_was_not_closed_in_order(tmp_path: Path) -> None:
    assert not mark(tmp_path).exists()
    assert mark(tmp_path).read() is None


def test_the_empty_mark_of_an_older_kafka_counts_and_has_no_epoch(tmp_path: Path) -> None:
    assert mark(tmp_path, b"").exists()
    assert mark(tmp_path, b"").read() is None


def test_an_epoch_below_zero_and_unknown_fields_are_read(tmp_path: Path) -> None:
    assert mark(tmp_path, b'{"brokerEpoch":-1,"later":true}').read() == -1


def test_a_deleted_mark_is_gone_and_may_be_deleted_again(tmp_path: Path) -> None:
    file = mark(tmp_path, SAMPLE)
    file.delete()
    assert not file.exists()
    file.delete()


def test_deleting_the_mark_is_durable(tmp_path: Path) -> None:
    class Disk(SystemDisk):
        calls: list[str] = []  # noqa: RUF012

        def remove(self, path: str) -> None:
            super().remove(path)
            self.calls.append("remove")

        def sync_dir(self, path: str) -> None:
            super().sync_dir(path)
            self.calls.append("sync_dir")

    mark(tmp_path, SAMPLE)
    disk = Disk()
    CleanShutdownFile(disk, str(tmp_path)).delete()
    assert disk.calls == ["remove", "sync_dir"]


@pytest.mark.parametrize(
    "data",
    [b"{}", b"19", b"[]", b'"x"', b"null", b"{", b"\xff\xfe", b'{"brokerEpoch":null}', b'{"brokerEpoch":"19"}',
     b'{"brokerEpoch":true}', b'{"brokerEpoch":1.5}', b'{"brokerEpoch":9223372036854775808}', b"[" * 100_000],
)  # fmt: skip
def test_damage_is_refused_with_the_files_name(tmp_path: Path, data: bytes) -> None:
    file = mark(tmp_path, data)
    assert file.exists()
    with pytest.raises(DamagedFile, match=r"\.kafka_cleanshutdown, line 1: expected a JSON object"):
        file.read()


def test_every_truncation_is_refused_except_the_empty_file(tmp_path: Path) -> None:
    for data in truncations(SAMPLE):
        if data:
            with pytest.raises(DamagedFile):
                mark(tmp_path, data).read()


def test_a_mutation_is_refused_or_gives_an_epoch(tmp_path: Path) -> None:
    read = 0
    for data in mutations(SAMPLE, seed=7, rounds=2_000):
        try:
            epoch = mark(tmp_path, data).read()
        except DamagedFile:
            continue
        assert epoch is not None
        assert str(epoch).encode() in data
        read += 1
    assert 0 < read < 1_500
