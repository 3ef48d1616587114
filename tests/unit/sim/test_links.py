"""Links between hosts: each trouble gives exactly the outcomes that TCP gives, and is healed by its name."""

from __future__ import annotations

from random import Random

import pytest

from ottla.sim import Pace
from ottla.sim.links import path_of
from tests.unit.sim.pair import Pair

RESEND_MS = 13_000
"""More than the longest wait for a packet that is sent again after the outages of these tests."""


def kinds(errors: list[OSError | None]) -> list[type]:
    return [type(error) for error in errors]


def test_a_cut_in_one_direction_lets_the_other_pass() -> None:
    pair = Pair()
    pair.network.links.cut(["one"], ["two"], is_one_way=True)
    pair.caller.stream.send([b"lost"])
    pair.called.stream.send([b"heard"])
    pair.pass_ms(5_000)
    assert not pair.called.received
    assert pair.caller.received == b"heard"
    pair.network.heal()
    pair.pass_ms(RESEND_MS)
    assert pair.called.received == b"lost"
    assert not pair.caller.closed
    assert not pair.called.closed


def test_whoever_gets_no_acknowledgement_gives_up_whichever_way_is_cut() -> None:
    """Bytes that arrive and are not acknowledged are as unanswered, to their sender, as bytes that never arrive."""
    for source, target in (("one", "two"), ("two", "one")):
        pair = Pair()
        pair.network.links.cut([source], [target], is_one_way=True)
        pair.caller.stream.send([b"hello?"])
        pair.pass_ms(25_000)
        assert not pair.caller.closed
        assert bool(pair.called.received) is (source == "two")
        pair.pass_ms(10_000)
        assert kinds(pair.caller.closed) == [TimeoutError]
        assert not pair.called.closed, "it has nothing to send, so it never learns"


def test_the_other_end_of_a_given_up_connection_is_half_open_and_reset_on_return() -> None:
    pair = Pair()
    pair.network.links.cut(["one"], ["two"])
    pair.caller.stream.send([b"hello?"])
    pair.pass_ms(40_000)
    assert kinds(pair.caller.closed) == [TimeoutError]
    pair.network.heal()
    pair.pass_ms(60_000)
    assert not pair.called.received
    assert not pair.called.closed, "nobody has told it"
    pair.called.stream.send([b"still there?"])
    pair.pass_ms(5_000)
    assert kinds(pair.called.closed) == [ConnectionResetError]


def test_a_reset_that_meets_a_cut_is_lost_and_the_end_stays_half_open() -> None:
    pair = Pair()
    pair.network.links.cut(["two"], ["one"], is_one_way=True)
    pair.worlds[1].life.end()
    pair.network.lose_power(pair.hosts[1])
    pair.network.gain_power(pair.hosts[1])
    pair.caller.stream.send([b"hello?"])
    pair.pass_ms(5_000)
    assert not pair.caller.closed, "the answer to its bytes cannot come"
    pair.network.heal()
    pair.pass_ms(60_000)
    assert len(pair.caller.closed) == 1


def test_an_idle_connection_outlives_any_cut() -> None:
    pair = Pair()
    pair.network.links.cut(["one"], ["two"])
    pair.pass_ms(3_600_000)
    pair.network.heal()
    pair.caller.stream.send([b"as if nothing had been"])
    pair.pass_ms(5_000)
    assert pair.called.received == b"as if nothing had been"


def test_bytes_arrive_when_they_are_sent_again_and_not_when_the_way_is_free() -> None:
    pair = Pair()
    begun_us = pair.loop.now_us
    pair.network.links.cut(["one"], ["two"])
    pair.caller.stream.send([b"hello?"])
    pair.pass_ms(3_500)
    pair.network.heal()
    pair.loop.run_until(lambda: bool(pair.called.received))
    # Sent again after 0.2, 0.6, 1.4, 3.0 and 6.2 seconds.
    assert pair.loop.now_us - begun_us == pytest.approx(6_200_000, abs=1_000)


def test_a_window_stays_full_while_acknowledgements_are_lost() -> None:
    class Small(Pace):
        def __init__(self, chance: Random) -> None:
            super().__init__(chance)
            self.window_bytes = 1_000

    pair = Pair()
    pair.network.pace = Small
    caller = pair.call()
    pair.network.links.cut(["two"], ["one"], is_one_way=True)
    caller.stream.send([bytes(3_000)])
    pair.pass_ms(10_000)
    assert len(pair.called.received) == 1_000
    pair.network.heal()
    pair.pass_ms(RESEND_MS)
    assert len(pair.called.received) == 3_000


def test_no_connection_is_made_over_a_way_that_is_cut_in_either_direction() -> None:
    for source, target in (("one", "two"), ("two", "one")):
        pair = Pair()
        pair.network.links.cut([source], [target], is_one_way=True)
        with pytest.raises(TimeoutError):
            pair.call()
        pair.network.heal()
        pair.call()


