"""The index of aborted transactions, against the ones a Kafka wrote and against a plain search."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ottla.storage.index import CorruptIndex
from ottla.storage.transaction_index import ENTRY, AbortedTxn, TransactionIndex
from ottla.world.system import SystemDisk
from tests.support.golden import golden_data_dir
from tests.support.mutation import mutations, truncations

NAME = "00000000000000000000.txnindex"


def index_at(directory: Path, data: bytes | None = None, *, base_offset: int = 0) -> TransactionIndex:
    path = directory / NAME
    if data is not None:
        path.write_bytes(data)
    return TransactionIndex(SystemDisk(), str(path), base_offset)


def aborted(last_offset: int, *, first_offset: int | None = None, stable: int | None = None) -> AbortedTxn:
    first = last_offset - 3 if first_offset is None else first_offset
    return AbortedTxn(7, max(0, first), last_offset, last_offset + 1 if stable is None else stable)


def packed(*entries: AbortedTxn) -> bytes:
    return b"".join(ENTRY.pack(0, *entry) for entry in entries)


def test_kafkas_indexes_are_read_and_written_back_with_equal_bytes(tmp_path: Path) -> None:
    files = sorted(golden_data_dir(tmp_path / "golden").glob("*/*.txnindex"))
    assert len(files) == 2
    for number, file in enumerate(files):
        golden = TransactionIndex(SystemDisk(), str(file), int(file.stem))
        golden.check()
        assert len(golden) == len(golden.all_aborted) == 3
        written = TransactionIndex(SystemDisk(), str(tmp_path / f"{number}.txnindex"), int(file.stem))
        for entry in golden.all_aborted:
            written.append(entry)
        written.close()
        assert (tmp_path / f"{number}.txnindex").read_bytes() == file.read_bytes()
        golden.close()


def test_there_is_no_file_until_the_first_abort(tmp_path: Path) -> None:
    index = index_at(tmp_path)
    index.check()
    index.truncate_to(0)
    index.reset()
    index.sync()
    assert index.is_empty
    assert index.all_aborted == []
    assert index.collect_aborted(0, 100) == ([], False)
    assert index.files_to_sync() == []
    assert not index.delete_if_exists()
    assert list(tmp_path.iterdir()) == []

    index.append(aborted(5))
    assert (tmp_path / NAME).read_bytes() == packed(aborted(5))
    index.close()


def test_entries_appended_are_found_after_closing_and_opening_again(tmp_path: Path) -> None:
    index = index_at(tmp_path)
    index.append(aborted(5))
    index.close()
    index.append(aborted(9))
    index.sync()
    assert index_at(tmp_path).all_aborted == index.all_aborted == [aborted(5), aborted(9)]
    index.close()


def test_an_entry_that_does_not_end_above_the_last_one_is_refused(tmp_path: Path) -> None:
    index = index_at(tmp_path, packed(aborted(5)))
    with pytest.raises(AssertionError, match="does not end above the last entry, 5"):
        index.append(aborted(5))
    assert index.all_aborted == [aborted(5)]
    index.append(aborted(6))
    index.close()


def test_the_search_is_complete_when_the_last_stable_offset_passes_the_range(tmp_path: Path) -> None:
    entries = [
        AbortedTxn(1, 0, 10, 5),  # the next one was open from 5 on when this one's marker came
        AbortedTxn(2, 5, 20, 15),
        AbortedTxn(3, 15, 30, 31),
    ]
    index = index_at(tmp_path, packed(*entries))
    assert index.collect_aborted(0, 5) == (entries[:1], True)
    assert index.collect_aborted(0, 11) == (entries[:2], True), "the second begins at 5, within the range"
    assert index.collect_aborted(0, 12) == (entries[:2], True)
    assert index.collect_aborted(0, 16) == (entries, True), "the third reaches back to 15"
    assert index.collect_aborted(11, 16) == (entries[1:], True)
    assert index.collect_aborted(0, 32) == (entries, False)
    assert index.collect_aborted(31, 40) == ([], False)
    index.close()


def test_truncation_drops_the_transactions_whose_marker_goes(tmp_path: Path) -> None:
    index = index_at(tmp_path, packed(aborted(5), aborted(9), aborted(12)))
    index.truncate_to(13)
    assert len(index) == 3
    index.truncate_to(9)
    assert index.all_aborted == [aborted(5)]
    index.append(aborted(7))
    index.truncate_to(0)
    assert index.is_empty
    assert (tmp_path / NAME).read_bytes() == b""
    index.close()


def test_reset_empties_the_file_also_of_a_torn_entry(tmp_path: Path) -> None:
    index = index_at(tmp_path, packed(aborted(5))[:20])
    with pytest.raises(CorruptIndex, match="20 bytes, which is not a multiple of 34"):
        index.check()
    index.reset()
    index.check()
    index.append(aborted(4))
    assert (tmp_path / NAME).read_bytes() == packed(aborted(4))
    index.close()


def test_a_move_takes_the_file_along_and_an_open_descriptor_stays_good(tmp_path: Path) -> None:
    index = index_at(tmp_path)
    index.append(aborted(5))
    index.move(f"{tmp_path}/{NAME}.deleted")
    index.append(aborted(9))
    assert index.all_aborted == [aborted(5), aborted(9)]
    assert [file.name for file in tmp_path.iterdir()] == [f"{NAME}.deleted"]
    assert index.delete_if_exists()
    assert list(tmp_path.iterdir()) == []


def test_a_move_without_a_file_only_changes_the_name(tmp_path: Path) -> None:
    index = index_at(tmp_path)
    index.move(f"{tmp_path}/other.txnindex")
    assert list(tmp_path.iterdir()) == []
    index.append(aborted(5))
    index.close()
    assert [file.name for file in tmp_path.iterdir()] == ["other.txnindex"]


def test_an_index_follows_its_directory(tmp_path: Path) -> None:
    (tmp_path / "a-0").mkdir()
    index = index_at(tmp_path / "a-0", packed(aborted(5)))
    (tmp_path / "a-0").rename(tmp_path / "a-0.x-delete")
    index.moved(f"{tmp_path}/a-0.x-delete/{NAME}")
    assert index.all_aborted == [aborted(5)]
    index.close()


@pytest.mark.parametrize(
    ("entries", "message"),
    [
        ([aborted(5)], "ends below the segment's start 10"),
        ([aborted(15), aborted(15)], "does not end above the entry before it, 15"),
        ([aborted(15), aborted(12)], "does not end above the entry before it, 15"),
        ([aborted(15, first_offset=16)], "does not begin before it ends"),
    ],
)
def test_entries_that_cannot_be_are_refused(tmp_path: Path, entries: list[AbortedTxn], message: str) -> None:
    index = index_at(tmp_path, packed(*entries), base_offset=10)
    with pytest.raises(CorruptIndex, match=message):
        index.check()
    index.close()


def test_an_entry_of_a_newer_version_is_refused(tmp_path: Path) -> None:
    index = index_at(tmp_path, ENTRY.pack(1, *aborted(5)))
    with pytest.raises(CorruptIndex, match="version 1"):
        index.collect_aborted(0, 10)
    index.close()


def test_a_file_cut_while_in_use_is_refused(tmp_path: Path) -> None:
    index = index_at(tmp_path, packed(aborted(5), aborted(9)))
    (tmp_path / NAME).write_bytes(packed(aborted(5)))
    with pytest.raises(CorruptIndex, match="cut while in use"):
        assert index.all_aborted
    index.close()


def test_every_truncation_inside_an_entry_is_refused(tmp_path: Path) -> None:
    whole = packed(aborted(5), aborted(9), aborted(12))
    for data in truncations(whole):
        index = index_at(tmp_path, data)
        if len(data) % ENTRY.size:
            with pytest.raises(CorruptIndex):
                index.check()
        else:
            index.check()
            assert packed(*index.all_aborted) == data
        index.close()


def test_a_mutation_is_refused_or_reads_as_it_stands(tmp_path: Path) -> None:
    read = 0
    for data in mutations(packed(aborted(5), aborted(9), aborted(12)), seed=3, rounds=1_500):
        index = index_at(tmp_path, data)
        try:
            index.check()
        except CorruptIndex:
            index.close()
            continue
        assert packed(*index.all_aborted) == data
        index.close()
        read += 1
    assert 0 < read < 1_500


def history(steps: list[tuple[int, int, int]]) -> list[AbortedTxn]:
    """Aborted transactions as a log makes them: markers grow, the stable offset lies at or below the marker's end."""
    entries = []
    last = 0
    for step, length, unstable in steps:
        last += step
        entries.append(AbortedTxn(1, max(0, last - length), last, max(0, last + 1 - unstable)))
    return entries


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.tuples(st.integers(1, 20), st.integers(0, 60), st.integers(0, 60)), max_size=60),
    st.integers(0, 600),
    st.integers(0, 500),
)
def test_the_search_finds_what_reading_everything_finds(
    tmp_path_factory: pytest.TempPathFactory, steps: list[tuple[int, int, int]], fetch_offset: int, span: int
) -> None:
    entries = history(steps * 4)  # more than one read of the file brings
    upper_bound = fetch_offset + span
    expected: tuple[list[AbortedTxn], bool] = ([], False)
    for entry in entries:
        if entry.last_offset >= fetch_offset and entry.first_offset < upper_bound:
            expected[0].append(entry)
        if entry.last_stable_offset >= upper_bound:
            expected = expected[0], True
            break
    index = index_at(tmp_path_factory.mktemp("index"), packed(*entries))
    assert index.collect_aborted(fetch_offset, upper_bound) == expected
    index.close()
