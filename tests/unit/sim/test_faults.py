"""`ottla/sim/faults.py`, through the disk: the nth call fails, or the node dies before, in or after it."""

from __future__ import annotations

import errno
from random import Random

import pytest

from ottla.sim import CHANGES, Kind, SimulatedCrash, VirtualClock, VirtualDisk, VirtualFile


@pytest.fixture
def disk() -> VirtualDisk:
    return VirtualDisk(Random(1), VirtualClock())


@pytest.fixture
def file(disk: VirtualDisk) -> VirtualFile:
    return disk.open("/file", create=True)


def test_the_nth_operation_fails_once_with_the_chosen_error(disk: VirtualDisk, file: VirtualFile) -> None:
    disk.fail_at(3, errno.EIO)
    file.write_at(0, b"a")
    assert file.size() == 1
    with pytest.raises(OSError) as failed:
        file.write_at(1, b"b")
    assert failed.value.errno == errno.EIO
    assert failed.value.filename == "/file"
    file.write_at(1, b"c")
    assert disk.read("/file") == b"ac"


def test_only_operations_of_the_chosen_kinds_count(disk: VirtualDisk, file: VirtualFile) -> None:
    disk.fail_at(2, errno.ENOSPC, kinds=["write", "create"])
    file.write_at(0, b"a")
    file.sync()
    file.read_at(0, 1)
    with pytest.raises(OSError, match="no space"):
        disk.open("/other", create=True)
    assert not disk.exists("/other")


def test_faults_planned_together_each_strike_their_own_call(disk: VirtualDisk, file: VirtualFile) -> None:
    disk.fail_at(1, errno.EIO, kinds=["write"])
    disk.fail_at(2, errno.ENOSPC, kinds=["write"])
    for expected in (errno.EIO, errno.ENOSPC):
        with pytest.raises(OSError) as failed:
            file.write_at(0, b"a")
        assert failed.value.errno == expected
    file.write_at(0, b"a")


def test_planned_faults_can_be_forgotten(disk: VirtualDisk, file: VirtualFile) -> None:
    disk.fail_at(1, errno.EIO)
    disk.crash_at(1)
    disk.clear_faults()
    file.write_at(0, b"a")
    assert disk.read("/file") == b"a"


OPERATIONS: dict[Kind, str] = {
    "open": "disk.open('/d/file')",
    "create": "disk.open('/d/new', create=True)",
    "read": "file.read_at(0, 1)",
    "write": "file.write_at(0, b'new')",
    "truncate": "file.truncate(1)",
    "allocate": "file.allocate(9)",
    "sync": "file.sync()",
    "scan": "disk.names('/d')",
    "stat": "disk.exists('/d')",
    "set_modified": "disk.set_modified_ms('/d/file', 5)",
    "make_dirs": "disk.make_dirs('/d/x/y')",
    "rename": "disk.rename('/d/file', '/d/moved')",
    "remove": "disk.remove('/d/file')",
    "remove_tree": "disk.remove_tree('/d')",
    "sync_dir": "disk.sync_dir('/d')",
    "lock": "disk.lock('/d/.lock')",
}


def state(disk: VirtualDisk) -> list[tuple[str, bytes, int]]:
    """Every directory, and every file with its bytes and its time."""
    found = []
    waiting = ["/"]
    while waiting:
        path = waiting.pop()
        found.append((path, b"", 0))
        for entry in disk.scan(path):
            inner = f"{path.rstrip('/')}/{entry.name}"
            if entry.is_dir:
                waiting.append(inner)
            else:
                found.append((inner, disk.read(inner), entry.modified_ms))
    return sorted(found)


