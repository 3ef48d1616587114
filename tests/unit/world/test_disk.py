"""Every promise of `ottla/world/disk.py`, asked of the real disk and of the simulator's alike."""

from __future__ import annotations

import array
from collections.abc import Callable

import pytest

from ottla.types import Buffer
from ottla.world import Disk, Entry


def put(disk: Disk, path: str, data: bytes) -> None:
    file = disk.open(path, create=True)
    file.truncate(0)
    file.write_at(0, data)
    file.close()


MISSING: list[tuple[str, Callable[[Disk, str], object]]] = [
    ("open", lambda disk, path: disk.open(path)),
    ("open read-only, which never creates", lambda disk, path: disk.open(path, create=True, read_only=True)),
    ("create below", lambda disk, path: disk.open(f"{path}/below", create=True)),
    ("read", lambda disk, path: disk.read(path)),
    ("scan", lambda disk, path: disk.scan(path)),
    ("names", lambda disk, path: disk.names(path)),
    ("size", lambda disk, path: disk.size(path)),
    ("modified_ms", lambda disk, path: disk.modified_ms(path)),
    ("set_modified_ms", lambda disk, path: disk.set_modified_ms(path, 1)),
    ("rename", lambda disk, path: disk.rename(path, path + "2")),
    ("remove", lambda disk, path: disk.remove(path)),
    ("sync_dir", lambda disk, path: disk.sync_dir(path)),
    ("lock below", lambda disk, path: disk.lock(f"{path}/.lock")),
]


@pytest.mark.parametrize("operation", [case[1] for case in MISSING], ids=[case[0] for case in MISSING])
def test_a_missing_file_or_directory_raises_file_not_found(
    disk: Disk, root: str, operation: Callable[[Disk, str], object]
) -> None:
    with pytest.raises(FileNotFoundError):
        operation(disk, f"{root}/missing")
    assert disk.names(root) == []


def test_a_rename_into_a_missing_directory_raises_file_not_found_and_keeps_the_file(disk: Disk, root: str) -> None:
    put(disk, f"{root}/a", b"kept")
    with pytest.raises(FileNotFoundError):
        disk.rename(f"{root}/a", f"{root}/missing/a")
    assert disk.read(f"{root}/a") == b"kept"


def test_creating_a_file_that_exists_keeps_its_bytes(disk: Disk, root: str) -> None:
    put(disk, f"{root}/a", b"here")
    file = disk.open(f"{root}/a", create=True)
    assert file.read_at(0, 10) == b"here"
    assert file.path == f"{root}/a"
    file.close()


def test_a_read_is_short_only_at_the_end_of_the_file(disk: Disk, root: str) -> None:
    put(disk, f"{root}/a", b"0123456789")
    file = disk.open(f"{root}/a", read_only=True)
    assert file.read_at(2, 3) == b"234"
    assert file.read_at(7, 100) == b"789"
    assert file.read_at(10, 1) == b""
    assert file.read_at(1000, 5) == b""
    assert file.read_at(3, 0) == b""
    file.close()


def test_a_read_is_of_bytes_that_later_writes_leave_alone(disk: Disk, root: str) -> None:
    file = disk.open(f"{root}/a", create=True)
    file.write_at(0, b"first")
    before = file.read_at(0, 5)
    file.write_at(0, b"other")
    assert before == b"first"
    assert type(before) is bytes
    file.close()


@pytest.mark.parametrize(
    "data",
    [b"abcdefgh", bytearray(b"abcdefgh"), memoryview(b"__abcdefgh")[2:], memoryview(array.array("H", b"abcdefgh"))],
    ids=["bytes", "bytearray", "memoryview", "memoryview of 16-bit items"],
)
def test_every_kind_of_buffer_is_written_whole(disk: Disk, root: str, data: Buffer) -> None:
    file = disk.open(f"{root}/a", create=True)
    file.write_at(0, data)
    file.write_all_at(8, [data, data])
    file.close()
    assert disk.read(f"{root}/a") == b"abcdefgh" * 3


def test_a_buffer_may_be_reused_after_it_was_written(disk: Disk, root: str) -> None:
    file = disk.open(f"{root}/a", create=True)
    buffer = bytearray(b"first")
    file.write_at(0, buffer)
    file.write_all_at(5, [buffer])
    buffer[:] = b"XXXXX"
    buffer.extend(b"a view that was kept would refuse this")
    file.close()
    assert disk.read(f"{root}/a") == b"firstfirst"