def test_sides_of_a_partition_hear_only_their_own_and_who_is_on_none_hears_all() -> None:
    pair = Pair()
    for name in ("three", "four"):
        pair.network.add_host(name)
    pair.network.links.partition(["one"], ["two", "three"])
    cut = {
        (one.name, other.name)
        for one in pair.network.hosts.values()
        for other in pair.network.hosts.values()
        if pair.network.is_blocked(one, other)
    }
    assert cut == {("one", "two"), ("two", "one"), ("one", "three"), ("three", "one")}


@pytest.mark.parametrize(
    ("trouble", "one_hears", "one_is_heard"),
    [("isolate", False, False), ("mute", True, False), ("deafen", False, True)],
)
def test_a_host_is_isolated_muted_or_deaf_towards_all_and_those_to_come(
    trouble: str, *, one_hears: bool, one_is_heard: bool
) -> None:
    pair = Pair()
    name = getattr(pair.network.links, trouble)("one")
    one, two, late = *pair.hosts, pair.network.add_host("late")
    for other in (two, late):
        assert pair.network.is_blocked(other, one) is not one_hears
        assert pair.network.is_blocked(one, other) is not one_is_heard
        assert not pair.network.is_blocked(two, late)
    assert not pair.network.is_blocked(one, one)
    pair.network.heal(name)
    assert not pair.network.is_blocked(one, two)
    assert pair.network.is_whole


def test_troubles_are_healed_one_by_one() -> None:
    pair = Pair()
    links = pair.network.links
    both = links.cut(["one"], ["two"])
    to_two = links.cut(["one"], ["two"], is_one_way=True)
    slow = links.slow("one", "two", delay_us=(10, 10))
    assert links.names == [both, to_two, slow]
    pair.network.heal(both)
    assert [pair.network.is_blocked(*pair.hosts), pair.network.is_blocked(*pair.hosts[::-1])] == [True, False]
    pair.network.heal(to_two)
    assert not pair.network.is_blocked(*pair.hosts)
    assert links.names == [slow]
    pair.network.heal(slow)
    assert links.names == []
    assert not links.has_slow
    with pytest.raises(KeyError, match="no trouble is named 'storm'"):
        pair.network.heal("storm")


def test_a_link_that_comes_and_goes_is_up_and_down_by_turns_until_it_is_healed() -> None:
    pair = Pair()
    name = pair.network.links.flap("one", "two", up_ms=100, down_ms=300)
    seen = []
    for _ in range(12):
        pair.pass_ms(50)
        seen.append(pair.network.is_blocked(*pair.hosts))
        pair.pass_ms(50)
    assert seen == 3 * [True, True, True, False]
    pair.network.heal(name)
    assert not pair.network.is_blocked(*pair.hosts)
    pair.pass_ms(2_000)
    assert not pair.network.is_blocked(*pair.hosts)


def test_a_flapping_link_may_miss_every_packet_that_is_sent_again() -> None:
    """Up for the first 50 of every 800 ms, and the packet comes at 0.2, 0.6, 1.4, 3.0, ... seconds."""
    pair = Pair()
    pair.network.links.flap("one", "two", up_ms=50, down_ms=750)
    pair.caller.stream.send([b"hello?"])
    pair.pass_ms(35_000)
    assert not pair.called.received
    assert kinds(pair.caller.closed) == [TimeoutError]
    pair.network.heal()
    pair.call()


def test_a_slow_link_delays_one_direction_and_not_the_other() -> None:
    pair = Pair()
    pair.network.links.slow("one", "two", delay_us=(3_000_000, 3_000_000), is_one_way=True)
    pair.caller.stream.send([b"slow"])
    pair.called.stream.send([b"quick"])
    pair.pass_ms(2_000)
    assert pair.caller.received == b"quick"
    assert not pair.called.received
    pair.pass_ms(2_500)
    assert pair.called.received == b"slow"
    begun_us = pair.loop.now_us
    pair.call()
    assert pair.loop.now_us - begun_us > 3_000_000, "a connection takes a round trip"


def test_connections_share_the_bandwidth_of_a_link() -> None:
    pair = Pair()
    second = pair.call()
    pair.network.links.slow("one", "two", bytes_per_second=1_000)
    pair.caller.stream.send([bytes(4_000)])
    second.stream.send([bytes(4_000)])
    pair.pass_ms(6_000)
    arrived = sum(len(end.received) for end in pair.accepted)
    assert arrived < 6_500
    pair.pass_ms(4_000)
    assert sum(len(end.received) for end in pair.accepted) == 8_000


def test_a_broken_path_holds_up_some_connections_between_two_hosts_and_lets_the_others_pass() -> None:
    pair = Pair()
    ends = [pair.caller, *(pair.call() for _ in range(20))]
    pair.pass_ms(1_000)
    pair.network.links.stall("one", "two", path=1)
    for end in ends:
        end.stream.send([b"hello"])
    pair.pass_ms(5_000)
    heard = [bool(other.received) for other in pair.accepted]
    assert {True, False} == set(heard)
    assert heard == [path_of(end.stream.number) == 0 for end in ends]
    pair.network.heal("one <-> two path 1")
    pair.pass_ms(RESEND_MS)
    assert all(other.received == b"hello" for other in pair.accepted)
    assert not any(end.closed for end in ends)
