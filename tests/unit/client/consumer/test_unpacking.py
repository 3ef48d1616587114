"""`ottla/client/consumer/unpacking.py`: the same sections in the same order, whoever decompresses them."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import pytest

from ottla.client.consumer import unpacking
from ottla.client.consumer.unpacking import Helper, Unpacking
from ottla.errors import CorruptMessage
from ottla.records import HEADER_SIZE, Batch, Codec, Record, batches, build_batch
from tests.unit.records.samples import only, sealed

Work = Callable[[], object]


def compressed(count: int, codec: Codec = Codec.LZ4, size: int = 2000) -> list[Batch]:
    """Batches that say which of them they are."""
    data = b"".join(
        build_batch([Record(number, 5, b"%d" % number, bytes(size + number))], codec=codec) for number in range(count)
    )
    return list(batches(data))


def sections(found: list[Batch]) -> list[bytes]:
    return [batch.payload() for batch in found]


@pytest.fixture(autouse=True)
def a_portion_is_a_batch(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(unpacking, "PORTION_BYTES", 1)


@pytest.mark.parametrize("codec", list(Codec), ids=lambda codec: codec.label)
def test_sections_are_those_that_the_batches_hold(codec: Codec) -> None:
    found = compressed(20, codec)
    with ThreadPoolExecutor(1) as pool:
        unpacked = Unpacking(found, Helper(pool.submit))
        assert [bytes(unpacked.section(index)) for index in range(20)] == sections(found)


def test_a_helper_that_never_comes_is_not_waited_for() -> None:
    found = compressed(10)
    hired: list[Work] = []
    unpacked = Unpacking(found, Helper(hired.append))
    assert [unpacked.section(index) for index in range(10)] == sections(found)
    assert len(hired) == 1
    hired[0]()  # and one that comes too late has nothing to do


def test_whoever_has_nothing_to_do_takes_the_next_batch(monkeypatch: pytest.MonkeyPatch) -> None:
    """While the helper is held up at the first batch, the one who asks for it does all others, and then waits."""
    found = compressed(5)
    expected = sections(found)
    is_begun, may_go_on = threading.Event(), threading.Event()
    done_by: dict[int, str] = {}
    plain = Batch.payload

    def noted(batch: Batch) -> bytes:
        index = batch.base_offset
        done_by[index] = threading.current_thread().name
        if index == 0:
            is_begun.set()
            assert may_go_on.wait(10)
        elif index == 4:
            may_go_on.set()
        return plain(batch)

    monkeypatch.setattr(Batch, "payload", noted)

    def hire(work: Work) -> None:
        threading.Thread(target=work, name="helper", daemon=True).start()
        assert is_begun.wait(10)

    unpacked = Unpacking(found, Helper(hire))
    assert [unpacked.section(index) for index in range(5)] == expected
    own = threading.current_thread().name
    assert done_by == {0: "helper", 1: own, 2: own, 3: own, 4: own}


def test_no_more_is_ready_than_there_is_room_for_and_the_helper_is_hired_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(unpacking, "READY_BYTES_MAX", 10_000)
    found = compressed(40)
    expected = sections(found)
    hires: list[int] = []
    ready: list[int] = []

    def hire(work: Work) -> None:
        work()  # as fast as a helper can be
        hires.append(1)
        ready.append(helper.ready_bytes)

    helper = Helper(hire)
    unpacked = Unpacking(found, helper)
    for index in range(40):
        assert unpacked.section(index) == expected[index]
    assert helper.ready_bytes == 0
    assert len(hires) > 5
    assert max(ready) < 10_000 + len(expected[-1])


def test_a_batch_that_is_no_stream_is_told_in_its_turn() -> None:
    found = compressed(6)
    damaged = bytearray(found[3].data)
    damaged[HEADER_SIZE : HEADER_SIZE + 4] = b"none"
    found[3] = only(sealed(damaged))
    unpacked = Unpacking(found, Helper(lambda work: work()))
    for index in range(3):
        assert unpacked.section(index) == found[index].payload()
    with pytest.raises(CorruptMessage, match="magic bytes"):
        unpacked.section(3)
    assert unpacked.section(4) == found[4].payload()


def test_once_closed_nothing_is_begun() -> None:
    found = compressed(6)
    hired: list[Work] = []
    unpacked = Unpacking(found, Helper(hired.append))
    unpacked.section(0)
    unpacked.close()
    hired[0]()
    assert unpacked._ready == {}


def test_nobody_is_hired_for_few_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()
    hired: list[Work] = []
    few = compressed(10)
    unpacked = Unpacking(few, Helper(hired.append))
    assert [unpacked.section(index) for index in range(10)] == sections(few)
    assert hired == []


def test_two_threads_never_lose_a_batch_between_them(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(unpacking, "READY_BYTES_MAX", 6_000)
    found = compressed(60, Codec.SNAPPY)
    expected = sections(found)
    with ThreadPoolExecutor(1) as pool:
        for _ in range(100):
            unpacked = Unpacking(found, Helper(pool.submit))
            assert [unpacked.section(index) for index in range(60)] == expected


def test_what_has_arrived_is_unpacked_before_anybody_asks_and_in_the_order_of_arrival() -> None:
    hired: list[Work] = []
    helper = Helper(hired.append)
    first, second = compressed(3), compressed(4)
    unpackings = [Unpacking(first, helper), Unpacking(second, helper)]
    assert len(hired) == 1, "one thread helps with all of it"
    hired[0]()
    assert [sorted(one._ready) for one in unpackings] == [[0, 1, 2], [0, 1, 2, 3]]
    assert [unpackings[1].section(index) for index in range(4)] == sections(second)
    unpackings[0].close()
    assert helper.ready_bytes == 0, "what is let go of without being asked for makes room as well"


def test_a_section_that_was_given_is_given_again_to_who_begins_anew() -> None:
    """A bad value makes `poll_arrow` decode its batches once more, up to that value."""
    found = compressed(4)
    unpacked = Unpacking(found, Helper(lambda work: work()))
    for _ in range(2):
        assert [unpacked.section(index) for index in range(4)] == sections(found)
