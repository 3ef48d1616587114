"""Snapshots on disk: Kafka's own are read and written alike, and nothing torn is taken for one."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from random import Random

import pytest

from ottla.raft import DamagedSnapshot, SnapshotId, VoterSet, format_directory, read_bootstrap, read_snapshot_file
from ottla.raft.snapshot import SnapshotWriter, parse_name, write_snapshot_file
from ottla.records import batches
from ottla.sim import SimulatedCrash, VirtualWorld, virtual_world
from ottla.types import Uuid
from ottla.wire.metadata import FeatureLevelRecord, RegisterBrokerRecord
from ottla.world import Address
from ottla.world.system import system_world
from tests.support.golden import golden_data_dir
from tests.unit.raft.kafka_bytes import CHECKPOINT, FORMAT_CHECKPOINT
from tests.unit.raft.nodes import numbers, record

PATH = f"/data/{SnapshotId(25, 1).name}"
VOTERS = VoterSet.standalone(7, Uuid.parse("WHXibE18TiS5P16Jrmao6g"), {"CONTROLLER": Address("localhost", 29193)})


class Scripted:
    """A clock that tells the times of another's batches: the header's, that of each record batch, the footer's."""

    def __init__(self, data: bytes) -> None:
        self._times = [batch.base_timestamp for batch in batches(data)]

    def now_ms(self) -> int:
        return self._times.pop(0)

    def monotonic_ms(self) -> int:
        raise AssertionError("a snapshot carries wall time")


@pytest.fixture
def world() -> VirtualWorld:
    made = virtual_world(Random(1))
    made.disk.make_dirs("/data")
    made.disk.sync_dir("/")
    return made


def put(world: VirtualWorld, path: str, data: bytes) -> None:
    file = world.disk.open(path, create=True)
    file.truncate(0)
    file.write_at(0, data)
    file.close()


@pytest.mark.parametrize(
    ("id", "data", "count"), [(SnapshotId(0, 0), FORMAT_CHECKPOINT, 0), (SnapshotId(25, 1), CHECKPOINT, 9)]
)
def test_kafkas_snapshots_are_read_and_written_byte_for_byte(
    world: VirtualWorld, id: SnapshotId, data: bytes, count: int
) -> None:
    put(world, f"/data/{id.name}", data)
    snapshot = read_snapshot_file(world.disk, f"/data/{id.name}")
    records = list(snapshot.records())
    assert (snapshot.id, snapshot.kraft_version, snapshot.voters) == (id, 1, VOTERS)
    assert len(records) == count
    world.disk.make_dirs("/again")
    size = write_snapshot_file(
        world.disk,
        Scripted(data),
        f"/again/{id.name}",
        records,
        epoch=id.epoch,
        last_contained_log_timestamp=snapshot.last_contained_log_timestamp,
        kraft_version=snapshot.kraft_version,
        voters=snapshot.voters,
    )
    assert world.disk.read(f"/again/{id.name}") == data
    assert size == len(data)
    assert world.disk.names("/again") == [id.name]


def test_the_golden_bootstrap_is_read_and_a_format_writes_it_byte_for_byte(tmp_path: Path) -> None:
    directory = golden_data_dir(tmp_path)
    data = (directory / "bootstrap.checkpoint").read_bytes()
    real = system_world()
    records = read_bootstrap(real, str(directory))
    assert records is not None
    assert [(r.record.name, r.record.feature_level) for r in records if isinstance(r.record, FeatureLevelRecord)] == [
        ("metadata.version", 30),
        ("eligible.leader.replicas.version", 1),
        ("group.version", 1),
        ("share.version", 1),
        ("streams.version", 1),
        ("transaction.version", 2),
    ]
    path = str(tmp_path / "again.checkpoint")
    write_snapshot_file(real.disk, Scripted(data), path, records)
    assert (tmp_path / "again.checkpoint").read_bytes() == data


def test_a_format_with_voters_makes_the_snapshot_that_begins_the_log(world: VirtualWorld) -> None:
    records = [FeatureLevelRecord(name="metadata.version", feature_level=30)]
    format_directory(world, "/data/logs", records, voters=VOTERS)
    format_directory(world, "/data/other", records, voters=VOTERS, is_metadata_dir=False)
    world.disk.crash()
    assert world.disk.names("/data/logs") == ["__cluster_metadata-0", "bootstrap.checkpoint"]
    assert world.disk.names("/data/other") == ["bootstrap.checkpoint"]
    snapshot = read_snapshot_file(
        world.disk, "/data/logs/__cluster_metadata-0/00000000000000000000-0000000000.checkpoint"
    )
    assert (snapshot.kraft_version, snapshot.voters, list(snapshot.records())) == (1, VOTERS, [])
    bootstrap = read_bootstrap(world, "/data/logs")
    assert bootstrap is not None
    assert [r.record for r in bootstrap] == records
    assert read_bootstrap(world, "/data") is None


