"""The rules of the quorum, by transcript: what is opened, what happens, and what is to be done about it."""

from __future__ import annotations

from pathlib import Path

import pytest

from ottla.errors import KafkaError
from ottla.raft.core import (
    AwaitElection,
    BeginEpoch,
    Candidate,
    Commit,
    Core,
    Effect,
    Follower,
    Leader,
    Prospective,
    Resigned,
    TellLeader,
    TellResigned,
    Unattached,
    WriteElection,
)
from ottla.raft.quorum_state import Election
from ottla.raft.voters import ReplicaKey, VoterNode, VoterSet
from ottla.types import Uuid
from ottla.world import Address
from tests.support.transcript import check, transcripts

DIRECTORIES = {"A": Uuid(b"a" * 16), "B": Uuid(b"b" * 16)}


class Play:
    """One node's core. `open` makes it, as the files of a start would."""

    def __init__(self) -> None:
        self.core: Core | None = None

    def execute(self, command: str) -> list[str]:
        name, *words = command.split()
        try:
            effects = getattr(self, f"do_{name}")(*words) or []
        except (KafkaError, AssertionError) as error:
            # The first line: pytest explains assertions of a package that brings it a plugin, as ours does.
            return [f"{type(error).__name__}: {error}".splitlines()[0]]
        return [*map(self.show, effects), self.show_state()]

    def do_open(self, *words: str) -> None:
        """`voters=1:A`, `listed=log` (or `format`, `settings`), `kraft=1`, `end=`, `last_epoch=`, `leader=`, `voted=`,
        `epoch=`, `port=`: what the settings, the log and `quorum-state` say to node 1 with directory A."""
        given = dict(word.split("=") for word in words)
        kraft_version = int(given.get("kraft", 0))
        voters = [
            VoterNode(self.key(text), {"CONTROLLER": Address("host", 9093)}, kraft_version_max=kraft_version)
            for text in given.get("voters", "1").split(",")
            if text
        ]
        election = None
        if "epoch" in given:
            voted = self.key(given["voted"]) if "voted" in given else None
            election = Election(int(given["epoch"]), int(given.get("leader", -1)), voted)
        self.core = Core(
            VoterNode(
                ReplicaKey(1, DIRECTORIES["A"]), {"CONTROLLER": Address("host", int(given.get("port", 9093)))},
                kraft_version_max=kraft_version,
            ),
            VoterSet.of(voters),
            kraft_version=kraft_version,
            voters_offset={"log": 3, "format": -1, "settings": None}[given.get("listed", "settings")],
            election=election,
            log_end_offset=int(given.get("end", 0)),
            last_epoch=int(given.get("last_epoch", 0)),
        )  # fmt: skip

    def key(self, text: str) -> ReplicaKey:
        id, _, directory = text.partition(":")
        return ReplicaKey(int(id), DIRECTORIES[directory]) if directory else ReplicaKey(int(id))

    def do_start(self) -> list[Effect]:
        assert self.core
        return self.core.start()

    def do_appended(self, end_offset: str) -> None:
        assert self.core
        self.core.on_appended(int(end_offset))

    def do_flushed(self, end_offset: str) -> list[Effect]:
        assert self.core
        return self.core.on_flushed(int(end_offset))

    def do_resign(self) -> list[Effect]:
        assert self.core
        return self.core.resign()

    def do_timeout(self) -> list[Effect]:
        assert self.core
        return self.core.on_election_timeout()

    def show(self, effect: Effect) -> str:
        match effect:
            case WriteElection(election):
                voted = "nobody" if election.voted is None else f"{election.voted.id}"
                return f"write epoch={election.epoch} leader={election.leader_id} voted={voted}"
            case BeginEpoch(epoch, records):
                return f"begin epoch={epoch} with {', '.join(type(record).__name__ for record in records)}"
            case Commit(high_watermark):
                return f"commit below {high_watermark}"
            case TellLeader(epoch, start):
                return f"tell leader epoch={epoch} from={start}"
            case TellResigned(epoch):
                return f"tell resigned epoch={epoch}"
            case AwaitElection():
                return "await election"

    def show_state(self) -> str:
        assert self.core
        state = self.core.state
        match state:
            case Leader():
                text = f"high_watermark={state.high_watermark}"
            case Follower() | Unattached() | Prospective():
                text = f"leader={state.leader_id} voted={'nobody' if state.voted is None else state.voted.id}"
            case Candidate() | Resigned():
                text = ""
        return f"-- {type(state).__name__} epoch={state.epoch} {text}".rstrip()


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
