"""`ottla/world/system.py`: what only a real system does, short writes, other processes' locks, failing calls.

The promises that every disk keeps are in `test_disk.py`, which runs over this one too.
"""

from __future__ import annotations

import errno
import os
import resource
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from random import SystemRandom

import pytest

from ottla.types import Buffer
from ottla.world.system import SystemClock, SystemDisk, system_world


@pytest.fixture
def disk() -> SystemDisk:
    return SystemDisk()


@pytest.fixture
def path(tmp_path: Path) -> str:
    return str(tmp_path / "file")


def test_short_reads_and_writes_are_carried_on(disk: SystemDisk, path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A signal or a full quota may end a call early; here every call moves at most 3 bytes."""
    pread, pwrite = os.pread, os.pwrite

    def short_pwritev(fd: int, parts: Sequence[Buffer], position: int) -> int:
        return pwrite(fd, b"".join(parts)[:3], position)

    monkeypatch.setattr(os, "pread", lambda fd, size, position: pread(fd, min(size, 3), position))
    monkeypatch.setattr(os, "pwrite", lambda fd, data, position: pwrite(fd, bytes(data)[:3], position))
    monkeypatch.setattr(os, "pwritev", short_pwritev)
    file = disk.open(path, create=True)
    file.write_at(0, memoryview(b"0123456789"))
    file.write_all_at(10, [b"ab", b"", b"cde", b"fghij"])
    many = [b"%04d" % index for index in range(2500)]
    file.write_all_at(20, many)
    assert file.read_at(0, 20) == b"0123456789abcdefghij"
    assert file.read_at(15, 1000) == b"fghij" + b"".join(many)[:995]
    assert disk.read(path) == b"0123456789abcdefghij" + b"".join(many)
    file.close()


@contextmanager
def file_size_limit(size: int) -> Iterator[None]:
    """Let the kernel refuse to make a file larger than this: a short write, then EFBIG."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def test_a_write_that_does_not_fit_raises_after_writing_what_fits(disk: SystemDisk, path: str) -> None:
    file = disk.open(path, create=True)
    with file_size_limit(100):
        with pytest.raises(OSError) as refused:
            file.write_at(90, b"x" * 20)
        assert refused.value.errno == errno.EFBIG
        assert file.size() == 100
        with pytest.raises(OSError):
            file.write_all_at(95, [b"y" * 3, b"z" * 3])
        with pytest.raises(OSError):
            file.allocate(200)
    assert file.read_at(0, 1000) == bytes(90) + b"xxxxxyyyzz"
    file.close()


def test_allocating_falls_back_where_the_file_system_cannot(
    disk: SystemDisk, path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def unsupported(fd: int, offset: int, size: int) -> None:
        raise OSError(errno.EOPNOTSUPP, "not supported")

    monkeypatch.setattr(os, "posix_fallocate", unsupported)
    file = disk.open(path, create=True)
    file.allocate(50)
    file.allocate(10)
    assert file.size() == 50
    file.close()


def test_allocating_reports_a_full_disk(disk: SystemDisk, path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(fd: int, offset: int, size: int) -> None:
        raise OSError(errno.ENOSPC, "no space")

    monkeypatch.setattr(os, "posix_fallocate", full)
    file = disk.open(path, create=True)
    with pytest.raises(OSError) as refused:
        file.allocate(50)
    assert refused.value.errno == errno.ENOSPC
    assert file.size() == 0
    file.close()


def test_allocating_really_reserves_the_room(disk: SystemDisk, path: str) -> None:
    file = disk.open(path, create=True)
    file.allocate(1 << 20)
    assert os.stat(path).st_blocks * 512 >= 1 << 20
    file.close()


def test_a_failing_look_is_not_taken_for_a_missing_file(disk: SystemDisk, tmp_path: Path) -> None:
    """Answering "it is not there" for a file that cannot be looked at would let a caller make it anew."""
    loop = tmp_path / "loop"
    loop.symlink_to(loop)
    with pytest.raises(OSError) as refused:
        disk.exists(str(loop))
    assert refused.value.errno == errno.ELOOP


def test_a_file_removed_while_its_directory_is_scanned_is_left_out(disk: SystemDisk, tmp_path: Path) -> None:
    """A dangling link is listed and cannot be looked at, as a name that was just removed."""
    (tmp_path / "here").write_bytes(b"x")
    (tmp_path / "gone").symlink_to(tmp_path / "nowhere")
    assert [entry.name for entry in disk.scan(str(tmp_path))] == ["here"]


def test_removing_a_tree_finishes_when_someone_else_removes_parts_of_it(
    disk: SystemDisk, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tree = tmp_path / "tree"
    tree.mkdir()
    for name in ("a", "b", "c"):
        (tree / name).write_bytes(b"x")
    rmtree = shutil.rmtree
    calls = []

    def overtaken(path: str) -> None:
        calls.append(path)
        if len(calls) == 1:
            raise FileNotFoundError(errno.ENOENT, "removed by someone else", f"{path}/a")
        rmtree(path)

    monkeypatch.setattr(shutil, "rmtree", overtaken)
    disk.remove_tree(str(tree))
    assert not tree.exists()
    assert len(calls) == 2


def test_files_are_not_inherited_by_child_processes(disk: SystemDisk, path: str) -> None:
    file = disk.open(path, create=True)
    lock = disk.lock(path + ".lock")
    assert not os.get_inheritable(file.fileno())
    lock.release()
    file.close()


def test_a_descriptor_is_given_for_sendfile_while_the_file_is_open(disk: SystemDisk, path: str) -> None:
    file = disk.open(path, create=True)
    file.write_at(0, b"data")
    assert os.pread(file.fileno(), 4, 0) == b"data"
    file.close()
    with pytest.raises(OSError):
        file.fileno()


def test_sync_may_be_called_from_another_thread(disk: SystemDisk, path: str) -> None:
    file = disk.open(path, create=True)
    file.write_at(0, b"data")
    failures: list[BaseException] = []

    def sync() -> None:
        try:
            for _ in range(3):
                file.sync()
        except BaseException as error:
            failures.append(error)
            raise

    thread = threading.Thread(target=sync)
    thread.start()
    for position in range(4, 400, 4):
        file.write_at(position, b"more")
    thread.join()
    assert failures == []
    file.close()


# A lock as Java's FileChannel.tryLock takes it: a POSIX record lock over the whole file. Prints whether it was granted
# and then holds it until its input ends.
TAKE_RECORD_LOCK = """
import fcntl, os, sys
fd = os.open(sys.argv[1], os.O_RDWR | os.O_CREAT)
try:
    fcntl.lockf(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
except OSError:
    print("refused", flush=True)
else:
    print("granted", flush=True)
    sys.stdin.read()
"""
TAKE_OTTLA_LOCK = """
import sys
from ottla.world.system import SystemDisk
try:
    lock = SystemDisk().lock(sys.argv[1])
except BlockingIOError:
    print("refused", flush=True)
else:
    print("granted", flush=True)
    sys.stdin.read()
"""


@contextmanager
def another_process(program: str, path: str) -> Iterator[str]:
    """Run a program that tries the lock; yields what it said, and ends it as kill -9 would."""
    command = [sys.executable, "-c", program, path]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as child:
        assert child.stdout is not None
        try:
            yield child.stdout.readline().strip()
        finally:
            child.kill()


@pytest.mark.parametrize("program", [TAKE_RECORD_LOCK, TAKE_OTTLA_LOCK], ids=["as Java locks", "as Ottla locks"])
def test_a_lock_held_by_another_process_is_refused_until_that_ends(disk: SystemDisk, path: str, program: str) -> None:
    with another_process(program, path) as answer:
        assert answer == "granted"
        with pytest.raises(BlockingIOError):
            disk.lock(path)
    disk.lock(path).release()


@pytest.mark.parametrize("program", [TAKE_RECORD_LOCK, TAKE_OTTLA_LOCK], ids=["as Java locks", "as Ottla locks"])
def test_a_lock_held_here_is_refused_to_another_process(disk: SystemDisk, path: str, program: str) -> None:
    lock = disk.lock(path)
    with another_process(program, path) as answer:
        assert answer == "refused"
    lock.release()
    with another_process(program, path) as answer:
        assert answer == "granted"


def test_a_refused_second_lock_in_this_process_does_not_weaken_the_first(disk: SystemDisk, path: str) -> None:
    """Closing any descriptor of a file drops the process's record locks on it, so the second try must not open it."""
    lock = disk.lock(path)
    with pytest.raises(BlockingIOError):
        disk.lock(os.path.join(os.path.dirname(path), ".", os.path.basename(path)))
    with another_process(TAKE_RECORD_LOCK, path) as answer:
        assert answer == "refused"
    lock.release()


def test_a_lock_file_that_cannot_be_made_raises_its_own_error(disk: SystemDisk, tmp_path: Path) -> None:
    with pytest.raises(IsADirectoryError):
        disk.lock(str(tmp_path))


def test_the_clock_tells_wall_time_and_a_time_that_never_goes_back() -> None:
    clock = SystemClock()
    assert abs(clock.now_ms() - time.time() * 1000) < 5_000
    times = [clock.monotonic_ms() for _ in range(1000)]
    assert times == sorted(times)


def test_the_systems_world_is_made_of_the_systems_parts() -> None:
    world = system_world()
    assert isinstance(world.disk, SystemDisk)
    assert isinstance(world.clock, SystemClock)
    assert isinstance(world.random, SystemRandom)
