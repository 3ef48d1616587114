"""`ottla/sim/disk.py` and `tree.py`: which names and files a crash leaves. The everyday promises are tested in
`tests/unit/world/test_disk.py`, over this disk and the real one alike."""

from __future__ import annotations

import errno
import hashlib
import os
import subprocess
import sys
from collections.abc import Callable
from random import Random

import pytest

from ottla.sim import SimulatedCrash, VirtualClock, VirtualDisk, virtual_world

SEEDS = range(200)


def new_disk(seed: int = 1) -> VirtualDisk:
    return VirtualDisk(Random(seed), VirtualClock())


def put(disk: VirtualDisk, path: str, data: bytes, *, sync: bool = False) -> None:
    file = disk.open(path, create=True)
    file.write_at(0, data)
    if sync:
        file.sync()
    file.close()


def outcomes(prepare: Callable[[VirtualDisk], None]) -> set[tuple[str, ...]]:
    """The names in `/d` (itself durable) that a power loss after `prepare` leaves, over the seeds."""
    found = set()
    for seed in SEEDS:
        disk = new_disk(seed)
        disk.make_dirs("/d/e")
        disk.sync_dir("/")
        disk.sync_dir("/d")
        prepare(disk)
        disk.crash()
        inner = [f"e/{name}" for name in disk.names("/d/e")]
        found.add(tuple(sorted([name for name in disk.names("/d") if name != "e"] + inner)))
    return found


def test_unsynced_names_arrive_up_to_some_point_of_their_order() -> None:
    def prepare(disk: VirtualDisk) -> None:
        put(disk, "/d/a", b"")
        put(disk, "/d/b", b"")
        disk.rename("/d/a", "/d/c")
        disk.remove("/d/b")

    assert outcomes(prepare) == {(), ("a",), ("a", "b"), ("b", "c"), ("c",)}


def test_directories_have_no_order_between_them() -> None:
    def prepare(disk: VirtualDisk) -> None:
        put(disk, "/d/first", b"")
        put(disk, "/d/e/second", b"")

    assert outcomes(prepare) == {(), ("first",), ("e/second",), ("e/second", "first")}


def test_synced_names_stay() -> None:
    def prepare(disk: VirtualDisk) -> None:
        put(disk, "/d/a", b"")
        disk.rename("/d/a", "/d/b")
        disk.sync_dir("/d")
        put(disk, "/d/c", b"")

    assert outcomes(prepare) == {("b",), ("b", "c")}


def test_a_file_renamed_between_directories_is_always_in_exactly_one() -> None:
    def prepare(disk: VirtualDisk) -> None:
        put(disk, "/d/a", b"")
        disk.sync_dir("/d")
        put(disk, "/d/e/before", b"")
        disk.rename("/d/a", "/d/e/b")
        put(disk, "/d/after", b"")

    # The rename implies what came before it in both directories; what came after it implies the rename.
    assert outcomes(prepare) == {("a",), ("a", "e/before"), ("e/b", "e/before"), ("after", "e/b", "e/before")}


def test_syncing_a_directory_brings_what_its_changes_imply_in_another() -> None:
    def prepare(disk: VirtualDisk) -> None:
        put(disk, "/d/e/before", b"")
        put(disk, "/d/a", b"")
        disk.rename("/d/a", "/d/e/b")
        put(disk, "/d/e/later", b"")
        disk.sync_dir("/d")

    assert outcomes(prepare) == {("e/b", "e/before"), ("e/b", "e/before", "e/later")}


def test_a_replaced_file_is_the_old_or_the_new_one_and_never_missing() -> None:
    left = set()
    for seed in SEEDS:
        disk = new_disk(seed)
        put(disk, "/checkpoint", b"old", sync=True)
        disk.sync_dir("/")
        put(disk, "/checkpoint.tmp", b"new", sync=True)
        disk.rename("/checkpoint.tmp", "/checkpoint")
        disk.crash()
        left.add(disk.read("/checkpoint"))
    assert left == {b"old", b"new"}


def test_a_rename_may_arrive_before_the_bytes_of_its_file() -> None:
    """Why a checkpoint is synced before it is renamed into place."""
    left = set()
    for seed in SEEDS:
        disk = new_disk(seed)
        put(disk, "/checkpoint", b"old", sync=True)
        disk.sync_dir("/")
        put(disk, "/checkpoint.tmp", b"new")
        disk.rename("/checkpoint.tmp", "/checkpoint")
        disk.sync_dir("/")
        disk.crash()
        left.add(disk.read("/checkpoint"))
    assert left == {b"", bytes(3), b"new"}


def test_a_directorys_own_name_is_durable_only_when_its_parent_is_synced() -> None:
    left = set()
    for seed in SEEDS:
        disk = new_disk(seed)
        disk.make_dirs("/new")
        put(disk, "/new/a", b"data", sync=True)
        disk.sync_dir("/new")
        disk.crash()
        left.add(disk.exists("/new/a"))
    assert left == {True, False}


