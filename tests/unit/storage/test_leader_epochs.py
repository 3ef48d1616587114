"""Leader epochs: Kafka's rules for questions, assignments and truncations, and what is on disk when."""

from __future__ import annotations

import logging
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ottla.storage.damage import DamagedFile
from ottla.storage.leader_epochs import EpochEntry, LeaderEpochCache, read_epochs
from ottla.world.system import SystemDisk
from tests.support.golden import golden_data_dir
from tests.support.mutation import mutations, truncations

SAMPLE = b"0\n3\n0 0\n2 11\n5 300\n"


def cache_at(directory: Path, data: bytes | None = None) -> LeaderEpochCache:
    path = directory / "leader-epoch-checkpoint"
    if data is not None:
        path.write_bytes(data)
    return LeaderEpochCache(SystemDisk(), str(path))


def on_disk(cache: LeaderEpochCache) -> list[EpochEntry]:
    return read_epochs(SystemDisk(), cache.path)


def test_kafkas_checkpoints_are_read_and_written_back_with_equal_bytes(tmp_path: Path) -> None:
    files = sorted(golden_data_dir(tmp_path / "golden").glob("*/leader-epoch-checkpoint"))
    assert len(files) == 25
    for file in files:
        written = LeaderEpochCache(SystemDisk(), str(tmp_path / "written"), exists=False)
        for entry in LeaderEpochCache(SystemDisk(), str(file)).entries:
            written.assign(*entry)
        assert (tmp_path / "written").read_bytes() == file.read_bytes()


def test_a_log_without_epochs_knows_nothing(tmp_path: Path) -> None:
    cache = cache_at(tmp_path)
    assert len(cache) == 0
    assert cache.latest_epoch is None
    assert cache.latest_entry is None
    assert cache.earliest_entry is None
    assert cache.epoch_for_offset(5) is None
    assert cache.end_offset_for(0, 100) == (-1, -1)
    assert cache.end_offset_for(-1, 100) == (-1, -1)
    assert list(tmp_path.iterdir()) == [], "the file comes with the first epoch"


def test_an_epoch_is_on_disk_when_assign_returns(tmp_path: Path) -> None:
    cache = cache_at(tmp_path)
    cache.assign(2, 6)
    assert cache.latest_epoch == 2
    assert on_disk(cache) == [(2, 6)]
    cache.assign(3, 8)
    assert (tmp_path / "leader-epoch-checkpoint").read_bytes() == b"0\n2\n2 6\n3 8\n"
    assert not cache.is_dirty


def test_the_latest_epoch_is_not_moved_forward_and_not_written_again(tmp_path: Path) -> None:
    cache = cache_at(tmp_path)
    cache.assign(2, 6)
    (tmp_path / "leader-epoch-checkpoint").unlink()
    cache.assign(2, 6)
    cache.assign(2, 9)
    assert cache.entries == [(2, 6)]
    assert list(tmp_path.iterdir()) == []


def test_the_latest_epoch_moves_back_when_it_began_earlier(tmp_path: Path) -> None:
    cache = cache_at(tmp_path, SAMPLE)
    cache.assign(5, 200)
    assert cache.entries == on_disk(cache) == [(0, 0), (2, 11), (5, 200)]


