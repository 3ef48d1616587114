"""`quorum-state`: the bytes Kafka writes, and nothing else taken for them."""

from __future__ import annotations

from pathlib import Path
from random import Random

import pytest

from ottla.raft import DamagedQuorumState, Election, ReplicaKey
from ottla.raft.quorum_state import decode_election, encode_election, read_election, write_election
from ottla.sim import virtual_world
from ottla.types import Uuid
from tests.support.golden import golden_data_dir
from tests.unit.raft.kafka_bytes import QUORUM_STATE

PATH = "/data/quorum-state"
DIRECTORY = Uuid(b"0123456789abcdef")


def test_the_golden_file_is_read_and_written_byte_for_byte(tmp_path: Path) -> None:
    data = (golden_data_dir(tmp_path) / "__cluster_metadata-0" / "quorum-state").read_bytes()
    election = decode_election(PATH, data)
    assert election == Election(1, leader_id=1)
    assert encode_election(election, kraft_version=0, voter_ids=[1]) == data


def test_version_1_is_read_and_written_byte_for_byte() -> None:
    election = decode_election(PATH, QUORUM_STATE)
    assert election == Election(1, leader_id=7)
    assert encode_election(election, kraft_version=1, voter_ids=[7]) == QUORUM_STATE


@pytest.mark.parametrize("kraft_version", [0, 1])
@pytest.mark.parametrize(
    "election",
    [Election(0), Election(7, leader_id=2), Election(8, voted=ReplicaKey(3, DIRECTORY))],
    ids=["new", "led", "voted"],
)
def test_what_was_written_is_read_back(election: Election, kraft_version: int) -> None:
    data = encode_election(election, kraft_version=kraft_version, voter_ids=[1, 2, 3])
    read = decode_election(PATH, data)
    if kraft_version == 0 and election.voted is not None:
        assert read == Election(8, voted=ReplicaKey(3)), "version 0 has no place for the directory"
    else:
        assert read == election


def test_no_file_is_no_election_and_a_written_one_survives_a_power_cut() -> None:
    world = virtual_world(Random(1))
    world.disk.make_dirs("/data")
    world.disk.sync_dir("/")
    assert read_election(world.disk, PATH) is None
    write_election(world.disk, PATH, Election(3, voted=ReplicaKey(1)), kraft_version=0, voter_ids=[1])
    world.disk.crash()
    assert read_election(world.disk, PATH) == Election(3, voted=ReplicaKey(1))


@pytest.mark.parametrize("data", [QUORUM_STATE[:cut] for cut in range(0, len(QUORUM_STATE), 7)])
def test_a_file_that_is_cut_off_is_refused(data: bytes) -> None:
    """A start that took it for no election could vote again."""
    with pytest.raises(DamagedQuorumState):
        decode_election(PATH, data)


@pytest.mark.parametrize(
    "data",
    [
        b"[]",
        b"null",
        b"{}",
        QUORUM_STATE.replace(b'"data_version":1', b'"data_version":2'),
        QUORUM_STATE.replace(b'"data_version":1', b'"data_version":"1"'),
        QUORUM_STATE.replace(b'"leaderEpoch":1', b'"leaderEpoch":-1'),
        QUORUM_STATE.replace(b'"leaderEpoch":1', b'"leaderEpoch":"one"'),
        QUORUM_STATE.replace(b'"leaderId":7,', b""),
    ],
)
def test_other_content_is_refused_with_the_files_name(data: bytes) -> None:
    with pytest.raises(DamagedQuorumState, match=PATH):
        decode_election(PATH, data)
