"""The rules of the quorum, by transcript: what is opened, what happens, and what is to be done about it."""

from __future__ import annotations

from pathlib import Path

import pytest

from ottla.raft import ReplicaKey
from ottla.raft.quorum_state import Election
from tests.support.transcript import check, transcripts
from tests.unit.raft.play import Play


@pytest.mark.parametrize("path", transcripts("raft"), ids=lambda path: path.stem)
def test_the_quorum_goes_as_the_transcript_says(path: Path, rewrite: bool) -> None:
    check(path, Play().execute, rewrite=rewrite)


def test_an_election_never_takes_back_what_was_written() -> None:
    """Whatever is written over an election has a higher epoch, or keeps its leader and its vote."""
    me, other = ReplicaKey(1), ReplicaKey(2)
    assert Election(3).is_at_or_after(Election(2, leader_id=2))
    assert not Election(2).is_at_or_after(Election(3))
    assert Election(2, voted=me).is_at_or_after(Election(2))
    assert not Election(2, voted=other).is_at_or_after(Election(2, voted=me))
    assert not Election(2).is_at_or_after(Election(2, voted=me))
    assert Election(2, leader_id=1).is_at_or_after(Election(2, voted=me)), (
        "a voter that knows the leader is done voting"
    )
    assert not Election(2, leader_id=2).is_at_or_after(Election(2, leader_id=1))
