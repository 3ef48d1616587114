"""What the virtual network can do to connections, beyond what the contract asks of a network that works."""

from __future__ import annotations

from random import Random

import pytest

from ottla.sim import Pace, VirtualStream
from ottla.world import Stream, StreamHandler
from tests.unit.sim.pair import Pair


def test_bytes_are_cut_anywhere_and_the_seed_decides_where() -> None:
    def cuts(seed: int) -> list[int]:
        pair = Pair(seed)
        pair.caller.stream.send([bytes(20_000)])
        pair.pass_ms(100_000)
        assert len(pair.called.received) == 20_000
        return pair.called.counts

    assert cuts(3) == cuts(3)
    assert len({tuple(cuts(seed)) for seed in range(20)}) > 5


def test_parted_hosts_hear_nothing_until_they_are_joined_again() -> None:
    pair = Pair()
    pair.network.part(*pair.hosts)
    pair.caller.stream.send([b"are you there?"])
    pair.pass_ms(5_000)
    assert not pair.called.received
    assert not pair.caller.closed
    pair.network.heal()
    pair.pass_ms(2_000)
    assert pair.called.received == b"are you there?"


def test_a_call_between_parted_hosts_waits_and_then_times_out() -> None:
    pair = Pair()
    pair.network.part(*pair.hosts)
    with pytest.raises(TimeoutError):
        pair.call()
    assert pair.loop.now_us > 10_000_000
    pair.network.heal()
    pair.call()
    assert len(pair.accepted) == 2


def test_a_reset_is_told_at_both_ends() -> None:
    pair = Pair()
    pair.network.reset(pair.ends)
    pair.pass_ms(1)
    for end in (pair.caller, pair.called):
        assert [type(error) for error in end.closed] == [ConnectionResetError]


def test_a_half_open_connection_is_found_out_by_sending() -> None:
    pair = Pair()
    pair.network.open_half(pair.ends, told=1)
    pair.pass_ms(60_000)
    assert pair.called.closed
    assert not pair.caller.closed
    pair.caller.stream.send([b"hello?"])
    pair.pass_ms(120_000)
    assert [type(error) for error in pair.caller.closed] == [TimeoutError]


def test_a_silent_connection_tells_nobody_until_somebody_waits_in_vain() -> None:
    pair = Pair()
    pair.network.silence(pair.ends)
    pair.pass_ms(300_000)
    assert not pair.caller.closed
    assert not pair.called.closed
    pair.called.stream.send([b"hello?"])
    pair.pass_ms(120_000)
    assert not pair.caller.received
    assert [type(error) for error in pair.called.closed] == [TimeoutError]
    assert not pair.caller.closed


def test_a_host_without_power_is_silent_and_resets_old_connections_when_it_is_back() -> None:
    pair = Pair()
    pair.called.stream.send([b"on its way"])
    pair.worlds[1].life.end()
    pair.network.lose_power(pair.hosts[1])
    pair.caller.stream.send([b"hello?"])
    pair.pass_ms(10_000)
    assert not pair.caller.received, "what was on its way went with the power"
    assert not pair.caller.closed
    with pytest.raises(TimeoutError):
        pair.call()
    pair.network.gain_power(pair.hosts[1])
    pair.pass_ms(5_000)
    assert [type(error) for error in pair.caller.closed] == [ConnectionResetError]
    with pytest.raises(ConnectionRefusedError):
        pair.call()


def test_a_killed_process_closes_its_connections_and_what_it_sent_may_arrive() -> None:
    outcomes = set()
    for seed in range(40):
        pair = Pair(seed)
        pair.called.stream.send([b"last words"])
        pair.worlds[1].life.end()
        pair.network.end_life(pair.hosts[1])
        pair.pass_ms(10_000)
        assert len(pair.caller.closed) == 1
        outcomes.add((bytes(pair.caller.received), type(pair.caller.closed[0])))
        with pytest.raises(ConnectionRefusedError):
            pair.call()
    assert (b"last words", type(None)) in outcomes
    assert (b"", ConnectionResetError) in outcomes


def test_an_isolated_host_reaches_itself() -> None:
    pair = Pair()
    pair.network.isolate(pair.hosts[1])
    told: list[Stream | OSError] = []

    def on_connected(result: Stream | OSError) -> StreamHandler | None:
        told.append(result)
        return None

    pair.worlds[1].network.connect("localhost", 9092, on_connected)
    pair.caller.stream.send([b"outside"])
    pair.pass_ms(5_000)
    assert isinstance(told[0], VirtualStream)
    assert not pair.accepted[0].received
    pair.network.connect_again(pair.hosts[1])
    pair.pass_ms(5_000)
    assert pair.accepted[0].received == b"outside"


def test_connections_overtake_each_other() -> None:
    firsts = set()
    for seed in range(20):
        pair = Pair(seed)
        second = pair.call()
        pair.caller.stream.send([b"1"])
        second.stream.send([b"2"])
        pair.loop.run_until(lambda ends=pair.accepted: any(end.received for end in ends))  # type: ignore[misc]
        firsts.add(next(bytes(end.received) for end in pair.accepted if end.received))
        pair.pass_ms(5_000)
        assert [bytes(end.received) for end in pair.accepted] == [b"1", b"2"]
    assert firsts == {b"1", b"2"}


def test_a_buffer_that_is_changed_while_unsent_arrives_changed() -> None:
    """So an owner that breaks the rule is found out, as it would be by a real socket."""

    class Slow(Pace):
        def __init__(self, chance: Random) -> None:
            super().__init__(chance)
            self.window_bytes = 1_000
            self.packet_bytes = (1_000, 1_001)

    pair = Pair()
    pair.network.pace = Slow
    caller = pair.call()
    data = bytearray(5_000)
    caller.stream.send([data])
    assert caller.stream.unsent_bytes == 4_000
    data[4_999] = 7
    pair.pass_ms(10_000)
    assert pair.called.received == data
    assert pair.called.received[-1] == 7
