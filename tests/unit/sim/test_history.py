"""The judge of a run: each rule, broken once."""

from __future__ import annotations

import pytest

from ottla.records import NO_SEQUENCE, build_batch
from ottla.sim.history import History, PartitionHistory, Value, Violation, read_values
from ottla.types import Uuid

TOPIC_ID = Uuid(bytes(15) + b"\x07")


def value(number: int, *, is_idempotent: bool = True) -> Value:
    return Value("producer0", number, 1_000 + number, is_idempotent)


@pytest.fixture
def history() -> History:
    return History(lambda line: None, is_synced=True)


@pytest.fixture
def partition(history: History) -> PartitionHistory:
    made = history.partition("topic", TOPIC_ID, 0)
    history.on_sent(made, [value(number) for number in range(10)])
    return made


def batch(values: list[Value], base_offset: int) -> bytes:
    rows = [(offset, one.timestamp, None, one.encode(60), ()) for offset, one in enumerate(values, base_offset)]
    return build_batch(rows, base_sequence=NO_SEQUENCE)


def test_a_value_is_read_back_as_it_was_written() -> None:
    assert Value.decode(value(3).encode(200)) == value(3)
    with pytest.raises(Violation, match="nobody sent"):
        Value.decode(b"something else")
    with pytest.raises(Violation, match="nobody sent"):
        Value.decode(None)


def test_an_offset_has_one_value_for_ever(history: History, partition: PartitionHistory) -> None:
    history.on_acknowledged(partition, 5, [value(0), value(1)])
    history.on_shown(partition, 6, value(1))
    with pytest.raises(Violation, match="offset 6 is acknowledged as"):
        history.on_acknowledged(partition, 6, [value(2)])
    with pytest.raises(Violation, match="offset 5 is served as"):
        history.on_shown(partition, 5, value(3))


def test_a_value_of_an_idempotent_producer_has_one_offset(history: History, partition: PartitionHistory) -> None:
    history.on_acknowledged(partition, 0, [value(0)])
    with pytest.raises(Violation, match="at 0 and at 1"):
        history.on_shown(partition, 1, value(0))


def test_a_value_of_a_plain_producer_may_be_there_twice(history: History, partition: PartitionHistory) -> None:
    plain = value(20, is_idempotent=False)
    history.on_sent(partition, [plain, plain])
    history.on_shown(partition, 0, plain)
    history.on_shown(partition, 1, plain)
    assert partition.shown == {0: plain, 1: plain}


def test_what_nobody_sent_there_may_not_be_served(history: History, partition: PartitionHistory) -> None:
    with pytest.raises(Violation, match="which nobody sent there"):
        history.on_shown(partition, 0, value(11))


def test_what_a_follower_has_not_fetched_may_not_be_served(history: History, partition: PartitionHistory) -> None:
    partition.replicated_to = 4
    history.on_shown(partition, 3, value(0))
    with pytest.raises(Violation, match="its follower has only what is below 4"):
        history.on_shown(partition, 4, value(1))


def test_acknowledged_records_survive_a_restart(history: History, partition: PartitionHistory) -> None:
    history.on_acknowledged(partition, 0, [value(0), value(1)])
    found = {0: value(0), 1: value(1)}
    history.after_restart(partition, 0, 2, found, may_lose=False)
    with pytest.raises(Violation, match="acknowledged before, is lost"):
        history.after_restart(partition, 0, 1, {0: value(0)}, may_lose=False)
    with pytest.raises(Violation, match="no record at 1"):
        history.after_restart(partition, 0, 2, {0: value(0)}, may_lose=False)
    with pytest.raises(Violation, match="and was"):
        history.after_restart(partition, 0, 2, {0: value(0), 1: value(2)}, may_lose=True)
    with pytest.raises(Violation, match="begins at 1"):
        history.after_restart(partition, 1, 2, {1: value(1)}, may_lose=True)


def test_served_records_survive_a_restart_too(history: History, partition: PartitionHistory) -> None:
    history.on_shown(partition, 0, value(0))
    with pytest.raises(Violation, match="served before, is lost"):
        history.after_restart(partition, 0, 0, {}, may_lose=False)


def test_a_power_loss_may_take_the_end_and_offsets_are_then_new(history: History, partition: PartitionHistory) -> None:
    history.on_acknowledged(partition, 0, [value(0), value(1), value(2)])
    history.after_restart(partition, 0, 1, {0: value(0)}, may_lose=True)
    assert history.lost_count == 2
    assert partition.truncations == 1
    history.on_acknowledged(partition, 1, [value(2)])
    assert partition.known_end == 2


def test_deleted_records_may_be_gone(history: History, partition: PartitionHistory) -> None:
    history.on_acknowledged(partition, 0, [value(0), value(1)])
    partition.deleted_to = 1
    history.after_restart(partition, 1, 2, {1: value(1)}, may_lose=False)


def test_fetched_bytes_are_held_to_their_word(partition: PartitionHistory) -> None:
    data = batch([value(0), value(1)], 0) + batch([value(2)], 2)
    assert read_values(partition, data, position=1, high_watermark=3) == {1: value(1), 2: value(2)}
    assert read_values(partition, data[:-3], position=0, high_watermark=3) == {0: value(0), 1: value(1)}
    with pytest.raises(Violation, match="high watermark of 2"):
        read_values(partition, data, position=0, high_watermark=2)
    with pytest.raises(Violation, match="serves offset 4 where 3 is next"):
        read_values(partition, batch([value(3)], 4), position=3, high_watermark=9)
    late = batch([value(4)._replace(timestamp=5)], 3)
    changed = late.replace(b"|5|", b"|6|")
    with pytest.raises(Exception, match="crc"):
        read_values(partition, changed, position=3, high_watermark=9)
    partition.is_append_time = True
    with pytest.raises(Violation, match="timestamps of CreateTime"):
        read_values(partition, late, position=3, high_watermark=9)
