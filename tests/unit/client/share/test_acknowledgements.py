"""Acknowledgements as ranges: every offset once, in order, in as few bytes as is worth it."""

from __future__ import annotations

from random import Random

import pytest

from ottla.client.share.acknowledgements import GAP, Acknowledgements, AcknowledgeType, Range

ACCEPT, RELEASE, REJECT, RENEW = AcknowledgeType


def spread(ranges: list[Range]) -> dict[int, int]:
    """The types by offset that a broker reads from ranges."""
    found: dict[int, int] = {}
    for first, last, types in ranges:
        assert len(types) in (1, last - first + 1)
        for index, offset in enumerate(range(first, last + 1)):
            assert offset not in found
            found[offset] = types[index] if len(types) > 1 else types[0]
    return found


def test_one_type_for_all_is_said_once() -> None:
    acks = Acknowledgements(dict.fromkeys(range(5, 1005), ACCEPT))
    assert acks.ranges() == [Range(5, 1004, [ACCEPT])]


def test_offsets_that_are_not_neighbours_are_ranges_of_their_own() -> None:
    acks = Acknowledgements({1: ACCEPT, 2: ACCEPT, 7: ACCEPT})
    assert acks.ranges() == [Range(1, 2, [ACCEPT]), Range(7, 7, [ACCEPT])]


def test_neighbours_of_different_types_share_a_range() -> None:
    acks = Acknowledgements({3: ACCEPT, 4: RELEASE, 5: RELEASE, 6: GAP})
    assert acks.ranges() == [Range(3, 6, [ACCEPT, RELEASE, RELEASE, GAP])]


def test_a_long_run_of_one_type_stands_alone() -> None:
    types: dict[int, int] = {0: REJECT, **dict.fromkeys(range(1, 101), ACCEPT), 101: REJECT, 102: RENEW}
    assert Acknowledgements(types).ranges() == [
        Range(0, 0, [REJECT]),
        Range(1, 100, [ACCEPT]),
        Range(101, 102, [REJECT, RENEW]),
    ]


@pytest.mark.parametrize("seed", range(30))
def test_whatever_was_acknowledged_is_what_the_ranges_say(seed: int) -> None:
    chance = Random(seed)
    types = {
        offset: chance.choice((GAP, ACCEPT, RELEASE, REJECT)) if chance.random() < 0.3 else int(ACCEPT)
        for offset in range(300)
        if chance.random() < 0.95
    }
    ranges = Acknowledgements(types).ranges()
    assert spread(ranges) == types
    assert [one.first_offset for one in ranges] == sorted(one.first_offset for one in ranges)


def test_the_later_acknowledgement_of_an_offset_wins() -> None:
    acks = Acknowledgements({1: RELEASE, 2: RELEASE})
    acks.merge(Acknowledgements({2: ACCEPT}))
    assert acks.types == {1: RELEASE, 2: ACCEPT}
