"""The bytes of producer snapshots."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.records import crc32c
from ottla.storage.damage import DamagedFile
from ottla.storage.producer_entry import BatchMetadata, ProducerStateEntry
from ottla.storage.producer_snapshot import decode_snapshot, encode_snapshot, java_bucket
from tests.support.golden import golden_data_dir
from tests.support.mutation import mutations, truncations


def entry(producer_id: int, *, batches: int = 1, txn_first_offset: int | None = None) -> ProducerStateEntry:
    made = ProducerStateEntry(producer_id, 3, 7, 1_000, txn_first_offset)
    for number in range(batches):
        made.add_batch(3, BatchMetadata(10 + number, 20 + number, 0, 1_000 + number))
    return made


SAMPLE = encode_snapshot([entry(5, txn_first_offset=20), entry(2**40), entry(1, batches=0)])


def claiming(count: int) -> bytes:
    """A snapshot with a good checksum and another number of entries than it says."""
    body = count.to_bytes(4, "big", signed=True)
    return b"\x00\x01" + crc32c(body).to_bytes(4, "big") + body


def test_kafkas_snapshots_decode_and_encode_to_equal_bytes(tmp_path: Path) -> None:
    sizes = []
    for path in sorted(golden_data_dir(tmp_path).glob("*/*.snapshot")):
        data = path.read_bytes()
        assert encode_snapshot(decode_snapshot(str(path), data)) == data
        sizes.append(len(data))
    assert len(sizes) == 35
    assert set(sizes) == {10, 56}


def test_a_snapshot_of_nobody_is_ten_bytes() -> None:
    assert encode_snapshot([]) == bytes.fromhex("0001 48674bc7 00000000")
    assert decode_snapshot("x", encode_snapshot([])) == []


def test_only_the_last_batch_of_a_producer_is_kept() -> None:
    (loaded,) = decode_snapshot("x", encode_snapshot([entry(5, batches=3, txn_first_offset=20)]))
    assert loaded.batches == [BatchMetadata(12, 22, 0, 1_002)]
    assert (loaded.producer_id, loaded.producer_epoch, loaded.coordinator_epoch) == (5, 3, 7)
    assert (loaded.last_timestamp, loaded.txn_first_offset) == (1_002, 20)


def test_a_producer_of_markers_only_has_no_batch() -> None:
    (loaded,) = decode_snapshot("x", encode_snapshot([entry(5, batches=0)]))
    assert not loaded.batches
    assert loaded.last_timestamp == 1_000
    assert loaded.txn_first_offset is None


def test_producers_come_in_the_order_of_a_java_map() -> None:
    """Small ids follow their low bits; a map of thirteen has 32 buckets, and 16 comes after 15 then."""
    order = [loaded.producer_id for loaded in decode_snapshot("x", encode_snapshot([entry(17), entry(3), entry(16)]))]
    assert order == [16, 17, 3]
    many = [entry(number) for number in (16, *range(12))]
    assert [loaded.producer_id for loaded in decode_snapshot("x", encode_snapshot(many))] == [*range(12), 16]
    assert java_bucket(2**40, 16) == 0
    assert java_bucket(2**32 + 5, 16) == 4


@pytest.mark.parametrize(
    ("data", "place", "expected"),
    [
        (b"", "byte 0", "a header of 10 bytes"),
        (SAMPLE[:9], "byte 0", "a header of 10 bytes"),
        (b"\x00\x02" + SAMPLE[2:], "byte 0", "version 1"),
        (b"\xff\xff" + SAMPLE[2:], "byte 0", "version 1"),
        (SAMPLE[:-1], "byte 2", "checksum "),
        (SAMPLE + b"\0", "byte 2", "checksum "),
        (claiming(1), "byte 6", "1 entries of 46 bytes"),
        (claiming(-1), "byte 6", "-1 entries of 46 bytes"),
    ],
)
def test_damage_is_named_by_file_and_place(data: bytes, place: str, expected: str) -> None:
    with pytest.raises(DamagedFile) as caught:
        decode_snapshot("/data/a-0/00000000000000000005.snapshot", data)
    assert caught.value.place == place
    assert caught.value.expected.startswith(expected)
    assert str(caught.value).startswith("/data/a-0/00000000000000000005.snapshot, ")


def test_every_truncation_is_refused() -> None:
    for data in truncations(SAMPLE):
        with pytest.raises(DamagedFile):
            decode_snapshot("x", data)


@pytest.mark.parametrize("seed", range(4))
def test_every_mutation_is_refused(seed: int) -> None:
    for data in mutations(SAMPLE, seed=seed, rounds=1_000):
        if data != SAMPLE:
            with pytest.raises(DamagedFile):
                decode_snapshot("x", data)


INT16 = st.integers(-(2**15), 2**15 - 1)
INT32 = st.integers(-(2**31), 2**31 - 1)
INT64 = st.integers(-(2**63), 2**63 - 1)


@given(
    st.lists(
        st.tuples(
            INT64, INT16, INT32, INT64, st.none() | st.integers(0, 2**63 - 1), INT32, st.integers(0, 2**62), INT32
        ),
        unique_by=lambda fields: fields[0],
    )
)
def test_any_state_survives(states: list[tuple[int, int, int, int, int | None, int, int, int]]) -> None:
    entries = []
    for pid, epoch, coordinator, timestamp, txn, sequence, offset, delta in states:
        made = ProducerStateEntry(pid, epoch, coordinator, timestamp, txn)
        made.add_batch(epoch, BatchMetadata(sequence, offset, delta, timestamp))
        entries.append(made)
    data = encode_snapshot(entries)
    loaded = decode_snapshot("x", data)
    assert sorted(map(repr, loaded)) == sorted(map(repr, entries))
    assert encode_snapshot(loaded) == data