def test_a_write_behind_the_end_leaves_zeros_before_it(disk: Disk, root: str) -> None:
    file = disk.open(f"{root}/a", create=True)
    file.write_at(5, b"x")
    assert file.size() == 6
    assert file.read_at(0, 6) == b"\0\0\0\0\0x"
    file.close()


def test_a_write_of_nothing_changes_nothing(disk: Disk, root: str) -> None:
    file = disk.open(f"{root}/a", create=True)
    file.write_at(10, b"")
    file.write_all_at(10, [])
    file.write_all_at(10, [b"", b""])
    assert file.size() == 0
    file.close()


def test_a_write_over_what_is_there_replaces_only_that(disk: Disk, root: str) -> None:
    put(disk, f"{root}/a", b"0123456789")
    file = disk.open(f"{root}/a")
    file.write_at(3, b"abc")
    file.write_at(8, b"XYZ")
    file.close()
    assert disk.read(f"{root}/a") == b"012abc67XYZ"


@pytest.mark.parametrize("count", [1, 1023, 1024, 1025, 3000])
def test_parts_are_written_in_order_however_many_there_are(disk: Disk, root: str, count: int) -> None:
    """Linux takes at most 1024 buffers a call; every seventh part is empty."""
    parts = [b"" if index % 7 == 3 else b"%d," % index for index in range(count)]
    file = disk.open(f"{root}/a", create=True)
    file.write_at(0, b"head")
    file.write_all_at(4, parts)
    file.close()
    assert disk.read(f"{root}/a") == b"head" + b"".join(parts)


def test_empty_parts_between_full_ones_are_no_obstacle(disk: Disk, root: str) -> None:
    file = disk.open(f"{root}/a", create=True)
    file.write_all_at(0, [b"", b"ab", b"", b"", b"c", b""])
    file.close()
    assert disk.read(f"{root}/a") == b"abc"


def test_two_openings_of_a_file_see_each_others_writes(disk: Disk, root: str) -> None:
    writer = disk.open(f"{root}/a", create=True)
    reader = disk.open(f"{root}/a", read_only=True)
    writer.write_at(0, b"seen")
    assert reader.read_at(0, 4) == b"seen"
    assert reader.size() == 4
    writer.close()
    assert reader.read_at(0, 4) == b"seen"
    reader.close()


def test_truncating_cuts_and_what_grows_back_is_zeros(disk: Disk, root: str) -> None:
    file = disk.open(f"{root}/a", create=True)
    file.write_at(0, b"0123456789")
    file.truncate(4)
    assert file.size() == 4
    file.truncate(8)
    assert file.read_at(0, 100) == b"0123\0\0\0\0"
    file.close()


def test_allocating_extends_with_zeros_and_never_cuts(disk: Disk, root: str) -> None:
    file = disk.open(f"{root}/a", create=True)
    file.write_at(0, b"data")
    file.allocate(4096)
    assert file.size() == 4096
    assert file.read_at(0, 4096) == b"data" + bytes(4092)
    file.allocate(10)
    file.allocate(0)
    assert file.size() == 4096
    file.close()


def test_a_closed_file_refuses_everything_but_another_close(disk: Disk, root: str) -> None:
    file = disk.open(f"{root}/a", create=True)
    file.close()
    file.close()
    uses: list[Callable[[], object]] = [
        lambda: file.read_at(0, 1),
        lambda: file.write_at(0, b"x"),
        lambda: file.write_all_at(0, [b"x"]),
        file.size,
        lambda: file.truncate(0),
        lambda: file.allocate(1),
        file.sync,
        file.fileno,
    ]
    for use in uses:
        with pytest.raises(OSError):
            use()
    assert disk.size(f"{root}/a") == 0


def test_a_read_only_file_refuses_to_change(disk: Disk, root: str) -> None:
    put(disk, f"{root}/a", b"data")
    file = disk.open(f"{root}/a", read_only=True)
    changes: list[Callable[[], object]] = [
        lambda: file.write_at(0, b"x"),
        lambda: file.write_all_at(0, [b"x"]),
        lambda: file.truncate(0),
        lambda: file.allocate(100),
    ]
    for change in changes:
        with pytest.raises(OSError):
            change()
    file.sync()
    file.close()
    assert disk.read(f"{root}/a") == b"data"


