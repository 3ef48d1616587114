"""Files that outlive a crash of the machine."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from ottla.pipelines.durable import sync_checkpoint


def test_the_newest_micro_batches_of_a_checkpoint_are_synced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for log, batches in (("offsets", range(8, 12)), ("commits", range(8, 11))):
        (tmp_path / log).mkdir()
        for batch in batches:
            (tmp_path / log / str(batch)).write_text("v1")
            (tmp_path / log / f".{batch}.crc").write_text("")
    synced: list[str] = []
    monkeypatch.setattr(os, "fsync", lambda handle: synced.append(os.readlink(f"/proc/self/fd/{handle}")))
    for place in (str(tmp_path), f"file:{tmp_path}", f"file://{tmp_path}"):
        synced.clear()
        sync_checkpoint(place)
        assert [path.removeprefix(f"{tmp_path}/") for path in synced] == [
            "offsets/10", "offsets/11", "offsets", "commits/9", "commits/10", "commits",
        ]  # fmt: skip
    synced.clear()
    sync_checkpoint("hdfs://somewhere/checkpoint")
    sync_checkpoint(str(tmp_path / "not-yet"))
    assert synced == []
