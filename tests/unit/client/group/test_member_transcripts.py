"""Members of both protocols, as transcripts: what they ask of the coordinator, and what its answers do to them."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.transcript import check, transcripts
from tests.unit.client.group.member_players import ClassicPlayer, ConsumerPlayer


def instance_of(path: Path) -> str | None:
    """Transcripts of static members say so in their name."""
    return "i1" if "static" in path.stem else None


@pytest.mark.parametrize("path", transcripts("client_classic"), ids=lambda path: path.stem)
def test_a_member_of_a_classic_group_does_as_written(path: Path, rewrite: bool) -> None:
    check(path, ClassicPlayer(instance_of(path)).execute, rewrite=rewrite)


@pytest.mark.parametrize("path", transcripts("client_consumer"), ids=lambda path: path.stem)
def test_a_member_of_a_consumer_group_does_as_written(path: Path, rewrite: bool) -> None:
    check(path, ConsumerPlayer(instance_of(path)).execute, rewrite=rewrite)