@pytest.mark.parametrize("kind", OPERATIONS)
def test_the_node_dies_before_or_after_any_kind_of_operation(kind: Kind) -> None:
    """Before: nothing was done. After: all was. Either way what the process wrote stays, as the system lives on."""
    states = {}
    for moment in ("before", "after", None):
        clock = VirtualClock(1_000)
        disk = VirtualDisk(Random(1), clock)
        disk.make_dirs("/d")
        file = disk.open("/d/file", create=True)
        file.write_at(0, b"old")
        clock.advance(1)
        begun = state(disk)
        if moment is None:
            eval(OPERATIONS[kind], {"disk": disk, "file": file})
        else:
            disk.crash_at(1, kinds=[kind], moment="after" if moment == "after" else "before")
            with pytest.raises(SimulatedCrash):
                eval(OPERATIONS[kind], {"disk": disk, "file": file})
            disk.process_crash()
        states[moment] = state(disk)
        if moment == "before":
            assert states[moment] == begun
    assert states["after"] == states[None]


def test_every_kind_is_tried_and_the_changing_ones_are_the_points_worth_crashing_at() -> None:
    assert set(CHANGES) == set(OPERATIONS) - {"open", "read", "scan", "stat", "set_modified", "lock"}


def test_a_death_during_a_write_leaves_any_part_of_it() -> None:
    left = set()
    for seed in range(100):
        disk = VirtualDisk(Random(seed), VirtualClock())
        file = disk.open("/file", create=True)
        disk.crash_at(1, kinds=["write"], moment="during")
        with pytest.raises(SimulatedCrash):
            file.write_all_at(0, [b"ab", b"cd"])
        disk.process_crash()
        left.add(disk.read("/file"))
    assert left == {b"", b"a", b"ab", b"abc", b"abcd"}


def test_a_death_during_something_atomic_does_it_or_does_not() -> None:
    left = set()
    for seed in range(50):
        disk = VirtualDisk(Random(seed), VirtualClock())
        disk.open("/old", create=True)
        disk.crash_at(1, kinds=["rename"], moment="during")
        with pytest.raises(SimulatedCrash):
            disk.rename("/old", "/new")
        disk.process_crash()
        left.add(tuple(disk.names("/")))
    assert left == {("old",), ("new",)}


def test_a_death_while_a_tree_is_removed_or_made_leaves_part_of_it() -> None:
    removed, made = set(), set()
    for seed in range(50):
        disk = VirtualDisk(Random(seed), VirtualClock())
        disk.make_dirs("/t")
        for name in "abc":
            disk.open(f"/t/{name}", create=True)
        disk.crash_at(1, moment="during")
        with pytest.raises(SimulatedCrash):
            disk.remove_tree("/t")
        disk.process_crash()
        removed.add("".join(disk.names("/t")) if disk.exists("/t") else None)
        disk.crash_at(1, moment="during")
        with pytest.raises(SimulatedCrash):
            disk.make_dirs("/x/y/z")
        disk.process_crash()
        made.add(sum(disk.exists(path) for path in ("/x", "/x/y", "/x/y/z")))
    assert removed == {"abc", "bc", "c", "", None}
    assert made == {0, 1, 2, 3}


def test_a_write_that_fails_half_way_has_written_part_of_its_data() -> None:
    left = set()
    for seed in range(50):
        disk = VirtualDisk(Random(seed), VirtualClock())
        file = disk.open("/file", create=True)
        disk.fail_at(1, errno.EIO, kinds=["write"], moment="during")
        with pytest.raises(OSError):
            file.write_at(0, b"abc")
        left.add(disk.read("/file"))
    assert left == {b"", b"a", b"ab", b"abc"}


@pytest.mark.parametrize("moment", ["before", "during"])
def test_data_of_a_failed_sync_is_not_saved_by_the_next_one(moment: str) -> None:
    """Linux marks the pages clean when it reports the failure, so a retried fsync succeeds and the data is lost."""
    left = set()
    for seed in range(50):
        disk = VirtualDisk(Random(seed), VirtualClock())
        file = disk.open("/file", create=True)
        disk.sync_dir("/")
        file.write_at(0, b"data")
        disk.fail_at(1, errno.EIO, kinds=["sync"], moment="during" if moment == "during" else "before")
        with pytest.raises(OSError):
            file.sync()
        assert file.read_at(0, 4) == b"data"
        file.sync()
        disk.crash()
        left.add(disk.read("/file"))
    assert left == {b"data", bytes(4)}


