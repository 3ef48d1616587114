"""`ottla/sim/content.py`: what of a file's bytes a power loss may leave, and that it does leave each of these."""

from __future__ import annotations

from collections.abc import Callable
from random import Random

from hypothesis import given, settings
from hypothesis import strategies as st

from ottla.sim.content import SECTOR, Content

SEEDS = range(300)


def outcomes(prepare: Callable[[Content], None]) -> set[bytes]:
    """Every content that a power loss after `prepare` leaves, over the seeds."""
    found = set()
    for seed in SEEDS:
        content = Content()
        prepare(content)
        content.lose(Random(seed))
        found.add(bytes(content.seen))
    return found


def test_a_write_of_one_sector_survives_or_vanishes_and_its_size_goes_its_own_way() -> None:
    def prepare(content: Content) -> None:
        content.write(0, b"a" * 100)

    assert outcomes(prepare) == {b"", bytes(100), b"a" * 100}


def test_a_write_within_the_file_survives_or_vanishes_whole_when_it_fits_a_sector() -> None:
    def prepare(content: Content) -> None:
        content.write(0, b"a" * SECTOR)
        content.sync()
        content.write(100, b"b" * 100)

    old = b"a" * SECTOR
    assert outcomes(prepare) == {old, old[:100] + b"b" * 100 + old[200:]}


def test_a_large_write_is_kept_lost_and_torn_in_every_way() -> None:
    sectors = 8

    def prepare(content: Content) -> None:
        content.write(0, b"o" * sectors * SECTOR)
        content.sync()
        content.write(0, b"n" * sectors * SECTOR)

    found = set()
    for outcome in outcomes(prepare):
        assert len(outcome) == sectors * SECTOR
        letters = [outcome[sector * SECTOR : (sector + 1) * SECTOR] for sector in range(sectors)]
        assert all(letter in (b"o" * SECTOR, b"n" * SECTOR) for letter in letters), "a sector is written whole"
        found.add("".join(chr(letter[0]) for letter in letters))
    assert "n" * sectors in found
    assert "o" * sectors in found
    heads = {"n" * count + "o" * (sectors - count) for count in range(1, sectors)}
    assert heads <= found, "every torn head occurs"
    assert any("on" in pattern for pattern in found), "a later sector without an earlier one occurs"


def test_a_file_may_have_grown_and_hold_zeros_where_its_data_did_not_arrive() -> None:
    def prepare(content: Content) -> None:
        content.write(0, b"a" * SECTOR)
        content.sync()
        content.write(SECTOR, b"b" * 2 * SECTOR)

    old = b"a" * SECTOR
    assert outcomes(prepare) == {
        old,
        old + bytes(2 * SECTOR),
        old + b"b" * SECTOR + bytes(SECTOR),
        old + bytes(SECTOR) + b"b" * SECTOR,
        old + b"b" * 2 * SECTOR,
    }


def test_a_later_write_to_a_sector_never_arrives_without_the_earlier_one() -> None:
    def prepare(content: Content) -> None:
        content.resize(SECTOR)
        content.sync()
        content.write(0, b"a")
        content.write(1, b"b")

    assert {outcome[:2] for outcome in outcomes(prepare)} == {b"\0\0", b"a\0", b"ab"}


def test_an_unsynced_truncation_may_arrive_or_not_or_zero_the_rest_of_its_sector() -> None:
    def prepare(content: Content) -> None:
        content.write(0, b"a" * 3 * SECTOR)
        content.sync()
        content.resize(SECTOR + 100)

    cut = b"a" * (SECTOR + 100)
    assert outcomes(prepare) == {b"a" * 3 * SECTOR, cut, cut + bytes(SECTOR - 100) + b"a" * SECTOR}


def test_what_is_written_behind_a_lost_truncation_is_lost_with_it() -> None:
    """The old blocks are still the file's: the new data went to blocks that no size leads to."""

    def prepare(content: Content) -> None:
        content.write(0, b"o" * 4 * SECTOR)
        content.sync()
        content.resize(SECTOR)
        content.write(SECTOR, b"n" * SECTOR)

    old, new = b"o" * SECTOR, b"n" * SECTOR
    assert outcomes(prepare) == {old * 4, old, old + bytes(SECTOR), old + new}