def test_a_removed_file_may_come_back_with_its_bytes() -> None:
    left = set()
    for seed in SEEDS:
        disk = new_disk(seed)
        put(disk, "/a", b"data", sync=True)
        disk.sync_dir("/")
        disk.remove("/a")
        put(disk, "/a", b"fresh", sync=True)
        disk.crash()
        left.add(disk.read("/a") if disk.exists("/a") else None)
    assert left == {b"data", None, b"fresh"}


def test_a_half_removed_tree_lacks_its_first_files() -> None:
    left = set()
    for seed in SEEDS:
        disk = new_disk(seed)
        disk.make_dirs("/t")
        for name in "abc":
            put(disk, f"/t/{name}", b"")
        disk.sync_dir("/t")
        disk.sync_dir("/")
        disk.remove_tree("/t")
        disk.crash()
        left.add("".join(disk.names("/t")) if disk.exists("/t") else None)
    assert left == {"abc", "bc", "c", "", None}


def test_a_file_moved_out_of_a_directory_that_is_then_removed_is_never_lost() -> None:
    left = set()
    for seed in SEEDS:
        disk = new_disk(seed)
        disk.make_dirs("/from")
        put(disk, "/from/a", b"data", sync=True)
        disk.sync_dir("/from")
        disk.sync_dir("/")
        disk.make_dirs("/to")
        disk.rename("/from/a", "/to/a")
        disk.remove_tree("/from")
        disk.crash()
        found = [path for path in ("/from/a", "/to/a") if disk.exists(path)]
        assert [disk.read(path) for path in found] == [b"data"], disk.trace()
        left.add((*found, disk.exists("/from")))
    assert left == {("/from/a", True), ("/to/a", True), ("/to/a", False)}


def test_modification_times_may_be_those_of_the_last_sync() -> None:
    left = set()
    for seed in SEEDS:
        clock = VirtualClock(1_000)
        disk = VirtualDisk(Random(seed), clock)
        put(disk, "/a", b"x", sync=True)
        disk.sync_dir("/")
        clock.advance(50)
        disk.set_modified_ms("/a", 700)
        disk.crash()
        left.add(disk.modified_ms("/a"))
    assert left == {1_000, 700}


def test_modification_times_come_from_the_clock() -> None:
    clock = VirtualClock(1_000)
    disk = VirtualDisk(Random(1), clock)
    file = disk.open("/a", create=True)
    clock.advance(5)
    file.write_at(0, b"x")
    assert disk.modified_ms("/a") == 1_005
    clock.advance(5)
    assert disk.modified_ms("/a") == 1_005
    file.allocate(10)
    assert [entry.modified_ms for entry in disk.scan("/")] == [1_010]


def test_a_process_crash_keeps_everything_and_a_power_loss_after_it_still_may_not() -> None:
    left = set()
    for seed in SEEDS:
        disk = new_disk(seed)
        disk.make_dirs("/d")
        put(disk, "/d/a", b"data")
        disk.rename("/d/a", "/d/b")
        disk.process_crash()
        assert disk.names("/d") == ["b"]
        assert disk.read("/d/b") == b"data"
        disk.crash()
        left.add(disk.read("/d/b") if disk.exists("/d/b") else None)
    assert {b"data", None} < left


@pytest.mark.parametrize("death", [VirtualDisk.crash, VirtualDisk.process_crash])
def test_files_and_locks_of_a_dead_node_are_dead(death: Callable[[VirtualDisk], None]) -> None:
    disk = new_disk()
    file = disk.open("/a", create=True)
    lock = disk.lock("/.lock")
    file.sync()
    disk.sync_dir("/")
    death(disk)
    for use in (lambda: file.read_at(0, 1), lambda: file.write_at(0, b"x"), file.size, file.sync):
        with pytest.raises(SimulatedCrash):
            use()
    file.close()
    held = disk.lock("/.lock")
    lock.release()
    with pytest.raises(BlockingIOError):
        disk.lock("/.lock")
    held.release()
    assert disk.read("/a") == b""


def test_after_a_crash_the_survivors_are_durable() -> None:
    for seed in range(50):
        disk = new_disk(seed)
        for number in range(5):
            put(disk, f"/{number}", bytes(range(100)) * 30)
        disk.crash()
        survivors = {name: disk.read(f"/{name}") for name in disk.names("/")}
        disk.crash()
        assert {name: disk.read(f"/{name}") for name in disk.names("/")} == survivors


def test_a_full_disk_writes_what_fits_and_room_comes_back() -> None:
    disk = VirtualDisk(Random(1), VirtualClock(), capacity_bytes=100)
    put(disk, "/a", b"x" * 60)
    file = disk.open("/b", create=True)
    with pytest.raises(OSError) as full:
        file.write_at(0, b"y" * 60)
    assert full.value.errno == errno.ENOSPC
    assert disk.read("/b") == b"y" * 40
    assert disk.used_bytes == 100
    file.write_at(0, b"z" * 40)  # no growth, no room needed
    with pytest.raises(OSError, match="no space"):
        file.allocate(41)
    assert file.size() == 40
    disk.remove("/a")
    assert disk.used_bytes == 40
    file.write_at(40, b"y" * 60)
    with pytest.raises(OSError, match="no space"):
        file.write_at(150, b"far behind the end")
    assert file.size() == 100
    file.truncate(10)
    put(disk, "/c", b"x" * 90)
    disk.rename("/c", "/b")
    assert disk.used_bytes == 90
    disk.process_crash()
    assert disk.used_bytes == 90
    disk.remove_tree("/missing")
    disk.remove("/b")
    assert disk.used_bytes == 0