def test_no_clean_up_of_the_dying_node_changes_the_disk(disk: VirtualDisk, file: VirtualFile) -> None:
    disk.crash_at(1, kinds=["write"])
    lock = disk.lock("/.lock")

    def dying() -> None:
        try:
            file.write_at(0, b"x")
        except Exception:  # noqa: BLE001 - as a careless caller would
            raise AssertionError("a crash is not an error that can be handled") from None
        finally:
            file.close()
            lock.release()
            disk.remove("/file")

    with pytest.raises(SimulatedCrash):
        dying()
    with pytest.raises(SimulatedCrash):
        disk.exists("/file")
    disk.process_crash()
    assert disk.names("/") == [".lock", "file"]


def test_the_hook_sees_every_operation_and_may_fail_it(disk: VirtualDisk, file: VirtualFile) -> None:
    seen = []

    def hook(kind: Kind, path: str) -> None:
        seen.append((kind, path))
        if kind == "remove":
            raise PermissionError(errno.EACCES, "not today", path)

    disk.on_operation = hook
    file.write_at(0, b"x")
    file.sync()
    disk.rename("/file", "/moved")
    with pytest.raises(PermissionError):
        disk.remove("/moved")
    assert seen == [("write", "/file"), ("sync", "/file"), ("rename", "/file"), ("remove", "/moved")]
    assert disk.exists("/moved")


def test_a_hook_may_kill_the_node(disk: VirtualDisk, file: VirtualFile) -> None:
    def hook(kind: Kind, path: str) -> None:
        if (kind, path) == ("rename", "/file"):
            raise SimulatedCrash("here")

    disk.on_operation = hook
    with pytest.raises(SimulatedCrash, match="here"):
        disk.rename("/file", "/moved")
    with pytest.raises(SimulatedCrash):
        file.size()
    disk.process_crash()
    assert disk.names("/") == ["file"]


def test_a_directory_whose_device_dies_fails_and_the_others_work_on() -> None:
    disk = VirtualDisk(Random(1), VirtualClock())
    files = {}
    for directory in ("/data/a", "/data/ab"):
        disk.make_dirs(directory)
        files[directory] = disk.open(f"{directory}/file", create=True)
        files[directory].write_at(0, b"kept")
    disk.fail_directory("/data/a")
    for operation in (
        lambda: files["/data/a"].write_at(0, b"lost"),
        lambda: files["/data/a"].read_at(0, 4),
        files["/data/a"].sync,
        lambda: disk.names("/data/a"),
        lambda: disk.rename("/data/a/file", "/data/ab/other"),
    ):
        with pytest.raises(OSError, match="input/output error"):
            operation()
    files["/data/ab"].write_at(0, b"more")
    disk.mend()
    assert disk.read("/data/a/file") == b"kept"
    assert disk.read("/data/ab/file") == b"more"


def test_a_replaced_device_is_empty_for_good() -> None:
    disk = VirtualDisk(Random(1), VirtualClock())
    for path in ("/data/a/topic-0", "/data/b"):
        disk.make_dirs(path)
        disk.open(f"{path}/file", create=True).write_at(0, b"bytes")
    for path in ("/", "/data", "/data/a", "/data/a/topic-0", "/data/b"):
        disk.sync_dir(path)
    disk.process_crash()
    disk.lose_directory("/data/a")
    assert disk.names("/data/a") == []
    assert disk.used_bytes == 5
    disk.crash()
    assert disk.names("/data/a") == []
    assert disk.names("/data/b") == ["file"]


def test_peeking_is_no_operation_and_works_on_a_dead_nodes_disk(disk: VirtualDisk, file: VirtualFile) -> None:
    file.write_at(0, b"bytes")
    disk.crash_at(1, kinds=["read"])
    count = disk.operation_count
    disk.halt()
    assert disk.peek("/file") == b"bytes"
    assert list(disk.peek_files()) == ["/file"]
    assert list(disk.peek_files("/nowhere")) == []
    assert disk.operation_count == count
