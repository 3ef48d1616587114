"""`ottla/sim/checks/acknowledged.py`, on made-up histories: good ones pass, and of bad ones each kind is found."""

from __future__ import annotations

import pytest

from ottla.sim.checks import AcknowledgedRecords, FoundRecord, PartitionLog
from ottla.sim.history import Value, Violation

ALL, LEADER = -1, 1


def value(number: int, producer: str = "p", *, is_idempotent: bool = True) -> Value:
    return Value(producer, number, 1_000, is_idempotent)


def plain(number: int) -> Value:
    return value(number, "q", is_idempotent=False)


def log(*records: tuple[Value, int], epoch: int, start: int = 0) -> PartitionLog:
    found = {offset: FoundRecord(*record) for offset, record in enumerate(records, start)}
    return PartitionLog(start, start + len(records), epoch, found)


def history(*, acks: int = ALL, epoch: int = 1) -> AcknowledgedRecords:
    """Three records, numbered by their offsets, acknowledged in that epoch."""
    records = AcknowledgedRecords()
    for number in range(3):
        one = value(number) if acks == ALL else plain(number)
        records.on_sent("t-0", one)
        records.on_acknowledged("t-0", number, one, acks=acks, leader_epoch=epoch)
    return records


def test_a_log_as_it_was_promised_is_right_and_may_have_grown_and_been_cut_at_its_start() -> None:
    records = history()
    records.on_sent("t-0", value(3))
    records.on_shown("t-0", 2, value(2))
    for known in (
        log(*[(value(number), 1) for number in range(3)], epoch=1),
        log(*[(value(number), number) for number in range(4)], epoch=7),
        log((value(2), 1), epoch=1, start=2),
        log(epoch=9, start=10),
    ):
        records.judge("t-0", known)
    assert records.acknowledged_count == 3
    assert records.known_end("t-0") == 3
    assert records.known_end("t-1") == 0


@pytest.mark.parametrize("epoch", [1, 2])
def test_a_record_that_all_acknowledged_is_found_to_be_lost_whatever_the_epoch(epoch: int) -> None:
    with pytest.raises(Violation, match=r"t-0 ends at 2: .* at 2, acknowledged by all before, is lost"):
        history().judge("t-0", log((value(0), 1), (value(1), 1), epoch=epoch))


def test_a_record_that_was_replaced_is_found() -> None:
    records = history()
    records.on_sent("t-0", plain(9))
    with pytest.raises(Violation, match="was acknowledged by all there"):
        records.judge("t-0", log((value(0), 1), (value(1), 1), (plain(9), 2), epoch=2))


def test_a_record_that_was_shown_and_never_acknowledged_is_found_to_be_lost() -> None:
    records = AcknowledgedRecords()
    records.on_sent("t-0", plain(0))
    records.on_shown("t-0", 0, plain(0))
    with pytest.raises(Violation, match="shown before, is lost"):
        records.judge("t-0", log(epoch=5))


def test_an_unclean_election_may_lose_what_was_promised_and_invents_nothing() -> None:
    records = history()
    records.judge("t-0", log((value(0), 1), epoch=2), is_unclean=True)
    with pytest.raises(Violation, match="nobody sent there"):
        records.judge("t-0", log((value(77), 1), epoch=2), is_unclean=True)


def test_a_leaders_acknowledgement_is_lost_only_to_a_later_epoch() -> None:
    records = history(acks=LEADER, epoch=3)
    records.on_sent("t-0", plain(8))
    records.judge("t-0", log((plain(0), 3), (plain(8), 4), epoch=4))
    assert records.lost_count == 2, "one replaced, one beyond the end"
    with pytest.raises(Violation, match="there is nothing; now it is epoch 3"):
        records.judge("t-0", log((plain(0), 3), (plain(1), 3), epoch=3))
    with pytest.raises(Violation, match="of epoch 3"):
        records.judge("t-0", log((plain(0), 3), (plain(8), 3), (plain(2), 3), epoch=9))


def test_a_leaders_acknowledgement_is_lost_to_a_leader_that_was_replaced_and_leads_again() -> None:
    """Seed 2 of five nodes: epoch 0 had more than anybody knew of, epoch 1 acknowledged, epoch 2 has what 0 had."""
    records = history(acks=LEADER, epoch=1)
    records.on_sent("t-0", plain(8))
    records.judge("t-0", log((plain(0), 0), (plain(1), 0), (plain(8), 0), epoch=2))
    assert records.lost_count == 1
    with pytest.raises(Violation, match="of epoch 0; now it is epoch 1"):
        records.judge("t-0", log((plain(0), 0), (plain(1), 0), (plain(8), 0), epoch=1))


def test_two_leaders_may_acknowledge_one_offset_and_all_replicas_may_not() -> None:
    records = AcknowledgedRecords()
    for number, epoch in ((0, 1), (1, 2)):
        records.on_sent("t-0", plain(number))
        records.on_acknowledged("t-0", 0, plain(number), acks=LEADER, leader_epoch=epoch)
    records.judge("t-0", log((plain(1), 2), epoch=2))
    assert records.lost_count == 1
    records.on_acknowledged("t-0", 0, plain(1), acks=ALL, leader_epoch=2)
    with pytest.raises(Violation, match="acknowledged by all as"):
        records.on_acknowledged("t-0", 0, plain(0), acks=ALL, leader_epoch=2)


def test_what_is_shown_agrees_with_what_was_shown_and_acknowledged() -> None:
    records = history()
    for one in (plain(5), plain(6)):
        records.on_sent("t-0", one)
    with pytest.raises(Violation, match="was acknowledged by all there"):
        records.on_shown("t-0", 1, plain(5))
    records = AcknowledgedRecords()
    for one in (plain(5), plain(6)):
        records.on_sent("t-0", one)
    records.on_shown("t-0", 1, plain(5))
    with pytest.raises(Violation, match="was shown as"):
        records.on_shown("t-0", 1, plain(6))
    with pytest.raises(Violation, match="nobody sent"):
        records.on_shown("t-0", 2, plain(7))
    with pytest.raises(Violation, match="was shown there"):
        records.on_acknowledged("t-0", 1, plain(6), acks=ALL, leader_epoch=1)


def test_doubles_and_disorder_of_idempotent_producers_are_found_and_others_may_double() -> None:
    records = AcknowledgedRecords()
    for number in range(3):
        records.on_sent("t-0", value(number))
        records.on_sent("t-0", plain(number))
    records.judge("t-0", log((plain(0), 1), (value(0), 1), (plain(0), 1), (value(2), 1), epoch=1))
    for numbers in ((0, 0), (1, 0)):
        with pytest.raises(Violation, match="of that idempotent producer"):
            records.judge("t-0", log(*[(value(number), 1) for number in numbers], epoch=1))
