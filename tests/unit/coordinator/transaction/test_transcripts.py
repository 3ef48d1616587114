"""The transaction coordinator by transcript; see `play.py` for the commands."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.transcript import check, transcripts
from tests.unit.coordinator.transaction.play import Play


@pytest.mark.parametrize("path", transcripts("transactions"), ids=lambda path: path.stem)
def test_the_coordinator_does_what_its_transcripts_say(path: Path, pytestconfig: pytest.Config) -> None:
    settings = {"transaction.partition.verification.enable": path.stem != "hanging"}
    play = Play(transaction_version=0 if path.stem == "version_0" else 2, **settings)
    check(path, play.execute, rewrite=pytestconfig.getoption("--rewrite"))
