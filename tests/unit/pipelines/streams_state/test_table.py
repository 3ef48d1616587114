"""The table of committed entries: order, positions, retention, files."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from ottla.pipelines.errors import PipelineError
from ottla.pipelines.streams.queryable import table as table_module
from ottla.pipelines.streams.queryable.table import Change, StateTable
from ottla.pipelines.streams.stores import StoreKey


def put(key: bytes, value: bytes | None, *, start_ms: int = 0, end_ms: int = 0, partition: int = 0) -> Change:
    return Change(StoreKey(key, start_ms, end_ms), value, 1, partition)


@pytest.fixture
def table() -> Iterator[StateTable]:
    one = StateTable(None)
    yield one
    one.close()


def test_the_last_change_of_a_key_stays_and_a_deletion_deletes(table: StateTable) -> None:
    table.apply([put(b"a", b"1"), put(b"b", b"1"), put(b"a", b"2")], {0: 3})
    table.apply([put(b"b", None), put(b"c", b"1"), put(b"c", None), put(b"d", None), put(b"d", b"9")], {0: 8, 1: 2})
    assert [(row.key.key, row.value) for row in table.scan()] == [(b"a", b"2"), (b"d", b"9")]
    assert table.positions() == {0: 8, 1: 2}
    assert (table.count(), table.get(StoreKey(b"b"))) == (2, None)


def test_ranges_have_both_ends_and_go_by_bytes(table: StateTable) -> None:
    table.apply([put(key, b"v") for key in (b"\xff", b"b", b"a", b"ab", b"")], {})
    keys = [row.key.key for row in table.scan()]
    assert keys == [b"", b"a", b"ab", b"b", b"\xff"]
    assert [row.key.key for row in table.scan(first_key=b"a", last_key=b"b")] == [b"a", b"ab", b"b"]


def test_windows_are_chosen_by_start_and_sessions_by_overlap(table: StateTable) -> None:
    table.apply([put(b"k", b"v", start_ms=at, end_ms=at + 15) for at in (0, 10, 20, 30)], {})
    assert [row.key.start_ms for row in table.scan(from_ms=10, to_ms=20)] == [10, 20]
    assert [row.key.start_ms for row in table.scan(from_ms=16, to_ms=20, overlapping=True)] == [10, 20]


def test_old_windows_are_forgotten_by_the_newest_ones_time(table: StateTable) -> None:
    table.apply([put(b"k", b"v", start_ms=at) for at in (0, 10, 20)], {}, retention_ms=15)
    assert [row.key.start_ms for row in table.scan()] == [10, 20]


def test_a_long_scan_reads_pages_and_misses_nothing(table: StateTable, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(table_module, "PAGE_ROWS", 3)
    table.apply([put(b"%02d" % number, b"v") for number in range(10)], {})
    assert [row.key.key for row in table.scan(after=StoreKey(b"01"))] == [b"%02d" % number for number in range(2, 10)]


def test_a_key_that_moved_to_another_partition_is_told(table: StateTable) -> None:
    table.apply([put(b"a", b"1", partition=0)], {0: 1})
    with pytest.raises(PipelineError, match="moved from partition 0 to 2"):
        table.apply([put(b"b", b"1", partition=1), put(b"a", b"2", partition=2)], {1: 1, 2: 1})
    assert (table.get(StoreKey(b"b")), table.positions()) == (None, {0: 1}), "all of it, or nothing"


def test_a_file_goes_on_and_one_of_another_topic_is_emptied(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "t.sqlite"
    first = StateTable(path)
    first.is_copy_of({"topic id": "1"})
    first.apply([put(b"a", b"1")], {0: 1})
    first.close()
    again = StateTable(path)
    again.is_copy_of({"topic id": "1"})
    assert (again.count(), again.positions()) == (1, {0: 1})
    again.is_copy_of({"topic id": "2"})
    assert (again.count(), again.positions()) == (0, {})
    again.close()


def test_a_damaged_file_is_made_anew(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    path = tmp_path / "t.sqlite"
    path.write_bytes(b"this is no database, and long enough for a header of one" * 20)
    table = StateTable(path)
    assert table.count() == 0
    assert "is damaged" in caplog.text
    table.close()