def test_operations_and_syncs_are_counted_by_kind() -> None:
    disk = new_disk()
    file = disk.open("/a", create=True)
    file.write_at(0, b"x")
    file.write_all_at(1, [b"y", b"z"])
    file.sync()
    disk.sync_dir("/")
    disk.names("/")
    assert disk.counts == {"create": 1, "write": 2, "sync": 1, "sync_dir": 1, "scan": 1}
    assert disk.sync_count == 2
    assert disk.operation_count == 6


def test_the_trace_tells_what_was_done_and_what_a_crash_did() -> None:
    disk = new_disk(3)
    file = disk.open("/log", create=True)
    file.write_at(10, b"x" * 20)
    disk.rename("/log", "/moved")
    disk.fail_at(1, errno.EIO)
    with pytest.raises(OSError):
        disk.names("/")
    disk.crash()
    trace = disk.trace()
    for line in (
        "create       /log",
        "write        /log [10, 30)",
        "rename       /log -> /moved",
        "EIO before",
        "+log",
    ):
        assert line in trace
    assert len(disk.trace(last=2).splitlines()) == 2


def test_a_virtual_file_has_no_descriptor() -> None:
    with pytest.raises(OSError):
        new_disk().open("/a", create=True).fileno()


def test_a_path_does_not_climb() -> None:
    with pytest.raises(AssertionError):
        new_disk().exists("/a/../b")
    with pytest.raises(FileNotFoundError):
        new_disk().read("")


@pytest.mark.parametrize("seed", range(100))
def test_what_was_synced_with_its_name_is_there_after_any_crash(seed: int) -> None:
    """Random work on a few files; whatever was last made durable and left alone since must be found as it was."""
    random = Random(seed)
    disk = new_disk(seed)
    for directory in ("/x", "/y"):
        disk.make_dirs(directory)
    disk.sync_dir("/")
    durable: dict[str, bytes] = {}
    for _ in range(3):
        for _ in range(random.randrange(60)):
            path = random.choice(["/x/", "/y/"]) + random.choice("abc")
            match random.choice(["write", "write", "cut", "rename", "remove", "settle"]):
                case "write":
                    durable.pop(path, None)
                    file = disk.open(path, create=True)
                    file.write_at(random.randrange(3_000), random.randbytes(random.randrange(3_000)))
                    file.close()
                case "cut" if disk.exists(path):
                    durable.pop(path, None)
                    disk.open(path).truncate(random.randrange(4_000))
                case "rename" if disk.exists(path):
                    target = random.choice(["/x/", "/y/"]) + random.choice("abc")
                    durable.pop(path, None)
                    durable.pop(target, None)
                    disk.rename(path, target)
                case "remove" if disk.exists(path):
                    durable.pop(path, None)
                    disk.remove(path)
                case "settle" if disk.exists(path):
                    disk.open(path).sync()
                    disk.sync_dir(path[:2])
                    durable[path] = disk.read(path)
        disk.crash()
        for path, data in durable.items():
            assert disk.exists(path), disk.trace()
            assert disk.read(path) == data, disk.trace()


SCENARIO = """
from tests.unit.sim.test_disk import fingerprint
print(fingerprint())
"""


def fingerprint() -> str:
    """A digest of all that many crashes leave."""
    digest = hashlib.sha256()
    for seed in range(40):
        world = virtual_world(Random(seed))
        disk, random = world.disk, world.random
        disk.make_dirs("/logs/topic-0")
        disk.make_dirs("/logs/topic-1")
        disk.crash_at(80, moment="during")
        try:
            while True:
                path = f"/logs/topic-{random.randrange(2)}/{random.randrange(4)}"
                file = disk.open(path, create=True)
                file.write_at(random.randrange(2_000), random.randbytes(2_000))
                if random.randrange(3) == 0:
                    file.sync()
                    disk.sync_dir("/logs")
                if random.randrange(4) == 0:
                    disk.rename(path, f"{path}.moved")
        except SimulatedCrash as crash:
            digest.update(str(crash).encode())
        disk.crash()
        digest.update(disk.trace().encode())
        for directory in disk.names("/"):
            for topic in disk.names(f"/{directory}"):
                for entry in disk.scan(f"/{directory}/{topic}"):
                    digest.update(repr(entry).encode())
                    digest.update(disk.read(f"/{directory}/{topic}/{entry.name}"))
    return digest.hexdigest()


def test_a_seed_leaves_the_same_bytes_in_every_process() -> None:
    """Two interpreters that hash strings differently, and this one, agree."""
    prints = {fingerprint()}
    for hash_seed in ("1", "2"):
        environment = {**os.environ, "PYTHONHASHSEED": hash_seed}
        command = [sys.executable, "-c", SCENARIO]
        done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60, check=True)
        prints.add(done.stdout.strip())
    assert len(prints) == 1
