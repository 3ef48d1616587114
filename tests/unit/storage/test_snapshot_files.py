"""The snapshot files of a log directory."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from ottla.storage.snapshot_files import SnapshotFiles
from ottla.world.system import SystemDisk


def files_in(directory: Path, *offsets: int) -> SnapshotFiles:
    for offset in offsets:
        (directory / f"{offset:020d}.snapshot").write_bytes(b"x")
    return SnapshotFiles(SystemDisk(), str(directory))


def on_disk(directory: Path) -> list[int]:
    return sorted(int(path.stem) for path in directory.glob("*.snapshot"))


def test_snapshots_are_found_by_their_names_and_nothing_else_is(tmp_path: Path) -> None:
    for name in ("00000000000000000005.snapshot.deleted", "5.snapshot", "x" * 20 + ".snapshot", "a.snapshot",
                 "00000000000000000005.log", "00000000000000000005-0000000001.snapshot"):  # fmt: skip
        (tmp_path / name).touch()
    assert files_in(tmp_path, 300, 7).offsets == [7, 300]


def test_a_listing_the_caller_has_is_believed(tmp_path: Path) -> None:
    listed = SnapshotFiles(SystemDisk(), str(tmp_path), ["00000000000000000009.snapshot", "other"])
    assert listed.offsets == [9]


def test_a_missing_directory_has_none(tmp_path: Path) -> None:
    assert SnapshotFiles(SystemDisk(), str(tmp_path / "missing")).offsets == []


def test_a_written_snapshot_replaces_a_longer_one_and_is_listed_once(tmp_path: Path) -> None:
    snapshots = files_in(tmp_path)
    for data in (b"long content", b"short"):
        path = snapshots.write(5, data, sync=False)
        assert path == f"{tmp_path}/00000000000000000005.snapshot"
        assert snapshots.read(5) == data
    snapshots.write(3, b"x", sync=False)
    assert snapshots.offsets == [3, 5]


@pytest.mark.parametrize("sync", [True, False])
def test_file_and_name_are_synced_when_asked(tmp_path: Path, sync: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[str] = []

    class Disk(SystemDisk):
        def open(self, path: str, *, create: bool = False, read_only: bool = False, may_rest: bool = False) -> Any:
            file = super().open(path, create=create, read_only=read_only)
            monkeypatch.setattr(type(file), "sync", lambda _: calls.append("sync"))
            return file

        def sync_dir(self, path: str) -> None:
            calls.append(f"sync_dir {path}")

    SnapshotFiles(Disk(), str(tmp_path)).write(5, b"x", sync=sync)
    assert calls == (["sync", f"sync_dir {tmp_path}"] if sync else [])


def test_those_below_an_offset_are_removed(tmp_path: Path) -> None:
    snapshots = files_in(tmp_path, 1, 5, 9)
    snapshots.remove_before(5)
    assert snapshots.offsets == on_disk(tmp_path) == [5, 9]


def test_those_outside_of_the_log_are_removed(tmp_path: Path) -> None:
    snapshots = files_in(tmp_path, 1, 5, 7, 9)
    snapshots.remove_outside(1, 7)
    assert snapshots.offsets == on_disk(tmp_path) == [5, 7]


@pytest.mark.parametrize(
    ("bases", "kept"),
    [
        ([0, 10, 20], [10, 20, 25]),
        ([0, 10, 30], [10]),
        ([0, 10], [10, 25]),
        ([0, 25], [25]),
        ([], [25]),
    ],
)
def test_strays_go_but_for_the_one_at_the_logs_end(tmp_path: Path, bases: list[int], kept: list[int]) -> None:
    snapshots = files_in(tmp_path, 5, 10, 15, 20, 25)
    snapshots.remove_strays(bases)
    assert snapshots.offsets == on_disk(tmp_path) == kept


def test_a_deleted_snapshot_keeps_its_bytes_under_another_name(tmp_path: Path) -> None:
    snapshots = files_in(tmp_path, 5)
    path = snapshots.mark_deleted(5)
    assert path == f"{tmp_path}/00000000000000000005.snapshot.deleted"
    assert Path(path).read_bytes() == b"x"
    assert snapshots.offsets == []
    assert snapshots.mark_deleted(5) is None


def test_a_file_that_is_gone_already_is_no_error(tmp_path: Path) -> None:
    snapshots = files_in(tmp_path, 5, 9)
    for path in tmp_path.iterdir():
        path.unlink()
    snapshots.remove(5)
    assert snapshots.mark_deleted(9) is None
    assert snapshots.offsets == []
