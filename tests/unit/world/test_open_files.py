"""Files that may rest: a bound of descriptors, whatever the number of files."""

from __future__ import annotations

import errno
import os
import resource
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from ottla.world.disk import File
from ottla.world.open_files import OPEN_MIN, OpenFiles, RestingFile, raise_open_file_limit
from ottla.world.system import SystemDisk


class Syncs:
    """Counts the syncs of the process, and lets them fail."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.count = 0
        self.failure: OSError | None = None
        self._sync = os.fsync
        monkeypatch.setattr(os, "fsync", self)

    def __call__(self, fd: int) -> None:
        self.count += 1
        if self.failure is not None:
            raise self.failure
        self._sync(fd)


@pytest.fixture
def syncs(monkeypatch: pytest.MonkeyPatch) -> Syncs:
    return Syncs(monkeypatch)


def opened(disk: SystemDisk, directory: Path, count: int) -> list[File]:
    return [disk.open(f"{directory}/{index}", create=True, may_rest=True) for index in range(count)]


def test_more_files_than_descriptors_are_read_and_written_as_if_all_were_open(tmp_path: Path) -> None:
    files = OpenFiles(20)
    before = len(os.listdir("/proc/self/fd"))
    all_files = opened(SystemDisk(files), tmp_path, 200)
    for index, file in enumerate(all_files):
        file.write_at(0, b"%03d" % index)
    for index, file in enumerate(all_files):
        assert file.read_at(0, 10) == b"%03d" % index
        assert file.size() == 3
        file.write_all_at(3, [b"a", b"b"])
        assert os.pread(file.fileno(), 10, 3) == b"ab"
    assert len(files) == 20
    assert len(os.listdir("/proc/self/fd")) <= before + 20
    for file in all_files:
        file.close()
    assert len(files) == 0
    with pytest.raises(OSError, match="closed"):
        all_files[0].read_at(0, 1)


def test_what_was_written_is_synced_before_its_file_rests(tmp_path: Path, syncs: Syncs) -> None:
    disk = SystemDisk(OpenFiles(OPEN_MIN))
    written = opened(disk, tmp_path, OPEN_MIN)
    for file in written:
        file.write_at(0, b"x")
    for index in range(OPEN_MIN):
        disk.open(f"{tmp_path}/more-{index}", create=True, may_rest=True).write_at(0, b"y")
    assert syncs.count == OPEN_MIN
    assert [file.read_at(0, 2) for file in written] == [b"x"] * OPEN_MIN


def test_a_file_that_has_nothing_to_sync_rests_before_one_that_has(tmp_path: Path, syncs: Syncs) -> None:
    disk = SystemDisk(OpenFiles(OPEN_MIN))
    first, *others = opened(disk, tmp_path, OPEN_MIN)
    first.write_at(0, b"x")
    for index in range(100):
        disk.open(f"{tmp_path}/more-{index}", create=True, may_rest=True)
    assert syncs.count == 0
    assert len(others) == OPEN_MIN - 1


def test_a_sync_that_fails_before_a_rest_is_told_to_whoever_syncs(tmp_path: Path, syncs: Syncs) -> None:
    files = OpenFiles(OPEN_MIN)
    disk = SystemDisk(files)
    written = opened(disk, tmp_path, OPEN_MIN)
    for file in written:
        file.write_at(0, b"x")
    syncs.failure = OSError(errno.EIO, "no")
    disk.open(f"{tmp_path}/one-more", create=True, may_rest=True)
    syncs.failure = None
    assert len(files) == OPEN_MIN + 1  # it keeps its descriptor
    assert [_failure_of(file) for file in written].count(errno.EIO) == 1


def _failure_of(file: File) -> int | None:
    try:
        file.sync()
    except OSError as error:
        return error.errno
    return None


def test_a_resting_file_is_found_under_its_new_name(tmp_path: Path) -> None:
    disk = SystemDisk(OpenFiles(OPEN_MIN))
    file = opened(disk, tmp_path, 1)[0]
    file.write_at(0, b"old")
    assert isinstance(file, RestingFile)
    assert file.rest()
    disk.rename(file.path, f"{tmp_path}/renamed")
    file.path = f"{tmp_path}/renamed"
    assert file.read_at(0, 3) == b"old"


def test_a_resting_file_that_was_never_synced_here_is_synced_by_its_path(tmp_path: Path, syncs: Syncs) -> None:
    """An earlier process may have written to it. A rename in the loop's thread may come in between."""
    disk = SystemDisk(OpenFiles(OPEN_MIN))
    (file,) = opened(disk, tmp_path, 1)
    assert isinstance(file, RestingFile)
    assert file.rest()
    assert syncs.count == 0
    os.rename(file.path, f"{tmp_path}/renamed")
    syncing = threading.Thread(target=file.sync)
    syncing.start()
    syncing.join(0.05)
    assert syncing.is_alive()
    file.path = f"{tmp_path}/renamed"
    syncing.join(10)
    assert syncs.count == 1


def test_a_file_does_not_rest_while_another_thread_syncs_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    files = OpenFiles(OPEN_MIN)
    disk = SystemDisk(files)
    (file,) = opened(disk, tmp_path, 1)
    assert isinstance(file, RestingFile)
    is_syncing, may_end = threading.Event(), threading.Event()

    def fsync(fd: int) -> None:
        is_syncing.set()
        assert may_end.wait(10)

    monkeypatch.setattr(os, "fsync", fsync)
    thread = threading.Thread(target=file.sync)
    thread.start()
    assert is_syncing.wait(10)
    assert not file.rest()
    for index in range(3 * OPEN_MIN):
        disk.open(f"{tmp_path}/more-{index}", create=True, may_rest=True)
    assert file in files._open
    may_end.set()
    thread.join()
    assert file.rest()


def test_the_files_of_other_threads_never_rest(tmp_path: Path) -> None:
    files = OpenFiles(OPEN_MIN)
    disk = SystemDisk(files)
    made: list[File] = []
    thread = threading.Thread(target=lambda: made.extend(opened(disk, tmp_path, 50)))
    thread.start()
    thread.join()
    assert len(made) == 50
    assert len(files) == 0


@contextmanager
def descriptors_left(count: int) -> Iterator[None]:
    """So many more may be opened."""
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    used = max(int(name) for name in os.listdir("/proc/self/fd")) + 1
    fillers = [os.open("/dev/null", os.O_RDONLY) for _ in range(used - len(os.listdir("/proc/self/fd")) + 1)]
    highest = max(int(name) for name in os.listdir("/proc/self/fd")) + 1
    resource.setrlimit(resource.RLIMIT_NOFILE, (highest + count, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)
        for filler in fillers:
            os.close(filler)


def test_where_no_descriptor_is_left_files_make_room_for_each_other_and_for_syncs(tmp_path: Path) -> None:
    disk = SystemDisk(OpenFiles(1_000))
    with descriptors_left(5):
        files = opened(disk, tmp_path, 100)
        for file in files:
            file.write_at(0, b"x")
        disk.sync_dir(str(tmp_path))
        assert len(disk.names(str(tmp_path))) == len(disk.scan(str(tmp_path))) == 100
        assert disk.read(f"{tmp_path}/7") == b"x"
        plain = disk.open(f"{tmp_path}/plain", create=True)
        plain.close()
    for file in files:
        file.close()


def test_the_limit_is_raised_to_what_the_system_allows() -> None:
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (before[1] - 10, before[1]))
        raise_open_file_limit()
        assert resource.getrlimit(resource.RLIMIT_NOFILE) == (before[1], before[1])
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)
