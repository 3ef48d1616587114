"""The spool of a growing table: whatever moment a run ends at, the next one has each look once."""

from __future__ import annotations

from pathlib import Path

import pytest

from ottla.pipelines.connect.growing import Position, Spool
from ottla.pipelines.errors import PipelineError

FIRST, SECOND = Position(0, 42), Position(1, 43)


def look(spool: Spool) -> None:
    """What Spark writes of one."""
    new = Path(spool.begin())
    new.mkdir(parents=True)
    (new / "part-00000-x.snappy.parquet").write_bytes(b"rows")
    (new / "_SUCCESS").touch()


def shown(path: Path) -> list[str]:
    """What the stream sees: the files whose names do not begin with a mark."""
    return sorted(one.name for one in path.iterdir() if one.name[0] not in "_.")


@pytest.mark.parametrize(
    "position",
    [Position(0, 42), Position(7, None, 1_700_000_000_000_000), Position(10**11, -(10**37), -1), Position(3)],
    ids=lambda position: position.file_name,
)
def test_a_position_is_the_name_of_a_file(position: Position) -> None:
    assert Position.of(position.file_name) == position
    assert Position.of("part-00000.parquet") is None


def test_looks_come_one_after_the_other(tmp_path: Path) -> None:
    spool = Spool(tmp_path / "spool")
    assert spool.position is None
    for position in (FIRST, SECOND):
        look(spool)
        spool.end(position)
        assert spool.position == position
    assert shown(tmp_path / "spool") == [FIRST.file_name, SECOND.file_name]
    (tmp_path / "spool" / SECOND.file_name).unlink()
    assert Spool(tmp_path / "spool").position == SECOND, "the position outlives what the stream removes"


def test_a_look_that_was_cut_short_while_it_was_written_has_left_nothing(tmp_path: Path) -> None:
    spool = Spool(tmp_path)
    look(spool)
    again = Spool(tmp_path)
    assert (again.position, shown(tmp_path)) == (None, [])
    look(again)
    again.end(FIRST)
    assert shown(tmp_path) == [FIRST.file_name]


@pytest.mark.parametrize("is_noted", [False, True], ids=["before its position was noted", "after"])
def test_a_look_that_was_whole_is_shown_once_by_the_next_run(tmp_path: Path, is_noted: bool) -> None:
    spool = Spool(tmp_path)
    look(spool)
    new = tmp_path / "_new"
    (new / "rows" / "part-00000-x.snappy.parquet").rename(new / FIRST.file_name)
    if is_noted:
        (tmp_path / "_position").write_text(FIRST.file_name)
    for _ in range(2):
        assert Spool(tmp_path).position == FIRST
        assert shown(tmp_path) == [FIRST.file_name]
    (tmp_path / FIRST.file_name).unlink()
    assert Spool(tmp_path).position == FIRST
    assert shown(tmp_path) == [], "what the stream has read does not come again"


def test_a_position_that_is_damaged_is_told(tmp_path: Path) -> None:
    spool = Spool(tmp_path)
    (tmp_path / "_position").write_text("")
    with pytest.raises(PipelineError, match="is damaged: it names no position"):
        _ = spool.position