def test_an_epoch_that_wrote_nothing_makes_way_for_the_next(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    cache = cache_at(tmp_path, SAMPLE)
    with caplog.at_level(logging.WARNING):
        cache.assign(6, 300)
    assert cache.entries == [(0, 0), (2, 11), (6, 300)]
    assert caplog.records == [], "the leader of epoch 5 left no record, which is no conflict"


def test_entries_that_contradict_a_new_one_go_and_the_operator_is_told(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    cache = cache_at(tmp_path, SAMPLE)
    with caplog.at_level(logging.WARNING):
        cache.assign(1, 11)
    assert cache.entries == on_disk(cache) == [(0, 0), (1, 11)]
    assert "EpochEntry(epoch=5, start_offset=300)" in caplog.text


@pytest.mark.parametrize(("epoch", "start_offset"), [(-1, 0), (0, -1)])
def test_an_epoch_or_an_offset_below_zero_is_refused(tmp_path: Path, epoch: int, start_offset: int) -> None:
    with pytest.raises(ValueError, match="invalid partition leader epoch entry"):
        cache_at(tmp_path).assign(epoch, start_offset)


@pytest.mark.parametrize(
    ("requested", "answer"),
    [
        (-1, (-1, -1)),
        (0, (0, 11)),
        (1, (0, 11)),
        (2, (2, 300)),
        (3, (2, 300)),
        (5, (5, 345)),
        (6, (-1, -1)),
    ],
)
def test_an_epoch_ends_where_the_next_known_one_begins(tmp_path: Path, requested: int, answer: tuple[int, int]) -> None:
    assert cache_at(tmp_path, SAMPLE).end_offset_for(requested, 345) == answer


def test_an_epoch_below_all_known_ones_ends_where_the_first_begins(tmp_path: Path) -> None:
    cache = cache_at(tmp_path, b"0\n2\n4 100\n6 200\n")
    assert cache.end_offset_for(1, 345) == (1, 100)


@pytest.mark.parametrize(("offset", "epoch"), [(0, 0), (10, 0), (11, 2), (299, 2), (300, 5), (9999, 5)])
def test_an_offset_belongs_to_the_last_epoch_that_began_before_it(tmp_path: Path, offset: int, epoch: int) -> None:
    assert cache_at(tmp_path, SAMPLE).epoch_for_offset(offset) == epoch


def test_an_offset_before_the_first_epoch_belongs_to_none(tmp_path: Path) -> None:
    assert cache_at(tmp_path, b"0\n1\n4 100\n").epoch_for_offset(99) is None


def test_neighbours_of_an_epoch_are_found_whether_it_is_known_or_not(tmp_path: Path) -> None:
    cache = cache_at(tmp_path, SAMPLE)
    assert cache.entry(2) == (2, 11)
    assert cache.entry(3) is None
    assert cache.previous_entry(2) == cache.previous_entry(1) == (0, 0)
    assert cache.previous_entry(0) is None
    assert cache.next_entry(2) == cache.next_entry(4) == (5, 300)
    assert cache.next_entry(5) is None
    assert cache.earliest_entry == (0, 0)
    assert cache.latest_entry == (5, 300)


@pytest.mark.parametrize(("end_offset", "kept"), [(301, 3), (300, 2), (12, 2), (11, 1), (1, 1), (0, 0), (-1, 3)])
def test_truncation_at_the_end_forgets_epochs_that_begin_there_or_later(
    tmp_path: Path, end_offset: int, kept: int
) -> None:
    cache = cache_at(tmp_path, SAMPLE)
    cache.truncate_from_end(end_offset)
    assert cache.entries == [(0, 0), (2, 11), (5, 300)][:kept]
    assert cache.latest_epoch == ([None, 0, 2, 5][kept])
    assert cache.is_dirty == (kept < 3)


@pytest.mark.parametrize(
    ("start_offset", "entries"),
    [
        (0, [(0, 0), (2, 11), (5, 300)]),
        (5, [(0, 5), (2, 11), (5, 300)]),
        (11, [(2, 11), (5, 300)]),
        (12, [(2, 12), (5, 300)]),
        (9999, [(5, 9999)]),
    ],
)
def test_truncation_at_the_start_keeps_the_epoch_that_reaches_across(
    tmp_path: Path, start_offset: int, entries: list[tuple[int, int]]
) -> None:
    cache = cache_at(tmp_path, SAMPLE)
    cache.truncate_from_start(start_offset)
    assert cache.entries == entries
    assert cache.latest_epoch == 5
    assert cache.is_dirty == (start_offset > 0)


def test_truncation_below_the_first_epoch_changes_nothing(tmp_path: Path) -> None:
    cache = cache_at(tmp_path, b"0\n1\n4 100\n")
    cache.truncate_from_start(50)
    assert cache.entries == [(4, 100)]
    assert not cache.is_dirty


def test_a_truncation_reaches_the_disk_with_flush_and_until_then_nothing_is_missing_there(tmp_path: Path) -> None:
    cache = cache_at(tmp_path, SAMPLE)
    cache.truncate_from_end(12)
    assert on_disk(cache) == [(0, 0), (2, 11), (5, 300)]
    cache.flush()
    assert on_disk(cache) == cache.entries == [(0, 0), (2, 11)]
    assert not cache.is_dirty


def test_an_assignment_brings_an_earlier_truncation_to_disk(tmp_path: Path) -> None:
    cache = cache_at(tmp_path, SAMPLE)
    cache.truncate_from_end(12)
    cache.assign(7, 12)
    assert on_disk(cache) == [(0, 0), (2, 11), (7, 12)]
    assert not cache.is_dirty


def test_clearing_is_durable_only_when_asked(tmp_path: Path) -> None:
    cache = cache_at(tmp_path, SAMPLE)
    cache.clear()
    assert cache.entries == []
    assert len(on_disk(cache)) == 3
    cache.clear_and_flush()
    assert (tmp_path / "leader-epoch-checkpoint").read_bytes() == b"0\n0\n"
    assert cache.latest_epoch is None


def test_a_flush_after_the_partition_was_deleted_does_nothing(tmp_path: Path) -> None:
    (tmp_path / "a-0").mkdir()
    cache = cache_at(tmp_path / "a-0", SAMPLE)
    cache.truncate_from_end(12)
    (tmp_path / "a-0").rename(tmp_path / "gone")
    cache.flush()
    assert cache.is_dirty
    cache.move_to(str(tmp_path / "gone"))
    cache.flush()
    assert on_disk(cache) == [(0, 0), (2, 11)]


def test_entries_of_an_old_kafka_that_do_not_grow_are_healed(tmp_path: Path) -> None:
    cache = cache_at(tmp_path, b"0\n4\n0 0\n2 50\n1 20\n3 20\n")
    assert cache.entries == [(0, 0), (3, 20)]


@pytest.mark.parametrize("line", ["0", "0 0 0", "-1 0", "0 -1", "2147483648 0", "0 9223372036854775808", "a b", ""])
def test_damage_is_named_by_line(tmp_path: Path, line: str) -> None:
    with pytest.raises(DamagedFile, match="leader-epoch-checkpoint, line 4: expected an entry `epoch start_offset`"):
        cache_at(tmp_path, f"0\n2\n0 0\n{line}\n".encode())


def test_every_truncation_of_the_file_is_refused_except_the_empty_one(tmp_path: Path) -> None:
    for data in truncations(SAMPLE):
        if data:
            with pytest.raises(DamagedFile):
                cache_at(tmp_path, data)
    assert cache_at(tmp_path, b"").entries == []


def test_a_mutation_is_refused_or_read_and_always_grows(tmp_path: Path) -> None:
    read = 0
    for data in mutations(SAMPLE, seed=11, rounds=2_000):
        try:
            cache = cache_at(tmp_path, data)
        except DamagedFile:
            continue
        read += 1
        entries = cache.entries
        assert set(entries) <= set(on_disk(cache))
        assert all(old.epoch < new.epoch and old.start_offset < new.start_offset for old, new in pairwise(entries))
    assert 0 < read < 2_000


class Model:
    """Kafka's rules written down as they are told: a list that is walked."""

    def __init__(self) -> None:
        self.entries: list[tuple[int, int]] = []

    def assign(self, epoch: int, start: int) -> None:
        if self.entries and self.entries[-1][0] == epoch and start >= self.entries[-1][1]:
            return
        while self.entries and (self.entries[-1][0] >= epoch or self.entries[-1][1] >= start):
            self.entries.pop()
        self.entries.append((epoch, start))

    def truncate_from_end(self, end: int) -> None:
        while self.entries and self.entries[-1][1] >= end:
            self.entries.pop()

    def truncate_from_start(self, start: int) -> None:
        removed = []
        while self.entries and self.entries[0][1] <= start:
            removed.append(self.entries.pop(0))
        if removed:
            self.entries.insert(0, (removed[-1][0], start))

    def end_offset_for(self, requested: int, log_end: int) -> tuple[int, int]:
        if requested == -1:
            return -1, -1
        if self.entries and self.entries[-1][0] == requested:
            return requested, log_end
        higher = [entry for entry in self.entries if entry[0] > requested]
        lower = [entry for entry in self.entries if entry[0] <= requested]
        if not higher:
            return -1, -1
        return (lower[-1][0] if lower else requested), higher[0][1]


@settings(max_examples=150, deadline=None)
@given(
    st.lists(
        st.tuples(
            st.sampled_from(["assign", "truncate_from_end", "truncate_from_start"]),
            st.integers(0, 9),
            st.integers(0, 30),
        ),
        max_size=25,
    )
)
def test_any_history_gives_the_entries_and_answers_of_the_rules(
    tmp_path_factory: pytest.TempPathFactory, history: list[tuple[str, int, int]]
) -> None:
    cache = cache_at(tmp_path_factory.mktemp("epochs"))
    model = Model()
    for action, epoch, offset in history:
        arguments = (epoch, offset) if action == "assign" else (offset,)
        getattr(cache, action)(*arguments)
        getattr(model, action)(*arguments)
        assert cache.entries == model.entries
        assert cache.latest_epoch == (model.entries[-1][0] if model.entries else None)
    for requested in range(-1, 11):
        assert cache.end_offset_for(requested, 40) == model.end_offset_for(requested, 40)
    cache.flush()
    assert LeaderEpochCache(SystemDisk(), cache.path).entries == model.entries
