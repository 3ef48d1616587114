"""`ottla/sim/checks/watermarks.py`, on made-up histories."""

from __future__ import annotations

import pytest

from ottla.sim.checks import Watermarks
from ottla.sim.history import Violation


def test_offsets_that_grow_and_those_of_another_life_or_replica_are_right() -> None:
    marks = Watermarks()
    marks.observe("one life 1", "t-0", high_watermark=5, last_stable_offset=3, log_start_offset=0)
    marks.observe("one life 1", "t-0", high_watermark=5, last_stable_offset=5, log_start_offset=5)
    marks.observe("one life 1", "t-0", high_watermark=9)
    marks.observe("two life 1", "t-0", high_watermark=4, last_stable_offset=2, log_start_offset=0)
    marks.observe("one life 2", "t-0", high_watermark=0)
    marks.observe("one life 1", "t-1", high_watermark=0)
    assert marks.observation_count == 6


@pytest.mark.parametrize(
    ("name", "word"),
    [
        ("high_watermark", "high watermark"),
        ("last_stable_offset", "last stable offset"),
        ("log_start_offset", "log start offset"),
    ],
)
def test_an_offset_that_goes_back_is_found(name: str, word: str) -> None:
    marks = Watermarks()
    marks.observe("one life 1", "t-0", **{name: 7})
    marks.observe("one life 1", "t-0")
    with pytest.raises(Violation, match=f"the {word} of t-0 at one life 1 is 6 and was 7"):
        marks.observe("one life 1", "t-0", **{name: 6})


def test_offsets_above_the_high_watermark_are_found() -> None:
    with pytest.raises(Violation, match="begins at 6"):
        Watermarks().observe("one life 1", "t-0", high_watermark=5, log_start_offset=6)
    with pytest.raises(Violation, match="stable to 6"):
        Watermarks().observe("one life 1", "t-0", high_watermark=5, last_stable_offset=6)