@pytest.mark.parametrize("moment", ["before", "during", "after"])
def test_a_power_cut_leaves_a_whole_snapshot_or_none(moment: str) -> None:
    for nth in range(1, 20):
        made = virtual_world(Random(nth))
        made.disk.make_dirs("/data")
        made.disk.sync_dir("/")
        made.disk.crash_at(nth, kinds=["create", "write", "truncate", "sync", "rename", "sync_dir"], moment=moment)  # type: ignore[arg-type]
        is_done = False
        try:
            write_snapshot_file(made.disk, made.clock, PATH, map(record, range(500)), epoch=1)
            is_done = True
        except SimulatedCrash:
            pass
        made.disk.crash()
        if made.disk.exists(PATH):
            assert numbers(r for r, _ in read_snapshot_file(made.disk, PATH).records()) == list(range(500))
        else:
            assert not is_done
        if is_done:
            return
    pytest.fail("the snapshot was never finished")


def test_records_are_spread_over_batches_of_a_bounded_size(world: VirtualWorld) -> None:
    writer = SnapshotWriter(world.disk, world.clock, PATH, epoch=1, batch_bytes_max=1000)
    writer.append(record(number) for number in range(200))
    writer.finish()
    writer.freeze()
    found = list(batches(world.disk.read(PATH)))
    assert len(found) > 5
    assert all(batch.size <= 1000 and batch.leader_epoch == 1 for batch in found)
    for before, after in pairwise(found):
        assert after.base_offset == before.next_offset
    assert numbers(r for r, _ in read_snapshot_file(world.disk, PATH).records()) == list(range(200))


def test_a_batch_larger_than_what_is_read_at_once_is_read_whole(world: VirtualWorld) -> None:
    write_snapshot_file(world.disk, world.clock, PATH, [record(number, size=30_000) for number in range(80)])
    assert len(world.disk.read(PATH)) > 2_400_000
    assert numbers(r for r, _ in read_snapshot_file(world.disk, PATH).records()) == list(range(80))


@pytest.mark.parametrize("cut", range(0, len(CHECKPOINT), 13))
def test_a_snapshot_that_is_cut_off_is_refused(world: VirtualWorld, cut: int) -> None:
    put(world, PATH, CHECKPOINT[:cut])
    with pytest.raises(DamagedSnapshot, match=PATH):
        list(read_snapshot_file(world.disk, PATH).records())


def covered_positions() -> list[int]:
    """Bytes that a checksum covers or that make a batch one: all but base offset and epoch."""
    uncovered = {b.position + at for b in batches(CHECKPOINT) for at in (*range(8), *range(12, 16))}
    return [position for position in range(0, len(CHECKPOINT), 17) if position not in uncovered]


@pytest.mark.parametrize("position", covered_positions())
def test_a_snapshot_with_a_changed_byte_is_refused(world: VirtualWorld, position: int) -> None:
    data = bytearray(CHECKPOINT)
    data[position] ^= 0x40
    put(world, PATH, bytes(data))
    with pytest.raises(DamagedSnapshot, match=PATH):
        list(read_snapshot_file(world.disk, PATH).records())


def test_a_snapshot_that_goes_on_after_its_footer_is_refused(world: VirtualWorld) -> None:
    put(world, PATH, CHECKPOINT + CHECKPOINT)
    with pytest.raises(DamagedSnapshot, match="after its footer"):
        list(read_snapshot_file(world.disk, PATH).records())


def test_a_snapshot_that_is_given_up_leaves_nothing(world: VirtualWorld) -> None:
    def records() -> list[RegisterBrokerRecord]:
        raise ValueError("the image broke")

    with pytest.raises(ValueError, match="the image broke"):
        write_snapshot_file(world.disk, world.clock, PATH, (r for _ in range(1) for r in records()))
    assert world.disk.names("/data") == []


def test_names_are_kafkas() -> None:
    id = SnapshotId(25, 1)
    assert id.name == "00000000000000000025-0000000001.checkpoint"
    assert parse_name(id.name) == (id, "")
    assert parse_name(id.name + ".deleted") == (id, ".deleted")
    assert parse_name("00000000000000000025-0000000001-8093521.checkpoint.part") == (id, ".part")
    for other in ("bootstrap.checkpoint", "leader-epoch-checkpoint", f"{25:020d}.log", "25-1.checkpoint"):
        assert parse_name(other) is None