def test_a_negative_position_is_refused(disk: Disk, root: str) -> None:
    file = disk.open(f"{root}/a", create=True)
    for use in (
        lambda: file.read_at(-1, 1),
        lambda: file.read_at(0, -1),
        lambda: file.write_at(-1, b"x"),
        lambda: file.write_all_at(-1, [b"x"]),
        lambda: file.truncate(-1),
    ):
        with pytest.raises(OSError):
            use()
    assert file.size() == 0
    file.close()


def test_syncs_return_and_change_nothing_that_is_seen(disk: Disk, root: str) -> None:
    file = disk.open(f"{root}/a", create=True)
    file.write_at(0, b"data")
    file.sync()
    disk.sync_dir(root)
    file.sync()
    assert file.read_at(0, 10) == b"data"
    file.close()


def test_an_open_file_outlives_its_name(disk: Disk, root: str) -> None:
    """A reader goes on after retention removed the segment, or compaction renamed another over it."""
    put(disk, f"{root}/a", b"old")
    file = disk.open(f"{root}/a")
    disk.rename(f"{root}/a", f"{root}/b")
    file.write_at(3, b"er")
    assert disk.read(f"{root}/b") == b"older"
    disk.remove(f"{root}/b")
    put(disk, f"{root}/b", b"new")
    assert file.read_at(0, 10) == b"older"
    assert disk.read(f"{root}/b") == b"new"
    file.close()


def test_a_rename_replaces_the_target(disk: Disk, root: str) -> None:
    put(disk, f"{root}/a.tmp", b"new")
    put(disk, f"{root}/a", b"old and longer")
    disk.rename(f"{root}/a.tmp", f"{root}/a")
    assert disk.read(f"{root}/a") == b"new"
    assert disk.names(root) == ["a"]


def test_a_rename_moves_between_directories(disk: Disk, root: str) -> None:
    disk.make_dirs(f"{root}/one")
    disk.make_dirs(f"{root}/two")
    put(disk, f"{root}/one/a", b"x")
    disk.rename(f"{root}/one/a", f"{root}/two/b")
    assert (disk.names(f"{root}/one"), disk.names(f"{root}/two")) == ([], ["b"])


def test_a_directory_is_renamed_with_all_in_it_and_may_replace_an_empty_one(disk: Disk, root: str) -> None:
    disk.make_dirs(f"{root}/topic-0/deep")
    put(disk, f"{root}/topic-0/deep/a", b"x")
    disk.make_dirs(f"{root}/topic-0-delete")
    disk.rename(f"{root}/topic-0", f"{root}/topic-0-delete")
    assert disk.names(root) == ["topic-0-delete"]
    assert disk.read(f"{root}/topic-0-delete/deep/a") == b"x"


def test_a_rename_to_the_same_name_changes_nothing(disk: Disk, root: str) -> None:
    put(disk, f"{root}/a", b"x")
    disk.rename(f"{root}/a", f"{root}/a")
    assert disk.read(f"{root}/a") == b"x"


def test_renames_that_would_lose_something_are_refused(disk: Disk, root: str) -> None:
    put(disk, f"{root}/file", b"x")
    disk.make_dirs(f"{root}/dir/inner")
    disk.make_dirs(f"{root}/other")
    with pytest.raises(IsADirectoryError):
        disk.rename(f"{root}/file", f"{root}/dir")
    with pytest.raises(NotADirectoryError):
        disk.rename(f"{root}/dir", f"{root}/file")
    with pytest.raises(OSError):
        disk.rename(f"{root}/other", f"{root}/dir")  # not empty
    with pytest.raises(OSError):
        disk.rename(f"{root}/dir", f"{root}/dir/inner/dir")  # into itself
    assert disk.names(root) == ["dir", "file", "other"]
    assert disk.names(f"{root}/dir") == ["inner"]


def test_a_removed_file_is_gone_and_a_directory_is_not_removed_as_one(disk: Disk, root: str) -> None:
    put(disk, f"{root}/a", b"x")
    disk.make_dirs(f"{root}/dir")
    disk.remove(f"{root}/a")
    assert not disk.exists(f"{root}/a")
    with pytest.raises(OSError):
        disk.remove(f"{root}/dir")
    assert disk.names(root) == ["dir"]


