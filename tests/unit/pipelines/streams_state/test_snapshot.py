"""Snapshots of checkpoints as Spark lays them out: full, incremental, killed at every step, damaged."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from ottla.pipelines.errors import PipelineError
from ottla.pipelines.streams.snapshot import list_snapshots, prune, restore, take, verify
from ottla.pipelines.streams.stores.scale import SETTING, check_scale, rescale, state_partitions
from ottla.pipelines.streams.stores.shelf import Shelf


def write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def run_batch(home: Path, batch: int, *, committed: bool = True) -> None:
    """The files that a batch of Spark leaves."""
    if batch == 0:
        write(home / "metadata", json.dumps({"id": f"id-of-{home.name}"}))
        write(home / ".metadata.crc", "sum")
        write(home / "state/0/_metadata/v2/0", "operators")
    write(home / f"offsets/{batch}", f'v1\n{{"conf":{{"{SETTING}":"2"}}}}\n{{"offset":{batch}}}')
    write(home / f"state/0/0/{batch + 1}.zip", f"state after {batch} of {home.name}")
    write(home / f"state/0/0/.{batch + 1}.zip.crc", "sum")
    write(home / f"state/0/0/SSTs/00{batch}-abc.sst", f"rows of {batch}")
    if committed:
        write(home / f"commits/{batch}", f'v1\n{{"batch":{batch}}}')


def contents(root: Path) -> dict[str, bytes]:
    return {path.relative_to(root).as_posix(): path.read_bytes() for path in root.rglob("*") if path.is_file()}


@pytest.fixture
def checkpoint(tmp_path: Path) -> Path:
    root = tmp_path / "checkpoint"
    write(root / "topology/part-00000.txt", '{"application": "words"}')
    for home in (root / "counts", root / "joins"):
        for batch in range(3):
            run_batch(home, batch)
    return root


def test_a_snapshot_is_restored_as_it_was_at_another_place(checkpoint: Path, tmp_path: Path) -> None:
    before = contents(checkpoint)
    taken = take(checkpoint, tmp_path / "kept")
    assert [(query.path, query.id, query.sink, query.last_batch) for query in taken.queries] == [
        ("counts", "id-of-counts", "words-counts", 2),
        ("joins", "id-of-joins", "words-joins", 2),
    ]
    assert take(checkpoint / "joins", tmp_path / "one").queries[0].sink == "words-joins"
    run_batch(checkpoint / "counts", 3)
    restore(tmp_path / "kept", tmp_path / "elsewhere" / "again", ahead="ignore")
    after = contents(tmp_path / "elsewhere" / "again")
    assert after == before
    assert verify(tmp_path / "kept") == []


def test_a_batch_that_is_not_committed_is_left_out_but_for_its_plan(checkpoint: Path, tmp_path: Path) -> None:
    """The plan says what the batch reads: without it the sink could not tell the batch from another of its number."""
    run_batch(checkpoint / "counts", 3, committed=False)
    write(checkpoint / "counts/state/0/0/.5.zip.9f.tmp", "half a file")
    names = {file.path for file in take(checkpoint, tmp_path / "kept").files}
    assert "counts/offsets/3" in names
    assert not {"counts/commits/3", "counts/state/0/0/4.zip", "counts/state/0/0/.4.zip.crc"} & names
    assert not [name for name in names if name.endswith(".tmp")]
    assert "counts/state/0/0/3.zip" in names


def test_the_second_snapshot_costs_what_is_new(checkpoint: Path, tmp_path: Path) -> None:
    kept = tmp_path / "kept"
    first = take(checkpoint, kept, name="first")
    second = take(checkpoint, kept, name="second")
    run_batch(checkpoint / "joins", 3)
    third = take(checkpoint, kept, name="third")
    assert second.new_bytes == 0
    assert 0 < third.new_bytes < first.new_bytes
    assert [one.name for one in list_snapshots(kept)] == ["first", "second", "third"]
    restore(kept, tmp_path / "old", name="first", ahead="ignore")
    assert not (tmp_path / "old/joins/commits/3").exists()
    restore(kept, tmp_path / "new", ahead="ignore")
    assert (tmp_path / "new/joins/commits/3").exists()


def test_pruned_snapshots_leave_the_files_of_those_that_are_kept(checkpoint: Path, tmp_path: Path) -> None:
    kept = tmp_path / "kept"
    take(checkpoint, kept, name="first")
    (checkpoint / "counts/state/0/0/1.zip").unlink()
    take(checkpoint, kept, name="second")
    assert prune(kept, keep=1) == len("state after 0 of counts")
    assert [one.name for one in list_snapshots(kept)] == ["second"]
    assert verify(kept) == []
    restore(kept, tmp_path / "again", ahead="ignore")


def test_a_file_that_goes_while_it_is_copied_begins_the_copy_anew(
    checkpoint: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    read = Path.read_bytes

    def vanishing(path: Path) -> bytes:
        if path.name == "1.zip" and path.is_relative_to(checkpoint) and path.exists():
            run_batch(checkpoint / path.relative_to(checkpoint).parts[0], 3)
            path.unlink()
        return read(path)

    monkeypatch.setattr(Path, "read_bytes", vanishing)
    taken = take(checkpoint, tmp_path / "kept")
    assert [query.last_batch for query in taken.queries] == [3, 3]
    assert verify(tmp_path / "kept") == []


def test_a_damaged_or_missing_file_is_told_and_nothing_is_restored(checkpoint: Path, tmp_path: Path) -> None:
    kept = tmp_path / "kept"
    taken = take(checkpoint, kept)
    one, other = (file for file in taken.files if file.path.endswith("/3.zip"))
    damaged = kept / "files" / one.sha256[:2] / one.sha256
    damaged.write_bytes(b"x" + damaged.read_bytes()[1:])
    (kept / "files" / other.sha256[:2] / other.sha256).unlink()
    assert verify(kept) == [f"{one.path}: damaged", f"{other.path}: missing"]
    with pytest.raises(PipelineError, match=r"cannot be restored: .* is damaged"):
        restore(kept, tmp_path / "again", ahead="ignore")
    assert not (tmp_path / "again").exists()
    assert take(checkpoint, kept).new_bytes == 0, "an incremental one trusts what is there"
    assert take(checkpoint, kept, full=True).new_bytes == one.size + other.size, "a full one mends it"
    assert verify(kept) == []


def test_a_damaged_list_is_told(checkpoint: Path, tmp_path: Path) -> None:
    take(checkpoint, tmp_path / "kept", name="one")
    path = tmp_path / "kept/snapshots/one.json"
    path.write_text(path.read_text().replace("id-of-counts", "id-of-counte"))
    with pytest.raises(PipelineError, match=r"one.json is damaged: its sum is another"):
        restore(tmp_path / "kept", tmp_path / "again", ahead="ignore")


class Killed(BaseException):
    """The process is gone."""


def test_killed_at_any_step_there_is_the_old_snapshot_or_the_new_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every call that makes something durable or visible is, in turn, the last one."""
    checkpoint, kept = tmp_path / "counts", tmp_path / "kept"
    run_batch(checkpoint, 0)
    take(checkpoint, kept, name="first")
    run_batch(checkpoint, 1)
    steps = {"left": 0}

    def dying(function: Any) -> Any:
        def step(*arguments: Any, **keywords: Any) -> Any:
            if steps["left"] == 0:
                raise Killed
            steps["left"] -= 1
            return function(*arguments, **keywords)

        return step

    monkeypatch.setattr(os, "fsync", dying(lambda descriptor: None))  # the order is looked at, not the disk
    monkeypatch.setattr(Path, "replace", dying(Path.replace))
    monkeypatch.setattr(Path, "rename", dying(Path.rename))
    for limit in range(1000):
        steps["left"] = limit
        try:
            take(checkpoint, kept, name="second")
            break
        except Killed:
            steps["left"] = 1000
            names = [one.name for one in list_snapshots(kept)]
            assert names in (["first"], ["first", "second"])
            for name in names:
                assert verify(kept, name) == []
            if len(names) == 2:
                break
    assert limit >= 5, "there were steps to be killed at"

    for limit in range(1000):
        steps["left"] = limit
        try:
            restore(kept, tmp_path / "again", ahead="ignore", name="second")
            break
        except Killed:
            if (tmp_path / "again").exists():
                break
    assert limit > 5
    assert contents(tmp_path / "again") == contents(checkpoint)


