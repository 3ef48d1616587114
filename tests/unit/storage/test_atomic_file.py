"""Files replaced as a whole, and what a crash at each step leaves."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from ottla.storage.atomic_file import directory_of, write_atomically
from ottla.world.system import SystemDisk


class CrashingDisk(SystemDisk):
    """A disk that fails at its nth call and lists the calls it carried out."""

    def __init__(self, calls_max: int) -> None:
        super().__init__()
        self.calls: list[str] = []
        self.calls_max = calls_max

    def step(self, name: str) -> None:
        if len(self.calls) == self.calls_max:
            raise OSError(5, f"crashed before {name}")
        self.calls.append(name)

    def open(self, path: str, *, create: bool = False, read_only: bool = False, may_rest: bool = False) -> Any:
        self.step("open")
        return CrashingFile(self, super().open(path, create=create, read_only=read_only))

    def rename(self, old: str, new: str) -> None:
        self.step("rename")
        super().rename(old, new)

    def sync_dir(self, path: str) -> None:
        self.step(f"sync_dir {path}")
        super().sync_dir(path)


class CrashingFile:
    def __init__(self, disk: CrashingDisk, file: Any) -> None:
        self.disk = disk
        self.file = file

    def __getattr__(self, name: str) -> Any:
        if name != "close":
            self.disk.step(name)
        return getattr(self.file, name)


def test_the_bytes_are_synced_before_the_rename_and_the_directory_after_it(tmp_path: Path) -> None:
    disk = CrashingDisk(calls_max=100)
    write_atomically(disk, f"{tmp_path}/file", b"new")
    assert disk.calls == ["open", "truncate", "write_at", "sync", "rename", f"sync_dir {tmp_path}"]
    assert (tmp_path / "file").read_bytes() == b"new"


@pytest.mark.parametrize("calls_max", range(6))
def test_a_crash_at_any_step_leaves_the_old_content_or_the_new(tmp_path: Path, calls_max: int) -> None:
    target = tmp_path / "file"
    target.write_bytes(b"old content")
    with pytest.raises(OSError, match="crashed before"):
        write_atomically(CrashingDisk(calls_max), str(target), b"new")
    assert target.read_bytes() == (b"old content" if calls_max < 5 else b"new")

    write_atomically(SystemDisk(), str(target), b"newer")
    assert target.read_bytes() == b"newer"
    assert [entry.name for entry in tmp_path.iterdir()] == ["file"]


@pytest.mark.parametrize(("path", "directory"), [("/data/file", "/data"), ("/file", "/"), ("file", ".")])
def test_a_file_is_in_its_directory(path: str, directory: str) -> None:
    assert directory_of(path) == directory
