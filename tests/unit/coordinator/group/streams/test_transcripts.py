"""What a Streams group's coordinator decides, as transcripts: tests/transcripts/streams_group."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.transcript import check, transcripts
from tests.unit.coordinator.group.streams.doors import VirtualDoor
from tests.unit.coordinator.group.streams.player import Player


@pytest.mark.parametrize("path", transcripts("streams_group"), ids=lambda path: path.stem)
def test_the_coordinator_of_a_streams_group_decides_as_written(path: Path, rewrite: bool) -> None:
    door = VirtualDoor()
    try:
        check(path, Player(door).execute, rewrite=rewrite)
    finally:
        door.close()
