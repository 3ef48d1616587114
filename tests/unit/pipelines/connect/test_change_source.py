"""The spool of changes, and how Spark is told of it: numbers, sizes, holes and rows. Without a Spark that runs."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql.streaming.datasource import ReadAllAvailable

from ottla.pipelines.connect import change_source
from ottla.pipelines.connect.change_source import ChangeFiles, ChangeStreamReader, offset_in
from ottla.pipelines.connect.change_spool import ChangeSpool, Position, files, read_position
from ottla.pipelines.errors import PipelineError


def line(number: int, size: int = 1) -> bytes:
    return b'%d\tt\t%d\t{"id":%d}\t%s\t\\N\n' % (number, number, number, b"v" * size if number % 5 else b"\\N")


def filled(path: Path, *counts: int, size: int = 1) -> ChangeSpool:
    """A spool with a file for each count of records."""
    spool, number = ChangeSpool(path), 0
    for count in counts:
        for _ in range(count):
            spool.write([line(number, size)])
            number += 1
        spool.publish(Position(number, 1000 + number, "slot", "system"))
    return spool


def end(reader: ChangeStreamReader, start: int) -> int:
    found = offset_in(reader.latestOffset(at(start), ReadAllAvailable()))
    assert found is not None
    return found


def at(number: int) -> dict[str, dict[str, int]]:
    return {"changes": {"0": number}}


def test_micro_batches_are_whole_files_up_to_a_size(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    filled(tmp_path, 3, 2, 5, 1, size=100)
    reader = ChangeStreamReader(str(tmp_path), is_ordered=True)
    assert offset_in(reader.initialOffset()) == 0
    assert offset_in(reader.reportLatestOffset()) == 11
    assert end(reader, 0) == 11
    monkeypatch.setattr(change_source, "BATCH_BYTES_MAX", 600)
    assert [end(reader, start) for start in (0, 3, 5, 10, 11)] == [5, 5, 11, 11, 11]
    (ordered,) = reader.partitions(at(0), at(11))
    assert isinstance(ordered, ChangeFiles)
    assert [Path(path).name[:20] for path in ordered.paths] == [f"{number:020d}" for number in (0, 3, 5, 10)]
    monkeypatch.setattr(change_source, "TASK_BYTES", 600)
    tasks = ChangeStreamReader(str(tmp_path), is_ordered=False).partitions(at(3), at(11))
    assert [len(task.paths) for task in tasks if isinstance(task, ChangeFiles)] == [1, 2]


def test_rows_of_a_snapshot_are_read_by_several_tasks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    spool = ChangeSpool(tmp_path)
    for number in range(6):
        spool.write([line(number, 100)])
        if number % 2:
            spool.roll(number + 1, 7)
    assert files(tmp_path) == [], "nothing is seen before all is there"
    spool.publish(Position(6, 7, "slot", "system"))
    monkeypatch.setattr(change_source, "TASK_BYTES", 100)
    assert len(ChangeStreamReader(str(tmp_path), is_ordered=True).partitions(at(0), at(6))) == 3


def test_rows_come_as_they_were_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    filled(tmp_path, 12, 7)
    monkeypatch.setattr(change_source, "ARROW_ROWS", 5)
    reader = ChangeStreamReader(str(tmp_path), is_ordered=True)
    (task,) = reader.partitions(at(0), at(19))
    batches = list(reader.read(task))
    assert [batch.num_rows for batch in batches] == [5, 5, 2, 5, 2]
    rows = [row for batch in batches for row in batch.to_pylist()]
    assert [row["offset"] for row in rows] == list(range(19))
    assert rows[1] == {
        "offset": 1, "topic": "t", "timestamp_us": 1, "key": '{"id":1}', "value": "v", "unavailable": None,
    }  # fmt: skip
    assert rows[5]["value"] is None
    (tmp_path / files(tmp_path)[0].path.name).write_text("0\tt\n")
    with pytest.raises(PipelineError, match="is damaged: a line has 2 parts and not 6"):
        list(reader.read(task))


def test_a_spool_and_a_checkpoint_of_two_runs_are_told(tmp_path: Path) -> None:
    spool = filled(tmp_path, 3, 2)
    reader = ChangeStreamReader(str(tmp_path), is_ordered=True)
    with pytest.raises(PipelineError, match=r"the checkpoint is at record 9, and the spool .* ends at 5"):
        end(reader, 9)
    spool.confirm(3)
    assert end(reader, 3) == 5
    for begin in (0, 1):
        with pytest.raises(PipelineError, match=f"has no record {begin}, which the checkpoint goes on with"):
            end(reader, begin)
        with pytest.raises(PipelineError, match=f"has no record {begin}"):
            reader.partitions(at(begin), at(5))


def test_a_file_that_is_just_published_is_no_hole(tmp_path: Path) -> None:
    filled(tmp_path, 3)
    (file,) = files(tmp_path)
    (tmp_path / "_new").mkdir(exist_ok=True)
    file.path.rename(tmp_path / "_new" / file.path.name)
    assert end(ChangeStreamReader(str(tmp_path), is_ordered=True), 0) == 0
    ChangeSpool(tmp_path)  # the next start does what is left
    assert end(ChangeStreamReader(str(tmp_path), is_ordered=True), 0) == 3


def test_a_run_to_an_end_has_the_end_that_it_began_with(tmp_path: Path) -> None:
    spool = filled(tmp_path, 3)
    reader = ChangeStreamReader(str(tmp_path), is_ordered=True)
    reader.prepareForTriggerAvailableNow()
    assert end(reader, 0) == 3
    spool.write([line(3)])
    spool.publish(Position(4, 2000, "slot", "system"))
    assert end(reader, 3) == 3


def test_what_is_confirmed_goes_and_says_up_to_where(tmp_path: Path) -> None:
    spool = filled(tmp_path, 3, 2)
    assert spool.confirmed_lsn == 0, "nothing is known yet"
    spool.confirm(4)
    assert (spool.confirmed_lsn, [one.first for one in files(tmp_path)]) == (1003, [3])
    spool.confirm(5)
    assert (spool.confirmed_lsn, files(tmp_path), spool.pending_bytes) == (1005, [], 0)
    again = ChangeSpool(tmp_path)
    assert (again.confirmed_lsn, again.next_offset) == (1005, 5)


def test_what_is_cut_or_discarded_comes_again(tmp_path: Path) -> None:
    spool = filled(tmp_path, 2)
    spool.write([line(2)])
    spool.mark()
    spool.write([line(3), line(4)])
    spool.cut()
    spool.publish(Position(3, 1100, "slot", "system"))
    assert [one.path.read_bytes().count(b"\n") for one in files(tmp_path)] == [2, 1]
    spool.write([line(3)])
    spool.discard()
    spool.write([line(3), line(4)])
    spool.publish(Position(5, 1200, "slot", "system"))
    assert [(one.first, one.end) for one in files(tmp_path)] == [(0, 2), (2, 3), (3, 5)]


def test_damaged_notes_are_told(tmp_path: Path) -> None:
    for text, message in (
        ("{", "it is not JSON"),
        ("[]", "it is not a JSON object"),
        ('{"a": 1}', "it says no position"),
    ):
        (tmp_path / "_position").write_text(text)
        with pytest.raises(PipelineError, match=f"_position is damaged: {message}"):
            read_position(tmp_path)