def test_the_end_cut_off_does_not_come_back_when_the_file_grows_again() -> None:
    def prepare(content: Content) -> None:
        content.write(0, b"o" * 100)
        content.sync()
        content.resize(10)
        content.resize(50)
        content.sync()
        content.resize(60)

    kept = b"o" * 10 + bytes(40)
    assert outcomes(prepare) == {kept, kept + bytes(10)}


def test_after_a_failed_sync_a_later_one_does_not_bring_the_data_back() -> None:
    found = set()
    for seed in SEEDS:
        content = Content()
        content.write(0, b"a" * 2 * SECTOR)
        content.fail_sync(Random(seed))
        assert content.seen == b"a" * 2 * SECTOR, "the node still sees it"
        content.write(2 * SECTOR, b"b")
        content.sync()
        content.lose(Random(seed))
        assert len(content.seen) == 2 * SECTOR + 1
        assert content.seen[-1:] == b"b", "what the later sync was for is there"
        found.add(bytes(content.seen[: 2 * SECTOR]))
    assert found == {
        first + second for first in (bytes(SECTOR), b"a" * SECTOR) for second in (bytes(SECTOR), b"a" * SECTOR)
    }


Change = tuple[str, int, int]
changes = st.lists(
    st.one_of(
        st.tuples(st.just("write"), st.integers(0, 6 * SECTOR), st.integers(1, 4 * SECTOR)),
        st.tuples(st.just("resize"), st.integers(0, 8 * SECTOR), st.just(0)),
        st.tuples(st.just("sync"), st.just(0), st.just(0)),
    ),
    max_size=12,
)


@settings(max_examples=300, deadline=None)
@given(changes, st.integers(0, 2**32))
def test_nothing_but_what_was_written_and_zeros_is_left_and_what_was_synced_and_not_touched_since_stays(
    steps: list[Change], seed: int
) -> None:
    content = Content()
    model = bytearray()
    synced = b""
    possible: list[set[int]] = []  # for each position, every byte that was there since the last sync
    sizes = {0}
    touched: set[int] = set()  # where synced bytes were overwritten or cut since
    for number, (what, position, size) in enumerate(steps):
        if what == "sync":
            content.sync()
            synced = bytes(model)
            possible = [{byte} for byte in synced]
            sizes = {len(synced)}
            touched = set()
            continue
        if what == "write":
            data = bytes([number % 250 + 1]) * size
            content.write(position, data)
            model.extend(bytes(max(0, position - len(model))))
            model[position : position + size] = data
            touched.update(range(position, position + size))
        else:
            content.resize(position)
            model = model[:position] + bytes(max(0, position - len(model)))
            touched.update(range(position, len(synced)))
        sizes.add(len(model))
        possible += [set() for _ in range(len(model) - len(possible))]
        for place, byte in enumerate(model):
            possible[place].add(byte)
        assert content.seen == model
    content.lose(Random(seed))
    assert len(content.seen) in sizes
    for place, byte in enumerate(content.seen):
        assert byte == 0 or byte in possible[place], place
    for place in set(range(len(synced))) - touched:
        assert content.seen[place] == synced[place], place


@settings(max_examples=100, deadline=None)
@given(st.lists(st.tuples(st.integers(1, 3 * SECTOR), st.booleans()), max_size=30), st.integers(0, 2**32))
def test_a_log_keeps_all_that_was_synced_and_begins_as_it_was_written(
    appends: list[tuple[int, bool]], seed: int
) -> None:
    content = Content()
    synced_size = 0
    for number, (size, is_synced) in enumerate(appends):
        content.write(len(content.seen), bytes([number + 1]) * size)
        if is_synced:
            content.sync()
            synced_size = len(content.seen)
    written = bytes(content.seen)
    content.lose(Random(seed))
    assert synced_size <= len(content.seen) <= len(written)
    assert content.seen[:synced_size] == written[:synced_size]
    assert all(byte in (0, there) for byte, there in zip(content.seen, written, strict=False))


def test_a_loss_with_nothing_pending_draws_nothing_and_changes_nothing() -> None:
    content = Content()
    content.write(0, b"data")
    content.sync()
    chance = Random(7)
    state = chance.getstate()
    assert content.lose(chance) == ""
    assert chance.getstate() == state
    assert content.seen == b"data"
