"""The voters, as values and as control records."""

from __future__ import annotations

import pytest

from ottla.raft import ReplicaKey, VoterNode, VoterSet
from ottla.raft.batches import decode_control
from ottla.raft.voters import History
from ottla.records import batches
from ottla.types import ZERO_UUID, Uuid
from ottla.wire.data.control import VotersRecord
from ottla.world import Address
from tests.unit.raft.kafka_bytes import FIRST_BATCH

A, B = Uuid(b"a" * 16), Uuid(b"b" * 16)
HERE = {"CONTROLLER": Address("localhost", 9093)}


def test_the_voters_that_kafka_wrote_are_read_and_written_alike() -> None:
    [record] = [m for _, m in decode_control(next(batches(FIRST_BATCH))) if isinstance(m, VotersRecord)]
    voters = VoterSet.from_record(record)
    directory_id = Uuid.parse("WHXibE18TiS5P16Jrmao6g")
    assert voters == VoterSet.standalone(7, directory_id, {"CONTROLLER": Address("localhost", 29193)})
    assert voters.to_record() == record


def test_a_voter_of_the_log_is_its_node_and_its_directory() -> None:
    voters = VoterSet.standalone(1, A, HERE)
    assert voters.is_only_voter(ReplicaKey(1, A))
    assert not voters.is_voter(ReplicaKey(1, B))
    assert not voters.is_voter(ReplicaKey(2, A))


def test_a_voter_of_the_settings_is_its_node_whatever_the_directory() -> None:
    voters = VoterSet.static("CONTROLLER", {2: Address("b", 1), 1: Address("a", 1)})
    assert voters.ids == [1, 2]
    assert voters.is_voter(ReplicaKey(1, A))
    assert voters.is_voter(ReplicaKey(1, ZERO_UUID))
    assert not voters.is_only_voter(ReplicaKey(1, A))


def test_a_voter_that_is_reached_elsewhere_needs_an_update() -> None:
    voters = VoterSet.standalone(1, A, HERE)
    assert not voters.needs_update(VoterNode(ReplicaKey(1, A), HERE))
    moved = VoterNode(ReplicaKey(1, A), {"CONTROLLER": Address("elsewhere", 9093)})
    assert voters.needs_update(moved)
    assert not voters.with_voter(moved).needs_update(moved)
    assert not voters.needs_update(VoterNode(ReplicaKey(1, B), HERE)), "that is another voter"
    with pytest.raises(AssertionError, match="none of the voters"):
        voters.with_voter(VoterNode(ReplicaKey(1, B), HERE))


def test_a_history_tells_the_value_at_an_offset() -> None:
    history: History[str] = History()
    assert history.at(5) is None
    history.add(-1, "format")
    history.add(2, "two")
    history.add(9, "nine")
    assert [history.at(offset) for offset in (-2, -1, 1, 2, 8, 9, 100)] == [
        None, "format", "format", "two", "two", "nine", "nine",
    ]  # fmt: skip
    history.forget_before(8)
    assert [history.at(offset) for offset in (1, 8, 9)] == [None, "two", "nine"], (
        "what a snapshot at 9 would hold stays"
    )
    history.truncate_to(9)
    assert (history.latest, history.latest_offset) == ("two", 2)