def test_a_tree_is_removed_with_all_in_it_and_a_missing_one_is_no_error(disk: Disk, root: str) -> None:
    disk.make_dirs(f"{root}/tree/deep/deeper")
    put(disk, f"{root}/tree/a", b"x")
    put(disk, f"{root}/tree/deep/b", b"x")
    put(disk, f"{root}/beside", b"x")
    disk.remove_tree(f"{root}/tree")
    disk.remove_tree(f"{root}/tree")
    disk.remove_tree(f"{root}/tree/deep")
    assert disk.names(root) == ["beside"]
    with pytest.raises(NotADirectoryError):
        disk.remove_tree(f"{root}/beside")
    assert disk.read(f"{root}/beside") == b"x"


def test_directories_are_made_with_what_is_missing_above_and_may_exist(disk: Disk, root: str) -> None:
    disk.make_dirs(f"{root}/a/b/c")
    disk.make_dirs(f"{root}/a/b/c")
    disk.make_dirs(f"{root}/a/b/d/")
    assert disk.names(f"{root}/a/b") == ["c", "d"]
    put(disk, f"{root}/file", b"x")
    with pytest.raises(FileExistsError):
        disk.make_dirs(f"{root}/file")
    with pytest.raises(NotADirectoryError):
        disk.make_dirs(f"{root}/file/below")
    assert disk.read(f"{root}/file") == b"x"


def test_listings_are_sorted_and_tell_sizes_and_directories(disk: Disk, root: str) -> None:
    for name in ("b", "a", "c", "B"):
        put(disk, f"{root}/{name}", b"x" * ord(name))
        disk.set_modified_ms(f"{root}/{name}", ord(name) * 1_000)
    disk.make_dirs(f"{root}/aa")
    assert disk.names(root) == ["B", "a", "aa", "b", "c"]
    entries = disk.scan(root)
    assert [entry.name for entry in entries] == ["B", "a", "aa", "b", "c"]
    assert [entry for entry in entries if not entry.is_dir] == [
        Entry(name, False, ord(name), ord(name) * 1_000) for name in ("B", "a", "b", "c")
    ]
    assert entries[2].is_dir
    assert disk.scan(f"{root}/aa") == []
    for listing in (disk.scan, disk.names, disk.sync_dir):
        with pytest.raises(NotADirectoryError):
            listing(f"{root}/a")


def test_sizes_and_existence_are_told_by_path(disk: Disk, root: str) -> None:
    put(disk, f"{root}/a", b"12345")
    assert disk.size(f"{root}/a") == 5
    assert disk.exists(f"{root}/a")
    assert disk.exists(root)
    assert not disk.exists(f"{root}/b")
    assert not disk.exists(f"{root}/a/below")


def test_a_modification_time_is_set_to_the_millisecond_and_moved_by_a_write(disk: Disk, root: str) -> None:
    put(disk, f"{root}/a", b"x")
    disk.set_modified_ms(f"{root}/a", 1_234_567_890_123)
    assert disk.modified_ms(f"{root}/a") == 1_234_567_890_123
    file = disk.open(f"{root}/a")
    assert disk.modified_ms(f"{root}/a") == 1_234_567_890_123
    file.write_at(0, b"y")
    assert disk.modified_ms(f"{root}/a") > 1_700_000_000_000
    disk.set_modified_ms(f"{root}/a", 5)
    file.truncate(0)
    assert disk.modified_ms(f"{root}/a") > 1_700_000_000_000
    file.close()


def test_a_directory_is_no_file(disk: Disk, root: str) -> None:
    for use in (disk.open, lambda path: disk.open(path, create=True), disk.read):
        with pytest.raises(IsADirectoryError):
            use(root)


def test_a_held_lock_is_refused_until_released(disk: Disk, root: str) -> None:
    path = f"{root}/.lock"
    lock = disk.lock(path)
    assert disk.exists(path)
    for _ in range(2):
        with pytest.raises(BlockingIOError):
            disk.lock(path)
    other = disk.lock(f"{root}/.other")
    lock.release()
    again = disk.lock(path)
    lock.release()  # spent: it must not release what another holds now
    with pytest.raises(BlockingIOError):
        disk.lock(path)
    again.release()
    other.release()


def test_locking_keeps_what_the_file_holds(disk: Disk, root: str) -> None:
    put(disk, f"{root}/.lock", b"kept")
    disk.lock(f"{root}/.lock").release()
    assert disk.read(f"{root}/.lock") == b"kept"
