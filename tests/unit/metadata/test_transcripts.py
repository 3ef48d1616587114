"""The controller's decisions, as transcripts: tests/transcripts/metadata."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.transcript import check, transcripts
from tests.unit.metadata.player import Player


@pytest.mark.parametrize("path", transcripts("metadata"), ids=lambda path: path.stem)
def test_the_controller_decides_as_written(path: Path, rewrite: bool) -> None:
    player = Player()
    try:
        check(path, player.execute, rewrite=rewrite)
    finally:
        player.close()