def test_what_cannot_be_is_refused_with_the_way_out(checkpoint: Path, tmp_path: Path) -> None:
    kept = tmp_path / "kept"
    with pytest.raises(PipelineError, match="no snapshot in"):
        restore(kept, tmp_path / "again", ahead="ignore")
    with pytest.raises(PipelineError, match="holds no query"):
        take(tmp_path / "nothing", kept)
    with pytest.raises(PipelineError, match="say where they are"):
        take(checkpoint, kept, changelogs=["t"])
    take(checkpoint, kept, name="one")
    with pytest.raises(PipelineError, match=r"snapshot one in .* already"):
        take(checkpoint, kept, name="one")
    with pytest.raises(PipelineError, match="no name for a snapshot"):
        take(checkpoint, kept, name="../one")
    with pytest.raises(PipelineError, match="there are: one"):
        restore(kept, tmp_path / "again", name="two", ahead="ignore")
    with pytest.raises(PipelineError, match="is not empty"):
        restore(kept, checkpoint, ahead="ignore")
    with pytest.raises(PipelineError, match="is known to the brokers: say bootstrap"):
        restore(kept, tmp_path / "again")
    with pytest.raises(PipelineError, match="not on a disk of this machine"):
        take("s3://bucket/checkpoint", kept)
    assert take(f"file://{checkpoint}", kept, name="by-address").new_bytes == 0
    with pytest.raises(PipelineError, match="at least one"):
        prune(kept, keep=0)


def test_another_number_of_state_partitions_is_refused_with_the_way_out(checkpoint: Path, tmp_path: Path) -> None:
    home = checkpoint / "counts"
    assert state_partitions(home) == 2
    assert state_partitions(tmp_path / "none") is None
    check_scale(home, 2)
    check_scale(tmp_path / "none", 7)
    with pytest.raises(PipelineError, match=r"has 2 parts, and spark.sql.shuffle.partitions is 5: .*rescale\(spark"):
        check_scale(home, 5)
    run_batch(home, 3, committed=False)
    with pytest.raises(PipelineError, match=r"Batch 3 in .* is not done"):
        rescale(None, home, 5)  # type: ignore[arg-type]
    write(home / "offsets/4", "v1")
    with pytest.raises(PipelineError, match="no batch of a Spark checkpoint"):
        state_partitions(home)


def test_retries_have_a_bound(checkpoint: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def gone(*_: object) -> None:
        raise FileNotFoundError(2, "gone", "1.zip")

    monkeypatch.setattr(Shelf, "take", gone)
    with pytest.raises(PipelineError, match="changed under each of 5 copies"):
        take(checkpoint, tmp_path / "kept")
