"""A member that names one assignment strategy twice: it counts once, in a group of any protocol."""

from __future__ import annotations

from ottla.coordinator.group.classic.member import protocols_of
from ottla.wire.messages.join_group import JoinGroupRequestProtocol
from tests.unit.coordinator.group.test_classic_failures import Play


def test_a_group_whose_only_member_names_its_strategy_twice_has_that_strategy() -> None:
    play = Play()
    told = play.all("enter a protocols=range:t,range:t,sticky:t")
    assert told == ["a: generation 1 consumer range as a, led by a, with a"]
    assert play.group is not None
    assert play.group.select_protocol() == "range"


def test_of_a_strategy_that_is_named_twice_the_first_metadata_is_kept() -> None:
    asked = [JoinGroupRequestProtocol("range", b"1"), JoinGroupRequestProtocol("sticky", b"2")]
    assert protocols_of([*asked, JoinGroupRequestProtocol("range", b"3")]) == (("range", b"1"), ("sticky", b"2"))
